//! A port as it is asked for.

use crate::net::buffer::{Capacity, InService};
use crate::net::discipline::DisciplineSpec;

/// A pool by its number: among those of its switch in a spec, in the network at work among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u32);

/// The queue of a switch port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// Its own limit.
    pub capacity: Capacity,
    /// Whether the packet on the wire counts, for the limit and for the discipline. (A pool
    /// always counts it: its memory is in use.)
    pub in_service: InService,
    /// Its discipline.
    pub discipline: DisciplineSpec,
    /// The pool that its packets take room from as well.
    pub pool: Option<PoolId>,
}

impl PortSpec {
    /// Drop-tail with a limit, the packet in service counted.
    pub const fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            in_service: InService::Counted,
            discipline: DisciplineSpec::DropTail,
            pool: None,
        }
    }
}
