//! What is to leave next, where nothing is amiss: new data, or an acknowledgement.

use super::Emitted;
use super::segment::Begun;
use crate::buffer::SendBuffer;
use crate::conn::state::State;
use crate::conn::{Connection, Rare, TcpTypes, tracer};
use crate::trace::{Held, TraceEvent};
use narrows_congestion::hint::cold_path;
use narrows_congestion::{ByteCount, CongestionControl, Instant};

/// What is to leave.
pub(super) enum Due {
    Nothing,
    /// A segment as most are.
    Plain(Begun, Emitted),
    /// What [`Connection::rare_output`] gives.
    Rare,
}

impl<T: TcpTypes> Connection<T> {
    /// What is to leave next.
    #[inline(always)]
    pub(super) fn due(&mut self, now: Instant) -> Due {
        self.fills_window = false;
        match self.data_due(now) {
            Due::Nothing if self.owes_ack() => Due::Plain(self.begin_ack(), self.behind_ack()),
            Due::Nothing => {
                self.trace_held(now);
                Due::Nothing
            }
            due => due,
        }
    }

    /// Something besides data and an acknowledgement has a say in what leaves.
    #[inline(always)]
    pub(super) fn has_rare_output(&self) -> bool {
        let rare = |rare: &Rare| rare.reset_due.is_some() || rare.snd_up.is_some();
        self.state != State::Established
            || self.rare.as_changed().is_some_and(rare)
            || self.ack.has_past()
            || self.probe_keepalive
    }

    /// An acknowledgement is to leave, though no data does.
    #[inline]
    pub(super) fn owes_ack(&self) -> bool {
        self.ack.is_due() || self.challenge_due
    }

    /// What follows an acknowledgement that left since no data did: that it has left changes nothing.
    #[inline]
    pub(super) fn behind_ack(&self) -> Emitted {
        match self.snd.validates_window() {
            true => Emitted::MoreMayFollow,
            false => Emitted::Last,
        }
    }

    /// All has been sent, nothing of it is to leave again, and nothing is to be noted of that.
    #[inline]
    pub(super) fn rests(&self) -> bool {
        self.snd.nxt() == self.send_buf.end() + 1
            && !self.fin_queued
            && !self.probe_window
            && self.snd.rests()
    }

    /// The next segment with data where nothing is amiss, and nothing but the windows and what there
    /// is to send says what leaves.
    #[inline(always)]
    fn data_due(&mut self, now: Instant) -> Due {
        if self.has_rare_output() || self.ooo.has_disorder() {
            return Due::Rare;
        }
        if self.rests() {
            return Due::Nothing;
        }
        if self.fin_queued
            || self.probe_window
            || self.path_mtu.is_searched()
            || !self.snd.is_plain(now)
        {
            return Due::Rare;
        }
        let mss = self.snd.mss().get();
        let queued = self.send_buf.end() + 1 - self.snd.nxt();
        let usable = self.usable();
        let len = queued.min(usable).min(mss);
        let idle = self.snd.is_idle();
        if len == 0 && (queued == 0 || !idle) {
            return Due::Nothing;
        }
        // A closed window is the persist timer's.
        if len == 0 || (len < mss && !self.is_worth_a_segment(len, len == queued, false)) {
            return Due::Rare;
        }
        if idle {
            cold_path();
            self.after_idle(now);
        }
        let room = self.snd.plain_allowance();
        if room.get() < len {
            cold_path();
            self.snd.on_cwnd_limited();
            return Due::Nothing;
        }
        let begun = self.new_segment(len, false, false, now);
        let (queued, usable) = (queued - len, usable - len);
        if queued == 0 || usable == 0 {
            return Due::Plain(begun, Emitted::Last);
        }
        if queued.min(usable) >= mss
            && self.snd.plain_allowance_after_one(room).get() < mss
            && self.snd.scoreboard().len() < self.snd.record_limit()
            // The first of a pace: when the next may leave is to be asked for.
            && !self.snd.has_pace()
        {
            self.fills_window = true;
            return Due::Plain(begun, Emitted::Last);
        }
        Due::Plain(begun, Emitted::MoreMayFollow)
    }

    /// How much more the peer's window has room for.
    #[inline]
    pub(in crate::conn) fn usable(&self) -> u64 {
        let edge = self.snd.una() + self.window.wnd();
        edge.saturating_sub(self.snd.nxt())
    }

    /// Tells why nothing leaves, if anybody wants to know.
    #[inline]
    pub(super) fn trace_held(&mut self, now: Instant) {
        if self.trace.as_ref().is_some_and(|sink| sink.wants_held()) {
            self.trace_what_holds(now);
        }
    }

    #[cold]
    fn trace_what_holds(&mut self, now: Instant) {
        let queued = (self.send_buf.end() + 1).saturating_sub(self.snd.nxt());
        let usable = self.usable();
        let mss = self.snd.mss().get();
        // A full segment is always worth sending.
        let small = queued < mss;
        let with_next = self.snd.scoreboard().pipe() + ByteCount::new(queued.min(mss));
        // Whether a window that counts packets would have room for more if it counted bytes.
        let packets = self.snd.counts_packets() && with_next <= self.snd.congestion().cwnd();
        let held = match () {
            () if queued == 0 && self.snd.is_idle() => Held::Idle,
            () if queued == 0 => Held::Sent,
            () if usable < queued.min(mss) => Held::ReceiveWindow,
            () if small && self.new_data(now).is_none() => Held::Nagle,
            () if packets => Held::PacketWindow,
            () => Held::CongestionWindow,
        };
        tracer(&mut self.trace, now)(TraceEvent::Held(held));
    }
}
