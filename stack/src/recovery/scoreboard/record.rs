//! A record in half a cache line.
//!
//! Records lie one after the other from SND.UNA on, and a window is less than 2^31 bytes
//! (RFC 7323 section 2.3), so 32 bits tell where one starts.

use super::{AbsSeq, SentSegment};
use narrows_congestion::Instant;

/// What is known of one record; see the [module](super) for the transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Sent once (or judged not lost after all).
    Sent,
    /// Sent again without being lost: a tail loss probe, on suspicion (rule 3 of RFC 6675's
    /// `NextSeg`), or by a recovery that was undone. Both copies count as in flight.
    Probed,
    /// Lost, not yet sent again.
    Lost,
    /// Lost, and a retransmission is in flight.
    Resent,
    /// The peer has it (RFC 2018).
    Sacked,
}

/// What the scoreboard keeps of a [`SentSegment`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// When it was last transmitted.
    pub(super) sent_at: Instant,
    /// Its first sequence number, modulo 2^32.
    pub(super) start: u32,
    /// [`SentSegment::delivered`].
    pub(super) delivered: u32,
    /// The list neighbours; in a SACKed record `next` jumps to a later record such that all
    /// between are SACKed.
    pub(super) prev: u32,
    pub(super) next: u32,
    /// [`SentSegment::order`].
    pub(super) order: u32,
    /// The sequence space it takes: no packet has more, whatever the path's MTU.
    pub(super) len: u16,
    /// How often it was sent, and whether it [is absent](Self::is_absent).
    pub(super) sent: u8,
    pub(super) mark: Mark,
}

const TIMES: u8 = 127;
const ABSENT: u8 = 128;

impl Record {
    /// How often it was sent; stays at 127.
    #[inline]
    pub(super) fn transmissions(&self) -> u8 {
        self.sent & TIMES
    }

    /// It is sent once more.
    #[inline]
    pub(super) fn count_transmission(&mut self) {
        if self.transmissions() < TIMES {
            self.sent += 1;
        }
    }

    /// Lost because it never left or cannot pass: no evidence will say that it was not. If it is
    /// sent again, that is the only copy.
    pub(super) fn is_absent(&self) -> bool {
        self.sent & ABSENT != 0
    }

    pub(super) fn set_absent(&mut self, is: bool) {
        self.sent = self.sent & !ABSENT | if is { ABSENT } else { 0 };
    }

    /// One past its last sequence number, if `start` is its first.
    #[inline]
    pub(super) fn end(&self, start: AbsSeq) -> AbsSeq {
        start + u64::from(self.len)
    }

    /// All of it that is told, if `start` is its first sequence number.
    #[inline]
    pub(super) fn view(&self, start: AbsSeq) -> SentSegment {
        SentSegment {
            start,
            end: self.end(start),
            sent_at: self.sent_at,
            delivered: self.delivered,
            order: self.order,
            mark: self.mark,
            transmissions: self.transmissions(),
        }
    }
}
