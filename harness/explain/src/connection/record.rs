//! What is said of a connection when no more is heard of it.

use crate::gap::{Cause, Side, Vantage};
use crate::half::{Counts, RttEstimate, Sighting};
use crate::rounds::{Mode, Round};
use narrows::{Duration, Instant};
use std::net::SocketAddr;

/// How a connection began, as far as it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// With a SYN.
    Handshake,
    /// The capture began later.
    Midway,
}

/// How a connection ended, as far as it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Both sides sent FIN.
    Fin,
    /// By a reset from this side.
    Reset(Side),
    /// The capture ended first.
    Open,
    /// It was the longest silent one when there were more than can be observed at once.
    Dropped,
}

/// A connection, when no more is heard of it.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Its number, in the order in which connections were first seen, from 0.
    pub id: u64,
    /// Client and server.
    pub ends: [SocketAddr; 2],
    /// How it began.
    pub opened: Opened,
    /// How it ended.
    pub closed: Closed,
    /// Its first packet.
    pub first: Sighting,
    /// Its last packet.
    pub last: Sighting,
    /// By side: what it sent.
    pub counts: [Counts; 2],
    /// By side: round-trip times from the place of the capture to the receiver and back.
    pub rtt: [RttEstimate; 2],
    /// By side: where the capture was taken.
    pub vantage: [Vantage; 2],
    /// The least RTT of the whole path, if both parts of it were seen.
    pub path_rtt: Option<Duration>,
    /// By cause: gaps and the time in them.
    pub lost: Vec<(Cause, u64, Duration)>,
    /// By side: the rounds, if they were asked for.
    pub rounds: [Vec<Round>; 2],
    /// By side: modes of the round-trip time, if rounds were asked for.
    pub modes: [Vec<Mode>; 2],
    /// What to draw, if that was asked for, in the order in which it began.
    pub points: Vec<Point>,
    /// What began within so long after a point and is like it is part of it: more than nothing where
    /// there was more to draw than was asked for.
    pub resolution: Duration,
}

impl Connection {
    /// A gap more.
    pub(crate) fn lose(&mut self, cause: Cause, length: Duration) {
        lose(&mut self.lost, cause, length);
    }
}

/// Enters a gap into sums by cause.
pub(super) fn lose(lost: &mut Vec<(Cause, u64, Duration)>, cause: Cause, length: Duration) {
    match lost.iter_mut().find(|(c, ..)| *c == cause) {
        Some((_, count, sum)) => {
            *count += 1;
            *sum += length;
        }
        None => lost.push((cause, 1, length)),
    }
}

/// Something to draw in a time-sequence graph: of one packet, or of several that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// When.
    pub at: Instant,
    /// When the last of several was.
    pub until: Instant,
    /// The packet; of several the first.
    pub packet: u64,
    /// How many.
    pub count: u32,
    /// Whose stream.
    pub side: Side,
    /// What.
    pub kind: PointKind,
    /// First byte, from the beginning of the stream; of several the least.
    pub from: u64,
    /// After the last byte; of several the most.
    pub to: u64,
}

/// What a point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointKind {
    /// Bytes that left for the first time.
    Sent,
    /// Bytes that left again.
    Resent,
    /// Bytes acknowledged.
    Acked,
    /// Bytes acknowledged selectively.
    Sacked,
    /// From the first byte not acknowledged to the end of the window.
    Window,
}

impl PointKind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Sent,
        Self::Resent,
        Self::Acked,
        Self::Sacked,
        Self::Window,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Resent => "resent",
            Self::Acked => "acked",
            Self::Sacked => "sacked",
            Self::Window => "window",
        }
    }
}
