//! Random streams, one per component.
//!
//! A stream is keyed by the run's seed, the kind of component and its number, so a component
//! that is added, or that draws more often, never shifts what another one sees. The generator
//! is PCG32 (O'Neill 2014, XSH RR 64/32); a test pins its first values so that an update of the
//! crate cannot change results unnoticed. All helpers are integer arithmetic.

use narrows_congestion::hint::cold_path;
use rand_core::Rng as _;
use rand_pcg::Pcg32;

use super::time::SimTime;

/// Who draws. The numbers are part of what a seed means: they are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
#[non_exhaustive]
pub enum Component {
    /// Start time of a host.
    Start = 1,
    /// A host's own choices (ports, ISNs, application).
    Host = 2,
    /// Queue discipline of a port.
    Aqm = 3,
    /// Losses on a link.
    Loss = 4,
    /// Reordering on a link.
    Reorder = 5,
    /// Duplication on a link.
    Duplicate = 6,
    /// Corruption on a link.
    Corrupt = 7,
    /// Send overhead of a NIC.
    Overhead = 8,
    /// Order of simultaneous events.
    Ties = 9,
    /// The scenario (order of requests, placement).
    Scenario = 10,
    /// A retransmission timeout policy that draws.
    Rto = 11,
    /// Salt of a switch's hash; 0 is the one that all share.
    PathSalt = 12,
    /// Paths that a switch draws.
    Path = 13,
    /// Moments without a buffer at a NIC.
    Buffers = 14,
    /// Marks on a link.
    Mark = 15,
}

/// The random stream of one component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream(Pcg32);

impl Stream {
    /// The stream of component `kind` number `id` in the run with `seed`.
    pub fn new(seed: u64, kind: Component, id: u64) -> Self {
        let key = mix(mix(seed) ^ mix((kind as u64) << 48 ^ id));
        // Both the state and the increment depend on the key, so streams do not overlap.
        Self(Pcg32::new(key, mix(key)))
    }

    /// 32 random bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, each equally likely (Lemire 2019, with rejection); 0 if `bound`
    /// is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            cold_path();
            return 0;
        }
        let mut product = u128::from(self.next_u64()) * u128::from(bound);
        if (product as u64) < bound {
            cold_path();
            let reject_below = bound.wrapping_neg() % bound;
            while (product as u64) < reject_below {
                product = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// A span from zero to `max`, both included, each picosecond equally likely.
    #[inline]
    pub fn jitter(&mut self, max: SimTime) -> SimTime {
        match max.as_picos().checked_add(1) {
            Some(bound) => SimTime::from_picos(self.below(bound)),
            None => SimTime::from_picos(self.next_u64()),
        }
    }

    /// True with probability `p`.
    #[inline]
    pub fn chance(&mut self, p: Probability) -> bool {
        u64::from(self.next_u32()) < p.0
    }

    /// Shuffles in place (Fisher and Yates), every order equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i as u64 + 1) as usize;
            items.swap(i, j);
        }
    }
}

/// A probability in units of 2^-32, so that every decision is integer arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Probability(u64);

impl Probability {
    /// Never.
    pub const NEVER: Self = Self(0);
    /// Always.
    pub const ALWAYS: Self = Self(1 << 32);

    /// `num / den`, rounded to the nearest 2^-32; [`Probability::ALWAYS`] for one and more.
    ///
    /// # Panics
    /// If `den` is zero.
    pub const fn ratio(num: u64, den: u64) -> Self {
        assert!(den != 0, "probability with a zero denominator");
        if num >= den {
            return Self::ALWAYS;
        }
        Self((((num as u128) << 33) / den as u128 + 1) as u64 >> 1)
    }

    /// In units of 2^-32, from 0 to 2^32.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// From units of 2^-32; more than 2^32 is one.
    pub const fn from_bits(bits: u64) -> Self {
        if bits > Self::ALWAYS.0 {
            Self::ALWAYS
        } else {
            Self(bits)
        }
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection that spreads every bit.
pub(crate) const fn mix(key: u64) -> u64 {
    let z = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The generator of the PCG paper's demo: seed 42, sequence 54.
    #[test]
    fn the_generator_is_the_published_one() {
        let mut pcg = Pcg32::new(42, 54);
        let first: Vec<u32> = (0..6).map(|_| pcg.next_u32()).collect();
        assert_eq!(
            first,
            [
                0xa15c_02b7,
                0x7b47_f409,
                0xba1d_3330,
                0x83d2_f293,
                0xbfa4_784b,
                0xcbed_606e
            ]
        );
    }

    #[test]
    fn the_streams_are_pinned() {
        let mut a = Stream::new(1, Component::Loss, 0);
        assert_eq!(
            [a.next_u32(), a.next_u32(), a.next_u32()],
            [1_819_341_578, 251_821_178, 1_250_825_526]
        );
        let mut b = Stream::new(1, Component::Loss, 1);
        assert_eq!([b.next_u32(), b.next_u32()], [2_693_984_596, 700_664_889]);
    }

    #[test]
    fn streams_differ_by_seed_kind_and_number() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..8 {
            for kind in [Component::Loss, Component::Aqm, Component::Start] {
                for id in 0..64 {
                    let mut s = Stream::new(seed, kind, id);
                    assert!(
                        seen.insert((s.next_u64(), s.next_u64())),
                        "two equal streams"
                    );
                }
            }
        }
    }

    #[test]
    fn ranges_are_unbiased_and_closed_where_they_say_so() {
        let mut s = Stream::new(7, Component::Scenario, 0);
        let mut counts = [0u32; 3];
        for _ in 0..30_000 {
            counts[s.below(3) as usize] += 1;
        }
        // 3 sigma of a binomial with p = 1/3.
        assert!(
            counts.iter().all(|&c| c.abs_diff(10_000) < 245),
            "{counts:?}"
        );
        let drawn: Vec<u64> = (0..200)
            .map(|_| s.jitter(SimTime::from_picos(2)).as_picos())
            .collect();
        assert!((0..=2).all(|v| drawn.contains(&v)) && drawn.iter().all(|&v| v <= 2));
        assert_eq!(s.below(0), 0);
        assert_eq!(s.below(1), 0);
        assert!((0..1_000).all(|_| s.below((1 << 63) + 1) <= 1 << 63));
        // Without the rejection half of these would be multiples of three.
        let multiples = (0..30_000)
            .filter(|_| s.below(3 << 62).is_multiple_of(3))
            .count();
        assert!(multiples.abs_diff(10_000) < 245, "{multiples}");
    }

    #[test]
    fn probabilities_are_rounded_to_the_nearest_unit() {
        assert_eq!(Probability::ratio(1, 2).bits(), 1 << 31);
        assert_eq!(Probability::ratio(1, 3).bits(), 1_431_655_765);
        assert_eq!(Probability::ratio(2, 3).bits(), 2_863_311_531);
        assert_eq!(Probability::ratio(5, 4), Probability::ALWAYS);
        let mut s = Stream::new(7, Component::Loss, 0);
        assert!((0..1_000).all(|_| !s.chance(Probability::NEVER)));
        assert!((0..1_000).all(|_| s.chance(Probability::ALWAYS)));
        let hits = (0..100_000)
            .filter(|_| s.chance(Probability::ratio(1, 10)))
            .count();
        assert!(hits.abs_diff(10_000) < 285, "{hits}");
    }

    #[test]
    fn shuffles_reach_every_order() {
        let mut s = Stream::new(7, Component::Ties, 0);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let mut v = [0, 1, 2];
            s.shuffle(&mut v);
            seen.insert(v);
        }
        assert_eq!(seen.len(), 6);
    }
}
