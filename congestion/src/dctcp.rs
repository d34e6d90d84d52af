//! DCTCP (RFC 8257): the window shrinks in proportion to the fraction of marked bytes.

use crate::control::{CongestionControl, EcnNeed, Needs, Variable};
use crate::flow::{AckSample, CongestionEvent, FlowStart, FlowView, Spurious};
use crate::slow_start::{Running, SlowStart};
use crate::units::ByteCount;
use crate::window::{Undone, Window, segment};

/// One, in the fixed point of alpha: 2^-32 is the unit.
const ONE: u64 = 1 << 32;

/// What is a matter of choice in DCTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DctcpConfig {
    /// The estimation gain g as numerator and denominator; 1/16 (RFC 8257 section 4.2).
    pub g: (u32, u32),
    /// The floor of the window under ECN, in segments: 2, or 1 for deeper incast.
    pub floor_segments: u32,
    /// Slow start.
    pub slow_start: SlowStart,
}

impl Default for DctcpConfig {
    fn default() -> Self {
        Self {
            g: (1, 16),
            floor_segments: 2,
            slow_start: SlowStart::STANDARD,
        }
    }
}

/// RFC 8257 congestion control.
///
/// A cut never takes the window below the floor, so a flow held there by continuous marks goes
/// on sending the floor each round trip: it cannot stall.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)] // The window first, as the others have it.
pub struct Dctcp {
    pub(crate) window: Window,
    /// g, as numerator and denominator.
    g: (u32, u32),
    floor_segments: u32,
    slow_start: Running,
    /// DCTCP.Alpha in units of 2^-32. Decay rounds down, so that it reaches zero.
    alpha: u64,
    /// DCTCP.BytesAcked of this observation window.
    bytes_acked: ByteCount,
    /// DCTCP.BytesMarked of this observation window.
    bytes_marked: ByteCount,
}

impl Dctcp {
    /// With the values of RFC 8257.
    pub fn new(start: &FlowStart) -> Self {
        Self::with_config(start, DctcpConfig::default())
    }

    /// With values of choice. A gain above 1 counts as 1.
    pub fn with_config(start: &FlowStart, config: DctcpConfig) -> Self {
        let den = config.g.1.max(1);
        Self {
            window: Window::new(start),
            g: (config.g.0.min(den), den),
            floor_segments: config.floor_segments,
            slow_start: Running::new(config.slow_start),
            alpha: ONE,
            bytes_acked: ByteCount::ZERO,
            bytes_marked: ByteCount::ZERO,
        }
    }

    /// DCTCP.Alpha, the estimated fraction of marked bytes, in units of 2^-32.
    pub fn alpha_q32(&self) -> u64 {
        self.alpha
    }

    /// End of an observation window: `alpha = alpha (1 - g) + g M` (RFC 8257 section 3.3).
    fn update_alpha(&mut self) {
        if self.bytes_acked.is_zero() {
            return;
        }
        let m = ByteCount::new(ONE).mul_ratio(
            self.bytes_marked.min(self.bytes_acked).get(),
            self.bytes_acked.get(),
        );
        let (g, den) = (u64::from(self.g.0), u64::from(self.g.1));
        let kept = ByteCount::new(self.alpha).mul_ratio(den - g, den);
        self.alpha = (kept + m.mul_ratio(g, den)).get().min(ONE);
        self.bytes_acked = ByteCount::ZERO;
        self.bytes_marked = ByteCount::ZERO;
    }

    /// `cwnd = cwnd (1 - alpha / 2)`, not below the floor (RFC 8257 section 3.4).
    fn ecn_cut(&mut self, flow: &FlowView<'_>) {
        let cwnd = self.window.cwnd();
        let floor = segment(flow.mss) * u64::from(self.floor_segments.max(1));
        let target = (cwnd - cwnd.mul_ratio(self.alpha, 2 * ONE)).max(floor);
        self.window.reduce(target, flow);
        self.window.lower_cwnd(target, flow.mss);
        self.window.forget_undo();
    }
}

impl CongestionControl for Dctcp {
    fn name(&self) -> &'static str {
        "dctcp"
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
            ecn: EcnNeed::Dctcp,
            hears_of_sent: false,
            ..Needs::default()
        }
    }
    fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
        // The ACK that passes the end of the window still counts to it (section 3.3 step 1).
        self.bytes_acked += ack.acked;
        self.bytes_marked += ack.delivered_ce;
        if ack.round_start {
            self.update_alpha();
        }
        let bytes = self.slow_start.on_ack(&mut self.window, ack, flow);
        self.window.congestion_avoidance(bytes, flow.mss);
    }
    fn on_congestion_event(&mut self, event: CongestionEvent, flow: &FlowView<'_>) {
        self.slow_start.on_congestion();
        match event {
            CongestionEvent::EcnEcho => self.ecn_cut(flow),
            // Section 3.5: loss as in RFC 5681.
            CongestionEvent::Loss | CongestionEvent::LocalDrop => {
                self.window.reduce(self.window.flight(flow) / 2, flow);
            }
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
    fn variables(&self, show: &mut dyn FnMut(&'static str, Variable)) {
        show("alpha", Variable::Fraction(self.alpha));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RttEstimator;
    use crate::flow::CaState;
    use crate::units::Instant;
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const MSS: ByteCount = ByteCount::new(1_000);

    fn start(segments: u64) -> FlowStart {
        FlowStart::new(MSS, MSS * segments)
    }

    #[test]
    fn alpha_is_shown_as_it_is() {
        let mut cc = Dctcp::new(&start(10));
        window(&mut cc, 10, 0);
        let mut shown = Vec::new();
        let boxed: Box<dyn CongestionControl> = Box::new(cc);
        boxed.variables(&mut |name, value| shown.push((name, value)));
        assert_eq!(shown, [("alpha", Variable::Fraction(ONE / 16 * 15))]);
    }

    /// One observation window of `acked` segments, `marked` of them marked.
    fn window(cc: &mut Dctcp, acked: u64, marked: u64) {
        let est = RttEstimator::new();
        let mut flow = FlowView::new(Instant::ZERO, MSS, &est);
        flow.cwnd_limited = false;
        for i in 1..=acked {
            let ack = AckSample {
                acked: MSS,
                delivered: MSS,
                delivered_ce: if i <= marked { MSS } else { ByteCount::ZERO },
                round_start: i == acked,
                ..AckSample::default()
            };
            cc.on_ack(&ack, &flow);
        }
    }

    fn cut(cc: &mut Dctcp) {
        let est = RttEstimator::new();
        let mut flow = FlowView::new(Instant::ZERO, MSS, &est);
        flow.flight_size = cc.cwnd();
        cc.on_congestion_event(CongestionEvent::EcnEcho, &flow);
    }

    /// RFC 8257 section 3.3: alpha starts at 1; g = 1/16.
    #[test]
    fn alpha_vectors() {
        let mut cc = Dctcp::new(&start(10));
        assert_eq!(cc.alpha_q32(), ONE);
        // No marks: 15/16 a window.
        window(&mut cc, 10, 0);
        assert_eq!(cc.alpha_q32(), ONE / 16 * 15);
        window(&mut cc, 10, 0);
        assert_eq!(cc.alpha_q32(), ONE / 256 * 225);
        // Half marked: 225/256 x 15/16 + 1/32.
        window(&mut cc, 10, 5);
        assert_eq!(cc.alpha_q32(), ONE / 4096 * (225 * 15 + 128));
        // All marked, for ever: back to 1, up to the rounding.
        for _ in 0..1_000 {
            window(&mut cc, 4, 4);
        }
        assert!(ONE - cc.alpha_q32() <= 16, "{}", cc.alpha_q32());
    }

    /// Without marks alpha reaches zero; a coarse fixed point would stick above it.
    #[test]
    fn alpha_decays_to_zero() {
        let mut cc = Dctcp::new(&start(10));
        for _ in 0..400 {
            window(&mut cc, 2, 0);
        }
        assert_eq!(cc.alpha_q32(), 0);
        cut(&mut cc);
        assert_eq!(cc.cwnd(), MSS * 10);
    }

    /// RFC 8257 section 3.4: cwnd (1 - alpha / 2).
    #[test]
    fn cuts_follow_alpha() {
        let mut cc = Dctcp::new(&start(64));
        cut(&mut cc);
        assert_eq!((cc.cwnd(), cc.ssthresh()), (MSS * 32, MSS * 32));
        window(&mut cc, 10, 0);
        cut(&mut cc);
        assert_eq!(cc.cwnd(), MSS * 17);
    }

    #[test]
    fn the_floor_holds_and_is_a_value() {
        for floor_segments in [1, 2, 5] {
            let config = DctcpConfig {
                floor_segments,
                ..DctcpConfig::default()
            };
            let mut cc = Dctcp::with_config(&start(64), config);
            for _ in 0..100 {
                window(&mut cc, 4, 4);
                cut(&mut cc);
            }
            assert_eq!(cc.cwnd(), MSS * u64::from(floor_segments));
        }
        // The floor does not raise a window that is below it.
        let mut cc = Dctcp::new(&start(1));
        cut(&mut cc);
        assert_eq!(cc.cwnd(), MSS);
    }

    /// RFC 8257 section 3.5: loss halves, whatever alpha says.
    #[test]
    fn loss_is_as_in_rfc_5681() {
        let mut cc = Dctcp::new(&start(40));
        for _ in 0..400 {
            window(&mut cc, 2, 0);
        }
        let est = RttEstimator::new();
        let mut flow = FlowView::new(Instant::ZERO, MSS, &est);
        flow.flight_size = MSS * 40;
        flow.ca_state = CaState::Recovery;
        cc.on_congestion_event(CongestionEvent::Loss, &flow);
        assert_eq!((cc.cwnd(), cc.ssthresh()), (MSS * 20, MSS * 20));
    }

    /// RFC 8257 section 3.5: the loss window after a timeout, whatever was done before it.
    #[test]
    fn rfc8257_3_5_a_timeout_leaves_the_loss_window_whatever_was_reduced_before() {
        let est = RttEstimator::new();
        for before in [
            None,
            Some(CongestionEvent::EcnEcho),
            Some(CongestionEvent::Loss),
        ] {
            let mut cc = Dctcp::new(&start(40));
            let mut flow = FlowView::new(Instant::ZERO, MSS, &est);
            flow.flight_size = MSS * 40;
            if let Some(event) = before {
                cc.on_congestion_event(event, &flow);
                assert_eq!(cc.cwnd(), MSS * 20);
                flow.ca_state = match event {
                    CongestionEvent::EcnEcho => CaState::Cwr,
                    _ => CaState::Recovery,
                };
            }
            cc.on_rto(1, &flow);
            assert_eq!((cc.cwnd(), cc.ssthresh()), (MSS, MSS * 20), "{before:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn alpha_stays_a_fraction(
            g in any::<(u32, u32)>(),
            acks in prop::collection::vec(any::<(u64, u64, bool)>(), 1..50),
        ) {
            let mut cc = Dctcp::with_config(&start(10), DctcpConfig { g, ..DctcpConfig::default() });
            let est = RttEstimator::new();
            let flow = FlowView::new(Instant::ZERO, MSS, &est);
            for (acked, ce, round_start) in acks {
                let ack = AckSample {
                    acked: ByteCount::new(acked),
                    delivered: ByteCount::new(acked),
                    delivered_ce: ByteCount::new(ce),
                    round_start,
                    ..AckSample::default()
                };
                cc.on_ack(&ack, &flow);
                prop_assert!(cc.alpha_q32() <= ONE);
            }
        }
    }
}
