//! `busyport`: the way to one node is slow, and all others wait for each other.

mod figures;
#[cfg(target_os = "linux")]
mod live;

use crate::grid::Column;
use crate::judge::{Finding, median};
use crate::played::{Answer, NoAnswer, Played, Scenery, missing};
use crate::scene::Scene;
use crate::story::{Figure, Live, Next, Row, Story, Table};
use narrows_experiment::net::packet::HostId;
use narrows_experiment::run::RunOutcome;
use narrows_experiment::stats::quantile;
use narrows_experiment::traffic::{AppSpan, Process, SpanKind};
use narrows_report::points::number;
use std::collections::BTreeSet;

/// The story.
pub const STORY: Story = Story {
    name: "busyport",
    about: "A full port suspends a writer of an Erlang node, and peers on idle links wait with it.",
    scenes: &[
        Scene::new("limits", "busy-port"),
        Scene::new("mesh", "busy-port")
            .with(&[("limit", "128KiB")])
            .keeping_outcomes(),
        Scene::new("refill", "two-senders")
            .with(&[
                ("host.tcp.congestion", "cubic"),
                ("host.tcp.rto", "linux"),
                ("host.tcp.loss_detection", "rack-notlp"),
                ("network.queue.limit", "64KiB"),
                ("change.0.what", "set"),
                ("change.0.on", "s0->h0"),
                ("change.0.link.loss", "100%"),
                ("change.0.at", "500ms"),
                ("change.0.for", "20ms"),
                ("probe.rate.kind", "rate"),
                ("probe.rate.on", "s0->h0"),
                ("probe.rate.every", "5ms"),
                ("probe.drops.kind", "rate"),
                ("probe.drops.on", "s0->h0"),
                ("probe.drops.counter", "drops"),
                ("probe.drops.every", "5ms"),
                ("run.warm_up", "0s"),
                ("run.duration", "1500ms"),
                ("run.repetitions", "1"),
            ])
            .keeping_outcomes(),
    ],
    tables: &[Table::points(
        "What writers do at a busy port, and from when it is busy",
        "limits",
        &[
            Column::new("median", "latency.p50"),
            Column::new("p99", "latency.p99"),
            Column::new("busy_port", "busy_port"),
            Column::new("busy_dist_port", "busy_dist_port"),
            Column::new("longest suspension", "suspended.max"),
            Column::new("most memory", "memory.peak"),
        ],
    )],
    phenomenon,
    rows: &[
        Row::new("M22", a_refill_takes_a_fraction_of_a_second),
        Row::new("M23", other_connections_are_well),
        Row::new("M24", writers_are_suspended_and_it_is_told),
        Row::new("M25", idle_links_wait_as_long).because(SUSPENDED_AGAIN),
        Row::new("M26", latency_is_erratic),
        Row::new("M27", memory_rises_and_drains),
        Row::new("M33", not_blocking_cures).because(WAITS_ELSEWHERE),
    ],
    figures: &[
        Figure::first(figures::who_waits),
        Figure::named("servers", figures::all_servers),
    ],
    next: &[
        Next::new(
            "narrows run busy-port",
            "the experiment, by what writers do and from when a port is busy",
        ),
        Next::new(
            "narrows run busy-port --set writers=suspend --set limit=128KiB -r 1 --trace busy.jsonl",
            "each suspension of one run",
        ),
    ],
    #[cfg(target_os = "linux")]
    live: Live::Twin(live::TWIN),
    #[cfg(not(target_os = "linux"))]
    live: Live::Cannot("it takes Linux's network namespaces"),
};

/// The node that the slow way leads to.
const LOST: HostId = HostId(1);
/// Shorter suspensions are queues, not timers.
const LONG: f64 = 30e6;

fn run<'a>(played: &'a Played, writers: &str) -> Answer<&'a RunOutcome> {
    played.scene("mesh")?.run(&[("writers", writers)])
}

/// How long something stood still, in ns.
fn length(run: &RunOutcome, span: &AppSpan) -> f64 {
    let end = run.measured_from + run.measured;
    span.until(end).since(span.began).as_nanos() as f64
}

/// The suspensions of servers by the port to the slow way's node.
fn suspensions(run: &RunOutcome) -> impl Iterator<Item = &AppSpan> {
    let server = SpanKind::BusyDistPort(Process::Server);
    let spans = run.spans.iter().filter(move |span| span.kind == server);
    spans.filter(|span| span.peer == Some(LOST))
}

/// The long ones.
fn stalls(run: &RunOutcome) -> Vec<&AppSpan> {
    let all = suspensions(run);
    all.filter(|span| length(run, span) > LONG).collect()
}

/// All that ask.
fn nodes(run: &RunOutcome) -> BTreeSet<HostId> {
    run.transfers.iter().map(|t| t.to).collect()
}

/// A node's name.
fn name(node: HostId) -> String {
    format!("h{}", node.0)
}

/// A time without a reply from one node to another, in ns.
struct Gap {
    length: f64,
    /// For how long of it the port to the slow way suspended the server: it may be suspended again
    /// at its next reply that goes there.
    suspended: f64,
}

/// The times without a reply from the node of a stall to another, around the middle of the stall; of
/// each node but the one that it is suspended by.
fn gaps(run: &RunOutcome, stall: &AppSpan) -> Vec<Gap> {
    let middle = stall.began.as_nanos() as f64 + length(run, stall) / 2.0;
    let others = nodes(run)
        .into_iter()
        .filter(|n| *n != stall.host && Some(*n) != stall.peer);
    let gap = |node: HostId| {
        let replies = run
            .transfers
            .iter()
            .filter(|t| t.from == Some(stall.host) && t.to == node);
        let (mut before, mut after) = (f64::NEG_INFINITY, f64::INFINITY);
        for at in replies.map(|t| (t.began + t.took).as_nanos() as f64) {
            if at <= middle {
                before = before.max(at);
            } else {
                after = after.min(at);
            }
        }
        let within = |span: &AppSpan| {
            let began = span.began.as_nanos() as f64;
            ((began + length(run, span)).min(after) - began.max(before)).max(0.0)
        };
        let own = suspensions(run).filter(|span| span.host == stall.host);
        (after - before).is_finite().then(|| Gap {
            length: after - before,
            suspended: own.map(within).sum(),
        })
    };
    others.filter_map(gap).collect()
}

fn phenomenon(played: &Played) -> Answer<String> {
    let run = run(played, "suspend")?;
    let stalls = stalls(run);
    let lengths: Vec<f64> = stalls.iter().map(|s| length(run, s) / 1e6).collect();
    let waits = stalls.iter().flat_map(|s| gaps(run, s));
    let waits: Vec<f64> = waits.map(|gap| gap.length).collect();
    let stall = median(&lengths).ok_or_else(|| missing("suspended server"))?;
    let wait = median(&waits).ok_or_else(|| missing("node that waits"))? / 1e6;
    let servers: BTreeSet<HostId> = stalls.iter().map(|stall| stall.host).collect();
    Ok(format!(
        "{} of 12 servers were suspended by the port to h1 for longer than 30 ms, {} times and for {stall:.0} ms \
         in the median; nodes whose links were idle waited {wait:.0} ms for each.",
        servers.len(),
        stalls.len()
    ))
}

/// Of the polls of a probe: when in ns, and the reading.
fn polls(scene: &Scenery, probe: &str) -> Answer<Vec<(f64, f64)>> {
    let rows = scene.series(&[], probe)?.rows.iter();
    let rows = rows.filter_map(|row| Some((row.first().copied()??, row.get(1).copied()??)));
    Ok(rows.collect())
}

fn a_refill_takes_a_fraction_of_a_second(played: &Played) -> Answer<Finding> {
    let scene = played.scene("refill")?;
    let (lost, back) = (500e6, 520e6);
    let rates = polls(scene, "rate")?;
    let after = |from: f64, least: f64| {
        let polls = rates.iter().filter(|(at, _)| *at > from);
        polls.copied().find(|(_, rate)| *rate >= least)
    };
    // From the first poll with anything in it to the first one above nine tenths of the line.
    let (begins, _) = after(back, 1e6).ok_or_else(|| missing("packet after the loss"))?;
    let (full, _) = after(back, 0.9e9).ok_or_else(|| missing("full line after the loss"))?;
    let drops = polls(scene, "drops")?;
    let again = drops.iter().filter(|(at, n)| *at > back && *n > 0.0);
    Ok(Finding::all([
        Finding::between(
            "after everything was lost for 20 ms the line is nine tenths full in",
            full - lost,
            (100e6, 1e9),
            "ns",
        ),
        Finding::at_most("of that without the timeout", full - begins, 100e6, "ns"),
        Finding::at_least(
            "polls of 5 ms with new drops, a second on",
            again.count() as f64,
            1.0,
            "",
        ),
    ]))
}

fn other_connections_are_well(played: &Played) -> Answer<Finding> {
    let run = run(played, "suspend")?;
    let others = run
        .flows
        .iter()
        .filter(|f| f.from != LOST.0 && f.to != LOST.0);
    let (mut flows, mut cuts) = (0, 0);
    for flow in others {
        flows += 1;
        cuts += flow.sender.retransmits + flow.timeouts() + flow.sender.fast_recoveries;
    }
    Ok(Finding::is(
        format!(
            "{cuts} retransmissions, timeouts and reductions on {flows} flows between other nodes"
        ),
        flows > 0 && cuts == 0,
    ))
}

fn writers_are_suspended_and_it_is_told(played: &Played) -> Answer<Finding> {
    let run = run(played, "suspend")?;
    let to_lost = |s: &&AppSpan| s.peer == Some(LOST);
    let ports = run.spans.iter().filter(|s| s.kind == SpanKind::BusyPort);
    let busy = ports.filter(to_lost).count();
    let of = |process| {
        let kind = SpanKind::BusyDistPort(process);
        let spans = run.spans.iter().filter(move |s| s.kind == kind);
        spans.filter(to_lost).count()
    };
    let (servers, clients) = (of(Process::Server), of(Process::Client));
    Ok(Finding::is(
        format!(
            "in the first run ports to h1 became busy {busy} times (busy_port), and suspended servers \
             {servers} times and requests {clients} times (busy_dist_port), each time counted, however short; the \
             table counts ports to all nodes, in the mean of its runs"
        ),
        busy >= 11 && servers >= 11,
    ))
}

fn idle_links_wait_as_long(played: &Played) -> Answer<Finding> {
    let run = run(played, "suspend")?;
    let mut nodes = Vec::new();
    // Each with the stall that began it.
    let mut waits = Vec::new();
    for stall in stalls(run) {
        let (gaps, stall) = (gaps(run, stall), length(run, stall));
        nodes.push(gaps.len() as f64);
        waits.extend(gaps.into_iter().map(|gap| (gap, stall)));
    }
    let (longer, once): (Vec<_>, Vec<_>) = waits
        .iter()
        .partition(|(gap, stall)| gap.suspended > *stall);
    let over_stall = |waits: &[&(Gap, f64)]| {
        let shares: Vec<f64> = waits
            .iter()
            .map(|(gap, stall)| gap.length / stall)
            .collect();
        median(&shares)
    };
    let all: Vec<_> = waits.iter().collect();
    let of_all: Vec<f64> = all
        .iter()
        .map(|(gap, _)| gap.length / gap.suspended)
        .collect();
    let nobody = || missing("node that waits");
    let finding = Finding::all([
        Finding::is(
            format!("{:.0} nodes wait for each", median(&nodes).unwrap_or(0.0)),
            median(&nodes) == Some(10.0),
        ),
        Finding::near(
            "median of their gap over the stall",
            over_stall(&all).ok_or_else(nobody)?,
            1.0,
            0.1,
            "",
        ),
        Finding::near(
            "over all that the server was suspended in the gap, about 1 by construction of a serial server,",
            median(&of_all).ok_or_else(nobody)?,
            1.0,
            0.1,
            "",
        ),
    ]);
    Ok(finding.and_words(format_args!(
        ". In {} of {} gaps the server is suspended again; in the others the median is {}",
        longer.len(),
        waits.len(),
        over_stall(&once).map_or_else(|| "-".to_owned(), |share| number(share, "")),
    )))
}

/// A quantile of what calls took in ms between nodes of which none is the slow way's.
fn elsewhere(run: &RunOutcome, permille: usize) -> Answer<f64> {
    let calls = run
        .transfers
        .iter()
        .filter(|t| t.began >= run.measured_from);
    let calls = calls.filter(|t| t.to != LOST && t.from != Some(LOST));
    let mut took: Vec<_> = calls.map(|t| t.took).collect();
    took.sort_unstable();
    let at = quantile(&took, permille).ok_or_else(|| missing("call"))?;
    Ok(at.as_nanos() as f64 / 1e6)
}

fn latency_is_erratic(played: &Played) -> Answer<Finding> {
    let run = run(played, "suspend")?;
    Ok(Finding::all([
        Finding::at_most(
            "of calls between nodes whose links are idle, median",
            elsewhere(run, 500)?,
            5.0,
            "ms",
        ),
        Finding::at_least("p99", elsewhere(run, 990)?, 200.0, "ms"),
    ]))
}

fn memory_rises_and_drains(played: &Played) -> Answer<Finding> {
    let run = run(played, "suspend")?;
    let mut rises = Vec::new();
    let mut left = 0.0_f64;
    for gauge in &run.gauges {
        let rest = gauge.course.first().map_or(0.0, |(_, b)| b.get() as f64);
        let most = gauge.course.iter().map(|(_, b)| b.get()).max();
        rises.push(most.unwrap_or(0) as f64 / rest - 1.0);
        left = left.max(gauge.now.get() as f64 / rest - 1.0);
    }
    let most = rises.iter().fold(0.0_f64, |a, b| a.max(*b));
    let finding = Finding::all([
        Finding::between(
            "of 16 MB at rest, percent more at the most",
            most * 100.0,
            (15.0, 40.0),
            "",
        ),
        Finding::at_most("percent more at the end", left * 100.0, 2.0, ""),
    ]);
    Ok(finding.after_words(
        "calibrated, a fit and no prediction: the 16 MB (`traffic.mesh.memory`) are chosen so that it is about the \
         text's share, which is all that it has. ",
    ))
}

fn not_blocking_cures(played: &Played) -> Answer<Finding> {
    let limits = played.scene("limits")?;
    let of = |writers, metric| limits.value(&[("writers", writers), ("limit", "128KiB")], metric);
    let held = |writers| Ok::<_, NoAnswer>(of(writers, "memory.peak")? / 1e6);
    let blocked = held("suspend")?;
    let mut findings = Vec::new();
    for writers in ["async", "relay"] {
        let stalled = of(writers, "suspended.max")?;
        let gone = elsewhere(run(played, writers)?, 990)?;
        let held = held(writers)?;
        findings.push(Finding::is(
            format!(
                "{writers}: servers suspended for {} ms; p99 of calls between nodes whose links are idle \
                 {gone:.2} ms (wanted at most 5); memory {held:.1} MB, where writers that are suspended take \
                 {blocked:.1} (wanted more than those)",
                number(stalled / 1e6, ""),
            ),
            stalled == 0.0 && gone <= 5.0 && held > blocked,
        ));
    }
    Ok(Finding::all(findings).and_words(
        ". Memory is all of a node's: queues of ports, suspended processes and mailboxes, where requests of 5 kB wait \
         for a suspended server. The live twin's requests are of 100 bytes, and it judges the queues of ports alone, \
         which hold more where nobody is suspended: both are so. With requests as short as those all of a node's \
         memory is up here, too (`narrows run busy-port --set limit=128KiB --set traffic.mesh.request=100B`)",
    ))
}

/// Why a gap is longer than the stall that began it.
const SUSPENDED_AGAIN: &str = "a server that goes on may next have a reply for the slow node, and is suspended again \
    before it has served the others: they wait for more than one stall. Where that does not happen they wait as long \
    as the stall";

/// Why memory is no more where nobody is suspended.
const WAITS_ELSEWHERE: &str = "the gap is gone, and memory is not up: requests come whether or not those before have \
    their replies, so that what a suspended server does not answer waits before it, and takes a little more than \
    replies for the slow node do in its port's queue. Where callers wait for what they have asked for, fewer come: \
    with at most 64 requests of a node under way memory comes to 19.0 MB where nobody is suspended, and to 17.8 where \
    writers are; with 256 to 19.3 in either case (`narrows run busy-port --set limit=128KiB --sweep \
    traffic.mesh.limit=64,256`). Queues of ports alone, which is not all of it, do hold several times as much, as \
    nodes of Erlang/OTP show live (docs/LIVE.md)";
