//! Bytes that are another function of each position.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part of it.

use narrows::buffer::synthetic::{check_pattern, fill_pattern};

/// A stretch of the pattern that begins at this offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(pub u64);

impl Stream {
    /// Fill `bytes` with what begins at `at`.
    pub fn fill(self, at: u64, bytes: &mut [u8]) {
        fill_pattern(self.0 + at, bytes);
    }

    /// Where `bytes`, which should begin at `at`, are wrong first.
    pub fn first_wrong(self, at: u64, bytes: &[u8]) -> Option<u64> {
        check_pattern(self.0 + at, bytes).map(|wrong| wrong - self.0)
    }
}
