//! Putting a network together: a star, or any graph of switches.
//!
//! In a star N hosts hang on one switch, each by a link of its own in each direction. Host 0 is
//! the client. Host h's NIC is port h, the switch port that leads to it is port N + h.

use std::fmt;

use crate::sim::rng::{Component, Stream};
use crate::sim::time::SimTime;

use super::buffer::{Pool, PoolSpec};
use super::discipline::{DisciplineError, DisciplineSpec};
use super::impair::Impairments;
use super::link::{LinkSpec, Transmitter};
use super::network::Network;
use super::nic::NicSpec;
use super::packet::{HostId, Packet, PortId};
use super::port::{NO_POOL, Node, PoolId, Port, PortParts, PortSpec};
use super::switch::Switch;

/// Which of the packets that arrive at one instant is handled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum TieOrder {
    /// The one on the link with the lower number: always the same winner.
    ByLink,
    /// By a random order of the links, drawn once from the seed: no bias towards low numbers
    /// over several seeds.
    #[default]
    Shuffled,
    /// First those that found their link idle, then those that had waited behind another packet;
    /// among each as [`TieOrder::Shuffled`]. A simulator that handles events of one instant in
    /// the order in which they were scheduled (ns-2) does this: of two packets that reach a full
    /// queue together, the one is dropped that an enlarged window sent after its predecessor.
    WaitedLast,
}

/// How a host hangs on the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its NIC.
    pub nic: NicSpec,
    /// From the host to the switch.
    pub up: LinkSpec,
    /// The switch's queue towards the host.
    pub port: PortSpec,
    /// From the switch to the host.
    pub down: LinkSpec,
}

/// A star.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StarSpec {
    /// The hosts; the first is the client.
    pub hosts: Vec<Attachment>,
    /// Pools for the switch's ports.
    pub pools: Vec<PoolSpec>,
    /// Seed of the run.
    pub seed: u64,
    /// Order of simultaneous arrivals.
    pub ties: TieOrder,
}

/// Why a network cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyError {
    /// A link's rate is zero or more than 8 Tb/s.
    Rate(PortId),
    /// A port names a pool that does not exist.
    Pool(PoolId),
    /// A pool's alpha has a zero denominator.
    Alpha(PoolId),
    /// A port's queue discipline cannot be built.
    Discipline(PortId, DisciplineError),
    /// The least extra delay of a link's reordering is above the greatest.
    Reorder(PortId),
    /// More hosts or ports than there are numbers for.
    TooLarge,
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(p) => {
                write!(
                    f,
                    "the rate of link {} is not between 1 b/s and 8 Tb/s",
                    p.0
                )
            }
            Self::Pool(p) => write!(f, "there is no buffer pool {}", p.0),
            Self::Alpha(p) => write!(f, "alpha of buffer pool {} has a zero denominator", p.0),
            Self::Discipline(p, e) => write!(f, "the queue of port {}: {e}", p.0),
            Self::Reorder(p) => {
                write!(
                    f,
                    "reordering on link {}: the least delay is above the greatest",
                    p.0
                )
            }
            Self::TooLarge => write!(f, "too many hosts"),
        }
    }
}

impl std::error::Error for TopologyError {}

/// A switch by its number in the builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SwitchId(pub u32);

/// Builds a network port by port. All NICs come first, in the order of their hosts.
#[derive(Debug)]
pub struct NetworkBuilder {
    seed: u64,
    ties: TieOrder,
    hosts: u32,
    ports: Vec<Port>,
    switches: Vec<Switch>,
    pools: Vec<Pool>,
}

impl NetworkBuilder {
    /// `hosts` hosts and `switches` switches, not yet connected.
    pub fn new(seed: u64, ties: TieOrder, hosts: u32, switches: u32) -> Self {
        Self {
            seed,
            ties,
            hosts,
            // Of a star, where each host has a NIC and the switch a port for it.
            ports: Vec::with_capacity(2 * hosts as usize),
            switches: (0..switches).map(|_| Switch::new(hosts as usize)).collect(),
            pools: Vec::new(),
        }
    }

    /// Adds a pool.
    pub fn pool(&mut self, spec: &PoolSpec) -> Result<PoolId, TopologyError> {
        let id = PoolId(self.pools.len() as u32);
        if spec.alpha_den == 0 {
            return Err(TopologyError::Alpha(id));
        }
        self.pools.push(Pool::new(spec.clone()));
        Ok(id)
    }

    /// Connects the next host's NIC with a switch. To be called once for each host before any
    /// [`Self::port`].
    pub fn nic(
        &mut self,
        spec: &NicSpec,
        link: &LinkSpec,
        to: SwitchId,
    ) -> Result<PortId, TopologyError> {
        let port = PortSpec {
            capacity: spec.capacity,
            in_service: spec.in_service,
            discipline: DisciplineSpec::DropTail,
            pool: None,
        };
        self.add(&port, link, Node::Switch(to.0), spec.overhead)
    }

    /// Adds an output port to a switch; routes decide which packets it gets.
    pub fn port(
        &mut self,
        spec: &PortSpec,
        link: &LinkSpec,
        to: Endpoint,
    ) -> Result<PortId, TopologyError> {
        let to = match to {
            Endpoint::Host(h) => Node::Host(h.0),
            Endpoint::Switch(s) => Node::Switch(s.0),
        };
        self.add(spec, link, to, SimTime::ZERO)
    }

    /// At `switch`, packets for `host` leave by one of `ports`, chosen by flow.
    pub fn route(&mut self, switch: SwitchId, host: HostId, ports: &[PortId]) {
        let ports: Vec<u32> = ports.iter().map(|p| p.0).collect();
        if let Some(s) = self.switches.get_mut(switch.0 as usize) {
            s.set_route(host.0, &ports);
        }
    }

    fn add(
        &mut self,
        spec: &PortSpec,
        link: &LinkSpec,
        to: Node,
        overhead: SimTime,
    ) -> Result<PortId, TopologyError> {
        let id = u32::try_from(self.ports.len())
            .ok()
            .filter(|&id| id < 1 << 31)
            .ok_or(TopologyError::TooLarge)?;
        let at = PortId(id);
        let tx = Transmitter::new(link.rate).ok_or(TopologyError::Rate(at))?;
        if link.impair.reorder_min > link.impair.reorder_max {
            return Err(TopologyError::Reorder(at));
        }
        let pool = match spec.pool {
            None => NO_POOL,
            Some(p) if (p.0 as usize) < self.pools.len() => p.0,
            Some(p) => return Err(TopologyError::Pool(p)),
        };
        let (seed, number) = (self.seed, u64::from(id));
        let queue = spec
            .discipline
            .build(|| Stream::new(seed, Component::Aqm, number))
            .map_err(|e| TopologyError::Discipline(at, e))?;
        self.ports.push(Port::new(PortParts {
            tx,
            delay: link.delay,
            to,
            rank: id,
            framing: link.framing,
            in_service: spec.in_service,
            capacity: spec.capacity,
            pool,
            queue,
            overhead,
            random: Stream::new(seed, Component::Overhead, number),
            impair: Impairments::new(&link.impair, seed, number),
        }));
        Ok(at)
    }

    /// The network.
    ///
    /// # Panics
    /// If a host has no NIC: that is a mistake of the caller, not of its input.
    pub fn build<P: Packet>(mut self) -> Network<P> {
        let nics = self.ports.iter().take(self.hosts as usize);
        assert!(
            nics.filter(|p| matches!(p.to, Node::Switch(_))).count() == self.hosts as usize,
            "each host needs a NIC before any switch has a port"
        );
        if self.ties != TieOrder::ByLink {
            let mut ranks: Vec<u32> = (0..self.ports.len() as u32).collect();
            Stream::new(self.seed, Component::Ties, 0).shuffle(&mut ranks);
            for (port, rank) in self.ports.iter_mut().zip(ranks) {
                port.rank = rank;
                port.waited_last = self.ties == TieOrder::WaitedLast;
            }
        }
        Network::new(self.hosts, self.ports, self.switches, self.pools)
    }
}

/// Where a switch's link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// At a host.
    Host(HostId),
    /// At another switch.
    Switch(SwitchId),
}

impl StarSpec {
    /// The same attachment for each of `hosts` hosts, no pools.
    pub fn uniform(hosts: usize, attachment: &Attachment, seed: u64) -> Self {
        Self {
            hosts: vec![attachment.clone(); hosts],
            pools: Vec::new(),
            seed,
            ties: TieOrder::default(),
        }
    }

    /// The network.
    pub fn build<P: Packet>(&self) -> Result<Network<P>, TopologyError> {
        let n = u32::try_from(self.hosts.len()).map_err(|_| TopologyError::TooLarge)?;
        let mut b = NetworkBuilder::new(self.seed, self.ties, n, 1);
        for pool in &self.pools {
            b.pool(pool)?;
        }
        for host in &self.hosts {
            b.nic(&host.nic, &host.up, SwitchId(0))?;
        }
        for (h, host) in (0..n).map(HostId).zip(&self.hosts) {
            let port = b.port(&host.port, &host.down, Endpoint::Host(h))?;
            b.route(SwitchId(0), h, &[port]);
        }
        Ok(b.build())
    }
}
