//! How often explanations of a grid of simulated runs are right, as a page:
//! `cargo run --release -p narrows-explain --features simulate --example score -- [CASES]`. With `grid` for
//! the number nothing that is held out is run: rules are made without it. With `spent` what was held out before
//! is in its place.

use narrows_experiment::registry::Registry;
use narrows_explain::simulated::{grid, held_out, page, score, spent};
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), String> {
    let asked = std::env::args().nth(1);
    let wanted = asked.as_ref().and_then(|n| n.parse().ok());
    let run = |cases: &[_]| {
        let cancel = AtomicBool::new(false);
        score(cases, &Registry::default(), 2, &cancel, |_| {})
    };
    let cases = match asked.as_deref() {
        Some("grid") => Vec::new(),
        Some("spent") => spent(None),
        _ => held_out(wanted),
    };
    let (score, held_out) = (run(&grid(wanted))?, run(&cases)?);
    print!("{}", page(&score, &held_out, wanted));
    Ok(())
}
