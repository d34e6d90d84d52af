//! A busy port on hosts of the kernel's: the live twin of traffic `node-mesh`, for one node.
//!
//! A node answers requests of others, one at a time, over a connection with each. Before each
//! connection is a queue of its own; what the kernel takes of it is bounded (`SO_SNDBUF`). If a queue
//! is at the limit, the node is suspended until it is below, and serves nobody. The way to the first
//! of the others is slow for a while. The clients' requests come at a rate, whatever the replies do.
//!
//! What it leaves out: that all nodes are servers of each other, and the emulator.

use crate::LiveError;
use crate::incast::Waiter;
use crate::lab::{self, KernelHost, Owned, Port};
use crate::shaper::{RouteRules, Shape};
use crate::sockets;
use narrows::driver::{Clock, RealTime};
use narrows::{ByteCount, Rate};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PORT: u16 = 5_001;
const CHUNK: usize = 64 << 10;
/// The number of the node that serves; the others follow.
const SERVER: u8 = 1;

/// What a node does whose queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// It is suspended.
    Suspend,
    /// It goes on, and the queue grows.
    Async,
}

/// What runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallSpec {
    /// Nodes that ask.
    pub clients: u8,
    /// What each port carries.
    pub rate: Rate,
    /// What the port to the first one carries for a while.
    pub slow: Rate,
    /// From when.
    pub slow_from: Duration,
    /// Until when.
    pub slow_until: Duration,
    /// What may wait in a port.
    pub buffer: ByteCount,
    /// From one request of a client to its next.
    pub every: Duration,
    /// How long a reply is.
    pub reply: ByteCount,
    /// From how much in its queue a connection is busy.
    pub busy_limit: ByteCount,
    /// What a node does then.
    pub writers: Writers,
    /// For how long it runs.
    pub span: Duration,
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StallRun {
    /// How long the node was suspended, each time.
    pub suspended: Vec<Duration>,
    /// The longest time without a reply to the clients whose way was never slow.
    pub longest_gap: Duration,
    /// For how long of it the node was suspended.
    pub suspended_in_it: Duration,
    /// The most bytes that its queues held.
    pub most_queued: u64,
    /// Replies to those clients.
    pub replies: u64,
}

/// Runs it in a lab of its own.
///
/// # Errors
/// See [`LiveError`].
pub fn run(spec: &StallSpec, cancel: &AtomicBool) -> Result<StallRun, LiveError> {
    if !(2..=19).contains(&spec.clients) {
        return Err(LiveError::Invalid("from 2 to 19 clients".to_owned()));
    }
    let name = format!("{}s{}", lab::OWNED_PREFIX, std::process::id());
    let lab = Owned::new(&name, None)?;
    let frame = u64::from(lab::MTU) + 14;
    let link = Shape {
        rate: spec.rate,
        limit: ByteCount::new(1_000 * frame),
        burst: ByteCount::new(2 * frame),
        mark_above: None,
    };
    let numbers = SERVER..=SERVER + spec.clients;
    let hosts = numbers.map(|n| lab.add_kernel_host(n, &link, RouteRules::default()));
    let hosts: Vec<KernelHost> = hosts.collect::<Result<_, _>>()?;
    let port = |rate| Shape {
        rate,
        limit: spec.buffer,
        ..link
    };
    let first = Port::Further(SERVER + 1);
    lab.shape(first, &port(spec.rate))?;
    let failed = |e| LiveError::io("ask and reply on hosts of the kernel's", e);
    let node = Node::new(spec, &hosts).map_err(failed)?;
    let _ = RealTime::LOWEST.apply();
    let mut change = |rate| lab.shape(first, &port(rate)).map(drop);
    node.run(&mut change, cancel)
}

/// A connection with a client: the node's end and the client's.
struct Way {
    node: TcpStream,
    client: TcpStream,
    /// What waits before the node's end.
    queued: u64,
    /// Bytes of a reply that the client has.
    heard: u64,
    last_reply: u64,
    next_request: u64,
}

struct Node {
    spec: StallSpec,
    ways: Vec<Way>,
    /// Clients that have asked, in order.
    requests: VecDeque<usize>,
    /// By which way it is suspended, and since when.
    suspended: Option<(usize, u64)>,
    /// All such times, of the run's nanoseconds.
    stalls: Vec<(u64, u64)>,
    seen: StallRun,
    gap: (u64, u64),
}

impl Node {
    fn new(spec: &StallSpec, hosts: &[KernelHost]) -> io::Result<Self> {
        let (server, clients) = hosts.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let bounded = || {
            let socket = sockets::cubic()?;
            // What the kernel takes of a queue.
            socket.set_send_buffer_size(CHUNK)?;
            Ok(socket)
        };
        let listener = sockets::listen(&server.namespace, PORT, spec.clients, bounded)?;
        let [address, _] = lab::addresses(SERVER);
        let address = SocketAddr::new(address, PORT);
        let mut ways = Vec::new();
        for client in clients {
            let client = sockets::connect(&client.namespace, address, sockets::cubic)?;
            let (node, _) = listener.accept()?;
            node.set_nodelay(true)?;
            for stream in [&client, &node] {
                stream.set_nonblocking(true)?;
            }
            ways.push(Way {
                node,
                client,
                queued: 0,
                heard: 0,
                last_reply: 0,
                next_request: 0,
            });
        }
        Ok(Self {
            spec: *spec,
            ways,
            requests: VecDeque::new(),
            suspended: None,
            stalls: Vec::new(),
            seen: StallRun::default(),
            gap: (0, 0),
        })
    }

    /// Until it is over. `change` sets what the way to the first client carries.
    fn run(
        mut self,
        change: &mut dyn FnMut(Rate) -> Result<(), LiveError>,
        cancel: &AtomicBool,
    ) -> Result<StallRun, LiveError> {
        let failed = |e| LiveError::io("ask and reply on hosts of the kernel's", e);
        let mut changes = VecDeque::from([
            (self.spec.slow_from, self.spec.slow),
            (self.spec.slow_until, self.spec.rate),
        ]);
        let mut waiter = Waiter::new(2 * self.ways.len()).map_err(failed)?;
        for (way, at) in self.ways.iter().zip(0_u64..) {
            waiter.add(&way.node, 2 * at).map_err(failed)?;
            waiter.add(&way.client, 2 * at + 1).map_err(failed)?;
        }
        let mut buf = vec![0; CHUNK];
        let begin = Clock.now();
        let span = self.spec.span.as_nanos() as u64;
        loop {
            let now = Clock.now().since(begin).as_nanos();
            if now >= span || cancel.load(Ordering::Relaxed) {
                break;
            }
            if let Some((at, rate)) = changes.front().copied()
                && now >= at.as_nanos() as u64
            {
                changes.pop_front();
                change(rate)?;
            }
            self.step(now, &mut buf, &mut waiter, begin)
                .map_err(failed)?;
        }
        let (from, to) = self.gap;
        let within = self
            .stalls
            .iter()
            .map(|(a, b)| b.min(&to).saturating_sub(*a.max(&from)));
        let time = Duration::from_nanos;
        self.seen.longest_gap = time(to - from);
        self.seen.suspended_in_it = time(within.sum());
        self.seen.suspended = self.stalls.iter().map(|(a, b)| time(b - a)).collect();
        Ok(self.seen)
    }

    fn step(
        &mut self,
        now: u64,
        buf: &mut [u8],
        waiter: &mut Waiter,
        begin: narrows::Instant,
    ) -> io::Result<()> {
        let every = self.spec.every.as_nanos() as u64;
        for way in &mut self.ways {
            while way.next_request <= now {
                way.next_request += every;
                match (&way.client).write(b"?") {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    other => drop(other?),
                }
            }
        }
        for at in 0..self.ways.len() {
            let asked = heard(&self.ways[at].node, buf)?;
            self.requests.extend((0..asked).map(|_| at));
            self.flush(at, buf)?;
            self.replied(at, now, buf)?;
        }
        self.serve(now, buf)?;
        let next = self.ways.iter().map(|way| way.next_request).min();
        let until = next.map(|ns| begin + narrows::Duration::from_nanos(ns));
        // Who waits for room is looked at each time.
        let busy = self.ways.iter().any(|way| way.queued > 0);
        let soon = narrows::Duration::from_micros(100);
        let soon = busy.then(|| Clock.now() + soon);
        waiter.wait(until.into_iter().chain(soon).min())
    }

    /// Answers what was asked, until it is suspended.
    fn serve(&mut self, now: u64, buf: &mut [u8]) -> io::Result<()> {
        let limit = self.spec.busy_limit.get();
        if let Some((at, since)) = self.suspended {
            if self.ways[at].queued >= limit {
                return Ok(());
            }
            self.suspended = None;
            self.stalls.push((since, now));
        }
        while let Some(at) = self.requests.pop_front() {
            self.ways[at].queued += self.spec.reply.get();
            self.flush(at, buf)?;
            let queued = self.ways.iter().map(|way| way.queued).sum();
            self.seen.most_queued = self.seen.most_queued.max(queued);
            if self.ways[at].queued >= limit && self.spec.writers == Writers::Suspend {
                self.suspended = Some((at, now));
                break;
            }
        }
        Ok(())
    }

    fn flush(&mut self, at: usize, buf: &[u8]) -> io::Result<()> {
        let way = &mut self.ways[at];
        while way.queued > 0 {
            let most = buf
                .len()
                .min(usize::try_from(way.queued).unwrap_or(usize::MAX));
            match (&way.node).write(&buf[..most]) {
                Ok(n) => way.queued -= n as u64,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// What a client has of its replies.
    fn replied(&mut self, at: usize, now: u64, buf: &mut [u8]) -> io::Result<()> {
        let way = &mut self.ways[at];
        way.heard += heard(&way.client, buf)?;
        let whole = way.heard / self.spec.reply.get();
        if whole == 0 {
            return Ok(());
        }
        way.heard %= self.spec.reply.get();
        if at > 0 {
            self.seen.replies += whole;
            if now - way.last_reply > self.gap.1 - self.gap.0 {
                self.gap = (way.last_reply, now);
            }
        }
        way.last_reply = now;
        Ok(())
    }
}

/// What there is to read of a stream, in bytes.
fn heard(mut stream: &TcpStream, buf: &mut [u8]) -> io::Result<u64> {
    match stream.read(buf) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(n) => Ok(n as u64),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
        Err(e) => Err(e),
    }
}
