//! `narrows keys` and `show`: what can be set, and what ships.

use super::output::print;
use super::{App, Console, EXIT_OK, Stop};
use clap::Args;
use narrows_experiment::knob::Kind;
use narrows_experiment::registry::Registry;
use narrows_experiment::shipped::{self, Shipped};
use std::fmt::Write as _;

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

/// Every knob: key, title, type, range, default, meaning, source.
pub(super) fn keys(app: &App, args: &KeysArgs, console: &mut Console<'_>) -> Result<u8, Stop> {
    let text = keys_text(
        &app.catalog.registry,
        args.pattern.as_deref(),
        console.colour,
    );
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
            let usual = match (usual, &about.kind) {
                (Some(usual), _) => Some(usual.as_str()),
                // Without a value.
                (None, Kind::Or(word, _)) => Some(*word),
                (None, _) => None,
            };
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
        (
            "change.N.nic.gro",
            "as host.nic.gro, what a change sets or toggles at hosts",
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
