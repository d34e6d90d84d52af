//! Which slow start a flow uses, shared by Reno, CUBIC and DCTCP.

use crate::flow::{AckSample, CaState, FlowView};
use crate::hybrid::Hybrid;
use crate::hystart::{HyStart, Phase};
use crate::units::ByteCount;
use crate::window::{Window, segment};
use alloc::boxed::Box;

/// The slow start of a flow, with its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowStart {
    /// RFC 5681 section 3.1 with the byte counting of RFC 3465: an ACK adds at most `limit`
    /// segments. 1 is RFC 5681's own rule, 2 is L of RFC 3465 section 2.3, `u32::MAX` counts
    /// every byte.
    Standard {
        /// L, in segments.
        limit: u32,
    },
    /// HyStart++ (RFC 9406) until the initial slow start ends, then [`SlowStart::STANDARD`].
    HyStart(HyStart),
    /// Hybrid slow start until the initial slow start ends, then [`SlowStart::STANDARD`].
    Hybrid(Hybrid),
}

impl SlowStart {
    /// RFC 3465 with L = 2.
    pub const STANDARD: Self = Self::Standard { limit: 2 };
    /// HyStart++ for a sender that does not pace.
    pub const HYSTART: Self = Self::HyStart(HyStart::new(false));
    /// HyStart++ for a sender that paces.
    pub const HYSTART_PACED: Self = Self::HyStart(HyStart::new(true));
    /// Hybrid slow start, as in Linux's CUBIC.
    pub const HYBRID: Self = Self::Hybrid(Hybrid::new());

    /// Grow `window` by this ACK if it is in slow start and may grow. Returns the bytes that
    /// are left for congestion avoidance: zero within slow start or where the window may not
    /// grow.
    ///
    /// In [`CaState::Loss`] an ACK counts at most one segment: it may acknowledge much that
    /// left the network long before (RFC 3465 section 2.3).
    pub fn on_ack(
        &mut self,
        window: &mut Window,
        ack: &AckSample,
        flow: &FlowView<'_>,
    ) -> ByteCount {
        match self {
            Self::HyStart(h) if h.phase() != Phase::Done && window.in_slow_start() => {
                h.on_ack(window, ack, flow);
                ByteCount::ZERO
            }
            Self::Hybrid(h) if !h.is_done() && window.in_slow_start() => {
                h.on_ack(window, ack, flow);
                ByteCount::ZERO
            }
            Self::Standard { limit } => by_bytes(*limit, window, ack, flow),
            Self::HyStart(_) | Self::Hybrid(_) => by_bytes(2, window, ack, flow),
        }
    }

    /// Congestion or a timeout: the initial slow start is over.
    pub fn on_congestion(&mut self) {
        match self {
            Self::HyStart(h) => h.finish(),
            Self::Hybrid(h) => h.finish(),
            Self::Standard { .. } => {}
        }
    }

    /// The congestion told of last was none: what it has ended goes on.
    pub fn on_undo(&mut self) {
        match self {
            Self::HyStart(h) => h.resume(),
            Self::Hybrid(h) => h.resume(),
            Self::Standard { .. } => {}
        }
    }
}

/// [`SlowStart::on_ack`] where an ACK adds at most `limit` segments.
#[inline]
fn by_bytes(limit: u32, window: &mut Window, ack: &AckSample, flow: &FlowView<'_>) -> ByteCount {
    if !flow.may_grow() {
        return ByteCount::ZERO;
    }
    if !window.in_slow_start() {
        return ack.acked;
    }
    let segments = match flow.ca_state {
        CaState::Loss => 1,
        _ => limit.max(1),
    };
    window.slow_start(ack.acked, segment(flow.mss) * u64::from(segments))
}

/// The slow start of a flow, in a box from the first ACK on where it has more state than a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    Standard {
        limit: u32,
    },
    /// With pacing or without.
    HyStart(bool),
    Hybrid,
    Begun(Box<SlowStart>),
}

impl Running {
    pub(crate) fn new(begins: SlowStart) -> Self {
        match begins {
            SlowStart::Standard { limit } => Self::Standard { limit },
            SlowStart::HYSTART => Self::HyStart(false),
            SlowStart::HYSTART_PACED => Self::HyStart(true),
            SlowStart::HYBRID => Self::Hybrid,
            other => Self::Begun(Box::new(other)),
        }
    }

    /// As it stands.
    pub(crate) fn state(&self) -> SlowStart {
        match self {
            Self::Standard { limit } => SlowStart::Standard { limit: *limit },
            Self::HyStart(paced) => SlowStart::HyStart(HyStart::new(*paced)),
            Self::Hybrid => SlowStart::HYBRID,
            Self::Begun(state) => **state,
        }
    }

    fn begun(&mut self) -> &mut SlowStart {
        if !matches!(self, Self::Begun(_)) {
            *self = Self::Begun(Box::new(self.state()));
        }
        match self {
            Self::Begun(state) => state,
            _ => unreachable!("it is begun"),
        }
    }

    /// [`SlowStart::on_ack`].
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        window: &mut Window,
        ack: &AckSample,
        flow: &FlowView<'_>,
    ) -> ByteCount {
        match self {
            Self::Standard { limit } => by_bytes(*limit, window, ack, flow),
            _ => self.on_ack_begun(window, ack, flow),
        }
    }

    #[inline(never)]
    fn on_ack_begun(
        &mut self,
        window: &mut Window,
        ack: &AckSample,
        flow: &FlowView<'_>,
    ) -> ByteCount {
        self.begun().on_ack(window, ack, flow)
    }

    /// [`SlowStart::on_congestion`].
    pub(crate) fn on_congestion(&mut self) {
        if !matches!(self, Self::Standard { .. }) {
            self.begun().on_congestion();
        }
    }

    /// [`SlowStart::on_undo`].
    pub(crate) fn on_undo(&mut self) {
        if let Self::Begun(state) = self {
            state.on_undo();
        }
    }
}

impl Default for SlowStart {
    fn default() -> Self {
        Self::STANDARD
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Instant;
    use crate::{FlowStart, RttEstimator};

    const MSS: ByteCount = ByteCount::new(1_000);

    #[test]
    fn limit_table() {
        let est = RttEstimator::new();
        for (limit, state, grown) in [
            (1, CaState::Open, 1),
            (2, CaState::Open, 2),
            (u32::MAX, CaState::Open, 5),
            (u32::MAX, CaState::Loss, 1),
            (2, CaState::Recovery, 0),
            (2, CaState::Cwr, 0),
        ] {
            let mut w = Window::new(&FlowStart::new(MSS, MSS * 10));
            let ack = AckSample {
                acked: MSS * 5,
                delivered: MSS * 5,
                ..AckSample::default()
            };
            let mut flow = FlowView::new(Instant::ZERO, MSS, &est);
            flow.ca_state = state;
            SlowStart::Standard { limit }.on_ack(&mut w, &ack, &flow);
            assert_eq!(w.cwnd(), MSS * (10 + grown), "L = {limit} in {state:?}");
        }
    }

    /// RFC 9438 section 4.9: what a spurious event has changed is restored, and of several only what
    /// the last one has.
    #[test]
    fn rfc9438_4_9_slow_start_goes_on_after_congestion_that_was_none() {
        let is_on = |s: &SlowStart| match s {
            SlowStart::Hybrid(h) => !h.is_done(),
            SlowStart::HyStart(h) => h.phase() != Phase::Done,
            SlowStart::Standard { .. } => unreachable!("it stays what it is"),
        };
        for mut s in [SlowStart::HYBRID, SlowStart::HYSTART] {
            s.on_congestion();
            assert!(!is_on(&s));
            s.on_undo();
            assert!(is_on(&s));
            s.on_congestion();
            s.on_congestion();
            s.on_undo();
            assert!(!is_on(&s));
        }
    }

    /// What HyStart++ has found itself, congestion that was none does not take back.
    #[test]
    fn hystart_that_has_left_slow_start_stays_out_of_it() {
        let mut h = HyStart::new(false);
        let est = RttEstimator::new();
        let mut w = Window::new(&FlowStart::new(MSS, MSS * 10));
        for ms in [40, 60, 60, 60, 60, 60, 60] {
            for i in 0..8 {
                let ack = AckSample {
                    acked: MSS,
                    delivered: MSS,
                    rtt: Some(crate::Duration::from_millis(ms)),
                    round_start: i == 0,
                    ..AckSample::default()
                };
                h.on_ack(&mut w, &ack, &FlowView::new(Instant::ZERO, MSS, &est));
            }
        }
        assert_eq!(h.phase(), Phase::Done);
        h.finish();
        h.resume();
        assert_eq!(h.phase(), Phase::Done);
    }

    #[test]
    fn hystart_gives_way_to_the_standard_after_congestion() {
        let mut s = SlowStart::HYSTART;
        s.on_congestion();
        let est = RttEstimator::new();
        let mut w = Window::new(&FlowStart::new(MSS, MSS * 10));
        let ack = AckSample {
            acked: MSS * 5,
            delivered: MSS * 5,
            ..AckSample::default()
        };
        s.on_ack(&mut w, &ack, &FlowView::new(Instant::ZERO, MSS, &est));
        assert_eq!(w.cwnd(), MSS * 12);
    }
}
