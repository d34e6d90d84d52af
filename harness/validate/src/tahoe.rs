//! Tahoe, the TCP of 1988, for comparison with ns-2's: the third duplicate ACK is taken for the
//! loss of all that is outstanding, the window falls to one segment, and slow start begins anew.
//!
//! Made of the two public seams, a loss detector and a congestion control, and not to be had on the
//! command line: no TCP in use does this.

use super::Bench;
use crate::set_up::seeded;
use narrows::congestion::{
    AckSample, CaState, CongestionControl, CongestionEvent, CongestionRegistry, FlowStart,
    FlowView, Reno,
};
use narrows::recovery::detector::{self, AckFacts, LossDetector};
use narrows::recovery::scoreboard::{AbsSeq, Scoreboard};
use narrows::{ByteCount, Instant};
use narrows_experiment::model::Experiment;
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::ScenarioError;
use std::sync::Arc;

/// The name of both parts.
const TAHOE: &str = "tahoe";

/// Goodput of `experiment` in Mb/s with Tahoe, for each of `seeds`.
pub(super) fn goodput(
    bench: &Bench<'_>,
    experiment: &Experiment,
    seeds: impl IntoIterator<Item = u64>,
) -> Result<Vec<f64>, ScenarioError> {
    let mut experiment = experiment.clone();
    experiment.host.tcp.congestion = TAHOE.to_owned();
    experiment.host.tcp.loss_detector = TAHOE.to_owned();
    let registry = registry();
    let run = |seed| {
        bench.checkpoint()?;
        let run = bench.incast_with(&seeded(&experiment, seed), &registry)?;
        Ok(run.goodput.bits_per_sec() as f64 / 1e6)
    };
    seeds.into_iter().map(run).collect()
}

/// A registry that knows it.
fn registry() -> Registry {
    let mut congestion = CongestionRegistry::standard();
    congestion.register(TAHOE, "to one segment on any loss", |s: &FlowStart| {
        Tahoe(Reno::new(s))
    });
    let mut detectors = detector::standard();
    let go_back = Arc::new(GoBack::default);
    detectors.register_arc(TAHOE, "goes back to the first hole", go_back);
    Registry {
        congestion: Arc::new(congestion),
        detectors: Arc::new(detectors),
        ..Registry::default()
    }
}

/// Condemns everything on the third duplicate ACK: again and again, as ns-2 has it, but after a
/// timeout not for what was sent before it.
#[derive(Debug, Default)]
struct GoBack {
    recover: AbsSeq,
}

impl LossDetector for GoBack {
    fn name(&self) -> &'static str {
        TAHOE
    }

    fn on_ack(&mut self, facts: &AckFacts<'_>, board: &mut Scoreboard) {
        let enough = !facts.una_advanced && facts.dup_acks == facts.dup_thresh;
        if enough && board.una() > self.recover {
            self.recover = 0;
            board.mark_all_lost();
        }
    }

    fn on_rto(&mut self, _: Instant, board: &mut Scoreboard) {
        self.recover = board.end();
        board.mark_all_lost();
    }

    fn uses_sack(&self) -> bool {
        false
    }
}

/// Reno for which a loss is a timeout, and which grows while what was lost goes again.
#[derive(Debug)]
struct Tahoe(Reno);

impl CongestionControl for Tahoe {
    fn name(&self) -> &'static str {
        TAHOE
    }
    fn cwnd(&self) -> ByteCount {
        self.0.cwnd()
    }
    fn ssthresh(&self) -> ByteCount {
        self.0.ssthresh()
    }
    fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
        let mut flow = *flow;
        if flow.ca_state == CaState::Recovery {
            flow.ca_state = CaState::Loss;
        }
        self.0.on_ack(ack, &flow);
    }
    fn on_congestion_event(&mut self, _: CongestionEvent, flow: &FlowView<'_>) {
        self.0.on_rto(1, flow);
    }
    fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>) {
        self.0.on_rto(consecutive, flow);
    }
}
