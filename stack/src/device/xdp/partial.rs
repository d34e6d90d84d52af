//! Recognises TCP segments whose checksum is not complete, because the kernel that sent them left
//! it to a device that they never came to.

use crate::interface::PartialChecksum;
use crate::wire::checksum::Sum;
use crate::wire::ethernet::{EtherType, EthernetHeader};
use crate::wire::ip::PROTOCOL_TCP;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where a TCP header has its checksum.
const CHECKSUM_AT: usize = 16;
const TCP_HEADER: usize = 20;

/// A TCP segment in a frame.
struct Segment<'a> {
    /// Where it begins.
    start: usize,
    bytes: &'a [u8],
    pseudo_header: Sum,
}

/// The segment in an Ethernet frame without IPv6 extension headers.
fn segment(frame: &[u8]) -> Option<Segment<'_>> {
    let (ethernet, packet) = EthernetHeader::parse(frame).ok()?;
    let at = frame.len() - packet.len();
    let word = |at: usize| {
        packet
            .get(at..at + 2)
            .map(|w| u16::from_be_bytes([w[0], w[1]]))
    };
    let (header, end, src, dst) = match ethernet.ether_type {
        EtherType::Ipv4 => {
            let &[first, .., protocol] = packet.first_chunk::<10>()?;
            if first >> 4 != 4 || protocol != PROTOCOL_TCP {
                return None;
            }
            let address = |at| packet.get(at..)?.first_chunk::<4>().copied();
            let header = usize::from(first & 0xf) * 4;
            let src = IpAddr::V4(Ipv4Addr::from(address(12)?));
            let dst = IpAddr::V4(Ipv4Addr::from(address(16)?));
            (header, usize::from(word(2)?), src, dst)
        }
        EtherType::Ipv6 => {
            if *packet.get(6)? != PROTOCOL_TCP {
                return None;
            }
            let address = |at| packet.get(at..)?.first_chunk::<16>().copied();
            let src = IpAddr::V6(Ipv6Addr::from(address(8)?));
            let dst = IpAddr::V6(Ipv6Addr::from(address(24)?));
            (40, usize::from(word(4)?) + 40, src, dst)
        }
        EtherType::Arp | EtherType::Other(_) => return None,
    };
    let bytes = packet.get(header..end)?;
    (bytes.len() >= TCP_HEADER).then(|| Segment {
        start: at + header,
        bytes,
        pseudo_header: Sum::pseudo_header(src, dst, bytes.len()),
    })
}

/// The frame holds a TCP segment with the sum of its pseudo-header in place of its checksum.
///
/// One in 65,536 complete checksums looks so by chance: those are told apart by adding up.
pub(super) fn partial_checksum(frame: &[u8]) -> Option<PartialChecksum> {
    let segment = segment(frame)?;
    let field = [segment.bytes[CHECKSUM_AT], segment.bytes[CHECKSUM_AT + 1]];
    if u16::from_be_bytes(field) != segment.pseudo_header.fold() {
        return None;
    }
    if (segment.pseudo_header + Sum::of(segment.bytes)).is_valid() {
        return None;
    }
    Some(PartialChecksum {
        start: u16::try_from(segment.start).ok()?,
        offset: CHECKSUM_AT as u16,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame around a segment of 24 bytes with this checksum field.
    fn frame(v6: bool, field: u16) -> Vec<u8> {
        let mut f = vec![2; 12];
        if v6 {
            f.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, 6, 64]);
            f.extend([0xfd; 32]);
        } else {
            f.extend([8, 0, 0x45, 0, 0, 44, 0, 0, 0, 0, 64, 6, 0, 0]);
            f.extend([10, 77, 0, 9, 10, 77, 0, 1]);
        }
        f.extend([0, 7, 0x80, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x10, 1, 0]);
        f.extend(field.to_be_bytes());
        f.extend([0, 0, b'a', b'b', b'c', b'd']);
        // What Ethernet pads is no part of the packet.
        f.resize(f.len().max(60) + 6, 0);
        f
    }

    #[test]
    fn the_sum_of_the_pseudo_header_is_no_checksum() {
        for v6 in [false, true] {
            let blank = frame(v6, 0);
            let segment = segment(&blank).unwrap();
            assert_eq!(segment.bytes.len(), 24);
            let pseudo = segment.pseudo_header;
            let full = (pseudo + Sum::of(segment.bytes)).checksum();
            let found = partial_checksum(&frame(v6, pseudo.fold()));
            let start = if v6 { 54 } else { 34 };
            assert_eq!(found, Some(PartialChecksum { start, offset: 16 }));
            assert_eq!(partial_checksum(&frame(v6, full)), None);
            assert_eq!(partial_checksum(&frame(v6, !pseudo.fold())), None);
        }
    }

    #[test]
    fn a_complete_checksum_that_looks_partial_is_not() {
        let blank = frame(false, 0);
        let pseudo = segment(&blank).unwrap().pseudo_header;
        // Choose the text so that the checksum becomes the sum of the pseudo-header.
        let hit = (0..=u16::MAX).find_map(|n| {
            let mut f = frame(false, pseudo.fold());
            f[54..56].copy_from_slice(&n.to_be_bytes());
            let s = segment(&f).unwrap();
            (s.pseudo_header + Sum::of(s.bytes)).is_valid().then_some(f)
        });
        assert_eq!(partial_checksum(&hit.unwrap()), None);
    }

    #[test]
    fn anything_short_or_strange_is_passed_on() {
        for v6 in [false, true] {
            let whole = frame(v6, 0);
            for len in 0..whole.len() {
                assert_eq!(partial_checksum(&whole[..len]), None);
            }
            let mut udp = whole.clone();
            udp[if v6 { 20 } else { 23 }] = 17;
            assert!(segment(&udp).is_none());
        }
    }
}
