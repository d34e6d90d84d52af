use super::*;
use crate::execute::{GoOn, Listener, execute};
use crate::file::{Loaded, text_of};
use crate::model::Experiment;
use crate::plan::{Plan, Shard};
use crate::registry::Registry;
use crate::results::Record;
use crate::run::RunOutcome;
use crate::scenario::incast::Incast;
use crate::scenario::spec::{IncastSpec, Length, QueueLimit};
use crate::scenario::{IncastRunner, Outcome, RunContext};
use crate::summary::{Holds, Summary};
use narrows::{ByteCount, Duration, Rate};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

#[test]
fn what_ships_can_be_run_as_printed() {
    let registry = Registry::default();
    for shipped in ALL {
        let loaded = Loaded::parse(shipped.name, shipped.text, &registry);
        let experiment = loaded.unwrap_or_else(|e| panic!("{e}")).experiment;
        assert_eq!(experiment.title, shipped.title());
        assert!(!experiment.about.is_empty(), "{}", shipped.name);
        let plan = Plan::new(&experiment, &registry).unwrap();
        plan.check(&registry)
            .unwrap_or_else(|e| panic!("{}: {e}", shipped.name));
        let again = Loaded::parse(shipped.name, &text_of(&experiment), &registry).unwrap();
        assert_eq!(text_of(&again.experiment), text_of(&experiment));
    }
}

/// What a shipped file says.
fn experiment(name: &str) -> Experiment {
    let text = Shipped::get(name).unwrap().text;
    let loaded = Loaded::parse(name, text, &Registry::default());
    loaded.unwrap_or_else(|e| panic!("{e}")).experiment
}

/// With other values, by their short names.
fn with(name: &str, values: &[(&str, &str)]) -> Experiment {
    let registry = Registry::default();
    let mut experiment = experiment(name);
    for (key, value) in values {
        experiment.set(&registry, key, value).unwrap();
    }
    experiment
}

fn run(experiment: &Experiment) -> RunOutcome {
    let outcome = experiment.run(&Registry::default(), RunContext::default());
    outcome.unwrap_or_else(|e| panic!("{e}"))
}

/// That a run of an experiment is one of `narrows incast`, in every number that both have.
fn same(experiment: &Experiment, spec: &IncastSpec) -> RunOutcome {
    let what = format!("{} servers, {:?}", spec.servers, spec.tcp);
    let incast = Incast::default().run(spec, RunContext::default()).unwrap();
    let ran = run(experiment);
    assert_eq!(
        (ran.outcome, incast.outcome),
        (Outcome::Completed, Outcome::Completed)
    );
    let took: Vec<Duration> = ran.transfers.iter().map(|t| t.took).collect();
    assert_eq!(took, incast.block_times, "{what}");
    assert_eq!(ran.events, incast.events, "{what}");
    let to_client = |f: &&crate::run::FlowOutcome| f.to == 0;
    assert_eq!(ran.delivered(), incast.payload, "{what}");
    assert_eq!(ran.measured, incast.simulated, "{what}");
    let goodput = Rate::of(ran.delivered(), ran.measured);
    assert_eq!(goodput, Some(incast.goodput), "{what}");
    let sum = |of: fn(&crate::run::PortOutcome) -> u64| ran.ports.iter().map(of).sum::<u64>();
    let drops = sum(|p| if p.nic { 0 } else { p.dropped_by_queue() });
    assert_eq!(drops, incast.drops.total(), "{what}");
    let refused = sum(|p| if p.nic { p.dropped_by_queue() } else { 0 });
    assert_eq!(
        refused,
        incast.refused.server + incast.refused.client,
        "{what}"
    );
    assert_eq!(sum(|p| p.marks), incast.marks, "{what}");
    let port = ran.ports.iter().find(|p| p.name == "s0->h0").unwrap();
    assert_eq!(port.max_bytes, incast.max_queue.bytes.get(), "{what}");
    let timeouts: u64 = ran.flows.iter().map(|f| f.timeouts()).sum();
    assert_eq!(timeouts, incast.timeouts.total(), "{what}");
    let servers = ran.flows.iter().filter(to_client);
    let segments = servers.fold((0, 0, 0), |(all, again, fast), f| {
        let s = &f.sender;
        (
            all + s.segments,
            again + s.retransmits,
            fast + s.fast_recoveries,
        )
    });
    let theirs = (
        incast.data_packets,
        incast.retransmitted_packets,
        incast.fast_retransmits,
    );
    assert_eq!(segments, theirs, "{what}");
    ran
}

fn blocks(blocks: u32) -> Length {
    Length::Blocks {
        blocks,
        time_limit: Duration::from_secs(600),
    }
}

#[test]
fn incast_is_what_the_command_runs() {
    let base = experiment("incast");
    let of = |key: &str| {
        let axis = base.sweep.iter().find(|a| a.key == base.axis_name(key));
        axis.unwrap_or_else(|| panic!("{key}")).values.clone()
    };
    assert_eq!(of("cc"), ["reno", "cubic", "dctcp"]);
    assert_eq!(of("rto"), ["linux", "1ms", "fine"]);
    let counts = ["1", "2", "4", "8", "12", "16", "24", "32", "48", "64"];
    assert_eq!(of("servers"), counts);
    assert_eq!(base.get("traffic.read.blocks").as_deref(), Some("20"));
    let (mut timeouts, mut marks) = (0, 0);
    for (servers, cc, rto, seed) in [
        (1, "reno", "linux", 1),
        (8, "cubic", "linux", 2),
        (16, "reno", "1ms", 1),
        (24, "cubic", "fine", 3),
        (32, "dctcp", "linux", 1),
        (64, "dctcp", "1ms", 4),
        (48, "reno", "linux", 9),
    ] {
        let mut spec = IncastSpec {
            servers,
            length: blocks(4),
            seed,
            ..IncastSpec::default()
        };
        spec.tcp.congestion = cc.to_owned();
        spec.tcp.rto = rto.to_owned();
        let values = [
            ("servers", &*servers.to_string()),
            ("cc", cc),
            ("rto", rto),
            ("blocks", "4"),
            ("run.seed", &*seed.to_string()),
        ];
        let ran = same(&with("incast", &values), &spec);
        timeouts += ran.flows.iter().map(|f| f.timeouts()).sum::<u64>();
        marks += ran.ports.iter().map(|p| p.marks).sum::<u64>();
    }
    assert!(timeouts > 0 && marks > 0, "{timeouts} {marks}");
    // Options under their short names.
    let mut spec = IncastSpec {
        servers: 12,
        length: blocks(3),
        ..IncastSpec::default()
    };
    spec.net.port_buffer = QueueLimit::Packets(40);
    spec.net.link_rate = Rate::from_gbps(10);
    spec.block = crate::scenario::spec::BlockSize::Fixed(ByteCount::new(1 << 20));
    spec.tcp.initial_window = 4;
    let values = [
        ("servers", "12"),
        ("blocks", "3"),
        ("buffer", "40p"),
        ("rate", "10Gb/s"),
        ("block", "1MiB"),
        ("initial-window", "4"),
    ];
    same(&with("incast", &values), &spec);
}

#[test]
fn fast08_is_the_preset() {
    let mut timeouts = 0;
    for (servers, buffer, seed) in [
        (1, 64, 1),
        (2, 64, 5),
        (4, 32, 1),
        (8, 64, 1),
        (16, 64, 2),
        (32, 256, 1),
    ] {
        let mut spec = IncastSpec {
            servers,
            length: blocks(6),
            seed,
            ..IncastSpec::fast08()
        };
        spec.net.port_buffer = QueueLimit::Packets(buffer);
        let values = [
            ("servers", &*servers.to_string()),
            ("buffer", &*format!("{buffer}p")),
            ("traffic.read.blocks", "6"),
            ("run.duration", "600s"),
            ("run.seed", &*seed.to_string()),
        ];
        let ran = same(&with("fast08", &values), &spec);
        timeouts += ran.flows.iter().map(|f| f.timeouts()).sum::<u64>();
    }
    assert!(timeouts > 0);
    // Without end.
    let spec = IncastSpec {
        servers: 12,
        length: Length::Time(Duration::from_millis(900)),
        ..IncastSpec::fast08()
    };
    same(
        &with("fast08", &[("servers", "12"), ("run.duration", "900ms")]),
        &spec,
    );
}

/// What was expected of a shipped experiment, and did not come out.
fn unmet(name: &str) -> Vec<String> {
    let registry = Registry::default();
    let plan = Plan::new(&experiment(name), &registry).unwrap();
    let runs: Vec<_> = plan.part(Shard::WHOLE).collect();
    let records = Mutex::new(Vec::new());
    let listener = Listener {
        step: &|_| (),
        ended: &|run, outcome| {
            let outcome = outcome.unwrap_or_else(|e| panic!("{name}: {e}"));
            let record = Record::of(&plan, run, &outcome, &registry);
            records.lock().unwrap().push(record);
            GoOn::Yes
        },
    };
    let never = AtomicBool::new(false);
    let plain = RunContext::default();
    execute(&plan, &registry, &runs, 2, &never, plain, listener);
    let records = records.into_inner().unwrap();
    let summary = Summary::new(&plan, &records);
    let verdicts = summary.verdicts(&registry.metrics).unwrap();
    assert!(!verdicts.is_empty(), "{name} expects nothing");
    let unmet = verdicts.iter().filter(|v| v.holds != Holds::Yes);
    unmet.map(|v| format!("{name}: {v:?}")).collect()
}

#[test]
fn what_ships_gives_what_it_expects() {
    for name in QUICK {
        assert_eq!(unmet(name), Vec::<String>::new());
    }
}

/// What the text of an experiment says came out is expected in its file, which CI runs.
#[test]
fn what_ships_expects_something() {
    for shipped in ALL {
        assert!(
            !experiment(shipped.name).expect.is_empty(),
            "{}",
            shipped.name
        );
    }
}

/// Those that take a second or two.
const QUICK: [&str; 2] = ["dctcp-queue", "small-writes"];

/// A key of the sweep, of the x axis and of an expectation may be a short name.
#[test]
fn short_names_are_their_keys() {
    let registry = Registry::default();
    let base = experiment("small-writes");
    let axes: Vec<&str> = base.sweep.iter().map(|a| a.key.as_str()).collect();
    let keys = [
        "traffic.call.reply_writes",
        "traffic.call.server_nodelay",
        "host.tcp.delayed_ack",
    ];
    assert_eq!(axes, keys);
    assert_eq!(base.show.x.as_deref(), Some(keys[1]));
    assert_eq!(base.expect[0].place.get(keys[2]), Some("2/40ms"));
    let mut varied = base.clone();
    varied.set(&registry, "sweep.nodelay", "on,tcp").unwrap();
    assert_eq!(varied.sweep[1].values, ["on", "tcp"]);
    varied.set(&registry, "reply", "9kB").unwrap();
    assert_eq!(varied.get("traffic.call.reply").as_deref(), Some("9kB"));
    for (name, key) in [("run", "run.seed"), ("a b", "run.seed"), ("s", "a..b")] {
        let key = varied.set(&registry, &format!("short.\"{name}\""), key);
        assert!(key.is_err(), "{name}");
    }
}

/// One call in time, the next one too late: it is counted once, and not before the warm-up ends.
#[test]
fn calls_that_time_out_have_failed() {
    let slow = [
        ("calls", "10"),
        ("traffic.call.service", "20ms"),
        ("traffic.call.timeout", "5ms"),
        ("pause", "20ms"),
    ];
    let ran = run(&with("small-writes", &slow));
    assert_eq!((ran.failed.as_slice(), ran.transfers.len()), (&[10][..], 0));
    let late = [&slow[..], &[("run.warm_up", "55ms")]].concat();
    let ran = run(&with("small-writes", &late));
    assert!((7..10).contains(&ran.failed[0]), "{:?}", ran.failed);
    let quick = [&slow[..], &[("traffic.call.timeout", "1s")]].concat();
    assert_eq!(run(&with("small-writes", &quick)).failed, [0]);
}
