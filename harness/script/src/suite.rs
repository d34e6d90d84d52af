//! Many scripts: finds them in folders and runs them on several threads.

use super::{Options, Report, run};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Why there is nothing to run.
#[derive(Debug)]
pub enum SuiteError {
    /// A file or folder cannot be read.
    Io(PathBuf, io::Error),
    /// A folder without a script.
    Empty(PathBuf),
}

impl fmt::Display for SuiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, e) => write!(f, "cannot read {}: {e}", path.display()),
            Self::Empty(path) => write!(f, "no .pkt file in {}", path.display()),
        }
    }
}
impl std::error::Error for SuiteError {}

/// The scripts that `paths` name: files as they are, folders with all `.pkt` files in them,
/// by name.
///
/// # Errors
/// A path that cannot be read, or a folder without scripts.
pub fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, SuiteError> {
    let mut out = Vec::new();
    for path in paths {
        let meta = std::fs::metadata(path).map_err(|e| SuiteError::Io(path.clone(), e))?;
        if !meta.is_dir() {
            out.push(path.clone());
            continue;
        }
        let before = out.len();
        walk(path, 0, &mut out)?;
        if out.len() == before {
            return Err(SuiteError::Empty(path.clone()));
        }
    }
    Ok(out)
}

/// Folders within folders; links that go round end here.
const MAX_DEPTH: usize = 32;

fn walk(folder: &Path, depth: usize, out: &mut Vec<PathBuf>) -> Result<(), SuiteError> {
    let failed = |e| SuiteError::Io(folder.to_owned(), e);
    let mut inside = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        inside.push(entry.map_err(failed)?.path());
    }
    inside.sort();
    for path in inside {
        if path.is_dir() && depth < MAX_DEPTH {
            walk(&path, depth + 1, out)?;
        } else if path.extension().is_some_and(|e| e == "pkt") {
            out.push(path);
        }
    }
    Ok(())
}

/// Run the scripts on `threads` threads, until done or `cancel` is set. Their reports stand in the
/// order of `files`, whichever thread had them when.
///
/// # Errors
/// A file that cannot be read.
pub fn run_all(
    files: &[PathBuf],
    options: &Options,
    threads: usize,
    cancel: &AtomicBool,
) -> Result<Vec<Report>, SuiteError> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<Report, SuiteError>)>> = Mutex::new(Vec::new());
    let worker = || {
        while !cancel.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = files.get(index) else {
                break;
            };
            let report = one(path, options);
            done.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((index, report));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(files.len()) {
            scope.spawn(worker);
        }
        worker();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, report)| report).collect()
}

/// One script; a panic is a failure of it and takes no other with it.
fn one(path: &Path, options: &Options) -> Result<Report, SuiteError> {
    let bytes = std::fs::read(path).map_err(|e| SuiteError::Io(path.to_owned(), e))?;
    let source = String::from_utf8_lossy(&bytes).into_owned();
    let name = path.display().to_string();
    let report = catch_unwind(AssertUnwindSafe(|| run(&name, &source, options)));
    Ok(report.unwrap_or_else(|_| Report {
        file: name,
        source,
        failure: Some(super::Diagnostic::mismatch(
            super::ast::Span::default(),
            "the runner broke: a bug in narrows",
        )),
        transcript: Vec::new(),
        printed: Vec::new(),
        steps: 0,
        time: narrows::Duration::ZERO,
    }))
}
