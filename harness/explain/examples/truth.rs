//! The gaps of a case of the grid as they were and as they were found, by name; or examples of a
//! confusion, by place, by what was true and by what was found:
//!
//! ```sh
//! cargo run -p narrows-explain --features simulate --example truth -- "incast 6 linux sack 64KiB 32kB 1"
//! cargo run -p narrows-explain --features simulate --example truth -- sender tail-loss-probe app-wrote-nothing 20
//! cargo run -p narrows-explain --features simulate --example truth -- sender nothing packet-delay 20
//! ```
//!
//! The last word is how many cases to look at, of all, evenly spread.

use narrows::Duration;
use narrows_experiment::registry::Registry;
use narrows_explain::score::{Found, meant};
use narrows_explain::simulated::{Observed, PLACES, grid, observed};
use narrows_explain::truth::TrueGap;
use narrows_explain::{Cause, Vantage};
use std::collections::HashSet;

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let all = grid(None);
    let [place, truth, found, cases] = &args[..] else {
        let name = args.first().ok_or("which case?")?;
        let mut found = all.iter().filter(|case| case.name.starts_with(name));
        let case = found.next().ok_or("no such case")?;
        print(&observed(case, &Registry::default())?);
        return Ok(());
    };
    let cases = cases.parse().map_err(|_| "how many cases?")?;
    let known = PLACES.into_iter().find(|known| known.name() == place);
    let place = known.ok_or("sender, middle or receiver?")?;
    for case in grid(Some(cases)) {
        let observed = observed(&case, &Registry::default())?;
        let (mut shown, mut more) = (0, 0);
        let counted = case.rtt * 5 / 2 + Duration::from_micros(200);
        for (t, f) in confused(&observed, place, case.rtt / 2) {
            if f.is_none() && t.is_some_and(|t| !t.counts || t.length() <= counted) {
                continue;
            }
            let name = |cause: Option<Cause>| cause.map_or("nothing", Cause::name);
            if name(t.map(|t| t.cause)) != truth || name(f.map(|f| f.gap.cause)) != found {
                continue;
            }
            if shown == 3 {
                more += 1;
                continue;
            }
            shown += 1;
            println!("{}", case.name);
            if let Some(t) = t {
                println!("    {}", true_line(t));
            }
            if let Some(f) = f {
                println!("    {}", found_line(f));
            }
        }
        if more > 0 {
            println!("    and {more} more");
        }
    }
    Ok(())
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
