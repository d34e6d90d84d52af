//! Loss detection that goes back: duplicate ACKs condemn all that is outstanding.

use crate::recovery::dup_thresh::NewReno;
use crate::recovery::loss_detector::{AckFacts, LossDetector};
use crate::recovery::scoreboard::Scoreboard;
use narrows_congestion::Instant;

/// Go-back-N: the `DupThresh` duplicate ACKs that condemn the first segment of [`NewReno`] condemn all
/// behind it, too: what is not acknowledged when its turn comes is sent again, what the receiver has
/// among it. 4.3BSD-Tahoe goes back so, with a window of one segment; here the window is what the
/// congestion control and PRR make of it, as in no system known to us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GoBackN {
    duplicates: NewReno,
}

impl GoBackN {
    /// A detector.
    pub const fn new() -> Self {
        Self {
            duplicates: NewReno::new(),
        }
    }
}

impl LossDetector for GoBackN {
    fn name(&self) -> &'static str {
        "go-back-n"
    }

    fn on_ack(&mut self, facts: &AckFacts<'_>, board: &mut Scoreboard) {
        let before = board.condemned();
        self.duplicates.on_ack(facts, board);
        if board.condemned() > before && !facts.in_recovery() {
            board.mark_all_lost();
        }
    }

    fn on_rto(&mut self, now: Instant, board: &mut Scoreboard) {
        self.duplicates.on_rto(now, board);
    }

    fn on_undo(&mut self) {
        self.duplicates.on_undo();
    }

    fn heeds_progress(&self) -> bool {
        false
    }

    fn uses_sack(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_congestion::{ByteCount, RttEstimator};

    /// The third duplicate ACK, and everything that was sent behind the first.
    #[test]
    fn three_duplicate_acks_condemn_all_that_is_outstanding() {
        let mut board = Scoreboard::new();
        board.set_start(1);
        for n in 1..=10 {
            board.push(1 + n * 1_000, Instant::ZERO, 0);
        }
        let mut detector = GoBackN::new();
        let rtt = RttEstimator::new();
        for dup_acks in 1..=3 {
            let mut facts = AckFacts::new(Instant::ZERO, ByteCount::new(1_000), &rtt);
            facts.sack_ok = false;
            facts.dup_acks = dup_acks;
            facts.recovery_point = 1;
            detector.on_ack(&facts, &mut board);
            assert_eq!(!board.lost().is_zero(), dup_acks == 3);
        }
        assert!(board.iter().all(|record| record.is_lost()));
        assert_eq!(board.lost(), ByteCount::new(10_000));
    }
}
