//! The sender that the DCTCP paper's model describes, where it is not ours.

use crate::scenario::flows::{Flows, FlowsRun, FlowsSpec};
use crate::scenario::{RunContext, ScenarioError};
use crate::validate::Bench;
use narrows::ByteCount;
use narrows::congestion::{
    AckSample, CaState, CongestionControl, CongestionEvent, CongestionRegistry, Dctcp, FlowStart,
    FlowView, Needs, Variable,
};
use std::sync::Arc;

/// The same run with a sender that grows on in the round trip of a cut, as the model's does; a
/// packet of the model is `parts` segments.
pub(super) fn as_in_the_model(
    bench: &Bench<'_>,
    spec: &FlowsSpec,
    parts: u32,
) -> Result<FlowsRun, ScenarioError> {
    bench.checkpoint()?;
    let mut registry = CongestionRegistry::standard();
    registry.register(
        "growing-dctcp",
        "grows in the round of a cut",
        move |s: &FlowStart| Growing::new(s, parts),
    );
    let runner = Flows {
        congestion: Arc::new(registry),
        ..Flows::default()
    };
    let mut spec = spec.clone();
    spec.tcp.congestion = "growing-dctcp".to_owned();
    let ctx = RunContext {
        cancel: Some(bench.cancel()),
        ..RunContext::default()
    };
    runner.run(&spec, ctx)
}

/// DCTCP that does not heed RFC 3168 section 6.1.2, which wants no growth on ACKs that echo a
/// mark.
#[derive(Debug)]
struct Growing {
    inner: Dctcp,
    parts: u64,
}

impl Growing {
    fn new(start: &FlowStart, parts: u32) -> Self {
        let parts = u64::from(parts);
        let mut start = *start;
        start.mss = start.mss * parts;
        start.initial_window = start.initial_window * parts;
        Self {
            inner: Dctcp::new(&start),
            parts,
        }
    }

    /// The flow in packets of the model, and never in the round of a cut.
    fn view<'a>(&self, flow: &FlowView<'a>) -> FlowView<'a> {
        let mut flow = *flow;
        flow.mss = flow.mss * self.parts;
        if flow.ca_state == CaState::Cwr {
            flow.ca_state = CaState::Open;
        }
        flow
    }
}

impl CongestionControl for Growing {
    fn name(&self) -> &'static str {
        "growing-dctcp"
    }
    fn cwnd(&self) -> ByteCount {
        self.inner.cwnd()
    }
    fn ssthresh(&self) -> ByteCount {
        self.inner.ssthresh()
    }
    fn needs(&self) -> Needs {
        self.inner.needs()
    }
    fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
        let flow = self.view(flow);
        self.inner.on_ack(ack, &flow);
    }
    fn on_congestion_event(&mut self, event: CongestionEvent, flow: &FlowView<'_>) {
        let flow = self.view(flow);
        self.inner.on_congestion_event(event, &flow);
    }
    fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>) {
        let flow = self.view(flow);
        self.inner.on_rto(consecutive, &flow);
    }
    fn variables(&self, show: &mut dyn FnMut(&'static str, Variable)) {
        self.inner.variables(show);
    }
}
