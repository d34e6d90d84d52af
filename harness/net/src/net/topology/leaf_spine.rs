//! Leaf-spine: racks whose switches all connect with a second tier.

use super::{Parameter, Topology, at_least, switch};
use crate::net::buffer::PoolSpec;
use crate::net::graph::{Attachment, Egress, Graph, NodeId, SwitchId, TopologyError};
use crate::net::multipath::Multipath;

/// Leaves `leaf0`, `leaf1`, ... with hosts, each linked with every one of the spines `spine0`,
/// `spine1`, ... (a folded Clos of two tiers). The hosts of a leaf follow each other and are the
/// group `rack0`, `rack1`, ...
///
/// The oversubscription of a leaf is the rate of its hosts over that of its links to the spines:
/// `hosts * host rate / (spines * links * trunk rate)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafSpine {
    /// Leaves. At least one.
    pub leaves: u32,
    /// Spines. At least one.
    pub spines: u32,
    /// Hosts on each leaf.
    pub hosts: u32,
    /// Links between each leaf and each spine. At least one.
    pub links: u32,
    /// How each host hangs on its leaf.
    pub host: Attachment,
    /// Each link between leaf and spine, either way.
    pub trunk: Egress,
    /// Buffer pools of each switch.
    pub pools: Vec<PoolSpec>,
    /// How the leaves choose among spines.
    pub multipath: Multipath,
}

const NAME: &str = "leaf-spine";

impl LeafSpine {
    /// The graph.
    ///
    /// # Errors
    /// If there is nothing of something, a pool's alpha has a zero denominator, a flowlet table
    /// has no entries or too many, or there are too many hosts or links.
    #[inline]
    pub fn graph(&self) -> Result<Graph, TopologyError> {
        at_least(NAME, "leaves", self.leaves, 1)?;
        at_least(NAME, "spines", self.spines, 1)?;
        at_least(NAME, "links", self.links, 1)?;
        let [leaves, spines, hosts, links] =
            [self.leaves, self.spines, self.hosts, self.links].map(u64::from);
        let trunks = (leaves * spines).saturating_mul(links);
        let mut graph = Graph::sized(leaves * hosts, leaves + spines, trunks)?;
        let mut tier = |tier: &str, count| {
            (0..count)
                .map(|n| {
                    let name = format!("{tier}{n}");
                    graph.switch(switch(name, tier, &self.pools, self.multipath))
                })
                .collect::<Result<Vec<SwitchId>, _>>()
        };
        let leaves = tier("leaf", self.leaves)?;
        let spines = tier("spine", self.spines)?;
        for (n, &leaf) in leaves.iter().enumerate() {
            let hosts = graph.hosts_by_number(self.hosts)?;
            for &host in &hosts {
                graph.attach(host, leaf, &self.host)?;
            }
            graph.group(format!("rack{n}"), hosts.into_iter().map(NodeId::Host))?;
        }
        for &leaf in &leaves {
            for &spine in &spines {
                for _ in 0..self.links {
                    graph.trunk(leaf, spine, &self.trunk, &self.trunk)?;
                }
            }
        }
        Ok(graph)
    }
}

/// The leaf-spine under its name.
#[inline]
pub(super) fn topology() -> Topology {
    let parameter = |name, about, default, most| Parameter {
        name,
        about,
        default,
        range: 1..=most,
    };
    Topology::new(
        NAME,
        "racks whose switches all connect with every switch of a second tier",
        [
            parameter("leaves", "leaf switches, one a rack", 4, 4_096),
            parameter("spines", "spine switches", 2, 1_024),
            parameter("hosts", "hosts on each leaf", 8, 1_024),
            parameter("links", "links between each leaf and each spine", 1, 64),
        ],
        |sizes, defaults| {
            LeafSpine {
                leaves: sizes.get("leaves"),
                spines: sizes.get("spines"),
                hosts: sizes.get("hosts"),
                links: sizes.get("links"),
                host: defaults.host.clone(),
                trunk: defaults.trunk.clone(),
                pools: defaults.pools.clone(),
                multipath: defaults.multipath,
            }
            .graph()
        },
    )
}
