//! Refuses frames by a rule, as a device does whose own buffers are full though its descriptor is
//! writable.

use super::{Device, DeviceStats, Refused};
use crate::interface::{Capabilities, RxFrame, TxFrame};
use narrows_congestion::Instant;
use std::io;
use std::os::fd::BorrowedFd;

/// A device around another.
#[derive(Debug)]
pub struct Refusing<D, F> {
    device: D,
    refuses: F,
    refused: u64,
}

impl<D: Device, F: FnMut(Instant, usize) -> bool + Send> Refusing<D, F> {
    /// `refuses` is asked at each try, with the length of the frame in bytes.
    pub const fn new(device: D, refuses: F) -> Self {
        Self {
            device,
            refuses,
            refused: 0,
        }
    }
}

impl<D: Device, F: FnMut(Instant, usize) -> bool + Send> Device for Refusing<D, F> {
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
        if (self.refuses)(now, frame.len()) {
            self.refused += 1;
            return Err(Refused::Full);
        }
        self.device.transmit(now, frame)
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
