//! The gaps of a case of the grid, or of what was held out once, as they were and as they were found, by the
//! begin of its name; or all that was taken for something else, or not found:
//!
//! ```sh
//! cargo run -p narrows-explain --features simulate --example truth -- "incast 6 linux sack 64KiB 32kB 1"
//! cargo run -p narrows-explain --features simulate --example truth -- grid 500 > confused.tsv
//! cargo run -p narrows-explain --features simulate --example truth -- spent 500 > confused.tsv
//! ```
//!
//! The number is how many cases to look at, of all, evenly spread. What is held out now nobody looks at. Each
//! line has the place of the capture, what was true, what was found, the case, and both gaps, with tabs between
//! them: `grep -P` and `cut` do the rest.

use narrows::Duration;
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::parallel;
use narrows_explain::score::{Found, meant};
use narrows_explain::simulated::{Case, Observed, PLACES, grid, observed, spent};
use narrows_explain::truth::TrueGap;
use narrows_explain::{Cause, Vantage};
use std::collections::HashSet;

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let cases = match args.first().map(String::as_str) {
        Some("grid") => grid,
        Some("spent") => spent,
        Some(name) => {
            let mut all = grid(None).into_iter().chain(spent(None));
            let case = all.find(|case| case.name.starts_with(name));
            let case = case.ok_or("no such case")?;
            print(&observed(&case, &Registry::default())?);
            return Ok(());
        }
        None => return Err("which case, grid or spent?".to_owned()),
    };
    let wanted = args
        .get(1)
        .map(|n| n.parse().map_err(|_| "how many cases?"));
    let cases = cases(wanted.transpose()?);
    parallel::each(cases.len(), 2, |n| match confusions(&cases[n]) {
        Ok(lines) => print!("{lines}"),
        Err(why) => eprintln!("{why}"),
    });
    Ok(())
}

/// What was taken for something else in a case, or not found.
fn confusions(case: &Case) -> Result<String, String> {
    let observed = observed(case, &Registry::default())?;
    let counted = case.rtt * 5 / 2 + Duration::from_micros(200);
    let mut lines = String::new();
    for place in PLACES {
        for (t, f) in confused(&observed, place, case.rtt / 2) {
            if f.is_none() && t.is_some_and(|t| !t.counts || t.length() <= counted) {
                continue;
            }
            let names = [t.map(|t| t.cause), f.map(|f| f.gap.cause)];
            if names[0] == names[1] {
                continue;
            }
            let [truly, named] = names.map(|cause| cause.map_or("nothing", Cause::name));
            let asked = observed.questions.iter().filter(|question| {
                f.is_some_and(|f| {
                    let gap = &f.gap;
                    let meets = question.answered > gap.start.at && question.asked < gap.end.at;
                    question.ends == f.ends && meets
                })
            });
            let waited = asked.map(|question| format!("question {}", question.waited));
            lines += &format!(
                "{}\t{truly}\t{named}\t{}\t{}\t{}\t{}\n",
                place.name(),
                case.name,
                t.map(true_line).unwrap_or_default(),
                f.map(found_line).unwrap_or_default(),
                waited.collect::<Vec<_>>().join(" ")
            );
        }
    }
    Ok(lines)
}

/// What was found with what was true beside it, and what was true and not found.
fn confused(
    observed: &Observed,
    place: Vantage,
    slack: Duration,
) -> Vec<(Option<&TrueGap>, Option<&Found>)> {
    let truth = &observed.truth;
    let meant = meant(place, truth, &observed.found, slack);
    let known: HashSet<usize> = meant.iter().filter_map(|(_, n)| *n).collect();
    let found = meant.into_iter();
    let found = found.map(|(f, n)| (n.map(|n| &truth[n]), Some(f)));
    let missed = truth.iter().enumerate().filter(|(n, _)| !known.contains(n));
    found.chain(missed.map(|(_, t)| (Some(t), None))).collect()
}

fn true_line(gap: &TrueGap) -> String {
    format!(
        "true  {} -> {} from {} until {} us: {} {}",
        gap.ends[0],
        gap.ends[1],
        gap.start.as_nanos() / 1_000,
        gap.end.as_nanos() / 1_000,
        gap.length(),
        gap.cause.name()
    )
}

fn found_line(found: &Found) -> String {
    let gap = &found.gap;
    format!(
        "found {} -> {} from {} until {} us: {} {} ({}) at the {}: {}",
        found.ends[0],
        found.ends[1],
        gap.start.at.as_nanos() / 1_000,
        gap.end.at.as_nanos() / 1_000,
        gap.length(),
        gap.cause.name(),
        gap.confidence,
        found.place.name(),
        gap.because()
    )
}

fn print(observed: &Observed) {
    let truth = observed.truth.iter();
    let mut lines: Vec<(u64, String)> = truth
        .map(|gap| (gap.start.as_nanos(), true_line(gap)))
        .collect();
    let found = observed.found.iter();
    lines.extend(found.map(|found| (found.gap.start.at.as_nanos(), found_line(found))));
    lines.sort();
    for (_, line) in lines {
        println!("{line}");
    }
}
