//! The truth about gaps: what connections, told from inside, waited for.
//!
//! A simulated run traces what its connections decide (`narrows run --trace`). From that, and from
//! nothing that is captured, come the gaps that a capture's explanation is held against.

use crate::gap::{Cause, Gap, Side};
use narrows::{Duration, Instant};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What an end of a connection said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Its retransmission timer fired after `rto`; the cause by what the sender knew.
    Timeout {
        /// Which kind.
        kind: TimeoutKind,
        /// How long it had run.
        rto: Duration,
    },
    /// The last timeout was spurious.
    Undo,
    /// A tail loss probe left.
    Probe,
    /// The timer of a delayed acknowledgement fired: it leaves now.
    DelayedAck,
    /// Nothing leaves.
    Held(Held),
    /// The host's own queue refused a segment.
    LocalDrop,
}

/// Kinds of timeouts, as the stack tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    /// Of SYN or SYN-ACK.
    Handshake,
    /// The whole flight.
    WholeWindow,
    /// The end of a flight.
    Tail,
    /// What was sent again was lost.
    RetransmissionLost,
    /// A closed window was probed.
    ZeroWindow,
}

/// Why nothing leaves, as the stack tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// All is acknowledged.
    Idle,
    /// All has left.
    Sent,
    /// The congestion window is full.
    CongestionWindow,
    /// The receiver's window is.
    ReceiveWindow,
    /// Nagle's algorithm.
    Nagle,
}

/// Something that was told.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// Who: its own end first.
    pub ends: [SocketAddr; 2],
    /// What.
    pub told: Told,
}

/// A gap as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrueGap {
    /// Whose: the end that stood still first.
    pub ends: [SocketAddr; 2],
    /// From when.
    pub start: Instant,
    /// Until when.
    pub end: Instant,
    /// Why.
    pub cause: Cause,
}

impl TrueGap {
    /// How long it was.
    pub fn length(&self) -> Duration {
        self.end.since(self.start)
    }
}

#[derive(Debug, Default)]
struct End {
    held: Option<(Instant, Held)>,
    /// The last timeout, as a number of a gap.
    timeout: Option<usize>,
    /// Since when the last probe or timeout or anything else ended a gap.
    last: Instant,
}

/// The gaps of a run, from what was told in the order of time; those longer than `least`.
pub fn true_gaps(events: impl IntoIterator<Item = Event>, least: Duration) -> Vec<TrueGap> {
    let mut gaps: Vec<TrueGap> = Vec::new();
    let mut all: BTreeMap<[SocketAddr; 2], End> = BTreeMap::new();
    for Event { at, ends, told } in events {
        let peer = [ends[1], ends[0]];
        let me = all.entry(ends).or_default();
        let mut add = |whose: [SocketAddr; 2], start: Instant, cause: Cause| {
            gaps.push(TrueGap {
                ends: whose,
                start,
                end: at,
                cause,
            });
            gaps.len() - 1
        };
        match told {
            Told::Timeout { kind, rto } => {
                let cause = match kind {
                    TimeoutKind::Handshake => Cause::SynRetried,
                    TimeoutKind::WholeWindow => Cause::TimeoutWholeWindow,
                    TimeoutKind::Tail => Cause::TimeoutTail,
                    TimeoutKind::RetransmissionLost => Cause::TimeoutRetransmissionLost,
                    TimeoutKind::ZeroWindow => Cause::WindowClosed,
                };
                me.timeout = Some(add(ends, (at - rto).max(me.last), cause));
                me.last = at;
            }
            Told::Undo => {
                if let Some(gap) = me.timeout.take() {
                    gaps[gap].cause = Cause::TimeoutSpurious;
                }
            }
            Told::Probe => {
                let since = me.held.map_or(at, |(since, _)| since);
                add(ends, since.max(me.last), Cause::TailLossProbe);
                me.last = at;
            }
            Told::LocalDrop => {}
            Told::DelayedAck => {
                // The one who waited for it is the other.
                if let Some(End {
                    held: Some((since, held)),
                    last,
                    ..
                }) = all.get_mut(&peer)
                {
                    let cause = match held {
                        Held::Nagle => Some(Cause::NagleDelayedAck),
                        Held::CongestionWindow => Some(Cause::DelayedAck),
                        _ => None,
                    };
                    if let Some(cause) = cause {
                        let start = (*since).max(*last);
                        *last = at;
                        gaps.push(TrueGap {
                            ends: peer,
                            start,
                            end: at,
                            cause,
                        });
                    }
                }
            }
            Told::Held(held) => {
                let before = me.held;
                let since = before.map_or(at, |(since, _)| since).max(me.last);
                if before.is_none_or(|(_, before)| before != held) {
                    me.held = Some((at, held));
                }
                let Some((_, before)) = before.filter(|(_, before)| *before != held) else {
                    continue;
                };
                match before {
                    Held::ReceiveWindow => {
                        add(ends, since, Cause::WindowClosed);
                        me.last = at;
                    }
                    // It wrote. Until then nobody did, if the other had nothing to send either.
                    Held::Idle => {
                        me.last = at;
                        let other = all.get(&peer).and_then(|end| end.held);
                        if let Some((quiet, Held::Idle | Held::Sent)) = other {
                            let start = since.max(quiet);
                            gaps.push(TrueGap {
                                ends,
                                start,
                                end: at,
                                cause: Cause::AppWroteNothing,
                            });
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    gaps.retain(|gap| gap.length() > least);
    gaps
}

/// Whose gap it is, as a true gap names it.
pub fn ends_of(gap: &Gap, client: SocketAddr, server: SocketAddr) -> [SocketAddr; 2] {
    match gap.side {
        Side::Client => [client, server],
        Side::Server => [server, client],
    }
}
