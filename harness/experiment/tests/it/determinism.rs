//! A seed gives the same results and the same bytes, however the run is made.

use narrows::{ByteCount, Duration};
use narrows_experiment::execute::{GoOn, Listener, execute};
use narrows_experiment::plan::{Plan, Shard};
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::incast::Incast;
use narrows_experiment::scenario::spec::{
    Aqm, BlockSize, DelayedAck, EcnUse, Length, QueueLimit, RequestOrder,
};
use narrows_experiment::scenario::{IncastRun, IncastRunner, IncastSpec, RunContext};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

fn base() -> IncastSpec {
    let mut spec = IncastSpec {
        servers: 9,
        ..IncastSpec::default()
    };
    spec.block = BlockSize::Sru(ByteCount::new(60_000));
    spec.length = Length::Blocks {
        blocks: 3,
        time_limit: Duration::from_secs(60),
    };
    spec.net.port_buffer = QueueLimit::Packets(30);
    spec.net.aqm = Aqm::EcnStep(QueueLimit::Packets(10));
    spec.tcp.rto = "1ms".to_owned();
    spec
}

/// What is varied in the tests below, with a name for messages.
fn variants() -> Vec<(&'static str, IncastSpec)> {
    let with = |change: &dyn Fn(&mut IncastSpec)| {
        let mut spec = base();
        change(&mut spec);
        spec
    };
    vec![
        ("reno", base()),
        ("cubic", with(&|s| s.tcp.congestion = "cubic".to_owned())),
        ("dctcp", with(&|s| s.tcp.congestion = "dctcp".to_owned())),
        ("classic ECN", with(&|s| s.tcp.ecn = EcnUse::Classic)),
        ("rack", with(&|s| s.tcp.loss_detector = "rack".to_owned())),
        (
            "newreno without SACK",
            with(&|s| {
                s.tcp.loss_detector = "newreno".to_owned();
                s.tcp.sack = false;
            }),
        ),
        ("no timestamps", with(&|s| s.tcp.timestamps = false)),
        ("timestamps", with(&|s| s.tcp.timestamps = true)),
        (
            "delayed ACK",
            with(&|s| {
                let timeout = Duration::from_millis(1);
                s.tcp.delayed_ack = DelayedAck::On {
                    segments: 2,
                    timeout,
                };
            }),
        ),
        (
            "randomised RTO",
            with(&|s| s.tcp.rto = "fine-randomized".to_owned()),
        ),
        (
            "short NIC queue",
            with(&|s| s.net.server_nic = QueueLimit::Packets(3)),
        ),
    ]
}

fn run(spec: &IncastSpec) -> IncastRun {
    Incast::default()
        .run(spec, RunContext::default())
        .expect("the spec can be run")
}

fn captured(spec: &IncastSpec) -> (IncastRun, Vec<u8>) {
    let mut file = Vec::new();
    let ctx = RunContext {
        capture: Some(&mut file),
        ..RunContext::default()
    };
    (
        Incast::default()
            .run(spec, ctx)
            .expect("the spec can be run"),
        file,
    )
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
        let bytes = captured(&IncastSpec { wire: true, ..spec });
        assert_eq!(typed.0, bytes.0, "{name}");
        assert!(typed.1 == bytes.1, "{name}: the captures differ");
    }
}

#[test]
fn results_of_a_sweep_do_not_depend_on_the_threads() {
    let registry = Registry::default();
    let mut experiment = base().experiment();
    for (key, value) in [
        ("run.repetitions", "2"),
        ("sweep.\"host.tcp.congestion\"", "reno,dctcp"),
        ("sweep.\"host.tcp.rto\"", "1ms,fine"),
        ("sweep.\"network.hosts\"", "2,4,9,13"),
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
    let two = captured(&IncastSpec { seed: 2, ..base() });
    assert_ne!(one.0.block_times, two.0.block_times);
    assert!(one.1 != two.1);
    // Seeds that differ in one bit, far apart in it.
    let high = captured(&IncastSpec {
        seed: 1 | 1 << 63,
        ..base()
    });
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
fn fingerprints(spec: &IncastSpec, n: u8) -> Vec<Fingerprint> {
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
    let mut spec = base();
    spec.request.order = RequestOrder::Fixed;
    spec.start_jitter = Duration::from_micros(100);
    spec.servers = 5;
    let five = fingerprints(&spec, 5);
    for servers in [6, 12] {
        let more = fingerprints(
            &IncastSpec {
                servers,
                ..spec.clone()
            },
            5,
        );
        assert_eq!(five, more, "with {servers} servers");
    }
    let other = fingerprints(&IncastSpec { seed: 2, ..spec }, 5);
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
