//! Frames and packets of all layers: what is read can be written, and reads the same again.

use super::options::fitting;
use narrows::wire::arp::ArpPacket;
use narrows::wire::ethernet::EthernetHeader;
use narrows::wire::{
    ChecksumPolicy, IcmpMessage, IcmpPacket, IpHeader, NdpMessage, OptionPolicy, Packet,
    QuotedSegment, packet,
};
use std::net::IpAddr;

/// A byte says which layer the rest is.
pub(super) fn run(data: &[u8]) {
    let Some((layer, bytes)) = data.split_first() else {
        return;
    };
    match layer % 5 {
        0 => frame(bytes),
        1 => arp(bytes),
        2 => tcp(bytes),
        3 => icmp(bytes),
        _ => {
            if let Ok(quoted) = QuotedSegment::parse(bytes) {
                assert_eq!(quoted.src.is_ipv4(), quoted.dst.is_ipv4());
            }
        }
    }
}

fn frame(bytes: &[u8]) {
    let Ok((header, rest)) = EthernetHeader::parse(bytes) else {
        return;
    };
    let mut wire = vec![0; header.wire_len()];
    assert_eq!(header.emit(&mut wire), Ok(wire.len()));
    assert_eq!(wire, bytes[..bytes.len() - rest.len()]);
    arp(rest);
    tcp(rest);
    icmp(rest);
}

fn arp(bytes: &[u8]) {
    let Ok(packet) = ArpPacket::parse(bytes) else {
        return;
    };
    let mut wire = [0; ArpPacket::WIRE_LEN];
    assert_eq!(packet.emit(&mut wire), Ok(wire.len()));
    assert_eq!(wire, bytes[..wire.len()]);
}

/// What is read in as few words as it takes is what is read at length.
fn short_is_long(bytes: &[u8]) {
    for policy in [ChecksumPolicy::Verify, ChecksumPolicy::Trust] {
        let short = packet::read(bytes, policy, |headers, payload| {
            let (ip, tcp) = headers.whole();
            Packet { ip, tcp, payload }
        });
        assert_eq!(short, Packet::parse(bytes, policy));
    }
}

fn tcp(bytes: &[u8]) {
    short_is_long(bytes);
    let strict = Packet::parse_with(bytes, ChecksumPolicy::Verify, OptionPolicy::Reject);
    let Ok(packet) = Packet::parse(bytes, ChecksumPolicy::Trust) else {
        assert!(strict.is_err(), "what is valid is taken by all");
        return;
    };
    if let Ok(strict) = strict {
        assert_eq!(strict, packet);
    }
    let mut wire = vec![0; packet.wire_len()];
    if packet.tcp.options.wire_len() > 40 {
        assert!(packet.emit(&mut wire).is_err());
        return;
    }
    assert_eq!(packet.emit(&mut wire), Ok(wire.len()));
    let again = Packet::parse_with(&wire, ChecksumPolicy::Verify, OptionPolicy::Reject)
        .expect("our own are valid");
    let mut expected = packet.clone();
    expected.tcp.options = fitting(&packet.tcp.options);
    assert_eq!(again, expected);
    headers(&packet.ip);
}

/// An IP header alone.
fn headers(ip: &IpHeader) {
    assert_eq!(ip.src.is_ipv4(), ip.dst.is_ipv4());
    assert!(ip.dscp < 64);
}

fn icmp(bytes: &[u8]) {
    let strict = IcmpPacket::parse(bytes, ChecksumPolicy::Verify);
    let Ok(packet) = IcmpPacket::parse(bytes, ChecksumPolicy::Trust) else {
        assert!(strict.is_err(), "what is valid is taken by all");
        return;
    };
    if let Ok(strict) = strict {
        assert_eq!(strict, packet);
    }
    headers(&packet.ip);
    round_trip(&packet);
    if let Some(reply) = packet.echo_reply() {
        assert!(matches!(reply.message, IcmpMessage::EchoReply(_)));
        round_trip(&reply);
    }
    if let Some(error) = packet.tcp_error() {
        assert_eq!(error.segment.src.ip(), packet.ip.dst);
    }
    if let Some(message) = NdpMessage::from_icmp(&packet) {
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (packet.ip.src, packet.ip.dst) else {
            panic!("neighbour discovery over IPv4");
        };
        let mut wire = [0; NdpMessage::WIRE_LEN];
        let len = message.emit(src, dst, &mut wire).expect("there is room");
        let again = IcmpPacket::parse(&wire[..len], ChecksumPolicy::Verify).expect("valid");
        assert_eq!(NdpMessage::from_icmp(&again), Some(message));
    }
}

fn round_trip(packet: &IcmpPacket<'_>) {
    let mut wire = vec![0; packet.wire_len()];
    if packet.emit(&mut wire).is_ok() {
        let again = IcmpPacket::parse(&wire, ChecksumPolicy::Verify).expect("our own are valid");
        assert_eq!(&again, packet);
    }
}
