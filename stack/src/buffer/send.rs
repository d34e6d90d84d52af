//! Bytes to send: copied in from the user's slices, or shared with the user.
//!
//! What is copied lies in a ring. From the first shared chunk on, until everything held is
//! acknowledged, the stream is a list of pieces behind the ring: chunks, and blocks for what is
//! copied in between. A view has two slices, so no piece but the first and the last is shorter than
//! the longest view; a block that would be is filled up from the chunk behind it.

use super::ring::{BytesView, Ring};
use super::{SendBuffer, Trimmed};
use crate::memory::{Charge, Ledger, Need};
use bytes::{Buf, Bytes};
use core::cell::Cell;
use core::ops::Range;
use narrows_congestion::ByteCount;
use std::collections::VecDeque;
use std::sync::Arc;

/// The longest view: an IP packet's payload is shorter. A chunk of less is copied.
pub const MIN_SHARED: usize = 64 << 10;

/// Bytes to send, in a ring and in chunks that the user shares.
#[derive(Debug, Default)]
pub struct SendRing {
    ring: Ring,
    /// What follows the ring's end.
    pieces: Option<Box<Pieces>>,
}

/// The stream from the ring's end on.
#[derive(Debug, Default)]
struct Pieces {
    list: VecDeque<Piece>,
    /// Offset of the first byte held here.
    start: u64,
    /// Offset after the last one.
    end: u64,
    /// Blocks by their size, chunks by what was taken of them.
    charge: Charge,
    /// The piece that the last view began in, unless it has been let go of since: the next view most
    /// often begins there, too.
    viewed: Cell<usize>,
}

#[derive(Debug)]
struct Piece {
    /// Offset of its first byte.
    start: u64,
    bytes: Stored,
}

#[derive(Debug)]
enum Stored {
    /// A block of [`MIN_SHARED`] bytes.
    Copied(Vec<u8>),
    Shared(Bytes),
}

impl Stored {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Copied(block) => block,
            Self::Shared(chunk) => chunk,
        }
    }

    /// Bytes of memory it keeps.
    fn memory(&self) -> ByteCount {
        ByteCount::new(match self {
            Self::Copied(block) => block.capacity(),
            Self::Shared(chunk) => chunk.len(),
        } as u64)
    }
}

impl Piece {
    fn end(&self) -> u64 {
        self.start + self.bytes.as_slice().len() as u64
    }

    /// `range`, which begins in it, if all of it lies there.
    #[inline]
    fn view(&self, range: &Range<u64>) -> Option<BytesView<'_>> {
        let at = usize::try_from(range.start.checked_sub(self.start)?).ok()?;
        let within = at..at + (range.end - range.start) as usize;
        Some(match &self.bytes {
            Stored::Copied(block) => BytesView::new(block.get(within)?, &[]),
            Stored::Shared(chunk) => BytesView::within(chunk, chunk.get(within)?),
        })
    }

    /// The part of `range` that lies in it.
    fn part(&self, range: &Range<u64>) -> &[u8] {
        let bytes = self.bytes.as_slice();
        let within = |offset: u64| (offset.saturating_sub(self.start) as usize).min(bytes.len());
        &bytes[within(range.start)..within(range.end)]
    }
}

impl Pieces {
    fn new(at: u64, ledger: Option<&Arc<Ledger>>) -> Box<Self> {
        Box::new(Self {
            start: at,
            end: at,
            charge: ledger.map_or_else(Charge::default, |l| Charge::new(l, ByteCount::ZERO)),
            ..Self::default()
        })
    }

    fn add(&mut self, bytes: Stored) {
        self.charge.set(self.charge.bytes() + bytes.memory());
        self.list.push_back(Piece {
            start: self.end,
            bytes,
        });
    }

    /// Room in the block at the end.
    fn last_room(&self) -> usize {
        match self.list.back().map(|p| &p.bytes) {
            Some(Stored::Copied(block)) => MIN_SHARED - block.len(),
            _ => 0,
        }
    }

    /// Copies all of `source`, block by block.
    fn copy(&mut self, mut source: &[u8]) {
        while !source.is_empty() {
            if self.last_room() == 0 {
                self.add(Stored::Copied(Vec::with_capacity(MIN_SHARED)));
            }
            let n = source.len().min(self.last_room());
            let (now, rest) = source.split_at(n);
            if let Some(Stored::Copied(block)) = self.list.back_mut().map(|p| &mut p.bytes) {
                block.extend_from_slice(now);
            }
            self.end += n as u64;
            source = rest;
        }
    }

    fn share(&mut self, chunk: Bytes) {
        let len = chunk.len() as u64;
        self.add(Stored::Shared(chunk));
        self.end += len;
    }

    fn view(&self, range: &Range<u64>) -> BytesView<'_> {
        let piece = |at: usize| self.list.get(at);
        let part = |at: usize| piece(at).map_or(Default::default(), |p| p.part(range));
        let (at, len) = (
            self.piece_at(range.start),
            (range.end - range.start) as usize,
        );
        if let Some(whole) = piece(at).and_then(|p| p.view(range)) {
            return whole;
        }
        let view = BytesView::new(part(at), part(at + 1));
        assert_eq!(view.len(), len, "a view is no longer than MIN_SHARED");
        view
    }

    /// `range` if it lies in the piece that the last view began in, and all of it is held.
    #[inline]
    fn view_again(&self, range: &Range<u64>) -> Option<BytesView<'_>> {
        let last = self.list.get(self.viewed.get())?;
        match self.start <= range.start && range.start < range.end {
            true => last.view(range),
            false => None,
        }
    }

    /// Which piece has the byte at `offset`, or ends there and is the last.
    fn piece_at(&self, offset: u64) -> usize {
        let at = self.viewed.get();
        let has = |p: &Piece| (p.start..p.end()).contains(&offset);
        if self.list.get(at).is_some_and(has) {
            return at;
        }
        let behind = self.list.partition_point(|p| p.start <= offset);
        let at = behind.saturating_sub(1);
        self.viewed.set(at);
        at
    }

    fn release(&mut self, offset: u64) {
        self.start = self.start.max(offset.min(self.end));
        while let Some(first) = self.list.front()
            && first.end() <= offset
        {
            let memory = first.bytes.memory();
            self.charge.set(self.charge.bytes() - memory);
            self.list.pop_front();
            self.viewed.set(self.viewed.get().saturating_sub(1));
        }
    }
}

impl SendRing {
    /// An empty ring at offset 0, without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of memory owned. What the user shares is the user's.
    pub fn memory(&self) -> usize {
        let blocks = self.pieces.iter().flat_map(|p| &p.list);
        let owned = blocks.map(|p| match &p.bytes {
            Stored::Copied(block) => block.capacity(),
            Stored::Shared(_) => 0,
        });
        self.ring.memory() + owned.sum::<usize>()
    }

    /// Give back the memory that what is held does not need.
    pub fn shrink_to_fit(&mut self) {
        self.ring.shrink_to_fit();
    }

    /// Append from the front of `chunk`, without a copy where that is worth it, what fits while
    /// holding at most `capacity` bytes; how much was taken, which `chunk` has no more.
    ///
    /// Of a chunk of [`MIN_SHARED`] bytes or more at least so much is shared if there is room for
    /// any, and all if less than that would be left: less than twice `MIN_SHARED` more than
    /// `capacity`. Before that a block that is not full is filled from it, which may be all that
    /// there is room for. A copy is made of what is shorter. Chunks are counted where memory is, and
    /// copied as far as there is room for a copy where there is none for them.
    pub fn push_chunk(&mut self, chunk: &mut Bytes, capacity: usize) -> usize {
        let room = capacity.saturating_sub(self.span());
        if room == 0 || chunk.is_empty() {
            return 0;
        }
        let to_fill = self.to_fill();
        let memory = self.memory_left();
        if chunk.len() < to_fill + MIN_SHARED || memory < MIN_SHARED {
            let capacity = self.afford(chunk.len().min(room), capacity);
            let taken = self.push(chunk, capacity);
            chunk.advance(taken);
            return taken;
        }
        let at = self.end();
        self.ring.straighten();
        let ledger = self.ring.ledger();
        let pieces = self.pieces.get_or_insert_with(|| Pieces::new(at, ledger));
        let filled = to_fill.min(room);
        pieces.copy(&chunk.split_to(filled));
        if room == filled {
            return filled;
        }
        let mut shared = (room - filled).max(MIN_SHARED);
        if chunk.len().saturating_sub(shared) < MIN_SHARED {
            shared = chunk.len();
        }
        if shared > memory {
            shared = memory;
            if let Some(ledger) = ledger {
                ledger.on_write_refused();
            }
        }
        pieces.share(chunk.split_to(shared));
        filled + shared
    }

    fn span(&self) -> usize {
        (self.end() - self.start()) as usize
    }

    /// How much is to be copied before a chunk can be shared: a piece with another on each side
    /// has the length of a view.
    fn to_fill(&self) -> usize {
        match &self.pieces {
            Some(pieces) if pieces.list.len() > 1 || self.ring.span() > 0 => pieces.last_room(),
            _ => 0,
        }
    }

    /// As [`view`](SendBuffer::view), where there are pieces.
    #[inline(never)] // Most connections have none.
    fn view_across(&self, range: Range<u64>) -> BytesView<'_> {
        assert!(
            self.start() <= range.start && range.start <= range.end && range.end <= self.end(),
            "view of bytes that are not held"
        );
        let split = self.ring.end();
        match &self.pieces {
            Some(pieces) if range.start >= split => pieces.view(&range),
            Some(pieces) if range.end > split => {
                let [first, _] = self.ring.view(range.start, split).slices();
                let [second, _] = pieces.view(&(split..range.end)).slices();
                BytesView::new(first, second)
            }
            _ => self.ring.view(range.start, range.end),
        }
    }

    /// Bytes that may be charged, as far as anyone counts.
    fn memory_left(&self) -> usize {
        let left = |ledger: &Arc<Ledger>| ledger.left(Need::Wanted).get() as usize;
        self.ring.ledger().map_or(usize::MAX, left)
    }

    /// Bytes of blocks that there is memory for.
    fn blocks_left(&self) -> usize {
        self.memory_left() / MIN_SHARED * MIN_SHARED
    }
}

impl SendBuffer for SendRing {
    type Source<'a> = &'a [u8];
    type View<'a> = BytesView<'a>;

    #[inline]
    fn push(&mut self, source: &[u8], capacity: usize) -> usize {
        let taken = source.len().min(capacity.saturating_sub(self.span()));
        match &mut self.pieces {
            None => self.ring.append(&source[..taken]),
            Some(pieces) => pieces.copy(&source[..taken]),
        }
        taken
    }
    #[inline]
    fn end(&self) -> u64 {
        match &self.pieces {
            None => self.ring.end(),
            Some(pieces) => pieces.end,
        }
    }
    #[inline]
    fn start(&self) -> u64 {
        match &self.pieces {
            Some(pieces) if self.ring.span() == 0 => pieces.start,
            _ => self.ring.start(),
        }
    }
    #[inline]
    fn view(&self, range: Range<u64>) -> BytesView<'_> {
        if let Some(pieces) = &self.pieces {
            return match pieces.view_again(&range) {
                Some(view) => view,
                None => self.view_across(range),
            };
        }
        let ring = &self.ring;
        assert!(
            ring.start() <= range.start && range.start <= range.end && range.end <= ring.end(),
            "view of bytes that are not held"
        );
        ring.view(range.start, range.end)
    }
    #[inline]
    fn release(&mut self, offset: u64) {
        let Some(pieces) = &mut self.pieces else {
            return self.ring.release(offset);
        };
        self.ring.release(offset.min(self.ring.end()));
        pieces.release(offset);
        if self.ring.span() == 0 && pieces.start == pieces.end {
            self.ring.skip_to(pieces.end);
            self.pieces = None;
        }
    }
    fn charge_to(&mut self, ledger: &Arc<Ledger>) {
        self.ring.charge_to(ledger);
        if let Some(pieces) = &mut self.pieces {
            pieces.charge = Charge::new(ledger, pieces.charge.bytes());
        }
    }
    fn afford(&mut self, len: usize, capacity: usize) -> usize {
        let held = self.span();
        let wanted = held.saturating_add(len).min(capacity);
        let had = match &self.pieces {
            None => self.ring.afford(wanted, Need::Wanted),
            Some(pieces) => (held + pieces.last_room()).saturating_add(self.blocks_left()),
        };
        if had >= wanted {
            return capacity;
        }
        if let Some(ledger) = self.ring.ledger() {
            ledger.on_write_refused();
        }
        had
    }
    fn room(&self) -> Option<u64> {
        match &self.pieces {
            None => self.ring.room(),
            Some(pieces) => {
                self.ring.ledger()?;
                Some((self.span() + pieces.last_room() + self.blocks_left()) as u64)
            }
        }
    }
    #[inline]
    fn is_large(&self) -> bool {
        self.ring.is_large()
    }
    fn trim(&mut self) -> Trimmed {
        self.ring.trim()
    }
    fn give_back(&mut self) {
        self.ring.shrink_to_fit();
    }
    fn forget_bytes(&mut self) {
        self.ring.forget_bytes();
        if let Some(pieces) = &mut self.pieces {
            pieces.list.clear();
            pieces.charge.set(ByteCount::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Payload;
    use super::super::ring::MIN_CAPACITY;
    use super::super::synthetic::pattern;
    use super::*;
    use crate::memory::MemoryLimit;
    use proptest::prelude::*;

    fn bytes(from: u64, len: usize) -> Vec<u8> {
        (from..from + len as u64).map(pattern).collect()
    }

    #[test]
    fn what_is_sent_of_one_chunk_can_be_kept_without_a_copy() {
        let mut ring = SendRing::new();
        let first = Bytes::from(bytes(0, 100_000));
        let second = Bytes::from(bytes(100_000, 100_000));
        for chunk in [&first, &second] {
            assert_eq!(ring.push_chunk(&mut chunk.clone(), 1 << 20), 100_000);
        }
        for (range, of) in [
            (0..1_448, &first),
            (98_552..100_000, &first),
            (150_000..160_000, &second),
        ] {
            let kept = ring.view(range.clone()).to_bytes();
            let at = (range.start % 100_000) as usize;
            assert_eq!(kept.as_ptr(), of[at..].as_ptr(), "{range:?}");
            assert_eq!(kept, bytes(range.start, kept.len()));
            let part = ring.view(range.clone()).slice(100..200).to_bytes();
            assert_eq!(part.as_ptr(), of[at + 100..].as_ptr(), "{range:?}");
        }
        // Of two it is a copy, as of what was copied before.
        let both = ring.view(99_000..101_000).to_bytes();
        assert_eq!(both, bytes(99_000, 2_000));
        assert!(ring.view(7..7).to_bytes().is_empty());
        let kept = ring.view(0..1_448).to_bytes();
        ring.release(200_000);
        ring.push(&bytes(200_000, 1_000), 1 << 20);
        assert_eq!(ring.view(200_100..200_200).to_bytes(), bytes(200_100, 100));
        assert_eq!(kept, bytes(0, 1_448));
    }

    #[test]
    fn memory_follows_what_is_held() {
        let mut ring = SendRing::new();
        assert_eq!(ring.memory(), 0);
        assert_eq!(ring.push(&[], 100), 0);
        assert_eq!(ring.memory(), 0);
        assert_eq!(ring.push(&bytes(0, 10), 100), 10);
        assert_eq!(ring.memory(), MIN_CAPACITY);
        assert_eq!(ring.push(&bytes(10, 100_000), 100_000), 99_990);
        assert_eq!(ring.memory(), 1 << 17);
        // Needed since it was last trimmed: kept, and that may be less the next time.
        ring.release(100_000);
        assert_eq!(ring.trim(), Trimmed::Larger);
        assert_eq!(ring.memory(), 1 << 17);
        let mut at = 100_000;
        assert_eq!(ring.push(&bytes(at, 10), 100), 10);
        at += 10;
        assert_eq!(ring.trim(), Trimmed::Fits);
        assert_eq!(ring.memory(), MIN_CAPACITY);
        ring.release(at);
        assert_eq!(ring.trim(), Trimmed::Fits);
        assert_eq!(ring.trim(), Trimmed::Fits);
        assert_eq!(ring.memory(), 0);
        assert!(ring.view(at..at).is_empty());
        ring.push(&bytes(at, 5000), 5000);
        ring.release(at + 4990);
        ring.shrink_to_fit();
        assert_eq!(ring.memory(), MIN_CAPACITY);
        assert!(ring.view(at + 4990..at + 5000) == bytes(at + 4990, 10)[..]);
    }

    /// However much the ring held once, what is written and let go in turn lies in the same place.
    #[test]
    fn an_emptied_ring_begins_at_its_first_slot() {
        let mut ring = SendRing::new();
        ring.push(&bytes(0, 50_000), 50_000);
        let first = ring.view(0..1).slices()[0].as_ptr();
        let mut at = 50_000;
        for _ in 0..100 {
            ring.release(at);
            ring.push(&bytes(at, 700), 50_000);
            let held = ring.view(at..at + 700);
            assert!(held == bytes(at, 700)[..]);
            assert_eq!(held.slices()[0].as_ptr(), first);
            at += 700;
        }
    }

    #[test]
    fn a_smaller_capacity_takes_nothing_more() {
        let mut ring = SendRing::new();
        assert_eq!(ring.push(&[1; 50], 50), 50);
        assert_eq!(ring.push(&[1; 50], 20), 0);
        assert_eq!(ring.view(0..50).len(), 50);
    }

    /// What is shared is the user's own memory, before and after it was split.
    #[test]
    fn a_long_chunk_is_not_copied() {
        let mut ring = SendRing::new();
        ring.push(&bytes(0, 300), usize::MAX);
        let chunk = Bytes::from(bytes(300, 3 * MIN_SHARED));
        let mut rest = chunk.clone();
        assert_eq!(ring.push_chunk(&mut rest, MIN_SHARED), MIN_SHARED);
        assert_eq!(ring.push_chunk(&mut rest, usize::MAX), 2 * MIN_SHARED);
        assert!(rest.is_empty());
        assert_eq!(ring.memory(), MIN_CAPACITY);
        let part = |from: u64, to: u64| ring.view(from..to).slices().map(<[u8]>::as_ptr);
        assert_eq!(part(0, 400)[1], chunk.as_ptr());
        assert_eq!(part(1_300, 1_400)[0], chunk[1_000..].as_ptr());
        assert!(ring.view(0..60_000) == bytes(0, 60_000)[..]);
        let end = ring.end();
        ring.release(end);
        assert!(chunk.is_unique(), "let go");
        // The ring has its turn again.
        assert_eq!(ring.push(&bytes(end, 10), 100), 10);
        assert!(ring.view(end..end + 10) == bytes(end, 10)[..]);
    }

    #[test]
    fn a_short_chunk_is_copied() {
        let mut ring = SendRing::new();
        let mut chunk = Bytes::from(bytes(0, MIN_SHARED - 1));
        assert_eq!(ring.push_chunk(&mut chunk, 1_000), 1_000);
        assert_eq!(chunk[..], bytes(1_000, MIN_SHARED - 1_001));
        assert_eq!(ring.push_chunk(&mut chunk, 1_000), 0);
        assert_eq!(ring.push_chunk(&mut Bytes::new(), 2_000), 0);
        assert!(ring.view(0..1_000) == bytes(0, 1_000)[..]);
        assert!(ring.memory() > 0);
    }

    /// A header before each chunk, as a server of files writes them: no more is copied than a
    /// view is long for each.
    #[test]
    fn headers_between_chunks() {
        let mut ring = SendRing::new();
        for _ in 0..5 {
            let at = ring.end();
            assert_eq!(ring.push(&bytes(at, 200), usize::MAX), 200);
            let at = ring.end();
            let mut chunk = Bytes::from(bytes(at, 4 * MIN_SHARED));
            assert_eq!(ring.push_chunk(&mut chunk, usize::MAX), 4 * MIN_SHARED);
        }
        assert_eq!(ring.memory(), MIN_CAPACITY + 4 * MIN_SHARED);
        for from in (0..ring.end() - MIN_SHARED as u64).step_by(777) {
            let view = ring.view(from..from + MIN_SHARED as u64);
            assert!(view == bytes(from, MIN_SHARED)[..]);
        }
    }

    /// The same where there is never room for more than half a block: the block behind a header is
    /// filled once, and then the rest of the chunk is shared.
    #[test]
    fn a_header_before_a_chunk_costs_one_block_however_little_room_there_is() {
        let mut ring = SendRing::new();
        let hold = |ring: &SendRing| (ring.end() - ring.start()) as usize;
        let mut first = Bytes::from(bytes(0, MIN_SHARED));
        ring.push_chunk(&mut first, usize::MAX);
        ring.push(&bytes(ring.end(), 200), usize::MAX);
        let mut chunk = Bytes::from(bytes(ring.end(), 16 * MIN_SHARED));
        while !chunk.is_empty() {
            let capacity = hold(&ring) + MIN_SHARED / 2;
            assert!(ring.push_chunk(&mut chunk, capacity) > 0);
        }
        assert_eq!(ring.memory(), MIN_SHARED);
        let (from, to) = (ring.end() - 60_000, ring.end());
        assert!(ring.view(from..to) == bytes(from, 60_000)[..]);
    }

    /// What the user is told that there is room for is taken, with pieces as without.
    #[test]
    fn what_there_is_room_for_is_taken() {
        let max = ByteCount::new(6 * MIN_SHARED as u64);
        let ledger = Ledger::new(MemoryLimit::new(max).with_pressure(max));
        let mut ring = SendRing::new();
        ring.charge_to(&ledger);
        ring.push_chunk(&mut Bytes::from(bytes(0, MIN_SHARED)), usize::MAX);
        let room = (ring.room().unwrap() - ring.end()) as usize;
        assert_eq!(room, 5 * MIN_SHARED);
        let capacity = ring.afford(10 * MIN_SHARED, usize::MAX);
        let data = bytes(MIN_SHARED as u64, 10 * MIN_SHARED);
        assert_eq!(ring.push(&data, capacity), room);
        assert_eq!(ledger.stats().writes_refused, 1);
        assert_eq!(ring.room(), Some(ring.end() - ring.start()));
    }

    /// Chunks are counted where memory is; where there is none for them, nothing is shared, and
    /// the floor is there for a copy.
    #[test]
    fn chunks_are_counted() {
        let max = ByteCount::new(400_000);
        let ledger = Ledger::new(MemoryLimit::new(max).with_pressure(max));
        let used = || ledger.stats().used.get();
        let mut ring = SendRing::new();
        ring.charge_to(&ledger);
        let mut chunk = Bytes::from(bytes(0, 3 * MIN_SHARED));
        assert_eq!(ring.push_chunk(&mut chunk, usize::MAX), 3 * MIN_SHARED);
        assert_eq!(used(), 3 * MIN_SHARED as u64);
        let mut second = SendRing::new();
        second.charge_to(&ledger);
        let mut chunk = Bytes::from(bytes(0, 4 * MIN_SHARED));
        let taken = second.push_chunk(&mut chunk, usize::MAX);
        assert!((4_096..4 * MIN_SHARED).contains(&taken), "{taken}");
        assert!(used() <= max.get() && ledger.stats().writes_refused == 1);
        assert_eq!(chunk[..], bytes(taken as u64, 4 * MIN_SHARED - taken));
        ring.release(2 * MIN_SHARED as u64);
        ring.forget_bytes();
        ring.release(3 * MIN_SHARED as u64);
        second.release(taken as u64);
        second.give_back();
        assert_eq!(used(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn send_ring_is_a_queue(ops in prop::collection::vec((0usize..3000, 0usize..3000, 1usize..9000), 1..60)) {
            let mut ring = SendRing::new();
            for (push, release, capacity) in ops {
                let (start, end) = (ring.start(), ring.end());
                let held = (end - start) as usize;
                let taken = ring.push(&bytes(end, push), capacity);
                prop_assert_eq!(taken, push.min(capacity.saturating_sub(held)));
                let end = end + taken as u64;
                prop_assert_eq!(ring.end(), end);
                prop_assert!(ring.view(start..end) == bytes(start, (end - start) as usize)[..]);
                let (a, b) = (start + (end - start) / 3, end - (end - start) / 3);
                let part = ring.view(a..b);
                prop_assert!(part == bytes(a, (b - a) as usize)[..]);
                let half = part.len() / 2;
                prop_assert!(part.slice(half..part.len()) == bytes(a, part.len())[half..]);
                prop_assert!(part.slice(0..half) == bytes(a, half)[..]);
                prop_assert_eq!(part.iter().count(), part.len());
                ring.release((start + release as u64).min(end));
                prop_assert_eq!(ring.start(), (start + release as u64).min(end));
                prop_assert!(ring.memory() <= (2 * 9000usize).next_power_of_two());
            }
        }


        /// Slices and chunks in any order are one stream, of which every view is right.
        #[test]
        fn slices_and_chunks_are_a_queue(
            ops in prop::collection::vec((any::<bool>(), 0usize..300_000, 0usize..300_000, 0u64..=100), 1..25),
        ) {
            let mut ring = SendRing::new();
            for (shared, len, room, released) in ops {
                let (start, end) = (ring.start(), ring.end());
                let data = bytes(end, len);
                let held = (end - start) as usize;
                let capacity = held + room;
                let taken = if shared {
                    let mut chunk = Bytes::from(data);
                    let taken = ring.push_chunk(&mut chunk, capacity);
                    prop_assert_eq!(chunk.len(), len - taken);
                    let over = if len < MIN_SHARED { 0 } else { 2 * MIN_SHARED };
                    prop_assert!(taken <= room + over);
                    prop_assert_eq!(taken > 0, room > 0 && len > 0);
                    taken
                } else {
                    let taken = ring.push(&data, capacity);
                    prop_assert_eq!(taken, len.min(room));
                    taken
                };
                let end = end + taken as u64;
                prop_assert_eq!((ring.start(), ring.end()), (start, end));
                let mut at = start;
                while at < end {
                    let to = (at + MIN_SHARED as u64).min(end);
                    prop_assert!(ring.view(at..to) == bytes(at, (to - at) as usize)[..]);
                    at += 9_973;
                }
                ring.release(start + (end - start) * released / 100);
                prop_assert_eq!(ring.start(), start + (end - start) * released / 100);
            }
            ring.release(ring.end());
            ring.give_back();
            prop_assert_eq!(ring.memory(), 0);
        }
    }
}
