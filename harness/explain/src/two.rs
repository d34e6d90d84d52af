//! Two captures of the same connections, one nearer each end, explained together.
//!
//! The captures are logged ([`Log`]), packets that stand in both give the clocks
//! ([`Clock`]), and with the clocks aligned each packet has its fate ([`Path`]): it arrived, and how
//! long it took, or it was lost between the captures. Every direction is explained from the capture
//! nearer its sender, and what became of its packets decides what the sender could only infer.

mod clock;
mod fates;
mod lanes;
mod log;
mod refine;
mod steps;
mod twins;

pub use clock::{Clock, Unaligned};
pub use fates::Fate;
pub use log::Log;
pub use refine::Between;
pub use steps::Set;

use crate::connection::Connection;
use crate::explanation::Explanation;
use crate::gap::{Gap, Side, Vantage};
use crate::half::Sighting;
use fates::Journey;
use narrows::{Duration, Instant};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

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

/// A connection by its ends, the lesser first, and by which of the connections of these ends it is in either
/// capture.
type Named = ([SocketAddr; 2], [usize; 2]);

/// Two captures, aligned.
#[derive(Clone, Debug)]
pub struct Path {
    /// How the second clock stands to the first.
    pub clock: Clock,
    /// Directions that are in both.
    pub ways: Vec<OneWay>,
    /// Packets of either capture that were not logged, for there were too many: gaps among them are
    /// explained from one capture alone.
    pub unlogged: u64,
    /// How many of the files that were read are the first capture.
    pub first_inputs: usize,
    /// Clocks that were set meanwhile, which is allowed for.
    pub sets: Vec<Set>,
    /// By capture and by ends, the lesser first: the first packet of each of their connections.
    begins: [BTreeMap<[SocketAddr; 2], Vec<u64>>; 2],
    /// By ends and by which of their connections it is in either capture: what is in both, as places in
    /// `journeys`.
    lanes: BTreeMap<Named, [Option<usize>; 2]>,
    /// By ends and by which of their connections it is in the second capture: which it is in the first.
    firsts: BTreeMap<([SocketAddr; 2], usize), usize>,
    /// In the order of `ways`.
    journeys: Vec<Journey>,
}

impl Path {
    /// Aligns two captures.
    ///
    /// # Errors
    /// Why they cannot be aligned.
    pub fn between(first: &Log, second: &Log) -> Result<Self, Unaligned> {
        let mut shared = lanes::shared(first, second);
        let told = Clock::between(first, second, &shared);
        let sets = match told {
            Err(Unaligned::Uneven(_)) => steps::find(first, second, &shared),
            _ => Vec::new(),
        };
        let unset;
        let (clock, [first, second]) = if sets.is_empty() {
            (told?, [first, second])
        } else {
            unset = [first.as_if_unset(0, &sets), second.as_if_unset(1, &sets)];
            let [first, second] = &unset;
            (Clock::between(first, second, &shared)?, [first, second])
        };
        lanes::by_time(&mut shared, first, second, |at| clock.to_first(at));
        let logs = [first, second];
        let mut lanes = BTreeMap::new();
        let (mut journeys, mut ways) = (Vec::new(), Vec::new());
        for lane in &shared {
            let [a, b] = lane.ends;
            let numbers = [(0, [a, b]), (1, [b, a])].map(|(way, ends)| {
                let journey = Journey::follow(&clock, logs, lane, way)?;
                ways.push(journey.summary(ends));
                journeys.push(journey);
                Some(journeys.len() - 1)
            });
            lanes.insert((lane.ends, lane.runs), numbers);
        }
        // Constant clocks let nothing arrive before it left, whatever is lost.
        let arrivals: u64 = journeys.iter().map(|j| j.arrivals).sum();
        let early: u64 = journeys.iter().map(|j| j.early).sum();
        if early * 10 > arrivals
            && let Some(by) = journeys
                .iter()
                .filter(|j| j.early > 0)
                .map(|j| j.early_by)
                .min()
        {
            return Err(Unaligned::Uneven(by));
        }
        let begins = logs.map(|log| {
            let both: BTreeSet<_> = shared.iter().map(|lane| lane.ends).collect();
            let of = |ends| (ends, log.of(ends).iter().map(|run| run.begin).collect());
            both.into_iter().map(of).collect()
        });
        Ok(Self {
            clock,
            ways,
            unlogged: first.unlogged + second.unlogged,
            first_inputs: 1,
            sets,
            begins,
            lanes,
            firsts: shared
                .iter()
                .map(|lane| ((lane.ends, lane.runs[1]), lane.runs[0]))
                .collect(),
            journeys,
        })
    }

    /// When a packet of the capture number `capture` was, by the first clock.
    fn time(&self, capture: usize, seen: Sighting) -> Instant {
        let at = steps::unset(&self.sets, capture, seen.at, seen.packet);
        match capture {
            0 => at,
            _ => self.clock.to_first(at),
        }
    }

    /// Which of the connections of `ends` in the capture number `capture` has this packet.
    fn run(&self, capture: usize, ends: [SocketAddr; 2], packet: u64) -> Option<usize> {
        let begins = self.begins[capture].get(&sorted(ends))?;
        begins
            .partition_point(|begin| *begin <= packet)
            .checked_sub(1)
    }

    /// The connection of `ends` that has this packet of the capture number `capture`, if it is in both: which
    /// it is in either, and the places of its directions in `journeys`.
    fn lane(
        &self,
        capture: usize,
        ends: [SocketAddr; 2],
        packet: u64,
    ) -> Option<([usize; 2], [Option<usize>; 2])> {
        let (ends, run) = (sorted(ends), self.run(capture, ends, packet)?);
        let first = match capture {
            0 => run,
            _ => *self.firsts.get(&(ends, run))?,
        };
        let mut lanes = self
            .lanes
            .range((ends, [first, 0])..=(ends, [first, usize::MAX]));
        let ((_, runs), numbers) = lanes.next()?;
        Some((*runs, *numbers))
    }

    /// What is known of the connection between `ends` that has this packet of the capture number
    /// `capture`, in both directions, that from `ends[0]` first.
    fn journeys(
        &self,
        capture: usize,
        ends: [SocketAddr; 2],
        packet: u64,
    ) -> Option<[&Journey; 2]> {
        let (_, numbers) = self.lane(capture, ends, packet)?;
        let [lesser, greater] = numbers.map(|number| self.journeys.get(number?));
        match ends == sorted(ends) {
            true => Some([lesser?, greater?]),
            false => Some([greater?, lesser?]),
        }
    }

    /// What became of the packets of one of [`ways`](Self::ways), by its number: those that were lost, as
    /// numbers of packets of the capture that they passed first.
    pub fn lost(&self, way: usize) -> impl Iterator<Item = u64> {
        let journey = self.journeys.get(way);
        let sent = journey.into_iter().flat_map(|journey| &journey.sent);
        let lost = sent.filter(|sent| matches!(sent.fate, Fate::Lost | Fate::Part));
        lost.map(|sent| sent.packet)
    }

    /// The same over time, in `slices` slices of all of it, those in which something left.
    pub fn course(&self, way: usize, slices: usize) -> Vec<Slice> {
        let journey = self.journeys.get(way);
        journey.map_or_else(Vec::new, |journey| journey.course(slices.max(1)))
    }

    /// The gap that the capture number `capture` gave, as both captures together tell it, by the first
    /// clock: `None` if the other is nearer the end that stood still, and tells it better.
    /// `connection` is the gap's, and `other` the same in the other capture.
    pub fn refine(
        &self,
        gap: &Gap,
        capture: usize,
        connection: &Connection,
        other: Option<&Connection>,
    ) -> Option<Gap> {
        let [client, server] = connection.ends;
        let ends = match gap.side {
            Side::Client => [client, server],
            Side::Server => [server, client],
        };
        let side = gap.side.index();
        let mut gap = *gap;
        for sighting in [&mut gap.start, &mut gap.end] {
            sighting.at = self.time(capture, *sighting);
        }
        let within = |set: &Set| {
            let after = gap.start.packet < set.packet && set.packet <= gap.end.packet;
            set.capture == capture && after
        };
        // A clock that was set is no gap.
        let usual = connection.path_rtt.unwrap_or_default() * 2;
        if self.sets.iter().any(within) && gap.length() <= usual {
            return None;
        }
        let Some([there, back]) = self.journeys(capture, ends, gap.end.packet) else {
            // From farther away the way to the receiver and back is shorter.
            let far = |c: &Connection| c.rtt[side].min.unwrap_or_default();
            let nearer = other.is_none_or(|other| match capture {
                0 => far(connection) >= far(other),
                _ => far(connection) > far(other),
            });
            return nearer.then_some(gap);
        };
        if there.upstream != capture {
            return None;
        }
        // What passed the second place has arrived only if that is near the receiver: most of the
        // round trip is between the captures.
        let between = there.least.zip(back.least).map(|(out, back)| out + back);
        let most = between
            .zip(connection.rtt[side].min)
            .is_some_and(|(between, all)| between >= all.mul_ratio(3, 5));
        let near = other.is_some_and(|other| other.vantage[side] == Vantage::Receiver);
        Some(refine::refine(&gap, there, back, most || near))
    }

    /// The connections of `second` that `first` has as well, by their numbers: those that have packets
    /// in common, and of those that nobody knows of which those that were at the same time.
    fn same(&self, first: &Explanation, second: &Explanation) -> BTreeMap<u64, u64> {
        type Key = ([SocketAddr; 2], Option<[usize; 2]>);
        let key = |capture: usize, c: &Connection| -> Key {
            let ends = sorted(c.ends);
            let lane = self.lane(capture, ends, c.first.packet);
            (ends, lane.map(|(runs, _)| runs))
        };
        let mut left: BTreeMap<Key, Vec<&Connection>> = BTreeMap::new();
        for c in &first.connections {
            left.entry(key(0, c)).or_default().push(c);
        }
        let mut same = BTreeMap::new();
        for c in &second.connections {
            let key = key(1, c);
            let Some(left) = left.get_mut(&key) else {
                continue;
            };
            let span = (self.time(1, c.first), self.time(1, c.last));
            let of = |one: &Connection| (self.time(0, one.first), self.time(0, one.last));
            let meets = |one: &Connection| of(one).0 <= span.1 && span.0 <= of(one).1;
            let fitting = left.iter().enumerate();
            let fitting = fitting.filter(|(_, one)| key.1.is_some() || meets(one));
            let best = fitting.max_by_key(|(n, one)| (lanes::common(span, of(one)), Reverse(*n)));
            if let Some((n, one)) = best {
                same.insert(c.id, one.id);
                left.remove(n);
            }
        }
        same
    }

    /// Joins what was found in each capture alone. Connections have the numbers of the first capture,
    /// and those that only the second has come after them; of packets each gap says in which capture
    /// they are ([`Between::capture`]).
    #[must_use]
    pub fn explain(mut self, first: &Explanation, second: &Explanation) -> Explanation {
        let (gaps, connections) = first.limits();
        let mut all = Explanation::new(gaps, connections);
        all.inputs.extend(first.inputs.iter().cloned());
        all.inputs.extend(second.inputs.iter().cloned());
        all.seen = first.seen;
        // Which of them are the same nobody knows.
        all.forgotten = first.forgotten + second.forgotten;
        if self.sets.iter().any(|set| set.capture == 0) {
            // It is of a clock that was set.
            all.seen.last = all.seen.first.unwrap_or_default();
        }
        // Times are shown from the first packet on.
        let times = |one: &Explanation, capture| {
            let sightings = one.connections.iter().flat_map(|c| [c.first, c.last]);
            let times: Vec<_> = sightings.map(|seen| self.time(capture, seen)).collect();
            times.iter().copied().min().zip(times.iter().copied().max())
        };
        for (from, to) in [times(first, 0), times(second, 1)].into_iter().flatten() {
            all.seen.first = all.seen.first.map(|first| first.min(from)).or(Some(from));
            all.seen.last = all.seen.last.max(to);
        }
        let same = self.same(first, second);
        // The second capture's numbers in the first.
        let mut known: BTreeMap<u64, u64> = BTreeMap::new();
        let mut next = first.seen.connections;
        let mut fresh = Vec::new();
        for c in &second.connections {
            let id = same.get(&c.id).copied().unwrap_or_else(|| {
                next += 1;
                fresh.push(c.id);
                next - 1
            });
            known.insert(c.id, id);
        }
        all.seen.connections = next;
        let theirs: BTreeMap<u64, u64> = known.iter().map(|(theirs, id)| (*id, *theirs)).collect();
        let all_of = [first, second].map(|one| {
            let by_id = one.connections.iter().map(|c| (c.id, c));
            by_id.collect::<BTreeMap<_, _>>()
        });
        let mut found: BTreeMap<u64, Vec<Gap>> = BTreeMap::new();
        for (capture, one) in [first, second].into_iter().enumerate() {
            for gap in one.ledger.gaps() {
                let Some(connection) = all_of[capture].get(&gap.connection) else {
                    continue;
                };
                let numbers = if capture == 0 { &theirs } else { &known };
                let other = numbers.get(&gap.connection);
                let other = other.and_then(|id| all_of[1 - capture].get(id).copied());
                if let Some(mut gap) = self.refine(&gap, capture, connection, other) {
                    if capture == 1 {
                        gap.connection = known.get(&gap.connection).copied().unwrap_or(next);
                    }
                    found.entry(gap.connection).or_default().push(gap);
                }
            }
        }
        let moved = |c: &Connection| {
            let mut c = c.clone();
            c.id = known.get(&c.id).copied().unwrap_or(next);
            for sighting in [&mut c.first, &mut c.last] {
                sighting.at = self.time(1, *sighting);
            }
            c
        };
        let others = second
            .connections
            .iter()
            .filter(|c| fresh.binary_search(&c.id).is_ok());
        let every = first.connections.iter().map(|c| {
            let mut c = c.clone();
            for sighting in [&mut c.first, &mut c.last] {
                sighting.at = self.time(0, *sighting);
            }
            c
        });
        let every = every.chain(others.map(moved));
        for mut connection in every {
            connection.lost.clear();
            let mut gaps = found.remove(&connection.id).unwrap_or_default();
            gaps.sort_by_key(|gap| (gap.start.at, gap.side));
            for gap in &gaps {
                connection.lose(gap.cause, gap.length());
                all.ledger.add(gap);
            }
            all.add_connection(connection);
        }
        all.finish();
        self.first_inputs = first.inputs.len();
        all.path = Some(self);
        all
    }
}

fn sorted(ends: [SocketAddr; 2]) -> [SocketAddr; 2] {
    let [a, b] = ends;
    if a <= b { [a, b] } else { [b, a] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyzer::{Analyzer, Config};
    use crate::segment::Segment;
    use narrows::wire::{Ecn, Flags, Seq, TcpOptions, Timestamps};
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    struct Packet {
        from_client: bool,
        flags: u8,
        seq: u32,
        ack: u32,
        len: u32,
        stamp: Option<u32>,
        wait: u64,
        way: u64,
        lost: bool,
    }

    fn packet() -> impl Strategy<Value = Packet> {
        let number = || prop_oneof![0_u32..20_000, any::<u32>(), (u32::MAX - 5_000)..=u32::MAX];
        let len = prop_oneof![Just(0), Just(1_448_u32), 0_u32..70_000, any::<u32>()];
        let time = || prop_oneof![0_u64..1_000_000, 0_u64..500_000_000, any::<u64>()];
        let numbers = (number(), number(), len, proptest::option::of(number()));
        (
            any::<bool>(),
            any::<u8>(),
            numbers,
            time(),
            time(),
            any::<bool>(),
        )
            .prop_map(
                |(from_client, flags, (seq, ack, len, stamp), wait, way, lost)| Packet {
                    from_client,
                    flags,
                    seq,
                    ack,
                    len,
                    stamp,
                    wait,
                    way,
                    lost,
                },
            )
    }

    fn segment(p: &Packet) -> Segment {
        let ends: [SocketAddr; 2] = [([10, 0, 0, 1], 50_000).into(), ([10, 0, 0, 2], 80).into()];
        let [src, dst] = if p.from_client {
            ends
        } else {
            [ends[1], ends[0]]
        };
        Segment {
            src,
            dst,
            ecn: Ecn::NotEct,
            identification: p.flags.into(),
            hop_limit: 64,
            seq: Seq(p.seq),
            ack: Seq(p.ack),
            flags: Flags::from_bits(u16::from(p.flags) & 0x1f) | Flags::ACK,
            window: 60_000,
            options: TcpOptions {
                timestamps: p.stamp.map(|val| Timestamps { val, ecr: 1 }),
                ..TcpOptions::default()
            },
            len: p.len,
        }
    }

    proptest! {
        /// Whatever two captures have, it is aligned or refused, and the books balance.
        #[test]
        fn anything_can_be_aligned_or_is_refused(packets in proptest::collection::vec(packet(), 0..60)) {
            let mut logs = [Log::new(50), Log::new(50)];
            let mut analyzers = [(); 2].map(|()| Analyzer::new(Config::default()));
            let mut at = 0_u64;
            for (number, p) in (1..).zip(&packets) {
                at = at.saturating_add(p.wait);
                let segment = segment(p);
                let passes = usize::from(!p.from_client);
                for (place, time) in [(passes, at), (1 - passes, at.saturating_add(p.way))] {
                    if place != passes && p.lost {
                        continue;
                    }
                    let now = Sighting { at: Instant::from_nanos(time), packet: number };
                    logs[place].handle_segment(now, 0, &segment);
                    analyzers[place].handle_segment(now, 0, &segment);
                }
            }
            let told = analyzers.map(|mut analyzer| {
                let mut explanation = Explanation::new(100, 100);
                analyzer.finish();
                explanation.take(&mut analyzer);
                explanation.finish();
                explanation
            });
            if let Ok(path) = Path::between(&logs[0], &logs[1]) {
                for way in &path.ways {
                    prop_assert!(way.lost <= way.sent && way.acks[1] <= way.acks[0]);
                    if let Some(delays) = way.delays {
                        prop_assert!(delays.is_sorted());
                    }
                }
                let most: usize = told.iter().map(|one| one.ledger.gaps().len()).sum();
                let both = path.explain(&told[0], &told[1]);
                prop_assert!(both.ledger.gaps().len() <= most);
            }
        }
    }
}
