//! Time-sequence graphs: what a flow sent, sent again, had acknowledged, and the window it had.

use super::figure::{Figure, file_name, label, point_name, shown_unit};
use super::readings::{Column, Line, Points, probe_of, rules, thinned};
use crate::chart::{Axis, Chart, Draw, Series};
use narrows_experiment::summary::Summary;

/// Most graphs of a probe: each is of one flow at one point.
const MOST_GRAPHS: usize = 4;

/// What is drawn of each column, and how.
const DRAWN: [(&str, &str, Draw); 5] = [
    ("window_bytes", "end of the window", Draw::Steps),
    ("sent_bytes", "sent", Draw::Dots),
    ("acked_bytes", "acknowledged", Draw::Steps),
    ("sacked_bytes", "end of a SACK block", Draw::Dots),
    ("again_bytes", "sent again", Draw::Markers),
];

/// A figure for each flow of each probe, as far as there is room.
pub(super) fn figures(
    summary: &Summary<'_>,
    columns: &[Column],
    marks: &[(f64, String)],
) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut tables: Vec<&str> = columns.iter().map(|c| c.table.as_str()).collect();
    tables.dedup();
    for table in tables {
        let of_it: Vec<&Column> = columns.iter().filter(|c| c.table == table).collect();
        let mut flows: Vec<(usize, &str)> = Vec::new();
        for line in of_it.iter().flat_map(|c| &c.lines) {
            if !flows.contains(&(line.point, &line.of)) {
                flows.push((line.point, &line.of));
            }
        }
        flows.sort_by_key(|(point, _)| *point);
        let all = flows.len();
        for (n, flow) in flows.into_iter().take(MOST_GRAPHS).enumerate() {
            let left = (n + 1 == MOST_GRAPHS && all > MOST_GRAPHS).then_some(all);
            figures.push(figure(summary, &of_it, flow, left, n, marks));
        }
    }
    figures
}

fn figure(
    summary: &Summary<'_>,
    columns: &[&Column],
    flow: (usize, &str),
    more_than_drawn: Option<usize>,
    nth: usize,
    marks: &[(f64, String)],
) -> Figure {
    let (point, of) = flow;
    let table = columns.first().map_or("", |c| c.table.as_str());
    let line = |what: &str| -> Option<&Line> {
        let column = columns.iter().find(|c| c.what == what)?;
        let mut lines = column.lines.iter();
        lines.find(|l| l.point == point && l.of == of)
    };
    let largest = |what: &str| {
        let points = line(what).into_iter().flat_map(|l| &l.points);
        points.fold((0.0_f64, 0.0_f64), |most, p| {
            (most.0.max(p.0), most.1.max(p.1))
        })
    };
    let (sent, again, acked) = (
        largest("sent_bytes"),
        largest("again_bytes"),
        largest("acked_bytes"),
    );
    let last = sent.0.max(again.0).max(acked.0);
    // A window far above what is sent would press all else flat.
    let top = sent.1.max(again.1).max(acked.1) * 1.1;
    let (by_x, unit_x) = shown_unit("ns", last);
    let (by_y, unit_y) = shown_unit("bytes", top);
    let mut series = Vec::new();
    for (group, (what, name, draw)) in DRAWN.into_iter().enumerate() {
        let Some(line) = line(what) else { continue };
        let shown = line.points.iter().filter(|p| p.1 <= top).copied();
        let points: Points = thinned(shown.collect(), last);
        if points.is_empty() {
            continue;
        }
        series.push(Series {
            name: name.to_owned(),
            draw,
            group,
            points: points.iter().map(|p| (p.0 / by_x, p.1 / by_y)).collect(),
            ..Series::default()
        });
    }
    let probe = probe_of(table);
    let at = point_name(summary, point);
    let whose = match (of.is_empty(), at.is_empty()) {
        (_, true) => of.to_owned(),
        (true, false) => at,
        (false, false) => format!("{of} at {at}"),
    };
    let mut caption = match summary.plan().base().run.repetitions {
        1 => String::new(),
        _ => "First repetition. ".to_owned(),
    };
    let notes = more_than_drawn.map(|all| format!("{MOST_GRAPHS} of {all} flows are drawn."));
    caption += &format!("All readings are in {table}.csv.");
    Figure {
        name: file_name(&format!("figure-{probe}-{nth}")),
        heading: format!("Time-sequence graph of {whose}, seen by probe {probe}"),
        caption,
        chart: Chart {
            title: format!("what {of} sent and what was acknowledged, over time"),
            x: Axis {
                label: label("time", unit_x),
                ..Axis::default()
            },
            y: Axis {
                label: label("position in the stream", unit_y),
                ..Axis::default()
            },
            rules: rules(marks, by_x, last),
            series,
            notes: notes.into_iter().collect(),
            ..Chart::default()
        },
    }
}
