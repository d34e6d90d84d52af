//! How far a sweep is, on standard error: a bar on a terminal, now and then a line elsewhere.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line is where the clock is read"
)]

use crate::scenario::parallel::Step;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watcher {
    /// Nobody.
    Nobody,
    /// Somebody at a terminal.
    Terminal,
    /// A log: lines with long pauses.
    Log,
}

/// Between two lines in a log.
const PAUSE: Duration = Duration::from_secs(10);

/// Counts runs, and shows them.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    runs: usize,
    done: AtomicUsize,
    started: Instant,
    last_line: Option<Mutex<Instant>>,
}

impl Progress {
    /// For `runs` runs that together cost `cost`.
    pub fn new(watcher: Watcher, runs: usize, cost: u64) -> Self {
        let started = Instant::now();
        let bar = (watcher == Watcher::Terminal).then(|| {
            let bar = ProgressBar::with_draw_target(Some(cost), ProgressDrawTarget::stderr());
            let style =
                ProgressStyle::with_template("{bar:32.cyan/dim} {percent:>3}%  {msg}  ETA {eta}")
                    .unwrap_or_else(|_| ProgressStyle::default_bar())
                    .progress_chars("━━─");
            bar.set_style(style);
            bar.set_message(format!("0/{runs} runs"));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        let last_line = (watcher == Watcher::Log).then(|| Mutex::new(started));
        Self {
            bar,
            runs,
            done: AtomicUsize::new(0),
            started,
            last_line,
        }
    }

    /// A run ended.
    pub fn step(&self, step: Step) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let rate = done as f64 / self.started.elapsed().as_secs_f64().max(1e-3);
        let text = format!("{done}/{} runs  {rate:.1} runs/s", self.runs);
        if let Some(bar) = &self.bar {
            bar.set_message(text);
            bar.inc(step.cost);
        } else if let Some(Ok(mut last)) = self.last_line.as_ref().map(Mutex::lock)
            && last.elapsed() >= PAUSE
        {
            *last = Instant::now();
            eprintln!("narrows: {text}");
        }
    }

    /// Take the bar away; how long it all took.
    pub fn finish(self) -> Duration {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.started.elapsed()
    }
}
