//! Why a discipline cannot be built.

use std::fmt;

/// Why a discipline cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DisciplineError {
    /// RED's thresholds are in different units, or the minimum is not below the maximum.
    RedThresholds,
    /// CoDel's interval is zero.
    CodelInterval,
    /// A field is out of range.
    OutOfRange {
        /// The field.
        field: &'static str,
        /// What it is.
        value: u64,
        /// The least that it may be.
        least: u64,
        /// The most.
        most: u64,
    },
}

impl DisciplineError {
    /// Whether a field is in range.
    pub(super) fn within(
        field: &'static str,
        value: u64,
        least: u64,
        most: u64,
    ) -> Result<(), Self> {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(Self::OutOfRange {
            field,
            value,
            least,
            most,
        })
    }
}

impl fmt::Display for DisciplineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RedThresholds => write!(f, "RED's thresholds need one unit and min < max"),
            Self::CodelInterval => write!(f, "CoDel's interval is zero"),
            Self::OutOfRange {
                field,
                value,
                least,
                most,
            } => write!(f, "{field} is {value}, not between {least} and {most}"),
        }
    }
}

impl std::error::Error for DisciplineError {}
