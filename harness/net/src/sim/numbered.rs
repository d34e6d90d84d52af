//! Lists whose entries are known by number.

use std::ops::{Deref, DerefMut, Index, IndexMut};

/// A list whose entries are known by number: ports, hosts, slots of packets. A number that there is not is
/// a mistake of the simulator's, and its panic says no more than that: one that names the number and the
/// length has each packet put them into registers at each of its steps.
#[derive(Clone, Debug)]
pub(crate) struct Numbered<T>(Vec<T>);

impl<T> Numbered<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// The list without the numbers.
    pub(crate) fn into_inner(self) -> Vec<T> {
        self.0
    }
}

impl<T> From<Vec<T>> for Numbered<T> {
    fn from(list: Vec<T>) -> Self {
        Self(list)
    }
}

impl<T> Deref for Numbered<T> {
    type Target = Vec<T>;
    #[inline]
    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T> DerefMut for Numbered<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

impl<T> Index<u32> for Numbered<T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, number: u32) -> &T {
        match self.0.get(number as usize) {
            Some(entry) => entry,
            None => nothing_there(),
        }
    }
}

impl<T> IndexMut<u32> for Numbered<T> {
    #[inline(always)]
    fn index_mut(&mut self, number: u32) -> &mut T {
        match self.0.get_mut(number as usize) {
            Some(entry) => entry,
            None => nothing_there(),
        }
    }
}

#[cold]
#[inline(never)]
fn nothing_there() -> ! {
    panic!("nothing has this number")
}
