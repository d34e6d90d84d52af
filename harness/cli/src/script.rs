//! `narrows script`: runs packetdrill scripts.

use super::output::{self, OutputFile, Wanted};
use super::{Console, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, Stop};
use clap::Args;
use clap::error::ErrorKind;
use narrows::Duration;
use narrows_script::diagnostic::Kind;
use narrows_script::{Options, Profile, Report, report, suite};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// The options of `narrows script`.
#[derive(Debug, Args)]
pub(super) struct ScriptArgs {
    /// Scripts, or folders of `.pkt` files.
    #[arg(required = true, value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
    /// Whose choices hold where the RFCs leave one: rfc, linux, freebsd.
    #[arg(long, value_name = "NAME", default_value = "rfc", value_parser = str::parse::<Profile>)]
    pub(super) profile: Profile,
    /// Compare TCP options in their order with their padding, and segments one by one.
    #[arg(long)]
    pub(super) exact: bool,
    /// How far, in microseconds, a packet may be from its time.
    #[arg(long, alias = "tolerance_usecs", value_name = "N")]
    pub(super) tolerance_usecs: Option<u32>,
    /// Define a name for the scripts' words and conditions.
    #[arg(short = 'D', long = "define", value_name = "NAME[=VALUE]")]
    pub(super) defines: Vec<String>,
    /// Write the results as JSON (`-`: to standard output).
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write the results as JUnit's XML (`-`: to standard output).
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    /// Threads; one for each processor by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) jobs: Option<u16>,
    /// Say what happened in each script, also in those that pass.
    #[arg(short, long)]
    pub(super) verbose: bool,
}

pub(super) fn run(args: &ScriptArgs, console: &mut Console<'_>) -> Result<u8, Stop> {
    output::apart(&[
        Wanted::data("json", args.json.as_deref()),
        Wanted::data("junit", args.junit.as_deref()),
    ])?;
    let files = suite::find(&args.paths).map_err(failed)?;
    let options = Options {
        profile: args.profile,
        exact: args.exact,
        tolerance: args
            .tolerance_usecs
            .map(|n| Duration::from_micros(n.into())),
        defines: args
            .defines
            .iter()
            .map(|d| match d.split_once('=') {
                Some((name, value)) => (name.to_owned(), value.to_owned()),
                None => (d.clone(), "1".to_owned()),
            })
            .collect(),
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.jobs.map_or(processors, usize::from);
    let reports = suite::run_all(&files, &options, threads, console.cancel).map_err(failed)?;
    let machine_reads = [&args.json, &args.junit]
        .into_iter()
        .flatten()
        .any(|p| output::is_stdout(p));
    let text = summary(&reports, args.verbose);
    if machine_reads {
        output::print(console.stderr, &text)?;
    } else {
        output::print(console.stdout, &text)?;
    }
    if let Some(path) = &args.json {
        write(path, &report::json(&reports), console)?;
    }
    if let Some(path) = &args.junit {
        write(path, &report::junit(&reports), console)?;
    }
    if console.cancel.load(Ordering::Relaxed) && reports.len() < files.len() {
        return Ok(EXIT_INTERRUPTED);
    }
    match reports.iter().all(Report::passed) {
        true => Ok(EXIT_OK),
        false => Ok(EXIT_FAILED),
    }
}

fn failed(e: suite::SuiteError) -> Stop {
    Stop::Usage(clap::Error::raw(ErrorKind::Io, format!("{e}\n")))
}

/// The errors, then a line that counts.
fn summary(reports: &[Report], verbose: bool) -> String {
    let mut out = String::new();
    for report in reports {
        if report.passed() && verbose {
            out.push_str(&format!("{}: passed\n", report.file));
            for line in &report.transcript {
                out.push_str(&format!("  {line}\n"));
            }
        } else {
            for line in &report.printed {
                out.push_str(&format!("{}: {line}\n", report.file));
            }
        }
        if !report.passed() {
            out.push_str(&report.text());
            out.push('\n');
        }
    }
    let refused = |r: &&Report| {
        let kind = r.failure.as_ref().map(|d| d.kind);
        kind.is_some_and(|k| k != Kind::Mismatch)
    };
    let unread = reports.iter().filter(refused).count();
    let failed = reports.iter().filter(|r| !r.passed()).count() - unread;
    out.push_str(&match reports.len() {
        1 => "1 script: ".to_owned(),
        n => format!("{n} scripts: "),
    });
    out.push_str(&match (failed, unread) {
        (0, 0) => "all passed\n".to_owned(),
        (n, 0) => format!("{n} failed\n"),
        (0, n) => format!("{n} not understood\n"),
        (n, m) => format!("{n} failed, {m} not understood\n"),
    });
    out
}

fn write(path: &Path, text: &str, console: &mut Console<'_>) -> Result<(), Stop> {
    if output::is_stdout(path) {
        output::print(console.stdout, text)?;
        return Ok(());
    }
    Ok(OutputFile::create("results", path)?.finish_with(text.as_bytes())?)
}
