//! Dumbbell: two switches with hosts and a bottleneck between them.

use super::{Parameter, Topology, switch};
use crate::net::buffer::PoolSpec;
use crate::net::graph::{Attachment, Egress, Graph, NodeId, SwitchId, TopologyError};
use crate::net::multipath::Multipath;
use crate::net::packet::HostId;

/// Two switches, `s0` and `s1`, with hosts on each and one link between them: the bottleneck
/// `s0->s1`, and `s1->s0` back. The hosts of `s0` come first (group `left`), then those of `s1`
/// (group `right`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dumbbell {
    /// How each host on `s0` hangs there; another delay for each gives flows of different round
    /// trips.
    pub left: Vec<Attachment>,
    /// How each host on `s1` hangs there.
    pub right: Vec<Attachment>,
    /// From `s0` to `s1`.
    pub there: Egress,
    /// From `s1` to `s0`.
    pub back: Egress,
    /// Buffer pools of each switch.
    pub pools: Vec<PoolSpec>,
}

impl Dumbbell {
    /// `pairs` hosts on each side, all attached alike; no pools.
    #[inline]
    pub fn uniform(pairs: usize, attachment: &Attachment, bottleneck: &Egress) -> Self {
        Self {
            left: vec![attachment.clone(); pairs],
            right: vec![attachment.clone(); pairs],
            there: bottleneck.clone(),
            back: bottleneck.clone(),
            pools: Vec::new(),
        }
    }

    /// The graph.
    ///
    /// # Errors
    /// If a pool's alpha has a zero denominator, or there are too many hosts.
    #[inline]
    pub fn graph(&self) -> Result<Graph, TopologyError> {
        let hosts = self.left.len() as u64 + self.right.len() as u64;
        let mut graph = Graph::sized(hosts, 2, 1)?;
        let mut side = |n, name, hosts: &[Attachment]| -> Result<SwitchId, TopologyError> {
            let spec = switch(format!("s{n}"), "switch", &self.pools, Multipath::default());
            let switch = graph.switch(spec)?;
            let first = graph.host_count();
            for attachment in hosts {
                let host = graph.host(format!("h{}", graph.host_count()))?;
                graph.attach(host, switch, attachment)?;
            }
            let hosts = (first..graph.host_count()).map(|h| NodeId::Host(HostId(h)));
            graph.group(name, hosts)?;
            Ok(switch)
        };
        let left = side(0, "left", &self.left)?;
        let right = side(1, "right", &self.right)?;
        graph.trunk(left, right, &self.there, &self.back)?;
        Ok(graph)
    }
}

/// The dumbbell under its name.
#[inline]
pub(super) fn topology() -> Topology {
    let hosts = |name, about| Parameter {
        name,
        about,
        default: 2,
        range: 1..=100_000,
    };
    Topology::new(
        "dumbbell",
        "two switches with hosts and one link between them",
        [
            hosts("left", "hosts on the first switch"),
            hosts("right", "hosts on the second switch"),
        ],
        |sizes, defaults| {
            let side = |name| vec![defaults.host.clone(); sizes.get(name) as usize];
            Dumbbell {
                left: side("left"),
                right: side("right"),
                there: defaults.trunk.clone(),
                back: defaults.trunk.clone(),
                pools: defaults.pools.clone(),
            }
            .graph()
        },
    )
}
