//! Means with confidence intervals, and exact quantiles.

/// A mean and the half-width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The arithmetic mean.
    pub mean: f64,
    /// The true mean lies within `mean` plus or minus this with 95 % confidence, if the samples
    /// are independent and about normal (Student's t). `None` from a single sample.
    pub ci95: Option<f64>,
    /// How many samples.
    pub samples: usize,
}

impl Estimate {
    /// From samples; `None` without any.
    pub fn of(samples: &[f64]) -> Option<Self> {
        if samples.is_empty() {
            return None;
        }
        let n = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / n;
        let ci95 = (samples.len() > 1).then(|| {
            let squares: f64 = samples.iter().map(|x| (x - mean) * (x - mean)).sum();
            let sd = (squares / (n - 1.0)).sqrt();
            student_t_975(samples.len() - 1) * sd / n.sqrt()
        });
        Some(Self {
            mean,
            ci95,
            samples: samples.len(),
        })
    }

    /// Whether the intervals of two means do not meet; of single samples, whether they differ.
    pub fn differs_from(&self, other: &Self) -> bool {
        let reach = self.ci95.unwrap_or(0.0) + other.ci95.unwrap_or(0.0);
        (self.mean - other.mean).abs() > reach
    }
}

/// The 97.5 % quantile of Student's t distribution, which bounds a two-sided 95 % interval.
///
/// Tabulated to 30 degrees of freedom, beyond that the Cornish-Fisher expansion (Abramowitz and
/// Stegun 26.7.5), exact there to four decimals. Infinite for zero degrees.
pub fn student_t_975(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010,
        2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739,
        2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
    ];
    if degrees == 0 {
        return f64::INFINITY;
    }
    if let Some(t) = TABLE.get(degrees - 1) {
        return *t;
    }
    let z = 1.959_963_985_f64;
    let v = degrees as f64;
    let (z3, z5) = (z.powi(3), z.powi(5));
    z + (z3 + z) / (4.0 * v) + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * v * v)
}

/// The quantile of `permille` of `sorted` by nearest rank: the smallest value that at least so many of a
/// thousand do not exceed. `None` without values.
pub fn quantile<T: Copy>(sorted: &[T], permille: usize) -> Option<T> {
    sorted.get(nearest_rank(sorted.len(), permille)?).copied()
}

/// Which of `count` values in order is the quantile of `permille` by nearest rank; `None` without
/// values.
pub fn nearest_rank(count: usize, permille: usize) -> Option<usize> {
    let rank = (count * permille.min(1_000)).div_ceil(1_000).max(1);
    (count > 0).then(|| rank - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::Duration;

    fn close(a: f64, b: f64, within: f64) {
        assert!((a - b).abs() < within, "{a} is not {b}");
    }

    /// Student's own sleep data (Biometrika 1908), the ten differences: mean 1.58, 95 %
    /// interval 0.70 to 2.46.
    #[test]
    fn students_sleep_data() {
        let d = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];
        let e = Estimate::of(&d).unwrap();
        close(e.mean, 1.58, 1e-9);
        close(e.mean - e.ci95.unwrap(), 0.700_114, 1e-4);
        close(e.mean + e.ci95.unwrap(), 2.459_886, 1e-4);
    }

    #[test]
    fn few_samples() {
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[5.0]).unwrap().ci95, None);
        assert_eq!(Estimate::of(&[5.0, 5.0]).unwrap().ci95, Some(0.0));
        // sd = sqrt(2)/2 x difference; half-width = 12.7062 x |a - b| / 2.
        close(
            Estimate::of(&[1.0, 3.0]).unwrap().ci95.unwrap(),
            12.7062,
            1e-9,
        );
    }

    #[test]
    fn means_differ_where_their_intervals_do_not_meet() {
        let of = |mean, ci95| Estimate {
            mean,
            ci95,
            samples: 2,
        };
        let one = of(10.0, Some(1.0));
        for (other, differs) in [
            (of(11.9, Some(1.0)), false),
            (of(12.0, Some(1.0)), false),
            (of(12.1, Some(1.0)), true),
            (of(7.9, Some(1.0)), true),
            (of(11.5, None), true),
        ] {
            assert_eq!(one.differs_from(&other), differs, "{other:?}");
            assert_eq!(other.differs_from(&one), differs, "{other:?}");
        }
    }

    /// Published quantiles (any table of the t distribution).
    #[test]
    fn t_quantiles() {
        for (df, t) in [
            (1, 12.7062),
            (5, 2.5706),
            (30, 2.0423),
            (40, 2.0211),
            (60, 2.0003),
            (120, 1.9799),
        ] {
            close(student_t_975(df), t, 1e-4);
        }
        close(student_t_975(1_000_000), 1.96, 1e-4);
        assert!((1..200).all(|df| student_t_975(df) > student_t_975(df + 1)));
    }

    #[test]
    fn quantiles_by_nearest_rank() {
        let v: Vec<Duration> = (1..=20).map(Duration::from_millis).collect();
        assert_eq!(quantile(&v, 500), Some(Duration::from_millis(10)));
        assert_eq!(quantile(&v, 950), Some(Duration::from_millis(19)));
        assert_eq!(quantile(&v, 990), Some(Duration::from_millis(20)));
        assert_eq!(quantile(&v, 0), Some(Duration::from_millis(1)));
        assert_eq!(quantile(&v[..1], 990), Some(Duration::from_millis(1)));
        assert_eq!(quantile::<Duration>(&[], 500), None);
    }
}
