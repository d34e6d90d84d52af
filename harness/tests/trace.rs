//! `--trace`: what the connections of a run decide, as JSON lines.

use narrows::ByteCount;
use narrows_harness::scenario::incast::Incast;
use narrows_harness::scenario::spec::{Impair, Share, SharedBuffer};
use narrows_harness::scenario::{IncastRunner, IncastSpec, Outcome, RunContext};
use serde_json::Value;
use std::collections::BTreeMap;

fn collapsing() -> IncastSpec {
    let mut spec = IncastSpec {
        servers: 16,
        ..IncastSpec::default()
    };
    if let narrows_harness::scenario::spec::Length::Blocks { blocks, .. } = &mut spec.length {
        *blocks = 3;
    }
    spec
}

fn traced(spec: &IncastSpec) -> (narrows_harness::scenario::IncastRun, Vec<Value>) {
    let mut file = Vec::new();
    let ctx = RunContext {
        trace: Some(&mut file),
        ..RunContext::default()
    };
    let run = Incast::default().run(spec, ctx).expect("a run");
    let text = String::from_utf8(file).expect("UTF-8");
    let lines = text.lines().map(|l| serde_json::from_str(l).expect(l));
    (run, lines.collect())
}

#[test]
fn a_trace_holds_every_timeout_with_its_cause_and_changes_nothing() {
    let spec = collapsing();
    let (run, lines) = traced(&spec);
    assert!(run.timeouts.total() > 0, "the run must collapse");
    assert_eq!(
        run,
        Incast::default()
            .run(&spec, RunContext::default())
            .expect("a run")
    );
    assert_eq!(lines[0]["format"], "narrows-trace");
    assert_eq!(lines[0]["format_version"], 1);

    let mut last = 0;
    let mut events: BTreeMap<&str, u64> = BTreeMap::new();
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for line in &lines[1..] {
        let ns = line["ns"].as_u64().expect("a time");
        assert!(ns >= last, "{line}");
        last = ns;
        assert!(line["host"].as_u64().expect("a host") <= 16);
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
    let known = [
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
    let mut spec = collapsing();
    spec.servers = 2;
    spec.tcp.rto = "1ms".to_owned();
    spec.net.impair = Impair {
        loss: Share(5_000_000),
        corrupt: Share(5_000_000),
        duplicate: Share(5_000_000),
        reorder: Share(20_000_000),
        ..Impair::default()
    };
    let (run, lines) = traced(&spec);
    assert_eq!(run.outcome, Outcome::Completed);
    assert!(run.drops.impaired > 3, "{:?}", run.drops);
    assert!(lines.iter().any(|l| l["event"] == "retransmit"));
}

/// With one port in use a pool of alpha 1 gives it half of all memory.
#[test]
fn a_shared_buffer_gives_a_port_its_dynamic_threshold() {
    let mut spec = collapsing();
    let pool = ByteCount::new(256 << 10);
    spec.net.port_buffer = narrows_harness::scenario::spec::QueueLimit::Bytes(pool);
    for (alpha, share) in [((1, 1), 2), ((1, 3), 4)] {
        spec.net.shared_buffer = Some(SharedBuffer { size: pool, alpha });
        let run = Incast::default()
            .run(&spec, RunContext::default())
            .expect("a run");
        let (held, expected) = (run.max_queue.bytes.get(), pool.get() / share);
        assert!(held.abs_diff(expected) < 4_000, "{held} of {expected}");
        assert!(run.drops.port_full > 0);
    }
}
