//! Hybrid slow start: leave slow start when the path is full, before a queue is.
//!
//! S. Ha and I. Rhee, "Taming the elephants: New TCP slow start", Computer Networks 55 (2011), which
//! RFC 9438 section 4.10 names beside HyStart++ and calls `[HR11]`; Linux's CUBIC has it. Two signs end
//! slow start for good, and at once:
//!
//! - **A train of acknowledgements** that is longer than the way there, half of the least round trip: as
//!   much is in flight as the path holds. HyStart++ has no such sign. Where a port's queue is no
//!   longer than the path, it learns of the queue a round too late. The round trip is taken for longer
//!   than it was by [`gathering`], as Linux does: the first ones were those of short trains.
//! - **Delay**: of the first eight acknowledgements of a round none was as early as an eighth above the
//!   least round trip.
//!
//! Left out is what Linux adds for a sender that paces, whose trains are longer.

use crate::ended::Ended;
use crate::flow::{AckSample, FlowView};
use crate::hystart::{L_UNPACED, N_RTT_SAMPLE, rtt_thresh};
use crate::units::{ByteCount, Duration, Instant};
use crate::window::{Window, segment};

/// Acknowledgements of one train are no farther apart than this (Linux, `hystart_ack_delta_us`).
pub const TRAIN_GAP: Duration = Duration::from_millis(2);
/// Windows of fewer segments are not looked at (Linux, `hystart_low_window`).
pub const LOW_WINDOW: u64 = 16;
/// What hosts gather at most before they hand it on, in segments sent or received as one
/// (`gso_max_size` of Linux).
pub const GATHERED: ByteCount = ByteCount::new(1 << 16);
/// [`gathering`] is no longer than this.
pub const MAX_GATHERING: Duration = Duration::from_millis(1);

/// By how much hosts that send and receive many segments as one may lengthen a round trip: four times
/// [`GATHERED`] at twice `cwnd` a round trip, the rate of a slow start (Linux, `hystart_ack_delay`).
/// Without it a path of microseconds would seem full with the first super-segment.
pub fn gathering(cwnd: ByteCount, srtt: Duration) -> Duration {
    srtt.mul_ratio(2 * GATHERED.get(), cwnd.get().max(1))
        .min(MAX_GATHERING)
}

/// The state of one flow, for its initial slow start only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hybrid {
    /// The least round trip so far; [`Duration::MAX`] before there is one.
    least: Duration,
    /// When the first acknowledgement of this round came.
    round_began: Instant,
    /// When the last one of the train came that began with the round.
    train_end: Instant,
    /// The least of the round's first samples, and how many there were.
    round_least: Duration,
    samples: u32,
    /// There was a sign.
    found: bool,
    ended: Ended,
}

impl Hybrid {
    /// Nothing seen.
    pub const fn new() -> Self {
        Self {
            least: Duration::MAX,
            round_began: Instant::ZERO,
            train_end: Instant::ZERO,
            round_least: Duration::MAX,
            samples: 0,
            found: false,
            ended: Ended::No,
        }
    }

    /// Whether the initial slow start is over.
    pub fn is_done(&self) -> bool {
        self.found || self.ended != Ended::No
    }

    /// Congestion was seen, or the timer fired: it is over.
    pub fn finish(&mut self) {
        self.ended.finish();
    }

    /// The congestion told of last was none: all is as it was before.
    pub fn resume(&mut self) {
        self.ended.resume();
    }

    /// One ACK in slow start: the window grows by what it acknowledges, eight segments at most, and
    /// slow start ends if there is a sign.
    pub fn on_ack(&mut self, window: &mut Window, ack: &AckSample, flow: &FlowView<'_>) {
        if ack.round_start {
            self.round_began = flow.now;
            self.train_end = flow.now;
            self.round_least = Duration::MAX;
            self.samples = 0;
        }
        let mss = segment(flow.mss);
        if flow.may_grow() {
            let increase = ack.acked.min(mss * L_UNPACED);
            window.slow_start(increase, increase);
        }
        if let Some(rtt) = ack.rtt {
            self.least = self.least.min(rtt);
            if self.samples < N_RTT_SAMPLE {
                self.round_least = self.round_least.min(rtt);
                self.samples += 1;
            }
        }
        let looked_at = window.cwnd() >= mss * LOW_WINDOW && self.least != Duration::MAX;
        if looked_at && (self.is_long_train(window.cwnd(), flow) || self.is_late()) {
            self.found = true;
            window.end_slow_start();
        }
    }

    fn is_long_train(&mut self, cwnd: ByteCount, flow: &FlowView<'_>) -> bool {
        if flow.now.since(self.train_end) > TRAIN_GAP {
            return false;
        }
        self.train_end = flow.now;
        let srtt = flow.rtt.srtt().unwrap_or(self.least);
        let round_trip = self.least + gathering(cwnd, srtt);
        flow.now.since(self.round_began) > round_trip / 2
    }

    fn is_late(&self) -> bool {
        self.samples >= N_RTT_SAMPLE && self.round_least > self.least + rtt_thresh(self.least)
    }
}

impl Default for Hybrid {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowStart, RttEstimator};

    const MSS: ByteCount = ByteCount::new(1_000);

    struct Rig {
        hybrid: Hybrid,
        window: Window,
        est: RttEstimator,
        now: Instant,
    }

    impl Rig {
        fn new(segments: u64) -> Self {
            Self {
                hybrid: Hybrid::new(),
                window: Window::new(&FlowStart::new(MSS, MSS * segments)),
                est: RttEstimator::new(),
                now: Instant::ZERO + Duration::from_secs(1),
            }
        }

        fn ack(&mut self, acked: ByteCount, rtt: u64, round_start: bool) {
            let ack = AckSample {
                acked,
                delivered: MSS,
                rtt: Some(Duration::from_micros(rtt)),
                round_start,
                ..AckSample::default()
            };
            let flow = FlowView::new(self.now, MSS, &self.est);
            self.hybrid.on_ack(&mut self.window, &ack, &flow);
        }

        /// A round of ACKs `gap` microseconds apart with a round trip of `rtt`; how many came
        /// before slow start was over.
        fn round(&mut self, acks: u32, gap: u64, rtt: u64) -> u32 {
            for i in 0..acks {
                self.ack(MSS, rtt, i == 0);
                if self.hybrid.is_done() {
                    return i;
                }
                self.now = self.now + Duration::from_micros(gap);
            }
            self.now = self.now + Duration::from_millis(10);
            acks
        }
    }

    /// The paper's section 4.1: a train longer than the way there.
    #[test]
    fn a_train_of_half_a_round_trip_ends_slow_start() {
        let mut rig = Rig::new(20);
        assert_eq!(rig.round(20, 500, 20_000), 20);
        assert!(rig.window.in_slow_start());
        // The 23rd comes 11 ms after the first; hosts may have gathered for 1 ms.
        assert_eq!(rig.round(40, 500, 20_000), 22);
        assert_eq!(rig.window.cwnd(), MSS * (20 + 20 + 23));
        assert_eq!(rig.window.ssthresh(), rig.window.cwnd());
    }

    /// Linux, `hystart_ack_delay` with its `gso_max_size` of 64 KiB and the pace of slow start.
    #[test]
    fn hosts_that_gather_segments_lengthen_a_round_trip_by_a_millisecond_at_most() {
        for (cwnd, srtt_us, us) in [
            (128 << 10, 100, 100),
            (64 << 10, 100, 200),
            (16_384, 100, 800),
            (16_384, 1_000, 1_000),
            (1 << 20, 20_000, 1_000),
            (16 << 20, 20_000, 156),
            (0, 1, 1_000),
        ] {
            let gathered = gathering(ByteCount::new(cwnd), Duration::from_micros(srtt_us));
            assert_eq!(gathered.as_micros(), us, "{cwnd} {srtt_us}");
        }
        // A window of 16 segments takes longer than the way there, and fills no path.
        let mut rig = Rig::new(16);
        assert_eq!(rig.round(16, 12, 100), 16);
    }

    #[test]
    fn a_gap_ends_the_train_of_a_round() {
        let mut rig = Rig::new(100);
        assert_eq!(rig.round(30, 2_001, 20_000), 30);
        assert_eq!(rig.round(30, 2_000, 20_000), 6);
    }

    /// A packet was late, or lost: the train goes on in the duplicates. The ACK that fills the hole
    /// later is no part of it.
    #[test]
    fn a_hole_does_not_end_the_train() {
        for (later, ends) in [(500, true), (3_000, false)] {
            let mut rig = Rig::new(100);
            rig.round(20, 500, 20_000);
            rig.ack(MSS, 20_000, true);
            for _ in 0..21 {
                rig.now = rig.now + Duration::from_micros(500);
                rig.ack(ByteCount::ZERO, 20_000, false);
            }
            assert!(!rig.hybrid.is_done());
            rig.now = rig.now + Duration::from_micros(later);
            rig.ack(MSS * 22, 20_000 + later, false);
            assert_eq!(rig.hybrid.is_done(), ends);
        }
    }

    /// The paper's section 4.2, with the bounds of Linux and RFC 9406: 4 to 16 ms.
    #[test]
    fn eight_late_acknowledgements_end_slow_start() {
        for (rtt, late) in [(10_000, 14_001), (80_000, 90_001), (400_000, 416_001)] {
            let mut rig = Rig::new(100);
            assert_eq!(rig.round(30, 10, rtt), 30);
            assert_eq!(rig.round(30, 10, late - 1), 30, "{rtt}");
            assert_eq!(rig.round(30, 10, late), 7, "{rtt}");
        }
        // One of the eight that is early is enough to go on.
        let mut rig = Rig::new(100);
        rig.round(1, 10, 20_000);
        rig.round(7, 10, 90_000);
        assert!(!rig.hybrid.is_done());
    }

    #[test]
    fn a_small_window_is_not_looked_at() {
        let mut rig = Rig::new(4);
        assert_eq!(rig.round(11, 1_900, 20_000), 11);
        assert_eq!(rig.window.cwnd(), MSS * 15);
        assert_eq!(rig.round(11, 1_900, 20_000), 6);
    }
}
