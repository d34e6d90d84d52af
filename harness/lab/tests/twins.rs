//! What the twins of stories run on hosts of the kernel's, and what packets cost there.
//!
//! Held is what a loud machine cannot turn round. Where the machine cannot, a test is skipped with a
//! message; with `CI=true` it fails.
#![cfg(target_os = "linux")]

mod skip;

use narrows::config::{IdleRestart, InitialWindow, TcpConfig, WindowCount};
use narrows::device::marking::Draw;
use narrows::{ByteCount, Rate};
use narrows_experiment::registry::Registry;
use narrows_lab::LiveError;
use narrows_lab::bulk::remembering::{RememberingSpec, remembering};
use narrows_lab::bulk::{HoldSpec, LocalDropSpec, hold, hold_ours, local_drop};
use narrows_lab::burst::BurstSpec;
use narrows_lab::calibrate::Gro;
use narrows_lab::segmenting::{self, Load, Tso};
use narrows_lab::shaping::{self, Conformance, ShapingSpec};
use narrows_lab::stall::{BusyPolicy, StallSpec, erlang};
use narrows_lab::writes::WritesSpec;
use narrows_lab::{burst, calibrate, marked, stall, writes};
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

/// The same with a server of ours, whose window counts packets: it waits for the kernel's delayed ACK, and
/// with a window that counts bytes it does not.
#[test]
fn small_writes_of_ours_wait_for_a_delayed_ack_of_the_kernels() {
    let spec = WritesSpec {
        calls: 4,
        ..WritesSpec::default()
    };
    let tcp = |window_count| TcpConfig {
        window_count,
        initial_window: InitialWindow::Segments(3),
        idle_restart: IdleRestart::Rfc5681,
        nagle: false,
        detector: Registry::default().detectors.get("rack-notlp").unwrap(),
        ..TcpConfig::default()
    };
    let counts = [WindowCount::Packets, WindowCount::Bytes];
    let runs: Vec<_> = thread::scope(|scope| {
        let spec = &spec;
        let run = |count| scope.spawn(move || writes::run_ours(spec, tcp(count), &GO_ON));
        let runs: Vec<_> = counts.into_iter().map(run).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let Some(mut runs) = done(runs.into_iter().collect::<Result<Vec<_>, _>>()) else {
        return;
    };
    runs.iter_mut().for_each(|run| run.sort());
    let medians: Vec<Duration> = runs.iter().map(|run| run[run.len() / 2]).collect();
    assert!(medians[0] >= Duration::from_millis(35), "{medians:?}");
    assert!(medians[1] < Duration::from_millis(35), "{medians:?}");
}

/// What tbf lets go at once is what its bucket holds, and so it is of the simulated one; then both carry
/// their rate. The kernel's stamps say when packets have left, however late whoever looks at them is. A machine
/// that is late itself fills the bucket meanwhile: tbf carries less then, never more, and of a few tries one
/// tells.
#[test]
fn a_shaper_of_the_kernels_and_a_simulated_one_let_go_the_same() {
    let spec = ShapingSpec::default();
    let simulated = shaping::simulated(&spec, narrows::Duration::ZERO).unwrap();
    let mut tries = Vec::new();
    let alike = |(burst, rate): &(f64, f64)| *burst >= 0.95 && *rate >= 0.9;
    while tries.len() < 5 && !tries.iter().any(alike) {
        let Some(kernels) = done(shaping::kernel(&spec, &GO_ON)) else {
            return;
        };
        let Conformance { burst, rate } = kernels;
        tries.push((burst / simulated.burst, rate / simulated.rate));
    }
    let most = |(burst, rate): &(f64, f64)| *burst < 1.05 && *rate < 1.05;
    assert!(tries.iter().all(most), "{tries:?}");
    assert!(tries.iter().any(alike), "{tries:?}");
}

/// Segments that a sender of ours writes together are merged unless marks alternate.
#[test]
fn a_receiver_of_the_kernels_merges_what_ours_writes_and_not_what_is_marked_in_turn() {
    let run = |draw| marked::run_ours(draw, TcpConfig::default(), &GO_ON);
    let Some(plain) = done(run(Draw::Share(0))) else {
        return;
    };
    let alternating = run(Draw::EverySecond).unwrap();
    assert!(plain.packets < 8.0, "{plain:?}");
    assert!(
        (31.0..34.0).contains(&alternating.packets),
        "{alternating:?}"
    );
}

/// Ports that queries keep a fifth busy drop some of what hosts of ours reply, and readings of short times
/// are further from the mean.
#[test]
fn bursts_of_hosts_of_ours_overflow_ports_that_are_mostly_idle() {
    let spec = BurstSpec {
        hosts: 6,
        rate: Rate::from_mbps(200),
        buffer: ByteCount::new(13 << 10),
        load: Rate::from_mbps(34),
        servers: 3,
        size: ByteCount::new(6_000),
        span: Duration::from_secs(2),
        seed: 1,
    };
    let periods = [500, 8].map(Duration::from_millis);
    let Some(seen) = done(burst::run_ours(
        &spec,
        TcpConfig::default(),
        &periods,
        &GO_ON,
    )) else {
        return;
    };
    let rates = |nth: usize| seen.tracks[nth].readings(0, seen.arrived).rates;
    let (long, short) = (rates(0), rates(1));
    let mean = long.iter().sum::<f64>() / long.len() as f64;
    let most = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max);
    assert!((10e6..80e6).contains(&mean), "{mean}");
    assert!(most(&short) > 1.5 * most(&long), "{long:?}");
    assert!(seen.drops > 0);
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
    let least = Duration::from_micros(700);
    assert!(seen.round_trip.is_none_or(|rtt| rtt > least), "{seen:?}");
    let ours = hold_ours(&spec, TcpConfig::default(), &GO_ON).unwrap();
    assert!(ours.narrow > 1e6 && ours.narrow < 250e6, "{ours:?}");
    assert!(ours.round_trip.unwrap() > least, "{ours:?}");
}

fn stalled(busy_policy: BusyPolicy) -> StallSpec {
    StallSpec {
        clients: 3,
        rate: Rate::from_mbps(200),
        slow: Rate::from_mbps(5),
        slow_from: Duration::from_millis(500),
        slow_until: Duration::from_millis(1_000),
        buffer: ByteCount::new(64 << 10),
        every: Duration::from_millis(2),
        reply: ByteCount::new(10_000),
        busy_limit: ByteCount::new(128 << 10),
        busy_policy,
        span: Duration::from_secs(2),
    }
}

#[test]
fn a_busy_port_suspends_a_node_and_idle_links_wait() {
    let Some(held) = done(stall::run(&stalled(BusyPolicy::Suspend), &GO_ON)) else {
        return;
    };
    let longest = held.suspended.iter().max().copied().unwrap_or_default();
    assert!(longest > Duration::from_millis(50), "{longest:?}");
    // Nobody else kept the clients on idle links waiting.
    let (gap, explained) = (held.longest_gap, held.suspended_in_it);
    assert!(explained * 2 > gap, "{explained:?} of {gap:?}");
    let free = stall::run(&stalled(BusyPolicy::Async), &GO_ON).unwrap();
    assert!(free.suspended.is_empty(), "{:?}", free.suspended);
    assert!(free.most_queued > held.most_queued);
}

#[test]
fn a_busy_port_suspends_a_node_of_ours_too() {
    let spec = stalled(BusyPolicy::Suspend);
    let Some(held) = done(stall::run_ours(&spec, TcpConfig::default(), &GO_ON)) else {
        return;
    };
    let all: Duration = held.suspended.iter().sum();
    assert!(all > Duration::from_millis(100), "{all:?}");
    let (gap, explained) = (held.longest_gap, held.suspended_in_it);
    assert!(explained * 2 > gap, "{explained:?} of {gap:?}");
    let free = stalled(BusyPolicy::Async);
    let free = stall::run_ours(&free, TcpConfig::default(), &GO_ON).unwrap();
    assert!(free.suspended.is_empty(), "{:?}", free.suspended);
    assert!(free.most_queued > held.most_queued);
}

/// The emulator that the model is of: its server is suspended until nearly all that waits is written,
/// 128 KiB at 5 Mb/s, and not for a reply or two of them.
#[test]
fn erlang_suspends_its_server_until_the_queue_is_written() {
    if !erlang::is_installed() {
        skip(&format!("there is no erl: {} has it", erlang::PACKAGE));
        return;
    }
    let held = erlang::run(&stalled(BusyPolicy::Suspend), &GO_ON);
    let Some(held) = done(held).map(|held| held.run) else {
        return;
    };
    let longest = held.suspended.iter().max().copied().unwrap_or_default();
    assert!(longest > Duration::from_millis(150), "{longest:?}");
    let (gap, explained) = (held.longest_gap, held.suspended_in_it);
    assert!(explained * 2 > gap, "{explained:?} of {gap:?}");
    assert!(held.most_queued >= 128 << 10, "{}", held.most_queued);
    let relay = erlang::run(&stalled(BusyPolicy::Relay), &GO_ON).unwrap();
    assert!(relay.run.suspended.is_empty(), "{relay:?}");
    assert!(relay.run.most_queued > held.most_queued, "{relay:?}");
    let refused = erlang::run(&stalled(BusyPolicy::NoSuspend), &GO_ON).unwrap();
    assert!(refused.run.suspended.is_empty(), "{refused:?}");
    assert!(refused.dropped > 0, "{refused:?}");
    assert!(erlang::run(&stalled(BusyPolicy::Async), &GO_ON).is_err());
    assert!(stall::run(&stalled(BusyPolicy::Relay), &GO_ON).is_err());
}

#[test]
fn packets_have_their_price() {
    let Some(seen) = done(calibrate::run(&GO_ON)) else {
        return;
    };
    let costs = seen.costs;
    assert!(costs.packet > 0.0 && costs.kilobyte > 0.0, "{costs:?}");
    let Some(merged) = seen.merged else {
        return skip("veth merges nothing here");
    };
    let unmerged = seen.unmerged;
    assert!(merged.segments_per_packet > 4.0, "{merged:?}");
    assert!(merged.ns < unmerged.ns, "{merged:?} {unmerged:?}");
    let single = unmerged.segments_per_packet;
    assert!((0.9..1.1).contains(&single), "{unmerged:?}");
    // Of either the model's time is the costs of packets that were counted otherwise.
    for (live, gro) in [(unmerged, Gro::Off), (merged, Gro::On)] {
        let simulated = calibrate::simulated(&costs, gro).unwrap();
        let like = simulated.ns / live.ns;
        assert!((0.4..2.5).contains(&like), "{live:?} {simulated:?}");
    }
}

#[test]
fn a_super_frame_is_one_packet_at_the_host_and_many_on_the_wire() {
    for load in [Load::Replies(10_000), Load::Replies(30_000), Load::Bulk] {
        let Some(on) = done(segmenting::kernel(load, Tso::On, &GO_ON)) else {
            return;
        };
        let off = segmenting::kernel(load, Tso::Off, &GO_ON).unwrap();
        if load != Load::Bulk {
            let simulated = segmenting::simulated(load, Tso::On).unwrap();
            let like = on.host / simulated.host;
            assert!((0.7..1.3).contains(&like), "{load:?} {on:?} {simulated:?}");
        }
        assert!(on.host > 4_000.0, "{load:?} {on:?}");
        for wire in [on.wire, off.wire, off.host] {
            assert!(
                (1_000.0..=1_460.0).contains(&wire),
                "{load:?} {on:?} {off:?}"
            );
        }
    }
}

/// The rule that the threshold follows is that of `live_metrics` in `stack/tests`; here it is stored, taken
/// and flushed.
#[test]
fn a_second_connection_of_the_kernels_begins_with_what_is_remembered_and_with_nothing_flushed() {
    let run = |remembers| {
        let spec = RememberingSpec {
            queue: LocalDropSpec {
                rate: Rate::from_mbps(100),
                limit: ByteCount::new(4 * 1_514),
                span: Duration::from_millis(200),
            },
            before: ByteCount::new(3_000_000),
            remembers,
        };
        remembering(&spec, &GO_ON)
    };
    let Some(remembered) = done(run(true)) else {
        return;
    };
    let remembered = remembered.thresholds;
    assert!(remembered.left.is_some(), "{remembered:?}");
    assert!(remembered.stored >= remembered.left, "{remembered:?}");
    assert_eq!(remembered.begun, remembered.stored, "{remembered:?}");
    let flushed = run(false).unwrap().thresholds;
    assert!(flushed.left.is_some(), "{flushed:?}");
    assert_eq!((flushed.stored, flushed.begun), (None, None), "{flushed:?}");
}
