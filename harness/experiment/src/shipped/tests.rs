use super::*;
use crate::execute::{GoOn, Listener, execute};
use crate::file::{Loaded, text_of};
use crate::model::Experiment;
use crate::plan::{Plan, Shard};
use crate::registry::Registry;
use crate::results::Record;
use crate::run::RunOutcome;
use crate::scenario::RunContext;
use crate::summary::{Holds, Summary};
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

#[test]
fn incast_varies_what_the_papers_vary() {
    let base = experiment("incast");
    let of = |key: &str| {
        let axis = base.sweep.iter().find(|a| a.key == base.axis_name(key));
        axis.unwrap_or_else(|| panic!("{key}")).values.to_vec()
    };
    assert_eq!(of("cc"), ["reno", "cubic", "dctcp"]);
    assert_eq!(of("rto"), ["linux", "1ms", "fine"]);
    let counts = ["1", "2", "4", "8", "12", "16", "24", "32", "48", "64"];
    assert_eq!(of("servers"), counts);
    assert_eq!(base.get("traffic.read.blocks").as_deref(), Some("20"));
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
    assert_eq!(*varied.sweep[1].values, ["on", "tcp"]);
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
