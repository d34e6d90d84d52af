//! The graph of a network: named hosts and switches, and the links between them.
//!
//! A graph is a value: [`super::topology`] has the usual shapes, [`Override`] changes single
//! links or tiers of one, [`Graph::build`] makes the [`super::Network`] of it. Hosts have one NIC
//! and do not forward; a link has a value of its own for each direction.
//!
//! # Names
//! Hosts and switches have names (`h3`, `leaf1`), which stand for all in one: nodes, groups and
//! tiers. A **port** is the end of a link that sends, with the queue before it and the wire behind
//! it, and is named by where it stands and where it leads: `leaf1->h3`, a host's NIC `h3->leaf1`.
//! Where two switches have several links, these are `leaf1->spine0#1`, `leaf1->spine0#2`, and so
//! on. A **tier** is a kind of node: `host`, `leaf`, `spine`. Wherever ports are asked for
//! ([`Graph::select`]), either side may be a tier, a group, a range of hosts or `*`:
//! `leaf->spine`, `h0..h7->*`.

mod build;
mod error;
mod names;
mod overrides;
mod pause;
mod tiers;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::buffer::PoolSpec;
use super::link::LinkSpec;
use super::multipath::Multipath;
use super::nic::NicSpec;
use super::packet::{HostId, PortId};
use super::pause::PauseSpec;
use super::port::{PoolId, PortSpec};

pub use build::TieOrder;
pub use error::{NameKind, PortProblem, TopologyError};
pub use overrides::Override;
pub use tiers::TierCounters;

/// The tier of all hosts.
pub const HOST_TIER: &str = "host";

/// The most hosts: what 10.0.0.0/8 has addresses for.
const MAX_HOSTS: usize = (1 << 24) - 2;
/// The most ports: some 5 GB of them. (Event ids have 31 bits.)
const MAX_PORTS: usize = 1 << 23;

/// A switch, numbered from 0 in the order in which switches were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub u32);

impl SwitchId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A host or a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeId {
    /// A host.
    Host(HostId),
    /// A switch.
    Switch(SwitchId),
}

/// A switch: everything but its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchSpec {
    /// Its name.
    pub name: String,
    /// Its tier: `leaf`, `spine`; any name that no node and no group has.
    pub tier: String,
    /// Buffer pools for its ports, which name them by their place in this list.
    pub pools: Vec<PoolSpec>,
    /// How it chooses among equal paths.
    pub multipath: Multipath,
    /// Whether and how it pauses those who send to it. Its ports' limits are then the memory for what
    /// comes in by them.
    pub pause: Option<PauseSpec>,
}

impl SwitchSpec {
    /// A switch without pools that chooses paths by flow.
    pub fn new(name: impl Into<String>, tier: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            tier: tier.into(),
            pools: Vec::new(),
            multipath: Multipath::default(),
            pause: None,
        }
    }
}

/// How a host hangs on a switch.
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

/// A switch's output: its queue and the wire behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Egress {
    /// The queue.
    pub port: PortSpec,
    /// The wire.
    pub link: LinkSpec,
}

/// A host's output: its NIC and the wire behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostEgress {
    /// The NIC.
    pub nic: NicSpec,
    /// The wire.
    pub link: LinkSpec,
}

/// A host, and where its cable goes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HostNode {
    name: String,
    cable: Option<Cable>,
}

/// A host's NIC, and the way back.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cable {
    egress: Arc<HostEgress>,
    to: NodeId,
    /// The switch's port to the host, as an index of [`Graph::outputs`]; meaningless on a cable
    /// between two hosts.
    back: usize,
}

/// An output port of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Output {
    from: SwitchId,
    to: NodeId,
    /// Which of the links between the two it is, from 1.
    nth: u32,
    egress: Arc<Egress>,
}

/// `new`, in one place with the one `before` if they are equal.
fn shared<T: PartialEq>(before: Option<&Arc<T>>, new: T) -> Arc<T> {
    match before {
        Some(before) if **before == new => before.clone(),
        _ => Arc::new(new),
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Node(NodeId),
    Group(usize),
    Tier(usize),
}

/// Hosts, switches and links, with their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    hosts: Vec<HostNode>,
    switches: Vec<SwitchSpec>,
    outputs: Vec<Output>,
    /// Links between switches by their ends and number, as indices of `outputs`.
    trunks: BTreeMap<(SwitchId, SwitchId, u32), usize>,
    tiers: Vec<String>,
    groups: Vec<(String, Vec<NodeId>)>,
    names: BTreeMap<String, Named>,
}

impl Default for Graph {
    fn default() -> Self {
        Self::new()
    }
}

impl Graph {
    /// A graph without nodes.
    pub fn new() -> Self {
        let mut names = BTreeMap::new();
        names.insert(HOST_TIER.to_owned(), Named::Tier(0));
        Self {
            hosts: Vec::new(),
            switches: Vec::new(),
            outputs: Vec::new(),
            trunks: BTreeMap::new(),
            tiers: vec![HOST_TIER.to_owned()],
            groups: Vec::new(),
            names,
        }
    }

    /// A graph without nodes that is to have so many, and links between its switches: refused
    /// before it takes memory if that is too much.
    pub(crate) fn sized(hosts: u64, switches: u64, trunks: u64) -> Result<Self, TopologyError> {
        let ports = hosts.saturating_add(trunks).saturating_mul(2);
        for (what, count, most) in [
            ("hosts", hosts, MAX_HOSTS),
            ("switches", switches, MAX_HOSTS),
            ("ports", ports, MAX_PORTS),
        ] {
            if count > most as u64 {
                let most = most as u64;
                return Err(TopologyError::TooLarge { what, most });
            }
        }
        Ok(Self::new())
    }

    /// Adds a host, which has the next number.
    ///
    /// # Errors
    /// If the name is taken or is none, or there are too many hosts.
    pub fn host(&mut self, name: impl Into<String>) -> Result<HostId, TopologyError> {
        let name = name.into();
        self.room_for("hosts", self.hosts.len(), MAX_HOSTS)?;
        let id = HostId(self.hosts.len() as u32);
        self.claim(&name, Named::Node(NodeId::Host(id)))?;
        self.hosts.push(HostNode { name, cable: None });
        Ok(id)
    }

    /// Adds `count` hosts, named `h` and their number. Returns their numbers.
    ///
    /// # Errors
    /// As [`Self::host`].
    pub fn hosts_by_number(&mut self, count: u32) -> Result<Vec<HostId>, TopologyError> {
        let first = self.hosts.len();
        (first..first + count as usize)
            .map(|n| self.host(format!("h{n}")))
            .collect()
    }

    /// Adds a switch, which has the next number.
    ///
    /// # Errors
    /// If its name or its tier's is taken or is none, a pool's alpha has a zero denominator, or a
    /// flowlet table has no entries, or too many.
    pub fn switch(&mut self, spec: SwitchSpec) -> Result<SwitchId, TopologyError> {
        self.room_for("switches", self.switches.len(), MAX_HOSTS)?;
        let id = SwitchId(self.switches.len() as u32);
        for (n, pool) in spec.pools.iter().enumerate() {
            if pool.alpha_den == 0 {
                return Err(TopologyError::Alpha {
                    switch: spec.name,
                    pool: PoolId(n as u32),
                });
            }
        }
        if !spec.multipath.is_possible() {
            return Err(TopologyError::FlowletTable { switch: spec.name });
        }
        match self.names.get(&spec.tier) {
            Some(Named::Tier(_)) => {}
            _ => {
                self.claim(&spec.tier, Named::Tier(self.tiers.len()))?;
                self.tiers.push(spec.tier.clone());
            }
        }
        self.claim(&spec.name, Named::Node(NodeId::Switch(id)))?;
        self.switches.push(spec);
        Ok(id)
    }

    /// Connects a host with a switch.
    ///
    /// # Errors
    /// If one of them does not exist, or the host is connected already.
    pub fn attach(
        &mut self,
        host: HostId,
        switch: SwitchId,
        attachment: &Attachment,
    ) -> Result<(), TopologyError> {
        self.room_for("ports", self.outputs.len() + self.hosts.len(), MAX_PORTS)?;
        self.known(NodeId::Switch(switch))?;
        let back = self.outputs.len();
        // Mostly it is attached as the one before it.
        let before = self.outputs.last().and_then(|output| match output.to {
            NodeId::Host(host) => Some((self.hosts[host.index()].cable.as_ref()?, output)),
            NodeId::Switch(_) => None,
        });
        let up = shared(
            before.map(|(cable, _)| &cable.egress),
            HostEgress {
                nic: attachment.nic.clone(),
                link: attachment.up.clone(),
            },
        );
        let down = shared(
            before.map(|(_, output)| &output.egress),
            Egress {
                port: attachment.port.clone(),
                link: attachment.down.clone(),
            },
        );
        self.plug(
            host,
            Cable {
                egress: up,
                to: NodeId::Switch(switch),
                back,
            },
        )?;
        self.outputs.push(Output {
            from: switch,
            to: NodeId::Host(host),
            nth: 1,
            egress: down,
        });
        Ok(())
    }

    /// Connects two switches: `there` leads from `a` to `b`, `back` from `b` to `a`. Two switches
    /// may have several links; packets are spread over them as over other equal paths.
    ///
    /// # Errors
    /// If one of them does not exist, or they are the same.
    pub fn trunk(
        &mut self,
        a: SwitchId,
        b: SwitchId,
        there: &Egress,
        back: &Egress,
    ) -> Result<(), TopologyError> {
        self.room_for(
            "ports",
            self.outputs.len() + self.hosts.len() + 1,
            MAX_PORTS,
        )?;
        self.known(NodeId::Switch(a))?;
        self.known(NodeId::Switch(b))?;
        if a == b {
            return Err(TopologyError::SelfLink {
                node: self.node_name(NodeId::Switch(a)).to_owned(),
            });
        }
        let nth = self.trunks.range((a, b, 0)..=(a, b, u32::MAX)).count() as u32 + 1;
        for (from, to, egress) in [(a, b, there), (b, a, back)] {
            self.trunks.insert((from, to, nth), self.outputs.len());
            self.outputs.push(Output {
                from,
                to: NodeId::Switch(to),
                nth,
                egress: Arc::new(egress.clone()),
            });
        }
        Ok(())
    }

    /// Connects two hosts without a switch: `there` is the NIC and the wire of `a`, `back` those
    /// of `b`.
    ///
    /// # Errors
    /// If one of them does not exist or is connected already, or they are the same.
    pub fn cable(
        &mut self,
        a: HostId,
        b: HostId,
        there: &HostEgress,
        back: &HostEgress,
    ) -> Result<(), TopologyError> {
        if a == b {
            self.known(NodeId::Host(a))?;
            return Err(TopologyError::SelfLink {
                node: self.node_name(NodeId::Host(a)).to_owned(),
            });
        }
        // Both before either, so that an error leaves the graph as it was.
        self.unplugged(a, NodeId::Host(b))?;
        self.unplugged(b, NodeId::Host(a))?;
        for (host, peer, egress) in [(a, b, there), (b, a, back)] {
            self.plug(
                host,
                Cable {
                    egress: Arc::new(egress.clone()),
                    to: NodeId::Host(peer),
                    back: usize::MAX,
                },
            )?;
        }
        Ok(())
    }

    /// Names a group of nodes.
    ///
    /// # Errors
    /// If the name is taken or is none, or a node does not exist.
    pub fn group(
        &mut self,
        name: impl Into<String>,
        nodes: impl IntoIterator<Item = NodeId>,
    ) -> Result<(), TopologyError> {
        let name = name.into();
        let nodes: Vec<NodeId> = nodes.into_iter().collect();
        for &node in &nodes {
            self.known(node)?;
        }
        self.claim(&name, Named::Group(self.groups.len()))?;
        self.groups.push((name, nodes));
        Ok(())
    }

    /// Sets how all switches choose among equal paths.
    ///
    /// # Errors
    /// If a flowlet table has no entries, or too many.
    pub fn set_multipath(&mut self, multipath: Multipath) -> Result<(), TopologyError> {
        for switch in &mut self.switches {
            if !multipath.is_possible() {
                return Err(TopologyError::FlowletTable {
                    switch: switch.name.clone(),
                });
            }
            switch.multipath = multipath;
        }
        Ok(())
    }

    /// Sets whether and how all switches pause those who send to them.
    pub fn set_pause(&mut self, pause: Option<PauseSpec>) {
        for switch in &mut self.switches {
            switch.pause = pause;
        }
    }

    /// Whether anything may pause a port: a switch, or a host its switch.
    pub fn may_pause(&self) -> bool {
        let mut cables = self.hosts.iter().filter_map(|host| host.cable.as_ref());
        self.switches.iter().any(|switch| switch.pause.is_some())
            || cables.any(|cable| cable.egress.nic.receive.pause.is_some())
    }

    /// Number of hosts.
    pub fn host_count(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// Number of switches.
    pub fn switch_count(&self) -> u32 {
        self.switches.len() as u32
    }

    /// Number of links; each has a port at either end.
    pub fn link_count(&self) -> usize {
        self.port_count() as usize / 2
    }

    /// Number of ports: those of [`super::Network::ports`].
    pub fn port_count(&self) -> u32 {
        (self.hosts.len() + self.outputs.len()) as u32
    }

    /// All ports: first the NICs in the order of their hosts, then the switch ports in the order
    /// in which their links were added. The numbers change when a host is added.
    pub fn ports(&self) -> impl ExactSizeIterator<Item = PortId> + use<> {
        (0..self.port_count()).map(PortId)
    }

    /// Where a port stands and where it leads; `None` without such a port, and for the NIC of a
    /// host without a link.
    pub fn ends(&self, port: PortId) -> Option<(NodeId, NodeId)> {
        if let Some(host) = self.hosts.get(port.index()) {
            let to = host.cable.as_ref()?.to;
            return Some((NodeId::Host(HostId(port.0)), to));
        }
        let output = self.outputs.get(port.index() - self.hosts.len())?;
        Some((NodeId::Switch(output.from), output.to))
    }

    /// A switch.
    pub fn switch_spec(&self, switch: SwitchId) -> Option<&SwitchSpec> {
        self.switches.get(switch.index())
    }

    /// A host's NIC and wire; `None` before it is connected.
    pub fn host_egress(&self, host: HostId) -> Option<&HostEgress> {
        Some(&self.hosts.get(host.index())?.cable.as_ref()?.egress)
    }

    /// The NIC of a host, to be changed before the network is built; `None` if it has no link.
    pub fn nic_mut(&mut self, host: HostId) -> Option<&mut NicSpec> {
        let cable = self.hosts.get_mut(host.index())?.cable.as_mut()?;
        Some(&mut Arc::make_mut(&mut cable.egress).nic)
    }

    /// The queue and the wire of a switch port; `None` for a NIC.
    pub fn switch_egress(&self, port: PortId) -> Option<&Egress> {
        let nth = port.index().checked_sub(self.hosts.len())?;
        Some(&self.outputs.get(nth)?.egress)
    }

    /// The number in the network of a switch's pool, for [`super::Network::pool_used`].
    pub fn pool(&self, switch: SwitchId, pool: PoolId) -> Option<PoolId> {
        let own = self.switches.get(switch.index())?;
        own.pools.get(pool.0 as usize)?;
        Some(PoolId(self.pools_before(switch) + pool.0))
    }

    /// Pools of the switches before this one.
    fn pools_before(&self, switch: SwitchId) -> u32 {
        let before = self.switches.iter().take(switch.index());
        before.map(|s| s.pools.len() as u32).sum()
    }

    /// The port of an output by its index.
    fn port_of_output(&self, output: usize) -> PortId {
        PortId((self.hosts.len() + output) as u32)
    }

    /// Gives a name to something, if it is one and nothing has it.
    fn claim(&mut self, name: &str, named: Named) -> Result<(), TopologyError> {
        names::check(name)?;
        if let Some(&taken) = self.names.get(name) {
            return Err(TopologyError::Duplicate {
                name: name.to_owned(),
                taken_by: self.kind_of(taken),
            });
        }
        self.names.insert(name.to_owned(), named);
        Ok(())
    }

    /// That a node exists.
    fn known(&self, node: NodeId) -> Result<(), TopologyError> {
        let exists = match node {
            NodeId::Host(h) => h.index() < self.hosts.len(),
            NodeId::Switch(s) => s.index() < self.switches.len(),
        };
        exists.then_some(()).ok_or(TopologyError::NoNode(node))
    }

    /// That a host exists and has no link; `next` is what it is about to be connected with.
    fn unplugged(&self, host: HostId, next: NodeId) -> Result<(), TopologyError> {
        self.known(NodeId::Host(host))?;
        match &self.hosts[host.index()].cable {
            None => Ok(()),
            Some(cable) => Err(TopologyError::SecondLink {
                host: self.hosts[host.index()].name.clone(),
                first: self.node_name(cable.to).to_owned(),
                second: self.node_name(next).to_owned(),
            }),
        }
    }

    fn plug(&mut self, host: HostId, cable: Cable) -> Result<(), TopologyError> {
        self.unplugged(host, cable.to)?;
        self.hosts[host.index()].cable = Some(cable);
        Ok(())
    }

    fn room_for(&self, what: &'static str, have: usize, most: usize) -> Result<(), TopologyError> {
        if have < most {
            Ok(())
        } else {
            Err(TopologyError::TooLarge {
                what,
                most: most as u64,
            })
        }
    }
}
