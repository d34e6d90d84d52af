//! `narrows merge` and `diff`: folders of results.

use super::expected::{ExpectedArgs, Met};
use super::output::{apart, print};
use super::{App, Console, EXIT_FAILED, EXIT_OK, Stop, command_line};
use clap::Args;
use narrows_experiment::model::Experiment;
use narrows_experiment::results::{self, Folder, Merged, Record};
use narrows_experiment::stats::Estimate;
use narrows_experiment::summary::Summary;
use narrows_report::points;
use narrows_report::study::Report;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct MergeArgs {
    /// The folder that gets all of it.
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Folders with parts of the same experiment.
    #[arg(value_name = "DIR", required = true)]
    parts: Vec<PathBuf>,
    #[command(flatten)]
    expected: ExpectedArgs,
}

#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// A folder of results.
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Another.
    #[arg(value_name = "B")]
    b: PathBuf,
    /// All metrics, not only those that moved.
    #[arg(long)]
    all: bool,
}

/// Puts parts together.
pub(super) fn merge(
    app: &App,
    args: &MergeArgs,
    command: &[OsString],
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let registry = &app.catalog.registry;
    apart(&[args.expected.wanted()])?;
    let junit = args.expected.open()?;
    let merged = results::merge(&args.out, &args.parts, registry)?;
    let Merged {
        folder,
        plan,
        added,
    } = merged;
    let records = folder.records();
    let summary = Summary::new(&plan, records);
    let verdicts = summary.verdicts(&registry.metrics);
    let verdicts = verdicts.map_err(|e| Stop::Failed(e.to_string()))?;
    let report = Report {
        summary: &summary,
        registry,
        folder: &folder,
        verdicts: &verdicts,
        command: &command_line(command),
    };
    report.write()?;
    let rest = match plan.runs() {
        all if all > records.len() => format!(", {} of {all} are there", records.len()),
        _ => String::new(),
    };
    let text = format!(
        "narrows: {added} runs put into {}{rest}\n",
        args.out.display()
    );
    console.say_aside(&text)?;
    if args.expected.check() {
        let colour = console.colours();
        print(console.stdout, &points::verdicts(&verdicts, colour))?;
    }
    let met = args.expected.tell(junit, &plan.base().title, &verdicts)?;
    Ok(match met {
        Met::Yes => EXIT_OK,
        Met::No => EXIT_FAILED,
    })
}

/// Two folders side by side: what is set differently, and which metrics moved.
pub(super) fn diff(app: &App, args: &DiffArgs, console: &mut Console<'_>) -> Result<u8, Stop> {
    let registry = &app.catalog.registry;
    let read = |path: &Path| Folder::read(path, registry).map_err(|e| Stop::Failed(e.to_string()));
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let mut out = String::new();
    let entries = |e: &Experiment| -> BTreeMap<String, String> {
        let all = e.entries().into_iter();
        all.map(|entry| (entry.key, entry.value.to_string()))
            .collect()
    };
    let (here, there) = (a.0.base(), b.0.base());
    let (set_a, set_b) = (entries(here), entries(there));
    let mut keys: Vec<&String> = set_a.keys().chain(set_b.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let (a, b) = (set_a.get(key), set_b.get(key));
        if a != b {
            let text = |v: Option<&String>| v.map_or_else(|| "-".to_owned(), Clone::clone);
            let _ = writeln!(out, "set {key}: {} | {}", text(a), text(b));
        }
    }
    if !a.1.iter().any(|r| b.1.iter().any(|o| o.values == r.values)) {
        out += "no point of the sweep is in both\n";
        print(console.stdout, &out)?;
        return Ok(EXIT_FAILED);
    }
    let colour = console.colours();
    let moved = points::moved(
        (here, by_point(&a.1)),
        (there, by_point(&b.1)),
        args.all,
        colour,
    );
    let any = moved.is_some();
    out += &moved.unwrap_or_else(|| "no metric moved beyond its interval\n".to_owned());
    print(console.stdout, &out)?;
    Ok(if any { EXIT_FAILED } else { EXIT_OK })
}

/// By the values of the axes: each column with its mean.
fn by_point(records: &[Record]) -> BTreeMap<Vec<String>, BTreeMap<String, Estimate>> {
    let mut samples: BTreeMap<Vec<String>, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    for record in records {
        let point = samples.entry(record.values.clone()).or_default();
        for (column, _) in &record.metrics {
            if let Some(value) = record.metric(column) {
                point.entry(column.clone()).or_default().push(value);
            }
        }
    }
    let estimates = |columns: BTreeMap<String, Vec<f64>>| {
        let of = columns.into_iter();
        of.filter_map(|(c, all)| Some((c, Estimate::of(&all)?)))
            .collect()
    };
    samples
        .into_iter()
        .map(|(p, c)| (p, estimates(c)))
        .collect()
}
