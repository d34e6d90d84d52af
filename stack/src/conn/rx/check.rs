//! Is the segment acceptable? (RFC 9293 section 3.10.7.4, first; RFC 7323 section 5; RFC 5961)

use crate::conn::state::{Origin, State};
use crate::conn::timers::Timer;
use crate::conn::{Connection, TcpTypes};
use crate::wire::{Flags, PlainHeader};
use narrows_congestion::Instant;

/// A segment's place in the stream, cut to the window.
#[derive(Clone, Copy, Debug)]
pub(in crate::conn) struct Placed {
    /// Stream offset of SEG.SEQ; negative for the SYN, or what came before it.
    pub(in crate::conn) start: i64,
    /// How many bytes of text may be taken, from the start of the payload.
    pub(in crate::conn) text_len: usize,
    /// The FIN counts: nothing was cut off before it.
    pub(super) fin: bool,
}

impl<T: TcpTypes> Connection<T> {
    /// The sequence check. `None`: the segment has been dealt with.
    pub(super) fn check_sequence(
        &mut self,
        now: Instant,
        tcp: &PlainHeader,
        text_len: usize,
    ) -> Option<Placed> {
        let rst = tcp.flags.contains(Flags::RST);
        let syn = tcp.flags.contains(Flags::SYN);
        let fin = tcp.flags.contains(Flags::FIN);

        // The peer did not get our SYN-ACK and sends its SYN again.
        if matches!(self.state, State::SynReceived(Origin::Passive))
            && syn
            && !tcp.flags.contains(Flags::ACK)
            && !rst
            && tcp.seq == self.irs
        {
            // Unless the one before has not left yet.
            if !std::mem::replace(&mut self.handshake.due, true) {
                self.handshake.asked_again = self.handshake.asked_again.saturating_add(1);
            }
            return None;
        }
        // RFC 5961 section 4.2: a SYN is never a reason to tear down, wherever it lies.
        if syn && !rst {
            self.challenge_ack(now);
            return None;
        }
        // Distance from RCV.NXT on the circle, put on the line of stream offsets.
        let distance = i64::from(tcp.seq.since(self.rcv_nxt_seq()) as i32);
        let base = self.rcv_nxt as i64 + i64::from(self.fin_received);
        let start = base + distance;
        let len = text_len as i64 + i64::from(syn) + i64::from(fin);
        // Nothing comes after the FIN.
        let edge = match self.fin_received {
            true => base,
            false => (self.offered.right_edge as i64).max(base),
        };

        // PAWS comes before the window check (RFC 7323 section 5.3), but never for a RST.
        if self.ts.in_use && !rst {
            let Some(option) = tcp.timestamps else {
                // RFC 7323 section 3.2: a segment without the option is dropped.
                self.exceptions.change().unacceptable_in += 1;
                return None;
            };
            if self.ts.rejects(option, now) {
                self.unacceptable(now, start, text_len, len);
                return None;
            }
        }

        // TIME-WAIT: a retransmitted FIN restarts the wait (RFC 9293 section 3.10.7.4).
        if self.state == State::TimeWait
            && fin
            && tcp.seq + text_len as u32 + 1 == self.rcv_nxt_seq()
        {
            self.ack.force();
            (self.timers).arm(Timer::Linger, now + self.config.lifetimes.time_wait);
            return None;
        }

        let window = edge - base;
        // An empty segment right at the edge is accepted too: that is where the ACKs of a peer
        // that has filled the window stand. A RST there is outside (RFC 5961 section 3.2).
        let acceptable = match (len, window) {
            (0, 0) => start == base,
            (0, _) => base <= start && start < edge + i64::from(!rst),
            (_, 0) => start == base,
            _ => start < edge && start + len > base,
        };
        if !acceptable {
            if rst {
                self.exceptions.change().unacceptable_in += 1;
                return None;
            }
            self.unacceptable(now, start, text_len, len);
            return None;
        }
        // Text beyond the right edge is cut off, and the FIN with it. With a closed window all
        // of it goes, the ACK is processed all the same (RFC 9293 MUST-66).
        let room = (edge - start).max(0);
        // Nor after one that came out of order.
        let room = (self.peer_fin.get()).map_or(room, |fin| room.min((fin as i64 - start).max(0)));
        let kept = (text_len as i64).min(room);
        let cut = kept < text_len as i64;
        if cut {
            self.ack.force();
        }
        let fin = fin && !cut && (start + kept <= edge);
        Some(Placed {
            start,
            text_len: kept as usize,
            fin,
        })
    }

    /// An unacceptable segment, with `text_len` bytes of text from `start` on and `len` sequence
    /// numbers in all, is answered with an ACK that says where we are (RFC 9293 section 3.10.7.4,
    /// first).
    #[cold]
    fn unacceptable(&mut self, now: Instant, start: i64, text_len: usize, len: i64) {
        let from = start.max(0) as u64;
        let to = (start + text_len as i64).max(0) as u64;
        if self.sack && from < to && to <= self.rcv_nxt {
            // Text wholly before RCV.NXT is a duplicate to be reported (RFC 2883 section 4).
            self.exceptions.change().duplicates_in += 1;
            let most = self.config.buffers.out_of_order_ranges();
            let _ = self.ooo.insert(from..to, self.rcv_nxt, most, |_| {});
        }
        if len > 0 {
            // It may be a retransmission whose ACK was lost: answer without delay or limit, the
            // peer's own retransmission timer is limit enough.
            self.exceptions.change().unacceptable_in += 1;
            self.ack.force();
        } else {
            self.challenge_ack(now);
        }
    }
}
