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
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Where a capture is taken: at a host, or where packets reach a queue of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Host(usize),
    Middle,
}

/// All that is captured at a place: when, and each header, with numbers and timestamps from the first of their
/// sender on.
#[derive(Debug)]
struct Capture {
    place: Place,
    seen: Vec<String>,
    /// By port: the first number and timestamp.
    first: BTreeMap<u16, (u32, u32)>,
}

impl Capture {
    fn see(&mut self, at: SimTime, packet: &SimPacket) {
        let (ip, tcp, payload) = packet.parts();
        let mut tcp = tcp.clone();
        let stamp = tcp.options.timestamps.map_or(0, |stamps| stamps.val);
        let own = *self.first.entry(tcp.src_port).or_insert((tcp.seq.0, stamp));
        let peer = self.first.get(&tcp.dst_port).copied().unwrap_or_default();
        tcp.seq.0 = tcp.seq.0.wrapping_sub(own.0);
        tcp.ack.0 = tcp.ack.0.wrapping_sub(peer.0);
        if let Some(stamps) = &mut tcp.options.timestamps {
            stamps.val = stamps.val.wrapping_sub(own.1);
            stamps.ecr = stamps.ecr.wrapping_sub(peer.1);
        }
        let sack = tcp.options.sack.as_slice().iter();
        let sack: Vec<_> = sack
            .map(|block| [block.start, block.end].map(|seq| seq.0.wrapping_sub(peer.0)))
            .collect();
        tcp.options.sack = Default::default();
        self.seen
            .push(format!("{at:?} {ip:?} {tcp:?} {sack:?} {}", payload.len));
    }
}

impl Tap<SimPacket> for Capture {
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket) {
        let place = match event {
            TapEvent::NicSent { host, .. } | TapEvent::Received { host } => {
                Place::Host(host.index())
            }
            TapEvent::PortQueued { .. } => Place::Middle,
            _ => return,
        };
        if place == self.place {
            self.see(at, packet);
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
    let capture = Capture {
        place,
        seen: Vec::new(),
        first: BTreeMap::new(),
    };
    let run = experiment(text).watch(&Registry::default(), RunContext::default(), capture);
    run.expect("it runs").1.seen
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

/// The gaps of the server of a call from `h1`, as they were.
fn of_server(text: &str) -> Vec<TrueGap> {
    let truth = observed(text).truth.into_iter();
    let client = "10.0.0.2".parse().expect("an address");
    let of_server =
        |gap: &TrueGap| gap.ends[0].port() == 5_001 && gap.ends[1].ip() == IpAddr::V4(client);
    truth.filter(of_server).collect()
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

/// A reply of one segment that is lost once or twice, and one that its application writes when the timer, or the
/// probe, would have fired: it arrives once. All else is lost in both for as long.
#[test]
fn at_the_receiver_what_never_came_by_looks_like_an_application_that_takes_as_long() {
    const SERVICE: u64 = 30_000;
    let timers = "rto = \"10ms\"\nloss_detection = \"sack\"\ndelayed_ack = \"off\"";
    let probes = "loss_detection = \"rack\"\ndelayed_ack = \"off\"";
    let lost = [Cause::TimeoutWholeWindow, Cause::TimeoutTail];
    for (tcp, long, causes) in [
        (timers, "2ms", &lost[..]),
        (timers, "20ms", &[Cause::TimeoutRetransmissionLost]),
        (probes, "300us", &[Cause::TailLossProbe]),
    ] {
        let world = |service: u64| {
            let more = format!("[host.nic]\noverhead = \"0ns\"\n[host.tcp]\n{tcp}\n");
            let calls = format!("calls = 1\nservice = \"{service}ns\"\n");
            // The question is acknowledged before.
            let outage = then("418us", long, "s0->h1", "loss = \"100%\"");
            call("1kB", &more).replace("calls = 1\n", &calls) + &outage
        };
        let of_server = |gap: &&TrueGap| gap.ends[0].port() == 5_001;
        let told = observed(&world(SERVICE)).truth;
        let waits: Vec<_> = told.iter().filter(of_server).collect();
        let last = waits.last().expect("it waits");
        assert!(causes.contains(&last.cause), "{told:?}");
        let since = waits.first().map_or(last.start, |first| first.start);
        let busy = world(SERVICE + last.end.since(since).as_nanos());
        let client = Place::Host(1);
        let seen = captured(client, &world(SERVICE));
        assert!(seen.len() > 5);
        let busy_seen = captured(client, &busy);
        for (seen, busy) in seen.iter().zip(&busy_seen) {
            assert_eq!(seen, busy, "{tcp} {long}");
        }
        assert_eq!(seen.len(), busy_seen.len(), "{tcp} {long}");
        let truth = observed(&busy).truth;
        let mut of_busy = truth.iter().filter(of_server);
        assert!(
            of_busy.all(|gap| gap.cause == Cause::AppWroteNothing),
            "{truth:?}"
        );
        assert!(truth.iter().any(|gap| gap.cause == Cause::AppWroteNothing));
    }
}

/// The path swallows what is longer than the end of a reply, or all but that is lost in an outage.
#[test]
fn at_the_receiver_a_black_hole_looks_like_an_outage() {
    let world = |more: &str, outage: &str| {
        call("4kB", &format!("[host.nic]\noverhead = \"0ns\"\n{more}")) + outage
    };
    let hole = world("[network.port.\"s0->h1\"]\nlink = { mtu = 1200 }\n", "");
    let lost = "loss = \"100%\"";
    let outage = then("425us", "22us", "s0->h1", lost) + &then("460us", "9s", "s0->h1", lost);
    let outage = world("", &outage);
    let client = Place::Host(1);
    let [hole_seen, outage_seen] = [&hole, &outage].map(|world| captured(client, world));
    assert!(hole_seen.len() > 4);
    assert_eq!(hole_seen, outage_seen, "the same packets");
    let [hole, outage] = [&hole, &outage].map(|world| of_server(world));
    let swallowed = |gap: &TrueGap| gap.cause == Cause::BlackHole && gap.counts;
    assert!(hole.iter().any(swallowed), "{hole:?}");
    assert!(!outage.is_empty());
    assert!(
        outage.iter().all(|gap| gap.cause.is_timeout()),
        "{outage:?}"
    );
    assert!(outage.iter().all(|gap| gap.cause != Cause::BlackHole));
}

/// A SYN that is lost on its way to the capture, and a client that calls when it comes again.
#[test]
fn behind_its_first_link_a_syn_that_was_lost_looks_like_a_client_that_calls_later() {
    let world = |start: &str, outage: &str| {
        let more = "[host.nic]\noverhead = \"0ns\"\n";
        call("1kB", more).replace("calls = 1\n", &format!("calls = 1\nstart = \"{start}\"\n"))
            + outage
    };
    let lost = world("0ns", &then("0ns", "10ms", "h1->s0", "loss = \"100%\""));
    let later = world("1s", "");
    for place in [Place::Middle, Place::Host(0)] {
        let [lost, later] = [&lost, &later].map(|world| run(place, world, &[Cause::SynRetried]));
        assert!(lost.0.len() > 3);
        assert_eq!(lost.0, later.0, "{place:?}: the same packets");
        assert_eq!([lost.1.len(), later.1.len()], [1, 0]);
    }
}

/// The end of a reply, which its host does not take, or which is lost on its way to the capture.
#[test]
fn behind_its_first_link_what_a_host_dropped_looks_like_what_was_lost_before() {
    let world = |nic: &str, outage: &str| {
        let nic = format!("[host.nic]\noverhead = \"0ns\"\n{nic}");
        let tcp = "[host.tcp]\nlocal_drop = \"ignore\"\nloss_detection = \"sack\"\ndelayed_ack = \"2/40ms\"\n";
        call("4kB", &(nic + tcp)) + outage
    };
    // SYN-ACK and two segments take its buffers.
    let dropped = world("tx_buffers = 3\ntx_refill = 10\n", "");
    let lost = world("", &then("390us", "10us", "h0->s0", "loss = \"100%\""));
    for place in [Place::Middle, Place::Host(1)] {
        let [dropped, lost] = [&dropped, &lost].map(|world| run(place, world, &[Cause::LocalDrop]));
        assert!(dropped.0.len() > 5);
        assert_eq!(dropped.0, lost.0, "{place:?}: the same packets");
        assert_eq!([dropped.1.is_empty(), lost.1.is_empty()], [false, true]);
    }
}

/// A call whose reply is two segments, written one after the other, with a window for one at first; another host
/// calls beside it.
fn two_segments(write_gap: u64, groups: &str, other: &str, changes: &str) -> String {
    let tcp = "initial_window = 1\ndelayed_ack = \"off\"\nloss_detection = \"sack\"\n";
    let more = format!("[host.nic]\noverhead = \"0ns\"\n[host.tcp]\n{tcp}{groups}");
    let writes = format!(
        "calls = 1\nserver_nodelay = \"on\"\nreply_writes = \"1448+n\"\nwrite_gap = \"{write_gap}ns\"\n"
    );
    let call = call("2896B", &more).replace("calls = 1\n", &writes);
    let other = format!(
        "[[traffic]]\nname = \"other\"\nkind = \"rpc\"\nclients = \"h2\"\nservers = \"h0\"\ncalls = 1\nrequest = \"100B\"\nreply = \"100B\"\n{other}"
    );
    call.replace("hosts = 2\n", "hosts = 3\n") + &other + changes
}

/// Two worlds, each with the only gap of its server, look the same from these places.
fn look_the_same(places: &[Place], worlds: [&str; 2], causes: [Cause; 2]) {
    for (world, cause) in worlds.iter().zip(causes) {
        let gaps = of_server(world);
        let found: Vec<_> = gaps.iter().map(|gap| gap.cause).collect();
        assert_eq!(found, [cause], "{gaps:?}");
    }
    for place in places {
        let [one, other] = worlds.map(|world| captured(*place, world));
        assert!(one.len() > 5);
        assert_eq!(one, other, "{place:?}: the same packets");
    }
}

const WRITE_GAP: u64 = 1_000;

/// An acknowledgement that is late behind the capture, and an application that writes when it would have come.
#[test]
fn before_the_last_link_to_the_sender_a_late_acknowledgement_looks_like_an_application_that_writes_later()
 {
    let late = then("450us", "100us", "s0->h0", "delay = \"2ms\"");
    let late = two_segments(WRITE_GAP, "", "", &late);
    let waited = of_server(&late)[0].length().as_nanos();
    let busy = two_segments(WRITE_GAP + waited, "", "", "");
    look_the_same(
        &[Place::Middle, Place::Host(1)],
        [&late, &busy],
        [Cause::PacketDelay, Cause::AppWroteNothing],
    );
}

/// A card that interrupts for two frames or, late, for one: what the other host sends goes with all that comes
/// before the first acknowledgement, which waits alone. Or its application writes as much later.
#[test]
fn before_the_card_of_the_sender_what_it_holds_back_looks_like_an_application_that_writes_later() {
    let world = |write_gap: u64, usecs: &str| {
        let card = format!(
            "[group.card]\nhosts = \"h0\"\nnic = {{ rx_usecs = \"{usecs}\", rx_frames = 2 }}\n[group.other]\nhosts = \"h2\"\ntcp = {{ delayed_ack = \"2/40ms\" }}\n"
        );
        two_segments(write_gap, &card, "", "")
    };
    let held = world(WRITE_GAP, "2ms");
    let waited = of_server(&held)[0].length().as_nanos();
    let busy = world(WRITE_GAP + waited, "20us");
    look_the_same(
        &[Place::Middle, Place::Host(1)],
        [&held, &busy],
        [Cause::Coalescing, Cause::AppWroteNothing],
    );
}

/// What the other host sends fills the ring of the sender, so that it pauses its switch, where its acknowledgement
/// then waits for as long as the end of the pause is under way; or that ends in time, and the acknowledgement is
/// as late on its last link.
#[test]
fn everywhere_a_pause_looks_like_packets_that_are_as_late() {
    /// About as long.
    const DELAY: u64 = 3_000_000;
    let world = |changes: &str| {
        // It pauses from two frames on: so many may come after that.
        let card = "[group.card]\nhosts = \"h0\"\nnic = { rx_usecs = \"100us\", rx_frames = 0, rx_ring = 207, rx_pause = true }\ntcp = { delayed_ack = \"9/40ms\" }\n";
        let other = "service = \"20ms\"\nclient_nodelay = \"on\"\nrequest_writes = \"1+1+1+1+n\"\nwrite_gap = \"60us\"\n";
        two_segments(WRITE_GAP, card, other, changes)
    };
    let pause = world(&then("690us", "60us", "h0->s0", "delay = \"3ms\""));
    let late = |ns| {
        world(&then(
            "700us",
            "200us",
            "s0->h0",
            &format!("delay = \"{ns}ns\""),
        ))
    };
    let ends = [&pause, &late(DELAY)].map(|world| of_server(world)[0].end);
    let more = ends[0].as_nanos() as i64 - ends[1].as_nanos() as i64;
    let late = late(DELAY.saturating_add_signed(more));
    look_the_same(
        &[Place::Host(0), Place::Middle, Place::Host(1)],
        [&pause, &late],
        [Cause::Pause, Cause::PacketDelay],
    );
}
