//! The chapter of a family: its checks at a glance, and every row and figure.
//!
//! Nothing in it depends on the machine or the time, so that the same program writes the same
//! bytes.

use super::markdown::{self, Sections, anchor, sentence, text_of};
use super::score::Score;
use super::{Tally, ours, remark};
use crate::{CheckReport, Row, Verdict, about};
use narrows_report::chart::Theme;
use std::fmt::Write;

/// The first line of every chapter: it is ours to write again and to remove.
pub const MARK: &str =
    "<!-- Written by narrows validate --docs, which writes it anew: do not edit. -->";

/// From a chapter to the folder of the figures and of the documents that explain.
const UP: &str = "../";

/// A chapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chapter {
    /// The name of its file.
    pub file: String,
    /// What the file holds.
    pub text: String,
}

/// The name of the file for the chapter of `family`.
pub fn file(family: &str) -> String {
    format!("{family}.md")
}

/// A chapter for each family of `reports`, in their order.
pub fn chapters(reports: &[CheckReport], sections: &Sections) -> Vec<Chapter> {
    let chapter = |(family, reports): (&str, &[CheckReport])| Chapter {
        file: file(family),
        text: text(family, reports, sections),
    };
    families(reports).map(chapter).collect()
}

/// The reports of each family, which stand together.
pub(super) fn families(reports: &[CheckReport]) -> impl Iterator<Item = (&str, &[CheckReport])> {
    let same = |a: &CheckReport, b: &CheckReport| a.check.family() == b.check.family();
    let named = |group: &'_ [CheckReport]| group.first().map(|r| r.check.family());
    reports
        .chunk_by(same)
        .filter_map(move |group| Some((named(group)?, group)))
}

/// The figures that a chapter shows, as file names.
pub fn figures_of(chapter: &str) -> Vec<&str> {
    let images = chapter.lines().filter_map(|l| l.strip_prefix("!["));
    let names = images.filter_map(|l| l.rsplit_once("](")?.1.strip_suffix(')')?.strip_prefix(UP));
    names
        .filter(|name| name.ends_with(".svg") && !name.contains(['/', '\\']))
        .collect()
}

/// Explained rows whose section is nowhere.
pub fn unexplained<'a>(reports: &'a [CheckReport], sections: &Sections) -> Vec<&'a Row> {
    let rows = reports.iter().flat_map(|r| &r.rows);
    let lost = |r: &&Row| r.explained.is_some_and(|a| !sections.contains_key(a));
    rows.filter(lost).collect()
}

fn text(family: &str, reports: &[CheckReport], sections: &Sections) -> String {
    let mut out = format!("{MARK}\n\n# {family}\n\n");
    if let Some(what) = about(family) {
        let _ = write!(out, "{}. ", sentence(what));
    }
    let _ = write!(
        out,
        "[Validation](../../VALIDATION.md) says how to read this.\n\n{}\n",
        Tally::of(reports, reports.len()).sentences().join(" ")
    );
    glance(&mut out, reports);
    for report in reports {
        check(&mut out, report, sections);
    }
    out
}

/// A line for each check.
fn glance(out: &mut String, reports: &[CheckReport]) {
    markdown::head(
        out,
        &[
            "check",
            "what",
            ">rows",
            ">agree",
            ">explained",
            ">differ",
            ">shown",
            ">median off",
            ">worst off",
        ],
    );
    for report in reports {
        let (name, score) = (report.check.name, Score::of(&report.rows));
        markdown::line(
            out,
            &[
                format!("[{name}](#{})", anchor(name)),
                text_of(report.check.what),
                score.judged().to_string(),
                score.agree.to_string(),
                score.explained.to_string(),
                score.differ.to_string(),
                score.shown.to_string(),
                score.median(),
                score.worst(),
            ],
        );
    }
}

fn check(out: &mut String, report: &CheckReport, sections: &Sections) {
    let _ = write!(
        out,
        "\n## {}\n\n{}.\n",
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
        let mut columns = vec![
            "what",
            "source",
            ">reference",
            ">ours",
            "tolerance",
            "verdict",
        ];
        columns.retain(|c| !one_source || *c != "source");
        markdown::head(out, &columns);
    }
    for row in rows {
        let what = match remark(row) {
            Some(remark) => format!("{} *({})*", text_of(&row.what), text_of(&remark)),
            None => text_of(&row.what),
        };
        let mut cells = vec![
            what,
            text_of(&row.reference.to_string()),
            text_of(&ours(row)),
            row.tolerance.to_string(),
            verdict(row, sections),
        ];
        if !one_source {
            cells.insert(1, text_of(&row.source));
        }
        markdown::line(out, &cells);
    }
    if let Some(e) = &report.failure {
        let _ = write!(out, "\n**Failed: {}**\n", text_of(&e.to_string()));
    }
    for figure in &report.figures {
        let _ = write!(
            out,
            "\n![{}]({UP}{}.svg)\n\n*{}*\n",
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
        (Verdict::Agrees | Verdict::Explained, Some((anchor, section))) => {
            format!("[{}]({UP}{}#{anchor})", verdict.name(), section.file)
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
