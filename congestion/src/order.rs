//! Order where it is no part of what takes time: one sort for all types, and maps that are lists. The
//! library's are compiled anew for each type, which takes a build up to a tenth of a second each time.

use crate::short::insert_short;
use alloc::vec::{self, Vec};
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::ops::{Deref, Range};
use core::slice;

/// Puts `list` in order of `key`; what is equal stays in the order that it has.
pub fn sort_by_key<T, K: Ord>(list: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(list, |a, b| key(a).cmp(&key(b)));
}

/// The same in the order that `compare` says.
pub fn sort_by<T>(list: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    if list.len() < 2 {
        return;
    }
    let places = places(list.len(), &|a, b| compare(&list[a], &list[b]));
    arrange(list, places);
}

/// So many places, in the order of what is there.
#[inline(never)]
fn places(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..len).collect();
    places.sort_by(|a, b| compare(*a, *b));
    places
}

/// To each place goes what is at the one that is named for it: round by round, of which each ends where it
/// began.
fn arrange<T>(list: &mut [T], mut from: Vec<usize>) {
    for first in 0..list.len() {
        let mut place = first;
        loop {
            let next = core::mem::replace(&mut from[place], place);
            if next == first {
                break;
            }
            list.swap(place, next);
            place = next;
        }
    }
}

/// A map that is a list in the order of its keys: for few, and for what comes nearly in order. What comes in
/// between moves all that follows. Of its parts a map of the library's is compiled anew for each type, too,
/// and has ten times as many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for OrderedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> OrderedMap<K, V> {
    /// Nothing in it.
    pub const fn new() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> OrderedMap<K, V> {
    fn place<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        match self.0.last() {
            Some((last, _)) if last.borrow() < key => Err(self.0.len()),
            _ => self.0.binary_search_by(|(k, _)| k.borrow().cmp(key)),
        }
    }

    /// What `key` has.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.place(key).ok().map(|at| &self.0[at].1)
    }

    /// The same, to be changed.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.place(key).ok().map(|at| &mut self.0[at].1)
    }

    /// What `key` has, which is `make`'s if it had nothing.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let at = match self.place(&key) {
            Ok(at) => at,
            Err(at) => {
                insert_short(&mut self.0, at, (key, make()));
                at
            }
        };
        &mut self.0[at].1
    }

    /// Gives `key` this value, whatever it had.
    pub fn insert(&mut self, key: K, value: V) {
        match self.place(&key) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => insert_short(&mut self.0, at, (key, value)),
        }
    }

    /// Whether `key` has anything.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.place(key).is_ok()
    }

    /// Takes away what `key` has.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.place(key).ok()?;
        Some(self.0.remove(at).1)
    }

    /// All in the order of their keys, what these have to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// Those from `keys.start` on, and before `keys.end`.
    pub fn range(&self, keys: Range<K>) -> &[(K, V)] {
        let from = self.0.partition_point(|(k, _)| *k < keys.start);
        let to = self.0.partition_point(|(k, _)| *k < keys.end);
        self.0.get(from..to).unwrap_or_default()
    }
}

impl<K: Ord, V: Default> OrderedMap<K, V> {
    /// What `key` has, which is the default if it had nothing.
    pub fn get_or_default(&mut self, key: K) -> &mut V {
        self.get_or_insert_with(key, V::default)
    }
}

impl<K, V> Deref for OrderedMap<K, V> {
    type Target = [(K, V)];

    fn deref(&self) -> &[(K, V)] {
        &self.0
    }
}

/// Of what comes twice the last counts.
impl<K: Ord, V> FromIterator<(K, V)> for OrderedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(all: I) -> Self {
        let mut map = Self::new();
        let mut out_of_order = Vec::new();
        for (key, value) in all {
            match map.place(&key) {
                Err(at) if at < map.0.len() => out_of_order.push((key, value)),
                _ => map.insert(key, value),
            }
        }
        if out_of_order.is_empty() {
            return map;
        }
        map.0.append(&mut out_of_order);
        // The last of what is equal is first for once, and stays.
        map.0.reverse();
        sort_by(&mut map.0, |a, b| a.0.cmp(&b.0));
        map.0.dedup_by(|later, first| later.0 == first.0);
        map
    }
}

impl<K, V> IntoIterator for OrderedMap<K, V> {
    type Item = (K, V);
    type IntoIter = vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, K, V> IntoIterator for &'a OrderedMap<K, V> {
    type Item = &'a (K, V);
    type IntoIter = slice::Iter<'a, (K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn it_is_the_order_of_the_library() {
        let mut state = 7_u64;
        for len in (0..40).chain([1_000]) {
            let mut list: Vec<(u64, usize)> = (0..len)
                .map(|n| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (state >> 60, n)
                })
                .collect();
            let mut expected = list.clone();
            expected.sort_by_key(|(key, _)| *key);
            sort_by_key(&mut list, |(key, _)| *key);
            assert_eq!(list, expected);
            let (again, twice) = (list.clone(), &mut list);
            sort_by_key(twice, |(key, _)| *key);
            assert_eq!(*twice, again, "what is in order stays");
            sort_by_key(twice, |(_, n)| core::cmp::Reverse(*n));
            assert!(twice.iter().map(|(_, n)| *n).eq((0..len).rev()));
        }
    }

    #[test]
    fn a_map_has_what_a_map_of_the_library_has() {
        let mut state = 3_u64;
        for len in [0, 1, 2, 10, 300] {
            let pairs: Vec<(u64, usize)> = (0..len)
                .map(|n| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (state >> 57, n)
                })
                .collect();
            let mut expected: BTreeMap<u64, usize> = pairs.iter().copied().collect();
            let collected: OrderedMap<u64, usize> = pairs.iter().copied().collect();
            let mut inserted = OrderedMap::new();
            let mut summed = OrderedMap::new();
            for (key, n) in pairs {
                inserted.insert(key, n);
                *summed.get_or_default(key) = n;
            }
            assert!(collected.iter().map(|(k, v)| (k, v)).eq(&expected));
            assert_eq!((&collected, &collected), (&inserted, &summed));
            for key in 0..130 {
                assert_eq!(collected.get(&key), expected.get(&key));
                assert_eq!(inserted.contains_key(&key), expected.contains_key(&key));
                assert_eq!(inserted.get_mut(&key).copied(), expected.get(&key).copied());
                for end in [0, 40, 127, 200] {
                    let within = expected.iter().filter(|(k, _)| (key..end).contains(*k));
                    let range = collected.range(key..end).iter().map(|(k, v)| (k, v));
                    assert!(range.eq(within), "{key}..{end}");
                }
            }
            for key in [64, 0, 127, 64] {
                assert_eq!(inserted.remove(&key), expected.remove(&key));
                assert!(inserted.iter().map(|(k, v)| (k, v)).eq(&expected));
            }
        }
    }
}
