//! The report: one HTML page that needs nothing from elsewhere.

use super::chart::Theme;
use super::chart::ink::escape;
use super::plot::{self, Quantity};
use super::records::{PointRecord, SweepRecord};
use super::story::{MOST_NAMED, Story, shortened};
use super::summary::Summary;
use super::table::{count, mbps, time};
use narrows_experiment::scenario::SweepSpec;
use narrows_experiment::scenario::spec::{IncastSpec, QueueLimit, Size};
use std::fmt::Write;

const STYLE: &str = include_str!("../assets/report.css");
const SCRIPT: &str = include_str!("../assets/report.js");

/// Begin a page: head, heading, and the story in a box.
pub fn begin(o: &mut String, heading: &str, lead: &str, story: &[String]) {
    let _ = write!(
        o,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"narrows {version}\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <title>{heading} - narrows</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{heading}</h1>\n<p class=\"lead\">{lead}</p>\n<section class=\"story\">\n",
        version = narrows_experiment::version::text(),
        heading = escape(heading),
        lead = escape(lead),
    );
    for sentence in story {
        let _ = writeln!(o, "<p>{}</p>", escape(sentence));
    }
    let _ = writeln!(o, "</section>");
}

/// How to have the page again.
pub fn again(o: &mut String, command: &str) {
    let _ = write!(
        o,
        "<h2>Again</h2>\n<p>This page was made by narrows {version} with</p>\n\
         <pre><code>{command}</code></pre>\n",
        version = narrows_experiment::version::text(),
        command = escape(command),
    );
}

/// What the plots of a page do.
#[derive(Clone, Copy, Debug)]
pub enum Plots<'a> {
    /// Nothing: the page has no script.
    Stand,
    /// They hide lines whose key is clicked.
    Hide,
    /// They tell values, which are in this JSON, too.
    Tell(&'a str),
}

/// End a page.
pub fn end(o: &mut String, plots: Plots<'_>) {
    let _ = writeln!(o, "</main>");
    if let Plots::Tell(data) = plots {
        let _ = writeln!(
            o,
            "<script type=\"application/json\" id=\"data\">{data}</script>"
        );
    }
    if !matches!(plots, Plots::Stand) {
        let _ = writeln!(o, "<script>\n{SCRIPT}</script>");
    }
    let _ = write!(o, "</body>\n</html>\n");
}

/// The page for `summary`. `record` gives command and settings.
pub fn page(sweep: &SweepSpec, summary: &Summary, story: &Story, record: &SweepRecord) -> String {
    let mut out = String::new();
    let o = &mut out;
    begin(o, "TCP incast", &lead(sweep), &story.sentences);
    let goodput = plot::chart(sweep, summary, Quantity::Goodput).svg(Theme::Page);
    let times = plot::chart(sweep, summary, Quantity::BlockTime).svg(Theme::Page);
    let note = if summary.repetitions > 1 {
        format!(
            "Mean of {} runs; bars are 95 % confidence intervals (Student's t). ",
            summary.repetitions
        )
    } else {
        "One run for each point: one incast can mislead by a factor of three; \
         <code>--repetitions</code> gives confidence intervals. "
            .to_owned()
    };
    let _ = write!(
        o,
        "<h2>Goodput</h2>\n<figure data-value=\"goodput\">\n{goodput}\
         <figcaption>{note}<span class=\"hint\">Point at the plot for values, click a key to hide \
         its lines.</span></figcaption>\n</figure>\n\
         <h2>Block time</h2>\n<figure data-value=\"median\">\n{times}\
         <figcaption>Median over all blocks, logarithmic.</figcaption>\n</figure>\n\
         <h2>Numbers</h2>\n"
    );
    numbers(o, summary, story);
    let _ = write!(o, "<h2>Settings</h2>\n<table class=\"settings\">\n");
    for (name, value) in &record.settings {
        let (name, value) = (escape(name), escape(value));
        let _ = writeln!(o, "<tr><th scope=\"row\">{name}</th><td>{value}</td></tr>");
    }
    let _ = write!(o, "</table>\n<h2>Names</h2>\n<table class=\"settings\">\n");
    for (name, what) in &record.names {
        let (name, what) = (escape(name), escape(what));
        let _ = writeln!(o, "<tr><th scope=\"row\">{name}</th><td>{what}</td></tr>");
    }
    let _ = writeln!(o, "</table>");
    again(o, &record.command);
    seeds(o, record);
    let _ = writeln!(
        o,
        "<p>Collapse is goodput, leaving out the slowest tenth of the blocks, below half of the best that the same variant reaches without drops \
         and timeouts. Timeouts, drops and marks are for a whole run (mean over the \
         repetitions); median and p99 are of the blocks of all repetitions. Same version, \
         command and seed: same numbers.</p>"
    );
    end(o, Plots::Tell(&script_data(summary, &record.points)));
    out
}

fn lead(sweep: &SweepSpec) -> String {
    let buffer = each(sweep, |spec| match spec.net.shared_buffer {
        Some(shared) if QueueLimit::Bytes(shared.size) == spec.net.port_buffer => {
            format!("{} that all ports share", Size(shared.size))
        }
        Some(shared) => {
            let (own, all) = (spec.net.port_buffer, Size(shared.size));
            format!("{own} out of {all} that all ports share")
        }
        None => spec.net.port_buffer.to_string(),
    });
    let rate = each(sweep, |spec| spec.net.link_rate.to_string());
    format!(
        "A client reads blocks striped over many servers, all at once, through one switch port \
         with a buffer of {buffer}, over links of {rate}."
    )
}

/// Each value that the runs of `sweep` have, in the order of the sweep: `32KiB, 64KiB or 1MiB`.
pub fn each(sweep: &SweepSpec, value: impl Fn(&IncastSpec) -> String) -> String {
    let mut values: Vec<String> = Vec::new();
    for variant in sweep.variants() {
        let value = value(&sweep.variant_spec(&variant));
        if !values.contains(&value) {
            values.push(value);
        }
    }
    shortened(&values, MOST_NAMED, "or", "others")
}

fn numbers(o: &mut String, summary: &Summary, story: &Story) {
    let goodput = if summary.repetitions > 1 {
        "Mb/s (95 % CI)"
    } else {
        "Mb/s"
    };
    let _ = write!(
        o,
        "<div class=\"scroll\"><table class=\"numbers\">\n<thead><tr><th>servers</th>\
         <th>goodput, {goodput}</th><th>of link</th><th>timeouts</th><th>drops</th><th>marks</th>\
         <th>resent</th><th>longest queue</th><th>median</th><th>p99</th></tr></thead>\n"
    );
    for (v, onset) in summary.variants.iter().zip(&story.onset) {
        let label = escape(&v.variant.label);
        let _ = write!(
            o,
            "<tbody>\n<tr class=\"variant\"><th colspan=\"10\" scope=\"rowgroup\">{label}</th></tr>\n"
        );
        for (i, p) in v.points.iter().enumerate() {
            let class = if *onset == Some(i) {
                " class=\"onset\" title=\"collapse\""
            } else {
                ""
            };
            let ci = p
                .goodput
                .ci95
                .map_or(String::new(), |c| format!(" ± {}", mbps(c)));
            let _ = writeln!(
                o,
                "<tr{class}><td>{}</td><td>{}{ci}</td><td>{:.0} %</td><td>{}</td><td>{}</td>\
                 <td>{}</td><td>{:.1} %</td><td>{} p</td><td>{}</td><td>{}</td></tr>",
                p.servers,
                mbps(p.goodput.mean),
                p.share * 100.0,
                count(p.timeouts),
                count(p.drops),
                count(p.marks),
                p.retransmitted * 100.0,
                p.max_queue,
                time(p.block_median),
                time(p.block_p99),
            );
        }
        let _ = writeln!(o, "</tbody>");
    }
    let _ = writeln!(o, "</table></div>");
}

fn seeds(o: &mut String, record: &SweepRecord) {
    let mut seeds: Vec<(u32, u64)> = record.runs.iter().map(|r| (r.repetition, r.seed)).collect();
    seeds.sort_unstable();
    seeds.dedup();
    if seeds.len() < 2 {
        return;
    }
    let list: Vec<String> = seeds.iter().map(|(_, s)| s.to_string()).collect();
    let _ = writeln!(
        o,
        "<p>Seeds of the repetitions (any of them as <code>--seed</code> with \
         <code>--repetitions 1</code> gives its runs again): {}.</p>",
        list.join(", ")
    );
}

/// JSON that cannot end the script element it stands in.
fn script_data(summary: &Summary, points: &[PointRecord]) -> String {
    let variants: Vec<&str> = summary
        .variants
        .iter()
        .map(|v| v.variant.label.as_str())
        .collect();
    let data = serde_json::json!({ "variants": variants, "points": points });
    data.to_string().replace('<', "\\u003c")
}
