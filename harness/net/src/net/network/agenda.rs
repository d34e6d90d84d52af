//! What is to come at times.

use crate::sim::time::SimTime;
use narrows_congestion::order::sort_by_key;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// What is to come, by time, then in the order in which it was put here.
#[derive(Debug)]
pub(super) struct Agenda<D> {
    entries: BinaryHeap<Entry<D>>,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<D> {
    at: (SimTime, u64),
    due: D,
}

// What comes first is greatest.
impl<D> Ord for Entry<D> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at)
    }
}

impl<D> PartialOrd for Entry<D> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<D> PartialEq for Entry<D> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<D> Eq for Entry<D> {}

impl<D: Copy> Agenda<D> {
    pub(super) const fn new() -> Self {
        Self {
            entries: BinaryHeap::new(),
            sequence: 0,
        }
    }

    pub(super) fn put(&mut self, time: SimTime, due: D) {
        // What comes at the end of time never does.
        if time != SimTime::MAX {
            let at = (time, self.sequence);
            self.entries.push(Entry { at, due });
            self.sequence += 1;
        }
    }

    /// When the first comes.
    pub(super) fn next(&self) -> Option<SimTime> {
        self.entries.peek().map(|first| first.at.0)
    }

    /// Takes the first if it has come by `now`.
    pub(super) fn take_due(&mut self, now: SimTime) -> Option<D> {
        let first = self.entries.peek_mut()?;
        (first.at.0 <= now).then(|| PeekMut::pop(first).due)
    }

    /// Takes those that are `meant`, in their order.
    pub(super) fn take(&mut self, meant: impl Fn(&D) -> bool) -> Vec<D> {
        let mut taken = Vec::new();
        self.entries.retain(|entry| {
            let stays = !meant(&entry.due);
            if !stays {
                taken.push((entry.at, entry.due));
            }
            stays
        });
        sort_by_key(&mut taken, |(at, _)| *at);
        taken.into_iter().map(|(_, due)| due).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_at_one_time_comes_in_the_order_in_which_it_was_put() {
        let at = SimTime::from_nanos;
        let mut agenda = Agenda::new();
        for (n, time) in [7, 3, 7, 3, 5, 7, 3, 7].into_iter().enumerate() {
            agenda.put(at(time), n);
        }
        agenda.put(SimTime::MAX, 8);
        assert_eq!(agenda.next(), Some(at(3)));
        assert_eq!(agenda.take(|n| [0, 2, 3].contains(n)), [3, 0, 2]);
        assert_eq!(agenda.take_due(at(2)), None);
        let rest: Vec<_> = std::iter::from_fn(|| agenda.take_due(at(7))).collect();
        assert_eq!(rest, [1, 6, 4, 5, 7]);
        assert_eq!(agenda.next(), None);
    }
}
