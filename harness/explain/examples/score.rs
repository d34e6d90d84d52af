//! How often explanations of a grid of simulated runs are right, as a page:
//! `cargo run --release -p narrows-explain --features simulate --example score -- [CASES]`.

use narrows_experiment::registry::Registry;
use narrows_explain::simulated::{grid, page, score};
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), String> {
    let wanted = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let cases = grid(wanted);
    let score = score(
        &cases,
        &Registry::default(),
        2,
        &AtomicBool::new(false),
        |_| {},
    )?;
    print!("{}", page(&score, wanted));
    Ok(())
}
