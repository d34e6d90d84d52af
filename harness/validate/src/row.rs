//! One line of the table: theirs, ours, and whether they agree.

use std::fmt;

/// One comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What is compared: `N = 16, goodput`.
    pub what: String,
    /// Where the reference comes from: a paper and its table, an RFC and its section, a program
    /// that was run, a formula. [`super::origin`] says of its beginning what it is.
    pub source: String,
    /// The reference.
    pub reference: Expected,
    /// Our result.
    pub ours: Measured,
    /// The unit of both: `Mb/s`; empty for a pure number.
    pub unit: &'static str,
    /// How far they may be apart.
    pub tolerance: Tolerance,
    /// The section in docs/validation that explains a difference, as its anchor.
    pub explained: Option<&'static str>,
    /// A remark.
    pub note: Option<String>,
    /// Which result of ours is compared, where more than one row compares the same: they count
    /// once.
    pub result: Option<String>,
    /// How long the comparison took, in milliseconds; filled in by the runner.
    pub millis: u64,
}

/// The reference value.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// A number.
    Value(f64),
    /// Anything between two numbers, inclusive.
    Range(f64, f64),
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// A list or a word, compared whole.
    Exactly(String),
    /// There is none: our value is shown for the reader.
    Nothing,
}

/// Our value.
#[derive(Clone, Debug, PartialEq)]
pub enum Measured {
    /// A number, the same on every run.
    Value(f64),
    /// The mean over seeds, with the least and the greatest.
    Spread {
        /// Mean.
        mean: f64,
        /// Least.
        min: f64,
        /// Greatest.
        max: f64,
        /// How many seeds.
        seeds: u32,
    },
    /// A list or a word.
    Text(String),
    /// It could not be had; why.
    Missing(String),
}

/// How far ours may be from the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Equal to the last digit of the reference, or inside its range.
    Exact,
    /// This share of the reference: `0.01` is 1 %.
    Relative(f64),
    /// This much, in the row's unit.
    Absolute(f64),
    /// Between the reference divided and multiplied by this.
    Factor(f64),
    /// Not judged: a surprise is explained in the text.
    Shown,
}

/// Whether they agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within the tolerance.
    Agrees,
    /// Outside, and a section in docs/validation says why.
    Explained,
    /// Outside.
    Differs,
    /// Shown only.
    Shown,
    /// Could not be had.
    Missing,
}

impl Measured {
    /// Mean, least and greatest of `values`, in any order.
    pub fn spread(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self::Missing("no run".to_owned());
        }
        Self::Spread {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            seeds: values.len() as u32,
        }
    }

    /// The number that is judged.
    pub const fn value(&self) -> Option<f64> {
        match self {
            Self::Value(v) | Self::Spread { mean: v, .. } => Some(*v),
            Self::Text(_) | Self::Missing(_) => None,
        }
    }
}

impl Row {
    /// `ours` against `reference`.
    pub fn new(
        what: impl Into<String>,
        source: impl Into<String>,
        reference: Expected,
        ours: Measured,
        unit: &'static str,
        tolerance: Tolerance,
    ) -> Self {
        Self {
            what: what.into(),
            source: source.into(),
            reference,
            ours,
            unit,
            tolerance,
            explained: None,
            note: None,
            result: None,
            millis: 0,
        }
    }

    /// One of several rows that hold `result` of ours against something.
    #[must_use]
    pub fn of_result(mut self, result: impl Into<String>) -> Self {
        self.result = Some(result.into());
        self
    }

    /// If the row is outside its tolerance, the section `anchor` in docs/validation says why.
    #[must_use]
    pub fn explained(mut self, anchor: &'static str) -> Self {
        self.explained = Some(anchor);
        self
    }

    /// With a remark.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Whether ours is within the tolerance.
    pub fn verdict(&self) -> Verdict {
        if matches!(self.ours, Measured::Missing(_)) {
            return Verdict::Missing;
        }
        if self.tolerance == Tolerance::Shown || self.reference == Expected::Nothing {
            return Verdict::Shown;
        }
        let agrees = match (&self.reference, &self.ours) {
            (Expected::Exactly(a), Measured::Text(b)) => a == b,
            (reference, ours) => ours
                .value()
                .is_some_and(|ours| self.tolerance.admits(reference, ours)),
        };
        match (agrees, self.explained) {
            (true, _) => Verdict::Agrees,
            (false, Some(_)) => Verdict::Explained,
            (false, None) => Verdict::Differs,
        }
    }
}

impl Tolerance {
    /// Whether `ours` is close enough to `reference`.
    fn admits(self, reference: &Expected, ours: f64) -> bool {
        let (low, high) = match *reference {
            Expected::Value(v) => (v, v),
            Expected::Range(a, b) => (a, b),
            Expected::AtLeast(v) => (v, f64::INFINITY),
            Expected::AtMost(v) => (f64::NEG_INFINITY, v),
            Expected::Exactly(_) | Expected::Nothing => return false,
        };
        // A number printed in decimal is as exact as its double.
        let hair = |v: f64| if v.is_finite() { v.abs() * 1e-9 } else { 0.0 };
        let (low, high) = match self {
            Self::Exact | Self::Shown => (low - hair(low), high + hair(high)),
            Self::Relative(share) => (low - low.abs() * share, high + high.abs() * share),
            Self::Absolute(margin) => (low - margin, high + margin),
            Self::Factor(factor) => (low / factor, high * factor),
        };
        ours >= low && ours <= high
    }
}

impl Verdict {
    /// How bad it is for a result that was judged; `None` if it was not.
    pub const fn severity(self) -> Option<u8> {
        match self {
            Self::Agrees => Some(0),
            Self::Explained => Some(1),
            Self::Differs => Some(2),
            Self::Shown | Self::Missing => None,
        }
    }

    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Explained => "explained",
            Self::Differs => "DIFFERS",
            Self::Shown => "shown",
            Self::Missing => "missing",
        }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str("exact"),
            Self::Relative(share) => write!(f, "{} %", number(share * 100.0)),
            Self::Absolute(margin) => write!(f, "± {}", number(*margin)),
            Self::Factor(factor) => write!(f, "× {}", number(*factor)),
            Self::Shown => f.write_str("–"),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(v) => f.write_str(&number(*v)),
            Self::Range(a, b) if a == b => f.write_str(&number(*a)),
            Self::Range(a, b) => write!(f, "{} to {}", number(*a), number(*b)),
            Self::AtLeast(v) => write!(f, "≥ {}", number(*v)),
            Self::AtMost(v) => write!(f, "≤ {}", number(*v)),
            Self::Exactly(text) => f.write_str(text),
            Self::Nothing => f.write_str("–"),
        }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(v) => f.write_str(&number(*v)),
            Self::Spread { mean, min, max, .. } if min == max => f.write_str(&number(*mean)),
            Self::Spread { mean, min, max, .. } => {
                write!(
                    f,
                    "{} ({} to {})",
                    number(*mean),
                    number(*min),
                    number(*max)
                )
            }
            Self::Text(text) => f.write_str(text),
            Self::Missing(why) => write!(f, "not had: {why}"),
        }
    }
}

/// Four significant digits, without zeros that say nothing.
fn number(v: f64) -> String {
    if v == 0.0 || !v.is_finite() {
        return format!("{v}");
    }
    let digits = (3 - v.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{v:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(reference: Expected, ours: f64, tolerance: Tolerance) -> Verdict {
        Row::new("", "", reference, Measured::Value(ours), "", tolerance).verdict()
    }

    #[test]
    fn tolerances_are_inclusive_and_no_wider() {
        use Expected::*;
        use Verdict::*;
        let cases = [
            (Value(100.0), 101.0, Tolerance::Relative(0.01), Agrees),
            (Value(100.0), 101.1, Tolerance::Relative(0.01), Differs),
            (Value(100.0), 98.9, Tolerance::Relative(0.01), Differs),
            (Value(100.0), 50.0, Tolerance::Factor(2.0), Agrees),
            (Value(100.0), 200.0, Tolerance::Factor(2.0), Agrees),
            (Value(100.0), 49.9, Tolerance::Factor(2.0), Differs),
            (Value(22.0), 24.0, Tolerance::Absolute(2.0), Agrees),
            (Value(22.0), 24.1, Tolerance::Absolute(2.0), Differs),
            (Range(0.18, 0.19), 0.18, Tolerance::Exact, Agrees),
            (Range(0.18, 0.19), 0.191, Tolerance::Exact, Differs),
            (AtLeast(15.0), 15.0, Tolerance::Exact, Agrees),
            (AtLeast(15.0), 14.9, Tolerance::Exact, Differs),
            (AtMost(1.0), 5.0, Tolerance::Exact, Differs),
            (Value(0.0), 0.0, Tolerance::Exact, Agrees),
            (Value(0.0), 1.0, Tolerance::Relative(0.5), Differs),
            (Value(1.0), f64::NAN, Tolerance::Factor(2.0), Differs),
            (Value(3.0), 9.0, Tolerance::Shown, Shown),
        ];
        for (reference, ours, tolerance, verdict) in cases {
            let text = format!("{reference} {ours} {tolerance}");
            assert_eq!(row(reference, ours, tolerance), verdict, "{text}");
        }
    }

    #[test]
    fn an_explanation_does_not_turn_a_difference_into_agreement() {
        let r = Row::new(
            "",
            "",
            Expected::Value(1.0),
            Measured::Value(9.0),
            "",
            Tolerance::Exact,
        );
        assert_eq!(r.verdict(), Verdict::Differs);
        assert_eq!(r.explained("why").verdict(), Verdict::Explained);
    }

    #[test]
    fn numbers_are_short() {
        for (v, text) in [
            (908.2, "908.2"),
            (12_000.0, "12000"),
            (0.0461, "0.0461"),
            (1.0, "1"),
            (0.0, "0"),
            (1054.3, "1054"),
            (-3.25, "-3.25"),
        ] {
            assert_eq!(number(v), text);
        }
    }
}
