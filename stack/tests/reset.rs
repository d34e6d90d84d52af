//! Resets and challenges: RFC 9293 sections 3.5.2, 3.5.3 and 3.10.7, RFC 5961.

use crate::pair;
use crate::pair::lone::{Lone, SYNCHRONIZED, ack, in_state, plain, positions, seg, syn, text};
use narrows::Duration;
use narrows::config::TcpConfig;
use narrows::conn::Event;
use narrows::conn::state::{CloseReason, Origin, State};
use narrows::endpoint::challenge::ChallengeLimit;
use narrows::wire::Flags;

const ACK: Flags = Flags::ACK;
const RST: Flags = Flags::RST;
const SYN: Flags = Flags::SYN;
const FIN: Flags = Flags::FIN;

fn rst(seq: i64) -> pair::lone::Seg {
    seg(RST, seq, 0)
}

#[test]
fn rfc5961_3_2_an_exact_rst_ends_it_in_every_state() {
    for state in SYNCHRONIZED {
        for flags in [RST, RST | ACK] {
            let mut l = in_state(state, plain());
            let (peer, ours) = positions(state);
            l.events.clear();
            assert!(l.recv(seg(flags, peer, ours)).is_empty(), "{state:?}");
            let reason = match state {
                // Until our FIN is acknowledged the peer may not have had all.
                State::TimeWait => CloseReason::Finished,
                _ => CloseReason::Reset,
            };
            assert_eq!(l.state(), State::Closed(reason), "{state:?}");
            assert_eq!(l.events, [Event::Closed(reason)], "{state:?}");
            assert!(l.wait(Duration::from_secs(200)).is_empty());
        }
    }
}

#[test]
fn rst_in_syn_received() {
    let (mut l, _) = Lone::syn_received(plain(), &syn());
    assert!(l.recv(rst(0)).is_empty());
    assert_eq!(l.state(), State::Closed(CloseReason::Reset));

    let (mut l, _) = Lone::syn_sent(plain());
    l.recv(syn());
    assert_eq!(l.state(), State::SynReceived(Origin::Active));
    l.recv(rst(0));
    assert_eq!(l.state(), State::Closed(CloseReason::Refused));
}

#[test]
fn rfc5961_3_2_a_rst_in_the_window_is_challenged() {
    for state in SYNCHRONIZED {
        let (peer, ours) = positions(state);
        let mut l = in_state(state, plain());
        // After the peer's FIN nothing is in the window but the exact number.
        let offsets: &[i64] = if peer == 0 {
            &[1, 2, 10_000, 19_999]
        } else {
            &[]
        };
        for off in offsets {
            let out = Lone::one(l.recv(rst(peer + off)));
            assert!(out.is_pure_ack(), "{state:?} {out:?}");
            assert_eq!(out.ack, peer);
            assert_eq!(l.state(), state);
        }
        assert_eq!(l.conn.stats().challenge_acks, offsets.len() as u64);
        // The peer, if it is real, answers the challenge with the exact number.
        l.recv(seg(RST, peer, ours));
        assert!(matches!(l.state(), State::Closed(_)), "{state:?}");
    }
}

#[test]
fn rfc5961_3_2_a_rst_outside_the_window_is_dropped() {
    for state in SYNCHRONIZED {
        let (peer, _) = positions(state);
        let mut l = in_state(state, plain());
        for off in [
            -1,
            -2,
            -20_000,
            20_001,
            1 << 30,
            i64::from(i32::MIN),
            i64::from(i32::MAX),
        ] {
            assert!(l.recv(rst(peer + off)).is_empty(), "{state:?} {off}");
            assert_eq!(l.state(), state);
        }
        assert_eq!(l.conn.stats().challenge_acks, 0);
    }
    // The right edge is outside, the byte before it is not.
    let mut l = Lone::established(plain());
    assert!(l.recv(rst(20_000)).is_empty());
    assert_eq!(l.conn.stats().challenge_acks, 0);
    assert_eq!(l.recv(rst(19_999)).len(), 1);
    assert_eq!(l.conn.stats().challenge_acks, 1);
}

#[test]
fn rst_into_a_closed_window_needs_the_exact_number() {
    let mut l = Lone::established(plain());
    for i in 0..20 {
        l.recv(text(i * 1_000, 0, &[1; 1_000]));
    }
    assert!(l.recv(rst(20_001)).is_empty());
    assert_eq!(l.state(), State::Established);
    assert!(l.recv(rst(20_000)).is_empty());
    assert_eq!(l.state(), State::Closed(CloseReason::Reset));
}

#[test]
fn rst_with_text_counts_like_any_other() {
    let mut l = Lone::established(plain());
    l.recv(rst(0).data(b"why"));
    assert_eq!(l.state(), State::Closed(CloseReason::Reset));
    assert_eq!(l.conn.readable(), 0);
}

#[test]
fn rfc5961_4_2_a_syn_is_challenged_wherever_it_lies() {
    for state in SYNCHRONIZED {
        let (peer, ours) = positions(state);
        for off in [-1, 0, 1, 100, -50_000, 1 << 30] {
            for flags in [SYN, SYN | ACK, SYN | FIN] {
                let mut l = in_state(state, plain());
                let out = Lone::one(l.recv(seg(flags, peer + off, ours).data(b"x")));
                assert!(
                    out.data.is_empty() && out.has(ACK) && !out.has(RST),
                    "{state:?} {out:?}"
                );
                assert_eq!(out.ack, peer);
                assert_eq!(l.state(), state);
                assert_eq!(l.conn.readable(), 0);
            }
        }
    }
}

/// RFC 5961 section 5.2: SND.UNA - MAX.SND.WND =< SEG.ACK =< SND.NXT.
#[test]
fn rfc5961_5_2_acceptable_acknowledgements() {
    let mut l = Lone::established(plain());
    l.recv(ack(0, 0).win(1_000));
    for _ in 0..10 {
        l.send(&[7; 1_000]);
    }
    let mut una = 0;
    while una < 9_000 {
        una += 1_000;
        l.recv(ack(0, una));
    }
    // MAX.SND.WND is 65,535 since the SYN-ACK; SND.UNA 9,000, SND.NXT 10,000.
    for (a, fine) in [
        (10_001, false),
        (1 << 30, false),
        (i64::from(i32::MIN) + 9_000, false),
        (9_000 - 65_536, false),
        (9_000 - 65_535, true),
        (8_999, true),
        (9_000, true),
        (10_000, true),
    ] {
        let at = l.conn.readable_end() as i64;
        let out = l.recv(text(at, a, b"data"));
        assert_eq!(
            l.conn.readable_end() as i64 - at,
            if fine { 4 } else { 0 },
            "{a}"
        );
        assert_eq!(out.len(), 1, "{a} {out:?}");
        assert!(out[0].is_pure_ack());
    }
}

#[test]
fn rfc5961_5_blind_data_with_a_wrong_ack_is_not_taken() {
    let mut l = Lone::established(plain());
    let out = Lone::one(l.recv(text(0, 5, b"forged")));
    assert_eq!(out.ack, 0);
    assert_eq!(l.conn.readable(), 0);
    let out = Lone::one(l.recv(text(0, -70_000, b"forged")));
    assert_eq!(out.ack, 0);
    assert_eq!(l.conn.readable(), 0);
    assert_eq!(l.conn.stats().challenge_acks, 2);
}

#[test]
fn a_segment_without_ack_is_dropped() {
    let mut l = Lone::established(plain());
    assert!(l.recv(seg(Flags::NONE, 0, 0).data(b"x")).is_empty());
    assert!(l.recv(seg(FIN, 0, 0)).is_empty());
    assert!(
        l.recv(seg(Flags::PSH | Flags::URG, 0, 0).data(b"x"))
            .is_empty()
    );
    assert_eq!(l.state(), State::Established);
    assert_eq!(l.conn.readable(), 0);
}

#[test]
fn rfc5961_7_challenges_are_limited() {
    type Forge = fn(i64) -> pair::lone::Seg;
    let forgeries: [Forge; 5] = [
        |i| rst(1 + i),
        |i| seg(SYN, i * 1_000, 0),
        |i| ack(0, 10_000 + i),
        |i| ack(-5 - i, 0),
        |i| ack(100_000 + i, 0),
    ];
    for (n, forge) in forgeries.into_iter().enumerate() {
        let mut l = Lone::established(plain());
        let answers: usize = (0..100).map(|i| l.recv(forge(i)).len()).sum();
        assert_eq!(answers, 10, "forgery {n}");
        // 5 s later the bucket is full again.
        l.wait(Duration::from_secs(5));
        let answers: usize = (0..100).map(|i| l.recv(forge(i)).len()).sum();
        assert_eq!(answers, 10, "forgery {n}");
        assert_eq!(l.conn.stats().challenge_acks, 20);
    }
}

#[test]
fn without_a_budget_there_are_no_challenges() {
    let limit = ChallengeLimit {
        count: 0,
        period: Duration::from_secs(1),
    };
    let mut l = Lone::established(TcpConfig {
        challenge_acks: limit,
        ..plain()
    });
    assert!(l.recv(rst(1)).is_empty());
    assert!(l.recv(seg(SYN, 1, 0)).is_empty());
    assert_eq!(l.state(), State::Established);
}

/// Two connections that disagree must not answer each other's answers for ever.
#[test]
fn acknowledgements_out_of_the_window_do_not_loop() {
    let mut l = Lone::established(plain());
    let mut answers = 0;
    for _ in 0..1_000 {
        answers += l.recv(ack(500_000, 0)).len();
    }
    assert!(answers <= 10, "{answers}");
}

#[test]
fn rfc9293_3_10_5_abort_sends_a_reset() {
    for state in [
        State::SynReceived(Origin::Passive),
        State::Established,
        State::FinWait1,
        State::FinWait2,
        State::CloseWait,
    ] {
        let mut l = in_state(state, plain());
        let (peer, _) = positions(state);
        let sent = i64::from(matches!(state, State::FinWait1 | State::FinWait2));
        l.conn.abort(l.now);
        let out = Lone::one(l.settle());
        assert!(out.is(RST | ACK), "{state:?} {out:?}");
        assert_eq!(
            (out.seq, out.ack),
            (sent, peer),
            "<SEQ=SND.NXT><CTL=RST> {state:?}"
        );
        assert_eq!(l.state(), State::Closed(CloseReason::Aborted));
        assert_eq!(l.events.last(), Some(&Event::Closed(CloseReason::Aborted)));
        assert!(l.wait(Duration::from_secs(300)).is_empty());
        assert_eq!(l.conn.poll_timeout(), None);
    }
}

#[test]
fn abort_says_nothing_where_the_peer_has_no_state() {
    for state in [
        State::SynSent,
        State::TimeWait,
        State::Closed(CloseReason::Aborted),
    ] {
        let mut l = in_state(state, plain());
        l.conn.abort(l.now);
        assert!(l.settle().is_empty(), "{state:?}");
        assert_eq!(l.state(), State::Closed(CloseReason::Aborted));
    }
}

#[test]
fn abort_drops_what_was_queued_and_is_told_once() {
    let mut l = Lone::established(plain());
    l.send(&[1; 30_000]);
    l.conn.abort(l.now);
    let out = Lone::one(l.settle());
    assert_eq!(out.seq, 10_000, "what the initial window let out");
    l.conn.abort(l.now);
    l.conn.close(l.now);
    assert!(l.settle().is_empty());
    assert_eq!(l.events, [Event::Closed(CloseReason::Aborted)]);
}

#[test]
fn a_closed_connection_is_dead() {
    let mut l = in_state(State::Closed(CloseReason::Aborted), plain());
    l.events.clear();
    for s in [
        ack(0, 0),
        text(0, 0, b"x"),
        syn(),
        rst(0),
        seg(FIN | ACK, 0, 0),
    ] {
        assert!(l.recv(s).is_empty());
    }
    assert!(l.events.is_empty());
    assert_eq!(l.conn.poll_timeout(), None);
}

/// Aborted in the midst of loss recovery, no timer is left over.
#[test]
fn no_timer_survives_the_end() {
    let config = TcpConfig {
        sack: true,
        ..plain()
    };
    let mut l = Lone::established_by(config, pair::lone::syn_ack().mss(1_000).sack_ok());
    l.wait(Duration::from_millis(5));
    l.send(&[1; 8_000]);
    l.wait(Duration::from_millis(20));
    l.recv(ack(0, 1_000));
    l.recv(ack(0, 1_000).sack(&[(3_000, 4_000)]));
    l.conn.abort(l.now);
    l.settle();
    assert_eq!(l.conn.poll_timeout(), None);
}

/// RFC 7323 section 3.2 (once agreed) and 5.2 (what answers a segment of no connection).
#[test]
fn rfc7323_3_2_and_5_2_a_rst_has_timestamps() {
    let config = || TcpConfig {
        timestamps: narrows::config::TimestampMode::Millis,
        ..plain()
    };
    let mut l = Lone::established_by(config(), pair::lone::syn_ack().mss(1_000).ts(70, 0));
    l.conn.abort(l.now);
    let out = Lone::one(l.settle());
    assert!(out.has(RST));
    let option = out.tcp.options.timestamps.expect("agreed");
    assert_eq!(option.ecr, 70);
    assert_ne!(option.val, 0);

    let (mut l, _) = Lone::syn_sent(config());
    let out = Lone::one(l.recv(seg(SYN | ACK, -1, 5).ts(99, 0)));
    assert!(out.has(RST));
    let option = out.tcp.options.timestamps.expect("of what it answers");
    assert_eq!((option.val, option.ecr), (0, 99));
    let out = Lone::one(l.recv(seg(ACK, 0, 5)));
    assert_eq!(out.tcp.options.timestamps, None, "nothing to echo");
}
