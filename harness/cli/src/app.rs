//! The command as a value: what it knows by name.

use crate::catalog::Catalog;
use narrows_validate::Check;

/// The command: what can be named, and what it validates.
///
/// A program of the user's own makes one with her algorithms in the catalog's registries and
/// has the whole command line for them.
#[derive(Debug)]
pub struct App {
    /// What can be named.
    pub catalog: Catalog,
    /// What `narrows validate` runs.
    pub checks: Vec<Check>,
}

impl App {
    /// The command with the given names, and our checks.
    pub fn new(catalog: Catalog) -> Self {
        Self {
            catalog,
            checks: [narrows_validate::checks(), narrows_validate::local_checks()].concat(),
        }
    }
}
