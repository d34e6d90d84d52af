//! How far a long command is, on standard error: a bar on a terminal, now and then a line
//! elsewhere.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line is where the clock is read"
)]

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
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

impl Watcher {
    /// Who watches standard error.
    pub const fn of(quiet: bool, stderr_terminal: bool) -> Self {
        match (quiet, stderr_terminal) {
            (true, _) => Self::Nobody,
            (false, true) => Self::Terminal,
            (false, false) => Self::Log,
        }
    }
}

/// Between two lines in a log.
const PAUSE: Duration = Duration::from_secs(10);
/// Between two drawings of a bar that nothing has moved, so that the time on it goes on.
const TICK: Duration = Duration::from_secs(1);

/// Counts what is done, and shows it.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    /// What is counted: `runs`.
    noun: &'static str,
    count: usize,
    done: AtomicUsize,
    started: Instant,
    last_line: Option<Mutex<Instant>>,
}

impl Progress {
    /// For `count` things called `noun` that together cost `cost`.
    pub fn new(watcher: Watcher, noun: &'static str, count: usize, cost: u64) -> Self {
        let started = Instant::now();
        let bar = (watcher == Watcher::Terminal).then(|| {
            let bar = ProgressBar::with_draw_target(Some(cost), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template(
                "{bar:24.cyan/dim} {percent:>3}%  {msg}  {elapsed}{left}",
            )
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .with_key("left", |state: &ProgressState, w: &mut dyn Write| {
                // Before the first is done there is nothing to reckon with.
                if state.pos() > 0 {
                    let _ = write!(w, ", {} to go", seconds(state.eta()));
                }
            })
            .with_key("elapsed", |state: &ProgressState, w: &mut dyn Write| {
                let _ = write!(w, "{}", seconds(state.elapsed()));
            })
            .progress_chars("━━─");
            bar.set_style(style);
            bar.set_message(format!("0/{count} {noun}"));
            bar.enable_steady_tick(TICK);
            bar
        });
        let last_line = (watcher == Watcher::Log).then(|| Mutex::new(started));
        Self {
            bar,
            noun,
            count,
            done: AtomicUsize::new(0),
            started,
            last_line,
        }
    }

    /// One of them is done, which cost `cost`.
    pub fn step(&self, cost: u64) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let text = format!("{done}/{} {}", self.count, self.noun);
        if let Some(bar) = &self.bar {
            bar.set_message(text);
            bar.inc(cost);
        } else if let Some(Ok(mut last)) = self.last_line.as_ref().map(Mutex::lock)
            && last.elapsed() >= PAUSE
        {
            *last = Instant::now();
            eprintln!("narrows: {text} in {}", seconds(self.started.elapsed()));
        }
    }

    /// How much time has passed.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Take the bar away; how long it all took.
    pub fn finish(self) -> Duration {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.started.elapsed()
    }
}

/// `12 s`, `3:05 min`.
fn seconds(d: Duration) -> String {
    match d.as_secs() {
        s @ 0..100 => format!("{s} s"),
        s => format!("{}:{:02} min", s / 60, s % 60),
    }
}
