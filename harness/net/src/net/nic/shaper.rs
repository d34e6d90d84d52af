//! A shaper between a host and its link: the token bucket filter of Linux (tc-tbf(8)).
//!
//! Tokens come at a rate, up to a burst; a frame leaves once there are as many as it has bytes, in
//! the order in which frames came. A kernel that looks at the bucket at timer ticks releases what
//! waits at the next tick only, back to back: at least a tick's worth of bytes must then fit the
//! burst, or the rate is not reached. With a tick of zero the time is exact, as with
//! high-resolution timers.
//!
//! Exact: tokens are integers of a bit times 10^-12. Leaves out: tbf's second bucket (`peakrate`),
//! its own queue limit (that of the NIC holds), and a class tree.

use narrows_congestion::{ByteCount, Rate};

use crate::sim::time::SimTime;

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperSpec {
    /// At which tokens come.
    pub rate: Rate,
    /// Most tokens: what may leave at once after a pause. A frame that is larger leaves when the
    /// bucket is full (tbf drops it).
    pub burst: ByteCount,
    /// What waits leaves at multiples of this; zero for when the tokens are there.
    pub tick: SimTime,
}

/// A byte in tokens.
const BYTE: u128 = 8_000_000_000_000;

/// A token bucket at work.
#[derive(Debug)]
pub(crate) struct Shaper {
    /// Tokens a picosecond.
    rate: u128,
    burst: u128,
    tick: SimTime,
    tokens: u128,
    /// When there were so many, which is when the last frame was let go.
    as_of: SimTime,
}

impl Shaper {
    /// A full bucket.
    pub(crate) fn new(spec: ShaperSpec) -> Self {
        let burst = u128::from(spec.burst.get()) * BYTE;
        Self {
            rate: u128::from(spec.rate.bits_per_sec()).max(1),
            burst,
            tick: spec.tick,
            tokens: burst,
            as_of: SimTime::ZERO,
        }
    }

    fn fill_until(&mut self, at: SimTime) {
        let span = u128::from((at - self.as_of).as_picos());
        self.tokens = self.burst.min(self.tokens + span * self.rate);
        self.as_of = at;
    }

    /// When a frame of `bytes` that comes at `now` is let go.
    pub(crate) fn release(&mut self, now: SimTime, bytes: u32) -> SimTime {
        let cost = (u128::from(bytes) * BYTE).min(self.burst);
        self.fill_until(now.max(self.as_of));
        if self.tokens < cost {
            let wait = (cost - self.tokens).div_ceil(self.rate);
            let there = self.as_of + SimTime::from_picos(u64::try_from(wait).unwrap_or(u64::MAX));
            let at = match self.tick.as_picos() {
                0 => there,
                tick => SimTime::from_picos(there.as_picos().div_ceil(tick).saturating_mul(tick)),
            };
            self.fill_until(at);
        }
        self.tokens -= cost;
        self.as_of
    }

    /// Forgets what it has let go after `now`: the bucket is full.
    pub(crate) fn restart(&mut self, now: SimTime) {
        self.tokens = self.burst;
        self.as_of = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shaper(mbps: u64, burst: u64, tick_ms: u64) -> Shaper {
        Shaper::new(ShaperSpec {
            rate: Rate::from_mbps(mbps),
            burst: ByteCount::new(burst),
            tick: SimTime::from_millis(tick_ms),
        })
    }

    #[test]
    fn a_full_bucket_lets_a_burst_go_and_then_one_at_the_rate() {
        // 8 Mb/s is a byte a microsecond.
        let mut s = shaper(8, 3_000, 0);
        let times: Vec<u64> = (0..6)
            .map(|_| s.release(SimTime::ZERO, 1_000).as_picos() / 1_000_000)
            .collect();
        assert_eq!(times, [0, 0, 0, 1_000, 2_000, 3_000]);
        // After a pause of 10 ms it is full, and no more than that.
        let at = SimTime::from_millis(13);
        let times: Vec<u64> = (0..4)
            .map(|_| s.release(at, 1_000).as_picos() / 1_000_000)
            .collect();
        assert_eq!(times, [13_000, 13_000, 13_000, 14_000]);
    }

    /// The arithmetic of the text: 800 Mb/s released at ticks of 10 ms leave in bursts of a megabyte
    /// (800 Mb/s x 10 ms = 1 MB), and need that much burst to be 800 Mb/s.
    #[test]
    fn at_a_tick_of_10_ms_800_mbps_leave_a_megabyte_at_once() {
        for (burst, expected) in [(1_000_000, 100), (500_000, 50)] {
            let mut s = shaper(800, burst, 10);
            let mut at_tick = std::collections::BTreeMap::<u64, u64>::new();
            for _ in 0..100 * burst / 10_000 {
                let at = s.release(SimTime::ZERO, 10_000);
                *at_tick.entry(at.as_nanos()).or_default() += 10_000;
            }
            assert_eq!(at_tick.len(), 100, "one burst a tick");
            assert!(at_tick.values().all(|&bytes| bytes == burst));
            let last = at_tick.keys().last().copied().unwrap();
            assert_eq!(last, 99 * 10_000_000);
            // MB a second: the rate is reached with a tick's worth of burst only.
            let span_ms = last / 1_000_000;
            assert_eq!(99 * burst / (span_ms * 1_000), expected);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// What tbf promises: in no span more than burst + rate x span, and a shaper that is never
        /// idle sends at its rate, whatever the sizes.
        #[test]
        fn no_span_has_more_than_the_burst_and_the_rate(
            rate in 1_u64..200,
            sizes in proptest::collection::vec(64_u32..1_600, 2..80),
            tick in 0_u64..4,
        ) {
            let burst = 20_000;
            let mut s = shaper(rate, burst, tick);
            let mut sent: Vec<(u64, u64)> = Vec::new();
            for &size in &sizes {
                let at = s.release(SimTime::ZERO, size).as_picos();
                prop_assert!(sent.last().is_none_or(|&(before, _)| before <= at));
                sent.push((at, u64::from(size)));
            }
            for i in 0..sent.len() {
                let mut bytes = 0_u128;
                for &(at, size) in &sent[i..] {
                    bytes += u128::from(size);
                    // In bits times 10^-12.
                    let most = u128::from(burst) * BYTE
                        + u128::from(at - sent[i].0) * u128::from(rate * 1_000_000);
                    prop_assert!(bytes * BYTE <= most, "{bytes} after {i}");
                }
            }
        }
    }
}
