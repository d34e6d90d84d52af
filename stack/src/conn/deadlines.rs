//! What becomes due with time: the deadlines of a connection, and what is done when one has passed.

use super::icmp::SoftError;
use super::state::{CloseReason, State};
use super::timers::Timer;
use super::{Connection, TcpTypes, tracer};
use crate::trace::TraceEvent;
use narrows_congestion::Instant;
use narrows_congestion::hint::cold_path;

impl<T: TcpTypes> Connection<T> {
    /// A timer is due; see [`poll_timeout`](Self::poll_timeout). Calling early does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.snd.ask_for_the_rest();
        if self.pace_at().is_some_and(|at| at <= now) {
            self.rare.clear(|rare| &mut rare.pace_at);
        }
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Handshake => self.on_handshake_timeout(now),
                Timer::DelayedAck => {
                    self.ack.force();
                    tracer(&mut self.trace, now)(TraceEvent::DelayedAck);
                }
                Timer::Persist => self.probe_window = true,
                Timer::Keepalive => self.on_keepalive(now),
                Timer::User => self.give_up(CloseReason::UserTimeout, now),
                Timer::Linger if matches!(self.state, State::FinWait2 | State::TimeWait) => {
                    self.finish(CloseReason::Finished, now);
                }
                Timer::Linger => self.give_up(CloseReason::TimedOut, now),
                Timer::Trim => self.trim(now),
            }
        }
        match self.state {
            State::Closed(_) | State::TimeWait => return,
            // Until the SYN-ACK is answered its timer speaks for what was sent after it.
            State::SynReceived(_) => return self.snd.postpone_timers(now),
            _ => {}
        }
        if self.snd.reorder_deadline().is_some_and(|at| at <= now) {
            let trace = &mut tracer(&mut self.trace, now);
            self.snd.on_reorder_timeout(now, trace);
        }
        if self.timers.is_past(self.snd.pto_deadline(), now) {
            let new_data = self.can_send_new(self.snd.una());
            let trace = &mut tracer(&mut self.trace, now);
            self.snd.on_pto(new_data, now, trace);
        }
        self.settle_mtu_probe(now);
        if self.timers.is_past(self.snd.rto_deadline(), now) {
            let closed = self.window_refuses_the_first();
            let trace = &mut tracer(&mut self.trace, now);
            self.snd.on_rto(now, closed, trace);
        }
        self.look_for_progress(now);
    }

    /// If the first segment was sent in vain once more: a path that lets nothing that big pass is
    /// believed in, the user hears of it at R1, and at R2 it is over (RFC 9293 section 3.8.3).
    #[inline]
    pub(super) fn look_for_progress(&mut self, now: Instant) {
        let more = u32::from(self.snd.take_sent_in_vain());
        if more > 0 {
            self.lose_patience(more, now);
        }
    }

    #[cold]
    fn lose_patience(&mut self, more: u32, now: Instant) {
        let limits = self.config.lifetimes;
        if (self.snd).is_hopeless(limits.data_retries, limits.data_retry_time, now) {
            self.finish(CloseReason::TimedOut, now);
            return;
        }
        self.settle_path_mtu(now);
        let (fruitless, r1) = (self.snd.fruitless(), limits.retries_before_report);
        if fruitless >= r1 {
            self.suspect_black_hole(now);
        }
        let before = fruitless.saturating_sub(more);
        if before < r1 && r1 <= fruitless {
            self.report(SoftError::Retransmitting);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if matches!(self.state, State::Closed(_)) {
            return None;
        }
        let on_tick = |at: Option<Instant>| at.map_or(Instant::MAX, |at| self.timers.on_tick(at));
        let next = (self.timers.next)
            .min(on_tick(self.snd.rto_deadline()))
            .min(on_tick(self.snd.pto_deadline()))
            .min(self.snd.reorder_deadline().unwrap_or(Instant::MAX))
            .min(self.pace_at().unwrap_or(Instant::MAX));
        (next != Instant::MAX).then_some(next)
    }

    /// When the next segment may leave that is paced, if one waits.
    #[inline]
    pub(super) fn pace_at(&self) -> Option<Instant> {
        self.rare.as_changed()?.pace_at
    }

    /// A connection that the user has let go of does not wait for its peer for ever. Half-closed
    /// by a user who reads on, it may.
    #[inline]
    pub(super) fn limit_orphan(&mut self, now: Instant) {
        if !self.orphan {
            return;
        }
        cold_path();
        let limit = match self.state {
            State::FinWait1 | State::Closing | State::LastAck => self.config.lifetimes.orphan_stall,
            State::FinWait2 => self.config.lifetimes.fin_wait_2,
            _ => return,
        };
        match limit {
            Some(wait) => self.timers.arm(Timer::Linger, now + wait),
            None => self.timers.stop(Timer::Linger),
        }
    }

    fn on_keepalive(&mut self, now: Instant) {
        let Some(keepalive) = self.config.lifetimes.keepalive else {
            return;
        };
        if self.keepalive_sent >= keepalive.probes {
            self.give_up(CloseReason::KeepaliveTimeout, now);
            return;
        }
        // Data in flight probes by itself.
        if self.snd.is_idle() {
            self.keepalive_sent += 1;
            self.probe_keepalive = true;
        }
        self.timers.arm(Timer::Keepalive, now + keepalive.interval);
    }
}
