//! What the twins of stories run on hosts of the kernel's, and what packets cost there.
//!
//! Held is what a loud machine cannot turn round. Where the machine cannot, a test is skipped with a
//! message; with `CI=true` it fails.
#![cfg(target_os = "linux")]

mod skip;

use narrows::{ByteCount, Rate};
use narrows_lab::LiveError;
use narrows_lab::bulk::{HoldSpec, LocalDropSpec, hold, local_drop};
use narrows_lab::stall::{StallSpec, Writers};
use narrows_lab::writes::WritesSpec;
use narrows_lab::{calibrate, stall, writes};
use skip::skip;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

static GO_ON: AtomicBool = AtomicBool::new(false);

/// What came of it, if the machine can.
fn done<T>(result: Result<T, LiveError>) -> Option<T> {
    result.map_err(|why| skip(&why.to_string())).ok()
}

/// Idle restart, a window of three packets and a delayed ACK together make answers wait for 40 ms;
/// without any one of them they do not. A tail loss probe ends the wait earlier.
#[test]
fn small_writes_wait_for_a_delayed_ack() {
    let base = WritesSpec {
        calls: 5,
        ..WritesSpec::default()
    };
    let change = |change: fn(&mut WritesSpec)| {
        let mut spec = base.clone();
        change(&mut spec);
        spec
    };
    let specs = [
        base.clone(),
        change(|spec| spec.idle_restart = false),
        change(|spec| spec.delayed_ack = false),
        change(|spec| spec.initial_window = 10),
        change(|spec| spec.writes = vec![400]),
    ];
    let runs: Vec<_> = thread::scope(|scope| {
        let run = |spec| scope.spawn(move || writes::run(spec, &GO_ON));
        let runs: Vec<_> = specs.iter().map(run).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let Some(runs) = done(runs.into_iter().collect::<Result<Vec<_>, _>>()) else {
        return;
    };
    let medians = runs.into_iter().map(|mut run| {
        run.sort();
        run[run.len() / 2]
    });
    let medians: Vec<Duration> = medians.collect();
    let wait = Duration::from_millis(35);
    assert!(medians[0] >= wait, "{medians:?}");
    assert!(medians[1..].iter().all(|m| *m < wait), "{medians:?}");
}

#[test]
fn a_queue_of_a_few_refuses_sends_and_one_of_a_thousand_does_not() {
    let run = |packets: u64| {
        let spec = LocalDropSpec {
            rate: Rate::from_mbps(100),
            limit: ByteCount::new(packets * 1_514),
            span: Duration::from_secs(1),
        };
        local_drop(&spec, &GO_ON)
    };
    let Some(small) = done(run(4)) else { return };
    assert!(small.refused > 0, "{small:?}");
    let large = run(1_000).unwrap();
    assert_eq!(large.refused, 0, "{large:?}");
}

/// A window of 16 kB (which the kernel may take for a half more) in a round trip of a millisecond.
#[test]
fn a_small_window_waits_for_the_timer_of_aggregates() {
    let spec = HoldSpec {
        rate: Rate::from_gbps(1),
        hold: Duration::from_millis(1),
        narrow: ByteCount::new(16_000),
        span: Duration::from_secs(1),
    };
    let Some(seen) = done(hold(&spec, &GO_ON)) else {
        return;
    };
    assert!(seen.segments_per_packet > 1.5, "{seen:?}");
    assert!(seen.narrow < 250e6, "{seen:?}");
}

#[test]
fn a_busy_port_suspends_a_node_and_idle_links_wait() {
    let spec = |writers| StallSpec {
        clients: 3,
        rate: Rate::from_mbps(200),
        slow: Rate::from_mbps(5),
        slow_from: Duration::from_millis(500),
        slow_until: Duration::from_millis(1_000),
        buffer: ByteCount::new(64 << 10),
        every: Duration::from_millis(2),
        reply: ByteCount::new(10_000),
        busy_limit: ByteCount::new(128 << 10),
        writers,
        span: Duration::from_secs(2),
    };
    let Some(held) = done(stall::run(&spec(Writers::Suspend), &GO_ON)) else {
        return;
    };
    let longest = held.suspended.iter().max().copied().unwrap_or_default();
    assert!(longest > Duration::from_millis(50), "{longest:?}");
    // Nobody else kept the clients on idle links waiting.
    let (gap, explained) = (held.longest_gap, held.suspended_in_it);
    assert!(explained * 2 > gap, "{explained:?} of {gap:?}");
    let free = stall::run(&spec(Writers::Async), &GO_ON).unwrap();
    assert!(free.suspended.is_empty(), "{:?}", free.suspended);
    assert!(free.most_queued > held.most_queued);
}

#[test]
fn packets_have_their_price() {
    let Some(seen) = done(calibrate::run(&GO_ON)) else {
        return;
    };
    let costs = seen.costs;
    assert!(costs.packet > 0.0 && costs.kilobyte > 0.0, "{costs:?}");
    let Some(merging) = seen.merging else {
        return skip("veth merges nothing here");
    };
    assert!(merging.segments_per_aggregate > 4.0, "{merging:?}");
    assert!(merging.merged < merging.apart, "{merging:?}");
}
