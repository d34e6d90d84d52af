//! `docs/STORIES.md`: a section for each story, between markers, so that one can be written anew; and
//! pages of what stories show with `--full`.

use crate::grid::Grid;
use crate::report::{ClaimReport, Report, Verdict};
use crate::stories;
use crate::story::Live;
use narrows_report::chart::{Chart, Theme};
use std::fmt::Write;

/// The page, in the folder of the documentation.
pub const PAGE: &str = "STORIES.md";
/// The folder of the figures beside it.
pub const FOLDER: &str = "stories";

fn begin(name: &str) -> String {
    format!("<!-- narrows story {name}: from here on generated -->\n")
}

fn end(name: &str) -> String {
    format!("<!-- narrows story {name}: up to here generated -->\n")
}

/// What the name of a story is in names of files and links: `rack-unfair`.
pub fn file_name(story: &str) -> String {
    story.replace(' ', "-")
}

/// The page in [`FOLDER`] of what a story shows with `--full`.
pub fn full_name(story: &str) -> String {
    format!("{}-full.md", file_name(story))
}

/// `document` with the section of a story written anew; a page that has none yet gets it where its
/// place in the list is.
pub fn replaced(document: &str, name: &str, section: &str) -> String {
    let (begin, end) = (begin(name), end(name));
    let whole = format!("{begin}\n{section}\n{end}");
    if let Some((before, rest)) = document.split_once(&begin)
        && let Some((_, after)) = rest.split_once(&end)
    {
        return format!("{before}{whole}{after}");
    }
    // Before the next one that is there.
    let after = stories::listed()
        .map(|(known, _)| known)
        .skip_while(|known| *known != name);
    for next in after.skip(1) {
        if let Some(at) = document.find(&self::begin(next)) {
            let (before, rest) = document.split_at(at);
            return format!("{before}{whole}\n{rest}");
        }
    }
    let gap = if document.ends_with("\n\n") { "" } else { "\n" };
    format!("{document}{gap}{whole}")
}

/// The page without sections: what a new one begins with.
pub fn opening() -> String {
    let mut out = String::from(
        "# Stories\n\nnarrows exists because of five texts: on incast in storage clusters (I), on \
         microbursts and the busy port of an Erlang database (M), on a local drop that cuts a \
         storage server to a fifth of its speed (E), on four one-byte writes (S), and on DCTCP in a \
         rack and in six racks (D). They make 102 claims. Each is a row below, with the command \
         that runs it and what came out; a row that nothing runs yet says so, and what it takes.\n\n\
         `narrows story` lists the stories, `narrows story NAME` tells one in less than a minute, \
         and `--full` runs what takes longer. `narrows story NAME --docs docs` writes its section \
         here, with `--full` a page of its own beside the figures. CI writes the sections anew and \
         compares; of the pages, which take minutes, tests look at claims and reasons, and figures are those \
         of the day they were written. A claim *holds* if what was to be \
         shown came out within its tolerance, and *differs* \
         with the reason if not; it *takes --full* where only more runs decide, and then has to hold with \
         them.\n\n",
    );
    let _ = writeln!(out, "| story | |\n|---|---|");
    for (name, about) in stories::listed() {
        let _ = writeln!(out, "| [{name}](#{}) | {about} |", file_name(name));
    }
    out
}

/// The section of a story.
pub fn section(report: &Report<'_>) -> String {
    let story = report.story;
    let mut out = heading(story.name, story.about);
    let _ = writeln!(out, "`narrows story {}`\n", story.name);
    match &report.phenomenon {
        Ok(sentence) => {
            let _ = writeln!(out, "**{sentence}**\n");
        }
        Err(why) => {
            let _ = writeln!(out, "*No sentence: {why}.*\n");
        }
    }
    for (name, chart) in drawn(report, &file_name(story.name)) {
        let _ = writeln!(out, "![{}]({FOLDER}/{name})\n", chart.title);
    }
    out += &tables_and_verdicts(report);
    let waits = |row: &ClaimReport| matches!(row.verdict, Verdict::NeedsFull(_));
    if report.rows.iter().any(waits) {
        let page = full_name(story.name);
        let _ = writeln!(
            out,
            "With `--full`: [{page}]({FOLDER}/{page}) has the rows that take longer, and all others with what `--full` makes of them.\n"
        );
    }
    out += &match story.live {
        Live::Twin(twin) => format!(
            "Live: `narrows story {} --live`. {}\n\n",
            story.name, twin.about
        ),
        Live::Cannot(why) => format!("Live: not possible, {why}.\n\n"),
        Live::Elsewhere(what) => format!("Live: {what}.\n\n"),
    };
    let _ = writeln!(out, "Next:\n");
    for next in story.next {
        let _ = writeln!(out, "- `{}`: {}", next.what, next.shows);
    }
    out
}

/// The page of what a story shows with `--full`, which [`full_name`] names.
pub fn full(report: &Report<'_>) -> String {
    let name = report.story.name;
    format!(
        "# {name}, with all rows and all runs\n\n`narrows story {name} --full --docs docs` writes this page. What \
         the story shows in less than a minute is in [{PAGE}](../{PAGE}#{}).\n\n{}",
        file_name(name),
        tables_and_verdicts(report)
    )
}

/// What both have.
fn tables_and_verdicts(report: &Report<'_>) -> String {
    let mut out = String::new();
    for (title, grid) in &report.tables {
        let _ = writeln!(out, "{title}:\n");
        match grid {
            Ok(grid) => out += &markdown(grid),
            Err(why) => {
                let _ = writeln!(out, "*{why}*");
            }
        }
        out.push('\n');
    }
    let _ = writeln!(out, "{}\n", report.tally());
    let rows = report.rows.iter().map(|row| {
        let verdict = match &row.verdict {
            other if other.why().is_empty() => other.word().to_owned(),
            other => format!("{}: {}", other.word(), other.why()),
        };
        let claim = row.claim;
        [claim.id, claim.says, claim.show, &row.measured, &verdict]
            .map(str::to_owned)
            .to_vec()
    });
    out += &markdown(&claims_grid(rows));
    out += "\n";
    out
}

/// The section of a story that nothing runs yet.
pub fn open_section(name: &str, about: &str) -> String {
    let mut out = heading(name, about);
    let _ = writeln!(out, "Nothing runs this story yet; its claims are open.\n");
    let rows = crate::claims::of_story(name).map(|claim| {
        let verdict = format!("open: {}", Verdict::Open(claim.needs).why());
        [claim.id, claim.says, claim.show, "", &verdict]
            .map(str::to_owned)
            .to_vec()
    });
    out += &markdown(&claims_grid(rows));
    out
}

/// The figures of a story as files: the name of each, `base.svg` for the first and `base-NAME.svg` for others,
/// and the SVG.
pub fn figures(report: &Report<'_>, base: &str) -> Vec<(String, String)> {
    let svg = |(name, chart): (String, &Chart)| (name, chart.svg(Theme::Paper));
    drawn(report, base).map(svg).collect()
}

/// The figures that there are, each under the name of its file.
fn drawn<'r>(report: &'r Report<'_>, base: &str) -> impl Iterator<Item = (String, &'r Chart)> {
    report.figures.iter().filter_map(move |(name, chart)| {
        let chart = chart.as_ref().ok()?;
        let dash = if name.is_empty() { "" } else { "-" };
        Some((format!("{base}{dash}{name}.svg"), chart))
    })
}

fn heading(name: &str, about: &str) -> String {
    format!("## {name}\n\n{about}\n\n")
}

fn claims_grid(rows: impl Iterator<Item = Vec<String>>) -> Grid {
    Grid {
        rows: rows.collect(),
        ..Grid::new(["", "the text says", "to show", "measured", "verdict"], 5)
    }
}

/// A table in Markdown.
pub fn markdown(grid: &Grid) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|c| c.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut out = line(&grid.head);
    let rule = (0..grid.head.len()).map(|n| if n < grid.words { "---" } else { "---:" });
    let rule: Vec<&str> = rule.collect();
    let _ = writeln!(out, "| {} |", rule.join(" | "));
    for row in &grid.rows {
        out += &line(row);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{claims, stories};
    use std::fs;
    use std::path::Path;

    #[test]
    fn a_section_is_written_where_it_was_and_new_ones_in_the_order_of_the_list() {
        let page = replaced("# Stories\n", "incast", "two\n");
        let page = replaced(&page, "burst", "one\n");
        let page = replaced(&page, "racks", "three\n");
        let at = |text: &str| page.find(text).unwrap();
        assert!(at("one") < at("two") && at("two") < at("three"), "{page}");
        let again = replaced(&page, "incast", "two\n");
        assert_eq!(again, page);
        let other = replaced(&page, "incast", "deux\n");
        assert!(!other.contains("two") && other.contains("one") && other.contains("three"));
    }

    /// No run of minutes says so: a page of `--full` that is older than its rows does not have their words.
    #[test]
    fn pages_of_all_runs_have_the_claims_and_reasons_of_today() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for story in stories::ALL {
            if story.rows.iter().all(|row| row.in_full.is_none()) {
                continue;
            }
            let page = docs.join(FOLDER).join(full_name(story.name));
            let text =
                fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
            for row in story.rows {
                let claim = claims::get(row.claim).expect("a claim");
                let cells = [claim.id, claim.says, claim.show].map(|cell| cell.replace('|', "\\|"));
                let begin = format!("| {} | ", cells.join(" | "));
                let line = text.lines().find(|line| line.starts_with(&begin));
                let old = || {
                    let name = story.name;
                    panic!(
                        "{}: {} is old: `narrows story {name} --full --docs docs`",
                        page.display(),
                        claim.id
                    )
                };
                let line = line.unwrap_or_else(old);
                let why = Verdict::Differs(row.because.unwrap_or_default()).why();
                let reason = format!("| differs: {why} |");
                if !(line.ends_with("| holds |") || line.ends_with(&reason)) {
                    old();
                }
            }
        }
    }

    #[test]
    fn bars_in_cells_do_not_end_them() {
        let grid = Grid {
            head: vec!["a".to_owned(), "b".to_owned()],
            words: 1,
            rows: vec![vec!["x|y".to_owned(), "1".to_owned()]],
        };
        assert_eq!(
            markdown(&grid),
            "| a | b |\n| --- | ---: |\n| x\\|y | 1 |\n"
        );
    }
}
