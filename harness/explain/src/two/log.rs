//! The packets of a capture, as far as they are needed to find them in another.

use crate::capture::Frame;
use crate::half::Sighting;
use crate::segment::{Content, Segment};
use narrows::Instant;
use narrows::wire::Flags;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) at: Instant,
    pub(super) packet: u64,
    pub(super) seq: u32,
    /// Sequence space: text, SYN, FIN.
    pub(super) space: u32,
    pub(super) ack: u32,
    /// TSval, 0 without the option.
    pub(super) stamp: u32,
    /// What else tells packets without text apart: window, TSecr, SACK blocks, flags.
    pub(super) mark: u32,
    /// Identification of the IPv4 header.
    pub(super) identification: u16,
}

impl Record {
    /// What a packet has in both captures, however it was cut into frames: the number of its last byte
    /// and its time stamp, or everything that an acknowledgement says.
    pub(super) fn name(&self) -> (u32, u32, u64) {
        if self.space > 0 {
            (self.seq.wrapping_add(self.space), self.stamp, 0)
        } else {
            let said = u64::from(self.ack) << 32 | u64::from(self.mark);
            (self.seq, self.stamp, said | 1)
        }
    }
}

/// The packets of one connection: of a pair of ends from a SYN on, or from where the capture begins.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Its first packet.
    pub(super) begin: u64,
    /// By direction, that from the lesser end first.
    pub(super) records: [Vec<Record>; 2],
    interfaces: [Option<u32>; 2],
    /// By direction: the number of its SYN, if that was seen.
    isn: [Option<u32>; 2],
    /// By direction: whether it said that it is over.
    over: [bool; 2],
}

impl Run {
    fn new(begin: u64) -> Self {
        Self {
            begin,
            records: [Vec::new(), Vec::new()],
            interfaces: [None; 2],
            isn: [None; 2],
            over: [false; 2],
        }
    }

    /// Whether a SYN with this number begins another connection of the same ends.
    fn is_over_for(&self, way: usize, seq: u32) -> bool {
        match self.isn[way] {
            Some(isn) => isn != seq || self.over == [true, true],
            None => !self.records[way].is_empty(),
        }
    }

    /// When its first and its last packet were captured.
    pub(super) fn span(&self) -> Option<(Instant, Instant)> {
        let times = || self.records.iter().flatten().map(|record| record.at);
        Some((times().min()?, times().max()?))
    }
}

/// The TCP packets of a capture, about 40 bytes each.
#[derive(Clone, Debug)]
pub struct Log {
    /// By ends, the lesser first: their connections, one after the other.
    pub(super) runs: BTreeMap<[SocketAddr; 2], Vec<Run>>,
    /// When the first and the last packet were captured.
    pub(super) span: Option<(Instant, Instant)>,
    logged: usize,
    most: usize,
    /// Packets beyond the limit.
    pub unlogged: u64,
}

impl Log {
    /// Keeps up to `most` packets.
    pub fn new(most: usize) -> Self {
        Self {
            runs: BTreeMap::new(),
            span: None,
            logged: 0,
            most,
            unlogged: 0,
        }
    }

    /// Notes a packet.
    pub fn handle_packet(&mut self, frame: &Frame<'_>) {
        if let Some(content) = frame.content() {
            self.handle_content(frame, &content);
        }
    }

    /// Notes a packet with this content.
    pub fn handle_content(&mut self, frame: &Frame<'_>, content: &Content) {
        if let Content::Tcp(segment) = content {
            let now = Sighting {
                at: frame.at,
                packet: frame.number,
            };
            self.handle_segment(now, frame.interface, segment);
        }
    }

    /// Notes a segment that was seen at `now` on `interface`.
    pub fn handle_segment(&mut self, now: Sighting, interface: u32, segment: &Segment) {
        if self.logged >= self.most {
            self.unlogged += 1;
            return;
        }
        let way = usize::from(segment.src > segment.dst);
        let ends = super::sorted([segment.src, segment.dst]);
        let runs = self.runs.entry(ends).or_default();
        let has = |flag| u32::from(segment.flags.contains(flag));
        let syn = has(Flags::SYN) == 1;
        let begins = runs
            .last()
            .is_none_or(|run| syn && run.is_over_for(way, segment.seq.0));
        if begins {
            runs.push(Run::new(now.packet));
        }
        let Some(run) = runs.last_mut() else {
            return;
        };
        // The same packets on another interface say nothing new.
        if *run.interfaces[way].get_or_insert(interface) != interface {
            return;
        }
        if syn {
            run.isn[way] = Some(segment.seq.0);
        }
        run.over[way] |= segment.flags.contains(Flags::FIN);
        if segment.flags.contains(Flags::RST) {
            run.over = [true, true];
        }
        self.logged += 1;
        let first = self.span.map_or(now.at, |(first, _)| first.min(now.at));
        let last = self.span.map_or(now.at, |(_, last)| last.max(now.at));
        self.span = Some((first, last));
        let stamps = segment.options.timestamps;
        let mut mark = Mark::default();
        mark.add(segment.window.into());
        mark.add(has(Flags::RST) << 1 | has(Flags::ACK));
        mark.add(stamps.map_or(0, |stamps| stamps.ecr));
        for block in segment.options.sack.as_slice() {
            mark.add(block.start.0);
            mark.add(block.end.0);
        }
        run.records[way].push(Record {
            at: now.at,
            packet: now.packet,
            seq: segment.seq.0,
            space: segment
                .len
                .saturating_add(has(Flags::SYN))
                .saturating_add(has(Flags::FIN)),
            ack: segment.ack.0,
            stamp: stamps.map_or(0, |stamps| stamps.val),
            mark: mark.0,
            identification: segment.identification,
        });
    }

    /// The connections of these ends.
    pub(super) fn of(&self, ends: [SocketAddr; 2]) -> &[Run] {
        self.runs.get(&ends).map_or(&[], Vec::as_slice)
    }
}

/// A hash (FNV-1a by words) of what an acknowledgement says.
struct Mark(u32);

impl Default for Mark {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl Mark {
    fn add(&mut self, word: u32) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0193).rotate_left(7);
    }
}
