//! One run of an experiment.

mod changes;
pub(crate) mod error;
pub(crate) mod outcome;
mod prepare;
mod simulate;
mod trace;
mod tracers;
mod watch;

pub use crate::registry::Live;
pub use error::RunError;
pub use outcome::{FlowOutcome, HostOutcome, Opening, PortOutcome, RunOutcome};
pub use prepare::{Prepared, Size};

#[cfg(test)]
mod tests;
