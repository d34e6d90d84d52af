//! The congestion-control interface: how much may be in flight, and at what pace.

use crate::rtt::RttEstimator;
use crate::units::{ByteCount, Duration, Instant, Rate};
use crate::window::Window;
use alloc::boxed::Box;
use core::fmt::Debug;

/// A congestion-control algorithm: facts come in through `on_*`, a window and a pace go out.
///
/// # What the engine promises
/// - `flow.now` never goes back.
/// - [`on_congestion_event`](Self::on_congestion_event) with [`CongestionEvent::Loss`] or
///   [`CongestionEvent::EcnEcho`] comes at most once per window of data (RFC 5681 section 3.2,
///   RFC 3168 section 6.1.2).
/// - Each byte is reported as delivered once: by the cumulative acknowledgement or by SACK,
///   whichever came first. Duplicate ACKs do not inflate anything: what may be sent during
///   recovery is the engine's business (RFC 9937 or RFC 6675), not the algorithm's.
/// - When one ACK both delivers data and tells of congestion, `on_ack` comes first.
///
/// # What the algorithm promises
/// - `cwnd >= 1 MSS` at all times, unless it paces below that and says so in
///   [`needs`](Self::needs).
/// - No growth on an ACK with `flow.cwnd_limited == false` (RFC 7661 section 1, RFC 2861), nor
///   while `flow.ca_state` is [`CaState::Cwr`] or [`CaState::Recovery`];
///   [`FlowView::may_grow`] says both. Growth in [`CaState::Loss`] is expected: the window was
///   cut to one segment and slow start refills it.
/// - No clock, no randomness, no I/O: the same calls give the same answers.
/// - `cwnd` changes only inside the `on_*` calls.
///
/// [`crate::testing::conformance`] checks these promises.
pub trait CongestionControl: Debug + Send {
    /// The registry name, lower case: `"reno"`.
    fn name(&self) -> &'static str;

    /// The congestion window: how many bytes may be in flight (RFC 5681 section 2).
    fn cwnd(&self) -> ByteCount;

    /// The slow-start threshold; [`ByteCount::MAX`] until the first congestion.
    fn ssthresh(&self) -> ByteCount;

    /// The rate to pace at, or `None` to leave it to the engine (which may not pace at all).
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// What the algorithm wants of the connection. It may be asked at any time; the answer does not
    /// change.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// An ACK that delivered data, or echoed congestion, arrived.
    fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>);

    /// Congestion was detected: the multiplicative decrease belongs here.
    ///
    /// Afterwards `cwnd` is the window that the engine steers to, and normally equals
    /// `ssthresh`.
    fn on_congestion_event(&mut self, event: CongestionEvent, flow: &FlowView<'_>);

    /// The retransmission timer fired for the `consecutive`-th time in a row, counted from 1
    /// (RFC 5681 equation 4: only the first lowers `ssthresh`). `cwnd` becomes the loss window,
    /// one segment.
    fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>);

    /// A recovery episode (fast recovery, or after a timeout) ended: everything outstanding at
    /// its start has been acknowledged.
    fn on_recovery_exit(&mut self, flow: &FlowView<'_>) {
        let _ = flow;
    }

    /// The [`Window`] by which it goes, if it goes by one: undo, windows that are to come down, and
    /// another segment size are answered for with that, unless the algorithm has answers of its own.
    fn window_mut(&mut self) -> Option<&mut Window> {
        None
    }

    /// The last decrease turned out to be spurious (F-RTO, Eifel, D-SACK): restore what it took.
    fn on_spurious(&mut self, what: Spurious, flow: &FlowView<'_>) {
        let _ = flow;
        if let Some(window) = self.window_mut() {
            window.undo(what);
        }
    }

    /// The window is wider than the sender may use, though no congestion says so: `cwnd` comes
    /// down to `window`, and never grows by it.
    fn on_lower(&mut self, window: ByteCount, why: Lower, flow: &FlowView<'_>) {
        if let Some(own) = self.window_mut() {
            own.lower(window, why, flow.mss);
        }
    }

    /// `bytes` of new data or retransmission left. Called if [`Needs::hears_of_sent`].
    fn on_sent(&mut self, bytes: ByteCount, flow: &FlowView<'_>) {
        let _ = (bytes, flow);
    }

    /// The effective segment size changed from `was` (path MTU); `flow.mss` is the new one. A
    /// window keeps its number of segments where they become smaller (RFC 5681 section 3.1).
    fn on_mss_change(&mut self, was: ByteCount, flow: &FlowView<'_>) {
        if let Some(window) = self.window_mut() {
            window.on_mss_change(was, flow.mss);
        }
    }

    /// Show the variables that are the algorithm's own, for traces and plots: DCTCP's alpha,
    /// CUBIC's W_max. Nothing may depend on them.
    fn variables(&self, show: &mut dyn FnMut(&'static str, Variable)) {
        let _ = show;
    }
}

impl<T: CongestionControl + ?Sized> CongestionControl for Box<T> {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn cwnd(&self) -> ByteCount {
        (**self).cwnd()
    }
    fn ssthresh(&self) -> ByteCount {
        (**self).ssthresh()
    }
    fn pacing_rate(&self) -> Option<Rate> {
        (**self).pacing_rate()
    }
    fn needs(&self) -> Needs {
        (**self).needs()
    }
    fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
        (**self).on_ack(ack, flow);
    }
    fn on_congestion_event(&mut self, event: CongestionEvent, flow: &FlowView<'_>) {
        (**self).on_congestion_event(event, flow);
    }
    fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>) {
        (**self).on_rto(consecutive, flow);
    }
    fn on_recovery_exit(&mut self, flow: &FlowView<'_>) {
        (**self).on_recovery_exit(flow);
    }
    fn window_mut(&mut self) -> Option<&mut Window> {
        (**self).window_mut()
    }
    fn on_spurious(&mut self, what: Spurious, flow: &FlowView<'_>) {
        (**self).on_spurious(what, flow);
    }
    fn on_lower(&mut self, window: ByteCount, why: Lower, flow: &FlowView<'_>) {
        (**self).on_lower(window, why, flow);
    }
    fn on_sent(&mut self, bytes: ByteCount, flow: &FlowView<'_>) {
        (**self).on_sent(bytes, flow);
    }
    fn on_mss_change(&mut self, was: ByteCount, flow: &FlowView<'_>) {
        (**self).on_mss_change(was, flow);
    }
    fn variables(&self, show: &mut dyn FnMut(&'static str, Variable)) {
        (**self).variables(show);
    }
}

/// The value of a variable that [`CongestionControl::variables`] shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Variable {
    /// A window.
    Bytes(ByteCount),
    /// A time.
    Time(Duration),
    /// A rate.
    Rate(Rate),
    /// A pure number, in units of 2^-32.
    Fraction(u64),
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
    /// [`Needs::delivery_rate`] asks for it.
    pub rate: Option<RateSample>,
    /// Bytes found lost since the last ACK was told of: the losses that an ACK itself gives
    /// away are found after it was. Only where [`Needs::delivery_rate`] asks for it.
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

/// Where the sender stands between "all is well" and "the timer fired". The names are Linux's.
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
    /// [`CongestionControl::on_congestion_event`], and when the recovery is over; only where the
    /// configuration asks for RFC 7661.
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

/// What an algorithm wants of the connection it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Needs {
    /// Which explicit congestion notification it wants.
    pub ecn: EcnNeed,
    /// Segments must leave paced, even where the connection's configuration does not ask for it.
    pub pacing: bool,
    /// [`AckSample::rate`] and [`AckSample::newly_lost`] are wanted; for these a record of each
    /// segment outstanding is kept.
    pub delivery_rate: bool,
    /// The window may go below one segment, the pacing rate then spreads segments over several
    /// round trips.
    pub sub_mss_cwnd: bool,
    /// [`CongestionControl::on_sent`] is to be called; it is unless this says otherwise.
    pub hears_of_sent: bool,
}

impl Default for Needs {
    fn default() -> Self {
        Self {
            ecn: EcnNeed::Configured,
            pacing: false,
            delivery_rate: false,
            sub_mss_cwnd: false,
            hears_of_sent: true,
        }
    }
}

/// Which explicit congestion notification an algorithm wants negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EcnNeed {
    /// Whatever the connection's configuration says.
    #[default]
    Configured,
    /// ECN as in RFC 3168.
    Classic,
    /// ECN with the receiver's exact feedback of RFC 8257, and ECT on every segment including
    /// retransmissions and control segments.
    Dctcp,
}

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
