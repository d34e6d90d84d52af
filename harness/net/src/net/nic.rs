//! A host's network interface: the queue between the host and its link, and what stands between
//! the link and the host.
//!
//! Models the depth that a host sees (queueing discipline and ring as one queue, first in, first
//! out). When it is full the packet goes back to the host as a local drop, as ENOBUFS does.
//! The send overhead is a random time before the first bit, each value from zero to its maximum
//! equally likely; it breaks the lock-step of hosts with equal links, as ns-2's `overhead_`
//! does, and does not lower the rate of a busy NIC.
//!
//! The rest is off unless asked for, and costs nothing then: buffers that run out ([`transmit`]), a
//! shaper ([`shaper`]), segmentation offload ([`NicSpec::segmentation`]), and on the way in rings,
//! interrupts and receive offload ([`receive`]) with a processor that takes time ([`cpu`]). Left
//! out: rings of their own for sending, several of them, DMA and bus.

pub mod cpu;
pub mod receive;
pub mod rss;
pub mod shaper;
pub mod transmit;

use crate::sim::time::SimTime;

use super::buffer::{Capacity, Depth, InService, Limit};
pub use cpu::CpuSpec;
pub use receive::{Coalescing, HostStats, MOST_OFFLOAD, ReceiveHash, ReceiveSpec};
pub use shaper::ShaperSpec;
pub use transmit::{Moment, Refill, TransmitBuffers, WithoutBuffer};

/// A NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicSpec {
    /// What its queue holds.
    pub capacity: Capacity,
    /// Whether the packet on the wire counts.
    pub in_service: InService,
    /// Greatest send overhead; zero for none.
    pub overhead: SimTime,
    /// Buffers that a packet needs besides its place in the queue.
    pub buffers: TransmitBuffers,
    /// A token bucket before the wire.
    pub shaper: Option<ShaperSpec>,
    /// Segmentation offload (TSO): the host hands over up to so many bytes of payload as one
    /// packet, which leaves as segments back to back; zero for none. The queue takes a packet that
    /// its limit in packets has a place for, and its segments then count each; a limit in bytes
    /// must have room for all of it.
    pub segmentation: u32,
    /// What is between the link and the host.
    pub receive: ReceiveSpec,
}

impl NicSpec {
    /// A queue of `capacity`, without overhead, and nothing else.
    pub const fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            in_service: InService::Counted,
            overhead: SimTime::ZERO,
            buffers: TransmitBuffers::Enough,
            shaper: None,
            segmentation: 0,
            receive: ReceiveSpec::DIRECT,
        }
    }

    /// Whether sending is more than a place in the queue.
    pub(crate) fn is_asked(&self) -> bool {
        self.buffers != TransmitBuffers::Enough
            || self.shaper.is_some()
            || self.segmentation > 0
            || !self.receive.cpu.is_free()
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
    /// All there are where more than the queue decides ([`transmit`]): that is told by refusing.
    pub fn packets(&self) -> u32 {
        match self.limit.capacity() {
            Capacity::Packets(n) => n.saturating_sub(self.depth.packets),
            Capacity::Bytes(_) if self.bytes() == 0 => 0,
            Capacity::Unlimited | Capacity::Bytes(_) => u32::MAX,
        }
    }

    /// Bytes that are certain to be taken, counted as the NIC counts them; all there are as in
    /// [`Self::packets`].
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

#[cfg(test)]
mod tests;
