//! The simulated network: NICs, links, switch ports, buffers, and the ways they hurt packets.
//!
//! # One event a hop
//! A port that serves first in, first out at a constant rate knows on arrival when a packet's
//! last bit will leave, so it is told at once when it will reach the next node: one event a hop.
//! Departures themselves are looked at only when somebody asks for the length of the queue. A
//! link delivers in order, so only its first packet has an event. Where a [`discipline`] decides in
//! turn a packet's departure is computed when its turn has come, by whoever looks next, and a hop is
//! one event all the same.
//!
//! # Order at one instant
//! A departure at an instant frees its place for an arrival at the same instant. Arrivals at one
//! instant are handled in the order of their link's rank ([`graph::TieOrder`]), a host's
//! packets before its timer.
//!
//! # Left out
//! Cut-through switching (a switch forwards when the last bit is in); the delay of the switch itself
//! (add it to the link's). [`port`] alone computes departures, the packets that have not left are a
//! chain from its cursor, and an event whose time is not that of the chain's head is stale and
//! ignored, so departures can be computed again, as they are when a link's rate [changes](change) or a
//! NIC is told to [pause].

pub mod buffer;
pub mod change;
pub mod discipline;
pub mod graph;
pub mod impair;
pub mod link;
pub mod multipath;
pub mod network;
pub mod nic;
pub mod packet;
pub mod pause;
pub mod port;
#[cfg(test)]
mod rig;
pub mod routes;
pub mod stats;
mod switch;
pub mod topology;

pub use buffer::{Capacity, InService, PoolSpec};
pub use change::{Change, ChangeError};
pub use discipline::{DisciplineError, DisciplineSpec};
pub use graph::{Attachment, Egress, Graph, Override, TieOrder, TopologyError};
pub use impair::{ImpairSpec, When};
pub use link::{Framing, LinkSpec};
pub use multipath::{Multipath, PathChoice, Salt};
pub use network::Network;
pub use nic::{NicRoom, NicSpec};
pub use packet::{HostId, Merge, Packet, PortId};
pub use pause::{PauseKind, PauseSpec, PauseStats};
pub use port::PortSpec;
pub use stats::{DropReason, PortStats};
pub use topology::{Dumbbell, FatTree, FreeGraph, LeafSpine, ParkingLot, Star};
