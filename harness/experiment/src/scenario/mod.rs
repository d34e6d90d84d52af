//! Words that experiments are made of, what a run gets from outside, and what an incast gave.

mod error;
mod incast;
pub(crate) mod network;
pub mod parallel;
pub mod tcp;
pub(crate) mod validate;

pub use error::ScenarioError;
pub use incast::{DropCounts, IncastRun, NicRefusals, QueuePeak, TimeoutCounts};
pub use narrows_run::context::RunContext;
pub use narrows_run::ended::{Outcome, Recording, Unrecorded};
pub use narrows_run::spec;
