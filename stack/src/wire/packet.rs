//! Whole packets: IP header, TCP header and payload, from bytes and to bytes.

use super::checksum::Sum;
use super::error::{EmitError, Layer, ParseError, room};
use super::ip::IpHeader;
use super::options::OptionPolicy;
use super::tcp::{self, TcpHeader};
use crate::buffer::synthetic::fill_pattern;
use crate::buffer::{BytesView, Payload, Synthetic};

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
        let (head, tail) = dst.split_at_mut(first.len());
        let sum = Sum::copy(first, head);
        match second {
            [] => sum,
            _ => sum.then(first.len(), Sum::copy(second, tail)),
        }
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

/// Write the headers of a packet with `payload_len` bytes of payload to the front of `buf`; how
/// many bytes. The payload follows from elsewhere.
///
/// # Errors
/// Why it cannot be written; see [`EmitError`].
pub fn emit_head(
    ip: &IpHeader,
    tcp: &TcpHeader,
    payload_len: usize,
    checksum: HeadChecksum,
    buf: &mut [u8],
) -> Result<usize, EmitError> {
    let segment_len = tcp.wire_len() + payload_len;
    let ip_len = ip.emit(segment_len, buf)?;
    let header_len = tcp.emit(&mut buf[ip_len..])?;
    let header = &mut buf[ip_len..ip_len + header_len];
    let pseudo = Sum::pseudo_header(ip.src, ip.dst, segment_len);
    let field = match checksum {
        HeadChecksum::Full(payload) => (pseudo + Sum::of(header) + payload).checksum(),
        HeadChecksum::Partial => pseudo.fold(),
    };
    header[tcp::CHECKSUM_AT..tcp::CHECKSUM_AT + 2].copy_from_slice(&field.to_be_bytes());
    Ok(ip_len + header_len)
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
    let segment_len = tcp.wire_len() + payload.len();
    let ip_len = ip.emit(segment_len, buf)?;
    let total = ip_len + segment_len;
    let segment = &mut room(buf, total)?[ip_len..];
    let header_len = tcp.emit(segment)?;
    let (header, text) = segment.split_at_mut(header_len);
    let sum = Sum::pseudo_header(ip.src, ip.dst, segment_len) + Sum::of(header);
    let sum = match text {
        [] => sum,
        _ => sum + payload.write_and_sum(text),
    };
    header[tcp::CHECKSUM_AT..tcp::CHECKSUM_AT + 2].copy_from_slice(&sum.checksum().to_be_bytes());
    Ok(total)
}
