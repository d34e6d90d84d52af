//! The segment that completes a handshake, and the text of a SYN, which waits for it (RFC 9293
//! sections 3.10.7.2 and 3.10.7.3).

use super::Heard;
use crate::buffer::{Payload, RecvBuffer};
use crate::conn::state::{Origin, State};
use crate::conn::timers::Timer;
use crate::conn::{Connection, TcpTypes, Text};
use crate::sparse::Sparse;
use crate::wire::{Flags, PlainHeader, TcpHeader};
use narrows_congestion::Instant;

impl<T: TcpTypes> Connection<T> {
    /// The text, and the FIN, of a SYN are kept until the handshake is complete; the SYN-ACK does
    /// not acknowledge them, and the peer may send them again. No more than a segment is kept.
    pub(crate) fn queue_syn_text(&mut self, syn: &TcpHeader, text: Text<'_, T>) {
        let room = u64::from(self.config.mss).min(self.syn_text_room());
        let kept = text.len().min(room as usize);
        let whole = kept == text.len();
        self.handshake.peer_fin = whole && syn.flags.contains(Flags::FIN);
        self.handshake.text = kept as u16;
        if kept > 0 {
            self.recv_buf.write(0, text.slice(0..kept));
        }
    }

    /// Bytes of text that there is memory for.
    pub(in crate::conn) fn syn_text_room(&self) -> u64 {
        let buffer = self.config.buffers.recv as u64;
        self.recv_buf.room().unwrap_or(buffer).min(buffer)
    }

    /// A segment in SYN-RECEIVED: the handshake is complete if it acknowledges our SYN.
    #[cold]
    pub(super) fn on_segment_syn_received(
        &mut self,
        heard: Heard<'_>,
        tcp: &TcpHeader,
        text: Text<'_, T>,
    ) {
        let Heard { now, ecn, .. } = heard;
        // Simultaneous open: the SYN has been seen, the rest of the peer's SYN-ACK has not
        // (RFC 9293 section 3.5, figure 8).
        if self.state == State::SynReceived(Origin::Active)
            && tcp.flags.contains(Flags::SYN | Flags::ACK)
            && !tcp.flags.contains(Flags::RST)
            && tcp.seq == self.irs
        {
            let rest = self.without_syn(tcp);
            self.on_segment(now, ecn, &rest, &PlainHeader::of(&rest), text);
            self.ack.force();
            return;
        }
        let Some(seg) = self.admit(now, heard.tcp, text.len()) else {
            return;
        };
        if !self.acknowledges_syn(tcp.ack) {
            self.exceptions.change().unacceptable_in += 1;
            self.rare.reset_due = Some(tcp.ack);
            return;
        }
        self.timers.stop(Timer::Handshake);
        self.handshake.due = false;
        self.on_syn_acknowledged(tcp, now);
        self.establish(tcp, now);
        if !self.handshake.peer_fin
            && seg.start == 0
            && seg.text_len >= usize::from(self.handshake.text)
        {
            // All of it has come again.
            self.handshake.text = 0;
        }
        let queued = self.deliver_syn_text(now);
        self.forget_handshake();
        if matches!(self.state, State::Closed(_)) {
            return;
        }
        self.on_acknowledged(heard, &seg, text);
        if queued > 0 && seg.start < queued as i64 && seg.text_len > 0 {
            // It was not acknowledged: sending it again was right, and is not worth a report.
            self.ooo.forget_dsack();
        }
    }

    /// What came with the SYN is the user's now. How many bytes.
    fn deliver_syn_text(&mut self, now: Instant) -> u64 {
        let offered = self.offered.right_edge();
        let kept = u64::from(std::mem::take(&mut self.handshake.text));
        let text = kept.min(offered);
        if std::mem::take(&mut self.handshake.peer_fin) && text == kept {
            self.peer_fin = Sparse::some(text);
            self.ack.force();
        }
        if text > 0 {
            self.rcv_nxt = text;
            self.ack.force();
            self.on_new_text(text, now);
        }
        text
    }
}
