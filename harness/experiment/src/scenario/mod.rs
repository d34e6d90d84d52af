//! Words that experiments are made of, what a run gets from outside, and what an incast gave.

pub(crate) mod context;
mod error;
mod faults;
mod incast;
pub(crate) mod network;
pub(crate) mod outcome;
pub mod parallel;
mod size;
pub mod spec;
pub mod tcp;
pub(crate) mod validate;

pub use context::RunContext;
pub use error::ScenarioError;
pub use incast::{DropCounts, IncastRun, NicRefusals, QueuePeak, TimeoutCounts};
pub use outcome::{Outcome, Recording, Unrecorded};
