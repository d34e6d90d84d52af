//! Times and shares, for people and for figures.

use narrows::{Duration, Instant};

/// Seconds.
pub(super) fn seconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e9
}

/// Seconds since `start`.
pub(super) fn since(start: Instant, at: Instant) -> f64 {
    seconds(at.since(start))
}

/// A time with three digits or so.
pub(super) fn short(time: Duration) -> String {
    let ns = time.as_nanos();
    let (unit, name) = match ns {
        0 => return "0".to_owned(),
        1..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let value = ns as f64 / unit as f64;
    match value {
        _ if unit == 1 => format!("{ns} {name}"),
        100.0.. => format!("{value:.0} {name}"),
        10.0.. => format!("{value:.1} {name}"),
        _ => format!("{value:.2} {name}"),
    }
}

pub(super) fn share(part: Duration, whole: Duration) -> u64 {
    (u128::from(part.as_nanos()) * 100 / u128::from(whole.as_nanos().max(1))) as u64
}
