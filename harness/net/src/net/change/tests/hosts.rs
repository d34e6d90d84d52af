//! Hosts that pause, NICs that reset, and hosts that wait for their NIC.

use std::collections::VecDeque;

use narrows_congestion::{Instant, Rate};

use super::{Fates, packet};
use crate::net::change::{Change, RECEIVE_RING};
use crate::net::{
    Attachment, Capacity, DropReason, HostId, ImpairSpec, LinkSpec, NicRoom, NicSpec, PortId,
    PortSpec, Star, TieOrder, When,
};
use crate::sim::blaster::BlastPacket;
use crate::sim::{Halt, Host, SimTime, World};

/// Sends packets at given times and remembers what happened when. What its NIC refuses it tries
/// again when there is room; a patient one asks for the room first.
struct Talker {
    id: u32,
    to: u32,
    patient: bool,
    times: VecDeque<Instant>,
    pending: u32,
    sent: u64,
    refused: u32,
    got: Vec<(u64, Instant)>,
    fired: Vec<Instant>,
}

impl Talker {
    fn new(id: u32, to: u32, times: impl IntoIterator<Item = SimTime>) -> Self {
        Self {
            id,
            to,
            patient: true,
            times: times.into_iter().map(SimTime::to_instant).collect(),
            pending: 0,
            sent: 0,
            refused: 0,
            got: Vec::new(),
            fired: Vec::new(),
        }
    }
}

impl Host for Talker {
    type Packet = BlastPacket;

    fn handle_packet(&mut self, now: Instant, packet: &BlastPacket) {
        self.got.push((packet.number, now));
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.fired.push(now);
        while self.times.front().is_some_and(|&t| t <= now) {
            self.times.pop_front();
            self.pending += 1;
        }
    }

    fn poll_transmit(&mut self, _: Instant, room: impl FnOnce() -> NicRoom) -> Option<BlastPacket> {
        if self.pending == 0 || (self.patient && room().packets() == 0) {
            return None;
        }
        self.pending -= 1;
        self.sent += 1;
        Some(packet(self.sent, self.id, self.to, 1_000))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.times.front().copied()
    }

    fn local_drop(&mut self, _: Instant, _: BlastPacket) {
        self.sent -= 1;
        self.pending += 1;
        self.refused += 1;
    }

    fn waits_for_nic(&self) -> bool {
        self.patient && self.pending > 0
    }
}

fn us(us: u64) -> SimTime {
    SimTime::from_micros(us)
}

/// Two hosts on a switch, 1 Gb/s and 10 us each way: a packet of 8 us takes 36 us.
fn world(nic: Capacity, hosts: Vec<Talker>) -> World<Talker, Fates> {
    let link = LinkSpec::new(Rate::from_gbps(1), us(10));
    let attachment = Attachment {
        nic: NicSpec::new(nic),
        up: link.clone(),
        port: PortSpec::new(Capacity::Unlimited),
        down: link,
    };
    let graph = Star::uniform(hosts.len(), &attachment).graph().unwrap();
    let network = graph.build(1, TieOrder::default()).unwrap();
    let mut world = World::with_tap(network, hosts, Fates::default());
    for h in 0..world.hosts().len() as u32 {
        world.kick(HostId(h));
    }
    world
}

fn conserved(world: &World<Talker, Fates>) {
    let t = world.network().totals();
    assert_eq!(
        t.sent + t.duplicated,
        t.delivered + t.dropped + t.in_network
    );
}

fn idle(world: &mut World<Talker, Fates>) {
    assert_eq!(world.run_until(SimTime::MAX), Halt::Idle);
    conserved(world);
    assert_eq!(world.network().totals().in_network, 0);
}

/// Packets arrive at 36, 46, ... us. The host pauses from 40 to 80 us with room for three: those
/// of 46, 56 and 66 wait, that of 76 is dropped, and that of 86 comes as ever. Its own timer of 50
/// us fires at 80.
#[test]
fn a_host_that_pauses_finds_its_packets_in_order_and_its_timers_late() {
    let sends = (0..6).map(|n| us(10 * n));
    let mut w = world(
        Capacity::Unlimited,
        vec![Talker::new(0, 1, [us(50)]), Talker::new(1, 0, sends)],
    );
    w.run_until(us(40));
    let (host, span, ring) = (HostId(0), us(40), 3);
    w.apply(&Change::Pause { host, span, ring }).unwrap();
    w.run_until(us(79));
    assert!(w.network().is_paused(host));
    assert_eq!(
        w.network().totals().in_network,
        4,
        "three wait, one is on its way"
    );
    // Who asks it meanwhile is answered later.
    w.kick(host);
    conserved(&w);
    idle(&mut w);
    let at = |n| us(n).to_instant();
    let got = [
        (1, at(36)),
        (2, at(80)),
        (3, at(80)),
        (4, at(80)),
        (6, at(86)),
    ];
    assert_eq!(w.hosts()[0].got, got);
    assert_eq!(w.hosts()[0].fired, [at(80)]);
    assert_eq!(w.hosts()[1].got, [(1, at(80 + 36))]);
    assert!(!w.network().is_paused(host));
    let link = w.network().port_to(host).unwrap();
    assert_eq!(w.network().stats(link).dropped(DropReason::RingFull), 1);
}

/// A packet that arrives at the instant at which the host goes on comes after those that wait.
#[test]
fn a_host_goes_on_after_all_that_happens_at_that_instant() {
    let sends = (0..4).map(|n| us(10 * n));
    let mut w = world(
        Capacity::Unlimited,
        vec![Talker::new(0, 1, [us(66)]), Talker::new(1, 0, sends)],
    );
    w.run_until(us(40));
    w.apply(&Change::Pause {
        host: HostId(0),
        span: us(16),
        ring: RECEIVE_RING,
    })
    .unwrap();
    // And once more, for longer; a shorter one changes nothing.
    for span in [26, 1] {
        w.apply(&Change::Pause {
            host: HostId(0),
            span: us(span),
            ring: RECEIVE_RING,
        })
        .unwrap();
    }
    idle(&mut w);
    let at = |n| us(n).to_instant();
    assert_eq!(
        w.hosts()[0].got,
        [(1, at(36)), (2, at(66)), (3, at(66)), (4, at(66))]
    );
    assert_eq!(w.hosts()[0].fired, [at(66)]);
}

#[test]
fn a_host_that_pauses_for_ever_is_dead() {
    let sends = (0..4).map(|n| us(10 * n));
    let mut w = world(
        Capacity::Unlimited,
        vec![Talker::new(0, 1, [us(66)]), Talker::new(1, 0, sends)],
    );
    w.run_until(us(40));
    let (host, span, ring) = (HostId(0), SimTime::MAX, 2);
    w.apply(&Change::Pause { host, span, ring }).unwrap();
    assert_eq!(w.run_until(SimTime::MAX), Halt::Idle);
    assert_eq!((w.hosts()[0].got.len(), w.hosts()[0].fired.len()), (1, 0));
    assert_eq!(w.network().totals().in_network, 2);
    conserved(&w);
    w.pass(SimTime::from_secs(1));
    assert_eq!(w.now(), SimTime::from_secs(1));
}

/// Ten packets from host 1 at once, and one each 10 us to it. At 20 us two have left and arrive,
/// the third is half sent; eight are lost. Until 100 us nothing reaches host 1, and it sends
/// nothing: what it gives its NIC at 50 us leaves then.
#[test]
fn a_nic_that_is_reset_loses_its_ring_and_what_arrives() {
    let burst = std::iter::repeat_n(us(0), 10).chain([us(50)]);
    let sends = (0..8).map(|n| us(10 * n));
    let mut w = world(
        Capacity::Unlimited,
        vec![Talker::new(0, 1, sends), Talker::new(1, 0, burst)],
    );
    w.run_until(us(20));
    let (host, span) = (HostId(1), us(80));
    w.apply(&Change::NicReset { host, span }).unwrap();
    conserved(&w);
    let nic = w.network().stats(PortId(1));
    assert_eq!((nic.dropped(DropReason::NicReset), nic.packets), (8, 3));
    idle(&mut w);
    let at = |n| us(n).to_instant();
    // 36 and 44 had left; 11 leaves at 100.
    assert_eq!(w.hosts()[0].got, [(1, at(36)), (2, at(44)), (11, at(136))]);
    // Those sent at 0 to 60 arrive at 36 to 96 and are lost.
    assert_eq!(w.hosts()[1].got, [(8, at(106))]);
    let link = w.network().port_to(host).unwrap();
    assert_eq!(w.network().stats(link).dropped(DropReason::NicReset), 7);
}

/// Both kinds of host, a NIC of four, and forty packets: its link goes down, is reset, gets another
/// rate and another limit. All that is not lost arrives, without a timer to help.
#[test]
fn a_host_that_waits_for_its_nic_is_not_forgotten() {
    let nic = PortId(1);
    let host = HostId(1);
    let changes: [&[(u64, Change)]; 5] = [
        &[
            (20, Change::LinkDown { port: nic }),
            (500, Change::LinkUp { port: nic }),
        ],
        &[(
            20,
            Change::NicReset {
                host,
                span: us(300),
            },
        )],
        &[
            (20, Change::LinkDown { port: nic }),
            (
                30,
                Change::NicReset {
                    host,
                    span: us(300),
                },
            ),
            (100, Change::LinkUp { port: nic }),
        ],
        &[
            (
                20,
                Change::Rate {
                    port: nic,
                    rate: Rate::from_mbps(10),
                },
            ),
            (
                5_000,
                Change::Rate {
                    port: nic,
                    rate: Rate::from_gbps(10),
                },
            ),
        ],
        &[
            (
                10,
                Change::Capacity {
                    port: nic,
                    capacity: Capacity::Packets(0),
                },
            ),
            (
                200,
                Change::Capacity {
                    port: nic,
                    capacity: Capacity::Packets(9),
                },
            ),
        ],
    ];
    // On the wire and half sent; half sent and three in the ring; both, and four more.
    let expected = [2, 4, 6, 0, 0];
    for ((n, changes), expected) in changes.iter().enumerate().zip(expected) {
        for patient in [true, false] {
            let run = || {
                let mut talker = Talker::new(1, 0, std::iter::repeat_n(us(0), 40));
                talker.patient = patient;
                let quiet = Talker::new(0, 1, []);
                let mut w = world(Capacity::Packets(4), vec![quiet, talker]);
                for (time, change) in *changes {
                    w.run_until(us(*time));
                    w.pass(us(*time));
                    w.apply(change).unwrap();
                    conserved(&w);
                }
                idle(&mut w);
                w
            };
            let w = run();
            let lost = w.network().totals().dropped as usize;
            let what = (n, patient);
            assert_eq!(
                (w.hosts()[1].sent, w.hosts()[1].pending),
                (40, 0),
                "{what:?}"
            );
            assert_eq!(w.hosts()[0].got.len() + lost, 40, "{what:?}");
            assert_eq!(lost, expected, "{what:?}");
            assert!(!patient || w.hosts()[1].refused == 0);
            assert_eq!(w.hosts()[0].got, run().hosts()[0].got, "{what:?}");
        }
    }
}

/// A rate that is halved moves the time at which a host that waits for its NIC may go on.
#[test]
fn a_nic_that_becomes_slower_takes_packets_later() {
    let mut w = world(
        Capacity::Packets(1),
        vec![
            Talker::new(0, 1, []),
            Talker::new(1, 0, std::iter::repeat_n(us(0), 3)),
        ],
    );
    w.run_until(us(4));
    w.apply(&Change::Rate {
        port: PortId(1),
        rate: Rate::from_mbps(500),
    })
    .unwrap();
    idle(&mut w);
    let at = |n| us(n).to_instant();
    // Sent until 8, 24 and 40 us.
    let expected = [(1, at(36)), (2, at(52)), (3, at(68))];
    assert_eq!(w.hosts()[0].got, expected);
    assert_eq!(w.hosts()[1].refused, 0);
}

/// A host that pauses does not go on because its NIC has room or will have it.
#[test]
fn a_change_of_its_nic_does_not_wake_a_host() {
    let nic = PortId(1);
    for patient in [true, false] {
        let mut talker = Talker::new(1, 0, std::iter::repeat_n(us(0), 2));
        talker.patient = patient;
        let mut w = world(Capacity::Packets(1), vec![Talker::new(0, 1, []), talker]);
        w.run_until(us(4));
        let (host, span, ring) = (HostId(1), us(96), RECEIVE_RING);
        w.apply(&Change::Pause { host, span, ring }).unwrap();
        for capacity in [Capacity::Packets(1), Capacity::Unlimited] {
            w.apply(&Change::Capacity {
                port: nic,
                capacity,
            })
            .unwrap();
            w.start_at(host, us(6));
        }
        idle(&mut w);
        let at = |n| us(n).to_instant();
        assert_eq!(w.hosts()[0].got, [(1, at(36)), (2, at(136))]);
    }
}

/// A link that holds back every packet for 50 us holds it until the host has paused, or its NIC
/// is being reset.
#[test]
fn what_a_link_held_back_finds_the_host_as_it_is_then() {
    let late = ImpairSpec {
        reorder: When::EachNth(1),
        reorder_min: us(50),
        reorder_max: us(50),
        ..ImpairSpec::default()
    };
    for reset in [false, true] {
        let sends = [us(0), us(10)];
        let mut w = world(
            Capacity::Unlimited,
            vec![Talker::new(0, 1, []), Talker::new(1, 0, sends)],
        );
        let host = HostId(0);
        let port = w.network().port_to(host).unwrap();
        let impair = late.clone();
        w.apply(&Change::Faults { port, impair }).unwrap();
        w.run_until(us(60));
        let (span, ring) = (us(30), RECEIVE_RING);
        w.apply(&match reset {
            false => Change::Pause { host, span, ring },
            true => Change::NicReset { host, span },
        })
        .unwrap();
        idle(&mut w);
        let at = |n| us(n).to_instant();
        let got = [(1, at(90)), (2, at(96))];
        assert_eq!(w.hosts()[0].got, got[usize::from(reset)..]);
    }
}

/// A reset that is asked for twice lasts until the later end.
#[test]
fn a_reset_lasts_until_its_later_end() {
    let mut w = world(
        Capacity::Unlimited,
        vec![Talker::new(0, 1, []), Talker::new(1, 0, [us(10)])],
    );
    for span in [20, 50, 30] {
        let (host, span) = (HostId(1), us(span));
        w.apply(&Change::NicReset { host, span }).unwrap();
    }
    idle(&mut w);
    assert_eq!(w.hosts()[0].got, [(1, us(50 + 36).to_instant())]);
}
