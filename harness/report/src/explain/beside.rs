//! What connections waited for as they know it, beside what captures of several places tell.

use super::numbers::{share, short};
use crate::table::{BOLD, Colour, DIM};
use narrows::Duration;
use narrows::congestion::order::OrderedMap;
use narrows_experiment::results::cell;
use narrows_explain::{Cause, Sum};
use std::collections::BTreeSet;
use std::fmt::Write;

/// By place, "truth" the first: by cause the gaps and the time in them.
pub type Ledgers = Vec<(&'static str, OrderedMap<Cause, Sum>)>;

/// Causes in the order of the time in them, as the first ledger has it, and as the others do.
fn causes(ledgers: &Ledgers) -> Vec<Cause> {
    let all: BTreeSet<Cause> = ledgers
        .iter()
        .flat_map(|(_, l)| l.iter().map(|(cause, _)| *cause))
        .collect();
    let mut all: Vec<Cause> = all.into_iter().collect();
    let time = |cause: &Cause, at: usize| {
        let sum = ledgers.get(at).and_then(|(_, ledger)| ledger.get(cause));
        sum.map_or(Duration::ZERO, |sum| sum.time)
    };
    all.sort_by_key(|cause| std::cmp::Reverse((time(cause, 0), time(cause, 1))));
    all
}

/// A table of `ledgers`, for a terminal.
pub fn beside(label: &str, ledgers: &Ledgers, colour: Colour) -> String {
    let mut out = String::new();
    let title = match label {
        "" => "What the connections waited for",
        label => label,
    };
    let _ = writeln!(out, "{}", colour.wrap(BOLD, title));
    if ledgers.iter().all(|(_, ledger)| ledger.is_empty()) {
        let _ = writeln!(out, "No connection waited for more than its round trips.\n");
        return out;
    }
    let mut head = String::new();
    for (place, _) in ledgers {
        let _ = write!(head, "{place:>27}  ");
    }
    let _ = writeln!(out, "{}", colour.wrap(DIM, &head));
    let mut head = String::new();
    for _ in ledgers {
        let _ = write!(head, "{:>8}{:>12}{:>7}  ", "gaps", "time", "share");
    }
    let _ = writeln!(out, "{}", colour.wrap(DIM, &format!("{head}cause")));
    let alls: Vec<Duration> = ledgers
        .iter()
        .map(|(_, ledger)| {
            ledger
                .iter()
                .fold(Duration::ZERO, |all, (_, sum)| all + sum.time)
        })
        .collect();
    for cause in causes(ledgers) {
        for ((_, ledger), all) in ledgers.iter().zip(&alls) {
            let _ = match ledger.get(&cause) {
                Some(sum) => write!(
                    out,
                    "{:>8}{:>12}{:>5} %  ",
                    sum.count,
                    short(sum.time),
                    share(sum.time, *all)
                ),
                None => write!(out, "{:>8}{:>12}{:>7}  ", "-", "", ""),
            };
        }
        let _ = writeln!(out, "{cause}");
    }
    out.push('\n');
    out
}

/// The same as CSV, a row for each cause of each place; with the header if `headed`.
pub fn beside_csv(label: &str, ledgers: &Ledgers, headed: bool) -> String {
    let mut out = String::new();
    if headed {
        out.push_str("point,place,cause,gaps,time_ns,longest_ns\n");
    }
    for (place, ledger) in ledgers {
        for (cause, sum) in ledger {
            let _ = writeln!(
                out,
                "{},{place},{},{},{},{}",
                cell(label),
                cause.name(),
                sum.count,
                sum.time.as_nanos(),
                sum.longest.as_nanos()
            );
        }
    }
    out
}
