//! Typed trace events: what a connection decided, and why.
//!
//! A connection without a [`TraceSink`] pays one branch per event.

use crate::conn::state::State;
use narrows_congestion::{ByteCount, CaState, CongestionEvent, Duration, Instant, Spurious};

/// Receives the events of one connection.
pub trait TraceSink: Send {
    /// `event` happened at `now`.
    fn event(&mut self, now: Instant, event: &TraceEvent);

    /// Whether it wants [`TraceEvent::Held`], which comes each time that the connection is asked for a
    /// segment and has none.
    fn wants_held(&self) -> bool {
        false
    }
}

impl<F: FnMut(Instant, &TraceEvent) + Send> TraceSink for F {
    fn event(&mut self, now: Instant, event: &TraceEvent) {
        self(now, event);
    }
}

/// Whoever hears of events as they happen.
pub trait Trace: FnMut(TraceEvent) {}

impl<F: FnMut(TraceEvent)> Trace for F {}

/// Something a connection did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceEvent {
    /// The RFC 9293 state changed.
    State {
        /// Before.
        from: State,
        /// After.
        to: State,
    },
    /// The sender's variables after an acknowledgement or a congestion response.
    Window {
        /// Congestion window.
        cwnd: ByteCount,
        /// Slow-start threshold.
        ssthresh: ByteCount,
        /// `pipe` of RFC 6675.
        in_flight: ByteCount,
        /// The peer's window.
        snd_wnd: ByteCount,
        /// Smoothed RTT, if measured.
        srtt: Option<Duration>,
        /// The retransmission timeout that would be armed now.
        rto: Duration,
    },
    /// The loss-recovery state changed.
    CaState {
        /// Before.
        from: CaState,
        /// After.
        to: CaState,
    },
    /// The congestion control was told of congestion.
    Congestion(CongestionEvent),
    /// The loss detector declared data lost.
    Lost {
        /// Bytes newly marked.
        bytes: ByteCount,
    },
    /// The local device or queue refused a segment. If the window answers for it
    /// ([`TcpConfig::local_drop`](crate::config::TcpConfig::local_drop)), [`TraceEvent::Window`] follows.
    LocalDrop {
        /// Its payload.
        bytes: ByteCount,
    },
    /// Data was sent again.
    Retransmit {
        /// Stream offset of the first byte (0 is the first byte after SYN).
        offset: u64,
        /// How many bytes.
        bytes: ByteCount,
    },
    /// The retransmission timer fired.
    Timeout {
        /// Why data was still outstanding.
        cause: TimeoutCause,
        /// The timeout that had been armed.
        rto: Duration,
        /// Timeouts in a row, this one included.
        consecutive: u32,
        /// Bytes that were outstanding.
        flight_size: ByteCount,
    },
    /// A tail-loss probe left (RFC 8985 section 7).
    TailLossProbe,
    /// The last reduction was spurious and has been undone.
    Undo(Spurious),
    /// Nothing leaves for now; told to those who [want it](TraceSink::wants_held), each time that is
    /// found, also for the same reason as before.
    Held(Held),
    /// An acknowledgement was put off until its timer fired (RFC 9293 section 3.8.6.3).
    DelayedAck,
    /// After an idle time the congestion window is another one
    /// ([`TcpConfig::idle_restart`](crate::config::TcpConfig::idle_restart)).
    IdleRestart {
        /// How long nothing was sent.
        idle: Duration,
    },
}

/// Why nothing leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Held {
    /// All that the user wrote is acknowledged: it has written nothing since.
    Idle,
    /// All that the user wrote has left, and some is not acknowledged.
    Sent,
    /// The congestion window has no room for what is queued.
    CongestionWindow,
    /// The same of one that [counts packets](crate::config::WindowCount::Packets) and would have room
    /// if it counted bytes: small segments fill it.
    PacketWindow,
    /// The peer's window has no room for what is queued.
    ReceiveWindow,
    /// Nagle's algorithm, or the user, holds back a segment that is not full.
    Nagle,
}

/// Why the retransmission timer had to fire; the classes of the FAST 2008 paper, and a few more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeoutCause {
    /// SYN or SYN-ACK unanswered.
    Handshake,
    /// Nothing of the window has been acknowledged: it is lost whole.
    FullWindow,
    /// Part was acknowledged, the rest gave too few duplicate ACKs to trigger fast recovery.
    Tail,
    /// A retransmission was itself lost during fast recovery or after a timeout.
    RetransmissionLost,
    /// The peer's window is closed: a probe went unanswered, nothing is known to be lost.
    ZeroWindow,
}
