//! The gaps of one case of the grid as they were and as they were found:
//! `cargo run -p narrows-explain --features simulate --example truth -- "incast 6 linux sack 64KiB 32kB 1"`.

use narrows_experiment::registry::Registry;
use narrows_explain::simulated::{grid, observed};

fn main() -> Result<(), String> {
    let name = std::env::args().nth(1).ok_or("which case?")?;
    let all = grid(None);
    let case = all
        .iter()
        .find(|case| case.name.starts_with(&name))
        .ok_or("no such case")?;
    let observed = observed(case, &Registry::default())?;
    let mut lines: Vec<(u64, String)> = Vec::new();
    for gap in &observed.truth {
        let line = format!(
            "true  {} -> {} until {} us: {} {}",
            gap.ends[0],
            gap.ends[1],
            gap.end.as_nanos() / 1_000,
            gap.length(),
            gap.cause.name()
        );
        lines.push((gap.start.as_nanos(), line));
    }
    for found in &observed.found {
        let gap = &found.gap;
        let line = format!(
            "found {} -> {} until {} us: {} {} ({}) at the {}: {}",
            found.ends[0],
            found.ends[1],
            gap.end.at.as_nanos() / 1_000,
            gap.length(),
            gap.cause.name(),
            gap.confidence,
            found.place.name(),
            gap.because()
        );
        lines.push((gap.start.at.as_nanos(), line));
    }
    lines.sort();
    for (at, line) in lines {
        println!("{:>10} us {line}", at / 1_000);
    }
    Ok(())
}
