//! The scoreboard's insides: record numbers, the two lists, jumping over SACKed runs, and the
//! counters that every change of state keeps.

use super::record::Record;
use super::{AbsSeq, Grown, ID_MASK, List, Mark, NIL, Scoreboard, SentSegment};
use narrows_congestion::hint::cold_path;
use std::cmp::Reverse;

impl Scoreboard {
    /// Counts the records that are touched, so that a test can bound the cost.
    #[inline]
    pub(super) fn touch(&mut self) {
        #[cfg(test)]
        {
            self.steps += 1;
        }
    }

    pub(super) fn index(&self, id: u32) -> usize {
        (id.wrapping_sub(self.base) & ID_MASK) as usize
    }

    pub(super) fn id(&self, index: usize) -> u32 {
        self.base.wrapping_add(index as u32) & ID_MASK
    }

    pub(super) fn record(&self, id: u32) -> Option<&Record> {
        let index = (id != NIL).then(|| self.index(id))?;
        self.records.get(index)
    }

    /// That record as it is told.
    #[inline]
    pub(super) fn numbered(&self, id: u32) -> Option<SentSegment> {
        self.record(id).map(|r| r.view(self.start(r)))
    }

    /// The first sequence number of a record.
    #[inline]
    pub(super) fn start(&self, record: &Record) -> AbsSeq {
        self.una + u64::from(record.start.wrapping_sub(self.una as u32))
    }

    #[inline]
    pub(super) fn view(&self, index: usize) -> SentSegment {
        let record = &self.records[index];
        record.view(self.start(record))
    }

    /// Index of the first record that starts at `seq` or above.
    pub(super) fn first_from(&self, seq: AbsSeq) -> usize {
        if seq <= self.una {
            return 0;
        }
        self.records.partition_point(|r| self.start(r) < seq)
    }

    pub(super) fn find(&self, start: AbsSeq) -> Option<usize> {
        let index = self.first_from(start);
        self.records
            .get(index)
            .is_some_and(|r| self.start(r) == start)
            .then_some(index)
    }

    pub(super) fn is_sacked(&self, index: usize) -> bool {
        (self.records.get(index)).is_some_and(|r| r.mark == Mark::Sacked)
    }

    /// Moves a record that is not SACKed to another such state: counters and lists.
    #[inline]
    pub(super) fn set_mark(&mut self, index: usize, to: Mark) {
        let record = &mut self.records[index];
        let (from, len) = (std::mem::replace(&mut record.mark, to), record.len);
        if from == to {
            return;
        }
        self.uncount(from, len);
        self.count(to, len);
        if to == Mark::Lost {
            self.unlink(index, from);
            self.insert_waiting(index);
        } else if from == Mark::Lost {
            self.unlink(index, from);
            self.append_flight(index);
        }
    }

    #[inline]
    pub(super) fn count(&mut self, mark: Mark, len: u16) {
        if mark != Mark::Sent {
            self.holes.bytes[mark as usize] += u32::from(len);
        }
    }

    #[inline]
    pub(super) fn uncount(&mut self, mark: Mark, len: u16) {
        if mark != Mark::Sent {
            self.holes.bytes[mark as usize] -= u32::from(len);
        }
    }

    /// Marks what lies in the block and is not SACKed yet; `prior` was the highest SACKed sequence
    /// number before the ACK.
    pub(super) fn sack_block(
        &mut self,
        start: AbsSeq,
        end: AbsSeq,
        prior: AbsSeq,
        each: &mut impl FnMut(&SentSegment),
    ) {
        let judged = self.index(self.frontier);
        let grown = self.holes.grown;
        let mut index = self.index(grown.after);
        if grown.after == NIL || grown.start != start as u32 || index > self.records.len() {
            index = self.first_from(start);
        }
        loop {
            index = self.skip_sacked(index);
            if index >= self.records.len() {
                break;
            }
            let segment = self.view(index);
            if segment.end > end {
                break;
            }
            self.touch();
            let (before, next) = (segment.mark, self.id(index + 1));
            let record = &mut self.records[index];
            let len = record.len;
            record.mark = Mark::Sacked;
            let place = (record.prev, std::mem::replace(&mut record.next, next));
            self.uncount(before, len);
            self.unlink_from(place, index, before);
            self.note_delivery(&segment, prior);
            let joined = u32::from(index > judged && self.is_sacked(index - 1))
                + u32::from(self.is_sacked(index + 1));
            let holes = &mut *self.holes;
            holes.bytes[Mark::Sacked as usize] += u32::from(len);
            holes.sacked_records += 1;
            holes.grown = Grown {
                start: start as u32,
                after: next,
            };
            holes.high_sacked = holes.high_sacked.max(segment.end);
            if index >= judged {
                holes.sacked_above += u32::from(len);
                holes.runs_above = holes.runs_above + 1 - joined;
            }
            let mark = Mark::Sacked;
            each(&SentSegment { mark, ..segment });
            index += 1;
        }
    }

    /// The first record from `index` on that is not SACKed, or the number of records.
    pub(super) fn skip_sacked(&mut self, mut index: usize) -> usize {
        while self.is_sacked(index) {
            self.touch();
            let next = self.index(self.records[index].next);
            if self.is_sacked(next) {
                // Halve the path: whoever comes next jumps twice as far.
                self.records[index].next = self.records[next].next;
            }
            index = next;
        }
        index
    }

    /// The SACKed record at `index`, the lowest one at or above the frontier, falls below it.
    pub(super) fn leave_sacked_above(&mut self, index: usize) {
        self.holes.sacked_above -= u32::from(self.records[index].len);
        self.holes.runs_above -= u32::from(!self.is_sacked(index + 1));
    }

    /// SND.UNA moves to `ack`: what lies wholly below goes, after `each` was called for it, and what does
    /// in part is trimmed. By how many bytes that were not SACKed.
    #[inline(always)] // Two ways to acknowledge.
    pub(super) fn drop_below(
        &mut self,
        ack: AbsSeq,
        mut each: impl FnMut(&mut Self, &SentSegment),
    ) -> u64 {
        // Where the first record starts.
        let mut at = self.una;
        while let Some(record) = self.records.front()
            && record.end(at) <= ack
        {
            let first = record.view(at);
            self.touch();
            each(self, &first);
            self.pop_first();
            at = first.end;
        }
        self.una = ack;
        match at < ack {
            true => self.trim_first(ack),
            false => 0,
        }
    }

    /// The first record goes.
    #[inline]
    pub(super) fn pop_first(&mut self) {
        self.records.pop_front();
        let next = self.id(1);
        if self.frontier == self.base {
            self.frontier = next;
        }
        self.base = next;
    }

    #[inline]
    pub(super) fn note_delivery(&mut self, record: &SentSegment, highest: AbsSeq) {
        if record.end < highest && record.transmissions == 1 {
            self.note_overtaken(record.start, highest);
        }
    }

    #[cold]
    pub(super) fn trim_first(&mut self, ack: AbsSeq) -> u64 {
        let record = &mut self.records[0];
        let cut = (ack as u32).wrapping_sub(record.start) as u16;
        let mark = record.mark;
        record.start = ack as u32;
        record.len -= cut;
        self.uncount(mark, cut);
        // Where a block began within it, it now begins itself.
        if let Some(holes) = self.holes.changed() {
            holes.grown = Grown::NONE;
        }
        if mark == Mark::Sacked {
            if self.frontier == self.base {
                self.holes.sacked_above -= u32::from(cut);
            }
            return 0;
        }
        u64::from(cut)
    }

    /// The list of the records that are marked so.
    #[inline]
    fn list(&mut self, mark: Mark) -> &mut List {
        match mark {
            Mark::Lost => &mut self.holes.waiting,
            _ => &mut self.flight,
        }
    }

    /// In the list of those that are marked so `right` comes next to `left`; [`NIL`] is the list's end.
    #[inline]
    pub(super) fn join(&mut self, mark: Mark, left: u32, right: u32) {
        self.set_next(mark, left, right);
        if right == NIL {
            self.list(mark).tail = left;
        } else {
            let right = self.index(right);
            self.records[right].prev = left;
        }
    }

    #[inline]
    fn set_next(&mut self, mark: Mark, left: u32, right: u32) {
        if left == NIL {
            self.list(mark).head = right;
        } else {
            let left = self.index(left);
            self.records[left].next = right;
        }
    }

    pub(super) fn append_flight(&mut self, index: usize) {
        self.records[index].prev = self.flight.tail;
        self.records[index].next = NIL;
        self.end_flight_with(index);
    }

    /// The flight ends with that record, which has its place behind the one that was the last.
    #[inline]
    pub(super) fn end_flight_with(&mut self, index: usize) {
        let id = self.id(index);
        let last = core::mem::replace(&mut self.flight.tail, id);
        self.set_next(Mark::Sent, last, id);
    }

    /// A record is lost, and waits to be sent again.
    fn insert_waiting(&mut self, index: usize) {
        let id = self.id(index);
        let mut after = self.holes.waiting.tail;
        if after != NIL && self.index(after) > index && self.holes.finger != NIL {
            cold_path();
            after = self.holes.finger;
            while after != NIL && self.index(after) > index {
                self.touch();
                after = self.records[self.index(after)].prev;
            }
            while let Some(&Record { next, .. }) = self.record(after)
                && next != NIL
                && self.index(next) < index
            {
                self.touch();
                after = next;
            }
        }
        let first = self.holes.waiting.head;
        let next = self.record(after).map_or(first, |after| after.next);
        self.join(Mark::Lost, after, id);
        self.join(Mark::Lost, id, next);
        self.holes.finger = id;
    }

    /// The record leaves the list of those that are marked so.
    pub(super) fn unlink(&mut self, index: usize, mark: Mark) {
        let Record { prev, next, .. } = self.records[index];
        self.unlink_from((prev, next), index, mark);
    }

    /// The same where it stands between these two.
    fn unlink_from(&mut self, (prev, next): (u32, u32), index: usize, mark: Mark) {
        if mark == Mark::Lost && self.holes.finger == self.id(index) {
            self.holes.finger = if prev == NIL { next } else { prev };
        }
        self.join(mark, prev, next);
    }

    /// Recomputes lists, counters and the frontier from the marks.
    pub(super) fn rebuild(&mut self) {
        self.flight = List::EMPTY;
        self.frontier = self.base;
        let holes = &mut *self.holes;
        holes.bytes = [0; 5];
        holes.waiting = List::EMPTY;
        holes.finger = NIL;
        holes.grown = Grown::NONE;
        holes.sacked_records = 0;
        holes.sacked_above = 0;
        holes.runs_above = 0;
        let mut in_flight = Vec::new();
        for index in 0..self.records.len() {
            let record = &self.records[index];
            let (mark, sent_at, len) = (record.mark, record.sent_at, record.len);
            let since = Reverse(self.retransmissions.wrapping_sub(record.order));
            match mark {
                Mark::Sacked => {
                    self.records[index].next = self.id(index + 1);
                    self.holes.sacked_records += 1;
                    self.holes.sacked_above += u32::from(len);
                    self.holes.runs_above += u32::from(!self.is_sacked(index + 1));
                }
                Mark::Lost => self.insert_waiting(index),
                Mark::Sent | Mark::Probed | Mark::Resent => in_flight.push((sent_at, since, index)),
            }
            self.count(mark, len);
        }
        in_flight.sort_unstable();
        for (.., index) in in_flight {
            self.append_flight(index);
        }
    }

    /// Checks that the counters and lists agree with the records. Walks everything: for tests.
    ///
    /// # Panics
    /// If they do not.
    #[inline] // Called once, or by nobody here: compiled where it is.
    pub fn check_invariants(&self) {
        let mut at = self.una;
        for r in self.iter() {
            assert!(r.start == at && r.end > r.start, "records are contiguous");
            at = r.end;
        }
        assert_eq!(at, self.end, "the records reach to the end");
        let highest = self.iter().rev().find(SentSegment::is_sacked);
        assert_eq!(self.highest_sacked(), highest.map(|r| r.end));
        let judged = self.index(self.frontier);
        assert!(judged <= self.records.len(), "the frontier is on the board");

        let mut anew = self.clone();
        anew.rebuild();
        for index in (0..judged).filter(|&i| self.is_sacked(i)) {
            anew.leave_sacked_above(index);
        }
        let counters = |board: &Self| {
            let h = &*board.holes;
            let above = (h.sacked_above, h.runs_above);
            (h.bytes, h.sacked_records, above, h.waiting, board.flight)
        };
        assert_eq!(counters(self), counters(&anew));
        for (r, anew) in self.records.iter().zip(&anew.records) {
            assert!(
                r.mark == Mark::Sacked || (r.prev, r.next) == (anew.prev, anew.next),
                "in order of transmission, and those that wait in sequence"
            );
        }
    }
}
