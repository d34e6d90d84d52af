//! What the benches measure: fixed workloads over the public interfaces of the stack and the
//! simulator, shared by the criterion benches and the instruction counts.

pub mod acks;
pub mod clock;
pub mod exchanges;
pub mod fabric;
pub mod idle;
pub mod incast;
pub mod ledger;
pub mod lines;
pub mod parts;
pub mod racks;
pub mod segments;

/// Payload bytes of a full segment with timestamps at an MTU of 1500.
pub const SEGMENT: usize = 1_448;

/// As in the command `narrows`.
#[cfg(target_os = "linux")]
#[global_allocator]
static MEMORY: narrows::device::pages::LargePages = narrows::device::pages::LargePages;
