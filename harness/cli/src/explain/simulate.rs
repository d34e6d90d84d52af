//! `narrows explain --simulate`: what was captured, rebuilt, and what would help it.

use super::super::output::OutputFile;
use super::super::run::wrong;
use super::super::{EXIT_INTERRUPTED, EXIT_OK, Stop};
use narrows_experiment::file::Loaded;
use narrows_experiment::metric::Scope;
use narrows_experiment::registry::Registry;
use narrows_experiment::run::{RunError, RunOutcome};
use narrows_experiment::scenario::RunContext;
use narrows_explain::advice::advice;
use narrows_explain::simulated::rebuilt;
use narrows_explain::{Cause, Explanation};
use narrows_report::points::number;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Writes the experiment to `path`, runs it as it is and with each change that the gaps ask for, and
/// gives a table of the times of calls, and the exit code.
pub(super) fn run(
    explanation: &Explanation,
    path: &Path,
    registry: &Registry,
    cancel: &AtomicBool,
) -> Result<(String, u8), Stop> {
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
    let timeouts = explanation.ledger.sum_of(Cause::is_timeout).count;
    let mut note = "";
    let changes = advice(&explanation.ledger);
    let changes = changes.iter().map(|one| &one.set[..]);
    for set in std::iter::once(&[][..]).chain(changes) {
        let mut experiment = loaded.experiment.clone();
        for (key, value) in set {
            let set = experiment.set(registry, key, value);
            set.map_err(|e| Stop::Failed(format!("{key}={value}: {e}")))?;
        }
        let context = RunContext {
            cancel: Some(cancel),
            ..RunContext::default()
        };
        let run = match experiment.run(registry, context) {
            Ok(run) => run,
            Err(RunError::Cancelled) => {
                table.push_str("interrupted: the others were not run\n");
                return Ok((table, EXIT_INTERRUPTED));
            }
            Err(e) => return Err(Stop::Failed(e.to_string())),
        };
        let value = |name| value(registry, &run, name);
        if set.is_empty() && timeouts > 0 && value("timeouts") == Some(0.0) {
            note = "The capture has timeouts and this has none: what was lost there was not lost in these queues. \
                    --set network.link.loss=1% loses packets anywhere, a smaller network.queue.limit in the queues.\n";
        }
        let time = |name| value(name).map_or_else(|| "-".to_owned(), |ns| number(ns, "ns"));
        let count = |name| number(value(name).unwrap_or_default(), "");
        let with: Vec<String> = set.iter().map(|(k, v)| format!("--set {k}={v}")).collect();
        let with = match &with[..] {
            [] => "everything as it was".to_owned(),
            with => with.join(" "),
        };
        let _ = writeln!(
            table,
            "{:>8}{:>12}{:>12}{:>10}  {with}",
            count("transfers"),
            time("latency.p50"),
            time("latency.p99"),
            count("timeouts")
        );
    }
    Ok((table + note, EXIT_OK))
}

/// A metric of a run.
fn value(registry: &Registry, run: &RunOutcome, name: &str) -> Option<f64> {
    let metric = registry.metrics.get(name)?;
    metric.of(&Scope { run, traffic: None }).map(|m| m.value())
}
