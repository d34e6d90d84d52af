//! How well rows hold: how many of each verdict, and how far from the reference they are.

use crate::{CheckReport, Expected, Row, Tolerance, Verdict};
use std::cmp::Ordering;

/// The rows of one group, counted one by one.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// Within their tolerance.
    pub agree: usize,
    /// Outside, and explained.
    pub explained: usize,
    /// Outside.
    pub differ: usize,
    /// Shown without a judgement.
    pub shown: usize,
    /// Could not be had.
    pub missing: usize,
    /// How far judged rows are from references that are numbers, the nearest first.
    off: Vec<f64>,
    /// The same of rows that are shown only.
    off_shown: Vec<f64>,
    /// The tolerances of judged rows, the narrowest first, and of how many rows each is.
    tolerances: Vec<(Tolerance, usize)>,
}

impl Score {
    /// Of `rows`.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut score = Self::default();
        for row in rows {
            let judged = match row.verdict() {
                Verdict::Agrees => &mut score.agree,
                Verdict::Explained => &mut score.explained,
                Verdict::Differs => &mut score.differ,
                Verdict::Missing => {
                    score.missing += 1;
                    continue;
                }
                Verdict::Shown => {
                    score.off_shown.extend(off(row));
                    score.shown += 1;
                    continue;
                }
            };
            *judged += 1;
            score.off.extend(off(row));
            let known = score.tolerances.iter_mut();
            match known.into_iter().find(|(t, _)| *t == row.tolerance) {
                Some((_, rows)) => *rows += 1,
                None => score.tolerances.push((row.tolerance, 1)),
            }
        }
        score.off.sort_by(nearer);
        score.off_shown.sort_by(nearer);
        score.tolerances.sort_by(|a, b| {
            width(&a.0)
                .partial_cmp(&width(&b.0))
                .unwrap_or(Ordering::Equal)
        });
        score
    }

    /// Of the rows of `reports`.
    pub fn of_reports<'a>(reports: impl IntoIterator<Item = &'a CheckReport>) -> Self {
        Self::of(reports.into_iter().flat_map(|r| &r.rows))
    }

    /// How many rows have a verdict.
    pub const fn judged(&self) -> usize {
        self.agree + self.explained + self.differ
    }

    /// Of how many judged rows it can be said how far they are off, as a share.
    pub const fn measured(&self) -> usize {
        self.off.len()
    }

    /// Half of the judged rows are no farther off: `3.1 %`; `–` if none can be.
    pub fn median(&self) -> String {
        percent(quantile(&self.off, 0.5).map(f64::abs))
    }

    /// Nine of ten judged rows are no farther off.
    pub fn most(&self) -> String {
        percent(quantile(&self.off, 0.9).map(f64::abs))
    }

    /// The row that is farthest off, with its sign.
    pub fn worst(&self) -> String {
        let worst = self.off.last().copied();
        let sign = worst.map_or("", |v| match v {
            v if v > 0.0 => "+",
            v if v < 0.0 => "−",
            _ => "",
        });
        format!("{sign}{}", percent(worst.map(f64::abs)))
    }

    /// Of the rows that are only shown: how many have a reference that is a number, and how far
    /// half of those are off at most.
    pub fn shown_beside(&self) -> (usize, String) {
        let median = quantile(&self.off_shown, 0.5).map(f64::abs);
        (self.off_shown.len(), percent(median))
    }

    /// The tolerances of judged rows, each once: `exact, 1 %, × 2`.
    pub fn tolerances(&self) -> String {
        let texts: Vec<String> = self.tolerances.iter().map(|(t, _)| t.to_string()).collect();
        texts.join(", ")
    }

    /// The same with the number of rows: `exact (3), 1 % (1), × 2 (2)`.
    pub fn rows_by_tolerance(&self) -> String {
        let text = |(tolerance, rows): &(Tolerance, usize)| format!("{tolerance} ({rows})");
        let texts: Vec<String> = self.tolerances.iter().map(text).collect();
        texts.join(", ")
    }
}

/// (ours - reference) / reference, from the nearer end of a range. A limit, a list, a word and a
/// reference of nothing have none.
fn off(row: &Row) -> Option<f64> {
    let ours = row.ours.value()?;
    let reference = match row.reference {
        Expected::Value(v) => v,
        Expected::Range(a, b) => ours.max(a).min(b),
        _ => return None,
    };
    (reference != 0.0).then(|| (ours - reference) / reference.abs())
}

/// By how many times, so that a tenth of the reference is as far from it as ten times is.
fn nearer(a: &f64, b: &f64) -> Ordering {
    let times = |off: &f64| (1.0 + off).max(0.0).ln().abs();
    times(a).total_cmp(&times(b)).then(a.total_cmp(b))
}

/// In which order tolerances are named.
const fn width(tolerance: &Tolerance) -> (u8, f64) {
    match *tolerance {
        Tolerance::Exact => (0, 0.0),
        Tolerance::Absolute(margin) => (1, margin),
        Tolerance::Relative(share) => (2, share),
        Tolerance::Factor(factor) => (3, factor),
        Tolerance::Shown => (4, 0.0),
    }
}

/// The least that so large a share of `sorted` does not exceed.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied()
}

fn percent(share: Option<f64>) -> String {
    match share.map(|s| s * 100.0) {
        None => "–".to_owned(),
        Some(v) if v < 1e-7 => "0".to_owned(),
        Some(v) if v < 0.01 => "< 0.01 %".to_owned(),
        Some(v) if v < 1.0 => format!("{v:.2} %"),
        Some(v) if v < 10.0 => format!("{v:.1} %"),
        Some(v) => format!("{v:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measured;

    fn row(reference: Expected, ours: f64, tolerance: Tolerance) -> Row {
        Row::new("", "", reference, Measured::Value(ours), "", tolerance)
    }

    #[test]
    fn rows_are_off_by_a_share_of_their_reference() {
        use Expected::*;
        let share = |reference, ours| off(&row(reference, ours, Tolerance::Exact));
        assert_eq!(share(Value(100.0), 97.0), Some(-0.03));
        assert_eq!(share(Range(80.0, 90.0), 85.0), Some(0.0));
        assert_eq!(share(Range(80.0, 90.0), 99.0), Some(0.1));
        assert_eq!(share(Range(80.0, 90.0), 60.0), Some(-0.25));
        for none in [Value(0.0), AtLeast(1.0), AtMost(1.0), Nothing] {
            assert_eq!(share(none, 1.0), None);
        }
    }

    #[test]
    fn median_and_worst_are_those_of_judged_rows() {
        let value = |ours, tolerance| row(Expected::Value(100.0), ours, tolerance);
        let (close, factor) = (Tolerance::Relative(0.01), Tolerance::Factor(2.0));
        let rows = [
            value(100.5, close),
            value(90.0, close).explained("why"),
            value(25.0, factor).explained("why"),
            value(180.0, factor),
            value(400.0, Tolerance::Shown),
        ];
        let score = Score::of(&rows);
        let counts = [score.agree, score.explained, score.differ, score.shown];
        assert_eq!((counts, score.judged()), ([2, 2, 0, 1], 4));
        // A quarter is farther off than less than twice.
        let texts = [score.median(), score.most(), score.worst()];
        assert_eq!(texts, ["10 %", "75 %", "−75 %"]);
        assert_eq!(score.tolerances(), "1 %, × 2");
        assert_eq!(score.rows_by_tolerance(), "1 % (2), × 2 (2)");
        assert_eq!(score.shown_beside(), (1, "300 %".to_owned()));
        let none = Score::of(&[]);
        assert_eq!((none.median(), none.worst()), ("–".into(), "–".into()));
    }

    #[test]
    fn shares_are_short() {
        for (share, text) in [
            (0.0, "0"),
            (0.000_01, "< 0.01 %"),
            (0.001_25, "0.12 %"),
            (0.0314, "3.1 %"),
            (0.756, "76 %"),
            (3.0, "300 %"),
        ] {
            assert_eq!(percent(Some(share)), text);
        }
    }
}
