//! Fast retransmit and fast recovery: RFC 5681 section 3.2, RFC 6582, RFC 6675, RFC 3042, and
//! congestion control as a whole connection shows it.

use crate::lab::{Lab, MSS, congestion, ms, segments, textbook};
use narrows::Duration;
use narrows::config::{EcnMode, IdleRestart, InitialWindow, RecoverySending, TcpConfig};
use narrows::congestion::{CaState, LocalDropRule};
use narrows::trace::TimeoutCause;
use narrows::wire::{Flags, Seq};
use std::sync::Arc;

fn window(config: TcpConfig, segments: u32) -> TcpConfig {
    TcpConfig {
        initial_window: InitialWindow::Segments(segments),
        ..config
    }
}

/// A sender with `n` segments in flight and 200 more waiting, an RTT later.
fn flight(config: TcpConfig, n: u32) -> Lab {
    let mut lab = Lab::connected(window(config, n), ms(100));
    let out = lab.write(200 + u64::from(n));
    assert_eq!(out.len(), n as usize);
    lab.wait(ms(100));
    lab
}

/// ... and with ten in flight and nothing more.
fn ten(config: TcpConfig) -> Lab {
    let mut lab = Lab::connected(window(config, 10), ms(100));
    lab.write(10);
    lab.wait(ms(100));
    lab
}

fn state(lab: &Lab) -> CaState {
    lab.conn.sender().ca_state()
}

#[test]
fn rfc5681_3_2_the_third_duplicate_ack_retransmits() {
    for detector in ["reno", "newreno"] {
        let config = TcpConfig {
            limited_transmit: false,
            ..textbook(detector)
        };
        let mut lab = flight(config, 10);
        assert!(lab.ack(0).is_empty());
        assert!(lab.ack(0).is_empty());
        assert_eq!(segments(&lab.ack(0)), [0], "{detector}");
        assert_eq!((lab.ssthresh(), lab.cwnd()), (5, 5));
        assert_eq!(state(&lab), CaState::Recovery);
    }
}

/// Who goes back sends again what the receiver has, too, until an ACK tells; the echo of that begins
/// nothing new.
#[test]
fn going_back_sends_again_what_is_not_acknowledged_and_cuts_once() {
    let config = TcpConfig {
        limited_transmit: false,
        ..textbook("go-back-n")
    };
    let mut lab = ten(config);
    assert!(lab.ack(0).is_empty());
    assert!(lab.ack(0).is_empty());
    let mut again = segments(&lab.ack(0));
    for _ in 0..6 {
        again.extend(segments(&lab.ack(0)));
    }
    assert_eq!(again[..3], [0, 1, 2]);
    assert_eq!((state(&lab), lab.reductions()), (CaState::Recovery, 1));
    // All ten are there: the ACK ends it, and the duplicates that the copies cause begin nothing.
    assert!(lab.ack(10).is_empty());
    for _ in 0..again.len() {
        assert!(lab.ack(10).is_empty());
    }
    assert_eq!((state(&lab), lab.reductions()), (CaState::Open, 1));
}

#[test]
fn rfc5681_2_what_is_no_duplicate_ack() {
    let mut lab = flight(textbook("newreno"), 10);
    for n in 0..6 {
        // (e): the window differs from the last.
        lab.window += 1 << (10 + n % 2);
        lab.ack(0);
    }
    assert_eq!(state(&lab), CaState::Open);
    // (a): nothing is outstanding.
    let mut lab = flight(textbook("newreno"), 10);
    lab.conn.abort(lab.now);
    let mut idle = Lab::connected(textbook("newreno"), ms(100));
    for _ in 0..6 {
        idle.ack(0);
    }
    assert_eq!((state(&idle), idle.reductions()), (CaState::Open, 0));
}

#[test]
fn rfc3042_two_new_segments_on_the_first_two_duplicate_acks() {
    for detector in ["newreno", "reno"] {
        let mut lab = flight(textbook(detector), 10);
        assert_eq!(segments(&lab.ack(0)), [10]);
        assert_eq!(segments(&lab.ack(0)), [11]);
        assert_eq!(segments(&lab.ack(0)), [0]);
        assert_eq!(
            lab.ssthresh(),
            5,
            "RFC 5681: limited transmit does not count as flight"
        );
    }
    for detector in ["sack", "rack"] {
        let mut lab = flight(textbook(detector), 10);
        assert_eq!(segments(&lab.sack(0, &[(1, 2)])), [10], "{detector}");
        assert_eq!(segments(&lab.sack(0, &[(1, 3)])), [11]);
        assert_eq!(segments(&lab.sack(0, &[(1, 4)])), [0]);
    }
}

#[test]
fn rfc3042_off_sends_nothing_before_the_third() {
    for detector in ["sack", "rack"] {
        let config = TcpConfig {
            limited_transmit: false,
            ..textbook(detector)
        };
        let mut lab = flight(config, 10);
        assert_eq!(segments(&lab.sack(0, &[(1, 2)])), [0u64; 0], "{detector}");
        assert_eq!(segments(&lab.sack(0, &[(1, 3)])), [0u64; 0]);
        assert_eq!(segments(&lab.sack(0, &[(1, 4)])), [0]);
    }
}

#[test]
fn rfc6582_3_2_full_acknowledgement_ends_recovery_at_ssthresh() {
    let mut lab = flight(textbook("newreno"), 10);
    for _ in 0..9 {
        lab.ack(0);
    }
    assert_eq!(state(&lab), CaState::Recovery);
    let sent = lab.conn.sender().nxt();
    lab.wait(ms(100));
    lab.ack_now(sent - 1, &[], Flags::NONE);
    assert_eq!(state(&lab), CaState::Open);
    assert_eq!((lab.cwnd(), lab.ssthresh(), lab.reductions()), (5, 5, 1));
}

#[test]
fn rfc6582_3_2_step_3_the_end_of_recovery_is_no_burst() {
    for name in ["reno", "cubic", "dctcp"] {
        let config = TcpConfig {
            recovery: RecoverySending::Pipe,
            ..congestion(textbook("newreno"), name)
        };
        let mut lab = flight(config, 10);
        for _ in 0..9 {
            lab.ack(0);
        }
        let (sent, ssthresh) = (lab.conn.sender().nxt(), lab.ssthresh());
        lab.wait(ms(100));
        // Everything has arrived: with nothing in flight the window is two segments.
        let out = lab.ack_now(sent - 1, &[], Flags::NONE);
        assert_eq!((state(&lab), out.len()), (CaState::Open, 2), "{name}");
        assert_eq!((lab.cwnd(), lab.ssthresh()), (2, ssthresh), "{name}");
    }
}

#[test]
fn rfc5681_duplicate_acks_after_a_timeout_let_out_two_segments_at_most() {
    for (limited_transmit, beyond) in [(true, 2), (false, 0)] {
        let config = TcpConfig {
            recovery: RecoverySending::Pipe,
            limited_transmit,
            ..textbook("newreno")
        };
        let mut lab = flight(config, 10);
        lab.timer();
        lab.wait(ms(100));
        for n in 1..=10 {
            lab.ack(n);
        }
        // Fast retransmit is refused (RFC 6582 section 3.2 step 1), so nothing is inflated.
        for _ in 0..20 {
            lab.ack(10);
        }
        let snd = lab.conn.sender();
        let flight = snd.nxt() - snd.una();
        assert_eq!(
            flight,
            snd.congestion().cwnd().get() / MSS * MSS + beyond * MSS
        );
    }
}

#[test]
fn rfc6582_3_2_partial_acknowledgement_retransmits_the_next_hole_without_another_cut() {
    // 0, 3 and 6 of ten are lost: one retransmission per round trip.
    let mut lab = flight(
        TcpConfig {
            limited_transmit: false,
            ..textbook("newreno")
        },
        10,
    );
    for _ in 0..7 {
        lab.ack(0);
    }
    lab.wait(ms(100));
    assert!(segments(&lab.ack(3)).contains(&3));
    assert_eq!(state(&lab), CaState::Recovery);
    lab.wait(ms(100));
    assert!(segments(&lab.ack(6)).contains(&6));
    lab.wait(ms(100));
    lab.ack(10);
    assert_eq!(state(&lab), CaState::Open);
    let again: Vec<_> = segments(&lab.log)
        .into_iter()
        .filter(|s| [0, 3, 6].contains(s))
        .collect();
    assert_eq!(again, [0, 3, 6, 0, 3, 6], "each twice");
    let stats = lab.conn.sender_stats();
    assert_eq!(
        (stats.retransmits, stats.timeouts, lab.reductions()),
        (3, 0, 1)
    );
}

#[test]
fn rfc6582_4_impatient_variant_times_out_on_many_holes() {
    // Only the first partial ACK restarts the timer (section 3.2 step 3).
    let mut lab = flight(textbook("newreno"), 20);
    for _ in 0..10 {
        lab.ack(0);
    }
    lab.wait(ms(300));
    lab.ack(2);
    let first = lab.conn.sender().rto_deadline();
    lab.wait(ms(300));
    lab.ack(4);
    assert_eq!(lab.conn.sender().rto_deadline(), first);
    assert_eq!(state(&lab), CaState::Recovery);
}

#[test]
fn rfc6582_3_2_step_1_duplicates_of_retransmissions_after_a_timeout_condemn_nothing() {
    let mut lab = flight(textbook("newreno"), 10);
    lab.timer();
    assert_eq!(state(&lab), CaState::Loss);
    lab.wait(ms(100));
    for n in [1, 5, 10] {
        lab.ack(n);
    }
    assert_eq!(state(&lab), CaState::Open);
    let reduced = lab.reductions();
    for _ in 0..5 {
        lab.ack(10);
    }
    assert_eq!(
        (state(&lab), lab.reductions()),
        (CaState::Disorder, reduced)
    );
}

#[test]
fn rfc2581_reno_leaves_recovery_with_the_first_new_ack() {
    let mut lab = flight(textbook("reno"), 10);
    for _ in 0..5 {
        lab.ack(0);
    }
    lab.wait(ms(100));
    let out = lab.ack(4);
    assert!(
        !segments(&out).contains(&4),
        "classic Reno knows nothing of partial ACKs"
    );
    assert_eq!(state(&lab), CaState::Open);
    for _ in 0..3 {
        lab.ack(4);
    }
    assert_eq!(
        (state(&lab), lab.reductions()),
        (CaState::Recovery, 2),
        "and cuts again"
    );
}

#[test]
fn duplicate_acks_without_sack_do_not_deflate_the_pipe_for_ever() {
    // A network that duplicates: an extra ACK before each real one. Were they remembered, each
    // would let one more segment out.
    for detector in ["reno", "newreno"] {
        let mut lab = flight(
            TcpConfig {
                limited_transmit: true,
                ..textbook(detector)
            },
            10,
        );
        for n in 1..=60 {
            lab.ack(n - 1);
            lab.ack(n);
            let snd = lab.conn.sender();
            let flight = snd.nxt() - snd.una();
            assert!(
                flight <= snd.congestion().cwnd().get() + 2 * MSS,
                "{detector}: {flight}"
            );
        }
        assert_eq!(lab.reductions(), 0);
    }
}

#[test]
fn more_duplicates_than_segments_are_no_harm() {
    for detector in ["reno", "newreno"] {
        let mut lab = flight(textbook(detector), 10);
        for _ in 0..100 {
            lab.ack(0);
        }
        lab.ack(9);
        for _ in 0..100 {
            lab.ack(9);
        }
        lab.ack(10);
        lab.ack(10);
        assert!(lab.pipe() <= 220);
    }
}

#[test]
fn rfc6675_several_losses_in_one_window_take_one_round_trip() {
    for detector in ["sack", "rack"] {
        for recovery in [RecoverySending::Prr, RecoverySending::Pipe] {
            let mut lab = flight(
                TcpConfig {
                    recovery,
                    ..textbook(detector)
                },
                20,
            );
            // 0, 4, 8 and 12 are lost.
            let mut got: Vec<(u64, u64)> = Vec::new();
            for s in 1..20u64 {
                if s % 4 == 0 && s <= 12 {
                    continue;
                }
                match got.last_mut() {
                    Some(last) if last.1 == s => last.1 = s + 1,
                    _ => got.push((s, s + 1)),
                }
                let blocks: Vec<_> = got.iter().rev().take(3).copied().collect();
                lab.sack(0, &blocks);
            }
            let mut again: Vec<_> = segments(&lab.log)[20..].to_vec();
            again.retain(|s| *s < 20);
            assert_eq!(again, [0, 4, 8, 12], "{detector} {recovery:?}");
            assert_eq!((lab.reductions(), lab.conn.sender_stats().timeouts), (1, 0));
        }
    }
}

#[test]
fn rfc6675_pipe_sends_new_data_only_when_cwnd_admits() {
    let mut lab = flight(
        TcpConfig {
            recovery: RecoverySending::Pipe,
            ..textbook("sack")
        },
        20,
    );
    let mut sent = Vec::new();
    for n in 2..=20 {
        sent.push(segments(&lab.sack(0, &[(1, n)])).len());
    }
    // Two by limited transmit, the retransmission, silence for half the window, then one each.
    assert_eq!(&sent[..3], [1, 1, 1]);
    assert!(sent[3..9].iter().all(|n| *n == 0), "{sent:?}");
    assert!(sent[12..].iter().all(|n| *n == 1), "{sent:?}");
    assert_eq!(lab.pipe(), 10);
}

#[test]
fn rfc6675_4_nextseg_prefers_lost_then_new_then_unjudged() {
    // New data waits: it goes before 5 and 6, which are not judged lost.
    let mut lab = flight(textbook("sack"), 10);
    lab.sack(0, &[(1, 5)]);
    lab.sack(0, &[(7, 8), (1, 5)]);
    lab.sack(0, &[(7, 9), (1, 5)]);
    let sent = segments(&lab.log)[10..].to_vec();
    assert_eq!(sent[0], 0);
    assert!(
        sent.len() > 1 && sent[1..].iter().all(|s| *s >= 10),
        "{sent:?}"
    );
    // Nothing new: rule 3 sends 5 on suspicion.
    let mut lab = ten(textbook("sack"));
    lab.sack(0, &[(1, 5)]);
    lab.sack(0, &[(7, 8), (1, 5)]);
    assert_eq!(segments(&lab.log)[10..], [0, 5, 6]);
}

#[test]
fn rfc6675_4_rule_4_one_rescue_retransmission_of_the_tail() {
    // 0, 2 and 9 of ten are lost, nothing new to send: the rescue repairs 9 without a timeout.
    let mut lab = ten(textbook("sack"));
    for n in 4..=9 {
        lab.sack(0, &[(1, 2), (3, n)]);
    }
    let again = segments(&lab.log)[10..].to_vec();
    assert_eq!(
        again,
        [0, 2],
        "the rescue is not before the first of them has arrived"
    );
    lab.wait(ms(50));
    assert_eq!(segments(&lab.sack(2, &[(3, 9)])), [9]);
    lab.wait(ms(100));
    lab.ack(10);
    assert_eq!(
        (lab.conn.sender_stats().timeouts, state(&lab)),
        (0, CaState::Open)
    );
}

#[test]
fn rfc6675_4_rule_4_the_rescue_of_a_hole_and_the_tail() {
    // 0 and 9 of ten are lost. The ACK for the first leaves nothing SACKed, and the rescue leaves.
    let mut lab = ten(textbook("sack"));
    for n in 2..=9 {
        lab.sack(0, &[(1, n)]);
    }
    assert_eq!(segments(&lab.log)[10..], [0]);
    lab.wait(ms(100));
    assert_eq!(segments(&lab.ack(9)), [9]);
    // Once: whatever else comes of that flight.
    lab.wait(ms(50));
    assert_eq!(segments(&lab.ack(9)), []);
    assert_eq!(segments(&lab.ack(9)), []);
    lab.wait(ms(50));
    lab.ack(10);
    assert_eq!(
        (lab.conn.sender_stats().timeouts, state(&lab)),
        (0, CaState::Open)
    );
    // Nothing is outstanding, nothing is rescued.
    lab.wait(ms(100));
    assert_eq!(segments(&lab.log).len(), 12);
}

#[test]
fn rfc6675_4_rule_4_no_rescue_where_new_data_may_leave_or_the_window_is_full() {
    // New data waits: rule 2 comes first.
    let mut lab = Lab::connected(window(textbook("sack"), 10), ms(100));
    lab.write(30);
    lab.wait(ms(100));
    for n in 2..=9 {
        lab.sack(0, &[(1, n)]);
    }
    lab.wait(ms(100));
    let sent = segments(&lab.ack(9));
    assert!(
        !sent.is_empty() && sent.iter().all(|n| *n >= 10),
        "{sent:?}"
    );
    // All ACKs but one for the first were lost, and the pipe has no room for another segment.
    let pipe = TcpConfig {
        recovery: RecoverySending::Pipe,
        ..textbook("sack")
    };
    let mut lab = ten(pipe);
    lab.sack(0, &[(1, 4)]);
    assert_eq!(segments(&lab.log)[10..], [0]);
    lab.wait(ms(100));
    assert_eq!(
        (segments(&lab.ack(4)), lab.pipe(), lab.cwnd()),
        (vec![], 6, 5)
    );
    assert_eq!((segments(&lab.ack(5)), lab.pipe()), (vec![], 5));
    assert_eq!(segments(&lab.ack(6)), [9]);
}

#[test]
fn one_congestion_event_per_window_whatever_is_lost() {
    for detector in ["newreno", "sack", "rack"] {
        let mut lab = flight(textbook(detector), 20);
        if detector == "newreno" {
            for _ in 0..12 {
                lab.ack(0);
            }
            for n in [3, 7, 11, 15] {
                lab.wait(ms(100));
                lab.ack(n);
                lab.ack(n);
            }
        } else {
            for n in 2..=8 {
                lab.sack(0, &[(1, n)]);
            }
            for n in 10..=20 {
                lab.sack(0, &[(9, n), (1, 8)]);
            }
            lab.wait(ms(100));
            lab.sack(8, &[(9, 20)]);
        }
        assert_eq!((lab.reductions(), lab.ssthresh()), (1, 10), "{detector}");
        assert_eq!(state(&lab), CaState::Recovery);
    }
}

#[test]
fn losses_after_the_recovery_point_are_a_new_event() {
    let mut lab = flight(textbook("sack"), 10);
    for n in 2..=10 {
        lab.sack(0, &[(1, n)]);
    }
    let point = lab.conn.sender().nxt() - 1;
    lab.wait(ms(100));
    lab.ack_now(point, &[], Flags::NONE);
    assert_eq!((state(&lab), lab.reductions()), (CaState::Open, 1));
    let first = point / MSS;
    for n in 2..=5 {
        lab.sack(first, &[(first + 1, first + n)]);
    }
    assert_eq!((state(&lab), lab.reductions()), (CaState::Recovery, 2));
}

/// The recovery point is the end of the flight.
fn without_limited_transmit(detector: &str) -> TcpConfig {
    TcpConfig {
        limited_transmit: false,
        ..textbook(detector)
    }
}

/// RFC 5681 section 4.3, RFC 6675 section 5: the recovery of one window repairs what the next has
/// lost as well, but that is a second indication of congestion, counted when the first is over.
#[test]
fn rfc5681_4_3_losses_of_the_next_window_lower_the_window_again() {
    let mut lab = flight(without_limited_transmit("sack"), 10);
    for n in 2..=10 {
        lab.wait(ms(1));
        lab.sack(0, &[(1, n)]);
    }
    let sent = lab.conn.sender().nxt() / MSS;
    assert!(sent >= 13, "new data left in recovery: {sent}");
    assert_eq!((lab.reductions(), lab.ssthresh()), (1, 5));
    // The retransmission is late; of the new data the first is lost.
    lab.wait(ms(60));
    let next = 10;
    for n in next + 2..=sent {
        lab.sack(0, &[(1, 10), (next + 1, n)]);
        lab.wait(ms(20));
    }
    let more = lab.conn.sender().nxt() / MSS;
    for n in sent + 1..=more {
        lab.sack(0, &[(1, 10), (next + 1, n)]);
        lab.wait(ms(20));
    }
    assert!(
        lab.conn
            .sender()
            .scoreboard()
            .get(next * MSS + 1)
            .unwrap()
            .is_lost()
    );
    assert_eq!((lab.reductions(), state(&lab)), (1, CaState::Recovery));
    // All of the first window is acknowledged.
    lab.ack_now(next * MSS, &[((next + 1) * MSS, more * MSS)], Flags::NONE);
    assert_eq!((lab.reductions(), state(&lab)), (2, CaState::Recovery));
    assert!(lab.ssthresh() < 5);
    let all = lab.conn.sender().nxt() / MSS;
    lab.ack(all);
    assert_eq!((lab.reductions(), state(&lab)), (2, CaState::Open));
}

/// The timeout answers for all that was outstanding, the losses beyond the recovery as well.
#[test]
fn rfc5681_4_3_a_timeout_answers_for_the_next_window_too() {
    let mut lab = flight(without_limited_transmit("sack"), 10);
    for n in 2..=10 {
        lab.sack(0, &[(1, n)]);
    }
    lab.wait(ms(100));
    let sent = lab.conn.sender().nxt() / MSS;
    assert!(sent >= 14);
    lab.sack(0, &[(1, 10), (11, sent)]);
    assert!(
        lab.conn
            .sender()
            .scoreboard()
            .get(10 * MSS + 1)
            .unwrap()
            .is_lost()
    );
    lab.timer();
    assert_eq!((state(&lab), lab.reductions()), (CaState::Loss, 1));
    lab.wait(ms(100));
    let all = lab.conn.sender().nxt() / MSS;
    lab.ack(all);
    assert_eq!((state(&lab), lab.reductions()), (CaState::Open, 1));
}

/// What the device refused is sent again, and is no loss of the next window.
#[test]
fn a_local_drop_within_a_recovery_is_not_answered_for_at_its_end() {
    let config = TcpConfig {
        local_drop: Arc::new(LocalDropRule::Requeue),
        ..without_limited_transmit("sack")
    };
    let mut lab = flight(config, 20);
    for n in 2..=12 {
        lab.sack(0, &[(1, n)]);
    }
    lab.wait(ms(50));
    // The first of the new data never left, what follows it did.
    let new: Vec<_> = lab
        .log
        .iter()
        .filter(|o| o.segment() >= 20)
        .cloned()
        .collect();
    assert!(new.len() >= 2);
    lab.conn
        .handle_local_drop(lab.now, &new[0].tcp, new[0].len as usize);
    lab.pump();
    // A further loss of the first window is found.
    for n in 14..=20 {
        lab.sack(0, &[(13, n), (1, 12)]);
    }
    lab.wait(ms(50));
    lab.ack(20);
    assert_eq!((state(&lab), lab.reductions()), (CaState::Open, 1));
}

/// A recovery that ends with nothing lost behind it cuts nothing, nor does what ECN or the end of
/// the data leave.
#[test]
fn rfc5681_4_3_without_a_further_loss_one_reduction_it_is() {
    for detector in ["sack", "rack"] {
        let mut lab = flight(without_limited_transmit(detector), 10);
        for n in 2..=10 {
            lab.sack(0, &[(1, n)]);
        }
        lab.wait(ms(100));
        lab.ack(10);
        assert_eq!(
            (lab.reductions(), state(&lab)),
            (1, CaState::Open),
            "{detector}"
        );
    }
}

/// RFC 6675 section 5: of an ACK that another has overtaken the SACK blocks are taken in.
#[test]
fn rfc6675_5_an_overtaken_ack_updates_the_scoreboard() {
    let mut lab = flight(textbook("sack"), 10);
    lab.ack(2);
    let before = lab.conn.sender().una();
    // In order these were ACKs of 1 with 3 and up SACKed.
    lab.sack(1, &[(3, 4)]);
    assert_eq!(lab.conn.sender().scoreboard().sacked().get(), MSS);
    lab.sack(1, &[(3, 5)]);
    assert_eq!(state(&lab), CaState::Disorder);
    lab.sack(1, &[(3, 6)]);
    assert_eq!((state(&lab), lab.reductions()), (CaState::Recovery, 1));
    assert_eq!(segments(&lab.log).iter().filter(|n| **n == 2).count(), 2);
    assert_eq!(lab.conn.sender().una(), before);
    // What it acknowledged itself, or is acknowledged since, is no duplicate and nothing new.
    let sacked = lab.conn.sender().scoreboard().sacked();
    lab.sack(1, &[(1, 2), (3, 6)]);
    assert_eq!(lab.conn.sender().scoreboard().sacked(), sacked);
    // Neither is its window.
    let window = lab.window;
    lab.window = 1 << 10;
    lab.sack(1, &[(3, 7)]);
    lab.window = window;
    assert!(lab.conn.sender().scoreboard().sacked() > sacked);
    lab.log.clear();
    lab.wait(ms(10));
    lab.sack(2, &[(3, 10)]);
    assert!(
        !segments(&lab.log).is_empty(),
        "the window is as wide as before"
    );
}

/// Nor is its ECE an echo that is not answered yet.
#[test]
fn rfc3168_6_1_2_an_overtaken_ack_echoes_no_mark() {
    let config = TcpConfig {
        ecn: EcnMode::Classic,
        ..window(textbook("sack"), 10)
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    lab.write(100);
    lab.wait(ms(100));
    lab.ack(2);
    lab.ack_now(MSS, &[(3 * MSS, 4 * MSS)], Flags::ECE);
    assert_eq!((state(&lab), lab.reductions()), (CaState::Disorder, 0));
    lab.ack_now(2 * MSS, &[(3 * MSS, 5 * MSS)], Flags::ECE);
    assert_eq!((state(&lab), lab.reductions()), (CaState::Cwr, 1));
}

/// RFC 6675 sections 2 and 5: an ACK that advances and SACKs something new is the first duplicate.
#[test]
fn rfc6675_5_an_ack_that_advances_counts_if_it_sacks_something_new() {
    // Short segments: the bytes alone do not tell, and blocks in their runs of a hundred.
    const LEN: u64 = 100;
    for first in [&[(2 * LEN, 3 * LEN)][..], &[]] {
        let mut lab = Lab::connected(window(textbook("sack"), 10), ms(100));
        for _ in 0..8 {
            lab.conn.send(&[7; LEN as usize], LEN as usize).unwrap();
            lab.pump();
        }
        lab.wait(ms(100));
        lab.ack_now(LEN, first, Flags::NONE);
        lab.ack_now(LEN, &[(2 * LEN, 4 * LEN)], Flags::NONE);
        assert_eq!(state(&lab), CaState::Disorder);
        lab.ack_now(LEN, &[(2 * LEN, 5 * LEN)], Flags::NONE);
        let recovering = state(&lab) == CaState::Recovery;
        assert_eq!(recovering, !first.is_empty(), "{first:?}");
    }
}

/// RFC 6675 section 5.1: after a timeout no recovery begins before all that was sent before it is
/// acknowledged, whatever is SACKed; then it does.
#[test]
fn rfc6675_5_1_no_recovery_before_the_timeouts_data_is_acknowledged() {
    for detector in ["sack", "rack-notlp"] {
        let mut lab = flight(textbook(detector), 10);
        lab.timer();
        assert_eq!(
            (state(&lab), lab.reductions()),
            (CaState::Loss, 0),
            "{detector}"
        );
        let cut = lab.conn.sender_stats().fast_recoveries;
        for n in 2..=8 {
            lab.wait(ms(30));
            lab.sack(0, &[(1, n)]);
            assert_eq!(state(&lab), CaState::Loss, "{detector}");
        }
        assert_eq!((lab.conn.sender_stats().fast_recoveries, cut), (0, 0));
        lab.wait(ms(30));
        lab.ack(10);
        assert_eq!(state(&lab), CaState::Open, "{detector}");
        lab.wait(ms(100));
        for n in 12..=16 {
            lab.wait(ms(30));
            lab.sack(10, &[(11, n)]);
        }
        assert_eq!(state(&lab), CaState::Recovery, "{detector}");
    }
}

#[test]
fn rfc2018_8_a_peer_that_reneges_does_not_stall_us() {
    for detector in ["sack", "rack"] {
        let mut lab = Lab::connected(window(textbook(detector), 10), ms(100));
        lab.write(10);
        lab.wait(ms(100));
        for n in 2..=10 {
            lab.sack(0, &[(1, n)]);
        }
        // It got 0, but has thrown away all that it had SACKed.
        lab.wait(ms(100));
        lab.ack(1);
        // From now on it takes segments in order only, and reports nothing else.
        lab.log.clear();
        let mut next = 1;
        for _ in 0..40 {
            lab.wait(ms(500));
            for sent in segments(&lab.log) {
                next += u64::from(sent == next);
            }
            lab.log.clear();
            lab.ack(next);
        }
        assert_eq!(next, 10, "{detector}");
    }
}

/// The same behind a closed window, where the timer only probes: the probe goes, for as long as the
/// window is closed, and all of what was SACKed leaves again when it opens.
#[test]
fn rfc2018_8_a_peer_that_reneges_and_closes_its_window_is_probed() {
    for detector in ["sack", "rack"] {
        let mut lab = Lab::connected(window(textbook(detector), 10), ms(100));
        lab.write(10);
        lab.wait(ms(100));
        for n in 2..=10 {
            lab.sack(0, &[(1, n)]);
        }
        lab.wait(ms(100));
        lab.window = 0;
        lab.ack(1);
        for _ in 0..8 {
            let out = (0..5).map(|_| lab.timer()).find(|out| !out.is_empty());
            let out = out.expect("a probe goes");
            assert_eq!(segments(&out), [1], "{detector}");
            lab.wait(ms(100));
            lab.ack(1);
        }
        assert_eq!(
            lab.timeouts().last(),
            Some(&TimeoutCause::ZeroWindow),
            "{detector}"
        );
        lab.window = 1_000_000;
        let mut next = 1;
        for _ in 0..20 {
            lab.log.clear();
            lab.ack(next);
            lab.wait(Duration::from_secs(130));
            for sent in segments(&lab.log) {
                next += u64::from(sent == next);
            }
        }
        assert_eq!(next, 10, "{detector}");
    }
}

#[test]
fn hostile_sack_blocks_are_ignored() {
    for detector in ["sack", "rack", "newreno"] {
        let mut lab = flight(textbook(detector), 10);
        let first = lab.log.iter().find(|o| o.len > 0).unwrap().tcp.seq;
        let nxt = first + 10 * MSS as u32;
        for blocks in [
            vec![(nxt, nxt + 1_000)],
            vec![(first + 5_000, nxt + 1)],
            vec![(first + 3_000, first + 2_000)],
            vec![(first + 3_000, first + 3_000)],
            vec![(first + 0x7fff_ffff, first + 0x8000_0000)],
            vec![(first + 0x8000_0000, first + 0x8000_0001)],
            vec![(Seq(0), Seq(u32::MAX))],
            vec![(nxt + 1_000_000, first), (first, nxt + 1_000_000)],
        ] {
            for _ in 0..3 {
                lab.raw_ack(first, &blocks, Flags::NONE);
            }
        }
        let board = lab.conn.sender().scoreboard();
        assert!(board.sacked().is_zero(), "{detector}");
        // Overlapping and repeated ones count once.
        let block = (first + 1_000, first + 4_000);
        let inner = (first + 2_000, first + 3_000);
        let mut lab = flight(textbook("sack"), 10);
        lab.raw_ack(
            first,
            &[block, inner, block, (first + 1_500, first + 3_999)],
            Flags::NONE,
        );
        assert_eq!(lab.conn.sender().scoreboard().sacked().get(), 3_000);
    }
}

#[test]
fn a_storm_of_acks_and_sacks_sends_no_more_than_it_may() {
    // (Without SACK duplicate ACKs cannot be told from true ones, RFC 5681 section 3.2.)
    for detector in ["sack", "rack"] {
        let mut lab = flight(textbook(detector), 10);
        for round in 0..2_000u64 {
            let a = round * 7 % 10;
            lab.sack(0, &[(a, a + 1), (9 - a, 10 - a), (a / 2, a / 2 + 2)]);
        }
        let stats = lab.conn.sender_stats();
        assert!(stats.segments < 60, "{detector}: {stats:?}");
        assert!(lab.reductions() <= 1);
    }
}

// Congestion control.

#[test]
fn rfc6928_initial_window() {
    for (initial, segments) in [
        (InitialWindow::Segments(3), 3),
        (InitialWindow::Rfc6928, 10),
        (InitialWindow::Rfc5681, 4),
    ] {
        let config = TcpConfig {
            initial_window: initial,
            ..textbook("sack")
        };
        let mut lab = Lab::connected(config, ms(100));
        assert_eq!(lab.write(50).len(), segments);
    }
}

#[test]
fn rfc3465_slow_start_counts_bytes_at_most_two_segments_an_ack() {
    let mut lab = flight(textbook("sack"), 10);
    lab.ack(1);
    assert_eq!(lab.cwnd(), 11);
    lab.ack(3);
    assert_eq!(lab.cwnd(), 13, "a delayed ACK counts for both");
    lab.ack(10);
    assert_eq!(lab.cwnd(), 15, "L = 2");
}

#[test]
fn rfc5681_3_1_congestion_avoidance_adds_one_segment_a_round_trip() {
    let mut lab = flight(textbook("sack"), 10);
    for n in 2..=10 {
        lab.sack(0, &[(1, n)]);
    }
    lab.wait(ms(100));
    let point = (lab.conn.sender().nxt() - 1) / MSS;
    lab.ack(point);
    assert_eq!(lab.cwnd(), 5);
    for round in 0..3 {
        lab.wait(ms(100));
        let una = (lab.conn.sender().una() - 1) / MSS;
        for n in 1..=5 + round {
            lab.ack(una + n);
        }
        assert_eq!(lab.cwnd(), 6 + round);
    }
}

#[test]
fn rfc7661_no_growth_while_the_application_is_the_limit() {
    for control in ["reno", "cubic", "dctcp"] {
        let mut lab = Lab::connected(window(congestion(textbook("sack"), control), 10), ms(10));
        for n in 1..=200 {
            lab.write(1);
            lab.wait(ms(10));
            lab.ack(n);
        }
        assert_eq!(lab.cwnd(), 10, "{control}");
    }
}

#[test]
fn the_window_never_falls_below_a_segment() {
    for control in ["reno", "cubic", "dctcp"] {
        let mut lab = Lab::connected(window(congestion(textbook("sack"), control), 2), ms(10));
        lab.write(50);
        for _ in 0..10 {
            lab.timer();
            assert_eq!(lab.cwnd(), 1, "{control}");
            assert!(lab.ssthresh() >= 2);
        }
    }
}

#[test]
fn rfc5681_4_1_restart_after_idle() {
    for (restart, expected) in [(IdleRestart::Rfc5681, 4), (IdleRestart::Keep, 24)] {
        let config = TcpConfig {
            idle_restart: restart,
            ..window(textbook("sack"), 4)
        };
        let mut lab = Lab::connected(config, ms(100));
        lab.write(60);
        for n in 1..=20 {
            lab.ack(n);
        }
        assert_eq!(lab.cwnd(), 24);
        lab.ack(44);
        let end = (lab.conn.sender().nxt() - 1) / MSS;
        lab.ack(end);
        let grown = lab.cwnd();
        lab.wait(ms(900));
        lab.write(1);
        lab.ack(end + 1);
        assert!(lab.cwnd() >= grown, "less than an RTO is no idle period");
        lab.wait(Duration::from_secs(5));
        let out = lab.write(60);
        if restart == IdleRestart::Rfc5681 {
            assert_eq!(out.len(), expected as usize);
        } else {
            assert!(out.len() >= expected as usize);
        }
    }
}

#[test]
fn local_drop_policies() {
    // `cwnd` after the refusal, in segments, and whether ssthresh falls.
    for (policy, cwnd, cut) in [
        (LocalDropRule::Requeue, 10, false),
        (LocalDropRule::Reset, 1, false),
        (LocalDropRule::MinusSegment, 9, false),
        (LocalDropRule::Congestion, 4, true),
        (LocalDropRule::Ignore, 10, false),
    ] {
        let config = TcpConfig {
            local_drop: Arc::new(policy),
            ..window(textbook("sack"), 10)
        };
        let mut lab = Lab::connected(config, ms(100));
        let out = lab.write(20);
        let last = out.last().unwrap().clone();
        lab.conn
            .handle_local_drop(lab.now, &last.tcp, last.len as usize);
        assert_eq!(lab.cwnd(), cwnd, "{policy:?}");
        let again = segments(&lab.pump());
        match policy {
            LocalDropRule::Ignore => assert_eq!(again, [0u64; 0]),
            LocalDropRule::Requeue => assert_eq!(again, [9]),
            // The reduced window says when.
            LocalDropRule::Reset | LocalDropRule::MinusSegment | LocalDropRule::Congestion => {
                assert_eq!(again, [0u64; 0]);
                let mut next = Vec::new();
                for n in 1..=9 {
                    next.extend(segments(&lab.ack(n)));
                }
                assert_eq!(next.first(), Some(&9));
            }
        }
        assert_eq!(lab.ssthresh() < 100, cut, "{policy:?}");
        assert_eq!(lab.conn.sender_stats().timeouts, 0);
    }
}

#[test]
fn a_local_drop_of_everything_leaves_nothing_outstanding() {
    let mut lab = Lab::connected(textbook("rack"), ms(100));
    let out = lab.write(1);
    lab.conn
        .handle_local_drop(lab.now, &out[0].tcp, out[0].len as usize);
    assert!(lab.conn.sender().is_idle());
    assert_eq!(lab.conn.sender().rto_deadline(), None);
    assert_eq!(segments(&lab.pump()), [0]);
    lab.ack(1);
    assert!(lab.conn.sender().is_idle());
}
