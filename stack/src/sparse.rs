//! An `Option` in one word, for times and positions that are mostly not there.
//!
//! Of many connections each one is out of the cache when its next segment comes, and what it costs
//! then is the cache lines that the segment touches. An `Option<u64>` takes two words where one
//! does.

use narrows_congestion::Instant;
use std::fmt;

/// What has a value that stands for nothing.
pub(crate) trait Word: Copy + Eq {
    /// That value: never, or a position that no stream reaches.
    const NOTHING: Self;
}

impl Word for u64 {
    const NOTHING: Self = Self::MAX;
}

impl Word for u32 {
    const NOTHING: Self = Self::MAX;
}

impl Word for Instant {
    const NOTHING: Self = Self::MAX;
}

/// A value or nothing. [`Word::NOTHING`] is nothing: what is to happen then never happens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sparse<T>(T);

impl<T: Word> Sparse<T> {
    /// Nothing.
    pub(crate) const NONE: Self = Self(T::NOTHING);

    /// A value.
    #[inline]
    pub(crate) const fn some(value: T) -> Self {
        Self(value)
    }

    /// As an `Option`.
    #[inline]
    pub(crate) fn get(self) -> Option<T> {
        self.is_some().then_some(self.0)
    }

    /// Whether there is a value.
    #[inline]
    pub(crate) fn is_some(self) -> bool {
        self != Self::NONE
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }
}

impl<T: Word + fmt::Debug> fmt::Debug for Sparse<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// A value that mostly stays as it begins, in a box from the first change on: what few connections
/// come to need, and the others need not carry.
#[derive(Clone, Default)]
pub(crate) struct Rarely<T>(Option<Box<T>>);

impl<T: Copy + Default> Rarely<T> {
    /// The value.
    pub(crate) fn get(&self) -> T {
        self.0.as_deref().copied().unwrap_or_default()
    }

    /// To change it.
    #[inline]
    pub(crate) fn change(&mut self) -> &mut T {
        self.0.get_or_insert_with(Self::begin)
    }

    #[cold]
    fn begin() -> Box<T> {
        Box::default()
    }

    /// It is as it began.
    #[inline]
    pub(crate) fn reset(&mut self) {
        if let Some(value) = &mut self.0 {
            **value = T::default();
        }
    }
}

impl<T: Copy + Default + fmt::Debug> fmt::Debug for Rarely<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_an_option_in_one_word() {
        assert_eq!(size_of::<Sparse<Instant>>(), size_of::<u64>());
        for value in [0, 1, u64::MAX - 1] {
            assert_eq!(Sparse::some(value).get(), Some(value));
            assert_eq!(
                Sparse::some(Instant::from_nanos(value)).get(),
                Some(Instant::from_nanos(value))
            );
        }
        assert_eq!(Sparse::<u64>::NONE.get(), None);
        assert!(Sparse::<Instant>::NONE.is_none() && Sparse::some(0_u64).is_some());
        assert_eq!(Sparse::some(Instant::MAX).get(), None);
    }

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
}
