//! Another TCP in the simulated network: hosts of narrows and of smoltcp on the same links.
//!
//! Both kinds run the same application: [`Flow`]s, each one connection that carries so many
//! bytes each way and closes. The bytes are the pattern of [`narrows::buffer::synthetic`], so
//! either side finds a byte that is not the one sent at its place.

pub mod smoltcp;

use narrows::conn::state::{CloseReason, State};
use narrows::conn::{Connection, Event};
use narrows::endpoint::{ConnId, EndpointEvent, ListenerId};
use narrows::{Duration, Instant};
use narrows_net::host::{SimApp, SimEndpoint, SimPacket, TcpHost, address_of};
use narrows_net::net::nic::NicRoom;
use narrows_net::net::packet::HostId;
use narrows_net::sim::world::Host;
use std::net::SocketAddr;

pub use smoltcp::SmoltcpHost;

/// One connection and what it carries, seen from one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Who opens it.
    pub open: Open,
    /// Bytes to send.
    pub send: u64,
    /// When to close the sending side.
    pub close: Close,
    /// How to read.
    pub read: Read,
}

/// Who opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// This side, when the host starts.
    Active {
        /// Port of this side.
        port: u16,
        /// Where to.
        to: SocketAddr,
    },
    /// The other side. Each flow of a host that listens has a port of its own.
    Passive {
        /// Port of this side.
        port: u16,
    },
}

/// When a side closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// When everything is handed to the TCP; what the peer still sends is received.
    WhenSent,
    /// When besides that the peer has closed.
    AfterPeer,
}

/// How a side reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Everything, as soon as it comes.
    AtOnce,
    /// At most so many bytes at regular times: the window closes if the peer is faster.
    Paced {
        /// Bytes each time.
        bytes: u64,
        /// Time between, above zero.
        every: Duration,
    },
}

/// How a flow stands, seen from one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// Bytes handed to the TCP.
    pub sent: u64,
    /// Bytes read.
    pub received: u64,
    /// Bytes among them that were not the ones sent at their place.
    pub wrong: u64,
    /// The peer has closed and everything it sent has been read.
    pub peer_closed: bool,
    /// Whether it is over.
    pub end: FlowEnd,
    /// When the last byte was read.
    pub last_byte: Instant,
}

impl FlowReport {
    const NEW: Self = Self {
        sent: 0,
        received: 0,
        wrong: 0,
        peer_closed: false,
        end: FlowEnd::Open,
        last_byte: Instant::ZERO,
    };
}

/// Whether and how a flow is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowEnd {
    /// It is not.
    Open,
    /// Both sides have closed and all is acknowledged: TIME-WAIT or CLOSED.
    Finished,
    /// It broke off.
    Failed,
}

/// When a paced reader may read.
#[derive(Clone, Copy, Debug)]
struct Pace {
    next: Instant,
}

impl Pace {
    /// How much may be read now of what can be.
    fn allows(&mut self, read: Read, readable: u64, now: Instant) -> u64 {
        match read {
            Read::AtOnce => readable,
            Read::Paced { .. } if now < self.next || readable == 0 => 0,
            Read::Paced { bytes, every } => {
                self.next = now + every;
                readable.min(bytes)
            }
        }
    }
}

/// A flow of a host of narrows.
#[derive(Debug)]
struct OurFlow {
    flow: Flow,
    listener: Option<ListenerId>,
    conn: Option<ConnId>,
    pace: Pace,
    /// Something may be left to read after `pace`.
    waits: bool,
    fin_seen: bool,
    report: FlowReport,
}

/// The application of a host of narrows.
#[derive(Debug)]
pub struct OurFlows {
    host: HostId,
    flows: Vec<OurFlow>,
}

impl OurFlows {
    /// `flows` on host number `host`.
    pub fn new(host: HostId, flows: &[Flow]) -> Self {
        let flows = flows.iter().map(|flow| OurFlow {
            flow: *flow,
            listener: None,
            conn: None,
            pace: Pace {
                next: Instant::ZERO,
            },
            waits: false,
            fin_seen: false,
            report: FlowReport::NEW,
        });
        Self {
            host,
            flows: flows.collect(),
        }
    }

    /// The connection of flow number `flow`, once there is one.
    pub fn connection(&self, flow: usize) -> Option<ConnId> {
        self.flows.get(flow).and_then(|f| f.conn)
    }
}

impl OurFlow {
    /// Everything that can be done now.
    fn progress(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        let Some(conn) = self.conn.and_then(|id| tcp.connection_mut(id)) else {
            return;
        };
        let left = (self.flow.send - self.report.sent) as usize;
        if left > 0 {
            self.report.sent += conn.send(left, left).unwrap_or(0) as u64;
        }
        let n = self.pace.allows(self.flow.read, conn.readable(), now);
        if n > 0 {
            conn.consume(n, now);
            self.report.received += n;
            self.report.last_byte = now;
        }
        self.waits = conn.readable() > 0;
        self.report.wrong = conn.recv_buffer().mismatched;
        self.report.peer_closed = self.fin_seen && !self.waits;
        let done = self.report.sent == self.flow.send;
        let peer = self.report.peer_closed || self.flow.close == Close::WhenSent;
        if done && peer && conn.was_established() {
            conn.close(now);
        }
    }

    fn end<T: narrows::conn::TcpTypes>(&self, conn: &Connection<T>) -> FlowEnd {
        let whole = self.report.peer_closed && self.report.sent == self.flow.send;
        match conn.state() {
            State::TimeWait | State::Closed(CloseReason::Finished) if whole => FlowEnd::Finished,
            // What came before the peer's FIN is still being read.
            State::TimeWait => FlowEnd::Open,
            State::Closed(CloseReason::Finished) if self.fin_seen && self.waits => FlowEnd::Open,
            // The peer's TIME-WAIT can end before one of our FINs gets through, or an answer to
            // it; what came over is for the peer to say.
            State::Closed(CloseReason::Reset) if whole => FlowEnd::Finished,
            State::Closed(_) => FlowEnd::Failed,
            _ => FlowEnd::Open,
        }
    }
}

impl SimApp for OurFlows {
    fn start(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        for f in &mut self.flows {
            match f.flow.open {
                Open::Active { port, to } => {
                    let local = SocketAddr::new(address_of(self.host), port);
                    f.conn = tcp.connect(now, local, to, None).ok();
                    if f.conn.is_none() {
                        f.report.end = FlowEnd::Failed;
                    }
                }
                Open::Passive { port } => {
                    let local = SocketAddr::new(address_of(self.host), port);
                    f.listener = tcp.listen(local, 16, None).ok();
                }
            }
        }
    }

    fn event(&mut self, tcp: &mut SimEndpoint, now: Instant, event: EndpointEvent) {
        let f = match event {
            EndpointEvent::Accepted { listener, conn } => {
                let f = self.flows.iter_mut().find(|f| f.listener == Some(listener));
                let Some(f) = f.filter(|f| f.conn.is_none()) else {
                    return;
                };
                f.conn = Some(conn);
                f
            }
            EndpointEvent::Conn { conn, event } => {
                let Some(f) = self.flows.iter_mut().find(|f| f.conn == Some(conn)) else {
                    return;
                };
                f.fin_seen |= event == Event::PeerClosed;
                f
            }
        };
        f.progress(tcp, now);
    }

    fn timeout(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        for f in self
            .flows
            .iter_mut()
            .filter(|f| f.waits && f.pace.next <= now)
        {
            f.progress(tcp, now);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.flows
            .iter()
            .filter(|f| f.waits)
            .map(|f| f.pace.next)
            .min()
    }
}

/// A host of either kind.
#[allow(clippy::large_enum_variant)] // A handful of hosts.
pub enum MixedHost<A> {
    /// The TCP of narrows.
    Ours(TcpHost<A>),
    /// The TCP of smoltcp.
    Smoltcp(SmoltcpHost),
}

impl MixedHost<OurFlows> {
    /// How each flow stands.
    pub fn reports(&self) -> Vec<FlowReport> {
        match self {
            Self::Ours(host) => {
                let flows = host.app.flows.iter();
                flows
                    .map(|f| match f.conn.and_then(|id| host.tcp().connection(id)) {
                        Some(conn) => FlowReport {
                            end: f.end(conn),
                            ..f.report
                        },
                        None => f.report,
                    })
                    .collect()
            }
            Self::Smoltcp(host) => host.reports(),
        }
    }
}

impl<A: SimApp> Host for MixedHost<A> {
    type Packet = SimPacket;

    fn handle_start(&mut self, now: Instant) {
        match self {
            Self::Ours(h) => h.handle_start(now),
            Self::Smoltcp(h) => h.handle_start(now),
        }
    }
    fn handle_packet(&mut self, now: Instant, packet: &SimPacket) {
        match self {
            Self::Ours(h) => h.handle_packet(now, packet),
            Self::Smoltcp(h) => h.handle_packet(now, packet),
        }
    }
    fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Ours(h) => h.handle_timeout(now),
            Self::Smoltcp(h) => h.handle_timeout(now),
        }
    }
    fn poll_transmit(&mut self, now: Instant, room: impl FnOnce() -> NicRoom) -> Option<SimPacket> {
        match self {
            Self::Ours(h) => h.poll_transmit(now, room),
            Self::Smoltcp(h) => h.poll_transmit(now, room),
        }
    }
    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Ours(h) => h.poll_timeout(),
            Self::Smoltcp(h) => h.poll_timeout(),
        }
    }
    fn local_drop(&mut self, now: Instant, packet: SimPacket) {
        match self {
            Self::Ours(h) => h.local_drop(now, packet),
            Self::Smoltcp(h) => h.local_drop(now, packet),
        }
    }
    fn waits_for_nic(&self) -> bool {
        match self {
            Self::Ours(h) => h.waits_for_nic(),
            Self::Smoltcp(h) => h.waits_for_nic(),
        }
    }
}
