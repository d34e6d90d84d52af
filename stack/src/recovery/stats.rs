//! What a sender counts.

/// Counters of the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SenderStats {
    /// Retransmitted segments.
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
    /// Segments refused by the local device.
    pub local_drops: u64,
    /// Bytes whose ACK reported a congestion mark.
    pub ce_bytes: u64,
    /// Data segments sent, retransmissions included.
    pub segments: u64,
}
