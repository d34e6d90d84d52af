//! Kinds of what files give by name: a name, a line about it, and one with default knobs.

use crate::unknown::unknown;
use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

/// What there are kinds of.
pub trait Family {
    /// What one is called in messages.
    const NOUN: &'static str;
}

type Make<F> = dyn Fn() -> Box<F> + Send + Sync;

/// A kind under a name.
pub struct Kind<F: ?Sized> {
    name: &'static str,
    about: &'static str,
    type_id: TypeId,
    make: Arc<Make<F>>,
}

impl<F: ?Sized> Clone for Kind<F> {
    fn clone(&self) -> Self {
        Self {
            make: Arc::clone(&self.make),
            ..*self
        }
    }
}

impl<F: ?Sized> fmt::Debug for Kind<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kind").field(&self.name).finish()
    }
}

impl<F: ?Sized> Kind<F> {
    /// A kind of the type `T`, of which `make` makes one.
    pub(crate) fn of<T: 'static>(
        name: &'static str,
        about: &'static str,
        make: impl Fn() -> Box<F> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            about,
            type_id: TypeId::of::<T>(),
            make: Arc::new(make),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// A line about it.
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// One with default knobs.
    pub fn make(&self) -> Box<F> {
        (self.make)()
    }
}

/// Kinds by name.
pub struct Kinds<F: ?Sized>(pub(crate) Vec<Kind<F>>);

impl<F: ?Sized> Clone for Kinds<F> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<F: ?Sized> fmt::Debug for Kinds<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl<F: Family + ?Sized> Kinds<F> {
    /// Adds a kind; one of the same name is replaced.
    pub fn register(&mut self, kind: Kind<F>) {
        match self.0.iter_mut().find(|k| k.name == kind.name) {
            Some(old) => *old = kind,
            None => self.0.push(kind),
        }
    }

    /// All kinds, in the order of registration.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Kind<F>> {
        self.0.iter()
    }

    /// The kind that makes `T`, the last registered of several.
    pub fn kind_of<T: 'static>(&self) -> Option<&Kind<F>> {
        let wanted = TypeId::of::<T>();
        self.0.iter().rfind(|k| k.type_id == wanted)
    }

    /// The kind with a name.
    ///
    /// # Errors
    /// A sentence with the near match, if there is none.
    pub fn get(&self, name: &str) -> Result<&Kind<F>, String> {
        let found = self.0.iter().find(|k| k.name == name);
        found.ok_or_else(|| unknown(F::NOUN, name, self.0.iter().map(|k| k.name)))
    }
}
