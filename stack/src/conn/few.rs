//! An ordered map that mostly has an entry or two, and takes no more memory than these need.

use narrows_congestion::order::OrderedMap;
use std::collections::BTreeMap;
use std::slice;

/// More entries than this are in a tree.
const FEW: usize = 4;

/// From positions to `V`.
#[derive(Clone, Debug)]
pub(super) enum Few<V> {
    /// Here, for most never have another.
    One((u64, V)),
    List(OrderedMap<u64, V>),
    Tree(BTreeMap<u64, V>),
}

impl<V> Default for Few<V> {
    fn default() -> Self {
        Self::List(OrderedMap::new())
    }
}

impl<V: Copy> Few<V> {
    /// All in their order, unless they are in a tree.
    #[inline]
    fn listed(&self) -> Result<&[(u64, V)], &BTreeMap<u64, V>> {
        match self {
            Self::One(entry) => Ok(slice::from_ref(entry)),
            Self::List(list) => Ok(list),
            Self::Tree(tree) => Err(tree),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self.listed() {
            Ok(list) => list.len(),
            Err(tree) => tree.len(),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All in their order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, V)> {
        let (list, tree) = match self.listed() {
            Ok(list) => (list, None),
            Err(tree) => (&[][..], Some(tree)),
        };
        let tree = tree.into_iter().flatten().map(|(k, v)| (*k, *v));
        tree.chain(list.iter().copied())
    }

    #[inline(never)] // Which list it is costs each place that asks more than the call.
    pub(super) fn get(&self, key: u64) -> Option<V> {
        let entry = self.last_to(key).filter(|e| e.0 == key);
        entry.map(|e| e.1)
    }

    /// The last entry at or below `key`.
    pub(super) fn last_to(&self, key: u64) -> Option<(u64, V)> {
        match self.listed() {
            Ok(list) => list.iter().rfind(|e| e.0 <= key).copied(),
            Err(tree) => of_many(|| tree.range(..=key).next_back().map(|(k, v)| (*k, *v))),
        }
    }

    /// The first entry at or above `key`.
    pub(super) fn first_from(&self, key: u64) -> Option<(u64, V)> {
        match self.listed() {
            Ok(list) => list.iter().find(|e| e.0 >= key).copied(),
            Err(tree) => of_many(|| tree.range(key..).next().map(|(k, v)| (*k, *v))),
        }
    }

    /// The value of `key` is `value` from now on.
    pub(super) fn insert(&mut self, key: u64, value: V) {
        match self {
            Self::List(list) if list.is_empty() => *self = Self::One((key, value)),
            Self::One(entry) if entry.0 == key => entry.1 = value,
            Self::One(entry) => *self = Self::List([*entry, (key, value)].into_iter().collect()),
            Self::List(list) if list.len() < FEW || list.contains_key(&key) => {
                list.insert(key, value);
            }
            Self::List(_) | Self::Tree(_) => self.insert_in_tree(key, value),
        }
    }

    /// The same where they are many, now or already.
    #[cold]
    fn insert_in_tree(&mut self, key: u64, value: V) {
        if let Self::List(list) = self {
            let mut tree = BTreeMap::new();
            // Not collected: that would be a sort, compiled for each type.
            tree.extend(list.iter().copied());
            *self = Self::Tree(tree);
        }
        if let Self::Tree(tree) = self {
            tree.insert(key, value);
        }
    }

    pub(super) fn remove(&mut self, key: u64) -> Option<V> {
        match self {
            Self::One(entry) if entry.0 == key => {
                let (_, value) = *entry;
                *self = Self::default();
                Some(value)
            }
            Self::One(_) => None,
            Self::List(list) => list.remove(&key),
            Self::Tree(tree) => of_many(|| tree.remove(&key)),
        }
    }
}

/// What is done to many is out of the way of few. The tests count how often.
#[cold]
#[inline(never)]
fn of_many<R>(what: impl FnOnce() -> R) -> R {
    #[cfg(test)]
    tests::SEARCHES.set(tests::SEARCHES.get() + 1);
    what()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    thread_local! {
        /// In trees, in this thread.
        pub(in crate::conn) static SEARCHES: Cell<u64> = const { Cell::new(0) };
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64, u32),
        Remove(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..12_u64, any::<u32>()).prop_map(|(k, v)| Step::Insert(k, v)),
            2 => (0..12_u64).prop_map(Step::Remove),
        ]
    }

    proptest! {
        /// It answers as a tree does.
        #[test]
        fn is_an_ordered_map(steps in prop::collection::vec(step(), 1..60)) {
            let (mut few, mut tree) = (Few::default(), BTreeMap::new());
            for step in steps {
                match step {
                    Step::Insert(k, v) => {
                        few.insert(k, v);
                        tree.insert(k, v);
                    }
                    Step::Remove(k) => prop_assert_eq!(few.remove(k), tree.remove(&k)),
                }
                let all: Vec<_> = tree.iter().map(|(k, v)| (*k, *v)).collect();
                prop_assert_eq!(few.iter().collect::<Vec<_>>(), all.clone());
                prop_assert!(few.iter().rev().eq(all.iter().rev().copied()));
                prop_assert_eq!((few.len(), few.is_empty()), (all.len(), all.is_empty()));
                for k in 0..13 {
                    prop_assert_eq!(few.get(k), tree.get(&k).copied());
                    prop_assert_eq!(few.last_to(k), all.iter().copied().rfind(|e| e.0 <= k));
                    prop_assert_eq!(few.first_from(k), all.iter().copied().find(|e| e.0 >= k));
                }
            }
        }
    }
}
