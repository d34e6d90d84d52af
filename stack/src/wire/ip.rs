//! What TCP needs of the IP header, the same for IPv4 and IPv6.

use core::net::IpAddr;

/// IP's protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// IPv4's protocol number of ICMP.
pub const PROTOCOL_ICMP: u8 = 1;
/// IPv6's next-header value of ICMPv6.
pub const PROTOCOL_ICMPV6: u8 = 58;

/// The ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable transport.
    #[default]
    NotEct = 0b00,
    /// ECN-capable transport, codepoint 1 (L4S, RFC 9331).
    Ect1 = 0b01,
    /// ECN-capable transport, codepoint 0.
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

impl Ecn {
    /// From the two low bits of the traffic-class byte.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }
    /// The two bits.
    pub const fn bits(self) -> u8 {
        self as u8
    }
    /// Whether a switch may mark it instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// Addresses and the fields of the IP header that TCP cares about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// Source address.
    pub src: IpAddr,
    /// Destination address; same family as `src`.
    pub dst: IpAddr,
    /// ECN field.
    pub ecn: Ecn,
    /// Differentiated services code point, six bits.
    pub dscp: u8,
    /// Time to live or hop limit.
    pub hop_limit: u8,
}

impl IpHeader {
    /// Bytes of the header on the wire: 20 for IPv4, 40 for IPv6.
    pub const fn wire_len(&self) -> usize {
        match self.src {
            IpAddr::V4(_) => 20,
            IpAddr::V6(_) => 40,
        }
    }

    /// The traffic-class byte.
    pub(super) const fn traffic_class(&self) -> u8 {
        self.dscp << 2 | self.ecn.bits()
    }
}
