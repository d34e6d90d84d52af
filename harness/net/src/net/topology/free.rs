//! Free graph: nodes and links by name.

use crate::net::graph::{Attachment, Egress, Graph, HostEgress, NodeId, SwitchSpec, TopologyError};
use crate::net::link::LinkSpec;
use crate::net::nic::NicSpec;
use crate::net::port::PortSpec;

/// Hosts, switches and links, all by name: what no other shape is.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FreeGraph {
    /// The hosts, in the order of their numbers.
    pub hosts: Vec<String>,
    /// The switches.
    pub switches: Vec<SwitchSpec>,
    /// The links, in the order of their ports' numbers.
    pub links: Vec<FreeLink>,
    /// Groups with the names of their nodes, each as [`Graph::resolve`] takes them.
    pub groups: Vec<(String, Vec<String>)>,
}

/// A link between two nodes: host and switch, two switches, or two hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeLink {
    /// The names of the nodes.
    pub ends: [String; 2],
    /// What each end sends with.
    pub ways: [Way; 2],
}

/// The sending end of a link. Of `nic` and `port` the one counts that the node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The NIC, if a host sends.
    pub nic: NicSpec,
    /// The queue, if a switch sends.
    pub port: PortSpec,
    /// The wire.
    pub link: LinkSpec,
}

impl Way {
    fn egress(&self) -> Egress {
        Egress {
            port: self.port.clone(),
            link: self.link.clone(),
        }
    }

    fn host_egress(&self) -> HostEgress {
        HostEgress {
            nic: self.nic.clone(),
            link: self.link.clone(),
        }
    }

    /// How a host that sends with `self` hangs on a switch that sends with `back`.
    fn attachment(&self, back: &Self) -> Attachment {
        Attachment {
            nic: self.nic.clone(),
            up: self.link.clone(),
            port: back.port.clone(),
            down: back.link.clone(),
        }
    }
}

impl FreeLink {
    /// A link that is the same from either end.
    pub fn new(a: impl Into<String>, b: impl Into<String>, way: &Way) -> Self {
        Self {
            ends: [a.into(), b.into()],
            ways: [way.clone(), way.clone()],
        }
    }
}

impl FreeGraph {
    /// The graph.
    ///
    /// # Errors
    /// If a name is taken, unknown or none, a host has two links, or a link leads from a node to
    /// itself.
    #[inline]
    pub fn graph(&self) -> Result<Graph, TopologyError> {
        let [hosts, switches, links] =
            [self.hosts.len(), self.switches.len(), self.links.len()].map(|n| n as u64);
        let mut graph = Graph::sized(hosts, switches, links.saturating_sub(hosts))?;
        for name in &self.hosts {
            graph.host(name)?;
        }
        for spec in &self.switches {
            graph.switch(spec.clone())?;
        }
        for FreeLink {
            ends: [a, b],
            ways: [there, back],
        } in &self.links
        {
            match (graph.node(a)?, graph.node(b)?) {
                (NodeId::Host(a), NodeId::Switch(b)) => {
                    graph.attach(a, b, &there.attachment(back))?;
                }
                (NodeId::Switch(a), NodeId::Host(b)) => {
                    graph.attach(b, a, &back.attachment(there))?;
                }
                (NodeId::Switch(a), NodeId::Switch(b)) => {
                    graph.trunk(a, b, &there.egress(), &back.egress())?;
                }
                (NodeId::Host(a), NodeId::Host(b)) => {
                    graph.cable(a, b, &there.host_egress(), &back.host_egress())?;
                }
            }
        }
        for (name, members) in &self.groups {
            let mut nodes = Vec::new();
            for member in members {
                nodes.extend(graph.resolve(member)?);
            }
            graph.group(name, nodes)?;
        }
        Ok(graph)
    }
}
