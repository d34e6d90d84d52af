//! Why a folder of results cannot be used.

use super::layout::EXPERIMENT;
use crate::version;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a folder cannot be used.
#[derive(Debug)]
pub enum FolderError {
    /// The system says so.
    Io {
        /// What was tried: `write`.
        what: &'static str,
        /// Of which file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Another process writes it.
    InUse(PathBuf),
    /// There is something else in it.
    Foreign(PathBuf),
    /// It has the results of another experiment.
    Other {
        /// The folder.
        path: PathBuf,
        /// Keys that are different, with the value there and here.
        differences: Vec<(String, String, String)>,
    },
    /// It was written by another version.
    Version {
        /// The folder.
        path: PathBuf,
        /// That version, if its experiment says one.
        found: Option<String>,
    },
    /// Its experiment, or a file of it, cannot be read: where and why.
    Experiment(String),
    /// A line of it cannot be.
    Broken {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, path, error } => {
                write!(f, "cannot {what} {}: {error}", path.display())?;
                if error.kind() == io::ErrorKind::StorageFull {
                    f.write_str("; what was finished is whole: make room and run it again")?;
                }
                Ok(())
            }
            Self::InUse(path) => write!(
                f,
                "another process writes to {}: wait for it, or give another --out",
                path.display()
            ),
            Self::Foreign(path) => write!(
                f,
                "{} is not empty and has no {EXPERIMENT}: give another --out",
                path.display()
            ),
            Self::Other { path, differences } => {
                write!(
                    f,
                    "{} has the results of another experiment: give another --out, or the same values",
                    path.display()
                )?;
                for (key, there, here) in differences.iter().take(8) {
                    write!(f, "\n  {key}: {there} there, {here} here")?;
                }
                let more = differences.len().saturating_sub(8);
                if more > 0 {
                    write!(f, "\n  and {more} more")?;
                }
                Ok(())
            }
            Self::Version { path, found } => match found {
                Some(found) => write!(
                    f,
                    "{} was written by narrows {found}, and this is {}: their numbers may differ; \
                     give another --out",
                    path.display(),
                    version::text()
                ),
                None => write!(
                    f,
                    "{} has an experiment.toml that does not say which narrows wrote it: give \
                     another --out",
                    path.display()
                ),
            },
            Self::Experiment(what) => {
                write!(f, "{what}\nthe folder was changed from outside")
            }
            Self::Broken { path, line } => write!(
                f,
                "line {line} of {} cannot be read, and others follow it: the folder was changed \
                 from outside",
                path.display()
            ),
        }
    }
}

impl std::error::Error for FolderError {}

pub(super) fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |error| FolderError::Io { what, path, error }
}
