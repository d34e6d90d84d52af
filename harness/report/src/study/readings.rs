//! What probes saw over time, as a folder of results has it, with what changed meanwhile.

use crate::chart::{Rule, RuleAt, extremes};
use narrows_experiment::results::{Folder, FolderError, Record, cells};
use std::collections::HashSet;

/// Most stretches of time whose extremes a line keeps.
const STRETCHES: usize = 1_000;

/// Most marks that have a name.
pub(super) const MOST_NAMED: usize = 6;
/// Most marks: more would cover the lines.
pub(super) const MOST_MARKS: usize = 200;

pub(super) type Points = Vec<(f64, f64)>;

/// A reading over time of one thing at one point.
pub(super) struct Line {
    pub(super) point: usize,
    /// Which of the things that the probe looks at, from 0.
    pub(super) nth: usize,
    pub(super) of: String,
    pub(super) points: Points,
}

/// A table of a probe and a column of it.
pub(super) struct Column {
    pub(super) table: String,
    pub(super) what: String,
    pub(super) lines: Vec<Line>,
}

/// The probe whose readings a table has.
pub(super) fn probe_of(table: &str) -> &str {
    table.trim_start_matches("series-")
}

pub(super) fn read(
    folder: &Folder,
    record: &Record,
    table: &str,
    columns: &mut Vec<Column>,
) -> Result<(), FolderError> {
    let point = record.run.point;
    // point,repetition,of,time_ns,what,value
    for row in folder.rows(record, table)?.lines() {
        let row = cells(row);
        let [_, _, of, time, what, value] = &row[..] else {
            continue;
        };
        let (Ok(time), Ok(value)) = (time.parse::<f64>(), value.parse::<f64>()) else {
            continue;
        };
        let known = columns
            .iter()
            .position(|c| c.table == table && c.what == **what);
        let at = known.unwrap_or_else(|| {
            columns.push(Column {
                table: table.to_owned(),
                what: what.to_string(),
                lines: Vec::new(),
            });
            columns.len() - 1
        });
        let lines = &mut columns[at].lines;
        let known = lines.iter().rposition(|l| l.point == point && l.of == **of);
        let at = known.unwrap_or_else(|| {
            lines.push(Line {
                point,
                nth: lines.iter().filter(|l| l.point == point).count(),
                of: of.to_string(),
                points: Vec::new(),
            });
            lines.len() - 1
        });
        lines[at].points.push((time, value));
    }
    Ok(())
}

/// When something changed in a run, and what.
pub(super) fn changes(folder: &Folder, record: &Record) -> Result<Vec<(f64, String)>, FolderError> {
    let rows = folder.rows(record, "changes")?;
    // point,repetition,time_ns,what
    let change = |row: &str| {
        let row = cells(row);
        Some((row.get(2)?.parse().ok()?, row.get(3)?.to_string()))
    };
    Ok(rows.lines().filter_map(change).collect())
}

/// Those of two lists in the order of time that are in both.
pub(super) fn common(mut before: Vec<(f64, String)>, here: &[(f64, String)]) -> Vec<(f64, String)> {
    let here: HashSet<(u64, &str)> = here
        .iter()
        .map(|(at, what)| (at.to_bits(), what.as_str()))
        .collect();
    before.retain(|(at, what)| here.contains(&(at.to_bits(), what.as_str())));
    before
}

/// Changes as rules of a chart whose time is in units of `by` nanoseconds and ends at `last`.
pub(super) fn rules(marks: &[(f64, String)], by: f64, last: f64) -> Vec<Rule> {
    let marked = marks.iter().filter(|_| marks.len() <= MOST_MARKS);
    let marked = marked.filter(|(at, _)| *at <= last);
    let rules = marked.map(|(at, what)| Rule {
        at: RuleAt::X(at / by),
        label: match marks.len() {
            n if n > MOST_NAMED => String::new(),
            _ => what.clone(),
        },
    });
    rules.collect()
}

/// Of each stretch of time the first reading, the last, and the extremes.
pub(super) fn thinned(points: Points, last: f64) -> Points {
    if points.len() <= 4 * STRETCHES {
        return points;
    }
    let stretch = |p: &(f64, f64)| (p.0 / last.max(1.0) * STRETCHES as f64) as usize;
    let mut out = Vec::new();
    for here in points.chunk_by(|a, b| stretch(a) == stretch(b)) {
        out.extend(extremes(here));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_every_peak() {
        let value = |i: u32| if i == 70_001 { 99.0 } else { f64::from(i % 7) };
        let points: Points = (0..100_000).map(|i| (f64::from(i), value(i))).collect();
        let thin = thinned(points.clone(), 99_999.0);
        assert!(thin.len() <= 4 * (STRETCHES + 1), "{}", thin.len());
        assert!(thin.contains(&points[70_001]));
        assert_eq!((thin[0], thin[thin.len() - 1]), (points[0], points[99_999]));
        assert!(thin.windows(2).all(|w| w[0].0 < w[1].0));
        assert_eq!(thinned(points[..100].to_vec(), 99.0), points[..100]);
    }
}
