//! `narrows incast`: run the sweep, tell what happened, keep the results.

use super::args::IncastArgs;
use super::catalog::{Catalog, Kind};
use super::marking::{asks_for_ecn, never_marks};
use super::output::{OutputFile, Sink, Wanted, apart, print};
use super::plan::{BadValue, expand, plan};
use super::progress::{Progress, Watcher};
use super::recorder::Recorders;
use super::{App, Console, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, Stop, tell, usage};
use narrows_experiment::scenario::parallel::{SweepResults, cost, guarded, part, run_sweep};
use narrows_experiment::scenario::{
    IncastRunner, PlannedRun, RunContext, ScenarioError, SweepSpec,
};
use narrows_report::chart::Theme;
use narrows_report::plot::{self, Quantity};
use narrows_report::records::{self, FORMAT_VERSION, PointRecord, RunRecord, SweepRecord};
use narrows_report::story::{Story, named};
use narrows_report::table::{self, Colour};
use narrows_report::{Summary, html};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

const DEFAULT_REPORT: &str = "narrows-report.html";

/// The files asked for, open before the first run.
struct Outputs {
    report: Option<(PathBuf, OutputFile)>,
    svg: Option<OutputFile>,
    json: Sink,
    csv: Sink,
    recorders: Recorders,
}

impl Outputs {
    fn open(args: &IncastArgs) -> Result<Self, Stop> {
        let report =
            (!args.no_report).then(|| args.report.as_deref().unwrap_or(Path::new(DEFAULT_REPORT)));
        let [pcap, trace] = args.record.wanted();
        apart(&[
            Wanted::file("report", report),
            Wanted::data("json", args.json.as_deref()),
            Wanted::data("csv", args.csv.as_deref()),
            Wanted::file("svg", args.svg.as_deref()),
            pcap,
            trace,
        ])?;
        let open = |what, path: &Option<PathBuf>| -> Result<Option<OutputFile>, Stop> {
            Ok(path
                .as_deref()
                .map(|p| OutputFile::create(what, p))
                .transpose()?)
        };
        let report = match report {
            Some(path) => {
                let file = OutputFile::create("report", path).map_err(|e| match args.report {
                    Some(_) => e,
                    None => e.with_hint("choose a place with --report FILE, or --no-report"),
                })?;
                Some((path.to_owned(), file))
            }
            None => None,
        };
        Ok(Self {
            report,
            svg: open("plot", &args.svg)?,
            json: Sink::open("JSON", args.json.as_deref())?,
            csv: Sink::open("CSV", args.csv.as_deref())?,
            recorders: args.record.open()?,
        })
    }

    fn data_on_stdout(&self) -> bool {
        self.json.is_stdout() || self.csv.is_stdout()
    }
}

/// Run it; the exit code.
pub(super) fn run<R: IncastRunner>(
    app: &App<R>,
    args: &IncastArgs,
    command: &[OsString],
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let sweep = plan(args, &app.catalog, &app.defaults)
        .map_err(|BadValue { option, given, why }| usage(option, &given, &why))?;
    let planned = planned(args, &app.catalog, &sweep)?;
    let how = match planned.len() / sweep.repetitions as usize {
        0 | 1 => "-r 1 makes it one",
        _ => "give one value each to --servers, --cc, --rto and the other lists, and no -r",
    };
    args.record.check(planned.len(), how)?;
    let mut outputs = Outputs::open(args)?;
    let watcher = Watcher::of(args.quiet, console.stderr_terminal);
    let total = planned
        .iter()
        .map(|p| cost(&p.spec))
        .fold(0_u64, u64::saturating_add);
    let progress = Progress::new(watcher, "runs", planned.len(), total);
    let mut broken = Vec::new();
    let results = if args.record.is_any() {
        let mut recorders = std::mem::take(&mut outputs.recorders);
        let results = watched(app, &planned, &mut recorders, &progress, console);
        broken = recorders.finish();
        results
    } else {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = args.threads.map_or(cores, |n| n as usize);
        run_sweep(&planned, &app.runner, threads, console.cancel, &|s| {
            progress.of(s)
        })
    };
    let took = progress.finish();
    let interrupted = console.cancel.load(Ordering::Relaxed);

    let summary = Summary::of(&sweep, &results.runs);
    let mut story = Story::of(&sweep, &summary);
    story.sentences.extend(unmarked(&app.catalog, &sweep));
    let record = SweepRecord {
        format: "narrows-incast",
        format_version: FORMAT_VERSION,
        narrows_version: narrows_experiment::version::VERSION.to_owned(),
        narrows_commit: narrows_experiment::version::COMMIT,
        command: command_line(command),
        settings: records::settings(&sweep, &app.catalog.registry.detectors),
        names: explained(&app.catalog, &planned),
        summary: story.sentences.clone(),
        planned: planned.len(),
        points: PointRecord::all(&summary, &story),
        runs: RunRecord::all(&sweep, &planned, &results.runs),
    };

    let mut human = String::new();
    if !args.quiet {
        human += &terminal_text(&summary, &story, outputs.data_on_stdout(), console);
    }
    for sentence in &story.sentences {
        let _ = writeln!(human, "{sentence}");
    }
    let on_stdout = outputs.data_on_stdout();
    let (machine, written) = save(outputs, &sweep, &summary, &story, &record);
    if let (Ok(Some(report)), false) = (&written, args.quiet) {
        let _ = writeln!(human, "\nReport: {}", report.display());
    }
    if !args.quiet {
        let _ = writeln!(human, "{}", speed(&results, took));
    }
    human += &failures(&planned, &results);
    // Whatever could not be written, what was computed is told.
    let told = if on_stdout {
        let told = print(console.stdout, &machine);
        console.say_aside(&human).and(told)
    } else {
        console.say(&human)
    };
    for error in &broken {
        tell(error, console);
    }
    written?;
    told?;
    let well = results.failures.is_empty() && broken.is_empty();
    Ok(match (interrupted, well) {
        (true, _) => EXIT_INTERRUPTED,
        (false, true) => EXIT_OK,
        (false, false) => EXIT_FAILED,
    })
}

/// The runs of `sweep`; what it does not allow is told as the option that asked for it.
pub(super) fn planned(
    args: &IncastArgs,
    catalog: &Catalog,
    sweep: &SweepSpec,
) -> Result<Vec<PlannedRun>, Stop> {
    expand(args, catalog, sweep)
        .map_err(|BadValue { option, given, why }| usage(option, &given, &why))
}

/// The one run of a capture or trace. What is recorded before an interruption or error is kept.
fn watched<R: IncastRunner>(
    app: &App<R>,
    planned: &[PlannedRun],
    recorders: &mut Recorders,
    progress: &Progress,
    console: &Console<'_>,
) -> SweepResults {
    let mut results = SweepResults::default();
    for (index, p) in planned.iter().enumerate() {
        let cost = cost(&p.spec);
        let within = |done, all| progress.within(index, part(cost, done, all));
        let ctx = RunContext {
            cancel: Some(console.cancel),
            progress: Some(&within),
            ..recorders.context()
        };
        match guarded(&app.runner, &p.spec, ctx) {
            Ok(run) => results.runs.push(Some(run)),
            Err(e) => {
                results.runs.push(None);
                if !matches!(e, ScenarioError::Cancelled) {
                    results.failures.push((index, e));
                }
            }
        }
    }
    results
}

/// Write every file; the text for standard output, and the report's path. The first error is
/// told after all the others had their chance.
fn save(
    outputs: Outputs,
    sweep: &SweepSpec,
    summary: &Summary,
    story: &Story,
    record: &SweepRecord,
) -> (String, Result<Option<PathBuf>, Stop>) {
    let mut machine = String::new();
    let mut result = Ok(None);
    let mut keep = |r: Result<(), super::OutputError>| {
        if let (Err(e), true) = (r, result.is_ok()) {
            result = Err(Stop::Output(e));
        }
    };
    let json = || {
        let text = serde_json::to_string_pretty(record);
        text.unwrap_or_else(|e| format!("{{\"error\": \"{e}\"}}")) + "\n"
    };
    let csv = || {
        let mut text = Vec::new();
        // Writing to memory does not fail.
        let _ = records::write_csv(&record.runs, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    };
    let told = [outputs.json.finish_with(json), outputs.csv.finish_with(csv)];
    for text in told {
        match text {
            Ok(text) => machine += &text,
            Err(e) => keep(Err(e)),
        }
    }
    if let Some(file) = outputs.svg {
        let svg = plot::chart(sweep, summary, Quantity::Goodput).svg(Theme::Paper);
        keep(file.finish_with(svg.as_bytes()));
    }
    let mut path = None;
    if let Some((report, file)) = outputs.report {
        // A report of nothing would only take the place of an older one.
        if summary.finished > 0 {
            let page = html::page(sweep, summary, story, record);
            keep(file.finish_with(page.as_bytes()));
            path = Some(report);
        }
    }
    (machine, result.map(|_: Option<PathBuf>| path))
}

fn terminal_text(
    summary: &Summary,
    story: &Story,
    to_stderr: bool,
    console: &Console<'_>,
) -> String {
    let colour = if console.colour && !to_stderr {
        Colour::Ansi
    } else {
        Colour::Plain
    };
    let mut text = table::details(summary, story, colour, console.columns);
    if let Some(matrix) = table::matrix(summary, colour, console.columns) {
        text += &matrix;
        text.push('\n');
    }
    text
}

fn speed(results: &SweepResults, took: std::time::Duration) -> String {
    let finished = || results.runs.iter().flatten();
    let packets: u64 = finished().map(|r| r.data_packets).sum();
    let runs = match finished().count() {
        1 => "1 run".to_owned(),
        n => format!("{n} runs"),
    };
    let packets = match packets {
        0..100_000 => packets.to_string(),
        _ => format!("{:.1} million", packets as f64 / 1e6),
    };
    let took = match took.as_secs_f64() {
        seconds if seconds < 0.1 => format!("{:.0} ms", seconds * 1e3),
        seconds => format!("{seconds:.1} s"),
    };
    format!("{runs}, {packets} data packets in {took}")
}

fn failures(planned: &[PlannedRun], results: &SweepResults) -> String {
    let mut text = String::new();
    for (index, error) in results.failures.iter().take(5) {
        let spec = &planned[*index].spec;
        let _ = writeln!(
            text,
            "failed: {} / {} with {} servers, seed {}: {error}",
            spec.tcp.congestion, spec.tcp.rto, spec.servers, spec.seed
        );
    }
    if results.failures.len() > 5 {
        let _ = writeln!(text, "and {} more runs failed", results.failures.len() - 5);
    }
    text
}

/// A hint about the variants that ask for ECN at a port that marks nothing.
pub(super) fn unmarked(catalog: &Catalog, sweep: &SweepSpec) -> Option<String> {
    let mut labels = Vec::new();
    let mut reasons: Vec<String> = Vec::new();
    for variant in sweep.variants() {
        let spec = sweep.variant_spec(&variant);
        let Ok(congestion) = catalog.registry.congestion.get(&spec.tcp.congestion) else {
            continue;
        };
        let reason = never_marks(spec.net.aqm, Some(spec.net.port_buffer));
        if let (true, Some(reason)) = (asks_for_ecn(&*congestion, spec.tcp.ecn), reason) {
            labels.push(variant.label);
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }
    (!labels.is_empty()).then(|| {
        format!(
            "No packet is ever marked for {}, and ECN was asked for: {}. What lowers the window \
             there is loss alone.",
            named(&labels),
            named(&reasons)
        )
    })
}

/// What each algorithm of the sweep is, in the order of its runs.
pub(super) fn explained(catalog: &Catalog, planned: &[PlannedRun]) -> Vec<(String, String)> {
    let mut rows: Vec<(String, String)> = Vec::new();
    for kind in [Kind::Congestion, Kind::Rto, Kind::LossDetector] {
        let entries = catalog.entries(kind);
        for p in planned {
            let name = match kind {
                Kind::Congestion => &p.spec.tcp.congestion,
                Kind::Rto => &p.spec.tcp.rto,
                _ => &p.spec.tcp.loss_detector,
            };
            let base = name.split(':').next().unwrap_or(name);
            let known = entries.iter().find(|e| e.name == base);
            let row = known.map(|e| (name.clone(), format!("{}: {}", kind.noun(), e.summary)));
            rows.extend(row.filter(|r| !rows.contains(r)));
        }
    }
    rows
}

/// The command as a shell takes it, by the name of the program that ran: ours, or one of somebody
/// who brought algorithms along.
pub(super) fn command_line(args: &[OsString]) -> String {
    let quoted = |arg: &OsString| {
        let text = arg.to_string_lossy().into_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+.,:/%@".contains(c);
        if !text.is_empty() && text.chars().all(plain) {
            text
        } else {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
    };
    let path = args.first().map(Path::new);
    let program = path.and_then(Path::file_name).unwrap_or("narrows".as_ref());
    std::iter::once(quoted(&program.to_owned()))
        .chain(args.iter().skip(1).map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_command_names_the_program_that_ran() {
        for (given, recorded) in [
            (
                &["/usr/bin/narrows", "incast", "-n", "4"][..],
                "narrows incast -n 4",
            ),
            (
                &["target/release/examples/own_rto", "incast", "--title=a b"],
                "own_rto incast '--title=a b'",
            ),
            (&["./my tcp", "it's"], r"'my tcp' 'it'\''s'"),
            (&[], "narrows"),
        ] {
            let args: Vec<OsString> = given.iter().map(OsString::from).collect();
            assert_eq!(command_line(&args), recorded);
        }
    }
}
