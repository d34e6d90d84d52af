//! Full segments of new data that leave together, in one packet of a device that cuts it: decided
//! once, recorded one by one.

use super::sender::Sender;
use narrows_congestion::{CongestionControl, Instant, RtoPolicy};

impl<C: CongestionControl, R: RtoPolicy> Sender<C, R> {
    /// How many full segments of new data may leave after one that has just left, where only the
    /// congestion window has a say in it. Zero where more has (loss recovery, probes, pacing):
    /// [`next_segment`](Self::next_segment) knows about each.
    pub fn full_segments(&self, now: Instant) -> u64 {
        let plain = self.episode.is_open()
            && !self.probe_due
            && self.rare.asked.packets.is_none()
            && self.board.next_lost().is_none()
            && self.waits_until(now, true).is_none()
            && self.pacing_rate().is_none();
        if !plain {
            return 0;
        }
        let records = self.policy.max_segments.saturating_sub(self.board.len());
        let allowance = self.allowance(self.board.pipe()).get();
        (allowance / self.mss.get().max(1)).min(records as u64)
    }

    /// `count` full segments of new data leave, no more than
    /// [`full_segments`](Self::full_segments) said.
    pub fn on_sent_full(&mut self, count: u64, now: Instant) {
        if count == 0 {
            return;
        }
        let (start, idle) = (self.nxt(), self.is_idle());
        self.board
            .push_burst(count, self.mss, now, self.rate.delivered());
        self.rate
            .on_sent((start, self.nxt()), now, idle, || self.board.pipe());
        self.segments += count;
        self.last_sent_at = now;
        let bytes = self.mss * count;
        self.with_cc(now, |cc, view| cc.on_sent(bytes, view));
        if self.rto_at.is_none() {
            self.arm_rto(now);
        }
        self.arm_pto(now);
    }
}
