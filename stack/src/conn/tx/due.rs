//! Whether something is to leave, and whether more may follow.

use super::Emitted;
use crate::buffer::SendBuffer;
use crate::conn::state::State;
use crate::conn::{Connection, TcpTypes, tracer};
use crate::trace::{Held, TraceEvent};
use narrows_congestion::{ByteCount, CongestionControl, Instant};

impl<T: TcpTypes> Connection<T> {
    /// Something may leave before data does, or data may not leave at all.
    #[inline(always)]
    pub(super) fn has_rare_output(&self) -> bool {
        self.state != State::Established
            || (self.rare.as_changed()).is_some_and(|rare| rare.reset_due.is_some())
            || self.ack.has_past()
            || self.ooo.has_disorder()
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

    /// Nothing but the windows and what there is to send says when new data leaves.
    #[inline(always)]
    pub(super) fn is_plain(&self, now: Instant) -> bool {
        !self.fin_queued
            && !self.probe_window
            && !self.path_mtu.is_searched()
            && self.snd.is_plain(now)
    }

    /// What follows new data that left where all [was plain](Self::is_plain): of what is queued the peer's
    /// window admits `left` bytes more, and congestion control let out `room`.
    #[inline(always)]
    pub(super) fn behind_plain(&mut self, left: u64, room: ByteCount) -> Emitted {
        let mss = self.snd.mss().get();
        self.fills_window = left >= mss
            && self.snd.plain_allowance_after_one(room).get() < mss
            && self.snd.scoreboard().len() < self.snd.record_limit()
            // The first of a pace: when the next may leave is to be asked for.
            && !self.snd.has_pace();
        match (left == 0 || self.fills_window) && !self.probe_keepalive {
            true => Emitted::Last,
            false => Emitted::MoreMayFollow,
        }
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
