//! CUBIC (RFC 9438), in integer arithmetic.

pub mod curve;

use crate::control::{CongestionControl, Variable};
use crate::flow::{AckSample, CongestionEvent, FlowStart, FlowView, Lower, Spurious};
use crate::rarely::{Begins, Rarely};
use crate::slow_start::{Running, SlowStart};
use crate::units::{ByteCount, Duration, Instant};
use crate::window::{MAX_WINDOW, Undone, Window, segment};
use curve::{Bytes20, FRACTION_BITS};

/// beta_cubic = 7/10 (RFC 9438 section 4.6).
const BETA: (u64, u64) = (7, 10);
/// alpha_cubic = 3 (1 - beta) / (1 + beta) = 9/17 (RFC 9438 section 4.3).
const ALPHA: (u64, u64) = (9, 17);

/// What is a matter of choice in CUBIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CubicConfig {
    /// Slow start. Section 4.10 recommends HyStart++ and names hybrid slow start, its predecessor,
    /// which is what Linux has and the default: at a port whose queue is no longer than the path
    /// HyStart++ finds the queue a round too late.
    pub slow_start: SlowStart,
    /// Release bandwidth to newcomers by lowering W_max further (section 4.7).
    pub fast_convergence: bool,
}

impl Default for CubicConfig {
    fn default() -> Self {
        Self {
            slow_start: SlowStart::HYBRID,
            fast_convergence: true,
        }
    }
}

/// RFC 9438 congestion control.
///
/// The time of an epoch runs only between ACKs on which the window may grow: idle and
/// application-limited time, and recovery, are not in it (section 4.2).
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)] // The window first, as the others have it.
pub struct Cubic {
    pub(crate) window: Window,
    /// Growth below one byte, in units of 2^-20 byte.
    fraction: u64,
    slow_start: Running,
    fast_convergence: bool,
    /// Once slow start has ended.
    stages: Rarely<Stages>,
    /// When the last ACK came, or sending last resumed after idle.
    last: Instant,
}

/// The stage of now, and the one before the last reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stages {
    curve: State,
    undo: Option<State>,
}

impl Begins for Stages {
    const BEGINNING: &'static Self = &Self {
        curve: State {
            w_max: None,
            cwnd_prior: None,
            epoch: None,
        },
        undo: None,
    };
}

/// The state variables of RFC 9438 section 4.1.2, without the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    /// W_max; `None` where it is to be the window at the start of the next epoch: before the
    /// first congestion (section 4.10) and after a timeout (section 4.8).
    w_max: Option<ByteCount>,
    /// cwnd_prior: the window before the last reduction, or where slow start ended without one.
    cwnd_prior: Option<ByteCount>,
    epoch: Option<Epoch>,
}

/// One stage of congestion avoidance, between two reductions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Epoch {
    /// t.
    elapsed: Duration,
    k: Duration,
    /// The plateau: W_max, or the window itself where that was higher.
    origin: Bytes20,
    w_est: Bytes20,
}

impl Cubic {
    /// With hybrid slow start and fast convergence.
    pub fn new(start: &FlowStart) -> Self {
        Self::with_config(start, CubicConfig::default())
    }

    /// With values of choice.
    pub fn with_config(start: &FlowStart, config: CubicConfig) -> Self {
        Self {
            window: Window::new(start),
            fraction: 0,
            slow_start: Running::new(config.slow_start),
            fast_convergence: config.fast_convergence,
            stages: Rarely::default(),
            last: Instant::ZERO,
        }
    }

    /// W_max of RFC 9438, `None` while it is undefined.
    pub fn w_max(&self) -> Option<ByteCount> {
        self.stages.curve.w_max
    }

    /// K of RFC 9438, `None` outside congestion avoidance.
    pub fn k(&self) -> Option<Duration> {
        self.stages.curve.epoch.map(|e| e.k)
    }

    /// The epoch of this stage of congestion avoidance, begun if need be (section 4.2).
    fn epoch(&mut self, mss: ByteCount) -> Epoch {
        if let Some(epoch) = self.stages.curve.epoch {
            return epoch;
        }
        let cwnd = self.window.cwnd();
        let w_max = self.stages.curve.w_max.map_or(cwnd, |w| w.max(cwnd));
        self.stages.curve.w_max = Some(self.stages.curve.w_max.unwrap_or(cwnd));
        // Slow start has ended without a reduction (section 4.10).
        self.stages.curve.cwnd_prior = Some(self.stages.curve.cwnd_prior.unwrap_or(cwnd));
        Epoch {
            elapsed: Duration::ZERO,
            k: curve::k(w_max - cwnd, mss),
            origin: w_max.min(MAX_WINDOW).get() << FRACTION_BITS,
            w_est: self.cwnd_20(),
        }
    }

    fn cwnd_20(&self) -> Bytes20 {
        // A window above MAX_WINDOW takes a segment size above it; nothing grows there.
        (self.window.cwnd().min(MAX_WINDOW).get() << FRACTION_BITS) + self.fraction
    }

    /// Growth of sections 4.3 to 4.5 for `bytes` acknowledged in congestion avoidance.
    fn congestion_avoidance(&mut self, bytes: ByteCount, flow: &FlowView<'_>, passed: Duration) {
        let mss = segment(flow.mss);
        let cwnd = self.window.cwnd();
        let bytes = bytes.min(cwnd);
        let fresh = self.stages.curve.epoch.is_none();
        let mut epoch = self.epoch(mss);
        if !fresh {
            epoch.elapsed += passed;
        }

        let cwnd_prior = self.stages.curve.cwnd_prior.unwrap_or(cwnd).min(MAX_WINDOW);
        let one = mul_div(mss.get() << FRACTION_BITS, bytes.get(), cwnd.get());
        let caught_up = epoch.w_est >= cwnd_prior.get() << FRACTION_BITS;
        let step = if caught_up {
            one
        } else {
            mul_div(one, ALPHA.0, ALPHA.1)
        };
        epoch.w_est = epoch.w_est.saturating_add(step);

        let now = self.cwnd_20();
        let next = if curve::w_cubic(epoch.elapsed, epoch.k, epoch.origin, mss) < epoch.w_est {
            // An ACK never adds more than it acknowledges, should W_est be far ahead.
            now.max(epoch.w_est)
                .min(now.saturating_add(bytes.get() << FRACTION_BITS))
        } else {
            let rtt = flow.rtt.srtt().unwrap_or(Duration::ZERO);
            let ahead = curve::w_cubic(epoch.elapsed + rtt, epoch.k, epoch.origin, mss);
            let target = ahead.clamp(now, now.saturating_add(now / 2));
            now.saturating_add(mul_div(target - now, bytes.get(), cwnd.get()))
        };
        self.stages.curve.epoch = Some(epoch);
        if next > now && cwnd < MAX_WINDOW {
            self.window
                .grow(ByteCount::new(next >> FRACTION_BITS) - cwnd);
            self.fraction = next & ((1 << FRACTION_BITS) - 1);
        }
    }

    /// Sections 4.6 and 4.7: remember the window, release some of it, end the epoch.
    fn congestion(&mut self) {
        self.stages.undo = Some(self.stages.curve);
        let cwnd = self.window.cwnd();
        let releases = self.fast_convergence && self.stages.curve.w_max.is_some_and(|w| cwnd < w);
        // cwnd (1 + beta) / 2.
        let w_max = if releases {
            cwnd.mul_ratio(BETA.0 + BETA.1, 2 * BETA.1)
        } else {
            cwnd
        };
        self.stages.curve = State {
            w_max: Some(w_max),
            cwnd_prior: Some(cwnd),
            epoch: None,
        };
        self.fraction = 0;
        self.slow_start.on_congestion();
    }

    fn restart_epoch(&mut self) {
        if !self.stages.is_as_it_began() {
            self.stages.curve.epoch = None;
        }
        self.fraction = 0;
    }
}

impl CongestionControl for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }
    #[inline]
    fn cwnd(&self) -> ByteCount {
        self.window.cwnd()
    }
    #[inline]
    fn ssthresh(&self) -> ByteCount {
        self.window.ssthresh()
    }
    fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
        let passed = flow.now - self.last;
        self.last = flow.now;
        let bytes = self.slow_start.on_ack(&mut self.window, ack, flow);
        if !self.window.in_slow_start() && flow.may_grow() {
            self.congestion_avoidance(bytes, flow, passed);
        }
    }
    fn on_congestion_event(&mut self, event: CongestionEvent, flow: &FlowView<'_>) {
        self.congestion();
        let target = self.window.flight(flow).mul_ratio(BETA.0, BETA.1);
        self.window.reduce(target, flow);
        if event == CongestionEvent::EcnEcho {
            // Section 4.6: on ECN the window may go to one segment, ssthresh to two.
            self.window.lower_cwnd(target, flow.mss);
            self.window.forget_undo();
        }
    }
    fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>) {
        if consecutive <= 1 {
            self.congestion();
        }
        self.restart_epoch();
        self.stages.curve.w_max = None;
        self.window.timeout(
            consecutive,
            flow.flight_size.mul_ratio(BETA.0, BETA.1),
            flow,
        );
    }
    fn on_spurious(&mut self, what: Spurious, flow: &FlowView<'_>) {
        // Section 4.9.2: a window that has grown beyond what it was keeps its curve and ssthresh.
        let prior = self.stages.curve.cwnd_prior;
        let beyond = prior.is_some_and(|prior| self.window.cwnd() > prior);
        if what == Spurious::FastRetransmit && self.stages.undo.is_some() && beyond {
            self.window.forget_undo();
            self.stages.undo = None;
            return;
        }
        // Section 4.9. Time since the reduction stays out of the restored epoch.
        if self.window.undo(what) == Undone::Restored
            && let Some(before) = self.stages.undo.take()
        {
            self.stages.curve = before;
            self.fraction = 0;
            self.last = flow.now;
            self.slow_start.on_undo();
        }
    }
    fn on_sent(&mut self, bytes: ByteCount, flow: &FlowView<'_>) {
        // The first data after silence: what passed since the last ACK was idle.
        if flow.in_flight <= bytes {
            self.last = flow.now;
        }
    }
    fn on_lower(&mut self, window: ByteCount, why: Lower, flow: &FlowView<'_>) {
        let before = self.window.cwnd();
        if let Lower::Idle(_) = why {
            self.last = flow.now;
            if window >= before {
                return;
            }
        }
        self.window.lower(window, why, flow.mss);
        if self.window.cwnd() < before && why != Lower::Deflate {
            self.restart_epoch();
        }
        // The curve leads back to what the path was seen to hold, not to what was not used.
        if why == Lower::Exceeded {
            let held = Some(window.max(flow.mss) * 2);
            self.stages.curve.w_max = self.stages.curve.w_max.min(held);
            self.stages.curve.cwnd_prior = self.stages.curve.cwnd_prior.min(held);
        }
    }
    fn on_mss_change(&mut self, was: ByteCount, flow: &FlowView<'_>) {
        self.window.on_mss_change(was, flow.mss);
        self.restart_epoch();
    }
    fn variables(&self, show: &mut dyn FnMut(&'static str, Variable)) {
        if let Some(w_max) = self.w_max() {
            show("w_max", Variable::Bytes(w_max));
        }
        if let Some(k) = self.k() {
            show("k", Variable::Time(k));
        }
    }
}

/// `a * b / c`, saturating; `c` is a window and never zero.
fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    match u64::try_from(product) {
        // Division in 64 bits wherever it fits: this is on the path of every ACK.
        Ok(product) => product / c.max(1),
        Err(_) => u64::try_from(product / u128::from(c.max(1))).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RttEstimator;

    const MSS: ByteCount = ByteCount::new(1_000);
    const RTT: Duration = Duration::from_millis(100);

    struct Rig {
        cc: Cubic,
        est: RttEstimator,
        now: Instant,
        limited: bool,
    }

    impl Rig {
        /// In congestion avoidance from the start, with `segments`.
        fn new(segments: u64) -> Self {
            let mut start = FlowStart::new(MSS, MSS * segments);
            start.initial_ssthresh = MSS * segments;
            let mut est = RttEstimator::new();
            est.on_sample(RTT, Instant::ZERO);
            Self {
                cc: Cubic::new(&start),
                est,
                now: Instant::ZERO,
                limited: true,
            }
        }

        fn flow(&self) -> FlowView<'_> {
            let mut flow = FlowView::new(self.now, MSS, &self.est);
            flow.flight_size = self.cc.cwnd();
            flow.in_flight = self.cc.cwnd();
            flow.cwnd_limited = self.limited;
            flow
        }

        /// `n` round trips of ACKs for two segments each.
        fn rounds(&mut self, n: u64) {
            for _ in 0..n {
                let acks = (self.cc.cwnd().get() / 2_000).clamp(1, 10_000);
                for _ in 0..acks {
                    self.now = self.now + RTT / acks;
                    let ack = AckSample {
                        acked: MSS * 2,
                        delivered: MSS * 2,
                        ..AckSample::default()
                    };
                    let mut cc = self.cc.clone();
                    cc.on_ack(&ack, &self.flow());
                    self.cc = cc;
                }
            }
        }

        fn event(&mut self, f: impl FnOnce(&mut Cubic, &FlowView<'_>)) {
            let mut cc = self.cc.clone();
            f(&mut cc, &self.flow());
            self.cc = cc;
        }

        fn lose(&mut self) {
            self.event(|cc, flow| cc.on_congestion_event(CongestionEvent::Loss, flow));
        }

        fn segments(&self) -> u64 {
            self.cc.cwnd().get() / 1_000
        }
    }

    /// RFC 9438 sections 4.2 to 4.6: cut to 70 %, concave to the plateau at K, convex after.
    #[test]
    fn concave_then_convex() {
        let mut rig = Rig::new(1_000);
        rig.lose();
        assert_eq!((rig.segments(), rig.cc.ssthresh()), (700, MSS * 700));
        assert_eq!(rig.cc.w_max(), Some(MSS * 1_000));
        rig.rounds(1);
        // cbrt(300 / 0.4) = 9.086 s.
        assert_eq!(rig.cc.k().map(Duration::as_millis), Some(9_085));
        rig.rounds(44);
        let half_way = rig.segments();
        assert!((960..=966).contains(&half_way), "{half_way}");
        rig.rounds(46);
        assert!(
            (998..=1_001).contains(&rig.segments()),
            "{}",
            rig.segments()
        );
        rig.rounds(91);
        assert!(
            (1_290..=1_320).contains(&rig.segments()),
            "{}",
            rig.segments()
        );
    }

    /// Section 4.7: cut below W_max, W_max falls to 0.85 cwnd.
    #[test]
    fn fast_convergence_is_a_choice() {
        for (fast_convergence, w_max) in [(true, 595), (false, 700)] {
            let mut rig = Rig::new(1_000);
            rig.cc.fast_convergence = fast_convergence;
            rig.lose();
            rig.lose();
            assert_eq!(rig.cc.w_max(), Some(MSS * w_max));
            assert_eq!(rig.segments(), 490);
        }
    }

    /// Section 4.3: 9/17 of a segment a round trip, a whole one once W_est passes cwnd_prior.
    #[test]
    fn the_friendly_region_follows_reno() {
        let mut rig = Rig::new(10);
        rig.lose();
        assert_eq!(rig.segments(), 7);
        rig.rounds(6);
        // Six windows at 9/17: 3.2 segments, while the cubic curve is still at 9.9.
        assert!(
            (9_500..10_700).contains(&rig.cc.cwnd().get()),
            "{}",
            rig.cc.cwnd()
        );
        let from = rig.cc.cwnd().get();
        rig.rounds(6);
        let rate = (rig.cc.cwnd().get() - from) / 6;
        // The rig rounds its ACKs down, by up to two segments in ten.
        assert!((800..1_000).contains(&rate), "{rate} B per round trip");
    }

    /// Section 4.8: after a timeout K = 0 and the plateau is where congestion avoidance begins.
    #[test]
    fn timeouts_reset_the_plateau() {
        let mut rig = Rig::new(100);
        rig.event(|cc, flow| cc.on_rto(1, flow));
        assert_eq!(
            (rig.segments(), rig.cc.ssthresh(), rig.cc.w_max()),
            (1, MSS * 70, None)
        );
        rig.event(|cc, flow| cc.on_rto(2, flow));
        assert_eq!(rig.cc.ssthresh(), MSS * 70);
        rig.rounds(10);
        assert_eq!(rig.cc.k(), Some(Duration::ZERO));
        assert!(
            rig.cc
                .w_max()
                .is_some_and(|w| w >= MSS * 70 && w <= MSS * 72)
        );
    }

    /// Section 4.9: everything comes back.
    #[test]
    fn spurious_reductions_are_undone() {
        let mut rig = Rig::new(1_000);
        rig.lose();
        rig.rounds(20);
        let before = rig.cc.clone();
        rig.lose();
        assert_ne!(rig.cc.stages.curve, before.stages.curve);
        rig.event(|cc, flow| cc.on_spurious(Spurious::FastRetransmit, flow));
        assert_eq!(
            (rig.cc.cwnd(), rig.cc.ssthresh()),
            (before.cwnd(), before.ssthresh())
        );
        assert_eq!(rig.cc.stages.curve, before.stages.curve);
        rig.event(|cc, flow| cc.on_rto(1, flow));
        rig.event(|cc, flow| cc.on_spurious(Spurious::FastRetransmit, flow));
        assert_eq!(rig.segments(), 1);
        rig.event(|cc, flow| cc.on_spurious(Spurious::Timeout, flow));
        assert_eq!(rig.cc.cwnd(), before.cwnd());
        assert_eq!(rig.cc.stages.curve, before.stages.curve);
    }

    /// Section 4.9.2: where the window has outgrown cwnd_prior before the reduction is found to
    /// have been needless, nothing is restored.
    #[test]
    fn rfc9438_4_9_2_a_window_beyond_cwnd_prior_keeps_its_own_curve() {
        for (rounds, beyond) in [(5, false), (60, true)] {
            let mut rig = Rig::new(40);
            rig.lose();
            rig.rounds(1);
            rig.lose();
            let prior = rig.cc.stages.curve.cwnd_prior.unwrap();
            let old = rig.cc.stages.undo.unwrap();
            rig.rounds(rounds);
            assert_eq!(rig.cc.cwnd() > prior, beyond, "{}", rig.cc.cwnd());
            let now = rig.cc.clone();
            rig.event(|cc, flow| cc.on_spurious(Spurious::FastRetransmit, flow));
            if beyond {
                assert_eq!(
                    (rig.cc.cwnd(), rig.cc.ssthresh(), rig.cc.stages.curve),
                    (now.cwnd(), now.ssthresh(), now.stages.curve)
                );
                // Nor later.
                rig.event(|cc, flow| cc.on_spurious(Spurious::FastRetransmit, flow));
                assert_eq!(rig.cc.ssthresh(), now.ssthresh());
            } else {
                assert_eq!((rig.cc.cwnd(), rig.cc.stages.curve), (prior, old));
                assert!(rig.cc.ssthresh() > now.ssthresh());
            }
        }
    }

    /// Rounds of eight ACKs in slow start, whose RTT is 50 ms and then 100 ms, until the window
    /// leaves it or 20 have passed.
    fn slow_start_with_a_rising_rtt(config: CubicConfig) -> Rig {
        let mut rig = Rig::new(1);
        let start = FlowStart::new(MSS, MSS * 10);
        rig.cc = Cubic::with_config(&start, config);
        for round in 0..20 {
            let rtt = Duration::from_millis(if round < 2 { 50 } else { 100 });
            for i in 0..8 {
                let ack = AckSample {
                    acked: MSS,
                    delivered: MSS,
                    rtt: Some(rtt),
                    round_start: i == 0,
                    ..AckSample::default()
                };
                rig.now = rig.now + rtt / 8;
                rig.event(|cc, flow| cc.on_ack(&ack, flow));
                if !rig.cc.window.in_slow_start() {
                    return rig;
                }
            }
        }
        rig
    }

    fn with(slow_start: SlowStart) -> CubicConfig {
        CubicConfig {
            slow_start,
            ..CubicConfig::default()
        }
    }

    /// Section 4.10: hybrid slow start, as in Linux, unless something else is asked for.
    #[test]
    fn rfc9438_4_10_hybrid_is_the_default_slow_start() {
        let default = Cubic::new(&FlowStart::new(MSS, MSS));
        assert_eq!(default.slow_start.state(), SlowStart::HYBRID);
        for config in [CubicConfig::default(), with(SlowStart::HYSTART)] {
            let rig = slow_start_with_a_rising_rtt(config);
            assert!(!rig.cc.window.in_slow_start(), "it leaves without a loss");
        }
        let rig = slow_start_with_a_rising_rtt(with(SlowStart::STANDARD));
        assert!(rig.cc.window.in_slow_start(), "{}", rig.cc.cwnd());
    }

    /// RFC 9406 section 4.2: a loss, a mark or a timeout ends HyStart++, in slow start and in
    /// conservative slow start.
    #[test]
    fn rfc9406_4_2_congestion_ends_it() {
        use crate::hystart::Phase;
        let phase = |rig: &Rig| match rig.cc.slow_start.state() {
            SlowStart::HyStart(h) => h.phase(),
            SlowStart::Standard { .. } | SlowStart::Hybrid(_) => panic!("it stays what it is"),
        };
        for conservative in [false, true] {
            let acks = |rig: &mut Rig, ms: u64| {
                for i in 0..8 {
                    let ack = AckSample {
                        acked: MSS,
                        delivered: MSS,
                        rtt: Some(Duration::from_millis(ms)),
                        round_start: i == 0,
                        ..AckSample::default()
                    };
                    rig.event(|cc, flow| cc.on_ack(&ack, flow));
                }
            };
            type Ends = fn(&mut Cubic, &FlowView<'_>);
            let ends: [Ends; 3] = [
                |cc, flow| cc.on_congestion_event(CongestionEvent::Loss, flow),
                |cc, flow| cc.on_congestion_event(CongestionEvent::EcnEcho, flow),
                |cc, flow| cc.on_rto(1, flow),
            ];
            for end in ends {
                let mut rig = Rig::new(1);
                let start = FlowStart::new(MSS, MSS * 10);
                rig.cc = Cubic::with_config(&start, with(SlowStart::HYSTART));
                acks(&mut rig, 50);
                acks(&mut rig, if conservative { 100 } else { 50 });
                let in_css = matches!(phase(&rig), Phase::Conservative { .. });
                assert_eq!(in_css, conservative);
                rig.event(end);
                assert_eq!(phase(&rig), Phase::Done);
            }
        }
    }

    /// Section 4.10: where HyStart++, or hybrid slow start, ends slow start, cwnd_prior and W_max are
    /// the window there, and K is 0; from then on W_est grows as Reno's window does.
    #[test]
    fn rfc9438_4_10_after_slow_start_the_window_is_cwnd_prior_and_w_max() {
        for slow_start in [SlowStart::HYSTART, SlowStart::HYBRID] {
            let mut rig = slow_start_with_a_rising_rtt(with(slow_start));
            let left_at = rig.cc.ssthresh();
            rig.rounds(1);
            assert_eq!(rig.cc.k(), Some(Duration::ZERO));
            // By 10 s the curve is far beyond W_est.
            rig.rounds(100);
            assert_eq!(rig.cc.w_max(), Some(left_at));
            assert_eq!(rig.cc.stages.curve.cwnd_prior, Some(left_at));
            let w_est = |rig: &Rig| rig.cc.stages.curve.epoch.unwrap().w_est >> FRACTION_BITS;
            assert!(w_est(&rig) * 2 < rig.cc.cwnd().get());
            let from = w_est(&rig);
            rig.rounds(1);
            let grown = w_est(&rig) - from;
            assert!((800..=1_000).contains(&grown), "{grown}");
        }
    }

    /// Section 4.6: on ECN the window may go to one segment, ssthresh not.
    #[test]
    fn ecn_floor_is_one_segment() {
        let mut rig = Rig::new(2);
        for _ in 0..3 {
            rig.event(|cc, flow| cc.on_congestion_event(CongestionEvent::EcnEcho, flow));
        }
        assert_eq!((rig.segments(), rig.cc.ssthresh()), (1, MSS * 2));
    }

    /// Sections 4.2 and 5.8: neither application-limited nor idle time moves the curve.
    #[test]
    fn time_without_demand_stands_still() {
        let mut busy = Rig::new(1_000);
        busy.lose();
        busy.rounds(30);
        let mut limited = Rig {
            cc: busy.cc.clone(),
            limited: false,
            ..Rig::new(1)
        };
        limited.now = busy.now;
        limited.rounds(200);
        assert_eq!(limited.cc.cwnd(), busy.cc.cwnd());
        limited.limited = true;
        let mut idle = Rig {
            cc: busy.cc.clone(),
            now: busy.now + Duration::from_secs(60),
            ..Rig::new(1)
        };
        // Shorter than an RTO or not, the first segment after silence ends the idle time.
        idle.event(|cc, flow| {
            let mut flow = *flow;
            flow.in_flight = MSS;
            cc.on_sent(MSS, &flow);
        });
        for rig in [&mut busy, &mut limited, &mut idle] {
            rig.rounds(5);
        }
        assert!(limited.cc.cwnd().get().abs_diff(busy.cc.cwnd().get()) < 100);
        assert_eq!(idle.cc.cwnd(), busy.cc.cwnd());
    }

    /// At 10 us a round trip adds 9/17 of a segment; nothing is lost to rounding.
    #[test]
    fn ten_microsecond_rtts_grow_as_fast_per_round() {
        let mut rig = Rig::new(100);
        rig.lose();
        let from = rig.cc.cwnd().get();
        for _ in 0..100 {
            for _ in 0..70 {
                rig.now = rig.now + Duration::from_nanos(143);
                let ack = AckSample {
                    acked: MSS,
                    delivered: MSS,
                    ..AckSample::default()
                };
                let mut cc = rig.cc.clone();
                cc.on_ack(&ack, &rig.flow());
                rig.cc = cc;
            }
        }
        // A segment adds alpha / W, so W^2 / 2 grows by alpha: 4,817 segments take it from 70
        // to cwnd_prior = 100 at 9/17, the other 2,183 to 119.86 at 1.
        let got = rig.cc.cwnd().get() - from;
        assert!((49_800..49_900).contains(&got), "{got}");
    }
}
