//! What an ACK proves about the last reduction: if it was unfounded, it is taken back.

use super::ack::{AckInput, Delivered};
use super::rare::Rare;
use super::scoreboard::AbsSeq;
use super::sender::Sender;
use super::spurious::RepairedBeyond;
use crate::trace::{Trace, TraceEvent};
use narrows_congestion::hint::cold_path;
use narrows_congestion::{CongestionControl, Instant, RtoPolicy, Spurious};

impl<C: CongestionControl, R: RtoPolicy> Sender<C, R> {
    /// Looks for it in an ACK, with what that delivered.
    pub(super) fn detect_spurious(
        &mut self,
        input: &AckInput<'_>,
        seen: &Delivered,
        trace: &mut impl Trace,
    ) {
        let (recover, sack) = (self.recover, self.policy.sack);
        if let Some(frto) = self.episode.frto_mut()
            && frto.on_ack(input, seen, recover, sack)
        {
            self.undo_reduction(Spurious::Timeout, input, trace);
            return;
        }
        // RFC 3708 section 3 step A.4: that a D-SACK means a copy of ours is not to be relied on.
        let never_again = |d: (AbsSeq, AbsSeq)| d.0 >= self.rare.retransmitted_to;
        self.network_duplicates |= input.dsack.is_some_and(never_again);
        let Some(undo) = Rare::undo(&mut self.rare) else {
            return;
        };
        let reported = (input.dsack).is_some_and(|d| undo.on_dsack(d, seen.first_news));
        if undo.taken_back {
            self.judge_repaired_beyond(seen, input.now, trace);
            return;
        }
        let spurious = &self.policy.spurious;
        let eifel = spurious.eifel && seen.advanced && undo.eifel(input.ack, input.tsecr);
        let dsack = spurious.dsack && !self.network_duplicates && reported;
        let kind = undo.kind;
        if eifel || dsack {
            cold_path();
            self.undo_reduction(kind, input, trace);
        } else if undo.is_over(input.ack) {
            cold_path();
            self.rare.clear(|rare| &mut rare.undo);
        }
    }

    /// What a reduction that was taken back had repaired of the window after its own is answered for
    /// once it is certain that it was lost (RFC 5681 section 4.3).
    #[cold]
    fn judge_repaired_beyond(&mut self, seen: &Delivered, now: Instant, trace: &mut impl Trace) {
        let Some(undo) = Rare::undo(&mut self.rare) else {
            return;
        };
        let verdict = undo.repaired_beyond(self.board.una(), self.board.end());
        if verdict == RepairedBeyond::Undecided {
            return;
        }
        self.rare.clear(|rare| &mut rare.undo);
        if verdict == RepairedBeyond::Lost {
            self.answer_for_repaired(self.flight_before(seen, now), trace);
        }
    }

    /// Nothing was lost after all: the marks go and the window comes back, unless the same ACK tells
    /// of congestion (RFC 4015 section 3.1 step 9; exact feedback has an answer of its own).
    fn undo_reduction(&mut self, kind: Spurious, input: &AckInput<'_>, trace: &mut impl Trace) {
        let taken_back = !input.ece || input.exact_ecn;
        // What an earlier reduction has answered for stays answered for; and if this one stays,
        // what it has.
        if taken_back {
            let answered = self.rare.undo.as_ref().map(|undo| undo.answered);
            self.rare.answered = answered.unwrap_or(self.una());
        }
        let nxt = self.nxt();
        self.rare.undo = self.rare.undo.take().and_then(|undo| undo.taken_back(nxt));
        self.rare.lost_beyond = false;
        self.force_one = false;
        self.backoff = 0;
        self.board.clear_lost();
        self.detector.on_undo();
        self.dup_acks = 0;
        self.enter(self.after_undo(), trace);
        // What arrives from here on speaks of a window that nothing answered for (RFC 5682
        // sections 2.1 step 3b and 3.1).
        self.recover = self.rare.answered.max(self.una());
        if !taken_back {
            self.with_cc(input.now, |cc, view| cc.on_recovery_exit(view));
            self.validate_recovery_end(input.now);
            return;
        }
        self.rare.counted.undone += 1;
        trace(TraceEvent::Undo(kind));
        self.with_cc(input.now, |cc, view| cc.on_spurious(kind, view));
        self.validate_undo();
    }
}
