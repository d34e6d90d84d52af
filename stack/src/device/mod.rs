//! Devices: where frames come from and go to.
//!
//! [`Tap`](tap::Tap) is a kernel interface with a queue for us, [`Xdp`](xdp::Xdp) a queue of an
//! interface that is there, [`Loopback`](loopback::Loopback) one end of a cable inside the
//! process. [`Faulty`](fault::Faulty) and [`Captured`](pcap::Captured) wrap any device, each other
//! among them.
//!
//! [`marking`] is none: it makes interfaces of the kernel's mark. Nor is [`pages`]: memory in large pages;
//! [`packet_socket`] hears the frames of an interface and sends none.
//!
//! With `driver/` this is the only place where the operating system is called.

mod bpf;
mod btf;
mod buffers;
mod error;
pub mod fault;
pub mod loopback;
pub mod marking;
pub mod packet_socket;
pub mod pages;
pub mod pcap;
mod queue;
pub mod rule;
pub(crate) mod sys;
pub mod tap;
pub mod xdp;

pub use buffers::Buffers;
pub use error::InterfaceError;

use crate::interface::{Capabilities, RxFrame, TxFrame};
use narrows_congestion::Instant;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

/// Something that sends and receives frames, without blocking.
///
/// It works in batches and owns its buffers: a frame costs no allocation, and where the device is
/// a ring in shared memory, no copy beyond the one into it.
pub trait Device: Send {
    /// What it carries and can do.
    fn capabilities(&self) -> Capabilities;

    /// Give `sink` the frames that have arrived, `budget` at most; how many. Zero: there is none.
    /// A frame is valid during the call only, but for its [buffer](RxFrame::buffer).
    ///
    /// # Errors
    /// When the device is gone for good.
    fn receive(
        &mut self,
        now: Instant,
        budget: usize,
        sink: &mut dyn FnMut(&RxFrame<'_>),
    ) -> io::Result<usize>;

    /// Send a frame, at the latest with the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// See [`Refused`]: the frame has not left and will not.
    fn transmit(&mut self, now: Instant, frame: &TxFrame<'_>) -> Result<(), Refused>;

    /// The batch is complete.
    ///
    /// # Errors
    /// When the device is gone for good.
    fn flush(&mut self, now: Instant) -> io::Result<()> {
        let _ = now;
        Ok(())
    }

    /// When [`flush`](Self::flush) or [`receive`](Self::receive) would do something by then, though
    /// nothing has arrived.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Readable when frames have arrived; writable when there is room after [`Refused::Full`], or always
    /// where it cannot tell.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Counters.
    fn stats(&self) -> DeviceStats;
}

/// Why a frame was not sent.
#[derive(Debug)]
pub enum Refused {
    /// There is no room (EAGAIN, ENOBUFS, a full ring). If [the descriptor](Device::fd) is writable all
    /// the same, drivers try again after 50 us to 1 ms, or when a frame arrives; each try counts.
    Full,
    /// The interface is down; it may come up again.
    Down,
    /// The device is gone.
    Gone(io::Error),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the device has no room"),
            Self::Down => f.write_str("the interface is down"),
            Self::Gone(e) => write!(f, "the device is gone: {e}"),
        }
    }
}
impl std::error::Error for Refused {}

/// Counters of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceStats {
    /// Frames received.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames refused.
    pub refused: u64,
    /// Received super-frames of several segments.
    pub super_frames_in: u64,
    /// Super-frames sent.
    pub super_frames_out: u64,
    /// Received frames that the device could not make sense of.
    pub bad: u64,
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }
    fn receive(
        &mut self,
        now: Instant,
        budget: usize,
        sink: &mut dyn FnMut(&RxFrame<'_>),
    ) -> io::Result<usize> {
        (**self).receive(now, budget, sink)
    }
    fn transmit(&mut self, now: Instant, frame: &TxFrame<'_>) -> Result<(), Refused> {
        (**self).transmit(now, frame)
    }
    fn flush(&mut self, now: Instant) -> io::Result<()> {
        (**self).flush(now)
    }
    fn poll_timeout(&self) -> Option<Instant> {
        (**self).poll_timeout()
    }
    fn fd(&self) -> BorrowedFd<'_> {
        (**self).fd()
    }
    fn stats(&self) -> DeviceStats {
        (**self).stats()
    }
}
