//! What a sender counts.

/// Counters of the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SenderStats {
    /// Retransmitted segments, those that the local device refused left out.
    pub retransmits: u64,
    /// Retransmitted bytes.
    pub retransmitted_bytes: u64,
    /// Times the retransmission timer fired with data outstanding.
    pub timeouts: u64,
    /// Timeouts with the whole window lost.
    pub timeouts_full_window: u64,
    /// Timeouts because the tail of the window was lost.
    pub timeouts_tail: u64,
    /// Timeouts because a retransmission was lost.
    pub timeouts_retransmission: u64,
    /// Fast recoveries entered.
    pub fast_recoveries: u64,
    /// Times that the loss of a retransmission lowered the window again (RFC 5681 section 4.3).
    pub lost_again: u64,
    /// Reductions because of ECN.
    pub ecn_reductions: u64,
    /// Segments that the loss detector declared lost, in bytes.
    pub lost_bytes: u64,
    /// Tail-loss probes sent.
    pub tail_loss_probes: u64,
    /// Reductions undone.
    pub undone: u64,
    /// Segments refused by the local device, each time that they were.
    pub local_drops: u64,
    /// Bytes whose ACK reported a congestion mark.
    pub ce_bytes: u64,
    /// Data segments sent, retransmissions included, those that the local device refused left out.
    pub segments: u64,
}

/// What is kept of [`SenderStats`]: in half as many bytes what no connection does four thousand
/// million times, since a round trip or a millisecond passes between any two.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    pub(super) retransmits: u64,
    pub(super) retransmitted_bytes: u64,
    pub(super) fast_recoveries: u64,
    pub(super) ecn_reductions: u64,
    pub(super) lost_bytes: u64,
    pub(super) ce_bytes: u64,
    pub(super) timeouts: u32,
    pub(super) timeouts_full_window: u32,
    pub(super) timeouts_tail: u32,
    pub(super) timeouts_retransmission: u32,
    pub(super) lost_again: u32,
    pub(super) tail_loss_probes: u32,
    pub(super) undone: u32,
}

impl Counted {
    pub(super) const NOTHING: Self = Self {
        retransmits: 0,
        retransmitted_bytes: 0,
        fast_recoveries: 0,
        ecn_reductions: 0,
        lost_bytes: 0,
        ce_bytes: 0,
        timeouts: 0,
        timeouts_full_window: 0,
        timeouts_tail: 0,
        timeouts_retransmission: 0,
        lost_again: 0,
        tail_loss_probes: 0,
        undone: 0,
    };

    /// These, and zero for the others.
    pub(super) fn told(&self) -> SenderStats {
        SenderStats {
            retransmits: self.retransmits,
            retransmitted_bytes: self.retransmitted_bytes,
            timeouts: self.timeouts.into(),
            timeouts_full_window: self.timeouts_full_window.into(),
            timeouts_tail: self.timeouts_tail.into(),
            timeouts_retransmission: self.timeouts_retransmission.into(),
            fast_recoveries: self.fast_recoveries,
            lost_again: self.lost_again.into(),
            ecn_reductions: self.ecn_reductions,
            lost_bytes: self.lost_bytes,
            tail_loss_probes: self.tail_loss_probes.into(),
            undone: self.undone.into(),
            ce_bytes: self.ce_bytes,
            ..SenderStats::default()
        }
    }
}

impl SenderStats {
    /// What was counted since `earlier`, which are counters of the same sender.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            retransmits: self.retransmits.saturating_sub(earlier.retransmits),
            retransmitted_bytes: self
                .retransmitted_bytes
                .saturating_sub(earlier.retransmitted_bytes),
            timeouts: self.timeouts.saturating_sub(earlier.timeouts),
            timeouts_full_window: self
                .timeouts_full_window
                .saturating_sub(earlier.timeouts_full_window),
            timeouts_tail: self.timeouts_tail.saturating_sub(earlier.timeouts_tail),
            timeouts_retransmission: self
                .timeouts_retransmission
                .saturating_sub(earlier.timeouts_retransmission),
            fast_recoveries: self.fast_recoveries.saturating_sub(earlier.fast_recoveries),
            lost_again: self.lost_again.saturating_sub(earlier.lost_again),
            ecn_reductions: self.ecn_reductions.saturating_sub(earlier.ecn_reductions),
            lost_bytes: self.lost_bytes.saturating_sub(earlier.lost_bytes),
            tail_loss_probes: self
                .tail_loss_probes
                .saturating_sub(earlier.tail_loss_probes),
            undone: self.undone.saturating_sub(earlier.undone),
            local_drops: self.local_drops.saturating_sub(earlier.local_drops),
            ce_bytes: self.ce_bytes.saturating_sub(earlier.ce_bytes),
            segments: self.segments.saturating_sub(earlier.segments),
        }
    }
}
