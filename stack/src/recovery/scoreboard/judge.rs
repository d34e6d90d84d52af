//! Which records are lost.

use super::{AbsSeq, Mark, Scoreboard, SentSegment};
use crate::sparse::Sparse;
use narrows_congestion::{ByteCount, Instant};

/// What a detector has judged lost.
#[derive(Clone, Copy, Debug)]
pub(in crate::recovery) struct Judged {
    /// When the retransmission left that was made last of those judged; nothing if only segments
    /// sent once were.
    pub(in crate::recovery) retransmission: Sparse<Instant>,
    /// One past the highest sequence number judged.
    pub(in crate::recovery) end: AbsSeq,
    /// The first record is one of those retransmissions: SND.UNA waits for another.
    pub(in crate::recovery) first_again: bool,
}

impl Judged {
    pub(super) const NOTHING: Self = Self {
        retransmission: Sparse::NONE,
        end: 0,
        first_again: false,
    };
}

impl Scoreboard {
    /// Judges the record starting at `start` lost; a retransmission of it no longer counts as
    /// in flight. False if nothing changed: no such record, SACKed, or lost and waiting.
    pub fn mark_lost(&mut self, start: AbsSeq) -> bool {
        match self.find(start) {
            Some(index) if !matches!(self.records[index].mark, Mark::Sacked | Mark::Lost) => {
                self.judge(index, Mark::Lost);
                true
            }
            _ => false,
        }
    }

    /// The records from the one that starts at `start` to `end` cannot pass: they are lost whatever
    /// is undone.
    pub(in crate::recovery) fn mark_all_absent(&mut self, mut start: AbsSeq, end: AbsSeq) {
        while start < end {
            self.mark_absent(start);
            start = self.get(start).map_or(end, |s| s.end);
        }
    }

    /// The record starting at `start` never left, or cannot pass: it is lost whatever is undone.
    pub fn mark_absent(&mut self, start: AbsSeq) {
        self.mark_lost(start);
        if let Some(index) = self.find(start) {
            self.records[index].set_absent(true);
        }
    }

    /// Judges lost, in the order of their last transmission, the records in flight for which
    /// `expired` holds, and stops at the first for which it does not. Returns the bytes judged.
    pub fn mark_lost_by_send_time(
        &mut self,
        mut expired: impl FnMut(&SentSegment) -> bool,
    ) -> ByteCount {
        let before = self.waiting();
        while let Some(segment) = self.oldest_in_flight() {
            self.touch();
            if !expired(&segment) {
                break;
            }
            self.judge(self.index(self.flight.head), Mark::Lost);
        }
        self.waiting() - before
    }

    /// What was judged lost since [`Self::forget_judged`].
    pub(in crate::recovery) fn judged(&self) -> Judged {
        self.holes.judged
    }

    /// A new judgement begins.
    pub(in crate::recovery) fn forget_judged(&mut self) {
        if let Some(holes) = self.holes.changed() {
            holes.judged = Judged::NOTHING;
        }
    }

    /// `IsLost` of RFC 6675 section 4: judges lost every record above which `dup_thresh`
    /// discontiguous runs, or more than `(dup_thresh - 1) * smss` bytes, are SACKed. Of one that
    /// was sent again on suspicion that is the first copy, and the other is in flight; of one that
    /// a recovery sent again before it was undone, both are. Each record is judged once, so the
    /// cost is amortised over the records.
    ///
    /// Returns the bytes judged.
    pub fn mark_lost_by_sacks(&mut self, dup_thresh: u32, smss: ByteCount) -> ByteCount {
        let bytes = (smss.get()).saturating_mul(dup_thresh.saturating_sub(1).into());
        let before = self.lost();
        let mut index = self.index(self.frontier);
        while u64::from(self.holes.sacked_above) > bytes
            || self.holes.runs_above >= dup_thresh.max(1)
        {
            self.touch();
            match self.records[index].mark {
                Mark::Sacked => self.leave_sacked_above(index),
                Mark::Sent => self.judge(index, Mark::Lost),
                Mark::Probed if self.view(index).end > self.holes.undone => {
                    self.judge(index, Mark::Resent);
                }
                Mark::Probed | Mark::Lost | Mark::Resent => {}
            }
            index += 1;
        }
        self.frontier = self.id(index);
        self.lost() - before
    }

    /// After a retransmission timeout: every record not SACKed is lost, and no retransmission
    /// is in flight. Returns the bytes that were not lost and waiting before.
    pub fn mark_all_lost(&mut self) -> ByteCount {
        let before = self.waiting();
        for record in &mut self.records {
            if !matches!(record.mark, Mark::Sacked | Mark::Lost) {
                record.set_absent(false);
                record.mark = Mark::Lost;
            }
        }
        self.rebuild();
        self.frontier = self.id(self.records.len());
        self.holes.sacked_above = 0;
        self.holes.runs_above = 0;
        self.waiting() - before
    }

    /// A record is lost: all copies of it, or those before the one that is then [`Mark::Resent`].
    fn judge(&mut self, index: usize, to: Mark) {
        let segment = self.view(index);
        let judged = &mut self.holes.judged;
        judged.end = judged.end.max(segment.end);
        if to == Mark::Lost {
            if segment.in_flight_retransmission() {
                let before = judged.retransmission.get().unwrap_or(Instant::ZERO);
                judged.retransmission = Sparse::some(before.max(segment.sent_at));
                judged.first_again |= index == 0;
            }
            self.records[index].set_absent(false);
        }
        self.set_mark(index, to);
    }
}
