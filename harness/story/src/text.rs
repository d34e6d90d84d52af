//! A story for a terminal.

use crate::claims;
use crate::grid::Grid;
use crate::report::{Report, Verdict};
use crate::stories;
use crate::story::Live;
use crate::twin::Told;
use narrows_report::table::{BOLD, Colour, DIM, GREEN, RED, YELLOW};
use std::fmt::Write;

/// A line for each story.
pub fn list() -> String {
    let width = stories::listed()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for (name, about) in stories::listed() {
        let open = match stories::get(name) {
            Some(_) => "",
            None => " (open: nothing runs it yet)",
        };
        let _ = writeln!(out, "{name:<width$}  {about}{open}");
    }
    out
}

/// All that a report says; lines are at most `columns` wide where words allow.
pub fn report(report: &Report<'_>, colour: Colour, columns: usize) -> String {
    let mut out = String::new();
    match &report.phenomenon {
        Ok(sentence) => out += &wrapped(&colour.wrap(BOLD, sentence), "", columns),
        Err(why) => {
            let _ = writeln!(out, "No sentence: {why}");
        }
    }
    for (title, grid) in &report.tables {
        let _ = writeln!(out, "\n{}", colour.wrap(BOLD, title));
        match grid {
            Ok(grid) => out += &table(grid, colour),
            Err(why) => {
                let _ = writeln!(out, "  {why}");
            }
        }
    }
    for (name, figure) in &report.figures {
        if let Err(why) = figure {
            let of = if name.is_empty() { "" } else { " " };
            let _ = writeln!(out, "\nNo figure{of}{name}: {why}");
        }
    }
    let _ = writeln!(out, "\n{}", colour.wrap(BOLD, &report.tally()));
    for row in &report.rows {
        let code = match row.verdict {
            Verdict::Holds => GREEN,
            Verdict::Unexplained | Verdict::Unknown(_) => RED,
            Verdict::Differs(_) => YELLOW,
            Verdict::NeedsFull(_) | Verdict::Open(_) => DIM,
        };
        let why = row.verdict.why();
        let line = Line {
            id: row.claim.id,
            says: row.claim.says,
            word: row.verdict.word(),
            code,
            below: [&row.measured, &why],
        };
        out += &line.text(colour, columns);
    }
    let _ = writeln!(out, "\n{}", colour.wrap(BOLD, "Next"));
    for next in report.story.next {
        // On a line of its own, however long it is, so that it can be pasted.
        let _ = writeln!(out, "  {}", next.what);
        out += &dim(&wrapped(next.shows, "    ", columns), colour);
    }
    for (name, figure) in &report.figures {
        if let Ok(chart) = figure {
            let of = if name.is_empty() { "" } else { " --figure " };
            let story = report.story.name;
            let _ = writeln!(out, "  narrows story {story} --svg FILE{of}{name}");
            out += &dim(&wrapped(&chart.title, "    ", columns), colour);
        }
    }
    if let Live::Twin(twin) = report.story.live {
        let _ = writeln!(out, "  narrows story {} --live", report.story.name);
        out += &dim(&wrapped(twin.about, "    ", columns), colour);
    }
    out
}

/// Characters that a table of a twin takes at the most.
pub const PAGE: usize = 110;

/// What a twin showed: the tables and what is said below them, what was found of claims, and what the
/// machine did.
pub fn twin(told: &Told, colour: Colour, columns: usize) -> String {
    let mut out = String::new();
    for grid in &told.seen.tables {
        out += &table(grid, colour);
        out.push('\n');
    }
    for note in &told.seen.notes {
        out += &wrapped(note, "  ", columns);
    }
    if !told.seen.notes.is_empty() {
        out.push('\n');
    }
    for found in &told.seen.found {
        let why = found.why(&told.machine);
        let line = Line {
            id: found.claim,
            says: claims::get(found.claim).map_or("", |claim| claim.says),
            word: if why.is_some() { "differs" } else { "holds" },
            code: if why.is_some() { YELLOW } else { GREEN },
            below: [&found.finding.measured, why.as_deref().unwrap_or_default()],
        };
        out += &line.text(colour, columns);
    }
    let machine = format!("The machine meanwhile: {}.", told.machine);
    out += &wrapped(&machine, "", columns);
    out
}

/// A claim with its verdict, and what is said below it.
struct Line<'a> {
    id: &'a str,
    says: &'a str,
    word: &'a str,
    code: &'a str,
    below: [&'a str; 2],
}

impl Line<'_> {
    fn text(&self, colour: Colour, columns: usize) -> String {
        let word = colour.wrap(self.code, &format!("{:<8}", self.word));
        let mut out = format!("{:<4} {word} ", self.id);
        let indent = " ".repeat(14);
        out += wrapped(self.says, &indent, columns).trim_start();
        for text in self.below {
            if !text.is_empty() {
                out += &dim(&wrapped(text, &indent, columns), colour);
            }
        }
        out
    }
}

/// Lines, each pale.
fn dim(lines: &str, colour: Colour) -> String {
    lines.lines().fold(String::new(), |mut all, line| {
        let _ = writeln!(all, "{}", colour.wrap(DIM, line));
        all
    })
}

/// A table with its columns below each other.
pub fn table(grid: &Grid, colour: Colour) -> String {
    let cell = |row: &[String], n: usize| row.get(n).cloned().unwrap_or_default();
    let width = |n: usize| {
        let cells = grid.rows.iter().chain([&grid.head]);
        cells
            .map(|row| cell(row, n).chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..grid.head.len()).map(width).collect();
    let line = |row: &[String]| {
        let cells = widths.iter().enumerate().map(|(n, width)| {
            let text = cell(row, n);
            match n < grid.words {
                true => format!("{text:<width$}"),
                false => format!("{text:>width$}"),
            }
        });
        let cells: Vec<String> = cells.collect();
        format!("  {}", cells.join("  ").trim_end())
    };
    let mut out = format!("{}\n", colour.wrap(DIM, &line(&grid.head)));
    for row in &grid.rows {
        let _ = writeln!(out, "{}", line(row));
    }
    out
}

/// Text in lines of at most `columns`, between words, each with `indent` before it.
fn wrapped(text: &str, indent: &str, columns: usize) -> String {
    let room = columns.saturating_sub(indent.len()).max(20);
    let mut out = String::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            let _ = writeln!(out, "{indent}{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    let _ = writeln!(out, "{indent}{line}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twin::Seen;

    #[test]
    fn words_wrap_and_none_is_lost() {
        let text = "one two three four five six seven";
        let lines = wrapped(text, "  ", 22);
        assert!(
            lines.lines().all(|l| l.len() <= 22 && l.starts_with("  ")),
            "{lines}"
        );
        let words: Vec<&str> = lines.split_whitespace().collect();
        assert_eq!(words.join(" "), text);
    }

    #[test]
    fn a_twin_has_its_tables_then_what_is_said_below_them() {
        let grid = |head: &str| Grid {
            head: vec![head.to_owned()],
            words: 1,
            rows: vec![vec!["7".to_owned()]],
        };
        let told = |notes: &[&str]| Told {
            seen: Seen {
                tables: vec![grid("a"), grid("b")],
                notes: notes.iter().map(|&note| note.to_owned()).collect(),
                found: Vec::new(),
            },
            machine: "it slept".to_owned(),
        };
        let machine = "The machine meanwhile: it slept.\n";
        let text = |notes| twin(&told(notes), Colour::Plain, 80);
        let tables = "  a\n  7\n\n  b\n  7\n\n";
        assert_eq!(text(&[]), format!("{tables}{machine}"));
        let not_run = "not run: no erl";
        let expected = format!("{tables}  {not_run}\n\n{machine}");
        assert_eq!(text(&[not_run]), expected);
    }

    #[test]
    fn numbers_stand_right_and_words_left() {
        let grid = Grid {
            head: vec!["cc".to_owned(), "drops".to_owned()],
            words: 1,
            rows: vec![vec!["cubic".to_owned(), "7".to_owned()]],
        };
        assert_eq!(
            table(&grid, Colour::Plain),
            "  cc     drops\n  cubic      7\n"
        );
    }
}
