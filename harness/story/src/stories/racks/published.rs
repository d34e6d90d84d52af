//! What the text has of six racks, and how a number of ours is held against it.

use crate::judge::Finding;
use narrows_experiment::stats::Estimate;
use narrows_report::points::number;

/// What the text has of some racks of workers.
pub(super) struct Published {
    /// Of the links to a rack, in percent: CUBIC, DCTCP.
    pub(super) busy: [f64; 2],
    /// Bits that fabric switches drop: CUBIC, DCTCP.
    pub(super) fabric: [f64; 2],
    /// Bits that racks' switches drop of CUBIC's; of DCTCP's there are none.
    pub(super) rack: f64,
    /// Sent again by stores, in percent: CUBIC, DCTCP.
    pub(super) by_stores: [f64; 2],
    /// By workers.
    pub(super) by_workers: [f64; 2],
    /// How much more processor time DCTCP takes than CUBIC, in percent: stores, workers.
    pub(super) processor: [f64; 2],
    /// Packets with Congestion Experienced with DCTCP, in percent: to stores, to workers.
    pub(super) marked: [f64; 2],
}

/// One, two and three racks.
pub(super) const PUBLISHED: [Published; 3] = [
    Published {
        busy: [99.9, 98.1],
        fabric: [235e9, 19e9],
        rack: 1.1e9,
        by_stores: [1.020, 0.125],
        by_workers: [0.620, 0.125],
        processor: [10.0, 3.0],
        marked: [18.0, 73.0],
    },
    Published {
        busy: [99.1, 98.7],
        fabric: [160e9, 157e6],
        rack: 2.2e9,
        by_stores: [0.590, 0.001],
        by_workers: [0.376, 0.035],
        processor: [14.0, 4.0],
        marked: [5.5, 63.7],
    },
    Published {
        busy: [69.9, 69.8],
        fabric: [89e6, 236e3],
        rack: 417e6,
        by_stores: [0.020, 0.0],
        by_workers: [0.173, 0.078],
        processor: [0.0, 1.0],
        marked: [6.5, 12.8],
    },
];

/// A number of the text, ours, and what ours is to be.
pub(super) struct Measure {
    pub(super) what: &'static str,
    pub(super) text: f64,
    pub(super) ours: f64,
    /// Between what bounds ours is with 95 %, where all between them is to be as wanted.
    pub(super) within: Option<(f64, f64)>,
    pub(super) wanted: (f64, f64),
}

impl Measure {
    pub(super) fn within_three(what: &'static str, text: f64, ours: f64) -> Self {
        let wanted = (text / 3.0, text * 3.0);
        Self {
            what,
            text,
            ours,
            within: None,
            wanted,
        }
    }

    pub(super) fn within_points(what: &'static str, text: f64, ours: f64) -> Self {
        let wanted = (text - 5.0, text + 5.0);
        Self {
            what,
            text,
            ours,
            within: None,
            wanted,
        }
    }

    pub(super) fn finding(&self) -> Finding {
        let Some((least, most)) = self.within else {
            return Finding::between(self.what, self.ours, self.wanted, "");
        };
        let (from, to) = self.wanted;
        if self.ours.is_infinite() {
            let [from, to] = [from, to].map(|n| number(n, ""));
            return Finding::is(
                format!(
                    "{}: DCTCP drops nothing in these runs, which tells no ratio (wanted from {from} to {to})",
                    self.what
                ),
                false,
            );
        }
        let most_said = if most.is_finite() {
            number(most, "")
        } else {
            "any".to_owned()
        };
        Finding::is(
            format!(
                "{} {}, with 95 % from {} to {most_said} (wanted all of that from {} to {})",
                self.what,
                number(self.ours, ""),
                number(least, ""),
                number(from, ""),
                number(to, "")
            ),
            least >= from && most <= to,
        )
    }
}

/// How much less DCTCP drops than CUBIC: all that is likely by the runs is to be within a factor of
/// three.
pub(super) fn less_dropped(
    what: &'static str,
    racks: usize,
    [cubic, dctcp]: &[Estimate; 2],
) -> Measure {
    let least = over(
        (cubic.mean - half(cubic)).max(0.0),
        dctcp.mean + half(dctcp),
    );
    let most = over(
        cubic.mean + half(cubic),
        (dctcp.mean - half(dctcp)).max(0.0),
    );
    let text = &PUBLISHED[racks - 1].fabric;
    let text = text[0] / text[1];
    let times = text.round();
    Measure {
        what,
        text,
        ours: over(cubic.mean, dctcp.mean),
        within: Some((least, most)),
        wanted: (times / 3.0, times * 3.0),
    }
}

/// How far a mean may be off, with 95 %. Of one run nothing is known of others.
pub(super) fn half(estimate: &Estimate) -> f64 {
    estimate.ci95.unwrap_or(estimate.mean)
}

/// How many times more; infinite of none.
pub(super) fn over(a: f64, b: f64) -> f64 {
    match (a > 0.0, b > 0.0) {
        (_, true) => a / b,
        (true, false) => f64::INFINITY,
        (false, false) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Judged;

    #[test]
    fn a_ratio_is_as_wanted_if_all_that_is_likely_is() {
        let estimate = |mean, ci95| Estimate {
            mean,
            ci95,
            samples: 3,
        };
        let judged = |cubic, dctcp| less_dropped("", 2, &[cubic, dctcp]).finding();
        let sure = judged(estimate(1e9, Some(1e8)), estimate(1e6, Some(1e5)));
        assert_eq!(sure.judged, Judged::Holds, "{}", sure.measured);
        let unsure = judged(estimate(1e9, Some(1e8)), estimate(1e6, Some(9e5)));
        assert_eq!(unsure.judged, Judged::Differs, "{}", unsure.measured);
        let none = judged(estimate(1e9, Some(1e8)), estimate(0.0, Some(0.0)));
        assert_eq!(none.judged, Judged::Differs, "{}", none.measured);
        let once = judged(estimate(1e9, None), estimate(1e6, None));
        assert_eq!(once.judged, Judged::Differs, "{}", once.measured);
        assert!(once.measured.contains("from 0 to any"), "{}", once.measured);
    }
}
