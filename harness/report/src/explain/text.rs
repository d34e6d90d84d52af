//! The report for terminals.

use super::ends;
use super::numbers::{share, short};
use crate::table::{BOLD, Colour, DIM};
use narrows::{Duration, Instant};
use narrows_explain::advice::{Advice, advice};
use narrows_explain::rounds::Round;
use narrows_explain::{
    Closed, Confidence, Connection, Explanation, Gap, Opened, Side, Sum, lost_time, main_cause,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

/// Headings that the page has, too.
pub(super) const WHEN: &str = "When: time lost in gaps that began then";
pub(super) const HOSTS: &str = "Hosts that lost the most time";
pub(super) const HELPS: &str = "What would help, as far as the gaps tell";
/// Where what would help can be tried.
pub(super) const TRY_IT: &str =
    "--simulate rebuilt.toml makes that file from the capture and tries each.";

/// Rows of a table at most, unless more are asked for.
const ROWS: usize = 10;

/// The report: what was read, what it comes to, and tables by cause, connection, pair of hosts and
/// time, with the `longest` longest gaps.
pub fn text(explanation: &Explanation, longest: usize, colour: Colour) -> String {
    let mut out = String::new();
    head(&mut out, explanation);
    if let Some(path) = &explanation.path {
        ends::path(&mut out, path, colour);
    }
    for sentence in explanation.ledger.story() {
        let _ = writeln!(out, "{sentence}");
    }
    causes(&mut out, explanation, colour);
    advised(&mut out, explanation, colour);
    connections(&mut out, explanation, colour);
    pairs(&mut out, explanation, colour);
    times(&mut out, explanation, colour);
    gaps(&mut out, explanation, longest, colour);
    out
}

/// A gap in one line, for who watches; `ends` are client and server.
pub fn line(gap: &Gap, ends: Option<[std::net::SocketAddr; 2]>) -> String {
    let who = ends.map_or_else(
        || format!("{} {}", gap.connection, gap.side.name()),
        |[client, server]| match gap.side {
            Side::Client => format!("{client} > {server}"),
            Side::Server => format!("{server} > {client}"),
        },
    );
    format!(
        "{:>10}  {who}: {} ({}): {}\n",
        short(gap.length()),
        gap.cause,
        gap.confidence,
        gap.because()
    )
}

fn head(out: &mut String, explanation: &Explanation) {
    let seen = &explanation.seen;
    for input in &explanation.inputs {
        let _ = writeln!(out, "{}: {}", input.name, input.contents);
    }
    let span = seen
        .first
        .map_or(Duration::ZERO, |first| seen.last.since(first));
    let _ = write!(
        out,
        "{} TCP segments of {} connection{} in {span}",
        seen.segments,
        seen.connections,
        if seen.connections == 1 { "" } else { "s" }
    );
    let asides = [
        (seen.other, "packets of something else"),
        (seen.short, "packets of which too little was kept"),
        (seen.copies, "packets captured more than once"),
        (seen.back_in_time, "packets out of the order of time"),
        (
            seen.given_up,
            "connections given up, for there were too many at once",
        ),
        (
            explanation.forgotten,
            "connections with little lost time left out below",
        ),
        (explanation.ledger.forgotten, "short gaps only summed"),
    ];
    for (count, what) in asides.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(out, "; {count} {what}");
    }
    let unseen: u64 = explanation
        .connections
        .iter()
        .flat_map(|c| &c.counts)
        .map(|c| c.unseen)
        .sum();
    if unseen > 0 {
        let _ = write!(out, "; {unseen} bytes acknowledged that the capture lacks");
    }
    let halves = explanation.connections.iter();
    let one_way = halves
        .filter(|c| c.counts.iter().any(|counts| counts.packets == 0))
        .count();
    if one_way > 0 {
        let _ = write!(out, "; {one_way} connections with packets of one side only");
    }
    out.push_str(".\n\n");
}

fn title(out: &mut String, colour: Colour, text: &str) {
    let _ = writeln!(out, "\n{}", colour.wrap(BOLD, text));
}

fn causes(out: &mut String, explanation: &Explanation, colour: Colour) {
    let ledger = &explanation.ledger;
    if ledger.causes.is_empty() {
        return;
    }
    title(out, colour, "What was waited for");
    let head = format!(
        "{:>8}{:>12}{:>8}{:>12}  cause",
        "gaps", "time", "share", "longest"
    );
    let _ = writeln!(out, "{}", colour.wrap(DIM, &head));
    let all = ledger.sum_of(|_| true).time;
    for (cause, sum) in ledger.by_time() {
        let _ = writeln!(
            out,
            "{:>8}{:>12}{:>6} %{:>12}  {cause}",
            sum.count,
            short(sum.time),
            share(sum.time, all),
            short(sum.longest)
        );
    }
    let sure = |confidence| {
        ledger
            .confidence
            .get(&confidence)
            .map_or(0, |sum: &Sum| sum.count)
    };
    let parts: Vec<_> = Confidence::ALL
        .into_iter()
        .map(|c| format!("{} {c}", sure(c)))
        .collect();
    let _ = writeln!(out, "Of these gaps {}.", parts.join(", "));
}

/// What would help; `narrows explain --simulate` makes the file that is named.
fn advised(out: &mut String, explanation: &Explanation, colour: Colour) {
    let all = advice(&explanation.ledger);
    if all.is_empty() {
        return;
    }
    title(out, colour, HELPS);
    for one in all {
        let _ = writeln!(out, "{}: {}.\n    {}", one.cause, one.what, trial(&one));
    }
    let _ = writeln!(out, "{}", colour.wrap(DIM, TRY_IT));
}

/// The command that tries a change.
pub(super) fn trial(advice: &Advice) -> String {
    let set = advice.set.iter();
    let set = set.map(|(key, value)| format!(" --set {key}={value}"));
    format!("narrows run rebuilt.toml{}", set.collect::<String>())
}

/// Pairs of hosts and their sums, most lost time first.
pub(super) fn slow_pairs(explanation: &Explanation, most: usize) -> Vec<([IpAddr; 2], Sum)> {
    let mut pairs: Vec<_> = explanation
        .pairs
        .iter()
        .map(|(p, sum)| (*p, *sum))
        .collect();
    pairs.sort_by_key(|(pair, sum)| (std::cmp::Reverse(sum.time), *pair));
    pairs.truncate(most);
    pairs
}

fn connections(out: &mut String, explanation: &Explanation, colour: Colour) {
    let slow = explanation.slowest(ROWS);
    if slow.is_empty() {
        return;
    }
    title(out, colour, "Connections that lost the most time");
    let head = format!(
        "{:>6}{:>12}{:>6}{:>12}{:>9}{:>11}  ends, most of it",
        "number", "lost", "gaps", "lasted", "resent", "RTT"
    );
    let _ = writeln!(out, "{}", colour.wrap(DIM, &head));
    for c in slow {
        let (count, lost) = lost_time(c);
        let resent: u64 = c.counts.iter().map(|c| c.retransmitted + c.filled).sum();
        let rtt = c.path_rtt.map_or("?".to_owned(), short);
        let cause = main_cause(c).map_or("", |cause| cause.text());
        let _ = writeln!(
            out,
            "{:>6}{:>12}{count:>6}{:>12}{resent:>9}{rtt:>11}  {} -> {}{}, {cause}",
            c.id,
            short(lost),
            short(c.last.at.since(c.first.at)),
            c.ends[0],
            c.ends[1],
            manner(c)
        );
    }
}

/// What is to be known of how a connection began and ended.
fn manner(c: &Connection) -> &'static str {
    match (c.opened, c.closed) {
        (_, Closed::Reset(Side::Client)) => ", reset by the client",
        (_, Closed::Reset(Side::Server)) => ", reset by the server",
        (_, Closed::Dropped) => ", given up",
        (Opened::Midway, _) => ", begun before",
        _ => "",
    }
}

fn pairs(out: &mut String, explanation: &Explanation, colour: Colour) {
    if explanation.pairs.len() < 2 {
        return;
    }
    title(out, colour, HOSTS);
    for ([a, b], sum) in slow_pairs(explanation, ROWS) {
        let _ = writeln!(
            out,
            "{:>12}{:>6} gaps  {a}, {b}",
            short(sum.time),
            sum.count
        );
    }
}

/// Slices that a column of a terminal has room for.
const SLICES: u64 = 20;

/// Time lost in gaps that began within slices of time, each by when it begins, from the first packet
/// on; slices in which none was lost are left out.
pub(super) fn slices(explanation: &Explanation) -> Vec<(Duration, Duration)> {
    let ledger = &explanation.ledger;
    let lost = ledger
        .times
        .iter()
        .filter(|((_, cause), _)| cause.is_lost_time());
    let mut slices: BTreeMap<u64, Duration> = BTreeMap::new();
    for ((slice, _), sum) in lost {
        *slices.entry(*slice).or_default() += sum.time;
    }
    let (Some((&first, _)), Some((&last, _))) = (slices.first_key_value(), slices.last_key_value())
    else {
        return Vec::new();
    };
    let origin =
        explanation.seen.first.unwrap_or(Instant::ZERO).as_nanos() / ledger.slice().as_nanos();
    let width = (last - first + 1).div_ceil(SLICES).max(1);
    let mut joined: BTreeMap<u64, Duration> = BTreeMap::new();
    for (slice, time) in slices {
        *joined.entry((slice - first) / width).or_default() += time;
    }
    let from = |slice: u64| ledger.slice() * (first + slice * width).saturating_sub(origin);
    joined
        .into_iter()
        .map(|(slice, time)| (from(slice), time))
        .collect()
}

fn times(out: &mut String, explanation: &Explanation, colour: Colour) {
    let slices = slices(explanation);
    if slices.len() < 2 {
        return;
    }
    let most = slices.iter().map(|(_, time)| *time).max();
    title(out, colour, WHEN);
    for (from, time) in slices {
        let width = share(time, most.unwrap_or_default()) as usize;
        let bar = "#".repeat((width * 40).div_ceil(100));
        let _ = writeln!(out, "{:>12}{:>12}  {bar}", short(from), short(time));
    }
}

fn gaps(out: &mut String, explanation: &Explanation, longest: usize, colour: Colour) {
    let mut gaps: Vec<Gap> = explanation.ledger.gaps();
    gaps.retain(|gap| gap.cause.is_lost_time());
    gaps.sort_by_key(|gap| {
        (
            std::cmp::Reverse(gap.length()),
            gap.start.at,
            gap.connection,
        )
    });
    gaps.truncate(longest);
    if gaps.is_empty() {
        return;
    }
    gaps.sort_by_key(|gap| (gap.start.at, gap.connection));
    title(out, colour, "The longest gaps");
    let origin = explanation.seen.first.unwrap_or(Instant::ZERO);
    for gap in gaps {
        let _ = writeln!(
            out,
            "{:>12} {:>11}  {} {}, packets {}-{}: {} ({})",
            short(gap.start.at.since(origin)),
            short(gap.length()),
            gap.connection,
            gap.side.name(),
            gap.start.packet,
            gap.end.packet,
            gap.cause,
            gap.confidence
        );
        let _ = writeln!(
            out,
            "{}",
            colour.wrap(DIM, &format!("{:26}{}", "", gap.because()))
        );
    }
}

/// Rounds of each direction of a connection, and the modes of its RTT.
pub fn rounds(connection: &Connection, colour: Colour) -> String {
    let mut out = String::new();
    for side in Side::BOTH {
        let k = side as usize;
        let rounds: &[Round] = &connection.rounds[k];
        if rounds.is_empty() {
            continue;
        }
        title(
            &mut out,
            colour,
            &format!(
                "Connection {}, rounds of the {} {}",
                connection.id,
                side.name(),
                connection.ends[k]
            ),
        );
        let modes = &connection.modes[k];
        if !modes.is_empty() {
            let all: u64 = modes.iter().map(|mode| mode.samples).sum();
            let modes: Vec<_> = modes
                .iter()
                .map(|mode| format!("{} ({} %)", short(mode.at), mode.samples * 100 / all.max(1)))
                .collect();
            let _ = writeln!(out, "RTT is most often {}.", modes.join(" or "));
        }
        let head = format!(
            "{:>7}{:>12}{:>11}{:>6}{:>8}{:>8}{:>14}{:>10}",
            "round", "time", "RTT", "out", "resent", "marked", "rate", "cwnd"
        );
        let _ = writeln!(out, "{}", colour.wrap(DIM, &head));
        for round in rounds {
            let rate = round.rate().map_or("-".to_owned(), |rate| rate.to_string());
            let _ = writeln!(
                out,
                "{:>7}{:>12}{:>11}{:>6}{:>8}{:>8}{rate:>14}{:>10}",
                round.number,
                short(round.start.since(connection.first.at)),
                short(round.rtt),
                round.out,
                round.resent,
                round.marked,
                round.cwnd.get()
            );
        }
    }
    out
}
