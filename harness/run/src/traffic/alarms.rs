//! What a role does at which time.

use narrows::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Things to do, by their time; of one time in the order of the things.
#[derive(Debug)]
pub struct Alarms<K>(BinaryHeap<Reverse<(Instant, K)>>);

impl<K: Ord> Default for Alarms<K> {
    fn default() -> Self {
        Self(BinaryHeap::new())
    }
}

impl<K: Ord> Alarms<K> {
    /// Do `what` at `at`.
    pub fn set(&mut self, at: Instant, what: K) {
        self.0.push(Reverse((at, what)));
    }

    /// The first thing that is due, which is then done.
    pub fn due(&mut self, now: Instant) -> Option<K> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|Reverse((_, what))| what)
    }

    /// When the first thing is due.
    pub fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_due_in_their_order() {
        let at = Instant::from_nanos;
        let mut alarms = Alarms::default();
        for (time, what) in [(7, 'c'), (5, 'b'), (5, 'a'), (9, 'd')] {
            alarms.set(at(time), what);
        }
        assert_eq!(alarms.next(), Some(at(5)));
        assert_eq!(alarms.due(at(4)), None);
        let due: Vec<char> = std::iter::from_fn(|| alarms.due(at(7))).collect();
        assert_eq!(due, ['a', 'b', 'c']);
        assert_eq!(alarms.next(), Some(at(9)));
    }
}
