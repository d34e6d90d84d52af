//! Runs the runs of a plan on several threads.

use crate::plan::{Plan, PlannedRun};
use crate::registry::Registry;
use crate::run::{RunError, RunOutcome};
use crate::scenario::RunContext;
use crate::scenario::parallel::{self, Phase, Step};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// What one run costs, as far as anybody knows before: for progress, nothing else.
const COST: u64 = 1_000_000;

/// What is told on the way.
#[derive(Clone, Copy)]
pub struct Listener<'a> {
    /// How far a run is: its number among those to do, of [`total_cost`].
    pub step: &'a (dyn Fn(Step) + Sync),
    /// A run ended. Never called twice at once. Whether to go on.
    pub ended: &'a (dyn Fn(PlannedRun, Result<RunOutcome, RunError>) -> GoOn + Sync),
}

impl std::fmt::Debug for Listener<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoOn {
    /// With the next run.
    Yes,
    /// Begin no other.
    No,
}

/// The cost of so many runs, as [`Listener::step`] counts it.
pub const fn total_cost(runs: usize) -> u64 {
    COST * runs as u64
}

/// Does `runs` in their order on `threads` threads, until done or `cancel` is set. A run that
/// panics is an error of its own. What `first` says of capture and trace is for the first of them.
pub fn execute(
    plan: &Plan,
    registry: &Registry,
    runs: &[PlannedRun],
    threads: usize,
    cancel: &AtomicBool,
    first: RunContext<'_>,
    listener: Listener<'_>,
) {
    let first = Mutex::new(Some(first));
    let one = Mutex::new(());
    let stop = AtomicBool::new(false);
    parallel::each(runs.len(), threads, |index| {
        if stop.load(Ordering::Relaxed) || cancel.load(Ordering::Relaxed) {
            return;
        }
        let run = runs[index];
        let progress = |done, all| {
            (listener.step)(Step {
                index,
                cost: parallel::part(COST, done, all),
                phase: Phase::Running,
            });
        };
        let mut ctx = RunContext {
            cancel: Some(cancel),
            progress: Some(&progress),
            ..RunContext::default()
        };
        if index == 0
            && let Some(first) = first.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            ctx.capture = first.capture.map(|out| out as _);
            ctx.capture_at = first.capture_at;
            ctx.capture_side = first.capture_side;
            ctx.snap_length = first.snap_length;
            ctx.trace = first.trace.map(|out| out as _);
        }
        let outcome = outcome_of(plan, registry, run, ctx);
        let _one = one.lock().unwrap_or_else(PoisonError::into_inner);
        if (listener.ended)(run, outcome) == GoOn::No {
            stop.store(true, Ordering::Relaxed);
        }
        (listener.step)(Step {
            index,
            cost: COST,
            phase: Phase::Ended,
        });
    });
}

/// Does one run; a panic becomes its error.
pub(crate) fn outcome_of(
    plan: &Plan,
    registry: &Registry,
    run: PlannedRun,
    ctx: RunContext<'_>,
) -> Result<RunOutcome, RunError> {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let experiment = plan.experiment(run, registry)?;
        experiment.run(registry, ctx)
    }));
    outcome.unwrap_or_else(|panic| Err(RunError::Internal(parallel::panic_text(panic.as_ref()))))
}
