//! Where loss recovery stands: the episodes, and what each owns.

use super::prr::Prr;
use super::spurious::Frto;
use narrows_congestion::CaState;

/// An episode, and what ends with it.
#[derive(Debug, Default)]
pub(super) struct Episode {
    pub(super) state: CaState,
    /// After a timeout.
    pub(super) frto: Frto,
    /// Data beyond what the window has answered for is lost: the next window's loss, for which
    /// it answers when the episode is over (RFC 5681 section 4.3, RFC 6675 section 5).
    pub(super) lost_beyond: bool,
    /// Of a fast recovery without SACK.
    pub(super) partial_acks: u32,
    /// How much leaves while the window is reduced; `None`: what the window admits.
    pub(super) prr: Option<Box<Prr>>,
}

impl Episode {
    /// It begins.
    pub(super) fn new(state: CaState) -> Self {
        Self {
            state,
            ..Self::default()
        }
    }

    /// No loss recovery and no reduction is under way.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.state, CaState::Open | CaState::Disorder)
    }
}
