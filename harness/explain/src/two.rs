//! Two captures of the same connections, one nearer each end, explained together.
//!
//! The captures are logged ([`Log`]), packets that stand in both give the clocks
//! ([`Clock::between`]), and with the clocks aligned each packet has its fate ([`Path`]): it arrived, and how
//! long it took, or it was lost between the captures. Every direction is explained from the capture
//! nearer its sender, and what became of its packets decides what the sender could only infer.

mod clock;
mod fates;
mod log;
mod refine;

pub use clock::{Clock, Unaligned};
pub use fates::Fate;
pub use log::Log;
pub use refine::Between;

use crate::connection::Connection;
use crate::explanation::Explanation;
use crate::gap::{Gap, Side, Vantage};
use fates::Journey;
use narrows::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What became of the packets of one direction between the captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneWay {
    /// From and to.
    pub ends: [SocketAddr; 2],
    /// Packets with text, SYN or FIN that passed the first place on their way.
    pub sent: u64,
    /// Of these, lost between the captures, whole or in part.
    pub lost: u64,
    /// Acknowledgements without text that passed the first place, and of these lost ones.
    pub acks: [u64; 2],
    /// One-way delays: the least, the median, the 99th percentile, the greatest.
    pub delays: Option<[Duration; 4]>,
}

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
    journeys: BTreeMap<[SocketAddr; 2], Journey>,
}

impl Path {
    /// Aligns two captures.
    ///
    /// # Errors
    /// Why they cannot be aligned.
    pub fn between(first: &Log, second: &Log) -> Result<Self, Unaligned> {
        let clock = Clock::between(first, second)?;
        let mut journeys = BTreeMap::new();
        let mut ways = Vec::new();
        for ends in first.shared(second) {
            let Some(journey) = Journey::follow(&clock, first, second, ends) else {
                continue;
            };
            ways.push(journey.summary(ends));
            journeys.insert(ends, journey);
        }
        // Constant clocks let nothing arrive before it left, whatever is lost.
        let journeys_of = || journeys.values();
        let arrivals: u64 = journeys_of().map(|j: &Journey| j.arrivals).sum();
        let early: u64 = journeys_of().map(|j| j.early).sum();
        if early * 10 > arrivals
            && let Some(by) = journeys_of()
                .filter(|j| j.early > 0)
                .map(|j| j.early_by)
                .min()
        {
            return Err(Unaligned::Uneven(by));
        }
        Ok(Self {
            clock,
            ways,
            unlogged: first.unlogged + second.unlogged,
            first_inputs: 1,
            journeys,
        })
    }

    /// Which capture, 0 or 1, is nearer the sender of what goes from `ends[0]` to `ends[1]`.
    pub fn upstream(&self, ends: [SocketAddr; 2]) -> Option<usize> {
        self.journeys.get(&ends).map(|journey| journey.upstream)
    }

    /// The gap that the capture number `capture` gave, as both captures together tell it: `None` if the
    /// other is nearer the end that stood still, and tells it better. `connection` is the gap's, and
    /// `other` the same in the other capture.
    pub fn refine(
        &self,
        gap: &Gap,
        capture: usize,
        connection: &Connection,
        other: Option<&Connection>,
    ) -> Option<Gap> {
        let [client, server] = connection.ends;
        let (ends, back) = match gap.side {
            Side::Client => ([client, server], [server, client]),
            Side::Server => ([server, client], [client, server]),
        };
        let (Some(there), Some(back)) = (self.journeys.get(&ends), self.journeys.get(&back)) else {
            return Some(*gap);
        };
        if there.upstream != capture {
            return None;
        }
        // What passed the second place has arrived only if that is near the receiver: most of the
        // round trip is between the captures.
        let side = gap.side.index();
        let between = there.least.zip(back.least).map(|(out, back)| out + back);
        let most = between
            .zip(connection.rtt[side].min)
            .is_some_and(|(between, all)| between >= all.mul_ratio(3, 5));
        let near = other.is_some_and(|other| other.vantage[side] == Vantage::Receiver);
        let mut gap = refine::refine(gap, there, back, most || near);
        if capture == 1 {
            for sighting in [&mut gap.start, &mut gap.end] {
                sighting.at = self.clock.to_first(sighting.at);
            }
        }
        Some(gap)
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
        all.forgotten = first.forgotten + second.forgotten;
        let mut numbers: BTreeMap<[SocketAddr; 2], Vec<u64>> = BTreeMap::new();
        for c in &first.connections {
            numbers.entry(sorted(c.ends)).or_default().push(c.id);
        }
        let mut next = first.seen.connections;
        // The second capture's numbers in the first, in the order of time where ports were used again.
        let mut known: BTreeMap<u64, u64> = BTreeMap::new();
        let mut times: BTreeMap<[SocketAddr; 2], usize> = BTreeMap::new();
        let mut fresh = Vec::new();
        for c in &second.connections {
            let ends = sorted(c.ends);
            let n = times.entry(ends).or_default();
            let same = numbers.get(&ends).and_then(|ids| ids.get(*n)).copied();
            *n += 1;
            let id = same.unwrap_or_else(|| {
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
                sighting.at = self.clock.to_first(sighting.at);
            }
            c
        };
        let others = second.connections.iter().filter(|c| fresh.contains(&c.id));
        let every = first.connections.iter().cloned().chain(others.map(moved));
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
    use crate::half::Sighting;
    use crate::segment::Segment;
    use narrows::Instant;
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
