//! Where a traffic puts its roles.

use super::error::TrafficError;
use super::role::Role;
use crate::net::graph::{Graph, NodeId, TopologyError};
use crate::net::packet::HostId;
use crate::sim::rng::{Component, Stream};

/// Where a traffic puts its roles.
#[derive(Debug)]
pub struct Placement<'a> {
    graph: &'a Graph,
    seed: u64,
    number: u16,
    /// What hosts were given, in that order.
    #[doc(hidden)]
    pub roles: Vec<(HostId, Box<dyn Role>)>,
    /// When its traffic is over.
    #[doc(hidden)]
    pub ends: Ends,
}

/// When a traffic is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Never.
    Never,
    /// After so many calls of [`Io::finish`](super::Io::finish).
    After(usize),
}

impl<'a> Placement<'a> {
    /// Traffic `number` of an experiment on `graph`, in a run with `seed`.
    pub fn new(graph: &'a Graph, number: u16, seed: u64) -> Self {
        Self {
            graph,
            seed,
            number,
            roles: Vec::new(),
            ends: Ends::After(0),
        }
    }

    /// The network.
    pub fn graph(&self) -> &'a Graph {
        self.graph
    }

    /// The hosts that knob `key` names by `pattern`; none twice, in the order of their numbers.
    ///
    /// # Errors
    /// If it names none.
    pub fn hosts(&self, key: &'static str, pattern: &str) -> Result<Vec<HostId>, TrafficError> {
        let named = self.graph.resolve_hosts(pattern);
        let hosts = named.map_err(|e: TopologyError| TrafficError::new(key, e.to_string()))?;
        if hosts.is_empty() {
            return Err(TrafficError::new(key, format!("'{pattern}' names no host")));
        }
        Ok(hosts)
    }

    /// The one host that knob `key` names.
    ///
    /// # Errors
    /// If it names none or several.
    pub fn host(&self, key: &'static str, pattern: &str) -> Result<HostId, TrafficError> {
        match self.hosts(key, pattern)?[..] {
            [host] => Ok(host),
            ref hosts => Err(TrafficError::new(
                key,
                format!("'{pattern}' names {} hosts; it has to be one", hosts.len()),
            )),
        }
    }

    /// The hosts that knob `key` names, none of which may be `but`; `*` is all others.
    ///
    /// # Errors
    /// If it names none, or `but`.
    pub fn others(
        &self,
        key: &'static str,
        pattern: &str,
        but: HostId,
    ) -> Result<Vec<HostId>, TrafficError> {
        let mut hosts = self.hosts(key, pattern)?;
        let name = self.graph.node_name(NodeId::Host(but));
        if pattern.trim() == "*" {
            hosts.retain(|host| *host != but);
        } else if hosts.contains(&but) {
            let why = format!("{name} is at the other end and cannot be among '{pattern}'");
            return Err(TrafficError::new(key, why));
        }
        if hosts.is_empty() {
            let why = format!("there is no host but {name}");
            return Err(TrafficError::new(key, why));
        }
        Ok(hosts)
    }

    /// A random stream of this traffic; `host` and `use_` keep several apart. The first traffic of
    /// an experiment has the streams that its hosts have by their numbers.
    pub fn stream(&self, component: Component, host: u64) -> Stream {
        Stream::new(self.seed, component, u64::from(self.number) << 32 | host)
    }

    /// Gives `host` a role. A host may have several.
    pub fn role(&mut self, host: HostId, role: impl Role + 'static) {
        self.roles.push((host, Box::new(role)));
    }

    /// The traffic is over after `more` further calls of [`Io::finish`](super::Io::finish).
    pub fn ends_after(&mut self, more: usize) {
        if let Ends::After(calls) = &mut self.ends {
            *calls = calls.saturating_add(more);
        }
    }

    /// The traffic is never over.
    pub fn never_ends(&mut self) {
        self.ends = Ends::Never;
    }
}
