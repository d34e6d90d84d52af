//! What arrives: whose it is, and what the endpoint has to do with it besides.

use super::Endpoint;
use super::challenge::Verdict;
use super::chunks::{LAST, NOT_QUEUED};
use super::demux::FourTuple;
use super::listen::ListenerId;
use super::turns::Turns;
use crate::buffer::Payload;
use crate::conn::state::State;
use crate::conn::{TcpTypes, Text};
use crate::sparse::Sparse;
use crate::wire::{Flags, Headers, IpHeader, PlainSegment, SackBlocks, TcpHeader};
use narrows_congestion::Instant;
use narrows_congestion::hint::cold_path;
use std::net::SocketAddr;

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
        {
            if conn.predicts(now, &segment.tcp, payload.len()) {
                conn.on_predicted(now, segment.ecn, &segment.tcp, payload);
                self.last_input = Sparse::some(slot);
                if conn.has_events() {
                    self.cold.tell_user(s, slot, &mut self.events);
                }
                self.finished = false;
                if s.next_dirty == NOT_QUEUED {
                    s.next_dirty = LAST;
                    self.append_dirty(slot);
                }
                return;
            }
            if conn.state() == State::Established {
                return self.handle_unpredicted(now, slot, segment, &SackBlocks::EMPTY, payload);
            }
        }
        cold_path();
        let (ip, tcp) = (segment.ip_header(), segment.tcp.header());
        self.handle_packet(now, &ip, &tcp, payload);
    }

    /// Among many connections, that of a segment is found, and what it will touch is brought in.
    #[cold] // To those with few, whose way must not be longer for it.
    #[inline(never)]
    fn bring_in(&mut self, segment: &PlainSegment, payload_len: usize) {
        let Some(slot) = self.last_found.look_up_plain(&self.cold.demux, segment) else {
            return;
        };
        self.look_ahead(slot);
        if let Some(conn) = self.connection_in(slot) {
            conn.bring_in(payload_len);
        }
    }

    /// It is the turn of `slot`: asks for those whose turn is foreseen.
    fn look_ahead(&mut self, slot: u32) {
        let slots = &self.slots;
        let turns = match &mut self.turns {
            Some(turns) if turns.holds(slot) => turns,
            turns => turns.insert(Box::new(Turns::of(slots.len()))),
        };
        let Some(foreseen) = turns.took(slot) else {
            return;
        };
        slots.ask_for(foreseen.soon as usize);
        if let Some(sooner) = slots.get(foreseen.sooner as usize)
            && let Some(conn) = sooner.conn.as_ref()
        {
            self.cold
                .demux
                .ask_for(&FourTuple::new(conn.local(), conn.remote()));
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
        if let Some(slot) = self.last_found.look_up_plain(&self.cold.demux, segment)
            && let Some(conn) = self.connection_in(slot)
            && conn.state() == State::Established
        {
            return self.handle_unpredicted(now, slot, segment, sack, payload);
        }
        let (ip, tcp) = Headers::Sack(segment, sack).whole();
        self.handle_packet(now, &ip, &tcp, payload);
    }

    /// A segment of the established connection in `slot` has come, plain but for `sack`, and not as
    /// predicted.
    #[inline(never)]
    fn handle_unpredicted(
        &mut self,
        now: Instant,
        slot: u32,
        segment: &PlainSegment,
        sack: &SackBlocks,
        payload: Text<'_, T>,
    ) {
        if let Some(conn) = self.slots[slot as usize].conn.as_mut() {
            conn.handle_established(now, segment.ecn, &segment.tcp, sack, payload);
            self.after_segment(now, slot);
        }
    }

    /// The connection in `slot` has taken a segment in.
    #[inline]
    fn after_segment(&mut self, now: Instant, slot: u32) {
        if let Some(conn) = self.slots[slot as usize].conn.as_mut()
            && conn.owes_challenge()
            && self.cold.challenge.take(now, &mut self.cold.rng) == Verdict::Suppress
        {
            cold_path();
            conn.forget_challenge();
        }
        self.last_input = Sparse::some(slot);
        self.after_input(slot);
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
        let tuple = FourTuple {
            local: SocketAddr::new(ip.dst, tcp.dst_port),
            remote: SocketAddr::new(ip.src, tcp.src_port),
        };
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
                && let Some(id) = self.cold.demux.listener(tuple.local)
            {
                self.on_new_incarnation(now, slot, tuple, ListenerId(id), tcp, payload);
                return;
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
