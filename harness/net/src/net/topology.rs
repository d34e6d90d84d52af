//! The usual shapes of networks, as values that give a [`Graph`].
//!
//! Each shape is a file: a spec with its sizes and links, `graph()` that builds it, and its entry
//! in [`Topologies`], by which it is found under a name. Hosts are `h0`, `h1`, ... in all of them,
//! with their [`super::HostId`]; single links and tiers get other values by
//! [`super::graph::Override`].

mod dumbbell;
mod fat_tree;
mod free;
mod leaf_spine;
mod parking_lot;
mod star;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::buffer::PoolSpec;
use super::graph::{Attachment, Egress, Graph, NameKind, SwitchSpec, TopologyError};
use super::multipath::Multipath;
use crate::near_match::nearest;

pub use dumbbell::Dumbbell;
pub use fat_tree::FatTree;
pub use free::{FreeGraph, FreeLink, Way};
pub use leaf_spine::LeafSpine;
pub use parking_lot::ParkingLot;
pub use star::Star;

/// What the links, NICs, queues and switches of a shape are unless overridden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// How each host hangs on its switch.
    pub host: Attachment,
    /// Each switch's output towards another switch.
    pub trunk: Egress,
    /// Buffer pools of each switch, which ports name by their place in this list.
    pub pools: Vec<PoolSpec>,
    /// How each switch chooses among equal paths.
    pub multipath: Multipath,
}

/// A size of a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name: `leaves`.
    pub name: &'static str,
    /// What it counts.
    pub about: &'static str,
    /// What it is unless given.
    pub default: u32,
    /// What it may be.
    pub range: RangeInclusive<u32>,
}

/// The sizes of a shape, each in its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(Vec<(&'static str, u32)>);

impl Sizes {
    /// A size by the name of its parameter.
    ///
    /// # Panics
    /// If the shape does not list such a parameter: that is a mistake of the shape.
    pub fn get(&self, name: &str) -> u32 {
        let size = self.0.iter().find(|(known, _)| *known == name);
        size.expect("a parameter that the topology lists").1
    }
}

type Make = dyn Fn(&Sizes, &Defaults) -> Result<Graph, TopologyError> + Send + Sync;

/// A shape of network under a name.
#[derive(Clone)]
pub struct Topology {
    name: &'static str,
    about: &'static str,
    parameters: Vec<Parameter>,
    make: Arc<Make>,
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topology")
            .field("name", &self.name)
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}

impl Topology {
    /// A shape: `about` says in a line what it is, and `make` builds one of these sizes.
    pub fn new(
        name: &'static str,
        about: &'static str,
        parameters: impl Into<Vec<Parameter>>,
        make: impl Fn(&Sizes, &Defaults) -> Result<Graph, TopologyError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            about,
            parameters: parameters.into(),
            make: Arc::new(make),
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

    /// Its sizes.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// One of these sizes; those not given have their defaults.
    ///
    /// # Errors
    /// If there is no such size, one is out of range or given twice, or what the shape itself
    /// finds wrong.
    pub fn graph(
        &self,
        sizes: &[(&str, u32)],
        defaults: &Defaults,
    ) -> Result<Graph, TopologyError> {
        let mut all: Vec<(&'static str, u32)> = self
            .parameters
            .iter()
            .map(|p| (p.name, p.default))
            .collect();
        for (n, &(name, value)) in sizes.iter().enumerate() {
            let Some(at) = self.parameters.iter().position(|p| p.name == name) else {
                let names = self.parameters.iter().map(|p| p.name);
                return Err(TopologyError::Unknown {
                    kind: NameKind::Parameter,
                    name: name.to_owned(),
                    near: nearest(name, names).map(str::to_owned),
                });
            };
            if sizes[..n].iter().any(|(earlier, _)| *earlier == name) {
                return Err(TopologyError::Duplicate {
                    name: name.to_owned(),
                    taken_by: NameKind::Parameter,
                });
            }
            let range = &self.parameters[at].range;
            if !range.contains(&value) {
                return Err(TopologyError::Parameter {
                    topology: self.name.to_owned(),
                    name: name.to_owned(),
                    value,
                    must: format!("from {} to {}", range.start(), range.end()),
                });
            }
            all[at].1 = value;
        }
        (self.make)(&Sizes(all), defaults)
    }
}

/// Shapes by name; users add theirs.
#[derive(Clone, Debug)]
pub struct Topologies(Vec<Topology>);

impl Default for Topologies {
    #[inline] // As `standard`, which would be compiled here otherwise.
    fn default() -> Self {
        Self::standard()
    }
}

impl Topologies {
    /// Star, dumbbell, parking lot, leaf-spine and fat-tree.
    // A graph is made once for a run: it is compiled where it is called, as `Graph` does what takes time.
    #[inline]
    pub fn standard() -> Self {
        Self(vec![
            star::topology(),
            dumbbell::topology(),
            parking_lot::topology(),
            leaf_spine::topology(),
            fat_tree::topology(),
        ])
    }

    /// Adds a shape; one of the same name is replaced.
    pub fn register(&mut self, topology: Topology) {
        match self.0.iter_mut().find(|t| t.name == topology.name) {
            Some(old) => *old = topology,
            None => self.0.push(topology),
        }
    }

    /// All shapes, in the order of registration.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Topology> {
        self.0.iter()
    }

    /// The shape with a name.
    ///
    /// # Errors
    /// With the near match, if there is none.
    pub fn get(&self, name: &str) -> Result<&Topology, TopologyError> {
        let found = self.0.iter().find(|t| t.name == name);
        found.ok_or_else(|| TopologyError::Unknown {
            kind: NameKind::Topology,
            name: name.to_owned(),
            near: nearest(name, self.0.iter().map(|t| t.name)).map(str::to_owned),
        })
    }
}

/// That a size of a shape is in its range.
fn at_least(
    topology: &'static str,
    name: &'static str,
    value: u32,
    least: u32,
) -> Result<(), TopologyError> {
    if value >= least {
        return Ok(());
    }
    Err(TopologyError::Parameter {
        topology: topology.to_owned(),
        name: name.to_owned(),
        value,
        must: format!("at least {least}"),
    })
}

/// A switch with these pools.
fn switch(name: String, tier: &str, pools: &[PoolSpec], multipath: Multipath) -> SwitchSpec {
    SwitchSpec {
        pools: pools.to_vec(),
        multipath,
        ..SwitchSpec::new(name, tier)
    }
}
