//! The scripts of the kit. Each drives one flow; the flow itself holds the general promises.

use super::flow::{Flow, Path, Reaction};
use super::promise::Promise;
use super::run::{Run, Tolerance};
use crate::factory::CongestionFactory;
use crate::flow::{CaState, CongestionEvent, FlowStart, Spurious};
use crate::units::{ByteCount, Duration};
use alloc::format;

/// One script.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// `initial_ssthresh` in segments.
    remembered_ssthresh: Option<u64>,
    /// How closely windows must double when segments do; `None`: the script's own byte counts
    /// do not double.
    pub(super) scales: Option<Tolerance>,
    script: fn(&mut Flow),
}

impl Scenario {
    /// Run it over `path` with a fresh instance.
    #[inline]
    pub(super) fn run(&self, factory: &dyn CongestionFactory, path: Path) -> Run {
        let mss = ByteCount::new(path.mss);
        let mut start = FlowStart::new(mss, mss * 10);
        if let Some(segments) = self.remembered_ssthresh {
            start.initial_ssthresh = mss * segments;
        }
        let mut flow = Flow::new(self.name, path, factory, &start);
        (self.script)(&mut flow);
        flow.into_run()
    }
}

const fn scenario(name: &'static str, script: fn(&mut Flow)) -> Scenario {
    Scenario {
        name,
        remembered_ssthresh: None,
        scales: Some(Tolerance::Loose),
        script,
    }
}

pub(super) const SCENARIOS: [Scenario; 24] = [
    Scenario {
        scales: Some(Tolerance::Exact),
        ..scenario("slow start", slow_start)
    },
    Scenario {
        remembered_ssthresh: Some(5),
        ..scenario("remembered ssthresh", remembered)
    },
    scenario("sawtooth", sawtooth),
    scenario("application-limited slow start", limited_slow_start),
    scenario(
        "application-limited congestion avoidance",
        limited_avoidance,
    ),
    scenario("ECN", ecn),
    scenario("ECN in every window", ecn_every_window),
    scenario("local drop", local_drop),
    scenario("timeouts", timeouts),
    scenario("timeout in recovery", timeout_in_recovery),
    scenario("many losses", many_losses),
    scenario("spurious timeout", spurious_timeout),
    scenario("spurious fast retransmit", spurious_fast_retransmit),
    scenario("spurious without a reduction", spurious_nothing),
    scenario("idle", idle),
    scenario("unused window", unused),
    scenario("exceeded window", exceeded),
    scenario("refused segments", refused),
    scenario("deflation", deflation),
    Scenario {
        scales: None,
        ..scenario("segment size changes", mss_changes)
    },
    Scenario {
        scales: None,
        ..scenario("one-byte ACKs", tiny_acks)
    },
    Scenario {
        scales: None,
        ..scenario("huge ACKs", huge_acks)
    },
    scenario("no RTT samples", no_samples),
    scenario("rising RTT", rising_rtt),
];

/// A dozen full windows make it grow.
#[inline]
fn expect_growth_in_rounds(flow: &mut Flow) {
    let from = flow.cwnd();
    flow.rounds(12);
    expect_growth(flow, from);
}

/// A window-limited flow must have grown by a segment since `from`.
#[inline]
fn expect_growth(flow: &mut Flow, from: u64) {
    if flow.cwnd() < from.saturating_add(flow.mss()) {
        let now = flow.cwnd();
        flow.violated(Promise::GrowsWhenLimited, || {
            format!("cwnd went from {from} B to {now} B without congestion")
        });
    }
}

#[inline]
fn slow_start(flow: &mut Flow) {
    let from = flow.cwnd();
    flow.rounds(7);
    expect_growth(flow, from);
}

#[inline]
fn remembered(flow: &mut Flow) {
    expect_growth_in_rounds(flow);
    flow.loss_episode();
    flow.rounds(5);
}

#[inline]
fn sawtooth(flow: &mut Flow) {
    flow.rounds(5);
    for _ in 0..4 {
        flow.loss_episode();
        expect_growth_in_rounds(flow);
    }
}

#[inline]
fn limited_slow_start(flow: &mut Flow) {
    flow.rounds(2);
    flow.set_limited(false);
    flow.rounds(10);
    flow.set_limited(true);
    let from = flow.cwnd();
    flow.rounds(8);
    expect_growth(flow, from);
}

#[inline]
fn limited_avoidance(flow: &mut Flow) {
    flow.rounds(4);
    flow.loss_episode();
    flow.rounds(5);
    flow.set_limited(false);
    flow.rounds(40);
    flow.set_limited(true);
    expect_growth_in_rounds(flow);
}

#[inline]
fn ecn(flow: &mut Flow) {
    flow.rounds(4);
    flow.ecn_window(Reaction::Reduce);
    expect_growth_in_rounds(flow);
    flow.ecn_window(Reaction::Any);
    flow.rounds(4);
    flow.loss_episode();
    flow.rounds(4);
    // Each window that is marked is answered for, however late in the flow.
    for _ in 0..2 {
        flow.rounds(12);
        flow.ecn_again();
    }
}

/// The switch marks everything for long: the window must hold at its floor, not vanish, and
/// come back.
#[inline]
fn ecn_every_window(flow: &mut Flow) {
    flow.rounds(2);
    flow.ecn_window(Reaction::Reduce);
    for _ in 0..60 {
        flow.ecn_window(Reaction::Any);
    }
    expect_growth_in_rounds(flow);
}

#[inline]
fn local_drop(flow: &mut Flow) {
    flow.rounds(3);
    flow.congestion(CongestionEvent::LocalDrop, Reaction::Reduce);
    flow.set_state(CaState::Cwr);
    flow.rounds(1);
    flow.leave_recovery();
    flow.rounds(5);
}

/// Refill after a timeout: growth in `CaState::Loss`, then the end of the episode.
#[inline]
fn refill(flow: &mut Flow) {
    let from = flow.cwnd();
    flow.rounds(6);
    if flow.cwnd() <= from {
        let now = flow.cwnd();
        flow.violated(Promise::GrowsAfterTimeout, || {
            format!("cwnd was {from} B after the timeout, {now} B six round trips later")
        });
    }
    flow.leave_recovery();
}

#[inline]
fn timeouts(flow: &mut Flow) {
    flow.rounds(5);
    flow.timeout(1);
    refill(flow);
    flow.rounds(12);
    for n in 1..40 {
        flow.timeout(n);
    }
    refill(flow);
    flow.rounds(5);
}

#[inline]
fn timeout_in_recovery(flow: &mut Flow) {
    flow.rounds(5);
    flow.set_state(CaState::Recovery);
    flow.congestion(CongestionEvent::Loss, Reaction::Reduce);
    let mss = flow.mss();
    for _ in 0..4 {
        flow.ack_parts(0, mss, false);
    }
    flow.timeout(1);
    refill(flow);
    flow.rounds(5);
}

#[inline]
fn many_losses(flow: &mut Flow) {
    flow.rounds(3);
    for _ in 0..20 {
        flow.loss_episode();
    }
    expect_growth_in_rounds(flow);
    flow.timeout(1);
    for _ in 0..3 {
        flow.loss_episode();
    }
}

#[inline]
fn spurious_timeout(flow: &mut Flow) {
    flow.rounds(4);
    let before = flow.cwnd();
    flow.timeout(1);
    flow.timeout(2);
    let mss = flow.mss();
    flow.ack(mss, false);
    flow.spurious(Spurious::Timeout, before);
    flow.rounds(4);
    flow.loss_episode();
    flow.rounds(2);
}

#[inline]
fn spurious_fast_retransmit(flow: &mut Flow) {
    flow.rounds(4);
    flow.loss_episode();
    flow.rounds(10);
    let before = flow.cwnd();
    flow.loss_episode();
    flow.spurious(Spurious::FastRetransmit, before);
    flow.rounds(10);
    flow.loss_episode();
    flow.rounds(2);
}

#[inline]
fn spurious_nothing(flow: &mut Flow) {
    let now = flow.cwnd();
    flow.spurious(Spurious::Timeout, now);
    flow.spurious(Spurious::FastRetransmit, now);
    flow.rounds(3);
    let now = flow.cwnd();
    flow.spurious(Spurious::FastRetransmit, now);
    flow.rounds(3);
}

#[inline]
fn idle(flow: &mut Flow) {
    flow.rounds(4);
    flow.idle(Duration::from_secs(2));
    flow.rounds(3);
    flow.loss_episode();
    flow.rounds(4);
    flow.idle(Duration::from_secs(30));
    flow.rounds(4);
    flow.idle(Duration::from_secs(3_600));
    expect_growth_in_rounds(flow);
}

#[inline]
fn unused(flow: &mut Flow) {
    flow.rounds(5);
    flow.set_limited(false);
    flow.rounds(2);
    flow.unused();
    flow.rounds(2);
    flow.set_limited(true);
    expect_growth_in_rounds(flow);
    flow.loss_episode();
    flow.rounds(3);
    // Down to the least there is.
    for _ in 0..20 {
        flow.unused();
    }
    expect_growth_in_rounds(flow);
}

#[inline]
fn exceeded(flow: &mut Flow) {
    flow.rounds(5);
    for _ in 0..8 {
        flow.loss_episode();
        flow.exceeded();
        flow.rounds(2);
    }
    expect_growth_in_rounds(flow);
}

#[inline]
fn refused(flow: &mut Flow) {
    flow.rounds(5);
    for _ in 0..3 {
        flow.refused();
        flow.rounds(2);
    }
    flow.loss_episode();
    flow.rounds(3);
    // Down to the least there is.
    for _ in 0..20 {
        flow.refused();
    }
    expect_growth_in_rounds(flow);
}

#[inline]
fn deflation(flow: &mut Flow) {
    flow.rounds(5);
    for _ in 0..4 {
        flow.loss_episode();
        flow.deflate();
        flow.rounds(3);
    }
    expect_growth_in_rounds(flow);
}

#[inline]
fn mss_changes(flow: &mut Flow) {
    let mss = flow.mss();
    flow.rounds(3);
    flow.change_mss(mss / 2);
    flow.rounds(3);
    flow.loss_episode();
    flow.rounds(4);
    flow.timeout(1);
    flow.change_mss(mss * 4);
    refill(flow);
    flow.rounds(3);
    flow.loss_episode();
    flow.change_mss(mss * 30);
    flow.rounds(3);
    flow.timeout(1);
    flow.timeout(2);
    refill(flow);
}

/// A receiver that acknowledges byte by byte must gain nothing.
#[inline]
fn tiny_acks(flow: &mut Flow) {
    for _ in 0..400 {
        flow.ack(1, false);
    }
    flow.loss_episode();
    flow.rounds(2);
    for _ in 0..400 {
        flow.ack(1, false);
    }
    flow.timeout(1);
    for _ in 0..400 {
        flow.ack(1, false);
    }
}

#[inline]
fn huge_acks(flow: &mut Flow) {
    for bytes in [1 << 20, 1 << 40, u64::MAX / 2, u64::MAX] {
        flow.ack(bytes, false);
        flow.ack(bytes, true);
        // SACKed first, then acknowledged.
        flow.ack_parts(0, bytes, false);
        flow.ack_parts(bytes, 0, false);
    }
    flow.loss_episode();
    flow.ack(u64::MAX, false);
    flow.timeout(1);
    flow.ack(u64::MAX, false);
    flow.ack(0, false);
    flow.idle(Duration::MAX);
    flow.ack(u64::MAX, true);
}

#[inline]
fn no_samples(flow: &mut Flow) {
    flow.set_rtt(None);
    flow.rounds(3);
    flow.loss_episode();
    flow.rounds(5);
    flow.ecn_window(Reaction::Any);
    flow.timeout(1);
    refill(flow);
}

/// A queue builds up: delay-based exits from slow start must keep the promises too.
#[inline]
fn rising_rtt(flow: &mut Flow) {
    let base = flow.rtt();
    for n in 0..12 {
        flow.set_rtt(Some(base + (base / 4 + Duration::from_millis(1)) * n));
        flow.rounds(1);
    }
    flow.set_rtt(Some(base));
    flow.rounds(3);
    flow.loss_episode();
    flow.rounds(4);
}
