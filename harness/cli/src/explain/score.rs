//! `narrows explain --score`: how often explanations are right.

use super::super::output::{self, OutputFile};
use super::super::progress::Watcher;
use super::super::{Console, EXIT_INTERRUPTED, EXIT_OK, Stop};
use narrows_experiment::registry::Registry;
use narrows_explain::simulated::{grid, held_out, page, score};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// Between two words of the progress, in runs.
const STEP: usize = 50;

pub(super) fn run(
    runs: Option<usize>,
    docs: Option<&Path>,
    quiet: bool,
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let grids = [grid(runs), held_out(runs)];
    let all: usize = grids.iter().map(Vec::len).sum();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let shows = Watcher::of(quiet, console.stderr_terminal) == Watcher::Terminal;
    let stderr = Mutex::new(std::io::stderr());
    let cancel = console.cancel;
    let run = |cases: &[_], before: usize| {
        score(cases, &Registry::default(), threads, cancel, |done| {
            let done = before + done;
            if shows
                && done.is_multiple_of(STEP)
                && let Ok(mut stderr) = stderr.lock()
            {
                let _ = write!(stderr, "\r{done} of {all} runs");
            }
        })
        .map_err(Stop::Failed)
    };
    let score = run(&grids[0], 0)?;
    let held_out = run(&grids[1], grids[0].len())?;
    if shows {
        output::print(console.stderr, "\r\x1b[K")?;
    }
    let text = page(&score, &held_out, runs);
    match docs {
        Some(path) => OutputFile::create("docs", path)?.finish_with(text.as_bytes())?,
        None => output::print(console.stdout, &text)?,
    }
    match cancel.load(Ordering::Relaxed) {
        true => Ok(EXIT_INTERRUPTED),
        false => Ok(EXIT_OK),
    }
}
