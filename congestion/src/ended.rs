//! The end of the initial slow start by congestion, and its resumption where that was none.

/// Whether congestion has ended the initial slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    No,
    /// The last one did, which may turn out to be none.
    Last,
    /// One before the last.
    Before,
}

impl Ended {
    /// Congestion, or a timeout.
    pub(crate) fn finish(&mut self) {
        *self = match self {
            Self::No => Self::Last,
            Self::Last | Self::Before => Self::Before,
        };
    }

    /// The last of these was none.
    pub(crate) fn resume(&mut self) {
        if *self == Self::Last {
            *self = Self::No;
        }
    }
}
