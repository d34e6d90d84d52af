//! The tables of results: columns, and the rows of a run.

use crate::knob::Kind;
use crate::metric::Named;
use crate::model::Experiment;
use crate::net::stats::DropReason;
use crate::plan::PlannedRun;
use crate::registry::Registry;
use crate::run::RunOutcome;
use std::borrow::Cow;
use std::fmt::Write;

/// The name of a column: what it is and its unit, `latency.p99_ns`.
pub fn column(name: &str, unit: &str) -> String {
    let unit = match unit {
        "bit/s" => "bps",
        "1/s" => "per_s",
        unit => unit,
    };
    if unit.is_empty() || name.ends_with(&format!("_{unit}")) {
        return name.to_owned();
    }
    format!("{name}_{unit}")
}

/// A cell of CSV (RFC 4180).
pub fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

/// The cells of a row as [`cell`] writes them.
pub fn cells(row: &str) -> Vec<Cow<'_, str>> {
    if !row.contains('"') {
        return row.split(',').map(Cow::Borrowed).collect();
    }
    let mut all = vec![String::new()];
    let mut quoted = false;
    let mut chars = row.chars().peekable();
    while let Some(c) = chars.next() {
        let last = all.len() - 1;
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                all[last].push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(String::new()),
            c => all[last].push(c),
        }
    }
    all.into_iter().map(Cow::Owned).collect()
}

/// The rows that a run adds to the tables, by table, each with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTables {
    /// Name of the file, its header, the rows.
    pub tables: Vec<(String, String, String)>,
}

/// What each row begins with.
const KEY: &str = "point,repetition";

impl RunTables {
    /// The rows of a run.
    pub fn of(run: PlannedRun, outcome: &RunOutcome) -> Self {
        let key = format!("{},{}", run.point, run.repetition);
        let mut tables = vec![
            flows(&key, outcome),
            transfers(&key, outcome),
            ports(&key, outcome),
        ];
        if !outcome.changes.is_empty() {
            tables.push(changes(&key, outcome));
        }
        tables.extend(series(&key, outcome));
        tables.extend(reported(&key, outcome));
        Self { tables }
    }
}

fn host(outcome: &RunOutcome, number: u32) -> String {
    let host = outcome.hosts.get(number as usize);
    host.map_or_else(|| format!("h{number}"), |host| cell(&host.name))
}

fn traffic(outcome: &RunOutcome, number: u16) -> String {
    let name = outcome.traffic.get(usize::from(number));
    name.map_or_else(String::new, |name| cell(name))
}

type Table = (String, String, String);

fn flows(key: &str, outcome: &RunOutcome) -> Table {
    let header = format!(
        "{KEY},traffic,from,to,port,received_bytes,goodput_bps,segments,retransmits,timeouts,\
         timeouts.full_window,timeouts.tail,timeouts.retransmission,timeouts.handshake,\
         fast_recoveries,ecn_reductions,lost_bytes,ce_bytes,opened_ns,read_in_all_bytes,\
         out_of_order_dropped"
    );
    let seconds = outcome.measured.as_nanos() as f64 / 1e9;
    let mut rows = String::new();
    for f in &outcome.flows {
        let goodput = match seconds > 0.0 {
            true => format!("{}", f.received.get() as f64 * 8.0 / seconds),
            false => String::new(),
        };
        let s = &f.sender;
        let _ = writeln!(
            rows,
            "{key},{},{},{},{},{},{goodput},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            traffic(outcome, f.traffic),
            host(outcome, f.from),
            host(outcome, f.to),
            f.port,
            f.received.get(),
            s.segments,
            s.retransmits,
            f.timeouts(),
            s.timeouts_full_window,
            s.timeouts_tail,
            s.timeouts_retransmission,
            f.handshake_timeouts,
            s.fast_recoveries,
            s.ecn_reductions,
            s.lost_bytes,
            s.ce_bytes,
            f.opened.since(narrows::Instant::ZERO).as_nanos(),
            f.read.get(),
            f.out_of_order_dropped,
        );
    }
    ("flows".to_owned(), header, rows)
}

fn transfers(key: &str, outcome: &RunOutcome) -> Table {
    let header = format!("{KEY},traffic,to,from,began_ns,took_ns,size_bytes");
    let mut rows = String::new();
    for t in &outcome.transfers {
        let from = t.from.map_or_else(String::new, |h| host(outcome, h.0));
        let began = t.began.since(narrows::Instant::ZERO).as_nanos();
        let _ = writeln!(
            rows,
            "{key},{},{},{from},{began},{},{}",
            traffic(outcome, t.traffic),
            host(outcome, t.to.0),
            t.took.as_nanos(),
            t.size.get(),
        );
    }
    ("transfers".to_owned(), header, rows)
}

fn ports(key: &str, outcome: &RunOutcome) -> Table {
    let mut header = format!(
        "{KEY},port,from_tier,to_tier,packets,bytes,utilisation,max_queue_packets,\
         max_queue_bytes,marks,trimmed,dropped_bytes,pause.xoff_sent,pause.xon_sent,\
         pause.received,paused_ns,max_memory_bytes"
    );
    for reason in DropReason::ALL {
        let _ = write!(header, ",drops.{}", reason.name());
    }
    let mut rows = String::new();
    for p in &outcome.ports {
        let dropped: u64 = DropReason::ALL.iter().map(|r| p.dropped(*r)).sum();
        if p.packets == 0 && dropped == 0 {
            continue;
        }
        let _ = write!(
            rows,
            "{key},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            cell(&p.name),
            cell(&p.tiers.0),
            cell(&p.tiers.1),
            p.packets,
            p.bytes,
            p.utilisation_ppm as f64 / 1e6,
            p.max_packets,
            p.max_bytes,
            p.marks,
            p.trimmed,
            p.dropped_bytes,
            p.pause.xoff_sent,
            p.pause.xon_sent,
            p.pause.received,
            p.pause.paused.as_nanos(),
            p.pause.max_held,
        );
        for reason in DropReason::ALL {
            let _ = write!(rows, ",{}", p.dropped(reason));
        }
        rows.push('\n');
    }
    ("ports".to_owned(), header, rows)
}

fn changes(key: &str, outcome: &RunOutcome) -> Table {
    let mut rows = String::new();
    for (at, what) in &outcome.changes {
        let at = at.since(narrows::Instant::ZERO).as_nanos();
        let _ = writeln!(rows, "{key},{at},{}", cell(what));
    }
    ("changes".to_owned(), format!("{KEY},time_ns,what"), rows)
}

/// A table for each probe that has series. The instruments of a probe may differ in columns: those
/// of the first are there, and what others have beside is named in a row's own column.
fn series(key: &str, outcome: &RunOutcome) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for (probe, reading) in &outcome.readings {
        let Some(series) = &reading.series else {
            continue;
        };
        let name = format!("series-{probe}");
        let at = tables.iter().position(|(known, _, _)| *known == name);
        let at = at.unwrap_or_else(|| {
            let header = format!("{KEY},of,time_ns,what,value");
            tables.push((name, header, String::new()));
            tables.len() - 1
        });
        let rows = &mut tables[at].2;
        let of = cell(&reading.of);
        for row in &series.rows {
            let time = row.first().copied().flatten().unwrap_or_default();
            for (what, value) in series.columns.iter().zip(row).skip(1) {
                if let Some(value) = value {
                    let _ = writeln!(rows, "{key},{of},{time},{},{value}", cell(what));
                }
            }
        }
    }
    tables
}

/// A table for each probe that tells rows of its own; its instruments have the same columns.
fn reported(key: &str, outcome: &RunOutcome) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for (probe, reading) in &outcome.readings {
        let Some(table) = &reading.table else {
            continue;
        };
        let name = format!("table-{probe}");
        let at = tables.iter().position(|(known, _, _)| *known == name);
        let at = at.unwrap_or_else(|| {
            let header = format!("{KEY},of,{}", table.columns.join(","));
            tables.push((name, header, String::new()));
            tables.len() - 1
        });
        let of = cell(&reading.of);
        for row in &table.rows {
            let row: Vec<String> = row.iter().map(|text| cell(text)).collect();
            let _ = writeln!(tables[at].2, "{key},{of},{}", row.join(","));
        }
    }
    tables
}

/// The header and the row of a run in `runs.csv`, by the columns of all runs.
pub(super) struct RunColumns {
    /// Keys that are varied, with what they may be.
    axes: Vec<(String, Option<Kind>)>,
    /// Keys that are set to something else than usual, with their cells.
    constant: Vec<(String, String)>,
    metrics: Vec<String>,
}

impl RunColumns {
    pub(super) fn new(experiment: &Experiment, registry: &Registry, metrics: Vec<String>) -> Self {
        let kind_of = |key: &str| registry.about(experiment, key).map(|about| about.kind);
        let axes = experiment.sweep.iter();
        let axes: Vec<(String, Option<Kind>)> =
            axes.map(|a| (a.key.clone(), kind_of(&a.key))).collect();
        let usual = Experiment::default().entries();
        let constant = experiment.entries().into_iter().filter_map(|entry| {
            let same = usual.contains(&entry);
            let crate::model::Value::One(value) = entry.value else {
                return None;
            };
            let first = entry.key.split('.').next().unwrap_or_default();
            let told = matches!(
                first,
                "network" | "host" | "group" | "traffic" | "change" | "run"
            );
            let varied = axes.iter().any(|(key, _)| *key == entry.key);
            // The seed has a column of its own.
            let own = entry.key == "run.seed" || entry.key == "run.repetitions";
            let kind = kind_of(&entry.key);
            let cell = (knob_column(&entry.key, kind), in_base_unit(kind, &value));
            (told && !varied && !own && !same).then_some(cell)
        });
        let constant = constant.collect();
        Self {
            constant,
            axes,
            metrics,
        }
    }

    pub(super) fn header(&self) -> String {
        let axes = self.axes.iter().map(|(key, kind)| knob_column(key, *kind));
        let constant = self.constant.iter().map(|(column, _)| column.clone());
        let keys = axes.chain(constant);
        let all: Vec<String> = ["point", "repetition", "seed", "outcome"]
            .map(str::to_owned)
            .into_iter()
            .chain(keys)
            .chain(self.metrics.iter().cloned())
            .map(|name| cell(&name))
            .collect();
        all.join(",")
    }

    /// `value` says what a metric's column holds.
    pub(super) fn row(
        &self,
        first: [String; 4],
        values: &[String],
        value: impl Fn(&str) -> Option<String>,
    ) -> String {
        let all: Vec<String> = first
            .into_iter()
            .chain(
                self.axes
                    .iter()
                    .zip(values)
                    .map(|((_, kind), value)| in_base_unit(*kind, value)),
            )
            .chain(self.constant.iter().map(|(_, value)| value.clone()))
            .chain(self.metrics.iter().map(|m| value(m).unwrap_or_default()))
            .map(|text| cell(&text))
            .collect();
        all.join(",")
    }
}

/// The column of a knob, with its unit if it has one.
fn knob_column(key: &str, kind: Option<Kind>) -> String {
    column(key, kind.map_or("", |kind| kind.unit()))
}

/// A knob's value as a column has it: a number in its base unit where it has one.
fn in_base_unit(kind: Option<Kind>, value: &str) -> String {
    let base = kind.filter(|kind| !kind.unit().is_empty() || matches!(kind, Kind::Share));
    let base = base.and_then(|kind| kind.base(value));
    base.map_or_else(|| value.to_owned(), |n| n.to_string())
}

/// The columns of what was measured of a run.
pub(super) fn metric_columns(named: &[Named]) -> Vec<(String, String)> {
    // What is no number has no place in JSON.
    named
        .iter()
        .filter(|n| n.value.value().is_finite())
        .map(|n| (column(&n.name, n.unit), n.value.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back() {
        for texts in [
            &["a", "b", ""][..],
            &["a,b", "say \"x\"", "c"],
            &["\"", ",", "\",\""],
        ] {
            let row: Vec<String> = texts.iter().map(|t| cell(t)).collect();
            assert_eq!(cells(&row.join(",")), texts, "{row:?}");
        }
    }
}
