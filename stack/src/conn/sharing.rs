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
    pub fn recv_chunks(&mut self, most: usize, now: Instant, mut take: impl FnMut(Bytes)) -> usize {
        let mut taken = 0;
        while taken < most {
            let chunk = self.recv_buf.read_chunk(most - taken, self.rcv_nxt);
            if chunk.is_empty() {
                break;
            }
            taken += chunk.len();
            take(chunk);
        }
        if taken > 0 {
            self.on_released(now);
        }
        taken
    }

    /// The next segment, which begins with `seq`, lies in `buffer`: its text may stay there if it is in
    /// order. Until [`withdraw_buffer`](Self::withdraw_buffer).
    pub(crate) fn offer_buffer(&mut self, seq: Seq, flags: Flags, buffer: &Bytes) {
        let in_order = self.ooo.is_empty() && seq == self.rcv_nxt_seq();
        if in_order && !flags.contains(Flags::SYN) {
            self.recv_buf.offer(buffer);
        }
    }

    /// Whether the text was left in the buffer that was offered.
    pub(crate) fn withdraw_buffer(&mut self) -> bool {
        self.recv_buf.withdraw()
    }
}
