//! `network`: topology, links, queues.

use super::Invalid;
use super::link::{IMPAIRMENTS, Link};
use super::pause::{Flow, Pause};
use super::queue::Queue;
use super::settings::Settings;
use crate::knob;
use crate::knob::{Choice, Kind, Knob, KnobError, Knobs, Section};

use crate::net::buffer::PoolSpec;
use crate::net::graph::{
    Attachment, Egress, Graph, NodeId, Override, SwitchSpec, TieOrder, TopologyError,
};
use crate::net::multipath::{FLOWLET_ENTRIES, Multipath, PathChoice, Salt};
use crate::net::nic::NicSpec;
use crate::net::packet::PortId;
use crate::net::port::{PoolId, PortSpec};
use crate::net::topology::{Defaults, FreeGraph, FreeLink, Topology, Way};
use crate::registry::Registry;
use crate::scenario::network as words;
use crate::scenario::spec::{SharedBuffer, Ties};
use crate::sim::time::SimTime;
use crate::traffic::Family;
use narrows::{ByteCount, Duration};
use std::collections::BTreeMap;

/// The network of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// What is common to all of it.
    pub common: Common,
    /// The shape's sizes that were given.
    pub sizes: Vec<(String, u32)>,
    /// The link of each host, either way, and of each trunk where `trunk` says nothing else.
    pub link: Link,
    /// The queue of each switch port, likewise.
    pub queue: Queue,
    /// Whether and how switches pause those who send to them.
    pub pause: Pause,
    /// What is different at the links between switches.
    pub trunk: Settings,
    /// What is different at some ports, by their pattern; later ones come after earlier ones.
    pub ports: Vec<(String, Settings)>,
}

/// What is common to all of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    /// The shape, by name.
    pub topology: String,
    /// The largest IP packet.
    pub mtu: u32,
    /// IPv4 or IPv6.
    pub ip: Family,
    /// Memory that all ports of a switch share.
    pub shared_buffer: Option<SharedBuffer>,
    /// Of that, what each port has to itself.
    pub port_reserve: ByteCount,
    /// For what a switch chooses among equal paths.
    pub multipath: Per,
    /// A flow that is silent for longer begins another flowlet.
    pub flowlet_gap: Duration,
    /// What goes into a switch's hash.
    pub salt: Salt,
    /// How long until all switches know that a link between switches is a route no more, or again.
    pub convergence: Duration,
    /// Which of several packets that reach a switch at one instant comes first.
    pub ties: Ties,
    /// Of a graph: its hosts.
    pub host_names: Vec<String>,
    /// Of a graph: its switches.
    pub switches: Vec<String>,
    /// Of a graph: its links.
    pub links: Vec<String>,
}

/// For what a path is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Per {
    /// Once for each flow.
    #[default]
    Flow,
    /// For each burst of a flow.
    Flowlet,
    /// For each packet.
    Packet,
}

impl Choice for Per {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Flow, "flow"),
        (Self::Flowlet, "flowlet"),
        (Self::Packet, "packet"),
    ];
}

impl Choice for Salt {
    const ALL: &'static [(Self, &'static str)] =
        &[(Self::PerSwitch, "per-switch"), (Self::Common, "common")];
}

impl Choice for Family {
    const ALL: &'static [(Self, &'static str)] = &[(Self::Ipv4, "v4"), (Self::Ipv6, "v6")];
}

/// The shape whose nodes and links are listed by name.
pub const GRAPH: &str = "graph";

impl Default for Network {
    /// A star of links of 1 Gb/s and 25 us with ports of 64 KiB.
    fn default() -> Self {
        Self {
            common: Common {
                topology: "star".to_owned(),
                mtu: 1_500,
                ip: Family::Ipv4,
                shared_buffer: None,
                port_reserve: ByteCount::ZERO,
                multipath: Per::Flow,
                flowlet_gap: Duration::from_micros(500),
                salt: Salt::PerSwitch,
                convergence: Duration::ZERO,
                ties: Ties::Shuffled,
                host_names: Vec::new(),
                switches: Vec::new(),
                links: Vec::new(),
            },
            sizes: Vec::new(),
            link: Link::default(),
            queue: Queue::default(),
            pause: Pause::default(),
            trunk: Settings::default(),
            ports: Vec::new(),
        }
    }
}

impl Knobs for Common {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { topology: "topology", "topology", Kind::Name("topology"),
        "The shape of the network; graph is one whose nodes and links are listed." },
        knob! { mtu: "mtu", "MTU", Kind::Whole { least: 104, most: 65_535 }, "Largest IP packet." },
        knob! { ip: "ip", "IP version", Kind::Choice(&["v4", "v6"]), "Which IP the hosts use." },
        knob! { shared_buffer: "shared_buffer", "shared buffer", Kind::Or("off", &Kind::Text("4MB or 4MB:1/4")),
        "Memory that all ports of a switch share, each up to alpha times what is free, beside their own limits.", "Choudhury and Hahne 1998" },
        knob! { port_reserve: "port_reserve", "port reserve", Kind::Size { least: 0, most: 1 << 40 },
        "Of the shared buffer, what each port of a switch has to itself; only what it holds beyond that comes out of the pool that is left." },
        knob! { multipath: "multipath", "path choice", Kind::Choice(&["flow", "flowlet", "packet"]),
        "For what a switch chooses among equal paths.", "RFC 2992, CONGA (SIGCOMM 2014)" },
        knob! { flowlet_gap: "flowlet_gap", "flowlet gap", Kind::SPAN,
        "Of flowlet: a flow that is silent for longer begins another flowlet.", "CONGA (SIGCOMM 2014) section 3.4" },
        knob! { salt: "salt", "hash salt", Kind::Choice(&["per-switch", "common"]),
        "What goes into a switch's hash beside the flow: a number of its own, or one that all share, which polarises." },
        knob! { convergence: "convergence", "route convergence", Kind::TIME,
        "How long until all switches know that a link between switches went down, was withdrawn, or came back; its own switch knows at once." },
        knob! { ties: "ties", "ties", Kind::Choice(&["shuffled", "waited-last"]),
        "Which of several packets that reach a switch at one instant comes first: by an order drawn once, or those that waited in their NIC last (ns-2)." },
        knob! { host_names: "host_names", "hosts", Kind::List(&Kind::Text("a,b")), "Of graph: its hosts." },
        knob! { switches: "switches", "switches", Kind::List(&Kind::Text("s1,s2")), "Of graph: its switches." },
        knob! { links: "cables", "cables", Kind::List(&Kind::Text("a - s1")), "Of graph: its links, each as A - B." },
    ];
}

/// The sections of a port: those that `trunk` and `port` can change.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its wire.
    pub link: Link,
    /// Its queue.
    pub queue: Queue,
}

impl Port {
    /// The section that the first word of a key names, with the rest.
    pub(super) fn section<'k>(
        &mut self,
        key: &'k str,
    ) -> Result<(&mut dyn Section, &'k str), KnobError> {
        match key.split_once('.') {
            Some(("link", rest)) => Ok((&mut self.link, rest)),
            Some(("queue", rest)) => Ok((&mut self.queue, rest)),
            _ => {
                let first = key.split('.').next().unwrap_or_default();
                Err(KnobError::unknown(first, ["link", "queue"].into_iter()))
            }
        }
    }

    /// Whether the values go together.
    ///
    /// # Errors
    /// The key that does not, and why.
    pub(crate) fn check(&self) -> Result<(), (String, String)> {
        let at = |section: &str, (key, why): (&str, String)| (format!("{section}.{key}"), why);
        self.queue.check().map_err(|e| at("queue", e))?;
        self.link.check().map_err(|e| at("link", e))
    }

    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), KnobError> {
        let (section, key) = self.section(key)?;
        section.set(key, value)
    }

    /// The same with what `settings` say.
    pub(crate) fn with(mut self, settings: &Settings) -> Self {
        for (key, value) in settings.iter() {
            // Each was tried when it was set.
            let _ = self.set(key, value);
        }
        self
    }
}

impl Network {
    /// The port that neither trunk nor pattern changes.
    pub(super) fn plain(&self) -> Port {
        Port {
            link: self.link,
            queue: self.queue.clone(),
        }
    }

    /// The port that this pattern names, as it stands.
    pub fn port(&self, pattern: &str) -> Port {
        let found = self.ports.iter().find(|(known, _)| known == pattern);
        let plain = self.plain();
        found.map_or(plain.clone(), |(_, settings)| plain.with(settings))
    }

    /// The rate of a host's link where nothing else is said.
    pub fn link_rate(&self) -> narrows::Rate {
        self.link.rate
    }

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
        let mut changed: BTreeMap<PortId, Port> = BTreeMap::new();
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
