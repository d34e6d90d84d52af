//! Sequence numbers, RFC 9293 section 3.4.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A 32-bit TCP sequence number; all arithmetic is modulo 2^32.
///
/// There is no `Ord`: "before" is not transitive on a circle. Two numbers compare sensibly only
/// while they are less than 2^31 apart, which every window guarantees.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(pub u32);

impl Seq {
    /// `self < other` on the circle.
    pub const fn before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }
    /// `self <= other` on the circle.
    pub const fn before_eq(self, other: Self) -> bool {
        !other.before(self)
    }
    /// `self > other` on the circle.
    pub const fn after(self, other: Self) -> bool {
        other.before(self)
    }
    /// `self >= other` on the circle.
    pub const fn after_eq(self, other: Self) -> bool {
        !self.before(other)
    }
    /// How far `self` is ahead of `earlier`; meaningful if it is not before it.
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
    /// The later of two.
    pub const fn max(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }
    /// The earlier of two.
    pub const fn min(self, other: Self) -> Self {
        if self.before(other) { self } else { other }
    }
    /// Whether `start <= self < start + len`.
    pub const fn within(self, start: Self, len: u32) -> bool {
        self.0.wrapping_sub(start.0) < len
    }
}

impl Add<u32> for Seq {
    type Output = Self;
    fn add(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }
}
impl AddAssign<u32> for Seq {
    fn add_assign(&mut self, n: u32) {
        *self = *self + n;
    }
}
impl Sub<u32> for Seq {
    type Output = Self;
    fn sub(self, n: u32) -> Self {
        Self(self.0.wrapping_sub(n))
    }
}
impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        let a = Seq(u32::MAX - 1);
        let b = a + 4;
        assert_eq!(b, Seq(2));
        assert!(a.before(b) && b.after(a) && a.before_eq(a) && a.after_eq(a));
        assert_eq!(b.since(a), 4);
        assert_eq!(a.max(b), b);
        assert_eq!(a.min(b), a);
        assert!(Seq(0).within(a, 4) && !b.within(a, 4) && a.within(a, 1) && !a.within(a, 0));
    }
}
