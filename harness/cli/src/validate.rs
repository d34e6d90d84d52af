//! `narrows validate`: run the checks, print the table, keep it.

mod docs;

use super::args::ValidateArgs;
use super::output::{OutputError, OutputFile, Sink, Wanted, apart, print};
use super::progress::{Progress, Watcher};
use super::{App, Console, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, Stop, command_line, usage};
use docs::Docs;
use narrows_net::near_match::nearest;
use narrows_report::table::Colour;
use narrows_validate::report::records::ValidationRecord;
use narrows_validate::report::{Tally, page, table};
use narrows_validate::{Check, CheckReport, run_checks};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

/// Run it; the exit code.
pub(super) fn run(
    app: &App,
    args: &ValidateArgs,
    command: &[OsString],
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let mut known = app.checks.clone();
    if args.full {
        known.extend(narrows_validate::full_checks());
    }
    let checks = chosen(&known, &args.only)?;
    if args.list {
        print(console.stdout, &list(&checks))?;
        return Ok(EXIT_OK);
    }
    let overview = args.docs.as_deref().map(docs::overview_in);
    apart(&[
        Wanted::file("docs", overview.as_deref()),
        Wanted::file("report", args.report.as_deref()),
        Wanted::data("json", args.json.as_deref()),
    ])?;
    let report = args.report.as_deref();
    let report = report
        .map(|path| OutputFile::create("report", path))
        .transpose()?;
    let json = Sink::open("JSON", args.json.as_deref())?;
    let docs = args.docs.as_deref();
    let docs = docs.map(|dir| Docs::open(dir, &checks)).transpose()?;

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
        let colour = match on_stdout {
            true => Colour::Plain,
            false => console.colours(),
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
            // What hangs on the machine comes last, and is not part of the documentation.
            let local = |r: &CheckReport| narrows_validate::is_local(&r.check);
            let everywhere = &reports[..reports.iter().position(local).unwrap_or(reports.len())];
            for fault in docs.faults(everywhere) {
                code = EXIT_FAILED;
                let _ = writeln!(human, "{fault}");
            }
            let mut changes = docs::Changes::default();
            keep(docs.write(everywhere, &mut changes));
            if !args.quiet {
                let _ = write!(human, "\n{changes}");
            }
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
