//! Wire formats: bytes to checked types and back.
//!
//! [`Packet::parse`] reads a packet once and checks all that can be checked without knowing the
//! connection; [`packet::emit`] writes one, its payload copied and summed on the way. What nearly all
//! packets are takes fewer steps and words: [`packet::read`] and [`Headers::emit`]. Where headers and payload
//! lie apart there are [`packet::read_apart`] and [`Headers::emit_head`].

pub mod arp;
pub mod checksum;
pub mod error;
pub mod ethernet;
mod family;
pub mod fast_open;
pub mod icmp;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod ndp;
pub mod options;
pub mod packet;
mod plain;
pub mod seq;
pub mod tcp;
mod words;

#[cfg(test)]
mod tests;

pub use checksum::ChecksumPolicy;
pub use error::{EmitError, Layer, OptionError, ParseError};
pub use fast_open::{FastOpenCookie, FastOpenForm, FastOpenOption};
pub use icmp::{IcmpError, IcmpErrorKind, IcmpMessage, IcmpPacket, QuotedSegment};
pub use ip::{Ecn, IpHeader};
pub use ndp::NdpMessage;
pub use options::{OptionPolicy, SackBlock, SackBlocks, TcpOptions, Timestamps};
pub use packet::{EmitPayload, HeadChecksum, Packet};
pub use plain::{Headers, PlainSegment};
pub use seq::Seq;
pub(crate) use tcp::{Beside, RareHeader};
pub use tcp::{Flags, PlainHeader, TcpHeader};
