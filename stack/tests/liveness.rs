//! Timers and local drops: RFC 9293 sections 3.8.1 to 3.8.4, RFC 5482, RFC 6298; and that a
//! connection with nothing to do costs nothing.

use crate::pair::lone::{
    Lone, Out, SYNCHRONIZED, ack, in_state, plain, positions, seg, syn, syn_ack, text,
};
use crate::pair::{Pair, bytes};
use narrows::config::{AckPolicy, Keepalive, Lifetimes, TcpConfig};
use narrows::congestion::LocalDropRule;
use narrows::conn::Event;
use narrows::conn::icmp::SoftError;
use narrows::conn::state::{CloseReason, State};
use narrows::trace::{TimeoutCause, TraceEvent};
use narrows::wire::{Flags, TcpHeader};
use narrows::{Duration, Instant};
use std::sync::{Arc, Mutex};

const ACK: Flags = Flags::ACK;
const FIN: Flags = Flags::FIN;
const RST: Flags = Flags::RST;
const SYN: Flags = Flags::SYN;
const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);

fn since(l: &Lone, out: &[Out], begin: Instant) -> Vec<u64> {
    let _ = l;
    out.iter()
        .map(|o| o.at.since(begin).as_nanos() / 1_000_000)
        .collect()
}

// ---- SYN.

#[test]
fn syn_is_retransmitted_with_backoff_and_given_up() {
    let config = TcpConfig {
        lifetimes: Lifetimes {
            syn_retries: 4,
            syn_retry_time: Duration::ZERO,
            ..plain().lifetimes
        },
        ..plain()
    };
    let (mut l, first) = Lone::syn_sent(config);
    let begin = l.now;
    let out = l.wait(SEC * 200);
    assert_eq!(since(&l, &out, begin), [1_000, 3_000, 7_000, 15_000]);
    for o in &out {
        assert_eq!(o.tcp, first.tcp, "the same SYN");
    }
    assert_eq!(l.state(), State::Closed(CloseReason::TimedOut));
    // RFC 9293 SHLD-9 and MUST-22: the user is warned before it is given up.
    let warned = Event::SoftError(SoftError::Retransmitting);
    assert_eq!(l.events, [warned, Event::Closed(CloseReason::TimedOut)]);
    assert_eq!(l.conn.poll_timeout(), None);
}

#[test]
fn syn_ack_is_retransmitted_with_backoff_and_given_up() {
    let config = TcpConfig {
        lifetimes: Lifetimes {
            syn_retries: 3,
            syn_retry_time: Duration::ZERO,
            ..plain().lifetimes
        },
        ..plain()
    };
    let (mut l, _) = Lone::syn_received(config, &syn());
    let begin = l.now;
    let out = l.wait(SEC * 200);
    assert!(out.iter().all(|o| o.is(SYN | ACK)));
    assert_eq!(since(&l, &out, begin), [1_000, 3_000, 7_000]);
    assert_eq!(l.state(), State::Closed(CloseReason::TimedOut));
}

/// RFC 9293 MUST-23 asks for R2 of at least 3 minutes for a SYN; configured, it is met.
#[test]
fn must_23_three_minutes_of_syns() {
    let (mut l, _) = Lone::syn_sent(TcpConfig {
        lifetimes: Lifetimes {
            syn_retries: 7,
            syn_retry_time: Duration::ZERO,
            ..plain().lifetimes
        },
        ..plain()
    });
    l.wait(SEC * 180);
    assert_eq!(l.state(), State::SynSent);
}

#[test]
fn repeated_syns_of_the_peer_do_not_stop_the_clock() {
    let (mut l, _) = Lone::syn_received(
        TcpConfig {
            lifetimes: Lifetimes {
                syn_retries: 2,
                syn_retry_time: Duration::ZERO,
                ..plain().lifetimes
            },
            ..plain()
        },
        &syn(),
    );
    for _ in 0..60 {
        l.wait(SEC / 2);
        l.recv(syn());
    }
    // They do prolong it, but each draws an answer: the peer is there. Once it stops:
    l.wait(SEC * 200);
    assert!(matches!(l.state(), State::Closed(_)), "{:?}", l.state());
}

#[test]
fn handshake_timeouts_are_traced() {
    let (mut l, _) = Lone::syn_sent(plain());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    l.conn
        .set_trace(Some(Box::new(move |_: Instant, e: &TraceEvent| {
            sink.lock().unwrap().push(e.clone())
        })));
    l.next_timer();
    l.next_timer();
    let seen = seen.lock().unwrap();
    assert!(
        matches!(
            seen[..],
            [
                TraceEvent::Timeout { cause: TimeoutCause::Handshake, consecutive: 1, rto: a, .. },
                TraceEvent::Timeout { cause: TimeoutCause::Handshake, consecutive: 2, rto: b, .. },
            ] if a == SEC && b == SEC * 2
        ),
        "{seen:?}"
    );
}

// ---- Data.

#[test]
fn must_20_data_is_retransmitted_with_backoff_until_r2() {
    let mut l = Lone::established(TcpConfig {
        lifetimes: Lifetimes {
            data_retries: 5,
            data_retry_time: Duration::ZERO,
            ..plain().lifetimes
        },
        ..plain()
    });
    let begin = l.now;
    l.send(b"hello");
    let out = l.wait(SEC * 300);
    let at = since(&l, &out, begin);
    assert_eq!(out.len(), 5, "{at:?}");
    assert!(out.iter().all(|o| o.seq == 0 && o.data == b"hello"));
    for w in at.windows(3) {
        let (a, b) = (w[1] - w[0], w[2] - w[1]);
        assert!(b.abs_diff(2 * a) <= 2, "{at:?}");
    }
    assert_eq!(l.state(), State::Closed(CloseReason::TimedOut));
    assert_eq!(l.conn.poll_timeout(), None);
}

#[test]
fn progress_restarts_the_count() {
    let mut l = Lone::established(TcpConfig {
        lifetimes: Lifetimes {
            data_retries: 2,
            data_retry_time: Duration::ZERO,
            ..plain().lifetimes
        },
        ..plain()
    });
    for i in 0..20 {
        l.send(b"x");
        l.next_timer();
        l.next_timer();
        l.recv(ack(0, i + 1));
    }
    assert_eq!(l.state(), State::Established);
}

#[test]
fn a_fin_that_nobody_acknowledges_is_given_up() {
    for state in [State::FinWait1, State::Closing, State::LastAck] {
        let mut l = in_state(
            state,
            TcpConfig {
                lifetimes: Lifetimes {
                    data_retries: 3,
                    data_retry_time: Duration::ZERO,
                    ..plain().lifetimes
                },
                ..plain()
            },
        );
        let out = l.wait(SEC * 300);
        assert!(
            out.len() == 3 && out.iter().all(|o| o.has(FIN)),
            "{state:?} {}",
            out.len()
        );
        assert_eq!(l.state(), State::Closed(CloseReason::TimedOut), "{state:?}");
    }
}

#[test]
fn rfc5482_user_timeout() {
    let mut l = Lone::established(TcpConfig {
        lifetimes: Lifetimes {
            user_timeout: Some(SEC * 5),
            ..plain().lifetimes
        },
        ..plain()
    });
    assert_eq!(l.conn.poll_timeout(), None);
    l.send(b"x");
    l.wait(MS * 4_999);
    assert_eq!(l.state(), State::Established);
    let out = l.wait(MS);
    assert!(out.iter().any(|o| o.has(RST)));
    assert_eq!(l.state(), State::Closed(CloseReason::UserTimeout));
    let warned = Event::SoftError(SoftError::Retransmitting);
    assert_eq!(l.events, [warned, Event::Closed(CloseReason::UserTimeout)]);
    assert_eq!(l.conn.poll_timeout(), None);
}

#[test]
fn rfc5482_progress_restarts_the_user_timeout() {
    let mut l = Lone::established(TcpConfig {
        lifetimes: Lifetimes {
            user_timeout: Some(SEC * 5),
            ..plain().lifetimes
        },
        ..plain()
    });
    l.send(&bytes(2_000));
    l.wait(SEC * 4);
    l.recv(ack(0, 1_000));
    l.wait(SEC * 4);
    assert_eq!(l.state(), State::Established);
    l.recv(ack(0, 2_000));
    l.wait(SEC * 60);
    assert_eq!(l.state(), State::Established);
    assert_eq!(l.conn.poll_timeout(), None);
}

/// What counts is how long the oldest data waits, not the newest.
#[test]
fn rfc5482_sending_more_does_not_postpone_the_user_timeout() {
    let mut l = Lone::established(TcpConfig {
        lifetimes: Lifetimes {
            user_timeout: Some(SEC * 5),
            ..plain().lifetimes
        },
        ..plain()
    });
    l.send(&bytes(1_000));
    l.wait(MS * 100);
    assert_eq!(l.send(&bytes(1_000)).len(), 1, "new data left");
    l.wait(MS * 4_899);
    assert_eq!(l.state(), State::Established);
    l.wait(MS);
    assert_eq!(l.state(), State::Closed(CloseReason::UserTimeout));
}

// ---- Keepalive.

fn keepalive() -> TcpConfig {
    let keepalive = Keepalive {
        idle: SEC * 100,
        interval: SEC * 10,
        probes: 3,
    };
    TcpConfig {
        lifetimes: Lifetimes {
            keepalive: Some(keepalive),
            ..plain().lifetimes
        },
        ..plain()
    }
}

#[test]
fn must_27_keepalive_is_off_by_default() {
    assert_eq!(TcpConfig::default().lifetimes.keepalive, None);
    assert!(Keepalive::default().idle >= SEC * 7_200, "MUST-28");
    let mut l = Lone::established(plain());
    assert!(l.wait(SEC * 100_000).is_empty());
}

#[test]
fn keepalive_probes_and_gives_up() {
    let mut l = Lone::established(keepalive());
    l.send(&bytes(10));
    l.recv(ack(0, 10));
    let begin = l.now;
    let out = l.wait(SEC * 129);
    assert_eq!(since(&l, &out, begin), [100_000, 110_000, 120_000]);
    for o in &out {
        assert!(o.is_pure_ack(), "no data: a peer need not take any");
        assert_eq!((o.seq, o.ack), (9, 0), "SND.NXT - 1");
    }
    assert_eq!(l.state(), State::Established);
    let out = Lone::one(l.wait(SEC));
    assert!(out.has(RST));
    assert_eq!(l.state(), State::Closed(CloseReason::KeepaliveTimeout));
    assert_eq!(l.events, [Event::Closed(CloseReason::KeepaliveTimeout)]);
}

#[test]
fn must_26_an_answered_probe_keeps_it_alive() {
    let mut l = Lone::established(keepalive());
    for _ in 0..50 {
        let out = Lone::one(l.wait(SEC * 100));
        assert_eq!((out.seq, out.data.len()), (-1, 0));
        assert!(l.recv(ack(0, 0)).is_empty());
    }
    assert_eq!(l.state(), State::Established);
    // An answer to the last probe counts too.
    l.wait(SEC * 120);
    l.recv(ack(0, 0));
    assert!(l.wait(SEC * 99).is_empty());
}

#[test]
fn traffic_puts_keepalive_off() {
    let mut l = Lone::established(keepalive());
    for i in 0..10 {
        assert!(l.wait(SEC * 99).is_empty());
        l.recv(text(i, 0, b"x"));
    }
}

/// Data in flight probes by itself; the keepalive does not end it before R2.
#[test]
fn keepalive_leaves_data_in_flight_to_the_retransmission_timer() {
    let mut l = Lone::established(keepalive());
    l.wait(SEC * 99);
    l.send(b"x");
    let out = l.wait(SEC * 60);
    assert!(out.iter().all(|o| o.data == b"x"), "{out:#?}");
    assert_eq!(l.state(), State::Established);
}

#[test]
fn our_own_answer_to_a_keepalive() {
    let mut l = Lone::established(plain());
    for probe in [ack(-1, 0), text(-1, 0, b"\0")] {
        let out = Lone::one(l.recv(probe));
        assert!(out.is_pure_ack());
        assert_eq!((out.seq, out.ack), (0, 0));
    }
}

#[test]
fn two_with_keepalive_live_for_ever() {
    let mut p = Pair::connected(keepalive(), keepalive());
    p.run_for(SEC * 10_000);
    assert_eq!(p.client.state(), State::Established);
    assert_eq!(p.server().state(), State::Established);
    assert!(p.log.len() < 1_000, "{}", p.log.len());
}

// ---- Idle costs nothing, and no timer is ever in the past (the rig asserts it at each step).

#[test]
fn an_idle_connection_needs_no_timer() {
    for state in [State::Established, State::CloseWait, State::FinWait2] {
        let mut l = in_state(state, plain());
        let out = l.wait(SEC * 1_000);
        assert!(out.is_empty(), "{state:?}");
        assert_eq!(l.conn.poll_timeout(), None, "{state:?}");
    }
}

#[test]
fn after_a_transfer_no_timer_is_left() {
    for config in [
        TcpConfig::default(),
        plain(),
        TcpConfig {
            pacing: narrows::config::PacingMode::On {
                slow_start_gain: 200,
                avoidance_gain: 120,
            },
            ..TcpConfig::default()
        },
    ] {
        let mut p = Pair::connected(config.clone(), config);
        let data = bytes(300_000);
        p.transfer(&data, SEC * 10);
        // Large buffers are looked at each second until they are small.
        p.run_for(SEC * 10);
        assert!(p.server_got == data);
        assert_eq!(p.client.poll_timeout(), None);
        assert_eq!(p.server().poll_timeout(), None);
    }
}

#[test]
fn calling_handle_timeout_early_or_late_does_no_harm() {
    for state in SYNCHRONIZED {
        let mut l = in_state(state, plain());
        for _ in 0..10 {
            assert!(l.settle().is_empty());
        }
        l.now = l.now + SEC * 100_000;
        l.settle();
        l.wait(SEC);
    }
}

/// Timers that fire on a coarse tick are rounded up to it, all of them.
#[test]
fn timers_keep_to_the_tick() {
    let tick = MS * 10;
    let delayed = AckPolicy {
        delay: MS * 37,
        every: 2,
        quick_acks: 0,
    };
    let config = TcpConfig {
        timer_tick: tick,
        ack: delayed,
        ..keepalive()
    };
    let mut l = Lone::established(config);
    l.wait(MS * 3);
    l.recv(text(0, 0, b"x"));
    l.send(b"x");
    for _ in 0..5 {
        let at = l.conn.poll_timeout().unwrap();
        assert_eq!(at.as_nanos() % tick.as_nanos(), 0);
        l.next_timer();
    }
}

// ---- Local drops.

#[derive(Clone, Copy, Debug)]
enum What {
    Syn,
    SynAck,
    Data,
    Fin,
    PureAck,
    Retransmission,
    Reset,
}

fn drop_it(l: &mut Lone, out: &Out) {
    l.conn.handle_local_drop(l.now, &out.tcp, out.data.len());
}

fn same(a: &TcpHeader, b: &TcpHeader) -> bool {
    (a.seq, a.ack, a.flags.without(Flags::PSH)) == (b.seq, b.ack, b.flags.without(Flags::PSH))
}

/// Under Requeue the same segment leaves as soon as there is room, however often it is refused.
#[test]
fn a_refused_segment_leaves_when_there_is_room() {
    use What::*;
    for what in [Syn, SynAck, Data, Fin, PureAck, Retransmission, Reset] {
        let (mut l, first) = match what {
            Syn => Lone::syn_sent(plain()),
            SynAck => Lone::syn_received(plain(), &syn()),
            Data => {
                let mut l = Lone::established(plain());
                let o = Lone::one(l.send(b"data"));
                (l, o)
            }
            Fin => {
                let mut l = Lone::established(plain());
                let o = Lone::one(l.close());
                (l, o)
            }
            PureAck => {
                let mut l = Lone::established(plain());
                let o = Lone::one(l.recv(text(0, 0, b"x")));
                (l, o)
            }
            Retransmission => {
                let mut l = Lone::established(plain());
                l.send(b"data");
                let o = Lone::one(l.next_timer());
                (l, o)
            }
            Reset => {
                let mut l = Lone::established(plain());
                l.conn.abort(l.now);
                let o = Lone::one(l.settle());
                (l, o)
            }
        };
        let mut out = first.clone();
        for _ in 0..5 {
            drop_it(&mut l, &out);
            let again = l.settle();
            assert_eq!(again.len(), 1, "{what:?} {again:#?}");
            out = again.into_iter().next().unwrap();
            assert!(same(&out.tcp, &first.tcp), "{what:?}: {out:?}");
            assert_eq!(out.data, first.data);
        }
        assert!(l.settle().is_empty(), "{what:?}");
    }
}

#[test]
fn a_burst_refused_from_the_middle_is_sent_whole() {
    let mut l = Lone::established(plain());
    let data = bytes(10_000);
    let out = l.send(&data);
    assert_eq!(out.len(), 10);
    // The device took four; the rest comes back, last first as a ring gives it.
    for o in out[4..].iter().rev() {
        drop_it(&mut l, o);
    }
    let again = l.settle();
    assert_eq!(again.len(), 6);
    assert_eq!(again[0].seq, 4_000);
    assert_eq!(l.conn.sender_stats().local_drops, 6);
    assert_eq!(
        l.conn.sender_stats().retransmits,
        0,
        "it never was on the wire"
    );
}

#[test]
fn a_burst_refused_in_order_is_sent_whole() {
    let mut l = Lone::established(plain());
    let data = bytes(10_000);
    let out = l.send(&data);
    for o in &out[4..] {
        drop_it(&mut l, o);
    }
    let mut again = l.settle();
    again.sort_by_key(|o| o.seq);
    let mut at = 4_000;
    for o in &again {
        assert_eq!(o.seq, at);
        assert_eq!(o.data[..], data[at as usize..at as usize + o.data.len()]);
        at += o.data.len() as i64;
    }
    assert_eq!(at, 10_000);
    l.recv(ack(0, 10_000));
    assert_eq!(l.conn.poll_timeout(), None);
}

#[test]
fn under_ignore_the_timer_finds_it() {
    let mut l = Lone::established(TcpConfig {
        local_drop: Arc::new(LocalDropRule::Ignore),
        ..plain()
    });
    let out = Lone::one(l.send(b"data"));
    drop_it(&mut l, &out);
    assert!(l.settle().is_empty());
    assert_eq!(Lone::one(l.next_timer()).data, b"data");
}

#[test]
fn under_congestion_the_window_shrinks_once() {
    let mut l = Lone::established(TcpConfig {
        local_drop: Arc::new(LocalDropRule::Congestion),
        ..plain()
    });
    let cwnd = |l: &Lone| {
        use narrows_congestion::CongestionControl;
        l.conn.sender().congestion().cwnd()
    };
    let out = l.send(&bytes(10_000));
    let before = cwnd(&l);
    for o in out[5..].iter().rev() {
        drop_it(&mut l, o);
    }
    l.settle();
    for i in 1..=10 {
        l.recv(ack(0, i * 1_000));
    }
    let after = cwnd(&l);
    assert!(
        after < before && after * 4 > before,
        "{before:?} -> {after:?}"
    );
}

#[test]
fn a_local_drop_of_something_long_gone_is_harmless() {
    let mut l = Lone::established(plain());
    let syn = seg(SYN, 0, 0).tcp;
    let out = Lone::one(l.send(b"data"));
    l.recv(ack(0, 4));
    drop_it(&mut l, &out);
    l.conn.handle_local_drop(l.now, &syn, 0);
    let mut odd = out.tcp.clone();
    odd.seq += 1 << 30;
    l.conn.handle_local_drop(l.now, &odd, 4);
    odd.seq += 1 << 31;
    l.conn.handle_local_drop(l.now, &odd, usize::MAX);
    assert!(l.settle().iter().all(|o| o.is_pure_ack()));
    assert_eq!(Lone::one(l.send(b"more")).seq, 4);
    l.conn.abort(l.now);
    l.settle();
    drop_it(&mut l, &out);
    assert!(l.settle().is_empty());
    let _ = (positions(State::Established), syn_ack());
}
