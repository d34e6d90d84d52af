//! A number that was measured.

use std::fmt;

/// A number that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured {
    /// A whole number of the unit.
    Count(u64),
    /// A quotient.
    Ratio(f64),
}

impl Measured {
    /// As a real number.
    pub fn value(self) -> f64 {
        match self {
            Self::Count(n) => n as f64,
            Self::Ratio(x) => x,
        }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => write!(f, "{n}"),
            Self::Ratio(x) => write!(f, "{x}"),
        }
    }
}
