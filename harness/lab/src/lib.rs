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

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often it is looked whether Ctrl-C was pressed.
const LOOK: Duration = Duration::from_millis(20);

/// What a thread gave, or its panic.
fn joined<T>(thread: std::thread::Result<T>) -> T {
    thread.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
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
