//! One connection of the kernel's after another through a queue of the sender's own that refuses, and what
//! the second begins with: the sender's kernel remembers the slow-start threshold of the first
//! (`tcp_metrics`), unless it was told to forget (`ip tcp_metrics flush`).

use super::{CHUNK, LocalDropRun, LocalDropSpec, ends, local_drop_at, shape};
use crate::netlink::{Known, Netlink};
use crate::pair::Pair;
use crate::sockets;
use crate::{LiveError, joined, sleep};
use narrows::ByteCount;
use narrows::driver::Clock;
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Between two looks whether a connection is gone.
const LOOK: Duration = Duration::from_millis(1);

/// Two flows, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RememberingSpec {
    /// The queue, and for how long the second runs.
    pub queue: LocalDropSpec,
    /// What the first carries. Then its receiver closes, and its sender.
    pub before: ByteCount,
    /// Whether the sender's kernel still remembers when the second begins.
    pub remembers: bool,
}

/// What came of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RememberingRun {
    /// The second flow.
    pub second: LocalDropRun,
    /// Of the first, and what the second has of it.
    pub thresholds: Thresholds,
}

/// Slow-start thresholds in segments; `None`: there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thresholds {
    /// What the first connection ends with.
    pub left: Option<u32>,
    /// What is remembered of the peer when the second begins.
    pub stored: Option<u32>,
    /// What the second begins with.
    pub begun: Option<u32>,
}

/// Runs both.
///
/// # Errors
/// See [`LiveError`]; among others if this kernel remembers nothing of peers.
pub fn remembering(
    spec: &RememberingSpec,
    cancel: &AtomicBool,
) -> Result<RememberingRun, LiveError> {
    let pair = Pair::new()?;
    let failed = |e| LiveError::io("let a host of the kernel's remember its peer", e);
    let RememberingSpec { queue, .. } = spec;
    pair.a
        .shape(&shape(queue.rate, queue.limit.get()))
        .and_then(|()| remember(&pair))
        .map_err(failed)?;
    // As in `local_drop`.
    pair.a.limit_segments(1).map_err(failed)?;
    let left = first(&pair, spec.before, cancel).map_err(failed)?;
    let stored = stored(&pair, spec.remembers).map_err(failed)?;
    let flow = pair.connect(|_| Ok(())).map_err(failed)?;
    let begun = known(&pair, &flow.0).map_err(failed)?.ssthresh;
    let second = local_drop_at(&pair, flow, queue.span, cancel).map_err(failed)?;
    let thresholds = Thresholds {
        left,
        stored,
        begun,
    };
    Ok(RememberingRun { second, thresholds })
}

/// Lets the sender's kernel store what it learns of its peer, thresholds among it.
fn remember(pair: &Pair) -> io::Result<()> {
    pair.a.set("tcp_no_metrics_save", "0")?;
    match pair.a.set("tcp_no_ssthresh_metrics_save", "0") {
        // A kernel that does not ask stores them.
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// What the sender's kernel knows of a connection.
fn known(pair: &Pair, from: &TcpStream) -> io::Result<Known> {
    let ends = ends(from).ok_or(io::ErrorKind::AddrNotAvailable)?;
    let ask = || Netlink::open_diag()?.known(ends);
    pair.a.namespace().run(ask)?
}

/// What is stored of the peer, after all is forgotten unless it `remembers`.
fn stored(pair: &Pair, remembers: bool) -> io::Result<Option<u32>> {
    let IpAddr::V4(peer) = pair.b.address() else {
        return Ok(None);
    };
    let ask = || {
        let mut netlink = Netlink::open_generic()?;
        if !remembers {
            netlink.forget_peers()?;
        }
        netlink.remembered_threshold(peer)
    };
    pair.a.namespace().run(ask)?
}

/// A connection that carries so much and is closed, and the threshold that it ends with.
fn first(pair: &Pair, size: ByteCount, cancel: &AtomicBool) -> io::Result<Option<u32>> {
    let (from, to) = pair.connect(|_| Ok(()))?;
    // An end by a reset stores nothing.
    SockRef::from(&from).set_linger(None)?;
    thread::scope(|scope| {
        let writing = scope.spawn(|| write(&from, size));
        let read = read(&to, size, cancel);
        if read.is_err() {
            // Who waits for room is woken.
            let _ = from.shutdown(Shutdown::Both);
        }
        read.and(joined(writing.join()))
    })?;
    to.shutdown(Shutdown::Write)?;
    // When the end comes all is acknowledged.
    (&from).read_exact(&mut [0]).map_or_else(
        |e| match e.kind() {
            io::ErrorKind::UnexpectedEof => Ok(()),
            _ => Err(e),
        },
        |()| Err(io::ErrorKind::InvalidData.into()),
    )?;
    let left = known(pair, &from)?.ssthresh;
    let ends = ends(&from).ok_or(io::ErrorKind::AddrNotAvailable)?;
    drop(from);
    await_closed(pair, ends)?;
    Ok(left)
}

fn write(mut to: &TcpStream, size: ByteCount) -> io::Result<()> {
    let chunk = vec![0; CHUNK];
    let mut left = size.get();
    while left > 0 {
        let n = left.min(CHUNK as u64);
        to.write_all(&chunk[..n as usize])?;
        left -= n;
    }
    Ok(())
}

fn read(mut from: &TcpStream, size: ByteCount, cancel: &AtomicBool) -> io::Result<()> {
    let mut buf = vec![0; CHUNK];
    let mut left = size.get();
    while left > 0 {
        if cancel.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match from.read(&mut buf)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => left = left.saturating_sub(n as u64),
        }
    }
    Ok(())
}

/// Until the sender's kernel has no such connection: what it stores it has stored by then.
fn await_closed(pair: &Pair, ends: (SocketAddrV4, SocketAddrV4)) -> io::Result<()> {
    let mut diag = pair.a.namespace().run(Netlink::open_diag)??;
    let begin = Clock.now();
    while diag.known(ends).is_ok() {
        if Clock.now().since(begin) > sockets::CONNECT.into() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sleep(LOOK);
    }
    Ok(())
}
