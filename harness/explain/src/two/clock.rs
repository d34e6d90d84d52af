//! How one clock stands to another, from packets that both have seen.
//!
//! A packet from the first place to the second shows a difference of clocks that is too large by its
//! one-way delay, one in the other direction a difference that is too small by its own (Paxson, "On
//! Calibrating Measurements of Packet Transit Times", SIGMETRICS 1998). The true difference runs
//! between: below the lower envelope of the ones and above the upper one of the others. Queues only
//! add to delays, so of all straight lines (an offset and a drift) the one with the most room to
//! both envelopes is taken; the envelopes are convex hulls (Moon, Skelly and Towsley, "Estimation and
//! Removal of Clock Skew from Network Delay Measurements", INFOCOM 1999), and it is found exactly up
//! to parts per billion. The room is the least one-way delay, if that is the same both ways: no two clocks can
//! tell how a round trip is split.

use super::lanes::Lane;
use super::log::Log;
use narrows::{Duration, Instant};
use std::fmt;

/// How the second clock stands to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// A time of the first clock.
    pub origin: Instant,
    /// What the second clock shows more than the first at `origin`, in nanoseconds.
    pub offset: i64,
    /// What it gains, in parts per billion.
    pub drift: i64,
    /// The least one-way delay between the captures, taken to be the same both ways.
    pub delay: Duration,
    /// How far the difference can be off within `span`, however the
    /// round trip is split: no clock that runs evenly is farther off and has every packet arrive after it left.
    pub bound: Duration,
    /// Packets in both that it comes from, of each direction.
    pub pairs: [u64; 2],
    /// From when to when, by the first clock, both directions have some.
    pub span: [Instant; 2],
}

/// Why captures cannot be aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unaligned {
    /// No packet of one is in the other.
    NothingShared,
    /// Packets of one direction only are in both.
    OneWay,
    /// Packets are at both places at the same time.
    SamePlace,
    /// Whatever the offset and the drift, packets arrive so long before they left.
    Uneven(Duration),
}

impl fmt::Display for Unaligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingShared => f.write_str("no packet of one capture is in the other"),
            Self::OneWay => f.write_str(
                "only packets of one direction are in both captures, and a clock's offset needs both directions: capture packets and acknowledgements at both places",
            ),
            Self::SamePlace => f.write_str(
                "packets are at both places at the same time: the captures were taken at one place, or their times are too coarse to tell which packet came by where first",
            ),
            Self::Uneven(by) => write!(
                f,
                "with any offset and any drift of up to 0.1 % some packets would arrive {by} before they left: a clock was set while it ran, or times are not those of the packets"
            ),
        }
    }
}

impl std::error::Error for Unaligned {}

/// A pair of packets: when, by the first clock from the origin on, and what the second showed more.
pub(super) type Point = (i64, i64);

/// Clocks drift less: crystals by 100 parts in a million, and NTP moves them by up to 500
/// (RFC 5905 section 11.3).
const MOST_DRIFT: i64 = 1_000_000;
const BILLION: i128 = 1_000_000_000;
/// Nanoseconds between two times at most: 73 years.
const FARTHEST: i128 = 1 << 61;
/// Times of captures in microseconds are off by up to one, at both places.
pub(super) const SLACK: i64 = 2_000;

impl Clock {
    /// The clock of `second` beside that of `first`, from connections that are in both.
    ///
    /// # Errors
    /// Why that cannot be told.
    pub(super) fn between(first: &Log, second: &Log, lanes: &[Lane]) -> Result<Self, Unaligned> {
        let origin = first.span.map_or(Instant::ZERO, |(first, _)| first);
        let points = lanes.iter().map(|lane| {
            let [mine, theirs] = lane.of([first, second]);
            [0, 1].map(|way| {
                let (mine, theirs) = (&mine.records[way], &theirs.records[way]);
                let point = |&(n, m): &(usize, usize)| {
                    let at = difference(mine[n].at, origin);
                    (at, difference(theirs[m].at, mine[n].at))
                };
                lane.pairs[way].iter().map(point).collect::<Vec<Point>>()
            })
        });
        let (mut there, mut back) = (Vec::new(), Vec::new());
        let mut any = false;
        for [lesser, greater] in points {
            any |= !lesser.is_empty() || !greater.is_empty();
            if lesser.is_empty() || greater.is_empty() {
                continue;
            }
            // Whose packets pass the first capture first: the other way round they would arrive before they left.
            let one = Line::between(&lesser, &greater).room;
            let other = Line::between(&greater, &lesser).room;
            let (from, to) = if one >= other {
                (lesser, greater)
            } else {
                (greater, lesser)
            };
            there.extend(from);
            back.extend(to);
        }
        if there.is_empty() {
            return Err(if any {
                Unaligned::OneWay
            } else {
                Unaligned::NothingShared
            });
        }
        let line = Line::between(&there, &back);
        match line.room {
            room if room < -SLACK => return Err(Unaligned::Uneven(nanos(-room))),
            room if room <= 0 => return Err(Unaligned::SamePlace),
            _ => {}
        }
        let ends = |way: &[Point]| {
            let times = || way.iter().map(|(at, _)| *at);
            [times().min(), times().max()].map(Option::unwrap_or_default)
        };
        let ([from, to], [first_back, last_back]) = (ends(&there), ends(&back));
        let span = [from.max(first_back), to.min(last_back)].map(|at| origin + nanos(at));
        Ok(Self {
            origin,
            offset: line.offset,
            drift: line.drift,
            delay: nanos(line.room),
            bound: nanos(line.bound(&there, &back)),
            pairs: [there.len() as u64, back.len() as u64],
            span,
        })
    }

    /// What the second clock shows more at a time of the first.
    pub fn ahead(&self, at: Instant) -> i64 {
        self.offset + drifted(self.drift, difference(at, self.origin))
    }

    /// The first clock's time at a time of the second.
    pub fn to_first(&self, at: Instant) -> Instant {
        let shown = i128::from(difference(at, self.origin)) - i128::from(self.offset);
        let since = shown * BILLION / (BILLION + i128::from(self.drift));
        let at = i128::from(self.origin.as_nanos()) + since;
        Instant::from_nanos(u64::try_from(at.max(0)).unwrap_or(u64::MAX))
    }
}

/// `a - b` in nanoseconds.
pub(super) fn difference(a: Instant, b: Instant) -> i64 {
    let wide = i128::from(a.as_nanos()) - i128::from(b.as_nanos());
    // Far beyond any capture, and so that sums of a few fit.
    wide.clamp(-FARTHEST, FARTHEST) as i64
}

fn nanos(n: i64) -> Duration {
    Duration::from_nanos(n.max(0).unsigned_abs())
}

fn drifted(drift: i64, time: i64) -> i64 {
    (i128::from(drift) * i128::from(time) / BILLION) as i64
}

/// A straight line below all points of one set and above all of another, if `room` is not negative.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    offset: i64,
    drift: i64,
    /// Least vertical distance to either.
    pub(super) room: i64,
}

impl Line {
    /// The line with the most room between points above and points below.
    pub(super) fn between(above: &[Point], below: &[Point]) -> Self {
        let above = hull(above.iter().copied());
        // An upper hull is a lower one upside down.
        let below = hull(below.iter().map(|(x, y)| (*x, -y)));
        // As a function of the drift the room is concave.
        let (mut low, mut high) = (-MOST_DRIFT, MOST_DRIFT);
        while high - low > 2 {
            let third = (high - low) / 3;
            let (a, b) = (low + third, high - third);
            let (one, other) = (Self::with(a, &above, &below), Self::with(b, &above, &below));
            if one.room < other.room {
                low = a;
            } else {
                high = b;
            }
        }
        let all = (low..=high).map(|drift| Self::with(drift, &above, &below));
        // Both ends of a plateau are as good: without evidence there is no drift.
        let best = all.max_by_key(|line| (line.room, -line.drift.abs()));
        let level = Self::with(0, &above, &below);
        match best {
            Some(best) if best.room > level.room => best,
            _ => level,
        }
    }

    fn with(drift: i64, above: &[Point], below: &[Point]) -> Self {
        let least = |points: &[Point], drift: i64| {
            let rests = points
                .iter()
                .map(|(x, y)| y.saturating_sub(drifted(drift, *x)));
            rests.min().unwrap_or_default()
        };
        let upper = least(above, drift);
        let lower = -least(below, -drift);
        Self {
            offset: lower + upper.saturating_sub(lower) / 2,
            drift,
            room: upper.saturating_sub(lower) / 2,
        }
    }

    /// Its height at `x`.
    pub(super) fn at(&self, x: i64) -> i64 {
        self.offset.saturating_add(drifted(self.drift, x))
    }

    /// How far a point is off.
    pub(super) fn off(&self, (x, y): Point) -> u64 {
        y.abs_diff(self.at(x))
    }

    /// How far another line between the points can be from this one, where there are points of both.
    fn bound(&self, above: &[Point], below: &[Point]) -> i64 {
        let upper = hull(above.iter().copied());
        let lower = hull(below.iter().map(|(x, y)| (*x, -y)));
        let ends = |points: &[Point]| Some((points.first()?.0, points.last()?.0));
        let (Some(a), Some(b)) = (ends(&upper), ends(&lower)) else {
            return i64::MAX;
        };
        let within = [a.0.max(b.0), a.1.min(b.1)];
        let mut most = self.room;
        for x in within {
            let here = self.at(x);
            most = most.max(at(&upper, x) - here);
            most = most.max(here + at(&lower, x));
        }
        most
    }
}

/// The lower convex hull, from left to right.
fn hull(points: impl Iterator<Item = Point>) -> Vec<Point> {
    let mut points: Vec<Point> = points.collect();
    points.sort_unstable();
    points.dedup_by_key(|point| point.0);
    let mut hull: Vec<Point> = Vec::new();
    for point in points {
        while let [.., a, b] = hull[..] {
            let (dx, dy) = (i128::from(b.0 - a.0), i128::from(b.1) - i128::from(a.1));
            let (ex, ey) = (
                i128::from(point.0 - a.0),
                i128::from(point.1) - i128::from(a.1),
            );
            if dx * ey - dy * ex > 0 {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

/// The height of a hull at `x`, at its nearest end beside it.
fn at(hull: &[Point], x: i64) -> i64 {
    let n = hull.partition_point(|point| point.0 < x);
    match (
        n.checked_sub(1).and_then(|before| hull.get(before)),
        hull.get(n),
    ) {
        (Some(a), Some(b)) => {
            let rise = i128::from(b.1) - i128::from(a.1);
            let wide = i128::from(x - a.0) * rise / i128::from((b.0 - a.0).max(1));
            a.1 + wide as i64
        }
        (Some(end), None) | (None, Some(end)) => end.1,
        (None, None) => 0,
    }
}
