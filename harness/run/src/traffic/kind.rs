//! Kinds of traffic, by name.

use super::error::TrafficError;
use super::placement::Placement;
use crate::kinds::{Family, Kind, Kinds};
use crate::knob::Section;

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

impl Family for dyn Traffic {
    const NOUN: &'static str = "traffic";
}

/// A kind of traffic under a name.
pub type TrafficKind = Kind<dyn Traffic>;

/// Kinds of traffic by name.
pub type TrafficKinds = Kinds<dyn Traffic>;

impl TrafficKind {
    /// A kind: `about` says in a line what it is, and its knobs are what `T` has by default.
    pub fn new<T: Traffic + Default + 'static>(name: &'static str, about: &'static str) -> Self {
        Self::of::<T>(name, about, || Box::<T>::default())
    }
}
