//! Room for packets: a port's own limit, and a pool that ports share.
//!
//! The pool gives each port a threshold that falls as the pool fills (dynamic thresholds,
//! Choudhury and Hahne, IEEE/ACM ToN 1998): a packet is taken if its port holds less than
//! `alpha * (pool - used)`. With n ports at their threshold each holds
//! `alpha / (1 + n alpha)` of the pool. As in the paper the packet that arrives is not counted,
//! so a port may exceed its threshold by less than a packet; the pool itself is never exceeded.
//!
//! Leaves out: room reserved for a port, headroom for pause, cells (a packet takes its bytes),
//! and push-out of packets that are in at other ports.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use narrows_congestion::ByteCount;

use crate::sim::time::SimTime;

/// How much a queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capacity {
    /// No limit of its own (a shared pool may still have one).
    Unlimited,
    /// So many packets of any size.
    Packets(u32),
    /// So many bytes, frames counted with their Ethernet header and frame check if they have it.
    Bytes(ByteCount),
}

/// Whether the packet that is being sent counts as queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum InService {
    /// It counts, whole, until its last bit has left: a switch that frees memory then.
    #[default]
    Counted,
    /// It does not: only those that wait count, as in ns-2. A packet that finds the port idle
    /// is always taken. (ns-2's DropTail refuses at `waiting + 1 >= limit`, so its limit of B
    /// packets is `Capacity::Packets(B - 1)` here.)
    NotCounted,
}

/// A queue's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Depth {
    /// In packets.
    pub packets: u32,
    /// In bytes.
    pub bytes: u64,
}

/// A [`Capacity`] in one word: bytes, or packets with the highest bit; or that somebody else is to
/// be asked, which admits nothing by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit(u64);

impl Limit {
    const PACKETS: u64 = 1 << 63;
    /// More than there is.
    const UNLIMITED: u64 = Self::PACKETS - 1;
    /// No packets, and a bit that no number of packets has.
    pub(crate) const ASKED: Self = Self(Self::PACKETS | 1 << 32);

    pub(crate) fn new(capacity: Capacity) -> Self {
        Self(match capacity {
            Capacity::Unlimited => Self::UNLIMITED,
            Capacity::Packets(n) => Self::PACKETS | u64::from(n),
            Capacity::Bytes(n) => n.get().min(Self::UNLIMITED),
        })
    }

    #[inline]
    pub(crate) const fn capacity(self) -> Capacity {
        match self.0 {
            Self::UNLIMITED => Capacity::Unlimited,
            n if n == Self::ASKED.0 => Capacity::Unlimited,
            n if n & Self::PACKETS != 0 => Capacity::Packets(n as u32),
            n => Capacity::Bytes(ByteCount::new(n)),
        }
    }

    /// Whether somebody else is to be asked.
    #[inline]
    pub(crate) const fn is_asked(self) -> bool {
        self.0 == Self::ASKED.0
    }

    /// Whether a packet of `len` fits behind `depth`.
    #[inline]
    pub(crate) const fn admits(self, depth: Depth, len: u32) -> bool {
        // The highest bit is the sign.
        if (self.0 as i64) < 0 {
            depth.packets < self.0 as u32
        } else {
            depth.bytes + len as u64 <= self.0
        }
    }
}

/// A buffer that ports share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Its size.
    pub size: ByteCount,
    /// Numerator of alpha.
    pub alpha_num: u32,
    /// Denominator of alpha; not zero.
    pub alpha_den: u32,
}

/// Why a pool refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolVerdict {
    Admit,
    OverThreshold,
    Exhausted,
}

/// A shared buffer at work.
#[derive(Debug)]
pub(crate) struct Pool {
    spec: PoolSpec,
    used: u64,
    max_used: u64,
    /// Ports that hold something, by their next departure; may name one that has left since.
    pub(crate) departures: BinaryHeap<Reverse<(SimTime, u32)>>,
}

impl Pool {
    pub(crate) fn new(spec: PoolSpec) -> Self {
        Self {
            spec,
            used: 0,
            max_used: 0,
            departures: BinaryHeap::new(),
        }
    }

    /// Whether a port that holds `held` bytes may take `len` more.
    #[inline]
    pub(crate) fn verdict(&self, held: u64, len: u32) -> PoolVerdict {
        self.verdict_after(0, held, len)
    }

    /// The same once `freed` bytes have been given back.
    #[inline]
    pub(crate) fn verdict_after(&self, freed: u64, held: u64, len: u32) -> PoolVerdict {
        let used = self.used.saturating_sub(freed);
        let free = self.spec.size.get().saturating_sub(used);
        if u64::from(len) > free {
            return PoolVerdict::Exhausted;
        }
        let threshold = u128::from(self.spec.alpha_num) * u128::from(free);
        if u128::from(held) * u128::from(self.spec.alpha_den) < threshold {
            PoolVerdict::Admit
        } else {
            PoolVerdict::OverThreshold
        }
    }

    #[inline]
    pub(crate) fn take(&mut self, len: u32) {
        self.used += u64::from(len);
        self.max_used = self.max_used.max(self.used);
    }

    #[inline]
    pub(crate) fn give_back(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.used, "more given back than taken");
        self.used -= bytes;
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    pub(crate) fn max_used(&self) -> u64 {
        self.max_used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(size: u64, num: u32, den: u32) -> Pool {
        Pool::new(PoolSpec {
            size: ByteCount::new(size),
            alpha_num: num,
            alpha_den: den,
        })
    }

    /// n ports fed in turn until all are refused: each at alpha B / (1 + n alpha).
    #[test]
    fn thresholds_settle_at_the_formula() {
        for (num, den, n) in [(1, 1, 1), (1, 1, 4), (2, 1, 3), (1, 2, 5), (8, 1, 10)] {
            let size = 1_000_000u64;
            let mut pool = pool(size, num, den);
            let mut held = vec![0u64; n as usize];
            loop {
                let before = pool.used();
                for h in &mut held {
                    if pool.verdict(*h, 1) == PoolVerdict::Admit {
                        pool.take(1);
                        *h += 1;
                    }
                }
                if pool.used() == before {
                    break;
                }
            }
            // alpha / (1 + n alpha) = num / (den + n num).
            let expected = size * u64::from(num) / (u64::from(den) + n * u64::from(num));
            assert!(
                held.iter().all(|h| h.abs_diff(expected) <= 1),
                "{held:?} {expected}"
            );
        }
    }

    #[test]
    fn the_threshold_is_strict_and_the_pool_is_never_exceeded() {
        let mut p = pool(100, 1, 1);
        p.take(50);
        assert_eq!(p.verdict(50, 1), PoolVerdict::OverThreshold);
        assert_eq!(p.verdict(49, 50), PoolVerdict::Admit);
        assert_eq!(p.verdict(0, 51), PoolVerdict::Exhausted);
        p.give_back(50);
        assert_eq!((p.used(), p.max_used()), (0, 50));
    }

    #[test]
    fn capacities_include_their_limit() {
        let depth = Depth {
            packets: 3,
            bytes: 3_000,
        };
        let admits = |capacity, len| {
            let limit = Limit::new(capacity);
            assert_eq!(limit.capacity(), capacity);
            limit.admits(depth, len)
        };
        assert!(admits(Capacity::Unlimited, u32::MAX));
        assert!(admits(Capacity::Packets(4), 9_000));
        assert!(!admits(Capacity::Packets(3), 1));
        assert!(Limit::ASKED.is_asked() && !Limit::ASKED.admits(Depth::default(), 0));
        assert!(admits(Capacity::Packets(u32::MAX), 1) && !admits(Capacity::Packets(0), 1));
        assert!(admits(Capacity::Bytes(ByteCount::new(4_000)), 1_000));
        assert!(!admits(Capacity::Bytes(ByteCount::new(4_000)), 1_001));
    }
}
