//! The clock of a sender's timestamps: when its packets left, as they tell themselves.

use narrows::{Duration, Instant};

/// What clocks of timestamps tick at (RFC 7323 section 5.4 allows 1 ms to 1 s; Linux has 1 ms and
/// 1 us, others 4 ms and 10 ms).
const TICKS: [Duration; 4] = [
    Duration::from_micros(1),
    Duration::from_millis(1),
    Duration::from_millis(4),
    Duration::from_millis(10),
];
/// The least delay is that of so long at least, and of twice as long at most: clocks drift.
const WINDOW: Duration = Duration::from_secs(2);
/// So many ticks and so much time tell which clock it is.
const KNOWN: (u32, Duration) = (16, Duration::from_micros(500));

/// A lower envelope of one-way delays, from an unknown origin (Moon, Skelly, Towsley, INFOCOM 1999,
/// without the estimate of the skew: old delays are forgotten instead).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StampClock {
    first: Option<(u32, Instant)>,
    tick: Option<Duration>,
    /// The least delay since the time, and in the window before; in nanoseconds.
    least: (i64, Instant),
    before: Option<i64>,
}

impl StampClock {
    /// How finely it tells, if that is known.
    pub(crate) const fn tick(&self) -> Option<Duration> {
        self.tick
    }

    /// A packet with timestamp `value` is seen at `now`: how much later it comes than the quickest of
    /// late did, as far as its clock tells. Nothing as long as too little is known.
    pub(crate) fn lateness(&mut self, now: Instant, value: u32) -> Duration {
        let Some((first, began)) = self.first else {
            self.first = Some((value, now));
            self.least = (0, now);
            return Duration::ZERO;
        };
        let ticks = value.wrapping_sub(first);
        if ticks > u32::MAX / 2 {
            return Duration::ZERO;
        }
        if ticks > u32::MAX / 4 {
            // It begins anew before it wraps around.
            self.first = Some((value, now));
            (self.least, self.before) = ((0, now), None);
            return Duration::ZERO;
        }
        let elapsed = now.since(began);
        if self.tick.is_none() && ticks >= KNOWN.0 && elapsed >= KNOWN.1 {
            let each = elapsed / u64::from(ticks);
            self.tick = TICKS
                .into_iter()
                .find(|tick| each >= *tick * 5 / 8 && each <= *tick * 8 / 5);
        }
        let Some(tick) = self.tick else {
            return Duration::ZERO;
        };
        let left = tick.as_nanos().saturating_mul(ticks.into());
        let delay = elapsed.as_nanos() as i64 - left as i64;
        if now.since(self.least.1) > WINDOW {
            (self.before, self.least) = (Some(self.least.0), (delay, now));
        }
        self.least.0 = self.least.0.min(delay);
        let least = self.before.map_or(self.least.0, |b| b.min(self.least.0));
        // It left at any time of its tick.
        let late = Duration::from_nanos((delay - least).max(0) as u64);
        late.saturating_sub(tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_later_than_its_timestamp_says_is_late() {
        for tick in TICKS {
            let mut clock = StampClock::default();
            let at = |ticks: u64| Instant::ZERO + tick * ticks;
            for n in 0..1_000 {
                assert_eq!(clock.lateness(at(n), 7 + n as u32), Duration::ZERO);
            }
            let late = clock.lateness(at(1_030), 7 + 1_020);
            assert_eq!(late, tick * 9, "ten ticks, one of them unknown");
            assert_eq!(clock.lateness(at(1_100), 7 + 1_100), Duration::ZERO);
        }
    }

    #[test]
    fn timestamps_that_are_no_clock_say_nothing() {
        let mut clock = StampClock::default();
        for n in 0..100_u64 {
            let at = Instant::ZERO + Duration::from_micros(n * 37);
            assert_eq!(clock.lateness(at, (n * 900_001) as u32), Duration::ZERO);
        }
    }
}
