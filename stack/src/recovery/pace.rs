//! The pace: how fast the window is let out, where pacing is asked for.

use super::rare::Rare;
use super::sender::Sender;
use crate::config::PacingMode;
use narrows_congestion::{CongestionControl, Duration, Instant, Rate, RtoPolicy};

/// A window is spread over no more than this. Where the round trip is longer, the window's own ACKs
/// space what leaves; one second is where RFC 6298 (section 2.1) begins without knowing any.
const LONGEST_PACED_RTT: Duration = Duration::from_secs(1);

/// No pace holds a segment back for longer, not even that of a congestion control of the user's own:
/// about what a timeout may be (RFC 6298 section 2.4).
const SLOWEST_SEGMENT: Duration = Duration::from_secs(60);

impl<C: CongestionControl, R: RtoPolicy> Sender<C, R> {
    /// Whether a segment has left that was paced.
    #[inline]
    pub(crate) fn has_pace(&self) -> bool {
        self.rare.as_changed().is_some_and(|rare| rare.paces())
    }

    /// Never so slow that a segment takes longer than [`SLOWEST_SEGMENT`]; rate zero is none at all.
    #[inline(always)] // Asked for each segment, and most often there is none.
    pub(super) fn pacing_rate(&self) -> Option<Rate> {
        let own = self.cc.pacing_rate();
        if own.is_none() && self.policy.pacing == PacingMode::Off && !self.needs.pacing {
            return None;
        }
        self.pace(own)
    }

    /// The pace where there is one: `own` of the congestion control, or that of the window.
    #[inline(never)]
    fn pace(&self, own: Option<Rate>) -> Option<Rate> {
        let rate = own.or_else(|| self.window_rate());
        let rate = rate.filter(|rate| rate.bits_per_sec() > 0)?;
        // A segment in eight seconds is nowhere near: no division for each that leaves.
        if rate.bits_per_sec() >= self.mss.get() {
            return Some(rate);
        }
        Some(rate.max(Rate::of(self.mss, SLOWEST_SEGMENT)?))
    }

    /// The round trip over which a window is spread: SRTT, but not what a clock that jumped, or a
    /// peer that echoes what it likes, has left in it.
    fn paced_round_trip(&self) -> Option<Duration> {
        // A sample of less than half the average says that the average is stale. Of zero it says
        // nothing: the clock is coarse.
        let latest = match self.rtt.latest() {
            Duration::ZERO => Duration::MAX,
            latest => latest.saturating_shl(1),
        };
        Some(self.rtt.srtt()?.min(latest).min(LONGEST_PACED_RTT))
    }

    /// An ACK has come: what is held back for longer than a round trip was paced by another rate, or
    /// is not to be paced any more.
    pub(super) fn reconsider_pace(&mut self, now: Instant) {
        let next = self.waits_until(now, false);
        if next.is_none_or(|next| next <= now + self.rtt.latest()) {
            return;
        }
        let rate = self.pacing_rate();
        let asked = Rare::asked(&mut self.rare);
        if let Some(pacer) = asked.and_then(|asked| asked.pacer.as_mut()) {
            match rate {
                Some(rate) => pacer.hasten(now, self.mss, rate),
                None => pacer.forgive(),
            }
        }
    }

    /// The window over a round trip, times a gain.
    fn window_rate(&self) -> Option<Rate> {
        let slow_start = self.cc.cwnd() < self.cc.ssthresh();
        let gain = match self.policy.pacing {
            PacingMode::On {
                slow_start_gain, ..
            } if slow_start => slow_start_gain,
            PacingMode::On { avoidance_gain, .. } => avoidance_gain,
            PacingMode::Off if slow_start => 200,
            PacingMode::Off => 120,
        };
        Some(Rate::of(self.cc.cwnd(), self.paced_round_trip()?)?.mul_ratio(u64::from(gain), 100))
    }
}
