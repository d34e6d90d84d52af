//! What no capture at a place can tell: pairs of runs with different causes and the same packets there.
#![cfg(feature = "simulate")]

use narrows_experiment::file::Loaded;
use narrows_experiment::host::SimPacket;
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::RunContext;
use narrows_experiment::sim::tap::{Tap, TapEvent};
use narrows_experiment::sim::time::SimTime;
use narrows_explain::Cause;
use narrows_explain::simulated::observe;
use narrows_explain::truth::{Threshold, TrueGap};

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

/// What is captured of an experiment at a place, and its gaps of these causes as they were.
fn run(place: Place, text: &str, causes: &[Cause]) -> (Vec<String>, Vec<TrueGap>) {
    let registry = Registry::default();
    let loaded = Loaded::parse("unseen", text, &registry).expect("it is an experiment");
    let experiment = &loaded.experiment;
    let capture = Capture(place, Vec::new());
    let (_, capture) = experiment
        .watch(&registry, RunContext::default(), capture)
        .expect("it runs");
    let threshold = Threshold {
        floor: narrows::Duration::from_micros(300),
        share_percent: 0,
    };
    let observed = observe(experiment, &registry, threshold, None).expect("it runs");
    let gaps = observed.truth.into_iter();
    let gaps = gaps.filter(|gap| causes.contains(&gap.cause)).collect();
    (capture.1, gaps)
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
