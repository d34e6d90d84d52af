//! One timer per host, re-armed in place.
//!
//! Kept apart from the packet events, so that ten thousand retransmission timers do not make
//! each packet's event dearer, and indexed by host, so that there is never more than one entry
//! per host and cancelling one leaves nothing behind. Timers at one time fire in the order of
//! their host's number.

use super::time::SimTime;

const ABSENT: u32 = u32::MAX;
/// Children per node: half the levels of a binary heap, and four keys fill a cache line.
const ARITY: usize = 4;

/// Time and host in one number, which is compared without a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

impl Entry {
    #[inline]
    fn new(time: SimTime, id: u32) -> Self {
        Self(u128::from(time.as_picos()) << 64 | u128::from(id))
    }

    #[inline]
    fn time(self) -> SimTime {
        SimTime::from_picos((self.0 >> 64) as u64)
    }

    #[inline]
    fn id(self) -> u32 {
        self.0 as u32
    }
}

/// Timers by host number, smallest `(time, number)` first.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    heap: Vec<Entry>,
    /// Where in `heap` each host's entry is.
    place: Vec<u32>,
}

impl Timers {
    /// For hosts 0 to `hosts` - 1, none armed.
    pub fn new(hosts: usize) -> Self {
        Self {
            heap: Vec::with_capacity(hosts),
            place: vec![ABSENT; hosts],
        }
    }

    /// The time of the next timer; [`SimTime::MAX`] if none is armed.
    #[inline]
    pub fn next_time(&self) -> SimTime {
        self.heap.first().map_or(SimTime::MAX, |e| e.time())
    }

    /// The host whose timer is next.
    pub fn next_id(&self) -> Option<u32> {
        self.heap.first().map(|e| e.id())
    }

    /// The hosts whose timers are the next three.
    #[inline]
    pub(crate) fn next_three(&self) -> [Option<u32>; 3] {
        let children = |at: usize| {
            let nodes = at * ARITY + 1..=at * ARITY + ARITY;
            nodes.filter_map(|at| Some((*self.heap.get(at)?, at)))
        };
        // The second is a child of the first, and the third of either.
        let second = children(0).min();
        let third = second.and_then(|second| {
            let others = children(0).filter(|&child| child != second);
            others.chain(children(second.1)).min()
        });
        [
            self.next_id(),
            second.map(|(e, _)| e.id()),
            third.map(|(e, _)| e.id()),
        ]
    }

    /// When host `id`'s timer is armed for.
    #[inline]
    pub fn armed(&self, id: u32) -> Option<SimTime> {
        let at = *self.place.get(id as usize)?;
        self.heap.get(at as usize).map(|e| e.time())
    }

    /// Arms host `id`'s timer for exactly `time`.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn set(&mut self, id: u32, time: SimTime) {
        let entry = Entry::new(time, id);
        let at = self.place[id as usize];
        if at == ABSENT {
            self.heap.push(entry);
            self.sift_up(self.heap.len() - 1, entry);
        } else if entry < self.heap[at as usize] {
            self.sift_up(at as usize, entry);
        } else {
            self.sift_down(at as usize, entry);
        }
    }

    /// Disarms host `id`'s timer.
    pub fn cancel(&mut self, id: u32) {
        let Some(at) = self
            .place
            .get(id as usize)
            .copied()
            .filter(|&at| at != ABSENT)
        else {
            return;
        };
        self.place[id as usize] = ABSENT;
        let Some(last) = self.heap.pop() else { return };
        let at = at as usize;
        if at < self.heap.len() {
            if last < self.heap[at] {
                self.sift_up(at, last);
            } else {
                self.sift_down(at, last);
            }
        }
    }

    /// Puts `entry` at `at`, which is free, or nearer to the top.
    fn sift_up(&mut self, mut at: usize, entry: Entry) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent] <= entry {
                break;
            }
            self.put(at, self.heap[parent]);
            at = parent;
        }
        self.put(at, entry);
    }

    /// Puts `entry` at `at`, which is free, or farther from the top.
    fn sift_down(&mut self, mut at: usize, entry: Entry) {
        loop {
            let first = at * ARITY + 1;
            let (least, child) = match self.heap.get(first..first + ARITY) {
                // Two pairs, and their winners.
                Some(&[a, b, c, d]) => {
                    let left = if b < a { (first + 1, b) } else { (first, a) };
                    let right = if d < c {
                        (first + 3, d)
                    } else {
                        (first + 2, c)
                    };
                    if right.1 < left.1 { right } else { left }
                }
                _ => {
                    let last = self.heap.len();
                    let Some(least) = (first..last).min_by_key(|&i| self.heap[i]) else {
                        break;
                    };
                    (least, self.heap[least])
                }
            };
            if entry <= child {
                break;
            }
            self.put(at, child);
            at = least;
        }
        self.put(at, entry);
    }

    #[inline]
    fn put(&mut self, at: usize, entry: Entry) {
        self.heap[at] = entry;
        self.place[entry.id() as usize] = at as u32;
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
    }

    proptest! {
        #[test]
        fn behaves_as_a_table(
            ops in proptest::collection::vec((0u8..3, 0u32..20, 0u64..50), 1..300)
        ) {
            let mut t = Timers::new(20);
            let mut model = [None::<SimTime>; 20];
            for (op, id, ps) in ops {
                let time = SimTime::from_picos(ps);
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
                    (0..20u32).filter_map(|i| Some((model[i as usize]?, i))).collect();
                all.sort_unstable();
                let next = all.first().copied();
                prop_assert_eq!(t.next_id(), next.map(|n| n.1));
                prop_assert_eq!(t.next_three(), [0, 1, 2].map(|n| all.get(n).map(|n| n.1)));
                prop_assert_eq!(t.next_time(), next.map_or(SimTime::MAX, |n| n.0));
                for i in 0..20 {
                    prop_assert_eq!(t.armed(i), model[i as usize]);
                }
            }
        }
    }
}
