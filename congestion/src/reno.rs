//! Reno: additive increase, multiplicative decrease by half (RFC 5681), by bytes (RFC 3465).
//!
//! What happens within recovery (NewReno, SACK, PRR) is the engine's business; with it this is
//! "NewReno" or "SACK" of the literature.

use crate::control::{CongestionControl, Needs};
use crate::flow::{AckSample, CongestionEvent, FlowStart, FlowView, Lower, Spurious};
use crate::slow_start::{Running, SlowStart};
use crate::units::ByteCount;
use crate::window::{Undone, Window};

/// What becomes of the window when a recovery without SACK ends (RFC 6582 section 3.2 step 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecoveryEnd {
    /// It falls to what is in flight and a segment, and grows back to ssthresh: no burst.
    #[default]
    Deflate,
    /// It is ssthresh, and what was lost leaves at once as new data: the other choice, without
    /// the measures against a burst that the RFC asks for. ns-2's NewReno does so.
    Ssthresh,
}

/// RFC 5681 congestion control.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)] // The window first: of the slow start each ACK touches little.
pub struct Reno {
    pub(crate) window: Window,
    slow_start: Running,
    end: RecoveryEnd,
}

impl Reno {
    /// With standard slow start, L = 2.
    pub fn new(start: &FlowStart) -> Self {
        Self::with_slow_start(start, SlowStart::STANDARD)
    }

    /// With the slow start of choice.
    pub fn with_slow_start(start: &FlowStart, slow_start: SlowStart) -> Self {
        Self {
            window: Window::new(start),
            slow_start: Running::new(slow_start),
            end: RecoveryEnd::default(),
        }
    }

    /// With another end of a recovery without SACK.
    #[must_use]
    pub const fn with_recovery_end(mut self, end: RecoveryEnd) -> Self {
        self.end = end;
        self
    }
}

impl CongestionControl for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }
    #[inline]
    fn cwnd(&self) -> ByteCount {
        self.window.cwnd()
    }
    #[inline]
    fn ssthresh(&self) -> ByteCount {
        self.window.ssthresh()
    }
    fn needs(&self) -> Needs {
        Needs {
            hears_of_sent: false,
            ..Needs::default()
        }
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
    fn window_mut(&mut self) -> Option<&mut Window> {
        Some(&mut self.window)
    }
    fn on_spurious(&mut self, what: Spurious, _: &FlowView<'_>) {
        if self.window.undo(what) == Undone::Restored {
            self.slow_start.on_undo();
        }
    }
    fn on_lower(&mut self, window: ByteCount, why: Lower, flow: &FlowView<'_>) {
        if why != Lower::Deflate || self.end == RecoveryEnd::Deflate {
            self.window.lower(window, why, flow.mss);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RttEstimator;
    use crate::flow::CaState;
    use crate::units::Instant;

    const MSS: ByteCount = ByteCount::new(1_000);

    fn ack(segments: u64) -> AckSample {
        AckSample {
            acked: MSS * segments,
            delivered: MSS * segments,
            ..AckSample::default()
        }
    }

    fn flow(est: &RttEstimator, flight: u64, ca_state: CaState) -> FlowView<'_> {
        let mut flow = FlowView::new(Instant::ZERO, MSS, est);
        flow.flight_size = MSS * flight;
        flow.ca_state = ca_state;
        flow
    }

    /// RFC 5681 sections 3.1 and 3.2: doubling, halving, then a segment a round trip.
    #[test]
    fn a_sawtooth_by_hand() {
        let est = RttEstimator::new();
        let mut cc = Reno::new(&FlowStart::new(MSS, MSS * 10));
        for _ in 0..10 {
            cc.on_ack(&ack(1), &flow(&est, 10, CaState::Open));
        }
        assert_eq!(cc.cwnd(), MSS * 20);
        cc.on_congestion_event(CongestionEvent::Loss, &flow(&est, 20, CaState::Recovery));
        assert_eq!((cc.cwnd(), cc.ssthresh()), (MSS * 10, MSS * 10));
        cc.on_ack(&ack(1), &flow(&est, 20, CaState::Recovery));
        assert_eq!(cc.cwnd(), MSS * 10);
        for cwnd in [11, 12, 13] {
            for _ in 0..cwnd - 1 {
                cc.on_ack(&ack(1), &flow(&est, cwnd - 1, CaState::Open));
            }
            assert_eq!(cc.cwnd(), MSS * cwnd);
        }
        cc.on_rto(1, &flow(&est, 13, CaState::Loss));
        assert_eq!((cc.cwnd(), cc.ssthresh()), (MSS, ByteCount::new(6_500)));
        for cwnd in [2, 3, 4, 5, 6] {
            cc.on_ack(&ack(4), &flow(&est, 13, CaState::Loss));
            assert_eq!(cc.cwnd(), MSS * cwnd);
        }
    }

    /// RFC 6582 section 3.2 step 3 has two choices.
    #[test]
    fn a_recovery_ends_with_or_without_a_burst() {
        let est = RttEstimator::new();
        for (end, cwnd) in [(RecoveryEnd::Deflate, 3), (RecoveryEnd::Ssthresh, 10)] {
            let mut cc = Reno::new(&FlowStart::new(MSS, MSS * 20)).with_recovery_end(end);
            cc.on_congestion_event(CongestionEvent::Loss, &flow(&est, 20, CaState::Recovery));
            cc.on_lower(MSS * 3, Lower::Deflate, &flow(&est, 2, CaState::Open));
            assert_eq!(
                (cc.cwnd(), cc.ssthresh()),
                (MSS * cwnd, MSS * 10),
                "{end:?}"
            );
        }
    }

    /// RFC 5681 section 3.2 step 2: limited transmit does not count; an application-limited
    /// flight does.
    #[test]
    fn ssthresh_follows_the_flight() {
        let est = RttEstimator::new();
        for (flight, ssthresh) in [(22, 10_000), (20, 10_000), (9, 4_500), (1, 2_000)] {
            let mut cc = Reno::new(&FlowStart::new(MSS, MSS * 20));
            cc.on_congestion_event(
                CongestionEvent::Loss,
                &flow(&est, flight, CaState::Recovery),
            );
            assert_eq!(cc.ssthresh(), ByteCount::new(ssthresh), "flight {flight}");
        }
    }

    #[test]
    fn only_unfounded_reductions_are_undone() {
        let est = RttEstimator::new();
        for (event, restored) in [(CongestionEvent::Loss, 20), (CongestionEvent::EcnEcho, 10)] {
            let mut cc = Reno::new(&FlowStart::new(MSS, MSS * 20));
            cc.on_congestion_event(event, &flow(&est, 20, CaState::Open));
            cc.on_spurious(Spurious::FastRetransmit, &flow(&est, 20, CaState::Open));
            assert_eq!(cc.cwnd(), MSS * restored, "{event:?}");
        }
    }
}
