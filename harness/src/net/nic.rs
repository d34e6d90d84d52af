//! A host's network interface: the queue between the host and its link.
//!
//! Models the depth that a host sees (queueing discipline and ring as one queue, first in, first
//! out). When it is full the packet goes back to the host as a local drop, as ENOBUFS does.
//! The send overhead is a random time before the first bit, each value from zero to its maximum
//! equally likely; it breaks the lock-step of hosts with equal links, as ns-2's `overhead_`
//! does, and does not lower the rate of a busy NIC. Leaves out: interrupt coalescing, segmentation
//! offload, separate rings.

use crate::sim::time::SimTime;

use super::buffer::{Capacity, InService};

/// A NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicSpec {
    /// What its queue holds.
    pub capacity: Capacity,
    /// Whether the packet on the wire counts.
    pub in_service: InService,
    /// Greatest send overhead; zero for none.
    pub overhead: SimTime,
}

impl NicSpec {
    /// A queue of `capacity`, without overhead.
    pub const fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            in_service: InService::Counted,
            overhead: SimTime::ZERO,
        }
    }
}

/// What a host may know of its NIC before it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicRoom {
    /// Packets that are certain to be taken; 0 also where the limit is in bytes and is reached.
    pub packets: u32,
    /// Bytes that are certain to be taken, counted as the NIC counts them.
    pub bytes: u64,
    /// Packets in the NIC now, the one on the wire included.
    pub queued: u32,
}

impl NicRoom {
    pub(crate) fn new(capacity: Capacity, packets: u32, bytes: u64, queued: u32) -> Self {
        let (room_packets, room_bytes) = match capacity {
            Capacity::Unlimited => (u32::MAX, u64::MAX),
            Capacity::Packets(n) => {
                let room = n.saturating_sub(packets);
                (room, if room == 0 { 0 } else { u64::MAX })
            }
            Capacity::Bytes(n) => {
                let room = n.get().saturating_sub(bytes);
                (if room == 0 { 0 } else { u32::MAX }, room)
            }
        };
        Self {
            packets: room_packets,
            bytes: room_bytes,
            queued,
        }
    }
}
