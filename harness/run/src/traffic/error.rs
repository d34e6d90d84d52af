//! Why a traffic cannot be on a network.

use std::fmt;

/// Why a traffic cannot be on a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficError {
    /// The knob.
    pub key: &'static str,
    /// Why it cannot be that.
    pub why: String,
}

impl TrafficError {
    /// `key` cannot be that, because of `why`.
    pub fn new(key: &'static str, why: impl Into<String>) -> Self {
        Self {
            key,
            why: why.into(),
        }
    }
}

impl fmt::Display for TrafficError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.why)
    }
}

impl std::error::Error for TrafficError {}
