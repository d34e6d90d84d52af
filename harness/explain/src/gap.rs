//! A gap: a time in which a connection with something to do did nothing, and what it waited for.

mod between;

pub use between::Between;

use crate::half::Sighting;
use narrows::{ByteCount, Duration};
use std::fmt;

macro_rules! causes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $text:literal;)+) => {
        /// What a connection waited for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Cause {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Cause {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name in files.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The same for people.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

causes! {
    /// A retransmission timeout: nothing of the flight arrived.
    TimeoutWholeWindow = "timeout-whole-window", "timeout, whole window lost";
    /// A retransmission timeout: the end of a flight was lost, and too few duplicate
    /// acknowledgements told of it.
    TimeoutTail = "timeout-tail", "timeout, tail lost";
    /// A retransmission timeout: what had been sent again was lost as well.
    TimeoutRetransmissionLost = "timeout-retransmission-lost", "timeout, retransmission lost";
    /// A retransmission timeout although nothing was lost.
    TimeoutSpurious = "timeout-spurious", "timeout, spurious";
    /// A tail loss probe (RFC 8985 section 7) was waited for.
    TailLossProbe = "tail-loss-probe", "tail loss probe";
    /// SYN or SYN-ACK was sent again.
    SynRetried = "syn-retried", "SYN retried";
    /// Packets of full size vanish without a word while smaller ones arrive (RFC 2923).
    BlackHole = "mtu-black-hole", "path MTU black hole";
    /// The receiver put off its acknowledgement, and the sender was waiting for it.
    DelayedAck = "delayed-ack", "delayed ACK";
    /// Nagle's algorithm held back a small segment until a delayed acknowledgement came.
    NagleDelayedAck = "nagle-delayed-ack", "Nagle waits for a delayed ACK";
    /// A congestion window that counts packets was filled by small writes, and the acknowledgement
    /// was delayed.
    PacketWindow = "packet-window", "window in packets filled by small writes";
    /// After an idle time the window was the initial one again (RFC 5681 section 4.1), and a delayed
    /// acknowledgement was waited for.
    IdleRestart = "idle-restart", "restart after idle";
    /// The receiver's window was closed: its application read nothing.
    WindowClosed = "window-closed", "receiver's window closed, application read nothing";
    /// The window had opened, and the sender learnt of it by a probe only.
    WindowUpdateLate = "window-update-late", "window update late";
    /// The sender's own host dropped a packet; or refused one, and a window that came down for that was
    /// full (which only the sender knows).
    LocalDrop = "local-drop", "sender's local drop";
    /// The application had written nothing.
    AppWroteNothing = "app-wrote-nothing", "application wrote nothing";
    /// A network card held packets back to interrupt once for many.
    Coalescing = "coalescing", "coalescing";
    /// A switch told the sender's link to pause.
    Pause = "pause", "pause";
    /// Packets or acknowledgements took longer than usual, and nothing says why: queues, the
    /// receiving host.
    PacketDelay = "packet-delay", "packets delayed";
    /// Nothing that was captured tells.
    Unknown = "unknown", "unknown";
}

/// What TAPO (Zhou et al., CoNEXT 2015) calls a stall, the causes that it is here, and what more says
/// that it is that.
pub const TAPO: &[(&str, &[Cause], &str)] = &[
    (
        "data unavailable",
        &[Cause::AppWroteNothing],
        " of the server, while a request waits for its reply",
    ),
    (
        "resource constraint",
        &[Cause::LocalDrop, Cause::AppWroteNothing],
        " of the server in the middle of a reply",
    ),
    (
        "client idle",
        &[Cause::AppWroteNothing],
        " of the client, with nothing to reply to",
    ),
    (
        "zero window",
        &[Cause::WindowClosed, Cause::WindowUpdateLate],
        "",
    ),
    (
        "small initial window",
        &[Cause::IdleRestart, Cause::DelayedAck],
        " in the first flight",
    ),
    (
        "packet delay",
        &[Cause::PacketDelay, Cause::Coalescing, Cause::Pause],
        "",
    ),
    (
        "tail retransmission",
        &[Cause::TimeoutTail, Cause::TailLossProbe],
        "",
    ),
    (
        "double retransmission",
        &[Cause::TimeoutRetransmissionLost],
        " that fast recovery or a timeout had sent once before",
    ),
    (
        "continuous retransmission",
        &[
            Cause::TimeoutWholeWindow,
            Cause::TimeoutRetransmissionLost,
            Cause::BlackHole,
        ],
        " again and again",
    ),
    (
        "small cwnd",
        &[Cause::TimeoutTail, Cause::PacketWindow],
        " of fewer than four packets, which are too few for three duplicate acknowledgements",
    ),
    (
        "small rwnd",
        &[Cause::TimeoutTail, Cause::WindowClosed],
        " whose window is of fewer than four packets",
    ),
    (
        "ACK delayed or lost",
        &[
            Cause::TimeoutSpurious,
            Cause::DelayedAck,
            Cause::NagleDelayedAck,
        ],
        "",
    ),
];

impl Cause {
    /// What TAPO (Zhou et al., CoNEXT 2015) calls it, or what it is a part of, as [`TAPO`] has it;
    /// empty if it has no name for it.
    pub fn tapo(self) -> String {
        let of = TAPO.iter().filter(|(_, causes, _)| causes.contains(&self));
        let names: Vec<_> = of.map(|(name, ..)| *name).collect();
        names.join("; ")
    }

    /// Whether the retransmission timer ended the gap.
    pub const fn is_timeout(self) -> bool {
        matches!(
            self,
            Self::TimeoutWholeWindow
                | Self::TimeoutTail
                | Self::TimeoutRetransmissionLost
                | Self::TimeoutSpurious
        )
    }

    /// Whether the time was lost to the transport or the network; the rest waited for an
    /// application.
    pub const fn is_lost_time(self) -> bool {
        !matches!(self, Self::AppWroteNothing)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// How sure a cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Confidence {
    /// Nothing speaks against it, something else would look alike.
    Guess,
    /// What else it could be is rare.
    Likely,
    /// What was captured proves it.
    Certain,
}

impl Confidence {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Certain, Self::Likely, Self::Guess];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guess => "guess",
            Self::Likely => "likely",
            Self::Certain => "certain",
        }
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One of a connection's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The one that opened it; if that was not captured, the one with the higher port.
    Client,
    /// The other.
    Server,
}

impl Side {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// The other.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// Where a capture was taken, seen from the sender of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Vantage {
    /// At the sender, or close to it.
    Sender,
    /// On the way.
    Middle,
    /// At the receiver, or close to it.
    Receiver,
    /// Round trips of both parts of the path are not known.
    Unknown,
}

impl Vantage {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Middle => "middle",
            Self::Receiver => "receiver",
            Self::Unknown => "unknown",
        }
    }
}

/// What was seen around a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Bytes outstanding.
    pub flight: ByteCount,
    /// Packets outstanding.
    pub packets: u32,
    /// Of these, packets of less than full size.
    pub small: u32,
    /// The least RTT of the connection by then.
    pub rtt: Option<Duration>,
    /// The timeout that SRTT and RTTVAR alone would give.
    pub timeout: Option<Duration>,
    /// The floor of the timeout that the length fits.
    pub floor: Option<Duration>,
    /// How often what ended the gap had been sent before.
    pub sends: u16,
    /// The packet that had it before.
    pub earlier: Option<u64>,
    /// The window that the receiver had offered.
    pub window: Option<ByteCount>,
    /// The flight left after an idle time of this length.
    pub after_idle: Option<Duration>,
    /// Bytes that left as soon as the gap was over.
    pub released: Option<ByteCount>,
    /// What a second capture, at the other end, adds.
    pub between: Option<Between>,
}

/// A gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Whose connection: [`crate::Connection::id`].
    pub connection: u64,
    /// Whose sender stood still.
    pub side: Side,
    /// The last packet before it.
    pub start: Sighting,
    /// The packet that ended it.
    pub end: Sighting,
    /// What was waited for.
    pub cause: Cause,
    /// How sure that is.
    pub confidence: Confidence,
    /// What it follows from.
    pub evidence: Evidence,
}

impl Gap {
    /// How long it was.
    pub fn length(&self) -> Duration {
        self.end.at.since(self.start.at)
    }

    /// The evidence as a phrase.
    pub fn because(&self) -> String {
        let e = &self.evidence;
        let mut parts = Vec::new();
        if let Some(floor) = e.floor {
            parts.push(format!("floor of {floor}"));
        }
        if e.sends > 1 && self.cause.is_timeout() {
            parts.push(format!("sent {} times before", e.sends));
        }
        if let Some(earlier) = e.earlier {
            parts.push(format!("packet {} repeats {earlier}", self.end.packet));
        }
        if e.packets > 0 {
            let plural = if e.packets == 1 { "" } else { "s" };
            let small = match e.small {
                0 => String::new(),
                n if n == e.packets => ", all small".to_owned(),
                n => format!(", {n} small"),
            };
            parts.push(format!(
                "{} packet{plural} ({}) out{small}",
                e.packets, e.flight
            ));
        }
        if let Some(idle) = e.after_idle {
            parts.push(format!("after {idle} idle"));
        }
        if let Some(released) = e.released {
            parts.push(format!("then {released} left at once"));
        }
        if let (Some(window), Cause::WindowClosed | Cause::WindowUpdateLate) =
            (e.window, self.cause)
        {
            parts.push(format!("window {window}"));
        }
        if let Some(between) = e.between {
            parts.extend(between.phrases());
        }
        if let Some(rtt) = e.rtt {
            parts.push(format!("RTT {rtt}"));
        }
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stalls of the list and of the paper's tables.
    #[test]
    fn everything_that_tapo_names_is_a_cause_or_a_stated_combination() {
        for name in [
            "data unavailable",
            "resource constraint",
            "client idle",
            "zero window",
            "small initial window",
            "packet delay",
            "tail retransmission",
            "double retransmission",
            "continuous retransmission",
            "small cwnd",
            "small rwnd",
            "ACK delayed or lost",
        ] {
            let (_, causes, _) = TAPO
                .iter()
                .find(|(tapo, ..)| *tapo == name)
                .unwrap_or_else(|| panic!("{name} is missing"));
            assert!(!causes.is_empty(), "{name}");
            for cause in *causes {
                assert!(Cause::ALL.contains(cause), "{name}");
                assert!(cause.tapo().contains(name), "{name}: {cause}");
            }
        }
        let unnamed = [Cause::SynRetried, Cause::Unknown];
        for cause in Cause::ALL {
            assert_eq!(cause.tapo().is_empty(), unnamed.contains(cause), "{cause}");
        }
    }
}
