//! RFC 9293 sections 3.4.1, 3.5 and 3.9.1.1: initial sequence numbers, opening, addresses. Each
//! test is named for its requirement.

use crate::pair::lone::{Lone, ack, plain, seg, syn, syn_ack};
use crate::pair::{Pair, bytes};
use narrows::buffer::{RecvRing, SendRing};
use narrows::config::TcpConfig;
use narrows::conn::state::{CloseReason, Origin, State};
use narrows::conn::{Boxed, Event};
use narrows::endpoint::{
    ConnectError, Endpoint, EndpointConfig, EndpointEvent, ListenError, SourceAddress,
};
use narrows::wire::{Flags, IpHeader, Seq, TcpHeader};
use narrows::{Duration, Instant};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

type Host = Endpoint<Boxed<SendRing, RecvRing>>;
type Packet = (IpHeader, TcpHeader, Vec<u8>);

const SYN: Flags = Flags::SYN;
const ACK: Flags = Flags::ACK;
const RST: Flags = Flags::RST;
const A: &str = "10.0.0.1:5000";
const B: &str = "10.0.0.2:80";

fn addr(s: &str) -> SocketAddr {
    s.parse().unwrap()
}

fn start() -> Instant {
    Instant::ZERO + Duration::from_secs(100)
}

fn host(secret: u8) -> Host {
    let tcp = Arc::new(TcpConfig::default());
    Host::new(EndpointConfig::new(tcp, [secret; 16])).unwrap()
}

fn drain(host: &mut Host, now: Instant) -> Vec<Packet> {
    let mut out = Vec::new();
    while let Some((ip, tcp, view)) = host.poll_transmit(now) {
        out.push((ip, tcp, view.iter().collect()));
    }
    out
}

fn give(host: &mut Host, now: Instant, p: &Packet) -> Vec<Packet> {
    host.handle_packet(now, &p.0, &p.1, &p.2);
    drain(host, now)
}

fn packet(from: &str, to: &str, flags: Flags, seq: u32, ack: u32) -> Packet {
    let (from, to) = (addr(from), addr(to));
    let ip = IpHeader {
        src: from.ip(),
        dst: to.ip(),
        ecn: Default::default(),
        dscp: 0,
        hop_limit: 64,
    };
    let tcp = TcpHeader {
        src_port: from.port(),
        dst_port: to.port(),
        seq: Seq(seq),
        ack: Seq(ack),
        flags,
        window: 9_000,
        ..TcpHeader::default()
    };
    (ip, tcp, Vec::new())
}

/// The ISN of a connection from `local` at `now`, on a host that did nothing before.
fn isn(secret: u8, local: &str, remote: &str, now: Instant) -> Seq {
    let mut h = host(secret);
    h.connect(now, addr(local), addr(remote), None).unwrap();
    drain(&mut h, now)[0].1.seq
}

// ---- Initial sequence numbers.

/// It ticks about every 4 microseconds, so an incarnation begins above its predecessor.
#[test]
fn must_8_initial_sequence_numbers_follow_a_clock() {
    let first = isn(1, A, B, start());
    for us in [4, 400, 4_000_000, 3_600_000_000] {
        let later = isn(1, A, B, start() + Duration::from_micros(us));
        assert_eq!(later.since(first), (us / 4) as u32, "{us} us");
    }
}

/// The same clock, but nobody without the secret can tell the ISN of one connection from that of
/// another.
#[test]
fn must_9_initial_sequence_numbers_hang_on_a_secret() {
    let at = |secret, local: &str, remote: &str| isn(secret, local, remote, start());
    let mut all = vec![
        at(1, A, B),
        at(2, A, B),
        at(3, A, B),
        at(1, "10.0.0.1:5001", B),
        at(1, A, "10.0.0.2:81"),
        at(1, A, "10.0.0.3:80"),
        at(1, "10.0.0.9:5000", B),
    ];
    // Differences say nothing either: the same change under another secret makes another one.
    let step = |secret| at(secret, "10.0.0.1:5001", B).since(at(secret, A, B));
    assert_ne!(step(1), step(2));
    assert_ne!(step(2), step(3));
    all.sort_by_key(|s| s.0);
    all.dedup();
    assert_eq!(all.len(), 7);
}

/// `F(local address, local port, remote address, remote port, secret)` as in RFC 6528: the same
/// connection at the same time has the same number, whatever came before.
#[test]
fn shld_1_initial_sequence_numbers_are_a_keyed_function_of_the_connection() {
    assert_eq!(isn(7, A, B, start()), isn(7, A, B, start()));
    let mut h = host(7);
    for port in 6_000..6_050 {
        let local = SocketAddr::new(addr(A).ip(), port);
        h.connect(start(), local, addr(B), None).unwrap();
    }
    drain(&mut h, start());
    h.connect(start(), addr(A), addr(B), None).unwrap();
    assert_eq!(drain(&mut h, start())[0].1.seq, isn(7, A, B, start()));
}

// ---- Opening.

#[test]
fn must_10_simultaneous_open_gives_one_connection() {
    let mut p = Pair::crossing(TcpConfig::default(), TcpConfig::default());
    p.run_for(Duration::from_millis(50));
    assert_eq!(p.client.state(), State::Established);
    assert_eq!(p.server().state(), State::Established);
    assert_eq!(p.client_events, [Event::Connected]);
    assert_eq!(p.server_events, [Event::Connected]);
    p.transfer(&bytes(30_000), Duration::from_secs(5));
    assert_eq!(p.server_got, bytes(30_000));
}

/// After a passive open a RST leads back to LISTEN and nobody is told; after an active one the
/// user is.
#[test]
fn must_11_syn_received_remembers_where_it_came_from() {
    // Passive: the listener is as it was.
    let mut h = host(1);
    let listener = h.listen(addr(B), 1, None).unwrap();
    for i in 0..3 {
        let out = give(&mut h, start(), &packet(A, B, SYN, 100 + i, 0));
        assert!(out[0].1.flags.contains(SYN | ACK), "{i}");
        assert!(give(&mut h, start(), &packet(A, B, RST, 101 + i, 0)).is_empty());
        assert_eq!(h.poll_event(), None);
        assert_eq!(h.listener_stats(listener).unwrap().embryonic, 0);
        assert_eq!(h.connections(), 0);
    }
    // Active, through a simultaneous open.
    let (mut l, _) = Lone::syn_sent(plain());
    l.recv(syn().mss(1_000));
    assert_eq!(l.state(), State::SynReceived(Origin::Active));
    l.recv(seg(RST, 0, 0));
    assert_eq!(l.state(), State::Closed(CloseReason::Refused));
    assert_eq!(l.events, [Event::Closed(CloseReason::Refused)]);
}

#[test]
fn must_41_a_passive_open_touches_no_other_connection() {
    let mut h = host(1);
    let first = h.listen(addr(B), 9, None).unwrap();
    // One embryonic, one established.
    give(&mut h, start(), &packet(A, B, SYN, 1, 0));
    let out = give(&mut h, start(), &packet("10.0.0.1:5001", B, SYN, 1, 0));
    let iss = out[0].1.seq.0;
    give(
        &mut h,
        start(),
        &packet("10.0.0.1:5001", B, ACK, 2, iss + 1),
    );
    let Some(EndpointEvent::Accepted { conn, .. }) = h.poll_event() else {
        panic!("not accepted")
    };
    // The same again is an error; others are listeners of their own.
    assert_eq!(h.listen(addr(B), 9, None), Err(ListenError::InUse));
    h.listen(addr("0.0.0.0:80"), 9, None).unwrap();
    h.listen(addr("10.0.0.2:81"), 9, None).unwrap();
    assert_eq!(h.connections(), 2);
    assert_eq!(h.connection(conn).unwrap().state(), State::Established);
    assert_eq!(h.listener_stats(first).unwrap().embryonic, 1);
    assert_eq!(h.poll_event(), None);
    assert!(drain(&mut h, start()).is_empty());
}

#[test]
fn must_42_a_port_in_use_by_an_opening_connection_can_be_listened_on() {
    let mut h = host(2);
    // SYN-SENT from port 80.
    h.connect(start(), addr(B), addr("10.0.0.9:9"), None)
        .unwrap();
    h.listen(addr(B), 9, None).unwrap();
    drain(&mut h, start());
    // SYN-RECEIVED on port 80 (the listener's), and more listeners there.
    give(&mut h, start(), &packet(A, B, SYN, 1, 0));
    h.listen(addr("10.0.0.3:80"), 9, None).unwrap();
    h.listen(addr("0.0.0.0:80"), 9, None).unwrap();
    let out = give(&mut h, start(), &packet("10.0.0.1:5001", B, SYN, 1, 0));
    assert!(out[0].1.flags.contains(SYN | ACK));
    assert_eq!(h.connections(), 3);
}

#[test]
fn must_43_the_local_address_can_be_given() {
    let mut h = host(1);
    for local in ["10.0.0.1:5000", "192.168.7.7:5000"] {
        h.connect(start(), addr(local), addr(B), None).unwrap();
        assert_eq!(drain(&mut h, start())[0].0.src, addr(local).ip());
    }
    // And of a listener: only that address, or all of them.
    h.listen(addr("10.0.0.5:81"), 9, None).unwrap();
    let syn = |to: &str| packet(A, to, SYN, 1, 0);
    let answer = |h: &mut Host, to: &str| give(h, start(), &syn(to))[0].1.flags;
    assert!(answer(&mut h, "10.0.0.5:81").contains(SYN | ACK));
    assert!(answer(&mut h, "10.0.0.6:81").contains(RST));
    h.listen(addr("0.0.0.0:82"), 9, None).unwrap();
    let out = give(&mut h, start(), &syn("10.0.0.7:82"));
    assert_eq!(out[0].0.src, addr("10.0.0.7:82").ip());
}

#[derive(Debug)]
struct Routes;

impl SourceAddress for Routes {
    fn source_for(&self, remote: IpAddr) -> Option<IpAddr> {
        match remote {
            IpAddr::V4(a) if a.octets()[0] == 10 => Some(addr("10.0.0.77:0").ip()),
            IpAddr::V6(_) => Some(addr("[fe80::77]:0").ip()),
            _ => None,
        }
    }
}

#[test]
fn must_44_the_ip_layer_is_asked_for_the_local_address() {
    let tcp = Arc::new(TcpConfig::default());
    let mut config = EndpointConfig::new(tcp, [1; 16]);
    config.source = Some(Arc::new(Routes));
    let mut h = Host::new(config).unwrap();
    for (local, remote, want) in [
        ("0.0.0.0:0", B, "10.0.0.77:0"),
        ("0.0.0.0:5000", B, "10.0.0.77:0"),
        ("[::]:0", "[fe80::2]:80", "[fe80::77]:0"),
    ] {
        h.connect(start(), addr(local), addr(remote), None).unwrap();
        assert_eq!(drain(&mut h, start())[0].0.src, addr(want).ip());
    }
    // No route, or nobody to ask.
    let open =
        |h: &mut Host, remote: &str| h.connect(start(), addr("0.0.0.0:0"), addr(remote), None);
    assert_eq!(open(&mut h, "11.0.0.1:80"), Err(ConnectError::BadAddress));
    assert_eq!(open(&mut host(1), B), Err(ConnectError::BadAddress));
}

/// RFC 1122 section 3.3.4.2: what the application says goes before what IP would choose.
#[test]
fn rfc1122_3_3_4_2_a_source_address_that_is_given_is_kept() {
    let mut config = EndpointConfig::new(Arc::new(TcpConfig::default()), [1; 16]);
    config.source = Some(Arc::new(Routes));
    let mut h = Host::new(config).unwrap();
    for (local, remote) in [
        ("10.0.0.1:0", B),
        ("10.0.0.1:5000", B),
        ("[fe80::1]:0", "[fe80::2]:80"),
    ] {
        h.connect(start(), addr(local), addr(remote), None).unwrap();
        assert_eq!(drain(&mut h, start())[0].0.src, addr(local).ip());
    }
}

/// RFC 1122 section 3.2.1.7: routers count the time to live down, and hosts do not look at it.
#[test]
fn rfc1122_3_2_1_7_a_packet_at_the_end_of_its_life_is_taken() {
    for hop_limit in [0, 1, 2] {
        let mut h = host(1);
        h.listen(addr(B), 4, None).unwrap();
        let mut syn = packet(A, B, SYN, 7, 0);
        syn.0.hop_limit = hop_limit;
        let whole = narrows::wire::Packet {
            ip: syn.0,
            tcp: syn.1,
            payload: &[][..],
        };
        let mut bytes = vec![0; whole.wire_len()];
        whole.emit(&mut bytes).unwrap();
        let read = narrows::wire::Packet::parse(&bytes, narrows::wire::ChecksumPolicy::Verify);
        let read = read.unwrap();
        assert_eq!(read.ip.hop_limit, hop_limit);
        let answer = give(&mut h, start(), &(read.ip, read.tcp, Vec::new()));
        assert_eq!(answer[0].1.flags, SYN | ACK);
    }
}

#[test]
fn must_45_a_connection_keeps_its_local_address() {
    let mut p = Pair::new(TcpConfig::default(), TcpConfig::default());
    p.run_for(Duration::from_millis(10));
    p.transfer(&bytes(20_000), Duration::from_secs(5));
    p.client.close(p.now);
    p.run_for(Duration::from_secs(1));
    assert!(p.log.len() > 10);
    for seen in &p.log {
        let (from, to) = if seen.from_client {
            ("10.0.0.1", "10.0.0.2")
        } else {
            ("10.0.0.2", "10.0.0.1")
        };
        let pair = (seen.ip.src.to_string(), seen.ip.dst.to_string());
        assert_eq!(pair, (from.into(), to.into()));
    }
}

// ---- Addresses.

const NOBODY: [&str; 3] = ["224.0.0.1:80", "255.255.255.255:80", "0.0.0.0:80"];
const NOBODY_V6: [&str; 2] = ["[ff02::1]:80", "[::]:80"];

#[test]
fn must_46_an_active_open_to_an_invalid_address_is_an_error() {
    let mut h = host(1);
    for remote in NOBODY {
        let open = h.connect(start(), addr(A), addr(remote), None);
        assert_eq!(open, Err(ConnectError::BadAddress), "{remote}");
    }
    for remote in NOBODY_V6 {
        let open = h.connect(start(), addr("[fe80::1]:5000"), addr(remote), None);
        assert_eq!(open, Err(ConnectError::BadAddress), "{remote}");
    }
    assert!(drain(&mut h, start()).is_empty());
}

/// A SYN, and everything else, to a broadcast or multicast address.
#[test]
fn must_57_segments_to_multicast_and_broadcast_are_dropped_in_silence() {
    let mut h = host(1);
    h.listen(addr("0.0.0.0:80"), 9, None).unwrap();
    h.listen(addr("[::]:80"), 9, None).unwrap();
    for flags in [SYN, ACK, Flags::FIN, SYN | ACK, Flags::NONE] {
        for to in NOBODY {
            assert!(give(&mut h, start(), &packet(A, to, flags, 1, 1)).is_empty());
        }
        for to in NOBODY_V6 {
            let p = packet("[fe80::1]:5000", to, flags, 1, 1);
            assert!(give(&mut h, start(), &p).is_empty());
        }
    }
    assert_eq!(h.connections(), 0);
    assert_eq!(h.stats().resets_sent, 0);
}

#[test]
fn must_63_a_syn_from_an_invalid_address_is_ignored() {
    let mut h = host(1);
    h.listen(addr("0.0.0.0:80"), 9, None).unwrap();
    h.listen(addr("[::]:80"), 9, None).unwrap();
    for from in NOBODY {
        assert!(give(&mut h, start(), &packet(from, B, SYN, 1, 0)).is_empty());
    }
    for from in NOBODY_V6 {
        let p = packet(from, "[fe80::2]:80", SYN, 1, 0);
        assert!(give(&mut h, start(), &p).is_empty());
    }
    assert_eq!(h.connections(), 0);
}

// ---- RFC 9293 section 3.5.

/// The whole exchange of figure 6, number by number.
#[test]
fn figure_6_the_three_way_handshake() {
    let (mut l, first) = Lone::syn_sent(plain());
    assert!(first.is(SYN) && first.seq == -1);
    let out = Lone::one(l.recv(syn_ack().mss(1_000)));
    assert!(out.is_pure_ack());
    assert_eq!((out.seq, out.ack), (0, 0));
    let (mut l, answer) = Lone::syn_received(plain(), &syn().mss(1_000));
    assert!(answer.is(SYN | ACK));
    assert_eq!((answer.seq, answer.ack), (-1, 0));
    l.recv(ack(0, 0));
    assert_eq!(l.state(), State::Established);
}
