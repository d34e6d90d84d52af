//! The IPv4 header (RFC 791).

use super::checksum::{ChecksumPolicy, Sum};
use super::error::{EmitError, Layer, ParseError, room, split_header};
use super::ip::{Ecn, IpHeader, PROTOCOL_TCP};
use super::tcp::put_words;
use core::net::{IpAddr, Ipv4Addr};

/// Bytes of a header without options.
pub(super) const FIXED_LEN: usize = 20;
/// The first byte of such a header.
pub(super) const VERSION_AND_LEN: u8 = 0x45;
const DONT_FRAGMENT: u16 = 0x4000;
/// More fragments, and the fragment offset.
pub(super) const FRAGMENT: u16 = 0x3fff;
const FRAGMENT_OFFSET: u16 = 0x1fff;

/// Read the header of a packet that carries TCP; it and the segment. Options are passed over;
/// bytes beyond the total length are the link layer's padding.
///
/// # Errors
/// A packet cut off, a header length, total length or header checksum that cannot be right, a
/// fragment, a protocol other than TCP.
#[inline]
pub fn parse(bytes: &[u8], checksum: ChecksumPolicy) -> Result<(IpHeader, &[u8]), ParseError> {
    parse_protocol(bytes, checksum, PROTOCOL_TCP)
}

/// The same for a packet that carries `protocol`.
#[inline]
pub(super) fn parse_protocol(
    bytes: &[u8],
    checksum: ChecksumPolicy,
    protocol: u8,
) -> Result<(IpHeader, &[u8]), ParseError> {
    let (h, _) = split_header::<FIXED_LEN>(bytes, Layer::Ipv4)?;
    if h[0] >> 4 != 4 {
        return Err(ParseError::Version(h[0] >> 4));
    }
    let header_len = usize::from(h[0] & 0xf) * 4;
    if header_len < FIXED_LEN {
        return Err(ParseError::HeaderLength {
            layer: Layer::Ipv4,
            bytes: header_len,
        });
    }
    let total_len = u16::from_be_bytes([h[2], h[3]]);
    if usize::from(total_len) < header_len {
        return Err(ParseError::TotalLength(total_len));
    }
    let Some(packet) = bytes.get(..usize::from(total_len)) else {
        let (needed, got) = (usize::from(total_len), bytes.len());
        return Err(ParseError::Truncated {
            layer: Layer::Ipv4,
            needed,
            got,
        });
    };
    let (header, segment) = packet.split_at(header_len);
    if checksum == ChecksumPolicy::Verify && !Sum::of(header).is_valid() {
        return Err(ParseError::Checksum(Layer::Ipv4));
    }
    if u16::from_be_bytes([h[6], h[7]]) & FRAGMENT != 0 {
        return Err(ParseError::Fragment);
    }
    if h[9] != protocol {
        return Err(ParseError::Protocol(h[9]));
    }
    let header = IpHeader {
        src: Ipv4Addr::new(h[12], h[13], h[14], h[15]).into(),
        dst: Ipv4Addr::new(h[16], h[17], h[18], h[19]).into(),
        ecn: Ecn::from_bits(h[1]),
        dscp: h[1] >> 2,
        hop_limit: h[8],
    };
    Ok((header, segment))
}

/// Addresses and what there is of the segment, of a TCP packet quoted in an ICMP error.
pub(super) fn quoted(bytes: &[u8]) -> Result<(IpAddr, IpAddr, &[u8]), ParseError> {
    let (h, _) = split_header::<FIXED_LEN>(bytes, Layer::Ipv4)?;
    let header_len = usize::from(h[0] & 0xf) * 4;
    if header_len < FIXED_LEN {
        return Err(ParseError::HeaderLength {
            layer: Layer::Ipv4,
            bytes: header_len,
        });
    }
    if u16::from_be_bytes([h[6], h[7]]) & FRAGMENT_OFFSET != 0 {
        return Err(ParseError::Fragment);
    }
    if h[9] != PROTOCOL_TCP {
        return Err(ParseError::Protocol(h[9]));
    }
    let segment = bytes.get(header_len..).unwrap_or_default();
    let src = Ipv4Addr::new(h[12], h[13], h[14], h[15]);
    let dst = Ipv4Addr::new(h[16], h[17], h[18], h[19]);
    Ok((src.into(), dst.into(), segment))
}

/// Write the header: no options, DF set (so the identification may be 0, RFC 6864 section 4.1).
#[inline]
pub(super) fn emit(
    ip: &IpHeader,
    src: Ipv4Addr,
    dst: Ipv4Addr,
    protocol: u8,
    segment_len: usize,
    buf: &mut [u8],
) -> Result<usize, EmitError> {
    let words = words(ip, src, dst, protocol, segment_len)?;
    put_words(&words, room(buf, FIXED_LEN)?.as_chunks_mut().0);
    Ok(FIXED_LEN)
}

/// The words of that header.
#[inline]
pub(super) fn words(
    ip: &IpHeader,
    src: Ipv4Addr,
    dst: Ipv4Addr,
    protocol: u8,
    segment_len: usize,
) -> Result<[u32; FIXED_LEN / 4], EmitError> {
    let total = FIXED_LEN + segment_len;
    let total_len = u16::try_from(total).map_err(|_| EmitError::PacketTooLong(total))?;
    let mut words = [
        u32::from_be_bytes([VERSION_AND_LEN, ip.traffic_class(), 0, 0]) | u32::from(total_len),
        DONT_FRAGMENT.into(),
        u32::from_be_bytes([ip.hop_limit, protocol, 0, 0]),
        src.to_bits(),
        dst.to_bits(),
    ];
    words[2] |= u32::from(Sum::of_words(words).checksum());
    Ok(words)
}
