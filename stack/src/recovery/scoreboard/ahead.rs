//! Looking ahead: the cache lines of the scoreboard that an ACK or a timeout touches.

use super::{Scoreboard, SentSegment};
use crate::prefetch::{prefetch, prefetch_span};
use std::mem::offset_of;

impl Scoreboard {
    /// So many bytes from the start are what any segment touches: whether there is anything on it.
    pub(crate) const ASKED: usize = offset_of!(Self, base);

    /// So many are what each ACK touches.
    pub(crate) const TOUCHED: usize = size_of::<Self>();

    /// Reads a word of each cache line that an ACK of new data touches, as
    /// [`Sender::bring_in`](crate::recovery::Sender::bring_in).
    #[inline]
    pub(in crate::recovery) fn bring_in(&self) -> u64 {
        let of = |record: Option<&SentSegment>| record.map_or(0, |r| r.start);
        self.una
            ^ self.holes.reno_bytes
            ^ u64::from(self.base)
            ^ of(self.records.front())
            ^ of(self.records.back())
    }

    /// Asks for the records that an ACK of new data touches: the first, the last, and the place
    /// behind it.
    #[inline]
    pub(crate) fn prefetch(&self) {
        if let (Some(first), Some(last)) = (self.records.front(), self.records.back()) {
            prefetch(first);
            prefetch_span(last, 2 * size_of::<SentSegment>());
        }
    }

    /// Asks for the records that a timeout marks: all, if they are few.
    #[inline]
    pub(crate) fn prefetch_all(&self) {
        prefetch(&*self.holes);
        let (first, others) = self.records.as_slices();
        for part in [first, others] {
            if let Some(record) = part.first() {
                prefetch_span(record, part.len().min(8) * size_of::<SentSegment>());
            }
        }
    }
}
