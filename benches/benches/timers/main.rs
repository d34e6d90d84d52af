//! How late retransmission timeouts are under each driver.
//!
//! ```text
//! cargo bench -p narrows-benches --bench timers -- [WORD...] [--samples N] [--rto MICROSECONDS]
//! ```
//!
//! A connection over a loopback cable whose data is thrown away, so that the same segment leaves
//! again and again at an RTO that neither adapts nor backs off. The lateness is the time between
//! two of these, less the RTO: what the timer, the wake-up and the way out took.

#[cfg(target_os = "linux")]
mod run;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    run::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("SKIPPED, it takes Linux");
}
