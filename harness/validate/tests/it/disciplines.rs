//! TCP through ports with each queue discipline: every byte arrives, the counters agree with what
//! hosts saw and with a capture, and `wire` changes nothing.

use narrows::config::TcpConfig;
use narrows::{Instant, Rate};
use narrows_net::host::capture::{Capture, Link, Side};
use narrows_net::host::{SimPacket, TcpHost, address_of};
use narrows_net::net::discipline::codel::CodelSpec;
use narrows_net::net::discipline::drr::DrrSpec;
use narrows_net::net::discipline::fq_codel::FqCodelSpec;
use narrows_net::net::discipline::strict_priority::StrictPrioritySpec;
use narrows_net::net::discipline::trimming::TrimmingSpec;
use narrows_net::net::{
    Attachment, Capacity, DisciplineSpec, DropReason, HostId, LinkSpec, NicSpec, PortSpec,
    PortStats, Star, TieOrder,
};
use narrows_net::sim::{NoTap, SimTime, Tap, World};
use narrows_validate::peer::{Close, Flow, FlowEnd, MixedHost, Open, OurFlows, Read};
use std::net::SocketAddr;
use std::sync::Arc;

const PORT: u16 = 5_001;
const BYTES: u64 = 300_000;
const SENDERS: u32 = 6;

fn codel() -> CodelSpec {
    CodelSpec {
        target: SimTime::from_micros(100),
        interval: SimTime::from_millis(1),
        max_packet: 1_500,
        ce_threshold: None,
    }
}

/// Those that decide in turn, with the limit of their port.
fn disciplines() -> Vec<(DisciplineSpec, u32)> {
    let flows = DrrSpec::Flows {
        queues: 64,
        quantum: 1_500,
    };
    vec![
        (DisciplineSpec::Codel(codel()), 60),
        (DisciplineSpec::FqCodel(FqCodelSpec::new(codel())), 40),
        (DisciplineSpec::Drr(flows), 40),
        (
            DisciplineSpec::StrictPriority(StrictPrioritySpec::default()),
            40,
        ),
        (
            DisciplineSpec::Trimming(TrimmingSpec::new(Capacity::Packets(100))),
            8,
        ),
    ]
}

/// What a run gives.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    /// When each sender's last byte was read.
    last_bytes: Vec<Instant>,
    stats: PortStats,
    trimmed_in: u64,
    dropped: u64,
}

/// Host 0 behind a port with the discipline.
fn star(discipline: &DisciplineSpec, limit: u32) -> Star {
    let link = LinkSpec::new(Rate::from_gbps(1), SimTime::from_micros(10));
    let attachment = Attachment {
        nic: NicSpec::new(Capacity::Packets(1_000)),
        up: link.clone(),
        port: PortSpec::new(Capacity::Packets(1_000)),
        down: link,
    };
    let mut star = Star::uniform(SENDERS as usize + 1, &attachment);
    star.hosts[0].port = PortSpec {
        discipline: discipline.clone(),
        ..PortSpec::new(Capacity::Packets(limit))
    };
    star
}

/// Senders 1 and up send to host 0 at once; the first one's packets carry `dscp`.
fn run<T: Tap<SimPacket>>(
    discipline: &DisciplineSpec,
    limit: u32,
    dscp: u8,
    wire: bool,
    tap: T,
) -> Ended {
    let star = star(discipline, limit);
    let host = |id: u32, flows: &[Flow]| {
        let tcp = TcpConfig {
            dscp: if id == 1 { dscp } else { 0 },
            ..TcpConfig::default()
        };
        let app = OurFlows::new(HostId(id), flows);
        let host = TcpHost::new(HostId(id), Arc::new(tcp), app, 7, wire);
        MixedHost::Ours(host.unwrap())
    };
    let receive = |h| Flow {
        open: Open::Passive {
            port: PORT + h as u16,
        },
        send: 0,
        close: Close::AfterPeer,
        read: Read::AtOnce,
    };
    let send = |h| Flow {
        open: Open::Active {
            port: 40_000,
            to: SocketAddr::new(address_of(HostId(0)), PORT + h as u16),
        },
        send: BYTES,
        close: Close::WhenSent,
        read: Read::AtOnce,
    };
    let receiving: Vec<_> = (1..=SENDERS).map(receive).collect();
    let mut hosts = vec![host(0, &receiving)];
    hosts.extend((1..=SENDERS).map(|h| host(h, &[send(h)])));
    let network = star.graph().unwrap().build(7, TieOrder::default());
    let mut world = World::with_tap(network.unwrap(), hosts, tap);
    for h in 0..=SENDERS {
        world.start_at(HostId(h), SimTime::ZERO);
    }
    world.run_until(SimTime::from_secs(100));
    let reports = world.hosts()[0].reports();
    for report in &reports {
        assert_eq!(
            (report.received, report.wrong),
            (BYTES, 0),
            "{discipline:?}"
        );
        assert_ne!(report.end, FlowEnd::Failed, "{discipline:?}");
    }
    let totals = world.network().totals();
    let accounted = totals.delivered + totals.dropped + totals.in_network;
    assert_eq!(totals.sent + totals.duplicated, accounted, "{discipline:?}");
    let trimmed_in = match &world.hosts()[0] {
        MixedHost::Ours(host) => host.trimmed_in,
        MixedHost::Smoltcp(_) => 0,
    };
    let port = world.network().port_to(HostId(0)).unwrap();
    Ended {
        last_bytes: reports.iter().map(|r| r.last_byte).collect(),
        stats: world.network().stats(port),
        trimmed_in,
        dropped: totals.dropped,
    }
}

/// Six flows at one port. What the port dropped or cut is what its counters say, hosts count what
/// was cut, and packets as bytes behave as packets.
#[test]
fn tcp_gets_every_byte_through_every_discipline() {
    for (discipline, limit) in disciplines() {
        let ended = run(&discipline, limit, 0, false, NoTap);
        let stats = &ended.stats;
        let lost = stats.dropped_total() + stats.trimmed;
        assert!(lost > 0, "{discipline:?} was not tried: {stats:?}");
        assert_eq!(ended.dropped, stats.dropped_total(), "{discipline:?}");
        assert_eq!(ended.trimmed_in, stats.trimmed, "{discipline:?}");
        let trims = matches!(discipline, DisciplineSpec::Trimming(_));
        assert_eq!(stats.trimmed > 0, trims, "{discipline:?}");
        assert_eq!(ended, run(&discipline, limit, 0, false, NoTap));
        assert_eq!(ended, run(&discipline, limit, 0, true, NoTap));
    }
}

/// A flow whose DSCP is CS6 has done in a fraction of the time, at the expense of the others; with
/// the DSCP of the others it has not.
#[test]
fn a_flow_of_a_higher_class_goes_first() {
    let spec = DisciplineSpec::StrictPriority(StrictPrioritySpec::default());
    let done = |dscp| {
        let ended = run(&spec, 100, dscp, false, NoTap);
        let first = ended.last_bytes[0].since(Instant::ZERO);
        let last = ended.last_bytes.iter().max().unwrap();
        (first, last.since(Instant::ZERO))
    };
    let ((low, _), (high, last)) = (done(0), done(48));
    let [low, high, last] = [low, high, last].map(|d| d.as_nanos());
    // 300,000 bytes take 2.4 ms by themselves.
    assert!(high < 4_000_000, "{high}");
    assert!(low > 2 * high && last > 3 * high, "{low} {high} {last}");
}

/// Comments in a capture and counters of the port are of one mind.
#[test]
fn a_capture_tells_what_each_discipline_did() {
    for (discipline, limit) in disciplines() {
        let mut file = Vec::new();
        let graph = star(&discipline, limit).graph().unwrap();
        let link = Link::of(&graph, HostId(0), address_of(HostId(0))).unwrap();
        let mut capture = Capture::new(&mut file, link, Side::Switch, None).unwrap();
        let ended = run(&discipline, limit, 0, false, &mut capture);
        capture.finish().unwrap();
        let count = |what: &str| {
            let found = file.windows(what.len()).filter(|w| *w == what.as_bytes());
            found.count() as u64
        };
        let stats = &ended.stats;
        let dropped = |reason| stats.dropped(reason);
        for (comment, counted) in [
            ("trimmed: payload cut", stats.trimmed),
            ("dropped: early", dropped(DropReason::Early)),
            ("dropped: pushed out", dropped(DropReason::PushOut)),
            ("dropped: full", dropped(DropReason::Full)),
            (
                "dropped: header queue",
                dropped(DropReason::HeaderQueueFull),
            ),
        ] {
            assert_eq!(count(comment), counted, "{discipline:?}: {comment}");
        }
        assert_eq!(ended, run(&discipline, limit, 0, false, NoTap));
    }
}
