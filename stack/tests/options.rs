//! Options: MSS (RFC 9293 section 3.7.1), window scale, timestamps and PAWS (RFC 7323), SACK
//! (RFC 2018) and D-SACK (RFC 2883).

use crate::pair;
use crate::pair::bytes;
use crate::pair::lone::{IRS, Lone, Out, Seg, ack, plain, seg, syn, syn_ack, text};
use narrows::config::{Buffers, EcnMode, Keepalive, Lifetimes, TcpConfig, TimestampMode};
use narrows::conn::state::State;
use narrows::recovery::detector;
use narrows::wire::{Flags, Timestamps};
use narrows::{Duration, Instant};

const ACK: Flags = Flags::ACK;
const FIN: Flags = Flags::FIN;
const RST: Flags = Flags::RST;
const SYN: Flags = Flags::SYN;

fn stamped() -> TcpConfig {
    TcpConfig {
        timestamps: TimestampMode::Millis,
        ..plain()
    }
}
fn sacked() -> TcpConfig {
    TcpConfig {
        sack: true,
        ..plain()
    }
}
fn with_sack() -> Lone {
    Lone::established_by(sacked(), syn_ack().mss(1_000).sack_ok())
}
/// The SACK blocks, in stream offsets.
fn blocks(out: &Out) -> Vec<(i64, i64)> {
    let rel = |s: narrows::wire::Seq| i64::from(s.0.wrapping_sub((IRS + 1).0) as i32);
    out.tcp
        .options
        .sack
        .as_slice()
        .iter()
        .map(|b| (rel(b.start), rel(b.end)))
        .collect()
}

// ---- MSS.

#[test]
fn must_15_no_mss_option_means_536() {
    let mut l = Lone::established_by(plain(), syn_ack());
    assert!(l.send(&bytes(5_000)).iter().all(|o| o.data.len() <= 536));
    let (mut l, _) = Lone::syn_received(plain(), &syn());
    l.recv(ack(0, 0));
    assert_eq!(l.send(&bytes(5_000))[0].data.len(), 536);
}

#[test]
fn must_16_never_above_the_peers_mss_or_our_own() {
    for mss in [64, 65, 100, 536, 999, 1_000, 1_001, 9_000, u16::MAX] {
        let mut l = Lone::established_by(plain(), syn_ack().mss(mss));
        let longest = l
            .send(&bytes(20_000))
            .iter()
            .map(|o| o.data.len())
            .max()
            .unwrap();
        assert_eq!(longest, usize::from(mss.min(1_000)));
    }
}

#[test]
fn options_are_taken_off_the_segment() {
    for mss in [64, 536, 1_000, 9_000] {
        let mut l = Lone::established_by(stamped(), syn_ack().mss(mss).ts(1, 0));
        let out = l.send(&bytes(20_000));
        let longest = out
            .iter()
            .map(|o| o.data.len() + o.tcp.options.wire_len())
            .max()
            .unwrap();
        assert_eq!(longest, usize::from(mss.min(1_000)));
    }
}

/// With out-of-order data held, SACK blocks do not push a data segment over the limit.
#[test]
fn sack_blocks_are_taken_off_the_segment() {
    let config = TcpConfig {
        sack: true,
        ..stamped()
    };
    let mut l = Lone::established_by(config, syn_ack().mss(700).ts(1, 0).sack_ok());
    l.conn.send(&bytes(6_000), 6_000).unwrap();
    l.conn.handle_segment(
        l.now,
        narrows::wire::Ecn::NotEct,
        &text(2_000, 0, b"").ts(1, 0).tcp,
        b"xxxx",
    );
    let out = l.settle();
    assert!(out.iter().any(|o| !o.tcp.options.sack.is_empty()));
    assert!(
        out.iter()
            .all(|o| o.data.len() + o.tcp.options.wire_len() <= 700),
        "{out:#?}"
    );
}

#[test]
fn a_tiny_mss_is_raised_to_something_usable() {
    for mss in [0, 1, 12, 63] {
        let mut l = Lone::established_by(stamped(), syn_ack().mss(mss).ts(1, 0));
        let out = l.send(&bytes(1_000));
        assert!(
            out.iter().all(|o| (1..=64).contains(&o.data.len())),
            "{mss}"
        );
    }
}

#[test]
fn options_of_a_syn_do_not_count_later() {
    let mut l = Lone::established(plain());
    l.recv(ack(0, 0).mss(64).scale(3).sack_ok());
    assert_eq!(l.send(&bytes(5_000))[0].data.len(), 1_000);
    assert!(!l.conn.sack_in_use());
    assert_eq!(l.conn.peer_window(), 65_535);
}

#[test]
fn a_smaller_path_mtu_shrinks_segments() {
    let mut l = Lone::established(plain());
    l.conn.handle_path_mtu(l.now, 540);
    assert!(l.send(&bytes(3_000)).iter().all(|o| o.data.len() <= 500));
    l.conn.handle_path_mtu(l.now, 9_000);
    l.conn.handle_path_mtu(l.now, 0);
    l.recv(ack(0, 3_000));
    assert!(l.send(&bytes(500)).iter().all(|o| o.data.len() <= 64));
}

// ---- Window scale.

fn scaling() -> TcpConfig {
    TcpConfig {
        window_scaling: true,
        buffers: Buffers {
            recv: 1 << 20,
            ..plain().buffers
        },
        ..plain()
    }
}

#[test]
fn rfc7323_2_2_scaling_needs_both() {
    let (_, s) = Lone::syn_sent(scaling());
    assert_eq!(
        s.tcp.options.window_scale,
        Some(5),
        "2^20 >> 5 fits 16 bits"
    );
    assert_eq!(s.tcp.window, u16::MAX, "the window of a SYN is not scaled");
    // The peer does not.
    let mut l = Lone::established_by(scaling(), syn_ack().mss(1_000));
    l.recv(ack(0, 0).win(10));
    assert_eq!(l.conn.peer_window(), 10);
    assert_eq!(Lone::one(l.recv(text(0, 0, b"x"))).tcp.window, u16::MAX - 1);
    // We do not.
    let (mut l, s) = Lone::syn_sent(plain());
    assert_eq!(s.tcp.options.window_scale, None);
    l.recv(syn_ack().scale(7).win(10));
    l.recv(ack(0, 0).win(10));
    assert_eq!(l.conn.peer_window(), 10);
    // The SYN-ACK offers only what was offered.
    let (_, out) = Lone::syn_received(scaling(), &syn());
    assert_eq!(out.tcp.options.window_scale, None);
    let (_, out) = Lone::syn_received(scaling(), &syn().scale(0));
    assert_eq!(out.tcp.options.window_scale, Some(5));
}

#[test]
fn rfc7323_2_2_windows_are_scaled_both_ways() {
    let mut l = Lone::established_by(scaling(), syn_ack().mss(1_000).scale(3).win(50_000));
    assert_eq!(l.conn.peer_window(), 50_000, "not on the SYN-ACK");
    l.recv(ack(0, 0).win(50_000));
    assert_eq!(l.conn.peer_window(), 400_000);
    let out = Lone::one(l.recv(text(0, 0, &bytes(1_000))));
    assert_eq!(
        i64::from(out.tcp.window) << 5,
        (1 << 20) - 992,
        "up to a granule"
    );
}

#[test]
fn the_window_of_a_syn_ack_with_data_is_not_scaled_either() {
    let (mut l, _) = Lone::syn_sent(scaling());
    l.recv(syn_ack().scale(7).win(8_192).data(b"hello"));
    assert_eq!(l.conn.peer_window(), 8_192);
    let (mut l, _) = Lone::syn_sent(scaling());
    l.recv(syn().scale(7).win(8_192));
    l.recv(syn_ack().scale(7).win(8_192));
    assert_eq!(l.state(), State::Established);
    assert_eq!(l.conn.peer_window(), 8_192);
}

#[test]
fn rfc7323_2_3_a_shift_above_14_is_14() {
    for shift in [15, 16, 31, 32, 255] {
        let mut l = Lone::established_by(scaling(), syn_ack().scale(shift));
        l.recv(ack(0, 0).win(u16::MAX));
        assert_eq!(l.conn.peer_window(), 65_535 << 14);
    }
}

#[test]
fn rfc7323_2_2_the_window_of_a_syn_is_not_scaled() {
    let (l, _) = Lone::syn_received(scaling(), &syn().scale(4).win(1_000));
    assert_eq!(l.conn.peer_window(), 1_000);
    let (mut l, _) = Lone::syn_sent(scaling());
    l.recv(syn().scale(4).win(1_000));
    assert_eq!(l.conn.peer_window(), 1_000, "of a crossing SYN");
}

/// Whether both ends scale or neither, and by how much, is settled by the SYNs.
#[test]
fn rfc7323_2_2_window_scale_in_a_segment_without_syn_is_ignored() {
    // Neither scales.
    let mut l = Lone::established_by(scaling(), syn_ack().mss(1_000));
    for _ in 0..2 {
        let out = Lone::one(l.recv(text(0, 0, b"x").scale(3).win(10_000)));
        assert_eq!(l.conn.peer_window(), 10_000);
        assert_eq!(out.tcp.window, u16::MAX - 1);
    }
    // Nor with the ACK that ends the handshake.
    let (mut l, _) = Lone::syn_received(scaling(), &syn());
    l.recv(ack(0, 0).scale(3).win(10_000));
    assert_eq!(l.conn.peer_window(), 10_000);
    let out = Lone::one(l.recv(text(0, 0, b"x").win(10_000)));
    assert_eq!(l.conn.peer_window(), 10_000);
    assert_eq!(out.tcp.window, u16::MAX - 1);
    // Both do.
    let (mut l, _) = Lone::syn_received(scaling(), &syn().scale(4));
    l.recv(ack(0, 0).scale(3).win(1_000));
    l.recv(ack(0, 0).scale(7).win(1_000));
    assert_eq!(l.conn.peer_window(), 16_000);
    l.recv(ack(0, 0).win(1_000));
    assert_eq!(l.conn.peer_window(), 16_000);
}

#[test]
fn the_handshake_ack_of_a_passive_open_is_scaled() {
    let (mut l, _) = Lone::syn_received(scaling(), &syn().scale(4).win(1_000));
    l.recv(ack(0, 0).win(1_000));
    assert_eq!(l.conn.peer_window(), 16_000);
}

// ---- Timestamps.

#[test]
fn rfc7323_3_2_timestamps_need_both() {
    let (_, s) = Lone::syn_sent(stamped());
    assert_eq!(
        s.tcp.options.timestamps.map(|t| t.ecr),
        Some(0),
        "TSecr is 0 on a SYN"
    );
    // The peer does not.
    let mut l = Lone::established_by(stamped(), syn_ack().mss(1_000));
    assert_eq!(Lone::one(l.send(b"x")).tcp.options.timestamps, None);
    l.recv(ack(0, 1).ts(5, 5));
    assert_eq!(Lone::one(l.send(b"x")).tcp.options.timestamps, None);
    // We do not.
    let mut l = Lone::established_by(plain(), syn_ack().ts(1, 1));
    l.peer_ts = None;
    assert_eq!(Lone::one(l.send(b"x")).tcp.options.timestamps, None);
    // The SYN-ACK has the option only if the SYN had, and then echoes.
    let (_, out) = Lone::syn_received(stamped(), &syn());
    assert_eq!(out.tcp.options.timestamps, None);
    let (_, out) = Lone::syn_received(stamped(), &syn().ts(77, 0));
    assert_eq!(out.tcp.options.timestamps.map(|t| t.ecr), Some(77));
}

#[test]
fn rfc7323_3_2_every_segment_carries_the_option() {
    let mut l = Lone::established_by(stamped(), syn_ack().mss(1_000).ts(7, 0));
    let mut out = l.send(&bytes(3_000));
    out.extend(l.recv(text(0, 3_000, b"x")));
    out.extend(l.close());
    out.extend(l.wait(Duration::from_secs(3)));
    assert!(out.len() > 5);
    assert!(
        out.iter()
            .all(|o| o.tcp.options.timestamps.is_some_and(|t| t.ecr == 7))
    );
}

/// What TCP sends of its own accord has it, too.
#[test]
fn rfc7323_3_2_probes_and_keepalives_carry_the_option() {
    let keepalive = Keepalive {
        idle: Duration::from_secs(10),
        ..Keepalive::default()
    };
    let config = TcpConfig {
        lifetimes: Lifetimes {
            keepalive: Some(keepalive),
            ..stamped().lifetimes
        },
        ..stamped()
    };
    let stamps = |out: &Out| out.tcp.options.timestamps.map(|t| t.ecr);
    let mut l = Lone::established_by(config.clone(), syn_ack().mss(1_000).ts(7, 0));
    let out = Lone::one(l.wait(Duration::from_secs(11)));
    assert_eq!((out.seq, out.data.len(), stamps(&out)), (-1, 0, Some(7)));
    // A window probe.
    let mut l = Lone::established_by(config, syn_ack().mss(1_000).win(0).ts(7, 0));
    assert!(l.send(b"xy").is_empty());
    let out = Lone::one(l.next_timer());
    assert_eq!((out.data.len(), stamps(&out)), (1, Some(7)));
    // A challenge ACK.
    let out = Lone::one(l.recv(seg(SYN, 5, 0)));
    assert_eq!(stamps(&out), Some(7));
}

#[test]
fn rfc7323_3_2_where_it_was_not_agreed_it_is_ignored() {
    let peers_did_not = Lone::established_by(stamped(), syn_ack().mss(1_000));
    let mut we_did_not = Lone::established_by(plain(), syn_ack().mss(1_000).ts(1_000, 0));
    we_did_not.peer_ts = None;
    for mut l in [peers_did_not, we_did_not] {
        // Older and older, with echoes of what was never said.
        for (at, val) in [(0, 900), (1, 500), (2, 0), (3, 1 << 31)] {
            let out = Lone::one(l.recv(text(at, 0, b"x").ts(val, 77)));
            assert_eq!((out.ack, out.tcp.options.timestamps), (at + 1, None));
        }
        assert_eq!(l.conn.readable(), 4);
    }
}

/// TSecr says something only where the ACK bit is set.
#[test]
fn rfc7323_3_2_tsecr_without_ack_is_ignored() {
    // Five seconds ago, says a SYN that crosses ours.
    let (mut l, ours) = Lone::syn_sent(stamped());
    let val = ours.tcp.options.timestamps.unwrap().val;
    l.now = l.now + Duration::from_millis(10);
    l.recv(syn().mss(1_000).ts(7, val.wrapping_sub(5_000)));
    assert_eq!(l.conn.sender().rtt().samples(), 0);
    l.recv(ack(0, 0).ts(8, val));
    assert_eq!(l.state(), State::Established);
    // Nor does its answer measure anything: our SYN has left twice.
    assert_eq!(l.conn.sender().rtt().srtt(), None);
    // So says a segment without ACK, which is dropped.
    let mut l = Lone::established_by(stamped(), syn_ack().mss(1_000).ts(7, 0));
    let stamp = Lone::one(l.send(b"x")).tcp.options.timestamps.unwrap();
    let before = *l.conn.sender().rtt();
    for flags in [Flags::NONE, FIN, Flags::PSH] {
        let seg = seg(flags, 0, 0).data(b"y").ts(8, stamp.val - 5_000);
        assert!(l.recv(seg).is_empty());
    }
    assert_eq!(*l.conn.sender().rtt(), before);
    assert_eq!((l.conn.readable(), l.conn.unacknowledged()), (0, 1));
    assert_eq!(l.state(), State::Established);
}

/// Section 5.3: PAWS is for what arrives. What is held out of order has passed it, and is taken
/// though what fills the hole before it is younger.
#[test]
fn rfc7323_5_3_what_is_held_is_not_checked_again() {
    let mut l = Lone::established_by(stamped(), syn_ack().ts(10, 0));
    l.recv(text(1, 0, b"B").ts(20, 0));
    l.recv(text(3, 0, b"D").ts(21, 0));
    let out = Lone::one(l.recv(text(0, 0, b"A").ts(30, 0)));
    assert_eq!((out.ack, ecr(&out)), (2, 30));
    // Older than TS.Recent now, it would not be taken if it came again.
    let out = Lone::one(l.recv(text(3, 0, b"D").ts(21, 0)));
    assert_eq!((out.ack, ecr(&out)), (2, 30));
    let out = Lone::one(l.recv(text(2, 0, b"C").ts(31, 0)));
    assert_eq!((out.ack, ecr(&out)), (4, 31));
    assert_eq!(l.read().0, b"ABCD");
}

#[test]
fn rfc7323_3_2_a_segment_without_the_option_is_dropped() {
    let mut l = Lone::established_by(stamped(), syn_ack().ts(7, 0));
    assert!(l.recv(text(0, 0, b"x").no_ts()).is_empty());
    assert_eq!(l.conn.readable(), 0);
    assert!(l.recv(seg(FIN | ACK, 0, 0).no_ts()).is_empty());
    assert_eq!(l.state(), State::Established);
    // But not a RST.
    l.recv(seg(RST, 0, 0).no_ts());
    assert!(matches!(l.state(), State::Closed(_)));
}

fn ecr(out: &Out) -> u32 {
    out.tcp.options.timestamps.unwrap().ecr
}

#[test]
fn rfc7323_5_3_r1_old_timestamps_are_rejected_with_an_ack() {
    let mut l = Lone::established_by(stamped(), syn_ack().ts(1_000, 0));
    let old = Lone::one(l.recv(text(0, 0, b"old").ts(999, 0)));
    assert_eq!((old.ack, ecr(&old)), (0, 1_000));
    assert_eq!(l.conn.readable(), 0);
    // "Old" is on the circle.
    let old = Lone::one(l.recv(text(0, 0, b"old").ts(1_000_u32.wrapping_sub(1 << 31) + 1, 0)));
    assert_eq!(old.ack, 0);
    assert_eq!(
        Lone::one(l.recv(text(0, 0, b"new").ts(1_000, 0))).ack,
        3,
        "equal is not old"
    );
    assert_eq!(Lone::one(l.recv(text(3, 0, b"new").ts(1_001, 0))).ack, 6);
}

#[test]
fn rfc7323_5_3_rst_is_not_subject_to_paws() {
    let mut l = Lone::established_by(stamped(), syn_ack().ts(1_000, 0));
    l.recv(seg(RST, 0, 0).ts(1, 0));
    assert!(matches!(l.state(), State::Closed(_)));
}

#[test]
fn rfc7323_4_3_ts_recent_follows_the_left_edge() {
    // Case (A): a delayed ACK echoes the earliest of the segments it covers.
    let delayed = narrows::config::AckPolicy {
        delay: Duration::from_millis(40),
        every: 2,
        quick_acks: 0,
    };
    let mut l = Lone::established_by(
        TcpConfig {
            ack: delayed,
            ..stamped()
        },
        syn_ack().mss(1_000).ts(10, 0),
    );
    assert!(l.recv(text(0, 0, b"A").ts(11, 0)).is_empty());
    let out = Lone::one(l.recv(text(1, 0, b"B").ts(12, 0)));
    assert_eq!((out.ack, ecr(&out)), (2, 11));
    // Case (B): a gap; what lies beyond it does not count.
    let mut l = Lone::established_by(stamped(), syn_ack().ts(10, 0));
    assert_eq!(ecr(&Lone::one(l.recv(text(0, 0, b"A").ts(11, 0)))), 11);
    assert_eq!(ecr(&Lone::one(l.recv(text(2, 0, b"C").ts(13, 0)))), 11);
    assert_eq!(ecr(&Lone::one(l.recv(text(3, 0, b"D").ts(14, 0)))), 11);
    assert_eq!(ecr(&Lone::one(l.recv(text(1, 0, b"B").ts(12, 0)))), 12);
    assert_eq!(ecr(&Lone::one(l.recv(text(4, 0, b"E").ts(15, 0)))), 15);
    // A keepalive or an old segment with a newer stamp counts: it starts before the edge.
    assert_eq!(
        ecr(&Lone::one(l.recv(text(4, 0, b"E").ts(99, 0)))),
        15,
        "unacceptable does not"
    );
}

/// Section 4.3 step 2: SEG.SEQ <= Last.ACK.sent, so a segment that begins with what was acknowledged
/// before and goes on beyond it moves TS.Recent.
#[test]
fn rfc7323_4_3_a_segment_from_before_the_edge_counts() {
    let mut l = Lone::established_by(stamped(), syn_ack().ts(10, 0));
    assert_eq!(ecr(&Lone::one(l.recv(text(0, 0, b"AB").ts(11, 0)))), 11);
    let out = Lone::one(l.recv(text(1, 0, b"BC").ts(12, 0)));
    assert_eq!((out.ack, ecr(&out)), (3, 12));
    let out = Lone::one(l.recv(text(0, 0, b"ABCD").ts(13, 0)));
    assert_eq!((out.ack, ecr(&out)), (4, 13));
    // One that begins behind it does not, though it is next but one.
    let out = Lone::one(l.recv(text(5, 0, b"F").ts(14, 0)));
    assert_eq!((out.ack, ecr(&out)), (4, 13));
}

#[test]
fn an_unacceptable_ack_does_not_move_ts_recent() {
    let mut l = Lone::established_by(stamped(), syn_ack().ts(10, 0));
    l.recv(text(0, 50_000, b"forged").ts(1 << 30, 0));
    assert_eq!(Lone::one(l.recv(text(0, 0, b"A").ts(11, 0))).ack, 1);
}

/// RFC 7323 section 5.5: after a long silence TS.Recent is no judge, and the peer's clock is
/// taken from the next segment.
#[test]
fn rfc7323_5_5_ts_recent_expires() {
    let mut l = Lone::established_by(stamped(), syn_ack().ts(1 << 30, 0));
    l.now = l.now + Duration::from_secs(25 * 24 * 3_600);
    let out = Lone::one(l.recv(text(0, 0, b"A").ts(3, 0)));
    assert_eq!((out.ack, ecr(&out)), (1, 3));
    assert_eq!(Lone::one(l.recv(text(1, 0, b"B").ts(4, 0))).ack, 2);
    assert_eq!(
        Lone::one(l.recv(text(2, 0, b"C").ts(2, 0))).ack,
        2,
        "and PAWS works again"
    );
}

/// A clock of microseconds goes half around in 36 minutes.
#[test]
fn an_hour_of_silence_does_not_wedge_a_microsecond_clock() {
    let config = TcpConfig {
        timestamps: TimestampMode::Micros,
        ..plain()
    };
    let mut p = pair::Pair::connected(config.clone(), config);
    p.run_for(Duration::from_secs(3_000));
    let data = bytes(100_000);
    p.transfer(&data, Duration::from_secs(10));
    assert!(p.server_got == data, "{}", p.server_got.len());
    p.run_for(Duration::from_secs(2_200));
    p.transfer(&data, Duration::from_secs(10));
    assert_eq!(p.server_got.len(), 200_000);
}

#[test]
fn our_clock_ticks_in_the_configured_unit() {
    for (mode, ticks) in [
        (TimestampMode::Millis, 2_000),
        (TimestampMode::Micros, 2_000_000),
    ] {
        let config = TcpConfig {
            timestamps: mode,
            ..plain()
        };
        let mut l = Lone::established_by(config, syn_ack().mss(1_000).ts(1, 0));
        let a = Lone::one(l.send(b"x")).tcp.options.timestamps.unwrap().val;
        l.recv(ack(0, 1));
        l.wait(Duration::from_secs(2));
        let b = Lone::one(l.send(b"x")).tcp.options.timestamps.unwrap().val;
        assert_eq!(b.wrapping_sub(a), ticks);
    }
}

/// Section 4.1: only an ACK that moves SND.UNA measures, whatever it echoes.
#[test]
fn rfc7323_4_1_a_duplicate_ack_measures_nothing() {
    let mut l = Lone::established_by(stamped(), syn_ack().mss(1_000).ts(1, 0));
    let stamp = l.send(&bytes(3_000))[0].tcp.options.timestamps.unwrap();
    let before = *l.conn.sender().rtt();
    l.now = l.now + Duration::from_millis(30);
    for val in 2..4 {
        l.recv(ack(0, 0).ts(val, stamp.val));
        assert_eq!(*l.conn.sender().rtt(), before);
    }
    l.recv(ack(0, 1_000).ts(5, stamp.val));
    let rtt = l.conn.sender().rtt();
    assert_eq!(rtt.samples(), before.samples() + 1);
}

#[test]
fn absurd_echoes_are_not_measured() {
    for e in [0, 1, u32::MAX, 1 << 31, 99_999_999] {
        let mut l = Lone::established_by(stamped(), syn_ack().mss(1_000).ts(1, 0));
        l.send(b"x");
        let rto = l.next_timer();
        assert_eq!(rto.len(), 1);
        l.recv(ack(0, 1).ts(2, e));
        assert!(
            l.conn
                .sender()
                .rtt()
                .srtt()
                .is_none_or(|r| r < Duration::from_secs(110)),
            "{e}"
        );
    }
}

// ---- SACK.

#[test]
fn sack_needs_both() {
    let (_, s) = Lone::syn_sent(sacked());
    assert!(s.tcp.options.sack_permitted);
    assert!(!Lone::established_by(sacked(), syn_ack()).conn.sack_in_use());
    assert!(with_sack().conn.sack_in_use());
    let (_, s) = Lone::syn_sent(plain());
    assert!(!s.tcp.options.sack_permitted);
    let mut l = Lone::established_by(plain(), syn_ack().sack_ok());
    assert!(!l.conn.sack_in_use());
    assert!(
        Lone::one(l.recv(text(5, 0, b"x")))
            .tcp
            .options
            .sack
            .is_empty()
    );
    let (_, out) = Lone::syn_received(sacked(), &syn());
    assert!(!out.tcp.options.sack_permitted);
    let (_, out) = Lone::syn_received(sacked(), &syn().sack_ok());
    assert!(out.tcp.options.sack_permitted);
}

/// A loss detector without SACK does not negotiate it, and then does not send any.
#[test]
fn sack_is_not_used_where_it_was_not_offered() {
    let newreno = detector::standard().get("newreno").unwrap();
    let config = TcpConfig {
        detector: newreno,
        ..sacked()
    };
    let (mut l, out) = Lone::syn_received(config, &syn().sack_ok());
    assert!(!out.tcp.options.sack_permitted);
    l.recv(ack(0, 0));
    assert!(!l.conn.sack_in_use());
    assert!(
        Lone::one(l.recv(text(5, 0, b"x")))
            .tcp
            .options
            .sack
            .is_empty()
    );
}

/// RFC 2018 section 4: the block of the latest segment first, then the most recently reported.
#[test]
fn rfc2018_4_order_of_blocks() {
    let mut l = with_sack();
    let seq = [10, 30, 50, 70, 90, 31];
    let want: [&[(i64, i64)]; 6] = [
        &[(10, 11)],
        &[(30, 31), (10, 11)],
        &[(50, 51), (30, 31), (10, 11)],
        &[(70, 71), (50, 51), (30, 31), (10, 11)],
        &[(90, 91), (70, 71), (50, 51), (30, 31)],
        &[(30, 32), (90, 91), (70, 71), (50, 51)],
    ];
    for (s, want) in seq.into_iter().zip(want) {
        let out = Lone::one(l.recv(text(s, 0, b"x")));
        assert_eq!(out.ack, 0);
        assert_eq!(blocks(&out), want);
    }
    // The gap closes up to 10, then further: what is acknowledged is not reported.
    let out = Lone::one(l.recv(text(0, 0, &[0; 10])));
    assert_eq!(out.ack, 11);
    assert_eq!(blocks(&out), [(30, 32), (90, 91), (70, 71), (50, 51)]);
}

#[test]
fn timestamps_leave_room_for_three_blocks() {
    let config = TcpConfig {
        sack: true,
        ..stamped()
    };
    let mut l = Lone::established_by(config, syn_ack().mss(1_000).ts(1, 0).sack_ok());
    for s in [10, 30, 50, 70] {
        l.recv(text(s, 0, b"x"));
    }
    let out = Lone::one(l.recv(text(90, 0, b"x")));
    assert_eq!(blocks(&out), [(90, 91), (70, 71), (50, 51)]);
    assert!(out.tcp.options.wire_len() <= 40);
}

/// RFC 2883 section 4: the duplicate first, once, below or above the acknowledgement.
#[test]
fn rfc2883_duplicates_are_reported_once() {
    let mut l = with_sack();
    l.recv(text(0, 0, &[0; 100]));
    let out = Lone::one(l.recv(text(0, 0, &[0; 50])));
    assert_eq!((out.ack, blocks(&out)), (100, vec![(0, 50)]));
    l.recv(text(200, 0, &[0; 100]));
    let out = Lone::one(l.recv(text(250, 0, &[0; 50])));
    assert_eq!(
        blocks(&out),
        [(250, 300), (200, 300)],
        "within the second block"
    );
    let out = Lone::one(l.recv(text(50, 0, &[0; 50])));
    assert_eq!(blocks(&out), [(50, 100), (200, 300)]);
    let out = Lone::one(l.recv(text(400, 0, b"x")));
    assert_eq!(
        blocks(&out),
        [(400, 401), (200, 300)],
        "the duplicate is forgotten"
    );
    // Half of it new.
    let out = Lone::one(l.recv(text(80, 0, &[0; 40])));
    assert_eq!(
        (out.ack, blocks(&out)),
        (120, vec![(80, 100), (400, 401), (200, 300)])
    );
}

/// RFC 2883 section 4: of what lies above the ACK, only the part that was there before; then the
/// block that holds it, and then the others.
#[test]
fn rfc2883_4_2_a_partial_duplicate_above_the_ack_and_its_block_come_first() {
    let mut l = with_sack();
    for at in [200, 400, 600] {
        l.recv(text(at, 0, &[0; 100]));
    }
    let out = Lone::one(l.recv(text(250, 0, &[0; 100])));
    assert_eq!(
        blocks(&out),
        [(250, 300), (200, 350), (600, 700), (400, 500)]
    );
    let out = Lone::one(l.recv(text(380, 0, &[0; 70])));
    assert_eq!(
        blocks(&out),
        [(400, 450), (380, 500), (200, 350), (600, 700)]
    );
}

/// A duplicate from before the present window, or failing PAWS, is reported all the same.
#[test]
fn rfc2883_old_duplicates_are_reported() {
    let mut l = with_sack();
    l.recv(text(0, 0, &[0; 100]));
    let out = Lone::one(l.recv(text(20, 0, &[0; 30])));
    assert_eq!(blocks(&out), [(20, 50)]);
}

#[test]
fn no_sack_option_without_cause() {
    let mut l = with_sack();
    for i in 0..5 {
        assert!(
            Lone::one(l.recv(text(i * 10, 0, &[0; 10])))
                .tcp
                .options
                .sack
                .is_empty()
        );
    }
    l.recv(text(100, 0, b"x"));
    let out = Lone::one(l.recv(text(50, 0, &[0; 50])));
    assert_eq!(out.ack, 101);
    assert!(out.tcp.options.sack.is_empty());
}

#[test]
fn sack_goes_with_a_pure_ack_while_data_flows() {
    let mut l = with_sack();
    l.conn.send(&bytes(3_000), 3_000).unwrap();
    l.conn.handle_segment(
        l.now,
        narrows::wire::Ecn::NotEct,
        &text(10, 0, b"").tcp,
        b"x",
    );
    let out = l.settle();
    assert_eq!(blocks(&out[0]), [(10, 11)]);
    assert!(out[0].data.is_empty());
    assert_eq!(out.len(), 4);
}

/// Impossible SACK blocks change nothing.
#[test]
fn hostile_sack_blocks() {
    let mut l = with_sack();
    l.send(&bytes(5_000));
    for b in [
        (0, 0),
        (5, 1),
        (4_000, 6_000),
        (-5_000, -4_000),
        (1 << 30, (1 << 30) + 5),
        (6_000, 1_000),
    ] {
        l.recv(ack(0, 0).sack(&[b]));
    }
    l.recv(ack(0, 0).sack(&[(1_000, 2_000), (1_000, 2_000), (500, 4_500), (0, 5_000)]));
    l.recv(ack(0, 5_000));
    assert!(l.conn.sender().is_idle());
    assert_eq!(l.conn.poll_timeout(), None);
}

#[test]
fn sack_blocks_of_a_peer_that_did_not_negotiate_are_ignored() {
    let mut l = Lone::established(plain());
    l.send(&bytes(8_000));
    for i in 2..8 {
        l.recv(ack(0, 0).sack(&[(1_000, i * 1_000)]));
    }
    assert!(l.conn.sender().scoreboard().sacked().is_zero() || !l.conn.sack_in_use());
}

// ---- Unknown and repeated.

#[test]
fn must_6_unknown_options_are_ignored() {
    let mut s: Seg = syn_ack().mss(1_000);
    s.tcp.options.unknown = Some(Box::new([253, 4, 1, 2]));
    let mut l = Lone::established_by(plain(), s);
    let mut t = text(0, 0, b"x");
    t.tcp.options.unknown = Some(Box::new([30, 3, 1]));
    assert_eq!(Lone::one(l.recv(t)).ack, 1);
}

#[test]
fn a_syn_offers_what_is_configured_and_no_more() {
    let (_, s) = Lone::syn_sent(TcpConfig::default());
    let o = &s.tcp.options;
    assert_eq!(
        (o.mss, o.window_scale, o.sack_permitted),
        (Some(1_460), Some(5), true)
    );
    assert!(o.timestamps.is_some() && o.sack.is_empty() && o.unknown.is_none());
    assert_eq!(s.tcp.flags, SYN, "no ECN unless asked for");
    let (_, s) = Lone::syn_sent(TcpConfig {
        ecn: EcnMode::Classic,
        ..plain()
    });
    assert_eq!(s.tcp.flags, SYN | Flags::ECE | Flags::CWR);
    let (_, s) = Lone::syn_sent(plain());
    assert_eq!(s.tcp.options.wire_len(), 4);
    let _ = (Timestamps::default(), Instant::ZERO);
}
