//! Two captures that were aligned: the clocks, and what became of packets between them.

use crate::table::{BOLD, Colour, DIM};
use narrows::Duration;
use narrows_explain::two::{OneWay, Path};
use serde::Serialize;
use std::cmp::Reverse;
use std::fmt::Write;

/// Rows of the table at most.
const ROWS: usize = 10;

/// How the clocks stand to each other, and a table of directions.
pub(super) fn path(out: &mut String, path: &Path, colour: Colour) {
    let clock = &path.clock;
    let ahead = Duration::from_nanos(clock.offset.unsigned_abs());
    let word = if clock.offset < 0 {
        "behind"
    } else {
        "ahead of"
    };
    let drift = clock.drift as f64 / 1_000.0;
    let _ = writeln!(
        out,
        "Two captures of the same packets, aligned: the second clock is {ahead} {word} the first and gains {drift} ppm, from {} and {} packets; off by {} at most, if clocks run evenly. The least one-way delay is {}, if it is the same both ways. Times are the first clock's.",
        clock.pairs[0], clock.pairs[1], clock.bound, clock.delay
    );
    if path.unlogged > 0 {
        let _ = writeln!(
            out,
            "{} packets were too many to be followed: gaps among them are explained from one capture.",
            path.unlogged
        );
    }
    let title = colour.wrap(BOLD, "Between the captures");
    let head = format!(
        "{:>9}{:>8}{:>9}{:>8}{:>11}{:>11}{:>11}{:>11}  from, to",
        "packets", "lost", "ACKs", "lost", "least", "median", "p99", "longest"
    );
    let _ = writeln!(out, "\n{title}\n{}", colour.wrap(DIM, &head));
    let mut ways: Vec<&OneWay> = path.ways.iter().collect();
    ways.sort_by_key(|way| (Reverse(way.lost + way.acks[1]), Reverse(way.sent)));
    for way in ways.iter().take(ROWS) {
        let _ = write!(
            out,
            "{:>9}{:>8}{:>9}{:>8}",
            way.sent, way.lost, way.acks[0], way.acks[1]
        );
        for n in 0..4 {
            let delay = way.delays.map(|delays| super::text::short(delays[n]));
            let _ = write!(out, "{:>11}", delay.unwrap_or_else(|| "-".to_owned()));
        }
        let _ = writeln!(out, "  {} > {}", way.ends[0], way.ends[1]);
    }
    if ways.len() > ROWS {
        let _ = writeln!(out, "{} more directions", ways.len() - ROWS);
    }
    out.push('\n');
}

#[derive(Serialize)]
pub(super) struct PathRecord {
    offset_ns: i64,
    drift_ppb: i64,
    bound_ns: u64,
    least_delay_ns: u64,
    pairs: [u64; 2],
    directions: Vec<WayRecord>,
}

#[derive(Serialize)]
struct WayRecord {
    from: String,
    to: String,
    /// The capture that packets pass first, from 1.
    first_at: Option<usize>,
    packets: u64,
    lost: u64,
    acks: u64,
    acks_lost: u64,
    /// Least, median, 99th percentile, longest.
    delays_ns: Option<[u64; 4]>,
}

/// The same for programs.
pub(super) fn record(path: &Path) -> PathRecord {
    let clock = &path.clock;
    let way = |way: &OneWay| WayRecord {
        from: way.ends[0].to_string(),
        to: way.ends[1].to_string(),
        first_at: path.upstream(way.ends).map(|capture| capture + 1),
        packets: way.sent,
        lost: way.lost,
        acks: way.acks[0],
        acks_lost: way.acks[1],
        delays_ns: way.delays.map(|delays| delays.map(Duration::as_nanos)),
    };
    PathRecord {
        offset_ns: clock.offset,
        drift_ppb: clock.drift,
        bound_ns: clock.bound.as_nanos(),
        least_delay_ns: clock.delay.as_nanos(),
        pairs: clock.pairs,
        directions: path.ways.iter().map(way).collect(),
    }
}
