//! The applications of an incast: a client that reads blocks, servers that answer.

use super::{CLIENT, PORT};
use crate::host::{App, SimEndpoint, address_of};
use crate::net::packet::HostId;
use crate::scenario::Outcome;
use crate::scenario::spec::{IncastSpec, Length, RequestOrder};
use crate::sim::rng::{Component, Stream};
use crate::sim::time::SimTime;
use narrows::conn::Event;
use narrows::endpoint::{ConnId, EndpointEvent};
use narrows::{ByteCount, Duration, Instant};
use std::net::SocketAddr;

/// What a host of the run is.
#[derive(Debug)]
pub(super) enum Role {
    /// One among many servers, which are small.
    Client(Box<Client>),
    Server(Server),
}

impl App for Role {
    fn start(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        match self {
            Self::Client(c) => c.start(tcp, now),
            Self::Server(s) => s.start(tcp),
        }
    }
    fn event(&mut self, tcp: &mut SimEndpoint, now: Instant, event: EndpointEvent) {
        match self {
            Self::Client(c) => c.event(tcp, now, event),
            Self::Server(s) => s.event(tcp, now, event),
        }
    }
    fn timeout(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        match self {
            Self::Client(_) => {}
            Self::Server(s) => s.answer(tcp, now),
        }
    }
    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Client(_) => None,
            Self::Server(s) => s.answers.front().map(|(at, _)| *at),
        }
    }
}

/// Asks for blocks and waits for them.
#[derive(Debug)]
pub(super) struct Client {
    spec: IncastSpec,
    order: Stream,
    /// By server.
    pub(super) conn_ids: Vec<ConnId>,
    /// By server: the server of a connection index.
    server_of: Vec<u32>,
    connected: u32,
    /// By server: bytes of the block still to come.
    missing: Vec<u64>,
    unfinished: u32,
    asked_at: Instant,
    pub(super) began: Option<Instant>,
    pub(super) last_byte: Instant,
    pub(super) payload: ByteCount,
    pub(super) block_times: Vec<Duration>,
    pub(super) outcome: Option<Outcome>,
}

impl Client {
    pub(super) fn new(spec: &IncastSpec) -> Self {
        Self {
            order: Stream::new(spec.seed, Component::Scenario, 0),
            conn_ids: Vec::with_capacity(spec.servers as usize),
            server_of: Vec::new(),
            connected: 0,
            missing: vec![0; spec.servers as usize],
            unfinished: 0,
            asked_at: Instant::ZERO,
            began: None,
            last_byte: Instant::ZERO,
            payload: ByteCount::ZERO,
            block_times: Vec::new(),
            outcome: None,
            spec: spec.clone(),
        }
    }

    fn start(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        for server in 0..self.spec.servers {
            let local = SocketAddr::new(address_of(CLIENT), 0);
            let remote = SocketAddr::new(address_of(HostId(server + 1)), PORT);
            match tcp.connect(now, local, remote, None) {
                Ok(id) => {
                    self.conn_ids.push(id);
                    if self.server_of.len() <= id.index() {
                        self.server_of.resize(id.index() + 1, u32::MAX);
                    }
                    self.server_of[id.index()] = server;
                }
                Err(_) => self.outcome = Some(Outcome::ConnectionLost),
            }
        }
    }

    fn event(&mut self, tcp: &mut SimEndpoint, now: Instant, event: EndpointEvent) {
        let EndpointEvent::Conn { conn, event } = event else {
            return;
        };
        match event {
            Event::Connected => {
                self.connected += 1;
                if self.connected == self.spec.servers {
                    self.began = Some(now);
                    self.ask(tcp, now);
                }
            }
            Event::Readable => self.read(tcp, conn, now),
            Event::Closed(_) | Event::PeerClosed => self.outcome = Some(Outcome::ConnectionLost),
            Event::Writable | Event::Urgent | Event::SoftError(_) => {}
        }
    }

    /// Ask every server for its part of the next block.
    fn ask(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        let n = self.spec.servers;
        self.asked_at = now;
        self.unfinished = n;
        for server in 0..n {
            self.missing[server as usize] = self.spec.block.share(server, n).get();
        }
        let mut servers: Vec<u32> = (0..n).collect();
        if self.spec.request.order == RequestOrder::Shuffled {
            self.order.shuffle(&mut servers);
        }
        let size = self.spec.request.size.as_usize();
        for server in servers {
            if let Some(conn) = tcp.connection_mut(self.conn_ids[server as usize])
                && conn.send(size, size) != Ok(size)
            {
                self.outcome = Some(Outcome::ConnectionLost);
            }
        }
    }

    fn read(&mut self, tcp: &mut SimEndpoint, id: ConnId, now: Instant) {
        let Some(conn) = tcp.connection_mut(id) else {
            return;
        };
        let n = conn.readable();
        conn.consume(n, now);
        if conn.recv_buffer().mismatched > 0 {
            // The TCP delivered a wrong byte: nothing it says can be trusted.
            self.outcome = Some(Outcome::CorruptData);
            debug_assert!(false, "corrupt stream");
        }
        self.payload += ByteCount::new(n);
        self.last_byte = now;
        let missing = &mut self.missing[self.server_of[id.index()] as usize];
        debug_assert!(*missing >= n, "a server sent more than it was asked for");
        *missing = missing.saturating_sub(n);
        if *missing > 0 || n == 0 {
            return;
        }
        self.unfinished -= 1;
        if self.unfinished > 0 {
            return;
        }
        self.block_times.push(now.since(self.asked_at));
        match self.spec.length {
            Length::Blocks { blocks, .. } if self.block_times.len() >= blocks as usize => {
                self.outcome = Some(Outcome::Completed);
            }
            _ => self.ask(tcp, now),
        }
    }
}

/// Answers requests.
#[derive(Debug)]
pub(super) struct Server {
    share: u64,
    request: u64,
    jitter: SimTime,
    random: Stream,
    pub(super) conn: Option<ConnId>,
    /// The connection gave up.
    pub(super) lost: bool,
    /// Bytes of a request that have come.
    heard: u64,
    /// Answers to begin: when, and how much.
    answers: std::collections::VecDeque<(Instant, u64)>,
    /// Bytes that the send buffer has not taken.
    waiting: u64,
}

impl Server {
    pub(super) fn new(spec: &IncastSpec, index: u32) -> Self {
        Self {
            share: spec.block.share(index, spec.servers).get(),
            request: spec.request.size.get(),
            jitter: SimTime::from_duration(spec.start_jitter),
            random: Stream::new(spec.seed, Component::Start, u64::from(index) + 1),
            conn: None,
            lost: false,
            heard: 0,
            answers: std::collections::VecDeque::new(),
            waiting: 0,
        }
    }

    fn start(&mut self, tcp: &mut SimEndpoint) {
        let any = SocketAddr::from(([0, 0, 0, 0], PORT));
        let listening = tcp.listen(any, 16, None);
        debug_assert!(listening.is_ok(), "{listening:?}");
    }

    fn event(&mut self, tcp: &mut SimEndpoint, now: Instant, event: EndpointEvent) {
        match event {
            EndpointEvent::Accepted { conn, .. } => self.conn = Some(conn),
            EndpointEvent::Conn {
                event: Event::Closed(_),
                ..
            } => self.lost = true,
            EndpointEvent::Conn {
                conn,
                event: Event::Readable,
            } => {
                let Some(c) = tcp.connection_mut(conn) else {
                    return;
                };
                let n = c.readable();
                c.consume(n, now);
                self.heard += n;
                while self.heard >= self.request {
                    self.heard -= self.request;
                    let late = self.random.jitter(self.jitter).to_duration();
                    let at = self
                        .answers
                        .back()
                        .map_or(now + late, |(last, _)| (now + late).max(*last));
                    self.answers.push_back((at, self.share));
                }
                self.answer(tcp, now);
            }
            EndpointEvent::Conn {
                event: Event::Writable,
                ..
            } => self.write(tcp),
            EndpointEvent::Conn { .. } => {}
        }
    }

    /// Begin the answers that are due.
    fn answer(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        while let Some((at, share)) = self.answers.front().copied() {
            if at > now {
                break;
            }
            self.answers.pop_front();
            self.waiting += share;
        }
        self.write(tcp);
    }

    fn write(&mut self, tcp: &mut SimEndpoint) {
        if self.waiting == 0 {
            return;
        }
        let Some(conn) = self.conn.and_then(|id| tcp.connection_mut(id)) else {
            return;
        };
        let offer = usize::try_from(self.waiting).unwrap_or(usize::MAX);
        self.waiting -= conn.send(offer, offer).unwrap_or(0) as u64;
    }
}
