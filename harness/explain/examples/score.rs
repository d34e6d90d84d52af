//! How often explanations of a grid of simulated runs are right, as a page:
//! `cargo run --release -p narrows-explain --features simulate --example score -- [CASES]`.

use narrows_experiment::registry::Registry;
use narrows_explain::simulated::{grid, held_out, page, score};
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), String> {
    let wanted = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let run = |cases: &[_]| {
        let cancel = AtomicBool::new(false);
        score(cases, &Registry::default(), 2, &cancel, |_| {})
    };
    let (score, held_out) = (run(&grid(wanted))?, run(&held_out(wanted))?);
    print!("{}", page(&score, &held_out, wanted));
    Ok(())
}
