//! The acknowledgement field (RFC 9293 section 3.10.7.4, fifth; RFC 5961 section 5).

use super::Heard;
use super::check::Placed;
use crate::buffer::SendBuffer;
use crate::conn::state::{CloseReason, State};
use crate::conn::timers::Timer;
use crate::conn::user::Lack;
use crate::conn::{Connection, TcpTypes, tracer};
use crate::recovery::{AbsSeq, AckInput};
use crate::trace::TraceEvent;
use crate::wire::{Flags, PlainHeader, SackBlock, SackBlocks, Seq};
use narrows_congestion::hint::cold_path;
use narrows_congestion::{ByteCount, CongestionControl, Instant};

/// What an acceptable acknowledgement says besides its SACK blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    /// How far SND.UNA moves.
    pub(super) acked: u64,
    /// The segment has text or a FIN, or changes the window: it is no duplicate ACK.
    pub(super) text_or_window: bool,
}

/// What a SACK option says, as absolute sequence numbers.
#[derive(Default)]
struct Sacked {
    blocks: [(AbsSeq, AbsSeq); 4],
    count: usize,
    dsack: Option<(AbsSeq, AbsSeq)>,
}

impl<T: TcpTypes> Connection<T> {
    /// Whether SEG.ACK is acceptable in a synchronised state (RFC 5961 section 5.2):
    /// SND.UNA - MAX.SND.WND <= SEG.ACK <= SND.NXT.
    pub(super) fn accepts_ack(&self, tcp: &PlainHeader) -> bool {
        let distance = i64::from(self.acknowledged_by(tcp) as i32);
        let ahead = self.snd.nxt() - self.snd.una();
        distance <= ahead as i64 && distance >= -(self.window.max_wnd() as i64)
    }

    /// SEG.ACK - SND.UNA on the circle: huge if it is behind.
    #[inline]
    pub(super) fn acknowledged_by(&self, tcp: &PlainHeader) -> u32 {
        tcp.ack.since(self.seq(self.snd.una()))
    }

    /// An acceptable acknowledgement.
    pub(super) fn on_ack(&mut self, heard: Heard<'_>, seg: &Placed) {
        let Heard { now, tcp, sack, .. } = heard;
        let distance = self.acknowledged_by(tcp) as i32;
        let Ok(acked) = u64::try_from(distance) else {
            return self.on_overtaken_ack(now, sack, distance.unsigned_abs());
        };
        let said = self.heed_window(tcp, acked, seg.text_len > 0 || seg.fin);
        self.hear_ack(now, tcp, sack, said);
    }

    /// The window that comes with an acknowledgement of `acked` bytes, in a segment with `text` (or a
    /// FIN) or without.
    #[inline(always)]
    pub(super) fn heed_window(&mut self, tcp: &PlainHeader, acked: u64, text: bool) -> Said {
        let ack = self.snd.una() + acked;
        let window_changed = self.window.update(tcp.window, tcp.seq, ack);
        self.hold.release();
        Said {
            acked,
            text_or_window: text || window_changed,
        }
    }

    /// The rest of [`Self::on_ack`] where it is not of a segment as predicted that moves SND.UNA.
    #[inline(always)]
    pub(super) fn hear_ack(
        &mut self,
        now: Instant,
        tcp: &PlainHeader,
        sack: &SackBlocks,
        said: Said,
    ) {
        let ece = tcp.flags.contains(Flags::ECE) && self.ecn.in_use;
        if ece || !sack.is_empty() || self.snd.is_concerned() {
            self.tell_sender(now, tcp, sack, said);
        }
        self.after_ack(now, said);
    }

    /// The same of a segment as predicted that moves SND.UNA.
    #[inline(never)]
    pub(super) fn on_progress(&mut self, now: Instant, tcp: &PlainHeader, said: Said) {
        let ack = self.snd.una() + said.acked;
        let ece = tcp.flags.contains(Flags::ECE) && self.ecn.in_use;
        if !ece && self.snd.is_clean(ack) {
            let trace = &mut tracer(&mut self.trace, now);
            self.snd.on_clean_ack(ack, now, trace);
        } else {
            self.tell_sender(now, tcp, &SackBlocks::EMPTY, said);
        }
        self.after_ack(now, said);
    }

    /// The sender hears all that the acknowledgement says.
    #[inline(never)]
    fn tell_sender(&mut self, now: Instant, tcp: &PlainHeader, sack: &SackBlocks, said: Said) {
        let acked = said.acked;
        let ack = self.snd.una() + acked;
        let sacked = self.unwrap_sack(sack, ack);
        let tsecr = tcp.timestamps.filter(|_| self.ts.in_use).map(|t| t.ecr);
        let input = AckInput {
            now,
            ack,
            sack: &sacked.blocks[..sacked.count],
            dsack: sacked.dsack,
            // A D-SACK says that the peer had the data before: the ACK that it sent then was lost,
            // and its echo is as old as that.
            timestamp_rtt: tsecr
                .filter(|_| acked > 0 && sacked.dsack.is_none())
                .and_then(|e| self.ts.rtt(e, now)),
            tsecr,
            ece: tcp.flags.contains(Flags::ECE) && self.ecn.in_use,
            exact_ecn: self.ecn.is_exact(),
            // What answers a probe of a window that admits nothing is no duplicate ACK.
            pure: !said.text_or_window && !self.window_refuses_the_first(),
            can_send_new: self.can_send_new(ack),
        };
        self.snd.on_ack(&input, &mut tracer(&mut self.trace, now));
    }

    /// The sender has heard it: what follows for the rest of the connection.
    #[inline(always)]
    fn after_ack(&mut self, now: Instant, said: Said) {
        let told = !self.path_mtu.told.is_as_it_began();
        if told && self.path_mtu.is_searched() {
            cold_path();
            self.settle_mtu_probe(now);
        }
        if said.acked > 0 {
            if self.trace.is_some() {
                cold_path();
                self.trace_window(now);
            }
            let (ack, mss) = (self.snd.una(), self.snd.mss().get());
            self.path_mtu.on_progress(said.acked, ack, mss);
            if told {
                cold_path();
                self.raise_path_mtu(now);
            }
            self.on_acked(ack, now);
        }
        if self.window.wnd() > 0 && !self.snd.is_idle() {
            self.timers.stop(Timer::Persist);
        }
        self.look_for_progress(now);
    }

    /// An acknowledgement that a later one has overtaken, `behind` SND.UNA. Of what it says only
    /// the SACK blocks can be news (RFC 6675 section 5).
    #[cold]
    fn on_overtaken_ack(&mut self, now: Instant, sack: &SackBlocks, behind: u32) {
        let una = self.snd.una();
        let sacked = self.unwrap_sack(sack, una.saturating_sub(behind.into()));
        if sacked.count == 0 && sacked.dsack.is_none() {
            return;
        }
        let input = AckInput {
            now,
            ack: una,
            sack: &sacked.blocks[..sacked.count],
            dsack: sacked.dsack,
            exact_ecn: self.ecn.is_exact(),
            can_send_new: self.can_send_new(una),
            ..AckInput::default()
        };
        self.snd.on_ack(&input, &mut tracer(&mut self.trace, now));
        self.settle_mtu_probe(now);
    }

    /// Whether there is unsent data, or an unsent FIN, that the peer's window admits with SND.UNA at
    /// `una`.
    pub(in crate::conn) fn can_send_new(&self, una: AbsSeq) -> bool {
        let (nxt, end) = (self.snd.nxt(), self.send_buf.end() + 1);
        let data = nxt < end && nxt < una + self.window.wnd();
        data || (self.fin_queued && nxt == end)
    }

    /// SND.UNA moved to `ack`.
    #[inline(always)] // A step of two.
    fn on_acked(&mut self, ack: AbsSeq, now: Instant) {
        let data_end = self.send_buf.end() + 1;
        self.send_buf.release(ack.min(data_end) - 1);
        self.trim_later(now);
        if self.lacks != Lack::Nothing {
            cold_path();
            self.look_for_room();
        }
        self.restart_user_timeout(now);
        self.limit_orphan(now);
        let fin_acked = self.fin_queued && ack > data_end;
        if fin_acked {
            cold_path();
            match self.state {
                State::FinWait1 => self.set_state(State::FinWait2, now),
                State::Closing => self.enter_time_wait(now),
                State::LastAck => self.finish(CloseReason::Finished, now),
                _ => {}
            }
        }
    }

    pub(super) fn enter_time_wait(&mut self, now: Instant) {
        self.timers.stop_all();
        self.snd.stop_timers();
        self.set_state(State::TimeWait, now);
        self.give_back();
        (self.timers).arm(Timer::Linger, now + self.config.lifetimes.time_wait);
    }

    /// The SACK option on the line of absolute sequence numbers: the valid blocks above `ack`, and
    /// not wholly below SND.UNA, and the D-SACK if the first block is one (RFC 2883 section 4). Nothing
    /// where SACK is not in use.
    fn unwrap_sack(&self, sack: &SackBlocks, ack: AbsSeq) -> Sacked {
        let mut sacked = Sacked::default();
        if !self.sack {
            return sacked;
        }
        let una = self.snd.una();
        let una_seq = self.seq(una);
        let place = |seq: Seq| una.checked_add_signed(i64::from(seq.since(una_seq) as i32));
        let place_of = |b: &SackBlock| Some((place(b.start)?, place(b.end)?));
        let raw = sack.as_slice();
        for (i, block) in raw.iter().enumerate() {
            let Some((start, end)) = place_of(block) else {
                continue;
            };
            if start >= end || end > self.snd.nxt() {
                continue;
            }
            if i == 0 {
                let second = raw.get(1).and_then(place_of);
                let within_second = second.is_some_and(|(s, e)| s <= start && end <= e);
                if end <= ack || start < ack || within_second {
                    // A duplicate older than any window is no evidence of anything.
                    if start + self.window.max_wnd() >= una {
                        sacked.dsack = Some((start, end));
                    }
                    continue;
                }
            }
            if start >= ack && end > una {
                sacked.blocks[sacked.count] = (start, end);
                sacked.count += 1;
            }
        }
        sacked
    }

    pub(in crate::conn) fn trace_window(&mut self, now: Instant) {
        let event = TraceEvent::Window {
            cwnd: self.snd.congestion().cwnd(),
            ssthresh: self.snd.congestion().ssthresh(),
            in_flight: self.snd.scoreboard().pipe(),
            snd_wnd: ByteCount::new(self.window.wnd()),
            srtt: self.snd.rtt().srtt(),
            rto: self.snd.current_rto(),
        };
        tracer(&mut self.trace, now)(event);
    }
}
