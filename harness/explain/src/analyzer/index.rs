//! Where a connection is, by its ends.
//!
//! Each packet asks, of as many connections as there are, so what is looked through is short: a part of a hash
//! and the place. Whether it is the right one the connection in it tells, whose memory is wanted anyway.

use crate::ends::Key;
use foldhash::fast::RandomState;
use narrows::table::{Entry, Table};
use std::hash::BuildHasher;

#[derive(Debug)]
pub(super) struct Index {
    places: Table<Place>,
    hasher: RandomState,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u32,
    slot: u32,
}

impl Entry for Place {
    type Seeds = ();
    const EMPTY: Self = Self {
        hash: 0,
        slot: u32::MAX,
    };

    #[inline]
    fn is_empty(&self) -> bool {
        self.slot == Self::EMPTY.slot
    }
    #[inline]
    fn hash(&self, (): &()) -> u64 {
        self.hash.into()
    }
    #[inline]
    fn same(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl Index {
    pub(super) fn new() -> Self {
        Self {
            places: Table::new(),
            hasher: RandomState::default(),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.places.len()
    }

    /// What a connection is asked for by.
    #[inline]
    pub(super) fn hash(&self, key: &Key) -> u32 {
        self.hasher.hash_one(key) as u32
    }

    /// Asks for the memory that a guess needs.
    #[inline]
    pub(super) fn ask_for(&self, hash: u32) {
        self.places.ask_for(&Place { hash, slot: 0 }, &());
    }

    /// Where the connection is, nearly always.
    #[inline]
    pub(super) fn guess(&self, hash: u32) -> Option<usize> {
        self.find(hash, |_| true)
    }

    /// Where the connection is: `is_it` looks.
    #[inline]
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let is_it = |place: &Place| is_it(place.slot as usize);
        let place = self
            .places
            .find_where(&Place { hash, slot: 0 }, &(), is_it)?;
        Some(place.slot as usize)
    }

    /// Enters a connection that is not in it.
    pub(super) fn insert(&mut self, hash: u32, slot: usize) {
        // Memory ends long before.
        let slot = slot as u32;
        self.places.insert(Place { hash, slot }, &());
    }

    /// Strikes out the connection that is in the place `slot`.
    pub(super) fn remove(&mut self, hash: u32, slot: usize) {
        let slot = slot as u32;
        self.places
            .remove_where(&Place { hash, slot }, &(), |place| place.slot == slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// As a map does, whatever comes and goes, in places that were others' before, with hashes that are equal.
        #[test]
        fn connections_are_found_where_they_are(
            steps in prop::collection::vec((0_u32..40, any::<bool>()), 0..400),
        ) {
            let hash = |n| n % 4;
            let mut index = Index::new();
            let (mut slots, mut free): (Vec<Option<u32>>, Vec<usize>) = Default::default();
            let mut model: HashMap<u32, usize> = HashMap::new();
            for (n, comes) in steps {
                match (comes, model.get(&n).copied()) {
                    (true, None) => {
                        let slot = free.pop().unwrap_or(slots.len());
                        slots.resize(slots.len().max(slot + 1), None);
                        slots[slot] = Some(n);
                        model.insert(n, slot);
                        index.insert(hash(n), slot);
                    }
                    (false, Some(slot)) => {
                        slots[slot] = None;
                        free.push(slot);
                        model.remove(&n);
                        index.remove(hash(n), slot);
                    }
                    _ => {}
                }
                prop_assert_eq!(index.len(), model.len());
                for n in 0..40 {
                    let found = index.find(hash(n), |slot| slots[slot] == Some(n));
                    prop_assert_eq!(found, model.get(&n).copied());
                    prop_assert!(found.is_none() || index.guess(hash(n)).is_some());
                }
            }
        }
    }
}
