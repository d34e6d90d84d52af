//! Text that stays in the buffer it arrived in, and that the user takes over with it.

use super::{Connection, TcpTypes};
use crate::buffer::{Bytes, RecvRing};
use crate::wire::{Flags, Seq};
use narrows_congestion::Instant;

impl<T: TcpTypes<Recv = RecvRing>> Connection<T> {
    /// Take over at most `most` bytes that have been received: without a copy where they lie in a
    /// buffer of the device's, one buffer a call, and a copy of
    /// [`MAX_COPIED`](crate::buffer::recv::MAX_COPIED) bytes at most where they do not. Empty where
    /// nothing is [`readable`](Self::readable).
    ///
    /// The buffer is the device's again once the chunk and all its clones are dropped; until then
    /// the device uses others.
    pub fn recv_chunk(&mut self, most: usize, now: Instant) -> Bytes {
        let chunk = self.recv_buf.read_chunk(most, self.rcv_nxt);
        if !chunk.is_empty() {
            self.on_released(now);
        }
        chunk
    }

    /// As [`recv_chunk`](Self::recv_chunk), one buffer after the other, each of which `take` gets: how
    /// many bytes.
    pub fn recv_chunks(&mut self, most: usize, now: Instant, take: impl FnMut(Bytes)) -> usize {
        let taken = self.recv_buf.read_chunks(most, self.rcv_nxt, take);
        if taken > 0 {
            self.on_released(now);
        }
        taken
    }

    /// The next segment, which begins with `seq`, lies in `buffer`: its text may stay there if it is in
    /// order. Until [`settle_buffer`](Self::settle_buffer).
    #[inline]
    pub(crate) fn offer_buffer(&mut self, seq: Seq, flags: Flags, buffer: &[u8]) {
        let in_order = self.ooo.is_empty() && seq == self.rcv_nxt_seq();
        if in_order && !flags.contains(Flags::SYN) {
            self.recv_buf.offer(buffer);
        }
    }

    /// What `buffer` gives, which was offered, is kept if the text is to stay in it, and whether it is.
    #[inline]
    pub(crate) fn settle_buffer(&mut self, buffer: impl FnOnce() -> Bytes) -> bool {
        self.recv_buf.settle(buffer)
    }
}
