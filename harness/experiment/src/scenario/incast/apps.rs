//! The applications of an incast: a client that reads blocks, servers that answer.

use super::blocks::{Answers, Blocks, Next};
use super::{CLIENT, PORT};
use crate::host::{App, SimEndpoint, address_of};
use crate::net::packet::HostId;
use crate::scenario::Outcome;
use crate::scenario::spec::IncastSpec;
use narrows::Instant;
use narrows::conn::Event;
use narrows::endpoint::{ConnId, EndpointEvent};
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
            Self::Server(s) => s.answers.next(),
        }
    }
}

/// Asks for blocks and waits for them.
#[derive(Debug)]
pub(super) struct Client {
    servers: u32,
    /// By server.
    pub(super) conn_ids: Vec<ConnId>,
    /// By server: the server of a connection index.
    server_of: Vec<u32>,
    connected: u32,
    pub(super) blocks: Blocks,
}

impl Client {
    pub(super) fn new(spec: &IncastSpec) -> Self {
        Self {
            servers: spec.servers,
            conn_ids: Vec::with_capacity(spec.servers as usize),
            server_of: Vec::new(),
            connected: 0,
            blocks: Blocks::new(spec),
        }
    }

    fn start(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        for server in 0..self.servers {
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
                Err(_) => self.blocks.outcome = Some(Outcome::ConnectionLost),
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
                if self.connected == self.servers {
                    self.ask(tcp, now);
                }
            }
            Event::Readable => self.read(tcp, conn, now),
            Event::Closed(_) | Event::PeerClosed => {
                self.blocks.outcome = Some(Outcome::ConnectionLost)
            }
            Event::Writable | Event::Urgent | Event::SoftError(_) => {}
        }
    }

    /// Ask every server for its part of the next block.
    fn ask(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        let size = self.blocks.request();
        for server in self.blocks.ask(now) {
            if let Some(conn) = tcp.connection_mut(self.conn_ids[server])
                && conn.send(size, size) != Ok(size)
            {
                self.blocks.outcome = Some(Outcome::ConnectionLost);
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
            self.blocks.outcome = Some(Outcome::CorruptData);
            debug_assert!(false, "corrupt stream");
            return;
        }
        let server = self.server_of[id.index()] as usize;
        if self.blocks.took(server, n, now) == Next::Ask {
            self.ask(tcp, now);
        }
    }
}

/// Answers requests.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) conn: Option<ConnId>,
    /// The connection gave up.
    pub(super) lost: bool,
    answers: Answers,
}

impl Server {
    pub(super) fn new(spec: &IncastSpec, index: u32) -> Self {
        Self {
            conn: None,
            lost: false,
            answers: Answers::new(spec, index),
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
                self.answers.hear(n, now);
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
        self.answers.begin(now);
        self.write(tcp);
    }

    fn write(&mut self, tcp: &mut SimEndpoint) {
        let waiting = self.answers.waiting();
        if waiting == 0 {
            return;
        }
        let Some(conn) = self.conn.and_then(|id| tcp.connection_mut(id)) else {
            return;
        };
        let offer = usize::try_from(waiting).unwrap_or(usize::MAX);
        self.answers.take(conn.send(offer, offer).unwrap_or(0));
    }
}
