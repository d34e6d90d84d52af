//! Packets in, findings out: all connections of a capture.

mod index;

use crate::busy::Queues;
use crate::capture::Frame;
use crate::connection::{Connection, Opened, Rules, Tracked};
use crate::ends::{Key, Socket};
use crate::gap::Gap;
use crate::half::Sighting;
use crate::segment::{Content, Segment};
use index::Index;
use narrows::congestion::order::sort_by_key;
use narrows::prefetch::prefetch;
use narrows::wire::Flags;
use narrows::{Duration, Instant};
use std::collections::VecDeque;

/// What is a gap, and how much is kept at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// A silence is a gap if it is longer than so many percent of the least RTT of the connection.
    /// A sender that has sent its window is silent for a round trip, so it is more than 100.
    pub share_percent: u32,
    /// A silence is no gap if it is not longer than this.
    pub floor: Duration,
    /// Connections under observation at once. One more, and the one that was silent for the longest
    /// time is given up: it counts as ended, and what comes of it later as a connection of its own.
    pub connections: usize,
    /// Stretches of unacknowledged data of each direction that are told apart. One more, and the
    /// two oldest become one.
    pub segments: usize,
    /// Whether to cut flows into rounds.
    pub rounds: bool,
    /// Points to draw of each connection in `draw`, at most: of more, what happened at about the same
    /// time is one.
    pub points: usize,
    /// Connections to draw, by number; rounds are cut for these only, if there are any.
    pub draw: Vec<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            share_percent: 200,
            floor: Duration::from_micros(100),
            connections: 100_000,
            segments: 1_024,
            rounds: false,
            points: 0,
            draw: Vec::new(),
        }
    }
}

/// Something that was found.
#[derive(Clone, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all that is found are gaps"
)]
pub enum Finding {
    /// A gap that is over.
    Gap(Gap),
    /// A connection that is over.
    Connection(Box<Connection>),
}

/// What was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets.
    pub packets: u64,
    /// Of these, TCP segments.
    pub segments: u64,
    /// Packets of something else.
    pub other: u64,
    /// Packets of which too little was captured.
    pub short: u64,
    /// Packets that were captured before: on another interface, or twice.
    pub copies: u64,
    /// Packets with a time before that of the one before them.
    pub back_in_time: u64,
    /// Connections.
    pub connections: u64,
    /// Connections that were given up because there were too many at once.
    pub given_up: u64,
    /// The first packet's time.
    pub first: Option<Instant>,
    /// The latest time.
    pub last: Instant,
}

/// Of IPv4 and TCP, with time stamps.
const HEADERS: u64 = 52;

/// A connection, by itself in its cache lines: their number is known when they are asked for.
#[derive(Debug)]
#[repr(align(64))]
struct Entry(Key, Tracked);

/// What a closed connection may still say.
const LINGER: Duration = Duration::from_secs(2);

/// Segments that are read before the first of them is looked at: what is known of their connections
/// is on its way to the cache meanwhile.
const AHEAD: usize = 16;
/// So many segments later one step of that has come.
const STEP: usize = AHEAD / 4;

/// A segment that was read and not looked at yet.
#[derive(Debug)]
struct Unseen {
    now: Sighting,
    interface: u32,
    segment: Segment,
    /// Whose it is.
    key: Key,
    from: Socket,
    hash: u32,
    /// Where that connection is, if it was known when its memory was asked for.
    slot: Option<usize>,
}

impl Unseen {
    #[inline(always)] // A call would copy the segment once more.
    fn new(now: Sighting, interface: u32, segment: Segment, index: &Index) -> Self {
        let (key, from) = Key::between(segment.src, segment.dst);
        Self {
            now,
            interface,
            key,
            from,
            hash: index.hash(&key),
            slot: None,
            segment,
        }
    }
}

/// Observes the connections of a capture.
///
/// Call [`handle_packet`](Self::handle_packet) for each packet in the order of the capture, and
/// [`poll_finding`](Self::poll_finding) until it gives nothing; at the end
/// [`finish`](Self::finish), and poll again. A gap is found when it is over and a round trip later,
/// so gaps of different connections come out of order. Up to 16 segments are read ahead:
/// [`catch_up`](Self::catch_up) looks at them where no more come for a while.
#[derive(Debug)]
pub struct Analyzer {
    config: Config,
    rules: Rules,
    unseen: Vec<Unseen>,
    /// Which of them was read first.
    oldest: usize,
    index: Index,
    slots: Vec<Option<Box<Entry>>>,
    free: Vec<usize>,
    /// Connections by when they were last looked at: who is silent for the longest time is near the
    /// front.
    silent: VecDeque<(usize, u64)>,
    queues: Queues,
    closing: VecDeque<(usize, u64, Instant)>,
    gaps: VecDeque<Gap>,
    connections: VecDeque<Box<Connection>>,
    seen: Seen,
}

impl Analyzer {
    /// Observes as `config` says.
    pub fn new(config: Config) -> Self {
        Self {
            rules: Rules {
                share: config.share_percent.into(),
                floor: config.floor,
                segments: config.segments.max(4),
                rounds: config.rounds,
                points: config.points,
            },
            config,
            unseen: Vec::with_capacity(AHEAD),
            oldest: 0,
            index: Index::new(),
            slots: Vec::new(),
            free: Vec::new(),
            silent: VecDeque::new(),
            queues: Queues::default(),
            closing: VecDeque::new(),
            gaps: VecDeque::new(),
            connections: VecDeque::new(),
            seen: Seen::default(),
        }
    }

    /// Takes a packet.
    pub fn handle_packet(&mut self, frame: &Frame<'_>) {
        self.handle_content(frame, frame.content());
    }

    /// Takes a packet whose content is known.
    pub fn handle_content(&mut self, frame: &Frame<'_>, content: Option<Content>) {
        self.seen.packets += 1;
        self.seen.first.get_or_insert(frame.at);
        if frame.at < self.seen.last {
            self.seen.back_in_time += 1;
        }
        self.seen.last = self.seen.last.max(frame.at);
        match content {
            Some(Content::Tcp(segment)) => {
                self.seen.segments += 1;
                let now = Sighting {
                    at: frame.at,
                    packet: frame.number,
                };
                self.read(Unseen::new(now, frame.interface, segment, &self.index));
            }
            Some(Content::TooBig { src, dst }) => {
                self.seen.other += 1;
                self.catch_up();
                let (key, from) = Key::between(src, dst);
                let slot = self.find(self.index.hash(&key), &key);
                if let Some(entry) = slot.and_then(|slot| self.slots.get_mut(slot)?.as_mut()) {
                    let side = entry.1.side_of(from);
                    entry.1.too_big(side);
                }
            }
            Some(Content::Other) | None => self.seen.other += 1,
            Some(Content::Short) => self.seen.short += 1,
        }
    }

    /// Reads a segment, and looks at the one that was read [`AHEAD`] segments before. What is known of its
    /// connection has come in steps meanwhile, each of which tells where the next is.
    fn read(&mut self, one: Unseen) {
        self.index.ask_for(one.hash);
        if self.unseen.len() < AHEAD {
            self.unseen.push(one);
            return;
        }
        let mut unseen = std::mem::take(&mut self.unseen);
        self.look_at(&unseen[self.oldest]);
        unseen[self.oldest] = one;
        self.oldest = (self.oldest + 1) % AHEAD;
        let after = self.oldest + AHEAD - 1;
        let steps_ago = |n| (after - n * STEP) % AHEAD;
        let asks = &mut unseen[steps_ago(1)];
        asks.slot = self.index.guess(asks.hash);
        if let Some(slot) = asks.slot.and_then(|slot| self.slots.get(slot)) {
            prefetch(slot);
        }
        if let Some(entry) = self.guessed(&unseen[steps_ago(2)]) {
            prefetch(entry);
        }
        if let Some(Entry(_, tracked)) = self.guessed(&unseen[steps_ago(3)]) {
            tracked.ask_for_flight();
        }
        self.unseen = unseen;
    }

    fn guessed(&self, unseen: &Unseen) -> Option<&Entry> {
        self.slots.get(unseen.slot?)?.as_deref()
    }

    /// Looks at the segments that were read ahead.
    pub fn catch_up(&mut self) {
        let mut unseen = std::mem::take(&mut self.unseen);
        let (later, first) = unseen.split_at(self.oldest);
        for one in first.iter().chain(later) {
            self.look_at(one);
        }
        unseen.clear();
        (self.unseen, self.oldest) = (unseen, 0);
    }

    /// Takes a segment that was seen at `now` on `interface`.
    pub fn handle_segment(&mut self, now: Sighting, interface: u32, segment: &Segment) {
        self.catch_up();
        self.look_at(&Unseen::new(now, interface, segment.clone(), &self.index));
    }

    fn look_at(&mut self, unseen: &Unseen) {
        let &Unseen {
            now,
            interface,
            ref segment,
            key,
            from,
            hash,
            slot,
        } = unseen;
        self.retire(now.at);
        // Since then it may have ended, or begun.
        let known = slot.filter(|&slot| self.is_in(slot, &key));
        let known = known.or_else(|| self.find(hash, &key));
        let opens = segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK);
        let slot = match known {
            Some(slot) if opens && self.is_over(slot, from, segment) => {
                self.remove(slot, false);
                self.add(unseen)
            }
            Some(slot) => slot,
            None => self.add(unseen),
        };
        let Some(Entry(_, tracked)) = self.slots.get_mut(slot).and_then(|s| s.as_deref_mut())
        else {
            return;
        };
        let side = tracked.side_of(from);
        if tracked.is_copy(interface, side, segment) {
            self.seen.copies += 1;
            return;
        }
        let bytes = u64::from(segment.len) + HEADERS;
        let hosts = [segment.src.ip(), segment.dst.ip()];
        let waits = self.queues.pass(hosts, now.at, bytes);
        let closed = tracked.is_closed();
        if tracked.handle((now, waits), side, segment, &mut self.gaps) {
            tracked.adapt(&self.rules);
        }
        if !closed && tracked.is_closed() {
            self.closing.push_back((slot, tracked.id, now.at + LINGER));
        }
    }

    fn is_in(&self, slot: usize, key: &Key) -> bool {
        matches!(self.slots.get(slot), Some(Some(entry)) if entry.0 == *key)
    }

    fn find(&self, hash: u32, key: &Key) -> Option<usize> {
        self.index.find(hash, |slot| self.is_in(slot, key))
    }

    fn is_over(&self, slot: usize, from: Socket, segment: &Segment) -> bool {
        let entry = self.slots.get(slot).and_then(|s| s.as_deref());
        entry.is_some_and(|Entry(_, tracked)| {
            tracked.is_over_for(tracked.side_of(from), segment.seq)
        })
    }

    fn add(&mut self, unseen: &Unseen) -> usize {
        let Unseen {
            now,
            segment,
            key,
            from,
            ..
        } = unseen;
        while self.index.len() >= self.config.connections.max(1) {
            // Those that are closed have the least to say.
            if !self.retire_one() && !self.give_up_one() {
                break;
            }
        }
        let syn = segment.flags.contains(Flags::SYN);
        let answers = segment.flags.contains(Flags::ACK);
        let is_client = match (syn, answers) {
            (true, false) => true,
            (true, true) => false,
            _ => segment.src.port() >= segment.dst.port(),
        };
        let client = if is_client { *from } else { from.other() };
        let opened = if syn {
            Opened::Handshake
        } else {
            Opened::Midway
        };
        let id = self.seen.connections;
        self.seen.connections += 1;
        let drawn = self.config.draw.contains(&id);
        let rules = Rules {
            rounds: self.rules.rounds && (drawn || self.config.draw.is_empty()),
            ..self.rules
        };
        let mut tracked = Tracked::new(id, client, opened, *now, &rules);
        if drawn && self.rules.points > 0 {
            tracked.keep_points(self.rules.points);
        }
        let entry = Some(Box::new(Entry(*key, tracked)));
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                self.slots.len() - 1
            }
        };
        self.index.insert(unseen.hash, slot);
        self.silent.push_back((slot, id));
        slot
    }

    /// Gives up a connection that was silent for long: of those looked at, the first that said
    /// nothing since it was last looked at.
    fn give_up_one(&mut self) -> bool {
        const LOOKED_AT: u32 = 64;
        let mut best: Option<(usize, Instant)> = None;
        let mut looked_at = 0;
        // Numbers of connections that are over go, however many stand before one that is not.
        for _ in 0..self.silent.len() {
            let Some((slot, id)) = self.silent.pop_front() else {
                break;
            };
            let entry = self.slots.get(slot).and_then(|s| s.as_deref());
            let Some(Entry(_, tracked)) = entry.filter(|Entry(_, tracked)| tracked.id == id) else {
                continue;
            };
            self.silent.push_back((slot, id));
            if best.is_none_or(|(_, last)| tracked.last.at < last) {
                best = Some((slot, tracked.last.at));
            }
            looked_at += 1;
            if looked_at == LOOKED_AT {
                break;
            }
        }
        let Some((slot, _)) = best else {
            return false;
        };
        self.seen.given_up += 1;
        self.remove(slot, true);
        true
    }

    /// Connections that were closed long enough are over.
    fn retire(&mut self, now: Instant) {
        while self.closing.front().is_some_and(|&(.., at)| at <= now) {
            self.retire_one();
        }
    }

    /// The connection that was closed first is over; `false` if none is closed.
    fn retire_one(&mut self) -> bool {
        let Some((slot, id, _)) = self.closing.pop_front() else {
            return false;
        };
        let entry = self.slots.get(slot).and_then(|s| s.as_deref());
        if entry.is_some_and(|Entry(_, tracked)| tracked.id == id) {
            self.remove(slot, false);
        }
        true
    }

    fn remove(&mut self, slot: usize, dropped: bool) {
        let Some(entry) = self.slots.get_mut(slot).and_then(Option::take) else {
            return;
        };
        let Entry(key, tracked) = *entry;
        self.index.remove(self.index.hash(&key), slot);
        self.free.push(slot);
        let connection = tracked.finish(&key, dropped, &mut self.gaps);
        self.connections.push_back(Box::new(connection));
        // Numbers of connections that are over are dropped when they are as many as those that are not.
        if self.silent.len() > 2 * self.index.len() + 64 {
            let slots = &self.slots;
            self.silent.retain(|&(slot, id)| {
                let entry = slots.get(slot).and_then(|s| s.as_deref());
                entry.is_some_and(|Entry(_, tracked)| tracked.id == id)
            });
        }
    }

    /// The capture is over: so are its connections.
    pub fn finish(&mut self) {
        self.catch_up();
        let mut open: Vec<(u64, usize)> = Vec::new();
        for (slot, entry) in self.slots.iter().enumerate() {
            if let Some(entry) = entry {
                open.push((entry.1.id, slot));
            }
        }
        sort_by_key(&mut open, |(id, _)| *id);
        for (_, slot) in open {
            self.remove(slot, false);
        }
    }

    /// Whether [`poll_finding`](Self::poll_finding) has something, which it seldom has.
    pub(crate) fn has_found(&self) -> bool {
        !self.gaps.is_empty() || !self.connections.is_empty()
    }

    /// The next thing that was found: gaps before the connections they belong to.
    pub fn poll_finding(&mut self) -> Option<Finding> {
        if let Some(gap) = self.gaps.pop_front() {
            return Some(Finding::Gap(gap));
        }
        self.connections.pop_front().map(Finding::Connection)
    }

    /// Client and server of a connection that is not over yet.
    pub fn ends(&self, connection: u64) -> Option<[std::net::SocketAddr; 2]> {
        let mut open = self.slots.iter().filter_map(|slot| slot.as_deref());
        open.find(|Entry(_, tracked)| tracked.id == connection)
            .map(|Entry(key, tracked)| key.ends_from(tracked.client))
    }

    /// What was seen until now.
    pub const fn seen(&self) -> &Seen {
        &self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::wire::Seq;

    /// The queues after so many segments, each captured once more on these interfaces.
    fn queues(copies: &[u32]) -> (String, u64) {
        let mut analyzer = Analyzer::new(Config::default());
        for n in 0..40_u16 {
            let segment = Segment {
                identification: n + 1,
                seq: Seq(u32::from(n) * 1_448),
                ack: Seq(7),
                flags: Flags::ACK,
                window: 60_000,
                len: 1_448,
                ..Segment::between(([10, 0, 0, 1], 80).into(), ([10, 0, 0, 2], 50_000).into())
            };
            let at = Instant::from_nanos(1_000_000 + u64::from(n) * 13_000);
            for (more, interface) in (0..).zip([&[0], copies].concat()) {
                let now = Sighting {
                    at: at + Duration::from_micros(more),
                    packet: u64::from(n) + 1,
                };
                analyzer.handle_segment(now, interface, &segment);
            }
        }
        (format!("{:?}", analyzer.queues), analyzer.seen.copies)
    }

    #[test]
    fn what_is_captured_twice_waits_in_queues_once() {
        let (once, none) = queues(&[]);
        assert_eq!(none, 0);
        for copies in [&[0][..], &[1], &[0, 1]] {
            let (twice, seen) = queues(copies);
            assert!(once == twice);
            assert_eq!(seen, 40 * copies.len() as u64);
        }
    }
}
