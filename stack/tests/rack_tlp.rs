//! RACK-TLP (RFC 8985) by a whole connection.

use crate::lab;
use crate::lab::{Lab, MSS, ms, segments, stamped, textbook, us};
use narrows::Duration;
use narrows::config::{AckPolicy, EcnMode, InitialWindow, RecoverySending, TcpConfig};
use narrows::congestion::CaState;
use narrows::trace::TraceEvent;
use narrows::wire::Flags;

fn rack() -> TcpConfig {
    TcpConfig {
        initial_window: InitialWindow::Segments(10),
        ..textbook("rack")
    }
}

/// Ten segments, 1 ms apart, of which the first has been in flight for an RTT of 100 ms.
fn spaced(config: TcpConfig) -> Lab {
    let mut lab = Lab::connected(config, ms(100));
    for _ in 0..10 {
        lab.write(1);
        lab.wait(ms(1));
    }
    lab.wait(ms(90));
    lab
}

fn state(lab: &Lab) -> CaState {
    lab.conn.sender().ca_state()
}

fn probes(lab: &Lab) -> usize {
    lab.events()
        .iter()
        .filter(|e| matches!(e, TraceEvent::TailLossProbe))
        .count()
}

#[test]
fn rfc8985_6_2_step_4_reordering_within_a_quarter_of_min_rtt_retransmits_nothing() {
    let mut lab = spaced(rack());
    lab.sack(0, &[(1, 2)]);
    lab.wait(ms(1));
    lab.sack(0, &[(1, 3)]);
    // The reordering window: min_RTT / 4 = 25 ms. 0 comes 20 ms late.
    assert!(segments(&lab.wait(ms(20))).is_empty());
    lab.ack(3);
    assert_eq!(lab.conn.sender_stats().retransmits, 0);
    assert_eq!((lab.reductions(), state(&lab)), (0, CaState::Open));
}

#[test]
fn rfc8985_6_2_step_5_the_reordering_timer_condemns_when_the_window_is_over() {
    let mut lab = spaced(rack());
    lab.sack(0, &[(1, 2)]);
    // 1 left 1 ms after 0 and took 99 ms: 0 is lost 100 + 25 ms after it left.
    let due = lab.conn.sender().reorder_deadline().unwrap().since(lab.now);
    let out = lab.wait(due);
    assert_eq!(segments(&out), [0]);
    assert!(due >= us(23_000) && due <= us(26_000), "{due}");
    assert_eq!((lab.reductions(), state(&lab)), (1, CaState::Recovery));
}

#[test]
fn rfc8985_6_2_step_4_three_sacked_segments_and_no_reordering_seen_wait_for_nothing() {
    let mut lab = spaced(rack());
    lab.sack(0, &[(1, 2)]);
    lab.sack(0, &[(1, 3)]);
    assert_eq!(segments(&lab.sack(0, &[(1, 4)])), [0]);
}

#[test]
fn rfc8985_6_2_step_4_after_reordering_even_three_sacked_segments_wait() {
    let mut lab = spaced(rack());
    // 0 is overtaken by 1 once.
    lab.sack(0, &[(1, 2)]);
    lab.ack(2);
    for n in 4..=7 {
        assert!(segments(&lab.sack(2, &[(3, n)])).is_empty());
    }
    assert_eq!((state(&lab), lab.reductions()), (CaState::Disorder, 0));
    lab.ack(7);
    assert_eq!(lab.conn.sender_stats().retransmits, 0);
}

/// RFC 2883 section 5.2: a segment that was only late, and was sent again before it came, is
/// reordering too. Its timestamp tells, or that nothing is that fast, or a D-SACK. What is late
/// after that is waited for, in recovery as well.
#[test]
fn rfc8985_6_2_step_3_what_was_sent_again_before_it_came_is_reordering() {
    for timestamps in [false, true] {
        for cumulative in [true, false] {
            let config = if timestamps { stamped(rack()) } else { rack() };
            let mut lab = forty_in_flight(config);
            let stamp = lab.log.first().and_then(|o| o.tcp.options.timestamps);
            let echo = stamp.map(|t| t.val);
            // Unless it is to fill the hole at SND.UNA, there is another below.
            let (una, late) = if cumulative { (0, 0) } else { (0, 1) };
            for n in late + 2..=late + 12 {
                lab.echo = echo;
                lab.sack(una, &[(late + 1, n)]);
            }
            let left = segments(&lab.log[40..]);
            assert!(left.contains(&late), "{timestamps} {cumulative} {left:?}");
            let seen = |lab: &Lab| lab.conn.sender().scoreboard().reordering().segments;
            assert_eq!(seen(&lab), 0);
            lab.wait(ms(5));
            // The retransmission cannot have arrived.
            lab.echo = echo;
            if cumulative {
                lab.ack(12);
            } else {
                lab.sack(0, &[(late, late + 12)]);
            }
            assert_eq!(seen(&lab), 1, "{timestamps} {cumulative}");
            // 19 is late by less than a quarter of min_RTT.
            let una = if cumulative { 19 } else { 0 };
            let before = lab.conn.sender_stats().retransmits;
            for n in 21..=30 {
                lab.echo = echo;
                if cumulative {
                    lab.sack(una, &[(20, n)]);
                } else {
                    lab.sack(una, &[(20, n), (late, 19)]);
                }
            }
            lab.wait(ms(20));
            assert_eq!(lab.conn.sender_stats().retransmits, before);
        }
    }
}

/// RFC 5681 section 3.1, RFC 3465 section 2.1: a window grows by what is cumulatively acknowledged,
/// in however many pieces. A path on which a segment of each window is late, so that all the rest
/// is SACKed first and acknowledged at once, lets it grow as one that is in order does.
#[test]
fn rfc3465_2_1_a_window_grows_as_fast_when_segments_are_late() {
    for name in ["reno", "cubic", "dctcp"] {
        let grown = |late: bool| {
            let mut lab = forty_in_flight(lab::congestion(rack(), name));
            // Reordering is seen, then 2 is lost: congestion avoidance.
            lab.sack(0, &[(1, 2)]);
            lab.ack(2);
            lab.sack(2, &[(3, 40)]);
            lab.wait(ms(130));
            lab.ack(lab.conn.sender().nxt() / MSS);
            assert_eq!((lab.reductions(), state(&lab)), (1, CaState::Open));
            let begun = lab.conn.sender().congestion().cwnd().get();
            for _ in 0..10 {
                let from = lab.conn.sender().una() / MSS;
                let to = lab.conn.sender().nxt() / MSS;
                lab.wait(ms(90));
                for n in from + 1..to {
                    if late {
                        lab.sack(from, &[(from + 1, n + 1)]);
                    } else {
                        lab.ack(n);
                    }
                }
                lab.wait(ms(10));
                lab.ack(to);
                lab.write(40);
            }
            assert_eq!(lab.conn.sender_stats().retransmits, 1);
            lab.conn.sender().congestion().cwnd().get() - begun
        };
        let (in_order, late) = (grown(false), grown(true));
        assert!(in_order >= 4 * MSS, "{name}: {in_order}");
        assert!(late >= in_order * 9 / 10, "{name}: {late}, {in_order}");
    }
}

/// A hole that its retransmission has filled says nothing of reordering.
#[test]
fn rfc8985_6_2_step_3_a_retransmission_that_arrives_is_none() {
    for timestamps in [false, true] {
        let config = if timestamps { stamped(rack()) } else { rack() };
        let mut lab = forty_in_flight(config);
        for n in 2..=4 {
            lab.sack(0, &[(1, n)]);
        }
        assert!(segments(&lab.log[40..]).contains(&0));
        lab.wait(ms(100));
        lab.ack(4);
        let board = lab.conn.sender().scoreboard();
        assert_eq!(board.reordering().segments, 0, "{timestamps}");
    }
}

#[test]
fn rfc8985_6_lost_retransmission_is_found_without_a_timeout() {
    let mut lab = spaced(rack());
    for n in 2..=4 {
        lab.sack(0, &[(1, n)]);
    }
    assert_eq!(segments(&lab.log)[10..], [0]);
    lab.wait(ms(5));
    lab.write(20);
    for n in 5..=10 {
        lab.sack(0, &[(1, n)]);
    }
    // New data went after the retransmission; it arrives, the retransmission does not.
    assert!(segments(&lab.log).contains(&10));
    lab.wait(ms(130));
    let out = lab.sack(0, &[(1, 11)]);
    assert_eq!(segments(&out).first(), Some(&0));
    let stats = lab.conn.sender_stats();
    assert_eq!((stats.timeouts, stats.lost_bytes), (0, 2 * MSS));
}

/// Forty segments in flight for an RTT, and more waiting.
fn forty_in_flight(config: TcpConfig) -> Lab {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(40),
        ..config
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(300);
    lab.wait(ms(100));
    lab
}

/// The first segment that left for the first time after segment `n` did for the last time.
fn new_after(lab: &Lab, n: u64) -> u64 {
    let left = segments(&lab.log);
    let at = left.iter().rposition(|s| *s == n).unwrap();
    let highest = left[..at].iter().max().unwrap();
    *left[at..].iter().find(|s| *s > highest).unwrap()
}

/// RFC 5681 section 4.3, RFC 8985 section 9.3: the loss of a retransmission is a second indication
/// of congestion, those of one window together are one.
#[test]
fn rfc5681_4_3_a_lost_retransmission_lowers_the_window_again() {
    let mut lab = forty_in_flight(rack());
    // 0 to 3 are lost. Each delivery from 30 ms later on is told by an ACK of its own.
    for n in 5..=30 {
        lab.wait(ms(1));
        lab.sack(0, &[(4, n)]);
    }
    assert_eq!((lab.reductions(), lab.ssthresh(), lab.cwnd()), (1, 20, 20));
    let first = lab.log.iter().rposition(|o| o.segment() == 0).unwrap();
    let again = segments(&lab.log[first..]);
    assert!((0..4).all(|n| again.contains(&n)), "{again:?}");
    // What was new after them arrives, they do not.
    lab.wait(ms(100));
    let new = new_after(&lab, 3);
    for n in 31..=new {
        lab.sack(0, &[(4, n)]);
    }
    assert_eq!(lab.reductions(), 1);
    // The first goes again with the ACK that tells.
    lab.wait(ms(2));
    let out = lab.sack(0, &[(4, new + 1)]);
    assert_eq!(segments(&out), [0]);
    for n in new + 2..=new + 6 {
        lab.wait(ms(2));
        lab.sack(0, &[(4, n)]);
    }
    assert_eq!((lab.reductions(), lab.ssthresh(), lab.cwnd()), (2, 10, 10));
    // And a third time.
    lab.wait(ms(150));
    let seen = lab.conn.sender().nxt() / MSS;
    lab.sack(0, &[(4, seen)]);
    lab.wait(ms(150));
    let seen = lab.conn.sender().nxt() / MSS;
    lab.sack(0, &[(4, seen)]);
    assert_eq!((lab.reductions(), lab.ssthresh()), (3, 5));
    // No reduction is taken back for what the peer says of the copies.
    assert_eq!((state(&lab), lab.undone()), (CaState::Recovery, 0));
}

/// Retransmissions that left before the window was lowered a second time are of the same window,
/// though their loss is found later.
#[test]
fn rfc5681_4_3_retransmissions_of_one_window_lower_it_once() {
    let mut lab = forty_in_flight(rack());
    // 0 is lost, and 20; between their retransmissions new data leaves.
    for n in 2..=20 {
        lab.wait(ms(1));
        lab.sack(0, &[(1, n)]);
    }
    let new = new_after(&lab, 0);
    for n in 22..=40 {
        lab.wait(ms(1));
        lab.sack(0, &[(21, n), (1, 20)]);
    }
    let left = segments(&lab.log);
    let at = |n| left.iter().rposition(|s| *s == n).unwrap();
    assert!(at(0) < at(new) && at(new) < at(20), "{left:?}");
    assert_eq!(lab.reductions(), 1);
    lab.wait(ms(70));
    lab.sack(0, &[(21, new + 1), (1, 20)]);
    assert_eq!(lab.reductions(), 2, "0 once more");
    let after = new_after(&lab, 20);
    for n in new + 2..=after + 1 {
        lab.wait(ms(1));
        lab.sack(0, &[(21, n), (1, 20)]);
    }
    let left = segments(&lab.log);
    assert_eq!(
        left[40..].iter().filter(|n| **n == 20).count(),
        2,
        "20 as well"
    );
    assert_eq!(lab.reductions(), 2);
    // Only of the first segment does it count towards giving up.
    assert_eq!(lab.conn.sender().fruitless(), 1);
}

/// The first of them goes again with the ACK that tells, though the pipe is full.
#[test]
fn rfc5681_4_3_a_retransmission_lost_again_waits_for_no_room() {
    let mut lab = forty_in_flight(TcpConfig {
        recovery: RecoverySending::Pipe,
        ..rack()
    });
    for n in 2..=40 {
        lab.wait(ms(1));
        lab.sack(0, &[(1, n)]);
    }
    lab.wait(ms(70));
    let new = new_after(&lab, 0);
    let out = lab.sack(0, &[(1, new + 1)]);
    assert_eq!((lab.reductions(), segments(&out)), (2, vec![0]));
    assert_eq!(lab.conn.sender_stats().lost_again, 1);
    assert!(lab.pipe() > lab.cwnd(), "{} {}", lab.pipe(), lab.cwnd());
}

/// After a timeout, too, and again if the device refuses it.
#[test]
fn rfc5681_4_3_after_a_timeout_what_is_refused_leaves_again_at_once() {
    for recovery in [RecoverySending::Prr, RecoverySending::Pipe] {
        let config = TcpConfig {
            initial_window: InitialWindow::Segments(16),
            recovery,
            ..textbook("rack-notlp")
        };
        let mut lab = Lab::connected(config, ms(100));
        lab.write(300);
        lab.timer();
        for n in 1..=4 {
            lab.wait(ms(100));
            lab.ack(n);
        }
        lab.wait(ms(100));
        let mut out = Vec::new();
        for n in 6..=9 {
            lab.wait(ms(10));
            out.extend(lab.sack(4, &[(5, n)]));
            if lab.conn.sender_stats().lost_again > 0 {
                break;
            }
        }
        let first = out.iter().find(|o| o.segment() == 4).unwrap();
        let len = first.len as usize;
        lab.conn.handle_local_drop(lab.now, &first.tcp, len);
        assert_eq!(segments(&lab.pump()), [4], "{recovery:?}");
    }
}

/// What had left again shortly before a timeout is of the window that the timeout answered for.
#[test]
fn rfc5681_4_3_what_left_before_a_timeout_is_answered_for() {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(12),
        ..textbook("rack-notlp")
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(12);
    lab.wait(ms(100));
    // 0 and 1 are lost; the pipe has room for 1 only when all else has arrived.
    for n in 3..=5 {
        lab.sack(0, &[(2, n)]);
    }
    assert_eq!(segments(&lab.log)[12..], [0]);
    lab.wait(ms(950));
    lab.sack(0, &[(2, 12)]);
    assert_eq!(segments(&lab.log)[12..], [0, 1]);
    assert_eq!(segments(&lab.timer()), [0]);
    assert_eq!((lab.timeouts().len(), lab.reductions()), (1, 1));
    // The new copy of 0 arrives, the one of 1 that left before it does not.
    lab.wait(ms(110));
    lab.ack_now(MSS, &[(2 * MSS, 12 * MSS)], Flags::NONE);
    assert_eq!(segments(&lab.log)[15..], [1]);
    assert_eq!(lab.reductions(), 1);
}

/// The same after a timeout: what slow start has repaired so far is lost again, and the timer did
/// not tell.
#[test]
fn rfc5681_4_3_a_lost_retransmission_after_a_timeout_lowers_the_window_again() {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(16),
        ..textbook("rack-notlp")
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(300);
    lab.timer();
    assert_eq!((state(&lab), lab.ssthresh()), (CaState::Loss, 8));
    // Each retransmission up to 4 arrives after a round trip, and lets out more.
    for n in 1..=4 {
        lab.wait(ms(100));
        lab.ack(n);
    }
    assert_eq!((lab.reductions(), lab.cwnd()), (0, 5));
    assert_eq!(segments(&lab.log).last(), Some(&8));
    // Of those in flight the first is lost.
    lab.wait(ms(100));
    lab.log.clear();
    for n in 6..=9 {
        lab.wait(ms(10));
        lab.sack(4, &[(5, n)]);
    }
    assert!(segments(&lab.log).contains(&4), "{:?}", segments(&lab.log));
    assert_eq!((lab.reductions(), state(&lab)), (1, CaState::Loss));
    assert!(lab.ssthresh() < 8 && lab.cwnd() < 5);
    lab.wait(ms(100));
    lab.ack(16);
    assert_eq!((lab.reductions(), state(&lab)), (1, CaState::Open));
}

#[test]
fn rfc8985_7_2_the_probe_leaves_after_two_srtt() {
    let mut lab = Lab::connected(rack(), ms(100));
    lab.write(5);
    let sent = lab.now;
    let out = lab.timer();
    assert_eq!(lab.now.since(sent), ms(200));
    assert_eq!(segments(&out), [4], "the highest segment");
    assert_eq!((probes(&lab), lab.timeouts().len()), (1, 0));
    // One probe an episode; then the retransmission timer, restarted at the probe.
    let out = lab.timer();
    assert_eq!(lab.now.since(sent), ms(200) + lab::ms(1_000));
    assert_eq!((segments(&out), lab.timeouts().len()), (vec![0], 1));
}

#[test]
fn rfc8985_7_2_a_single_segment_waits_for_a_delayed_ack_too() {
    let ack = AckPolicy {
        delay: ms(40),
        every: 2,
        quick_acks: 0,
    };
    let mut lab = Lab::connected(TcpConfig { ack, ..rack() }, ms(100));
    lab.write(1);
    let sent = lab.now;
    assert_eq!(segments(&lab.timer()), [0]);
    assert_eq!(lab.now.since(sent), ms(240));
}

#[test]
fn rfc8985_7_3_the_probe_is_new_data_if_the_windows_admit_it() {
    // cwnd does not matter for the probe.
    let mut lab = Lab::connected(rack(), ms(100));
    lab.write(30);
    let out = lab.timer();
    assert_eq!((segments(&out), probes(&lab)), (vec![10], 1));
    assert_eq!(lab.conn.sender_stats().retransmits, 0);
    // All arrives late: the probe cost nothing.
    lab.wait(ms(50));
    lab.ack(11);
    assert_eq!((lab.reductions(), state(&lab)), (0, CaState::Open));
    // The next flight gets its own probe.
    lab.wait(ms(10));
    lab.timer();
    assert_eq!(probes(&lab), 2);
}

#[test]
fn rfc8985_7_3_a_short_last_segment_as_probe_ends_its_episode() {
    let mut lab = Lab::connected(rack(), ms(100));
    let data = [1; 10 * MSS as usize + 300];
    lab.conn.send(&data, data.len()).unwrap();
    lab.pump();
    let out = lab.timer();
    assert_eq!((out.len(), out[0].len), (1, 300));
    lab.ack_now(data.len() as u64, &[], Flags::NONE);
    lab.write(3);
    lab.timer();
    assert_eq!(probes(&lab), 2, "the first episode is over");
}

#[test]
fn rfc8985_7_a_lost_tail_is_repaired_without_a_timeout() {
    // The last three of ten are lost.
    let mut lab = Lab::connected(rack(), ms(100));
    lab.write(10);
    lab.wait(ms(100));
    lab.ack(7);
    let begin = lab.now;
    assert_eq!(segments(&lab.timer()), [9]);
    lab.wait(ms(100));
    let out = lab.sack(7, &[(9, 10)]);
    assert_eq!(segments(&out).first(), Some(&7));
    lab.wait(ms(100));
    lab.sack(8, &[(9, 10)]);
    lab.wait(ms(100));
    lab.ack(10);
    assert_eq!(
        (lab.timeouts().len(), lab.reductions(), state(&lab)),
        (0, 1, CaState::Open)
    );
    assert!(lab.now.since(begin) < Duration::from_millis(700));
}

#[test]
fn rfc8985_7_4_2_a_loss_that_the_probe_repaired_is_answered_by_one_cut() {
    let mut lab = Lab::connected(rack(), ms(100));
    lab.write(10);
    lab.wait(ms(100));
    lab.ack(9);
    assert_eq!(segments(&lab.timer()), [9]);
    lab.wait(ms(100));
    lab.ack(10);
    assert_eq!(
        lab.reductions(),
        0,
        "it may have been a duplicate: a D-SACK would say"
    );
    lab.write(3);
    lab.wait(ms(100));
    lab.ack(11);
    assert_eq!(lab.reductions(), 1);
    lab.ack(13);
    assert_eq!(lab.reductions(), 1);
    assert_eq!(lab.timeouts().len(), 0);
}

#[test]
fn rfc8985_7_4_2_a_probe_that_came_twice_cuts_nothing() {
    let mut lab = Lab::connected(rack(), ms(100));
    lab.write(10);
    lab.wait(ms(100));
    lab.ack(9);
    assert_eq!(segments(&lab.timer()), [9]);
    lab.ack(10);
    lab.wait(ms(100));
    lab.sack(10, &[(9, 10)]);
    lab.write(3);
    lab.wait(ms(100));
    lab.ack(13);
    assert_eq!((lab.reductions(), state(&lab)), (0, CaState::Open));
}

#[test]
fn rfc8985_7_4_2_without_dsack_a_bare_duplicate_says_the_same() {
    let mut lab = Lab::connected(rack(), ms(100));
    lab.write(10);
    lab.wait(ms(100));
    lab.ack(9);
    lab.timer();
    // The original and the probe have both been acknowledged before more is sent.
    lab.ack(10);
    lab.ack(10);
    lab.write(3);
    lab.wait(ms(100));
    lab.ack(13);
    assert_eq!(lab.reductions(), 0);
}

#[test]
fn rfc8985_7_3_no_further_probe_without_a_round_trip_measured_between() {
    let mut lab = Lab::connected(rack(), ms(100));
    lab.write(10);
    lab.wait(ms(100));
    lab.ack(9);
    lab.timer();
    assert_eq!(probes(&lab), 1);
    // Of a segment sent twice no round trip is known (Karn).
    lab.ack(10);
    lab.ack(10);
    lab.write(1);
    assert_eq!(lab.conn.sender().pto_deadline(), None);
    assert!(lab.conn.sender().rto_deadline().is_some());
    lab.wait(ms(100));
    lab.ack(11);
    lab.write(1);
    assert!(lab.conn.sender().pto_deadline().is_some());
}

#[test]
fn rfc8985_7_1_a_recovery_ends_the_probe_so_that_there_is_one_cut() {
    let mut lab = Lab::connected(rack(), ms(100));
    lab.write(10);
    lab.timer();
    assert_eq!(probes(&lab), 1);
    lab.wait(ms(100));
    // What came is the probe: all that left before it is lost.
    lab.sack(0, &[(9, 10)]);
    assert_eq!((lab.reductions(), state(&lab)), (1, CaState::Recovery));
    lab.wait(ms(100));
    lab.ack(10);
    assert_eq!(state(&lab), CaState::Open);
    lab.write(3);
    lab.wait(ms(100));
    lab.ack(13);
    assert_eq!(lab.reductions(), 1);
}

#[test]
fn no_probe_without_sack_nor_outside_the_open_state() {
    let mut lab = Lab::connected(
        TcpConfig {
            sack: false,
            ..rack()
        },
        ms(100),
    );
    lab.write(5);
    assert_eq!(lab.conn.sender().pto_deadline(), None);
    let mut lab = spaced(rack());
    lab.sack(0, &[(1, 2)]);
    assert_eq!(lab.conn.sender().pto_deadline(), None);
    let mut lab = Lab::connected(textbook("rack-notlp"), ms(100));
    lab.write(5);
    assert_eq!(lab.conn.sender().pto_deadline(), None);
}

/// What judges by SACKs has no part in a connection without.
#[test]
fn without_sack_it_is_newreno() {
    for detector in ["rack", "sack"] {
        let mut lab = Lab::connected(
            TcpConfig {
                sack: false,
                ..textbook(detector)
            },
            ms(100),
        );
        assert_eq!(lab.conn.sender().detector().name(), "newreno");
        lab.write(5);
        lab.wait(ms(100));
        for _ in 0..3 {
            lab.ack(0);
        }
        let sender = lab.conn.sender();
        assert_eq!(sender.ca_state(), CaState::Recovery, "{detector}");
        assert_eq!(sender.scoreboard().lost().get(), MSS, "{detector}");
        lab.timer();
        assert_eq!(state(&lab), CaState::Loss, "{detector}");
        for _ in 0..3 {
            lab.ack(1);
        }
        assert_eq!(state(&lab), CaState::Loss, "RFC 6582 section 3.2 step 6");
    }
}

#[test]
fn rfc8985_6_3_a_timeout_condemns_only_what_had_its_time() {
    let mut lab = Lab::connected(textbook("rack-notlp"), ms(100));
    lab.write(3);
    lab.wait(ms(100));
    lab.ack(1);
    let rto = lab.conn.sender().rto_deadline().unwrap().since(lab.now);
    lab.wait(rto.saturating_sub(ms(10)));
    lab.write(1);
    lab.timer();
    let board = lab.conn.sender().scoreboard();
    assert_eq!(board.lost().get(), 2 * MSS, "3 left 10 ms ago");
}

#[test]
fn rfc8985_6_2_step_1_an_ack_of_the_original_says_nothing_of_the_retransmission() {
    // 0 is delayed, found lost and sent again; then the original arrives after all. With its
    // time of sending taken for the retransmission's all before it would be condemned.
    let mut lab = spaced(stamped(rack()));
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
    for n in 2..=4 {
        lab.sack(0, &[(1, n)]);
    }
    assert_eq!(segments(&lab.log)[10..], [0]);
    lab.wait(ms(120));
    lab.echo = Some(stamp);
    lab.ack(4);
    assert_eq!(
        lab.conn.sender_stats().retransmits,
        1,
        "4 to 9 may still come"
    );
}

#[test]
fn a_probe_in_a_connection_with_ecn_reduces_like_a_loss_and_says_so() {
    let config = TcpConfig {
        ecn: EcnMode::Classic,
        ..rack()
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    lab.write(10);
    lab.wait(ms(100));
    lab.ack(9);
    lab.timer();
    lab.wait(ms(100));
    lab.ack(10);
    lab.write(3);
    lab.wait(ms(100));
    lab.ack(11);
    assert_eq!((lab.reductions(), state(&lab)), (1, CaState::Cwr));
    assert!(lab.write(10).iter().any(|o| o.has(Flags::CWR)));
}

/// A probe that is due but has not left when a recovery begins is not sent any more: the window
/// answers for what it was about.
#[test]
fn rfc8985_7_3_no_probe_leaves_in_a_recovery() {
    let mut lab = Lab::connected(rack(), ms(100));
    lab.write(8);
    let due = lab.conn.poll_timeout().unwrap();
    lab.now = due;
    lab.conn.handle_timeout(due);
    // The device had no room until this came.
    lab.sack(0, &[(1, 7)]);
    assert_eq!(state(&lab), CaState::Recovery);
    assert_eq!(segments(&lab.log)[8..].first(), Some(&0));
    assert_eq!(lab.conn.sender_stats().tail_loss_probes, 0);
}

/// After a mark, too: only loss recovery has no probes.
#[test]
fn rfc8985_7_2_a_lost_tail_is_probed_in_cwr() {
    let config = TcpConfig {
        ecn: EcnMode::Classic,
        initial_window: InitialWindow::Segments(20),
        ..textbook("rack")
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    lab.write(20);
    lab.wait(ms(100));
    lab.ack_now(MSS, &[], Flags::ECE);
    assert_eq!(state(&lab), CaState::Cwr);
    lab.ack(18);
    lab.wait(ms(900));
    assert_eq!(lab.conn.sender_stats().tail_loss_probes, 1);
}

/// What leaves in one instant leaves in an order, and that is not always the one of sequence
/// numbers: a retransmission behind new data is not older.
#[test]
fn rfc8985_6_2_what_left_later_in_the_same_instant_is_not_earlier() {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(20),
        ..textbook("rack-notlp")
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(60);
    lab.wait(ms(100));
    // The ACK of 0 lets new data out, then 1 is found lost.
    assert!(!lab.ack(1).is_empty());
    let end = lab.conn.sender().nxt() / MSS;
    lab.sack(1, &[(2, 20)]);
    let copies = |lab: &Lab| segments(&lab.log).iter().filter(|s| **s == 1).count();
    assert_eq!((lab.reductions(), copies(&lab)), (1, 2));
    lab.wait(ms(100));
    lab.sack(1, &[(2, end)]);
    assert_eq!((lab.reductions(), copies(&lab)), (1, 2));
    // What left behind it is.
    lab.wait(ms(10));
    let all = lab.conn.sender().nxt() / MSS;
    lab.sack(1, &[(2, all)]);
    lab.wait(ms(30));
    assert_eq!((lab.reductions(), copies(&lab)), (2, 3));
}
