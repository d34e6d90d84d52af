//! Delivery-rate estimation and round counting (draft-ietf-ccwg-bbr, "Delivery Rate Samples";
//! Linux's `tcp_rate.c` does the same).
//!
//! Each transmission remembers how much had been delivered when it left. When it is acknowledged,
//! what was delivered in between, over the time that took, is the rate of about one round trip:
//! over the longer of the times in which it was sent and in which it was acknowledged, because
//! ACKs may come compressed.

use narrows_congestion::{ByteCount, Duration, Instant, Needs, Rate};

/// The delivery state when a segment was last transmitted; kept in the segment's record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxSnapshot {
    /// `P.delivered` in the upper 63 bits, `P.is_app_limited` in the lowest.
    delivered_and_limited: u64,
    /// `P.delivered_time`.
    delivered_at: Instant,
    /// `P.first_send_time`.
    first_sent_at: Instant,
}

impl TxSnapshot {
    /// Bytes delivered on the connection when the segment was sent.
    pub const fn delivered(&self) -> u64 {
        self.delivered_and_limited >> 1
    }
    /// When the last of them was.
    pub const fn delivered_at(&self) -> Instant {
        self.delivered_at
    }
    /// When the segment was sent whose acknowledgement that was.
    pub const fn first_sent_at(&self) -> Instant {
        self.first_sent_at
    }
    /// Whether the application, not the network, limited the rate then.
    pub const fn app_limited(&self) -> bool {
        self.delivered_and_limited & 1 != 0
    }
}

/// The rate measured by one ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// `delivered / interval`; `None` if the ACK delivered nothing, took no time, or came sooner
    /// than the smallest round trip after what it acknowledges was sent (a retransmission
    /// acknowledged by its original).
    pub rate: Option<Rate>,
    /// The time over which the sample was taken.
    pub interval: Duration,
    /// Bytes delivered in that time.
    pub delivered: ByteCount,
    /// The rate is a lower bound: the application had nothing to send in that time.
    pub app_limited: bool,
}

/// A connection's delivery state.
///
/// In the order of events: [`on_sent`](Self::on_sent) per transmission; per ACK
/// [`on_delivered`](Self::on_delivered) for each segment newly acknowledged or SACKed, then
/// [`take_round_start`](Self::take_round_start) and [`sample`](Self::sample).
///
/// What rounds are counted by is all that most connections need; see
/// [`Connection`](crate::conn::Connection).
#[derive(Clone, Debug)]
pub struct RateEstimator {
    /// `C.delivered`.
    delivered: u64,
    /// A round trip ends when something sent after this much was delivered is delivered.
    next_round_delivered: u64,
    /// How many there were in the upper 63 bits, whether one has just begun in the lowest.
    rounds_and_start: u64,
    /// `None`: nobody wants rates, only rounds are counted.
    rates: Option<Box<Rates>>,
}

/// What only rates need.
#[derive(Clone, Debug, Default)]
struct Rates {
    /// `P` of the newest segment that the present ACK delivered, and its `send_elapsed`.
    newest: Option<(TxSnapshot, Duration)>,
    min_rtt: Duration,
    /// `C.delivered_time`.
    delivered_at: Instant,
    /// `C.first_send_time`.
    first_sent_at: Instant,
    /// `C.app_limited`: until this much is delivered, samples are limited by the application.
    app_limited_until: u64,
}

impl Default for RateEstimator {
    fn default() -> Self {
        Self::new()
    }
}

impl RateEstimator {
    /// Before the first segment.
    pub fn new() -> Self {
        Self {
            delivered: 0,
            next_round_delivered: 0,
            rounds_and_start: 0,
            rates: Some(Box::default()),
        }
    }

    /// The same for a congestion control with these needs: without
    /// [`delivery_rate`](Needs::delivery_rate) rounds are counted, and no sample is taken.
    pub fn of(needs: &Needs) -> Self {
        Self {
            rates: needs.delivery_rate.then(Box::default),
            ..Self::new()
        }
    }

    /// Bytes delivered so far, `C.delivered`.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Round trips counted so far.
    pub fn round(&self) -> u64 {
        self.rounds_and_start >> 1
    }

    /// The smallest RTT known: samples over a shorter interval are thrown away.
    pub fn set_min_rtt(&mut self, min_rtt: Duration) {
        if let Some(rates) = &mut self.rates {
            rates.min_rtt = min_rtt;
        }
    }

    /// A segment leaves: what to keep in its record. `idle`: nothing was in flight.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, idle: bool) -> TxSnapshot {
        let Some(rates) = &mut self.rates else {
            return TxSnapshot {
                delivered_and_limited: self.delivered << 1,
                ..TxSnapshot::default()
            };
        };
        if idle {
            rates.first_sent_at = now;
            rates.delivered_at = now;
        }
        TxSnapshot {
            delivered_and_limited: self.delivered << 1 | u64::from(rates.app_limited_until != 0),
            delivered_at: rates.delivered_at,
            first_sent_at: rates.first_sent_at,
        }
    }

    /// The application has nothing to send, although the window would admit it, with `in_flight`
    /// bytes outstanding: what is measured until that is delivered says little about the network.
    pub fn on_app_limited(&mut self, in_flight: u64) {
        if let Some(rates) = &mut self.rates {
            rates.app_limited_until = self.delivered.saturating_add(in_flight).max(1);
        }
    }

    /// `bytes` were delivered by a segment last sent at `sent_at` with the state `tx`.
    #[inline]
    pub fn on_delivered(
        &mut self,
        tx: &TxSnapshot,
        sent_at: Instant,
        bytes: ByteCount,
        now: Instant,
    ) {
        self.delivered = self.delivered.saturating_add(bytes.get());
        if let Some(rates) = &mut self.rates {
            rates.delivered_at = now;
            if rates.newest.is_none() || sent_at >= rates.first_sent_at {
                rates.newest = Some((*tx, sent_at.since(tx.first_sent_at)));
                rates.first_sent_at = sent_at;
            }
        }
        if tx.delivered() >= self.next_round_delivered {
            self.next_round_delivered = self.delivered;
            self.rounds_and_start = (self.rounds_and_start | 1) + 2;
        }
    }

    /// Whether the ACK being taken in is the first of a round trip: it acknowledges something
    /// sent after the previous round began. Asked once per ACK; asking clears it.
    #[inline]
    pub fn take_round_start(&mut self) -> bool {
        let start = self.rounds_and_start & 1 != 0;
        self.rounds_and_start &= !1;
        start
    }

    /// The rate that the ACK received at `now` measured. Asked once per ACK, after its last
    /// [`on_delivered`](Self::on_delivered).
    #[inline]
    pub fn sample(&mut self, now: Instant) -> RateSample {
        let Some(rates) = &mut self.rates else {
            return RateSample::default();
        };
        if rates.app_limited_until != 0 && self.delivered > rates.app_limited_until {
            rates.app_limited_until = 0;
        }
        let Some((tx, send_elapsed)) = rates.newest.take() else {
            return RateSample::default();
        };
        let interval = send_elapsed.max(now.since(tx.delivered_at));
        let delivered = ByteCount::new(self.delivered - tx.delivered().min(self.delivered));
        let rate = if interval < rates.min_rtt {
            None
        } else {
            rate_of(delivered, interval)
        };
        RateSample {
            rate,
            interval,
            delivered,
            app_limited: tx.app_limited(),
        }
    }
}

/// [`Rate::of`], in 64 bits where they suffice: a division of 128 bits costs more than the rest
/// of the estimator.
#[inline]
fn rate_of(bytes: ByteCount, interval: Duration) -> Option<Rate> {
    match bytes.get().checked_mul(8_000_000_000) {
        Some(bits) => bits
            .checked_div(interval.as_nanos())
            .map(Rate::from_bits_per_sec),
        None => Rate::of(bytes, interval),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn us(n: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(n)
    }

    const SEG: ByteCount = ByteCount::new(1_000);

    #[test]
    fn the_record_is_three_words() {
        assert_eq!(size_of::<TxSnapshot>(), 24);
    }

    /// A window of 10 segments of 1,000 B sent back to back, ACKs 8 us apart: 1 Gb/s.
    #[test]
    fn steady_acks_give_the_bottleneck_rate() {
        let mut e = RateEstimator::new();
        let mut sent: Vec<_> = (0..10).map(|i| (e.on_sent(us(0), i == 0), us(0))).collect();
        let mut now = us(100);
        for k in 0..50 {
            let (tx, at) = sent.remove(0);
            e.on_delivered(&tx, at, SEG, now);
            let s = e.sample(now);
            assert!(s.rate.unwrap() <= Rate::from_gbps(1));
            if k >= 20 {
                assert_eq!((s.rate, s.delivered), (Some(Rate::from_gbps(1)), SEG * 10));
                assert_eq!(s.interval, Duration::from_micros(80));
            }
            sent.push((e.on_sent(now, false), now));
            now = now + Duration::from_micros(8);
        }
    }

    /// ACKs all at once: the time of sending bounds the rate.
    #[test]
    fn compressed_acks_do_not_inflate_the_rate() {
        let mut e = RateEstimator::new();
        let sent: Vec<_> = (0..10)
            .map(|i| (e.on_sent(us(100 * i), i == 0), us(100 * i)))
            .collect();
        e.on_delivered(&sent[0].0, sent[0].1, SEG, us(1_000));
        e.sample(us(1_000));
        let last = e.on_sent(us(1_001), false);
        for (tx, at) in &sent[1..] {
            e.on_delivered(tx, *at, SEG, us(1_200));
        }
        e.on_delivered(&last, us(1_001), SEG, us(1_200));
        // Ten segments came in 200 us, but were sent in 1,001.
        let s = e.sample(us(1_200));
        assert_eq!(
            (s.interval, s.delivered),
            (Duration::from_micros(1_001), SEG * 10)
        );
    }

    #[test]
    fn one_ack_of_many_segments_is_measured_by_the_newest() {
        let mut e = RateEstimator::new();
        let a = e.on_sent(us(0), true);
        let b = e.on_sent(us(10), false);
        // SACK may deliver the newer first.
        e.on_delivered(&b, us(10), SEG, us(100));
        e.on_delivered(&a, us(0), SEG, us(100));
        let s = e.sample(us(100));
        assert_eq!(
            (s.interval, s.delivered),
            (Duration::from_micros(100), SEG * 2)
        );
        // `first_sent_at` is that of the newest.
        assert_eq!(e.on_sent(us(101), false).first_sent_at(), us(10));
    }

    #[test]
    fn an_idle_period_is_not_measured() {
        let mut e = RateEstimator::new();
        let tx = e.on_sent(us(0), true);
        e.on_delivered(&tx, us(0), SEG, us(100));
        e.sample(us(100));
        let tx = e.on_sent(us(1_000_000), true);
        e.on_delivered(&tx, us(1_000_000), SEG, us(1_000_100));
        assert_eq!(e.sample(us(1_000_100)).interval, Duration::from_micros(100));
    }

    #[test]
    fn app_limited_ends_when_what_was_in_flight_is_delivered() {
        let mut e = RateEstimator::new();
        let a = e.on_sent(us(0), true);
        e.on_app_limited(SEG.get());
        let b = e.on_sent(us(50), false);
        e.on_delivered(&a, us(0), SEG, us(100));
        assert!(!e.sample(us(100)).app_limited);
        e.on_delivered(&b, us(50), SEG, us(150));
        assert!(e.sample(us(150)).app_limited);
        assert!(!e.on_sent(us(151), true).app_limited());
    }

    /// As [`Scoreboard::ack_bursts`](crate::recovery::Scoreboard::ack_bursts) tells of what left together.
    #[test]
    fn a_burst_in_two_parts_is_measured_as_segment_by_segment() {
        let mut one_by_one = RateEstimator::new();
        for round in 0..3 {
            let (sent, now) = (us(1_000 * round), us(1_000 * round + 100));
            let tx = one_by_one.on_sent(sent, true);
            let mut in_two = one_by_one.clone();
            (0..7).for_each(|_| one_by_one.on_delivered(&tx, sent, SEG, now));
            in_two.on_delivered(&tx, sent, SEG, now);
            in_two.on_delivered(&tx, sent, SEG * 6, now);
            assert_eq!(format!("{in_two:?}"), format!("{one_by_one:?}"));
            assert_eq!(in_two.sample(now), one_by_one.sample(now));
        }
    }

    #[test]
    fn rounds_are_counted_once_per_window() {
        let mut e = RateEstimator::new();
        let mut starts = 0;
        let mut now = us(0);
        for round in 1..=5 {
            let sent: Vec<_> = (0..4).map(|i| e.on_sent(now, i == 0)).collect();
            let at = now;
            now = now + Duration::from_micros(100);
            for tx in &sent {
                e.on_delivered(tx, at, SEG, now);
                starts += u64::from(e.take_round_start());
                e.sample(now);
            }
            assert_eq!((starts, e.round()), (round, round));
        }
        // The same with one ACK for all four.
        let sent: Vec<_> = (0..4).map(|i| e.on_sent(now, i == 0)).collect();
        sent.iter()
            .for_each(|tx| e.on_delivered(tx, now, SEG, us(900)));
        assert!(e.take_round_start() && !e.take_round_start());
        assert_eq!(e.round(), 6);
    }

    #[test]
    fn impossible_samples_give_no_rate() {
        let mut e = RateEstimator::new();
        assert_eq!(e.sample(us(5)), RateSample::default());
        e.set_min_rtt(Duration::from_micros(50));
        let tx = e.on_sent(us(0), true);
        // A retransmission at 90 us, "acknowledged" 10 us later by the original.
        let again = e.on_sent(us(90), true);
        e.on_delivered(&again, us(90), SEG, us(100));
        assert_eq!(e.sample(us(100)).rate, None);
        e.on_delivered(&tx, us(0), SEG, us(100));
        assert!(e.sample(us(100)).rate.is_some());
        // No time at all.
        let mut e = RateEstimator::new();
        let tx = e.on_sent(us(0), true);
        e.on_delivered(&tx, us(0), ByteCount::MAX, us(0));
        assert_eq!(e.sample(us(0)).rate, None);
    }

    proptest! {
        #[test]
        fn the_short_division_is_the_long_one(bytes: u64, ns: u64, shift in 0u32..64) {
            let (bytes, interval) = (ByteCount::new(bytes >> shift), Duration::from_nanos(ns));
            prop_assert_eq!(rate_of(bytes, interval), Rate::of(bytes, interval));
        }

        /// Behind a link of 1 Gb/s no schedule of sending and no grouping of ACKs measures more.
        #[test]
        fn never_above_the_bottleneck(
            gaps in proptest::collection::vec(0u64..30_000, 2..60),
            group in 1usize..6,
        ) {
            let mut e = RateEstimator::new();
            let (mut now, mut link_free) = (0u64, 0u64);
            let mut flight = std::collections::VecDeque::<(TxSnapshot, Instant, u64)>::new();
            for gap in gaps {
                now += gap;
                while flight.get(group - 1).is_some_and(|&(_, _, ack)| ack <= now) {
                    let acked: Vec<(TxSnapshot, Instant, u64)> = flight.drain(..group).collect();
                    let at = Instant::from_nanos(acked[group - 1].2);
                    acked.iter().for_each(|(tx, sent, _)| e.on_delivered(tx, *sent, SEG, at));
                    if let Some(rate) = e.sample(at).rate {
                        prop_assert!(rate <= Rate::from_gbps(1), "{rate}");
                    }
                }
                link_free = link_free.max(now) + 8_000;
                let at = Instant::from_nanos(now);
                flight.push_back((e.on_sent(at, flight.is_empty()), at, link_free + 50_000));
            }
        }
    }
}
