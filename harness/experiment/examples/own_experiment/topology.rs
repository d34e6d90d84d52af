//! `rack-ring`: switches in a ring, a rack of hosts on each.

use narrows_experiment::net::graph::{Graph, NodeId, SwitchSpec, TopologyError};
use narrows_experiment::net::topology::{Defaults, Parameter, Sizes, Topology};

pub(crate) fn rack_ring() -> Topology {
    let parameter = |name, about, default, least| Parameter {
        name,
        about,
        default,
        range: least..=1_000,
    };
    Topology::new(
        "rack-ring",
        "racks whose switches are in a ring",
        [
            parameter("racks", "racks in the ring", 4, 3),
            parameter("hosts", "hosts in each rack", 2, 1),
        ],
        graph,
    )
}

/// Switches `rack0`, `rack1`, ..., each with a link to the next; hosts `h0`, `h1`, ... by rack.
fn graph(sizes: &Sizes, defaults: &Defaults) -> Result<Graph, TopologyError> {
    let mut graph = Graph::new();
    let mut switches = Vec::new();
    for n in 0..sizes.get("racks") {
        let switch = graph.switch(SwitchSpec {
            pools: defaults.pools.clone(),
            multipath: defaults.multipath,
            ..SwitchSpec::new(format!("rack{n}"), "rack")
        })?;
        let hosts = graph.hosts_by_number(sizes.get("hosts"))?;
        for host in &hosts {
            graph.attach(*host, switch, &defaults.host)?;
        }
        graph.group(format!("hosts{n}"), hosts.into_iter().map(NodeId::Host))?;
        switches.push(switch);
    }
    for (n, switch) in switches.iter().enumerate() {
        let next = switches[(n + 1) % switches.len()];
        graph.trunk(*switch, next, &defaults.trunk, &defaults.trunk)?;
    }
    Ok(graph)
}
