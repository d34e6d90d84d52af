//! The IPv6 header and the extension headers before TCP (RFC 8200).

use super::error::{EmitError, Layer, ParseError, room, split_header};
use super::ip::{Ecn, IpHeader, PROTOCOL_ICMPV6, PROTOCOL_TCP};
use core::net::{IpAddr, Ipv6Addr};
use core::ops::RangeInclusive;

const FIXED_LEN: usize = 40;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// Where the label is in the first four bytes (RFC 8200 section 3).
const FLOW_LABEL: u32 = 0xf_ffff;
/// An option of one byte, without a length (RFC 8200 section 4.2).
const PAD_1: u8 = 0;
/// RFC 8200 section 4.1 has each header occur once, destination options twice.
const MAX_EXTENSIONS: usize = 8;
/// Of a fragment header: the offset, and whether more follows (RFC 8200 section 4.5). All 0: the
/// packet is whole.
const FRAGMENTED: u16 = 0xfff9;
/// ICMPv6 types of neighbour discovery (RFC 4861 section 4).
const NEIGHBOR_DISCOVERY: RangeInclusive<u8> = 133..=137;

/// Read the header of a packet that carries TCP; it and the segment. Hop-by-hop options,
/// destination options and routing headers without segments left are passed over, unless an option
/// wants a packet discarded by who does not know it, and so is the fragment header of a packet that is
/// whole nevertheless (RFC 6946); bytes beyond the payload length are the link layer's padding.
///
/// # Errors
/// A packet cut off, a fragment, a routing header with segments left, more extension headers than
/// RFC 8200 knows, any other next header. A jumbogram is
/// [`ParseError::Truncated`], as its payload length is 0.
#[inline]
pub fn parse(bytes: &[u8]) -> Result<(IpHeader, &[u8]), ParseError> {
    parse_protocol(bytes, PROTOCOL_TCP)
}

/// The same for a packet that carries `protocol`.
#[inline]
pub(super) fn parse_protocol(bytes: &[u8], protocol: u8) -> Result<(IpHeader, &[u8]), ParseError> {
    let (h, rest) = split_header::<FIXED_LEN>(bytes, Layer::Ipv6)?;
    if h[0] >> 4 != 6 {
        return Err(ParseError::Version(h[0] >> 4));
    }
    let payload_len = usize::from(u16::from_be_bytes([h[4], h[5]]));
    let Some(payload) = rest.get(..payload_len) else {
        let (needed, got) = (FIXED_LEN + payload_len, bytes.len());
        return Err(ParseError::Truncated {
            layer: Layer::Ipv6,
            needed,
            got,
        });
    };
    let segment = skip_extensions(h[6], payload, protocol)?;
    let traffic_class = h[0] << 4 | h[1] >> 4;
    let (src, dst) = addresses(h);
    let header = IpHeader {
        src,
        dst,
        ecn: Ecn::from_bits(traffic_class),
        dscp: traffic_class >> 2,
        hop_limit: h[7],
    };
    Ok((header, segment))
}

/// Addresses and what there is of the segment, of a TCP packet quoted in an ICMP error.
pub(super) fn quoted(bytes: &[u8]) -> Result<(IpAddr, IpAddr, &[u8]), ParseError> {
    let (h, rest) = split_header::<FIXED_LEN>(bytes, Layer::Ipv6)?;
    let segment = skip_extensions(h[6], rest, PROTOCOL_TCP)?;
    let (src, dst) = addresses(h);
    Ok((src, dst, segment))
}

fn addresses(h: &[u8; FIXED_LEN]) -> (IpAddr, IpAddr) {
    let addr = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&h[at..at + 16]);
        Ipv6Addr::from(octets).into()
    };
    (addr(8), addr(24))
}

/// What follows the extension headers, if it is `protocol`.
fn skip_extensions(
    mut next_header: u8,
    mut rest: &[u8],
    protocol: u8,
) -> Result<&[u8], ParseError> {
    let mut fragment = false;
    for position in 0..=MAX_EXTENSIONS {
        match next_header {
            // RFC 6980 section 5: neighbour discovery in fragments is ignored.
            PROTOCOL_ICMPV6
                if fragment && rest.first().is_some_and(|k| NEIGHBOR_DISCOVERY.contains(k)) =>
            {
                return Err(ParseError::Fragment);
            }
            _ if next_header == protocol => return Ok(rest),
            // Only directly after the fixed header (RFC 8200 section 4.1).
            HOP_BY_HOP if position == 0 => {}
            ROUTING | FRAGMENT | DESTINATION_OPTIONS => {}
            other => return Err(ParseError::Protocol(other)),
        }
        let (&[next, len, high, low], _) = split_header::<4>(rest, Layer::Ipv6)?;
        let len = match next_header {
            ROUTING if low != 0 => return Err(ParseError::SegmentsLeft(low)),
            FRAGMENT if u16::from_be_bytes([high, low]) & FRAGMENTED != 0 => {
                return Err(ParseError::Fragment);
            }
            FRAGMENT => {
                fragment = true;
                0
            }
            _ => usize::from(len),
        };
        let needed = (len + 1) * 8;
        let Some((header, behind)) = rest.split_at_checked(needed) else {
            return Err(ParseError::Truncated {
                layer: Layer::Ipv6,
                needed,
                got: rest.len(),
            });
        };
        if matches!(next_header, HOP_BY_HOP | DESTINATION_OPTIONS) {
            skip_options(&header[2..])?;
        }
        rest = behind;
        next_header = next;
    }
    Err(ParseError::TooManyExtensions)
}

/// Pass over the options of a header. None but padding are known here, and the two highest bits
/// of an option's type say what becomes of a packet whose option is not known: 00 goes on, the
/// others discard it (RFC 8200 section 4.2).
fn skip_options(mut options: &[u8]) -> Result<(), ParseError> {
    while let [kind, behind @ ..] = options {
        options = match (*kind, behind) {
            (PAD_1, behind) => behind,
            (kind, _) if kind >> 6 != 0 => return Err(ParseError::Ipv6Option(kind)),
            (_, [len, behind @ ..]) => behind
                .get(usize::from(*len)..)
                .ok_or(ParseError::Ipv6OptionLength)?,
            (_, []) => return Err(ParseError::Ipv6OptionLength),
        };
    }
    Ok(())
}

/// The flow label of a packet, 20 bits; 0 where it has none (RFC 6437 section 2), `None` where there
/// is no IPv6 header.
pub fn flow_label(packet: &[u8]) -> Option<u32> {
    match packet.first_chunk()? {
        first if first[0] >> 4 == 6 => Some(u32::from_be_bytes(*first) & FLOW_LABEL),
        _ => None,
    }
}

/// Label a packet that begins with an IPv6 header: the lowest 20 bits of `label`. No checksum covers
/// it (RFC 8200 section 8.1).
pub(crate) fn set_flow_label(packet: &mut [u8], label: u32) {
    if let Some(first) = packet.first_chunk_mut() {
        let kept = u32::from_be_bytes(*first) & !FLOW_LABEL;
        *first = (kept | label & FLOW_LABEL).to_be_bytes();
    }
}

/// Write the header: flow label 0, no extension headers.
pub(super) fn emit(
    ip: &IpHeader,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    protocol: u8,
    segment_len: usize,
    buf: &mut [u8],
) -> Result<usize, EmitError> {
    let payload_len = u16::try_from(segment_len)
        .map_err(|_| EmitError::PacketTooLong(FIXED_LEN + segment_len))?;
    let mut h = [0; FIXED_LEN];
    let first = 6 << 28 | u32::from(ip.traffic_class()) << 20;
    h[0..4].copy_from_slice(&first.to_be_bytes());
    h[4..6].copy_from_slice(&payload_len.to_be_bytes());
    h[6] = protocol;
    h[7] = ip.hop_limit;
    h[8..24].copy_from_slice(&src.octets());
    h[24..40].copy_from_slice(&dst.octets());
    room(buf, FIXED_LEN)?.copy_from_slice(&h);
    Ok(FIXED_LEN)
}
