//! The IP header of either family, read and written.

use super::checksum::ChecksumPolicy;
use super::error::{EmitError, ParseError};
use super::ip::{IpHeader, PROTOCOL_TCP};
use super::{ipv4, ipv6};
use core::net::IpAddr;

impl IpHeader {
    /// Read the header of an IPv4 or IPv6 packet that carries TCP; it and the segment, without
    /// any padding that a link layer has put after the packet.
    ///
    /// # Errors
    /// See [`ipv4::parse`] and [`ipv6::parse`]; [`ParseError::Version`] for anything else.
    #[inline]
    pub fn parse(bytes: &[u8], checksum: ChecksumPolicy) -> Result<(Self, &[u8]), ParseError> {
        match bytes.first().map(|b| b >> 4) {
            Some(6) => ipv6::parse(bytes),
            Some(4) | None => ipv4::parse(bytes, checksum),
            Some(version) => Err(ParseError::Version(version)),
        }
    }

    /// Write the header of a packet with `segment_len` bytes of TCP to the front of `buf`; how
    /// many bytes, always [`wire_len`](Self::wire_len).
    ///
    /// # Errors
    /// Addresses of different families, a packet too long for its length field, or a buffer too
    /// small for the header.
    pub fn emit(&self, segment_len: usize, buf: &mut [u8]) -> Result<usize, EmitError> {
        self.emit_protocol(PROTOCOL_TCP, segment_len, buf)
    }

    /// The same for a packet with `len` bytes of `protocol`.
    pub(super) fn emit_protocol(
        &self,
        protocol: u8,
        len: usize,
        buf: &mut [u8],
    ) -> Result<usize, EmitError> {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => ipv4::emit(self, src, dst, protocol, len, buf),
            (IpAddr::V6(src), IpAddr::V6(dst)) => ipv6::emit(self, src, dst, protocol, len, buf),
            _ => Err(EmitError::MixedFamilies),
        }
    }
}
