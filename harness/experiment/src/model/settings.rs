//! Settings: knobs that are different somewhere, in the order in which they were given.

use crate::knob::{Quantity, Section};

/// Keys with values, each key once: of two for one key the later holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(Vec<(String, String)>);

impl Settings {
    /// Sets a key.
    pub fn set(&mut self, key: &str, value: &str) {
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => value.clone_into(old),
            None => self.0.push((key.to_owned(), value.to_owned())),
        }
    }

    /// Sets a key to a quantity as a file has it.
    pub fn set_quantity(&mut self, key: &str, value: &impl Quantity) {
        if let Some(text) = value.show() {
            self.set(key, &text);
        }
    }

    /// Sets all knobs of a section that have values, at a key.
    pub fn set_section(&mut self, at: &str, section: &dyn Section) {
        for knob in section.knobs() {
            if let Some(text) = section.get(knob.key) {
                self.set(&format!("{at}.{}", knob.key), &text);
            }
        }
    }

    /// The value of a key, if it is set.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Sets a key no longer.
    pub fn remove(&mut self, key: &str) {
        self.0.retain(|(known, _)| known != key);
    }

    /// Whether a key is set.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Whether a key that begins like this is set.
    pub fn has_any(&self, prefix: &str) -> bool {
        self.0.iter().any(|(key, _)| key.starts_with(prefix))
    }

    /// All.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
