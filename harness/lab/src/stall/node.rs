//! The node: a queue before each connection, and one server for all, which a queue at its limit suspends.

use super::{BusyPolicy, CHUNK, PORT, SERVER, StallSpec};
use crate::lab;
use crate::rack::Waiter;
use crate::sockets;
use narrows::Instant;
use narrows::conn::Event;
use narrows::driver::LiveTcp;
use narrows::driver::poll::Application;
use narrows::endpoint::{ConnId, EndpointEvent};
use narrows::interface::Interface;
use narrows_experiment::traffic::BusyLimit;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};

/// The node without its connections, which are numbered. Times are nanoseconds since the begin.
pub(super) struct Node {
    spec: StallSpec,
    /// What waits before each connection.
    queued: Vec<u64>,
    /// From when each is busy, and until when.
    limits: Vec<BusyLimit>,
    /// Connections that have asked, in order.
    requests: VecDeque<usize>,
    /// By which it is suspended, and since when.
    suspended: Option<(usize, u64)>,
    /// All such times.
    pub(super) stalls: Vec<(u64, u64)>,
    /// The most bytes that its queues held.
    pub(super) most_queued: u64,
}

/// Has the TCP take bytes for a connection; how many it took.
type Taker<'a> = dyn FnMut(usize, &[u8]) -> io::Result<usize> + 'a;

impl Node {
    pub(super) fn new(spec: &StallSpec) -> Self {
        Self {
            spec: *spec,
            queued: vec![0; spec.clients.into()],
            limits: vec![BusyLimit::new(spec.busy_limit); spec.clients.into()],
            requests: VecDeque::new(),
            suspended: None,
            stalls: Vec::new(),
            most_queued: 0,
        }
    }

    /// The client of a connection asked so often.
    fn asked(&mut self, at: usize, times: u64) {
        self.requests.extend((0..times).map(|_| at));
    }

    fn is_busy(&self) -> bool {
        self.queued.iter().any(|queued| *queued > 0)
    }

    /// Answers what was asked, until it is suspended.
    fn serve(&mut self, now: u64, write: &mut Taker<'_>) -> io::Result<()> {
        for at in 0..self.queued.len() {
            self.flush(at, write)?;
        }
        if let Some((at, since)) = self.suspended {
            if self.limits[at].update(self.queued[at]) {
                return Ok(());
            }
            self.suspended = None;
            self.stalls.push((since, now));
        }
        while let Some(at) = self.requests.pop_front() {
            self.queued[at] += self.spec.reply.get();
            self.flush(at, write)?;
            self.most_queued = self.most_queued.max(self.queued.iter().sum());
            let busy = self.limits[at].update(self.queued[at]);
            if busy && self.spec.busy_policy == BusyPolicy::Suspend {
                self.suspended = Some((at, now));
                break;
            }
        }
        Ok(())
    }

    fn flush(&mut self, at: usize, write: &mut Taker<'_>) -> io::Result<()> {
        const DATA: &[u8] = &[b'!'; CHUNK];
        let queued = &mut self.queued[at];
        while *queued > 0 {
            let most = usize::try_from(*queued).map_or(CHUNK, |n| n.min(CHUNK));
            match write(at, &DATA[..most])? {
                0 => break,
                n => *queued -= n as u64,
            }
        }
        Ok(())
    }
}

/// With connections of the kernel's.
pub(super) struct OfKernel {
    pub(super) node: Node,
    streams: Vec<TcpStream>,
    buf: Vec<u8>,
}

impl OfKernel {
    pub(super) fn new(node: Node) -> Self {
        Self {
            node,
            streams: Vec::new(),
            buf: vec![0; CHUNK],
        }
    }

    pub(super) fn add(&mut self, stream: TcpStream) {
        self.streams.push(stream);
    }

    /// Has `waiter` wait for requests.
    pub(super) fn wait_with(&self, waiter: &Waiter) -> io::Result<()> {
        // Clients have the tokens before.
        let first = self.streams.len() as u64;
        let mut tokens = self.streams.iter().zip(first..);
        tokens.try_for_each(|(stream, token)| waiter.add(stream, token))
    }

    /// Takes requests and answers them; whether anything waits for room.
    pub(super) fn step(&mut self, now: u64) -> io::Result<bool> {
        for (at, stream) in self.streams.iter().enumerate() {
            self.node.asked(at, sockets::heard(stream, &mut self.buf)?);
        }
        let streams = &self.streams;
        let mut write = |at: usize, bytes: &[u8]| match (&streams[at]).write(bytes) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        };
        self.node.serve(now, &mut write)?;
        Ok(self.node.is_busy())
    }
}

/// With connections of ours, numbered in the order in which they came.
pub(super) struct OfOurs {
    pub(super) node: Node,
    begin: Instant,
    conns: Vec<ConnId>,
}

impl OfOurs {
    pub(super) fn new(node: Node, begin: Instant) -> Self {
        Self {
            node,
            begin,
            conns: Vec::new(),
        }
    }

    fn serve(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant) {
        let conns = &self.conns;
        let mut write = |at: usize, bytes: &[u8]| {
            let conn = conns.get(at).copied();
            let conn = conn.and_then(|conn| tcp.endpoint_mut().connection_mut(conn));
            Ok(conn.map_or(0, |conn| conn.send(bytes, bytes.len()).unwrap_or(0)))
        };
        // A connection that has ended takes nothing: the clients notice.
        let _ = self
            .node
            .serve(now.since(self.begin).as_nanos(), &mut write);
    }
}

impl Application<LiveTcp> for OfOurs {
    fn start(&mut self, tcp: &mut Interface<LiveTcp>, _: Instant) -> io::Result<()> {
        let [address, _] = lab::addresses(SERVER);
        let at = SocketAddr::new(address, PORT);
        let backlog = self.node.queued.len();
        tcp.listen(at, backlog, None).map_err(io::Error::other)?;
        Ok(())
    }

    fn event(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant, event: EndpointEvent) {
        match event {
            EndpointEvent::Accepted { conn, .. } => self.conns.push(conn),
            EndpointEvent::Conn { conn, event } => {
                if event == Event::Readable
                    && let Some(at) = self.conns.iter().position(|known| *known == conn)
                    && let Some(conn) = tcp.endpoint_mut().connection_mut(conn)
                {
                    let times = conn.readable();
                    conn.consume(times, now);
                    self.node.asked(at, times);
                }
                self.serve(tcp, now);
            }
        }
    }
}
