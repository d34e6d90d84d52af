//! The table for terminals: at most 100 columns wide, or 80 where there are no more.

use super::story::Story;
use super::summary::{Point, Summary};
use narrows::Duration;
use narrows_experiment::stats::Estimate;
use std::fmt::Write;

/// Whether escape sequences may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// A terminal reads this.
    Ansi,
    /// A file or a pipe does, or the user said no.
    Plain,
}

impl Colour {
    /// `text` with the escape sequence of `code` around it, where one may be.
    pub fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Self::Ansi if !text.trim().is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}

/// Code of [`Colour::wrap`] for bold text.
pub const BOLD: &str = "1";
/// For dim text.
pub const DIM: &str = "2";
/// For red.
pub const RED: &str = "31";
/// For green.
pub const GREEN: &str = "32";
/// For yellow.
pub const YELLOW: &str = "33";

/// Below so many columns the table stands closer.
const ROOMY: usize = 100;

/// One row for each point, grouped by variant; fits `columns` from 80 on.
pub fn details(summary: &Summary, story: &Story, colour: Colour, columns: usize) -> String {
    let mut out = String::new();
    let (goodput, widths) = match (summary.repetitions > 1, columns >= ROOMY) {
        (true, true) => ("goodput Mb/s (95% CI)", [7, 23, 8, 10, 10, 10, 9, 9]),
        (false, true) => ("goodput Mb/s", [7, 14, 8, 10, 10, 10, 9, 9]),
        (true, false) => ("Mb/s (95% CI)", [7, 14, 6, 9, 8, 8, 7, 7]),
        (false, false) => ("goodput Mb/s", [7, 13, 6, 9, 8, 8, 7, 7]),
    };
    let head = [
        "servers", goodput, "link", "timeouts", "drops", "marks", "median", "p99",
    ];
    let head: String = head
        .iter()
        .zip(widths)
        .map(|(text, width)| format!("{text:>width$}"))
        .collect();
    for (v, onset) in summary.variants.iter().zip(&story.onset) {
        if v.points.is_empty() {
            continue;
        }
        let _ = writeln!(out, "{}", colour.wrap(BOLD, &v.variant.label));
        let _ = writeln!(out, "{}", colour.wrap(DIM, &head));
        for (i, p) in v.points.iter().enumerate() {
            let cells = [
                p.servers.to_string(),
                goodput_cell(&p.goodput),
                format!("{:.0} %", p.share * 100.0),
                count(p.timeouts),
                count(p.drops),
                count(p.marks),
                time(p.block_median),
                time(p.block_p99),
            ];
            let mut row = String::new();
            for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
                let cell = format!("{cell:>width$}");
                // The link's share.
                row += &if column == 2 {
                    colour.wrap(shade(p.share), &cell)
                } else {
                    cell
                };
            }
            row += flag(p, *onset == Some(i));
            let _ = writeln!(out, "{}", row.trim_end());
        }
        out.push('\n');
    }
    out
}

/// Goodput of every variant at every number of servers, for a look at the whole. `None` if it
/// would be wider than `columns` or has but one row or column.
pub fn matrix(summary: &Summary, colour: Colour, columns: usize) -> Option<String> {
    let mut servers: Vec<u32> = summary
        .variants
        .iter()
        .flat_map(|v| v.points.iter().map(|p| p.servers))
        .collect();
    servers.sort_unstable();
    servers.dedup();
    let label = summary
        .variants
        .iter()
        .map(|v| v.variant.label.chars().count())
        .max()?
        .max(12);
    let short = summary
        .variants
        .iter()
        .flat_map(|v| &v.points)
        .all(|p| mbps(p.goodput.mean).len() < 6 && p.servers < 1_000);
    let width = if columns < ROOMY && short { 6 } else { 7 };
    let whole = label + servers.len() * width;
    if servers.len() < 2 || summary.variants.len() < 2 || whole > columns.min(ROOMY) {
        return None;
    }
    let mut out = String::new();
    let mut head = format!("{:<label$}", "goodput Mb/s");
    for n in &servers {
        let _ = write!(head, "{:>width$}", format!("N={n}"));
    }
    let _ = writeln!(out, "{}", colour.wrap(DIM, &head));
    for v in &summary.variants {
        let _ = write!(out, "{:<label$}", v.variant.label);
        for n in &servers {
            let cell = match v.points.iter().find(|p| p.servers == *n) {
                Some(p) => {
                    colour.wrap(shade(p.share), &format!("{:>width$}", mbps(p.goodput.mean)))
                }
                None => format!("{:>width$}", "-"),
            };
            out.push_str(&cell);
        }
        out.push('\n');
    }
    Some(out)
}

fn flag(p: &Point, onset: bool) -> &'static str {
    match (onset, p.incomplete > 0) {
        (true, true) => " collapse,cut",
        (true, false) => "  collapse",
        (false, true) => "  cut",
        (false, false) => "",
    }
}

fn shade(share: f64) -> &'static str {
    match share {
        s if s < 0.5 => RED,
        s if s < 0.8 => YELLOW,
        _ => GREEN,
    }
}

/// Goodput in Mb/s with three digits or more, as in `12.3`, `130`, `9412`.
pub(super) fn mbps(bits_per_sec: f64) -> String {
    let m = bits_per_sec / 1e6;
    match m {
        m if m >= 99.95 => format!("{m:.0}"),
        m if m >= 9.995 => format!("{m:.1}"),
        m => format!("{m:.2}"),
    }
}

fn goodput_cell(e: &Estimate) -> String {
    match e.ci95 {
        Some(ci) => format!("{} ± {}", mbps(e.mean), mbps(ci)),
        None => mbps(e.mean),
    }
}

/// A mean count: whole where it is whole or large, `12.3M` where it is very large.
pub(super) fn count(x: f64) -> String {
    match x {
        x if x >= 1e7 => format!("{:.1}M", x / 1e6),
        x if x >= 100.0 || x.fract() == 0.0 => format!("{x:.0}"),
        x => format!("{x:.1}"),
    }
}

/// A time with three digits: `2.24ms`, `201ms`.
pub(super) fn time(d: Option<Duration>) -> String {
    let Some(d) = d else { return "-".to_owned() };
    let ns = d.as_nanos() as f64;
    let (value, unit) = match d.as_nanos() {
        1_000_000_000.. => (ns / 1e9, "s"),
        1_000_000.. => (ns / 1e6, "ms"),
        1_000.. => (ns / 1e3, "us"),
        _ => (ns, "ns"),
    };
    match value {
        v if v >= 99.95 => format!("{v:.0}{unit}"),
        v if v >= 9.995 => format!("{v:.1}{unit}"),
        v => format!("{v:.2}{unit}"),
    }
}
