//! An experiment as a value: network, hosts, traffic, probes, changes, runs, sweep.
//!
//! Everything in it has a key, [`Experiment::set`] sets it from text and [`Experiment::entries`]
//! lists what is set: files, `--set`, sweeps and the resolved experiment in a folder of results are
//! all made of these two.

pub mod change;
pub mod expect;
pub mod link;
pub mod network;
pub mod nic;
mod path;
pub mod queue;
pub mod run;
pub mod settings;
mod tcp;

pub use change::Change;
pub use expect::{Expect, Show};
pub use link::Link;
pub use network::Network;
pub use nic::Nic;
pub use path::{Path, quoted};
pub use queue::Queue;
pub use run::Run;
pub use settings::Settings;

use crate::knob::{About, Kind, KnobError, Knobs, Section};
use crate::probe::Probe;
use crate::registry::Registry;
use crate::scenario::spec::{IncastSpec, TcpSpec};
use crate::traffic::Traffic;
use narrows::Duration;
use network::Port;
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
    /// What is different: keys of `nic` and `tcp`.
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
                tcp: IncastSpec::default().tcp,
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
    /// Sets what a key names. Traffic and probes are there once their `kind` is set; changes and
    /// expectations, which have no names, have numbers from 0, and come into being in order.
    ///
    /// # Errors
    /// If there is no such key, or it cannot be that.
    ///
    /// A short name is its key.
    pub fn set(&mut self, registry: &Registry, key: &str, value: &str) -> Result<(), KnobError> {
        let path = Path::parse(self.long_name(key)).map_err(KnobError::value)?;
        let words = path.words();
        match words.as_slice() {
            ["title"] => value.clone_into(&mut self.title),
            ["about"] => value.clone_into(&mut self.about),
            ["network", rest @ ..] => self.set_network(registry, rest, value)?,
            ["host", "nic", key] => self.host.nic.set(key, value)?,
            ["host", "tcp", key] => set_tcp(registry, &mut self.host.tcp, key, value)?,
            ["host", other, ..] => {
                return Err(KnobError::unknown(other, ["nic", "tcp"].into_iter()));
            }
            ["group", name, rest @ ..] => self.set_group(registry, name, rest, value)?,
            ["traffic", name, rest @ ..] => self.set_traffic(registry, name, rest, value)?,
            ["probe", name, key] => self.set_probe(registry, name, key, value)?,
            ["change", number, rest @ ..] => self.set_change(number, rest, value)?,
            ["run", key] => self.run.set(key, value)?,
            ["sweep", key] => self.set_sweep(key, value)?,
            ["show", "x"] => self.show.set("x", &self.axis_name(value))?,
            ["show", key] => self.show.set(key, value)?,
            ["expect", number, rest @ ..] => self.set_expect(number, rest, value)?,
            ["short", name] => self.set_short(name, value)?,
            [first, ..] if PARTS.contains(first) => {
                return Err(KnobError::value(format!(
                    "'{key}' names no value; `narrows keys {first}` lists what can be set there"
                )));
            }
            [first, ..] => return Err(KnobError::unknown(first, PARTS.into_iter())),
            [] => return Err(KnobError::unknown("", PARTS.into_iter())),
        }
        Ok(())
    }

    fn set_network(
        &mut self,
        registry: &Registry,
        words: &[&str],
        value: &str,
    ) -> Result<(), KnobError> {
        let network = &mut self.network;
        match words {
            ["link", key] => network.link.set(key, value),
            ["queue", key] => network.queue.set(key, value),
            ["trunk", section, key] => {
                let key = format!("{section}.{key}");
                try_port(network.plain(), &key, value)?;
                network.trunk.set(&key, value);
                Ok(())
            }
            ["port", pattern, section, key] => {
                let key = format!("{section}.{key}");
                try_port(network.plain(), &key, value)?;
                match network.ports.iter_mut().find(|(known, _)| known == pattern) {
                    Some((_, settings)) => settings.set(&key, value),
                    None => {
                        let mut settings = Settings::default();
                        settings.set(&key, value);
                        network.ports.push(((*pattern).to_owned(), settings));
                    }
                }
                Ok(())
            }
            ["topology"] => {
                registry.check_topology(value).map_err(KnobError::value)?;
                network.common.set("topology", value)
            }
            [key] => match network.common.set(key, value) {
                Err(KnobError::Unknown { mut known, .. }) => {
                    let shape = registry.topologies.get(&network.common.topology);
                    let sizes = shape.map_or(&[][..], |shape| shape.parameters());
                    let Some(size) = sizes.iter().find(|p| p.name == *key) else {
                        known.extend(sizes.iter().map(|p| p.name.to_owned()));
                        known.extend(["link", "queue", "trunk", "port"].map(str::to_owned));
                        return Err(KnobError::unknown(key, known.iter().map(String::as_str)));
                    };
                    let number = value.replace('_', "").parse().ok();
                    let Some(number) = number.filter(|n| size.range.contains(n)) else {
                        let (least, most) = (size.range.start(), size.range.end());
                        return Err(KnobError::value(format!(
                            "expected a whole number from {least} to {most}"
                        )));
                    };
                    match network.sizes.iter_mut().find(|(known, _)| known == key) {
                        Some((_, old)) => *old = number,
                        None => network.sizes.push(((*key).to_owned(), number)),
                    }
                    Ok(())
                }
                other => other,
            },
            other => Err(KnobError::unknown(
                &other.join("."),
                ["link", "queue", "trunk", "port"].into_iter(),
            )),
        }
    }

    fn set_group(
        &mut self,
        registry: &Registry,
        name: &str,
        words: &[&str],
        value: &str,
    ) -> Result<(), KnobError> {
        let at = self.groups.iter().position(|g| g.name == name);
        let members = match words {
            ["hosts"] => Some(Members::Named(
                value.split(',').map(|p| p.trim().to_owned()).collect(),
            )),
            ["size"] => {
                let n = value.replace('_', "").parse::<u32>().ok();
                let n = n.filter(|n| (1..=100_000).contains(n));
                let help = "expected a whole number from 1 to 100000";
                Some(Members::Count(n.ok_or_else(|| KnobError::value(help))?))
            }
            ["tcp", key] => {
                set_tcp(registry, &mut self.host.tcp.clone(), key, value)?;
                None
            }
            ["nic", key] => {
                self.host.nic.clone().set(key, value)?;
                None
            }
            other => {
                let known = ["hosts", "size", "nic", "tcp"];
                return Err(KnobError::unknown(&other.join("."), known.into_iter()));
            }
        };
        let at = at.unwrap_or_else(|| {
            self.groups.push(Group {
                name: name.to_owned(),
                members: Members::Named(Vec::new()),
                settings: Settings::default(),
            });
            self.groups.len() - 1
        });
        match members {
            Some(members) => self.groups[at].members = members,
            None => self.groups[at].settings.set(&words.join("."), value),
        }
        Ok(())
    }

    fn set_traffic(
        &mut self,
        registry: &Registry,
        name: &str,
        words: &[&str],
        value: &str,
    ) -> Result<(), KnobError> {
        if words == ["kind"] {
            let kind = registry.traffic.get(value).map_err(KnobError::value)?;
            let spec = kind.traffic();
            match self.traffic.iter_mut().find(|t| t.name == name) {
                Some(known) if known.kind == value => {}
                Some(known) => {
                    value.clone_into(&mut known.kind);
                    known.spec = spec;
                }
                None => {
                    check_name(name)?;
                    self.traffic.push(NamedTraffic {
                        name: name.to_owned(),
                        kind: value.to_owned(),
                        start: Duration::ZERO,
                        tcp: Settings::default(),
                        spec,
                    });
                }
            }
            return Ok(());
        }
        let names: Vec<String> = self.traffic.iter().map(|t| t.name.clone()).collect();
        let Some(traffic) = self.traffic.iter_mut().find(|t| t.name == name) else {
            return Err(KnobError::unknown(name, names.iter().map(String::as_str)));
        };
        match words {
            ["start"] => {
                traffic.start = Kind::TIME.read(value).map_err(KnobError::value)?;
                Ok(())
            }
            ["tcp", key] => {
                set_tcp(registry, &mut self.host.tcp.clone(), key, value)?;
                traffic.tcp.set(key, value);
                Ok(())
            }
            [key] => match traffic.spec.set(key, value) {
                Err(KnobError::Unknown { mut known, .. }) => {
                    known.extend(["kind", "start", "tcp"].map(str::to_owned));
                    Err(KnobError::unknown(key, known.iter().map(String::as_str)))
                }
                other => other,
            },
            other => Err(KnobError::unknown(&other.join("."), ["tcp"].into_iter())),
        }
    }

    fn set_probe(
        &mut self,
        registry: &Registry,
        name: &str,
        key: &str,
        value: &str,
    ) -> Result<(), KnobError> {
        if key == "kind" {
            let spec = registry.probes.get(value).map_err(KnobError::value)?;
            match self.probes.iter_mut().find(|p| p.name == name) {
                Some(known) if known.kind == value => {}
                Some(known) => {
                    value.clone_into(&mut known.kind);
                    known.spec = spec.probe();
                }
                None => {
                    check_name(name)?;
                    self.probes.push(NamedProbe {
                        name: name.to_owned(),
                        kind: value.to_owned(),
                        spec: spec.probe(),
                    });
                }
            }
            return Ok(());
        }
        let names: Vec<String> = self.probes.iter().map(|p| p.name.clone()).collect();
        match self.probes.iter_mut().find(|p| p.name == name) {
            Some(probe) => probe.spec.set(key, value),
            None => Err(KnobError::unknown(name, names.iter().map(String::as_str))),
        }
    }

    fn set_change(&mut self, number: &str, words: &[&str], value: &str) -> Result<(), KnobError> {
        let at = nth(number, self.changes.len())?;
        if at == self.changes.len() {
            self.changes.push(Change::default());
        }
        let change = &mut self.changes[at];
        match words {
            [section @ ("link" | "queue"), key] => {
                let key = format!("{section}.{key}");
                try_port(self.network.plain(), &key, value)?;
                change.set.set(&key, value);
                Ok(())
            }
            [key] => change.when.set(key, value),
            other => Err(KnobError::unknown(
                &other.join("."),
                ["link", "queue"].into_iter(),
            )),
        }
    }

    fn set_expect(&mut self, number: &str, words: &[&str], value: &str) -> Result<(), KnobError> {
        let at = nth(number, self.expect.len())?;
        if at == self.expect.len() {
            self.expect.push(Expect::default());
        }
        match words {
            ["where", key] => {
                let key = self.axis_name(key);
                self.expect[at].place.set(&key, value);
                Ok(())
            }
            [key] => self.expect[at].set(key, value),
            other => Err(KnobError::unknown(&other.join("."), ["where"].into_iter())),
        }
    }

    fn set_short(&mut self, name: &str, key: &str) -> Result<(), KnobError> {
        check_name(name)?;
        if PARTS.contains(&name) {
            let why = format!("'{name}' is a part of every experiment: choose another short name");
            return Err(KnobError::value(why));
        }
        let path = Path::parse(key).map_err(KnobError::value)?;
        self.short.set(name, &path.to_string());
        Ok(())
    }

    /// The key that a short name stands for; a key stands for itself.
    pub fn long_name<'k>(&'k self, key: &'k str) -> &'k str {
        self.short.get(key).unwrap_or(key)
    }

    /// A key, or what a short name stands for, as an axis of the sweep has it.
    pub fn axis_name(&self, key: &str) -> String {
        let key = self.long_name(key);
        Path::parse(key).map_or_else(|_| key.to_owned(), |path| path.to_string())
    }

    /// Varies a key over `values`, which have commas between them; `1..64x2`, `1-8` and `8-64+8`
    /// are whole numbers.
    fn set_sweep(&mut self, key: &str, values: &str) -> Result<(), KnobError> {
        let values = path::list(values).map_err(KnobError::value)?;
        self.vary(key, values)
    }

    /// Varies a key, or what a short name stands for, over `values`: in place of the axis that it
    /// has, or as the one that varies fastest.
    ///
    /// # Errors
    /// If it is no key, there is no value, or one is there twice.
    pub fn vary(&mut self, key: &str, values: Vec<String>) -> Result<(), KnobError> {
        let path = Path::parse(self.long_name(key)).map_err(KnobError::value)?;
        if values.is_empty() {
            return Err(KnobError::value("expected at least one value"));
        }
        if let Some(twice) = (1..values.len()).find(|&i| values[..i].contains(&values[i])) {
            let why = format!("'{}' is there twice", values[twice]);
            return Err(KnobError::value(why));
        }
        let axis = Axis {
            key: path.to_string(),
            values,
        };
        match self.sweep.iter_mut().find(|known| known.key == axis.key) {
            Some(known) => *known = axis,
            None => self.sweep.push(axis),
        }
        Ok(())
    }

    /// Takes a key out of the sweep, because it is to have one value: what is shown over it is shown
    /// over another, and what is expected at other values of it is not expected.
    pub fn settle(&mut self, key: &str, value: &str) {
        let before = self.sweep.len();
        self.sweep.retain(|axis| axis.key != key);
        if self.sweep.len() == before {
            return;
        }
        if self.show.x.as_deref() == Some(key) {
            self.show.x = None;
        }
        self.expect
            .retain(|e| e.place.get(key).is_none_or(|at| at == value));
        for expect in &mut self.expect {
            expect.place.remove(key);
        }
    }

    /// Everything that is set, as [`Self::set`] takes it: an experiment made of these alone is this
    /// one. What its default would be is there, too.
    pub fn entries(&self) -> Vec<Entry> {
        let mut all = Entries(Vec::new());
        all.word("title", &self.title);
        all.word("about", &self.about);
        all.section("network", &self.network.common);
        for (key, size) in &self.network.sizes {
            all.push(&format!("network.{key}"), size.to_string());
        }
        all.section("network.link", &self.network.link);
        all.section("network.queue", &self.network.queue);
        all.settings("network.trunk", &self.network.trunk);
        for (pattern, settings) in &self.network.ports {
            all.settings(&format!("network.port.{}", quoted(pattern)), settings);
        }
        all.section("host.nic", &self.host.nic);
        all.section("host.tcp", &self.host.tcp);
        for group in &self.groups {
            let at = format!("group.{}", quoted(&group.name));
            match &group.members {
                Members::Named(patterns) => all.word(&format!("{at}.hosts"), &patterns.join(",")),
                Members::Count(n) => all.push(&format!("{at}.size"), n.to_string()),
            }
            all.settings(&at, &group.settings);
        }
        for traffic in &self.traffic {
            let at = format!("traffic.{}", quoted(&traffic.name));
            all.word(&format!("{at}.kind"), &traffic.kind);
            all.push(
                &format!("{at}.start"),
                crate::knob::Quantity::show(&traffic.start).unwrap_or_default(),
            );
            all.kind(&at, &*traffic.spec);
            all.settings(&format!("{at}.tcp"), &traffic.tcp);
        }
        for probe in &self.probes {
            let at = format!("probe.{}", quoted(&probe.name));
            all.word(&format!("{at}.kind"), &probe.kind);
            all.kind(&at, &*probe.spec);
        }
        for (n, change) in self.changes.iter().enumerate() {
            let at = format!("change.{n}");
            all.section(&at, &change.when);
            all.settings(&at, &change.set);
        }
        all.section("run", &self.run);
        for axis in &self.sweep {
            let key = format!("sweep.{}", quoted(&axis.key));
            all.0.push(Entry {
                key,
                value: Value::List(axis.values.clone()),
            });
        }
        all.section("show", &self.show);
        for (n, expect) in self.expect.iter().enumerate() {
            let at = format!("expect.{n}");
            all.section(&at, expect);
            for (key, value) in expect.place.iter() {
                all.push(&format!("{at}.where.{}", quoted(key)), value.to_owned());
            }
        }
        for (name, key) in self.short.iter() {
            all.push(&format!("short.{}", quoted(name)), key.to_owned());
        }
        all.0
    }

    /// The value that a key has here: what was set, or its default; `None` if it is not set and has
    /// no word for that, or there is no such key.
    pub fn get(&self, key: &str) -> Option<String> {
        let path = Path::parse(key).ok()?.to_string();
        let entry = self.entries().into_iter().find(|e| e.key == path)?;
        Some(match entry.value {
            Value::One(value) => value,
            Value::List(values) => values.join(","),
        })
    }

    /// The name for people of what a key sets: `congestion control`; the key where it has none.
    pub fn title_of(&self, registry: &Registry, key: &str) -> String {
        registry
            .about(self, key)
            .map_or_else(|| key.to_owned(), |about| about.title.to_owned())
    }
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: Value,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// One.
    One(String),
    /// Those of a sweep.
    List(Vec<String>),
}

struct Entries(Vec<Entry>);

impl Entries {
    fn push(&mut self, key: &str, value: String) {
        self.0.push(Entry {
            key: key.to_owned(),
            value: Value::One(value),
        });
    }

    fn word(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.push(key, value.to_owned());
        }
    }

    fn section(&mut self, at: &str, section: &dyn Section) {
        for About { key, .. } in section.knobs() {
            if let Some(value) = section.get(key) {
                self.push(&format!("{at}.{key}"), value);
            }
        }
    }

    /// A section with a type of its own, whose default may be a value where it says `off`.
    fn kind(&mut self, at: &str, section: &dyn Section) {
        for About { key, kind, .. } in section.knobs() {
            let word = match kind {
                Kind::Or(word, _) => Some(word.to_owned()),
                _ => None,
            };
            if let Some(value) = section.get(key).or(word) {
                self.push(&format!("{at}.{key}"), value);
            }
        }
    }

    fn settings(&mut self, at: &str, settings: &Settings) {
        for (key, value) in settings.iter() {
            self.push(&format!("{at}.{key}"), value.to_owned());
        }
    }
}

impl dyn Section + '_ {
    /// The knobs of a section type, without one at hand.
    pub fn knobs_of<S: Knobs>() -> Vec<About> {
        S::TABLE.iter().map(|knob| knob.about).collect()
    }
}

/// Sets a key of TCP; names are looked up.
pub(crate) fn set_tcp(
    registry: &Registry,
    tcp: &mut TcpSpec,
    key: &str,
    value: &str,
) -> Result<(), KnobError> {
    registry
        .check_tcp_name(key, value)
        .map_err(KnobError::value)?;
    tcp.set(key, value)
}

/// Whether a port could have this.
fn try_port(mut plain: Port, key: &str, value: &str) -> Result<(), KnobError> {
    plain.set(key, value)
}

/// The number of one of `len` things, or of the next one.
fn nth(number: &str, len: usize) -> Result<usize, KnobError> {
    let at = number.parse::<usize>().ok().filter(|at| *at <= len);
    at.ok_or_else(|| KnobError::value(format!("'{number}' is not a number from 0 to {len}")))
}

/// A name stands in keys, columns and file names.
fn check_name(name: &str) -> Result<(), KnobError> {
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !name.is_empty() && name.len() <= 60 && name.chars().all(letters) {
        return Ok(());
    }
    Err(KnobError::value(format!(
        "'{name}' is not a name: letters, digits, - and _, at most 60"
    )))
}
