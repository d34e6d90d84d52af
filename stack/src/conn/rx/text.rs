//! Segment text, and the peer's FIN (RFC 9293 section 3.10.7.4, seventh and eighth).

use super::check::Placed;
use crate::buffer::{Payload, RecvBuffer};
use crate::conn::ecn::MarkEffect;
use crate::conn::reassembly::Inserted;
use crate::conn::state::State;
use crate::conn::timers::Timer;
use crate::conn::user::Kind as EventKind;
use crate::conn::{Connection, TcpTypes, Text};
use crate::memory::Need;
use crate::sparse::Sparse;
use crate::wire::{Ecn, Flags};
use narrows_congestion::hint::cold_path;
use narrows_congestion::{ByteCount, Instant};

impl<T: TcpTypes> Connection<T> {
    /// Take the text of an acceptable segment, whose mark has been heeded.
    pub(super) fn on_text(&mut self, now: Instant, seg: &Placed, text: Text<'_, T>) {
        // What lies before the first byte of the stream (a SYN's place) has no offset.
        let skip = usize::try_from(-seg.start).unwrap_or(0).min(seg.text_len);
        let start = (seg.start + skip as i64) as u64;
        let mut end = start + (seg.text_len - skip) as u64;
        let before = self.rcv_nxt;
        let kept = self.room_for_text(start, end);
        if kept < end {
            if start <= before {
                // What was offered beyond cannot be taken: RFC 9293 section 3.8.6 calls that
                // "shrinking the window".
                self.offered.right_edge = self.offered.right_edge.min(kept.max(before));
            }
            if kept <= start.max(before) {
                return;
            }
            end = kept;
        }
        let buf = &mut self.recv_buf;
        let most = self.config.buffers.out_of_order_ranges();
        let outcome = self.ooo.insert(start..end, before, most, |new| {
            let from = skip + (new.start - start) as usize;
            buf.write(
                new.start,
                text.slice(from..from + (new.end - new.start) as usize),
            );
        });
        match outcome {
            Inserted::InOrder { rcv_nxt } => {
                self.rcv_nxt = rcv_nxt;
                self.owe_ack(rcv_nxt - before, now);
            }
            Inserted::FilledGap { rcv_nxt } => {
                self.rcv_nxt = rcv_nxt;
                self.recharge();
                self.ack.force();
            }
            Inserted::Empty => {}
            disorder => {
                let counts = self.exceptions.change();
                match disorder {
                    Inserted::Duplicate => counts.duplicates_in += 1,
                    Inserted::TooManyRanges => counts.out_of_order_dropped += 1,
                    _ => counts.out_of_order_in += 1,
                }
                self.recharge();
                self.ack.on_disorder(&self.config.ack, now);
            }
        }
        let new = self.rcv_nxt - before;
        if new > 0 {
            self.on_new_text(new, now);
        }
    }

    /// The mark of arriving data asks something of the acknowledgements.
    #[cold]
    fn on_mark(&mut self, effect: MarkEffect) {
        match effect {
            MarkEffect::None => {}
            MarkEffect::Flip { before } => self.ack.on_mark_flip(self.rcv_nxt, before),
            MarkEffect::AckNow => self.ack.force(),
            MarkEffect::Special { flip } => {
                (self.ack).on_special(self.rcv_nxt, flip, self.traffic.pure_acks);
            }
        }
    }

    /// The text begins at RCV.NXT and is within the window, and there is no gap.
    #[inline(always)] // A step of one.
    pub(super) fn on_next_text(&mut self, now: Instant, ecn: Ecn, flags: Flags, text: Text<'_, T>) {
        let (before, text_len) = (self.rcv_nxt, text.len());
        let end = before + text_len as u64;
        self.heed_mark(ecn, flags);
        if self.recv_buf.afford(end, Need::Owed) < end {
            cold_path();
            let seg = Placed {
                start: before as i64,
                text_len,
                fin: false,
            };
            return self.on_text(now, &seg, text);
        }
        self.recv_buf.write(before, text);
        self.rcv_nxt = end;
        self.owe_ack(end - before, now);
        self.on_new_text(end - before, now);
    }

    /// Congestion Experienced, and what the peer says of it, on a segment with text.
    #[inline]
    pub(super) fn heed_mark(&mut self, ecn: Ecn, flags: Flags) {
        if ecn == Ecn::Ce {
            self.exceptions.change().ce_in += 1;
        }
        match self.ecn.on_data(ecn, flags) {
            MarkEffect::None => {}
            effect => self.on_mark(effect),
        }
    }

    /// `new` bytes came in order: they are acknowledged now or later.
    #[inline]
    fn owe_ack(&mut self, new: u64, now: Instant) {
        let mss = u64::from(self.config.mss.max(1));
        let segments = match new <= mss {
            true => 1,
            false => {
                cold_path();
                u32::try_from(new.div_ceil(mss)).unwrap_or(u32::MAX)
            }
        };
        let new = ByteCount::new(new);
        if let Some(delay) = self.ack.on_data(&self.config.ack, new, segments, now) {
            self.timers.arm_if_idle(Timer::DelayedAck, now + delay);
        }
    }

    /// RCV.NXT has moved over `new` bytes.
    #[inline]
    pub(in crate::conn) fn on_new_text(&mut self, new: u64, now: Instant) {
        if self.orphan {
            cold_path();
            // RFC 9293 SHLD-3: nobody will read it.
            self.abort(now);
            return;
        }
        self.offered.on_data(new, now);
        self.events.set(EventKind::Readable);
    }

    /// The segment carries a FIN, or one came earlier beyond a gap that may be filled now.
    pub(super) fn on_fin(&mut self, now: Instant, seg: &Placed) {
        if self.fin_received {
            if seg.fin {
                self.ack.force();
            }
            return;
        }
        if seg.fin
            && let Ok(at) = u64::try_from(seg.start + seg.text_len as i64)
        {
            // A FIN that contradicts an earlier one, or data already received, is not believed.
            let last = self.ooo.ranges().next_back();
            let beyond = last.is_some_and(|held| held.end > at);
            if self.peer_fin.is_none() && at >= self.rcv_nxt && !beyond {
                self.peer_fin = Sparse::some(at);
            }
            self.ack.force();
        }
        if self.peer_fin != Sparse::some(self.rcv_nxt) {
            return;
        }
        self.fin_received = true;
        self.ooo.clear();
        self.events.set(EventKind::PeerClosed);
        self.ack.force();
        match self.state {
            State::Established => self.set_state(State::CloseWait, now),
            State::FinWait1 => self.set_state(State::Closing, now),
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }
}
