//! NICs and processors in a network, without a TCP.

use narrows_congestion::Rate;

use super::{Coalescing, CpuSpec, HostStats, NicSpec, ReceiveSpec};
use crate::net::change::Change;
use crate::net::nic::NicRoom;
use crate::net::rig::{self, Probe};
use crate::net::stats::DropReason;
use crate::net::{Capacity, HostId, LinkSpec, Star, TieOrder};
use crate::sim::tap::{Tap, TapEvent};
use crate::sim::time::SimTime;
use crate::sim::world::{Host, World};
use narrows_congestion::Instant;
use std::collections::VecDeque;

/// Sends what it is told to, and remembers what came when.
#[derive(Default)]
struct Peer {
    to_send: VecDeque<(Instant, Probe)>,
    due: VecDeque<Probe>,
    got: Vec<(Instant, u64)>,
}

impl Host for Peer {
    type Packet = Probe;

    fn handle_packet(&mut self, now: Instant, packet: &Probe) {
        self.got.push((now, packet.number));
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, packet)) = self.to_send.front()
            && at <= now
        {
            self.to_send.pop_front();
            self.due.push_back(packet);
        }
    }

    fn poll_transmit(&mut self, _: Instant, _: impl FnOnce() -> NicRoom) -> Option<Probe> {
        self.due.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.to_send.front().map(|(at, _)| *at)
    }

    fn local_drop(&mut self, _: Instant, packet: Probe) {
        self.due.push_front(packet);
    }
}

#[derive(Default)]
struct Drops(Vec<DropReason>);

impl Tap<Probe> for Drops {
    fn event(&mut self, _: SimTime, event: TapEvent, _: &Probe) {
        if let TapEvent::Dropped { reason, .. } = event {
            self.0.push(reason);
        }
    }
}

const fn us(us: u64) -> SimTime {
    SimTime::from_micros(us)
}

/// Host 1 sends packets to host 0, which has this receive side; a packet of 1000 bytes takes 8 us on
/// each of two links without delay.
fn world(receive: ReceiveSpec, times: impl IntoIterator<Item = SimTime>) -> World<Peer, Drops> {
    let mut attachment = rig::attachment();
    let link = LinkSpec::new(Rate::from_gbps(1), SimTime::ZERO);
    (attachment.up, attachment.down) = (link.clone(), link);
    attachment.nic = NicSpec {
        receive,
        ..NicSpec::new(Capacity::Unlimited)
    };
    let graph = Star::uniform(2, &attachment).graph().unwrap();
    let network = graph.build(1, TieOrder::ByLink).unwrap();
    let sender = Peer {
        to_send: times
            .into_iter()
            .zip(0..)
            .map(|(at, number)| {
                let packet = Probe {
                    number,
                    to: HostId(0),
                    flow: 0,
                };
                (at.to_instant(), packet)
            })
            .collect(),
        ..Peer::default()
    };
    let mut world = World::with_tap(network, vec![Peer::default(), sender], Drops::default());
    world.kick(HostId(1));
    world
}

/// When packets came to host 0, in microseconds.
fn arrivals(world: &World<Peer, Drops>) -> Vec<u64> {
    let totals = world.network().totals();
    let gone = totals.delivered + totals.dropped + totals.in_network;
    assert_eq!(
        totals.sent + totals.duplicated,
        gone,
        "none is lost from sight"
    );
    let got = world.hosts()[0].got.iter();
    got.map(|(at, _)| SimTime::from_instant(*at).as_picos() / 1_000_000)
        .collect()
}

fn stats(world: &World<Peer, Drops>) -> HostStats {
    world.network().host_stats(world.now(), HostId(0)).unwrap()
}

fn held(frames: u32, age: u64) -> ReceiveSpec {
    ReceiveSpec {
        coalescing: Coalescing {
            frames,
            age: us(age),
        },
        ..ReceiveSpec::DIRECT
    }
}

/// The table of ethtool's two values, with frames that come every 8 us from 16 us on.
#[test]
fn an_interrupt_comes_by_frames_or_by_age_whichever_is_first() {
    let burst = || (0..5).map(|_| SimTime::ZERO);
    for (frames, age, expected) in [
        (1, 0, vec![16, 24, 32, 40, 48]),
        (1, 100, vec![16, 24, 32, 40, 48]),
        // By age: 30 us after the first, then after the first of the rest.
        (64, 30, vec![46, 46, 46, 46, 78]),
        (0, 30, vec![46, 46, 46, 46, 78]),
        (2, 30, vec![24, 24, 40, 40, 78]),
        // By frames alone what is left waits for good.
        (2, 0, vec![24, 24, 40, 40]),
    ] {
        let mut w = world(held(frames, age), burst());
        w.run_until(us(1_000));
        assert_eq!(arrivals(&w), expected, "{frames} frames, {age} us");
    }
}

#[test]
fn a_poll_takes_its_budget_and_the_next_needs_no_interrupt() {
    let mut w = world(
        ReceiveSpec {
            budget: 4,
            ..held(10, 0)
        },
        (0..10).map(|_| SimTime::ZERO),
    );
    w.run_until(us(1_000));
    let stats = stats(&w);
    assert_eq!((stats.interrupts, stats.polls), (1, 3));
    assert_eq!(arrivals(&w), [88; 10]);
    assert_eq!(
        (stats.acks, stats.aggregates),
        (10, 0),
        "they have no payload"
    );
}

/// An interrupt of 10 us and 20 us a packet: what arrives meanwhile waits in the ring, and is taken
/// without another interrupt only if the budget was used up.
#[test]
fn a_core_does_one_thing_after_the_other() {
    let cpu = CpuSpec {
        interrupt: us(10),
        ack: us(20),
        ..CpuSpec::FREE
    };
    let slow = ReceiveSpec {
        cpu,
        ring: 2,
        ..ReceiveSpec::DIRECT
    };
    // They arrive at 16, 24, 32, 40, 48 us. The poll at 26 takes the first two, until 66; two wait
    // and the fifth finds the ring full. A second interrupt at 66, and 76 + 20, 76 + 40.
    let mut w = world(slow, (0..5).map(|_| SimTime::ZERO));
    w.run_until(us(1_000));
    assert_eq!(arrivals(&w), [46, 66, 96, 116]);
    assert_eq!(w.tap_mut().0, [DropReason::RingFull]);
    let stats = stats(&w);
    assert_eq!((stats.interrupts, stats.polls), (2, 2));
    assert_eq!(stats.busy, us(2 * 10 + 4 * 20));
}

/// A ring of R frames and a core that takes one in s: of n frames that come one after the other in a each,
/// R + 1 + floor((n - 1) a / s) are kept, since s is more than a and the ring is full at the end (the
/// deterministic queue D/D/1 with R places to wait). With polls of 64 up to 64 more are off the ring.
#[test]
fn a_ring_keeps_what_it_holds_and_what_is_served_meanwhile() {
    let (n, a) = (500_u64, 8);
    for (ring, s) in [
        (1_u32, 9_u64),
        (16, 9),
        (64, 13),
        (64, 29),
        (256, 29),
        (256, 501),
    ] {
        let run = |budget: u32| {
            let receive = ReceiveSpec {
                cpu: CpuSpec {
                    ack: us(s),
                    ..CpuSpec::FREE
                },
                ring,
                budget,
                ..ReceiveSpec::DIRECT
            };
            let mut w = world(receive, (0..n).map(|_| SimTime::ZERO));
            w.run_until(us(1_000_000));
            let kept = arrivals(&w).len() as u64;
            assert_eq!(w.tap_mut().0.len() as u64, n - kept);
            kept
        };
        let kept = (u64::from(ring) + 1 + (n - 1) * a / s).min(n);
        assert_eq!(run(1), kept, "a ring of {ring}, {s} us a frame");
        let polled = run(64);
        assert!(
            (kept..=kept + 64).contains(&polled),
            "{polled}, {kept} and up to 64 in a poll"
        );
    }
}

#[test]
fn cores_of_something_else_are_busy_and_delay_nothing() {
    let with = |other| {
        let cpu = CpuSpec {
            other,
            ack: us(20),
            ..CpuSpec::FREE
        };
        let slow = ReceiveSpec {
            cpu,
            ..ReceiveSpec::DIRECT
        };
        let mut w = world(slow, (0..5).map(|_| SimTime::ZERO));
        w.run_until(us(1_000));
        let all = w.network().host_stats(us(1_000), HostId(0));
        (arrivals(&w), all.unwrap())
    };
    let ((alone, packets), (beside, all)) = (with(0), with(3));
    assert_eq!(alone, beside);
    assert_eq!((packets.busy, packets.cores), (us(5 * 20), 1));
    assert_eq!((all.busy, all.cores), (us(5 * 20 + 3 * 1_000), 4));
}

#[test]
fn a_reset_loses_what_the_ring_holds_and_what_comes_meanwhile() {
    let mut w = world(held(64, 100), [0, 10, 50].map(us));
    w.run_until(us(30));
    let host = HostId(0);
    w.apply(&Change::NicReset { host, span: us(20) }).unwrap();
    w.run_until(us(1_000));
    // The third arrives at 66 us and waits for 100.
    assert_eq!(arrivals(&w), [166]);
    assert_eq!(w.tap_mut().0, [DropReason::NicReset; 2]);
}

#[test]
fn a_paused_host_finds_in_its_ring_what_came() {
    let mut w = world(held(2, 100), [0, 0, 50].map(us));
    let (host, ring) = (HostId(0), 16);
    let pause = Change::Pause {
        host,
        span: us(200),
        ring,
    };
    w.apply(&pause).unwrap();
    w.run_until(us(1_000));
    assert_eq!(arrivals(&w), [200; 3]);
}

#[test]
fn a_host_that_only_queues_has_no_numbers() {
    let w = world(ReceiveSpec::DIRECT, [SimTime::ZERO]);
    assert_eq!(w.network().host_stats(us(9), HostId(0)), None);
    assert_eq!(w.network().without_buffer(HostId(0)), None);
}
