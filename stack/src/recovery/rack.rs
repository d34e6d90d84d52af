//! RACK-TLP (RFC 8985): a segment is lost when one that was sent sufficiently later has been
//! delivered. The tail loss probe of section 7 is in [`super::tlp`].

use crate::recovery::detector::{AckFacts, LossDetector};
use crate::recovery::scoreboard::{AbsSeq, Scoreboard, SentSegment};
use crate::sparse::{Rarely, Sparse, begins};
use narrows_congestion::{Duration, Instant, RttEstimator};

/// For how many recoveries a reordering window that D-SACKs raised persists (RFC 8985
/// section 6.2 step 4).
const REO_WND_PERSIST: u32 = 16;

/// RACK (RFC 8985 section 6), with or without asking for the tail loss probe (section 7).
///
/// Two details of its own: the reordering timer is set to when the *first* segment under
/// suspicion expires, not the last, so that each gets exactly its reordering window; and
/// reordering is what the scoreboard saw of it ([`Scoreboard::reordering`]), for all segments of
/// an ACK.
#[derive(Clone, Debug, Default)]
pub struct RackTlp {
    without_probe: bool,
    /// `RACK.reo_wnd`: how much later than a delivered segment one may still come.
    reo_wnd: Duration,
    /// From the first segment on that was delivered.
    state: Rarely<Rack>,
}

begins! {
    /// The state variables of section 5.
    #[derive(Clone, Debug)]
    struct Rack {
        /// `RACK.segment`: of the delivered segments the one sent last.
        newest: Option<SentSegment> = None,
        /// `RACK.rtt`: how long that one took.
        rtt: Duration = Duration::ZERO,
        reo_wnd_mult: u64 = 1,
        reo_wnd_persist: u32 = 0,
        /// `RACK.dsack_round`: a D-SACK counts once until this is acknowledged.
        dsack_round: Option<AbsSeq> = None,
        recovering: bool = false,
        deadline: Sparse<Instant> = Sparse::NONE,
    }
}

impl RackTlp {
    /// With the tail loss probe.
    pub const fn new() -> Self {
        Self {
            without_probe: false,
            reo_wnd: Duration::ZERO,
            state: Rarely::new(),
        }
    }

    /// Without the tail loss probe.
    pub const fn without_probe() -> Self {
        let mut rack = Self::new();
        rack.without_probe = true;
        rack
    }
}

impl Rack {
    /// Steps 1 and 2 of section 6.2.
    fn update_newest(&mut self, facts: &AckFacts<'_>) {
        let Some(newest) = facts.newest else { return };
        let rtt = facts.now.since(newest.sent_at);
        // Faster than the path ever was: the ACK is for the original, not the retransmission.
        if newest.was_retransmitted() && facts.rtt.min().is_some_and(|min| rtt < min) {
            return;
        }
        if self.newest.is_none_or(|old| newest.sent_after(&old)) {
            self.newest = Some(newest);
            self.rtt = rtt;
        }
    }

    /// `RACK_update_reo_wnd`, step 4 of section 6.2, but for the result.
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
    }

    /// The result.
    fn reo_wnd(&self, facts: &AckFacts<'_>, board: &Scoreboard) -> Duration {
        if board.reordering().segments == 0
            && (self.recovering || board.sacked_segments() >= facts.dup_thresh)
        {
            Duration::ZERO
        } else {
            self.quarters_of_min_rtt(facts.rtt)
        }
    }

    /// The same where reordering was seen, or there is no reason to doubt.
    fn quarters_of_min_rtt(&self, rtt: &RttEstimator) -> Duration {
        let min = rtt.min().unwrap_or(Duration::ZERO);
        let srtt = rtt.srtt().unwrap_or(Duration::ZERO);
        (min * self.reo_wnd_mult / 4).min(srtt)
    }

    /// `RACK_detect_loss`, step 5 of section 6.2.
    fn detect(&mut self, now: Instant, reo_wnd: Duration, board: &mut Scoreboard) {
        self.deadline = Sparse::NONE;
        let Some(newest) = self.newest else {
            return;
        };
        // In order, the common case: nothing in flight was sent before what was delivered.
        if (board.oldest_in_flight()).is_none_or(|oldest| !newest.sent_after(&oldest)) {
            return;
        }
        let patience = self.rtt + reo_wnd;
        let mut next = Sparse::NONE;
        let judged = board.mark_lost_by_send_time(|segment| {
            if !newest.sent_after(segment) {
                return false;
            }
            let expires = segment.sent_at + patience;
            if expires > now {
                next = Sparse::some(expires);
            }
            expires <= now
        });
        self.deadline = next;
        self.recovering |= !judged.is_zero();
    }
}

impl LossDetector for RackTlp {
    fn name(&self) -> &'static str {
        if self.without_probe {
            "rack-notlp"
        } else {
            "rack"
        }
    }

    fn on_ack(&mut self, facts: &AckFacts<'_>, board: &mut Scoreboard) {
        let nothing = facts.newest.is_none() && !facts.dsack && !facts.in_recovery();
        if nothing && self.state.is_as_it_began() {
            self.reo_wnd = self.state.reo_wnd(facts, board);
            return;
        }
        let state = &mut *self.state;
        state.update_newest(facts);
        state.update_reo_wnd(facts, board);
        self.reo_wnd = state.reo_wnd(facts, board);
        state.detect(facts.now, self.reo_wnd, board);
    }

    /// What is delivered in order is the newest, and nothing that is in flight was sent before it.
    fn on_progress(&mut self, newest: &SentSegment, now: Instant, rtt: &RttEstimator) -> bool {
        let Some(state) = self.state.changed() else {
            return false;
        };
        if state.recovering
            || state.dsack_round.is_some()
            || state.newest.is_some_and(|old| !newest.sent_after(&old))
        {
            return false;
        }
        state.newest = Some(*newest);
        state.rtt = now.since(newest.sent_at);
        state.deadline = Sparse::NONE;
        self.reo_wnd = state.quarters_of_min_rtt(rtt);
        true
    }

    fn on_reorder_timeout(&mut self, now: Instant, _: &RttEstimator, board: &mut Scoreboard) {
        self.state.detect(now, self.reo_wnd, board);
    }

    fn reorder_deadline(&self) -> Option<Instant> {
        self.state.deadline.get()
    }

    /// Section 6.3: the first segment, and those whose time is over. What was sent a moment ago
    /// is not lost only because the timer fired.
    fn on_rto(&mut self, now: Instant, board: &mut Scoreboard) {
        let state = &mut *self.state;
        state.deadline = Sparse::NONE;
        state.recovering = true;
        let patience = state.rtt + self.reo_wnd;
        board.mark_lost_by_send_time(|segment| segment.sent_at + patience <= now);
        if let Some(first) = board.first().map(|r| r.start) {
            board.mark_lost(first);
        }
    }

    fn on_undo(&mut self) {
        let state = &mut *self.state;
        state.deadline = Sparse::NONE;
        state.newest = state.newest.filter(|newest| !newest.was_retransmitted());
    }

    fn tail_loss_probe(&self) -> bool {
        !self.without_probe
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_congestion::{ByteCount, CaState};

    const MSS: u64 = 1_000;
    /// Round trip of the path, in microseconds.
    const RTT: u64 = 100;

    struct Rig {
        board: Scoreboard,
        rack: RackTlp,
        rtt: RttEstimator,
        ca_state: CaState,
    }

    fn us(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    impl Rig {
        /// `n` segments sent at microseconds 0, 1, 2...
        fn new(n: u64) -> Self {
            let mut rtt = RttEstimator::new();
            rtt.on_sample(Duration::from_micros(RTT), Instant::ZERO);
            let mut rig = Self {
                board: Scoreboard::new(),
                rack: RackTlp::new(),
                rtt,
                ca_state: CaState::Open,
            };
            (0..n).for_each(|i| rig.send(i));
            rig
        }

        fn send(&mut self, at: u64) {
            self.board.push(self.board.end() + MSS, us(at), 0);
        }

        fn retransmit(&mut self, segment: u64, at: u64) {
            self.board.on_retransmit(segment * MSS, us(at), 0);
        }

        /// Whether it told of loss.
        fn ack(&mut self, at: u64, ack: u64, blocks: &[(u64, u64)], dsack: bool) -> bool {
            let mut newest: Option<SentSegment> = None;
            let mut each = |r: &SentSegment| {
                if newest.is_none_or(|old| r.sent_after(&old)) {
                    newest = Some(*r);
                }
            };
            let acked = self.board.ack(ack * MSS, &mut each);
            let blocks: Vec<_> = blocks.iter().map(|b| (b.0 * MSS, b.1 * MSS)).collect();
            let sacked = self.board.sack(&blocks, &mut each);
            let mut facts = AckFacts::new(us(at), ByteCount::new(MSS), &self.rtt);
            facts.una_advanced = !acked.is_zero();
            facts.newly_sacked = sacked;
            facts.newly_delivered = acked + sacked;
            facts.newest = newest;
            facts.dsack = dsack;
            facts.ca_state = self.ca_state;
            let before = self.board.condemned();
            self.rack.on_ack(&facts, &mut self.board);
            self.board.condemned() > before
        }

        fn lost(&self) -> Vec<u64> {
            self.board
                .iter()
                .filter(|r| r.is_lost())
                .map(|r| r.start / MSS)
                .collect()
        }
    }

    /// RFC 8985 section 6.2 step 5: a segment is given the round trip of the newest delivered
    /// one and the reordering window, a quarter of the minimum RTT; then the timer tells.
    #[test]
    fn a_hole_is_lost_after_the_reordering_window() {
        let mut rig = Rig::new(10);
        assert!(!rig.ack(RTT + 2, 0, &[(2, 3)], false));
        assert_eq!(rig.rack.reo_wnd, Duration::from_micros(RTT / 4));
        assert_eq!(rig.rack.state.rtt, Duration::from_micros(RTT));
        assert_eq!(rig.rack.reorder_deadline(), Some(us(RTT + RTT / 4)));
        let fire = |rig: &mut Rig, at| {
            let before = rig.board.condemned();
            rig.rack
                .on_reorder_timeout(us(at), &rig.rtt, &mut rig.board);
            rig.board.condemned() > before
        };
        assert!(!fire(&mut rig, RTT + RTT / 4 - 1));
        assert!(fire(&mut rig, RTT + RTT / 4));
        assert_eq!(rig.lost(), [0]);
        // The next one has its own time, and what was sent later than segment 2 none.
        assert_eq!(rig.rack.reorder_deadline(), Some(us(RTT + RTT / 4 + 1)));
        assert!(fire(&mut rig, RTT + RTT / 4 + 1));
        assert_eq!(rig.lost(), [0, 1]);
        assert_eq!(rig.rack.reorder_deadline(), None);
    }

    /// Section 6.2 step 4: without reordering seen, `DupThresh` SACKed segments or recovery
    /// leave no window.
    #[test]
    fn no_window_after_three_sacked_or_in_recovery() {
        let mut rig = Rig::new(10);
        assert!(!rig.ack(RTT + 2, 0, &[(1, 3)], false));
        assert!(rig.ack(RTT + 3, 0, &[(1, 4)], false));
        assert_eq!(rig.rack.reo_wnd, Duration::ZERO);
        assert_eq!(rig.lost(), [0]);
        let mut rig = Rig::new(10);
        rig.ca_state = CaState::Recovery;
        assert!(rig.ack(RTT + 1, 0, &[(1, 2)], false));
    }

    /// Section 6.2 step 3 and 4: once reordering was seen the window stays open.
    #[test]
    fn reordering_keeps_the_window_open() {
        let mut rig = Rig::new(10);
        rig.ack(RTT + 1, 0, &[(1, 2)], false);
        rig.ack(RTT + 2, 2, &[], false);
        assert_eq!(rig.board.reordering().segments, 1);
        assert!(!rig.ack(RTT + 5, 2, &[(3, 8)], false));
        assert_eq!(rig.rack.reo_wnd, Duration::from_micros(RTT / 4));
    }

    /// Section 6.2 step 4: each round with a D-SACK widens the window by a quarter of the
    /// minimum RTT, up to SRTT; sixteen recoveries later it is narrow again.
    #[test]
    fn dsack_widens_the_window() {
        let mut rig = Rig::new(100);
        let quarters = |rig: &Rig| rig.rack.reo_wnd.as_micros() / (RTT / 4);
        rig.ack(RTT, 1, &[], true);
        assert_eq!(quarters(&rig), 2);
        rig.ack(RTT, 2, &[], true);
        assert_eq!(quarters(&rig), 2, "once a round");
        for expected in [3, 4, 4] {
            let now = rig.board.end() / MSS;
            rig.ack(RTT + now, now, &[], false);
            rig.send(now);
            rig.ack(RTT + now, now, &[], true);
            assert_eq!(quarters(&rig), expected, "capped by SRTT");
        }
        for recovery in 1..=16 {
            assert_eq!(quarters(&rig), 4, "before recovery {recovery}");
            for state in [CaState::Recovery, CaState::Recovery, CaState::Open] {
                rig.ca_state = state;
                rig.ack(500, 0, &[], false);
            }
        }
        assert_eq!(quarters(&rig), 1);
    }

    /// The delivery of something sent after a retransmission condemns the retransmission.
    #[test]
    fn a_lost_retransmission_is_found() {
        let mut rig = Rig::new(6);
        rig.ca_state = CaState::Recovery;
        assert!(rig.ack(RTT + 2, 0, &[(2, 3)], false));
        assert_eq!(rig.lost(), [0, 1]);
        rig.retransmit(0, RTT + 2);
        rig.retransmit(1, RTT + 3);
        assert!(!rig.ack(RTT + 5, 0, &[(2, 6)], false));
        assert!(rig.ack(2 * RTT + 3, 0, &[(1, 6)], false));
        assert_eq!(rig.board.next_lost().map(|r| r.start), Some(0));
    }

    /// Section 6.2 step 2: an ACK too fast to be for the retransmission is for the original.
    #[test]
    fn a_spurious_retransmission_does_not_move_the_clock() {
        let mut rig = Rig::new(10);
        rig.ca_state = CaState::Recovery;
        rig.ack(RTT + 2, 0, &[(2, 3)], false);
        rig.retransmit(0, RTT + 2);
        rig.retransmit(1, RTT + 2);
        let before = rig.rack.state.newest;
        assert!(!rig.ack(RTT + 3, 1, &[], false));
        assert_eq!(rig.rack.state.newest, before);
        assert!(rig.ack(2 * RTT + 2, 2, &[], false), "this one is real");
    }

    /// Section 6.3: a timeout condemns the first segment and those whose time is over, not what
    /// was sent a moment ago.
    #[test]
    fn a_timeout_spares_what_was_just_sent() {
        let mut rig = Rig::new(5);
        rig.ack(RTT, 1, &[], false);
        for _ in 0..3 {
            rig.send(900);
        }
        rig.rack.on_rto(us(910), &mut rig.board);
        assert_eq!(rig.lost(), [1, 2, 3, 4]);
        // The first is condemned whatever its time.
        let mut rig = Rig::new(5);
        rig.ack(RTT, 1, &[], false);
        rig.rack.on_rto(us(RTT + 1), &mut rig.board);
        assert_eq!(rig.lost(), [1]);
        rig.board.check_invariants();
    }
}
