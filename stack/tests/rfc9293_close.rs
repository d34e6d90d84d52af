//! RFC 9293 sections 3.5.3 and 3.6: resets, closing, TIME-WAIT. Each test is named for its
//! requirement.

use crate::pair::lone::{Lone, ack, in_state, plain, seg, text};
use narrows::config::{Lifetimes, TcpConfig, TimestampMode};
use narrows::conn::Event;
use narrows::conn::state::{CloseReason, State};
use narrows::endpoint::{Endpoint, EndpointConfig};
use narrows::wire::{Flags, IpHeader, Seq, TcpHeader, Timestamps};
use narrows::{Duration, Instant};
use std::sync::Arc;

const SYN: Flags = Flags::SYN;
const ACK: Flags = Flags::ACK;
const FIN: Flags = Flags::FIN;
const RST: Flags = Flags::RST;
const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);

#[test]
fn shld_2_a_reset_may_carry_data() {
    let mut l = Lone::established(plain());
    l.recv(seg(RST, 0, 0).data(b"because"));
    assert_eq!(l.state(), State::Closed(CloseReason::Reset));
    assert_eq!(l.conn.readable(), 0, "the reason is no data");
}

/// Whether the connection was closed or aborted by the peer.
#[test]
fn must_12_the_user_is_told_whether_it_was_closed_or_aborted() {
    let mut closed = Lone::established(plain());
    closed.recv(ack(0, 0).and(FIN));
    assert_eq!(closed.events, [Event::PeerClosed]);
    closed.close();
    closed.recv(ack(1, 1));
    let end = Event::Closed(CloseReason::Finished);
    assert_eq!(closed.events, [Event::PeerClosed, end]);

    let mut aborted = Lone::established(plain());
    aborted.recv(seg(RST, 0, 0));
    assert_eq!(aborted.events, [Event::Closed(CloseReason::Reset)]);
    let error = aborted.conn.send(b"x", 1).unwrap_err();
    assert_eq!(error.to_string(), "connection reset by peer");
}

/// One who closes and is not going to read: data then is answered with a RST.
#[test]
fn shld_3_a_reset_tells_that_data_was_lost() {
    // Data was pending.
    let mut l = Lone::established(plain());
    l.recv(text(0, 0, b"unread"));
    l.conn.release(l.now);
    assert!(Lone::one(l.settle()).has(RST));
    // It comes later.
    let mut l = Lone::established(plain());
    l.conn.release(l.now);
    assert!(Lone::one(l.settle()).has(FIN));
    assert!(Lone::one(l.recv(text(0, 1, b"late"))).has(RST));
}

#[test]
fn may_1_half_duplex_close_is_there_for_who_wants_it() {
    let mut l = Lone::established(plain());
    l.conn.release(l.now);
    l.settle();
    assert_eq!(l.state(), State::FinWait1);
    l.recv(ack(0, 1));
    assert_eq!(l.state(), State::FinWait2);
    // An ordinary close goes on reading.
    let mut l = Lone::established(plain());
    l.close();
    l.recv(text(0, 1, b"more"));
    assert_eq!(l.conn.readable(), 4);
}

/// From each way into TIME-WAIT, to the nanosecond; the default is one minute.
#[test]
fn must_13_time_wait_lingers_two_msl() {
    assert_eq!(TcpConfig::default().lifetimes.time_wait, SEC * 60);
    let config = || TcpConfig {
        lifetimes: Lifetimes {
            time_wait: SEC * 240,
            ..plain().lifetimes
        },
        ..plain()
    };
    let through_closing = || {
        let mut l = in_state(State::Closing, config());
        l.recv(ack(1, 1));
        l
    };
    for mut l in [in_state(State::TimeWait, config()), through_closing()] {
        assert_eq!(l.state(), State::TimeWait);
        assert!(l.wait(SEC * 240 - MS).is_empty());
        assert_eq!(l.state(), State::TimeWait);
        l.wait(MS);
        assert_eq!(l.state(), State::Closed(CloseReason::Finished));
    }
    // Who is closed on does not wait.
    let mut l = in_state(State::LastAck, config());
    l.recv(ack(1, 1));
    assert_eq!(l.state(), State::Closed(CloseReason::Finished));
}

// ---- Out of TIME-WAIT.

type Host = Endpoint<narrows::conn::Boxed<narrows::buffer::SendRing, narrows::buffer::RecvRing>>;

/// A server host with a connection in TIME-WAIT, that ended with the peer's sequence number 1,000
/// and, if so, timestamp 5,000; and our last.
fn time_wait(stamps: bool) -> (Host, Instant, Seq) {
    let tcp = TcpConfig {
        timestamps: if stamps {
            TimestampMode::Millis
        } else {
            TimestampMode::Off
        },
        ..TcpConfig::default()
    };
    let mut h = Host::new(EndpointConfig::new(Arc::new(tcp), [1; 16])).unwrap();
    let now = Instant::ZERO + SEC * 100;
    h.listen("10.0.0.2:80".parse().unwrap(), 9, None).unwrap();
    let ts = stamps.then_some(5_000);
    let first = give(&mut h, now, SYN, 998, 0, ts).unwrap();
    give(&mut h, now, ACK, 999, first.seq.0 + 1, ts);
    let Some(narrows::endpoint::EndpointEvent::Accepted { conn, .. }) = h.poll_event() else {
        panic!("not accepted")
    };
    h.connection_mut(conn).unwrap().close(now);
    while h.poll_transmit(now).is_some() {}
    give(&mut h, now, ACK | FIN, 999, first.seq.0 + 2, ts);
    assert_eq!(h.connection(conn).unwrap().state(), State::TimeWait);
    h.release(conn, now);
    (h, now + SEC, first.seq + 2)
}

/// A segment of the peer; the answer.
fn give(
    h: &mut Host,
    now: Instant,
    flags: Flags,
    seq: u32,
    ack: u32,
    ts: Option<u32>,
) -> Option<TcpHeader> {
    let ip = IpHeader {
        src: "10.0.0.1".parse().unwrap(),
        dst: "10.0.0.2".parse().unwrap(),
        ecn: Default::default(),
        dscp: 0,
        hop_limit: 64,
    };
    let mut tcp = TcpHeader {
        src_port: 5_000,
        dst_port: 80,
        seq: Seq(seq),
        ack: Seq(ack),
        flags,
        window: 9_000,
        ..TcpHeader::default()
    };
    tcp.options.timestamps = ts.map(|val| Timestamps { val, ecr: 0 });
    h.handle_packet(now, &ip, &tcp, &[]);
    let mut out = Vec::new();
    while let Some((_, tcp, _)) = h.poll_transmit(now) {
        out.push(tcp);
    }
    assert!(out.len() <= 1);
    out.pop()
}

/// With an initial sequence number larger than all that the old incarnation used; and an old
/// duplicate SYN leaves TIME-WAIT as it is.
#[test]
fn may_2_a_new_syn_reopens_from_time_wait() {
    let (mut h, now, our_last) = time_wait(false);
    let answer = give(&mut h, now, SYN, 900, 0, None).unwrap();
    assert_eq!(answer.flags, ACK, "an old one is answered, not believed");
    assert_eq!(h.stats().time_wait_reuses, 0);
    let answer = give(&mut h, now, SYN, 1_001, 0, None).unwrap();
    assert_eq!(answer.flags, SYN | ACK);
    assert!(answer.seq.after(our_last));
    assert_eq!(h.stats().time_wait_reuses, 1);
}

/// RFC 6191: with timestamps a newer one decides, whatever the sequence number.
#[test]
fn shld_4_timestamps_shorten_time_wait() {
    for (seq, ts, reopens) in [
        (900, 5_001, true),
        (5_000, 5_001, true),
        (900, 4_999, false),
        (5_000, 4_999, false),
        (900, 5_000, false),
        (5_000, 5_000, true),
    ] {
        let (mut h, now, _) = time_wait(true);
        let answer = give(&mut h, now, SYN, seq, 0, Some(ts)).unwrap();
        let want = if reopens { SYN | ACK } else { ACK };
        assert_eq!(answer.flags, want, "{seq} {ts}");
    }
}
