//! The ledger of idle gaps, which the command keeps where nothing else is said.

use narrows_experiment::builder::Builder;
use narrows_explain::simulated::LedgerProbe;

/// Whether it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ledger {
    /// It is.
    Kept,
    /// It is left out.
    Left,
}

impl Ledger {
    /// `experiment`, with the ledger if it is kept.
    pub(crate) fn of(self, experiment: Builder<'_>) -> Builder<'_> {
        match self {
            Self::Kept => experiment.with_probe("ledger", LedgerProbe::default()),
            Self::Left => experiment,
        }
    }
}
