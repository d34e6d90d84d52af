//! `--trace`: what the connections of a run decide, as JSON lines.

use crate::incast::{PORT, impaired, run, shipped, with};
use narrows::{ByteCount, Duration};
use narrows_experiment::model::Experiment;
use narrows_experiment::scenario::{IncastRun, Outcome, RunContext, TimeoutCounts};
use serde_json::Value;
use std::collections::BTreeMap;

fn collapsing() -> Experiment {
    shipped("incast", &[("blocks", "3")])
}

fn traced(spec: &Experiment) -> (IncastRun, Vec<Value>) {
    let mut file = Vec::new();
    let ctx = RunContext {
        trace: Some(&mut file),
        ..RunContext::default()
    };
    let run = run(spec, ctx);
    let text = String::from_utf8(file).expect("UTF-8");
    let lines = text.lines().map(|l| serde_json::from_str(l).expect(l));
    (run, lines.collect())
}

#[test]
fn a_trace_holds_every_timeout_with_its_cause_and_changes_nothing() {
    let spec = collapsing();
    let (found, lines) = traced(&spec);
    assert!(found.timeouts.total() > 0, "the run must collapse");
    assert_eq!(found, run(&spec, RunContext::default()));
    let run = found;
    assert_eq!(lines[0]["format"], "narrows-trace");
    assert_eq!(lines[0]["format_version"], 2);

    let mut last = 0;
    let mut events: BTreeMap<&str, u64> = BTreeMap::new();
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for line in &lines[1..] {
        let ns = line["ns"].as_u64().expect("a time");
        assert!(ns >= last, "{line}");
        last = ns;
        // What is of no connection is of a port or an application.
        let host = line["host"].as_u64();
        assert_eq!(host.is_some(), line["conn"].is_u64(), "{line}");
        assert!(host.is_none_or(|host| host <= 16));
        let of_none = ["drop", "transfer"]
            .map(Some)
            .contains(&line["event"].as_str());
        assert_eq!(host.is_none(), of_none, "{line}");
        *events
            .entry(line["event"].as_str().expect("an event"))
            .or_default() += 1;
        if let Some(cause) = line["cause"].as_str() {
            *causes.entry(cause).or_default() += 1;
        }
    }
    // A connection at each end.
    assert_eq!(events["open"], 32);
    assert_eq!(events["timeout"], run.timeouts.total());
    let of = |cause: &str| causes.get(cause).copied().unwrap_or(0);
    assert_eq!(of("full-window"), run.timeouts.full_window);
    assert_eq!(of("tail"), run.timeouts.tail);
    assert_eq!(of("retransmission-lost"), run.timeouts.retransmission_lost);
    assert_eq!(events["retransmit"], run.retransmitted_packets);
    let drops = || lines.iter().filter(|l| l["event"] == "drop");
    assert_eq!(drops().count() as u64, run.drops.port_full);
    assert!(drops().all(|l| l["port"] == "s0->h0" && l["reason"] == "full"));
    assert!(drops().all(|l| {
        l["to"]
            .as_str()
            .is_some_and(|to| to.starts_with("10.0.0.1:"))
    }));
    let blocks: Vec<&Value> = lines.iter().filter(|l| l["event"] == "transfer").collect();
    assert_eq!(blocks.len(), run.block_times.len());
    for (block, took) in blocks.iter().zip(&run.block_times) {
        assert_eq!(block["took_ns"].as_u64(), Some(took.as_nanos()));
    }
    let known = [
        "drop",
        "transfer",
        "open",
        "state",
        "window",
        "recovery",
        "congestion",
        "lost",
        "retransmit",
        "timeout",
        "tail-loss-probe",
        "undo",
        "held",
        "delayed-ack",
    ];
    for event in events.keys() {
        assert!(known.contains(event), "{event}");
    }
    let windows = || lines.iter().filter(|l| l["event"] == "window");
    assert!(windows().any(|l| l["ssthresh"].is_null()));
    assert!(windows().all(|l| l["cwnd"].as_u64().is_some_and(|c| c > 0)));
    assert!(
        lines
            .iter()
            .any(|l| l["event"] == "state" && l["to"] == "established")
    );
}

#[test]
fn an_impaired_link_is_told_of_and_the_data_arrives() {
    let spec = with(&collapsing(), &[("servers", "2"), ("rto", "1ms")]);
    let wrong = [
        ("loss", "0.5%"),
        ("corrupt", "0.5%"),
        ("duplicate", "0.5%"),
        ("reorder", "2%"),
    ];
    let spec = impaired(&spec, true, true, &wrong);
    let (run, lines) = traced(&spec);
    assert_eq!(run.outcome, Outcome::Completed);
    assert!(run.drops.impaired > 3, "{:?}", run.drops);
    assert!(lines.iter().any(|l| l["event"] == "retransmit"));
}

/// Handshakes of both sides, requests, data; connections that live, and that died.
#[test]
fn what_is_counted_are_the_timeouts_of_the_trace() {
    let (data, acks, both) = ((true, false), (false, true), (true, true));
    let (mut seen, mut died) = (TimeoutCounts::default(), 0);
    for (loss, on, servers, seeds) in [
        (30, both, 4, 0..6),
        (60, both, 2, 0..4),
        (75, both, 2, 0..8),
        (100, both, 2, 0..1),
        (100, data, 2, 0..1),
        (100, acks, 2, 0..1),
        (3, both, 16, 0..1),
    ] {
        for seed in seeds {
            let spec = with(
                &collapsing(),
                &[
                    ("servers", &servers.to_string()),
                    ("run.seed", &seed.to_string()),
                    ("rto", if loss == 75 { "1ms" } else { "linux" }),
                    ("sru", "16KiB"),
                ],
            );
            let spec = impaired(&spec, on.0, on.1, &[("loss", &format!("{loss}%"))]);
            let (run, lines) = traced(&spec);
            let what = format!("{loss} % on {on:?}, seed {seed}");
            let fired = |cause: &dyn Fn(&str) -> bool, client: Option<bool>| {
                let of = lines.iter().filter(|l| {
                    l["event"] == "timeout"
                        && cause(l["cause"].as_str().expect("a cause"))
                        && client.is_none_or(|client| (l["host"] == 0) == client)
                });
                of.count() as u64
            };
            let t = run.timeouts;
            assert_eq!(t.total(), fired(&|_| true, None), "{what}");
            assert_eq!(t.handshake, fired(&|c| c == "handshake", None), "{what}");
            assert_eq!(t.other, fired(&|c| c != "handshake", Some(true)), "{what}");
            let again = |client: bool| {
                let of = lines.iter().filter(|l| l["event"] == "retransmit");
                of.filter(|l| (l["host"] == 0) == client).count() as u64
            };
            assert_eq!(run.retransmitted_packets, again(false), "{what}");
            died += lines
                .iter()
                .filter(|l| l["event"] == "state" && l["from"] == "established")
                .filter(|l| l["why"] == "connection timed out")
                .count();
            seen.handshake += t.handshake;
            seen.other += t.other;
            seen.retransmission_lost += t.retransmission_lost;
            if loss == 100 {
                assert_eq!(run.outcome, Outcome::ConnectionLost, "{what}");
                assert_eq!(run.simulated, Duration::ZERO, "nothing was asked for");
                assert!(t.handshake > 10, "{what}: {t:?}");
            }
        }
    }
    assert!(seen.handshake > 50 && seen.other > 0 && seen.retransmission_lost > 0);
    assert!(died > 1, "connections with data");
}

/// With one port in use a pool of alpha 1 gives it half of all memory.
#[test]
fn a_shared_buffer_gives_a_port_its_dynamic_threshold() {
    let memory = ByteCount::new(256 << 10);
    let buffer = format!("{PORT}.limit");
    for (alpha, share) in [("1/1", 2), ("1/3", 4)] {
        let pool = format!("256KiB:{alpha}");
        let values = [(&*buffer, "256KiB"), ("network.shared_buffer", &pool)];
        let run = run(&with(&collapsing(), &values), RunContext::default());
        let (held, expected) = (run.max_queue.bytes.get(), memory.get() / share);
        assert!(held.abs_diff(expected) < 4_000, "{held} of {expected}");
        assert!(run.drops.port_full > 0);
    }
}
