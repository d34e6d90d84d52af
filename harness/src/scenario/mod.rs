//! Experiments: what to run, what came out, and how to vary it.

mod faults;
pub mod flows;
pub mod incast;
mod network;
pub mod outcome;
pub mod parallel;
pub mod spec;
pub mod sweep;
pub(crate) mod tcp;
mod validate;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

pub use outcome::{DropCounts, IncastRun, Outcome, QueuePeak, TimeoutCounts};
pub use spec::IncastSpec;
pub use sweep::{Axis, PlannedRun, Setting, SweepSpec, Variant};
pub use validate::MAX_SERVERS;

/// What a run gets from outside besides its spec.
///
/// None may change a result: a run that was not cancelled gives the same numbers with and
/// without a capture or a trace.
#[derive(Default)]
pub struct RunContext<'a> {
    /// Set when the user wants the run to stop; look at it every few thousand events.
    pub cancel: Option<&'a AtomicBool>,
    /// Where to write a packet capture (pcapng), if one was asked for. A run whose capture or
    /// trace ended in an error gives no result: a writer that is to look on, and no more, keeps its
    /// errors to itself.
    pub capture: Option<&'a mut (dyn io::Write + Send)>,
    /// Where to write what the connections decide ([`crate::host::trace`]), if it was asked for.
    pub trace: Option<&'a mut (dyn io::Write + Send)>,
}

impl RunContext<'_> {
    /// Whether the run should stop now, with [`ScenarioError::Cancelled`].
    pub fn cancelled(&self) -> bool {
        self.cancel.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for RunContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext")
            .field("cancelled", &self.cancelled())
            .field("capture", &self.capture.is_some())
            .field("trace", &self.trace.is_some())
            .finish()
    }
}

/// Runs one incast. Closures are runners.
pub trait IncastRunner: Sync {
    /// Simulate `spec` to its end.
    ///
    /// # Errors
    /// When the spec cannot be run, the capture cannot be written, or the run was cancelled. A
    /// run that hits its time limit is not an error but an [`Outcome`].
    fn run(&self, spec: &IncastSpec, ctx: RunContext<'_>) -> Result<IncastRun, ScenarioError>;
}

impl<F> IncastRunner for F
where
    F: Fn(&IncastSpec, RunContext<'_>) -> Result<IncastRun, ScenarioError> + Sync,
{
    fn run(&self, spec: &IncastSpec, ctx: RunContext<'_>) -> Result<IncastRun, ScenarioError> {
        self(spec, ctx)
    }
}

/// Why a run gave no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum ScenarioError {
    /// A value is out of its range, or contradicts another.
    Invalid {
        /// The option's name without dashes: `"mss"`.
        option: &'static str,
        /// What was given.
        given: String,
        /// What is allowed.
        allowed: String,
    },
    /// A name that no registry knows.
    UnknownName {
        /// The option's name without dashes: `"cc"`.
        option: &'static str,
        /// What was given.
        given: String,
    },
    /// The capture could not be written.
    Capture(io::Error),
    /// The trace could not be written.
    Trace(io::Error),
    /// The user interrupted the run.
    Cancelled,
    /// The run broke one of the simulator's own rules; always a bug.
    Internal(String),
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid {
                option,
                given,
                allowed,
            } => {
                write!(f, "--{option}: {given} is not possible: {allowed}")
            }
            Self::UnknownName { option, given } => {
                write!(
                    f,
                    "--{option}: nothing is called '{given}'; see `narrows list`"
                )
            }
            Self::Capture(e) => write!(f, "cannot write the capture: {e}"),
            Self::Trace(e) => write!(f, "cannot write the trace: {e}"),
            Self::Cancelled => f.write_str("interrupted"),
            Self::Internal(what) => write!(f, "internal error, please report it: {what}"),
        }
    }
}

impl std::error::Error for ScenarioError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Capture(e) | Self::Trace(e) => Some(e),
            _ => None,
        }
    }
}
