//! Parking lot: a row of bottlenecks, flows over all of them and flows over each.

use super::{Parameter, Topology, at_least, switch};
use crate::net::buffer::PoolSpec;
use crate::net::graph::{Attachment, Egress, Graph, NodeId, SwitchId, TopologyError};
use crate::net::multipath::Multipath;

/// Switches `s0` to `sN` in a row, with a bottleneck from each to the next. Long flows go from
/// the hosts of the group `sources` on `s0` to those of `sinks` on `sN` and cross them all; cross
/// traffic goes from the hosts of `cross-sources0` on `s0` to those of `cross-sinks0` on `s1`,
/// and so on. (What a host sends is up to the traffic; the groups say what the hosts are for.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkingLot {
    /// The bottlenecks, `s0->s1` first, each with the way back. At least one.
    pub bottlenecks: Vec<(Egress, Egress)>,
    /// Hosts at each end of the row.
    pub long: u32,
    /// Hosts at each end of each bottleneck.
    pub cross: u32,
    /// How each host hangs on its switch.
    pub host: Attachment,
    /// Buffer pools of each switch.
    pub pools: Vec<PoolSpec>,
}

impl ParkingLot {
    /// The graph. Hosts come in the order sources, sinks, then sources and sinks of each
    /// bottleneck.
    ///
    /// # Errors
    /// If there is no bottleneck, a pool's alpha has a zero denominator, or there are too many
    /// hosts.
    #[inline]
    pub fn graph(&self) -> Result<Graph, TopologyError> {
        at_least(
            "parking-lot",
            "bottlenecks",
            self.bottlenecks.len() as u32,
            1,
        )?;
        let links = self.bottlenecks.len() as u64;
        let crossing = u64::from(self.cross).saturating_mul(links);
        let pairs = crossing.saturating_add(self.long.into());
        let mut graph = Graph::sized(pairs.saturating_mul(2), links + 1, links)?;
        let switches = (0..=self.bottlenecks.len())
            .map(|n| {
                let name = format!("s{n}");
                graph.switch(switch(name, "switch", &self.pools, Multipath::default()))
            })
            .collect::<Result<Vec<SwitchId>, _>>()?;
        let mut hosts = |group: String, count, at: SwitchId| {
            let hosts = graph.hosts_by_number(count)?;
            for &host in &hosts {
                graph.attach(host, at, &self.host)?;
            }
            graph.group(group, hosts.into_iter().map(NodeId::Host))
        };
        hosts("sources".to_owned(), self.long, switches[0])?;
        hosts(
            "sinks".to_owned(),
            self.long,
            switches[self.bottlenecks.len()],
        )?;
        for (n, ends) in switches.windows(2).enumerate() {
            hosts(format!("cross-sources{n}"), self.cross, ends[0])?;
            hosts(format!("cross-sinks{n}"), self.cross, ends[1])?;
        }
        for (ends, (there, back)) in switches.windows(2).zip(&self.bottlenecks) {
            graph.trunk(ends[0], ends[1], there, back)?;
        }
        Ok(graph)
    }
}

/// The parking lot under its name.
#[inline]
pub(super) fn topology() -> Topology {
    let parameter = |name, about, default, least| Parameter {
        name,
        about,
        default,
        range: least..=10_000,
    };
    Topology::new(
        "parking-lot",
        "a row of bottlenecks, with hosts at its ends and at those of each",
        [
            parameter("bottlenecks", "bottlenecks in a row", 3, 1),
            parameter("long", "hosts at each end of the row", 1, 1),
            parameter("cross", "hosts at each end of each bottleneck", 1, 0),
        ],
        |sizes, defaults| {
            let both = (defaults.trunk.clone(), defaults.trunk.clone());
            ParkingLot {
                bottlenecks: vec![both; sizes.get("bottlenecks") as usize],
                long: sizes.get("long"),
                cross: sizes.get("cross"),
                host: defaults.host.clone(),
                pools: defaults.pools.clone(),
            }
            .graph()
        },
    )
}
