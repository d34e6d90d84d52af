//! The table for terminals, from 80 columns on: a group for each check, long cells wrapped.

use super::{ours, remark};
use crate::{CheckReport, Measured, Row, Verdict};
use narrows_experiment::scenario::ScenarioError;
use narrows_report::table::{BOLD, Colour, DIM, GREEN, RED, YELLOW};
use std::fmt::Write;

const GAP: &str = "  ";
/// No column is made narrower for want of room.
const LEAST: usize = 12;

/// All reports. The source of a row stands above it where it changes.
pub fn text(reports: &[CheckReport], colour: Colour, columns: usize) -> String {
    let mut out = String::new();
    for report in reports {
        check(&mut out, report, colour, columns);
    }
    out
}

const HEAD: [&str; 6] = ["", "reference", "ours", "tolerance", "verdict", "s"];

fn check(out: &mut String, report: &CheckReport, colour: Colour, columns: usize) {
    let name = colour.wrap(BOLD, report.check.name);
    for (i, line) in wrap(report.check.what, columns.saturating_sub(2))
        .iter()
        .enumerate()
    {
        let _ = match i {
            0 if report.check.name.len() + 2 + line.len() <= columns => {
                writeln!(out, "{name}{GAP}{line}")
            }
            0 => writeln!(out, "{name}\n{GAP}{line}"),
            _ => writeln!(out, "{GAP}{line}"),
        };
    }
    let cells: Vec<[String; 6]> = report.rows.iter().map(cells).collect();
    let widths = widths(&cells, columns - GAP.len());
    if !cells.is_empty() {
        let head = HEAD.map(str::to_owned);
        for line in lines(&head, &widths, true) {
            let _ = writeln!(out, "{GAP}{}", colour.wrap(DIM, line.trim_end()));
        }
    }
    let mut source = None;
    for (row, cells) in report.rows.iter().zip(&cells) {
        if source != Some(&row.source) {
            for line in wrap(&format!("from {}", row.source), columns) {
                let _ = writeln!(out, "{}", colour.wrap(DIM, &line));
            }
            source = Some(&row.source);
        }
        let verdict = row.verdict();
        let numbers = !matches!(row.ours, Measured::Text(_));
        for line in lines(cells, &widths, numbers) {
            let line = format!("{GAP}{line}");
            let word = verdict.name();
            let _ = match shade(verdict) {
                // The last occurrence: the verdict's own column is the last but one.
                Some(code) => match line.rsplit_once(word) {
                    Some((a, b)) => {
                        writeln!(out, "{a}{}{}", colour.wrap(code, word), b.trim_end())
                    }
                    None => writeln!(out, "{}", line.trim_end()),
                },
                None => writeln!(out, "{}", line.trim_end()),
            };
        }
        let mut below = remark(row);
        if let (Verdict::Explained, Some(anchor)) = (verdict, row.explained) {
            let why = format!("why: docs/validation, {anchor}");
            below = Some(below.map_or(why.clone(), |text| format!("{text}; {why}")));
        }
        for line in below.map_or(Vec::new(), |t| wrap(&t, columns.saturating_sub(4))) {
            let _ = writeln!(out, "{GAP}{GAP}{}", colour.wrap(DIM, &line));
        }
    }
    match &report.failure {
        None => {}
        Some(ScenarioError::Cancelled) => {
            let _ = writeln!(out, "{GAP}{}", colour.wrap(YELLOW, "interrupted"));
        }
        Some(e) => {
            for line in wrap(&format!("failed: {e}"), columns.saturating_sub(2)) {
                let _ = writeln!(out, "{GAP}{}", colour.wrap(RED, &line));
            }
        }
    }
    out.push('\n');
}

fn cells(row: &Row) -> [String; 6] {
    [
        row.what.clone(),
        row.reference.to_string(),
        ours(row),
        row.tolerance.to_string(),
        row.verdict().name().to_owned(),
        seconds(row.millis),
    ]
}

fn shade(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Agrees => Some(GREEN),
        Verdict::Explained | Verdict::Missing => Some(YELLOW),
        Verdict::Differs => Some(RED),
        Verdict::Shown => None,
    }
}

fn seconds(millis: u64) -> String {
    match millis {
        0..10 => "0".to_owned(),
        10..10_000 => format!("{:.1}", millis as f64 / 1e3),
        _ => format!("{:.0}", millis as f64 / 1e3),
    }
}

/// As wide as the content, the widest of the first three narrowed until it all fits.
fn widths(cells: &[[String; 6]], columns: usize) -> [usize; 6] {
    let mut widths = HEAD.map(|h| h.chars().count());
    for row in cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let total = |w: &[usize; 6]| w.iter().sum::<usize>() + (w.len() - 1) * GAP.len();
    while total(&widths) > columns {
        let Some(widest) = (0..3)
            .filter(|i| widths[*i] > LEAST)
            .max_by_key(|i| widths[*i])
        else {
            break;
        };
        widths[widest] -= 1;
    }
    widths
}

/// The lines of one row; numbers stand at the right of their columns.
fn lines(cells: &[String; 6], widths: &[usize; 6], numbers: bool) -> Vec<String> {
    let wrapped: Vec<Vec<String>> = cells
        .iter()
        .zip(widths)
        .map(|(cell, width)| wrap(cell, *width))
        .collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
    (0..height)
        .map(|i| {
            let parts = wrapped.iter().zip(widths).enumerate();
            let parts = parts.map(|(column, (lines, width))| {
                let text = lines.get(i).map_or("", String::as_str);
                match column {
                    1 | 2 if !numbers => format!("{text:<width$}"),
                    1 | 2 | 5 => format!("{text:>width$}"),
                    _ => format!("{text:<width$}"),
                }
            });
            parts.collect::<Vec<_>>().join(GAP)
        })
        .collect()
}

/// Broken at spaces, or within a word that is longer than a line. One line at least.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut room = width;
    for word in text.split_whitespace() {
        let mut letters: Vec<char> = word.chars().collect();
        let start = room == width;
        if !start && letters.len() < room {
            room -= 1;
            if let Some(line) = lines.last_mut() {
                line.push(' ');
            }
        } else if !start {
            lines.push(String::new());
            room = width;
        }
        while !letters.is_empty() {
            if room == 0 {
                lines.push(String::new());
                room = width;
            }
            let rest = letters.split_off(letters.len().min(room));
            room -= letters.len();
            if let Some(line) = lines.last_mut() {
                line.extend(letters);
            }
            letters = rest;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept_whole_where_they_fit() {
        for (text, width, expected) in [
            ("", 5, &[""][..]),
            ("a b c", 5, &["a b c"]),
            ("a b c", 4, &["a b", "c"]),
            ("abcdef gh", 4, &["abcd", "ef", "gh"]),
            ("ab cdefgh", 4, &["ab", "cdef", "gh"]),
            ("≥ 15", 4, &["≥ 15"]),
        ] {
            assert_eq!(wrap(text, width), expected, "{text} {width}");
        }
    }
}
