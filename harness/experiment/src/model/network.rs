//! `network`: topology, links, queues.

mod graph;

use super::link::Link;
use super::pause::Pause;
use super::queue::Queue;
use super::settings::Settings;
use crate::knob;
use crate::knob::{Choice, Kind, Knob, KnobError, Knobs, Section};
use crate::net::multipath::Salt;
use crate::scenario::spec::{SharedBuffer, Ties};
use crate::traffic::Family;
use narrows::{ByteCount, Duration};

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
        "Of the shared buffer, what each port of a switch has to itself; only what it holds beyond that comes out of the pool that is left. Left out: headroom, and cells (a packet takes its bytes)." },
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
}
