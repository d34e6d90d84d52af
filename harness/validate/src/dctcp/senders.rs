//! The sender that the DCTCP paper's model describes, where it is not ours.

use crate::Bench;
use crate::flows::{Flows, FlowsRun};
use narrows::ByteCount;
use narrows::congestion::{
    AckSample, CaState, CongestionControl, CongestionEvent, CongestionRegistry, Dctcp, FlowStart,
    FlowView, Needs, Variable,
};
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::ScenarioError;
use std::sync::Arc;

/// When the window of the model's sender grows by a packet in a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// By a packet once a window of bytes is acknowledged: what RFC 5681 section 3.1 recommends,
    /// and what ours does.
    EachWindow,
    /// By `SMSS * SMSS / cwnd` on each ACK: RFC 5681 equation 3, which the section allows.
    EachAck,
}

/// What the model's sender does in the round trip of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterCut {
    /// Does not grow, as RFC 3168 section 6.1.2 asks.
    Pauses,
    /// Grows on, as in the model.
    GrowsOn,
}

/// The same run with a sender of the comparison's own: `growth` and `after_cut` are all that it
/// differs in from ours.
pub(super) fn own_sender(
    bench: &Bench<'_>,
    spec: &Flows,
    growth: Growth,
    after_cut: AfterCut,
) -> Result<FlowsRun, ScenarioError> {
    bench.checkpoint()?;
    let mut registry = CongestionRegistry::standard();
    registry.register(
        "model-dctcp",
        "DCTCP with a choice of growth",
        move |s: &FlowStart| ModelSender::new(s, growth, after_cut),
    );
    let registry = Registry {
        congestion: Arc::new(registry),
        ..Registry::default()
    };
    let mut spec = spec.clone();
    spec.experiment.host.tcp.congestion = "model-dctcp".to_owned();
    spec.run(&registry, bench.context())
}

/// DCTCP whose growth is a choice.
#[derive(Debug)]
struct ModelSender {
    /// Alpha, slow start, and the window where it grows once a window.
    inner: Dctcp,
    growth: Growth,
    after_cut: AfterCut,
    /// The window that grows on each ACK, from the first cut on.
    window: Option<ByteCount>,
}

impl ModelSender {
    fn new(start: &FlowStart, growth: Growth, after_cut: AfterCut) -> Self {
        Self {
            inner: Dctcp::new(start),
            growth,
            after_cut,
            window: None,
        }
    }

    fn view<'a>(&self, flow: &FlowView<'a>) -> FlowView<'a> {
        let mut flow = *flow;
        if self.after_cut == AfterCut::GrowsOn && flow.ca_state == CaState::Cwr {
            flow.ca_state = CaState::Open;
        }
        flow
    }
}

impl CongestionControl for ModelSender {
    fn name(&self) -> &'static str {
        "model-dctcp"
    }
    fn cwnd(&self) -> ByteCount {
        self.window.unwrap_or_else(|| self.inner.cwnd())
    }
    fn ssthresh(&self) -> ByteCount {
        self.window.unwrap_or_else(|| self.inner.ssthresh())
    }
    fn needs(&self) -> Needs {
        self.inner.needs()
    }
    fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
        let flow = self.view(flow);
        if let Some(cwnd) = &mut self.window
            && flow.may_grow()
            && !ack.acked.is_zero()
        {
            *cwnd += flow.mss.mul_ratio(flow.mss.get(), cwnd.get());
        }
        self.inner.on_ack(ack, &flow);
    }
    fn on_congestion_event(&mut self, event: CongestionEvent, flow: &FlowView<'_>) {
        let flow = self.view(flow);
        let cwnd = self.cwnd();
        self.inner.on_congestion_event(event, &flow);
        if self.growth == Growth::EachAck {
            // RFC 8257 section 3.4; nothing is lost in these runs.
            let cut = cwnd.mul_ratio(self.inner.alpha_q32(), 1 << 33);
            self.window = Some((cwnd - cut).max(flow.mss * 2));
        }
    }
    fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>) {
        self.inner.on_rto(consecutive, flow);
        self.window = None;
    }
    fn variables(&self, show: &mut dyn FnMut(&'static str, Variable)) {
        self.inner.variables(show);
    }
}
