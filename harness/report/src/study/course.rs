//! What the probes saw over time.

use super::figure::{Figure, MOST_LINES, file_name, label, left_out, point_name, shown_unit};
use super::readings::{
    Column, MOST_MARKS, MOST_NAMED, changes, common, probe_of, read, rules, thinned,
};
use super::sequence;
use crate::chart::{Axis, Chart, Draw, Series};
use narrows_experiment::model::Experiment;
use narrows_experiment::results::{Folder, FolderError};
use narrows_experiment::summary::Summary;

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

/// The kind of a probe.
fn kind<'e>(base: &'e Experiment, probe: &str) -> &'e str {
    let found = base.probes.iter().find(|p| p.name == probe);
    found.map_or("", |p| p.kind.as_str())
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
