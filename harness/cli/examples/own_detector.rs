//! A loss detector of one's own: written in under 50 lines and run by name through the whole
//! `narrows` command.
//!
//! ```text
//! cargo run --release --example own_detector -- list
//! cargo run --release --example own_detector -- incast --cc reno --rto linux --loss sack,early
//! ```
//!
//! `early` is RFC 6675 with the early retransmit of RFC 5827: where so few segments are
//! outstanding that three SACKs above a hole can never come, it is content with fewer. Windows of
//! two or three segments are what an incast is made of.

use narrows::congestion::Instant;
use narrows::recovery::detector::{AckFacts, LossDetector};
use narrows::recovery::dup_thresh::Sack6675;
use narrows::recovery::scoreboard::{AbsSeq, Scoreboard, SentSegment};

#[derive(Debug, Default)]
pub(crate) struct Early {
    rfc6675: Sack6675,
}

impl LossDetector for Early {
    fn name(&self) -> &'static str {
        "early"
    }
    fn on_ack(&mut self, facts: &AckFacts<'_>, board: &mut Scoreboard) {
        // `ER_thresh` of RFC 5827 section 3.2: all but the one that is missing.
        let others = u32::try_from(board.len())
            .unwrap_or(u32::MAX)
            .saturating_sub(1);
        let mut facts = *facts;
        facts.dup_thresh = facts.dup_thresh.min(others.max(1));
        self.rfc6675.on_ack(&facts, board);
    }
    fn on_rto(&mut self, now: Instant, board: &mut Scoreboard) {
        self.rfc6675.on_rto(now, board);
    }
    fn speculate(&mut self, board: &mut Scoreboard, recovery_point: AbsSeq) -> Option<SentSegment> {
        self.rfc6675.speculate(board, recovery_point)
    }
}

// That was the detector. From here on: the command that knows it.

use narrows_cli::{App, catalog::Catalog};
use std::process::ExitCode;
use std::sync::Arc;

/// The `narrows` command with one more name.
pub(crate) fn app() -> App {
    let mut catalog = Catalog::default();
    catalog.registry.detectors_mut().register_arc(
        "early",
        "sack, content with fewer where few are outstanding (RFC 5827)",
        Arc::new(Early::default),
    );
    App::new(catalog)
}

fn main() -> ExitCode {
    app().main()
}
