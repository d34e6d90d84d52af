//! The timestamps option (RFC 7323 sections 3 to 5): our clock, the peer's last value, PAWS.

use crate::config::TimestampMode;
use crate::wire::{PlainHeader, Seq, Timestamps};
use core::cmp::Ordering;
use narrows_congestion::hint::cold_path;
use narrows_congestion::{Duration, Instant};

/// TS.Recent older than this says nothing: a peer's clock may have gone half around since. RFC
/// 7323 section 5.5 has 24 days for a clock of milliseconds; with one of microseconds, which the
/// option does not tell, it is 35 minutes. No segment lives that long.
const RECENT_LIFETIME: Duration = Duration::from_micros(1 << 31);

/// Timestamp state of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamping {
    mode: TimestampMode,
    /// Both ends have agreed to use them.
    pub(super) in_use: bool,
    offset: u32,
    /// TS.Recent and when it was taken.
    recent: u32,
    recent_at: Instant,
}

impl Timestamping {
    pub(crate) fn new(mode: TimestampMode, offset: u32) -> Self {
        Self {
            mode,
            in_use: false,
            offset,
            recent: 0,
            recent_at: Instant::ZERO,
        }
    }

    /// We are willing to use them.
    pub(crate) fn wanted(&self) -> bool {
        self.mode != TimestampMode::Off
    }

    /// The peer's SYN carried the option (or not).
    pub(crate) fn on_syn(&mut self, option: Option<Timestamps>, now: Instant) {
        self.in_use = self.wanted() && option.is_some();
        if let Some(ts) = option {
            self.recent = ts.val;
            self.recent_at = now;
        }
    }

    /// Our clock now.
    #[inline]
    pub(crate) fn clock(&self, now: Instant) -> u32 {
        // Divisions by constants: this is asked several times a packet.
        let ticks = match self.mode {
            TimestampMode::Micros => now.as_nanos() / 1_000,
            TimestampMode::Off | TimestampMode::Millis => now.as_nanos() / 1_000_000,
        };
        (ticks as u32).wrapping_add(self.offset)
    }

    /// The option for a segment sent now.
    #[inline]
    pub(crate) fn option(&self, now: Instant) -> Timestamps {
        Timestamps {
            val: self.clock(now),
            ecr: self.recent,
        }
    }

    /// PAWS (RFC 7323 section 5.3 R1): the segment is an old duplicate.
    #[inline]
    pub(crate) fn rejects(&self, option: Timestamps, now: Instant) -> bool {
        before(option.val, self.recent) && !self.is_outdated(now)
    }

    fn is_outdated(&self, now: Instant) -> bool {
        cold_path();
        now.since(self.recent_at) >= RECENT_LIFETIME
    }

    /// Take TSval of an acceptable segment that starts at or before what was last acknowledged
    /// (RFC 7323 section 4.3).
    #[inline]
    pub(crate) fn on_segment(&mut self, tcp: &PlainHeader, last_ack_sent: Seq, now: Instant) {
        if let Some(option) = tcp.timestamps
            && self.in_use
            && tcp.seq.before_eq(last_ack_sent)
            && (!before(option.val, self.recent) || self.is_outdated(now))
        {
            self.recent = option.val;
            self.recent_at = now;
        }
    }

    /// How TSval of a new incarnation's SYN compares with the last of this one
    /// (RFC 6191 section 2).
    pub(crate) fn compare(&self, option: Timestamps) -> Ordering {
        (option.val.wrapping_sub(self.recent) as i32).cmp(&0)
    }

    /// The RTT by an echo; `None` when it is from the future or absurdly old. A difference of n
    /// ticks is at least n and less than n + 1 ticks long; half a tick is added, except that
    /// nothing finer than a tick is claimed to be zero.
    pub(crate) fn rtt(&self, ecr: u32, now: Instant) -> Option<Duration> {
        let ticks = self.clock(now).wrapping_sub(ecr);
        if ticks > 1 << 30 {
            return None;
        }
        let tick = self.mode.tick();
        Some(tick * u64::from(ticks) + tick / 2)
    }
}

/// The option of a RST that answers a segment of no connection: that one's TSval, and no clock
/// (RFC 7323 section 5.2).
pub(crate) const fn echo_only(tsval: u32) -> Timestamps {
    Timestamps { val: 0, ecr: tsval }
}

/// `a < b` on the circle of timestamps.
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn segment(seq: u32, option: Timestamps) -> PlainHeader {
        PlainHeader {
            seq: Seq(seq),
            timestamps: Some(option),
            ..PlainHeader::default()
        }
    }

    #[test]
    fn paws_rejects_older_until_it_expires() {
        let mut t = Timestamping::new(TimestampMode::Millis, 0);
        t.on_syn(Some(Timestamps { val: 5, ecr: 0 }), at(0));
        assert!(t.rejects(Timestamps { val: 4, ecr: 0 }, at(1)));
        assert!(!t.rejects(Timestamps { val: 5, ecr: 0 }, at(1)));
        assert!(!t.rejects(Timestamps { val: 6, ecr: 0 }, at(1)));
        let old = Timestamps { val: 4, ecr: 0 };
        assert!(t.rejects(old, at(35 * 60 * 1_000)));
        assert!(!t.rejects(old, at(36 * 60 * 1_000)));
        t.on_segment(&segment(1, old), Seq(1), at(36 * 60 * 1_000));
        assert_eq!(t.option(at(0)).ecr, 4, "and it is taken for TS.Recent");
    }

    #[test]
    fn recent_follows_only_the_left_edge() {
        let mut t = Timestamping::new(TimestampMode::Millis, 0);
        t.on_syn(Some(Timestamps { val: 5, ecr: 0 }), at(0));
        let newer = Timestamps { val: 9, ecr: 0 };
        t.on_segment(&segment(101, newer), Seq(100), at(1));
        assert_eq!(t.option(at(1)).ecr, 5);
        t.on_segment(&segment(100, newer), Seq(100), at(1));
        assert_eq!(t.option(at(1)).ecr, 9);
    }

    #[test]
    fn rtt_from_an_echo() {
        let t = Timestamping::new(TimestampMode::Micros, u32::MAX - 10);
        let sent = t.clock(at(1));
        let rtt = t.rtt(sent, at(3)).unwrap();
        assert_eq!(rtt, Duration::from_nanos(2_000_500));
        assert_eq!(t.rtt(sent.wrapping_add(5_000), at(3)), None);
    }
}
