//! Fat-tree: three tiers of equal switches (Al-Fares, Loukissas and Vahdat, SIGCOMM 2008).

use super::{Parameter, Topology, switch};
use crate::net::buffer::PoolSpec;
use crate::net::graph::{Attachment, Egress, Graph, NodeId, SwitchId, TopologyError};
use crate::net::multipath::Multipath;

/// The fat-tree of switches with k ports (section 3.1 of the paper): k pods, each with k/2 edge
/// switches of k/2 hosts and k/2 aggregation switches, and (k/2)^2 core switches; k^3/4 hosts in
/// all, and (k/2)^2 shortest paths between hosts of two pods.
///
/// Edge and aggregation switches are numbered through (`edge3`, `agg3`), so that pod p has those
/// from p·k/2 on; it is the group `pod0`, `pod1`, ..., switches and hosts. Aggregation switch j of
/// each pod is linked with the cores from j·k/2 on. The tiers are `edge`, `aggregation` and
/// `core`.
///
/// Leaves out: the paper's two-level routing tables; equal paths are chosen as in any other graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTree {
    /// Ports of each switch: an even number from 2 to 128.
    pub k: u32,
    /// How each host hangs on its edge switch.
    pub host: Attachment,
    /// Each link between switches, either way.
    pub trunk: Egress,
    /// Buffer pools of each switch.
    pub pools: Vec<PoolSpec>,
    /// How the switches choose among equal paths.
    pub multipath: Multipath,
}

const NAME: &str = "fat-tree";
const MAX_K: u32 = 128;

impl FatTree {
    /// The graph.
    ///
    /// # Errors
    /// If k is odd or out of range, a pool's alpha has a zero denominator, or a flowlet table has
    /// no entries, or too many.
    #[inline]
    pub fn graph(&self) -> Result<Graph, TopologyError> {
        if !(2..=MAX_K).contains(&self.k) || !self.k.is_multiple_of(2) {
            return Err(TopologyError::Parameter {
                topology: NAME.to_owned(),
                name: "k".to_owned(),
                value: self.k,
                must: format!("an even number from 2 to {MAX_K}"),
            });
        }
        let half = self.k / 2;
        let k = u64::from(self.k);
        let mut graph = Graph::sized(k.pow(3) / 4, 5 * k.pow(2) / 4, k.pow(3) / 2)?;
        let mut tier = |tier: &str, name: &str, count| {
            (0..count)
                .map(|n| {
                    let name = format!("{name}{n}");
                    graph.switch(switch(name, tier, &self.pools, self.multipath))
                })
                .collect::<Result<Vec<SwitchId>, _>>()
        };
        let edges = tier("edge", "edge", self.k * half)?;
        let aggregations = tier("aggregation", "agg", self.k * half)?;
        let cores = tier("core", "core", half * half)?;
        let pods = || {
            let each = half as usize;
            edges.chunks(each).zip(aggregations.chunks(each))
        };
        for (n, (edges, aggregations)) in pods().enumerate() {
            let switches = edges.iter().chain(aggregations);
            let mut pod: Vec<NodeId> = switches.copied().map(NodeId::Switch).collect();
            for &edge in edges {
                for host in graph.hosts_by_number(half)? {
                    graph.attach(host, edge, &self.host)?;
                    pod.push(NodeId::Host(host));
                }
            }
            graph.group(format!("pod{n}"), pod)?;
        }
        for (edges, aggregations) in pods() {
            for &edge in edges {
                for &aggregation in aggregations {
                    graph.trunk(edge, aggregation, &self.trunk, &self.trunk)?;
                }
            }
        }
        for (_, aggregations) in pods() {
            for (&aggregation, cores) in aggregations.iter().zip(cores.chunks(half as usize)) {
                for &core in cores {
                    graph.trunk(aggregation, core, &self.trunk, &self.trunk)?;
                }
            }
        }
        Ok(graph)
    }
}

/// The fat-tree under its name.
#[inline]
pub(super) fn topology() -> Topology {
    Topology::new(
        NAME,
        "three tiers of switches with k ports: k pods, k^3/4 hosts (Al-Fares et al. 2008)",
        [Parameter {
            name: "k",
            about: "ports of each switch, an even number",
            default: 4,
            range: 2..=MAX_K,
        }],
        |sizes, defaults| {
            FatTree {
                k: sizes.get("k"),
                host: defaults.host.clone(),
                trunk: defaults.trunk.clone(),
                pools: defaults.pools.clone(),
                multipath: defaults.multipath,
            }
            .graph()
        },
    )
}
