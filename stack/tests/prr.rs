//! Proportional rate reduction (RFC 9937) by a whole connection.

use crate::lab::{Lab, MSS, congestion, ms, segments, textbook};
use narrows::config::{EcnMode, InitialWindow, RecoverySending, TcpConfig};
use narrows::congestion::CaState;
use narrows::wire::Flags;

/// cwnd 20, all of it in flight, more to send, an RTT later.
fn twenty(recovery: RecoverySending) -> Lab {
    twenty_with(TcpConfig {
        recovery,
        ..textbook("sack")
    })
}

fn twenty_with(config: TcpConfig) -> Lab {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(20),
        ..config
    };
    let mut lab = Lab::connected(config, ms(100));
    assert_eq!(lab.write(200).len(), 20);
    lab.wait(ms(100));
    lab
}

#[test]
fn rfc9937_8_one_loss_cwnd_and_packets_ack_by_ack() {
    let mut lab = twenty(RecoverySending::Prr);
    let mut sent = Vec::new();
    let mut pipe = Vec::new();
    // The ACKs of the twenty: segment 0 is lost, 1 to 19 arrive.
    for n in 2..=20 {
        sent.push(segments(&lab.sack(0, &[(1, n)])).len());
        pipe.push(lab.pipe());
    }
    // The first row of the table, less the ACK that never came: what is in flight after each ACK
    // has been answered is cwnd.
    assert_eq!(
        pipe,
        [
            20, 20, 19, 18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 11
        ]
    );
    assert_eq!(
        sent,
        [1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    );
    assert_eq!((lab.ssthresh(), lab.reductions()), (10, 1));
    // A round trip later come the ACKs of what was sent since: two by limited transmit, the
    // retransmission of 0 (which takes the cumulative ACK past all of the twenty).
    lab.wait(ms(100));
    lab.sack(0, &[(1, 21)]);
    assert_eq!(lab.pipe(), 10);
    lab.sack(0, &[(1, 22)]);
    assert_eq!(lab.pipe(), 10);
    lab.ack(22);
    assert_eq!(
        (lab.pipe(), lab.cwnd(), state(&lab)),
        (10, 10, CaState::Open)
    );
}

fn state(lab: &Lab) -> CaState {
    lab.conn.sender().ca_state()
}

#[test]
fn rfc9937_8_first_fifteen_of_twenty_lost() {
    let mut lab = twenty(RecoverySending::Prr);
    let mut sent = Vec::new();
    let mut pipe = Vec::new();
    for n in 16..=20 {
        sent.push(segments(&lab.sack(0, &[(15, n)])));
        pipe.push(lab.pipe());
    }
    // Limited transmit twice; then 15 are found lost, and each ACK lets one out: cwnd 20 20 5 5 5.
    assert_eq!(pipe[..2], [20, 20]);
    assert_eq!(sent, [vec![20], vec![21], vec![0], vec![1], vec![2]]);
    assert_eq!(pipe[2..], [5, 5, 5]);
    assert_eq!(lab.ssthresh(), 10);
}

#[test]
fn rfc9937_recovery_ends_at_ssthresh_even_after_heavy_loss() {
    let mut lab = twenty(RecoverySending::Prr);
    for n in 16..=20 {
        lab.sack(0, &[(15, n)]);
    }
    // From here on nothing is lost: PRR-SSRB slow starts back towards ssthresh.
    let mut next = 0;
    while next < 15 {
        lab.wait(ms(100));
        let newest = segments(&lab.log)
            .into_iter()
            .filter(|s| *s < 15)
            .max()
            .unwrap();
        // Retransmissions went out in order, several times perhaps: all up to `newest` is there.
        while next <= newest {
            next += 1;
            lab.sack(next, &[(15, 22)]);
        }
        assert!(lab.pipe() <= 11, "never above ssthresh");
    }
    assert_eq!(lab.conn.sender_stats().timeouts, 0);
    assert_eq!(lab.cwnd(), 10);
}

#[test]
fn pipe_sending_halts_for_half_a_window_and_then_sends_one_an_ack() {
    let mut lab = twenty(RecoverySending::Pipe);
    let sent: Vec<_> = (2..=20)
        .map(|n| segments(&lab.sack(0, &[(1, n)])).len())
        .collect();
    // 22 sent, the retransmission included: 19 in flight then, and nothing until it is 9.
    assert_eq!(sent[..3], [1; 3]);
    assert_eq!(sent[3..12], [0; 9]);
    assert_eq!(sent[12..], [1; 7]);
    assert_eq!(lab.pipe(), 10);
}

#[test]
fn the_first_retransmission_leaves_whatever_the_window_says() {
    for recovery in [RecoverySending::Prr, RecoverySending::Pipe] {
        let mut lab = twenty(recovery);
        lab.sack(0, &[(1, 2)]);
        lab.sack(0, &[(1, 3)]);
        assert_eq!(segments(&lab.sack(0, &[(1, 4)])), [0]);
    }
}

#[test]
fn prr_never_lets_out_more_than_was_delivered_before_ssthresh_is_reached() {
    let mut lab = twenty(RecoverySending::Prr);
    let before = lab.conn.sender_stats().segments;
    let mut delivered = 0;
    for n in 2..=20u64 {
        delivered += 1;
        lab.sack(0, &[(1, n)]);
        let sent = lab.conn.sender_stats().segments - before;
        assert!(sent <= delivered, "{sent} for {delivered}");
    }
}

/// RFC 9937 section 6.2: without SACK duplicate ACKs take no more out of what is in flight, and
/// count for no more delivered, than was outstanding when the reduction began. However many a peer
/// makes up, no more leaves.
#[test]
fn rfc9937_6_2_duplicate_acks_without_sack_are_worth_what_was_outstanding() {
    for rounds in [1, 100] {
        let mut lab = Lab::connected(
            TcpConfig {
                recovery: RecoverySending::Prr,
                initial_window: InitialWindow::Segments(20),
                ..textbook("newreno")
            },
            ms(100),
        );
        lab.window = 1_000 * MSS;
        lab.ack(0);
        lab.write(500);
        lab.wait(ms(100));
        let begin = lab.conn.sender_stats().segments;
        for _ in 0..40 * rounds {
            lab.ack(0);
        }
        assert_eq!(lab.ssthresh(), 10, "{rounds}");
        let sent = lab.conn.sender_stats().segments - begin;
        assert_eq!((sent, lab.pipe(), lab.cwnd()), (14, 10, 10), "{rounds}");
        // Nearly all of RecoverFS is delivered by now: the room that a partial ACK makes is left
        // empty, but for what it retransmits itself, by another round of duplicates.
        lab.ack(15);
        for _ in 0..40 * rounds {
            lab.ack(15);
        }
        let sent = lab.conn.sender_stats().segments - begin;
        assert_eq!(sent, 14 + 3, "{rounds}");
    }
}

#[test]
fn prr_paces_the_reduction_for_an_ecn_mark_too() {
    let config = TcpConfig {
        ecn: EcnMode::Classic,
        ..textbook("sack")
    };
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(20),
        ..config
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    lab.write(200);
    lab.wait(ms(100));
    let mut sent = Vec::new();
    for n in 1..=20 {
        let flags = if n == 1 { Flags::ECE } else { Flags::NONE };
        sent.push(segments(&lab.ack_now(n * MSS, &[], flags)).len());
    }
    assert_eq!(
        sent.iter().sum::<usize>(),
        10,
        "half of what was acknowledged: {sent:?}"
    );
    assert!(
        sent.iter().all(|n| *n <= 1),
        "spread over the round trip: {sent:?}"
    );
    // Half of the 20 that were outstanding before the mark's ACK.
    assert_eq!(
        (lab.pipe(), lab.conn.sender().congestion().ssthresh().get()),
        (10, 10_000)
    );
}

/// A flight that the application kept below the target of a reduction is not to be reduced: what it
/// writes next leaves as far as the window admits, without waiting for an ACK to let it.
#[test]
fn rfc9937_4_a_mark_that_finds_less_in_flight_than_its_target_leaves_the_window_open() {
    for recovery in [RecoverySending::Prr, RecoverySending::Pipe] {
        let config = TcpConfig {
            recovery,
            ecn: EcnMode::Dctcp,
            initial_window: InitialWindow::Segments(100),
            ..congestion(textbook("sack"), "dctcp")
        };
        let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
        lab.write(2);
        lab.wait(ms(100));
        lab.ack_now(MSS, &[], Flags::ECE);
        assert_eq!((state(&lab), lab.reductions()), (CaState::Cwr, 1));
        let window = lab.cwnd();
        assert!((40..100).contains(&window), "{window}");
        // 1 is still in flight.
        assert_eq!(lab.write(200).len() as u64, window - 1, "{recovery:?}");
        assert_eq!(lab.pipe(), window);
        // The reduction is over with the window that it found.
        lab.wait(ms(100));
        lab.ack(2);
        assert_eq!((state(&lab), lab.reductions()), (CaState::Open, 1));
    }
}

/// RFC 5681 section 3.2, RFC 3042: nor do duplicate ACKs without SACK widen that window, but for
/// two segments.
#[test]
fn rfc3042_duplicate_acks_let_two_segments_out_of_a_window_that_a_mark_lowered() {
    let config = TcpConfig {
        recovery: RecoverySending::Pipe,
        ecn: EcnMode::Classic,
        initial_window: InitialWindow::Segments(20),
        dup_thresh: 30,
        ..textbook("newreno")
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    lab.write(200);
    lab.wait(ms(100));
    lab.ack_now(MSS, &[], Flags::ECE);
    for n in 2..=12 {
        lab.ack(n);
    }
    assert_eq!((state(&lab), lab.cwnd()), (CaState::Cwr, 10));
    let before = lab.conn.sender_stats().segments;
    for _ in 0..8 {
        lab.ack(12);
    }
    assert_eq!(state(&lab), CaState::Cwr);
    assert_eq!(lab.conn.sender_stats().segments - before, 2);
}

/// RFC 9937 section 6.2: what a recovery could have sent, had the application had it, leaves when
/// it has, between ACKs, and no more than fills the target.
#[test]
fn rfc9937_6_2_what_an_application_writes_between_acks_leaves() {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(20),
        ..textbook("sack")
    };
    for (acked, room) in [(7, 2), (11, 4), (20, 9)] {
        let mut lab = Lab::connected(config.clone(), ms(100));
        lab.write(20);
        lab.wait(ms(100));
        for n in 2..=acked {
            lab.sack(0, &[(1, n)]);
        }
        assert_eq!((state(&lab), lab.ssthresh()), (CaState::Recovery, 10));
        lab.wait(ms(10));
        let left = segments(&lab.write(200));
        assert_eq!(left.len() as u64, room, "{acked}");
        assert!(lab.pipe() <= 10.max(21 - acked + room), "{acked}");
    }
}

/// RFC 5681 section 3.1: where segments become smaller the window keeps their number, and the
/// reduction under way leads to that window.
#[test]
fn a_reduction_leads_to_the_smaller_window_of_a_smaller_path_mtu() {
    let mut lab = twenty(RecoverySending::Prr);
    for n in 2..=10 {
        lab.sack(0, &[(1, n)]);
    }
    assert_eq!((lab.ssthresh(), state(&lab)), (10, CaState::Recovery));
    lab.log.clear();
    lab.conn.handle_path_mtu(lab.now, 540);
    assert_eq!(lab.conn.sender().mss().get(), MSS / 2);
    lab.pump();
    let cwnd = lab.conn.sender().congestion().cwnd().get();
    assert_eq!(cwnd, 5_000, "ten segments");
    // What leaves arrives, all of it, in order of its going.
    let point = lab.conn.sender().nxt() - 1;
    let mut held = vec![false; 300_000];
    held[1_000..10_000].fill(true);
    let (mut at, mut acked) = (0, 0);
    while acked < point as usize {
        lab.wait(ms(100));
        let arrived = lab.log.len();
        for k in at..arrived {
            let (start, len) = (lab.log[k].offset as usize, lab.log[k].len as usize);
            held[start..start + len].fill(true);
            while held[acked] {
                acked += 1;
            }
            lab.ack_now(acked as u64, &[], Flags::NONE);
            let pipe = lab.conn.sender().scoreboard().pipe().get();
            let over = state(&lab) != CaState::Recovery;
            assert!(over || pipe <= cwnd + 500, "{pipe} in flight at {acked}");
        }
        assert!(arrived > at, "nothing left at {acked}");
        at = arrived;
    }
    assert_eq!(lab.conn.sender_stats().timeouts, 0);
}
