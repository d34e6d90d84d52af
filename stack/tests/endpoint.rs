//! The endpoint: demux, listeners, strangers, ports, TIME-WAIT, and that nothing leaks.

use crate::hosts::*;
use crate::pair::bytes;
use narrows::config::{Buffers, Lifetimes, TcpConfig, TimestampMode};
use narrows::conn::Event;
use narrows::conn::state::{CloseReason, State};
use narrows::endpoint::metrics::MetricsConfig;
use narrows::endpoint::{
    ConnId, ConnectError, EndpointConfig, EndpointEvent, ListenError, ListenerId, SynCookies,
};
use narrows::wire::{Flags, Seq, Timestamps};
use narrows::{Duration, Instant};
use std::net::IpAddr;
use std::sync::Arc;

#[test]
fn connect_accept_exchange_close() {
    let mut n = Net::plain();
    let l = n.b.listen(addr("0.0.0.0:80"), 10, None).unwrap();
    let c = n.connect();
    n.run(MS);
    assert_eq!(
        n.a_events,
        [EndpointEvent::Conn {
            conn: c,
            event: Event::Connected
        }]
    );
    let s = n.accepted()[0];
    assert_eq!(
        n.b_events,
        [EndpointEvent::Accepted {
            listener: l,
            conn: s
        }],
        "and no Connected"
    );
    let conn = n.a.connection_mut(c).unwrap();
    conn.send(b"ask", 3).unwrap();
    n.run(MS);
    assert_eq!(
        n.b_events[1..],
        [EndpointEvent::Conn {
            conn: s,
            event: Event::Readable
        }]
    );
    let now = n.now;
    n.b.connection_mut(s).unwrap().consume(3, now);
    n.b.connection_mut(s).unwrap().send(b"answer", 6).unwrap();
    n.b.release(s, now);
    n.run(MS);
    let view: Vec<u8> =
        n.a.connection(c)
            .unwrap()
            .recv_buffer()
            .peek(6)
            .iter()
            .collect();
    assert_eq!(view, b"answer");
    let want = [Event::Connected, Event::Readable, Event::PeerClosed];
    assert_eq!(
        n.a_events,
        want.map(|event| EndpointEvent::Conn { conn: c, event })
    );
    n.a.connection_mut(c).unwrap().consume(6, now);
    n.a.release(c, n.now);
    n.run(MS);
    assert_eq!(n.a.connections(), 0);
    assert_eq!(n.b.connections(), 1, "TIME-WAIT");
    n.run(SEC * 61);
    assert_eq!(n.b.connections(), 0);
    assert_eq!((n.a.poll_timeout(), n.b.poll_timeout()), (None, None));
    assert!(n.b.connection(s).is_none() && n.a.connection(c).is_none());
}

/// A number of the user's own stays with its connection, whatever comes, and the next one in the same
/// place begins without.
#[test]
fn a_tag_is_of_one_connection() {
    let mut n = Net::plain();
    n.b.listen(addr("0.0.0.0:80"), 10, None).unwrap();
    let (c, other) = (n.connect(), n.connect());
    n.run(MS);
    let now = n.now;
    n.a.connection_mut(c).unwrap().set_tag(u64::MAX);
    n.a.connection_mut(c).unwrap().send(b"ask", 3).unwrap();
    n.run(MS);
    let tag = |n: &Net, conn| n.a.connection(conn).map(|conn| conn.tag());
    assert_eq!((tag(&n, c), tag(&n, other)), (Some(u64::MAX), Some(0)));
    n.a.connection_mut(c).unwrap().abort(now);
    n.a.release(c, now);
    n.run(MS);
    let next = n.connect();
    assert_eq!((next.index(), tag(&n, next)), (c.index(), Some(0)));
    assert_eq!(tag(&n, c), None);
}

#[test]
fn data_and_fin_with_the_handshake_come_after_accepted() {
    let (mut host, listener) = server();
    let now = start();
    let out = give(&mut host, now, &packet(C, S, SYN, 100, 0));
    let mut p = packet(C, S, ACK | FIN, 101, out[0].1.seq.0 + 1);
    p.2 = b"hello".to_vec();
    give(&mut host, now, &p);
    let e = events(&mut host);
    let EndpointEvent::Accepted { conn, listener: of } = e[0] else {
        panic!("{e:?}")
    };
    assert_eq!(of, listener);
    let want =
        [Event::Readable, Event::PeerClosed].map(|event| EndpointEvent::Conn { conn, event });
    assert_eq!(e[1..], want);
}

// ---- Strangers: RFC 9293 section 3.10.7.1.

#[test]
fn rfc9293_3_10_7_1_strangers_are_reset() {
    let mut host = Host::new(config(TcpConfig::default(), 1)).unwrap();
    // With an ACK: <SEQ=SEG.ACK><CTL=RST>.
    let out = give(&mut host, start(), &packet(C, S, ACK, 9, 1_234));
    assert_eq!(out.len(), 1);
    let (ip, tcp, _) = &out[0];
    assert_eq!((ip.src, ip.dst), (addr(S).ip(), addr(C).ip()));
    assert_eq!((tcp.src_port, tcp.dst_port), (80, 5_000));
    assert_eq!((tcp.flags, tcp.seq), (RST, Seq(1_234)));
    // Without: <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>.
    for (flags, len, more) in [
        (SYN, 0, 1),
        (FIN, 0, 1),
        (SYN | FIN, 3, 5),
        (Flags::NONE, 0, 0),
        (Flags::PSH, 7, 7),
    ] {
        let mut p = packet(C, S, flags, u32::MAX, 0);
        p.2 = vec![0; len];
        let out = give(&mut host, start(), &p);
        assert_eq!(out.len(), 1);
        let tcp = &out[0].1;
        assert_eq!(
            (tcp.flags, tcp.seq, tcp.ack),
            (RST | ACK, Seq(0), Seq(u32::MAX) + more),
            "{flags}"
        );
    }
    // Never a RST for a RST.
    assert!(give(&mut host, start(), &packet(C, S, RST, 9, 0)).is_empty());
    assert!(give(&mut host, start(), &packet(C, S, RST | ACK, 9, 9)).is_empty());
    assert_eq!(host.stats().strangers, 8);
    assert_eq!(host.stats().resets_sent, 6);
    assert_eq!(host.connections(), 0);
}

#[test]
fn strangers_are_not_answered_where_that_is_off() {
    let mut c = config(TcpConfig::default(), 1);
    c.reset_strangers = false;
    let mut host = Host::new(c).unwrap();
    assert!(give(&mut host, start(), &packet(C, S, SYN, 9, 0)).is_empty());
}

#[test]
fn a_flood_of_strangers_takes_bounded_memory() {
    let mut host = Host::new(config(TcpConfig::default(), 1)).unwrap();
    for i in 0..10_000 {
        let p = packet(C, S, ACK, i, i);
        host.handle_packet(start(), &p.0, &p.1, &p.2);
    }
    assert!(drain(&mut host, start()).len() <= 64);
}

#[test]
fn must_57_and_63_nothing_is_said_to_multicast() {
    let (mut host, _) = server();
    for from in ["224.0.0.1:99", "255.255.255.255:99", "0.0.0.0:99"] {
        for flags in [SYN, ACK, FIN] {
            assert!(
                give(&mut host, start(), &packet(from, S, flags, 1, 1)).is_empty(),
                "{from}"
            );
        }
    }
    assert!(give(&mut host, start(), &packet(C, "224.0.0.1:80", SYN, 1, 0)).is_empty());
    assert_eq!(host.connections(), 0);
}

// ---- Listeners: RFC 9293 section 3.10.7.2.

#[test]
fn rfc9293_3_10_7_2_what_a_listener_answers() {
    let (mut host, _) = server();
    assert!(
        give(&mut host, start(), &packet(C, S, RST, 1, 0)).is_empty(),
        "first: RST"
    );
    assert!(give(&mut host, start(), &packet(C, S, RST | SYN, 1, 0)).is_empty());
    let out = give(&mut host, start(), &packet(C, S, ACK, 1, 55));
    assert_eq!(
        (out[0].1.flags, out[0].1.seq),
        (RST, Seq(55)),
        "second: ACK"
    );
    let out = give(&mut host, start(), &packet(C, S, SYN | ACK, 1, 55));
    assert_eq!((out[0].1.flags, out[0].1.seq), (RST, Seq(55)));
    assert!(
        give(&mut host, start(), &packet(C, S, FIN, 1, 0)).is_empty(),
        "fourth: the rest"
    );
    assert!(give(&mut host, start(), &packet(C, S, Flags::NONE, 1, 0)).is_empty());
    assert_eq!(host.connections(), 0);
    let out = give(&mut host, start(), &packet(C, S, SYN, 1, 0));
    assert_eq!(
        (out[0].1.flags, out[0].1.ack),
        (SYN | ACK, Seq(2)),
        "third: SYN"
    );
}

#[test]
fn a_syn_to_another_port_is_refused() {
    let mut n = Net::plain();
    n.b.listen(addr("0.0.0.0:81"), 10, None).unwrap();
    let c = n.connect();
    n.run(SEC * 3);
    let event = Event::Closed(CloseReason::Refused);
    assert_eq!(n.a_events, [EndpointEvent::Conn { conn: c, event }]);
    n.a.release(c, n.now);
    n.run(MS);
    assert_eq!((n.a.connections(), n.b.connections()), (0, 0));
}

#[test]
fn a_full_backlog_drops_syns_until_there_is_room() {
    let tcp = TcpConfig {
        lifetimes: Lifetimes {
            syn_retries: 1,
            syn_retry_time: Duration::ZERO,
            ..Lifetimes::default()
        },
        ..TcpConfig::default()
    };
    let mut host = Host::new(EndpointConfig {
        syn_cookies: SynCookies::Off,
        ..config(tcp, 7)
    })
    .unwrap();
    let l = host.listen(addr(S), 3, None).unwrap();
    let mut now = start();
    let from = |i: u32| format!("10.0.1.{i}:7000");
    for i in 1..=5 {
        let out = give(&mut host, now, &packet(&from(i), S, SYN, 1, 0));
        assert_eq!(
            out.len(),
            usize::from(i <= 3),
            "the rest is dropped, not reset"
        );
    }
    let stats = host.listener_stats(l).unwrap();
    assert_eq!((stats.embryonic, stats.dropped), (3, 2));
    assert_eq!(host.stats().backlog_drops, 2);
    // One is reset: room for one.
    give(&mut host, now, &packet(&from(1), S, RST, 2, 0));
    assert_eq!(host.listener_stats(l).unwrap().failed, 1);
    assert_eq!(
        give(&mut host, now, &packet(&from(4), S, SYN, 1, 0)).len(),
        1
    );
    // The others time out, in silence: nobody has heard of them.
    while let Some(at) = host.poll_timeout() {
        now = at;
        host.handle_timeout(now);
        drain(&mut host, now);
    }
    let stats = host.listener_stats(l).unwrap();
    assert_eq!((stats.embryonic, stats.failed, stats.accepted), (0, 4, 0));
    // Three, each twice in vain.
    assert_eq!(host.stats().handshake_timeouts, 6);
    assert_eq!(host.connections(), 0);
    assert!(events(&mut host).is_empty());
    shake(&mut host, now, &from(9), 50);
    assert_eq!(host.listener_stats(l).unwrap().accepted, 1);
}

#[test]
fn listen_errors() {
    let mut host = Host::new(config(TcpConfig::default(), 1)).unwrap();
    assert_eq!(
        host.listen(addr("0.0.0.0:0"), 1, None),
        Err(ListenError::NoPort)
    );
    let l = host.listen(addr("10.0.0.2:80"), 1, None).unwrap();
    assert_eq!(
        host.listen(addr("10.0.0.2:80"), 1, None),
        Err(ListenError::InUse)
    );
    host.listen(addr("0.0.0.0:80"), 1, None).unwrap();
    let bad = Arc::new(TcpConfig {
        mss: 1,
        ..TcpConfig::default()
    });
    assert!(matches!(
        host.listen(addr("10.0.0.2:81"), 1, Some(bad)),
        Err(ListenError::Config(_))
    ));
    host.unlisten(l, start());
    assert!(host.listener_stats(l).is_none());
    host.unlisten(l, start());
    host.listen(addr("10.0.0.2:80"), 1, None).unwrap();
}

#[test]
fn the_more_specific_listener_wins() {
    let mut host = Host::new(config(TcpConfig::default(), 1)).unwrap();
    let any = host.listen(addr("0.0.0.0:80"), 9, None).unwrap();
    let one = host.listen(addr("10.0.0.2:80"), 9, None).unwrap();
    give(&mut host, start(), &packet(C, S, SYN, 1, 0));
    give(&mut host, start(), &packet(C, "10.0.0.3:80", SYN, 1, 0));
    assert_eq!(host.listener_stats(one).unwrap().embryonic, 1);
    assert_eq!(host.listener_stats(any).unwrap().embryonic, 1);
}

#[test]
fn unlisten_resets_the_embryonic_and_keeps_the_established() {
    let (mut host, l) = server();
    let now = start();
    let nxt = shake(&mut host, now, C, 100);
    give(&mut host, now, &packet("10.0.0.1:5001", S, SYN, 7, 0));
    events(&mut host);
    host.unlisten(l, now);
    let out = drain(&mut host, now);
    assert_eq!(out.len(), 1);
    assert!(out[0].1.flags.contains(RST) && out[0].1.dst_port == 5_001);
    assert_eq!(host.connections(), 1);
    assert!(events(&mut host).is_empty());
    let mut p = packet(C, S, ACK, 101, nxt);
    p.2 = b"still".to_vec();
    assert_eq!(give(&mut host, now, &p)[0].1.ack, Seq(106));
    assert!(
        give(&mut host, now, &packet("10.0.0.1:5002", S, SYN, 7, 0))[0]
            .1
            .flags
            .contains(RST)
    );
}

// ---- Active opens.

#[test]
fn connect_errors() {
    let mut host = Host::new(config(TcpConfig::default(), 1)).unwrap();
    let now = start();
    let mut connect = |l: &str, r: &str| host.connect(now, addr(l), addr(r), None);
    for (l, r) in [
        ("10.0.0.1:0", "[::1]:80"),
        ("0.0.0.0:0", "10.0.0.2:80"),
        ("10.0.0.1:0", "0.0.0.0:80"),
        ("10.0.0.1:0", "10.0.0.2:0"),
    ] {
        assert_eq!(connect(l, r), Err(ConnectError::BadAddress), "{l} {r}");
    }
    connect("10.0.0.1:9", "10.0.0.2:80").unwrap();
    assert_eq!(
        connect("10.0.0.1:9", "10.0.0.2:80"),
        Err(ConnectError::InUse)
    );
    connect("10.0.0.1:9", "10.0.0.2:81").unwrap();
    let bad = Arc::new(TcpConfig {
        buffers: Buffers {
            recv: 0,
            ..Buffers::default()
        },
        ..TcpConfig::default()
    });
    let e = host.connect(now, addr("10.0.0.1:0"), addr(S), Some(bad));
    assert!(matches!(e, Err(ConnectError::Config(_))));
    assert_eq!(host.connections(), 2);
}

/// RFC 9293 MUST-46: never to or from a broadcast or multicast address.
#[test]
fn must_46_no_active_open_to_multicast() {
    let mut host = Host::new(config(TcpConfig::default(), 1)).unwrap();
    for r in ["224.0.0.1:80", "255.255.255.255:80"] {
        let e = host.connect(start(), addr("10.0.0.1:0"), addr(r), None);
        assert_eq!(e, Err(ConnectError::BadAddress), "{r}");
    }
    let e = host.connect(start(), addr("[fe80::1]:0"), addr("[ff02::1]:80"), None);
    assert_eq!(e, Err(ConnectError::BadAddress));
}

#[test]
fn ephemeral_ports_run_out_and_come_back() {
    let mut c = config(TcpConfig::default(), 1);
    c.ports = 60_000..=60_009;
    let mut host = Host::new(c).unwrap();
    let now = start();
    let mut ids = Vec::new();
    let mut ports = Vec::new();
    for _ in 0..10 {
        let id = host
            .connect(now, addr("10.0.0.1:0"), addr(S), None)
            .unwrap();
        ports.push(host.connection(id).unwrap().local().port());
        ids.push(id);
    }
    ports.sort_unstable();
    assert_eq!(ports, (60_000..=60_009).collect::<Vec<u16>>());
    let e = host.connect(now, addr("10.0.0.1:0"), addr(S), None);
    assert_eq!(e, Err(ConnectError::NoPort));
    // To another peer they are all free.
    host.connect(now, addr("10.0.0.1:0"), addr("10.0.0.3:80"), None)
        .unwrap();
    host.release(ids[3], now);
    drain(&mut host, now);
    host.connect(now, addr("10.0.0.1:0"), addr(S), None)
        .unwrap();
}

#[test]
fn two_endpoints_open_to_each_other_at_once() {
    let mut n = Net::plain();
    let (a, b) = (addr("10.0.0.1:1111"), addr("10.0.0.2:2222"));
    let x = n.a.connect(n.now, a, b, None).unwrap();
    let y = n.b.connect(n.now, b, a, None).unwrap();
    n.run(SEC);
    assert_eq!(
        n.a_events,
        [EndpointEvent::Conn {
            conn: x,
            event: Event::Connected
        }]
    );
    assert_eq!(
        n.b_events,
        [EndpointEvent::Conn {
            conn: y,
            event: Event::Connected
        }]
    );
    assert_eq!(n.a.connection(x).unwrap().state(), State::Established);
}

/// RFC 9293 figure 14 (SYN to itself).
#[test]
fn a_connection_to_oneself_opens() {
    let mut host = Host::new(config(TcpConfig::default(), 1)).unwrap();
    let (now, me) = (start(), addr("10.0.0.1:1111"));
    let id = host.connect(now, me, me, None).unwrap();
    for _ in 0..5 {
        for p in drain(&mut host, now) {
            host.handle_packet(now, &p.0, &p.1, &p.2);
        }
    }
    assert_eq!(host.connection(id).unwrap().state(), State::Established);
}

#[test]
fn ipv6() {
    let mut n = Net::plain();
    n.b.listen(addr("[::]:80"), 10, None).unwrap();
    let c =
        n.a.connect(
            n.now,
            addr("[2001:db8::1]:0"),
            addr("[2001:db8::2]:80"),
            None,
        )
        .unwrap();
    n.run(MS);
    let conn = n.a.connection_mut(c).unwrap();
    assert_eq!(conn.state(), State::Established);
    let data = bytes(50_000);
    conn.send(&data, data.len()).unwrap();
    n.run(SEC);
    let s = n.accepted()[0];
    let got: Vec<u8> =
        n.b.connection(s)
            .unwrap()
            .recv_buffer()
            .peek(50_000)
            .iter()
            .collect();
    assert!(got == data);
    assert!(matches!(
        n.b.connection(s).unwrap().remote().ip(),
        IpAddr::V6(_)
    ));
}

// ---- TIME-WAIT: RFC 6191, RFC 9293 section 3.6.1.

/// A server in TIME-WAIT whose peer used the ISN 1,000 and sent nothing but a FIN, with
/// timestamps up to `ts`; the reply to a new SYN.
fn reopen(ts: Option<u32>, seq: u32, new_ts: Option<u32>) -> (Vec<Packet>, Host) {
    let stamp = |mut p: Packet, ts: Option<u32>| {
        p.1.options.timestamps = ts.map(|val| Timestamps { val, ecr: 0 });
        p
    };
    let (mut host, _) = server_with(TcpConfig::default(), 16);
    let now = start();
    let out = give(&mut host, now, &stamp(packet(C, S, SYN, 1_000, 0), ts));
    let nxt = out[0].1.seq.0.wrapping_add(1);
    give(&mut host, now, &stamp(packet(C, S, ACK, 1_001, nxt), ts));
    let Some(EndpointEvent::Accepted { conn, .. }) = host.poll_event() else {
        panic!()
    };
    host.release(conn, now);
    assert!(drain(&mut host, now)[0].1.flags.contains(FIN));
    give(
        &mut host,
        now,
        &stamp(packet(C, S, FIN | ACK, 1_001, nxt.wrapping_add(1)), ts),
    );
    assert_eq!(host.connection(conn).unwrap().state(), State::TimeWait);
    let old_end = nxt.wrapping_add(1);
    let out = give(&mut host, now, &stamp(packet(C, S, SYN, seq, 0), new_ts));
    if let Some((_, tcp, _)) = out.first().filter(|p| p.1.flags.contains(SYN)) {
        assert!(
            Seq(old_end).before(tcp.seq),
            "RFC 1122 4.2.2.13 (a): a larger ISS"
        );
        assert_eq!(host.stats().time_wait_reuses, 1);
        assert!(host.connection(conn).is_none());
    } else {
        assert_eq!(host.connection(conn).unwrap().state(), State::TimeWait);
    }
    (out, host)
}

#[test]
fn rfc6191_reuse_of_time_wait() {
    let reused = |ts, seq, new| reopen(ts, seq, new).0[0].1.flags.contains(SYN);
    // The old incarnation used timestamps.
    assert!(
        reused(Some(500), 1, Some(501)),
        "a newer timestamp, whatever the number"
    );
    assert!(
        reused(Some(500), 2_000, Some(500)),
        "the same timestamp, a larger number"
    );
    assert!(
        !reused(Some(500), 1_001, Some(500)),
        "the same timestamp, not a larger number"
    );
    assert!(!reused(Some(500), 2_000, Some(499)), "an older timestamp");
    assert!(
        reused(Some(500), 2_000, None),
        "no timestamp, a larger number"
    );
    assert!(!reused(Some(500), 900, None));
    // It did not.
    assert!(reused(None, 1, Some(1)), "the new one will have timestamps");
    assert!(reused(None, 1_003, None), "a larger number");
    assert!(!reused(None, 1_002, None), "RCV.NXT, as Linux and FreeBSD");
    assert!(!reused(None, 1_001, None), "that of the FIN");
    assert!(!reused(None, 900, None));
}

#[test]
fn the_new_incarnation_works() {
    let (out, mut host) = reopen(None, 5_000, None);
    let nxt = out[0].1.seq.0.wrapping_add(1);
    let mut p = packet(C, S, ACK, 5_001, nxt);
    p.2 = b"again".to_vec();
    assert_eq!(give(&mut host, start(), &p)[0].1.ack, Seq(5_006));
    // The released one was silent, the new one is accepted.
    assert!(matches!(
        host.poll_event(),
        Some(EndpointEvent::Accepted { .. })
    ));
    assert_eq!(host.connections(), 1);
}

/// A SYN that nobody would take does not end TIME-WAIT.
#[test]
fn time_wait_stays_when_nobody_listens() {
    let mut n = Net::plain();
    n.b.listen(addr("0.0.0.0:80"), 10, None).unwrap();
    let c = n.connect();
    n.run(MS);
    n.a.release(c, n.now);
    n.run(MS);
    let s = n.accepted()[0];
    n.b.release(s, n.now);
    n.run(MS);
    let conn = n.a.connection(c).unwrap();
    assert_eq!(conn.state(), State::TimeWait);
    let (local, remote) = (conn.local().to_string(), conn.remote().to_string());
    let mut p = packet(&remote, &local, SYN, 0, 0);
    p.1.options.timestamps = Some(Timestamps {
        val: u32::MAX / 4,
        ecr: 0,
    });
    for i in 0..8 {
        p.1.seq = Seq(i << 29);
        p.1.options.timestamps =
            p.1.options
                .timestamps
                .map(|t| Timestamps { val: i << 29, ..t });
        let out = give(&mut n.a, n.now, &p);
        assert!(out.iter().all(|o| !o.1.flags.contains(RST)), "{out:?}");
        assert_eq!(n.a.connection(c).unwrap().state(), State::TimeWait);
    }
}

/// A host in TIME-WAIT whose listener lets SYN cookies in as `cookies` has it, and the old
/// connection's next sequence number.
fn in_time_wait(cookies: SynCookies) -> (Host, ListenerId, Seq) {
    let tcp = TcpConfig {
        timestamps: TimestampMode::Off,
        ..TcpConfig::default()
    };
    let mut host = Host::new(EndpointConfig {
        syn_cookies: cookies,
        ..config(tcp, 7)
    })
    .unwrap();
    let listener = host.listen(addr(S), 16, None).unwrap();
    let nxt = shake(&mut host, start(), C, 1_000);
    let Some(EndpointEvent::Accepted { conn, .. }) = host.poll_event() else {
        panic!()
    };
    host.release(conn, start());
    drain(&mut host, start());
    let end = nxt.wrapping_add(1);
    give(&mut host, start(), &packet(C, S, FIN | ACK, 1_001, end));
    assert_eq!(states(&host), [State::TimeWait]);
    (host, listener, Seq(end))
}

/// Timers first: it is later.
fn give_later(host: &mut Host, now: Instant, p: &Packet) -> Vec<Packet> {
    host.handle_timeout(now);
    give(host, now, p)
}

fn states(host: &Host) -> Vec<State> {
    host.connection_states().collect()
}

/// Nor does one that the listener has no room for, or who does not keep up with accepting. Nothing
/// is said to it: the peer would answer an ACK by a RST, which would end TIME-WAIT (RFC 1337).
#[test]
fn time_wait_stays_when_the_listener_takes_nobody() {
    for cookies in [SynCookies::Off, SynCookies::WhenFull, SynCookies::Always] {
        let (mut host, listener, _) = in_time_wait(cookies);
        host.pause_listener(listener, true);
        let out = give_later(&mut host, start() + SEC, &packet(C, S, SYN, 5_000, 0));
        assert!(out.is_empty(), "{out:?}");
        assert_eq!(states(&host), [State::TimeWait]);
        let stats = host.stats();
        assert_eq!((stats.time_wait_reuses, stats.backlog_drops), (0, 1));
        assert_eq!(host.listener_stats(listener).unwrap().dropped, 1);
        // The SYN comes again in better times.
        host.pause_listener(listener, false);
        let out = give_later(&mut host, start() + SEC * 2, &packet(C, S, SYN, 5_000, 0));
        assert_eq!(out[0].1.flags, SYN | ACK);
        assert_eq!(host.stats().time_wait_reuses, 1);
    }
}

/// With cookies on, the backlog does not bound who takes the place of a connection.
#[test]
fn time_wait_stays_when_the_backlog_is_full() {
    use SynCookies::{Off, WhenFull};
    for (cookies, embryonic, reused) in [(Off, 15, 1), (Off, 16, 0), (WhenFull, 16, 1)] {
        let (mut host, ..) = in_time_wait(cookies);
        for n in 0..embryonic {
            let other = format!("10.0.1.{n}:7");
            give(&mut host, start(), &packet(&other, S, SYN, 1, 0));
        }
        let out = give(&mut host, start(), &packet(C, S, SYN, 5_000, 0));
        assert_eq!(out.len() as u64, reused, "{cookies:?} {embryonic}");
        assert_eq!(host.stats().time_wait_reuses, reused);
        let stays = states(&host).contains(&State::TimeWait);
        assert_eq!(stays, reused == 0, "{cookies:?} {embryonic}");
    }
}

/// RFC 9293 MAY-2: the initial sequence number lies beyond all that the old connection used, which
/// that of a cookie does by chance only. Whoever comes in that way has a state of its own.
#[test]
fn rfc9293_may_2_a_new_incarnation_begins_beyond_the_old_one_and_not_with_a_cookie() {
    let (mut host, listener, end) = in_time_wait(SynCookies::Always);
    let sent = host.stats().cookies_sent;
    let out = give_later(&mut host, start() + SEC, &packet(C, S, SYN, 5_000, 0));
    let first = out[0].1.seq;
    assert!(first.after(end), "{first:?} {end:?}");
    assert_eq!(host.stats().cookies_sent, sent);
    assert_eq!(host.listener_stats(listener).unwrap().embryonic, 1);
    give_later(
        &mut host,
        start() + SEC,
        &packet(C, S, ACK, 5_001, first.0.wrapping_add(1)),
    );
    assert_eq!(host.listener_stats(listener).unwrap().accepted, 2);
    assert_eq!(states(&host), [State::Established]);
}

/// Nor does one with a FIN, which no listener takes.
#[test]
fn a_syn_with_fin_does_not_end_time_wait() {
    let (_, mut host) = reopen(None, 900, None);
    let mut p = packet(C, S, SYN | FIN, 5_000, 0);
    p.2 = b"x".to_vec();
    give(&mut host, start(), &p);
    assert_eq!((host.connections(), host.stats().time_wait_reuses), (1, 0));
}

/// A packet with a time to live of 0 goes nowhere.
#[test]
fn a_listener_has_a_time_to_live_of_one_at_least() {
    let (mut host, l) = server();
    for (set, found) in [(0, 1), (1, 1), (255, 255)] {
        host.set_listener_hop_limit(l, set);
        assert_eq!(host.listener_hop_limit(l), Some(found));
        let from = format!("10.0.1.{set}:7");
        let out = give(&mut host, start(), &packet(&from, S, SYN, 1, 0));
        assert_eq!(out[0].0.hop_limit, found);
    }
}

// ---- Handles, leaks, many.

#[test]
fn a_dead_handle_does_nothing() {
    let mut host = Host::new(config(TcpConfig::default(), 1)).unwrap();
    let now = start();
    let id = host
        .connect(now, addr("10.0.0.1:1"), addr(S), None)
        .unwrap();
    drain(&mut host, now);
    host.release(id, now);
    assert!(drain(&mut host, now).is_empty());
    assert!(host.connection(id).is_none() && host.connection_mut(id).is_none());
    host.release(id, now);
    // The slot serves another; the old handle does not reach it.
    let next = host
        .connect(now, addr("10.0.0.1:1"), addr(S), None)
        .unwrap();
    assert_eq!(next.index(), id.index());
    assert_ne!(next, id);
    assert!(host.connection(id).is_none());
    host.release(id, now);
    assert_eq!(host.connection(next).unwrap().state(), State::SynSent);
    assert!(events(&mut host).is_empty(), "released: no events");
}

#[test]
fn a_closed_connection_can_be_read_until_released() {
    let (mut host, _) = server();
    let now = start();
    let nxt = shake(&mut host, now, C, 100);
    let Some(EndpointEvent::Accepted { conn, .. }) = host.poll_event() else {
        panic!()
    };
    let mut p = packet(C, S, ACK, 101, nxt);
    p.2 = b"read me".to_vec();
    give(&mut host, now, &p);
    give(&mut host, now, &packet(C, S, RST, 108, 0));
    let want = [Event::Readable, Event::Closed(CloseReason::Reset)];
    assert_eq!(
        events(&mut host),
        want.map(|event| EndpointEvent::Conn { conn, event })
    );
    assert_eq!(host.connection(conn).unwrap().readable(), 7);
    // Meanwhile the address is free.
    let nxt = shake(&mut host, now, C, 9_000);
    assert_eq!(host.connections(), 2);
    host.release(conn, now);
    assert!(drain(&mut host, now).is_empty(), "nothing to reset");
    assert_eq!(host.connections(), 1);
    assert!(
        give(&mut host, now, &packet(C, S, FIN | ACK, 9_001, nxt))[0]
            .1
            .ack
            == Seq(9_002)
    );
}

#[test]
fn ten_thousand_opens_and_closes_leak_nothing() {
    let tcp = TcpConfig {
        lifetimes: Lifetimes {
            time_wait: MS * 10,
            ..Lifetimes::default()
        },
        ..TcpConfig::default()
    };
    let mut n = Net::new(config(tcp.clone(), 1), config(tcp, 2));
    n.b.listen(addr("0.0.0.0:80"), 100, None).unwrap();
    let mut highest = 0;
    for round in 0..200 {
        let ids: Vec<ConnId> = (0..50).map(|_| n.connect()).collect();
        n.run(MS);
        let accepted = n.accepted();
        assert_eq!(accepted.len(), 50, "round {round}");
        n.b_events.clear();
        n.a_events.clear();
        for (i, (a, b)) in ids.iter().zip(&accepted).enumerate() {
            highest = highest.max(a.index()).max(b.index());
            let now = n.now;
            match i % 5 {
                0 => n.a.release(*a, now),
                1 => n.b.release(*b, now),
                2 => n.a.connection_mut(*a).unwrap().abort(now),
                3 => {
                    n.a.connection_mut(*a).unwrap().send(b"x", 1).unwrap();
                    n.b.release(*b, now);
                }
                _ => {
                    n.a.release(*a, now);
                    n.b.release(*b, now);
                }
            }
        }
        n.run(MS);
        for (a, b) in ids.iter().zip(&accepted) {
            n.a.release(*a, n.now);
            n.b.release(*b, n.now);
        }
        n.run(MS * 20);
        assert_eq!(
            (n.a.connections(), n.b.connections()),
            (0, 0),
            "round {round}"
        );
        n.a_events.clear();
        n.b_events.clear();
    }
    assert!(highest < 50, "slots are used again");
    assert_eq!((n.a.poll_timeout(), n.b.poll_timeout()), (None, None));
    assert_eq!(n.a.stats().active_opens, 10_000);
    assert_eq!(n.b.stats().passive_opens, 10_000);
}

#[test]
fn many_connections_at_once() {
    let mut n = Net::plain();
    n.b.listen(addr("0.0.0.0:80"), 2_000, None).unwrap();
    let ids: Vec<ConnId> = (0..1_000).map(|_| n.connect()).collect();
    n.run(MS * 5);
    assert_eq!(n.accepted().len(), 1_000);
    for (i, id) in ids.iter().enumerate() {
        let data = vec![i as u8; 100 + i];
        n.a.connection_mut(*id)
            .unwrap()
            .send(&data, data.len())
            .unwrap();
    }
    n.run(SEC);
    for s in n.accepted() {
        let conn = n.b.connection(s).unwrap();
        let got: Vec<u8> = conn
            .recv_buffer()
            .peek(conn.readable_end())
            .iter()
            .collect();
        assert!(got.len() >= 100 && got.iter().all(|b| *b == (got.len() - 100) as u8));
    }
    // Idle, all of them, and nothing to wake up for.
    assert_eq!((n.a.poll_timeout(), n.b.poll_timeout()), (None, None));
}

#[test]
fn a_local_drop_finds_its_connection() {
    let (mut host, _) = server();
    let now = start();
    let out = give(&mut host, now, &packet(C, S, SYN, 1, 0));
    let (ip, tcp, _) = &out[0];
    host.handle_local_drop(now, ip, tcp, 0);
    let again = drain(&mut host, now);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].1.flags, SYN | ACK);
    // Of a packet to nobody.
    let out = give(&mut host, now, &packet("10.0.0.9:9", S, ACK, 1, 1));
    host.handle_local_drop(now, &out[0].0, &out[0].1, 0);
    assert!(drain(&mut host, now).is_empty());
}

#[test]
fn metrics_are_remembered_between_connections() {
    let mut c = config(TcpConfig::default(), 1);
    c.metrics = Some(MetricsConfig::default());
    let mut n = Net::new(c, config(TcpConfig::default(), 2));
    n.b.listen(addr("0.0.0.0:80"), 10, None).unwrap();
    let first = n.connect();
    assert_eq!(n.a.connection(first).unwrap().sender().rtt().srtt(), None);
    n.run(MS);
    n.a.connection_mut(first).unwrap().abort(n.now);
    n.run(MS);
    n.a.release(first, n.now);
    n.run(MS);
    let second = n.connect();
    let srtt = n.a.connection(second).unwrap().sender().rtt().srtt();
    assert_eq!(srtt, Some(Duration::from_micros(100)));
}

/// Whoever hears that one is closed may open the next before anything else happens.
#[test]
fn what_a_connection_learned_is_remembered_as_soon_as_it_is_closed() {
    let mut c = config(TcpConfig::default(), 1);
    c.metrics = Some(MetricsConfig::default());
    let mut n = Net::new(c, config(TcpConfig::default(), 2));
    n.b.listen(addr("0.0.0.0:80"), 10, None).unwrap();
    let first = n.connect();
    n.run(MS);
    let now = n.now;
    n.a.connection_mut(first).unwrap().abort(now);
    n.a.release(first, now);
    let second = n.connect();
    let srtt = n.a.connection(second).unwrap().sender().rtt().srtt();
    assert_eq!(srtt, Some(Duration::from_micros(100)));
    // Its place is free once its reset has left.
    n.run(MS);
    assert!(n.a.connection(first).is_none());
}

/// ... and once, whoever ended it, and however many are opened before it has its turn, by whom and with
/// whom.
#[test]
fn what_a_connection_learned_is_remembered_once() {
    let us = Duration::from_micros;
    let mut c = config(TcpConfig::default(), 1);
    c.metrics = Some(MetricsConfig::default());
    let mut n = Net::new(c, config(TcpConfig::default(), 2));
    n.a.listen(addr("0.0.0.0:90"), 10, None).unwrap();
    n.b.listen(addr("0.0.0.0:80"), 10, None).unwrap();
    let srtt = |n: &Net, of| n.a.connection(of).unwrap().sender().rtt().srtt();
    let far = n.connect();
    n.settle();
    for (arrives, ..) in &mut n.flying {
        *arrives = *arrives + us(300);
    }
    n.run(MS);
    let near = n.connect();
    n.run(MS);
    let seen = [far, near].map(|of| srtt(&n, of));
    assert_eq!(seen, [Some(us(400)), Some(us(100))]);
    // One is given up, and the peer resets the other.
    let (now, theirs) = (n.now, n.accepted()[1]);
    n.a.connection_mut(far).unwrap().abort(now);
    n.a.release(far, now);
    n.b.connection_mut(theirs).unwrap().abort(now);
    n.b.connect(now, addr("10.0.0.2:0"), addr("10.0.0.1:90"), None)
        .unwrap();
    for (ip, tcp, data) in drain(&mut n.b, now) {
        n.a.handle_packet(now, &ip, &tcp, &data);
    }
    let told = events(&mut n.a);
    let is_closed = |told: &EndpointEvent| matches!(told, EndpointEvent::Conn { conn, event: Event::Closed(_) } if *conn == near);
    assert!(told.iter().any(is_closed), "{told:?}");
    let elsewhere =
        n.a.connect(now, addr("10.0.0.1:0"), addr("10.0.0.3:80"), None)
            .unwrap();
    assert_eq!(srtt(&n, elsewhere), None);
    // An eighth of the way from 400 to 100.
    let merged = Some(us(400) - us(300) / 8);
    for _ in 0..2 {
        let next = n.connect();
        assert_eq!(srtt(&n, next), merged);
    }
    n.a.release(near, now);
    n.run(MS);
    let last = n.connect();
    assert_eq!(srtt(&n, last), merged);
    assert!(n.a.connection(far).is_none() && n.a.connection(near).is_none());
    // Whom the peer connected with began with it.
    let accepted = n.a_events.iter().find_map(|event| match event {
        EndpointEvent::Accepted { conn, .. } => Some(*conn),
        EndpointEvent::Conn { .. } => None,
    });
    assert!(srtt(&n, accepted.unwrap()) > Some(us(300)));
}

/// RFC 5961 section 7 over all connections: no more than the endpoint's limit, and each
/// connection's own.
#[test]
fn the_endpoint_limits_challenges() {
    let tcp = TcpConfig {
        timestamps: TimestampMode::Off,
        ..TcpConfig::default()
    };
    let mut c = config(tcp, 7);
    c.challenge_acks = narrows::endpoint::challenge::ChallengeLimit {
        count: 20,
        period: SEC,
    };
    let mut host = Host::new(c).unwrap();
    host.listen(addr(S), 100, None).unwrap();
    let now = start();
    let mut answers = 0;
    for i in 0..50 {
        let from = format!("10.0.1.{i}:7000");
        shake(&mut host, now, &from, 1_000);
        for k in 0..20 {
            answers += give(&mut host, now, &packet(&from, S, RST, 1_002 + k, 0)).len();
        }
    }
    assert!((10..=30).contains(&answers), "{answers}");
}

#[test]
fn the_same_secret_gives_the_same_run() {
    let run = || {
        let mut n = Net::plain();
        n.b.listen(addr("0.0.0.0:80"), 10, None).unwrap();
        let c = n.connect();
        n.run(MS);
        let conn = n.a.connection_mut(c).unwrap();
        conn.send(&bytes(10_000), 10_000).unwrap();
        n.settle();
        n.flying.iter().map(|f| f.2.1.clone()).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
