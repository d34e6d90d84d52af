//! One timer per host, re-armed in place.
//!
//! Kept apart from the packet events, so that ten thousand retransmission timers do not make
//! each packet's event dearer, and indexed by host, so that there is never more than one entry
//! per host and cancelling one leaves nothing behind. Timers at one time fire in the order of
//! their host's number.
//!
//! # How
//! A tournament: the times of eight hosts lie side by side in a cache line, the first of each
//! eight in a row above with the number of its host, and so on up to a single eight. To arm a timer
//! is to write its time and the first of one eight a row, as far up as something changes. Which
//! eights they are is known beforehand, so they are read all at once; in a heap each is known by what
//! was in the one before.

use super::time::SimTime;
use narrows::prefetch::prefetch;

/// Times side by side.
const FAN: usize = 8;

/// A timer; [`SimTime::MAX`] if it is not armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    time: SimTime,
    host: u32,
}

/// Timers by host number, smallest `(time, number)` first.
#[derive(Clone, Debug)]
pub struct Timers {
    /// Those of the hosts.
    times: Vec<Eight>,
    /// The first of each eight, row after row.
    winners: Vec<Winners>,
    /// Where each row of those starts.
    rows: Vec<usize>,
    hosts: usize,
    next: Entry,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Eight([SimTime; FAN]);

impl Eight {
    const NONE: Self = Self([SimTime::MAX; FAN]);

    /// The least time, and the first place that has it. Which it is nobody foresees, so that it is found
    /// without a branch for each.
    #[inline]
    fn least(&self) -> (SimTime, usize) {
        let first = |a: (SimTime, usize), b: (SimTime, usize)| if b.0 < a.0 { b } else { a };
        let [a, b, c, d, e, f, g, h] = self.0;
        first(
            first(first((a, 0), (b, 1)), first((c, 2), (d, 3))),
            first(first((e, 4), (f, 5)), first((g, 6), (h, 7))),
        )
    }
}

/// Eight timers, of eight hosts or more each the first, and whose they are.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Winners {
    times: Eight,
    hosts: [u32; FAN],
}

impl Timers {
    /// For hosts 0 to `hosts` - 1, none armed.
    pub fn new(hosts: usize) -> Self {
        let eights = hosts.div_ceil(FAN);
        let (mut rows, mut len, mut width) = (Vec::new(), 0, eights);
        while width > 1 {
            rows.push(len);
            width = width.div_ceil(FAN);
            len += width;
        }
        let nobody = Winners {
            times: Eight::NONE,
            hosts: [0; FAN],
        };
        Self {
            times: vec![Eight::NONE; eights],
            winners: vec![nobody; len],
            rows,
            hosts,
            next: Entry {
                time: SimTime::MAX,
                host: 0,
            },
        }
    }

    /// The time of the next timer; [`SimTime::MAX`] if none is armed.
    #[inline]
    pub fn next_time(&self) -> SimTime {
        self.next.time
    }

    /// The host whose timer is next.
    #[inline]
    pub fn next_id(&self) -> Option<u32> {
        (self.next.time != SimTime::MAX).then_some(self.next.host)
    }

    /// Asks for what arming host `id`'s timer touches first.
    #[inline]
    pub(crate) fn ask_for(&self, id: u32) {
        if let Some(eight) = self.times.get(id as usize / FAN) {
            prefetch(eight);
        }
    }

    /// When host `id`'s timer is armed for.
    pub fn armed(&self, id: u32) -> Option<SimTime> {
        let id = Some(id as usize).filter(|&id| id < self.hosts)?;
        let time = self.times[id / FAN].0[id % FAN];
        (time != SimTime::MAX).then_some(time)
    }

    /// Arms host `id`'s timer for exactly `time`; [`SimTime::MAX`] disarms it.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn set(&mut self, id: u32, time: SimTime) {
        assert!((id as usize) < self.hosts, "there is no host {id}");
        let mut at = id as usize / FAN;
        let eight = &mut self.times[at];
        eight.0[id as usize % FAN] = time;
        let (time, place) = eight.least();
        let mut first = Entry {
            time,
            host: (at * FAN + place) as u32,
        };
        for row in &self.rows {
            let winners = &mut self.winners[row + at / FAN];
            let place = at % FAN;
            let (time, host) = (&mut winners.times.0[place], &mut winners.hosts[place]);
            if (*time, *host) == (first.time, first.host) {
                return;
            }
            (*time, *host) = (first.time, first.host);
            let (time, place) = winners.times.least();
            first = Entry {
                time,
                host: winners.hosts[place],
            };
            at /= FAN;
        }
        self.next = first;
    }

    /// Disarms host `id`'s timer.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn cancel(&mut self, id: u32) {
        self.set(id, SimTime::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn there_is_one_entry_per_host() {
        let mut t = Timers::new(2);
        let at = SimTime::from_nanos;
        t.set(0, at(10));
        t.set(0, at(5));
        assert_eq!((t.next_time(), t.next_id()), (at(5), Some(0)));
        t.set(0, at(30));
        t.set(1, at(30));
        assert_eq!(t.next_id(), Some(0), "ties go by host number");
        t.cancel(0);
        assert_eq!((t.next_id(), t.armed(0)), (Some(1), None));
        t.cancel(0);
        t.cancel(1);
        assert_eq!((t.next_time(), t.next_id()), (SimTime::MAX, None));
        t.set(1, at(7));
        assert!(t.armed(8).is_none(), "there is no such host");
    }

    proptest! {
        #[test]
        fn behaves_as_a_table(
            hosts in prop::sample::select(vec![1u32, 7, 8, 9, 64, 65, 70, 600]),
            ops in proptest::collection::vec((0u8..3, 0u32..600, 0u64..50), 1..400)
        ) {
            let mut t = Timers::new(hosts as usize);
            let mut model = vec![None::<SimTime>; hosts as usize];
            for (op, id, ps) in ops {
                let (id, time) = (id % hosts, SimTime::from_picos(ps));
                let slot = &mut model[id as usize];
                match op {
                    0 => {
                        t.cancel(id);
                        *slot = None;
                    }
                    _ => {
                        t.set(id, time);
                        *slot = Some(time);
                    }
                }
                let mut all: Vec<_> =
                    (0..hosts).filter_map(|i| Some((model[i as usize]?, i))).collect();
                all.sort_unstable();
                let next = all.first().copied();
                prop_assert_eq!(t.next_id(), next.map(|n| n.1));
                prop_assert_eq!(t.next_time(), next.map_or(SimTime::MAX, |n| n.0));
                for i in 0..hosts {
                    prop_assert_eq!(t.armed(i), model[i as usize]);
                }
            }
        }
    }
}
