//! Words of experiments: sizes of blocks, queues, framing, TCP, and what each can be.

use narrows::config::{IdleRestart, WindowCount};
use narrows::{ByteCount, Duration};
use std::fmt;

mod faults;
mod size;
mod tcp;

pub use faults::{Impair, ImpairedWay, Share, SharedBuffer};
pub use size::Size;

/// The size of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSize {
    /// Each server sends this much (a "server request unit"): the block grows with the servers.
    Sru(ByteCount),
    /// The block has this size, each server sends an equal part, the first ones a byte more
    /// where it does not divide.
    Fixed(ByteCount),
}

impl BlockSize {
    /// What server `index` of `servers` sends for one block.
    pub fn share(self, index: u32, servers: u32) -> ByteCount {
        match self {
            Self::Sru(sru) => sru,
            Self::Fixed(block) => {
                let n = u64::from(servers.max(1));
                let extra = u64::from(u64::from(index) < block.get() % n);
                ByteCount::new(block.get() / n + extra)
            }
        }
    }

    /// The whole block of `servers` servers.
    pub fn total(self, servers: u32) -> ByteCount {
        match self {
            Self::Sru(sru) => sru * u64::from(servers),
            Self::Fixed(block) => block,
        }
    }
}

/// In which order the client asks the servers for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOrder {
    /// By number.
    Fixed,
    /// Drawn afresh for each block.
    Shuffled,
}

/// How long a queue may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// In bytes; a frame counts without preamble and gap.
    Bytes(ByteCount),
    /// In packets of whatever size.
    Packets(u32),
}

impl QueueLimit {
    /// A packet, or a byte, less.
    pub const fn one_less(self) -> Self {
        match self {
            Self::Bytes(b) => Self::Bytes(ByteCount::new(b.get().saturating_sub(1))),
            Self::Packets(p) => Self::Packets(p.saturating_sub(1)),
        }
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(b) => write!(f, "{}", Size(*b)),
            Self::Packets(p) => write!(f, "{p}p"),
        }
    }
}

/// Whether the packet in service takes buffer space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueCounting {
    /// Only waiting packets count (as in ns-2).
    Waiting,
    /// The packet being transmitted counts too.
    WithInService,
    /// ns-2's `DropTail`: only waiting packets count, and a packet is refused that would be the
    /// last to fit, so that a limit of 64 keeps 63.
    Ns2,
}

/// Which of several packets that reach the switch at one instant comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// By an order of the servers that is drawn once for each seed.
    Shuffled,
    /// Those that found their NIC idle before those that had waited in it, then as before: what
    /// comes of handling simultaneous events in the order in which they were scheduled (ns-2).
    WaitedLast,
}

/// The parameters of RED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Red {
    /// Below this average queue nothing happens.
    pub min: QueueLimit,
    /// From this average queue on every packet is hit.
    pub max: QueueLimit,
    /// The probability when the average reaches `max`, in thousandths.
    pub max_permille: u32,
}

/// The parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codel {
    /// The waiting time that may stand.
    pub target: Duration,
    /// How long it may stand above.
    pub interval: Duration,
    /// ECN-capable packets that waited longer are marked at once.
    pub ce_threshold: Option<Duration>,
}

/// TCP at both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSpec {
    /// Congestion control, by registry name; may carry parameters: `dctcp:g=1/32`.
    pub congestion: String,
    /// RTO policy, by registry name or floor: `linux`, `1ms`, `floor:200ms,initial=3s`.
    pub rto: String,
    /// Loss detector, by registry name: `reno`, `newreno`, `go-back-n`, `sack`, `rack`.
    pub loss_detector: String,
    /// Selective acknowledgements (RFC 2018).
    pub sack: SackUse,
    /// Proportional rate reduction.
    pub prr: PrrUse,
    /// Limited transmit (RFC 3042).
    pub limited_transmit: bool,
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// Explicit congestion notification.
    pub ecn: EcnUse,
    /// Acknowledgement policy of the client.
    pub delayed_ack: DelayedAck,
    /// What the number of `delayed_ack` counts.
    pub ack_count: AckCount,
    /// Initial window, in segments.
    pub initial_window: u32,
    /// What the congestion window counts.
    pub window_count: WindowCount,
    /// Greatest receive window, or none.
    pub receive_window: Option<ByteCount>,
    /// Largest segment payload, or what the MTU leaves.
    pub mss: Option<u32>,
    /// Resolution of the hosts' timers; zero is exact.
    pub timer_tick: Duration,
    /// What becomes of a window that is not used, as between blocks.
    pub idle_restart: IdleRestart,
    /// Undo reductions that prove unnecessary (F-RTO, Eifel, D-SACK).
    pub undo_spurious: bool,
    /// Nagle's algorithm: a small segment waits while another is unacknowledged.
    pub nagle: bool,
    /// What a segment means that the host's own device refused, by registry name: `requeue`,
    /// `reset`.
    pub local_drop: String,
    /// Differentiated services code point of its packets, 0 to 63.
    pub dscp: u32,
    /// How marks come back to a sender that asks for the feedback of RFC 8257.
    pub dctcp_receiver: DctcpReceiver,
    /// Unsent and unacknowledged data that the TCP holds for the application; all that it writes if
    /// `None`.
    pub send_buffer: Option<ByteCount>,
    /// How long a host remembers what a connection learned of a peer, for the next one (RFC 9040).
    pub metrics_cache: Option<Duration>,
}

impl TcpSpec {
    /// Payload bytes of a full segment on a path with `mtu`, before TCP options.
    pub fn effective_mss(&self, mtu: u32) -> u32 {
        self.mss.unwrap_or(mtu.saturating_sub(IP_TCP_HEADERS))
    }
}

/// The name of a rule for idle connections on the command line.
pub const fn idle_restart_name(rule: IdleRestart) -> &'static str {
    match rule {
        IdleRestart::Keep => "keep",
        IdleRestart::Rfc5681 => "rfc5681",
        IdleRestart::Rfc2861 => "rfc2861",
        IdleRestart::Rfc7661 => "rfc7661",
    }
}

/// Bytes of an IPv4 and a TCP header without options.
pub const IP_TCP_HEADERS: u32 = 40;

/// Whether the hosts negotiate SACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SackUse {
    /// If the loss detector uses it: `reno`, `newreno` and `go-back-n` do not.
    Auto,
    /// They do; not with a loss detector that does not use it.
    On,
    /// They do not; not with the loss detector `sack`.
    Off,
}

/// Which ECN the hosts negotiate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnUse {
    /// What the congestion control asks for: DCTCP does, Reno and CUBIC run without.
    Auto,
    /// None; not with a congestion control that asks for ECN.
    Off,
    /// RFC 3168; not with a congestion control that asks for another feedback.
    Classic,
}

impl EcnUse {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Off => "off",
            Self::Classic => "classic",
        }
    }
}

/// What the number of segments counts after which data is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckCount {
    /// Segments of whatever size.
    Segments,
    /// Full segments, by their bytes: small ones wait for more, or for the timer (Linux).
    Bytes,
}

/// How much leaves while a window is being reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrrUse {
    /// Proportional rate reduction, RFC 9937.
    On,
    /// Proportional rate reduction as Linux had it from 4.3 on.
    Linux43,
    /// What the window admits, which is reduced at once.
    Off,
}

/// How marks come back to a sender that asks for the feedback of RFC 8257.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DctcpReceiver {
    /// As RFC 8257 section 3.2 says.
    Rfc8257,
    /// The same, and what says CWR is acknowledged at once: Linux since 4.18.
    Linux,
    /// As Linux was in 2015, with its faults ([`LinuxDctcp2015`]).
    ///
    /// [`LinuxDctcp2015`]: narrows::conn::ecn::LinuxDctcp2015
    Linux2015,
}

/// When the client acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayedAck {
    /// Every segment at once.
    Off,
    /// At the latest after `segments` full segments or `timeout` (RFC 9293 section 3.8.6.3).
    On {
        /// How many full segments.
        segments: u32,
        /// How long.
        timeout: Duration,
    },
}

impl fmt::Display for DelayedAck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::On { segments, timeout } => write!(f, "{segments}/{timeout}"),
        }
    }
}

impl Default for TcpSpec {
    /// A current TCP: Reno with SACK and PRR, the RTO of Linux, an initial window of 10, timestamps,
    /// an ACK per segment.
    fn default() -> Self {
        Self {
            congestion: "reno".to_owned(),
            rto: "linux".to_owned(),
            loss_detector: "sack".to_owned(),
            sack: SackUse::Auto,
            prr: PrrUse::On,
            limited_transmit: true,
            timestamps: true,
            ecn: EcnUse::Auto,
            delayed_ack: DelayedAck::Off,
            ack_count: AckCount::Segments,
            initial_window: 10,
            window_count: WindowCount::Bytes,
            receive_window: None,
            mss: None,
            timer_tick: Duration::ZERO,
            // Idle between blocks for no longer than it takes the slowest: what the papers'
            // persistent connections do is kept.
            idle_restart: IdleRestart::Keep,
            undo_spurious: true,
            nagle: false,
            local_drop: "requeue".to_owned(),
            dscp: 0,
            dctcp_receiver: DctcpReceiver::Rfc8257,
            send_buffer: None,
            metrics_cache: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn fixed_blocks_are_divided_without_loss() {
        for (block, n) in [(1_000_000_u64, 3_u32), (7, 7), (1 << 20, 48), (100, 64)] {
            let b = BlockSize::Fixed(ByteCount::new(block));
            let sum: ByteCount = (0..n).map(|i| b.share(i, n)).sum();
            assert_eq!(sum.get(), block, "{block} over {n}");
            assert!((0..n).all(|i| b.share(i, n).get() >= block / u64::from(n)));
        }
    }
}
