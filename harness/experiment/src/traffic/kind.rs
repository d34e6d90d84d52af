//! Kinds of traffic, by name.

use super::error::TrafficError;
use super::placement::Placement;
use crate::knob::Section;
use crate::unknown::unknown;
use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

/// A kind of traffic with its knobs set.
pub trait Traffic: Section + Send + Sync {
    /// The same in a box.
    fn clone_box(&self) -> Box<dyn Traffic>;

    /// Gives hosts their roles.
    ///
    /// # Errors
    /// Which knob cannot be that on this network, and why.
    fn install(&self, on: &mut Placement<'_>) -> Result<(), TrafficError>;
}

impl Clone for Box<dyn Traffic> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}

type Make = dyn Fn() -> Box<dyn Traffic> + Send + Sync;

/// A kind of traffic under a name.
#[derive(Clone)]
pub struct TrafficKind {
    name: &'static str,
    about: &'static str,
    type_id: TypeId,
    make: Arc<Make>,
}

impl fmt::Debug for TrafficKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TrafficKind").field(&self.name).finish()
    }
}

impl TrafficKind {
    /// A kind: `about` says in a line what it is, and its knobs are what `T` has by default.
    pub fn new<T: Traffic + Default + 'static>(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            about,
            type_id: TypeId::of::<T>(),
            make: Arc::new(|| Box::<T>::default()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// A line that says what it is.
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// One with default knobs.
    pub fn traffic(&self) -> Box<dyn Traffic> {
        (self.make)()
    }
}

/// Kinds of traffic by name.
#[derive(Clone, Debug)]
pub struct TrafficKinds(pub(super) Vec<TrafficKind>);

impl TrafficKinds {
    /// Adds a kind; one of the same name is replaced.
    pub fn register(&mut self, kind: TrafficKind) {
        match self.0.iter_mut().find(|k| k.name == kind.name) {
            Some(old) => *old = kind,
            None => self.0.push(kind),
        }
    }

    /// All kinds, in the order of registration.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &TrafficKind> {
        self.0.iter()
    }

    /// The kind whose traffics are of type `T`, the last registered of several.
    pub fn kind_of<T: Traffic + 'static>(&self) -> Option<&TrafficKind> {
        let wanted = TypeId::of::<T>();
        self.0.iter().rfind(|k| k.type_id == wanted)
    }

    /// The kind with a name.
    ///
    /// # Errors
    /// A sentence with the near match, if there is none.
    pub fn get(&self, name: &str) -> Result<&TrafficKind, String> {
        let found = self.0.iter().find(|k| k.name == name);
        found.ok_or_else(|| unknown("traffic", name, self.0.iter().map(|k| k.name)))
    }
}
