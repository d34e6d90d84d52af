//! How episodes of loss recovery begin and end.

use super::rare::Rare;
use super::sender::Sender;
use super::state::Episode;
use crate::config::RecoverySending;
use crate::trace::{Trace, TraceEvent};
use narrows_congestion::{CaState, CongestionControl, Instant, Lower, RtoPolicy};

impl<C: CongestionControl, R: RtoPolicy> Sender<C, R> {
    /// The episode becomes another.
    #[inline(never)] // A few times an episode.
    pub(super) fn enter(&mut self, episode: Episode, trace: &mut impl Trace) {
        let (from, to) = (self.episode.state(), episode.state());
        if from != to {
            trace(TraceEvent::CaState { from, to });
        }
        self.episode = episode;
    }

    /// No episode is under way any more.
    fn between_episodes(&self) -> Episode {
        if self.board.sacked().is_zero() {
            Episode::Open
        } else {
            Episode::Disorder
        }
    }

    /// Where an undone reduction leaves the sender: reduced if an earlier one is to be answered for.
    pub(super) fn after_undo(&self) -> Episode {
        if self.rare.answered > self.una() {
            Episode::Cwr { prr: None }
        } else {
            self.between_episodes()
        }
    }

    /// SND.UNA has moved: everything outstanding when the episode began may be acknowledged, or
    /// (classic Reno) some of it. Whether the episode is over, and leaves loss beyond what it
    /// answered for.
    #[inline]
    pub(super) fn leave_episode(&mut self, now: Instant, trace: &mut impl Trace) -> bool {
        let complete = self.una() >= self.recover;
        let was = self.episode.state();
        let leave = match was {
            CaState::Open | CaState::Disorder => false,
            CaState::Cwr => complete && (self.una() > self.recover || !self.holds_cuts()),
            CaState::Loss => complete,
            CaState::Recovery => complete || self.detector.exits_on_partial_ack(),
        };
        leave && self.end_episode(was, complete, now, trace)
    }

    /// The episode is over; whether it leaves loss beyond what it answered for.
    #[cold]
    fn end_episode(
        &mut self,
        was: CaState,
        complete: bool,
        now: Instant,
        trace: &mut impl Trace,
    ) -> bool {
        let lost_beyond = std::mem::take(&mut self.rare.lost_beyond);
        self.force_one = false;
        // The D-SACKs for what was retransmitted may be still to come.
        if let Some(undo) = Rare::undo(&mut self.rare) {
            undo.on_episode_end(self.board.end());
        }
        self.dup_acks = 0;
        if !self.policy.sack {
            self.board.set_reno_sacked(0, self.mss);
        }
        if !complete {
            // What classic Reno leaves behind is found by new duplicate ACKs or the timer.
            self.board.clear_lost();
        }
        self.board.let_go_of_holes();
        self.enter(self.between_episodes(), trace);
        if was != CaState::Cwr {
            self.with_cc(now, |cc, view| cc.on_recovery_exit(view));
        }
        self.validate_recovery_end(now);
        // RFC 6582 section 3.2 step 3, first choice: without SACK the losses of the window were
        // in `pipe` until this ACK, and now would all leave at once as new data.
        let counted_losses = !self.policy.sack && self.policy.recovery == RecoverySending::Pipe;
        if was == CaState::Recovery && complete && counted_losses {
            let window = self.board.outstanding().max(self.mss) + self.mss;
            self.lower(window, Lower::Deflate, now);
        }
        lost_beyond
    }
}
