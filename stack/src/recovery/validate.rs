//! Where a sender has its window validated: when it sends, when ACKs come, and on congestion.

use super::ack::Delivered;
use super::rare::Rare;
use super::sender::Sender;
use super::validation::{Moment, NewCwv, UsedWindow, Validation};
use crate::config::IdleRestart;
use narrows_congestion::{
    AckSample, ByteCount, CongestionControl, CongestionEvent, Duration, Instant, Lower, RtoPolicy,
};

impl<C: CongestionControl, R: RtoPolicy> Sender<C, R> {
    /// Validates the window by `rule` from here on; `initial_window` is IW.
    #[inline(never)] // Once a connection.
    pub fn validate_window(&mut self, rule: IdleRestart, initial_window: ByteCount, now: Instant) {
        let validation = match rule {
            IdleRestart::Keep | IdleRestart::Rfc5681 => None,
            IdleRestart::Rfc2861 => Some(Box::new(Validation::Decay(UsedWindow::new(now)))),
            IdleRestart::Rfc7661 => {
                Some(Box::new(Validation::Preserve(NewCwv::new(initial_window))))
            }
        };
        if validation.is_some() || !self.rare.is_as_it_began() {
            self.rare.asked.validation = validation;
        }
        self.validates = self.rare.asked.validation.is_some() || self.counts_packets();
    }

    /// Whether the window is validated.
    #[inline]
    pub(crate) fn validates_window(&self) -> bool {
        self.validates
    }

    /// The window is not known to hold what the path does (RFC 7661 section 4.3): it is kept, and
    /// does not grow unless it is full.
    pub fn is_non_validated(&self) -> bool {
        match self.rare.asked.validation.as_deref() {
            Some(Validation::Preserve(cwv)) => cwv.is_non_validated(),
            Some(Validation::Decay(_)) | None => false,
        }
    }

    /// New data is about to leave, with nothing outstanding, after `idle`. `restart`: the window
    /// that the rule for idling leaves, if it changes it.
    #[inline(never)] // Once a pause.
    pub(crate) fn before_idle_send(
        &mut self,
        idle: Duration,
        restart: Option<ByteCount>,
        now: Instant,
    ) {
        self.end_grant();
        match (Rare::validation(&mut self.rare), restart) {
            (None, Some(window)) => self.lower(window, Lower::Idle(idle), now),
            (Some(Validation::Decay(used)), Some(window)) => {
                used.restart(now);
                self.lower(window, Lower::Unused, now);
            }
            (Some(Validation::Preserve(_)), _) => self.validate_send(now),
            (_, None) => {}
        }
    }

    /// New data has left, or is about to.
    #[cold]
    pub(super) fn validate_send(&mut self, now: Instant) {
        let settled = self.episode.is_settled();
        let flight = self.counted(self.board.outstanding());
        let full = self.is_full(flight);
        let at = self.moment(now);
        self.validate(Lower::Unused, now, |validation| match validation {
            Validation::Decay(used) => {
                match full || !settled {
                    true => used.restart(now),
                    false => used.on_sent(flight),
                }
                None
            }
            Validation::Preserve(cwv) if settled => cwv.on_sent(at),
            Validation::Preserve(_) => None,
        });
    }

    /// All that the application has given has left; `peer_window` is the largest that the peer
    /// has offered (RFC 2861 section 3.2).
    #[cold]
    pub(crate) fn validate_empty_queue(&mut self, peer_window: ByteCount, now: Instant) {
        if !self.episode.is_settled() {
            return;
        }
        let window = self.cc.cwnd().min(peer_window);
        let rto = self.current_rto();
        self.validate(Lower::Unused, now, |validation| match validation {
            Validation::Decay(used) => used.on_empty_queue(window, rto, now),
            Validation::Preserve(_) => None,
        });
    }

    /// An ACK has come, which delivered what `sample` says. Whether the window was the limit: where
    /// it is not validated it must have been full. A window that counts packets hears of them in
    /// `sample`.
    #[cold]
    pub(super) fn validate_ack(
        &mut self,
        seen: &Delivered,
        sample: &mut AckSample,
        now: Instant,
    ) -> bool {
        let prior_una = seen.prior_una;
        let newly = sample.delivered;
        let flight = ByteCount::new(self.nxt() - prior_una);
        let full = self.limited_until > prior_una || self.is_full(flight);
        let at = self.moment(now);
        // Without SACK a duplicate ACK does not say what it is of.
        let before = if self.policy.sack {
            at.delivered.saturating_sub(newly.get())
        } else {
            prior_una
        };
        let settled = self.episode.is_settled();
        self.validate(Lower::Unused, now, |validation| match validation {
            Validation::Preserve(cwv) if settled => cwv.on_ack(before, at),
            Validation::Preserve(_) | Validation::Decay(_) => None,
        });
        if self.counts_packets() {
            self.ack_in_packets(seen, sample)
        } else if self.is_non_validated() {
            full
        } else {
            self.cwnd_limited_since(prior_una)
        }
    }

    /// The congestion control answers for congestion with `flight` outstanding, or where the
    /// window is not validated with what of it was used.
    pub(super) fn answer_congestion(
        &mut self,
        event: CongestionEvent,
        flight: ByteCount,
        now: Instant,
    ) {
        self.end_grant();
        let flight = self.counted(flight);
        let at = self.moment(now);
        let used = match Rare::validation(&mut self.rare) {
            Some(Validation::Preserve(cwv)) => cwv.on_congestion(flight, at),
            Some(Validation::Decay(_)) | None => None,
        };
        self.with_cc(now, |cc, view| {
            let mut view = *view;
            view.flight_size = used.unwrap_or(flight);
            cc.on_congestion_event(event, &view);
        });
        if let Some(used) = used {
            self.lower(used / 2, Lower::Exceeded, now);
            self.pace_what_is_not_validated();
        }
    }

    /// `bytes` leave again for the first time.
    pub(super) fn validate_retransmission(&mut self, bytes: ByteCount) {
        if let Some(Validation::Preserve(cwv)) = Rare::validation(&mut self.rare) {
            cwv.on_first_retransmission(bytes);
        }
    }

    /// An episode of recovery is over.
    pub(super) fn validate_recovery_end(&mut self, now: Instant) {
        self.validate(Lower::Exceeded, now, |validation| match validation {
            Validation::Preserve(cwv) => cwv.on_recovery_end(),
            Validation::Decay(used) => {
                used.restart(now);
                None
            }
        });
    }

    /// The retransmission timer fired: on with the RFC 5681 way of it, whatever the window was before.
    pub(super) fn validate_timeout(&mut self, now: Instant) {
        self.end_grant();
        self.validate_undo();
        self.validate_recovery_end(now);
    }

    /// There was no congestion after all.
    pub(super) fn validate_undo(&mut self) {
        if let Some(Validation::Preserve(cwv)) = Rare::validation(&mut self.rare) {
            cwv.on_undo();
            self.pace_what_is_not_validated();
        }
    }

    /// What validates the window, if anything does, hears of something: it may have a window to go on
    /// with, because of `why`.
    fn validate(
        &mut self,
        why: Lower,
        now: Instant,
        tell: impl FnOnce(&mut Validation) -> Option<ByteCount>,
    ) {
        let Some(validation) = Rare::validation(&mut self.rare) else {
            return;
        };
        if let Some(window) = tell(validation) {
            self.lower(window, why, now);
        }
        self.pace_what_is_not_validated();
    }

    fn moment(&self, now: Instant) -> Moment {
        Moment {
            now,
            delivered: self.una() + self.board.sacked().get(),
            cwnd: self.cc.cwnd(),
            rtt: self.rtt.srtt().unwrap_or_default(),
        }
    }

    /// No further full segment fits beside `flight` (RFC 7661 section 4.5.3).
    fn is_full(&self, flight: ByteCount) -> bool {
        flight + self.mss > self.cc.cwnd()
    }

    /// RFC 7661 section 4.4.2: no burst of a window that is not validated.
    pub(super) fn pace_what_is_not_validated(&mut self) {
        self.needs.pacing = self.cc.needs().pacing || self.is_non_validated();
    }
}
