//! `narrows incast`: synchronised reads through one port, as the experiment `incast` or a preset.

use super::super::catalog::Kind;
use super::super::run::Options;
use super::super::{App, Console, Stop, usage, values};
use super::{Composite, Opt, Pairs, Short, Shorthand};
use clap::Args;
use narrows_experiment::knob::Quantity;
use narrows_experiment::model::Experiment;
use narrows_experiment::model::link::Hold;
use narrows_experiment::scenario::spec::{Aqm, ImpairedWay, Share};
use std::ffi::OsString;
use std::sync::OnceLock;

/// The presets: their names, and the experiments that they are.
pub(crate) const PRESETS: [(&str, &str); 3] = [
    ("default", "incast"),
    ("fast08", "fast08"),
    ("modern", "modern"),
];

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
        Composite {
            name: "shared-buffer",
            value: "SIZE[:ALPHA]",
            help: "Memory that all ports of the switch share, each up to ALPHA times what is free, in place of --buffer; with both, both hold [default: none; ALPHA: 1].",
            heading: "Network",
            missing: None,
            conflicts: &[],
            pairs: |text, _| {
                let shared = values::shared_buffer(text)?;
                let size = shared.size.show().unwrap_or_default();
                // The pool is the limit, unless --buffer gives a narrower one.
                Ok(vec![
                    ("network.shared_buffer", text.to_owned()),
                    (LIMIT, size),
                ])
            },
        },
        Composite {
            name: "impair",
            value: "KIND=SHARE,...",
            help: "Let the client's link lose, corrupt, duplicate or reorder packets at random: loss=0.1%,reorder=1%,hold=20us-80us,on=data. on is data, acks or both.",
            heading: "Network",
            missing: None,
            conflicts: &[],
            pairs: impairments,
        },
        Composite {
            name: "ecn-threshold",
            value: "QUEUE LIST",
            help: "Mark ECN-capable packets from this queue on, or off [default: 30kB].",
            heading: "Network",
            missing: None,
            conflicts: &["red", "codel"],
            pairs: |text, _| {
                if text == "off" {
                    return Ok(vec![
                        (DISCIPLINE, "drop-tail".to_owned()),
                        (THRESHOLD, "off".to_owned()),
                    ]);
                }
                let mut list = Vec::new();
                for value in text.split(',') {
                    list.push(match values::ecn_threshold(value.trim())? {
                        // More than any queue holds.
                        Aqm::None => NEVER.to_owned(),
                        _ => value.trim().to_owned(),
                    });
                }
                Ok(vec![
                    (DISCIPLINE, "ecn-step".to_owned()),
                    (THRESHOLD, list.join(",")),
                ])
            },
        },
        Composite {
            name: "red",
            value: "MIN:MAX:PERCENT",
            help: "Random early detection, in place of the ECN threshold.",
            heading: "Network",
            missing: None,
            conflicts: &["codel"],
            pairs: |text, _| queue_management(&values::red(text)?),
        },
        Composite {
            name: "codel",
            value: "TARGET:INTERVAL[:CE]",
            help: "Controlled delay (RFC 8289), in place of the ECN threshold: marks or drops at the head of the queue; with CE, marks what waited longer than that [without a value: 5ms:100ms].",
            heading: "Network",
            missing: Some("5ms:100ms"),
            conflicts: &[],
            pairs: |text, _| {
                let range = "allowed is 100ns to 100s, the target below the interval";
                let aqm = values::codel(text).map_err(|why| format!("{why}; {range}"))?;
                match aqm {
                    Aqm::Codel(codel) if codel.target >= codel.interval => Err(range.to_owned()),
                    aqm => queue_management(&aqm),
                }
            },
        },
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

    fn table() -> &'static OnceLock<Vec<Opt>> {
        static TABLE: OnceLock<Vec<Opt>> = OnceLock::new();
        &TABLE
    }
}

const LIMIT: &str = r#"network.port."s0->h0".queue.limit"#;
const DISCIPLINE: &str = r#"network.port."s0->h0".queue.discipline"#;
const THRESHOLD: &str = r#"network.port."s0->h0".queue.threshold"#;
const NEVER: &str = "1073741824p";

/// RED or CoDel at the port to the client.
fn queue_management(aqm: &Aqm) -> Result<Pairs, String> {
    let show = |value: Option<String>| value.unwrap_or_default();
    let mut pairs = vec![(THRESHOLD, "off".to_owned())];
    match aqm {
        Aqm::Red(red) => pairs.extend([
            (DISCIPLINE, "red".to_owned()),
            (r#"network.port."s0->h0".queue.min"#, show(red.min.show())),
            (r#"network.port."s0->h0".queue.max"#, show(red.max.show())),
            (
                r#"network.port."s0->h0".queue.probability"#,
                show(Share(red.max_permille * (Share::ALL.0 / 1_000)).show()),
            ),
        ]),
        Aqm::Codel(codel) => {
            pairs.extend([
                (DISCIPLINE, "codel".to_owned()),
                (
                    r#"network.port."s0->h0".queue.target"#,
                    show(codel.target.show()),
                ),
                (
                    r#"network.port."s0->h0".queue.interval"#,
                    show(codel.interval.show()),
                ),
            ]);
            if let Some(ce) = codel.ce_threshold {
                let key = r#"network.port."s0->h0".queue.ce_threshold"#;
                pairs.push((key, show(ce.show())));
            }
        }
        Aqm::None | Aqm::EcnStep(_) => {}
    }
    Ok(pairs)
}

/// What goes wrong on the client's link, by direction.
fn impairments(text: &str, _: &Experiment) -> Result<Pairs, String> {
    let impair = values::impair(text)?;
    let hold = Hold {
        least: impair.hold.0,
        most: impair.hold.1,
    };
    let mut pairs = Vec::new();
    let ways: [(ImpairedWay, [&'static str; 5]); 2] = [
        (
            ImpairedWay::Acks,
            [
                r#"network.port."s0->h0".link.loss"#,
                r#"network.port."s0->h0".link.corrupt"#,
                r#"network.port."s0->h0".link.duplicate"#,
                r#"network.port."s0->h0".link.reorder"#,
                r#"network.port."s0->h0".link.hold"#,
            ],
        ),
        (
            ImpairedWay::Data,
            [
                r#"network.port."h0->s0".link.loss"#,
                r#"network.port."h0->s0".link.corrupt"#,
                r#"network.port."h0->s0".link.duplicate"#,
                r#"network.port."h0->s0".link.reorder"#,
                r#"network.port."h0->s0".link.hold"#,
            ],
        ),
    ];
    for (other_way, keys) in ways {
        if impair.on == other_way {
            continue;
        }
        let values = [
            impair.loss.show(),
            impair.corrupt.show(),
            impair.duplicate.show(),
            impair.reorder.show(),
            hold.show(),
        ];
        let set = keys.into_iter().zip(values);
        pairs.extend(set.filter_map(|(key, value)| Some((key, value?))));
    }
    Ok(pairs)
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
    super::run(app, experiment, &short, &options, command, console)
}
