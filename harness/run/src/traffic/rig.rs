//! A small rig for tests of traffic: a network, traffics on it, a run.

use super::connections::Family;
use super::connections::Opened;
use super::error::TrafficError;
use super::host::HostApp;
use super::kind::Traffic;
use super::log::{Log, Transfer};
use super::placement::Placement;
use crate::host::{SimPacket, TcpHost};
use crate::net::buffer::Capacity;
use crate::net::graph::{Attachment, Egress, Graph, TieOrder};
use crate::net::impair::{ImpairSpec, When};
use crate::net::link::{Framing, LinkSpec};
use crate::net::multipath::Multipath;
use crate::net::network::{Network, Totals};
use crate::net::nic::NicSpec;
use crate::net::packet::HostId;
use crate::net::port::PortSpec;
use crate::net::topology::{LeafSpine, Star};
use crate::sim::time::SimTime;
use crate::sim::world::{Halt, World};
use narrows::config::{AckPolicy, Buffers, EcnMode, IdleRestart, TcpConfig, TimestampMode};
use narrows::congestion::CongestionRegistry;
use narrows::recovery::detector;
use narrows::{ByteCount, Duration, Instant, Rate};
use std::sync::Arc;

/// The rate of every link.
pub(super) const RATE: Rate = Rate::from_gbps(1);
/// The delay of every link.
pub(super) const DELAY: Duration = Duration::from_micros(5);
/// IPv4 and TCP headers with timestamps, and what Ethernet adds.
pub(super) const HEADERS: u64 = 20 + 32 + 38;
/// Payload of a full segment.
pub(super) const MSS: u64 = 1_448;

/// How long a packet with `payload` takes through a star: two links, none of them busy.
pub(super) fn through_star(payload: u64) -> Duration {
    let frame = (payload + HEADERS).max(84);
    let link = RATE.time_for(ByteCount::new(frame)) + DELAY;
    link + link
}

/// A host on a switch, with a deep buffer.
pub(super) fn attachment() -> Attachment {
    let link = LinkSpec::new(RATE, SimTime::from_duration(DELAY)).with_framing(Framing::Ethernet);
    Attachment {
        nic: NicSpec::new(Capacity::Packets(1_000)),
        up: link.clone(),
        port: PortSpec::new(Capacity::Packets(1_000)),
        down: link,
    }
}

/// A network, its hosts' TCP, and traffics.
#[derive(Debug)]
pub(super) struct Rig {
    pub(super) graph: Graph,
    pub(super) tcp: TcpConfig,
    pub(super) family: Family,
    pub(super) seed: u64,
    pub(super) wire: bool,
    pub(super) ties: TieOrder,
    traffics: Vec<(Box<dyn Traffic>, Instant)>,
}

/// What a run left.
pub(super) struct Ran {
    pub(super) log: Log,
    pub(super) hosts: Vec<TcpHost<HostApp>>,
    pub(super) network: Network<SimPacket>,
    pub(super) outcome: Halt,
    pub(super) now: Instant,
    pub(super) events: u64,
}

/// What the TCP of incasts is.
pub(super) fn tcp() -> TcpConfig {
    TcpConfig {
        congestion: CongestionRegistry::standard().get("reno").unwrap(),
        detector: detector::standard().get("sack").unwrap(),
        timestamps: TimestampMode::Micros,
        ecn: EcnMode::Off,
        idle_restart: IdleRestart::Keep,
        nagle: false,
        ack: AckPolicy::IMMEDIATE,
        buffers: Buffers {
            send: 1 << 30,
            recv: 16 << 20,
            ..Buffers::default()
        },
        ..TcpConfig::default()
    }
}

impl Rig {
    pub(super) fn on(graph: Graph) -> Self {
        Self {
            graph,
            tcp: tcp(),
            family: Family::Ipv4,
            seed: 1,
            wire: false,
            ties: TieOrder::Shuffled,
            traffics: Vec::new(),
        }
    }

    /// Hosts on a switch.
    pub(super) fn star(hosts: usize) -> Self {
        Self::on(Star::uniform(hosts, &attachment()).graph().unwrap())
    }

    /// A star where packets with these numbers are lost on the link to host `lossy`.
    pub(super) fn lossy_star(
        hosts: usize,
        lossy: usize,
        packets: std::ops::Range<u64>,
        port: Capacity,
    ) -> Self {
        let mut each = vec![attachment(); hosts];
        each[lossy].down.impair = ImpairSpec {
            loss: When::Packets(packets.collect()),
            ..ImpairSpec::default()
        };
        for host in &mut each {
            host.port = PortSpec::new(port);
        }
        let star = Star {
            hosts: each,
            pools: Vec::new(),
        };
        Self::on(star.graph().unwrap())
    }

    /// `leaves` racks of `hosts`, two spines.
    pub(super) fn leaf_spine(leaves: u32, hosts: u32) -> Self {
        let host = attachment();
        let trunk = Egress {
            port: host.port.clone(),
            link: host.up.clone(),
        };
        let fabric = LeafSpine {
            leaves,
            spines: 2,
            hosts,
            links: 1,
            host,
            trunk,
            pools: Vec::new(),
            multipath: Multipath::default(),
        };
        Self::on(fabric.graph().unwrap())
    }

    pub(super) fn delayed_ack(mut self) -> Self {
        self.tcp.ack = AckPolicy {
            delay: Duration::from_millis(40),
            every: 2,
            quick_acks: 0,
        };
        self
    }

    pub(super) fn ipv6(mut self) -> Self {
        self.family = Family::Ipv6;
        self
    }

    pub(super) fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    pub(super) fn with(self, traffic: impl Traffic + 'static) -> Self {
        self.at(Duration::ZERO, traffic)
    }

    pub(super) fn at(self, start: Duration, traffic: impl Traffic + 'static) -> Self {
        self.boxed(start, Box::new(traffic))
    }

    pub(super) fn boxed(mut self, start: Duration, traffic: Box<dyn Traffic>) -> Self {
        self.traffics.push((traffic, Instant::ZERO + start));
        self
    }

    /// Why the traffic cannot be on the network.
    pub(super) fn refused(&self) -> TrafficError {
        let refused = self.traffics.iter().zip(0..).find_map(|((traffic, _), n)| {
            traffic
                .install(&mut Placement::new(&self.graph, n, self.seed))
                .err()
        });
        refused.expect("a traffic that cannot be")
    }

    /// Runs until all is done, or `until` at the latest.
    pub(super) fn run(&self, until: Duration) -> Ran {
        let log = Log::default();
        let host = |h| HostApp::new(HostId(h), self.family, log.clone());
        let mut apps: Vec<HostApp> = (0..self.graph.host_count()).map(host).collect();
        for ((traffic, start), number) in self.traffics.iter().zip(0..) {
            let mut on = Placement::new(&self.graph, number, self.seed);
            traffic.install(&mut on).unwrap();
            log.add(match on.ends {
                super::Ends::Never => None,
                super::Ends::After(calls) => Some(calls),
            });
            let tcp = Arc::new(self.tcp.clone());
            for (host, role) in on.roles {
                apps[host.index()].add(role, number, tcp.clone(), *start);
            }
        }
        let tcp = Arc::new(self.tcp.clone());
        let hosts = apps.into_iter().zip(0..).map(|(app, h)| {
            TcpHost::new(HostId(h), tcp.clone(), app, self.seed, self.wire).unwrap()
        });
        let network = self.graph.build(self.seed, self.ties).unwrap();
        let mut world = World::new(network, hosts.collect());
        for h in (0..self.graph.host_count()).rev() {
            world.start_at(HostId(h), SimTime::ZERO);
        }
        let outcome = world.run(SimTime::from_duration(until), |_| log.goes_on());
        let (now, events) = (world.now().to_instant(), world.events());
        let (hosts, network, _) = world.into_parts();
        for host in &hosts {
            assert_eq!(host.app.broken(), None, "seed {}", self.seed);
        }
        Ran {
            log,
            hosts,
            network,
            outcome,
            now,
            events,
        }
    }
}

/// Everything that a run gave, for comparing two.
type Bits = (
    Vec<Transfer>,
    ByteCount,
    u64,
    Instant,
    Totals,
    Vec<Vec<Opened>>,
);

impl Ran {
    /// That all was done, and that what was delivered is the sum of the transfers.
    pub(super) fn done(self) -> Self {
        assert_eq!(self.outcome, Halt::Stopped, "at {:?}", self.now);
        assert!(!self.log.goes_on());
        assert_eq!(self.sum(), self.log.delivered().get(), "bytes are lost");
        self
    }

    /// Bytes of all transfers.
    pub(super) fn sum(&self) -> u64 {
        self.log.transfers().iter().map(|t| t.size.get()).sum()
    }

    pub(super) fn transfers(&self) -> Vec<Transfer> {
        self.log.transfers().to_vec()
    }

    pub(super) fn took(&self) -> Vec<Duration> {
        self.log.transfers().iter().map(|t| t.took).collect()
    }

    /// Data packets and retransmissions of all connections.
    pub(super) fn segments(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        for host in &self.hosts {
            for opened in host.app.opened() {
                if let Some(conn) = host.tcp().connection(opened.conn) {
                    let stats = conn.sender_stats();
                    sum.0 += stats.segments;
                    sum.1 += stats.retransmits;
                }
            }
        }
        sum
    }

    /// Every bit of it.
    pub(super) fn bits(&self) -> Bits {
        let opened = self.hosts.iter().map(|h| h.app.opened().to_vec());
        (
            self.transfers(),
            self.log.delivered(),
            self.events,
            self.now,
            self.network.totals(),
            opened.collect(),
        )
    }
}
