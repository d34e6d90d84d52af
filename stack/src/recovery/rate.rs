//! Delivery-rate estimation and round counting (draft-ietf-ccwg-bbr, "Delivery Rate Samples";
//! Linux's `tcp_rate.c` does the same).
//!
//! Each transmission remembers how much had been delivered when it left. When it is acknowledged,
//! what was delivered in between, over the time that took, is the rate of about one round trip:
//! over the longer of the times in which it was sent and in which it was acknowledged, because
//! ACKs may come compressed.
//!
//! Rounds are counted for everybody, by [`SentSegment::delivered`]; what only rates need is kept
//! here, for those who want rates.

use super::scoreboard::{AbsSeq, SentSegment, shrink};
use narrows_congestion::hint::cold_path;
use narrows_congestion::{AckSample, ByteCount, Duration, Instant, Needs, RateSample};
use std::collections::VecDeque;

/// A connection's delivery state.
///
/// In the order of events: [`on_sent`](Self::on_sent) per transmission; per ACK
/// [`on_delivered`](Self::on_delivered) for each segment newly acknowledged or SACKed, then
/// [`sample`](Self::sample).
///
/// What rounds are counted by is all that most connections need; see
/// [`Connection`](crate::conn::Connection).
#[derive(Clone, Debug, Default)]
pub(super) struct RateEstimator {
    /// `C.delivered`.
    delivered: u64,
    /// A round trip ends when something sent after this much was delivered is delivered.
    next_round_delivered: u64,
    /// `None`: nobody wants rates, only rounds are counted.
    rates: Option<Box<Rates>>,
}

/// The delivery state, `C`; as it was when a segment was last transmitted, `P`.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// `delivered`: of `P` alone, the estimator has that of `C`.
    delivered: u64,
    /// `delivered_time`.
    delivered_at: Instant,
    /// `first_send_time`.
    first_sent_at: Instant,
    /// `P.is_app_limited`.
    app_limited: bool,
    /// `P.tx_in_flight`.
    in_flight: ByteCount,
    /// `lost`.
    lost: ByteCount,
    /// What of `delivered` was reported as marked.
    delivered_ce: ByteCount,
}

/// What only rates need.
#[derive(Clone, Debug, Default)]
struct Rates {
    state: State,
    /// By where they end, the transmissions of what is outstanding: one is that of all from the end
    /// of the one before.
    sent: VecDeque<(AbsSeq, State)>,
    /// `P` of the newest segment that the present ACK delivered, and its `send_elapsed`.
    newest: Option<(State, Duration)>,
    /// `C.app_limited`: until this much is delivered, samples are limited by the application.
    app_limited_until: u64,
    /// What of `C.lost` the congestion control has not heard of.
    newly_lost: ByteCount,
}

impl RateEstimator {
    /// Before the first segment, for a congestion control with these needs: without
    /// [`delivery_rate`](Needs::delivery_rate) rounds are counted, and no sample is taken.
    pub(super) fn of(needs: &Needs) -> Self {
        Self {
            rates: needs.delivery_rate.then(Box::default),
            ..Self::default()
        }
    }

    /// Bytes delivered so far, `C.delivered`.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// `[start, end)` has left, for the first time or again; with it `in_flight` is in flight.
    /// `idle`: nothing was before.
    #[inline]
    pub(super) fn on_sent(
        &mut self,
        (start, end): (AbsSeq, AbsSeq),
        now: Instant,
        idle: bool,
        in_flight: impl FnOnce() -> ByteCount,
    ) {
        if let Some(rates) = &mut self.rates {
            cold_path();
            rates.on_sent((start, end), now, idle, in_flight(), self.delivered);
        }
    }

    /// What starts at `start` or above never left.
    pub(super) fn on_unsent(&mut self, start: AbsSeq) {
        if let Some(rates) = &mut self.rates {
            rates.part_at(start);
            let from = rates.sent.partition_point(|s| s.0 <= start);
            rates.sent.truncate(from);
        }
    }

    /// The application has nothing to send, although the window would admit it, with `in_flight`
    /// bytes outstanding: what is measured until that is delivered says little about the network.
    pub(super) fn on_app_limited(&mut self, in_flight: impl FnOnce() -> ByteCount) {
        if let Some(rates) = &mut self.rates {
            let until = self.delivered.saturating_add(in_flight().get());
            rates.app_limited_until = until.max(1);
        }
    }

    /// `bytes` were found lost.
    pub(super) fn on_lost(&mut self, bytes: ByteCount) {
        if let Some(rates) = &mut self.rates {
            rates.state.lost += bytes;
            rates.newly_lost += bytes;
        }
    }

    /// Of what was delivered `bytes` are reported as congestion-marked.
    pub(super) fn on_marked(&mut self, bytes: ByteCount) {
        if let Some(rates) = &mut self.rates {
            rates.state.delivered_ce += bytes;
        }
    }

    /// `segment` was delivered. Whether that is the first of a round trip: it was sent after the
    /// previous round began.
    #[inline]
    pub(super) fn on_delivered(&mut self, segment: &SentSegment, now: Instant) -> bool {
        self.delivered = self.delivered.saturating_add(segment.len().get());
        if let Some(rates) = &mut self.rates {
            cold_path();
            rates.on_delivered(segment, now);
        }
        // Neither lies further behind than a window or two.
        let since = segment
            .delivered
            .wrapping_sub(self.next_round_delivered as u32);
        let round_start = since as i32 >= 0;
        if round_start {
            self.next_round_delivered = self.delivered;
        }
        round_start
    }

    /// What the ACK received at `now` measured: nothing if it delivered nothing, or came sooner
    /// than the smallest round trip after what it acknowledges was sent (a retransmission
    /// acknowledged by its original). Asked once per ACK, after its last
    /// [`on_delivered`](Self::on_delivered); what lies below `una` is acknowledged.
    #[inline(never)]
    pub(super) fn sample(
        &mut self,
        ack: &mut AckSample,
        una: AbsSeq,
        min_rtt: Duration,
        now: Instant,
    ) {
        let Some(rates) = self.rates.as_mut() else {
            return;
        };
        ack.newly_lost = core::mem::take(&mut rates.newly_lost);
        if rates.app_limited_until != 0 && self.delivered > rates.app_limited_until {
            rates.app_limited_until = 0;
        }
        while rates.sent.front().is_some_and(|s| s.0 <= una) {
            rates.sent.pop_front();
        }
        let Some((sent, send_elapsed)) = rates.newest.take() else {
            return;
        };
        let interval = send_elapsed.max(now.since(sent.delivered_at));
        if interval < min_rtt {
            return;
        }
        let sample = ack.rate.insert(RateSample::default());
        sample.delivered = ByteCount::new(self.delivered - sent.delivered.min(self.delivered));
        sample.interval = interval;
        sample.app_limited = sent.app_limited;
        sample.in_flight = sent.in_flight;
        sample.lost = rates.state.lost - sent.lost;
        sample.delivered_ce = rates.state.delivered_ce - sent.delivered_ce;
    }

    /// What is kept beside the record of each segment outstanding, in bytes.
    pub(super) fn memory_of_a_record(&self) -> usize {
        match self.rates {
            Some(_) => size_of::<(AbsSeq, State)>(),
            None => 0,
        }
    }

    /// Gives back the memory of what is not outstanding, but for `few`.
    pub(super) fn trim(&mut self, few: usize) {
        if let Some(rates) = &mut self.rates {
            shrink(&mut rates.sent, few);
        }
    }
}

impl Rates {
    #[inline(never)] // Few want rates.
    fn on_sent(
        &mut self,
        (start, end): (AbsSeq, AbsSeq),
        now: Instant,
        idle: bool,
        in_flight: ByteCount,
        delivered: u64,
    ) {
        if idle {
            self.state.first_sent_at = now;
            self.state.delivered_at = now;
        }
        let this = State {
            delivered,
            app_limited: self.app_limited_until != 0,
            in_flight,
            ..self.state
        };
        self.part_at(start);
        self.part_at(end);
        let from = self.sent.partition_point(|s| s.0 <= start);
        let to = self.sent.partition_point(|s| s.0 <= end);
        self.sent.drain(from..to);
        self.sent.insert(from, (end, this));
    }

    /// The transmission that goes beyond `at` becomes two.
    fn part_at(&mut self, at: AbsSeq) {
        let i = self.sent.partition_point(|s| s.0 < at);
        if let Some(&(end, transmission)) = self.sent.get(i)
            && end > at
        {
            self.sent.insert(i, (at, transmission));
        }
    }

    #[inline(never)]
    fn on_delivered(&mut self, segment: &SentSegment, now: Instant) {
        self.state.delivered_at = now;
        let i = self.sent.partition_point(|s| s.0 < segment.end);
        let Some(&(_, sent)) = self.sent.get(i) else {
            return;
        };
        if self.newest.is_none() || segment.sent_at >= self.state.first_sent_at {
            self.newest = Some((sent, segment.sent_at.since(sent.first_sent_at)));
            self.state.first_sent_at = segment.sent_at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::Scoreboard;
    use narrows_congestion::Rate;
    use proptest::prelude::*;

    fn us(n: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(n)
    }

    const SEG: ByteCount = ByteCount::new(1_000);

    /// Segments of 1,000 bytes, each known by its start.
    #[derive(Clone)]
    struct Flight {
        board: Scoreboard,
        rate: RateEstimator,
        min_rtt: Duration,
    }

    impl Default for Flight {
        fn default() -> Self {
            let mut needs = Needs::default();
            needs.delivery_rate = true;
            Self {
                board: Scoreboard::new(),
                rate: RateEstimator::of(&needs),
                min_rtt: Duration::ZERO,
            }
        }
    }

    impl Flight {
        fn send(&mut self, now: Instant, idle: bool) -> AbsSeq {
            let (start, end) = (self.board.end(), self.board.end() + SEG.get());
            self.board.push(end, now, self.rate.delivered());
            let in_flight = || self.board.pipe();
            self.rate.on_sent((start, end), now, idle, in_flight);
            start
        }

        fn send_again(&mut self, start: AbsSeq, now: Instant) {
            self.board.on_retransmit(start, now, self.rate.delivered());
            let span = (start, start + SEG.get());
            self.rate.on_sent(span, now, false, || self.board.pipe());
        }

        fn deliver(&mut self, start: AbsSeq, now: Instant) -> bool {
            let segment = self.board.get(start).unwrap();
            self.rate.on_delivered(&segment, now)
        }

        fn sample(&mut self, now: Instant) -> Option<RateSample> {
            self.told(now).rate
        }

        fn told(&mut self, now: Instant) -> AckSample {
            let mut told = AckSample::default();
            let una = self.board.una();
            self.rate.sample(&mut told, una, self.min_rtt, now);
            told
        }

        /// What an ACK that delivers `starts` measures.
        fn ack(&mut self, starts: &[AbsSeq], now: Instant) -> RateSample {
            for &start in starts {
                self.deliver(start, now);
            }
            self.sample(now).unwrap()
        }
    }

    fn measured(s: RateSample) -> (Duration, ByteCount) {
        (s.interval, s.delivered)
    }

    /// A window of 10 segments of 1,000 B sent back to back, ACKs 8 us apart: 1 Gb/s.
    #[test]
    fn steady_acks_give_the_bottleneck_rate() {
        let mut f = Flight::default();
        for i in 0..10 {
            f.send(us(0), i == 0);
        }
        let mut now = us(100);
        for k in 0..50 {
            let s = f.ack(&[k * SEG.get()], now);
            assert!(s.rate().unwrap() <= Rate::from_gbps(1));
            if k >= 20 {
                assert_eq!(s.rate(), Some(Rate::from_gbps(1)));
                assert_eq!(measured(s), (Duration::from_micros(80), SEG * 10));
                assert_eq!(s.in_flight, SEG * 10);
            }
            f.board.ack((k + 1) * SEG.get(), |_| {});
            f.send(now, false);
            now = now + Duration::from_micros(8);
        }
        // Nothing is kept of what is acknowledged.
        f.sample(now);
        assert_eq!(f.rate.rates.unwrap().sent.len(), 10);
    }

    /// ACKs all at once: the time of sending bounds the rate.
    #[test]
    fn compressed_acks_do_not_inflate_the_rate() {
        let mut f = Flight::default();
        let mut sent: Vec<_> = (0..10).map(|i| f.send(us(100 * i), i == 0)).collect();
        f.ack(&[sent.remove(0)], us(1_000));
        sent.push(f.send(us(1_001), false));
        // Ten segments came in 200 us, but were sent in 1,001.
        let s = f.ack(&sent, us(1_200));
        assert_eq!(measured(s), (Duration::from_micros(1_001), SEG * 10));
    }

    #[test]
    fn one_ack_of_many_segments_is_measured_by_the_newest() {
        let mut f = Flight::default();
        let (a, b) = (f.send(us(0), true), f.send(us(10), false));
        // SACK may deliver the newer first.
        let s = f.ack(&[b, a], us(100));
        assert_eq!(measured(s), (Duration::from_micros(100), SEG * 2));
        // `C.first_send_time` is that of the newest.
        let c = f.send(us(101), false);
        let s = f.ack(&[c], us(102));
        assert_eq!(s.interval, Duration::from_micros(91));
    }

    #[test]
    fn an_idle_period_is_not_measured() {
        let mut f = Flight::default();
        let a = f.send(us(0), true);
        f.ack(&[a], us(100));
        let b = f.send(us(1_000_000), true);
        let s = f.ack(&[b], us(1_000_100));
        assert_eq!(s.interval, Duration::from_micros(100));
    }

    #[test]
    fn app_limited_ends_when_what_was_in_flight_is_delivered() {
        let mut f = Flight::default();
        let a = f.send(us(0), true);
        f.rate.on_app_limited(|| SEG);
        let b = f.send(us(50), false);
        assert!(!f.ack(&[a], us(100)).app_limited);
        assert!(f.ack(&[b], us(150)).app_limited);
        let c = f.send(us(151), true);
        assert!(!f.ack(&[c], us(200)).app_limited);
    }

    #[test]
    fn losses_and_marks_count_from_when_the_newest_segment_left() {
        let mut f = Flight::default();
        let a = f.send(us(0), true);
        f.rate.on_lost(SEG * 3);
        let b = f.send(us(10), false);
        f.rate.on_lost(SEG);
        f.rate.on_marked(SEG * 2);
        f.deliver(a, us(100));
        let told = f.told(us(100));
        let s = told.rate.unwrap();
        assert_eq!((s.lost, s.delivered_ce), (SEG * 4, SEG * 2));
        assert_eq!(told.newly_lost, SEG * 4);
        let s = f.ack(&[b], us(110));
        assert_eq!((s.lost, s.delivered_ce), (SEG, SEG * 2));
        assert_eq!(f.told(us(110)).newly_lost, ByteCount::ZERO);
    }

    /// A burst is one transmission; of its segments one that leaves again is another.
    #[test]
    fn what_leaves_again_is_measured_from_then() {
        let mut f = Flight::default();
        f.board.push_burst(4, SEG, us(0), 0);
        f.rate.on_sent((0, 4_000), us(0), true, || SEG * 4);
        f.ack(&[0], us(100));
        f.send_again(2_000, us(150));
        let s = f.ack(&[2_000], us(250));
        assert_eq!(measured(s), (Duration::from_micros(150), SEG));
        let s = f.ack(&[1_000, 3_000], us(260));
        // Both left before the one that was delivered last: it does not become older.
        assert_eq!(s.interval, Duration::from_micros(260));
        assert_eq!(f.rate.rates.unwrap().sent.len(), 3);
    }

    #[test]
    fn what_never_left_is_forgotten() {
        let mut f = Flight::default();
        f.board.push_burst(4, SEG, us(0), 0);
        f.rate.on_sent((0, 4_000), us(0), true, || SEG * 4);
        assert!(f.board.pop_unsent(3_000));
        f.rate.on_unsent(3_000);
        let again = f.send(us(40), false);
        assert_eq!(again, 3_000);
        let rates = f.rate.rates.as_ref().unwrap();
        let ends: Vec<_> = rates.sent.iter().map(|s| s.0).collect();
        assert_eq!(ends, [3_000, 4_000]);
    }

    #[test]
    fn rounds_are_counted_once_per_window() {
        let mut f = Flight::default();
        let mut starts = 0;
        let mut now = us(0);
        for round in 1..=5 {
            let sent: Vec<_> = (0..4).map(|i| f.send(now, i == 0)).collect();
            now = now + Duration::from_micros(100);
            for &segment in &sent {
                starts += u64::from(f.deliver(segment, now));
                f.sample(now);
            }
            assert_eq!(starts, round);
        }
        // The same with one ACK for all four.
        let sent: Vec<_> = (0..4).map(|i| f.send(now, i == 0)).collect();
        let starts: Vec<_> = sent.iter().map(|&s| f.deliver(s, us(900))).collect();
        assert_eq!(starts, [true, false, false, false]);
    }

    #[test]
    fn impossible_samples_give_no_rate() {
        let mut f = Flight::default();
        assert_eq!(f.sample(us(5)), None);
        f.min_rtt = Duration::from_micros(50);
        let a = f.send(us(0), true);
        // A retransmission at 90 us, "acknowledged" 10 us later by the original.
        let again = f.send(us(90), true);
        f.deliver(again, us(100));
        assert_eq!(f.sample(us(100)), None);
        assert!(f.ack(&[a], us(100)).rate().is_some());
        // No time at all.
        let mut f = Flight::default();
        let a = f.send(us(0), true);
        assert_eq!(f.ack(&[a], us(0)).rate(), None);
        // Nobody wants any.
        let mut f = Flight {
            rate: RateEstimator::of(&Needs::default()),
            ..Flight::default()
        };
        let a = f.send(us(0), true);
        assert!(f.deliver(a, us(100)), "a round");
        f.rate.on_lost(SEG);
        assert_eq!(f.told(us(100)), AckSample::default());
    }

    proptest! {
        /// Behind a link of 1 Gb/s no schedule of sending and no grouping of ACKs measures more.
        #[test]
        fn never_above_the_bottleneck(
            gaps in proptest::collection::vec(0u64..30_000, 2..60),
            group in 1usize..6,
        ) {
            let mut f = Flight::default();
            let (mut now, mut link_free) = (0u64, 0u64);
            let mut flight = VecDeque::<(AbsSeq, u64)>::new();
            for gap in gaps {
                now += gap;
                while flight.get(group - 1).is_some_and(|&(_, ack)| ack <= now) {
                    let acked: Vec<_> = flight.drain(..group).collect();
                    let at = Instant::from_nanos(acked[group - 1].1);
                    for &(start, _) in &acked {
                        f.deliver(start, at);
                    }
                    if let Some(rate) = f.sample(at).and_then(|s| s.rate()) {
                        prop_assert!(rate <= Rate::from_gbps(1), "{rate}");
                    }
                }
                link_free = link_free.max(now) + 8_000;
                let start = f.send(Instant::from_nanos(now), flight.is_empty());
                flight.push_back((start, link_free + 50_000));
            }
        }
    }
}
