//! Loss detection by counting: duplicate ACKs (RFC 5681, RFC 6582), or what is SACKed above
//! (RFC 6675).

use crate::recovery::detector::{AckFacts, LossDetector};
use crate::recovery::scoreboard::{AbsSeq, Scoreboard, SentSegment};
use narrows_congestion::{CaState, Instant};

/// Classic Reno: `DupThresh` duplicate ACKs condemn the first segment, and recovery is over
/// with the first ACK that advances (RFC 2581 section 3.2). Several losses in a window take as
/// many recoveries, or a timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reno {}

impl Reno {
    /// A detector.
    pub const fn new() -> Self {
        Self {}
    }
}

impl LossDetector for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn on_ack(&mut self, facts: &AckFacts<'_>, board: &mut Scoreboard) {
        if !facts.in_recovery() && has_duplicates(facts) {
            condemn_first(board);
        }
    }

    fn heeds_progress(&self) -> bool {
        false
    }

    fn exits_on_partial_ack(&self) -> bool {
        true
    }

    fn uses_sack(&self) -> bool {
        false
    }
}

/// NewReno (RFC 6582 section 3.2): as [`Reno`], but recovery lasts until the recovery point is
/// acknowledged, and each ACK short of it condemns the segment it stops at.
///
/// Duplicate ACKs that do not acknowledge more than was sent when the last fast retransmit or
/// timeout happened are taken for the echo of retransmissions, and condemn nothing (steps 1
/// and 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewReno<const GOES_BACK: bool = false> {
    /// One past `recover`. Not the engine's recovery point, which ECN moves too.
    recover: AbsSeq,
}

/// Go-back-N: the `DupThresh` duplicate ACKs that condemn the first segment of [`NewReno`] condemn all
/// behind it, too: what is not acknowledged when its turn comes is sent again, what the receiver has
/// among it. 4.3BSD-Tahoe goes back so, with a window of one segment; here the window is what the
/// congestion control and PRR make of it, as in no system known to us.
pub type GoBackN = NewReno<true>;

impl NewReno {
    /// A detector.
    pub const fn new() -> Self {
        Self { recover: 0 }
    }
}

impl<const GOES_BACK: bool> LossDetector for NewReno<GOES_BACK> {
    fn name(&self) -> &'static str {
        match GOES_BACK {
            true => "go-back-n",
            false => "newreno",
        }
    }

    fn on_ack(&mut self, facts: &AckFacts<'_>, board: &mut Scoreboard) {
        match facts.ca_state {
            CaState::Loss => {}
            // An ACK that stops short of the recovery point condemns the segment it stops at, unless a
            // retransmission of that is on its way.
            CaState::Recovery => {
                let partial = facts.una_advanced && board.una() < facts.recovery_point;
                if partial && board.first().is_some_and(|r| !r.in_flight_retransmission()) {
                    condemn_first(board);
                }
            }
            CaState::Open | CaState::Disorder | CaState::Cwr => {
                if has_duplicates(facts) && board.una() > self.recover && condemn_first(board) {
                    self.recover = board.end();
                    if GOES_BACK {
                        board.mark_all_lost();
                    }
                }
            }
        }
    }

    fn on_rto(&mut self, _now: Instant, board: &mut Scoreboard) {
        self.recover = board.end();
        board.mark_all_lost();
    }

    /// Next to nothing was retransmitted that duplicates could be the echo of: they tell of loss
    /// again (RFC 5682 section 2.1 step 3b).
    fn heeds_progress(&self) -> bool {
        false
    }

    fn on_undo(&mut self) {
        self.recover = 0;
    }

    fn uses_sack(&self) -> bool {
        false
    }
}

/// The conservative SACK-based detection of RFC 6675: a segment is lost when `DupThresh`
/// discontiguous runs, or more than `(DupThresh - 1) * SMSS` bytes, above it are SACKed.
///
/// A retransmission that is lost again is left to the timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sack6675 {
    /// `RescueRxt` of section 2, one past it: the end of the first segment retransmitted, then
    /// the recovery point for which the one rescue was made.
    rescue_rxt: AbsSeq,
    /// One past the highest record that rule 3 sent again.
    high_speculated: AbsSeq,
}

impl Sack6675 {
    /// A detector.
    pub const fn new() -> Self {
        Self {
            rescue_rxt: 0,
            high_speculated: 0,
        }
    }
}

impl LossDetector for Sack6675 {
    fn name(&self) -> &'static str {
        "sack"
    }

    fn on_ack(&mut self, facts: &AckFacts<'_>, board: &mut Scoreboard) {
        let sacks = !board.sacked().is_zero();
        let judged = sacks && !(board.mark_lost_by_sacks(facts.dup_thresh, facts.mss)).is_zero();
        if facts.in_recovery() {
            return;
        }
        // Section 5 enters recovery on the count alone too: segments may be short of SMSS.
        if sacks && !judged && has_duplicates(facts) && board.first().is_some_and(|r| !r.is_lost())
        {
            condemn_first(board);
        }
        // Section 5 step 4.3, at the beginning of a recovery.
        if !board.lost().is_zero() {
            self.rescue_rxt = board.first().map_or(0, |first| first.end);
        }
    }

    fn heeds_progress(&self) -> bool {
        false
    }

    fn speculate(&mut self, board: &mut Scoreboard, recovery_point: AbsSeq) -> Option<SentSegment> {
        // Rule 4 needs no SACKed data: the ACK that filled the hole may have covered all of it.
        let highest = board.highest_sacked().unwrap_or(0);
        let mut from = self.high_speculated.max(board.una());
        while let Some(next) = board.next_unsacked(from) {
            if next.start >= highest {
                break;
            }
            from = next.end;
            self.high_speculated = from;
            if !next.in_flight_retransmission() {
                return Some(next);
            }
        }
        if board.una() <= self.rescue_rxt {
            return None;
        }
        let last = board.last_unsacked()?;
        self.rescue_rxt = recovery_point;
        Some(last)
    }
}

/// `DupThresh` duplicate ACKs have come, or more.
fn has_duplicates(facts: &AckFacts<'_>) -> bool {
    !facts.una_advanced && facts.dup_acks >= facts.dup_thresh
}

/// The segment that the peer waits for is lost; whether that is news.
fn condemn_first(board: &mut Scoreboard) -> bool {
    (board.first()).is_some_and(|first| board.mark_lost(first.start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_congestion::{ByteCount, RttEstimator};

    const MSS: u64 = 1_000;

    /// A window of `n` segments from sequence number 1 on, and a detector that looks at it.
    struct Rig<D> {
        board: Scoreboard,
        detector: D,
        ca_state: CaState,
        recovery_point: AbsSeq,
        dup_acks: u32,
    }

    impl<D: LossDetector> Rig<D> {
        fn new(detector: D, n: u64) -> Self {
            let mut board = Scoreboard::new();
            board.set_start(1);
            let mut rig = Self {
                board,
                detector,
                ca_state: CaState::Open,
                recovery_point: 1,
                dup_acks: 0,
            };
            rig.send(n);
            rig
        }

        fn send(&mut self, n: u64) {
            for _ in 0..n {
                let end = self.board.end() + MSS;
                self.board.push(end, Instant::ZERO, 0);
            }
        }

        /// An ACK for the first `ack` segments of the connection, with SACK blocks in segments.
        /// Whether it told of loss.
        fn ack(&mut self, ack: u64, blocks: &[(u64, u64)]) -> bool {
            let delivered = self.board.ack(1 + ack * MSS, |_| {});
            let blocks: Vec<_> = blocks
                .iter()
                .map(|b| (1 + b.0 * MSS, 1 + b.1 * MSS))
                .collect();
            let newly_sacked = self.board.sack(&blocks, |_| {});
            let una_advanced = !delivered.is_zero();
            self.dup_acks = if una_advanced { 0 } else { self.dup_acks + 1 };
            let rtt = RttEstimator::new();
            let mut facts = AckFacts::new(Instant::ZERO, ByteCount::new(MSS), &rtt);
            facts.una_advanced = una_advanced;
            facts.newly_delivered = delivered + newly_sacked;
            facts.newly_sacked = newly_sacked;
            facts.dup_acks = self.dup_acks;
            if self.board.una() >= self.recovery_point || self.detector.exits_on_partial_ack() {
                self.ca_state = CaState::Open;
            }
            facts.ca_state = self.ca_state;
            facts.recovery_point = self.recovery_point;
            let before = self.board.condemned();
            self.detector.on_ack(&facts, &mut self.board);
            let found = self.board.condemned() > before;
            if found && !facts.in_recovery() {
                self.ca_state = CaState::Recovery;
                self.recovery_point = self.board.end();
            }
            found
        }

        fn retransmit(&mut self) -> Option<u64> {
            let next = self.board.next_lost()?;
            self.board.on_retransmit(next.start, Instant::ZERO, 0);
            Some(next.start / MSS)
        }

        fn rto(&mut self) {
            self.detector.on_rto(Instant::ZERO, &mut self.board);
            self.ca_state = CaState::Loss;
            self.recovery_point = self.board.end();
            self.dup_acks = 0;
        }
    }

    /// RFC 5681 section 3.2: the third duplicate ACK, not the second, and only the first segment.
    #[test]
    fn three_duplicate_acks_condemn_the_first_segment() {
        fn check(detector: impl LossDetector) {
            let mut rig = Rig::new(detector, 10);
            assert!(!rig.ack(1, &[]));
            assert!(!rig.ack(1, &[]));
            assert!(!rig.ack(1, &[]));
            assert!(rig.ack(1, &[]));
            assert_eq!(rig.retransmit(), Some(1));
            assert_eq!(rig.retransmit(), None);
        }
        check(Reno::new());
        check(NewReno::new());
    }

    /// RFC 6582 section 3.2 step 3: each partial ACK condemns the segment it stops at.
    #[test]
    fn newreno_partial_acks() {
        let mut rig = Rig::new(NewReno::new(), 10);
        (0..3).for_each(|_| _ = rig.ack(0, &[]));
        assert_eq!(rig.retransmit(), Some(0));
        assert!(rig.ack(4, &[]));
        assert_eq!(rig.retransmit(), Some(4));
        // A second ACK for the same place does not; nor does one that stops at a segment whose
        // retransmission is on its way, nor one that reaches the end.
        rig.board.on_retransmit(1 + 6 * MSS, Instant::ZERO, 0);
        assert!(!rig.ack(6, &[]));
        assert!(!rig.ack(6, &[]));
        assert!(!rig.ack(10, &[]));
        assert_eq!(rig.ca_state, CaState::Open);
    }

    /// RFC 6582 section 3.2 steps 1 and 6: duplicates that acknowledge nothing beyond the last
    /// episode start no new one.
    #[test]
    fn newreno_ignores_the_echo_of_retransmissions() {
        let mut rig = Rig::new(NewReno::new(), 10);
        rig.rto();
        while rig.retransmit().is_some() {}
        rig.ack(10, &[]);
        rig.send(10);
        for _ in 0..5 {
            assert!(!rig.ack(10, &[]));
        }
        assert!(!rig.ack(11, &[]));
        (0..2).for_each(|_| _ = rig.ack(11, &[]));
        assert!(rig.ack(11, &[]));
    }

    /// Classic Reno takes one loss for each recovery, and has no memory of the last.
    #[test]
    fn reno_leaves_on_the_first_new_ack() {
        let mut rig = Rig::new(Reno::new(), 10);
        (0..3).for_each(|_| _ = rig.ack(0, &[]));
        assert_eq!(rig.retransmit(), Some(0));
        assert!(!rig.ack(4, &[]));
        assert_eq!(rig.ca_state, CaState::Open);
        (0..2).for_each(|_| _ = rig.ack(4, &[]));
        assert!(rig.ack(4, &[]));
        assert_eq!(rig.retransmit(), Some(4));
    }

    /// RFC 6675 section 5: every segment with enough SACKed above, at once, each once.
    #[test]
    fn sack_finds_all_holes() {
        let mut rig = Rig::new(Sack6675::new(), 12);
        assert!(!rig.ack(0, &[(2, 3)]));
        assert!(!rig.ack(0, &[(5, 6), (2, 3)]));
        assert!(rig.ack(0, &[(5, 7), (2, 3)]));
        assert_eq!(
            (rig.retransmit(), rig.retransmit(), rig.retransmit()),
            (Some(0), Some(1), None)
        );
        assert!(rig.ack(0, &[(5, 8), (2, 3)]));
        assert_eq!(
            (rig.retransmit(), rig.retransmit(), rig.retransmit()),
            (Some(3), Some(4), None)
        );
        // A lost retransmission is for the timeout.
        assert!(!rig.ack(0, &[(5, 12), (2, 3)]));
        assert_eq!(rig.retransmit(), None);
        rig.rto();
        assert_eq!(rig.retransmit(), Some(0));
        assert!(!rig.ack(5, &[]));
    }

    /// RFC 6675 section 5 step 2: three duplicate ACKs of short segments are enough.
    #[test]
    fn sack_counts_duplicate_acks_too() {
        let mut rig = Rig::new(Sack6675::new(), 0);
        for _ in 0..6 {
            let end = rig.board.end() + 100;
            rig.board.push(end, Instant::ZERO, 0);
        }
        for i in 2..=3 {
            rig.board.sack(&[(101, 1 + i * 100)], |_| {});
            assert!(!rig.ack(0, &[]));
        }
        rig.board.sack(&[(101, 401)], |_| {});
        assert!(rig.ack(0, &[]));
        assert_eq!(rig.retransmit(), Some(0));
    }

    /// RFC 6675 section 4, `NextSeg` rule 3, then one rescue (rule 4) for each recovery.
    #[test]
    fn sack_speculates_by_the_rules() {
        let mut rig = Rig::new(Sack6675::new(), 12);
        rig.ack(0, &[(1, 2), (3, 4), (5, 7)]);
        assert_eq!((rig.retransmit(), rig.retransmit()), (Some(0), Some(2)));
        assert_eq!(rig.retransmit(), None);
        let mut speculate = || {
            let next = rig.detector.speculate(&mut rig.board, rig.recovery_point);
            if let Some(next) = next {
                rig.board.on_retransmit(next.start, Instant::ZERO, 0);
            }
            next.map(|r| r.start / MSS)
        };
        assert_eq!(speculate(), Some(4), "unSACKed below the highest SACKed");
        assert_eq!(speculate(), None, "the first has not arrived");
        rig.ack(2, &[(3, 4), (5, 7)]);
        let mut speculate = || {
            let next = rig.detector.speculate(&mut rig.board, rig.recovery_point);
            next.map(|r| r.start / MSS)
        };
        assert_eq!(speculate(), Some(11), "the highest outstanding");
        assert_eq!(speculate(), None, "one for each recovery");
    }

    /// ... also where the ACK that filled the hole left nothing SACKed: a hole, and the tail.
    #[test]
    fn rfc6675_4_the_rescue_needs_no_sacked_data() {
        let mut rig = Rig::new(Sack6675::new(), 10);
        rig.ack(0, &[(1, 9)]);
        assert_eq!(rig.retransmit(), Some(0));
        rig.ack(9, &[]);
        let mut speculate = || {
            let next = rig.detector.speculate(&mut rig.board, rig.recovery_point);
            next.map(|r| r.start / MSS)
        };
        assert_eq!(speculate(), Some(9));
        assert_eq!(speculate(), None, "one for each recovery");
    }

    /// The third duplicate ACK, and everything that was sent behind the first.
    #[test]
    fn three_duplicate_acks_condemn_all_that_is_outstanding() {
        let mut board = Scoreboard::new();
        board.set_start(1);
        for n in 1..=10 {
            board.push(1 + n * 1_000, Instant::ZERO, 0);
        }
        let mut detector = GoBackN::default();
        let rtt = RttEstimator::new();
        for dup_acks in 1..=3 {
            let mut facts = AckFacts::new(Instant::ZERO, ByteCount::new(1_000), &rtt);
            facts.dup_acks = dup_acks;
            facts.recovery_point = 1;
            detector.on_ack(&facts, &mut board);
            assert_eq!(!board.lost().is_zero(), dup_acks == 3);
        }
        assert!(board.iter().all(|record| record.is_lost()));
        assert_eq!(board.lost(), ByteCount::new(10_000));
    }
}
