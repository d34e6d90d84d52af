//! How often explanations of a grid of simulated runs are right:
//! `cargo run --release -p narrows-explain --features simulate --example score -- [CASES]`.

use narrows_experiment::registry::Registry;
use narrows_explain::simulated::{grid, score};
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
    println!("{} runs", score.runs);
    for (what, rows) in [("true", &score.truth), ("found", &score.found)] {
        for ((place, cause), row) in rows {
            let row: Vec<_> = row
                .iter()
                .map(|(c, n)| format!("{}: {n}", c.map_or("nothing", |c| c.name())))
                .collect();
            println!(
                "{what} {} {}: {}",
                place.name(),
                cause.name(),
                row.join(", ")
            );
        }
    }
    for ((place, confidence), (all, right)) in &score.confidence {
        println!("{} {confidence}: {right} of {all}", place.name());
    }
    Ok(())
}
