//! Rules of the RFCs around RFC 9293 that no other test names.

use crate::lab::{Lab, MSS, ms, segments, textbook};
use crate::pair;
use crate::pair::lone::{Lone, ack, plain, seg, syn, syn_ack, text};
use crate::pair::{Fate, Pair, bytes};
use narrows::config::{Buffers, EcnMode, TcpConfig, TimestampMode};
use narrows::wire::{Ecn, Flags, TcpOptions};
use narrows::{Duration, Instant};

const ACK: Flags = Flags::ACK;
const SYN: Flags = Flags::SYN;
const SEC: Duration = Duration::from_secs(1);

// ---- RFC 5681.

/// Section 3.1: never more outstanding than cwnd and the peer's window admit.
#[test]
fn rfc5681_3_1_no_more_is_outstanding_than_both_windows_admit() {
    let mut lab = Lab::connected(textbook("sack"), ms(100));
    let mut acked = 0;
    lab.write(900);
    for round in 0..40 {
        lab.window = [3_000, 200_000, 9_000, 50_000][round % 4];
        let flight = lab.conn.sender().scoreboard().outstanding().get();
        let cwnd = lab.conn.sender().congestion().cwnd().get();
        assert!(flight <= cwnd, "{flight} of {cwnd}");
        let edge_before = acked * MSS + lab.conn.peer_window();
        acked += 2;
        let new = lab.ack(acked);
        let edge = (acked * MSS + lab.conn.peer_window()).max(edge_before);
        assert!(new.iter().all(|o| o.offset + o.len <= edge));
        lab.wait(ms(5));
    }
}

/// Section 3.1: the handshake's acknowledgements do not open the window.
#[test]
fn rfc5681_3_1_the_handshake_does_not_grow_the_window() {
    let lab = Lab::connected(textbook("sack"), ms(100));
    assert_eq!(lab.cwnd(), 10);
    assert!(lab.ssthresh() > 1_000_000, "arbitrarily high");
    let (mut l, _) = Lone::syn_received(plain(), &syn().mss(1_000));
    l.recv(ack(0, 0));
    assert_eq!(l.conn.sender().congestion().cwnd().get(), 10_000);
}

/// Section 4.2: one ACK at most for each segment that comes in.
#[test]
fn rfc5681_4_2_no_more_than_one_ack_a_segment() {
    let config = TcpConfig {
        sack: true,
        ..plain()
    };
    let mut l = Lone::established_by(config, syn_ack().mss(1_000).sack_ok());
    for at in [0, 1, 3, 2, 2, 0, 9, 7, 8, 5, 4, 6, -1, 30] {
        let out = l.recv(text(at * 1_000, 0, &[1; 1_000]));
        assert!(out.len() <= 1, "{at}: {out:?}");
        l.read();
    }
}

// ---- RFC 3042.

/// Section 2: new data on the first two duplicate ACKs leaves cwnd as it is.
#[test]
fn rfc3042_2_limited_transmit_leaves_cwnd_alone() {
    let mut lab = Lab::connected(textbook("sack"), ms(100));
    lab.write(30);
    for i in 1..=2 {
        assert_eq!(lab.sack(0, &[(1, 1 + i)]).len(), 1);
        assert_eq!(lab.cwnd(), 10);
    }
}

/// Section 2: a duplicate ACK without new SACK information, which anybody can make up, lets
/// nothing out.
#[test]
fn rfc3042_2_without_new_sack_nothing_leaves() {
    let mut lab = Lab::connected(textbook("sack"), ms(100));
    lab.write(30);
    for _ in 0..5 {
        assert!(lab.ack(0).is_empty());
    }
    // Nor does one count towards the three that retransmit.
    assert_eq!(segments(&lab.sack(0, &[(1, 2)])), [10]);
    for _ in 0..5 {
        assert!(lab.sack(0, &[(1, 2)]).is_empty());
    }
    assert_eq!(lab.reductions(), 0);
}

// ---- RFC 6298.

/// Section 3: at least one sample a round trip.
#[test]
fn rfc6298_3_a_sample_is_taken_each_round_trip() {
    let mut lab = Lab::connected(textbook("sack"), ms(100));
    lab.write(200);
    let mut acked = 0;
    for _ in 0..8 {
        let before = lab.conn.sender().rtt().samples();
        lab.wait(ms(100));
        for _ in 0..lab.cwnd() / 2 {
            acked += 1;
            lab.ack(acked);
        }
        assert!(lab.conn.sender().rtt().samples() > before);
    }
}

/// Section 5: a segment is never sent again by the timer sooner than one RTO after it was sent.
#[test]
fn rfc6298_5_no_timeout_before_one_rto() {
    let mut lab = Lab::connected(textbook("newreno"), ms(100));
    for i in 0..20 {
        lab.write(1);
        let (sent, rto) = (lab.now, lab.conn.sender().current_rto());
        lab.wait(ms(i * 17));
        if i % 3 == 0 {
            lab.timer();
            assert!(lab.now.since(sent) >= rto);
        }
        lab.ack(i + 1);
    }
}

// ---- RFC 7323.

/// Section 3.2: TSecr is zero where there is no ACK; section 2.2: the window of a SYN is not
/// scaled.
#[test]
fn rfc7323_3_2_tsecr_is_zero_without_ack() {
    let config = || TcpConfig {
        timestamps: TimestampMode::Millis,
        window_scaling: true,
        buffers: Buffers {
            recv: 1 << 20,
            ..plain().buffers
        },
        ..plain()
    };
    let (mut l, first) = Lone::syn_sent(config());
    assert_eq!(first.tcp.options.timestamps.unwrap().ecr, 0);
    assert_eq!(first.tcp.window, u16::MAX);
    let again = Lone::one(l.next_timer());
    assert_eq!(again.tcp.options.timestamps.unwrap().ecr, 0);
    let (_, answer) = Lone::syn_received(config(), &syn().mss(1_000).ts(77, 0).scale(2));
    assert_eq!(answer.tcp.options.timestamps.unwrap().ecr, 77);
    assert_eq!(answer.tcp.window, u16::MAX);
}

/// Section 2.2: the option is sent in SYNs only, and in a SYN-ACK only if the SYN had it.
#[test]
fn rfc7323_2_2_window_scale_is_in_syns_only() {
    let config = || TcpConfig {
        window_scaling: true,
        ..plain()
    };
    let (_, answer) = Lone::syn_received(config(), &syn().mss(1_000));
    assert_eq!(answer.tcp.options.window_scale, None);
    let (_, answer) = Lone::syn_received(config(), &syn().mss(1_000).scale(3));
    assert!(answer.tcp.options.window_scale.is_some());
    let mut l = Lone::established_by(config(), syn_ack().mss(1_000).scale(3));
    let out = l.send(&bytes(3_000));
    assert!(out.iter().all(|o| o.tcp.options.window_scale.is_none()));
}

// ---- RFC 2018.

/// Section 2: SACK-permitted is sent in SYNs only; section 3: SACK only to who permitted it.
#[test]
fn rfc2018_2_sack_permitted_is_in_syns_only() {
    let mut p = Pair::new(TcpConfig::default(), TcpConfig::default());
    p.path = Box::new(|_, n| if n % 7 == 4 { Fate::Drop } else { Fate::Pass });
    p.run_for(SEC * 5);
    p.transfer(&bytes(100_000), SEC * 60);
    for seen in &p.log {
        let syn = seen.tcp.flags.contains(SYN);
        assert_eq!(seen.tcp.options.sack_permitted, syn, "{seen:?}");
    }
    assert!(p.log.iter().any(|s| !s.tcp.options.sack.is_empty()));
    let config = TcpConfig {
        sack: true,
        ..plain()
    };
    let mut l = Lone::established_by(config, syn_ack().mss(1_000));
    let out = Lone::one(l.recv(text(5_000, 0, &[1; 1_000])));
    assert_eq!(out.tcp.options, TcpOptions::default());
}

// ---- RFC 3168.

fn classic() -> TcpConfig {
    TcpConfig {
        ecn: EcnMode::Classic,
        ..textbook("sack")
    }
}

#[test]
fn rfc3168_6_1_1_syns_are_not_ecn_capable() {
    let p = Pair::connected(classic(), classic());
    assert!(p.client.ecn_in_use());
    let mut p = Pair::new(classic(), classic());
    p.run_for(ms(10));
    let syns = p.log.iter().filter(|s| s.tcp.flags.contains(SYN));
    assert!(syns.clone().count() == 2 && syns.into_iter().all(|s| s.ip.ecn == Ecn::NotEct));
}

#[test]
fn rfc3168_6_1_4_pure_acks_are_not_ecn_capable() {
    let mut lab = Lab::connected_with(classic(), ms(100), Flags::ECE);
    for i in 0..5 {
        let out = lab.data(i * 1_000, 1_000, Ecn::Ce, Flags::NONE);
        assert!(out.iter().all(|o| o.ecn == Ecn::NotEct));
    }
}

#[test]
fn rfc3168_6_1_5_retransmissions_are_not_ecn_capable() {
    let mut lab = Lab::connected_with(classic(), ms(100), Flags::ECE);
    assert!(lab.write(5).iter().all(|o| o.ecn == Ecn::Ect0));
    assert!(lab.timer().iter().all(|o| o.ecn == Ecn::NotEct));
}

/// Neither ECT nor CWR.
#[test]
fn rfc3168_6_1_6_window_probes_are_not_ecn_capable() {
    let mut lab = Lab::connected_with(classic(), ms(100), Flags::ECE);
    lab.write(4);
    lab.wait(ms(100));
    // A mark, so that CWR is owed; and the window closes.
    lab.window = 0;
    lab.ack_now(4 * MSS, &[], Flags::ECE);
    lab.write(1);
    let probe = &lab.timer()[0];
    assert_eq!((probe.offset, probe.len), (4 * MSS, 1));
    assert_eq!(probe.ecn, Ecn::NotEct);
    assert!(!probe.has(Flags::CWR));
    // CWR goes with the first new data afterwards.
    lab.window = 100_000;
    let out = lab.ack_now(4 * MSS + 1, &[], Flags::NONE);
    assert!(out[0].has(Flags::CWR), "{out:?}");
    assert_eq!(out[0].ecn, Ecn::Ect0);
}

/// With a window of one segment a mark slows the sender down to a segment a timeout.
#[test]
fn rfc3168_6_1_2_a_mark_in_a_window_of_one_segment_waits_for_the_timer() {
    let one = TcpConfig {
        initial_window: narrows::config::InitialWindow::Segments(1),
        ..crate::lab::congestion(classic(), "fixed:1")
    };
    let mut lab = Lab::connected_with(one, ms(100), Flags::ECE);
    assert!(lab.conn.ecn_in_use());
    assert_eq!(lab.write(5).len(), 1);
    lab.wait(ms(100));
    // Without a mark the next one leaves at once.
    assert_eq!(lab.ack(1).len(), 1);
    lab.wait(ms(100));
    let rto = lab.conn.sender().current_rto();
    let begin = lab.now;
    assert!(lab.ack_now(2 * MSS, &[], Flags::ECE).is_empty());
    assert!(lab.wait(rto - ms(1)).is_empty());
    let out = lab.timer();
    assert_eq!((lab.now.since(begin), out.len()), (rto, 1));
    assert_eq!(
        (out[0].offset, lab.conn.sender_stats().timeouts),
        (2 * MSS, 0)
    );
}

/// The peer must echo a mark on all its segments until CWR comes, and CWR goes on new data only:
/// what of its own it sends meanwhile does not put that off.
#[test]
fn rfc3168_6_1_2_the_peers_own_segments_with_ece_do_not_hold_up_new_data() {
    for control in ["fixed:1", "reno", "cubic"] {
        let one = TcpConfig {
            initial_window: narrows::config::InitialWindow::Segments(1),
            ..crate::lab::congestion(classic(), control)
        };
        let mut lab = Lab::connected_with(one, ms(100), Flags::ECE);
        lab.write(20);
        lab.wait(ms(100));
        let (mut acked, mut theirs) = (1, 0);
        let (mut next, mut cwr_after) = (lab.ack_now(MSS, &[], Flags::ECE), Vec::new());
        let mut echoing = true;
        while acked < 20 {
            let begin = lab.now;
            let rto = lab.conn.sender().current_rto();
            // Each of theirs carries ECE, ten times a round trip.
            while next.is_empty() {
                let waited = lab.now.since(begin);
                assert!(waited <= rto, "{control}: segment {acked} waits {waited}");
                next.extend(lab.wait(ms(10)));
                let flags = if echoing { Flags::ECE } else { Flags::NONE };
                next.extend(lab.data(theirs, 100, Ecn::NotEct, flags));
                next.retain(|o| o.len > 0);
                theirs += 100;
            }
            if next.iter().any(|o| o.has(Flags::CWR)) {
                cwr_after.push(acked);
                echoing = false;
            }
            lab.wait(ms(50));
            acked = next.last().unwrap().segment() + 1;
            next = lab.ack(acked);
        }
        assert_eq!(cwr_after, [1], "{control}");
        assert_eq!(lab.conn.sender_stats().timeouts, 0, "{control}");
    }
}

/// Once a window: what the segment that waited draws may hold up the next, and nothing else.
#[test]
fn rfc3168_6_1_2_a_window_of_one_segment_is_held_up_once() {
    let one = TcpConfig {
        initial_window: narrows::config::InitialWindow::Segments(1),
        ..crate::lab::congestion(classic(), "fixed:1")
    };
    let mut lab = Lab::connected_with(one, ms(100), Flags::ECE);
    lab.write(5);
    lab.wait(ms(100));
    let rto = lab.conn.sender().current_rto();
    assert!(lab.ack_now(MSS, &[], Flags::ECE).is_empty());
    lab.wait(rto / 2);
    // Again, and with no news.
    assert!(lab.ack_now(MSS, &[], Flags::ECE).is_empty());
    let out = lab.wait(rto - rto / 2);
    assert_eq!((segments(&out), out[0].has(Flags::CWR)), (vec![1], true));
    // The peer echoes on: a mark of its own, and another timeout.
    let rto = lab.conn.sender().current_rto();
    lab.wait(ms(100));
    assert!(lab.ack_now(2 * MSS, &[], Flags::ECE).is_empty());
    assert!(lab.wait(rto - ms(1)).is_empty());
    assert_eq!(segments(&lab.wait(ms(1))), [2]);
}

/// An ACK with ECE never leaves the window larger than it found it.
#[test]
fn rfc3168_6_1_2_an_ack_with_ece_does_not_grow_the_window() {
    let mut lab = Lab::connected_with(classic(), ms(100), Flags::ECE);
    lab.write(400);
    lab.wait(ms(100));
    for n in 1..=60 {
        let before = lab.conn.sender().congestion().cwnd();
        lab.ack_now(n * MSS, &[], Flags::ECE);
        assert!(lab.conn.sender().congestion().cwnd() <= before, "{n}");
        lab.wait(ms(10));
    }
}

/// Section 6.1.5: a mark on what lies outside of the window may be anybody's.
#[test]
fn rfc3168_6_1_5_a_mark_outside_of_the_window_is_ignored() {
    let config = TcpConfig {
        ecn: EcnMode::Classic,
        ..plain()
    };
    let mut l = Lone::established_by(config, syn_ack().mss(1_000).and(Flags::ECE));
    assert!(l.conn.ecn_in_use());
    l.recv(text(0, 0, &[1; 1_000]));
    let marked = |at| {
        let mut forged = text(at, 0, &[1; 500]);
        forged.ecn = Ecn::Ce;
        forged
    };
    for at in [0, 400, -2_000, 30_000, 1_000_000] {
        let out = Lone::one(l.recv(marked(at)));
        assert!(!out.has(Flags::ECE), "{at}");
    }
    assert!(Lone::one(l.recv(marked(1_000))).has(Flags::ECE));
}

// ---- RFC 2883.

/// Section 4.3: PAWS asks for an ACK, and the ACK says that the data came twice.
#[test]
fn rfc2883_4_3_a_duplicate_that_paws_refuses_is_reported() {
    let config = TcpConfig {
        timestamps: TimestampMode::Micros,
        sack: true,
        ..plain()
    };
    let mut l = Lone::established_by(config, syn_ack().mss(1_000).sack_ok().ts(1_000, 0));
    l.recv(text(0, 0, &[1; 800]).ts(2_000, 0));
    let out = Lone::one(l.recv(text(100, 0, &[1; 300]).ts(1_500, 0)));
    let blocks = out.tcp.options.sack;
    let first = blocks.as_slice()[0];
    let zero = pair::lone::IRS + 1;
    assert_eq!((first.start, first.end), (zero + 100, zero + 400));
    assert_eq!((out.ack, blocks.len()), (800, 1));
}

// ---- RFC 5961.

/// Section 3.2, 4.2: the challenge is an ACK with the present numbers and nothing else.
#[test]
fn rfc5961_3_2_a_challenge_says_where_we_are() {
    let mut l = Lone::established(plain());
    l.send(&bytes(700));
    for odd in [seg(Flags::RST, 5, 0), seg(SYN, 5, 0), seg(SYN | ACK, 0, 0)] {
        let out = Lone::one(l.recv(odd));
        assert!(out.is_pure_ack());
        assert_eq!((out.seq, out.ack), (700, 0));
    }
}

// ---- RFC 6928.

/// Section 2: an initial window is no licence to send that much again later: it is the window at
/// the start only.
#[test]
fn rfc6928_2_the_initial_window_is_for_the_start_only() {
    let mut lab = Lab::connected(textbook("sack"), ms(100));
    assert_eq!(lab.write(50).len(), 10);
    lab.timer();
    let begin: Instant = lab.now;
    assert_eq!(lab.cwnd(), 1, "after a timeout");
    assert!(lab.now.since(begin).is_zero());
}
