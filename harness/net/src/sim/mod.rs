//! The discrete-event core: virtual time, event order, random streams, and the world that
//! drives hosts over a network.
//!
//! Nothing here knows what a packet holds. Given the same seed and the same calls the core
//! does the same things in the same order, bit for bit: there is no clock, no thread, no
//! hash map and no floating point in it.

mod ahead;
pub mod blaster;
pub mod host;
pub(crate) mod numbered;
pub mod queue;
pub mod rng;
pub mod slab;
mod slot;
pub mod tap;
pub mod time;
pub mod timers;
pub mod world;

#[cfg(test)]
mod tests;

pub use host::Host;
pub use rng::{Component, Stream};
pub use tap::{NoTap, PauseEvent, PauseSignal, Tap, TapEvent};
pub use time::SimTime;
pub use world::{Halt, Limits, World};
