//! What few connections come to need.

use crate::endpoint::challenge::ConnectionBudget;
use crate::recovery::AbsSeq;
use crate::sparse::{Begins, Sparse};
use crate::wire::Seq;
use crate::wire::icmp::IcmpErrorKind;
use narrows_congestion::{ByteCount, Instant};

/// In a box of the [`Connection`](super::Connection) from its first change on.
#[derive(Clone, Debug)]
pub(super) struct Rare {
    pub(super) reset_due: Option<Seq>,
    pub(super) challenge: Option<ConnectionBudget>,
    /// Where a byte was sent into the closed window.
    pub(super) probe_sent: Sparse<AbsSeq>,
    /// When the next segment may leave that is paced.
    pub(super) pace_at: Sparse<Instant>,
    /// SND.UP: urgent data ends here.
    pub(super) snd_up: Sparse<AbsSeq>,
    /// What is queued up to here leaves though the user holds back what is not a full segment.
    pub(super) pushed_to: Sparse<AbsSeq>,
    /// RCV.UP.
    pub(super) rcv_up: Option<u64>,
    /// Remembered of an earlier connection to the peer.
    pub(super) initial_ssthresh: Option<ByteCount>,
    /// The last that a router or the peer's host complained of.
    pub(super) last_icmp: Option<IcmpErrorKind>,
}

impl Begins for Rare {
    const BEGINNING: &'static Self = &Self {
        reset_due: None,
        challenge: None,
        probe_sent: Sparse::NONE,
        pace_at: Sparse::NONE,
        snd_up: Sparse::NONE,
        pushed_to: Sparse::NONE,
        rcv_up: None,
        initial_ssthresh: None,
        last_icmp: None,
    };
}
