//! Kinds of probes, by name.

use super::instrument::Instrument;
use super::site::Site;
use crate::invalid::Invalid;
use crate::kinds::{Family, Kind, Kinds};
use crate::knob::Section;

/// A kind of probe with its knobs set.
pub trait Probe: Section + Send + Sync {
    /// The same in a box.
    fn clone_box(&self) -> Box<dyn Probe>;

    /// The instruments of a run.
    ///
    /// # Errors
    /// Which knob cannot be that on this network, and why; the key is the knob's own.
    fn install(&self, on: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid>;

    /// Whether it is part of every repetition of a point; otherwise it is part of the first.
    fn repeats(&self) -> bool {
        true
    }
}

impl Clone for Box<dyn Probe> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}

impl Family for dyn Probe {
    const NOUN: &'static str = "probe";
}

/// A kind of probe under a name.
pub type ProbeKind = Kind<dyn Probe>;

/// Kinds of probes by name.
pub type ProbeKinds = Kinds<dyn Probe>;

impl ProbeKind {
    /// A kind: `about` says in a line what it shows, and its knobs are what `P` has by default.
    pub fn new<P: Probe + Default + 'static>(name: &'static str, about: &'static str) -> Self {
        Self::of::<P>(name, about, || Box::<P>::default())
    }
}
