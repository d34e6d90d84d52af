//! `narrows run`: an experiment from a file or by name.

mod given;
mod ledger;
mod told;
mod work;

use super::dry_run::Dry;
use super::expected::{ExpectedArgs, Met};
use super::files::FilesArgs;
use super::headings::{OUTPUT, WHAT};
use super::output::{apart, print};
use super::recorder::RecordArgs;
use super::slurm::{Jobs, Rest};
use super::source::{read, wrong};
use super::{App, Console, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, Stop, tell};
use clap::Args;
use given::Given;
use narrows_experiment::file::{Loaded, Source};
use narrows_experiment::model::{Experiment, Invalid, SweepAxis};
use narrows_experiment::plan::{Plan, Shard};
use narrows_experiment::registry::Registry;
use narrows_experiment::results::Folder;
use narrows_experiment::scenario::RunContext;
use narrows_experiment::summary::Summary;
use narrows_net::net::packet::HostId;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use told::Telling;
use work::{Finished, Store, work};

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// A file, or the name of an experiment that ships (see `narrows list`).
    #[arg(value_name = "FILE|NAME")]
    experiment: String,
    #[command(flatten)]
    options: Options,
}

/// The options of whatever runs an experiment.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Options {
    /// Set a key to another value: host.tcp.congestion=dctcp. Several times for several keys; see
    /// `narrows keys`.
    #[arg(long, value_name = "KEY=VALUE", help_heading = WHAT)]
    set: Vec<String>,
    /// Vary a key: run.seed=1-8, or host.tcp.congestion=reno,cubic. In place of what the file
    /// says of that key.
    #[arg(long, value_name = "KEY=LIST", help_heading = WHAT)]
    sweep: Vec<String>,
    /// Runs of each point; with more than one: mean and 95 % confidence interval.
    #[arg(short, long, value_name = "N", help_heading = WHAT)]
    pub(super) repetitions: Option<String>,
    /// Seed of everything random.
    #[arg(long, value_name = "N", help_heading = WHAT)]
    seed: Option<String>,
    /// Only the I-th of N parts of the runs; `narrows merge` puts them together.
    #[arg(long, value_name = "I/N", requires = "out", help_heading = WHAT)]
    shard: Option<Shard>,
    /// Leave out the runs that this folder of results has already.
    #[arg(long, value_name = "DIR", requires = "out", help_heading = WHAT)]
    except: Option<PathBuf>,
    /// Have Slurm run it: submits an array job of N shards, 16 unless given, and a job that merges
    /// them into the folder of --out.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "16",
        value_parser = super::values::whole(1, 1_000), requires = "out",
        conflicts_with_all = ["shard", "except", "dry_run", "threads", "pcap", "trace"], help_heading = WHAT)]
    slurm: Option<u32>,
    /// With --slurm: an option of sbatch, such as --sbatch=--partition=long. Several times for
    /// several.
    #[arg(long, value_name = "OPTION", requires = "slurm", allow_hyphen_values = true, help_heading = WHAT)]
    sbatch: Vec<String>,
    /// Show how many runs there are and how large, what time and memory they need by some trials
    /// of a few seconds, and do nothing else.
    #[arg(long, help_heading = WHAT)]
    dry_run: bool,
    #[command(flatten)]
    expected: ExpectedArgs,
    /// Runs at the same time [default: one for each core]; changes no result.
    #[arg(short = 'j', long, value_name = "N", value_parser = super::values::whole(1, 1_024), help_heading = WHAT)]
    threads: Option<u32>,

    /// Put everything into this folder, and go on there if it has some of it already.
    #[arg(short, long, value_name = "DIR", help_heading = OUTPUT)]
    out: Option<PathBuf>,
    #[command(flatten)]
    files: FilesArgs,
    /// Tell what connections waited for, by cause, of every repetition: a probe of kind `ledger` is
    /// added, if the experiment has none. A report has it of the first repetition [default]
    #[arg(long, help_heading = OUTPUT)]
    ledger: bool,
    /// Tell nothing of what connections waited for, even if the experiment asks for it.
    #[arg(long, conflicts_with = "ledger", help_heading = OUTPUT)]
    no_ledger: bool,
    #[command(flatten)]
    pub(super) record: RecordArgs,
    /// No progress, no table: only what happened, and errors.
    #[arg(short, long, help_heading = OUTPUT)]
    quiet: bool,
}

impl Options {
    /// Which of the runs are asked for.
    fn part(&self) -> Shard {
        self.shard.unwrap_or(Shard::WHOLE)
    }

    /// Has a report written to `path` where nothing is said of results.
    pub(super) fn report_by_default(&mut self, path: &str) {
        if self.out.is_none() && self.slurm.is_none() {
            self.files.report_by_default(path);
        }
    }

    /// Has one run at a time.
    pub(super) fn one_by_one(&mut self) {
        self.threads = Some(1);
    }

    /// Whether a figure is drawn, or kept in a folder.
    pub(super) fn draws(&self) -> bool {
        self.out.is_some() || self.files.draws()
    }

    /// Whether a figure is wanted by itself.
    pub(super) fn svg(&self) -> bool {
        self.files.svg()
    }

    /// Which figure of the report that is.
    pub(super) fn draw(&mut self, figure: &str) {
        self.files.draw(figure);
    }

    /// Puts what they give keys into the experiment.
    pub(super) fn apply(
        &self,
        experiment: &mut Experiment,
        registry: &Registry,
    ) -> Result<Applied, Stop> {
        let before = experiment.clone();
        let given = Given::all(self)?;
        let mut notes = Vec::new();
        for (n, argument) in given.iter().enumerate() {
            let key = argument.axis(experiment);
            let settles = |other: &&Given| !other.varies() && other.axis(experiment) == key;
            if let Some(other) = given[..n].iter().find(settles)
                && argument.varies()
            {
                let option = other.option();
                let why = format!("{option} gives {key} one value: leave out one of the two");
                return Err(argument.wrong(argument.key_at(), &why));
            }
            notes.extend(argument.put(experiment, registry)?);
        }
        experiment.leave_idle_out(&before, given.iter().map(Given::key));
        Ok(Applied {
            before,
            given,
            notes,
        })
    }
}

/// What arguments gave an experiment.
pub(super) struct Applied {
    /// What it was without them.
    before: Experiment,
    given: Vec<Given>,
    /// What is to be known of it.
    notes: Vec<String>,
}

/// The option that is short for a key, or for what a group has in place of it, and its own key.
pub(super) type OptionOf<'a> = dyn Fn(&str) -> Option<(&'static str, String)> + 'a;

/// What is to run.
pub(super) struct Prepared<'a> {
    pub(super) experiment: Experiment,
    /// What arguments gave it.
    pub(super) applied: Applied,
    /// The file that it is from.
    pub(super) source: Source,
    /// The option that is short for a key, where a command has such options.
    pub(super) short: Option<&'a OptionOf<'a>>,
    /// Those that were given.
    pub(super) asked: &'a BTreeSet<&'a str>,
    /// Of a single run each flow is told.
    pub(super) each_flow: bool,
}

/// A value that cannot be: in the argument that gives it, by the option that is short for its key,
/// or where it stands in the file.
fn impossible(prepared: &Prepared<'_>, registry: &Registry, e: &Invalid) -> Stop {
    if let Some(stop) = given::blamed(prepared, registry, e) {
        return stop;
    }
    let Some((option, key)) = prepared.short.and_then(|short| short(&e.key)) else {
        return Stop::Wrong(format!("{}\n", prepared.source.locate(e)));
    };
    let axis = |axis: &&SweepAxis| axis.key == key;
    let value = match prepared.experiment.sweep.iter().find(axis) {
        Some(axis) => axis.values.join(","),
        None => prepared.experiment.get(&key).unwrap_or_default(),
    };
    let origin = match prepared.asked.contains(option) {
        true => String::new(),
        false => format!("; it is what the preset has: give --{option}, too"),
    };
    super::usage(option, &value, &format!("{}{origin}", e.why))
}

/// Run it; the exit code.
pub(super) fn run(
    app: &App,
    args: &RunArgs,
    command: &[OsString],
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let registry = &app.catalog.registry;
    let (name, text) = read(&args.experiment)?;
    let loaded = Loaded::parse(&name, &text, registry).map_err(|e| wrong(&e))?;
    let (mut experiment, source) = (loaded.experiment, loaded.source);
    let applied = args.options.apply(&mut experiment, registry)?;
    for note in &applied.notes {
        console.say_aside(&format!("narrows: {note}\n"))?;
    }
    let prepared = Prepared {
        experiment,
        applied,
        source,
        short: None,
        asked: &BTreeSet::new(),
        each_flow: false,
    };
    perform(app, prepared, &args.options, command, console)
}

/// Runs an experiment, and tells and keeps what came out; the exit code.
pub(super) fn perform(
    app: &App,
    mut prepared: Prepared<'_>,
    args: &Options,
    command: &[OsString],
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let [pcap, trace] = args.record.wanted();
    let own = [args.expected.wanted(), pcap, trace];
    apart(&[&args.files.wanted()[..], &own].concat())?;
    let registry = &app.catalog.registry;
    ledger::watch(&mut prepared.experiment, args)?;
    // Who checks wants to know that there is nothing to check.
    if !args.expected.check() {
        let Prepared {
            applied,
            experiment,
            ..
        } = &mut prepared;
        let left_out = experiment.leave_lost_points_out(&applied.before);
        if left_out > 0 && !args.quiet {
            let text = format!(
                "narrows: {left_out} of what the file expects is about points that are not run\n"
            );
            console.say_aside(&text)?;
        }
    }
    let plan = Plan::new(&prepared.experiment, registry)
        .map_err(|e| impossible(&prepared, registry, &e))?;
    Summary::check(&plan, registry).map_err(|e| impossible(&prepared, registry, &e))?;
    if args.dry_run {
        let dry = Dry {
            plan: &plan,
            registry,
            shard: args.part(),
            threads: threads(args),
            cancel: console.cancel,
        };
        let text = dry
            .text()
            .map_err(|e| impossible(&prepared, registry, &e))?;
        if console.cancel.load(Ordering::Relaxed) {
            return Ok(EXIT_INTERRUPTED);
        }
        print(console.stdout, &text)?;
        return Ok(EXIT_OK);
    }
    plan.check(registry)
        .map_err(|e| impossible(&prepared, registry, &e))?;
    let capture_at = recorded_at(args, &plan, &prepared, registry)?;
    if let (Some(tasks), Some(out)) = (args.slurm, &args.out) {
        let jobs = Jobs {
            out,
            tasks,
            options: &args.sbatch,
            expected: &args.expected,
        };
        if let Rest::Submitted(what) = jobs.submit_missing(&plan, registry)? {
            if !args.quiet {
                console.say_aside(&what)?;
            }
            return Ok(EXIT_OK);
        }
    }
    let junit = args.expected.open()?;
    let files = args.files.open()?;
    let each_flow = prepared.each_flow && plan.runs() == 1;
    let in_folder = files.any() || each_flow;
    let mut store = Store::open(args, in_folder, &plan, registry)?;
    let mut done = match &store {
        Store::Folder(folder, _) => folder.done(),
        Store::Memory(_) => BTreeSet::new(),
    };
    if let Some(path) = &args.except {
        done.extend(Folder::done_in(path, &plan, registry)?);
    }
    let runs = plan.missing(args.part(), &done);
    if args.record.is_any() && runs.is_empty() {
        let why = "the folder of --out has this run already, and no other is left to record: give \
                   another folder";
        return Err(Stop::Failed(why.to_owned()));
    }
    let mut recorders = args.record.open()?;
    let first = RunContext {
        capture_at,
        ..recorders.context()
    };
    let finished = work(args, &plan, registry, &runs, first, &mut store, console);
    // What was recorded before an interruption or error is kept.
    let broken = recorders.finish();
    for error in &broken {
        tell(error, console);
    }
    let finished = finished?;
    store.finish(registry)?;
    let records = store.records();
    let summary = Summary::new(&plan, records);
    let verdicts = summary
        .verdicts(&registry.metrics)
        .map_err(|e| impossible(&prepared, registry, &e))?;
    let telling = Telling {
        prepared: &prepared,
        args,
        registry,
        store: &store,
        summary: &summary,
        verdicts: &verdicts,
        each_flow,
    };
    telling.tell(files, command, console)?;
    let title = &prepared.experiment.title;
    let met = args.expected.tell(junit, title, &verdicts)?;
    if let Some(out) = &args.out {
        let count = records.len();
        let all = plan.runs();
        let rest = if count < all {
            format!(" of {all}")
        } else {
            String::new()
        };
        let runs = if count == 1 { "run is" } else { "runs are" };
        let text = format!("narrows: {count}{rest} {runs} in {}\n", out.display());
        if !args.quiet {
            console.say_aside(&text)?;
        }
    }
    if console.cancel.load(Ordering::Relaxed) {
        console.say_aside(match args.record.is_any() {
            true => "narrows: interrupted; what was recorded until then is kept\n",
            false => "narrows: interrupted; what was finished is above\n",
        })?;
        return Ok(EXIT_INTERRUPTED);
    }
    // A run that was cut by its time is what was asked for; these are not.
    let wrong = ["stalled", "connection-lost", "corrupt-data"];
    let wrong = records.iter().any(|r| wrong.contains(&r.outcome.as_str()));
    let all = finished == Finished::All && met == Met::Yes;
    Ok(match all && !wrong && broken.is_empty() {
        true => EXIT_OK,
        false => EXIT_FAILED,
    })
}

/// Runs at the same time.
fn threads(args: &Options) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    args.threads.map_or(cores, |n| n as usize)
}

/// Whether one run can be recorded, and at which host.
fn recorded_at(
    args: &Options,
    plan: &Plan,
    prepared: &Prepared<'_>,
    registry: &Registry,
) -> Result<HostId, Stop> {
    if !args.record.is_any() {
        return Ok(HostId(0));
    }
    let mut how = Vec::new();
    let base = plan.base();
    let values = base.sweep.iter().filter(|axis| axis.values.len() > 1);
    how.extend(values.map(|axis| {
        let option = prepared.short.and_then(|short| short(&axis.key));
        match option {
            Some((option, _)) => format!("--{option} VALUE"),
            None => format!("--set {}=VALUE", axis.key),
        }
    }));
    if base.run.repetitions > 1 {
        how.push("-r 1".to_owned());
    }
    let how = format!("choose one with {}", how.join(" "));
    args.record.check(plan.part(args.part()).count(), &how)?;
    let (Some(name), Some(run)) = (args.record.capture_host(), plan.part(args.part()).next())
    else {
        return Ok(HostId(0));
    };
    let experiment = plan.experiment(run, registry);
    let host = experiment.and_then(|e| e.host_named(registry, name));
    let host = host.map_err(|e| Stop::Failed(e.to_string()))?;
    host.ok_or_else(|| super::usage("pcap-at", name, "expected the name of one host, as h0"))
}
