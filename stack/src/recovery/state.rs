//! Where loss recovery stands: the episodes, and what each owns.

use super::prr::Prr;
use super::spurious::Frto;
use narrows_congestion::{ByteCount, CaState};

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
