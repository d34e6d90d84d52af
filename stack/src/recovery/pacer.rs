//! Pacing: when the next segment may leave.
//!
//! The pacer keeps the earliest departure time of the next segment: each segment moves it by the
//! time that its bytes take at the pacing rate. The fraction of a nanosecond left over by the
//! division is carried on, so that the rate is exact however short the interval.

use narrows_congestion::{ByteCount, Duration, Instant, Rate};

/// A connection's pacer: every segment by itself, no catching up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    /// All that was sent is paid for at this time and `carry / rate` of a nanosecond.
    next: Instant,
    carry: u64,
    rate: u64,
}

impl Pacer {
    /// When the next segment may leave; `None`: now.
    #[inline]
    pub(super) fn next_send(&self, now: Instant) -> Option<Instant> {
        (now < self.next).then_some(self.next)
    }

    /// `bytes` leave, to be paced at `rate`. At rate zero nothing may leave after them.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, bytes: ByteCount, rate: Rate) {
        if self.next < now {
            self.next = now;
            self.carry = 0;
        }
        self.next = self.next + self.time_for(bytes, rate);
    }

    /// All that was sent counts as paid for: the next segment may leave at once.
    pub(super) fn forgive(&mut self) {
        self.next = Instant::ZERO;
        self.carry = 0;
    }

    /// The rate is `rate` from here on: the next segment waits no longer than `bytes` take at it,
    /// whatever it was when the last one left.
    pub(super) fn hasten(&mut self, now: Instant, bytes: ByteCount, rate: Rate) {
        let latest = now + rate.time_for(bytes);
        if latest < self.next {
            self.next = latest;
            self.carry = 0;
        }
    }

    /// How long `bytes` take at `rate`, keeping the remainder.
    #[inline]
    fn time_for(&mut self, bytes: ByteCount, rate: Rate) -> Duration {
        let rate = rate.bits_per_sec();
        if rate == 0 {
            return Duration::MAX;
        }
        if rate != self.rate {
            // The same fraction of a nanosecond in units of the new rate; nothing is carried
            // before there was a rate.
            let scaled = u128::from(self.carry) * u128::from(rate) / u128::from(self.rate.max(1));
            self.carry = scaled as u64;
            self.rate = rate;
        }
        // In 64 bits: a division of 128 takes ten times as long, and nobody sends 2 GB at once.
        let bits = bytes.get().saturating_mul(8_000_000_000);
        let sum = bits.saturating_add(self.carry);
        self.carry = sum % rate;
        Duration::from_nanos(sum / rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: ByteCount = ByteCount::new(1_448);

    /// Send `n` segments as soon as the pacer admits them: when the last left.
    fn run(pacer: &mut Pacer, n: u64, rate: Rate) -> Instant {
        let mut now = Instant::ZERO;
        for _ in 0..n {
            now = pacer.next_send(now).unwrap_or(now);
            assert_eq!(pacer.next_send(now), None);
            pacer.on_sent(now, MSS, rate);
        }
        now
    }

    /// 1,448 B take 1,158.4 ns at 10 Gb/s.
    #[test]
    fn ten_gigabits_do_not_drift() {
        let last = run(&mut Pacer::default(), 1_000_001, Rate::from_gbps(10));
        assert_eq!(last, Instant::from_nanos(1_158_400_000));
        // 28.96 ns each at 400 Gb/s.
        let last = run(&mut Pacer::default(), 1_000_001, Rate::from_gbps(400));
        assert_eq!(last, Instant::from_nanos(28_960_000));
    }

    #[test]
    fn a_changing_rate_does_not_drift() {
        // 1158.4 and 965.33 ns by turns.
        let rates = [Rate::from_gbps(10), Rate::from_gbps(12)];
        let mut p = Pacer::default();
        let mut now = Instant::ZERO;
        for k in 0..300_000 {
            now = p.next_send(now).unwrap_or(now);
            p.on_sent(now, MSS, rates[k % 2]);
        }
        let exact = 150_000 * (1_158_400 + 965_333) / 1_000 + 50;
        let end = p.next_send(now).unwrap().as_nanos();
        assert!(end.abs_diff(exact) <= 1, "{end} {exact}");
    }

    #[test]
    fn each_segment_waits_for_the_one_before() {
        let mut p = Pacer::default();
        let rate = Rate::from_mbps(8);
        assert_eq!(p.next_send(Instant::ZERO), None);
        p.on_sent(Instant::ZERO, ByteCount::new(1_000), rate);
        let ms = Instant::ZERO + Duration::from_millis(1);
        assert_eq!(p.next_send(Instant::ZERO), Some(ms));
        assert_eq!(p.next_send(ms), None);
        // Idle time is not saved up.
        let later = ms + Duration::from_secs(1);
        p.on_sent(later, ByteCount::new(1_000), rate);
        assert_eq!(p.next_send(later), Some(later + Duration::from_millis(1)));
    }

    #[test]
    fn a_faster_rate_shortens_the_wait_and_a_slower_one_does_not_lengthen_it() {
        let mut p = Pacer::default();
        p.on_sent(Instant::ZERO, MSS, Rate::from_bits_per_sec(1_448 * 8));
        let second = Instant::ZERO + Duration::from_secs(1);
        assert_eq!(p.next_send(Instant::ZERO), Some(second));
        p.hasten(Instant::ZERO, MSS, Rate::from_bits_per_sec(8));
        assert_eq!(p.next_send(Instant::ZERO), Some(second));
        p.hasten(Instant::ZERO, MSS, Rate::from_bits_per_sec(1_448 * 8_000));
        let ms = Instant::ZERO + Duration::from_millis(1);
        assert_eq!(p.next_send(Instant::ZERO), Some(ms));
    }

    #[test]
    fn extremes() {
        let mut p = Pacer::default();
        p.on_sent(
            Instant::ZERO,
            ByteCount::MAX,
            Rate::from_bits_per_sec(u64::MAX),
        );
        p.on_sent(Instant::MAX, ByteCount::MAX, Rate::from_bits_per_sec(1));
        p.on_sent(
            Instant::MAX,
            ByteCount::ZERO,
            Rate::from_bits_per_sec(u64::MAX),
        );
        let mut p = Pacer::default();
        p.on_sent(Instant::ZERO, MSS, Rate::from_bits_per_sec(0));
        assert_eq!(p.next_send(Instant::ZERO), Some(Instant::MAX));
    }

    proptest! {
        /// Over any run of segments the pacer's time is that of the bytes sent, to a nanosecond.
        #[test]
        fn the_average_is_exact(
            sizes in proptest::collection::vec(1u64..70_000, 1..100),
            rate in 1_000_000u64..1_000_000_000_000,
        ) {
            let mut p = Pacer::default();
            let mut now = Instant::ZERO;
            let mut total = 0u128;
            for bytes in sizes {
                now = p.next_send(now).unwrap_or(now);
                p.on_sent(now, ByteCount::new(bytes), Rate::from_bits_per_sec(rate));
                total += u128::from(bytes);
                // The time of departure never runs ahead of what was paid for before.
                prop_assert!(p.next >= now);
            }
            let exact = total * 8_000_000_000 / u128::from(rate);
            prop_assert_eq!(u128::from(p.next.as_nanos()), exact);
        }
    }
}
