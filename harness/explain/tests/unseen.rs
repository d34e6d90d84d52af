//! What no capture at a place can tell: pairs of runs with different causes and the same packets there.
#![cfg(feature = "simulate")]

use narrows::Duration;
use narrows_experiment::file::Loaded;
use narrows_experiment::host::SimPacket;
use narrows_experiment::model::Experiment;
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::RunContext;
use narrows_experiment::sim::tap::{Tap, TapEvent};
use narrows_experiment::sim::time::SimTime;
use narrows_explain::score::Found;
use narrows_explain::simulated::{Observed, observe};
use narrows_explain::truth::{Threshold, TrueGap};
use narrows_explain::{Cause, Vantage};

/// Where a capture is taken: at a host, or where packets reach a queue of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Host(usize),
    Middle,
}

/// All that is captured at a place: when, and each header.
#[derive(Debug)]
struct Capture(Place, Vec<String>);

impl Tap<SimPacket> for Capture {
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket) {
        let place = match event {
            TapEvent::NicSent { host, .. } | TapEvent::Received { host } => {
                Place::Host(host.index())
            }
            TapEvent::PortQueued { .. } => Place::Middle,
            _ => return,
        };
        if place == self.0 {
            let (ip, tcp, payload) = packet.parts();
            self.1
                .push(format!("{at:?} {ip:?} {tcp:?} {}", payload.len));
        }
    }
}

const FLOOR: Duration = Duration::from_micros(300);

fn experiment(text: &str) -> Experiment {
    let loaded = Loaded::parse("unseen", text, &Registry::default());
    loaded.expect("it is an experiment").experiment
}

/// What is captured of an experiment at a place.
fn captured(place: Place, text: &str) -> Vec<String> {
    let capture = Capture(place, Vec::new());
    let run = experiment(text).watch(&Registry::default(), RunContext::default(), capture);
    run.expect("it runs").1.1
}

/// What was true of it, and what is found.
fn observed(text: &str) -> Observed {
    let threshold = Threshold {
        floor: FLOOR,
        share_percent: 0,
    };
    let observed = observe(&experiment(text), &Registry::default(), threshold, None);
    observed.expect("it runs")
}

/// What is captured of an experiment at a place, and its gaps of these causes as they were.
fn run(place: Place, text: &str, causes: &[Cause]) -> (Vec<String>, Vec<TrueGap>) {
    let gaps = observed(text).truth.into_iter();
    let gaps = gaps.filter(|gap| causes.contains(&gap.cause)).collect();
    (captured(place, text), gaps)
}

/// One call to `h0` from `h1` on a star, with these values.
fn call(reply: &str, more: &str) -> String {
    format!(
        "title = \"A call\"\n[network]\ntopology = \"star\"\nhosts = 2\nlink = {{ rate = \"1Gb/s\", delay = \"50us\" }}\n{more}\n\
         [[traffic]]\nname = \"call\"\nkind = \"rpc\"\nclients = \"h1\"\nservers = \"h0\"\ncalls = 1\nrequest = \"100B\"\nreply = \"{reply}\"\n\
         [run]\nduration = \"4s\"\n"
    )
}

/// What becomes of a link at a time.
fn then(at: &str, long: &str, port: &str, link: &str) -> String {
    format!(
        "[[change]]\nat = \"{at}\"\nfor = \"{long}\"\non = \"{port}\"\nwhat = \"set\"\nlink = {{ {link} }}\n"
    )
}

/// All of the reply is longer than the path carries, or all of it is lost in outages between which an
/// acknowledgement passes.
#[test]
fn at_the_sender_and_in_the_middle_a_black_hole_that_takes_all_looks_like_an_outage() {
    let causes = [
        Cause::BlackHole,
        Cause::TimeoutWholeWindow,
        Cause::TimeoutTail,
        Cause::TimeoutRetransmissionLost,
    ];
    let hole = "[network.port.\"s0->h1\"]\nlink = { mtu = 1200 }\n";
    let lost = "loss = \"100%\"";
    let outage = then("250us", "100ms", "s0->h1", lost) + &then("200642us", "9s", "s0->h1", lost);
    for place in [Place::Host(0), Place::Middle] {
        let hole = run(place, &call("10kB", hole), &causes);
        let outage = run(place, &call("10kB", &outage), &causes);
        assert!(hole.0.len() > 10);
        assert!(hole.0 == outage.0, "{place:?}: the same packets");
        assert!(!hole.1.is_empty());
        assert!(
            hole.1
                .iter()
                .all(|gap| gap.cause == Cause::BlackHole && !gap.counts)
        );
        assert!(outage.1.len() == hole.1.len());
        assert!(outage.1.iter().all(|gap| gap.cause != Cause::BlackHole));
    }
}

/// A call whose question is late on its way, or whose server takes as long to answer: where the client
/// captures, all is the same, to the nanosecond and with timestamps.
#[test]
fn at_the_receiver_a_question_that_is_late_looks_like_an_application_that_takes_as_long() {
    // What comes with the handshake is acknowledged at once: it is the rest of the question that is late.
    let world = |service: &str| {
        let more = "[host.nic]\noverhead = \"0ns\"\n[host.tcp]\ndelayed_ack = \"2/40ms\"\n";
        let writes = "request_writes = \"50+n\"\nwrite_gap = \"300us\"\n";
        let calls = format!("calls = 1\nservice = \"{service}\"\n{writes}");
        call("10kB", more).replace("calls = 1\n", &calls)
    };
    let late = world("0ns") + &then("450us", "200us", "s0->h0", "delay = \"750us\"");
    let busy = world("700us");
    let client = Place::Host(1);
    let [late_seen, busy_seen] = [&late, &busy].map(|text| captured(client, text));
    assert!(late_seen.len() > 10);
    assert_eq!(late_seen, busy_seen, "the same packets");
    let [late, busy] = [&late, &busy].map(|text| observed(text));
    let wrote = |observed: &Observed| {
        let mut gaps = observed.truth.iter();
        gaps.any(|gap| gap.cause == Cause::AppWroteNothing && gap.length() > FLOOR)
    };
    let asked = |observed: &Observed| observed.questions.iter().any(|q| q.waited > FLOOR);
    assert!(!wrote(&late) && asked(&late), "{late:?}");
    assert!(wrote(&busy) && !asked(&busy), "{busy:?}");
    // What is found there is the same, too, and named after what it is more often.
    let named = |observed: &Observed| -> Vec<_> {
        let of_server = |f: &&Found| f.place == Vantage::Receiver && f.ends[0].port() == 5_001;
        let found = observed.found.iter().filter(of_server);
        found
            .map(|f| (f.gap.cause, f.gap.start, f.gap.end))
            .collect()
    };
    assert_eq!(named(&late), named(&busy));
    let wrote = |(cause, ..): &(Cause, _, _)| *cause == Cause::AppWroteNothing;
    assert!(named(&busy).iter().any(wrote), "{:?}", named(&busy));
}
