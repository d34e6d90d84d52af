//! What differs between points, in words: where the 95 % intervals of two means do not meet.

use crate::points;
use narrows_experiment::registry::Registry;
use narrows_experiment::stats::Estimate;
use narrows_experiment::summary::Summary;
use std::collections::HashMap;

/// What differs, by metric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    /// A sentence over all metrics.
    pub(super) summary: Option<String>,
    /// A metric with a sentence for each value that is compared.
    pub(super) metrics: Vec<(String, Vec<String>)>,
}

/// Of an axis, so many values are compared with the first.
pub(super) const MOST_COMPARED: usize = 7;

/// A value of an axis beside the first one.
struct Compared<'a> {
    axis: usize,
    title: String,
    first: &'a str,
    other: &'a str,
}

impl Compared<'_> {
    fn text(&self) -> String {
        format!("{} {} against {}", self.title, self.other, self.first)
    }
}

/// A pair of points that differ in one value.
struct Pair {
    point: usize,
    first: Estimate,
    other: Estimate,
}

impl Pair {
    fn difference(&self) -> f64 {
        self.other.mean - self.first.mean
    }
}

/// What differs between the points of a sweep in what is shown.
pub(super) fn differences(summary: &Summary<'_>, registry: &Registry) -> Differences {
    let plan = summary.plan();
    if plan.points() < 2 {
        return Differences::default();
    }
    if !(0..plan.points()).any(|point| summary.runs(point).len() > 1) {
        let text = "One run for each point: which differences are chance is not known. \
                    --repetitions 5 gives intervals.";
        return Differences {
            summary: Some(text.to_owned()),
            metrics: Vec::new(),
        };
    }
    let compared = compared(summary, registry);
    let by_values: HashMap<Vec<&str>, usize> =
        (0..plan.points()).map(|p| (plan.values(p), p)).collect();
    let mut metrics = Vec::new();
    let (mut differ, mut alike) = (Vec::new(), Vec::new());
    for (name, column) in points::shown(summary, registry) {
        let metric = registry.metrics.get(&name);
        let title = points::title_of(metric, &name);
        let mut lines = Vec::new();
        let mut none = Vec::new();
        let mut by: Vec<String> = Vec::new();
        for c in &compared {
            let pairs = pairs(summary, &by_values, c, &column);
            match sentence(summary, c, &pairs, points::unit_of(&column)) {
                Some(text) => {
                    lines.push(text);
                    if !by.contains(&c.title) {
                        by.push(c.title.clone());
                    }
                }
                None if pairs.is_empty() => {}
                None => none.push(c.text()),
            }
        }
        if !none.is_empty() {
            lines.push(format!("Not beyond the intervals: {}.", none.join("; ")));
        }
        match (by.is_empty(), lines.is_empty()) {
            (false, _) => differ.push(format!("{title} (by {})", by.join(", "))),
            (true, false) => alike.push(title.clone()),
            (true, true) => continue,
        }
        metrics.push((title, lines));
    }
    let part =
        |text: &str, all: Vec<String>| (!all.is_empty()).then(|| text.to_owned() + &all.join(", "));
    let parts = [
        part("Beyond the 95 % intervals differ: ", differ),
        part("in no pair that was compared: ", alike),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let text = parts.join("; ") + ".";
    let summary =
        (!parts.is_empty()).then(|| match text.strip_prefix("in no pair that was compared") {
            Some(rest) => {
                format!("No pair that was compared differs beyond the 95 % intervals{rest}")
            }
            None => text,
        });
    Differences { summary, metrics }
}

/// Of each axis the values beside the first one: all if they are few, else the last.
fn compared<'a>(summary: &Summary<'a>, registry: &Registry) -> Vec<Compared<'a>> {
    let base = summary.plan().base();
    let mut all = Vec::new();
    for (axis, of) in base.sweep.iter().enumerate() {
        let Some((first, others)) = of.values.split_first() else {
            continue;
        };
        let from = match others.len() {
            n if n > MOST_COMPARED => n - 1,
            _ => 0,
        };
        for other in &others[from..] {
            all.push(Compared {
                axis,
                title: base.title_of(registry, &of.key),
                first,
                other,
            });
        }
    }
    all
}

/// All pairs of points that have several runs each and differ in that value alone.
fn pairs(
    summary: &Summary<'_>,
    by_values: &HashMap<Vec<&str>, usize>,
    compared: &Compared<'_>,
    column: &str,
) -> Vec<Pair> {
    let plan = summary.plan();
    let several = |point: usize| {
        let estimate = summary.estimate(point, column)?;
        estimate.ci95.is_some().then_some(estimate)
    };
    let pair = |point: usize| {
        let mut values = plan.values(point);
        if values[compared.axis] != compared.first {
            return None;
        }
        values[compared.axis] = compared.other;
        Some(Pair {
            point,
            first: several(point)?,
            other: several(*by_values.get(&values)?)?,
        })
    };
    (0..plan.points()).filter_map(pair).collect()
}

/// What is to be said of a value beside the first one; nothing if no pair differs.
fn sentence(
    summary: &Summary<'_>,
    compared: &Compared<'_>,
    pairs: &[Pair],
    unit: &str,
) -> Option<String> {
    let differ: Vec<&Pair> = pairs
        .iter()
        .filter(|p| p.first.differs_from(&p.other))
        .collect();
    let example = |pair: &Pair| {
        let (other, first) = (
            points::cell(&pair.other, unit),
            points::cell(&pair.first, unit),
        );
        format!("{other} against {first}")
    };
    let what = compared.text();
    let word = |higher: bool| if higher { "higher" } else { "lower" };
    if let ([pair], [_]) = (&differ[..], pairs) {
        let word = word(pair.difference() > 0.0);
        return Some(format!("{what}: {word}, {}.", example(pair)));
    }
    if differ.is_empty() {
        return None;
    }
    let mut parts = Vec::new();
    for higher in [true, false] {
        let these = || differ.iter().filter(|p| (p.difference() > 0.0) == higher);
        let most = these().max_by(|a, b| a.difference().abs().total_cmp(&b.difference().abs()));
        if let Some(most) = most {
            let at = others(summary, most.point, compared.axis);
            let (word, n, all) = (word(higher), these().count(), pairs.len());
            parts.push(format!(
                "{word} in {n} of {all} pairs (most with {at}: {})",
                example(most)
            ));
        }
    }
    let same = pairs.len() - differ.len();
    if same > 0 {
        parts.push(format!("no difference in {same}"));
    }
    Some(format!("{what}: {}.", parts.join(", ")))
}

/// The values of a point on the other axes.
fn others(summary: &Summary<'_>, point: usize, axis: usize) -> String {
    let values = summary.plan().values(point).into_iter().enumerate();
    let values: Vec<&str> = values
        .filter_map(|(n, v)| (n != axis).then_some(v))
        .collect();
    values.join(" / ")
}
