//! Loses or refuses frames by a rule: a way that drops, or a device whose own buffers are full though
//! its descriptor is writable.

use super::{Device, DeviceStats, Refused};
use crate::interface::{Capabilities, RxFrame, TxFrame};
use narrows_congestion::Instant;
use std::io;
use std::os::fd::BorrowedFd;

/// What becomes of a frame that is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It leaves.
    Leaves,
    /// It is lost, and nobody says so.
    Lost,
    /// The device has no room for it.
    Refused,
}

/// A device around another.
#[derive(Debug)]
pub struct Ruled<D, F> {
    device: D,
    rule: F,
    refused: u64,
}

impl<D: Device, F: FnMut(Instant, usize) -> Fate + Send> Ruled<D, F> {
    /// `rule` is asked at each try, with the length of the frame in bytes.
    pub const fn new(device: D, rule: F) -> Self {
        Self {
            device,
            rule,
            refused: 0,
        }
    }
}

impl<D: Device, F: FnMut(Instant, usize) -> Fate + Send> Device for Ruled<D, F> {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }
    fn receive(
        &mut self,
        now: Instant,
        budget: usize,
        sink: &mut dyn FnMut(&RxFrame<'_>),
    ) -> io::Result<usize> {
        self.device.receive(now, budget, sink)
    }
    fn transmit(&mut self, now: Instant, frame: &TxFrame<'_>) -> Result<(), Refused> {
        match (self.rule)(now, frame.len()) {
            Fate::Leaves => self.device.transmit(now, frame),
            Fate::Lost => Ok(()),
            Fate::Refused => {
                self.refused += 1;
                Err(Refused::Full)
            }
        }
    }
    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.device.flush(now)
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.device.poll_timeout()
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.device.fd()
    }
    fn stats(&self) -> DeviceStats {
        let mut stats = self.device.stats();
        stats.refused += self.refused;
        stats
    }
}
