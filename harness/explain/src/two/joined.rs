//! What two captures tell alone, as one explanation.

use super::{Path, lanes, sorted};
use crate::connection::Connection;
use crate::explanation::Explanation;
use crate::gap::Gap;
use narrows::congestion::order::sort_by_key;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::SocketAddr;

impl Path {
    /// The connections of `second` that `first` has as well, by their numbers: those that have packets
    /// in common, and of those that nobody knows of which those that were at the same time.
    #[inline] // Called once, or by nobody here: compiled where it is.
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
    /// they are ([`Between::capture`](crate::gap::Between::capture)).
    #[must_use]
    #[inline] // Called once, or by nobody here: compiled where it is.
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
        let mut theirs: BTreeMap<u64, u64> = BTreeMap::new();
        theirs.extend(known.iter().map(|(theirs, id)| (*id, *theirs)));
        let all_of = [first, second].map(|one| {
            let mut by_id = BTreeMap::new();
            by_id.extend(one.connections.iter().map(|c| (c.id, c)));
            by_id
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
            sort_by_key(&mut gaps, |gap| (gap.start.at, gap.side));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyzer::{Analyzer, Config};
    use crate::half::Sighting;
    use crate::segment::Segment;
    use crate::two::Log;
    use narrows::Instant;
    use narrows::wire::{Flags, Seq, TcpOptions, Timestamps};
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
            identification: p.flags.into(),
            seq: Seq(p.seq),
            ack: Seq(p.ack),
            flags: Flags::from_bits(u16::from(p.flags) & 0x1f) | Flags::ACK,
            window: 60_000,
            options: TcpOptions {
                timestamps: p.stamp.map(|val| Timestamps { val, ecr: 1 }),
                ..TcpOptions::default()
            },
            len: p.len,
            ..Segment::between(src, dst)
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
