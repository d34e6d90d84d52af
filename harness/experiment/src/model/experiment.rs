//! An experiment, and what is in it.

use super::change::Change;
use super::expect::{Expect, Show};
use super::network::Network;
use super::nic::{Cpu, Nic};
use super::run::Run;
use super::settings::Settings;
use crate::probe::Probe;
use crate::scenario::spec::TcpSpec;
use crate::traffic::Traffic;
use narrows::Duration;
use std::sync::Arc;

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
    pub host: HostSpec,
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
    pub sweep: Vec<SweepAxis>,
    /// What is shown.
    pub show: Show,
    /// What should come out.
    pub expect: Vec<Expect>,
    /// Short names for keys, as options of the command.
    pub short: Settings,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSpec {
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
pub struct SweepAxis {
    /// The key.
    pub key: String,
    /// Its values, in order. Shared: each point of the sweep begins as a copy of the experiment.
    pub values: Arc<Vec<String>>,
}

impl Default for Experiment {
    /// Two hosts on a switch, without traffic.
    fn default() -> Self {
        Self {
            title: String::new(),
            about: String::new(),
            network: Network::default(),
            host: HostSpec {
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
