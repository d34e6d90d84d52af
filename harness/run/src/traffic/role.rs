//! A role: a part of the application of one host.

use super::connections::{Broken, Opener, Parts};
use super::log::{AppSpan, SpanKind, Transfer};
use crate::host::{SimEndpoint, SimTypes};
use crate::net::packet::HostId;
use narrows::config::TcpConfig;
use narrows::conn::Connection;
use narrows::endpoint::ConnId;
use narrows::{ByteCount, Instant};
use narrows_congestion::hint::cold_path;
use narrows_congestion::short::push_short;
use std::fmt;
use std::net::SocketAddr;

/// A part of the application of one host, as a traffic gives it.
pub trait Role: fmt::Debug {
    /// The TCP of its connections, where it is to be other than `tcp`, which they would have.
    fn tcp(&self, tcp: &TcpConfig) -> Option<TcpConfig> {
        let _ = tcp;
        None
    }

    /// The run begins: the time to listen, before anybody connects.
    fn open(&mut self, io: &mut Io<'_>) {
        let _ = io;
    }

    /// The traffic begins.
    fn start(&mut self, io: &mut Io<'_>) {
        let _ = io;
    }

    /// Something happened to a connection of this role.
    fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent);

    /// The time that it named has come.
    fn timeout(&mut self, io: &mut Io<'_>) {
        let _ = io;
    }

    /// When it wants [`Self::timeout`] to be called. Asked after each other call.
    // A short one would be compiled where the role becomes a box too, and `Traffic::install`, which runs once, is
    // `#[inline]` for that very reason: in a crate that is not optimised. So those here are `#[inline(never)]`.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleEvent {
    /// A peer has opened it, to where the role listens.
    Accepted,
    /// It is open, as the role asked.
    Connected,
    /// There is something to [`Io::read`].
    Readable,
    /// There is room to [`Io::send`] after it took less than offered.
    Writable,
    /// The peer will send nothing more.
    PeerClosed,
    /// It is over, as both sides wanted. One that gives up or is reset ends the run as broken
    /// instead.
    Closed,
}

/// Whether what is read counts as delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// It is what the traffic is for.
    Delivered,
    /// A request or the like.
    Control,
}

/// What was read of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    /// How much.
    pub(super) bytes: u64,
    /// How much was missing before, of what was said to be.
    pub(super) missing: u64,
}

/// What a role can do.
pub struct Io<'a> {
    pub(super) tcp: &'a mut SimEndpoint,
    pub(super) now: Instant,
    pub(super) role: u32,
    pub(super) parts: &'a mut Parts,
}

impl fmt::Debug for Io<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io")
            .field("host", &self.parts.host)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

impl Io<'_> {
    /// Now.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The host.
    pub fn host(&self) -> HostId {
        self.parts.host
    }

    /// Accept connections to this traffic. Once in a role, in [`Role::open`].
    pub fn listen(&mut self) {
        let port = self.parts.port_of(self.role);
        let any = SocketAddr::new(self.parts.any(), port);
        let tcp = self.parts.tcp_of(self.role);
        match self.tcp.listen(any, LISTEN_BACKLOG, Some(tcp)) {
            Ok(listener) => push_short(&mut self.parts.listeners, (listener, self.role)),
            Err(_) => self.parts.break_off(Broken::Lost),
        }
    }

    /// Open a connection to the role of this traffic that listens at `peer`; `None`, and the run
    /// is over as broken, if there are no more ports.
    pub fn connect(&mut self, peer: HostId) -> Option<ConnId> {
        let local = SocketAddr::new(self.parts.address(self.parts.host), 0);
        let remote = SocketAddr::new(self.parts.address(peer), self.parts.port_of(self.role));
        let tcp = self.parts.tcp_of(self.role);
        match self.tcp.connect(self.now, local, remote, Some(tcp)) {
            Ok(conn) => {
                self.parts
                    .attach(conn, self.role, Some(peer), Opener::Here, self.now);
                Some(conn)
            }
            Err(_) => {
                self.parts.break_off(Broken::Lost);
                None
            }
        }
    }

    /// Send up to `n` bytes; how many were taken. When it is less, [`RoleEvent::Writable`] says
    /// that there is room again.
    pub fn send(&mut self, conn: ConnId, n: u64) -> u64 {
        self.parts.note_send(self.now);
        let offer = usize::try_from(n).unwrap_or(usize::MAX);
        let Some(conn) = self.tcp.connection_mut(conn) else {
            return 0;
        };
        conn.send(offer, offer).unwrap_or(0) as u64
    }

    /// Read all there is; how many bytes. They count as delivered ([`super::Log::delivered`]).
    pub fn read(&mut self, conn: ConnId) -> u64 {
        self.read_as(conn, Counts::Delivered)
    }

    /// The same of what is not what the traffic is for, as requests: it does not count as
    /// delivered, so that what is delivered is the sum of all transfers once all are complete.
    pub fn read_control(&mut self, conn: ConnId) -> u64 {
        self.read_as(conn, Counts::Control)
    }

    /// Either.
    #[inline(always)] // Of each segment.
    pub(super) fn read_as(&mut self, conn: ConnId, counts: Counts) -> u64 {
        self.read_with(conn, counts, |_, bytes| bytes)
            .unwrap_or_default()
    }

    /// The same, and how many bytes [were missing](Self::set_missing); `None` if there is no such connection.
    #[inline(always)] // Of each segment.
    pub(super) fn read_toward(&mut self, conn: ConnId, counts: Counts) -> Option<Read> {
        self.read_with(conn, counts, |conn, bytes| {
            let missing = conn.tag();
            conn.set_tag(missing.saturating_sub(bytes));
            Read { bytes, missing }
        })
    }

    /// So many bytes are to be read before the role has something to do: counted in the connection's tag.
    pub(super) fn set_missing(&mut self, conn: ConnId, bytes: u64) {
        if let Some(conn) = self.tcp.connection_mut(conn) {
            conn.set_tag(bytes);
        }
    }

    /// Reads all there is: what `then` makes of the connection and how many bytes that were.
    #[inline(always)] // Of each segment.
    fn read_with<R>(
        &mut self,
        conn: ConnId,
        counts: Counts,
        then: impl FnOnce(&mut Connection<SimTypes>, u64) -> R,
    ) -> Option<R> {
        if counts == Counts::Control {
            self.parts.mark_control(conn);
        }
        let conn = self.tcp.connection_mut(conn)?;
        let bytes = conn.readable();
        conn.consume(bytes, self.now);
        if conn.recv_buffer().mismatched > 0 {
            cold_path();
            self.parts.break_off(Broken::Corrupt);
            debug_assert!(false, "corrupt stream");
        }
        if counts == Counts::Delivered {
            self.parts.deliver(self.role, bytes);
        }
        Some(then(conn, bytes))
    }

    /// Turn Nagle's algorithm off (`true`) or on for a connection, whatever its configuration says.
    pub fn set_nodelay(&mut self, conn: ConnId, nodelay: bool) {
        if let Some(conn) = self.tcp.connection_mut(conn) {
            conn.set_nodelay(nodelay);
        }
    }

    /// Send what there is, and nothing more after it.
    pub fn close(&mut self, conn: ConnId) {
        self.parts.close(conn);
        if let Some(conn) = self.tcp.connection_mut(conn) {
            conn.close(self.now);
        }
    }

    /// Who is at the other end of a connection.
    pub fn peer(&self, conn: ConnId) -> Option<HostId> {
        self.parts.peer(conn)
    }

    /// The port of the opener of a connection: with the hosts it is known by this at both ends.
    /// Connections of a host to different peers may have the same.
    pub fn opener_port(&self, conn: ConnId) -> Option<u16> {
        let conn = self.tcp.connection(conn)?;
        let (local, remote) = (conn.local().port(), conn.remote().port());
        Some(if local == self.parts.port_of(self.role) {
            remote
        } else {
            local
        })
    }

    /// The TCP of the host, for what has no words here. The tags of connections on which a [`Messenger`]
    /// reads are its own.
    ///
    /// [`Messenger`]: super::Messenger
    pub fn tcp(&mut self) -> &mut SimEndpoint {
        self.tcp
    }

    /// A transfer to this host is complete: `from` whom, since when, of how much.
    pub fn complete(&mut self, from: Option<HostId>, began: Instant, size: ByteCount) {
        self.parts.log.record(Transfer {
            traffic: self.parts.traffic_of(self.role),
            to: self.parts.host,
            from,
            began,
            took: self.now.since(began),
            size,
        });
    }

    /// A transfer to this host has failed: the application gave up on it.
    pub fn fail(&mut self) {
        let traffic = self.parts.traffic_of(self.role);
        self.parts.log.fail(traffic, self.parts.host, self.now);
    }

    /// Something of this host begins that takes a time; its number.
    pub fn begin_span(&mut self, kind: SpanKind, peer: Option<HostId>) -> usize {
        let traffic = self.parts.traffic_of(self.role);
        let host = self.parts.host;
        self.parts
            .log
            .begin_span(AppSpan::new(traffic, host, peer, kind, self.now))
    }

    /// What has this number is over.
    pub fn end_span(&mut self, span: usize) {
        self.parts.log.end_span(span, self.now);
    }

    /// The host holds so many bytes of memory for this traffic now.
    pub fn gauge(&mut self, bytes: u64) {
        let traffic = self.parts.traffic_of(self.role);
        self.parts
            .log
            .gauge(traffic, self.parts.host, self.now, bytes);
    }

    /// A part of the traffic is done, of those that [`super::Placement::ends_after`] counted.
    pub fn finish(&mut self) {
        self.parts.log.finish(self.parts.traffic_of(self.role));
    }
}

/// Connections that may wait to be accepted: every host of a rack may open several at once.
const LISTEN_BACKLOG: usize = 4_096;
