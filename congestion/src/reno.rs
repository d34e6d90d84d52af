//! Reno: additive increase, multiplicative decrease by half (RFC 5681), by bytes (RFC 3465).
//!
//! What happens within recovery (NewReno, SACK, PRR) is the engine's business; with it this is
//! "NewReno" or "SACK" of the literature.

use crate::control::{
    AckSample, CongestionControl, CongestionEvent, FlowStart, FlowView, Spurious,
};
use crate::slow_start::SlowStart;
use crate::units::{ByteCount, Duration};
use crate::window::Window;

/// RFC 5681 congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reno {
    window: Window,
    slow_start: SlowStart,
}

impl Reno {
    /// With standard slow start, L = 2.
    pub fn new(start: &FlowStart) -> Self {
        Self::with_slow_start(start, SlowStart::STANDARD)
    }

    /// With the slow start of choice.
    pub fn with_slow_start(start: &FlowStart, slow_start: SlowStart) -> Self {
        Self { window: Window::new(start), slow_start }
    }
}

impl CongestionControl for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }
    fn cwnd(&self) -> ByteCount {
        self.window.cwnd()
    }
    fn ssthresh(&self) -> ByteCount {
        self.window.ssthresh()
    }
    fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
        let bytes = self.slow_start.on_ack(&mut self.window, ack, flow);
        self.window.congestion_avoidance(bytes, flow.mss);
    }
    fn on_congestion_event(&mut self, event: CongestionEvent, flow: &FlowView<'_>) {
        self.slow_start.on_congestion();
        self.window.reduce(self.window.flight(flow) / 2, flow);
        if event == CongestionEvent::EcnEcho {
            self.window.forget_undo();
        }
    }
    fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>) {
        self.slow_start.on_congestion();
        self.window.timeout(consecutive, flow.flight_size / 2, flow);
    }
    fn on_spurious(&mut self, what: Spurious, _: &FlowView<'_>) {
        self.window.undo(what);
    }
    fn on_idle_restart(&mut self, _: Duration, restart_window: ByteCount, flow: &FlowView<'_>) {
        self.window.restart(restart_window, flow.mss);
    }
    fn on_mss_change(&mut self, flow: &FlowView<'_>) {
        self.window.on_mss_change(flow.mss);
    }
}
