//! The clock of a sender's timestamps: when its packets left, as they tell themselves.

use super::Sighting;
use narrows::wire::{Seq, Timestamps};
use narrows::{Duration, Instant};

/// What a sender echoes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Echo {
    /// The timestamp of the last that it had heard.
    pub(super) heard: u32,
    /// What it acknowledges: what comes out of order is not echoed (RFC 7323 section 4.3).
    ack: Seq,
    /// The first that left so.
    pub(super) since: Sighting,
    /// It may have heard by then that something of its flight is lost.
    pub(super) troubled: bool,
}

impl Echo {
    /// What it echoes with a packet that is seen `now`, after `before`.
    pub(super) fn of(
        before: Option<Self>,
        now: Sighting,
        (stamps, ack): (Timestamps, Seq),
        troubled: bool,
    ) -> Self {
        let same = before.filter(|echo| echo.is_same(stamps, ack));
        same.unwrap_or(Self {
            heard: stamps.ecr,
            ack,
            since: now,
            troubled,
        })
    }

    pub(super) fn is_same(&self, stamps: Timestamps, ack: Seq) -> bool {
        self.heard == stamps.ecr && self.ack == ack
    }
}

/// An acknowledgement on its way to whose segment it measures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Going {
    /// When it came by.
    pub(super) at: Instant,
    /// The round trip from here to its receiver and back.
    pub(super) far: Duration,
    /// Its timestamp.
    stamp: u32,
    /// It has text.
    pub(super) text: bool,
}

impl Going {
    pub(super) const fn new(at: Instant, far: Duration, stamps: Timestamps, text: bool) -> Self {
        Self {
            at,
            far,
            stamp: stamps.val,
            text,
        }
    }

    /// Whether who sends this has heard it.
    pub(super) const fn is_echoed(&self, stamps: Timestamps) -> bool {
        stamps.ecr.wrapping_sub(self.stamp) as i32 >= 0
    }
}

/// What clocks of timestamps tick at (RFC 7323 section 5.4 allows 1 ms to 1 s; Linux has 1 ms and
/// 1 us, others 4 ms and 10 ms).
const TICKS: [Duration; 4] = [
    Duration::from_micros(1),
    Duration::from_millis(1),
    Duration::from_millis(4),
    Duration::from_millis(10),
];

/// One of [`TICKS`].
#[derive(Clone, Copy, Debug)]
struct Tick(u8);

/// The least delay is that of so long at least, and of twice as long at most: clocks drift.
const WINDOW: Duration = Duration::from_secs(2);
/// So many ticks tell which clock it is.
const KNOWN: u32 = 16;

/// A lower envelope of one-way delays, from an unknown origin (Moon, Skelly, Towsley, INFOCOM 1999,
/// without the estimate of the skew: old delays are forgotten instead).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StampClock {
    /// The first timestamp.
    first: Option<u32>,
    tick: Option<Tick>,
    /// When that came by.
    began: Instant,
    /// The least delay since the time, and in the window before; in nanoseconds.
    least: (i64, Instant),
    before: Option<i64>,
}

impl StampClock {
    /// How finely it tells, if that is known.
    #[inline]
    pub(crate) fn tick(&self) -> Option<Duration> {
        TICKS.get(usize::from(self.tick?.0)).copied()
    }

    /// When a packet with this timestamp came by at the soonest, if that is known to a hundredth of the time since.
    pub(crate) fn came_by(&self, value: u32, now: Instant) -> Option<Instant> {
        let (first, tick) = (self.first?, self.tick()?);
        let ticks = value.wrapping_sub(first);
        if ticks > u32::MAX / 2 {
            return None;
        }
        let least = self.before.map_or(self.least.0, |b| b.min(self.least.0));
        let after = (tick * u64::from(ticks))
            .as_nanos()
            .saturating_add_signed(least);
        let at = self.began + Duration::from_nanos(after);
        (tick * 100 <= now.since(at)).then_some(at)
    }

    /// A packet with timestamp `value` is seen at `now`: how much later it comes than the quickest of
    /// late did, as far as its clock tells. Nothing as long as too little is known.
    pub(crate) fn lateness(&mut self, now: Instant, value: u32) -> Duration {
        let Some(first) = self.first else {
            (self.first, self.began) = (Some(value), now);
            self.least = (0, now);
            return Duration::ZERO;
        };
        let ticks = value.wrapping_sub(first);
        if ticks > u32::MAX / 2 {
            return Duration::ZERO;
        }
        if ticks > u32::MAX / 4 {
            // It begins anew before it wraps around.
            (self.first, self.began) = (Some(value), now);
            (self.least, self.before) = ((0, now), None);
            return Duration::ZERO;
        }
        let elapsed = now.since(self.began);
        if self.tick.is_none() && ticks >= KNOWN {
            let each = elapsed / u64::from(ticks);
            let fits = |&tick: &Duration| each >= tick * 5 / 8 && each <= tick * 8 / 5;
            self.tick = TICKS.iter().position(fits).map(|n| Tick(n as u8));
        }
        let Some(tick) = self.tick() else {
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

    /// RFC 6298 section 3: a timestamp tells when what is acknowledged left, whichever copy it is.
    #[test]
    fn an_echo_tells_when_what_it_is_of_came_by() {
        let tick = Duration::from_micros(1);
        let mut clock = StampClock::default();
        let at = |us: u64| Instant::ZERO + Duration::from_micros(us);
        assert_eq!(clock.came_by(7, at(9)), None, "nothing is known yet");
        for n in 0..40 {
            clock.lateness(at(n * 10), 7 + n as u32 * 10);
        }
        assert_eq!(clock.tick(), Some(tick));
        assert_eq!(clock.came_by(7 + 250, at(1_250)), Some(at(250)));
        assert_eq!(clock.came_by(7 + 250, at(300)), None, "a tick is much");
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
