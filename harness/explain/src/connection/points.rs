//! What is drawn of a connection: as many points as are wanted, however long it is.

use super::record::{Point, PointKind};
use crate::gap::Side;
use narrows::{Duration, Instant};

/// Points of a connection, each of what happened within a time that doubles whenever there would be
/// too many.
#[derive(Debug, Default)]
pub(crate) struct Points {
    all: Vec<Point>,
    most: usize,
    /// What happens within it is one point.
    resolution: Duration,
    /// By side and kind: where the latest point is.
    latest: [[Option<usize>; PointKind::ALL.len()]; 2],
    /// By side: where its stream begins.
    origin: [Option<u64>; 2],
}

impl Points {
    /// Keeps up to so many; none at all for 0.
    pub(super) fn keep(most: usize) -> Self {
        // One of each kind of both sides there is always.
        let least = 2 * PointKind::ALL.len() + 1;
        Self {
            most: if most == 0 { 0 } else { most.max(least) },
            ..Self::default()
        }
    }

    /// Where the stream of `side` begins: at `first`, if nothing was before.
    pub(super) fn origin(&mut self, side: Side, first: u64) -> u64 {
        *self.origin[side.index()].get_or_insert(first)
    }

    pub(super) fn push(&mut self, point: Point) {
        if self.most == 0 {
            return;
        }
        self.join(point);
        while self.all.len() >= self.most {
            self.resolution = (self.resolution * 2).max(Duration::from_micros(1));
            let all = std::mem::take(&mut self.all);
            self.latest = Default::default();
            for point in all {
                self.join(point);
            }
        }
    }

    /// Adds a point, to the latest of its kind if that began within the resolution.
    fn join(&mut self, point: Point) {
        let latest = &mut self.latest[point.side.index()][point.kind as usize];
        let before = latest.and_then(|at| self.all.get_mut(at));
        match before {
            Some(before)
                if self.resolution > Duration::ZERO
                    && point.at.since(before.at) <= self.resolution =>
            {
                before.until = before.until.max(point.until);
                before.count = before.count.saturating_add(point.count);
                before.from = before.from.min(point.from);
                before.to = before.to.max(point.to);
            }
            _ => {
                *latest = Some(self.all.len());
                self.all.push(point);
            }
        }
    }

    /// All of them in the order in which they began, and what each is of.
    pub(super) fn finish(mut self) -> (Vec<Point>, Duration) {
        self.all.shrink_to_fit();
        (self.all, self.resolution)
    }
}

impl Point {
    /// Something that happened at once.
    pub(super) const fn new(
        (at, packet): (Instant, u64),
        side: Side,
        kind: PointKind,
        (from, to): (u64, u64),
    ) -> Self {
        Self {
            at,
            until: at,
            packet,
            count: 1,
            side,
            kind,
            from,
            to,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As hostile captures have them.
    #[test]
    fn times_that_jump_to_the_end_of_time_make_an_end() {
        let mut points = Points::keep(16);
        for n in 0..100 {
            let at = Instant::from_nanos(if n % 2 == 0 { 0 } else { u64::MAX });
            points.push(Point::new(
                (at, n),
                Side::Client,
                PointKind::Sent,
                (n, n + 1),
            ));
        }
        assert!(points.finish().0.len() < 16);
    }

    proptest! {
        #[test]
        fn however_many_there_are_few_are_kept_and_all_are_in_them(
            steps in proptest::collection::vec((0_u64..50_000, 0_usize..5, any::<bool>(), 0_u64..1_000, 1_u64..100), 1..800),
            most in 0_usize..200,
        ) {
            let mut points = Points::keep(most);
            let mut pushed = Vec::new();
            let mut nanos = 0;
            for (n, (step, kind, client, from, length)) in (1..).zip(steps) {
                nanos += step;
                let side = if client { Side::Client } else { Side::Server };
                let at = Instant::from_nanos(nanos);
                let point = Point::new((at, n), side, PointKind::ALL[kind], (from, from + length));
                points.push(point);
                pushed.push(point);
            }
            let (kept, resolution) = points.finish();
            if most == 0 {
                prop_assert!(kept.is_empty());
                return Ok(());
            }
            prop_assert!(kept.len() < most.max(11), "{}", kept.len());
            prop_assert!(kept.is_sorted_by_key(|point| point.at));
            let all: u64 = kept.iter().map(|point| u64::from(point.count)).sum();
            prop_assert_eq!(all, pushed.len() as u64);
            for one in &pushed {
                let within = |p: &&Point| p.side == one.side && p.kind == one.kind && p.at <= one.at && one.at <= p.until;
                let found = kept.iter().find(within);
                prop_assert!(found.is_some_and(|p| p.from <= one.from && p.to >= one.to), "{one:?}");
            }
            for point in &kept {
                prop_assert!(point.until.since(point.at) <= resolution * 2, "{point:?} {resolution}");
                prop_assert!(resolution > Duration::ZERO || point.count == 1);
            }
        }
    }
}
