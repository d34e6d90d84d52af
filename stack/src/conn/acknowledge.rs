//! When to acknowledge (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2).

use crate::wire::Seq;
use narrows_congestion::hint::cold_path;
use narrows_congestion::{ByteCount, Duration, Instant};
use std::collections::VecDeque;
use std::fmt::Debug;

/// When to acknowledge data (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckPolicy {
    /// Wait at most this long; zero: acknowledge each segment at once.
    pub delay: Duration,
    /// Acknowledge at the latest at the n-th full segment.
    pub every: u32,
    /// Acknowledge this many segments at once at the start of a connection and after an idle
    /// period, so that slow start is not held back.
    pub quick_acks: u32,
}

impl AckPolicy {
    /// An ACK for each segment.
    pub const IMMEDIATE: Self = Self {
        delay: Duration::ZERO,
        every: 1,
        quick_acks: 0,
    };
}

impl Default for AckPolicy {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(40),
            every: 2,
            quick_acks: 16,
        }
    }
}

/// Decides when in-order data is acknowledged.
///
/// The engine acknowledges at once, whatever the policy says, what RFC 5681 section 4.2 and RFC
/// 8257 section 3.2 demand: data out of order, data that fills a gap, duplicates, a change of the
/// congestion mark. [`AckPolicy`] is the policy of the RFCs.
pub trait Acknowledge: Debug + Send {
    /// In-order data arrived.
    fn on_data(&mut self, data: &DataFacts) -> AckWhen;
    /// Data arrived out of order or twice: the peer is recovering.
    fn on_disorder(&mut self, now: Instant) {
        let _ = now;
    }
}

/// What an [`Acknowledge`] policy is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DataFacts {
    /// When it arrived.
    pub now: Instant,
    /// How much became readable.
    pub bytes: ByteCount,
    /// Segments with data since the last acknowledgement left, this one included.
    pub unacknowledged: u32,
    /// The time since data last arrived.
    pub idle: Duration,
}

/// When to acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckWhen {
    /// At once.
    Now,
    /// After this long, unless something else is sent before. A delay that is running already is
    /// not prolonged.
    Within(Duration),
}

/// [`AckPolicy`] by bytes, as Linux has it: an acknowledgement leaves once more has come than
/// `every - 1` full segments hold, or after the delay. So three segments of a byte each wait for the
/// timer, of which the second would be acknowledged at once by a policy that counts segments
/// (RFC 5681 section 4.2 asks for one at every second *full-sized* segment; Linux
/// `__tcp_ack_snd_check`).
#[derive(Clone, Copy, Debug)]
pub struct FullSegments {
    /// Wait at most this long.
    pub delay: Duration,
    /// Full segments.
    pub every: u32,
    /// Payload of a full segment.
    pub full: ByteCount,
    /// What has come since the last acknowledgement left.
    pub pending: ByteCount,
}

impl FullSegments {
    /// At every `every`-th segment of `full` bytes, or after `delay`.
    pub fn new(every: u32, full: ByteCount, delay: Duration) -> Self {
        Self {
            delay,
            every,
            full,
            pending: ByteCount::ZERO,
        }
    }
}

impl Acknowledge for FullSegments {
    fn on_data(&mut self, data: &DataFacts) -> AckWhen {
        let segments = data.bytes.get().div_ceil(self.full.get().max(1));
        if u64::from(data.unacknowledged) <= segments {
            // Nothing was owed before.
            self.pending = ByteCount::ZERO;
        }
        self.pending += data.bytes;
        if self.pending > self.full * u64::from(self.every.saturating_sub(1)) {
            AckWhen::Now
        } else {
            AckWhen::Within(self.delay)
        }
    }
}

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
    /// What came since is owed nothing more, either ([`MarkEffect::Special`]).
    ///
    /// [`MarkEffect::Special`]: super::ecn::MarkEffect::Special
    pub(crate) settles: bool,
}

/// Acknowledgements of the past that are still to leave, oldest first; mostly none.
#[derive(Debug, Default)]
struct Seldom {
    /// Who decides when it is not the RFCs' policy.
    custom: Option<Box<dyn Acknowledge>>,
    acks: VecDeque<PastAck>,
    /// Acknowledgements without data that had left when data last came; counted for
    /// [`AckState::on_special`] only.
    pure_acks: Option<u64>,
}

impl Seldom {
    fn push(&mut self, ack: PastAck) {
        if self.acks.len() == MAX_PAST {
            self.acks.pop_front();
        }
        self.acks.push_back(ack);
    }
}

/// Acknowledgement state of a connection.
#[derive(Debug)]
pub(crate) struct AckState {
    owed: Owed,
    /// What was owed when a segment last left, for when it turns out that it did not.
    settled: Owed,
    /// Segments received since the last acknowledgement left.
    segments: u32,
    /// So many quick acknowledgements are left.
    quick: u32,
    last_data: Instant,
    /// Last.ACK.sent of RFC 7323 section 4.3.
    pub(super) last_sent: Seq,
    seldom: Option<Box<Seldom>>,
}

impl AckState {
    pub(crate) fn new(policy: &AckPolicy, custom: Option<Box<dyn Acknowledge>>) -> Self {
        Self {
            owed: Owed::Nothing,
            settled: Owed::Nothing,
            segments: 0,
            quick: policy.quick_acks,
            last_data: Instant::ZERO,
            last_sent: Seq(0),
            seldom: custom.map(|custom| {
                Box::new(Seldom {
                    custom: Some(custom),
                    ..Seldom::default()
                })
            }),
        }
    }

    /// `bytes` of in-order data came, as many as `segments` full ones have: a device that merges
    /// segments gives them as one. How long the delayed-ACK timer is to run, if it must.
    #[inline]
    pub(crate) fn on_data(
        &mut self,
        policy: &AckPolicy,
        bytes: ByteCount,
        segments: u32,
        now: Instant,
    ) -> Option<Duration> {
        let idle = now.since(self.last_data);
        self.last_data = now;
        self.segments = self.segments.saturating_add(segments);
        let unacknowledged = self.segments;
        let when = match custom(&mut self.seldom) {
            Some(custom) => custom.on_data(&DataFacts {
                now,
                bytes,
                unacknowledged,
                idle,
            }),
            None => by_the_rfc(policy, &mut self.quick, unacknowledged, idle),
        };
        match when {
            AckWhen::Within(delay) if !delay.is_zero() && self.owed != Owed::Now => {
                self.owed = Owed::Later;
                Some(delay)
            }
            _ => {
                self.owed = Owed::Now;
                None
            }
        }
    }

    /// Data out of order or not new came: acknowledge at once (RFC 5681 section 4.2), and the
    /// next segments too, since the sender is recovering.
    pub(crate) fn on_disorder(&mut self, policy: &AckPolicy, now: Instant) {
        match custom(&mut self.seldom) {
            Some(custom) => custom.on_disorder(now),
            None => self.quick = self.quick.max(policy.quick_acks),
        }
        self.owed = Owed::Now;
    }

    /// The congestion mark of arriving data changed while RCV.NXT is `rcv_nxt`: what is owed for
    /// earlier data leaves with its own ECE, and this segment is acknowledged at once.
    pub(crate) fn on_mark_flip(&mut self, rcv_nxt: u64, ece_before: bool) {
        if self.owed != Owed::Nothing && self.segments > 0 {
            self.seldom.get_or_insert_default().push(PastAck {
                rcv_nxt,
                ece: ece_before,
                settles: false,
            });
            self.segments = 0;
        }
        self.owed = Owed::Now;
    }

    /// [`MarkEffect::Special`](super::ecn::MarkEffect::Special) while RCV.NXT is `rcv_nxt`, and
    /// `pure_acks` acknowledgements without data have left in all.
    pub(crate) fn on_special(&mut self, rcv_nxt: u64, flip: Option<bool>, pure_acks: u64) {
        let past = self.seldom.get_or_insert_default();
        let reserved = past.pure_acks.replace(pure_acks) == Some(pure_acks);
        if let Some(ece) = flip.filter(|_| reserved) {
            past.push(PastAck {
                rcv_nxt,
                ece,
                settles: true,
            });
        }
    }

    /// An acknowledgement of the past has left that settles what came since: it counts as come, and
    /// waits for more.
    pub(crate) fn on_settled(&mut self) {
        self.owed = Owed::Nothing;
        self.segments = 1;
    }

    /// Acknowledge at once.
    pub(crate) fn force(&mut self) {
        self.owed = Owed::Now;
    }

    /// An acknowledgement must leave even without data.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.owed == Owed::Now
    }

    /// Whether an older acknowledgement is owed ([`Self::take_past`]).
    #[inline]
    pub(crate) fn has_past(&self) -> bool {
        (self.seldom.as_ref()).is_some_and(|seldom| !seldom.acks.is_empty())
    }

    /// The next acknowledgement of the past, to leave before anything else.
    pub(crate) fn take_past(&mut self) -> Option<PastAck> {
        self.seldom.as_mut()?.acks.pop_front()
    }

    /// A segment with SEG.ACK `ack` leaves, which settles what is owed.
    #[inline]
    pub(crate) fn on_sent(&mut self, ack: Seq) {
        self.last_sent = ack;
        self.settled = core::mem::replace(&mut self.owed, Owed::Nothing);
        self.segments = 0;
    }

    /// The segment that left last did not leave: what it settled is owed again.
    pub(crate) fn on_unsent(&mut self) {
        if self.settled != Owed::Nothing {
            self.force();
        }
    }

    /// Nothing is owed any more.
    pub(crate) fn clear(&mut self) {
        self.owed = Owed::Nothing;
        if let Some(seldom) = &mut self.seldom {
            (seldom.acks, seldom.pure_acks) = (VecDeque::new(), None);
        }
    }
}

/// The user's own policy, if there is one.
#[inline]
fn custom(seldom: &mut Option<Box<Seldom>>) -> Option<&mut (dyn Acknowledge + 'static)> {
    let custom = seldom.as_mut()?.custom.as_deref_mut()?;
    cold_path();
    Some(custom)
}

/// RFC 5681 section 4.2, with `quick` acknowledgements left that are not delayed.
fn by_the_rfc(policy: &AckPolicy, quick: &mut u32, segments: u32, idle: Duration) -> AckWhen {
    if idle > IDLE {
        *quick = policy.quick_acks;
    }
    let at_once = *quick > 0 || segments >= policy.every;
    *quick = quick.saturating_sub(1);
    if at_once {
        AckWhen::Now
    } else {
        AckWhen::Within(policy.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }
    const DELAYED: AckPolicy = AckPolicy {
        delay: Duration::from_millis(40),
        every: 2,
        quick_acks: 0,
    };

    const B: ByteCount = ByteCount::new(1_000);

    #[test]
    fn every_second_segment() {
        let mut a = AckState::new(&DELAYED, None);
        assert_eq!(a.on_data(&DELAYED, B, 1, at(1)), Some(DELAYED.delay));
        assert!(!a.is_due());
        assert_eq!(a.on_data(&DELAYED, B, 1, at(1)), None);
        assert!(a.is_due());
        a.on_sent(Seq(9));
        assert!(!a.is_due());
        assert_eq!(a.last_sent, Seq(9));
    }

    #[test]
    fn quick_acks_at_the_start_and_after_idling() {
        let policy = AckPolicy {
            quick_acks: 2,
            ..DELAYED
        };
        let mut a = AckState::new(&policy, None);
        for _ in 0..2 {
            a.on_data(&policy, B, 1, at(1));
            assert!(a.is_due());
            a.on_sent(Seq(0));
        }
        a.on_data(&policy, B, 1, at(2));
        assert!(!a.is_due());
        a.on_sent(Seq(0));
        a.on_data(&policy, B, 1, at(500));
        assert!(a.is_due());
    }

    #[test]
    fn a_mark_flip_splits_the_acknowledgement() {
        let mut a = AckState::new(&DELAYED, None);
        a.on_data(&DELAYED, B, 1, at(1));
        a.on_mark_flip(1_000, false);
        assert_eq!(a.on_data(&DELAYED, B, 1, at(1)), None);
        assert_eq!(
            a.take_past(),
            Some(PastAck {
                rcv_nxt: 1_000,
                ece: false,
                settles: false,
            })
        );
        assert!(a.is_due());
        // Nothing owed before: nothing to split.
        a.on_sent(Seq(0));
        a.on_mark_flip(2_000, true);
        assert_eq!(a.take_past(), None);
    }

    /// Acknowledges every fourth segment, and says so at once when the peer recovers.
    #[derive(Debug, Default)]
    struct EveryFourth {
        disorder: u32,
    }
    impl Acknowledge for EveryFourth {
        fn on_data(&mut self, data: &DataFacts) -> AckWhen {
            match data.unacknowledged {
                4.. => AckWhen::Now,
                _ => AckWhen::Within(Duration::from_millis(7)),
            }
        }
        fn on_disorder(&mut self, _: Instant) {
            self.disorder += 1;
        }
    }

    #[test]
    fn a_policy_of_the_users_own_decides() {
        let mut a = AckState::new(&DELAYED, Some(Box::new(EveryFourth::default())));
        for _ in 0..3 {
            assert_eq!(
                a.on_data(&DELAYED, B, 1, at(1)),
                Some(Duration::from_millis(7))
            );
            assert!(!a.is_due());
        }
        assert_eq!(a.on_data(&DELAYED, B, 1, at(1)), None);
        assert!(a.is_due());
        a.on_sent(Seq(1));
        a.on_disorder(&DELAYED, at(2));
        assert!(a.is_due(), "the engine acknowledges disorder itself");
    }

    #[test]
    fn what_never_left_settles_nothing_and_owes_nothing_new() {
        let mut a = AckState::new(&DELAYED, None);
        a.on_sent(Seq(0));
        a.on_unsent();
        assert!(!a.is_due(), "nothing was owed");
        a.on_data(&DELAYED, B, 1, at(1));
        for _ in 0..2 {
            a.on_sent(Seq(0));
            assert!(!a.is_due());
            a.on_unsent();
            assert!(a.is_due(), "however often it is refused");
        }
        a.on_sent(Seq(0));
        a.on_sent(Seq(0));
        a.on_unsent();
        assert!(!a.is_due(), "the one before has left");
    }
}
