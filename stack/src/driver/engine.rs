//! What both drivers do between two waits.

use crate::device::{Device, Refused};
use crate::interface::{ByteTcp, Interface};
use narrows_congestion::{Duration, Instant};
use std::io;

/// Frames received before something is sent: acknowledgements must not wait for long.
pub(crate) const RECEIVE_BATCH: usize = 64;
/// Frames sent before it is looked whether something has arrived.
pub(crate) const TRANSMIT_BATCH: usize = 64;
/// How long to wait before a device that is down is tried again; nothing tells when it is up.
const DOWN_PAUSE: Duration = Duration::from_millis(10);

/// A device and the interface on it.
#[derive(Debug)]
pub(crate) struct Engine<T: ByteTcp, D> {
    pub(crate) interface: Interface<T>,
    pub(crate) device: D,
    blocked: Blocked,
}

/// Whether the device takes frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocked {
    /// It does.
    No,
    /// Not before it is writable.
    UntilWritable,
    /// Not before this time.
    Until(Instant),
}

/// How a round of sending ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// There is nothing more to send, or the device has no room.
    All,
    /// There may be more.
    Some,
}

impl<T: ByteTcp, D: Device> Engine<T, D> {
    pub(crate) fn new(interface: Interface<T>, device: D) -> Self {
        Self {
            interface,
            device,
            blocked: Blocked::No,
        }
    }

    /// Take what has arrived, [`RECEIVE_BATCH`] frames at most; how many.
    pub(crate) fn receive(&mut self, now: Instant) -> io::Result<usize> {
        let Self {
            interface, device, ..
        } = self;
        device.receive(now, RECEIVE_BATCH, &mut |frame| {
            interface.handle_frame(now, frame);
        })
    }

    /// Timers that are due.
    pub(crate) fn timers(&mut self, now: Instant) {
        if self.interface.poll_timeout().is_some_and(|at| at <= now) {
            self.interface.handle_timeout(now);
        }
        if self.blocked != Blocked::UntilWritable && !self.is_blocked(now) {
            self.blocked = Blocked::No;
        }
    }

    /// The device is writable again.
    pub(crate) fn on_writable(&mut self) {
        if self.blocked == Blocked::UntilWritable {
            self.blocked = Blocked::No;
        }
    }

    /// Send up to [`TRANSMIT_BATCH`] frames. Refused ones go back to their connections.
    pub(crate) fn transmit(&mut self, now: Instant) -> io::Result<Sent> {
        if self.is_blocked(now) {
            return Ok(Sent::All);
        }
        let mut outcome = Sent::Some;
        for _ in 0..TRANSMIT_BATCH {
            let Some(frame) = self.interface.poll_frame(now) else {
                outcome = Sent::All;
                break;
            };
            let refused = match self.device.transmit(now, &frame) {
                Ok(()) => continue,
                Err(refused) => refused,
            };
            self.interface.handle_refused(now);
            outcome = Sent::All;
            match refused {
                Refused::Full => self.blocked = Blocked::UntilWritable,
                Refused::Down => self.blocked = Blocked::Until(now + DOWN_PAUSE),
                Refused::Gone(e) => return Err(e),
            }
            break;
        }
        self.device.flush(now)?;
        Ok(outcome)
    }

    fn is_blocked(&self, now: Instant) -> bool {
        match self.blocked {
            Blocked::No => false,
            Blocked::UntilWritable => true,
            Blocked::Until(at) => now < at,
        }
    }

    /// Whether it is to be waited until the device is writable.
    pub(crate) fn wants_room(&self) -> bool {
        self.blocked == Blocked::UntilWritable
    }

    /// When something is due at the latest.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let blocked = match self.blocked {
            Blocked::Until(at) => Some(at),
            _ => None,
        };
        [
            self.interface.poll_timeout(),
            self.device.poll_timeout(),
            blocked,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}
