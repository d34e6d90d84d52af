//! What packets cost on this machine's kernel: the knobs of `[host.cpu]`, measured over a veth.
//!
//! One thread writes at one end of a wire and reads at the other. A veth hands a packet over within
//! the call that sends it, so the time of a round is the work of both hosts, one after the other, and
//! nothing runs beside it. Rounds that differ in one thing only tell what that costs: the shortest
//! time of many rounds, in which nobody interrupted. Each packet, acknowledgement and byte is handled
//! at both ends, so each end has half.
//!
//! What it leaves out: a NIC's driver and its DMA, cold caches, other cores.
//!
//! A write of 32 segments, which nothing above is computed from where they are merged, is held against the
//! [simulated] one with these costs.

mod simulated;

pub use simulated::simulated;

use crate::LiveError;
use crate::pair::Pair;
use crate::round::{MANY, Round, SEGMENT};
use crate::shaper::RouteRules;
use std::fmt::Write as _;
use std::io;
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;

/// Rounds of a measurement.
const ROUNDS: u32 = 3_000;
/// Before them, windows grow.
const WARM_UP: u32 = 200;

/// Costs in nanoseconds, as the knobs of `[host.cpu]` name them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// An interrupt and the poll that it begins: what a packet takes longer where the receiver polls
    /// (GRO) than where it is handed over. `None` where the kernel's veth cannot.
    pub interrupt: Option<f64>,
    /// A packet with data, of any size.
    pub packet: f64,
    /// Each 1000 bytes of its payload.
    pub kilobyte: f64,
    /// An acknowledgement without data.
    pub ack: f64,
    /// A read by an application.
    pub call: f64,
}

impl Costs {
    /// The section of an experiment. What could not be measured is left as it is.
    pub fn section(&self) -> String {
        let mut out = String::from("[host.cpu]\ncounts = true\n");
        let interrupt = self.interrupt.map(|ns| ("interrupt", ns));
        for (name, ns) in interrupt.into_iter().chain([
            ("packet", self.packet),
            ("kilobyte", self.kilobyte),
            ("ack", self.ack),
            ("call", self.call),
        ]) {
            let _ = writeln!(out, "{name} = \"{:.0}ns\"", ns.max(0.0));
        }
        out
    }
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// The costs.
    pub costs: Costs,
    /// A write to a receiver that takes segment by segment.
    pub unmerged: WriteCost,
    /// A write to one that polls and merges; `None` where the kernel's veth cannot.
    pub merged: Option<WriteCost>,
}

/// Generic receive offload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gro {
    /// The receiver takes segment by segment.
    Off,
    /// It polls and merges.
    On,
}

/// What a write of 32 segments takes that is cut before it leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteCost {
    /// Segments of a packet that the receiver handles.
    pub segments_per_packet: f64,
    /// Acknowledgements that it sends for a write.
    pub acks: f64,
    /// Nanoseconds that both hosts work for it.
    pub ns: f64,
}

/// The shortest round in nanoseconds, and what the reader counted a round.
#[derive(Clone, Copy, Debug)]
struct Seen {
    ns: f64,
    packets: f64,
    acks: f64,
}

impl Seen {
    /// Of a large write.
    fn write(self) -> WriteCost {
        WriteCost {
            segments_per_packet: MANY as f64 / self.packets.max(f64::MIN_POSITIVE),
            acks: self.acks,
            ns: self.ns,
        }
    }
}

/// Measures, for some seconds.
///
/// # Errors
/// See [`LiveError`].
pub fn run(cancel: &AtomicBool) -> Result<Calibration, LiveError> {
    let failed = |e| LiveError::io("measure what packets cost", e);
    let plain = Bench::new()?;
    let one = Round { size: 1, reads: 1 };
    let handed = plain.round(one, cancel).map_err(failed)?.ns;
    let mut costs = plain.costs(cancel).map_err(failed)?;
    plain.pair.a.cut().map_err(failed)?;
    let unmerged = plain.round(Round::LARGE, cancel).map_err(failed)?.write();
    let merging = Bench::new()?;
    merging.pair.a.cut().map_err(failed)?;
    let merged = match merging.pair.b.merge() {
        Ok(()) => {
            let polled = merging.round(one, cancel).map_err(failed)?.ns;
            costs.interrupt = Some((polled - handed).max(0.0));
            let merged = merging.round(Round::LARGE, cancel).map_err(failed)?;
            Some(merged.write())
        }
        Err(_) => None,
    };
    Ok(Calibration {
        costs,
        unmerged,
        merged,
    })
}

/// Two hosts and a connection.
struct Bench {
    pair: Pair,
    from: TcpStream,
    to: TcpStream,
}

impl Bench {
    fn new() -> Result<Self, LiveError> {
        let pair = Pair::new()?;
        let failed = |e| LiveError::io("prepare hosts of the kernel's", e);
        let (from, to) = pair.connect(|_| Ok(())).map_err(failed)?;
        Ok(Self { pair, from, to })
    }

    fn costs(&self, cancel: &AtomicBool) -> io::Result<Costs> {
        let small = Round {
            size: SEGMENT,
            reads: 1,
        };
        let large = Round::LARGE;
        let in_parts = Round {
            reads: MANY,
            ..large
        };
        // Super-frames: a packet of whatever size, so that bytes alone differ.
        let one = self.round(small, cancel)?;
        let whole = self.round(large, cancel)?;
        let parts = self.round(in_parts, cancel)?;
        let call = (parts.ns - whole.ns) / (MANY - 1) as f64;
        let kilobytes = (large.size - small.size) as f64 / 1_000.0;
        let kilobyte = (whole.ns - one.ns) / kilobytes / 2.0;
        // Segment by segment, with the acknowledgements that the receiver likes.
        self.pair.a.limit_segments(1)?;
        let single = self.round(large, cancel)?;
        // ... and with one for each.
        self.pair.b.set_rules(RouteRules {
            quick_ack: true,
            ..RouteRules::default()
        })?;
        let acked = self.round(large, cancel)?;
        self.pair.b.set_rules(RouteRules::default())?;
        self.pair.a.limit_segments(65_535)?;
        let more_acks = acked.acks - single.acks;
        let ack = match more_acks >= 1.0 {
            true => (acked.ns - single.ns) / more_acks / 2.0,
            false => 0.0,
        };
        let more_packets = (single.packets - whole.packets).max(1.0);
        let acks = (single.acks - whole.acks) * ack * 2.0;
        let packet = (single.ns - whole.ns - acks) / more_packets / 2.0;
        let costs = [packet, kilobyte, ack, call].map(|ns| ns.max(0.0));
        Ok(Costs {
            interrupt: None,
            packet: costs[0],
            kilobyte: costs[1],
            ack: costs[2],
            call: costs[3],
        })
    }

    fn round(&self, round: Round, cancel: &AtomicBool) -> io::Result<Seen> {
        let rounds = |count, took: &mut dyn FnMut(u64)| {
            round.repeat(&self.from, &self.to, count, cancel, took)
        };
        rounds(WARM_UP, &mut |_| {})?;
        let before = self.pair.b.counted()?;
        let mut shortest = u64::MAX;
        rounds(ROUNDS, &mut |ns| shortest = shortest.min(ns))?;
        let seen = self.pair.b.counted()?.since(&before);
        let each = |n: u64| n as f64 / f64::from(ROUNDS);
        Ok(Seen {
            ns: shortest as f64,
            packets: each(seen.packets_in),
            acks: each(seen.segments_out),
        })
    }
}
