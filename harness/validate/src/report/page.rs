//! The findings as one HTML page: every table, and every figure with ours over the reference.

use super::{Tally, ours, remark};
use crate::{CheckReport, Verdict};
use narrows_report::chart::Theme;
use narrows_report::chart::escape;
use narrows_report::html;
use std::fmt::Write;

/// The page for `reports`; `command` made it.
pub fn page(reports: &[CheckReport], tally: &Tally, command: &str) -> String {
    let mut out = String::new();
    let o = &mut out;
    let lead = "What narrows gives beside what others measured, published or derived. Figures: \
                ours filled and full, the reference hollow and broken.";
    html::begin(o, "Validation", lead, &tally.sentences());
    let _ = write!(o, "<h2>Checks</h2>\n<table class=\"settings\">\n");
    for report in reports {
        let mine = Tally::of(std::slice::from_ref(report), 1);
        let state = match (mine.holds(), mine.explained) {
            (false, _) => "<span class=\"differs\">differs</span>",
            (true, 0) => "agrees",
            (true, _) => "explained",
        };
        let name = escape(report.check.name);
        let _ = writeln!(
            o,
            "<tr><th scope=\"row\"><a href=\"#{name}\">{name}</a></th><td>{}</td><td>{state}</td></tr>",
            escape(report.check.what)
        );
    }
    let _ = writeln!(o, "</table>");
    for report in reports {
        check(o, report);
    }
    html::again(o, command);
    html::end(o, html::Plots::Stand);
    out
}

fn check(o: &mut String, report: &CheckReport) {
    let name = escape(report.check.name);
    let _ = write!(
        o,
        "<h2 id=\"{name}\">{name}</h2>\n<p>{}</p>\n",
        escape(report.check.what)
    );
    if let Some(e) = &report.failure {
        let _ = writeln!(
            o,
            "<p class=\"differs\">Ended early: {}</p>",
            escape(&e.to_string())
        );
    }
    if !report.rows.is_empty() {
        let _ = write!(
            o,
            "<div class=\"scroll\"><table class=\"numbers checks\">\n<thead><tr><th>what</th>\
             <th>reference</th><th>ours</th><th>tolerance</th><th>verdict</th><th>s</th></tr>\
             </thead>\n<tbody>\n"
        );
    }
    let mut source = None;
    for row in &report.rows {
        if source != Some(&row.source) {
            source = Some(&row.source);
            let _ = writeln!(
                o,
                "<tr class=\"source\"><th colspan=\"6\">{}</th></tr>",
                escape(&row.source)
            );
        }
        let class = match row.verdict() {
            Verdict::Agrees => "agrees",
            Verdict::Explained => "explained",
            Verdict::Differs => "differs",
            Verdict::Shown => "shown",
            Verdict::Missing => "missing",
        };
        let mut small = remark(row).map_or(String::new(), |r| escape(&r));
        if let (Verdict::Explained, Some(anchor)) = (row.verdict(), row.explained) {
            let gap = if small.is_empty() { "" } else { "; " };
            let _ = write!(small, "{gap}why: docs/validation, {}", escape(anchor));
        }
        if !small.is_empty() {
            small = format!("<br><small>{small}</small>");
        }
        let _ = writeln!(
            o,
            "<tr class=\"{class}\"><td>{}{small}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td class=\"verdict\">{}</td><td>{:.1}</td></tr>",
            escape(&row.what),
            escape(&row.reference.to_string()),
            escape(&ours(row)),
            escape(&row.tolerance.to_string()),
            row.verdict().name(),
            row.millis as f64 / 1e3,
        );
    }
    if !report.rows.is_empty() {
        let _ = writeln!(o, "</tbody></table></div>");
    }
    for figure in &report.figures {
        let _ = write!(
            o,
            "<figure class=\"paper\">\n{}<figcaption>{}</figcaption>\n</figure>\n",
            figure.chart.svg(Theme::Page),
            escape(&figure.caption)
        );
    }
}
