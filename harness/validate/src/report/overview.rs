//! The part of docs/VALIDATION.md that the command writes: what holds and how well, of the whole
//! and of each reference, with the tables in chapters behind it.

use super::Tally;
use super::chapter::{self, families};
use super::markdown::{self, Sections, text_of};
use super::score::Score;
use crate::origin::{Kind, Origin, Origins};
use crate::{Check, CheckReport, Row, Verdict, about, full_checks, local_checks};
use std::fmt::Write;

/// Before the generated part.
pub const BEGIN: &str = "<!-- narrows validate --docs: from here on generated -->";
/// After it.
pub const END: &str = "<!-- narrows validate --docs: up to here generated -->";

/// The folder beside the page that holds figures, and documents that explain.
pub const FOLDER: &str = "validation";
/// The folder of the chapters in it.
pub const CHAPTERS: &str = "tables";

/// `document` with the part between the markers written anew; `None` if they are not there, each
/// once and in order.
pub fn replaced(document: &str, part: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    let whole = !after.contains(BEGIN) && !after.contains(END);
    whole.then(|| format!("{before}{BEGIN}\n\n{part}\n{END}{after}"))
}

/// Rows whose reference nobody has described.
pub fn undescribed<'a>(reports: &'a [CheckReport], origins: &Origins) -> Vec<&'a Row> {
    let rows = reports.iter().flat_map(|r| &r.rows);
    rows.filter(|row| origins.of(&row.source).is_none())
        .collect()
}

/// The generated part.
pub fn text(reports: &[CheckReport], sections: &Sections, origins: &Origins) -> String {
    let mut out = String::from("## What holds, and how well\n\n");
    let _ = writeln!(
        out,
        "{}",
        Tally::of(reports, reports.len()).sentences().join(" ")
    );
    of_families(&mut out, reports);
    out.push_str(
        "\n*Off* is the distance of ours from the reference as a share of the reference, from the \
         nearer end of a range, over the judged rows for which there is such a share: not limits \
         (≥, ≤), lists and words. Half of them are no farther off than the *median*, and nine of \
         ten no farther than *9 in 10*. The *worst* is the farthest by ratio, explained or not.\n",
    );
    let _ = writeln!(
        out,
        "\nTolerances, each with its rows: {}.",
        Score::of_reports(reports).rows_by_tolerance()
    );
    of_shown(&mut out, reports);
    out.push_str("\n## What is compared with what\n");
    of_kinds(&mut out, reports, origins);
    of_references(&mut out, reports, origins);
    out.push_str("\n## What differs, and is explained\n\n");
    of_differences(&mut out, reports, sections);
    out
}

const COUNTS: [&str; 4] = [">rows", ">agree", ">explained", ">differ"];

fn counts(score: &Score) -> [String; 4] {
    [score.judged(), score.agree, score.explained, score.differ].map(|n| n.to_string())
}

/// A line for each family, and one for all.
fn of_families(out: &mut String, reports: &[CheckReport]) {
    let mut columns = vec!["family", "what"];
    columns.extend(COUNTS);
    columns.extend([">median off", ">9 in 10", ">worst", ">shown"]);
    markdown::head(out, &columns);
    let mut line = |name: String, what: String, score: &Score| {
        let mut cells = vec![name, what];
        cells.extend(counts(score));
        cells.extend([score.median(), score.most(), score.worst()]);
        cells.push(score.shown.to_string());
        markdown::line(out, &cells);
    };
    for (family, reports) in families(reports) {
        let what = about(family).map_or_else(String::new, text_of);
        line(chapter_of(family), what, &Score::of_reports(reports));
    }
    let all = Score::of_reports(reports);
    line("all".to_owned(), String::new(), &all);
}

/// The link to the chapter of `family`.
fn chapter_of(family: &str) -> String {
    format!("[{family}]({FOLDER}/{CHAPTERS}/{})", chapter::file(family))
}

/// What is shown without a verdict, and which checks are not part of the page.
fn of_shown(out: &mut String, reports: &[CheckReport]) {
    let all = Score::of_reports(reports);
    let (beside, median) = all.shown_beside();
    let _ = write!(out, "\nRows shown without a verdict: {}", all.shown);
    if beside > 0 {
        let _ = write!(
            out,
            "; {beside} of them stand beside a number of the reference, half of these no farther \
             off than {median}"
        );
    }
    let names = |checks: &[Check]| {
        let names: Vec<String> = checks.iter().map(|c| format!("`{}`", c.name)).collect();
        names.join(", ")
    };
    let _ = writeln!(
        out,
        ". Not part of this page are {}, which takes a program that not every machine has, and \
         what takes many minutes and `--full` runs: {}.",
        names(&local_checks()),
        names(&full_checks())
    );
}

/// A line for each kind of reference.
fn of_kinds(out: &mut String, reports: &[CheckReport], origins: &Origins) {
    let mut columns = vec!["kind", "a reference of this kind is"];
    columns.extend(COUNTS);
    columns.extend([">median off", ">worst"]);
    markdown::head(out, &columns);
    for kind in Kind::ALL {
        let rows = reports.iter().flat_map(|r| &r.rows);
        let score =
            Score::of(rows.filter(|r| origins.of(&r.source).is_some_and(|o| o.kind == kind)));
        if score.judged() == 0 {
            continue;
        }
        let mut cells = vec![kind.name().to_owned(), text_of(kind.meaning())];
        cells.extend(counts(&score));
        cells.extend([score.median(), score.worst()]);
        markdown::line(out, &cells);
    }
}

/// A line for each reference in each family.
fn of_references(out: &mut String, reports: &[CheckReport], origins: &Origins) {
    let mut columns = vec!["family", "reference", "kind", "tolerance"];
    columns.extend(COUNTS);
    columns.extend([">median off", ">worst"]);
    markdown::head(out, &columns);
    for (family, reports) in families(reports) {
        let mut groups: Vec<(&Origin, Vec<&Row>)> = Vec::new();
        for row in reports.iter().flat_map(|r| &r.rows) {
            let Some(origin) = origins.of(&row.source) else {
                continue;
            };
            match groups.iter_mut().find(|(o, _)| *o == origin) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((origin, vec![row])),
            }
        }
        for (origin, rows) in groups {
            let score = Score::of(rows);
            if score.judged() == 0 {
                continue;
            }
            let mut cells = vec![
                family.to_owned(),
                format!("**{}**: {}", text_of(origin.name), text_of(origin.what)),
                origin.kind.name().to_owned(),
                score.tolerances(),
            ];
            cells.extend(counts(&score));
            cells.extend([score.median(), score.worst()]);
            markdown::line(out, &cells);
        }
    }
}

/// For each family the sections that explain its differences, each with its rows.
fn of_differences(out: &mut String, reports: &[CheckReport], sections: &Sections) {
    for (family, reports) in families(reports) {
        let mut groups: Vec<(&str, Vec<&Row>)> = Vec::new();
        let rows = reports.iter().flat_map(|r| &r.rows);
        for row in rows.filter(|r| r.verdict() == Verdict::Explained) {
            let anchor = row.explained.unwrap_or_default();
            match groups.iter_mut().find(|(a, _)| *a == anchor) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((anchor, vec![row])),
            }
        }
        if groups.is_empty() {
            continue;
        }
        let text = |(anchor, rows): (&str, Vec<&Row>)| {
            let name = match sections.get(anchor) {
                Some(s) => format!("[{}]({FOLDER}/{}#{anchor})", text_of(&s.title), s.file),
                None => text_of(anchor),
            };
            let noun = if rows.len() == 1 { "row" } else { "rows" };
            let count = rows.len();
            let score = Score::of(rows);
            match score.measured() {
                0 => format!("{name} ({count} {noun})"),
                _ => format!("{name} ({count} {noun}, worst {})", score.worst()),
            }
        };
        let texts: Vec<String> = groups.into_iter().map(text).collect();
        let _ = writeln!(out, "- {family}: {}.", texts.join("; "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
