//! `narrows explain --simulate`: what was captured, rebuilt, and what would help it.

use super::super::output::{self, OutputFile};
use super::super::run::wrong;
use super::super::{Console, Stop};
use narrows::Duration;
use narrows_experiment::file::Loaded;
use narrows_experiment::model::Experiment;
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::RunContext;
use narrows_explain::advice::advice;
use narrows_explain::simulated::rebuilt;
use narrows_explain::{Cause, Explanation};
use std::fmt::Write;
use std::path::Path;

/// Writes the experiment to `path`, runs it as it is and with each change that the gaps ask for, and
/// prints the times of calls.
pub(super) fn run(
    explanation: &Explanation,
    path: &Path,
    registry: &Registry,
    console: &mut Console<'_>,
) -> Result<(), Stop> {
    let Some(text) = rebuilt(explanation) else {
        return Err(Stop::Failed(
            "no connection sent anything: there is nothing to simulate".to_owned(),
        ));
    };
    OutputFile::create("simulate", path)?.finish_with(text.as_bytes())?;
    let name = path.display().to_string();
    let loaded = Loaded::parse(&name, &text, registry).map_err(|e| wrong(&e))?;
    let mut table = format!(
        "\nSimulated: {name}, the capture rebuilt as calls of equal size. What it does not tell is guessed: see the file.\n\
         {:>8}{:>12}{:>12}{:>10}  with\n",
        "calls", "median", "p99", "timeouts"
    );
    let outcome = |experiment: &Experiment| measured(experiment, registry, console.cancel);
    let base = outcome(&loaded.experiment)?;
    let timeouts = explanation.ledger.sum_of(Cause::is_timeout).count;
    let note = match base.1 {
        0 if timeouts > 0 => {
            "The capture has timeouts and this has none: what was lost there was not lost in these queues. \
             --set network.link.loss=1% loses packets anywhere, a smaller network.queue.limit in the queues.\n"
        }
        _ => "",
    };
    row(&mut table, base, "everything as it was");
    for one in advice(&explanation.ledger) {
        let mut experiment = loaded.experiment.clone();
        for (key, value) in &one.set {
            let set = experiment.set(registry, key, value);
            set.map_err(|e| Stop::Failed(format!("{key}={value}: {e}")))?;
        }
        let set = one
            .set
            .iter()
            .map(|(key, value)| format!("--set {key}={value} "));
        row(
            &mut table,
            outcome(&experiment)?,
            set.collect::<String>().trim_end(),
        );
    }
    table.push_str(note);
    output::print(console.stdout, &table)?;
    Ok(())
}

/// The times of a run's calls in order, and its timeouts.
fn measured(
    experiment: &Experiment,
    registry: &Registry,
    cancel: &std::sync::atomic::AtomicBool,
) -> Result<(Vec<Duration>, u64), Stop> {
    let context = RunContext {
        cancel: Some(cancel),
        ..RunContext::default()
    };
    let run = experiment.run(registry, context);
    let run = run.map_err(|e| Stop::Failed(e.to_string()))?;
    let mut took: Vec<Duration> = run.transfers.iter().map(|t| t.took).collect();
    took.sort_unstable();
    Ok((took, run.flows.iter().map(|f| f.timeouts()).sum()))
}

fn row(out: &mut String, (took, timeouts): (Vec<Duration>, u64), with: &str) {
    let at = |percent: usize| {
        let time = took.get((took.len() * percent).div_ceil(100).saturating_sub(1));
        time.map_or_else(
            || "-".to_owned(),
            |time| format!("{:.3} ms", time.as_nanos() as f64 / 1e6),
        )
    };
    let _ = writeln!(
        out,
        "{:>8}{:>12}{:>12}{timeouts:>10}  {with}",
        took.len(),
        at(50),
        at(99)
    );
}
