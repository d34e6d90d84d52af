//! Setting keys from text.

use super::change::Change;
use super::expect::Expect;
use super::experiment::{Experiment, Group, Members, NamedProbe, NamedTraffic, PARTS, SweepAxis};
use super::network::Port;
use super::path::{self, Path, quoted};
use super::settings::Settings;
use crate::invalid::Invalid;
use crate::knob::{Kind, KnobError, Section};
use crate::registry::Registry;
use narrows::Duration;
use std::collections::HashSet;

/// What `network` has beside values.
const SECTIONS: [&str; 5] = ["link", "queue", "pause", "trunk", "port"];

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
            ["host", "cpu", key] => self.host.cpu.set(key, value)?,
            ["host", "tcp", key] => registry.set_tcp(&mut self.host.tcp, key, value)?,
            ["host", other, ..] => {
                return Err(KnobError::unknown(other, ["nic", "cpu", "tcp"].into_iter()));
            }
            ["group", name, rest @ ..] => self.set_group(registry, name, rest, value)?,
            ["traffic", name, rest @ ..] => self.set_traffic(registry, name, rest, value)?,
            ["probe", name, key] => self.set_probe(registry, name, key, value)?,
            ["change", number, rest @ ..] => self.set_change(registry, number, rest, value)?,
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
            ["queue", key] => {
                check_queue(registry, key, value)?;
                network.queue.set(key, value)
            }
            ["pause", key] => network.pause.set(key, value),
            ["trunk", section, key] => {
                let key = format!("{section}.{key}");
                try_port(registry, network.plain(), &key, value)?;
                network.trunk.set(&key, value);
                Ok(())
            }
            ["port", pattern, section, key] => {
                let key = format!("{section}.{key}");
                try_port(registry, network.plain(), &key, value)?;
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
                        let others = registry.topologies.entries().filter(|shape| {
                            shape.parameters().iter().any(|size| size.name == *key)
                        });
                        let others: Vec<&str> = others.map(|shape| shape.name()).collect();
                        if !others.is_empty() {
                            let (of, is) = (others.join(" and "), &network.common.topology);
                            let why = format!("'{key}' is a size of {of}; the topology is {is}");
                            return Err(KnobError::value(why));
                        }
                        known.extend(sizes.iter().map(|p| p.name.to_owned()));
                        known.extend(SECTIONS.map(str::to_owned));
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
            [first, ..] if SECTIONS.contains(first) => Err(KnobError::value(format!(
                "'network.{}' names no value; `narrows keys network` lists what can be set there",
                words.join(".")
            ))),
            other => Err(KnobError::unknown(
                other.first().unwrap_or(&""),
                SECTIONS.into_iter(),
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
                registry.set_tcp(&mut self.host.tcp.clone(), key, value)?;
                None
            }
            ["nic", key] => {
                self.host.nic.clone().set(key, value)?;
                None
            }
            ["cpu", key] => {
                self.host.cpu.clone().set(key, value)?;
                None
            }
            other => {
                let known = ["hosts", "size", "nic", "cpu", "tcp"];
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
            let spec = kind.make();
            match self.traffic.iter_mut().find(|t| t.name == name) {
                Some(known) if known.kind == value => {}
                Some(known) => {
                    // What both kinds have stays as it is.
                    let old = kept(&*known.spec, &*registry.traffic_of(&known.kind)?);
                    let mut spec = spec;
                    for (key, value) in old {
                        let _ = spec.set(key, &value);
                    }
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
                registry.set_tcp(&mut self.host.tcp.clone(), key, value)?;
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

    /// The keys that are set of a traffic and that it would not have if `key` were `value`, because
    /// that is another kind; none if `key` is no kind of a traffic.
    pub fn lost_by(&self, registry: &Registry, key: &str, value: &str) -> Vec<String> {
        let Ok(path) = Path::parse(self.long_name(key)) else {
            return Vec::new();
        };
        let ["traffic", name, "kind"] = path.words()[..] else {
            return Vec::new();
        };
        let Some(traffic) = self.traffic.iter().find(|t| t.name == name) else {
            return Vec::new();
        };
        let kinds = (
            registry.traffic_of(&traffic.kind),
            registry.traffic_of(value),
        );
        let (Ok(usual), Ok(mut other)) = kinds else {
            return Vec::new();
        };
        if traffic.kind == value {
            return Vec::new();
        }
        let mut lost = kept(&*traffic.spec, &*usual);
        lost.retain(|(key, value)| other.set(key, value).is_err());
        lost.into_iter().map(|(key, _)| key.to_owned()).collect()
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
                    known.spec = spec.make();
                }
                None => {
                    check_name(name)?;
                    self.probes.push(NamedProbe {
                        name: name.to_owned(),
                        kind: value.to_owned(),
                        spec: spec.make(),
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

    fn set_change(
        &mut self,
        registry: &Registry,
        number: &str,
        words: &[&str],
        value: &str,
    ) -> Result<(), KnobError> {
        let at = nth(number, self.changes.len())?;
        if at == self.changes.len() {
            self.changes.push(Change::default());
        }
        let change = &mut self.changes[at];
        match words {
            [section @ ("link" | "queue"), key] => {
                let key = format!("{section}.{key}");
                try_port(registry, self.network.plain(), &key, value)?;
                change.set.set(&key, value);
                Ok(())
            }
            ["nic", "gro"] => {
                self.host.nic.clone().set("gro", value)?;
                change.set.set("nic.gro", value);
                Ok(())
            }
            ["nic", other] => Err(KnobError::unknown(other, ["gro"].into_iter())),
            [key] => change.when.set(key, value),
            other => Err(KnobError::unknown(
                &other.join("."),
                ["link", "queue", "nic"].into_iter(),
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

    /// Whether each short name is one of a key that there is.
    ///
    /// # Errors
    /// Of the first that is not.
    pub fn check_short(&self, registry: &Registry) -> Result<(), Invalid> {
        for (name, key) in self.short.iter() {
            self.check_key(registry, key).map_err(|e| {
                let why = format!("it is to be short for {key}, which is no key: {e}");
                Invalid::new(format!("short.{}", quoted(name)), why)
            })?;
        }
        Ok(())
    }

    /// Whether there is such a key here.
    fn check_key(&self, registry: &Registry, key: &str) -> Result<(), KnobError> {
        let path = Path::parse(key).map_err(KnobError::value)?;
        let there = |n: &str, len: usize| n.parse::<usize>().is_ok_and(|n| n < len);
        match path.words()[..] {
            ["group", name, ..] if self.groups.iter().all(|g| g.name != name) => {
                let names = self.groups.iter().map(|g| g.name.as_str());
                return Err(KnobError::unknown(name, names));
            }
            ["change", n, ..] if !there(n, self.changes.len()) => {
                return Err(KnobError::value(format!("there is no change {n}")));
            }
            ["expect", n, ..] if !there(n, self.expect.len()) => {
                return Err(KnobError::value(format!("there is no expect {n}")));
            }
            [part] if part != "title" && part != "about" => {
                return Err(KnobError::value("it names no value"));
            }
            _ => {}
        }
        // Whether it can be that is not the question.
        match self.clone().set(registry, key, "") {
            Err(e @ KnobError::Unknown { .. }) => Err(e),
            _ => Ok(()),
        }
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
        let mut known = HashSet::new();
        if let Some(twice) = values.iter().find(|value| !known.insert(*value)) {
            let why = format!("'{twice}' is there twice");
            return Err(KnobError::value(why));
        }
        let axis = SweepAxis {
            key: path.to_string(),
            values: values.into(),
        };
        match self.sweep.iter_mut().find(|known| known.key == axis.key) {
            Some(known) => *known = axis,
            None => self.sweep.push(axis),
        }
        Ok(())
    }

    /// Takes a key out of the sweep, because it is to have one value: what is shown over it is shown
    /// over another, and what is expected at other values of it is not expected.
    pub fn settle(&mut self, registry: &Registry, key: &str, value: &str) {
        let before = self.sweep.len();
        self.sweep.retain(|axis| axis.key != key);
        if self.sweep.len() == before {
            return;
        }
        if self.show.x.as_deref() == Some(key) {
            self.show.x = None;
        }
        let mut expect = std::mem::take(&mut self.expect);
        let same = |at: &str| registry.same_value(self, key, at, value);
        expect.retain(|e| e.place.get(key).is_none_or(same));
        self.expect = expect;
        for expect in &mut self.expect {
            expect.place.remove(key);
        }
    }

    /// Leaves out what is expected of points that are no more, since another list of values is varied than
    /// in the experiment that was `before`; how many expectations that are.
    pub fn leave_lost_points_out(&mut self, before: &Self) -> usize {
        let has = |sweep: &[SweepAxis], expect: &Expect| {
            let mut place = expect.place.iter();
            place.all(|(key, value)| {
                let mut axes = sweep.iter();
                axes.any(|axis| axis.key == key && axis.values.iter().any(|v| v == value))
            })
        };
        let all = self.expect.len();
        let Self { sweep, expect, .. } = self;
        expect.retain(|expect| has(sweep, expect) || !has(&before.sweep, expect));
        all - self.expect.len()
    }
}

/// What is set of a section and not as it is in `usual`.
fn kept(section: &dyn Section, usual: &dyn Section) -> Vec<(&'static str, String)> {
    let knobs = section.knobs().into_iter();
    let set = knobs.filter_map(|about| Some((about.key, section.get(about.key)?)));
    set.filter(|(key, value)| usual.get(key).as_ref() != Some(value))
        .collect()
}

/// Whether a port could have this.
fn try_port(registry: &Registry, mut plain: Port, key: &str, value: &str) -> Result<(), KnobError> {
    if let Some(key) = key.strip_prefix("queue.") {
        check_queue(registry, key, value)?;
    }
    plain.set(key, value)
}

/// Names of a queue are looked up.
fn check_queue(registry: &Registry, key: &str, value: &str) -> Result<(), KnobError> {
    let known = registry.check_queue_name(key, value);
    known.map_err(KnobError::value)
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
