//! What a run gets from outside.

use crate::host::capture::Side;
use crate::net::packet::HostId;
use narrows::ByteCount;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a run gets from outside besides its spec.
///
/// None may change a result: a run that was not cancelled gives the same numbers with and
/// without a capture or a trace.
#[derive(Default)]
pub struct RunContext<'a> {
    /// Set when the user wants the run to stop; look at it every few thousand events.
    pub cancel: Option<&'a AtomicBool>,
    /// Where to write a packet capture (pcapng), if one was asked for. If it cannot be written, the
    /// run goes on without it, and its result says so ([`Unrecorded`](crate::ended::Unrecorded)).
    pub capture: Option<&'a mut (dyn io::Write + Send)>,
    /// Whose link the capture is taken on.
    pub capture_at: HostId,
    /// At which end of it.
    pub capture_side: Side,
    /// How many bytes of each packet the capture keeps; all if `None`.
    pub snap_length: Option<ByteCount>,
    /// Where to write what the connections decide ([`crate::host::trace`]), if it was asked for;
    /// for its errors the same holds.
    pub trace: Option<&'a mut (dyn io::Write + Send)>,
    /// Told now and then, every few thousand events, how much of the run is done, of how much:
    /// bytes or nanoseconds, as the run has it.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
}

impl RunContext<'_> {
    /// Whether the run should stop now, with [`RunError::Cancelled`](crate::error::RunError::Cancelled).
    pub fn cancelled(&self) -> bool {
        self.cancel.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Tell who watches that `done` of `all` is done.
    pub fn report(&self, done: u64, all: u64) {
        if let Some(progress) = self.progress {
            progress(done, all);
        }
    }
}

impl fmt::Debug for RunContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext")
            .field("cancelled", &self.cancelled())
            .field("capture", &self.capture.is_some())
            .field("trace", &self.trace.is_some())
            .finish()
    }
}
