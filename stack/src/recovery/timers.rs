//! The sender's timers: when they are armed (RFC 6298 section 5, RFC 8985 section 7.2), and what
//! follows when one fires.

use super::episode::Episode;
use super::rare::{Asked, Rare};
use super::scoreboard::SentSegment;
use super::sender::Sender;
use super::spurious::Frto;
use super::tlp;
use crate::sparse::Sparse;
use crate::trace::{TimeoutCause, Trace, TraceEvent};
use narrows_congestion::hint::cold_path;
use narrows_congestion::{CongestionControl, Duration, Instant, RtoContext, RtoPolicy, Spurious};

/// Records of a window that a timeout left.
const SMALL_WINDOW: usize = 4;

impl<C: CongestionControl, R: RtoPolicy> Sender<C, R> {
    /// Start the retransmission timer afresh (RFC 6298 section 5).
    #[inline(never)]
    pub fn arm_rto(&mut self, now: Instant) {
        self.arm_rto_here(now);
    }

    /// The same, in line.
    #[inline(always)]
    pub(super) fn arm_rto_here(&mut self, now: Instant) {
        self.armed_rto = self.draw_rto();
        if let Some(rare) = self.rare.changed() {
            cold_path();
            rare.rto_before = Sparse::NONE;
        }
        self.rto_at = Sparse::some(now + self.armed_rto);
    }

    /// Whether the timer would fire less than an RTO after `now`, when the first segment leaves
    /// again, and is not to (RFC 6298 section 5). The partial ACKs of RFC 6582 section 3.2 that are
    /// to end in a timeout let it.
    pub(super) fn fires_early(&self, now: Instant) -> bool {
        let rto = now + self.armed_rto;
        !self.is_impatient()
            && self.rto_at.get().is_some_and(|at| at < rto)
            && !self.detector.timer_runs_on()
    }

    /// RFC 6582 section 3.2 step 3: without SACK only the first partial ACK of an episode
    /// restarts the timer, so that a window with many holes ends in a timeout instead of one
    /// retransmission per round trip. Unless the detector is the slow but steady one of section 4.
    #[inline]
    pub(super) fn is_impatient(&self) -> bool {
        matches!(self.episode, Episode::Recovery { partial_acks, .. } if partial_acks > 1)
            && !self.policy.sack
            && !self.detector.is_slow_but_steady()
    }

    /// (Re)start the probe timer, where tail-loss probes apply and something is outstanding (RFC 8985
    /// section 7.2).
    #[inline(always)] // One test of those who never send one.
    pub(super) fn arm_pto(&mut self, now: Instant) {
        self.pto_at = Sparse::NONE;
        if self.probes_tail {
            cold_path();
            self.set_pto(now);
        }
    }

    #[inline(never)]
    fn set_pto(&mut self, now: Instant) {
        let may = self.policy.sack
            && self.may_probe()
            && (self.rare.as_changed()).is_none_or(|rare| rare.tlp.is_none())
            && !self.probe_unmeasured
            && self.backoff == 0;
        if !may {
            return;
        }
        let one_segment = self.board.len() == 1;
        let pto = tlp::pto(&self.rtt, one_segment, self.policy.max_ack_delay);
        let at = now + pto;
        // Not later than the RTO: then the RTO speaks.
        if self.rto_at.get().is_none_or(|rto| at < rto) {
            self.pto_at = Sparse::some(at);
        }
    }

    /// Not in loss recovery, and nothing is SACKed (RFC 8985 section 7.2).
    pub(super) fn may_probe(&self) -> bool {
        matches!(self.episode, Episode::Open | Episode::Cwr { .. }) && self.board.sacked().is_zero()
    }

    /// The timeout for a timer that is armed now.
    #[inline]
    pub fn draw_rto(&mut self) -> Duration {
        let entropy = Rare::asked(&mut self.rare).map_or(0, Asked::entropy);
        self.rto_with(entropy)
    }

    /// The timeout that would be armed now.
    pub fn current_rto(&self) -> Duration {
        self.rto_with(0)
    }

    #[inline]
    fn rto_with(&self, entropy: u64) -> Duration {
        let rto = self
            .rto
            .rto(&self.rtt, &RtoContext::new(self.backoff, entropy));
        if self.rtt.samples() == 0 {
            cold_path();
            rto.max(self.rare.asked.rto_floor)
        } else {
            rto
        }
    }

    /// When the retransmission timer fires.
    pub fn rto_deadline(&self) -> Option<Instant> {
        self.rto_at.get()
    }

    /// When the probe timer fires.
    pub fn pto_deadline(&self) -> Option<Instant> {
        self.pto_at.get()
    }

    /// When the detector's reordering timer fires.
    #[inline]
    pub fn reorder_deadline(&self) -> Option<Instant> {
        if !self.heeds_progress || self.board.is_empty() {
            None
        } else {
            self.detector.reorder_deadline()
        }
    }

    /// Nothing more is expected: stop every timer.
    pub fn stop_timers(&mut self) {
        self.rto_at = Sparse::NONE;
        self.pto_at = Sparse::NONE;
    }

    /// The reordering timer of the loss detector fired.
    pub fn on_reorder_timeout(&mut self, now: Instant, trace: &mut impl Trace) {
        let lost = self.judgement(|s| {
            s.detector.on_reorder_timeout(now, &s.rtt, &mut s.board);
        });
        if let Some(bytes) = lost {
            self.on_loss_found(bytes, self.flight(now), trace);
        }
    }

    /// The probe timer fired: the last segment, or new data, is to be sent
    /// (RFC 8985 section 7.3).
    pub fn on_pto(&mut self, new_data: bool, now: Instant, trace: &mut impl Trace) {
        self.pto_at = Sparse::NONE;
        if !new_data && self.board.last_unsacked().is_none() {
            return;
        }
        trace(TraceEvent::TailLossProbe);
        self.probe_due = true;
        self.arm_rto(now);
    }

    /// The retransmission timer fired (RFC 6298 section 5.4 to 5.6, RFC 5681 section 3.1).
    ///
    /// `window_closed`: the peer's window admits nothing and it has answered since; the timer is
    /// then a zero-window probe (RFC 9293 section 3.8.6.1) and no sign of congestion.
    pub fn on_rto(&mut self, now: Instant, window_closed: bool, trace: &mut impl Trace) {
        self.stop_timers();
        self.rare.clear(|rare| &mut rare.tlp);
        self.probe_due = false;
        let Some(first) = self.board.first() else {
            return;
        };
        let cause = if window_closed {
            TimeoutCause::ZeroWindow
        } else {
            self.timeout_cause(&first)
        };
        let counted = &mut self.rare.counted;
        counted.timeouts += 1;
        match cause {
            TimeoutCause::FullWindow => counted.timeouts_full_window += 1,
            TimeoutCause::Tail => counted.timeouts_tail += 1,
            TimeoutCause::RetransmissionLost => counted.timeouts_retransmission += 1,
            TimeoutCause::Handshake | TimeoutCause::ZeroWindow => counted.timeouts -= 1,
        }
        self.trim_records(SMALL_WINDOW);
        self.backoff = self.backoff.saturating_add(1);
        self.note_fruitless(now);
        self.retries = self.retries.saturating_add(1);
        // What paced the lost flight does not hold back its repair: the timer spaces that.
        if let Some(asked) = Rare::asked(&mut self.rare) {
            asked.held_until = Instant::ZERO;
            if let Some(pacer) = &mut asked.pacer {
                pacer.forgive();
            }
        }
        // A peer that discards what it SACKed must not stall us (RFC 2018 section 8).
        if first.is_sacked() {
            self.board.reset_sacked();
        }
        trace(TraceEvent::Timeout {
            cause,
            rto: self.armed_rto,
            consecutive: self.retries,
            flight_size: self.board.outstanding(),
        });
        if window_closed {
            self.probing_window = true;
            self.episode.end_frto();
            self.board.mark_lost(first.start);
            self.force_one = true;
            self.arm_rto(now);
            return;
        }
        let first_of_episode =
            !matches!(self.episode, Episode::Loss { .. }) || self.una() >= self.recover;
        let retries = self.retries;
        // RFC 5681: the first timeout of an episode lowers ssthresh; the view still shows the
        // state in which it struck.
        let flight = self.counted(self.board.outstanding());
        self.with_cc(now, |cc, view| {
            let mut view = *view;
            view.flight_size = flight;
            cc.on_rto(retries, &view);
        });
        self.validate_timeout(now);
        if first_of_episode || self.rare.undo.is_none() {
            self.rare.undo = Some(self.undo_record(Spurious::Timeout));
        }
        let frto = self.frto_begins(first_of_episode);
        let pipe_before = self.board.pipe();
        self.detector.on_rto(now, &mut self.board);
        self.rate.on_lost(pipe_before - self.board.pipe());
        if !self.policy.sack {
            self.board.set_reno_sacked(0, self.mss);
        }
        self.dup_acks = 0;
        self.force_one = true;
        self.note_answered(now);
        self.enter(Episode::Loss { frto }, trace);
        self.arm_rto(now);
    }

    /// Step 1 of F-RTO (RFC 5682 sections 2.1 and 3.1): not within the recovery from an earlier
    /// timeout, but a further timeout of the segment that is still waited for begins anew; with
    /// SACK not within a fast recovery either.
    fn frto_begins(&self, first_of_episode: bool) -> Frto {
        let anew = self.episode.frto() == Frto::Retransmitted;
        let recovering = self.policy.sack && matches!(self.episode, Episode::Recovery { .. });
        if self.policy.spurious.frto && (anew || (first_of_episode && !recovering)) {
            Frto::Retransmitted
        } else {
            Frto::Off
        }
    }

    /// Which kind of timeout this is: nothing of the flight was seen at the receiver, or only
    /// its end is missing, or a retransmission did not arrive.
    fn timeout_cause(&self, first: &SentSegment) -> TimeoutCause {
        if first.was_retransmitted() {
            return TimeoutCause::RetransmissionLost;
        }
        let silent = self.dup_acks == 0 && self.board.sacked().is_zero();
        let whole =
            self.board.len() > self.policy.dup_thresh as usize || self.limited_until > self.una();
        if silent && whole {
            TimeoutCause::FullWindow
        } else {
            TimeoutCause::Tail
        }
    }

    /// A SYN or SYN-ACK went unanswered: back off. Returns the timeout that has passed.
    pub fn on_handshake_timeout(&mut self) -> Duration {
        let passed = self.current_rto();
        self.backoff = self.backoff.saturating_add(1);
        passed
    }

    /// How often the first segment has been sent in vain since SND.UNA last moved: timeouts, and
    /// retransmissions that a detector has found lost. What R1 and R2 count (RFC 9293
    /// section 3.8.3).
    pub fn fruitless(&self) -> u32 {
        let again = match self.rare.lost_again_at == self.una() {
            true => self.rare.lost_again,
            false => 0,
        };
        self.retries.saturating_add(again)
    }

    /// A retransmission of the first segment was found lost.
    pub(super) fn count_first_lost_again(&mut self, now: Instant) {
        self.note_fruitless(now);
        if self.rare.lost_again_at != self.una() {
            self.rare.lost_again_at = self.una();
            self.rare.lost_again = 0;
        }
        self.rare.lost_again = self.rare.lost_again.saturating_add(1);
    }

    /// [`Self::fruitless`] is about to grow.
    fn note_fruitless(&mut self, now: Instant) {
        if self.fruitless() == 0 {
            self.rare.retrying_since = now;
        }
        self.sent_in_vain = self.sent_in_vain.saturating_add(1);
    }

    /// How much [`Self::fruitless`] has grown since this was last asked.
    pub fn take_sent_in_vain(&mut self) -> u8 {
        core::mem::take(&mut self.sent_in_vain)
    }

    /// More than `retries` attempts were fruitless, over `time` at least (R2 of RFC 9293
    /// section 3.8.3).
    pub fn is_hopeless(&self, retries: u32, time: Duration, now: Instant) -> bool {
        self.fruitless() > retries && now.since(self.rare.retrying_since) >= time
    }
}
