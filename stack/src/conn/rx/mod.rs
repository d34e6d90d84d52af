//! A segment arrives: the steps of RFC 9293 section 3.10.7.4, in order.

mod ack;
mod check;
mod predicted;
mod text;

use super::state::{CloseReason, Origin, State};
use super::user::Kind as EventKind;
use super::{Connection, TcpTypes, Text};
use crate::buffer::Payload;
use crate::endpoint::challenge::{ConnectionBudget, Verdict};
use crate::sparse::Sparse;
use crate::wire::{Ecn, Flags, PlainHeader, SackBlocks, Seq, TcpHeader};
use check::Placed;
use narrows_congestion::Instant;
use narrows_congestion::hint::cold_path;

/// What a segment says once both have heard the other's SYN: other options mean nothing then.
#[derive(Clone, Copy)]
pub(super) struct Heard<'a> {
    /// When it came.
    pub(super) now: Instant,
    /// What its packet says.
    pub(super) ecn: Ecn,
    pub(super) tcp: &'a PlainHeader,
    pub(super) sack: &'a SackBlocks,
    pub(super) urgent: u16,
}

impl<T: TcpTypes> Connection<T> {
    /// A segment in any state.
    pub(super) fn on_segment(
        &mut self,
        now: Instant,
        ecn: Ecn,
        tcp: &TcpHeader,
        text: Text<'_, T>,
    ) {
        let heard = Heard {
            now,
            ecn,
            tcp: &PlainHeader::of(tcp),
            sack: &tcp.options.sack,
            urgent: tcp.urgent,
        };
        match self.state {
            State::Closed(_) => {}
            State::SynSent => self.on_segment_syn_sent(now, ecn, tcp, text),
            State::SynReceived(_) => self.on_segment_syn_received(heard, tcp, text),
            _ => self.on_segment_synchronized(heard, text),
        }
    }

    /// A segment in a synchronised state.
    #[inline(never)] // Most are as predicted.
    pub(super) fn on_segment_synchronized(&mut self, heard: Heard<'_>, text: Text<'_, T>) {
        match self.admit(heard.now, heard.tcp, text.len()) {
            Some(seg) if self.accepts_ack(heard.tcp) => self.on_acknowledged(heard, &seg, text),
            Some(_) => self.challenge_ack(heard.now),
            None => {}
        }
    }

    /// The first steps, of which an ACK is left over in its place.
    #[inline]
    pub(super) fn admit(
        &mut self,
        now: Instant,
        tcp: &PlainHeader,
        text_len: usize,
    ) -> Option<Placed> {
        // Sequence number, PAWS and SYN.
        let seg = self.check_sequence(now, tcp, text_len)?;
        // RST.
        if tcp.flags.contains(Flags::RST) {
            self.on_rst(&seg, now);
            return None;
        }
        self.last_received = now;
        self.keepalive_sent = 0;
        // ACK.
        tcp.flags.contains(Flags::ACK).then_some(seg)
    }

    /// The rest of a segment whose acknowledgement is acceptable.
    #[inline]
    pub(super) fn on_acknowledged(&mut self, heard: Heard<'_>, seg: &Placed, text: Text<'_, T>) {
        let Heard { now, tcp, .. } = heard;
        self.ts.on_segment(tcp, self.ack.last_sent, now);
        self.on_ack(heard, seg);
        self.settle_probe();
        if matches!(self.state, State::Closed(_)) {
            return;
        }
        if tcp.flags.contains(Flags::URG) && self.state.can_receive() {
            cold_path();
            self.on_urgent(heard.urgent, seg);
        }
        // After the peer's FIN there can be no text.
        if seg.text_len > 0 && self.state.can_receive() {
            self.heed_mark(heard.ecn, tcp.flags);
            self.on_text(now, seg, text);
        }
        if seg.fin || self.peer_fin.is_some() {
            cold_path();
            self.on_fin(now, seg);
        }
        self.arm_keepalive(now);
    }

    /// RST in the window (RFC 5961 section 3.2): only the exact next sequence number counts.
    #[cold]
    fn on_rst(&mut self, seg: &Placed, now: Instant) {
        if seg.start != self.rcv_nxt as i64 + i64::from(self.fin_received) {
            self.challenge_ack(now);
            return;
        }
        let reason = match self.state {
            State::SynReceived(Origin::Active) => CloseReason::Refused,
            // Both sides have said all, and have heard that the other did. Before, the peer may
            // not have had it all (RFC 9293 section 3.10.7.4 says nothing of what the user hears).
            State::TimeWait => CloseReason::Finished,
            _ => CloseReason::Reset,
        };
        self.finish(reason, now);
    }

    /// Answer a suspicious segment with an ACK, unless too many were sent (RFC 5961 section 7).
    #[cold]
    pub(super) fn challenge_ack(&mut self, now: Instant) {
        self.exceptions.change().unacceptable_in += 1;
        let full = ConnectionBudget::new(self.config.challenge_acks);
        if self.rare.challenge.get_or_insert(full).take(now) == Verdict::Send {
            self.exceptions.change().challenge_acks += 1;
            self.challenge_due = true;
        }
    }

    /// If the window has opened and the peer did not take the byte that probed it, that byte leaves
    /// again at once: its timer is backed off far, and Nagle's algorithm would wait for it.
    #[inline(always)]
    fn settle_probe(&mut self) {
        let rare = self.rare.as_changed();
        let Some(probe) = rare.and_then(|rare| rare.probe_sent.get()) else {
            return;
        };
        cold_path();
        let taken = self.snd.una() > probe;
        if taken || self.window.wnd() > 0 {
            self.rare.probe_sent = Sparse::NONE;
        }
        if !taken && self.window.wnd() > 0 {
            self.snd.retract_probe(probe);
        }
    }

    /// RCV.UP (RFC 9293 section 3.10.7.4, seventh): the pointer counts from this segment's
    /// sequence number.
    fn on_urgent(&mut self, pointer: u16, seg: &Placed) {
        let Ok(start) = u64::try_from(seg.start) else {
            return;
        };
        let up = start + u64::from(pointer);
        if self.rare.rcv_up.is_none_or(|old| up > old) && up > self.rcv_nxt {
            self.rare.rcv_up = Some(up);
            self.events.set(EventKind::Urgent);
        }
    }

    /// The sequence number on the wire of stream offset `offset`.
    pub(super) fn rcv_seq(&self, offset: u64) -> Seq {
        self.irs + 1 + offset as u32
    }

    /// RCV.NXT on the wire: after the FIN, one more than the data.
    pub(super) fn rcv_nxt_seq(&self) -> Seq {
        self.rcv_seq(self.rcv_nxt) + u32::from(self.fin_received)
    }
}
