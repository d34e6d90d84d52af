//! RFC 9293 section 3.9.2.2: what ICMP errors do to a connection; with RFC 5927 (who may send
//! them), RFC 1191 and RFC 8201 (path MTU).

use crate::pair;
use crate::pair::lone::{IRS, ISS, Lone, Out, SYNCHRONIZED, ack, in_state, plain, syn, syn_ack};
use crate::pair::{bytes, opening};
use narrows::buffer::{RecvRing, SendRing};
use narrows::config::{TcpConfig, TimestampMode};
use narrows::conn::icmp::{HardErrors, IcmpOutcome, IcmpPolicy, SoftError};
use narrows::conn::state::{CloseReason, Origin, State};
use narrows::conn::{Boxed, Event};
use narrows::endpoint::metrics::MetricsConfig;
use narrows::endpoint::{ConnId, Endpoint, EndpointConfig, EndpointEvent};
use narrows::wire::icmp::{Echo, TimeExceeded, Unreachable};
use narrows::wire::{
    ChecksumPolicy, IcmpError, IcmpErrorKind, IcmpMessage, IcmpPacket, IpHeader, Packet,
    QuotedSegment, Seq,
};
use narrows::{Duration, Instant};
use std::net::SocketAddr;
use std::sync::Arc;

type Host = Endpoint<Boxed<SendRing, RecvRing>>;

const SEC: Duration = Duration::from_secs(1);

fn error(kind: IcmpErrorKind, seq: Seq) -> IcmpError {
    let opening = opening(true, 0);
    IcmpError {
        kind,
        segment: QuotedSegment {
            src: opening.local,
            dst: opening.remote,
            seq,
        },
    }
}

fn about(kind: IcmpErrorKind, out: &Out) -> IcmpError {
    error(kind, out.tcp.seq)
}

fn unreachable(why: Unreachable) -> IcmpErrorKind {
    IcmpErrorKind::Unreachable(why)
}

fn too_big(mtu: u32) -> IcmpErrorKind {
    IcmpErrorKind::PacketTooBig { mtu }
}

const SOFT: [IcmpErrorKind; 8] = [
    IcmpErrorKind::Unreachable(Unreachable::Network),
    IcmpErrorKind::Unreachable(Unreachable::Host),
    IcmpErrorKind::Unreachable(Unreachable::SourceRoute),
    IcmpErrorKind::Unreachable(Unreachable::Prohibited),
    IcmpErrorKind::Unreachable(Unreachable::Other(7)),
    IcmpErrorKind::TimeExceeded(TimeExceeded::HopLimit),
    IcmpErrorKind::TimeExceeded(TimeExceeded::Reassembly),
    IcmpErrorKind::ParameterProblem {
        code: 0,
        pointer: 20,
    },
];

/// In `state` with a segment outstanding; its sequence number.
fn with_something_outstanding(state: State, config: TcpConfig) -> Option<(Lone, Seq)> {
    let mut l = in_state(state, config);
    l.events.clear();
    match state {
        State::SynSent | State::SynReceived(_) => Some((l, ISS)),
        State::Established | State::CloseWait => {
            let seq = Lone::one(l.send(b"x")).tcp.seq;
            Some((l, seq))
        }
        // The FIN.
        State::FinWait1 | State::Closing | State::LastAck => Some((l, ISS + 1)),
        _ => None,
    }
}

fn states() -> impl Iterator<Item = State> {
    let opening = [
        State::SynSent,
        State::SynReceived(Origin::Passive),
        State::SynReceived(Origin::Active),
    ];
    opening.into_iter().chain(SYNCHRONIZED)
}

// ---- MUST-54 and demultiplexing.

/// Two hosts without a network: what one sends is looked at, and carried by hand.
fn connected_hosts(config: EndpointConfig) -> (Host, Host, ConnId, Instant) {
    let now = Instant::ZERO + SEC * 100;
    let mut a = Host::new(config).unwrap();
    let tcp = Arc::new(TcpConfig::default());
    let mut b = Host::new(EndpointConfig::new(tcp, [2; 16])).unwrap();
    b.listen(addr("10.0.0.2:80"), 9, None).unwrap();
    let id = a
        .connect(now, addr("10.0.0.1:0"), addr("10.0.0.2:80"), None)
        .unwrap();
    for _ in 0..3 {
        carry(now, &mut a, &mut b);
        carry(now, &mut b, &mut a);
    }
    assert_eq!(a.connection(id).unwrap().state(), State::Established);
    while a.poll_event().is_some() {}
    (a, b, id, now)
}

fn addr(s: &str) -> SocketAddr {
    s.parse().unwrap()
}

fn carry(now: Instant, from: &mut Host, to: &mut Host) {
    while let Some((ip, tcp, view)) = from.poll_transmit(now) {
        let data: Vec<u8> = view.iter().collect();
        to.handle_packet(now, &ip, &tcp, &data);
    }
}

/// Everything that leaves, as bytes of IP packets.
fn wire(host: &mut Host, now: Instant) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    while let Some((ip, tcp, payload)) = host.poll_transmit(now) {
        let packet = Packet { ip, tcp, payload };
        let mut bytes = vec![0; packet.wire_len()];
        packet.emit(&mut bytes).unwrap();
        out.push(bytes);
    }
    out
}

/// What the router at `from` says about `original`, over the wire.
fn router_says(kind: IcmpErrorKind, from: &str, original: &[u8]) -> Option<IcmpError> {
    let quoted = QuotedSegment::parse(original).unwrap();
    let ip = IpHeader {
        src: from.parse().unwrap(),
        dst: quoted.src.ip(),
        ecn: Default::default(),
        dscp: 0,
        hop_limit: 61,
    };
    let message = IcmpMessage::Error { kind, original };
    let packet = IcmpPacket { ip, message };
    let mut bytes = vec![0; packet.wire_len()];
    packet.emit(&mut bytes).unwrap();
    IcmpPacket::parse(&bytes, ChecksumPolicy::Verify)
        .unwrap()
        .tcp_error()
}

/// MUST-54: an error finds the connection whose segment it quotes, from bytes to event.
#[test]
fn must_54_icmp_errors_reach_their_connection() {
    let tcp = Arc::new(TcpConfig::default());
    let (mut a, _, id, now) = connected_hosts(EndpointConfig::new(tcp, [1; 16]));
    let other = a
        .connect(now, addr("10.0.0.1:0"), addr("10.0.0.2:80"), None)
        .unwrap();
    wire(&mut a, now);
    a.connection_mut(id).unwrap().send(b"hello", 5).unwrap();
    let sent = wire(&mut a, now);
    // The least that a router must quote: the IP header and eight bytes.
    let kind = unreachable(Unreachable::Host);
    let error = router_says(kind, "10.9.9.9", &sent[0][..28]).unwrap();
    assert_eq!(a.handle_icmp(now, &error), IcmpOutcome::Reported);
    let event = Event::SoftError(SoftError::Icmp(kind));
    assert_eq!(
        a.poll_event(),
        Some(EndpointEvent::Conn { conn: id, event })
    );
    assert_eq!(a.poll_event(), None);
    assert_eq!(
        a.connection(id).unwrap().last_error(),
        Some(SoftError::Icmp(kind))
    );
    assert_eq!(a.connection(other).unwrap().last_error(), None);
    assert_eq!(a.stats().icmp_errors, 1);

    // No such connection.
    let mut stray = error;
    stray.segment.src.set_port(1);
    assert_eq!(a.handle_icmp(now, &stray), IcmpOutcome::Ignored);
}

#[test]
fn must_54_an_error_not_addressed_to_the_segments_sender_is_dropped() {
    let tcp = Arc::new(TcpConfig::default());
    let (mut a, _, id, now) = connected_hosts(EndpointConfig::new(tcp, [1; 16]));
    a.connection_mut(id).unwrap().send(b"hello", 5).unwrap();
    let original = &wire(&mut a, now)[0];
    let ip = IpHeader {
        src: "10.9.9.9".parse().unwrap(),
        dst: "10.0.0.7".parse().unwrap(),
        ecn: Default::default(),
        dscp: 0,
        hop_limit: 61,
    };
    let kind = unreachable(Unreachable::Host);
    let message = IcmpMessage::Error { kind, original };
    assert_eq!(IcmpPacket { ip, message }.tcp_error(), None);
    let echo = Echo {
        ident: 1,
        sequence: 1,
        data: original,
    };
    let message = IcmpMessage::EchoRequest(echo);
    assert_eq!(IcmpPacket { ip, message }.tcp_error(), None);
}

// ---- MUST-55.

#[test]
fn must_55_source_quench_is_discarded_in_silence() {
    for state in states() {
        let Some((mut l, seq)) = with_something_outstanding(state, plain()) else {
            continue;
        };
        let cwnd = l.conn.sender().congestion().cwnd();
        let state = l.state();
        let outcome = l
            .conn
            .handle_icmp(l.now, &error(IcmpErrorKind::SourceQuench, seq));
        assert_eq!(outcome, IcmpOutcome::Ignored);
        assert!(l.settle().is_empty());
        assert_eq!((l.state(), l.conn.last_error()), (state, None));
        assert!(l.events.is_empty(), "{:?}", l.events);
        assert_eq!(l.conn.sender().congestion().cwnd(), cwnd);
    }
}

// ---- MUST-56, SHLD-25, MUST-47, SHLD-20.

#[test]
fn must_56_soft_errors_end_no_connection_in_any_state() {
    for state in states() {
        for kind in SOFT {
            // Even where hard errors end connections.
            let icmp = IcmpPolicy {
                hard_errors: HardErrors::Abort,
                ..IcmpPolicy::default()
            };
            let config = TcpConfig { icmp, ..plain() };
            let Some((mut l, seq)) = with_something_outstanding(state, config) else {
                continue;
            };
            let before = l.state();
            l.conn.handle_icmp(l.now, &error(kind, seq));
            l.settle();
            assert_eq!(l.state(), before, "{kind}");
            assert_eq!(l.conn.last_error(), Some(SoftError::Icmp(kind)));
        }
    }
}

#[test]
fn shld_25_soft_errors_are_told_to_the_user() {
    for kind in SOFT {
        let mut l = Lone::established(plain());
        let out = Lone::one(l.send(b"x"));
        assert_eq!(
            l.conn.handle_icmp(l.now, &about(kind, &out)),
            IcmpOutcome::Reported
        );
        l.settle();
        assert_eq!(l.events, [Event::SoftError(SoftError::Icmp(kind))]);
    }
}

#[test]
fn nobody_hears_of_an_embryonic_connection() {
    let (mut l, out) = Lone::syn_received(plain(), &syn().mss(1_000));
    l.conn.handle_icmp(l.now, &about(SOFT[1], &out));
    l.settle();
    assert!(l.events.is_empty());
}

/// MUST-47: the conditions reported include ICMP errors, excessive retransmission (R1) and the
/// advance of the urgent pointer.
#[test]
fn must_47_soft_errors_are_reported() {
    let mut l = Lone::established(plain());
    let out = Lone::one(l.send(b"x"));
    l.conn.handle_icmp(l.now, &about(SOFT[0], &out));
    l.wait(SEC * 60);
    l.recv(ack(0, 0).data(b"abc").urgent(9));
    for want in [
        Event::SoftError(SoftError::Icmp(SOFT[0])),
        Event::SoftError(SoftError::Retransmitting),
        Event::Urgent,
    ] {
        assert!(l.events.contains(&want), "{want:?}: {:?}", l.events);
    }
}

#[test]
fn shld_20_reports_of_soft_errors_can_be_turned_off() {
    let config = TcpConfig {
        report_soft_errors: false,
        ..plain()
    };
    let mut l = Lone::established(config);
    let out = Lone::one(l.send(b"x"));
    l.conn.handle_icmp(l.now, &about(SOFT[0], &out));
    l.wait(SEC * 60);
    assert!(l.events.is_empty(), "{:?}", l.events);
    // Who wants to know can ask.
    assert_eq!(l.conn.last_error(), Some(SoftError::Retransmitting));
}

// ---- SHLD-26, RFC 5927.

const HARD: [Unreachable; 2] = [Unreachable::Protocol, Unreachable::Port];

#[test]
fn shld_26_hard_errors_abort_an_opening() {
    for why in HARD {
        let (mut l, syn) = Lone::syn_sent(plain());
        let outcome = l.conn.handle_icmp(l.now, &about(unreachable(why), &syn));
        assert_eq!(outcome, IcmpOutcome::Aborted);
        assert!(l.settle().is_empty(), "a RST would not arrive either");
        assert_eq!(l.state(), State::Closed(CloseReason::Unreachable(why)));
        assert_eq!(l.events, [Event::Closed(CloseReason::Unreachable(why))]);
        assert_eq!(l.conn.poll_timeout(), None);
    }
}

#[test]
fn shld_26_hard_errors_abort_where_configured() {
    for why in HARD {
        let icmp = IcmpPolicy {
            hard_errors: HardErrors::Abort,
            ..IcmpPolicy::default()
        };
        let mut l = Lone::established(TcpConfig { icmp, ..plain() });
        let out = Lone::one(l.send(b"x"));
        l.conn.handle_icmp(l.now, &about(unreachable(why), &out));
        assert_eq!(l.state(), State::Closed(CloseReason::Unreachable(why)));
    }
}

/// RFC 5927 section 5.2 and RFC 5461 section 4.1.
#[test]
fn rfc5927_5_2_hard_errors_do_not_end_open_connections() {
    for state in SYNCHRONIZED {
        for why in HARD {
            let Some((mut l, seq)) = with_something_outstanding(state, plain()) else {
                continue;
            };
            let before = l.state();
            let outcome = l.conn.handle_icmp(l.now, &error(unreachable(why), seq));
            assert_eq!(outcome, IcmpOutcome::Reported);
            assert_eq!(l.state(), before);
        }
    }
}

/// RFC 5927 section 4.1: only SND.UNA <= SEG.SEQ < SND.NXT.
#[test]
fn rfc5927_4_1_the_quoted_sequence_number_must_be_outstanding() {
    let icmp = IcmpPolicy {
        hard_errors: HardErrors::Abort,
        ..IcmpPolicy::default()
    };
    let config = || TcpConfig { icmp, ..plain() };
    let mut l = Lone::established(config());
    l.send(&bytes(2_000));
    l.recv(ack(0, 1_000));
    let una = ISS + 1 + 1_000;
    for kind in [unreachable(Unreachable::Port), SOFT[0], too_big(300)] {
        for seq in [
            una + u32::MAX,
            una + 1_000,
            una + 5_000,
            una + (1 << 31),
            IRS,
        ] {
            let outcome = l.conn.handle_icmp(l.now, &error(kind, seq));
            assert_eq!(outcome, IcmpOutcome::Ignored, "{kind} {seq:?}");
        }
    }
    assert!(l.settle().is_empty());
    assert!(l.events.is_empty());
    for (seq, state) in [
        (
            una + 999,
            State::Closed(CloseReason::Unreachable(Unreachable::Port)),
        ),
        (
            una,
            State::Closed(CloseReason::Unreachable(Unreachable::Port)),
        ),
    ] {
        let mut l = Lone::established(config());
        l.send(&bytes(2_000));
        l.recv(ack(0, 1_000));
        let port = unreachable(Unreachable::Port);
        l.conn.handle_icmp(l.now, &error(port, seq));
        assert_eq!(l.state(), state);
    }
    // While opening it is the SYN's.
    let (mut l, _) = Lone::syn_sent(plain());
    for seq in [ISS + 1, ISS + u32::MAX] {
        let port = unreachable(Unreachable::Port);
        let outcome = l.conn.handle_icmp(l.now, &error(port, seq));
        assert_eq!(outcome, IcmpOutcome::Ignored);
    }
    // Nothing is outstanding.
    let mut l = Lone::established(config());
    for seq in [ISS, ISS + 1, ISS + 2] {
        let port = unreachable(Unreachable::Port);
        let outcome = l.conn.handle_icmp(l.now, &error(port, seq));
        assert_eq!(outcome, IcmpOutcome::Ignored);
    }
    let mut l = in_state(State::TimeWait, config());
    let outcome = l.conn.handle_icmp(l.now, &error(SOFT[0], ISS + 1));
    assert_eq!(outcome, IcmpOutcome::Ignored);
}

// ---- Path MTU.

/// RFC 1191 section 6.4: what was too big leaves again at once in pieces that fit, and it is no
/// sign of congestion.
#[test]
fn rfc1191_6_4_too_big_segments_leave_again_at_once() {
    let mut l = Lone::established(plain());
    let out = l.send(&bytes(4_000));
    assert_eq!(out.len(), 4);
    let cwnd = l.conn.sender().congestion().cwnd();
    let outcome = l.conn.handle_icmp(l.now, &about(too_big(540), &out[0]));
    assert_eq!(outcome, IcmpOutcome::PathMtu(540));
    let again = l.settle();
    let lens: Vec<usize> = again.iter().map(|o| o.data.len()).collect();
    assert_eq!(lens, [500; 8]);
    let stream: Vec<u8> = again.iter().flat_map(|o| o.data.clone()).collect();
    assert_eq!(stream, bytes(4_000));
    let now = l.conn.sender().congestion().cwnd();
    assert_eq!((cwnd.get(), now.get()), (10_000, 5_000), "ten segments");
    assert_eq!(l.conn.sender_stats().timeouts, 0);
    // The same again says nothing new.
    let outcome = l.conn.handle_icmp(l.now, &about(too_big(540), &out[1]));
    assert_eq!(outcome, IcmpOutcome::Ignored);
    assert!(l.settle().is_empty());
    l.recv(ack(0, 4_000));
    assert_eq!(l.conn.unacknowledged(), 0);
    assert!(l.send(&bytes(1_200)).iter().all(|o| o.data.len() <= 500));
}

/// RFC 1191 section 5: an old router does not say how much passes.
#[test]
fn rfc1191_5_without_an_mtu_the_next_plateau_is_tried() {
    let mut l = Lone::established(plain());
    let out = l.send(&bytes(1_000));
    // 1,040 bytes were too many.
    let outcome = l.conn.handle_icmp(l.now, &about(too_big(0), &out[0]));
    assert_eq!(outcome, IcmpOutcome::PathMtu(1_006));
    let again = l.settle();
    assert_eq!(again[0].data.len(), 966);
    let outcome = l.conn.handle_icmp(l.now, &about(too_big(0), &again[0]));
    assert_eq!(outcome, IcmpOutcome::PathMtu(508));
}

/// RFC 1191 section 3, RFC 8201 section 4.
#[test]
fn rfc1191_3_a_path_mtu_is_never_raised_by_an_error() {
    let mut l = Lone::established(plain());
    let out = l.send(&bytes(1_000));
    for mtu in [1_040, 1_500, 65_535, u32::MAX] {
        let outcome = l.conn.handle_icmp(l.now, &about(too_big(mtu), &out[0]));
        assert_eq!(outcome, IcmpOutcome::Ignored);
    }
    assert!(l.settle().is_empty());
}

#[test]
fn rfc1191_3_a_path_mtu_below_68_is_not_believed() {
    let mut l = Lone::established(plain());
    let out = l.send(&bytes(1_000));
    let outcome = l.conn.handle_icmp(l.now, &about(too_big(1), &out[0]));
    assert_eq!(outcome, IcmpOutcome::PathMtu(68));
    // Nor are segments ever smaller than 64 bytes.
    assert!(l.settle()[0].data.len() == 64);
    let icmp = IcmpPolicy {
        min_path_mtu: 552,
        ..IcmpPolicy::default()
    };
    let mut l = Lone::established(TcpConfig { icmp, ..plain() });
    let out = l.send(&bytes(1_000));
    let outcome = l.conn.handle_icmp(l.now, &about(too_big(68), &out[0]));
    assert_eq!(outcome, IcmpOutcome::PathMtu(552));
    let icmp = IcmpPolicy {
        path_mtu: false,
        ..IcmpPolicy::default()
    };
    let mut l = Lone::established(TcpConfig { icmp, ..plain() });
    let out = l.send(&bytes(1_000));
    let outcome = l.conn.handle_icmp(l.now, &about(too_big(500), &out[0]));
    assert_eq!(outcome, IcmpOutcome::Ignored);
}

/// RFC 5927 section 7.2: a claim that contradicts what has arrived waits for a timeout of the
/// segment it is about, and is forgotten if that arrives.
#[test]
fn rfc5927_7_2_a_doubtful_path_mtu_waits_for_a_timeout() {
    let doubted = || {
        let mut l = Lone::established(plain());
        l.send(&bytes(1_000));
        l.recv(ack(0, 1_000));
        let out = l.send(&bytes(2_000));
        let outcome = l.conn.handle_icmp(l.now, &about(too_big(540), &out[0]));
        assert_eq!(outcome, IcmpOutcome::PathMtuPending);
        assert!(l.settle().is_empty());
        l
    };
    // It times out.
    let mut l = doubted();
    let out = l.next_timer();
    assert!(
        !out.is_empty() && out.iter().all(|o| o.data.len() <= 500),
        "{out:?}"
    );
    // It arrives.
    let mut l = doubted();
    l.recv(ack(0, 2_000));
    let out = l.next_timer();
    assert!(!out.is_empty() && out.iter().all(|o| o.data.len() == 1_000));
    // Believed at once is who claims no less than what has arrived.
    for (arrived, believed) in [(501, false), (500, true), (1, true)] {
        let mut l = Lone::established(plain());
        l.send(&bytes(arrived));
        l.recv(ack(0, arrived as i64));
        let out = l.send(&bytes(2_000));
        let outcome = l.conn.handle_icmp(l.now, &about(too_big(540), &out[0]));
        let expected = if believed {
            IcmpOutcome::PathMtu(540)
        } else {
            IcmpOutcome::PathMtuPending
        };
        assert_eq!(outcome, expected, "{arrived}");
    }
}

/// RFC 5927 section 7.2: an acknowledgement of something else leaves the doubt as it is, and a claim
/// that came true lowers what counts as arrived, no further.
#[test]
fn rfc5927_7_2_doubts_last_as_long_as_their_segment() {
    let mut l = Lone::established(plain());
    l.send(&bytes(1_000));
    l.recv(ack(0, 1_000));
    let out = l.send(&bytes(3_000));
    let outcome = l.conn.handle_icmp(l.now, &about(too_big(540), &out[1]));
    assert_eq!(outcome, IcmpOutcome::PathMtuPending);
    // Up to it, and not it.
    l.recv(ack(0, 2_000));
    let out = l.next_timer();
    assert!(
        !out.is_empty() && out.iter().all(|o| o.data.len() <= 500),
        "{out:?}"
    );
    for (mtu, expected) in [
        (539, IcmpOutcome::PathMtuPending),
        (540, IcmpOutcome::Ignored),
    ] {
        let outcome = l.conn.handle_icmp(l.now, &about(too_big(mtu), &out[0]));
        assert_eq!(outcome, expected, "{mtu}");
    }
}

/// What a timeout has borne out is what has arrived: when larger segments are tried again, the same
/// claim about one of them is not doubted a second time.
#[test]
fn rfc5927_7_2_what_was_believed_is_believed_again_at_once() {
    let mut l = Lone::established(plain());
    l.send(&bytes(1_000));
    l.recv(ack(0, 1_000));
    let out = l.send(&bytes(1_000));
    let outcome = l.conn.handle_icmp(l.now, &about(too_big(540), &out[0]));
    assert_eq!(outcome, IcmpOutcome::PathMtuPending);
    l.next_timer();
    l.recv(ack(0, 2_000));
    l.wait(SEC * 601);
    assert_eq!(l.send(&bytes(500))[0].data.len(), 500);
    l.recv(ack(0, 2_500));
    let out = l.send(&bytes(1_000));
    assert_eq!(out[0].data.len(), 1_000);
    let outcome = l.conn.handle_icmp(l.now, &about(too_big(540), &out[0]));
    assert_eq!(outcome, IcmpOutcome::PathMtu(540));
}

/// RFC 5927 section 7.3.5: a connection of small packets. None of them was too big for a link that
/// takes larger ones, and what takes smaller ones only is doubted as ever.
#[test]
fn rfc5927_7_2_a_claim_must_be_below_the_packet_it_is_about() {
    let mut l = Lone::established(plain());
    l.send(&bytes(100));
    l.recv(ack(0, 100));
    let out = Lone::one(l.send(&bytes(110)));
    for (mtu, expected) in [
        (600, IcmpOutcome::Ignored),
        (150, IcmpOutcome::Ignored),
        (139, IcmpOutcome::PathMtuPending),
        (149, IcmpOutcome::PathMtu(149)),
        (148, IcmpOutcome::PathMtu(148)),
        (100, IcmpOutcome::PathMtuPending),
    ] {
        let outcome = l.conn.handle_icmp(l.now, &about(too_big(mtu), &out));
        assert_eq!(outcome, expected, "{mtu}");
    }
    assert_eq!(l.conn.sender().mss().get(), 108);
    // With options in each segment.
    let config = TcpConfig {
        timestamps: TimestampMode::Millis,
        ..plain()
    };
    let mut l = Lone::established_by(config, syn_ack().mss(1_000).ts(1, 1));
    let out = Lone::one(l.send(&bytes(100)));
    for (mtu, expected) in [
        (152, IcmpOutcome::Ignored),
        (151, IcmpOutcome::PathMtu(151)),
    ] {
        let outcome = l.conn.handle_icmp(l.now, &about(too_big(mtu), &out));
        assert_eq!(outcome, expected, "{mtu}");
    }
}

/// RFC 5927 section 5.2: what one connection is told of, even what ends it, is no other's business.
#[test]
fn rfc5927_5_2_a_hard_error_ends_no_other_connection() {
    let tcp = Arc::new(TcpConfig::default());
    let mut a = Host::new(EndpointConfig::new(tcp, [1; 16])).unwrap();
    let (now, remote) = (Instant::ZERO + SEC, addr("10.0.0.2:80"));
    let ids = [40_000, 40_001, 40_002].map(|port| {
        let local = SocketAddr::new([10, 0, 0, 1].into(), port);
        a.connect(now, local, remote, None).unwrap()
    });
    let packets = wire(&mut a, now);
    let kind = unreachable(Unreachable::Port);
    let error = router_says(kind, "10.0.0.2", &packets[1]).unwrap();
    assert_eq!(a.handle_icmp(now, &error), IcmpOutcome::Aborted);
    let states = ids.map(|id| a.connection(id).map(|c| c.state()));
    let closed = State::Closed(CloseReason::Unreachable(Unreachable::Port));
    assert_eq!(
        states,
        [Some(State::SynSent), Some(closed), Some(State::SynSent)]
    );
}

/// RFC 8201 section 4: less than 1,280 is discarded.
#[test]
fn rfc8201_4_ipv6_ignores_an_mtu_below_1280() {
    use narrows::conn::{Connection, Opening};
    let (local, remote) = (addr("[fe80::1]:40000"), addr("[fe80::2]:80"));
    let opening = Opening {
        local,
        remote,
        ..pair::opening(true, ISS.0)
    };
    let config = TcpConfig {
        mss: 1_440,
        ..plain()
    };
    let now = Lone::start();
    let mut conn = Connection::<Boxed<SendRing, RecvRing>>::connect(Arc::new(config), opening, now);
    conn.poll_transmit(now).unwrap();
    conn.handle_segment(now, Default::default(), &syn_ack().mss(1_440).tcp, &[]);
    conn.send(&bytes(3_000), 3_000).unwrap();
    let mut lens = Vec::new();
    while let Some((_, _, view)) = conn.poll_transmit(now) {
        lens.push(view.len());
    }
    assert_eq!(lens, [1_440, 1_440]);
    let about = |kind| IcmpError {
        kind,
        segment: QuotedSegment {
            src: local,
            dst: remote,
            seq: ISS + 1,
        },
    };
    for mtu in [0, 68, 1_279, 1_500] {
        let outcome = conn.handle_icmp(now, &about(too_big(mtu)));
        assert_eq!(outcome, IcmpOutcome::Ignored, "{mtu}");
    }
    let outcome = conn.handle_icmp(now, &about(too_big(1_280)));
    assert_eq!(outcome, IcmpOutcome::PathMtu(1_280));
    let (_, _, view) = conn.poll_transmit(now).unwrap();
    assert_eq!(view.len(), 1_220);
}

/// RFC 1191 section 6.2, RFC 8201 section 5.2: what one connection learns the next to the same
/// host starts with, and after ten minutes a larger one is tried again.
#[test]
fn rfc8201_5_2_the_path_mtu_is_remembered_per_host_and_ages() {
    let tcp = Arc::new(TcpConfig::default());
    let mut config = EndpointConfig::new(tcp, [1; 16]);
    config.metrics = Some(MetricsConfig::default());
    let (mut a, mut b, id, now) = connected_hosts(config);
    a.connection_mut(id)
        .unwrap()
        .send(&bytes(4_000), 4_000)
        .unwrap();
    let sent = wire(&mut a, now);
    assert_eq!(sent[0].len(), 1_500);
    let error = router_says(too_big(1_000), "10.9.9.9", &sent[0]).unwrap();
    assert_eq!(a.handle_icmp(now, &error), IcmpOutcome::PathMtu(1_000));
    assert!(wire(&mut a, now).iter().all(|p| p.len() <= 1_000));

    let mut second = |at: Instant| {
        let id = a
            .connect(at, addr("10.0.0.1:0"), addr("10.0.0.2:80"), None)
            .unwrap();
        for _ in 0..3 {
            carry(at, &mut a, &mut b);
            carry(at, &mut b, &mut a);
        }
        a.connection_mut(id)
            .unwrap()
            .send(&bytes(4_000), 4_000)
            .unwrap();
        wire(&mut a, at).iter().map(Vec::len).max()
    };
    assert_eq!(second(now + SEC), Some(1_000));
    assert_eq!(second(now + SEC * 601), Some(1_500));
}

/// RFC 8201 section 5.2: every connection to that host sends smaller packets from then on, none to
/// another does, and one that has had larger ones acknowledged does not believe it.
#[test]
fn rfc8201_5_2_all_connections_to_the_host_learn_the_path_mtu() {
    let tcp = Arc::new(TcpConfig::default());
    let (mut a, mut b, first, now) = connected_hosts(EndpointConfig::new(tcp.clone(), [1; 16]));
    let mut c = Host::new(EndpointConfig::new(tcp, [3; 16])).unwrap();
    c.listen(addr("10.0.0.3:80"), 9, None).unwrap();
    let open = |a: &mut Host, to: &str, peer: &mut Host| {
        let id = a.connect(now, addr("10.0.0.1:0"), addr(to), None).unwrap();
        for _ in 0..3 {
            carry(now, a, peer);
            carry(now, peer, a);
        }
        id
    };
    let second = open(&mut a, "10.0.0.2:80", &mut b);
    let other = open(&mut a, "10.0.0.3:80", &mut c);
    let full = |host: &mut Host, id: ConnId, at: Instant| {
        let conn = host.connection_mut(id).unwrap();
        conn.send(&bytes(1_448), 1_448).unwrap();
        let sent = wire(host, at);
        (sent[0].len(), sent)
    };
    let (len, sent) = full(&mut a, first, now);
    assert_eq!(len, 1_500);
    let error = router_says(too_big(1_000), "10.9.9.9", &sent[0]).unwrap();
    assert_eq!(a.handle_icmp(now, &error), IcmpOutcome::PathMtu(1_000));
    wire(&mut a, now);
    assert_eq!(full(&mut a, second, now).0, 1_000);
    assert_eq!(full(&mut a, other, now).0, 1_500);
    // A new one, which has had larger ones acknowledged.
    let third = open(&mut a, "10.0.0.3:80", &mut c);
    let (len, sent) = full(&mut a, third, now);
    assert_eq!(len, 1_500);
    let doubtful = open(&mut a, "10.0.0.3:80", &mut c);
    a.connection_mut(doubtful)
        .unwrap()
        .send(&bytes(1_448), 1_448)
        .unwrap();
    for _ in 0..2 {
        carry(now, &mut a, &mut c);
        carry(now + SEC, &mut c, &mut a);
    }
    c.handle_timeout(now + SEC);
    carry(now + SEC, &mut c, &mut a);
    assert_eq!(a.connection(doubtful).unwrap().unacknowledged(), 0);
    let error = router_says(too_big(1_000), "10.9.9.9", &sent[0]).unwrap();
    assert_eq!(a.handle_icmp(now, &error), IcmpOutcome::PathMtu(1_000));
    wire(&mut a, now);
    assert_eq!(full(&mut a, doubtful, now + SEC).0, 1_500);
}

/// RFC 1191 section 6.3: a larger path MTU says nothing of what is on its way.
#[test]
fn rfc1191_6_3_a_larger_path_mtu_retransmits_nothing() {
    let mut l = Lone::established(plain());
    let out = l.send(&bytes(1_000));
    l.conn.handle_icmp(l.now, &about(too_big(540), &out[0]));
    l.settle();
    l.recv(ack(0, 1_000));
    l.wait(SEC * 601);
    assert_eq!(l.send(&bytes(3_000)).len(), 6);
    let before = l.conn.sender_stats().retransmits;
    // The path takes data: segments may be large again, and those outstanding stay as they are.
    assert!(l.recv(ack(0, 1_500)).is_empty());
    assert_eq!(l.conn.sender().mss().get(), 1_000);
    assert!(l.settle().is_empty());
    let new = l.send(&bytes(1_000));
    assert_eq!((new.len(), new[0].seq), (1, 4_000));
    assert_eq!(l.conn.sender_stats().retransmits, before);
}

/// RFC 1191 section 6.3, RFC 8201 section 4: ten minutes after the last complaint segments are
/// large again; who complains then is believed, and waited for anew.
#[test]
fn rfc1191_6_3_a_running_connection_tries_larger_segments_again() {
    let mut l = Lone::established(plain());
    let mut at = 0;
    let mut largest = |l: &mut Lone| {
        let out = l.send(&bytes(2_000));
        at += 2_000;
        (out.iter().map(|o| o.data.len()).max(), at, out)
    };
    for _ in 0..3 {
        let (len, end, out) = largest(&mut l);
        assert_eq!(len, Some(1_000));
        let outcome = l.conn.handle_icmp(l.now, &about(too_big(540), &out[0]));
        assert_eq!(outcome, IcmpOutcome::PathMtu(540));
        assert!(l.settle().iter().all(|o| o.data.len() <= 500));
        l.recv(ack(0, end));
        l.wait(SEC * 599);
        let (len, end, _) = largest(&mut l);
        assert_eq!(len, Some(500), "too early");
        l.wait(SEC / 100);
        l.recv(ack(0, end));
        l.wait(SEC);
        let (len, end, _) = largest(&mut l);
        assert_eq!(
            len,
            Some(500),
            "an ACK is what shows that the path takes data"
        );
        l.recv(ack(0, end));
    }
    // Where the user does not want it.
    let icmp = IcmpPolicy {
        raise_path_mtu: None,
        ..IcmpPolicy::default()
    };
    let mut l = Lone::established(TcpConfig { icmp, ..plain() });
    let out = l.send(&bytes(1_000));
    l.conn.handle_icmp(l.now, &about(too_big(540), &out[0]));
    l.settle();
    l.recv(ack(0, 1_000));
    l.wait(SEC * 10_000);
    l.send(&bytes(500));
    l.recv(ack(0, 1_500));
    let out = l.send(&bytes(1_000));
    assert!(out.len() == 2 && out.iter().all(|o| o.data.len() == 500));
}

/// The ten minutes count from the last router that complained.
#[test]
fn rfc8201_5_3_a_larger_path_mtu_is_tried_ten_minutes_after_the_last_fall() {
    let mut l = Lone::established(plain());
    let mut end = 0;
    // Ten kilobytes; how long the first segment is, and the claim about it.
    let mut send = |l: &mut Lone, claim: Option<u32>| {
        let mut out = l.send(&bytes(10_000));
        let first = out[0].data.len();
        if let Some(mtu) = claim {
            l.conn.handle_icmp(l.now, &about(too_big(mtu), &out[0]));
            l.next_timer();
        }
        while l.conn.unacknowledged() > 0 {
            if let Some(last) = out.last() {
                end = end.max(last.seq + last.data.len() as i64);
            }
            out = l.recv(ack(0, end));
        }
        first
    };
    assert_eq!(send(&mut l, Some(540)), 1_000);
    l.wait(SEC * 400);
    // A second one, which says less: larger ones have arrived before, so it waits for a timeout.
    assert_eq!(send(&mut l, Some(440)), 500);
    // The path shows that it takes data each time.
    for wait in [198, 200, 200] {
        l.wait(SEC * wait);
        assert_eq!(send(&mut l, None), 400, "too early");
    }
    l.wait(SEC * 2);
    send(&mut l, None);
    assert_eq!(send(&mut l, None), 1_000);
}

/// RFC 8201 section 5.4: whatever the path takes, the peer's MSS is the limit.
#[test]
fn rfc8201_5_4_a_larger_path_mtu_stays_within_the_peers_mss() {
    let mut l = Lone::established_by(plain(), syn_ack().mss(700));
    let out = l.send(&bytes(2_100));
    assert_eq!(out[0].data.len(), 700);
    l.conn.handle_icmp(l.now, &about(too_big(540), &out[0]));
    assert!(l.settle().iter().all(|o| o.data.len() <= 500));
    l.recv(ack(0, 2_100));
    l.wait(SEC * 601);
    assert_eq!(l.send(&bytes(1_000))[0].data.len(), 500);
    l.recv(ack(0, 3_100));
    let out = l.send(&bytes(2_100));
    assert_eq!(out.iter().map(|o| o.data.len()).max(), Some(700));
}

/// RFC 1191 section 3.1: the MSS option says what this host takes, which no path makes less: neither
/// one remembered nor one that a router tells of while the SYN is under way.
#[test]
fn rfc1191_3_1_the_mss_option_does_not_follow_the_path_mtu() {
    let mut opening = pair::opening(true, ISS.0);
    opening.metrics.path_mtu = Some(600);
    let now = Lone::start();
    let config = Arc::new(plain());
    let mut conn = pair::Conn::connect(config.clone(), opening, now);
    assert_eq!(conn.poll_transmit(now).unwrap().1.options.mss, Some(1_000));
    let mut opening = pair::opening(true, ISS.0);
    opening.metrics.path_mtu = Some(600);
    let mut conn = pair::Conn::accept(config, opening, &syn().mss(9_000).tcp, now);
    assert_eq!(conn.poll_transmit(now).unwrap().1.options.mss, Some(1_000));
    let (mut l, first) = Lone::syn_sent(plain());
    l.conn.handle_icmp(l.now, &about(too_big(600), &first));
    let again = Lone::one(l.next_timer());
    assert_eq!(again.tcp.options.mss, Some(1_000));
}

/// RFC 5927 section 7: a stepping stone of claims, each a byte less than the one before, is believed
/// a few times about a path and not 1,411; and however many connections there are to that host, none
/// is touched before it sends.
#[test]
fn rfc5927_7_claims_about_a_path_are_budgeted_and_cost_its_connections_nothing() {
    let tcp = Arc::new(TcpConfig::default());
    let (mut a, mut b, first, now) = connected_hosts(EndpointConfig::new(tcp, [1; 16]));
    let mut others: Vec<_> = (0..200)
        .map(|_| {
            let to = addr("10.0.0.2:80");
            let id = a.connect(now, addr("10.0.0.1:0"), to, None).unwrap();
            for _ in 0..3 {
                carry(now, &mut a, &mut b);
                carry(now, &mut b, &mut a);
            }
            b.handle_timeout(now);
            while a.poll_event().is_some() || b.poll_event().is_some() {}
            id
        })
        .collect();
    others.retain(|id| a.connection(*id).unwrap().state() == State::Established);
    assert!(others.len() > 100, "{}", others.len());
    let conn = a.connection_mut(first).unwrap();
    conn.send(&bytes(1_448), 1_448).unwrap();
    let sent = wire(&mut a, now);
    let mut believed = 0;
    for mtu in (89..1_500).rev() {
        let error = router_says(too_big(mtu), "10.9.9.9", &sent[0]).unwrap();
        believed += u32::from(matches!(
            a.handle_icmp(now, &error),
            IcmpOutcome::PathMtu(_)
        ));
    }
    assert!((1..=16).contains(&believed), "{believed}");
    assert!(a.stats().path_mtu_refused > 1_000);
    let mss = |a: &Host, id| a.connection(id).unwrap().sender().mss().get();
    assert!(others.iter().all(|id| mss(&a, *id) == 1_448));
    // A genuine one of a moment later is.
    wire(&mut a, now + SEC);
    let error = router_says(too_big(600), "10.9.9.9", &sent[0]).unwrap();
    assert_eq!(a.handle_icmp(now + SEC, &error), IcmpOutcome::PathMtu(600));
    // And each hears of it in time.
    let sender = a.connection_mut(others[7]).unwrap();
    sender.send(&bytes(1_448), 1_448).unwrap();
    assert_eq!(wire(&mut a, now + SEC)[0].len(), 600);
}
