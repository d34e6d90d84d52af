//! RFC 8504, requirements for IPv6 nodes: what an interface does of neighbour discovery
//! (section 5.4), frame by frame, of "packet too big" (section 5.7.1), and with its addresses (section 6).

use narrows::buffer::{RecvRing, SendRing};
use narrows::config::TcpConfig;
use narrows::conn::Boxed;
use narrows::endpoint::{ConnectError, EndpointConfig};
use narrows::interface::{Capabilities, Interface, InterfaceConfig, Medium, RxFrame};
use narrows::wire::ethernet::{EtherType, EthernetHeader, MacAddr};
use narrows::wire::icmp::Echo;
use narrows::wire::ndp::{NdpMessage, group_mac, solicited_node};
use narrows::wire::{
    ChecksumPolicy, Ecn, IcmpErrorKind, IcmpMessage, IcmpPacket, IpHeader, Packet,
};
use narrows::{Duration, Instant};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

type Host = Interface<Boxed<SendRing, RecvRing>>;

const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
const THEIRS: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const US: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const THEM: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

fn host(addresses: &[&str]) -> Host {
    let addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
    let config = InterfaceConfig::new(OURS, addresses);
    let endpoint = EndpointConfig::new(Arc::new(TcpConfig::default()), [2; 16]);
    let capabilities = Capabilities::plain(Medium::Ethernet, 1500);
    Host::new(config, endpoint, capabilities).unwrap()
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// `packet` in a frame of theirs.
fn framed(dst: MacAddr, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14];
    let header = EthernetHeader {
        dst,
        src: THEIRS,
        tag: None,
        ether_type: EtherType::Ipv6,
    };
    header.emit(&mut frame).unwrap();
    frame.extend(packet);
    frame
}

fn discovery(message: &NdpMessage, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
    let mut packet = vec![0; NdpMessage::WIRE_LEN];
    let len = message.emit(src, dst, &mut packet).unwrap();
    packet.truncate(len);
    packet
}

/// Everything that `host` sends now: to which hardware address, and the packet.
fn sent(host: &mut Host, now: Instant) -> Vec<(MacAddr, Vec<u8>)> {
    let mut out = Vec::new();
    while let Some(frame) = host.poll_frame(now) {
        let mut bytes = Vec::new();
        frame.append_to(&mut bytes);
        let (ethernet, packet) = EthernetHeader::parse(&bytes).unwrap();
        assert_eq!((ethernet.src, ethernet.ether_type), (OURS, EtherType::Ipv6));
        out.push((ethernet.dst, packet.to_vec()));
    }
    out
}

/// What a packet says of neighbours, from whom and to whom.
fn read(packet: &[u8]) -> Option<(NdpMessage, IpAddr, IpAddr)> {
    let icmp = IcmpPacket::parse(packet, ChecksumPolicy::Verify).ok()?;
    Some((NdpMessage::from_icmp(&icmp)?, icmp.ip.src, icmp.ip.dst))
}

fn take(host: &mut Host, now: Instant, dst: MacAddr, packet: &[u8]) {
    host.handle_frame(now, &RxFrame::plain(&framed(dst, packet)));
}

fn asks(target: Ipv6Addr, source_mac: Option<MacAddr>) -> NdpMessage {
    NdpMessage::Solicitation { target, source_mac }
}

/// The advertisement of `US` that answers a question.
fn answer(solicited: bool) -> NdpMessage {
    NdpMessage::Advertisement {
        target: US,
        target_mac: Some(OURS),
        solicited,
        overrides: true,
    }
}

/// Section 5.4: a question for an address of ours is answered, to the group or to us alone, and
/// with the asker's hardware address in it or without.
#[test]
fn rfc8504_5_4_solicitations_are_answered() {
    let group = solicited_node(US);
    for (dst, mac) in [(group, group_mac(group)), (US, OURS)] {
        for source_mac in [Some(THEIRS), None] {
            let mut h = host(&["fd00::2/64"]);
            let question = discovery(&asks(US, source_mac), THEM, dst);
            take(&mut h, at(0), mac, &question);
            let out = sent(&mut h, at(0));
            let [(to, packet)] = &out[..] else {
                panic!("{dst} {source_mac:?}: {out:?}");
            };
            assert_eq!(*to, THEIRS, "{dst} {source_mac:?}");
            let said = (answer(true), US.into(), THEM.into());
            assert_eq!(read(packet), Some(said), "{dst} {source_mac:?}");
        }
    }
    // Of nobody's business here: another's address, or another's group.
    let mut h = host(&["fd00::2/64"]);
    let other: Ipv6Addr = "fd00::3".parse().unwrap();
    for (target, dst) in [(other, solicited_node(other)), (US, solicited_node(other))] {
        let question = discovery(&asks(target, Some(THEIRS)), THEM, dst);
        take(&mut h, at(0), group_mac(dst), &question);
        assert!(sent(&mut h, at(0)).is_empty(), "{target} {dst}");
    }
}

/// RFC 4862 section 5.4 from the other side: who wants an address that is ours is told, as all are.
#[test]
fn rfc8504_6_3_who_wants_our_address_is_told_that_it_is_taken() {
    let mut h = host(&["fd00::2/64"]);
    let group = solicited_node(US);
    let question = discovery(&asks(US, None), Ipv6Addr::UNSPECIFIED, group);
    take(&mut h, at(0), group_mac(group), &question);
    let out = sent(&mut h, at(0));
    let [(to, packet)] = &out[..] else {
        panic!("{out:?}");
    };
    assert_eq!(*to, group_mac(ALL_NODES));
    let said = (answer(false), US.into(), ALL_NODES.into());
    assert_eq!(read(packet), Some(said));
}

/// Section 5.4 and RFC 6980: neighbour discovery is never in fragments, and where it is, nobody
/// listens; an echo request in one whole fragment is answered.
#[test]
fn rfc8504_5_4_neighbour_discovery_in_fragments_is_ignored() {
    let in_fragment = |packet: &[u8]| {
        let mut packet = packet.to_vec();
        packet.splice(40..40, [58, 0, 0, 0, 0, 0, 0, 1]);
        packet[6] = 44;
        let len = (packet.len() - 40) as u16;
        packet[4..6].copy_from_slice(&len.to_be_bytes());
        packet
    };
    let mut h = host(&["fd00::2/64"]);
    let question = discovery(&asks(US, Some(THEIRS)), THEM, US);
    take(&mut h, at(0), OURS, &in_fragment(&question));
    assert!(sent(&mut h, at(0)).is_empty());
    assert_eq!(h.stats().fragments, 1);
    take(&mut h, at(0), OURS, &question);
    assert_eq!(sent(&mut h, at(0)).len(), 1);
    take(&mut h, at(0), OURS, &in_fragment(&echo_request(US)));
    assert_eq!(sent(&mut h, at(0)).len(), 1);
    assert_eq!((h.stats().fragments, h.stats().echoes), (1, 1));
}

fn echo_request(dst: Ipv6Addr) -> Vec<u8> {
    let message = IcmpMessage::EchoRequest(Echo {
        ident: 7,
        sequence: 9,
        data: b"are you there",
    });
    let ip = IpHeader {
        src: THEM.into(),
        dst: dst.into(),
        ecn: Ecn::NotEct,
        dscp: 0,
        hop_limit: 64,
    };
    let icmp = IcmpPacket { ip, message };
    let mut packet = vec![0; icmp.wire_len()];
    icmp.emit(&mut packet).unwrap();
    packet
}

/// Section 5.4: one who was known is asked alone when it is used again, three times a second apart;
/// if it is silent, everyone is asked.
#[test]
fn rfc8504_5_4_a_neighbour_that_is_gone_is_noticed() {
    let mut h = host(&["fd00::2/64"]);
    let remote = SocketAddr::new(THEM.into(), 80);
    h.connect(at(0), None, remote, None).unwrap();
    let group = solicited_node(THEM);
    let to_all = (asks(THEM, Some(OURS)), US.into(), group.into());
    let to_it = (asks(THEM, Some(OURS)), US.into(), THEM.into());
    let out = sent(&mut h, at(0));
    assert_eq!(out.len(), 1, "{out:?}");
    assert_eq!(out[0].0, group_mac(group));
    assert_eq!(read(&out[0].1), Some(to_all));
    let here = NdpMessage::Advertisement {
        target: THEM,
        target_mac: Some(THEIRS),
        solicited: true,
        overrides: true,
    };
    take(&mut h, at(1), OURS, &discovery(&here, THEM, US));
    // The SYN that waited leaves, and then nothing but SYNs until half a minute is over.
    let (mut alone, mut everyone, mut syns) = (Vec::new(), Vec::new(), 0);
    for millis in (1..70_000).step_by(100) {
        let now = at(millis);
        h.handle_timeout(now);
        for (mac, packet) in sent(&mut h, now) {
            if Packet::parse(&packet, ChecksumPolicy::Verify).is_ok() {
                assert_eq!(mac, THEIRS);
                syns += 1;
                continue;
            }
            match read(&packet) {
                Some(m) if m == to_it => {
                    assert_eq!(mac, THEIRS);
                    alone.push(millis);
                }
                Some(m) if m == to_all => everyone.push(millis),
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(syns >= 5, "{syns}");
    assert_eq!(alone.len(), 3, "{alone:?} {everyone:?}");
    assert!(alone[0] > 30_000, "{alone:?}");
    for pair in alone.windows(2) {
        assert!((1_000..=1_100).contains(&(pair[1] - pair[0])), "{alone:?}");
    }
    assert!(
        everyone.first().is_some_and(|&t| t > alone[2]),
        "{everyone:?}"
    );
}

/// RFC 4861 section 7.2.5: one who says, unasked, that it is elsewhere is spoken to there.
#[test]
fn rfc8504_5_4_a_neighbour_that_has_moved_is_followed() {
    let mut h = host(&["fd00::2/64"]);
    let remote = SocketAddr::new(THEM.into(), 80);
    h.connect(at(0), None, remote, None).unwrap();
    sent(&mut h, at(0));
    let elsewhere = MacAddr([2, 0, 0, 0, 0, 0xc]);
    for (mac, solicited, dst) in [(THEIRS, true, US), (elsewhere, false, ALL_NODES)] {
        let here = NdpMessage::Advertisement {
            target: THEM,
            target_mac: Some(mac),
            solicited,
            overrides: true,
        };
        let to = if solicited { OURS } else { group_mac(dst) };
        take(&mut h, at(1), to, &discovery(&here, THEM, dst));
    }
    sent(&mut h, at(1));
    let later = at(5_000);
    h.handle_timeout(later);
    let out = sent(&mut h, later);
    assert!(!out.is_empty());
    assert!(out.iter().all(|(mac, _)| *mac == elsewhere), "{out:?}");
}

/// Section 6.2: each of several addresses is asked for, answers, and is answered from.
#[test]
fn rfc8504_6_2_an_interface_has_several_addresses() {
    let texts = ["fe80::2", "fd00::2", "2001:db8::2", "2001:db8::3"];
    let cidrs = texts.map(|t| format!("{t}/64"));
    let mut h = host(&cidrs.each_ref().map(String::as_str));
    for text in texts {
        let ours: Ipv6Addr = text.parse().unwrap();
        let group = solicited_node(ours);
        let question = discovery(&asks(ours, Some(THEIRS)), THEM, group);
        take(&mut h, at(0), group_mac(group), &question);
        let out = sent(&mut h, at(0));
        assert_eq!(out.len(), 1, "{text}");
        let (said, src, _) = read(&out[0].1).unwrap();
        assert_eq!(src, ours);
        assert!(
            matches!(said, NdpMessage::Advertisement { target, .. } if target == ours),
            "{said:?}"
        );
        take(&mut h, at(0), OURS, &echo_request(ours));
        let out = sent(&mut h, at(0));
        assert_eq!(out.len(), 1, "{text}");
        let reply = IcmpPacket::parse(&out[0].1, ChecksumPolicy::Verify).unwrap();
        assert_eq!((reply.ip.src, reply.ip.dst), (ours.into(), THEM.into()));
    }
}

/// Section 6.6 and RFC 6724 section 5: a connection is opened from the address that fits, though a
/// link-local one is there too.
#[test]
fn rfc8504_6_6_a_connection_is_opened_from_the_address_that_fits() {
    let own = ["2001:db8::2/64", "fd00::2/64", "fe80::2/64"];
    for (remote, source) in [
        ("2001:db8:9::1", "2001:db8::2"),
        ("fd00:1::1", "fd00::2"),
        ("fe80::9", "fe80::2"),
    ] {
        let mut h = host(&own);
        let remote = SocketAddr::new(remote.parse().unwrap(), 80);
        let id = h.connect(at(0), None, remote, None).unwrap();
        let local = h.endpoint().connection(id).unwrap().local();
        assert_eq!(local.ip(), source.parse::<IpAddr>().unwrap(), "{remote}");
    }
}

/// RFC 4291 section 2.1 and appendix A: an interface of Ethernet with IPv6 has a link-local address.
#[test]
fn rfc4291_2_1_an_interface_has_a_link_local_address() {
    let mac = MacAddr([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
    let of = |own: &[&str], medium| {
        let own = own.iter().map(|a| a.parse().unwrap()).collect();
        let config = InterfaceConfig::new(mac, own);
        let endpoint = EndpointConfig::new(Arc::new(TcpConfig::default()), [1; 16]);
        let host = Host::new(config, endpoint, Capabilities::plain(medium, 1_500)).unwrap();
        host.addresses().map(|a| a.to_string()).collect::<Vec<_>>()
    };
    // The example of appendix A.
    let (made, given) = ("fe80::3656:78ff:fe9a:bcde", "2001:db8::1");
    for (own, medium, all) in [
        (
            &["2001:db8::1/64"][..],
            Medium::Ethernet,
            &[given, made][..],
        ),
        (
            &["fe80::1/64", "2001:db8::1/64"],
            Medium::Ethernet,
            &[given, "fe80::1"],
        ),
        (
            &["2001:db8::1/64", "fe80::1/64"],
            Medium::Ethernet,
            &[given, "fe80::1"],
        ),
        (&["2001:db8::1/64"], Medium::Ip, &[given]),
        (&["10.0.0.1/24"], Medium::Ethernet, &["10.0.0.1"]),
        (&[], Medium::Ethernet, &[]),
    ] {
        assert_eq!(of(own, medium), all, "{own:?} {medium:?}");
    }
}

/// Section 5.7.1: "packet too big" reaches the connection whose packet it quotes, whatever its code
/// says (RFC 4443 section 3.2), and what leaves from then on passes.
#[test]
fn rfc8504_5_7_1_packet_too_big_is_heard() {
    let on_ip = |address: &str, secret| {
        let config = InterfaceConfig::new(OURS, vec![address.parse().unwrap()]);
        let endpoint = EndpointConfig::new(Arc::new(TcpConfig::default()), [secret; 16]);
        Host::new(config, endpoint, Capabilities::plain(Medium::Ip, 1_500)).unwrap()
    };
    let (mut a, mut b) = (on_ip("fd00::1/64", 1), on_ip("fd00::2/64", 2));
    let packets = |h: &mut Host, now| {
        let mut out = Vec::new();
        while let Some(frame) = h.poll_frame(now) {
            let mut bytes = Vec::new();
            frame.append_to(&mut bytes);
            out.push(bytes);
        }
        out
    };
    let to = SocketAddr::new(US.into(), 80);
    b.listen(to, 4, None).unwrap();
    let conn = a.connect(at(0), None, to, None).unwrap();
    for _ in 0..3 {
        for bytes in packets(&mut a, at(1)) {
            b.handle_frame(at(1), &RxFrame::plain(&bytes));
        }
        for bytes in packets(&mut b, at(1)) {
            a.handle_frame(at(1), &RxFrame::plain(&bytes));
        }
    }
    let c = a.endpoint_mut().connection_mut(conn).unwrap();
    c.send(&[1; 5_000], 5_000).unwrap();
    let lost = packets(&mut a, at(2));
    assert_eq!(lost[0].len(), 1_500);
    let too_big = IcmpPacket {
        ip: IpHeader {
            src: "fd00:9::9".parse().unwrap(),
            dst: THEM.into(),
            ecn: Ecn::NotEct,
            dscp: 0,
            hop_limit: 61,
        },
        message: IcmpMessage::Error {
            kind: IcmpErrorKind::PacketTooBig { mtu: 1_300 },
            original: &lost[0][..1_232],
        },
    };
    let mut bytes = vec![0; too_big.wire_len()];
    too_big.emit(&mut bytes).unwrap();
    // Another code, which the checksum covers.
    bytes[41] = 7;
    let sum = u16::from_be_bytes([bytes[42], bytes[43]]);
    let (sum, borrowed) = sum.overflowing_sub(7);
    bytes[42..44].copy_from_slice(&(sum - u16::from(borrowed)).to_be_bytes());
    a.handle_frame(at(3), &RxFrame::plain(&bytes));
    assert_eq!(a.stats().icmp_errors, 1);
    let again = packets(&mut a, at(3));
    assert_eq!(again.iter().map(Vec::len).max(), Some(1_300));
}

/// Section 6.1 and RFC 7371: a group is a group whatever its flags and scope, and no TCP peer.
#[test]
fn rfc8504_6_1_groups_with_any_flags_are_no_peers() {
    let mut h = host(&["fd00::2/64"]);
    h.listen("[::]:80".parse().unwrap(), 4, None).unwrap();
    for high in 0xff00..=0xffff {
        let group = Ipv6Addr::new(high, 0x40, 0xfd00, 0, 0, 0, 0, 1);
        let remote = SocketAddr::new(group.into(), 80);
        let open = h.connect(at(0), None, remote, None);
        assert_eq!(open, Err(ConnectError::BadAddress), "{group}");
    }
    assert!(sent(&mut h, at(0)).is_empty());
}
