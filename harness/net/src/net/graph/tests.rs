//! Names, overrides and impossible graphs; random graphs against searches of the tests' own.

use std::collections::{BTreeMap, BTreeSet};

use narrows_congestion::{ByteCount, Rate};
use proptest::prelude::*;

use super::*;
use crate::net::buffer::Capacity;
use crate::net::discipline::DisciplineSpec;
use crate::net::discipline::tail::{NotCapable, Threshold};
use crate::net::impair::{ImpairSpec, When};
use crate::net::multipath::{PathChoice, Salt};
use crate::net::rig::{Journey, Probe, attachment, egress, gigabit, send};
use crate::net::stats::DropReason;
use crate::net::topology::{FreeGraph, FreeLink, LeafSpine, Star, Way};
use crate::sim::rng::{Component, Probability, Stream};
use crate::sim::time::SimTime;

fn way() -> Way {
    Way {
        nic: attachment().nic,
        port: egress().port,
        link: gigabit(),
    }
}

fn free(hosts: &[&str], switches: &[&str], links: &[(&str, &str)]) -> FreeGraph {
    FreeGraph {
        hosts: hosts.iter().map(|&name| name.to_owned()).collect(),
        switches: switches
            .iter()
            .map(|&n| SwitchSpec::new(n, "switch"))
            .collect(),
        links: links
            .iter()
            .map(|&(a, b)| FreeLink::new(a, b, &way()))
            .collect(),
        groups: Vec::new(),
    }
}

fn leaf_spine() -> Graph {
    let spec = LeafSpine {
        leaves: 3,
        spines: 2,
        hosts: 4,
        links: 1,
        host: attachment(),
        trunk: egress(),
        pools: Vec::new(),
        multipath: Multipath::default(),
    };
    spec.graph().unwrap()
}

/// What is wrong with it, wherever that shows.
fn error(free: &FreeGraph) -> String {
    let network = free
        .graph()
        .and_then(|graph| graph.build::<Probe>(1, TieOrder::ByLink));
    network.unwrap_err().to_string()
}

#[test]
fn an_impossible_graph_is_refused_by_name_and_says_what_to_do() {
    let ends = [("h0", "s0"), ("h1", "s0")];
    for (hosts, switches, links, expected) in [
        (
            &["h0", "h0"][..],
            &["s0"][..],
            &ends[..],
            "the name 'h0' is already that of a host: give one of them another",
        ),
        (
            &["h0", "s0"],
            &["s0"],
            &ends,
            "the name 's0' is already that of a host: give one of them another",
        ),
        (
            &["switch"],
            &["s0"],
            &[],
            "the name 'switch' is already that of a host: give one of them another",
        ),
        (
            &["h0", "host"],
            &[],
            &[],
            "the name 'host' is already that of a tier: give one of them another",
        ),
        (
            &["h0->h1"],
            &[],
            &[],
            "'h0->h1' cannot be a name: use letters, digits, '_', '-' and single dots, beginning \
             with a letter or a digit",
        ),
        (
            &["h0", "h1"],
            &["switch-one"],
            &[("h0", "swich-one")],
            "no host, switch, group or tier 'swich-one'; did you mean 'switch-one'?",
        ),
        (
            &["h0", "h1"],
            &["s0"],
            &[("h0", "s0")],
            "host h1 has no link: connect it, or leave it out",
        ),
        (
            &["h0", "h1"],
            &["s0", "s1"],
            &ends,
            "switch s1 has no link: connect it, or leave it out",
        ),
        (
            &["h0", "h1"],
            &["s0", "s1"],
            &[("h0", "s0"), ("h1", "s0"), ("s1", "h0")],
            "host h0 is connected with s0 and cannot be with s1, too: a host has one NIC; put a \
             switch between",
        ),
        (
            &["h0", "h1"],
            &["s0"],
            &[("h0", "s0"), ("h1", "s0"), ("s0", "s0")],
            "link s0->s0 ends where it begins: connect two nodes",
        ),
        (
            &["h0"],
            &[],
            &[("h0", "h0")],
            "link h0->h0 ends where it begins: connect two nodes",
        ),
        (
            &["h0", "h1"],
            &["s0", "s1"],
            &[("h0", "s0"), ("h1", "s1")],
            "no way leads from h0 to h1 (2 nodes are out of reach): link the two parts",
        ),
        (
            // A ring that nobody hangs on.
            &["h0", "h1"],
            &["s0", "a", "b", "c"],
            &[
                ("h0", "s0"),
                ("h1", "s0"),
                ("a", "b"),
                ("b", "c"),
                ("c", "a"),
            ],
            "no way leads from h0 to a (3 nodes are out of reach): link the two parts",
        ),
        (
            &["h0", "h1", "h2", "h3"],
            &[],
            &[("h0", "h1"), ("h2", "h3")],
            "no way leads from h0 to h2 (2 nodes are out of reach): link the two parts",
        ),
        (
            &[],
            &["s0", "s1"],
            &[("s0", "s1")],
            "the network has no hosts: add one",
        ),
    ] {
        assert_eq!(error(&free(hosts, switches, links)), expected);
    }
    let mut slow = free(&["h0", "h1"], &["s0"], &ends);
    slow.links[1].ways[1].link.rate = Rate::from_bits_per_sec(0);
    assert_eq!(
        error(&slow),
        "link s0->h1: the rate is not between 1 b/s and 8 Tb/s"
    );
    let mut graph = Graph::new();
    let host = graph.host("h0").unwrap();
    assert_eq!(
        graph.attach(host, SwitchId(3), &attachment()),
        Err(TopologyError::NoNode(NodeId::Switch(SwitchId(3))))
    );
    assert_eq!(
        graph.group("g", [NodeId::Host(HostId(9))]),
        Err(TopologyError::NoNode(NodeId::Host(HostId(9))))
    );
    // Without a link it has no end, and no name; asking is no mistake.
    assert_eq!((graph.ends(PortId(0)), graph.ends(PortId(7))), (None, None));
}

#[test]
fn a_port_is_found_by_its_name() {
    for graph in [
        leaf_spine(),
        Star::uniform(3, &attachment()).graph().unwrap(),
        free(&["a", "b"], &[], &[("a", "b")]).graph().unwrap(),
        free(
            &["a", "b"],
            &["s", "t"],
            &[("a", "s"), ("t", "b"), ("s", "t"), ("t", "s"), ("s", "t")],
        )
        .graph()
        .unwrap(),
    ] {
        let mut names = BTreeSet::new();
        for port in graph.ports() {
            let name = graph.port_name(port);
            assert_eq!(graph.port(&name), Ok(port), "{name}");
            assert_eq!(graph.select(&name), Ok(vec![port]), "{name}");
            assert!(names.insert(name));
        }
    }
    let graph = leaf_spine();
    let error = |name: &str| graph.port(name).unwrap_err().to_string();
    assert_eq!(
        error("laef1->h4"),
        "no host, switch, group or tier 'laef1'; did you mean 'leaf1'?"
    );
    assert_eq!(
        error("leaf1->h3"),
        "no link leads from leaf1 to h3: add one, or name a port that exists"
    );
    assert_eq!(
        error("leaf1->spine0#2"),
        "no link leads from leaf1 to spine0#2: add one, or name a port that exists"
    );
    assert_eq!(
        error("leaf1-spine0"),
        "no port 'leaf1-spine0'; did you mean 'leaf1->spine0'?"
    );
    assert!(graph.port("leaf1->spine0#x").is_err() && graph.port("").is_err());
    assert_eq!(graph.port("leaf1->spine0#1"), graph.port("leaf1->spine0"));
    let twins = [("a", "s"), ("t", "b"), ("s", "t"), ("t", "s")];
    let graph = free(&["a", "b"], &["s", "t"], &twins).graph().unwrap();
    assert_eq!(
        graph.port("s->t").unwrap_err().to_string(),
        "no port 's->t'; did you mean 's->t#1'?"
    );
    let both = ["s->t#1", "s->t#2"].map(|name| graph.port(name).unwrap());
    assert_eq!(graph.select("s->t").unwrap(), both, "a pattern means all");
}

#[test]
fn patterns_stand_for_nodes_and_ports() {
    let mut graph = leaf_spine();
    let mixed = [
        NodeId::Host(HostId(5)),
        NodeId::Host(HostId(0)),
        NodeId::Host(HostId(5)),
    ];
    graph.group("mixed", mixed).unwrap();
    let hosts = |pattern: &str| -> Vec<u32> {
        let hosts = graph.resolve_hosts(pattern).unwrap();
        hosts.into_iter().map(|h| h.0).collect()
    };
    assert_eq!(hosts("h2..h5"), [2, 3, 4, 5]);
    assert_eq!(hosts("rack1"), [4, 5, 6, 7]);
    assert_eq!(hosts("rack1:1/3"), [4, 7]);
    assert_eq!(hosts("h2..h5:3/3"), [4]);
    for wrong in [
        "rack1:0/2",
        "rack1:3/2",
        "rack1:a/2",
        "rack1:2",
        "nobody:1/2",
    ] {
        assert!(graph.resolve_hosts(wrong).is_err(), "{wrong}");
    }
    assert_eq!(hosts("mixed"), [0, 5]);
    assert_eq!(hosts("h7"), [7]);
    assert_eq!(hosts("*").len(), 12);
    assert_eq!(hosts("host").len(), 12);
    assert!(hosts("spine").is_empty());
    let ports = |pattern: &str| -> Vec<String> {
        let ports = graph.select(pattern).unwrap();
        ports.into_iter().map(|p| graph.port_name(p)).collect()
    };
    assert_eq!(
        ports("spine1->*"),
        ["spine1->leaf0", "spine1->leaf1", "spine1->leaf2"]
    );
    assert_eq!(ports("spine1"), ports("spine1->*"));
    assert_eq!(
        ports("mixed<->leaf"),
        ["h0->leaf0", "h5->leaf1", "leaf0->h0", "leaf1->h5"]
    );
    assert_eq!(ports("leaf2 -> spine"), ["leaf2->spine0", "leaf2->spine1"]);
    assert_eq!((ports("*").len(), ports("*->host").len()), (36, 12));
    let error = |pattern: &str| graph.select(pattern).unwrap_err().to_string();
    assert_eq!(
        error("spine->host"),
        "no link leads from spine to host: add one, or name a port that exists"
    );
    assert_eq!(
        error("h5..h2"),
        "'h5..h2' is no range of hosts: write the one with the lower number first"
    );
    assert_eq!(
        error("leef->*"),
        "no host, switch, group or tier 'leef'; did you mean 'leaf'?"
    );
    assert_eq!(error("h0..leaf1"), "no host 'leaf1'");
    assert_eq!(
        error("leaf1-h7"),
        "no port 'leaf1-h7'; did you mean 'leaf1->h7'?"
    );
}

#[test]
fn overrides_change_what_they_name_and_nothing_else() {
    let plain = leaf_spine();
    let mut graph = plain.clone();
    let small = Capacity::Packets(3);
    graph
        .apply(&[
            Override {
                rate: Some(Rate::from_gbps(40)),
                ..Override::on("leaf<->spine")
            },
            Override {
                rate: Some(Rate::from_mbps(1)),
                delay: Some(SimTime::from_millis(1)),
                ..Override::on("leaf0->spine1")
            },
            Override {
                capacity: Some(small),
                discipline: Some(DisciplineSpec::EcnStep {
                    threshold: Threshold::Packets(1),
                    not_capable: NotCapable::Pass,
                }),
                ..Override::on("leaf2->h9")
            },
            Override {
                overhead: Some(SimTime::from_micros(1)),
                capacity: Some(Capacity::Bytes(ByteCount::new(9))),
                ..Override::on("rack0->*")
            },
        ])
        .unwrap();
    for port in graph.ports() {
        let name = graph.port_name(port);
        let trunk = name.contains("spine");
        let Some(egress) = graph.switch_egress(port) else {
            let nic = &graph.host_egress(HostId(port.0)).unwrap().nic;
            let changed =
                nic.overhead == SimTime::from_micros(1) && nic.capacity != Capacity::Unlimited;
            assert_eq!(changed, port.0 < 4, "{name}");
            continue;
        };
        let rate = match &*name {
            "leaf0->spine1" => Rate::from_mbps(1),
            _ if trunk => Rate::from_gbps(40),
            _ => Rate::from_gbps(1),
        };
        assert_eq!(egress.link.rate, rate, "{name}");
        assert_eq!(
            egress.link.delay == SimTime::from_millis(1),
            name == "leaf0->spine1"
        );
        assert_eq!(egress.port.capacity == small, name == "leaf2->h9", "{name}");
        assert_eq!(
            egress.port.discipline != DisciplineSpec::DropTail,
            name == "leaf2->h9",
            "{name}"
        );
    }
    let before = graph.clone();
    let step = graph
        .switch_egress(graph.port("leaf2->h9").unwrap())
        .unwrap()
        .port
        .discipline
        .clone();
    for (it, expected) in [
        (
            Override {
                discipline: Some(step),
                ..Override::on("*")
            },
            "port h0->leaf0 is a host's NIC and has no queue discipline: name ports of switches",
        ),
        (
            Override {
                pool: Some(PoolId(0)),
                ..Override::on("host->leaf")
            },
            "port h0->leaf0 is a host's NIC and has no buffer pool: name ports of switches",
        ),
        (
            Override {
                overhead: Some(SimTime::ZERO),
                ..Override::on("leaf0")
            },
            "port leaf0->h0 is a switch's and has no send overhead: name NICs, such as host->*",
        ),
        (
            Override::on("leaf7"),
            "no host, switch, group or tier 'leaf7'; did you mean 'leaf'?",
        ),
    ] {
        assert_eq!(graph.apply(&[it]).unwrap_err().to_string(), expected);
    }
    assert_eq!(graph, before, "an error changes nothing");
}

/// Two NICs and a wire: a packet takes 8 us onto it and 5 us along it.
#[test]
fn two_hosts_need_no_switch() {
    let graph = free(&["h0", "h1"], &[], &[("h1", "h0")]).graph().unwrap();
    assert_eq!(
        (
            graph.link_count(),
            graph.routes().unwrap().hops(HostId(0), HostId(1))
        ),
        (1, Some(1))
    );
    let mut network = graph.build(1, TieOrder::default()).unwrap();
    assert_eq!(network.port_to(HostId(0)), Some(PortId(1)));
    let packets = (0..10).map(|number| {
        let from = HostId(number as u32 % 2);
        let to = HostId(1 - from.0);
        (
            SimTime::ZERO,
            from,
            Probe {
                number,
                to,
                flow: 0,
            },
        )
    });
    let journey = send(&mut network, packets);
    assert!(journey.received.iter().all(|(at, packet)| *at == packet.to));
    assert_eq!((journey.received.len(), journey.ports.len()), (10, 0));
    let counters = graph.tier_counters(&network).unwrap();
    assert_eq!(counters.len(), 1);
    assert_eq!(
        (counters[0].name(), counters[0].packets),
        ("host->host".to_owned(), 10)
    );
    let other = leaf_spine().build::<Probe>(1, TieOrder::default()).unwrap();
    assert_eq!(
        graph.tier_counters(&other).unwrap_err(),
        TopologyError::OtherNetwork {
            graph: 2,
            network: 36
        }
    );
}

/// A connected graph of up to 24 switches with up to 24 hosts, some links twice.
#[derive(Clone, Debug)]
struct Random {
    switches: u32,
    links: Vec<(u32, u32)>,
    homes: Vec<u32>,
    per: PathChoice,
    capacity: Capacity,
    loss: u64,
    seed: u64,
}

fn random() -> impl Strategy<Value = Random> {
    (2u32..24, any::<u64>()).prop_flat_map(|(switches, seed)| {
        let any_switch = 0..switches;
        let gap = SimTime::from_micros(20);
        let per = prop_oneof![
            Just(PathChoice::Flow),
            Just(PathChoice::Flowlet { gap, entries: 16 }),
            Just(PathChoice::Packet),
        ];
        (
            proptest::collection::vec((any_switch.clone(), any_switch.clone()), 0..60),
            proptest::collection::vec(any_switch, 2..24),
            per,
            prop_oneof![
                Just(Capacity::Unlimited),
                (1u32..6).prop_map(Capacity::Packets)
            ],
            prop_oneof![Just(0), 1u64..20],
        )
            .prop_map(move |(extra, homes, per, capacity, loss)| {
                // A random tree, so that it hangs together, and what else there is.
                let mut random = Stream::new(seed, Component::Scenario, 0);
                let tree = (1..switches).map(|s| (s, random.below(u64::from(s)) as u32));
                let mut links: Vec<_> = tree.collect();
                links.extend(extra.into_iter().filter(|(a, b)| a != b));
                Random {
                    switches,
                    links,
                    homes,
                    per,
                    capacity,
                    loss,
                    seed,
                }
            })
    })
}

impl Random {
    fn graph(&self) -> Graph {
        let mut graph = Graph::new();
        for n in 0..self.switches {
            graph
                .switch(SwitchSpec::new(format!("s{n}"), format!("tier{}", n % 3)))
                .unwrap();
        }
        let mut egress = egress();
        egress.port.capacity = self.capacity;
        egress.link.impair = ImpairSpec {
            loss: match self.loss {
                0 => When::Never,
                n => When::Chance(Probability::ratio(n, 100)),
            },
            ..ImpairSpec::default()
        };
        let mut attachment = attachment();
        attachment.port.capacity = self.capacity;
        attachment.nic.capacity = self.capacity;
        for (&(a, b), n) in self.links.iter().zip(0..) {
            // Ports in any order: routes may not depend on it.
            let (a, b) = if n % 2 == 0 { (a, b) } else { (b, a) };
            graph
                .trunk(SwitchId(a), SwitchId(b), &egress, &egress)
                .unwrap();
            if let Some(&home) = self.homes.get(n) {
                let host = graph.host(format!("h{n}")).unwrap();
                graph.attach(host, SwitchId(home), &attachment).unwrap();
            }
        }
        for (n, &home) in self.homes.iter().enumerate().skip(self.links.len()) {
            let host = graph.host(format!("h{n}")).unwrap();
            graph.attach(host, SwitchId(home), &attachment).unwrap();
        }
        let salt = Salt::PerSwitch;
        graph
            .set_multipath(Multipath {
                per: self.per,
                salt,
            })
            .unwrap();
        graph
    }

    /// Links between each two switches, by relaxation: no search, and no ports.
    fn distances(&self) -> Vec<Vec<u32>> {
        let n = self.switches as usize;
        let mut d = vec![vec![u32::MAX / 4; n]; n];
        for (s, row) in d.iter_mut().enumerate() {
            row[s] = 0;
        }
        for &(a, b) in &self.links {
            d[a as usize][b as usize] = 1;
            d[b as usize][a as usize] = 1;
        }
        for via in 0..n {
            for a in 0..n {
                for b in 0..n {
                    d[a][b] = d[a][b].min(d[a][via] + d[via][b]);
                }
            }
        }
        d
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Every pair is reached over as many links as it is apart, and each switch names all ports
    /// that lead nearer and no other.
    #[test]
    fn routes_are_all_the_shortest_paths(random in random()) {
        let graph = random.graph();
        let routes = graph.routes().unwrap();
        let d = random.distances();
        for (from, &here) in (0..).zip(&random.homes) {
            for (to, &there) in (0..).zip(&random.homes) {
                let (from, to) = (HostId(from), HostId(to));
                let apart = d[here as usize][there as usize] + 2;
                let expected = if from == to { 0 } else { apart };
                prop_assert_eq!(routes.hops(from, to), Some(expected));
                prop_assert!(routes.paths(from, to) >= 1);
            }
        }
        for (to, &there) in (0..).zip(&random.homes) {
            for switch in 0..random.switches {
                let nearer = graph.ports().filter(|&port| match graph.ends(port).unwrap() {
                    (NodeId::Switch(s), NodeId::Switch(next)) if s.0 == switch => {
                        d[next.index()][there as usize] < d[switch as usize][there as usize]
                    }
                    (NodeId::Switch(s), NodeId::Host(h)) if s.0 == switch => h.0 == to,
                    _ => false,
                });
                let expected: Vec<u32> = nearer.map(|port| port.0).collect();
                prop_assert_eq!(routes.next(SwitchId(switch), HostId(to)), &expected[..]);
            }
        }
    }

    /// Whoever sends whatever to whom: no packet goes round, each takes one of the shortest paths
    /// and reaches its host or is counted where it was lost, and the counters by tier are what was
    /// seen.
    #[test]
    fn packets_take_shortest_paths_and_are_all_accounted_for(
        random in random(),
        sends in proptest::collection::vec((0u64..40, any::<u32>(), any::<u32>(), 0u32..5), 1..300),
    ) {
        let graph = random.graph();
        let hosts = graph.host_count();
        let d = random.distances();
        let mut now = SimTime::ZERO;
        let mut sent = Vec::new();
        for (number, &(pause, from, to, flow)) in (0u64..).zip(&sends) {
            now += SimTime::from_micros(pause);
            let to = HostId(to % hosts);
            sent.push((now, HostId(from % hosts), Probe { number, to, flow }));
        }
        let run = || {
            let mut network = graph.build(random.seed, TieOrder::default()).unwrap();
            let journey = send(&mut network, sent.iter().copied());
            (network, journey)
        };
        let (network, journey) = run();
        check_journey(&random, &graph, &d, &sent, &journey)?;
        let totals = network.totals();
        let counters = graph.tier_counters(&network).unwrap();
        let sum = |of: fn(&TierCounters) -> u64| counters.iter().map(of).sum::<u64>();
        let nics: u64 = counters.iter().filter(|t| t.from == HOST_TIER).map(|t| t.packets).sum();
        let full_nics: u64 = counters
            .iter()
            .filter(|t| t.from == HOST_TIER)
            .map(|t| t.dropped(DropReason::Full))
            .sum();
        prop_assert_eq!((nics, full_nics), (totals.sent, journey.refused));
        prop_assert_eq!(sum(TierCounters::dropped_total), totals.dropped + journey.refused);
        prop_assert_eq!(sum(|t| t.bytes), sum(|t| t.packets) * 1_000);
        prop_assert_eq!(sum(|t| u64::from(t.ports)), u64::from(graph.port_count()));
        let mut seen: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for port in journey.ports.values().flatten() {
            let (from, to) = graph.ends(*port).unwrap();
            *seen.entry((graph.tier(from), graph.tier(to))).or_default() += 1;
        }
        for t in counters.iter().filter(|t| t.from != HOST_TIER) {
            let expected = seen.get(&(&*t.from, &*t.to)).copied().unwrap_or(0);
            prop_assert_eq!(t.packets, expected, "{}", t.name());
            let peak = network.stats(t.peak).max_bytes;
            let ports = graph.select(&t.name()).unwrap();
            let max = ports.iter().map(|&p| network.stats(p).max_bytes).max();
            prop_assert_eq!((Some(t.max_bytes), peak), (max, t.max_bytes));
        }
        // And the same again.
        let (_, again) = run();
        prop_assert_eq!(journey.ports, again.ports);
        prop_assert_eq!(journey.received, again.received);
    }
}

fn check_journey(
    random: &Random,
    graph: &Graph,
    d: &[Vec<u32>],
    sent: &[(SimTime, HostId, Probe)],
    journey: &Journey,
) -> Result<(), TestCaseError> {
    let got: BTreeSet<u64> = journey.received.iter().map(|(_, p)| p.number).collect();
    prop_assert_eq!(got.len(), journey.received.len(), "a packet came twice");
    for (at, packet) in &journey.received {
        prop_assert_eq!(*at, packet.to);
    }
    let lost = sent.len() - got.len();
    prop_assert_eq!(lost as u64, journey.drops.len() as u64 + journey.refused);
    if random.loss == 0 && random.capacity == Capacity::Unlimited {
        prop_assert_eq!(lost, 0);
    }
    for (_, from, packet) in sent {
        let there = random.homes[packet.to.index()] as usize;
        let mut at = NodeId::Switch(SwitchId(random.homes[from.index()]));
        let none = Vec::new();
        for &port in journey.ports.get(&packet.number).unwrap_or(&none) {
            let (here, next) = graph.ends(port).unwrap();
            prop_assert_eq!(here, at, "a port of another switch");
            if let (NodeId::Switch(here), NodeId::Switch(next)) = (here, next) {
                let (here, next) = (here.index(), next.index());
                prop_assert_eq!(d[next][there] + 1, d[here][there], "not nearer");
            }
            at = next;
        }
        prop_assert_eq!(at == NodeId::Host(packet.to), got.contains(&packet.number));
    }
    Ok(())
}
