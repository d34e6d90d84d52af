//! From names to nodes and ports, and back.

use super::{Graph, NameKind, Named, NodeId, Output, TopologyError};
use crate::near_match::nearest;
use crate::net::packet::{HostId, PortId};

/// The longest name.
const MAX_NAME: usize = 64;

/// That `name` can be told from ports, ranges and patterns.
pub(super) fn check(name: &str) -> Result<(), TopologyError> {
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let each = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if starts && name.len() <= MAX_NAME && name.chars().all(each) && !name.contains("..") {
        Ok(())
    } else {
        Err(TopologyError::Name {
            name: name.to_owned(),
        })
    }
}

/// `2/3` as two numbers, of which the first is from 1 to the second.
fn part_of(text: &str) -> Option<(usize, usize)> {
    let (nth, step) = text.split_once('/')?;
    let (nth, step) = (nth.trim().parse().ok()?, step.trim().parse().ok()?);
    (1..=step).contains(&nth).then_some((nth, step))
}

impl Graph {
    /// The name of a node.
    ///
    /// # Panics
    /// If there is no such node; so do the other questions about a node.
    pub fn node_name(&self, node: NodeId) -> &str {
        match node {
            NodeId::Host(h) => &self.hosts[h.index()].name,
            NodeId::Switch(s) => &self.switches[s.index()].name,
        }
    }

    /// The tier of a node.
    pub fn tier(&self, node: NodeId) -> &str {
        match node {
            NodeId::Host(_) => super::HOST_TIER,
            NodeId::Switch(s) => &self.switches[s.index()].tier,
        }
    }

    /// The tiers, that of the hosts first, in the order in which they appeared.
    pub fn tiers(&self) -> impl ExactSizeIterator<Item = &str> {
        self.tiers.iter().map(String::as_str)
    }

    /// The groups with their nodes.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&str, &[NodeId])> {
        self.groups.iter().map(|(name, n)| (&**name, &**n))
    }

    /// All nodes: hosts, then switches.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        let hosts = (0..self.host_count()).map(|h| NodeId::Host(HostId(h)));
        hosts.chain((0..self.switch_count()).map(|s| NodeId::Switch(super::SwitchId(s))))
    }

    /// The name of a port: `leaf1->h3`.
    ///
    /// # Panics
    /// If there is no such port, or it is the NIC of a host without a link.
    pub fn port_name(&self, port: PortId) -> String {
        let (from, to) = self.ends(port).expect("a port of this graph");
        let (from, to) = (self.node_name(from), self.node_name(to));
        let nth = match port.index().checked_sub(self.hosts.len()) {
            Some(nth) if self.has_twin(&self.outputs[nth]) => self.outputs[nth].nth,
            _ => return format!("{from}->{to}"),
        };
        format!("{from}->{to}#{nth}")
    }

    /// The port with a name.
    ///
    /// # Errors
    /// With the near match, if a node has no such name, no link leads there, or several do and
    /// the name does not say which.
    pub fn port(&self, name: &str) -> Result<PortId, TopologyError> {
        let Some((from, to)) = name.split_once("->") else {
            return Err(self.unknown_port(name));
        };
        let (to, nth) = match to.split_once('#') {
            None => (to, None),
            Some((to, nth)) => match nth.parse() {
                Ok(nth) => (to, Some(nth)),
                Err(_) => return Err(self.unknown_port(name)),
            },
        };
        let (from, to) = (self.node(from.trim())?, self.node(to.trim())?);
        let port = self.port_between(from, to, nth.unwrap_or(1));
        let port = port.ok_or_else(|| TopologyError::NoLink {
            from: self.node_name(from).to_owned(),
            to: match nth {
                None => self.node_name(to).to_owned(),
                Some(nth) => format!("{}#{nth}", self.node_name(to)),
            },
        })?;
        let twin = |output: &Output| nth.is_none() && self.has_twin(output);
        match port.index().checked_sub(self.hosts.len()) {
            Some(output) if twin(&self.outputs[output]) => Err(TopologyError::Unknown {
                kind: NameKind::Port,
                name: name.to_owned(),
                near: Some(self.port_name(port)),
            }),
            _ => Ok(port),
        }
    }

    /// The node with a name.
    ///
    /// # Errors
    /// With the near match, if no node has it.
    pub fn node(&self, name: &str) -> Result<NodeId, TopologyError> {
        match self.names.get(name) {
            Some(&Named::Node(node)) => Ok(node),
            _ => Err(self.unknown(NameKind::Node, name, |named| {
                matches!(named, Named::Node(_))
            })),
        }
    }

    /// The host with a name.
    ///
    /// # Errors
    /// With the near match, if no host has it.
    pub fn host_named(&self, name: &str) -> Result<HostId, TopologyError> {
        match self.names.get(name) {
            Some(&Named::Node(NodeId::Host(host))) => Ok(host),
            _ => Err(self.unknown(NameKind::Host, name, |named| {
                matches!(named, Named::Node(NodeId::Host(_)))
            })),
        }
    }

    /// The nodes that `pattern` stands for: a node, a group, a tier, a range of hosts (`h0..h7`,
    /// both included, by number), or `*` for all; `A:2/3`, of those that A stands for the second,
    /// the fifth and so on. In order, each once.
    ///
    /// # Errors
    /// With the near match, if nothing has that name.
    pub fn resolve(&self, pattern: &str) -> Result<Vec<NodeId>, TopologyError> {
        let pattern = pattern.trim();
        if let Some((of, part)) = pattern.rsplit_once(':') {
            let (nth, step) = part_of(part).ok_or_else(|| TopologyError::Part {
                part: pattern.to_owned(),
            })?;
            let all = self.resolve(of)?;
            return Ok(all.into_iter().skip(nth - 1).step_by(step).collect());
        }
        if pattern == "*" {
            return Ok(self.nodes().collect());
        }
        if let Some((first, last)) = pattern.split_once("..") {
            let (first, last) = (
                self.host_named(first.trim())?,
                self.host_named(last.trim())?,
            );
            if first > last {
                return Err(TopologyError::Range {
                    range: pattern.to_owned(),
                });
            }
            return Ok((first.0..=last.0)
                .map(|h| NodeId::Host(HostId(h)))
                .collect());
        }
        match self.names.get(pattern) {
            Some(&Named::Node(node)) => Ok(vec![node]),
            Some(&Named::Group(group)) => {
                let mut nodes = self.groups[group].1.clone();
                nodes.sort_unstable();
                nodes.dedup();
                Ok(nodes)
            }
            Some(&Named::Tier(tier)) => {
                let tier = &*self.tiers[tier];
                Ok(self.nodes().filter(|&n| self.tier(n) == tier).collect())
            }
            None => Err(self.unknown(NameKind::Node, pattern, |_| true)),
        }
    }

    /// The hosts among [`Self::resolve`].
    ///
    /// # Errors
    /// As there.
    pub fn resolve_hosts(&self, pattern: &str) -> Result<Vec<HostId>, TopologyError> {
        let nodes = self.resolve(pattern)?;
        let host = |node| match node {
            NodeId::Host(host) => Some(host),
            NodeId::Switch(_) => None,
        };
        Ok(nodes.into_iter().filter_map(host).collect())
    }

    /// The ports that `pattern` stands for, in order: `leaf1->spine0#2`, that one; `A->B`, all from
    /// nodes of A to nodes of B, where A and B are as in [`Self::resolve`]; `A<->B`, both ways;
    /// `A`, all of A's.
    ///
    /// # Errors
    /// If nothing has that name, or there is no such port.
    pub fn select(&self, pattern: &str) -> Result<Vec<PortId>, TopologyError> {
        if pattern.contains('#') {
            return self.port(pattern).map(|port| vec![port]);
        }
        let ((from, to), both) = if let Some(ends) = pattern.split_once("<->") {
            (ends, true)
        } else {
            (pattern.split_once("->").unwrap_or((pattern, "*")), false)
        };
        let here = self.marked(from).map_err(|e| match &e {
            // `s0-h0` may be a port rather than a node.
            TopologyError::Unknown {
                near: None, name, ..
            } if name == pattern => match self.unknown_port(pattern) {
                TopologyError::Unknown { near: None, .. } => e,
                port => port,
            },
            _ => e,
        })?;
        let there = self.marked(to)?;
        let is = |set: &[bool], node| set[self.index_of(node)];
        let selected: Vec<PortId> = self
            .ports()
            .filter(|&port| {
                self.ends(port).is_some_and(|(a, b)| {
                    is(&here, a) && is(&there, b) || both && is(&here, b) && is(&there, a)
                })
            })
            .collect();
        if selected.is_empty() {
            return Err(TopologyError::NoLink {
                from: from.trim().to_owned(),
                to: to.trim().to_owned(),
            });
        }
        Ok(selected)
    }

    /// Of each node by its place whether `pattern` stands for it.
    fn marked(&self, pattern: &str) -> Result<Vec<bool>, TopologyError> {
        let mut marked = vec![false; self.hosts.len() + self.switches.len()];
        for node in self.resolve(pattern)? {
            marked[self.index_of(node)] = true;
        }
        Ok(marked)
    }

    /// Where a node stands among all: hosts, then switches.
    pub(super) fn index_of(&self, node: NodeId) -> usize {
        match node {
            NodeId::Host(h) => h.index(),
            NodeId::Switch(s) => self.hosts.len() + s.index(),
        }
    }

    /// Whether other links lead where this one does.
    fn has_twin(&self, output: &Output) -> bool {
        match output.to {
            NodeId::Switch(to) => self.trunks.contains_key(&(output.from, to, 2)),
            NodeId::Host(_) => false,
        }
    }

    fn port_between(&self, from: NodeId, to: NodeId, nth: u32) -> Option<PortId> {
        match (from, to) {
            (NodeId::Host(host), to) => {
                let cable = self.hosts[host.index()].cable.as_ref()?;
                (cable.to == to && nth == 1).then_some(PortId(host.0))
            }
            (NodeId::Switch(_), NodeId::Host(host)) => {
                let cable = self.hosts[host.index()].cable.as_ref()?;
                (cable.to == from && nth == 1).then(|| self.port_of_output(cable.back))
            }
            (NodeId::Switch(a), NodeId::Switch(b)) => {
                let output = self.trunks.get(&(a, b, nth))?;
                Some(self.port_of_output(*output))
            }
        }
    }

    pub(super) fn kind_of(&self, named: Named) -> NameKind {
        match named {
            Named::Node(NodeId::Host(_)) => NameKind::Host,
            Named::Node(NodeId::Switch(_)) => NameKind::Switch,
            Named::Group(_) => NameKind::Group,
            Named::Tier(_) => NameKind::Tier,
        }
    }

    fn unknown(&self, kind: NameKind, name: &str, fits: impl Fn(&Named) -> bool) -> TopologyError {
        let names = self.names.iter().filter(|(_, named)| fits(named));
        TopologyError::Unknown {
            kind,
            name: name.to_owned(),
            near: nearest(name, names.map(|(name, _)| &**name)).map(str::to_owned),
        }
    }

    fn unknown_port(&self, name: &str) -> TopologyError {
        let linked = self.ports().filter(|&port| self.ends(port).is_some());
        let names: Vec<String> = linked.map(|port| self.port_name(port)).collect();
        TopologyError::Unknown {
            kind: NameKind::Port,
            name: name.to_owned(),
            near: nearest(name, names.iter().map(|n| &**n)).map(str::to_owned),
        }
    }
}
