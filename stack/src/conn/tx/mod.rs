//! A segment leaves.

mod burst;
mod due;
#[cfg(test)]
mod last;
mod output;
mod packet;
mod segment;
mod silly_window;

pub(crate) use output::{Emitted, Output};
pub use packet::Packet;
pub(super) use silly_window::{Hold, More};
