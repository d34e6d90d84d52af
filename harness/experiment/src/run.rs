//! One run of an experiment.

mod changes;
mod prepare;
mod simulate;

pub use crate::registry::Live;
pub use narrows_run::error::RunError;
pub use narrows_run::outcome::{FlowOutcome, HostOutcome, Opening, PortOutcome, RunOutcome};
pub use prepare::{Prepared, Size};

#[cfg(test)]
mod tests;
