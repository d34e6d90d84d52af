//! Closing a connection, held against RFC 9293 sections 3.6, 3.10.4 and 3.10.7.4.

use crate::pair;
use crate::pair::lone::{
    Lone, SYNCHRONIZED, ack, in_state, plain, positions, seg, syn, syn_ack, text,
};
use crate::pair::{Fate, Pair, bytes};
use narrows::Duration;
use narrows::config::{Lifetimes, TcpConfig, TimestampMode};
use narrows::conn::state::{CloseReason, State};
use narrows::conn::{Event, SendError};
use narrows::wire::Flags;

const ACK: Flags = Flags::ACK;
const FIN: Flags = Flags::FIN;
const RST: Flags = Flags::RST;
const MS: Duration = Duration::from_millis(1);

fn fin(seq: i64, a: i64) -> pair::lone::Seg {
    seg(FIN | ACK, seq, a)
}

#[test]
fn every_state_can_be_reached() {
    for state in SYNCHRONIZED {
        assert_eq!(in_state(state, plain()).state(), state);
    }
}

/// RFC 9293 figure 12, from the side that closes first.
#[test]
fn active_close() {
    let mut l = Lone::established(plain());
    let out = Lone::one(l.close());
    assert!(out.is(FIN | ACK));
    assert_eq!((out.seq, out.ack), (0, 0));
    assert_eq!(l.state(), State::FinWait1);
    assert!(l.recv(ack(0, 1)).is_empty());
    assert_eq!(l.state(), State::FinWait2);
    let out = Lone::one(l.recv(fin(0, 1)));
    assert!(out.is_pure_ack());
    assert_eq!((out.seq, out.ack), (1, 1));
    assert_eq!(l.state(), State::TimeWait);
    assert_eq!(l.events, [Event::PeerClosed]);
    assert!(l.wait(Duration::from_secs(59)).is_empty());
    assert_eq!(l.state(), State::TimeWait);
    assert!(l.wait(Duration::from_secs(1)).is_empty());
    assert_eq!(l.state(), State::Closed(CloseReason::Finished));
    assert_eq!(
        l.events,
        [Event::PeerClosed, Event::Closed(CloseReason::Finished)]
    );
    assert_eq!(l.conn.poll_timeout(), None);
}

#[test]
fn passive_close() {
    let mut l = Lone::established(plain());
    let out = Lone::one(l.recv(fin(0, 0)));
    assert!(out.is_pure_ack());
    assert_eq!(out.ack, 1);
    assert_eq!(l.state(), State::CloseWait);
    let out = Lone::one(l.close());
    assert!(out.is(FIN | ACK));
    assert_eq!((out.seq, out.ack), (0, 1));
    assert_eq!(l.state(), State::LastAck);
    assert!(l.recv(ack(1, 1)).is_empty());
    assert_eq!(l.state(), State::Closed(CloseReason::Finished));
}

/// RFC 9293 figure 13.
#[test]
fn simultaneous_close() {
    let mut l = in_state(State::FinWait1, plain());
    let out = Lone::one(l.recv(fin(0, 0)));
    assert!(out.is_pure_ack());
    assert_eq!((out.seq, out.ack), (1, 1));
    assert_eq!(l.state(), State::Closing);
    assert!(l.recv(ack(1, 1)).is_empty());
    assert_eq!(l.state(), State::TimeWait);
}

#[test]
fn fin_and_its_acknowledgement_in_one() {
    let mut l = in_state(State::FinWait1, plain());
    let out = Lone::one(l.recv(fin(0, 1)));
    assert_eq!(out.ack, 1);
    assert_eq!(l.state(), State::TimeWait);
}

#[test]
fn fin_with_data_delivers_the_data() {
    let mut l = Lone::established(plain());
    assert_eq!(
        Lone::one(l.recv(text(0, 0, b"last words").and(FIN))).ack,
        11
    );
    assert_eq!(l.events, [Event::Readable, Event::PeerClosed]);
    assert_eq!(l.read().0, b"last words");
}

#[test]
fn our_fin_goes_with_the_last_data() {
    let mut l = Lone::established(plain());
    l.conn.send(&bytes(1_500), 1_500).unwrap();
    let out = l.close();
    assert_eq!(out.len(), 2);
    assert!(!out[0].has(FIN) && out[1].has(FIN | Flags::PSH));
    assert_eq!((out[1].seq, out[1].data.len()), (1_000, 500));
    l.recv(ack(0, 1_500));
    assert_eq!(
        l.state(),
        State::FinWait1,
        "the FIN is not acknowledged by its data"
    );
    l.recv(ack(0, 1_501));
    assert_eq!(l.state(), State::FinWait2);
}

#[test]
fn a_fin_beyond_a_gap_waits_for_it() {
    let mut l = Lone::established(plain());
    assert_eq!(Lone::one(l.recv(text(5, 0, b"world").and(FIN))).ack, 0);
    assert_eq!(l.state(), State::Established);
    assert!(l.events.is_empty());
    assert_eq!(Lone::one(l.recv(text(0, 0, b"hello"))).ack, 11);
    assert_eq!(l.state(), State::CloseWait);
    assert_eq!(l.read().0, b"helloworld");
    assert_eq!(l.events, [Event::Readable, Event::PeerClosed]);
}

#[test]
fn a_bare_fin_beyond_a_gap_waits_for_it() {
    let mut l = Lone::established(plain());
    assert_eq!(Lone::one(l.recv(fin(5, 0))).ack, 0);
    assert_eq!(Lone::one(l.recv(text(0, 0, b"hello"))).ack, 6);
    assert_eq!(l.state(), State::CloseWait);
}

#[test]
fn text_after_the_fin_is_not_taken() {
    let mut l = Lone::established(plain());
    l.recv(fin(5, 0));
    assert_eq!(Lone::one(l.recv(text(0, 0, b"hello, and more"))).ack, 6);
    assert_eq!(l.read().0, b"hello");
    assert_eq!(Lone::one(l.recv(text(6, 0, b"afterwards"))).ack, 6);
    assert_eq!(l.conn.readable(), 0);
    assert_eq!(l.state(), State::CloseWait);
}

#[test]
fn a_fin_before_text_that_came_earlier_is_not_believed() {
    let mut l = Lone::established(plain());
    l.recv(text(10, 0, b"later"));
    l.recv(fin(5, 0));
    assert_eq!(Lone::one(l.recv(text(0, 0, b"0123456789"))).ack, 15);
    assert_eq!(l.state(), State::Established);
}

#[test]
fn a_repeated_fin_is_acknowledged_again() {
    for state in [
        State::CloseWait,
        State::Closing,
        State::LastAck,
        State::TimeWait,
    ] {
        let mut l = in_state(state, plain());
        let ours = positions(state).1;
        let out = l.recv(fin(0, ours));
        assert!(
            out.len() == 1 && out[0].ack == 1 && out[0].data.is_empty(),
            "{state:?} {out:?}"
        );
        assert_eq!(l.state(), state);
    }
}

#[test]
fn our_fin_is_retransmitted() {
    for state in [State::FinWait1, State::LastAck, State::Closing] {
        let mut l = in_state(state, plain());
        let out = Lone::one(l.next_timer());
        assert!(out.has(FIN | ACK), "{state:?} {out:?}");
        assert_eq!((out.seq, out.data.len()), (0, 0));
        l.recv(ack(positions(state).0, 1));
        assert_ne!(l.state(), state);
    }
}

#[test]
fn half_close_goes_on_receiving() {
    let mut l = in_state(State::FinWait2, plain());
    let mut at = 0;
    // For an hour, far beyond any FIN-WAIT-2 timeout.
    for _ in 0..36 {
        assert!(l.wait(Duration::from_secs(100)).is_empty());
        assert_eq!(l.state(), State::FinWait2);
        at += 500;
        assert_eq!(Lone::one(l.recv(text(at - 500, 1, &bytes(500)))).ack, at);
        assert_eq!(l.read().0, bytes(500));
    }
    assert_eq!(l.conn.poll_timeout(), None);
    l.recv(fin(at, 1));
    assert_eq!(l.state(), State::TimeWait);
}

#[test]
fn half_close_by_the_peer_goes_on_sending() {
    let mut l = in_state(State::CloseWait, plain());
    for i in 0..10 {
        l.wait(Duration::from_secs(100));
        assert_eq!(Lone::one(l.send(&bytes(500))).seq, i * 500);
        assert!(l.recv(ack(1, (i + 1) * 500)).is_empty());
    }
    assert_eq!(l.state(), State::CloseWait);
}

#[test]
fn data_is_taken_while_our_fin_is_under_way() {
    let mut l = in_state(State::FinWait1, plain());
    assert_eq!(Lone::one(l.recv(text(0, 0, b"hello"))).ack, 5);
    assert_eq!(l.read().0, b"hello");
}

#[test]
fn nothing_can_be_sent_after_close() {
    for state in [
        State::FinWait1,
        State::FinWait2,
        State::Closing,
        State::LastAck,
        State::TimeWait,
    ] {
        let mut l = in_state(state, plain());
        assert_eq!(l.conn.send(b"x", 1), Err(SendError::Closing), "{state:?}");
        assert!(l.close().is_empty(), "closing again changes nothing");
        assert_eq!(l.state(), state);
    }
    let mut l = in_state(State::Closed(CloseReason::Aborted), plain());
    assert_eq!(
        l.conn.send(b"x", 1),
        Err(SendError::Closed(CloseReason::Aborted))
    );
}

#[test]
fn close_in_syn_sent_is_silent() {
    let (mut l, _) = Lone::syn_sent(plain());
    assert!(l.close().is_empty());
    assert_eq!(l.state(), State::Closed(CloseReason::Aborted));
    assert_eq!(l.events, [Event::Closed(CloseReason::Aborted)]);
    assert!(l.wait(Duration::from_secs(100)).is_empty());
}

#[test]
fn close_in_syn_received_sends_a_fin_after_the_handshake() {
    let (mut l, _) = Lone::syn_received(plain(), &syn().mss(1_000));
    assert!(l.close().is_empty());
    assert_eq!(l.conn.send(b"x", 1), Err(SendError::Closing));
    let out = Lone::one(l.recv(ack(0, 0)));
    assert!(out.is(FIN | ACK), "{out:?}");
    assert_eq!(l.state(), State::FinWait1);
    assert_eq!(l.events, [Event::Connected]);
}

#[test]
fn close_in_syn_received_sends_what_is_queued_first() {
    let (mut l, _) = Lone::syn_received(plain(), &syn().mss(1_000));
    l.send(&bytes(300));
    l.close();
    let out = Lone::one(l.recv(ack(0, 0)));
    assert!(out.has(FIN) && out.data.len() == 300);
}

#[test]
fn the_fin_waits_for_the_window_only_behind_data() {
    let mut l = Lone::established(plain());
    l.recv(ack(0, 0).win(0));
    // A FIN alone occupies no buffer.
    assert!(Lone::one(l.close()).has(FIN));

    let mut l = Lone::established(plain());
    l.recv(ack(0, 0).win(400));
    l.send(&bytes(400));
    l.send(&bytes(500));
    assert!(l.close().is_empty());
    let out = Lone::one(l.recv(ack(0, 400).win(500)));
    assert!(out.has(FIN));
    assert_eq!((out.seq, out.data.len()), (400, 500));
}

#[test]
fn time_wait_restarts_on_a_retransmitted_fin() {
    let mut l = in_state(State::TimeWait, plain());
    for _ in 0..5 {
        l.wait(Duration::from_secs(50));
        let out = Lone::one(l.recv(fin(0, 1)));
        assert!(out.is_pure_ack());
        assert_eq!((out.seq, out.ack), (1, 1));
        assert_eq!(l.state(), State::TimeWait);
    }
    l.wait(Duration::from_secs(60));
    assert_eq!(l.state(), State::Closed(CloseReason::Finished));
}

/// PAWS comes first (RFC 7323 section 5.3): a FIN of long ago is answered, and the wait goes on.
#[test]
fn rfc7323_5_3_an_old_fin_does_not_restart_time_wait() {
    let stamped = TcpConfig {
        timestamps: TimestampMode::Micros,
        ..plain()
    };
    for (stamp, restarts) in [(1_002, true), (1_001, true), (900, false)] {
        let mut l = Lone::established_by(stamped.clone(), syn_ack().mss(1_000).ts(1_000, 0));
        l.close();
        l.recv(ack(0, 1).ts(1_001, 0));
        l.recv(ack(0, 1).and(FIN).ts(1_001, 0));
        assert_eq!(l.state(), State::TimeWait);
        l.wait(Duration::from_secs(50));
        assert!(Lone::one(l.recv(fin(0, 1).ts(stamp, 0))).is_pure_ack());
        l.wait(Duration::from_secs(50));
        assert_eq!(l.state() == State::TimeWait, restarts, "{stamp}");
    }
}

#[test]
fn time_wait_restarts_on_a_fin_that_had_data() {
    let mut l = in_state(State::FinWait2, plain());
    l.recv(text(0, 1, b"bye").and(FIN));
    assert_eq!(l.state(), State::TimeWait);
    l.wait(Duration::from_secs(50));
    assert_eq!(Lone::one(l.recv(text(0, 1, b"bye").and(FIN))).ack, 4);
    l.wait(Duration::from_secs(50));
    assert_eq!(l.state(), State::TimeWait);
}

#[test]
fn time_wait_is_not_prolonged_by_other_segments() {
    let mut l = in_state(State::TimeWait, plain());
    l.wait(Duration::from_secs(50));
    l.recv(ack(1, 1));
    l.recv(text(-3, 1, b"old"));
    l.wait(Duration::from_secs(10));
    assert!(matches!(l.state(), State::Closed(_)));
}

#[test]
fn time_wait_lasts_as_long_as_configured() {
    let config = TcpConfig {
        lifetimes: Lifetimes {
            time_wait: Duration::from_millis(30),
            ..plain().lifetimes
        },
        ..plain()
    };
    let mut l = in_state(State::TimeWait, config);
    l.wait(Duration::from_millis(29));
    assert_eq!(l.state(), State::TimeWait);
    l.wait(MS);
    assert_eq!(l.state(), State::Closed(CloseReason::Finished));
}

#[test]
fn data_received_before_the_close_can_be_read_after_it() {
    let mut l = in_state(State::FinWait2, plain());
    l.recv(text(0, 1, b"hello").and(FIN));
    l.wait(Duration::from_secs(100));
    assert!(matches!(l.state(), State::Closed(_)));
    assert_eq!(l.read().0, b"hello");
}

#[test]
fn release_ends_fin_wait_2() {
    for early in [true, false] {
        let mut l = Lone::established(plain());
        if early {
            l.conn.release(l.now);
            assert!(Lone::one(l.settle()).has(FIN));
            l.recv(ack(0, 1));
        } else {
            l.close();
            l.recv(ack(0, 1));
            l.wait(Duration::from_secs(1_000));
            l.conn.release(l.now);
        }
        assert_eq!(l.state(), State::FinWait2);
        l.wait(Duration::from_secs(59));
        assert_eq!(l.state(), State::FinWait2);
        l.wait(Duration::from_secs(1));
        assert_eq!(l.state(), State::Closed(CloseReason::Finished));
        assert_eq!(l.conn.poll_timeout(), None);
    }
}

#[test]
fn release_without_a_fin_wait_2_limit_waits_for_ever() {
    let mut l = Lone::established(TcpConfig {
        lifetimes: Lifetimes {
            fin_wait_2: None,
            ..plain().lifetimes
        },
        ..plain()
    });
    l.conn.release(l.now);
    l.settle();
    l.recv(ack(0, 1));
    assert_eq!(l.conn.poll_timeout(), None);
    assert_eq!(l.state(), State::FinWait2);
}

/// RFC 9293 SHLD-3.
#[test]
fn shld_3_data_that_nobody_will_read_is_answered_with_a_reset() {
    let mut l = Lone::established(plain());
    l.recv(text(0, 0, b"unread"));
    l.conn.release(l.now);
    let out = Lone::one(l.settle());
    assert!(out.has(RST));
    assert_eq!(out.seq, 0);
    assert!(matches!(l.state(), State::Closed(_)));

    let mut l = Lone::established(plain());
    l.conn.release(l.now);
    l.settle();
    l.recv(ack(0, 1));
    let out = Lone::one(l.recv(text(0, 1, b"too late")));
    assert!(out.has(RST));
    assert_eq!(out.seq, 1);
    assert!(matches!(l.state(), State::Closed(_)));
}

#[test]
fn release_after_reading_everything_is_orderly() {
    let mut l = Lone::established(plain());
    l.recv(text(0, 0, b"read").and(FIN));
    l.read();
    l.conn.release(l.now);
    assert!(Lone::one(l.settle()).is(FIN | ACK));
    l.recv(ack(5, 1));
    assert_eq!(l.state(), State::Closed(CloseReason::Finished));
}

/// Both close at once over a path that loses any of the first eight packets.
#[test]
fn simultaneous_close_with_any_loss() {
    for lost in 0..256_u32 {
        let mut p = Pair::connected(TcpConfig::default(), TcpConfig::default());
        let mut n = 0;
        p.path = Box::new(move |_, _| {
            n += 1;
            if n <= 8 && lost & (1 << (n - 1)) != 0 {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        let now = p.now;
        p.client.close(now);
        p.server().close(now);
        p.run_for(Duration::from_secs(300));
        assert_eq!(
            p.client.state(),
            State::Closed(CloseReason::Finished),
            "{lost:08b}"
        );
        assert_eq!(
            p.server().state(),
            State::Closed(CloseReason::Finished),
            "{lost:08b}"
        );
    }
}

/// Data both ways, then both FINs, over a path that loses any of the first eight packets.
#[test]
fn exchange_and_close_with_any_loss() {
    for lost in 0..256_u32 {
        let mut p = Pair::connected(TcpConfig::default(), TcpConfig::default());
        let mut n = 0;
        p.path = Box::new(move |_, _| {
            n += 1;
            if n <= 8 && lost & (1 << (n - 1)) != 0 {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        let now = p.now;
        let data = bytes(4_000);
        p.client.send(&data, data.len()).unwrap();
        p.client.close(now);
        p.server().send(&data, data.len()).unwrap();
        p.server().close(now);
        p.run_for(Duration::from_secs(300));
        assert!(p.server_got == data && p.client_got == data, "{lost:08b}");
        assert_eq!(
            p.client.state(),
            State::Closed(CloseReason::Finished),
            "{lost:08b}"
        );
        assert_eq!(
            p.server().state(),
            State::Closed(CloseReason::Finished),
            "{lost:08b}"
        );
    }
}

/// RFC 9293 section 3.10.7.4, first: after the peer's FIN its sequence space ends, and what claims
/// to come from beyond is answered with where we are, empty or not, however TIME-WAIT was reached.
#[test]
fn what_comes_from_beyond_the_fin_is_answered() {
    let through_closing = || {
        let mut l = in_state(State::Closing, plain());
        l.recv(ack(1, 1));
        l
    };
    let ways = [in_state(State::TimeWait, plain()), through_closing()];
    for mut l in ways {
        assert_eq!(l.state(), State::TimeWait);
        assert!(l.recv(ack(1, 1)).is_empty(), "right where we are");
        for beyond in [
            ack(2, 1),
            ack(11, 1),
            ack(30_000, 1),
            text(1, 1, b"x"),
            text(9, 1, b"x"),
        ] {
            let out = Lone::one(l.recv(beyond));
            assert!(out.is_pure_ack());
            assert_eq!((out.seq, out.ack), (1, 1));
        }
        assert_eq!(l.state(), State::TimeWait);
    }
    for state in [State::CloseWait, State::Closing, State::LastAck] {
        let mut l = in_state(state, plain());
        let (peer, ours) = positions(state);
        assert!(
            Lone::one(l.recv(ack(peer + 5, ours))).is_pure_ack(),
            "{state:?}"
        );
        assert_eq!(l.state(), state);
    }
}
