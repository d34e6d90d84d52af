//! What leaves: the next packet, whose it is, and where it goes.

use super::Endpoint;
use crate::buffer::SendBuffer;
use crate::conn::{Made, Output, TcpTypes};
use crate::sparse::Sparse;
use crate::wire::{IpHeader, TcpHeader};
use narrows_congestion::{ByteCount, Instant};
use std::net::IpAddr;

/// Whose the [`Output`] is that leaves next.
#[derive(Clone, Copy)]
pub(crate) enum NextOutput {
    /// Nobody's: an answer to a packet that belongs to no connection.
    Stray(IpHeader),
    /// The connection's in this slot.
    Conn(u32),
}

impl<T: TcpTypes> Endpoint<T> {
    /// The next packet to send.
    #[allow(clippy::type_complexity)] // Header, header, payload: what a packet is.
    #[inline]
    pub fn poll_transmit(
        &mut self,
        now: Instant,
    ) -> Option<(IpHeader, TcpHeader, <T::Send as SendBuffer>::View<'_>)> {
        let mut out = Output::default();
        let next = self.next_output(now, 0, &mut out)?;
        self.packet(next, out)
    }

    /// As [`poll_transmit`](Self::poll_transmit), for a device that makes segments itself: a
    /// packet may carry up to `max` bytes of new data, to be cut into segments of the size that
    /// comes with it.
    #[allow(clippy::type_complexity)] // As above, and the size.
    pub fn poll_transmit_burst(
        &mut self,
        now: Instant,
        max: u64,
    ) -> Option<(
        IpHeader,
        TcpHeader,
        <T::Send as SendBuffer>::View<'_>,
        ByteCount,
    )> {
        let mut out = Output::default();
        let next = self.next_output(now, max, &mut out)?;
        let size = self.size_of(next, &out);
        let (ip, tcp, payload) = self.packet(next, out)?;
        Some((ip, tcp, payload, size))
    }

    /// What [`next_output`](Self::next_output) made, as a packet.
    #[allow(clippy::type_complexity)] // As above.
    #[inline]
    pub(crate) fn packet(
        &mut self,
        next: NextOutput,
        out: Output,
    ) -> Option<(IpHeader, TcpHeader, <T::Send as SendBuffer>::View<'_>)> {
        match next {
            NextOutput::Stray(ip) => Some((ip, out.tcp, self.few.empty.view(0..0))),
            NextOutput::Conn(slot) => Some(self.slots[slot as usize].conn.as_mut()?.packet(out)),
        }
    }

    /// Writes the packet that leaves next into `out`, which is blank: at most `max` bytes of
    /// payload where that is more than a segment.
    #[inline]
    pub(crate) fn next_output(
        &mut self,
        now: Instant,
        max: u64,
        out: &mut Output,
    ) -> Option<NextOutput> {
        if self.has_strays {
            if let Some((ip, tcp)) = self.few.stray.pop_front() {
                out.tcp = tcp;
                return Some(NextOutput::Stray(ip));
            }
            self.has_strays = false;
        }
        loop {
            let slot = self.first_dirty;
            let s = self.slots.get_mut(slot as usize)?;
            if s.news != self.news {
                self.few.tell_news(s, self.news, now);
            }
            let Some(conn) = s.conn.as_mut() else {
                self.pop_dirty();
                continue;
            };
            if let Some(Made) = conn.output_burst(now, max, out) {
                return Some(NextOutput::Conn(slot));
            }
            self.pop_dirty();
            self.settle(slot, now);
        }
    }

    /// Payload of the segments into which a device cuts `next`.
    pub(crate) fn size_of(&self, next: NextOutput, out: &Output) -> ByteCount {
        match next {
            NextOutput::Stray(_) => ByteCount::MAX,
            NextOutput::Conn(slot) => {
                match self.slots.get(slot as usize).and_then(|s| s.conn.as_ref()) {
                    Some(conn) => conn.cut_at(out.payload_start(), out.payload_len()),
                    None => ByteCount::MAX,
                }
            }
        }
    }

    /// Where `next` goes.
    pub(crate) fn destination_of(&self, next: NextOutput) -> Option<IpAddr> {
        match next {
            NextOutput::Stray(ip) => Some(ip.dst),
            NextOutput::Conn(slot) => {
                let conn = self.slots.get(slot as usize)?.conn.as_ref()?;
                Some(conn.remote().ip())
            }
        }
    }

    /// The acknowledgement that the last packet given to
    /// [`handle_packet`](Self::handle_packet) is owed at once because it came out of order.
    pub(crate) fn disorder_ack(&mut self, now: Instant, out: &mut Output) -> Option<NextOutput> {
        let slot = std::mem::replace(&mut self.last_input, Sparse::NONE).get()?;
        let conn = self.slots.get_mut(slot as usize)?.conn.as_mut()?;
        if !conn.owes_disorder_ack() {
            return None;
        }
        let Made = conn.output(now, out)?;
        Some(NextOutput::Conn(slot))
    }
}
