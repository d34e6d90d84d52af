//! What a run of flows depends on.

use crate::scenario::spec::{Aqm, Framing, QueueCounting, QueueLimit, SharedBuffer, TcpSpec};
use crate::scenario::spec::{EcnUse, Impair, IncastSpec};
use narrows::{ByteCount, Duration, Rate};

/// Everything that one run depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowsSpec {
    /// Hosts on one switch.
    pub hosts: Vec<HostSpec>,
    /// Connections among them.
    pub flows: Vec<FlowSpec>,
    /// The host whose switch port is studied: its queue is the bottleneck's.
    pub bottleneck: u32,
    /// The network.
    pub net: FlowNet,
    /// TCP at all hosts; a flow may have a congestion control of its own.
    pub tcp: TcpSpec,
    /// The run ends here, or when nothing is left to happen.
    pub duration: Duration,
    /// Rates, queues and counters are taken from here on.
    pub warm_up: Duration,
    /// Each sender waits a time drawn evenly from `0..=jitter` before it answers a request.
    pub jitter: Duration,
    /// What is recorded on the way.
    pub record: Record,
    /// Seeds every random stream of the run.
    pub seed: u64,
    /// Serialise and parse every packet on its way; changes nothing but the run time.
    pub wire: bool,
}

/// A host and its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSpec {
    /// One-way propagation delay of its link; a round trip passes it twice, and the peer's twice.
    pub delay: Duration,
    /// Rate of its link, both ways.
    pub rate: Rate,
}

/// A connection, and what goes over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Who sends.
    pub from: u32,
    /// Who receives.
    pub to: u32,
    /// When the connection is opened.
    pub start: Duration,
    /// What is sent.
    pub load: Load,
    /// Congestion control of this flow instead of that of [`FlowsSpec::tcp`].
    pub congestion: Option<String>,
}

/// What goes over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Data without end. The sender opens the connection.
    Unlimited,
    /// So many bytes, once. The sender opens the connection; the time of the transfer counts
    /// from there.
    Bytes(ByteCount),
    /// The receiver opens the connection and asks for data, again and again. The time of a
    /// transfer counts from the request.
    Asked(Asked),
}

/// Data that the receiver asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The answer.
    pub size: ByteCount,
    /// The request's payload.
    pub request: ByteCount,
    /// How often.
    pub times: u32,
    /// Flows of one receiver with the same number are asked together, and again when all have
    /// answered; equal loads, please.
    pub group: u32,
}

/// The star: hosts and one switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowNet {
    /// What a packet costs on the wire beyond its IP bytes.
    pub framing: Framing,
    /// The largest IP packet.
    pub mtu: u32,
    /// Buffer of each switch port.
    pub buffer: PortBuffer,
    /// Whether the packet being transmitted takes buffer space and counts for the threshold of
    /// queue management.
    pub queue_counting: QueueCounting,
    /// Queue management at each switch port.
    pub aqm: Aqm,
    /// Queue between each host and its link.
    pub nic: QueueLimit,
    /// A host's packet enters an idle link up to this late, at random; breaks the lock-step of
    /// equal hosts.
    pub nic_overhead: Duration,
    /// Packets that the bottleneck's link loses.
    pub loss: Loss,
    /// What else befalls packets on it, and on the receiver's link back; in place of `loss`.
    pub impair: Impair,
}

/// Room for the packets of a switch port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortBuffer {
    /// Each port has its own.
    Own(QueueLimit),
    /// All ports share a pool; each may hold alpha times what is free (dynamic thresholds).
    Shared(SharedBuffer),
}

/// Packets that the bottleneck's link loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// None.
    None,
    /// Each n-th packet on its way to the receiver, retransmissions counted like others.
    EachNth(u64),
    /// Each packet with this probability, in billionths.
    Random(u32),
}

/// What is recorded on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Look at each flow this often, from the start of the run; not at all if `None`.
    pub samples: Option<Duration>,
    /// Each change of the bottleneck's queue after the warm-up.
    pub queue: bool,
}

impl FlowsSpec {
    /// `senders` flows without end to one receiver, host 0. All links have `rate` and a quarter
    /// of `rtt` each way. Ethernet frames of 1500 bytes, ports of 4 MB with drop-tail, CUBIC with
    /// the values of [`IncastSpec`], a receive window of 512 MiB, no warm-up.
    pub fn long_lived(senders: u32, rate: Rate, rtt: Duration) -> Self {
        let incast = IncastSpec::default();
        let host = HostSpec {
            delay: rtt / 4,
            rate,
        };
        Self {
            hosts: vec![host; senders as usize + 1],
            flows: (1..=senders).map(|h| FlowSpec::unlimited(h, 0)).collect(),
            bottleneck: 0,
            net: FlowNet {
                framing: incast.net.framing,
                mtu: incast.net.mtu,
                buffer: PortBuffer::Own(QueueLimit::Bytes(ByteCount::new(4 << 20))),
                queue_counting: QueueCounting::WithInService,
                aqm: Aqm::None,
                nic: QueueLimit::Packets(1_000),
                nic_overhead: incast.net.nic_overhead,
                loss: Loss::None,
                impair: Impair::default(),
            },
            tcp: TcpSpec {
                congestion: "cubic".to_owned(),
                ecn: EcnUse::Auto,
                receive_window: Some(ByteCount::new(512 << 20)),
                ..incast.tcp
            },
            duration: Duration::from_secs(1),
            warm_up: Duration::ZERO,
            jitter: Duration::ZERO,
            record: Record::default(),
            seed: 1,
            wire: false,
        }
    }
}

impl FlowSpec {
    /// Its congestion control among the flows of `spec`.
    pub(super) fn congestion_in<'a>(&'a self, spec: &'a FlowsSpec) -> &'a String {
        self.congestion.as_ref().unwrap_or(&spec.tcp.congestion)
    }

    /// A flow without end from `from` to `to`, from the beginning.
    pub fn unlimited(from: u32, to: u32) -> Self {
        Self {
            from,
            to,
            start: Duration::ZERO,
            load: Load::Unlimited,
            congestion: None,
        }
    }
}
