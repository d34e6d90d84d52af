//! Loss detection by counting: duplicate ACKs (RFC 5681, RFC 6582), or what is SACKed above
//! (RFC 6675).

use crate::recovery::detector::{AckFacts, LossDetector, Verdict};
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

    fn on_ack(&mut self, facts: &AckFacts<'_>, board: &mut Scoreboard) -> Verdict {
        if facts.in_recovery() || facts.una_advanced || facts.dup_acks < facts.dup_thresh {
            return Verdict::Nothing;
        }
        condemn_first(board)
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
pub struct NewReno {
    /// One past `recover`. Not the engine's recovery point, which ECN moves too.
    recover: AbsSeq,
}

impl NewReno {
    /// A detector.
    pub const fn new() -> Self {
        Self { recover: 0 }
    }

    /// A timeout happened (step 6).
    pub(super) fn note_rto(&mut self, board: &Scoreboard) {
        self.recover = board.end();
    }
}

impl LossDetector for NewReno {
    fn name(&self) -> &'static str {
        "newreno"
    }

    fn on_ack(&mut self, facts: &AckFacts<'_>, board: &mut Scoreboard) -> Verdict {
        match facts.ca_state {
            CaState::Loss => Verdict::Nothing,
            CaState::Recovery => partial_ack(facts, board),
            CaState::Open | CaState::Disorder | CaState::Cwr => {
                let enough = !facts.una_advanced && facts.dup_acks >= facts.dup_thresh;
                if !enough || board.una() <= self.recover {
                    return Verdict::Nothing;
                }
                let verdict = condemn_first(board);
                if verdict == Verdict::NewLoss {
                    self.recover = board.end();
                }
                verdict
            }
        }
    }

    fn on_rto(&mut self, _now: Instant, board: &mut Scoreboard) {
        self.note_rto(board);
        board.mark_all_lost();
    }

    fn uses_sack(&self) -> bool {
        false
    }
}

/// The conservative SACK-based detection of RFC 6675: a segment is lost when `DupThresh`
/// discontiguous runs, or more than `(DupThresh - 1) * SMSS` bytes, above it are SACKed.
///
/// A retransmission that is lost again is left to the timeout. Without SACK on the connection it
/// does what [`NewReno`] does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sack6675 {
    /// `RescueRxt` of section 2: the recovery point for which the one rescue was made.
    rescue_rxt: AbsSeq,
    /// One past the highest record that rule 3 sent again.
    high_speculated: AbsSeq,
    without_sack: NewReno,
}

impl Sack6675 {
    /// A detector.
    pub const fn new() -> Self {
        Self {
            rescue_rxt: 0,
            high_speculated: 0,
            without_sack: NewReno::new(),
        }
    }
}

impl LossDetector for Sack6675 {
    fn name(&self) -> &'static str {
        "sack"
    }

    fn on_ack(&mut self, facts: &AckFacts<'_>, board: &mut Scoreboard) -> Verdict {
        if !facts.sack_ok {
            return self.without_sack.on_ack(facts, board);
        }
        if board.sacked().is_zero() {
            return Verdict::Nothing;
        }
        let judged = board.mark_lost_by_sacks(facts.dup_thresh, facts.mss);
        // Section 5 enters recovery on the count alone too: segments may be short of SMSS.
        let enough = !facts.una_advanced && facts.dup_acks >= facts.dup_thresh;
        if enough && !facts.in_recovery() && board.first().is_some_and(|r| !r.is_lost()) {
            return condemn_first(board);
        }
        Verdict::from_bytes(judged)
    }

    fn speculate(&mut self, board: &mut Scoreboard, recovery_point: AbsSeq) -> Option<SentSegment> {
        let highest = board.highest_sacked()?;
        let mut from = self.high_speculated.max(board.una());
        while let Some(&next) = board.next_unsacked(from) {
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
        let last = board.last_unsacked().copied()?;
        self.rescue_rxt = recovery_point;
        Some(last)
    }
}

/// Duplicate ACKs condemn the segment that the peer waits for.
fn condemn_first(board: &mut Scoreboard) -> Verdict {
    match board.first().map(|r| r.start) {
        Some(start) if board.mark_lost(start) => Verdict::NewLoss,
        _ => Verdict::Nothing,
    }
}

/// Without SACK, in recovery: an ACK that stops short of the recovery point condemns the
/// segment it stops at, unless a retransmission of that is on its way.
fn partial_ack(facts: &AckFacts<'_>, board: &mut Scoreboard) -> Verdict {
    let partial = facts.una_advanced && board.una() < facts.recovery_point;
    if partial && board.first().is_some_and(|r| !r.in_flight_retransmission()) {
        condemn_first(board)
    } else {
        Verdict::Nothing
    }
}
