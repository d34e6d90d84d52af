//! Client and server of a live incast on our TCP.

use super::blocks::{Answers, Blocks, Next};
use super::content::Content;
use narrows::Instant;
use narrows::conn::Event;
use narrows::driver::LiveTcp;
use narrows::driver::poll::Application;
use narrows::endpoint::{ConnId, EndpointEvent};
use narrows::interface::Interface;
use narrows_experiment::scenario::Outcome;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

type Tcp = Interface<LiveTcp>;

/// What a host of ours is.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // There is one client, and then no server.
pub(super) enum Role {
    Server(Server),
    Client(Client),
}

/// Answers the client's requests.
#[derive(Debug)]
pub(super) struct Server {
    at: SocketAddr,
    answers: Answers,
    content: Arc<Content>,
    pub(super) conn: Option<ConnId>,
    /// The connection gave up.
    pub(super) lost: bool,
}

/// Asks for blocks.
#[derive(Debug)]
pub(super) struct Client {
    servers: Vec<SocketAddr>,
    pub(super) conns: Vec<ConnId>,
    connected: usize,
    /// By server: bytes received.
    heard: Vec<u64>,
    content: Arc<Content>,
    pub(super) blocks: Blocks,
}

impl Server {
    pub(super) fn new(at: SocketAddr, answers: Answers, content: Arc<Content>) -> Self {
        Self {
            at,
            answers,
            content,
            conn: None,
            lost: false,
        }
    }

    /// Bytes of answers that its TCP has taken.
    pub(super) fn sent(&self) -> u64 {
        self.answers.sent()
    }

    fn write(&mut self, tcp: &mut Tcp) {
        let Some(conn) = self.conn else { return };
        let Some(conn) = tcp.endpoint_mut().connection_mut(conn) else {
            return;
        };
        loop {
            let bytes = self.content.of(&self.answers);
            if bytes.is_empty() {
                return;
            }
            let taken = conn.send(bytes, bytes.len()).unwrap_or(0);
            self.answers.take(taken);
            if taken < bytes.len() {
                return;
            }
        }
    }

    fn event(&mut self, tcp: &mut Tcp, now: Instant, event: EndpointEvent) {
        match event {
            EndpointEvent::Accepted { conn, .. } => self.conn = Some(conn),
            EndpointEvent::Conn { conn, event } => match event {
                Event::Closed(_) => self.lost = true,
                Event::Readable => {
                    if let Some(conn) = tcp.endpoint_mut().connection_mut(conn) {
                        let n = conn.readable();
                        conn.consume(n, now);
                        self.answers.hear(n, now);
                    }
                    self.answers.begin(now);
                    self.write(tcp);
                }
                Event::Writable => self.write(tcp),
                _ => {}
            },
        }
    }
}

impl Client {
    pub(super) fn new(servers: Vec<SocketAddr>, blocks: Blocks, content: Arc<Content>) -> Self {
        Self {
            conns: Vec::with_capacity(servers.len()),
            connected: 0,
            heard: vec![0; servers.len()],
            servers,
            content,
            blocks,
        }
    }

    fn ask(&mut self, tcp: &mut Tcp, now: Instant) {
        let request = vec![b'?'; self.blocks.request()];
        for server in self.blocks.ask(now) {
            let conn = self.conns.get(server).copied();
            let conn = conn.and_then(|id| tcp.endpoint_mut().connection_mut(id));
            let sent = conn.and_then(|conn| conn.send(&request, request.len()).ok());
            if sent != Some(request.len()) {
                self.blocks.outcome = Some(Outcome::ConnectionLost);
            }
        }
    }

    fn read(&mut self, tcp: &mut Tcp, now: Instant, id: ConnId) {
        let Some(server) = self.conns.iter().position(|c| *c == id) else {
            return;
        };
        let Some(conn) = tcp.endpoint_mut().connection_mut(id) else {
            return;
        };
        let mut n = 0;
        for piece in conn.recv_buffer().slices(conn.readable_end()) {
            if !self.content.is(self.heard[server] + n, piece) {
                self.blocks.outcome = Some(Outcome::CorruptData);
            }
            n += piece.len() as u64;
        }
        conn.consume(n, now);
        self.heard[server] += n;
        if self.blocks.took(server, n, now) == Next::Ask {
            self.ask(tcp, now);
        }
    }

    fn event(&mut self, tcp: &mut Tcp, now: Instant, event: EndpointEvent) {
        let EndpointEvent::Conn { conn, event } = event else {
            return;
        };
        match event {
            Event::Connected => {
                self.connected += 1;
                if self.connected == self.servers.len() {
                    self.ask(tcp, now);
                }
            }
            Event::Readable => self.read(tcp, now, conn),
            Event::Closed(_) | Event::PeerClosed => {
                self.blocks.outcome.get_or_insert(Outcome::ConnectionLost);
            }
            _ => {}
        }
    }
}

impl Application<LiveTcp> for Role {
    fn start(&mut self, tcp: &mut Tcp, now: Instant) -> io::Result<()> {
        match self {
            Self::Server(s) => {
                tcp.listen(s.at, 16, None).map_err(io::Error::other)?;
            }
            Self::Client(c) => {
                for server in &c.servers {
                    let conn = tcp.connect(now, None, *server, None);
                    c.conns.push(conn.map_err(io::Error::other)?);
                }
            }
        }
        Ok(())
    }

    fn event(&mut self, tcp: &mut Tcp, now: Instant, event: EndpointEvent) {
        match self {
            Self::Server(s) => s.event(tcp, now, event),
            Self::Client(c) => c.event(tcp, now, event),
        }
    }

    fn wake(&mut self, tcp: &mut Tcp, now: Instant) {
        match self {
            Self::Server(s) => {
                s.answers.begin(now);
                s.write(tcp);
            }
            Self::Client(c) => c.blocks.look_at(now),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Server(s) => s.answers.next(),
            Self::Client(c) => c.blocks.deadline().filter(|_| !self.is_done()),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Self::Server(_) => false,
            Self::Client(c) => c.blocks.outcome.is_some(),
        }
    }
}
