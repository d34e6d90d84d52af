//! The graph that a network's words describe.

use super::{GRAPH, Network, Per, Port};
use crate::invalid::Invalid;
use crate::knob::KnobError;
use crate::model::link::IMPAIRMENTS;
use crate::model::pause::Flow;
use crate::model::settings::Settings;
use crate::net::buffer::PoolSpec;
use crate::net::graph::{
    Attachment, Egress, Graph, NodeId, Override, SwitchSpec, TieOrder, TopologyError,
};
use crate::net::multipath::{FLOWLET_ENTRIES, Multipath, PathChoice};
use crate::net::nic::NicSpec;
use crate::net::packet::PortId;
use crate::net::port::{PoolId, PortSpec};
use crate::net::topology::{Defaults, FreeGraph, FreeLink, Topology, Way};
use crate::registry::Registry;
use crate::scenario::network as words;
use crate::scenario::spec::Ties;
use crate::sim::time::SimTime;
use narrows::ByteCount;
use narrows::congestion::order::OrderedMap;

impl Network {
    /// The order of simultaneous events.
    pub fn tie_order(&self) -> TieOrder {
        match self.common.ties {
            Ties::Shuffled => TieOrder::Shuffled,
            Ties::WaitedLast => TieOrder::WaitedLast,
        }
    }

    /// The graph, with `host` on each host's side of its link.
    ///
    /// # Errors
    /// Which key is impossible, and why.
    pub(crate) fn graph(
        &self,
        registry: &Registry,
        nic: NicSpec,
        hosts: Option<u32>,
    ) -> Result<Graph, Invalid> {
        let plain = self.plain();
        let trunk = plain.clone().with(&self.trunk);
        let checked = |port: &Port, at: &str| {
            port.check()
                .map_err(|(key, why)| Invalid::new(format!("{at}.{key}"), why))
        };
        checked(&plain, "network")?;
        checked(&trunk, "network.trunk")?;
        let pool = self.common.shared_buffer.map(|_| PoolId(0));
        let pools: Vec<_> = self
            .common
            .shared_buffer
            .map(words::pool)
            .map(|pool| PoolSpec {
                reserve: self.common.port_reserve,
                ..pool
            })
            .into_iter()
            .collect();
        if self.common.port_reserve != ByteCount::ZERO && pool.is_none() {
            let why = "is a part of the shared buffer: set network.shared_buffer, too";
            return Err(Invalid::new("network.port_reserve", why));
        }
        if self.pause.mode != Flow::Off && pool.is_some() {
            let why = "counts memory where packets come in: leave network.shared_buffer off";
            return Err(Invalid::new("network.pause.mode", why));
        }
        let queue = |port: &Port, at: &str| {
            let queue = &port.queue;
            let spec = queue.spec(&port.link, self.common.mtu, pool, &registry.disciplines);
            spec.map_err(|(key, why)| Invalid::new(format!("{at}.queue.{key}"), why))
        };
        let defaults = Defaults {
            host: Attachment {
                nic,
                up: plain.link.spec(),
                port: queue(&plain, "network")?,
                down: plain.link.spec(),
            },
            trunk: Egress {
                port: queue(&trunk, "network.trunk")?,
                link: trunk.link.spec(),
            },
            pools,
            multipath: self.multipath(),
        };
        let invalid = |key: &str| {
            let key = key.to_owned();
            move |e: TopologyError| Invalid::new(key, e.to_string())
        };
        let mut graph = if self.common.topology == GRAPH {
            self.listed(&defaults)?
        } else {
            let shape = registry
                .topologies
                .get(&self.common.topology)
                .map_err(invalid("network.topology"))?;
            let mut sizes: Vec<(&str, u32)> =
                self.sizes.iter().map(|(k, v)| (k.as_str(), *v)).collect();
            if let Some(hosts) = hosts {
                sizes.retain(|(key, _)| *key != "hosts");
                sizes.push(("hosts", hosts));
            }
            self.check_sizes(shape)?;
            shape
                .graph(&sizes, &defaults)
                .map_err(|e| Invalid::new("network.topology", e.to_string()))?
        };
        if let Some((key, _)) = self.trunk.iter().next() {
            let ports = (0..graph.port_count()).map(PortId);
            let between = |port| {
                let ends = graph.ends(port);
                matches!(ends, Some((NodeId::Switch(_), NodeId::Switch(_))))
            };
            if !ports.into_iter().any(between) {
                let why = format!(
                    "a {} of these sizes has no links between switches, which trunk is about: set \
                     network.{key}, or network.port.\"PORTS\".{key}",
                    self.common.topology
                );
                return Err(Invalid::new(format!("network.trunk.{key}"), why));
            }
        }
        // By port, what it is by now: a later pattern changes what an earlier one left.
        graph.set_pause(self.pause.spec(self.common.mtu));
        let mut changed: OrderedMap<PortId, Port> = OrderedMap::new();
        for (pattern, settings) in &self.ports {
            let at = format!("network.port.\"{pattern}\"");
            for port in graph.select(pattern).map_err(invalid(&at))? {
                let (from, to) = graph.ends(port).unzip();
                let nic = matches!(from, Some(NodeId::Host(_)));
                if nic && settings.has_any("queue.") {
                    let why = "a NIC's queue is host.nic.tx_queue, or group.NAME.nic.tx_queue";
                    return Err(Invalid::new(format!("{at}.queue"), why));
                }
                let between = !nic && matches!(to, Some(NodeId::Switch(_)));
                let base = if between { &trunk } else { &plain };
                let is = changed.get(&port).unwrap_or(base).clone().with(settings);
                checked(&is, &at)?;
                let mut change = Self::change(&is, queue(&is, &at)?, settings);
                if nic {
                    change.discipline = None;
                }
                graph.apply_to(&[port], &change).map_err(invalid(&at))?;
                changed.insert(port, is);
            }
        }
        Ok(graph)
    }

    /// A port as it is before anything changes.
    pub(crate) fn port_at(&self, graph: &Graph, port: PortId) -> Result<Port, Invalid> {
        let trunk = matches!(
            graph.ends(port),
            Some((NodeId::Switch(_), NodeId::Switch(_)))
        );
        let mut is = self.plain();
        if trunk {
            is = is.with(&self.trunk);
        }
        for (pattern, settings) in &self.ports {
            let named = graph
                .select(pattern)
                .map_err(|e| Invalid::new(format!("network.port.\"{pattern}\""), e.to_string()))?;
            if named.contains(&port) {
                is = is.with(settings);
            }
        }
        Ok(is)
    }

    /// What `settings` change of a port that then is `port`, with `spec` for its queue.
    fn change(port: &Port, spec: PortSpec, settings: &Settings) -> Override {
        let set = |key: &str| settings.has(key);
        let link = &port.link;
        let wire = link.spec();
        let queue = settings.has_any("queue.");
        Override {
            on: String::new(),
            rate: set("link.rate").then_some(link.rate),
            delay: set("link.delay").then(|| SimTime::from_duration(link.delay)),
            framing: set("link.framing").then_some(wire.framing),
            impair: IMPAIRMENTS
                .iter()
                .any(|key| set(&format!("link.{key}")))
                .then(|| link.impairments()),
            capacity: queue.then_some(spec.capacity),
            in_service: queue.then_some(spec.in_service),
            overhead: None,
            // Its times may be those of packets on the wire.
            discipline: (queue || set("link.rate")).then_some(spec.discipline),
            pool: None,
        }
    }

    fn multipath(&self) -> Multipath {
        Multipath {
            per: match self.common.multipath {
                Per::Flow => PathChoice::Flow,
                Per::Flowlet => PathChoice::Flowlet {
                    gap: SimTime::from_duration(self.common.flowlet_gap),
                    entries: FLOWLET_ENTRIES,
                },
                Per::Packet => PathChoice::Packet,
            },
            salt: self.common.salt,
        }
    }

    fn check_sizes(&self, shape: &Topology) -> Result<(), Invalid> {
        for (key, _) in &self.sizes {
            if !shape.parameters().iter().any(|p| p.name == key) {
                let known = shape.parameters().iter().map(|p| p.name);
                let why = KnobError::unknown(key, known).to_string();
                let why = format!("topology {}: {why}", shape.name());
                return Err(Invalid::new(format!("network.{key}"), why));
            }
        }
        Ok(())
    }

    /// The graph whose nodes and links are listed.
    fn listed(&self, defaults: &Defaults) -> Result<Graph, Invalid> {
        if let Some((key, _)) = self.sizes.first() {
            let why = "a graph has no sizes: list host_names, switches and cables";
            return Err(Invalid::new(format!("network.{key}"), why));
        }
        let host = &defaults.host;
        let (to_host, to_switch) = (&host.port, &defaults.trunk);
        let is_host = |name: &str| self.common.host_names.iter().any(|h| h == name);
        let mut links = Vec::new();
        for link in &self.common.links {
            let Some((a, b)) = link.split_once(" - ") else {
                let why = format!("'{link}' is not a cable: write A - B");
                return Err(Invalid::new("network.cables", why));
            };
            let (a, b) = (a.trim(), b.trim());
            let trunk = !is_host(a) && !is_host(b);
            let way = Way {
                nic: host.nic.clone(),
                port: if trunk { &to_switch.port } else { to_host }.clone(),
                link: if trunk { &to_switch.link } else { &host.up }.clone(),
            };
            links.push(FreeLink::new(a, b, &way));
        }
        let switch = |name: &String| SwitchSpec {
            pools: defaults.pools.clone(),
            multipath: defaults.multipath,
            ..SwitchSpec::new(name.clone(), "switch")
        };
        FreeGraph {
            hosts: self.common.host_names.clone(),
            switches: self.common.switches.iter().map(switch).collect(),
            links,
            groups: Vec::new(),
        }
        .graph()
        .map_err(|e| Invalid::new("network.cables", e.to_string()))
    }
}
