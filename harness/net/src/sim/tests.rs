//! The network and the world together: closed forms, determinism, conservation.

use narrows_congestion::{ByteCount, Duration, Instant, Rate};
use proptest::prelude::*;

use super::blaster::{Blast, BlastPacket, Blaster};
use super::{Halt, Host, Limits, NoTap, SimTime, Tap, TapEvent, World};
use crate::net::discipline::codel::CodelSpec;
use crate::net::discipline::drr::DrrSpec;
use crate::net::discipline::red::RedSpec;
use crate::net::discipline::tail::{NotCapable, Threshold};
use crate::net::graph::{Egress, PortProblem, SwitchSpec};
use crate::net::port::PoolId;
use crate::net::stats::QueueArea;
use crate::net::{
    Attachment, Capacity, DisciplineError, DisciplineSpec, DropReason, Framing, Graph, HostId,
    ImpairSpec, InService, LinkSpec, Network, NicRoom, NicSpec, Packet as _, PoolSpec, PortId,
    PortSpec, Star, TieOrder, TopologyError, When,
};
use crate::sim::queue::Event;
use crate::sim::rng::{Component, Probability, Stream};

const US: u64 = 1_000_000;
/// 1040 bytes at 1 Gb/s.
const S: u64 = 8_320_000;

fn ps(ps: u64) -> SimTime {
    SimTime::from_picos(ps)
}

fn gigabit() -> LinkSpec {
    LinkSpec::new(Rate::from_gbps(1), SimTime::from_micros(25))
}

fn attach(capacity: Capacity) -> Attachment {
    Attachment {
        nic: NicSpec::new(Capacity::Unlimited),
        up: gigabit(),
        port: PortSpec::new(capacity),
        down: gigabit(),
    }
}

/// A star and the run that it is for.
#[derive(Clone, Debug)]
struct StarRun {
    hosts: Vec<Attachment>,
    pools: Vec<PoolSpec>,
    seed: u64,
    ties: TieOrder,
}

impl StarRun {
    fn uniform(hosts: usize, attachment: &Attachment, seed: u64) -> Self {
        let Star { hosts, pools } = Star::uniform(hosts, attachment);
        Self {
            hosts,
            pools,
            seed,
            ties: TieOrder::default(),
        }
    }

    fn build<P: crate::net::Packet>(&self) -> Result<Network<P>, TopologyError> {
        let star = Star {
            hosts: self.hosts.clone(),
            pools: self.pools.clone(),
        };
        star.graph()?.build(self.seed, self.ties)
    }
}

fn burst(packets: u64) -> Blast {
    Blast {
        packets,
        window: packets,
        len: 1_040,
        ack_len: 40,
        timeout: None,
        ecn_capable: true,
        dscp: 0,
    }
}

/// Everything that a tap is told, as values.
#[derive(Default)]
struct Log(Vec<(SimTime, TapEvent, BlastPacket)>);

impl Tap<BlastPacket> for Log {
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &BlastPacket) {
        self.0.push((at, event, *packet));
    }
}

fn run(spec: &StarRun, blast: Blast) -> World<Blaster, Log> {
    let servers = spec.hosts.len() as u32 - 1;
    let network = spec.build().unwrap();
    let mut w = World::with_tap(network, Blaster::hosts(servers, blast), Log::default());
    w.start_all(spec.seed, SimTime::ZERO, SimTime::ZERO);
    assert_eq!(w.run_until(SimTime::MAX), Halt::Idle);
    w
}

fn client_port(network: &Network<BlastPacket>) -> PortId {
    network.port_to(HostId(0)).unwrap()
}

/// Time to the first packet at the switch, then the bottleneck without a gap: to the picosecond,
/// also where a byte takes 2666 2/3 ps.
#[test]
fn a_block_takes_the_closed_form_through_the_bottleneck() {
    for (gbps, servers, packets) in [(1, 1, 256), (1, 8, 256), (3, 7, 101), (400, 3, 1_000)] {
        let mut a = attach(Capacity::Unlimited);
        a.up.rate = Rate::from_gbps(gbps);
        a.down.rate = Rate::from_gbps(gbps);
        let mut w = run(&StarRun::uniform(servers + 1, &a, 1), burst(packets));
        let byte_times = |n: u64| n * 1_040 * 8_000 / gbps;
        let at_switch = byte_times(1) + 25 * US;
        let expected = at_switch + byte_times(packets * servers as u64) + 25 * US;
        let last = w
            .tap_mut()
            .0
            .iter()
            .rev()
            .find(|(_, e, p)| !p.is_ack && matches!(e, TapEvent::Received { host: HostId(0) }));
        assert_eq!(
            last.unwrap().0,
            ps(expected),
            "{gbps} Gb/s, {servers} servers"
        );
        assert_eq!(w.hosts()[0].data, packets * servers as u64);
    }
}

/// Three servers send four packets each at once: three arrive every packet time, one leaves.
/// With room for four (counted): 3, then 2, 1, 1 are taken. With four beside the one in
/// service: 3, 3, 1, 1.
#[test]
fn drops_are_those_counted_by_hand() {
    let bytes = |n| Capacity::Bytes(ByteCount::new(n));
    for (capacity, in_service, drops, most) in [
        (Capacity::Packets(4), InService::Counted, 5, 4),
        (Capacity::Packets(4), InService::NotCounted, 4, 4),
        (Capacity::Packets(3), InService::NotCounted, 5, 3),
        (bytes(4 * 1_040), InService::Counted, 5, 4),
        (bytes(5 * 1_040 - 1), InService::Counted, 5, 4),
        (bytes(4 * 1_040), InService::NotCounted, 4, 4),
        (Capacity::Packets(0), InService::NotCounted, 8, 0),
        (Capacity::Packets(1), InService::Counted, 8, 1),
    ] {
        let mut a = attach(capacity);
        a.port.in_service = in_service;
        let w = run(&StarRun::uniform(4, &a, 1), burst(4));
        let stats = w.network().stats(client_port(w.network()));
        assert_eq!(
            stats.dropped(DropReason::Full),
            drops,
            "{capacity:?} {in_service:?}"
        );
        assert_eq!(stats.dropped_total(), drops);
        assert_eq!(stats.packets, 12 - drops);
        assert_eq!(
            (stats.max_packets, stats.max_bytes),
            (most, u64::from(most) * 1_040)
        );
    }
}

/// Three packets at once at an idle port: the queue is 3, 2, 1 for a packet time each.
#[test]
fn the_queue_area_is_exact_at_any_time() {
    for (in_service, whole, half) in [
        (InService::Counted, 6 * S, 4 * S),
        (InService::NotCounted, 3 * S, 5 * S / 2),
    ] {
        let mut a = attach(Capacity::Unlimited);
        a.port.in_service = in_service;
        let network = StarRun::uniform(4, &a, 1).build().unwrap();
        let mut w = World::new(network, Blaster::hosts(3, burst(1)));
        let port = client_port(w.network());
        w.network_mut().trace_queue(port);
        w.network_mut().measure_queue(port);
        w.start_all(1, SimTime::ZERO, SimTime::ZERO);
        let begin = S + 25 * US;
        for (at, area) in [(begin + S * 3 / 2, half), (begin + 4 * S, whole)] {
            assert_eq!(w.run_until(ps(at)), Halt::Reached);
            let measured = w.network_mut().queue_area(ps(at), port).unwrap();
            assert_eq!(measured.packets, u128::from(area));
            assert_eq!(measured.bytes, u128::from(area) * 1_040);
        }
        let end = w.network_mut().queue_area(ps(begin + 4 * S), port).unwrap();
        let expected = u128::from(whole) * 1_000 / u128::from(begin + 4 * S);
        assert_eq!(
            u128::from(end.mean_millipackets_since(&QueueArea::START)),
            expected
        );
        let trace = w
            .network_mut()
            .take_queue_trace(ps(begin + 4 * S), port)
            .unwrap();
        let samples: Vec<_> = trace
            .samples()
            .iter()
            .map(|(t, d)| (t.as_picos() - begin, d.packets))
            .collect();
        assert_eq!(
            samples,
            [(0, 1), (0, 2), (0, 3), (S, 2), (2 * S, 1), (3 * S, 0)]
        );
    }
}

/// A port that drops at its head: its counters, its area and its trace tell one story, whenever
/// they are asked, and asking changes nothing.
#[test]
fn drops_at_the_head_are_accounted_for() {
    let run = |counted: bool, questions: u64| {
        let mut a = attach(Capacity::Packets(60));
        a.port.in_service = if counted {
            InService::Counted
        } else {
            InService::NotCounted
        };
        a.port.discipline = DisciplineSpec::Codel(CodelSpec {
            target: SimTime::from_micros(50),
            interval: SimTime::from_micros(100),
            max_packet: 1_040,
            ce_threshold: None,
        });
        let network = StarRun::uniform(4, &a, 1).build().unwrap();
        let blast = Blast {
            ecn_capable: false,
            ..burst(40)
        };
        let mut w = World::new(network, Blaster::hosts(3, blast));
        let port = client_port(w.network());
        w.network_mut().trace_queue(port);
        w.network_mut().measure_queue(port);
        w.start_all(1, SimTime::ZERO, SimTime::ZERO);
        let end = 2 * 1_000 * US;
        for i in 1..=questions {
            let at = ps(end * i / questions);
            let outcome = w.run_until(at);
            assert!(matches!(outcome, Halt::Reached | Halt::Idle));
            w.network_mut().queued(at, port);
        }
        let area = w.network_mut().queue_area(ps(end), port).unwrap();
        let stats = w.network().stats(port);
        let trace = w.network_mut().take_queue_trace(ps(end), port).unwrap();
        let held = w.network_mut().queued(ps(end), port).packets;
        (stats, area, trace.samples().to_vec(), held)
    };
    for counted in [true, false] {
        let (stats, area, trace, held) = run(counted, 1);
        let (early, full) = (
            stats.dropped(DropReason::Early),
            stats.dropped(DropReason::Full),
        );
        assert!(early > 3 && full > 0, "{early} {full}");
        assert_eq!((stats.packets + early + full, held), (120, 0));
        assert!(trace.windows(2).all(|w| w[0].0 <= w[1].0));
        let spans = trace.windows(2).map(|w| {
            let counts = w[0].1.packets - u32::from(!counted && w[0].1.packets > 0);
            u128::from((w[1].0 - w[0].0).as_picos()) * u128::from(counts)
        });
        assert_eq!(area.packets, spans.sum::<u128>());
        for questions in [7, 1_000] {
            let again = run(counted, questions);
            assert_eq!((&stats, area, &trace), (&again.0, again.1, &again.2));
        }
    }
}

/// Sends a packet from one host to another.
fn send_at(network: &mut Network<BlastPacket>, now: SimTime, number: u64, (from, to): (u32, u32)) {
    let packet = BlastPacket::new(HostId(from), HostId(to), 1_000, number);
    network.send(now, HostId(from), packet, &mut NoTap).unwrap();
}

/// Sends one packet from each listed host to another at time 0 and runs until all is idle.
fn send_all(network: &mut Network<BlastPacket>, pairs: &[(u32, u32)]) {
    for (number, &pair) in (0..).zip(pairs) {
        send_at(network, SimTime::ZERO, number, pair);
    }
    while let Some(event) = network.events.pop_until(SimTime::MAX) {
        network.handle(event, &mut NoTap);
    }
}

/// Pool of 12,000 bytes, packets of 1,000 at one instant. One port, alpha 1: taken while
/// held < free, so 6. Two ports in turn: alpha B / (1 + 2 alpha) = 4 each. Alpha 1/2: 4 and 3.
/// And what has left one port makes room at the other.
#[test]
fn dynamic_thresholds_follow_the_formula() {
    for (num, den, ports, each) in [(1, 1, 1, 6), (1, 1, 2, 4), (1, 2, 1, 4), (1, 2, 2, 3)] {
        let mut a = attach(Capacity::Unlimited);
        a.port.pool = Some(PoolId(0));
        let mut spec = StarRun::uniform(42, &a, 1);
        let size = ByteCount::new(12_000);
        spec.pools = vec![PoolSpec {
            size,
            reserve: ByteCount::ZERO,
            alpha_num: num,
            alpha_den: den,
        }];
        spec.ties = TieOrder::ByLink;
        let mut network = spec.build().unwrap();
        let pairs: Vec<_> = (0..40).map(|i| (i + 2, i % ports)).collect();
        send_all(&mut network, &pairs);
        for p in 0..ports {
            let port = network.port_to(HostId(p)).unwrap();
            let stats = network.stats(port);
            assert_eq!(
                u64::from(stats.max_packets),
                each,
                "alpha {num}/{den}, {ports} ports"
            );
            assert_eq!(
                stats.dropped(DropReason::OverThreshold),
                40 / u64::from(ports) - each
            );
        }
        let (used, max) = network.pool_used(SimTime::MAX, PoolId(0));
        assert_eq!((used, max), (0, each * u64::from(ports) * 1_000));
    }
}

/// What ports hold is added up at each instant in one run, and nobody looks in the other: the same packets
/// are dropped, and the peak is that of the sums.
#[test]
fn a_pool_decides_alike_however_seldom_it_is_looked_at() {
    for seed in 0..40 {
        let run = |looks: bool| {
            let mut a = attach(Capacity::Unlimited);
            a.port.pool = Some(PoolId(0));
            let mut spec = StarRun::uniform(12, &a, 1);
            spec.pools = vec![PoolSpec {
                size: ByteCount::new(12_000),
                reserve: ByteCount::new(seed % 3 * 300),
                alpha_num: 1,
                alpha_den: 1 + seed as u32 % 4,
            }];
            let mut network = spec.build().unwrap();
            let mut random = Stream::new(seed, Component::Host, 0);
            let (mut now, mut peak) = (SimTime::ZERO, 0);
            for number in 0..300 {
                let gap = random.below(2_500_000);
                now += SimTime::from_picos(gap);
                handle_until(&mut network, now, looks, &mut peak);
                let pair = (random.below(9) as u32 + 3, random.below(3) as u32);
                send_at(&mut network, now, number, pair);
            }
            handle_until(&mut network, SimTime::MAX, looks, &mut peak);
            let ports = (0..3).map(|p| network.port_to(HostId(p)).unwrap());
            let stats: Vec<_> = ports.map(|port| network.stats(port)).collect();
            (stats, network.pool_used(SimTime::MAX, PoolId(0)), peak)
        };
        let (looked, unlooked) = (run(true), run(false));
        assert_eq!(looked.0, unlooked.0, "seed {seed}");
        assert_eq!(looked.1, unlooked.1, "seed {seed}");
        if seed % 3 == 0 {
            assert_eq!(unlooked.1, (0, looked.2), "seed {seed}");
        }
        let dropped: u64 = looked
            .0
            .iter()
            .map(|s| s.dropped(DropReason::OverThreshold))
            .sum();
        assert!(dropped > 0, "seed {seed}: nothing hangs on the pool");
    }
}

/// Handles what is due; with `looks` adds up what three ports hold each time.
fn handle_until(network: &mut Network<BlastPacket>, limit: SimTime, looks: bool, peak: &mut u64) {
    while let Some(event) = network.events.pop_until(limit) {
        if let Some((_, slot)) = network.handle(event, &mut NoTap) {
            network.release(slot);
        }
        if looks {
            let ports = [0, 1, 2].map(|p| network.port_to(HostId(p)).unwrap());
            let held = ports.map(|port| network.queued(event.time, port).bytes);
            *peak = held.iter().sum::<u64>().max(*peak);
            network.pool_used(event.time, PoolId(0));
        }
    }
}

#[test]
fn a_pool_gets_back_what_leaves_any_of_its_ports() {
    let mut a = attach(Capacity::Unlimited);
    a.port.pool = Some(PoolId(0));
    let mut spec = StarRun::uniform(12, &a, 1);
    // A threshold so high that only the pool's size limits.
    spec.pools = vec![PoolSpec {
        size: ByteCount::new(3_000),
        reserve: ByteCount::ZERO,
        alpha_num: 1_000,
        alpha_den: 1,
    }];
    let mut network = spec.build::<BlastPacket>().unwrap();
    // Three to host 0 fill the pool; the second packets arrive one packet time later, when one
    // has left: one of those to host 1 is taken.
    send_all(
        &mut network,
        &[(2, 0), (3, 0), (4, 0), (5, 0), (2, 1), (3, 1), (4, 1)],
    );
    let drops = |n: &Network<BlastPacket>, h| {
        n.stats(n.port_to(HostId(h)).unwrap())
            .dropped(DropReason::PoolExhausted)
    };
    assert_eq!((drops(&network, 0), drops(&network, 1)), (1, 2));
}

/// K = 3, ten at one instant: those that find 4 or more are marked, or dropped without ECN.
#[test]
fn the_step_marks_what_finds_more_than_k() {
    for (ecn_capable, marks, early) in [(true, 6, 0), (false, 0, 6)] {
        let mut a = attach(Capacity::Unlimited);
        a.port.discipline = DisciplineSpec::EcnStep {
            threshold: Threshold::Packets(3),
            not_capable: NotCapable::Drop,
        };
        let blast = Blast {
            ecn_capable,
            ..burst(1)
        };
        let w = run(&StarRun::uniform(11, &a, 1), blast);
        let stats = w.network().stats(client_port(w.network()));
        assert_eq!(
            (stats.marks, stats.dropped(DropReason::Early)),
            (marks, early)
        );
        assert_eq!(w.hosts()[0].marks, marks);
    }
}

#[test]
fn ties_go_by_link_or_by_a_shuffle_of_the_seed() {
    let first = |ties, seed| {
        let mut spec = StarRun::uniform(9, &attach(Capacity::Packets(1)), seed);
        spec.ties = ties;
        let w = run(&spec, burst(1));
        let winner = w.hosts().iter().position(|h| h.acks == 1).unwrap();
        assert_eq!(w.hosts()[0].data, 1);
        winner
    };
    assert!((0..20).all(|seed| first(TieOrder::ByLink, seed) == 1));
    let winners: std::collections::BTreeSet<_> = (0..40)
        .map(|seed| first(TieOrder::Shuffled, seed))
        .collect();
    assert!(winners.len() >= 6, "{winners:?}");
}

/// Host 1 sends twice as fast: its second packet, which waited for the first, reaches the port
/// together with the first one of host 2. The port keeps two.
#[test]
fn ties_can_put_packets_last_that_waited_in_their_nic() {
    let acks = |ties, seed| {
        let mut spec = StarRun::uniform(3, &attach(Capacity::Packets(2)), seed);
        spec.ties = ties;
        let rate = spec.hosts[1].up.rate;
        spec.hosts[1].up.rate = Rate::from_bits_per_sec(rate.bits_per_sec() * 2);
        spec.hosts[0].down.rate = Rate::from_bits_per_sec(rate.bits_per_sec() / 100);
        let w = run(&spec, burst(2));
        (w.hosts()[1].acks, w.hosts()[2].acks)
    };
    assert_eq!(acks(TieOrder::ByLink, 1), (2, 0));
    for seed in 0..10 {
        assert_eq!(acks(TieOrder::WaitedLast, seed), (1, 1));
    }
}

/// A link that loses, damages, repeats and delays, RED, jitter and overhead: the whole log is
/// the same twice, and another with another seed.
#[test]
fn a_seed_gives_one_log() {
    let some = |n| When::Chance(Probability::ratio(n, 100));
    let log = |seed, hosts| {
        let mut a = attach(Capacity::Packets(30));
        a.nic.overhead = SimTime::from_nanos(500);
        a.up.impair = ImpairSpec {
            loss: some(2),
            corrupt: some(1),
            duplicate: some(3),
            mark: some(4),
            reorder: some(5),
            reorder_min: SimTime::from_micros(1),
            reorder_max: SimTime::from_micros(90),
            mtu: None,
        };
        a.port.discipline = DisciplineSpec::Red(RedSpec {
            min: Threshold::Packets(5),
            max: Threshold::Packets(15),
            max_p: Probability::ratio(1, 10),
            weight_log2: 5,
            gentle: true,
            idle_step: SimTime::from_picos(S),
            above_max: Default::default(),
            not_capable: Default::default(),
        });
        let blast = Blast {
            packets: 300,
            window: 5,
            timeout: Some(Duration::from_millis(1)),
            ..burst(1)
        };
        let network = StarRun::uniform(hosts, &a, seed).build().unwrap();
        let mut w = World::with_tap(
            network,
            Blaster::hosts(hosts as u32 - 1, blast),
            Log::default(),
        );
        w.start_all(seed, SimTime::ZERO, SimTime::from_micros(10));
        assert_eq!(w.run_until(SimTime::MAX), Halt::Idle);
        (w.events(), w.into_parts().2.0)
    };
    let a = log(1, 9);
    assert!(a.1.len() > 10_000 && a == log(1, 9));
    assert!(a.1 != log(2, 9).1);
    // One host more shifts no start and no loss of the others.
    let starts = |l: &[(SimTime, TapEvent, BlastPacket)], h| {
        l.iter()
            .find(|(_, e, _)| matches!(e, TapEvent::NicSent { host, .. } if host.0 == h))
            .map(|x| x.0)
    };
    let b = log(1, 10);
    assert!((1..9).all(|h| starts(&a.1, h) == starts(&b.1, h)));
}

/// A world that looks ahead does the same as one that does not.
#[test]
fn looking_ahead_changes_nothing() {
    let run = |looks_ahead| {
        let spec = StarRun::uniform(9, &attach(Capacity::Packets(30)), 1);
        let mut network = spec.build().unwrap();
        network.set_look_ahead(looks_ahead);
        let blast = Blast {
            packets: 300,
            window: 5,
            timeout: Some(Duration::from_millis(1)),
            ..burst(1)
        };
        let mut w = World::with_tap(network, Blaster::hosts(8, blast), Log::default());
        w.start_all(1, SimTime::ZERO, SimTime::from_micros(10));
        assert_eq!(w.run_until(SimTime::MAX), Halt::Idle);
        let events = w.events();
        let (_, network, log) = w.into_parts();
        assert_eq!(network.expected, None, "all were asked for");
        (network.totals().delivered, events, log.0)
    };
    let (ahead, not) = (run(true), run(false));
    assert!(not.0 > 4_000 && ahead == not);
}

/// A host is expected when a packet becomes the first on the link to it, before it arrives.
#[test]
fn a_host_is_asked_for_before_its_packet_arrives() {
    for looks_ahead in [true, false] {
        let spec = StarRun::uniform(3, &attach(Capacity::Unlimited), 1);
        let mut network = spec.build().unwrap();
        network.set_look_ahead(looks_ahead);
        send_at(&mut network, SimTime::ZERO, 1, (0, 2));
        // It reaches the switch, and is on its way to the host.
        let event = network.events.pop_until(SimTime::MAX).unwrap();
        assert_eq!(network.handle(event, &mut NoTap), None);
        assert_eq!(network.expected.take(), looks_ahead.then_some(HostId(2)));
        let event = network.events.pop_until(SimTime::MAX).unwrap();
        let arrived = network.handle(event, &mut NoTap).map(|(host, _)| host);
        assert_eq!((arrived, network.expected), (Some(HostId(2)), None));
    }
}

/// An event that its link does not wait for is nobody's packet.
#[test]
fn stale_events_are_ignored() {
    let spec = StarRun::uniform(2, &attach(Capacity::Unlimited), 1);
    let mut w = World::new(spec.build().unwrap(), Blaster::hosts(1, burst(2)));
    w.start_all(1, SimTime::ZERO, SimTime::ZERO);
    for ns in [1, 20_000, 66_640] {
        w.network_mut().events.push(Event {
            time: SimTime::from_nanos(ns),
            rank: 0,
            id: 1,
        });
    }
    assert_eq!(w.run_until(SimTime::MAX), Halt::Idle);
    assert_eq!((w.hosts()[0].data, w.hosts()[1].acks), (2, 2));
    let last = SimTime::from_picos(2 * S + S + 50 * US + 2 * 320_000 + 50 * US);
    assert_eq!(w.now(), last);
}

/// Two switches with two equal links between them: each flow keeps to one.
#[test]
fn flows_spread_over_equal_paths() {
    let mut graph = Graph::new();
    let switches = ["s0", "s1"].map(|name| graph.switch(SwitchSpec::new(name, "switch")).unwrap());
    for (n, host) in (0..).zip(graph.hosts_by_number(17).unwrap()) {
        let switch = switches[usize::from(n == 0)];
        graph
            .attach(host, switch, &attach(Capacity::Unlimited))
            .unwrap();
    }
    let egress = Egress {
        port: PortSpec::new(Capacity::Unlimited),
        link: gigabit(),
    };
    for _ in 0..2 {
        graph
            .trunk(switches[0], switches[1], &egress, &egress)
            .unwrap();
    }
    let network = graph.build(1, TieOrder::ByLink).unwrap();
    let mut w = World::with_tap(network, Blaster::hosts(16, burst(3)), Log::default());
    w.start_all(1, SimTime::ZERO, SimTime::ZERO);
    assert_eq!(w.run_until(SimTime::MAX), Halt::Idle);
    assert_eq!(w.hosts()[0].data, 48);
    for trunk in [["s0->s1#1", "s0->s1#2"], ["s1->s0#1", "s1->s0#2"]] {
        let used = trunk.map(|p| w.network().stats(graph.port(p).unwrap()).packets);
        assert!(
            used.iter().all(|&n| n > 0 && n % 3 == 0) && used[0] + used[1] == 48,
            "{used:?}"
        );
    }
}

/// What is for nobody finds no route, and that is said.
#[test]
fn packets_for_nobody_are_dropped_and_counted() {
    let mut network = StarRun::uniform(2, &attach(Capacity::Unlimited), 1)
        .build()
        .unwrap();
    network
        .send(SimTime::ZERO, HostId(1), packet(1, 7), &mut NoTap)
        .unwrap();
    while let Some(event) = network.events.pop_until(SimTime::MAX) {
        assert_eq!(network.handle(event, &mut NoTap), None);
    }
    let stats = network.stats(PortId(1));
    assert_eq!(stats.dropped(DropReason::NoRoute), 1);
    assert_eq!(network.totals().dropped, 1);
}

#[test]
fn nonsense_is_refused() {
    let build = |change: fn(&mut StarRun)| {
        let mut spec = StarRun::uniform(2, &attach(Capacity::Packets(1)), 1);
        change(&mut spec);
        spec.build::<BlastPacket>().map(|_| ()).unwrap_err()
    };
    let wrong = |port: &str, problem| TopologyError::Port {
        port: port.to_owned(),
        problem,
    };
    assert_eq!(
        build(|s| s.hosts[1].up.rate = Rate::from_bits_per_sec(0)),
        wrong("h1->s0", PortProblem::Rate)
    );
    assert_eq!(
        build(|s| s.hosts[1].port.pool = Some(PoolId(0))),
        wrong("s0->h1", PortProblem::Pool(PoolId(0)))
    );
    assert_eq!(
        build(|s| s.pools = vec![PoolSpec {
            size: ByteCount::new(1),
            reserve: ByteCount::ZERO,
            alpha_num: 1,
            alpha_den: 0
        }]),
        TopologyError::Alpha {
            switch: "s0".to_owned(),
            pool: PoolId(0)
        }
    );
    assert_eq!(
        build(|s| s.hosts[0].up.impair.reorder_min = SimTime::MAX),
        wrong("h0->s0", PortProblem::Reorder)
    );
    let interval = DisciplineSpec::Codel(CodelSpec {
        target: SimTime::ZERO,
        interval: SimTime::ZERO,
        max_packet: 1_500,
        ce_threshold: None,
    });
    let drr = |queues, quantum| DisciplineSpec::Drr(DrrSpec::Flows { queues, quantum });
    let out = |field, value, least, most| DisciplineError::OutOfRange {
        field,
        value,
        least,
        most,
    };
    for (discipline, error) in [
        (interval, DisciplineError::CodelInterval),
        (drr(0, 1_500), out("queues", 0, 1, 65_536)),
        (drr(1, 255), out("quantum", 255, 256, 1 << 20)),
    ] {
        let mut spec = StarRun::uniform(2, &attach(Capacity::Packets(1)), 1);
        spec.hosts[1].port.discipline = discipline;
        let built = spec.build::<BlastPacket>().map(|_| ());
        assert_eq!(built, Err(wrong("s0->h1", PortProblem::Discipline(error))));
    }
}

/// A host whose calls are recorded and whose answers are set from outside.
#[derive(Default)]
struct Script {
    calls: Vec<(&'static str, u64)>,
    deadline: Option<Instant>,
    /// What the deadline becomes when it fires.
    then: Vec<Option<Instant>>,
    to_send: Vec<BlastPacket>,
    holds_back: bool,
    rooms: Vec<NicRoom>,
}

impl Host for Script {
    type Packet = BlastPacket;
    fn handle_start(&mut self, now: Instant) {
        self.calls.push(("start", now.as_nanos()));
    }
    fn handle_packet(&mut self, now: Instant, _: &BlastPacket) {
        self.calls.push(("packet", now.as_nanos()));
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.calls.push(("timeout", now.as_nanos()));
        self.deadline = self.then.pop().unwrap_or(self.deadline);
    }
    fn poll_transmit(
        &mut self,
        now: Instant,
        room: impl FnOnce() -> NicRoom,
    ) -> Option<BlastPacket> {
        let room = room();
        self.rooms.push(room);
        if self.holds_back && room.packets() == 0 {
            return None;
        }
        let packet = self.to_send.pop()?;
        self.calls.push(("send", now.as_nanos()));
        Some(packet)
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }
    fn local_drop(&mut self, now: Instant, _: BlastPacket) {
        self.calls.push(("refused", now.as_nanos()));
    }
    fn waits_for_nic(&self) -> bool {
        self.holds_back && !self.to_send.is_empty()
    }
}

fn packet(from: u32, to: u32) -> BlastPacket {
    BlastPacket::new(HostId(from), HostId(to), 1_040, 1)
}

fn scripts(nic: Capacity) -> World<Script> {
    let mut a = attach(Capacity::Unlimited);
    a.nic.capacity = nic;
    let network = StarRun::uniform(2, &a, 1).build().unwrap();
    World::new(network, vec![Script::default(), Script::default()])
}

fn at(ns: u64) -> Option<Instant> {
    Some(Instant::from_nanos(ns))
}

#[test]
fn a_deadline_that_recedes_fires_once_and_late() {
    let mut w = scripts(Capacity::Unlimited);
    w.start_at(HostId(1), SimTime::from_nanos(7));
    w.host_mut(HostId(1)).deadline = at(100);
    w.kick(HostId(1));
    assert_eq!(w.run_until(SimTime::from_nanos(50)), Halt::Reached);
    let h = w.host_mut(HostId(1));
    h.deadline = at(300);
    h.then = vec![None, at(400)];
    w.kick(HostId(1));
    assert_eq!(w.run_until(SimTime::MAX), Halt::Idle);
    assert_eq!(
        w.hosts()[1].calls,
        [("start", 7), ("timeout", 300), ("timeout", 400)]
    );
    assert_eq!(w.now(), SimTime::from_nanos(400));
    // Start, the early firing at 100, and two timeouts.
    assert_eq!(w.events(), 4);
}

/// A packet of 1040 bytes arrives 66,640 ns after it was sent.
#[test]
fn a_packet_comes_before_a_timer_of_the_same_instant() {
    let mut w = scripts(Capacity::Unlimited);
    w.host_mut(HostId(1)).to_send = vec![packet(1, 0)];
    w.kick(HostId(1));
    w.host_mut(HostId(0)).deadline = at(66_640);
    w.host_mut(HostId(0)).then = vec![None];
    w.kick(HostId(0));
    assert_eq!(w.run_until(SimTime::MAX), Halt::Idle);
    assert_eq!(
        w.hosts()[0].calls,
        [("packet", 66_640), ("timeout", 66_640)]
    );
}

/// A NIC of two: the third packet is refused, and the host is asked again when one has left.
#[test]
fn a_full_nic_refuses_or_holds_back() {
    let mut w = scripts(Capacity::Packets(2));
    w.host_mut(HostId(1)).to_send = vec![packet(1, 0); 4];
    w.kick(HostId(1));
    assert_eq!(w.run_until(SimTime::MAX), Halt::Idle);
    let sent = [
        ("send", 0),
        ("send", 0),
        ("send", 0),
        ("refused", 0),
        ("send", 8_320),
    ];
    assert_eq!(w.hosts()[1].calls, sent);
    assert_eq!(w.network().stats(PortId(1)).dropped(DropReason::Full), 1);

    let mut w = scripts(Capacity::Packets(2));
    w.host_mut(HostId(1)).to_send = vec![packet(1, 0); 4];
    w.host_mut(HostId(1)).holds_back = true;
    w.kick(HostId(1));
    assert_eq!(w.run_until(SimTime::MAX), Halt::Idle);
    let sent = [("send", 0), ("send", 0), ("send", 8_320), ("send", 16_640)];
    assert_eq!(w.hosts()[1].calls, sent);
    let room = |n| w.hosts()[1].rooms[n];
    assert_eq!(
        (room(0).packets(), room(1).packets(), room(2).packets()),
        (2, 1, 0)
    );
    assert_eq!((room(2).bytes(), room(2).queued()), (0, 2));
}

#[test]
fn every_way_to_end_has_its_name() {
    let mut w = scripts(Capacity::Unlimited);
    assert_eq!(w.run_until(SimTime::from_secs(1)), Halt::Idle);
    w.host_mut(HostId(1)).deadline = at(10);
    w.kick(HostId(1));
    w.set_limits(Limits {
        events_at_once: 100,
        ..Limits::default()
    });
    assert_eq!(w.run_until(SimTime::MAX), Halt::Standstill);

    let mut w = scripts(Capacity::Unlimited);
    w.host_mut(HostId(1)).deadline = at(10);
    w.kick(HostId(1));
    w.set_limits(Limits {
        events: 50,
        ..Limits::default()
    });
    assert_eq!(w.run_until(SimTime::MAX), Halt::EventLimit);

    let mut w = scripts(Capacity::Unlimited);
    w.host_mut(HostId(1)).deadline = at(10);
    w.kick(HostId(1));
    w.set_limits(Limits {
        time: SimTime::from_nanos(9),
        ..Limits::default()
    });
    assert_eq!(w.run_until(SimTime::from_nanos(5)), Halt::Reached);
    assert_eq!(w.run_until(SimTime::MAX), Halt::TimeLimit);
    assert_eq!(w.now(), SimTime::from_nanos(9));

    let network = StarRun::uniform(2, &attach(Capacity::Unlimited), 1)
        .build()
        .unwrap();
    let mut w = World::new(network, Blaster::hosts(1, burst(100)));
    w.start_all(1, SimTime::ZERO, SimTime::ZERO);
    assert_eq!(w.run_while(|w| w.hosts()[0].data < 10), Halt::Stopped);
    assert_eq!(w.hosts()[0].data, 10);

    let mut network = StarRun::uniform(2, &attach(Capacity::Unlimited), 1)
        .build()
        .unwrap();
    network.set_packet_limit(5);
    let mut w = World::new(network, Blaster::hosts(1, burst(100)));
    w.start_all(1, SimTime::ZERO, SimTime::ZERO);
    assert_eq!(w.run_until(SimTime::MAX), Halt::PacketLimit);
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        3 => Just(When::Never),
        1 => (1u64..30).prop_map(|n| When::Chance(Probability::ratio(n, 100))),
        1 => proptest::collection::vec(1u64..40, 1..4).prop_map(When::Packets),
    ]
}

fn capacity() -> impl Strategy<Value = Capacity> {
    prop_oneof![
        (1u32..20).prop_map(Capacity::Packets),
        (3_000u64..30_000).prop_map(|n| Capacity::Bytes(ByteCount::new(n))),
        Just(Capacity::Unlimited),
    ]
}

prop_compose! {
    fn star()(
        hosts in 2usize..8,
        caps in (capacity(), capacity()),
        counted in any::<bool>(),
        losses in (when(), when(), when(), when()),
        pool in proptest::option::of((5_000u64..40_000, 1u32..9)),
        step in proptest::option::of(0u32..10),
        codel in proptest::option::of((1u64..100, 1u64..300, proptest::option::of(1u64..100))),
        rate in prop_oneof![Just(1_000u64), Just(3_000), Just(7_001)],
        ethernet in any::<bool>(),
        overhead in 0u64..2_000,
        seed in any::<u64>(),
    ) -> StarRun {
        let framing = if ethernet { Framing::Ethernet } else { Framing::None };
        let (loss, corrupt, duplicate, reorder) = losses;
        let mut a = attach(caps.0);
        a.nic = NicSpec::new(caps.1);
        a.nic.overhead = SimTime::from_nanos(overhead);
        a.port.in_service = if counted { InService::Counted } else { InService::NotCounted };
        a.up = a.up.with_framing(framing);
        a.up.impair = ImpairSpec {
            loss, corrupt, duplicate, reorder,
            mark: When::EachNth(3),
            reorder_min: SimTime::ZERO,
            reorder_max: SimTime::from_micros(100),
            mtu: None,
        };
        a.down = a.down.with_framing(framing);
        a.down.rate = Rate::from_mbps(rate);
        a.port.pool = pool.map(|_| PoolId(0));
        if let Some(k) = step {
            let threshold = Threshold::Packets(k);
            a.port.discipline = DisciplineSpec::EcnStep { threshold, not_capable: NotCapable::Pass };
        }
        if let Some((target, more, ce)) = codel {
            a.port.discipline = DisciplineSpec::Codel(CodelSpec {
                target: SimTime::from_micros(target),
                interval: SimTime::from_micros(target + more),
                max_packet: 1_058,
                ce_threshold: ce.map(SimTime::from_micros),
            });
        }
        let mut spec = StarRun::uniform(hosts, &a, seed);
        spec.pools = pool.map(|(size, alpha_num)| PoolSpec {
            size: ByteCount::new(size), reserve: ByteCount::ZERO, alpha_num, alpha_den: 4,
        }).into_iter().collect();
        spec
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// At any time sent + duplicated = delivered + dropped + in the network; no queue and no pool
    /// is above its limit; the log is in order of time; links keep the order unless told not to.
    #[test]
    fn packets_are_conserved_and_in_order(
        spec in star(),
        window in 1u64..12,
        steps in proptest::collection::vec(1u64..200, 1..20),
    ) {
        let servers = spec.hosts.len() as u32 - 1;
        let blast = Blast {
            packets: 60, window, len: 1_040, ack_len: 40,
            timeout: Some(Duration::from_micros(700)), ecn_capable: true, dscp: 0,
        };
        let network = spec.build().unwrap();
        let mut w = World::with_tap(network, Blaster::hosts(servers, blast), Log::default());
        w.start_all(spec.seed, SimTime::ZERO, SimTime::from_micros(20));
        let a = &spec.hosts[0];
        let mut until = SimTime::ZERO;
        for step in steps.into_iter().map(Some).chain([None]) {
            until = step.map_or(SimTime::MAX, |s| until + SimTime::from_micros(s));
            let outcome = w.run_until(until);
            prop_assert!(matches!(outcome, Halt::Reached | Halt::Idle));
            let now = w.now();
            let t = w.network().totals();
            prop_assert_eq!(t.sent + t.duplicated, t.delivered + t.dropped + t.in_network);
            for p in (0..w.network().ports()).map(PortId) {
                let held = w.network_mut().queued(now, p);
                let stats = w.network().stats(p);
                let is_nic = p.0 <= servers;
                let capacity = if is_nic { a.nic.capacity } else { a.port.capacity };
                match capacity {
                    Capacity::Packets(n) => prop_assert!(stats.max_packets <= n),
                    Capacity::Bytes(n) => prop_assert!(stats.max_bytes <= n.get()),
                    Capacity::Unlimited => {}
                }
                prop_assert!(held.bytes >= u64::from(held.packets) * 40);
            }
            if let Some(pool) = spec.pools.first() {
                let (used, max) = w.network_mut().pool_used(now, PoolId(0));
                prop_assert!(max <= pool.size.get());
                let held: u64 = (servers + 1..w.network().ports())
                    .map(|p| w.network_mut().queued(now, PortId(p)).bytes)
                    .sum();
                prop_assert_eq!(used, held);
            }
        }
        prop_assert_eq!(w.network().totals().in_network, 0);
        let fifo = a.up.impair.reorder == When::Never;
        let log = &w.tap_mut().0;
        prop_assert!(log.windows(2).all(|l| l[0].0 <= l[1].0));
        let mut newest = vec![0u64; servers as usize + 1];
        for (_, event, p) in log {
            if let TapEvent::Received { host: HostId(0) } = event && fifo {
                let last = &mut newest[p.from.index()];
                prop_assert!(p.number >= *last, "link overtakes");
                *last = p.number;
            }
            prop_assert_eq!(p.wire_len(), if p.is_ack { 40 } else { 1_040 });
        }
    }
}
