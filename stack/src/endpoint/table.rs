//! An open-addressed hash table whose entries lie in the table itself.
//!
//! Where a key is looked for first is known from its hash alone, so that its cache line can be
//! asked for before the key is looked up. Probing is linear, and an entry taken out leaves nothing
//! behind: those after it close up.

use super::seeds::Seeds;

/// A key with what stands under it.
pub(super) trait Entry: Copy {
    /// No entry.
    const EMPTY: Self;
    /// Whether it is that.
    fn is_empty(&self) -> bool;
    /// Of the key.
    fn hash(&self, seeds: &Seeds) -> u64;
    /// Equal keys.
    fn same(&self, other: &Self) -> bool;
}

/// The table. It grows, and does not shrink.
pub(super) struct Table<E> {
    /// None, or a power of two of them.
    entries: Vec<E>,
    len: usize,
}

impl<E: Entry> Table<E> {
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            len: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The entry with the key of `key`.
    #[inline]
    pub(super) fn find(&self, key: &E, seeds: &Seeds) -> Option<&E> {
        self.entries.get(self.position(key, seeds)?)
    }

    /// Enter what is not in it.
    pub(super) fn insert(&mut self, entry: E, seeds: &Seeds) {
        self.reserve(1, seeds);
        self.put(entry, seeds);
        self.len += 1;
    }

    /// Take an entry out, if it is there.
    pub(super) fn remove(&mut self, key: &E, seeds: &Seeds) -> Option<E> {
        let mask = self.mask();
        let mut hole = self.position(key, seeds)?;
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
    pub(super) fn reserve(&mut self, additional: usize, seeds: &Seeds) {
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
    fn put(&mut self, entry: E, seeds: &Seeds) {
        let mask = self.mask();
        let mut at = self.home(&entry, seeds);
        while !self.entries[at].is_empty() {
            at = (at + 1) & mask;
        }
        self.entries[at] = entry;
    }

    #[inline]
    fn position(&self, key: &E, seeds: &Seeds) -> Option<usize> {
        let mut at = self.home(key, seeds);
        loop {
            // Without entries there is nothing anywhere; else some are always empty.
            let entry = self.entries.get(at)?;
            if entry.is_empty() {
                return None;
            }
            if entry.same(key) {
                return Some(at);
            }
            at = (at + 1) & self.mask();
        }
    }

    #[inline]
    fn home(&self, key: &E, seeds: &Seeds) -> usize {
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
    use crate::siphash::SipKey;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A key of a few values, which hash to the same few places: runs form, and go around the end.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Crowded(u8, u32);

    impl Entry for Crowded {
        const EMPTY: Self = Self(u8::MAX, 0);
        fn is_empty(&self) -> bool {
            self.0 == u8::MAX
        }
        fn hash(&self, _: &Seeds) -> u64 {
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
            let seeds = Seeds::new(&SipKey::new(1, 2));
            let (mut table, mut model) = (Table::<Crowded>::new(), BTreeMap::new());
            for (n, (key, op)) in ops.into_iter().enumerate() {
                let entry = Crowded(key, n as u32);
                if op == 0 {
                    let removed = table.remove(&entry, &seeds);
                    prop_assert_eq!(removed.map(|e| e.1), model.remove(&key));
                } else if let std::collections::btree_map::Entry::Vacant(place) = model.entry(key) {
                    table.insert(entry, &seeds);
                    place.insert(n as u32);
                }
                for key in 0..24 {
                    let found = table.find(&Crowded(key, 0), &seeds).map(|e| e.1);
                    prop_assert_eq!(found, model.get(&key).copied());
                }
                prop_assert_eq!(table.len(), model.len());
                prop_assert!(table.len() * 4 <= table.entries.len() * 3);
            }
        }
    }

    #[test]
    fn room_that_was_reserved_is_there() {
        let seeds = Seeds::new(&SipKey::new(1, 2));
        let mut table = Table::<Crowded>::new();
        assert!(table.find(&Crowded(0, 0), &seeds).is_none());
        table.reserve(24, &seeds);
        let entries = table.entries.as_ptr();
        for key in 0..24 {
            table.insert(Crowded(key, 0), &seeds);
        }
        assert_eq!((table.entries.as_ptr(), table.entries.len()), (entries, 32));
    }
}
