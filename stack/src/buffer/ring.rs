//! Real bytes: growable rings addressed by stream offset.
//!
//! Both rings keep the byte at stream offset `o` in slot `o - base mod capacity`, with a
//! power-of-two capacity, so a release moves no byte. An emptied ring begins at its first slot
//! again: what is written and read in turn stays in the processor's cache, however large the ring
//! once was. They own no memory until the first byte comes and double as they fill. Each time they
//! are asked to, they give back what they did not need since the last time: a steady load never
//! reallocates, and an idle ring is as small as what it holds.

use super::{Bytes, Payload, Trimmed};
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
    /// What all of it lies in, if that is shared: then `second` is empty.
    chunk: Option<&'a Bytes>,
}

impl<'a> BytesView<'a> {
    /// `first` followed by `second`.
    pub const fn new(first: &'a [u8], second: &'a [u8]) -> Self {
        Self {
            first,
            second,
            chunk: None,
        }
    }

    /// `part` of `chunk`.
    #[inline]
    pub(super) const fn within(chunk: &'a Bytes, part: &'a [u8]) -> Self {
        Self {
            first: part,
            second: &[],
            chunk: Some(chunk),
        }
    }

    /// The bytes to be kept by whoever sends them: without a copy where the user handed them over
    /// ([`Connection::send_chunk`](crate::conn::Connection::send_chunk)) and they lie in one chunk, which
    /// stays until the last of these is dropped. Elsewhere it is a copy.
    #[inline]
    pub fn to_bytes(&self) -> Bytes {
        match self.chunk {
            Some(chunk) => chunk.slice_ref(self.first),
            None if self.is_empty() => Bytes::new(),
            None => self.slices().concat().into(),
        }
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
        if self.second.is_empty() {
            return n;
        }
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
            chunk: self.chunk,
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

    #[inline]
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
        let at = self.slot(from);
        match self.storage.get(at..at + (to - from) as usize) {
            Some(whole) => BytesView::new(whole, &[]),
            None => {
                let (a, b) = self.slots(from, to);
                BytesView::new(&self.storage[a], &self.storage[b])
            }
        }
    }

    /// Store at `offset`, which is at or after `start`; grows as needed.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let to = offset + data.len() as u64;
        let span = (to.max(self.end) - self.start) as usize;
        if span > self.storage.len() {
            self.resize(span);
        }
        self.peak = self.peak.max(span);
        self.end = self.end.max(to);
        let at = self.slot(offset);
        match self.storage.get_mut(at..at + data.len()) {
            Some(whole) => whole.copy_from_slice(data),
            None => self.write_around(offset, data),
        }
    }

    /// Store what wraps.
    fn write_around(&mut self, offset: u64, data: &[u8]) {
        let (a, b) = self.slots(offset, offset + data.len() as u64);
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
            grown.write_around(at, part);
            at = to;
        }
        self.storage = grown.storage;
        self.base = grown.base;
    }

    #[inline]
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

    #[inline]
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

    /// What [`grow`](Self::grow) could make of it, where somebody counts.
    #[inline]
    pub(super) fn room(&self) -> Option<u64> {
        (self.storage.ledger.as_ref()).map(|ledger| self.room_in(ledger))
    }

    fn room_in(&self, ledger: &Ledger) -> u64 {
        let left = FLOOR + ledger.left(Need::Wanted);
        let new = 1 << left.get().ilog2();
        new.max(self.storage.len() as u64)
    }

    pub(super) fn forget_bytes(&mut self) {
        let ledger = self.storage.ledger.clone();
        self.storage = Storage::new(0, ledger);
    }
}
