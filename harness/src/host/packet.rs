//! The packets of the simulated network: parsed headers, payload without bytes.

use crate::net::packet::{HostId, Packet};
use narrows::buffer::Synthetic;
use narrows::buffer::synthetic::check_pattern;
use narrows::wire::{self, ChecksumPolicy, Ecn, IpHeader, TcpHeader};
use std::net::{IpAddr, Ipv4Addr};

/// The address of a host: 10.0.0.1 for host 0, and so on.
pub fn address_of(host: HostId) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(FIRST + host.0))
}

const FIRST: u32 = 0x0a00_0001;

/// A TCP segment in its IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimPacket {
    ip: IpHeader,
    tcp: TcpHeader,
    payload: Synthetic,
    len: u32,
    corrupt: bool,
}

impl SimPacket {
    /// From what an endpoint's `poll_transmit` gives.
    pub fn new(ip: IpHeader, tcp: TcpHeader, payload: Synthetic) -> Self {
        let len = ip.wire_len() as u32 + tcp.wire_len() as u32 + payload.len;
        Self {
            ip,
            tcp,
            payload,
            len,
            corrupt: false,
        }
    }

    /// Headers and payload.
    pub fn parts(&self) -> (&IpHeader, &TcpHeader, Synthetic) {
        (&self.ip, &self.tcp, self.payload)
    }

    /// The link damaged it.
    pub fn is_corrupt(&self) -> bool {
        self.corrupt
    }

    /// The packet as bytes, from the IP header on, into `buf`.
    pub fn write(&self, buf: &mut Vec<u8>) {
        buf.resize(self.len as usize, 0);
        let written = wire::packet::emit(&self.ip, &self.tcp, &self.payload, buf)
            .expect("a packet of our own stack fits its own length");
        debug_assert_eq!(written, self.len as usize);
        if self.corrupt
            && let Some(last) = buf.last_mut()
        {
            *last ^= 1;
        }
    }

    /// Serialised and parsed again.
    ///
    /// # Panics
    /// If that changes anything: the wire format is wrong.
    pub fn through_bytes(&self, buf: &mut Vec<u8>) -> Self {
        self.write(buf);
        let parsed = wire::Packet::parse(buf, ChecksumPolicy::Verify)
            .unwrap_or_else(|e| panic!("our own packet does not parse: {e:?}: {self:?}"));
        assert_eq!(
            check_pattern(self.payload.offset, parsed.payload),
            None,
            "the payload came out changed"
        );
        let payload = Synthetic {
            offset: self.payload.offset,
            len: parsed.payload.len() as u32,
        };
        let again = Self::new(parsed.ip, parsed.tcp, payload);
        assert_eq!(&again, self, "the packet came out changed");
        again
    }
}

impl Packet for SimPacket {
    #[inline]
    fn wire_len(&self) -> u32 {
        self.len
    }
    #[inline]
    fn destination(&self) -> HostId {
        match self.ip.dst {
            IpAddr::V4(v4) => HostId(v4.to_bits().wrapping_sub(FIRST)),
            IpAddr::V6(v6) => HostId((v6.to_bits() as u32).wrapping_sub(FIRST)),
        }
    }
    fn flow_hash(&self) -> u32 {
        let ports = u32::from(self.tcp.src_port) << 16 | u32::from(self.tcp.dst_port);
        let hosts = match (self.ip.src, self.ip.dst) {
            (IpAddr::V4(s), IpAddr::V4(d)) => s.to_bits().rotate_left(16) ^ d.to_bits(),
            (s, d) => s.to_canonical().is_ipv4() as u32 ^ u32::from(d.is_ipv4()),
        };
        (ports ^ hosts).wrapping_mul(0x9e37_79b9)
    }
    #[inline]
    fn is_ecn_capable(&self) -> bool {
        self.ip.ecn.is_capable()
    }
    #[inline]
    fn mark_ce(&mut self) {
        self.ip.ecn = Ecn::Ce;
    }
    fn corrupt(&mut self, _noise: u64) {
        self.corrupt = true;
    }
}
