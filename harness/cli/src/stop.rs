//! How a command ends: its exit codes, and why one stops short.

use crate::output::OutputError;
use clap::error::ErrorKind;
use narrows_experiment::results::FolderError;

/// All went well.
pub const EXIT_OK: u8 = 0;
/// A run failed, or a result could not be written.
pub const EXIT_FAILED: u8 = 1;
/// The options make no sense.
pub const EXIT_USAGE: u8 = 2;
/// Ctrl-C; what was finished has been reported.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Why a command stopped short.
pub(crate) enum Stop {
    /// As clap words it.
    Usage(clap::Error),
    /// A result could not be written.
    Output(OutputError),
    /// Something else could not be done.
    Failed(String),
    /// What was given cannot be; the text says it all.
    Wrong(String),
}

impl From<OutputError> for Stop {
    fn from(e: OutputError) -> Self {
        Self::Output(e)
    }
}

impl From<FolderError> for Stop {
    fn from(e: FolderError) -> Self {
        Self::Failed(e.to_string())
    }
}

/// A usage error in clap's words: the option, the value, why not.
pub(crate) fn usage(option: &str, given: &str, why: &str) -> Stop {
    let text = format!("invalid value '{given}' for '--{option}': {why}\n");
    Stop::Usage(clap::Error::raw(ErrorKind::InvalidValue, text))
}
