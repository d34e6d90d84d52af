//! The cache lines of the scoreboard that an ACK touches.

use super::{Scoreboard, SentSegment};

impl Scoreboard {
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
}
