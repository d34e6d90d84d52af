//! What is remembered of others, so much and no more: when full, what was not used for longest, or
//! nearly so, makes room (the clock algorithm).

use crate::siphash::SipKey;
use hashbrown::HashTable;

/// What something is remembered under.
pub(super) trait Key: Copy + Eq {
    /// `secret` keeps peers from choosing keys that collide.
    fn hash(&self, secret: &SipKey) -> u64;
}

/// Values by key.
pub(super) struct Clock<K, V> {
    secret: SipKey,
    capacity: usize,
    /// Places in `entries` by key.
    index: HashTable<u32>,
    entries: Vec<Entry<K, V>>,
    hand: usize,
}

struct Entry<K, V> {
    key: K,
    value: V,
    /// Used since the hand last came by.
    used: bool,
}

impl<K: Key, V> Clock<K, V> {
    pub(super) fn new(capacity: u32, secret: SipKey) -> Self {
        Self {
            secret,
            capacity: capacity as usize,
            index: HashTable::new(),
            entries: Vec::new(),
            hand: 0,
        }
    }

    /// What stands under `key`: it is used.
    pub(super) fn get(&mut self, key: &K) -> Option<&mut V> {
        let entry = self.find(key)?;
        entry.used = true;
        Some(&mut entry.value)
    }

    /// What stands under `key`, which is `value` if nothing did, if need be in place of something else:
    /// of the first that `is_stale`, or was not used since the hand last came by. `None`: nothing may be
    /// remembered.
    pub(super) fn get_or_insert(
        &mut self,
        key: K,
        value: V,
        is_stale: impl Fn(&V) -> bool,
    ) -> Option<&mut V> {
        if self.find(&key).is_none() {
            let used = false;
            let entry = Entry { key, value, used };
            let place = if self.entries.len() < self.capacity {
                self.entries.push(entry);
                self.entries.len() - 1
            } else {
                let victim = self.victim(is_stale)?;
                let hash = self.entries[victim].key.hash(&self.secret);
                let found = (self.index).find_entry(hash, |&place| place as usize == victim);
                if let Ok(found) = found {
                    found.remove();
                }
                self.entries[victim] = entry;
                victim
            };
            let (secret, entries) = (&self.secret, &self.entries);
            let rehash = |&place: &u32| entries[place as usize].key.hash(secret);
            (self.index).insert_unique(key.hash(secret), place as u32, rehash);
        }
        Some(&mut self.find(&key)?.value)
    }

    fn find(&mut self, key: &K) -> Option<&mut Entry<K, V>> {
        let entries = &self.entries;
        let is_at = |&place: &u32| entries.get(place as usize).is_some_and(|e| e.key == *key);
        let place = *self.index.find(key.hash(&self.secret), is_at)?;
        self.entries.get_mut(place as usize)
    }

    fn victim(&mut self, is_stale: impl Fn(&V) -> bool) -> Option<usize> {
        loop {
            let place = self.hand;
            let entry = self.entries.get_mut(place)?;
            self.hand = (place + 1) % self.capacity;
            if !std::mem::take(&mut entry.used) || is_stale(&entry.value) {
                return Some(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<K: Key, V> Clock<K, V> {
        pub(in crate::endpoint) fn len(&self) -> usize {
            self.entries.len()
        }

        /// Whether anything stands under `key`, which is not used by that.
        pub(in crate::endpoint) fn holds(&mut self, key: &K) -> bool {
            assert_eq!(self.index.len(), self.entries.len());
            self.find(key).is_some()
        }
    }
}
