//! What the connections waited for: a section, and its numbers.

use crate::chart::ink::escape;
use crate::{flows, html, points};
use narrows_experiment::results::{Folder, FolderError, Record, cell};
use narrows_experiment::summary::Summary;
use narrows_explain::{Cause, LEDGER};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Points that are shown.
const MOST_POINTS: usize = 24;

/// Sums of a cause over the repetitions of a point.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    gaps: u64,
    time: u64,
    longest: u64,
}

/// The ledgers of all points that have one.
pub(super) struct Ledgers {
    points: Vec<Point>,
    /// Whether every repetition has one.
    each_run: bool,
}

struct Point {
    label: String,
    values: Vec<String>,
    runs: usize,
    /// By cause, as its name in files; most time first.
    causes: Vec<(String, Sums)>,
}

impl Point {
    fn time(&self) -> u64 {
        self.causes.iter().map(|(_, sums)| sums.time).sum()
    }
}

/// Reads the ledgers of the runs.
pub(super) fn read(summary: &Summary<'_>, folder: &Folder) -> Result<Ledgers, FolderError> {
    let plan = summary.plan();
    let probes = plan.base().probes.iter().filter(|p| p.kind == LEDGER);
    let tables: Vec<_> = probes
        .map(|p| (format!("table-{}", p.name), p.spec.repeats()))
        .collect();
    let each_run = tables.iter().any(|(_, repeats)| *repeats);
    let mut points = Vec::new();
    for point in (0..plan.points()).filter(|_| !tables.is_empty()) {
        let mut causes: BTreeMap<String, Sums> = BTreeMap::new();
        let watched = |record: &&&Record| each_run || record.run.repetition == 0;
        let runs: Vec<&Record> = summary
            .runs(point)
            .iter()
            .filter(watched)
            .copied()
            .collect();
        for record in &runs {
            for (table, _) in &tables {
                for row in flows::rows(folder, record, table)? {
                    let number = |name: &str| row.get(name).and_then(|cell| cell.parse().ok());
                    let sums = [number("gaps"), number("time_ns"), number("longest_ns")];
                    let (Some(cause), [Some(gaps), Some(time), Some(longest)]) =
                        (row.get("cause"), sums)
                    else {
                        continue;
                    };
                    let sums: &mut Sums = causes.entry(cause.clone()).or_default();
                    sums.gaps += gaps;
                    sums.time += time;
                    sums.longest = sums.longest.max(longest);
                }
            }
        }
        if !runs.is_empty() {
            let mut causes: Vec<_> = causes.into_iter().collect();
            causes.sort_by_key(|(_, sums)| Reverse(sums.time));
            points.push(Point {
                label: plan.label(point),
                values: plan.values(point).into_iter().map(str::to_owned).collect(),
                runs: runs.len(),
                causes,
            });
        }
    }
    Ok(Ledgers { points, each_run })
}

impl Ledgers {
    /// Its numbers: a row for each cause of each point; `None` if no ledger was kept.
    pub(super) fn csv(&self, summary: &Summary<'_>) -> Option<String> {
        if self.points.is_empty() {
            return None;
        }
        let keys = summary.plan().base().sweep.iter();
        let keys: String = keys.map(|axis| cell(&axis.key) + ",").collect();
        let mut out = format!("{keys}cause,gaps_a_run,time_a_run_ns,share,longest_ns\n");
        for point in &self.points {
            let values: String = point.values.iter().map(|v| cell(v) + ",").collect();
            let (all, runs) = (point.time().max(1) as f64, point.runs as f64);
            for (cause, sums) in &point.causes {
                let _ = writeln!(
                    out,
                    "{values}{cause},{},{},{},{}",
                    sums.gaps as f64 / runs,
                    sums.time as f64 / runs,
                    sums.time as f64 / all,
                    sums.longest
                );
            }
        }
        Some(out)
    }

    /// The section.
    pub(super) fn section(&self, out: &mut String) {
        if self.points.is_empty() {
            return;
        }
        let _ = writeln!(out, "<h2>What the connections waited for</h2>");
        if self.points.iter().all(|point| point.causes.is_empty()) {
            let _ = writeln!(
                out,
                "<p>No connection waited for more than its round trips.</p>"
            );
            return;
        }
        let head = ["cause", "gaps", "time", "share", "longest"].map(str::to_owned);
        let groups = self.points.iter().take(MOST_POINTS).map(|point| {
            let runs = point.runs.max(1) as f64;
            let all = point.time().max(1) as f64;
            let row = |(cause, sums): &(String, Sums)| {
                let known = Cause::ALL.iter().find(|known| known.name() == cause);
                vec![
                    known
                        .map_or(cause.as_str(), |known| known.text())
                        .to_owned(),
                    points::number(sums.gaps as f64 / runs, ""),
                    points::number(sums.time as f64 / runs, "ns"),
                    format!("{:.1}\u{a0}%", 100.0 * sums.time as f64 / all),
                    points::number(sums.longest as f64, "ns"),
                ]
            };
            let rows = point.causes.iter().map(row).collect();
            (point.label.clone(), rows)
        });
        html::table(out, &head, 1, groups.collect());
        let mut note =
            "From the truth: gaps in which a connection with something to do did nothing for \
                        longer than two of its round trips, as both its ends know them; a run, all \
                        connections together. What queues, pauses and network cards held up no \
                        connection knows, and it is not here."
                .to_owned();
        if !self.each_run {
            note += " It is of the first repetition; --ledger keeps that of each.";
        }
        if self.points.len() > MOST_POINTS {
            note += &format!(" The first {MOST_POINTS} of {} points.", self.points.len());
        }
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&note));
    }
}
