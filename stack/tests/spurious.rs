//! Reductions that were not needed are found out and taken back: F-RTO (RFC 5682), Eifel
//! (RFC 3522, RFC 4015), D-SACK (RFC 3708).

use crate::lab::{Lab, MSS, congestion, ms, rto, segments, stamped, textbook};
use crate::pair::{Fate, Pair, bytes};
use narrows::Duration;
use narrows::config::{EcnMode, InitialWindow, SpuriousDetection, TcpConfig, TimestampMode};
use narrows::congestion::{CaState, CongestionControl};
use narrows::wire::Flags;

const FRTO: SpuriousDetection = SpuriousDetection {
    frto: true,
    ..SpuriousDetection::OFF
};
const EIFEL: SpuriousDetection = SpuriousDetection {
    eifel: true,
    ..SpuriousDetection::OFF
};
const DSACK: SpuriousDetection = SpuriousDetection {
    dsack: true,
    ..SpuriousDetection::OFF
};

/// Ten segments in flight, more waiting, an RTT later.
fn flight(config: TcpConfig, spurious: SpuriousDetection) -> Lab {
    let config = TcpConfig {
        spurious,
        initial_window: InitialWindow::Segments(10),
        ..config
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(100);
    lab
}

fn state(lab: &Lab) -> CaState {
    lab.conn.sender().ca_state()
}

#[test]
fn rfc5682_2_1_basic_two_acks_of_originals_undo_the_timeout() {
    for detector in ["reno", "newreno"] {
        let mut lab = flight(textbook(detector), FRTO);
        assert_eq!(segments(&lab.timer()), [0]);
        assert_eq!(lab.cwnd(), 1);
        // Step 2b: the first new ACK lets two new segments out, no retransmission.
        assert_eq!(segments(&lab.ack(1)), [10, 11], "{detector}");
        assert_eq!(state(&lab), CaState::Loss);
        // Step 3b: the second says that the originals arrive.
        lab.ack(2);
        assert_eq!(
            (lab.undone(), state(&lab)),
            (1, CaState::Open),
            "{detector}"
        );
        assert!(lab.cwnd() >= 10 && lab.ssthresh() > 1_000);
        assert_eq!(lab.conn.sender_stats().retransmits, 1);
        for n in 3..=12 {
            lab.ack(n);
        }
        assert_eq!(lab.conn.sender_stats().retransmits, 1);
    }
}

#[test]
fn rfc5682_2_1_a_duplicate_ack_means_loss() {
    let mut lab = flight(textbook("newreno"), FRTO);
    lab.timer();
    assert_eq!(segments(&lab.ack(1)), [10, 11]);
    // Step 3a.
    let out = segments(&lab.ack(1));
    assert_eq!((lab.undone(), state(&lab)), (0, CaState::Loss));
    lab.wait(ms(10));
    assert!(
        out.contains(&1)
            || segments(&lab.ack(1)).contains(&1)
            || segments(&lab.timer()).contains(&1)
    );
    // Step 2a.
    let mut lab = flight(textbook("newreno"), FRTO);
    lab.timer();
    lab.ack(0);
    assert_eq!(segments(&lab.ack(1)), [1, 2], "conventional slow start");
}

#[test]
fn rfc5682_2_1_an_ack_of_everything_proves_nothing() {
    let mut lab = flight(textbook("newreno"), FRTO);
    lab.timer();
    lab.ack(10);
    assert_eq!((lab.undone(), state(&lab)), (0, CaState::Open));
}

#[test]
fn rfc5682_3_1_sack_based() {
    for detector in ["sack", "rack", "rack-notlp"] {
        let mut lab = flight(textbook(detector), FRTO);
        if detector == "rack" {
            // The probe comes first.
            assert_eq!(segments(&lab.timer()), [10]);
        }
        assert_eq!(segments(&lab.timer()), [0]);
        lab.wait(ms(150));
        lab.ack(1);
        assert_eq!(state(&lab), CaState::Loss, "{detector}");
        lab.ack(2);
        assert_eq!(
            (lab.undone(), state(&lab)),
            (1, CaState::Open),
            "{detector}"
        );
        assert!(lab.cwnd() >= 10);
        for n in 3..=10 {
            lab.ack(n);
        }
        let stats = lab.conn.sender_stats();
        assert_eq!(
            (stats.retransmits, stats.fast_recoveries),
            (1, 0),
            "{detector}"
        );
        assert!(lab.cwnd() >= 10, "{detector}: cut again");
    }
}

#[test]
fn rfc5682_3_1_sack_of_new_data_only_means_loss() {
    let mut lab = flight(textbook("sack"), FRTO);
    lab.timer();
    assert_eq!(segments(&lab.ack(1)), [10, 11]);
    let out = segments(&lab.sack(1, &[(10, 11)]));
    assert_eq!((lab.undone(), state(&lab)), (0, CaState::Loss));
    assert!(out.contains(&1), "{out:?}");
}

/// With SACK or without, the algorithm begins anew when the same segment times out again.
#[test]
fn rfc5682_2_1_a_further_timeout_of_the_segment_begins_anew() {
    for detector in ["newreno", "sack"] {
        let mut lab = flight(textbook(detector), FRTO);
        assert_eq!(segments(&lab.timer()), [0]);
        assert_eq!(segments(&lab.timer()), [0]);
        assert_eq!(segments(&lab.ack(1)), [10, 11], "{detector}");
        assert_eq!(lab.undone(), 0);
        lab.ack(2);
        assert_eq!(
            (lab.undone(), state(&lab), lab.cwnd() >= 10),
            (1, CaState::Open, true),
            "{detector}"
        );
    }
}

/// Step 2a: a segment acknowledged in parts would tell of originals that never came.
#[test]
fn rfc5682_2_1_an_ack_of_a_part_of_the_segment_proves_nothing() {
    for detector in ["newreno", "sack"] {
        let mut lab = flight(textbook(detector), FRTO);
        lab.timer();
        lab.ack_now(MSS / 2, &[], Flags::NONE);
        lab.ack(1);
        assert!(!segments(&lab.log).contains(&10), "{detector}");
        assert_eq!(
            (lab.undone(), state(&lab)),
            (0, CaState::Loss),
            "{detector}"
        );
    }
}

/// What neither acknowledges anything nor is a duplicate is waited out, at either step.
#[test]
fn rfc5682_2_1_a_window_update_decides_nothing() {
    let mut lab = flight(textbook("newreno"), FRTO);
    lab.timer();
    lab.window += 1 << 10;
    assert!(segments(&lab.ack(0)).is_empty());
    assert_eq!(segments(&lab.ack(1)), [10, 11]);
    lab.window += 1 << 10;
    assert!(segments(&lab.ack(1)).is_empty());
    lab.ack(2);
    assert_eq!((lab.undone(), state(&lab)), (1, CaState::Open));
}

/// Step 3b sets `recover` back: three duplicates after it retransmit, with no new data between.
#[test]
fn rfc5682_2_1_after_an_undone_timeout_duplicate_acks_count() {
    let mut lab = flight(textbook("newreno"), FRTO);
    lab.timer();
    lab.ack(1);
    lab.ack(2);
    assert_eq!((lab.undone(), lab.reductions()), (1, 0));
    for _ in 0..3 {
        assert_ne!(state(&lab), CaState::Recovery);
        lab.ack(2);
    }
    assert_eq!((state(&lab), lab.reductions()), (CaState::Recovery, 1));
    assert_eq!(segments(&lab.log).last(), Some(&2));
}

/// Without SACK the basic algorithm is for timeouts within a fast recovery too: its first ACK may
/// be of originals.
#[test]
fn rfc5682_2_1_the_basic_algorithm_judges_timeouts_of_a_fast_recovery() {
    let mut lab = flight(textbook("newreno"), FRTO);
    for _ in 0..3 {
        lab.ack(0);
    }
    assert_eq!(state(&lab), CaState::Recovery);
    assert_eq!(segments(&lab.timer()), [0]);
    let new = lab.conn.sender().nxt() / MSS;
    assert_eq!(segments(&lab.ack(1)), [new, new + 1]);
}

/// Section 3.1 step 2: with SACK, duplicates before the ACK of the retransmission are waited out.
#[test]
fn rfc5682_3_1_duplicates_before_the_first_new_ack_are_waited_out() {
    let mut lab = flight(textbook("sack"), FRTO);
    lab.timer();
    assert!(segments(&lab.sack(0, &[(5, 6)])).is_empty());
    assert!(segments(&lab.sack(0, &[(5, 7)])).is_empty());
    assert_eq!(segments(&lab.ack(1)), [10, 11]);
    // Step 3b: 7 was not SACKed before, and left before the timeout.
    lab.sack(1, &[(5, 8)]);
    assert_eq!(lab.undone(), 1);
}

/// What an overtaken ACK had to say is known: it decides nothing.
#[test]
fn rfc5682_3_1_an_overtaken_ack_decides_nothing() {
    let mut lab = flight(textbook("sack"), FRTO);
    lab.timer();
    lab.sack(0, &[(5, 7)]);
    lab.ack_now(MSS, &[(5 * MSS, 7 * MSS)], Flags::NONE);
    lab.sack(0, &[(5, 6)]);
    assert_eq!((lab.undone(), state(&lab)), (0, CaState::Loss));
    lab.sack(1, &[(5, 8)]);
    assert_eq!(lab.undone(), 1);
}

/// After the undo a mark is answered again: the window that it is about was not reduced.
#[test]
fn rfc5682_3_1_a_mark_after_an_undone_timeout_counts() {
    let config = TcpConfig {
        ecn: EcnMode::Classic,
        spurious: FRTO,
        initial_window: InitialWindow::Segments(10),
        ..textbook("sack")
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    lab.write(100);
    lab.timer();
    lab.ack(1);
    lab.ack(2);
    assert_eq!((lab.undone(), lab.reductions()), (1, 0));
    lab.ack_now(3 * MSS, &[], Flags::ECE);
    assert_eq!((state(&lab), lab.reductions()), (CaState::Cwr, 1));
}

/// A block between an overtaken ACK and SND.UNA reports no duplicate (RFC 2883 section 4).
#[test]
fn rfc2883_4_a_block_above_an_overtaken_ack_is_no_duplicate() {
    let mut lab = flight(textbook("sack"), DSACK);
    for n in 2..=4 {
        lab.sack(0, &[(1, n)]);
    }
    assert_eq!(
        (state(&lab), lab.conn.sender_stats().retransmits),
        (CaState::Recovery, 1)
    );
    let all = lab.conn.sender().nxt() / MSS;
    lab.ack(all);
    lab.sack(0, &[(1, 5)]);
    assert_eq!((state(&lab), lab.undone()), (CaState::Open, 0));
    // One below it does.
    lab.ack_now(2 * MSS, &[(0, MSS)], Flags::NONE);
    assert_eq!(lab.undone(), 1);
}

/// A lost retransmission is congestion whatever became of the original.
#[test]
fn rfc5681_4_3_a_lost_retransmission_ends_the_search_for_evidence() {
    let mut lab = flight(textbook("rack-notlp"), DSACK);
    lab.wait(ms(100));
    for n in 2..=10 {
        lab.sack(0, &[(1, n)]);
    }
    lab.wait(ms(130));
    let new = lab.conn.sender().nxt() / MSS;
    lab.sack(0, &[(1, new)]);
    assert_eq!(
        (lab.reductions(), lab.conn.sender_stats().retransmits),
        (2, 2)
    );
    let all = lab.conn.sender().nxt() / MSS;
    lab.wait(ms(50));
    lab.ack(all);
    for _ in 0..2 {
        lab.ack_now(all * MSS, &[(0, MSS)], Flags::NONE);
    }
    assert_eq!((lab.undone(), lab.reductions()), (0, 2));
}

/// Step 3a: what covers data sent since proves nothing, whatever else it tells.
#[test]
fn rfc5682_3_1_what_covers_new_data_as_well_means_loss() {
    let mut lab = flight(textbook("sack"), FRTO);
    lab.timer();
    assert_eq!(segments(&lab.ack(1)), [10, 11]);
    let out = lab.sack(2, &[(10, 11)]);
    assert_eq!((lab.undone(), state(&lab)), (0, CaState::Loss));
    assert!(segments(&out).contains(&2), "{out:?}");
}

#[test]
fn frto_off_takes_every_timeout_for_loss() {
    let mut lab = flight(textbook("sack"), SpuriousDetection::OFF);
    lab.timer();
    for n in 1..=10 {
        lab.ack(n);
    }
    assert_eq!(lab.undone(), 0);
    assert!(lab.conn.sender_stats().retransmits > 1);
}

#[test]
fn rfc3522_3_2_eifel_undoes_a_timeout_at_the_first_ack() {
    let mut lab = flight(stamped(textbook("sack")), EIFEL);
    let stamp = lab
        .log
        .iter()
        .find(|o| o.len > 0)
        .unwrap()
        .tcp
        .options
        .timestamps
        .unwrap()
        .val;
    lab.timer();
    lab.echo = Some(stamp);
    lab.ack(1);
    assert_eq!((lab.undone(), state(&lab)), (1, CaState::Open));
    assert!(lab.cwnd() >= 10);
    // An ACK of the retransmission is none.
    let mut lab = flight(stamped(textbook("sack")), EIFEL);
    lab.timer();
    lab.ack(1);
    assert_eq!((lab.undone(), state(&lab)), (0, CaState::Loss));
}

#[test]
fn rfc4015_eifel_undoes_a_fast_retransmit_of_reordered_data() {
    for detector in ["sack", "rack"] {
        let mut lab = flight(stamped(textbook(detector)), EIFEL);
        let stamp = lab
            .log
            .iter()
            .find(|o| o.len > 0)
            .unwrap()
            .tcp
            .options
            .timestamps
            .unwrap()
            .val;
        lab.wait(ms(100));
        for n in 2..=4 {
            lab.sack(0, &[(1, n)]);
        }
        assert_eq!(
            (lab.reductions(), state(&lab)),
            (1, CaState::Recovery),
            "{detector}"
        );
        lab.wait(ms(5));
        lab.echo = Some(stamp);
        lab.ack(4);
        assert_eq!(
            (lab.undone(), state(&lab)),
            (1, CaState::Open),
            "{detector}"
        );
        assert!(lab.cwnd() >= 10 && lab.ssthresh() > 1_000);
        lab.ack(10);
        assert_eq!(lab.reductions(), 1, "{detector}");
    }
}

#[test]
fn rfc3708_dsack_undoes_a_fast_retransmit_after_recovery_is_over() {
    for detector in ["sack", "rack"] {
        let mut lab = flight(textbook(detector), DSACK);
        lab.wait(ms(100));
        for n in 2..=4 {
            lab.sack(0, &[(1, n)]);
        }
        let cut = lab.cwnd();
        assert_eq!(cut, 5);
        // The original of 0 arrives, later the retransmission: its D-SACK comes when the
        // recovery point has long been acknowledged.
        lab.wait(ms(5));
        lab.ack(10);
        let point = (lab.conn.sender().nxt() - 1) / MSS;
        lab.wait(ms(90));
        lab.ack(12);
        assert_eq!(
            (lab.undone(), state(&lab)),
            (0, CaState::Open),
            "{detector}"
        );
        lab.ack(13);
        lab.sack(13, &[(0, 1)]);
        assert_eq!(lab.undone(), 1, "{detector}");
        assert!(lab.cwnd() >= 10 && lab.ssthresh() > 1_000);
        assert!(point > 13);
    }
}

#[test]
fn rfc3708_dsack_must_cover_every_retransmission() {
    let mut lab = flight(textbook("sack"), DSACK);
    lab.wait(ms(100));
    // 0 and 4 are found lost.
    lab.sack(0, &[(1, 4)]);
    for n in 6..=10 {
        lab.sack(0, &[(5, n), (1, 4)]);
    }
    assert_eq!(lab.conn.sender_stats().retransmits, 2);
    lab.sack(8, &[(0, 1)]);
    assert_eq!(lab.undone(), 0);
    lab.sack(8, &[(4, 5)]);
    assert_eq!(lab.undone(), 1);
}

#[test]
fn rfc3708_dsacks_of_what_the_network_duplicated_undo_nothing() {
    let mut lab = flight(textbook("sack"), DSACK);
    lab.wait(ms(100));
    lab.ack(3);
    for n in 5..=7 {
        lab.sack(3, &[(4, n)]);
    }
    assert_eq!(
        (lab.reductions(), lab.conn.sender_stats().retransmits),
        (1, 1)
    );
    // Of data from before the episode.
    lab.sack(3, &[(1, 2), (4, 7)]);
    assert_eq!((lab.undone(), state(&lab)), (0, CaState::Recovery));
    // And when the window after the episode is acknowledged it is too late for anything.
    lab.ack(10);
    let end = (lab.conn.sender().nxt() - 1) / MSS;
    lab.ack(end);
    let end = (lab.conn.sender().nxt() - 1) / MSS;
    lab.ack(end);
    lab.sack(end, &[(3, 4)]);
    assert_eq!(lab.undone(), 0);
}

#[test]
fn a_delay_spike_does_not_leave_the_window_cut() {
    // All that is under way is held up for longer than the timeout, but not for two, of which
    // F-RTO can judge the first only (RFC 5682 section 2.1 step 1). Nothing is lost.
    for control in ["reno", "cubic", "dctcp"] {
        for detector in ["newreno", "sack", "rack", "rack-notlp"] {
            for timestamps in [
                TimestampMode::Off,
                TimestampMode::Millis,
                TimestampMode::Micros,
            ] {
                let config = TcpConfig {
                    timestamps,
                    spurious: SpuriousDetection::default(),
                    ..congestion(rto(textbook(detector), "1ms"), control)
                };
                let mut p = Pair::connected(config.clone(), config);
                let data = bytes(3_000_000);
                p.transfer(&data[..300_000], Duration::from_secs(1));
                let before = p.client.sender().congestion().cwnd();
                let (begin, spike) = (p.now, Duration::from_millis(2));
                p.path = Box::new(move |s, _| {
                    let passed = s.at.since(begin);
                    if passed < spike {
                        // Nobody overtakes: the whole queue waits until the spike is over.
                        Fate::Delay(spike.saturating_sub(passed))
                    } else {
                        Fate::Pass
                    }
                });
                p.transfer(&data[300_000..], Duration::from_secs(10));
                let name = format!("{control} {detector} {timestamps:?}");
                let stats = p.client.sender_stats();
                assert!(p.server_got == data, "{name}");
                assert!(stats.timeouts > 0 && stats.undone > 0, "{name} {stats:?}");
                let after = p.client.sender().congestion().cwnd();
                assert!(
                    after >= before,
                    "{name}: {before} became {after}, {stats:?}"
                );
                assert!(
                    p.client.sender().congestion().ssthresh().get() > 1 << 32 || control == "cubic",
                    "{name} {stats:?}"
                );
            }
        }
    }
}

#[test]
fn a_real_loss_of_the_window_is_not_undone() {
    for detector in ["newreno", "go-back-n", "sack", "rack"] {
        let config = TcpConfig {
            spurious: SpuriousDetection::default(),
            ..rto(textbook(detector), "1ms")
        };
        let mut p = Pair::connected(config.clone(), config);
        let data = bytes(500_000);
        p.transfer(&data[..100_000], Duration::from_secs(1));
        let begin = p.now;
        p.path = Box::new(move |s, _| {
            let dead = s.from_client && s.at.since(begin) < Duration::from_micros(400);
            if dead { Fate::Drop } else { Fate::Pass }
        });
        p.transfer(&data[100_000..], Duration::from_secs(10));
        assert!(p.server_got == data, "{detector}");
        let stats = p.client.sender_stats();
        assert_eq!(stats.undone, 0, "{detector} {stats:?}");
    }
}

#[test]
fn an_undo_ends_the_backoff() {
    let mut lab = flight(textbook("sack"), FRTO);
    lab.timer();
    assert_eq!(lab.conn.sender().current_rto(), Duration::from_secs(2));
    lab.wait(ms(10));
    lab.ack(1);
    assert_eq!(
        lab.conn.sender().current_rto(),
        Duration::from_secs(2),
        "Karn's rule"
    );
    lab.ack(2);
    assert_eq!(lab.undone(), 1);
    assert!(lab.conn.sender().current_rto() < Duration::from_secs(5));
    assert_eq!(lab.conn.sender().retries(), 0);
}

/// Step 3, whatever could be sent in step 2b: after a single new segment the next retransmission
/// waits for the verdict too, or its ACK would be taken for that of an original.
#[test]
fn rfc5682_2_1_one_new_segment_is_enough_to_wait() {
    for detector in ["newreno", "sack", "rack-notlp"] {
        for extra in 1..=3 {
            let config = TcpConfig {
                spurious: FRTO,
                initial_window: InitialWindow::Segments(10),
                ..textbook(detector)
            };
            let mut lab = Lab::connected(config, ms(100));
            lab.write(10 + extra);
            // All ten are lost.
            lab.timer();
            lab.wait(ms(100));
            let new: Vec<_> = (10..10 + extra.min(2)).collect();
            assert_eq!(segments(&lab.ack(1)), new, "{detector}");
            lab.wait(ms(100));
            // The new ones arrive, and tell of the gap.
            let told = if detector == "newreno" {
                lab.ack(1)
            } else {
                lab.sack(1, &[(10, 11)])
            };
            assert_eq!(segments(&told).first(), Some(&1), "{detector}");
            lab.wait(ms(100));
            lab.sack(2, &[(10, 11)]);
            assert_eq!((lab.undone(), state(&lab)), (0, CaState::Loss));
            assert_eq!(lab.ssthresh(), 5);
        }
    }
}

/// Where the peer's window is the limit, the ACK that F-RTO begins with opens it.
#[test]
fn rfc5682_2_1_a_sender_limited_by_the_peers_window_finds_out_too() {
    for detector in ["newreno", "sack"] {
        let config = TcpConfig {
            spurious: FRTO,
            initial_window: InitialWindow::Segments(20),
            mss: 1_024,
            ..textbook(detector)
        };
        let mut lab = Lab::new(config);
        lab.window = 10 * 1_024;
        lab.pump();
        lab.wait(ms(100));
        lab.syn_ack(Flags::NONE);
        lab.write(50);
        assert_eq!(lab.conn.sender().nxt(), 10 * 1_024 + 1);
        lab.timer();
        let out = lab.ack_now(1_024, &[], Flags::NONE);
        let left: Vec<_> = out.iter().map(|o| o.offset / 1_024).collect();
        assert_eq!(left, [10], "{detector}");
        lab.ack_now(2_048, &[], Flags::NONE);
        assert_eq!(lab.undone(), 1, "{detector}");
    }
}

/// RFC 3708 section 3: a D-SACK whose ACK the network brings twice counts once.
#[test]
fn rfc3708_3_a_duplicated_dsack_counts_once() {
    for overtaken in [false, true] {
        let mut lab = flight(textbook("sack"), DSACK);
        lab.wait(ms(100));
        // 0 is late, 5 is lost.
        for n in 7..=10 {
            lab.sack(0, &[(6, n), (1, 5)]);
        }
        assert_eq!(lab.conn.sender_stats().retransmits, 2);
        let twice =
            |lab: &mut Lab| lab.ack_now(5 * MSS, &[(0, MSS), (6 * MSS, 10 * MSS)], Flags::NONE);
        lab.sack(5, &[(6, 10)]);
        twice(&mut lab);
        if overtaken {
            lab.ack(10);
        }
        twice(&mut lab);
        assert_eq!(lab.undone(), 0, "{overtaken}");
        lab.ack_now(10 * MSS, &[(5 * MSS, 6 * MSS)], Flags::NONE);
        assert_eq!(lab.undone(), 1, "{overtaken}");
    }
}

/// Step 2b, where nothing new may leave at first: once a retransmission has left, what leaves later
/// makes no ACK of that retransmission one of an original.
#[test]
fn rfc5682_2_1_after_a_retransmission_no_verdict_is_possible() {
    for detector in ["newreno", "sack"] {
        let config = TcpConfig {
            spurious: FRTO,
            nagle: true,
            initial_window: InitialWindow::Segments(10),
            ..textbook(detector)
        };
        let mut lab = Lab::connected(config, ms(100));
        lab.write(2);
        lab.conn.send(&[7; 500], 500).unwrap();
        lab.pump();
        assert_eq!(segments(&lab.log), [0, 1]);
        // Both are lost.
        lab.timer();
        lab.wait(ms(100));
        assert_eq!(
            segments(&lab.ack(1)),
            [1],
            "{detector}: Nagle holds the rest"
        );
        lab.conn.send(&[7; 500], 500).unwrap();
        assert_eq!(segments(&lab.pump()), [2]);
        lab.wait(ms(100));
        lab.ack(2);
        assert_eq!(lab.undone(), 0, "{detector}");
    }
}

/// A window that does not shrink to one segment lets out more than the first again: then no ACK
/// tells originals from copies.
#[test]
fn rfc5682_2_1_more_than_one_retransmission_proves_nothing() {
    let config = congestion(textbook("newreno"), "fixed");
    let mut lab = flight(config, FRTO);
    assert!(segments(&lab.timer()).starts_with(&[0, 1]));
    lab.wait(ms(100));
    for n in 1..=3 {
        lab.ack(n);
    }
    assert_eq!((lab.undone(), state(&lab)), (0, CaState::Loss));
}

/// What the device refused has not been sent: F-RTO does not wait for its ACK.
#[test]
fn rfc5682_2_1_new_segments_that_were_refused_are_still_to_be_sent() {
    for detector in ["newreno", "sack", "rack-notlp"] {
        for backwards in [false, true] {
            let mut lab = flight(textbook(detector), FRTO);
            lab.timer();
            lab.wait(ms(100));
            let mut new = lab.ack(1);
            assert_eq!(segments(&new), [10, 11], "{detector}");
            if backwards {
                new.reverse();
            }
            for o in &new {
                lab.conn.handle_local_drop(lab.now, &o.tcp, o.len as usize);
            }
            assert!(!segments(&lab.pump()).is_empty(), "{detector} {backwards}");
        }
    }
}

/// While the verdict is awaited the peer closes its window: it is probed all the same (RFC 9293
/// section 3.8.6.1).
#[test]
fn rfc5682_2_1_a_closed_window_is_probed() {
    for detector in ["newreno", "sack", "rack-notlp"] {
        let mut lab = flight(textbook(detector), FRTO);
        lab.timer();
        lab.wait(ms(100));
        assert_eq!(segments(&lab.ack(1)).len(), 2, "{detector}");
        lab.wait(ms(10));
        lab.window = 0;
        lab.ack(1);
        let probes = segments(&lab.wait(ms(60_000)));
        assert!(probes.contains(&1), "{detector} {probes:?}");
    }
}

/// RFC 3708 step A.3: a copy that the recovery before the timeout sent counts.
#[test]
fn rfc3708_a3_a_copy_from_before_the_timeout_makes_two() {
    let config = TcpConfig {
        spurious: DSACK,
        initial_window: InitialWindow::Segments(20),
        ..textbook("sack")
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(20);
    lab.wait(ms(100));
    for n in 2..=20 {
        lab.sack(0, &[(1, n)]);
    }
    assert_eq!(segments(&lab.log)[20..], [0]);
    assert_eq!(segments(&lab.timer()), [0]);
    lab.wait(ms(100));
    lab.ack(20);
    lab.sack(20, &[(0, 1)]);
    assert_eq!(lab.undone(), 0);
}

/// RFC 3708 step A.1: where the D-SACK is the first that is heard of the window, all of its ACKs
/// were lost. Where something was SACKed before, or it is not of SND.UNA, it counts.
#[test]
fn rfc3708_a1_a_window_whose_acks_were_all_lost_is_not_undone() {
    for (heard, undone) in [(false, 0), (true, 1)] {
        let mut lab = flight(textbook("sack"), DSACK);
        if heard {
            lab.sack(0, &[(5, 6)]);
        }
        lab.wait(ms(2_000));
        lab.sack(10, &[(0, 1)]);
        assert_eq!(lab.undone(), undone, "{heard}");
    }
}

/// RFC 4015 section 3.1 step 9: if the ACK that proves the timeout spurious tells of congestion,
/// nothing is sent again, but the window stays as it is; and that has answered for the mark.
#[test]
fn rfc4015_3_1_with_an_ecn_echo_the_window_stays() {
    for (flags, undone) in [(Flags::ECE, 0), (Flags::NONE, 1)] {
        let config = stamped(TcpConfig {
            ecn: EcnMode::Classic,
            spurious: EIFEL,
            initial_window: InitialWindow::Segments(20),
            ..textbook("sack")
        });
        let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
        lab.write(300);
        let old = lab.log.last().unwrap().tcp.options.timestamps.unwrap().val;
        lab.timer();
        lab.wait(ms(1));
        lab.log.clear();
        lab.echo = Some(old);
        lab.ack_now(MSS, &[], flags);
        // What the timeout has answered for stays answered for.
        let state_then = [CaState::Cwr, CaState::Open][undone];
        assert_eq!((lab.undone(), state(&lab)), (undone, state_then));
        assert_eq!(lab.cwnd() > 2, undone == 1);
        lab.echo = Some(old);
        lab.ack_now(2 * MSS, &[], flags);
        assert_eq!((lab.reductions(), lab.ssthresh() > 100), (0, undone == 1));
        assert!(segments(&lab.log).iter().all(|n| *n >= 20));
    }
    // DCTCP's feedback is not a signal of that kind: the share of marks says how much.
    let config = stamped(TcpConfig {
        ecn: EcnMode::Dctcp,
        spurious: EIFEL,
        initial_window: InitialWindow::Segments(20),
        ..congestion(textbook("sack"), "dctcp")
    });
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    lab.write(300);
    let old = lab.log.last().unwrap().tcp.options.timestamps.unwrap().val;
    lab.timer();
    lab.wait(ms(1));
    lab.echo = Some(old);
    lab.ack_now(MSS, &[], Flags::ECE);
    // What it says of the window that has come back is of before.
    assert_eq!((lab.undone(), lab.reductions()), (1, 0));
}

/// RFC 3708 step A.4: a D-SACK of what was never retransmitted is the network's doing, and from
/// there on none of this connection proves anything.
#[test]
fn rfc3708_a4_on_a_network_that_duplicates_dsacks_prove_nothing() {
    for duplicated in [false, true] {
        let mut lab = flight(textbook("sack"), DSACK);
        lab.wait(ms(100));
        if duplicated {
            lab.ack(2);
            lab.sack(2, &[(0, 1)]);
        }
        lab.ack(3);
        let una = 3;
        for n in 5..=7 {
            lab.sack(una, &[(una + 1, n)]);
        }
        assert_eq!(lab.conn.sender_stats().retransmits, 1);
        lab.sack(7, &[(una, una + 1)]);
        assert_eq!(lab.undone(), usize::from(!duplicated));
    }
}

/// The exception: a lone segment times out because the peer holds its ACK back. Its D-SACK is all
/// the news there can be.
#[test]
fn rfc3708_a1_a_lone_segment_may_have_been_acknowledged_late() {
    let config = TcpConfig {
        spurious: DSACK,
        ..textbook("sack")
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(1);
    assert_eq!(segments(&lab.timer()), [0]);
    lab.wait(ms(100));
    lab.sack(1, &[(0, 1)]);
    assert_eq!(lab.undone(), 1);
}
