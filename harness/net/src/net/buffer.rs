//! Room for packets: a port's own limit, and a pool that ports share.
//!
//! The pool gives each port a threshold that falls as the pool fills (dynamic thresholds,
//! Choudhury and Hahne, IEEE/ACM ToN 1998): a packet is taken if its port holds less than
//! `alpha * (pool - used)`. With n ports at their threshold each holds
//! `alpha / (1 + n alpha)` of the pool. As in the paper the packet that arrives is not counted,
//! so a port may exceed its threshold by less than a packet; the pool itself is never exceeded.
//!
//! Each port may have a reserve of the memory to itself, as in the switches whose data sheets speak of
//! a minimum for each port and a common pool (Cisco's Catalyst 3750-X: 2 MB for 24 ports): what it
//! holds up to that is its own, what it holds beyond comes out of the common pool, whose rule then
//! counts only that.
//!
//! Leaves out: headroom for pause (see [`super::pause`]), cells (a packet takes its bytes), and
//! push-out of packets that are in at other ports.

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

/// A [`Capacity`] as the two bounds that each packet is compared with, of which one is beyond all that
/// there is; or that somebody else is to be asked, which admits nothing by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed(4))] // In a port's second line, beside what else each packet touches.
pub(crate) struct Limit {
    bytes: u64,
    packets: u32,
}

impl Limit {
    /// Of a limit in packets: more than there is.
    const BY_PACKETS: u64 = u64::MAX;
    /// Of no limit, which is none in bytes: more than there is.
    const UNLIMITED: u64 = u64::MAX - 1;
    /// No packets, and bytes that a limit in packets has not.
    pub(crate) const ASKED: Self = Self {
        bytes: Self::UNLIMITED,
        packets: 0,
    };

    pub(crate) fn new(capacity: Capacity) -> Self {
        let (bytes, packets) = match capacity {
            Capacity::Unlimited => (Self::UNLIMITED, u32::MAX),
            Capacity::Packets(n) => (Self::BY_PACKETS, n),
            Capacity::Bytes(n) => (n.get().min(Self::UNLIMITED), u32::MAX),
        };
        Self { bytes, packets }
    }

    #[inline]
    pub(crate) const fn capacity(self) -> Capacity {
        match self.bytes {
            Self::BY_PACKETS => Capacity::Packets(self.packets),
            Self::UNLIMITED => Capacity::Unlimited,
            n => Capacity::Bytes(ByteCount::new(n)),
        }
    }

    /// Whether somebody else is to be asked.
    #[inline]
    pub(crate) const fn is_asked(self) -> bool {
        self.bytes == Self::UNLIMITED && self.packets == 0
    }

    /// Whether a packet of `len` fits behind `depth`.
    #[inline]
    pub(crate) const fn admits(self, depth: Depth, len: u32) -> bool {
        depth.packets < self.packets && depth.bytes + len as u64 <= self.bytes
    }
}

/// A buffer that ports share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Its size, the reserves of its ports included.
    pub size: ByteCount,
    /// What each of its ports has to itself.
    pub reserve: ByteCount,
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
    /// What ports share: all but their reserves.
    common: u64,
    /// Of that, as far as its ports were looked at.
    used: u64,
    max_used: u64,
    /// A port that holds less is within its threshold as long as no more is used than ever was.
    certain: u64,
    /// Ports that hold something, by a departure that is their next one or was.
    pub(crate) departures: BinaryHeap<Reverse<(SimTime, u32)>>,
}

impl Pool {
    /// Of so many ports.
    pub(crate) fn new(spec: PoolSpec, ports: u32) -> Self {
        Self {
            common: spec
                .size
                .get()
                .saturating_sub(spec.reserve.get() * u64::from(ports)),
            spec,
            used: 0,
            max_used: 0,
            // Nothing can be taken without a new peak.
            certain: 0,
            departures: BinaryHeap::new(),
        }
    }

    /// Whether a port that holds `held` bytes may take `len` more.
    #[inline]
    pub(crate) fn verdict(&self, held: u64, len: u32) -> PoolVerdict {
        self.verdict_after(0, held, len)
    }

    /// Whether it is certain that a port which holds `held` bytes may take `len` more, and that the peak
    /// stays what it is, even if nothing that counts as used has left since.
    #[inline]
    pub(crate) fn admits_unsettled(&self, held: u64, len: u32) -> bool {
        held < self.certain && self.used + self.shared(held, len.into()) <= self.max_used
    }

    /// [`Self::verdict`] once `freed` bytes have been given back.
    #[inline]
    pub(crate) fn verdict_after(&self, freed: u64, held: u64, len: u32) -> PoolVerdict {
        let used = self.used.saturating_sub(self.shared(held, freed));
        let free = self.common.saturating_sub(used);
        let taken = self.shared(held, len.into());
        if taken > free {
            return PoolVerdict::Exhausted;
        }
        let held = held.saturating_sub(self.spec.reserve.get());
        if taken == 0 {
            return PoolVerdict::Admit; // It is within the port's reserve.
        }
        let threshold = u128::from(self.spec.alpha_num) * u128::from(free);
        if u128::from(held) * u128::from(self.spec.alpha_den) < threshold {
            PoolVerdict::Admit
        } else {
            PoolVerdict::OverThreshold
        }
    }

    /// Of `bytes` on top of the `held` ones of a port, those that come out of the common pool.
    #[inline]
    fn shared(&self, held: u64, bytes: u64) -> u64 {
        let reserve = self.spec.reserve.get();
        if reserve == 0 {
            return bytes;
        }
        (held + bytes).saturating_sub(reserve) - held.saturating_sub(reserve)
    }

    /// A port that held so much takes `len` bytes.
    #[inline]
    pub(crate) fn take(&mut self, held: u64, len: u32) {
        self.used += self.shared(held, len.into());
        if self.used > self.max_used {
            self.reach(self.used);
        }
    }

    /// So much is used, more than ever before.
    #[inline(never)]
    fn reach(&mut self, used: u64) {
        self.max_used = used;
        let free = u128::from(self.common.saturating_sub(used));
        let threshold = u128::from(self.spec.alpha_num) * free / u128::from(self.spec.alpha_den);
        self.certain = u64::try_from(threshold).unwrap_or(u64::MAX);
    }

    /// `bytes` have left a port that still holds `held`.
    #[inline]
    pub(crate) fn give_back(&mut self, held: u64, bytes: u64) {
        let bytes = self.shared(held, bytes);
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
        with_reserve(size, 0, 0, (num, den))
    }

    fn with_reserve(size: u64, reserve: u64, ports: u32, (num, den): (u32, u32)) -> Pool {
        let spec = PoolSpec {
            size: ByteCount::new(size),
            reserve: ByteCount::new(reserve),
            alpha_num: num,
            alpha_den: den,
        };
        Pool::new(spec, ports)
    }

    /// n of 24 ports fed in turn: each at its reserve and alpha C / (1 + n alpha) of the common pool C.
    #[test]
    fn with_a_reserve_thresholds_settle_at_the_formula_beyond_it() {
        for (num, den, n) in [(1, 1, 1), (1, 1, 4), (2, 1, 3), (1, 2, 24)] {
            let (size, reserve) = (2_000_000, 20_000);
            let mut pool = with_reserve(size, reserve, 24, (num, den));
            let mut held = vec![0_u64; n as usize];
            for _ in 0..size {
                for h in &mut held {
                    if pool.verdict(*h, 1) == PoolVerdict::Admit {
                        pool.take(*h, 1);
                        *h += 1;
                    }
                }
            }
            let common = size - 24 * reserve;
            let expected =
                reserve + common * u64::from(num) / (u64::from(den) + n * u64::from(num));
            let near = |h: &u64| h.abs_diff(expected) <= 1;
            assert!(held.iter().all(near), "{held:?} {expected}");
            // What leaves, the last of it out of the reserve, gives the common pool what it had.
            for h in held {
                pool.give_back(0, h);
            }
            assert_eq!(pool.used(), 0);
        }
    }

    #[test]
    fn a_reserve_is_there_when_the_common_pool_is_not() {
        let mut pool = with_reserve(3_000, 1_000, 2, (8, 1));
        pool.take(0, 2_000);
        assert_eq!(
            (pool.used(), pool.verdict(0, 1_000)),
            (1_000, PoolVerdict::Admit)
        );
        assert_eq!(pool.verdict(0, 1_001), PoolVerdict::Exhausted);
        assert_eq!(pool.verdict_after(1_000, 1_000, 500), PoolVerdict::Admit);
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
                        pool.take(*h, 1);
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
        p.take(0, 50);
        assert_eq!(p.verdict(50, 1), PoolVerdict::OverThreshold);
        assert_eq!(p.verdict(49, 50), PoolVerdict::Admit);
        assert_eq!(p.verdict(0, 51), PoolVerdict::Exhausted);
        p.give_back(0, 50);
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
            assert!(!limit.is_asked());
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
