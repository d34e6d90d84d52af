//! A congestion control of one's own: written in under 50 lines, checked by the conformance kit,
//! and run by name through the whole `narrows` command.
//!
//! ```text
//! cargo run --release --example own_congestion -- list
//! cargo run --release --example own_congestion -- incast --cc reno,hold --rto linux --servers 1-32
//! ```
//!
//! `hold` keeps the queueing delay at a target, in the manner of Swift (Kumar et al., SIGCOMM
//! 2020): below the target it grows as Reno does, above it gives up the share of the window by
//! which the round-trip time is too long, once a round trip and at most half. It needs no marks
//! from the switch. Swift's pacing of less than one segment per round trip is left out.

use narrows_congestion::{
    AckSample, ByteCount, CongestionControl, CongestionEvent, Duration, FlowStart, FlowView,
    SlowStart, window::Window,
};

/// How long packets may wait in queues: a quarter of what the port of the default scenario holds.
const TARGET: Duration = Duration::from_micros(130);

#[derive(Debug)]
pub(crate) struct Hold(Window);

impl Hold {
    pub(crate) fn new(start: &FlowStart) -> Self {
        Self(Window::new(start))
    }
}

impl CongestionControl for Hold {
    fn name(&self) -> &'static str {
        "hold"
    }
    fn cwnd(&self) -> ByteCount {
        self.0.cwnd()
    }
    fn ssthresh(&self) -> ByteCount {
        self.0.ssthresh()
    }
    fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
        let bytes = SlowStart::default().on_ack(&mut self.0, ack, flow);
        let (cwnd, rtt) = (self.0.cwnd(), ack.rtt.unwrap_or_default());
        let allowed = flow.rtt.min().unwrap_or(rtt) + TARGET;
        if rtt <= allowed {
            self.0.congestion_avoidance(bytes, flow.mss);
        } else if ack.round_start && flow.may_grow() {
            let kept = cwnd.mul_ratio(allowed.as_nanos(), rtt.as_nanos());
            self.0.reduce(kept.max(cwnd / 2), flow);
        }
    }
    fn on_congestion_event(&mut self, _: CongestionEvent, flow: &FlowView<'_>) {
        self.0.reduce(self.0.flight(flow) / 2, flow);
    }
    fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>) {
        self.0.timeout(consecutive, flow.flight_size / 2, flow);
    }
    fn window_mut(&mut self) -> Option<&mut Window> {
        Some(&mut self.0)
    }
}

// That was the algorithm. From here on: the command that knows it.

use narrows_cli::{App, catalog::Catalog};
use narrows_congestion::testing;
use std::process::ExitCode;

/// The `narrows` command with one more name.
pub(crate) fn app() -> App {
    let mut catalog = Catalog::default();
    catalog.registry.congestion_mut().register(
        "hold",
        "holds the queueing delay at 130 us, without ECN",
        Hold::new,
    );
    App::new(catalog)
}

fn main() -> ExitCode {
    if let Err(violations) = testing::conformance(&Hold::new) {
        for violation in violations {
            eprintln!("{violation}");
        }
        return ExitCode::FAILURE;
    }
    app().main()
}
