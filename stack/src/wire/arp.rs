//! ARP for IPv4 over Ethernet (RFC 826).

use super::error::{EmitError, Layer, ParseError, room, split_header};
use super::ethernet::MacAddr;
use core::net::Ipv4Addr;

/// Hardware type Ethernet, protocol type IPv4, address lengths 6 and 4.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// What an ARP packet wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArpOperation {
    /// Who has the target address?
    Request,
    /// The sender has it.
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArpPacket {
    /// Request or reply.
    pub operation: ArpOperation,
    /// Hardware address of the sender.
    pub sender_mac: MacAddr,
    /// Protocol address of the sender.
    pub sender_ip: Ipv4Addr,
    /// Hardware address of the target; without meaning in a request.
    pub target_mac: MacAddr,
    /// Protocol address of the target.
    pub target_ip: Ipv4Addr,
}

impl ArpPacket {
    /// Bytes on the wire.
    pub const WIRE_LEN: usize = 28;

    /// Read a packet; bytes after it are padding.
    ///
    /// # Errors
    /// [`ParseError::Truncated`], [`ParseError::UnsupportedArp`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (h, _) = split_header::<{ Self::WIRE_LEN }>(bytes, Layer::Arp)?;
        let operation = match (h[..6] == ETHERNET_IPV4, h[6], h[7]) {
            (true, 0, 1) => ArpOperation::Request,
            (true, 0, 2) => ArpOperation::Reply,
            _ => return Err(ParseError::UnsupportedArp),
        };
        let mac =
            |at: usize| MacAddr([h[at], h[at + 1], h[at + 2], h[at + 3], h[at + 4], h[at + 5]]);
        let ip = |at: usize| Ipv4Addr::new(h[at], h[at + 1], h[at + 2], h[at + 3]);
        Ok(Self {
            operation,
            sender_mac: mac(8),
            sender_ip: ip(14),
            target_mac: mac(18),
            target_ip: ip(24),
        })
    }

    /// Write the packet to the front of `buf`; how many bytes.
    ///
    /// # Errors
    /// [`EmitError::BufferTooSmall`].
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, EmitError> {
        let out = room(buf, Self::WIRE_LEN)?;
        out[..6].copy_from_slice(&ETHERNET_IPV4);
        out[6] = 0;
        out[7] = match self.operation {
            ArpOperation::Request => 1,
            ArpOperation::Reply => 2,
        };
        out[8..14].copy_from_slice(&self.sender_mac.0);
        out[14..18].copy_from_slice(&self.sender_ip.octets());
        out[18..24].copy_from_slice(&self.target_mac.0);
        out[24..28].copy_from_slice(&self.target_ip.octets());
        Ok(Self::WIRE_LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use smoltcp::wire::{ArpOperation as Theirs, ArpPacket as View, ArpRepr, EthernetAddress};

    proptest! {
        #[test]
        fn agrees_with_smoltcp(
            request: bool, smac: [u8; 6], sip: [u8; 4], tmac: [u8; 6], tip: [u8; 4],
        ) {
            let packet = ArpPacket {
                operation: if request { ArpOperation::Request } else { ArpOperation::Reply },
                sender_mac: MacAddr(smac),
                sender_ip: sip.into(),
                target_mac: MacAddr(tmac),
                target_ip: tip.into(),
            };
            let repr = ArpRepr::EthernetIpv4 {
                operation: if request { Theirs::Request } else { Theirs::Reply },
                source_hardware_addr: EthernetAddress(smac),
                source_protocol_addr: sip.into(),
                target_hardware_addr: EthernetAddress(tmac),
                target_protocol_addr: tip.into(),
            };
            let (mut ours, mut theirs) = ([0; 28], [0; 28]);
            prop_assert_eq!(packet.emit(&mut ours), Ok(28));
            repr.emit(&mut View::new_unchecked(&mut theirs));
            prop_assert_eq!(ours, theirs);
            prop_assert_eq!(ArpPacket::parse(&theirs), Ok(packet));
        }

        #[test]
        fn damage_is_refused(at in 0usize..7, bit in 0u8..8, cut in 0usize..28) {
            let packet = ArpPacket {
                operation: ArpOperation::Request,
                sender_mac: MacAddr([2; 6]),
                sender_ip: Ipv4Addr::LOCALHOST,
                target_mac: MacAddr::default(),
                target_ip: Ipv4Addr::LOCALHOST,
            };
            let mut buf = [0; 28];
            packet.emit(&mut buf).unwrap();
            prop_assert!(ArpPacket::parse(&buf[..cut]).is_err());
            buf[at] ^= 1 << bit;
            prop_assert_eq!(ArpPacket::parse(&buf), Err(ParseError::UnsupportedArp));
        }
    }
}
