//! The TCP on networks of several switches, built and asked through the public face alone.

use std::net::SocketAddr;
use std::sync::Arc;

use narrows::config::TcpConfig;
use narrows::{ByteCount, Rate};
use narrows_net::host::{SimPacket, TcpHost, address_of, ipv6_address_of};
use narrows_net::net::graph::{Override, TierCounters};
use narrows_net::net::multipath::FLOWLET_ENTRIES;
use narrows_net::net::topology::{Defaults, Topologies};
use narrows_net::net::{
    Attachment, Capacity, DropReason, Egress, Framing, Graph, HostId, LinkSpec, Multipath, NicSpec,
    PathChoice, PortSpec, Salt, TieOrder,
};
use narrows_net::sim::{Halt, SimTime, World};

use super::transfer::Transfer;

const PORT: u16 = 80;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ip {
    V4,
    V6,
}

/// What a run gave.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    ended: SimTime,
    events: u64,
    tiers: Vec<TierCounters>,
    /// Packets at each port.
    ports: Vec<u64>,
    received: Vec<u64>,
}

/// Each host sends `bytes` to the one `stride` further on.
fn run(graph: &Graph, stride: u32, bytes: usize, ip: Ip, seed: u64, wire: bool) -> Run {
    let hosts = graph.host_count();
    let tcp = Arc::new(TcpConfig::default());
    let address = |h| match ip {
        Ip::V4 => address_of(HostId(h)),
        Ip::V6 => ipv6_address_of(HostId(h)),
    };
    let host = |h| {
        let at = |h| SocketAddr::new(address(h), PORT);
        let to = at((h + stride) % hosts);
        let app = Transfer::new(at(h), Some(to), bytes as u64);
        TcpHost::new(HostId(h), tcp.clone(), app, seed, wire).unwrap()
    };
    let network = graph.build::<SimPacket>(seed, TieOrder::default()).unwrap();
    let mut world = World::new(network, (0..hosts).map(host).collect());
    for h in 0..hosts {
        world.start_at(HostId(h), SimTime::ZERO);
    }
    let done = |w: &World<TcpHost<Transfer>>| w.hosts().iter().all(|h| h.app.finished.len() == 1);
    let mut until = SimTime::ZERO;
    let mut ended = SimTime::MAX;
    while ended == SimTime::MAX {
        until += SimTime::from_millis(1);
        let outcome = world.run_until(until);
        assert!(until < SimTime::from_secs(20), "not over by {until:?}");
        if done(&world) || outcome == Halt::Idle {
            ended = world.now();
        }
    }
    for (h, host) in world.hosts().iter().enumerate() {
        let app = &host.app;
        assert_eq!(
            (app.received, app.wrong, app.finished.len()),
            (bytes as u64, 0, 1),
            "h{h}"
        );
    }
    let network = world.network();
    let totals = network.totals();
    assert_eq!(
        totals.sent + totals.duplicated,
        totals.delivered + totals.dropped + totals.in_network
    );
    Run {
        ended,
        events: world.events(),
        tiers: graph.tier_counters(network).unwrap(),
        ports: graph.ports().map(|p| network.stats(p).packets).collect(),
        received: world.hosts().iter().map(|h| h.app.received).collect(),
    }
}

fn defaults(multipath: Multipath) -> Defaults {
    let link =
        LinkSpec::new(Rate::from_gbps(10), SimTime::from_micros(1)).with_framing(Framing::Ethernet);
    let port = PortSpec::new(Capacity::Bytes(ByteCount::new(256 << 10)));
    Defaults {
        host: Attachment {
            nic: NicSpec::new(Capacity::Packets(1_000)),
            up: link.clone(),
            port: port.clone(),
            down: link.clone(),
        },
        trunk: Egress { port, link },
        pools: Vec::new(),
        multipath,
    }
}

fn make(name: &str, sizes: &[(&str, u32)], per: PathChoice) -> Graph {
    let salt = Salt::PerSwitch;
    let shapes = Topologies::standard();
    let shape = shapes.get(name).unwrap();
    shape
        .graph(sizes, &defaults(Multipath { per, salt }))
        .unwrap()
}

fn tier<'a>(run: &'a Run, name: &str) -> &'a TierCounters {
    let tier = run.tiers.iter().find(|t| t.name() == name);
    tier.unwrap_or_else(|| panic!("no ports {name}"))
}

/// 50 racks of 40 hosts of 10 Gb/s under 10 spines of 40 Gb/s; every host sends to one in another
/// rack.
#[test]
fn two_thousand_hosts_on_a_leaf_spine_all_transfer() {
    let mut graph = make(
        "leaf-spine",
        &[("leaves", 50), ("spines", 10), ("hosts", 40)],
        PathChoice::Flow,
    );
    graph
        .apply(&[Override {
            rate: Some(Rate::from_gbps(40)),
            ..Override::on("leaf<->spine")
        }])
        .unwrap();
    let run = run(&graph, 997, 50_000, Ip::V4, 1, false);
    let up = tier(&run, "leaf->spine");
    assert_eq!(up.ports, 500);
    // 997 is no multiple of 40: nobody sends within a rack.
    assert_eq!(
        up.packets,
        tier(&run, "host->leaf").packets - up.dropped(DropReason::Full)
    );
    let spines = graph.select("leaf->spine").unwrap();
    let used = spines.iter().filter(|p| run.ports[p.index()] > 0).count();
    assert!(used > 480, "{used} of 500 links are used");
    println!(
        "{} events, {} of virtual time",
        run.events,
        run.ended.as_picos()
    );
}

/// Both families hash addresses and ports: all core switches carry data, and the same number of
/// packets of each transfer.
#[test]
fn both_families_run_on_a_fat_tree_and_use_its_cores() {
    for ip in [Ip::V4, Ip::V6] {
        let graph = make("fat-tree", &[("k", 8)], PathChoice::Flow);
        let run = run(&graph, 48, 100_000, ip, 5, true);
        let cores = graph.select("core->aggregation").unwrap();
        let busy = cores
            .chunks(8)
            .filter(|core| core.iter().any(|p| run.ports[p.index()] > 0));
        assert_eq!(busy.count(), 16, "{ip:?}");
        assert_eq!(tier(&run, "aggregation->core").ports, 128);
    }
}

/// Whatever chooses the path, a seed gives one run, with packets as bytes and without.
#[test]
fn a_seed_gives_one_run_with_any_choice_of_paths() {
    let gap = SimTime::from_micros(50);
    let mut ends = Vec::new();
    for per in [
        PathChoice::Flow,
        PathChoice::Flowlet {
            gap,
            entries: FLOWLET_ENTRIES,
        },
        PathChoice::Packet,
    ] {
        let graph = make("leaf-spine", &[("leaves", 4), ("spines", 4)], per);
        let one = |seed, wire| run(&graph, 9, 200_000, Ip::V4, seed, wire);
        let first = one(1, false);
        assert_eq!(first, one(1, false), "{per:?}");
        assert_eq!(first, one(1, true), "{per:?}");
        assert_ne!(first, one(2, false), "{per:?}");
        ends.push((first.ended, first.ports));
    }
    assert!(ends[0] != ends[1] && ends[1] != ends[2] && ends[0] != ends[2]);
}

/// Every shape carries transfers, also across its bottleneck.
#[test]
fn every_shape_carries_transfers() {
    for shape in Topologies::standard().entries() {
        let graph = make(shape.name(), &[], PathChoice::Flow);
        for ip in [Ip::V4, Ip::V6] {
            run(&graph, 1, 20_000, ip, 3, false);
        }
    }
}
