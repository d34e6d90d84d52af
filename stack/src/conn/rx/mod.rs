//! A segment arrives: the steps of RFC 9293 section 3.10.7.4, in order.

mod ack;
mod check;
mod fin;
mod opening;
mod predicted;
mod text;

use super::state::{CloseReason, Origin, State};
use super::user::Kind as EventKind;
use super::{Connection, TcpTypes};
use crate::buffer::{Payload, RecvBuffer};
use crate::endpoint::challenge::{ConnectionBudget, Verdict};
use crate::sparse::Sparse;
use crate::wire::{Ecn, Flags, Seq, TcpHeader};
use ack::AckCheck;
use check::Placed;
use narrows_congestion::Instant;

impl<T: TcpTypes> Connection<T> {
    /// A segment in any state but SYN-SENT and CLOSED.
    #[inline(never)] // Most are as predicted.
    pub(super) fn on_segment(
        &mut self,
        now: Instant,
        ecn: Ecn,
        tcp: &TcpHeader,
        payload: <T::Recv as RecvBuffer>::Payload<'_>,
    ) {
        // Simultaneous open: the SYN has been seen, the rest of the peer's SYN-ACK has not
        // (RFC 9293 section 3.5, figure 8).
        if self.state == State::SynReceived(Origin::Active)
            && tcp.flags.contains(Flags::SYN | Flags::ACK)
            && !tcp.flags.contains(Flags::RST)
            && tcp.seq == self.irs
        {
            let rest = self.without_syn(tcp);
            self.on_segment(now, ecn, &rest, payload);
            self.ack.force();
            return;
        }
        // Sequence number, PAWS and SYN.
        let Some(seg) = self.check_sequence(now, tcp, payload.len()) else {
            return;
        };
        // RST.
        if tcp.flags.contains(Flags::RST) {
            self.on_rst(&seg, now);
            return;
        }
        self.last_received = now;
        self.keepalive_sent = 0;
        // ACK.
        if !tcp.flags.contains(Flags::ACK) {
            return;
        }
        if matches!(self.state, State::SynReceived(_)) {
            return self.on_segment_syn_received(now, ecn, tcp, seg, payload);
        }
        if self.check_ack(now, tcp) == AckCheck::Acceptable {
            self.on_acknowledged(now, ecn, tcp, &seg, payload);
        }
    }

    /// The rest of a segment whose acknowledgement is acceptable.
    #[inline]
    fn on_acknowledged(
        &mut self,
        now: Instant,
        ecn: Ecn,
        tcp: &TcpHeader,
        seg: &Placed,
        payload: <T::Recv as RecvBuffer>::Payload<'_>,
    ) {
        if let Some(option) = tcp.options.timestamps
            && self.ts.in_use()
        {
            self.ts
                .on_segment(option, tcp.seq, self.ack.last_sent(), now);
        }
        self.on_ack(now, tcp, seg);
        self.settle_probe();
        if matches!(self.state, State::Closed(_)) {
            return;
        }
        if tcp.flags.contains(Flags::URG) && self.state.can_receive() {
            self.on_urgent(tcp.urgent, seg);
        }
        if seg.text_len > 0 {
            self.on_text(now, ecn, tcp.flags, seg, payload);
        }
        if seg.fin || self.peer_fin.is_some() {
            self.on_fin(now, seg);
        }
        self.arm_keepalive(now);
    }

    /// RST in the window (RFC 5961 section 3.2): only the exact next sequence number counts.
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
    pub(super) fn challenge_ack(&mut self, now: Instant) {
        self.exceptions.change().unacceptable_in += 1;
        if self
            .rare
            .challenge
            .get_or_insert_with(|| ConnectionBudget::new(self.config.challenge_acks))
            .take(now)
            == Verdict::Send
        {
            self.exceptions.change().challenge_acks += 1;
            self.challenge_due = true;
        }
    }

    /// If the window has opened and the peer did not take the byte that probed it, that byte leaves
    /// again at once: its timer is backed off far, and Nagle's algorithm would wait for it.
    #[inline(always)]
    fn settle_probe(&mut self) {
        if self.rare.as_changed().is_some() {
            self.settle_probe_sent();
        }
    }

    #[inline(never)]
    fn settle_probe_sent(&mut self) {
        if let Some(probe) = self.rare.probe_sent.get() {
            if self.snd.una() > probe {
                self.rare.probe_sent = Sparse::NONE;
            } else if self.window.wnd() > 0 {
                self.rare.probe_sent = Sparse::NONE;
                self.snd.retract_probe(probe);
            }
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
