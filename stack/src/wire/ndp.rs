//! IPv6 neighbour discovery as a host with fixed addresses needs it: solicitation and
//! advertisement (RFC 4861 sections 4.3 and 4.4).

use super::error::EmitError;
use super::ethernet::MacAddr;
use super::icmp::{IcmpMessage, IcmpPacket};
use super::ip::{Ecn, IpHeader};
use core::net::{IpAddr, Ipv6Addr};

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;

/// Solicited and override flags of an advertisement.
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// What nobody but a neighbour can send, since a router would lower it (RFC 4861 section 7.1.1).
const HOP_LIMIT: u8 = 255;

/// Bytes of a message with one link-layer address: reserved, target, option.
const BODY_LEN: usize = 4 + 16 + 8;

/// A neighbour discovery message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdpMessage {
    /// Who has `target`?
    Solicitation {
        /// The address asked for.
        target: Ipv6Addr,
        /// Who asks; `None` while it makes sure that nobody else has its address.
        source_mac: Option<MacAddr>,
    },
    /// `target` is at `target_mac`.
    Advertisement {
        /// The address spoken of.
        target: Ipv6Addr,
        /// Where it is.
        target_mac: Option<MacAddr>,
        /// It answers a solicitation.
        solicited: bool,
        /// It is to replace what is known.
        overrides: bool,
    },
}

impl NdpMessage {
    /// Bytes of a packet that [`emit`](Self::emit) writes, from the IP header on.
    pub const WIRE_LEN: usize = 40 + 4 + BODY_LEN;

    /// The message in an ICMPv6 packet, if it is one and valid (RFC 4861 sections 7.1.1, 7.1.2).
    pub fn from_icmp(packet: &IcmpPacket<'_>) -> Option<Self> {
        let IcmpMessage::Other {
            kind,
            code: 0,
            body,
        } = packet.message
        else {
            return None;
        };
        if packet.ip.hop_limit != HOP_LIMIT || packet.ip.src.is_ipv4() {
            return None;
        }
        let (flags, rest) = body.split_first_chunk::<4>()?;
        let (target, options) = rest.split_first_chunk::<16>()?;
        let target = Ipv6Addr::from(*target);
        if target.is_multicast() {
            return None;
        }
        match kind {
            SOLICITATION => {
                let source_mac = link_layer(options, SOURCE_LINK_LAYER)?;
                // Who has no address yet asks everyone, and cannot be answered alone.
                let to_group = packet.ip.dst == IpAddr::V6(solicited_node(target));
                let valid = !packet.ip.src.is_unspecified() || source_mac.is_none() && to_group;
                valid.then_some(Self::Solicitation { target, source_mac })
            }
            ADVERTISEMENT => {
                let solicited = flags[0] & SOLICITED != 0;
                if solicited && packet.ip.dst.is_multicast() {
                    return None;
                }
                Some(Self::Advertisement {
                    target,
                    target_mac: link_layer(options, TARGET_LINK_LAYER)?,
                    solicited,
                    overrides: flags[0] & OVERRIDE != 0,
                })
            }
            _ => None,
        }
    }

    /// Write the message as an ICMPv6 packet from `src` to `dst` to the front of `buf`; how many
    /// bytes.
    ///
    /// # Errors
    /// A buffer smaller than [`WIRE_LEN`](Self::WIRE_LEN).
    pub fn emit(&self, src: Ipv6Addr, dst: Ipv6Addr, buf: &mut [u8]) -> Result<usize, EmitError> {
        let (kind, flags, target, option, mac) = match *self {
            Self::Solicitation { target, source_mac } => {
                (SOLICITATION, 0, target, SOURCE_LINK_LAYER, source_mac)
            }
            Self::Advertisement {
                target,
                target_mac,
                solicited,
                overrides,
            } => {
                let solicited = if solicited { SOLICITED } else { 0 };
                let overrides = if overrides { OVERRIDE } else { 0 };
                let flags = solicited | overrides;
                (ADVERTISEMENT, flags, target, TARGET_LINK_LAYER, target_mac)
            }
        };
        let mut body = [0; BODY_LEN];
        body[0] = flags;
        body[4..20].copy_from_slice(&target.octets());
        let len = match mac {
            Some(mac) => {
                body[20..22].copy_from_slice(&[option, 1]);
                body[22..28].copy_from_slice(&mac.0);
                BODY_LEN
            }
            None => 20,
        };
        let packet = IcmpPacket {
            ip: IpHeader {
                src: IpAddr::V6(src),
                dst: IpAddr::V6(dst),
                ecn: Ecn::NotEct,
                dscp: 0,
                hop_limit: HOP_LIMIT,
            },
            message: IcmpMessage::Other {
                kind,
                code: 0,
                body: &body[..len],
            },
        };
        packet.emit(buf)
    }
}

/// The link-layer address among `options`; the outer `None` is for options that make the whole
/// message invalid.
fn link_layer(mut options: &[u8], wanted: u8) -> Option<Option<MacAddr>> {
    let mut found = None;
    while let [kind, len, ..] = *options {
        if len == 0 {
            return None;
        }
        let (option, rest) = options.split_at_checked(usize::from(len) * 8)?;
        if kind == wanted
            && let Ok(&[_, _, a, b, c, d, e, f]) = <&[u8; 8]>::try_from(option)
        {
            found = Some(MacAddr([a, b, c, d, e, f]));
        }
        options = rest;
    }
    options.is_empty().then_some(found)
}

/// The group to which solicitations for `addr` go (RFC 4291 section 2.7.1).
pub fn solicited_node(addr: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = addr.octets();
    let low = u16::from_be_bytes([b, c]);
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), low)
}

/// The hardware address of an IPv6 group (RFC 2464 section 7).
pub fn group_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ChecksumPolicy;
    use proptest::prelude::*;
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{
        EthernetAddress, Icmpv6Packet, Icmpv6Repr, NdiscNeighborFlags, NdiscRepr,
        RawHardwareAddress,
    };

    const A: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
    const B: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0xab, 0x1234);
    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);

    fn both() -> [NdpMessage; 2] {
        [
            NdpMessage::Solicitation {
                target: B,
                source_mac: Some(MAC),
            },
            NdpMessage::Advertisement {
                target: A,
                target_mac: Some(MAC),
                solicited: true,
                overrides: true,
            },
        ]
    }

    #[test]
    fn agrees_with_smoltcp() {
        let lladdr = Some(RawHardwareAddress::from(EthernetAddress(MAC.0)));
        let theirs = [
            NdiscRepr::NeighborSolicit {
                target_addr: B,
                lladdr,
            },
            NdiscRepr::NeighborAdvert {
                flags: NdiscNeighborFlags::SOLICITED | NdiscNeighborFlags::OVERRIDE,
                target_addr: A,
                lladdr,
            },
        ];
        for (ours, theirs) in both().into_iter().zip(theirs) {
            let mut buf = [0; NdpMessage::WIRE_LEN];
            assert_eq!(ours.emit(A, B, &mut buf), Ok(buf.len()));
            let mut expected = [0; 4 + BODY_LEN];
            Icmpv6Repr::Ndisc(theirs).emit(
                &A,
                &B,
                &mut Icmpv6Packet::new_unchecked(&mut expected),
                &ChecksumCapabilities::default(),
            );
            assert_eq!(buf[40..], expected);
            let parsed = IcmpPacket::parse(&buf, ChecksumPolicy::Verify).unwrap();
            assert_eq!(NdpMessage::from_icmp(&parsed), Some(ours));
        }
    }

    #[test]
    fn what_a_router_passed_on_is_no_neighbours() {
        let mut buf = [0; NdpMessage::WIRE_LEN];
        both()[0].emit(A, B, &mut buf).unwrap();
        buf[7] = 254;
        let parsed = IcmpPacket::parse(&buf, ChecksumPolicy::Verify).unwrap();
        assert_eq!(NdpMessage::from_icmp(&parsed), None);
    }

    /// RFC 4861 section 7.1.1: who has no address yet names no link-layer address, and asks the
    /// group of the one that it wants.
    #[test]
    fn rfc4861_7_1_1_a_question_from_nobody_is_for_the_group() {
        for (src, dst, source_mac, valid) in [
            (Ipv6Addr::UNSPECIFIED, solicited_node(B), None, true),
            (Ipv6Addr::UNSPECIFIED, solicited_node(B), Some(MAC), false),
            (Ipv6Addr::UNSPECIFIED, solicited_node(A), None, false),
            (Ipv6Addr::UNSPECIFIED, B, None, false),
            (A, solicited_node(B), Some(MAC), true),
            (A, B, None, true),
        ] {
            let asked = NdpMessage::Solicitation {
                target: B,
                source_mac,
            };
            let mut buf = [0; NdpMessage::WIRE_LEN];
            let len = asked.emit(src, dst, &mut buf).unwrap();
            let read = IcmpPacket::parse(&buf[..len], ChecksumPolicy::Verify).unwrap();
            let read = NdpMessage::from_icmp(&read);
            assert_eq!(read, valid.then_some(asked), "{src} {dst}");
        }
    }

    #[test]
    fn groups() {
        assert_eq!(solicited_node(B).to_string(), "ff02::1:ffab:1234");
        let mac = group_mac(solicited_node(B));
        assert_eq!(mac.to_string(), "33:33:ff:ab:12:34");
    }

    proptest! {
        #[test]
        fn any_options_are_survived(options in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut body = vec![0; 20];
            body.extend(options);
            let packet = IcmpPacket {
                ip: IpHeader {
                    src: A.into(), dst: B.into(), ecn: Ecn::NotEct, dscp: 0, hop_limit: 255,
                },
                message: IcmpMessage::Other { kind: SOLICITATION, code: 0, body: &body },
            };
            let _ = NdpMessage::from_icmp(&packet);
        }
    }
}
