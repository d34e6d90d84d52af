//! Calls to one host through a port that marks: where tails come from that a receiver of DCTCP makes, or a
//! queue that stands. All hosts are the kernel's ([`run`]), or ours ([`run_ours`]).
//!
//! It is the live twin of traffic `rpc` as the story `rack tails` has it: calls of two sizes over
//! connections that stay open, one at a time on each. One thread does what the applications of all hosts do.

mod calls;

use crate::counters::Counters;
use crate::lab::{self, FRAME, KernelHost, Owned, Plug, Port, Watch};
use crate::shaper::{RouteRules, Shape};
use crate::sockets;
use crate::{LiveError, joined, sleep};
use narrows::config::TcpConfig;
use narrows::device::marking::QueueDepth;
use narrows::driver::RealTime;
use narrows::driver::tokio::{Stack, TcpListener, TcpStream};
use narrows::interface::InterfaceConfig;
use narrows::{ByteCount, Rate};
use std::io;
use std::net::{self, SocketAddr};
use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};
use tokio::net::TcpStream as KernelStream;
use tokio::task::JoinHandle;

const PORT: u16 = 5_005;
const SERVER: u8 = 1;
/// From one sample of the port's queue to the next.
const SAMPLE: Duration = Duration::from_millis(5);
/// What may wait in the port to the server.
pub const BUFFER: ByteCount = ByteCount::new(1_000_000);
/// Full frames that fit in it.
pub const BUFFER_FRAMES: u64 = BUFFER.get() / FRAME.get();

/// What runs.
#[derive(Clone, Debug)]
pub struct TailsSpec {
    /// What the port to the server carries; and the links of hosts of the kernel's.
    pub rate: Rate,
    /// It marks above so many packets.
    pub mark_above: u32,
    /// Hosts that call.
    pub clients: u8,
    /// Sizes of requests, each with the connections of a client that make them.
    pub calls: Vec<(ByteCount, u8)>,
    /// Calls that begin before are not counted, nor is what happens until then.
    pub warm_up: Duration,
    /// For how long calls begin then.
    pub span: Duration,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct TailsRun {
    /// How long calls took that ended in time, by size.
    pub took: Vec<Vec<Duration>>,
    /// Packets that waited in the port, on the mean of many looks.
    pub mean_queue: f64,
    /// What was counted.
    pub counts: Counts,
}

/// What clients and the port count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Retransmission timeouts of the clients, all in all.
    pub timeouts: u64,
    /// Segments that they sent again.
    pub sent_again: u64,
    /// Packets that the port dropped.
    pub drops: u64,
    /// Packets that it marked.
    pub marks: u64,
}

impl Counts {
    fn with(self, other: Self, f: fn(u64, u64) -> u64) -> Self {
        Self {
            timeouts: f(self.timeouts, other.timeouts),
            sent_again: f(self.sent_again, other.sent_again),
            drops: f(self.drops, other.drops),
            marks: f(self.marks, other.marks),
        }
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }
}

impl TailsSpec {
    fn check(&self) -> Result<(), LiveError> {
        match self.clients {
            1..=50 => Ok(()),
            _ => Err(LiveError::Invalid("from 1 to 50 clients".to_owned())),
        }
    }

    /// The port to the server.
    fn port(&self) -> Shape {
        Shape {
            mark_above: Some(QueueDepth::Packets(self.mark_above)),
            ..Shape::port(self.rate, BUFFER)
        }
    }

    /// The place in `calls` of each connection of a client.
    fn connections(&self) -> impl Iterator<Item = usize> {
        let calls = self.calls.iter().enumerate();
        calls.flat_map(|(nth, (_, connections))| (0..*connections).map(move |_| nth))
    }
}

/// Runs it on hosts of the kernel's with a congestion control at both ends, in a lab of their own. They
/// have no tail loss probes (`tcp_early_retrans`), nor ECN but by the congestion control's own will, and cut
/// super-frames, so that a packet of the port is a segment.
///
/// # Errors
/// See [`LiveError`]; [`LiveError::NoCongestion`] where this kernel has no such congestion control.
pub fn run(spec: &TailsSpec, congestion: &str, cancel: &AtomicBool) -> Result<TailsRun, LiveError> {
    spec.check()?;
    sockets::has(congestion)?;
    let failed = |e| LiveError::io("call hosts of the kernel's", e);
    let lab = Owned::for_run()?;
    let link = Shape::port(spec.rate, FRAME * 1_000);
    let mut hosts: Vec<KernelHost> = Vec::new();
    for number in SERVER..=SERVER + spec.clients {
        let host = lab.add_kernel_host(number, &link, RouteRules::default())?;
        prepare(&host).map_err(failed)?;
        hosts.push(host);
    }
    let watch = lab.shape(Port::Further(SERVER), &spec.port())?;
    let (server, clients) = hosts.split_first().ok_or_else(nobody).map_err(failed)?;
    let (asking, answering) = connect(spec, congestion, (server, clients)).map_err(failed)?;
    let outside = Outside { watch, clients };
    running(spec, outside, cancel, async |begins| {
        for stream in answering {
            tokio::spawn(calls::answer(KernelStream::from_std(stream)?));
        }
        let asking = asking.into_iter().map(|(nth, stream)| {
            let stream = KernelStream::from_std(stream)?;
            Ok((nth, stream))
        });
        let asking = asking.collect::<io::Result<Vec<_>>>()?;
        let by_hosts = |_: &KernelStream| Ok(Counts::default());
        calls::measure(asking, spec, by_hosts, begins).await
    })
    .map_err(failed)
}

fn prepare(host: &KernelHost) -> io::Result<()> {
    let variables = [
        ("tcp_no_metrics_save", "1"),
        ("tcp_early_retrans", "0"),
        ("tcp_ecn", "2"),
    ];
    let mut variables = variables.iter();
    variables.try_for_each(|(name, value)| host.namespace.set(name, value))?;
    host.cut()
}

/// The connections of the kernel's clients with the server: the clients' ends, each with its place in
/// [`TailsSpec::calls`], and the server's.
type Connections = (Vec<(usize, net::TcpStream)>, Vec<net::TcpStream>);

fn connect(
    spec: &TailsSpec,
    congestion: &str,
    (server, clients): (&KernelHost, &[KernelHost]),
) -> io::Result<Connections> {
    let socket = || sockets::with(congestion);
    let listener = sockets::listen(&server.namespace, PORT, u8::MAX, socket)?;
    let at = SocketAddr::new(lab::addresses(SERVER)[0], PORT);
    let (mut asking, mut answering) = (Vec::new(), Vec::new());
    for client in clients {
        for nth in spec.connections() {
            let stream = sockets::connect(&client.namespace, at, socket)?;
            let accepted = sockets::accept(&listener)?;
            accepted.set_nodelay(true)?;
            for stream in [&stream, &accepted] {
                stream.set_nonblocking(true)?;
            }
            asking.push((nth, stream));
            answering.push(accepted);
        }
    }
    Ok((asking, answering))
}

/// Runs it on hosts of ours at TAPs with a TCP, in a lab of their own.
///
/// # Errors
/// See [`LiveError`].
pub fn run_ours(
    spec: &TailsSpec,
    tcp: &TcpConfig,
    cancel: &AtomicBool,
) -> Result<TailsRun, LiveError> {
    spec.check()?;
    let lab = Owned::for_run()?;
    let mut plugged = Vec::new();
    for number in SERVER..=SERVER + spec.clients {
        let plug = Plug::Tap { offload: false };
        plugged.push(lab.lab().plug(number..=number, plug)?);
    }
    let outside = Outside {
        watch: lab.shape(Port::Host(SERVER), &spec.port())?,
        clients: &[],
    };
    running(spec, outside, cancel, async |begins| {
        let mut stacks = Vec::new();
        for host in plugged {
            let (mac, networks) = (lab::mac(host.number), lab::networks(host.number));
            let interface = InterfaceConfig::new(mac, networks);
            stacks.push(Stack::spawn(host.device, interface, tcp.clone())?);
        }
        let (server, clients) = stacks.split_first().ok_or_else(nobody)?;
        let at = SocketAddr::new(lab::addresses(SERVER)[0], PORT);
        let listener = TcpListener::bind(server, at).await?;
        let serving: JoinHandle<io::Result<()>> = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                tokio::spawn(calls::answer(stream));
            }
        });
        let mut streams = Vec::new();
        for client in clients {
            for nth in spec.connections() {
                let stream = TcpStream::connect(client, at);
                let stream = tokio::time::timeout(sockets::CONNECT, stream).await??;
                stream.set_nodelay(true)?;
                stream.set_zero_linger()?;
                streams.push((nth, stream));
            }
        }
        let counted = |stream: &TcpStream| {
            let info = stream.info()?;
            Ok(Counts {
                timeouts: info.tcpi_total_rto,
                sent_again: info.tcpi_total_retrans.into(),
                ..Counts::default()
            })
        };
        let run = calls::measure(streams, spec, counted, begins).await;
        serving.abort();
        run
    })
    .map_err(|e| LiveError::io("call hosts of ours", e))
}

fn nobody() -> io::Error {
    io::ErrorKind::NotFound.into()
}

/// What knows more than connections do: the port to the server, and clients whose TCP is the kernel's.
struct Outside<'a> {
    watch: Watch,
    clients: &'a [KernelHost],
}

impl Outside<'_> {
    fn counts(&mut self) -> io::Result<Counts> {
        let seen = self.watch.look()?;
        let port = Counts {
            drops: seen.drops,
            marks: seen.marks,
            ..Counts::default()
        };
        self.clients.iter().try_fold(port, |all, client| {
            let of = Counters::of(&client.namespace).map_err(io::Error::other)?;
            Ok(all
                + Counts {
                    timeouts: of.timeouts,
                    sent_again: of.retransmits,
                    ..Counts::default()
                })
        })
    }

    /// Looks from when it is told on, on a thread that waits for none of the hosts: what is counted
    /// meanwhile, and the mean of the packets that wait in the port. `None` if it is never told.
    fn look(
        mut self,
        begins: &Receiver<Instant>,
        span: Duration,
        cancel: &AtomicBool,
    ) -> io::Result<Option<(Counts, f64)>> {
        let Ok(from) = begins.recv() else {
            return Ok(None);
        };
        let _ = RealTime::LOWEST.apply();
        sleep(from.saturating_duration_since(now()));
        let before = self.counts()?;
        let (mut waiting, mut looks) = (0, 0);
        while now() < from + span && !cancel.load(Ordering::Relaxed) {
            waiting += self.watch.look()?.packets;
            looks += 1;
            sleep(SAMPLE);
        }
        let mean = waiting as f64 / f64::from(looks.max(1));
        Ok(Some((self.counts()? - before, mean)))
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "what is measured runs in real time"
)]
fn now() -> Instant {
    Instant::now()
}

/// Runs it on this thread, until `cancel` is set, and looks at it on another one.
fn running(
    spec: &TailsSpec,
    outside: Outside<'_>,
    cancel: &AtomicBool,
    work: impl AsyncFnOnce(&Sender<Instant>) -> io::Result<TailsRun>,
) -> io::Result<TailsRun> {
    let runtime = crate::runtime().map_err(io::Error::other)?;
    let (begins, told) = mpsc::channel();
    thread::scope(|scope| {
        let looking = scope.spawn(move || outside.look(&told, spec.span, cancel));
        let run = runtime.block_on(async {
            tokio::select! {
                run = work(&begins) => run,
                () = crate::cancelled(cancel) => Err(io::ErrorKind::Interrupted.into()),
            }
        });
        drop(begins);
        let looked = joined(looking.join());
        let (mut run, (counts, mean_queue)) = (run?, looked?.unwrap_or_default());
        run.counts = run.counts + counts;
        run.mean_queue = mean_queue;
        Ok(run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_connections_by_size() {
        let spec = TailsSpec {
            rate: Rate::from_mbps(1),
            mark_above: 1,
            clients: 0,
            calls: vec![(ByteCount::new(9), 2), (ByteCount::new(7), 1)],
            warm_up: Duration::ZERO,
            span: Duration::ZERO,
        };
        assert_eq!(spec.connections().collect::<Vec<_>>(), [0, 0, 1]);
        assert!(spec.check().is_err());
    }
}
