//! When to acknowledge (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2).

use crate::config::AckPolicy;
use crate::wire::Seq;
use narrows_congestion::{Duration, Instant};
use std::collections::VecDeque;

/// At most this many acknowledgements with a past ECE are remembered; a driver that polls after
/// each segment never has more than one.
const MAX_PAST: usize = 16;
/// Quick acknowledgements are granted afresh after this long without data.
const IDLE: Duration = Duration::from_millis(200);

/// What is owed to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owed {
    Nothing,
    /// Data came; wait for more, for data of our own, or for the timer.
    Later,
    Now,
}

/// An acknowledgement of what had come before a congestion mark changed (RFC 8257 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PastAck {
    /// RCV.NXT then, as a stream offset.
    pub(crate) rcv_nxt: u64,
    /// The ECE of that data.
    pub(crate) ece: bool,
}

/// Acknowledgement state of a connection.
#[derive(Debug)]
pub(crate) struct AckState {
    policy: AckPolicy,
    owed: Owed,
    /// Segments received since the last acknowledgement left.
    segments: u32,
    quick: u32,
    last_data: Instant,
    last_sent: Seq,
    past: VecDeque<PastAck>,
}

impl AckState {
    pub(crate) fn new(policy: AckPolicy) -> Self {
        Self {
            policy,
            owed: Owed::Nothing,
            segments: 0,
            quick: policy.quick_acks,
            last_data: Instant::ZERO,
            last_sent: Seq(0),
            past: VecDeque::new(),
        }
    }

    /// In-order data came. `true`: the delayed-ACK timer must run.
    pub(crate) fn on_data(&mut self, now: Instant) -> bool {
        if now.since(self.last_data) > IDLE {
            self.quick = self.policy.quick_acks;
        }
        self.last_data = now;
        self.segments += 1;
        let quick = self.quick > 0;
        self.quick = self.quick.saturating_sub(1);
        if quick || self.policy.delay.is_zero() || self.segments >= self.policy.every {
            self.owed = Owed::Now;
        }
        if self.owed == Owed::Nothing {
            self.owed = Owed::Later;
        }
        self.owed == Owed::Later
    }

    /// Data out of order or not new came: acknowledge at once (RFC 5681 section 4.2), and the
    /// next segments too, since the sender is recovering.
    pub(crate) fn on_disorder(&mut self) {
        self.quick = self.quick.max(self.policy.quick_acks);
        self.owed = Owed::Now;
    }

    /// The congestion mark of arriving data changed while RCV.NXT is `rcv_nxt`: what is owed for
    /// earlier data leaves with its own ECE, and this segment is acknowledged at once.
    pub(crate) fn on_mark_flip(&mut self, rcv_nxt: u64, ece_before: bool) {
        if self.owed != Owed::Nothing && self.segments > 0 {
            if self.past.len() == MAX_PAST {
                self.past.pop_front();
            }
            self.past.push_back(PastAck { rcv_nxt, ece: ece_before });
            self.segments = 0;
        }
        self.owed = Owed::Now;
    }

    /// Acknowledge at once.
    pub(crate) fn force(&mut self) {
        self.owed = Owed::Now;
    }

    /// An acknowledgement must leave even without data.
    pub(crate) fn is_due(&self) -> bool {
        self.owed == Owed::Now
    }

    /// The next acknowledgement of the past, to leave before anything else.
    pub(crate) fn take_past(&mut self) -> Option<PastAck> {
        self.past.pop_front()
    }

    /// A segment with SEG.ACK `ack` leaves, which settles what is owed.
    pub(crate) fn on_sent(&mut self, ack: Seq) {
        self.last_sent = ack;
        self.owed = Owed::Nothing;
        self.segments = 0;
    }

    /// Last.ACK.sent of RFC 7323 section 4.3.
    pub(crate) fn last_sent(&self) -> Seq {
        self.last_sent
    }

    /// Nothing is owed any more.
    pub(crate) fn clear(&mut self) {
        self.owed = Owed::Nothing;
        self.past.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }
    const DELAYED: AckPolicy =
        AckPolicy { delay: Duration::from_millis(40), every: 2, quick_acks: 0 };

    #[test]
    fn every_second_segment() {
        let mut a = AckState::new(DELAYED);
        assert!(a.on_data(at(1)));
        assert!(!a.is_due());
        assert!(!a.on_data(at(1)));
        assert!(a.is_due());
        a.on_sent(Seq(9));
        assert!(!a.is_due());
        assert_eq!(a.last_sent(), Seq(9));
    }

    #[test]
    fn quick_acks_at_the_start_and_after_idling() {
        let mut a = AckState::new(AckPolicy { quick_acks: 2, ..DELAYED });
        for _ in 0..2 {
            a.on_data(at(1));
            assert!(a.is_due());
            a.on_sent(Seq(0));
        }
        a.on_data(at(2));
        assert!(!a.is_due());
        a.on_sent(Seq(0));
        a.on_data(at(500));
        assert!(a.is_due());
    }

    #[test]
    fn a_mark_flip_splits_the_acknowledgement() {
        let mut a = AckState::new(DELAYED);
        a.on_data(at(1));
        a.on_mark_flip(1_000, false);
        assert!(!a.on_data(at(1)));
        assert_eq!(a.take_past(), Some(PastAck { rcv_nxt: 1_000, ece: false }));
        assert!(a.is_due());
        // Nothing owed before: nothing to split.
        a.on_sent(Seq(0));
        a.on_mark_flip(2_000, true);
        assert_eq!(a.take_past(), None);
    }
}
