//! Taps: captures and traces of a run.
//!
//! A tap sees each packet at the host NICs and at the switch ports. The default, [`NoTap`],
//! compiles to nothing.

use crate::net::packet::{HostId, PortId};
use crate::net::stats::DropReason;

use super::time::SimTime;

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TapEvent {
    /// A host gave it to its NIC; its last bit leaves at `departs`, unless something
    /// [changes](crate::net::change) before.
    NicSent {
        /// The sender.
        host: HostId,
        /// When its last bit leaves; [`SimTime::MAX`] while its link is down.
        departs: SimTime,
    },
    /// A host's NIC refused it.
    NicRefused {
        /// The sender.
        host: HostId,
    },
    /// It reached the receive ring of a host that has one, which takes it later.
    Reached {
        /// The receiver.
        host: HostId,
    },
    /// It reached a host.
    Received {
        /// The receiver.
        host: HostId,
    },
    /// A switch port took it.
    PortQueued {
        /// The port.
        port: PortId,
        /// Whether the port marked it with Congestion Experienced.
        marked: bool,
        /// Whether the port cut its payload.
        trimmed: bool,
        /// When its last bit leaves; [`SimTime::MAX`] if the discipline decides that later, or the
        /// link is down.
        departs: SimTime,
    },
    /// A switch port marked a packet that it had taken with Congestion Experienced.
    Marked {
        /// The port.
        port: PortId,
    },
    /// A switch port cut the payload of a packet that it had taken.
    Trimmed {
        /// The port.
        port: PortId,
    },
    /// A port or a link dropped it.
    Dropped {
        /// The port, or the port that the link starts at.
        port: PortId,
        /// Why.
        reason: DropReason,
    },
}

/// What a pause frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PauseSignal {
    /// Begin no frame.
    Xoff,
    /// Go on.
    Xon,
}

impl PauseSignal {
    /// The time that its frame names, where a pause is `quanta`.
    pub(crate) const fn quanta(self, quanta: u16) -> u16 {
        match self {
            Self::Xoff => quanta,
            Self::Xon => 0,
        }
    }
}

/// What happened of [pause frames](crate::net::pause). Traffic classes are a bit each, all of them
/// where the whole link is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PauseEvent {
    /// A switch gave a port a pause frame to send.
    Sent {
        /// The port that sends it.
        port: PortId,
        /// What it says.
        signal: PauseSignal,
        /// To which classes.
        classes: u8,
    },
    /// A pause frame reached a port, which obeys.
    Obeyed {
        /// The port, a NIC or a switch's.
        port: PortId,
        /// For how long it begins no frame; zero if it goes on.
        span: SimTime,
        /// Of which classes.
        classes: u8,
    },
}

/// Listens to a run.
pub trait Tap<P> {
    /// Whether to call [`Tap::event`] at all.
    const ACTIVE: bool = true;

    /// Whether it is to be told of [`TapEvent::PortQueued`], which is most of what there is.
    #[inline]
    fn hears_ports(&self) -> bool {
        true
    }

    /// `event` happened to `packet` at `at`. A marked packet is shown as it goes on. What a queue
    /// discipline did to a packet that waited is told when its port is looked at next, with that
    /// time, which may be as much later as a packet takes to the far end of the link.
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &P);

    /// A pause frame was sent or obeyed.
    fn pause(&mut self, at: SimTime, event: PauseEvent) {
        let _ = (at, event);
    }
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTap;

impl<P> Tap<P> for NoTap {
    const ACTIVE: bool = false;
    #[inline]
    fn event(&mut self, _: SimTime, _: TapEvent, _: &P) {}
}

impl<P, T: Tap<P>> Tap<P> for &mut T {
    const ACTIVE: bool = T::ACTIVE;
    fn hears_ports(&self) -> bool {
        (**self).hears_ports()
    }
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &P) {
        (**self).event(at, event, packet);
    }
    fn pause(&mut self, at: SimTime, event: PauseEvent) {
        (**self).pause(at, event);
    }
}
