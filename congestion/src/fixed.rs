//! A constant window: no congestion control at all. For experiments that need a sender which
//! does not react, and as the smallest example of the interface.

use crate::control::{CongestionControl, Needs};
use crate::flow::{AckSample, CongestionEvent, FlowStart, FlowView};
use crate::units::ByteCount;
use crate::window::segment;

/// A window of a fixed number of segments. It breaks, on purpose, every rule that asks for a
/// reaction: never let it onto a shared network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    segments: u64,
    mss: ByteCount,
}

impl Fixed {
    /// The initial window, for ever.
    pub fn new(start: &FlowStart) -> Self {
        let mss = segment(start.mss);
        Self::segments(start, start.initial_window.get().div_ceil(mss.get()))
    }

    /// `segments` full segments, at least one.
    pub fn segments(start: &FlowStart, segments: u64) -> Self {
        Self {
            segments: segments.max(1),
            mss: segment(start.mss),
        }
    }
}

impl CongestionControl for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }
    fn cwnd(&self) -> ByteCount {
        self.mss * self.segments
    }
    fn ssthresh(&self) -> ByteCount {
        ByteCount::MAX
    }
    fn needs(&self) -> Needs {
        Needs {
            hears_of_sent: false,
            ..Needs::default()
        }
    }
    fn on_ack(&mut self, _: &AckSample, _: &FlowView<'_>) {}
    fn on_congestion_event(&mut self, _: CongestionEvent, _: &FlowView<'_>) {}
    fn on_rto(&mut self, _: u32, _: &FlowView<'_>) {}
    fn on_mss_change(&mut self, _: ByteCount, flow: &FlowView<'_>) {
        self.mss = segment(flow.mss);
    }
}
