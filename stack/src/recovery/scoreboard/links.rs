//! The scoreboard's insides: record numbers, the two lists, jumping over SACKed runs, and the
//! counters that every change of state keeps.

use super::record::Record;
use super::{AbsSeq, ID_MASK, List, Mark, NIL, Scoreboard, SentSegment};
use narrows_congestion::Instant;
use narrows_congestion::hint::cold_path;
use std::cmp::Reverse;

/// Counts the records that are touched, so that a test can bound the cost.
macro_rules! step {
    ($self:ident) => {
        #[cfg(test)]
        {
            $self.steps += 1;
        }
    };
}
pub(super) use step;

impl Scoreboard {
    pub(super) fn index(&self, id: u32) -> usize {
        (id.wrapping_sub(self.base) & ID_MASK) as usize
    }

    pub(super) fn id(&self, index: usize) -> u32 {
        self.base.wrapping_add(index as u32) & ID_MASK
    }

    pub(super) fn record(&self, id: u32) -> Option<&Record> {
        if id == NIL {
            None
        } else {
            self.records.get(self.index(id))
        }
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
        let from = record.mark;
        if from == to {
            return;
        }
        let len = record.len;
        record.mark = to;
        self.uncount(from, len);
        self.count(to, len);
        if from == Mark::Lost {
            self.unlink_from(index, from);
            self.append_flight(index);
        } else if to == Mark::Lost {
            self.unlink_from(index, from);
            self.insert_waiting(index);
        }
    }

    #[inline]
    fn count(&mut self, mark: Mark, len: u16) {
        if matches!(mark, Mark::Lost | Mark::Resent) {
            self.holes.lost += u32::from(len);
        }
        if matches!(mark, Mark::Probed | Mark::Resent) {
            self.holes.retransmitted += u32::from(len);
        }
    }

    #[inline]
    pub(super) fn uncount(&mut self, mark: Mark, len: u16) {
        if matches!(mark, Mark::Lost | Mark::Resent) {
            self.holes.lost -= u32::from(len);
        }
        if matches!(mark, Mark::Probed | Mark::Resent) {
            self.holes.retransmitted -= u32::from(len);
        }
    }

    /// Marks what is not SACKed yet from `index` on and ends at or below `end`. Returns the
    /// end of what is now SACKed without a gap, the running total `newly`, and the number of the
    /// record after the last one marked.
    pub(super) fn sack_from(
        &mut self,
        mut index: usize,
        end: AbsSeq,
        (mut covered, mut newly, mut hint): (AbsSeq, u64, u32),
        prior: AbsSeq,
        each: &mut impl FnMut(&SentSegment),
    ) -> (AbsSeq, u64, u32) {
        let judged = self.index(self.frontier);
        loop {
            let next = self.skip_sacked(index);
            if next > index {
                cold_path();
                covered = self.view(next - 1).end;
            }
            index = next;
            let una = self.una;
            let Some(record) = self.records.get_mut(index) else {
                break;
            };
            let start = una + u64::from(record.start.wrapping_sub(una as u32));
            let (before, len) = (record.view(start), record.len);
            if before.end > end {
                break;
            }
            step!(self);
            record.mark = Mark::Sacked;
            self.unlink_from(index, before.mark);
            self.records[index].next = self.id(index + 1);
            self.uncount(before.mark, len);
            self.note_delivery(&before, prior);
            newly += u64::from(len);
            let len = u32::from(len);
            covered = before.end;
            let joined = u32::from(index > judged && self.is_sacked(index - 1))
                + u32::from(self.is_sacked(index + 1));
            let next = self.id(index + 1);
            let holes = &mut *self.holes;
            holes.sacked += len;
            holes.sacked_records += 1;
            let highest = &mut holes.blocks.high_sacked;
            *highest = (*highest).max(before.end);
            hint = next;
            if index >= judged {
                holes.sacked_above += len;
                holes.runs_above = holes.runs_above + 1 - joined;
            }
            let mark = Mark::Sacked;
            each(&SentSegment { mark, ..before });
            index += 1;
        }
        (covered, newly, hint)
    }

    /// The first record from `index` on that is not SACKed, or the number of records.
    pub(super) fn skip_sacked(&mut self, mut index: usize) -> usize {
        while self.is_sacked(index) {
            step!(self);
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

    /// How many of the first records lie below `ack`, left together, and had nothing happen to them
    /// since.
    pub(super) fn burst_below(&self, ack: AbsSeq) -> usize {
        let Some(first) = self.records.front() else {
            return 0;
        };
        let mut id = self.flight.head;
        let mut end = self.una;
        let mut count = 0;
        for r in &self.records {
            let untouched = r.mark == Mark::Sent && r.transmissions() == 1;
            let together = r.sent_at == first.sent_at
                && r.order == first.order
                && r.delivered == first.delivered;
            end = r.end(end);
            if !(untouched && together) || end > ack || id != self.id(count) {
                break;
            }
            id = r.next;
            count += 1;
        }
        count
    }

    /// Drops a [burst](Self::burst_below) of `count` records, which ends at `end`.
    pub(super) fn drop_burst(&mut self, count: usize, end: AbsSeq) {
        #[cfg(test)]
        {
            self.steps += count as u64;
        }
        let judged = self.index(self.frontier);
        let next = self.records[count - 1].next;
        self.records.drain(..count);
        self.base = self.id(count);
        self.una = end;
        if count > judged {
            self.frontier = self.base;
        }
        self.flight.head = next;
        if next == NIL {
            self.flight.tail = NIL;
        } else {
            let head = self.index(next);
            self.records[head].prev = NIL;
        }
    }

    #[inline]
    pub(super) fn note_delivery(&mut self, record: &SentSegment, highest: AbsSeq) {
        if record.end < highest && record.transmissions == 1 {
            self.note_overtaken(record.start, highest);
        }
    }

    #[cold]
    pub(super) fn trim_first(&mut self, ack: AbsSeq, above: bool) -> u64 {
        let record = &mut self.records[0];
        let cut = (ack as u32).wrapping_sub(record.start) as u16;
        let mark = record.mark;
        record.start = ack as u32;
        record.len -= cut;
        self.forget_seen();
        if mark == Mark::Sacked {
            self.holes.sacked -= u32::from(cut);
            if above {
                self.holes.sacked_above -= u32::from(cut);
            }
            return 0;
        }
        self.uncount(mark, cut);
        u64::from(cut)
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
        let before = core::mem::replace(&mut self.flight.tail, id);
        if before == NIL {
            self.flight.head = id;
        } else {
            let before = self.index(before);
            self.records[before].next = id;
        }
    }

    /// Puts a lost record in its place in sequence order, looking from where the last one went.
    pub(super) fn insert_waiting(&mut self, index: usize) {
        let id = self.id(index);
        let mut after = self.holes.waiting.tail;
        if after != NIL && self.index(after) > index && self.holes.finger != NIL {
            cold_path();
            after = self.holes.finger;
            while after != NIL && self.index(after) > index {
                step!(self);
                after = self.records[self.index(after)].prev;
            }
            while after != NIL {
                let next = self.records[self.index(after)].next;
                if next == NIL || self.index(next) > index {
                    break;
                }
                step!(self);
                after = next;
            }
        }
        let next = if after == NIL {
            std::mem::replace(&mut self.holes.waiting.head, id)
        } else {
            let after = self.index(after);
            std::mem::replace(&mut self.records[after].next, id)
        };
        if next == NIL {
            self.holes.waiting.tail = id;
        } else {
            let next = self.index(next);
            self.records[next].prev = id;
        }
        self.records[index].prev = after;
        self.records[index].next = next;
        self.holes.finger = id;
    }

    /// Takes the record out of the list of its state.
    pub(super) fn unlink(&mut self, index: usize) {
        self.unlink_from(index, self.records[index].mark);
    }

    #[inline]
    pub(super) fn unlink_from(&mut self, index: usize, mark: Mark) {
        let Record { prev, next, .. } = self.records[index];
        if mark == Mark::Lost && self.holes.finger == self.id(index) {
            self.holes.finger = if prev == NIL { next } else { prev };
        }
        let list = if mark == Mark::Lost {
            &mut self.holes.waiting
        } else {
            &mut self.flight
        };
        if prev == NIL {
            list.head = next;
        }
        if next == NIL {
            list.tail = prev;
        }
        if prev != NIL {
            let prev = self.index(prev);
            self.records[prev].next = next;
        }
        if next != NIL {
            let next = self.index(next);
            self.records[next].prev = prev;
        }
    }

    /// The blocks of the last ACK are no measure for the next one's.
    pub(super) fn forget_seen(&mut self) {
        if let Some(blocks) = (self.holes.changed()).and_then(|holes| holes.blocks.changed()) {
            blocks.seen = [(0, 0); 4];
        }
    }

    /// Recomputes lists, counters and the frontier from the marks.
    pub(super) fn rebuild(&mut self) {
        self.flight = List::EMPTY;
        self.holes.waiting = List::EMPTY;
        self.holes.finger = NIL;
        self.forget_seen();
        (
            self.holes.sacked,
            self.holes.sacked_records,
            self.holes.lost,
            self.holes.retransmitted,
        ) = (0, 0, 0, 0);
        (
            self.frontier,
            self.holes.sacked_above,
            self.holes.runs_above,
        ) = (self.base, 0, 0);
        let mut in_flight = Vec::new();
        for index in 0..self.records.len() {
            let record = &self.records[index];
            let (mark, sent_at, len) = (record.mark, record.sent_at, record.len);
            let since = Reverse(self.retransmissions.wrapping_sub(record.order));
            match mark {
                Mark::Sacked => {
                    self.records[index].next = self.id(index + 1);
                    self.holes.sacked += u32::from(len);
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
        let sum = |f: &dyn Fn(&SentSegment) -> bool| -> u64 {
            self.iter().filter(|r| f(r)).map(|r| r.end - r.start).sum()
        };
        let mut at = self.una;
        for r in self.iter() {
            assert!(r.start == at && r.end > r.start, "records are contiguous");
            at = r.end;
        }
        assert_eq!(at, self.end, "the records reach to the end");
        assert_eq!(
            u64::from(self.holes.sacked),
            sum(&|r| r.is_sacked()),
            "sacked"
        );
        assert_eq!(u64::from(self.holes.lost), sum(&|r| r.is_lost()), "lost");
        assert_eq!(
            u64::from(self.holes.retransmitted),
            sum(&|r| r.in_flight_retransmission()),
            "retransmitted"
        );
        let mut sacked = self.iter().filter(|r| r.is_sacked());
        assert_eq!(
            self.holes.sacked_records as usize,
            self.iter().filter(|r| r.is_sacked()).count(),
            "sacked records"
        );
        assert_eq!(
            self.highest_sacked(),
            sacked.next_back().map(|r| r.end),
            "highest sacked"
        );

        let in_flight =
            |r: &SentSegment| matches!(r.mark, Mark::Sent | Mark::Probed | Mark::Resent);
        let mut count = 0;
        let mut last = (Instant::ZERO, NIL);
        for r in self.by_send_time() {
            assert!(in_flight(&r), "the flight list holds what is in flight");
            let index = self.first_from(r.start);
            assert!(
                r.sent_at >= last.0 && self.records[index].prev == last.1,
                "in order of transmission"
            );
            last = (r.sent_at, self.id(index));
            count += 1;
        }
        assert_eq!(last.1, self.flight.tail, "tail of the flight list");
        assert_eq!(
            count,
            self.iter().filter(|r| in_flight(r)).count(),
            "flight list"
        );

        let mut id = self.holes.waiting.head;
        let mut prev = NIL;
        for (index, _) in self
            .records
            .iter()
            .enumerate()
            .filter(|(_, r)| r.mark == Mark::Lost)
        {
            assert_eq!(id, self.id(index), "the waiting list is in sequence order");
            assert_eq!(
                self.records[index].prev, prev,
                "back link of the waiting list"
            );
            prev = id;
            id = self.records[index].next;
        }
        assert_eq!(
            (id, self.holes.waiting.tail),
            (NIL, prev),
            "end of the waiting list"
        );

        let judged = self.index(self.frontier);
        assert!(judged <= self.records.len(), "the frontier is on the board");
        let bytes: u64 = (self.iter().skip(judged))
            .filter(|r| r.is_sacked())
            .map(|r| r.end - r.start)
            .sum();
        let runs = (judged..self.records.len())
            .filter(|&i| self.is_sacked(i) && !self.is_sacked(i + 1))
            .count();
        assert_eq!(
            (
                u64::from(self.holes.sacked_above),
                self.holes.runs_above as usize
            ),
            (bytes, runs),
            "frontier"
        );
    }
}
