//! Where loss recovery stands: the episodes, what each owns, and how they begin and end.

use super::prr::Prr;
use super::rare::Rare;
use super::sender::Sender;
use super::spurious::Frto;
use crate::config::RecoverySending;
use crate::trace::{Trace, TraceEvent};
use narrows_congestion::{ByteCount, CaState, CongestionControl, Instant, Lower, RtoPolicy};

/// An episode, and what ends with it. The states are those of [`CaState`], in its order.
#[derive(Debug)]
#[repr(u8)] // So that `state` takes the discriminant as it is. Fields are laid out as declared.
pub(super) enum Episode {
    Open,
    Disorder,
    Cwr {
        /// How much leaves meanwhile; `None`: what the window admits.
        prr: Option<Box<Prr>>,
    },
    Recovery {
        partial_acks: u32,
        /// As of `Cwr`.
        prr: Option<Box<Prr>>,
    },
    Loss {
        frto: Frto,
    },
}

impl Episode {
    #[inline]
    pub(super) fn state(&self) -> CaState {
        match self {
            Self::Open => CaState::Open,
            Self::Disorder => CaState::Disorder,
            Self::Cwr { .. } => CaState::Cwr,
            Self::Recovery { .. } => CaState::Recovery,
            Self::Loss { .. } => CaState::Loss,
        }
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    /// No loss recovery and no reduction is under way.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        matches!(self, Self::Open | Self::Disorder)
    }

    #[inline]
    pub(super) fn prr(&self) -> Option<&Prr> {
        match self {
            Self::Cwr { prr } | Self::Recovery { prr, .. } => prr.as_deref(),
            Self::Open | Self::Disorder | Self::Loss { .. } => None,
        }
    }

    #[inline]
    pub(super) fn prr_mut(&mut self) -> Option<&mut Prr> {
        match self {
            Self::Cwr { prr } | Self::Recovery { prr, .. } => prr.as_deref_mut(),
            Self::Open | Self::Disorder | Self::Loss { .. } => None,
        }
    }

    #[inline]
    pub(super) fn frto(&self) -> Frto {
        match self {
            Self::Loss { frto, .. } => *frto,
            _ => Frto::Off,
        }
    }

    #[inline]
    pub(super) fn frto_mut(&mut self) -> Option<&mut Frto> {
        match self {
            Self::Loss { frto, .. } => Some(frto),
            _ => None,
        }
    }

    /// So much has left, of new data or again.
    pub(super) fn on_sent(&mut self, bytes: ByteCount, retransmission: bool) {
        match self {
            Self::Cwr { prr: Some(prr) } | Self::Recovery { prr: Some(prr), .. } => {
                prr.on_sent(bytes)
            }
            Self::Loss { frto } if !retransmission => frto.on_new_data(),
            _ => {}
        }
    }

    pub(super) fn end_frto(&mut self) {
        if let Some(frto) = self.frto_mut() {
            *frto = Frto::Off;
        }
    }
}

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
    /// (classic Reno) some of it. Then the episode is over.
    #[inline]
    pub(super) fn leave_episode(&mut self, now: Instant, trace: &mut impl Trace) {
        let complete = self.una() >= self.recover;
        let was = self.episode.state();
        let leave = match was {
            CaState::Open | CaState::Disorder => false,
            CaState::Cwr => complete && (self.una() > self.recover || !self.holds_cuts()),
            CaState::Loss => complete,
            CaState::Recovery => complete || self.detector.exits_on_partial_ack(),
        };
        if leave {
            self.end_episode(was, complete, now, trace);
        }
    }

    #[cold]
    fn end_episode(&mut self, was: CaState, complete: bool, now: Instant, trace: &mut impl Trace) {
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
    }
}
