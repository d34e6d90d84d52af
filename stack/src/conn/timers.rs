//! The connection's own timers; the sender keeps those of loss recovery.

use narrows_congestion::hint::cold_path;
use narrows_congestion::{Duration, Instant};

/// Which timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Timer {
    /// SYN or SYN-ACK retransmission.
    Handshake,
    /// A delayed acknowledgement is due.
    DelayedAck,
    /// The peer's window is closed and nothing is outstanding that would ask for it.
    Persist,
    /// Keepalive probe.
    Keepalive,
    /// Data unacknowledged for too long.
    User,
    /// TIME-WAIT ends, or the patience with the peer of a connection that the user let go of.
    Linger,
    /// Buffers that are larger than what was needed lately shrink.
    Trim,
}

const COUNT: usize = 7;

const fn bit(timer: Timer) -> u8 {
    1 << timer as u8
}

impl Timer {
    const ALL: [Self; COUNT] = [
        Self::Handshake,
        Self::DelayedAck,
        Self::Persist,
        Self::Keepalive,
        Self::User,
        Self::Linger,
        Self::Trim,
    ];
}

/// Deadlines, one a timer. What each segment asks for comes first: mostly nothing is armed.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Timers {
    /// The earliest deadline; [`Instant::MAX`] if none is armed.
    pub(super) next: Instant,
    /// The tick in nanoseconds: at most a second.
    tick: u32,
    /// A bit for each timer that is armed.
    armed: u8,
    /// From the time on when two were armed at once; one alone is due at `next`.
    at: Option<Box<[Instant; COUNT]>>,
}

impl Timers {
    /// None armed; deadlines will be multiples of `tick`.
    pub(crate) fn new(tick: Duration) -> Self {
        Self {
            next: Instant::MAX,
            tick: u32::try_from(tick.as_nanos()).unwrap_or(u32::MAX),
            armed: 0,
            at: None,
        }
    }

    /// Arm `timer` for `at`, rounded up to the tick.
    pub(crate) fn arm(&mut self, timer: Timer, at: Instant) {
        let at = self.on_tick(at);
        if at == Instant::MAX {
            return self.stop(timer);
        }
        if self.at.is_none() && self.armed & !bit(timer) == 0 {
            (self.armed, self.next) = (bit(timer), at);
            return;
        }
        let was = core::mem::replace(&mut self.times()[timer as usize], at);
        self.armed |= bit(timer);
        if at <= self.next {
            self.next = at;
        } else if was == self.next {
            self.recompute();
        }
    }

    /// Arm it unless it is armed.
    #[inline]
    pub(crate) fn arm_if_idle(&mut self, timer: Timer, at: Instant) {
        if !self.is_armed(timer) {
            self.arm(timer, at);
        }
    }

    #[inline]
    pub(crate) fn is_armed(&self, timer: Timer) -> bool {
        self.armed & bit(timer) != 0
    }

    #[inline]
    pub(crate) fn stop(&mut self, timer: Timer) {
        if self.is_armed(timer) {
            self.disarm(timer);
        }
    }

    fn disarm(&mut self, timer: Timer) {
        self.armed &= !bit(timer);
        let Some(at) = &mut self.at else {
            self.next = Instant::MAX;
            return;
        };
        let was = core::mem::replace(&mut at[timer as usize], Instant::MAX);
        if was == self.next {
            self.recompute();
        }
    }

    pub(crate) fn stop_all(&mut self) {
        self.at = None;
        self.next = Instant::MAX;
        self.armed = 0;
    }

    /// A timer that is due, which is thereby stopped. Timers due at the same time come in the
    /// order of [`Timer`].
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        if now < self.next {
            return None;
        }
        let timer = (Timer::ALL.into_iter()).find(|t| self.deadline(*t) == self.next)?;
        self.stop(timer);
        Some(timer)
    }

    fn deadline(&self, timer: Timer) -> Instant {
        match &self.at {
            Some(at) => at[timer as usize],
            None if self.is_armed(timer) => self.next,
            None => Instant::MAX,
        }
    }

    /// Round `at` up to the host's tick.
    #[inline]
    pub(crate) fn on_tick(&self, at: Instant) -> Instant {
        if self.tick == 0 {
            return at;
        }
        cold_path();
        at.round_up(Duration::from_nanos(self.tick.into()))
    }

    /// Whether what is due `at` that time, on the tick, is due now.
    pub(crate) fn is_past(&self, at: Option<Instant>, now: Instant) -> bool {
        at.is_some_and(|at| self.on_tick(at) <= now)
    }

    fn times(&mut self) -> &mut [Instant; COUNT] {
        let alone = Timer::ALL.map(|t| self.deadline(t));
        self.at.get_or_insert_with(|| Box::new(alone))
    }

    fn recompute(&mut self) {
        let times = self.at.iter().flat_map(|at| at.iter());
        self.next = times.copied().min().unwrap_or(Instant::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(n)
    }

    #[test]
    fn earliest_first_and_each_once() {
        let mut t = Timers::new(Duration::ZERO);
        t.arm(Timer::User, ms(5));
        t.arm(Timer::DelayedAck, ms(3));
        t.arm_if_idle(Timer::DelayedAck, ms(1));
        assert_eq!(t.next, ms(3));
        assert_eq!(t.pop_due(ms(2)), None);
        assert_eq!(t.pop_due(ms(9)), Some(Timer::DelayedAck));
        assert_eq!(t.pop_due(ms(9)), Some(Timer::User));
        assert_eq!(t.pop_due(ms(9)), None);
        assert_eq!(t.next, Instant::MAX);
    }

    #[test]
    fn rearming_later_moves_the_next_deadline() {
        let mut t = Timers::new(Duration::from_millis(4));
        t.arm(Timer::Keepalive, ms(2));
        assert_eq!(t.next, ms(4));
        t.arm(Timer::Keepalive, ms(9));
        assert_eq!(t.next, ms(12));
        t.stop(Timer::Keepalive);
        assert_eq!(t.next, Instant::MAX);
    }
}
