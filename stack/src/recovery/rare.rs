//! What few senders come to need: what losses leave behind, and what some configurations ask for.

use super::mtu_probe::MtuProbe;
use super::pacer::Pacer;
use super::scoreboard::AbsSeq;
use super::spurious::UndoRecord;
use super::stats::Counted;
use super::tlp::TlpEpisode;
use super::validation::Validation;
use crate::rng::Rng;
use crate::sparse::{Rarely, Sparse, begins};
use narrows_congestion::{Duration, Instant};

begins! {
    /// In a box of the [`Sender`](super::Sender) from its first change on.
    #[derive(Clone, Debug)]
    pub(super) struct Rare {
        pub(super) counted: Counted = Counted::NOTHING,
        /// How often a retransmission of what starts there was found lost other than by a timeout,
        /// while it was SND.UNA.
        pub(super) lost_again: u32 = 0,
        pub(super) lost_again_at: AbsSeq = 0,
        pub(super) undo: Option<UndoRecord> = None,
        pub(super) tlp: Option<TlpEpisode> = None,
        /// When the timer would have fired that the last retransmission restarted.
        pub(super) rto_before: Sparse<Instant> = Sparse::NONE,
        /// One past the highest sequence number ever retransmitted.
        pub(super) retransmitted_to: AbsSeq = 0,
        /// When the first of what [`Sender::fruitless`](super::Sender) counts was.
        pub(super) retrying_since: Instant = Instant::ZERO,
        /// When the present episode began, or within it the window was lowered again.
        pub(super) lowered_at: Instant = Instant::ZERO,
        /// SND.NXT when the window was last lowered: what of it lies below, that has answered for.
        pub(super) answered: AbsSeq = 0,
        /// Data beyond that is lost: the next window's loss, for which the window answers when the
        /// present episode is over (RFC 5681 section 4.3, RFC 6675 section 5).
        pub(super) lost_beyond: bool = false,
        pub(super) asked: Rarely<Asked> = Rarely::new(),
    }
}

begins! {
    /// What only some configurations ask for, and lost SYNs.
    #[derive(Clone, Debug)]
    pub(super) struct Asked {
        /// The RTO is at least this until the first RTT sample, after a SYN timeout (RFC 6298 section 5.7).
        pub(super) rto_floor: Duration = Duration::ZERO,
        /// No new data before this: a mark came for a window of one segment.
        pub(super) held_until: Instant = Instant::ZERO,
        /// From the first segment on that was paced.
        pub(super) pacer: Option<Box<Pacer>> = None,
        /// The connection's own random numbers, where the RTO is drawn.
        pub(super) rng: Option<Box<Rng>> = None,
        /// What is known of a window that is not used.
        pub(super) validation: Option<Box<Validation>> = None,
        /// A probe of the path's MTU.
        pub(super) mtu_probe: Option<Box<MtuProbe>> = None,
        /// Where the window counts packets: records on the scoreboard at most, whatever the window.
        pub(super) packets: Option<usize> = None,
    }
}

impl Asked {
    /// The next of the connection's random numbers.
    #[cold]
    pub(super) fn entropy(&mut self) -> u64 {
        self.rng.as_mut().map_or(0, |rng| rng.next_u64())
    }
}

/// Parts, where there are any; asking makes no box.
impl Rare {
    pub(super) fn undo(of: &mut Rarely<Self>) -> Option<&mut UndoRecord> {
        of.changed()?.undo.as_mut()
    }
    #[inline]
    pub(super) fn asked(of: &mut Rarely<Self>) -> Option<&mut Asked> {
        of.changed()?.asked.changed()
    }
    pub(super) fn validation(of: &mut Rarely<Self>) -> Option<&mut Validation> {
        Self::asked(of)?.validation.as_deref_mut()
    }

    /// A segment was paced.
    #[inline]
    pub(super) fn paces(&self) -> bool {
        (self.asked.as_changed()).is_some_and(|asked| asked.pacer.is_some())
    }
}
