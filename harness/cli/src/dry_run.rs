//! `narrows run --dry-run`: how many runs there are, how large, and what they would take.
//!
//! Time and memory are measured: some points are run, each for a part of a few seconds. What was
//! not over by then is taken to go on as it did; of what had hardly begun nothing is taken.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line is where the clock is read"
)]

use narrows_experiment::model::Invalid;
use narrows_experiment::plan::{Plan, PlannedRun, Shard};
use narrows_experiment::registry::Registry;
use narrows_experiment::results::Record;
use narrows_experiment::run::RunError;
use narrows_experiment::scenario::RunContext;
use narrows_report::study::runs_in_words;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long all trials take together, about.
const BUDGET: Duration = Duration::from_secs(3);
/// So many points are tried.
const MOST_TRIED: usize = 5;
/// Of less than this share of a run nothing is said of the rest.
const LEAST_SHARE: f64 = 0.002;
/// Of less than this share of a run nothing is said of the memory it comes to need.
const ENOUGH_SHARE: f64 = 0.05;
/// So many points are listed.
const MOST_LISTED: usize = 40;
/// Between two looks at the memory.
const PAUSE: Duration = Duration::from_millis(10);

/// Bytes that the results of a run take until the end, if none was over.
const USUAL_RECORD: u64 = 5_000;

/// What would be run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dry<'a> {
    pub(super) plan: &'a Plan,
    pub(super) registry: &'a Registry,
    pub(super) shard: Shard,
    pub(super) threads: usize,
    /// The user has had enough.
    pub(super) cancel: &'a AtomicBool,
}

/// A point that was tried.
#[derive(Clone, Copy, Debug)]
struct Trial {
    took: Duration,
    /// How far it came, of 1.
    share: f64,
    /// What it needs, where that can be seen.
    memory: Option<Memory>,
    /// What its results take, if it was over.
    record: Option<u64>,
}

/// What a run needs of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Memory {
    /// So much to its end.
    About(u64),
    /// So much until it was cut, which was too early to say more.
    AtLeast(u64),
}

impl Memory {
    const fn bytes(self) -> u64 {
        match self {
            Self::About(n) | Self::AtLeast(n) => n,
        }
    }
}

/// What a run did while it was watched.
#[derive(Clone, Debug)]
struct Watched {
    share: f64,
    looked: Instant,
    /// How far it was, and the memory of the process.
    memory: Vec<(f64, u64)>,
}

impl Watched {
    /// The memory of the process when the run is over, and `last` where it was cut.
    fn at_end(&self, last: u64) -> Memory {
        let most = self.memory.iter().map(|(_, n)| *n).fold(last, u64::max);
        if self.share >= 1.0 {
            return Memory::About(most);
        }
        if self.share < ENOUGH_SHARE {
            return Memory::AtLeast(most);
        }
        // As in the second half of what was seen: at first buffers and tables fill.
        let half = self
            .memory
            .iter()
            .find(|(share, _)| *share >= self.share / 2.0);
        let grown = half.map_or(0, |(_, n)| most.saturating_sub(*n)) as f64;
        let rest = (1.0 - self.share) / (self.share / 2.0);
        Memory::About(most + (grown * rest) as u64)
    }
}

impl Dry<'_> {
    /// What there is to say.
    ///
    /// # Errors
    /// Of the first point that is impossible.
    pub(super) fn text(&self) -> Result<String, Invalid> {
        let plan = self.plan;
        let size = plan.largest(self.registry)?;
        let runs = plan.part(self.shard).count();
        let mut text = runs_in_words(plan) + "\n";
        if runs < plan.runs() {
            text = format!("{runs} runs, shard {} of {}\n", self.shard, plan.runs());
        }
        let _ = writeln!(
            text,
            "largest network: {} hosts, {} ports; a run has at most {} full packets",
            size.hosts, size.ports, size.packets
        );
        text += &self.cost(runs)?;
        if plan.base().sweep.is_empty() {
            return Ok(text);
        }
        for point in 0..plan.points().min(MOST_LISTED) {
            let _ = writeln!(text, "  {}", plan.label(point));
        }
        if plan.points() > MOST_LISTED {
            let _ = writeln!(text, "  and {} more points", plan.points() - MOST_LISTED);
        }
        Ok(text)
    }

    /// Time and memory.
    fn cost(&self, runs: usize) -> Result<String, Invalid> {
        let before = resident();
        let points = self.tried();
        let mut trials: Vec<Trial> = Vec::new();
        let end = Instant::now() + BUDGET;
        for (n, point) in points.iter().enumerate() {
            let left = end.saturating_duration_since(Instant::now());
            let until = Instant::now() + left / (points.len() - n) as u32;
            match self.trial(*point, until)? {
                Ok(trial) => trials.push(trial),
                Err(why) => return Ok(format!("time and memory: a trial failed: {why}\n")),
            }
            if self.cancel.load(Ordering::Relaxed) {
                break;
            }
        }
        let at_once = self.threads.min(runs).max(1);
        let mut text = String::new();
        let tried = Tried {
            trials: &trials,
            points: self.plan.points(),
        };
        let threads = if at_once == 1 { "thread" } else { "threads" };
        let in_all = |each: f64| span(each * runs as f64 / at_once as f64);
        let _ = match tried.seconds() {
            Seconds::About(each) => {
                writeln!(
                    text,
                    "time: about {} on {at_once} {threads} ({tried})",
                    in_all(each)
                )
            }
            Seconds::AtLeast(each) => writeln!(
                text,
                "time: probably more than {} on {at_once} {threads}; runs are too long to say more ({tried})",
                in_all(each)
            ),
        };
        let most = trials.iter().filter_map(|t| t.memory);
        let most = most.max_by_key(|m| m.bytes());
        let early = |t: &Trial| matches!(t.memory, Some(Memory::AtLeast(_)));
        if let (Some(before), Some(most)) = (before, most) {
            let record = trials.iter().filter_map(|t| t.record).max();
            let records = record.unwrap_or(USUAL_RECORD) * runs as u64;
            let all = before + most.bytes() * at_once as u64 + records;
            let about = if trials.iter().any(early) {
                "at least"
            } else {
                "about"
            };
            let _ = writeln!(
                text,
                "memory: {about} {} ({} for each run at once, {} for results, {} for the program)",
                bytes(all),
                bytes(most.bytes()),
                bytes(records),
                bytes(before)
            );
        }
        Ok(text)
    }

    /// Which points are tried: some over all of the sweep, with its ends.
    fn tried(&self) -> Vec<usize> {
        let points = self.plan.points();
        let n = points.min(MOST_TRIED);
        (0..n)
            .map(|i| {
                if n == 1 {
                    0
                } else {
                    i * (points - 1) / (n - 1)
                }
            })
            .collect()
    }

    /// Runs a point until it is over or that time has come; the inner error is why it failed.
    fn trial(&self, point: usize, until: Instant) -> Result<Result<Trial, String>, Invalid> {
        let run = PlannedRun {
            repetition: 0,
            point,
        };
        let experiment = self.plan.experiment(run, self.registry)?;
        let before = resident();
        let begun = Instant::now();
        let enough = AtomicBool::new(false);
        let watched = Mutex::new(Watched {
            share: 0.0,
            looked: begun,
            memory: Vec::new(),
        });
        let progress = |done: u64, all: u64| {
            let now = Instant::now();
            if now >= until || self.cancel.load(Ordering::Relaxed) {
                enough.store(true, Ordering::Relaxed);
            }
            let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
            watched.share = done as f64 / all.max(1) as f64;
            if watched.memory.is_empty() || now >= watched.looked + PAUSE {
                watched.looked = now;
                let at = (watched.share, resident().unwrap_or(0));
                watched.memory.push(at);
            }
        };
        let ctx = RunContext {
            cancel: Some(&enough),
            progress: Some(&progress),
            ..RunContext::default()
        };
        let outcome = experiment.run(self.registry, ctx);
        let took = begun.elapsed();
        // What came of it lies in memory still.
        let after = resident();
        let record = match outcome {
            Ok(outcome) => {
                let record = Record::of(self.plan, run, &outcome, self.registry);
                let metrics = record.metrics.iter();
                let texts = metrics.map(|(name, value)| name.len() + value.len() + 48);
                Some(texts.sum::<usize>() as u64 + 200)
            }
            Err(RunError::Cancelled) => None,
            Err(RunError::Invalid(e)) => return Err(e),
            Err(e) => return Ok(Err(e.to_string())),
        };
        let mut watched = watched.into_inner().unwrap_or_else(PoisonError::into_inner);
        watched.share = match record {
            Some(_) => 1.0,
            None => watched.share.min(1.0),
        };
        let memory = before
            .zip(after)
            .map(|(before, after)| match watched.at_end(after) {
                Memory::About(n) => Memory::About(n.saturating_sub(before)),
                Memory::AtLeast(n) => Memory::AtLeast(n.saturating_sub(before)),
            });
        let share = watched.share;
        Ok(Ok(Trial {
            took,
            share,
            memory,
            record,
        }))
    }
}

/// The trials, for people.
struct Tried<'a> {
    trials: &'a [Trial],
    points: usize,
}

/// The time of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seconds {
    About(f64),
    /// A trial was cut when it had hardly begun.
    AtLeast(f64),
}

impl Tried<'_> {
    /// The mean.
    fn seconds(&self) -> Seconds {
        let n = self.trials.len().max(1) as f64;
        let whole = |t: &Trial| match t.share {
            share if share >= LEAST_SHARE => t.took.as_secs_f64() / share,
            _ => t.took.as_secs_f64(),
        };
        let mean = self.trials.iter().map(whole).sum::<f64>() / n;
        match self.trials.iter().all(|t| t.share >= LEAST_SHARE) {
            true => Seconds::About(mean),
            false => Seconds::AtLeast(mean),
        }
    }
}

impl std::fmt::Display for Tried<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let took: Duration = self.trials.iter().map(|t| t.took).sum();
        let (tried, points) = (self.trials.len(), self.points);
        write!(
            f,
            "tried {tried} of {points} points in {}",
            span(took.as_secs_f64())
        )?;
        let cut = self.trials.iter().filter(|t| t.share < 1.0);
        let cut: Vec<String> = cut.map(|t| format!("{:.1} %", t.share * 100.0)).collect();
        match cut.len() {
            0 => f.write_str(", to the end"),
            n if n == tried => write!(f, ", cut at {}", cut.join(", ")),
            n => write!(f, ", {n} of them cut at {}", cut.join(", ")),
        }
    }
}

/// The memory of this process that is not swapped out; none where the system does not say.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// A time for people, two digits.
fn span(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 1.0 => (s * 1e3, "ms"),
        s if s < 120.0 => (s, "s"),
        s if s < 7_200.0 => (s / 60.0, "min"),
        s if s < 172_800.0 => (s / 3_600.0, "h"),
        s => (s / 86_400.0, "days"),
    };
    format!("{} {unit}", two_digits(value))
}

/// Bytes for people, two digits.
fn bytes(n: u64) -> String {
    let n = n as f64;
    match n {
        n if n >= 1e9 => format!("{} GB", two_digits(n / 1e9)),
        n if n >= 1e6 => format!("{} MB", two_digits(n / 1e6)),
        n => format!("{} kB", two_digits(n / 1e3)),
    }
}

fn two_digits(x: f64) -> String {
    match x {
        x if x < 10.0 => format!("{x:.1}"),
        x if x < 100.0 => format!("{x:.0}"),
        x => format!("{:.0}", (x / 10.0).round() * 10.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_digits_are_enough() {
        for (seconds, text) in [
            (0.0034, "3.4 ms"),
            (0.25, "250 ms"),
            (12.4, "12 s"),
            (3_000.0, "50 min"),
            (40_000.0, "11 h"),
            (400_000.0, "4.6 days"),
        ] {
            assert_eq!(span(seconds), text);
        }
        assert_eq!(
            (bytes(5_000), bytes(12_300_000)),
            ("5.0 kB".into(), "12 MB".into())
        );
    }

    #[test]
    fn what_was_cut_goes_on_as_it_began() {
        let trial = |share, millis| Trial {
            took: Duration::from_millis(millis),
            share,
            memory: None,
            record: None,
        };
        let tried = |trials: &[Trial]| Tried { trials, points: 9 }.seconds();
        let about = Seconds::About(1.25);
        assert_eq!(tried(&[trial(1.0, 500), trial(0.25, 500)]), about);
        let at_least = Seconds::AtLeast(0.5);
        assert_eq!(tried(&[trial(1.0, 500), trial(0.0, 500)]), at_least);
        let trials = [trial(1.0, 500), trial(0.25, 500)];
        let text = Tried {
            trials: &trials,
            points: 9,
        }
        .to_string();
        assert_eq!(
            text,
            "tried 2 of 9 points in 1.0 s, 1 of them cut at 25.0 %"
        );
    }

    #[test]
    fn memory_grows_on_as_it_did_last() {
        let watched = |share| Watched {
            share,
            looked: Instant::now(),
            memory: vec![(0.0, 10), (0.1, 50), (0.2, 60)],
        };
        // 10 in a tenth, and eight tenths are left.
        assert_eq!(watched(0.2).at_end(60), Memory::About(140));
        assert_eq!(watched(1.0).at_end(70), Memory::About(70));
        assert_eq!(watched(0.02).at_end(60), Memory::AtLeast(60));
    }
}
