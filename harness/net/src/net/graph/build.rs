//! From a graph to the network at work.

use narrows_congestion::order::OrderedMap;
use std::ops::Range;

use super::pause::queue_of;
use super::{Graph, NameKind, NodeId, PortProblem, SwitchId, TopologyError};
use crate::net::buffer::{Pool, PoolSpec};
use crate::net::impair::Impairments;
use crate::net::link::{LinkSpec, Transmitter};
use crate::net::network::Network;
use crate::net::nic::NicSpec;
use crate::net::nic::transmit::Transmit;
use crate::net::packet::{HostId, Packet, PortId};
use crate::net::pause::PauseSpec;
use crate::net::port::{NO_POOL, Node, PoolId, Port, PortParts, PortSpec};
use crate::net::routes::Routes;
use crate::net::switch::Switch;
use crate::sim::rng::{Component, Stream};
use crate::sim::time::SimTime;

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

impl Graph {
    /// That a network can be built: there are hosts, each node has a link, every host reaches
    /// every other, and the values of all ports make sense.
    ///
    /// # Errors
    /// What stands in the way, by the name of the node or port.
    pub fn check(&self) -> Result<(), TopologyError> {
        self.check_nodes()?;
        self.check_connected()?;
        for (sender, port) in self.senders().zip(self.ports()) {
            sender
                .check()
                .map_err(|problem| self.port_error(port, problem))?;
        }
        self.check_reserves()?;
        self.check_pause()
    }

    /// The pools of all switches with their ports, in order.
    fn pools_with_ports(&self) -> impl Iterator<Item = (&PoolSpec, Vec<PortId>)> {
        let mut ports: OrderedMap<(SwitchId, PoolId), Vec<PortId>> = OrderedMap::new();
        for (n, output) in self.outputs.iter().enumerate() {
            if let Some(pool) = output.egress.port.pool {
                let of = ports.get_or_default((output.from, pool));
                of.push(self.port_of_output(n));
            }
        }
        let pools = self.switches.iter().zip(0..).flat_map(|(switch, n)| {
            let numbered = switch.pools.iter().zip(0..);
            numbered.map(move |(pool, p)| (pool, (SwitchId(n), PoolId(p))))
        });
        pools.map(move |(pool, at)| {
            (
                pool,
                ports.get_mut(&at).map(std::mem::take).unwrap_or_default(),
            )
        })
    }

    /// That what the ports of a pool have to themselves is not more than there is.
    fn check_reserves(&self) -> Result<(), TopologyError> {
        for (pool, ports) in self.pools_with_ports() {
            let needed = pool.reserve * ports.len() as u64;
            let size = pool.size;
            if let Some(first) = ports.first().filter(|_| needed > size) {
                return Err(self.port_error(*first, PortProblem::Reserve { size, needed }));
            }
        }
        Ok(())
    }

    /// The shortest paths.
    ///
    /// # Errors
    /// As [`Self::check`]; or the tables would be too large.
    pub fn routes(&self) -> Result<Routes, TopologyError> {
        self.check_nodes()?;
        self.check_connected()?;
        Routes::of(self)
    }

    /// The network, for the run with `seed`.
    ///
    /// # Errors
    /// As [`Self::check`]; or the tables would be too large.
    pub fn build<P: Packet>(&self, seed: u64, ties: TieOrder) -> Result<Network<P>, TopologyError> {
        self.check()?;
        let Routes {
            homes,
            tables,
            fabric,
            ..
        } = Routes::of(self)?;
        let mut ranks: Vec<u32> = (0..self.port_count()).collect();
        if ties != TieOrder::ByLink {
            Stream::new(seed, Component::Ties, 0).shuffle(&mut ranks);
        }
        let ports = self.senders().zip(ranks).zip(0..);
        let ports = ports.map(|((sender, rank), number)| {
            let port = sender.port(PortId(number), rank, seed, ties);
            port.map_err(|problem| self.port_error(PortId(number), problem))
        });
        let ports = ports.collect::<Result<Vec<_>, _>>()?;
        let pools = self.pools_with_ports();
        let pools = pools.map(|(spec, ports)| Pool::new(spec.clone(), ports.len() as u32));
        let switches = tables
            .into_iter()
            .zip(&self.switches)
            .zip(0..)
            .map(|((table, spec), n)| Switch::new(table, spec.multipath, seed, n));
        let mut network = Network::new(
            homes,
            ports,
            switches.collect(),
            pools.collect(),
            fabric,
            seed,
        );
        for (host, number) in self.hosts.iter().zip(0..) {
            if let Some(cable) = &host.cable {
                network.set_receiver(HostId(number), cable.egress.nic.receive);
            }
        }
        self.set_ingress(&mut network)?;
        Ok(network)
    }

    fn check_nodes(&self) -> Result<(), TopologyError> {
        if self.hosts.is_empty() {
            return Err(TopologyError::NoHosts);
        }
        if let Some(host) = self.hosts.iter().find(|h| h.cable.is_none()) {
            return Err(TopologyError::NoLinks {
                kind: NameKind::Host,
                node: host.name.clone(),
            });
        }
        let mut linked = vec![false; self.switches.len()];
        for output in &self.outputs {
            linked[output.from.index()] = true;
        }
        match self.switches.iter().zip(linked).find(|(_, linked)| !linked) {
            None => Ok(()),
            Some((switch, _)) => Err(TopologyError::NoLinks {
                kind: NameKind::Switch,
                node: switch.name.clone(),
            }),
        }
    }

    /// That all nodes are reached from the first host.
    fn check_connected(&self) -> Result<(), TopologyError> {
        let mut neighbours: Vec<Vec<NodeId>> =
            vec![Vec::new(); self.hosts.len() + self.switches.len()];
        for (from, to) in self.ports().filter_map(|port| self.ends(port)) {
            neighbours[self.index_of(from)].push(to);
        }
        let first = NodeId::Host(HostId(0));
        let mut reached = vec![false; neighbours.len()];
        reached[self.index_of(first)] = true;
        let mut left = vec![first];
        while let Some(node) = left.pop() {
            for &next in &neighbours[self.index_of(node)] {
                if !std::mem::replace(&mut reached[self.index_of(next)], true) {
                    left.push(next);
                }
            }
        }
        let mut unreached = self.nodes().filter(|&node| !reached[self.index_of(node)]);
        let Some(there) = unreached.next() else {
            return Ok(());
        };
        Err(TopologyError::Partitioned {
            here: self.node_name(first).to_owned(),
            there: self.node_name(there).to_owned(),
            unreached: unreached.count() as u32 + 1,
        })
    }

    fn port_error(&self, port: PortId, problem: PortProblem) -> TopologyError {
        TopologyError::Port {
            port: self.port_name(port),
            problem,
        }
    }

    /// The ports in order, without the NICs of hosts that have no link.
    fn senders(&self) -> impl Iterator<Item = Sender<'_>> {
        let cables = self.hosts.iter().filter_map(|host| host.cable.as_ref());
        let nics = cables.map(|cable| Sender {
            spec: PortSpec {
                in_service: cable.egress.nic.in_service,
                ..PortSpec::new(cable.egress.nic.capacity)
            },
            nic: Some(&cable.egress.nic),
            link: &cable.egress.link,
            to: cable.to,
            pools: 0..0,
            pause: None,
        });
        let mut before = 0;
        let pools = self.switches.iter().map(|switch| {
            let first = before;
            before += switch.pools.len() as u32;
            first..before
        });
        let pools: Vec<Range<u32>> = pools.collect();
        nics.chain(self.outputs.iter().map(move |output| Sender {
            spec: output.egress.port.clone(),
            nic: None,
            link: &output.egress.link,
            to: output.to,
            pools: pools[output.from.index()].clone(),
            pause: self.switches[output.from.index()].pause,
        }))
    }
}

/// A port, of a host or of a switch.
struct Sender<'a> {
    spec: PortSpec,
    /// Of a host's.
    nic: Option<&'a NicSpec>,
    link: &'a LinkSpec,
    to: NodeId,
    /// The numbers in the network of its switch's pools.
    pools: Range<u32>,
    /// How its switch pauses, if it does.
    pause: Option<PauseSpec>,
}

impl Sender<'_> {
    fn check(&self) -> Result<(), PortProblem> {
        self.transmitter()?;
        self.pool()?;
        if self.link.impair.reorder_min > self.link.impair.reorder_max {
            return Err(PortProblem::Reorder);
        }
        let queue = self.spec.discipline.check();
        queue.map_err(PortProblem::Discipline)
    }

    fn transmitter(&self) -> Result<Transmitter, PortProblem> {
        Transmitter::new(self.link.rate).ok_or(PortProblem::Rate)
    }

    /// The number in the network of its pool.
    fn pool(&self) -> Result<u32, PortProblem> {
        match self.spec.pool {
            None => Ok(NO_POOL),
            Some(pool) if (pool.0 as usize) < self.pools.len() => Ok(self.pools.start + pool.0),
            Some(pool) => Err(PortProblem::Pool(pool)),
        }
    }

    fn port(&self, at: PortId, rank: u32, seed: u64, ties: TieOrder) -> Result<Port, PortProblem> {
        let number = u64::from(at.0);
        let spec = match self.pause {
            None => self.spec.clone(),
            Some(pause) => queue_of(&self.spec, pause)?,
        };
        let mut port = Port::new(PortParts {
            tx: self.transmitter()?,
            delay: self.link.delay,
            to: match self.to {
                NodeId::Switch(s) => Node::Switch(s.0),
                NodeId::Host(h) => Node::Host(h.0),
            },
            rank,
            framing: self.link.framing,
            in_service: spec.in_service,
            capacity: spec.capacity,
            pool: self.pool()?,
            queue: spec
                .discipline
                .build(|| Stream::new(seed, Component::Aqm, number))
                .map_err(PortProblem::Discipline)?,
            overhead: self.nic.map_or(SimTime::ZERO, |nic| nic.overhead),
            random: Stream::new(seed, Component::Overhead, number),
            impair: Impairments::new(&self.link.impair, seed, number),
        });
        port.waited_last = ties == TieOrder::WaitedLast;
        if let Some(nic) = self.nic.filter(|nic| nic.is_asked()) {
            let random = Stream::new(seed, Component::Buffers, number);
            let transmit = Transmit::new(nic.capacity, nic.buffers, nic.shaper, random);
            port.set_transmit(transmit);
        }
        Ok(port)
    }
}
