//! Where a probe is placed.

use super::instrument::Instrument;
use crate::host::{address_of, ipv6_address_of};
use crate::invalid::Invalid;
use crate::net::graph::{Graph, NodeId};
use crate::net::packet::{HostId, PortId};
use std::collections::HashMap;
use std::net::IpAddr;

/// Where a probe is placed.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The network.
    pub graph: &'a Graph,
    /// The traffics, by name, in their order.
    pub traffic: &'a [String],
    /// The run's seed.
    pub seed: u64,
    /// Which probe of the experiment it is, from 0.
    pub number: u64,
}

impl Site<'_> {
    /// The ports that `key` names by a pattern.
    ///
    /// # Errors
    /// If it names none.
    pub fn ports(&self, key: &str, pattern: &str) -> Result<Vec<PortId>, Invalid> {
        self.graph
            .select(pattern)
            .map_err(|e| Invalid::new(key, e.to_string()))
    }

    /// An instrument for each of them, made of the port and its name.
    ///
    /// # Errors
    /// If the pattern names no port.
    pub fn each_port<I: Instrument + 'static>(
        &self,
        key: &str,
        pattern: &str,
        new: impl Fn(PortId, String) -> I,
    ) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        let ports = self.ports(key, pattern)?.into_iter();
        let new = |port| -> Box<dyn Instrument> { Box::new(new(port, self.graph.port_name(port))) };
        Ok(ports.map(new).collect())
    }

    /// The hosts that `key` names by a pattern.
    ///
    /// # Errors
    /// If it names none.
    pub fn hosts(&self, key: &str, pattern: &str) -> Result<Vec<HostId>, Invalid> {
        let found = self.graph.resolve_hosts(pattern);
        found.map_err(|e| Invalid::new(key, e.to_string()))
    }

    /// The name of a host.
    pub fn host_name(&self, host: HostId) -> String {
        self.graph.node_name(NodeId::Host(host)).to_owned()
    }

    /// The names of hosts, by each of their addresses.
    pub(super) fn names_by_address(
        &self,
        hosts: impl IntoIterator<Item = HostId>,
    ) -> HashMap<IpAddr, String> {
        let each = hosts.into_iter().flat_map(|host| {
            let name = self.host_name(host);
            [address_of(host), ipv6_address_of(host)].map(|address| (address, name.clone()))
        });
        each.collect()
    }
}

/// Most connections that a probe watches.
const MOST_WATCHED: usize = 10_000;

/// Whether a probe, on the hosts that its key `on` names, may watch so many connections.
pub(super) fn check_watched(connections: usize) -> Result<(), Invalid> {
    if connections <= MOST_WATCHED {
        return Ok(());
    }
    let why = format!("more than {MOST_WATCHED} connections: name fewer hosts");
    Err(Invalid::new("on", why))
}
