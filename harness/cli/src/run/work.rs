//! Does the runs, and keeps what comes of them.

use super::super::files::Scratch;
use super::super::progress::{Progress, Watcher};
use super::super::{Console, Stop};
use super::{Options, threads};
use narrows_experiment::execute::{GoOn, Listener, execute, total_cost};
use narrows_experiment::plan::{Plan, PlannedRun};
use narrows_experiment::registry::Registry;
use narrows_experiment::results::{Folder, Record};
use narrows_experiment::run::RunError;
use narrows_experiment::scenario::RunContext;
use std::path::Path;
use std::sync::Mutex;

/// Where the runs are kept.
pub(super) enum Store {
    /// A folder; one that is made for this command alone, and goes with it.
    Folder(Box<Folder>, Option<Scratch>),
    Memory(Vec<Record>),
}

impl Store {
    /// Where they go: into the folder that is asked for, or one that goes with the command if what
    /// is told is made of tables.
    pub(super) fn open(
        args: &Options,
        in_folder: bool,
        plan: &Plan,
        registry: &Registry,
    ) -> Result<Self, Stop> {
        let folder = |path: &Path, scratch| {
            let folder = Folder::open(path, plan, registry)?;
            Ok(Self::Folder(Box::new(folder), scratch))
        };
        match &args.out {
            Some(path) => folder(path, None),
            None if in_folder => {
                let scratch = Scratch::new()?;
                let path = scratch.path().to_owned();
                folder(&path, Some(scratch))
            }
            None => Ok(Self::Memory(Vec::new())),
        }
    }

    pub(super) fn records(&self) -> &[Record] {
        match self {
            Self::Folder(folder, _) => folder.records(),
            Self::Memory(records) => records,
        }
    }

    pub(super) fn finish(&self, registry: &Registry) -> Result<(), Stop> {
        match self {
            Self::Folder(folder, _) => Ok(folder.write_tables(registry)?),
            Self::Memory(_) => Ok(()),
        }
    }
}

/// How the work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finished {
    All,
    NotAll,
}

/// Does `runs`, the first of them with what `first` says of capture and trace.
pub(super) fn work(
    args: &Options,
    plan: &Plan,
    registry: &Registry,
    runs: &[PlannedRun],
    first: RunContext<'_>,
    store: &mut Store,
    console: &mut Console<'_>,
) -> Result<Finished, Stop> {
    let had = store.records().len();
    if had > 0 && !args.quiet {
        let text = format!(
            "narrows: {had} runs are there already, {} to go\n",
            runs.len()
        );
        console.say_aside(&text)?;
    }
    let watcher = Watcher::of(args.quiet, console.stderr_terminal);
    let progress = Progress::new(watcher, "runs", runs.len(), total_cost(runs.len()));
    let kept = Mutex::new((store, Vec::<String>::new(), None::<Stop>));
    let ended = |run: PlannedRun, outcome| {
        let mut kept = kept
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let (store, failures, stop) = &mut *kept;
        match outcome {
            Ok(outcome) => match store {
                Store::Memory(records) => {
                    records.push(Record::of(plan, run, &outcome, registry));
                }
                Store::Folder(folder, _) => {
                    if let Err(e) = folder.add(plan, run, &outcome, registry) {
                        *stop = Some(e.into());
                        return GoOn::No;
                    }
                }
            },
            Err(RunError::Cancelled) => {}
            Err(e) => {
                let seed = plan.seed(run);
                failures.push(format!("{} (seed {seed}): {e}", plan.label(run.point)));
            }
        }
        GoOn::Yes
    };
    let step = |step| progress.of(step);
    let listener = Listener {
        step: &step,
        ended: &ended,
    };
    execute(
        plan,
        registry,
        runs,
        threads(args),
        console.cancel,
        first,
        listener,
    );
    progress.finish();
    let (_, failures, stop) = kept
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(stop) = stop {
        return Err(stop);
    }
    for failure in &failures {
        console.say_aside(&format!("narrows: a run failed: {failure}\n"))?;
    }
    Ok(if failures.is_empty() {
        Finished::All
    } else {
        Finished::NotAll
    })
}
