//! A receiver of the kernel's that merges, and packets that are marked on their way to it: how many it
//! then handles, and how long that takes. The live twin of `gro-marks`.
//!
//! A write is cut into segments as it leaves, which arrive together; a program in the receiver's driver
//! marks some of them ([`EcnDraw`]), and the poll merges them. The
//! connection has no ECN, so that the sender goes on as it would. Where the sender is the kernel's one
//! thread writes and reads, so the time of a write is the work of both hosts; it may be ours
//! ([`run_ours`]).

use crate::LiveError;
use crate::facing::{Facing, Replies};
use crate::pair::{End, Pair};
use crate::round::{MANY, Round};
use narrows::config::TcpConfig;
use narrows::device::marking::{Draw, EcnDraw};
use narrows::driver::Clock;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Writes of a measurement, each of 32 segments.
const WRITES: u32 = 2_000;
/// Before them, windows grow.
const WARM_UP: u32 = 200;

/// What a receiver made of marked packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MarkedRun {
    /// Share of the segments that were marked.
    pub marked: f64,
    /// Packets that the receiver handled of a write of 32 segments.
    pub packets: f64,
    /// Acknowledgements that it sent for a write.
    pub acks: f64,
    /// What a write took in the median, sent, merged and read.
    pub took: Duration,
}

/// Runs writes whose segments are marked as `draw` says.
///
/// # Errors
/// See [`LiveError`]; among others if this kernel's veth cannot merge, or not mark.
pub fn run(draw: Draw, cancel: &AtomicBool) -> Result<MarkedRun, LiveError> {
    let pair = Pair::new()?;
    let failed = |e| LiveError::io("merge packets that are marked", e);
    pair.a.cut().and_then(|()| pair.b.merge()).map_err(failed)?;
    let (from, to) = pair.connect(|_| Ok(())).map_err(failed)?;
    // Without marks, too, a program looks at each frame: it costs the same.
    let marking = pair.b.mark(draw)?;
    let write =
        |count, took: &mut dyn FnMut(u64)| Round::LARGE.repeat(&from, &to, count, cancel, took);
    let run = count(&pair.b, &marking, write);
    run.map_err(failed)
}

/// The same with a sender of ours at a TAP, which writes when the kernel's receiver asks for it. The time of
/// a write then has in it how long both threads wait for each other.
///
/// # Errors
/// As [`run`].
pub fn run_ours(draw: Draw, tcp: TcpConfig, cancel: &AtomicBool) -> Result<MarkedRun, LiveError> {
    let failed = |e| LiveError::io("merge packets of ours that are marked", e);
    let facing = Facing::new()?;
    facing.kernel.merge().map_err(failed)?;
    let marking = facing.kernel.mark(draw)?;
    let replies = Replies {
        request: 1,
        writes: vec![Round::LARGE.size],
    };
    let asked = facing.answering(tcp, replies, |kernel, socket| {
        count(kernel, &marking, |count, took| {
            ask(&socket, count, cancel, took)
        })
    });
    let run = asked.map_err(failed)?;
    Ok(MarkedRun {
        // A request is no acknowledgement.
        acks: run.acks - 1.0,
        ..run
    })
}

/// Asks for so many writes, one after the other.
fn ask(
    mut socket: &TcpStream,
    count: u32,
    cancel: &AtomicBool,
    took: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let mut data = vec![0; Round::LARGE.size];
    for _ in 0..count {
        if cancel.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let begin = Clock.now();
        socket.write_all(b"?")?;
        socket.read_exact(&mut data)?;
        took(Clock.now().since(begin).as_nanos());
    }
    Ok(())
}

/// What `receiver` counts of writes, of which `write` makes so many and tells the nanoseconds of each.
fn count(
    receiver: &End,
    marking: &EcnDraw,
    write: impl Fn(u32, &mut dyn FnMut(u64)) -> io::Result<()>,
) -> io::Result<MarkedRun> {
    write(WARM_UP, &mut |_| {})?;
    let (before, marks_before) = (receiver.counted()?, marking.marks()?);
    let mut took = Vec::new();
    write(WRITES, &mut |ns| took.push(ns))?;
    let handled = receiver.counted()?.since(&before);
    let marks = marking.marks()? - marks_before;
    took.sort_unstable();
    let each = |n: u64| n as f64 / f64::from(WRITES);
    Ok(MarkedRun {
        marked: each(marks) / MANY as f64,
        packets: each(handled.packets_in),
        acks: each(handled.segments_out),
        took: Duration::from_nanos(took[took.len() / 2]),
    })
}
