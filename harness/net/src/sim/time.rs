//! Virtual time in integer picoseconds.
//!
//! A picosecond is fine enough that no Ethernet rate in use drifts: a byte takes 8,000 ps at
//! 1 Gb/s and 20 ps at 400 Gb/s. A `u64` of them lasts 213 days. Rates whose byte time is not a
//! whole number of picoseconds are exact all the same, because the transmitter carries the
//! remainder ([`crate::net::link::Transmitter`]).

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

use narrows_congestion::{Duration, Instant};

/// Picoseconds in a nanosecond.
const PS_PER_NS: u64 = 1_000;

/// A point or a span of virtual time in picoseconds; points count from the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SimTime(u64);

impl SimTime {
    /// The start of the run, or no time at all.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens; used as "never".
    pub const MAX: Self = Self(u64::MAX);

    /// From whole picoseconds.
    pub const fn from_picos(ps: u64) -> Self {
        Self(ps)
    }
    /// From whole nanoseconds, saturating.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns.saturating_mul(PS_PER_NS))
    }
    /// From whole microseconds, saturating.
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000_000))
    }
    /// From whole milliseconds, saturating.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000_000))
    }
    /// From whole seconds, saturating (at 213 days).
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000_000))
    }
    /// Whole picoseconds.
    pub const fn as_picos(self) -> u64 {
        self.0
    }
    /// Whole nanoseconds, rounded down.
    pub const fn as_nanos(self) -> u64 {
        self.0 / PS_PER_NS
    }
    /// The instant that the TCP sees: rounded down to a nanosecond.
    ///
    /// [`SimTime::MAX`] does not map to [`Instant::MAX`]; "never" has to be handled before.
    pub const fn to_instant(self) -> Instant {
        Instant::from_nanos(self.0 / PS_PER_NS)
    }
    /// The exact point of an instant; saturates to [`SimTime::MAX`] from 213 days on, so
    /// [`Instant::MAX`] stays "never".
    pub const fn from_instant(at: Instant) -> Self {
        Self::from_nanos(at.as_nanos())
    }
    /// The exact span of a duration, saturating.
    pub const fn from_duration(span: Duration) -> Self {
        Self::from_nanos(span.as_nanos())
    }
    /// The span as a [`Duration`], rounded down to a nanosecond.
    pub const fn to_duration(self) -> Duration {
        Duration::from_nanos(self.0 / PS_PER_NS)
    }
    /// `self - other`, or zero where that would be negative.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for SimTime {
    type Output = Self;
    /// Saturates at [`SimTime::MAX`].
    #[inline]
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}
impl AddAssign for SimTime {
    #[inline]
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}
impl Sub for SimTime {
    type Output = Self;
    /// Saturates at zero.
    #[inline]
    fn sub(self, rhs: Self) -> Self {
        self.saturating_sub(rhs)
    }
}
impl From<Instant> for SimTime {
    fn from(at: Instant) -> Self {
        Self::from_instant(at)
    }
}
impl From<Duration> for SimTime {
    fn from(span: Duration) -> Self {
        Self::from_duration(span)
    }
}
impl fmt::Debug for SimTime {
    /// Seconds with twelve decimals: exact, and sorts as text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:012}s",
            self.0 / 1_000_000_000_000,
            self.0 % 1_000_000_000_000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_go_in_exactly_and_come_out_rounded_down() {
        let at = Instant::from_nanos(8_320);
        assert_eq!(SimTime::from(at).as_picos(), 8_320_000);
        assert_eq!(SimTime::from(at).to_instant(), at);
        assert_eq!(SimTime::from_picos(8_320_999).to_instant(), at);
        assert_eq!(
            SimTime::from_picos(8_321_000).to_instant(),
            Instant::from_nanos(8_321)
        );
        assert_eq!(SimTime::from(Instant::MAX), SimTime::MAX);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(SimTime::MAX + SimTime::from_picos(1), SimTime::MAX);
        assert_eq!(SimTime::ZERO - SimTime::from_picos(1), SimTime::ZERO);
        assert_eq!(SimTime::from_secs(u64::MAX), SimTime::MAX);
        assert_eq!(
            format!("{:?}", SimTime::from_nanos(8_320)),
            "0.000008320000s"
        );
    }
}
