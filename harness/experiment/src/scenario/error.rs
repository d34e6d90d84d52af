//! Why words make no scenario.

use crate::run::RunError;
use std::fmt;

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
