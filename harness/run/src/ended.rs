//! How a run ended, and what could not be written of it.

use std::fmt;
use std::io;

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// All blocks done, or the asked-for time simulated.
    #[default]
    Completed,
    /// The time limit came before the last block; the numbers describe what was done by then.
    TimeLimit,
    /// Nothing was left to happen although data was outstanding.
    Stalled,
    /// A connection gave up or was reset.
    ConnectionLost,
    /// The TCP delivered bytes other than those that were sent: a bug, and nothing else about the
    /// run can be trusted.
    CorruptData,
}

impl Outcome {
    /// The name in JSON and CSV.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::TimeLimit => "time-limit",
            Self::Stalled => "stalled",
            Self::ConnectionLost => "connection-lost",
            Self::CorruptData => "corrupt-data",
        }
    }
}

/// What a run was to write besides its result, and could not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrecorded {
    /// Which.
    pub what: Recording,
    /// The error's kind.
    pub kind: io::ErrorKind,
    /// The error in words.
    pub why: String,
}

/// What a run writes besides its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recording {
    /// The capture.
    Capture,
    /// The trace.
    Trace,
}

impl Unrecorded {
    /// `what` could not be written because of `error`.
    pub fn new(what: Recording, error: &io::Error) -> Self {
        Self {
            what,
            kind: error.kind(),
            why: error.to_string(),
        }
    }
}

impl fmt::Display for Unrecorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            Recording::Capture => "capture",
            Recording::Trace => "trace",
        };
        write!(f, "cannot write the {what}: {}", self.why)
    }
}
