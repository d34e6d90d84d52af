//! Why bytes are not a packet, and why a packet cannot become bytes.

use core::fmt;

/// Which header is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// Ethernet II, with an optional IEEE 802.1Q tag.
    Ethernet,
    /// ARP (RFC 826).
    Arp,
    /// IPv4 (RFC 791).
    Ipv4,
    /// IPv6 (RFC 8200), extension headers included.
    Ipv6,
    /// TCP (RFC 9293).
    Tcp,
    /// ICMP (RFC 792) or ICMPv6 (RFC 4443).
    Icmp,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ethernet => "Ethernet",
            Self::Arp => "ARP",
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Tcp => "TCP",
            Self::Icmp => "ICMP",
        })
    }
}

/// Why bytes were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParseError {
    /// The bytes end before what the header needs or states.
    Truncated {
        /// The header that does not fit or states the length.
        layer: Layer,
        /// Bytes needed, counted from the start of that header.
        needed: usize,
        /// Bytes there are.
        got: usize,
    },
    /// The IP version is neither 4 nor 6, or not that of the EtherType.
    Version(u8),
    /// A header-length field (IHL, data offset) smaller than the fixed header, in bytes.
    HeaderLength {
        /// The header it stands in.
        layer: Layer,
        /// What it says, in bytes.
        bytes: usize,
    },
    /// The IPv4 total length is smaller than its header.
    TotalLength(u16),
    /// The checksum of this header does not hold.
    Checksum(Layer),
    /// A fragment of an IP packet; they are not reassembled.
    Fragment,
    /// The packet carries this IP protocol, not TCP (or not ICMP, where that was asked for).
    Protocol(u8),
    /// An IPv6 routing header has segments left: this is not its last destination.
    SegmentsLeft(u8),
    /// More IPv6 extension headers than any honest packet has.
    TooManyExtensions,
    /// An option of an IPv6 extension header, of this type, is not known and wants the packet
    /// discarded then (RFC 8200 section 4.2).
    Ipv6Option(u8),
    /// An option of an IPv6 extension header is longer than the header.
    Ipv6OptionLength,
    /// A TCP port is 0, which is reserved (RFC 6335 section 6).
    PortZero,
    /// A TCP option is malformed.
    Option(OptionError),
    /// ARP for something else than IPv4 over Ethernet, or an operation neither request nor reply.
    UnsupportedArp,
}

/// A TCP option whose length cannot be: the rest of the options cannot be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OptionError {
    /// Its kind.
    pub kind: u8,
    /// Where it starts, in bytes from the start of the options.
    pub at: usize,
    /// Its length byte (0, 1, or more than there is); `None` when the header ends before it.
    pub len: Option<u8>,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { layer, needed, got } => {
                write!(
                    f,
                    "{layer} packet cut off: {needed} bytes needed, {got} there"
                )
            }
            Self::Version(v) => write!(f, "unexpected IP version {v}"),
            Self::HeaderLength { layer, bytes } => {
                write!(
                    f,
                    "{layer} header states an impossible length of {bytes} bytes"
                )
            }
            Self::TotalLength(n) => {
                write!(f, "IPv4 total length {n} is smaller than the header")
            }
            Self::Checksum(layer) => write!(f, "wrong {layer} checksum"),
            Self::Fragment => f.write_str("IP fragment"),
            Self::Protocol(p) => write!(f, "IP protocol {p} is not the one expected"),
            Self::SegmentsLeft(n) => write!(f, "IPv6 routing header with {n} segments left"),
            Self::TooManyExtensions => f.write_str("too many IPv6 extension headers"),
            Self::Ipv6Option(kind) => write!(f, "unknown IPv6 option {kind}, not to be skipped"),
            Self::Ipv6OptionLength => f.write_str("IPv6 option beyond its extension header"),
            Self::PortZero => f.write_str("TCP port 0"),
            Self::Option(e) => e.fmt(f),
            Self::UnsupportedArp => f.write_str("ARP that is not IPv4 over Ethernet"),
        }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "TCP option {} at byte {} of the options ",
            self.kind, self.at
        )?;
        match self.len {
            Some(len) => write!(f, "has the impossible length {len}"),
            None => f.write_str("is cut off before its length"),
        }
    }
}

impl core::error::Error for ParseError {}
impl core::error::Error for OptionError {}

impl From<OptionError> for ParseError {
    fn from(e: OptionError) -> Self {
        Self::Option(e)
    }
}

/// Why a packet could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EmitError {
    /// The buffer is smaller than the packet.
    BufferTooSmall {
        /// Bytes needed.
        needed: usize,
        /// Bytes there are.
        got: usize,
    },
    /// The options other than SACK take this many bytes, more than 40.
    OptionsTooLong(usize),
    /// The packet is this long, more than an IP length field can say.
    PacketTooLong(usize),
    /// Source and destination address are of different families.
    MixedFamilies,
    /// The ICMP of this family has no such message, or no room for the value in it.
    NoSuchIcmp,
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BufferTooSmall { needed, got } => {
                write!(f, "{needed} bytes needed, the buffer has {got}")
            }
            Self::OptionsTooLong(n) => write!(f, "{n} bytes of TCP options, 40 are allowed"),
            Self::PacketTooLong(n) => write!(f, "packet of {n} bytes is too long for IP"),
            Self::MixedFamilies => f.write_str("addresses of different IP families"),
            Self::NoSuchIcmp => f.write_str("no such message in the ICMP of this IP family"),
        }
    }
}

impl core::error::Error for EmitError {}

/// `bytes` as a fixed-size array from its front and the rest, or what is missing.
pub(super) fn split_header<const N: usize>(
    bytes: &[u8],
    layer: Layer,
) -> Result<(&[u8; N], &[u8]), ParseError> {
    bytes.split_first_chunk().ok_or(ParseError::Truncated {
        layer,
        needed: N,
        got: bytes.len(),
    })
}

/// The first `needed` bytes of a buffer.
pub(super) fn room(buf: &mut [u8], needed: usize) -> Result<&mut [u8], EmitError> {
    let got = buf.len();
    buf.get_mut(..needed)
        .ok_or(EmitError::BufferTooSmall { needed, got })
}
