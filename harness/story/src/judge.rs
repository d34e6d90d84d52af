//! What was found of a claim: a number with its tolerance, or several.

use narrows_report::points::number;
use std::fmt::Display;

/// Whether what was found is what was to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It is.
    Holds,
    /// It is not.
    Differs,
}

/// What was measured, in words, and whether it is what was to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was measured, with what it is held against.
    pub measured: String,
    /// Whether that is what was to be shown.
    pub judged: Judged,
}

impl Finding {
    /// Something in words that is so, or not.
    pub fn is(measured: impl Into<String>, so: bool) -> Self {
        Self {
            measured: measured.into(),
            judged: if so { Judged::Holds } else { Judged::Differs },
        }
    }

    /// A number within a share of what was expected: `near("at 8 ms", 3.8, 3.65, 0.2, "")`.
    pub fn near(what: &str, value: f64, expected: f64, share: f64, unit: &str) -> Self {
        let off = (value - expected).abs() <= share * expected.abs();
        let (value, expected) = (number(value, unit), number(expected, unit));
        Self::is(format!("{what} {value} against {expected}"), off)
    }

    /// A number from one to another, both included.
    pub fn between(what: &str, value: f64, (from, to): (f64, f64), unit: &str) -> Self {
        let so = (from..=to).contains(&value);
        let [value, from, to] = [value, from, to].map(|n| number(n, unit));
        Self::is(format!("{what} {value} (wanted {from} to {to})"), so)
    }

    /// A number that is no less than another.
    pub fn at_least(what: &str, value: f64, least: f64, unit: &str) -> Self {
        let so = value >= least;
        let [value, least] = [value, least].map(|n| number(n, unit));
        Self::is(format!("{what} {value} (wanted at least {least})"), so)
    }

    /// A number that is no more than another.
    pub fn at_most(what: &str, value: f64, most: f64, unit: &str) -> Self {
        let so = value <= most;
        let [value, most] = [value, most].map(|n| number(n, unit));
        Self::is(format!("{what} {value} (wanted at most {most})"), so)
    }

    /// With words before what was measured.
    #[must_use]
    pub fn after_words(self, words: impl Display) -> Self {
        Self {
            measured: format!("{words}{}", self.measured),
            ..self
        }
    }

    /// With more words behind what was measured, which change no verdict.
    #[must_use]
    pub fn and_words(self, words: impl Display) -> Self {
        Self {
            measured: format!("{}{words}", self.measured),
            ..self
        }
    }

    /// Several: all of them must be so.
    pub fn all(findings: impl IntoIterator<Item = Self>) -> Self {
        let findings: Vec<Self> = findings.into_iter().collect();
        let so = !findings.is_empty() && findings.iter().all(|f| f.judged == Judged::Holds);
        let words: Vec<String> = findings.into_iter().map(|f| f.measured).collect();
        Self::is(words.join("; "), so)
    }
}

/// The median of some numbers; `None` without any. Of an even count the lower one.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = sorted.len().checked_sub(1)? / 2;
    sorted.get(at).copied()
}

/// The slope of a straight line through points, by least squares; `None` of fewer than two.
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let above: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let below: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    (below > 0.0).then(|| above / below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_belong_to_what_is_wanted() {
        let holds = |f: Finding| f.judged == Judged::Holds;
        assert!(holds(Finding::near("", 120.0, 100.0, 0.2, "")));
        assert!(!holds(Finding::near("", 120.1, 100.0, 0.2, "")));
        assert!(holds(Finding::between("", 1.0, (1.0, 2.0), "")));
        assert!(!holds(Finding::between("", 2.1, (1.0, 2.0), "")));
        assert!(holds(Finding::at_least("", 3.0, 3.0, "")));
        assert!(!holds(Finding::at_most("", 3.1, 3.0, "")));
        assert!(!holds(Finding::all([])));
        let two = [Finding::is("a", true), Finding::is("b", false)];
        let all = Finding::all(two);
        assert_eq!(all.measured, "a; b");
        let told = all.after_words("1: ").and_words(" (2)");
        assert_eq!(told, Finding::is("1: a; b (2)", false));
    }

    #[test]
    fn medians_and_slopes() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[]), None);
        assert_eq!(slope(&[(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]), Some(2.0));
        assert_eq!(slope(&[(1.0, 2.0)]), None);
    }
}
