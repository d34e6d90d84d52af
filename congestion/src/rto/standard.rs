//! RFC 6298 with every bound a value; all presets are values of this one policy.

use super::randomized::Randomization;
use super::{RtoContext, RtoPolicy};
use crate::hint::cold_path;
use crate::rtt::RttEstimator;
use crate::units::Duration;
use alloc::sync::Arc;

/// `RTO = SRTT + max(G, 4 RTTVAR)` (RFC 6298 section 2), with floor, cap and backoff of choice.
///
/// In order: the floor, the randomisation, the backoff, a slop if the floor is one, the cap.
/// Before the first sample [`initial`](Self::initial) stands in for the computed timeout, and
/// no floor applies to it. The result is never zero (1 ns at least) and, that apart, never
/// above the cap.
///
/// Rule 5.7 of RFC 6298 (3 s after a lost SYN) is the engine's: it knows that the SYN was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandardRto {
    /// The registry name.
    pub name: &'static str,
    /// The timeout before the first RTT sample (RFC 6298 rule 2.1: 1 s).
    pub initial: Duration,
    /// The lower bound, and what it is a bound of.
    pub floor: Floor,
    /// The upper bound (RFC 6298 rule 2.5: at least 60 s).
    pub max: Duration,
    /// G, the clock granularity of RFC 6298: the least that is added to SRTT.
    pub granularity: Duration,
    /// What each timeout in a row does.
    pub backoff: Backoff,
    /// Random stretching.
    pub randomization: Randomization,
}

/// How a minimum RTO applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// None.
    None,
    /// `max(RTO, floor)` (RFC 6298 rule 2.4).
    Rto(Duration),
    /// `SRTT + max(4 RTTVAR, floor)`: Linux, whose timeouts therefore exceed the floor by SRTT.
    Variation(Duration),
    /// `max(RTO, min) 2^backoff + slop`: BSD, where the slop allows for the peer's delayed ACK.
    Slop {
        /// The bound on the computed timeout.
        min: Duration,
        /// What is added last.
        slop: Duration,
    },
}

/// Exponential backoff (RFC 6298 rule 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// What each timeout in a row multiplies by: 2; 1 is no backoff. 0 counts as 1.
    pub factor: u32,
    /// How many timeouts multiply; later ones leave it there.
    pub limit: u32,
}

impl Backoff {
    /// Doubling, up to the cap.
    pub const DOUBLING: Self = Self {
        factor: 2,
        limit: u32::MAX,
    };
    /// No backoff at all.
    pub const NONE: Self = Self {
        factor: 1,
        limit: 0,
    };

    /// `rto * factor^min(timeouts, limit)`, saturating.
    pub fn apply(self, rto: Duration, timeouts: u32) -> Duration {
        let n = timeouts.min(self.limit);
        match self.factor {
            0 | 1 => rto,
            2 => rto.saturating_shl(n),
            // 41 powers of 3 saturate a u64.
            factor => (0..n.min(64)).fold(rto, |d, _| d * u64::from(factor)),
        }
    }
}

impl StandardRto {
    /// At random, and backed off.
    #[inline(never)]
    fn stretched(&self, rto: Duration, ctx: &RtoContext) -> Duration {
        let rto = self.randomization.apply(rto, ctx.entropy);
        self.backoff.apply(rto, ctx.backoff)
    }

    #[inline]
    fn computed(&self, rtt: &RttEstimator) -> Duration {
        let Some(srtt) = rtt.srtt() else {
            cold_path();
            return self.initial;
        };
        let variation = rtt.four_rttvar().max(self.granularity);
        match self.floor {
            Floor::None => srtt + variation,
            Floor::Rto(min) | Floor::Slop { min, .. } => (srtt + variation).max(min),
            Floor::Variation(min) => {
                cold_path();
                srtt + variation.max(min)
            }
        }
    }
}

impl RtoPolicy for StandardRto {
    fn name(&self) -> &'static str {
        self.name
    }

    #[inline]
    fn rto(&self, rtt: &RttEstimator, ctx: &RtoContext) -> Duration {
        let mut rto = self.computed(rtt);
        if self.randomization != Randomization::None || ctx.backoff > 0 {
            rto = self.stretched(rto, ctx);
        }
        if let Floor::Slop { slop, .. } = self.floor
            && rtt.samples() > 0
        {
            rto += slop;
        }
        rto.min(self.max).max(Duration::from_nanos(1))
    }

    #[inline]
    fn wants_entropy(&self) -> bool {
        self.randomization != Randomization::None
    }
}

/// Shared by those that use it: it has no state of its own.
impl RtoPolicy for Arc<StandardRto> {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    #[inline]
    fn rto(&self, rtt: &RttEstimator, ctx: &RtoContext) -> Duration {
        (**self).rto(rtt, ctx)
    }
    #[inline]
    fn wants_entropy(&self) -> bool {
        (**self).wants_entropy()
    }
}

#[cfg(test)]
mod tests {
    use super::super::presets;
    use super::*;
    use crate::units::Instant;
    use proptest::prelude::*;

    fn after(samples_us: &[u64]) -> RttEstimator {
        let mut e = RttEstimator::new();
        for &us in samples_us {
            e.on_sample(Duration::from_micros(us), Instant::ZERO);
        }
        e
    }

    fn rto_us(policy: &StandardRto, samples_us: &[u64], backoff: u32) -> u64 {
        policy
            .rto(&after(samples_us), &RtoContext::new(backoff, 0))
            .as_micros()
    }

    /// RFC 6298 by hand, without floor: 300, 362.5, 310.9 us.
    #[test]
    fn fine_grained_table() {
        let fine = presets::fine();
        let rto = |s: &[u64]| fine.rto(&after(s), &RtoContext::default()).as_nanos();
        assert_eq!(rto(&[100]), 300_000);
        assert_eq!(rto(&[100, 200]), 362_500);
        assert_eq!(rto(&[100, 200, 100]), 310_937);
    }

    /// RFC 6298 rules 2.1 to 2.5 and 5.5.
    #[test]
    fn preset_table() {
        let ms = Duration::from_millis;
        for (policy, samples, backoff, us) in [
            (presets::rfc6298(), &[][..], 0, 1_000_000),
            (presets::rfc6298(), &[], 3, 8_000_000),
            (presets::rfc6298(), &[100], 0, 1_000_000),
            (presets::rfc6298(), &[1_000_000], 0, 3_000_000),
            (presets::rfc6298(), &[100], 6, 60_000_000),
            (presets::linux(), &[100], 0, 200_100),
            (presets::linux(), &[100_000], 0, 300_000),
            (presets::linux(), &[100], 1, 400_200),
            (presets::linux(), &[100], 40, 120_000_000),
            (presets::floor_200ms(), &[100], 0, 200_000),
            (presets::floor_200ms(), &[100], 2, 800_000),
            (presets::one_ms(), &[100], 0, 1_000),
            (presets::one_ms(), &[1_000], 0, 3_000),
            (presets::bsd(), &[100], 0, 230_000),
            (presets::bsd(), &[100], 1, 260_000),
            (presets::bsd(), &[100], 9, 15_560_000),
            (presets::bsd(), &[100], 12, 15_560_000),
            (presets::floor(ms(5)), &[100], 0, 5_000),
            (presets::fixed(Duration::from_micros(200)), &[500], 0, 200),
            (presets::fixed(Duration::from_micros(200)), &[500], 9, 200),
            (presets::fine(), &[0], 0, 1),
        ] {
            let got = rto_us(&policy, samples, backoff);
            assert_eq!(
                got, us,
                "{} after {samples:?}, backoff {backoff}",
                policy.name
            );
        }
    }

    #[test]
    fn odd_backoff_factors() {
        let b = Backoff {
            factor: 3,
            limit: 2,
        };
        assert_eq!(
            b.apply(Duration::from_millis(1), 7),
            Duration::from_millis(9)
        );
        let b = Backoff {
            factor: 3,
            limit: u32::MAX,
        };
        assert_eq!(b.apply(Duration::from_millis(1), u32::MAX), Duration::MAX);
        assert_eq!(
            Backoff::NONE.apply(Duration::from_millis(1), 9),
            Duration::from_millis(1)
        );
    }

    fn floors() -> impl Strategy<Value = Floor> {
        let d = || any::<u64>().prop_map(Duration::from_nanos);
        prop_oneof![
            Just(Floor::None),
            d().prop_map(Floor::Rto),
            d().prop_map(Floor::Variation),
            (d(), d()).prop_map(|(min, slop)| Floor::Slop { min, slop }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn never_zero_never_above_the_cap(
            samples in prop::collection::vec(any::<u64>(), 0..6),
            floor in floors(),
            (initial, max, granularity) in any::<(u64, u64, u64)>(),
            (factor, limit, num, den) in any::<(u32, u32, u32, u32)>(),
            (backoff, entropy) in any::<(u32, u64)>(),
        ) {
            let policy = StandardRto {
                name: "any",
                initial: Duration::from_nanos(initial),
                floor,
                max: Duration::from_nanos(max),
                granularity: Duration::from_nanos(granularity),
                backoff: Backoff { factor, limit },
                randomization: Randomization::Stretch { num, den },
            };
            let mut e = RttEstimator::new();
            for s in samples {
                e.on_sample(Duration::from_nanos(s), Instant::ZERO);
            }
            let rto = policy.rto(&e, &RtoContext::new(backoff, entropy));
            prop_assert!(!rto.is_zero());
            prop_assert!(rto <= policy.max.max(Duration::from_nanos(1)));
        }

        #[test]
        fn backoff_never_shortens(us in 1_u64..10_000_000, n in 0_u32..70, entropy: u64) {
            for policy in presets::all() {
                let e = after(&[us]);
                let rto = policy.rto(&e, &RtoContext::new(n, entropy));
                prop_assert!(policy.rto(&e, &RtoContext::new(n + 1, entropy)) >= rto);
            }
        }

        /// The draw lies in [RTO, 1.5 RTO) and reaches both halves of it.
        #[test]
        fn randomised_timeout_bounds(us in 1_u64..1_000_000, n in 0_u32..4, entropy: u64) {
            let e = after(&[us]);
            let plain = presets::fine().rto(&e, &RtoContext::new(n, entropy));
            let drawn = presets::fine_randomized().rto(&e, &RtoContext::new(n, entropy));
            prop_assert!(drawn >= plain);
            prop_assert!(drawn < plain.mul_ratio(3, 2));
            prop_assert_eq!(drawn >= plain.mul_ratio(5, 4), entropy >> 63 == 1);
        }
    }
}
