//! One window of data, one reduction (RFC 5681 section 4.3, RFC 6675 section 5, RFC 3168
//! section 6.1.2): which losses are of a window that was answered for, and which of the next.

mod lab;

use lab::{Lab, MSS, ms, segments, stamped, textbook, us};
use narrows::config::{EcnMode, InitialWindow, RecoverySending, SpuriousDetection, TcpConfig};
use narrows::congestion::CaState;
use narrows::wire::Flags;

fn window(config: TcpConfig, segments: u32) -> TcpConfig {
    TcpConfig {
        initial_window: InitialWindow::Segments(segments),
        ..config
    }
}

/// `n` segments in flight, `total` written, an RTT later.
fn flight(config: TcpConfig, n: u32, total: u64, flags: Flags) -> Lab {
    let mut lab = Lab::connected_with(window(config, n), ms(100), flags);
    assert_eq!(lab.write(total).len(), n as usize);
    lab.wait(ms(100));
    lab
}

fn state(lab: &Lab) -> CaState {
    lab.conn.sender().ca_state()
}

fn nxt(lab: &Lab) -> u64 {
    (lab.conn.sender().nxt() - 1) / MSS
}

/// The ACK that ends a recovery, and calls for the reduction of the next window, acknowledges what
/// was in flight until it came: that is the FlightSize of equation 4, not what it leaves.
#[test]
fn rfc5681_3_1_flight_size_is_of_before_the_ack() {
    for recovery in [RecoverySending::Prr, RecoverySending::Pipe] {
        let config = TcpConfig {
            recovery,
            ..textbook("sack")
        };
        let mut lab = flight(config, 20, 36, Flags::NONE);
        for n in 2..=20 {
            lab.sack(0, &[(1, n)]);
        }
        assert_eq!((lab.reductions(), lab.ssthresh()), (1, 10));
        // 23 is lost, of what left during the recovery.
        lab.wait(ms(100));
        let end = nxt(&lab);
        for n in 25..=end {
            lab.sack(0, &[(24, n), (1, 23)]);
        }
        lab.wait(ms(100));
        // 0 and 23 arrive. What was in flight is more than five segments, what is left, nothing.
        let all = nxt(&lab);
        assert_eq!(all, 36);
        let outstanding = all - lab.conn.sender().una() / MSS;
        lab.ack(all);
        assert_eq!(lab.reductions(), 2, "{recovery:?}");
        assert!(lab.ssthresh() >= 5, "{}", lab.ssthresh());
        assert!(lab.ssthresh() <= outstanding / 2);
        // With nothing in flight there is nothing to recover: the window is open.
        assert_eq!((state(&lab), lab.pipe()), (CaState::Open, 0));
        lab.wait(ms(10));
        let window = lab.cwnd();
        assert_eq!(segments(&lab.write(20)).len() as u64, window);
    }
}

/// The same where the losses themselves come to light with an ACK that acknowledges a lot.
#[test]
fn rfc5681_3_1_an_ack_of_many_segments_does_not_shrink_the_flight() {
    for detector in ["sack", "rack"] {
        let mut lab = flight(textbook(detector), 20, 20, Flags::NONE);
        lab.sack(15, &[(16, 20)]);
        lab.wait(ms(30));
        assert_eq!((lab.reductions(), lab.ssthresh()), (1, 10), "{detector}");
    }
}

/// The loss of a retransmission lowered the window: losses of what was sent before that are no
/// further indication, though it was sent after the recovery began.
#[test]
fn rfc5681_4_3_a_second_reduction_answers_for_all_that_was_sent_before_it() {
    let mut lab = flight(textbook("rack"), 40, 400, Flags::NONE);
    for n in 2..=40 {
        lab.wait(us(500));
        lab.sack(0, &[(1, n)]);
    }
    let point = nxt(&lab);
    assert_eq!(lab.reductions(), 1);
    // Of the new data 44 is lost, and the retransmission of 0.
    lab.wait(ms(90));
    for n in 41..=44 {
        lab.wait(us(500));
        lab.sack(0, &[(1, n)]);
    }
    for n in 46..=point {
        lab.wait(us(500));
        lab.sack(0, &[(45, n), (1, 44)]);
    }
    lab.wait(ms(20));
    assert_eq!(lab.conn.sender_stats().lost_again, 1);
    let board = lab.conn.sender().scoreboard();
    assert!(board.get(44 * MSS + 1).unwrap().is_lost());
    assert_eq!((lab.reductions(), state(&lab)), (2, CaState::Recovery));
    lab.wait(ms(100));
    let all = nxt(&lab);
    lab.ack(all);
    assert_eq!((lab.reductions(), state(&lab)), (2, CaState::Open));
}

/// A reduction that is taken back takes with it what was to be answered for at its end.
#[test]
fn rfc5681_4_3_an_undone_recovery_leaves_nothing_to_answer_for() {
    let config = stamped(TcpConfig {
        ecn: EcnMode::Classic,
        limited_transmit: false,
        spurious: SpuriousDetection {
            eifel: true,
            ..SpuriousDetection::OFF
        },
        ..textbook("sack")
    });
    let mut lab = flight(config, 20, 300, Flags::ECE);
    let old = lab.log.last().unwrap().tcp.options.timestamps.unwrap().val;
    for n in 2..=20 {
        lab.echo = Some(old);
        lab.sack(0, &[(1, n)]);
    }
    assert_eq!((state(&lab), lab.reductions()), (CaState::Recovery, 1));
    lab.wait(ms(100));
    let sent = nxt(&lab);
    let hole = sent - 4;
    for n in hole + 2..=sent {
        lab.echo = Some(old);
        lab.sack(0, &[(hole + 1, n), (1, hole)]);
    }
    lab.echo = Some(old);
    lab.sack(hole, &[(hole + 1, sent)]);
    assert_eq!(lab.undone(), 1);
    lab.wait(ms(50));
    let before = lab.reductions();
    lab.ack_now(sent * MSS, &[], Flags::ECE);
    assert_eq!((state(&lab), lab.reductions()), (CaState::Cwr, before + 1));
    lab.wait(ms(100));
    let all = nxt(&lab);
    lab.ack(all);
    assert_eq!((state(&lab), lab.reductions()), (CaState::Open, before + 1));
}

/// A sender that a mark for 0 to 19 has slowed, and that has heard of 19 segments since. What left
/// after the reduction is in flight.
fn after_a_mark(detector: &str) -> Lab {
    let config = TcpConfig {
        ecn: EcnMode::Classic,
        ..textbook(detector)
    };
    let mut lab = flight(config, 20, 400, Flags::ECE);
    lab.ack_now(2 * MSS, &[], Flags::ECE);
    for n in 3..20 {
        lab.wait(us(100));
        lab.ack(n);
    }
    assert_eq!((state(&lab), lab.reductions()), (CaState::Cwr, 1));
    assert!(nxt(&lab) > 26);
    lab.wait(ms(100));
    lab
}

/// RFC 3168 section 6.1.2: a loss in the window that a mark was answered for changes nothing.
#[test]
fn rfc3168_6_1_2_a_loss_in_the_window_of_a_mark_is_answered_for() {
    for detector in ["sack", "rack"] {
        let mut lab = after_a_mark(detector);
        for n in 21..=nxt(&lab) {
            lab.wait(us(100));
            lab.sack(19, &[(20, n)]);
        }
        assert_eq!(
            (state(&lab), lab.reductions()),
            (CaState::Recovery, 1),
            "{detector}"
        );
        lab.wait(ms(100));
        let all = nxt(&lab);
        lab.ack(all);
        assert_eq!((state(&lab), lab.reductions()), (CaState::Open, 1));
    }
}

/// What was sent after the reduction for the mark, and is lost, is of another window: at once where
/// it comes to light with a loss in that of the mark, or when the recovery of that is over.
#[test]
fn rfc3168_6_1_2_a_loss_after_the_window_of_a_mark_lowers_it_again() {
    for (detector, together) in [
        ("sack", true),
        ("sack", false),
        ("rack", true),
        ("rack", false),
    ] {
        let mut lab = after_a_mark(detector);
        let sent = nxt(&lab);
        if !together {
            for n in 21..=23 {
                lab.wait(us(100));
                lab.sack(19, &[(20, n)]);
            }
            lab.wait(ms(30));
            assert_eq!((state(&lab), lab.reductions()), (CaState::Recovery, 1));
        }
        lab.sack(19, &[(24, sent), (20, 23)]);
        lab.wait(ms(30));
        let board = lab.conn.sender().scoreboard();
        assert!(
            [19, 23]
                .iter()
                .all(|n| board.get(n * MSS + 1).unwrap().is_lost())
        );
        let at_once = if together { 2 } else { 1 };
        assert_eq!(
            (state(&lab), lab.reductions()),
            (CaState::Recovery, at_once)
        );
        lab.wait(ms(70));
        let all = nxt(&lab);
        lab.ack(all);
        lab.wait(ms(100));
        let all = nxt(&lab);
        lab.ack(all);
        assert_eq!(
            (state(&lab), lab.reductions()),
            (CaState::Open, 2),
            "{detector} {together}"
        );
    }
}

/// RFC 6675 section 4, NextSeg rule 3: of what was sent again on suspicion the first copy is lost
/// like any other when enough above it arrives. Then the second is all that is in the pipe, and a
/// loss beyond what was answered for it is.
#[test]
fn rfc6675_4_what_was_sent_on_suspicion_is_lost_like_any_other() {
    let mut lab = flight(textbook("sack"), 20, 30, Flags::NONE);
    for n in 2..=20 {
        lab.sack(0, &[(1, n)]);
    }
    lab.wait(ms(100));
    let hole = 25;
    let mut held = lab.pipe();
    for n in hole + 2..=30 {
        lab.sack(0, &[(hole + 1, n), (1, hole)]);
        let board = lab.conn.sender().scoreboard();
        let record = *board.get(hole * MSS + 1).unwrap();
        if record.in_flight_retransmission() && !record.is_lost() {
            held = lab.pipe();
        }
    }
    let record = *lab.conn.sender().scoreboard().get(hole * MSS + 1).unwrap();
    assert!(record.is_lost() && record.in_flight_retransmission());
    assert_eq!(record.transmissions(), 2);
    // 0 and the hole, each once.
    assert_eq!((lab.pipe(), held > 2), (2, true));
    lab.wait(ms(100));
    let all = nxt(&lab);
    lab.ack(all);
    assert_eq!((state(&lab), lab.reductions()), (CaState::Open, 2));
}
