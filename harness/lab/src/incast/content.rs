//! What a live incast sends: bytes that the receiver can check.

use super::blocks::Answers;
use narrows_net::sim::rng::{Component, Stream};

/// The bytes of all streams: a function of the offset.
#[derive(Debug)]
pub(super) struct Content(Vec<u8>);

/// A prime: no segment, and no power of two, divides it.
const PERIOD: usize = 65_521;
/// Most bytes that are had in one piece.
const PIECE: usize = 64 << 10;

impl Content {
    pub(super) fn new() -> Self {
        let mut random = Stream::new(1, Component::Scenario, 1);
        let mut bytes: Vec<u8> = (0..PERIOD).map(|_| random.next_u32() as u8).collect();
        bytes.extend_from_within(..PIECE.min(PERIOD));
        Self(bytes)
    }

    /// Bytes from `offset` on: `len`, or as many as are in one piece.
    pub(super) fn at(&self, offset: u64, len: u64) -> &[u8] {
        let start = (offset % PERIOD as u64) as usize;
        let len = len.min((self.0.len() - start) as u64) as usize;
        &self.0[start..start + len]
    }

    /// What a server sends next; empty: nothing.
    pub(super) fn of(&self, answers: &Answers) -> &[u8] {
        self.at(answers.sent(), answers.waiting())
    }

    /// Whether `bytes` are those from `offset` on.
    pub(super) fn is(&self, mut offset: u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let expected = self.at(offset, bytes.len() as u64);
            let (first, rest) = bytes.split_at(expected.len());
            if first != expected {
                return false;
            }
            offset += first.len() as u64;
            bytes = rest;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_a_function_of_the_offset() {
        let content = Content::new();
        let mut all = Vec::new();
        while all.len() < 200_000 {
            all.extend_from_slice(content.at(all.len() as u64, 1_460));
        }
        assert!(content.is(0, &all));
        assert!(content.is(70_000, &all[70_000..]));
        assert!(!content.is(70_001, &all[70_000..]));
        all[199_999] ^= 1;
        assert!(!content.is(0, &all));
    }
}
