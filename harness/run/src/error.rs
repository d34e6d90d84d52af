//! Why a run gave no result.

use crate::invalid::Invalid;
use std::fmt;

/// Why a run gave no result.
#[derive(Debug)]
pub enum RunError {
    /// The experiment is impossible.
    Invalid(Invalid),
    /// The user interrupted it.
    Cancelled,
    /// It broke one of the simulator's own rules; always a bug.
    Internal(String),
    /// A live place could not do it.
    Live(String),
}

impl From<Invalid> for RunError {
    fn from(e: Invalid) -> Self {
        Self::Invalid(e)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(e) => e.fmt(f),
            Self::Cancelled => f.write_str("interrupted"),
            Self::Live(what) => f.write_str(what),
            Self::Internal(what) => write!(f, "internal error, please report it: {what}"),
        }
    }
}

impl std::error::Error for RunError {}
