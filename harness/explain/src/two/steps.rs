//! Clocks that were set while they ran.
//!
//! Where no straight line fits all packets that are in both captures, the longest run of them that one
//! fits ends where a clock was set; by how much is how far the next line is off. Which of the two
//! clocks it was shows in whose order of packets those before it are apart from those after it; if in both,
//! it is taken to be the second.

use super::clock::{Line, Point, SLACK, difference};
use super::lanes::Lane;
use super::log::Log;
use narrows::Instant;
use narrows::congestion::order::sort_by_key;

/// Clocks that are set more often tell no time.
const MOST: usize = 8;
/// Packets on either side of where a clock was set that tell which it was.
const NEAR: usize = 64;

/// A clock was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
    /// The capture whose clock it was, 0 or 1.
    pub capture: usize,
    /// The first packet with the new time.
    pub packet: u64,
    /// By how much, in nanoseconds.
    pub by: i64,
    /// It may have been the other clock as well, by as much the other way.
    pub either: bool,
}

/// A packet that is in both captures: its numbers there, and its point.
#[derive(Clone, Copy, Debug)]
struct Pair {
    packets: [u64; 2],
    point: Point,
    back: bool,
}

/// When which clock was set, if that makes one line of all packets.
pub(super) fn find(first: &Log, second: &Log, lanes: &[Lane]) -> Vec<Set> {
    let mut pairs = pairs(first, second, lanes);
    pairs.sort_by_key(|pair| pair.packets);
    let mut sets: Vec<Set> = Vec::new();
    let mut begin = 0;
    let Some(mut line) = longest(&pairs, &mut begin) else {
        return sets;
    };
    while begin < pairs.len() && sets.len() < MOST {
        let mut from = begin;
        let Some(next) = longest(&pairs, &mut begin) else {
            return Vec::new();
        };
        // What was under way longer than usual may have been taken for one of those before.
        let is_next = |pair: &Pair| next.off(pair.point) < line.off(pair.point);
        while from > 0 && is_next(&pairs[from - 1]) {
            from -= 1;
        }
        let x = pairs[from].point.0;
        let by = next.at(x).saturating_sub(line.at(x));
        let near = &pairs[from.saturating_sub(NEAR)..pairs.len().min(from + NEAR)];
        let apart = |capture: usize| {
            let mut near: Vec<&Pair> = near.iter().collect();
            sort_by_key(&mut near, |pair| pair.packets[capture]);
            let after = near.iter().filter(|pair| is_next(pair)).count();
            let (old, new) = near.split_at(near.len() - after);
            let wrong = old.iter().filter(|pair| is_next(pair)).count();
            (wrong, new.first().map_or(0, |pair| pair.packets[capture]))
        };
        let [one, other] = [apart(0), apart(1)];
        let either = one.0 == other.0;
        sets.push(match one.0 < other.0 {
            true => Set {
                capture: 0,
                packet: one.1,
                by: by.saturating_neg(),
                either,
            },
            false => Set {
                capture: 1,
                packet: other.1,
                by,
                either,
            },
        });
        line = next;
    }
    match begin < pairs.len() {
        true => Vec::new(),
        false => sets,
    }
}

fn pairs(first: &Log, second: &Log, lanes: &[Lane]) -> Vec<Pair> {
    let origin = first.span.map_or(Instant::ZERO, |(first, _)| first);
    let mut all = Vec::new();
    for lane in lanes {
        let [mine, theirs] = lane.of([first, second]);
        let of = |way: usize, back: bool| {
            let (mine, theirs) = (&mine.records[way], &theirs.records[way]);
            let pair = move |&(n, m): &(usize, usize)| {
                let (one, other): (&super::log::Record, &super::log::Record) =
                    (&mine[n], &theirs[m]);
                Pair {
                    packets: [one.packet, other.packet],
                    point: (difference(one.at, origin), difference(other.at, one.at)),
                    back,
                }
            };
            lane.pairs[way].iter().map(pair).collect::<Vec<Pair>>()
        };
        let points = [0, 1].map(|way| of(way, false).iter().map(|p| p.point).collect::<Vec<_>>());
        if points.iter().any(Vec::is_empty) {
            continue;
        }
        let forth = Line::between(&points[0], &points[1]).room;
        let back = Line::between(&points[1], &points[0]).room;
        all.extend(of(0, forth < back));
        all.extend(of(1, forth >= back));
    }
    all
}

/// The line of as many pairs from `begin` on as one fits, which are passed over.
fn longest(pairs: &[Pair], begin: &mut usize) -> Option<Line> {
    let line = |end: usize| {
        let of = |back: bool| {
            let these = pairs[*begin..end].iter().filter(|pair| pair.back == back);
            these.map(|pair| pair.point).collect::<Vec<Point>>()
        };
        let (there, back) = (of(false), of(true));
        let known = !there.is_empty() && !back.is_empty();
        known.then(|| Line::between(&there, &back))
    };
    let fits = |end: usize| line(end).is_none_or(|line| line.room >= -SLACK);
    let (mut fitting, mut beyond) = (*begin, pairs.len() + 1);
    while beyond - fitting > 1 {
        let middle = fitting + (beyond - fitting) / 2;
        if fits(middle) {
            fitting = middle;
        } else {
            beyond = middle;
        }
    }
    let line = line(fitting);
    *begin = fitting;
    line
}

impl Log {
    /// The same as if the clock of the capture number `capture` had not been set.
    pub(super) fn as_if_unset(&self, capture: usize, sets: &[Set]) -> Self {
        let mut log = self.clone();
        for run in log.runs.values_mut().flatten() {
            for record in run.records.iter_mut().flatten() {
                record.at = unset(sets, capture, record.at, record.packet);
            }
        }
        let spans = log.runs.values().flatten().filter_map(|run| run.span());
        log.span = spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        log
    }
}

/// The time of a packet of the capture number `capture` as if its clock had not been set.
pub(super) fn unset(sets: &[Set], capture: usize, at: Instant, packet: u64) -> Instant {
    let before = sets
        .iter()
        .filter(|set| set.capture == capture && set.packet <= packet);
    let by = before.fold(0_i64, |by, set| by.saturating_add(set.by));
    let at = at.as_nanos();
    Instant::from_nanos(at.saturating_add_signed(by.saturating_neg()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::half::Sighting;
    use crate::segment::Segment;
    use crate::two::{Clock, lanes};
    use narrows::wire::{Flags, Seq};

    /// A handshake, a segment that is lost and arrives when it is sent again, and another, with 500 us each
    /// way; the second place has these more microseconds from its fourth packet on.
    fn logs(more: u64) -> [Log; 2] {
        let ends: [std::net::SocketAddr; 2] =
            [([10, 0, 0, 1], 50_000).into(), ([10, 0, 0, 2], 80).into()];
        let syn = Flags::SYN;
        let packets = [
            (0, true, syn, 99, 0, 0),
            (510, false, syn | Flags::ACK, 499, 100, 0),
            (1_010, true, Flags::ACK, 100, 500, 0),
            (1_020, true, Flags::ACK, 100, 500, 1_000),
            (202_024, true, Flags::ACK, 100, 500, 1_000),
            (202_540, false, Flags::ACK, 500, 1_100, 0),
            (204_100, true, Flags::ACK, 1_100, 500, 1_000),
            (204_640, false, Flags::ACK, 500, 2_100, 0),
        ];
        let mut logs = [Log::new(100), Log::new(100)];
        for (number, (at, forth, flags, seq, ack, len)) in (1..).zip(packets) {
            let [src, dst] = if forth { ends } else { [ends[1], ends[0]] };
            let segment = Segment {
                seq: Seq(seq),
                ack: Seq(ack),
                flags,
                window: 60_000,
                len,
                ..Segment::between(src, dst)
            };
            let place = usize::from(!forth);
            for (place, at) in [(place, at), (1 - place, at + 500)] {
                if place == 1 && number == 4 {
                    continue;
                }
                let set = place == 1 && number > 3;
                let at = 1_000_000 + at + if set { more } else { 0 };
                let at = Instant::from_nanos(at * 1_000);
                let now = Sighting { at, packet: number };
                logs[place].handle_segment(now, 0, &segment);
            }
        }
        logs
    }

    #[test]
    fn a_clock_that_was_set_makes_two_lines() {
        let [first, second] = logs(4_000_000);
        let shared = lanes::shared(&first, &second);
        assert!(Clock::between(&first, &second, &shared).is_err());
        let sets = find(&first, &second, &shared);
        let expected = Set {
            capture: 1,
            packet: 6,
            by: 4_000_000_000,
            either: true,
        };
        assert_eq!(sets, [expected]);
        let [first, second] = [first.as_if_unset(0, &sets), second.as_if_unset(1, &sets)];
        let clock = Clock::between(&first, &second, &shared).expect("one line");
        let path = crate::two::Path::between(&first, &second).expect("one line");
        assert_eq!(path.ways[0].lost, 1);
        assert_eq!((clock.offset, clock.delay.as_nanos()), (0, 500_000));
        let [first, second] = logs(0);
        assert_eq!(find(&first, &second, &shared), []);
    }
}
