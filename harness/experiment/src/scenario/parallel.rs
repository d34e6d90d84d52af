//! Runs a sweep on several threads.
//!
//! Workers take the costliest run that is left, so that no core ends up alone with a long one;
//! a shared counter does that in order, which a work-stealing pool would not. Results stand in
//! the order of the plan, whichever thread had them when.

use super::spec::Length;
use super::{IncastRun, IncastRunner, IncastSpec, PlannedRun, RunContext, ScenarioError};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What became of a sweep.
#[derive(Debug, Default)]
pub struct SweepResults {
    /// For each planned run its result; `None` if it failed or was not reached.
    pub runs: Vec<Option<IncastRun>>,
    /// Failed runs by their index in the plan, ascending. A cancelled run is no failure.
    pub failures: Vec<(usize, ScenarioError)>,
}

/// Tells how far a sweep is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the run.
    pub index: usize,
    /// What is done of its [`cost`]; all once it ended.
    pub cost: u64,
    /// How far it is.
    pub phase: Phase,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Under way.
    Running,
    /// It ended, well or not.
    Ended,
}

/// Run all of `planned` on `threads` threads until done, or until `cancel` is set.
///
/// `on_step` is called from the workers now and then during a run, if the runner tells how far it
/// is, and after each, failed ones included. A run that panics counts as failed and takes no other
/// with it.
pub fn run_sweep(
    planned: &[PlannedRun],
    runner: &dyn IncastRunner,
    threads: usize,
    cancel: &AtomicBool,
    on_step: &(dyn Fn(Step) + Sync),
) -> SweepResults {
    let mut order: Vec<usize> = (0..planned.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(cost(&planned[i].spec)));
    let done: Mutex<Vec<(usize, Result<IncastRun, ScenarioError>)>> = Mutex::new(Vec::new());
    each(order.len(), threads, |nth| {
        if cancel.load(Ordering::Relaxed) {
            return;
        }
        let index = order[nth];
        let spec = &planned[index].spec;
        let progress = |done, all| {
            on_step(Step {
                index,
                cost: part(cost(spec), done, all),
                phase: Phase::Running,
            });
        };
        let ctx = RunContext {
            cancel: Some(cancel),
            progress: Some(&progress),
            ..RunContext::default()
        };
        let result = guarded(runner, spec, ctx);
        done.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((index, result));
        on_step(Step {
            index,
            cost: cost(spec),
            phase: Phase::Ended,
        });
    });
    let mut results = SweepResults {
        runs: planned.iter().map(|_| None).collect(),
        failures: Vec::new(),
    };
    for (index, result) in done.into_inner().unwrap_or_else(PoisonError::into_inner) {
        match result {
            Ok(run) => results.runs[index] = Some(run),
            Err(ScenarioError::Cancelled) => {}
            Err(e) => results.failures.push((index, e)),
        }
    }
    results.failures.sort_by_key(|(index, _)| *index);
    results
}

/// Does `work` for each number below `count`, on so many threads: each takes the next one that is
/// left.
pub fn each(count: usize, threads: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let worker = || {
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= count {
                break;
            }
            work(nth);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(worker);
        }
        worker();
    });
}

/// One run; a panic becomes [`ScenarioError::Internal`].
///
/// # Errors
/// Those of the runner.
pub fn guarded(
    runner: &dyn IncastRunner,
    spec: &IncastSpec,
    ctx: RunContext<'_>,
) -> Result<IncastRun, ScenarioError> {
    catch_unwind(AssertUnwindSafe(|| runner.run(spec, ctx)))
        .unwrap_or_else(|panic| Err(ScenarioError::Internal(panic_text(panic.as_ref()))))
}

/// What a thread said when it panicked.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic".to_owned())
}

/// About how much work a run is: its payload bytes. For order and progress, nothing else.
pub fn cost(spec: &IncastSpec) -> u64 {
    let payload = match spec.length {
        Length::Blocks { blocks, .. } => spec
            .block
            .total(spec.servers)
            .get()
            .saturating_mul(u64::from(blocks)),
        Length::Time(t) => spec.net.link_rate.bytes_in(t).get(),
    };
    payload.max(1)
}

/// Of `cost`, what `done` of `all` is.
pub fn part(cost: u64, done: u64, all: u64) -> u64 {
    let (done, all) = (u128::from(done.min(all)), u128::from(all.max(1)));
    (u128::from(cost) * done / all) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Axis, Setting, SweepSpec};
    use narrows::Rate;

    fn plan() -> Vec<PlannedRun> {
        let sweep = SweepSpec {
            base: IncastSpec::default(),
            servers: vec![1, 2, 4, 8, 16],
            axes: vec![Axis::new(vec![
                Setting::InitialWindow(1),
                Setting::InitialWindow(10),
            ])],
            repetitions: 4,
        };
        sweep.expand().unwrap()
    }

    fn fake(spec: &IncastSpec, _: RunContext<'_>) -> Result<IncastRun, ScenarioError> {
        let value = u64::from(spec.servers) + spec.seed % 1_000;
        Ok(IncastRun {
            goodput: Rate::from_bits_per_sec(value),
            ..IncastRun::default()
        })
    }

    #[test]
    fn results_do_not_depend_on_the_threads() {
        let plan = plan();
        let run = |threads| run_sweep(&plan, &fake, threads, &AtomicBool::new(false), &|_| {}).runs;
        let one = run(1);
        assert!(one.iter().all(Option::is_some));
        assert_eq!(one, run(2));
        assert_eq!(one, run(7));
        assert_eq!(one, run(1_000));
        assert_eq!(one[4].as_ref().unwrap().goodput.bits_per_sec(), 2 + 1);
    }

    #[test]
    fn cancelling_keeps_what_is_finished() {
        let plan = plan();
        let cancel = AtomicBool::new(false);
        let count = AtomicUsize::new(0);
        let results = run_sweep(&plan, &fake, 1, &cancel, &|step| {
            assert_eq!(step.phase, Phase::Ended, "it tells nothing on the way");
            if count.fetch_add(1, Ordering::Relaxed) == 6 {
                cancel.store(true, Ordering::Relaxed);
            }
        });
        assert_eq!(results.runs.iter().flatten().count(), 7);
        assert!(results.failures.is_empty());
    }

    #[test]
    fn a_run_that_tells_how_far_it_is_is_passed_on() {
        let plan = plan();
        let halves = |spec: &IncastSpec, ctx: RunContext<'_>| {
            ctx.report(2, 4);
            ctx.report(9, 4);
            fake(spec, ctx)
        };
        let seen = Mutex::new(Vec::new());
        run_sweep(&plan[..1], &halves, 1, &AtomicBool::new(false), &|step| {
            seen.lock().unwrap().push((step.cost, step.phase));
        });
        let all = cost(&plan[0].spec);
        let steps = [
            (all / 2, Phase::Running),
            (all, Phase::Running),
            (all, Phase::Ended),
        ];
        assert_eq!(*seen.lock().unwrap(), steps);
    }

    #[test]
    fn a_run_that_panics_takes_no_other_with_it() {
        let plan = plan();
        let runner = |spec: &IncastSpec, ctx: RunContext<'_>| {
            assert!(spec.servers != 4, "four is too many");
            fake(spec, ctx)
        };
        let results = run_sweep(&plan, &runner, 2, &AtomicBool::new(false), &|_| {});
        assert_eq!(results.runs.iter().flatten().count(), 32);
        assert_eq!(results.failures.len(), 8);
        assert!(results.failures.windows(2).all(|w| w[0].0 < w[1].0));
        assert!(
            results.failures[0]
                .1
                .to_string()
                .contains("four is too many")
        );
    }
}
