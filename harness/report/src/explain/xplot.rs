//! A time-sequence graph for xplot, with tcptrace's colours, and the gaps beside it.

use super::numbers::seconds;
use narrows::Instant;
use narrows_explain::{Connection, Gap, PointKind, Side};
use std::fmt::Write;

/// The time-sequence graph of one direction.
pub fn xplot(connection: &Connection, side: Side, gaps: &[Gap]) -> String {
    let time = |at: Instant| format!("{:.9}", seconds(at.since(Instant::ZERO)));
    let mut out = String::from("timeval unsigned\n");
    let [from, to] = [side, side.other()].map(|side| connection.ends[side as usize]);
    let _ = writeln!(out, "title\n{from}_==>_{to} (time sequence graph)");
    out.push_str("xlabel\ntime\nylabel\nsequence offset\n");
    let mut acked: Option<(String, u64)> = None;
    for point in connection.points.iter().filter(|point| point.side == side) {
        let (at, until) = (time(point.at), time(point.until));
        match point.kind {
            PointKind::Sent => {
                let _ = writeln!(
                    out,
                    "white\ndarrow {at} {}\nuarrow {until} {}\nline {at} {} {until} {}",
                    point.from, point.to, point.from, point.to
                );
            }
            PointKind::Resent => {
                let _ = writeln!(
                    out,
                    "red\nline {at} {} {until} {}\natext {until} {}\nR",
                    point.from, point.to, point.to
                );
            }
            PointKind::Acked => {
                if let Some((before, level)) = acked.replace((at.clone(), point.to)) {
                    let _ = writeln!(
                        out,
                        "green\nline {before} {level} {at} {level}\nline {at} {level} {at} {}",
                        point.to
                    );
                }
            }
            PointKind::Sacked => {
                let _ = writeln!(out, "purple\nline {at} {} {until} {}", point.from, point.to);
            }
            PointKind::Window => {
                let _ = writeln!(out, "yellow\ndot {at} {}", point.to);
            }
        }
    }
    for gap in gaps
        .iter()
        .filter(|gap| gap.connection == connection.id && gap.side == side)
    {
        let level = acked.as_ref().map_or(0, |(_, level)| *level) / 2;
        let (start, end) = (time(gap.start.at), time(gap.end.at));
        let _ = writeln!(
            out,
            "orange\nline {start} {level} {end} {level}\natext {start} {level}\n{}",
            gap.cause
        );
    }
    out.push_str("go\n");
    out
}
