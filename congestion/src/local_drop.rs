//! Local drops: what a sender concludes when its own device or queue refuses a segment (`ENOBUFS`).
//!
//! No RFC says: RFC 5681 speaks of losses in the network, and a refusal is known at once, to the
//! sender alone. Systems differ, and a [`LocalDropPolicy`] is one such answer. [`LocalDropRule`]
//! has those that are in use; [`LocalDropRegistry`] has them by name, and takes others.
//!
//! ```
//! use narrows_congestion::local_drop::{
//!     LocalDrop, LocalDropAnswer, LocalDropPolicy, LocalDropRegistry,
//! };
//!
//! /// Half of the window.
//! #[derive(Debug)]
//! struct Halve;
//! impl LocalDropPolicy for Halve {
//!     fn name(&self) -> &'static str {
//!         "halve"
//!     }
//!     fn on_local_drop(&self, drop: &LocalDrop) -> LocalDropAnswer {
//!         LocalDropAnswer::Window(drop.cwnd / 2)
//!     }
//! }
//!
//! let mut registry = LocalDropRegistry::standard();
//! registry.register("halve", "half of the window", Halve);
//! assert!(registry.get("halve").is_ok());
//! ```

use crate::flow::CaState;
use crate::registry::Registry;
use crate::units::ByteCount;
use alloc::sync::Arc;
use core::fmt::Debug;

/// Local-drop policies by name.
pub type LocalDropRegistry = Registry<dyn LocalDropPolicy>;

/// What a sender concludes from a refusal. Without state: the same facts give the same answer.
pub trait LocalDropPolicy: Debug + Send + Sync {
    /// The registry name, lower case: `"reset"`.
    fn name(&self) -> &'static str;

    /// A segment was refused.
    fn on_local_drop(&self, drop: &LocalDrop) -> LocalDropAnswer;
}

/// A segment that the device refused, and the sender as it was when it sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalDrop {
    /// Its payload; zero: a mere acknowledgement, or a SYN.
    pub bytes: ByteCount,
    /// The congestion window.
    pub cwnd: ByteCount,
    /// The slow-start threshold; [`ByteCount::MAX`] until the first congestion.
    pub ssthresh: ByteCount,
    /// The effective segment size.
    pub mss: ByteCount,
    /// `pipe` of RFC 6675, the refused segment included.
    pub in_flight: ByteCount,
    /// Where loss recovery stands.
    pub ca_state: CaState,
}

impl LocalDrop {
    /// `bytes` of payload were refused, of a sender with this window and segment size: nothing
    /// else in flight, no congestion yet. Set the fields that matter.
    pub fn new(bytes: ByteCount, cwnd: ByteCount, mss: ByteCount) -> Self {
        Self {
            bytes,
            cwnd,
            ssthresh: ByteCount::MAX,
            mss,
            in_flight: bytes,
            ca_state: CaState::Open,
        }
    }
}

/// What becomes of a refused segment, and of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalDropAnswer {
    /// It counts as sent: the loss recovery finds it, as if the network had dropped it.
    Ignore,
    /// It never left and leaves when there is room. No sign of congestion.
    Requeue,
    /// The same, and congestion control is told
    /// ([`CongestionEvent::LocalDrop`](crate::CongestionEvent::LocalDrop)): at most once for each
    /// window of data, and not during recovery.
    Congestion,
    /// As [`Requeue`](Self::Requeue), and `cwnd` comes down to this, one segment at least; it never
    /// grows by it, and `ssthresh` stays
    /// ([`Lower::Refused`](crate::Lower::Refused)).
    Window(ByteCount),
}

/// The policies that systems have, and what they are compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LocalDropRule {
    /// Send it when there is room, and conclude nothing.
    #[default]
    Requeue,
    /// The window is one segment, whatever was refused, and `ssthresh` stays: BSD's `tcp_output`
    /// (`tcp_quench` in 4.4BSD, the case of `ENOBUFS` in FreeBSD). There the next acknowledgement
    /// or the retransmission timer sends again; here it is the device that tells of room, where
    /// the window admits it.
    Reset,
    /// The window is a segment less than it was.
    MinusSegment,
    /// The window is reduced as for a congestion mark: Linux's `tcp_enter_cwr` after
    /// `tcp_transmit_skb`.
    Congestion,
    /// Pretend that it left.
    Ignore,
}

impl LocalDropRule {
    /// All of them, each with a line that says what it is.
    pub const ALL: [(Self, &'static str); 5] = [
        (
            Self::Requeue,
            "send it when there is room; no sign of congestion",
        ),
        (
            Self::Reset,
            "cwnd is one segment, ssthresh stays: FreeBSD on ENOBUFS",
        ),
        (Self::MinusSegment, "cwnd is one segment less"),
        (
            Self::Congestion,
            "reduce the window as for a mark: Linux's CWR",
        ),
        (Self::Ignore, "it counts as sent: loss recovery finds it"),
    ];
}

impl LocalDropPolicy for LocalDropRule {
    fn name(&self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::Reset => "reset",
            Self::MinusSegment => "minus-segment",
            Self::Congestion => "congestion",
            Self::Ignore => "ignore",
        }
    }

    fn on_local_drop(&self, drop: &LocalDrop) -> LocalDropAnswer {
        match self {
            Self::Requeue => LocalDropAnswer::Requeue,
            Self::Reset => LocalDropAnswer::Window(drop.mss),
            Self::MinusSegment => LocalDropAnswer::Window(drop.cwnd - drop.mss),
            Self::Congestion => LocalDropAnswer::Congestion,
            Self::Ignore => LocalDropAnswer::Ignore,
        }
    }
}

impl Registry<dyn LocalDropPolicy> {
    /// Every [`LocalDropRule`].
    pub fn standard() -> Self {
        let mut r = Self::empty("local-drop policy");
        for (rule, about) in LocalDropRule::ALL {
            r.register(rule.name(), about, rule);
        }
        r
    }

    /// Add a policy. An entry of the same name is replaced.
    pub fn register(&mut self, name: &str, about: &str, policy: impl LocalDropPolicy + 'static) {
        self.register_arc(name, about, Arc::new(policy));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_a_name_of_its_own_and_its_answer() {
        let mss = ByteCount::new(1_000);
        let drop = LocalDrop::new(mss, mss * 10, mss);
        let registry = LocalDropRegistry::standard();
        let answers = ["requeue", "reset", "minus-segment", "congestion", "ignore"]
            .map(|name| registry.get(name).unwrap().on_local_drop(&drop));
        assert_eq!(
            answers,
            [
                LocalDropAnswer::Requeue,
                LocalDropAnswer::Window(mss),
                LocalDropAnswer::Window(mss * 9),
                LocalDropAnswer::Congestion,
                LocalDropAnswer::Ignore,
            ]
        );
        let error = LocalDropRegistry::standard().get("rest").unwrap_err();
        assert_eq!(
            alloc::string::ToString::to_string(&error),
            "no local-drop policy 'rest'; did you mean 'reset'?"
        );
    }
}
