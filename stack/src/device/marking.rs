//! Makes interfaces of the kernel's mark: packets that find a queue too long ([`EcnStep`]), and packets
//! that arrive, by a draw ([`EcnDraw`]). A small program that the kernel runs does it, gone with the
//! value that stands for it, or with the process.

mod draw;
mod hook;
mod step;

pub use draw::{Draw, EcnDraw};
pub use hook::MarkingError;
pub use step::{EcnStep, QueueDepth};
