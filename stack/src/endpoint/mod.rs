//! An endpoint: a host's TCP. It finds the connection a packet belongs to, answers those that
//! belong to none, accepts new ones for listeners, and keeps everybody's timers.
//!
//! # How to drive it
//! As a [`Connection`], with packets in place of segments: after any call, poll
//! [`poll_transmit`](Endpoint::poll_transmit) and [`poll_event`](Endpoint::poll_event) until
//! they give `None`, then wait for a packet or [`poll_timeout`](Endpoint::poll_timeout).

pub mod challenge;
mod chunks;
mod clock;
mod cold;
mod config;
mod cookies;
pub mod demux;
mod fast_open;
mod icmp;
mod input;
pub mod isn;
mod listen;
pub mod metrics;
mod output;
mod paths;
pub mod ports;
mod slots;
mod stats;
mod strangers;
mod turns;
pub mod wheel;

use crate::config::{ConfigError, TcpConfig};
use crate::conn::state::State;
use crate::conn::{Connection, Event, TcpTypes};
use crate::fast_open::FastOpenClient;
use crate::memory::MemoryStats;
use crate::sparse::Sparse;
use crate::trace::TraceSink;
use crate::wire::{IpHeader, TcpHeader};
use chunks::{LAST, Slots};
use cold::Cold;
use demux::{FourTuple, LastFound};
use listen::Listener;
use metrics::{MetricsCache, MetricsConfig};
use narrows_congestion::Instant;
use narrows_congestion::short::ShortQueue;
use paths::News;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use strangers::sane_source;
use turns::Turns;
use wheel::TimerWheel;

pub use config::{EndpointConfig, SourceAddress};
pub use cookies::SynCookies;
pub use listen::{ListenError, ListenerId, ListenerStats};
pub use output::Made;
pub(crate) use output::NextOutput;
pub use stats::EndpointStats;
pub use strangers::StrangerLimit;

/// A connection of an endpoint. Never reused for another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    slot: u32,
    generation: u32,
}

impl ConnId {
    /// A small number, unique among the connections that exist at the same time.
    pub const fn index(self) -> usize {
        self.slot as usize
    }

    /// Tells it from others that had the same [`index`](Self::index) before.
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

/// What the user of an endpoint is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointEvent {
    /// A listener has a new, established connection.
    Accepted {
        /// The listener.
        listener: ListenerId,
        /// The connection.
        conn: ConnId,
    },
    /// Something happened to a connection. [`Event::Connected`] is told of active opens only.
    Conn {
        /// The connection.
        conn: ConnId,
        /// What.
        event: Event,
    },
}

/// Why an active open failed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// Every ephemeral port to that peer is in use.
    NoPort,
    /// The local address and port are connected to that peer already.
    InUse,
    /// The addresses are of different families, or one is unspecified, broadcast or multicast, or
    /// the remote port is zero.
    BadAddress,
    /// The endpoint's [memory](EndpointConfig::memory) is used up.
    NoMemory,
    /// The configuration is out of range.
    Config(ConfigError),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPort => {
                "no free local port to that peer: widen the port range or close connections"
            }
            Self::InUse => "that local address is connected to that peer already",
            Self::BadAddress => "local and remote address must be of one family and complete",
            Self::NoMemory => {
                "the endpoint's connections take all the memory they may: close some, or raise EndpointConfig::memory"
            }
            Self::Config(e) => return e.fmt(f),
        })
    }
}
impl std::error::Error for ConnectError {}

/// Gives a new connection the sink of its trace events, or none.
pub type Tracer = Box<dyn FnMut(Instant, ConnId, &FourTuple) -> Option<Box<dyn TraceSink>> + Send>;

/// A host's TCP.
///
/// Its layout is that of the declaration: what every packet touches lies side by side with the
/// first connection (see [`Connection`]), and the rest is in a box.
#[repr(C, align(64))]
pub struct Endpoint<T: TcpTypes> {
    cold: Box<Cold<T>>,
    /// Ends of the queue of connections that may have something to send.
    first_dirty: u32,
    last_dirty: u32,
    last_found: LastFound,
    /// The connection that a packet was given to last.
    last_input: Sparse<u32>,
    /// The last that routers said of paths: who has not heard it asks [`Cold::paths`].
    news: News,
    /// Whether there are strays, which are in the box.
    has_strays: bool,
    /// Nothing follows what the first of those that may have something to send gave last, and nothing
    /// has happened to a connection since.
    finished: bool,
    events: Events,
    wheel: TimerWheel,
    slots: Slots<T>,
    /// Once there are many connections.
    turns: Option<Box<Turns>>,
}

/// What the user is to be told.
type Events = ShortQueue<EndpointEvent>;
// Each endpoint has one, and most connections of a simulation are the only ones of theirs.
const _: () = assert!(size_of::<Events>() <= 32);

impl<T: TcpTypes> Endpoint<T> {
    /// An endpoint without connections.
    ///
    /// # Errors
    /// When the TCP configuration is out of range.
    pub fn new(config: EndpointConfig) -> Result<Self, ConfigError> {
        config.tcp.validate()?;
        Ok(Self {
            cold: Box::new(Cold::new(config)),
            first_dirty: LAST,
            last_dirty: LAST,
            finished: false,
            last_found: LastFound::NONE,
            last_input: Sparse::NONE,
            news: News::default(),
            has_strays: false,
            events: Events::default(),
            wheel: TimerWheel::default(),
            slots: Slots::new(),
            turns: None,
        })
    }

    /// Remember what connections learn of their peers, or no longer: what was remembered is
    /// forgotten ([`EndpointConfig::metrics`]).
    pub fn remember_peers(&mut self, config: Option<MetricsConfig>) {
        self.cold.peers = config.map(MetricsCache::new);
    }

    /// Accept connections to `local` (an unspecified address means any; the port must be given),
    /// at most `backlog` of them not yet established. `tcp` overrides the endpoint's
    /// configuration.
    ///
    /// # Errors
    /// When something listens there already, or the configuration is out of range.
    pub fn listen(
        &mut self,
        local: SocketAddr,
        backlog: usize,
        tcp: Option<Arc<TcpConfig>>,
    ) -> Result<ListenerId, ListenError> {
        let tcp = tcp.unwrap_or_else(|| self.cold.config.tcp.clone());
        tcp.validate().map_err(ListenError::Config)?;
        if local.port() == 0 {
            return Err(ListenError::NoPort);
        }
        let id = ListenerId(self.cold.next_listener);
        let next = id.0.checked_add(1).ok_or(ListenError::InUse)?;
        let listening = &mut self.cold.demux.listeners;
        if listening.contains_key(&(local.port(), local.ip())) {
            return Err(ListenError::InUse);
        }
        listening.insert((local.port(), local.ip()), id);
        let listener = Listener::new(local, backlog, tcp);
        self.cold.listeners.insert(id, listener);
        self.cold.next_listener = next;
        Ok(id)
    }

    /// Stop accepting. Connections accepted before live on; embryonic ones are reset.
    pub fn unlisten(&mut self, listener: ListenerId, now: Instant) {
        let Some(gone) = self.cold.listeners.remove(&listener) else {
            return;
        };
        let listening = &mut self.cold.demux.listeners;
        listening.remove(&(gone.local.port(), gone.local.ip()));
        self.abort_where(now, |s, conn| {
            s == Some(listener) && matches!(conn.state(), State::SynReceived(_)) && !conn.is_early()
        });
    }

    /// Reset every connection, and let go of it.
    pub fn abort_all(&mut self, now: Instant) {
        self.abort_where(now, |_, _| true);
    }

    /// Reset those connections, each of which has come by a listener or by none, and let go of them.
    fn abort_where(
        &mut self,
        now: Instant,
        ends: impl Fn(Option<ListenerId>, &Connection<T>) -> bool,
    ) {
        for slot in 0..self.slots.len() as u32 {
            let s = self.slots.at(slot);
            if let Some(conn) = s.conn.as_mut()
                && ends(s.listener, conn)
            {
                s.released = true;
                conn.abort(now);
                self.touch(slot);
            }
        }
    }

    /// Open a connection to `remote` from `local`; port 0 picks one, and an unspecified address
    /// asks [`EndpointConfig::source`].
    ///
    /// # Errors
    /// See [`ConnectError`]; later failures come as [`Event::Closed`].
    pub fn connect(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        tcp: Option<Arc<TcpConfig>>,
    ) -> Result<ConnId, ConnectError> {
        let tcp = tcp.unwrap_or_else(|| self.cold.config.tcp.clone());
        tcp.validate().map_err(ConnectError::Config)?;
        let mut tuple = FourTuple { local, remote };
        if local.ip().is_unspecified()
            && let Some(source) = &self.cold.config.source
            && let Some(ip) = source.source_for(remote.ip())
        {
            tuple.local.set_ip(ip);
        }
        // RFC 9293 MUST-46 among them.
        if tuple.local.is_ipv4() != remote.is_ipv4() || !sane_source(&tuple) {
            return Err(ConnectError::BadAddress);
        }
        if local.port() == 0 {
            let port = self.pick_port(&tuple).ok_or(ConnectError::NoPort)?;
            tuple.local.set_port(port);
        }
        if self.cold.demux.lookup(&tuple).is_some() {
            return Err(ConnectError::InUse);
        }
        if !self.has_memory() {
            return Err(ConnectError::NoMemory);
        }
        self.cold.opens.active += 1;
        let opening = self.opening(tuple, now);
        let fast_open = tcp.fast_open.client;
        let mut conn = Connection::connect(tcp, opening, now);
        if fast_open != FastOpenClient::Off {
            let largest = conn.largest_mss();
            let memory = self.cold.fast_open();
            if let Some(start) = memory.start::<T>(&tuple, fast_open, largest, now) {
                conn.use_fast_open(start);
            }
        }
        let slot = self.add(tuple, conn, None, now);
        Ok(self.id(slot))
    }

    /// Timers are due; see [`poll_timeout`](Self::poll_timeout).
    pub fn handle_timeout(&mut self, now: Instant) {
        for slot in self.wheel.expire(now) {
            if let Some(conn) = self.connection_in(slot) {
                let before = conn.handshake_timeouts();
                conn.handle_timeout(now);
                let timeouts = conn.handshake_timeouts().saturating_sub(before);
                // Few timers are of handshakes, and none of the others has to bring that line in.
                if timeouts > 0 {
                    self.cold.opens.handshake_timeouts += u64::from(timeouts);
                }
                self.after_input(slot, now);
            }
        }
    }

    /// The packet that [`poll_transmit`](Self::poll_transmit) gave last was refused by the device. When
    /// there is room again another connection has its turn first, if one waits: one that always
    /// has more to send would keep all others from sending otherwise.
    pub fn handle_local_drop(
        &mut self,
        now: Instant,
        ip: &IpHeader,
        tcp: &TcpHeader,
        payload_len: usize,
    ) {
        let there = FourTuple::of(ip, tcp);
        let here = FourTuple::new(there.remote, there.local);
        if let Some(slot) = self.cold.demux.lookup(&here)
            && let Some(conn) = self.connection_in(slot)
        {
            conn.handle_local_drop(now, tcp, payload_len);
            if self.first_dirty == slot {
                self.pop_dirty();
            }
            self.touch(slot);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), at the latest. It may be earlier
    /// than the next timer: calling then does no harm.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.wheel.next_deadline()
    }

    /// Whether [`poll_event`](Self::poll_event) has something.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next thing to tell the user.
    #[inline]
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        self.events.pop()
    }

    /// A connection, until it is released and closed.
    pub fn connection(&self, id: ConnId) -> Option<&Connection<T>> {
        let s = self.slots.get(id.slot as usize)?;
        (s.generation == id.generation).then(|| s.conn.as_ref())?
    }

    /// The same, to call its user functions. Poll the endpoint afterwards.
    #[inline]
    pub fn connection_mut(&mut self, id: ConnId) -> Option<&mut Connection<T>> {
        self.finished = false;
        // Mostly it is the one that a packet has just come for, which is the first of the queue.
        if self.first_dirty != id.slot {
            self.queue(id);
        }
        let s = self.slots.get_mut(id.slot as usize)?;
        (s.generation == id.generation).then(|| s.conn.as_mut())?
    }

    /// A connection may have something to send, if there is one.
    #[inline(never)]
    fn queue(&mut self, id: ConnId) {
        if self.connection(id).is_some() {
            self.touch(id.slot);
        }
    }

    /// The user is done with a connection: see [`Connection::release`]. It finishes by itself, and
    /// no events come of it any more.
    pub fn release(&mut self, id: ConnId, now: Instant) {
        if let Some(conn) = self.connection_mut(id) {
            conn.release(now);
            self.slots.at(id.slot).released = true;
            self.after_input(id.slot, now);
        }
    }

    /// Ask `tracer` for a trace sink for every connection that begins from now on. It is asked
    /// as soon as there is a connection, so that its handshake is traced, too.
    pub fn set_tracer(&mut self, tracer: Option<Tracer>) {
        self.cold.tracer = tracer;
    }

    /// How many connections there are, in all states.
    pub fn connections(&self) -> usize {
        self.slots.len() - self.cold.free.len()
    }

    /// The states of all connections.
    pub fn connection_states(&self) -> impl Iterator<Item = State> {
        (0..self.slots.len()).filter_map(|slot| Some(self.slots.get(slot)?.conn.as_ref()?.state()))
    }

    /// Counters.
    pub fn stats(&self) -> EndpointStats {
        let opens = &self.cold.opens;
        EndpointStats {
            active_opens: opens.active,
            passive_opens: opens.passive,
            handshake_timeouts: opens.handshake_timeouts,
            ..self.cold.stats.get()
        }
    }

    /// What the connections take of the [memory](EndpointConfig::memory) they may.
    pub fn memory_stats(&self) -> MemoryStats {
        let ledger = self.cold.ledger.as_ref();
        ledger.map_or_else(MemoryStats::default, |l| l.stats())
    }

    /// There is memory for one more connection; if not, that one is refused.
    fn has_memory(&self) -> bool {
        let ledger = self.cold.ledger.as_ref();
        ledger.is_none_or(|ledger| ledger.admits_connection(Connection::<T>::LEAST))
    }

    /// Counters of a listener.
    pub fn listener_stats(&self, listener: ListenerId) -> Option<ListenerStats> {
        self.cold.listeners.get(&listener).map(|l| l.stats)
    }
}

impl<T: TcpTypes> fmt::Debug for Endpoint<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("connections", &self.connections())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
