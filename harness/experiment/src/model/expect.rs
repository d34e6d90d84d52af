//! `[[expect]]` and `[show]`: what should come out, and what is shown.

use super::settings::Settings;
use crate::knob;
use crate::knob::{Kind, Knob, Knobs, Quantity};
use crate::values;
use narrows::{ByteCount, Duration, Rate};

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
    /// In which units it is shown.
    pub unit: Unit,
}

/// What a number counts, as the units say that it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Written without a unit.
    Plain,
    /// A share of 1, in percent.
    Percent,
    /// Bits a second.
    Rate,
    /// Nanoseconds.
    Time,
    /// Bytes.
    Size,
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
        let (value, unit) = number_and_unit(number.trim()).ok_or(HELP)?;
        Ok(Self {
            relation,
            value,
            unit,
        })
    }
    fn show(&self) -> Option<String> {
        // All that has these units was read as a whole number.
        let whole = self.value as u64;
        let value = match self.unit {
            Unit::Plain => None,
            Unit::Percent => Some(format!("{}%", (self.value * 1e10).round() / 1e8)),
            Unit::Rate => Rate::from_bits_per_sec(whole).show(),
            Unit::Time => Duration::from_nanos(whole).show(),
            Unit::Size => ByteCount::new(whole).show(),
        };
        // What would not read back as the same is shown as it is.
        let same = |text: &String| number_in_base_unit(text) == Some(self.value);
        let value = value.filter(same);
        let value = value.unwrap_or_else(|| self.value.to_string());
        Some(format!("{} {value}", self.relation.sign()))
    }
}

/// A number with or without a unit: `10`, `900Mb/s` in bit/s, `1ms` in nanoseconds, `64KiB` in
/// bytes, `5%` as .05.
pub fn number_in_base_unit(text: &str) -> Option<f64> {
    number_and_unit(text).map(|(number, _)| number)
}

fn number_and_unit(text: &str) -> Option<(f64, Unit)> {
    let finite = |n: f64, unit| n.is_finite().then_some((n, unit));
    if let Ok(n) = text.parse() {
        return finite(n, Unit::Plain);
    }
    if let Some(percent) = text.strip_suffix('%') {
        return finite(percent.trim().parse::<f64>().ok()? / 100.0, Unit::Percent);
    }
    let rate = values::rate(text).map(|r| (r.bits_per_sec(), Unit::Rate));
    let time = || values::duration(text).map(|d| (d.as_nanos(), Unit::Time));
    let size = || values::size(text).map(|s| (s.get(), Unit::Size));
    let (n, unit) = rate.or_else(|_| time()).or_else(|_| size()).ok()?;
    Some((n as f64, unit))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_shown_in_the_units_that_it_was_written_with() {
        for (text, shown, value) in [
            ("> 300Mb/s", "> 300Mb/s", 3e8),
            (">= 1.5Gb/s", ">= 1500Mb/s", 1.5e9),
            ("< 2000us", "< 2ms", 2e6),
            ("= 64KiB", "= 64KiB", 65_536.0),
            ("<= 7%", "<= 7%", 0.07),
            ("<= 0.125 %", "<= 0.125%", 0.00125),
            ("< 10", "< 10", 10.0),
            ("> 300000000", "> 300000000", 3e8),
        ] {
            let bound = Bound::read(text).unwrap();
            assert_eq!(bound.value, value, "{text}");
            assert_eq!(bound.show().as_deref(), Some(shown), "{text}");
            assert_eq!(Bound::read(shown).unwrap(), bound, "{text}");
        }
        let third = Bound::read("< 33.33333333333333%").unwrap();
        let again = Bound::read(&third.show().unwrap()).unwrap();
        assert_eq!(again.value, third.value);
    }
}
