//! What an algorithm promises, and how a broken promise is reported.

use crate::units::{ByteCount, Duration};
use alloc::string::String;
use core::fmt::{self, Write as _};

/// A promise of [`CongestionControl`](crate::CongestionControl) that the kit checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Promise {
    /// The first `cwnd` is the initial window.
    InitialWindow,
    /// `cwnd` is at least one segment, unless `needs().sub_mss_cwnd`.
    MinimumWindow,
    /// No growth on an ACK with `cwnd_limited == false`.
    NoGrowthWhenNotLimited,
    /// No growth in `CaState::Cwr` and `CaState::Recovery`.
    NoGrowthInRecovery,
    /// Growth comes from ACKs, not from congestion, sending, idling or leaving recovery.
    NoGrowthWithoutAck,
    /// `cwnd` grows by no more bytes than were delivered.
    GrowthBounded,
    /// A window-limited flow without congestion grows by a segment in some ten round trips.
    GrowsWhenLimited,
    /// A loss, or a local drop that counts as one, reduces `cwnd`.
    ReducesOnLoss,
    /// The first ECN echo of a flow reduces `cwnd`, and so do those of later windows if whole windows
    /// are marked.
    ReducesOnEcn,
    /// Within a window of data `cwnd` falls once.
    OneCutPerWindow,
    /// `cwnd` comes down to the restart window when sending resumes after a pause.
    RestartsAfterIdle,
    /// `cwnd` comes down to what is asked for when a window proves not to be validated, and when the
    /// host's own device refuses a segment.
    LowersUnvalidatedWindow,
    /// `ssthresh` does not fall when a window is found unused.
    RemembersUnusedWindow,
    /// `ssthresh` stays when the host's own device refuses a segment.
    KeepsSsthreshOnRefusal,
    /// A timeout leaves `cwnd` at no more than one segment.
    LossWindow,
    /// Loss and the first timeout set `ssthresh` below the old window, to two segments or more.
    LowersSsthresh,
    /// A further timeout in a row leaves `ssthresh` alone.
    KeepsSsthreshOnBackoff,
    /// Slow start refills the window after a timeout.
    GrowsAfterTimeout,
    /// Undoing a reduction restores no more than was there before.
    UndoBounded,
    /// `cwnd` changes only inside calls.
    ChangesOnlyInCalls,
    /// The same calls give the same answers.
    Deterministic,
    /// Only differences of times matter.
    TimeInvariant,
    /// With all byte counts doubled, windows double.
    ScalesWithMss,
    /// A pacing rate is never zero.
    PacingPositive,
    /// The name is lower case, not empty, and always the same.
    StableName,
}

impl Promise {
    /// The section that asks for it.
    #[inline]
    pub fn source(self) -> &'static str {
        match self {
            Self::InitialWindow => "RFC 5681 section 3.1, RFC 6928 section 2",
            Self::MinimumWindow => "RFC 5681 section 3.1; CongestionControl",
            Self::NoGrowthWhenNotLimited => "RFC 7661 section 1, RFC 9438 section 5.8",
            Self::NoGrowthInRecovery => "RFC 5681 section 3.2, RFC 9937",
            Self::NoGrowthWithoutAck => "RFC 5681 section 3.1",
            Self::GrowthBounded => "RFC 5681 equation 2, RFC 3465 section 2",
            Self::GrowsWhenLimited => "RFC 5681 section 3.1",
            Self::ReducesOnLoss => "RFC 5681 section 3.2",
            Self::ReducesOnEcn => "RFC 3168 section 6.1.2, RFC 8257 section 3.4",
            Self::OneCutPerWindow => "RFC 3168 section 6.1.2, RFC 8257 section 3.5",
            Self::RestartsAfterIdle => "RFC 5681 section 4.1",
            Self::LowersUnvalidatedWindow => {
                "RFC 2861 section 3.2, RFC 7661 sections 4.4.1 and 4.4.3"
            }
            Self::RemembersUnusedWindow => "RFC 2861 section 3.2, RFC 7661 section 4.4.3",
            Self::KeepsSsthreshOnRefusal => "Lower::Refused",
            Self::LossWindow => "RFC 5681 section 3.1 (loss window)",
            Self::LowersSsthresh => "RFC 5681 equation 4",
            Self::KeepsSsthreshOnBackoff => "RFC 5681 section 3.1 (retransmitted segment)",
            Self::GrowsAfterTimeout => "RFC 5681 section 3.1 (slow start after loss)",
            Self::UndoBounded => "RFC 4015 section 3.2, RFC 9438 section 4.9",
            Self::ChangesOnlyInCalls | Self::Deterministic | Self::TimeInvariant => {
                "CongestionControl: no clock, no randomness"
            }
            Self::ScalesWithMss => "RFC 5681 section 2 (windows are bytes)",
            Self::PacingPositive => "CongestionControl::pacing_rate",
            Self::StableName => "CongestionControl::name",
        }
    }
}

/// A broken promise, where it broke and what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// What was promised.
    pub promise: Promise,
    /// The scripted flow in which it broke.
    pub scenario: &'static str,
    /// The segment size of that flow.
    pub mss: ByteCount,
    /// The round-trip time of that flow.
    pub rtt: Duration,
    /// The number of the call, from 1; 0 for the flow as a whole.
    pub step: usize,
    /// What was seen.
    pub detail: String,
}

impl fmt::Display for Violation {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}: {} [{}] in '{}', MSS {}, RTT {}, call {}",
            self.promise,
            self.detail,
            self.promise.source(),
            self.scenario,
            self.mss,
            self.rtt,
            self.step
        )
    }
}

impl core::error::Error for Violation {}

/// One violation a line.
#[inline]
pub(super) fn list<V: fmt::Display>(violations: &[V]) -> String {
    let mut text = String::from("broken promises:");
    for v in violations {
        // Writing into a String cannot fail.
        let _ = write!(text, "\n  {v}");
    }
    text
}
