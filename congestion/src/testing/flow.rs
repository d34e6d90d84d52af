//! The model flow: one algorithm, one path of constant delay, and a ledger of what it promised.

use super::promise::{Promise, Violation};
use super::run::Run;
use crate::control::CongestionControl;
use crate::factory::CongestionFactory;
use crate::flow::{
    AckSample, CaState, CongestionEvent, FlowStart, FlowView, Lower, RateSample, Spurious,
};
use crate::rtt::RttEstimator;
use crate::units::{ByteCount, Duration, Instant};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

/// ACKs per round trip at most: above that window, ACKs cover several segments.
const ACKS_PER_ROUND: u64 = 32;
/// The model never has more than this in flight, whatever the window.
const MAX_FLIGHT: u64 = 1 << 44;

/// The path of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) mss: u64,
    pub(super) rtt: Duration,
    pub(super) epoch: Instant,
}

/// A flow under test. Its methods are the verbs of the scenarios.
pub(super) struct Flow {
    scenario: &'static str,
    path: Path,
    now: Instant,
    mss: u64,
    /// What ACKs measure.
    rtt: Option<Duration>,
    est: RttEstimator,
    in_flight: u64,
    /// Outstanding but lost.
    lost: u64,
    state: CaState,
    limited: bool,
    /// Bytes to be delivered until the next round trip begins.
    round_bytes: u64,
    /// Bytes delivered and not yet used for growth.
    budget: u64,
    last_cwnd: ByteCount,
    /// The window after the cut in this window of data.
    cut_to: Option<ByteCount>,
    name: &'static str,
    cc: Box<dyn CongestionControl>,
    run: Run,
}

impl Flow {
    /// A flow over `path` with a fresh instance, in the scenario of that name.
    #[inline]
    pub(super) fn new(
        scenario: &'static str,
        path: Path,
        factory: &dyn CongestionFactory,
        start: &FlowStart,
    ) -> Self {
        let cc = factory.build(start);
        let mut flow = Self {
            scenario,
            path,
            now: path.epoch,
            mss: path.mss,
            rtt: Some(path.rtt),
            est: RttEstimator::new(),
            in_flight: 0,
            lost: 0,
            state: CaState::Open,
            limited: true,
            round_bytes: 0,
            budget: 0,
            last_cwnd: cc.cwnd(),
            cut_to: None,
            name: cc.name(),
            cc,
            run: Run::default(),
        };
        flow.check_start(start);
        flow
    }

    /// What it leaves behind.
    #[inline]
    pub(super) fn into_run(self) -> Run {
        self.run
    }

    #[inline]
    pub(super) fn cwnd(&self) -> u64 {
        self.cc.cwnd().get()
    }

    #[inline]
    pub(super) fn mss(&self) -> u64 {
        self.mss
    }

    /// What ACKs measure from here on; `None`: nothing.
    #[inline]
    pub(super) fn set_rtt(&mut self, rtt: Option<Duration>) {
        self.rtt = rtt;
    }

    #[inline]
    pub(super) fn rtt(&self) -> Duration {
        self.path.rtt
    }

    /// Whether the window, or the application, limits the flow from here on.
    #[inline]
    pub(super) fn set_limited(&mut self, limited: bool) {
        self.limited = limited;
    }

    #[inline]
    pub(super) fn set_state(&mut self, state: CaState) {
        self.state = state;
    }

    /// `n` round trips: send what may be sent, have it acknowledged.
    #[inline]
    pub(super) fn rounds(&mut self, n: u32) {
        for _ in 0..n {
            self.round(false);
        }
    }

    /// One round trip; `marked`: every ACK echoes congestion.
    #[inline]
    pub(super) fn round(&mut self, marked: bool) {
        self.send();
        let mut left = self.in_flight;
        let segments = left.div_ceil(self.mss);
        let per_ack = segments.div_ceil(ACKS_PER_ROUND) * self.mss;
        let acks = left.div_ceil(per_ack.max(1)).max(1);
        while left > 0 {
            let bytes = left.min(per_ack);
            left -= bytes;
            self.now = self.now + self.path.rtt / acks;
            self.ack(bytes, marked);
            self.send();
        }
        let cwnd = self.cwnd();
        self.run.rounds.push(cwnd);
    }

    /// Fill the window, or half of it if the application is what limits.
    #[inline]
    fn send(&mut self) {
        let window = if self.limited {
            self.cwnd()
        } else {
            self.cwnd() / 2
        };
        // A window below one segment is paced: one segment at a time.
        let window = window.clamp(self.mss, MAX_FLIGHT);
        let mut room = window.saturating_sub(self.in_flight);
        let chunk = (room / 4).next_multiple_of(self.mss).max(self.mss);
        while room >= self.mss {
            let bytes = room.min(chunk);
            room -= bytes;
            self.in_flight += bytes;
            if self.cc.needs().hears_of_sent {
                let call = Call::Sent;
                self.call(call, |cc, flow| cc.on_sent(ByteCount::new(bytes), flow));
            }
        }
    }

    /// An ACK of `bytes`, all delivered just now.
    #[inline]
    pub(super) fn ack(&mut self, bytes: u64, marked: bool) {
        self.ack_parts(bytes, bytes, marked);
    }

    /// An ACK that moves SND.UNA by `acked` and delivers `delivered`.
    #[inline]
    pub(super) fn ack_parts(&mut self, acked: u64, delivered: u64, marked: bool) {
        self.in_flight = self.in_flight.saturating_sub(delivered);
        let round_start = self.round_bytes == 0;
        if round_start {
            self.round_bytes = self.in_flight.max(1);
        } else {
            self.round_bytes = self.round_bytes.saturating_sub(delivered);
        }
        if let Some(rtt) = self.rtt {
            self.est.on_sample(rtt, self.now);
        }
        let sample = AckSample {
            acked: ByteCount::new(acked),
            delivered: ByteCount::new(delivered),
            delivered_ce: ByteCount::new(if marked { delivered } else { 0 }),
            rtt: self.rtt,
            rate: Some(RateSample {
                delivered: self.last_cwnd,
                interval: self.path.rtt,
                in_flight: self.last_cwnd,
                ..RateSample::default()
            }),
            newly_lost: ByteCount::ZERO,
            round_start,
        };
        self.call(Call::Ack { delivered }, |cc, flow| cc.on_ack(&sample, flow));
    }

    /// A congestion event, with the reaction that is asked of it.
    #[inline]
    pub(super) fn congestion(&mut self, event: CongestionEvent, reaction: Reaction) {
        let before = self.cc.cwnd();
        let segments = before.get() / self.mss;
        self.call(Call::Congestion, |cc, flow| {
            cc.on_congestion_event(event, flow)
        });
        let (after, ssthresh) = (self.cc.cwnd(), self.cc.ssthresh());
        self.cut_to = Some(after);
        if reaction == Reaction::Any || segments < 4 {
            return;
        }
        let promise = match event {
            CongestionEvent::EcnEcho => Promise::ReducesOnEcn,
            _ => Promise::ReducesOnLoss,
        };
        if after >= before {
            self.violated(promise, || {
                format!("cwnd {before} became {after} on {event:?}")
            });
        }
        if event == CongestionEvent::Loss {
            self.check_ssthresh(before, ssthresh, "a loss");
        }
    }

    /// A loss, its recovery with SACKs, and the end of it.
    #[inline]
    pub(super) fn loss_episode(&mut self) {
        self.send();
        self.state = CaState::Disorder;
        for _ in 0..2 {
            self.ack_parts(0, self.mss, false);
        }
        self.in_flight = self.in_flight.saturating_sub(self.mss);
        self.lost = self.mss;
        self.state = CaState::Recovery;
        self.congestion(CongestionEvent::Loss, Reaction::Reduce);
        let outstanding = (self.in_flight / self.mss).min(2 * ACKS_PER_ROUND);
        for _ in 0..outstanding {
            self.now = self.now + self.path.rtt / outstanding;
            self.ack_parts(0, self.mss, false);
            self.send();
        }
        self.lost = 0;
        self.ack_parts((outstanding + 3) * self.mss, self.mss, false);
        self.leave_recovery();
    }

    /// The end of an episode: nothing is lost any more, and the window of the cut is over.
    #[inline]
    pub(super) fn leave_recovery(&mut self) {
        self.lost = 0;
        self.call(Call::Exit, |cc, flow| cc.on_recovery_exit(flow));
        self.state = CaState::Open;
        self.cut_to = None;
    }

    /// One window of data with echoes: the first ACK brings the event, the rest come in Cwr.
    #[inline]
    pub(super) fn ecn_window(&mut self, reaction: Reaction) {
        self.send();
        let bytes = self.mss.min(self.in_flight);
        self.ack(bytes, true);
        self.congestion(CongestionEvent::EcnEcho, reaction);
        self.state = CaState::Cwr;
        self.round(true);
        self.state = CaState::Open;
        self.cut_to = None;
    }

    /// Two windows of data in a row with nothing but echoes, well after the first reduction.
    #[inline]
    pub(super) fn ecn_again(&mut self) {
        let before = self.cc.cwnd();
        for _ in 0..2 {
            self.ecn_window(Reaction::Any);
        }
        let after = self.cc.cwnd();
        if after >= before && before.get() >= 4 * self.mss {
            self.violated(Promise::ReducesOnEcn, || {
                format!("cwnd {before} became {after} though two whole windows were marked")
            });
        }
    }

    /// A timeout, the `consecutive`-th in a row: all that was in flight is lost.
    #[inline]
    pub(super) fn timeout(&mut self, consecutive: u32) {
        self.now = self.now + self.path.rtt * 4 + Duration::from_millis(1);
        let before = (self.cc.cwnd(), self.cc.ssthresh());
        self.lost = self.lost.saturating_add(self.in_flight);
        self.in_flight = 0;
        self.state = CaState::Loss;
        self.cut_to = None;
        self.call(Call::Timeout, |cc, flow| cc.on_rto(consecutive, flow));
        let (cwnd, ssthresh) = (self.cc.cwnd(), self.cc.ssthresh());
        if cwnd.get() > self.mss {
            self.violated(Promise::LossWindow, || {
                format!("cwnd {} became {cwnd}", before.0)
            });
        }
        if consecutive == 1 && before.0.get() >= 4 * self.mss {
            self.check_ssthresh(before.0, ssthresh, "a timeout");
        }
        if consecutive > 1 && ssthresh != before.1 {
            self.violated(Promise::KeepsSsthreshOnBackoff, || {
                format!(
                    "ssthresh {} became {ssthresh} at timeout {consecutive}",
                    before.1
                )
            });
        }
    }

    /// The last reduction, from `before`, was spurious.
    #[inline]
    pub(super) fn spurious(&mut self, what: Spurious, before: u64) {
        self.lost = 0;
        self.state = CaState::Open;
        self.cut_to = None;
        let now = self.cc.cwnd();
        self.call(Call::Spurious, |cc, flow| cc.on_spurious(what, flow));
        let after = self.cc.cwnd();
        if after.get() > before.max(now.get()) {
            self.violated(Promise::UndoBounded, || {
                format!("cwnd was {before} B before the reduction, {now} now, {after} restored")
            });
        }
    }

    /// Silence, then sending resumes.
    #[inline]
    pub(super) fn idle(&mut self, idle: Duration) {
        while self.in_flight > 0 {
            let bytes = self.in_flight.min(self.mss * 64);
            self.ack(bytes, false);
        }
        self.now = self.now + idle;
        let before = self.cc.cwnd();
        let restart = ByteCount::new(self.mss * 10).min(before);
        self.call(Call::Idle, |cc, flow| {
            cc.on_lower(restart, Lower::Idle(idle), flow);
        });
        let after = self.cc.cwnd();
        if after > restart.max(ByteCount::new(self.mss)) {
            self.violated(Promise::RestartsAfterIdle, || {
                format!("cwnd {before} became {after}, not {restart}, after {idle} without traffic")
            });
        }
    }

    /// The window was not used for long: half of it is left.
    #[inline]
    pub(super) fn unused(&mut self) {
        let before = self.cc.ssthresh();
        let window = self.cc.cwnd() / 2;
        self.unvalidated(window, Lower::Unused);
        let after = self.cc.ssthresh();
        if after < before {
            self.violated(Promise::RemembersUnusedWindow, || {
                format!("ssthresh {before} became {after} when the window was not used")
            });
        }
    }

    /// Congestion met a window of which half was used: after the cut, half of that is left.
    #[inline]
    pub(super) fn exceeded(&mut self) {
        let window = self.cc.cwnd() / 2;
        self.cut_to = None;
        self.unvalidated(window, Lower::Exceeded);
    }

    /// The host's own device refused a segment: half of the window is left, and of what was seen of
    /// the path nothing is forgotten.
    #[inline]
    pub(super) fn refused(&mut self) {
        let before = self.cc.ssthresh();
        let window = self.cc.cwnd() / 2;
        self.cut_to = None;
        self.unvalidated(window, Lower::Refused);
        let after = self.cc.ssthresh();
        if after != before {
            self.violated(Promise::KeepsSsthreshOnRefusal, || {
                format!("ssthresh {before} became {after} when the device refused a segment")
            });
        }
    }

    /// The end of a recovery without SACK asks for a narrower window, and may be told no.
    #[inline]
    pub(super) fn deflate(&mut self) {
        let window = ByteCount::new(self.mss * 2);
        self.call(Call::Unvalidated, |cc, flow| {
            cc.on_lower(window, Lower::Deflate, flow);
        });
    }

    #[inline]
    fn unvalidated(&mut self, window: ByteCount, why: Lower) {
        let before = self.cc.cwnd();
        self.call(Call::Unvalidated, |cc, flow| {
            cc.on_lower(window, why, flow);
        });
        let after = self.cc.cwnd();
        if after > window.max(ByteCount::new(self.mss)) {
            self.violated(Promise::LowersUnvalidatedWindow, || {
                format!("cwnd {before} became {after} on {why:?}")
            });
        }
    }

    /// The segment size becomes `mss`.
    #[inline]
    pub(super) fn change_mss(&mut self, mss: u64) {
        let was = ByteCount::new(self.mss);
        self.mss = mss.max(1);
        self.call(Call::Mss, |cc, flow| cc.on_mss_change(was, flow));
    }

    /// Record the first violation of `promise` in this run.
    #[inline]
    pub(super) fn violated(&mut self, promise: Promise, detail: impl FnOnce() -> String) {
        if self.run.violations.iter().any(|v| v.promise == promise) {
            return;
        }
        self.run.violations.push(Violation {
            promise,
            scenario: self.scenario,
            mss: ByteCount::new(self.path.mss),
            rtt: self.path.rtt,
            step: self.run.trace.len(),
            detail: detail(),
        });
    }

    #[inline]
    fn check_start(&mut self, start: &FlowStart) {
        let cwnd = self.cc.cwnd();
        if cwnd != start.initial_window {
            let want = start.initial_window;
            self.violated(Promise::InitialWindow, || {
                format!("cwnd is {cwnd}, not {want}")
            });
        }
        let name = self.name;
        if name.is_empty() || name.chars().any(char::is_uppercase) {
            self.violated(Promise::StableName, || format!("the name is '{name}'"));
        }
        self.check_state();
    }

    #[inline]
    fn check_ssthresh(&mut self, before: ByteCount, ssthresh: ByteCount, what: &str) {
        let floor = ByteCount::new(if self.cc.needs().sub_mss_cwnd {
            0
        } else {
            2 * self.mss
        });
        if ssthresh >= before || ssthresh < floor {
            self.violated(Promise::LowersSsthresh, || {
                format!("cwnd was {before}, after {what} ssthresh is {ssthresh}")
            });
        }
    }

    /// Make a call and hold its outcome against the promises.
    #[inline]
    fn call(&mut self, call: Call, f: impl FnOnce(&mut Box<dyn CongestionControl>, &FlowView<'_>)) {
        let before = self.cc.cwnd();
        if before != self.last_cwnd {
            let last = self.last_cwnd;
            self.violated(Promise::ChangesOnlyInCalls, || {
                format!("cwnd was {last} after the last call, {before} before this one")
            });
        }
        let mut view = FlowView::new(self.now, ByteCount::new(self.mss), &self.est);
        view.in_flight = ByteCount::new(self.in_flight);
        view.flight_size = ByteCount::new(self.in_flight.saturating_add(self.lost));
        view.ca_state = self.state;
        view.cwnd_limited = self.limited;
        f(&mut self.cc, &view);
        let after = self.cc.cwnd();
        self.last_cwnd = after;
        self.run
            .trace
            .push((after, self.cc.ssthresh(), self.cc.pacing_rate()));
        self.check_growth(call, before, after);
        let falls_again = self.cut_to.is_some_and(|to| after < to.min(before));
        if falls_again && !matches!(call, Call::Mss) {
            self.violated(Promise::OneCutPerWindow, || {
                format!("cwnd was cut to {before} and fell to {after} in the same window of data")
            });
        }
        self.check_state();
    }

    #[inline]
    fn check_growth(&mut self, call: Call, before: ByteCount, after: ByteCount) {
        let growth = after.saturating_sub(before).get();
        if let Call::Ack { delivered } = call {
            // Byte counting may save up a window's worth, and no more.
            let cap = before.get().max(self.mss).saturating_mul(2).max(delivered);
            self.budget = self.budget.saturating_add(delivered).min(cap);
        }
        if growth == 0 {
            return;
        }
        let seen = format!("cwnd {before} became {after}");
        match call {
            Call::Ack { .. } if matches!(self.state, CaState::Cwr | CaState::Recovery) => {
                let state = self.state;
                self.violated(Promise::NoGrowthInRecovery, || {
                    format!("{seen} in {state:?}")
                });
            }
            Call::Ack { .. } if !self.limited => {
                self.violated(Promise::NoGrowthWhenNotLimited, || {
                    format!("{seen} though the application limits the flow")
                });
            }
            Call::Ack { delivered } if growth > self.budget => {
                self.violated(Promise::GrowthBounded, || {
                    format!("{seen} on an ACK that delivered {delivered} B")
                });
            }
            Call::Ack { .. } => self.budget -= growth,
            // Raising the window to one segment is the other promise.
            Call::Spurious | Call::Mss => {}
            _ if after.get() <= self.mss => {}
            _ => self.violated(Promise::NoGrowthWithoutAck, || {
                format!("{seen} at {call:?}")
            }),
        }
    }

    #[inline]
    fn check_state(&mut self) {
        let cwnd = self.cc.cwnd();
        if cwnd.get() < self.mss && !self.cc.needs().sub_mss_cwnd {
            let mss = self.mss;
            self.violated(Promise::MinimumWindow, || {
                format!("cwnd is {cwnd}, a segment {mss} B")
            });
        }
        if self.cc.pacing_rate().is_some_and(|r| r.bits_per_sec() == 0) {
            self.violated(Promise::PacingPositive, || {
                String::from("the pacing rate is zero")
            });
        }
        if self.cc.name() != self.name {
            let names = format!("'{}' became '{}'", self.name, self.cc.name());
            self.violated(Promise::StableName, || names);
        }
    }
}

/// What is asked of the window at a congestion event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// It must shrink, if it is four segments or more.
    Reduce,
    /// It may stay: DCTCP's fraction may be zero by now.
    Any,
}

/// Which call was made.
#[derive(Clone, Copy, Debug)]
enum Call {
    Ack { delivered: u64 },
    Congestion,
    Timeout,
    Exit,
    Spurious,
    Idle,
    Unvalidated,
    Sent,
    Mss,
}
