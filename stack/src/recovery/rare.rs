//! What few senders come to need: what losses leave behind, and what some configurations ask for.

use super::mtu_probe::MtuProbe;
use super::pacer::Pacer;
use super::packets::PacketCount;
use super::scoreboard::AbsSeq;
use super::spurious::UndoRecord;
use super::stats::Counted;
use super::tlp::TlpEpisode;
use super::validation::Validation;
use crate::rng::Rng;
use crate::sparse::{Begins, Rarely, Sparse};
use narrows_congestion::{Duration, Instant};

/// In a box of the [`Sender`](super::Sender) from its first change on.
#[derive(Clone, Debug)]
pub(super) struct Rare {
    pub(super) counted: Counted,
    /// How often a retransmission of what starts there was found lost other than by a timeout,
    /// while it was SND.UNA.
    pub(super) lost_again: u32,
    pub(super) lost_again_at: AbsSeq,
    pub(super) undo: Option<UndoRecord>,
    pub(super) tlp: Option<TlpEpisode>,
    /// When the timer would have fired that the last retransmission restarted.
    pub(super) rto_before: Sparse<Instant>,
    /// One past the highest sequence number ever retransmitted.
    pub(super) retransmitted_to: AbsSeq,
    /// When the first of what [`Sender::fruitless`](super::Sender) counts was.
    pub(super) retrying_since: Instant,
    /// When the present episode began, or within it the window was lowered again.
    pub(super) lowered_at: Instant,
    /// SND.NXT when the window was last lowered: what of it lies below, that has answered for.
    pub(super) answered: AbsSeq,
    pub(super) asked: Rarely<Asked>,
}

/// What only some configurations ask for, and lost SYNs.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The RTO is at least this until the first RTT sample, after a SYN timeout (RFC 6298 section 5.7).
    pub(super) rto_floor: Duration,
    /// No new data before this: a mark came for a window of one segment.
    pub(super) held_until: Instant,
    /// From the first segment on that was paced.
    pub(super) pacer: Option<Box<Pacer>>,
    /// The connection's own random numbers, where the RTO is drawn.
    pub(super) rng: Option<Box<Rng>>,
    /// What is known of a window that is not used.
    pub(super) validation: Option<Box<Validation>>,
    /// A probe of the path's MTU.
    pub(super) mtu_probe: Option<Box<MtuProbe>>,
    /// Where the window counts packets.
    pub(super) packets: Option<Box<PacketCount>>,
}

impl Begins for Rare {
    const BEGINNING: &'static Self = &Self {
        counted: Counted::NOTHING,
        lost_again: 0,
        lost_again_at: 0,
        undo: None,
        tlp: None,
        rto_before: Sparse::NONE,
        retransmitted_to: 0,
        retrying_since: Instant::ZERO,
        lowered_at: Instant::ZERO,
        answered: 0,
        asked: Rarely::new(),
    };
}

impl Begins for Asked {
    const BEGINNING: &'static Self = &Self {
        rto_floor: Duration::ZERO,
        held_until: Instant::ZERO,
        pacer: None,
        rng: None,
        validation: None,
        mtu_probe: None,
        packets: None,
    };
}

/// Parts, where there are any; asking makes no box.
impl Rare {
    pub(super) fn undo(of: &mut Rarely<Self>) -> Option<&mut UndoRecord> {
        of.changed()?.undo.as_mut()
    }
    pub(super) fn pacer(of: &mut Rarely<Self>) -> Option<&mut Pacer> {
        of.changed()?.asked.changed()?.pacer.as_deref_mut()
    }
    pub(super) fn validation(of: &mut Rarely<Self>) -> Option<&mut Validation> {
        of.changed()?.asked.changed()?.validation.as_deref_mut()
    }
    pub(super) fn mtu_probe(of: &mut Rarely<Self>) -> Option<&mut MtuProbe> {
        of.changed()?.asked.changed()?.mtu_probe.as_deref_mut()
    }
    pub(super) fn packets(of: &mut Rarely<Self>) -> Option<&mut PacketCount> {
        of.changed()?.asked.changed()?.packets.as_deref_mut()
    }

    pub(super) fn forget_mtu_probe(of: &mut Rarely<Self>) {
        if let Some(rare) = of.changed() {
            rare.asked.clear(|asked| &mut asked.mtu_probe);
        }
    }

    /// A segment was paced.
    #[inline]
    pub(super) fn paces(&self) -> bool {
        (self.asked.as_changed()).is_some_and(|asked| asked.pacer.is_some())
    }
}
