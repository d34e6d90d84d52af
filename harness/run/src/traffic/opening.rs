//! Connections that are open before the traffic begins.

use super::messages::Messenger;
use super::role::Io;
use crate::knob::Kind;
use crate::net::packet::HostId;
use narrows::endpoint::ConnId;
use narrows::{Duration, Instant};

/// How long handshakes have by default.
pub(super) const SETUP: Duration = Duration::from_millis(1);

/// What the time for them may be.
pub(super) const SETUP_KIND: Kind = Kind::Time {
    least: 0,
    most: 1_000_000_000_000,
};

/// The connections that a role opens when the traffic starts. Its part in the traffic begins so
/// much later, at the same instant on all hosts; on a host whose handshakes take longer, with the
/// last of them.
#[derive(Debug)]
pub(super) struct Opening {
    /// By tag.
    pub(super) conns: Vec<ConnId>,
    connected: usize,
    wanted: usize,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not yet, or for ever.
    Closed,
    /// Handshakes have until then.
    Until(Instant),
    /// They have taken longer.
    Late,
    /// It has begun.
    Begun,
}

/// Whether the role begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Begins {
    Now,
    NotNow,
}

impl Opening {
    pub(super) fn new() -> Self {
        Self {
            conns: Vec::new(),
            connected: 0,
            wanted: 0,
            phase: Phase::Closed,
        }
    }

    /// Opens connections to `peers`, whose tags are their places.
    pub(super) fn start<M>(
        &mut self,
        io: &mut Io<'_>,
        messages: &mut Messenger<M>,
        peers: &[HostId],
        setup: Duration,
    ) {
        self.wanted = peers.len();
        self.phase = Phase::Until(io.now() + setup);
        for (&peer, tag) in peers.iter().zip(0..) {
            let Some(conn) = messages.connect(io, peer, tag) else {
                return;
            };
            self.conns.push(conn);
        }
    }

    /// One of them is open.
    pub(super) fn connected(&mut self) -> Begins {
        self.connected += 1;
        if self.phase == Phase::Late && self.connected == self.wanted {
            self.phase = Phase::Begun;
            return Begins::Now;
        }
        Begins::NotNow
    }

    /// The time may have come.
    pub(super) fn timeout(&mut self, now: Instant) -> Begins {
        match self.phase {
            Phase::Until(at) if at <= now && self.connected == self.wanted => {
                self.phase = Phase::Begun;
                Begins::Now
            }
            Phase::Until(at) if at <= now => {
                self.phase = Phase::Late;
                Begins::NotNow
            }
            _ => Begins::NotNow,
        }
    }

    /// When to call [`Self::timeout`].
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Until(at) => Some(at),
            _ => None,
        }
    }
}
