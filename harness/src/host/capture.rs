//! Writes what a run sends as a capture file.

use super::SimPacket;
use crate::sim::tap::{Tap, TapEvent};
use crate::sim::time::SimTime;
use std::io::{self, Write};

/// A tap that writes pcapng; placeholder body until the writer is in.
pub struct Capture<'a> {
    out: &'a mut (dyn Write + Send),
}

impl<'a> Capture<'a> {
    /// Begin a capture.
    ///
    /// # Errors
    /// When the header cannot be written.
    pub fn new(out: &'a mut (dyn Write + Send)) -> io::Result<Self> {
        Ok(Self { out })
    }

    /// Flush.
    ///
    /// # Errors
    /// The first error that occurred while writing.
    pub fn finish(self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Tap<SimPacket> for Capture<'_> {
    fn event(&mut self, _at: SimTime, _event: TapEvent, _packet: &SimPacket) {}
}
