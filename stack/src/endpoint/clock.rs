//! What is remembered of others, so much and no more: when full, what was not used for longest, or
//! nearly so, makes room (the clock algorithm).

use std::collections::{BTreeMap, VecDeque};

/// Values by key. Peers choose keys: none takes longer to find for what others they choose.
pub(super) struct Clock<K, V> {
    capacity: usize,
    entries: BTreeMap<K, Entry<V>>,
    /// The keys of all, in the order in which the hand comes by.
    hand: VecDeque<K>,
}

struct Entry<V> {
    value: V,
    /// Used since the hand last came by.
    used: bool,
}

impl<K: Copy + Ord, V> Clock<K, V> {
    pub(super) const fn new(capacity: u32) -> Self {
        Self {
            capacity: capacity as usize,
            entries: BTreeMap::new(),
            hand: VecDeque::new(),
        }
    }

    /// What stands under `key`: it is used.
    pub(super) fn get(&mut self, key: &K) -> Option<&mut V> {
        let entry = self.entries.get_mut(key)?;
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
        if !self.entries.contains_key(&key) {
            while self.hand.len() >= self.capacity {
                let old = self.hand.pop_front()?;
                let entry = self.entries.get_mut(&old)?;
                if !std::mem::take(&mut entry.used) || is_stale(&entry.value) {
                    self.entries.remove(&old);
                } else {
                    self.hand.push_back(old);
                }
            }
            self.hand.push_back(key);
        }
        let entry = self.entries.entry(key);
        Some(&mut entry.or_insert(Entry { value, used: false }).value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<K: Copy + Ord, V> Clock<K, V> {
        pub(in crate::endpoint) fn len(&self) -> usize {
            self.entries.len()
        }

        /// Whether anything stands under `key`, which is not used by that.
        pub(in crate::endpoint) fn holds(&self, key: &K) -> bool {
            assert_eq!(self.hand.len(), self.entries.len());
            self.entries.contains_key(key)
        }
    }
}
