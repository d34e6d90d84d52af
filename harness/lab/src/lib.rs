//! The TCP on real wires of the kernel: a lab of network namespaces, and servers and clients in
//! it on the tokio driver.
//!
//! [`lab`] makes and removes the lab, [`host`] puts one of our hosts into it. [`serve`],
//! [`http`], [`transfer`], [`iperf`] and [`incast`] are what runs there.

#![cfg(target_os = "linux")]

pub mod bulk;
pub mod burst;
pub mod calibrate;
pub mod capture;
mod counters;
mod crowd;
mod error;
mod facing;
pub mod host;
pub mod http;
pub mod incast;
pub mod iperf;
pub mod lab;
pub mod listen;
pub mod machine;
pub mod marked;
pub mod meter;
mod netlink;
#[doc(hidden)]
pub mod netns;
mod pair;
mod rack;
pub mod refusing;
mod round;
pub mod segmenting;
pub mod serve;
mod shaper;
pub mod shaping;
mod sockets;
pub mod stall;
pub mod tails;
pub mod transfer;
pub mod writes;

pub use error::LiveError;

use narrows_experiment::file::Loaded;
use narrows_experiment::registry::Registry;
use narrows_experiment::run::RunOutcome;
use narrows_experiment::scenario::RunContext;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often it is looked whether Ctrl-C was pressed.
const LOOK: Duration = Duration::from_millis(20);

/// Has this thread wait.
#[allow(
    clippy::disallowed_methods,
    reason = "what is measured here runs in real time"
)]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// What a thread gave, or its panic.
fn joined<T>(thread: std::thread::Result<T>) -> T {
    thread.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Runs the experiment of a file's text, which simulates what `name` is.
fn simulate(name: &str, text: &str) -> Result<RunOutcome, LiveError> {
    let failed = |why: String| LiveError::Invalid(format!("no such {name}: {why}"));
    let registry = Registry::default();
    let loaded = Loaded::parse(name, text, &registry).map_err(|e| failed(e.to_string()))?;
    let ran = loaded.experiment.run(&registry, RunContext::default());
    ran.map_err(|e| failed(e.to_string()))
}

/// Until `cancel` is set.
pub async fn cancelled(cancel: &AtomicBool) {
    while !cancel.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK).await;
    }
}

/// A runtime for everything here: one thread, on which the stack's task and those of its users
/// take turns.
///
/// # Errors
/// When there are no more file descriptors.
pub fn runtime() -> Result<tokio::runtime::Runtime, LiveError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| LiveError::io("start the runtime", e))
}
