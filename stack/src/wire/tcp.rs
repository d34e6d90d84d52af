//! The TCP header (RFC 9293 section 3.1), parsed once into a checked type.

use super::error::{EmitError, Layer, ParseError, room, split_header};
use super::options::{OptionPolicy, TcpOptions};
use super::seq::Seq;
use core::fmt;
use core::ops::{BitOr, BitOrAssign};

/// The control bits, with ECN's (RFC 3168) and accurate ECN's (RFC 9768).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u16);

impl Flags {
    /// No control bit.
    pub const NONE: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(1);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(1 << 1);
    /// Reset the connection.
    pub const RST: Self = Self(1 << 2);
    /// Push.
    pub const PSH: Self = Self(1 << 3);
    /// The acknowledgement field is significant.
    pub const ACK: Self = Self(1 << 4);
    /// The urgent pointer is significant.
    pub const URG: Self = Self(1 << 5);
    /// ECN echo.
    pub const ECE: Self = Self(1 << 6);
    /// Congestion window reduced.
    pub const CWR: Self = Self(1 << 7);
    /// Accurate ECN (was NS).
    pub const AE: Self = Self(1 << 8);

    /// The nine control bits as they stand in the header; higher bits are dropped.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x1ff)
    }
    /// The nine control bits as they stand in the header.
    pub const fn bits(self) -> u16 {
        self.0
    }
    /// Whether all of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// Whether any of `other` is set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
    /// `self` without `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, rhs: Self) -> Self {
        Self(self.0 | rhs.0)
    }
}
impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, rhs: Self) {
        self.0 |= rhs.0;
    }
}
impl fmt::Display for Flags {
    /// As tcpdump prints them: `S`, `S.`, `P.`, `F.`, `R`, with `E`, `W` and `e` for ECE, CWR, AE.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (bit, c) in [
            (Self::FIN, "F"),
            (Self::SYN, "S"),
            (Self::RST, "R"),
            (Self::PSH, "P"),
            (Self::ACK, "."),
            (Self::URG, "U"),
            (Self::ECE, "E"),
            (Self::CWR, "W"),
            (Self::AE, "e"),
        ] {
            if self.contains(bit) {
                f.write_str(c)?;
            }
        }
        Ok(())
    }
}
impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

/// A TCP header with its options, host byte order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TcpHeader {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// SEG.SEQ.
    pub seq: Seq,
    /// SEG.ACK; meaningful with [`Flags::ACK`].
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// SEG.WND as it stands in the header, unscaled.
    pub window: u16,
    /// SEG.UP; meaningful with [`Flags::URG`].
    pub urgent: u16,
    /// Options.
    pub options: TcpOptions,
}

/// Bytes of a header without options.
const FIXED_LEN: usize = 20;

/// Where the checksum lies in the header.
pub(super) const CHECKSUM_AT: usize = 16;

impl TcpHeader {
    /// Bytes of the header on the wire, options included.
    pub fn wire_len(&self) -> usize {
        FIXED_LEN + self.options.wire_len()
    }

    /// Read the header from the front of a segment; it and the text after it. The checksum is
    /// not looked at, the reserved bits neither (RFC 9293 section 3.1).
    ///
    /// # Errors
    /// When the segment is shorter than its header, the data offset is below 5, a port is 0, or
    /// an option is malformed and `options` says to reject.
    #[inline]
    pub fn parse(segment: &[u8], options: OptionPolicy) -> Result<(Self, &[u8]), ParseError> {
        let (h, _) = split_header::<FIXED_LEN>(segment, Layer::Tcp)?;
        let header_len = usize::from(h[12] >> 4) * 4;
        if header_len < FIXED_LEN {
            return Err(ParseError::HeaderLength {
                layer: Layer::Tcp,
                bytes: header_len,
            });
        }
        let Some((header, text)) = segment.split_at_checked(header_len) else {
            let (needed, got) = (header_len, segment.len());
            return Err(ParseError::Truncated {
                layer: Layer::Tcp,
                needed,
                got,
            });
        };
        let be16 = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
        let be32 = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
        let (src_port, dst_port) = (be16(0), be16(2));
        if src_port == 0 || dst_port == 0 {
            return Err(ParseError::PortZero);
        }
        let parsed = Self {
            src_port,
            dst_port,
            seq: Seq(be32(4)),
            ack: Seq(be32(8)),
            flags: Flags::from_bits(be16(12)),
            window: be16(14),
            urgent: be16(18),
            options: TcpOptions::parse(&header[FIXED_LEN..], options)?,
        };
        Ok((parsed, text))
    }

    /// Write the header to the front of `buf`, with 0 for the checksum; how many bytes, always
    /// [`wire_len`](Self::wire_len).
    ///
    /// # Errors
    /// [`EmitError::OptionsTooLong`] and [`EmitError::BufferTooSmall`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, EmitError> {
        let (fixed, rest) = room(buf, self.wire_len())?
            .split_first_chunk_mut::<FIXED_LEN>()
            .expect("wire_len is at least that");
        let len = FIXED_LEN + self.options.emit(rest)?;
        fixed[0..2].copy_from_slice(&self.src_port.to_be_bytes());
        fixed[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        fixed[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        fixed[8..12].copy_from_slice(&self.ack.0.to_be_bytes());
        let offset_and_flags = ((len / 4) as u16) << 12 | self.flags.bits();
        fixed[12..14].copy_from_slice(&offset_and_flags.to_be_bytes());
        fixed[14..16].copy_from_slice(&self.window.to_be_bytes());
        fixed[CHECKSUM_AT..CHECKSUM_AT + 2].fill(0);
        fixed[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        Ok(len)
    }
}
