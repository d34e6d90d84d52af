//! What readings of a polled counter say: rates, what they are in a second, and bursts.
//!
//! The same for counters of the simulated network (the probe `rate`) and of real interfaces
//! (`narrows meter`). A burst is a run of readings above a share of the line's rate, as Zhang et
//! al. count them ("High-resolution measurement of data center microbursts", IMC 2017, section 5:
//! hot above 50 % of 25 us); its length is that of its readings, the gap between two bursts that of
//! the readings between them.

use crate::stats::quantile;

/// Readings of one counter, a period apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// The period, in nanoseconds.
    pub every: u64,
    /// What each reading says, per second: bits, packets.
    pub rates: Vec<f64>,
}

/// Mean and greatest of some readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// The mean.
    pub mean: f64,
    /// The greatest.
    pub max: f64,
}

impl Stretch {
    fn of(rates: &[f64]) -> Option<Self> {
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let max = rates.iter().copied().reduce(f64::max)?;
        Some(Self { mean, max })
    }

    /// How far the greatest is above the mean; `None` where nothing moved.
    pub fn ratio(&self) -> Option<f64> {
        (self.mean > 0.0).then(|| self.max / self.mean)
    }
}

/// Runs of readings above and below a rate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bursts {
    /// Readings above.
    pub hot: usize,
    /// Lengths of the bursts that began and ended within the readings, in nanoseconds, in order of
    /// length.
    pub lengths: Vec<u64>,
    /// The gaps between two bursts, likewise.
    pub gaps: Vec<u64>,
}

impl Bursts {
    /// The quantile of `permille` of the lengths, in nanoseconds, by nearest rank.
    pub fn length(&self, permille: usize) -> Option<u64> {
        quantile(&self.lengths, permille)
    }

    /// The same of the gaps.
    pub fn gap(&self, permille: usize) -> Option<u64> {
        quantile(&self.gaps, permille)
    }
}

impl Readings {
    /// Mean and greatest of all of them; `None` without any.
    pub fn whole(&self) -> Option<Stretch> {
        Stretch::of(&self.rates)
    }

    /// Readings in which nothing moved.
    pub fn idle(&self) -> usize {
        self.rates.iter().filter(|rate| **rate == 0.0).count()
    }

    /// How many readings a second has; `None` where the period is longer.
    fn a_second(&self) -> Option<usize> {
        let count = 1_000_000_000_u64.checked_div(self.every)?;
        usize::try_from(count).ok().filter(|n| *n > 0)
    }

    /// Each whole second of them. Where the period does not divide a second, what it has of whole
    /// periods; nothing where it is longer than a second.
    pub fn seconds(&self) -> impl Iterator<Item = Stretch> {
        let seconds = self.a_second().map(|n| self.rates.chunks_exact(n));
        seconds.into_iter().flatten().filter_map(Stretch::of)
    }

    /// How far the greatest reading of a second is above the second's mean, in the median of the
    /// seconds in which something moved.
    pub fn median_ratio(&self) -> Option<f64> {
        let mut ratios: Vec<f64> = self.seconds().filter_map(|s| s.ratio()).collect();
        ratios.sort_by(f64::total_cmp);
        quantile(&ratios, 500)
    }

    /// The bursts: runs of readings above `rate`.
    pub fn bursts(&self, rate: f64) -> Bursts {
        let mut bursts = Bursts::default();
        let mut at = 0;
        let mut first = true;
        for run in self.rates.chunk_by(|a, b| (*a > rate) == (*b > rate)) {
            let is_hot = run[0] > rate;
            let length = run.len() as u64 * self.every;
            at += run.len();
            if is_hot {
                bursts.hot += run.len();
            }
            // What the readings cut has no length.
            if !first && at < self.rates.len() {
                let all = match is_hot {
                    true => &mut bursts.lengths,
                    false => &mut bursts.gaps,
                };
                all.push(length);
            }
            first = false;
        }
        bursts.lengths.sort_unstable();
        bursts.gaps.sort_unstable();
        bursts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn readings(every: u64, rates: &[f64]) -> Readings {
        Readings {
            every,
            rates: rates.to_vec(),
        }
    }

    #[test]
    fn a_second_has_its_own_mean_and_maximum() {
        let r = readings(500_000_000, &[1.0, 3.0, 2.0, 2.0, 9.0]);
        let seconds: Vec<Stretch> = r.seconds().collect();
        assert_eq!(seconds.len(), 2);
        assert_eq!(
            seconds[0],
            Stretch {
                mean: 2.0,
                max: 3.0
            }
        );
        assert_eq!(seconds[1].ratio(), Some(1.0));
        assert_eq!(r.median_ratio(), Some(1.0));
        assert_eq!(r.whole().unwrap().max, 9.0);
        assert_eq!(readings(2_000_000_000, &[1.0]).median_ratio(), None);
        assert_eq!(readings(500_000_000, &[0.0, 0.0]).median_ratio(), None);
        assert_eq!(readings(1, &[]).whole(), None);
    }

    #[test]
    fn bursts_are_runs_of_hot_readings_and_what_is_cut_off_has_no_length() {
        let r = readings(25, &[9.0, 1.0, 9.0, 9.0, 1.0, 1.0, 1.0, 9.0, 0.0]);
        let bursts = r.bursts(5.0);
        assert_eq!(bursts.hot, 4);
        assert_eq!(bursts.lengths, [25, 50]);
        assert_eq!(bursts.gaps, [25, 75]);
        assert_eq!(
            (bursts.length(500), bursts.length(900)),
            (Some(25), Some(50))
        );
        // Half is not above half.
        assert_eq!(readings(25, &[5.0, 5.0]).bursts(5.0), Bursts::default());
    }

    proptest! {
        #[test]
        fn bursts_and_gaps_are_no_longer_than_what_was_read(
            rates in proptest::collection::vec(0.0..10.0_f64, 0..200)
        ) {
            let bursts = readings(1, &rates).bursts(5.0);
            let sum: u64 = bursts.lengths.iter().chain(&bursts.gaps).sum();
            prop_assert!(sum <= rates.len() as u64);
            prop_assert_eq!(bursts.hot, rates.iter().filter(|r| **r > 5.0).count());
            prop_assert!(bursts.lengths.len().abs_diff(bursts.gaps.len()) <= 1);
        }
    }
}
