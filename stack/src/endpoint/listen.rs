//! Listeners: who may open a connection (RFC 9293 section 3.10.7.2).

use super::Endpoint;
use super::cookies::{self, SynCookies};
use crate::config::{ConfigError, TcpConfig};
use crate::conn::{Early, TcpTypes};
use crate::sparse::Sparse;
use crate::wire::{Flags, TcpHeader};
use narrows_congestion::{Duration, Instant};
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

/// A listener of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub(super) NonZeroU32);

/// Why listening failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenError {
    /// Something listens on that address and port.
    InUse,
    /// The port must be given.
    NoPort,
    /// The configuration is out of range.
    Config(ConfigError),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => f.write_str("the address and port have a listener already"),
            Self::NoPort => f.write_str("the port to listen on must not be zero"),
            Self::Config(e) => e.fmt(f),
        }
    }
}
impl std::error::Error for ListenError {}

/// Counters of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerStats {
    /// Connections in SYN-RECEIVED now.
    pub embryonic: usize,
    /// Connections that were established.
    pub accepted: u64,
    /// Embryonic connections that failed.
    pub failed: u64,
    /// SYNs dropped because the backlog was full.
    pub dropped: u64,
}

/// How long after its SYN a connection that was reset counts as pending: as long as the SYN-ACK
/// would have been repeated, as Linux has it.
const RESET_COUNTS: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) local: SocketAddr,
    backlog: usize,
    pub(super) tcp: Arc<TcpConfig>,
    /// Until then an acknowledgement may be the answer to a cookie.
    cookies_until: Sparse<Instant>,
    /// The user does not keep up with accepting: SYNs are dropped as if the backlog were full.
    pub(super) paused: bool,
    /// Connections that their users have and no third segment has confirmed (RFC 7413
    /// section 5.1).
    fast_open_pending: u32,
    /// Those among them that a RST has ended count until these instants: who sends SYNs with
    /// another's address must not free their places.
    #[allow(clippy::box_collection)] // One word for what hardly any has.
    fast_open_reset: Option<Box<VecDeque<Instant>>>,
    pub(super) stats: ListenerStats,
}

impl<T: TcpTypes> Endpoint<T> {
    /// Admit no more connections (`true`) while the user does not keep up with those accepted, or
    /// go on admitting. A peer's SYN is dropped meanwhile and comes again.
    pub fn pause_listener(&mut self, listener: ListenerId, paused: bool) {
        if let Some(listener) = self.cold.listeners.get_mut(&listener) {
            listener.paused = paused;
        }
    }

    /// Time to live, or hop limit, with which connections to `listener` begin; `None`: there is no
    /// such listener.
    pub fn listener_hop_limit(&self, listener: ListenerId) -> Option<u8> {
        let listener = self.cold.listeners.get(&listener);
        listener.map(|l| l.tcp.hop_limit)
    }

    /// Change it for connections opened from now on; 0 counts as 1.
    pub fn set_listener_hop_limit(&mut self, listener: ListenerId, hop_limit: u8) {
        if let Some(listener) = self.cold.listeners.get_mut(&listener) {
            Arc::make_mut(&mut listener.tcp).hop_limit = hop_limit.max(1);
        }
    }
}

/// What to do with a segment for a listener.
#[derive(Debug)]
pub(super) enum Admission {
    /// A connection is opened.
    Open,
    /// It would be, but the backlog is full.
    Full,
    /// The SYN is answered, and nothing kept.
    Cookie,
    /// It may answer a cookie; if not, it gets a RST.
    MaybeCookie,
    /// Nothing.
    Ignore,
    /// A RST.
    Reset,
}

impl Listener {
    pub(super) fn new(local: SocketAddr, backlog: usize, tcp: Arc<TcpConfig>) -> Self {
        Self {
            local,
            backlog,
            tcp,
            cookies_until: Sparse::NONE,
            paused: false,
            fast_open_pending: 0,
            fast_open_reset: None,
            stats: ListenerStats::default(),
        }
    }

    /// First RST, second ACK, third SYN.
    pub(super) fn admit(
        &mut self,
        tcp: &TcpHeader,
        cookies: SynCookies,
        now: Instant,
    ) -> Admission {
        if tcp.flags.contains(Flags::RST) {
            return Admission::Ignore;
        }
        if tcp.flags.contains(Flags::ACK) {
            let awaited = (self.cookies_until.get()).is_some_and(|until| now < until);
            return match awaited {
                true if self.paused => Admission::Ignore,
                true if !tcp.flags.contains(Flags::SYN) => Admission::MaybeCookie,
                _ => Admission::Reset,
            };
        }
        // A SYN with FIN is no honest opening.
        if !tcp.flags.contains(Flags::SYN) || tcp.flags.contains(Flags::FIN) {
            return Admission::Ignore;
        }
        let room = self.stats.embryonic < self.backlog;
        match cookies {
            _ if self.paused => Admission::Full,
            SynCookies::Off | SynCookies::WhenFull if room => Admission::Open,
            SynCookies::Off => Admission::Full,
            SynCookies::Always | SynCookies::WhenFull => {
                self.cookies_until = Sparse::some(now + cookies::LIFETIME);
                Admission::Cookie
            }
        }
    }

    /// Whether a SYN may take the place of a connection in TIME-WAIT. With cookies on the backlog does
    /// not bound these, as it does not bound those who come by cookie: they take no place that is not
    /// taken already.
    pub(super) fn admits_again(&self, cookies: SynCookies) -> bool {
        !self.paused && (cookies != SynCookies::Off || self.stats.embryonic < self.backlog)
    }

    /// Whether one more connection may be given to its user before its handshake is complete; it
    /// counts from now on.
    pub(super) fn take_fast_open(&mut self, most: u32, now: Instant) -> bool {
        let reset = self.fast_open_reset.as_deref_mut();
        let reset = reset.map_or(0, |reset| {
            while reset.front().is_some_and(|at| *at <= now) {
                reset.pop_front();
            }
            reset.len()
        });
        let pending = self.fast_open_pending as usize + reset;
        let room = pending < most as usize;
        self.fast_open_pending += u32::from(room);
        room
    }

    /// One that counted counts no more, or not for ever.
    pub(super) fn on_early(&mut self, news: Early) {
        self.fast_open_pending = self.fast_open_pending.saturating_sub(1);
        if let Early::Reset { since } = news {
            let reset = self.fast_open_reset.get_or_insert_default();
            reset.push_back(since + RESET_COUNTS);
        }
    }

    pub(super) fn on_established(&mut self) {
        self.stats.embryonic = self.stats.embryonic.saturating_sub(1);
        self.stats.accepted += 1;
    }

    pub(super) fn on_failed(&mut self) {
        self.stats.embryonic = self.stats.embryonic.saturating_sub(1);
        self.stats.failed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{RecvRing, SendRing};
    use crate::conn::Boxed;
    use crate::endpoint::{Endpoint, EndpointConfig};

    type Host = Endpoint<Boxed<SendRing, RecvRing>>;

    /// Nothing is left of a listener that is gone, and its number means no other.
    #[test]
    fn listening_again_and_again_keeps_nothing() {
        let tcp = Arc::new(TcpConfig::default());
        let mut host = Host::new(EndpointConfig::new(tcp, [1; 16])).unwrap();
        let local = SocketAddr::from(([10, 0, 0, 1], 80));
        let mut last = None;
        for _ in 0..1_000 {
            let id = host.listen(local, 4, None).unwrap();
            assert_eq!(host.listen(local, 4, None), Err(ListenError::InUse));
            assert!(last.replace(id) < Some(id));
            host.unlisten(id, Instant::ZERO);
            host.unlisten(id, Instant::ZERO);
            assert_eq!(host.listener_stats(id), None);
        }
        assert_eq!(host.cold.listeners.len(), 0);
    }
}
