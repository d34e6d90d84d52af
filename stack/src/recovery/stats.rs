//! What a sender counts.

macro_rules! counters {
    (
        $($(#[$what:meta])* pub $counter:ident: u64 in $kept:ty,)*
        others $($(#[$is:meta])* pub $other:ident: u64,)*
    ) => {
        /// Counters of the sender.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct SenderStats {
            $($(#[$what])* pub $counter: u64,)*
            $($(#[$is])* pub $other: u64,)*
        }

        impl SenderStats {
            /// What was counted since `earlier`, which are counters of the same sender.
            pub fn since(&self, earlier: &Self) -> Self {
                Self {
                    $($counter: self.$counter.saturating_sub(earlier.$counter),)*
                    $($other: self.$other.saturating_sub(earlier.$other),)*
                }
            }
        }

        /// What is kept of [`SenderStats`]: in half as many bytes what no connection does four
        /// thousand million times, since a round trip or a millisecond passes between any two.
        #[derive(Clone, Debug)]
        pub(super) struct Counted {
            $(pub(super) $counter: $kept,)*
        }

        impl Counted {
            pub(super) const NOTHING: Self = Self { $($counter: 0),* };

            /// These, and zero for the others.
            pub(super) fn told(&self) -> SenderStats {
                SenderStats { $($counter: self.$counter.into(),)* ..SenderStats::default() }
            }
        }
    };
}

counters! {
    /// Retransmitted segments, those that the local device refused left out.
    pub retransmits: u64 in u64,
    /// Retransmitted bytes.
    pub retransmitted_bytes: u64 in u64,
    /// Times the retransmission timer fired with data outstanding.
    pub timeouts: u64 in u32,
    /// Timeouts with the whole window lost.
    pub timeouts_full_window: u64 in u32,
    /// Timeouts because the tail of the window was lost.
    pub timeouts_tail: u64 in u32,
    /// Timeouts because a retransmission was lost.
    pub timeouts_retransmission: u64 in u32,
    /// Fast recoveries entered.
    pub fast_recoveries: u64 in u64,
    /// Times that the loss of a retransmission lowered the window again (RFC 5681 section 4.3).
    pub lost_again: u64 in u32,
    /// Reductions because of ECN.
    pub ecn_reductions: u64 in u64,
    /// Segments that the loss detector declared lost, in bytes.
    pub lost_bytes: u64 in u64,
    /// Tail-loss probes sent.
    pub tail_loss_probes: u64 in u32,
    /// Reductions undone.
    pub undone: u64 in u32,
    /// Bytes whose ACK reported a congestion mark.
    pub ce_bytes: u64 in u64,
    others
    /// Segments refused by the local device, each time that they were.
    pub local_drops: u64,
    /// Data segments sent, retransmissions included, those that the local device refused left out.
    pub segments: u64,
}
