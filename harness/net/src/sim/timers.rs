//! One timer per host, re-armed in place.
//!
//! Kept apart from the packet events, so that ten thousand retransmission timers do not make
//! each packet's event dearer, and indexed by host, so that there is never more than one entry
//! per host and cancelling one leaves nothing behind. Timers at one time fire in the order of
//! their host's number.
//!
//! # How
//! A tournament: the times of eight hosts lie side by side in a cache line, the least of each
//! eight in a row above, and so on up to a single eight. To arm a timer is to write its time and
//! the least of one eight a row, as far up as something changes. Which eights they are is known
//! beforehand, so they are read all at once; in a heap each is known by what was in the one
//! before. The first few timers are taken out of it and held in their order.

use super::time::SimTime;
use narrows::prefetch::prefetch;

/// Times side by side.
const FAN: usize = 8;
/// So many of the first are held in their order, if there are so many.
const KNOWN: usize = 3;

/// Time and host in one number, which is compared without a branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

impl Entry {
    /// None.
    const NONE: Self = Self(u128::MAX);

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
#[derive(Clone, Debug)]
pub struct Timers {
    /// Ascending, `known` of them: [`KNOWN`] unless there are no others. Where there is none the places
    /// say so, of which the last always is one.
    first: [Entry; KNOWN + 1],
    known: usize,
    /// All later than those.
    others: Tournament,
}

impl Timers {
    /// For hosts 0 to `hosts` - 1, none armed.
    pub fn new(hosts: usize) -> Self {
        Self {
            first: [Entry::NONE; KNOWN + 1],
            known: 0,
            others: Tournament::new(hosts),
        }
    }

    /// The time of the next timer; [`SimTime::MAX`] if none is armed.
    #[inline]
    pub fn next_time(&self) -> SimTime {
        self.first[0].time()
    }

    /// The host whose timer is next.
    pub fn next_id(&self) -> Option<u32> {
        self.first().first().map(|e| e.id())
    }

    /// The hosts whose timers are the next three.
    #[inline]
    pub(crate) fn next_three(&self) -> impl Iterator<Item = u32> + '_ {
        self.first().iter().map(|e| e.id())
    }

    /// Asks for what arming host `id`'s timer touches.
    #[inline]
    pub(crate) fn ask_for(&self, id: u32) {
        self.others.ask_for(id);
    }

    /// When host `id`'s timer is armed for.
    pub fn armed(&self, id: u32) -> Option<SimTime> {
        let first = self.first().iter().find(|e| e.id() == id);
        first.map_or_else(|| self.others.armed(id), |e| Some(e.time()))
    }

    /// Arms host `id`'s timer for exactly `time`; [`SimTime::MAX`] disarms it.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn set(&mut self, id: u32, time: SimTime) {
        let entry = Entry::new(time, id);
        let was_first = self.take_out(id);
        if self.first().last().is_some_and(|&last| entry < last) {
            if !was_first {
                self.others.set(id, SimTime::MAX);
            }
            self.put_in(entry);
        } else {
            self.others.set(id, time);
        }
        while self.known < KNOWN
            && let Some(next) = self.others.take_first()
        {
            self.first[self.known] = next;
            self.known += 1;
        }
    }

    /// Disarms host `id`'s timer.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn cancel(&mut self, id: u32) {
        self.set(id, SimTime::MAX);
    }

    #[inline]
    fn first(&self) -> &[Entry] {
        &self.first[..self.known]
    }

    /// Takes host `id` out of the first; false if it is none of them.
    fn take_out(&mut self, id: u32) -> bool {
        let Some(at) = self.first().iter().position(|e| e.id() == id) else {
            return false;
        };
        // Written so that it is a few moves, and not a call that moves any number of them.
        for i in 0..KNOWN {
            if i >= at {
                self.first[i] = self.first[i + 1];
            }
        }
        self.known -= 1;
        true
    }

    /// Puts in what is before the last of the first.
    fn put_in(&mut self, entry: Entry) {
        let mut later = entry;
        for place in &mut self.first[..KNOWN] {
            (*place, later) = ((*place).min(later), (*place).max(later));
        }
        if self.known == KNOWN {
            self.others.set(later.id(), later.time());
        } else {
            self.known += 1;
        }
    }
}

/// The times of all hosts, and which is the least.
#[derive(Clone, Debug)]
struct Tournament {
    /// Row after row, that of the hosts first.
    eights: Vec<Eight>,
    /// Where each row starts.
    rows: Vec<usize>,
    hosts: usize,
    least: SimTime,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Eight([SimTime; FAN]);

impl Eight {
    const NONE: Self = Self([SimTime::MAX; FAN]);

    #[inline]
    fn least(&self) -> SimTime {
        let [a, b, c, d, e, f, g, h] = self.0;
        (a.min(b).min(c.min(d))).min(e.min(f).min(g.min(h)))
    }

    /// The first place of `time`. Which it is nobody foresees, so that there is no branch for each.
    #[inline]
    fn place_of(&self, time: SimTime) -> Option<usize> {
        let places = (self.0.iter().zip(0..)).fold(0, |at, (&t, n)| at | u32::from(t == time) << n);
        (places != 0).then(|| places.trailing_zeros() as usize)
    }
}

impl Tournament {
    fn new(hosts: usize) -> Self {
        let (mut rows, mut len, mut width) = (Vec::new(), 0, hosts);
        loop {
            rows.push(len);
            width = width.div_ceil(FAN).max(1);
            len += width;
            if width == 1 {
                break;
            }
        }
        Self {
            eights: vec![Eight::NONE; len],
            rows,
            hosts,
            least: SimTime::MAX,
        }
    }

    #[inline]
    fn ask_for(&self, id: u32) {
        if let Some(eight) = self.eights.get(id as usize / FAN) {
            prefetch(eight);
        }
    }

    fn armed(&self, id: u32) -> Option<SimTime> {
        let id = Some(id as usize).filter(|&id| id < self.hosts)?;
        let time = self.eights[id / FAN].0[id % FAN];
        (time != SimTime::MAX).then_some(time)
    }

    fn set(&mut self, id: u32, time: SimTime) {
        assert!((id as usize) < self.hosts, "there is no host {id}");
        let (mut at, mut least) = (id as usize, time);
        for row in &self.rows {
            let eight = &mut self.eights[row + at / FAN];
            let place = &mut eight.0[at % FAN];
            if *place == least {
                return;
            }
            *place = least;
            least = eight.least();
            at /= FAN;
        }
        self.least = least;
    }

    /// Takes out the first, by time and then by number.
    fn take_first(&mut self) -> Option<Entry> {
        if self.least == SimTime::MAX {
            return None;
        }
        let mut at = 0;
        for row in self.rows.iter().rev() {
            at = at * FAN + self.eights[row + at].place_of(self.least)?;
        }
        let first = Entry::new(self.least, at as u32);
        self.set(at as u32, SimTime::MAX);
        Some(first)
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
            ops in proptest::collection::vec((0u8..3, 0u32..70, 0u64..50), 1..400)
        ) {
            let mut t = Timers::new(70);
            let mut model = [None::<SimTime>; 70];
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
                    (0..70u32).filter_map(|i| Some((model[i as usize]?, i))).collect();
                all.sort_unstable();
                let next = all.first().copied();
                prop_assert_eq!(t.next_id(), next.map(|n| n.1));
                let three: Vec<_> = t.next_three().collect();
                prop_assert!(three.into_iter().eq(all.iter().take(3).map(|n| n.1)));
                prop_assert_eq!(t.next_time(), next.map_or(SimTime::MAX, |n| n.0));
                for i in 0..70 {
                    prop_assert_eq!(t.armed(i), model[i as usize]);
                }
            }
        }
    }
}
