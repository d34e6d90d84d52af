//! Kinds of probes, by name.

use super::instrument::Instrument;
use super::site::Site;
use crate::invalid::Invalid;
use crate::knob::Section;
use crate::unknown::unknown;
use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

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

type Make = dyn Fn() -> Box<dyn Probe> + Send + Sync;

/// A kind of probe under a name.
#[derive(Clone)]
pub struct ProbeKind {
    name: &'static str,
    about: &'static str,
    type_id: TypeId,
    make: Arc<Make>,
}

impl fmt::Debug for ProbeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProbeKind").field(&self.name).finish()
    }
}

impl ProbeKind {
    /// A kind: `about` says in a line what it shows, and its knobs are what `P` has by default.
    pub fn new<P: Probe + Default + 'static>(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            about,
            type_id: TypeId::of::<P>(),
            make: Arc::new(|| Box::<P>::default()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// A line that says what it shows.
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// One with default knobs.
    pub fn probe(&self) -> Box<dyn Probe> {
        (self.make)()
    }
}

/// Kinds of probes by name.
#[derive(Clone, Debug)]
pub struct ProbeKinds(pub(super) Vec<ProbeKind>);

impl ProbeKinds {
    /// Adds a kind; one of the same name is replaced.
    pub fn register(&mut self, kind: ProbeKind) {
        match self.0.iter_mut().find(|k| k.name == kind.name) {
            Some(old) => *old = kind,
            None => self.0.push(kind),
        }
    }

    /// All kinds, in the order of registration.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &ProbeKind> {
        self.0.iter()
    }

    /// The kind whose probes are of type `P`, the last registered of several.
    pub fn kind_of<P: Probe + 'static>(&self) -> Option<&ProbeKind> {
        let wanted = TypeId::of::<P>();
        self.0.iter().rfind(|k| k.type_id == wanted)
    }

    /// The kind with a name.
    ///
    /// # Errors
    /// A sentence with the near match, if there is none.
    pub fn get(&self, name: &str) -> Result<&ProbeKind, String> {
        let found = self.0.iter().find(|k| k.name == name);
        found.ok_or_else(|| unknown("probe", name, self.0.iter().map(|k| k.name)))
    }
}
