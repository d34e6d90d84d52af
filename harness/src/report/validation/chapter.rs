//! The chapter of docs/VALIDATION.md that the command writes, and the figures beside it.
//!
//! Nothing in it depends on the machine or the time, so that the same program writes the same
//! bytes.

use super::{Tally, ours, remark};
use crate::report::chart::Theme;
use crate::validate::{CheckReport, Row, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Before the generated part.
pub const BEGIN: &str = "<!-- narrows validate --docs: from here on generated -->";
/// After it.
pub const END: &str = "<!-- narrows validate --docs: up to here generated -->";

/// Where each section is: its anchor, and the file that holds it, as seen from the chapter.
pub type Sections = BTreeMap<String, String>;

/// The anchors of the headings of a Markdown file, as GitHub makes them.
pub fn anchors(markdown: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found: Vec<String> = Vec::new();
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let level = line.chars().take_while(|c| *c == '#').count();
        let heading = line.get(level..).and_then(|l| l.strip_prefix(' '));
        let Some(heading) = heading.filter(|_| !fenced && (1..=6).contains(&level)) else {
            continue;
        };
        let kept = heading
            .trim()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept
            .flat_map(char::to_lowercase)
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        // The second of a name is numbered.
        let before = found
            .iter()
            .filter(|f| {
                let rest = f.strip_prefix(anchor.as_str());
                rest == Some("")
                    || rest.is_some_and(|r| {
                        r.strip_prefix('-')
                            .is_some_and(|n| n.parse::<u32>().is_ok())
                    })
            })
            .count();
        found.push(match before {
            0 => anchor,
            n => format!("{anchor}-{n}"),
        });
    }
    found
}

/// Explained rows whose section is nowhere.
pub fn unexplained<'a>(reports: &'a [CheckReport], sections: &Sections) -> Vec<&'a Row> {
    let rows = reports.iter().flat_map(|r| &r.rows);
    let lost = |r: &&Row| r.explained.is_some_and(|a| !sections.contains_key(a));
    rows.filter(lost).collect()
}

/// `document` with the part between the markers written anew; `None` if they are not there, each
/// once and in order.
pub fn replaced(document: &str, part: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    let whole = !after.contains(BEGIN) && !after.contains(END);
    whole.then(|| format!("{before}{BEGIN}\n\n{part}\n{END}{after}"))
}

/// The generated part: what agrees, and a section with table and figures for each check.
pub fn text(reports: &[CheckReport], sections: &Sections) -> String {
    let mut out = Tally::of(reports, reports.len()).sentences().join(" ");
    out.push('\n');
    let mut group = "";
    for report in reports {
        let name = report.check.name;
        let this = name.split('/').next().unwrap_or(name);
        if this != group {
            let _ = write!(out, "\n## {this}\n");
            group = this;
        }
        check(&mut out, report, sections);
    }
    out
}

fn check(out: &mut String, report: &CheckReport, sections: &Sections) {
    let _ = write!(
        out,
        "\n### {}\n\n{}.\n",
        report.check.name,
        sentence(report.check.what)
    );
    let rows = &report.rows;
    let one_source = rows.windows(2).all(|w| w[0].source == w[1].source);
    if let (true, Some(row)) = (one_source, rows.first()) {
        let _ = write!(
            out,
            "\nReference: {}.\n",
            text_of(row.source.trim_end_matches('.'))
        );
    }
    if !rows.is_empty() {
        let (head, rule) = if one_source {
            ("", "")
        } else {
            (" source |", "---|")
        };
        let _ = write!(
            out,
            "\n| what |{head} reference | ours | tolerance | verdict |\n|---|{rule}--:|--:|---|---|\n"
        );
    }
    for row in rows {
        let source = if one_source {
            String::new()
        } else {
            format!(" {} |", text_of(&row.source))
        };
        let what = match remark(row) {
            Some(remark) => format!("{} *({})*", text_of(&row.what), text_of(&remark)),
            None => text_of(&row.what),
        };
        let _ = writeln!(
            out,
            "| {what} |{source} {} | {} | {} | {} |",
            text_of(&row.reference.to_string()),
            text_of(&ours(row)),
            row.tolerance,
            verdict(row, sections),
        );
    }
    if let Some(e) = &report.failure {
        let _ = write!(out, "\n**Failed: {}**\n", text_of(&e.to_string()));
    }
    for figure in &report.figures {
        let _ = write!(
            out,
            "\n![{}](validation/{}.svg)\n\n*{}*\n",
            text_of(&figure.chart.title),
            figure.name,
            text_of(&figure.caption)
        );
    }
}

fn verdict(row: &Row, sections: &Sections) -> String {
    let verdict = row.verdict();
    let link = row.explained.and_then(|a| Some((a, sections.get(a)?)));
    match (verdict, link) {
        (Verdict::Differs, _) => "**DIFFERS**".to_owned(),
        (Verdict::Agrees | Verdict::Explained, Some((anchor, file))) => {
            format!("[{}]({file}#{anchor})", verdict.name())
        }
        _ => verdict.name().to_owned(),
    }
}

/// Each figure's file name and content.
pub fn figures(reports: &[CheckReport]) -> Vec<(String, String)> {
    let figures = reports.iter().flat_map(|r| &r.figures);
    figures
        .map(|f| (format!("{}.svg", f.name), f.chart.svg(Theme::Paper)))
        .collect()
}

/// With a large first letter.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string());
    text_of(&(first.unwrap_or_default() + letters.as_str()))
}

/// Text that Markdown shows as it is, in a cell of a table too.
fn text_of(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '<' | '>' | '`' | '\\' | '[' | ']' => {
                out.push('\\');
                out.push(c);
            }
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_github() {
        let text = "# Why N* is 2.6, not 3\n```\n# no heading\n```\n## Reno & CUBIC\n#x\n## Twice\n## Twice\n";
        assert_eq!(
            anchors(text),
            ["why-n-is-26-not-3", "reno--cubic", "twice", "twice-1"]
        );
    }

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let document = format!("intro\n{BEGIN}\nold\n{END}\nend\n");
        let new = replaced(&document, "new\n").unwrap();
        assert_eq!(new, format!("intro\n{BEGIN}\n\nnew\n\n{END}\nend\n"));
        assert_eq!(replaced(&new, "new\n").unwrap(), new);
        for bad in [
            "",
            BEGIN,
            &format!("{END}{BEGIN}"),
            &format!("{document}{document}"),
        ] {
            assert_eq!(replaced(bad, "new"), None);
        }
    }
}
