//! The worked example: its own topology, traffic, probe, metric and congestion control.

#[path = "../examples/own_experiment/main.rs"]
#[allow(dead_code, reason = "its main")]
mod own;

use narrows_experiment::file::{Loaded, text_of};
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
