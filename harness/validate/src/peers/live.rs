//! ns-3 as it is installed here: beside what was recorded of it, and beside ours.
//!
//! Not part of the chapter, which is the same on every machine.

use super::ns3::{Missing, Ns3};
use super::simulators::{Recorded, beside, ns3_table, recorded_cells};
use crate::{Bench, Expected, Measured, Row, Tolerance};
use narrows_experiment::scenario::ScenarioError;

/// The version that was recorded. Another one is another TCP.
const RECORDED: &str = "3.37";

/// Some cells: what takes a few seconds.
pub(super) fn some(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    run(bench, |cell| match cell.cell.servers {
        ..=8 => 2,
        32 => 1,
        _ => 0,
    })
}

/// All cells and seeds.
pub(super) fn all(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    run(bench, |cell| cell.runs.len())
}

/// So many of the seeds of each cell.
fn run(bench: &mut Bench<'_>, seeds: fn(&Recorded) -> usize) -> Result<(), ScenarioError> {
    let source = "ns-3 on this machine, harness/validate/reference/ns3/incast.cc";
    let ns3 = match Ns3::build() {
        Ok(ns3) => ns3,
        Err(Missing(why)) => {
            bench.row(Row::new(
                "ns-3 on this machine",
                source,
                Expected::Nothing,
                Measured::Missing(why),
                "Mb/s",
                Tolerance::Shown,
            ));
            return Ok(());
        }
    };
    let table = ns3_table();
    for recorded in recorded_cells(&table) {
        let cell = recorded.cell;
        let mut sums = [0.0, 0.0];
        let runs = &recorded.runs[..seeds(&recorded).min(recorded.runs.len())];
        for (seed, goodput, timeouts) in runs {
            bench.checkpoint()?;
            let here = ns3
                .run(cell.servers, cell.rto_min_ms, u64::from(*seed))
                .map_err(|Missing(why)| ScenarioError::Internal(why))?;
            sums = [sums[0] + here.0, sums[1] + here.1];
            let same = ns3.version() == RECORDED;
            let (of_goodput, of_timeouts) = match same {
                true => (Tolerance::Relative(0.001), Tolerance::Relative(0.001)),
                false => cell.tolerances(),
            };
            for (what, recorded, here, unit, tolerance) in [
                ("goodput", *goodput, here.0, "Mb/s", of_goodput),
                ("timeouts", *timeouts, here.1, "", of_timeouts),
            ] {
                bench.row(Row::new(
                    format!(
                        "{}, seed {seed}, ns-3.{} here, beside ns-3 as recorded: {what}",
                        cell.name(),
                        ns3.version().trim_start_matches("3.")
                    ),
                    table.source.clone(),
                    Expected::Value(recorded),
                    Measured::Value(here),
                    unit,
                    tolerance,
                ));
            }
        }
        if runs.is_empty() {
            continue;
        }
        let means = sums.map(|sum| Some(sum / runs.len() as f64));
        let ours = cell.ours(bench)?;
        for row in beside(cell, "ns-3 here", source, means, &ours) {
            bench.row(super::simulators::explained(cell, "ns-3", row));
        }
    }
    Ok(())
}
