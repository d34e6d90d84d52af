//! Data without memory: a payload is a range of stream offsets, and the byte at an offset is a
//! function of it.
//!
//! The simulator moves [`Synthetic`] payloads from a [`SyntheticSend`] to a [`SyntheticRecv`],
//! which counts every byte that arrives at an offset it was not sent from. Where packets are
//! serialised, [`fill_pattern`] makes the bytes and [`check_pattern`] verifies them.

use super::{Payload, RecvBuffer, SendBuffer};
use core::ops::Range;

/// Odd, so that multiplication by it is a bijection of 64-bit words (2^64 over the golden ratio).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

const WORD: u64 = 8;

/// The state from which the aligned word that contains `offset` comes; the next word's state is
/// [`MULTIPLIER`] more.
const fn state(offset: u64) -> u64 {
    (offset / WORD + 1).wrapping_mul(MULTIPLIER)
}

/// Mixes the high half, which differs from word to word, into the low half, whose lowest byte
/// would repeat every 256 words; still a bijection.
const fn word(state: u64) -> [u8; WORD as usize] {
    (state ^ (state >> 32)).to_le_bytes()
}

/// The byte at stream `offset`.
///
/// Two aligned words at different offsets always differ, and so do any eight bytes and the eight
/// bytes a shift away (tested for shifts up to 2^20), so misplaced data shows within eight bytes.
pub const fn pattern(offset: u64) -> u8 {
    word(state(offset))[(offset % WORD) as usize]
}

/// Bytes before the first aligned word of a stretch of `len` bytes at `offset`.
const fn head_len(offset: u64, len: usize) -> usize {
    let unaligned = (WORD - offset % WORD) % WORD;
    if (unaligned as usize) < len {
        unaligned as usize
    } else {
        len
    }
}

/// Fill `out` with the bytes at `offset` and on.
pub fn fill_pattern(offset: u64, out: &mut [u8]) {
    let head = head_len(offset, out.len());
    let (head, rest) = out.split_at_mut(head);
    for (at, byte) in (offset..).zip(head.iter_mut()) {
        *byte = pattern(at);
    }
    let mut s = state(offset.wrapping_add(head.len() as u64));
    let mut words = rest.chunks_exact_mut(WORD as usize);
    for out in &mut words {
        out.copy_from_slice(&word(s));
        s = s.wrapping_add(MULTIPLIER);
    }
    let tail = words.into_remainder();
    let n = tail.len();
    tail.copy_from_slice(&word(s)[..n]);
}

/// Compare `bytes` with the bytes at `offset` and on; the stream offset of the first that
/// differs, or `None` when all are right.
pub fn check_pattern(offset: u64, bytes: &[u8]) -> Option<u64> {
    let (head, rest) = bytes.split_at(head_len(offset, bytes.len()));
    let rest_at = offset.wrapping_add(head.len() as u64);
    let mut s = state(rest_at);
    let mut words = rest.chunks_exact(WORD as usize);
    let mut wrong = (offset..).zip(head).any(|(at, &byte)| byte != pattern(at));
    for got in &mut words {
        wrong |= got != word(s);
        s = s.wrapping_add(MULTIPLIER);
    }
    let tail = words.remainder();
    wrong |= *tail != word(s)[..tail.len()];
    if !wrong {
        return None;
    }
    (offset..)
        .zip(bytes)
        .find(|&(at, &byte)| byte != pattern(at))
        .map(|(at, _)| at)
}

/// A payload without bytes: `len` bytes of the stream from `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Synthetic {
    /// Stream offset of the first byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
}

impl Synthetic {
    /// Nothing, at offset 0.
    pub const EMPTY: Self = Self { offset: 0, len: 0 };
}

impl Payload for Synthetic {
    #[inline]
    fn len(&self) -> usize {
        self.len as usize
    }
    #[inline]
    fn slice(&self, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.len as usize,
            "slice out of bounds"
        );
        Self {
            offset: self.offset + range.start as u64,
            len: (range.end - range.start) as u32,
        }
    }
}

/// A send buffer that only counts: its source is a number of bytes to append, a view (shorter
/// than 4 GiB) the range itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyntheticSend {
    start: u64,
    end: u64,
}

impl SyntheticSend {
    /// An empty buffer at offset 0.
    pub const fn new() -> Self {
        Self { start: 0, end: 0 }
    }
}

impl SendBuffer for SyntheticSend {
    type Source<'a> = usize;
    type View<'a> = Synthetic;

    fn push(&mut self, source: usize, capacity: usize) -> usize {
        let held = (self.end - self.start) as usize;
        let taken = source.min(capacity.saturating_sub(held));
        self.end += taken as u64;
        taken
    }
    #[inline]
    fn end(&self) -> u64 {
        self.end
    }
    #[inline]
    fn start(&self) -> u64 {
        self.start
    }
    #[inline]
    fn view(&self, range: Range<u64>) -> Synthetic {
        debug_assert!(
            self.start <= range.start && range.start <= range.end && range.end <= self.end,
            "view of bytes that are not held"
        );
        Synthetic {
            offset: range.start,
            len: (range.end - range.start) as u32,
        }
    }
    #[inline]
    fn release(&mut self, offset: u64) {
        debug_assert!(offset <= self.end, "release of bytes that are not held");
        self.start = self.start.max(offset.min(self.end));
    }
}

/// A receive buffer that only checks that every byte arrives at the offset it was sent from.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyntheticRecv {
    start: u64,
    /// Bytes stored so far.
    pub written: u64,
    /// Bytes among them that came from another offset of the sender's stream.
    pub mismatched: u64,
}

impl SyntheticRecv {
    /// An empty buffer at offset 0.
    pub const fn new() -> Self {
        Self {
            start: 0,
            written: 0,
            mismatched: 0,
        }
    }
}

impl RecvBuffer for SyntheticRecv {
    type Payload<'a> = Synthetic;

    #[inline]
    fn write(&mut self, offset: u64, data: Synthetic) {
        debug_assert!(offset >= self.start, "write before the start");
        self.written += u64::from(data.len);
        if data.offset != offset {
            self.mismatched += u64::from(data.len);
        }
    }
    #[inline]
    fn start(&self) -> u64 {
        self.start
    }
    #[inline]
    fn release(&mut self, offset: u64) {
        self.start = self.start.max(offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// No eight bytes occur twice in the first 2^21: every shift of 1..2^20 of every position in
    /// the first 2^20 shows within eight bytes.
    #[test]
    fn every_shift_shows_within_eight_bytes() {
        for base in [0, (1 << 32) - (1 << 20), 1 << 45] {
            let mut bytes = vec![0; 1 << 21];
            fill_pattern(base, &mut bytes);
            let mut windows: Vec<u64> = bytes
                .windows(8)
                .map(|w| w.iter().fold(0, |acc, &b| (acc << 8) | u64::from(b)))
                .collect();
            windows.sort_unstable();
            assert!(windows.windows(2).all(|w| w[0] != w[1]));
        }
    }

    /// The values are part of captures: they stay.
    #[test]
    fn the_pattern_is_pinned() {
        let mut bytes = [0; 16];
        fill_pattern(0, &mut bytes);
        let pinned = [
            172, 5, 125, 225, 185, 121, 55, 158, 88, 11, 250, 194, 114, 243, 110, 60,
        ];
        assert_eq!(bytes, pinned);
    }

    #[test]
    fn synthetic_buffers_count() {
        let mut send = SyntheticSend::new();
        assert_eq!(send.push(100, 60), 60);
        assert_eq!(send.push(100, 60), 0);
        send.release(50);
        assert_eq!((send.start(), send.end()), (50, 60));
        assert_eq!(send.push(100, 60), 50);
        let view = send.view(55..105);
        assert_eq!(
            view,
            Synthetic {
                offset: 55,
                len: 50
            }
        );
        assert_eq!(
            view.slice(5..20),
            Synthetic {
                offset: 60,
                len: 15
            }
        );
        let mut recv = SyntheticRecv::new();
        recv.write(55, view);
        recv.write(105, view.slice(0..7));
        assert_eq!((recv.written, recv.mismatched), (57, 7));
        recv.release(105);
        assert_eq!(recv.start(), 105);
    }

    proptest! {
        #[test]
        fn fill_and_check_agree_with_the_function(
            offset in prop_oneof![0u64..100, 0..u64::MAX / 2],
            len in 0usize..100,
            wrong in any::<prop::sample::Index>(),
            flip in 1u8..,
        ) {
            let mut bytes = vec![0; len];
            fill_pattern(offset, &mut bytes);
            for (i, &b) in bytes.iter().enumerate() {
                prop_assert_eq!(b, pattern(offset + i as u64));
            }
            prop_assert_eq!(check_pattern(offset, &bytes), None);
            if len > 0 {
                let i = wrong.index(len);
                bytes[i] ^= flip;
                prop_assert_eq!(check_pattern(offset, &bytes), Some(offset + i as u64));
            }
        }
    }
}
