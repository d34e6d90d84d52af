//! `narrows keys`, `show`, `merge` and `diff`: around experiments.

use super::output::print;
use super::{App, Console, EXIT_FAILED, EXIT_OK, Stop};
use crate::report::points;
use crate::report::table::Colour;
use clap::Args;
use narrows_experiment::registry::Registry;
use narrows_experiment::results::{Folder, Record, merge};
use narrows_experiment::shipped::{self, Shipped};
use narrows_experiment::stats::Estimate;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct KeysArgs {
    /// Only keys that have this in their name, title or meaning.
    #[arg(value_name = "PATTERN")]
    pattern: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// An experiment that ships (see `narrows list`).
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct MergeArgs {
    /// The folder that gets all of it.
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Folders with parts of the same experiment.
    #[arg(value_name = "DIR", required = true)]
    parts: Vec<PathBuf>,
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

/// Every knob: key, title, type, range, default, meaning, source.
pub(super) fn keys<R>(
    app: &App<R>,
    args: &KeysArgs,
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let registry = app.catalog.registry();
    let text = keys_text(&registry, args.pattern.as_deref(), console.colour);
    if text.is_empty() {
        let pattern = args.pattern.as_deref().unwrap_or_default();
        let why = format!("no key has '{pattern}' in its name, title or meaning");
        return Err(Stop::Failed(why));
    }
    print(console.stdout, &text)?;
    Ok(EXIT_OK)
}

fn keys_text(registry: &Registry, pattern: Option<&str>, bold: bool) -> String {
    let (on, off) = if bold {
        ("\x1b[1m", "\x1b[0m")
    } else {
        ("", "")
    };
    let pattern = pattern.map(str::to_lowercase);
    let wanted = |text: &str| {
        let pattern = pattern.as_deref();
        pattern.is_none_or(|p| text.to_lowercase().contains(p))
    };
    let mut out = String::new();
    for section in registry.sections() {
        for (about, usual) in &section.knobs {
            let key = format!("{}.{}", section.at, about.key);
            let of = section.of.map(|of| format!(" ({of})")).unwrap_or_default();
            let text = format!(
                "{key} {} {} {}{of}",
                about.title, about.meaning, about.source
            );
            if !wanted(&text) {
                continue;
            }
            let _ = writeln!(out, "{on}{key}{off}{of}  {}", about.title);
            let _ = write!(out, "    {}", about.kind);
            if let Some(range) = about.kind.range() {
                let _ = write!(out, "; {range}");
            }
            if let Some(usual) = usual {
                let _ = write!(out, " [default: {usual}]");
            }
            out.push('\n');
            let _ = writeln!(out, "    {}", about.meaning);
            if !about.source.is_empty() {
                let _ = writeln!(out, "    From {}.", about.source);
            }
        }
    }
    for shape in registry.topologies.entries() {
        for size in shape.parameters() {
            let key = format!("network.{}", size.name);
            let text = format!("{key} {} {}", size.about, shape.name());
            if wanted(&text) {
                let (least, most) = (size.range.start(), size.range.end());
                let _ = writeln!(out, "{on}{key}{off} ({})  {}", shape.name(), size.about);
                let _ = writeln!(
                    out,
                    "    whole number; {least} to {most} [default: {}]",
                    size.default
                );
            }
        }
    }
    let more = [
        (
            "network.trunk.link.KEY, network.trunk.queue.KEY",
            "as network.link and network.queue, of links between switches",
        ),
        (
            "network.port.\"PORTS\".link.KEY, ....queue.KEY",
            "the same of single ports: \"s0->h0\", \"leaf->spine\"",
        ),
        (
            "group.NAME.hosts",
            "the hosts of a group: h0..h7, or several patterns",
        ),
        (
            "group.NAME.size",
            "how many hosts a group has; the network then has those of all groups",
        ),
        ("group.NAME.tcp.KEY", "as host.tcp, of the hosts of a group"),
        (
            "traffic.NAME.kind, probe.NAME.kind",
            "the kind, which says what other keys there are",
        ),
        ("traffic.NAME.start", "when it begins"),
        (
            "traffic.NAME.tcp.KEY",
            "as host.tcp, of the connections of a traffic",
        ),
        (
            "change.N.link.KEY, change.N.queue.KEY",
            "as network.link and network.queue, what a change sets",
        ),
        ("sweep.\"KEY\"", "values of a key, each in its turn"),
        (
            "expect.N.where.\"KEY\"",
            "of which points of the sweep it is expected",
        ),
        (
            "short.NAME",
            "a short name for a key, for --set and --sweep",
        ),
    ];
    for (key, meaning) in more {
        if wanted(&format!("{key} {meaning}")) {
            let _ = writeln!(out, "{on}{key}{off}\n    {meaning}");
        }
    }
    out
}

/// The file of an experiment that ships.
pub(super) fn show(args: &ShowArgs, console: &mut Console<'_>) -> Result<u8, Stop> {
    match Shipped::get(&args.name) {
        Ok(shipped) => {
            print(console.stdout, shipped.text)?;
            Ok(EXIT_OK)
        }
        Err(near) => {
            let all: Vec<&str> = shipped::ALL.iter().map(|s| s.name).collect();
            let near = match near {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("what ships is {}", all.join(", ")),
            };
            let name = &args.name;
            Err(Stop::Failed(format!(
                "no experiment is called '{name}'; {near}"
            )))
        }
    }
}

/// Puts parts together.
pub(super) fn put_together<R>(
    app: &App<R>,
    args: &MergeArgs,
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let registry = app.catalog.registry();
    let added = merge(&args.out, &args.parts, &registry);
    let added = added.map_err(|e| Stop::Failed(e.to_string()))?;
    let text = format!("narrows: {added} runs put into {}\n", args.out.display());
    console.say_aside(&text)?;
    Ok(EXIT_OK)
}

/// Two folders side by side: what is set differently, and which metrics moved.
pub(super) fn diff<R>(
    app: &App<R>,
    args: &DiffArgs,
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let registry = app.catalog.registry();
    let read = |path: &Path| Folder::read(path, &registry).map_err(|e| Stop::Failed(e.to_string()));
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let mut out = String::new();
    let entries = |e: &narrows_experiment::model::Experiment| -> BTreeMap<String, String> {
        let all = e.entries().into_iter();
        all.map(|entry| {
            let value = match entry.value {
                narrows_experiment::model::Value::One(value) => value,
                narrows_experiment::model::Value::List(values) => values.join(","),
            };
            (entry.key, value)
        })
        .collect()
    };
    let (set_a, set_b) = (entries(&a.0), entries(&b.0));
    let mut keys: Vec<&String> = set_a.keys().chain(set_b.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let (here, there) = (set_a.get(key), set_b.get(key));
        if here != there {
            let text = |v: Option<&String>| v.map_or_else(|| "-".to_owned(), Clone::clone);
            let _ = writeln!(out, "set {key}: {} | {}", text(here), text(there));
        }
    }
    if !a.1.iter().any(|r| b.1.iter().any(|o| o.values == r.values)) {
        out += "no point of the sweep is in both\n";
        print(console.stdout, &out)?;
        return Ok(EXIT_FAILED);
    }
    let colour = if console.colour {
        Colour::Ansi
    } else {
        Colour::Plain
    };
    let moved = points::moved(
        (&a.0, by_point(&a.1)),
        (&b.0, by_point(&b.1)),
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
