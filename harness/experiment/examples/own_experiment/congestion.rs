//! `gentle`: Reno that gives up a quarter of what is in flight instead of half.

use narrows_experiment::narrows::ByteCount;
use narrows_experiment::narrows::congestion::window::Window;
use narrows_experiment::narrows::congestion::{
    AckSample, CongestionControl, CongestionEvent, FlowStart, FlowView, SlowStart,
};

#[derive(Debug)]
pub(crate) struct Gentle(Window);

impl Gentle {
    pub(crate) fn new(start: &FlowStart) -> Self {
        Self(Window::new(start))
    }
}

impl CongestionControl for Gentle {
    fn name(&self) -> &'static str {
        "gentle"
    }

    fn cwnd(&self) -> ByteCount {
        self.0.cwnd()
    }

    fn ssthresh(&self) -> ByteCount {
        self.0.ssthresh()
    }

    fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
        let rest = SlowStart::default().on_ack(&mut self.0, ack, flow);
        self.0.congestion_avoidance(rest, flow.mss);
    }

    fn on_congestion_event(&mut self, _: CongestionEvent, flow: &FlowView<'_>) {
        self.0.reduce(self.0.flight(flow).mul_ratio(3, 4), flow);
    }

    fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>) {
        self.0.timeout(consecutive, flow.flight_size / 2, flow);
    }

    fn window_mut(&mut self) -> Option<&mut Window> {
        Some(&mut self.0)
    }
}
