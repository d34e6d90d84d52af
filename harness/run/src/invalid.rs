//! Why an experiment is impossible, by the key that cannot be what it is.

use std::fmt;

/// Why an experiment cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The key that cannot be that.
    pub key: String,
    /// Why.
    pub why: String,
}

impl Invalid {
    /// `key` cannot be that, because of `why`.
    pub fn new(key: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            why: why.into(),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.why)
    }
}

impl std::error::Error for Invalid {}
