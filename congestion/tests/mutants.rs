//! A zoo of deliberately broken congestion controls: the kit must catch each, for the right
//! reason, and pass the sound algorithm that they are all made from.

use narrows_congestion::testing::{Kit, Promise, conformance};
use narrows_congestion::{
    AckSample, ByteCount, CaState, CongestionControl, CongestionEvent, Duration, FlowStart,
    FlowView, Lower, Needs, Rate, Spurious,
};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is wrong with a specimen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    GrowsWhileApplicationLimited,
    GrowsInRecovery,
    GrowsInCwr,
    GrowsOnCongestion,
    GrowsOnSending,
    GrowsOnIdle,
    GrowsWhenUnused,
    GrowsWhenExceeded,
    NoMinimumWhenUnused,
    ForgetsUnusedWindow,
    GrowsOnRecoveryExit,
    InflatesOnDuplicateAcks,
    CutsAgainOnMarkedAcks,
    CutsAgainOnRecoveryExit,
    NoMinimumWindow,
    ZeroWindowAtTimeout,
    MinimumIsOldSegment,
    IgnoresGrowthAfterTimeout,
    IgnoresTimeout,
    TimeoutHalves,
    TimeoutKeepsSsthresh,
    EveryTimeoutLowersSsthresh,
    IgnoresLoss,
    IgnoresLocalDrop,
    IgnoresEcn,
    IgnoresEcnAfterTheFirst,
    IgnoresIdle,
    IgnoresLongIdle,
    IgnoresUnused,
    IgnoresExceeded,
    IgnoresRefusal,
    RefusalLowersSsthresh,
    GrowsWhenRefused,
    GrowsOnDeflation,
    LossKeepsSsthresh,
    SsthreshBelowTwoSegments,
    NeverGrows,
    StopsGrowingAfterIdle,
    WallClock,
    TimeOfDay,
    ZeroTimeIsSpecial,
    GlobalState,
    CwndMovesByItself,
    OneByteAnAck,
    WindowInPackets,
    GrowsPerAckPacket,
    SegmentOf1448,
    SwapsMssAndInitialWindow,
    SwapsFlightAndMss,
    SwapsRatio,
    SwapsAckedAndCwnd,
    UndoDoubles,
    UndoWithoutReduction,
    PacesAtZero,
    ShoutsItsName,
    PanicsOnZeroRtt,
}

/// RFC 5681 in its plainest form, with one bug.
#[derive(Debug)]
struct Specimen {
    bug: Bug,
    cwnd: u64,
    ssthresh: u64,
    bytes_acked: u64,
    mss: u64,
    before: Option<(u64, u64)>,
    dead: bool,
    echoed: bool,
    reads: Cell<u64>,
}

static GLOBAL: AtomicU64 = AtomicU64::new(0);

#[allow(
    clippy::disallowed_methods,
    reason = "the bug of this specimen is to read a clock"
)]
fn wall_clock_ns() -> u64 {
    std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |d| d.as_nanos() as u64)
}

impl Specimen {
    fn new(bug: Bug, start: &FlowStart) -> Self {
        let (mut mss, mut cwnd) = (start.mss.get(), start.initial_window.get());
        match bug {
            Bug::SwapsMssAndInitialWindow => std::mem::swap(&mut mss, &mut cwnd),
            Bug::WindowInPackets => cwnd /= mss,
            Bug::SegmentOf1448 => mss = 1_448,
            _ => {}
        }
        Self {
            bug,
            cwnd,
            ssthresh: start.initial_ssthresh.get(),
            bytes_acked: 0,
            mss,
            before: None,
            dead: false,
            echoed: false,
            reads: Cell::new(0),
        }
    }

    fn is(&self, bug: Bug) -> bool {
        self.bug == bug
    }

    fn may_grow(&self, flow: &FlowView<'_>) -> bool {
        let state_permits = match flow.ca_state {
            CaState::Open | CaState::Disorder => true,
            CaState::Loss => !self.is(Bug::IgnoresGrowthAfterTimeout),
            CaState::Recovery => self.is(Bug::GrowsInRecovery),
            CaState::Cwr => self.is(Bug::GrowsInCwr),
        };
        let limited = flow.cwnd_limited || self.is(Bug::GrowsWhileApplicationLimited);
        limited && state_permits && !self.is(Bug::NeverGrows) && !self.dead
    }

    fn grow(&mut self, delivered: u64) {
        let mss = self.mss;
        if self.is(Bug::OneByteAnAck) {
            self.cwnd += 1;
        } else if self.is(Bug::GrowsPerAckPacket) {
            self.cwnd += if self.cwnd < self.ssthresh {
                mss
            } else {
                mss * mss / self.cwnd
            };
        } else if self.is(Bug::SwapsAckedAndCwnd) {
            self.cwnd = self
                .cwnd
                .saturating_add((mss * self.cwnd.min(1 << 40)) / delivered.max(1));
        } else if self.cwnd < self.ssthresh {
            self.cwnd = self
                .cwnd
                .saturating_add(delivered.min(2 * mss))
                .min(1 << 50);
        } else {
            self.bytes_acked += delivered.min(self.cwnd);
            if self.bytes_acked >= self.cwnd {
                self.bytes_acked -= self.cwnd;
                self.cwnd += mss;
            }
        }
    }

    fn halved(&self, flow: &FlowView<'_>) -> u64 {
        let (flight, mss) = (flow.flight_size.get().min(self.cwnd), self.mss);
        match self.bug {
            Bug::SwapsFlightAndMss => (mss / 2).max(2 * flight),
            Bug::SwapsRatio => flight.saturating_mul(2).max(2 * mss),
            Bug::SsthreshBelowTwoSegments => flight / 64,
            _ => (flight / 2).max(2 * mss),
        }
    }
}

impl CongestionControl for Specimen {
    fn name(&self) -> &'static str {
        if self.is(Bug::ShoutsItsName) {
            "Specimen"
        } else {
            "specimen"
        }
    }
    fn cwnd(&self) -> ByteCount {
        let drift = if self.is(Bug::CwndMovesByItself) {
            self.reads.set(self.reads.get() + 1);
            self.reads.get()
        } else {
            0
        };
        ByteCount::new(self.cwnd + drift)
    }
    fn ssthresh(&self) -> ByteCount {
        ByteCount::new(self.ssthresh)
    }
    fn pacing_rate(&self) -> Option<Rate> {
        self.is(Bug::PacesAtZero)
            .then_some(Rate::from_bits_per_sec(0))
    }
    fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
        if self.is(Bug::PanicsOnZeroRtt)
            && let Some(rtt) = ack.rtt
        {
            let _per_second = 1_000_000_000 / rtt.as_nanos();
        }
        if self.is(Bug::CutsAgainOnMarkedAcks) && !ack.delivered_ce.is_zero() {
            self.cwnd = (self.cwnd / 2).max(self.mss);
        }
        if !self.may_grow(flow) {
            return;
        }
        let mut delivered = if ack.acked.is_zero() {
            0
        } else {
            ack.delivered.get()
        };
        if self.is(Bug::InflatesOnDuplicateAcks) && ack.acked.is_zero() {
            self.cwnd += 3 * self.mss;
        }
        if delivered == 0 {
            return;
        }
        match self.bug {
            Bug::WallClock if (wall_clock_ns() / 1_000).is_multiple_of(2) => delivered /= 2,
            Bug::TimeOfDay if flow.now.as_nanos() > 3_600_000_000_000_000 / 100 => delivered /= 2,
            Bug::ZeroTimeIsSpecial if flow.now.as_nanos() == 0 => delivered = 0,
            Bug::GlobalState if GLOBAL.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) => {
                delivered /= 2
            }
            _ => {}
        }
        self.grow(delivered);
    }
    fn on_congestion_event(&mut self, event: CongestionEvent, flow: &FlowView<'_>) {
        let echoed = self.echoed;
        self.echoed |= event == CongestionEvent::EcnEcho;
        match event {
            CongestionEvent::Loss if self.is(Bug::IgnoresLoss) => return,
            CongestionEvent::LocalDrop if self.is(Bug::IgnoresLocalDrop) => return,
            CongestionEvent::EcnEcho if self.is(Bug::IgnoresEcn) => return,
            CongestionEvent::EcnEcho if self.is(Bug::IgnoresEcnAfterTheFirst) && echoed => return,
            _ => {}
        }
        self.before = Some((self.cwnd, self.ssthresh));
        let target = self.halved(flow);
        if !self.is(Bug::LossKeepsSsthresh) {
            self.ssthresh = target;
        }
        self.cwnd = match self.bug {
            Bug::SwapsFlightAndMss | Bug::SwapsRatio => target,
            Bug::NoMinimumWindow => self.cwnd / 2,
            Bug::GrowsOnCongestion => self.cwnd + self.mss,
            _ => target.min(self.cwnd).max(self.mss),
        };
        self.bytes_acked = 0;
    }
    fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>) {
        if self.is(Bug::IgnoresTimeout) {
            return;
        }
        let lowers = consecutive == 1 || self.is(Bug::EveryTimeoutLowersSsthresh);
        if lowers && !self.is(Bug::TimeoutKeepsSsthresh) {
            self.before = Some((self.cwnd, self.ssthresh));
            let halved = self.halved(flow).min(self.cwnd.max(2 * self.mss));
            let again = (self.ssthresh / 2).max(self.mss);
            self.ssthresh = if consecutive > 1 { again } else { halved };
        }
        self.cwnd = match self.bug {
            Bug::TimeoutHalves => (self.cwnd / 2).max(self.mss),
            Bug::ZeroWindowAtTimeout => 0,
            _ => self.mss,
        };
        self.bytes_acked = 0;
    }
    fn on_recovery_exit(&mut self, _: &FlowView<'_>) {
        match self.bug {
            Bug::GrowsOnRecoveryExit => self.cwnd += self.mss,
            Bug::CutsAgainOnRecoveryExit => self.cwnd = (self.cwnd / 2).max(self.mss),
            _ => {}
        }
    }
    fn on_spurious(&mut self, _: Spurious, _: &FlowView<'_>) {
        match (self.bug, self.before.take()) {
            (Bug::UndoDoubles, Some((cwnd, _))) => self.cwnd = 2 * cwnd,
            (Bug::UndoWithoutReduction, None) => self.cwnd *= 2,
            (_, Some((cwnd, ssthresh))) => {
                self.cwnd = self.cwnd.max(cwnd);
                self.ssthresh = self.ssthresh.max(ssthresh);
            }
            _ => {}
        }
    }
    fn on_lower(&mut self, window: ByteCount, why: Lower, _: &FlowView<'_>) {
        let lowered = self.cwnd.min(window.get()).max(self.mss);
        match (why, self.bug) {
            (Lower::Idle(_), Bug::IgnoresIdle) => {}
            (Lower::Idle(idle), Bug::IgnoresLongIdle) if idle >= Duration::from_secs(30) => {}
            (Lower::Idle(_), Bug::GrowsOnIdle) => self.cwnd *= 2,
            (Lower::Idle(_), Bug::StopsGrowingAfterIdle) => self.dead = true,
            (Lower::Idle(_), _) => self.cwnd = lowered,
            (Lower::Unused, Bug::GrowsWhenUnused) => self.cwnd += self.mss,
            (Lower::Exceeded, Bug::GrowsWhenExceeded) => self.cwnd += self.mss,
            (Lower::Unused, Bug::IgnoresUnused) | (Lower::Exceeded, Bug::IgnoresExceeded) => {}
            (Lower::Unused, Bug::NoMinimumWhenUnused) => {
                self.cwnd = self.cwnd.min(window.get());
            }
            (Lower::Unused, _) => {
                let memory = match self.bug {
                    Bug::ForgetsUnusedWindow => window.get().max(2 * self.mss),
                    _ => self.ssthresh.max(self.cwnd / 4 * 3),
                };
                self.ssthresh = memory;
                self.cwnd = lowered;
            }
            (Lower::Exceeded, _) => {
                self.cwnd = lowered;
                self.ssthresh = self.cwnd.max(2 * self.mss);
            }
            (Lower::Refused, Bug::IgnoresRefusal) => {}
            (Lower::Refused, Bug::GrowsWhenRefused) | (Lower::Deflate, Bug::GrowsOnDeflation) => {
                self.cwnd += self.mss;
            }
            (Lower::Refused, bug) => {
                self.cwnd = lowered;
                if bug == Bug::RefusalLowersSsthresh {
                    self.ssthresh = self.cwnd.max(2 * self.mss);
                }
            }
            _ => {}
        }
    }
    fn on_sent(&mut self, bytes: ByteCount, _: &FlowView<'_>) {
        if self.is(Bug::GrowsOnSending) {
            self.cwnd += bytes.get() / 100;
        }
    }
    fn on_mss_change(&mut self, _: ByteCount, flow: &FlowView<'_>) {
        if !self.is(Bug::MinimumIsOldSegment) {
            self.mss = flow.mss.get();
            self.cwnd = self.cwnd.max(self.mss);
            self.ssthresh = self.ssthresh.max(2 * self.mss);
        }
    }
}

fn broken_promises(bug: Bug) -> Vec<Promise> {
    let factory = move |start: &FlowStart| Specimen::new(bug, start);
    match conformance(&factory) {
        Ok(()) => Vec::new(),
        Err(violations) => violations.iter().map(|v| v.promise).collect(),
    }
}

#[test]
fn the_sound_specimen_passes() {
    let factory = |start: &FlowStart| Specimen::new(Bug::None, start);
    if let Err(violations) = conformance(&factory) {
        panic!("{violations:#?}");
    }
}

#[test]
fn each_mutant_is_caught_for_the_right_reason() {
    let table = [
        (
            Bug::GrowsWhileApplicationLimited,
            Promise::NoGrowthWhenNotLimited,
        ),
        (Bug::GrowsInRecovery, Promise::NoGrowthInRecovery),
        (Bug::GrowsInCwr, Promise::NoGrowthInRecovery),
        (Bug::GrowsOnCongestion, Promise::NoGrowthWithoutAck),
        (Bug::GrowsOnSending, Promise::NoGrowthWithoutAck),
        (Bug::GrowsOnIdle, Promise::NoGrowthWithoutAck),
        (Bug::GrowsWhenUnused, Promise::NoGrowthWithoutAck),
        (Bug::GrowsWhenExceeded, Promise::NoGrowthWithoutAck),
        (Bug::NoMinimumWhenUnused, Promise::MinimumWindow),
        (Bug::ForgetsUnusedWindow, Promise::RemembersUnusedWindow),
        (Bug::GrowsOnRecoveryExit, Promise::NoGrowthWithoutAck),
        (Bug::InflatesOnDuplicateAcks, Promise::GrowthBounded),
        (Bug::CutsAgainOnMarkedAcks, Promise::OneCutPerWindow),
        (Bug::CutsAgainOnRecoveryExit, Promise::OneCutPerWindow),
        (Bug::NoMinimumWindow, Promise::MinimumWindow),
        (Bug::ZeroWindowAtTimeout, Promise::MinimumWindow),
        (Bug::MinimumIsOldSegment, Promise::MinimumWindow),
        (Bug::IgnoresGrowthAfterTimeout, Promise::GrowsAfterTimeout),
        (Bug::IgnoresTimeout, Promise::LossWindow),
        (Bug::TimeoutHalves, Promise::LossWindow),
        (Bug::TimeoutKeepsSsthresh, Promise::LowersSsthresh),
        (
            Bug::EveryTimeoutLowersSsthresh,
            Promise::KeepsSsthreshOnBackoff,
        ),
        (Bug::IgnoresLoss, Promise::ReducesOnLoss),
        (Bug::IgnoresLocalDrop, Promise::ReducesOnLoss),
        (Bug::IgnoresEcn, Promise::ReducesOnEcn),
        (Bug::IgnoresEcnAfterTheFirst, Promise::ReducesOnEcn),
        (Bug::IgnoresIdle, Promise::RestartsAfterIdle),
        (Bug::IgnoresLongIdle, Promise::RestartsAfterIdle),
        (Bug::IgnoresUnused, Promise::LowersUnvalidatedWindow),
        (Bug::IgnoresExceeded, Promise::LowersUnvalidatedWindow),
        (Bug::IgnoresRefusal, Promise::LowersUnvalidatedWindow),
        (Bug::RefusalLowersSsthresh, Promise::KeepsSsthreshOnRefusal),
        (Bug::GrowsWhenRefused, Promise::NoGrowthWithoutAck),
        (Bug::GrowsOnDeflation, Promise::NoGrowthWithoutAck),
        (Bug::LossKeepsSsthresh, Promise::LowersSsthresh),
        (Bug::SsthreshBelowTwoSegments, Promise::LowersSsthresh),
        (Bug::NeverGrows, Promise::GrowsWhenLimited),
        (Bug::StopsGrowingAfterIdle, Promise::GrowsWhenLimited),
        (Bug::WallClock, Promise::Deterministic),
        (Bug::TimeOfDay, Promise::TimeInvariant),
        (Bug::ZeroTimeIsSpecial, Promise::TimeInvariant),
        (Bug::GlobalState, Promise::Deterministic),
        (Bug::CwndMovesByItself, Promise::ChangesOnlyInCalls),
        (Bug::OneByteAnAck, Promise::ScalesWithMss),
        (Bug::WindowInPackets, Promise::MinimumWindow),
        (Bug::GrowsPerAckPacket, Promise::GrowthBounded),
        (Bug::SegmentOf1448, Promise::ScalesWithMss),
        (Bug::SwapsMssAndInitialWindow, Promise::InitialWindow),
        (Bug::SwapsFlightAndMss, Promise::NoGrowthWithoutAck),
        (Bug::SwapsRatio, Promise::NoGrowthWithoutAck),
        (Bug::SwapsAckedAndCwnd, Promise::GrowthBounded),
        (Bug::UndoDoubles, Promise::UndoBounded),
        (Bug::UndoWithoutReduction, Promise::UndoBounded),
        (Bug::PacesAtZero, Promise::PacingPositive),
        (Bug::ShoutsItsName, Promise::StableName),
    ];
    let mut missed = Vec::new();
    for (bug, expected) in table {
        let broken = broken_promises(bug);
        if !broken.contains(&expected) {
            missed.push(format!("{bug:?}: expected {expected:?}, found {broken:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// A single mistake should not drown in others: where a bug touches one promise, only that one
/// is reported.
#[test]
fn narrow_bugs_break_one_promise_only() {
    for bug in [
        Bug::GrowsWhileApplicationLimited,
        Bug::IgnoresGrowthAfterTimeout,
        Bug::IgnoresEcn,
        Bug::IgnoresEcnAfterTheFirst,
        Bug::IgnoresIdle,
        Bug::IgnoresUnused,
        Bug::CutsAgainOnMarkedAcks,
        Bug::EveryTimeoutLowersSsthresh,
        Bug::UndoDoubles,
        Bug::PacesAtZero,
        Bug::ShoutsItsName,
    ] {
        let mut broken = broken_promises(bug);
        broken.dedup();
        assert_eq!(broken.len(), 1, "{bug:?}: {broken:?}");
    }
}

/// A panic comes through the kit, and the script that provokes it is among its scenarios.
#[test]
#[should_panic(expected = "divide by zero")]
fn a_panic_on_zero_rtt_is_provoked() {
    broken_promises(Bug::PanicsOnZeroRtt);
}

#[test]
fn a_violation_names_promise_source_and_place() {
    let factory = |start: &FlowStart| Specimen::new(Bug::IgnoresEcn, start);
    let violations = conformance(&factory).unwrap_err();
    let text = violations[0].to_string();
    for part in [
        "ReducesOnEcn",
        "RFC 3168 section 6.1.2",
        "'ECN'",
        "MSS 536 B",
        "EcnEcho",
    ] {
        assert!(text.contains(part), "{part} in: {text}");
    }
    Kit::new()
        .except(Promise::ReducesOnEcn)
        .check(&factory)
        .unwrap();
}

/// An algorithm that paces below one segment says so and may.
#[test]
fn windows_below_one_segment_need_a_declaration() {
    #[derive(Debug)]
    struct SubSegment(Specimen);
    impl CongestionControl for SubSegment {
        fn name(&self) -> &'static str {
            "sub-segment"
        }
        fn cwnd(&self) -> ByteCount {
            self.0.cwnd()
        }
        fn ssthresh(&self) -> ByteCount {
            self.0.ssthresh()
        }
        fn needs(&self) -> Needs {
            let mut needs = Needs::default();
            needs.sub_mss_cwnd = true;
            needs.pacing = true;
            needs
        }
        fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
            self.0.on_ack(ack, flow);
        }
        fn on_congestion_event(&mut self, event: CongestionEvent, flow: &FlowView<'_>) {
            self.0.on_congestion_event(event, flow);
            self.0.cwnd = self.0.cwnd.min(flow.flight_size.get() / 2).max(1);
        }
        fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>) {
            self.0.on_rto(consecutive, flow);
            self.0.cwnd = flow.mss.get() / 2;
        }
        fn on_lower(&mut self, window: ByteCount, why: Lower, flow: &FlowView<'_>) {
            self.0.on_lower(window, why, flow);
        }
    }
    conformance(&|start: &FlowStart| SubSegment(Specimen::new(Bug::NoMinimumWindow, start)))
        .unwrap();
}
