//! Switches that pause, whose outputs are split, and whose pools have reserves.

use narrows_experiment::file::Loaded;
use narrows_experiment::model::Experiment;
use narrows_experiment::registry::Registry;
use narrows_experiment::run::RunOutcome;
use narrows_experiment::scenario::RunContext;
use narrows_experiment::shipped::Shipped;

fn shipped(name: &str, values: &[(&str, &str)]) -> Experiment {
    let registry = Registry::default();
    let text = Shipped::get(name).unwrap().text;
    let loaded = Loaded::parse(name, text, &registry);
    let mut experiment = loaded.unwrap_or_else(|e| panic!("{e}")).experiment;
    for (key, value) in values {
        let set = experiment.set(&registry, key, value);
        set.unwrap_or_else(|e| panic!("{key}: {e}"));
    }
    experiment
}

fn run(experiment: &Experiment) -> RunOutcome {
    let outcome = experiment.run(&Registry::default(), RunContext::default());
    outcome.unwrap_or_else(|e| panic!("{e}"))
}

fn goodput(run: &RunOutcome, traffic: &str) -> f64 {
    let number = run.traffic.iter().position(|name| name == traffic);
    let flows = run.flows.iter();
    let flows = flows.filter(|f| Some(usize::from(f.traffic)) == number);
    let bytes: u64 = flows.map(|f| f.received.get()).sum();
    bytes as f64 * 8e9 / run.measured.as_nanos() as f64
}

fn drops(run: &RunOutcome) -> u64 {
    let switches = run.ports.iter().filter(|p| !p.nic);
    switches.map(|p| p.dropped_by_queue()).sum()
}

#[test]
fn pause_frames_cure_an_incast_on_one_switch_twice_alike() {
    let values = [("servers", "16"), ("blocks", "3")];
    let of = |pause| {
        run(&shipped(
            "pause",
            &[&values[..], &[("pause", pause)]].concat(),
        ))
    };
    let (off, on) = (of("off"), of("802.3x"));
    assert!(drops(&off) > 0 && drops(&on) == 0);
    assert!(off.simulated > on.simulated * 3);
    let paused = |run: &RunOutcome| run.ports.iter().map(|p| p.pause.received).sum::<u64>();
    assert!(paused(&off) == 0 && paused(&on) > 0);
    assert!(
        on == of("802.3x"),
        "the same experiment gives the same outcome"
    );
}

/// Where queries meet, a pause of the trunk is one of all that cross it, and a pause of a host is one of that host.
#[test]
fn pause_frames_for_queries_slow_who_crosses_the_trunk_and_nobody_on_one_switch() {
    let of = |pause| {
        let values = [
            ("pause", pause),
            ("load", "400Mb/s"),
            ("run.duration", "700ms"),
        ];
        run(&shipped("microbursts-trunk", &values))
    };
    let (off, on) = (of("off"), of("802.3x"));
    assert!(drops(&off) > 0 && drops(&on) == 0);
    let slowest = |run: &RunOutcome, traffic: &str| {
        let number = run.traffic.iter().position(|name| name == traffic);
        let calls = run.transfers.iter();
        let calls = calls.filter(|t| Some(usize::from(t.traffic)) == number);
        calls.map(|t| t.took).max().expect("a call")
    };
    let times = |traffic| {
        let [with, without] = [&on, &off].map(|run| slowest(run, traffic).as_nanos() as f64);
        with / without
    };
    let (victim, near) = (times("victim"), times("near"));
    assert!(victim > 3.0, "{victim} times as long");
    assert!(near < 1.05, "{near} times as long");
}

/// 802.3x holds the trunk for the crowd and the victim; with PFC a victim of a class of its own
/// crosses the same trunk, and nobody loses a packet.
#[test]
fn a_class_of_its_own_saves_the_victim_from_the_crowd() {
    let of = |pause, buffer, dscp| {
        let values = [
            ("pause", pause),
            ("cc", "cubic"),
            ("racks", "three"),
            ("traffic.victim.tcp.dscp", dscp),
            ("buffer", buffer),
            ("run.duration", "25ms"),
        ];
        let ran = run(&shipped("pause-victim", &values));
        assert_eq!(drops(&ran), 0, "{pause}");
        goodput(&ran, "victim") / 1e9
    };
    // Each of the eight classes has its part of the memory.
    let link = of("802.3x", "250kB", "8");
    let (shared, own) = (of("pfc", "2MB", "0"), of("pfc", "2MB", "8"));
    assert!(link < 4.0 && shared < 4.0, "{link} and {shared} Gb/s");
    assert!(own > 12.0, "{own} Gb/s");
}

#[test]
fn what_does_not_go_together_is_told() {
    let registry = Registry::default();
    let why = |name, values: &[(&str, &str)]| {
        let error = shipped(name, values).check(&registry).unwrap_err();
        error.to_string()
    };
    let small = why("pause", &[("pause", "802.3x"), ("buffer", "8kB")]);
    assert!(
        small.contains("s0->h0") && small.contains("8000 bytes"),
        "{small}"
    );
    let shared = why(
        "pause",
        &[("pause", "802.3x"), ("network.shared_buffer", "1MB")],
    );
    assert!(shared.contains("network.pause.mode"), "{shared}");
    let red = why(
        "pause",
        &[("pause", "802.3x"), ("network.queue.discipline", "red")],
    );
    assert!(red.contains("red does not go with it"), "{red}");
    let split = why(
        "split-output",
        &[("split", "2"), ("network.queue.discipline", "codel")],
    );
    assert!(split.contains("queue"), "{split}");
    let reserve = why("pause", &[("network.port_reserve", "1kB")]);
    assert!(reserve.contains("shared_buffer"), "{reserve}");
    let much = why(
        "pause",
        &[
            ("network.port_reserve", "50kB"),
            ("network.shared_buffer", "100kB"),
        ],
    );
    assert!(much.contains("lower the reserve"), "{much}");
}
