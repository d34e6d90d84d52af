//! Two captures that were aligned: the clocks, and what became of packets between them.

use super::figures;
use super::numbers::short;
use crate::chart::{Theme, escape};
use crate::table::{BOLD, Colour, DIM};
use narrows::Duration;
use narrows_explain::two::{Between, OneWay, Path};
use serde::Serialize;
use std::cmp::Reverse;
use std::fmt::Write;

/// Rows of the table at most.
const ROWS: usize = 10;

/// How the clocks stand to each other, in sentences.
pub(super) fn clocks(path: &Path) -> Vec<String> {
    let clock = &path.clock;
    let ahead = Duration::from_nanos(clock.offset.unsigned_abs());
    let word = if clock.offset < 0 {
        "behind"
    } else {
        "ahead of"
    };
    let drift = clock.drift as f64 / 1_000.0;
    let mut all = vec![format!(
        "Two captures of the same packets, aligned: the second clock is {ahead} {word} the first and gains {drift} ppm, from {} and {} packets; off by {} at most, if clocks run evenly. The least one-way delay is {}, if it is the same both ways. Times are the first clock's.",
        clock.pairs[0], clock.pairs[1], clock.bound, clock.delay
    )];
    for set in &path.sets {
        let by = Duration::from_nanos(set.by.unsigned_abs());
        let way = if set.by < 0 { "back" } else { "forth" };
        let which = match set.either {
            true => "One of the clocks was set; taken to be the second, it".to_owned(),
            false => format!("The clock of capture {}", set.capture + 1),
        };
        all.push(format!(
            "{which} was set {way} by {by} before packet {}, which is allowed for.",
            set.packet
        ));
    }
    if path.unlogged > 0 {
        all.push(format!(
            "{} packets were too many to be followed: gaps among them are explained from one capture.",
            path.unlogged
        ));
    }
    all
}

pub(super) const BETWEEN: &str = "Between the captures";

/// Directions by their numbers, those that lost the most first.
pub(super) fn ways(path: &Path) -> Vec<(usize, &OneWay)> {
    let mut ways: Vec<_> = path.ways.iter().enumerate().collect();
    ways.sort_by_key(|(_, way)| (Reverse(way.lost + way.acks[1]), Reverse(way.sent)));
    ways
}

/// How the clocks stand to each other, and a table of directions.
pub(super) fn path(out: &mut String, path: &Path, colour: Colour) {
    for sentence in clocks(path) {
        let _ = writeln!(out, "{sentence}");
    }
    let title = colour.wrap(BOLD, BETWEEN);
    let head = format!(
        "{:>9}{:>8}{:>9}{:>8}{:>11}{:>11}{:>11}{:>11}  from, to",
        "packets", "lost", "ACKs", "lost", "least", "median", "p99", "longest"
    );
    let _ = writeln!(out, "\n{title}\n{}", colour.wrap(DIM, &head));
    let ways = ways(path);
    for (_, way) in ways.iter().take(ROWS) {
        let _ = write!(
            out,
            "{:>9}{:>8}{:>9}{:>8}",
            way.sent, way.lost, way.acks[0], way.acks[1]
        );
        for n in 0..4 {
            let _ = write!(out, "{:>11}", delay(way, n));
        }
        let _ = writeln!(out, "  {} > {}", way.ends[0], way.ends[1]);
    }
    if ways.len() > ROWS {
        let _ = writeln!(out, "{} more directions", ways.len() - ROWS);
    }
    out.push('\n');
}

/// One of its delays: least, median, 99th percentile, longest.
fn delay(way: &OneWay, n: usize) -> String {
    let delay = way.delays.map(|delays| short(delays[n]));
    delay.unwrap_or_else(|| "-".to_owned())
}

/// Directions in a page.
const PAGE_ROWS: usize = 100;
/// Numbers of lost packets in a row of it.
const NUMBERS: usize = 12;

/// The same for a page, with the packets that were lost and what the others took.
pub(super) fn section(o: &mut String, path: &Path) {
    let _ = writeln!(o, "<h2>{BETWEEN}</h2>");
    for sentence in clocks(path) {
        let _ = writeln!(o, "<p>{}</p>", escape(&sentence));
    }
    let _ = writeln!(
        o,
        "<figure class=\"paper\">{}</figure>",
        figures::delays(path).svg(Theme::Page)
    );
    o.push_str("<div class=\"scroll\"><table class=\"numbers\"><thead><tr><th>packets</th><th>lost</th><th>ACKs</th><th>lost</th><th>least</th><th>median</th><th>p99</th><th>longest</th><th class=\"word\">from, to</th><th class=\"word\">lost were</th></tr></thead><tbody>\n");
    let ways = ways(path);
    for (n, way) in ways.iter().take(PAGE_ROWS) {
        let _ = write!(
            o,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
            way.sent, way.lost, way.acks[0], way.acks[1]
        );
        for n in 0..4 {
            let _ = write!(o, "<td>{}</td>", delay(way, n));
        }
        let lost: Vec<String> = path.lost(*n).take(NUMBERS).map(|n| n.to_string()).collect();
        let all = way.lost + way.acks[1];
        let more = match all.saturating_sub(lost.len() as u64) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let of = match lost.is_empty() {
            true => String::new(),
            false => format!("{}{more} of capture {}", lost.join(", "), way.upstream + 1),
        };
        let _ = writeln!(
            o,
            "<td class=\"word\">{}, {}</td><td class=\"word\">{of}</td></tr>",
            way.ends[0], way.ends[1]
        );
    }
    o.push_str("</tbody></table></div>\n");
    if ways.len() > PAGE_ROWS {
        let _ = writeln!(
            o,
            "<p class=\"note\">{} more directions</p>",
            ways.len() - PAGE_ROWS
        );
    }
}

#[derive(Serialize)]
pub(super) struct PathRecord {
    offset_ns: i64,
    drift_ppb: i64,
    bound_ns: u64,
    least_delay_ns: u64,
    pairs: [u64; 2],
    clocks_set: Vec<SetRecord>,
    directions: Vec<WayRecord>,
}

/// A clock was set.
#[derive(Serialize)]
struct SetRecord {
    /// From 1.
    capture: usize,
    packet: u64,
    by_ns: i64,
    /// It may have been the other clock, by as much the other way.
    either: bool,
}

#[derive(Serialize)]
struct WayRecord {
    from: String,
    to: String,
    /// The capture that packets pass first, from 1.
    first_at: usize,
    packets: u64,
    lost: u64,
    acks: u64,
    acks_lost: u64,
    /// Of both the first, as packets of the capture that they passed first.
    lost_packets: Vec<u64>,
    /// Least, median, 99th percentile, longest.
    delays_ns: Option<[u64; 4]>,
}

/// Numbers of lost packets of a direction in a record.
const NUMBERED: usize = 10_000;

/// The same for programs.
pub(super) fn record(path: &Path) -> PathRecord {
    let clock = &path.clock;
    let way = |(n, way): (usize, &OneWay)| WayRecord {
        from: way.ends[0].to_string(),
        to: way.ends[1].to_string(),
        first_at: way.upstream + 1,
        packets: way.sent,
        lost: way.lost,
        acks: way.acks[0],
        acks_lost: way.acks[1],
        lost_packets: path.lost(n).take(NUMBERED).collect(),
        delays_ns: way.delays.map(|delays| delays.map(Duration::as_nanos)),
    };
    PathRecord {
        offset_ns: clock.offset,
        drift_ppb: clock.drift,
        bound_ns: clock.bound.as_nanos(),
        least_delay_ns: clock.delay.as_nanos(),
        pairs: clock.pairs,
        clocks_set: path
            .sets
            .iter()
            .map(|set| SetRecord {
                capture: set.capture + 1,
                packet: set.packet,
                by_ns: set.by,
                either: set.either,
            })
            .collect(),
        directions: path.ways.iter().enumerate().map(way).collect(),
    }
}

/// What both captures know of a gap.
#[derive(Serialize)]
pub(super) struct BetweenRecord {
    /// The capture that has its packets, from 1.
    capture: u8,
    lost: u16,
    arrived: u16,
    acks_lost: u16,
    put_off_bytes: u32,
    /// There, beyond the second place, and back.
    ways_ns: Option<[u64; 3]>,
}

impl From<Between> for BetweenRecord {
    fn from(between: Between) -> Self {
        Self {
            capture: between.capture + 1,
            lost: between.lost,
            arrived: between.arrived,
            acks_lost: between.acks_lost,
            put_off_bytes: between.put_off,
            ways_ns: between.ways.map(|ways| ways.map(Duration::as_nanos)),
        }
    }
}
