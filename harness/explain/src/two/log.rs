//! The packets of a capture, as far as they are needed to find them in another.

use crate::capture::Frame;
use crate::half::Sighting;
use crate::segment::{self, Content, Segment};
use narrows::Instant;
use narrows::wire::Flags;
use std::collections::{BTreeMap, HashMap};
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
    fn name(&self) -> (u32, u32, u64) {
        if self.space > 0 {
            (self.seq.wrapping_add(self.space), self.stamp, 0)
        } else {
            let said = u64::from(self.ack) << 32 | u64::from(self.mark);
            (self.seq, self.stamp, said | 1)
        }
    }
}

/// The packets of one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    interface: u32,
    pub(super) records: Vec<Record>,
}

/// The TCP packets of a capture, about 40 bytes each.
#[derive(Clone, Debug)]
pub struct Log {
    pub(super) flows: BTreeMap<[SocketAddr; 2], Flow>,
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
            flows: BTreeMap::new(),
            span: None,
            logged: 0,
            most,
            unlogged: 0,
        }
    }

    /// Notes a packet.
    pub fn handle_packet(&mut self, frame: &Frame<'_>) {
        let Some((packet, head)) = frame.link.network(frame.bytes) else {
            return;
        };
        let original = frame.original.as_usize().saturating_sub(head);
        if let Content::Tcp(segment) = segment::parse(packet, original) {
            let now = Sighting {
                at: frame.at,
                packet: frame.number,
            };
            self.handle_segment(now, frame.interface, &segment);
        }
    }

    /// Notes a segment that was seen at `now` on `interface`.
    pub fn handle_segment(&mut self, now: Sighting, interface: u32, segment: &Segment) {
        if self.logged >= self.most {
            self.unlogged += 1;
            return;
        }
        let flow = self
            .flows
            .entry([segment.src, segment.dst])
            .or_insert_with(|| Flow {
                interface,
                records: Vec::new(),
            });
        // The same packets on another interface say nothing new.
        if flow.interface != interface {
            return;
        }
        self.logged += 1;
        let first = self.span.map_or(now.at, |(first, _)| first.min(now.at));
        let last = self.span.map_or(now.at, |(_, last)| last.max(now.at));
        self.span = Some((first, last));
        let has = |flag| u32::from(segment.flags.contains(flag));
        let stamps = segment.options.timestamps;
        let mut mark = Mark::default();
        mark.add(segment.window.into());
        mark.add(has(Flags::RST) << 1 | has(Flags::ACK));
        mark.add(stamps.map_or(0, |stamps| stamps.ecr));
        for block in segment.options.sack.as_slice() {
            mark.add(block.start.0);
            mark.add(block.end.0);
        }
        flow.records.push(Record {
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

    /// The directions that `other` has as well.
    pub(super) fn shared(&self, other: &Self) -> Vec<[SocketAddr; 2]> {
        let both = self
            .flows
            .keys()
            .filter(|ends| other.flows.contains_key(*ends));
        both.copied().collect()
    }

    pub(super) fn records(&self, ends: [SocketAddr; 2]) -> &[Record] {
        self.flows.get(&ends).map_or(&[], |flow| &flow.records)
    }

    /// Whether `other` has packets of this capture: at least half of those of connections that are in
    /// both, and by their names no others.
    pub fn is_of_the_same_packets(&self, other: &Self) -> bool {
        let (mut all, mut both) = (0, 0);
        for ends in self.shared(other) {
            let (mine, theirs) = (self.records(ends), other.records(ends));
            both += pairs(mine, theirs).len();
            all += mine.len().min(theirs.len());
        }
        both > 0 && both * 2 >= all
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

/// The packets that are in both, each only once in either: their places in `first` and `second`.
pub(super) fn pairs(first: &[Record], second: &[Record]) -> Vec<(usize, usize)> {
    let named = |records: &[Record]| {
        let mut names: HashMap<_, (usize, u32)> = HashMap::with_capacity(records.len());
        for (n, record) in records.iter().enumerate() {
            names.entry(record.name()).or_insert((n, 0)).1 += 1;
        }
        names
    };
    let theirs = named(second);
    let mine = named(first);
    let mut both: Vec<_> = mine
        .iter()
        .filter(|(_, (_, times))| *times == 1)
        .filter_map(|(name, (n, _))| match theirs.get(name) {
            Some((m, 1)) => Some((*n, *m)),
            _ => None,
        })
        .collect();
    both.sort_unstable();
    both
}
