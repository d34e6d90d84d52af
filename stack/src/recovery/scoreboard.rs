//! The sender's scoreboard: what was sent, and what is known to have become of it.
//!
//! One record stands for one segment as it was sent. A record is in exactly one state:
//!
//! ```text
//!              mark_lost              on_retransmit
//!    Sent -----------------> Lost -------------------> Resent      (ACK removes a record
//!      |  on_retransmit       ^ mark_lost, undo_retransmit |        from any state)
//!      +--------> Probed -----+----------------------------+
//!    any of them, reported by a SACK block ----> Sacked
//! ```
//!
//! Records of `Sent`, `Probed` and `Resent` are in the network as far as anyone knows, and
//! hang in a list in the order of their last transmission (what RFC 8985 walks); records of
//! `Lost` hang in a list in sequence order (what the sender retransmits from); records of
//! `Sacked` use the same link to jump over a SACKed run. So no operation walks over what was
//! settled before, and the cost of an ACK follows what is new in it.

use crate::prefetch::{prefetch_any, prefetch_span};
use crate::sparse::{Rarely, begins};
use judge::Judged;
use narrows_congestion::hint::cold_path;
use narrows_congestion::{ByteCount, Instant};
use record::{Mark, Record};
use std::collections::VecDeque;
use std::mem::offset_of;

mod judge;
mod links;
mod record;
#[cfg(test)]
mod tests;

/// Gives back the memory of what is not in `records`, but for `few` of them; where some are soon needed
/// again, only if it is more than half.
pub(super) fn shrink<T>(records: &mut VecDeque<T>, few: usize) {
    let used = records.len().max(few);
    if few == 0 || records.capacity() / 2 > used {
        records.shrink_to(used);
    }
}

/// A sequence number unwrapped to 64 bits: the ISS is 0, the first data byte 1; a FIN takes one.
pub type AbsSeq = u64;

/// One segment that was sent and is not cumulatively acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentSegment {
    /// First sequence number.
    pub start: AbsSeq,
    /// One past the last sequence number.
    pub end: AbsSeq,
    /// When it was last transmitted.
    pub sent_at: Instant,
    /// Bytes delivered on the connection when it was last transmitted, modulo 2^32: `P.delivered` of
    /// draft-ietf-ccwg-bbr, by which rounds are counted. No window is so large that it would matter.
    pub delivered: u32,
    /// How many retransmissions had been made, modulo 2^32, with the last transmission of it: with its
    /// sequence number that is the order of transmissions.
    order: u32,
    mark: Mark,
    /// How often it was sent; stays at 127.
    pub transmissions: u8,
}

impl SentSegment {
    /// The sequence space it takes.
    pub fn len(&self) -> ByteCount {
        ByteCount::new(self.end - self.start)
    }

    /// The peer reported it by SACK.
    pub fn is_sacked(&self) -> bool {
        self.mark == Mark::Sacked
    }

    /// Judged lost, whether or not it was sent again since.
    pub fn is_lost(&self) -> bool {
        matches!(self.mark, Mark::Lost | Mark::Resent)
    }

    /// A retransmission of it is thought to be in the network.
    pub fn in_flight_retransmission(&self) -> bool {
        matches!(self.mark, Mark::Probed | Mark::Resent)
    }

    /// It was sent more than once, so an acknowledgement of it is ambiguous (Karn's rule,
    /// RFC 6298 section 3).
    pub fn was_retransmitted(&self) -> bool {
        self.transmissions > 1
    }

    /// Sent later than `other` (`RACK_sent_after` of RFC 8985 section 6.2). The order of
    /// transmission breaks a tie, where the RFC has the sequence number alone for it: of what leaves
    /// in one instant a retransmission may be the last.
    pub fn sent_after(&self, other: &Self) -> bool {
        let later = match self.order.wrapping_sub(other.order) as i32 {
            // Since the same retransmission: new data, which leaves in its order.
            0 => self.end > other.end,
            after => after > 0,
        };
        self.sent_at > other.sent_at || (self.sent_at == other.sent_at && later)
    }
}

/// Deliveries that came in another order than the transmissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reordering {
    /// How many segments were delivered by their first transmission after a later one, in the life
    /// of the connection.
    pub segments: u64,
    /// The furthest that a delivered segment lay below the highest delivered one.
    pub extent: ByteCount,
}

impl Reordering {
    const NONE: Self = Self {
        segments: 0,
        extent: ByteCount::ZERO,
    };
}

const NIL: u32 = u32::MAX;
/// Record numbers run modulo 2^31, so that [`NIL`] is none of them.
const ID_MASK: u32 = u32::MAX >> 1;

#[derive(Clone, Copy, Debug, PartialEq)]
struct List {
    head: u32,
    tail: u32,
}

impl List {
    const EMPTY: Self = Self {
        head: NIL,
        tail: NIL,
    };
}

impl Default for List {
    fn default() -> Self {
        Self::EMPTY
    }
}

begins! {
    /// What only SACK blocks and losses need. Of bytes there are fewer than a window has.
    #[derive(Clone, Debug)]
    struct Holes {
        /// Bytes of the records in each state but `Sent`, by [`Mark`].
        bytes: [u32; 5] = [0; 5],
        reno_bytes: u32 = 0,
        reno_sacked: u32 = 0,
        /// Records that are lost and were not sent again since, in sequence order.
        waiting: List = List::EMPTY,
        /// Where the last one entered `waiting`: losses come in runs.
        finger: u32 = NIL,
        sacked_records: u32 = 0,
        /// SACKed bytes, and SACKed runs, from the frontier on.
        sacked_above: u32 = 0,
        runs_above: u32 = 0,
        judged: Judged = Judged::NOTHING,
        /// End of the highest SACKed record; stale once acknowledged.
        high_sacked: AbsSeq = 0,
        /// [`Scoreboard::end`] when all was last said not to be lost.
        undone: AbsSeq = 0,
        reordering: Reordering = Reordering::NONE,
        /// Blocks mostly grow: the one that did last.
        grown: Grown = Grown::NONE,
    }
}

impl Holes {
    #[inline]
    fn of(&self, mark: Mark) -> u32 {
        self.bytes[mark as usize]
    }

    /// Nothing is SACKed, lost, sent twice, or stood for by duplicate ACKs.
    #[inline]
    fn are_filled(&self) -> bool {
        self.bytes == [0; 5] && self.reno_bytes == 0
    }
}

/// Up to where a SACK block is known to be SACKed.
#[derive(Clone, Copy, Debug)]
struct Grown {
    /// Where the block starts, modulo 2^32.
    start: u32,
    /// Number of the record after those that it covers; [`NIL`]: it is of no block.
    after: u32,
}

impl Grown {
    const NONE: Self = Self {
        start: 0,
        after: NIL,
    };
}

/// What was sent, SACKed, lost and retransmitted, and the counters that follow from it.
///
/// The order is that of the declaration: see [`Sender`](super::Sender).
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct Scoreboard {
    // First, since they are asked for by those, too, who have sent nothing.
    una: AbsSeq,
    end: AbsSeq,
    holes: Rarely<Holes>,
    records: VecDeque<Record>,
    flight: List,
    /// Number of the first record.
    base: u32,
    /// Retransmissions made, modulo 2^32.
    retransmissions: u32,
    /// Number of the first record that [`Self::mark_lost_by_sacks`] has not judged.
    frontier: u32,
    #[cfg(test)]
    steps: u64,
}

impl Scoreboard {
    /// Bytes of memory that a record takes.
    pub(crate) const RECORD_MEMORY: usize = size_of::<Record>();
    /// Bytes of which those need some who only receive.
    pub(super) const OF_RECEIVER: usize = offset_of!(Self, records);

    /// Nothing outstanding; the next record starts at 0 unless [`Self::set_start`] says else.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for the first record, which an ACK looks at when it has looked at much else.
    #[inline]
    pub(crate) fn ask_for_first(&self) {
        prefetch_any(self.records.front());
    }

    /// No record is outstanding.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Gives back the memory of records that are not in use, but for `few`.
    pub(super) fn trim(&mut self, few: usize) {
        shrink(&mut self.records, few);
    }

    /// SND.UNA: the lowest outstanding sequence number.
    #[inline]
    pub fn una(&self) -> AbsSeq {
        self.una
    }

    /// One past the highest sequence number sent (SND.MAX).
    #[inline]
    pub fn end(&self) -> AbsSeq {
        self.end
    }

    /// Where the next record starts. Does nothing while records are outstanding.
    pub fn set_start(&mut self, start: AbsSeq) {
        if self.records.is_empty() {
            self.una = start;
            self.end = start;
        }
    }

    /// The new data `[self.end(), end)` was sent. Nothing happens if that is empty. What is longer
    /// than any segment, 65,535, is several records.
    #[inline(always)] // One place sends new data.
    pub fn push(&mut self, end: AbsSeq, now: Instant, delivered: u64) {
        debug_assert!(
            end > self.end,
            "a record covers at least one sequence number"
        );
        if end <= self.end {
            return;
        }
        let Ok(len) = u16::try_from(end - self.end) else {
            cold_path();
            return self.push_several(end, now, delivered);
        };
        if self.records.len() == self.records.capacity() {
            cold_path();
            self.make_room();
        }
        self.records.push_back(Record {
            sent_at: now,
            start: self.end as u32,
            delivered: delivered as u32,
            prev: self.flight.tail,
            next: NIL,
            order: self.retransmissions,
            len,
            sent: 1,
            mark: Mark::Sent,
        });
        self.end = end;
        self.end_flight_with(self.records.len() - 1);
    }

    #[cold]
    fn push_several(&mut self, end: AbsSeq, now: Instant, delivered: u64) {
        while self.end < end {
            let longest = self.end.saturating_add(u64::from(u16::MAX));
            self.push(longest.min(end), now, delivered);
        }
    }

    /// Makes room for more records: many connections never have more than one or two outstanding,
    /// others begin with ten (RFC 6928). A queue by itself begins with four, and doubles.
    #[cold]
    fn make_room(&mut self) {
        let more = match self.records.len() {
            0 | 1 => 1,
            few @ 2..10 => 10 - few,
            many => many / 2,
        };
        self.records.reserve_exact(more);
    }

    /// The record starting at `start` never left (a local drop): forget it, if it is the last
    /// one and was sent once. Its data counts as unsent again.
    pub fn pop_unsent(&mut self, start: AbsSeq) -> bool {
        let Some(last) = self.records.back() else {
            return false;
        };
        let sent_once = last.transmissions() == 1 && last.mark != Mark::Sacked;
        if self.start(last) != start || !sent_once {
            return false;
        }
        let index = self.records.len() - 1;
        self.set_mark(index, Mark::Sent);
        self.unlink(index, Mark::Sent);
        self.records.pop_back();
        self.end = start;
        if self.index(self.frontier) > index {
            self.frontier = self.id(index);
        }
        true
    }

    /// The record starting at `start` was sent again; how it was before, if there is one. Nothing
    /// happens to one that is SACKed.
    pub fn on_retransmit(
        &mut self,
        start: AbsSeq,
        now: Instant,
        delivered: u64,
    ) -> Option<SentSegment> {
        let index = self.find(start)?;
        let before = self.view(index);
        let mark = match before.mark {
            Mark::Sent | Mark::Probed => Mark::Probed,
            Mark::Lost | Mark::Resent => Mark::Resent,
            Mark::Sacked => return Some(before),
        };
        // Not by `set_mark`, for which a segment in flight stays where it is: it is the latest now.
        self.unlink(index, before.mark);
        self.append_flight(index);
        self.retransmissions = self.retransmissions.wrapping_add(1);
        let record = &mut self.records[index];
        record.mark = mark;
        record.sent_at = now;
        record.order = self.retransmissions;
        record.delivered = delivered as u32;
        record.count_transmission();
        let len = record.len;
        self.uncount(before.mark, len);
        self.count(mark, len);
        Some(before)
    }

    /// That retransmission never left: what was lost waits again, what was only probed counts
    /// once again. Its send time stays that of the attempt.
    pub fn undo_retransmit(&mut self, start: AbsSeq) {
        let Some(index) = self.find(start) else {
            return;
        };
        match self.records[index].mark {
            Mark::Probed => self.set_mark(index, Mark::Sent),
            Mark::Resent => self.set_mark(index, Mark::Lost),
            Mark::Sent | Mark::Lost | Mark::Sacked => {}
        }
    }

    /// `count` segments of `len` bytes of new data were sent at once.
    pub fn push_burst(&mut self, count: u64, len: ByteCount, now: Instant, delivered: u64) {
        self.records.reserve(count as usize);
        for _ in 0..count {
            self.push(self.end + len.get(), now, delivered);
        }
    }

    /// A cumulative ACK: drops what lies wholly below `ack` and trims a record that it covers
    /// in part. Calls `each` for every dropped record that was not SACKed before.
    ///
    /// Returns the bytes newly delivered, that is acknowledged and not SACKed before. Call it
    /// before [`Self::sack`] with the blocks of the same segment.
    #[inline]
    pub fn ack(&mut self, ack: AbsSeq, mut each: impl FnMut(&SentSegment)) -> ByteCount {
        let ack = ack.min(self.end);
        if ack <= self.una {
            return ByteCount::ZERO;
        }
        let mut delivered = 0;
        let trimmed = self.drop_below(ack, |board, first| {
            let len = first.len().get();
            board.uncount(first.mark, len as u16);
            if first.is_sacked() {
                board.holes.sacked_records -= 1;
                if board.frontier == board.base {
                    board.leave_sacked_above(0);
                }
            } else {
                delivered += len;
                board.unlink(0, first.mark);
                board.note_delivery(first, board.holes.high_sacked);
                each(first);
            }
        });
        ByteCount::new(delivered + trimmed)
    }

    /// Whether `ack` covers the first record, and nothing is SACKed, lost or sent twice, nor stood
    /// for by duplicate ACKs.
    #[inline]
    pub(super) fn is_clean_to(&self, ack: AbsSeq) -> bool {
        self.holes.as_changed().is_none_or(Holes::are_filled)
            && (self.records.front()).is_some_and(|first| first.end(self.una) <= ack)
    }

    /// [`Self::ack`] of `ack`, no more than [`Self::end`], where the board
    /// [is clean](Self::is_clean_to), and all was sent once: then the records hang in flight in sequence
    /// order, and all of it is newly delivered.
    #[inline]
    pub(super) fn ack_clean(&mut self, ack: AbsSeq, mut each: impl FnMut(&SentSegment)) {
        self.drop_below(ack, |_, first| each(first));
        match self.records.front_mut() {
            Some(first) => (first.prev, self.flight.head) = (NIL, self.base),
            None => self.flight = List::EMPTY,
        }
    }

    /// SACK blocks `(start, end)`, each within `una..=end`; marks the records that they cover
    /// wholly and calls `each` for every one newly marked. Blocks out of range are cut to it.
    ///
    /// Returns the bytes newly SACKed.
    pub fn sack(
        &mut self,
        blocks: &[(AbsSeq, AbsSeq)],
        mut each: impl FnMut(&SentSegment),
    ) -> ByteCount {
        let before = self.sacked();
        let prior = self.holes.high_sacked;
        for &(start, end) in blocks {
            let start = start.max(self.una);
            let end = end.min(self.end);
            if start < end {
                self.sack_block(start, end, prior, &mut each);
            }
        }
        self.sacked() - before
    }

    /// What losses and SACK blocks have left behind is given back, if they have left nothing.
    pub(super) fn let_go_of_holes(&mut self) {
        let settled = |h: &Holes| {
            h.are_filled()
                && h.reno_sacked == 0
                && h.undone <= self.una
                && h.reordering == Reordering::NONE
        };
        if self.holes.as_changed().is_some_and(settled) {
            self.holes.forget();
        }
    }

    /// Bytes that are SACKed.
    pub fn sacked(&self) -> ByteCount {
        ByteCount::from(self.holes.of(Mark::Sacked))
    }

    /// Records that are SACKed; without SACK, the duplicate ACKs that stand for them.
    pub fn sacked_segments(&self) -> u32 {
        self.holes
            .sacked_records
            .saturating_add(self.holes.reno_sacked)
    }

    /// Something is lost, or duplicate ACKs stand for something.
    #[inline]
    pub(super) fn has_holes(&self) -> bool {
        self.holes
            .as_changed()
            .is_some_and(|h| h.of(Mark::Lost) | h.of(Mark::Resent) | h.reno_sacked != 0)
    }

    /// Bytes judged lost, whether or not they were sent again.
    pub fn lost(&self) -> ByteCount {
        ByteCount::from(self.holes.of(Mark::Lost) + self.holes.of(Mark::Resent))
    }

    /// Bytes judged lost, those that were not sent again since twice: any judgement makes it more.
    pub fn condemned(&self) -> ByteCount {
        self.lost() + self.waiting()
    }

    /// Bytes judged lost that were not sent again since.
    fn waiting(&self) -> ByteCount {
        ByteCount::from(self.holes.of(Mark::Lost))
    }

    /// Bytes of which a retransmission is in flight.
    pub fn retransmitted(&self) -> ByteCount {
        ByteCount::from(self.holes.of(Mark::Probed) + self.holes.of(Mark::Resent))
    }

    /// SND.MAX - SND.UNA: `FlightSize` of RFC 5681.
    #[inline]
    pub fn outstanding(&self) -> ByteCount {
        ByteCount::new(self.end - self.una)
    }

    /// Bytes thought to be in the network (RFC 6675 section 4, `SetPipe`): outstanding, less
    /// SACKed and lost, plus retransmissions, less what duplicate ACKs stand for.
    #[inline]
    pub fn pipe(&self) -> ByteCount {
        let outstanding = self.end - self.una;
        let pipe = match self.holes.as_changed() {
            None => outstanding,
            Some(h) => {
                let absent = u64::from(h.of(Mark::Sacked)) + u64::from(h.of(Mark::Lost));
                let pipe = outstanding - absent + u64::from(h.of(Mark::Probed));
                pipe.saturating_sub(h.reno_bytes.into())
            }
        };
        ByteCount::new(pipe)
    }

    /// `pipe`, in segments of whatever size (Linux's `tcp_packets_in_flight`).
    pub fn packets_in_flight(&self) -> u64 {
        let reno = u64::from(self.holes.reno_sacked);
        let packets = if self.lost().is_zero() && self.retransmitted().is_zero() {
            self.records.len() as u64 - u64::from(self.holes.sacked_records)
        } else {
            let of = |record: &Record| match record.mark {
                Mark::Lost | Mark::Sacked => 0,
                Mark::Sent | Mark::Resent => 1,
                Mark::Probed => 2,
            };
            self.records.iter().map(of).sum()
        };
        packets.saturating_sub(reno)
    }

    /// One past the highest SACKed sequence number.
    pub fn highest_sacked(&self) -> Option<AbsSeq> {
        (self.holes.of(Mark::Sacked) > 0).then_some(self.holes.high_sacked)
    }

    /// Undo of a spurious timeout or recovery: nothing is lost after all. A record that was
    /// sent again counts twice in flight.
    pub fn clear_lost(&mut self) {
        for record in &mut self.records {
            record.mark = match (record.mark, record.is_absent()) {
                (Mark::Lost, false) => Mark::Sent,
                (Mark::Resent, false) => Mark::Probed,
                (Mark::Resent, true) => {
                    // The one copy there is.
                    record.set_absent(false);
                    Mark::Sent
                }
                (other, _) => other,
            };
        }
        self.holes.undone = self.end;
        self.rebuild();
    }

    /// The peer dropped data that it had SACKed (RFC 2018 section 8): forget all SACK marks.
    pub fn reset_sacked(&mut self) {
        for record in &mut self.records {
            if record.mark == Mark::Sacked {
                record.mark = Mark::Sent;
            }
        }
        if let Some(holes) = self.holes.changed() {
            holes.high_sacked = 0;
        }
        self.rebuild();
    }

    /// Asks for the records of what is outstanding, of no more than a first window, and for what is known
    /// of holes.
    pub(super) fn ask_for(&self) {
        let (first, others) = self.records.as_slices();
        for records in [first, others] {
            if let Some(record) = records.first() {
                prefetch_span(record, size_of_val(records).min(10 * Self::RECORD_MEMORY));
            }
        }
        prefetch_any(self.holes.as_changed());
    }

    /// Reads a word of each cache line that an ACK of new data touches, as
    /// [`Sender::bring_in`](crate::recovery::Sender::bring_in).
    #[inline]
    pub(in crate::recovery) fn bring_in(&self) -> u64 {
        let of = |record: Option<&Record>| record.map_or(0, |r| u64::from(r.next));
        self.una
            ^ u64::from(self.holes.reno_bytes)
            ^ u64::from(self.base)
            ^ of(self.records.front())
            ^ of(self.records.back())
    }

    /// The lowest record that is lost and not sent again since.
    #[inline]
    pub fn next_lost(&self) -> Option<SentSegment> {
        self.numbered(self.holes.waiting.head)
    }

    /// The lowest record.
    #[inline]
    pub fn first(&self) -> Option<SentSegment> {
        self.records.front().map(|r| r.view(self.una))
    }

    /// The highest record that is not SACKed. Walks down over what is SACKed at the top.
    pub fn last_unsacked(&self) -> Option<SentSegment> {
        self.iter().rev().find(|r| !r.is_sacked())
    }

    /// The record that starts at `start`.
    pub fn get(&self, start: AbsSeq) -> Option<SentSegment> {
        self.find(start).map(|index| self.view(index))
    }

    /// The lowest record that is not SACKed and starts at `from` or above.
    pub fn next_unsacked(&mut self, from: AbsSeq) -> Option<SentSegment> {
        let index = self.first_from(from);
        let index = self.skip_sacked(index);
        (index < self.records.len()).then(|| self.view(index))
    }

    /// All records in sequence order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = SentSegment> + ExactSizeIterator + '_ {
        self.records.iter().map(|r| r.view(self.start(r)))
    }

    /// Of the records in flight the one transmitted longest ago.
    #[inline]
    pub fn oldest_in_flight(&self) -> Option<SentSegment> {
        self.numbered(self.flight.head)
    }

    /// The path MTU shrank: splits what is longer than `mss`. Walks all records.
    ///
    /// # Panics
    /// If `mss` is zero.
    pub fn split_at_mss(&mut self, mss: ByteCount) {
        assert!(!mss.is_zero(), "segments have a size");
        if self.iter().all(|r| r.len() <= mss) {
            return;
        }
        let longest = u16::try_from(mss.get()).unwrap_or(u16::MAX);
        let old = std::mem::take(&mut self.records);
        for mut record in old {
            let mut left = record.len;
            while left > 0 {
                record.len = left.min(longest);
                left -= record.len;
                self.records.push_back(record);
                record.start = record.start.wrapping_add(u32::from(record.len));
            }
        }
        self.base = 0;
        self.rebuild();
    }

    /// How many segments the duplicate ACKs stand for, on a connection without SACK.
    pub fn reno_sacked(&self) -> u32 {
        self.holes.reno_sacked
    }

    /// Without SACK each duplicate ACK says that one segment has left the network
    /// (RFC 5681 section 3.2): `segments` of `mss` bytes.
    pub fn set_reno_sacked(&mut self, segments: u32, mss: ByteCount) {
        if segments == 0 && self.holes.is_as_it_began() {
            return;
        }
        self.holes.reno_sacked = segments;
        let bytes = mss.get().saturating_mul(u64::from(segments));
        self.holes.reno_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    }

    /// A segment that starts at `start` was delivered after a later one, though data up to
    /// `highest` had been SACKed before. [`Self::ack`] and [`Self::sack`] see it of what was sent
    /// once; of the rest it takes other evidence which copy arrived.
    pub fn note_overtaken(&mut self, start: AbsSeq, highest: AbsSeq) {
        let reordering = &mut self.holes.reordering;
        reordering.segments += 1;
        let extent = ByteCount::new(highest.saturating_sub(start));
        reordering.extent = reordering.extent.max(extent);
    }

    /// What was seen of reordering.
    pub fn reordering(&self) -> Reordering {
        self.holes.reordering
    }
}
