//! Algorithms where they are used, without a box around them.
//!
//! Of many connections each one is out of the cache when its next segment comes, and then every
//! box is one more wait for memory. So the algorithms of this crate lie in the connection itself;
//! those of others keep their boxes.

use crate::control::{CongestionControl, Needs, Variable};
use crate::cubic::Cubic;
use crate::dctcp::Dctcp;
use crate::fixed::Fixed;
use crate::flow::{AckSample, CongestionEvent, FlowView, Lower, Spurious};
use crate::hint::cold_path;
use crate::reno::Reno;
use crate::rto::{RtoContext, RtoPolicy, StandardRto};
use crate::rtt::RttEstimator;
use crate::units::{ByteCount, Duration, Instant, Rate};
use crate::window::Window;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::ops::{Deref, DerefMut};

/// Any congestion control: the same as a `Box<dyn CongestionControl>`, but those of this crate
/// need no box. Which it is, is asked several times a packet: that has a place of its own.
#[derive(Debug)]
#[repr(u8)]
pub enum AnyCongestion {
    /// RFC 5681.
    Reno(Reno),
    /// RFC 9438.
    Cubic(Cubic),
    /// RFC 8257.
    Dctcp(Dctcp),
    /// A constant window.
    Fixed(Fixed),
    /// Somebody else's.
    Other(Box<dyn CongestionControl>),
}

impl AnyCongestion {
    /// `algorithm`, without a box if it is of this crate.
    pub fn of<C: CongestionControl + 'static>(algorithm: C) -> Self {
        let mut algorithm = Some(algorithm);
        if let Some(reno) = take(&mut algorithm) {
            return Self::Reno(reno);
        }
        if let Some(cubic) = take(&mut algorithm) {
            return Self::Cubic(cubic);
        }
        if let Some(dctcp) = take(&mut algorithm) {
            return Self::Dctcp(dctcp);
        }
        if let Some(fixed) = take(&mut algorithm) {
            return Self::Fixed(fixed);
        }
        match algorithm {
            Some(other) => Self::Other(Box::new(other)),
            None => unreachable!("taken only if it is one of the above"),
        }
    }
}

impl AnyCongestion {
    /// The window of those that have one. It begins each of them, so that to find it is one test.
    #[inline]
    fn window(&self) -> Option<&Window> {
        match self {
            Self::Reno(cc) => Some(&cc.window),
            Self::Cubic(cc) => Some(&cc.window),
            Self::Dctcp(cc) => Some(&cc.window),
            Self::Fixed(_) | Self::Other(_) => None,
        }
    }

    // Of those without one, which few flows have. A function that only finds the algorithm, for all three, costs
    // an ACK of the others 7 instructions.

    #[cold]
    fn others_cwnd(&self) -> ByteCount {
        (**self).cwnd()
    }
    #[cold]
    fn others_ssthresh(&self) -> ByteCount {
        (**self).ssthresh()
    }
    #[cold]
    fn others_pacing_rate(&self) -> Option<Rate> {
        (**self).pacing_rate()
    }
}

/// As a box has it.
impl Deref for AnyCongestion {
    type Target = dyn CongestionControl;
    #[inline]
    fn deref(&self) -> &(dyn CongestionControl + 'static) {
        match self {
            Self::Reno(cc) => cc,
            Self::Cubic(cc) => cc,
            Self::Dctcp(cc) => cc,
            Self::Fixed(cc) => cc,
            Self::Other(cc) => &**cc,
        }
    }
}

impl DerefMut for AnyCongestion {
    #[inline]
    fn deref_mut(&mut self) -> &mut (dyn CongestionControl + 'static) {
        match self {
            Self::Reno(cc) => cc,
            Self::Cubic(cc) => cc,
            Self::Dctcp(cc) => cc,
            Self::Fixed(cc) => cc,
            Self::Other(cc) => &mut **cc,
        }
    }
}

/// What is in `option`, if that is a `B`.
fn take<A: 'static, B: 'static>(option: &mut Option<A>) -> Option<B> {
    let any: &mut dyn Any = option;
    any.downcast_mut::<Option<B>>()?.take()
}

impl CongestionControl for AnyCongestion {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    #[inline]
    fn cwnd(&self) -> ByteCount {
        match self.window() {
            Some(window) => window.cwnd(),
            None => {
                cold_path();
                self.others_cwnd()
            }
        }
    }
    #[inline]
    fn ssthresh(&self) -> ByteCount {
        match self.window() {
            Some(window) => window.ssthresh(),
            None => {
                cold_path();
                self.others_ssthresh()
            }
        }
    }
    #[inline]
    fn pacing_rate(&self) -> Option<Rate> {
        match self.window() {
            // The sender paces these by their windows, if at all.
            Some(_) => None,
            None => {
                cold_path();
                self.others_pacing_rate()
            }
        }
    }
    fn needs(&self) -> Needs {
        (**self).needs()
    }
    #[inline]
    fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
        (**self).on_ack(ack, flow);
    }
    fn on_congestion_event(&mut self, event: CongestionEvent, flow: &FlowView<'_>) {
        (**self).on_congestion_event(event, flow);
    }
    fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>) {
        (**self).on_rto(consecutive, flow);
    }
    fn on_recovery_exit(&mut self, flow: &FlowView<'_>) {
        (**self).on_recovery_exit(flow);
    }
    fn window_mut(&mut self) -> Option<&mut Window> {
        (**self).window_mut()
    }
    fn on_spurious(&mut self, what: Spurious, flow: &FlowView<'_>) {
        (**self).on_spurious(what, flow);
    }
    fn on_lower(&mut self, window: ByteCount, why: Lower, flow: &FlowView<'_>) {
        (**self).on_lower(window, why, flow);
    }
    fn on_sent(&mut self, bytes: ByteCount, flow: &FlowView<'_>) {
        (**self).on_sent(bytes, flow);
    }
    fn on_mss_change(&mut self, was: ByteCount, flow: &FlowView<'_>) {
        (**self).on_mss_change(was, flow);
    }
    fn variables(&self, show: &mut dyn FnMut(&'static str, Variable)) {
        (**self).variables(show);
    }
}

/// Any RTO policy: the same as a `Box<dyn RtoPolicy>`, but one that has no state of its own is
/// shared by all that use it.
#[derive(Debug)]
pub enum AnyRto {
    /// RFC 6298 with values of choice.
    Standard(Arc<StandardRto>),
    /// Somebody else's.
    Other(Box<dyn RtoPolicy>),
}

impl AnyRto {
    /// `policy`, without a box of its own if it is of this crate.
    pub fn of<R: RtoPolicy + 'static>(policy: R) -> Self {
        let mut policy = Some(policy);
        if let Some(shared) = take(&mut policy) {
            return Self::Standard(shared);
        }
        if let Some(standard) = take(&mut policy) {
            return Self::Standard(Arc::new(standard));
        }
        match policy {
            Some(other) => Self::Other(Box::new(other)),
            None => unreachable!("taken only if it is one of the above"),
        }
    }
}

impl RtoPolicy for AnyRto {
    fn name(&self) -> &'static str {
        match self {
            Self::Standard(policy) => policy.name(),
            Self::Other(policy) => policy.name(),
        }
    }
    #[inline]
    fn rto(&self, rtt: &RttEstimator, ctx: &RtoContext) -> Duration {
        match self {
            Self::Standard(policy) => policy.rto(rtt, ctx),
            Self::Other(policy) => policy.rto(rtt, ctx),
        }
    }
    #[inline]
    fn on_rtt_sample(&mut self, rtt: Duration, now: Instant) {
        match self {
            Self::Standard(_) => {}
            Self::Other(policy) => policy.on_rtt_sample(rtt, now),
        }
    }
    #[inline]
    fn wants_entropy(&self) -> bool {
        match self {
            Self::Standard(policy) => policy.wants_entropy(),
            Self::Other(policy) => policy.wants_entropy(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factory::{CongestionFactory, RtoFactory};
    use crate::flow::FlowStart;
    use crate::registry::{CongestionRegistry, RtoRegistry};
    use crate::rto::presets;

    fn start() -> FlowStart {
        FlowStart::new(ByteCount::new(1_000), ByteCount::new(10_000))
    }

    #[test]
    fn all_that_the_registries_know_lies_in_place() {
        for entry in CongestionRegistry::standard().entries() {
            let factory = CongestionRegistry::standard().get(entry.name()).unwrap();
            let placed = factory.build_any(&start());
            assert!(!matches!(placed, AnyCongestion::Other(_)), "{placed:?}");
            assert_eq!(placed.name(), factory.build(&start()).name());
            // The short ways say what the algorithm does.
            let said = |cc: &dyn CongestionControl| (cc.cwnd(), cc.ssthresh(), cc.pacing_rate());
            assert_eq!(said(&placed), said(&*placed));
        }
        let standard = RtoRegistry::standard();
        for name in ["linux", "fine-randomized", "1ms", "50us", "fixed:7ms"] {
            let factory = standard.get(name).unwrap();
            let (AnyRto::Standard(a), AnyRto::Standard(b)) =
                (factory.build_any(), factory.build_any())
            else {
                panic!("{name} is boxed");
            };
            assert!(Arc::ptr_eq(&a, &b), "{name} is not shared");
        }
    }

    #[derive(Debug)]
    struct Mine(Reno);
    impl CongestionControl for Mine {
        fn name(&self) -> &'static str {
            "mine"
        }
        fn cwnd(&self) -> ByteCount {
            self.0.cwnd()
        }
        fn ssthresh(&self) -> ByteCount {
            self.0.ssthresh()
        }
        fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
            self.0.on_ack(ack, flow);
        }
        fn on_congestion_event(&mut self, event: CongestionEvent, flow: &FlowView<'_>) {
            self.0.on_congestion_event(event, flow);
        }
        fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>) {
            self.0.on_rto(consecutive, flow);
        }
    }

    #[derive(Debug)]
    struct Counts(u32);
    impl RtoPolicy for Counts {
        fn name(&self) -> &'static str {
            "counts"
        }
        fn rto(&self, _: &RttEstimator, _: &RtoContext) -> Duration {
            Duration::from_millis(u64::from(self.0))
        }
        fn on_rtt_sample(&mut self, _: Duration, _: Instant) {
            self.0 += 1;
        }
    }

    #[test]
    fn those_of_others_are_boxed_and_work() {
        let mine = |s: &FlowStart| Mine(Reno::new(s));
        assert_eq!(mine.build_any(&start()).name(), "mine");
        // A box made by hand stays what it is.
        let boxed = |s: &FlowStart| -> Box<dyn CongestionControl> { Box::new(Mine(Reno::new(s))) };
        assert!(matches!(boxed.build_any(&start()), AnyCongestion::Other(_)));
        let counts = || Counts(0);
        let mut placed = counts.build_any();
        placed.on_rtt_sample(Duration::ZERO, Instant::ZERO);
        let rto = placed.rto(&RttEstimator::new(), &RtoContext::default());
        assert_eq!(rto, Duration::from_millis(1));
        assert!(placed.wants_entropy(), "who does not say gets it");
        assert!(!AnyRto::of(presets::fine()).wants_entropy());
        assert!(AnyRto::of(presets::fine_randomized()).wants_entropy());
    }
}
