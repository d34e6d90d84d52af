//! The table of any experiment: a row for each point of its sweep.

use super::chart::ink::escape;
use super::table::{BOLD, Colour, DIM, GREEN, RED};
use narrows::{ByteCount, Duration, Rate};
use narrows_experiment::metric::Metric;
use narrows_experiment::model::Experiment;
use narrows_experiment::model::expect::Bound;
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::spec::Size;
use narrows_experiment::stats::Estimate;
use narrows_experiment::summary::{Holds, Summary, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What is shown of an experiment that does not say.
const USUAL: [&str; 5] = ["goodput", "latency.p50", "latency.p99", "drops", "timeouts"];

/// The metrics that are shown: names with their columns.
pub fn shown(summary: &Summary<'_>, registry: &Registry) -> Vec<(String, String)> {
    let own = &summary.plan().base().show.y;
    let names: Vec<String> = if own.is_empty() {
        USUAL.map(str::to_owned).to_vec()
    } else {
        own.clone()
    };
    let columns = names.into_iter().filter_map(|name| {
        let column = summary.column_of(&registry.metrics, &name)?;
        let seen =
            (0..summary.plan().points()).any(|point| summary.estimate(point, &column).is_some());
        seen.then_some((name, column))
    });
    columns.collect()
}

/// The title of a metric as columns have it: with the traffic it is of, if it is of one; of a
/// probe's value its name.
pub(super) fn title_of(metric: Option<&Metric>, name: &str) -> String {
    match metric {
        None => name.to_owned(),
        Some(metric) => match name.strip_suffix(metric.name) {
            None | Some("") => metric.title.to_owned(),
            Some(of) => format!("{} of {}", metric.title, of.trim_end_matches('.')),
        },
    }
}

/// What stands above the columns of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heads {
    /// As files have them: `latency.p99`.
    Names,
    /// As people do: `p99 latency`.
    Titles,
}

/// A row for each point: what is varied, what is shown, and what is to be known of its runs.
pub(super) struct Rows {
    pub(super) head: Vec<String>,
    /// How many columns are of keys.
    pub(super) axes: usize,
    pub(super) rows: Vec<Vec<String>>,
}

/// The rows of a table.
pub(super) fn rows(summary: &Summary<'_>, registry: &Registry, heads: Heads) -> Rows {
    let plan = summary.plan();
    let metrics = shown(summary, registry);
    let axes = &plan.base().sweep;
    let keys = axes
        .iter()
        .map(|axis| plan.base().title_of(registry, &axis.key));
    let names = metrics.iter().map(|(name, _)| match heads {
        Heads::Names => name.clone(),
        Heads::Titles => title_of(registry.metrics.get(name), name),
    });
    let head = keys.chain(names).collect();
    let row = |point| {
        let keys = plan.values(point).into_iter().map(str::to_owned);
        let cells = metrics.iter().map(|(_, column)| {
            let estimate = summary.estimate(point, column);
            estimate.map_or_else(|| "-".to_owned(), |e| cell(&e, unit_of(column)))
        });
        let note = std::iter::once(note(summary, point));
        keys.chain(cells).chain(note).collect()
    };
    Rows {
        head,
        axes: axes.len(),
        rows: (0..plan.points()).map(row).collect(),
    }
}

/// A row for each point; what is varied, then what is shown.
pub fn table(summary: &Summary<'_>, registry: &Registry, colour: Colour) -> String {
    let plan = summary.plan();
    let Rows { head, axes, rows } = rows(summary, registry, Heads::Names);
    let width = |i: usize| {
        let cells = rows.iter().map(|row| row[i].chars().count());
        cells.chain([head[i].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[String]| {
        let mut line = String::new();
        for (i, (text, width)) in cells.iter().zip(&widths).enumerate() {
            let gap = if i == 0 { "" } else { "  " };
            let _ = match i < axes {
                true => write!(line, "{gap}{text:<width$}"),
                false => write!(line, "{gap}{text:>width$}"),
            };
        }
        line.trim_end().to_owned()
    };
    let mut out = String::new();
    if !plan.base().title.is_empty() {
        let _ = writeln!(out, "{}", colour.wrap(BOLD, &plan.base().title));
    }
    let _ = writeln!(out, "{}", colour.wrap(DIM, &line(&head)));
    for row in &rows {
        let (cells, note) = row.split_at(head.len());
        let note = match note.concat().as_str() {
            "" => String::new(),
            note => format!("  ({note})"),
        };
        let _ = writeln!(out, "{}{note}", line(cells));
    }
    out
}

/// What is to be known about the runs of a point: that some did not end well or are missing, or
/// ended while connections were opening.
fn note(summary: &Summary<'_>, point: usize) -> String {
    let runs = summary.runs(point);
    let wanted = summary.plan().base().run.repetitions as usize;
    let mut notes = Vec::new();
    if runs.len() < wanted {
        notes.push(format!("{} of {wanted} runs", runs.len()));
    }
    let mut bad: Vec<&str> = runs
        .iter()
        .map(|r| r.outcome.as_str())
        .filter(|o| *o != "completed")
        .collect();
    bad.sort_unstable();
    bad.dedup();
    notes.extend(bad.into_iter().map(str::to_owned));
    let opening = summary.estimate(point, "opening").filter(|e| e.mean > 0.0);
    notes.extend(opening.map(|e| format!("{} still opening", number(e.mean, ""))));
    notes.join(", ")
}

/// The unit that the name of a column ends with.
pub fn unit_of(column: &str) -> &'static str {
    let units = [
        ("_bps", "bit/s"),
        ("_per_s", "1/s"),
        ("_ns", "ns"),
        ("_bytes", "bytes"),
    ];
    let found = units.iter().find(|(end, _)| column.ends_with(end));
    found.map_or("", |(_, unit)| unit)
}

/// A number with its unit, and its interval if it has one.
pub fn cell(e: &Estimate, unit: &str) -> String {
    let mean = number(e.mean, unit);
    match e.ci95 {
        Some(ci) if ci > 0.0 => format!("{mean} ±{}", number(ci, unit)),
        _ => mean,
    }
}

/// A number for people, three digits or more.
pub fn number(x: f64, unit: &str) -> String {
    let whole = x.round().max(0.0);
    // Three digits are enough for eyes.
    let digits = 10_f64.powf((whole.max(1.0).log10().floor() - 2.0).max(0.0));
    let rounded = ((whole / digits).round() * digits) as u64;
    match unit {
        "ns" => Duration::from_nanos(rounded).to_string(),
        "bit/s" => Rate::from_bits_per_sec(rounded).to_string(),
        "bytes" if whole >= 1e4 => {
            let exact = Size(ByteCount::new(whole as u64)).to_string();
            // Where it is no round number its bytes say nothing.
            match x == whole && exact.len() <= 6 {
                true => exact,
                false => format!("{:.1} kB", x / 1e3),
            }
        }
        _ if x == x.trunc() && x.abs() < 1e15 => format!("{x:.0}"),
        // Four digits, but whole numbers whole.
        _ => {
            let digits = (3.0 - x.abs().log10().floor()).clamp(0.0, 9.0) as usize;
            let text = format!("{x:.digits$}");
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        }
    }
}

/// A number with its unit and all its digits.
fn exact(x: f64, unit: &str) -> String {
    let whole = x.round().max(0.0) as u64;
    match unit {
        "ns" => Duration::from_nanos(whole).to_string(),
        "bit/s" => Rate::from_bits_per_sec(whole).to_string(),
        "bytes" => Size(ByteCount::new(whole)).to_string(),
        _ => x.to_string(),
    }
}

/// A line for each expectation.
pub fn verdicts(all: &[Verdict], colour: Colour) -> String {
    let mut out = String::new();
    for v in all {
        let (code, word) = match v.holds {
            Holds::Yes => (GREEN, "holds"),
            Holds::No => (RED, "fails"),
            Holds::Unknown => (RED, "unknown"),
        };
        let at = if v.point.is_empty() {
            String::new()
        } else {
            format!(" with {}", v.point)
        };
        let found = found(v).unwrap_or_else(|| "no run gave a value".to_owned());
        let word = colour.wrap(code, word);
        let _ = writeln!(out, "{word}: {} {}{at}: {found}", v.metric, bound(v));
    }
    out
}

fn unit(v: &Verdict) -> &'static str {
    v.column.as_deref().map_or("", unit_of)
}

fn bound(v: &Verdict) -> String {
    let Bound {
        relation, value, ..
    } = v.bound;
    format!("{} {}", relation.sign(), exact(value, unit(v)))
}

fn found(v: &Verdict) -> Option<String> {
    let (e, unit) = (v.found?, unit(v));
    // Where the bound reads the same, more digits say on which side it is.
    let close = number(e.mean, unit) == number(v.bound.value, unit);
    Some(match close {
        true => exact(e.mean, unit),
        false => cell(&e, unit),
    })
}

/// The expectations as JUnit has tests: a suite of the experiment's title, or ours if it has none.
pub fn junit(title: &str, all: &[Verdict]) -> String {
    let title = match title {
        "" => "narrows",
        title => title,
    };
    let failures = all.iter().filter(|v| v.holds != Holds::Yes).count();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" \
         failures=\"{failures}\">\n",
        escape(title),
        all.len()
    );
    for v in all {
        let name = format!("{} {} {}", v.metric, bound(v), v.point);
        let _ = write!(out, "  <testcase name=\"{}\"", escape(name.trim()));
        match (v.holds, v.found) {
            (Holds::Yes, _) => out.push_str("/>\n"),
            (_, _) => {
                let found = found(v).unwrap_or_else(|| "no value".to_owned());
                let _ = writeln!(out, "><failure message=\"{}\"/></testcase>", escape(&found));
            }
        }
    }
    out.push_str("</testsuite>\n");
    out
}

type Points = BTreeMap<Vec<String>, BTreeMap<String, Estimate>>;

/// What is different between two results at the points that both have: metrics whose intervals do
/// not meet, or whose single values differ. `None` if nothing is.
pub fn moved(
    (a, points_a): (&Experiment, Points),
    (b, points_b): (&Experiment, Points),
    all: bool,
    colour: Colour,
) -> Option<String> {
    let keys: Vec<&str> = a.sweep.iter().map(|axis| axis.key.as_str()).collect();
    let other: Vec<&str> = b.sweep.iter().map(|axis| axis.key.as_str()).collect();
    if keys != other {
        return None;
    }
    let mut out = String::new();
    let mut any = false;
    for (values, metrics) in &points_a {
        let Some(others) = points_b.get(values) else {
            continue;
        };
        let mut lines = Vec::new();
        for (column, here) in metrics {
            let Some(there) = others.get(column) else {
                continue;
            };
            let beyond = here.differs_from(there);
            any |= beyond;
            if beyond || all {
                let unit = unit_of(column);
                let ratio = there.mean / here.mean;
                let change = match ratio.is_finite() && here.mean != 0.0 {
                    true => format!("  x{ratio:.3}"),
                    false => String::new(),
                };
                let sign = if beyond { "*" } else { " " };
                lines.push(format!(
                    "  {sign} {column}: {} | {}{change}",
                    cell(here, unit),
                    cell(there, unit)
                ));
            }
        }
        if !lines.is_empty() {
            let pairs = keys.iter().zip(values);
            let at: Vec<String> = pairs.map(|(k, v)| format!("{k} = {v}")).collect();
            let _ = writeln!(out, "{}", colour.wrap(BOLD, &at.join(", ")));
            for line in lines {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    (any || all && !out.is_empty()).then_some(out)
}
