//! Units: every quantity that decides something has its unit in its type.
//!
//! All are integers. Nothing here touches floating point, so the same inputs
//! give the same bits on every machine.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use core::str::FromStr;

/// A span of time in nanoseconds.
///
/// Own type rather than [`core::time::Duration`]: it is one word, its arithmetic
/// saturates instead of panicking, and it converts both ways.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than any connection lives; used as "no bound".
    pub const MAX: Self = Self(u64::MAX);

    /// From whole nanoseconds.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }
    /// From whole microseconds, saturating.
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }
    /// From whole milliseconds, saturating.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }
    /// From whole seconds, saturating.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }
    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
    /// True for a span of zero nanoseconds.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// `self - other`, or zero where that would be negative.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// The absolute difference.
    pub const fn abs_diff(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }
    /// `self * num / den`, computed in 128 bits and rounded down, saturating.
    ///
    /// # Panics
    /// If `den` is zero.
    pub const fn mul_ratio(self, num: u64, den: u64) -> Self {
        Self(mul_div(self.0, num, den))
    }
    /// Rounded up to a multiple of `tick`; unchanged if `tick` is zero.
    pub const fn round_up(self, tick: Self) -> Self {
        Self(round_up(self.0, tick.0))
    }
    /// `self * 2^shift`, saturating.
    pub const fn saturating_shl(self, shift: u32) -> Self {
        if shift >= 64 || (self.0 != 0 && self.0.leading_zeros() < shift) {
            return if self.0 == 0 { self } else { Self::MAX };
        }
        Self(self.0 << shift)
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}
impl AddAssign for Duration {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}
impl Sub for Duration {
    type Output = Self;
    /// Saturates at zero.
    fn sub(self, rhs: Self) -> Self {
        self.saturating_sub(rhs)
    }
}
impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self(self.0.saturating_mul(rhs))
    }
}
impl Div<u64> for Duration {
    type Output = Self;
    fn div(self, rhs: u64) -> Self {
        Self(self.0 / rhs)
    }
}
impl Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}
impl From<core::time::Duration> for Duration {
    fn from(d: core::time::Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}
impl From<Duration> for core::time::Duration {
    fn from(d: Duration) -> Self {
        Self::from_nanos(d.0)
    }
}
impl fmt::Display for Duration {
    /// The largest unit that keeps the number at least one, up to three decimals: `1.5ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            1_000_000_000.. => (1_000_000_000, "s"),
            1_000_000.. => (1_000_000, "ms"),
            1_000.. => (1_000, "us"),
            _ => (1, "ns"),
        };
        decimal(f, self.0, unit, name)
    }
}
impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Duration {
    type Err = ParseDurationError;
    /// A decimal number and a unit, `s`, `ms`, `us` or `ns`: `200ms`, `1.5us`. Whole
    /// nanoseconds, finer digits are refused.
    fn from_str(text: &str) -> Result<Self, ParseDurationError> {
        let text = text.trim();
        let split = text
            .find(|c: char| c.is_alphabetic())
            .ok_or(ParseDurationError)?;
        let (number, unit) = text.split_at(split);
        let digits = match unit {
            "s" => 9,
            "ms" => 6,
            "us" | "\u{b5}s" | "\u{3bc}s" => 3,
            "ns" => 0,
            _ => return Err(ParseDurationError),
        };
        let (whole, fraction) = number
            .trim_end()
            .split_once('.')
            .unwrap_or((number.trim_end(), ""));
        let decimal = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !decimal(whole) || !decimal(fraction) || fraction.len() > digits {
            return Err(ParseDurationError);
        }
        let pow = |n: usize| 10_u64.pow(n as u32);
        let whole: u64 = whole.parse().map_err(|_| ParseDurationError)?;
        let fraction_ns = match fraction {
            "" => 0,
            // At most nine digits.
            f => f.parse::<u64>().map_err(|_| ParseDurationError)? * pow(digits - f.len()),
        };
        let ns = whole
            .checked_mul(pow(digits))
            .and_then(|ns| ns.checked_add(fraction_ns));
        ns.map(Self).ok_or(ParseDurationError)
    }
}

/// The text is no duration; see [`Duration::from_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseDurationError;

impl fmt::Display for ParseDurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a number and a unit (s, ms, us, ns), such as 200ms or 1.5us")
    }
}

impl core::error::Error for ParseDurationError {}

/// A point in time: nanoseconds since an epoch that the caller chose.
///
/// Only differences mean anything. The caller promises that the times it passes
/// in never go back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The caller's epoch.
    pub const ZERO: Self = Self(0);
    /// Later than any other; used as "never".
    pub const MAX: Self = Self(u64::MAX);

    /// Nanoseconds since the epoch.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }
    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Time from `earlier` to `self`; zero if `earlier` is in fact later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
    /// Rounded up to a multiple of `tick` since the epoch; unchanged if `tick` is zero.
    pub const fn round_up(self, tick: Duration) -> Self {
        Self(round_up(self.0, tick.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}
impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }
}
impl Sub for Instant {
    type Output = Duration;
    /// Saturates at zero.
    fn sub(self, rhs: Self) -> Duration {
        self.since(rhs)
    }
}
impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:09}s",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}

/// A number of bytes (octets).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteCount(u64);

impl ByteCount {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// Without bound; the initial `ssthresh` of RFC 5681 section 3.1.
    pub const MAX: Self = Self(u64::MAX);

    /// From a count of bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }
    /// The count of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The count of bytes as a `usize`, saturating where that is narrower.
    pub const fn as_usize(self) -> usize {
        if self.0 > usize::MAX as u64 {
            usize::MAX
        } else {
            self.0 as usize
        }
    }
    /// True for no bytes.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// `self - other`, or zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// `self * num / den`, computed in 128 bits and rounded down, saturating.
    ///
    /// # Panics
    /// If `den` is zero.
    pub const fn mul_ratio(self, num: u64, den: u64) -> Self {
        Self(mul_div(self.0, num, den))
    }
}

impl Add for ByteCount {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}
impl AddAssign for ByteCount {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}
impl Sub for ByteCount {
    type Output = Self;
    /// Saturates at zero.
    fn sub(self, rhs: Self) -> Self {
        self.saturating_sub(rhs)
    }
}
impl SubAssign for ByteCount {
    fn sub_assign(&mut self, rhs: Self) {
        *self = *self - rhs;
    }
}
impl Mul<u64> for ByteCount {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self(self.0.saturating_mul(rhs))
    }
}
impl Div<u64> for ByteCount {
    type Output = Self;
    fn div(self, rhs: u64) -> Self {
        Self(self.0 / rhs)
    }
}
impl Sum for ByteCount {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}
impl From<u32> for ByteCount {
    fn from(n: u32) -> Self {
        Self(u64::from(n))
    }
}
impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}
impl fmt::Debug for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}B", self.0)
    }
}

/// A data rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// From bits per second.
    pub const fn from_bits_per_sec(bps: u64) -> Self {
        Self(bps)
    }
    /// From megabits (10^6) per second, saturating.
    pub const fn from_mbps(mbps: u64) -> Self {
        Self(mbps.saturating_mul(1_000_000))
    }
    /// From gigabits (10^9) per second, saturating.
    pub const fn from_gbps(gbps: u64) -> Self {
        Self(gbps.saturating_mul(1_000_000_000))
    }
    /// Bits per second.
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }
    /// The average rate of `bytes` over `interval`; `None` over no time.
    pub const fn of(bytes: ByteCount, interval: Duration) -> Option<Self> {
        if interval.0 == 0 {
            return None;
        }
        // In 64 bits where they suffice: a division of 128 bits costs many times as much.
        Some(Self(match bytes.0.checked_mul(8_000_000_000) {
            Some(bits) => bits / interval.0,
            None => mul_div(bytes.0, 8_000_000_000, interval.0),
        }))
    }
    /// How long `bytes` take at this rate, rounded up; [`Duration::MAX`] at rate zero.
    pub const fn time_for(self, bytes: ByteCount) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let num = bytes.0 as u128 * 8_000_000_000;
        let ns = num.div_ceil(self.0 as u128);
        if ns > u64::MAX as u128 {
            Duration::MAX
        } else {
            Duration(ns as u64)
        }
    }
    /// How many whole bytes pass in `interval` at this rate.
    pub const fn bytes_in(self, interval: Duration) -> ByteCount {
        ByteCount(mul_div(self.0, interval.0, 8_000_000_000))
    }
    /// `self * num / den`, computed in 128 bits and rounded down, saturating.
    ///
    /// # Panics
    /// If `den` is zero.
    pub const fn mul_ratio(self, num: u64, den: u64) -> Self {
        Self(mul_div(self.0, num, den))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            1_000_000_000.. => (1_000_000_000, "Gb/s"),
            1_000_000.. => (1_000_000, "Mb/s"),
            1_000.. => (1_000, "kb/s"),
            _ => (1, "b/s"),
        };
        decimal(f, self.0, unit, name)
    }
}
impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `a * b / c` in 128 bits, saturating.
const fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    assert!(c != 0, "ratio with a zero denominator");
    let q = a as u128 * b as u128 / c as u128;
    if q > u64::MAX as u128 {
        u64::MAX
    } else {
        q as u64
    }
}

const fn round_up(value: u64, tick: u64) -> u64 {
    if tick == 0 {
        return value;
    }
    let over = value % tick;
    if over == 0 {
        value
    } else {
        value.saturating_add(tick - over)
    }
}

/// `value / unit` with up to three decimals, trailing zeros dropped.
fn decimal(f: &mut fmt::Formatter<'_>, value: u64, unit: u64, name: &str) -> fmt::Result {
    let whole = value / unit;
    let milli = (value % unit) * 1_000 / unit;
    match milli {
        0 => write!(f, "{whole}{name}"),
        m if m % 100 == 0 => write!(f, "{whole}.{}{name}", m / 100),
        m if m % 10 == 0 => write!(f, "{whole}.{:02}{name}", m / 10),
        m => write!(f, "{whole}.{m:03}{name}"),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::format;

    #[test]
    fn display_picks_a_readable_unit() {
        assert_eq!(format!("{}", Duration::from_micros(1_500)), "1.5ms");
        assert_eq!(format!("{}", Duration::from_nanos(362_500)), "362.5us");
        assert_eq!(format!("{}", Duration::from_millis(200)), "200ms");
        assert_eq!(format!("{}", Rate::from_mbps(2_500)), "2.5Gb/s");
    }

    #[test]
    fn durations_parse() {
        for (text, ns) in [
            ("200ms", 200_000_000),
            ("1.5us", 1_500),
            (" 3 s ", 3_000_000_000),
            ("0.000000001s", 1),
            ("17ns", 17),
            ("0s", 0),
        ] {
            assert_eq!(text.parse(), Ok(Duration::from_nanos(ns)), "{text}");
        }
        for text in [
            "",
            "ms",
            "1",
            "1.ms.",
            "-1ms",
            "1h",
            "1.5ns",
            ".5s",
            "1e3s",
            "99999999999999s",
            "1..2s",
        ] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }

    #[test]
    fn shifts_and_ratios_saturate() {
        assert_eq!(Duration::from_secs(1).saturating_shl(200), Duration::MAX);
        assert_eq!(Duration::ZERO.saturating_shl(200), Duration::ZERO);
        assert_eq!(
            Duration::from_nanos(3).saturating_shl(2),
            Duration::from_nanos(12)
        );
        assert_eq!(ByteCount::MAX.mul_ratio(3, 2), ByteCount::MAX);
        assert_eq!(ByteCount::new(7).mul_ratio(1, 2), ByteCount::new(3));
    }

    #[test]
    fn rate_and_time_are_inverse() {
        let gig = Rate::from_gbps(1);
        assert_eq!(
            gig.time_for(ByteCount::new(1_040)),
            Duration::from_nanos(8_320)
        );
        assert_eq!(
            gig.bytes_in(Duration::from_nanos(8_320)),
            ByteCount::new(1_040)
        );
        assert_eq!(
            Rate::of(ByteCount::new(1_040), Duration::from_nanos(8_320)),
            Some(gig)
        );
        assert_eq!(Rate::of(ByteCount::new(1), Duration::ZERO), None);
    }

    #[test]
    fn instants_round_up_to_a_tick() {
        let tick = Duration::from_millis(4);
        assert_eq!(
            Instant::from_nanos(1).round_up(tick),
            Instant::from_nanos(4_000_000)
        );
        assert_eq!(
            Instant::from_nanos(8_000_000).round_up(tick),
            Instant::from_nanos(8_000_000)
        );
        assert_eq!(
            Instant::from_nanos(5).round_up(Duration::ZERO),
            Instant::from_nanos(5)
        );
    }
}
