//! What a measurement takes of the processor.

use std::time::Instant;

/// Nanoseconds since it was started: those that the process has run where Linux tells it, else those
/// on the wall.
#[derive(Debug)]
pub struct Clock {
    wall: Instant,
    processor: Option<u64>,
}

impl Clock {
    /// Starts.
    #[allow(clippy::disallowed_methods)] // To measure is to read a clock.
    pub fn start() -> Self {
        Self {
            wall: Instant::now(),
            processor: processor_nanos(),
        }
    }

    /// Since then.
    pub fn nanos(&self) -> f64 {
        match (self.processor, processor_nanos()) {
            (Some(from), Some(to)) => (to - from) as f64,
            _ => self.wall.elapsed().as_nanos() as f64,
        }
    }
}

/// Nanoseconds that this process has run.
fn processor_nanos() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}
