//! Everything that is set, as keys and values.

use super::experiment::{Experiment, Members};
use super::path::{Path, quoted};
use super::settings::Settings;
use crate::knob::{About, Kind, Quantity, Section};
use std::fmt;

impl Experiment {
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
        all.section("network.pause", &self.network.pause);
        all.settings("network.trunk", &self.network.trunk);
        for (pattern, settings) in &self.network.ports {
            all.settings(&format!("network.port.{}", quoted(pattern)), settings);
        }
        all.section("host.nic", &self.host.nic);
        all.section("host.cpu", &self.host.cpu);
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
                traffic.start.show().unwrap_or_default(),
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
                value: Value::List(axis.values.to_vec()),
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
        Some(entry.value.to_string())
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

impl fmt::Display for Value {
    /// As `--set` and `--sweep` take it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(value) => f.write_str(value),
            Self::List(values) => f.write_str(&values.join(",")),
        }
    }
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
