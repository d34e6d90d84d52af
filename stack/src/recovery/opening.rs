//! What the handshake settles.

use super::dup_thresh::NewReno;
use super::rate::RateEstimator;
use super::scoreboard::AbsSeq;
use super::sender::{Sender, SenderPolicy};
use crate::sparse::Sparse;
use narrows_congestion::{ByteCount, CongestionControl, Duration, Instant, RtoPolicy};

impl<C: CongestionControl, R: RtoPolicy> Sender<C, R> {
    /// The handshake is complete and has settled these values; `rtt` is what it measured, `floor`
    /// that of the RTO until there is a sample. A loss detector that needs SACK gives place to
    /// [`NewReno`] where there is none.
    pub fn begin(
        &mut self,
        mss: ByteCount,
        policy: SenderPolicy,
        cc: C,
        rtt: Option<Duration>,
        floor: Duration,
        now: Instant,
    ) {
        self.mss = mss;
        self.policy = policy;
        if !policy.sack && self.detector.uses_sack() {
            self.detector = Box::new(NewReno::new());
            (self.heeds_progress, self.probes_tail) = (false, false);
        }
        self.needs = cc.needs();
        self.rate = RateEstimator::of(&self.needs);
        self.cc = cc;
        self.learn(rtt, floor, now);
    }

    /// Everything before `start` left with the SYN, and is acknowledged by its answer.
    pub fn start_at(&mut self, start: AbsSeq) {
        if self.is_idle() {
            self.board.set_start(start);
        }
    }

    /// The handshake of a sender that has [begun](Self::begin) before it was complete is: `rtt` is
    /// what it measured, `floor` that of the RTO until there is a sample, `cc` begins anew.
    pub fn confirm(&mut self, cc: Option<C>, rtt: Option<Duration>, floor: Duration, now: Instant) {
        if let Some(cc) = cc {
            self.needs = cc.needs();
            self.cc = cc;
            self.pace_what_is_not_validated();
        }
        self.learn(rtt, floor, now);
        if !self.is_idle() {
            self.arm_rto(now);
        }
    }

    /// The timers wait: what must come first has one of its own.
    pub fn postpone_timers(&mut self, now: Instant) {
        self.pto_at = Sparse::NONE;
        if self.rto_at.get().is_some_and(|at| at <= now) {
            self.arm_rto(now);
        }
    }

    /// The handshake has taken `rtt`, if that was measured.
    fn learn(&mut self, rtt: Option<Duration>, floor: Duration, now: Instant) {
        if self.rare.asked.rto_floor != floor {
            self.rare.asked.rto_floor = floor;
        }
        self.backoff = 0;
        self.on_progress(rtt, now);
    }
}
