//! What a run gave.

use crate::ended::{Outcome, Unrecorded};
use crate::net::nic::{HostStats, WithoutBuffer};
use crate::net::pause::PauseStats;
use crate::net::stats::DropReason;
use crate::probe::Reading;
use crate::traffic::{AppSpan, Gauge, Transfer};
use narrows::recovery::SenderStats;
use narrows::{ByteCount, Duration, Instant};

/// The result of one run. The same experiment gives the same value, bit for bit.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutcome {
    /// How it ended.
    pub outcome: Outcome,
    /// Simulated time.
    pub simulated: Duration,
    /// ... after the warm-up.
    pub measured: Duration,
    /// From when it is measured: the end of the warm-up, or when time began to count.
    pub measured_from: Instant,
    /// Simulator events handled.
    pub events: u64,
    /// The names of the traffics.
    pub traffic: Vec<String>,
    /// The hosts, by number.
    pub hosts: Vec<HostOutcome>,
    /// By traffic: payload that applications have read after the warm-up, without requests and the
    /// like.
    pub delivered: Vec<ByteCount>,
    /// By traffic: connections that were opening.
    pub opening: Vec<Opening>,
    /// Each direction of each connection in which data was sent.
    pub flows: Vec<FlowOutcome>,
    /// Each port.
    pub ports: Vec<PortOutcome>,
    /// Transfers, as they were completed, those of the warm-up included.
    pub transfers: Vec<Transfer>,
    /// Times in which something of an application stood still, those of the warm-up included.
    pub spans: Vec<AppSpan>,
    /// What hosts held for a traffic, over time.
    pub gauges: Vec<Gauge>,
    /// By traffic: transfers that its application gave up on after the warm-up.
    pub failed: Vec<u64>,
    /// What the probes saw, with their names.
    pub readings: Vec<(String, Reading)>,
    /// What changed on the way, and when.
    pub changes: Vec<(Instant, String)>,
    /// What could not be written on the way. The numbers are whole all the same.
    pub unrecorded: Vec<Unrecorded>,
}

impl RunOutcome {
    /// Payload that all applications have read after the warm-up, without requests and the like.
    pub fn delivered(&self) -> ByteCount {
        self.delivered.iter().copied().sum()
    }
}

/// How many connections of a traffic had been opened while their handshake was not complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// When the warm-up ended; `None` if there is none.
    pub at_begin: Option<u64>,
    /// When the run ended.
    pub at_end: u64,
}

/// What went one way over a connection after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowOutcome {
    /// Which traffic, from 0.
    pub traffic: u16,
    /// The sending host.
    pub from: u32,
    /// The receiving host.
    pub to: u32,
    /// The port of the side that opened the connection.
    pub port: u16,
    /// When the sending host opened or accepted it.
    pub opened: Instant,
    /// Bytes that arrived, those that wait for others before them included.
    pub received: ByteCount,
    /// Bytes that the receiver's application has read, those of the warm-up included.
    pub read: ByteCount,
    /// Segments that the receiver discarded, since they lay in more pieces than it remembers
    /// (`max_out_of_order_ranges`); they are sent again.
    pub out_of_order_dropped: u64,
    /// It carries requests, and no payload that a transfer counts.
    pub control: bool,
    /// The sender's counters.
    pub sender: SenderStats,
    /// SYNs or SYN-ACKs of the sending side that were not answered in time.
    pub handshake_timeouts: u64,
}

impl FlowOutcome {
    /// Timeouts, those of the handshake included.
    pub fn timeouts(&self) -> u64 {
        self.sender.timeouts + self.handshake_timeouts
    }
}

/// What a host did after the warm-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostOutcome {
    /// Its name.
    pub name: String,
    /// SYNs and SYN-ACKs of it that were not answered in time, those of connections that came to
    /// nothing included.
    pub handshake_timeouts: u64,
    /// Packets that a link had damaged: its checksums dropped them.
    pub damaged: u64,
    /// Sends that its NIC refused for want of a buffer; `None` if there are always enough.
    pub without_buffer: Option<WithoutBuffer>,
    /// What its receive side and processor did; `None` if it takes each packet as it arrives.
    pub work: Option<HostStats>,
}

/// What a port and its link did after the warm-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOutcome {
    /// Its name.
    pub name: String,
    /// The tiers of where it stands and where it leads.
    pub tiers: (String, String),
    /// Whether it is a host's NIC.
    pub nic: bool,
    /// Share of the time that its link was busy, in millionths; give or take a frame.
    pub utilisation_ppm: u64,
    /// Packets that left.
    pub packets: u64,
    /// Their bytes as the buffer counts them.
    pub bytes: u64,
    /// Packets marked.
    pub marks: u64,
    /// Packets whose payload was cut.
    pub trimmed: u64,
    /// The longest queue, as the port counts.
    pub max_packets: u32,
    /// The same in bytes.
    pub max_bytes: u64,
    /// Bytes of the packets that were dropped, as the buffer counts them.
    pub dropped_bytes: u64,
    /// Pause frames, and how long they held it; the most memory is of the whole run.
    pub pause: PauseStats,
    pub(crate) drops: [u64; DropReason::ALL.len()],
}

impl PortOutcome {
    /// One of which no more is known than what it dropped for want of room.
    pub fn of_drops(name: String, nic: bool, full: u64) -> Self {
        let mut drops = [0; DropReason::ALL.len()];
        drops[DropReason::Full as usize] = full;
        Self {
            name,
            tiers: (String::new(), String::new()),
            nic,
            utilisation_ppm: 0,
            packets: 0,
            bytes: 0,
            marks: 0,
            trimmed: 0,
            max_packets: 0,
            max_bytes: 0,
            dropped_bytes: 0,
            pause: PauseStats::default(),
            drops,
        }
    }

    /// Packets dropped for want of room.
    pub fn dropped_for_room(&self) -> u64 {
        DropReason::ROOM.iter().map(|r| self.dropped(*r)).sum()
    }

    /// Packets dropped for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Packets that the queue dropped, for want of room or early: not those that were lost on the
    /// link, found no route, or met a host that was not there.
    pub fn dropped_by_queue(&self) -> u64 {
        self.dropped_for_room()
            + self.dropped(DropReason::Early)
            + self.dropped(DropReason::PacketLimit)
    }
}
