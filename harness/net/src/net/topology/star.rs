//! Star: hosts on one switch.

use super::{Parameter, Topology, switch};
use crate::net::buffer::PoolSpec;
use crate::net::graph::{Attachment, Graph, TopologyError};
use crate::net::multipath::Multipath;

/// Hosts on one switch, `s0`, each by a link of its own in each direction. Host h's NIC is port
/// h, the switch port that leads to it is port N + h.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Star {
    /// How each host hangs on the switch.
    pub hosts: Vec<Attachment>,
    /// Buffer pools of the switch.
    pub pools: Vec<PoolSpec>,
}

impl Star {
    /// The same attachment for each of `hosts` hosts, no pools.
    #[inline]
    pub fn uniform(hosts: usize, attachment: &Attachment) -> Self {
        Self {
            hosts: vec![attachment.clone(); hosts],
            pools: Vec::new(),
        }
    }

    /// The graph.
    ///
    /// # Errors
    /// If a pool's alpha has a zero denominator, or there are too many hosts.
    #[inline]
    pub fn graph(&self) -> Result<Graph, TopologyError> {
        let mut graph = Graph::sized(self.hosts.len() as u64, 1, 0)?;
        let s0 = graph.switch(switch(
            "s0".to_owned(),
            "switch",
            &self.pools,
            Multipath::default(),
        ))?;
        for (n, attachment) in self.hosts.iter().enumerate() {
            let host = graph.host(format!("h{n}"))?;
            graph.attach(host, s0, attachment)?;
        }
        Ok(graph)
    }
}

/// The star under its name.
#[inline]
pub(super) fn topology() -> Topology {
    Topology::new(
        "star",
        "hosts on one switch",
        [Parameter {
            name: "hosts",
            about: "hosts on the switch",
            default: 2,
            range: 1..=100_000,
        }],
        |sizes, defaults| {
            Star {
                hosts: vec![defaults.host.clone(); sizes.get("hosts") as usize],
                pools: defaults.pools.clone(),
            }
            .graph()
        },
    )
}
