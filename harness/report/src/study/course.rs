//! What the probes saw over time.

mod sequence;

use super::{Figure, MOST_LINES, file_name, label, left_out, point_name, shown_unit};
use crate::chart::{Axis, Chart, Draw, Rule, RuleAt, Series, extremes};
use narrows_experiment::model::Experiment;
use narrows_experiment::results::{Folder, FolderError, Record, cells};
use narrows_experiment::summary::Summary;
use std::collections::HashSet;

/// Most stretches of time whose extremes a line keeps.
const STRETCHES: usize = 1_000;
/// Most marks that have a name.
const MOST_NAMED: usize = 6;
/// Most marks: more would cover the lines.
const MOST_MARKS: usize = 200;

type Points = Vec<(f64, f64)>;

/// A reading over time of one thing at one point.
struct Line {
    point: usize,
    /// Which of the things that the probe looks at, from 0.
    nth: usize,
    of: String,
    points: Points,
}

/// A table of a probe and a column of it.
struct Column {
    table: String,
    what: String,
    lines: Vec<Line>,
}

/// A figure for each column of each probe that has series: the first repetition of each point.
pub(super) fn figures(summary: &Summary<'_>, folder: &Folder) -> Result<Vec<Figure>, FolderError> {
    let mut columns: Vec<Column> = Vec::new();
    let mut marks: Option<Vec<(f64, String)>> = None;
    for point in 0..summary.plan().points().min(MOST_LINES) {
        let Some(&record) = summary.runs(point).first() else {
            continue;
        };
        let tables: Vec<&str> = folder.tables_of(record).collect();
        for table in tables.into_iter().filter(|t| t.starts_with("series-")) {
            read(folder, record, table, &mut columns)?;
        }
        let here = changes(folder, record)?;
        // Those that all have: where a change is varied its mark would be of one line only.
        marks = Some(match marks {
            None => here,
            Some(before) => common(before, &here),
        });
    }
    let marks = marks.unwrap_or_default();
    let (sequences, columns): (Vec<_>, Vec<_>) = columns
        .into_iter()
        .partition(|c| kind(summary.plan().base(), probe_of(&c.table)) == "time-sequence");
    let figures = columns.into_iter();
    let mut figures: Vec<Figure> = figures.map(|c| figure(summary, c, &marks)).collect();
    figures.extend(sequence::figures(summary, &sequences, &marks));
    Ok(figures)
}

/// The probe whose readings a table has.
fn probe_of(table: &str) -> &str {
    table.trim_start_matches("series-")
}

/// The kind of a probe.
fn kind<'e>(base: &'e Experiment, probe: &str) -> &'e str {
    let found = base.probes.iter().find(|p| p.name == probe);
    found.map_or("", |p| p.kind.as_str())
}

/// Changes as rules of a chart whose time is in units of `by` nanoseconds and ends at `last`.
fn rules(marks: &[(f64, String)], by: f64, last: f64) -> Vec<Rule> {
    let marked = marks.iter().filter(|_| marks.len() <= MOST_MARKS);
    let marked = marked.filter(|(at, _)| *at <= last);
    let rules = marked.map(|(at, what)| Rule {
        at: RuleAt::X(at / by),
        label: match marks.len() {
            n if n > MOST_NAMED => String::new(),
            _ => what.clone(),
        },
    });
    rules.collect()
}

/// Those of two lists in the order of time that are in both.
fn common(mut before: Vec<(f64, String)>, here: &[(f64, String)]) -> Vec<(f64, String)> {
    let here: HashSet<(u64, &str)> = here
        .iter()
        .map(|(at, what)| (at.to_bits(), what.as_str()))
        .collect();
    before.retain(|(at, what)| here.contains(&(at.to_bits(), what.as_str())));
    before
}

/// When something changed in a run, and what.
fn changes(folder: &Folder, record: &Record) -> Result<Vec<(f64, String)>, FolderError> {
    let rows = folder.rows(record, "changes")?;
    // point,repetition,time_ns,what
    let change = |row: &str| {
        let row = cells(row);
        Some((row.get(2)?.parse().ok()?, row.get(3)?.to_string()))
    };
    Ok(rows.lines().filter_map(change).collect())
}

fn read(
    folder: &Folder,
    record: &Record,
    table: &str,
    columns: &mut Vec<Column>,
) -> Result<(), FolderError> {
    let point = record.run.point;
    // point,repetition,of,time_ns,what,value
    for row in folder.rows(record, table)?.lines() {
        let row = cells(row);
        let [_, _, of, time, what, value] = &row[..] else {
            continue;
        };
        let (Ok(time), Ok(value)) = (time.parse::<f64>(), value.parse::<f64>()) else {
            continue;
        };
        let known = columns
            .iter()
            .position(|c| c.table == table && c.what == **what);
        let at = known.unwrap_or_else(|| {
            columns.push(Column {
                table: table.to_owned(),
                what: what.to_string(),
                lines: Vec::new(),
            });
            columns.len() - 1
        });
        let lines = &mut columns[at].lines;
        let known = lines.iter().rposition(|l| l.point == point && l.of == **of);
        let at = known.unwrap_or_else(|| {
            lines.push(Line {
                point,
                nth: lines.iter().filter(|l| l.point == point).count(),
                of: of.to_string(),
                points: Vec::new(),
            });
            lines.len() - 1
        });
        lines[at].points.push((time, value));
    }
    Ok(())
}

fn figure(summary: &Summary<'_>, column: Column, marks: &[(f64, String)]) -> Figure {
    let Column {
        table,
        what,
        mut lines,
    } = column;
    let all = lines.len();
    // What a figure has no room for: of each point the later ones.
    lines.sort_by_key(|l| (l.nth, l.point));
    lines.truncate(MOST_LINES);
    lines.sort_by_key(|l| (l.point, l.nth));
    let points = || lines.iter().flat_map(|l| &l.points);
    let last = points().map(|p| p.0).fold(0.0, f64::max);
    let most = points().map(|p| p.1).fold(0.0, f64::max);
    let (by_x, unit_x) = shown_unit("ns", last);
    let unit = unit_of(&what);
    let (by_y, unit_y) = shown_unit(unit, most);
    let probe = probe_of(&table).to_owned();
    let title = title(&what, unit);
    let mut thin = false;
    let alone = lines.len() == 1;
    // Where all lines are of one thing the heading says which.
    let first = lines.first().map_or("", |l| l.of.as_str()).to_owned();
    let one = !first.is_empty() && lines.iter().all(|l| l.of == first);
    let whose = if one {
        format!(" of {first}")
    } else {
        String::new()
    };
    let series = lines.into_iter().enumerate().map(|(group, line)| {
        let at = point_name(summary, line.point);
        let name = match (at.is_empty(), line.of.is_empty()) {
            (true, _) if alone => String::new(),
            (true, _) => line.of,
            (false, nothing) if one || nothing => at,
            (false, _) => format!("{}: {at}", line.of),
        };
        let before = line.points.len();
        let points = thinned(line.points, last);
        thin |= points.len() < before;
        Series {
            name,
            draw: draw(summary.plan().base(), &probe),
            group,
            points: points
                .into_iter()
                .map(|(x, y)| (x / by_x, y / by_y))
                .collect(),
            ..Series::default()
        }
    });
    let series: Vec<Series> = series.collect();
    let mut caption = match summary.plan().base().run.repetitions {
        1 => String::new(),
        _ => "First repetition of each point. ".to_owned(),
    };
    let drawn = format!("{} of {all} lines are drawn.", series.len());
    let drawn = (all > series.len()).then_some(drawn);
    let points = left_out(summary, &format!("{table}.csv has all"));
    let notes = points.into_iter().chain(drawn);
    if thin {
        caption += "Of each thousandth of the time its extremes. ";
    }
    match marks.len() {
        n if n > MOST_MARKS => caption += &format!("{n} changes, too many to be marked. "),
        n if n > MOST_NAMED => caption += &format!("Upright lines are changes, {n} in all. "),
        _ => {}
    }
    caption += &format!("All readings are in {table}.csv.");
    Figure {
        name: file_name(&format!("figure-{probe}-{what}")),
        heading: format!("{}{whose}, seen by probe {probe}", label(&title, unit_y)),
        caption,
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
            rules: rules(marks, by_x, last),
            series,
            notes: notes.collect(),
            ..Chart::default()
        },
    }
}

/// A queue keeps its length until something comes or goes.
fn draw(base: &Experiment, probe: &str) -> Draw {
    match kind(base, probe) {
        "queue" => Draw::Steps,
        _ => Draw::Line,
    }
}

/// Of each stretch of time the first reading, the last, and the extremes.
fn thinned(points: Points, last: f64) -> Points {
    if points.len() <= 4 * STRETCHES {
        return points;
    }
    let stretch = |p: &(f64, f64)| (p.0 / last.max(1.0) * STRETCHES as f64) as usize;
    let mut out = Vec::new();
    for here in points.chunk_by(|a, b| stretch(a) == stretch(b)) {
        out.extend(extremes(here));
    }
    out
}

/// Units that the name of a column of a series ends with.
const UNITS: [(&str, &str); 4] = [
    ("_bit_per_s", "bit/s"),
    ("_ns", "ns"),
    ("_bytes", "bytes"),
    ("_packets", "packets"),
];

fn unit_of(what: &str) -> &'static str {
    let found = UNITS.iter().find(|(end, _)| what.ends_with(end));
    found.map_or("", |(_, unit)| unit)
}

fn title(what: &str, unit: &str) -> String {
    let end = UNITS.iter().find(|(_, known)| *known == unit);
    let end = end.map_or("", |(end, _)| end);
    what.strip_suffix(end).unwrap_or(what).replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_every_peak() {
        let value = |i: u32| if i == 70_001 { 99.0 } else { f64::from(i % 7) };
        let points: Points = (0..100_000).map(|i| (f64::from(i), value(i))).collect();
        let thin = thinned(points.clone(), 99_999.0);
        assert!(thin.len() <= 4 * (STRETCHES + 1), "{}", thin.len());
        assert!(thin.contains(&points[70_001]));
        assert_eq!((thin[0], thin[thin.len() - 1]), (points[0], points[99_999]));
        assert!(thin.windows(2).all(|w| w[0].0 < w[1].0));
        assert_eq!(thinned(points[..100].to_vec(), 99.0), points[..100]);
    }

    #[test]
    fn columns_have_titles_and_units() {
        for (what, title_is, unit) in [
            ("queue_packets", "queue", "packets"),
            ("rate_bit_per_s", "rate", "bit/s"),
            ("alpha", "alpha", ""),
            ("in_flight_bytes", "in flight", "bytes"),
        ] {
            assert_eq!(
                (title(what, unit_of(what)).as_str(), unit_of(what)),
                (title_is, unit)
            );
        }
    }
}
