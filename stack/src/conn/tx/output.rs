//! What leaves next: RST, SYN, retransmissions, new data, probes, acknowledgements.

use super::silly_window::{LONGEST_HOLD, Next};
use crate::buffer::SendBuffer;
use crate::conn::mtu_probing::NextProbe;
use crate::conn::state::State;
use crate::conn::timers::Timer;
use crate::conn::timestamps::echo_only;
use crate::conn::{Connection, TcpTypes, tracer};
use crate::recovery::{AbsSeq, NextSegment, SentSegment};
use crate::trace::TraceEvent;
use crate::wire::{Beside, Flags, PlainHeader, PlainSegment, Seq, TcpHeader};
use core::ops::ControlFlow::{self, Break, Continue};
use core::ops::Range;
use narrows_congestion::hint::cold_path;
use narrows_congestion::{ByteCount, CongestionControl, Duration, Instant};

/// A segment to send; `payload` is a range of stream offsets.
///
/// It is written where its reader has it, field by field: a processor that copies what it has just
/// written in smaller pieces waits until all its earlier writes are in the cache.
#[derive(Default)]
pub(crate) struct Output {
    /// But for what all packets of the connection have.
    pub(in crate::conn) plain: PlainSegment,
    pub(crate) payload: Range<u64>,
    /// What there is no place for in `plain`.
    pub(in crate::conn) beside: Beside,
}

impl Output {
    /// The header, whatever is in it.
    #[inline]
    pub(crate) fn header(&mut self) -> TcpHeader {
        self.plain.tcp.with(std::mem::take(&mut self.beside))
    }
    /// Bytes of payload.
    pub(crate) fn payload_len(&self) -> u64 {
        self.payload.end - self.payload.start
    }
}

/// New data that may leave as a segment.
#[derive(Clone, Copy)]
pub(super) struct NewData {
    pub(super) len: u64,
    /// The FIN goes with it.
    pub(super) fin: bool,
    /// It is all that is queued.
    pub(super) drains: bool,
    /// So much of what is queued behind it the window admits, too.
    pub(super) left: u64,
}

/// There is a segment in the [`Output`], which otherwise is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Emitted {
    /// Another may follow.
    MoreMayFollow,
    /// Nothing follows, until something happens to the connection.
    Last,
}

impl<T: TcpTypes> Connection<T> {
    /// Writes the next segment, if there is one, into `out`, which is blank.
    #[inline(always)]
    pub(crate) fn output(&mut self, now: Instant, out: &mut Output) -> Option<Emitted> {
        self.fills_window = false;
        if self.has_rare_output()
            && let Break(made) = self.before_data(now, out)
        {
            return made;
        }
        let data = if self.rests() {
            None
        } else {
            self.data(now, out)
        };
        let made = match data {
            Some(made) => made,
            None if std::mem::take(&mut self.probe_keepalive) => {
                cold_path();
                self.begin_ack(now, out);
                // RFC 9293 section 3.8.4: a sequence number the peer has had.
                out.plain.tcp.seq = out.plain.tcp.seq - 1;
                Emitted::MoreMayFollow
            }
            None if self.owes_ack() => {
                self.begin_ack(now, out);
                self.behind_ack()
            }
            None => {
                self.trace_held(now);
                return None;
            }
        };
        self.complete(now, out);
        Some(made)
    }

    /// What [`output`](Self::output) made last has left, and nothing was done since: as if it had
    /// been asked once more, it has nothing.
    #[inline]
    pub(crate) fn on_last_sent(&mut self, now: Instant) {
        if std::mem::take(&mut self.fills_window) {
            self.snd.on_cwnd_limited();
        }
        self.trace_held(now);
    }

    /// RST, SYN, and acknowledgements that go ahead of data. What leaves, if anything, where no data
    /// does.
    #[inline(never)]
    fn before_data(&mut self, now: Instant, out: &mut Output) -> ControlFlow<Option<Emitted>> {
        if let Some(seq) = self.rare.changed().and_then(|rare| rare.reset_due.take()) {
            cold_path();
            self.reset(seq, now, out);
            return Break(Some(Emitted::MoreMayFollow));
        }
        match self.state {
            State::Closed(_) => return Break(None),
            State::SynSent | State::SynReceived(_) if self.handshake.due => {
                let (ecn, mut tcp) = self.syn_header(now);
                out.plain.ecn = ecn;
                self.ride_on_syn(&mut tcp, &mut out.payload);
                let (plain, rare) = PlainHeader::split(tcp);
                (out.plain.tcp, out.beside) = (plain, Beside::Rare(rare));
                return Break(Some(Emitted::MoreMayFollow));
            }
            State::SynSent => return Break(None),
            State::SynReceived(_) if !self.is_early() => {
                return Break(self.owes_ack().then(|| {
                    self.pure_ack(now, out);
                    Emitted::MoreMayFollow
                }));
            }
            _ => {}
        }
        if let Some(past) = self.ack.take_past() {
            cold_path();
            let was_due = self.ack.is_due();
            self.pure_ack(now, out);
            out.plain.tcp.ack = self.rcv_seq(past.rcv_nxt);
            // The window counts from the older acknowledgement: the right edge stays where it is.
            out.plain.tcp.window = self.window_field(past.rcv_nxt, now);
            out.plain.tcp.flags =
                out.plain.tcp.flags.without(Flags::ECE) | Flags::ECE.when(past.ece);
            if past.settles {
                self.ack.on_settled();
            } else if was_due {
                self.ack.force();
            }
            return Break(Some(Emitted::MoreMayFollow));
        }
        // SACK blocks would not fit beside a full segment: they go ahead on their own.
        if self.ack.is_due() && self.sack && self.ooo.has_disorder() {
            self.pure_ack(now, out);
            let more = self.probe_keepalive || !self.rests();
            return Break(Some(match more {
                true => Emitted::MoreMayFollow,
                false => Emitted::Last,
            }));
        }
        Continue(())
    }

    /// Begins the next segment with data or FIN.
    #[inline(always)] // One place asks.
    fn data(&mut self, now: Instant, out: &mut Output) -> Option<Emitted> {
        let plain = self.is_plain(now);
        let (new, allowance) = match plain {
            true => (self.new_data(now)?, self.snd.plain_allowance()),
            false => match self.rare_data(now, out) {
                Continue(allowed) => allowed,
                Break(made) => return made,
            },
        };
        // Never a shorter segment because of the congestion window.
        if allowance.get() < new.len {
            cold_path();
            self.snd.on_cwnd_limited();
            return None;
        }
        if self.snd.is_idle() {
            cold_path();
            self.after_idle(now);
        }
        self.begin_new(new, now, out);
        self.mark_urgent(out);
        if plain {
            return Some(self.behind_plain(new.left, allowance));
        }
        if new.len > self.snd.mss().get() {
            cold_path();
            self.snd.on_mtu_probe(out.payload.start + 1);
        }
        Some(Emitted::MoreMayFollow)
    }

    /// The new data that may leave where more than the windows has a say, and how much congestion control
    /// admits. Otherwise what leaves in its place is begun.
    #[inline(never)]
    fn rare_data(
        &mut self,
        now: Instant,
        out: &mut Output,
    ) -> ControlFlow<Option<Emitted>, (NewData, ByteCount)> {
        loop {
            let new = self.new_data(now);
            match (self.snd.next_segment(now, new.is_some()), new) {
                (NextSegment::Retransmit(segment), _) => {
                    let segment = self.snd.fit(segment);
                    self.begin_again(&segment, now, out);
                    return Break(Some(Emitted::MoreMayFollow));
                }
                (NextSegment::New { allowance }, Some(mut new)) => {
                    if new.len <= allowance.get() && self.path_mtu.is_searched() {
                        match self.mtu_probe(new.len, allowance, now) {
                            NextProbe::None => {}
                            NextProbe::Payload(longer) => new.len = longer,
                            NextProbe::Wait => return Continue((new, ByteCount::ZERO)),
                        }
                    }
                    return Continue((new, allowance));
                }
                (NextSegment::Wait(at), _) => {
                    cold_path();
                    self.rare.pace_at = Some(at);
                    return Break(None);
                }
                (NextSegment::Blocked, Some(_))
                    if self.snd.may_lack_records() && self.has_more_records() => {}
                (NextSegment::Blocked, None) if self.snd.nxt() == self.send_buf.end() + 1 => {
                    self.snd.on_app_limited();
                    if self.snd.validates_window() {
                        let offered = ByteCount::new(self.window.max_wnd());
                        self.snd.validate_empty_queue(offered, now);
                    }
                    return Break(None);
                }
                _ => return Break(None),
            }
        }
    }

    /// The new data that would leave as the next segment.
    #[inline(always)]
    pub(super) fn new_data(&mut self, now: Instant) -> Option<NewData> {
        let Some(queued) = (self.send_buf.end() + 1).checked_sub(self.snd.nxt()) else {
            cold_path();
            self.probe_window = false;
            return None;
        };
        let mss = self.snd.mss().get();
        let usable = self.usable();
        let mut len = queued.min(usable).min(mss);
        if len == 0 && queued > 0 {
            cold_path();
            if !self.probe_window {
                if self.snd.is_idle() {
                    self.arm_persist(Duration::ZERO, now);
                }
                return None;
            }
            // RFC 9293 section 3.8.6.1: at least one octet into the closed window.
            len = 1;
        }
        let drains = len == queued;
        let fin = drains && self.fin_queued;
        if len == 0 && !fin {
            cold_path();
            self.probe_window = false;
            return None;
        }
        let new = NewData {
            len,
            fin,
            drains,
            left: queued.min(usable).saturating_sub(len),
        };
        // Nothing more is asked of a full one.
        if len >= mss {
            return Some(new);
        }
        cold_path();
        if self.is_worth_a_segment(new) {
            return Some(new);
        }
        if self.snd.is_idle() {
            let least = if self.hold.by_user() && drains {
                LONGEST_HOLD
            } else {
                Duration::ZERO
            };
            self.arm_persist(least, now);
        }
        None
    }

    /// Whether it may leave.
    #[inline]
    fn is_worth_a_segment(&self, new: NewData) -> bool {
        let NewData { len, drains, .. } = new;
        let nxt = self.snd.nxt();
        self.hold.lets_leave(Next {
            len,
            mss: self.snd.mss().get(),
            drains,
            urgent: new.fin
                || self.rare.snd_up.get().is_some_and(|up| nxt < up)
                || (self.hold.by_user()
                    && self.rare.pushed_to.get().is_some_and(|to| nxt + len <= to)),
            idle: self.snd.is_idle(),
            max_wnd: self.window.max_wnd(),
            overdue: self.probe_window,
        })
    }

    /// Data waits for the peer's window, or for the user, and nothing outstanding will ask for it
    /// (RFC 9293 section 3.8.6.1).
    fn arm_persist(&mut self, least: Duration, now: Instant) {
        let wait = self.snd.current_rto().max(least);
        self.timers.arm_if_idle(Timer::Persist, now + wait);
    }

    /// Begins a segment that was `sent` before.
    fn begin_again(&mut self, sent: &SentSegment, now: Instant, out: &mut Output) {
        let tsval = self.ts.in_use.then(|| self.ts.clock(now));
        self.snd.on_retransmit(sent.start, now, tsval);
        let stream_end = self.send_buf.end() + 1;
        let data_end = sent.end.min(stream_end);
        let drains = data_end == stream_end && data_end > sent.start;
        out.plain.tcp.seq = self.seq(sent.start);
        out.plain.tcp.flags = Flags::ACK
            | Flags::FIN.when(sent.end > stream_end)
            | Flags::PSH.when(drains && self.hold.pushes());
        out.plain.ecn = self.ecn.codepoint(false);
        out.payload = sent.start - 1..data_end - 1;
        self.mark_urgent(out);
        tracer(&mut self.trace, now)(TraceEvent::Retransmit {
            offset: sent.start - 1,
            bytes: ByteCount::new(data_end - sent.start),
        });
    }

    fn reset(&mut self, seq: Seq, now: Instant, out: &mut Output) {
        out.plain.ecn = self.ecn.codepoint(false);
        out.payload = self.nothing();
        out.plain.tcp.src_port = self.ends.local_port;
        out.plain.tcp.dst_port = self.ends.remote_port;
        out.plain.tcp.seq = seq;
        out.plain.tcp.flags = Flags::RST;
        // The answer to an unacceptable ACK in SYN-SENT and SYN-RECEIVED takes its sequence number
        // from it and says no more. When we end the connection ourselves the peer may be in
        // SYN-SENT, where only an ACK makes a RST believable.
        if matches!(self.state, State::Closed(_)) {
            out.plain.tcp.flags |= Flags::ACK;
            out.plain.tcp.ack = self.rcv_nxt_seq();
        }
        // RFC 7323 sections 3.2 and 5.2: once agreed; before, an echo of what it answers.
        let refused = (self.handshake.changed()).and_then(|h| h.refused_tsval.take());
        out.plain.tcp.timestamps = match self.ts.in_use {
            true => Some(self.ts.option(now)),
            false => refused.map(echo_only),
        };
    }

    /// RFC 5681 section 4.1: no burst after an idle period longer than the RTO; or what the
    /// configuration has in its place.
    #[inline(never)] // Once a pause.
    pub(super) fn after_idle(&mut self, now: Instant) {
        let last = self.snd.last_sent_at();
        if last == Instant::ZERO {
            return;
        }
        let (idle, rto) = (now.since(last), self.snd.current_rto());
        // No rule of `IdleRestart::window` asks for less than an RTO.
        if idle < rto && !self.snd.validates_window() {
            return;
        }
        let cwnd = self.snd.congestion().cwnd();
        let restart = self.initial_window(self.snd.mss()).min(cwnd);
        let offered = ByteCount::new(self.window.max_wnd());
        let restart = (self.config.idle_restart).window(cwnd, offered, restart, idle, rto);
        if restart.is_some() || self.snd.validates_window() {
            self.snd.before_idle_send(idle, restart, now);
        }
        // An algorithm may keep its window.
        if self.snd.congestion().cwnd() < cwnd {
            tracer(&mut self.trace, now)(TraceEvent::IdleRestart { idle });
        }
    }

    /// Restart the keepalive timer (RFC 9293 section 3.8.4).
    #[inline]
    pub(in crate::conn) fn arm_keepalive(&mut self, now: Instant) {
        if let Some(keepalive) = &self.config.lifetimes.keepalive {
            cold_path();
            if self.state.is_synchronized() && self.state != State::TimeWait {
                self.timers.arm(Timer::Keepalive, now + keepalive.idle);
            }
        }
    }

    /// The packet with this header never left.
    pub(in crate::conn) fn undo_transmit(
        &mut self,
        now: Instant,
        tcp: &TcpHeader,
        payload_len: usize,
        congestion: bool,
    ) {
        if tcp.flags.contains(Flags::RST) {
            self.rare.reset_due = Some(tcp.seq);
            return;
        }
        if matches!(self.state, State::Closed(_)) {
            return;
        }
        if tcp.flags.contains(Flags::SYN) {
            self.handshake.due = true;
            // Of several it is not known which is answered.
            if self.handshake.transmissions == 1 {
                self.handshake.transmissions = 0;
            }
            return;
        }
        if tcp.flags.contains(Flags::CWR) {
            self.snd.owe_cwr();
        }
        if payload_len == 0 && !tcp.flags.contains(Flags::FIN) {
            match tcp.seq + 1 == self.seq(self.snd.nxt()) {
                true => self.probe_keepalive = true,
                // It was there to acknowledge, or to answer.
                false => self.ack.force(),
            }
            return;
        }
        let back = (self.seq(self.snd.nxt())).since(tcp.seq);
        if let Some(start) = self.snd.nxt().checked_sub(u64::from(back)) {
            // A burst is many segments: the last of them goes back first.
            let mut mss = self.snd.mss().get();
            if self.snd.mtu_probe_at(start).is_some() {
                mss = mss.max(payload_len as u64);
                self.exceptions.change().mtu_probes -= 1;
                self.snd.forget_mtu_probe();
            }
            let segments = (payload_len as u64).div_ceil(mss).max(1);
            for k in (0..segments).rev() {
                self.snd.on_local_drop(start + k * mss, congestion, now);
            }
        }
        self.ack.on_unsent();
    }

    /// The sequence number on the wire of an absolute one.
    pub(in crate::conn) fn seq(&self, abs: AbsSeq) -> Seq {
        self.iss + abs as u32
    }
}
