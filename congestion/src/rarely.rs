//! A value that mostly stays as it begins, in a box from the first change on: what few flows come to
//! need, and the others need not carry.

use alloc::boxed::Box;
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
        #[inline(never)]
        fn begin<T: Default>(nothing: &mut Option<Box<T>>) -> &mut T {
            nothing.insert(Box::default())
        }
        match &mut self.0 {
            Some(value) => value,
            nothing => begin(nothing),
        }
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
}
