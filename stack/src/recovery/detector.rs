//! The loss detectors of this crate, by name.

use super::dup_thresh::{NewReno, Reno, Sack6675};
use super::go_back_n::GoBackN;
use super::rack::RackTlp;
use narrows_congestion::registry::Registry;
use std::sync::Arc;

pub use super::loss_detector::{
    AckFacts, DUP_THRESH, DetectorFactory, FastRetransmitTimer, LossDetector, PartialAcks,
};

/// A detector that is picked by name.
#[derive(Clone, Copy, Debug)]
pub struct DetectorEntry {
    /// What the detector's `name` says.
    pub name: &'static str,
    /// One line for a person who chooses.
    pub description: &'static str,
    build: fn() -> Box<dyn LossDetector>,
}

impl DetectorFactory for DetectorEntry {
    fn build(&self) -> Box<dyn LossDetector> {
        (self.build)()
    }
}

/// The detectors of this crate.
pub fn registry() -> &'static [DetectorEntry] {
    &[
        DetectorEntry {
            name: "reno",
            description: "three duplicate ACKs, recovery ends at the first new ACK; no SACK (RFC 2581)",
            build: || Box::new(Reno::new()),
        },
        DetectorEntry {
            name: "newreno",
            description: "three duplicate ACKs, a partial ACK tells of the next loss; no SACK (RFC 6582)",
            build: || Box::new(NewReno::new()),
        },
        DetectorEntry {
            name: "go-back-n",
            description: "three duplicate ACKs condemn all that is outstanding; no SACK",
            build: || Box::new(GoBackN::new()),
        },
        DetectorEntry {
            name: "sack",
            description: "three segments SACKed above (RFC 6675)",
            build: || Box::new(Sack6675::new()),
        },
        DetectorEntry {
            name: "rack",
            description: "time since a later transmission was delivered, with tail loss probe (RFC 8985)",
            build: || Box::new(RackTlp::new()),
        },
        DetectorEntry {
            name: "rack-notlp",
            description: "as rack, without the tail loss probe",
            build: || Box::new(RackTlp::without_probe()),
        },
    ]
}

/// Loss detectors by name, for command lines and sweeps; users add theirs:
///
/// ```
/// use narrows::recovery::{detector, rack::RackTlp};
/// use std::sync::Arc;
///
/// let mut registry = detector::standard();
/// registry.register_arc("mine", "RACK-TLP under another name", Arc::new(|| RackTlp::new()));
/// assert!(registry.get("mine").is_ok());
/// let error = registry.get("rakc").err().unwrap();
/// assert_eq!(error.to_string(), "no loss detector 'rakc'; did you mean 'rack'?");
/// ```
pub type DetectorRegistry = Registry<dyn DetectorFactory>;

/// A registry with the detectors of this crate.
pub fn standard() -> DetectorRegistry {
    let mut all = DetectorRegistry::empty("loss detector");
    for entry in registry() {
        all.register_arc(entry.name, entry.description, Arc::new(*entry));
    }
    all
}

/// The detector of that name.
pub fn by_name(name: &str) -> Option<&'static DetectorEntry> {
    registry().iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::scoreboard::{Scoreboard, SentSegment};
    use narrows_congestion::{ByteCount, CaState, Duration, Instant, RttEstimator};
    use proptest::prelude::*;

    #[test]
    fn names_of_the_registry_are_those_of_the_detectors() {
        for entry in registry() {
            let built = by_name(entry.name).unwrap().build();
            assert_eq!(built.name(), entry.name);
            let counts_duplicates = ["reno", "newreno", "go-back-n"].contains(&entry.name);
            assert_eq!(built.uses_sack(), !counts_duplicates);
            assert_eq!(built.tail_loss_probe(), entry.name == "rack");
            assert_eq!(built.exits_on_partial_ack(), entry.name == "reno");
        }
        assert!(by_name("fack").is_none());
    }

    fn waiting(board: &Scoreboard) -> ByteCount {
        let waits = |r: &SentSegment| r.is_lost() && !r.in_flight_retransmission();
        board.iter().filter(waits).map(|r| r.len()).sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Any ACKs, in any state: no panic, the board stays consistent, what is condemned grows
        /// exactly with new lost bytes, SACKed data is never judged, and a deadline lies
        /// ahead.
        #[test]
        fn any_acks(
            which in 0usize..registry().len(),
            sack_ok in any::<bool>(),
            acks in proptest::collection::vec(
                (0u64..3, 0u64..12, 0u64..40, 1u64..30, 0u64..200, 0u32..6, 0u8..10), 1..80),
        ) {
            const STATES: [CaState; 5] = [
                CaState::Open, CaState::Disorder, CaState::Cwr, CaState::Recovery, CaState::Loss,
            ];
            let mut detector = registry()[which].build();
            let mut board = Scoreboard::new();
            board.set_start(1);
            let mut rtt = RttEstimator::new();
            let mut now = Instant::ZERO;
            for (ack, send, from, len, time, dup_acks, what) in acks {
                now = now + Duration::from_nanos(time);
                for _ in 0..send {
                    board.push(board.end() + 10, now, 0);
                }
                let mut newest = None;
                let mut each = |r: &SentSegment| newest = Some(*r);
                let acked = board.ack(board.una() + ack * 10, &mut each);
                let from = board.una() + from * 10;
                let sacked = if sack_ok && from < board.end() {
                    board.sack(&[(from, (from + len * 10).min(board.end()))], &mut each)
                } else {
                    ByteCount::ZERO
                };
                if what < 5 {
                    rtt.on_sample(Duration::from_nanos(time + 1), now);
                }
                let mut facts = AckFacts::new(now, ByteCount::new(10), &rtt);
                facts.una_advanced = !acked.is_zero();
                facts.newly_delivered = acked + sacked;
                facts.newly_sacked = sacked;
                facts.dup_acks = dup_acks;
                facts.dsack = what == 7;
                facts.newest = newest;
                facts.sack_ok = sack_ok;
                facts.ca_state = STATES[usize::from(what) % 5];
                facts.recovery_point = board.end();
                let before = (waiting(&board), board.lost(), board.sacked());
                let condemned = board.condemned();
                detector.on_ack(&facts, &mut board);
                let more = waiting(&board) > before.0 || board.lost() > before.1;
                prop_assert_eq!(board.condemned() > condemned, more);
                prop_assert_eq!(board.sacked(), before.2);
                if let Some(deadline) = detector.reorder_deadline() {
                    prop_assert!(deadline > now);
                    if what == 8 {
                        now = deadline;
                        let before = board.condemned();
                        detector.on_reorder_timeout(now, &rtt, &mut board);
                        prop_assert!(board.condemned() > before);
                    }
                }
                if what == 9 {
                    detector.on_rto(now, &mut board);
                    prop_assert!(board.first().is_none_or(|r| r.is_lost() || r.is_sacked()));
                }
                while let Some(next) = board.next_lost().filter(|_| what % 2 == 0) {
                    board.on_retransmit(next.start, now, 0);
                }
                if let Some(next) = detector.speculate(&mut board, facts.recovery_point) {
                    prop_assert!(!next.is_sacked());
                    board.on_retransmit(next.start, now, 0);
                }
                board.check_invariants();
            }
        }
    }
}
