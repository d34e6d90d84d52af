//! What each flow of one run did, in a line each.

use super::points::number;
use super::table::{Colour, DIM};
use narrows_experiment::results::{Folder, FolderError, Record, cells};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A line for each flow of a run, if there are at most `most`: its goodput over the time in which
/// it had something to do, how long its first transfer took, and what its sender did.
///
/// # Errors
/// If the folder cannot be read.
pub fn table(
    folder: &Folder,
    record: &Record,
    most: usize,
    colour: Colour,
) -> Result<String, FolderError> {
    let rows = rows(folder, record, "flows")?;
    if rows.is_empty() || rows.len() > most {
        return Ok(String::new());
    }
    let transfers = transfers(folder, record)?;
    let (from, to) = measured(record);
    let head = [
        "flow", "traffic", "goodput", "done in", "sent", "again", "timeouts",
    ];
    let mut lines = vec![head.map(str::to_owned)];
    for row in &rows {
        let of = |column: &str| row.get(column).map_or("", String::as_str);
        let whole = |column: &str| of(column).parse::<u64>().unwrap_or(0);
        let done = transfers.get(&(of("traffic").to_owned(), of("from").to_owned()));
        let end = done.map_or(to, |(began, took)| to.min(began + took));
        let active = end.saturating_sub(from.max(whole("opened_ns")));
        let goodput = match active {
            0 => "-".to_owned(),
            ns => number(whole("received_bytes") as f64 * 8e9 / ns as f64, "bit/s"),
        };
        lines.push([
            format!("{}->{}", of("from"), of("to")),
            of("traffic").to_owned(),
            goodput,
            done.map_or_else(|| "-".to_owned(), |(_, took)| number(*took as f64, "ns")),
            of("segments").to_owned(),
            of("retransmits").to_owned(),
            of("timeouts").to_owned(),
        ]);
    }
    let width = |n: usize| {
        lines
            .iter()
            .map(|l| l[n].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    for (n, line) in lines.iter().enumerate() {
        let mut text = String::new();
        for (i, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let _ = match i {
                0 => write!(text, "{cell:<width$}"),
                1 => write!(text, "  {cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        let text = match n {
            0 => colour.wrap(DIM, &text),
            _ => text,
        };
        let _ = writeln!(out, "{text}");
    }
    Ok(out)
}

/// From when to when a run is measured, in nanoseconds from its start.
fn measured(record: &Record) -> (u64, u64) {
    let of = |name: &str| {
        let found = record.metrics.iter().find(|(column, _)| column == name);
        found.and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let (whole, counted) = (of("simulated_ns"), of("measured_ns"));
    let to = whole.unwrap_or(0);
    (to.saturating_sub(counted.unwrap_or(to)), to)
}

/// When transfers began and how long they took, by traffic and sender.
type Transfers = BTreeMap<(String, String), (u64, u64)>;

/// When the only transfer of each sender began and how long it took; nothing of those who have
/// several.
fn transfers(folder: &Folder, record: &Record) -> Result<Transfers, FolderError> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in rows(folder, record, "transfers")? {
        let of = |column: &str| row.get(column).cloned().unwrap_or_default();
        let ns = |column: &str| of(column).parse::<u64>().unwrap_or(0);
        let key = (of("traffic"), of("from"));
        all.entry(key)
            .or_default()
            .push((ns("began_ns"), ns("took_ns")));
    }
    let one = |(key, transfers): (_, Vec<_>)| match transfers[..] {
        [transfer] => Some((key, transfer)),
        _ => None,
    };
    Ok(all.into_iter().filter_map(one).collect())
}

/// The rows of a table, by column.
pub(crate) fn rows(
    folder: &Folder,
    record: &Record,
    table: &str,
) -> Result<Vec<BTreeMap<String, String>>, FolderError> {
    let header = folder.header(record, table).unwrap_or_default();
    let header: Vec<String> = cells(header).iter().map(ToString::to_string).collect();
    let text = folder.rows(record, table)?;
    let row = |line: &str| {
        let row = cells(line);
        let row = row.iter().map(ToString::to_string);
        header.iter().cloned().zip(row).collect()
    };
    Ok(text.lines().map(row).collect())
}
