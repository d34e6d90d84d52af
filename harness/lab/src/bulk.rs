//! Endless flows between two hosts of the kernel's, of which the wire or the host at one end is
//! peculiar: the live twins of `rack-coalesce` and `enobufs`.
//!
//! [`hold`]: the receiver polls and merges, and its aggregates wait for more until a timer
//! (`gro_flush_timeout`), as interrupts of a NIC would; one flow has a large window, the other a
//! small one; the sender may be ours ([`hold_ours`]). [`local_drop`]: the sender's own queue is too
//! small, so that sends are refused. [`remembering`]: one flow after another from such a sender, and what
//! the second takes from the first.

pub mod remembering;

use crate::facing::{Facing, Stop};
use crate::lab::FRAME;
use crate::netlink::Netlink;
use crate::pair::{End, Pair};
use crate::round::SEGMENT;
use crate::shaper::Shape;
use crate::sockets;
use crate::{LOOK, LiveError, joined, sleep};
use narrows::config::TcpConfig;
use narrows::driver::Clock;
use narrows::driver::tokio::{Stack, TcpStream as Connection};
use narrows::{ByteCount, Rate};
use narrows_experiment::stats::quantile;
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const CHUNK: usize = 64 << 10;
/// Of the flows with a large window and with a small one.
const PORTS: [u16; 2] = [5_001, 5_002];
/// What waits before a link whose round trip is to be the receiver's: at 1 Gb/s a quarter of a
/// millisecond.
const WAITING: u64 = 32 << 10;
/// Full frames that tbf lets go at once.
const BURST: u64 = 16;

/// Two flows to a receiver that merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldSpec {
    /// What the link carries.
    pub rate: Rate,
    /// How long aggregates wait.
    pub hold: Duration,
    /// The receive buffer of the second flow, which keeps its window small.
    pub narrow: ByteCount,
    /// For how long it runs.
    pub span: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HoldRun {
    /// What the flow with a large window got, in bits a second.
    pub wide: f64,
    /// What the other one got.
    pub narrow: f64,
    /// Segments of an aggregate.
    pub segments_per_packet: f64,
    /// The smoothed round trip of the second flow, in the median of many looks; `None` if the kernel does
    /// not tell of its sockets.
    pub round_trip: Option<Duration>,
}

/// Runs two flows to a receiver whose aggregates wait.
///
/// # Errors
/// See [`LiveError`]; among others if this kernel's veth cannot merge.
pub fn hold(spec: &HoldSpec, cancel: &AtomicBool) -> Result<HoldRun, LiveError> {
    let pair = Pair::new()?;
    let failed = |e| LiveError::io("let aggregates wait at a host of the kernel's", e);
    pair.a.shape(&shape(spec.rate, WAITING)).map_err(failed)?;
    pair.a.cut().and_then(|()| pair.b.merge()).map_err(failed)?;
    let polls = u32::from(!spec.hold.is_zero());
    pair.b.hold_aggregates(spec.hold, polls).map_err(failed)?;
    let wide = pair.connect(|_| Ok(())).map_err(failed)?;
    let narrow = usize::try_from(spec.narrow.get()).unwrap_or(usize::MAX);
    let narrow = pair.connect(|socket| socket.set_recv_buffer_size(narrow));
    let flows = [wide, narrow.map_err(failed)?];
    let merged = pair.merged().map_err(failed)?;
    let (from, to): (Vec<_>, Vec<_>) = flows.into_iter().unzip();
    let diag = pair.a.namespace().run(Netlink::open_diag);
    let mut diag = diag.and_then(|diag| diag).map_err(failed)?;
    let mut seen = Vec::new();
    let mut look = || {
        let known = ends(&from[1]).and_then(|ends| diag.known(ends).ok());
        seen.extend(known.map(|known| known.round_trip));
    };
    let bytes = run((&from, &to), spec.span, cancel, &mut look).map_err(failed)?;
    let segments_per_packet = merged.segments_per_packet(&pair).map_err(failed)?;
    let rate = |n: u64| n as f64 * 8.0 / spec.span.as_secs_f64();
    Ok(HoldRun {
        wide: rate(bytes[0]),
        narrow: rate(bytes[1]),
        segments_per_packet,
        round_trip: middle(seen),
    })
}

/// The same with both flows from a host of ours at a TAP, whose port to the kernel's receiver carries the
/// rate.
///
/// # Errors
/// As [`hold`].
pub fn hold_ours(
    spec: &HoldSpec,
    tcp: TcpConfig,
    cancel: &AtomicBool,
) -> Result<HoldRun, LiveError> {
    let facing = Facing::new()?;
    facing.shape(&shape(spec.rate, WAITING))?;
    let failed = |e| LiveError::io("let aggregates of ours wait at a host of the kernel's", e);
    let narrow = usize::try_from(spec.narrow.get()).unwrap_or(usize::MAX);
    let receiver = &facing.kernel;
    receiver.merge().map_err(failed)?;
    let polls = u32::from(!spec.hold.is_zero());
    receiver.hold_aggregates(spec.hold, polls).map_err(failed)?;
    let listen = |port, buffer: Option<usize>| {
        sockets::listen(receiver.namespace(), port, 1, || {
            let socket = sockets::cubic()?;
            buffer.map_or(Ok(()), |n| socket.set_recv_buffer_size(n))?;
            Ok(socket)
        })
    };
    let listeners = [
        listen(PORTS[0], None).map_err(failed)?,
        listen(PORTS[1], Some(narrow)).map_err(failed)?,
    ];
    let at = PORTS.map(|port| SocketAddr::new(receiver.address(), port));
    let ours = move |stack: Stack, stop: Stop| async move {
        let connect = |at| tokio::time::timeout(sockets::CONNECT, Connection::connect(&stack, at));
        let (wide, narrow) = (connect(at[0]).await??, connect(at[1]).await??);
        let mut seen = Vec::new();
        let looking = async {
            loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
                let us = narrow.info()?.tcpi_rtt;
                seen.push(Duration::from_micros(us.into()));
            }
        };
        let ended = tokio::select! {
            ended = write_on(&wide) => ended,
            ended = write_on(&narrow) => ended,
            ended = looking => ended,
            _ = stop => Ok(()),
        };
        match ended {
            // It is the receivers that end.
            Err(e) if e.kind() != io::ErrorKind::ConnectionReset => Err(e),
            _ => Ok(seen),
        }
    };
    let kernels = |receiver: &End| {
        let streams = listeners.iter().map(sockets::accept);
        let streams: Vec<TcpStream> = streams.collect::<io::Result<_>>()?;
        let before = receiver.counted()?;
        let bytes = run((&[], &streams), spec.span, cancel, &mut || {})?;
        Ok((bytes, receiver.counted()?.since(&before).packets_in))
    };
    let (seen, (bytes, packets)) = facing.run(tcp, ours, kernels).map_err(failed)?;
    let rate = |n: u64| n as f64 * 8.0 / spec.span.as_secs_f64();
    let all: u64 = bytes.iter().sum();
    Ok(HoldRun {
        wide: rate(bytes[0]),
        narrow: rate(bytes[1]),
        segments_per_packet: all as f64 / SEGMENT as f64 / packets.max(1) as f64,
        round_trip: middle(seen),
    })
}

/// The addresses of a connection.
fn ends(stream: &TcpStream) -> Option<(SocketAddrV4, SocketAddrV4)> {
    match (stream.local_addr().ok()?, stream.peer_addr().ok()?) {
        (SocketAddr::V4(local), SocketAddr::V4(peer)) => Some((local, peer)),
        _ => None,
    }
}

/// The median.
fn middle(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort_unstable();
    quantile(&times, 500)
}

/// Until it fails.
async fn write_on(stream: &Connection) -> io::Result<()> {
    let data = vec![0; CHUNK];
    loop {
        stream.writable().await?;
        match stream.try_write(&data) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            other => drop(other?),
        }
    }
}

/// A flow through a queue of the sender's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalDropSpec {
    /// What the link carries.
    pub rate: Rate,
    /// What may wait before it.
    pub limit: ByteCount,
    /// For how long it runs.
    pub span: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalDropRun {
    /// What the flow got, in bits a second.
    pub goodput: f64,
    /// Sends that the queue refused.
    pub refused: u64,
    /// Segments sent again.
    pub again: u64,
}

/// Runs a flow whose sends its own host refuses.
///
/// # Errors
/// See [`LiveError`].
pub fn local_drop(spec: &LocalDropSpec, cancel: &AtomicBool) -> Result<LocalDropRun, LiveError> {
    let pair = Pair::new()?;
    let failed = |e| LiveError::io("let the queue of a host of the kernel's refuse", e);
    let port = shape(spec.rate, spec.limit.get());
    pair.a.shape(&port).map_err(failed)?;
    // Of a super-frame the shaper queues what fits, and the rest is lost without a word.
    pair.a.limit_segments(1).map_err(failed)?;
    let flow = pair.connect(|_| Ok(())).map_err(failed)?;
    local_drop_at(&pair, flow, spec.span, cancel).map_err(failed)
}

/// Runs a flow and counts what comes of it.
fn local_drop_at(
    pair: &Pair,
    (from, to): (TcpStream, TcpStream),
    span: Duration,
    cancel: &AtomicBool,
) -> io::Result<LocalDropRun> {
    let (before, drops) = (pair.a.counted()?, pair.a.drops()?);
    let bytes = run((&[from], &[to]), span, cancel, &mut || {})?;
    Ok(LocalDropRun {
        goodput: bytes[0] as f64 * 8.0 / span.as_secs_f64(),
        refused: pair.a.drops()? - drops,
        again: pair.a.counted()?.since(&before).again,
    })
}

fn shape(rate: Rate, limit: u64) -> Shape {
    Shape {
        burst: FRAME * BURST,
        ..Shape::port(rate, ByteCount::new(limit))
    }
}

/// Writes at the first ends and reads at the second ones for `span`, and calls `look` now and then; the
/// bytes that were read.
fn run(
    (from, to): (&[TcpStream], &[TcpStream]),
    span: Duration,
    cancel: &AtomicBool,
    look: &mut dyn FnMut(),
) -> io::Result<Vec<u64>> {
    let stop = AtomicBool::new(false);
    let cancelled = || cancel.load(Ordering::Relaxed);
    thread::scope(|scope| {
        for from in from {
            scope.spawn(|| write(from, &stop));
        }
        let readers = to.iter().map(|to| scope.spawn(|| read(to, &stop)));
        let readers: Vec<_> = readers.collect();
        let begin = Clock.now();
        let over = || Clock.now().since(begin).as_nanos() >= span.as_nanos() as u64;
        while !over() && !cancelled() {
            sleep(LOOK);
            look();
        }
        stop.store(true, Ordering::Relaxed);
        for end in to.iter().chain(from) {
            // Who waits for room or data is woken.
            let _ = SockRef::from(end).shutdown(Shutdown::Both);
        }
        let bytes = readers.into_iter().map(|reader| joined(reader.join()));
        let bytes: io::Result<Vec<u64>> = bytes.collect();
        match cancelled() {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => bytes,
        }
    })
}

fn write(mut to: &TcpStream, stop: &AtomicBool) {
    let data = vec![0; CHUNK];
    while !stop.load(Ordering::Relaxed) && to.write_all(&data).is_ok() {}
}

fn read(mut from: &TcpStream, stop: &AtomicBool) -> io::Result<u64> {
    let mut buf = vec![0; CHUNK];
    let mut bytes = 0;
    while !stop.load(Ordering::Relaxed) {
        match from.read(&mut buf) {
            Ok(0) => break,
            Ok(n) => bytes += n as u64,
            Err(_) if stop.load(Ordering::Relaxed) => break,
            Err(e) => return Err(e),
        }
    }
    Ok(bytes)
}
