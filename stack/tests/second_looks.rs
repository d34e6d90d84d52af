//! Corners that a second reading found: what probes of closed windows, refused packets and users
//! who have left must not do.

use crate::lab::{Lab, MSS, ms, segments, textbook};
use crate::pair::lone::{Lone, ack, in_state, plain};
use narrows::Duration;
use narrows::config::{EcnMode, InitialWindow, Keepalive, Lifetimes, RecoverySending, TcpConfig};
use narrows::conn::state::{CloseReason, State};
use narrows::wire::Flags;

const SEC: Duration = Duration::from_secs(1);

/// ESTABLISHED without SACK, a closed window, and ten bytes waiting for it.
fn closed_window() -> Lone {
    let mut l = Lone::established(plain());
    l.recv(ack(0, 0).win(0));
    assert!(l.send(&[1; 10]).is_empty());
    l
}

/// Answers to probes of a closed window are no duplicate ACKs.
#[test]
fn answered_probes_start_no_recovery() {
    let mut l = closed_window();
    for _ in 0..12 {
        let probe = Lone::one(l.next_timer());
        assert_eq!((probe.seq, probe.data.len()), (0, 1));
        assert!(l.recv(ack(0, 0).win(0)).is_empty(), "nothing to send");
    }
    let stats = l.conn.sender_stats();
    assert_eq!((stats.fast_recoveries, stats.timeouts), (0, 0));
}

/// The same where the window shrank below what was sent.
#[test]
fn answered_probes_of_a_shrunken_window_start_no_recovery() {
    let mut l = Lone::established(plain());
    assert_eq!(l.send(&[1; 4_000]).len(), 4);
    l.recv(ack(0, 0).win(0));
    for _ in 0..8 {
        l.next_timer();
        l.recv(ack(0, 0).win(0));
    }
    assert_eq!(l.conn.sender_stats().fast_recoveries, 0);
}

/// The byte that probed and was not taken is no local drop.
#[test]
fn a_probe_that_was_not_taken_counts_as_nothing_else() {
    for probes in 1..4 {
        let mut l = closed_window();
        for _ in 0..probes {
            l.next_timer();
        }
        let out = Lone::one(l.recv(ack(0, 0).win(5_000)));
        assert_eq!(out.seq, 0);
        assert_eq!(l.conn.sender_stats().local_drops, 0);
        let end = out.seq + out.data.len() as i64;
        l.recv(ack(0, end).win(5_000));
        l.recv(ack(0, 10).win(5_000));
        assert!(l.conn.sender().is_idle());
        assert_eq!(l.conn.poll_timeout(), None);
    }
}

/// A peer that answers probes and never opens its window keeps a connection only for as long as
/// somebody wants it.
#[test]
fn nobody_waits_for_ever_for_a_window() {
    let limit = SEC * 300;
    for (released, stall) in [(true, Some(limit)), (true, None), (false, Some(limit))] {
        let mut l = Lone::established(TcpConfig {
            lifetimes: Lifetimes {
                orphan_stall: stall,
                ..plain().lifetimes
            },
            ..plain()
        });
        l.recv(ack(0, 0).win(0));
        l.send(&[1; 10]);
        if released {
            l.conn.release(l.now);
        } else {
            l.close();
        }
        let begin = l.now;
        while l.now < begin + SEC * 3_000 {
            let out = l.next_timer();
            if out.iter().any(|o| o.has(Flags::RST)) {
                break;
            }
            l.recv(ack(0, 0).win(0));
        }
        if released && stall.is_some() {
            assert_eq!(l.state(), State::Closed(CloseReason::TimedOut));
            assert_eq!(l.now.since(begin), limit);
        } else {
            assert_eq!(l.state(), State::FinWait1);
        }
    }
}

/// Progress renews the patience; one that is released in the end has it in full.
#[test]
fn a_slow_reader_of_a_released_connection_is_waited_for() {
    let mut l = Lone::established(plain());
    l.send(&[1; 3_000]);
    l.close();
    l.wait(ms(1));
    l.conn.release(l.now);
    for k in 1..=3 {
        let out = l.wait(SEC * 200);
        assert!(out.iter().all(|o| !o.has(Flags::RST)));
        l.recv(ack(0, k * 1_000));
    }
    assert_eq!(l.state(), State::FinWait1);
    l.recv(ack(0, 3_001));
    assert_eq!(l.state(), State::FinWait2);
    l.wait(SEC * 60);
    assert_eq!(l.state(), State::Closed(CloseReason::Finished));
}

#[test]
fn fin_wait_2_of_a_user_who_reads_on_needs_no_timer() {
    let l = in_state(State::FinWait2, plain());
    assert_eq!(l.conn.poll_timeout(), None);
}

// ---- Refused by the device.

#[test]
fn a_refused_keepalive_probe_stays_a_probe() {
    let mut l = Lone::established(TcpConfig {
        lifetimes: Lifetimes {
            keepalive: Some(Keepalive {
                idle: SEC,
                interval: SEC,
                probes: 3,
            }),
            ..plain().lifetimes
        },
        ..plain()
    });
    let probe = Lone::one(l.next_timer());
    l.conn.handle_local_drop(l.now, &probe.tcp, 0);
    assert_eq!(Lone::one(l.settle()).seq, -1, "SND.NXT - 1, as before");
}

/// RFC 3168 section 6.1.2: CWR is on the first new segment that really leaves.
#[test]
fn a_refused_segment_takes_its_cwr_along() {
    let config = TcpConfig {
        ecn: EcnMode::Classic,
        ..textbook("sack")
    };
    let mut lab = Lab::connected_with(config, ms(10), Flags::ECE);
    lab.write(40);
    lab.ack_now(MSS, &[], Flags::ECE);
    let mut next = 2;
    let first = loop {
        let sent = lab.log.iter().find(|o| o.has(Flags::CWR)).cloned();
        match sent {
            Some(out) => break out,
            None => lab.ack(next),
        };
        next += 1;
    };
    lab.conn
        .handle_local_drop(lab.now, &first.tcp, first.len as usize);
    let again = lab.pump();
    assert_eq!(again[0].offset, first.offset);
    assert!(again[0].has(Flags::CWR));
}

#[test]
fn a_refused_tail_loss_probe_is_sent_when_there_is_room() {
    let mut lab = Lab::connected(textbook("rack"), ms(100));
    lab.write(2);
    let probe = lab.timer();
    assert_eq!(segments(&probe), [1]);
    for _ in 0..3 {
        lab.conn
            .handle_local_drop(lab.now, &probe[0].tcp, MSS as usize);
        assert_eq!(segments(&lab.pump()), [1]);
    }
    assert_eq!(lab.conn.sender_stats().tail_loss_probes, 1);
}

/// PRR does not count what never left, and the first retransmission keeps its right to leave.
#[test]
fn a_refused_segment_of_a_recovery_leaves_at_once() {
    for recovery in [RecoverySending::Prr, RecoverySending::Pipe] {
        let config = TcpConfig {
            recovery,
            initial_window: InitialWindow::Segments(10),
            ..textbook("sack")
        };
        let mut lab = Lab::connected(config, ms(100));
        lab.write(40);
        let mut left = 0;
        for k in 2..=10 {
            for out in lab.sack(0, &[(1, k)]) {
                for _ in 0..2 {
                    lab.conn
                        .handle_local_drop(lab.now, &out.tcp, out.len as usize);
                    let again = lab.pump();
                    assert_eq!(segments(&again), [out.segment()], "{recovery:?}");
                }
                left += 1;
            }
        }
        assert!(left >= 4, "{recovery:?} {left}");
    }
}

/// A path whose round trip takes no time at all: no timer is due at once.
#[test]
fn a_round_trip_of_no_time() {
    let mut lab = Lab::connected(textbook("rack"), Duration::ZERO);
    lab.write(3);
    assert_eq!(lab.conn.sender().rtt().srtt(), Some(Duration::ZERO));
    assert!(lab.conn.poll_timeout().unwrap() > lab.now);
    lab.ack(3);
    assert_eq!(lab.conn.poll_timeout(), None);
}
