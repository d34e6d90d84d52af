//! Loss detection: which of the records on the scoreboard are lost.
//!
//! A detector judges, it does not act: it puts LOST marks on the [`Scoreboard`], and the engine
//! enters recovery, cuts the window and retransmits.

use super::dup_thresh::{GoBackN, NewReno, Reno, Sack6675};
use super::rack::RackTlp;
use super::scoreboard::{AbsSeq, Scoreboard, SentSegment};
use narrows_congestion::registry::Registry;
use narrows_congestion::{ByteCount, CaState, Instant, RttEstimator};
use std::fmt::Debug;
use std::sync::Arc;

/// `DupThresh` of RFC 5681 section 3.2 and RFC 6675 section 2.
pub const DUP_THRESH: u32 = 3;

/// What one ACK told, and where recovery stands as it comes in. The scoreboard has already
/// taken in the ACK.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AckFacts<'a> {
    /// The time of the call.
    pub now: Instant,
    /// SND.UNA advanced.
    pub una_advanced: bool,
    /// Bytes newly delivered, by acknowledgement or SACK.
    pub newly_delivered: ByteCount,
    /// Bytes newly SACKed; part of `newly_delivered`.
    pub newly_sacked: ByteCount,
    /// Duplicate ACKs in a row (RFC 5681 section 2); with SACK, ACKs in a row that left SND.UNA
    /// and brought new SACK information (RFC 6675 section 2).
    pub dup_acks: u32,
    /// The ACK carries a D-SACK block (RFC 2883).
    pub dsack: bool,
    /// Of the newly delivered records the one sent last. Leave it out, or pass the next one, if
    /// the timestamp echo says that the ACK is for an earlier transmission of it (RFC 8985
    /// section 6.2 step 1).
    pub newest: Option<SentSegment>,
    /// Round-trip time, with the sample of this ACK if it gave one.
    pub rtt: &'a RttEstimator,
    /// The effective segment size.
    pub mss: ByteCount,
    /// Where recovery stands before this ACK is judged.
    pub ca_state: CaState,
    /// `RecoveryPoint` of RFC 6675, `recover` of RFC 6582: one past the highest sequence number
    /// sent when the present or last recovery began.
    pub recovery_point: AbsSeq,
    /// `DupThresh`; 3 unless reordering raised it.
    pub dup_thresh: u32,
    /// First ACK of a new round trip.
    pub round_start: bool,
}

impl<'a> AckFacts<'a> {
    /// An ACK that told nothing, in an open connection. Set the fields that matter.
    pub fn new(now: Instant, mss: ByteCount, rtt: &'a RttEstimator) -> Self {
        Self {
            now,
            una_advanced: false,
            newly_delivered: ByteCount::ZERO,
            newly_sacked: ByteCount::ZERO,
            dup_acks: 0,
            dsack: false,
            newest: None,
            rtt,
            mss,
            ca_state: CaState::Open,
            recovery_point: 0,
            dup_thresh: DUP_THRESH,
            round_start: false,
        }
    }

    /// In fast recovery or in recovery from a timeout.
    pub fn in_recovery(&self) -> bool {
        matches!(self.ca_state, CaState::Recovery | CaState::Loss)
    }
}

/// A loss detection algorithm.
///
/// # What the engine promises
/// - Each ACK is reported, by [`on_ack`](Self::on_ack) unless
///   [`on_progress`](Self::on_progress) was enough, after the scoreboard took it in; not if nothing
///   about it is suspicious and the detector [does not want it](Self::heeds_progress).
/// - [`on_reorder_timeout`](Self::on_reorder_timeout) comes at or after
///   [`reorder_deadline`](Self::reorder_deadline), never without one.
///
/// # What the detector promises
/// - It marks records lost, through the scoreboard, and changes nothing else there. What it has
///   marked is what it has found.
/// - No clock, no randomness, no I/O.
pub trait LossDetector: Debug + Send {
    /// The registry name, lower case: `"rack"`.
    fn name(&self) -> &'static str;

    /// An ACK arrived.
    fn on_ack(&mut self, facts: &AckFacts<'_>, board: &mut Scoreboard);

    /// An ACK of new data with nothing amiss: no D-SACK, nothing SACKed, lost, or sent
    /// twice, no recovery; `newest` is what it delivered last. Who [heeds](Self::heeds_progress) such
    /// ACKs may be quick about them, and answers with true; if not,
    /// [`on_ack`](Self::on_ack) is told all of it.
    fn on_progress(&mut self, newest: &SentSegment, now: Instant, rtt: &RttEstimator) -> bool {
        let _ = (newest, now, rtt);
        false
    }

    /// The reordering timer fired.
    fn on_reorder_timeout(&mut self, now: Instant, rtt: &RttEstimator, board: &mut Scoreboard) {
        let _ = (now, rtt, board);
    }

    /// When to call [`on_reorder_timeout`](Self::on_reorder_timeout), if at all. May change
    /// with each call of an `on_*`. Not asked of who [heeds](Self::heeds_progress) no ACK of new data.
    fn reorder_deadline(&self) -> Option<Instant> {
        None
    }

    /// The retransmission timer fired: mark what it tells to be lost. The first record must be
    /// among it.
    fn on_rto(&mut self, now: Instant, board: &mut Scoreboard) {
        let _ = now;
        board.mark_all_lost();
    }

    /// The last loss was none: what was taken for the delivery of a retransmission was that of
    /// the original. The LOST marks are gone already.
    fn on_undo(&mut self) {}

    /// An ACK of new data is news to it though nothing is SACKed, lost, or sent twice, and no
    /// recovery goes on. Asked once.
    fn heeds_progress(&self) -> bool {
        true
    }

    /// It wants the tail loss probe of RFC 8985 section 7. Asked once.
    fn tail_loss_probe(&self) -> bool {
        false
    }

    /// Fast recovery ends with the first ACK that advances SND.UNA (RFC 2581), instead of with
    /// the one that reaches the recovery point.
    fn exits_on_partial_ack(&self) -> bool {
        false
    }

    /// Without SACK every partial ACK of a fast recovery restarts the retransmission timer: a hole is
    /// mended in each round trip, however many there are. If not, only the first does, so that a window
    /// with many holes ends in a timeout and slow start, as in RFC 6582 section 3.2. Section 4 tells
    /// these variants apart, "slow but steady" and "impatient".
    fn is_slow_but_steady(&self) -> bool {
        false
    }

    /// The first outstanding segment leaves the retransmission timer alone when it leaves again in a fast
    /// recovery: the timer counts from the last ACK that advanced SND.UNA, and fires the sooner for it
    /// where the retransmission is lost, or late. The simulators ns-3 and htsim do so. If not, it
    /// restarts it: no segment leaves again within an RTO of the last time (RFC 6298 section 5). Linux
    /// does so, too.
    fn timer_runs_on(&self) -> bool {
        false
    }

    /// It needs SACK: where the peer has none, [`NewReno`] goes on in its stead. If not, the connection
    /// does not negotiate it.
    fn uses_sack(&self) -> bool {
        true
    }

    /// In fast recovery, when nothing lost waits and no new data may be sent: a record to send
    /// again on suspicion (RFC 6675 section 4, `NextSeg` rules 3 and 4). The answer is
    /// taken as sent.
    fn speculate(&mut self, board: &mut Scoreboard, recovery_point: AbsSeq) -> Option<SentSegment> {
        let _ = (board, recovery_point);
        None
    }
}

impl<D: LossDetector + 'static> From<D> for Box<dyn LossDetector> {
    fn from(detector: D) -> Self {
        Box::new(detector)
    }
}

/// Makes one detector for each connection. Closures are factories:
///
/// ```
/// use narrows::recovery::{DetectorFactory, rack::RackTlp};
/// let factory: &dyn DetectorFactory = &|| RackTlp::new();
/// assert_eq!(factory.build().name(), "rack");
/// // Of a detector that is known only then, too.
/// let factory: &dyn DetectorFactory = &|| factory.build();
/// assert_eq!(factory.build().name(), "rack");
/// ```
pub trait DetectorFactory: Send + Sync {
    /// A fresh detector.
    fn build(&self) -> Box<dyn LossDetector>;
}

impl<F: Fn() -> D + Send + Sync, D: Into<Box<dyn LossDetector>>> DetectorFactory for F {
    fn build(&self) -> Box<dyn LossDetector> {
        self().into()
    }
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
    let mut add = |name, about, build: fn() -> Box<dyn LossDetector>| {
        all.register_arc(name, about, Arc::new(build));
    };
    add(
        "reno",
        "three duplicate ACKs, recovery ends at the first new ACK; no SACK (RFC 2581)",
        || Box::new(Reno::new()),
    );
    add(
        "newreno",
        "three duplicate ACKs, a partial ACK tells of the next loss; no SACK (RFC 6582)",
        || Box::new(NewReno::new()),
    );
    add(
        "go-back-n",
        "three duplicate ACKs condemn all that is outstanding; no SACK",
        || Box::new(GoBackN::default()),
    );
    add("sack", "three segments SACKed above (RFC 6675)", || {
        Box::new(Sack6675::new())
    });
    add(
        "rack",
        "time since a later transmission was delivered, with tail loss probe (RFC 8985)",
        || Box::new(RackTlp::new()),
    );
    add("rack-notlp", "as rack, without the tail loss probe", || {
        Box::new(RackTlp::without_probe())
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::scoreboard::{Scoreboard, SentSegment};
    use narrows_congestion::{ByteCount, CaState, Duration, Instant, RttEstimator};
    use proptest::prelude::*;

    #[test]
    fn names_of_the_registry_are_those_of_the_detectors() {
        let all = standard();
        for entry in all.entries() {
            let built = all.get(entry.name()).unwrap().build();
            assert_eq!(built.name(), entry.name());
            let counts_duplicates = ["reno", "newreno", "go-back-n"].contains(&entry.name());
            assert_eq!(built.uses_sack(), !counts_duplicates);
            assert_eq!(built.tail_loss_probe(), entry.name() == "rack");
            assert_eq!(built.exits_on_partial_ack(), entry.name() == "reno");
        }
        assert!(all.get("fack").is_err());
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
            which in 0usize..standard().entries().len(),
            sack_ok in any::<bool>(),
            acks in proptest::collection::vec(
                (0u64..3, 0u64..12, 0u64..40, 1u64..30, 0u64..200, 0u32..6, 0u8..10), 1..80),
        ) {
            const STATES: [CaState; 5] = [
                CaState::Open, CaState::Disorder, CaState::Cwr, CaState::Recovery, CaState::Loss,
            ];
            let all = standard();
            let name = all.entries().nth(which).unwrap().name();
            let mut detector = all.get(name).unwrap().build();
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
