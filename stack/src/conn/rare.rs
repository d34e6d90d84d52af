//! What few connections come to need.

use crate::endpoint::challenge::ConnectionBudget;
use crate::recovery::AbsSeq;
use crate::sparse::{Sparse, begins};
use crate::wire::Seq;
use crate::wire::icmp::IcmpErrorKind;
use narrows_congestion::{ByteCount, Instant};

begins! {
    /// In a box of the [`Connection`](super::Connection) from its first change on.
    #[derive(Clone, Debug)]
    pub(super) struct Rare {
        pub(super) reset_due: Option<Seq> = None,
        pub(super) challenge: Option<ConnectionBudget> = None,
        /// Where a byte was sent into the closed window.
        pub(super) probe_sent: Sparse<AbsSeq> = Sparse::NONE,
        /// When the next segment may leave that is paced.
        pub(super) pace_at: Sparse<Instant> = Sparse::NONE,
        /// SND.UP: urgent data ends here.
        pub(super) snd_up: Sparse<AbsSeq> = Sparse::NONE,
        /// What is queued up to here leaves though the user holds back what is not a full segment.
        pub(super) pushed_to: Sparse<AbsSeq> = Sparse::NONE,
        /// RCV.UP.
        pub(super) rcv_up: Option<u64> = None,
        /// Remembered of an earlier connection to the peer.
        pub(super) initial_ssthresh: Option<ByteCount> = None,
        /// The last that a router or the peer's host complained of.
        pub(super) last_icmp: Option<IcmpErrorKind> = None,
    }
}
