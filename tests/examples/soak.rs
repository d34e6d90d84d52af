//! The long soak: a day of virtual time with a thousand users. Prints a line each virtual hour
//! with the memory of the process, and what came of it.
//!
//! `cargo run --release -p narrows-tests --example soak [HOURS]`

use narrows::Duration;
use narrows_tests::soak::{Soak, run_with};

fn main() {
    let hours = std::env::args().nth(1).map_or(24, |h| {
        h.parse().expect("the argument is a number of hours")
    });
    let soak = Soak {
        time: Duration::from_secs(3_600 * hours),
        users: 1_000,
        pause: Duration::from_secs(60),
        most: 60_000,
        bulk: 3 << 32,
        mss: 1_460,
        loss: 100,
        seed: 1,
    };
    let out = run_with(soak, |hour, out| {
        println!("hour {hour}: {} KiB resident, {out:?}", resident());
    });
    println!("{out:#?}");
}

/// Resident memory in KiB where the system tells it, else 0.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|p| p.parse().ok());
    pages.unwrap_or(0u64) * 4
}
