//! The same incast in other simulators, as recorded.

use super::grid::{Cell, Found, Variant, range};
use super::htsim::Rules;
use crate::reference::{Line, Table};
use crate::{Bench, Expected, Measured, Row, Tolerance, Verdict};
use narrows::Duration;
use narrows_experiment::scenario::ScenarioError;

const TABLE: &str = include_str!("../../reference/incast-simulators.csv");
const NS3: &str = include_str!("../../reference/incast-ns3.csv");
const NS3_DELAYED: &str = include_str!("../../reference/incast-ns3-delayed-ack.csv");
const BACKOFF: &str = "until-when-a-backoff-lasts";
const PHASE: &str = "the-phase-of-equal-servers";
const ABSTRACT: &str = "what-htsims-tcp-leaves-out";
const TIMER: &str = "the-timer-after-a-fast-retransmission";
const TRAP: &str = "a-window-of-one-and-an-ack-for-two";

/// A simulator: its column, its name, and which of our TCPs are set beside it.
const SIMULATORS: [(&str, &str, [Variant; 2]); 3] = [
    ("ns337", "ns-3.37", [Variant::Sack, Variant::Timestamps]),
    ("ns348", "ns-3.48", [Variant::Sack, Variant::Timestamps]),
    ("htsim", "htsim", [Variant::Sack, Variant::Htsim]),
];

/// Our grid beside three recorded ones, a row for each.
pub(super) fn recorded(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(TABLE);
    for line in table.lines() {
        let mut found: Vec<(Variant, Found)> = Vec::new();
        for (column, name, variants) in SIMULATORS {
            for variant in variants {
                let cell = Cell {
                    rate_gbps: line.whole("rate_gbps"),
                    servers: line.whole("n"),
                    rto_min_ms: line.whole("rto_min_ms"),
                    variant,
                };
                let theirs = [
                    line.number(column),
                    line.number(&format!("{column}_timeouts")),
                ];
                if theirs == [None, None] {
                    continue;
                }
                let known = found.iter().find(|(v, _)| *v == variant);
                let ours = match known {
                    Some((_, ours)) => ours.clone(),
                    None => cell.ours(bench)?,
                };
                for row in beside(cell, name, &table.source, theirs, &ours) {
                    bench.row(explained(cell, name, row));
                }
                if !found.iter().any(|(v, _)| *v == variant) {
                    found.push((variant, ours));
                }
            }
        }
    }
    Ok(())
}

/// Our grid beside ns-3's with several seeds, recorded with the program that is here.
pub(super) fn ns3(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let variants = [Variant::Sack, Variant::Timestamps, Variant::Ns3];
    seeds(bench, NS3, &variants)
}

/// The same with a receiver that delays its ACKs, and with what ns-3's sender then does.
pub(super) fn ns3_delayed_acks(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let variants = [Variant::DelayedAcks, Variant::DelayedAcksNs3];
    seeds(bench, NS3_DELAYED, &variants)
}

fn seeds(
    bench: &mut Bench<'_>,
    table: &'static str,
    variants: &[Variant],
) -> Result<(), ScenarioError> {
    let table = Table::parse(table);
    for theirs in recorded_cells(&table) {
        for &variant in variants {
            let cell = Cell {
                variant,
                ..theirs.cell
            };
            let ours = cell.ours(bench)?;
            let (goodput, timeouts) = (range(&theirs.goodput()), range(&theirs.timeouts()));
            let means = [Some(goodput.0), Some(timeouts.0)];
            let notes = [goodput, timeouts].map(|(_, least, most)| {
                format!(
                    "ns-3: {least:.0} to {most:.0} over {} seeds",
                    theirs.runs.len()
                )
            });
            for (row, note) in beside(cell, "ns-3", &table.source, means, &ours).zip(notes) {
                bench.row(explained(cell, "ns-3", row.note(note)));
            }
        }
    }
    Ok(())
}

/// The rules of htsim played by themselves, with the timers looked at always and each
/// millisecond, which is the floor; in two cells with other periods too.
pub(super) fn htsim_rules(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    const MS: u64 = 1_000_000;
    let table = Table::parse(TABLE);
    for line in table.lines() {
        let theirs = [line.number("htsim"), line.number("htsim_timeouts")];
        if theirs == [None, None] {
            continue;
        }
        let cell = Cell {
            rate_gbps: line.whole("rate_gbps"),
            servers: line.whole("n"),
            rto_min_ms: line.whole("rto_min_ms"),
            variant: Variant::HtsimTicks,
        };
        let shown = |bench: &mut Bench<'_>, how: &str, ours: [Measured; 2]| {
            let parts = [("goodput", "Mb/s"), ("timeouts", "")];
            for (((what, unit), ours), theirs) in parts.into_iter().zip(ours).zip(theirs) {
                bench.row(Row::new(
                    format!("{}{how}: {what}", cell.place()),
                    table.source.clone(),
                    theirs.map_or(Expected::Nothing, Expected::Value),
                    ours,
                    unit,
                    Tolerance::Shown,
                ));
            }
        };
        let sensitive = matches!(
            (cell.rate_gbps, cell.rto_min_ms, cell.servers),
            (1, 1, 8 | 128)
        );
        let periods: &[u64] = if sensitive {
            &[0, MS / 10, MS / 5, MS / 2, 4 * MS / 5, MS, 2 * MS, 10 * MS]
        } else {
            &[0, MS]
        };
        for &period in periods {
            bench.checkpoint()?;
            let rules = Rules {
                rate_gbps: cell.rate_gbps,
                servers: cell.servers,
                rto_min_ms: cell.rto_min_ms,
                period,
            };
            let (goodput, timeouts) = rules.play()?;
            let looks = match period {
                0 => ", htsim's rules alone, exact timers".to_owned(),
                p => format!(
                    ", htsim's rules alone, timers looked at each {}",
                    Duration::from_nanos(p)
                ),
            };
            let ours = [goodput, timeouts as f64].map(Measured::Value);
            shown(bench, &looks, ours);
        }
        if sensitive {
            let ours = cell.ours(bench)?;
            let ours = [&ours.goodput, &ours.timeouts].map(|v| Measured::spread(v));
            shown(bench, &format!(", our sender{}", cell.variant.name()), ours);
        }
    }
    Ok(())
}

/// A cell of ns-3's table.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) cell: Cell,
    /// Seed, goodput in Mb/s, timeouts.
    pub(super) runs: Vec<(u32, f64, f64)>,
}

impl Recorded {
    fn goodput(&self) -> Vec<f64> {
        self.runs.iter().map(|(_, goodput, _)| *goodput).collect()
    }
    fn timeouts(&self) -> Vec<f64> {
        self.runs.iter().map(|(.., timeouts)| *timeouts).collect()
    }
}

/// The cells of ns-3's table, in its order.
pub(super) fn recorded_cells(table: &Table) -> Vec<Recorded> {
    let mut cells: Vec<Recorded> = Vec::new();
    for line in table.lines() {
        let (servers, rto_min_ms) = (line.whole("n"), line.whole("rto_min_ms"));
        let run = (
            line.whole("seed"),
            of(line, "goodput"),
            of(line, "timeouts"),
        );
        let same = |c: &&mut Recorded| (c.cell.servers, c.cell.rto_min_ms) == (servers, rto_min_ms);
        match cells.iter_mut().find(same) {
            Some(known) => known.runs.push(run),
            None => cells.push(Recorded {
                cell: Cell {
                    rate_gbps: 1,
                    servers,
                    rto_min_ms,
                    variant: Variant::Sack,
                },
                runs: vec![run],
            }),
        }
    }
    cells
}

/// ns-3's table.
pub(super) fn ns3_table() -> Table {
    Table::parse(NS3)
}

fn of(line: Line<'_>, column: &str) -> f64 {
    line.number(column).unwrap_or(f64::NAN)
}

/// The rows of goodput and of timeouts, where they have either.
pub(super) fn beside(
    cell: Cell,
    peer: &str,
    source: &str,
    theirs: [Option<f64>; 2],
    ours: &Found,
) -> impl Iterator<Item = Row> {
    let (of_goodput, of_timeouts) = cell.tolerances();
    let row = |what: &str, theirs: Option<f64>, ours: &[f64], unit, tolerance: Tolerance| {
        let row = Row::new(
            format!("{}, beside {peer}: {what}", cell.name()),
            source,
            Expected::Value(theirs?),
            Measured::spread(ours),
            unit,
            tolerance,
        );
        Some(row.of_result(format!("{}: {what}", cell.name())))
    };
    let [goodput, timeouts] = theirs;
    let rows = [
        row("goodput", goodput, &ours.goodput, "Mb/s", of_goodput),
        row("timeouts", timeouts, &ours.timeouts, "", of_timeouts),
    ];
    rows.into_iter().flatten()
}

/// Where few segments are lost it is the timer that theirs do not restart; without timestamps a
/// backoff of ours lasts longer, our NICs have an overhead at random, and htsim's TCP has less than
/// ours.
pub(super) fn explained(cell: Cell, peer: &str, row: Row) -> Row {
    // Only what is outside its tolerance needs an explanation.
    if row.verdict() != Verdict::Differs {
        return row;
    }
    match (cell.variant, peer) {
        (Variant::Sack | Variant::Timestamps, _) if cell.rto_min_ms == 1 && cell.servers == 8 => {
            row.explained(TIMER)
        }
        // In the collapse, and where hardly anything is lost, more than the backoff differs.
        (Variant::Sack, "htsim") if cell.rto_min_ms > 1 || cell.servers < 16 => {
            row.explained(ABSTRACT)
        }
        (Variant::Htsim | Variant::HtsimTicks, _) => row.explained(ABSTRACT),
        (Variant::Sack, _) => row.explained(BACKOFF),
        (Variant::Timestamps | Variant::Ns3, _) => row.explained(PHASE),
        (Variant::DelayedAcks, _) => row.explained(TRAP),
        (Variant::DelayedAcksNs3, _) => row,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recorded_cell_can_be_run_and_has_a_peer() {
        let table = Table::parse(TABLE);
        for line in table.lines() {
            let cell = Cell {
                rate_gbps: line.whole("rate_gbps"),
                servers: line.whole("n"),
                rto_min_ms: line.whole("rto_min_ms"),
                variant: Variant::Timestamps,
            };
            let can = cell
                .spec()
                .check(&narrows_experiment::registry::Registry::default());
            can.unwrap();
            let peers = SIMULATORS.iter();
            assert!(peers.filter_map(|(c, ..)| line.number(c)).count() > 0);
        }
    }

    /// All of the grid, with seeds, each of which came to its end.
    #[test]
    fn ns3_is_recorded_on_the_whole_grid() {
        let recorded = recorded_cells(&ns3_table());
        for line in Table::parse(TABLE).lines() {
            if line.number("htsim_timeouts").is_none() {
                continue;
            }
            let cell = recorded.iter().find(|r| {
                (r.cell.servers, r.cell.rto_min_ms) == (line.whole("n"), line.whole("rto_min_ms"))
            });
            let cell = cell.unwrap_or_else(|| panic!("no {line:?}"));
            assert!(cell.runs.len() >= 3, "{cell:?}");
            assert!(cell.runs.iter().all(|(_, goodput, _)| *goodput > 0.0));
        }
        assert_eq!(recorded.len(), 8);
    }
}
