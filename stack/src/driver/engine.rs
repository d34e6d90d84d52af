//! What both drivers do between two waits.

use crate::device::{Device, Refused, sys};
use crate::interface::{ByteTcp, Interface};
use narrows_congestion::{Duration, Instant};
use std::io;

/// Frames received before something is sent: acknowledgements must not wait for long.
const RECEIVE_BATCH: usize = 64;
/// Super-frames received before it is counted how many bytes they were.
const RECEIVE_SUPER_FRAMES: usize = 4;
/// Frames sent before it is looked whether something has arrived.
const TRANSMIT_BATCH: usize = 64;
/// Bytes that make a batch full: those of a batch are to be in the processor's cache still when
/// the user reads what came, or when the device reads what the user wrote.
const BATCH_BYTES: usize = 256 << 10;
/// How long to wait before a device that is down is tried again; nothing tells when it is up.
const DOWN_PAUSE: Duration = Duration::from_millis(10);

/// How long to wait at first, and at most, before a device that refuses though its descriptor is
/// writable is tried again: what it lacks is no room that the descriptor would tell of.
const FULL_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_FULL_PAUSE: Duration = Duration::from_millis(1);

/// A device and the interface on it.
#[derive(Debug)]
pub(crate) struct Engine<T: ByteTcp, D> {
    pub(crate) interface: Interface<T>,
    pub(crate) device: D,
    blocked: Blocked,
    /// How long the next wait of a writable device is.
    full_pause: Duration,
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
    /// Not before this time, or the next frame arrives: it refuses, and is writable.
    UntilOrArrival(Instant),
}

/// How a round of receiving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Nothing had arrived.
    Nothing,
    /// Everything that had arrived was taken.
    All,
    /// There may be more.
    Some,
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
            full_pause: FULL_PAUSE,
        }
    }

    /// Take what has arrived, a batch at most.
    pub(crate) fn receive(&mut self, now: Instant) -> io::Result<Received> {
        let received = self.receive_batch(now)?;
        if let (Blocked::UntilOrArrival(_), Received::All | Received::Some) =
            (self.blocked, received)
        {
            self.blocked = Blocked::No;
        }
        Ok(received)
    }

    fn receive_batch(&mut self, now: Instant) -> io::Result<Received> {
        let Self {
            interface, device, ..
        } = self;
        let budget = match device.capabilities().max_super_frame {
            0 => RECEIVE_BATCH,
            _ => RECEIVE_SUPER_FRAMES,
        };
        interface.endpoint_mut().begin_batch();
        let (mut frames, mut bytes) = (0, 0);
        while frames < RECEIVE_BATCH && bytes < BATCH_BYTES {
            let received = device.receive(now, budget, &mut |frame| {
                bytes += frame.bytes.len();
                interface.handle_frame(now, frame);
            })?;
            frames += received;
            if received < budget {
                return Ok(match frames {
                    0 => Received::Nothing,
                    _ => Received::All,
                });
            }
        }
        Ok(Received::Some)
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

    /// Send a batch at most. Refused frames go back to their connections.
    pub(crate) fn transmit(&mut self, now: Instant) -> io::Result<Sent> {
        if self.is_blocked(now) {
            return Ok(Sent::All);
        }
        let mut outcome = Sent::Some;
        let (mut frames, mut bytes) = (0, 0);
        while frames < TRANSMIT_BATCH && bytes < BATCH_BYTES {
            let Some(frame) = self.interface.poll_frame(now) else {
                outcome = Sent::All;
                break;
            };
            frames += 1;
            bytes += frame.len();
            let refused = match self.device.transmit(now, &frame) {
                Ok(()) => {
                    self.full_pause = FULL_PAUSE;
                    continue;
                }
                Err(refused) => refused,
            };
            self.interface.handle_refused(now);
            outcome = Sent::All;
            match refused {
                Refused::Full => self.blocked = self.on_full(now)?,
                Refused::Down => self.blocked = Blocked::Until(now + DOWN_PAUSE),
                Refused::Gone(e) => return Err(e),
            }
            break;
        }
        self.device.flush(now)?;
        Ok(outcome)
    }

    /// What is waited for after a refusal. A descriptor that is writable would end a wait for that
    /// at once, or, where only its becoming so is told, never.
    fn on_full(&mut self, now: Instant) -> io::Result<Blocked> {
        if !sys::is_writable(self.device.fd())? {
            return Ok(Blocked::UntilWritable);
        }
        let at = now + self.full_pause;
        self.full_pause = (self.full_pause * 2).min(LONGEST_FULL_PAUSE);
        Ok(Blocked::UntilOrArrival(at))
    }

    fn is_blocked(&self, now: Instant) -> bool {
        match self.blocked {
            Blocked::No => false,
            Blocked::UntilWritable => true,
            Blocked::Until(at) | Blocked::UntilOrArrival(at) => now < at,
        }
    }

    /// Whether it is to be waited until the device is writable.
    pub(crate) fn wants_room(&self) -> bool {
        self.blocked == Blocked::UntilWritable
    }

    /// When something is due at the latest.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let blocked = match self.blocked {
            Blocked::Until(at) | Blocked::UntilOrArrival(at) => Some(at),
            Blocked::No | Blocked::UntilWritable => None,
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
