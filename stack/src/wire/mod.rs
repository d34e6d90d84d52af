//! Wire formats: bytes to checked types and back.

pub mod ip;
pub mod options;
pub mod seq;
pub mod tcp;

pub use ip::{Ecn, IpHeader};
pub use options::{SackBlock, SackBlocks, TcpOptions, Timestamps};
pub use seq::Seq;
pub use tcp::{Flags, TcpHeader};

/// One TCP segment in its IP packet. `P` is the payload: borrowed bytes on a live device, a
/// synthetic range in the simulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<P> {
    /// The IP header.
    pub ip: IpHeader,
    /// The TCP header and options.
    pub tcp: TcpHeader,
    /// The payload.
    pub payload: P,
}
