//! How to open an interface for AF_XDP.

use super::{AttachMode, CopyMode};
use narrows_congestion::Duration;

/// How to attach the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attach {
    /// In native mode if the driver can, else in SKB mode.
    #[default]
    Auto,
    /// So and not otherwise.
    As(AttachMode),
}

/// What to make of a TCP segment that has the sum of its pseudo-header in place of its checksum: a
/// kernel in this machine left the checksum to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartialChecksums {
    /// Accept them on a veth; elsewhere drop them as what they are, frames with a wrong checksum.
    #[default]
    Auto,
    /// Take them as they are: they never were on a wire. On one, a damaged frame looks so in one
    /// case of 65,536.
    Accept,
    /// The first ends the device with an error that says how to have them complete.
    Refuse,
}

/// How to open an interface.
#[derive(Clone, Debug)]
pub struct XdpConfig {
    /// The first queue to open.
    pub queue: u32,
    /// How to attach the program.
    pub attach: Attach,
    /// Zero-copy or not.
    pub copy: CopyMode,
    /// Frames of the receive ring, a power of two: what the kernel keeps for us when we are slow.
    pub receive_ring: u32,
    /// Frames of the transmit ring, a power of two.
    pub transmit_ring: u32,
    /// Frames that the kernel sends per call in copy mode, 32 at least and `transmit_ring` at most
    /// (from Linux 6.17 on; 32 before).
    pub transmit_budget: u32,
    /// Incomplete checksums.
    pub partial_checksums: PartialChecksums,
    /// How long to try again when the queue is in use, or the interface runs another program: a
    /// socket that was closed lets go of its queue some 200 ms later, and a program may outlive
    /// the process that attached it by as much.
    pub patience: Duration,
}

impl Default for XdpConfig {
    fn default() -> Self {
        Self {
            queue: 0,
            attach: Attach::Auto,
            copy: CopyMode::Auto,
            receive_ring: 2048,
            transmit_ring: 1024,
            transmit_budget: 256,
            partial_checksums: PartialChecksums::Auto,
            patience: Duration::from_millis(1000),
        }
    }
}
