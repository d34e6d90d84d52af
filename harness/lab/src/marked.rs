//! A receiver of the kernel's that merges, and packets that are marked on their way to it: how many it
//! then handles, and how long that takes. The live twin of `gro-marks`.
//!
//! A write is cut into segments as it leaves, which arrive together; a program in the receiver's driver
//! marks some of them ([`EcnDraw`](narrows::device::marking::EcnDraw)), and the poll merges them. The
//! connection has no ECN, so that the sender goes on as it would. One thread writes and reads, so the
//! time of a write is the work of both hosts.

use crate::LiveError;
use crate::pair::Pair;
use crate::round::Round;
use narrows::device::marking::Draw;
use std::sync::atomic::AtomicBool;
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
    let marks = || marking.marks();
    let writes =
        |count, took: &mut dyn FnMut(u64)| Round::LARGE.repeat(&from, &to, count, cancel, took);
    writes(WARM_UP, &mut |_| {}).map_err(failed)?;
    let before = (
        pair.a.counted().map_err(failed)?,
        pair.b.counted().map_err(failed)?,
    );
    let marks_before = marks().map_err(failed)?;
    let mut took = Vec::new();
    writes(WRITES, &mut |ns| took.push(ns)).map_err(failed)?;
    let sent = pair.a.counted().map_err(failed)?.since(&before.0);
    let handled = pair.b.counted().map_err(failed)?.since(&before.1);
    let marks = marks().map_err(failed)? - marks_before;
    took.sort_unstable();
    let each = |n: u64| n as f64 / f64::from(WRITES);
    Ok(MarkedRun {
        marked: marks as f64 / (sent.segments_out + sent.again).max(1) as f64,
        packets: each(handled.packets_in),
        acks: each(handled.segments_out),
        took: Duration::from_nanos(took[took.len() / 2]),
    })
}
