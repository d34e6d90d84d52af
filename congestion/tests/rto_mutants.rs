//! Deliberately broken RTO policies: the kit must catch each.

use narrows_congestion::rto::presets;
use narrows_congestion::testing::{RtoKit, RtoPromise, rto_conformance};
use narrows_congestion::{Duration, Instant, RtoContext, RtoPolicy, RttEstimator};
use std::sync::atomic::{AtomicU64, Ordering};

static GLOBAL: AtomicU64 = AtomicU64::new(0);

/// A sound policy whose answer goes through a broken function.
#[derive(Debug)]
struct Specimen {
    name: &'static str,
    answer: fn(&Specimen, &RttEstimator, &RtoContext) -> Duration,
    last: Instant,
}

impl RtoPolicy for Specimen {
    fn name(&self) -> &'static str {
        self.name
    }
    fn rto(&self, rtt: &RttEstimator, ctx: &RtoContext) -> Duration {
        (self.answer)(self, rtt, ctx)
    }
    fn on_rtt_sample(&mut self, _: Duration, now: Instant) {
        self.last = now;
    }
}

fn base(rtt: &RttEstimator) -> Duration {
    rtt.srtt().map_or(Duration::from_secs(1), |s| {
        (s + rtt.four_rttvar()).max(Duration::from_micros(1))
    })
}

fn sound(_: &Specimen, rtt: &RttEstimator, ctx: &RtoContext) -> Duration {
    base(rtt)
        .saturating_shl(ctx.backoff)
        .min(Duration::from_secs(60))
}

type Answer = fn(&Specimen, &RttEstimator, &RtoContext) -> Duration;

fn broken(answer: Answer) -> Vec<RtoPromise> {
    let factory = move || Specimen {
        name: "specimen",
        answer,
        last: Instant::ZERO,
    };
    match rto_conformance(&factory) {
        Ok(()) => Vec::new(),
        Err(violations) => violations.iter().map(|v| v.promise).collect(),
    }
}

#[test]
fn each_mutant_is_caught_for_the_right_reason() {
    assert_eq!(broken(sound), []);
    let table: [(&str, Answer, RtoPromise); 12] = [
        ("zero", |_, _, _| Duration::ZERO, RtoPromise::NeverZero),
        (
            "no granularity",
            |_, r, _| r.srtt().unwrap_or_default(),
            RtoPromise::NeverZero,
        ),
        ("no backoff", |_, r, _| base(r), RtoPromise::BacksOff),
        (
            "backoff swapped with entropy",
            |_, r, c| {
                base(r)
                    .saturating_shl((c.entropy >> 60) as u32)
                    .min(Duration::from_secs(60))
            },
            RtoPromise::BacksOff,
        ),
        (
            "shift wraps",
            |_, r, c| {
                let shifted = base(r).as_nanos().wrapping_shl(c.backoff);
                Duration::from_nanos(shifted.max(1)).min(Duration::from_secs(60))
            },
            RtoPromise::BackoffMonotone,
        ),
        (
            "no cap",
            |_, r, c| base(r).saturating_shl(c.backoff),
            RtoPromise::Bounded,
        ),
        (
            "variation only",
            |_, r, c| {
                let rto = r.four_rttvar().max(Duration::from_micros(1));
                rto.saturating_shl(c.backoff).min(Duration::from_secs(60))
            },
            RtoPromise::AtLeastSrtt,
        ),
        (
            "microseconds as nanoseconds",
            |_, r, c| {
                let rto = Duration::from_nanos(base(r).as_micros().max(1));
                rto.saturating_shl(c.backoff).min(Duration::from_secs(60))
            },
            RtoPromise::AtLeastSrtt,
        ),
        (
            "SRTT only",
            |_, r, c| {
                let rto = r
                    .srtt()
                    .unwrap_or(Duration::from_secs(1))
                    .max(Duration::from_micros(1));
                rto.saturating_shl(c.backoff).min(Duration::from_secs(60))
            },
            RtoPromise::AllowsForVariation,
        ),
        (
            "time of day",
            |s, r, c| sound(s, r, c) + Duration::from_nanos(s.last.as_nanos() >> 30),
            RtoPromise::TimeInvariant,
        ),
        (
            "hidden randomness",
            |s, r, c| sound(s, r, c) + Duration::from_nanos(GLOBAL.fetch_add(1, Ordering::Relaxed)),
            RtoPromise::Deterministic,
        ),
        (
            "wall clock",
            |s, r, c| sound(s, r, c) + Duration::from_nanos(wall_clock_ns() % 1_000),
            RtoPromise::Deterministic,
        ),
    ];
    for (what, answer, expected) in table {
        let broken = broken(answer);
        assert!(
            broken.contains(&expected),
            "{what}: expected {expected:?}, found {broken:?}"
        );
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the bug of this specimen is to read a clock"
)]
fn wall_clock_ns() -> u64 {
    std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |d| d.as_nanos() as u64)
}

#[test]
fn names_are_checked() {
    let factory = || Specimen {
        name: "",
        answer: sound,
        last: Instant::ZERO,
    };
    let violations = rto_conformance(&factory).unwrap_err();
    assert!(
        violations
            .iter()
            .all(|v| v.promise == RtoPromise::StableName)
    );
    assert!(
        violations[0]
            .to_string()
            .starts_with("StableName: the name is ''")
    );
}

/// A fixed RTO below the RTT is what it is: spurious, without backoff, and nothing else.
#[test]
fn a_fixed_timeout_breaks_what_it_must() {
    let factory = || presets::fixed(Duration::from_micros(200));
    assert!(rto_conformance(&factory).is_err());
    RtoKit::new()
        .except(RtoPromise::AtLeastSrtt)
        .except(RtoPromise::AllowsForVariation)
        .except(RtoPromise::BacksOff)
        .check(&factory)
        .unwrap();
}
