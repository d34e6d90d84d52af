//! Connection states (RFC 9293 section 3.3.2) and how connections end.

use crate::wire::icmp::Unreachable;
use core::fmt;

/// The state of a connection. LISTEN belongs to the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A SYN was sent.
    SynSent,
    /// A SYN was received and answered.
    SynReceived(Origin),
    /// Data flows both ways.
    Established,
    /// The user closed; our FIN is not acknowledged.
    FinWait1,
    /// Our FIN is acknowledged; the peer may go on sending.
    FinWait2,
    /// The peer closed; the user has not.
    CloseWait,
    /// Both closed at once; our FIN is not acknowledged.
    Closing,
    /// The peer closed, then the user; our FIN is not acknowledged.
    LastAck,
    /// Both FINs are acknowledged; old segments are waited out.
    TimeWait,
    /// It is over.
    Closed(CloseReason),
}

/// Who began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The peer, through a listener.
    Passive,
    /// The user.
    Active,
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CloseReason {
    /// Both sides closed and everything was delivered.
    Finished,
    /// The peer reset the connection.
    Reset,
    /// The peer refused the connection.
    Refused,
    /// The user aborted it.
    Aborted,
    /// Retransmissions, or the handshake, went unanswered for too long.
    TimedOut,
    /// Data stayed unacknowledged longer than the user timeout.
    UserTimeout,
    /// Keepalive probes went unanswered.
    KeepaliveTimeout,
    /// An ICMP hard error (RFC 9293 section 3.9.2.2).
    Unreachable(Unreachable),
}

impl State {
    /// The user may still send.
    pub const fn can_send(self) -> bool {
        matches!(
            self,
            Self::SynSent | Self::SynReceived(_) | Self::Established | Self::CloseWait
        )
    }
    /// Sequence numbers of both sides are known: SYN-RECEIVED and later, until closed.
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::SynSent | Self::Closed(_))
    }
    /// Data from the peer is still expected.
    pub const fn can_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Finished => "connection closed",
            Self::Reset => "connection reset by peer",
            Self::Refused => "connection refused",
            Self::Aborted => "connection aborted",
            Self::TimedOut => "connection timed out",
            Self::UserTimeout => "user timeout expired",
            Self::KeepaliveTimeout => "peer stopped answering keepalive probes",
            Self::Unreachable(why) => return why.fmt(f),
        })
    }
}
