//! The Ethernet II header, with an optional IEEE 802.1Q tag.

use super::error::{EmitError, Layer, ParseError, room, split_header};
use core::fmt;
use core::net::Ipv6Addr;

const TPID_8021Q: u16 = 0x8100;

/// A 48-bit hardware address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All ones.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether it addresses a group, the broadcast address among them.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The link-local IPv6 address that an interface with this address has by itself (RFC 4291
    /// appendix A).
    pub fn link_local(self) -> Ipv6Addr {
        let [a, b, c, d, e, g] = self.0;
        let pair = |high, low| u16::from_be_bytes([high, low]);
        // The bit that says whether an address is given worldwide is the other way round.
        let word = [pair(a ^ 2, b), pair(c, 0xff), pair(0xfe, d), pair(e, g)];
        Ipv6Addr::new(0xfe80, 0, 0, 0, word[0], word[1], word[2], word[3])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EtherType {
    /// 0x0800.
    Ipv4,
    /// 0x0806.
    Arp,
    /// 0x86dd.
    Ipv6,
    /// Anything else; below 0x0600 it is the length of an IEEE 802.3 frame.
    Other(u16),
}

impl From<u16> for EtherType {
    fn from(n: u16) -> Self {
        match n {
            0x0800 => Self::Ipv4,
            0x0806 => Self::Arp,
            0x86dd => Self::Ipv6,
            n => Self::Other(n),
        }
    }
}

impl From<EtherType> for u16 {
    fn from(t: EtherType) -> Self {
        match t {
            EtherType::Ipv4 => 0x0800,
            EtherType::Arp => 0x0806,
            EtherType::Ipv6 => 0x86dd,
            EtherType::Other(n) => n,
        }
    }
}

/// An Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EthernetHeader {
    /// Destination.
    pub dst: MacAddr,
    /// Source.
    pub src: MacAddr,
    /// The tag control information (priority, drop eligibility, VLAN) of an IEEE 802.1Q tag.
    pub tag: Option<u16>,
    /// What follows.
    pub ether_type: EtherType,
}

impl EthernetHeader {
    /// Bytes of the header on the wire: 14, with a tag 18.
    pub const fn wire_len(&self) -> usize {
        if self.tag.is_some() { 18 } else { 14 }
    }

    /// Read the header of a frame; it and what follows. Of stacked tags only the first is read.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    pub fn parse(frame: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let (h, rest) = split_header::<14>(frame, Layer::Ethernet)?;
        let &[d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = h;
        let header = Self {
            dst: MacAddr([d0, d1, d2, d3, d4, d5]),
            src: MacAddr([s0, s1, s2, s3, s4, s5]),
            tag: None,
            ether_type: u16::from_be_bytes([t0, t1]).into(),
        };
        if header.ether_type != EtherType::Other(TPID_8021Q) {
            return Ok((header, rest));
        }
        let (h, rest) = split_header::<18>(frame, Layer::Ethernet)?;
        let tag = Some(u16::from_be_bytes([h[14], h[15]]));
        let ether_type = u16::from_be_bytes([h[16], h[17]]).into();
        Ok((
            Self {
                tag,
                ether_type,
                ..header
            },
            rest,
        ))
    }

    /// Write the header to the front of `buf`; how many bytes.
    ///
    /// # Errors
    /// [`EmitError::BufferTooSmall`].
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, EmitError> {
        let len = self.wire_len();
        let out = room(buf, len)?;
        out[..6].copy_from_slice(&self.dst.0);
        out[6..12].copy_from_slice(&self.src.0);
        if let Some(tag) = self.tag {
            out[12..14].copy_from_slice(&TPID_8021Q.to_be_bytes());
            out[14..16].copy_from_slice(&tag.to_be_bytes());
        }
        out[len - 2..].copy_from_slice(&u16::from(self.ether_type).to_be_bytes());
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use smoltcp::wire::{EthernetAddress, EthernetFrame, EthernetProtocol};

    proptest! {
        #[test]
        fn agrees_with_smoltcp(dst: [u8; 6], src: [u8; 6], kind in any::<u16>(), body: [u8; 4]) {
            prop_assume!(kind != TPID_8021Q);
            let header = EthernetHeader {
                dst: MacAddr(dst),
                src: MacAddr(src),
                tag: None,
                ether_type: kind.into(),
            };
            let mut ours = [0; 18];
            prop_assert_eq!(header.emit(&mut ours), Ok(14));
            ours[14..].copy_from_slice(&body);
            let mut theirs = [0; 18];
            let mut frame = EthernetFrame::new_unchecked(&mut theirs);
            frame.set_dst_addr(EthernetAddress(dst));
            frame.set_src_addr(EthernetAddress(src));
            frame.set_ethertype(EthernetProtocol::from(kind));
            frame.payload_mut().copy_from_slice(&body);
            prop_assert_eq!(ours, theirs);
            prop_assert_eq!(EthernetHeader::parse(&theirs), Ok((header, &body[..])));
        }

        #[test]
        fn a_tag_survives(tag in any::<u16>(), cut in 0usize..18) {
            let header = EthernetHeader {
                dst: MacAddr::BROADCAST,
                src: MacAddr([2, 0, 0, 0, 0, 1]),
                tag: Some(tag),
                ether_type: EtherType::Ipv6,
            };
            let mut buf = [0; 18];
            prop_assert_eq!(header.emit(&mut buf), Ok(18));
            prop_assert_eq!(EthernetHeader::parse(&buf), Ok((header, &[][..])));
            let is_truncated =
                matches!(EthernetHeader::parse(&buf[..cut]), Err(ParseError::Truncated { .. }));
            prop_assert!(is_truncated);
            prop_assert!(header.emit(&mut buf[..cut]).is_err());
        }
    }

    #[test]
    fn addresses_print_as_usual() {
        assert_eq!(
            MacAddr([2, 0, 0xab, 1, 2, 0xff]).to_string(),
            "02:00:ab:01:02:ff"
        );
        assert!(MacAddr::BROADCAST.is_multicast() && !MacAddr([2, 0, 0, 0, 0, 1]).is_multicast());
    }
}
