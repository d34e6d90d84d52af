//! A figure for each metric that is shown, over a key that is varied.

use super::figure::{Figure, file_name, label, shown_unit};
use crate::chart::{Axis, Chart, Draw, Scale, Series, Variants, Varied};
use crate::points;
use narrows_experiment::knob::Kind;
use narrows_experiment::registry::Registry;
use narrows_experiment::results::Record;
use narrows_experiment::summary::Summary;

/// A figure for each metric that is shown, over the axis that is.
pub(super) fn figures(summary: &Summary<'_>, registry: &Registry) -> Vec<Figure> {
    let plan = summary.plan();
    let base = plan.base();
    let Some(x) = base
        .show
        .x
        .clone()
        .or_else(|| base.sweep.first().map(|axis| axis.key.clone()))
    else {
        return Vec::new();
    };
    let Some(at) = base.sweep.iter().position(|axis| axis.key == x) else {
        return Vec::new();
    };
    let about = registry.about(base, &x);
    let title = base.title_of(registry, &x);
    let kind = about.map(|a| a.kind);
    let numbers: Vec<Option<f64>> = base.sweep[at]
        .values
        .iter()
        .map(|v| number_of(kind, v))
        .collect();
    let numeric = numbers.iter().all(Option::is_some);
    let most = numbers.iter().flatten().copied().fold(0.0, f64::max);
    let (by, name) = axis_unit(kind, &base.sweep[at].values, &numbers, most);
    let values = &base.sweep[at].values;
    let (x_label, x_of, words): (String, Vec<f64>, &[String]) = if numeric {
        let of = numbers.iter().flatten().map(|n| n / by);
        (label(&title, name), of.collect(), &[])
    } else {
        let of = (0..values.len()).map(|n| n as f64);
        (label(&title, ""), of.collect(), values)
    };
    let scale = match numeric {
        true => spacing(&x_of),
        false => Scale::Linear,
    };
    let metrics = points::shown(summary, registry);
    metrics
        .into_iter()
        .map(|(name, column)| {
            let (mut lines, cut) = lines(summary, at, &x_of, &column);
            if !numeric {
                side_by_side(&mut lines);
            }
            let unit = points::unit_of(&column);
            let looks = looks(summary, registry, at, &lines);
            let all = lines.iter().flat_map(|line| &line.points);
            let most = all.map(|p| p.most).fold(0.0, f64::max);
            let (by, shown) = shown_unit(unit, most);
            let metric = registry.metrics.get(&name);
            let title = points::title_of(metric, &name);
            let left_out = lines.len().saturating_sub(MOST_LINES);
            let series = lines.into_iter().take(MOST_LINES).enumerate();
            let series = series.map(|(number, Line { name, points, .. })| Series {
                name,
                // Between words there is nothing.
                draw: if numeric {
                    Draw::LineMarkers
                } else {
                    Draw::Markers
                },
                style: looks.style(number),
                points: points.iter().map(|p| (p.x, p.mean / by)).collect(),
                spread: points.iter().map(|p| (p.least / by, p.most / by)).collect(),
                ..Series::default()
            });
            let reps = base.run.repetitions;
            let caption = match reps {
                1 => "One run for each point: --repetitions gives intervals.".to_owned(),
                n => format!("Mean of {n} runs; bars are 95 % confidence intervals (Student's t)."),
            };
            let caption = match cut {
                Cut::Nowhere => caption,
                Cut::AtZero => {
                    format!("{caption} They are cut at 0, below which nothing was measured.")
                }
            };
            let left_out = match left_out {
                0 => None,
                n => Some(format!("{n} more lines are in runs.csv alone.")),
            };
            let notes = looks.caveat().into_iter().chain(left_out);
            let meaning = metric.map_or("", |m| m.meaning);
            Figure {
                name: file_name(&format!("figure-{name}")),
                heading: label(&title, ""),
                caption: format!("{meaning} {caption}").trim().to_owned(),
                chart: Chart {
                    title: format!("{title} by {x_label}"),
                    x: Axis {
                        label: x_label.clone(),
                        scale,
                        words: words.to_vec(),
                        ..Axis::default()
                    },
                    y: Axis {
                        label: label(&title, shown),
                        ..Axis::default()
                    },
                    series: series.collect(),
                    key: looks.key(),
                    notes: notes.collect(),
                    ..Chart::default()
                },
            }
        })
        .collect()
}

/// The unit of an axis: of a queue's length as its values have it, and of bytes in powers of two
/// where all are.
fn axis_unit(
    kind: Option<Kind>,
    values: &[String],
    numbers: &[Option<f64>],
    most: f64,
) -> (f64, &'static str) {
    let in_packets = values.iter().all(|v| v.ends_with('p'));
    let unit = match kind {
        Some(Kind::Queue { .. }) if in_packets => return (1.0, "packets"),
        Some(Kind::Queue { .. }) => "bytes",
        kind => kind.map_or("", |k| k.unit()),
    };
    let binary = |n: &Option<f64>| n.is_some_and(|n| n % 1024.0 == 0.0);
    if unit == "bytes" && most >= 1024.0 && numbers.iter().all(binary) {
        return (1024.0, "KiB");
    }
    shown_unit(unit, most)
}

fn number_of(kind: Option<Kind>, value: &str) -> Option<f64> {
    match kind {
        Some(kind) => kind.base(value),
        None => value.parse().ok(),
    }
}

/// By doubling where the values do.
fn spacing(values: &[f64]) -> Scale {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    if values.len() > 2 && least > 0.0 && most / least >= 16.0 {
        Scale::Log2
    } else {
        Scale::Linear
    }
}

/// A mean and its interval.
struct Point {
    x: f64,
    mean: f64,
    least: f64,
    most: f64,
}

/// A line of a figure.
struct Line {
    name: String,
    /// The values of the other axes, by number.
    picks: Vec<usize>,
    points: Vec<Point>,
}

/// More lines than this are not drawn.
const MOST_LINES: usize = 100;

/// How `lines` look, of which axis `at` is not one.
fn looks(summary: &Summary<'_>, registry: &Registry, at: usize, lines: &[Line]) -> Variants {
    let base = summary.plan().base();
    let others = base.sweep.iter().enumerate().filter(|(n, _)| *n != at);
    let axes: Vec<Varied> = others
        .map(|(_, axis)| Varied {
            title: base.title_of(registry, &axis.key),
            values: axis.values.to_vec(),
        })
        .collect();
    let lines = &lines[..lines.len().min(MOST_LINES)];
    let picks: Vec<&[usize]> = lines.iter().map(|l| l.picks.as_slice()).collect();
    let names: Vec<String> = lines.iter().map(|l| l.name.clone()).collect();
    Variants::of(&axes, &picks, &names)
}

/// Whether intervals reach below 0 where no value does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Nowhere,
    AtZero,
}

/// Where words are on an axis, the points of several lines stand beside each other.
fn side_by_side(lines: &mut [Line]) {
    let n = lines.len().min(MOST_LINES);
    let width = 0.6 / n.max(1) as f64;
    for (nth, line) in lines.iter_mut().take(n).enumerate() {
        for point in &mut line.points {
            point.x += (nth as f64 - (n - 1) as f64 / 2.0) * width;
        }
    }
}

/// By the values of the other axes.
fn lines(summary: &Summary<'_>, at: usize, x_of: &[f64], column: &str) -> (Vec<Line>, Cut) {
    let plan = summary.plan();
    let axes = &plan.base().sweep;
    let mut lines: Vec<Line> = Vec::new();
    let mut cut = Cut::Nowhere;
    let runs = (0..plan.points()).flat_map(|point| summary.runs(point));
    let below_zero = |r: &&Record| r.metric(column).is_some_and(|value| value < 0.0);
    let negative = runs.copied().any(|r| below_zero(&r));
    for point in 0..plan.points() {
        let values = plan.values(point);
        let others: Vec<&str> = values
            .iter()
            .enumerate()
            .filter_map(|(n, v)| (n != at).then_some(*v))
            .collect();
        let line = others.join(" / ");
        let number = |n: usize| axes[n].values.iter().position(|v| v == values[n]);
        let picks = (0..axes.len()).filter(|n| *n != at).filter_map(number);
        let nth = axes[at].values.iter().position(|v| v == values[at]);
        let x = nth.and_then(|n| x_of.get(n)).copied();
        if let (Some(x), Some(e)) = (x, summary.estimate(point, column)) {
            let ci = e.ci95.unwrap_or(0.0);
            let known = lines.iter().position(|known| known.name == line);
            let known = known.unwrap_or_else(|| {
                lines.push(Line {
                    name: line,
                    picks: picks.collect(),
                    points: Vec::new(),
                });
                lines.len() - 1
            });
            let mut least = e.mean - ci;
            if least < 0.0 && !negative {
                (least, cut) = (0.0, Cut::AtZero);
            }
            lines[known].points.push(Point {
                x,
                mean: e.mean,
                least,
                most: e.mean + ci,
            });
        }
    }
    (lines, cut)
}
