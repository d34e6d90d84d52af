//! What the user of a connection calls, asks and is told.

use super::icmp::SoftError;
use super::state::{CloseReason, State};
use super::timers::Timer;
use super::tx::More;
use super::{ConnStats, Connection, Source, TcpTypes, payload_mss};
use crate::buffer::{RecvBuffer, RecvRing, SendBuffer, SendRing};
use crate::config::{Keepalive, SendBufferUse, TcpConfig};
use crate::endpoint::demux::FourTuple;
use crate::recovery::{Sender, SenderStats};
use crate::sparse::Sparse;
use crate::trace::TraceSink;
use crate::wire::{Flags, Seq};
use bytes::Bytes;
use narrows_congestion::hint::cold_path;
use narrows_congestion::{AnyCongestion, AnyRto, ByteCount, Duration, Instant};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// What the user is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The handshake is complete.
    Connected,
    /// There is more to read than before.
    Readable,
    /// There is room to send again after [`Connection::send`] took less than offered. With
    /// [`Buffers::notsent_lowat`](crate::config::Buffers::notsent_lowat) or
    /// [`SendBufferUse::ByFlight`], less than half of what may be unsent is.
    Writable,
    /// The peer announced urgent data (RFC 9293 section 3.8.5).
    Urgent,
    /// The peer will send nothing more; what is left to read can be read.
    PeerClosed,
    /// Something is wrong that does not end the connection: an ICMP error, or many retransmissions
    /// (RFC 9293 section 3.9.1.8).
    SoftError(SoftError),
    /// It is over. No event follows.
    Closed(CloseReason),
}

/// Why nothing could be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The user closed the sending side before.
    Closing,
    /// The connection is closed.
    Closed(CloseReason),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closing => f.write_str("the sending side was closed"),
            Self::Closed(reason) => fmt::Display::fmt(reason, f),
        }
    }
}
impl std::error::Error for SendError {}

impl<T: TcpTypes> Connection<T> {
    /// Queue data for sending; how many bytes were taken. Less than offered when the send buffer
    /// is full: [`Event::Writable`] tells when there is room. A SYN that waits for data
    /// ([`fast_open`](Self::fast_open)) leaves, with none if there is none.
    ///
    /// # Errors
    /// When the sending side is closed.
    pub fn send(&mut self, data: Source<'_, T>, len: usize) -> Result<usize, SendError> {
        self.queue(len, |buf, most| {
            let capacity = buf.afford(len, most);
            buf.push(data, capacity)
        })
    }

    /// Queues what `push` puts into the buffer of what `len` bytes are offered, given how many
    /// bytes the buffer may hold; how many were taken.
    fn queue(
        &mut self,
        len: usize,
        push: impl FnOnce(&mut T::Send, usize) -> usize,
    ) -> Result<usize, SendError> {
        if let State::Closed(reason) = self.state {
            return Err(SendError::Closed(reason));
        }
        if self.fin_queued || !self.state.can_send() {
            return Err(SendError::Closing);
        }
        let (most, lack) = match self.unsent_limit() {
            None => (self.config.buffers.send, Lack::Room),
            Some(_) => {
                let most = self.unacknowledged() + self.send_room();
                (most as usize, Lack::FewerUnsent)
            }
        };
        let taken = push(&mut self.send_buf, most);
        if taken < len {
            self.lacks = lack;
        }
        if taken > 0 {
            self.hold.more = More::No;
        }
        if self.state == State::SynSent {
            self.stop_waiting_for_data();
        }
        Ok(taken)
    }

    /// The same; more is to come: until then a segment that is not full waits, but not longer than
    /// until the next acknowledgement, and not longer than 200 ms or an RTO (`MSG_MORE` in Linux's
    /// send(2)). Neither Nagle's algorithm nor its absence makes it leave before.
    ///
    /// # Errors
    /// When the sending side is closed.
    pub fn send_more(&mut self, data: Source<'_, T>, len: usize) -> Result<usize, SendError> {
        let taken = self.send(data, len)?;
        if taken > 0 {
            self.hold.more = More::Held;
        }
        Ok(taken)
    }

    /// The same; the peer is told that the data up to here is urgent (RFC 9293 section 3.8.5; new
    /// applications should not use it, RFC 6093).
    ///
    /// # Errors
    /// When the sending side is closed.
    pub fn send_urgent(&mut self, data: Source<'_, T>, len: usize) -> Result<usize, SendError> {
        let taken = self.send(data, len)?;
        self.rare.snd_up = Sparse::some(self.send_buf.end() + 1);
        Ok(taken)
    }

    /// Bytes that can be read now.
    pub fn readable(&self) -> u64 {
        self.rcv_nxt - self.recv_buf.start()
    }

    /// Bytes that have arrived, and cannot be read because others before them have not.
    pub fn out_of_order(&self) -> u64 {
        self.ooo.bytes()
    }

    /// The receive buffer; bytes up to [`readable_end`](Self::readable_end) are in order.
    pub fn recv_buffer(&self) -> &T::Recv {
        &self.recv_buf
    }

    /// Stream offset after the last byte that can be read.
    pub fn readable_end(&self) -> u64 {
        self.rcv_nxt
    }

    /// The user has read `n` bytes (at most [`readable`](Self::readable)): the window may open.
    pub fn consume(&mut self, n: u64, now: Instant) {
        let n = n.min(self.readable());
        self.recv_buf.release(self.recv_buf.start() + n);
        self.on_released(now);
    }

    /// The receive buffer has let go of something.
    pub(super) fn on_released(&mut self, now: Instant) {
        self.trim_later(now);
        self.know_room();
        let mss = || payload_mss(self.mss_out, self.ts.in_use).get();
        let (nxt, read) = (self.rcv_nxt, self.recv_buf.start());
        if self.state.can_receive() && self.offered.update_is_due(nxt, read, mss, now) {
            self.ack.force();
        }
    }

    /// No more will be sent: a FIN follows what is queued. Receiving goes on. In SYN-SENT it is over
    /// (RFC 9293 section 3.10.4), unless what was queued is for the SYN to take along
    /// ([`fast_open`](Self::fast_open)).
    pub fn close(&mut self, now: Instant) {
        // Nothing was said to the peer that needs taking back.
        if self.state == State::SynSent && !self.syn_takes_data_along() {
            return self.finish(CloseReason::Aborted, now);
        }
        if self.fin_queued || !self.state.can_send() {
            return;
        }
        self.fin_queued = true;
        match self.state {
            State::Established => self.set_state(State::FinWait1, now),
            State::CloseWait => self.set_state(State::LastAck, now),
            // The change waits for the handshake.
            _ => {}
        }
    }

    /// Nothing more will be sent, nor read: as [`close`](Self::close), but it does not wait for
    /// the peer longer than `orphan_stall` and `fin_wait_2` of the configuration say, and data the
    /// user has not read, or that still comes, is answered with a RST: it must not look delivered
    /// (RFC 9293 SHLD-3, RFC 2525 section 2.17).
    pub fn release(&mut self, now: Instant) {
        self.orphan = true;
        if self.readable() > 0 && !matches!(self.state, State::Closed(_)) {
            self.abort(now);
            return;
        }
        self.close(now);
        self.limit_orphan(now);
    }

    /// End it at once; the peer gets a RST, data not yet sent is lost.
    pub fn abort(&mut self, now: Instant) {
        self.give_up(CloseReason::Aborted, now);
    }

    /// Turn Nagle's algorithm off (`true`) or on. Off, what is queued leaves, though it be
    /// [corked](Self::set_cork); what is queued from then on is held again.
    pub fn set_nodelay(&mut self, nodelay: bool) {
        self.hold.nagle = !nodelay;
        if nodelay {
            self.rare.pushed_to = Sparse::some(self.send_buf.end() + 1);
        }
    }

    /// Hold back segments that are not full (`true`), or no more: then Nagle's algorithm alone has
    /// a say in what is queued. With nothing in flight what is held leaves after 200 ms, or an RTO
    /// if that is longer (`TCP_CORK` in Linux's tcp(7)).
    pub fn set_cork(&mut self, corked: bool) {
        self.hold.corked = corked;
        if !corked {
            self.hold.release();
        }
    }

    /// Take no more from the user while so much is unsent; `None`: as much as the send buffer
    /// holds. See [`Buffers::notsent_lowat`](crate::config::Buffers::notsent_lowat).
    pub fn set_notsent_lowat(&mut self, lowat: Option<ByteCount>) {
        Arc::make_mut(&mut self.config).buffers.notsent_lowat = lowat.filter(|l| !l.is_zero());
        self.look_for_room();
    }

    /// The differentiated services code point of what is sent from now on, six bits (RFC 9293
    /// SHLD-21). Changing it while data is in flight may reorder (SHLD-23).
    pub fn set_dscp(&mut self, dscp: u8) {
        self.ends.dscp = dscp & 0x3f;
    }

    /// Time to live, or hop limit, of what is sent from now on (RFC 9293 MUST-49); 0 counts as 1.
    pub fn set_hop_limit(&mut self, hop_limit: u8) {
        Arc::make_mut(&mut self.config).hop_limit = hop_limit.max(1);
    }

    /// Probe the idle peer from now on, or no more (RFC 9293 section 3.8.4).
    pub fn set_keepalive(&mut self, keepalive: Option<Keepalive>, now: Instant) {
        Arc::make_mut(&mut self.config).lifetimes.keepalive = keepalive;
        self.keepalive_sent = 0;
        self.timers.stop(Timer::Keepalive);
        self.arm_keepalive(now);
    }

    /// How long data may stay unacknowledged from now on (RFC 5482, RFC 9293 section 3.9.1.8);
    /// `None`: for ever.
    pub fn set_user_timeout(&mut self, limit: Option<Duration>, now: Instant) {
        Arc::make_mut(&mut self.config).lifetimes.user_timeout = limit;
        self.restart_user_timeout(now);
    }

    /// What is unacknowledged now may be so for as long as the user allows.
    #[inline]
    pub(super) fn restart_user_timeout(&mut self, now: Instant) {
        self.timers.stop(Timer::User);
        if let Some(limit) = self.config.lifetimes.user_timeout
            && !self.snd.is_idle()
        {
            cold_path();
            self.timers.arm(Timer::User, now + limit);
        }
    }

    /// Hold at most this many bytes of unacknowledged and unsent data from now on; what is held
    /// already stays. All of it is used then ([`SendBufferUse::Whole`]).
    pub fn set_send_buffer(&mut self, bytes: usize) {
        let config = Arc::make_mut(&mut self.config);
        config.buffers.send = bytes.clamp(1, 1 << 30);
        config.buffers.send_use = SendBufferUse::Whole;
        self.look_for_room();
    }

    /// A number of the user's own: see [`tag`](Self::tag).
    #[inline]
    pub fn set_tag(&mut self, tag: u64) {
        self.tag = tag;
    }

    /// Send trace events to `sink` from now on.
    pub fn set_trace(&mut self, sink: Option<Box<dyn TraceSink>>) {
        self.trace = sink.map(Box::new);
    }
}

/// What it knows.
impl<T: TcpTypes> Connection<T> {
    /// The state.
    pub fn state(&self) -> State {
        self.state
    }
    /// What the user has [set](Self::set_tag), 0 until then. It lies with what each segment touches: of many
    /// connections a user's own table would be one more cache line for each segment.
    #[inline]
    pub fn tag(&self) -> u64 {
        self.tag
    }
    /// Our address.
    pub fn local(&self) -> SocketAddr {
        self.ends.local()
    }
    /// The peer's address.
    pub fn remote(&self) -> SocketAddr {
        self.ends.remote()
    }
    /// Both.
    pub(crate) fn tuple(&self) -> FourTuple {
        FourTuple::new(self.local(), self.remote())
    }
    /// Counters.
    pub fn stats(&self) -> ConnStats {
        let traffic = &self.traffic;
        ConnStats {
            segments_in: traffic.segments_in,
            segments_out: traffic.segments_out,
            pure_acks: traffic.pure_acks,
            bytes_in: self.rcv_nxt,
            ..self.exceptions.get()
        }
    }
    /// Counters of the sending side.
    pub fn sender_stats(&self) -> SenderStats {
        self.snd.stats()
    }
    /// The sending side: window, RTT, scoreboard.
    pub fn sender(&self) -> &Sender<AnyCongestion, AnyRto> {
        &self.snd
    }
    /// Bytes sent or queued and not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.send_buf.end().saturating_sub(self.send_buf.start())
    }
    /// Bytes queued that have never been sent.
    pub fn unsent(&self) -> u64 {
        (self.send_buf.end() + 1).saturating_sub(self.snd.nxt().max(1))
    }
    /// How much [`send`](Self::send) would take: the room in the send buffer, as far as there is
    /// memory for it, less where
    /// [`Buffers::notsent_lowat`](crate::config::Buffers::notsent_lowat) says so.
    pub fn send_room(&self) -> u64 {
        let most = self.config.buffers.send as u64;
        let most = self.send_buf.room().map_or(most, |room| room.min(most));
        let room = most.saturating_sub(self.unacknowledged());
        let Some(limit) = self.unsent_limit() else {
            return room;
        };
        match limit.saturating_sub(self.unsent()) {
            0 => 0,
            // Whole segments, lest small ones leave.
            left => room.min(left.max(self.snd.mss().get())),
        }
    }
    /// Whether segments that are not full are held back.
    pub fn is_corked(&self) -> bool {
        self.hold.corked
    }
    /// SND.WND: the peer's window in bytes.
    pub fn peer_window(&self) -> u64 {
        self.window.wnd()
    }
    /// Where the peer's urgent data ends, as a stream offset, once announced.
    pub fn urgent_offset(&self) -> Option<u64> {
        self.rare.rcv_up
    }
    /// ECN is in use.
    pub fn ecn_in_use(&self) -> bool {
        self.ecn.in_use
    }
    /// SACK is in use.
    pub fn sack_in_use(&self) -> bool {
        self.sack
    }
    /// The configuration.
    pub fn config(&self) -> &Arc<TcpConfig> {
        &self.config
    }
}

impl<T: TcpTypes<Send = SendRing>> Connection<T> {
    /// As [`send`](Self::send), without a copy where that is worth it: what is taken is split off
    /// the front of `chunk`, and held until it is acknowledged. A chunk of
    /// [`MIN_SHARED`](crate::buffer::send::MIN_SHARED) bytes or more may be taken beyond the send
    /// buffer, by less than twice as many.
    ///
    /// # Errors
    /// When the sending side is closed.
    pub fn send_chunk(&mut self, chunk: &mut Bytes) -> Result<usize, SendError> {
        self.queue(chunk.len(), |buf, most| buf.push_chunk(chunk, most))
    }
}

/// Text that stays in the buffer it arrived in, and that the user takes over with it.
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

/// What may be unsent by [`SendBufferUse::ByFlight`], however little is in flight.
const LEAST_UNSENT: u64 = 128 << 10;

/// What a call of [`Connection::send`] lacked that took less than it was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    Nothing,
    Room,
    /// There is a limit to what may be unsent, and perhaps that was reached.
    FewerUnsent,
}

impl<T: TcpTypes> Connection<T> {
    /// How much may be unsent, if something less than the send buffer bounds that.
    fn unsent_limit(&self) -> Option<u64> {
        let lowat = self.config.buffers.notsent_lowat.map(ByteCount::get);
        match self.config.buffers.send_use {
            SendBufferUse::Whole => lowat,
            SendBufferUse::ByFlight => {
                let flight = self.unacknowledged().saturating_sub(self.unsent());
                let limit = flight.max(LEAST_UNSENT);
                Some(lowat.map_or(limit, |lowat| lowat.min(limit)))
            }
        }
    }

    /// Where the user waits for it, tells of room to send. Where that hangs on what is unsent, not
    /// before half of what may be is gone: a wake-up for each segment costs more than it gives.
    pub(super) fn look_for_room(&mut self) {
        let limit = self.unsent_limit();
        let enough = limit.is_none_or(|limit| self.unsent() * 2 < limit);
        if self.lacks != Lack::Nothing && enough && self.send_room() > 0 {
            self.lacks = Lack::Nothing;
            self.events.set(Kind::Writable);
        }
    }

    /// Whether all there is to tell is that there is something to read; then that is told.
    #[inline]
    pub(crate) fn take_readable_alone(&mut self) -> bool {
        let alone = self.events.kinds == Kind::Readable.bit();
        if alone {
            self.events.kinds = 0;
        }
        alone
    }

    /// New data has left.
    #[inline]
    pub(super) fn look_for_fewer_unsent(&mut self) {
        if self.lacks == Lack::FewerUnsent {
            self.look_for_room();
        }
    }
}

/// Events not yet told; at most one of each kind.
#[derive(Debug, Default)]
pub(super) struct EventSet {
    /// A bit for each [`Kind`].
    kinds: u8,
}

/// A kind of [`Event`].
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Kind {
    Connected,
    Urgent,
    Readable,
    Writable,
    PeerClosed,
    SoftError,
    Closed,
}

impl Kind {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl EventSet {
    /// There is something of this kind to tell.
    #[inline]
    pub(super) fn set(&mut self, kind: Kind) {
        self.kinds |= kind.bit();
    }

    /// Whether there is anything to tell.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.kinds != 0
    }

    /// The next of them; `last_error` is what an event of a soft error tells.
    #[inline(never)] // Few segments bring one.
    pub(super) fn pop(&mut self, state: State, last_error: Option<SoftError>) -> Option<Event> {
        if last_error.is_none() {
            // What went wrong has passed before anyone asked.
            self.kinds &= !Kind::SoftError.bit();
        }
        let closed = match state {
            State::Closed(reason) => Some(Event::Closed(reason)),
            _ => None,
        };
        let events = [
            (Kind::Connected, Some(Event::Connected)),
            (Kind::Urgent, Some(Event::Urgent)),
            (Kind::Readable, Some(Event::Readable)),
            (Kind::Writable, Some(Event::Writable)),
            (Kind::PeerClosed, Some(Event::PeerClosed)),
            (Kind::SoftError, last_error.map(Event::SoftError)),
            (Kind::Closed, closed),
        ];
        events.into_iter().find_map(|(kind, event)| {
            let told = self.kinds & kind.bit();
            self.kinds ^= told;
            event.filter(|_| told != 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_has_passed_is_told_to_nobody() {
        let mut events = EventSet::default();
        events.set(Kind::SoftError);
        events.set(Kind::Writable);
        let pop = |events: &mut EventSet, error| events.pop(State::Established, error);
        assert_eq!(pop(&mut events, None), Some(Event::Writable));
        assert!(!events.any());
        events.set(Kind::SoftError);
        let error = Some(SoftError::Retransmitting);
        let told = Some(Event::SoftError(SoftError::Retransmitting));
        assert_eq!(pop(&mut events, error), told);
        assert_eq!(pop(&mut events, error), None);
    }
}
