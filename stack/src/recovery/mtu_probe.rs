//! A probe of the path's MTU is a segment of new data that is larger than others (RFC 4821 section
//! 10.1): its loss alone is no sign of congestion, and it never leaves twice in one piece.

use super::scoreboard::AbsSeq;

/// What became of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeFate {
    /// It arrived.
    Delivered,
    /// It was lost, and nothing else.
    Lost,
    /// It was lost with others, or sent again on suspicion.
    Inconclusive,
    /// It was sent again after a timeout.
    TimedOut,
}

/// A probe, from its sending until somebody has asked what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MtuProbe {
    pub(super) start: AbsSeq,
    pub(super) end: AbsSeq,
    /// `None`: outstanding.
    pub(super) fate: Option<ProbeFate>,
}
