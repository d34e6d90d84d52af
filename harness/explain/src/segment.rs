//! A TCP segment as a capture shows it: cut off, unchecksummed, longer than any packet.
//!
//! The readers in [`narrows::wire`] refuse what is not whole, as a TCP must. A capture keeps the
//! first 96 bytes, shows super-frames before they are cut and sums before they are computed, so
//! lengths come from headers here and sums are not looked at.

use narrows::wire::ip::{PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_TCP};
use narrows::wire::{Ecn, Flags, OptionPolicy, Seq, TcpOptions};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Who sent it.
    pub src: SocketAddr,
    /// Who is to get it.
    pub dst: SocketAddr,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// Identification of the IPv4 header, 0 in IPv6: with it a packet captured twice shows.
    pub identification: u16,
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// SEG.SEQ.
    pub seq: Seq,
    /// SEG.ACK; meaningful with [`Flags::ACK`].
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// SEG.WND as it stands in the header.
    pub window: u16,
    /// The options that were captured.
    pub options: TcpOptions,
    /// Bytes of payload, captured or not.
    pub len: u32,
}

impl Segment {
    /// An empty one with nothing set, for who makes segments and does not read them: no number, no
    /// window, no ECN, a hop limit of 64.
    pub fn between(src: SocketAddr, dst: SocketAddr) -> Self {
        Self {
            src,
            dst,
            ecn: Ecn::NotEct,
            identification: 0,
            hop_limit: 64,
            seq: Seq(0),
            ack: Seq(0),
            flags: Flags::from_bits(0),
            window: 0,
            options: TcpOptions::default(),
            len: 0,
        }
    }
}

/// What a captured IP packet is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A TCP segment.
    Tcp(Segment),
    /// A router refused a packet of this connection as too big (RFC 1191, RFC 8201); the addresses
    /// are those of the packet that was refused.
    TooBig {
        /// Its source.
        src: SocketAddr,
        /// Its destination.
        dst: SocketAddr,
    },
    /// Something else that is whole: another protocol, a fragment.
    Other,
    /// What is captured does not hold a TCP header.
    Short,
}

/// IPv6 has each extension header once, destination options twice (RFC 8200 section 4.1).
const MOST_EXTENSIONS: usize = 8;
const TCP_HEADER: usize = 20;

/// Reads the IP packet at the front of `bytes`, which was `original` bytes long on the wire.
pub fn parse(bytes: &[u8], original: usize) -> Content {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => parse_ipv4(bytes, original),
        Some(6) => parse_ipv6(bytes, original),
        Some(_) => Content::Other,
        None => Content::Short,
    }
}

fn parse_ipv4(bytes: &[u8], original: usize) -> Content {
    let Some(h) = bytes.first_chunk::<20>() else {
        return Content::Short;
    };
    let header = usize::from(h[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    // Of a super-frame that the field has no room for, it is 0.
    let total = if total == 0 { original } else { total };
    let fragment_offset = u16::from_be_bytes([h[6], h[7]]) & 0x1fff;
    if header < 20 || total < header || fragment_offset != 0 {
        return Content::Other;
    }
    let Some(rest) = bytes.get(header..) else {
        return Content::Short;
    };
    let src = IpAddr::V4(Ipv4Addr::new(h[12], h[13], h[14], h[15]));
    let dst = IpAddr::V4(Ipv4Addr::new(h[16], h[17], h[18], h[19]));
    match h[9] {
        PROTOCOL_TCP => {
            let rest = &rest[..rest.len().min(total - header)];
            let ip = Ip {
                src,
                dst,
                ecn: Ecn::from_bits(h[1]),
                identification: u16::from_be_bytes([h[4], h[5]]),
                hop_limit: h[8],
            };
            parse_tcp(rest, total - header, &ip)
        }
        // Destination unreachable, fragmentation needed.
        PROTOCOL_ICMP if rest.starts_with(&[3, 4]) => too_big(rest.get(8..)),
        _ => Content::Other,
    }
}

fn parse_ipv6(bytes: &[u8], original: usize) -> Content {
    let Some(h) = bytes.first_chunk::<40>() else {
        return Content::Short;
    };
    let payload = usize::from(u16::from_be_bytes([h[4], h[5]]));
    // A jumbogram, or a super-frame that the field has no room for.
    let payload = if payload == 0 {
        original.saturating_sub(40)
    } else {
        payload
    };
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&h[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let (src, dst) = (address(8), address(24));
    let (mut next, mut at) = (h[6], 40);
    for _ in 0..MOST_EXTENSIONS {
        let Some(&[following, length, a, b]) = bytes.get(at..).and_then(|r| r.first_chunk()) else {
            return Content::Short;
        };
        let len = match next {
            // Hop-by-hop and destination options, routing, mobility.
            0 | 43 | 60 | 135 => 8 + 8 * usize::from(length),
            // An authentication header counts in words of four (RFC 4302 section 2.2).
            51 => 8 + 4 * usize::from(length),
            // A fragment other than the first has no TCP header.
            44 if u16::from_be_bytes([a, b]) & 0xfff8 == 0 => 8,
            44 => return Content::Other,
            _ => break,
        };
        next = following;
        at += len;
    }
    let Some(rest) = bytes.get(at..) else {
        return Content::Short;
    };
    let traffic_class = h[0] << 4 | h[1] >> 4;
    match next {
        PROTOCOL_TCP => {
            let Some(len) = (40 + payload).checked_sub(at) else {
                return Content::Other;
            };
            let ip = Ip {
                src,
                dst,
                ecn: Ecn::from_bits(traffic_class),
                identification: 0,
                hop_limit: h[7],
            };
            parse_tcp(&rest[..rest.len().min(len)], len, &ip)
        }
        PROTOCOL_ICMPV6 if rest.first() == Some(&2) => too_big(rest.get(8..)),
        _ => Content::Other,
    }
}

/// What an IP header says of a segment.
struct Ip {
    src: IpAddr,
    dst: IpAddr,
    ecn: Ecn,
    identification: u16,
    hop_limit: u8,
}

#[inline(always)]
fn parse_tcp(bytes: &[u8], len: usize, ip: &Ip) -> Content {
    let Some(h) = bytes.first_chunk::<TCP_HEADER>() else {
        return Content::Short;
    };
    let header = usize::from(h[12] >> 4) * 4;
    if header < TCP_HEADER || header > len {
        return Content::Other;
    }
    let be16 = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
    let be32 = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
    let options = &bytes[TCP_HEADER..header.min(bytes.len())];
    // Of options that were cut off, those before the cut are kept.
    let options = TcpOptions::parse(options, OptionPolicy::KeepValid).unwrap_or_default();
    Content::Tcp(Segment {
        src: SocketAddr::new(ip.src, be16(0)),
        dst: SocketAddr::new(ip.dst, be16(2)),
        ecn: ip.ecn,
        identification: ip.identification,
        hop_limit: ip.hop_limit,
        seq: Seq(be32(4)),
        ack: Seq(be32(8)),
        flags: Flags::from_bits(be16(12)),
        window: be16(14),
        options,
        len: u32::try_from(len - header).unwrap_or(u32::MAX),
    })
}

/// The connection of the packet quoted in an ICMP error.
fn too_big(quoted: Option<&[u8]>) -> Content {
    let ports = |segment: &[u8]| {
        let &[a, b, c, d] = segment.first_chunk()?;
        Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    };
    let ends = quoted.and_then(|bytes| match bytes.first()? >> 4 {
        4 => {
            let h = bytes.first_chunk::<20>()?;
            if h[9] != PROTOCOL_TCP {
                return None;
            }
            let (src, dst) = ports(bytes.get(usize::from(h[0] & 0xf) * 4..)?)?;
            let address = |at: usize| IpAddr::from([h[at], h[at + 1], h[at + 2], h[at + 3]]);
            Some((
                SocketAddr::new(address(12), src),
                SocketAddr::new(address(16), dst),
            ))
        }
        6 => {
            let h = bytes.first_chunk::<40>()?;
            if h[6] != PROTOCOL_TCP {
                return None;
            }
            let (src, dst) = ports(bytes.get(40..)?)?;
            let address = |at: usize| {
                let octets: [u8; 16] = h[at..at + 16].try_into().ok()?;
                Some(IpAddr::from(octets))
            };
            Some((
                SocketAddr::new(address(8)?, src),
                SocketAddr::new(address(24)?, dst),
            ))
        }
        _ => None,
    });
    ends.map_or(Content::Other, |(src, dst)| Content::TooBig { src, dst })
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::wire::{IpHeader, SackBlock, TcpHeader, Timestamps};
    use proptest::prelude::*;

    fn packet(v6: bool, payload: usize) -> (Vec<u8>, TcpHeader) {
        let mut options = TcpOptions {
            timestamps: Some(Timestamps { val: 1, ecr: 2 }),
            ..TcpOptions::default()
        };
        options.sack.push(SackBlock {
            start: Seq(5),
            end: Seq(9),
        });
        let tcp = TcpHeader {
            src_port: 1,
            dst_port: 2,
            seq: Seq(3),
            ack: Seq(4),
            flags: Flags::ACK,
            window: 5,
            urgent: 0,
            options,
        };
        let ip = IpHeader {
            src: if v6 {
                "2001:db8::1".parse().unwrap()
            } else {
                IpAddr::from([10, 0, 0, 1])
            },
            dst: if v6 {
                "2001:db8::2".parse().unwrap()
            } else {
                IpAddr::from([10, 0, 0, 2])
            },
            ecn: Ecn::Ce,
            dscp: 0,
            hop_limit: 9,
        };
        let mut bytes = vec![0; ip.wire_len() + tcp.wire_len() + payload];
        let len = tcp.wire_len() + payload;
        let n = ip.emit(len, &mut bytes).unwrap();
        tcp.emit(&mut bytes[n..]).unwrap();
        (bytes, tcp)
    }

    #[test]
    fn a_packet_cut_at_96_bytes_has_its_length_and_options() {
        for v6 in [false, true] {
            let (bytes, tcp) = packet(v6, 1_400);
            let Content::Tcp(segment) = parse(&bytes[..96 - 14], bytes.len()) else {
                panic!("{v6}")
            };
            assert_eq!(
                (segment.len, segment.ecn, segment.hop_limit),
                (1_400, Ecn::Ce, 9)
            );
            assert_eq!(segment.options.timestamps, tcp.options.timestamps);
            assert_eq!(
                segment.options.sack.len(),
                usize::from(!v6 || 82 >= 40 + 44)
            );
        }
    }

    #[test]
    fn a_super_frame_without_a_length_has_that_of_the_wire() {
        let (mut bytes, _) = packet(false, 60_000);
        bytes[2..4].fill(0);
        let on_the_wire = bytes.len();
        let Content::Tcp(segment) = parse(&bytes[..80], on_the_wire) else {
            panic!()
        };
        assert_eq!(segment.len, 60_000);
    }

    #[test]
    fn a_refusal_names_the_connection_of_the_quoted_packet() {
        let (quoted, _) = packet(false, 1_400);
        let mut icmp = vec![0; 28];
        icmp[0] = 0x45;
        icmp[2..4].copy_from_slice(&56_u16.to_be_bytes());
        icmp[9] = PROTOCOL_ICMP;
        icmp[20..22].copy_from_slice(&[3, 4]);
        icmp.extend(&quoted[..28]);
        let ends = Content::TooBig {
            src: "10.0.0.1:1".parse().unwrap(),
            dst: "10.0.0.2:2".parse().unwrap(),
        };
        assert_eq!(parse(&icmp, icmp.len()), ends);
    }

    proptest! {
        #[test]
        fn anything_can_be_parsed(bytes in proptest::collection::vec(any::<u8>(), 0..120), original in 0_usize..100_000) {
            let _ = parse(&bytes, original);
            for link in [0, 1, 101, 113, 276] {
                let _ = crate::link::Link::of(link).network(&bytes);
            }
        }
    }
}
