//! What arrives: whose it is, and what the endpoint has to do with it besides.

use super::Endpoint;
use super::challenge::Verdict;
use super::chunks::{LAST, NOT_QUEUED};
use super::demux::FourTuple;
use super::strangers::Knock;
use super::turns::Turns;
use crate::buffer::{Bytes, Payload, RecvRing};
use crate::conn::state::State;
use crate::conn::{TcpTypes, Text};
use crate::sparse::Sparse;
use crate::wire::{Flags, Headers, IpHeader, PlainSegment, SackBlocks, TcpHeader};
use narrows_congestion::Instant;
use narrows_congestion::hint::cold_path;

impl<T: TcpTypes> Endpoint<T> {
    /// As [`handle_packet`](Self::handle_packet), of a packet with nothing rare in its headers.
    #[inline(always)] // Of each kind of endpoint one place hands it packets, which take this way mostly.
    pub fn handle_plain(&mut self, now: Instant, segment: &PlainSegment, payload: Text<'_, T>) {
        if self.slots.are_many() {
            self.bring_in(segment, payload.len());
        }
        if let Some(slot) = self.last_found.look_up_plain(&self.cold.demux, segment)
            && let Some(s) = self.slots.get_mut(slot as usize)
            && let Some(conn) = s.conn.as_mut()
            && conn.predicts(now, &segment.tcp, payload.len())
        {
            conn.on_predicted(now, segment.ecn, &segment.tcp, payload);
            self.last_input = Sparse::some(slot);
            if conn.has_events() {
                self.cold.tell_user(s, slot, &mut self.events, now);
            }
            self.finished = false;
            if s.next_dirty == NOT_QUEUED {
                s.next_dirty = LAST;
                self.append_dirty(slot);
            }
            return;
        }
        cold_path();
        self.handle_unpredicted(now, segment, &SackBlocks::EMPTY, payload);
    }

    /// Among many connections, that of a segment is found, and what it will touch is brought in.
    #[cold] // To those with few, whose way must not be longer for it.
    #[inline(never)]
    fn bring_in(&mut self, segment: &PlainSegment, payload_len: usize) {
        let Some(turn) = self.last_found.turn_of(&self.cold.demux, segment) else {
            return;
        };
        let turns = match &mut self.turns {
            Some(turns) if turns.holds(turn.slot) => turns,
            turns => turns.insert(Box::new(Turns::of(self.slots.len()))),
        };
        if let Some(soon) = turns.took(turn) {
            self.slots.ask_for(soon.slot as usize);
            self.cold.demux.ask_for(soon);
        } else if let Some(conn) = self.connection_in(turn.slot) {
            conn.bring_in(payload_len);
        }
    }

    /// As [`handle_packet`](Self::handle_packet), of a packet with nothing rare in its headers but `sack`.
    #[inline(never)]
    pub fn handle_sack(
        &mut self,
        now: Instant,
        segment: &PlainSegment,
        sack: &SackBlocks,
        payload: Text<'_, T>,
    ) {
        if self.slots.are_many() {
            self.bring_in(segment, payload.len());
        }
        self.handle_unpredicted(now, segment, sack, payload);
    }

    /// A segment has come, plain but for `sack`, and not as predicted.
    #[inline(never)]
    fn handle_unpredicted(
        &mut self,
        now: Instant,
        segment: &PlainSegment,
        sack: &SackBlocks,
        payload: Text<'_, T>,
    ) {
        if let Some(slot) = self.last_found.look_up_plain(&self.cold.demux, segment)
            && let Some(conn) = self.connection_in(slot)
            && conn.state() == State::Established
        {
            conn.handle_established(now, segment.ecn, &segment.tcp, sack, payload);
            return self.after_segment(now, slot);
        }
        let (ip, tcp) = Headers::Sack(segment, sack).whole();
        self.handle_packet(now, &ip, &tcp, payload);
    }

    /// The connection in `slot` has taken a segment in.
    #[inline]
    fn after_segment(&mut self, now: Instant, slot: u32) {
        if let Some(conn) = self.slots.at(slot).conn.as_mut()
            && conn.owes_challenge()
            && self.cold.challenge.take(now, &mut self.cold.rng) == Verdict::Suppress
        {
            cold_path();
            conn.forget_challenge();
        }
        self.last_input = Sparse::some(slot);
        self.after_input(slot, now);
    }

    /// As [`handle_packet`](Self::handle_packet), of a packet whose headers are of either kind.
    #[inline(never)] // Two places of an interface hand it packets, and `handle_plain` is in line here.
    pub fn handle_headers(&mut self, now: Instant, headers: Headers<'_>, payload: Text<'_, T>) {
        match headers {
            Headers::Plain(segment) => self.handle_plain(now, segment, payload),
            Headers::Sack(segment, sack) => self.handle_sack(now, segment, sack, payload),
            Headers::Any(ip, tcp) => self.handle_packet(now, ip, tcp, payload),
        }
    }

    /// A packet arrived whose checksums are good.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        ip: &IpHeader,
        tcp: &TcpHeader,
        payload: Text<'_, T>,
    ) {
        let tuple = FourTuple::of(ip, tcp);
        let many = self.slots.are_many();
        if let Some(slot) = self.last_found.look_up(&self.cold.demux, &tuple)
            && let Some(s) = self.slots.get_mut(slot as usize)
            && let Some(conn) = s.conn.as_mut()
        {
            if conn.state() == State::TimeWait
                // What a listener would admit: a SYN that opens nothing must not end TIME-WAIT.
                && tcp.flags.contains(Flags::SYN)
                && !tcp.flags.intersects(Flags::ACK | Flags::RST | Flags::FIN)
                && conn.time_wait_yields_to(tcp)
                && let Some(listener) = self.cold.demux.listener(tuple.local)
            {
                let knock = Knock {
                    now,
                    tuple,
                    listener,
                    ecn: ip.ecn,
                    tcp,
                    payload,
                };
                return self.on_new_incarnation(slot, knock);
            }
            if many {
                conn.bring_in(payload.len());
            }
            conn.handle_segment(now, ip.ecn, tcp, payload);
            return self.after_segment(now, slot);
        }
        self.on_stranger(now, tuple, ip, tcp, payload);
    }
}

impl<T: TcpTypes<Recv = RecvRing>> Endpoint<T> {
    /// As [`handle_packet`](Self::handle_packet), where `payload` lies in `buffer` and may stay there
    /// until the user has taken it over ([`Connection::recv_chunk`](crate::conn::Connection::recv_chunk)) or read it; whether it does.
    pub fn handle_shared(
        &mut self,
        now: Instant,
        headers: Headers<'_>,
        payload: &[u8],
        buffer: &Bytes,
    ) -> bool {
        let slot = self.offer_buffer(headers, payload, buffer);
        self.handle_headers(now, headers, payload);
        self.settle_buffer(slot, || buffer.clone())
    }

    /// As [`handle_shared`](Self::handle_shared), where all of the buffer is `payload`, which the
    /// connection takes over or drops.
    pub fn handle_bytes(&mut self, now: Instant, headers: Headers<'_>, payload: Bytes) -> bool {
        let slot = self.offer_buffer(headers, &payload, &payload);
        self.handle_headers(now, headers, &payload);
        self.settle_buffer(slot, || payload)
    }

    /// The next packet's payload lies in `buffer`: its connection, if it has one.
    #[inline]
    fn offer_buffer(&mut self, headers: Headers<'_>, text: &[u8], buffer: &[u8]) -> Option<u32> {
        if text.is_empty() {
            return None;
        }
        let (slot, seq, flags) = match headers {
            Headers::Plain(segment) | Headers::Sack(segment, _) => {
                let slot = self.last_found.look_up_plain(&self.cold.demux, segment);
                (slot, segment.tcp.seq, segment.tcp.flags)
            }
            Headers::Any(ip, tcp) => {
                let tuple = FourTuple::of(ip, tcp);
                let slot = self.last_found.look_up(&self.cold.demux, &tuple);
                (slot, tcp.seq, tcp.flags)
            }
        };
        let conn = self.connection_in(slot?)?;
        conn.offer_buffer(seq, flags, buffer);
        slot
    }

    /// The packet whose buffer was offered to the connection in `slot` was taken in.
    #[inline]
    fn settle_buffer(&mut self, slot: Option<u32>, buffer: impl FnOnce() -> Bytes) -> bool {
        slot.and_then(|slot| self.connection_in(slot))
            .is_some_and(|conn| conn.settle_buffer(buffer))
    }
}
