//! What nearly every segment is: the next one, with nothing amiss.
//!
//! Header prediction, as V. Jacobson has it and BSD and Linux do: such a segment is recognised by
//! a few comparisons, and of the steps of RFC 9293 section 3.10.7.4 those are left that have
//! something to do for it, in their order.

use crate::buffer::Payload;
use crate::conn::state::State;
use crate::conn::{Connection, TcpTypes, Text};
use crate::wire::{Ecn, Flags, PlainHeader, SackBlocks};
use narrows_congestion::Instant;

/// What only few segments of an established connection have.
const RARE: Flags =
    Flags::from_bits(Flags::SYN.bits() | Flags::RST.bits() | Flags::FIN.bits() | Flags::URG.bits());

impl<T: TcpTypes> Connection<T> {
    /// First to fifth of the checks: the segment begins at RCV.NXT and fits the window, there is no
    /// gap, PAWS has nothing against it, and it acknowledges what is outstanding, or nothing new.
    /// Nothing of its header is missing in `tcp` that means anything but on a SYN.
    #[inline]
    pub(crate) fn predicts(&self, now: Instant, tcp: &PlainHeader, text_len: usize) -> bool {
        self.snd.scoreboard().ask_for_first();
        self.state == State::Established
            && tcp.flags.contains(Flags::ACK)
            && !tcp.flags.intersects(RARE)
            && tcp.seq == self.rcv_seq(self.rcv_nxt)
            && self.rcv_nxt + text_len as u64 <= self.offered.right_edge
            && u64::from(self.acknowledged_by(tcp)) <= self.snd.nxt() - self.snd.una()
            && self.ooo.is_empty()
            && self.peer_fin.is_none()
            && (!self.ts.in_use
                || (tcp.timestamps).is_some_and(|option| !self.ts.rejects(option, now)))
    }

    /// The rest of the steps for a segment [as predicted](Self::predicts).
    #[inline(always)]
    pub(crate) fn on_predicted(
        &mut self,
        now: Instant,
        ecn: Ecn,
        tcp: &PlainHeader,
        text: Text<'_, T>,
    ) {
        self.traffic.segments_in += 1;
        self.last_received = now;
        self.keepalive_sent = 0;
        self.ts.on_segment(tcp, self.ack.last_sent, now);
        // Fifth, the ACK.
        let text_len = text.len();
        let said = self.heed_window(tcp, self.acknowledged_by(tcp).into(), text_len > 0);
        match said.acked {
            0 => self.hear_ack(now, tcp, &SackBlocks::EMPTY, said),
            _ => self.on_progress(now, tcp, said),
        }
        self.settle_probe();
        // Seventh, the text.
        if text_len > 0 && !matches!(self.state, State::Closed(_)) {
            self.on_next_text(now, ecn, tcp.flags, text);
        }
        self.arm_keepalive(now);
    }
}
