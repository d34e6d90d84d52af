//! When things happen by themselves: Poisson arrivals, and pauses.

use crate::knob::Quantity;
use crate::sim::rng::Stream;
use crate::sim::time::SimTime;
use crate::values;
use narrows::{Duration, Instant};

/// Bits behind the point of what [`neg_ln`] gives.
const POINT: u32 = 48;

/// ln 2 in units of 2^-64.
const LN_2: u64 = 12_786_308_645_202_655_660;

/// `-ln((u + 1) / 2^64)` in units of 2^-48, at most 2^-46 off: an exponential variate with mean 1
/// for a uniform `u`, from 0 to 64 ln 2 (44.4). The logarithm to base 2 comes bit by bit from
/// squares, all in integers, so that it is the same on every machine.
pub fn neg_ln(u: u64) -> u64 {
    let v = u128::from(u) + 1;
    let whole = 127 - v.leading_zeros();
    // v / 2^whole, from 1 to 2, with 63 bits behind the point.
    let mut m = if whole > 63 {
        v >> 1
    } else {
        v << (63 - whole)
    };
    let mut fraction = 0_u64;
    for _ in 0..POINT {
        m = (m * m) >> 63;
        fraction <<= 1;
        if m >> 64 != 0 {
            m >>= 1;
            fraction |= 1;
        }
    }
    let log2 = (u64::from(64 - whole) << POINT) - fraction;
    ((u128::from(log2) * u128::from(LN_2)) >> 64) as u64
}

/// A span with an exponential distribution around `mean`, rounded down to the picosecond.
pub fn exponential(mean: SimTime, random: &mut Stream) -> SimTime {
    let product = u128::from(mean.as_picos()) * u128::from(neg_ln(random.next_u64()));
    SimTime::from_picos(u64::try_from(product >> POINT).unwrap_or(u64::MAX))
}

/// Open-loop arrivals: a Poisson process, whatever becomes of what arrives.
#[derive(Clone, Debug)]
pub struct Arrivals {
    mean: SimTime,
    at: SimTime,
    random: Stream,
}

impl Arrivals {
    /// Arrivals with a mean interval, the first one an interval after `from`.
    pub fn after(from: Instant, mean: SimTime, random: Stream) -> Self {
        let mut arrivals = Self::from(from, mean, random);
        arrivals.advance();
        arrivals
    }

    /// Arrivals with a mean interval, the first one at `from`.
    pub fn from(from: Instant, mean: SimTime, random: Stream) -> Self {
        Self {
            mean,
            at: SimTime::from_instant(from),
            random,
        }
    }

    /// When the next one arrives, rounded up to the nanosecond.
    pub fn next(&self) -> Instant {
        let next = self.at.to_instant();
        if SimTime::from_instant(next) < self.at {
            next + Duration::from_nanos(1)
        } else {
            next
        }
    }

    /// It has; on to the one after it.
    pub fn advance(&mut self) {
        let interval = exponential(self.mean, &mut self.random);
        self.at = SimTime::from_picos(self.at.as_picos().saturating_add(interval.as_picos()));
    }
}

/// A pause: `5ms`, always that, or `exponential:5ms`, with that mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Always this.
    Fixed(Duration),
    /// Exponential with this mean.
    Exponential(Duration),
}

const EXPONENTIAL: &str = "exponential:";

impl Pause {
    /// None.
    pub const NONE: Self = Self::Fixed(Duration::ZERO);
    /// The kind of a knob that is one.
    pub const KIND: crate::knob::Kind = crate::knob::Kind::Text("5ms or exponential:5ms");

    /// The next one.
    pub fn draw(self, random: &mut Stream) -> Duration {
        match self {
            Self::Fixed(span) => span,
            Self::Exponential(mean) => {
                exponential(SimTime::from_duration(mean), random).to_duration()
            }
        }
    }

    /// Its mean.
    pub const fn mean(self) -> Duration {
        match self {
            Self::Fixed(span) | Self::Exponential(span) => span,
        }
    }
}

impl Quantity for Pause {
    fn read(text: &str) -> Result<Self, String> {
        match text.strip_prefix(EXPONENTIAL) {
            Some(mean) => values::duration(mean).map(Self::Exponential),
            None => values::duration(text).map(Self::Fixed),
        }
    }

    fn show(&self) -> Option<String> {
        match self {
            Self::Fixed(span) => span.show(),
            Self::Exponential(mean) => Some(format!("{EXPONENTIAL}{}", mean.show()?)),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sim::rng::Component;
    use proptest::prelude::*;

    /// The largest distance of the empirical distribution of `spans` from an exponential one with
    /// `mean`, times the root of their number: above 1.63 with a probability of 1 %
    /// (Kolmogorov-Smirnov).
    pub(in crate::traffic) fn distance_from_exponential(mut spans: Vec<f64>, mean: f64) -> f64 {
        spans.sort_by(f64::total_cmp);
        let n = spans.len() as f64;
        let most = spans.iter().enumerate().map(|(i, span)| {
            let cdf = 1.0 - (-span / mean).exp();
            (cdf - i as f64 / n)
                .abs()
                .max(((i + 1) as f64 / n - cdf).abs())
        });
        most.fold(0.0, f64::max) * n.sqrt()
    }

    fn scale() -> f64 {
        2_f64.powi(POINT as i32)
    }

    /// 1, 1/2 and 2^-64 are exact but for the last bit of ln 2.
    #[test]
    fn the_logarithm_is_pinned() {
        assert_eq!(neg_ln(u64::MAX), 0);
        // ln 2, 64 ln 2.
        assert_eq!(neg_ln((1 << 63) - 1), LN_2 >> 16);
        assert_eq!(neg_ln(0), ((u128::from(LN_2) * 64) >> 16) as u64);
    }

    proptest! {
        #[test]
        fn the_logarithm_is_that_of_the_processor(u: u64, shift in 0_u32..64) {
            let u = u >> shift;
            let exact = if u > u64::MAX / 2 {
                let rest = (u64::MAX - u) as f64 / 2_f64.powi(64);
                -(-rest).ln_1p()
            } else {
                -((u128::from(u) + 1) as f64 / 2_f64.powi(64)).ln()
            };
            let ours = neg_ln(u) as f64 / scale();
            prop_assert!((ours - exact).abs() <= 2_f64.powi(-46), "{u}: {ours} {exact}");
        }

        #[test]
        fn the_logarithm_falls(a: u64, b: u64) {
            let (a, b) = (a.min(b), a.max(b));
            prop_assert!(neg_ln(a) + 1 >= neg_ln(b));
        }

        #[test]
        fn what_is_shown_reads_back(ns in 0_u64..10_000_000_000, exponential: bool) {
            let span = Duration::from_nanos(ns);
            let pause = if exponential { Pause::Exponential(span) } else { Pause::Fixed(span) };
            prop_assert_eq!(Pause::read(&pause.show().unwrap()), Ok(pause));
        }
    }

    /// Mean, variance and shape of 10^5 intervals.
    #[test]
    fn intervals_are_exponential() {
        let mean = SimTime::from_micros(10);
        let mut random = Stream::new(3, Component::Scenario, 0);
        let n = 100_000;
        let spans: Vec<f64> = (0..n)
            .map(|_| exponential(mean, &mut random).as_picos() as f64 / 1e7)
            .collect();
        let average = spans.iter().sum::<f64>() / f64::from(n);
        let squares = spans.iter().map(|s| (s - average).powi(2)).sum::<f64>();
        let variance = squares / f64::from(n);
        // Four standard errors: 1 / sqrt(n), and sqrt(8 / n) of the variance.
        assert!((average - 1.0).abs() < 0.0127, "{average}");
        assert!((variance - 1.0).abs() < 0.036, "{variance}");
        let distance = distance_from_exponential(spans, 1.0);
        assert!(distance < 1.63, "{distance}");
    }

    /// Rounding each arrival to the nanosecond loses nothing on the way.
    #[test]
    fn arrivals_keep_their_rate_below_the_nanosecond() {
        let mean = SimTime::from_picos(1_500);
        let start = Instant::from_nanos(77);
        let mut arrivals = Arrivals::from(start, mean, Stream::new(1, Component::Scenario, 0));
        assert_eq!(arrivals.next(), start);
        let n = 100_000;
        for _ in 0..n {
            arrivals.advance();
        }
        let span = arrivals.next().since(start).as_nanos() as f64 / f64::from(n);
        assert!((span - 1.5).abs() < 1.5 * 0.0127, "{span}");
        let later = Arrivals::after(start, mean, Stream::new(1, Component::Scenario, 0));
        assert!(later.next() > start);
    }

    #[test]
    fn pauses_are_drawn() {
        let ms = Duration::from_millis(5);
        let mut random = Stream::new(1, Component::Scenario, 0);
        assert_eq!(Pause::Fixed(ms).draw(&mut random), ms);
        let sum: u64 = (0..10_000)
            .map(|_| Pause::Exponential(ms).draw(&mut random).as_nanos())
            .sum();
        let mean = sum as f64 / 5e10;
        assert!((mean - 1.0).abs() < 0.04, "{mean}");
        assert!(Pause::read("exp:5ms").is_err());
        assert!(Pause::read("exponential:5").is_err());
    }
}
