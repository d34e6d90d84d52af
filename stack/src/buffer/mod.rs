//! Where a connection keeps stream data: the seam between real bytes and synthetic ones.
//!
//! A connection counts in stream offsets (the first byte after SYN is offset 0) and leaves
//! storing to a [`SendBuffer`] and a [`RecvBuffer`].

use crate::memory::{Ledger, Need};
use core::fmt::Debug;
use core::ops::Range;
use std::sync::Arc;

pub mod recv;
pub mod ring;
pub mod send;
pub mod synthetic;

pub use bytes::Bytes;
pub use recv::RecvRing;
pub use ring::BytesView;
pub use send::SendRing;
pub use synthetic::{Synthetic, SyntheticRecv, SyntheticSend};

/// The payload of a segment.
pub trait Payload {
    /// Length in bytes.
    fn len(&self) -> usize;
    /// Whether there is no byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The part of it in `range` (offsets within this payload, in bounds).
    #[must_use]
    fn slice(&self, range: Range<usize>) -> Self;
}

impl Payload for &[u8] {
    fn len(&self) -> usize {
        (**self).len()
    }
    fn slice(&self, range: Range<usize>) -> Self {
        &self[range]
    }
}

/// Bytes written by the user and not yet acknowledged by the peer.
pub trait SendBuffer: Debug {
    /// What the user hands in.
    type Source<'a>;
    /// A stretch of the stream, as it goes into a segment.
    type View<'a>
    where
        Self: 'a;

    /// Append as much of `source` as fits while holding at most `capacity` bytes; how much was
    /// taken.
    fn push(&mut self, source: Self::Source<'_>, capacity: usize) -> usize;
    /// Offset after the last byte appended.
    fn end(&self) -> u64;
    /// Offset of the first byte still held.
    fn start(&self) -> u64;
    /// The bytes of `range`, which lies within `start()..end()`.
    fn view(&self, range: Range<u64>) -> Self::View<'_>;
    /// Bytes before `offset` are acknowledged: let them go.
    fn release(&mut self, offset: u64);

    /// From now on its memory is counted in `ledger`. A buffer without memory has nothing to
    /// count.
    fn charge_to(&mut self, ledger: &Arc<Ledger>) {
        let _ = ledger;
    }
    /// How many bytes it can have memory for, to hold `len` more: at most `capacity`, and that
    /// if nobody counts.
    fn afford(&mut self, len: usize, capacity: usize) -> usize {
        let _ = len;
        capacity
    }
    /// How many bytes it could hold now as far as memory goes; `None`: any number.
    fn room(&self) -> Option<u64> {
        None
    }
    /// Whether it holds memory that may be worth giving back.
    fn is_large(&self) -> bool {
        false
    }
    /// Give back what was not needed since the last call.
    fn trim(&mut self) -> Trimmed {
        Trimmed::Fits
    }
    /// Give back all that what is held does not need.
    fn give_back(&mut self) {}
    /// What is held will not be sent any more: give its memory back. The offsets stay.
    fn forget_bytes(&mut self) {}
}

/// What a buffer is after it was trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trimmed {
    /// As large as what is held needs.
    Fits,
    /// Larger: it was used lately.
    Larger,
}

/// Bytes received and not yet read by the user.
pub trait RecvBuffer: Debug {
    /// What a segment carries.
    type Payload<'a>: Payload;

    /// Store `data` at stream `offset`. The connection never passes a byte before
    /// [`start`](Self::start), nor the same byte twice (but for the text of a SYN that comes again),
    /// nor one beyond `start() + capacity` of its receive window.
    fn write(&mut self, offset: u64, data: Self::Payload<'_>);
    /// Offset of the first byte still held.
    fn start(&self) -> u64;
    /// The user has read everything before `offset`.
    fn release(&mut self, offset: u64);

    /// As [`SendBuffer::charge_to`].
    fn charge_to(&mut self, ledger: &Arc<Ledger>) {
        let _ = ledger;
    }
    /// Up to which offset bytes can be written: `to`, or less if there is no memory for that.
    fn afford(&mut self, to: u64, need: Need) -> u64 {
        let _ = need;
        to
    }
    /// As [`SendBuffer::room`], from [`start`](Self::start) on.
    fn room(&self) -> Option<u64> {
        None
    }
    /// As [`SendBuffer::is_large`].
    fn is_large(&self) -> bool {
        false
    }
    /// As [`SendBuffer::trim`].
    fn trim(&mut self) -> Trimmed {
        Trimmed::Fits
    }
    /// As [`SendBuffer::give_back`].
    fn give_back(&mut self) {}
}
