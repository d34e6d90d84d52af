//! The congestion-control interface: how much may be in flight, and at what pace.

use crate::flow::{AckSample, CongestionEvent, FlowView, Lower, Spurious};
use crate::units::{ByteCount, Duration, Rate};
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
///   while `flow.ca_state` is [`Cwr`](crate::CaState::Cwr) or
///   [`Recovery`](crate::CaState::Recovery); [`FlowView::may_grow`] says both. Growth in
///   [`Loss`](crate::CaState::Loss) is expected: the window was cut to one segment and slow start
///   refills it.
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
