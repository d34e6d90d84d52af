//! What a port counts, and the trace of its queue.
//!
//! The mean queue is exact and in integers. Where departures are known on arrival each packet adds
//! the time it is queued for when it is taken, and the sum over packets is the integral over time of
//! the queue; where a discipline decides in turn the integral is taken step by step.

use narrows_congestion::rarely::Rarely;

use crate::sim::time::SimTime;

use super::buffer::Depth;

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum DropReason {
    /// The queue was at its own limit.
    Full = 0,
    /// Its port was over its share of the pool.
    OverThreshold = 1,
    /// The pool had no room.
    PoolExhausted = 2,
    /// The queue discipline dropped it early.
    Early = 3,
    /// The link lost it.
    Lost = 4,
    /// The node at the end of the link has no way to its destination.
    NoRoute = 5,
    /// The network held as many packets as the limits of the run allow.
    PacketLimit = 6,
    /// It waited, or was about to, and made room for another: it was of the fattest queue (FQ-CoDel,
    /// DRR), or of a lower class (strict priority).
    PushOut = 7,
    /// There was no room for its payload, and none in the queue of headers (trimming).
    HeaderQueueFull = 8,
    /// It was on the wire when the link went down.
    LinkDown = 9,
    /// The host's NIC was reset: what it held to send, and what reached it meanwhile.
    NicReset = 10,
    /// The host's receive ring was full: it was paused, or its processor too slow.
    RingFull = 11,
    /// It was longer than what the link carries (a path MTU black hole, RFC 2923 section 2.1).
    TooLong = 12,
}

impl DropReason {
    /// All, in order.
    pub const ALL: [Self; 13] = [
        Self::Full,
        Self::OverThreshold,
        Self::PoolExhausted,
        Self::Early,
        Self::Lost,
        Self::NoRoute,
        Self::PacketLimit,
        Self::PushOut,
        Self::HeaderQueueFull,
        Self::LinkDown,
        Self::NicReset,
        Self::RingFull,
        Self::TooLong,
    ];

    /// Those that say that there was no room.
    pub const ROOM: [Self; 5] = [
        Self::Full,
        Self::OverThreshold,
        Self::PoolExhausted,
        Self::PushOut,
        Self::HeaderQueueFull,
    ];

    /// A short name for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::OverThreshold => "over-threshold",
            Self::PoolExhausted => "pool-exhausted",
            Self::Early => "early",
            Self::Lost => "lost",
            Self::NoRoute => "no-route",
            Self::PacketLimit => "packet-limit",
            Self::PushOut => "push-out",
            Self::HeaderQueueFull => "header-queue-full",
            Self::LinkDown => "link-down",
            Self::NicReset => "nic-reset",
            Self::RingFull => "ring-full",
            Self::TooLong => "too-long",
        }
    }
}

/// Counters of a port and its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PortStats {
    /// Packets taken, but for those dropped since.
    pub packets: u64,
    /// Their bytes as the buffer counts them.
    pub bytes: u64,
    /// The greatest queue in bytes, measured after a packet is taken, as the port counts.
    pub max_bytes: u64,
    /// The same in packets.
    pub max_packets: u32,
    /// Packets marked with Congestion Experienced.
    pub marks: u64,
    /// Packets that the link delivered twice.
    pub duplicated: u64,
    /// Packets that the link damaged.
    pub corrupted: u64,
    /// Packets that the link held back.
    pub held: u64,
    /// Packets whose payload was cut here and whose header went on: to a TCP they are lost, to
    /// [`Totals`](super::network::Totals) they are not.
    pub trimmed: u64,
    /// Bytes of the packets that were dropped, as the buffer counts them.
    pub dropped_bytes: u64,
    pub(crate) drops: [u64; DropReason::ALL.len()],
}

impl PortStats {
    /// Packets dropped for a reason.
    pub const fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Packets dropped because there was no room: for them, or for those they gave way to.
    pub fn dropped_for_room(&self) -> u64 {
        DropReason::ROOM.iter().map(|r| self.dropped(*r)).sum()
    }

    /// Packets dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.drops.iter().sum()
    }
}

/// The same at a port: what each packet moves, and in a box what at most ports nothing does.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct PortCounters {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) max_bytes: u64,
    pub(crate) marks: u64,
    /// But for those above, and for the greatest queue in packets.
    rare: Rarely<PortStats>,
}

impl PortCounters {
    /// All of them, the greatest queue in packets being `max_packets`.
    pub(crate) fn stats(&self, max_packets: u32) -> PortStats {
        PortStats {
            packets: self.packets,
            bytes: self.bytes,
            max_bytes: self.max_bytes,
            max_packets,
            marks: self.marks,
            ..self.rare.get()
        }
    }

    /// Those that few packets move.
    #[inline]
    pub(crate) fn rare(&mut self) -> &mut PortStats {
        self.rare.change()
    }

    #[inline]
    pub(crate) fn count_drop(&mut self, reason: DropReason, len: u32) {
        let rare = self.rare();
        rare.drops[reason as usize] += 1;
        rare.dropped_bytes += u64::from(len);
    }
}

/// The integral of a queue over time: of the packets taken so far until they have left, or until
/// the queue last changed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Credit {
    /// In packet picoseconds.
    pub(crate) packets: u128,
    /// In byte picoseconds.
    pub(crate) bytes: u128,
}

impl Credit {
    /// A packet of `len` bytes is queued for `span`.
    pub(crate) fn add(&mut self, span: SimTime, len: u32) {
        let bytes = len.into();
        self.add_queue(span, Depth { packets: 1, bytes });
    }

    /// The queue was so long for `span`.
    pub(crate) fn add_queue(&mut self, span: SimTime, queue: Depth) {
        let span = u128::from(span.as_picos());
        self.packets += span * u128::from(queue.packets);
        self.bytes += span * u128::from(queue.bytes);
    }
}

/// The integral of a queue from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueArea {
    /// In packet picoseconds.
    pub packets: u128,
    /// In byte picoseconds.
    pub bytes: u128,
    /// Until when.
    pub until: SimTime,
}

impl QueueArea {
    /// The time-weighted mean queue between two measurements, in thousandths of a packet.
    pub fn mean_millipackets_since(&self, earlier: &Self) -> u64 {
        mean(
            self.packets - earlier.packets,
            1_000,
            self.until - earlier.until,
        )
    }

    /// The same in bytes.
    pub fn mean_bytes_since(&self, earlier: &Self) -> u64 {
        mean(self.bytes - earlier.bytes, 1, self.until - earlier.until)
    }

    /// The start of the run.
    pub const START: Self = Self {
        packets: 0,
        bytes: 0,
        until: SimTime::ZERO,
    };
}

fn mean(area: u128, scale: u128, span: SimTime) -> u64 {
    match u128::from(span.as_picos()) {
        0 => 0,
        span => u64::try_from(area * scale / span).unwrap_or(u64::MAX),
    }
}

/// The queue after each change, for plots.
#[derive(Clone, Debug, Default)]
pub struct QueueTrace {
    samples: Vec<(SimTime, Depth)>,
}

impl QueueTrace {
    /// Time and length after each arrival and departure, in order of time. With
    /// [`super::buffer::InService::NotCounted`] the packet in service is still in it.
    pub fn samples(&self) -> &[(SimTime, Depth)] {
        &self.samples
    }

    pub(crate) fn record(&mut self, at: SimTime, depth: Depth) {
        self.samples.push((at, depth));
    }
}
