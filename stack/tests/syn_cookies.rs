//! SYN floods: what is answered without state, and what it costs those who are connected
//! (RFC 4987).

use crate::hosts::*;
use crate::pair::bytes;
use narrows::Duration;
use narrows::config::{EcnMode, TcpConfig, TimestampMode};
use narrows::conn::state::State;
use narrows::endpoint::{EndpointConfig, ListenerId, SynCookies};
use narrows::wire::{Flags, Timestamps};

fn always(tcp: TcpConfig) -> EndpointConfig {
    EndpointConfig {
        syn_cookies: SynCookies::Always,
        ..config(tcp, 2)
    }
}

/// Every combination of what a cookie carries: the connection has what both sides offered, and
/// both streams arrive.
#[test]
fn a_connection_by_cookie_is_as_good_as_another() {
    for timestamps in [
        TimestampMode::Off,
        TimestampMode::Millis,
        TimestampMode::Micros,
    ] {
        for (sack, scaling, ecn) in [
            (true, true, EcnMode::Classic),
            (false, true, EcnMode::Off),
            (true, false, EcnMode::Off),
        ] {
            let tcp = TcpConfig {
                timestamps,
                sack,
                window_scaling: scaling,
                ecn,
                ..TcpConfig::default()
            };
            let mut n = Net::new(config(tcp.clone(), 1), always(tcp));
            let l = n.b.listen(addr("10.0.0.2:80"), 4, None).unwrap();
            let c = n.connect();
            n.run(MS);
            let s = n.accepted()[0];
            assert_eq!(n.b.stats().cookies_sent, 1);
            assert_eq!(n.b.stats().cookies_accepted, 1);
            assert_eq!(n.b.listener_stats(l).unwrap().embryonic, 0);
            let with = timestamps != TimestampMode::Off;
            let server = n.b.connection(s).unwrap();
            assert_eq!(server.state(), State::Established);
            assert_eq!(server.sack_in_use(), with && sack);
            assert_eq!(
                server.sack_in_use(),
                n.a.connection(c).unwrap().sack_in_use()
            );
            let data = bytes(300_000);
            let mut received = Vec::new();
            let mut sent = 0;
            for _ in 0..1_000 {
                sent += write(&mut n.a, c, &data[sent..]);
                n.run(MS);
                received.extend(read(&mut n.b, s, n.now));
            }
            assert!(received == data, "{} of {}", received.len(), data.len());
        }
    }
}

#[test]
fn cookies_are_sent_only_when_the_backlog_is_full() {
    let (mut host, l) = server_with(TcpConfig::default(), 3);
    let from = |i: u32| format!("10.0.1.{i}:7000");
    for i in 1..=5 {
        let out = give(&mut host, start(), &packet(&from(i), S, SYN, 1, 0));
        assert_eq!(out[0].1.flags, SYN | ACK);
    }
    assert_eq!(host.listener_stats(l).unwrap().embryonic, 3);
    assert_eq!((host.stats().cookies_sent, host.connections()), (2, 3));
    // One whose state was kept and one whose was not: both are served.
    for i in [5, 3] {
        shake(&mut host, start(), &from(i), 1);
    }
    assert_eq!(host.listener_stats(l).unwrap().accepted, 2);
    assert_eq!(host.stats().cookies_accepted, 1);
}

/// What two hosts are configured to is agreed on as without cookies, or less, whichever of them
/// goes without an option; and nobody is kept out for it. The client's timestamps are not
/// answered by a server without them (RFC 7323 section 3.2), so nothing can ride in them.
#[test]
fn rfc7323_3_2_clients_that_offer_more_than_the_server_has_get_in() {
    let stamps = [
        TimestampMode::Off,
        TimestampMode::Millis,
        TimestampMode::Micros,
    ];
    for (client, server) in stamps.iter().flat_map(|c| stamps.map(|s| (*c, s))) {
        for bits in 0..64_u32 {
            let has = |bit: u32| bits & 1 << bit != 0;
            let tcp = |timestamps, shift: u32| TcpConfig {
                timestamps,
                sack: has(shift),
                window_scaling: has(shift + 1),
                ecn: [EcnMode::Off, EcnMode::Classic][usize::from(has(shift + 2))],
                ..TcpConfig::default()
            };
            let mut n = Net::new(config(tcp(client, 0), 1), always(tcp(server, 3)));
            n.b.listen(addr("10.0.0.2:80"), 4, None).unwrap();
            let c = n.connect();
            n.run(MS);
            let context = format!("{client:?} {server:?} {bits:06b}");
            assert_eq!(n.b.stats().cookies_accepted, 1, "{context}");
            let s = n.accepted()[0];
            assert_eq!(write(&mut n.a, c, b"hello"), 5);
            assert_eq!(write(&mut n.b, s, &bytes(200_000)), 200_000);
            let mut received = Vec::new();
            for _ in 0..300 {
                n.run(MS);
                received.extend(read(&mut n.a, c, n.now));
            }
            assert!(received == bytes(200_000), "{context}: {}", received.len());
            assert_eq!(read(&mut n.b, s, n.now), b"hello", "{context}");
            let [a, b] = [n.a.connection(c).unwrap(), n.b.connection(s).unwrap()];
            assert_eq!(a.sack_in_use(), b.sack_in_use(), "{context}");
            assert_eq!(a.ecn_in_use(), b.ecn_in_use(), "{context}");
        }
    }
}

/// RFC 7323 section 3.2: the option where it was not agreed on is ignored.
#[test]
fn rfc7323_3_2_timestamps_that_were_not_agreed_on_do_not_spoil_a_cookie() {
    let mut host = Host::new(always(TcpConfig {
        timestamps: TimestampMode::Off,
        ..TcpConfig::default()
    }))
    .unwrap();
    let l = host.listen(addr(S), 4, None).unwrap();
    let stamp = Some(Timestamps { val: 9, ecr: 77 });
    let mut syn = packet(C, S, SYN, 1, 0);
    syn.1.options.timestamps = stamp;
    let out = give(&mut host, start(), &syn);
    assert_eq!(out[0].1.options.timestamps, None);
    let mut answer = packet(C, S, ACK, 2, out[0].1.seq.0.wrapping_add(1));
    answer.1.options.timestamps = stamp;
    give(&mut host, start() + MS, &answer);
    assert_eq!(host.listener_stats(l).unwrap().accepted, 1);
}

/// A SYN-ACK by cookie must offer no more than the connection will have.
#[test]
fn without_timestamps_a_cookie_offers_no_options() {
    let mut host = Host::new(always(TcpConfig::default())).unwrap();
    host.listen(addr(S), 4, None).unwrap();
    let mut syn = packet(C, S, SYN | Flags::ECE | Flags::CWR, 1, 0);
    syn.1.options.mss = Some(1_400);
    syn.1.options.sack_permitted = true;
    syn.1.options.window_scale = Some(7);
    let out = give(&mut host, start(), &syn);
    let (_, tcp, _) = &out[0];
    assert_eq!(tcp.flags, SYN | ACK);
    assert_eq!(tcp.options.window_scale, None);
    assert!(!tcp.options.sack_permitted && tcp.options.timestamps.is_none());
    assert!(tcp.options.mss.is_some());
}

#[test]
fn a_made_up_acknowledgement_is_reset() {
    let mut host = Host::new(always(TcpConfig::default())).unwrap();
    host.listen(addr(S), 4, None).unwrap();
    // Before any cookie was sent nothing is looked at.
    let out = give(&mut host, start(), &packet(C, S, ACK, 1, 77));
    assert_eq!((out[0].1.flags, host.stats().cookies_failed), (RST, 0));
    give(&mut host, start(), &packet(C, S, SYN, 1, 0));
    for guess in 0..1_000_u32 {
        let forged = packet("10.0.0.9:6000", S, ACK, 1, guess.wrapping_mul(0x9e37_79b9));
        let out = give(&mut host, start(), &forged);
        assert!(out[0].1.flags.contains(RST));
    }
    assert_eq!(
        (host.stats().cookies_failed, host.connections()),
        (1_000, 0)
    );
}

/// Who does not keep up with accepting gets no connections by cookie either; what answers one waits
/// for better times, and is not refused.
#[test]
fn a_paused_listener_leaves_cookies_where_they_are() {
    let mut host = Host::new(always(TcpConfig::default())).unwrap();
    let l = host.listen(addr(S), 4, None).unwrap();
    let out = give(&mut host, start(), &packet(C, S, SYN, 1, 0));
    let answer = packet(C, S, ACK, 2, out[0].1.seq.0.wrapping_add(1));
    host.pause_listener(l, true);
    assert!(give(&mut host, start() + MS, &answer).is_empty());
    assert_eq!(host.connections(), 0);
    host.pause_listener(l, false);
    give(&mut host, start() + MS, &answer);
    assert_eq!(host.listener_stats(l).unwrap().accepted, 1);
}

/// RFC 9293 section 3.10.7.2: a SYN with an acknowledgement opens nothing, were its numbers right.
#[test]
fn a_syn_ack_answers_no_cookie() {
    let mut host = Host::new(always(TcpConfig::default())).unwrap();
    host.listen(addr(S), 4, None).unwrap();
    let out = give(&mut host, start(), &packet(C, S, SYN, 1, 0));
    let nxt = out[0].1.seq.0.wrapping_add(1);
    let out = give(&mut host, start() + MS, &packet(C, S, SYN | ACK, 2, nxt));
    assert_eq!((out[0].1.flags, out[0].1.seq.0), (RST, nxt));
    assert_eq!((host.connections(), host.stats().cookies_accepted), (0, 0));
}

/// The data may arrive first: the acknowledgement is lost, or carries data.
#[test]
fn the_first_segment_may_carry_data() {
    let mut host = Host::new(always(TcpConfig::default())).unwrap();
    let l = host.listen(addr(S), 4, None).unwrap();
    let mut syn = packet(C, S, SYN, 1, 0);
    syn.1.options.timestamps = Some(Timestamps { val: 9, ecr: 0 });
    let out = give(&mut host, start(), &syn);
    let theirs = out[0].1.options.timestamps.unwrap();
    let mut first = packet(C, S, ACK, 2, out[0].1.seq.0.wrapping_add(1));
    first.1.options.timestamps = Some(Timestamps {
        val: 10,
        ecr: theirs.val,
    });
    first.2 = b"hello".to_vec();
    give(&mut host, start() + MS, &first);
    assert_eq!(host.listener_stats(l).unwrap().accepted, 1);
    let id = match host.poll_event().unwrap() {
        narrows::endpoint::EndpointEvent::Accepted { conn, .. } => conn,
        other => panic!("{other:?}"),
    };
    let data = read(&mut host, id, start());
    assert_eq!(data, b"hello");
    // The round trip was not measured: nothing remembers when the SYN-ACK left.
    assert_eq!(host.connection(id).unwrap().sender().rtt().srtt(), None);
}

/// The acknowledgement and the first data are lost, what follows is not: it must not be reset, for
/// the first comes again.
#[test]
fn what_follows_lost_data_does_not_end_a_connection_by_cookie() {
    let mut host = Host::new(always(TcpConfig::default())).unwrap();
    let l = host.listen(addr(S), 4, None).unwrap();
    let out = give(&mut host, start(), &packet(C, S, SYN, 1, 0));
    let nxt = out[0].1.seq.0.wrapping_add(1);
    let mut later = packet(C, S, ACK, 7, nxt);
    later.2 = b"world".to_vec();
    assert!(give(&mut host, start() + MS, &later).is_empty());
    assert_eq!((host.connections(), host.stats().cookies_failed), (0, 1));
    let mut first = packet(C, S, ACK, 2, nxt);
    first.2 = b"hello".to_vec();
    give(&mut host, start() + MS, &first);
    assert_eq!(host.listener_stats(l).unwrap().accepted, 1);
}

/// Answers that cannot leave wait in a bounded queue; a SYN that finds it full is dropped like one
/// beyond a backlog.
#[test]
fn cookies_that_cannot_leave_take_bounded_memory() {
    let mut host = Host::new(always(TcpConfig::default())).unwrap();
    host.listen(addr(S), 4, None).unwrap();
    let from = |i: u32| format!("10.1.{}.{}:9", i / 250, i % 250 + 1);
    for i in 0..10_000 {
        let (ip, tcp, _) = packet(&from(i), S, SYN, 1, 0);
        host.handle_packet(start(), &ip, &tcp, &[]);
    }
    let answered = drain(&mut host, start()).len() as u64;
    assert!((1..=64).contains(&answered), "{answered}");
    let stats = host.stats();
    assert_eq!(
        (stats.cookies_sent, stats.backlog_drops),
        (answered, 10_000 - answered)
    );
    let again = packet(&from(9_999), S, SYN, 1, 0);
    assert_eq!(give(&mut host, start(), &again).len(), 1);
}

/// What a transfer over one connection came to while SYNs from made-up addresses arrived.
struct Flooded {
    n: Net,
    listener: ListenerId,
    /// Rounds of 100 us until all data was there.
    rounds: u32,
}

/// Two megabytes, and in each round of 100 us `syns` SYNs, until all is there and at least
/// `at_least` rounds have passed.
fn transfer_under(syns: u32, at_least: u32) -> Flooded {
    let mut n = Net::plain();
    let listener = n.b.listen(addr("10.0.0.2:80"), 16, None).unwrap();
    let c = n.connect();
    n.run(MS);
    let s = n.accepted()[0];
    let data = bytes(2_000_000);
    let (mut sent, mut received) = (0, Vec::new());
    let mut rounds = None;
    let mut round = 0;
    while rounds.is_none() || round < at_least {
        assert!(round < 10_000, "{} of {}", received.len(), data.len());
        sent += write(&mut n.a, c, &data[sent..]);
        for i in 0..syns {
            let from = format!("11.{}.{}.{}:9", round % 251, round / 251, i + 1);
            let (ip, tcp, _) = packet(&from, "10.0.0.2:80", SYN, i, 0);
            n.b.handle_packet(n.now, &ip, &tcp, &[]);
            drain(&mut n.b, n.now).into_iter().for_each(|p| {
                // Answers to nowhere are lost; those to the peer are not.
                if p.0.dst == addr("10.0.0.1:1").ip() {
                    n.flying
                        .push_back((n.now + Duration::from_micros(50), false, p));
                }
            });
        }
        n.run(Duration::from_micros(100));
        received.extend(read(&mut n.b, s, n.now));
        round += 1;
        if received.len() == data.len() {
            rounds.get_or_insert(round);
        }
    }
    assert!(received == data);
    Flooded {
        n,
        listener,
        rounds: rounds.unwrap(),
    }
}

/// A hundred thousand SYNs from made-up addresses, half a million a second: memory stays, the
/// connection that was there is as fast as without them, and a new peer gets in.
#[test]
fn a_flood_harms_nobody() {
    let calm = transfer_under(0, 0).rounds;
    let mut flooded = transfer_under(50, 2_000);
    assert_eq!(flooded.rounds, calm, "rounds of 100 us for 2 MB");
    let n = &mut flooded.n;
    assert!(n.b.connections() <= 17, "{}", n.b.connections());
    assert!(n.b.stats().cookies_sent > 99_000);
    n.connect();
    n.run(MS);
    assert_eq!(n.accepted().len(), 2);
    let stats = n.b.listener_stats(flooded.listener).unwrap();
    assert_eq!((stats.accepted, stats.embryonic <= 16), (2, true));
}
