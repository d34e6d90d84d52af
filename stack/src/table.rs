//! An open-addressed hash table whose entries lie in the table itself.
//!
//! Where a key is looked for first is known from its hash alone, so that its cache line can be
//! asked for before the key is looked up. Probing is linear, and an entry taken out leaves nothing
//! behind: those after it close up.

use crate::prefetch::prefetch;

/// A key with what stands under it.
pub trait Entry: Copy {
    /// What is secret of the hash.
    type Seeds;
    /// No entry.
    const EMPTY: Self;
    /// Whether it is that.
    fn is_empty(&self) -> bool;
    /// Of the key.
    fn hash(&self, seeds: &Self::Seeds) -> u64;
    /// Equal keys.
    fn same(&self, other: &Self) -> bool;
}

/// The table. It grows, and does not shrink.
#[derive(Debug)]
pub struct Table<E> {
    /// None, or a power of two of them.
    entries: Vec<E>,
    len: usize,
}

impl<E: Entry> Default for Table<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Entry> Table<E> {
    /// An empty one, which takes no memory.
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
            len: 0,
        }
    }

    /// Entries.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry with the key of `key`.
    #[inline]
    pub fn find(&self, key: &E, seeds: &E::Seeds) -> Option<&E> {
        self.find_where(key, seeds, |_| true)
    }

    /// One with the key of `key` that `is_it` says is it.
    #[inline]
    pub fn find_where(&self, key: &E, seeds: &E::Seeds, is_it: impl Fn(&E) -> bool) -> Option<&E> {
        let same = |entry: &E| entry.same(key) && is_it(entry);
        self.entries.get(self.position(key, seeds, same)?)
    }

    /// The entry with the key of `key`, and where it is, for [`Self::ask_for_place`].
    #[inline]
    pub fn find_place(&self, key: &E, seeds: &E::Seeds) -> Option<(&E, usize)> {
        let place = self.position(key, seeds, |entry| entry.same(key))?;
        Some((self.entries.get(place)?, place))
    }

    /// Asks for the memory of an entry that was at `place`.
    #[inline]
    pub fn ask_for_place(&self, place: usize) {
        if let Some(entry) = self.entries.get(place) {
            prefetch(entry);
        }
    }

    /// Asks for the memory where `key` is looked for first.
    #[inline]
    pub fn ask_for(&self, key: &E, seeds: &E::Seeds) {
        self.ask_for_place(self.home(key, seeds));
    }

    /// Enter what is not in it. Keys may be equal if who looks says which one is meant.
    pub fn insert(&mut self, entry: E, seeds: &E::Seeds) {
        self.reserve(1, seeds);
        self.put(entry, seeds);
        self.len += 1;
    }

    /// Take an entry out, if it is there.
    pub fn remove(&mut self, key: &E, seeds: &E::Seeds) -> Option<E> {
        self.remove_where(key, seeds, |_| true)
    }

    /// Take that with the key of `key` out which `is_it` says is it.
    pub fn remove_where(
        &mut self,
        key: &E,
        seeds: &E::Seeds,
        is_it: impl Fn(&E) -> bool,
    ) -> Option<E> {
        let mask = self.mask();
        let mut hole = self.position(key, seeds, |entry| entry.same(key) && is_it(entry))?;
        let removed = self.entries[hole];
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let entry = self.entries[at];
            if entry.is_empty() {
                break;
            }
            // It may stand anywhere from its home on, and so in the hole unless that is before.
            let from_home = at.wrapping_sub(self.home(&entry, seeds)) & mask;
            if from_home >= at.wrapping_sub(hole) & mask {
                self.entries[hole] = entry;
                hole = at;
            }
        }
        self.entries[hole] = E::EMPTY;
        self.len -= 1;
        Some(removed)
    }

    /// Make room for so many more: at most three quarters are in use.
    pub fn reserve(&mut self, additional: usize, seeds: &E::Seeds) {
        let needed = (self.len + additional).saturating_mul(4).div_ceil(3);
        if needed <= self.entries.len() {
            return;
        }
        let size = needed.next_power_of_two();
        let old = std::mem::replace(&mut self.entries, vec![E::EMPTY; size]);
        for entry in old.into_iter().filter(|e| !e.is_empty()) {
            self.put(entry, seeds);
        }
    }

    /// Puts an entry where there is room for it.
    fn put(&mut self, entry: E, seeds: &E::Seeds) {
        let mask = self.mask();
        let mut at = self.home(&entry, seeds);
        while !self.entries[at].is_empty() {
            at = (at + 1) & mask;
        }
        self.entries[at] = entry;
    }

    #[inline]
    fn position(&self, key: &E, seeds: &E::Seeds, is_it: impl Fn(&E) -> bool) -> Option<usize> {
        let mut at = self.home(key, seeds);
        loop {
            // Without entries there is nothing anywhere; else some are always empty.
            let entry = self.entries.get(at)?;
            if entry.is_empty() {
                return None;
            }
            if is_it(entry) {
                return Some(at);
            }
            at = (at + 1) & self.mask();
        }
    }

    #[inline]
    fn home(&self, key: &E, seeds: &E::Seeds) -> usize {
        key.hash(seeds) as usize & self.mask()
    }

    #[inline]
    fn mask(&self) -> usize {
        self.entries.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A key of a few values, which hash to the same few places: runs form, and go around the end.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Crowded(u8, u32);

    impl Entry for Crowded {
        type Seeds = ();
        const EMPTY: Self = Self(u8::MAX, 0);
        fn is_empty(&self) -> bool {
            self.0 == u8::MAX
        }
        fn hash(&self, (): &()) -> u64 {
            u64::MAX - u64::from(self.0 / 6)
        }
        fn same(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }

    proptest! {
        #[test]
        fn agrees_with_an_ordered_map_however_crowded(
            ops in proptest::collection::vec((0u8..24, 0u8..3), 0..300),
        ) {
            let (mut table, mut model) = (Table::<Crowded>::new(), BTreeMap::new());
            for (n, (key, op)) in ops.into_iter().enumerate() {
                let entry = Crowded(key, n as u32);
                if op == 0 {
                    let removed = table.remove(&entry, &());
                    prop_assert_eq!(removed.map(|e| e.1), model.remove(&key));
                } else if let std::collections::btree_map::Entry::Vacant(place) = model.entry(key) {
                    table.insert(entry, &());
                    place.insert(n as u32);
                }
                for key in 0..24 {
                    let found = table.find(&Crowded(key, 0), &()).map(|e| e.1);
                    prop_assert_eq!(found, model.get(&key).copied());
                }
                prop_assert_eq!(table.len(), model.len());
                prop_assert!(table.len() * 4 <= table.entries.len() * 3);
            }
        }
    }

    proptest! {
        #[test]
        fn entries_of_equal_keys_are_told_apart_by_who_looks(
            ops in proptest::collection::vec((0_u32..24, any::<bool>()), 0..200),
        ) {
            let (mut table, mut model) = (Table::<Crowded>::new(), [false; 24]);
            for (n, comes) in ops {
                let entry = Crowded(n as u8 % 4, n);
                match (comes, model[n as usize]) {
                    (true, false) => table.insert(entry, &()),
                    (false, true) => {
                        let removed = table.remove_where(&entry, &(), |e| e.1 == n);
                        prop_assert_eq!(removed, Some(entry));
                    }
                    _ => {}
                }
                model[n as usize] = comes;
                for n in 0..24 {
                    let key = Crowded(n as u8 % 4, 99);
                    let found = table.find_where(&key, &(), |e| e.1 == n).map(|e| e.1);
                    prop_assert_eq!(found, model[n as usize].then_some(n));
                }
            }
        }
    }

    #[test]
    fn room_that_was_reserved_is_there() {
        let mut table = Table::<Crowded>::new();
        assert!(table.find(&Crowded(0, 0), &()).is_none());
        table.reserve(24, &());
        let entries = table.entries.as_ptr();
        for key in 0..24 {
            table.insert(Crowded(key, 0), &());
        }
        assert_eq!((table.entries.as_ptr(), table.entries.len()), (entries, 32));
    }
}
