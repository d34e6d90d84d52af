//! Where a connection is, by its ends.
//!
//! Each packet asks, of as many connections as there are, so what is looked through is short: a part of a hash
//! and the place. Whether it is the right one the connection in it tells, whose memory is wanted anyway.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

/// A connection by its ends, the lesser first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    addresses: [u128; 2],
    ports: [u16; 2],
    v6: bool,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b] = self.addresses;
        if self.v6 {
            state.write_u128(a);
            state.write_u128(b);
        } else {
            state.write_u64((a as u64) << 32 | b as u64);
        }
        state.write_u32(u32::from(self.ports[0]) << 16 | u32::from(self.ports[1]));
    }
}

impl Key {
    pub(super) fn of(a: SocketAddr, b: SocketAddr) -> Self {
        let v6 = a.is_ipv6();
        let [a, b] = [a, b].map(|end| match end.ip() {
            IpAddr::V4(v4) => (v4.to_bits().into(), end.port()),
            IpAddr::V6(v6) => (v6.to_bits(), end.port()),
        });
        let (a, b) = if a <= b { (a, b) } else { (b, a) };
        Self {
            addresses: [a.0, b.0],
            ports: [a.1, b.1],
            v6,
        }
    }
}

#[derive(Debug)]
pub(super) struct Index {
    places: HashTable<Place>,
    hasher: RandomState,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    tag: u32,
    slot: u32,
}

/// Of a hash what says little of where it is in the table.
const fn tag(hash: u64) -> u32 {
    (hash >> 24) as u32
}

impl Index {
    pub(super) fn new() -> Self {
        Self {
            places: HashTable::new(),
            hasher: RandomState::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Where the connection is, nearly always.
    #[inline]
    pub(super) fn guess(&self, key: &Key) -> Option<usize> {
        let hash = self.hasher.hash_one(key);
        let place = self.places.find(hash, |place| place.tag == tag(hash))?;
        Some(place.slot as usize)
    }

    /// Where the connection is: `is_it` looks.
    pub(super) fn find(&self, key: &Key, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let hash = self.hasher.hash_one(key);
        let is_it = |place: &Place| place.tag == tag(hash) && is_it(place.slot as usize);
        Some(self.places.find(hash, is_it)?.slot as usize)
    }

    /// Enters a connection that is not in it. `key_of` looks whose place it is.
    pub(super) fn insert(&mut self, key: &Key, slot: usize, key_of: impl Fn(usize) -> Option<Key>) {
        let hash = self.hasher.hash_one(key);
        let place = Place {
            tag: tag(hash),
            // Memory ends long before.
            slot: slot as u32,
        };
        let hasher = &self.hasher;
        let again = |place: &Place| {
            let key = key_of(place.slot as usize);
            key.map_or(0, |key| hasher.hash_one(key))
        };
        self.places.insert_unique(hash, place, again);
    }

    /// Strikes out the connection that is in the place `slot`.
    pub(super) fn remove(&mut self, key: &Key, slot: usize) {
        let hash = self.hasher.hash_one(key);
        let is_it = |place: &Place| place.slot as usize == slot;
        if let Ok(place) = self.places.find_entry(hash, is_it) {
            place.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn key(n: u16) -> Key {
        let [a, b] = [n, 80].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        Key::of(a, b)
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
                        index.insert(&key(n), slots.len() - 1, |slot| slots[slot]);
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
                    prop_assert!(found.is_none() || index.guess(&key(n)).is_some());
                }
            }
        }
    }
}
