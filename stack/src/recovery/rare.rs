//! What few senders come to need: what losses leave behind, and what some configurations ask for.

use super::mtu_probe::MtuProbe;
use super::pacer::Pacer;
use super::packets::PacketCount;
use super::scoreboard::AbsSeq;
use super::spurious::UndoRecord;
use super::tlp::TlpEpisode;
use super::validation::Validation;
use crate::rng::Rng;
use crate::sparse::{Begins, Rarely, Sparse};
use narrows_congestion::{Duration, Instant};

/// In a box of the [`Sender`](super::Sender) from its first change on.
#[derive(Clone, Debug)]
pub(super) struct Rare {
    pub(super) tlp: Option<TlpEpisode>,
    pub(super) undo: Option<Box<UndoRecord>>,
    /// When the timer would have fired that the last retransmission restarted.
    pub(super) rto_before: Sparse<Instant>,
    /// No new data before this: a mark came for a window of one segment.
    pub(super) held_until: Instant,
    /// One past the highest sequence number ever retransmitted.
    pub(super) retransmitted_to: AbsSeq,
    /// From the first segment on that was paced.
    pub(super) pacer: Option<Box<Pacer>>,
    /// From the first number on that was drawn.
    pub(super) rng: Option<Box<Rng>>,
    /// The RTO is at least this until the first RTT sample, after a SYN timeout (RFC 6298 section 5.7).
    pub(super) rto_floor: Duration,
    /// When the first of what [`Sender::fruitless`](super::Sender) counts was.
    pub(super) retrying_since: Instant,
    /// How often a retransmission of what starts here was found lost other than by a timeout,
    /// while it was SND.UNA.
    pub(super) first_lost_again: (AbsSeq, u32),
    /// When the present episode began, or within it the window was lowered again.
    pub(super) lowered_at: Instant,
    /// SND.NXT when the window was last lowered: what of it lies below, that has answered for.
    pub(super) answered: AbsSeq,
    /// What is known of a window that is not used, where the configuration asks.
    pub(super) validation: Option<Box<Validation>>,
    /// A probe of the path's MTU.
    pub(super) mtu_probe: Option<Box<MtuProbe>>,
    /// Where the window counts packets.
    pub(super) packets: Option<Box<PacketCount>>,
}

impl Begins for Rare {
    const BEGINNING: &'static Self = &Self {
        tlp: None,
        undo: None,
        rto_before: Sparse::NONE,
        held_until: Instant::ZERO,
        retransmitted_to: 0,
        pacer: None,
        rng: None,
        rto_floor: Duration::ZERO,
        retrying_since: Instant::ZERO,
        first_lost_again: (0, 0),
        lowered_at: Instant::ZERO,
        answered: 0,
        validation: None,
        mtu_probe: None,
        packets: None,
    };
}

/// Parts, where there are any; asking makes no box.
impl Rare {
    pub(super) fn undo(of: &mut Rarely<Self>) -> Option<&mut UndoRecord> {
        of.changed()?.undo.as_deref_mut()
    }
    pub(super) fn pacer(of: &mut Rarely<Self>) -> Option<&mut Pacer> {
        of.changed()?.pacer.as_deref_mut()
    }
    pub(super) fn validation(of: &mut Rarely<Self>) -> Option<&mut Validation> {
        of.changed()?.validation.as_deref_mut()
    }
    pub(super) fn mtu_probe(of: &mut Rarely<Self>) -> Option<&mut MtuProbe> {
        of.changed()?.mtu_probe.as_deref_mut()
    }
    pub(super) fn packets(of: &mut Rarely<Self>) -> Option<&mut PacketCount> {
        of.changed()?.packets.as_deref_mut()
    }
}
