//! **narrows**: a userspace TCP with a sans-I/O core.

#![deny(unsafe_code)]

pub mod buffer;
pub mod config;
pub mod conn;
pub mod endpoint;
pub mod recovery;
pub mod rng;
pub mod siphash;
pub mod trace;
pub mod wire;

pub use narrows_congestion as congestion;
pub use narrows_congestion::{ByteCount, Duration, Instant, Rate};
