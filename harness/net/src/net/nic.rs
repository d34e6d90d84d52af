//! A host's network interface: the queue between the host and its link.
//!
//! Models the depth that a host sees (queueing discipline and ring as one queue, first in, first
//! out). When it is full the packet goes back to the host as a local drop, as ENOBUFS does.
//! The send overhead is a random time before the first bit, each value from zero to its maximum
//! equally likely; it breaks the lock-step of hosts with equal links, as ns-2's `overhead_`
//! does, and does not lower the rate of a busy NIC. Leaves out: interrupt coalescing, segmentation
//! offload, separate rings.

use crate::sim::time::SimTime;

use super::buffer::{Capacity, Depth, InService, Limit};

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

/// What a host may know of its NIC before it sends. Worked out when it asks.
#[derive(Clone, Copy, Debug)]
pub struct NicRoom {
    pub(crate) limit: Limit,
    /// As the limit counts.
    pub(crate) depth: Depth,
    pub(crate) queued: u32,
}

impl NicRoom {
    /// Packets that are certain to be taken; 0 also where the limit is in bytes and is reached.
    pub fn packets(&self) -> u32 {
        match self.limit.capacity() {
            Capacity::Packets(n) => n.saturating_sub(self.depth.packets),
            Capacity::Bytes(_) if self.bytes() == 0 => 0,
            Capacity::Unlimited | Capacity::Bytes(_) => u32::MAX,
        }
    }

    /// Bytes that are certain to be taken, counted as the NIC counts them.
    pub fn bytes(&self) -> u64 {
        match self.limit.capacity() {
            Capacity::Bytes(n) => n.get().saturating_sub(self.depth.bytes),
            Capacity::Packets(_) if self.packets() == 0 => 0,
            Capacity::Unlimited | Capacity::Packets(_) => u64::MAX,
        }
    }

    /// Packets in the NIC now, the one on the wire included.
    pub const fn queued(&self) -> u32 {
        self.queued
    }
}
