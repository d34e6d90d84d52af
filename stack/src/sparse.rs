//! An `Option` in one word, for times and positions that are mostly not there.
//!
//! Of many connections each one is out of the cache when its next segment comes, and what it costs
//! then is the cache lines that the segment touches. An `Option<u64>` takes two words where one
//! does.

use narrows_congestion::Instant;
pub(crate) use narrows_congestion::rarely::{Begins, Rarely};
use std::fmt;

/// A struct that [`Begins`] with the value beside each field.
macro_rules! begins {
    ($(#[$what:meta])* $vis:vis struct $name:ident {
        $($(#[$is:meta])* $seen:vis $field:ident: $type:ty = $value:expr,)*
    }) => {
        $(#[$what])*
        $vis struct $name {
            $($(#[$is])* $seen $field: $type,)*
        }

        impl $crate::sparse::Begins for $name {
            const BEGINNING: &'static Self = &Self { $($field: $value),* };
        }
    };
}
pub(crate) use begins;

/// A box of a trait object that takes one word in place of two, for what mostly is not there.
pub(crate) type Thin<T> = Box<Box<T>>;

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
}
