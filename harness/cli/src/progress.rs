//! How far a long command is, on standard error: a bar on a terminal, now and then a line
//! elsewhere.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line is where the clock is read"
)]

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use narrows_experiment::scenario::parallel::{Phase, Step};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    done: Arc<AtomicUsize>,
    /// What all of them cost.
    cost: u64,
    spent: Mutex<Spent>,
    started: Instant,
    last_line: Option<Mutex<Instant>>,
}

/// What is done, by cost.
#[derive(Debug, Default)]
struct Spent {
    /// Of all.
    total: u64,
    /// Of those under way, by number.
    under_way: BTreeMap<usize, u64>,
}

impl Progress {
    /// For `count` things called `noun` that together cost `cost`.
    pub fn new(watcher: Watcher, noun: &'static str, count: usize, cost: u64) -> Self {
        let started = Instant::now();
        let done = Arc::new(AtomicUsize::new(0));
        let bar = (watcher == Watcher::Terminal).then(|| {
            let target = ProgressDrawTarget::stderr();
            let bar = bar(target, noun, count, cost, Arc::clone(&done));
            bar.enable_steady_tick(TICK);
            bar
        });
        let last_line = (watcher == Watcher::Log).then(|| Mutex::new(started));
        Self {
            bar,
            noun,
            count,
            done,
            cost,
            spent: Mutex::default(),
            started,
            last_line,
        }
    }

    /// One of them is done, which cost `cost`.
    pub fn step(&self, cost: u64) {
        self.spent(|spent| spent.total = spent.total.saturating_add(cost));
        self.done.fetch_add(1, Ordering::Relaxed);
        self.show();
    }

    /// A run of a sweep has come so far.
    pub fn of(&self, step: Step) {
        match step.phase {
            Phase::Running => self.within(step.index, step.cost),
            Phase::Ended => self.ended(step.index, step.cost),
        }
    }

    /// Number `index` is under way, and `cost` of it done.
    pub fn within(&self, index: usize, cost: u64) {
        self.spent(|spent| spent.move_to(index, cost));
        self.show();
    }

    /// Number `index`, which cost `cost`, is done.
    pub fn ended(&self, index: usize, cost: u64) {
        self.spent(|spent| {
            spent.move_to(index, cost);
            spent.under_way.remove(&index);
        });
        self.done.fetch_add(1, Ordering::Relaxed);
        self.show();
    }

    fn spent<T>(&self, change: impl FnOnce(&mut Spent) -> T) -> T {
        change(&mut self.spent.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn show(&self) {
        let text = || {
            let done = self.done.load(Ordering::Relaxed);
            format!("{done}/{} {}", self.count, self.noun)
        };
        if let Some(bar) = &self.bar {
            bar.set_message(text());
            bar.set_position(self.spent(|spent| spent.total));
        } else if let Some(Ok(mut last)) = self.last_line.as_ref().map(Mutex::lock)
            && last.elapsed() >= PAUSE
        {
            *last = Instant::now();
            eprintln!("narrows: {}", self.line(&text(), self.started.elapsed()));
        }
    }

    /// `3/90 runs, 41 %, in 35 s, 5.1 runs/min`.
    fn line(&self, text: &str, took: Duration) -> String {
        let spent = self.spent(|spent| u128::from(spent.total));
        let percent = spent * 100 / u128::from(self.cost.max(1));
        let mut line = format!("{text}, {percent} %, in {}", seconds(took));
        if let Some(rate) = rate(self.done.load(Ordering::Relaxed), took, self.noun) {
            line += ", ";
            line += &rate;
        }
        line
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

impl Spent {
    /// Of number `index`, `cost` is done.
    fn move_to(&mut self, index: usize, cost: u64) {
        let before = self.under_way.insert(index, cost).unwrap_or(0);
        self.total = self.total.saturating_sub(before).saturating_add(cost);
    }
}

/// The bar: percent of the cost, how many are `done`, at which rate, and how long the rest takes.
fn bar(
    target: ProgressDrawTarget,
    noun: &'static str,
    count: usize,
    cost: u64,
    done: Arc<AtomicUsize>,
) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(cost), target);
    let template = "{bar:24.cyan/dim} {percent:>3}%  {msg}{rate}  {elapsed}{left}";
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("rate", move |state: &ProgressState, w: &mut dyn Write| {
            let done = done.load(Ordering::Relaxed);
            if let Some(rate) = rate(done, state.elapsed(), noun) {
                let _ = write!(w, ", {rate}");
            }
        })
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
    bar
}

/// `12.3 runs/s`, in the unit of time that makes it at least one; nothing before the first is done.
fn rate(done: usize, took: Duration, noun: &str) -> Option<String> {
    let took = took.as_secs_f64();
    if done == 0 || took <= 0.0 {
        return None;
    }
    let per_second = done as f64 / took;
    let (rate, unit) = match per_second {
        r if r >= 1.0 => (r, "s"),
        r if r >= 1.0 / 60.0 => (r * 60.0, "min"),
        r => (r * 3_600.0, "h"),
    };
    Some(match rate {
        100.0.. => format!("{rate:.0} {noun}/{unit}"),
        _ => format!("{rate:.1} {noun}/{unit}"),
    })
}

/// `12 s`, `3:05 min`.
fn seconds(d: Duration) -> String {
    match d.as_secs() {
        s @ 0..100 => format!("{s} s"),
        s => format!("{}:{:02} min", s / 60, s % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;

    #[test]
    fn rates_of_fast_and_slow_runs() {
        let of = |done, millis| rate(done, Duration::from_millis(millis), "runs");
        for (done, millis, text) in [
            (1_234, 1_000, "1234 runs/s"),
            (7, 2_000, "3.5 runs/s"),
            (1, 8_000, "7.5 runs/min"),
            (2, 3_600_000, "2.0 runs/h"),
        ] {
            assert_eq!(of(done, millis).as_deref(), Some(text));
        }
        assert_eq!(of(0, 1_000), None);
        assert_eq!(of(1, 0), None);
    }

    /// A terminal that remembers what was written.
    #[derive(Clone, Debug, Default)]
    struct Seen(Arc<Mutex<String>>);

    impl TermLike for Seen {
        fn width(&self) -> u16 {
            120
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A long run moves before it ends, and counts once.
    #[test]
    fn a_run_under_way_counts_for_what_is_done_of_it() {
        let progress = Progress::new(Watcher::Nobody, "runs", 2, 200);
        let line = || progress.line("x", Duration::from_secs(20));
        assert_eq!(line(), "x, 0 %, in 20 s");
        progress.within(1, 40);
        progress.within(0, 10);
        progress.within(1, 60);
        assert_eq!(line(), "x, 35 %, in 20 s");
        progress.ended(1, 100);
        assert_eq!(line(), "x, 55 %, in 20 s, 3.0 runs/min");
        progress.ended(0, 100);
        assert_eq!(line(), "x, 100 %, in 20 s, 6.0 runs/min");
    }

    #[test]
    fn the_bar_tells_count_rate_and_time_left() {
        let seen = Seen::default();
        let target = ProgressDrawTarget::term_like(Box::new(seen.clone()));
        let done = Arc::new(AtomicUsize::new(3));
        let bar = bar(target, "runs", 9, 90, Arc::clone(&done));
        bar.set_message("3/9 runs");
        bar.set_position(30);
        bar.force_draw();
        let text = seen.0.lock().unwrap().clone();
        for part in ["33%", "3/9 runs, ", " runs/", " to go"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
