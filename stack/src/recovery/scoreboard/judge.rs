//! Which records are lost.

use super::links::step;
use super::{AbsSeq, Mark, NIL, Scoreboard, SentSegment};
use crate::sparse::Sparse;
use narrows_congestion::{ByteCount, Instant};

/// What a detector has judged lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// When the retransmission left that was made last of those judged; `None` if only segments
    /// sent once were.
    pub retransmission: Option<Instant>,
    /// One past the highest sequence number judged.
    pub end: AbsSeq,
    /// The first record is one of those retransmissions: SND.UNA waits for another.
    pub first_again: bool,
}

impl Scoreboard {
    /// Judges the record starting at `start` lost; a retransmission of it no longer counts as
    /// in flight. False if nothing changed: no such record, SACKed, or lost and waiting.
    pub fn mark_lost(&mut self, start: AbsSeq) -> bool {
        match self.find(start) {
            Some(index) if !matches!(self.records[index].mark, Mark::Sacked | Mark::Lost) => {
                self.judge(index);
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
        let mut marked = 0;
        while self.flight.head != NIL {
            step!(self);
            let index = self.index(self.flight.head);
            let segment = self.view(index);
            if !expired(&segment) {
                break;
            }
            marked += segment.end - segment.start;
            self.judge(index);
        }
        ByteCount::new(marked)
    }

    /// What was judged lost since [`Self::forget_judged`].
    pub fn judged(&self) -> Judged {
        let holes = &*self.holes;
        Judged {
            retransmission: holes.judged_retransmission.get(),
            end: holes.judged_end,
            first_again: holes.judged_first_again,
        }
    }

    /// A new judgement begins.
    pub fn forget_judged(&mut self) {
        if let Some(holes) = self.holes.changed() {
            holes.judged_retransmission = Sparse::NONE;
            holes.judged_end = 0;
            holes.judged_first_again = false;
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
        let bytes = smss
            .get()
            .saturating_mul(u64::from(dup_thresh.saturating_sub(1)));
        let mut marked = 0;
        let mut index = self.index(self.frontier);
        while u64::from(self.holes.sacked_above) > bytes
            || self.holes.runs_above >= dup_thresh.max(1)
        {
            step!(self);
            match self.records[index].mark {
                Mark::Sacked => self.leave_sacked_above(index),
                Mark::Sent => {
                    marked += u64::from(self.records[index].len);
                    self.judge(index);
                }
                Mark::Probed if self.view(index).end > self.holes.undone => {
                    let segment = self.view(index);
                    marked += segment.end - segment.start;
                    self.holes.judged_end = self.holes.judged_end.max(segment.end);
                    self.set_mark(index, Mark::Resent);
                }
                Mark::Probed | Mark::Lost | Mark::Resent => {}
            }
            index += 1;
        }
        self.frontier = self.id(index);
        ByteCount::new(marked)
    }

    /// After a retransmission timeout: every record not SACKed is lost, and no retransmission
    /// is in flight. Returns the bytes that were not lost and waiting before.
    pub fn mark_all_lost(&mut self) -> ByteCount {
        let mut marked = 0;
        for record in &mut self.records {
            if record.mark == Mark::Sacked {
                continue;
            }
            if record.mark != Mark::Lost {
                marked += u64::from(record.len);
                record.set_absent(false);
            }
            record.mark = Mark::Lost;
        }
        self.rebuild();
        self.frontier = self.id(self.records.len());
        self.holes.sacked_above = 0;
        self.holes.runs_above = 0;
        ByteCount::new(marked)
    }

    /// Moves a record to [`Mark::Lost`].
    fn judge(&mut self, index: usize) {
        let segment = self.view(index);
        self.records[index].set_absent(false);
        let holes = &mut *self.holes;
        if segment.in_flight_retransmission() {
            let before = holes.judged_retransmission.get().unwrap_or(Instant::ZERO);
            holes.judged_retransmission = Sparse::some(before.max(segment.sent_at));
            holes.judged_first_again |= index == 0;
        }
        holes.judged_end = holes.judged_end.max(segment.end);
        self.set_mark(index, Mark::Lost);
    }
}
