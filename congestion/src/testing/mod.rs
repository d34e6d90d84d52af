//! A conformance kit: run it over an algorithm of your own before it meets a network.
//!
//! [`conformance`] drives a [`CongestionControl`](crate::CongestionControl) through scripted
//! flows (slow start, application limits, loss, ECN, timeouts, spurious ones, idle, windows that
//! are not used, segment-size changes, tiny and huge ACKs) with several segment sizes and RTTs from
//! zero to one second, and names each broken [`Promise`] with its source. Each flow is run again,
//! at another time of day and with doubled segments, which finds hidden clocks, hidden state and
//! packets taken for bytes. A clock is found only if what it does differs between two runs a moment
//! apart: one that acts by whole seconds mostly reads the same in both, and passes.
//! [`rto_conformance`] does the same for an [`RtoPolicy`](crate::RtoPolicy).
//!
//! ```
//! use narrows_congestion::{FlowStart, Reno, rto::presets, testing};
//!
//! testing::assert_conformance(&|start: &FlowStart| Reno::new(start));
//! testing::assert_rto_conformance(&presets::fine);
//! ```
//!
//! The flows are models, far simpler than a TCP: the kit shows that an algorithm breaks a rule,
//! not that it performs well. An algorithm that panics panics through the kit.
//!
//! All of it is `#[inline]`, and so compiled where it is used and not with what only sends.

mod flow;
mod promise;
mod rto;
mod run;
mod scenarios;

pub use promise::{Promise, Violation};
pub use rto::{RtoKit, RtoPromise, RtoViolation, assert_rto_conformance, rto_conformance};

use crate::factory::CongestionFactory;
use crate::units::{ByteCount, Duration, Instant};
use alloc::format;
use alloc::vec::Vec;
use flow::Path;
use scenarios::SCENARIOS;

const SEGMENT_SIZES: [u64; 3] = [536, 1_448, 8_948];
const RTTS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_micros(10),
    Duration::from_millis(1),
    Duration::from_millis(100),
    Duration::from_secs(1),
];
/// Another time of day: 13 days and an odd number of nanoseconds later.
const OTHER_EPOCH: Instant = Instant::from_nanos((1 << 50) + 12_345);

/// Check every [`Promise`] of the algorithm that `factory` makes.
///
/// # Errors
/// The first violation of each promise in each scenario.
#[inline]
pub fn conformance(factory: &dyn CongestionFactory) -> Result<(), Vec<Violation>> {
    Kit::new().check(factory)
}

/// [`conformance`] for use in a test.
///
/// # Panics
/// With the list of violations, if there is one.
#[track_caller]
#[inline]
pub fn assert_conformance(factory: &dyn CongestionFactory) {
    if let Err(violations) = conformance(factory) {
        panic!("{}", promise::list(&violations));
    }
}

/// The kit with some promises waived, for algorithms that break them on purpose.
///
/// ```
/// use narrows_congestion::{Fixed, FlowStart, testing::{Kit, Promise}};
///
/// let violations = Kit::new()
///     .except(Promise::GrowsWhenLimited)
///     .except(Promise::ReducesOnLoss)
///     .check(&|start: &FlowStart| Fixed::new(start))
///     .unwrap_err();
/// assert!(violations.iter().any(|v| v.promise == Promise::LossWindow));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Kit {
    waived: Vec<Promise>,
}

impl Kit {
    /// Every promise is checked.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Do not ask for `promise`.
    #[must_use]
    #[inline]
    pub fn except(mut self, promise: Promise) -> Self {
        self.waived.push(promise);
        self
    }

    /// Check the algorithm that `factory` makes.
    ///
    /// # Errors
    /// As [`conformance`].
    #[inline]
    pub fn check(&self, factory: &dyn CongestionFactory) -> Result<(), Vec<Violation>> {
        let mut found: Vec<Violation> = Vec::new();
        let mut add = |violation: Violation| {
            let known =
                |v: &Violation| v.promise == violation.promise && v.scenario == violation.scenario;
            if !self.waived.contains(&violation.promise) && !found.iter().any(known) {
                found.push(violation);
            }
        };
        let epoch = Instant::ZERO;
        let cases = || {
            SCENARIOS.iter().flat_map(|s| {
                SEGMENT_SIZES
                    .into_iter()
                    .flat_map(move |mss| RTTS.map(|rtt| (s, Path { mss, rtt, epoch })))
            })
        };
        // All first runs come before all second ones, so that state outside the algorithm and
        // clocks have moved on in between.
        let mut first = Vec::new();
        for (scenario, path) in cases() {
            let mut run = scenario.run(factory, path);
            run.violations.drain(..).for_each(&mut add);
            first.push(run);
        }
        for ((scenario, path), first) in cases().zip(&first) {
            let report = |promise, step, detail| Violation {
                promise,
                scenario: scenario.name,
                mss: ByteCount::new(path.mss),
                rtt: path.rtt,
                step,
                detail,
            };
            let again = scenario.run(factory, path);
            if let Some(step) = first.differs_from(&again) {
                add(report(
                    Promise::Deterministic,
                    step,
                    format!("the same calls gave {}", first.both(&again, step)),
                ));
                continue;
            }
            let epoch = OTHER_EPOCH;
            let later = scenario.run(factory, Path { epoch, ..path });
            if let Some(step) = first.differs_from(&later) {
                add(report(
                    Promise::TimeInvariant,
                    step,
                    format!("with all times shifted, {}", first.both(&later, step)),
                ));
            }
            if let Some(tolerance) = scenario.scales {
                let mss = 2 * path.mss;
                let doubled = scenario.run(factory, Path { mss, ..path });
                if let Some(detail) = first.scaling_error(&doubled, path.mss, tolerance) {
                    add(report(Promise::ScalesWithMss, 0, detail));
                }
            }
        }
        if found.is_empty() { Ok(()) } else { Err(found) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::FlowStart;
    use crate::{
        Cubic, CubicConfig, Dctcp, DctcpConfig, Fixed, Reno, RtoRegistry, SlowStart, rto::presets,
    };

    #[test]
    fn our_own_algorithms_conform() {
        for slow_start in [
            SlowStart::STANDARD,
            SlowStart::Standard { limit: 1 },
            SlowStart::Standard { limit: u32::MAX },
            SlowStart::HYSTART,
            SlowStart::HYSTART_PACED,
        ] {
            assert_conformance(&move |s: &FlowStart| Reno::with_slow_start(s, slow_start));
            for fast_convergence in [false, true] {
                let config = CubicConfig {
                    slow_start,
                    fast_convergence,
                };
                assert_conformance(&move |s: &FlowStart| Cubic::with_config(s, config));
            }
        }
        for floor_segments in [1, 2] {
            for g in [(1, 16), (1, 2), (1, 1)] {
                let config = DctcpConfig {
                    g,
                    floor_segments,
                    ..DctcpConfig::default()
                };
                assert_conformance(&move |s: &FlowStart| Dctcp::with_config(s, config));
            }
        }
    }

    /// A fixed window breaks what asks for a reaction, and nothing else.
    #[test]
    fn a_fixed_window_breaks_the_reactions_only() {
        let mut kit = Kit::new();
        for promise in [
            Promise::GrowsWhenLimited,
            Promise::ReducesOnLoss,
            Promise::ReducesOnEcn,
            Promise::LossWindow,
            Promise::LowersSsthresh,
            Promise::GrowsAfterTimeout,
            Promise::RestartsAfterIdle,
            Promise::LowersUnvalidatedWindow,
        ] {
            kit = kit.except(promise);
        }
        kit.check(&|s: &FlowStart| Fixed::new(s)).unwrap();
    }

    #[test]
    fn our_own_rto_policies_conform() {
        for preset in presets::all() {
            assert_rto_conformance(&move || preset);
        }
        for spec in ["50us", "5ms", "10s", "fine:granularity=4ms"] {
            assert_rto_conformance(&*RtoRegistry::standard().get(spec).unwrap());
        }
    }
}
