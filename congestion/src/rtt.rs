//! Round-trip time estimation, RFC 6298 section 2, in nanoseconds.

use crate::hint::cold_path;
use crate::units::{Duration, Instant};

/// Smoothed RTT and its variation.
///
/// SRTT and RTTVAR follow RFC 6298 section 2 with alpha = 1/8 and beta = 1/4. They are kept
/// with three and two extra fraction bits, so that integer division loses nothing over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttEstimator {
    /// SRTT x 8, in ns.
    srtt_x8: u64,
    /// RTTVAR x 4, in ns.
    rttvar_x4: u64,
    latest: Duration,
    /// [`Duration::MAX`] before a measurement.
    min: Duration,
    min_at: Instant,
    samples: u64,
}

impl Default for RttEstimator {
    fn default() -> Self {
        Self::new()
    }
}

impl RttEstimator {
    /// An estimator that has seen no sample.
    pub const fn new() -> Self {
        Self {
            srtt_x8: 0,
            rttvar_x4: 0,
            latest: Duration::ZERO,
            min: Duration::MAX,
            min_at: Instant::ZERO,
            samples: 0,
        }
    }

    /// Start from remembered values (a metrics cache, RFC 9040): counts as the first sample.
    pub fn seed(srtt: Duration, rttvar: Duration) -> Self {
        Self {
            srtt_x8: srtt.as_nanos().saturating_mul(8),
            rttvar_x4: rttvar.as_nanos().saturating_mul(4),
            latest: srtt,
            samples: 1,
            ..Self::new()
        }
    }

    /// Take one RTT measurement `r`, made at `now` (RFC 6298 section 2.2 and 2.3).
    ///
    /// The caller keeps Karn's rule (section 3): never a sample from a segment that was
    /// retransmitted, unless a timestamp tells which transmission was acknowledged.
    #[inline]
    pub fn on_sample(&mut self, r: Duration, now: Instant) {
        let r_ns = r.as_nanos().min(1 << 56);
        if self.samples == 0 {
            cold_path();
            self.srtt_x8 = r_ns * 8;
            self.rttvar_x4 = r_ns * 2;
        } else {
            // RTTVAR before SRTT: section 2.3 says so.
            let delta = (self.srtt_x8 / 8).abs_diff(r_ns);
            self.rttvar_x4 = self.rttvar_x4 - self.rttvar_x4 / 4 + delta;
            self.srtt_x8 = self.srtt_x8 - self.srtt_x8 / 8 + r_ns;
        }
        self.latest = r;
        self.samples += 1;
        if r <= self.min {
            self.min = r;
            self.min_at = now;
        }
    }

    /// Smoothed RTT; `None` before the first sample.
    #[inline]
    pub fn srtt(&self) -> Option<Duration> {
        (self.samples > 0).then(|| Duration::from_nanos(self.srtt_x8 / 8))
    }

    /// RTT variation; zero before the first sample.
    pub fn rttvar(&self) -> Duration {
        Duration::from_nanos(self.rttvar_x4 / 4)
    }

    /// `4 x RTTVAR`, the term of RFC 6298 equation 2.3, without the rounding of [`Self::rttvar`].
    #[inline]
    pub fn four_rttvar(&self) -> Duration {
        Duration::from_nanos(self.rttvar_x4)
    }

    /// The newest sample; zero before the first.
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// The smallest sample of the connection; `None` before the first.
    #[inline]
    pub fn min(&self) -> Option<Duration> {
        (self.min != Duration::MAX).then_some(self.min)
    }

    /// When the smallest sample was taken.
    pub fn min_at(&self) -> Instant {
        self.min_at
    }

    /// How many samples have been taken.
    #[inline]
    pub fn samples(&self) -> u64 {
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6298 by hand: 100, 200, 100 us give SRTT 100, 112.5, 110.9 and
    /// SRTT + 4 RTTVAR 300, 362.5, 310.9 us.
    #[test]
    fn rfc6298_arithmetic_without_floor() {
        let mut e = RttEstimator::new();
        let mut rto = |us| {
            e.on_sample(Duration::from_micros(us), Instant::ZERO);
            (e.srtt().unwrap() + e.four_rttvar()).as_nanos()
        };
        assert_eq!(rto(100), 300_000);
        assert_eq!(rto(200), 362_500);
        assert_eq!(rto(100), 310_937);
    }

    #[test]
    fn constant_rtt_makes_the_variation_vanish() {
        let mut e = RttEstimator::new();
        for _ in 0..200 {
            e.on_sample(Duration::from_micros(100), Instant::ZERO);
        }
        assert_eq!(e.srtt(), Some(Duration::from_micros(100)));
        assert!(e.four_rttvar() < Duration::from_nanos(10));
    }

    #[test]
    fn absurd_samples_do_not_overflow() {
        let mut e = RttEstimator::new();
        for _ in 0..100 {
            e.on_sample(Duration::MAX, Instant::MAX);
            e.on_sample(Duration::ZERO, Instant::MAX);
        }
        assert_eq!(e.min(), Some(Duration::ZERO));
    }
}
