//! What `narrows explain` writes into folders.

use super::super::output::{self, OutputError, OutputFile};
use super::super::{Console, Stop};
use narrows::Instant;
use narrows_explain::{Connection, Explanation, Side};
use narrows_report::chart::Theme;
use narrows_report::explain;
use std::path::{Path, PathBuf};

/// Writes graphs for xplot into `xpl`, and everything into `out`.
pub(super) fn write(
    xpl: Option<&Path>,
    out: Option<&Path>,
    places: &[Explanation],
    command: &str,
    console: &mut Console<'_>,
) -> Result<(), Stop> {
    for (n, place) in places.iter().enumerate() {
        // Of several places each has a folder.
        let of = |folder: &Path| {
            if places.len() > 1 {
                folder.join(format!("place-{}", n + 1))
            } else {
                folder.to_owned()
            }
        };
        let drawn: Vec<Connection> = place
            .connections
            .iter()
            .filter(|c| !c.points.is_empty())
            .cloned()
            .collect();
        if let Some(folder) = xpl {
            graphs(&of(folder), place, &drawn)?;
        }
        if let Some(folder) = out {
            let folder = of(folder);
            everything(&folder, place, &drawn, command)?;
            let page = folder.join("report.html");
            output::print(console.stderr, &format!("Written: {}\n", page.display()))?;
        }
    }
    Ok(())
}

fn make(folder: &Path) -> Result<(), OutputError> {
    std::fs::create_dir_all(folder).map_err(|e| OutputError::new("folder", folder, e))
}

fn file(path: PathBuf, text: &str) -> Result<(), OutputError> {
    OutputFile::create("results", &path)?.finish_with(text.as_bytes())
}

fn graphs(folder: &Path, place: &Explanation, drawn: &[Connection]) -> Result<(), OutputError> {
    make(folder)?;
    let gaps = place.ledger.gaps();
    for c in drawn {
        for side in Side::BOTH
            .into_iter()
            .filter(|side| c.counts[*side as usize].bytes > 0)
        {
            let name = format!("connection-{}-{}.xpl", c.id, side.name());
            file(folder.join(name), &explain::xplot(c, side, &gaps))?;
        }
    }
    Ok(())
}

fn everything(
    folder: &Path,
    place: &Explanation,
    drawn: &[Connection],
    command: &str,
) -> Result<(), OutputError> {
    make(folder)?;
    let gaps = place.ledger.gaps();
    let origin = place.seen.first.unwrap_or(Instant::ZERO);
    for (name, text) in [
        ("ledger.json", explain::json(place)),
        ("gaps.csv", explain::csv(place)),
        ("connections.csv", explain::connections_csv(place)),
        ("rounds.csv", explain::rounds_csv(drawn)),
        ("events.jsonl", explain::events(drawn, &gaps, origin)),
        ("report.html", explain::page(place, drawn, command)),
        ("timeline.svg", explain::timeline(place).svg(Theme::Paper)),
    ] {
        file(folder.join(name), &text)?;
    }
    for c in drawn {
        for (kind, chart) in [
            ("sequence", explain::sequence(c, &gaps)),
            ("rtt", explain::round_trips(c, &gaps)),
            ("flight", explain::flight(c, &gaps)),
        ] {
            file(
                folder.join(format!("connection-{}-{kind}.svg", c.id)),
                &chart.svg(Theme::Paper),
            )?;
        }
    }
    Ok(())
}
