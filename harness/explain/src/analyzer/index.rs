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

/// Any slot.
const ANY: u32 = u32::MAX - 1;

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
        self.hash == other.hash && (other.slot == ANY || self.slot == other.slot)
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
        self.places.ask_for(&Place { hash, slot: ANY }, &());
    }

    /// Where the connection is, nearly always.
    #[inline]
    pub(super) fn guess(&self, hash: u32) -> Option<usize> {
        let place = self.places.find(&Place { hash, slot: ANY }, &())?;
        Some(place.slot as usize)
    }

    /// Where the connection is: `is_it` looks.
    pub(super) fn find(&self, key: &Key, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let hash = self.hash(key);
        let is_it = |place: &Place| is_it(place.slot as usize);
        let place = self
            .places
            .find_where(&Place { hash, slot: ANY }, &(), is_it)?;
        Some(place.slot as usize)
    }

    /// Enters a connection that is not in it.
    pub(super) fn insert(&mut self, key: &Key, slot: usize) {
        self.places.insert(self.place(key, slot), &());
    }

    /// Strikes out the connection that is in the place `slot`.
    pub(super) fn remove(&mut self, key: &Key, slot: usize) {
        self.places.remove(&self.place(key, slot), &());
    }

    fn place(&self, key: &Key, slot: usize) -> Place {
        Place {
            hash: self.hash(key),
            // Memory ends long before.
            slot: slot as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::net::SocketAddr;

    fn key(n: u16) -> Key {
        let [a, b] = [n, 80].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        Key::between(a, b).0
    }

    proptest! {
        /// As a map does, whatever comes and goes.
        #[test]
        fn connections_are_found_where_they_are(
            steps in prop::collection::vec((0_u16..40, any::<bool>()), 0..400),
        ) {
            let mut index = Index::new();
            let mut slots: Vec<Option<Key>> = Vec::new();
            let mut model: HashMap<u16, usize> = HashMap::new();
            for (n, comes) in steps {
                match (comes, model.get(&n).copied()) {
                    (true, None) => {
                        slots.push(Some(key(n)));
                        model.insert(n, slots.len() - 1);
                        index.insert(&key(n), slots.len() - 1);
                    }
                    (false, Some(slot)) => {
                        slots[slot] = None;
                        model.remove(&n);
                        index.remove(&key(n), slot);
                    }
                    _ => {}
                }
                prop_assert_eq!(index.len(), model.len());
                for n in 0..40 {
                    let found = index.find(&key(n), |slot| slots[slot] == Some(key(n)));
                    prop_assert_eq!(found, model.get(&n).copied());
                    prop_assert!(found.is_none() || index.guess(index.hash(&key(n))).is_some());
                }
            }
        }
    }
}
