//! The TCP on a network that changes under it, through the public face alone.

use std::net::SocketAddr;
use std::sync::Arc;

use narrows::config::TcpConfig;
use narrows::{ByteCount, Rate};
use narrows_net::host::{SimPacket, TcpHost, address_of};
use narrows_net::net::change::RECEIVE_RING;
use narrows_net::net::{
    Attachment, Capacity, Change, DropReason, Egress, Framing, Graph, HostId, LeafSpine, LinkSpec,
    Multipath, NicSpec, PortId, PortSpec, TieOrder,
};
use narrows_net::sim::{SimTime, World};

use super::transfer::Transfer;

const PORT: u16 = 80;
const BYTES: u64 = 20_000_000;

type TcpWorld = World<TcpHost<Transfer>>;

/// Two leaves with two hosts each, so many spines, 10 Gb/s.
fn graph(spines: u32) -> Graph {
    let link =
        LinkSpec::new(Rate::from_gbps(10), SimTime::from_micros(2)).with_framing(Framing::Ethernet);
    let port = PortSpec::new(Capacity::Bytes(ByteCount::new(256 << 10)));
    LeafSpine {
        leaves: 2,
        spines,
        hosts: 2,
        links: 1,
        host: Attachment {
            nic: NicSpec::new(Capacity::Packets(1_000)),
            up: link.clone(),
            port: port.clone(),
            down: link.clone(),
        },
        trunk: Egress { port, link },
        pools: Vec::new(),
        multipath: Multipath::default(),
    }
    .graph()
    .unwrap()
}

/// Host 3, on the other leaf, sends to host 0.
fn world(graph: &Graph, wire: bool) -> TcpWorld {
    let tcp = Arc::new(TcpConfig::default());
    let host = |h| {
        let at = |h| SocketAddr::new(address_of(HostId(h)), PORT);
        // Host 0 takes what the others send.
        let app = Transfer::new(at(h), (h > 0).then(|| at(0)), BYTES);
        TcpHost::new(HostId(h), tcp.clone(), app, 7, wire).unwrap()
    };
    let network = graph.build::<SimPacket>(7, TieOrder::default()).unwrap();
    let hosts = (0..graph.host_count()).map(host).collect();
    let mut world = World::new(network, hosts);
    for h in [0, 3] {
        world.start_at(HostId(h), SimTime::ZERO);
    }
    world
}

fn run_to(world: &mut TcpWorld, us: u64) {
    let time = SimTime::from_micros(us);
    world.run_until(time);
    world.pass(time);
}

/// When all has arrived, and whole.
fn finish(world: &mut TcpWorld) -> u64 {
    world.run_until(SimTime::from_secs(100));
    let app = &world.hosts()[0].app;
    assert_eq!((app.received, app.wrong), (BYTES, 0));
    let t = world.network().totals();
    assert_eq!(
        t.sent + t.duplicated,
        t.delivered + t.dropped + t.in_network
    );
    app.finished.first().expect("the end").as_nanos() / 1_000
}

/// Both directions of a link.
fn cable(world: &mut TcpWorld, change: &Change) {
    let other = change.other_way(world.network()).expect("a link");
    world.apply(change).unwrap();
    world.apply(&other).unwrap();
}

fn dropped(world: &TcpWorld, reason: DropReason) -> u64 {
    let network = world.network();
    let ports = (0..network.ports()).map(PortId);
    ports.map(|p| network.stats(p).dropped(reason)).sum()
}

/// The port from leaf 1 to the spine that the data take.
fn busy_trunk(graph: &Graph, world: &TcpWorld) -> PortId {
    let spines = graph.select("leaf1->spine").unwrap();
    let packets = |p: &PortId| world.network().stats(*p).packets;
    spines.into_iter().max_by_key(packets).unwrap()
}

/// The trunk of the flow goes down in the middle. With another spine the flow loses what was on the
/// wire and what the switch holds there, and is done a few round trips later, without a timeout's
/// wait.
#[test]
fn a_flow_goes_by_the_other_spine_when_its_own_dies() {
    let graph = graph(2);
    let mut untouched = world(&graph, false);
    let alone = finish(&mut untouched);
    let run = |wire| {
        let mut w = world(&graph, wire);
        run_to(&mut w, 5_000);
        let trunk = busy_trunk(&graph, &w);
        let before = w.network().stats(trunk).packets;
        cable(&mut w, &Change::LinkDown { port: trunk });
        let done = finish(&mut w);
        assert_eq!(w.network().stats(trunk).packets, before, "it is still used");
        assert_eq!(dropped(&w, DropReason::NoRoute), 0);
        assert!(dropped(&w, DropReason::LinkDown) > 0);
        (done, w.network().totals())
    };
    let (done, totals) = run(false);
    assert!(
        done > alone && done < alone + 5_000,
        "{alone} us, then {done} us"
    );
    assert_eq!(run(true), (done, totals), "packets as bytes");
    assert_eq!(run(false), (done, totals), "the same again");
}

/// With one spine only there is no way for 50 ms: what is sent meanwhile has no route, and the
/// flow goes on when a retransmission timeout finds the link up.
#[test]
fn a_flow_recovers_when_its_only_link_comes_back() {
    let graph = graph(1);
    let mut w = world(&graph, false);
    run_to(&mut w, 5_000);
    let trunk = busy_trunk(&graph, &w);
    cable(&mut w, &Change::LinkDown { port: trunk });
    run_to(&mut w, 55_000);
    let received = w.hosts()[0].app.received;
    assert!(received > 0 && received < BYTES);
    assert!(dropped(&w, DropReason::NoRoute) > 0);
    cable(&mut w, &Change::LinkUp { port: trunk });
    let done = finish(&mut w);
    assert!(done > 55_000 && done < 5_000_000, "{done} us");
}

/// The receiver pauses for 30 ms: a window waits in its ring, nothing is lost, and the flow takes
/// as much longer and hardly more.
#[test]
fn a_receiver_that_pauses_delays_a_flow_by_its_pause() {
    let graph = graph(2);
    let alone = finish(&mut world(&graph, false));
    let mut w = world(&graph, false);
    run_to(&mut w, 5_000);
    let (host, span) = (HostId(0), SimTime::from_millis(30));
    let ring = RECEIVE_RING;
    w.apply(&Change::Pause { host, span, ring }).unwrap();
    run_to(&mut w, 34_000);
    let received = w.hosts()[0].app.received;
    run_to(&mut w, 34_999);
    assert_eq!(w.hosts()[0].app.received, received, "it takes something in");
    assert_eq!(dropped(&w, DropReason::RingFull), 0);
    let done = finish(&mut w);
    assert!(
        done > alone + 25_000 && done < alone + 60_000,
        "{alone} us, then {done} us"
    );
}

/// The sender's NIC loses its ring: the flow retransmits and is done.
#[test]
fn a_flow_survives_a_nic_that_loses_its_ring() {
    let graph = graph(2);
    let mut w = world(&graph, false);
    run_to(&mut w, 5_000);
    let (host, span) = (HostId(3), SimTime::from_millis(10));
    w.apply(&Change::NicReset { host, span }).unwrap();
    run_to(&mut w, 14_999);
    assert!(dropped(&w, DropReason::NicReset) > 0);
    let sent = w.network().totals().delivered;
    run_to(&mut w, 15_000);
    assert_eq!(
        w.network().totals().delivered,
        sent,
        "nothing reaches anyone"
    );
    let done = finish(&mut w);
    assert!(done < 5_000_000, "{done} us");
}
