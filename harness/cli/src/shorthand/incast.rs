//! `narrows incast`: synchronised reads through one port, as the experiment `incast` or a preset.

use super::super::catalog::Kind;
use super::super::presets::PRESETS;
use super::super::run::Options;
use super::super::{App, Console, Stop, usage, values};
use super::{Composite, Opt, Short, Shorthand, port};
use clap::Args;
use std::ffi::OsString;
use std::sync::OnceLock;

#[derive(Debug)]
pub(crate) struct Incast;

#[derive(Debug, Args)]
pub(crate) struct IncastArgs {
    /// Start from a preset's values (see `narrows list`); other options change them.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "default",
        help_heading = "Traffic"
    )]
    preset: String,
    #[command(flatten)]
    short: Short<Incast>,
    #[command(flatten)]
    options: Options,
}

impl Shorthand for Incast {
    const EXPERIMENT: &'static str = "incast";

    const APART: &'static [(&'static str, &'static [&'static str])] = &[("sru", &["block"])];

    const COMPOSITE: &'static [Composite] = &[
        Composite {
            name: "duration",
            value: "TIME",
            help: "Simulated time of a run, in place of --blocks.",
            heading: "Traffic",
            missing: None,
            conflicts: &["blocks", "time-limit"],
            pairs: |text, _| {
                values::positive_duration(text)?;
                let time = ("run.duration", text.to_owned());
                Ok(vec![time, ("traffic.read.blocks", "off".to_owned())])
            },
        },
        Composite {
            name: "time-limit",
            value: "TIME",
            help: "Give a run up after this much simulated time [default: 600s].",
            heading: "Traffic",
            missing: None,
            conflicts: &[],
            pairs: |text, _| {
                values::positive_duration(text)?;
                Ok(vec![("run.duration", text.to_owned())])
            },
        },
        port::SHARED_BUFFER,
        port::IMPAIR,
        port::ECN_THRESHOLD,
        port::RED,
        port::CODEL,
        Composite {
            name: "queue-counting",
            value: "HOW LIST",
            help: "Whether the packet being transmitted takes buffer space: waiting (no), with-in-service, or ns-2, which keeps one less than the limit [default: waiting].",
            heading: "Network",
            missing: None,
            conflicts: &[],
            pairs: |text, _| {
                let port = (r#"network.port."s0->h0".queue.counting"#, text.to_owned());
                // Of several the other ports, which never fill, keep their own.
                let others =
                    (!text.contains(',')).then(|| ("network.queue.counting", text.to_owned()));
                Ok([port].into_iter().chain(others).collect())
            },
        },
        Composite {
            name: "tick",
            value: "TIME LIST",
            help: "Resolution of the hosts' timers, or exact [default: exact].",
            heading: "TCP",
            missing: None,
            conflicts: &[],
            pairs: |text, _| {
                let exact = |value: &str| match value.trim() {
                    "exact" => Ok("0ns".to_owned()),
                    value => values::tick(value).map(|_| value.to_owned()),
                };
                let list: Result<Vec<String>, String> = text.split(',').map(exact).collect();
                Ok(vec![("host.tcp.timer_tick", list?.join(","))])
            },
        },
    ];

    const EACH_FLOW: bool = false;

    fn table() -> &'static OnceLock<Vec<Opt>> {
        static TABLE: OnceLock<Vec<Opt>> = OnceLock::new();
        &TABLE
    }
}

/// Run it; the exit code.
pub(crate) fn run(
    app: &App,
    args: &IncastArgs,
    command: &[OsString],
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let preset = args.preset.as_str();
    let known = app.catalog.check(Kind::Preset, preset);
    known.map_err(|why| usage("preset", preset, &why))?;
    let found = PRESETS.iter().find(|(name, _)| *name == preset);
    let experiment = found.map_or(Incast::EXPERIMENT, |(_, experiment)| experiment);
    let endless = experiment != Incast::EXPERIMENT;
    let (blocks, limit) = (args.short.of("blocks"), args.short.of("time-limit"));
    if let (true, Some(limit), None) = (endless, limit, blocks) {
        let why = format!(
            "--preset {preset} runs for a time and not for a number of blocks: give --duration \
             {limit}, or --blocks, too"
        );
        return Err(usage("time-limit", limit, &why));
    }
    // A run of so many blocks is not to be cut by the preset's time.
    let mut short = Short {
        given: args.short.given.clone(),
        command: args.short.command,
    };
    if endless && blocks.is_some() && limit.is_none() {
        short.given.push(("time-limit", "600s".to_owned()));
    }
    let mut options = args.options.clone();
    options.report_by_default("narrows-report.html");
    super::run(
        app,
        experiment,
        &short,
        &options,
        &|_, _| Ok(()),
        command,
        console,
    )
}
