//! Where packets were dropped and why, and which timeouts there were.

use super::html_table;
use crate::report::chart::ink::escape;
use crate::report::points;
use narrows_experiment::registry::Registry;
use narrows_experiment::results::{Folder, FolderError, cells};
use narrows_experiment::summary::Summary;
use std::collections::BTreeMap;
use std::fmt::Write;

/// So many points are shown,
const MOST_POINTS: usize = 24;
/// and of each so many ports.
const MOST_PORTS: usize = 6;

/// Drops of a port by cause, in the order of the columns.
type Drops = Vec<u64>;

/// The column of packets that a full NIC queue refused, which the port counts as dropped.
const REFUSED: &str = "refused";

/// A section of the report: drops by port and cause.
pub(super) fn drops(
    out: &mut String,
    summary: &Summary<'_>,
    folder: &Folder,
) -> Result<(), FolderError> {
    let plan = summary.plan();
    let mut causes: Vec<String> = Vec::new();
    let mut by_point: Vec<(usize, BTreeMap<String, Drops>)> = Vec::new();
    for point in 0..plan.points().min(MOST_POINTS) {
        let mut ports: BTreeMap<String, Drops> = BTreeMap::new();
        for record in summary.runs(point) {
            let header = cells(folder.header(record, "ports").unwrap_or_default());
            for row in folder.rows(record, "ports")?.lines() {
                let row = cells(row);
                let of = |name: &str| {
                    let at = header.iter().position(|h| *h == name)?;
                    row.get(at).map(|cell| cell.to_string())
                };
                let Some(port) = of("port") else { continue };
                let nic = of("from_tier").is_some_and(|tier| tier == "host");
                for (name, cell) in header.iter().zip(&row) {
                    let Some(cause) = name.strip_prefix("drops.") else {
                        continue;
                    };
                    let count = cell.parse::<u64>().unwrap_or(0);
                    if count == 0 {
                        continue;
                    }
                    let cause = match (nic, cause) {
                        (true, "full") => REFUSED,
                        (_, cause) => cause,
                    };
                    let known = causes.iter().position(|c| c == cause);
                    let at = known.unwrap_or_else(|| {
                        causes.push(cause.to_owned());
                        causes.len() - 1
                    });
                    let drops = ports.entry(port.clone()).or_default();
                    drops.resize(drops.len().max(at + 1), 0);
                    drops[at] += count;
                }
            }
        }
        by_point.push((point, ports));
    }
    let _ = writeln!(out, "<h2>Drops by place</h2>");
    if by_point.iter().all(|(_, ports)| ports.is_empty()) {
        let _ = writeln!(
            out,
            "<p>No port dropped or refused a packet after the warm-up.</p>"
        );
        return Ok(());
    }
    let mut note = "Packets after the warm-up, by port and cause".to_owned();
    if plan.base().run.repetitions > 1 {
        note += "; means of the repetitions";
    }
    note += ". ports.csv has each run.";
    if causes.iter().any(|c| c == REFUSED) {
        note += " What a full NIC queue refused its TCP sent later.";
    }
    if plan.points() > MOST_POINTS {
        note += &format!(" The first {MOST_POINTS} of {} points.", plan.points());
    }
    let head: Vec<String> = std::iter::once("port".to_owned())
        .chain(causes.iter().cloned())
        .collect();
    let groups = by_point.into_iter().map(|(point, ports)| {
        let rows = port_rows(ports, causes.len(), summary.runs(point).len());
        (plan.label(point), rows)
    });
    html_table(out, &head, 1, groups.collect());
    let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&note));
    Ok(())
}

/// The ports that dropped most, and the others together.
fn port_rows(ports: BTreeMap<String, Drops>, causes: usize, runs: usize) -> Vec<Vec<String>> {
    let mut ports: Vec<(String, Drops)> = ports.into_iter().collect();
    ports.sort_by_key(|(_, drops)| std::cmp::Reverse(drops.iter().sum::<u64>()));
    if ports.is_empty() {
        return vec![vec!["none".to_owned()]];
    }
    if ports.len() > MOST_PORTS + 1 {
        let rest = ports.split_off(MOST_PORTS);
        let mut sum = vec![0; causes];
        for (_, drops) in &rest {
            for (sum, n) in sum.iter_mut().zip(drops) {
                *sum += n;
            }
        }
        ports.push((format!("{} other ports", rest.len()), sum));
    }
    let row = |(port, drops): (String, Drops)| {
        let cell = |n: usize| match drops.get(n).copied().unwrap_or(0) {
            0 => String::new(),
            n => points::number(n as f64 / runs.max(1) as f64, ""),
        };
        let cells = (0..causes).map(cell);
        std::iter::once(port).chain(cells).collect()
    };
    ports.into_iter().map(row).collect()
}

/// The classes of timeouts.
const CLASSES: [&str; 5] = [
    "timeouts.full_window",
    "timeouts.tail",
    "timeouts.retransmission",
    "timeouts.handshake",
    "timeouts",
];

/// A section of the report: timeouts by class.
pub(super) fn timeouts(out: &mut String, summary: &Summary<'_>, registry: &Registry) {
    let plan = summary.plan();
    let some = |point: usize| {
        summary
            .estimate(point, "timeouts")
            .is_some_and(|e| e.mean > 0.0)
    };
    let _ = writeln!(out, "<h2>Timeouts by class</h2>");
    if !(0..plan.points()).any(some) {
        let _ = writeln!(
            out,
            "<p>No retransmission timer expired after the warm-up.</p>"
        );
        return;
    }
    let shown: Vec<usize> = (0..plan.points())
        .filter(|p| !summary.runs(*p).is_empty())
        .take(MOST_POINTS)
        .collect();
    let axes = plan.base().sweep.len();
    let keys = plan.base().sweep.iter();
    let titles = keys.map(|axis| plan.base().title_of(registry, &axis.key));
    let classes = CLASSES.iter().map(|name| match *name {
        "timeouts" => "all".to_owned(),
        name => points::title_of(registry.metrics.get(name), name).replace(" timeouts", ""),
    });
    let head: Vec<String> = titles.chain(classes).collect();
    let rows = shown.iter().map(|&point| {
        let values = plan.values(point).into_iter().map(str::to_owned);
        let cells = CLASSES.iter().map(|column| {
            let estimate = summary.estimate(point, column);
            estimate.map_or_else(String::new, |e| points::cell(&e, ""))
        });
        values.chain(cells).collect()
    });
    html_table(out, &head, axes, vec![(String::new(), rows.collect())]);
    let mut note = "Whole window: no ACK could come back. Tail: too few duplicate ACKs. Lost \
                    retransmission: what was sent again was lost again. Handshake: a SYN or SYN-ACK."
        .to_owned();
    if plan.points() > MOST_POINTS {
        note += &format!(" The first {MOST_POINTS} of {} points.", plan.points());
    }
    let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&note));
}
