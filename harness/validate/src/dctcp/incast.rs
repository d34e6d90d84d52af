//! Many senders, one receiver: the paper's incast experiments (sections 4.2.1 to 4.2.2).

use super::measure::{mean, median};
use super::{Published, go, hosts_of_2010, millis, shared_buffer, step};
use crate::flows::{Asked, Flows, FlowsRun, Query};
use crate::set_up::{self, put};
use crate::{Bench, Expected, Figure, Measured, Row, Tolerance};
use narrows::recovery::SenderStats;
use narrows::{ByteCount, Duration, Rate};
use narrows_experiment::model::Experiment;
use narrows_experiment::scenario::ScenarioError;
use narrows_report::chart::{Axis, Chart, Draw, Role, Series};
use std::collections::BTreeSet;

/// A query counts among the first with timeouts when one in twenty has one.
const ONSET: f64 = 0.05;
const QUERIES: u32 = 60;
/// Packets of a port that has its own buffer.
const BUFFER: u32 = 100;

/// What a client asks for, all its servers at once.
fn queries(hosts: u32, congestion: &str) -> Flows {
    let mut star = set_up::long_lived(0, Rate::from_gbps(1), Duration::from_micros(100));
    hosts_of_2010(&mut star);
    step(&mut star, 20);
    put(&mut star, "network.hosts", hosts);
    put(&mut star, "host.tcp.congestion", congestion);
    star.run.duration = Duration::from_secs(600);
    Flows::new(star)
}

/// Each port has room for [`BUFFER`] packets.
fn own_buffer(star: &mut Experiment) {
    put(star, "network.queue.limit", format!("{BUFFER}p"));
}

fn ask(from: u32, to: u32, size: u64, times: u32) -> Query {
    Query {
        from,
        to,
        start: Duration::ZERO,
        asked: Asked {
            size: ByteCount::new(size),
            request: ByteCount::new(64),
            times,
            group: to,
        },
    }
}

/// 1 MB over `n` servers, again and again.
fn one_megabyte(n: u32, congestion: &str) -> Flows {
    let mut spec = queries(n + 1, congestion);
    let share = 1_000_000 / u64::from(n);
    spec.queries = (1..=n).map(|s| ask(s, 0, share, QUERIES)).collect();
    spec
}

/// What became of the queries of a run.
struct Answers {
    /// Share of queries in which a sender timed out.
    late: f64,
    /// Median time of a query, in milliseconds.
    median: f64,
    /// Timeouts of the senders: the whole window was lost, its tail, a retransmission.
    causes: [u64; 3],
    /// Packets dropped, per query.
    drops: f64,
}

/// Queries are the flows of one receiver, round by round.
fn answers(spec: &Flows, run: &FlowsRun, times: u32) -> Answers {
    let mut late = Vec::new();
    let mut took = Vec::new();
    let clients: BTreeSet<u32> = spec.queries.iter().map(|q| q.to).collect();
    for client in clients {
        for k in 0..times as usize {
            let flows = spec.queries.iter().zip(&run.flows);
            let query: Vec<_> = flows
                .filter(|(f, _)| f.to == client)
                .filter_map(|(_, f)| f.transfers.get(k))
                .collect();
            if query.is_empty() {
                continue;
            }
            late.push(f64::from(u8::from(query.iter().any(|t| t.timeouts > 0))));
            let longest = query.iter().map(|t| t.took).max().unwrap_or_default();
            took.push(millis(longest));
        }
    }
    let count = |of: fn(&SenderStats) -> u64| run.flows.iter().map(|f| of(&f.at_end)).sum();
    Answers {
        late: mean(late.into_iter()),
        median: median(took),
        causes: [
            count(|s| s.timeouts_full_window),
            count(|s| s.timeouts_tail),
            count(|s| s.timeouts_retransmission),
        ],
        drops: run.switch_drops as f64 / f64::from(times),
    }
}

/// A static buffer against the number of servers.
pub(super) fn static_buffer(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let mut series = Vec::new();
    for (group, (congestion, name)) in [("dctcp", "DCTCP"), ("reno", "TCP")]
        .into_iter()
        .enumerate()
    {
        let servers = (2..=60).step_by(2);
        let found = sweep(bench, congestion, servers, own_buffer)?;
        let mut causes = [0; 3];
        for (n, answers) in &found {
            if *n <= 10 {
                (0..3).for_each(|i| causes[i] += answers.causes[i]);
            }
        }
        let [full, tail, again] = causes;
        let what = format!("1 MB from n servers, 100 packets, {name}: timeouts from n");
        bench.row(
            Published::get(&format!("incast-static/{}-onset", name.to_lowercase()))
                .row(what, onset(&found, ONSET), "servers")
                .note(format!(
                    "in 5 % of the queries; in half of them from {}; timeouts up to 10 servers: \
                     {full} whole windows lost, {tail} tails, {again} retransmissions",
                    onset(&found, 0.5)
                ))
                .explained("dctcp-incast-onset"),
        );
        let ten = found.iter().find(|(n, _)| *n == 10);
        if let (Some((_, answers)), "dctcp") = (ten, congestion) {
            bench.row(Published::get("incast-static/floor").row(
                "1 MB from 10 servers, 100 packets, DCTCP: median query",
                Measured::Value(answers.median),
                "ms",
            ));
        }
        series.push(line(name, group, &found));
    }
    bench.figure(figure(
        "dctcp-incast-static",
        "a port with a buffer of 100 packets",
        series,
    ));
    floors(bench)?;
    variants(bench)
}

/// Where windows at their floor fill path and buffer: floor n = C RTT + B.
fn floors(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let bdp = 1e9 * 100e-6 / (1_538.0 * 8.0);
    for floor in [2, 3] {
        let expected = (bdp + f64::from(BUFFER)) / f64::from(floor);
        let around = expected as u32;
        let found = sweep(
            bench,
            &format!("dctcp:floor={floor}"),
            around - 5..around + 5,
            own_buffer,
        )?;
        let full = found.iter().find(|(_, answers)| answers.drops >= 1.0);
        let ours = full.map_or_else(
            || Measured::Missing("no drops in this range".to_owned()),
            |(n, _)| Measured::Value(f64::from(*n)),
        );
        bench.row(
            Row::new(
                format!("DCTCP with windows of {floor} segments at least: drops from n"),
                "formula: floor x n = C RTT + B",
                Expected::Value(expected),
                ours,
                "servers",
                Tolerance::Relative(0.05),
            )
            .note("a packet a query"),
        );
    }
    Ok(())
}

/// The same onset with what might have been different in the paper's hosts.
fn variants(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    for (congestion, detector, what, key) in [
        (
            "dctcp:floor=1",
            "sack",
            "DCTCP, windows of 1 at least",
            "dctcp",
        ),
        (
            "dctcp:floor=3",
            "sack",
            "DCTCP, windows of 3 at least",
            "dctcp",
        ),
        ("reno", "rack", "TCP with RACK-TLP", "tcp"),
    ] {
        let found = sweep(bench, congestion, (2..=60).step_by(2), |star| {
            own_buffer(star);
            put(star, "host.tcp.loss_detection", detector);
        })?;
        let mut row = Published::get(&format!("incast-static/{key}-onset")).row(
            format!("1 MB from n servers, 100 packets, {what}: timeouts from n"),
            onset(&found, ONSET),
            "servers",
        );
        row.tolerance = Tolerance::Shown;
        bench.row(row);
    }
    Ok(())
}

/// A buffer that all ports share.
pub(super) fn shared_pool(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let mut series = Vec::new();
    for (group, (congestion, name)) in [("dctcp", "DCTCP"), ("reno", "TCP")]
        .into_iter()
        .enumerate()
    {
        let found = sweep(bench, congestion, (4..=40).step_by(4), shared_buffer)?;
        let late: f64 = found.iter().map(|(_, a)| a.late * f64::from(QUERIES)).sum();
        bench.row(
            Published::get(&format!("incast-dynamic/{}-timeouts", name.to_lowercase())).row(
                format!("1 MB from 4 to 40 servers, shared 4 MB, {name}: queries with timeouts"),
                Measured::Value(late.round()),
                "",
            ),
        );
        series.push(line(name, group, &found));
    }
    bench.figure(figure(
        "dctcp-incast-shared",
        "a port that may take 700 kB of a shared buffer of 4 MB",
        series,
    ));
    Ok(())
}

/// Queries to each number of servers.
fn sweep(
    bench: &Bench<'_>,
    congestion: &str,
    servers: impl Iterator<Item = u32>,
    buffer: impl Fn(&mut Experiment),
) -> Result<Vec<(u32, Answers)>, ScenarioError> {
    servers
        .map(|n| {
            let mut spec = one_megabyte(n, congestion);
            buffer(&mut spec.experiment);
            Ok((n, answers(&spec, &go(bench, &spec)?, QUERIES)))
        })
        .collect()
}

/// The first number of servers at which `share` of the queries have a timeout.
fn onset(found: &[(u32, Answers)], share: f64) -> Measured {
    match found.iter().find(|(_, answers)| answers.late >= share) {
        Some((n, _)) => Measured::Value(f64::from(*n)),
        None => Measured::Missing("no timeouts in the range".to_owned()),
    }
}

fn line(name: &str, group: usize, found: &[(u32, Answers)]) -> Series {
    Series {
        name: name.to_owned(),
        draw: Draw::LineMarkers,
        role: Role::Ours,
        group,
        points: found
            .iter()
            .map(|(n, answers)| (f64::from(*n), answers.late * 100.0))
            .collect(),
        spread: Vec::new(),
        ..Series::default()
    }
}

fn figure(name: &'static str, port: &str, series: Vec<Series>) -> Figure {
    Figure {
        name,
        caption: format!(
            "Queries of 1 MB over n servers at 1 Gb/s in which a sender timed out, RTOmin 10 ms: \
             {port}."
        ),
        chart: Chart {
            title: "Queries with timeouts against the number of servers".to_owned(),
            x: Axis {
                label: "Servers".to_owned(),
                ..Axis::default()
            },
            y: Axis {
                label: "Queries with timeouts (%)".to_owned(),
                range: Some((0.0, 100.0)),
                ..Axis::default()
            },
            series,
            ..Chart::default()
        },
    }
}

/// 41 hosts, each of which asks the 40 others for 25 KB at the same time.
pub(super) fn all_to_all(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    const HOSTS: u32 = 41;
    const ROUNDS: u32 = 10;
    for (congestion, name, key) in [
        ("dctcp", "DCTCP", "all-to-all/dctcp-timeouts"),
        ("reno", "TCP", "all-to-all/tcp-queries"),
    ] {
        let mut spec = queries(HOSTS, congestion);
        shared_buffer(&mut spec.experiment);
        for to in 0..HOSTS {
            let from = (0..HOSTS).filter(|h| *h != to);
            spec.queries
                .extend(from.map(|h| ask(h, to, 25_000, ROUNDS)));
        }
        let found = answers(&spec, &go(bench, &spec)?, ROUNDS);
        bench.row(
            Published::get(key)
                .row(
                    format!("41 hosts ask all others for 25 KB, {name}: queries with timeouts"),
                    Measured::Value(found.late * 100.0),
                    "%",
                )
                .note(format!("median query {:.1} ms", found.median)),
        );
    }
    Ok(())
}
