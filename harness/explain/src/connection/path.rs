//! The path of a connection: its round-trip time, and where on it the capture was taken.

use super::{Rules, Tracked, UNKNOWN_RTT};
use crate::gap::{Side, Vantage};
use narrows::Duration;

/// Samples of one part of the path after which the other is taken for short.
const SAMPLES: u64 = 8;

impl Tracked {
    /// There is another round-trip time.
    pub(super) fn measure(&mut self) {
        let both = Side::BOTH.into_iter();
        self.path_rtt = both.filter_map(|side| self.total(side)).min();
    }

    /// The threshold follows the RTT.
    pub(crate) fn adapt(&mut self, rules: &Rules) {
        let rtt = self.path_rtt.unwrap_or(UNKNOWN_RTT);
        self.threshold = rtt.mul_ratio(rules.share, 100).max(rules.floor);
    }

    /// The least RTT of `side`: from here to the receiver and back, and from here to the sender and
    /// back. Of a part that nothing passed both ways nothing is known: it counts as short when the other
    /// has been measured often.
    pub(super) fn total(&self, side: Side) -> Option<Duration> {
        let half = &self.half[side.index()];
        let near = match (half.turn, self.half[side.other().index()].rtt.min()) {
            (Some(turn), Some(other)) => Some(turn.min(other)),
            (one, other) => one.or(other),
        };
        let known = near.is_some() || half.rtt.samples() >= SAMPLES;
        half.rtt
            .min()
            .filter(|_| known)
            .map(|far| far + near.unwrap_or_default())
    }

    /// Where the capture was taken, seen from `side`.
    pub(super) fn vantage(&self, side: Side) -> Vantage {
        let half = &self.half[side.index()];
        let other = self.half[side.other().index()].rtt.min();
        let near = match (half.turn, other) {
            (Some(turn), Some(other)) => turn.min(other),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return Vantage::Unknown,
        };
        let Some(far) = half.rtt.min() else {
            return Vantage::Unknown;
        };
        let all = (far + near).as_nanos().max(1);
        match near.as_nanos().saturating_mul(100) / all {
            0..=20 => Vantage::Sender,
            21..=79 => Vantage::Middle,
            _ => Vantage::Receiver,
        }
    }
}
