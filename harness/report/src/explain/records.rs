//! The same for programs: JSON, CSV, and events.

use narrows::{Duration, Instant};
use narrows_explain::{Connection, Explanation, Gap, Side, Sum, lost_time, main_cause};
use serde::Serialize;
use std::fmt::Write;

#[derive(Serialize)]
struct Record<'a> {
    format: &'static str,
    narrows: String,
    inputs: Vec<Input<'a>>,
    packets: u64,
    segments: u64,
    connections: u64,
    lost_ns: u64,
    story: Vec<String>,
    causes: Vec<CauseRecord>,
    /// Of two captures that were aligned.
    #[serde(skip_serializing_if = "Option::is_none")]
    between: Option<super::ends::PathRecord>,
    gaps_left_out: u64,
    gaps: Vec<GapRecord>,
    connections_left_out: u64,
    by_connection: Vec<ConnectionRecord>,
}

#[derive(Serialize)]
struct Input<'a> {
    file: &'a str,
    packets: u64,
    bytes: u64,
    interfaces: u32,
    said: String,
}

#[derive(Serialize)]
struct CauseRecord {
    cause: &'static str,
    text: &'static str,
    tapo: String,
    lost_time: bool,
    gaps: u64,
    total_ns: u64,
    longest_ns: u64,
}

#[derive(Serialize)]
struct GapRecord {
    connection: u64,
    side: &'static str,
    start_ns: u64,
    length_ns: u64,
    packets: [u64; 2],
    cause: &'static str,
    confidence: &'static str,
    because: String,
    /// Of two captures that were aligned: what both know of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    between: Option<super::ends::BetweenRecord>,
}

#[derive(Serialize)]
struct ConnectionRecord {
    id: u64,
    client: String,
    server: String,
    start_ns: u64,
    lasted_ns: u64,
    gaps: u64,
    lost_ns: u64,
    cause: Option<&'static str>,
    path_rtt_ns: Option<u64>,
    sides: [SideRecord; 2],
}

#[derive(Serialize)]
struct SideRecord {
    vantage: &'static str,
    packets: u64,
    bytes: u64,
    retransmitted: u64,
    filled: u64,
    needless: u64,
    duplicate_acks: u64,
    marked: u64,
    unseen_bytes: u64,
    rtt_min_ns: Option<u64>,
    rtt_smoothed_ns: Option<u64>,
    rtt_modes_ns: Vec<u64>,
}

/// What the records of this version are called.
const FORMAT: &str = "narrows-explain-1";

/// All of it as JSON. Times are nanoseconds since the epoch of the capture.
pub fn json(explanation: &Explanation) -> String {
    let seen = &explanation.seen;
    let ledger = &explanation.ledger;
    let record = Record {
        format: FORMAT,
        narrows: narrows_experiment::version::text().to_string(),
        inputs: explanation
            .inputs
            .iter()
            .map(|input| Input {
                file: &input.name,
                packets: input.contents.packets,
                bytes: input.contents.bytes,
                interfaces: input.contents.interfaces,
                said: input.contents.to_string(),
            })
            .collect(),
        packets: seen.packets,
        segments: seen.segments,
        connections: seen.connections,
        lost_ns: ledger.lost().time.as_nanos(),
        story: ledger.story(),
        causes: ledger
            .by_time()
            .into_iter()
            .map(|(cause, sum): (_, Sum)| CauseRecord {
                cause: cause.name(),
                text: cause.text(),
                tapo: cause.tapo(),
                lost_time: cause.is_lost_time(),
                gaps: sum.count,
                total_ns: sum.time.as_nanos(),
                longest_ns: sum.longest.as_nanos(),
            })
            .collect(),
        between: explanation.path.as_ref().map(super::ends::record),
        gaps_left_out: ledger.forgotten,
        gaps: ledger.gaps().iter().map(gap_record).collect(),
        connections_left_out: explanation.forgotten,
        by_connection: explanation
            .connections
            .iter()
            .map(connection_record)
            .collect(),
    };
    let mut text = serde_json::to_string_pretty(&record).unwrap_or_default();
    text.push('\n');
    text
}

fn gap_record(gap: &Gap) -> GapRecord {
    GapRecord {
        connection: gap.connection,
        side: gap.side.name(),
        start_ns: gap.start.at.as_nanos(),
        length_ns: gap.length().as_nanos(),
        packets: [gap.start.packet, gap.end.packet],
        cause: gap.cause.name(),
        confidence: gap.confidence.name(),
        because: gap.because(),
        between: gap.evidence.between.map(Into::into),
    }
}

fn connection_record(c: &Connection) -> ConnectionRecord {
    let (gaps, lost) = lost_time(c);
    let side = |k: usize| {
        let counts = c.counts[k];
        SideRecord {
            vantage: c.vantage[k].name(),
            packets: counts.packets,
            bytes: counts.bytes,
            retransmitted: counts.retransmitted,
            filled: counts.filled,
            needless: counts.needless,
            duplicate_acks: counts.duplicate_acks,
            marked: counts.marked,
            unseen_bytes: counts.unseen,
            rtt_min_ns: c.rtt[k].min().map(Duration::as_nanos),
            rtt_smoothed_ns: c.rtt[k].smoothed().map(Duration::as_nanos),
            rtt_modes_ns: c.modes[k].iter().map(|mode| mode.at.as_nanos()).collect(),
        }
    };
    ConnectionRecord {
        id: c.id,
        client: c.ends[0].to_string(),
        server: c.ends[1].to_string(),
        start_ns: c.first.at.as_nanos(),
        lasted_ns: c.last.at.since(c.first.at).as_nanos(),
        gaps,
        lost_ns: lost.as_nanos(),
        cause: main_cause(c).map(|cause| cause.name()),
        path_rtt_ns: c.path_rtt.map(Duration::as_nanos),
        sides: [side(0), side(1)],
    }
}

/// The gaps, a line each.
pub fn csv(explanation: &Explanation) -> String {
    let mut out = String::from(
        "connection,side,start_ns,length_ns,first_packet,last_packet,cause,confidence,floor_ns,flight_bytes,flight_packets,rtt_ns\n",
    );
    for gap in explanation.ledger.gaps() {
        let e = &gap.evidence;
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{},{}",
            gap.connection,
            gap.side.name(),
            gap.start.at.as_nanos(),
            gap.length().as_nanos(),
            gap.start.packet,
            gap.end.packet,
            gap.cause.name(),
            gap.confidence.name(),
            optional(e.floor),
            e.flight.get(),
            e.packets,
            optional(e.rtt)
        );
    }
    out
}

/// The connections, a line each.
pub fn connections_csv(explanation: &Explanation) -> String {
    let mut out =
        String::from("connection,client,server,start_ns,lasted_ns,gaps,lost_ns,cause,path_rtt_ns");
    for side in Side::BOTH {
        for column in [
            "packets",
            "bytes",
            "retransmitted",
            "filled",
            "needless",
            "duplicate_acks",
            "marked",
        ] {
            let _ = write!(out, ",{}_{column}", side.name());
        }
    }
    out.push('\n');
    for c in &explanation.connections {
        let (gaps, lost) = lost_time(c);
        let _ = write!(
            out,
            "{},{},{},{},{},{gaps},{},{},{}",
            c.id,
            c.ends[0],
            c.ends[1],
            c.first.at.as_nanos(),
            c.last.at.since(c.first.at).as_nanos(),
            lost.as_nanos(),
            main_cause(c).map_or("", |cause| cause.name()),
            optional(c.path_rtt)
        );
        for n in &c.counts {
            let _ = write!(
                out,
                ",{},{},{},{},{},{},{}",
                n.packets,
                n.bytes,
                n.retransmitted,
                n.filled,
                n.needless,
                n.duplicate_acks,
                n.marked
            );
        }
        out.push('\n');
    }
    out
}

/// The rounds of connections that have them, a line each.
pub fn rounds_csv(connections: &[Connection]) -> String {
    let mut out = String::from(
        "connection,side,round,start_ns,rtt_ns,out,resent,marked,acked_bytes,cwnd_bytes,rate_bps\n",
    );
    for c in connections {
        for side in Side::BOTH {
            for r in &c.rounds[side as usize] {
                let rate = r
                    .rate()
                    .map_or(String::new(), |rate| rate.bits_per_sec().to_string());
                let _ = writeln!(
                    out,
                    "{},{},{},{},{},{},{},{},{},{},{rate}",
                    c.id,
                    side.name(),
                    r.number,
                    r.start.as_nanos(),
                    r.rtt.as_nanos(),
                    r.out,
                    r.resent,
                    r.marked,
                    r.acked.get(),
                    r.cwnd.get()
                );
            }
        }
    }
    out
}

/// What was drawn and found as events, a line of JSON each in the order of time, with the fields of
/// qlog's events: `time` in milliseconds since the first, `name`, `data`; of `count` packets that are
/// one point, the first's number and time, and the last's time in `until`.
pub fn events(connections: &[Connection], gaps: &[Gap], origin: Instant) -> String {
    let mut lines: Vec<(Instant, u64, String)> = Vec::new();
    let time = |at: Instant| at.since(origin).as_nanos() as f64 / 1e6;
    for c in connections {
        for p in &c.points {
            let line = format!(
                "{{\"time\":{},\"name\":\"tcp:{}\",\"group_id\":{},\"data\":{{\"packet\":{},\"count\":{},\"until\":{},\"sender\":\"{}\",\"from\":{},\"to\":{}}}}}",
                time(p.at),
                p.kind.name(),
                c.id,
                p.packet,
                p.count,
                time(p.until),
                p.side.name(),
                p.from,
                p.to
            );
            lines.push((p.at, p.packet, line));
        }
    }
    for gap in gaps
        .iter()
        .filter(|gap| connections.iter().any(|c| c.id == gap.connection))
    {
        let line = format!(
            "{{\"time\":{},\"name\":\"explain:gap\",\"group_id\":{},\"data\":{{\"sender\":\"{}\",\"length\":{},\"cause\":\"{}\",\"confidence\":\"{}\",\"packets\":[{},{}]}}}}",
            time(gap.start.at),
            gap.connection,
            gap.side.name(),
            gap.length().as_nanos() as f64 / 1e6,
            gap.cause.name(),
            gap.confidence.name(),
            gap.start.packet,
            gap.end.packet
        );
        lines.push((gap.start.at, gap.start.packet, line));
    }
    lines.sort_by_key(|(at, packet, _)| (*at, *packet));
    let mut out = String::new();
    for (_, _, line) in lines {
        out.push_str(&line);
        out.push('\n');
    }
    out
}

fn optional(time: Option<Duration>) -> String {
    time.map_or(String::new(), |time| time.as_nanos().to_string())
}
