//! Where loss recovery stands: the episodes, and what each owns.

use super::prr::Prr;
use super::spurious::Frto;
use narrows_congestion::CaState;

/// An episode, and what ends with it. The states are those of [`CaState`], in its order.
#[derive(Debug)]
#[repr(u8)] // So that `state` takes the discriminant as it is. Fields are laid out as declared.
pub(super) enum Episode {
    Open,
    Disorder,
    Cwr {
        /// Data beyond what the window has answered for is lost: the next window's loss, for which
        /// it answers when the episode is over (RFC 5681 section 4.3, RFC 6675 section 5).
        lost_beyond: bool,
        /// How much leaves meanwhile; `None`: what the window admits.
        prr: Option<Box<Prr>>,
    },
    Recovery {
        /// As of `Cwr`.
        lost_beyond: bool,
        partial_acks: u32,
        /// As of `Cwr`.
        prr: Option<Box<Prr>>,
    },
    Loss {
        frto: Frto,
        /// As of `Cwr`.
        lost_beyond: bool,
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
            Self::Cwr { prr, .. } | Self::Recovery { prr, .. } => prr.as_deref(),
            Self::Open | Self::Disorder | Self::Loss { .. } => None,
        }
    }

    #[inline]
    pub(super) fn prr_mut(&mut self) -> Option<&mut Prr> {
        match self {
            Self::Cwr { prr, .. } | Self::Recovery { prr, .. } => prr.as_deref_mut(),
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

    pub(super) fn end_frto(&mut self) {
        if let Some(frto) = self.frto_mut() {
            *frto = Frto::Off;
        }
    }

    /// Takes what says how much leaves from where it is.
    pub(super) fn take_prr(&mut self) -> Option<Box<Prr>> {
        match self {
            Self::Cwr { prr, .. } | Self::Recovery { prr, .. } => prr.take(),
            Self::Open | Self::Disorder | Self::Loss { .. } => None,
        }
    }

    /// Whether there is loss beyond what the window has answered for.
    pub(super) fn lost_beyond(&self) -> bool {
        match *self {
            Self::Cwr { lost_beyond, .. }
            | Self::Recovery { lost_beyond, .. }
            | Self::Loss { lost_beyond, .. } => lost_beyond,
            Self::Open | Self::Disorder => false,
        }
    }

    /// Whether there is from now on; nothing to remember where no episode is under way.
    pub(super) fn set_lost_beyond(&mut self, is: bool) {
        match self {
            Self::Cwr { lost_beyond, .. }
            | Self::Recovery { lost_beyond, .. }
            | Self::Loss { lost_beyond, .. } => *lost_beyond = is,
            Self::Open | Self::Disorder => {}
        }
    }
}
