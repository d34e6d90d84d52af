//! The TCP header (RFC 9293 section 3.1), parsed once into a checked type.

use super::error::{EmitError, Layer, ParseError, room, split_header};
use super::options::{OptionPolicy, SackBlocks, TcpOptions, Timestamps};
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
    /// `self` where that `holds`, none otherwise.
    #[must_use]
    #[inline]
    pub const fn when(self, holds: bool) -> Self {
        if holds { self } else { Self::NONE }
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

/// A TCP header without urgent pointer and with no option but timestamps; see [`TcpHeader`] for its
/// fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // As those of `TcpHeader`.
pub struct PlainHeader {
    pub src_port: u16,
    pub dst_port: u16,
    pub seq: Seq,
    pub ack: Seq,
    pub flags: Flags,
    pub window: u16,
    pub timestamps: Option<Timestamps>,
}

/// Bytes of a header without options.
pub(super) const FIXED_LEN: usize = 20;

/// Bytes of one with timestamps and no other option.
pub(super) const WITH_TIMESTAMPS: usize = FIXED_LEN + 12;

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
        let plain = PlainHeader::read(h);
        if plain.src_port == 0 || plain.dst_port == 0 {
            return Err(ParseError::PortZero);
        }
        let parsed = Self {
            urgent: u16::from_be_bytes([h[18], h[19]]),
            options: TcpOptions::parse(&header[FIXED_LEN..], options)?,
            ..plain.header()
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
        let words = PlainHeader::of(self).words(len, self.urgent);
        put_words(&words, fixed.as_chunks_mut().0);
        Ok(len)
    }
}

/// What goes with a [`PlainHeader`], which has no place for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Nothing: so are nearly all.
    #[default]
    Nothing,
    /// SACK blocks, and no more.
    Sack(SackBlocks),
    /// Anything.
    Rare(RareHeader),
}

/// What few segments carry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RareHeader {
    pub(crate) urgent: u16,
    /// But for timestamps.
    pub(crate) options: TcpOptions,
}

impl PlainHeader {
    /// What of `tcp` is in a plain header, whatever else there is.
    #[inline]
    pub const fn of(tcp: &TcpHeader) -> Self {
        Self {
            src_port: tcp.src_port,
            dst_port: tcp.dst_port,
            seq: tcp.seq,
            ack: tcp.ack,
            flags: tcp.flags,
            window: tcp.window,
            timestamps: tcp.options.timestamps,
        }
    }

    /// Both parts of a header.
    pub(crate) fn split(mut tcp: TcpHeader) -> (Self, RareHeader) {
        let plain = Self::of(&tcp);
        tcp.options.timestamps = None;
        let rare = RareHeader {
            urgent: tcp.urgent,
            options: tcp.options,
        };
        (plain, rare)
    }

    /// As a header like any other, with what goes beside it.
    #[inline]
    pub(crate) fn with(&self, beside: Beside) -> TcpHeader {
        let mut tcp = self.header();
        match beside {
            Beside::Nothing => {}
            Beside::Sack(sack) => tcp.options.sack = sack,
            Beside::Rare(rare) => {
                tcp.urgent = rare.urgent;
                tcp.options = rare.options;
                tcp.options.timestamps = self.timestamps;
            }
        }
        tcp
    }

    /// What the first bytes of a header say; of options nothing.
    #[inline]
    pub(super) fn read(fixed: &[u8; FIXED_LEN]) -> Self {
        let be16 = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let be32 = |at: usize| u32::from(be16(at)) << 16 | u32::from(be16(at + 2));
        Self {
            src_port: be16(0),
            dst_port: be16(2),
            seq: Seq(be32(4)),
            ack: Seq(be32(8)),
            flags: Flags::from_bits(be16(12)),
            window: be16(14),
            timestamps: None,
        }
    }

    /// Bytes of the header on the wire.
    #[inline]
    pub(super) const fn wire_len(&self) -> usize {
        match self.timestamps {
            None => FIXED_LEN,
            Some(_) => WITH_TIMESTAMPS,
        }
    }

    /// The first words of a header of `len` bytes, with 0 for the checksum.
    #[inline]
    pub(super) fn words(&self, len: usize, urgent: u16) -> [u32; FIXED_LEN / 4] {
        let offset_and_flags = ((len / 4) as u32) << 12 | u32::from(self.flags.bits());
        [
            u32::from(self.src_port) << 16 | u32::from(self.dst_port),
            self.seq.0,
            self.ack.0,
            offset_and_flags << 16 | u32::from(self.window),
            urgent.into(),
        ]
    }

    /// As a header like any other.
    #[inline]
    pub fn header(&self) -> TcpHeader {
        TcpHeader {
            src_port: self.src_port,
            dst_port: self.dst_port,
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            urgent: 0,
            options: TcpOptions {
                timestamps: self.timestamps,
                ..TcpOptions::default()
            },
        }
    }
}

/// Writes `words` to the front of `out`.
#[inline]
pub(super) fn put_words(words: &[u32], out: &mut [[u8; 4]]) {
    for (word, bytes) in words.iter().zip(out) {
        *bytes = word.to_be_bytes();
    }
}
