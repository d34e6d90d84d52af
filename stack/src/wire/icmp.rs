//! ICMP (RFC 792) and ICMPv6 (RFC 4443), as far as a TCP host needs them: errors about its own
//! segments, and echo.
//!
//! A packet that [`Packet::parse`](super::Packet::parse) refuses with
//! [`ParseError::Protocol`]`(`[`PROTOCOL_ICMP`]`)` or `(`[`PROTOCOL_ICMPV6`]`)` is one for
//! [`IcmpPacket::parse`]. [`IcmpPacket::tcp_error`] gives what
//! [`Endpoint::handle_icmp`](crate::endpoint::Endpoint::handle_icmp) takes,
//! [`IcmpPacket::echo_reply`] what is to be sent back.

use super::checksum::{ChecksumPolicy, Sum};
use super::error::{EmitError, Layer, ParseError, room, split_header};
use super::ip::{Ecn, IpHeader, PROTOCOL_ICMP, PROTOCOL_ICMPV6};
use super::seq::Seq;
use super::{ipv4, ipv6};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Type, code, checksum and the four bytes whose meaning hangs on the type.
const HEADER_LEN: usize = 8;

/// An ICMP message in its IP packet; the family of the addresses says which ICMP it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpPacket<'a> {
    /// The IP header.
    pub ip: IpHeader,
    /// The message.
    pub message: IcmpMessage<'a>,
}

/// An ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpMessage<'a> {
    /// To be answered with the same in an echo reply (RFC 1122 section 3.2.2.6).
    EchoRequest(Echo<'a>),
    /// The answer.
    EchoReply(Echo<'a>),
    /// Something went wrong with a packet.
    Error {
        /// What.
        kind: IcmpErrorKind,
        /// The packet, from its IP header on, as much of it as there was room for.
        original: &'a [u8],
    },
    /// Anything else.
    Other {
        /// The type.
        kind: u8,
        /// The code.
        code: u8,
        /// What follows the checksum.
        body: &'a [u8],
    },
}

/// Echo request and reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Names the asker.
    pub ident: u16,
    /// Counts the requests.
    pub sequence: u16,
    /// Comes back as it is.
    pub data: &'a [u8],
}

/// What went wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcmpErrorKind {
    /// Destination unreachable (type 3; ICMPv6 type 1).
    Unreachable(Unreachable),
    /// Fragmentation needed and DF set (type 3 code 4, RFC 1191); packet too big (ICMPv6 type 2,
    /// RFC 8201).
    PacketTooBig {
        /// What the next link takes, in bytes with the IP header; 0 from routers older than
        /// RFC 1191.
        mtu: u32,
    },
    /// Time exceeded (type 11; ICMPv6 type 3).
    TimeExceeded(TimeExceeded),
    /// Parameter problem (type 12; ICMPv6 type 4).
    ParameterProblem {
        /// The code.
        code: u8,
        /// Where in the original packet the problem is.
        pointer: u32,
    },
    /// Source quench (type 4): obsolete and to be ignored (RFC 6633).
    SourceQuench,
}

/// Why a destination cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unreachable {
    /// No route to the network (code 0).
    Network,
    /// The host does not answer (code 1; ICMPv6 code 3).
    Host,
    /// The host does not speak TCP (code 2).
    Protocol,
    /// Nobody listens on the port (code 3; ICMPv6 code 4).
    Port,
    /// The source route failed (code 5).
    SourceRoute,
    /// Forbidden by an administrator (code 13; ICMPv6 code 1).
    Prohibited,
    /// Another code.
    Other(u8),
}

/// Whose time ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeExceeded {
    /// The hop limit, on the way (code 0).
    HopLimit,
    /// The reassembly of fragments, at the end of it (code 1).
    Reassembly,
}

/// An ICMP error about a TCP segment that this host sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IcmpError {
    /// What went wrong.
    pub kind: IcmpErrorKind,
    /// With which segment.
    pub segment: QuotedSegment,
}

/// What the quotation in an ICMP error is sure to tell of a TCP segment: its first eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuotedSegment {
    /// Who sent the segment.
    pub src: SocketAddr,
    /// Whom to.
    pub dst: SocketAddr,
    /// Its sequence number.
    pub seq: Seq,
}

impl Unreachable {
    const fn from_v4(code: u8) -> Self {
        match code {
            0 => Self::Network,
            1 => Self::Host,
            2 => Self::Protocol,
            3 => Self::Port,
            5 => Self::SourceRoute,
            13 => Self::Prohibited,
            other => Self::Other(other),
        }
    }

    const fn from_v6(code: u8) -> Self {
        match code {
            0 => Self::Network,
            1 => Self::Prohibited,
            3 => Self::Host,
            4 => Self::Port,
            other => Self::Other(other),
        }
    }

    /// The code, where the family has one.
    const fn to_v4(self) -> Option<u8> {
        Some(match self {
            Self::Network => 0,
            Self::Host => 1,
            Self::Protocol => 2,
            Self::Port => 3,
            Self::SourceRoute => 5,
            Self::Prohibited => 13,
            // 4 is another message.
            Self::Other(4) => return None,
            Self::Other(code) => code,
        })
    }

    const fn to_v6(self) -> Option<u8> {
        Some(match self {
            Self::Network => 0,
            Self::Prohibited => 1,
            Self::Host => 3,
            Self::Port => 4,
            Self::Protocol | Self::SourceRoute => return None,
            Self::Other(code) => code,
        })
    }
}

impl TimeExceeded {
    const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::HopLimit),
            1 => Some(Self::Reassembly),
            _ => None,
        }
    }
}

impl<'a> IcmpPacket<'a> {
    /// Read an IPv4 packet that carries ICMP, or an IPv6 packet that carries ICMPv6.
    ///
    /// # Errors
    /// As for a TCP packet; [`ParseError::Protocol`] for another protocol.
    pub fn parse(bytes: &'a [u8], checksum: ChecksumPolicy) -> Result<Self, ParseError> {
        let (ip, body) = match bytes.first().map(|b| b >> 4) {
            Some(6) => ipv6::parse_protocol(bytes, PROTOCOL_ICMPV6)?,
            _ => ipv4::parse_protocol(bytes, checksum, PROTOCOL_ICMP)?,
        };
        if checksum == ChecksumPolicy::Verify && !sum(&ip, body).is_valid() {
            return Err(ParseError::Checksum(Layer::Icmp));
        }
        let (h, rest) = split_header::<HEADER_LEN>(body, Layer::Icmp)?;
        let message = if ip.src.is_ipv4() {
            message_v4(h, rest)
        } else {
            message_v6(h, rest)
        };
        let message = message.unwrap_or(IcmpMessage::Other {
            kind: h[0],
            code: h[1],
            body: &body[4..],
        });
        Ok(Self { ip, message })
    }

    /// The error, if this is one about a TCP segment that its receiver sent.
    pub fn tcp_error(&self) -> Option<IcmpError> {
        let IcmpMessage::Error { kind, original } = self.message else {
            return None;
        };
        let segment = QuotedSegment::parse(original).ok()?;
        (segment.src.ip() == self.ip.dst).then_some(IcmpError { kind, segment })
    }

    /// The answer to an echo request that was sent to this host alone.
    pub fn echo_reply(&self) -> Option<Self> {
        let IcmpMessage::EchoRequest(echo) = self.message else {
            return None;
        };
        let single = |addr: IpAddr| {
            let broadcast = addr == IpAddr::V4(Ipv4Addr::BROADCAST);
            !(addr.is_multicast() || addr.is_unspecified() || broadcast)
        };
        if !single(self.ip.src) || !single(self.ip.dst) {
            return None;
        }
        Some(Self {
            ip: IpHeader {
                src: self.ip.dst,
                dst: self.ip.src,
                ecn: Ecn::NotEct,
                dscp: self.ip.dscp,
                hop_limit: 64,
            },
            message: IcmpMessage::EchoReply(echo),
        })
    }

    /// Bytes of the packet on the wire.
    pub fn wire_len(&self) -> usize {
        let message = match self.message {
            IcmpMessage::EchoRequest(echo) | IcmpMessage::EchoReply(echo) => {
                HEADER_LEN + echo.data.len()
            }
            IcmpMessage::Error { original, .. } => HEADER_LEN + original.len(),
            IcmpMessage::Other { body, .. } => 4 + body.len(),
        };
        self.ip.wire_len() + message
    }

    /// Write the packet with its checksums to the front of `buf`; how many bytes, always
    /// [`wire_len`](Self::wire_len).
    ///
    /// # Errors
    /// As for a TCP packet; [`EmitError::NoSuchIcmp`] for an error that the ICMP of this family
    /// does not know.
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, EmitError> {
        let len = self.wire_len() - self.ip.wire_len();
        let v4 = self.ip.src.is_ipv4();
        let protocol = if v4 { PROTOCOL_ICMP } else { PROTOCOL_ICMPV6 };
        let (first, second) = self.front().ok_or(EmitError::NoSuchIcmp)?;
        let at = self.ip.emit_protocol(protocol, len, buf)?;
        let out = room(&mut buf[at..], len)?;
        out[..4].copy_from_slice(&[first[0], first[1], 0, 0]);
        match self.message {
            IcmpMessage::Other { body, .. } => out[4..].copy_from_slice(body),
            IcmpMessage::EchoRequest(Echo { data, .. })
            | IcmpMessage::EchoReply(Echo { data, .. })
            | IcmpMessage::Error { original: data, .. } => {
                out[4..8].copy_from_slice(&second);
                out[8..].copy_from_slice(data);
            }
        }
        let checksum = sum(&self.ip, out).checksum();
        out[2..4].copy_from_slice(&checksum.to_be_bytes());
        Ok(at + len)
    }

    /// Type and code, and the four bytes after the checksum.
    fn front(&self) -> Option<([u8; 2], [u8; 4])> {
        let v4 = self.ip.src.is_ipv4();
        let pick = |four: u8, six: u8| if v4 { four } else { six };
        let echo_id = |e: Echo<'_>| {
            let ([a, b], [c, d]) = (e.ident.to_be_bytes(), e.sequence.to_be_bytes());
            [a, b, c, d]
        };
        let kind = match self.message {
            IcmpMessage::EchoRequest(echo) => return Some(([pick(8, 128), 0], echo_id(echo))),
            IcmpMessage::EchoReply(echo) => return Some(([pick(0, 129), 0], echo_id(echo))),
            IcmpMessage::Other { kind, code, .. } => return Some(([kind, code], [0; 4])),
            IcmpMessage::Error { kind, .. } => kind,
        };
        Some(match (kind, v4) {
            (IcmpErrorKind::Unreachable(u), true) => ([3, u.to_v4()?], [0; 4]),
            (IcmpErrorKind::Unreachable(u), false) => ([1, u.to_v6()?], [0; 4]),
            (IcmpErrorKind::PacketTooBig { mtu }, true) => {
                let [a, b] = u16::try_from(mtu).ok()?.to_be_bytes();
                ([3, 4], [0, 0, a, b])
            }
            (IcmpErrorKind::PacketTooBig { mtu }, false) => ([2, 0], mtu.to_be_bytes()),
            (IcmpErrorKind::TimeExceeded(t), _) => ([pick(11, 3), t as u8], [0; 4]),
            (IcmpErrorKind::ParameterProblem { code, pointer }, true) => {
                ([12, code], [u8::try_from(pointer).ok()?, 0, 0, 0])
            }
            (IcmpErrorKind::ParameterProblem { code, pointer }, false) => {
                ([4, code], pointer.to_be_bytes())
            }
            (IcmpErrorKind::SourceQuench, true) => ([4, 0], [0; 4]),
            (IcmpErrorKind::SourceQuench, false) => return None,
        })
    }
}

impl QuotedSegment {
    /// Read the start of a TCP packet as an ICMP error quotes it: cut off after eight bytes of
    /// TCP or later, with a total length that may count what was cut off, and with whatever
    /// routers on the way have changed.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] when even that much is not there, [`ParseError::Protocol`] if it
    /// is no TCP, [`ParseError::Fragment`] for a later fragment.
    pub fn parse(original: &[u8]) -> Result<Self, ParseError> {
        let (src, dst, segment) = match original.first().map(|b| b >> 4) {
            Some(6) => ipv6::quoted(original)?,
            Some(4) | None => ipv4::quoted(original)?,
            Some(version) => return Err(ParseError::Version(version)),
        };
        let (h, _) = split_header::<8>(segment, Layer::Tcp)?;
        Ok(Self {
            src: SocketAddr::new(src, u16::from_be_bytes([h[0], h[1]])),
            dst: SocketAddr::new(dst, u16::from_be_bytes([h[2], h[3]])),
            seq: Seq(u32::from_be_bytes([h[4], h[5], h[6], h[7]])),
        })
    }
}

fn message_v4<'a>(h: &[u8; HEADER_LEN], rest: &'a [u8]) -> Option<IcmpMessage<'a>> {
    let kind = match (h[0], h[1]) {
        (0, 0) => return Some(IcmpMessage::EchoReply(echo(h, rest))),
        (8, 0) => return Some(IcmpMessage::EchoRequest(echo(h, rest))),
        (3, 4) => IcmpErrorKind::PacketTooBig {
            mtu: u32::from(u16::from_be_bytes([h[6], h[7]])),
        },
        (3, code) => IcmpErrorKind::Unreachable(Unreachable::from_v4(code)),
        (4, 0) => IcmpErrorKind::SourceQuench,
        (11, code) => IcmpErrorKind::TimeExceeded(TimeExceeded::from_code(code)?),
        (12, code) => IcmpErrorKind::ParameterProblem {
            code,
            pointer: u32::from(h[4]),
        },
        _ => return None,
    };
    let original = rest;
    Some(IcmpMessage::Error { kind, original })
}

fn message_v6<'a>(h: &[u8; HEADER_LEN], rest: &'a [u8]) -> Option<IcmpMessage<'a>> {
    let field = u32::from_be_bytes([h[4], h[5], h[6], h[7]]);
    let kind = match (h[0], h[1]) {
        (128, 0) => return Some(IcmpMessage::EchoRequest(echo(h, rest))),
        (129, 0) => return Some(IcmpMessage::EchoReply(echo(h, rest))),
        (1, code) => IcmpErrorKind::Unreachable(Unreachable::from_v6(code)),
        // RFC 4443 section 3.2: the code is ignored.
        (2, _) => IcmpErrorKind::PacketTooBig { mtu: field },
        (3, code) => IcmpErrorKind::TimeExceeded(TimeExceeded::from_code(code)?),
        (4, code) => IcmpErrorKind::ParameterProblem {
            code,
            pointer: field,
        },
        _ => return None,
    };
    let original = rest;
    Some(IcmpMessage::Error { kind, original })
}

fn echo<'a>(h: &[u8; HEADER_LEN], data: &'a [u8]) -> Echo<'a> {
    Echo {
        ident: u16::from_be_bytes([h[4], h[5]]),
        sequence: u16::from_be_bytes([h[6], h[7]]),
        data,
    }
}

/// ICMPv6 sums a pseudo-header, ICMP does not (RFC 4443 section 2.3).
fn sum(ip: &IpHeader, message: &[u8]) -> Sum {
    match ip.src {
        IpAddr::V4(_) => Sum::of(message),
        IpAddr::V6(_) => {
            Sum::pseudo_header_of(PROTOCOL_ICMPV6, ip.src, ip.dst, message.len()) + Sum::of(message)
        }
    }
}

impl fmt::Display for IcmpErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => why.fmt(f),
            Self::PacketTooBig { mtu } => write!(f, "packet too big for a link of {mtu} bytes"),
            Self::TimeExceeded(TimeExceeded::HopLimit) => f.write_str("hop limit exceeded"),
            Self::TimeExceeded(TimeExceeded::Reassembly) => f.write_str("reassembly time exceeded"),
            Self::ParameterProblem { code, pointer } => {
                write!(f, "parameter problem {code} at byte {pointer}")
            }
            Self::SourceQuench => f.write_str("source quench"),
        }
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network => f.write_str("network unreachable"),
            Self::Host => f.write_str("host unreachable"),
            Self::Protocol => f.write_str("protocol unreachable"),
            Self::Port => f.write_str("port unreachable"),
            Self::SourceRoute => f.write_str("source route failed"),
            Self::Prohibited => f.write_str("communication prohibited"),
            Self::Other(code) => write!(f, "destination unreachable, code {code}"),
        }
    }
}
