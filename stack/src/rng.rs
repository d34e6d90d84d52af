//! A small deterministic random generator: the only randomness inside the stack.
//!
//! Seeded by whoever runs the stack: the driver from the operating system, the simulator from
//! its own seed. The same seed gives the same numbers on every machine and in every version.

/// xoshiro256++ 1.0 (Blackman and Vigna, 2019), seeded through SplitMix64.
///
/// Fast and well distributed, but not a secret-keeper: who sees enough outputs can compute the
/// rest. Keys that must stay secret are given to [`SipKey`](crate::siphash::SipKey) and not
/// drawn from a generator whose other outputs peers can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    s: [u64; 4],
}

impl Rng {
    /// The generator number `seed`; every value is a good one.
    pub const fn new(seed: u64) -> Self {
        let mut mix = SplitMix64(seed);
        Self {
            s: [mix.next(), mix.next(), mix.next(), mix.next()],
        }
    }

    /// From 256 bits of entropy; all zero, the one state that the generator cannot leave, is
    /// taken as `Rng::new(0)`.
    pub const fn from_state(s: [u64; 4]) -> Self {
        if s[0] | s[1] | s[2] | s[3] == 0 {
            Self::new(0)
        } else {
            Self { s }
        }
    }

    /// A generator for one component: independent of `self` and of other values of `stream`,
    /// and unaffected by how many numbers anyone has drawn or will draw.
    pub const fn stream(seed: u64, stream: u64) -> Self {
        // Two rounds of mixing, so that (seed, stream) and (seed + 1, stream - 1) differ.
        let mut outer = SplitMix64(seed);
        let mut inner = SplitMix64(outer.next() ^ stream);
        Self::new(inner.next())
    }

    /// 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        let s = &mut self.s;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// 32 random bits.
    pub const fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A number in `0..bound`, each equally likely; 0 if `bound` is 0.
    ///
    /// Multiplication with rejection (Lemire, 2019): no division in the common case.
    pub const fn below(&mut self, bound: u64) -> u64 {
        let mut wide = self.next_u64() as u128 * bound as u128;
        if (wide as u64) < bound {
            let reject = bound.wrapping_neg() % bound;
            while (wide as u64) < reject {
                wide = self.next_u64() as u128 * bound as u128;
            }
        }
        (wide >> 64) as u64
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014): turns any seed into well-mixed state.
struct SplitMix64(u64);

impl SplitMix64 {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The authors' C code from seed 1234567.
    #[test]
    fn splitmix64_reference_values() {
        let mut mix = SplitMix64(1_234_567);
        let first: [u64; 5] = core::array::from_fn(|_| mix.next());
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }

    /// The authors' C code from state 1, 2, 3, 4.
    #[test]
    fn xoshiro256plusplus_reference_values() {
        let mut rng = Rng::from_state([1, 2, 3, 4]);
        let first: [u64; 10] = core::array::from_fn(|_| rng.next_u64());
        assert_eq!(
            first,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386,
                9_228_616_714_210_784_205,
                9_973_669_472_204_895_162,
                14_011_001_112_246_962_877,
                12_406_186_145_184_390_807,
                15_849_039_046_786_891_736,
                10_450_023_813_501_588_000,
            ]
        );
    }

    #[test]
    fn the_zero_state_is_not_a_trap() {
        assert_eq!(Rng::from_state([0; 4]), Rng::new(0));
        assert_ne!(Rng::new(0).next_u64(), 0);
    }

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |seed, stream| Rng::stream(seed, stream).next_u64();
        assert_eq!(draw(1, 2), draw(1, 2));
        let mut all: Vec<u64> = (0..32)
            .flat_map(|a| (0..32).map(move |b| draw(a, b)))
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 1_024);
    }

    #[test]
    fn below_is_in_range_and_even() {
        let mut rng = Rng::new(7);
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.below(1), 0);
        let mut seen = [0u32; 6];
        for _ in 0..60_000 {
            seen[rng.below(6) as usize] += 1;
        }
        assert!(
            seen.iter().all(|&n| (9_500..10_500).contains(&n)),
            "{seen:?}"
        );
        // Two thirds of the range: without rejection a third of the values comes twice as often.
        let bound = u64::MAX / 3 * 2;
        let low = (0..30_000).filter(|_| rng.below(bound) < bound / 2).count();
        assert!((14_500..15_500).contains(&low), "{low}");
    }
}
