//! What an engine tells a congestion control of a flow.

use crate::rtt::RttEstimator;
use crate::units::{ByteCount, Duration, Instant, Rate};

/// What is known when an algorithm is created: at the end of the handshake.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FlowStart {
    /// The effective segment size.
    pub mss: ByteCount,
    /// The initial window (RFC 6928 or as configured).
    pub initial_window: ByteCount,
    /// A remembered `ssthresh` (RFC 9040), else [`ByteCount::MAX`].
    pub initial_ssthresh: ByteCount,
}

impl FlowStart {
    /// A flow with the given segment size and initial window and no memory.
    pub fn new(mss: ByteCount, initial_window: ByteCount) -> Self {
        Self {
            mss,
            initial_window,
            initial_ssthresh: ByteCount::MAX,
        }
    }
}

/// What one ACK told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AckSample {
    /// Bytes newly acknowledged by the cumulative acknowledgement (SND.UNA moved by this much):
    /// N of RFC 5681 section 3.1 and RFC 3465 section 2, by which a window grows. A duplicate ACK
    /// has none; the ACK that fills a hole has what SACK had reported above it as well, so that
    /// a path which reorders lets a window grow as any other does.
    pub acked: ByteCount,
    /// Bytes newly delivered: `acked` less what SACK had already reported, plus what SACK
    /// reports now.
    pub delivered: ByteCount,
    /// Of the bytes newly acknowledged, those that the ACK reports as congestion-marked: with
    /// DCTCP feedback (RFC 8257 section 3.3) all of an ACK with ECE, else none.
    pub delivered_ce: ByteCount,
    /// The RTT measured by this ACK, if it gave one.
    pub rtt: Option<Duration>,
    /// What was measured of delivery over the last round trip, if it could be. Only where
    /// [`Needs::delivery_rate`](crate::Needs::delivery_rate) asks for it.
    pub rate: Option<RateSample>,
    /// Bytes found lost since the last ACK was told of: the losses that an ACK itself gives
    /// away are found after it was. Only where
    /// [`Needs::delivery_rate`](crate::Needs::delivery_rate) asks for it.
    pub newly_lost: ByteCount,
    /// First ACK of a new round trip: data sent after the previous round began is acknowledged.
    pub round_start: bool,
}

/// What an ACK measured of delivery, from when the newest of the segments that it delivered left
/// (draft-ietf-ccwg-bbr, "Delivery Rate Samples"): of about one round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateSample {
    /// Bytes delivered since (`RS.delivered`).
    pub delivered: ByteCount,
    /// The longer of the times in which they were sent and acknowledged (`RS.interval`): ACKs may
    /// come compressed.
    pub interval: Duration,
    /// The application had nothing to send in that time: the rate is a lower bound.
    pub app_limited: bool,
    /// Bytes in flight when that segment had left, itself among them (`RS.tx_in_flight`).
    pub in_flight: ByteCount,
    /// Bytes found lost since (`RS.lost`).
    pub lost: ByteCount,
    /// Bytes reported since as congestion-marked, as in [`AckSample::delivered_ce`].
    pub delivered_ce: ByteCount,
}

impl RateSample {
    /// The delivery rate; `None` over no time.
    pub fn rate(&self) -> Option<Rate> {
        Rate::of(self.delivered, self.interval)
    }
}

/// The state of the flow when a fact is reported.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FlowView<'a> {
    /// The time of the call.
    pub now: Instant,
    /// The effective segment size: payload bytes of a full segment.
    pub mss: ByteCount,
    /// Bytes estimated to be in the network: `pipe` of RFC 6675, sent less delivered and lost.
    pub in_flight: ByteCount,
    /// SND.NXT - SND.UNA: `FlightSize` of RFC 5681.
    pub flight_size: ByteCount,
    /// Where loss recovery stands.
    pub ca_state: CaState,
    /// The window, not the application or the peer's window, held the sender back in the last
    /// round trip.
    pub cwnd_limited: bool,
    /// The round-trip time.
    pub rtt: &'a RttEstimator,
}

impl<'a> FlowView<'a> {
    /// A quiet flow: nothing in flight, open, window-limited. Set the fields that matter.
    #[inline]
    pub fn new(now: Instant, mss: ByteCount, rtt: &'a RttEstimator) -> Self {
        Self {
            now,
            mss,
            in_flight: ByteCount::ZERO,
            flight_size: ByteCount::ZERO,
            ca_state: CaState::Open,
            cwnd_limited: true,
            rtt,
        }
    }

    /// Whether the window may grow on this ACK: it is what limits the flow, and no reduction is
    /// under way.
    #[inline]
    pub fn may_grow(&self) -> bool {
        self.cwnd_limited
            && matches!(
                self.ca_state,
                CaState::Open | CaState::Disorder | CaState::Loss
            )
    }
}

/// Where the sender stands between "all is well" and "the timer fired". The names are Linux's,
/// and the order is that of its numbers (`tcp_ca_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CaState {
    /// Nothing unusual.
    #[default]
    Open,
    /// Duplicate ACKs or SACK blocks have come, but no loss is established.
    Disorder,
    /// The window is being reduced after an ECN echo or a local drop, without loss.
    Cwr,
    /// Fast recovery (RFC 6582, RFC 6675).
    Recovery,
    /// The retransmission timer fired; what was outstanding is being sent again.
    Loss,
}

/// A sign of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CongestionEvent {
    /// The loss detector found a loss and fast recovery begins.
    Loss,
    /// The peer echoed a congestion mark (RFC 3168 section 6.1.2, RFC 8257 section 3.3).
    EcnEcho,
    /// The local device or queueing discipline refused a segment, and the connection is
    /// configured to take that as congestion.
    LocalDrop,
}

/// A decrease that turned out to be unfounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Spurious {
    /// The retransmission timer fired too early (RFC 5682, RFC 4015).
    Timeout,
    /// Fast recovery was entered for data that was only reordered or delayed (RFC 4015 with
    /// timestamps, RFC 3708 with D-SACK).
    FastRetransmit,
}

/// Why a window is to come down though nothing says that the path is congested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lower {
    /// Sending resumes after so long without traffic, longer than an RTO: to the restart window
    /// (RFC 5681 section 4.1).
    Idle(Duration),
    /// It was not used for long, and so does not tell what the path holds (RFC 2861 section 2, RFC
    /// 7661 section 4.3): `ssthresh`, at least 3/4 of the old `cwnd`, remembers it (RFC 2861
    /// section 3.2, RFC 7661 section 4.4.3). Comes only where the connection's configuration asks
    /// for RFC 2861 or RFC 7661.
    Unused,
    /// Congestion met it while it was not used: to half of what the path was seen to hold, and
    /// `ssthresh` goes with it (RFC 7661 section 4.4.1). Comes after
    /// [`on_congestion_event`](crate::CongestionControl::on_congestion_event), and when the recovery
    /// is over; only where the configuration asks for RFC 7661.
    Exceeded,
    /// The host's own device or queue refused a segment, and the
    /// [local-drop policy](crate::local_drop) says so; `ssthresh` stays what it is.
    Refused,
    /// Recovery without SACK has ended with a window that is wider than what is in flight, since
    /// segments that had left were counted as in flight until the end: so that no burst leaves. It
    /// grows back to `ssthresh` (RFC 6582 section 3.2 step 3, first choice; an algorithm that
    /// keeps its window takes the second).
    Deflate,
}
