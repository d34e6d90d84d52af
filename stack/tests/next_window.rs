//! One window of data, one reduction (RFC 5681 section 4.3, RFC 6675 section 5, RFC 3168
//! section 6.1.2): which losses are of a window that was answered for, and which of the next.

use crate::lab::{Lab, MSS, congestion, ms, segments, stamped, textbook, us};
use narrows::config::{EcnMode, InitialWindow, RecoverySending, SpuriousDetection, TcpConfig};
use narrows::congestion::{CaState, LocalDropRule};
use narrows::wire::Flags;
use std::sync::Arc;

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

/// Of 20 segments the first is late, not lost: what its ACKs echo says so. The recovery it sets off
/// sends new data, of which `hole` is missing; TSval of the originals, `hole`, and SND.NXT, in
/// segments.
fn late_first_then_a_hole(lab: &mut Lab) -> (u32, u64, u64) {
    let old = lab.log.last().unwrap().tcp.options.timestamps.unwrap().val;
    for n in 2..=20 {
        lab.echo = Some(old);
        lab.sack(0, &[(1, n)]);
    }
    assert_eq!((state(lab), lab.reductions()), (CaState::Recovery, 1));
    lab.wait(ms(100));
    let sent = nxt(lab);
    let hole = sent - 4;
    for n in hole + 2..=sent {
        lab.echo = Some(old);
        lab.sack(0, &[(hole + 1, n), (1, hole)]);
    }
    (old, hole, sent)
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
    let (old, hole, sent) = late_first_then_a_hole(&mut lab);
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

/// But for what is certain: of a segment beyond that was sent again, and of which no D-SACK came
/// from a peer that sends them, one copy was lost. The window answers for that, once. A segment
/// that was only late, or a peer that sends no D-SACKs, costs nothing.
#[test]
fn rfc5681_4_3_a_loss_beyond_an_undone_recovery_is_answered_for() {
    for (tells, late) in [(true, false), (true, true), (false, false)] {
        let config = stamped(TcpConfig {
            limited_transmit: false,
            spurious: SpuriousDetection {
                eifel: true,
                ..SpuriousDetection::OFF
            },
            ..textbook("sack")
        });
        let mut lab = flight(config, 20, 600, Flags::NONE);
        let (old, hole, sent) = late_first_then_a_hole(&mut lab);
        let again = segments(&lab.log).iter().filter(|s| **s == hole).count();
        assert_eq!(again, 2, "repaired in the recovery");
        lab.wait(ms(50));
        lab.echo = Some(old);
        lab.sack(hole, &[(hole + 1, sent)]);
        assert_eq!((lab.undone(), lab.reductions()), (1, 1));
        if tells {
            // The copy of the segment that was late.
            lab.sack(hole, &[(0, 1), (hole + 1, sent)]);
        }
        lab.wait(ms(50));
        lab.ack(sent);
        if late {
            lab.sack(sent, &[(hole, hole + 1)]);
        }
        for _ in 0..4 {
            lab.wait(ms(100));
            let all = nxt(&lab);
            lab.ack(all);
        }
        let expected = if tells && !late { 2 } else { 1 };
        assert_eq!(lab.reductions(), expected, "{tells} {late}");
        assert!(lab.conn.sender_stats().timeouts == 0);
    }
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
        let record = board.get(hole * MSS + 1).unwrap();
        if record.in_flight_retransmission() && !record.is_lost() {
            held = lab.pipe();
        }
    }
    let record = lab.conn.sender().scoreboard().get(hole * MSS + 1).unwrap();
    assert!(record.is_lost() && record.in_flight_retransmission());
    assert_eq!(record.transmissions, 2);
    // 0 and the hole, each once.
    assert_eq!((lab.pipe(), held > 2), (2, true));
    lab.wait(ms(100));
    let all = nxt(&lab);
    lab.ack(all);
    assert_eq!((state(&lab), lab.reductions()), (CaState::Open, 2));
}

/// The same when that comes to light after the recovery.
#[test]
fn rfc6675_4_what_was_sent_on_suspicion_may_be_judged_later() {
    let mut lab = flight(textbook("sack"), 20, 26, Flags::NONE);
    for n in 2..=20 {
        lab.sack(0, &[(1, n)]);
    }
    assert_eq!(nxt(&lab), 26);
    let hole = 23;
    lab.wait(ms(100));
    lab.sack(0, &[(hole + 1, hole + 2), (1, hole)]);
    lab.sack(hole, &[(hole + 1, hole + 2)]);
    assert_eq!((lab.reductions(), state(&lab)), (1, CaState::Disorder));
    lab.write(4);
    lab.wait(ms(50));
    let all = nxt(&lab);
    lab.sack(hole, &[(hole + 1, all)]);
    lab.wait(ms(50));
    lab.ack(all);
    assert_eq!((lab.reductions(), state(&lab)), (2, CaState::Open));
}

/// The ACK that tells that a probe has repaired a loss may acknowledge all that was in flight.
#[test]
fn rfc8985_7_4_2_flight_size_is_of_before_the_ack() {
    let mut lab = Lab::connected(window(textbook("rack"), 20), ms(100));
    lab.write(10);
    assert_eq!(segments(&lab.wait(ms(250))), [9]);
    lab.write(10);
    lab.wait(ms(50));
    let all = nxt(&lab);
    lab.ack(all);
    assert_eq!((lab.reductions(), lab.ssthresh()), (1, all / 2));
}

/// What the ACK of the last segment calls for holds for the next flight, which is half as large:
/// PRR has nothing to spread.
#[test]
fn rfc3168_6_1_2_a_mark_on_the_last_segment_halves_the_next_flight() {
    for (mode, control) in [(EcnMode::Classic, "cubic"), (EcnMode::Dctcp, "dctcp")] {
        let config = TcpConfig {
            ecn: mode,
            ..congestion(textbook("sack"), control)
        };
        let mut lab = flight(config, 20, 20, Flags::ECE);
        for n in [4, 8, 12, 16, 18] {
            lab.ack(n);
        }
        lab.ack_now(20 * MSS, &[], Flags::ECE);
        assert_eq!((lab.reductions(), state(&lab)), (1, CaState::Open));
        lab.wait(ms(10));
        let window = lab.cwnd();
        assert!(window < 20);
        assert_eq!(segments(&lab.write(40)).len() as u64, window, "{control}");
    }
}

/// A device that refuses all of a flight, time and again, lowers the window once.
#[test]
fn refusals_of_everything_lower_the_window_once() {
    for flight in [1, 20] {
        let config = TcpConfig {
            local_drop: Arc::new(LocalDropRule::Congestion),
            ..window(textbook("sack"), 20)
        };
        let mut lab = Lab::connected(config, ms(100));
        let mut out = lab.write(flight);
        let mut first = None;
        for _ in 0..5 {
            for o in out.iter().rev() {
                lab.conn.handle_local_drop(lab.now, &o.tcp, o.len as usize);
            }
            lab.wait(ms(1));
            out = lab.pump();
            let ssthresh = lab.ssthresh();
            assert_eq!(*first.get_or_insert(ssthresh), ssthresh);
            assert_eq!(state(&lab), CaState::Cwr);
        }
    }
}

/// Twenty segments have left, of which the device refuses `count` from `first` on in one piece: the
/// window answers.
fn refused(detector: &str, first: usize, count: usize) -> Lab {
    let config = TcpConfig {
        local_drop: Arc::new(LocalDropRule::Congestion),
        ..window(textbook(detector), 20)
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(300);
    let tcp = lab.log[first].tcp.clone();
    lab.conn
        .handle_local_drop(lab.now, &tcp, count * MSS as usize);
    assert_eq!(state(&lab), CaState::Cwr);
    lab
}

/// What a refusal took back is sent after the reduction that the refusal called for: its loss is of
/// the next window.
#[test]
fn rfc5681_4_3_what_was_taken_back_is_not_answered_for() {
    let mut lab = refused("rack-notlp", 4, 16);
    assert_eq!((state(&lab), lab.ssthresh()), (CaState::Cwr, 9));
    lab.pump();
    lab.wait(ms(100));
    for n in 1..=4 {
        lab.wait(us(100));
        lab.ack(n);
    }
    let end = nxt(&lab);
    assert!(end >= 8);
    lab.wait(ms(100));
    for n in 6..=end {
        lab.wait(us(100));
        lab.sack(4, &[(5, n)]);
    }
    assert_eq!(lab.reductions(), 1);
}

/// And that may come to light while the reduction's own window is not over.
#[test]
fn rfc5681_4_3_what_was_taken_back_may_be_lost_in_cwr() {
    let mut lab = refused("sack", 4, 16);
    lab.pump();
    lab.wait(ms(100));
    for n in 1..=3 {
        lab.wait(us(100));
        lab.ack(n);
    }
    let end = nxt(&lab);
    assert!(end >= 8 && state(&lab) == CaState::Cwr);
    // 3 is lost, and 4.
    lab.wait(ms(100));
    lab.sack(3, &[(5, end)]);
    assert_eq!((state(&lab), lab.reductions()), (CaState::Recovery, 1));
}

/// The same of a retransmission that left after it.
#[test]
fn rfc5681_4_3_a_retransmission_made_in_cwr_and_lost_lowers_the_window() {
    let mut lab = refused("rack-notlp", 5, 1);
    assert_eq!((state(&lab), lab.ssthresh()), (CaState::Cwr, 10));
    lab.log.clear();
    lab.pump();
    lab.wait(ms(100));
    for n in 1..=5 {
        lab.wait(us(100));
        lab.ack(n);
    }
    for n in 7..=20 {
        lab.wait(us(100));
        lab.sack(5, &[(6, n)]);
    }
    assert!(segments(&lab.log).contains(&5));
    assert_eq!(lab.reductions(), 0);
    let end = nxt(&lab);
    lab.wait(ms(100));
    for n in 21..=end {
        lab.wait(us(100));
        lab.sack(5, &[(6, n)]);
    }
    lab.wait(ms(50));
    assert_eq!(lab.reductions(), 1);
}

/// The same if a recovery for what the reduction has answered for has begun in between.
#[test]
fn rfc5681_4_3_a_recovery_without_a_reduction_answers_for_nothing_new() {
    let mut lab = refused("rack-notlp", 5, 1);
    lab.wait(ms(100));
    for n in 1..=3 {
        lab.wait(us(100));
        lab.ack(n);
    }
    // 3 is lost, and was sent before.
    for n in 7..=12 {
        lab.wait(us(100));
        lab.sack(3, &[(4, 5), (6, n)]);
    }
    assert_eq!((state(&lab), lab.reductions()), (CaState::Recovery, 0));
    // So is 5, as it left after it.
    let end = nxt(&lab);
    lab.wait(ms(100));
    lab.sack(5, &[(6, end)]);
    let sent = segments(&lab.log).iter().filter(|s| **s == 5).count();
    assert_eq!((sent, lab.reductions()), (3, 1));
}

/// What the device refused within a reduction is no loss, of whatever window.
#[test]
fn a_local_drop_after_a_mark_is_not_answered_for() {
    let mut lab = after_a_mark("sack");
    let new = lab.log.iter().filter(|o| o.segment() >= 20).cloned();
    let new: Vec<_> = new.collect();
    lab.conn
        .handle_local_drop(lab.now, &new[1].tcp, new[1].len as usize);
    lab.pump();
    // 19 is lost.
    lab.sack(19, &[(20, 21)]);
    lab.sack(19, &[(22, 25), (20, 21)]);
    assert_eq!((state(&lab), lab.reductions()), (CaState::Recovery, 1));
}

/// After the loss of a retransmission the recovery goes on until all that was sent before is
/// acknowledged: a loss of that lowers nothing, whenever it is found, and neither does a mark.
#[test]
fn rfc5681_4_3_after_a_second_reduction_the_recovery_lasts_for_its_window() {
    for mark in [false, true] {
        let config = TcpConfig {
            ecn: EcnMode::Classic,
            ..textbook("rack-notlp")
        };
        let mut lab = flight(config, 20, 300, Flags::ECE);
        for n in 2..=20 {
            lab.wait(us(100));
            lab.sack(0, &[(1, n)]);
        }
        let sent = nxt(&lab);
        assert!(sent > 26);
        // The retransmission of 0 is lost.
        lab.wait(ms(100));
        lab.sack(0, &[(1, 23)]);
        assert_eq!((state(&lab), lab.reductions()), (CaState::Recovery, 2));
        lab.wait(ms(50));
        let hole = sent - 1;
        let flags = if mark { Flags::ECE } else { Flags::NONE };
        lab.ack_now(hole * MSS, &[], flags);
        assert_eq!((state(&lab), lab.reductions()), (CaState::Recovery, 2));
        if !mark {
            // What was sent before that and is lost comes to light now.
            lab.wait(ms(50));
            lab.sack(hole, &[(hole + 1, nxt(&lab))]);
            lab.wait(ms(100));
            let resent = segments(&lab.log).iter().filter(|s| **s == hole).count();
            assert_eq!((resent, lab.reductions()), (2, 2));
        }
        lab.wait(ms(100));
        let all = nxt(&lab);
        lab.ack(all);
        assert_eq!((state(&lab), lab.reductions()), (CaState::Open, 2));
    }
}

/// Without SACK the reduction at the end of a recovery is all there is: nothing is known to be
/// lost, and the ACKs of the next window are not partial ones.
#[test]
fn rfc6582_3_2_an_answer_for_the_next_window_resends_nothing() {
    for recovery in [RecoverySending::Prr, RecoverySending::Pipe] {
        let config = TcpConfig {
            ecn: EcnMode::Classic,
            recovery,
            ..textbook("newreno")
        };
        let mut lab = flight(config, 20, 300, Flags::ECE);
        lab.ack_now(MSS, &[], Flags::ECE);
        let answered = nxt(&lab);
        for n in 2..=15 {
            lab.ack(n);
        }
        assert!(nxt(&lab) > answered + 3);
        // 15 is lost, and one that was sent after the reduction.
        for _ in 0..4 {
            lab.ack(15);
        }
        assert_eq!((state(&lab), lab.reductions()), (CaState::Recovery, 1));
        let recover = nxt(&lab);
        for _ in 0..6 {
            lab.ack(15);
        }
        lab.wait(ms(100));
        lab.ack(answered + 1);
        for _ in 0..4 {
            lab.ack(answered + 1);
        }
        lab.wait(ms(100));
        lab.ack(recover);
        assert_eq!((state(&lab), lab.reductions()), (CaState::Cwr, 2));
        let end = nxt(&lab);
        assert!(end > recover + 2);
        lab.log.clear();
        for n in recover + 1..end {
            lab.ack(n);
        }
        let again: Vec<_> = segments(&lab.log)
            .into_iter()
            .filter(|s| *s < end)
            .collect();
        assert!(again.is_empty(), "{recovery:?} {again:?}");
    }
}

/// That reduction is for a loss that is certain: no D-SACK of something else takes it back.
#[test]
fn rfc3708_3_the_answer_for_the_next_window_is_not_undone() {
    let config = TcpConfig {
        limited_transmit: false,
        spurious: SpuriousDetection {
            dsack: true,
            ..SpuriousDetection::OFF
        },
        ..textbook("sack")
    };
    for repaired in [true, false] {
        let mut lab = flight(config.clone(), 20, 300, Flags::NONE);
        for n in 2..=20 {
            lab.sack(0, &[(1, n)]);
        }
        let sent = nxt(&lab);
        // 21 was sent in recovery and is lost.
        lab.wait(ms(100));
        for n in 23..=sent {
            lab.sack(0, &[(22, n), (1, 21)]);
        }
        lab.wait(ms(100));
        if !repaired {
            lab.sack(21, &[(22, sent)]);
            assert_eq!((state(&lab), lab.reductions()), (CaState::Recovery, 2));
        }
        let all = nxt(&lab);
        lab.ack(sent);
        assert_eq!(lab.reductions(), 2);
        let window = lab.cwnd();
        // The next is late, and sent again needlessly.
        for n in sent + 2..=all {
            lab.sack(sent, &[(sent + 1, n)]);
        }
        let resent = segments(&lab.log).iter().filter(|s| **s == sent).count();
        assert_eq!(resent, 2);
        let all = nxt(&lab);
        lab.ack(all - 1);
        lab.sack(all - 1, &[(sent, sent + 1)]);
        assert_eq!(lab.undone(), 0);
        assert!(lab.cwnd() <= window + 1);
    }
}

/// A timeout within a fast recovery proves spurious: what the fast recovery has answered for is
/// answered for.
#[test]
fn rfc5681_4_3_an_undone_timeout_leaves_the_reduction_before_it() {
    for detector in ["sack", "rack-notlp"] {
        let config = TcpConfig {
            spurious: SpuriousDetection {
                eifel: true,
                ..SpuriousDetection::OFF
            },
            ..stamped(textbook(detector))
        };
        let mut lab = flight(config, 20, 60, Flags::NONE);
        for n in 2..=5 {
            lab.sack(0, &[(1, n)]);
        }
        lab.wait(ms(30));
        assert_eq!((state(&lab), lab.reductions()), (CaState::Recovery, 1));
        let echo = (lab.now.as_nanos() / 1_000) as u32;
        let ssthresh = lab.ssthresh();
        while state(&lab) != CaState::Loss {
            lab.timer();
        }
        // The ACK of the fast retransmission.
        lab.wait(ms(20));
        lab.echo = Some(echo);
        lab.ack(10);
        assert_eq!((lab.undone(), state(&lab)), (1, CaState::Cwr), "{detector}");
        // 10 was lost, of the window that the first reduction answered for.
        for n in 12..=20 {
            lab.echo = Some(echo);
            lab.sack(10, &[(11, n)]);
        }
        lab.wait(ms(50));
        assert!(segments(&lab.log).iter().filter(|s| **s == 10).count() >= 2);
        assert_eq!((lab.reductions(), lab.ssthresh()), (1, ssthresh));
    }
}

/// A reduction that ECN-Echo upholds (RFC 4015 section 3.1 step 9) has answered for its window,
/// and the losses in it do not lower it again.
#[test]
fn rfc4015_3_1_a_reduction_that_a_mark_upholds_has_answered() {
    let config = TcpConfig {
        spurious: SpuriousDetection {
            frto: true,
            ..SpuriousDetection::OFF
        },
        ecn: EcnMode::Classic,
        ..textbook("sack")
    };
    let mut lab = flight(config, 20, 60, Flags::ECE);
    lab.timer();
    lab.ack(1);
    lab.ack_now(2 * MSS, &[], Flags::ECE);
    assert_eq!(lab.undone(), 0);
    for n in 4..=20 {
        lab.sack(2, &[(3, n)]);
    }
    assert_eq!((lab.reductions(), state(&lab)), (0, CaState::Recovery));
}

/// A probe whose loss comes to light while the window is being reduced for something else is of
/// that window, or of the next.
#[test]
fn rfc8985_7_4_2_a_probe_that_repaired_in_cwr_is_answered_for() {
    let config = TcpConfig {
        ecn: EcnMode::Classic,
        ..textbook("rack")
    };
    let mut lab = flight(config, 20, 24, Flags::ECE);
    lab.ack_now(MSS, &[], Flags::ECE);
    for n in 2..=19 {
        lab.wait(us(100));
        lab.ack(n);
    }
    assert_eq!(
        (nxt(&lab), state(&lab), lab.reductions()),
        (24, CaState::Cwr, 1)
    );
    // 23 is lost, and left after the reduction. Nothing comes any more, until the probe.
    let out = lab.timer();
    assert_eq!((segments(&out), lab.timeouts().len()), (vec![23], 0));
    lab.write(2);
    lab.wait(ms(50));
    lab.ack(26);
    assert_eq!(lab.reductions(), 2);
}

/// A mark and the loss of the last segment, in one window: the probe that repairs it changes nothing
/// more, whichever is heard of first.
#[test]
fn rfc8985_7_4_2_a_repaired_tail_of_a_marked_window_is_answered_for() {
    let marks: [(EcnMode, &str, [Flags; 2]); 3] = [
        (EcnMode::Classic, "reno", [Flags::ECE, Flags::NONE]),
        (EcnMode::Dctcp, "dctcp", [Flags::ECE, Flags::NONE]),
        (EcnMode::Dctcp, "dctcp", [Flags::NONE, Flags::ECE]),
    ];
    for (ecn, control, [before, with_the_probe]) in marks {
        let config = TcpConfig {
            ecn,
            ..congestion(textbook("rack"), control)
        };
        let mut lab = flight(config, 20, 20, Flags::ECE);
        lab.ack_now(19 * MSS, &[], before);
        assert_eq!(segments(&lab.timer()), [19]);
        assert_eq!(lab.conn.sender_stats().tail_loss_probes, 1);
        lab.wait(ms(100));
        lab.ack_now(20 * MSS, &[], with_the_probe);
        let window = lab.cwnd();
        lab.write(5);
        lab.wait(ms(100));
        lab.ack(22);
        assert_eq!((lab.reductions(), lab.cwnd() < window), (1, false));
    }
}

/// A tail that left after the reduction and is lost is of the next window, though the reduction is
/// over when that comes to light.
#[test]
fn rfc8985_7_4_2_a_repaired_tail_of_the_next_window_is_not() {
    let config = TcpConfig {
        ecn: EcnMode::Classic,
        ..textbook("rack")
    };
    let mut lab = flight(config, 20, 20, Flags::ECE);
    lab.ack_now(19 * MSS, &[], Flags::ECE);
    lab.ack(20);
    lab.write(5);
    lab.wait(ms(100));
    lab.ack(24);
    assert_eq!((lab.reductions(), segments(&lab.timer())), (1, vec![24]));
    lab.wait(ms(100));
    lab.ack(25);
    lab.write(5);
    lab.wait(ms(100));
    lab.ack(27);
    assert_eq!(lab.reductions(), 2);
}
