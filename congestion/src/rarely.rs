//! A value that mostly stays as it begins, in a box from the first change on: what few flows come to
//! need, and the others need not carry.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// What has one value to begin with, the same for all.
pub trait Begins: Clone + 'static {
    /// That value.
    const BEGINNING: &'static Self;
}

impl<T: Clone + 'static> Begins for Option<T> {
    const BEGINNING: &'static Self = &None;
}

/// A `T` in one word until it is changed. To read it where it [`Begins`] is to read that beginning;
/// to borrow it mutably is to change it, and makes the box.
#[derive(Clone)]
pub struct Rarely<T>(Option<Box<T>>);

impl<T> Default for Rarely<T> {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Rarely<T> {
    /// As it begins.
    pub const fn new() -> Self {
        Self(None)
    }

    /// It was never changed.
    #[inline]
    pub fn is_as_it_began(&self) -> bool {
        self.0.is_none()
    }

    /// The value, if it was ever changed: one branch for all that is asked of what mostly was not.
    #[inline]
    pub fn as_changed(&self) -> Option<&T> {
        self.0.as_deref()
    }

    /// The same, to change it further.
    #[inline]
    pub fn changed(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// Sets a part to nothing, which it is if the value was never changed.
    #[inline]
    pub fn clear<U>(&mut self, part: impl FnOnce(&mut T) -> &mut Option<U>) {
        if let Some(value) = self.changed() {
            *part(value) = None;
        }
    }

    /// It is as it began, and the box is given back.
    #[inline]
    pub fn forget(&mut self) {
        self.0 = None;
    }
}

impl<T: Copy + Default> Rarely<T> {
    /// The value.
    pub fn get(&self) -> T {
        self.0.as_deref().copied().unwrap_or_default()
    }

    /// To change it.
    #[inline]
    pub fn change(&mut self) -> &mut T {
        #[cold]
        fn begin<T: Default>() -> Box<T> {
            Box::default()
        }
        self.0.get_or_insert_with(begin)
    }

    /// It is as it began.
    #[inline]
    pub fn reset(&mut self) {
        if let Some(value) = &mut self.0 {
            **value = T::default();
        }
    }
}

impl<T: Begins> Deref for Rarely<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::BEGINNING)
    }
}

impl<T: Begins> DerefMut for Rarely<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        #[cold]
        #[inline(never)]
        fn begin<T: Begins>(nothing: &mut Option<Box<T>>) -> &mut T {
            nothing.insert(Box::new(T::BEGINNING.clone()))
        }
        match &mut self.0 {
            Some(value) => value,
            nothing => begin(nothing),
        }
    }
}

/// Of the values, wherever they are.
impl<T: Begins + PartialEq> PartialEq for Rarely<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Begins + Eq> Eq for Rarely<T> {}

/// `None` is as it began.
impl<T: fmt::Debug> fmt::Debug for Rarely<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Puts `value` at the end of a `vec` that mostly holds one, which by itself would make room for four.
pub fn push_few<T>(vec: &mut Vec<T>, value: T) {
    insert_few(vec, vec.len(), value);
}

/// The same at a place.
pub fn insert_few<T>(vec: &mut Vec<T>, place: usize, value: T) {
    if vec.is_empty() {
        vec.reserve_exact(1);
    }
    vec.insert(place, value);
}

/// A queue, first in, first out, that hardly ever has more than one: that one is at hand, and others
/// are in a box.
#[derive(Debug)]
pub struct ShortQueue<T> {
    /// None if there are none.
    first: Option<T>,
    /// How many others there are: the box is elsewhere, and not looked into for nothing.
    waiting: u32,
    /// From the first time on that there were two.
    #[allow(clippy::box_collection)] // One word for what hardly any has, not four.
    others: Option<Box<VecDeque<T>>>,
}

impl<T> Default for ShortQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> ShortQueue<T> {
    /// Nothing in it.
    pub const fn new() -> Self {
        Self {
            first: None,
            waiting: 0,
            others: None,
        }
    }

    /// There is nothing in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// What will leave next.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }

    /// Put at the end.
    #[inline]
    pub fn push(&mut self, value: T) {
        if self.first.is_none() {
            self.first = Some(value);
        } else {
            self.others.get_or_insert_default().push_back(value);
            self.waiting += 1;
        }
    }

    /// Taken from the front.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let value = self.first.take()?;
        if self.waiting > 0
            && let Some(others) = &mut self.others
        {
            self.first = others.pop_front();
            self.waiting -= 1;
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_change_takes_one_word() {
        let mut counters = Rarely::<[u64; 12]>::default();
        assert_eq!(size_of_val(&counters), size_of::<usize>());
        assert_eq!(counters.get(), [0; 12]);
        counters.change()[3] += 1;
        assert_eq!((counters.get()[3], counters.get()[4]), (1, 0));
        counters.reset();
        assert_eq!(counters.get(), [0; 12]);
    }

    #[test]
    fn is_read_without_a_box_and_changed_in_one() {
        let mut value = Rarely::<Option<u64>>::default();
        assert!(value.is_none() && value.is_as_it_began());
        *value = Some(3);
        assert!(*value == Some(3) && !value.is_as_it_began());
        *value = None;
        assert_eq!(value, Rarely::default());
        value.forget();
        assert!(value.is_as_it_began());
        value.clear(|value| value);
        assert!(value.is_as_it_began());
        *value = Some(4);
        value.clear(|value| value);
        assert!(value.is_none());
    }

    #[test]
    fn a_queue_gives_in_the_order_in_which_it_took() {
        let (mut queue, mut sent, mut received) = (ShortQueue::new(), 0, 0);
        for (push, pop) in [(1, 1), (1, 2), (3, 1), (2, 1), (0, 9), (1, 1), (2, 2)] {
            for _ in 0..push {
                queue.push(sent);
                sent += 1;
            }
            for _ in 0..pop.min(sent - received) {
                assert_eq!(queue.front(), Some(&received));
                assert_eq!(queue.pop(), Some(received));
                received += 1;
            }
            assert_eq!(queue.is_empty(), sent == received);
        }
        assert_eq!((queue.pop(), sent), (None, received));
    }
}
