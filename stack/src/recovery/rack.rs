//! RACK-TLP (RFC 8985): a segment is lost when one that was sent sufficiently later has been
//! delivered. The tail loss probe of section 7 is in [`super::tlp`].

use crate::recovery::detector::{AckFacts, LossDetector, NewestDelivered, Verdict};
use crate::recovery::dup_thresh::NewReno;
use crate::recovery::scoreboard::{AbsSeq, Scoreboard};
use narrows_congestion::{Duration, Instant, RttEstimator};

/// For how many recoveries a reordering window that D-SACKs raised persists (RFC 8985
/// section 6.2 step 4).
const REO_WND_PERSIST: u32 = 16;

/// RACK (RFC 8985 section 6), with or without asking for the tail loss probe (section 7).
///
/// Two details of its own: the reordering timer is set to when the *first* segment under
/// suspicion expires, not the last, so that each gets exactly its reordering window; and
/// reordering is what the scoreboard saw of it ([`Scoreboard::reordering`]), for all segments of
/// an ACK. Without SACK on the connection it does what [`NewReno`] does.
#[derive(Clone, Copy, Debug)]
pub struct RackTlp {
    probe: bool,
    /// `RACK.segment`: of the delivered segments the one sent last.
    newest: Option<NewestDelivered>,
    /// `RACK.rtt`: how long that one took.
    rtt: Duration,
    reo_wnd: Duration,
    reo_wnd_mult: u64,
    reo_wnd_persist: u32,
    /// `RACK.dsack_round`: a D-SACK counts once until this is acknowledged.
    dsack_round: Option<AbsSeq>,
    recovering: bool,
    deadline: Option<Instant>,
    without_sack: NewReno,
}

impl Default for RackTlp {
    fn default() -> Self {
        Self::new()
    }
}

impl RackTlp {
    /// With the tail loss probe.
    pub const fn new() -> Self {
        Self {
            probe: true,
            newest: None,
            rtt: Duration::ZERO,
            reo_wnd: Duration::ZERO,
            reo_wnd_mult: 1,
            reo_wnd_persist: 0,
            dsack_round: None,
            recovering: false,
            deadline: None,
            without_sack: NewReno::new(),
        }
    }

    /// Without the tail loss probe.
    pub const fn without_probe() -> Self {
        Self {
            probe: false,
            ..Self::new()
        }
    }

    /// `RACK.reo_wnd`: how much later than a delivered segment one may still come.
    pub fn reo_wnd(&self) -> Duration {
        self.reo_wnd
    }

    /// `RACK.rtt`: the round trip of the newest delivered segment.
    pub fn rtt(&self) -> Duration {
        self.rtt
    }

    /// Steps 1 and 2 of section 6.2.
    fn update_newest(&mut self, facts: &AckFacts<'_>) {
        let Some(newest) = facts.newest else { return };
        let rtt = facts.now.since(newest.sent_at);
        // Faster than the path ever was: the ACK is for the original, not the retransmission.
        if newest.retransmitted && facts.rtt.min().is_some_and(|min| rtt < min) {
            return;
        }
        if self.newest.is_none_or(|old| newest.sent_after(&old)) {
            self.newest = Some(newest);
            self.rtt = rtt;
        }
    }

    /// `RACK_update_reo_wnd`, step 4 of section 6.2.
    fn update_reo_wnd(&mut self, facts: &AckFacts<'_>, board: &Scoreboard) {
        let exiting = self.recovering && !facts.in_recovery();
        self.recovering = facts.in_recovery();
        if self.dsack_round.is_some_and(|round| board.una() >= round) {
            self.dsack_round = None;
        }
        if facts.dsack && self.dsack_round.is_none() {
            self.dsack_round = Some(board.end());
            self.reo_wnd_mult = self.reo_wnd_mult.saturating_add(1);
            self.reo_wnd_persist = REO_WND_PERSIST;
        } else if exiting {
            self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
            if self.reo_wnd_persist == 0 {
                self.reo_wnd_mult = 1;
            }
        }
        self.reo_wnd = if board.reordering().segments == 0
            && (self.recovering || board.sacked_segments() >= facts.dup_thresh)
        {
            Duration::ZERO
        } else {
            let min = facts.rtt.min().unwrap_or(Duration::ZERO);
            let srtt = facts.rtt.srtt().unwrap_or(Duration::ZERO);
            min.mul_ratio(self.reo_wnd_mult, 4).min(srtt)
        };
    }

    /// `RACK_detect_loss`, step 5 of section 6.2.
    fn detect(&mut self, now: Instant, board: &mut Scoreboard) -> Verdict {
        self.deadline = None;
        let Some(newest) = self.newest else {
            return Verdict::Nothing;
        };
        let patience = self.rtt + self.reo_wnd;
        let mut next = None;
        let judged = board.mark_lost_by_send_time(|segment| {
            if !newest.sent_after(&NewestDelivered::of(segment)) {
                return false;
            }
            let expires = segment.sent_at + patience;
            if expires > now {
                next = Some(expires);
            }
            expires <= now
        });
        self.deadline = next;
        self.recovering |= !judged.is_zero();
        Verdict::from_bytes(judged)
    }
}

impl LossDetector for RackTlp {
    fn name(&self) -> &'static str {
        if self.probe { "rack" } else { "rack-notlp" }
    }

    fn on_ack(&mut self, facts: &AckFacts<'_>, board: &mut Scoreboard) -> Verdict {
        if !facts.sack_ok {
            return self.without_sack.on_ack(facts, board);
        }
        self.update_newest(facts);
        self.update_reo_wnd(facts, board);
        self.detect(facts.now, board)
    }

    fn on_reorder_timeout(
        &mut self,
        now: Instant,
        _rtt: &RttEstimator,
        board: &mut Scoreboard,
    ) -> Verdict {
        self.detect(now, board)
    }

    fn reorder_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Section 6.3: the first segment, and those whose time is over. What was sent a moment ago
    /// is not lost only because the timer fired.
    fn on_rto(&mut self, now: Instant, board: &mut Scoreboard) {
        self.deadline = None;
        self.recovering = true;
        self.without_sack.note_rto(board);
        let patience = self.rtt + self.reo_wnd;
        board.mark_lost_by_send_time(|segment| segment.sent_at + patience <= now);
        if let Some(first) = board.first().map(|r| r.start) {
            board.mark_lost(first);
        }
    }

    fn tail_loss_probe(&self) -> bool {
        self.probe
    }
}
