//! HyStart++ (RFC 9406): leave slow start when the round-trip time rises, before the loss.

use crate::ended::Ended;
use crate::flow::{AckSample, FlowView};
use crate::units::Duration;
use crate::window::{Window, segment};

/// MIN_RTT_THRESH of RFC 9406 section 4.3.
pub const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
/// MAX_RTT_THRESH of RFC 9406 section 4.3.
pub const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
/// MIN_RTT_DIVISOR of RFC 9406 section 4.3.
pub const MIN_RTT_DIVISOR: u64 = 8;
/// N_RTT_SAMPLE of RFC 9406 section 4.3.
pub const N_RTT_SAMPLE: u32 = 8;
/// CSS_GROWTH_DIVISOR of RFC 9406 section 4.3.
pub const CSS_GROWTH_DIVISOR: u64 = 4;
/// CSS_ROUNDS of RFC 9406 section 4.3.
pub const CSS_ROUNDS: u32 = 5;
/// L of RFC 9406 section 4.3 for a sender that does not pace.
pub const L_UNPACED: u64 = 8;

/// The increase of the minimum RTT that ends slow start:
/// `max(MIN_RTT_THRESH, min(last_round_min_rtt / MIN_RTT_DIVISOR, MAX_RTT_THRESH))`.
pub fn rtt_thresh(last_round_min_rtt: Duration) -> Duration {
    (last_round_min_rtt / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

/// The HyStart++ state of one flow. For the initial slow start only; see
/// [`SlowStart`](crate::slow_start::SlowStart), which falls back to the standard one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HyStart {
    phase: Phase,
    paced: bool,
    /// [`Duration::MAX`] without a sample, as the next one.
    last_round_min_rtt: Duration,
    current_round_min_rtt: Duration,
    rtt_sample_count: u32,
    ended: Ended,
}

/// Where HyStart++ stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Standard slow start, watching the RTT.
    SlowStart,
    /// Conservative slow start: growing at a quarter, to see whether the rise was jitter.
    Conservative {
        /// cssBaselineMinRtt: the RTT that a spurious exit falls back below.
        baseline: Duration,
        /// CSS rounds begun, the partial first one included.
        rounds: u32,
    },
    /// Slow start was left; HyStart++ does nothing more.
    Done,
}

impl HyStart {
    /// HyStart++ for a sender that paces (L is then unlimited) or does not (L = 8).
    pub const fn new(paced: bool) -> Self {
        Self {
            phase: Phase::SlowStart,
            paced,
            last_round_min_rtt: Duration::MAX,
            current_round_min_rtt: Duration::MAX,
            rtt_sample_count: 0,
            ended: Ended::No,
        }
    }

    /// Where it stands.
    pub fn phase(&self) -> Phase {
        match self.ended {
            Ended::No => self.phase,
            Ended::Last | Ended::Before => Phase::Done,
        }
    }

    /// Congestion was seen, or the timer fired: the initial slow start is over
    /// (RFC 9406 section 4.2).
    pub fn finish(&mut self) {
        self.ended.finish();
    }

    /// The congestion told of last was none: all is as it was before.
    pub fn resume(&mut self) {
        self.ended.resume();
    }

    /// One ACK in slow start: rounds, RTT watch and growth of RFC 9406 section 4.2.
    pub fn on_ack(&mut self, window: &mut Window, ack: &AckSample, flow: &FlowView<'_>) {
        if ack.round_start {
            self.start_round(window);
        }
        if flow.may_grow() {
            self.grow(window, ack, flow);
        }
        if let Some(rtt) = ack.rtt {
            self.current_round_min_rtt = self.current_round_min_rtt.min(rtt);
            self.rtt_sample_count = self.rtt_sample_count.saturating_add(1);
        }
        if self.rtt_sample_count >= N_RTT_SAMPLE {
            self.watch();
        }
    }

    fn start_round(&mut self, window: &mut Window) {
        self.last_round_min_rtt = self.current_round_min_rtt;
        self.current_round_min_rtt = Duration::MAX;
        self.rtt_sample_count = 0;
        if let Phase::Conservative { rounds, .. } = &mut self.phase {
            if *rounds >= CSS_ROUNDS {
                self.phase = Phase::Done;
                window.end_slow_start();
            } else {
                *rounds += 1;
            }
        }
    }

    fn grow(&self, window: &mut Window, ack: &AckSample, flow: &FlowView<'_>) {
        let bytes = ack.acked;
        let limited = if self.paced {
            bytes
        } else {
            bytes.min(segment(flow.mss) * L_UNPACED)
        };
        let increase = match self.phase {
            Phase::SlowStart => limited,
            Phase::Conservative { .. } => limited / CSS_GROWTH_DIVISOR,
            Phase::Done => return,
        };
        window.slow_start(increase, increase);
    }

    fn watch(&mut self) {
        let (last, current) = (self.last_round_min_rtt, self.current_round_min_rtt);
        if current == Duration::MAX {
            return;
        }
        match self.phase {
            Phase::SlowStart => {
                if last != Duration::MAX && current >= last + rtt_thresh(last) {
                    self.phase = Phase::Conservative {
                        baseline: current,
                        rounds: 1,
                    };
                }
            }
            Phase::Conservative { baseline, .. } if current < baseline => {
                self.phase = Phase::SlowStart;
            }
            Phase::Conservative { .. } | Phase::Done => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{ByteCount, Instant};
    use crate::{FlowStart, RttEstimator};

    const MSS: ByteCount = ByteCount::new(1_000);

    /// RFC 9406 section 4.2: the threshold is an eighth of the RTT, within 4 and 16 ms.
    #[test]
    fn threshold_table() {
        for (rtt_us, thresh_us) in [
            (10, 4_000),
            (1_000, 4_000),
            (32_000, 4_000),
            (40_000, 5_000),
            (100_000, 12_500),
            (128_000, 16_000),
            (1_000_000, 16_000),
        ] {
            let rtt = Duration::from_micros(rtt_us);
            assert_eq!(
                rtt_thresh(rtt),
                Duration::from_micros(thresh_us),
                "RTT {rtt}"
            );
        }
    }

    struct Rig {
        hystart: HyStart,
        window: Window,
        est: RttEstimator,
    }

    impl Rig {
        fn new(paced: bool) -> Self {
            let start = FlowStart::new(MSS, MSS * 10);
            Self {
                hystart: HyStart::new(paced),
                window: Window::new(&start),
                est: RttEstimator::new(),
            }
        }

        /// A round of `acks` ACKs of one segment each with RTT `ms`.
        fn round(&mut self, acks: u32, ms: u64) -> Phase {
            for i in 0..acks {
                self.ack(MSS, ms, i == 0);
            }
            self.hystart.phase()
        }

        fn ack(&mut self, bytes: ByteCount, ms: u64, round_start: bool) {
            let ack = AckSample {
                acked: bytes,
                delivered: bytes,
                rtt: Some(Duration::from_millis(ms)),
                round_start,
                ..AckSample::default()
            };
            let flow = FlowView::new(Instant::ZERO, MSS, &self.est);
            self.hystart.on_ack(&mut self.window, &ack, &flow);
        }
    }

    #[test]
    fn leaves_slow_start_through_five_conservative_rounds() {
        let mut rig = Rig::new(false);
        assert_eq!(rig.round(10, 40), Phase::SlowStart);
        assert_eq!(rig.window.cwnd(), MSS * 20);
        // 44 ms is below 40 + 5, 45 is not.
        assert_eq!(rig.round(10, 44), Phase::SlowStart);
        assert!(matches!(
            rig.round(10, 50),
            Phase::Conservative { rounds: 1, .. }
        ));
        // Eight ACKs decide; the two after them grow by a quarter.
        assert_eq!(rig.window.cwnd(), ByteCount::new(38_500));
        for rounds in 2..=CSS_ROUNDS {
            let phase = rig.round(8, 50);
            assert!(matches!(phase, Phase::Conservative { rounds: r, .. } if r == rounds));
        }
        let before = rig.window.cwnd();
        assert_eq!(rig.round(1, 50), Phase::Done);
        assert_eq!(rig.window.ssthresh(), before);
    }

    #[test]
    fn a_spurious_exit_resumes_slow_start() {
        let mut rig = Rig::new(false);
        rig.round(10, 40);
        assert!(matches!(rig.round(10, 60), Phase::Conservative { .. }));
        assert!(matches!(rig.round(7, 41), Phase::Conservative { .. }));
        assert_eq!(rig.round(8, 41), Phase::SlowStart);
    }

    #[test]
    fn too_few_samples_decide_nothing() {
        let mut rig = Rig::new(false);
        rig.round(10, 40);
        assert_eq!(rig.round(7, 100), Phase::SlowStart);
    }

    #[test]
    fn growth_per_ack_is_limited_unless_paced() {
        let mut rig = Rig::new(false);
        rig.ack(MSS * 20, 40, true);
        assert_eq!(rig.window.cwnd(), MSS * 18);
        let mut rig = Rig::new(true);
        rig.ack(MSS * 20, 40, true);
        assert_eq!(rig.window.cwnd(), MSS * 30);
    }

    /// RFC 9406 section 4.3.
    #[test]
    fn rfc9406_4_3_the_constants_are_those_recommended() {
        let ms = Duration::from_millis;
        assert_eq!((MIN_RTT_THRESH, MAX_RTT_THRESH), (ms(4), ms(16)));
        assert_eq!((MIN_RTT_DIVISOR, N_RTT_SAMPLE), (8, 8));
        assert_eq!((CSS_GROWTH_DIVISOR, CSS_ROUNDS, L_UNPACED), (4, 5, 8));
        // Conservative slow start grows by no more than a half: here a quarter.
        let mut rig = Rig::new(false);
        rig.round(10, 40);
        assert!(matches!(rig.round(8, 60), Phase::Conservative { .. }));
        let before = rig.window.cwnd();
        rig.ack(MSS * 8, 60, false);
        assert_eq!(rig.window.cwnd() - before, MSS * 2);
    }

    /// RFC 9406 section 4.2: the round in which conservative slow start begins counts, however
    /// little of it is left.
    #[test]
    fn rfc9406_4_2_the_round_of_the_transition_counts() {
        for (acks, rest) in [(8, 0), (8, 1), (8, 50)] {
            let mut rig = Rig::new(false);
            rig.round(10, 40);
            rig.round(acks, 60);
            (0..rest).for_each(|_| rig.ack(MSS, 60, false));
            for _ in 1..CSS_ROUNDS {
                assert!(matches!(rig.round(1, 60), Phase::Conservative { .. }));
            }
            assert_eq!(rig.round(1, 60), Phase::Done, "{rest}");
        }
    }

    /// RFC 9406 section 4.2: the minimum is held against that of the round just before.
    #[test]
    fn rfc9406_4_2_the_minimum_is_that_of_the_round_before() {
        let mut rig = Rig::new(false);
        // 40, 44, 48: less than 5 more each time, and more than that in all.
        for ms in [40, 44, 48, 53] {
            assert_eq!(rig.round(8, ms), Phase::SlowStart, "{ms}");
        }
        // The least of the samples counts, not the last.
        rig.ack(MSS, 54, true);
        (0..20).for_each(|_| rig.ack(MSS, 200, false));
        assert_eq!(rig.hystart.phase(), Phase::SlowStart);
        assert!(matches!(rig.round(8, 61), Phase::Conservative { .. }));
    }

    #[test]
    fn microsecond_rtts_do_not_fire() {
        let mut rig = Rig::new(false);
        rig.round(10, 0);
        for ms in [1, 2, 3] {
            assert_eq!(rig.round(10, ms), Phase::SlowStart);
        }
    }
}
