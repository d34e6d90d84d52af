//! What leaves: the next packet, whose it is, and where it goes.

use super::Endpoint;
use super::chunks::{LAST, NOT_QUEUED};
use crate::buffer::SendBuffer;
use crate::conn::{Connection, Emitted, Output, Packet, TcpTypes, View};
use crate::sparse::Sparse;
use crate::wire::{Headers, IpHeader, TcpHeader};
use narrows_congestion::hint::cold_path;
use narrows_congestion::{ByteCount, Instant};
use std::net::IpAddr;

/// Whose the [`Output`] is that leaves next.
#[derive(Clone, Copy)]
pub(crate) enum NextOutput {
    /// Nobody's: the oldest answer to packets that belong to no connection.
    Stray,
    /// The connection's in this slot.
    Conn(u32),
}

/// Whether [`Endpoint::transmit_into`] has put a packet into its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// It has.
    Packet,
    /// There is none to send; the place is as it was.
    Nothing,
}

impl<T: TcpTypes> Endpoint<T> {
    /// The next packet to send.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(IpHeader, TcpHeader, View<'_, T>)> {
        let (ip, tcp, payload, _) = self.poll_transmit_burst(now, 0)?;
        Some((ip, tcp, payload))
    }

    /// As [`poll_transmit`](Self::poll_transmit), for a device that makes segments itself: a
    /// packet may carry up to `max` bytes of new data, to be cut into segments of the size that
    /// comes with it.
    pub fn poll_transmit_burst(&mut self, now: Instant, max: u64) -> Option<Packet<View<'_, T>>> {
        let mut out = Output::default();
        let next = self.next_output(now, max, &mut out)?;
        self.packet(next, out)
    }

    /// What [`next_output`](Self::next_output) made, as a packet.
    #[inline]
    pub(crate) fn packet(&mut self, next: NextOutput, out: Output) -> Option<Packet<View<'_, T>>> {
        match next {
            NextOutput::Stray => self.next_stray(),
            NextOutput::Conn(slot) => Some(self.connection_in(slot)?.packet(out)),
        }
    }

    /// The connection in `slot`.
    #[inline]
    pub(crate) fn connection_in(&mut self, slot: u32) -> Option<&mut Connection<T>> {
        self.slots.get_mut(slot as usize)?.conn.as_mut()
    }

    /// As [`poll_transmit`](Self::poll_transmit): what `make` makes of the packet.
    #[inline]
    pub fn transmit<R>(
        &mut self,
        now: Instant,
        make: impl FnMut(Headers<'_>, View<'_, T>) -> R,
    ) -> Option<R> {
        let mut made = None;
        self.transmit_into(now, &mut made, make);
        made
    }

    /// The same, put into `place` instead of what is there: for packets that are more than a few words.
    #[inline(always)] // One place asks.
    pub fn transmit_into<R>(
        &mut self,
        now: Instant,
        place: &mut Option<R>,
        mut make: impl FnMut(Headers<'_>, View<'_, T>) -> R,
    ) -> Made {
        if self.has_strays {
            cold_path();
            if let Some((ip, tcp, payload, _)) = self.next_stray() {
                *place = Some(make(Headers::Any(&ip, &tcp), payload));
                return Made::Packet;
            }
        }
        match self.next_conn(now, |conn| conn.transmit_into(now, place, &mut make)) {
            Some(_) => Made::Packet,
            None => Made::Nothing,
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
            return Some(NextOutput::Stray);
        }
        let next = |conn: &mut Connection<T>| conn.output_burst(now, max, out);
        self.next_conn(now, next).map(NextOutput::Conn)
    }

    #[cold]
    pub(crate) fn next_stray(&mut self) -> Option<Packet<View<'_, T>>> {
        let stray = self.cold.stray.as_mut()?;
        let (ip, tcp) = stray.pop_front()?;
        self.has_strays = !stray.is_empty();
        Some((ip, tcp, self.cold.empty.view(0..0), ByteCount::MAX))
    }

    /// The slot of the connection whose packet is next, which `next` asks it for.
    #[inline(always)]
    fn next_conn(
        &mut self,
        now: Instant,
        mut next: impl FnMut(&mut Connection<T>) -> Option<Emitted>,
    ) -> Option<u32> {
        while self.first_dirty != LAST {
            let slot = self.first_dirty;
            if let Some(conn) = self.first_to_ask(now)
                && let Some(emitted) = next(conn)
            {
                self.finished |= emitted == Emitted::Last;
                return Some(slot);
            }
            self.settle_asked(now);
        }
        None
    }

    /// The first connection that may have something to send, unless it has said that nothing follows.
    #[inline(always)]
    fn first_to_ask(&mut self, now: Instant) -> Option<&mut Connection<T>> {
        let s = self.slots.at(self.first_dirty);
        if s.news != self.news {
            self.cold.tell_news(s, self.news, now);
            self.finished = false;
        }
        (!self.finished).then(|| s.conn.as_mut())?
    }

    /// It has nothing more for now, and may be over.
    #[inline(always)]
    fn settle_asked(&mut self, now: Instant) {
        let slot = self.first_dirty;
        let conn = self.slots.at(slot).conn.as_ref();
        let over = conn.is_some_and(Connection::is_closed);
        self.settle_first(now);
        if over {
            cold_path();
            self.settle_closed(slot);
        }
    }

    /// The first connection that had something to send has nothing more for now: its events and its
    /// timer.
    #[inline(never)] // Twice a packet's way comes by: it is there once.
    fn settle_first(&mut self, now: Instant) {
        let slot = self.first_dirty;
        let s = self.slots.at(slot);
        if std::mem::take(&mut self.finished)
            && let Some(conn) = s.conn.as_mut()
        {
            conn.on_last_sent(now);
        }
        self.first_dirty = std::mem::replace(&mut s.next_dirty, NOT_QUEUED);
        if s.conn.as_ref().is_some_and(Connection::has_events) {
            cold_path();
            self.cold.tell_user(s, slot, &mut self.events, now);
        }
        match s.conn.as_ref().and_then(Connection::poll_timeout) {
            Some(at) => {
                s.timed = true;
                self.wheel.arm(slot, at);
            }
            None if s.timed => {
                cold_path();
                s.timed = false;
                self.wheel.cancel(slot);
            }
            None => {}
        }
    }

    /// Whether [`poll_transmit`](Self::poll_transmit) has nothing, for certain. To be asked when the
    /// last packet that it gave has left, at the same instant.
    #[inline(always)]
    pub fn is_dry(&mut self, now: Instant) -> bool {
        if self.finished {
            self.settle_first(now);
        }
        self.first_dirty == LAST && !self.has_strays
    }

    /// Where `next` goes.
    pub(crate) fn destination_of(&self, next: NextOutput) -> Option<IpAddr> {
        match next {
            NextOutput::Stray => Some(self.cold.stray.as_ref()?.front()?.0.dst),
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
        let conn = self.connection_in(slot)?;
        if !conn.owes_disorder_ack() {
            return None;
        }
        conn.output_burst(now, 0, out)?;
        Some(NextOutput::Conn(slot))
    }
}
