//! The report of any experiment: its figures, each with its numbers, and a page around them.

use super::chart::ink::escape;
use super::chart::{Axis, Chart, Draw, Scale, Series, Theme};
use super::html;
use super::points;
use super::table::Colour;
use narrows_experiment::knob::Kind;
use narrows_experiment::registry::Registry;
use narrows_experiment::results::{Folder, FolderError, Record, cell};
use narrows_experiment::summary::{Holds, Summary, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write;

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
        for series in &self.chart.series {
            for (n, (x, y)) in series.points.iter().enumerate() {
                let (least, most) = series.spread.get(n).copied().unwrap_or((*y, *y));
                let _ = writeln!(out, "{},{x},{y},{least},{most}", cell(&series.name));
            }
        }
        out
    }
}

/// Most lines of a figure.
const MOST_LINES: usize = 12;
/// Most points of a line that is a distribution or a course.
const MOST_POINTS: usize = 2_000;

/// A unit for eyes: what a value in the base unit is divided by, and its name.
fn shown_unit(unit: &str, most: f64) -> (f64, &'static str) {
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
        _ => (1.0, ""),
    }
}

fn label(title: &str, unit: &str) -> String {
    let mut text = title.to_owned();
    if let Some(first) = text.get(..1).map(str::to_uppercase) {
        text.replace_range(..1, &first);
    }
    match unit {
        "" => text,
        unit => format!("{text} ({unit})"),
    }
}

/// A figure for each metric that is shown, over the axis that is.
pub fn figures(summary: &Summary<'_>, registry: &Registry) -> Vec<Figure> {
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
    let (x_label, x_of): (String, Vec<f64>) = if numeric {
        let of = numbers.iter().flatten().map(|n| n / by);
        (label(&title, name), of.collect())
    } else {
        let names: Vec<String> = base.sweep[at]
            .values
            .iter()
            .enumerate()
            .map(|(n, v)| format!("{n} {v}"))
            .collect();
        let label = format!("{}: {}", label(&title, ""), names.join(", "));
        (label, (0..names.len()).map(|n| n as f64).collect())
    };
    let scale = spacing(&x_of);
    let metrics = points::shown(summary, registry);
    metrics
        .into_iter()
        .map(|(name, column)| {
            let lines = lines(summary, at, &x_of, &column);
            let unit = points::unit_of(&column);
            let all = lines.iter().flat_map(|(_, points)| points);
            let most = all.map(|(_, y, ci)| y + ci).fold(0.0, f64::max);
            let (by, shown) = shown_unit(unit, most);
            let metric = registry.metrics.get(&name);
            let title = metric.map_or(name.as_str(), |m| m.title);
            let left_out = lines.len().saturating_sub(MOST_LINES);
            let series = lines.into_iter().take(MOST_LINES).enumerate();
            let series = series.map(|(group, (line, points))| Series {
                name: line,
                // Between words there is nothing.
                draw: if numeric {
                    Draw::LineMarkers
                } else {
                    Draw::Markers
                },
                group,
                points: points.iter().map(|(x, y, _)| (*x, y / by)).collect(),
                spread: points
                    .iter()
                    .map(|(_, y, ci)| ((y - ci) / by, (y + ci) / by))
                    .collect(),
                ..Series::default()
            });
            let reps = base.run.repetitions;
            let caption = match reps {
                1 => "One run for each point: --repetitions gives intervals.".to_owned(),
                n => format!("Mean of {n} runs; bars are 95 % confidence intervals (Student's t)."),
            };
            let caption = match left_out {
                0 => caption,
                n => format!("{caption} {n} more lines are in runs.csv alone."),
            };
            let meaning = metric.map_or("", |m| m.meaning);
            Figure {
                name: file_name(&format!("figure-{name}")),
                heading: label(title, ""),
                caption: format!("{meaning} {caption}").trim().to_owned(),
                chart: Chart {
                    title: format!("{title} by {x_label}"),
                    x: Axis {
                        label: x_label.clone(),
                        scale,
                        range: None,
                    },
                    y: Axis {
                        label: label(title, shown),
                        scale: Scale::Linear,
                        range: None,
                    },
                    series: series.collect(),
                    rules: Vec::new(),
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

/// A line's name, and its points: x, mean and half interval.
type Line = (String, Vec<(f64, f64, f64)>);

/// By the values of the other axes: x, mean and half interval.
fn lines(summary: &Summary<'_>, at: usize, x_of: &[f64], column: &str) -> Vec<Line> {
    let plan = summary.plan();
    let axes = &plan.base().sweep;
    let mut lines: Vec<Line> = Vec::new();
    for point in 0..plan.points() {
        let values = plan.values(point);
        let others: Vec<&str> = values
            .iter()
            .enumerate()
            .filter_map(|(n, v)| (n != at).then_some(*v))
            .collect();
        let line = if others.is_empty() {
            "all".to_owned()
        } else {
            others.join(" / ")
        };
        let nth = axes[at].values.iter().position(|v| v == values[at]);
        let x = nth.and_then(|n| x_of.get(n)).copied();
        if let (Some(x), Some(e)) = (x, summary.estimate(point, column)) {
            let ci = e.ci95.unwrap_or(0.0);
            let known = lines.iter().position(|(name, _)| *name == line);
            let known = known.unwrap_or_else(|| {
                lines.push((line, Vec::new()));
                lines.len() - 1
            });
            lines[known].1.push((x, e.mean, ci));
        }
    }
    lines
}

/// The distribution of the transfers' times, and what the probes saw in the first repetition.
///
/// # Errors
/// If the folder cannot be read.
pub fn from_folder(summary: &Summary<'_>, folder: &Folder) -> Result<Vec<Figure>, FolderError> {
    let mut figures = Vec::new();
    figures.extend(cdf(summary, folder)?);
    figures.extend(courses(summary, folder)?);
    Ok(figures)
}

fn cdf(summary: &Summary<'_>, folder: &Folder) -> Result<Option<Figure>, FolderError> {
    let plan = summary.plan();
    let mut all: Vec<(String, Vec<f64>)> = Vec::new();
    for point in 0..plan.points().min(MOST_LINES) {
        let mut took = Vec::new();
        for record in summary.runs(point) {
            let rows = folder.rows(record, "transfers")?;
            // point,repetition,traffic,to,from,began_ns,took_ns,size_bytes
            let of = |row: &str| row.rsplit(',').nth(1)?.parse::<f64>().ok();
            took.extend(rows.lines().filter_map(of));
        }
        if !took.is_empty() {
            took.sort_by(f64::total_cmp);
            let values = plan.values(point).join(" / ");
            let name = if values.is_empty() {
                "all".to_owned()
            } else {
                values
            };
            all.push((name, took));
        }
    }
    let most = all
        .iter()
        .filter_map(|(_, t)| t.last())
        .copied()
        .fold(0.0, f64::max);
    if all.is_empty() {
        return Ok(None);
    }
    let least = all
        .iter()
        .filter_map(|(_, t)| t.first())
        .copied()
        .fold(most, f64::min);
    let (by, unit) = shown_unit("ns", most);
    let wide = most / least.max(1.0) >= 30.0;
    let series = all.into_iter().enumerate().map(|(group, (name, took))| {
        let n = took.len();
        let step = n.div_ceil(MOST_POINTS).max(1);
        let points = (0..n).step_by(step).chain([n - 1]);
        Series {
            name,
            draw: Draw::Steps,
            group,
            points: points
                .map(|i| (took[i] / by, (i + 1) as f64 / n as f64))
                .collect(),
            ..Series::default()
        }
    });
    Ok(Some(Figure {
        name: "figure-cdf".to_owned(),
        heading: "Distribution of the transfers' times".to_owned(),
        caption: "Share of the transfers of all repetitions that took no longer; those of the \
                  warm-up are among them."
            .to_owned(),
        chart: Chart {
            title: "Cumulative distribution of transfer times".to_owned(),
            x: Axis {
                label: label("time of a transfer", unit),
                scale: if wide { Scale::Log10 } else { Scale::Linear },
                range: None,
            },
            y: Axis {
                label: "Share of transfers".to_owned(),
                scale: Scale::Linear,
                range: Some((0.0, 1.0)),
            },
            series: series.collect(),
            rules: Vec::new(),
        },
    }))
}

/// A figure for each probe that has series: what it saw at each point, first repetition.
fn courses(summary: &Summary<'_>, folder: &Folder) -> Result<Vec<Figure>, FolderError> {
    let plan = summary.plan();
    let mut figures: BTreeMap<(String, String), Vec<Series>> = BTreeMap::new();
    let mut spans: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for point in 0..plan.points().min(MOST_LINES) {
        let Some(&record) = summary.runs(point).first() else {
            continue;
        };
        for table in series_tables(folder, record) {
            let rows = folder.rows(record, &table)?;
            let mut lines: BTreeMap<(String, String), Vec<(f64, f64)>> = BTreeMap::new();
            // point,repetition,of,time_ns,what,value
            for row in rows.lines() {
                let cells: Vec<&str> = row.split(',').collect();
                if let [_, _, of, time, what, value] = cells[..]
                    && let (Ok(time), Ok(value)) = (time.parse::<f64>(), value.parse::<f64>())
                {
                    let key = (what.to_owned(), of.to_owned());
                    lines.entry(key).or_default().push((time, value));
                }
            }
            for ((what, of), points) in lines {
                let values = plan.values(point).join(" / ");
                let name = match (values.is_empty(), of.is_empty()) {
                    (true, _) => of,
                    (false, true) => values,
                    (false, false) => format!("{of}: {values}"),
                };
                let most = points.iter().map(|p| p.1).fold(0.0, f64::max);
                let last = points.iter().map(|p| p.0).fold(0.0, f64::max);
                let span = spans.entry(format!("{table}/{what}")).or_default();
                *span = (span.0.max(last), span.1.max(most));
                let step = points.len().div_ceil(MOST_POINTS).max(1);
                let series = figures.entry((table.clone(), what)).or_default();
                if series.len() < MOST_LINES {
                    series.push(Series {
                        name,
                        draw: Draw::Line,
                        group: series.len(),
                        points: points.into_iter().step_by(step).collect(),
                        ..Series::default()
                    });
                }
            }
        }
    }
    let figures = figures.into_iter().map(|((table, what), mut series)| {
        let (last, most) = spans
            .get(&format!("{table}/{what}"))
            .copied()
            .unwrap_or_default();
        let unit = series_unit(&what);
        let (by_x, unit_x) = shown_unit("ns", last);
        let (by_y, unit_y) = shown_unit(unit, most);
        for line in &mut series {
            for (x, y) in &mut line.points {
                *x /= by_x;
                *y /= by_y;
            }
        }
        let probe = table.trim_start_matches("series-").to_owned();
        let end = match unit {
            "bit/s" => "_bit_per_s".to_owned(),
            unit => format!("_{unit}"),
        };
        let title = what.trim_end_matches(&end).replace('_', " ");
        Figure {
            name: file_name(&format!("figure-{probe}-{what}")),
            heading: format!("{}, as probe {probe} saw it", label(&title, "")),
            caption: "First repetition of each point.".to_owned(),
            chart: Chart {
                title: format!("{title} over time"),
                x: Axis {
                    label: label("time", unit_x),
                    ..Axis::default()
                },
                y: Axis {
                    label: label(&title, unit_y),
                    ..Axis::default()
                },
                series,
                rules: Vec::new(),
            },
        }
    });
    Ok(figures.collect())
}

fn series_tables(folder: &Folder, record: &Record) -> Vec<String> {
    let all = folder.tables_of(record);
    let series = all.filter(|t| t.starts_with("series-"));
    series.map(str::to_owned).collect()
}

/// The unit that the name of a column of a series ends with.
fn series_unit(what: &str) -> &'static str {
    let units = [("_bit_per_s", "bit/s"), ("_ns", "ns"), ("_bytes", "bytes")];
    let found = units.iter().find(|(end, _)| what.ends_with(end));
    found.map_or("", |(_, unit)| unit)
}

fn file_name(text: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '-'
        }
    };
    text.chars().map(plain).collect()
}

/// The page.
pub fn page(
    summary: &Summary<'_>,
    registry: &Registry,
    figures: &[Figure],
    verdicts: &[Verdict],
    command: &str,
) -> String {
    let plan = summary.plan();
    let base = plan.base();
    let mut out = String::new();
    let o = &mut out;
    let title = match base.title.as_str() {
        "" => "An experiment",
        title => title,
    };
    html::begin(o, title, &base.about, &sentences(summary, verdicts));
    for figure in figures {
        let _ = write!(
            o,
            "<h2>{}</h2>\n<figure>\n{}<figcaption>{} Numbers: <code>{}.csv</code>.</figcaption>\n\
             </figure>\n",
            escape(&figure.heading),
            figure.chart.svg(Theme::Page),
            escape(&figure.caption),
            escape(&figure.name),
        );
    }
    let table = points::table(summary, registry, Colour::Plain);
    let _ = write!(o, "<h2>Numbers</h2>\n<pre>{}</pre>\n", escape(&table));
    if !verdicts.is_empty() {
        let text = points::verdicts(verdicts, Colour::Plain);
        let _ = write!(o, "<h2>Expected</h2>\n<pre>{}</pre>\n", escape(&text));
    }
    let _ = write!(o, "<h2>Settings</h2>\n<table class=\"settings\">\n");
    for entry in base.entries() {
        let (key, value) = (escape(&entry.key), escape(&entry.value.to_string()));
        let _ = writeln!(o, "<tr><th scope=\"row\">{key}</th><td>{value}</td></tr>");
    }
    let _ = writeln!(o, "</table>");
    html::again(o, command);
    html::end(o, None);
    out
}

/// What can be said of what was measured, and no more.
fn sentences(summary: &Summary<'_>, verdicts: &[Verdict]) -> Vec<String> {
    let plan = summary.plan();
    let done: usize = (0..plan.points()).map(|p| summary.runs(p).len()).sum();
    let mut all = vec![match (done, plan.runs()) {
        (done, runs) if done < runs => {
            format!("{done} of {runs} runs: what is missing is not in the figures.")
        }
        (done, _) => format!(
            "{done} runs: {} points, {} repetitions of each.",
            plan.points(),
            plan.base().run.repetitions
        ),
    }];
    let unwell = (0..plan.points())
        .flat_map(|p| summary.runs(p).iter())
        .filter(|r| r.outcome != "completed")
        .count();
    if unwell > 0 {
        all.push(format!(
            "{unwell} of them did not complete what they were to do; the table says which."
        ));
    }
    let unmet = verdicts.iter().filter(|v| v.holds != Holds::Yes).count();
    if !verdicts.is_empty() {
        all.push(match unmet {
            0 => format!("All {} expectations hold.", verdicts.len()),
            n => format!("{n} of {} expectations do not hold.", verdicts.len()),
        });
    }
    all
}
