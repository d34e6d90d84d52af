//! The shapes: their counts, path lengths and path diversity, and the choice of paths in them.

use std::collections::{BTreeMap, BTreeSet};

use narrows_congestion::Rate;
use proptest::prelude::*;

use super::*;
use crate::net::graph::{NodeId, Override, PortProblem, SwitchId, TieOrder};
use crate::net::multipath::{FLOWLET_ENTRIES, PathChoice, Salt};
use crate::net::packet::{HostId, PortId};
use crate::net::rig::{Journey, Probe, attachment, defaults, egress, gigabit, send};
use crate::sim::time::SimTime;

fn make(name: &str, sizes: &[(&str, u32)]) -> Graph {
    let shapes = Topologies::standard();
    shapes.get(name).unwrap().graph(sizes, &defaults()).unwrap()
}

fn fat_tree(k: u32, multipath: Multipath) -> Graph {
    let mut graph = make("fat-tree", &[("k", k)]);
    graph.set_multipath(multipath).unwrap();
    graph
}

/// How many hosts are how far from `from`, and over how many paths.
fn distances(graph: &Graph, from: u32) -> BTreeMap<(u32, u64), u32> {
    let routes = graph.routes().unwrap();
    let mut found = BTreeMap::new();
    for to in (0..graph.host_count()).filter(|&to| to != from) {
        let (from, to) = (HostId(from), HostId(to));
        let key = (routes.hops(from, to).unwrap(), routes.paths(from, to));
        *found.entry(key).or_default() += 1;
    }
    found
}

/// Links at each switch.
fn degrees(graph: &Graph) -> Vec<u32> {
    let mut degrees = vec![0; graph.switch_count() as usize];
    for (from, _) in graph.ports().filter_map(|port| graph.ends(port)) {
        if let NodeId::Switch(switch) = from {
            degrees[switch.index()] += 1;
        }
    }
    degrees
}

/// Al-Fares et al. 2008, section 3.1: k^3/4 hosts, 5k^2/4 switches with k ports each, 3k^3/4
/// links; (k/2)^2 shortest paths between pods.
#[test]
fn a_fat_tree_has_the_counts_and_paths_of_the_paper() {
    let k4 = make("fat-tree", &[]);
    assert_eq!(
        (k4.host_count(), k4.switch_count(), k4.link_count()),
        (16, 20, 48)
    );
    for k in [2, 4, 6, 8, 16] {
        let graph = make("fat-tree", &[("k", k)]);
        let half = k / 2;
        assert_eq!(graph.host_count(), k * k * k / 4);
        assert_eq!(graph.switch_count(), 5 * k * k / 4);
        assert_eq!(graph.link_count() as u32, 3 * k * k * k / 4);
        assert!(degrees(&graph).iter().all(|&degree| degree == k), "k = {k}");
        let count = |tier| graph.resolve(tier).unwrap().len() as u32;
        assert_eq!(
            ["edge", "aggregation", "core"].map(count),
            [k * half, k * half, half * half]
        );
        let mut expected = BTreeMap::from([
            ((2, 1), half - 1),
            ((4, u64::from(half)), half * half - half),
            ((6, u64::from(half * half)), (k - 1) * half * half),
        ]);
        expected.retain(|_, hosts| *hosts > 0);
        for from in [0, graph.host_count() / 2, graph.host_count() - 1] {
            assert_eq!(distances(&graph, from), expected, "k = {k} from {from}");
        }
        assert_eq!(
            graph.resolve("pod0").unwrap().len() as u32,
            half * half + 2 * half
        );
    }
    let odd = FatTree {
        k: 5,
        host: attachment(),
        trunk: egress(),
        pools: Vec::new(),
        multipath: Multipath::default(),
    };
    assert_eq!(
        odd.graph().unwrap_err().to_string(),
        "fat-tree: k is 5 and must be an even number from 2 to 128"
    );
}

#[test]
fn a_leaf_spine_has_each_leaf_on_each_spine() {
    let sizes = [("leaves", 5), ("spines", 3), ("hosts", 7), ("links", 2)];
    let graph = make("leaf-spine", &sizes);
    assert_eq!(
        (graph.host_count(), graph.switch_count(), graph.link_count()),
        (35, 8, 35 + 30)
    );
    assert_eq!(degrees(&graph), [13, 13, 13, 13, 13, 10, 10, 10]);
    let expected = BTreeMap::from([((2, 1), 6), ((4, 12), 28)]);
    assert!((0..35).all(|from| distances(&graph, from) == expected));
    assert_eq!(
        graph.resolve("rack2").unwrap(),
        graph.resolve("h14..h20").unwrap()
    );
    assert!(graph.port("leaf4->spine2#2").is_ok() && graph.port("leaf4->spine2#3").is_err());
}

/// 2,000 hosts; and a leaf has one entry for each rack and its set of spines once.
#[test]
fn the_tables_of_a_large_leaf_spine_are_small() {
    let sizes = [("leaves", 50), ("spines", 10), ("hosts", 40)];
    let graph = make("leaf-spine", &sizes);
    assert_eq!(graph.host_count(), 2_000);
    let routes = graph.routes().unwrap();
    for (n, table) in routes.tables.iter().enumerate() {
        let sets = if n < 50 { 10 } else { 0 };
        assert_eq!((table.entries(), table.choices()), (50, sets), "switch {n}");
    }
}

/// All sizes in their ranges, and the product is not: refused at once, before there is a node.
#[test]
fn what_is_too_large_takes_no_memory_before_it_is_refused() {
    let refused = |name, sizes: &[(&str, u32)]| {
        let made = Topologies::standard()
            .get(name)
            .unwrap()
            .graph(sizes, &defaults());
        made.unwrap_err().to_string()
    };
    let sizes = [("leaves", 4_096), ("spines", 1_024), ("links", 64)];
    let ports = "too many ports: at most 8388608 fit, build a smaller network";
    assert_eq!(refused("leaf-spine", &sizes), ports);
    let hosts = "too many hosts: at most 16777214 fit, build a smaller network";
    let sizes = [("bottlenecks", 10_000), ("cross", 10_000)];
    assert_eq!(refused("parking-lot", &sizes), hosts);
    let least = LeafSpine {
        leaves: u32::MAX,
        spines: u32::MAX,
        hosts: u32::MAX,
        links: u32::MAX,
        host: attachment(),
        trunk: egress(),
        pools: Vec::new(),
        multipath: Multipath::default(),
    };
    assert_eq!(least.graph().unwrap_err().to_string(), hosts);
    // The counts beforehand are those of the graph.
    let made = [
        ("star", [("hosts", 9)].as_slice(), (9, 1, 0)),
        ("dumbbell", &[("left", 3), ("right", 4)], (7, 2, 1)),
        (
            "parking-lot",
            &[("bottlenecks", 3), ("long", 2), ("cross", 1)],
            (10, 4, 3),
        ),
        (
            "leaf-spine",
            &[("leaves", 3), ("spines", 2), ("hosts", 5), ("links", 2)],
            (15, 5, 12),
        ),
        ("fat-tree", &[("k", 4)], (16, 20, 32)),
    ];
    for (name, sizes, (hosts, switches, trunks)) in made {
        let graph = make(name, sizes);
        assert_eq!(
            (graph.host_count(), graph.switch_count()),
            (hosts, switches),
            "{name}"
        );
        assert_eq!(graph.port_count(), 2 * (hosts + trunks), "{name}");
    }
}

#[test]
fn a_dumbbell_has_one_way_between_its_sides() {
    let mut dumbbell = Dumbbell::uniform(3, &attachment(), &egress());
    dumbbell.left.pop();
    dumbbell.right[2].up.delay = SimTime::from_millis(7);
    let graph = dumbbell.graph().unwrap();
    assert_eq!(
        (graph.host_count(), graph.switch_count(), graph.link_count()),
        (5, 2, 6)
    );
    let expected = BTreeMap::from([((2, 1), 1), ((3, 1), 3)]);
    assert_eq!(distances(&graph, 0), expected);
    assert_eq!(
        graph.resolve("right").unwrap(),
        graph.resolve("h2..h4").unwrap()
    );
    let last = graph.host_named("h4").unwrap();
    let slow = graph.host_egress(last).unwrap().link.delay;
    assert_eq!(slow, SimTime::from_millis(7));
    assert_eq!(graph.select("s0<->s1").unwrap(), [PortId(10), PortId(11)]);
}

#[test]
fn a_parking_lot_has_cross_traffic_at_each_bottleneck() {
    let sizes = [("bottlenecks", 4), ("long", 2), ("cross", 3)];
    let graph = make("parking-lot", &sizes);
    assert_eq!(
        (graph.host_count(), graph.switch_count(), graph.link_count()),
        (28, 5, 32)
    );
    let routes = graph.routes().unwrap();
    let hops = |from: &str, to: &str| {
        let ends = [from, to].map(|group| graph.resolve_hosts(group).unwrap());
        let mut hops = BTreeSet::new();
        for &a in &ends[0] {
            hops.extend(ends[1].iter().map(|&b| routes.hops(a, b).unwrap()));
        }
        hops.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(hops("sources", "sinks"), [6]);
    for n in 0..4 {
        let (from, to) = (format!("cross-sources{n}"), format!("cross-sinks{n}"));
        assert_eq!(hops(&from, &to), [3]);
    }
    let none = ParkingLot {
        bottlenecks: Vec::new(),
        long: 1,
        cross: 1,
        host: attachment(),
        pools: Vec::new(),
    };
    assert_eq!(
        none.graph().unwrap_err().to_string(),
        "parking-lot: bottlenecks is 0 and must be at least 1"
    );
}

/// What runs of old depend on: host h's NIC is port h, the port to it N + h.
#[test]
fn a_star_is_numbered_by_host() {
    let graph = make("star", &[("hosts", 5)]);
    for h in 0..5 {
        assert_eq!(graph.port_name(PortId(h)), format!("h{h}->s0"));
        assert_eq!(graph.port_name(PortId(5 + h)), format!("s0->h{h}"));
    }
    let network = graph.build::<Probe>(1, TieOrder::ByLink).unwrap();
    assert_eq!(network.port_to(HostId(3)), Some(PortId(8)));
    assert_eq!((network.port_to(HostId(5)), network.ports()), (None, 10));
}

#[test]
fn a_shape_of_ones_own_is_found_by_its_name() {
    let mut shapes = Topologies::standard();
    let pairs = Parameter {
        name: "pairs",
        about: "pairs of hosts",
        default: 1,
        range: 1..=9,
    };
    let mine = Topology::new(
        "line",
        "a switch for each host",
        [pairs],
        |sizes, defaults| {
            let mut graph = Graph::new();
            let mut before = None;
            for n in 0..2 * sizes.get("pairs") {
                let switch = graph.switch(SwitchSpec::new(format!("s{n}"), "row"))?;
                let host = graph.host(format!("h{n}"))?;
                graph.attach(host, switch, &defaults.host)?;
                if let Some(before) = before.replace(switch) {
                    graph.trunk(before, switch, &defaults.trunk, &defaults.trunk)?;
                }
            }
            Ok(graph)
        },
    );
    shapes.register(mine);
    let graph = shapes
        .get("line")
        .unwrap()
        .graph(&[("pairs", 3)], &defaults());
    let routes = graph.unwrap().routes().unwrap();
    assert_eq!(routes.hops(HostId(0), HostId(5)), Some(7));
    let error = |e: Result<Graph, TopologyError>| e.unwrap_err().to_string();
    let of =
        |name: &str, sizes: &[(&str, u32)]| shapes.get(name).unwrap().graph(sizes, &defaults());
    assert_eq!(
        shapes.get("leafspine").unwrap_err().to_string(),
        "no topology 'leafspine'; did you mean 'leaf-spine'?"
    );
    assert_eq!(
        error(of("leaf-spine", &[("spine", 2)])),
        "no parameter 'spine'; did you mean 'spines'?"
    );
    assert_eq!(
        error(of("line", &[("pairs", 10)])),
        "line: pairs is 10 and must be from 1 to 9"
    );
    assert_eq!(
        error(of("line", &[("pairs", 1), ("pairs", 2)])),
        "the name 'pairs' is already that of a parameter: give one of them another"
    );
    // Each builds with its defaults, and says what it is.
    for shape in shapes.entries() {
        let graph = shape.graph(&[], &defaults()).unwrap();
        graph.build::<Probe>(1, TieOrder::default()).unwrap();
        assert!(!shape.about().is_empty());
    }
}

/// One packet of each of `flows` flows from each host of pod 0 to hosts of other pods, far apart
/// in time.
fn between_pods(graph: &Graph, seed: u64, flows: u32) -> Journey {
    let mut network = graph.build(seed, TieOrder::ByLink).unwrap();
    let near = graph.resolve_hosts("pod0").unwrap();
    let far = graph.host_count() - near.len() as u32;
    let packets = (0..flows).flat_map(|flow| near.iter().map(move |&from| (flow, from)));
    let packets = packets.zip(0u32..).map(|((flow, from), number)| {
        let packet = Probe {
            number: u64::from(number),
            to: HostId(near.len() as u32 + number * 7 % far),
            flow: from.0 << 16 | flow,
        };
        (SimTime::from_micros(u64::from(number) * 100), from, packet)
    });
    send(&mut network, packets)
}

/// Packets on each port from one tier to another, of the pod.
fn use_of(graph: &Graph, journey: &Journey, ports: &str) -> Vec<u32> {
    let mut used: BTreeMap<PortId, u32> = graph
        .select(ports)
        .unwrap()
        .into_iter()
        .map(|p| (p, 0))
        .collect();
    for port in journey.ports.values().flatten() {
        if let Some(n) = used.get_mut(port) {
            *n += 1;
        }
    }
    used.into_values().collect()
}

/// With one salt for all, an aggregation switch sees the flows that its edge hashed to it, hashes
/// them as the edge did, and uses one of its k/2 cores: k/2 of (k/2)^2 in all.
#[test]
fn paths_polarise_with_one_salt_and_not_with_one_per_switch() {
    for seed in 1..4 {
        let [polarised, spread] = [Salt::Common, Salt::PerSwitch].map(|salt| {
            let per = PathChoice::Flow;
            let graph = fat_tree(8, Multipath { per, salt });
            let journey = between_pods(&graph, seed, 100);
            assert_eq!(journey.received.len(), 1_600);
            use_of(&graph, &journey, "aggregation->core")[..16].to_vec()
        });
        let used = polarised.iter().filter(|&&n| n > 0).count();
        assert_eq!(used, 4, "{polarised:?}");
        // A hundred each; five standard deviations of the binomial.
        assert!(
            spread.iter().all(|&n| n.abs_diff(100) < 50),
            "seed {seed}: {spread:?}"
        );
    }
}

#[test]
fn a_flow_keeps_to_one_path_and_packets_are_sprayed_over_all() {
    let one_flow = |per| {
        let graph = fat_tree(
            8,
            Multipath {
                per,
                salt: Salt::PerSwitch,
            },
        );
        let mut network = graph.build(3, TieOrder::ByLink).unwrap();
        let packets = (0..16_000).map(|number| {
            let packet = Probe {
                number,
                to: HostId(100),
                flow: 9,
            };
            (SimTime::from_micros(number * 10), HostId(0), packet)
        });
        let journey = send(&mut network, packets);
        let paths: BTreeSet<&Vec<PortId>> = journey.ports.values().collect();
        (
            paths.len(),
            use_of(&graph, &journey, "aggregation->core")[..16].to_vec(),
        )
    };
    assert_eq!(one_flow(PathChoice::Flow).0, 1);
    let (paths, used) = one_flow(PathChoice::Packet);
    assert_eq!(paths, 16);
    // A thousand each; five standard deviations.
    assert!(used.iter().all(|&n| n.abs_diff(1_000) < 155), "{used:?}");
}

/// Two ways between two hosts, by `a` and by `b`, of which `b` takes longer by `longer`.
fn two_ways(longer: SimTime, per: PathChoice) -> Graph {
    let way = Way {
        nic: attachment().nic,
        port: egress().port,
        link: gigabit(),
    };
    let links = [
        ("h0", "s0"),
        ("s0", "a"),
        ("s0", "b"),
        ("a", "s1"),
        ("b", "s1"),
        ("s1", "h1"),
    ];
    let free = FreeGraph {
        hosts: vec!["h0".to_owned(), "h1".to_owned()],
        switches: ["s0", "a", "b", "s1"]
            .map(|n| SwitchSpec::new(n, "switch"))
            .to_vec(),
        links: links.map(|(a, b)| FreeLink::new(a, b, &way)).to_vec(),
        groups: Vec::new(),
    };
    let mut graph = free.graph().unwrap();
    graph
        .apply(&[Override {
            delay: Some(gigabit().delay + longer),
            ..Override::on("s0->b")
        }])
        .unwrap();
    let salt = Salt::PerSwitch;
    graph.set_multipath(Multipath { per, salt }).unwrap();
    graph
}

/// Packets of one flow that came after a later one, and how many went each way.
fn overtaken(graph: &Graph, seed: u64, pauses: &[u64]) -> (usize, Vec<u32>) {
    let mut network = graph.build(seed, TieOrder::ByLink).unwrap();
    let mut now = SimTime::ZERO;
    let mut packets = Vec::new();
    for (burst, pause) in pauses.iter().enumerate() {
        now += SimTime::from_micros(*pause);
        for n in 0..4 {
            let packet = Probe {
                number: burst as u64 * 4 + n,
                to: HostId(1),
                flow: 1,
            };
            packets.push((now, HostId(0), packet));
            // As fast as the wire takes them.
            now += SimTime::from_micros(8);
        }
    }
    let journey = send(&mut network, packets);
    assert_eq!(journey.received.len(), pauses.len() * 4);
    let order = journey.received.windows(2);
    let late = order.filter(|w| w[0].1.number > w[1].1.number).count();
    (late, use_of(graph, &journey, "s0->*")[1..].to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Vanini et al. 2017, section 2: a gap no shorter than the paths differ keeps the order,
    /// whatever the bursts.
    #[test]
    fn flowlets_keep_the_order_when_the_gap_covers_the_difference_of_the_paths(
        longer in 1u64..400,
        pauses in proptest::collection::vec(0u64..800, 1..60),
        seed in any::<u64>(),
    ) {
        let longer = SimTime::from_micros(longer);
        let per = PathChoice::Flowlet { gap: longer, entries: FLOWLET_ENTRIES };
        let (late, _) = overtaken(&two_ways(longer, per), seed, &pauses);
        prop_assert_eq!(late, 0);
    }
}

#[test]
fn flowlets_use_all_paths_and_lose_the_order_with_too_short_a_gap() {
    let longer = SimTime::from_micros(100);
    let flowlets = |gap| {
        let gap = SimTime::from_micros(gap);
        let entries = FLOWLET_ENTRIES;
        let graph = two_ways(longer, PathChoice::Flowlet { gap, entries });
        overtaken(&graph, 1, &[50; 400])
    };
    let (late, used) = flowlets(100);
    assert_eq!(
        (late, used.iter().filter(|&&n| n > 0).count()),
        (0, 1),
        "never silent for so long"
    );
    let (late, used) = flowlets(20);
    assert!(
        late > 50 && used.iter().all(|&n| n > 600),
        "{late} {used:?}"
    );
    let (late, used) = overtaken(&two_ways(longer, PathChoice::Packet), 1, &[50; 400]);
    assert!(
        late > 100 && used.iter().all(|&n| n > 600),
        "{late} {used:?}"
    );
    let (late, used) = overtaken(&two_ways(longer, PathChoice::Flow), 1, &[50; 400]);
    assert_eq!((late, used.iter().max()), (0, Some(&1_600)));
    let none = PathChoice::Flowlet {
        gap: longer,
        entries: 0,
    };
    let salt = Salt::PerSwitch;
    assert_eq!(
        make("leaf-spine", &[])
            .set_multipath(Multipath { per: none, salt })
            .unwrap_err(),
        TopologyError::FlowletTable {
            switch: "leaf0".to_owned()
        }
    );
}

/// Each switch of a leaf-spine has pools of its own: what fills one leaf's leaves the other's.
#[test]
fn each_switch_has_its_own_pools() {
    use crate::net::port::PoolId;
    use narrows_congestion::ByteCount;
    let mut host = attachment();
    host.port.pool = Some(PoolId(1));
    let pool = |size| PoolSpec {
        size: ByteCount::new(size),
        reserve: ByteCount::ZERO,
        alpha_num: 1_000,
        alpha_den: 1,
    };
    let spec = LeafSpine {
        leaves: 2,
        spines: 1,
        hosts: 5,
        links: 1,
        host,
        trunk: egress(),
        pools: vec![pool(1), pool(3_000)],
        multipath: Multipath::default(),
    };
    let graph = spec.graph().unwrap();
    let mut network = graph.build(1, TieOrder::ByLink).unwrap();
    // Four to one host of each leaf at one instant: each leaf's pool has room for three.
    let to = |n: u64, from, to| {
        let (number, flow, to) = (n, 0, HostId(to));
        (SimTime::ZERO, HostId(from), Probe { number, to, flow })
    };
    let packets = (0..8).map(|n| {
        let leaf = n as u32 / 4 * 5;
        to(n, leaf + 1 + n as u32 % 4, leaf)
    });
    let journey = send(&mut network, packets);
    assert_eq!((journey.received.len(), journey.drops.len()), (6, 2));
    let at = |n| graph.pool(SwitchId(n), PoolId(1)).unwrap();
    assert_eq!([at(0), at(1), at(2)], [PoolId(1), PoolId(3), PoolId(5)]);
    let max = [at(0), at(1), at(2)].map(|pool| network.pool_used(SimTime::MAX, pool).1);
    assert_eq!(max, [3_000, 3_000, 0]);
    assert_eq!(graph.pool(SwitchId(0), PoolId(2)), None);
    let mut wrong = spec.clone();
    wrong.trunk.port.pool = Some(PoolId(2));
    assert_eq!(
        wrong.graph().unwrap().check(),
        Err(TopologyError::Port {
            port: "leaf0->spine0".to_owned(),
            problem: PortProblem::Pool(PoolId(2))
        })
    );
}

/// 40 hosts of 10 Gb/s under 4 links of 40 Gb/s: 2.5 to 1.
#[test]
fn oversubscription_follows_from_the_rates() {
    let mut graph = make("leaf-spine", &[("hosts", 40), ("spines", 4)]);
    let rate = |on: &str, gbps| Override {
        rate: Some(Rate::from_gbps(gbps)),
        ..Override::on(on)
    };
    let rates = [rate("host<->leaf", 10), rate("leaf<->spine", 40)];
    graph.apply(&rates).unwrap();
    let sum = |ports: &str| -> u64 {
        let ports = graph.select(ports).unwrap().into_iter();
        let rate = |p| graph.switch_egress(p).unwrap().link.rate.bits_per_sec();
        ports.map(rate).sum()
    };
    assert_eq!(sum("leaf0->host") * 10 / sum("leaf0->spine"), 25);
}
