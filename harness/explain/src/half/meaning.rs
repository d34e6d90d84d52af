//! What a segment or an acknowledgement is to the stream of one direction.

use crate::rounds::Round;
use narrows::Duration;

/// What a segment with text, SYN or FIN is to the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// Bytes that follow the last ones.
    New {
        /// What came before is missing.
        hole: bool,
    },
    /// Bytes that were seen before, or whose lack was noticed.
    Retransmitted(Retransmitted),
    /// Bytes that had been acknowledged already when they were seen again.
    Needless,
    /// A zero-window probe.
    Probe,
    /// A byte that was acknowledged, which asks whether the peer is there (RFC 9293 section 3.8.4).
    KeepAlive,
}

/// How something was sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retransmitted {
    /// How often it was seen before; 0: it had been missing.
    pub(crate) sends: u16,
    /// It is the first that is not acknowledged.
    pub(crate) head: bool,
    /// It is the last that was sent.
    pub(crate) tail: bool,
    /// It begins before what is acknowledged: its sender has not heard that.
    pub(crate) arrived: bool,
    /// How long ago it was last seen, or its lack noticed.
    pub(crate) age: Duration,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The packet that had it before.
    pub(crate) packet: u64,
}

/// What an acknowledgement is to the stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acked {
    /// Bytes acknowledged for the first time, in order.
    pub(crate) bytes: u64,
    /// Bytes acknowledged selectively for the first time.
    pub(crate) sacked: u64,
    /// It repeats the one before (RFC 5681 section 2).
    pub(crate) duplicate: bool,
    /// The window went from less than a segment to at least one.
    pub(crate) opened: bool,
    /// There had been room for less than a segment, and there is for half of the widest window more than what
    /// is acknowledged gives: its application had not read.
    pub(crate) widened: bool,
    /// Its first block says that something arrived twice (RFC 2883).
    pub(crate) dsack: Option<(u64, u64)>,
    /// A round-trip time, of what was seen once only.
    pub(crate) rtt: Option<Duration>,
    /// The last packet of what was acknowledged.
    pub(crate) packet: Option<u64>,
    pub(crate) round: Option<Round>,
}
