//! The interface between two of ours, and against smoltcp on Ethernet: neighbours, TCP, echo, and
//! what must only be counted.

use narrows::buffer::{RecvRing, SendRing};
use narrows::config::TcpConfig;
use narrows::conn::{Boxed, Event, state::CloseReason};
use narrows::endpoint::{ConnId, EndpointConfig, EndpointEvent};
use narrows::interface::{Capabilities, Interface, InterfaceConfig, Medium, RxChecksum, RxFrame};
use narrows::wire::ethernet::{EtherType, EthernetHeader, MacAddr};
use narrows::wire::icmp::Echo;
use narrows::wire::ipv6::flow_label;
use narrows::wire::{ChecksumPolicy, Ecn, IcmpMessage, IcmpPacket, IpHeader, Packet};
use narrows::{Duration, Instant};
use smoltcp::iface::{Config, Interface as SmolInterface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium as SmolMedium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::wire::{EthernetAddress, IpCidr};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

type Host = Interface<Boxed<SendRing, RecvRing>>;

const MAC_A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const MAC_B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
const PLAIN: Capabilities = Capabilities::plain(Medium::Ethernet, 1500);

fn pattern(at: usize) -> u8 {
    (at ^ (at >> 8) ^ (at >> 16)) as u8
}

fn host(n: u8, mac: MacAddr, capabilities: Capabilities) -> Host {
    let addresses = vec![
        format!("10.0.0.{n}/24").parse().unwrap(),
        format!("fd00::{n}/64").parse().unwrap(),
    ];
    let config = InterfaceConfig::new(mac, addresses);
    let endpoint = EndpointConfig::new(Arc::new(TcpConfig::default()), [n; 16]);
    Host::new(config, endpoint, capabilities).unwrap()
}

/// A frame on its way, as the device gives it to the other side.
struct Flying {
    bytes: Vec<u8>,
    partial: RxChecksum,
}

fn send_all(from: &mut Host, now: Instant, to: &mut VecDeque<Flying>) {
    while let Some(frame) = from.poll_frame(now) {
        let mut bytes = Vec::new();
        frame.append_to(&mut bytes);
        assert_eq!(bytes.len(), frame.len());
        let partial = match frame.offload.checksum {
            Some(partial) => RxChecksum::Partial(partial),
            None => RxChecksum::Unknown,
        };
        to.push_back(Flying { bytes, partial });
    }
}

fn take_all(to: &mut Host, now: Instant, from: &mut VecDeque<Flying>) {
    while let Some(frame) = from.pop_front() {
        to.handle_frame(
            now,
            &RxFrame {
                bytes: &frame.bytes,
                checksum: frame.partial,
                segment_size: None,
                buffer: None,
            },
        );
    }
}

fn timers(host: &mut Host, now: Instant) {
    if host.poll_timeout().is_some_and(|at| at <= now) {
        host.handle_timeout(now);
    }
}

/// `total` bytes from a to b and back, echoed; then both close.
fn echo_between(mut a: Host, mut b: Host, to: &str, total: usize) -> (Host, Host) {
    let to = to.parse().unwrap();
    let listener = b.listen(to, 8, None).unwrap();
    let mut now = Instant::ZERO + Duration::from_secs(1);
    let conn = a.connect(now, None, to, None).unwrap();
    let (mut to_b, mut to_a) = (VecDeque::new(), VecDeque::new());
    let data: Vec<u8> = (0..total).map(pattern).collect();
    let (mut queued, mut got, mut server, mut done) = (0, Vec::new(), None, false);
    let mut back = VecDeque::new();
    for _ in 0..200_000 {
        if let Some(c) = a.endpoint_mut().connection_mut(conn) {
            if queued < total {
                queued += c.send(&data[queued..], total - queued).unwrap_or(0);
            }
            let n = c.readable();
            got.extend(c.recv_buffer().peek(c.readable_end()).iter());
            c.consume(n, now);
            if got.len() == total {
                c.close(now);
            }
        }
        send_all(&mut a, now, &mut to_b);
        take_all(&mut b, now, &mut to_b);
        while let Some(event) = b.poll_event() {
            match event {
                EndpointEvent::Accepted { listener: l, conn } => {
                    assert_eq!(l, listener);
                    server = Some(conn);
                }
                EndpointEvent::Conn {
                    conn,
                    event: Event::PeerClosed,
                } => {
                    b.endpoint_mut().connection_mut(conn).unwrap().close(now);
                }
                EndpointEvent::Conn { .. } => {}
            }
        }
        if let Some(c) = server.and_then(|s| b.endpoint_mut().connection_mut(s)) {
            let n = c.readable();
            back.extend(c.recv_buffer().peek(c.readable_end()).iter());
            c.consume(n, now);
            let front = back.make_contiguous();
            let len = front.len();
            let taken = c.send(front, len).unwrap_or(0);
            back.drain(..taken);
        }
        send_all(&mut b, now, &mut to_a);
        take_all(&mut a, now, &mut to_a);
        while let Some(event) = a.poll_event() {
            if let EndpointEvent::Conn {
                event: Event::Closed(why),
                ..
            } = event
            {
                assert_eq!(why, CloseReason::Finished);
                done = true;
            }
            if let EndpointEvent::Conn {
                event: Event::PeerClosed,
                ..
            } = event
            {
                done = true;
            }
        }
        if done {
            assert_eq!(got.len(), total);
            assert!((0..total).all(|i| got[i] == pattern(i)));
            return (a, b);
        }
        now = now + Duration::from_micros(100);
        timers(&mut a, now);
        timers(&mut b, now);
    }
    panic!("{} of {total} came back", got.len());
}

#[test]
fn two_of_ours_echo_over_ipv4_and_ipv6() {
    for to in ["10.0.0.2:7", "[fd00::2]:7"] {
        let (a, b) = (host(1, MAC_A, PLAIN), host(2, MAC_B, PLAIN));
        let (a, b) = echo_between(a, b, to, 300_000);
        for stats in [a.stats(), b.stats()] {
            // A question and an answer, one who asks is not believed for good.
            assert_eq!((stats.neighbor_in, stats.neighbor_out), (2, 2));
            assert_eq!(stats.malformed + stats.bad_checksum + stats.unroutable, 0);
        }
    }
}

#[test]
fn segmentation_and_checksums_are_left_to_the_device() {
    let offload = Capabilities::offload(Medium::Ethernet, 1500);
    let (a, b) = (host(1, MAC_A, offload), host(2, MAC_B, offload));
    let (a, _) = echo_between(a, b, "10.0.0.2:7", 3_000_000);
    assert!(a.stats().frames_out < 1_500, "{:?}", a.stats());
}

/// The flow labels of what a connection from `local` sends, and of what comes back from a server at
/// `remote` with this secret, from the SYN over a retransmission to the RST: all the same.
fn flow_labels(local: &str, remote: &str, secret: u8) -> [Option<u32>; 2] {
    let (local, remote): (SocketAddr, SocketAddr) =
        (local.parse().unwrap(), remote.parse().unwrap());
    let ip = Capabilities::plain(Medium::Ip, 1500);
    let mut a = host(1, MAC_A, ip);
    let addresses = vec![format!("{}/24", remote.ip()).parse().unwrap()];
    let config = InterfaceConfig::new(MAC_B, addresses);
    let endpoint = EndpointConfig::new(Arc::new(TcpConfig::default()), [secret; 16]);
    let mut b = Host::new(config, endpoint, ip).unwrap();
    b.listen(remote, 8, None).unwrap();
    let mut now = Instant::ZERO;
    let conn = a.connect(now, Some(local), remote, None).unwrap();
    let mut seen = [const { Vec::new() }; 2];
    for round in 0..20 {
        if let Some(c) = a.endpoint_mut().connection_mut(conn) {
            match round {
                2 => assert_eq!(c.send(&[1; 10_000], 10_000), Ok(10_000)),
                10 => c.abort(now),
                _ => {}
            }
        }
        let mut flying = VecDeque::new();
        send_all(&mut a, now, &mut flying);
        seen[0].extend(flying.iter().map(|f| flow_label(&f.bytes)));
        // The data is lost the first time.
        flying.retain(|_| round != 2);
        take_all(&mut b, now, &mut flying);
        send_all(&mut b, now, &mut flying);
        seen[1].extend(flying.iter().map(|f| flow_label(&f.bytes)));
        take_all(&mut a, now, &mut flying);
        now = now + Duration::from_millis(300);
        timers(&mut a, now);
        timers(&mut b, now);
    }
    assert!(seen[0].len() > 10 && seen[1].len() > 3, "{seen:?}");
    seen.map(|labels| {
        assert!(labels.iter().all(|l| *l == labels[0]), "{labels:?}");
        labels[0]
    })
}

/// RFC 8504 section 5.1 and RFC 6437 section 3: all packets of a connection in one direction have
/// one flow label, not 0; other addresses, ports and secrets have others.
#[test]
fn rfc6437_3_each_connection_has_a_flow_label_of_its_own() {
    let [ours, theirs] = flow_labels("[fd00::1]:40000", "[fd00::2]:80", 2);
    for label in [ours, theirs] {
        assert!(label.is_some_and(|l| (1..1 << 20).contains(&l)));
    }
    assert_ne!(ours, theirs);
    let again = flow_labels("[fd00::1]:40000", "[fd00::2]:80", 2);
    assert_eq!(again, [ours, theirs]);
    for (local, remote) in [
        ("[fd00::1]:40001", "[fd00::2]:80"),
        ("[fd00::1]:40000", "[fd00::2]:81"),
        ("[fd00::1]:40000", "[fd00::3]:80"),
        ("[fd00::1]:40000", "[fd00:0:1::2]:80"),
    ] {
        let [other, answers] = flow_labels(local, remote, 2);
        assert!(other != ours && answers != theirs, "{local} {remote}");
    }
    let [same, other] = flow_labels("[fd00::1]:40000", "[fd00::2]:80", 3);
    assert!(same == ours && other != theirs);
    assert_eq!(flow_labels("10.0.0.1:40000", "10.0.0.2:80", 2), [None; 2]);
}

/// All packets that cross between a host with this MTU and one with another, each way: the MSS of
/// the SYN and the lengths of the rest. `to` is the listener's address.
fn lengths(mtu: usize, other: usize, to: &str) -> (Option<u16>, [Vec<usize>; 2]) {
    let to: SocketAddr = to.parse().unwrap();
    let mut a = host(1, MAC_A, Capabilities::plain(Medium::Ip, mtu));
    let mut b = host(2, MAC_B, Capabilities::plain(Medium::Ip, other));
    b.listen(to, 8, None).unwrap();
    let mut now = Instant::ZERO;
    let conn = a.connect(now, None, to, None).unwrap();
    let mut mss = None;
    let mut seen = [const { Vec::new() }; 2];
    let mut server = None;
    for round in 0..40 {
        let data = [1; 40_000];
        for (host, id) in [(&mut a, Some(conn)), (&mut b, server)] {
            if let Some(c) = id.and_then(|id| host.endpoint_mut().connection_mut(id))
                && round == 4
            {
                assert_eq!(c.send(&data, data.len()), Ok(data.len()));
            }
        }
        let mut flying = VecDeque::new();
        send_all(&mut a, now, &mut flying);
        if let (0, Some(syn)) = (round, flying.front()) {
            let syn = Packet::parse(&syn.bytes, ChecksumPolicy::Verify).unwrap();
            mss = syn.tcp.options.mss;
        }
        seen[0].extend(flying.iter().map(|f| f.bytes.len()));
        take_all(&mut b, now, &mut flying);
        while let Some(event) = b.poll_event() {
            if let EndpointEvent::Accepted { conn, .. } = event {
                server = Some(conn);
            }
        }
        send_all(&mut b, now, &mut flying);
        seen[1].extend(flying.iter().map(|f| f.bytes.len()));
        take_all(&mut a, now, &mut flying);
        now = now + Duration::from_millis(50);
        timers(&mut a, now);
        timers(&mut b, now);
    }
    (mss, seen)
}

/// RFC 1122 section 3.3.3: nothing that leaves is larger than the interface takes, nor than the
/// peer's does; and packets are as large as that.
#[test]
fn rfc1122_3_3_3_no_packet_is_larger_than_the_interface_takes() {
    for to in ["10.0.0.2:7", "[fd00::2]:7"] {
        for (mtu, other) in [
            (1_280, 9_000),
            (9_000, 1_280),
            (1_500, 1_500),
            (1_301, 1_400),
        ] {
            let (_, seen) = lengths(mtu, other, to);
            for way in seen {
                assert_eq!(
                    way.iter().max(),
                    Some(&mtu.min(other)),
                    "{to} {mtu} {other}"
                );
            }
        }
    }
}

/// RFC 8200 section 8.3: 60 bytes are left for the headers, and 40 with IPv4.
#[test]
fn rfc8200_8_3_the_mss_is_the_packet_size_less_60_bytes() {
    for mtu in [1_280, 1_500, 9_000] {
        let mss = |to| lengths(usize::from(mtu), 9_000, to).0;
        assert_eq!(mss("[fd00::2]:7"), Some(mtu - 60));
        assert_eq!(mss("10.0.0.2:7"), Some(mtu - 40));
    }
}

/// RFC 1122 section 3.2.2: nobody answers, and no connection hears of it.
#[test]
fn rfc1122_3_2_2_icmp_of_unknown_type_is_dropped_in_silence() {
    for to in ["10.0.0.2:7", "[fd00::2]:7"] {
        let to: SocketAddr = to.parse().unwrap();
        let mut a = host(1, MAC_A, Capabilities::plain(Medium::Ip, 1_500));
        let now = Instant::ZERO;
        let conn = a.connect(now, None, to, None).unwrap();
        let mut sent = VecDeque::new();
        send_all(&mut a, now, &mut sent);
        let syn = sent.pop_front().unwrap().bytes;
        let ours = Packet::parse(&syn, ChecksumPolicy::Verify).unwrap().ip;
        // What errors have: four bytes, and the packet that they are about.
        let body = [&[0; 4][..], &syn].concat();
        let known_v4 = [0, 3, 4, 8, 11, 12];
        // 133 to 137 are of neighbour discovery, which this medium has not.
        let known_v6 = [1, 2, 3, 4, 128, 129];
        let mut ignored = 0;
        for kind in 0..=u8::MAX {
            let known = if to.is_ipv4() { known_v4 } else { known_v6 };
            if known.contains(&kind) {
                continue;
            }
            ignored += 1;
            let icmp = IcmpPacket {
                ip: IpHeader {
                    src: to.ip(),
                    dst: ours.src,
                    ..ours
                },
                message: IcmpMessage::Other {
                    kind,
                    code: 0,
                    body: &body,
                },
            };
            let mut bytes = vec![0; icmp.wire_len()];
            icmp.emit(&mut bytes).unwrap();
            let frame = RxFrame {
                bytes: &bytes,
                checksum: RxChecksum::Unknown,
                segment_size: None,
                buffer: None,
            };
            a.handle_frame(now, &frame);
            send_all(&mut a, now, &mut sent);
            assert!(sent.is_empty(), "{to} {kind}");
            assert_eq!(a.poll_event(), None, "{to} {kind}");
        }
        assert_eq!(a.stats().icmp_ignored, ignored, "{to}");
        assert!(a.endpoint_mut().connection_mut(conn).is_some());
    }
}

#[test]
fn a_vlan_is_kept_to() {
    let tagged = |n, mac| {
        let mut config = InterfaceConfig::new(mac, vec![format!("10.0.0.{n}/24").parse().unwrap()]);
        config.vlan = Some(7);
        let endpoint = EndpointConfig::new(Arc::new(TcpConfig::default()), [n; 16]);
        Host::new(config, endpoint, PLAIN).unwrap()
    };
    echo_between(tagged(1, MAC_A), tagged(2, MAC_B), "10.0.0.2:7", 10_000);
}

#[test]
fn a_network_without_link_headers() {
    let ip = Capabilities::plain(Medium::Ip, 1400);
    let (a, b) = (host(1, MAC_A, ip), host(2, MAC_B, ip));
    echo_between(a, b, "[fd00::2]:7", 100_000);
}

#[test]
fn who_does_not_answer_is_unreachable() {
    let mut a = host(1, MAC_A, PLAIN);
    let mut now = Instant::ZERO;
    let conn = a
        .connect(now, None, "10.0.0.9:80".parse().unwrap(), None)
        .unwrap();
    let mut asked = 0;
    for _ in 0..60 {
        while let Some(frame) = a.poll_frame(now) {
            let (ethernet, _) = EthernetHeader::parse(frame.head).unwrap();
            assert_eq!(ethernet.ether_type, EtherType::Arp);
            asked += 1;
        }
        now = now + Duration::from_millis(100);
        timers(&mut a, now);
    }
    assert!((3..=6).contains(&asked), "{asked}");
    assert!(a.stats().unroutable >= 1);
    // A soft error: the connection goes on trying (RFC 1122 section 4.2.3.9).
    assert!(a.endpoint().connection(conn).is_some());
}

#[test]
fn useless_frames_are_counted_and_nothing_more() {
    let (mut a, mut b) = (host(1, MAC_A, PLAIN), host(2, MAC_B, PLAIN));
    let now = Instant::ZERO;
    // Let them know each other.
    a.connect(now, None, "10.0.0.2:80".parse().unwrap(), None)
        .unwrap();
    let (mut to_b, mut to_a) = (VecDeque::new(), VecDeque::new());
    send_all(&mut a, now, &mut to_b);
    take_all(&mut b, now, &mut to_b);
    send_all(&mut b, now, &mut to_a);
    take_all(&mut a, now, &mut to_a);
    send_all(&mut a, now, &mut to_b);
    let syn = to_b.pop_front().unwrap().bytes;

    let mut feed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = syn.clone();
        change(&mut frame);
        b.handle_frame(now, &RxFrame::plain(&frame));
        assert!(b.poll_frame(now).is_none());
        *b.stats()
    };
    assert_eq!(feed(&|f| f.truncate(10)).malformed, 1);
    assert_eq!(feed(&|f| f.truncate(40)).malformed, 2);
    assert_eq!(
        feed(&|f| f[14] = 0x65).malformed,
        3,
        "IPv6 under IPv4's type"
    );
    assert_eq!(feed(&|f| f[5] ^= 4).other_mac, 1);
    assert_eq!(
        feed(&|f| f[12..14].copy_from_slice(&[0x88, 0xcc])).other_ether_type,
        1
    );
    let tag = |f: &mut Vec<u8>| drop(f.splice(12..12, [0x81, 0, 0, 9]));
    assert_eq!(feed(&tag).vlan, 1);
    assert_eq!(feed(&|f| f[24] ^= 1).bad_checksum, 1, "IPv4");
    assert_eq!(feed(&|f| f[40] ^= 1).bad_checksum, 2, "TCP");
    // With the sum of the header made right again.
    let refit = |f: &mut Vec<u8>| {
        f[24..26].fill(0);
        let sum: u32 = f[14..34]
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
            .sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        f[24..26].copy_from_slice(&sum.to_be_bytes());
    };
    let stats = feed(&|f| {
        f[20] = 0x20;
        refit(f);
    });
    assert_eq!(stats.fragments, 1);
    let stats = feed(&|f| {
        f[23] = 17;
        refit(f);
    });
    assert_eq!(stats.other_protocol, 1);
    let stats = feed(&|f| {
        f[33] = 77;
        refit(f);
    });
    assert_eq!(
        (stats.other_address, stats.bad_checksum),
        (0, 3),
        "sum with the address"
    );
    // RFC 1122 section 3.2.1.3: a whole packet that is for another host.
    let stats = feed(&|f| {
        f[33] += 75;
        refit(f);
        let sum = u16::from_be_bytes([f[50], f[51]]);
        let (sum, carried) = sum.overflowing_sub(75);
        f[50..52].copy_from_slice(&(sum - u16::from(carried)).to_be_bytes());
    });
    assert_eq!((stats.other_address, stats.bad_checksum), (1, 3));
    // A priority tag is no VLAN; the packet is answered with a reset.
    let mut frame = syn.clone();
    frame.splice(12..12, [0x81, 0, 0xe0, 0]);
    b.handle_frame(now, &RxFrame::plain(&frame));
    assert!(b.poll_frame(now).is_some());
}

/// A peer without SACK counts them (RFC 5681 section 4.2).
#[test]
fn a_batch_out_of_order_is_acknowledged_one_by_one() {
    let (mut a, mut b) = (host(1, MAC_A, PLAIN), host(2, MAC_B, PLAIN));
    let now = Instant::ZERO + Duration::from_secs(1);
    let to = "10.0.0.2:7".parse().unwrap();
    b.listen(to, 1, None).unwrap();
    let conn = a.connect(now, None, to, None).unwrap();
    let (mut to_b, mut to_a) = (VecDeque::new(), VecDeque::new());
    for _ in 0..4 {
        send_all(&mut a, now, &mut to_b);
        take_all(&mut b, now, &mut to_b);
        send_all(&mut b, now, &mut to_a);
        take_all(&mut a, now, &mut to_a);
    }
    let c = a.endpoint_mut().connection_mut(conn).unwrap();
    c.send(&[1; 14_480], 14_480).unwrap();
    send_all(&mut a, now, &mut to_b);
    assert_eq!(to_b.len(), 10);
    to_b.pop_front();
    take_all(&mut b, now, &mut to_b);
    send_all(&mut b, now, &mut to_a);
    assert_eq!(to_a.len(), 9);
}

#[test]
fn echo_is_answered() {
    let mut b = host(2, MAC_B, PLAIN);
    for (src, dst, ether_type) in [
        ("10.0.0.1", "10.0.0.2", EtherType::Ipv4),
        ("fd00::1", "fd00::2", EtherType::Ipv6),
    ] {
        let mut frame = vec![0; 300];
        let header = EthernetHeader {
            dst: MAC_B,
            src: MAC_A,
            tag: None,
            ether_type,
        };
        let at = header.emit(&mut frame).unwrap();
        let echo = Echo {
            ident: 7,
            sequence: 9,
            data: b"are you there",
        };
        let ip = IpHeader {
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
            ecn: Ecn::NotEct,
            dscp: 0,
            hop_limit: 3,
        };
        let message = IcmpMessage::EchoRequest(echo);
        let len = IcmpPacket { ip, message }.emit(&mut frame[at..]).unwrap();
        frame.truncate(at + len);
        b.handle_frame(Instant::ZERO, &RxFrame::plain(&frame));
        let reply = b.poll_frame(Instant::ZERO).unwrap();
        let (ethernet, packet) = EthernetHeader::parse(reply.head).unwrap();
        assert_eq!((ethernet.dst, ethernet.src), (MAC_A, MAC_B));
        let reply = IcmpPacket::parse(packet, ChecksumPolicy::Verify).unwrap();
        assert_eq!(reply.message, IcmpMessage::EchoReply(echo));
        assert_eq!((reply.ip.src, reply.ip.dst), (ip.dst, ip.src));
    }
    assert_eq!(b.stats().echoes, 2);
}

// ---- Against smoltcp.

#[derive(Default)]
struct Cable {
    to_us: VecDeque<Vec<u8>>,
    to_them: VecDeque<Vec<u8>>,
}

struct Rx(Vec<u8>);
impl RxToken for Rx {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}
struct Tx<'a>(&'a mut VecDeque<Vec<u8>>);
impl TxToken for Tx<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let r = f(&mut frame);
        self.0.push_back(frame);
        r
    }
}
impl Device for Cable {
    type RxToken<'a> = Rx;
    type TxToken<'a> = Tx<'a>;
    fn receive(&mut self, _: smoltcp::time::Instant) -> Option<(Rx, Tx<'_>)> {
        let frame = self.to_them.pop_front()?;
        Some((Rx(frame), Tx(&mut self.to_us)))
    }
    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Tx<'_>> {
        Some(Tx(&mut self.to_us))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        let mut c = DeviceCapabilities::default();
        c.medium = SmolMedium::Ethernet;
        c.max_transmission_unit = 1514;
        c
    }
}

struct Smol {
    cable: Cable,
    iface: SmolInterface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
}

impl Smol {
    fn new() -> Self {
        let mut cable = Cable::default();
        let mut config = Config::new(EthernetAddress(MAC_B.0).into());
        config.random_seed = 1;
        let mut iface =
            SmolInterface::new(config, &mut cable, smoltcp::time::Instant::from_micros(0));
        iface.update_ip_addrs(|a| {
            a.push(IpCidr::new("10.0.0.2".parse().unwrap(), 24))
                .unwrap();
            a.push(IpCidr::new("fd00::2".parse().unwrap(), 64)).unwrap();
        });
        let buffer = || tcp::SocketBuffer::new(vec![0; 65_536]);
        let mut sockets = SocketSet::new(vec![]);
        let socket = sockets.add(tcp::Socket::new(buffer(), buffer()));
        Self {
            cable,
            iface,
            sockets,
            socket,
        }
    }

    fn poll(&mut self, now: Instant, ours: &mut Host) {
        let at = smoltcp::time::Instant::from_micros((now.as_nanos() / 1_000) as i64);
        while let Some(frame) = ours.poll_frame(now) {
            let mut bytes = Vec::new();
            frame.append_to(&mut bytes);
            self.cable.to_them.push_back(bytes);
        }
        self.iface.poll(at, &mut self.cable, &mut self.sockets);
        while let Some(frame) = self.cable.to_us.pop_front() {
            ours.handle_frame(now, &RxFrame::plain(&frame));
        }
    }

    fn tcp(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.socket)
    }
}

/// Both send `TOTAL` bytes at once.
fn both_ways(active: bool, theirs: &str, ours: &str) {
    const TOTAL: usize = 400_000;
    let mut a = host(1, MAC_A, PLAIN);
    let mut smol = Smol::new();
    let mut now = Instant::ZERO;
    let mut conn: Option<ConnId> = None;
    if active {
        smol.tcp().listen(7000).unwrap();
        conn = Some(a.connect(now, None, theirs.parse().unwrap(), None).unwrap());
    } else {
        a.listen(ours.parse().unwrap(), 4, None).unwrap();
        let ours: std::net::SocketAddr = ours.parse().unwrap();
        let cx = smol.iface.context();
        smol.sockets
            .get_mut::<tcp::Socket<'_>>(smol.socket)
            .connect(cx, (ours.ip(), ours.port()), 50_000)
            .unwrap();
    }
    let data: Vec<u8> = (0..TOTAL).map(pattern).collect();
    let (mut sent, mut got, mut sent_by_them, mut got_by_them) = (0, Vec::new(), 0, Vec::new());
    for _ in 0..100_000 {
        smol.poll(now, &mut a);
        while let Some(event) = a.poll_event() {
            if let EndpointEvent::Accepted { conn: new, .. } = event {
                conn = Some(new);
            }
        }
        if let Some(c) = conn.and_then(|c| a.endpoint_mut().connection_mut(c)) {
            sent += c.send(&data[sent..], TOTAL - sent).unwrap();
            got.extend(c.recv_buffer().peek(c.readable_end()).iter());
            c.consume(c.readable(), now);
        }
        let socket = smol.tcp();
        if socket.may_send() {
            sent_by_them += socket.send_slice(&data[sent_by_them..]).unwrap();
        }
        if socket.can_recv() {
            let bytes = socket.recv(|b| (b.len(), b.to_vec())).unwrap();
            got_by_them.extend(bytes);
        }
        if got.len() == TOTAL && got_by_them.len() == TOTAL {
            assert!(got == data && got_by_them == data);
            assert_eq!(a.stats().malformed + a.stats().bad_checksum, 0);
            return;
        }
        now = now + Duration::from_micros(200);
        timers(&mut a, now);
    }
    panic!("{} and {} of {TOTAL}", got.len(), got_by_them.len());
}

#[test]
fn smoltcp_is_reached_and_reaches_us() {
    both_ways(true, "10.0.0.2:7000", "10.0.0.1:7000");
    both_ways(false, "10.0.0.2:7000", "10.0.0.1:7000");
    both_ways(true, "[fd00::2]:7000", "[fd00::1]:7000");
    both_ways(false, "[fd00::2]:7000", "[fd00::1]:7000");
}
