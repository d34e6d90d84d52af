//! Rules that the texts of the RFCs have and that no test of the topics shows.

use crate::lab;
use crate::lab::{Lab, ms, segments, textbook};
use narrows::ByteCount;
use narrows::config::{EcnMode, InitialWindow, RecoverySending, TcpConfig, TimestampMode};
use narrows::congestion::CaState;
use narrows::recovery::prr::Prr;
use narrows::wire::Flags;

/// A sender without SACK with `n` segments in flight and 50 more waiting, an RTT later.
fn flight(n: u32) -> Lab {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(n),
        ..textbook("newreno")
    };
    let mut lab = Lab::connected(config, ms(100));
    assert_eq!(lab.write(50 + u64::from(n)).len(), n as usize);
    lab.wait(ms(100));
    lab
}

fn state(lab: &Lab) -> CaState {
    lab.conn.sender().ca_state()
}

/// RFC 6582 section 3.2 step 3: the first partial ACK of a recovery restarts the timer, and so does
/// that of the next recovery.
#[test]
fn rfc6582_3_2_the_first_partial_ack_restarts_the_timer() {
    let mut lab = flight(20);
    let mut una = 0;
    for _ in 0..2 {
        for _ in 0..4 {
            lab.ack(una);
        }
        assert_eq!(state(&lab), CaState::Recovery);
        let recover = lab.conn.sender().nxt();
        lab.wait(ms(100));
        una += 2;
        lab.ack(una);
        let sender = lab.conn.sender();
        let restarted = Some(lab.now + sender.current_rto());
        assert_eq!(sender.rto_deadline(), restarted);
        lab.wait(ms(100));
        una += 2;
        lab.ack(una);
        assert_eq!(
            lab.conn.sender().rto_deadline(),
            restarted,
            "the first only"
        );
        // All of it, and what was sent since.
        lab.wait(ms(10));
        lab.ack((recover - 1) / lab::MSS);
        assert_ne!(state(&lab), CaState::Recovery);
        una = (lab.conn.sender().nxt() - 1) / lab::MSS;
        lab.wait(ms(100));
        lab.ack(una);
    }
}

/// RFC 6582 section 3.2: the recovery point is compared on the circle of sequence numbers. The
/// flight reaches beyond where they begin anew, 30 segments from its start.
#[test]
fn rfc6582_3_2_the_recovery_point_may_lie_beyond_the_wrap() {
    let mut lab = flight(40);
    for _ in 0..3 {
        lab.ack(0);
    }
    let recover = (lab.conn.sender().nxt() - 1) / lab::MSS;
    assert!(recover >= 40);
    assert_eq!(lab.reductions(), 1);
    // Before it, at it, and beyond.
    for partial in [20, 30, 31, 35, recover - 1] {
        lab.wait(ms(10));
        assert!(segments(&lab.ack(partial)).contains(&partial), "{partial}");
        assert_eq!(state(&lab), CaState::Recovery, "{partial}");
    }
    lab.wait(ms(10));
    lab.ack(recover);
    assert_ne!(state(&lab), CaState::Recovery);
    assert_eq!(lab.reductions(), 1);
}

/// The same of step 2: after a timeout whose flight reaches beyond the wrap, duplicates of ACKs
/// before the recovery point begin no recovery.
#[test]
fn rfc6582_3_2_no_recovery_begins_before_a_recovery_point_beyond_the_wrap() {
    for duplicates_of in [29, 30, 31, 39] {
        let mut lab = flight(40);
        lab.timer();
        assert_eq!(state(&lab), CaState::Loss);
        lab.wait(ms(100));
        lab.ack(duplicates_of);
        let reductions = lab.reductions();
        for _ in 0..5 {
            lab.ack(duplicates_of);
        }
        assert_eq!(state(&lab), CaState::Loss, "{duplicates_of}");
        assert_eq!(lab.reductions(), reductions);
    }
}

/// RFC 9937 section 6.1: prr_delivered and prr_out begin at zero with each reduction. The second of
/// two lets out what the first did.
#[test]
fn rfc9937_6_1_each_reduction_begins_with_new_counters() {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(20),
        recovery: RecoverySending::Prr,
        ..textbook("sack")
    };
    let mut lab = Lab::connected(config, ms(100));
    assert_eq!(lab.write(400).len(), 20);
    let mut una = 0;
    for flight in [20, 10] {
        lab.wait(ms(100));
        assert_eq!((lab.pipe(), lab.cwnd()), (flight, flight));
        // The first of the flight is lost, the others arrive.
        let sent: Vec<usize> = (una + 2..=una + flight)
            .map(|n| segments(&lab.sack(una, &[(una + 1, n)])).len())
            .collect();
        // Limited transmit, the retransmission, and then one on every second ACK.
        let want: Vec<usize> = (0..flight as usize - 1)
            .map(|i| usize::from(i < 3 || i % 2 == 0))
            .collect();
        assert_eq!(sent, want, "{flight}");
        lab.wait(ms(100));
        // What limited transmit sent, and the hole.
        una += flight + 2;
        lab.ack(una);
        assert_eq!((lab.cwnd(), state(&lab)), (flight / 2, CaState::Open));
    }
    assert_eq!(lab.reductions(), 2);
}

/// RFC 9937 section 5: PRR, together with RACK-TLP, unless something else is configured.
#[test]
fn rfc9937_5_prr_and_rack_tlp_are_the_default() {
    let config = TcpConfig::default();
    assert_eq!(config.recovery, RecoverySending::Prr);
    let lab = Lab::new(config);
    assert_eq!(lab.conn.sender().detector().name(), "rack");
}

/// RFC 7323 section 5.4: the timestamp clock ticks once in a millisecond at most, unless something
/// else is configured.
#[test]
fn rfc7323_5_4_the_default_tick_is_a_millisecond() {
    let mut lab = Lab::new(TcpConfig::default());
    let first = lab.pump()[0].tcp.options.timestamps.unwrap().val;
    lab.wait(ms(10_000));
    let syn = lab.log.last().unwrap();
    let passed = syn.at.since(lab.log[0].at).as_millis();
    let last = syn.tcp.options.timestamps.unwrap().val;
    assert!(passed > 500);
    assert_eq!(u64::from(last.wrapping_sub(first)), passed);
    assert_eq!(TcpConfig::default().timestamps, TimestampMode::Millis);
}

/// RFC 9406 section 4.3: so that HyStart++ has its eight samples, where there are eight ACKs. What was
/// sent twice gives none (RFC 6298 section 3).
#[test]
fn rfc9406_4_3_each_ack_of_new_data_gives_a_sample() {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(20),
        ..textbook("sack")
    };
    let mut lab = Lab::connected(config, ms(100));
    let handshake = lab.conn.sender().rtt().samples();
    lab.write(20);
    lab.wait(ms(100));
    for n in 1..=19 {
        lab.ack(n);
        let taken = lab.conn.sender().rtt().samples() - handshake;
        assert_eq!(taken, n, "after the ACK of {n}");
        // A second one says nothing.
        lab.ack(n);
        assert_eq!(lab.conn.sender().rtt().samples() - handshake, n);
    }
}

/// RFC 9937 section 4: what a mark takes from the window is spread over the round trip, from its
/// first ACK on; without PRR nothing would leave for half of it.
#[test]
fn rfc9937_4_the_reduction_for_a_mark_begins_at_once() {
    let config = TcpConfig {
        ecn: EcnMode::Classic,
        initial_window: InitialWindow::Segments(20),
        ..textbook("sack")
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    lab.write(200);
    lab.wait(ms(100));
    let sent: Vec<usize> = (1..=20)
        .map(|n| {
            let flags = if n == 1 { Flags::ECE } else { Flags::NONE };
            segments(&lab.ack_now(n * lab::MSS, &[], flags)).len()
        })
        .collect();
    let halves = [&sent[..10], &sent[10..]].map(|half| half.iter().sum::<usize>());
    assert_eq!(halves, [5, 5], "{sent:?}");
}

/// RFC 9937 section 6.2: sndcnt stays what it is.
#[test]
fn rfc9937_6_2_an_ack_that_delivers_nothing_changes_nothing() {
    let segments = |n: u64| ByteCount::new(n * 1_000);
    let mss = segments(1);
    let mut prr = Prr::new(segments(20), segments(10));
    // Below ssthresh, and all is well: one segment more.
    assert_eq!(
        prr.on_ack(mss, segments(4), mss, true, RecoverySending::Prr),
        segments(2)
    );
    for pipe in [0, 4, 9, 10, 20] {
        for safe in [true, false] {
            let sndcnt = prr.on_ack(
                ByteCount::ZERO,
                segments(pipe),
                mss,
                safe,
                RecoverySending::Prr,
            );
            assert_eq!((sndcnt, prr.allowance()), (segments(2), segments(2)));
        }
    }
}

/// RFC 9937 section 6.4: whatever is in flight then, which here is nothing.
#[test]
fn rfc9937_6_4_the_end_of_a_recovery_leaves_cwnd_at_ssthresh() {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(20),
        ..textbook("sack")
    };
    let mut lab = Lab::connected(config, ms(100));
    assert_eq!(lab.write(20).len(), 20);
    lab.wait(ms(100));
    for n in 2..=20 {
        lab.sack(0, &[(1, n)]);
    }
    assert_eq!(state(&lab), CaState::Recovery);
    lab.wait(ms(100));
    lab.ack(20);
    assert_eq!((state(&lab), lab.pipe()), (CaState::Open, 0));
    assert_eq!((lab.cwnd(), lab.ssthresh()), (10, 10));
}
