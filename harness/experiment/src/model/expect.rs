//! `[[expect]]` and `[show]`: what should come out, and what is shown.

use super::settings::Settings;
use crate::knob;
use crate::knob::{Kind, Knob, Knobs, Quantity};

/// What a metric should be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expect {
    /// Which metric.
    pub that: Option<String>,
    /// What it is compared with.
    pub is: Option<Bound>,
    /// In which variants: those with these values.
    pub place: Settings,
}

/// What a number is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// How.
    pub relation: Relation,
    /// With what, in the base unit of the metric.
    pub value: f64,
}

/// How two numbers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Relation {
    Less,
    AtMost,
    Equal,
    AtLeast,
    More,
}

impl Relation {
    const ALL: [(Self, &'static str); 5] = [
        (Self::AtMost, "<="),
        (Self::AtLeast, ">="),
        (Self::Less, "<"),
        (Self::More, ">"),
        (Self::Equal, "="),
    ];

    /// As it is written: `<=`.
    pub fn sign(self) -> &'static str {
        let found = Self::ALL.iter().find(|(relation, _)| *relation == self);
        found.map_or("", |(_, sign)| sign)
    }
}

impl Bound {
    /// Whether `n` is so.
    pub fn holds(&self, n: f64) -> bool {
        match self.relation {
            Relation::Less => n < self.value,
            Relation::AtMost => n <= self.value,
            Relation::Equal => n == self.value,
            Relation::AtLeast => n >= self.value,
            Relation::More => n > self.value,
        }
    }
}

impl Quantity for Bound {
    fn read(text: &str) -> Result<Self, String> {
        const HELP: &str = "expected a comparison such as '< 10', '>= 900Mb/s' or '< 1ms'";
        let text = text.trim();
        let found = Relation::ALL
            .iter()
            .find_map(|(relation, sign)| Some((*relation, text.strip_prefix(sign)?)));
        let (relation, number) = found.ok_or(HELP)?;
        let value = number_in_base_unit(number.trim()).ok_or(HELP)?;
        Ok(Self { relation, value })
    }
    fn show(&self) -> Option<String> {
        Some(format!("{} {}", self.relation.sign(), self.value))
    }
}

/// A number with or without a unit: `10`, `900Mb/s` in bit/s, `1ms` in nanoseconds, `64KiB` in
/// bytes, `5%` as .05.
pub fn number_in_base_unit(text: &str) -> Option<f64> {
    use crate::values;
    if let Ok(n) = text.parse::<f64>() {
        return n.is_finite().then_some(n);
    }
    if let Some(percent) = text.strip_suffix('%') {
        let n = percent.trim().parse::<f64>().ok()?;
        return n.is_finite().then_some(n / 100.0);
    }
    let rate = values::rate(text).map(|r| r.bits_per_sec());
    let time = || values::duration(text).map(|d| d.as_nanos());
    let size = || values::size(text).map(|s| s.get());
    let n = rate.or_else(|_| time()).or_else(|_| size()).ok()?;
    Some(n as f64)
}

impl Knobs for Expect {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { that: "that", "metric", Kind::Name("metric"), "Which metric." },
        knob! { is: "is", "bound", Kind::Text("< 10, >= 900Mb/s"),
        "What its mean over the repetitions is compared with, in any unit it has." },
    ];
}

/// What is shown of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Show {
    /// The key on the x axis; the first of the sweep if `None`.
    pub x: Option<String>,
    /// The metrics, a picture each.
    pub y: Vec<String>,
}

impl Knobs for Show {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { x: "x", "x axis", Kind::Text("traffic.get.load"),
        "The key on the x axis, one of the sweep; the first there unless given." },
        knob! { y: "y", "y axis", Kind::List(&Kind::Name("metric")), "The metrics, a picture each." },
    ];
}
