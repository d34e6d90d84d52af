//! What nearly every packet in a datacenter is, in as few bytes: from IPv4 to IPv4, with no option
//! but timestamps and nothing urgent.

use super::checksum::{ChecksumPolicy, Sum};
use super::error::{EmitError, room};
use super::ip::{Ecn, IpHeader, PROTOCOL_TCP};
use super::options::{ALIGNED_TIMESTAMPS, SackBlocks, Timestamps};
use super::packet::HeadChecksum;
use super::tcp::{PlainHeader, TcpHeader, put_words};
use super::{ipv4, tcp};
use std::net::{IpAddr, Ipv4Addr};

/// Headers as they leave, or as they came, in as few words as they take.
#[derive(Clone, Copy, Debug)]
pub enum Headers<'a> {
    /// As nearly all are.
    Plain(&'a PlainSegment),
    /// The same with SACK blocks: an acknowledgement while something is missing.
    Sack(&'a PlainSegment, &'a SackBlocks),
    /// Any others.
    Any(&'a IpHeader, &'a TcpHeader),
}

impl Headers<'_> {
    /// At their full length.
    pub fn whole(&self) -> (IpHeader, TcpHeader) {
        match *self {
            Self::Plain(segment) => (segment.ip_header(), segment.tcp.header()),
            Self::Sack(segment, sack) => {
                let mut tcp = segment.tcp.header();
                tcp.options.sack = *sack;
                (segment.ip_header(), tcp)
            }
            Self::Any(ip, tcp) => (*ip, tcp.clone()),
        }
    }

    /// The destination address.
    #[inline]
    pub fn dst(&self) -> IpAddr {
        match self {
            Self::Plain(segment) | Self::Sack(segment, _) => segment.dst.into(),
            Self::Any(ip, _) => ip.dst,
        }
    }

    /// Bytes of the IP header.
    #[inline]
    pub const fn ip_len(&self) -> usize {
        match self {
            Self::Plain(_) | Self::Sack(..) => ipv4::FIXED_LEN,
            Self::Any(ip, _) => ip.wire_len(),
        }
    }
}

/// A plain header in its IPv4 packet; see [`IpHeader`] for the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // As those of `IpHeader`.
pub struct PlainSegment {
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
    pub tcp: PlainHeader,
    pub ecn: Ecn,
    pub dscp: u8,
    pub hop_limit: u8,
}

/// Blank: from nowhere to nowhere.
impl Default for PlainSegment {
    #[inline]
    fn default() -> Self {
        Self {
            src: Ipv4Addr::UNSPECIFIED,
            dst: Ipv4Addr::UNSPECIFIED,
            tcp: PlainHeader::default(),
            ecn: Ecn::default(),
            dscp: 0,
            hop_limit: 0,
        }
    }
}

impl PlainSegment {
    /// The header of the packet, like any other.
    #[inline]
    pub fn ip_header(&self) -> IpHeader {
        IpHeader {
            src: IpAddr::V4(self.src),
            dst: IpAddr::V4(self.dst),
            ecn: self.ecn,
            dscp: self.dscp,
            hop_limit: self.hop_limit,
        }
    }

    /// Read a packet that is plain; it and its payload. `None` for all that
    /// [`Packet::parse`](super::Packet::parse) makes something else of: another packet, or an error.
    #[inline]
    pub fn parse(bytes: &[u8], checksum: ChecksumPolicy) -> Option<(Self, &[u8])> {
        Self::parse_parts(bytes, None, checksum)
    }

    /// The same of a packet whose headers are `head` and whose payload is `body`.
    #[inline]
    pub fn parse_apart<'a>(
        head: &'a [u8],
        body: &'a [u8],
        checksum: ChecksumPolicy,
    ) -> Option<(Self, &'a [u8])> {
        Self::parse_parts(head, Some(body), checksum)
    }

    #[inline(always)] // So that none asks which of the two it is.
    fn parse_parts<'a>(
        bytes: &'a [u8],
        body: Option<&'a [u8]>,
        checksum: ChecksumPolicy,
    ) -> Option<(Self, &'a [u8])> {
        let (ip, _) = bytes.split_first_chunk::<{ ipv4::FIXED_LEN }>()?;
        let fragment = u16::from_be_bytes([ip[6], ip[7]]) & ipv4::FRAGMENT;
        if ip[0] != ipv4::VERSION_AND_LEN || fragment != 0 || ip[9] != PROTOCOL_TCP {
            return None;
        }
        let total_len = u16::from_be_bytes([ip[2], ip[3]]);
        let segment = match body {
            None => bytes.get(ipv4::FIXED_LEN..total_len.into())?,
            Some(body) if bytes.len() + body.len() == total_len.into() => {
                bytes.get(ipv4::FIXED_LEN..)?
            }
            Some(_) => return None,
        };
        let src = Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]);
        let dst = Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]);
        // Before the fields are read, which would wait for it in memory.
        if checksum == ChecksumPolicy::Verify {
            // All ones in either byte order.
            let header = Sum::of_words(ip.as_chunks().0.iter().copied().map(u32::from_ne_bytes));
            let segment_len = usize::from(total_len) - ipv4::FIXED_LEN;
            let pseudo = Sum::pseudo_header_v4(src, dst, segment_len);
            let sum = match body {
                None => Sum::of(segment),
                // A header that has no whole words is refused below.
                Some(body) => Sum::of(segment) + Sum::of(body),
            };
            if !header.is_valid() || !(pseudo + sum).is_valid() {
                return None;
            }
        }
        let (fixed, rest) = segment.split_first_chunk::<{ tcp::FIXED_LEN }>()?;
        let (timestamps, text) = match usize::from(fixed[12] >> 4) * 4 {
            tcp::FIXED_LEN => (None, rest),
            tcp::WITH_TIMESTAMPS => {
                let (options, text) = rest.split_first_chunk::<12>()?;
                let [kinds, val, ecr] = *options.as_chunks().0 else {
                    return None;
                };
                // As one word, which a pattern would look at byte by byte.
                if kinds != ALIGNED_TIMESTAMPS {
                    return None;
                }
                let [val, ecr] = [val, ecr].map(u32::from_be_bytes);
                (Some(Timestamps { val, ecr }), text)
            }
            _ => return None,
        };
        let text = match body {
            None => text,
            Some(body) if text.is_empty() => body,
            Some(_) => return None,
        };
        let tcp = PlainHeader {
            timestamps,
            ..PlainHeader::read(fixed)
        };
        let urgent = u16::from_be_bytes([fixed[18], fixed[19]]);
        if tcp.src_port == 0 || tcp.dst_port == 0 || urgent != 0 {
            return None;
        }
        let parsed = Self {
            src,
            dst,
            tcp,
            ecn: Ecn::from_bits(ip[1]),
            dscp: ip[1] >> 2,
            hop_limit: ip[8],
        };
        Some((parsed, text))
    }

    /// Bytes of the headers.
    #[inline]
    pub(super) const fn wire_len(&self) -> usize {
        ipv4::FIXED_LEN + self.tcp.wire_len()
    }

    /// As [`Headers::emit_head`].
    #[inline(always)] // What comes of it is three words, which would go through memory.
    pub(super) fn emit_head(
        &self,
        payload_len: usize,
        checksum: HeadChecksum,
        buf: &mut [u8],
    ) -> Result<usize, EmitError> {
        let (src, dst, len) = (self.src, self.dst, self.tcp.wire_len());
        let out = room(buf, self.wire_len())?;
        let (ip, tcp) = out.as_chunks_mut().0.split_at_mut(ipv4::FIXED_LEN / 4);
        let (fixed, options) = tcp.split_at_mut(tcp::FIXED_LEN / 4);
        let segment_len = len + payload_len;
        put_words(
            &ipv4::words(&self.ip_header(), src, dst, PROTOCOL_TCP, segment_len)?,
            ip,
        );
        let mut words = self.tcp.words(len, 0);
        let mut header = Sum::of_words(words);
        if let Some(Timestamps { val, ecr }) = self.tcp.timestamps
            && let Some(options) = options.first_chunk_mut::<3>()
        {
            let timestamps = [u32::from_be_bytes(ALIGNED_TIMESTAMPS), val, ecr];
            header = header + Sum::of_words(timestamps);
            put_words(&timestamps, options);
        }
        let pseudo = Sum::pseudo_header_v4(src, dst, segment_len);
        words[tcp::CHECKSUM_AT / 4] = u32::from(checksum.field(pseudo, header)) << 16;
        put_words(&words, fixed);
        Ok(self.wire_len())
    }
}
