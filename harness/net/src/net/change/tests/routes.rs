//! Links between switches that go down and come up, and everything at once.

use std::collections::{BTreeMap, BTreeSet};

use narrows_congestion::{ByteCount, Duration, Rate};
use proptest::prelude::*;

use super::{Bench, fifo_in_turn, ps, red};
use crate::net::change::{Change, ChangeError};
use crate::net::graph::{Graph, NodeId, SwitchId};
use crate::net::port::PoolId;
use crate::net::rig::{attachment, defaults, egress};
use crate::net::{
    Attachment, Capacity, DisciplineSpec, DropReason, Egress, HostId, ImpairSpec, LeafSpine,
    Multipath, Network, PoolSpec, PortId, TieOrder, When,
};
use crate::sim::blaster::{Blast, BlastPacket, Blaster};
use crate::sim::rng::Probability;
use crate::sim::{Halt, SimTime, Tap, TapEvent, World};

/// Two leaves with four hosts each, and so many spines.
fn leaf_spine(spines: u32) -> Graph {
    LeafSpine {
        leaves: 2,
        spines,
        hosts: 4,
        links: 1,
        host: attachment(),
        trunk: egress(),
        pools: Vec::new(),
        multipath: Multipath::default(),
    }
    .graph()
    .unwrap()
}

/// The port from one switch to another: leaves come first, then spines.
fn port(graph: &Graph, from: u32, to: u32) -> PortId {
    let ends = (NodeId::Switch(SwitchId(from)), NodeId::Switch(SwitchId(to)));
    graph
        .ports()
        .find(|&p| graph.ends(p) == Some(ends))
        .unwrap()
}

fn ms(ms: u64) -> SimTime {
    SimTime::from_millis(ms)
}

/// A packet from each host of the first leaf to each of the second, every millisecond.
fn round(b: &mut Bench, until: SimTime) -> (usize, usize) {
    let before = (b.fates.delivered.len(), b.fates.dropped.len());
    for from in 0..4 {
        for to in 4..8 {
            b.send(from, to, 1_000);
        }
    }
    b.run(until);
    let (delivered, dropped) = (b.fates.delivered.len(), b.fates.dropped.len());
    (delivered - before.0, dropped - before.1)
}

fn packets(b: &Bench, ports: &[PortId]) -> Vec<u64> {
    ports.iter().map(|&p| b.network.stats(p).packets).collect()
}

fn both_ways(b: &mut Bench, change: &Change) {
    b.apply(change).unwrap();
    let other = change.other_way(&b.network).unwrap();
    assert_ne!(change.port(), other.port());
    assert_eq!(other.other_way(&b.network).as_ref(), Some(change));
    b.apply(&other).unwrap();
}

#[test]
fn the_other_end_of_each_link_is_that_of_the_graph() {
    let graph = leaf_spine(3);
    let network: Network<BlastPacket> = graph.build(1, TieOrder::default()).unwrap();
    let mut seen = BTreeSet::new();
    for p in graph.ports() {
        let other = network.other_end(p).unwrap();
        let (from, to) = graph.ends(p).unwrap();
        assert_eq!(graph.ends(other), Some((to, from)));
        assert!(seen.insert(other));
    }
    assert_eq!(network.other_end(PortId(graph.port_count())), None);
    let change = Change::Routes;
    assert_eq!(change.other_way(&network), None);
}

/// With one of two spines cut off all goes by the other without a loss, and by both when it is
/// back: the same flows by the same links as before.
#[test]
fn a_dead_link_is_left_out_of_equal_paths() {
    let graph = leaf_spine(2);
    let mut b = Bench::new(graph.build(3, TieOrder::default()).unwrap());
    let ups = [port(&graph, 0, 2), port(&graph, 0, 3)];
    assert_eq!(round(&mut b, ms(1)), (16, 0));
    let whole = packets(&b, &ups);
    assert!(whole[0] > 0 && whole[1] > 0 && whole[0] + whole[1] == 16);
    both_ways(&mut b, &Change::LinkDown { port: ups[0] });
    assert_eq!(round(&mut b, ms(2)), (16, 0));
    assert_eq!(packets(&b, &ups), [whole[0], whole[1] + 16]);
    both_ways(&mut b, &Change::LinkUp { port: ups[0] });
    assert_eq!(round(&mut b, ms(3)), (16, 0));
    assert_eq!(packets(&b, &ups), [2 * whole[0], 2 * whole[1] + 16]);
}

/// The link from a spine down to the second leaf dies. That spine knows at once and has no other
/// way; the first leaf goes on sending by it until it knows, two milliseconds later.
#[test]
fn until_the_switches_know_packets_have_no_route() {
    for (convergence, told) in [(ms(2), false), (SimTime::MAX, true)] {
        let graph = leaf_spine(2);
        let mut b = Bench::new(graph.build(3, TieOrder::default()).unwrap());
        b.network.set_convergence(convergence);
        let dead = port(&graph, 2, 1);
        let up = port(&graph, 0, 2);
        round(&mut b, ms(1));
        let by_it = packets(&b, &[up])[0];
        both_ways(&mut b, &Change::LinkDown { port: dead });
        for until in [2, 3] {
            let (delivered, dropped) = round(&mut b, ms(until));
            assert_eq!((delivered, dropped as u64), (16 - by_it as usize, by_it));
        }
        assert!(b.fates.dropped.iter().all(|d| d.2 == DropReason::NoRoute));
        if told {
            b.apply(&Change::Routes).unwrap();
        }
        assert_eq!(round(&mut b, ms(4)), (16, 0));
        // It is used again when all know that it works.
        both_ways(&mut b, &Change::LinkUp { port: dead });
        let before = packets(&b, &[up])[0];
        assert_eq!(round(&mut b, ms(5)), (16, 0));
        assert_eq!(packets(&b, &[up])[0], before);
        if told {
            b.apply(&Change::Routes).unwrap();
        }
        b.run(ms(8));
        assert_eq!(round(&mut b, ms(9)), (16, 0));
        assert_eq!(packets(&b, &[up])[0], before + by_it);
    }
}

/// One direction of the only way: packets that way have none, those back have.
#[test]
fn without_another_path_there_is_no_route() {
    let graph = leaf_spine(1);
    let mut b = Bench::new(graph.build(3, TieOrder::default()).unwrap());
    let dead = port(&graph, 0, 2);
    b.apply(&Change::LinkDown { port: dead }).unwrap();
    assert_eq!(round(&mut b, ms(1)), (0, 16));
    assert!(b.fates.dropped.iter().all(|d| d.2 == DropReason::NoRoute));
    b.send(5, 1, 1_000);
    b.send(1, 2, 1_000);
    b.run(ms(2));
    assert_eq!(b.fates.delivered.len(), 2);
    b.apply(&Change::LinkUp { port: dead }).unwrap();
    assert_eq!(round(&mut b, ms(3)), (16, 0));
}

/// A link that is drained loses nothing: what waits at it is sent, and nothing else takes it. That
/// it goes down meanwhile, and comes up, makes no route of it.
#[test]
fn a_route_that_is_withdrawn_loses_nothing() {
    let graph = leaf_spine(2);
    let mut b = Bench::new(graph.build(3, TieOrder::default()).unwrap());
    let ups = [port(&graph, 0, 2), port(&graph, 0, 3)];
    for from in 0..4 {
        for to in 4..8 {
            b.send(from, to, 1_000);
        }
    }
    // The first have reached the leaf and wait there.
    b.run(SimTime::from_micros(30));
    let sent = packets(&b, &ups);
    b.apply(&Change::Withdraw { port: ups[0] }).unwrap();
    b.run(ms(1));
    assert_eq!((b.fates.delivered.len(), b.fates.dropped.len()), (16, 0));
    let drained = packets(&b, &ups);
    assert!(drained[0] >= sent[0]);
    assert_eq!(round(&mut b, ms(2)), (16, 0));
    assert_eq!(packets(&b, &ups), [drained[0], drained[1] + 16]);
    b.apply(&Change::LinkDown { port: ups[0] }).unwrap();
    b.apply(&Change::LinkUp { port: ups[0] }).unwrap();
    assert_eq!(round(&mut b, ms(3)), (16, 0));
    assert_eq!(packets(&b, &ups), [drained[0], drained[1] + 32]);
    b.apply(&Change::Advertise { port: ups[0] }).unwrap();
    assert_eq!(round(&mut b, ms(4)), (16, 0));
    assert!(packets(&b, &ups)[0] > drained[0]);
    let nic = PortId(0);
    let refused = b.apply(&Change::Withdraw { port: nic });
    assert_eq!(refused, Err(ChangeError::NoRoute { port: nic }));
}

/// A change of anything, drawn.
#[derive(Clone, Debug)]
struct Drawn {
    after: u64,
    kind: u8,
    place: u32,
    value: u64,
}

impl Drawn {
    /// As a change of this network.
    fn change(&self, ports: u32, hosts: u32) -> Change {
        let port = PortId(self.place % ports);
        let host = HostId(self.place % hosts);
        let switch_port = PortId(hosts + self.place % (ports - hosts));
        let (value, small) = (self.value, self.value % 12);
        match self.kind {
            0 => Change::Rate {
                port,
                rate: Rate::from_bits_per_sec(50_000_000 + value % 20_000_000_000),
            },
            1 => Change::Delay {
                port,
                delay: ps(value % 60_000_000),
            },
            2 => Change::Faults {
                port,
                impair: ImpairSpec {
                    loss: When::Chance(Probability::ratio(small, 100)),
                    duplicate: When::EachNth(small),
                    reorder: When::EachNth(3),
                    reorder_max: ps(30_000_000),
                    corrupt: When::Never,
                    ..ImpairSpec::default()
                },
            },
            3 | 4 => Change::LinkDown { port },
            5 | 6 => Change::LinkUp { port },
            7 => Change::Capacity {
                port,
                capacity: match small {
                    0 => Capacity::Unlimited,
                    n if n < 6 => Capacity::Packets(n as u32),
                    n => Capacity::Bytes(ByteCount::new(n * 1_000)),
                },
            },
            8 => Change::Pause {
                host,
                span: ps(value % 200_000_000),
                ring: small as u32,
            },
            9 => Change::NicReset {
                host,
                span: ps(value % 200_000_000),
            },
            10 => Change::Discipline {
                port: switch_port,
                discipline: if small < 4 {
                    DisciplineSpec::DropTail
                } else {
                    red(small)
                },
            },
            11 => Change::Withdraw { port },
            12 | 13 => Change::Advertise { port },
            _ => Change::Routes,
        }
    }
}

fn drawn() -> impl Strategy<Value = Drawn> {
    (0u64..40_000_000, 0u8..15, any::<u32>(), any::<u64>()).prop_map(
        |(after, kind, place, value)| Drawn {
            after,
            kind,
            place,
            value,
        },
    )
}

/// What the tap is told.
#[derive(Default, PartialEq, Eq, Debug)]
struct Log(Vec<(SimTime, TapEvent, u64)>);

impl Tap<BlastPacket> for Log {
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &BlastPacket) {
        self.0.push((at, event, packet.number));
    }
}

/// A leaf-spine with pools in which each of seven hosts has a window to the first, and whatever
/// changes; then everything is mended.
fn everything(steps: &[Drawn], in_turn: bool, convergence: u64, seed: u64) -> (u64, Log) {
    let pooled = |egress: Egress, in_turn: bool| {
        let mut egress = egress;
        egress.port.pool = Some(PoolId(0));
        if in_turn {
            egress.port.discipline = fifo_in_turn();
        }
        egress
    };
    let mut host: Attachment = attachment();
    host.nic.capacity = Capacity::Packets(20);
    host.nic.overhead = SimTime::from_nanos(700);
    host.port = pooled(egress(), false).port;
    let graph = LeafSpine {
        leaves: 2,
        spines: 2,
        hosts: 4,
        links: 2,
        host,
        trunk: pooled(egress(), in_turn),
        pools: vec![PoolSpec {
            size: ByteCount::new(40_000),
            reserve: ByteCount::ZERO,
            alpha_num: 2,
            alpha_den: 1,
        }],
        multipath: defaults().multipath,
    }
    .graph()
    .unwrap();
    let mut network: Network<BlastPacket> = graph.build(seed, TieOrder::default()).unwrap();
    network.set_convergence(ps(convergence));
    for p in graph.ports() {
        network.measure_queue(p);
    }
    let blast = Blast {
        packets: 300,
        window: 6,
        len: 1_040,
        ack_len: 40,
        timeout: Some(Duration::from_millis(1)),
        ecn_capable: true,
        dscp: 0,
    };
    let (ports, hosts) = (network.ports(), network.hosts());
    let mut world = World::with_tap(network, Blaster::hosts(hosts - 1, blast), Log::default());
    world.start_all(seed, SimTime::ZERO, SimTime::from_micros(10));
    let check = |world: &mut World<Blaster, Log>| {
        let now = world.now();
        let t = world.network().totals();
        assert_eq!(
            t.sent + t.duplicated,
            t.delivered + t.dropped + t.in_network
        );
        let mut held = BTreeMap::new();
        for p in graph.ports() {
            let queued = world.network_mut().queued(now, p).bytes;
            let area = world.network_mut().queue_area(now, p).unwrap();
            assert_eq!(area.until, now);
            if let Some((NodeId::Switch(s), _)) = graph.ends(p) {
                *held.entry(s).or_insert(0) += queued;
            }
        }
        for (switch, held) in held {
            let pool = graph.pool(switch, PoolId(0)).unwrap();
            assert_eq!(world.network_mut().pool_used(now, pool).0, held);
        }
    };
    for step in steps {
        let time = world.now() + ps(step.after);
        world.run_until(time);
        world.pass(time);
        let change = step.change(ports, hosts);
        let done = world.apply(&change);
        let refused = match &change {
            Change::Discipline { .. } => in_turn,
            Change::Withdraw { port } | Change::Advertise { port } => {
                let (from, to) = graph.ends(*port).unwrap();
                matches!(from, NodeId::Host(_)) || matches!(to, NodeId::Host(_))
            }
            _ => false,
        };
        assert!(done.is_ok() || refused, "{change:?}: {done:?}");
        check(&mut world);
    }
    // Everything works again.
    for p in graph.ports() {
        world.apply(&Change::LinkUp { port: p }).unwrap();
        let rate = Rate::from_gbps(1);
        world.apply(&Change::Rate { port: p, rate }).unwrap();
        let capacity = Capacity::Unlimited;
        world
            .apply(&Change::Capacity { port: p, capacity })
            .unwrap();
        let impair = ImpairSpec::default();
        world.apply(&Change::Faults { port: p, impair }).unwrap();
    }
    check(&mut world);
    let end = world.now() + SimTime::from_secs(10);
    assert_eq!(world.run_until(end), Halt::Idle, "something stalls");
    check(&mut world);
    assert_eq!(world.network().totals().in_network, 0, "a packet is stuck");
    for host in &world.hosts()[1..] {
        assert_eq!(host.data, 300, "a host has stopped");
    }
    let events = world.events();
    (events, world.into_parts().2)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever changes, at every step no packet is lost count of, pools hold what their ports
    /// hold, and in the end all that is left arrives and every host has sent what it wanted.
    #[test]
    fn nothing_leaks_or_stalls_whatever_changes(
        steps in proptest::collection::vec(drawn(), 0..60),
        in_turn: bool,
        convergence in prop_oneof![Just(0u64), 0u64..100_000_000],
        seed: u64,
    ) {
        everything(&steps, in_turn, convergence, seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn a_run_with_changes_done_twice_is_the_same(
        steps in proptest::collection::vec(drawn(), 10..60),
        in_turn: bool,
        seed: u64,
    ) {
        let once = everything(&steps, in_turn, 1_000_000, seed);
        let again = everything(&steps, in_turn, 1_000_000, seed);
        prop_assert!(once == again, "two runs differ");
        prop_assert!(once.1.0.len() > 1_000);
    }
}
