//! A figure with its numbers, and how it is named.

use crate::chart::Chart;
use narrows_experiment::results::cell;
use narrows_experiment::summary::Summary;
use std::fmt::Write;

/// Most lines of a figure.
pub(super) const MOST_LINES: usize = 12;

/// What a figure says that has no line for some points; `rest` is where they are.
pub(super) fn left_out(summary: &Summary<'_>, rest: &str) -> Option<String> {
    let points = summary.plan().points();
    let some = points > MOST_LINES;
    some.then(|| format!("The first {MOST_LINES} of {points} points: {rest}."))
}

/// A figure, and the numbers in it.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The name of its files, without what they end with.
    pub name: String,
    /// What is above it.
    pub heading: String,
    /// What is below it.
    pub caption: String,
    /// What it shows.
    pub chart: Chart,
}

impl Figure {
    /// Its numbers: a row for each point of each line.
    pub fn csv(&self) -> String {
        let mut out = format!(
            "line,{},{},least,greatest\n",
            cell(&self.chart.x.label),
            cell(&self.chart.y.label)
        );
        let words = &self.chart.x.words;
        for series in &self.chart.series {
            let name = match series.name.as_str() {
                "" => "all".to_owned(),
                name => cell(name),
            };
            for (n, (x, y)) in series.points.iter().enumerate() {
                let (least, most) = series.spread.get(n).copied().unwrap_or((*y, *y));
                let x = match words.get(x.round().max(0.0) as usize) {
                    Some(word) => cell(word),
                    None => x.to_string(),
                };
                let _ = writeln!(out, "{name},{x},{y},{least},{most}");
            }
        }
        out
    }
}

/// A unit for eyes: what a value in the base unit is divided by, and its name.
pub(super) fn shown_unit(unit: &str, most: f64) -> (f64, &'static str) {
    match (unit, most) {
        ("ns", m) if m >= 1e9 => (1e9, "s"),
        ("ns", m) if m >= 1e6 => (1e6, "ms"),
        ("ns", _) => (1e3, "us"),
        ("bit/s", m) if m >= 1e9 => (1e9, "Gb/s"),
        ("bit/s", m) if m >= 1e6 => (1e6, "Mb/s"),
        ("bit/s", _) => (1e3, "kb/s"),
        ("bytes", m) if m >= 1e6 => (1e6, "MB"),
        ("bytes", m) if m >= 1e4 => (1e3, "kB"),
        ("bytes", _) => (1.0, "bytes"),
        ("packets", _) => (1.0, "packets"),
        _ => (1.0, ""),
    }
}

pub(super) fn label(title: &str, unit: &str) -> String {
    let mut text = title.to_owned();
    if let Some(first) = text.get(..1).map(str::to_uppercase) {
        text.replace_range(..1, &first);
    }
    match unit {
        "" => text,
        unit => format!("{text} ({unit})"),
    }
}

pub(super) fn file_name(text: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '-'
        }
    };
    text.chars().map(plain).collect()
}

/// What a point is called in a key: the values of the sweep there.
pub(super) fn point_name(summary: &Summary<'_>, point: usize) -> String {
    summary.plan().values(point).join(" / ")
}
