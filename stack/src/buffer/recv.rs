//! Bytes received: in the buffers that they arrived in, or copied into a ring.
//!
//! A device that receives each frame into a buffer of its own shows the buffer with the frame. Text
//! in order that is at least half of it stays where it is, until the user has read it or takes the
//! buffer over. All else is copied into a ring, which continues the stream behind such chunks.

use super::ring::{BytesView, Ring};
use super::{RecvBuffer, Trimmed};
use crate::memory::{Charge, Ledger, Need};
use bytes::{Buf, Bytes};
use narrows_congestion::ByteCount;
use std::collections::VecDeque;
use std::sync::Arc;

/// The longest chunk that [`RecvRing::read_chunk`] makes by copying.
pub const MAX_COPIED: usize = 64 << 10;

/// Bytes received, stored in any order within the window, read in order.
///
/// A byte far ahead of [`start`](RecvBuffer::start) makes the ring as large as the distance: the
/// receive window is what bounds its memory. A byte that lies in a device's buffer takes up to two
/// of memory.
#[derive(Debug, Default)]
pub struct RecvRing {
    ring: Ring,
    /// What lies before the ring's start.
    shared: Option<Box<Shared>>,
}

/// Bytes in order up to the ring's start.
#[derive(Debug, Default)]
struct Shared {
    chunks: VecDeque<Chunk>,
    /// Offset of the first byte in them, or of the ring's if there is none.
    start: u64,
    /// The memory of all chunks.
    charge: Charge,
    arriving: Arriving,
}

/// The buffer in which the text of the next write may lie. Who offers it has it until that is over.
#[derive(Clone, Copy, Debug, Default)]
enum Arriving {
    #[default]
    None,
    Offered {
        /// The address of its first byte.
        at: usize,
        len: usize,
    },
    /// The text is to stay in it, so many bytes from its byte `from` on.
    Kept {
        from: usize,
        len: usize,
        /// Of the buffer.
        memory: usize,
    },
}

#[derive(Debug)]
struct Chunk {
    bytes: Bytes,
    /// Of the buffer that it keeps.
    memory: ByteCount,
}

/// Whether a buffer of `whole` bytes is kept for `len` of them.
pub(crate) const fn is_worth_it(len: usize, whole: usize) -> bool {
    len * 2 >= whole
}

impl Shared {
    fn push(&mut self, bytes: Bytes, memory: usize) {
        let memory = ByteCount::new(memory as u64);
        self.charge.set(self.charge.bytes() + memory);
        self.chunks.push_back(Chunk { bytes, memory });
    }

    /// The first `n` bytes, which are of the first chunk.
    fn take(&mut self, n: usize) -> Bytes {
        if let Some(first) = self.chunks.front_mut()
            && n < first.bytes.len()
        {
            self.start += n as u64;
            return first.bytes.split_to(n);
        }
        let Some(Chunk { bytes, memory }) = self.chunks.pop_front() else {
            return Bytes::new();
        };
        self.start += bytes.len() as u64;
        self.charge.set(self.charge.bytes() - memory);
        bytes
    }

    /// All chunks that end before `to` or there.
    fn take_whole(&mut self, to: u64, mut take: impl FnMut(Bytes)) {
        while let Some(first) = self.chunks.front()
            && first.bytes.len() as u64 <= to - self.start
            && let Some(Chunk { bytes, memory }) = self.chunks.pop_front()
        {
            self.start += bytes.len() as u64;
            self.charge.set(self.charge.bytes() - memory);
            take(bytes);
        }
    }

    fn release(&mut self, offset: u64) {
        while let Some(first) = self.chunks.front_mut() {
            let held = first.bytes.len() as u64;
            let n = offset.saturating_sub(self.start).min(held);
            self.start += n;
            if n < held {
                first.bytes.advance(n as usize);
                return;
            }
            let memory = first.memory;
            self.charge.set(self.charge.bytes() - memory);
            self.chunks.pop_front();
        }
    }

    /// Where in the buffer that is offered `data` lies, if that is to be kept.
    fn place_of(&self, data: &[u8]) -> Option<Arriving> {
        let Arriving::Offered { at, len: memory } = self.arriving else {
            return None;
        };
        let (from, len) = (data.as_ptr().addr().checked_sub(at)?, data.len());
        let within = from <= memory && len <= memory - from;
        (within && is_worth_it(len, memory)).then_some(Arriving::Kept { from, len, memory })
    }

    /// Whether text is kept here.
    fn is_needed(&self) -> bool {
        !self.chunks.is_empty() || matches!(self.arriving, Arriving::Kept { .. })
    }
}

impl RecvRing {
    /// An empty ring at offset 0, without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// The first of the bytes from [`start`](RecvBuffer::start) to `available_end`, the end of the
    /// data in order (RCV.NXT as a stream offset): all of them, unless some lie in a device's buffer.
    /// Then what follows can be seen once these are let go of, or with [`slices`](Self::slices).
    pub fn peek(&self, available_end: u64) -> BytesView<'_> {
        if self.shared.is_none() {
            return self.in_ring(available_end);
        }
        let mut slices = self.slices(available_end);
        let mut next = || slices.next().unwrap_or_default();
        BytesView::new(next(), next())
    }

    /// The bytes from [`start`](RecvBuffer::start) to `available_end`, as in [`peek`](Self::peek),
    /// piece by piece. Nothing if that lies before the start.
    pub fn slices(&self, available_end: u64) -> impl Iterator<Item = &[u8]> {
        let shared = self.shared.as_deref();
        let end = available_end.min(self.ring.end());
        let mut left = end.saturating_sub(self.start()) as usize;
        let chunks = shared.into_iter().flat_map(|s| &s.chunks);
        let chunks = chunks.map_while(move |chunk| {
            let n = chunk.bytes.len().min(left);
            left -= n;
            (n > 0).then(|| &chunk.bytes[..n])
        });
        let behind = self.in_ring(available_end).slices();
        chunks.chain(behind.into_iter().filter(|part| !part.is_empty()))
    }

    /// What of that lies in the ring.
    fn in_ring(&self, available_end: u64) -> BytesView<'_> {
        let (from, stored) = (self.ring.start(), self.ring.end());
        let end = available_end.min(stored);
        debug_assert_eq!(end, available_end, "peek beyond what was stored");
        self.ring.view(from, end.max(from))
    }

    /// Copy bytes in order, none from `available_end` on, to `buf` and let them go; how many.
    pub fn read(&mut self, buf: &mut [u8], available_end: u64) -> usize {
        let mut n = 0;
        for part in self.slices(available_end) {
            let len = part.len().min(buf.len() - n);
            buf[n..n + len].copy_from_slice(&part[..len]);
            n += len;
        }
        self.release(self.start() + n as u64);
        n
    }

    /// As [`read_chunk`](Self::read_chunk), one chunk after the other, each of which `take` gets: how many
    /// bytes.
    pub fn read_chunks(
        &mut self,
        most: usize,
        available_end: u64,
        mut take: impl FnMut(Bytes),
    ) -> usize {
        let from = self.start();
        let most = (available_end.saturating_sub(from)).min(most as u64);
        if let Some(shared) = &mut self.shared {
            shared.take_whole(from + most, &mut take);
        }
        loop {
            let taken = self.start() - from;
            let chunk = self.read_chunk((most - taken) as usize, available_end);
            if chunk.is_empty() {
                return taken as usize;
            }
            take(chunk);
        }
    }

    /// Take over bytes in order, none from `available_end` on and `most` at most: without a copy
    /// what lies in a device's buffer, one buffer a call, and a copy of what lies in the ring,
    /// [`MAX_COPIED`] bytes at most. Empty where there is nothing.
    ///
    /// A chunk keeps its buffer, of which it may be half, until it is dropped. Its memory is the
    /// user's from now on, and counted no more.
    pub fn read_chunk(&mut self, most: usize, available_end: u64) -> Bytes {
        let available = available_end.saturating_sub(self.start());
        let most = most.min(usize::try_from(available).unwrap_or(usize::MAX));
        if let Some(shared) = self.shared.as_mut().filter(|s| !s.chunks.is_empty()) {
            return shared.take(most);
        }
        let to = self.start() + most.min(MAX_COPIED) as u64;
        let copy = self.copy(to);
        self.release(to);
        copy
    }

    /// The text of the next write may lie in `buffer`, and it continues what is in order. What becomes of
    /// it [`settle`](Self::settle) decides, which is to follow before anything is read.
    #[inline]
    pub(crate) fn offer(&mut self, buffer: &[u8]) {
        let shared = self.shared.get_or_insert_with(|| {
            let ledger = self.ring.ledger();
            Box::new(Shared {
                start: self.ring.start(),
                charge: ledger.map_or_else(Charge::default, |l| Charge::new(l, ByteCount::ZERO)),
                ..Shared::default()
            })
        });
        shared.arriving = Arriving::Offered {
            at: buffer.as_ptr().addr(),
            len: buffer.len(),
        };
    }

    /// What lies before `to`.
    fn copy(&self, to: u64) -> Bytes {
        let mut copy = Vec::with_capacity((to - self.start()) as usize);
        self.slices(to)
            .for_each(|part| copy.extend_from_slice(part));
        copy.into()
    }

    /// The buffer is offered no more: what `buffer` gives is kept if the text is to stay in it, and
    /// whether it is.
    #[inline]
    pub(crate) fn settle(&mut self, buffer: impl FnOnce() -> Bytes) -> bool {
        let Some(shared) = &mut self.shared else {
            return false;
        };
        let Arriving::Kept { from, len, memory } = std::mem::take(&mut shared.arriving) else {
            return false;
        };
        let mut text = buffer();
        if from > 0 {
            text.advance(from);
        }
        text.truncate(len);
        shared.push(text, memory);
        true
    }

    /// Whether text up to `to` in order is to stay in its buffer: what the ring holds must go before
    /// it into a chunk, which is a copy, too.
    fn continues(&self, to: u64) -> bool {
        to.saturating_sub(self.ring.end()) >= self.ring.span() as u64
    }

    /// Leave `data` in the buffer that it arrived in, if it did and is worth it.
    #[inline(never)] // Most connections have no such buffers.
    fn share(&mut self, offset: u64, data: &[u8]) -> bool {
        let to = offset + data.len() as u64;
        let (from, end) = (self.ring.start(), self.ring.end());
        if offset != end || !self.continues(to) {
            return false;
        }
        let Some(shared) = &mut self.shared else {
            return false;
        };
        let Some(place) = shared.place_of(data) else {
            return false;
        };
        if from < end {
            let before = self.ring.view(from, end).slices().concat();
            let len = before.len();
            shared.push(before.into(), len);
        }
        shared.arriving = place;
        self.ring.skip_to(to);
        true
    }

    /// Whether what arrives up to `to` is to stay in its buffer, and there is memory for that.
    fn affords_buffer(&mut self, to: u64, need: Need) -> bool {
        let (text, continues) = (to.saturating_sub(self.ring.end()), self.continues(to));
        let Some(shared) = &mut self.shared else {
            return false;
        };
        let Arriving::Offered { len, .. } = shared.arriving else {
            return false;
        };
        if !continues || !is_worth_it(text as usize, len) {
            return false;
        }
        let memory = ByteCount::new(len as u64);
        let admitted = (self.ring.ledger()).is_none_or(|ledger| ledger.admits(memory, need));
        if !admitted {
            shared.arriving = Arriving::None;
        }
        admitted
    }

    /// Bytes of memory owned.
    pub fn memory(&self) -> usize {
        let chunks = self.shared.iter().flat_map(|s| &s.chunks);
        let shared: u64 = chunks.map(|c| c.memory.get()).sum();
        self.ring.memory() + shared as usize
    }

    /// Give back the memory that what is held does not need.
    pub fn shrink_to_fit(&mut self) {
        self.ring.shrink_to_fit();
        self.shared = self.shared.take().filter(|s| s.is_needed());
    }
}

impl RecvBuffer for RecvRing {
    type Payload<'a> = &'a [u8];

    fn write(&mut self, offset: u64, data: &[u8]) {
        assert!(offset >= self.ring.start(), "write before the start");
        if self.shared.is_some() && self.share(offset, data) {
            return;
        }
        self.ring.write(offset, data);
    }
    #[inline]
    fn start(&self) -> u64 {
        match &self.shared {
            Some(shared) => shared.start,
            None => self.ring.start(),
        }
    }
    #[inline]
    fn release(&mut self, offset: u64) {
        self.ring.release(offset);
        if let Some(shared) = &mut self.shared {
            shared.release(offset);
            if shared.chunks.is_empty() {
                shared.start = self.ring.start();
            }
        }
    }
    fn charge_to(&mut self, ledger: &Arc<Ledger>) {
        self.ring.charge_to(ledger);
        if let Some(shared) = &mut self.shared {
            shared.charge = Charge::new(ledger, shared.charge.bytes());
        }
    }
    #[inline]
    fn afford(&mut self, to: u64, need: Need) -> u64 {
        if self.shared.is_some() && self.affords_buffer(to, need) {
            return to;
        }
        let span = to.saturating_sub(self.ring.start());
        let had = self.ring.afford(span as usize, need) as u64;
        self.ring.start() + had.min(span)
    }
    #[inline]
    fn room(&self) -> Option<u64> {
        let room = self.ring.room()?;
        Some(self.ring.start() - self.start() + room)
    }
    #[inline]
    fn is_large(&self) -> bool {
        self.ring.is_large()
    }
    fn trim(&mut self) -> Trimmed {
        self.ring.trim()
    }
    fn give_back(&mut self) {
        self.shrink_to_fit();
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

    const BUFFER: usize = 2_000;

    /// A frame's buffer with `len` bytes of the stream from `offset` on, and where they are.
    fn frame(offset: u64, len: usize) -> Bytes {
        let mut frame = bytes(offset, len);
        frame.resize(BUFFER, 0xee);
        Bytes::from(frame)
    }

    /// `len` bytes arrive in a buffer, in order; whether they were left in it.
    fn arrive(ring: &mut RecvRing, offset: u64, len: usize) -> bool {
        let frame = frame(offset, len);
        ring.offer(&frame);
        let to = offset + len as u64;
        assert!(ring.afford(to, Need::Owed) >= to);
        ring.write(offset, &frame[..len]);
        ring.settle(|| frame)
    }

    #[test]
    fn text_stays_in_its_buffer_until_the_user_takes_it_over() {
        let mut ring = RecvRing::new();
        let frame = frame(0, 1_500);
        ring.offer(&frame);
        ring.write(0, &frame[..1_500]);
        assert!(ring.settle(|| frame.clone()));
        assert_eq!(ring.peek(1_500).slices()[0].as_ptr(), frame.as_ptr());
        assert_eq!(ring.memory(), BUFFER);
        let first = ring.read_chunk(500, 1_500);
        let second = ring.read_chunk(usize::MAX, 1_500);
        assert_eq!((first.len(), second.len()), (500, 1_000));
        assert_eq!(second.as_ptr(), frame[500..].as_ptr());
        assert_eq!((ring.memory(), ring.start()), (0, 1_500));
    }

    #[test]
    fn text_that_is_less_than_half_of_its_buffer_is_copied() {
        let mut ring = RecvRing::new();
        assert!(!arrive(&mut ring, 0, BUFFER / 2 - 1));
        assert!(arrive(&mut ring, 999, BUFFER / 2));
        // What the ring held goes before it.
        assert_eq!(ring.memory(), 999 + BUFFER + 1_024);
        let mut out = [0; BUFFER];
        assert_eq!(ring.read(&mut out, 1_999), 1_999);
        assert_eq!(out[..1_999], bytes(0, 1_999));
    }

    #[test]
    fn text_in_a_buffer_of_another_frame_is_copied() {
        let mut ring = RecvRing::new();
        let frame = frame(0, 1_500);
        ring.offer(&frame);
        ring.write(0, &bytes(0, 1_500));
        assert!(!ring.settle(|| frame));
        assert!(ring.peek(1_500) == bytes(0, 1_500)[..]);
    }

    #[test]
    fn buffers_are_counted_and_refused_beyond_the_limit() {
        use crate::memory::{Ledger, MemoryLimit};
        let ledger = Ledger::new(MemoryLimit::new(ByteCount::new(2 * BUFFER as u64)));
        let mut ring = RecvRing::new();
        ring.charge_to(&ledger);
        assert!(arrive(&mut ring, 0, 1_500));
        assert!(arrive(&mut ring, 1_500, 1_500));
        assert_eq!(ledger.stats().used.get(), 2 * BUFFER as u64);
        // Into the memory that each connection has.
        assert!(!arrive(&mut ring, 3_000, 1_500));
        assert_eq!(ring.read_chunk(usize::MAX, 4_500), bytes(0, 1_500));
        assert_eq!(ledger.stats().used.get(), BUFFER as u64);
        ring.release(4_500);
        assert_eq!(ledger.stats().used.get(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        /// In buffers, and not, with text out of order between, read in every way.
        #[test]
        fn the_stream_is_whole_however_it_arrives_and_is_read(
            steps in prop::collection::vec((1usize..BUFFER, 0u8..10, 0usize..5_000), 1..60),
        ) {
            let mut ring = RecvRing::new();
            let mut read = 0;
            let mut at = 0;
            for (len, what, most) in steps {
                let to = at + len as u64;
                match what {
                    0..=3 => { arrive(&mut ring, at, len); at = to; }
                    4 => { ring.write(at, &bytes(at, len)); at = to; }
                    5 => {
                        let later = to + 300;
                        ring.write(to, &bytes(to, 300));
                        ring.write(at, &bytes(at, len));
                        at = later;
                    }
                    6 => {
                        let mut got = Vec::new();
                        let n = ring.read_chunks(most, at, |chunk| got.extend_from_slice(&chunk));
                        prop_assert_eq!((n, n as u64), (got.len(), (at - read).min(most as u64)));
                        prop_assert_eq!(&got[..], &bytes(read, n)[..]);
                        read += n as u64;
                    }
                    7 => {
                        let got = ring.read_chunk(most, at);
                        prop_assert!(got.len() <= most && (!got.is_empty() || most == 0 || read == at));
                        prop_assert_eq!(&got[..], &bytes(read, got.len())[..]);
                        read += got.len() as u64;
                    }
                    8 => {
                        let mut out = vec![0; most];
                        let n = ring.read(&mut out, at);
                        prop_assert_eq!(n as u64, (at - read).min(most as u64));
                        prop_assert_eq!(&out[..n], &bytes(read, n)[..]);
                        read += n as u64;
                    }
                    _ => {
                        let part = (at - read).min(most as u64);
                        let seen: Vec<u8> = ring.slices(read + part).flatten().copied().collect();
                        prop_assert_eq!(seen, bytes(read, part as usize));
                        ring.release(read + part);
                        read += part;
                    }
                }
                prop_assert_eq!(ring.start(), read);
                let view = ring.peek(at);
                prop_assert!(view == bytes(read, view.len())[..]);
                prop_assert_eq!(view.is_empty(), read == at);
            }
        }
    }
}
