//! What never left, or cannot pass, is not in the network: it takes no room in the window, leaves
//! again without waiting for anything, and no evidence brings it back.

use crate::lab::{Lab, MSS, ms, segments, stamped, textbook, us};
use narrows::config::{InitialWindow, RecoverySending, SpuriousDetection, TcpConfig};
use narrows::congestion::{CaState, CongestionControl, LocalDropRule};
use narrows::wire::Flags;
use std::sync::Arc;

/// `n` segments in flight, `total` written, an RTT later.
fn flight(config: TcpConfig, n: u32, total: u64) -> Lab {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(n),
        ..config
    };
    let mut lab = Lab::connected(config, ms(100));
    assert_eq!(lab.write(total).len(), n as usize);
    lab.wait(ms(100));
    lab
}

fn state(lab: &Lab) -> CaState {
    lab.conn.sender().ca_state()
}

/// Bytes of payload that leave when packets of more than 500 do not pass any more, and cwnd then.
fn shrink(lab: &mut Lab) -> (u64, u64) {
    lab.conn.handle_path_mtu(lab.now, 540);
    let left = lab.pump().iter().map(|o| o.len).sum();
    (left, lab.conn.sender().congestion().cwnd().get())
}

/// It is no part of FlightSize: without limited transmit it would wait for the timeout while a
/// duplicate ACK stands.
#[test]
fn what_is_too_big_leaves_again_in_disorder_without_limited_transmit() {
    for detector in ["sack", "rack", "newreno"] {
        let config = TcpConfig {
            limited_transmit: false,
            ..textbook(detector)
        };
        let mut lab = flight(config, 20, 20);
        lab.sack(0, &[(1, 2)]);
        assert_eq!(state(&lab), CaState::Disorder);
        let (left, window) = shrink(&mut lab);
        assert!(left > window / 2 && left <= window, "{detector}: {left}");
    }
}

/// Without SACK what duplicate ACKs stand for is among it: it does not leave the pipe twice.
#[test]
fn what_is_too_big_leaves_in_no_burst_without_sack() {
    for recovery in [RecoverySending::Prr, RecoverySending::Pipe] {
        let config = TcpConfig {
            recovery,
            ..textbook("newreno")
        };
        let mut lab = flight(config, 20, 20);
        for _ in 0..15 {
            lab.ack(0);
        }
        let (left, window) = shrink(&mut lab);
        assert!(left <= window, "{recovery:?}: {left} of {window}");
    }
}

/// F-RTO waits for no ACK of it (RFC 5682 section 2.1 step 3).
#[test]
fn f_rto_does_not_wait_for_what_is_too_big() {
    for detector in ["newreno", "sack", "rack-notlp"] {
        let config = TcpConfig {
            spurious: SpuriousDetection {
                frto: true,
                ..SpuriousDetection::OFF
            },
            ..textbook(detector)
        };
        let mut lab = flight(config, 10, 12);
        lab.timer();
        assert_eq!(segments(&lab.ack(1)), [10, 11], "{detector}");
        let (left, _) = shrink(&mut lab);
        assert!(left > 0, "{detector}");
    }
}

/// A D-SACK undoes the recovery before: what is too big, or was refused, is no nearer for that.
#[test]
fn an_undo_does_not_bring_it_back() {
    for refused in [false, true] {
        let config = TcpConfig {
            spurious: SpuriousDetection {
                dsack: true,
                ..SpuriousDetection::OFF
            },
            local_drop: Arc::new(LocalDropRule::Requeue),
            ..textbook("sack")
        };
        let mut lab = flight(config, 20, 60);
        for n in 2..=20 {
            lab.sack(0, &[(1, n)]);
        }
        lab.wait(ms(100));
        let done = lab.conn.sender().nxt() / MSS;
        lab.ack(done);
        assert_eq!((state(&lab), lab.reductions()), (CaState::Open, 1));
        let end = lab.conn.sender().nxt() - 1;
        let from = lab.log.len();
        if refused {
            let out = lab.log.clone();
            let some = out.iter().filter(|o| o.segment() > done);
            for o in some.take(3) {
                lab.conn.handle_local_drop(lab.now, &o.tcp, o.len as usize);
            }
        } else {
            lab.conn.handle_path_mtu(lab.now, 540);
            lab.pump();
        }
        assert!(lab.conn.sender().scoreboard().next_lost().is_some());
        lab.ack_now(done * MSS, &[(0, MSS)], Flags::NONE);
        assert_eq!(lab.undone(), 1);
        let again = lab.log[from..].iter().filter(|o| o.offset < end);
        let again: u64 = again.map(|o| o.len).sum();
        let missing = if refused { 3 * MSS } else { end - done * MSS };
        assert_eq!(again, missing, "{refused}");
    }
}

/// After a refusal of all that was in flight the window is what it was lowered to: PRR, which
/// spreads a reduction over the ACKs of a flight, has none.
#[test]
fn after_a_refusal_of_everything_the_next_flight_is_a_window() {
    let config = TcpConfig {
        local_drop: Arc::new(LocalDropRule::Congestion),
        ..textbook("sack")
    };
    let mut lab = flight(config, 20, 20);
    lab.ack(20);
    let out = lab.write(1);
    lab.conn
        .handle_local_drop(lab.now, &out[0].tcp, out[0].len as usize);
    assert_eq!(state(&lab), CaState::Cwr);
    lab.write(60);
    assert!(lab.cwnd() >= 2);
    assert_eq!(lab.pipe(), lab.cwnd());
}

/// What a refusal took back from a reduction is not waited for: the episode ends with what is left.
#[test]
fn a_refusal_ends_the_window_of_a_reduction_earlier() {
    let config = TcpConfig {
        local_drop: Arc::new(LocalDropRule::Congestion),
        initial_window: InitialWindow::Segments(20),
        ..textbook("rack-notlp")
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(300);
    // 6 to 19 left in one piece, and before it 5; both were refused, the later first.
    for (from, count) in [(6, 14), (5, 1)] {
        let tcp = lab.log[from].tcp.clone();
        lab.conn
            .handle_local_drop(lab.now, &tcp, count * MSS as usize);
    }
    assert_eq!(state(&lab), CaState::Cwr);
    lab.pump();
    lab.wait(ms(100));
    for n in 1..=4 {
        lab.wait(us(100));
        lab.ack(n);
        assert_eq!(state(&lab), CaState::Cwr);
    }
    lab.ack(5);
    assert_eq!(state(&lab), CaState::Open);
}

/// Of what was too big for the path and left again there is one copy, whatever becomes of the rest:
/// the partial ACK that ends classic Reno's recovery does not count the other.
#[test]
fn what_left_again_in_smaller_segments_is_in_flight_once() {
    let mut lab = flight(textbook("reno"), 20, 20);
    lab.conn.handle_path_mtu(lab.now, 540);
    let again = lab.pump();
    lab.wait(ms(100));
    // The first and the fourth of the small ones are lost.
    for _ in 0..again.len() - 2 {
        lab.ack(0);
    }
    assert_eq!(state(&lab), CaState::Recovery);
    lab.wait(ms(100));
    lab.ack_now(again[3].offset, &[], Flags::NONE);
    let sender = lab.conn.sender();
    let outstanding = sender.nxt() - sender.una();
    assert!(sender.scoreboard().pipe().get() <= outstanding);
}

/// What left again and is then found lost is like anything else: an undo says that it is late.
#[test]
fn what_left_again_and_was_judged_lost_is_brought_back() {
    let config = TcpConfig {
        spurious: SpuriousDetection {
            eifel: true,
            ..SpuriousDetection::OFF
        },
        ..stamped(textbook("rack-notlp"))
    };
    let mut lab = flight(config, 20, 20);
    lab.conn.handle_path_mtu(lab.now, 540);
    let again = lab.pump();
    let stamp = again[0].tcp.options.timestamps.unwrap().val;
    lab.wait(ms(100));
    // The first twenty are missing; most of them wait for room.
    let sacked = (again[20].offset, again[27].offset);
    lab.ack_now(0, &[sacked], Flags::NONE);
    assert_eq!(state(&lab), CaState::Recovery);
    let waits = |lab: &Lab| {
        let record = lab.conn.sender().scoreboard().get(again[19].offset + 1);
        record.is_some_and(|r| r.is_lost() && !r.in_flight_retransmission())
    };
    assert!(waits(&lab));
    lab.wait(ms(1));
    lab.echo = Some(stamp);
    lab.ack_now(again[1].offset, &[sacked], Flags::NONE);
    assert_eq!(lab.undone(), 1);
    assert!(!waits(&lab));
}
