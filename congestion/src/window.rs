//! The congestion window and what the RFC 5681 family does with it, so that an algorithm stays
//! short: byte-counted growth, the halving, the loss window, restart after idle, undo.

use crate::flow::{FlowStart, FlowView, Lower, Spurious};
use crate::rarely::Rarely;
use crate::units::ByteCount;

/// No window grows beyond this, 1 TiB: a thousand times what a scaled TCP window can use
/// (RFC 7323 section 2.2), small enough that no product of two windows overflows 128 bits.
pub const MAX_WINDOW: ByteCount = ByteCount::new(1 << 40);

/// `cwnd` and `ssthresh`, with the steps that Reno, CUBIC and DCTCP share.
///
/// `ssthresh` is at least two segments after any reduction (RFC 5681 equation 4), `cwnd` at
/// least one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)] // What each ACK touches comes first.
pub struct Window {
    cwnd: ByteCount,
    ssthresh: ByteCount,
    /// `bytes_acked` of RFC 3465 section 2.1: counted in congestion avoidance, not yet used.
    bytes_acked: ByteCount,
    undo: Rarely<Option<Undo>>,
}

/// The window before the last reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Undo {
    what: Spurious,
    cwnd: ByteCount,
    ssthresh: ByteCount,
}

/// What [`Window::undo`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// The window is again at least what it was before the reduction.
    Restored,
    /// There was no reduction of that kind to take back.
    Nothing,
}

impl Window {
    /// The window at the start of a flow (RFC 5681 section 3.1).
    pub fn new(start: &FlowStart) -> Self {
        Self {
            cwnd: start.initial_window.min(MAX_WINDOW).max(segment(start.mss)),
            ssthresh: start.initial_ssthresh,
            bytes_acked: ByteCount::ZERO,
            undo: Rarely::default(),
        }
    }

    /// The congestion window.
    #[inline]
    pub fn cwnd(&self) -> ByteCount {
        self.cwnd
    }

    /// The slow-start threshold.
    #[inline]
    pub fn ssthresh(&self) -> ByteCount {
        self.ssthresh
    }

    /// Whether `cwnd < ssthresh` (RFC 5681 section 3.1).
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Slow start by bytes: `cwnd += min(bytes, limit)` (RFC 5681 equation 2 with `limit` =
    /// SMSS, RFC 3465 section 2.2 with `limit` = L SMSS), up to `ssthresh`.
    ///
    /// Returns the part of `min(bytes, limit)` that was left over at `ssthresh`, which belongs
    /// to congestion avoidance.
    pub fn slow_start(&mut self, bytes: ByteCount, limit: ByteCount) -> ByteCount {
        let bytes = bytes.min(limit);
        let used = bytes.min(self.ssthresh - self.cwnd);
        self.grow(used);
        bytes - used
    }

    /// Congestion avoidance by bytes: one SMSS more for each `cwnd` bytes acknowledged, the
    /// remainder carried (RFC 3465 section 2.1). One ACK counts at most one `cwnd`, so growth
    /// is at most one SMSS per round trip whatever an ACK claims.
    pub fn congestion_avoidance(&mut self, bytes: ByteCount, mss: ByteCount) {
        self.bytes_acked += bytes.min(self.cwnd);
        if self.bytes_acked >= self.cwnd {
            self.bytes_acked -= self.cwnd;
            self.grow(segment(mss));
        }
    }

    /// `cwnd += bytes`, at most to [`MAX_WINDOW`].
    pub fn grow(&mut self, bytes: ByteCount) {
        self.cwnd = (self.cwnd + bytes).min(MAX_WINDOW.max(self.cwnd));
    }

    /// FlightSize for a reduction: without what limited transmit sent beyond the window
    /// (RFC 5681 section 3.2 step 2).
    pub fn flight(&self, flow: &FlowView<'_>) -> ByteCount {
        flow.flight_size.min(self.cwnd)
    }

    /// Leave slow start here: `ssthresh = cwnd` (RFC 9406 section 4.2).
    pub fn end_slow_start(&mut self) {
        self.ssthresh = self.cwnd;
    }

    /// Congestion: `ssthresh` becomes `target`, at least 2 SMSS (RFC 5681 equation 4 has
    /// `target` = FlightSize / 2), and `cwnd` comes down to it. What was is remembered for
    /// [`undo`](Self::undo).
    pub fn reduce(&mut self, target: ByteCount, flow: &FlowView<'_>) {
        self.remember(Spurious::FastRetransmit);
        self.ssthresh = target.max(segment(flow.mss) * 2);
        self.lower_cwnd(self.ssthresh, flow.mss);
    }

    /// A timeout, the `consecutive`-th in a row: `cwnd` becomes the loss window of one segment;
    /// the first also sets `ssthresh` to `target`, at least 2 SMSS (RFC 5681 section 3.1).
    ///
    /// `ssthresh` stays at or below the old `cwnd`: a timeout within fast recovery, with the
    /// flight still that of before the halving, must not take the halving back.
    pub fn timeout(&mut self, consecutive: u32, target: ByteCount, flow: &FlowView<'_>) {
        if consecutive <= 1 {
            self.remember(Spurious::Timeout);
            self.ssthresh = target.min(self.cwnd).max(segment(flow.mss) * 2);
        }
        self.cwnd = segment(flow.mss);
        self.bytes_acked = ByteCount::ZERO;
    }

    /// Take back the last reduction if it was of the kind `what`, once. `cwnd` and `ssthresh`
    /// never fall by it (RFC 4015 section 3.2, RFC 9438 section 4.9).
    pub fn undo(&mut self, what: Spurious) -> Undone {
        match *self.undo {
            Some(u) if u.what == what => {
                self.cwnd = self.cwnd.max(u.cwnd);
                self.ssthresh = self.ssthresh.max(u.ssthresh);
                *self.undo = None;
                Undone::Restored
            }
            _ => Undone::Nothing,
        }
    }

    /// The last reduction was well founded (an ECN mark cannot be spurious): nothing to undo.
    pub fn forget_undo(&mut self) {
        if self.undo.is_some() {
            *self.undo = None;
        }
    }

    /// The window comes [down](Lower) to `to`. One that was not used leaves its memory in
    /// `ssthresh`, which never falls by it: at least 3/4 of what it was (RFC 2861 section 3.2,
    /// RFC 7661 section 4.4.3). One that met congestion takes `ssthresh` with it, to two segments
    /// at least (RFC 7661 section 4.4.1, RFC 5681 equation 4). Any other comes down alone.
    pub fn lower(&mut self, to: ByteCount, why: Lower, mss: ByteCount) {
        if why == Lower::Unused {
            self.ssthresh = self.ssthresh.max(self.cwnd.mul_ratio(3, 4));
        }
        self.lower_cwnd(to, mss);
        if why == Lower::Exceeded {
            self.ssthresh = self.cwnd.max(segment(mss) * 2);
        }
    }

    /// `cwnd` comes down to `to`, at least one segment; it never rises by it, except to one
    /// segment.
    pub fn lower_cwnd(&mut self, to: ByteCount, mss: ByteCount) {
        self.cwnd = self.cwnd.min(to).max(segment(mss));
        self.bytes_acked = ByteCount::ZERO;
    }

    /// The segment size changed from `was` to `mss`. The window keeps its number of segments where
    /// they become smaller, so that no burst of small ones leaves (RFC 5681 section 3.1), and its
    /// bytes where they become larger; it holds at least one segment, and `ssthresh` at least two.
    pub fn on_mss_change(&mut self, was: ByteCount, mss: ByteCount) {
        if mss < was {
            self.lower_cwnd(self.cwnd.mul_ratio(mss.get(), was.get()), mss);
        }
        self.cwnd = self.cwnd.max(segment(mss));
        self.ssthresh = self.ssthresh.max(segment(mss) * 2);
    }

    fn remember(&mut self, what: Spurious) {
        *self.undo = Some(Undo {
            what,
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
        });
    }
}

/// A segment size that can be divided by and multiplied with: 1 byte to 1 GiB.
pub(crate) fn segment(mss: ByteCount) -> ByteCount {
    mss.clamp(ByteCount::new(1), ByteCount::new(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RttEstimator;
    use crate::units::Instant;

    const MSS: ByteCount = ByteCount::new(1_000);

    fn window(cwnd: u64, ssthresh: u64) -> Window {
        let mut start = FlowStart::new(MSS, ByteCount::new(cwnd));
        start.initial_ssthresh = ByteCount::new(ssthresh);
        Window::new(&start)
    }

    fn flow(est: &RttEstimator, flight: u64) -> FlowView<'_> {
        let mut f = FlowView::new(Instant::ZERO, MSS, est);
        f.flight_size = ByteCount::new(flight);
        f
    }

    #[test]
    fn slow_start_is_limited_and_stops_at_ssthresh() {
        let mut w = window(10_000, 12_500);
        assert_eq!(
            w.slow_start(ByteCount::new(8_000), MSS * 2),
            ByteCount::ZERO
        );
        assert_eq!(w.cwnd(), ByteCount::new(12_000));
        assert_eq!(
            w.slow_start(ByteCount::new(8_000), MSS * 2),
            ByteCount::new(1_500)
        );
        assert_eq!(w.cwnd(), ByteCount::new(12_500));
        assert!(!w.in_slow_start());
    }

    /// RFC 3465 section 2.1: exactly one SMSS per window, whatever the ACKs' sizes.
    #[test]
    fn congestion_avoidance_carries_the_remainder() {
        let mut w = window(10_000, 1);
        for _ in 0..9_999 {
            w.congestion_avoidance(ByteCount::new(1), MSS);
        }
        assert_eq!(w.cwnd(), ByteCount::new(10_000));
        w.congestion_avoidance(ByteCount::new(1), MSS);
        assert_eq!(w.cwnd(), ByteCount::new(11_000));
        w.congestion_avoidance(ByteCount::MAX, MSS);
        assert_eq!(w.cwnd(), ByteCount::new(12_000));
        // 15,000 bytes pass 12,000, the 3,000 left over and 10,000 more reach 13,000.
        let mut w = window(12_000, 1);
        for cwnd in [12_000, 12_000, 13_000, 13_000, 14_000] {
            w.congestion_avoidance(ByteCount::new(5_000), MSS);
            assert_eq!(w.cwnd(), ByteCount::new(cwnd));
        }
    }

    /// RFC 5681 equation 4, and the loss window.
    #[test]
    fn timeouts_lower_ssthresh_once() {
        let est = RttEstimator::new();
        let mut w = window(20_000, u64::MAX);
        w.timeout(1, ByteCount::new(10_000), &flow(&est, 20_000));
        assert_eq!((w.cwnd(), w.ssthresh()), (MSS, MSS * 10));
        w.timeout(2, MSS, &flow(&est, 20_000));
        assert_eq!((w.cwnd(), w.ssthresh()), (MSS, MSS * 10));
        assert_eq!(w.undo(Spurious::FastRetransmit), Undone::Nothing);
        assert_eq!(w.undo(Spurious::Timeout), Undone::Restored);
        assert_eq!((w.cwnd(), w.ssthresh()), (MSS * 20, ByteCount::MAX));
        assert_eq!(w.undo(Spurious::Timeout), Undone::Nothing);
    }

    /// RFC 5681 section 3.1: the number of segments stays where they become smaller.
    #[test]
    fn smaller_segments_shrink_the_window_and_larger_ones_do_not() {
        let mut w = window(20_000, 8_000);
        w.on_mss_change(MSS, MSS / 4);
        assert_eq!((w.cwnd(), w.ssthresh()), (MSS * 5, MSS * 8));
        w.on_mss_change(MSS / 4, MSS);
        assert_eq!(w.cwnd(), MSS * 5);
        w.on_mss_change(MSS, MSS * 9);
        assert_eq!((w.cwnd(), w.ssthresh()), (MSS * 9, MSS * 18));
    }

    /// RFC 2861 section 3.2: halving leaves three quarters in ssthresh, which never falls.
    #[test]
    fn an_unused_window_is_remembered_by_ssthresh() {
        for (ssthresh, after) in [(8_000, 15_000), (18_000, 18_000), (u64::MAX, u64::MAX)] {
            let mut w = window(20_000, ssthresh);
            w.lower(MSS * 10, Lower::Unused, MSS);
            assert_eq!((w.cwnd(), w.ssthresh().get()), (MSS * 10, after));
        }
        let mut w = window(20_000, 8_000);
        w.lower(MSS * 30, Lower::Unused, MSS);
        assert_eq!(w.cwnd(), MSS * 20, "never up");
        let nothing = ByteCount::ZERO;
        w.lower(nothing, Lower::Unused, MSS);
        assert_eq!(w.cwnd(), MSS);
    }

    /// RFC 7661 section 4.4.1: at least one segment, and ssthresh equals cwnd but for its floor.
    #[test]
    fn a_window_that_was_exceeded_takes_ssthresh_along() {
        for (to, cwnd, ssthresh) in [(6, 6, 6), (1, 1, 2), (0, 1, 2), (30, 20, 20)] {
            let mut w = window(20_000, 90_000);
            w.lower(MSS * to, Lower::Exceeded, MSS);
            assert_eq!((w.cwnd(), w.ssthresh()), (MSS * cwnd, MSS * ssthresh));
        }
    }

    #[test]
    fn a_timeout_in_recovery_does_not_raise_ssthresh() {
        let est = RttEstimator::new();
        let mut w = window(20_000, u64::MAX);
        let f = flow(&est, 22_000);
        assert_eq!(w.flight(&f), MSS * 20);
        w.reduce(w.flight(&f) / 2, &f);
        assert_eq!((w.cwnd(), w.ssthresh()), (MSS * 10, MSS * 10));
        w.timeout(1, f.flight_size / 2, &f);
        assert_eq!((w.cwnd(), w.ssthresh()), (MSS, MSS * 10));
    }

    #[test]
    fn a_reduction_never_raises_a_small_window() {
        let est = RttEstimator::new();
        let mut w = window(1_000, u64::MAX);
        w.reduce(ByteCount::ZERO, &flow(&est, 1_000));
        assert_eq!((w.cwnd(), w.ssthresh()), (MSS, MSS * 2));
    }
}
