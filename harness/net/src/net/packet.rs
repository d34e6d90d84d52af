//! What the network needs to know of a packet.

/// A host, numbered from 0. In a star, host 0 is the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// An output port with the link behind it: a host's NIC or a switch port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

impl HostId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl PortId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A packet, as far as the network cares. It is cloned only where a link duplicates it.
pub trait Packet: Clone {
    /// Bytes at the network layer: IP header and everything in it. Far from 4 GB, for what links add is
    /// added to it.
    fn wire_len(&self) -> u32;

    /// The host it is for.
    fn destination(&self) -> HostId;

    /// Equal for the packets of a flow, and the same all the way, whatever is done to the packet;
    /// chooses among equal paths.
    fn flow_hash(&self) -> u32;

    /// The hash by which NICs choose a receive queue, as they publish it
    /// ([`rss`](crate::net::nic::rss)); of packets without addresses and ports [`flow_hash`](Self::flow_hash).
    fn rss_hash(&self) -> u32 {
        self.flow_hash()
    }

    /// Whether a switch may mark it: ECT(0), ECT(1) or CE (RFC 3168 section 5).
    fn is_ecn_capable(&self) -> bool;

    /// Sets Congestion Experienced; called only if it is ECN-capable.
    fn mark_ce(&mut self);

    /// Damages it, so that the receiver's checksum fails; `noise` may choose where. A packet
    /// that Ethernet would discard for its frame check may note that here.
    fn corrupt(&mut self, noise: u64);

    /// Its differentiated services code point, 0 to 63 (RFC 2474).
    fn dscp(&self) -> u8 {
        0
    }

    /// What [`Self::wire_len`] would be without its payload.
    fn header_len(&self) -> u32 {
        self.wire_len()
    }

    /// Cuts its payload: from now on it is [`Self::header_len`] long. Called only where that is less
    /// than its length.
    fn trim(&mut self) {}

    /// Whether its payload has been cut.
    fn is_trimmed(&self) -> bool {
        false
    }

    /// Frames that it leaves the NIC as: more than one for what a host with segmentation offload
    /// hands over as one.
    fn frames(&self) -> u32 {
        1
    }

    /// Takes the first of its frames off; `None` once it is one frame itself.
    fn split(&mut self) -> Option<Self> {
        None
    }

    /// Whether receive offload may merge others into it.
    fn leads(&self) -> bool {
        false
    }

    /// Receive offload takes `next` into it, whose first segment had `segment` bytes of payload, if
    /// that makes at most `most` bytes with its headers.
    fn merge(&mut self, next: &Self, segment: u32, most: u32) -> Merge {
        let _ = (next, segment, most);
        Merge::No
    }
}

/// What receive offload made of a packet and the aggregate before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// They do not go together: the aggregate is handed up as it is.
    No,
    /// It is part of it, and more may follow.
    Yes,
    /// It is part of it, as the last.
    Last,
}
