//! Two captures of the same connections, one nearer each end, explained together.
//!
//! The captures are logged ([`Log`]), packets that stand in both give the clocks
//! ([`Clock`]), and with the clocks aligned each packet has its fate ([`Path`]): it arrived, and how
//! long it took, or it was lost between the captures. Every direction is explained from the capture
//! nearer its sender, and what became of its packets decides what the sender could only infer.

mod clock;
mod fates;
mod joined;
mod lanes;
mod log;
mod refine;
mod steps;
mod twins;

pub use crate::gap::Between;
pub use clock::{Clock, Unaligned};
pub use fates::{Fate, OneWay, Slice};
pub use log::Log;
pub use steps::Set;

use crate::connection::Connection;
use crate::gap::{Gap, Side, Vantage};
use crate::half::Sighting;
use fates::Journey;
use narrows::Instant;
use narrows::congestion::order::{OrderedMap, sort_by_key};
use std::net::SocketAddr;

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
    begins: [OrderedMap<[SocketAddr; 2], Vec<u64>>; 2],
    /// By ends and by which of their connections it is in either capture: what is in both, as places in
    /// `journeys`.
    lanes: OrderedMap<Named, [Option<usize>; 2]>,
    /// By ends and by which of their connections it is in the second capture: which it is in the first.
    firsts: OrderedMap<([SocketAddr; 2], usize), usize>,
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
        // Put in order at once: what is found by its time comes last, and may be much.
        let mut lanes = Vec::new();
        let (mut journeys, mut ways) = (Vec::new(), Vec::new());
        for lane in &shared {
            let [a, b] = lane.ends;
            let numbers = [(0, [a, b]), (1, [b, a])].map(|(way, ends)| {
                let journey = Journey::follow(&clock, logs, lane, way)?;
                ways.push(journey.summary(ends));
                journeys.push(journey);
                Some(journeys.len() - 1)
            });
            lanes.push(((lane.ends, lane.runs), numbers));
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
        let named = |lane: &lanes::Lane| ((lane.ends, lane.runs[1]), lane.runs[0]);
        let firsts = shared.iter().map(named).collect();
        let mut ends: Vec<_> = shared.iter().map(|lane| lane.ends).collect();
        sort_by_key(&mut ends, |ends| *ends);
        ends.dedup();
        let begins = logs.map(|log| {
            let of = |ends| log.of(ends).iter().map(|run| run.begin).collect();
            ends.iter().map(|ends| (*ends, of(*ends))).collect()
        });
        Ok(Self {
            clock,
            ways,
            unlogged: first.unlogged + second.unlogged,
            first_inputs: 1,
            sets,
            begins,
            lanes: lanes.into_iter().collect(),
            firsts,
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
        let lanes = self.lanes.range((ends, [first, 0])..(ends, [first + 1, 0]));
        let ((_, runs), numbers) = lanes.first()?;
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
            let far = |c: &Connection| c.rtt[side].min().unwrap_or_default();
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
            .zip(connection.rtt[side].min())
            .is_some_and(|(between, all)| between >= all.mul_ratio(3, 5));
        let near = other.is_some_and(|other| other.vantage[side] == Vantage::Receiver);
        Some(refine::refine(&gap, there, back, most || near))
    }
}

fn sorted(ends: [SocketAddr; 2]) -> [SocketAddr; 2] {
    let [a, b] = ends;
    if a <= b { [a, b] } else { [b, a] }
}
