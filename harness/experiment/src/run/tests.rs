//! Runs of whole experiments.

use crate::file::Loaded;
use crate::net::stats::DropReason;
use crate::registry::Registry;
use crate::run::RunOutcome;
use crate::scenario::{Outcome, RunContext};
use crate::traffic::TrafficKinds;

fn run(text: &str) -> RunOutcome {
    let registry = Registry::default();
    let loaded = Loaded::parse("x.toml", text, &registry).unwrap_or_else(|e| panic!("{e}"));
    let outcome = loaded.experiment.run(&registry, RunContext::default());
    outcome.unwrap_or_else(|e| panic!("{e}"))
}

const COPY: &str = r#"
[network]
topology = "leaf-spine"
leaves = 2
spines = 2
hosts = 4
link = { rate = "10Gb/s", delay = "1us" }
queue = { limit = "128KiB", discipline = "ecn-step", threshold = "90kB" }
[host.tcp]
congestion = "dctcp"
[[traffic]]
name = "copy"
kind = "bulk"
from = "rack0"
to = "rack1"
size = "400kB"
[[traffic]]
name = "noise"
kind = "bulk"
from = "h7"
to = "h0"
start = "1ms"
[[probe]]
name = "q"
kind = "queue"
on = "leaf1->host"
series = "polled"
every = "100us"
[[probe]]
name = "p"
kind = "rate"
on = "leaf1->h7"
every = ["1ms", "100us"]
[[probe]]
name = "f"
kind = "flow"
on = "h0..h1"
[run]
duration = "10ms"
warm_up = "500us"
"#;

#[test]
fn what_comes_in_has_been_sent() {
    let outcome = run(COPY);
    assert_eq!(outcome.outcome, Outcome::Completed);
    assert_eq!(outcome.simulated.as_nanos(), 10_000_000);
    assert_eq!(outcome.measured.as_nanos(), 9_500_000);
    let copies = outcome.transfers.iter().filter(|t| t.traffic == 0);
    assert_eq!(copies.count(), 16);
    let registry = Registry::default();
    let of = |name: &str| {
        let all = registry.metrics.of_run(&outcome);
        let found = all.iter().find(|n| n.name == name);
        found.unwrap_or_else(|| panic!("no {name}")).value.value()
    };
    assert!(of("noise.goodput") > 5e9, "{}", of("noise.goodput"));
    assert!(of("copy.received") <= 6.4e6 && of("copy.received") > 3e6);
    assert!(of("marks") > 0.0);
    assert!(of("utilisation") <= 1.001);
    assert!(of("fairness") > 0.0 && of("copy.fairness") <= 1.0);
    assert!(of("q.leaf1->h7.max_bytes") >= of("q.leaf1->h7.mean_bytes"));
    assert!(of("p.leaf1->h7.max.100us") >= of("p.leaf1->h7.max.1ms"));
    assert!(of("max_queue") <= 131_072.0);
}

#[test]
fn the_same_experiment_gives_the_same_bits() {
    let (a, b) = (run(COPY), run(COPY));
    assert_eq!(a, b);
    let wired = run(&COPY.replace("[run]", "[run]\nwire = true"));
    assert_eq!(a, wired);
}

#[test]
fn ip_version_six_runs_too() {
    let text = COPY.replace("leaves = 2", "leaves = 2\nip = \"v6\"");
    let outcome = run(&text.replace("\"10ms\"", "\"2s\""));
    assert_eq!(outcome.outcome, Outcome::Completed);
    let copies = outcome.transfers.iter().filter(|t| t.traffic == 0);
    assert_eq!(copies.count(), 16);
}

#[test]
fn a_run_ends_when_its_traffic_does_or_says_that_it_was_cut() {
    let finite = COPY
        .split("[[traffic]]\nname = \"noise\"")
        .collect::<Vec<_>>();
    let rest = finite[1].split_once("[[probe]]").unwrap().1;
    let text = format!("{}[[probe]]{rest}", finite[0]);
    let outcome = run(&text);
    assert_eq!(outcome.outcome, Outcome::Completed);
    assert!(outcome.simulated.as_nanos() < 10_000_000);
    let outcome = run(&text.replace("\"10ms\"", "\"600us\""));
    assert_eq!(outcome.outcome, Outcome::TimeLimit);
}

#[test]
fn an_own_group_has_an_own_tcp() {
    let text = COPY.replace(
        "[[traffic]]\nname = \"copy\"",
        "[group.old]\nhosts = \"h0..h1\"\n[group.old.tcp]\ninitial_window = 1\ncongestion = \"reno\"\n[[traffic]]\nname = \"copy\"",
    );
    let outcome = run(&text);
    let first = |host: &str| {
        let reading = outcome
            .readings
            .iter()
            .find(|(p, r)| p == "f" && r.of.starts_with(host));
        let (_, reading) = reading.unwrap();
        reading.series.as_ref().unwrap().rows[0].clone()
    };
    assert_eq!(first("h0").len(), 10, "Reno shows no alpha");
    let plain = run(COPY);
    let reading = plain.readings.iter().find(|(p, _)| p == "f").unwrap();
    let columns = &reading.1.series.as_ref().unwrap().columns;
    assert!(columns.contains(&"alpha".to_owned()), "{columns:?}");
}

/// An endless sender whose window is larger than its host's NIC queue keeps that full; what else
/// the host has to send gets its turn all the same.
#[test]
fn an_endless_sender_starves_no_other_connection_of_its_host() {
    let text = r#"
[network]
hosts = 3
link = { rate = "1Gb/s", delay = "10us" }
queue = { limit = "10MB" }
[host.nic]
tx_queue = "50p"
[[traffic]]
name = "noise"
kind = "bulk"
from = "h0"
to = "h1"
[[traffic]]
name = "copy"
kind = "bulk"
from = "h2"
to = "h0"
size = "1MB"
start = "50ms"
[[traffic]]
name = "answer"
kind = "bulk"
from = "h0"
to = "h2"
size = "1MB"
start = "50ms"
[run]
duration = "400ms"
"#;
    let outcome = run(text);
    let of = |traffic: u16| {
        let mut all = outcome
            .transfers
            .iter()
            .filter(move |t| t.traffic == traffic);
        all.next().map(|t| t.took.as_millis())
    };
    // 8 ms by itself; acknowledgements, or half the line, behind the noise.
    assert!(of(1).is_some_and(|ms| ms < 60), "{:?}", of(1));
    assert!(of(2).is_some_and(|ms| ms < 60), "{:?}", of(2));
}

const CHANGING: &str = r#"
[network]
hosts = 2
link = { rate = "1Gb/s", delay = "10us" }
queue = { limit = "256KiB" }
[[traffic]]
name = "copy"
kind = "bulk"
from = "h1"
to = "h0"
[[probe]]
name = "p"
kind = "rate"
on = "s0->h0"
every = ["10ms"]
[run]
duration = "100ms"
"#;

/// The readings of the poller, in Mb/s.
fn rates(outcome: &RunOutcome) -> Vec<u64> {
    let (_, reading) = outcome.readings.iter().find(|(p, _)| p == "p").unwrap();
    let rows = reading.series.as_ref().unwrap().rows.iter();
    rows.map(|row| (row[1].unwrap() / 1e6) as u64).collect()
}

#[test]
fn a_link_changes_its_rate_and_back() {
    let text = format!(
        "{CHANGING}[[change]]\nat = \"30ms\"\nfor = \"20ms\"\non = \"s0->h0\"\nlink = {{ rate = \"100Mb/s\" }}\n"
    );
    let outcome = run(&text);
    let rates = rates(&outcome);
    for (n, rate) in rates.iter().enumerate() {
        let expected = if (3..5).contains(&n) {
            90..101
        } else {
            800..1_001
        };
        // What is lost at the change is made up for first.
        assert!(
            expected.contains(rate) || n == 0 || n == 5,
            "{n}: {rates:?}"
        );
    }
    let made: Vec<&str> = outcome
        .changes
        .iter()
        .map(|(_, what)| what.as_str())
        .collect();
    assert_eq!(
        made,
        [
            "link.rate = 100Mb/s at s0->h0",
            "end of link.rate = 100Mb/s at s0->h0"
        ]
    );
}

#[test]
fn a_link_goes_down_again_and_again() {
    let text = format!(
        "{CHANGING}[[change]]\nat = \"20ms\"\nfor = \"10ms\"\nevery = \"40ms\"\non = \"s0<->h0\"\nwhat = \"link-down\"\n"
    )
    .replace("[run]", "[host.tcp]\nrto = \"1ms\"\n[run]");
    let outcome = run(&text);
    let rates = rates(&outcome);
    assert_eq!((rates[2], rates[6]), (0, 0), "{rates:?}");
    assert!(
        rates[1] > 800 && rates[4] > 500 && rates[8] > 500,
        "{rates:?}"
    );
    // The last comes as the run ends.
    assert_eq!(outcome.changes.len(), 5);
}

/// The leaf takes another spine at once. A spine that has no other way drops until the leaf knows.
#[test]
fn a_trace_tells_of_each_change_as_it_comes_and_goes() {
    let text = format!(
        "{CHANGING}[[change]]\nat = \"20ms\"\nfor = \"10ms\"\nevery = \"40ms\"\non = \"s0<->h0\"\nwhat = \"link-down\"\n"
    );
    let registry = Registry::default();
    let loaded = Loaded::parse("x.toml", &text, &registry).unwrap_or_else(|e| panic!("{e}"));
    let mut trace = Vec::new();
    let ctx = RunContext {
        trace: Some(&mut trace),
        ..RunContext::default()
    };
    let outcome = loaded.experiment.run(&registry, ctx).expect("runs");
    let trace = String::from_utf8(trace).expect("text");
    let told: Vec<(u64, String, String)> = trace
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .filter(|line| line["event"] == "change")
        .map(|line| {
            let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
            (line["ns"].as_u64().unwrap_or(0), text("what"), text("way"))
        })
        .collect();
    let made = outcome.changes.len();
    assert!(made > 2, "{told:?}");
    assert_eq!(told.len(), made);
    let down = "link down at s0<->h0";
    assert_eq!(told[0], (20_000_000, down.to_owned(), "make".to_owned()));
    assert_eq!(told[1], (30_000_000, down.to_owned(), "undo".to_owned()));
}

#[test]
fn a_route_is_withdrawn_for_a_while() {
    let no_route = |outcome: &RunOutcome| -> u64 {
        let ports = outcome.ports.iter();
        ports.map(|p| p.dropped(DropReason::NoRoute)).sum()
    };
    let with = |convergence: &str, on: &str| {
        let change = format!("[[change]]\nat = \"2ms\"\non = \"{on}\"\nwhat = \"withdraw\"\n");
        let network = format!("[network]\nconvergence = \"{convergence}\"\n");
        let endless = COPY.replace("size = \"400kB\"\n", "");
        run(&format!(
            "{}{change}",
            endless.replace("[network]\n", &network)
        ))
    };
    let bytes = |outcome: &RunOutcome, name: &str| {
        let port = outcome.ports.iter().find(|p| p.name == name);
        port.map_or(0, |p| p.bytes)
    };
    for (convergence, on, lossless) in [
        ("0s", "leaf0->spine0", true),
        ("3ms", "leaf0->spine0", true),
        ("3ms", "spine0->leaf1", false),
    ] {
        let outcome = with(convergence, on);
        assert_eq!(no_route(&outcome) == 0, lossless, "{convergence} {on}");
        let (out, other) = (bytes(&outcome, on), bytes(&outcome, "leaf0->spine1"));
        assert!(out > 0 && 3 * out < other, "{on}: {out} of {other}");
        assert_eq!(outcome.changes.len(), 1);
    }
}

#[test]
fn hosts_pause_and_lose_their_rings() {
    for what in ["pause", "ring-loss"] {
        let text = format!(
            "{CHANGING}[[change]]\nat = \"40ms\"\nfor = \"10ms\"\non = \"h1\"\nwhat = \"{what}\"\n"
        )
        // What a NIC holds is sent while its host pauses.
        .replace("[run]", "[host]\nnic.tx_queue = \"20p\"\ntcp.rto = \"1ms\"\n[run]");
        let rates = rates(&run(&text));
        assert!(
            rates[4] < 100 && rates[3] > 800 && rates[8] > 500,
            "{what}: {rates:?}"
        );
    }
}

const OFFLOADS: &str = r#"
[network]
topology = "star"
hosts = 2
[host.tcp]
timestamps = false
[group.h0.nic]
gro = "off"
rx_frames = 4
rx_usecs = "100us"
[[traffic]]
name = "copy"
kind = "bulk"
from = "h1"
to = "h0"
[run]
duration = "100ms"
"#;

/// Changes of h0's receive offload: each is when it comes, and what more it is.
fn of_offload(changes: &[(&str, &str)]) -> String {
    let change = |(at, more): &(&str, &str)| {
        let more = more.replace(", ", "\n");
        format!("[[change]]\non = \"h0\"\nat = \"{at}\"\n{more}\n")
    };
    let changes: String = changes.iter().map(change).collect();
    format!("{OFFLOADS}{changes}")
}

/// What is toggled or set is what earlier changes left, in whatever order the file has them; and so is
/// what comes back.
#[test]
fn changes_of_receive_offload_know_of_those_before() {
    const TOGGLE: &str = "what = \"toggle\", for = \"20us\"";
    const TO_OFF: &str = "what = \"toggle\", for = \"20us\", nic.gro = \"off\"";
    const FOR_GOOD: &str = "nic.gro = \"32KiB\"";
    const A_WHILE: &str = "nic.gro = \"32KiB\", for = \"20ms\"";
    let (on, off, set) = (
        "receive offload is 65535 bytes at h0",
        "receive offload is off at h0",
        "receive offload is 32768 bytes at h0",
    );
    for (changes, expected) in [
        ([("20ms", TOGGLE), ("40ms", TOGGLE)], [(20, on), (40, off)]),
        ([("20ms", TOGGLE), ("40ms", TO_OFF)], [(20, on), (40, off)]),
        ([("40ms", TO_OFF), ("20ms", TOGGLE)], [(20, on), (40, off)]),
        (
            [("20ms", FOR_GOOD), ("40ms", TOGGLE)],
            [(20, set), (40, off)],
        ),
        ([("20ms", A_WHILE), ("40ms", TOGGLE)], [(20, set), (40, on)]),
        ([("40ms", TOGGLE), ("20ms", A_WHILE)], [(20, set), (40, on)]),
    ] {
        let outcome = run(&of_offload(&changes));
        let made = outcome.changes.iter();
        let made: Vec<(u64, &str)> = made
            .map(|(at, what)| (at.as_nanos() / 1_000_000, what.as_str()))
            .filter(|(_, what)| !what.starts_with("end"))
            .collect();
        assert_eq!(made, expected, "{changes:?}");
    }
    // What a while's end gives back is what the toggle made of it.
    let merged = |changes: &[(&str, &str)]| {
        let outcome = run(&of_offload(changes));
        let all = Registry::default().metrics.of_run(&outcome);
        let found = all.iter().find(|m| m.name == "frames_per_aggregate");
        found.expect("it is measured").value.value()
    };
    let back = merged(&[("10ms", TOGGLE), ("20ms", A_WHILE)]);
    let for_good = merged(&[("10ms", TOGGLE)]);
    assert!(back > 0.8 * for_good && back > 2.0, "{back} {for_good}");
    for changes in [
        [("20ms", A_WHILE), ("30ms", TOGGLE)],
        [("30ms", TOGGLE), ("20ms", A_WHILE)],
        [("20ms", A_WHILE), ("20ms", FOR_GOOD)],
        [("20ms", TOGGLE), ("20ms", TOGGLE)],
        [
            ("20ms", "what = \"toggle\", for = \"1ms\", every = \"5ms\""),
            ("50ms", FOR_GOOD),
        ],
    ] {
        let registry = Registry::default();
        let loaded = Loaded::parse("x.toml", &of_offload(&changes), &registry).unwrap();
        let why = loaded.experiment.check(&registry).unwrap_err().why;
        assert!(
            why.contains("at h0: receive offload is to be two things at once"),
            "{why}"
        );
    }
}

#[test]
fn impossible_changes_are_refused_before_anything_runs() {
    let registry = Registry::default();
    for (change, key, part) in [
        ("on = \"s0->h9\"\nwhat = \"link-down\"", "change.0.on", "h9"),
        ("on = \"s0->h0\"", "change.0.what", "nothing is set"),
        (
            "on = \"h0\"\nwhat = \"pause\"",
            "change.0.for",
            "for how long",
        ),
        ("what = \"link-down\"", "change.0.on", "where"),
        (
            "on = \"s0->h0\"\nwhat = \"withdraw\"",
            "change.0.what",
            "no route",
        ),
        (
            "on = \"h0->s0\"\nqueue = { discipline = \"codel\" }",
            "change.0.queue",
            "NIC",
        ),
        (
            "on = \"s0->h0\"\nqueue = { threshold = \"9p\" }",
            "change.0.queue.threshold",
            "drop-tail",
        ),
        (
            "on = \"s0->h0\"\nfor = \"2s\"\nevery = \"1s\"\nwhat = \"link-down\"",
            "change.0.for",
            "again",
        ),
        (
            "on = \"h0\"\nfor = \"1ms\"\nwhat = \"toggle\"\nnic = { gro = \"off\" }",
            "change.0.nic.gro",
            "already",
        ),
        (
            "on = \"h0\"\nwhat = \"toggle\"",
            "change.0.for",
            "for how long",
        ),
        (
            "on = \"h0\"\nfor = \"1ms\"\nwhat = \"pause\"\nnic = { gro = \"off\" }",
            "change.0.nic.gro",
            "toggle",
        ),
        (
            "on = \"h0\"\nnic = { gro = \"off\" }\nlink = { rate = \"1Gb/s\" }",
            "change.0.link.rate",
            "two changes",
        ),
        (
            "on = \"s0->h0\"\nlink = { framing = \"none\" }",
            "change.0.link.framing",
            "cannot change",
        ),
    ] {
        let text = format!("{CHANGING}[[change]]\nat = \"1ms\"\n{change}\n");
        let loaded = Loaded::parse("x.toml", &text, &registry).unwrap_or_else(|e| panic!("{e}"));
        let e = loaded.experiment.check(&registry).unwrap_err();
        assert_eq!(e.key, key, "{change}: {e}");
        assert!(e.why.contains(part), "{change}: {e}");
    }
}

#[test]
fn a_graph_is_listed_by_name() {
    let text = r#"
[network]
topology = "graph"
host_names = ["a", "b", "c"]
switches = ["left", "right"]
cables = ["a - left", "b - left", "left - right", "right - c"]
[network.port."left->right"]
link = { rate = "100Mb/s" }
[[traffic]]
name = "copy"
kind = "bulk"
from = "a"
to = "c"
size = "1MB"
[run]
duration = "2s"
"#;
    let outcome = run(text);
    assert_eq!(outcome.outcome, Outcome::Completed);
    // 1 MB at 95 Mb/s of payload.
    let took = outcome.transfers[0].took.as_millis();
    assert!((84..200).contains(&took), "{took} ms");
    assert_eq!(outcome.ports.iter().filter(|p| p.packets > 0).count(), 6);
}

/// The value of a metric.
fn value(outcome: &RunOutcome, name: &str) -> f64 {
    let all = Registry::default().metrics.of_run(outcome);
    let found = all.iter().find(|n| n.name == name);
    found.unwrap_or_else(|| panic!("no {name}")).value.value()
}

/// Connections whose SYNs are lost are told of, at the end of the warm-up and of the run.
#[test]
fn connections_that_are_opening_are_counted() {
    let text = r#"
[network]
hosts = 4
[[traffic]]
name = "copy"
kind = "bulk"
from = "h2..h3"
to = "h1"
size = "10kB"
[[traffic]]
name = "late"
kind = "bulk"
from = "h1..h3"
to = "h0"
size = "10kB"
start = "20ms"
[[change]]
at = "0s"
for = "1s"
on = "s0->h0"
what = "link-down"
[run]
warm_up = "30ms"
duration = "40ms"
"#;
    let of = |outcome: &RunOutcome| {
        let at = |o: &crate::run::Opening| (o.at_begin, o.at_end);
        outcome.opening.iter().map(at).collect::<Vec<_>>()
    };
    let outcome = run(text);
    assert_eq!(of(&outcome), [(Some(0), 0), (Some(3), 3)]);
    assert_eq!(value(&outcome, "opening"), 3.0);
    assert_eq!(value(&outcome, "late.opening.begin"), 3.0);
    // Without a warm-up there is no beginning at which they could be open.
    let outcome = run(&text.replace("30ms", "0s"));
    assert_eq!(of(&outcome), [(None, 0), (None, 3)]);
}

/// What a NIC refuses was not sent: each segment that was is in the time sequence.
#[test]
fn segments_leave_out_what_nics_refused() {
    let text = r#"
[network]
hosts = 3
[host.nic]
tx_queue = "4p"
[[traffic]]
name = "copy"
kind = "bulk"
from = "h1..h2"
to = "h0"
size = "300kB"
[[probe]]
name = "seen"
kind = "time-sequence"
on = "h1..h2"
"#;
    let outcome = run(text);
    assert!(value(&outcome, "refused") > 0.0);
    let seen = |what: &str| -> f64 {
        let values = outcome.readings.iter().flat_map(|(_, r)| &r.values);
        values.filter(|v| v.0 == what).map(|v| v.2.value()).sum()
    };
    assert_eq!(value(&outcome, "segments"), seen("segments"));
    assert_eq!(value(&outcome, "retransmits"), seen("again"));
}

/// A copy whose sender's window is watched.
const WINDOW: &str = r#"
[network]
hosts = 2
link = { rate = "10Gb/s", delay = "1ms" }
queue = { limit = "64MiB" }
[host.tcp]
congestion = "reno"
local_drop = "reset"
receive_window = "64MiB"
delayed_ack = "off"
[[traffic]]
name = "copy"
kind = "bulk"
from = "h1"
to = "h0"
[[probe]]
name = "window"
kind = "window"
on = "h1"
[run]
duration = "600ms"
"#;

/// What the one probe of a run reads, by the names of its values.
fn seen(text: &str) -> impl Fn(&str) -> Option<f64> + use<> {
    let outcome = run(text);
    let values = outcome.readings.into_iter().flat_map(|(_, r)| r.values);
    let values: Vec<(String, f64)> = values.map(|(n, _, v)| (n, v.value())).collect();
    move |name: &str| values.iter().find(|v| v.0 == name).map(|v| v.1)
}

/// In slow start a window doubles in a round trip (RFC 5681 section 3.1, each segment acknowledged), and
/// comes down for what the network tells: the NIC's refusals, or losses.
#[test]
fn a_window_doubles_in_a_round_trip_and_comes_down_for_what_happened_to_it() {
    let text = WINDOW;
    let clean = seen(&text.replace("600ms", "30ms"));
    let growth = clean("growth").unwrap();
    assert!((1.95..=2.05).contains(&growth), "{growth}");
    assert_eq!((clean("falls"), clean("refusals")), (Some(0.0), Some(0.0)));
    let refused = seen(&format!("{text}[host.nic]\nrefuse = \"0.1%\"\n"));
    assert!(refused("falls") > Some(10.0));
    assert_eq!(refused("falls"), refused("falls.refusal"));
    // A window of one segment cannot come down.
    assert!(refused("refusals") >= refused("falls.refusal"));
    let growth = refused("growth").unwrap();
    assert!((1.9..=2.1).contains(&growth), "{growth}");
    let lossy = "[network.port.\"h1->s0\"]\nlink = { loss = \"0.1%\" }\n";
    let lost = seen(&format!("{text}{lossy}"));
    assert!(lost("falls.loss") > Some(3.0));
    assert_eq!(
        (lost("falls.refusal"), lost("refusals")),
        (Some(0.0), Some(0.0))
    );
}

/// Each fall is counted for its cause, and for no other: marks, a link that is down for longer than the
/// timer, and idle times, each where nothing else happens.
#[test]
fn what_lowers_a_window_is_told_apart() {
    // A window that no queue of a NIC is too short for.
    let calm = WINDOW.replace("64MiB\"\ndelayed", "1MiB\"\ndelayed");
    let calm = format!("{calm}[host.nic]\ntx_queue = \"10000p\"\n");
    let marks = "limit = \"64MiB\", discipline = \"ecn-step\", threshold = \"100kB\"";
    let marked = calm
        .replace("limit = \"64MiB\"", marks)
        .replace("\"reno\"", "\"dctcp\"");
    let marked = format!("{marked}[network.port.\"s0->h0\"]\nlink = {{ rate = \"1Gb/s\" }}\n");
    // Nothing of a window arrives, so that no acknowledgement tells of a loss.
    let away = format!(
        "{calm}[[change]]\nat = \"100ms\"\nfor = \"300ms\"\nlink = {{ loss = \"100%\" }}\non = \"h1->s0\"\n"
    );
    let bursts = "\"on-off\"\nrate = \"1Gb/s\"\nsize = \"5MB\"\nidle = \"1s\"";
    let idle = calm
        .replace("\"bulk\"", bursts)
        .replace("\"reno\"", "\"reno\"\nidle_restart = \"rfc5681\"")
        .replace("600ms", "20s");
    let away = away.replace("600ms", "3s");
    for (cause, text, least) in [
        ("falls.mark", marked, 2.0),
        ("falls.timeout", away, 1.0),
        // A burst takes 40 ms.
        ("falls.idle", idle, 18.0),
    ] {
        let seen = seen(&text);
        assert!(seen(cause) >= Some(least), "{cause}: {:?}", seen(cause));
        assert_eq!(seen(cause), seen("falls"), "{cause}");
        assert_eq!(seen("refusals"), Some(0.0), "{cause}");
    }
}

/// Packets that CoDel takes back between two looks are no underflow.
#[test]
fn a_queue_that_drops_what_it_had_taken_is_counted() {
    let text = r#"
[network]
hosts = 8
queue = { limit = "1MB", discipline = "codel", target = "50us", interval = "100us" }
[network.port."s0->h0"]
link = { rate = "10Mb/s" }
[[traffic]]
name = "copy"
kind = "bulk"
from = "h1..h7"
to = "h0"
size = "14kB"
[run]
duration = "3s"
warm_up = "2ms"
"#;
    let outcome = run(text);
    let port = outcome.ports.iter().find(|p| p.name == "s0->h0").unwrap();
    assert!(port.packets < 1_000, "{}", port.packets);
    assert!(value(&outcome, "drops.early") > 0.0);
}

/// Equal parts of a block are fair, whatever the requests weigh.
#[test]
fn requests_are_no_flows_to_be_fair_to() {
    let text = r#"
[network]
hosts = 4
[[traffic]]
name = "read"
kind = "synchronised-read"
client = "h0"
servers = "h1..h3"
blocks = 3
"#;
    let fairness = value(&run(text), "fairness");
    assert!(fairness > 0.999_999, "{fairness}");
}

#[test]
fn a_later_pattern_changes_what_an_earlier_one_left() {
    let text = r#"
[network]
hosts = 3
[network.port."*->h0"]
queue = { limit = "10kB" }
[network.port."s0->h0"]
queue = { discipline = "ecn-step", threshold = "6kB" }
[host.tcp]
congestion = "dctcp"
[[traffic]]
name = "copy"
kind = "bulk"
from = "h1..h2"
to = "h0"
[run]
duration = "50ms"
"#;
    let outcome = run(text);
    assert!(value(&outcome, "marks") > 0.0);
    let most = value(&outcome, "max_queue");
    assert!(most <= 10_000.0, "{most}");
}

/// The graph has each segment that the sender counts, and ends where the stream does; it changes
/// nothing.
#[test]
fn a_time_sequence_has_every_segment() {
    let text = r#"
[network]
hosts = 3
link = { rate = "100Mb/s", delay = "100us", lose_each = 40 }
[[traffic]]
name = "copy"
kind = "bulk"
from = "h1"
size = "1MB"
[run]
duration = "10s"
"#;
    let plain = run(text);
    let probe = "[[probe]]\nname = \"s\"\nkind = \"time-sequence\"\non = \"h1\"\n";
    let watched = run(&format!("{text}{probe}"));
    assert_eq!(
        (&plain.flows, plain.simulated),
        (&watched.flows, watched.simulated)
    );
    let sender = &watched.flows[0].sender;
    let (_, reading) = &watched.readings[0];
    assert!(reading.of.starts_with("h1->h0:"), "{}", reading.of);
    let value = |name: &str| {
        let found = reading.values.iter().find(|v| v.0 == name);
        found.unwrap().2.value() as u64
    };
    assert!(sender.retransmits > 0);
    assert_eq!(value("segments"), sender.segments);
    assert_eq!(value("again"), sender.retransmits);
    let series = reading.series.as_ref().unwrap();
    let column = |name: &str| -> Vec<f64> {
        let at = series.column(name).unwrap();
        series.rows.iter().filter_map(|row| row[at]).collect()
    };
    let (sent, acked) = (column("sent_bytes"), column("acked_bytes"));
    assert!(sent.is_sorted() && acked.is_sorted() && column("time_ns").is_sorted());
    assert_eq!(sent.last(), Some(&1e6));
    // The run is over when the last byte is there, and before its acknowledgement is.
    assert!(acked.last().is_some_and(|last| *last > 9e5));
    assert_eq!(
        sent.len() + column("again_bytes").len(),
        value("segments") as usize
    );
    assert!(!column("sacked_bytes").is_empty());
    let window = column("window_bytes");
    assert!(window.iter().zip(&acked).all(|(w, a)| w >= a), "{window:?}");
}

/// RED forgets by the time that a packet takes on the wire behind it.
#[test]
fn a_discipline_has_the_rate_of_its_own_port() {
    let text = |link: &str, port: &str| {
        format!(
            r#"
[network]
hosts = 3
link = {{ rate = "{link}", delay = "1ms" }}
queue = {{ limit = "200p", discipline = "red" }}
{port}
[[traffic]]
name = "copy"
kind = "bulk"
size = "2MB"
[run]
duration = "10s"
"#
        )
    };
    let slow = r#"[network.port."s0->h0".link]
rate = "100Mb/s""#;
    let all = |is: &str| format!("{slow}\n[network.port.\"s0->h0\".queue]\nlimit = \"{is}\"");
    let plain = run(&text("1Gb/s", slow));
    assert!(plain.ports[3].dropped_by_queue() > 0);
    // What is set again and not changed, changes nothing.
    assert_eq!(plain, run(&text("1Gb/s", &all("200p"))));
}

#[test]
fn a_link_swallows_what_is_longer_than_it_carries() {
    let text = |size: &str| {
        format!(
            r#"
[network]
hosts = 2
[network.port."s0->h0".link]
mtu = 1400
[[traffic]]
name = "copy"
kind = "bulk"
from = "h1"
size = "{size}"
[run]
duration = "2s"
"#
        )
    };
    let small = run(&text("1kB"));
    assert_eq!(small.outcome, Outcome::Completed);
    assert_eq!(small.ports[2].dropped(DropReason::TooLong), 0);
    let large = run(&text("10kB"));
    assert_ne!(large.outcome, Outcome::Completed);
    assert!(large.ports[2].dropped(DropReason::TooLong) >= 6);
    assert_eq!(large.ports[2].dropped(DropReason::Lost), 0);
}

#[test]
fn packets_are_lost_regularly() {
    let text = |link: &str| {
        format!(
            r#"
[network]
hosts = 2
[network.port."s0->h0".link]
{link}
[[traffic]]
name = "copy"
kind = "bulk"
size = "2MB"
"#
        )
    };
    let lost = run(&text("lose_each = 100"));
    let port = &lost.ports[2];
    assert_eq!(port.dropped(DropReason::Lost), port.packets / 100);
    assert_eq!(lost.outcome, Outcome::Completed);
    let registry = Registry::default();
    let both = text("lose_each = 100\nloss = \"1%\"");
    let loaded = Loaded::parse("x.toml", &both, &registry);
    let refused = loaded.map(|l| l.experiment.check(&registry).map_err(|e| e.to_string()));
    let why = match refused {
        Ok(checked) => checked.unwrap_err(),
        Err(e) => e.to_string(),
    };
    assert!(
        why.contains("lose_each") && why.contains("one or the other"),
        "{why}"
    );
}

#[test]
fn changes_of_one_thing_at_one_time_are_refused() {
    let registry = Registry::default();
    let two = |a: &str, b: &str| {
        let text = format!("{CHANGING}[[change]]\n{a}\n[[change]]\n{b}\n");
        let loaded = Loaded::parse("x.toml", &text, &registry).unwrap_or_else(|e| panic!("{e}"));
        loaded.experiment.check(&registry)
    };
    let slow = "at = \"5ms\"\nfor = \"10ms\"\non = \"s0->h0\"\nlink = { rate = \"100Mb/s\" }";
    let slower = "at = \"10ms\"\non = \"s0->h0\"\nlink = { rate = \"10Mb/s\" }";
    let e = two(slow, slower).unwrap_err();
    assert!(e.key == "change.1.at" && e.why.contains("change.0"), "{e}");
    two(slow, &slower.replace("10ms", "15ms")).unwrap();
    two(slow, &slower.replace("s0->h0", "s0->h1")).unwrap();
    two(
        slow,
        "at = \"6ms\"\non = \"s0->h0\"\nlink = { loss = \"1%\" }",
    )
    .unwrap();
    two(&slower.replace("10ms", "1ms"), slower).unwrap();
}

/// A connection that begins to send later takes the place of no other.
#[test]
fn each_watched_flow_stays_the_same() {
    let text = r#"
[network]
hosts = 6
[[traffic]]
name = "burst"
kind = "on-off"
from = "h1"
to = "*"
[[probe]]
name = "f"
kind = "flow"
on = "h1"
every = "1ms"
[run]
duration = "40ms"
"#;
    let outcome = run(text);
    let mut names: Vec<&str> = outcome
        .readings
        .iter()
        .map(|(_, r)| r.of.as_str())
        .collect();
    assert_eq!(names.len(), 4, "{names:?}");
    for (_, reading) in &outcome.readings {
        let rows = &reading.series.as_ref().unwrap().rows;
        let acked: Vec<f64> = rows.iter().filter_map(|row| row[6]).collect();
        assert!(acked.is_sorted(), "{}: {acked:?}", reading.of);
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 4, "{names:?}");
}

/// Packets in a capture: blocks of kind 6 of pcapng.
fn packets(capture: &[u8]) -> u64 {
    let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().unwrap());
    let (mut at, mut count) = (0, 0);
    while at < capture.len() {
        count += u64::from(word(at) == 6);
        at += word(at + 4) as usize;
    }
    count
}

/// In a network of several switches the capture is of the host's link alone, and each packet is
/// there once: those that its NIC sent, and those that came to the port to it.
#[test]
fn a_capture_behind_several_switches_is_of_one_link() {
    let mut commented = 0;
    for ip in ["v4", "v6"] {
        let text = COPY.replace("[network]", &format!("[network]\nip = \"{ip}\""));
        let text = text.replace("warm_up = \"500us\"", "");
        let registry = Registry::default();
        let loaded = Loaded::parse("x.toml", &text, &registry).unwrap();
        for host in ["h7", "h0"] {
            let mut file = Vec::new();
            let at = loaded.experiment.host_named(&registry, host).unwrap();
            let ctx = RunContext {
                capture: Some(&mut file),
                capture_at: at.unwrap(),
                ..RunContext::default()
            };
            let outcome = loaded.experiment.run(&registry, ctx).unwrap();
            assert_eq!(outcome, run(&text), "who is watched does the same");
            let at = |name: &str| outcome.ports.iter().find(|p| p.name == name).unwrap();
            let leaf = if host == "h7" { "leaf1" } else { "leaf0" };
            let (nic, port) = (
                at(&format!("{host}->{leaf}")),
                at(&format!("{leaf}->{host}")),
            );
            let passed = nic.packets + port.packets + port.dropped_by_queue();
            let (found, waits) = (packets(&file), 100);
            assert!(
                found > 1_000 && found.abs_diff(passed) <= waits,
                "{found} {passed}"
            );
            let comments = |what: &[u8]| file.windows(what.len()).filter(|w| *w == what).count();
            // Those at the port to the host, and what it sent met at ports further on.
            let here = || {
                outcome
                    .ports
                    .iter()
                    .filter(|p| p.name.starts_with(&format!("{leaf}->")))
            };
            let (dropped, marked) = (
                comments(b"dropped: full") as u64,
                comments(b"marked CE") as u64,
            );
            let all: u64 = here().map(|p| p.dropped_for_room()).sum();
            assert!(
                (port.dropped_for_room()..=all).contains(&dropped),
                "{dropped} {all}"
            );
            let all: u64 = here().map(|p| p.marks).sum();
            assert!((port.marks..=all).contains(&marked), "{marked} {all}");
            commented += marked;
        }
    }
    assert!(commented > 0);
}

/// Sizes, pauses and write patterns as people write them.
#[test]
fn every_kind_of_traffic_runs_from_a_file() {
    let file = r#"
        [network]
        topology = "star"
        hosts = 8
        link = { rate = "1Gb/s", delay = "5us" }
        queue = { limit = "256KiB" }
        [[traffic]]
        name = "copy"
        kind = "bulk"
        size = "1MB"
        [[traffic]]
        name = "read"
        kind = "synchronised-read"
        block = "1MB"
        batch = 4
        [[traffic]]
        name = "call"
        kind = "rpc"
        reply_writes = "1+1+1+1+n"
        pause = "exponential:1ms"
        start = "5ms"
        [[traffic]]
        name = "get"
        kind = "fan-out"
        load = "250Mb/s"
        k = 3
        size = "1kB|30kB"
        [[traffic]]
        name = "shuffle"
        kind = "all-to-all"
        size = "web-search"
        parallel = 2
        [[traffic]]
        name = "sum"
        kind = "ring"
        size = "1MB"
        barrier = true
        [[traffic]]
        name = "mesh"
        kind = "node-mesh"
        rate = 20
        reply = "1kB"
        [[traffic]]
        name = "burst"
        kind = "on-off"
        rate = "100Mb/s"
        [run]
        duration = "300ms"
    "#;
    let registry = Registry::default();
    let loaded = Loaded::parse("x.toml", file, &registry);
    let experiment = loaded.unwrap_or_else(|e| panic!("{e}")).experiment;
    let run = || {
        let context = RunContext::default();
        experiment.run(&registry, context).unwrap().transfers
    };
    let transfers = run();
    for (kind, number) in TrafficKinds::standard().entries().zip(0..) {
        let any = transfers.iter().any(|t| t.traffic == number);
        assert!(any, "{}", kind.name());
    }
    assert_eq!(run(), transfers);
}
