//! CUBIC (RFC 9438), in integer arithmetic.

pub mod curve;

use crate::control::{
    AckSample, CongestionControl, CongestionEvent, FlowStart, FlowView, Spurious,
};
use crate::slow_start::SlowStart;
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
    /// Slow start; section 4.10 recommends HyStart++.
    pub slow_start: SlowStart,
    /// Release bandwidth to newcomers by lowering W_max further (section 4.7).
    pub fast_convergence: bool,
}

impl Default for CubicConfig {
    fn default() -> Self {
        Self { slow_start: SlowStart::HYSTART, fast_convergence: true }
    }
}

/// RFC 9438 congestion control.
///
/// The time of an epoch runs only between ACKs on which the window may grow: idle and
/// application-limited time, and recovery, are not in it (section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cubic {
    window: Window,
    /// Growth below one byte, in units of 2^-20 byte.
    fraction: u64,
    slow_start: SlowStart,
    fast_convergence: bool,
    curve: State,
    undo: Option<State>,
    /// When the last ACK came, or sending last resumed after idle.
    last: Instant,
}

/// The state variables of RFC 9438 section 4.1.2, without the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    /// W_max; `None` where it is to be the window at the start of the next epoch: before the
    /// first congestion (section 4.10) and after a timeout (section 4.8).
    w_max: Option<ByteCount>,
    /// cwnd_prior: the window before the last reduction.
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
    /// As RFC 9438 recommends: HyStart++ and fast convergence.
    pub fn new(start: &FlowStart) -> Self {
        Self::with_config(start, CubicConfig::default())
    }

    /// With values of choice.
    pub fn with_config(start: &FlowStart, config: CubicConfig) -> Self {
        Self {
            window: Window::new(start),
            fraction: 0,
            slow_start: config.slow_start,
            fast_convergence: config.fast_convergence,
            curve: State { w_max: None, cwnd_prior: None, epoch: None },
            undo: None,
            last: Instant::ZERO,
        }
    }

    /// W_max of RFC 9438, `None` while it is undefined.
    pub fn w_max(&self) -> Option<ByteCount> {
        self.curve.w_max
    }

    /// K of RFC 9438, `None` outside congestion avoidance.
    pub fn k(&self) -> Option<Duration> {
        self.curve.epoch.map(|e| e.k)
    }

    /// The epoch of this stage of congestion avoidance, begun if need be (section 4.2).
    fn epoch(&mut self, mss: ByteCount) -> Epoch {
        if let Some(epoch) = self.curve.epoch {
            return epoch;
        }
        let cwnd = self.window.cwnd();
        let w_max = self.curve.w_max.map_or(cwnd, |w| w.max(cwnd));
        self.curve.w_max = Some(self.curve.w_max.unwrap_or(cwnd));
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
        let fresh = self.curve.epoch.is_none();
        let mut epoch = self.epoch(mss);
        if !fresh {
            epoch.elapsed += passed;
        }

        let cwnd_prior = self.curve.cwnd_prior.unwrap_or(cwnd).min(MAX_WINDOW);
        let one = mul_div(mss.get() << FRACTION_BITS, bytes.get(), cwnd.get());
        let caught_up = epoch.w_est >= cwnd_prior.get() << FRACTION_BITS;
        let step = if caught_up { one } else { mul_div(one, ALPHA.0, ALPHA.1) };
        epoch.w_est = epoch.w_est.saturating_add(step);

        let now = self.cwnd_20();
        let next = if curve::w_cubic(epoch.elapsed, epoch.k, epoch.origin, mss) < epoch.w_est {
            // An ACK never adds more than it acknowledges, should W_est be far ahead.
            now.max(epoch.w_est).min(now.saturating_add(bytes.get() << FRACTION_BITS))
        } else {
            let rtt = flow.rtt.srtt().unwrap_or(Duration::ZERO);
            let ahead = curve::w_cubic(epoch.elapsed + rtt, epoch.k, epoch.origin, mss);
            let target = ahead.clamp(now, now.saturating_add(now / 2));
            now.saturating_add(mul_div(target - now, bytes.get(), cwnd.get()))
        };
        self.curve.epoch = Some(epoch);
        if next > now && cwnd < MAX_WINDOW {
            self.window.grow(ByteCount::new(next >> FRACTION_BITS) - cwnd);
            self.fraction = next & ((1 << FRACTION_BITS) - 1);
        }
    }

    /// Sections 4.6 and 4.7: remember the window, release some of it, end the epoch.
    fn congestion(&mut self) {
        self.undo = Some(self.curve);
        let cwnd = self.window.cwnd();
        let releases = self.fast_convergence && self.curve.w_max.is_some_and(|w| cwnd < w);
        // cwnd (1 + beta) / 2.
        let w_max = if releases { cwnd.mul_ratio(BETA.0 + BETA.1, 2 * BETA.1) } else { cwnd };
        self.curve = State { w_max: Some(w_max), cwnd_prior: Some(cwnd), epoch: None };
        self.fraction = 0;
        self.slow_start.on_congestion();
    }

    fn restart_epoch(&mut self) {
        self.curve.epoch = None;
        self.fraction = 0;
    }
}

impl CongestionControl for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }
    fn cwnd(&self) -> ByteCount {
        self.window.cwnd()
    }
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
        self.curve.w_max = None;
        self.window.timeout(consecutive, flow.flight_size.mul_ratio(BETA.0, BETA.1), flow);
    }
    fn on_spurious(&mut self, what: Spurious, flow: &FlowView<'_>) {
        // Section 4.9. Time since the reduction stays out of the restored epoch.
        if let (Undone::Restored, Some(before)) = (self.window.undo(what), self.undo.take()) {
            self.curve = before;
            self.fraction = 0;
            self.last = flow.now;
        }
    }
    fn on_idle_restart(&mut self, _: Duration, restart_window: ByteCount, flow: &FlowView<'_>) {
        self.last = flow.now;
        if restart_window < self.window.cwnd() {
            self.window.restart(restart_window, flow.mss);
            self.restart_epoch();
        }
    }
    fn on_sent(&mut self, bytes: ByteCount, flow: &FlowView<'_>) {
        // The first data after silence: what passed since the last ACK was idle.
        if flow.in_flight <= bytes {
            self.last = flow.now;
        }
    }
    fn on_mss_change(&mut self, flow: &FlowView<'_>) {
        self.window.on_mss_change(flow.mss);
        self.restart_epoch();
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
