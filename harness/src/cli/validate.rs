//! `narrows validate`: run the checks, print the table, keep it.

use super::args::ValidateArgs;
use super::incast::command_line;
use super::output::{OutputError, OutputFile, Sink, Wanted, apart, print};
use super::progress::{Progress, Watcher};
use super::{App, Console, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, Stop, usage};
use crate::report::table::Colour;
use crate::report::validation::chapter::{self, Sections};
use crate::report::validation::records::ValidationRecord;
use crate::report::validation::{Tally, page, table};
use crate::validate::{Check, CheckReport, run_checks};
use narrows_net::near_match::nearest;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// The file of the documentation that holds the chapter, and the folder of what belongs to it.
const CHAPTER: &str = "VALIDATION.md";
const FOLDER: &str = "validation";

/// Run it; the exit code.
pub(super) fn run<R>(
    app: &App<R>,
    args: &ValidateArgs,
    command: &[OsString],
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let mut known = app.checks.clone();
    if args.full {
        known.extend(crate::validate::full_checks());
    }
    let checks = chosen(&known, &args.only)?;
    if args.list {
        print(console.stdout, &list(&checks))?;
        return Ok(EXIT_OK);
    }
    let chapter = args.docs.as_ref().map(|dir| dir.join(CHAPTER));
    apart(&[
        Wanted::file("docs", chapter.as_deref()),
        Wanted::file("report", args.report.as_deref()),
        Wanted::data("json", args.json.as_deref()),
    ])?;
    let report = args.report.as_deref();
    let report = report
        .map(|path| OutputFile::create("report", path))
        .transpose()?;
    let json = Sink::open("JSON", args.json.as_deref())?;
    let docs = args.docs.as_deref().map(Docs::open).transpose()?;

    let watcher = Watcher::of(args.quiet, console.stderr_terminal);
    let cost = |c: &Check| u64::from(c.seconds.max(1));
    let progress = Progress::new(
        watcher,
        "checks",
        checks.len(),
        checks.iter().map(cost).sum(),
    );
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = args.threads.map_or(cores, |n| n as usize);
    let reports = run_checks(
        &checks,
        threads,
        console.cancel,
        &|| progress.elapsed(),
        &|done| progress.step(cost(&done.check)),
    );
    let took = progress.finish();
    let interrupted = console.cancel.load(Ordering::Relaxed);

    let tally = Tally::of(&reports, checks.len());
    let command = command_line(command);
    let on_stdout = json.is_stdout();
    let mut human = String::new();
    if !args.quiet {
        let colour = if console.colour && !on_stdout {
            Colour::Ansi
        } else {
            Colour::Plain
        };
        human += &table::text(&reports, colour, console.columns);
    }
    for sentence in tally.sentences() {
        let _ = writeln!(human, "{sentence}");
    }
    let mut code = match (interrupted, tally.holds()) {
        (true, _) => EXIT_INTERRUPTED,
        (false, true) => EXIT_OK,
        (false, false) => EXIT_FAILED,
    };

    // Whatever cannot be written, the others have their chance, and the table is told.
    let mut written: Result<(), Stop> = Ok(());
    let mut keep = |r: Result<(), OutputError>| {
        if let (Err(e), true) = (r, written.is_ok()) {
            written = Err(Stop::Output(e));
        }
    };
    let mut machine = String::new();
    let record = || {
        let record = ValidationRecord::of(&reports, &tally, command.clone());
        serde_json::to_string_pretty(&record).unwrap_or_else(|e| format!("{{\"error\": \"{e}\"}}"))
            + "\n"
    };
    match json.finish_with(record) {
        Ok(text) => machine = text,
        Err(e) => keep(Err(e)),
    }
    if let (Some(file), false) = (report, reports.is_empty()) {
        let page = page::page(&reports, &tally, &command);
        let result = file.finish_with(page.as_bytes());
        if let (Ok(()), Some(path), false) = (&result, &args.report, args.quiet) {
            let _ = writeln!(human, "\nReport: {}", path.display());
        }
        keep(result);
    }
    if let Some(docs) = docs {
        // A table with holes must not take the place of a whole one.
        if interrupted || !tally.failed.is_empty() {
            let _ = writeln!(
                human,
                "The documentation stays as it was: not all checks ended."
            );
        } else {
            // What hangs on the machine comes last, and is not part of the chapter.
            let local = |r: &CheckReport| crate::validate::is_local(&r.check);
            let everywhere = &reports[..reports.iter().position(local).unwrap_or(reports.len())];
            for row in chapter::unexplained(everywhere, &docs.sections) {
                code = EXIT_FAILED;
                let _ = writeln!(
                    human,
                    "No section '{}' in {CHAPTER} or {FOLDER}/*.md, which '{}' names.",
                    row.explained.unwrap_or_default(),
                    row.what
                );
            }
            keep(docs.write(everywhere));
        }
    }
    if !args.quiet {
        let count = reports.len();
        let noun = if count == 1 { "check" } else { "checks" };
        let _ = writeln!(human, "{count} {noun} in {:.1} s", took.as_secs_f64());
    }
    let told = if on_stdout {
        let told = print(console.stdout, &machine);
        console.say_aside(&human).and(told)
    } else {
        console.say(&human)
    };
    written?;
    told?;
    Ok(code)
}

/// The checks whose names begin with one of `only`; all without any.
fn chosen(checks: &[Check], only: &[String]) -> Result<Vec<Check>, Stop> {
    let fits = |name: &str, wanted: &str| name.starts_with(wanted.trim_end_matches('/'));
    for wanted in only {
        if wanted.is_empty() || !checks.iter().any(|c| fits(c.name, wanted)) {
            return Err(unknown(checks, wanted));
        }
    }
    let wanted = |c: &&Check| only.is_empty() || only.iter().any(|o| fits(c.name, o));
    Ok(checks.iter().filter(wanted).copied().collect())
}

fn unknown(checks: &[Check], wanted: &str) -> Stop {
    // The beginnings of names are names, too.
    let mut names: Vec<&str> = Vec::new();
    for check in checks {
        let parts = check
            .name
            .match_indices('/')
            .map(|(at, _)| &check.name[..at]);
        for name in parts.chain([check.name]) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let near = nearest(wanted, names.iter().copied())
        .map_or(String::new(), |near| format!("; did you mean '{near}'?"));
    let all: Vec<&str> = checks.iter().map(|c| c.name).collect();
    let why = format!(
        "no check begins so{near}\nThere are:\n  {}",
        all.join("\n  ")
    );
    usage("only", wanted, &why)
}

fn list(checks: &[Check]) -> String {
    let width = checks.iter().map(|c| c.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for c in checks {
        let _ = writeln!(out, "{:<width$}  {:>5} s  {}", c.name, c.seconds, c.what);
    }
    out
}

/// The documentation that the findings go into, open before the first check.
struct Docs {
    folder: PathBuf,
    document: String,
    file: OutputFile,
    sections: Sections,
}

impl Docs {
    fn open(dir: &Path) -> Result<Self, Stop> {
        let bad = |why: &str| usage("docs", &dir.display().to_string(), why);
        let path = dir.join(CHAPTER);
        let document = fs::read_to_string(&path)
            .map_err(|e| bad(&format!("cannot read {}: {e}", path.display())))?;
        let own_words = chapter::replaced(&document, "").ok_or_else(|| {
            bad(&format!(
                "{} must hold the lines '{}' and '{}', each once",
                path.display(),
                chapter::BEGIN,
                chapter::END
            ))
        })?;
        let folder = dir.join(FOLDER);
        let unusable = |e| bad(&format!("cannot use {}: {e}", folder.display()));
        fs::create_dir_all(&folder).map_err(unusable)?;
        // A file of its own that never gets its name: is it allowed?
        drop(OutputFile::create("figures", &folder.join("figures"))?);
        let mut sections = Sections::new();
        let mut add = |text: &str, file: &str| {
            for anchor in chapter::anchors(text) {
                sections.entry(anchor).or_insert_with(|| file.to_owned());
            }
        };
        add(&own_words, "");
        let mut others: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(&folder).map_err(unusable)? {
            others.push(entry.map_err(unusable)?.path());
        }
        others.sort();
        for other in others
            .iter()
            .filter(|p| p.extension() == Some("md".as_ref()))
        {
            let text = fs::read_to_string(other).map_err(unusable)?;
            let name = other.file_name().unwrap_or_default().to_string_lossy();
            add(&text, &format!("{FOLDER}/{name}"));
        }
        Ok(Self {
            file: OutputFile::create("table", &path)?,
            folder,
            document,
            sections,
        })
    }

    /// The figures first, so that the table never shows one that is not there.
    fn write(self, reports: &[CheckReport]) -> Result<(), OutputError> {
        for (name, svg) in chapter::figures(reports) {
            OutputFile::create("figure", &self.folder.join(name))?.finish_with(svg.as_bytes())?;
        }
        let part = chapter::text(reports, &self.sections);
        let whole = chapter::replaced(&self.document, &part).unwrap_or(self.document);
        self.file.finish_with(whole.as_bytes())
    }
}
