//! What `narrows explain` writes into folders.

use super::super::output::{self, OutputError, OutputFile};
use super::super::{Console, Stop};
use narrows::Instant;
use narrows_explain::{Connection, Explanation, Side};
use narrows_report::chart::Theme;
use narrows_report::explain;
use std::path::{Path, PathBuf};

/// What is written, and where.
pub(super) struct Folders<'a> {
    /// Graphs for xplot.
    pub(super) xpl: Option<&'a Path>,
    /// Everything.
    pub(super) out: Option<&'a Path>,
    pub(super) command: &'a str,
    /// What became of the changes that would help the first place.
    pub(super) tried: Option<&'a str>,
}

impl Folders<'_> {
    /// Writes it of each place.
    pub(super) fn write(
        &self,
        places: &[Explanation],
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
            if let Some(folder) = self.xpl {
                graphs(&of(folder), place, &drawn)?;
            }
            if let Some(folder) = self.out {
                let folder = of(folder);
                let tried = self.tried.filter(|_| n == 0);
                let html = explain::page(place, &drawn, tried, self.command);
                everything(&folder, place, &drawn, &html)?;
                let page = folder.join("report.html");
                output::print(console.stderr, &format!("Written: {}\n", page.display()))?;
            }
        }
        Ok(())
    }
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
    page: &str,
) -> Result<(), OutputError> {
    make(folder)?;
    file(folder.join("report.html"), page)?;
    let gaps = place.ledger.gaps();
    let origin = place.seen.first.unwrap_or(Instant::ZERO);
    for (name, text) in [
        ("ledger.json", explain::json(place)),
        ("gaps.csv", explain::csv(place)),
        ("connections.csv", explain::connections_csv(place)),
        ("rounds.csv", explain::rounds_csv(drawn)),
        ("events.jsonl", explain::events(drawn, &gaps, origin)),
        ("timeline.svg", explain::timeline(place).svg(Theme::Paper)),
    ] {
        file(folder.join(name), &text)?;
    }
    if let Some(path) = &place.path {
        file(
            folder.join("delays.svg"),
            &explain::delays(path).svg(Theme::Paper),
        )?;
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
