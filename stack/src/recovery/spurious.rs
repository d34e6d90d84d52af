//! Was the last reduction needed? F-RTO (RFC 5682), Eifel (RFC 3522, RFC 4015), D-SACK (RFC 3708).

use super::ack::{AckInput, Delivered};
use super::scoreboard::{AbsSeq, SentSegment};
use crate::sparse::Sparse;
use narrows_congestion::{ByteCount, Spurious};

/// What must be remembered to find out that a reduction was unfounded.
#[derive(Clone, Debug)]
pub(super) struct UndoRecord {
    /// Which kind of reduction.
    pub(super) kind: Spurious,
    /// In this window D-SACKs prove nothing (RFC 3708 section 3).
    ambiguous: bool,
    /// A D-SACK has come since the reduction: the peer tells of duplicates.
    peer_tells: bool,
    /// The reduction was taken back.
    pub(super) taken_back: bool,
    /// What was outstanding when it was is acknowledged: the round trip after that one has begun.
    second: bool,
    /// Where the first retransmission starts, and its TSval, where timestamps are on.
    first: Option<(AbsSeq, Option<u32>)>,
    /// SND.UNA and SND.NXT when it was made: evidence about other data says nothing.
    range: (AbsSeq, AbsSeq),
    /// Up to where an earlier reduction had answered.
    pub(super) answered: AbsSeq,
    /// SND.NXT when the episode ended: once that is acknowledged nothing more will be heard of
    /// its retransmissions.
    ended: Sparse<AbsSeq>,
    copies: Vec<Copied>,
}

/// Whether what a reduction that was taken back had repaired beyond its window was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RepairedBeyond {
    /// It is not known yet.
    Undecided,
    /// Some of it was.
    Lost,
    /// Nothing says so.
    Unproven,
}

/// A segment that was retransmitted, for D-SACKs to account for (RFC 3708 section 3). In eight bytes:
/// of a window with many there are as many of these.
#[derive(Clone, Copy, Debug)]
struct Copied {
    /// Where it starts, beyond SND.UNA as it was at the reduction. In an episode less than two windows
    /// leave.
    at: u32,
    len: u16,
    /// A D-SACK has reported some of it.
    reported: bool,
    /// A D-SACK has reported all of it.
    duplicate: bool,
}

/// Copies that room is made for at least: allocators give no less than three words.
const LEAST_COPIES: usize = 3;

impl Copied {
    fn span(&self, una: AbsSeq) -> (AbsSeq, AbsSeq) {
        let start = una + u64::from(self.at);
        (start, start + u64::from(self.len))
    }
}

impl UndoRecord {
    /// A reduction of `kind` is made now, with `una..nxt` outstanding.
    pub(super) fn new(kind: Spurious, una: AbsSeq, nxt: AbsSeq, answered: AbsSeq) -> Self {
        Self {
            kind,
            ambiguous: false,
            peer_tells: false,
            taken_back: false,
            second: false,
            first: None,
            range: (una, nxt),
            answered,
            ended: Sparse::NONE,
            copies: Vec::new(),
        }
    }

    /// The copies of what left after the reduction: that was not answered for, and if the reduction is
    /// taken back, nothing has answered for it.
    fn beyond(&self) -> impl Iterator<Item = &Copied> {
        let (una, nxt) = self.range;
        self.copies
            .iter()
            .filter(move |copy| copy.span(una).0 >= nxt)
    }

    /// Which of the copies a D-SACK would be of is not known. Those of the next window are still
    /// listened for.
    fn ambiguous(&mut self) {
        // Once it is, only those are added.
        if core::mem::replace(&mut self.ambiguous, true) {
            return;
        }
        let (una, nxt) = self.range;
        self.copies.retain(|copy| copy.span(una).0 >= nxt);
        self.copies.shrink_to_fit();
    }

    /// A segment is retransmitted with this TSval; so many bytes that are lost wait for it yet.
    pub(super) fn on_retransmit(
        &mut self,
        segment: &SentSegment,
        tsval: Option<u32>,
        waiting: ByteCount,
    ) {
        if self.ended.is_some() {
            return;
        }
        self.first.get_or_insert((segment.start, tsval));
        if segment.was_retransmitted() {
            // Step A.3.
            return self.ambiguous();
        }
        if self.ambiguous && segment.start < self.range.1 {
            return;
        }
        if self.copies.len() == self.copies.capacity() {
            // Doubled, but no more than are known of.
            let known = 1 + waiting.get().div_ceil(segment.len().get().max(1)) as usize;
            let doubled = self.copies.len().max(LEAST_COPIES);
            let more = known.clamp(2, doubled);
            self.copies.reserve_exact(more);
        }
        self.copies.push(Copied {
            at: (segment.start - self.range.0) as u32,
            len: segment.len().get() as u16,
            reported: false,
            duplicate: false,
        });
    }

    /// Recovery is over, with SND.NXT at `nxt`. Only D-SACKs can still tell that it was
    /// unfounded.
    pub(super) fn on_episode_end(&mut self, nxt: AbsSeq) {
        if self.ended.is_none() {
            self.ended = Sparse::some(nxt);
        }
    }

    /// With SND.UNA at `una` no evidence is to be expected any more.
    pub(super) fn is_over(&self, una: AbsSeq) -> bool {
        self.ended.get().is_some_and(|end| una > end)
    }

    /// Whether an ACK that moves SND.UNA to `una` says nothing of it without a D-SACK, nor ends it.
    pub(super) fn awaits_dsack(&self, una: AbsSeq) -> bool {
        !self.taken_back && self.ended.is_some() && !self.is_over(una)
    }

    /// The reduction is taken back, with SND.NXT at `nxt`: what is to be remembered of it, if
    /// anything.
    pub(super) fn taken_back(mut self, nxt: AbsSeq) -> Option<Self> {
        self.beyond().next()?;
        self.taken_back = true;
        self.ended = Sparse::some(nxt);
        Some(self)
    }

    /// The reduction was taken back, and now SND.UNA is `una`, SND.NXT `nxt`: whether some of what it had
    /// repaired beyond its window was lost, once that is known. Of a segment that was sent twice a peer
    /// that tells of duplicates reports one, unless either was lost. That has come once what left after
    /// the undo is acknowledged; a round trip more is for what the network reorders.
    pub(super) fn repaired_beyond(&mut self, una: AbsSeq, nxt: AbsSeq) -> RepairedBeyond {
        if !self.is_over(una) {
            return RepairedBeyond::Undecided;
        }
        if !core::mem::replace(&mut self.second, true) {
            self.ended = Sparse::some(nxt);
            return RepairedBeyond::Undecided;
        }
        match self.peer_tells && self.beyond().any(|copy| !copy.reported) {
            true => RepairedBeyond::Lost,
            false => RepairedBeyond::Unproven,
        }
    }

    /// Eifel detection (RFC 3522 section 3.2): an ACK that moves SND.UNA to `una`, past the first
    /// retransmission, echoes a timestamp older than it, so the original arrived. An ACK that stops
    /// short of it is of a hole that an earlier episode has filled, and says nothing.
    pub(super) fn eifel(&self, una: AbsSeq, tsecr: Option<u32>) -> bool {
        let (Some((start, Some(retransmitted))), Some(echoed)) = (self.first, tsecr) else {
            return false;
        };
        let older = (echoed.wrapping_sub(retransmitted) as i32) < 0;
        older && self.ended.is_none() && una > start
    }

    /// D-SACK detection (RFC 3708 section 3): every retransmission of the episode, each made once,
    /// has been reported as a duplicate. Call it for each D-SACK, `[start, end)`.
    ///
    /// `first_news`: it begins at SND.UNA, and nothing of the window was SACKed before. Then all
    /// of its acknowledgements were lost (step A.1), and nothing is undone; unless the window was
    /// one segment, whose acknowledgement may only have been delayed.
    pub(super) fn on_dsack(&mut self, (start, end): (AbsSeq, AbsSeq), first_news: bool) -> bool {
        self.peer_tells = true;
        let of_window = start >= self.range.0 && end <= self.range.1;
        if of_window && first_news && end < self.range.1 {
            self.ambiguous();
        }
        let mut retransmitted = false;
        for copy in &mut self.copies {
            let (from, to) = copy.span(self.range.0);
            let some = start < to && from < end;
            retransmitted |= some;
            copy.reported |= some;
            copy.duplicate |= of_window && start <= from && to <= end;
        }
        if !of_window || self.ambiguous {
            return false;
        }
        if !retransmitted {
            // Step A.4: the network duplicates, or it is a copy that left before the reduction.
            self.ambiguous();
        }
        retransmitted && self.copies.iter().all(|copy| copy.duplicate)
    }
}

/// Where F-RTO (RFC 5682) stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Frto {
    /// Not running.
    #[default]
    Off,
    /// Step 1 is done: the first segment was retransmitted, its acknowledgement is awaited.
    Retransmitted,
    /// Step 2b: up to two new segments are to be sent before any further retransmission.
    SendNew {
        /// How many have left.
        sent: u8,
    },
}

impl Frto {
    /// Takes one acknowledgement, with what it delivered (RFC 5682 sections 2.1 and 3.1): whether it tells
    /// that the timeout was spurious. `sack`: SACK is in use.
    ///
    /// `recover`, `RecoveryPoint`: one past the highest sequence number sent before the timeout. The RFC
    /// takes it at the first acknowledgement, before which nothing new has left; should a congestion
    /// control let something out, that is no sign of what was sent before.
    pub(super) fn on_ack(
        &mut self,
        input: &AckInput<'_>,
        seen: &Delivered,
        recover: AbsSeq,
        sack: bool,
    ) -> bool {
        let advanced = seen.advanced;
        // RFC 5681 section 2, or new SACK information.
        let duplicate = !seen.newly_sacked.is_zero() || (!advanced && input.pure);
        match *self {
            Self::Off => false,
            // What neither advances nor is a duplicate is waited out, with SACK duplicates as well.
            Self::Retransmitted if !advanced && (sack || !duplicate) => false,
            Self::Retransmitted => {
                // Of a part of what was retransmitted: a peer that divides its ACKs would have the next of
                // them taken for that of an original.
                let whole = advanced && seen.repaired && input.ack < recover;
                *self = match whole && input.can_send_new {
                    true => Self::SendNew { sent: 0 },
                    false => Self::Off,
                };
                false
            }
            Self::SendNew { .. } if !advanced && !duplicate => false,
            Self::SendNew { sent } => {
                let (spurious, undecided) = if sack {
                    let sacked = input.sack.iter().map(|block| block.1);
                    let before = sacked.fold(input.ack, AbsSeq::max) <= recover;
                    // Undecided if it acknowledges no segment whole.
                    (before && seen.original, before && !duplicate)
                } else {
                    (advanced && sent > 0, false)
                };
                if spurious || !undecided {
                    *self = Self::Off;
                }
                spurious
            }
        }
    }

    /// Whether new data goes before retransmissions now.
    pub(super) fn wants_new_data(&self) -> bool {
        matches!(self, Self::SendNew { sent: 0..=1 })
    }

    /// Whether retransmissions wait for the verdict: while new segments are to be sent before
    /// them, and when one has been. `new_data`: there is one that may be sent.
    pub(super) fn holds_retransmissions(&self, new_data: bool) -> bool {
        matches!(self, Self::SendNew { sent } if new_data || *sent > 0)
    }

    /// A segment was retransmitted; `first`: the one at SND.UNA. After another, or instead of new
    /// data, the next acknowledgement may be of that and proves nothing.
    pub(super) fn on_retransmit(&mut self, first: bool) {
        if !first || matches!(self, Self::SendNew { .. }) {
            *self = Self::Off;
        }
    }

    /// New data left.
    pub(super) fn on_new_data(&mut self) {
        if let Self::SendNew { sent } = self {
            *sent = sent.saturating_add(1);
        }
    }

    /// New data that counted as sent never left.
    pub(super) fn on_unsent(&mut self) {
        if let Self::SendNew { sent } = self {
            *sent = sent.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::Scoreboard;
    use narrows_congestion::Instant;

    /// One segment that was sent once.
    fn board(start: AbsSeq, end: AbsSeq) -> Scoreboard {
        let mut board = Scoreboard::new();
        board.set_start(start);
        board.push(end, Instant::ZERO, 0);
        board
    }

    fn segment(start: AbsSeq, end: AbsSeq) -> SentSegment {
        board(start, end).first().unwrap()
    }

    /// What an acknowledgement tells F-RTO.
    #[derive(Clone, Copy)]
    struct FrtoFacts {
        ack: AbsSeq,
        advanced: bool,
        repaired: bool,
        recover: AbsSeq,
        highest: AbsSeq,
        original_delivered: bool,
        duplicate: bool,
        sack: bool,
        can_send_new: bool,
    }

    #[derive(Debug, PartialEq)]
    enum FrtoVerdict {
        Conventional,
        Undecided,
        Spurious,
    }

    fn on_ack(frto: &mut Frto, facts: FrtoFacts) -> FrtoVerdict {
        let sack = [(facts.ack, facts.highest)];
        let input = AckInput {
            ack: facts.ack,
            sack: &sack[usize::from(facts.highest == facts.ack)..],
            pure: facts.duplicate,
            can_send_new: facts.can_send_new,
            ..AckInput::default()
        };
        let mut seen = Delivered::to(0);
        seen.advanced = facts.advanced;
        seen.repaired = facts.repaired;
        seen.original = facts.original_delivered;
        seen.newly_sacked = ByteCount::new(u64::from(facts.duplicate && facts.advanced));
        match (frto.on_ack(&input, &seen, facts.recover, facts.sack), *frto) {
            (true, Frto::Off) => FrtoVerdict::Spurious,
            (false, Frto::Off) => FrtoVerdict::Conventional,
            _ => FrtoVerdict::Undecided,
        }
    }

    const ACK: FrtoFacts = FrtoFacts {
        ack: 2_000,
        advanced: true,
        repaired: true,
        recover: 10_000,
        highest: 2_000,
        original_delivered: false,
        duplicate: false,
        sack: false,
        can_send_new: true,
    };

    #[test]
    fn rfc5682_basic_two_advancing_acks_are_spurious() {
        let mut f = Frto::Retransmitted;
        assert_eq!(on_ack(&mut f, ACK), FrtoVerdict::Undecided);
        assert!(f.wants_new_data());
        f.on_new_data();
        f.on_new_data();
        assert!(!f.wants_new_data() && f.holds_retransmissions(false));
        assert_eq!(on_ack(&mut f, ACK), FrtoVerdict::Spurious);
        assert_eq!(f, Frto::Off);
    }

    #[test]
    fn rfc5682_duplicate_at_either_step_is_conventional() {
        let dup = FrtoFacts {
            advanced: false,
            duplicate: true,
            ..ACK
        };
        let mut f = Frto::Retransmitted;
        assert_eq!(on_ack(&mut f, dup), FrtoVerdict::Conventional);
        let mut f = Frto::Retransmitted;
        on_ack(&mut f, ACK);
        f.on_new_data();
        assert_eq!(on_ack(&mut f, dup), FrtoVerdict::Conventional);
    }

    #[test]
    fn rfc5682_without_new_data_no_verdict_is_possible() {
        let mut f = Frto::Retransmitted;
        assert_eq!(
            on_ack(
                &mut f,
                FrtoFacts {
                    can_send_new: false,
                    ..ACK
                }
            ),
            FrtoVerdict::Conventional
        );
    }

    #[test]
    fn eifel_compares_on_the_circle() {
        let mut u = UndoRecord::new(Spurious::Timeout, 0, 9, 0);
        assert!(!u.eifel(9, Some(5)));
        u.on_retransmit(&segment(0, 5), Some(2), ByteCount::ZERO);
        u.on_retransmit(&segment(5, 9), Some(9), ByteCount::ZERO);
        assert!(u.eifel(5, Some(u32::MAX)) && u.eifel(5, Some(1)));
        assert!(!u.eifel(5, Some(2)) && !u.eifel(5, Some(3)) && !u.eifel(5, None));
    }

    /// A hole that was repaired in the episode before is acknowledged after this one began: that
    /// is older than its retransmissions, and no evidence about them.
    #[test]
    fn an_ack_short_of_the_retransmission_says_nothing_of_it() {
        let mut u = UndoRecord::new(Spurious::FastRetransmit, 100, 900, 0);
        u.on_retransmit(&segment(500, 600), Some(70), ByteCount::ZERO);
        assert!(!u.eifel(200, Some(60)) && !u.eifel(500, Some(60)));
        assert!(u.eifel(501, Some(60)));
    }

    #[test]
    fn dsack_must_account_for_every_retransmission() {
        let mut u = UndoRecord::new(Spurious::FastRetransmit, 100, 900, 0);
        u.on_retransmit(&segment(100, 200), None, ByteCount::ZERO);
        u.on_retransmit(&segment(200, 300), None, ByteCount::ZERO);
        assert!(!u.on_dsack((100, 200), false));
        assert!(!u.on_dsack((100, 200), false), "its ACK came twice");
        assert!(
            !u.on_dsack((0, 100), false) && !u.on_dsack((900, 1000), false),
            "of other data"
        );
        assert!(!u.on_dsack((250, 260), false), "a part");
        u.on_episode_end(950);
        u.on_retransmit(&segment(300, 400), None, ByteCount::ZERO);
        assert!(!u.is_over(950) && u.is_over(951));
        assert!(u.on_dsack((200, 300), false));
    }

    /// Step A.1 of RFC 3708 section 3, and a D-SACK for several segments at once.
    #[test]
    fn rfc3708_a1_a_dsack_that_is_the_first_news_of_the_window_proves_nothing() {
        let record = || {
            let mut u = UndoRecord::new(Spurious::Timeout, 100, 900, 0);
            u.on_retransmit(&segment(200, 300), None, ByteCount::ZERO);
            u.on_retransmit(&segment(100, 200), None, ByteCount::ZERO);
            u
        };
        assert!(record().on_dsack((100, 300), false));
        let mut u = record();
        assert!(!u.on_dsack((100, 300), true));
        assert!(!u.on_dsack((100, 300), false), "nor does what follows");
        let mut lone = UndoRecord::new(Spurious::Timeout, 100, 200, 0);
        lone.on_retransmit(&segment(100, 200), None, ByteCount::ZERO);
        assert!(lone.on_dsack((100, 200), true), "all there was");
    }

    /// Step A.3.
    #[test]
    fn rfc3708_a3_dsacks_of_what_was_retransmitted_twice_prove_nothing() {
        let mut u = UndoRecord::new(Spurious::Timeout, 100, 900, 0);
        let mut board = board(100, 200);
        u.on_retransmit(&board.first().unwrap(), None, ByteCount::ZERO);
        board.on_retransmit(100, Instant::ZERO, 0);
        u.on_retransmit(&board.first().unwrap(), None, ByteCount::ZERO);
        assert!(!u.on_dsack((100, 200), false) && !u.on_dsack((100, 200), false));
    }

    /// Step A.4.
    #[test]
    fn rfc3708_a4_a_dsack_of_what_was_not_retransmitted_ends_it() {
        let mut u = UndoRecord::new(Spurious::Timeout, 100, 900, 0);
        u.on_retransmit(&segment(100, 200), None, ByteCount::ZERO);
        assert!(!u.on_dsack((300, 400), false), "the network's copy");
        assert!(!u.on_dsack((100, 200), false));
    }

    /// RFC 5682 section 2.1 step 2b: who could not send anything new learns nothing from the next ACK.
    #[test]
    fn rfc5682_2_1_without_new_data_no_verdict() {
        let ack = FrtoFacts {
            ack: 2_000,
            advanced: true,
            repaired: true,
            recover: 10_000,
            highest: 2_000,
            original_delivered: true,
            duplicate: false,
            sack: false,
            can_send_new: true,
        };
        for (sends, verdict) in [
            (false, FrtoVerdict::Conventional),
            (true, FrtoVerdict::Spurious),
        ] {
            let mut frto = Frto::Retransmitted;
            assert_eq!(on_ack(&mut frto, ack), FrtoVerdict::Undecided);
            if sends {
                frto.on_new_data();
            }
            assert_eq!(on_ack(&mut frto, ack), verdict);
        }
    }
}
