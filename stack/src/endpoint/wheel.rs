//! Timers of many connections: a hierarchical timing wheel (Varghese and Lauck, 1987) with
//! lazy re-arming.
//!
//! Ten levels of 64 slots; a slot of level 0 is 64 ns wide, each level 64 times coarser than the
//! one below, so the whole range of [`Instant`] fits. The lists of the slots run through one
//! `Vec` indexed by timer id: arming allocates nothing once that has grown. A slot remembers the
//! earliest deadline filed in it, so that the wheel need not be woken to move timers down a
//! level.
//!
//! While all ids are below 16 there is no wheel at all, only the `Vec`, and for id 0 alone not even
//! that: a host with one connection pays 24 bytes.

use narrows_congestion::Instant;
use narrows_congestion::hint::cold_path;

/// Bits of a nanosecond count below the resolution of level 0.
const TICK_BITS: u32 = 6;
/// Bits of a tick count that one level covers.
const LEVEL_BITS: u32 = 6;
const SLOTS: usize = 1 << LEVEL_BITS;
const SLOT_MASK: u64 = SLOTS as u64 - 1;
const LEVELS: usize = (64 - TICK_BITS).div_ceil(LEVEL_BITS) as usize;
/// With at most this many ids a scan is cheaper than lists.
const SMALL: usize = 16;

/// "Not armed" as a deadline, "in no list" as the time filed under.
const NEVER: u64 = u64::MAX;
/// End of a list.
const NIL: u32 = u32::MAX;
/// In `Entry::prev`: first of the list of the slot whose index is in the other bits.
const HEAD: u32 = 1 << 31;

/// A timer per id, for small dense ids such as the indices of connections in a slab.
///
/// [`arm`](Self::arm) to a later time than before, by far the most frequent call (each ACK moves
/// the retransmission timer), and [`cancel`](Self::cancel) only store: the timer stays where it
/// is filed and is looked at again when that time comes. So the wheel may ask to be woken for
/// nothing, at most once per interval that the timer was armed for. A timer that is not armed
/// costs nothing.
///
/// Ids are below 2^31; memory is proportional to the largest one used.
#[derive(Debug)]
pub struct TimerWheel {
    /// A lower bound of all deadlines; `NEVER` if nothing is filed.
    next: u64,
    /// The deadline of id 0, while there are no others.
    alone: u64,
    many: Option<Box<Many>>,
}

/// Timers of ids above 0, too.
#[derive(Debug)]
struct Many {
    /// By id.
    entries: Vec<Entry>,
    /// How many timers are armed.
    armed: usize,
    levels: Option<Box<Levels>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// When the user wants it; `NEVER` if not armed.
    deadline: u64,
    /// The deadline it is filed under, never after `deadline`; `NEVER` if in no list.
    filed: u64,
    next: u32,
    prev: u32,
}

impl Entry {
    const fn new(deadline: u64) -> Self {
        Self {
            deadline,
            filed: NEVER,
            next: NIL,
            prev: NIL,
        }
    }

    /// If timer `id`, which this is, is due, it is no longer armed.
    #[inline]
    fn expire(&mut self, id: u32, now: u64, due: &mut Vec<(u64, u32)>) {
        if self.deadline <= now {
            due.push((self.deadline, id));
            self.deadline = NEVER;
        }
    }
}

/// The lists. A timer on level L has the bits above level L in common with `tick`, and on levels
/// above 0 a later slot than `tick`; so the first slot of the lowest level in use is the earliest.
#[derive(Debug)]
struct Levels {
    /// Everything filed before this tick has been taken out.
    tick: u64,
    /// Bit S of level L: the slot has a timer.
    occupied: [u64; LEVELS],
    head: [u32; LEVELS * SLOTS],
    /// A lower bound of the times filed in the slot: exact until one is taken out.
    min: [u64; LEVELS * SLOTS],
}

impl Default for TimerWheel {
    fn default() -> Self {
        Self {
            next: NEVER,
            alone: NEVER,
            many: None,
        }
    }
}

impl TimerWheel {
    /// Make timer `id` expire at `at`, whatever it was armed for before.
    ///
    /// A time in the past expires with the next [`expire`](Self::expire).
    /// [`Instant::MAX`] is "never" and the same as [`cancel`](Self::cancel).
    ///
    /// # Panics
    /// If `id` is 2^31 or more.
    #[inline]
    pub fn arm(&mut self, id: u32, at: Instant) {
        let at = at.as_nanos();
        if at == NEVER {
            return self.cancel(id);
        }
        match &mut self.many {
            None if id == 0 => self.alone = at,
            many => {
                cold_path();
                let many = many.get_or_insert_with(|| Many::of(self.alone));
                many.arm(id, at, &mut self.next);
            }
        }
        self.next = self.next.min(at);
    }

    /// Make timer `id` not expire.
    #[inline]
    pub fn cancel(&mut self, id: u32) {
        match &mut self.many {
            None if id == 0 => self.alone = NEVER,
            None => {}
            Some(many) => many.cancel(id),
        }
    }

    /// When to call [`expire`](Self::expire) next; `None` while no timer is armed.
    ///
    /// Never after the earliest deadline, and exactly it, unless the earliest timer was put off
    /// or cancelled since it was filed; then it may be earlier. After `expire(now)` it is after
    /// `now`, so a caller that waits for it always gets on.
    #[inline]
    pub fn next_deadline(&self) -> Option<Instant> {
        let armed = match &self.many {
            None => self.alone != NEVER,
            Some(many) => {
                cold_path();
                many.armed > 0
            }
        };
        armed.then(|| Instant::from_nanos(self.next))
    }

    /// Take all timers whose deadline is `now` or before; they are then not armed. `now` never goes
    /// back.
    ///
    /// Earlier deadlines come first, equal ones by id.
    #[inline]
    pub fn expire(&mut self, now: Instant) -> impl Iterator<Item = u32> + use<> {
        let now = now.as_nanos().min(NEVER - 1);
        let (mut alone, mut due) = (None, Vec::new());
        if now >= self.next {
            self.next = match &mut self.many {
                None => {
                    if self.alone <= now {
                        alone = Some(0);
                        self.alone = NEVER;
                    }
                    self.alone
                }
                Some(many) => many.expire(now, &mut due),
            };
        }
        let due = due.into_iter().map(|(_, id)| id);
        alone.into_iter().chain(due)
    }
}

impl Many {
    /// There are others besides id 0, from now on.
    #[cold]
    fn of(deadline: u64) -> Box<Self> {
        Box::new(Self {
            entries: vec![Entry::new(deadline)],
            armed: usize::from(deadline != NEVER),
            levels: None,
        })
    }

    #[inline]
    fn arm(&mut self, id: u32, at: u64, next: &mut u64) {
        if id as usize >= self.entries.len() {
            self.grow(id, next);
        }
        let entry = &mut self.entries[id as usize];
        self.armed += usize::from(entry.deadline == NEVER);
        entry.deadline = at;
        if at < entry.filed
            && let Some(levels) = &mut self.levels
        {
            levels.unlink(&mut self.entries, id);
            levels.file(&mut self.entries, id);
        }
    }

    #[inline]
    fn cancel(&mut self, id: u32) {
        if let Some(entry) = self.entries.get_mut(id as usize) {
            self.armed -= usize::from(entry.deadline != NEVER);
            entry.deadline = NEVER;
        }
    }

    /// Take what is due at `now`, file anew what was put off: a lower bound of what remains.
    #[inline]
    fn expire(&mut self, now: u64, due: &mut Vec<(u64, u32)>) -> u64 {
        let next = match &mut self.levels {
            Some(levels) => levels.expire(now, &mut self.entries, due),
            None => {
                let entries = self.entries.iter_mut().zip(0..);
                entries.for_each(|(entry, id)| entry.expire(id, now, due));
                self.earliest()
            }
        };
        self.armed -= due.len();
        due.sort_unstable();
        next
    }

    fn earliest(&self) -> u64 {
        let deadlines = self.entries.iter().map(|entry| entry.deadline);
        deadlines.min().unwrap_or(NEVER)
    }

    /// There is a timer `id`, too, and lists once there are too many for a scan: `next` is exact then.
    #[cold]
    fn grow(&mut self, id: u32, next: &mut u64) {
        assert!(id < HEAD, "timer id {id} is not below 2^31");
        self.entries.resize(id as usize + 1, Entry::new(NEVER));
        if self.levels.is_none() && self.entries.len() > SMALL {
            *next = self.earliest();
            let levels = self.levels.insert(Levels::new());
            (0..=id).for_each(|id| levels.file(&mut self.entries, id));
        }
    }
}

impl Levels {
    fn new() -> Box<Self> {
        Box::new(Self {
            tick: 0,
            occupied: [0; LEVELS],
            head: [NIL; LEVELS * SLOTS],
            min: [NEVER; LEVELS * SLOTS],
        })
    }

    /// Put an entry that is in no list into the one for its deadline, if it has one.
    #[inline]
    fn file(&mut self, entries: &mut [Entry], id: u32) {
        let entry = &mut entries[id as usize];
        let at = entry.deadline;
        entry.filed = at;
        if at == NEVER {
            return;
        }
        let tick = (at >> TICK_BITS).max(self.tick);
        // The highest level on which the two differ; `| 1` makes equal ones level 0.
        let level = ((tick ^ self.tick) | 1).ilog2() / LEVEL_BITS;
        let slot = (tick >> (level * LEVEL_BITS)) & SLOT_MASK;
        let index = level as usize * SLOTS + slot as usize;
        let second = self.head[index];
        entry.next = second;
        entry.prev = HEAD | index as u32;
        if second != NIL {
            entries[second as usize].prev = id;
        }
        self.head[index] = id;
        self.min[index] = self.min[index].min(at);
        self.occupied[level as usize] |= 1 << slot;
    }

    /// Take an entry out of its list, if it is in one.
    #[inline]
    fn unlink(&mut self, entries: &mut [Entry], id: u32) {
        let Entry {
            filed, next, prev, ..
        } = entries[id as usize];
        if filed == NEVER {
            return;
        }
        entries[id as usize].filed = NEVER;
        if next != NIL {
            entries[next as usize].prev = prev;
        }
        if prev & HEAD == 0 {
            entries[prev as usize].next = next;
        } else {
            let index = (prev & !HEAD) as usize;
            self.head[index] = next;
            if next == NIL {
                self.empty(index);
            }
        }
    }

    /// Note that the list of a slot has become empty.
    fn empty(&mut self, index: usize) {
        self.head[index] = NIL;
        self.min[index] = NEVER;
        self.occupied[index / SLOTS] &= !(1 << (index % SLOTS));
    }

    /// The earliest slot that has a timer: its index and first tick.
    fn first(&self) -> Option<(usize, u64)> {
        let level = self.occupied.iter().position(|slots| *slots != 0)?;
        let slot = self.occupied[level].trailing_zeros();
        let shift = level as u32 * LEVEL_BITS;
        // Bits above this level as in `tick`, this level's from the slot, zero below.
        let start = (((self.tick >> shift) & !SLOT_MASK) | u64::from(slot)) << shift;
        Some((level * SLOTS + slot as usize, start))
    }

    /// Take out all that is due at `now`; a lower bound of what remains, after `now`.
    fn expire(&mut self, now: u64, entries: &mut [Entry], due: &mut Vec<(u64, u32)>) -> u64 {
        let now_tick = now >> TICK_BITS;
        while let Some((index, start)) = self.first() {
            if start > now_tick || self.min[index] > now {
                // Nothing in the first slot is due, so nothing at all is. The clock moves to
                // where the order of the slots still holds: into this slot only if it is on
                // level 0, where timers may share the slot of `tick`.
                let limit = if index < SLOTS { start } else { start - 1 };
                self.tick = self.tick.max(now_tick.min(limit));
                return self.min[index];
            }
            self.tick = start;
            let mut id = self.head[index];
            self.empty(index);
            while id != NIL {
                let entry = &mut entries[id as usize];
                let next = entry.next;
                entry.expire(id, now, due);
                self.file(entries, id);
                id = next;
            }
        }
        self.tick = self.tick.max(now_tick);
        NEVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    fn drain(wheel: &mut TimerWheel, now: u64) -> Vec<u32> {
        wheel.expire(at(now)).collect()
    }

    impl TimerWheel {
        /// When timer `id` will expire.
        fn deadline(&self, id: u32) -> Option<Instant> {
            let deadline = match &self.many {
                None if id == 0 => self.alone,
                None => NEVER,
                Some(many) => many.entries.get(id as usize)?.deadline,
            };
            (deadline != NEVER).then(|| Instant::from_nanos(deadline))
        }

        /// How many timers are armed.
        fn armed(&self) -> usize {
            match &self.many {
                None => usize::from(self.alone != NEVER),
                Some(many) => many.armed,
            }
        }
    }

    #[test]
    fn the_levels_cover_every_instant() {
        assert!(TICK_BITS + LEVELS as u32 * LEVEL_BITS >= 64);
        let mut w = TimerWheel::default();
        for (id, ns) in [
            (20, 0),
            (21, u64::MAX - 1),
            (22, 1 << 63),
            (23, 86_400_000_000_000),
        ] {
            w.arm(id, at(ns));
        }
        assert_eq!(drain(&mut w, 0), [20]);
        assert_eq!(drain(&mut w, 86_400_000_000_000), [23]);
        assert_eq!(drain(&mut w, (1 << 63) - 1), []);
        assert_eq!(drain(&mut w, 1 << 63), [22]);
        assert_eq!(w.next_deadline(), Some(at(u64::MAX - 1)));
        assert_eq!(drain(&mut w, u64::MAX), [21]);
        assert_eq!(w.next_deadline(), None);
    }

    #[test]
    fn order_is_deadline_then_id() {
        for base in [0, 100] {
            let mut w = TimerWheel::default();
            for (id, ns) in [(3, 50), (1, 50), (2, 7), (0, 9_000_000), (4, 8_000)] {
                w.arm(base + id, at(ns));
            }
            let want: Vec<u32> = [2, 1, 3, 4, 0].iter().map(|id| base + id).collect();
            assert_eq!(drain(&mut w, 10_000_000), want);
        }
    }

    #[test]
    fn deadlines_are_exact_to_the_nanosecond() {
        for id in [0, 100] {
            let mut w = TimerWheel::default();
            w.arm(id, at(1_234_567_891));
            assert_eq!(w.next_deadline(), Some(at(1_234_567_891)));
            assert_eq!(drain(&mut w, 1_234_567_890), []);
            assert_eq!(drain(&mut w, 1_234_567_891), [id]);
            assert_eq!(w.deadline(id), None);
        }
    }

    #[test]
    fn putting_off_wakes_at_most_once_per_interval() {
        for id in [0, 100] {
            let mut w = TimerWheel::default();
            let (step, rto) = (10_000, 1_000_000);
            let mut wakes = 0;
            for k in 0..10_000u64 {
                let now = k * step;
                w.arm(id, at(now + rto));
                while w.next_deadline().is_some_and(|t| t <= at(now)) {
                    assert_eq!(drain(&mut w, now), []);
                    wakes += 1;
                }
            }
            assert!(wakes <= 10_000 * step / rto + 1, "{wakes}");
        }
    }

    #[test]
    fn timers_may_change_before_those_are_taken_that_are_due() {
        for base in [0, 100] {
            let mut w = TimerWheel::default();
            for id in base..base + 4 {
                w.arm(id, at(10));
            }
            w.arm(base, at(5));
            w.cancel(base + 1);
            w.arm(base + 2, at(20));
            assert_eq!(w.next_deadline(), Some(at(5)));
            assert_eq!(drain(&mut w, 10), [base, base + 3]);
            w.arm(base, at(5)); // in the past
            assert_eq!(drain(&mut w, 10), [base]);
            assert_eq!(w.next_deadline(), Some(at(20)));
        }
    }

    #[test]
    fn never_is_not_armed() {
        let mut w = TimerWheel::default();
        w.arm(0, Instant::MAX);
        w.cancel(7);
        assert_eq!((w.armed(), w.next_deadline()), (0, None));
        w.arm(0, at(1));
        w.arm(0, Instant::MAX);
        assert_eq!((w.armed(), w.next_deadline()), (0, None));
        assert_eq!(drain(&mut w, u64::MAX), []);
    }

    #[derive(Clone, Debug)]
    enum Op {
        Arm(u32, u64),
        Cancel(u32),
        /// Let this much time pass, then take everything due.
        Pass(u64),
        /// Go to the next deadline that the wheel names.
        Follow,
    }

    /// Spans from 1 ns to days, each magnitude equally likely; now and then the far end.
    fn span() -> impl Strategy<Value = u64> {
        (0u32..50, any::<u64>()).prop_map(|(bits, x)| if bits == 49 { x } else { x >> (63 - bits) })
    }

    fn op(ids: u32) -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => (0..ids, span()).prop_map(|(id, d)| Op::Arm(id, d)),
            1 => (0..ids).prop_map(Op::Cancel),
            2 => (0u32..40, any::<u64>()).prop_map(|(b, x)| Op::Pass(x >> (63 - b))),
            3 => Just(Op::Follow),
        ]
    }

    /// The obvious implementation.
    #[derive(Default)]
    struct Model {
        set: BTreeSet<(u64, u32)>,
    }

    impl Model {
        fn arm(&mut self, id: u32, at: u64) {
            self.cancel(id);
            if at != u64::MAX {
                self.set.insert((at, id));
            }
        }
        fn cancel(&mut self, id: u32) {
            self.set.retain(|&(_, i)| i != id);
        }
        fn due(&mut self, now: u64) -> Vec<u32> {
            let later = self.set.split_off(&(now + 1, 0));
            let due = std::mem::replace(&mut self.set, later);
            due.into_iter().map(|(_, id)| id).collect()
        }
    }

    /// Deadlines so close that slots hold many timers, and often moved.
    fn dense_op() -> impl Strategy<Value = Op> {
        prop_oneof![
            12 => (0u32..40, 900u64..2_000).prop_map(|(id, d)| Op::Arm(id, d / 50 * 50)),
            1 => (0u32..40).prop_map(Op::Cancel),
            2 => (0u64..200).prop_map(Op::Pass),
            1 => Just(Op::Follow),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_an_ordered_set(
            small in proptest::collection::vec(op(SMALL as u32), 0..150),
            large in proptest::collection::vec(op(40), 0..150),
            dense in proptest::collection::vec(dense_op(), 0..300),
        ) {
            let (mut wheel, mut model, mut now) = (TimerWheel::default(), Model::default(), 0u64);
            // The small ids first: the change from scan to lists happens in the middle.
            for op in small.into_iter().chain(dense).chain(large) {
                match op {
                    Op::Arm(id, d) => {
                        // Up to 1 us in the past.
                        let t = now.saturating_add(d).saturating_sub(1_000);
                        wheel.arm(id, at(t));
                        model.arm(id, t);
                    }
                    Op::Cancel(id) => {
                        wheel.cancel(id);
                        model.cancel(id);
                    }
                    Op::Pass(d) => {
                        now = now.saturating_add(d).min(u64::MAX - 2);
                        prop_assert_eq!(drain(&mut wheel, now), model.due(now));
                    }
                    Op::Follow => {
                        if let Some(t) = wheel.next_deadline() {
                            now = now.max(t.as_nanos()).min(u64::MAX - 2);
                            prop_assert_eq!(drain(&mut wheel, now), model.due(now));
                            prop_assert!(wheel.next_deadline().is_none_or(|n| n > at(now)));
                        }
                    }
                }
                prop_assert_eq!(wheel.armed(), model.set.len());
                match model.set.first() {
                    None => prop_assert_eq!(wheel.next_deadline(), None),
                    Some(&(t, id)) => {
                        prop_assert_eq!(wheel.deadline(id), Some(at(t)));
                        prop_assert!(wheel.next_deadline().unwrap() <= at(t));
                    }
                }
            }
        }
    }
}
