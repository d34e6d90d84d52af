//! Real bytes: growable rings addressed by stream offset.
//!
//! Both rings keep the byte at stream offset `o` in slot `o - base mod capacity`, with a
//! power-of-two capacity, so a release moves no byte. An emptied ring begins at its first slot
//! again: what is written and read in turn stays in the processor's cache, however large the ring
//! once was. They own no memory until the first byte comes and double as they fill. Each time they
//! are asked to, they give back what they did not need since the last time: a steady load never
//! reallocates, and an idle ring is as small as what it holds.

use super::{Payload, RecvBuffer, Trimmed};
use crate::memory::{FLOOR, Ledger, Need};
use core::ops::{Deref, DerefMut, Range};
use narrows_congestion::ByteCount;
use std::sync::Arc;

/// Where nobody counts, this much is not worth a timer that gives it back.
const KEPT: usize = 64 << 10;
/// Smallest allocation.
pub(super) const MIN_CAPACITY: usize = 1024;

/// A stretch of a ring: two slices, one after the other, of which the second is empty unless the
/// stretch wraps.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytesView<'a> {
    first: &'a [u8],
    second: &'a [u8],
}

impl<'a> BytesView<'a> {
    /// `first` followed by `second`.
    pub const fn new(first: &'a [u8], second: &'a [u8]) -> Self {
        Self { first, second }
    }

    /// Length in bytes.
    pub const fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    /// Whether there is no byte.
    pub const fn is_empty(&self) -> bool {
        self.first.is_empty() && self.second.is_empty()
    }

    /// Both parts in order; either may be empty.
    pub const fn slices(&self) -> [&'a [u8]; 2] {
        [self.first, self.second]
    }

    /// Copy the bytes to the front of `out` as far as both reach; how many were copied.
    pub fn copy_to_slice(&self, out: &mut [u8]) -> usize {
        let n = self.first.len().min(out.len());
        let (head, tail) = out.split_at_mut(n);
        head.copy_from_slice(&self.first[..n]);
        let m = self.second.len().min(tail.len());
        tail[..m].copy_from_slice(&self.second[..m]);
        n + m
    }

    /// The bytes one by one.
    pub fn iter(&self) -> impl Iterator<Item = u8> + use<'a> {
        self.first.iter().chain(self.second).copied()
    }
}

impl Payload for BytesView<'_> {
    fn len(&self) -> usize {
        BytesView::len(self)
    }
    fn slice(&self, range: Range<usize>) -> Self {
        let n = self.first.len();
        Self {
            first: &self.first[range.start.min(n)..range.end.min(n)],
            second: &self.second[range.start.saturating_sub(n)..range.end.saturating_sub(n)],
        }
    }
}

impl<'a> From<&'a [u8]> for BytesView<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::new(bytes, &[])
    }
}

impl PartialEq<[u8]> for BytesView<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        other.len() == self.len()
            && other[..self.first.len()] == *self.first
            && other[self.first.len()..] == *self.second
    }
}

/// Bytes, counted where somebody counts: all but [`FLOOR`], which is every connection's.
#[derive(Debug, Default)]
struct Storage {
    bytes: Box<[u8]>,
    ledger: Option<Arc<Ledger>>,
}

impl Storage {
    fn new(len: usize, ledger: Option<Arc<Ledger>>) -> Self {
        if let Some(ledger) = &ledger {
            ledger.charge(counted(len));
        }
        Self {
            bytes: vec![0; len].into_boxed_slice(),
            ledger,
        }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some(ledger) = &self.ledger {
            ledger.discharge(counted(self.bytes.len()));
        }
    }
}

/// A copy is counted nowhere.
impl Clone for Storage {
    fn clone(&self) -> Self {
        Self {
            bytes: self.bytes.clone(),
            ledger: None,
        }
    }
}

impl Deref for Storage {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Storage {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

fn counted(len: usize) -> ByteCount {
    ByteCount::new((len as u64).saturating_sub(FLOOR.get()))
}

/// Storage for `span` bytes.
fn capacity_for(span: usize) -> usize {
    match span {
        0 => 0,
        n => n.max(MIN_CAPACITY).next_power_of_two(),
    }
}

/// What both rings share: storage, and the stretch of the stream that lies in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    /// Empty, or a power of two long.
    storage: Storage,
    /// The offset that the first slot is for, or was.
    base: u64,
    /// First offset held.
    start: u64,
    /// Offset after the last byte stored.
    end: u64,
    /// Most bytes spanned since the ring was last trimmed.
    peak: usize,
}

impl Ring {
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    #[inline]
    pub(super) fn span(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Bytes of memory owned.
    pub(super) fn memory(&self) -> usize {
        self.storage.len()
    }

    /// Who counts its memory.
    pub(super) fn ledger(&self) -> Option<&Arc<Ledger>> {
        self.storage.ledger.as_ref()
    }

    fn slot(&self, offset: u64) -> usize {
        (offset - self.base) as usize & self.storage.len().saturating_sub(1)
    }

    /// The slots of `[from, to)`, at most one capacity long, as two index ranges.
    fn slots(&self, from: u64, to: u64) -> (Range<usize>, Range<usize>) {
        let len = (to - from) as usize;
        let at = self.slot(from);
        let first = len.min(self.storage.len() - at);
        (at..at + first, 0..len - first)
    }

    #[inline]
    pub(super) fn view(&self, from: u64, to: u64) -> BytesView<'_> {
        let (a, b) = self.slots(from, to);
        BytesView::new(&self.storage[a], &self.storage[b])
    }

    /// Room for what lies before `to`; grows as needed.
    fn reach(&mut self, to: u64) -> usize {
        let span = (to.max(self.end) - self.start) as usize;
        if span > self.storage.len() {
            self.resize(span);
        }
        span
    }

    /// The bytes before `to` are held.
    fn extend(&mut self, to: u64) {
        let span = self.reach(to);
        self.peak = self.peak.max(span);
        self.end = self.end.max(to);
    }

    /// Store at `offset`, which is at or after `start`; grows as needed.
    fn write(&mut self, offset: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let to = offset + data.len() as u64;
        self.extend(to);
        let (a, b) = self.slots(offset, to);
        let (head, tail) = data.split_at(a.len());
        self.storage[a].copy_from_slice(head);
        self.storage[b].copy_from_slice(tail);
    }

    /// Store behind what is held; grows as needed.
    #[inline]
    pub(super) fn append(&mut self, data: &[u8]) {
        self.write(self.end, data);
    }

    /// What is held lies in one piece.
    pub(super) fn straighten(&mut self) {
        let [_, wrapped] = self.view(self.start, self.end).slices();
        if !wrapped.is_empty() {
            self.resize(self.span());
        }
    }

    /// The stream goes on at `offset`; nothing is held.
    pub(super) fn skip_to(&mut self, offset: u64) {
        (self.base, self.start, self.end) = (offset, offset, offset);
    }

    /// Storage for `span` bytes, with what is held moved over.
    #[cold]
    fn resize(&mut self, span: usize) {
        let ledger = self.storage.ledger.clone();
        let mut grown = Ring {
            storage: Storage::new(capacity_for(span), ledger),
            base: self.start,
            ..Self::default()
        };
        let mut at = self.start;
        for part in self.view(self.start, self.end).slices() {
            let to = at + part.len() as u64;
            let (a, b) = grown.slots(at, to);
            let (head, tail) = part.split_at(a.len());
            grown.storage[a].copy_from_slice(head);
            grown.storage[b].copy_from_slice(tail);
            at = to;
        }
        self.storage = grown.storage;
        self.base = grown.base;
    }

    pub(super) fn release(&mut self, offset: u64) {
        debug_assert!(offset <= self.end, "release of bytes that are not held");
        self.start = self.start.max(offset.min(self.end));
        if self.start == self.end {
            self.base = self.start;
        }
    }

    /// Storage for `span` bytes, which are at least those held, if that is less than there is.
    fn shrink(&mut self, span: usize) {
        if capacity_for(span) < self.storage.len() {
            self.resize(span);
        }
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.shrink(self.span());
    }

    pub(super) fn is_large(&self) -> bool {
        self.storage.len()
            > match self.storage.ledger {
                Some(_) => FLOOR.get() as usize,
                None => KEPT,
            }
    }

    pub(super) fn trim(&mut self) -> Trimmed {
        let span = self.span();
        let lately = std::mem::replace(&mut self.peak, span);
        self.shrink(lately.max(span));
        match capacity_for(span) < self.storage.len() && self.is_large() {
            true => Trimmed::Larger,
            false => Trimmed::Fits,
        }
    }

    /// The memory is counted in `ledger` from now on.
    pub(super) fn charge_to(&mut self, ledger: &Arc<Ledger>) {
        ledger.charge(counted(self.storage.len()));
        if let Some(before) = self.storage.ledger.replace(ledger.clone()) {
            before.discharge(counted(self.storage.len()));
        }
    }

    /// How many bytes it has storage for, after an attempt at `span`.
    #[inline]
    pub(super) fn afford(&mut self, span: usize, need: Need) -> usize {
        if span > self.storage.len() && self.storage.ledger.is_some() {
            self.grow(span, need);
            return self.storage.len();
        }
        span
    }

    /// As much of `span` as there is memory for; the floor always is there.
    #[cold]
    fn grow(&mut self, span: usize, need: Need) {
        let Some(ledger) = &self.storage.ledger else {
            return self.resize(span);
        };
        let mut capacity = capacity_for(span);
        while !ledger.admits(counted(capacity), need) {
            capacity /= 2;
        }
        if capacity > self.storage.len() {
            self.resize(capacity);
        }
    }

    /// What [`grow`](Self::grow) could make of it.
    pub(super) fn room(&self) -> Option<u64> {
        let ledger = self.storage.ledger.as_ref()?;
        let left = FLOOR + ledger.left(Need::Wanted);
        let new = 1 << left.get().ilog2();
        Some(new.max(self.storage.len() as u64))
    }

    pub(super) fn forget_bytes(&mut self) {
        let ledger = self.storage.ledger.clone();
        self.storage = Storage::new(0, ledger);
    }
}

/// Bytes received, stored in any order within the window, read in order.
///
/// A byte far ahead of [`start`](RecvBuffer::start) makes the ring as large as the distance: the
/// receive window is what bounds its memory.
#[derive(Clone, Debug, Default)]
pub struct RecvRing {
    ring: Ring,
    /// Bytes from the end of what is held up to here are in their place, see
    /// [`RecvRing::landing`].
    landed: u64,
}

impl RecvRing {
    /// An empty ring at offset 0, without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes from [`start`](RecvBuffer::start) to `available_end`, the end of the data in
    /// order (RCV.NXT as a stream offset). Nothing if that lies before the start.
    pub fn peek(&self, available_end: u64) -> BytesView<'_> {
        let end = available_end.min(self.ring.end);
        debug_assert_eq!(end, available_end, "peek beyond what was stored");
        self.ring.view(self.ring.start, end.max(self.ring.start))
    }

    /// Where the `len` bytes at `offset` go, which is the end of what is held, for somebody to put
    /// them there. `None` if something is held beyond.
    pub(crate) fn landing(&mut self, offset: u64, len: usize) -> Option<[&mut [u8]; 2]> {
        if self.ring.end > offset || self.ring.start > offset {
            return None;
        }
        let span = (offset - self.ring.start) as usize + len;
        if self.ring.afford(span, Need::Wanted) < span {
            return None;
        }
        self.ring.reach(offset + len as u64);
        let (a, b) = self.ring.slots(offset, offset + len as u64);
        let (head, tail) = self.ring.storage.split_at_mut(a.start);
        Some([&mut tail[..a.len()], &mut head[b]])
    }

    /// They are there: of these a write stores nothing.
    pub(crate) fn set_landed(&mut self, offset: u64, len: usize) {
        self.landed = offset + len as u64;
    }

    /// There is nothing more to be said of them.
    pub(crate) fn forget_landed(&mut self) {
        self.landed = 0;
    }

    /// Copy bytes in order, none from `available_end` on, to `buf` and let them go; how many.
    pub fn read(&mut self, buf: &mut [u8], available_end: u64) -> usize {
        let n = self.peek(available_end).copy_to_slice(buf);
        self.ring.release(self.ring.start + n as u64);
        n
    }

    /// Bytes of memory owned.
    pub fn memory(&self) -> usize {
        self.ring.storage.len()
    }

    /// Give back the memory that what is held does not need.
    pub fn shrink_to_fit(&mut self) {
        self.ring.shrink_to_fit();
    }
}

impl RecvBuffer for RecvRing {
    type Payload<'a> = &'a [u8];

    fn write(&mut self, offset: u64, data: &[u8]) {
        assert!(offset >= self.ring.start, "write before the start");
        let to = offset + data.len() as u64;
        if self.ring.end <= offset && to <= self.landed {
            self.ring.extend(to);
        } else {
            self.ring.write(offset, data);
        }
    }
    fn start(&self) -> u64 {
        self.ring.start
    }
    fn release(&mut self, offset: u64) {
        self.ring.release(offset);
    }
    fn charge_to(&mut self, ledger: &Arc<Ledger>) {
        self.ring.charge_to(ledger);
    }
    fn afford(&mut self, to: u64, need: Need) -> u64 {
        let span = to.saturating_sub(self.ring.start);
        let had = self.ring.afford(span as usize, need) as u64;
        self.ring.start + had.min(span)
    }
    fn room(&self) -> Option<u64> {
        self.ring.room()
    }
    fn is_large(&self) -> bool {
        self.ring.is_large()
    }
    fn trim(&mut self) -> Trimmed {
        self.ring.trim()
    }
    fn give_back(&mut self) {
        self.ring.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::pattern;
    use super::*;
    use proptest::prelude::*;

    fn bytes(from: u64, len: usize) -> Vec<u8> {
        (from..from + len as u64).map(pattern).collect()
    }

    #[test]
    fn out_of_order_writes_read_in_order() {
        let mut ring = RecvRing::new();
        ring.write(3000, &bytes(3000, 500));
        ring.write(0, &bytes(0, 1000));
        let mut out = [0; 1500];
        assert_eq!(ring.read(&mut out, 1000), 1000);
        assert_eq!(out[..1000], bytes(0, 1000));
        assert_eq!(ring.read(&mut out, 1000), 0);
        ring.write(1000, &bytes(1000, 2000));
        assert_eq!(ring.read(&mut out, 3500), 1500);
        assert!(ring.peek(3500) == bytes(2500, 1000)[..]);
        ring.release(3500);
        assert_eq!(ring.start(), 3500);
        assert!(ring.peek(3500).is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn recv_ring_keeps_every_order(
            chunks in prop::collection::vec((1usize..2000, any::<u32>()), 1..20),
            rounds in 1u64..4,
            read in 1usize..5000,
        ) {
            let mut ring = RecvRing::new();
            let mut base = 0;
            for _ in 0..rounds {
                let mut at = base;
                let mut parts: Vec<_> = chunks.iter().map(|&(len, key)| {
                    let part = (key, at, len);
                    at += len as u64;
                    part
                }).collect();
                parts.sort_unstable();
                for (_, offset, len) in parts {
                    ring.write(offset, &bytes(offset, len));
                }
                let mut out = vec![0; read];
                while base < at {
                    let n = ring.read(&mut out, at);
                    prop_assert!(n > 0);
                    prop_assert_eq!(&out[..n], &bytes(base, n)[..]);
                    base += n as u64;
                }
                prop_assert_eq!(ring.start(), at);
            }
        }
    }
}
