//! One stream and round trips against the Linux kernel: this TCP over TAP and AF_XDP, beside
//! smoltcp, a toy that shows what the device can do, and two kernels over a veth.
//!
//! ```text
//! cargo bench -p narrows-benches --bench live -- [WORD...] [--rounds N] [--seconds S]
//!     [--buffer BYTES] [--cores OURS,KERNEL] [--congestion NAME] [--json FILE]
//! ```
//!
//! Words choose among the rows: one is measured if its line holds them all. Takes root and
//! `/dev/net/tun`; without, it says so and succeeds. Every round measures every row, so that a
//! busy minute strikes all; the table has the best round of each, and the median.

#[cfg(target_os = "linux")]
mod cpu;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod lab;
#[cfg(target_os = "linux")]
mod measure;
#[cfg(target_os = "linux")]
mod ours;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod smol;
#[cfg(target_os = "linux")]
mod toy;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    run::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("SKIPPED, it takes Linux");
}
