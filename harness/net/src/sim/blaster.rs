//! A trivial window protocol over the network, for its tests and benches.
//!
//! Each server keeps a fixed window of packets under way to the client, which answers each with
//! an acknowledgement. There is no recovery: what is lost stays lost, and when a server has heard
//! nothing for its timeout it starts a new window.

use narrows_congestion::{Duration, Instant};

use crate::net::nic::NicRoom;
use crate::net::packet::{HostId, Packet};

use super::world::Host;

/// A packet of the window protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlastPacket {
    /// Sender.
    pub from: HostId,
    /// Receiver.
    pub to: HostId,
    /// Length at the network layer.
    pub len: u32,
    /// Number of the data packet, from 1; an acknowledgement repeats it.
    pub number: u64,
    /// Whether it is an acknowledgement.
    pub is_ack: bool,
    /// Whether it may be marked.
    pub ecn_capable: bool,
    /// Whether it has been.
    pub marked: bool,
    /// Whether it has been damaged.
    pub corrupt: bool,
    /// Its DSCP.
    pub dscp: u8,
    /// Whether its payload has been cut.
    pub trimmed: bool,
}

impl BlastPacket {
    /// Of its length, what is header: that of IPv4 and TCP.
    pub const HEADER: u32 = 40;

    /// A data packet as its sender makes it, which may not be marked.
    pub const fn new(from: HostId, to: HostId, len: u32, number: u64) -> Self {
        Self {
            from,
            to,
            len,
            number,
            is_ack: false,
            ecn_capable: false,
            marked: false,
            corrupt: false,
            dscp: 0,
            trimmed: false,
        }
    }
}

impl Packet for BlastPacket {
    fn wire_len(&self) -> u32 {
        if self.trimmed {
            self.header_len()
        } else {
            self.len
        }
    }
    fn destination(&self) -> HostId {
        self.to
    }
    fn flow_hash(&self) -> u32 {
        (self.from.0 ^ self.to.0).wrapping_mul(0x9e37_79b9)
    }
    fn is_ecn_capable(&self) -> bool {
        self.ecn_capable
    }
    fn mark_ce(&mut self) {
        self.marked = true;
    }
    fn corrupt(&mut self, _: u64) {
        self.corrupt = true;
    }
    fn dscp(&self) -> u8 {
        self.dscp
    }
    fn header_len(&self) -> u32 {
        self.len.min(Self::HEADER)
    }
    fn trim(&mut self) {
        self.trimmed = true;
    }
    fn is_trimmed(&self) -> bool {
        self.trimmed
    }
}

/// What a server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blast {
    /// Packets in all.
    pub packets: u64,
    /// Packets under way at most.
    pub window: u64,
    /// Length of a data packet.
    pub len: u32,
    /// Length of an acknowledgement.
    pub ack_len: u32,
    /// Silence after which a new window starts; `None` for never.
    pub timeout: Option<Duration>,
    /// Whether its packets may be marked.
    pub ecn_capable: bool,
    /// Their DSCP.
    pub dscp: u8,
}

/// A host of the window protocol: host 0 is the client, the others are servers.
#[derive(Clone, Debug)]
pub struct Blaster {
    id: HostId,
    blast: Blast,
    started: bool,
    /// Data packets sent (server) or received (client).
    pub data: u64,
    /// Acknowledgements received (server).
    pub acks: u64,
    /// Marked packets received.
    pub marks: u64,
    /// Damaged packets received; they are counted in nothing else.
    pub corrupt: u64,
    /// Packets received without their payload; neither are they.
    pub trimmed: u64,
    /// Packets that the NIC refused.
    pub refused: u64,
    /// When the last packet arrived.
    pub last_arrival: Instant,
    /// Windows started after silence.
    pub timeouts: u64,
    /// First number above the current window; data is sent below it.
    window_end: u64,
    reply: Option<BlastPacket>,
    deadline: Option<Instant>,
}

impl Blaster {
    /// Host `id`.
    pub fn new(id: HostId, blast: Blast) -> Self {
        Self {
            id,
            blast,
            started: false,
            data: 0,
            acks: 0,
            marks: 0,
            corrupt: 0,
            trimmed: 0,
            refused: 0,
            last_arrival: Instant::ZERO,
            timeouts: 0,
            window_end: blast.window,
            reply: None,
            deadline: None,
        }
    }

    /// A client and `servers` servers.
    pub fn hosts(servers: u32, blast: Blast) -> Vec<Self> {
        (0..=servers).map(|h| Self::new(HostId(h), blast)).collect()
    }

    fn restart_timer(&mut self, now: Instant) {
        self.deadline = match self.blast.timeout {
            Some(t) if self.data < self.blast.packets => Some(now + t),
            _ => None,
        };
    }
}

impl Host for Blaster {
    type Packet = BlastPacket;

    fn handle_start(&mut self, now: Instant) {
        self.started = self.id.0 != 0;
        if self.started {
            self.restart_timer(now);
        }
    }

    fn handle_packet(&mut self, now: Instant, packet: &BlastPacket) {
        self.last_arrival = now;
        if packet.corrupt {
            self.corrupt += 1;
            return;
        }
        if packet.trimmed {
            self.trimmed += 1;
            return;
        }
        self.marks += u64::from(packet.marked);
        if packet.is_ack {
            self.acks += 1;
            self.window_end += 1;
            self.restart_timer(now);
        } else {
            self.data += 1;
            self.reply = Some(BlastPacket {
                from: self.id,
                to: packet.from,
                len: self.blast.ack_len,
                is_ack: true,
                ecn_capable: false,
                marked: false,
                ..*packet
            });
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.deadline.is_some_and(|d| d <= now) {
            self.timeouts += 1;
            self.window_end = self.data + self.blast.window;
            self.restart_timer(now);
        }
    }

    fn poll_transmit(&mut self, _: Instant, _: impl FnOnce() -> NicRoom) -> Option<BlastPacket> {
        if let Some(reply) = self.reply.take() {
            return Some(reply);
        }
        if !self.started || self.data >= self.window_end.min(self.blast.packets) {
            return None;
        }
        self.data += 1;
        Some(BlastPacket {
            ecn_capable: self.blast.ecn_capable,
            dscp: self.blast.dscp,
            ..BlastPacket::new(self.id, HostId(0), self.blast.len, self.data)
        })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    fn local_drop(&mut self, _: Instant, _: BlastPacket) {
        self.refused += 1;
    }
}
