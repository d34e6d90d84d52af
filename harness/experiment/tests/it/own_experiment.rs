//! The worked example: its own topology, queue discipline, traffic, probe, metric and congestion
//! control.

#[path = "../../examples/own_experiment/main.rs"]
#[allow(dead_code, reason = "its main")]
mod own;

use narrows_experiment::file::{Loaded, text_of};
use narrows_experiment::model::Experiment;
use narrows_experiment::net::stats::DropReason;
use narrows_experiment::registry::Registry;
use narrows_experiment::run::RunOutcome;
use narrows_experiment::scenario::RunContext;
use narrows_experiment::study::Study;

#[test]
fn an_experiment_of_ones_own_runs_and_is_measured() {
    let registry = own::registry();
    let experiment = own::experiment(&registry).unwrap_or_else(|e| panic!("{e}"));
    let study = Study::run(&experiment, &registry, 2).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(study.points().len(), 4);
    for point in study.points() {
        for run in point.runs() {
            assert_eq!(run.outcome, "completed", "seed {}", run.seed);
        }
        let is = |metric| point.metric(metric).unwrap_or_else(|e| panic!("{e}")).mean;
        // 12 hosts, 20 blocks each.
        assert_eq!(is("transfers"), 240.0);
        assert_eq!(is("received"), 240.0 * 200_000.0);
        assert!(is("latency.stretch") >= 1.0);
        assert!((0.0..=1.0).contains(&is("busy.rack0->rack1.share")));
    }
    let busy = |control: &str, every: &str| {
        let at = [
            ("host.tcp.congestion", control),
            ("traffic.copies.every", every),
        ];
        let point = study.at(&at).unwrap();
        point.metric("busy.rack0->rack1.share").unwrap().mean
    };
    for control in ["reno", "gentle"] {
        assert!(busy(control, "4ms") > busy(control, "8ms"), "{control}");
    }
    // The control is run, not only named.
    assert_ne!(busy("reno", "4ms"), busy("gentle", "4ms"));
    let table = own::table(&study).unwrap();
    assert_eq!(table.lines().count(), 5, "{table}");
}

/// Where it queues the oldest packet makes room: nothing that arrives is dropped.
#[test]
fn a_queue_of_ones_own_drops_from_the_front() {
    let registry = own::registry();
    let mut experiment = own::experiment(&registry).unwrap();
    let key = "network.trunk.queue.discipline";
    experiment.set(&registry, key, "drop-front").unwrap();
    let ctx = RunContext::default;
    let run = experiment.run(&registry, ctx()).unwrap();
    let dropped = |of: &RunOutcome, reason| -> u64 {
        let trunks = of.ports.iter().filter(|p| p.tiers.0 == p.tiers.1);
        trunks.map(|p| p.dropped(reason)).sum()
    };
    assert!(dropped(&run, DropReason::PushOut) > 0);
    assert_eq!(dropped(&run, DropReason::Full), 0);
    experiment.set(&registry, key, "drop-tail").unwrap();
    let tail = experiment.run(&registry, ctx()).unwrap();
    assert_eq!(dropped(&tail, DropReason::PushOut), 0);
    assert!(dropped(&tail, DropReason::Full) > 0);
    let wrong = experiment.set(&registry, key, "drop-font").unwrap_err();
    assert!(
        wrong.to_string().contains("did you mean 'drop-front'?"),
        "{wrong}"
    );
    let with = experiment.set(&registry, key, "codel:3").unwrap_err();
    assert!(with.to_string().contains("not of the form"), "{with}");
    let mut taken = own::registry();
    let codel = registry.disciplines.get("drop-front").unwrap();
    taken.disciplines_mut().register_arc("codel", "", codel);
    let wrong = experiment.set(&taken, key, "codel").unwrap_err();
    assert!(wrong.to_string().contains("under another name"), "{wrong}");
    let with = experiment.set(&registry, key, "drop-front:3").unwrap_err();
    assert!(with.to_string().contains("takes no parameters"), "{with}");
    experiment.set(&registry, key, "drop-front").unwrap();
    let other = "network.trunk.queue.threshold";
    experiment.set(&registry, other, "30kB").unwrap();
    let wrong = experiment.check(&registry).unwrap_err().to_string();
    assert!(wrong.contains("drop-front has none"), "{wrong}");
    // Where it is not registered, its name says nothing.
    let key = "network.queue.discipline";
    let unknown = Experiment::default().set(&Registry::default(), key, "drop-front");
    let unknown = unknown.unwrap_err().to_string();
    assert!(
        unknown.contains("there is no queue discipline 'drop-front'"),
        "{unknown}"
    );
}

/// What was built is a file like any other.
#[test]
fn its_words_stand_in_files() {
    let registry = own::registry();
    let experiment = own::experiment(&registry).unwrap();
    let text = text_of(&experiment);
    let loaded = Loaded::parse("own.toml", &text, &registry).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(text_of(&loaded.experiment), text);
    let typo = text.replace("\"mirror\"", "\"miror\"");
    let error = Loaded::parse("own.toml", &typo, &registry).unwrap_err();
    assert!(
        error.to_string().contains("did you mean 'mirror'?"),
        "{error}"
    );
}
