//! A made-up set of reports, and what is said of it.

use super::*;
use crate::origin::Origins;
use crate::testing::{CHECKS, row};
use crate::{Tolerance, run_checks};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn reports() -> Vec<CheckReport> {
    let clock = || Duration::ZERO;
    run_checks(&CHECKS, 1, &AtomicBool::new(false), &clock, &|_| {})
}

#[test]
fn the_tally_says_what_agrees_and_why_something_is_missing() {
    let reports = reports();
    let tally = Tally::of(&reports, 4);
    assert!(!tally.holds());
    assert_eq!(
        tally.sentences(),
        [
            "Of 6 comparisons 3 agree, 1 is explained and 1 differs; 1 is missing (ns-3 is not \
             installed); 1 more shown for the reader.",
            "a/second failed: internal error, please report it: on purpose.",
            "Interrupted: 1 check was not finished.",
        ]
    );
    let fine = Tally::of(&reports[..1], 1);
    assert!(fine.holds());
    assert_eq!(
        fine.sentences(),
        ["Of 3 comparisons 2 agree, 1 is explained and 0 differ."]
    );
}

/// What two peers and a table hold against the same result is one comparison, and no better than
/// the worst of them.
#[test]
fn a_result_beside_several_references_counts_once() {
    let beside = |reference, shared: bool| {
        let row = row("N = 8", reference, 100.0);
        if shared { row.of_result("N = 8") } else { row }
    };
    let tally = |rows: Vec<Row>| {
        let report = CheckReport {
            check: CHECKS[0],
            rows,
            figures: Vec::new(),
            failure: None,
            took: Duration::ZERO,
        };
        Tally::of(&[report], 1)
    };
    let counts = |t: &Tally| (t.agree, t.explained, t.differ, t.shown, t.repeated);
    let apart = tally(vec![beside(100.0, false), beside(50.0, false)]);
    assert_eq!(counts(&apart), (1, 0, 1, 0, 0));
    let agree = tally(vec![beside(100.0, true), beside(100.5, true)]);
    assert_eq!(counts(&agree), (1, 0, 0, 0, 1));
    assert!(agree.sentences()[0].starts_with("Of 1 comparison (in 2 rows: "));
    let mixed = tally(vec![
        beside(100.0, true),
        beside(50.0, true).explained("why"),
        beside(99.9, true),
    ]);
    assert_eq!(counts(&mixed), (0, 1, 0, 0, 2));
    let worst = tally(vec![
        beside(50.0, true),
        beside(50.0, true).explained("why"),
    ]);
    assert_eq!(counts(&worst), (0, 0, 1, 0, 1));
    assert!(!worst.holds());
    let mut shown = beside(1.0, true);
    shown.tolerance = Tolerance::Shown;
    let shown = tally(vec![shown, beside(100.0, true)]);
    assert_eq!(counts(&shown), (1, 0, 0, 1, 0));
}

#[test]
fn the_table_fits_from_80_columns_on() {
    use narrows_report::table::Colour;
    let reports = reports();
    for columns in [80, 100, 200] {
        let text = table::text(&reports, Colour::Plain, columns);
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
        for part in [
            "a/first",
            "908.2",
            "909 Mb/s",
            "1 %",
            "explained",
            "DIFFERS",
            "Mathis et al.",
            "why-16",
            "2 (1 to 3)",
            "missing: ns-3 is not installed",
            "on purpose",
            "≥ 1",
            "of 3 seeds",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let digits = |t: &str| t.split_whitespace().filter(|w| *w == "59").count();
        assert_eq!(digits(&text), 2, "long lists are kept whole");
    }
    let coloured = table::text(&reports, Colour::Ansi, 100);
    assert!(coloured.contains("\x1b[31mDIFFERS\x1b[0m"));
}

fn why_16() -> markdown::Sections {
    markdown::sections("## Why 16\n", "a.md").collect()
}

#[test]
fn a_chapter_links_explanations_and_embeds_figures() {
    let reports = reports();
    let sections = why_16();
    let chapters = chapter::chapters(&reports, &sections);
    let files: Vec<&str> = chapters.iter().map(|c| c.file.as_str()).collect();
    assert_eq!(files, ["a.md", "b.md"]);
    for (chapter, parts) in chapters.iter().zip([
        &[
            "\n# a\n",
            "Of 6 comparisons 3 agree",
            "| [a/first](#afirst) | Rows that agree and one that is explained | 3 | 2 | 1 | 0 | 0 | 0.09 % | +12 % |",
            "\n## a/first\n",
            "| N = 16 \\| \\<b\\> *(a\\_b)* | RFC 9438, section 5.1, tables 1 and 2 | 152 | 170 Mb/s | 1 % | [explained](../a.md#why-16) |",
            "![](../made-up.svg)\n\n*Two lines.*",
            "**DIFFERS**",
            "| ns-3 *(missing: ns-3 is not installed)* | ns-3 | – | – | – | missing |",
        ][..],
        &["\n## b\n", "Reference: nobody."],
    ]) {
        let text = &chapter.text;
        assert!(text.starts_with(chapter::MARK));
        for part in parts {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert_tables_are_even(text);
    }
    assert_eq!(chapter::figures_of(&chapters[0].text), ["made-up.svg"]);
    assert!(chapter::unexplained(&reports, &sections).is_empty());
    assert_eq!(chapter::unexplained(&reports, &Default::default()).len(), 1);
    let figures = chapter::figures(&reports);
    assert_eq!(figures.len(), 1);
    assert!(figures[0].0 == "made-up.svg" && figures[0].1.starts_with("<svg"));
}

#[test]
fn the_overview_says_how_well_families_and_references_hold() {
    let reports = reports();
    let origins = Origins::known();
    let text = overview::text(&reports, &why_16(), &origins);
    for part in [
        "Of 6 comparisons 3 agree",
        "| [a](validation/tables/a.md) |  | 5 | 3 | 1 | 1 | 12 % | 100 % | +100 % | 0 |",
        "| [b](validation/tables/b.md) |  | 0 | 0 | 0 | 0 | – | – | – | 1 |",
        "| all |  | 5 | 3 | 1 | 1 | 12 % | 100 % | +100 % | 1 |",
        "\nRows shown without a verdict: 1. Not part of this page are `peers/ns-3-here`,",
        "Tolerances, each with its rows: exact (2), 1 % (3).",
        "| RFC | tables, figures, equations and rules of an RFC | 4 | 2 | 1 | 1 | 12 % | +100 % |",
        "| a | **RFC 9937**: figures 1 and 2, ACK by ACK | RFC | exact | 1 | 1 | 0 | 0 | – | – |",
        "- a: [Why 16](validation/a.md#why-16) (1 row, worst +12 %).",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(!text.contains("| b | **"), "nothing was judged in\n{text}");
    assert_tables_are_even(&text);
    let undescribed = overview::undescribed(&reports, &origins);
    let sources: Vec<&str> = undescribed.iter().map(|r| r.source.as_str()).collect();
    assert_eq!(sources, ["ns-3", "nobody"]);
}

/// Each line of a table has as many cells as the line above it.
fn assert_tables_are_even(markdown: &str) {
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut above = None;
    for line in markdown.lines() {
        let here = line.starts_with('|').then(|| cells(line));
        if let (Some(above), Some(here)) = (above, here) {
            assert_eq!(above, here, "{line}");
        }
        above = here;
    }
}

#[test]
fn the_page_needs_nothing_from_elsewhere_and_escapes() {
    let reports = reports();
    let page = page::page(&reports, &Tally::of(&reports, 3), "narrows validate '<b>'");
    let bare = page.replace("http://www.w3.org/2000/svg", "");
    for outside in [
        "http:", "https:", " src=", "url(", "@import", "<link", "<script",
    ] {
        assert!(!bare.contains(outside), "{outside}");
    }
    for part in [
        "<h1>Validation</h1>",
        "id=\"a/first\"",
        "<svg",
        "class=\"differs\"",
        "on purpose",
        "N = 16 | &lt;b&gt;",
        "&#39;&lt;b&gt;&#39;",
        "default-src 'none'",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn the_record_has_every_row() {
    let reports = reports();
    let tally = Tally::of(&reports, 3);
    let record = records::ValidationRecord::of(&reports, &tally, "narrows validate".to_owned());
    let json = serde_json::to_value(&record).unwrap();
    assert_eq!(json["format"], "narrows-validation");
    let rows: usize = (0..3)
        .map(|i| json["checks"][i]["rows"].as_array().unwrap().len())
        .sum();
    assert_eq!(rows, 7);
    let row = &json["checks"][0]["rows"][1];
    assert_eq!(row["verdict"], "explained");
    assert_eq!(row["tolerance"]["relative"], 0.01);
    assert_eq!(json["checks"][0]["rows"][2]["ours"]["seeds"], 3);
}
