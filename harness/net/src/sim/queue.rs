//! The event queue: which source has something to do next.
//!
//! An event is `(time, rank, id)` and nothing else: it says "look at source `id` at `time`". The
//! source keeps what happens there. So an event costs sixteen bytes, and cancelling one is a
//! matter of the source: an event whose time is not the one the source is waiting for is stale
//! and is ignored (its time is its epoch). Sources that re-arm often belong in
//! [`super::timers::Timers`], which cancels for good.
//!
//! # Tie rule
//! Events at one time come in the order of their rank, then of their id. Neither depends on the
//! order of insertion, so the order of simultaneous events is a function of the model and not
//! of the history. A source that may have two events at one time (a held-back packet) has an id
//! for each.
//!
//! # How
//! A calendar of 4,096 buckets with a bit per bucket that is in use, which spans a little more than most
//! events are ahead ([`EventQueue::spanning`]): 4 us in buckets of a nanosecond to 268 us in buckets of 65.
//! Of the bucket that is due the first event is taken out. One that holds more than a few is
//! split into 64, and of those one that holds more than a few is emptied into a small heap
//! that gives the exact order. What lies beyond the calendar waits in another heap. Push and pop cost
//! the same with ten events or ten thousand, as long as they are spread in time; when they are not it
//! is a heap of those that fall together.

use core::cmp::Reverse;
use narrows_congestion::hint::cold_path;
use std::collections::BinaryHeap;

use super::time::SimTime;

/// log2 of the width of a bucket in picoseconds, at least and at most.
const WIDTH_BITS: (u32, u32) = (10, 16);
/// log2 of the number of parts of a bucket that is split.
const SPLIT_BITS: u32 = 6;
/// Number of buckets; a multiple of 64 and at most 64 * 64.
const BUCKETS: usize = 4_096;
const WORDS: usize = BUCKETS / 64;
const NIL: u32 = u32::MAX;
/// Events of a bucket among which the first is looked for one by one.
const FEW: u32 = 8;

/// One event: look at source `id` at `time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// When.
    pub time: SimTime,
    /// Order among events at one time, low first.
    pub rank: u32,
    /// The source; also the order among equal ranks.
    pub id: u32,
}

/// An event as one integer whose order is the order of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

impl Key {
    /// No event, which none has for a key. Where a word of its own would say so, it would go through
    /// memory.
    const NONE: Self = Self(u128::MAX);

    #[inline]
    fn new(e: Event) -> Self {
        let low = u64::from(e.rank) << 32 | u64::from(e.id);
        Self(u128::from(e.time.as_picos()) << 64 | u128::from(low))
    }
    #[inline]
    fn event(self) -> Event {
        let low = self.0 as u64;
        Event {
            time: SimTime::from_picos(self.picos()),
            rank: (low >> 32) as u32,
            id: low as u32,
        }
    }
    #[inline]
    fn picos(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key: Key,
    next: u32,
}

/// Events in order of time, then rank, then id.
#[derive(Debug)]
pub struct EventQueue {
    /// Events before `horizon` that are in the past or fall together, smallest on top.
    near: BinaryHeap<Reverse<Key>>,
    /// The other events before `horizon`, all of the bucket before it.
    split: Split,
    /// Buckets before this one come before all that is elsewhere: none while there are any of either, and
    /// those before `next_far` else.
    first_until: u64,
    /// log2 of the width of a bucket in picoseconds.
    width_bits: u32,
    /// First bucket (counted from the start of time) that has not been split.
    horizon: u64,
    /// Head of the chain of nodes of each bucket.
    buckets: Box<[u32; BUCKETS]>,
    /// A bit per bucket in use, and a bit per word of those that is not zero, and of some that are.
    used: [u64; WORDS],
    used_words: u64,
    nodes: Vec<Node>,
    free: u32,
    /// Events that were beyond the calendar when they were pushed.
    far: BinaryHeap<Reverse<Key>>,
    /// Bucket of the first of those; `u64::MAX` if there is none.
    next_far: u64,
}

/// A bucket in parts.
#[derive(Debug)]
struct Split {
    /// A bit per part in use.
    used: u64,
    /// Head of the chain of nodes of each part in use.
    heads: [u32; 64],
}

impl Split {
    /// Puts node `i`, which is due so many widths of a part after some bucket's start, first in its part:
    /// what is to follow it.
    #[inline]
    fn link(&mut self, i: u32, parts: u64) -> u32 {
        let part = parts as usize % (1 << SPLIT_BITS);
        let bit = 1 << part;
        let next = if self.used & bit == 0 {
            NIL
        } else {
            self.heads[part]
        };
        self.used |= bit;
        self.heads[part] = i;
        next
    }
}

/// Where the next event is, if it is not alone in its bucket.
enum Elsewhere {
    /// One of a bucket's.
    Few(u64),
    /// Anywhere.
    Any,
    /// It is not due.
    Later,
}

/// The first event of a chain.
struct Least {
    node: u32,
    /// The node before it; [`NIL`] if it is the head.
    before: u32,
    key: Key,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self::of_width(WIDTH_BITS.1)
    }
}

impl EventQueue {
    /// For events most of which are put in no longer than `ahead` before they are due, and come no closer
    /// than one every `apart` on average: narrower buckets would be more memory for nothing.
    pub fn spanning(ahead: SimTime, apart: SimTime) -> Self {
        let all = ahead.as_picos().div_ceil(BUCKETS as u64).max(1);
        let one = apart.as_picos().max(1);
        let (least, most) = WIDTH_BITS;
        let bits = all.next_power_of_two().ilog2().max(one.ilog2());
        Self::of_width(bits.clamp(least, most))
    }

    fn of_width(width_bits: u32) -> Self {
        Self {
            width_bits,
            near: BinaryHeap::new(),
            split: Split {
                used: 0,
                heads: [NIL; 64],
            },
            first_until: u64::MAX,
            horizon: 0,
            buckets: Box::new([NIL; BUCKETS]),
            used: [0; WORDS],
            used_words: 0,
            nodes: Vec::new(),
            free: NIL,
            far: BinaryHeap::new(),
            next_far: u64::MAX,
        }
    }

    /// True if nothing waits, not even a stale event.
    pub fn is_empty(&self) -> bool {
        let none = self.used == [0; WORDS] && self.split.used == 0;
        none && self.near.is_empty() && self.far.is_empty()
    }

    /// Puts an event in. An event in the past is allowed and comes out next.
    #[inline]
    pub fn push(&mut self, event: Event) {
        let key = Key::new(event);
        debug_assert!(
            key != Key::NONE,
            "the last of all keys says that there is no event"
        );
        let slot = key.picos() >> self.width_bits;
        // Before the horizon this wraps to far beyond the calendar.
        if slot.wrapping_sub(self.horizon) < BUCKETS as u64 {
            self.push_bucket(slot, key);
        } else {
            self.push_elsewhere(slot, key);
        }
    }

    #[cold]
    fn push_elsewhere(&mut self, slot: u64, key: Key) {
        if slot + 1 == self.horizon {
            self.push_split(key);
        } else if slot < self.horizon {
            self.near.push(Reverse(key));
        } else {
            self.far.push(Reverse(key));
            self.look_far();
        }
        self.look_elsewhere();
    }

    /// Takes the next event out if it is due at `limit` or before.
    #[inline(always)] // Into the world's loop, for each event.
    pub fn pop_until(&mut self, limit: SimTime) -> Option<Event> {
        let key = match self.pop_lone(limit) {
            Ok(key) => return Some(key.event()),
            Err(Elsewhere::Few(slot)) => self.pop_of_few(slot, limit),
            Err(Elsewhere::Any) => self.pop_slow(limit),
            Err(Elsewhere::Later) => return None,
        };
        (key != Key::NONE).then(|| key.event())
    }

    /// The common case: the next bucket holds one event, and nothing far is as near.
    #[inline(always)]
    fn pop_lone(&mut self, limit: SimTime) -> Result<Key, Elsewhere> {
        let slot = self.next_used();
        if slot >= self.first_until {
            return Err(Elsewhere::Any);
        }
        let at = slot as usize % BUCKETS;
        let i = self.buckets[at];
        let Some(node) = self.nodes.get_mut(i as usize) else {
            return Err(Elsewhere::Later);
        };
        if node.next != NIL {
            return Err(Elsewhere::Few(slot));
        }
        let key = node.key;
        if key.picos() > limit.as_picos() {
            return Err(Elsewhere::Later);
        }
        node.next = self.free;
        self.free = i;
        self.horizon = slot + 1;
        self.clear_bucket(at);
        Ok(key)
    }

    /// Takes the next event out of a bucket that holds several, and leaves the others there.
    #[inline(never)]
    fn pop_of_few(&mut self, slot: u64, limit: SimTime) -> Key {
        let at = slot as usize % BUCKETS;
        let first = self.buckets[at];
        let Some(least) = self.least_of(first) else {
            return self.pop_slow(limit);
        };
        if least.key.picos() > limit.as_picos() {
            return Key::NONE;
        }
        let next = self.unlink(&least);
        if least.before == NIL {
            self.buckets[at] = next;
        }
        self.horizon = slot;
        least.key
    }

    /// The first event of a chain; `None` if it is not one of a few.
    #[inline(always)]
    fn least_of(&self, first: u32) -> Option<Least> {
        let node = &self.nodes[first as usize];
        let mut least = Least {
            node: first,
            before: NIL,
            key: node.key,
        };
        let (mut before, mut i) = (first, node.next);
        let mut few = FEW;
        while i != NIL {
            few -= 1;
            if few == 0 {
                return None;
            }
            let node = &self.nodes[i as usize];
            if node.key < least.key {
                least = Least {
                    node: i,
                    before,
                    key: node.key,
                };
            }
            (before, i) = (i, node.next);
        }
        Some(least)
    }

    /// Takes a node out of its chain and frees it: what follows it, which is the chain's head where it
    /// was.
    #[inline(always)]
    fn unlink(&mut self, least: &Least) -> u32 {
        let next = core::mem::replace(&mut self.nodes[least.node as usize].next, self.free);
        self.free = least.node;
        if let Some(before) = self.nodes.get_mut(least.before as usize) {
            before.next = next;
        }
        next
    }

    #[cold]
    fn pop_slow(&mut self, limit: SimTime) -> Key {
        let key = self.pop_any(limit);
        self.look_elsewhere();
        key
    }

    /// What is elsewhere has changed.
    fn look_elsewhere(&mut self) {
        let any_near = self.split.used != 0 || !self.near.is_empty();
        self.first_until = if any_near { 0 } else { self.next_far };
    }

    #[inline(always)]
    fn pop_any(&mut self, limit: SimTime) -> Key {
        loop {
            let part = self.split.used.trailing_zeros() as usize;
            let Some(&head) = self.split.heads.get(part) else {
                if !self.near.is_empty() {
                    return self.pop_near(limit);
                }
                if !self.advance(limit) {
                    return Key::NONE;
                }
                continue;
            };
            let Some(least) = self.least_of(head) else {
                self.gather(part);
                continue;
            };
            if self.near.peek().is_some_and(|near| near.0 < least.key) {
                return self.pop_near(limit);
            }
            if least.key.picos() > limit.as_picos() {
                return Key::NONE;
            }
            let next = self.unlink(&least);
            if least.before == NIL {
                self.split.heads[part] = next;
                if next == NIL {
                    self.split.used &= !(1 << part);
                }
            }
            return least.key;
        }
    }

    fn pop_near(&mut self, limit: SimTime) -> Key {
        match self.near.peek() {
            Some(&Reverse(key)) if key.picos() <= limit.as_picos() => {
                self.near.pop();
                key
            }
            _ => Key::NONE,
        }
    }

    /// Empties a part into `near`.
    fn gather(&mut self, part: usize) {
        let mut i = self.split.heads[part];
        self.split.used &= !(1 << part);
        while i != NIL {
            let node = &mut self.nodes[i as usize];
            self.near.push(Reverse(node.key));
            let next = core::mem::replace(&mut node.next, self.free);
            self.free = i;
            i = next;
        }
    }

    /// Splits the next bucket in use, unless it starts after `limit`: what is pushed until then still
    /// finds the calendar. False: nothing is due.
    fn advance(&mut self, limit: SimTime) -> bool {
        let slot = self.next_used().min(self.next_far);
        if slot == u64::MAX || slot > limit.as_picos() >> self.width_bits {
            return false;
        }
        self.horizon = slot + 1;
        let at = slot as usize % BUCKETS;
        let part_bits = self.width_bits - SPLIT_BITS;
        let mut i = self.buckets[at];
        if i != NIL {
            self.clear_bucket(at);
        }
        while let Some(node) = self.nodes.get_mut(i as usize) {
            let next = self.split.link(i, node.key.picos() >> part_bits);
            i = core::mem::replace(&mut node.next, next);
        }
        while self.next_far <= slot
            && let Some(Reverse(key)) = self.far.pop()
        {
            self.push_split(key);
            self.look_far();
        }
        true
    }

    /// Puts an event of the bucket that is split into its part.
    fn push_split(&mut self, key: Key) {
        let i = self.take_node(Node { key, next: NIL });
        let parts = key.picos() >> (self.width_bits - SPLIT_BITS);
        self.nodes[i as usize].next = self.split.link(i, parts);
    }

    fn look_far(&mut self) {
        self.next_far = self
            .far
            .peek()
            .map_or(u64::MAX, |e| e.0.picos() >> self.width_bits);
    }

    #[inline]
    fn clear_bucket(&mut self, at: usize) {
        self.buckets[at] = NIL;
        self.used[at / 64] &= !(1 << (at % 64));
    }

    /// The first bucket in use at or after the horizon; `u64::MAX` if none is.
    #[inline]
    fn next_used(&mut self) -> u64 {
        let from = self.horizon as usize % BUCKETS;
        let (word, bit) = (from / 64, from % 64);
        let here = self.used[word] >> bit;
        if here != 0 {
            return self.horizon + u64::from(here.trailing_zeros());
        }
        // That a word is empty is noted when it is left: who empties it cannot foresee whether he does.
        if self.used[word] == 0 {
            self.used_words &= !(1 << word);
        }
        loop {
            // The words after this one, around the end, and this one's low bits last.
            let turned = self.used_words.rotate_right(word as u32 + 1);
            if turned == 0 {
                cold_path();
                return u64::MAX;
            }
            let at = (word + 1 + turned.trailing_zeros() as usize) % WORDS;
            if self.used[at] != 0 {
                let found = at * 64 + self.used[at].trailing_zeros() as usize;
                return self.horizon + ((found + BUCKETS - from) % BUCKETS) as u64;
            }
            self.used_words &= !(1 << at);
        }
    }

    #[inline]
    fn push_bucket(&mut self, slot: u64, key: Key) {
        let at = slot as usize % BUCKETS;
        let node = Node {
            key,
            next: self.buckets[at],
        };
        let i = self.take_node(node);
        self.buckets[at] = i;
        self.used[at / 64] |= 1 << (at % 64);
        self.used_words |= 1 << (at / 64);
    }

    #[inline]
    fn take_node(&mut self, node: Node) -> u32 {
        let i = self.free;
        let Some(spare) = self.nodes.get_mut(i as usize) else {
            return self.new_node(node);
        };
        self.free = spare.next;
        *spare = node;
        i
    }

    #[cold]
    fn new_node(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Events that wait.
    fn waiting(q: &EventQueue) -> usize {
        let mut spare = 0;
        let mut i = q.free;
        while let Some(node) = q.nodes.get(i as usize) {
            (spare, i) = (spare + 1, node.next);
        }
        q.nodes.len() - spare + q.near.len() + q.far.len()
    }

    fn event(ps: u64, rank: u32, id: u32) -> Event {
        Event {
            time: SimTime::from_picos(ps),
            rank,
            id,
        }
    }

    fn drain(q: &mut EventQueue) -> Vec<Event> {
        std::iter::from_fn(|| q.pop_until(SimTime::MAX)).collect()
    }

    #[test]
    fn ties_go_by_rank_then_id_whatever_the_order_of_insertion() {
        let sorted = [
            event(5, 0, 9),
            event(5, 1, 2),
            event(5, 1, 3),
            event(6, 0, 0),
        ];
        for (a, b, c, d) in [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)] {
            let mut q = EventQueue::default();
            for i in [a, b, c, d] {
                q.push(sorted[i]);
            }
            assert_eq!(drain(&mut q), sorted);
        }
    }

    #[test]
    fn the_limit_is_inclusive_and_does_not_lose_place() {
        let mut q = EventQueue::default();
        q.push(event(1 << 40, 0, 1));
        assert_eq!(q.pop_until(SimTime::from_picos((1 << 40) - 1)), None);
        q.push(event(7, 0, 2));
        assert_eq!(q.pop_until(SimTime::from_picos(7)), Some(event(7, 0, 2)));
        assert_eq!(
            q.pop_until(SimTime::from_picos(1 << 40)),
            Some(event(1 << 40, 0, 1))
        );
        q.push(event(3, 0, 3));
        assert_eq!(
            q.pop_until(SimTime::MAX),
            Some(event(3, 0, 3)),
            "the past comes next"
        );
        assert!(q.is_empty());
    }

    /// One event was too far for the calendar when it came, its successor in the same bucket not.
    #[test]
    fn a_far_event_comes_before_its_bucket_mates() {
        let mut q = EventQueue::default();
        let far = 1u64 << 40;
        q.push(event(far, 0, 1));
        q.push(event(far - 100_000_000, 0, 2));
        assert_eq!(q.pop_until(SimTime::MAX).map(|e| e.id), Some(2));
        q.push(event(far + 1, 0, 3));
        assert_eq!(drain(&mut q), [event(far, 0, 1), event(far + 1, 0, 3)]);
    }

    /// More than a few in one part of a bucket, beside others in the parts around it, and more of each
    /// while they are taken out.
    #[test]
    fn a_crowd_in_one_part_of_a_bucket_comes_in_order() {
        let mut q = EventQueue::default();
        let mut model = BTreeSet::new();
        let mut now = 7u64 << WIDTH_BITS.1;
        for n in 0..300u32 {
            let ps = now + u64::from(n % 5) * 700 + u64::from(n % 3) * 20_000;
            let e = event(ps, n * 7 % 11, n);
            q.push(e);
            model.insert(e);
            if n > 100 {
                let first = model.pop_first();
                assert_eq!(q.pop_until(SimTime::MAX), first);
                now = first.map_or(now, |e| e.time.as_picos());
            }
        }
        assert_eq!(drain(&mut q), model.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_calendar_spans_what_events_are_ahead_within_its_bounds() {
        let spanning = |ahead, apart| {
            let [ahead, apart] = [ahead, apart].map(SimTime::from_nanos);
            EventQueue::spanning(ahead, apart).width_bits
        };
        let of = |ns| spanning(ns, 0);
        // 4,096 buckets of 1.024 ns are 4.2 us.
        assert_eq!([0, 4_194, 4_195, 8_388].map(of), [10, 10, 11, 11]);
        assert_eq!([8_389, 268_000, 1_000_000_000].map(of), [12, 16, 16]);
        let every = |ns| spanning(4_000, ns);
        assert_eq!([1, 32, 33, 1_000].map(every), [10, 14, 15, 16]);
    }

    #[test]
    fn the_end_of_time_is_reached() {
        let mut q = EventQueue::default();
        q.push(event(u64::MAX, 0, 1));
        q.push(event(u64::MAX - 1, 0, 2));
        assert_eq!(drain(&mut q).len(), 2);
    }

    proptest! {
        /// Against an ordered set: spans from one bucket to far beyond the calendar.
        #[test]
        fn behaves_as_an_ordered_set(
            width_bits in WIDTH_BITS.0..=WIDTH_BITS.1,
            ops in proptest::collection::vec((0u8..3, 0u32..40, any::<u64>(), 0u32..3), 1..400)
        ) {
            let mut q = EventQueue::of_width(width_bits);
            let mut model = BTreeSet::new();
            let mut now = 0u64;
            for (n, (op, spread, raw, rank)) in ops.into_iter().enumerate() {
                if op < 2 {
                    let e = event(now + (raw & ((1 << spread) - 1)), rank, n as u32);
                    q.push(e);
                    model.insert(e);
                } else {
                    let limit = SimTime::from_picos(now + (raw & ((1 << spread) - 1)));
                    let due = model.first().copied().filter(|e| e.time <= limit);
                    prop_assert_eq!(q.pop_until(limit), due);
                    if let Some(e) = due {
                        model.remove(&e);
                        now = e.time.as_picos();
                    }
                }
                prop_assert_eq!(waiting(&q), model.len());
                prop_assert_eq!(q.is_empty(), model.is_empty());
            }
            prop_assert_eq!(drain(&mut q), model.into_iter().collect::<Vec<_>>());
        }
    }
}
