//! What the TCPs of other simulators do otherwise, done by ours: to see which of it makes their
//! figures. Built on the public seams, and not to be had on the command line.

use crate::Bench;
use narrows::congestion::{
    AckSample, CaState, CongestionControl, CongestionEvent, CongestionRegistry, FlowStart,
    FlowView, Lower, Reno,
};
use narrows::recovery::detector::{self, AckFacts, LossDetector};
use narrows::recovery::dup_thresh::{NewReno, Sack6675};
use narrows::recovery::scoreboard::{AbsSeq, Scoreboard, SentSegment};
use narrows::{ByteCount, Instant};
use narrows_experiment::model::Experiment;
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::{IncastRun, ScenarioError};
use std::sync::Arc;

/// The name of [`UncountedEnd`].
pub(super) const UNCOUNTED_END: &str = "uncounted-end";
/// The name of [`Steady`].
pub(super) const STEADY: &str = "steady";
/// The name of [`RunsOn`].
pub(super) const RUNS_ON: &str = "runs-on";

/// One incast of `spec`, which may name what is here.
///
/// # Errors
/// Those of the runner.
pub(super) fn incast(bench: &Bench<'_>, spec: &Experiment) -> Result<IncastRun, ScenarioError> {
    let mut congestion = CongestionRegistry::standard();
    congestion.register(
        UNCOUNTED_END,
        "grows by nothing when a timeout is repaired",
        |s: &FlowStart| UncountedEnd {
            reno: Reno::new(s),
            to_recover: ByteCount::ZERO,
        },
    );
    let mut detectors = detector::standard();
    let steady = Arc::new(|| Steady(NewReno::new(), true));
    detectors.register_arc(STEADY, "every partial ACK restarts the timer", steady);
    #[cfg(test)]
    {
        let impatient = Arc::new(|| Steady(NewReno::new(), false));
        detectors.register_arc(tests::IMPATIENT, "only the first does", impatient);
    }
    let runs_on = Arc::new(|| RunsOn(Sack6675::new()));
    detectors.register_arc(
        RUNS_ON,
        "no fast retransmission restarts the timer",
        runs_on,
    );
    let registry = Registry {
        congestion: Arc::new(congestion),
        detectors: Arc::new(detectors),
        ..Registry::default()
    };
    bench.incast_with(spec, &registry)
}

/// ns-3's end of the repair of a timeout. Its `TcpSocketBase::ProcessAck` counts of the ACK that
/// reaches the recovery point only what is beyond that point, which is nothing where nothing new
/// was sent: the window of a segment stays one. RFC 5681 section 3.1 has it grow by a segment.
#[derive(Debug)]
struct UncountedEnd {
    reno: Reno,
    /// What was outstanding at the last timeout and has not been acknowledged.
    to_recover: ByteCount,
}

impl CongestionControl for UncountedEnd {
    fn name(&self) -> &'static str {
        UNCOUNTED_END
    }
    fn cwnd(&self) -> ByteCount {
        self.reno.cwnd()
    }
    fn ssthresh(&self) -> ByteCount {
        self.reno.ssthresh()
    }
    fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
        let mut counted = *ack;
        if flow.ca_state == CaState::Loss {
            let repaired = ack.acked.min(self.to_recover);
            self.to_recover -= repaired;
            if self.to_recover.is_zero() {
                counted.acked = ack.acked - repaired;
                counted.delivered = counted.delivered.min(counted.acked);
            }
        }
        self.reno.on_ack(&counted, flow);
    }
    fn on_congestion_event(&mut self, event: CongestionEvent, flow: &FlowView<'_>) {
        self.reno.on_congestion_event(event, flow);
    }
    fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>) {
        self.to_recover = flow.flight_size;
        self.reno.on_rto(consecutive, flow);
    }
    fn on_lower(&mut self, window: ByteCount, why: Lower, flow: &FlowView<'_>) {
        if why == Lower::Deflate {
            self.reno.on_lower(window, why, flow);
        }
    }
}

/// NewReno whose every partial ACK restarts the retransmission timer, the "slow but steady" one
/// of RFC 6582 section 4. htsim's is of this kind.
#[derive(Debug)]
struct Steady(NewReno, bool);

impl LossDetector for Steady {
    fn name(&self) -> &'static str {
        STEADY
    }
    fn on_ack(&mut self, facts: &AckFacts<'_>, board: &mut Scoreboard) {
        self.0.on_ack(facts, board);
    }
    fn on_rto(&mut self, now: Instant, board: &mut Scoreboard) {
        self.0.on_rto(now, board);
    }
    fn is_slow_but_steady(&self) -> bool {
        self.1
    }
    fn timer_runs_on(&self) -> bool {
        true
    }
    fn uses_sack(&self) -> bool {
        false
    }
}

/// RFC 6675 whose fast retransmissions leave the timer alone, as ns-3 does.
#[derive(Debug)]
struct RunsOn(Sack6675);

impl LossDetector for RunsOn {
    fn name(&self) -> &'static str {
        RUNS_ON
    }
    fn on_ack(&mut self, facts: &AckFacts<'_>, board: &mut Scoreboard) {
        self.0.on_ack(facts, board);
    }
    fn on_rto(&mut self, now: Instant, board: &mut Scoreboard) {
        self.0.on_rto(now, board);
    }
    fn on_undo(&mut self) {
        self.0.on_undo();
    }
    fn timer_runs_on(&self) -> bool {
        true
    }
    fn speculate(&mut self, board: &mut Scoreboard, recovery_point: AbsSeq) -> Option<SentSegment> {
        self.0.speculate(board, recovery_point)
    }
}

#[cfg(test)]
mod tests {
    use super::super::grid::{Cell, Variant};
    use super::*;
    use narrows::congestion::RttEstimator;
    use std::sync::atomic::AtomicBool;

    const MSS: ByteCount = ByteCount::new(1_000);
    /// [`Steady`] that is not.
    pub(super) const IMPATIENT: &str = "impatient";

    /// RFC 6582 section 4: with a timer that each partial ACK restarts a recovery ends less often
    /// in a timeout.
    #[test]
    fn a_steady_sender_times_out_less_often() {
        let never = AtomicBool::new(false);
        let bench = Bench::new(&never, &|_| {});
        let mut spec = Cell {
            rate_gbps: 1,
            servers: 8,
            rto_min_ms: 1,
            variant: Variant::Htsim,
        }
        .spec();
        let steady = incast(&bench, &spec).unwrap().timeouts.total();
        spec.host.tcp.loss_detector = IMPATIENT.to_owned();
        let impatient = incast(&bench, &spec).unwrap().timeouts.total();
        assert!(steady * 5 < impatient * 4, "{steady}, {impatient}");
    }

    /// A window of one segment after a timeout: the ACK of that segment makes it two in RFC 5681,
    /// and leaves it one where it ends the repair; before the end both grow.
    #[test]
    fn the_ack_that_ends_the_repair_counts_for_nothing() {
        let rtt = RttEstimator::new();
        let mut flow = FlowView::new(Instant::ZERO, MSS, &rtt);
        flow.flight_size = MSS * 2;
        let start = FlowStart::new(MSS, MSS * 10);
        let mut habit = UncountedEnd {
            reno: Reno::new(&start),
            to_recover: ByteCount::ZERO,
        };
        let mut reno = Reno::new(&start);
        habit.on_rto(1, &flow);
        reno.on_rto(1, &flow);
        flow.ca_state = CaState::Loss;
        let mut ack = AckSample::default();
        (ack.acked, ack.delivered) = (MSS, MSS);
        habit.on_ack(&ack, &flow);
        reno.on_ack(&ack, &flow);
        assert_eq!((habit.cwnd(), reno.cwnd()), (MSS * 2, MSS * 2));
        habit.on_rto(1, &flow);
        flow.flight_size = MSS;
        habit.on_rto(2, &flow);
        habit.on_ack(&ack, &flow);
        assert_eq!(habit.cwnd(), MSS);
    }
}
