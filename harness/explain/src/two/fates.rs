//! What became of each packet between the captures.

use super::clock::{Clock, difference};
use super::lanes::Lane;
use super::log::{Log, Record, Run};
use super::twins;
use narrows::congestion::order::{OrderedMap, sort_by_key};
use narrows::{Duration, Instant};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What became of a packet between the captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All of it passed the second place.
    Arrived {
        /// When, by the first capture's clock.
        at: Instant,
        /// Which packet of the second capture had the last of it.
        packet: u64,
    },
    /// Some of a super-frame did not pass.
    Part,
    /// Nothing of it passed.
    Lost,
    /// The other capture does not tell: it began later, ended earlier, or lacks packets.
    Unknown,
}

/// What became of the packets of one direction between the captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneWay {
    /// From and to.
    pub ends: [SocketAddr; 2],
    /// The capture that its packets pass first, 0 or 1.
    pub upstream: usize,
    /// Packets with text, SYN or FIN that passed the first place on their way.
    pub sent: u64,
    /// Of these, lost between the captures, whole or in part.
    pub lost: u64,
    /// Acknowledgements without text that passed the first place, and of these lost ones.
    pub acks: [u64; 2],
    /// One-way delays: the least, the median, the 99th percentile, the greatest.
    pub delays: Option<[Duration; 4]>,
}

/// A slice of time of one direction between the captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// When its first packet left, by the first clock.
    pub at: Instant,
    /// The least and the greatest one-way delay of those that arrived and are known to.
    pub delays: Option<[Duration; 2]>,
    /// Packets that were lost.
    pub lost: u64,
}

/// A packet at the place that it passed first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// By the first capture's clock.
    pub(super) at: Instant,
    pub(super) packet: u64,
    /// Its place in the stream.
    pub(super) start: u64,
    pub(super) end: u64,
    /// What it acknowledges, as a place in the other direction's stream: a number only to be compared.
    pub(super) ack: u32,
    pub(super) fate: Fate,
    /// Other packets may have been the one that arrived.
    pub(super) ambiguous: bool,
    got: u32,
}

impl Sent {
    /// How long it was on its way, if that is known.
    fn delay(&self) -> Option<Duration> {
        match self.fate {
            Fate::Arrived { at, .. } if !self.ambiguous => Some(at.since(self.at)),
            _ => None,
        }
    }
}

/// A direction between the captures.
#[derive(Clone, Debug)]
pub(super) struct Journey {
    /// The capture that packets pass first, 0 or 1.
    pub(super) upstream: usize,
    /// The least one-way delay.
    pub(super) least: Option<Duration>,
    /// Packets there, in the order of that capture.
    pub(super) sent: Vec<Sent>,
    /// By packet of the capture that they pass last: the packet of the other that it was.
    pub(super) from: OrderedMap<u64, usize>,
    /// Packets with sequence space that passed the second place.
    pub(super) arrivals: u64,
    /// Of these, packets whose every copy had left later, and the least time that is.
    pub(super) early: u64,
    pub(super) early_by: Duration,
}

/// Where a sequence number of 0 is in the stream that is counted on.
const ORIGIN: u64 = 1 << 33;
/// Nothing is under way for longer (RFC 9293 section 3.4.1).
const LIFETIME: Duration = Duration::from_secs(120);
/// Packets are no larger: a jumbogram that says more is not followed beyond.
const LARGEST: u32 = 1 << 20;
/// Copies and neighbours that are looked at for one arrival, the latest first.
const LOOKED_AT: usize = 4_096;
/// A super-frame has no more segments.
const MOST_SEGMENTS: u16 = 512;

impl Journey {
    /// Follows the packets of one direction of a connection that is in both captures, 0 from the lesser end
    /// on; `None` if no packet tells which capture they pass first.
    pub(super) fn follow(clock: &Clock, logs: [&Log; 2], lane: &Lane, way: usize) -> Option<Self> {
        let runs = lane.of(logs);
        // The other way round from its answers.
        let upstream = Self::upstream(clock, runs, lane, way)
            .or_else(|| Self::upstream(clock, runs, lane, 1 - way).map(|upstream| 1 - upstream))?;
        let time = |capture: usize, at: Instant| match capture {
            0 => at,
            _ => clock.to_first(at),
        };
        let slack = clock.delay / 4 + Duration::from_micros(3);
        let earliest = |at: Instant| time(upstream, at) + clock.delay - slack;
        let records = &runs[upstream].records[way];
        let arrived = &runs[1 - upstream].records[way];
        let alike = twins::told_apart(records, arrived, |left, at| {
            let at = time(1 - upstream, at);
            earliest(left) <= at && at.since(time(upstream, left)) < LIFETIME
        });
        let mut sent: Vec<Sent> = Vec::with_capacity(records.len());
        let mut place = Place(ORIGIN);
        let mut live: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut from = OrderedMap::new();
        let longest = records.iter().map(|r| r.space).max();
        let longest = longest.unwrap_or(0).min(LARGEST).into();
        let mut strays: Vec<(u64, u64, Instant)> = Vec::new();
        let mut arrivals = 0;
        for (m, arrival) in arrived.iter().enumerate() {
            let at = time(1 - upstream, arrival.at);
            while let Some(record) = records.get(sent.len())
                && earliest(record.at) <= at
            {
                let left = time(upstream, record.at);
                Self::leave(record, left, &mut place, &mut sent, &mut live);
            }
            let is_bare = arrival.space == 0;
            arrivals += u64::from(!is_bare);
            // Its times may go back.
            if let Some(twin) = alike.get(&m).filter(|twin| twin.left < sent.len()) {
                let one = &mut sent[twin.left];
                one.fate = Fate::Arrived {
                    at,
                    packet: arrival.packet,
                };
                one.got = (one.end - one.start).min(u32::MAX.into()) as u32;
                one.ambiguous = twin.ambiguous;
                from.insert(arrival.packet, twin.left);
            } else if !is_bare {
                Self::arrive(
                    arrival,
                    at,
                    records,
                    &place,
                    longest,
                    &mut sent,
                    &live,
                    &mut from,
                    |left| left + clock.delay - slack <= at,
                );
                if !from.contains_key(&arrival.packet) {
                    let start = place.of(arrival.seq);
                    strays.push((start, start + u64::from(arrival.space), at));
                }
            }
        }
        for record in &records[sent.len()..] {
            let left = time(upstream, record.at);
            Self::leave(record, left, &mut place, &mut sent, &mut live);
        }
        let (mut early, mut early_by) = (0, Duration::MAX);
        for (start, end, at) in strays {
            let near = live.range(start.saturating_sub(longest)..end);
            let copies = near
                .flat_map(|(_, all)| all)
                .take(LOOKED_AT)
                .map(|n| &sent[*n]);
            let left = copies.filter(|s| s.end > start).map(|s| s.at).min();
            if let Some(left) = left.filter(|left| *left > at) {
                early += 1;
                early_by = early_by.min(left.since(at));
            }
        }
        let mut journey = Self {
            upstream,
            least: sent.iter().filter_map(Sent::delay).min(),
            sent,
            from,
            arrivals,
            early,
            early_by,
        };
        let span = logs[1 - upstream].span;
        let span = span.map(|(first, last)| [first, last].map(|at| time(1 - upstream, at)));
        journey.doubt(span, &runs[1 - upstream].records[1 - way]);
        Some(journey)
    }

    /// Which capture packets pass first, from those that are in both.
    fn upstream(clock: &Clock, [here, there]: [&Run; 2], lane: &Lane, way: usize) -> Option<usize> {
        let (here, there) = (&here.records[way], &there.records[way]);
        let later = lane.pairs[way].iter().map(|&(n, m)| {
            let shows = difference(there[m].at, here[n].at);
            let took = shows.saturating_sub(clock.ahead(here[n].at));
            took.signum()
        });
        match later.sum::<i64>() {
            0 => None,
            votes => Some(usize::from(votes < 0)),
        }
    }

    fn leave(
        record: &Record,
        at: Instant,
        place: &mut Place,
        sent: &mut Vec<Sent>,
        live: &mut BTreeMap<u64, Vec<usize>>,
    ) {
        let start = place.of(record.seq);
        let end = start + u64::from(record.space);
        if record.space > 0 {
            place.0 = place.0.max(end);
            live.entry(start).or_default().push(sent.len());
        }
        sent.push(Sent {
            at,
            packet: record.packet,
            start,
            end,
            ack: record.ack,
            fate: Fate::Lost,
            ambiguous: false,
            got: 0,
        });
    }

    /// Something with sequence space arrived: of what has left the packets that it is of.
    #[allow(clippy::too_many_arguments)]
    fn arrive(
        arrival: &Record,
        at: Instant,
        records: &[Record],
        place: &Place,
        longest: u64,
        sent: &mut [Sent],
        live: &BTreeMap<u64, Vec<usize>>,
        from: &mut OrderedMap<u64, usize>,
        may_have_left: impl Fn(Instant) -> bool,
    ) {
        let mut cursor = place.of(arrival.seq);
        let end = cursor + u64::from(arrival.space);
        while cursor < end {
            let fitting = live
                .range(cursor.saturating_sub(longest)..cursor + 1)
                .rev()
                .flat_map(|(_, all)| all.iter().rev())
                .copied()
                .take(LOOKED_AT)
                .filter(|n| {
                    let one = &sent[*n];
                    one.end > cursor
                        && u64::from(one.got) < one.end - one.start
                        && may_have_left(one.at)
                        && at.since(one.at) < LIFETIME
                });
            let fits = |n: &usize| {
                let ahead = arrival
                    .identification
                    .wrapping_sub(records[*n].identification);
                (
                    records[*n].stamp == arrival.stamp,
                    records[*n].identification != 0 && ahead < MOST_SEGMENTS,
                    (records[*n].ack, records[*n].mark) == (arrival.ack, arrival.mark),
                )
            };
            let (mut best, mut alike) = (None, false);
            for n in fitting {
                match best {
                    Some(before) if fits(&before) > fits(&n) => {}
                    Some(before) if fits(&before) == fits(&n) => {
                        // The later: what is lost is more likely than what is late by a timeout.
                        alike = true;
                        best = Some(n.max(before));
                    }
                    _ => {
                        alike = false;
                        best = Some(n);
                    }
                }
            }
            let Some(n) = best else {
                let beyond = live.range(cursor + 1..end).next();
                cursor = beyond.map_or(end, |(start, _)| *start);
                continue;
            };
            let to = sent[n].end.min(end);
            sent[n].got = sent[n].got.saturating_add((to - cursor) as u32);
            sent[n].ambiguous |= alike;
            sent[n].fate = if u64::from(sent[n].got) >= sent[n].end - sent[n].start {
                Fate::Arrived {
                    at,
                    packet: arrival.packet,
                }
            } else {
                Fate::Part
            };
            from.insert(arrival.packet, n);
            cursor = to;
        }
    }

    /// What is not in the other capture is only lost if that had to have it.
    /// `span` is when it had its first and its last packet, `answers` are the other direction's there.
    fn doubt(&mut self, span: Option<[Instant; 2]>, answers: &[Record]) {
        let Some([first, last]) = span else {
            return;
        };
        // What was acknowledged there has arrived, whatever the capture lacks.
        let mut acked: Option<u64> = None;
        let lowest = self.sent.iter().map(|sent| sent.start).min();
        if let Some(lowest) = lowest {
            let mut place = Place(lowest);
            for record in answers {
                let at = place.of(record.ack);
                if at > place.0 && at - place.0 < 1 << 30 {
                    place.0 = at;
                    acked = Some(at);
                }
            }
        }
        let got = self
            .sent
            .iter()
            .filter(|sent| sent.end > sent.start && sent.got > 0);
        let mut arrived: Vec<_> = got.map(|sent| (sent.start, sent.end)).collect();
        sort_by_key(&mut arrived, |arrived| *arrived);
        // Of those that start at one place the last is longest.
        let from = |start: u64| arrived.partition_point(|arrived| arrived.0 < start);
        let overlaps = |sent: &Sent| {
            let to = from(sent.start + 1);
            let over = |before: usize| arrived[before].1 > sent.start;
            to.checked_sub(1).is_some_and(over) || to < from(sent.end)
        };
        for sent in &mut self.sent {
            let outside = sent.at < first || sent.at > last;
            let missed = sent.end > sent.start
                && acked.is_some_and(|acked| acked >= sent.end)
                && !overlaps(sent);
            if sent.fate == Fate::Lost && (outside || missed) {
                sent.fate = Fate::Unknown;
            }
        }
    }

    pub(super) fn summary(&self, ends: [SocketAddr; 2]) -> OneWay {
        let mut way = OneWay {
            ends,
            upstream: self.upstream,
            sent: 0,
            lost: 0,
            acks: [0, 0],
            delays: None,
        };
        let mut delays = Vec::new();
        for sent in &self.sent {
            let lost = u64::from(matches!(sent.fate, Fate::Lost | Fate::Part));
            if sent.end > sent.start {
                way.sent += 1;
                way.lost += lost;
            } else {
                way.acks[0] += 1;
                way.acks[1] += lost;
            }
            delays.extend(sent.delay());
        }
        delays.sort_unstable();
        let rank =
            |per_mille: usize| delays.get((delays.len().saturating_sub(1)) * per_mille / 1_000);
        if let (Some(a), Some(b), Some(c), Some(d)) = (rank(0), rank(500), rank(990), rank(1_000)) {
            way.delays = Some([*a, *b, *c, *d]);
        }
        way
    }

    /// What became of its packets over time, in so many slices of it.
    pub(super) fn course(&self, slices: usize) -> Vec<Slice> {
        let times = || self.sent.iter().map(|sent| sent.at);
        let (Some(begin), Some(end)) = (times().min(), times().max()) else {
            return Vec::new();
        };
        let long = end.since(begin).as_nanos() / slices as u64 + 1;
        let mut course: OrderedMap<u64, Slice> = OrderedMap::new();
        for sent in &self.sent {
            let number = sent.at.since(begin).as_nanos() / long;
            let slice = course.get_or_insert_with(number, || Slice {
                at: sent.at,
                delays: None,
                lost: 0,
            });
            slice.at = slice.at.min(sent.at);
            slice.lost += u64::from(matches!(sent.fate, Fate::Lost | Fate::Part));
            if let Some(delay) = sent.delay() {
                let [least, greatest] = slice.delays.unwrap_or([delay; 2]);
                slice.delays = Some([least.min(delay), greatest.max(delay)]);
            }
        }
        course.iter().map(|(_, slice)| *slice).collect()
    }

    /// The place among those that left of the packet with this number.
    pub(super) fn index(&self, packet: u64) -> usize {
        self.sent.partition_point(|sent| sent.packet < packet)
    }
}

/// The highest place of a stream that is known; numbers are taken to be near it.
struct Place(u64);

impl Place {
    fn of(&self, seq: u32) -> u64 {
        let ahead = seq.wrapping_sub(self.0 as u32) as i32;
        self.0.saturating_add_signed(ahead.into())
    }
}
