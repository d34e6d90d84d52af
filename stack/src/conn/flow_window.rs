//! Flow control: the window we offer and the window we are offered (RFC 9293 section 3.8.6,
//! RFC 7323 section 2).

use crate::recovery::AbsSeq;
use crate::sparse::Thin;
use crate::wire::Seq;
use narrows_congestion::hint::cold_path;
use narrows_congestion::{ByteCount, Instant};
use std::fmt::Debug;

/// What decides how much of the free buffer is offered; for schemes like ICTCP that steer the
/// sender from the receiver's side.
pub trait ReceiveWindow: Debug + Send {
    /// The largest window to offer now, given `free` bytes of buffer. What is neither zero nor as
    /// much as one unit of the window scale (RFC 7323 section 2) counts as one: it could not be
    /// told, and the window would be closed.
    fn limit(&mut self, free: ByteCount, now: Instant) -> ByteCount;
    /// `bytes` of in-order data arrived.
    fn on_data(&mut self, bytes: ByteCount, now: Instant) {
        let _ = (bytes, now);
    }
}

/// The receiving side's window.
#[derive(Debug)]
pub(crate) struct OfferedWindow {
    /// What the buffer can have in bytes; no more than it was made for.
    pub(super) capacity: u64,
    /// The largest window that is ever offered.
    pub(super) clamp: u64,
    /// By how much the windows we offer are shifted, once that is negotiated.
    pub(super) shift: u8,
    /// Stream offset of the right edge last advertised, up to which data is acceptable; it moves left
    /// only when memory runs out.
    pub(super) right_edge: u64,
    policy: Option<Thin<dyn ReceiveWindow>>,
}

impl OfferedWindow {
    pub(crate) fn new(
        capacity: usize,
        clamp: Option<ByteCount>,
        policy: Option<Box<dyn ReceiveWindow>>,
    ) -> Self {
        let capacity = capacity as u64;
        Self {
            capacity,
            clamp: clamp.map_or(capacity, |c| c.get().min(capacity)),
            shift: 0,
            right_edge: 0,
            policy: policy.map(Box::new),
        }
    }

    /// `bytes` of in-order data arrived.
    #[inline]
    pub(crate) fn on_data(&mut self, bytes: u64, now: Instant) {
        if let Some(policy) = &mut self.policy {
            cold_path();
            policy.on_data(ByteCount::new(bytes), now);
        }
    }

    /// With RCV.NXT at stream offset `nxt` and the user having read up to `read`: how far the edge could
    /// move, not beyond what the field can say, and the most that there is to offer.
    #[inline]
    fn reach_and_ceiling(&mut self, nxt: u64, read: u64, now: Instant) -> (u64, u64) {
        let free = (read + self.capacity).saturating_sub(nxt.max(read));
        let limit = match &mut self.policy {
            Some(policy) => {
                cold_path();
                match policy.limit(ByteCount::new(free), now).get() {
                    0 => 0,
                    limit => limit.max(1 << self.shift).min(self.clamp),
                }
            }
            None => self.clamp,
        };
        let told = limit.min(u64::from(u16::MAX) << self.shift);
        (nxt + free.min(told), limit.min(self.capacity))
    }

    /// Silly-window avoidance (RFC 9293 section 3.8.6.2.2): the edge moves by a segment or half the
    /// buffer (of what there is to offer at most), or not at all; nor by less than can be told.
    #[inline]
    fn step(&self, mss: u64, ceiling: u64) -> u64 {
        mss.min(ceiling / 2).max(1 << self.shift)
    }

    /// The value of the window field, and the edge moves. `scaled`: not on a SYN. `mss` is worked out
    /// only where the edge could move, which for those who only send it never can.
    #[inline]
    pub(crate) fn advertise(
        &mut self,
        nxt: u64,
        read: u64,
        mss: impl FnOnce() -> u64,
        scaled: bool,
        now: Instant,
    ) -> u16 {
        let (reach, ceiling) = self.reach_and_ceiling(nxt, read, now);
        let mut edge = self.right_edge;
        if reach > edge && reach - edge >= self.step(mss(), ceiling) {
            edge = reach;
        }
        let shift = if scaled { self.shift } else { 0 };
        let window = edge.saturating_sub(nxt);
        // Rounding down must not take back what was offered, so round up; but not again and
        // again, or a peer that sends odd bytes to a user who does not read could fill any amount
        // of memory: never more than a granule beyond the buffer. There, the edge on the wire
        // moves left by less than a granule, and what was offered is still accepted
        // (RFC 7323 section 2.4).
        let mut field = window >> shift;
        if nxt + (field << shift) < self.right_edge
            && nxt + ((field + 1) << shift) < read + self.capacity + (1 << shift)
        {
            cold_path();
            field += 1;
        }
        let field = field.min(u64::from(u16::MAX));
        self.right_edge = self.right_edge.max(nxt + (field << shift));
        field as u16
    }

    /// Whether the window has opened enough, since it was last advertised, to tell the peer
    /// unasked.
    #[inline]
    pub(crate) fn update_is_due(
        &mut self,
        nxt: u64,
        read: u64,
        mss: impl FnOnce() -> u64,
        now: Instant,
    ) -> bool {
        let (reach, ceiling) = self.reach_and_ceiling(nxt, read, now);
        let offered = self.right_edge.saturating_sub(nxt);
        // As Linux: only a window that has run down to half and can double is worth a segment of
        // its own; a wide one goes with the acknowledgements, whose rhythm is not ours to set.
        if offered * 2 > ceiling {
            return false;
        }
        let gain = reach.saturating_sub(self.right_edge);
        gain >= self.step(mss(), ceiling) && gain >= offered
    }
}

/// The window the peer offers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendWindow {
    wnd: u32,
    max_wnd: u32,
    /// By how much the peer's windows are shifted: 14 at most (RFC 7323 section 2.3).
    pub(super) shift: u8,
    /// SND.WL1 and SND.WL2.
    wl1: Seq,
    wl2: AbsSeq,
}

impl SendWindow {
    /// SND.WND in bytes: less than 2^30.
    #[inline]
    pub(crate) fn wnd(&self) -> u64 {
        self.wnd.into()
    }

    /// The largest SND.WND seen (RFC 9293 section 3.8.6.2.1 and RFC 5961 section 5).
    #[inline]
    pub(crate) fn max_wnd(&self) -> u64 {
        self.max_wnd.into()
    }

    /// Take the window of a SYN (never scaled) or of the first segment of a synchronised peer.
    pub(crate) fn init(&mut self, field: u16, scaled: bool, seq: Seq, ack: AbsSeq) {
        self.wnd = u32::from(field) << if scaled { self.shift } else { 0 };
        self.max_wnd = self.max_wnd.max(self.wnd);
        self.wl1 = seq;
        self.wl2 = ack;
    }

    /// Take the window of an acceptable ACK unless the segment is older than the one the present
    /// window came from (RFC 9293 section 3.10.7.4). A retransmission is older by its sequence
    /// number, but one that acknowledges more was sent later. `true` if SND.WND changed.
    #[inline(always)] // Of each packet.
    pub(crate) fn update(&mut self, field: u16, seq: Seq, ack: AbsSeq) -> bool {
        let newer = self.wl2 < ack || self.wl1.before(seq) || (self.wl1 == seq && self.wl2 <= ack);
        if !newer {
            return false;
        }
        let wnd = u32::from(field) << self.shift;
        let changed = wnd != self.wnd;
        self.wnd = wnd;
        self.max_wnd = self.max_wnd.max(wnd);
        self.wl1 = self.wl1.max(seq);
        self.wl2 = ack;
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    const T: Instant = Instant::ZERO;

    #[test]
    fn the_right_edge_never_moves_left() {
        let mut w = OfferedWindow::new(100_000, None, None);
        w.shift = 2;
        assert_eq!(w.advertise(0, 0, || 1_000, true, T), 25_000);
        // 50,000 bytes came and were not read: the edge stays.
        assert_eq!(w.advertise(50_000, 0, || 1_000, true, T), 12_500);
        // An odd position: rounding must not withdraw offered bytes.
        let field = w.advertise(50_001, 0, || 1_000, true, T);
        assert!(50_001 + (u64::from(field) << 2) >= 100_000);
    }

    #[test]
    fn silly_windows_are_not_offered() {
        let mut w = OfferedWindow::new(10_000, None, None);
        assert_eq!(w.advertise(0, 0, || 1_000, true, T), 10_000);
        assert_eq!(w.advertise(10_000, 0, || 1_000, true, T), 0);
        // 999 bytes read: less than a segment.
        assert_eq!(w.advertise(10_000, 999, || 1_000, true, T), 0);
        assert!(!w.update_is_due(10_000, 999, || 1_000, T));
        assert!(w.update_is_due(10_000, 1_000, || 1_000, T));
        assert_eq!(w.advertise(10_000, 1_000, || 1_000, true, T), 1_000);
    }

    /// Where a unit of the scale is more than a segment: it would say what the last one said.
    #[test]
    fn an_update_that_cannot_be_told_is_not_due() {
        let mut w = OfferedWindow::new(1 << 30, None, None);
        w.shift = 14;
        assert_eq!(w.advertise(0, 0, || 536, true, T), u16::MAX);
        let full = 1 << 30;
        assert_eq!(w.advertise(full - (1 << 14), 0, || 536, true, T), 1);
        assert_eq!(w.advertise(full, 0, || 536, true, T), 0);
        assert!(!w.update_is_due(full, (1 << 14) - 1, || 536, T));
        assert!(w.update_is_due(full, 1 << 14, || 536, T));
        assert_eq!(w.advertise(full, 1 << 14, || 536, true, T), 1);
    }

    #[test]
    fn a_syn_window_is_not_scaled() {
        let mut w = OfferedWindow::new(1 << 20, None, None);
        w.shift = 5;
        assert_eq!(w.advertise(0, 0, || 1_460, false, T), u16::MAX);
        assert_eq!(w.right_edge, 65_535);
    }

    #[test]
    fn old_segments_do_not_update_the_window() {
        let mut w = SendWindow::default();
        w.init(100, false, Seq(10), 1);
        assert!(w.update(200, Seq(20), 1));
        assert!(!w.update(50, Seq(15), 1));
        assert!(!w.update(50, Seq(20), 0));
        assert!(w.update(50, Seq(20), 2));
        assert_eq!((w.wnd, w.max_wnd), (50, 200));
        assert!(w.update(40, Seq(12), 3), "it acknowledges more: sent later");
        assert!(!w.update(60, Seq(15), 3), "reordered");
    }
}
