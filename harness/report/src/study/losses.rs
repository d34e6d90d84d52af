//! Where packets were dropped and why, and which timeouts there were.

use crate::chart::ink::escape;
use crate::html;
use crate::points;
use narrows_experiment::registry::Registry;
use narrows_experiment::results::{Folder, FolderError, cells};
use narrows_experiment::summary::Summary;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// So many points are shown,
const MOST_POINTS: usize = 24;
/// and of each so many ports.
const MOST_PORTS: usize = 6;

/// Drops of a port by cause.
type Drops = BTreeMap<String, u64>;
/// By port.
type Ports = BTreeMap<String, Drops>;

/// The column of packets that a full NIC queue refused, which the port counts as dropped.
const REFUSED: &str = "refused";

/// A section of the report: drops by port and cause.
pub(super) fn drops(
    out: &mut String,
    summary: &Summary<'_>,
    folder: &Folder,
) -> Result<(), FolderError> {
    let plan = summary.plan();
    let begun = (0..plan.points()).filter(|point| !summary.runs(*point).is_empty());
    let (mut lossy, mut clean) = (Vec::new(), 0);
    let mut more = 0;
    for point in begun {
        let ports = dropped_at(summary, folder, point)?;
        match (ports.is_empty(), lossy.len() < MOST_POINTS) {
            (true, _) => clean += 1,
            (false, true) => lossy.push((point, ports)),
            (false, false) => more += 1,
        }
    }
    if lossy.is_empty() && clean == 0 {
        return Ok(());
    }
    let _ = writeln!(out, "<h2>Drops by place</h2>");
    if lossy.is_empty() {
        let _ = writeln!(
            out,
            "<p>No port dropped or refused a packet after the warm-up.</p>"
        );
        return Ok(());
    }
    let all = lossy.iter().flat_map(|(_, ports)| ports.values());
    let causes: BTreeSet<String> = all.flat_map(|drops| drops.keys().cloned()).collect();
    let mut note = "Packets after the warm-up, by port and cause".to_owned();
    if plan.base().run.repetitions > 1 {
        note += "; means of the repetitions";
    }
    note += ". ports.csv has each run.";
    if causes.contains(REFUSED) {
        note += " What a full NIC queue refused its TCP sent later.";
    }
    match clean {
        0 => {}
        1 => note += " At 1 other point there were none.",
        n => note += &format!(" At {n} other points there were none."),
    }
    if more > 0 {
        let all = lossy.len() + more;
        note += &format!(" The first {MOST_POINTS} of {all} points that had some.");
    }
    let head: Vec<String> = std::iter::once("port".to_owned())
        .chain(causes.iter().cloned())
        .collect();
    let groups = lossy.into_iter().map(|(point, ports)| {
        let rows = port_rows(&ports, &causes, summary.runs(point).len());
        (plan.label(point), rows)
    });
    html::table(out, &head, 1, groups.collect());
    let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&note));
    Ok(())
}

/// What was dropped at a point, over all its runs.
fn dropped_at(summary: &Summary<'_>, folder: &Folder, point: usize) -> Result<Ports, FolderError> {
    let mut ports = Ports::new();
    for record in summary.runs(point) {
        let header = cells(folder.header(record, "ports").unwrap_or_default());
        let at = |name: &str| header.iter().position(|h| *h == name);
        let (Some(port_at), tier_at) = (at("port"), at("from_tier")) else {
            continue;
        };
        for row in folder.rows(record, "ports")?.lines() {
            let row = cells(row);
            let Some(port) = row.get(port_at) else {
                continue;
            };
            let tier = tier_at.and_then(|at| row.get(at));
            let nic = tier.is_some_and(|tier| *tier == "host");
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
                let drops = ports.entry(port.to_string()).or_default();
                *drops.entry(cause.to_owned()).or_default() += count;
            }
        }
    }
    Ok(ports)
}

/// The ports that dropped most for each cause in turn, so that what NICs refused does not hide what
/// switches dropped, and the others together.
fn port_rows(ports: &Ports, causes: &BTreeSet<String>, runs: usize) -> Vec<Vec<String>> {
    let mut counts: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (cause, n) in ports.values().flatten() {
        counts.entry(cause).or_default().push(*n);
    }
    for counts in counts.values_mut() {
        counts.sort_unstable_by(|a, b| b.cmp(a));
    }
    let before = |(cause, n): (&String, &u64)| {
        let counts = counts.get(cause.as_str());
        counts.map_or(0, |counts| counts.partition_point(|more| more > n))
    };
    let rank = |drops: &Drops| {
        let best = drops.iter().map(before).min();
        (best, Reverse(drops.values().sum::<u64>()))
    };
    let mut ranked: Vec<_> = ports.iter().map(|of| (rank(of.1), of)).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let ranked = ranked.into_iter();
    let mut ports: Vec<(String, Drops)> = ranked
        .map(|(_, (port, drops))| (port.clone(), drops.clone()))
        .collect();
    if ports.len() > MOST_PORTS + 1 {
        let rest = ports.split_off(MOST_PORTS);
        let name = format!("{} other ports", rest.len());
        let mut sum = Drops::new();
        for (cause, n) in rest.into_iter().flat_map(|(_, drops)| drops) {
            *sum.entry(cause).or_default() += n;
        }
        ports.push((name, sum));
    }
    let row = |(port, drops): (String, Drops)| {
        let cell = |cause: &String| match drops.get(cause) {
            None => String::new(),
            Some(n) => points::number(*n as f64 / runs.max(1) as f64, ""),
        };
        std::iter::once(port)
            .chain(causes.iter().map(cell))
            .collect()
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
    if (0..plan.points()).all(|point| summary.runs(point).is_empty()) {
        return;
    }
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
    html::table(out, &head, axes, vec![(String::new(), rows.collect())]);
    let mut note = "Whole window: no ACK could come back. Tail: too few duplicate ACKs. Lost \
                    retransmission: what was sent again was lost again. Handshake: a SYN or SYN-ACK."
        .to_owned();
    if plan.points() > MOST_POINTS {
        note += &format!(" The first {MOST_POINTS} of {} points.", plan.points());
    }
    let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&note));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few packets that switches drop are among the first rows beside many that NICs refuse.
    #[test]
    fn each_cause_has_its_worst_ports() {
        let mut ports = Ports::new();
        for n in 0..10 {
            let refused = Drops::from([(REFUSED.to_owned(), 1_000 + n)]);
            ports.insert(format!("h{n}->s0"), refused);
            ports.insert(
                format!("s0->h{n}"),
                Drops::from([("full".to_owned(), 10 + n)]),
            );
        }
        let causes = BTreeSet::from(["full", REFUSED].map(str::to_owned));
        let rows = port_rows(&ports, &causes, 1);
        let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        let first = ["h9->s0", "s0->h9", "h8->s0", "s0->h8", "h7->s0", "s0->h7"];
        assert_eq!(names[..6], first);
        assert_eq!(rows[6], ["14 other ports", "91", "7021"]);
    }
}
