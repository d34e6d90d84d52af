//! TCP Fast Open, RFC 7413: two hosts on a virtual clock, and peers made by hand.

use crate::hosts::{ACK, Host, MS, Net, Packet, RST, SEC, SYN, addr, config, drain, events, read};
use narrows::config::{TcpConfig, TimestampMode};
use narrows::conn::Event;
use narrows::conn::state::{CloseReason, Origin, State};
use narrows::endpoint::{ConnId, EndpointEvent, ListenerId};
use narrows::fast_open::{FastOpen, FastOpenClient, FastOpenKeys, FastOpenStatus};
use narrows::wire::icmp::Unreachable;
use narrows::wire::{
    FastOpenCookie, FastOpenForm, FastOpenOption, IcmpError, IcmpErrorKind, QuotedSegment,
    TcpHeader,
};
use std::net::SocketAddr;

const KEY: FastOpenKeys = FastOpenKeys::new(&[7; 16]);

fn client() -> TcpConfig {
    TcpConfig {
        fast_open: FastOpen {
            client: FastOpenClient::Cookie,
            ..FastOpen::default()
        },
        ..TcpConfig::default()
    }
}

fn server(pending: u32) -> TcpConfig {
    TcpConfig {
        fast_open: FastOpen {
            pending,
            keys: Some(KEY),
            ..FastOpen::default()
        },
        ..TcpConfig::default()
    }
}

fn net(pending: u32) -> (Net, ListenerId) {
    let mut net = Net::new(config(client(), 1), config(server(pending), 2));
    let id = net.b.listen(addr("10.0.0.2:80"), 16, None).unwrap();
    (net, id)
}

/// A first connection, which fetches the cookie.
fn fetch(net: &mut Net) -> ConnId {
    let id = net.connect();
    assert_eq!(status(&net.a, id), FastOpenStatus::Requested);
    net.run(SEC);
    assert!(net.a.connection(id).unwrap().was_established());
    net.b_events.clear();
    id
}

fn status(host: &Host, id: ConnId) -> FastOpenStatus {
    host.connection(id).unwrap().fast_open()
}

fn send(net: &mut Net, id: ConnId, data: &[u8]) {
    let conn = net.a.connection_mut(id).unwrap();
    assert_eq!(conn.send(data, data.len()), Ok(data.len()));
}

/// One packet that `net.a` sends now, not passed on.
fn caught(net: &mut Net) -> Packet {
    let mut out = drain(&mut net.a, net.now);
    assert_eq!(out.len(), 1, "{out:?}");
    out.remove(0)
}

/// Time goes on; what `net.a` sends meanwhile, not passed on.
fn wait(net: &mut Net, d: narrows::Duration) -> Vec<Packet> {
    net.now = net.now + d;
    net.a.handle_timeout(net.now);
    net.b.handle_timeout(net.now);
    drain(&mut net.b, net.now);
    drain(&mut net.a, net.now)
}

/// The SYN's timer fires: the SYN that leaves again.
fn syn_again(net: &mut Net) -> Packet {
    let mut out = Vec::new();
    while out.is_empty() {
        out = wait(net, MS * 100);
    }
    assert_eq!(out.len(), 1, "{out:?}");
    out.remove(0)
}

fn pass(net: &mut Net, p: &Packet) -> Vec<Packet> {
    net.b.handle_packet(net.now, &p.0, &p.1, &p.2);
    drain(&mut net.b, net.now)
}

fn back(net: &mut Net, p: &Packet) -> Vec<Packet> {
    net.a.handle_packet(net.now, &p.0, &p.1, &p.2);
    drain(&mut net.a, net.now)
}

fn accepted(host: &mut Host) -> Vec<ConnId> {
    let accepted = |e| match e {
        EndpointEvent::Accepted { conn, .. } => Some(conn),
        _ => None,
    };
    events(host).into_iter().filter_map(accepted).collect()
}

fn cookie_of(tcp: &TcpHeader) -> Option<FastOpenCookie> {
    tcp.options.fast_open().and_then(|o| o.cookie)
}

#[test]
fn rfc7413_6_it_is_off_unless_asked_for() {
    let mut net = Net::plain();
    net.b.listen(addr("10.0.0.2:80"), 16, None).unwrap();
    let id = net.connect();
    assert_eq!(status(&net.a, id), FastOpenStatus::Unused);
    let mut syn = caught(&mut net);
    assert_eq!(syn.1.options.fast_open(), None);
    // A server that was not asked answers no request.
    syn.1.options.set_fast_open(FastOpenOption {
        form: FastOpenForm::Standard,
        cookie: None,
    });
    let answer = pass(&mut net, &syn);
    assert_eq!(answer[0].1.options.fast_open(), None);
}

/// Section 4.2: a cookie that is good is ignored where the application has not turned it on.
#[test]
fn rfc7413_4_2_where_it_is_off_cookies_are_ignored() {
    let (mut net, listener) = net(10);
    fetch(&mut net);
    net.b.set_listener_fast_open(listener, |f| f.pending = 0);
    let id = net.connect();
    send(&mut net, id, b"GET /");
    let syn = caught(&mut net);
    assert!(cookie_of(&syn.1).is_some() && syn.2.len() == 5);
    let answer = pass(&mut net, &syn);
    assert_eq!(answer[0].1.options.fast_open(), None);
    assert_eq!(answer[0].1.ack, syn.1.seq + 1);
    assert!(accepted(&mut net.b).is_empty());
    assert_eq!(net.b.stats().fast_open_accepted, 0);
}

/// Sections 4.2.1 and 4.2.2: a client without a cookie asks for one, and sends its data later.
#[test]
fn rfc7413_4_2_2_without_a_cookie_no_data_rides_on_the_syn() {
    let (mut net, _) = net(10);
    let id = net.connect();
    send(&mut net, id, b"GET /");
    let syn = caught(&mut net);
    assert!(syn.1.flags.contains(SYN) && syn.2.is_empty());
    let answer = pass(&mut net, &syn);
    let out = back(&mut net, &answer[0]);
    assert_eq!(&out[0].2[..], b"GET /");
}

#[test]
fn rfc7413_4_2_1_a_request_is_answered_with_the_cookie_of_the_address() {
    let (mut net, _) = net(10);
    let id = net.connect();
    let syn = caught(&mut net);
    let request = syn.1.options.fast_open().expect("asks");
    assert_eq!(request.cookie, None);
    assert!(syn.2.is_empty());
    let answer = pass(&mut net, &syn);
    let (a, b) = (addr("10.0.0.1:0").ip(), addr("10.0.0.2:0").ip());
    assert_eq!(cookie_of(&answer[0].1), Some(KEY.cookie(a, b)));
    assert_eq!(answer[0].1.ack, syn.1.seq + 1);
    back(&mut net, &answer[0]);
    assert_eq!(net.b.stats().fast_open_cookies_sent, 1);
    assert!(net.a.connection(id).unwrap().was_established());
}

#[test]
fn rfc7413_4_2_2_data_on_the_syn_is_the_users_before_the_handshake_is_complete() {
    let (mut net, _) = net(10);
    fetch(&mut net);
    let id = net.connect();
    assert_eq!(status(&net.a, id), FastOpenStatus::Waiting);
    assert!(drain(&mut net.a, net.now).is_empty(), "it waits for data");
    send(&mut net, id, b"GET /");
    let syn = caught(&mut net);
    assert_eq!(&syn.2[..], b"GET /");
    assert!(cookie_of(&syn.1).is_some());
    let answer = pass(&mut net, &syn);
    assert_eq!(answer[0].1.ack, syn.1.seq + 6, "SYN and data");
    assert_eq!(answer[0].1.options.fast_open(), None);
    let on_b = accepted(&mut net.b)[0];
    let conn = net.b.connection(on_b).unwrap();
    assert_eq!(conn.state(), State::SynReceived(Origin::Passive));
    assert_eq!(read(&mut net.b, on_b, net.now), b"GET /");
    // The answer leaves before the handshake is complete.
    let now = net.now;
    let conn = net.b.connection_mut(on_b).unwrap();
    conn.send(b"hello", 5).unwrap();
    conn.close(now);
    let data = drain(&mut net.b, now);
    assert_eq!(&data[0].2[..], b"hello");
    let mut acks = back(&mut net, &answer[0]);
    assert_eq!(status(&net.a, id), FastOpenStatus::Accepted);
    acks.extend(back(&mut net, &data[0]));
    assert_eq!(read(&mut net.a, id, now), b"hello");
    for p in &acks {
        pass(&mut net, p);
    }
    let conn = net.b.connection(on_b).unwrap();
    assert_eq!(conn.state(), State::FinWait2);
    assert!(accepted(&mut net.b).is_empty(), "told once");
    assert_eq!(net.a.stats().fast_open_passed, 1);
}

#[test]
fn rfc7413_4_1_1_in_a_segment_without_syn_it_is_ignored() {
    let (mut net, _) = net(10);
    let id = net.connect();
    net.run(SEC);
    let on_b = net.accepted()[0];
    let conn = net.b.connection_mut(on_b).unwrap();
    conn.send(b"hi", 2).unwrap();
    let mut data = drain(&mut net.b, net.now).remove(0);
    data.1.options.set_fast_open(FastOpenOption {
        form: FastOpenForm::Standard,
        cookie: FastOpenCookie::new(&[9; 8]),
    });
    back(&mut net, &data);
    assert_eq!(read(&mut net.a, id, net.now), b"hi");
    let id = net.connect();
    send(&mut net, id, b"x");
    let syn = caught(&mut net);
    let (a, b) = (addr("10.0.0.1:0").ip(), addr("10.0.0.2:0").ip());
    assert_eq!(cookie_of(&syn.1), Some(KEY.cookie(a, b)));
}

#[test]
fn rfc7413_4_1_3_the_syn_carries_no_more_than_the_cached_mss_and_the_rest_follows() {
    let (mut net, _) = net(10);
    fetch(&mut net);
    let id = net.connect();
    let data: Vec<u8> = (0..5_000u32).map(|i| i as u8).collect();
    send(&mut net, id, &data);
    let syn = caught(&mut net);
    assert_eq!(syn.2.len(), 1_460 - 40);
    net.flying.push_back((net.now, true, syn));
    net.run(SEC);
    let on_b = net.accepted()[0];
    assert_eq!(read(&mut net.b, on_b, net.now), data);
    let stats = net.a.connection(id).unwrap().sender_stats();
    assert_eq!(stats.retransmits, 0);
}

#[test]
fn rfc7413_4_2_2_a_syn_that_is_sent_again_has_neither_data_nor_option() {
    let (mut net, _) = net(10);
    fetch(&mut net);
    let id = net.connect();
    send(&mut net, id, b"GET /");
    caught(&mut net);
    let again = syn_again(&mut net);
    assert!(again.1.flags.contains(SYN) && again.2.is_empty());
    assert_eq!(again.1.options.fast_open(), None);
    // The data goes with the first ACK.
    let answer = pass(&mut net, &again);
    let out = back(&mut net, &answer[0]);
    assert_eq!(&out[0].2[..], b"GET /");
    assert_eq!(status(&net.a, id), FastOpenStatus::Lost);
    assert_eq!(net.a.stats().fast_open_failed, 1);
}

/// The SYN-ACK to the SYN with data was lost, or late: it still counts after a retransmission.
#[test]
fn a_late_syn_ack_acknowledges_data_of_the_first_syn() {
    let (mut net, _) = net(10);
    fetch(&mut net);
    let id = net.connect();
    send(&mut net, id, b"GET /");
    let syn = caught(&mut net);
    let answer = pass(&mut net, &syn);
    syn_again(&mut net);
    let out = back(&mut net, &answer[0]);
    assert!(
        out.iter()
            .all(|p| p.2.is_empty() && !p.1.flags.contains(RST))
    );
    assert_eq!(status(&net.a, id), FastOpenStatus::Accepted);
    assert_eq!(net.a.connection(id).unwrap().unacknowledged(), 0);
}

#[test]
fn rfc7413_4_1_2_a_bad_cookie_is_answered_with_a_good_one_and_the_data_leaves_again() {
    let (mut net, listener) = net(10);
    fetch(&mut net);
    let other = FastOpenKeys::new(&[8; 16]);
    net.b
        .set_listener_fast_open(listener, |f| f.keys = Some(other));
    let id = net.connect();
    send(&mut net, id, b"GET /");
    let syn = caught(&mut net);
    let answer = pass(&mut net, &syn);
    assert_eq!(answer[0].1.ack, syn.1.seq + 1);
    assert!(accepted(&mut net.b).is_empty());
    let out = back(&mut net, &answer[0]);
    assert_eq!(&out[0].2[..], b"GET /", "with the first ACK");
    assert_eq!(status(&net.a, id), FastOpenStatus::Refused);
    pass(&mut net, &out[0]);
    let on_b = accepted(&mut net.b)[0];
    assert_eq!(read(&mut net.b, on_b, net.now), b"GET /");
    // The new cookie is kept.
    let id = net.connect();
    send(&mut net, id, b"again");
    let syn = caught(&mut net);
    let answer = pass(&mut net, &syn);
    assert_eq!(answer[0].1.ack, syn.1.seq + 6);
    assert_eq!(net.b.stats().fast_open_bad_cookies, 1);
    assert_eq!(net.a.stats().fast_open_failed, 0);
}

#[test]
fn rfc7413_4_1_2_after_a_change_of_keys_the_old_cookie_is_good_and_a_new_one_comes() {
    let (mut net, listener) = net(10);
    fetch(&mut net);
    net.b
        .set_listener_fast_open(listener, |f| f.keys = Some(KEY.rotate(&[8; 16])));
    for fresh in [true, false] {
        let id = net.connect();
        send(&mut net, id, b"x");
        let syn = caught(&mut net);
        let answer = pass(&mut net, &syn);
        assert_eq!(answer[0].1.ack, syn.1.seq + 2, "accepted");
        assert_eq!(cookie_of(&answer[0].1).is_some(), fresh);
        back(&mut net, &answer[0]);
    }
}

#[test]
fn rfc7413_5_1_pending_requests_are_limited_and_a_reset_frees_no_place() {
    let (mut net, _) = net(1);
    fetch(&mut net);
    let open = |net: &mut Net| {
        let id = net.connect();
        send(net, id, b"x");
        let syn = caught(net);
        let answer = pass(net, &syn);
        (
            syn.clone(),
            answer[0].clone(),
            answer[0].1.ack == syn.1.seq + 2,
        )
    };
    let (syn, answer, early) = open(&mut net);
    assert!(early);
    assert!(!open(&mut net).2, "one is pending");
    assert_eq!(net.b.stats().fast_open_overflows, 1);
    // A RST in the name of the first: its place stays taken for a while.
    let mut rst = syn;
    rst.1 = TcpHeader {
        src_port: rst.1.src_port,
        dst_port: 80,
        seq: answer.1.ack,
        flags: RST,
        ..TcpHeader::default()
    };
    rst.2.clear();
    pass(&mut net, &rst);
    let told = events(&mut net.b);
    let reset = Event::Closed(CloseReason::Reset);
    assert!(
        told.iter()
            .any(|e| matches!(e, EndpointEvent::Conn { event, .. } if *event == reset)),
        "{told:?}"
    );
    assert!(!open(&mut net).2, "still counted");
    wait(&mut net, SEC * 61);
    net.a.forget_fast_open();
    fetch(&mut net);
    let (_, answer, early) = open(&mut net);
    assert!(early);
    // The third segment of the handshake frees the place at once.
    let out = back(&mut net, &answer);
    pass(&mut net, &out[0]);
    assert!(open(&mut net).2);
}

#[test]
fn rfc7413_4_1_3_1_negative_responses_stop_it_for_a_while() {
    let (mut net, _) = net(10);
    fetch(&mut net);
    let path_drops_data = |net: &mut Net| {
        let id = net.connect();
        let waits = status(&net.a, id) == FastOpenStatus::Waiting;
        send(net, id, b"x");
        let first = caught(net);
        if waits {
            let again = syn_again(net);
            net.flying.push_back((net.now, true, again));
        } else {
            assert!(first.2.is_empty() && first.1.options.fast_open().is_none());
            net.flying.push_back((net.now, true, first));
        }
        net.run(MS * 200);
        waits
    };
    assert!(path_drops_data(&mut net), "the first");
    assert!(path_drops_data(&mut net), "one may be chance");
    assert!(!path_drops_data(&mut net), "two are not");
    // Another service of the same host is not concerned.
    let other = net
        .a
        .connect(net.now, addr("10.0.0.1:0"), addr("10.0.0.2:81"), None);
    assert_eq!(status(&net.a, other.unwrap()), FastOpenStatus::Waiting);
    wait(&mut net, SEC * 239);
    assert!(!path_drops_data(&mut net), "it rests");
    wait(&mut net, SEC * 2);
    assert!(path_drops_data(&mut net), "and is tried again");
    wait(&mut net, SEC * 300);
    assert!(!path_drops_data(&mut net), "and rests twice as long");
}

/// Section 4.1.3.1: so are data that is not acknowledged, and ICMP errors.
#[test]
fn rfc7413_4_1_3_1_data_not_taken_and_icmp_errors_are_negative_responses() {
    for icmp in [false, true] {
        let (mut net, listener) = net(10);
        fetch(&mut net);
        net.b.set_listener_fast_open(listener, |f| f.pending = 0);
        for negative in 1..=3 {
            let id = net.connect();
            let waits = status(&net.a, id) == FastOpenStatus::Waiting;
            assert_eq!(waits, negative < 3, "{negative}, ICMP {icmp}");
            send(&mut net, id, b"x");
            let syn = caught(&mut net);
            assert_eq!(syn.2.len(), usize::from(waits));
            if icmp {
                let (src, dst) = (addr("10.0.0.1:0"), addr("10.0.0.2:80"));
                let segment = QuotedSegment {
                    src: SocketAddr::new(src.ip(), syn.1.src_port),
                    dst,
                    seq: syn.1.seq,
                };
                let kind = IcmpErrorKind::Unreachable(Unreachable::Protocol);
                net.a.handle_icmp(net.now, &IcmpError { kind, segment });
                let failed = net.a.connection(id).map(|c| c.state());
                assert!(failed.is_none_or(|s| matches!(s, State::Closed(_))));
            } else {
                let answer = pass(&mut net, &syn);
                assert_eq!(answer[0].1.ack, syn.1.seq + 1);
                back(&mut net, &answer[0]);
            }
            wait(&mut net, MS);
        }
    }
}

#[test]
fn rfc7413_4_2_2_a_lost_syn_ack_is_repeated_without_option_and_what_followed_it_arrives() {
    let (mut net, _) = net(10);
    fetch(&mut net);
    let id = net.connect();
    send(&mut net, id, b"GET /");
    let syn = caught(&mut net);
    pass(&mut net, &syn);
    let on_b = accepted(&mut net.b)[0];
    let data = vec![9; 20_000];
    let conn = net.b.connection_mut(on_b).unwrap();
    conn.send(&data, data.len()).unwrap();
    // All of the initial window is lost with the SYN-ACK.
    assert_eq!(drain(&mut net.b, net.now).len(), 10);
    net.run(SEC * 20);
    assert_eq!(status(&net.a, id), FastOpenStatus::Accepted);
    assert_eq!(read(&mut net.a, id, net.now), data);
    assert_eq!(net.b.stats().handshake_timeouts, 1);
}

#[test]
fn rfc7413_4_2_2_simultaneous_open_goes_through() {
    let (mut net, _) = net(10);
    fetch(&mut net);
    let id = net.connect();
    send(&mut net, id, b"hi");
    let syn = caught(&mut net);
    let mut theirs = TcpHeader {
        src_port: 80,
        dst_port: syn.1.src_port,
        seq: narrows::wire::Seq(5_000),
        flags: SYN,
        window: 60_000,
        ..TcpHeader::default()
    };
    let ip = narrows::wire::IpHeader {
        src: syn.0.dst,
        dst: syn.0.src,
        ..syn.0
    };
    let out = back(&mut net, &(ip, theirs.clone(), Vec::new()));
    assert_eq!((out[0].1.flags, out[0].2.len()), (SYN | ACK, 0));
    theirs.flags = SYN | ACK;
    theirs.ack = syn.1.seq + 3;
    back(&mut net, &(ip, theirs, Vec::new()));
    let conn = net.a.connection(id).unwrap();
    assert_eq!(conn.state(), State::Established);
    assert_eq!(conn.unacknowledged(), 0);
}

#[test]
fn rfc9293_3_10_7_3_an_ack_beyond_the_data_of_the_syn_is_refused() {
    let (mut net, _) = net(10);
    fetch(&mut net);
    let id = net.connect();
    send(&mut net, id, b"hi");
    let syn = caught(&mut net);
    let mut answer = pass(&mut net, &syn).remove(0);
    answer.1.ack = syn.1.seq + 4;
    let out = back(&mut net, &answer);
    assert!(out[0].1.flags.contains(RST));
    assert_eq!(net.a.connection(id).unwrap().state(), State::SynSent);
}

#[test]
fn rfc7413_7_3_without_cookies_on_both_sides() {
    let policy = FastOpen {
        client: FastOpenClient::WithoutCookie,
        pending: 5,
        without_cookie: true,
        keys: None,
    };
    let tcp = TcpConfig {
        fast_open: policy,
        timestamps: TimestampMode::Off,
        ..TcpConfig::default()
    };
    let mut net = Net::new(config(tcp.clone(), 1), config(tcp, 2));
    net.b.listen(addr("10.0.0.2:80"), 16, None).unwrap();
    let id = net.connect();
    send(&mut net, id, &[1; 600]);
    let syn = caught(&mut net);
    // Nothing is known of the peer's MSS: what every host takes.
    assert_eq!((syn.2.len(), syn.1.options.fast_open()), (536 - 40, None));
    let answer = pass(&mut net, &syn);
    assert_eq!(answer[0].1.ack, syn.1.seq + 1 + 496);
    assert_eq!(accepted(&mut net.b).len(), 1);
}

#[test]
fn the_old_form_is_tried_once_and_answered_in_kind() {
    let mut net = Net::new(config(client(), 1), config(TcpConfig::default(), 2));
    net.b.listen(addr("10.0.0.2:80"), 16, None).unwrap();
    let forms: Vec<_> = (0..4)
        .map(|_| {
            net.connect();
            let syn = caught(&mut net);
            let answer = pass(&mut net, &syn);
            back(&mut net, &answer[0]);
            syn.1.options.fast_open().unwrap().form
        })
        .collect();
    use FastOpenForm::{Experimental, Standard};
    assert_eq!(forms, [Standard, Experimental, Standard, Standard]);
}

/// RFC 7413 section 4.1.3: the memory is bounded, and what is used stays.
#[test]
fn the_memory_of_cookies_is_bounded() {
    let mut small = config(client(), 1);
    small.fast_open_memory = 4;
    let mut net = Net::new(small, config(server(1_000), 2));
    for host in 2..40u8 {
        let at = addr(&format!("10.0.1.{host}:80"));
        net.b.listen(at, 16, None).unwrap();
        let id = net
            .a
            .connect(net.now, addr("10.0.0.1:0"), at, None)
            .unwrap();
        net.run(MS * 10);
        assert_eq!(status(&net.a, id), FastOpenStatus::Requested);
    }
    let known = |net: &mut Net, host: u8| {
        let at = addr(&format!("10.0.1.{host}:80"));
        let id = net
            .a
            .connect(net.now, addr("10.0.0.1:0"), at, None)
            .unwrap();
        status(&net.a, id) == FastOpenStatus::Waiting
    };
    let all = (2..40).filter(|h| known(&mut net, *h)).count();
    assert_eq!(all, 4);
}

/// What a user writes and closes at once arrives whole, and then the FIN: with the SYN if the
/// server takes it, after the handshake if it does not (no place, or the SYN is lost).
#[test]
fn rfc7413_4_2_2_data_of_a_syn_that_is_closed_at_once_arrives() {
    for (case, pending) in [("taken", 10), ("refused", 0), ("lost", 10)] {
        for released in [false, true] {
            let (mut net, _) = net(10);
            fetch(&mut net);
            let at = addr("10.0.0.2:81");
            net.b.listen(at, 16, Some(server(pending).into())).unwrap();
            let id = net
                .a
                .connect(net.now, addr("10.0.0.1:0"), at, None)
                .unwrap();
            assert_eq!(status(&net.a, id), FastOpenStatus::Waiting, "{case}");
            send(&mut net, id, b"question");
            if case == "lost" {
                assert_eq!(caught(&mut net).2, b"question");
            }
            match released {
                true => net.a.release(id, net.now),
                false => net.a.connection_mut(id).unwrap().close(net.now),
            }
            net.run(SEC * 5);
            let [conn] = net.accepted()[..] else {
                panic!("{case}: {:?}", net.b_events);
            };
            assert_eq!(read(&mut net.b, conn, net.now), b"question", "{case}");
            let state = net.b.connection(conn).unwrap().state();
            assert_eq!(state, State::CloseWait, "{case}");
        }
    }
}

/// Nothing was written: there is nothing that a close could lose (RFC 9293 section 3.10.4).
#[test]
fn rfc9293_3_10_4_a_syn_that_waits_for_data_is_not_sent_after_a_close() {
    let (mut net, _) = net(10);
    fetch(&mut net);
    let id = net.connect();
    assert_eq!(status(&net.a, id), FastOpenStatus::Waiting);
    net.a.connection_mut(id).unwrap().close(net.now);
    assert_eq!(
        net.a.connection(id).unwrap().state(),
        State::Closed(CloseReason::Aborted)
    );
    assert!(drain(&mut net.a, net.now).is_empty());
}
