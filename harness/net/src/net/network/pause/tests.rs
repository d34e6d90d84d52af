//! What must hold of pauses, with packets sent at given times.

use super::*;
use crate::net::buffer::Capacity;
use crate::net::change::Change;
use crate::net::discipline::DisciplineSpec;
use crate::net::discipline::strict_priority::StrictPrioritySpec;
use crate::net::discipline::tail::{NotCapable, Threshold};
use crate::net::graph::{Attachment, Egress, Graph, Override, TieOrder};
use crate::net::link::{Framing, LinkSpec};
use crate::net::nic::NicSpec;
use crate::net::pause::{PauseProblem, PauseSpec};
use crate::net::port::PortSpec;
use crate::net::topology::Dumbbell;
use crate::sim::blaster::BlastPacket;
use crate::sim::tap::{NoTap, TapEvent};
use narrows_congestion::{ByteCount, Rate};
use proptest::prelude::*;

/// Hosts 0 to 2 on the left, 3 to 5 on the right, each side on a switch.
const SIDE: u32 = 3;
const HOSTS: u32 = 2 * SIDE;

#[derive(Clone, Copy, Debug)]
struct Links {
    host: (u64, u64),
    trunk: (u64, u64),
    framing: Framing,
    overhead: SimTime,
}

fn link((mbps, nanos): (u64, u64), framing: Framing) -> LinkSpec {
    let rate = Rate::from_bits_per_sec(mbps * 1_000_000);
    LinkSpec::new(rate, SimTime::from_nanos(nanos)).with_framing(framing)
}

fn dumbbell(links: Links, memory: u64, discipline: &DisciplineSpec, pause: PauseSpec) -> Graph {
    let port = PortSpec {
        discipline: discipline.clone(),
        ..PortSpec::new(Capacity::Bytes(ByteCount::new(memory)))
    };
    let host = link(links.host, links.framing);
    let attachment = Attachment {
        nic: NicSpec {
            overhead: links.overhead,
            ..NicSpec::new(Capacity::Unlimited)
        },
        up: host.clone(),
        port: port.clone(),
        down: host,
    };
    let trunk = Egress {
        port,
        link: link(links.trunk, links.framing),
    };
    let spec = Dumbbell::uniform(SIDE as usize, &attachment, &trunk);
    let mut graph = spec.graph().unwrap();
    graph.set_pause(Some(pause));
    graph
}

/// A packet that a host sends so long after the one before.
#[derive(Clone, Copy, Debug)]
struct Sent {
    gap: SimTime,
    from: u32,
    to: u32,
    len: u32,
    dscp: u8,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Log {
    received: Vec<(SimTime, u64)>,
    dropped: Vec<(SimTime, PortId)>,
    pauses: Vec<(SimTime, PauseEvent)>,
}

impl Tap<BlastPacket> for Log {
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &BlastPacket) {
        match event {
            TapEvent::Received { .. } => self.received.push((at, packet.number)),
            TapEvent::Dropped { port, .. } => self.dropped.push((at, port)),
            _ => {}
        }
    }
    fn pause(&mut self, at: SimTime, event: PauseEvent) {
        self.pauses.push((at, event));
    }
}

fn handle(network: &mut Network<BlastPacket>, log: &mut Log, until: SimTime) {
    while let Some(event) = network.events.pop_until(until) {
        if let Some((_, slot)) = network.handle(event, log) {
            network.release(slot);
        }
    }
}

/// Runs until all has arrived; with `looks` somebody asks for all queues at these times.
fn run(graph: &Graph, sent: &[Sent], looks: &[SimTime]) -> (Network<BlastPacket>, Log) {
    run_in(graph.build(1, TieOrder::ByLink).unwrap(), sent, looks)
}

/// The same in a network.
fn run_in(
    mut network: Network<BlastPacket>,
    sent: &[Sent],
    looks: &[SimTime],
) -> (Network<BlastPacket>, Log) {
    let mut log = Log::default();
    let mut looks = looks.iter().peekable();
    let mut now = SimTime::ZERO;
    for (number, s) in (0..).zip(sent) {
        now += s.gap;
        while let Some(&at) = looks.next_if(|&&at| at < now) {
            handle(&mut network, &mut log, at);
            for port in (0..network.ports()).map(PortId) {
                network.queued(at, port);
            }
        }
        handle(&mut network, &mut log, now);
        let packet = BlastPacket {
            ecn_capable: true,
            dscp: s.dscp,
            ..BlastPacket::new(HostId(s.from), HostId(s.to), s.len, number)
        };
        network.send(now, HostId(s.from), packet, &mut log).unwrap();
    }
    handle(&mut network, &mut log, now + SimTime::from_secs(1_000));
    (network, log)
}

/// A longest packet and packets of up to so many bytes, most of them as long.
fn sent() -> impl Strategy<Value = (u32, Vec<Sent>)> {
    prop_oneof![1 => Just(1_500u32), 1 => Just(9_000), 4 => 576u32..=9_000]
        .prop_flat_map(|mtu| (Just(mtu), sent_up_to(mtu)))
}

fn sent_up_to(mtu: u32) -> impl Strategy<Value = Vec<Sent>> {
    let gap = prop_oneof![6 => Just(0u64), 2 => 0u64..12_000, 1 => 0u64..2_000_000];
    let len = prop_oneof![3 => Just(mtu), 1 => 41u32..=mtu];
    // Most go to one host, many across the trunk.
    let to = prop_oneof![3 => Just(5u32), 1 => 0..HOSTS];
    let one = (gap, 0..HOSTS, to, len, 0u8..4);
    let one = one.prop_map(|(gap, from, to, len, class)| Sent {
        gap: SimTime::from_nanos(gap),
        from,
        to: if from == to { (to + 1) % HOSTS } else { to },
        len,
        dscp: class << 3,
    });
    proptest::collection::vec(one, 1..600)
}

fn discipline() -> impl Strategy<Value = DisciplineSpec> {
    prop_oneof![
        2 => Just(DisciplineSpec::DropTail),
        1 => Just(DisciplineSpec::EcnStep {
            threshold: Threshold::Packets(3),
            not_capable: NotCapable::Pass,
        }),
        1 => Just(DisciplineSpec::StrictPriority(StrictPrioritySpec::default())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Over rates, delays, MTUs, memories, disciplines and ways to pause: nothing is dropped, no port's
    /// memory overflows, everything arrives, nobody stays paused, and whoever looks changes nothing.
    #[test]
    fn headroom_never_overflows_and_nothing_is_lost(
        host in (100u64..20_000, 0u64..40_000),
        trunk in (prop_oneof![2 => 100u64..20_000, 1 => 10u64..100], 0u64..40_000),
        ethernet: bool,
        overhead in prop_oneof![Just(0u64), 0u64..5_000],
        slack in 0u64..20_000,
        more_quanta in prop_oneof![Just(None), (0u16..2_000).prop_map(Some)],
        classes in prop_oneof![
            Just(None),
            Just(Some(0xffu8)),
            (0u8..16).prop_map(|more| Some(more << 4 | 0x0f)),
        ],
        discipline in discipline(),
        (mtu, sent) in sent(),
        looks in proptest::collection::vec(0u64..3_000_000, 0..20),
    ) {
        let framing = if ethernet { Framing::Ethernet } else { Framing::None };
        let overhead = SimTime::from_nanos(overhead);
        let links = Links { host, trunk, framing, overhead };
        let pause = PauseSpec {
            kind: classes.map_or(PauseKind::Link, |classes| PauseKind::Priority { classes }),
            ..PauseSpec::new(mtu)
        };
        let links_of = [host, trunk].map(|of| link(of, framing));
        let pause = PauseSpec {
            quanta: more_quanta.map_or(u16::MAX, |more| least_quanta(pause, &links_of) + more),
            ..pause
        };
        let frame = u64::from(mtu) + 100;
        let room = |of| pause.headroom(&link(of, framing), &link(of, framing)).get() + frame;
        let memory = (room(host).max(room(trunk)) + slack) * 8;
        let graph = dumbbell(links, memory, &discipline, pause);
        let (network, log) = run(&graph, &sent, &[]);
        let totals = network.totals();
        prop_assert_eq!((totals.dropped, totals.in_network), (0, 0));
        prop_assert_eq!(totals.delivered, sent.len() as u64);
        let pausing = network.pausing.as_ref().unwrap();
        for ingress in &pausing.ingresses {
            let most = ingress.held.iter().map(Held::most).max().unwrap();
            prop_assert!(most <= ingress.parts.thresholds.part);
            prop_assert!(ingress.held.iter().all(|held| held.again.is_none()));
        }
        prop_assert!(pausing.accounts.iter().all(|account| account.ingress == NONE));
        prop_assert!(pausing.switches.iter().all(|(_, switch)| switch.told == 0));

        let mut looks: Vec<_> = looks.into_iter().map(SimTime::from_nanos).collect();
        looks.sort_unstable();
        let (_, second) = run(&graph, &sent, &looks);
        prop_assert_eq!(log, second);
    }
}

/// The fewest quanta that links, the same in both directions, are paused for.
fn least_quanta(pause: PauseSpec, links: &[LinkSpec]) -> u16 {
    let least = |link: &LinkSpec| {
        let none = PauseSpec { quanta: 0, ..pause };
        match none.check_quanta(link, link) {
            Err(PauseProblem::Quanta { needed, .. }) => needed as u16,
            other => panic!("{other:?}"),
        }
    };
    links.iter().map(least).max().unwrap()
}

/// Host 0 sends across a trunk that takes hardly anything, while its own link brings it full packets
/// from host 1: a packet crosses XOFF by all but a byte, the pause frame waits for a packet, and finds
/// one begun. Nothing is dropped, and with a packet less of headroom something would be.
#[test]
fn the_worst_case_takes_all_headroom_but_a_part_of_a_packet() {
    let kinds = [PauseKind::Link, PauseKind::Priority { classes: 0xff }];
    let cases = [576, 1_500, 9_000].map(|mtu| kinds.map(|kind| (mtu, kind)));
    for (mtu, kind) in cases.into_iter().flatten() {
        let pause = PauseSpec {
            kind,
            ..PauseSpec::new(mtu)
        };
        let parts = if kind == PauseKind::Link { 1 } else { 8 };
        // At 8 Gb/s a byte takes a nanosecond.
        let packet = u64::from(mtu);
        let eighths = (0..8).map(|n| n * packet / 8);
        let phases = eighths
            .clone()
            .flat_map(|a| eighths.clone().map(move |b| (a, b)));
        let mut least_left = u64::MAX;
        for (later, delay) in phases {
            let host = (8_000, 1_000 + delay / 2);
            let (rate, framing) = (link(host, Framing::None), Framing::None);
            let headroom = pause.headroom(&rate, &rate).get();
            let links = Links {
                host,
                trunk: (10, 0),
                framing,
                overhead: SimTime::ZERO,
            };
            let part = headroom + 3 * packet + 1;
            let graph = dumbbell(links, part * parts, &DisciplineSpec::DropTail, pause);
            let one = |from, to| Sent {
                gap: SimTime::ZERO,
                from,
                to,
                len: mtu,
                dscp: 0,
            };
            let mut sent = vec![one(1, 0); 60];
            let late = SimTime::from_nanos(later);
            sent.push(Sent {
                gap: late,
                ..one(0, 5)
            });
            sent.extend(vec![one(0, 5); 59]);
            let (network, _) = run(&graph, &sent, &[]);
            assert_eq!(network.totals().dropped, 0, "{mtu} {kind:?}");
            let back = network.other_end(PortId(0)).unwrap();
            let held = network.pause_stats(SimTime::from_secs(1), back).max_held;
            least_left = least_left.min(part - held);
        }
        // No other class tells anything here.
        let link = link((8_000, 0), Framing::None);
        let room = |pause: PauseSpec| pause.headroom(&link, &link).get();
        let least_left = least_left - (room(pause) - room(PauseSpec::new(mtu)));
        assert!(least_left < packet / 2, "{mtu} {kind:?}: {least_left}");
    }
}

/// Eight classes cross a trunk to a port that takes hardly anything. Seven have told their pause and tell it
/// again when half of it is over, just behind a full packet on the way back, and just before the eighth
/// crosses XOFF: its pause frame waits for all of them. With room for one pause frame packets are dropped.
#[test]
fn pause_frames_of_other_classes_wait_ahead_and_have_their_headroom() {
    const MTU: u32 = 576;
    let one_frame = PauseSpec::new(MTU);
    let pause = PauseSpec {
        kind: PauseKind::Priority { classes: 0xff },
        quanta: 2_000,
        ..one_frame
    };
    // At 8 Gb/s a byte takes a nanosecond. What comes in is whole packets: with this delay seven
    // are more than one headroom and less than the other.
    const DELAY: u64 = 1_080;
    let fast = (8_000, DELAY);
    let link = link(fast, Framing::None);
    let (room, of_one) = (
        pause.headroom(&link, &link).get(),
        one_frame.headroom(&link, &link).get(),
    );
    assert_eq!(room - of_one, 14 * 64);
    let links = Links {
        host: fast,
        trunk: fast,
        framing: Framing::None,
        overhead: SimTime::ZERO,
    };
    let mut most = 0;
    for (crossing, behind) in (0..12).flat_map(|a| (0..12).map(move |b| (a * 48, b * 48))) {
        // XOFF is three packets and a byte.
        let part = room + 3 * u64::from(MTU) + 1;
        let graph = dumbbell(links, part * 8, &DisciplineSpec::DropTail, pause);
        let mut network: Network<BlastPacket> = graph.build(1, TieOrder::ByLink).unwrap();
        let slow = Change::Rate {
            port: network.port_to(HostId(5)).unwrap(),
            rate: Rate::from_bits_per_sec(1_000_000),
        };
        network.try_change(&slow).unwrap();
        let one = |at: u64, from, to, len, class: u8| {
            let dscp = class << 3;
            (
                at,
                Sent {
                    gap: SimTime::ZERO,
                    from,
                    to,
                    len,
                    dscp,
                },
            )
        };
        let mut all = Vec::new();
        for class in 0..8 {
            all.extend((0..3).map(|_| one(0, 0, 5, MTU, class)));
        }
        all.extend((1..8).map(|class| one(0, 0, 5, 40, class)));
        // All that is on its way by then: 24 packets on two
        // links, the seven that cross, two delays. Half of the pause,
        // 64 us, is over from here on.
        let again = 25 * u64::from(MTU) + 7 * 40 + 2 * DELAY + 64_000;
        all.extend((0..40).map(|_| one(again - 3_512 + crossing, 0, 5, MTU, 0)));
        all.extend((0..40).map(|_| one(again - 3_160 + behind, 4, 1, MTU, 0)));
        all.sort_by_key(|(at, _)| *at);
        let mut now = 0;
        let sent: Vec<Sent> = all
            .into_iter()
            .map(|(at, sent)| {
                let gap = SimTime::from_nanos(at - now);
                now = at;
                Sent { gap, ..sent }
            })
            .collect();
        let (network, _) = run_in(network, &sent, &[]);
        assert_eq!(network.totals().dropped, 0);
        let held = |ingress: &books::Ingress| ingress.held[0].most();
        let ingresses = network.pausing.as_ref().unwrap().ingresses.iter();
        most = most.max(ingresses.map(held).max().unwrap() + room - part);
    }
    assert!(
        (of_one + 1..=room).contains(&most),
        "{most} of {room}, {of_one}"
    );
}

fn gigabit(memory: u64, pause: PauseSpec) -> Graph {
    let links = Links {
        host: (1_000, 5_000),
        trunk: (1_000, 5_000),
        framing: Framing::Ethernet,
        overhead: SimTime::ZERO,
    };
    dumbbell(links, memory, &DisciplineSpec::DropTail, pause)
}

/// So many full packets of a host to another at once.
fn burst(from: u32, to: u32, packets: usize) -> Vec<Sent> {
    let one = Sent {
        gap: SimTime::ZERO,
        from,
        to,
        len: 1_500,
        dscp: 0,
    };
    vec![one; packets]
}

/// Two hosts send to a third one at once: a frame in service is finished, the pause frame goes ahead
/// of what waits, and each is heard of after its time on the wire.
#[test]
fn annex_31b_a_pause_frame_goes_behind_the_frame_in_service_and_is_obeyed_after_one() {
    let pause = PauseSpec {
        xoff: Some(ByteCount::new(3 * 1_518)),
        ..PauseSpec::new(1_500)
    };
    let graph = gigabit(40_000, pause);
    let sent: Vec<Sent> = [burst(0, 2, 20), burst(1, 2, 20)].concat();
    let (network, log) = run(&graph, &sent, &[]);
    assert_eq!(network.totals().dropped, 0);
    let (at, first) = log.pauses[0];
    let back = match first {
        PauseEvent::Sent {
            port,
            signal,
            classes,
        } => {
            assert_eq!((signal, classes), (PauseSignal::Xoff, u8::MAX));
            port
        }
        PauseEvent::Obeyed { .. } => panic!("{first:?}"),
    };
    let port = network.other_end(back).unwrap();
    assert!(port.0 < 2, "a NIC of those who send");
    // Nothing is on the way back: 84 bytes of wire, then 5 us.
    let heard = at + SimTime::from_nanos(84 * 8) + SimTime::from_micros(5);
    let span = SimTime::from_nanos(512 * 65_535);
    let obeyed = PauseEvent::Obeyed {
        port,
        span,
        classes: u8::MAX,
    };
    assert!(log.pauses.contains(&(heard, obeyed)), "{:?}", log.pauses);
    let stats = network.pause_stats(SimTime::from_secs(1), port);
    assert!(
        stats.received > 1 && stats.paused > SimTime::ZERO,
        "{stats:?}"
    );
    let sender = network.pause_stats(SimTime::from_secs(1), back);
    assert_eq!(sender.xoff_sent, sender.xon_sent);
    assert!(sender.max_held >= 3 * 1_518);
}

/// Two hosts send to a third one. The way back to the first is cut, so that it hears of no pause; the
/// NIC of the second is reset when it has been told, and what it is told meanwhile is lost.
#[test]
fn a_port_that_is_stopped_sends_no_pause_frame_and_a_nic_that_is_reset_obeys_none() {
    // Told again every 25 us.
    let pause = PauseSpec {
        quanta: 100,
        xoff: Some(ByteCount::new(3 * 1_518)),
        ..PauseSpec::new(1_500)
    };
    let graph = gigabit(40_000, pause);
    let mut network: Network<BlastPacket> = graph.build(1, TieOrder::ByLink).unwrap();
    let back = network.other_end(PortId(0)).unwrap();
    let mut log = Log::default();
    let cut = Change::LinkDown { port: back };
    network.apply(SimTime::ZERO, &cut, &mut log).unwrap();
    for (number, sent) in (0..).zip([burst(0, 2, 80), burst(1, 2, 80)].concat()) {
        let packet = BlastPacket {
            from: HostId(sent.from),
            to: HostId(sent.to),
            number,
            ..packet()
        };
        let from = packet.from;
        network.send(SimTime::ZERO, from, packet, &mut log).unwrap();
    }
    let (begin, end) = (SimTime::from_micros(400), SimTime::from_micros(900));
    handle(&mut network, &mut log, begin);
    let reset = Change::NicReset {
        host: HostId(1),
        span: end - begin,
    };
    network.apply(begin, &reset, &mut log).unwrap();
    handle(&mut network, &mut log, SimTime::from_secs(1));
    let sent_by = |at: PortId| {
        let is = |(_, event): &&(SimTime, PauseEvent)| matches!(event, PauseEvent::Sent { port, .. } if *port == at);
        log.pauses.iter().filter(is).count()
    };
    let obeyed_by = |at: u32| {
        let is = move |&(time, event): &(SimTime, PauseEvent)| match event {
            PauseEvent::Obeyed { port, .. } if port.0 == at => Some(time),
            _ => None,
        };
        log.pauses.iter().filter_map(is).collect::<Vec<_>>()
    };
    assert_eq!((sent_by(back), obeyed_by(0).len()), (0, 0));
    assert_eq!(network.pause_stats(end, PortId(0)).xoff_sent, 0);
    let obeyed = obeyed_by(1);
    assert!(obeyed.iter().any(|at| *at < begin), "{obeyed:?}");
    assert!(
        !obeyed.iter().any(|at| (begin..end).contains(at)),
        "{obeyed:?}"
    );
    let told = sent_by(network.other_end(PortId(1)).unwrap());
    assert!(
        told > obeyed.len(),
        "{told} were sent, {} obeyed",
        obeyed.len()
    );
}

/// A pause frame that is under way when the link is cut is lost with it.
#[test]
fn a_cut_link_loses_its_pause_frames() {
    let pause = PauseSpec {
        xoff: Some(ByteCount::new(3 * 1_518)),
        ..PauseSpec::new(1_500)
    };
    let graph = gigabit(40_000, pause);
    let sent = [burst(0, 2, 20), burst(1, 2, 20)].concat();
    let (_, uncut) = run(&graph, &sent, &[]);
    let first = |log: &Log, what: fn(&PauseEvent) -> Option<PortId>| {
        let found = log
            .pauses
            .iter()
            .find_map(|(at, event)| Some((*at, what(event)?)));
        found.unwrap()
    };
    let (left, back) = first(&uncut, |event| match event {
        PauseEvent::Sent { port, .. } => Some(*port),
        PauseEvent::Obeyed { .. } => None,
    });
    let mut network: Network<BlastPacket> = graph.build(1, TieOrder::ByLink).unwrap();
    let mut log = Log::default();
    for (number, sent) in (0..).zip(&sent) {
        let packet = BlastPacket {
            from: HostId(sent.from),
            to: HostId(sent.to),
            number,
            ecn_capable: true,
            ..packet()
        };
        let from = packet.from;
        network.send(SimTime::ZERO, from, packet, &mut log).unwrap();
    }
    // It takes 5 us.
    let cut = left + SimTime::from_micros(3);
    handle(&mut network, &mut log, cut);
    assert_eq!(
        first(&log, |_| Some(PortId(0))).0,
        left,
        "the same run until then"
    );
    network
        .apply(cut, &Change::LinkDown { port: back }, &mut log)
        .unwrap();
    handle(&mut network, &mut log, SimTime::from_secs(1));
    let nic = network.other_end(back).unwrap();
    let heard = |log: &Log| {
        let of_it =
            |event: &PauseEvent| matches!(event, PauseEvent::Obeyed { port, .. } if *port == nic);
        log.pauses.iter().any(|(_, event)| of_it(event))
    };
    assert!(heard(&uncut));
    assert!(!heard(&log), "{:?}", log.pauses);
}

/// While memory stays full the pause is told again at half its time, and a port does not go on
/// between.
#[test]
fn a_pause_is_renewed_at_half_its_time() {
    let links = Links {
        host: (1_000, 5_000),
        trunk: (1_000, 5_000),
        framing: Framing::Ethernet,
        overhead: SimTime::ZERO,
    };
    let pause = PauseSpec {
        // 1000 quanta: 512 us.
        quanta: 1_000,
        ..PauseSpec::new(1_500)
    };
    let mut graph = dumbbell(links, 40_000, &DisciplineSpec::DropTail, pause);
    // The link to the last host is slow: what waits for it stays for long.
    let slow = Override {
        rate: Some(Rate::from_mbps(1)),
        ..Override::on("s1<->h5")
    };
    graph.apply(&[slow]).unwrap();
    let (network, log) = run(&graph, &burst(3, 5, 60), &[]);
    assert_eq!(network.totals().dropped, 0);
    let told = |&(at, event): &(SimTime, PauseEvent)| match event {
        PauseEvent::Sent {
            signal: PauseSignal::Xoff,
            ..
        } => Some(at),
        _ => None,
    };
    let told: Vec<SimTime> = log.pauses.iter().filter_map(told).collect();
    let half = SimTime::from_micros(256);
    assert!(told.len() > 100);
    assert_eq!(told[1] - told[0], half);
    assert_eq!(told[2] - told[1], half);
}

#[test]
fn a_port_may_pause_where_a_switch_or_a_host_tells_it_to() {
    let mut graph = gigabit(30_000, PauseSpec::new(1_500));
    assert!(graph.may_pause());
    graph.set_pause(None);
    assert!(!graph.may_pause());
    let nic = graph.nic_mut(HostId(HOSTS - 1)).unwrap();
    nic.receive.pause = Some(PauseSpec::new(1_500));
    assert!(graph.may_pause());
}

/// Host 0 sends to host 5 across the trunk, which hosts of the right do too, and host 2 to host 3,
/// to which nobody else does: its packets wait behind those of host 0 (head-of-line blocking).
#[test]
fn what_waits_for_a_paused_trunk_blocks_what_is_for_others() {
    let of = |pause: bool| {
        let mut graph = gigabit(30_000, PauseSpec::new(1_500));
        if !pause {
            graph.set_pause(None);
        }
        let mut sent = burst(0, 5, 300);
        sent.extend(burst(4, 5, 300));
        sent.extend(burst(3, 5, 300));
        sent.extend(burst(2, 3, 200));
        let (network, log) = run(&graph, &sent, &[]);
        let victim = log.received.iter().filter(|(_, number)| *number >= 900);
        (network.totals().dropped, victim.map(|(at, _)| *at).max())
    };
    let ((dropped, before), (none, after)) = (of(false), of(true));
    assert!(dropped > 0 && none == 0);
    // 200 packets of either take 4.9 ms on the trunk; a third of the last link's rate is as much as
    // the other gets, and the victim gets no more.
    assert!(before.unwrap() < SimTime::from_micros(5_000), "{before:?}");
    assert!(after.unwrap() > SimTime::from_micros(6_000), "{after:?}");
}

/// PFC: the class that fills up is paused, another one goes on over the same links.
#[test]
fn a_paused_class_does_not_hold_others() {
    let pause = PauseSpec {
        kind: PauseKind::Priority { classes: 0xff },
        ..PauseSpec::new(1_500)
    };
    let graph = gigabit(8 * 20_000, pause);
    let mut sent = burst(0, 5, 300);
    sent.extend(burst(4, 5, 300));
    sent.extend(burst(3, 5, 300));
    let bulk = sent.len() as u64;
    // From a host of its own, so that its NIC is not paused.
    sent.extend(burst(1, 4, 40).into_iter().map(|s| Sent { dscp: 8, ..s }));
    let (network, log) = run(&graph, &sent, &[]);
    assert_eq!(network.totals().dropped, 0);
    let other = log.received.iter().filter(|(_, number)| *number >= bulk);
    let last = other.map(|(at, _)| *at).max().unwrap();
    assert!(last < SimTime::from_millis(2), "{last:?}");
    let trunk = graph.port("s0->s1").unwrap();
    let classes = log.pauses.iter().filter_map(|(_, event)| match event {
        PauseEvent::Obeyed { port, classes, .. } if *port == trunk => Some(*classes),
        _ => None,
    });
    let classes: Vec<u8> = classes.collect();
    assert!(
        !classes.is_empty() && classes.iter().all(|c| *c == 1),
        "{classes:?}"
    );
}

/// A port that cannot hold what still comes after XOFF is refused with what it needs.
#[test]
fn a_memory_without_headroom_is_refused() {
    let graph = gigabit(5_000, PauseSpec::new(1_500));
    let error = graph.build::<BlastPacket>(1, TieOrder::ByLink).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("its memory of 5000 bytes"), "{text}");
    let mut network: Network<BlastPacket> = gigabit(50_000, PauseSpec::new(1_500))
        .build(1, TieOrder::ByLink)
        .unwrap();
    assert!(
        network
            .send(SimTime::ZERO, HostId(0), packet(), &mut NoTap)
            .is_ok()
    );
}

/// A pause that could be over before it is told again is refused with what it takes: twice a frame and
/// a pause frame.
#[test]
fn a_pause_too_short_to_be_renewed_is_refused() {
    let of = |quanta| {
        let pause = PauseSpec {
            quanta,
            ..PauseSpec::new(1_500)
        };
        let built = gigabit(50_000, pause).build::<BlastPacket>(1, TieOrder::ByLink);
        built.map(drop).map_err(|e| e.to_string())
    };
    let needed = 2 * (1_538_u16 + 84 + 1);
    let needed = needed.div_ceil(64);
    assert_eq!(of(needed), Ok(()));
    let error = of(needed - 1).unwrap_err();
    assert!(
        error.contains(&format!("give it {needed} and more")),
        "{error}"
    );
    assert!(of(0).is_err());
}

fn packet() -> BlastPacket {
    BlastPacket::new(HostId(0), HostId(1), 1_500, 0)
}
