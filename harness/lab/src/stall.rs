//! A busy port on hosts of the kernel's: the live twin of traffic `node-mesh`, for one node.
//!
//! A node answers requests of others, one at a time, over a connection with each. Before each
//! connection is a queue of its own; what the kernel takes of it is bounded (`SO_SNDBUF`). If a queue
//! comes to the limit, the node is suspended until nearly all of it is written
//! ([`BusyLimit`](narrows_experiment::traffic::BusyLimit)), and serves nobody. The way to the first
//! of the others is slow for a while. The clients' requests come at a rate, whatever the replies do.
//!
//! The node may be a host of ours ([`run_ours`]), whose link is its own. Or all are what this is the twin
//! of, nodes of Erlang/OTP ([`erlang`]).
//!
//! What it leaves out: that all nodes are servers of each other.

mod clients;
pub mod erlang;
mod node;

use crate::lab::{self, FRAME, KernelHost, Owned, Plug, Port};
use crate::rack::{Rack, Waiter, Wire};
use crate::shaper::{RouteRules, Shape};
use crate::sockets;
use crate::{LiveError, joined};
use clients::Clients;
use narrows::config::{Buffers, TcpConfig};
use narrows::driver::{Clock, RealTime};
use narrows::{ByteCount, Instant, Rate};
use node::{Node, OfKernel, OfOurs};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const PORT: u16 = 5_001;
const CHUNK: usize = 64 << 10;
/// The number of the node that serves; the others follow.
const SERVER: u8 = 1;

/// What a node does whose queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyPolicy {
    /// It is suspended.
    Suspend,
    /// It goes on, and the queue grows.
    Async,
    /// A process of its own for each client is suspended in its place. Of nodes of Erlang/OTP alone.
    Relay,
    /// It does not send what would suspend it (`erlang:send/3`, `nosuspend`). Of nodes of Erlang/OTP
    /// alone.
    NoSuspend,
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
    pub busy_policy: BusyPolicy,
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

impl StallRun {
    /// Of when the node was suspended, and of the longest gap, in nanoseconds of one clock.
    fn new(stalls: &[(u64, u64)], gap: (u64, u64), most_queued: u64, replies: u64) -> Self {
        let (from, to) = gap;
        let within = stalls.iter();
        let within = within.map(|(a, b)| b.min(&to).saturating_sub(*a.max(&from)));
        let time = Duration::from_nanos;
        Self {
            suspended: stalls.iter().map(|(a, b)| time(b - a)).collect(),
            longest_gap: time(to - from),
            suspended_in_it: time(within.sum()),
            most_queued,
            replies,
        }
    }
}

/// Runs it in a lab of its own.
///
/// # Errors
/// See [`LiveError`].
pub fn run(spec: &StallSpec, cancel: &AtomicBool) -> Result<StallRun, LiveError> {
    spec.check_ours()?;
    let star = Star::new(spec)?;
    let server = star
        .lab
        .add_kernel_host(SERVER, &star.link, RouteRules::default())?;
    let listener = sockets::listen(&server.namespace, PORT, spec.clients, || {
        let socket = sockets::cubic()?;
        // What the kernel takes of a queue.
        socket.set_send_buffer_size(CHUNK)?;
        Ok(socket)
    });
    let listener = listener.map_err(failed)?;
    let accept = || {
        let node = sockets::accept(&listener)?;
        node.set_nodelay(true)?;
        node.set_nonblocking(true)?;
        Ok(node)
    };
    let (mut clients, mut node) = (Clients::new(spec), OfKernel::new(Node::new(spec)));
    for host in &star.clients {
        clients.connect(host).map_err(failed)?;
        node.add(accept().map_err(failed)?);
    }
    let _ = RealTime::LOWEST.apply();
    let mut waiter = Waiter::new(2 * star.clients.len()).map_err(failed)?;
    clients.wait_with(&waiter).map_err(failed)?;
    node.wait_with(&waiter).map_err(failed)?;
    let begin = Clock.now();
    star.run(begin, &mut clients, cancel, &mut |now, next| {
        let busy = node.step(now)?;
        // Who waits for room is looked at each time.
        let soon = busy.then(|| Clock.now() + narrows::Duration::from_micros(100));
        waiter.wait([next, soon].into_iter().flatten().min())
    })?;
    Ok(clients.seen(node.node))
}

/// The same with a node that is a host of ours, with this TCP.
///
/// # Errors
/// See [`LiveError`].
pub fn run_ours(
    spec: &StallSpec,
    tcp: TcpConfig,
    cancel: &AtomicBool,
) -> Result<StallRun, LiveError> {
    spec.check_ours()?;
    let star = Star::new(spec)?;
    let plug = Plug::Tap { offload: false };
    let plugged = star.lab.lab().plug(SERVER..=SERVER, plug)?;
    let wire = Wire {
        rate: spec.rate,
        delay: narrows::Duration::ZERO,
        mtu: lab::MTU,
        overhead: narrows::Duration::ZERO,
        seed: 1,
    };
    // What its TCP takes of a queue: as much as the kernel's, which doubles what it is told.
    let buffers = Buffers {
        send: 2 * CHUNK,
        ..tcp.buffers
    };
    let tcp = Arc::new(TcpConfig { buffers, ..tcp });
    let begin = Clock.now();
    let mut rack = Rack::new(1, None, None)?;
    rack.add(plugged, wire, &tcp, OfOurs::new(Node::new(spec), begin))?;
    let stop = AtomicBool::new(false);
    let mut clients = Clients::new(spec);
    let (asked, served) = thread::scope(|scope| {
        let node = scope.spawn(|| {
            let _ = RealTime::LOWEST.apply();
            rack.run(&stop)
        });
        let mut ask = || -> Result<(), LiveError> {
            // One after the other: the node tells them by the order in which they came.
            for host in &star.clients {
                clients.connect(host).map_err(failed)?;
            }
            let mut waiter = Waiter::new(star.clients.len()).map_err(failed)?;
            clients.wait_with(&waiter).map_err(failed)?;
            star.run(begin, &mut clients, cancel, &mut |_, next| {
                waiter.wait(next)
            })
        };
        let asked = ask();
        stop.store(true, Ordering::Relaxed);
        (asked, node.join())
    });
    joined(served).map_err(|e| LiveError::io("ask and reply on a host of ours", e))?;
    asked?;
    let node = rack.hosts.pop().map(|host| host.app.node);
    Ok(clients.seen(node.unwrap_or_else(|| Node::new(spec))))
}

impl StallSpec {
    /// Whether a node can do it that is a program of this crate.
    fn check_ours(&self) -> Result<(), LiveError> {
        match self.busy_policy {
            BusyPolicy::Suspend | BusyPolicy::Async => Ok(()),
            BusyPolicy::Relay | BusyPolicy::NoSuspend => {
                let why = "relays, and sends that do not suspend, are of nodes of Erlang/OTP alone";
                Err(LiveError::Invalid(why.to_owned()))
            }
        }
    }
}

fn failed(e: io::Error) -> LiveError {
    LiveError::io("ask and reply on hosts of the kernel's", e)
}

/// The lab with its clients.
struct Star {
    spec: StallSpec,
    link: Shape,
    // Dropped in this order.
    clients: Vec<KernelHost>,
    lab: Owned,
}

impl Star {
    fn new(spec: &StallSpec) -> Result<Self, LiveError> {
        if !(2..=19).contains(&spec.clients) {
            return Err(LiveError::Invalid("from 2 to 19 clients".to_owned()));
        }
        let lab = Owned::for_run()?;
        let link = Shape::port(spec.rate, FRAME * 1_000);
        let numbers = SERVER + 1..=SERVER + spec.clients;
        let clients = numbers.map(|n| lab.add_kernel_host(n, &link, RouteRules::default()));
        let star = Self {
            spec: *spec,
            link,
            clients: clients.collect::<Result<_, _>>()?,
            lab,
        };
        star.carry(spec.rate)?;
        Ok(star)
    }

    /// What the way to the first client carries from now on.
    fn carry(&self, rate: Rate) -> Result<(), LiveError> {
        let port = Shape::port(rate, self.spec.buffer);
        self.lab.shape(Port::Further(SERVER + 1), &port).map(drop)
    }

    /// When that changes, and to what.
    fn changes(&self) -> VecDeque<(Duration, Rate)> {
        VecDeque::from([
            (self.spec.slow_from, self.spec.slow),
            (self.spec.slow_until, self.spec.rate),
        ])
    }

    /// Has the clients ask until it is over. `wait` has the time since the begin, and when it is to be
    /// over at the latest.
    fn run(
        &self,
        begin: Instant,
        clients: &mut Clients,
        cancel: &AtomicBool,
        wait: &mut dyn FnMut(u64, Option<Instant>) -> io::Result<()>,
    ) -> Result<(), LiveError> {
        let mut changes = self.changes();
        let from = Clock.now();
        let span = self.spec.span.as_nanos() as u64;
        let late = from.since(begin).as_nanos();
        clients.begin(late);
        loop {
            let now = Clock.now().since(from).as_nanos();
            if now >= span {
                return Ok(());
            }
            if cancel.load(Ordering::Relaxed) {
                return Err(failed(io::ErrorKind::Interrupted.into()));
            }
            if let Some((at, rate)) = changes.front().copied()
                && now >= at.as_nanos() as u64
            {
                changes.pop_front();
                self.carry(rate)?;
            }
            let next = clients.step(now + late).map_err(failed)?;
            let next = begin + narrows::Duration::from_nanos(next);
            wait(now + late, Some(next)).map_err(failed)?;
        }
    }
}
