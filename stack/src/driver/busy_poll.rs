//! Looking for frames a little longer before sleeping, where that has paid.
//!
//! A sleep costs a wake-up, which takes longer than many a peer takes to answer. As Linux's
//! `haltpoll` governor does, the time to look grows when a frame comes soon after the sleep began.
//! Unlike there, it is what looking has caught that decides whether to go on with it: a peer on the
//! same core cannot answer while its core is taken.

use narrows_congestion::{Duration, Instant};

/// A look in vain takes back what so many good ones have earned, and is let pass when there is
/// none.
const CREDIT: u8 = 4;
/// Most sleeps without a look, after looks in vain.
const MOST_SLEEPS: u32 = 1_024;

/// What to do while nothing has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Idle {
    /// Look again at once.
    Look,
    /// Sleep until something wakes.
    Sleep,
}

/// How long to look, by how it went.
#[derive(Clone, Copy, Debug)]
pub(super) struct BusyPoll {
    /// The longest that is ever looked; zero: never.
    limit: Duration,
    /// How long is looked now.
    window: Duration,
    /// When there was nothing to do first.
    idle_since: Option<Instant>,
    /// Whether it sleeps since.
    asleep: bool,
    /// Looks caught something, less those in vain.
    credit: u8,
    /// Sleeps before the next attempt, and how many it will be after the next failure.
    sleeps: u32,
    backoff: u32,
}

impl BusyPoll {
    /// Looks for at most `limit`.
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            limit,
            window: Duration::ZERO,
            idle_since: None,
            asleep: false,
            credit: 0,
            sleeps: 0,
            backoff: 1,
        }
    }

    /// Frames have arrived.
    pub(super) fn on_arrival(&mut self, now: Instant) {
        let Some(since) = self.idle_since.take() else {
            return;
        };
        let took = now.since(since);
        if !std::mem::take(&mut self.asleep) {
            self.credit = (self.credit + 1).min(CREDIT);
            self.backoff = 1;
            self.window = (took * 2).max(self.window).min(self.limit);
        } else if took <= self.limit {
            self.sleeps = self.sleeps.saturating_sub(1);
            if self.sleeps == 0 {
                self.window = (took * 2).min(self.limit);
            }
        }
    }

    /// Nothing is to be done.
    pub(super) fn on_idle(&mut self, now: Instant) -> Idle {
        let since = *self.idle_since.get_or_insert(now);
        if self.asleep || self.window.is_zero() {
            self.asleep = true;
            return Idle::Sleep;
        }
        if now.since(since) < self.window {
            return Idle::Look;
        }
        self.asleep = true;
        match self.credit.checked_sub(1) {
            Some(left) => self.credit = left,
            None => {
                self.window = Duration::ZERO;
                self.sleeps = self.backoff;
                self.backoff = (self.backoff * 2).min(MOST_SLEEPS);
            }
        }
        Idle::Sleep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(60);

    /// A peer that answers `think` after each of our turns, `other_core` or only while we sleep.
    /// How many answers were caught by looking, and the time spent looking in vain.
    fn play(
        poll: &mut BusyPoll,
        thinks: impl Iterator<Item = Duration>,
        other_core: bool,
    ) -> (u32, Duration) {
        let step = Duration::from_micros(1);
        let (mut now, mut caught, mut vain) = (Instant::ZERO, 0, Duration::ZERO);
        for think in thinks {
            let begin = now;
            while poll.on_idle(now) == Idle::Look && !(other_core && now.since(begin) >= think) {
                now = now + step;
            }
            if poll.asleep {
                vain += now.since(begin);
                let done = if other_core { begin } else { now } + think;
                now = now.max(done);
            } else {
                caught += 1;
            }
            poll.on_arrival(now);
        }
        (caught, vain)
    }

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn a_peer_that_answers_soon_is_waited_for() {
        let mut poll = BusyPoll::new(LIMIT);
        let (caught, vain) = play(&mut poll, [us(25)].repeat(1_000).into_iter(), true);
        assert_eq!((caught, vain), (999, Duration::ZERO));
    }

    #[test]
    fn one_that_thinks_for_long_is_not() {
        let mut poll = BusyPoll::new(LIMIT);
        let (caught, vain) = play(&mut poll, [us(61)].repeat(1_000).into_iter(), true);
        assert_eq!((caught, vain), (0, Duration::ZERO));
    }

    /// Looking keeps it from answering: it is tried ever more rarely.
    #[test]
    fn one_on_the_same_core_is_left_its_core() {
        let mut poll = BusyPoll::new(LIMIT);
        let (caught, vain) = play(&mut poll, [us(10)].repeat(10_000).into_iter(), false);
        assert_eq!(caught, 0);
        assert!(vain <= LIMIT * 20, "{vain:?}");
    }

    /// Bursts of requests with pauses between them: what a pause costs is less than the limit.
    #[test]
    fn a_pause_between_bursts_is_forgiven() {
        let mut poll = BusyPoll::new(LIMIT);
        let burst = [us(20), us(20), us(20), us(20), us(5_000)];
        let (caught, vain) = play(&mut poll, burst.repeat(200).into_iter(), true);
        assert!(caught >= 790, "{caught}");
        assert!(vain <= us(40) * 200, "{vain:?}");
    }

    #[test]
    fn a_limit_of_zero_never_looks() {
        let mut poll = BusyPoll::new(Duration::ZERO);
        let (caught, vain) = play(&mut poll, [us(0), us(1)].repeat(100).into_iter(), true);
        assert_eq!((caught, vain), (0, Duration::ZERO));
    }
}
