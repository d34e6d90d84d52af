//! An experiment as a value: network, hosts, traffic, probes, changes, runs, sweep.
//!
//! Everything in it has a key, [`Experiment::set`] sets it from text and [`Experiment::entries`]
//! lists what is set: files, `--set`, sweeps and the resolved experiment in a folder of results are
//! all made of these two.

pub mod change;
mod entries;
pub mod expect;
pub mod link;
pub mod network;
pub mod nic;
mod path;
pub mod pause;
pub mod queue;
pub mod run;
mod set;
pub mod settings;
mod tcp;

pub use change::Change;
pub use entries::{Entry, Value};
pub use expect::{Expect, Show};
pub use link::Link;
pub use network::Network;
pub use nic::{Cpu, Nic};
pub use path::{Path, quoted};
pub use pause::Pause;
pub use queue::Queue;
pub use run::{Clock, Device, Place, Run, Senders};
pub(crate) use set::set_tcp;
pub use settings::Settings;

use crate::probe::Probe;
use crate::registry::Registry;
use crate::scenario::spec::TcpSpec;
use crate::traffic::Traffic;
use narrows::Duration;
use std::fmt;

/// An experiment: what to run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// What it is, in a line.
    pub title: String,
    /// What it shows, for people.
    pub about: String,
    /// The network.
    pub network: Network,
    /// What every host is, unless a group says otherwise.
    pub host: Host,
    /// Hosts that have a name together.
    pub groups: Vec<Group>,
    /// What the hosts send each other.
    pub traffic: Vec<NamedTraffic>,
    /// What is looked at on the way.
    pub probes: Vec<NamedProbe>,
    /// What changes on the way.
    pub changes: Vec<Change>,
    /// How long, how often.
    pub run: Run,
    /// What is varied; the first varies slowest.
    pub sweep: Vec<Axis>,
    /// What is shown.
    pub show: Show,
    /// What should come out.
    pub expect: Vec<Expect>,
    /// Short names for keys, as options of the command.
    pub short: Settings,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its NIC.
    pub nic: Nic,
    /// What packets cost it.
    pub cpu: Cpu,
    /// Its TCP.
    pub tcp: TcpSpec,
}

/// Hosts that have a name together, and what is different there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The name; `h0..h7` and the like name hosts, too.
    pub name: String,
    /// Which hosts: a pattern, or how many.
    pub members: Members,
    /// What is different: keys of `nic`, `cpu` and `tcp`.
    pub settings: Settings,
}

/// Which hosts a group has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// Those that these patterns name.
    Named(Vec<String>),
    /// So many, after those of the groups before: the network has as many hosts as its groups.
    Count(u32),
}

/// A traffic with its name.
#[derive(Clone, Debug)]
pub struct NamedTraffic {
    /// Its name in keys and columns.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// When it begins.
    pub start: Duration,
    /// What is different about the TCP of its connections: keys of `tcp`.
    pub tcp: Settings,
    /// Its knobs.
    pub spec: Box<dyn Traffic>,
}

/// A probe with its name.
#[derive(Clone, Debug)]
pub struct NamedProbe {
    /// Its name in keys and files.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Its knobs.
    pub spec: Box<dyn Probe>,
}

/// A key that is varied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The key.
    pub key: String,
    /// Its values, in order.
    pub values: Vec<String>,
}

/// Why an experiment cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The key that cannot be that.
    pub key: String,
    /// Why.
    pub why: String,
}

impl Invalid {
    /// `key` cannot be that, because of `why`.
    pub fn new(key: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            why: why.into(),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.why)
    }
}

impl std::error::Error for Invalid {}

impl Default for Experiment {
    /// Two hosts on a switch, without traffic.
    fn default() -> Self {
        Self {
            title: String::new(),
            about: String::new(),
            network: Network::default(),
            host: Host {
                nic: Nic::default(),
                cpu: Cpu::default(),
                tcp: TcpSpec::default(),
            },
            groups: Vec::new(),
            traffic: Vec::new(),
            probes: Vec::new(),
            changes: Vec::new(),
            run: Run::default(),
            sweep: Vec::new(),
            show: Show::default(),
            expect: Vec::new(),
            short: Settings::default(),
        }
    }
}

/// The parts of an experiment, as the first words of keys.
pub(crate) const PARTS: [&str; 13] = [
    "title", "about", "network", "host", "group", "traffic", "probe", "change", "run", "sweep",
    "show", "expect", "short",
];

impl Experiment {
    /// The name for people of what a key sets: `congestion control`; of the number of hosts in a
    /// group, its name; the key where it has none.
    pub fn title_of(&self, registry: &Registry, key: &str) -> String {
        if let Some(about) = registry.about(self, key) {
            return about.title.to_owned();
        }
        let path = Path::parse(key).ok();
        match path.as_ref().map(Path::words).as_deref() {
            Some(["group", name, "size"]) => (*name).to_owned(),
            _ => key.to_owned(),
        }
    }
}
