//! `narrows explain EXPERIMENT`: what its connections waited for, and what captures tell of it.

use super::super::output::{self, OutputFile};
use super::super::source::{read, wrong};
use super::super::{Console, EXIT_INTERRUPTED, EXIT_OK, Stop};
use narrows_experiment::file::Loaded;
use narrows_experiment::plan::Plan;
use narrows_experiment::registry::Registry;
use narrows_experiment::run::RunError;
use narrows_explain::simulated::observe;
use narrows_explain::truth::Threshold;
use narrows_report::explain::{beside, beside_csv};
use std::path::{Path, PathBuf};

/// Points that are run.
const MOST_POINTS: usize = 24;

/// The experiment that the only one of `files` names: by its file, by name, or by results of it;
/// `None` if they are captures.
pub(super) fn named(files: &[PathBuf], registry: &Registry) -> Result<Option<Loaded>, Stop> {
    // What is no file and has a plain name is meant to be one that ships.
    let is_name = |name: &str| name != "-" && !name.contains(['.', '/']);
    let is_experiment = |path: &Path| {
        path.is_dir()
            || path.extension().is_some_and(|end| end == "toml")
            || (!path.exists() && path.to_str().is_some_and(is_name))
    };
    let Some(path) = files.iter().find(|path| is_experiment(path)) else {
        return Ok(None);
    };
    if files.len() > 1 {
        return Err(Stop::Failed(format!(
            "{}: an experiment is explained by itself; leave out the others",
            path.display()
        )));
    }
    let file = if path.is_dir() {
        let file = path.join("experiment.toml");
        if !file.exists() {
            return Err(Stop::Failed(format!(
                "{}: this folder has no experiment.toml, so it is no folder of results",
                path.display()
            )));
        }
        file
    } else {
        path.clone()
    };
    let name = file
        .to_str()
        .ok_or_else(|| Stop::Failed(format!("{}: the name is not UTF-8", file.display())))?;
    let (name, text) = read(name)?;
    let loaded = Loaded::parse(&name, &text, registry).map_err(|e| wrong(&e))?;
    Ok(Some(loaded))
}

/// Runs each point of it once.
pub(super) fn run(
    loaded: &Loaded,
    registry: &Registry,
    threshold: Threshold,
    csv: Option<&Path>,
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let located = |e| Stop::Wrong(format!("{}\n", loaded.source.locate(&e)));
    let plan = Plan::new(&loaded.experiment, registry).map_err(located)?;
    let colour = console.colours();
    let mut numbers = String::new();
    for point in 0..plan.points().min(MOST_POINTS) {
        let experiment = plan.at(point, registry).map_err(located)?;
        let observed = match observe(&experiment, registry, threshold, Some(console.cancel)) {
            Ok(observed) => observed,
            Err(RunError::Cancelled) => return Ok(EXIT_INTERRUPTED),
            Err(e) => return Err(Stop::Failed(e.to_string())),
        };
        let label = plan.label(point);
        let ledgers = observed.ledgers();
        output::print(console.stdout, &beside(&label, &ledgers, colour))?;
        numbers.push_str(&beside_csv(&label, &ledgers, point == 0));
    }
    if plan.points() > MOST_POINTS {
        let all = plan.points();
        let note = format!(
            "The first {MOST_POINTS} of {all} points; fewer values in its sweep show others.\n"
        );
        output::print(console.stdout, &note)?;
    }
    if let Some(path) = csv {
        OutputFile::create("csv", path)?.finish_with(numbers.as_bytes())?;
    }
    Ok(EXIT_OK)
}
