//! ICMP: what is written is read again, smoltcp reads and writes the same, and no bytes panic.

use super::*;
use crate::wire::icmp::{Echo, TimeExceeded, Unreachable};
use core::net::SocketAddr;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    Icmpv4DstUnreachable, Icmpv4Packet, Icmpv4Repr, Icmpv4TimeExceeded, Icmpv6DstUnreachable,
    Icmpv6Packet, Icmpv6Repr, Icmpv6TimeExceeded, Ipv6Address,
};

/// Errors that the family's ICMP has.
fn kind(v4: bool) -> BoxedStrategy<IcmpErrorKind> {
    use Unreachable::*;
    let exceeded = prop_oneof![Just(TimeExceeded::HopLimit), Just(TimeExceeded::Reassembly)];
    let exceeded = exceeded.prop_map(IcmpErrorKind::TimeExceeded);
    if v4 {
        let why = prop_oneof![
            Just(Network),
            Just(Host),
            Just(Protocol),
            Just(Port),
            Just(SourceRoute),
            Just(Prohibited),
            (6u8..13).prop_map(Other),
        ];
        prop_oneof![
            why.prop_map(IcmpErrorKind::Unreachable),
            any::<u16>().prop_map(|mtu| IcmpErrorKind::PacketTooBig { mtu: mtu.into() }),
            exceeded,
            any::<(u8, u8)>().prop_map(|(code, pointer)| IcmpErrorKind::ParameterProblem {
                code,
                pointer: pointer.into()
            }),
            Just(IcmpErrorKind::SourceQuench),
        ]
        .boxed()
    } else {
        let why = prop_oneof![
            Just(Network),
            Just(Prohibited),
            Just(Host),
            Just(Port),
            Just(Other(2)),
            (5u8..).prop_map(Other),
        ];
        prop_oneof![
            why.prop_map(IcmpErrorKind::Unreachable),
            any::<u32>().prop_map(|mtu| IcmpErrorKind::PacketTooBig { mtu }),
            exceeded,
            any::<(u8, u32)>()
                .prop_map(|(code, pointer)| IcmpErrorKind::ParameterProblem { code, pointer }),
        ]
        .boxed()
    }
}

fn icmp_bytes(packet: &IcmpPacket<'_>) -> Vec<u8> {
    let mut bytes = vec![0xaa; packet.wire_len() + 3];
    let len = packet.emit(&mut bytes).unwrap();
    assert_eq!(len, packet.wire_len());
    bytes.truncate(len);
    bytes
}

fn error_about(ip: IpHeader) -> impl Strategy<Value = (IpHeader, IcmpErrorKind)> {
    kind(ip.src.is_ipv4()).prop_map(move |kind| (ip, kind))
}

proptest! {
    #[test]
    fn messages_come_back(ip in ip_header(), ident: u16, sequence: u16, data: Vec<u8>, reply: bool) {
        let echo = Echo { ident, sequence, data: &data };
        let message = if reply {
            IcmpMessage::EchoReply(echo)
        } else {
            IcmpMessage::EchoRequest(echo)
        };
        let packet = IcmpPacket { ip, message };
        let bytes = icmp_bytes(&packet);
        prop_assert_eq!(IcmpPacket::parse(&bytes, ChecksumPolicy::Verify), Ok(packet));
        // The TCP parser says what it is.
        let protocol = if ip.src.is_ipv4() { 1 } else { 58 };
        prop_assert_eq!(
            Packet::parse(&bytes, ChecksumPolicy::Verify),
            Err(ParseError::Protocol(protocol))
        );
    }

    /// The quotation names the segment however little of it there is, and whatever the total
    /// length says.
    #[test]
    fn errors_name_the_segment(
        packet in packet(),
        (outer, kind) in ip_header().prop_flat_map(error_about),
        keep in 8usize..100,
    ) {
        let original = emitted(&packet);
        let original = &original[..original.len().min(packet.ip.wire_len() + keep)];
        let icmp = IcmpPacket { ip: outer, message: IcmpMessage::Error { kind, original } };
        let bytes = icmp_bytes(&icmp);
        let read = IcmpPacket::parse(&bytes, ChecksumPolicy::Verify).unwrap();
        prop_assert_eq!(read, icmp);
        let segment = QuotedSegment {
            src: SocketAddr::new(packet.ip.src, packet.tcp.src_port),
            dst: SocketAddr::new(packet.ip.dst, packet.tcp.dst_port),
            seq: packet.tcp.seq,
        };
        prop_assert_eq!(QuotedSegment::parse(original), Ok(segment));
        // An error that is not addressed to who sent the segment is none of ours.
        let ours = outer.dst == packet.ip.src;
        prop_assert_eq!(read.tcp_error(), ours.then_some(IcmpError { kind, segment }));
    }

    #[test]
    fn a_flipped_bit_is_noticed(
        (ip, kind) in ip_header().prop_flat_map(error_about),
        original: Vec<u8>,
        flip: prop::sample::Index,
    ) {
        let mut bytes = icmp_bytes(&IcmpPacket { ip, message: IcmpMessage::Error { kind, original: &original } });
        let start = ip.wire_len() * 8;
        let bit = start + flip.index(bytes.len() * 8 - start);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(
            IcmpPacket::parse(&bytes, ChecksumPolicy::Verify),
            Err(ParseError::Checksum(Layer::Icmp))
        );
    }

    #[test]
    fn no_bytes_panic(mut bytes: Vec<u8>, six: bool, kind: u8, code in 0u8..16) {
        let _ = QuotedSegment::parse(&bytes);
        let _ = IcmpPacket::parse(&bytes, ChecksumPolicy::Trust);
        // Nearly right.
        let at = if six { 40 } else { 20 };
        bytes.resize(bytes.len().max(at + 8), 0);
        bytes[0] = if six { 0x60 } else { 0x45 };
        let len = bytes.len() as u16;
        if six {
            bytes[4..6].copy_from_slice(&(len - 40).to_be_bytes());
            bytes[6] = 58;
        } else {
            bytes[2..4].copy_from_slice(&len.to_be_bytes());
            bytes[6..8].copy_from_slice(&[0, 0]);
            bytes[9] = 1;
        }
        bytes[at] = kind;
        bytes[at + 1] = code;
        let packet = IcmpPacket::parse(&bytes, ChecksumPolicy::Trust);
        prop_assert!(packet.is_ok());
        let packet = packet.unwrap();
        let _ = packet.tcp_error();
        let _ = packet.echo_reply();
        icmp_bytes(&packet);
    }

    /// smoltcp reads our errors and our echoes, and the quotation in them.
    #[test]
    fn smoltcp_reads_our_icmp(packet in packet(), (ip, kind) in ip_header().prop_flat_map(error_about)) {
        let mut packet = packet;
        packet.ip.src = ip.dst;
        packet.ip.dst = ip.src;
        let original = emitted(&packet);
        let icmp = IcmpPacket { ip, message: IcmpMessage::Error { kind, original: &original } };
        let bytes = icmp_bytes(&icmp);
        let caps = ChecksumCapabilities::default();
        match (ip.src, ip.dst) {
            (IpAddr::V4(_), _) => {
                let theirs = Icmpv4Packet::new_checked(&bytes[20..]).unwrap();
                prop_assert!(theirs.verify_checksum());
                match (kind, Icmpv4Repr::parse(&theirs, &caps)) {
                    (IcmpErrorKind::Unreachable(why), Ok(Icmpv4Repr::DstUnreachable { reason, header, data })) => {
                        prop_assert_eq!(u8::from(reason), bytes[21]);
                        prop_assert_eq!(why == Unreachable::Port, reason == Icmpv4DstUnreachable::PortUnreachable);
                        prop_assert_eq!(IpAddr::from(header.src_addr), packet.ip.src);
                        prop_assert_eq!(data, &original[20..]);
                    }
                    (IcmpErrorKind::PacketTooBig { .. }, Ok(Icmpv4Repr::DstUnreachable { reason, .. })) => {
                        prop_assert_eq!(reason, Icmpv4DstUnreachable::FragRequired);
                    }
                    (IcmpErrorKind::TimeExceeded(t), Ok(Icmpv4Repr::TimeExceeded { reason, .. })) => {
                        prop_assert_eq!(t == TimeExceeded::HopLimit, reason == Icmpv4TimeExceeded::TtlExpired);
                    }
                    // It has no others.
                    (IcmpErrorKind::ParameterProblem { .. } | IcmpErrorKind::SourceQuench, Err(_)) => {}
                    (kind, repr) => prop_assert!(false, "{:?} is {:?} to it", kind, repr),
                }
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let theirs = Icmpv6Packet::new_checked(&bytes[40..]).unwrap();
                let (src, dst): (Ipv6Address, Ipv6Address) = (src, dst);
                match (kind, Icmpv6Repr::parse(&src, &dst, &theirs, &caps)) {
                    (IcmpErrorKind::Unreachable(why), Ok(Icmpv6Repr::DstUnreachable { reason, header, data })) => {
                        prop_assert_eq!(u8::from(reason), bytes[41]);
                        prop_assert_eq!(why == Unreachable::Host, reason == Icmpv6DstUnreachable::AddrUnreachable);
                        prop_assert_eq!(IpAddr::from(header.src_addr), packet.ip.src);
                        prop_assert_eq!(data, &original[40..]);
                    }
                    (IcmpErrorKind::PacketTooBig { mtu: ours }, Ok(Icmpv6Repr::PktTooBig { mtu, .. })) => {
                        prop_assert_eq!(mtu, ours);
                    }
                    (IcmpErrorKind::TimeExceeded(t), Ok(Icmpv6Repr::TimeExceeded { reason, .. })) => {
                        prop_assert_eq!(t == TimeExceeded::HopLimit, reason == Icmpv6TimeExceeded::HopLimitExceeded);
                    }
                    (IcmpErrorKind::ParameterProblem { pointer: ours, .. }, Ok(Icmpv6Repr::ParamProblem { pointer, .. })) => {
                        prop_assert_eq!(pointer, ours);
                    }
                    (kind, repr) => prop_assert!(false, "{:?} is {:?} to it", kind, repr),
                }
            }
            _ => unreachable!("one family"),
        }
    }

    /// We answer the echo requests that smoltcp writes, and it reads the answers.
    #[test]
    fn smoltcp_is_answered(ip in ip_header(), ident: u16, seq_no: u16, data: Vec<u8>) {
        let caps = ChecksumCapabilities::default();
        let mut body = vec![0; 8 + data.len()];
        match (ip.src, ip.dst) {
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let repr = Icmpv6Repr::EchoRequest { ident, seq_no, data: &data };
                repr.emit(&src, &dst, &mut Icmpv6Packet::new_unchecked(&mut body[..]), &caps);
            }
            _ => {
                let repr = Icmpv4Repr::EchoRequest { ident, seq_no, data: &data };
                repr.emit(&mut Icmpv4Packet::new_unchecked(&mut body[..]), &caps);
            }
        }
        let mut bytes = vec![0; ip.wire_len()];
        let protocol = if ip.src.is_ipv4() { 1 } else { 58 };
        ip.emit_protocol(protocol, body.len(), &mut bytes).unwrap();
        bytes.extend(&body);
        let request = IcmpPacket::parse(&bytes, ChecksumPolicy::Verify).unwrap();
        let single = |a: IpAddr| {
            !a.is_multicast() && !a.is_unspecified() && a != IpAddr::from([255; 4])
        };
        let reply = request.echo_reply();
        prop_assert_eq!(reply.is_some(), single(ip.src) && single(ip.dst));
        if let Some(reply) = reply {
            prop_assert_eq!((reply.ip.src, reply.ip.dst), (ip.dst, ip.src));
            let bytes = icmp_bytes(&reply);
            match (ip.dst, ip.src) {
                (IpAddr::V6(src), IpAddr::V6(dst)) => prop_assert_eq!(
                    Icmpv6Repr::parse(&src, &dst, &Icmpv6Packet::new_checked(&bytes[40..]).unwrap(), &caps),
                    Ok(Icmpv6Repr::EchoReply { ident, seq_no, data: &data })
                ),
                _ => prop_assert_eq!(
                    Icmpv4Repr::parse(&Icmpv4Packet::new_checked(&bytes[20..]).unwrap(), &caps),
                    Ok(Icmpv4Repr::EchoReply { ident, seq_no, data: &data })
                ),
            }
            prop_assert!(reply.echo_reply().is_none(), "an answer is not answered");
        }
    }
}

/// RFC 1122 section 3.2.2: the protocol of the packet that is quoted says who is meant.
#[test]
fn rfc1122_3_2_2_only_errors_about_tcp_reach_tcp() {
    let mut original = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0];
    original.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 0, 81, 0, 0, 0, 7]);
    let ip = IpHeader {
        src: "10.0.0.9".parse().unwrap(),
        dst: "10.0.0.1".parse().unwrap(),
        ecn: Ecn::NotEct,
        dscp: 0,
        hop_limit: 64,
    };
    for (protocol, ours) in [(6, true), (17, false), (1, false), (132, false)] {
        original[9] = protocol;
        let message = IcmpMessage::Error {
            kind: IcmpErrorKind::Unreachable(Unreachable::Port),
            original: &original,
        };
        let error = IcmpPacket { ip, message }.tcp_error();
        assert_eq!(error.is_some(), ours, "{protocol}");
    }
}

#[test]
fn what_a_family_does_not_know_is_refused() {
    let v6 = IpHeader {
        src: "fe80::1".parse().unwrap(),
        dst: "fe80::2".parse().unwrap(),
        ecn: Ecn::NotEct,
        dscp: 0,
        hop_limit: 64,
    };
    let v4 = IpHeader {
        src: "10.0.0.1".parse().unwrap(),
        dst: "10.0.0.2".parse().unwrap(),
        ..v6
    };
    let emit = |ip, kind| {
        let message = IcmpMessage::Error {
            kind,
            original: &[],
        };
        IcmpPacket { ip, message }.emit(&mut [0; 100])
    };
    for (ip, kind) in [
        (v6, IcmpErrorKind::SourceQuench),
        (v6, IcmpErrorKind::Unreachable(Unreachable::Protocol)),
        (v4, IcmpErrorKind::Unreachable(Unreachable::Other(4))),
        (v4, IcmpErrorKind::PacketTooBig { mtu: 70_000 }),
    ] {
        assert_eq!(emit(ip, kind), Err(EmitError::NoSuchIcmp), "{kind}");
    }
    let mut small = [0; 30];
    let echo = Echo {
        ident: 1,
        sequence: 2,
        data: b"abc",
    };
    let message = IcmpMessage::EchoRequest(echo);
    assert_eq!(
        IcmpPacket { ip: v4, message }.emit(&mut small),
        Err(EmitError::BufferTooSmall {
            needed: 11,
            got: 10
        })
    );
}
