//! `narrows explain --simulate`: what was captured, rebuilt, and what would help it.

use super::super::output::OutputFile;
use super::super::source::wrong;
use super::super::{EXIT_INTERRUPTED, EXIT_OK, Stop};
use narrows_experiment::file::Loaded;
use narrows_experiment::metric::Scope;
use narrows_experiment::registry::Registry;
use narrows_experiment::run::{RunError, RunOutcome};
use narrows_experiment::scenario::RunContext;
use narrows_explain::advice::advice;
use narrows_explain::simulated::{Losses, rebuilt};
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
    let name = path.display().to_string();
    let load = |losses| {
        let text = rebuilt(explanation, losses).ok_or_else(|| {
            Stop::Failed("no connection sent anything: there is nothing to simulate".to_owned())
        })?;
        OutputFile::create("simulate", path)?.finish_with(text.as_bytes())?;
        Loaded::parse(&name, &text, registry).map_err(|e| wrong(&e))
    };
    let try_out = |loaded: &Loaded, set: &[(&str, &str)]| outcome(loaded, set, registry, cancel);
    let interrupted = |table: String| {
        let table = table + "interrupted: the others were not run\n";
        Ok((table, EXIT_INTERRUPTED))
    };
    let mut table = format!(
        "\nSimulated: {name}, the capture rebuilt as calls of equal size. What it does not tell is guessed: see the file.\n"
    );
    let timeouts = explanation.ledger.sum_of(Cause::is_timeout).count;
    let mut loaded = load(Losses::Queues)?;
    let Some(mut as_it_was) = try_out(&loaded, &[])? else {
        return interrupted(table);
    };
    if timeouts > 0 && value(registry, &as_it_was, "timeouts") == Some(0.0) {
        table.push_str(
            "Its queues alone lose nothing that leads to a timeout, as the capture has them, so its links lose as much as was sent again.\n",
        );
        loaded = load(Losses::Links)?;
        match try_out(&loaded, &[])? {
            Some(run) => as_it_was = run,
            None => return interrupted(table),
        }
    }
    let _ = writeln!(
        table,
        "{:>8}{:>12}{:>12}{:>10}  with",
        "calls", "median", "p99", "timeouts"
    );
    row(&mut table, registry, &as_it_was, "everything as it was");
    for one in advice(&explanation.ledger) {
        let Some(run) = try_out(&loaded, &one.set)? else {
            return interrupted(table);
        };
        let with: Vec<String> = one
            .set
            .iter()
            .map(|(k, v)| format!("--set {k}={v}"))
            .collect();
        row(&mut table, registry, &run, &with.join(" "));
    }
    Ok((table, EXIT_OK))
}

/// What becomes of it with these changes; `None` if it was interrupted.
fn outcome(
    loaded: &Loaded,
    set: &[(&str, &str)],
    registry: &Registry,
    cancel: &AtomicBool,
) -> Result<Option<RunOutcome>, Stop> {
    let mut experiment = loaded.experiment.clone();
    for (key, value) in set {
        let set = experiment.set(registry, key, value);
        set.map_err(|e| Stop::Failed(format!("{key}={value}: {e}")))?;
    }
    let context = RunContext {
        cancel: Some(cancel),
        ..RunContext::default()
    };
    match experiment.run(registry, context) {
        Ok(run) => Ok(Some(run)),
        Err(RunError::Cancelled) => Ok(None),
        Err(e) => Err(Stop::Failed(e.to_string())),
    }
}

fn row(table: &mut String, registry: &Registry, run: &RunOutcome, with: &str) {
    let value = |name| value(registry, run, name);
    let time = |name| value(name).map_or_else(|| "-".to_owned(), |ns| number(ns, "ns"));
    let count = |name| number(value(name).unwrap_or_default(), "");
    let _ = writeln!(
        table,
        "{:>8}{:>12}{:>12}{:>10}  {with}",
        count("transfers"),
        time("latency.p50"),
        time("latency.p99"),
        count("timeouts")
    );
}

/// A metric of a run.
fn value(registry: &Registry, run: &RunOutcome, name: &str) -> Option<f64> {
    let metric = registry.metrics.get(name)?;
    metric.of(&Scope { run, traffic: None }).map(|m| m.value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::wire::{Flags, Seq};
    use narrows::{Duration, Instant};
    use narrows_explain::segment::Segment;
    use narrows_explain::{Analyzer, Config, Sighting};

    #[test]
    fn what_is_interrupted_says_so_and_fails() {
        let mut analyzer = Analyzer::new(Config::default());
        let mut out = |at_us: u64, seq: u32, flags: Flags, len: u32| {
            let segment = Segment {
                seq: Seq(seq),
                ack: Seq(1),
                flags,
                window: 60_000,
                len,
                ..Segment::between(([10, 0, 0, 1], 5_000).into(), ([10, 0, 0, 2], 80).into())
            };
            let at = Instant::ZERO + Duration::from_micros(at_us);
            analyzer.handle_segment(Sighting { at, packet: at_us }, 0, &segment);
        };
        out(1, 99, Flags::SYN, 0);
        out(2_000, 100, Flags::ACK, 1_000);
        out(300_000, 100, Flags::ACK, 1_000);
        analyzer.finish();
        let mut explanation = Explanation::new(10, 10);
        explanation.take(&mut analyzer);
        explanation.finish();
        let file = format!("narrows-simulate-{}.toml", std::process::id());
        let path = std::env::temp_dir().join(file);
        let told = |cancel: bool| {
            let cancel = AtomicBool::new(cancel);
            let ran = run(&explanation, &path, &Registry::default(), &cancel);
            match ran {
                Ok(ran) => ran,
                Err(_) => panic!("it can be run"),
            }
        };
        let (table, code) = told(true);
        assert!(
            table.ends_with("interrupted: the others were not run\n"),
            "{table}"
        );
        assert_eq!(code, EXIT_INTERRUPTED);
        let (table, code) = told(false);
        assert!(table.contains("everything as it was"), "{table}");
        assert_eq!(code, EXIT_OK);
        std::fs::remove_file(path).unwrap();
    }
}
