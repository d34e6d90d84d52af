//! The kit for RTO policies.

use super::promise::list;
use crate::factory::RtoFactory;
use crate::rto::{RtoContext, RtoPolicy};
use crate::rtt::RttEstimator;
use crate::units::{Duration, Instant};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Nobody waits longer: the bound that every policy must have somewhere.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);
const BACKOFFS: [u32; 10] = [0, 1, 2, 3, 6, 12, 31, 63, 64, u32::MAX];
const ENTROPIES: [u64; 6] = [0, 1, 1 << 32, 1 << 63, 0x9E37_79B9_7F4A_7C15, u64::MAX];

/// A promise of [`RtoPolicy`] that the kit checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RtoPromise {
    /// The timeout is never zero.
    NeverZero,
    /// The timeout is bounded: never more than a day.
    Bounded,
    /// It is at least SRTT, up to RTTs of one second.
    AtLeastSrtt,
    /// It allows for the variation: no shorter than the longest sample of a path whose RTT
    /// alternates.
    AllowsForVariation,
    /// The first timeout in a row makes the next longer.
    BacksOff,
    /// No further timeout makes it shorter.
    BackoffMonotone,
    /// The same facts give the same answer.
    Deterministic,
    /// Only differences of times matter.
    TimeInvariant,
    /// The name is lower case and not empty.
    StableName,
}

impl RtoPromise {
    /// The section that asks for it.
    #[inline]
    pub fn source(self) -> &'static str {
        match self {
            Self::NeverZero => "RtoPolicy::rto",
            Self::Bounded => "RFC 6298 rule 2.5",
            Self::AtLeastSrtt | Self::AllowsForVariation => "RFC 6298 rule 2.3",
            Self::BacksOff | Self::BackoffMonotone => "RFC 6298 rule 5.5",
            Self::Deterministic | Self::TimeInvariant => "RtoPolicy: no clock, no randomness",
            Self::StableName => "RtoPolicy::name",
        }
    }
}

/// A broken promise of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RtoViolation {
    /// What was promised.
    pub promise: RtoPromise,
    /// What was seen.
    pub detail: String,
}

impl fmt::Display for RtoViolation {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}: {} [{}]",
            self.promise,
            self.detail,
            self.promise.source()
        )
    }
}

impl core::error::Error for RtoViolation {}

/// Check every [`RtoPromise`] of the policy that `factory` makes.
///
/// # Errors
/// The first violation of each promise.
#[inline]
pub fn rto_conformance(factory: &dyn RtoFactory) -> Result<(), Vec<RtoViolation>> {
    RtoKit::new().check(factory)
}

/// [`rto_conformance`] for use in a test.
///
/// # Panics
/// With the list of violations, if there is one.
#[track_caller]
#[inline]
pub fn assert_rto_conformance(factory: &dyn RtoFactory) {
    if let Err(violations) = rto_conformance(factory) {
        panic!("{}", list(&violations));
    }
}

/// The kit with some promises waived, for policies that break them on purpose.
#[derive(Clone, Debug, Default)]
pub struct RtoKit {
    waived: Vec<RtoPromise>,
}

impl RtoKit {
    /// Every promise is checked.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Do not ask for `promise`.
    #[must_use]
    #[inline]
    pub fn except(mut self, promise: RtoPromise) -> Self {
        self.waived.push(promise);
        self
    }

    /// Check the policy that `factory` makes.
    ///
    /// # Errors
    /// As [`rto_conformance`].
    #[inline]
    pub fn check(&self, factory: &dyn RtoFactory) -> Result<(), Vec<RtoViolation>> {
        let mut ledger = Ledger {
            waived: &self.waived,
            found: Vec::new(),
        };
        let cases = cases();
        let first: Vec<_> = cases
            .iter()
            .map(|c| answers(factory, c, Instant::ZERO, &mut ledger))
            .collect();
        let mut ignored = Ledger {
            waived: &[],
            found: Vec::new(),
        };
        for (case, first) in cases.iter().zip(&first) {
            let what = &case.what;
            if &answers(factory, case, Instant::ZERO, &mut ignored) != first {
                ledger.broken(RtoPromise::Deterministic, format!("asked twice ({what})"));
            }
            let later = Instant::from_nanos((1 << 50) + 12_345);
            if &answers(factory, case, later, &mut ignored) != first {
                ledger.broken(
                    RtoPromise::TimeInvariant,
                    format!("all times shifted ({what})"),
                );
            }
        }
        if ledger.found.is_empty() {
            Ok(())
        } else {
            Err(ledger.found)
        }
    }
}

struct Ledger<'a> {
    waived: &'a [RtoPromise],
    found: Vec<RtoViolation>,
}

impl Ledger<'_> {
    #[inline]
    fn broken(&mut self, promise: RtoPromise, detail: String) {
        let known = self.found.iter().any(|v| v.promise == promise);
        if !known && !self.waived.contains(&promise) {
            self.found.push(RtoViolation { promise, detail });
        }
    }
}

/// A history of RTT samples.
struct Case {
    what: String,
    samples: Vec<Duration>,
}

#[inline]
fn cases() -> Vec<Case> {
    let us = Duration::from_micros;
    let mut cases = Vec::new();
    cases.push(Case {
        what: String::from("no sample"),
        samples: Vec::new(),
    });
    for rtt in [
        Duration::ZERO,
        us(10),
        us(100),
        us(1_000),
        us(40_000),
        us(1_000_000),
    ] {
        for n in [1, 2, 50] {
            let samples = core::iter::repeat_n(rtt, n).collect();
            cases.push(Case {
                what: format!("{n} samples of {rtt}"),
                samples,
            });
        }
        let samples = (0..50)
            .map(|i| if i % 2 == 0 { rtt } else { rtt * 3 })
            .collect();
        cases.push(Case {
            what: format!("{rtt} and {} by turns", rtt * 3),
            samples,
        });
    }
    let absurd = (0..10).map(|i| {
        if i % 2 == 0 {
            Duration::MAX
        } else {
            Duration::ZERO
        }
    });
    cases.push(Case {
        what: String::from("absurd samples"),
        samples: absurd.collect(),
    });
    cases
}

/// Every answer of a fresh policy in one case, each held against the promises.
#[inline]
fn answers(
    factory: &dyn RtoFactory,
    case: &Case,
    epoch: Instant,
    ledger: &mut Ledger<'_>,
) -> Vec<Duration> {
    let what = &case.what;
    let mut policy = factory.build();
    let mut est = RttEstimator::new();
    let mut now = epoch;
    for &rtt in &case.samples {
        now = now + rtt.min(Duration::from_secs(1));
        est.on_sample(rtt, now);
        policy.on_rtt_sample(rtt, now);
    }
    let name = policy.name();
    if name.is_empty() || name.chars().any(char::is_uppercase) {
        ledger.broken(RtoPromise::StableName, format!("the name is '{name}'"));
    }
    let mut all = Vec::new();
    for entropy in ENTROPIES {
        let mut shorter: Option<Duration> = None;
        for backoff in BACKOFFS {
            let rto = policy.rto(&est, &RtoContext::new(backoff, entropy));
            all.push(rto);
            let seen = || format!("{rto} after {what}, {backoff} timeouts, entropy {entropy:#x}");
            if rto.is_zero() {
                ledger.broken(RtoPromise::NeverZero, seen());
            }
            if rto > LONGEST {
                ledger.broken(RtoPromise::Bounded, seen());
            }
            if let Some(last) = shorter {
                if rto < last {
                    ledger.broken(
                        RtoPromise::BackoffMonotone,
                        format!("{last}, then {}", seen()),
                    );
                }
                if backoff == 1 && rto <= last && last <= Duration::from_secs(10) {
                    ledger.broken(RtoPromise::BacksOff, format!("{last}, then {}", seen()));
                }
            }
            shorter = Some(rto);
        }
        check_estimate(&*policy, &est, case, entropy, ledger);
    }
    all
}

#[inline]
fn check_estimate(
    policy: &dyn RtoPolicy,
    est: &RttEstimator,
    case: &Case,
    entropy: u64,
    ledger: &mut Ledger<'_>,
) {
    let rto = policy.rto(est, &RtoContext::new(0, entropy));
    let what = &case.what;
    let Some(srtt) = est.srtt().filter(|s| *s <= Duration::from_secs(2)) else {
        return;
    };
    if rto < srtt {
        ledger.broken(
            RtoPromise::AtLeastSrtt,
            format!("{rto} with SRTT {srtt}, after {what}"),
        );
    }
    let longest = case.samples.iter().max().copied().unwrap_or(Duration::ZERO);
    if rto < longest {
        let detail = format!("{rto} with samples up to {longest}, after {what}");
        ledger.broken(RtoPromise::AllowsForVariation, detail);
    }
}
