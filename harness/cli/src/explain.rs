//! `narrows explain`: why was a connection slow?

mod captures;
mod ends;
mod experiment;
mod files;
mod live;
mod pipe;
mod score;
mod simulate;

use super::output::{self, Sink, Wanted};
use super::{Console, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, Stop};
use captures::Captures;
use clap::Args;
use narrows::Duration;
use narrows_experiment::registry::Registry;
use narrows_explain::capture::End;
use narrows_explain::truth::Threshold;
use narrows_explain::{Config, Explanation};
use narrows_report::explain;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// The options of `narrows explain`.
#[derive(Debug, Args)]
#[command(
    about = "Say why connections were slow, from captures",
    long_about = "Say why connections were slow: finds every gap in which a connection with something \
                  to do did nothing, names what it waited for, and sums that up.\n\nCaptures are pcap \
                  or pcapng, plain or compressed with gzip or zstd, from either end or between, cut off \
                  or whole. Several that follow each other in time are one capture; those that overlap \
                  were taken at several places, and are explained one by one; two of the same packets, taken \
                  nearer either end, are aligned and explained together.\n\nAn experiment, by its \
                  file or by name, and a folder of results are run, each point once: what its \
                  connections waited for stands beside what captures at the sender, in the middle and at \
                  the receiver tell of it."
)]
pub(super) struct ExplainArgs {
    /// Captures (`-` is standard input), an experiment, or a folder of results.
    #[arg(
        required_unless_present_any = ["score", "live", "lab"],
        value_name = "FILE|EXPERIMENT|RESULTS"
    )]
    files: Vec<PathBuf>,
    /// Say how often explanations are right: runs a grid of simulated experiments, or so many of it,
    /// explains them from captures alone and holds that against the truth.
    #[arg(long, value_name = "RUNS", num_args = 0..=1, require_equals = true, conflicts_with = "files", help_heading = "Score")]
    score: Option<Option<usize>>,
    /// Listen to an interface instead of reading captures: eth0, or NAMESPACE:eth0, where the namespace is
    /// a name as `ip netns` has them or the number of a process. Takes root.
    #[arg(long, value_name = "INTERFACE", conflicts_with_all = ["files", "score", "lab", "rounds", "xpl", "out"], help_heading = "Live")]
    live: Option<String>,
    /// The same of the kernel's host in a lab that is up (`narrows live up`, which calls it `narrows`).
    #[arg(long, value_name = "NAME", conflicts_with_all = ["files", "score", "rounds", "xpl", "out"], help_heading = "Live")]
    lab: Option<String>,
    /// For how long [default: 30s].
    #[arg(long = "for", value_name = "TIME", help_heading = "Live")]
    span: Option<Duration>,
    /// Write the score as a page of the documentation into this file.
    #[arg(long, value_name = "FILE", requires = "score", help_heading = "Score")]
    docs: Option<PathBuf>,
    /// A silence is a gap if it is longer than so many percent of the RTT; a sender that has sent its
    /// window is silent for 100.
    #[arg(long, value_name = "PERCENT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(101..=100_000))]
    share: u32,
    /// A silence is no gap if it is not longer than this.
    #[arg(long, value_name = "TIME", default_value = "100us")]
    floor: Duration,
    /// The longest gaps to show.
    #[arg(long, value_name = "N", default_value_t = 20)]
    gaps: usize,
    /// Show what each round trip of this connection sent (its number in the tables; repeatable).
    #[arg(long, value_name = "NUMBER")]
    rounds: Vec<u64>,
    /// Connections under observation at once; one more, and the longest silent one is given up.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    connections: u32,
    /// Connections to draw: those that lost the most time, then those with the most bytes.
    #[arg(long, value_name = "N", default_value_t = 12)]
    draw: usize,
    /// Points to draw of a connection at most: of more packets, those that follow each other closely
    /// are one.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    points: usize,
    /// Write all of it as JSON (`-`: to standard output).
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,
    /// Write the gaps as CSV (`-`: to standard output).
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    csv: Option<PathBuf>,
    /// Write time-sequence graphs for xplot into this folder, one for each direction.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    xpl: Option<PathBuf>,
    /// Write everything into this folder: page, figures, tables, events.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Rebuild what was captured as an experiment, write it into this file, run it as it was and with
    /// each change that the gaps ask for, and show the times of calls.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "score",
        help_heading = "Output"
    )]
    simulate: Option<PathBuf>,
    /// Say nothing of the progress.
    #[arg(long, short, help_heading = "Output")]
    quiet: bool,
}

/// Gaps kept in full.
const GAPS: usize = 200_000;
/// Connections kept in full.
const CONNECTIONS: usize = 100_000;

pub(super) fn run(
    registry: &Registry,
    args: &ExplainArgs,
    command: &[OsString],
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    output::apart(&[
        Wanted::data("json", args.json.as_deref()),
        Wanted::data("csv", args.csv.as_deref()),
    ])?;
    if let Some(span) = args.span
        && args.live.is_none()
        && args.lab.is_none()
    {
        let why =
            "it is for how long to listen, with --live or --lab; captures are read to their end";
        return Err(super::usage("for", &span.to_string(), why));
    }
    if let Some(runs) = args.score {
        return score::run(runs, args.docs.as_deref(), args.quiet, console);
    }
    if let Some(loaded) = experiment::named(&args.files, registry)? {
        let threshold = Threshold {
            floor: args.floor,
            share_percent: args.share,
        };
        return experiment::run(&loaded, registry, threshold, args.csv.as_deref(), console);
    }
    let config = Config {
        share_percent: args.share,
        floor: args.floor,
        connections: args.connections as usize,
        ..Config::default()
    };
    let interface = match (&args.live, &args.lab) {
        (Some(interface), _) => Some(interface.clone()),
        (None, Some(lab)) => {
            let of_lab = narrows_lab::listen::of_lab(lab);
            Some(of_lab.map_err(|e| Stop::Failed(e.to_string()))?)
        }
        (None, None) => None,
    };
    let captures = Captures {
        paths: &args.files,
        quiet: args.quiet,
    };
    let mut places = match &interface {
        None => captures.explain(&config, GAPS, CONNECTIONS, console)?,
        Some(interface) => {
            let live = live::Live {
                interface,
                span: args.span.unwrap_or(live::SPAN),
                quiet: args.quiet,
            };
            vec![live.explain(&config, GAPS, CONNECTIONS, console)?]
        }
    };
    let draws = args.xpl.is_some() || args.out.is_some();
    let wanted: Vec<Vec<u64>> = places
        .iter()
        .map(|place| {
            let close = place.noteworthy(if draws { args.draw } else { 0 });
            let mut wanted: Vec<u64> = close.iter().map(|c| c.id).collect();
            wanted.extend(
                args.rounds
                    .iter()
                    .filter(|id| place.connections.iter().any(|c| c.id == **id)),
            );
            wanted.sort_unstable();
            wanted.dedup();
            wanted
        })
        .collect();
    if let Some(missing) = args
        .rounds
        .iter()
        .find(|id| wanted.iter().all(|w| !w.contains(id)))
    {
        let known = places.iter().map(|p| p.seen.connections).max().unwrap_or(0);
        let why = format!(
            "there is no connection of that number; they go from 0 to {}",
            known.saturating_sub(1)
        );
        return Err(super::usage("rounds", &missing.to_string(), &why));
    }
    if interface.is_none() && wanted.iter().any(|w| !w.is_empty()) {
        captures.draw(&config, &wanted, args.points, &mut places, console)?;
    }
    let colour = console.colours();
    let mut text = String::new();
    for (n, place) in places.iter().enumerate() {
        if n > 0 {
            text.push_str("\n----\n\n");
        }
        text.push_str(&explain::text(place, args.gaps, colour));
        for connection in place
            .connections
            .iter()
            .filter(|c| args.rounds.contains(&c.id))
        {
            text.push_str(&explain::rounds(connection, colour));
        }
    }
    let machine_reads = [&args.json, &args.csv]
        .into_iter()
        .flatten()
        .any(|p| output::is_stdout(p));
    let tell = |console: &mut Console<'_>, text: &str| match machine_reads {
        true => output::print(console.stderr, text),
        false => output::print(console.stdout, text),
    };
    tell(console, &text)?;
    type Render = fn(&Explanation) -> String;
    for (what, path, render) in [
        ("json", &args.json, explain::json as Render),
        ("csv", &args.csv, explain::csv),
    ] {
        if let Some(path) = path {
            let sink = Sink::open(what, Some(path))?;
            let text = sink.finish_with(|| places.iter().map(render).collect())?;
            output::print(console.stdout, &text)?;
        }
    }
    let mut tried = None;
    let mut simulated = EXIT_OK;
    if let (Some(path), [place, others @ ..]) = (&args.simulate, &places[..]) {
        let (table, code) = simulate::run(place, path, registry, console.cancel)?;
        tell(console, &table)?;
        if !others.is_empty() {
            tell(
                console,
                "It is the first of the captures; the others are of other places.\n",
            )?;
        }
        (tried, simulated) = (Some(table), code);
    }
    files::Folders {
        xpl: args.xpl.as_deref(),
        out: args.out.as_deref(),
        command: &super::command_line(command),
        tried: tried.as_deref(),
    }
    .write(&places, console)?;
    if simulated != EXIT_OK {
        return Ok(simulated);
    }
    match interface.is_some() && console.cancel.load(Ordering::Relaxed) {
        true => Ok(EXIT_INTERRUPTED),
        false => Ok(code(&places)),
    }
}

/// What was garbled has been told, and is a failure all the same.
fn code(places: &[Explanation]) -> u8 {
    let mut ends = places
        .iter()
        .flat_map(|place| &place.inputs)
        .map(|input| &input.contents.end);
    match ends.any(|end| matches!(end, End::Garbled { .. } | End::Failed { .. })) {
        true => EXIT_FAILED,
        false => EXIT_OK,
    }
}
