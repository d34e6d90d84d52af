//! Lists and queues that mostly hold one, for which there is room by itself.

use crate::hint::cold_path;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;

/// Puts `value` at the end of a `vec` that mostly holds one, which by itself would make room for four.
pub fn push_short<T>(vec: &mut Vec<T>, value: T) {
    insert_short(vec, vec.len(), value);
}

/// The same at a place.
pub fn insert_short<T>(vec: &mut Vec<T>, place: usize, value: T) {
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

    /// What is in it, if that is one and no more.
    #[inline]
    pub fn only(&self) -> Option<&T> {
        match self.waiting {
            0 => self.first.as_ref(),
            _ => None,
        }
    }

    /// Put at the end.
    #[inline]
    pub fn push(&mut self, value: T) {
        if self.first.is_none() {
            self.first = Some(value);
        } else {
            cold_path();
            self.others.get_or_insert_default().push_back(value);
            self.waiting += 1;
        }
    }

    /// Taken from the front.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        // Asked before anything is moved: mostly there is nothing.
        if self.is_empty() {
            return None;
        }
        match self.waiting {
            0 => self.first.take(),
            _ => self.pop_of_several(),
        }
    }

    #[cold]
    fn pop_of_several(&mut self) -> Option<T> {
        self.waiting -= 1;
        let next = self.others.as_mut().and_then(|others| others.pop_front());
        mem::replace(&mut self.first, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_gives_in_the_order_in_which_it_took() {
        let (mut queue, mut sent, mut received) = (ShortQueue::new(), 0, 0);
        for (push, pop) in [(1, 1), (1, 2), (3, 1), (2, 1), (0, 9), (1, 1), (2, 2)] {
            for _ in 0..push {
                queue.push(sent);
                let alone = sent == received;
                assert_eq!(queue.only(), alone.then_some(&sent));
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
