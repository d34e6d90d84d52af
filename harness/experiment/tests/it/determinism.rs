//! A seed gives the same results and the same bytes, however the run is made.

use crate::incast::{captured, shipped, with};
use narrows_experiment::execute::{GoOn, Listener, execute};
use narrows_experiment::model::Experiment;
use narrows_experiment::plan::{Plan, Shard};
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::{IncastRun, RunContext};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

fn base() -> Experiment {
    let values = [
        ("servers", "9"),
        ("sru", "60kB"),
        ("blocks", "3"),
        ("run.duration", "60s"),
        ("buffer", "30p"),
        ("ecn-threshold", "10p"),
        ("rto", "1ms"),
    ];
    shipped("incast", &values)
}

/// What is varied in the tests below, with a name for messages.
fn variants() -> Vec<(&'static str, Experiment)> {
    let varied: [(&str, &[(&str, &str)]); 12] = [
        ("reno", &[]),
        ("cubic", &[("cc", "cubic")]),
        ("dctcp", &[("cc", "dctcp")]),
        ("classic ECN", &[("ecn", "classic")]),
        ("rack", &[("loss", "rack")]),
        (
            "newreno without SACK",
            &[("loss", "newreno"), ("sack", "off")],
        ),
        ("go-back-n", &[("loss", "go-back-n")]),
        ("no timestamps", &[("timestamps", "off")]),
        ("timestamps", &[("timestamps", "on")]),
        ("delayed ACK", &[("delayed-ack", "2/1ms")]),
        ("randomised RTO", &[("rto", "fine-randomized")]),
        ("short NIC queue", &[("server-nic", "3p")]),
    ];
    let of = |(name, values)| (name, with(&base(), values));
    varied.map(of).into()
}

fn run(spec: &Experiment) -> IncastRun {
    crate::incast::run(spec, RunContext::default())
}

#[test]
fn two_runs_are_the_same_bit_for_bit_and_a_capture_changes_nothing() {
    let mut lossy = 0;
    for (name, spec) in variants() {
        let first = captured(&spec);
        lossy += u32::from(first.0.drops.total() > 0);
        assert!(
            first.1.len() > 1_000_000,
            "{name}: the payload is in the capture"
        );
        assert!(first == captured(&spec), "{name}: two runs differ");
        assert_eq!(run(&spec), first.0, "{name}: the capture changed the run");
    }
    assert!(lossy > 8, "only {lossy} of the variants lost anything");
}

#[test]
fn packets_that_go_through_bytes_change_nothing() {
    for (name, spec) in variants() {
        let typed = captured(&spec);
        let bytes = captured(&with(&spec, &[("run.wire", "on")]));
        assert_eq!(typed.0, bytes.0, "{name}");
        assert!(typed.1 == bytes.1, "{name}: the captures differ");
    }
}

#[test]
fn results_of_a_sweep_do_not_depend_on_the_threads() {
    let registry = Registry::default();
    let mut experiment = base();
    for (key, value) in [
        ("run.repetitions", "2"),
        ("sweep.\"host.tcp.congestion\"", "reno,dctcp"),
        ("sweep.\"host.tcp.rto\"", "1ms,fine"),
        ("sweep.\"group.servers.size\"", "1,3,8,12"),
    ] {
        experiment.set(&registry, key, value).unwrap();
    }
    let plan = Plan::new(&experiment, &registry).unwrap();
    let runs: Vec<_> = plan.part(Shard::WHOLE).collect();
    assert_eq!(runs.len(), 32);
    let on = |threads| {
        let done = Mutex::new(BTreeMap::new());
        let listener = Listener {
            step: &|_| {},
            ended: &|run, outcome| {
                done.lock().unwrap().insert(run, outcome.unwrap());
                GoOn::Yes
            },
        };
        let cancel = AtomicBool::new(false);
        let first = RunContext::default();
        execute(&plan, &registry, &runs, threads, &cancel, first, listener);
        done.into_inner().unwrap()
    };
    let one = on(1);
    assert_eq!(one.len(), 32);
    assert_eq!(one, on(2));
    assert_eq!(one, on(5));
    // Nor on there being a sweep at all.
    let alone = plan.experiment(runs[17], &registry).unwrap();
    let alone = alone.run(&registry, RunContext::default()).unwrap();
    assert_eq!(one[&runs[17]], alone);
}

#[test]
fn another_seed_is_another_run() {
    let one = captured(&base());
    let two = captured(&with(&base(), &[("run.seed", "2")]));
    assert_ne!(one.0.block_times, two.0.block_times);
    assert!(one.1 != two.1);
    // Seeds that differ in one bit, far apart in it.
    let seed = (1_u64 | 1 << 63).to_string();
    let high = captured(&with(&base(), &[("run.seed", &seed)]));
    assert_ne!(one.0.block_times, high.0.block_times);
}

/// What a server shows of its random streams in a capture: initial sequence number and port of
/// the client's connection to it, and the time between the switch forwarding the request and
/// getting the first data.
#[derive(Debug, PartialEq, Eq)]
struct Fingerprint {
    isn: u32,
    port: u16,
    nanos: u64,
}

/// Of the first `n` servers.
fn fingerprints(spec: &Experiment, n: u8) -> Vec<Fingerprint> {
    let (_, file) = captured(spec);
    let mut packets = Vec::new();
    let mut rest = &file[..];
    let word = |b: &[u8], at: usize| u32::from_le_bytes(b[at..at + 4].try_into().unwrap());
    while !rest.is_empty() {
        let (block, after) = rest.split_at(word(rest, 4) as usize);
        if word(block, 0) == 6 {
            let nanos = u64::from(word(block, 12)) << 32 | u64::from(word(block, 16));
            packets.push((nanos, &block[28..28 + word(block, 20) as usize]));
        }
        rest = after;
    }
    let payload = |p: &[u8]| p.len() - 20 - usize::from(p[32] >> 4) * 4;
    let find = |side: usize, server: u8, is: &dyn Fn(&[u8]) -> bool| {
        *packets
            .iter()
            .find(|(_, p)| p[side + 3] == server + 2 && is(p))
            .expect("there is one")
    };
    (0..n)
        .map(|server| {
            let (_, syn_ack) = find(12, server, &|p| p[33] & 0x12 == 0x12);
            let (asked, _) = find(16, server, &|p| payload(p) > 0);
            let (answered, _) = find(12, server, &|p| payload(p) > 0);
            Fingerprint {
                isn: u32::from_be_bytes(syn_ack[24..28].try_into().unwrap()),
                port: u16::from_be_bytes(syn_ack[22..24].try_into().unwrap()),
                nanos: answered - asked,
            }
        })
        .collect()
}

#[test]
fn a_server_more_does_not_shift_the_random_streams_of_the_others() {
    let values = [("order", "fixed"), ("jitter", "100us"), ("servers", "5")];
    let spec = with(&base(), &values);
    let five = fingerprints(&spec, 5);
    for servers in ["6", "12"] {
        let more = fingerprints(&with(&spec, &[("servers", servers)]), 5);
        assert_eq!(five, more, "with {servers} servers");
    }
    let other = fingerprints(&with(&spec, &[("run.seed", "2")]), 5);
    for (a, b) in five.iter().zip(&other) {
        assert!(
            a.isn != b.isn && a.nanos != b.nanos,
            "the seed is in all of it: {a:?} {b:?}"
        );
    }
    assert!(
        five.windows(2).all(|w| w[0].nanos != w[1].nanos),
        "{five:?}"
    );
}
