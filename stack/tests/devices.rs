//! What is tried with devices and drivers, most of it against the kernel in network namespaces.
#![cfg(feature = "device")]

#[path = "live/bytes.rs"]
mod bytes;
#[path = "live/cable.rs"]
mod cable;
#[path = "live/cell.rs"]
mod cell;
#[path = "live/child.rs"]
mod child;
#[path = "live/judge.rs"]
mod judge;
#[path = "live/kernel.rs"]
mod kernel;
mod live;
#[path = "live/long_path.rs"]
mod long_path;
#[path = "live/netns.rs"]
mod netns;
#[path = "live/transfer.rs"]
mod transfer;
#[path = "live/verdict.rs"]
mod verdict;
#[path = "live/wire.rs"]
mod wire;

mod live_flood;
mod live_matrix;
mod live_metrics;
mod live_mtu;
mod live_reordering;
mod live_slow_start;
mod live_tap;
mod live_tokio;
mod live_xdp;
mod poll_driver;
mod tokio_driver;
