//! One incast: synchronised reads from many servers through one switch port.
//!
//! The client asks all servers for their part of a block at once, waits until every part is
//! complete, and asks for the next block. Each value here is one that a paper has varied.

use narrows::config::{IdleRestart, WindowCount};
use narrows::{ByteCount, Duration, Rate};
use std::fmt;

pub use super::faults::{Impair, ImpairedWay, Share, SharedBuffer};

/// Everything that one run depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncastSpec {
    /// How many servers answer.
    pub servers: u32,
    /// How much each of them sends for a block.
    pub block: BlockSize,
    /// When the run is over.
    pub length: Length,
    /// The client's requests.
    pub request: Request,
    /// Each server waits a time drawn evenly from `0..=start_jitter` before it answers.
    pub start_jitter: Duration,
    /// The network.
    pub net: NetSpec,
    /// TCP at servers and client.
    pub tcp: TcpSpec,
    /// Seeds every random stream of the run.
    pub seed: u64,
    /// Which of the repetitions of a sweep this is, from 0; the seed already accounts for it.
    pub repetition: u32,
    /// Serialise and parse every packet on its way; changes nothing but the run time.
    pub wire: bool,
}

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

/// When a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// After this many blocks, or at the time limit.
    Blocks {
        /// How many blocks.
        blocks: u32,
        /// Simulated time after which the run is cut ([`super::Outcome::TimeLimit`]).
        time_limit: Duration,
    },
    /// After this much simulated time, whatever is under way.
    Time(Duration),
}

/// The client's requests, sent over the same connections as the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Payload bytes of a request.
    pub size: ByteCount,
    /// In which order the servers are asked.
    pub order: RequestOrder,
}

/// In which order the client asks the servers for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOrder {
    /// By number.
    Fixed,
    /// Drawn afresh for each block.
    Shuffled,
}

/// The star: servers, one switch, one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetSpec {
    /// Rate of every link.
    pub link_rate: Rate,
    /// One-way propagation delay of every link; the round trip passes four.
    pub link_delay: Duration,
    /// What a packet costs on the wire beyond its IP bytes.
    pub framing: Framing,
    /// The largest IP packet.
    pub mtu: u32,
    /// Buffer of the switch port to the client.
    pub port_buffer: QueueLimit,
    /// Whether the packet being transmitted takes buffer space.
    pub queue_counting: QueueCounting,
    /// Queue management at the switch port to the client.
    pub aqm: Aqm,
    /// Queue between each server and its link.
    pub server_nic: QueueLimit,
    /// Queue between the client and its link.
    pub client_nic: QueueLimit,
    /// A server's packet enters an idle link up to this late, at random. Hosts are never as
    /// punctual as a simulator: without it equal servers keep the same phase for ever, and which
    /// of two packets that arrive together is dropped decides the whole run.
    pub nic_overhead: Duration,
    /// Which of several packets that reach the switch at one instant comes first.
    pub ties: Ties,
    /// Memory that all ports of the switch share; without it each has its own. The port's own
    /// limit holds as well.
    pub shared_buffer: Option<SharedBuffer>,
    /// What goes wrong on the client's link.
    pub impair: Impair,
}

/// Bytes that a packet takes on a link besides the IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// None: an IP packet takes its own length.
    None,
    /// Ethernet: 14 header, 4 check sequence, 8 preamble and 12 gap, padded to the least frame
    /// of 64 (IEEE 802.3).
    Ethernet,
}

impl Framing {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Ethernet => "ethernet",
        }
    }
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

impl QueueCounting {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::WithInService => "with-in-service",
            Self::Ns2 => "ns-2",
        }
    }
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

impl Ties {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shuffled => "shuffled",
            Self::WaitedLast => "waited-last",
        }
    }
}

/// Queue management at the port to the client. A full buffer drops in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aqm {
    /// Nothing: drop-tail.
    None,
    /// Mark ECN-capable packets that arrive to at least this queue (RFC 8257 section 3.1);
    /// others pass.
    EcnStep(QueueLimit),
    /// Random early detection: marks ECN-capable packets, drops others.
    Red(Red),
    /// Controlled delay (RFC 8289): marks ECN-capable packets, drops others, at the head of the
    /// queue.
    Codel(Codel),
}

impl fmt::Display for Aqm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("drop-tail"),
            Self::EcnStep(k) => write!(f, "ECN {k}"),
            Self::Red(r) => {
                write!(
                    f,
                    "RED {}:{}:{}%",
                    r.min,
                    r.max,
                    f64::from(r.max_permille) / 10.0
                )
            }
            Self::Codel(c) => {
                write!(f, "CoDel {}:{}", c.target, c.interval)?;
                c.ce_threshold.map_or(Ok(()), |ce| write!(f, ":{ce}"))
            }
        }
    }
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
    /// The average moves by `2^-weight_shift` of the difference at each arrival.
    pub weight_shift: u32,
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

impl Default for Codel {
    /// RFC 8289 section 4.3 and 4.4: 5 ms and 100 ms, for the Internet.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ce_threshold: None,
        }
    }
}

/// TCP at both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSpec {
    /// Congestion control, by registry name; may carry parameters: `dctcp:g=1/32`.
    pub congestion: String,
    /// RTO policy, by registry name or floor: `linux`, `1ms`, `floor:200ms,initial=3s`.
    pub rto: String,
    /// Loss detector, by registry name: `reno`, `newreno`, `sack`, `rack`.
    pub loss_detector: String,
    /// Selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Proportional rate reduction (RFC 9937); without it, the window is halved at once.
    pub prr: bool,
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

/// A number of bytes for people: whole, in the unit that makes it shortest (`256KiB`, `256kB`,
/// `1500B`). Always reads back as the same number.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub ByteCount);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0.get();
        let units = [
            (1 << 40, "TiB"),
            (1_000_000_000_000, "TB"),
            (1 << 30, "GiB"),
            (1 << 20, "MiB"),
            (1_000_000_000, "GB"),
            (1_000_000, "MB"),
            (1 << 10, "KiB"),
            (1_000, "kB"),
        ];
        let whole = units
            .iter()
            .filter(|(unit, _)| n >= *unit && n.is_multiple_of(*unit));
        let shortest = whole
            .map(|(unit, name)| format!("{}{name}", n / unit))
            .min_by_key(String::len);
        f.write_str(&shortest.unwrap_or_else(|| format!("{n}B")))
    }
}

impl Default for IncastSpec {
    /// A current 1 Gb/s rack with a shallow port: 25 us per link, Ethernet, 64 KiB buffer of
    /// which DCTCP uses 30 kB (20 packets), 256 KiB from each server, 20 blocks, initial window
    /// 10, SACK, timestamps, an ACK per segment.
    fn default() -> Self {
        Self {
            servers: 16,
            block: BlockSize::Sru(ByteCount::new(256 << 10)),
            length: Length::Blocks {
                blocks: 20,
                time_limit: Duration::from_secs(600),
            },
            request: Request {
                size: ByteCount::new(64),
                order: RequestOrder::Shuffled,
            },
            start_jitter: Duration::from_micros(10),
            net: NetSpec {
                link_rate: Rate::from_gbps(1),
                link_delay: Duration::from_micros(25),
                framing: Framing::Ethernet,
                mtu: 1_500,
                port_buffer: QueueLimit::Bytes(ByteCount::new(64 << 10)),
                queue_counting: QueueCounting::Waiting,
                aqm: Aqm::EcnStep(QueueLimit::Bytes(ByteCount::new(30_000))),
                server_nic: QueueLimit::Packets(1_000),
                client_nic: QueueLimit::Packets(1_000),
                nic_overhead: Duration::from_micros(5),
                ties: Ties::Shuffled,
                shared_buffer: None,
                impair: Impair::default(),
            },
            tcp: TcpSpec {
                congestion: "reno".to_owned(),
                rto: "linux".to_owned(),
                loss_detector: "sack".to_owned(),
                sack: true,
                prr: true,
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
            },
            seed: 1,
            repetition: 0,
            wire: false,
        }
    }
}

impl IncastSpec {
    /// The set-up of the FAST 2008 study as its authors' ns-2 scripts have it: 1 Gb/s, 25 us per
    /// link, 1000-byte segments in 1040-byte packets without framing, 64 packets of buffer,
    /// 256 packets from each server, NewReno without SACK, window capped at 20 packets, initial
    /// window 2, back to it after an RTO without traffic, RTOmin 200 ms, 20 s.
    ///
    /// What is ns-2's own: how `DropTail` counts ([`QueueCounting::Ns2`]), which of two
    /// simultaneous packets comes first ([`Ties::WaitedLast`]), and the burst at the end of a
    /// recovery ([`RecoveryEnd::Ssthresh`](narrows::congestion::reno::RecoveryEnd::Ssthresh)).
    pub fn fast08() -> Self {
        let d = Self::default();
        Self {
            block: BlockSize::Sru(ByteCount::new(256_000)),
            length: Length::Time(Duration::from_secs(20)),
            request: Request {
                size: ByteCount::new(1_000),
                order: RequestOrder::Shuffled,
            },
            start_jitter: Duration::ZERO,
            net: NetSpec {
                framing: Framing::None,
                mtu: 1_040,
                port_buffer: QueueLimit::Packets(64),
                queue_counting: QueueCounting::Ns2,
                aqm: Aqm::None,
                server_nic: QueueLimit::Packets(50),
                client_nic: QueueLimit::Packets(1_000),
                nic_overhead: Duration::ZERO,
                ties: Ties::WaitedLast,
                ..d.net
            },
            tcp: TcpSpec {
                congestion: "reno:end=ssthresh".to_owned(),
                loss_detector: "newreno".to_owned(),
                sack: false,
                timestamps: false,
                prr: false,
                rto: "floor:200ms,initial=3s".to_owned(),
                initial_window: 2,
                receive_window: Some(ByteCount::new(20_000)),
                mss: Some(1_000),
                idle_restart: IdleRestart::Rfc5681,
                undo_spurious: false,
                ..d.tcp
            },
            ..d
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ScenarioError;

    #[test]
    fn presets_are_valid() {
        IncastSpec::default().validate().unwrap();
        IncastSpec::fast08().validate().unwrap();
    }

    #[test]
    fn fast08_packets_are_1040_bytes_on_the_wire() {
        let s = IncastSpec::fast08();
        assert_eq!(s.tcp.effective_mss(s.net.mtu) + IP_TCP_HEADERS, 1_040);
        assert_eq!(s.block.total(16), ByteCount::new(16 * 256 * 1_000));
        assert_eq!(
            s.net.link_rate.time_for(ByteCount::new(1_040)),
            Duration::from_nanos(8_320)
        );
    }

    #[test]
    fn fixed_blocks_are_divided_without_loss() {
        for (block, n) in [(1_000_000_u64, 3_u32), (7, 7), (1 << 20, 48), (100, 64)] {
            let b = BlockSize::Fixed(ByteCount::new(block));
            let sum: ByteCount = (0..n).map(|i| b.share(i, n)).sum();
            assert_eq!(sum.get(), block, "{block} over {n}");
            assert!((0..n).all(|i| b.share(i, n).get() >= block / u64::from(n)));
        }
    }

    #[test]
    fn sizes_read_well() {
        for (n, text) in [
            (256 << 10, "256KiB"),
            (256_000, "256kB"),
            (1 << 20, "1MiB"),
            (1_000_000, "1MB"),
            (65_535, "65535B"),
            (0, "0B"),
            (1 << 40, "1TiB"),
        ] {
            assert_eq!(Size(ByteCount::new(n)).to_string(), text);
        }
    }

    /// Each line breaks one value; the error must name its option.
    #[test]
    fn impossible_values_name_their_option() {
        type Break = fn(&mut IncastSpec);
        let cases: [(&str, Break); 14] = [
            ("servers", |s| s.servers = 0),
            ("sru", |s| s.block = BlockSize::Sru(ByteCount::ZERO)),
            ("block", |s| s.block = BlockSize::Fixed(ByteCount::new(5))),
            ("blocks", |s| {
                s.length = Length::Blocks {
                    blocks: 0,
                    time_limit: Duration::from_secs(1),
                };
            }),
            ("duration", |s| s.length = Length::Time(Duration::ZERO)),
            ("rate", |s| s.net.link_rate = Rate::from_bits_per_sec(1)),
            ("delay", |s| s.net.link_delay = Duration::from_secs(11)),
            ("mtu", |s| s.net.mtu = 40),
            ("mss", |s| s.tcp.mss = Some(1_461)),
            ("buffer", |s| {
                s.net.port_buffer = QueueLimit::Bytes(ByteCount::new(1_517))
            }),
            ("server-nic", |s| s.net.server_nic = QueueLimit::Packets(0)),
            ("rwnd", |s| s.tcp.receive_window = Some(ByteCount::new(100))),
            ("sack", |s| s.tcp.sack = false),
            ("red", |s| {
                let q = QueueLimit::Packets(9);
                s.net.aqm = Aqm::Red(Red {
                    min: q,
                    max: q,
                    max_permille: 20,
                    weight_shift: 9,
                });
            }),
        ];
        for (expected, broken) in cases {
            let mut spec = IncastSpec::default();
            broken(&mut spec);
            match spec.validate() {
                Err(ScenarioError::Invalid { option, .. }) => assert_eq!(option, expected),
                other => panic!("{expected}: {other:?}"),
            }
        }
    }
}
