//! Counters by tier.

use super::{Graph, TopologyError};
use crate::net::network::Network;
use crate::net::packet::{Packet, PortId};
use crate::net::stats::DropReason;

/// What the ports from one tier to another have counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierCounters {
    /// The tier that the ports stand in.
    pub from: String,
    /// The tier that they lead to.
    pub to: String,
    /// Number of ports.
    pub ports: u32,
    /// Packets taken, but for those dropped since.
    pub packets: u64,
    /// Their bytes as the buffers count them.
    pub bytes: u64,
    /// Bytes of the packets that were dropped.
    pub dropped_bytes: u64,
    /// Packets marked with Congestion Experienced.
    pub marks: u64,
    /// Packets whose payload was cut and whose header went on.
    pub trimmed: u64,
    /// Packets that links delivered twice.
    pub duplicated: u64,
    /// Packets that links damaged.
    pub corrupted: u64,
    /// Packets that links held back.
    pub held: u64,
    /// The longest queue of any of the ports, in bytes.
    pub max_bytes: u64,
    /// The same in packets.
    pub max_packets: u32,
    /// The port with the longest queue in bytes; of several the first.
    pub peak: PortId,
    drops: [u64; DropReason::ALL.len()],
}

impl TierCounters {
    /// As ports are named: `leaf->spine`.
    pub fn name(&self) -> String {
        format!("{}->{}", self.from, self.to)
    }

    /// Packets dropped for a reason. What a NIC refuses is among them.
    pub const fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Packets dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.drops.iter().sum()
    }
}

impl Graph {
    /// What the network made of this graph has counted, by the tiers that ports connect, in the
    /// order of their first ports.
    ///
    /// # Errors
    /// If the network has not the ports of this graph.
    pub fn tier_counters<P: Packet>(
        &self,
        network: &Network<P>,
    ) -> Result<Vec<TierCounters>, TopologyError> {
        if network.ports() != self.port_count() {
            return Err(TopologyError::OtherNetwork {
                graph: self.port_count(),
                network: network.ports(),
            });
        }
        let mut all: Vec<TierCounters> = Vec::new();
        for port in self.ports() {
            let Some((from, to)) = self.ends(port) else {
                continue;
            };
            let (from, to) = (self.tier(from), self.tier(to));
            let known = all.iter().position(|t| t.from == from && t.to == to);
            let at = known.unwrap_or(all.len());
            if known.is_none() {
                all.push(TierCounters::new(from, to, port));
            }
            all[at].add(port, &network.stats(port));
        }
        Ok(all)
    }
}

impl TierCounters {
    fn new(from: &str, to: &str, first: PortId) -> Self {
        Self {
            from: from.to_owned(),
            to: to.to_owned(),
            ports: 0,
            packets: 0,
            bytes: 0,
            dropped_bytes: 0,
            marks: 0,
            trimmed: 0,
            duplicated: 0,
            corrupted: 0,
            held: 0,
            max_bytes: 0,
            max_packets: 0,
            peak: first,
            drops: [0; DropReason::ALL.len()],
        }
    }

    fn add(&mut self, port: PortId, stats: &crate::net::stats::PortStats) {
        self.ports += 1;
        self.packets += stats.packets;
        self.bytes += stats.bytes;
        self.dropped_bytes += stats.dropped_bytes;
        self.marks += stats.marks;
        self.trimmed += stats.trimmed;
        self.duplicated += stats.duplicated;
        self.corrupted += stats.corrupted;
        self.held += stats.held;
        if stats.max_bytes > self.max_bytes {
            self.max_bytes = stats.max_bytes;
            self.peak = port;
        }
        self.max_packets = self.max_packets.max(stats.max_packets);
        for (sum, reason) in self.drops.iter_mut().zip(DropReason::ALL) {
            *sum += stats.dropped(reason);
        }
    }
}
