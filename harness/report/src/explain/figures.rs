//! Figures: time and sequence with the gaps shaded and named, round-trip times, bytes in flight, and
//! all connections over time.

use super::numbers::{seconds, since};
use crate::chart::{Axis, Band, Chart, Draw, Scale, Series};
use narrows::Instant;
use narrows_explain::two::Path;
use narrows_explain::{Cause, Connection, Explanation, Gap, PointKind, Side};

/// Gaps that are named in a figure; shorter ones are only shaded.
const NAMED: usize = 6;

fn time_axis() -> Axis {
    Axis {
        label: "Time (s)".to_owned(),
        ..Axis::default()
    }
}

/// Gaps of a connection as bands; of either side, since the other waits, too.
fn bands(connection: &Connection, gaps: &[Gap]) -> Vec<Band> {
    let mut own: Vec<&Gap> = gaps
        .iter()
        .filter(|gap| gap.connection == connection.id)
        .collect();
    own.sort_by_key(|gap| std::cmp::Reverse(gap.length()));
    let mut causes: Vec<Cause> = own.iter().map(|gap| gap.cause).collect();
    causes.sort_unstable();
    causes.dedup();
    let bands = own.iter().enumerate().map(|(i, gap)| {
        let named = i < NAMED && gap.cause.is_lost_time();
        Band {
            from: since(connection.first.at, gap.start.at),
            to: since(connection.first.at, gap.end.at),
            label: if named {
                gap.cause.text().to_owned()
            } else {
                String::new()
            },
            group: causes
                .iter()
                .position(|cause| *cause == gap.cause)
                .unwrap_or(0),
        }
    });
    bands.collect()
}

/// Whose stream has the most in it.
pub(super) fn busier(connection: &Connection) -> Side {
    let [client, server] = &connection.counts;
    if client.bytes > server.bytes {
        Side::Client
    } else {
        Side::Server
    }
}

/// The time-sequence graph of the direction with more bytes.
pub fn sequence(connection: &Connection, gaps: &[Gap]) -> Chart {
    let side = busier(connection);
    let of = |kind: PointKind| -> Vec<(f64, f64)> {
        let points = connection
            .points
            .iter()
            .filter(|p| p.side == side && p.kind == kind);
        points
            .map(|p| (since(connection.first.at, p.at), p.to as f64))
            .collect()
    };
    let series = [
        ("window", PointKind::Window, Draw::Steps, 4),
        ("acknowledged", PointKind::Acked, Draw::Steps, 2),
        ("sent", PointKind::Sent, Draw::Dots, 0),
        ("SACKed", PointKind::Sacked, Draw::Dots, 3),
        ("sent again", PointKind::Resent, Draw::Markers, 1),
    ];
    let series = series.map(|(name, kind, draw, group)| Series {
        name: name.to_owned(),
        draw,
        group,
        points: of(kind),
        ..Series::default()
    });
    let most = connection
        .points
        .iter()
        .filter(|p| p.side == side && p.kind != PointKind::Window);
    let most = most.map(|p| p.to).max().unwrap_or(1).max(1) as f64;
    Chart {
        title: format!("Time and sequence of connection {}", connection.id),
        x: time_axis(),
        y: Axis {
            label: "Sequence (B)".to_owned(),
            // A window of megabytes would leave nothing to see of the rest.
            range: Some((0.0, most * 1.15)),
            ..Axis::default()
        },
        series: series
            .into_iter()
            .filter(|s| !s.points.is_empty())
            .collect(),
        bands: bands(connection, gaps),
        ..Chart::default()
    }
}

/// Round-trip times of the direction with more bytes.
pub fn round_trips(connection: &Connection, gaps: &[Gap]) -> Chart {
    let rounds = &connection.rounds[busier(connection) as usize];
    let points = rounds
        .iter()
        .map(|r| (since(connection.first.at, r.start), seconds(r.rtt) * 1e3));
    Chart {
        title: format!("Round-trip times of connection {}", connection.id),
        x: time_axis(),
        y: Axis {
            label: "RTT (ms)".to_owned(),
            scale: Scale::Log10,
            ..Axis::default()
        },
        series: vec![Series {
            name: "round trips".to_owned(),
            draw: Draw::Dots,
            points: points.collect(),
            ..Series::default()
        }],
        bands: bands(connection, gaps),
        ..Chart::default()
    }
}

/// Bytes in flight of the direction with more bytes, and the window offered.
pub fn flight(connection: &Connection, gaps: &[Gap]) -> Chart {
    let side = busier(connection);
    let (mut una, mut nxt) = (0, 0);
    let mut points = Vec::new();
    for p in connection.points.iter().filter(|p| p.side == side) {
        match p.kind {
            PointKind::Sent => nxt = nxt.max(p.to),
            PointKind::Acked => una = una.max(p.to),
            _ => continue,
        }
        points.push((
            since(connection.first.at, p.at),
            nxt.saturating_sub(una) as f64,
        ));
    }
    Chart {
        title: format!("Bytes in flight of connection {}", connection.id),
        x: time_axis(),
        y: Axis {
            label: "In flight (B)".to_owned(),
            ..Axis::default()
        },
        series: vec![Series {
            name: "in flight".to_owned(),
            draw: Draw::Steps,
            points,
            ..Series::default()
        }],
        bands: bands(connection, gaps),
        ..Chart::default()
    }
}

/// Connections that a timeline has room for.
const ROWS: usize = 40;

/// All connections over time, with their gaps: those that lost the most time, then those with the most
/// bytes, in the order in which they began.
pub fn timeline(explanation: &Explanation) -> Chart {
    let mut rows = explanation.noteworthy(ROWS);
    rows.sort_by_key(|c| (c.first.at, c.id));
    let origin = explanation.seen.first.unwrap_or(Instant::ZERO);
    let gaps = explanation.ledger.gaps();
    let line = |name: &str, group: usize, spans: Vec<(f64, f64, f64)>| Series {
        name: name.to_owned(),
        draw: Draw::Line,
        group,
        // Something that cannot be shown breaks the line.
        points: spans
            .into_iter()
            .flat_map(|(row, from, to)| [(from, row), (to, row), (f64::NAN, row)])
            .collect(),
        ..Series::default()
    };
    let row_of = |id: u64| {
        rows.iter()
            .position(|c| c.id == id)
            .map(|row| row as f64 + 1.0)
    };
    let alive = rows.iter().enumerate().map(|(row, c)| {
        (
            row as f64 + 0.75,
            since(origin, c.first.at),
            since(origin, c.last.at),
        )
    });
    let mut series = vec![line("alive", 0, alive.collect())];
    let causes = explanation.ledger.by_time();
    for (n, (cause, _)) in causes
        .iter()
        .filter(|(cause, _)| cause.is_lost_time())
        .enumerate()
    {
        let own = gaps.iter().filter(|gap| gap.cause == *cause);
        let spans = own.filter_map(|gap| {
            Some((
                row_of(gap.connection)?,
                since(origin, gap.start.at),
                since(origin, gap.end.at),
            ))
        });
        series.push(line(cause.text(), n + 1, spans.collect()));
    }
    Chart {
        title: "Connections over time, and their gaps".to_owned(),
        x: time_axis(),
        y: Axis {
            label: "Connection".to_owned(),
            range: Some((0.0, rows.len() as f64 + 1.0)),
            ..Axis::default()
        },
        series: series
            .into_iter()
            .filter(|s| !s.points.is_empty())
            .collect(),
        ..Chart::default()
    }
}

/// Directions whose delays are drawn, and slices of time of each.
const WAYS: usize = 4;
const SLICES: usize = 500;

/// One-way delays between two captures over time, and what was lost, of the directions with the most
/// packets: of each slice of time the least and the greatest.
pub fn delays(path: &Path) -> Chart {
    let mut ways: Vec<_> = path.ways.iter().enumerate().collect();
    ways.sort_by_key(|(n, way)| (std::cmp::Reverse(way.sent + way.acks[0]), *n));
    ways.truncate(WAYS);
    ways.sort_by_key(|(n, _)| *n);
    let courses: Vec<_> = ways.iter().map(|(n, _)| path.course(*n, SLICES)).collect();
    let slices = || courses.iter().flatten();
    let origin = slices().map(|slice| slice.at).min();
    let origin = origin.unwrap_or(Instant::ZERO);
    let all = slices().filter_map(|slice| slice.delays);
    let longest = all.map(|[_, greatest]| greatest).max().unwrap_or_default();
    let mut series = Vec::new();
    for (group, ((_, way), course)) in ways.iter().zip(&courses).enumerate() {
        let name = format!("{} to {}", way.ends[0], way.ends[1]);
        let delays = course.iter().flat_map(|slice| {
            let both = slice.delays.into_iter().flatten();
            both.map(|delay| (since(origin, slice.at), seconds(delay) * 1e3))
        });
        let lost = course.iter().filter(|slice| slice.lost > 0);
        let lost = lost.map(|slice| (since(origin, slice.at), seconds(longest) * 1.5e3));
        for (name, draw, points) in [
            (format!("{name}, lost"), Draw::Markers, lost.collect()),
            (name, Draw::Dots, delays.collect::<Vec<_>>()),
        ] {
            series.push(Series {
                name,
                draw,
                group,
                points,
                ..Series::default()
            });
        }
    }
    series.retain(|one| !one.points.is_empty());
    Chart {
        title: "One-way delays between the captures".to_owned(),
        x: time_axis(),
        y: Axis {
            label: "One way (ms)".to_owned(),
            scale: Scale::Log10,
            ..Axis::default()
        },
        series,
        ..Chart::default()
    }
}
