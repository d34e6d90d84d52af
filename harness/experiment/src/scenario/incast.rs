//! What one incast run gave.

use super::{Outcome, Unrecorded};
use crate::net::stats::DropReason;
use crate::run::RunOutcome;
use narrows::{ByteCount, Duration, Rate};

/// The result of one run. The same experiment gives the same value, bit for bit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncastRun {
    /// How it ended.
    pub outcome: Outcome,
    /// Payload bytes that reached the client's application, over [`simulated`](Self::simulated).
    pub goodput: Rate,
    /// Payload bytes that reached the client's application.
    pub payload: ByteCount,
    /// Simulated time from the first request to the last byte of the last block, or to the end
    /// of the run if it was cut by time. Zero if there was no request, because a connection could
    /// not be opened.
    pub simulated: Duration,
    /// For each completed block, the time from its request to its last byte, in block order.
    pub block_times: Vec<Duration>,
    /// Retransmission timeouts, of all hosts.
    pub timeouts: TimeoutCounts,
    /// Fast-recovery episodes entered.
    pub fast_retransmits: u64,
    /// Packets lost, by where.
    pub drops: DropCounts,
    /// Packets that full NIC queues refused; their TCP sent them later.
    pub refused: NicRefusals,
    /// Packets that got a CE mark.
    pub marks: u64,
    /// Packets with payload that the servers sent, retransmissions included.
    pub data_packets: u64,
    /// Of those, retransmissions.
    pub retransmitted_packets: u64,
    /// The longest queue at the port to the client.
    pub max_queue: QueuePeak,
    /// Simulator events handled; a measure of work, not of the network.
    pub events: u64,
    /// What could not be written of capture and trace. The numbers are whole all the same.
    pub unrecorded: Vec<Unrecorded>,
}

/// Timeouts by what was lost (the classes of the FAST 2008 incast study).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TimeoutCounts {
    /// The whole window was lost: no ACK could come back.
    pub full_window: u64,
    /// Packets at the tail were lost: too few duplicate ACKs.
    pub tail: u64,
    /// A retransmission was lost.
    pub retransmission_lost: u64,
    /// A SYN or SYN-ACK was not answered.
    pub handshake: u64,
    /// A request, or a cause that could not be told.
    pub other: u64,
}

impl TimeoutCounts {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.established().saturating_add(self.handshake)
    }

    /// Those of open connections: what counts in studies whose connections are open from the
    /// start.
    pub const fn established(&self) -> u64 {
        self.full_window
            .saturating_add(self.tail)
            .saturating_add(self.retransmission_lost)
            .saturating_add(self.other)
    }
}

/// Lost packets by where and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DropCounts {
    /// The port to the client was full.
    pub port_full: u64,
    /// Queue management dropped early (RED, CoDel).
    pub port_early: u64,
    /// A port to a server was full: a request or an ACK.
    pub port_server: u64,
    /// Live: a host's device had no room for a frame that its TCP had sent.
    pub device: u64,
    /// Lost to an impairment that was asked for.
    pub impaired: u64,
}

/// Packets that a host's own NIC queue refused. They were not sent and so not lost: they go back
/// to the TCP, as `ENOBUFS` does, and leave when there is room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NicRefusals {
    /// At the servers.
    pub server: u64,
    /// At the client.
    pub client: u64,
}

impl DropCounts {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.port_full
            .saturating_add(self.port_early)
            .saturating_add(self.port_server)
            .saturating_add(self.device)
            .saturating_add(self.impaired)
    }
}

/// The longest a queue has been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueuePeak {
    /// In packets.
    pub packets: u64,
    /// In bytes, as the port counts them.
    pub bytes: ByteCount,
}

/// The client, by number.
const CLIENT: u32 = 0;

impl From<&RunOutcome> for IncastRun {
    /// A run of synchronised reads by host 0 of a star, in the words of an incast.
    fn from(run: &RunOutcome) -> Self {
        let mut result = Self {
            outcome: run.outcome,
            payload: run.delivered(),
            simulated: run.measured,
            goodput: Rate::of(run.delivered(), run.measured).unwrap_or_default(),
            block_times: run.transfers.iter().map(|t| t.took).collect(),
            events: run.events,
            unrecorded: run.unrecorded.clone(),
            ..Self::default()
        };
        let mut timeouts = TimeoutCounts {
            handshake: run.hosts.iter().map(|h| h.handshake_timeouts).sum(),
            ..TimeoutCounts::default()
        };
        for flow in &run.flows {
            let s = &flow.sender;
            if flow.from == CLIENT {
                timeouts.other += s.timeouts;
                continue;
            }
            timeouts.full_window += s.timeouts_full_window;
            timeouts.tail += s.timeouts_tail;
            timeouts.retransmission_lost += s.timeouts_retransmission;
            result.fast_retransmits += s.fast_recoveries;
            result.data_packets += s.segments;
            result.retransmitted_packets += s.retransmits;
        }
        result.timeouts = timeouts;
        let (mut drops, mut refused) = (DropCounts::default(), NicRefusals::default());
        // NICs by number of their hosts, then the switch's ports likewise.
        let (nics, ports) = run.ports.split_at(run.hosts.len().min(run.ports.len()));
        for (host, nic) in (0..).zip(nics) {
            let refusals = match host {
                CLIENT => &mut refused.client,
                _ => &mut refused.server,
            };
            *refusals += nic.dropped_for_room();
        }
        for (host, port) in (0..).zip(ports) {
            let full = port.dropped_for_room();
            if host == CLIENT {
                drops.port_full += full;
                result.max_queue = QueuePeak {
                    packets: u64::from(port.max_packets),
                    bytes: ByteCount::new(port.max_bytes),
                };
            } else {
                drops.port_server += full;
            }
        }
        for port in &run.ports {
            drops.impaired += port.dropped(DropReason::Lost);
            drops.port_early += port.dropped(DropReason::Early);
            result.marks += port.marks;
        }
        // The receiver's checksum drops what a link damaged.
        drops.impaired += run.hosts.iter().map(|h| h.damaged).sum::<u64>();
        result.drops = drops;
        result.refused = refused;
        result
    }
}
