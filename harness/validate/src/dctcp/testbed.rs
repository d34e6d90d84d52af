//! Few flows: throughput and queue, short transfers behind long flows, convergence.

use super::measure::{median, utilisation};
use super::{Published, go, hosts_of_2010, long_lived, mbps, millis, shared_buffer, step};
use crate::flows::{Asked, FlowOutcome, Flows, FlowsRun, Query};
use crate::set_up::{self, put};
use crate::{Bench, Figure, Measured, Tolerance};
use narrows::{ByteCount, Duration, Instant, Rate};
use narrows_experiment::model::Experiment;
use narrows_experiment::scenario::ScenarioError;
use narrows_report::chart::{Axis, Chart, Draw, Role, Series};

const RTT: Duration = Duration::from_micros(100);

/// Two long flows at 1 Gb/s with K = 20, and TCP without marks; two at 10 Gb/s with K = 65.
pub(super) fn long_flows(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let mut queues = Vec::new();
    for (congestion, name) in [("dctcp", "DCTCP, K = 20"), ("reno", "drop-tail TCP")] {
        let mut flows = two_flows(congestion);
        step(&mut flows, 20);
        flows.run.duration = Duration::from_secs(3);
        flows.run.warm_up = Duration::from_secs(1);
        let mut spec = Flows::new(flows);
        spec.record.queue = true;
        let run = go(bench, &spec)?;
        bench.row(Published::get("long/goodput").row(
            format!("2 flows, 1 Gb/s, {name}: goodput"),
            Measured::Value(mbps(run.goodput())),
            "Mb/s",
        ));
        if congestion == "dctcp" {
            let published = Published::get("long/queue");
            let what = format!("2 flows, 1 Gb/s, {name}: longest queue");
            bench.row(
                published
                    .row(what, longest(&run), "packets")
                    .note("an ACK for two segments")
                    .explained("dctcp-delayed-acks"),
            );
            let mut prompt = spec.clone();
            put(&mut prompt.experiment, "host.tcp.delayed_ack", "off");
            bench.row(Published::get("long/queue").row(
                format!("2 flows, 1 Gb/s, {name}, an ACK for each segment: longest queue"),
                longest(&go(bench, &prompt)?),
                "packets",
            ));
        }
        queues.push((name, run));
    }
    let length = |i: usize| {
        let run: &FlowsRun = &queues[i].1;
        run.bottleneck.mean_queue_millipackets as f64 / 1e3
    };
    bench.row(
        Published::get("long/droptail-ratio")
            .row(
                "2 flows, 1 Gb/s: mean queue of drop-tail TCP over that of DCTCP",
                Measured::Value(length(1) / length(0)),
                "",
            )
            .note(format!("{:.1} and {:.0} packets", length(0), length(1))),
    );
    bench.figure(distribution(&queues));

    let mut spec = long_lived(2, Rate::from_gbps(10), RTT, 65, "dctcp");
    hosts_of_2010(&mut spec.experiment);
    spec.experiment.run.duration = Duration::from_millis(600);
    spec.experiment.run.warm_up = Duration::from_millis(200);
    let run = go(bench, &spec)?;
    bench.row(Published::get("fast/k65-utilisation").row(
        "2 flows, 10 Gb/s, K = 65: utilisation",
        Measured::Value(utilisation(&run)),
        "%",
    ));
    Ok(())
}

/// Two long flows over the paper's switch at 1 Gb/s.
fn two_flows(congestion: &str) -> Experiment {
    let mut flows = set_up::long_lived(2, Rate::from_gbps(1), RTT);
    hosts_of_2010(&mut flows);
    shared_buffer(&mut flows);
    put(&mut flows, "host.tcp.congestion", congestion);
    flows
}

/// The longest queue after the warm-up.
fn longest(run: &FlowsRun) -> Measured {
    let queue = run.bottleneck.queue.iter().map(|q| q.packets);
    Measured::Value(f64::from(queue.max().unwrap_or(0)))
}

/// How often the queue is how long.
fn distribution(queues: &[(&str, FlowsRun)]) -> Figure {
    let series = queues.iter().enumerate().map(|(group, (name, run))| {
        let queue = &run.bottleneck.queue;
        let mut time = std::collections::BTreeMap::<u32, u64>::new();
        for pair in queue.windows(2) {
            *time.entry(pair[0].packets).or_default() += pair[1].at_picos - pair[0].at_picos;
        }
        let all: u64 = time.values().sum();
        let mut below = 0;
        let points = time
            .into_iter()
            .map(|(packets, span)| {
                below += span;
                (f64::from(packets), below as f64 / all as f64)
            })
            .collect();
        Series {
            name: (*name).to_owned(),
            draw: Draw::Steps,
            role: Role::Ours,
            group,
            points,
            spread: Vec::new(),
            ..Series::default()
        }
    });
    Figure {
        name: "dctcp-queue-distribution",
        caption: "Share of time with at most so long a queue: two long flows at 1 Gb/s, a port \
                  that may take 700 kB of a shared buffer."
            .to_owned(),
        chart: Chart {
            title: "Distribution of the queue's length".to_owned(),
            x: Axis {
                label: "Queue (packets)".to_owned(),
                ..Axis::default()
            },
            y: Axis {
                label: "Share of time".to_owned(),
                range: Some((0.0, 1.0)),
                ..Axis::default()
            },
            series: series.collect(),
            ..Chart::default()
        },
    }
}

/// 20 KB again and again from a third host, behind two long flows.
pub(super) fn short_transfers(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    const TIMES: u32 = 100;
    let size = ByteCount::new(20_000);
    for (congestion, name, key) in [
        ("dctcp", "DCTCP", "short/dctcp-median"),
        ("reno", "TCP", "short/tcp-median"),
    ] {
        let mut flows = two_flows(congestion);
        if congestion == "dctcp" {
            step(&mut flows, 20);
        }
        put(&mut flows, "network.hosts", 4);
        flows.run.duration = Duration::from_secs(5);
        let after = Duration::from_millis(500);
        let mut one = Flows::new(flows.clone());
        one.queries.push(Query {
            from: 3,
            to: 0,
            start: after,
            asked: Asked {
                size,
                request: ByteCount::new(64),
                times: TIMES,
                group: 0,
            },
        });
        for i in 0..TIMES {
            let at = format!("traffic.short-{i}");
            put(&mut flows, &format!("{at}.kind"), "bulk");
            put(&mut flows, &format!("{at}.from"), "h3");
            put(&mut flows, &format!("{at}.to"), "h0");
            put(&mut flows, &format!("{at}.size"), size);
            let start = after + Duration::from_millis(40) * u64::from(i);
            put(&mut flows, &format!("{at}.start"), start);
        }
        let many = Flows::new(flows);
        let what = format!("20 KB behind 2 long flows, 1 Gb/s, {name}: median");
        bench.row(
            Published::get(key)
                .row(what, middle(&go(bench, &one)?), "ms")
                .note("one after the other on one connection")
                .explained("dctcp-short-transfers"),
        );
        let mut row = Published::get(key).row(
            format!("20 KB behind 2 long flows, {name}, each on its own connection: median"),
            middle(&go(bench, &many)?),
            "ms",
        );
        row.tolerance = Tolerance::Shown;
        bench.row(row.note("with its handshake"));
    }
    Ok(())
}

/// The median time of the transfers behind the long flows.
fn middle(run: &FlowsRun) -> Measured {
    let transfers = run.flows.iter().flat_map(|f| &f.transfers);
    Measured::Value(median(transfers.map(|t| millis(t.took)).collect()))
}

/// A second flow joins a first.
pub(super) fn convergence(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    for (gbps, k, key) in [(1, 20, "convergence/1g"), (10, 65, "convergence/10g")] {
        let mut times = Vec::new();
        for seed in 1..=5 {
            let mut spec = long_lived(2, Rate::from_gbps(gbps), RTT, k, "dctcp");
            spec.experiment.run.seed = seed;
            // Another phase of the first flow's sawtooth for each seed.
            let joins = Duration::from_millis(200) + Duration::from_micros(131) * seed;
            spec.experiment.traffic[1].start = joins;
            spec.experiment.run.duration =
                Duration::from_millis(if gbps == 1 { 500 } else { 1_000 });
            spec.record.samples = Some(WINDOW);
            let run = go(bench, &spec)?;
            times.push(millis(converged(&run.flows, Instant::ZERO + joins)));
            if (gbps, seed) == (10, 1) {
                bench.figure(shares(&run.flows, Instant::ZERO + joins));
            }
        }
        bench.row(Published::get(key).row(
            format!("a second flow joins, {gbps} Gb/s, K = {k}: time to equal shares"),
            Measured::spread(&times),
            "ms",
        ));
    }
    Ok(())
}

/// Flows are looked at this often.
const WINDOW: Duration = Duration::from_millis(1);
/// Shares are taken over so many windows.
const WINDOWS: u64 = 10;

/// The goodput of two flows, the second of which joins.
fn shares(flows: &[FlowOutcome], joins: Instant) -> Figure {
    let series = flows.iter().enumerate().map(|(group, flow)| {
        let points = flow.samples.windows(2).map(|w| {
            let bits = (w[1].delivered - w[0].delivered).get() as f64 * 8.0;
            let rate = bits / w[1].at.since(w[0].at).as_nanos() as f64;
            let since = w[1].at.as_nanos() as f64 - joins.as_nanos() as f64;
            (since / 1e6, rate)
        });
        Series {
            name: ["first flow", "second flow"][group.min(1)].to_owned(),
            draw: Draw::Line,
            role: Role::Ours,
            group,
            points: points
                .filter(|(ms, _)| (-50.0..=200.0).contains(ms))
                .collect(),
            spread: Vec::new(),
            ..Series::default()
        }
    });
    Figure {
        name: "dctcp-convergence",
        caption: "A second DCTCP flow joins a first at time 0: 10 Gb/s, RTT 100 µs, K = 65; \
                  goodput of each millisecond."
            .to_owned(),
        chart: Chart {
            title: "Goodput of two flows over time".to_owned(),
            x: Axis {
                label: "Time since the second flow began (ms)".to_owned(),
                range: Some((-50.0, 200.0)),
                ..Axis::default()
            },
            y: Axis {
                label: "Goodput (Gb/s)".to_owned(),
                range: Some((0.0, 10.0)),
                ..Axis::default()
            },
            series: series.collect(),
            ..Chart::default()
        },
    }
}

/// How long after `joins` begins the first stretch of ten windows in which the second flow had at
/// least four fifths of what the first had.
fn converged(flows: &[FlowOutcome], joins: Instant) -> Duration {
    let delivered = |flow: usize, at: Instant| {
        let samples = &flows[flow].samples;
        let i = samples.partition_point(|s| s.at < at);
        samples.get(i).map_or(0.0, |s| s.delivered.get() as f64)
    };
    let mut at = joins;
    let end = flows[0].samples.last().map_or(joins, |s| s.at);
    while at + WINDOW * WINDOWS <= end {
        let until = at + WINDOW * WINDOWS;
        let share = |flow| delivered(flow, until) - delivered(flow, at);
        let (first, second) = (share(0), share(1));
        if second >= 0.8 * first {
            return at.since(joins);
        }
        at = at + WINDOW;
    }
    end.since(joins)
}
