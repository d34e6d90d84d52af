//! Whole packets: IP header, TCP header and payload, from bytes and to bytes.

use super::checksum::Sum;
use super::error::{EmitError, Layer, ParseError, room};
use super::ip::IpHeader;
use super::options::OptionPolicy;
use super::plain::{Headers, PlainSegment};
use super::tcp::{CHECKSUM_AT, TcpHeader};
use crate::buffer::synthetic::fill_pattern;
use crate::buffer::{Bytes, BytesView, Payload, Synthetic};
use std::borrow::Cow;

pub use super::checksum::ChecksumPolicy;

/// One TCP segment in its IP packet. `P` is the payload: borrowed bytes on a live device, a
/// synthetic range in the simulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<P> {
    /// The IP header.
    pub ip: IpHeader,
    /// The TCP header and options.
    pub tcp: TcpHeader,
    /// The payload.
    pub payload: P,
}

/// A payload that can be turned into bytes.
pub trait EmitPayload: Payload {
    /// Write the bytes to `dst`, which is [`len`](Payload::len) long, and sum them.
    fn write_and_sum(&self, dst: &mut [u8]) -> Sum;
}

impl EmitPayload for &[u8] {
    fn write_and_sum(&self, dst: &mut [u8]) -> Sum {
        Sum::copy(self, dst)
    }
}

impl EmitPayload for BytesView<'_> {
    fn write_and_sum(&self, dst: &mut [u8]) -> Sum {
        let [first, second] = self.slices();
        if second.is_empty() {
            return Sum::copy(first, dst);
        }
        let (head, tail) = dst.split_at_mut(first.len());
        Sum::copy(first, head).then(first.len(), Sum::copy(second, tail))
    }
}

impl EmitPayload for Synthetic {
    fn write_and_sum(&self, dst: &mut [u8]) -> Sum {
        fill_pattern(self.offset, dst);
        Sum::of(dst)
    }
}

impl<'a> Packet<&'a [u8]> {
    /// Read an IPv4 or IPv6 packet that carries TCP. Malformed options end the options and do
    /// not refuse the segment ([`OptionPolicy::KeepValid`]).
    ///
    /// # Errors
    /// Why it is none that can be taken; see [`ParseError`].
    #[inline]
    pub fn parse(bytes: &'a [u8], checksum: ChecksumPolicy) -> Result<Self, ParseError> {
        Self::parse_with(bytes, checksum, OptionPolicy::KeepValid)
    }

    /// Like [`parse`](Self::parse), with a policy for malformed options.
    ///
    /// # Errors
    /// Why it is none that can be taken; see [`ParseError`].
    #[inline]
    pub fn parse_with(
        bytes: &'a [u8],
        checksum: ChecksumPolicy,
        options: OptionPolicy,
    ) -> Result<Self, ParseError> {
        let (ip, segment) = IpHeader::parse(bytes, checksum)?;
        if checksum == ChecksumPolicy::Verify {
            let sum = Sum::pseudo_header(ip.src, ip.dst, segment.len()) + Sum::of(segment);
            if !sum.is_valid() {
                return Err(match TcpHeader::parse(segment, OptionPolicy::KeepValid) {
                    // What is cut off before its end has no checksum to be wrong.
                    Err(e @ ParseError::Truncated { .. }) => e,
                    _ => ParseError::Checksum(Layer::Tcp),
                });
            }
        }
        let (tcp, payload) = TcpHeader::parse(segment, options)?;
        Ok(Self { ip, tcp, payload })
    }
}

impl<P: Payload> Packet<P> {
    /// Bytes of the packet on the wire, from the IP header on.
    pub fn wire_len(&self) -> usize {
        self.ip.wire_len() + self.tcp.wire_len() + self.payload.len()
    }
}

impl<P: EmitPayload> Packet<P> {
    /// Write the packet with its checksums to the front of `buf`; how many bytes, always
    /// [`wire_len`](Self::wire_len).
    ///
    /// # Errors
    /// Why it cannot be written; see [`EmitError`].
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, EmitError> {
        emit(&self.ip, &self.tcp, &self.payload, buf)
    }
}

/// What goes into the TCP checksum of headers that leave apart from their payload.
#[derive(Clone, Copy, Debug)]
pub enum HeadChecksum {
    /// The whole checksum, with this sum of the payload.
    Full(Sum),
    /// The sum of the pseudo-header only: the device adds the rest, from the TCP header on.
    Partial,
}

impl HeadChecksum {
    /// The field, of the sums of the pseudo-header and of the header.
    #[inline]
    pub(super) fn field(self, pseudo: Sum, header: Sum) -> u16 {
        match self {
            Self::Full(payload) => (pseudo + header + payload).checksum(),
            Self::Partial => pseudo.fold(),
        }
    }
}

impl Headers<'_> {
    /// Write these headers and `payload` with their checksums to the front of `buf`; how many
    /// bytes. The payload is summed as it is copied.
    ///
    /// # Errors
    /// Why it cannot be written; see [`EmitError`].
    #[inline]
    pub fn emit(&self, payload: &impl EmitPayload, buf: &mut [u8]) -> Result<usize, EmitError> {
        let text = payload.len();
        let sum = match text {
            0 => Sum::ZERO,
            _ => {
                let len = self.wire_len();
                payload.write_and_sum(&mut room(buf, len + text)?[len..])
            }
        };
        Ok(self.emit_head(text, HeadChecksum::Full(sum), buf)? + text)
    }

    /// Write these headers, of a packet with `payload_len` bytes of payload, to the front of `buf`;
    /// how many bytes. The payload follows from elsewhere.
    ///
    /// # Errors
    /// Why they cannot be written; see [`EmitError`].
    #[inline]
    pub fn emit_head(
        &self,
        payload_len: usize,
        checksum: HeadChecksum,
        buf: &mut [u8],
    ) -> Result<usize, EmitError> {
        match *self {
            Headers::Plain(segment) => segment.emit_head(payload_len, checksum, buf),
            Headers::Sack(..) | Headers::Any(..) => {
                self.at_length(move |ip, tcp| emit_any_head(ip, tcp, payload_len, checksum, buf))
            }
        }
    }

    /// Bytes of the headers.
    #[inline]
    fn wire_len(&self) -> usize {
        match *self {
            Headers::Plain(segment) => segment.wire_len(),
            Headers::Sack(..) | Headers::Any(..) => {
                self.at_length(|ip, tcp| ip.wire_len() + tcp.wire_len())
            }
        }
    }

    /// What `take` makes of them at their full length.
    #[inline(never)]
    fn at_length<R>(&self, take: impl FnOnce(&IpHeader, &TcpHeader) -> R) -> R {
        if let Headers::Any(ip, tcp) = *self {
            return take(ip, tcp);
        }
        let (ip, tcp) = self.whole();
        take(&ip, &tcp)
    }
}

fn emit_any_head(
    ip: &IpHeader,
    tcp: &TcpHeader,
    payload_len: usize,
    checksum: HeadChecksum,
    buf: &mut [u8],
) -> Result<usize, EmitError> {
    let segment_len = tcp.wire_len() + payload_len;
    let out = room(buf, ip.wire_len() + tcp.wire_len())?;
    let at = ip.emit(segment_len, out)?;
    let segment = &mut out[at..];
    let len = tcp.emit(segment)?;
    let pseudo = Sum::pseudo_header(ip.src, ip.dst, segment_len);
    let field = checksum.field(pseudo, Sum::of(segment));
    segment[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&field.to_be_bytes());
    Ok(at + len)
}

/// Write a packet of these parts with its checksums to the front of `buf`; how many bytes. The
/// payload is summed as it is copied.
///
/// # Errors
/// Why it cannot be written; see [`EmitError`].
pub fn emit(
    ip: &IpHeader,
    tcp: &TcpHeader,
    payload: &impl EmitPayload,
    buf: &mut [u8],
) -> Result<usize, EmitError> {
    Headers::Any(ip, tcp).emit(payload, buf)
}

/// Read a packet as [`Packet::parse`] does, in as few words as it takes: what `take` makes of its
/// headers and its payload.
///
/// # Errors
/// As those of [`Packet::parse`], which says what is wrong with a plain packet, too: one whose checksum is
/// wrong is summed twice.
#[inline]
pub fn read<'a, R>(
    bytes: &'a [u8],
    checksum: ChecksumPolicy,
    take: impl FnOnce(Headers<'_>, &'a [u8]) -> R,
) -> Result<R, ParseError> {
    if let Some((segment, payload)) = PlainSegment::parse(bytes, checksum) {
        return Ok(take(Headers::Plain(&segment), payload));
    }
    let Packet { ip, tcp, payload } = Packet::parse(bytes, checksum)?;
    Ok(take(Headers::Any(&ip, &tcp), payload))
}

/// As [`read`], of a packet whose headers and payload lie apart, as a device has them that gathers a frame
/// of parts or splits one that comes (header-data split): `body` is what follows `head`, and is passed on as it is
/// where `head` ends with the headers. To read headers that are not plain a copy is made of all.
///
/// # Errors
/// As those of [`read`].
#[inline]
pub fn read_apart<R>(
    head: &[u8],
    body: Bytes,
    checksum: ChecksumPolicy,
    take: impl FnOnce(Headers<'_>, Bytes) -> R,
) -> Result<R, ParseError> {
    if let Some((segment, _)) = PlainSegment::parse_apart(head, &body, checksum) {
        return Ok(take(Headers::Plain(&segment), body));
    }
    let whole = match body.is_empty() {
        true => Cow::Borrowed(head),
        false => Cow::Owned([head, &body].concat()),
    };
    let Packet { ip, tcp, payload } = Packet::parse(&whole, checksum)?;
    let text = match payload.as_ptr_range() == whole[head.len()..].as_ptr_range() {
        true => body,
        // Cut elsewhere, or longer than the packet.
        false => Bytes::copy_from_slice(payload),
    };
    Ok(take(Headers::Any(&ip, &tcp), text))
}
