//! The buffer table: all of its cells.

use super::*;
use crate::Figure;
use crate::reference::{Line, Table};
use narrows_report::chart::{Axis, Chart, Draw, Role, Rule, RuleAt, Scale, Series};

const TABLE: &str = include_str!("../../reference/fast08_buffers.csv");
/// Payload's share of the wire.
const CEILING: f64 = 1_000.0 * 1_000.0 / 1_040.0;

/// Cells in which ns-2 lost nothing.
fn is_loss_free(line: &Line<'_>) -> bool {
    line.number("timeouts") == Some(0.0)
        || matches!((line.whole("buffer"), line.whole("n")), (64, 4) | (256, 16))
}

/// They need no seeds and no 20 s: each block is like the last.
pub(super) fn loss_free(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    loss_free_for(bench, 0, u32::MAX, 1_000)
}

/// Those with this buffer (0: any) and up to so many servers, for so long.
pub(super) fn loss_free_for(
    bench: &mut Bench<'_>,
    buffer: u32,
    servers: u32,
    millis: u64,
) -> Result<(), ScenarioError> {
    let table = Table::parse(TABLE);
    for line in table.lines().filter(is_loss_free) {
        let (b, n) = (line.whole("buffer"), line.whole("n"));
        if (buffer != 0 && b != buffer) || n > servers {
            continue;
        }
        let mut spec = fast08(n, b, 1);
        spec.run.duration = Duration::from_millis(millis);
        let found = runs(bench, &spec, [1])?;
        bench.row(Row::new(
            format!("B = {b}, N = {n}: goodput"),
            table.source.clone(),
            Expected::Value(line.number("goodput").unwrap_or(f64::NAN)),
            Measured::spread(&goodput(&found)),
            "Mb/s",
            LOSS_FREE,
        ));
    }
    Ok(())
}

/// The others, and the picture of all.
pub(super) fn collapsed(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(TABLE);
    let mut series: Vec<Series> = Vec::new();
    for line in table.lines() {
        let (b, n) = (line.whole("buffer"), line.whole("n"));
        let found = if is_loss_free(&line) {
            let mut spec = fast08(n, b, 1);
            spec.run.duration = Duration::from_millis(300);
            runs(bench, &spec, [1])?
        } else {
            let found = runs(bench, &fast08(n, b, 20), SEEDS)?;
            compare(bench, &table, &line, &found);
            found
        };
        let (mean, spread) = band(&goodput(&found));
        let theirs = line.number("goodput").unwrap_or(f64::NAN);
        for (role, y, spread) in [
            (Role::Reference, theirs, None),
            (Role::Ours, mean, Some(spread)),
        ] {
            let name = match role {
                Role::Ours => format!("{b} packets"),
                Role::Reference => format!("{b} packets, ns-2"),
            };
            if !series.iter().any(|s| s.name == name) {
                series.push(Series {
                    name: name.clone(),
                    draw: Draw::LineMarkers,
                    role,
                    group: series.len() / 2,
                    ..Series::default()
                });
            }
            let Some(s) = series.iter_mut().find(|s| s.name == name) else {
                continue;
            };
            s.points.push((f64::from(n), y));
            s.spread.extend(spread);
        }
    }
    bench.figure(Figure {
        name: "fast08-buffers",
        caption: "Goodput against the number of servers with the FAST 2008 set-up, for four \
                  buffers at the port to the client: ours, with the spread over three seeds, \
                  over ns-2.35. Each doubling of the buffer doubles the servers that it bears."
            .to_owned(),
        chart: Chart {
            title: "Goodput against servers for four buffers".to_owned(),
            x: Axis {
                label: "Servers".to_owned(),
                scale: Scale::Log2,
                ..Axis::default()
            },
            y: Axis {
                label: "Goodput (Mb/s)".to_owned(),
                scale: Scale::Linear,
                range: Some((0.0, 1_000.0)),
                ..Axis::default()
            },
            series,
            rules: vec![Rule {
                at: RuleAt::Y(CEILING),
                label: "payload's share of the link".to_owned(),
            }],
            ..Chart::default()
        },
    });
    Ok(())
}

/// The rows of a collapsed cell. From the onset to about three times as many servers (and up to
/// 16 in any case) a cell hangs on single packets and is not judged.
fn compare(bench: &mut Bench<'_>, table: &Table, line: &Line<'_>, found: &[IncastRun]) {
    let (b, n) = (line.whole("buffer"), line.whole("n"));
    let transition = n < 16 || f64::from(n) <= 3.0 * super::onset::n_star(b);
    let tolerance = if n < 16 { Tolerance::Shown } else { COLLAPSED };
    let mut row = Row::new(
        format!("B = {b}, N = {n}: goodput"),
        table.source.clone(),
        Expected::Value(line.number("goodput").unwrap_or(f64::NAN)),
        Measured::spread(&goodput(found)),
        "Mb/s",
        tolerance,
    )
    .of_result(stock(n, b));
    if transition {
        row = row.note("in the transition, where single packets decide");
    }
    if (b, n) == (32, 128) {
        row = row.explained("four-times-more-servers-than-places");
    }
    bench.row(row);
    if let Some(theirs) = line.number("timeouts") {
        bench.row(Row::new(
            format!("B = {b}, N = {n}: timeouts a block"),
            table.source.clone(),
            Expected::Value(theirs),
            Measured::spread(&timeouts(found)),
            "",
            Tolerance::Shown,
        ));
    }
}
