//! Words that experiments are made of, what a run gets from outside, and what an incast gave.

mod faults;
pub(crate) mod network;
pub mod outcome;
pub mod parallel;
pub mod spec;
pub mod tcp;
pub(crate) mod validate;

use crate::net::packet::HostId;
use crate::run::RunError;
use narrows::ByteCount;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

pub use outcome::{
    DropCounts, IncastRun, NicRefusals, Outcome, QueuePeak, Recording, TimeoutCounts, Unrecorded,
};

/// What a run gets from outside besides its spec.
///
/// None may change a result: a run that was not cancelled gives the same numbers with and
/// without a capture or a trace.
#[derive(Default)]
pub struct RunContext<'a> {
    /// Set when the user wants the run to stop; look at it every few thousand events.
    pub cancel: Option<&'a AtomicBool>,
    /// Where to write a packet capture (pcapng), if one was asked for. If it cannot be written, the
    /// run goes on without it, and its result says so ([`Unrecorded`]).
    pub capture: Option<&'a mut (dyn io::Write + Send)>,
    /// Whose link the capture is taken on, at the switch.
    pub capture_at: HostId,
    /// How many bytes of each packet the capture keeps; all if `None`.
    pub snap_length: Option<ByteCount>,
    /// Where to write what the connections decide ([`crate::host::trace`]), if it was asked for;
    /// for its errors the same holds.
    pub trace: Option<&'a mut (dyn io::Write + Send)>,
    /// Told now and then, every few thousand events, how much of the run is done, of how much:
    /// bytes or nanoseconds, as the run has it.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
}

impl RunContext<'_> {
    /// Whether the run should stop now, with [`ScenarioError::Cancelled`].
    pub fn cancelled(&self) -> bool {
        self.cancel.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Tell who watches that `done` of `all` is done.
    pub fn report(&self, done: u64, all: u64) {
        if let Some(progress) = self.progress {
            progress(done, all);
        }
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
            Self::Cancelled => f.write_str("interrupted"),
            Self::Internal(what) => write!(f, "internal error, please report it: {what}"),
        }
    }
}

impl std::error::Error for ScenarioError {}

impl From<RunError> for ScenarioError {
    /// Of a spec that was found possible before.
    fn from(e: RunError) -> Self {
        match e {
            RunError::Cancelled => Self::Cancelled,
            RunError::Internal(what) | RunError::Live(what) => Self::Internal(what),
            RunError::Invalid(e) => Self::Internal(e.to_string()),
        }
    }
}
