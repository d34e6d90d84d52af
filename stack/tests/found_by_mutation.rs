//! Rules that could be broken without a test noticing, until each was broken on purpose
//! (docs/conformance/MUTATIONS.md).

use crate::lab::{Lab, MSS, congestion, ms, segments, stamped, textbook};
use crate::pair;
use crate::pair::bytes;
use crate::pair::lone::{Lone, ack, plain};
use narrows::config::{
    AckPolicy, Buffers, EcnMode, InitialWindow, Lifetimes, RecoverySending, SpuriousDetection,
    TcpConfig,
};
use narrows::congestion::cubic::Cubic;
use narrows::congestion::dctcp::Dctcp;
use narrows::congestion::rto::{Floor, RtoContext, RtoPolicy, StandardRto, presets};
use narrows::congestion::{
    AckSample, ByteCount, CaState, CongestionControl, CongestionEvent, FlowStart, FlowView,
    RttEstimator, Spurious,
};
use narrows::conn::icmp::IcmpPolicy;
use narrows::conn::state::{CloseReason, State};
use narrows::recovery::prr::Prr;
use narrows::wire::{Ecn, Flags};
use narrows::{Duration, Instant};

const DSACK: SpuriousDetection = SpuriousDetection {
    dsack: true,
    ..SpuriousDetection::OFF
};

fn initial_window(config: TcpConfig, segments: u32) -> TcpConfig {
    TcpConfig {
        initial_window: InitialWindow::Segments(segments),
        ..config
    }
}

fn without_sack(detector: &str) -> TcpConfig {
    TcpConfig {
        sack: false,
        ..textbook(detector)
    }
}

fn state(lab: &Lab) -> CaState {
    lab.conn.sender().ca_state()
}

/// What is in flight, and what is neither acknowledged nor SACKed, in segments.
fn flight(lab: &Lab) -> (u64, u64) {
    let snd = lab.conn.sender();
    let sacked = snd.scoreboard().sacked().get();
    (lab.pipe(), (snd.nxt() - snd.una() - sacked) / MSS)
}

// ---- What may leave.

/// An undone recovery leaves copies in flight beside the originals. Without limited transmit the
/// window holds for both: nothing new leaves before they are gone.
#[test]
fn copies_of_an_undone_recovery_are_in_flight() {
    let config = TcpConfig {
        recovery: RecoverySending::Pipe,
        limited_transmit: false,
        spurious: SpuriousDetection {
            eifel: true,
            ..SpuriousDetection::OFF
        },
        ..initial_window(stamped(textbook("rack-notlp")), 20)
    };
    // A window that does not shrink, so that all of it is sent twice.
    let config = congestion(config, "fixed");
    let mut lab = Lab::connected(config, ms(100));
    lab.write(20);
    let sent_at = lab.log[0].tcp.options.timestamps.unwrap().val;
    lab.wait(ms(100));
    lab.sack(0, &[(19, 20)]);
    lab.wait(ms(50));
    assert_eq!(lab.conn.sender_stats().retransmits, 19);
    // The original of the first arrives after all.
    lab.echo = Some(sent_at);
    lab.sack(1, &[(19, 20)]);
    assert_eq!((lab.undone(), state(&lab)), (1, CaState::Disorder));
    assert_eq!(flight(&lab), (36, 18));
    let out = lab.write(10);
    assert_eq!(segments(&out), [0; 0], "the window is full of copies");
}

/// RFC 3042 turned off, after a timeout and without SACK: duplicate ACKs of what was sent since let
/// nothing out.
#[test]
fn rfc3042_off_holds_after_a_timeout_too() {
    for (limited_transmit, new) in [(false, 0), (true, 2)] {
        let config = TcpConfig {
            limited_transmit,
            ..initial_window(without_sack("newreno"), 8)
        };
        let mut lab = Lab::connected(config, ms(100));
        lab.write(100);
        assert_eq!(segments(&lab.timer()), [0]);
        let last = (1..8).find(|n| segments(&lab.ack(*n)).iter().any(|s| *s >= 8));
        assert_eq!((last, state(&lab)), (Some(5), CaState::Loss));
        let snd = lab.conn.sender();
        let before = snd.nxt();
        lab.ack(5);
        lab.ack(5);
        let sent = (lab.conn.sender().nxt() - before) / MSS;
        assert_eq!(sent, new, "{limited_transmit}");
    }
}

/// RFC 6582 section 3.2 step 3: the segment after a partial ACK leaves whatever the window says.
#[test]
fn rfc6582_3_2_a_partial_ack_retransmits_beyond_the_window() {
    let config = TcpConfig {
        recovery: RecoverySending::Pipe,
        ..initial_window(without_sack("newreno"), 20)
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(100);
    lab.wait(ms(100));
    for _ in 0..3 {
        lab.ack(0);
    }
    assert_eq!(state(&lab), CaState::Recovery);
    let out = lab.ack(10);
    assert!(lab.pipe() >= lab.ssthresh(), "no room for it otherwise");
    assert_eq!(segments(&out), [10]);
}

/// Outside of recovery the duplicate ACKs before an advance stand for nothing once it is there.
#[test]
fn duplicate_acks_count_until_the_next_advance() {
    let config = initial_window(without_sack("newreno"), 10);
    let mut lab = Lab::connected(config, ms(100));
    lab.write(10);
    lab.wait(ms(100));
    lab.ack(0);
    lab.ack(0);
    assert_eq!(lab.conn.sender().scoreboard().reno_sacked(), 2);
    lab.ack(1);
    assert_eq!(state(&lab), CaState::Open);
    let (pipe, outstanding) = flight(&lab);
    assert_eq!((pipe, outstanding), (9, 9));
}

#[test]
fn no_more_is_outstanding_than_there_are_records() {
    let config = TcpConfig {
        buffers: Buffers {
            max_outstanding_segments: 4,
            ..initial_window(textbook("sack"), 10).buffers
        },
        ..initial_window(textbook("sack"), 10)
    };
    let mut lab = Lab::connected(config, ms(100));
    assert_eq!(segments(&lab.write(10)), [0, 1, 2, 3]);
    lab.wait(ms(100));
    assert_eq!(segments(&lab.ack(1)), [4]);
}

/// In slow start a window used by more than half grows (it could not have been full yet), another
/// does not (RFC 7661 section 4.1 and Linux).
#[test]
fn slow_start_needs_more_than_half_a_window() {
    for (sent, grown) in [(5, false), (6, true)] {
        let mut lab = Lab::connected(initial_window(textbook("sack"), 10), ms(100));
        lab.write(sent);
        lab.wait(ms(100));
        lab.ack(sent);
        assert_eq!(lab.cwnd() > 10, grown, "{sent}");
    }
}

// ---- Undoing.

/// RFC 2883 section 4: a D-SACK of what is above SND.UNA is told by the block around it.
#[test]
fn rfc2883_4_a_duplicate_above_snd_una_is_no_sack() {
    let config = TcpConfig {
        spurious: DSACK,
        ..initial_window(textbook("sack"), 10)
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(100);
    lab.wait(ms(100));
    // 0 and 4 are found lost.
    lab.sack(0, &[(1, 4)]);
    for n in 6..=10 {
        lab.sack(0, &[(5, n), (1, 4)]);
    }
    assert_eq!(lab.conn.sender_stats().retransmits, 2);
    // Both originals arrive, then both copies: 4's while 0 is missing yet.
    lab.sack(0, &[(1, 10)]);
    lab.sack(0, &[(4, 5), (1, 10)]);
    lab.ack(10);
    assert_eq!(lab.undone(), 0);
    lab.sack(10, &[(0, 1)]);
    assert_eq!(lab.undone(), 1);
}

/// A D-SACK of what was acknowledged more than a window ago is no evidence.
#[test]
fn a_dsack_from_before_the_window_undoes_nothing() {
    for (until, undone) in [(64, 1), (80, 0)] {
        let config = TcpConfig {
            spurious: DSACK,
            ..initial_window(textbook("sack"), 64)
        };
        let mut lab = Lab::new(config);
        lab.window = 64 << 10;
        lab.pump();
        lab.wait(ms(100));
        lab.syn_ack(Flags::NONE);
        lab.write(300);
        lab.wait(ms(100));
        for n in 2..=4 {
            lab.sack(0, &[(1, n)]);
        }
        lab.ack(64);
        lab.wait(ms(10));
        lab.ack(until);
        assert!(
            lab.conn.sender().nxt() > 90 * MSS,
            "{}",
            lab.conn.sender().nxt()
        );
        lab.sack(until, &[(0, 1)]);
        assert_eq!(lab.undone(), undone, "{until}");
    }
}

/// A mark cannot be spurious: D-SACKs for what an earlier loss had retransmitted do not take back
/// what was done for it.
#[test]
fn a_dsack_does_not_end_a_reduction_for_a_mark() {
    let config = TcpConfig {
        ecn: EcnMode::Classic,
        spurious: DSACK,
        ..initial_window(textbook("sack"), 10)
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    lab.write(100);
    lab.wait(ms(100));
    for n in 2..=4 {
        lab.sack(0, &[(1, n)]);
    }
    lab.wait(ms(5));
    lab.ack(10);
    lab.wait(ms(90));
    lab.ack(12);
    assert_eq!(state(&lab), CaState::Open);
    assert!(lab.conn.sender().nxt() > 14 * MSS, "D-SACKs may still come");
    lab.ack_now(13 * MSS, &[], Flags::ECE);
    assert_eq!((state(&lab), lab.reductions()), (CaState::Cwr, 2));
    lab.sack(13, &[(0, 1)]);
    assert_eq!((state(&lab), lab.undone()), (CaState::Cwr, 0));
}

/// RFC 5682 section 2.1 step 1: a second timeout before the first is settled is no new beginning.
#[test]
fn rfc5682_2_1_a_second_timeout_of_an_episode_is_not_judged() {
    let config = TcpConfig {
        spurious: SpuriousDetection {
            frto: true,
            ..SpuriousDetection::OFF
        },
        ..initial_window(textbook("sack"), 10)
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(60);
    assert_eq!(segments(&lab.timer()), [0]);
    assert_eq!(segments(&lab.ack(1)), [10, 11], "new data first");
    assert_eq!(segments(&lab.timer()), [1]);
    assert_eq!(segments(&lab.ack(2)), [2, 3]);
}

/// The same: nor is one that strikes when a retransmission was lost.
#[test]
fn rfc5682_2_1_the_timeout_of_a_retransmission_is_not_judged() {
    let config = TcpConfig {
        spurious: SpuriousDetection {
            frto: true,
            ..SpuriousDetection::OFF
        },
        ..initial_window(textbook("sack"), 10)
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(100);
    lab.wait(ms(100));
    for n in 2..=4 {
        lab.sack(0, &[(1, n)]);
    }
    assert_eq!(
        (state(&lab), lab.conn.sender_stats().retransmits),
        (CaState::Recovery, 1)
    );
    assert_eq!(segments(&lab.timer()), [0]);
    let out = segments(&lab.ack(4));
    assert_eq!(
        out.first(),
        Some(&4),
        "what counts as lost goes first: {out:?}"
    );
}

// ---- Tail-loss probes.

/// RFC 8985 section 7.4.2: a loss that the probe repaired while others were found is not answered
/// once more.
#[test]
fn rfc8985_7_4_2_a_probe_in_a_recovery_adds_no_cut() {
    let mut lab = Lab::connected(initial_window(textbook("rack"), 10), ms(100));
    lab.write(6);
    lab.wait(ms(100));
    lab.ack(1);
    assert_eq!(segments(&lab.timer()), [5], "the probe");
    lab.wait(ms(100));
    lab.sack(1, &[(2, 6)]);
    lab.wait(ms(50));
    assert_eq!((state(&lab), lab.reductions()), (CaState::Recovery, 1));
    lab.write(4);
    lab.wait(ms(100));
    lab.ack(7);
    assert_eq!(lab.reductions(), 1);
}

/// RFC 8985 section 7.2: no probe while the timeout is backed off, as long as no RTT has been
/// measured since.
#[test]
fn rfc8985_7_2_no_probe_after_a_timeout_without_a_sample() {
    let mut lab = Lab::connected(initial_window(textbook("rack"), 10), ms(100));
    lab.write(1);
    assert!(lab.conn.sender().pto_deadline().is_some());
    while lab.timeouts().is_empty() {
        lab.timer();
    }
    lab.ack(1);
    assert_eq!(state(&lab), CaState::Open);
    lab.write(1);
    assert_eq!(lab.conn.sender().pto_deadline(), None);
    lab.wait(ms(100));
    lab.ack(2);
    lab.write(1);
    assert!(lab.conn.sender().pto_deadline().is_some());
}

/// RFC 8985 section 7.2: not later than the retransmission timeout, which needs no probe.
#[test]
fn rfc8985_7_2_no_probe_later_than_the_timeout() {
    let mut lab = Lab::connected(initial_window(textbook("rack"), 10), ms(2_000));
    for n in 1..=30 {
        lab.write(1);
        lab.wait(ms(2_000));
        lab.ack(n);
    }
    lab.write(2);
    let snd = lab.conn.sender();
    assert!(snd.current_rto() < snd.rtt().srtt().unwrap() * 2);
    assert_eq!(snd.pto_deadline(), None);
}

// ---- Marks at a window of one segment.

/// A window of one segment whose ACK was marked: the next segment waits.
fn held() -> Lab {
    let config = TcpConfig {
        ecn: EcnMode::Classic,
        ..initial_window(textbook("sack"), 1)
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    lab.write(10);
    let rto = lab.conn.sender().rto_deadline().unwrap();
    lab.wait(rto.since(lab.now).saturating_sub(ms(10)));
    lab.ack_now(0, &[], Flags::ECE);
    lab
}

/// RFC 3168 section 6.1.2: the hold is one timeout, and a timeout is that.
#[test]
fn rfc3168_6_1_2_a_timeout_ends_the_hold() {
    let mut lab = held();
    assert_eq!(segments(&lab.timer()), [0]);
    lab.wait(ms(100));
    assert_eq!(segments(&lab.ack(1)).first(), Some(&1));
}

/// What is known to be lost does not wait.
#[test]
fn rfc3168_6_1_2_the_hold_is_for_new_data() {
    let mut lab = held();
    lab.conn.handle_path_mtu(lab.now, 540);
    let out = lab.pump();
    assert!(
        !out.is_empty() && out[0].offset == 0 && out[0].len == 500,
        "{out:?}"
    );
}

// ---- Time.

/// RFC 9293 section 3.8.3: R2 is reached when its time has passed, to the nanosecond.
#[test]
fn r2_is_reached_with_its_last_nanosecond() {
    for (less, closed) in [(0, true), (1, false)] {
        let config = TcpConfig {
            lifetimes: Lifetimes {
                data_retries: 2,
                data_retry_time: Duration::from_secs(6) + Duration::from_nanos(less),
                ..textbook("sack").lifetimes
            },
            ..textbook("sack")
        };
        let mut lab = Lab::connected(config, ms(100));
        lab.write(1);
        let mut last = lab.now;
        // After 1 s, 2 s and 4 s.
        for wait in [1, 2, 4] {
            lab.timer();
            assert_eq!(lab.now.since(last), Duration::from_secs(wait));
            last = lab.now;
        }
        let state = lab.conn.state();
        let over = state == State::Closed(CloseReason::TimedOut);
        assert_eq!(over, closed, "{state:?}");
    }
}

/// RFC 1191 section 6.3: a larger size is tried when the time is over, to the nanosecond.
#[test]
fn rfc1191_6_3_the_path_mtu_ages_to_the_nanosecond() {
    const AGE: Duration = Duration::from_secs(600);
    for (early, mss) in [(0, 1_000), (1, 500)] {
        let icmp = IcmpPolicy {
            raise_path_mtu: Some(AGE),
            ..IcmpPolicy::default()
        };
        let mut l = Lone::established(TcpConfig { icmp, ..plain() });
        let out = l.send(&bytes(1_000));
        let since = l.now;
        let error = narrows::wire::IcmpError {
            kind: narrows::wire::IcmpErrorKind::PacketTooBig { mtu: 540 },
            segment: narrows::wire::QuotedSegment {
                src: pair::opening(true, 0).local,
                dst: pair::opening(true, 0).remote,
                seq: out[0].tcp.seq,
            },
        };
        l.conn.handle_icmp(l.now, &error);
        l.settle();
        l.recv(ack(0, 1_000));
        l.now = since + AGE - Duration::from_nanos(early);
        l.send(b"x");
        l.recv(ack(0, 1_001));
        assert_eq!(l.conn.sender().mss().get(), mss, "{early}");
    }
}

// ---- The peer's window.

/// RFC 9293 section 3.8.6.1: only a segment beyond the window is refused by it. One that ends at
/// its edge times out like any other.
#[test]
fn a_segment_up_to_the_edge_of_the_window_fits() {
    let mut l = Lone::established(plain());
    l.recv(ack(0, 0).win(1_000));
    assert_eq!(l.send(&bytes(1_000)).len(), 1);
    l.next_timer();
    assert_eq!(l.conn.sender_stats().timeouts, 1);
}

/// RFC 9293 section 3.8.6.2.1: the override timer runs from when data began to wait for a larger
/// window, whatever else the peer has to say meanwhile.
#[test]
fn acks_do_not_put_off_the_override_timer() {
    let mut l = Lone::established(plain());
    l.recv(ack(0, 0).win(300));
    assert!(l.send(&bytes(1_000)).is_empty());
    let at = l.conn.poll_timeout().unwrap();
    l.now = l.now + Duration::from_millis(10);
    assert!(l.recv(ack(0, 0).win(310)).is_empty());
    assert_eq!(l.conn.poll_timeout(), Some(at));
    l.now = at;
    assert_eq!(l.settle()[0].data.len(), 310);
}

// ---- The pieces of recovery on their own.

/// RFC 9937 section 6.2: below ssthresh as much may leave as this ACK delivered, also where more
/// has left than was delivered before.
#[test]
fn rfc9937_6_2_an_ack_is_worth_what_it_delivers() {
    let bytes = |n: u64| ByteCount::new(n * 1_000);
    let (mss, pipe) = (bytes(1), bytes(3));
    let mut prr = Prr::new(bytes(20), bytes(10));
    for _ in 0..3 {
        // A segment more than was delivered, each time.
        assert_eq!(
            prr.on_ack(bytes(1), pipe, mss, true, RecoverySending::Prr),
            bytes(2)
        );
        prr.on_sent(bytes(2));
    }
    assert_eq!(
        prr.on_ack(bytes(2), pipe, mss, false, RecoverySending::Prr),
        bytes(2)
    );
}

/// RFC 3522 section 3.2: when the recovery is over, an old echo is that of an ACK that was late.
#[test]
fn rfc3522_3_2_an_old_echo_after_the_recovery_undoes_nothing() {
    let config = TcpConfig {
        spurious: SpuriousDetection {
            eifel: true,
            ..SpuriousDetection::OFF
        },
        ..initial_window(stamped(textbook("sack")), 10)
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(100);
    let old = lab.log[0].tcp.options.timestamps.unwrap().val;
    lab.wait(ms(100));
    for n in 2..=4 {
        lab.sack(0, &[(1, n)]);
    }
    lab.wait(ms(10));
    lab.ack(12);
    assert_eq!(state(&lab), CaState::Open);
    lab.wait(ms(10));
    lab.echo = Some(old);
    lab.ack(13);
    assert_eq!(lab.undone(), 0);
}

/// RFC 1191 section 6.4: what the peer has need not leave again, however large it was.
#[test]
fn rfc1191_6_4_sacked_segments_do_not_leave_again() {
    let mut lab = Lab::connected(initial_window(textbook("sack"), 10), ms(100));
    lab.write(4);
    lab.wait(ms(100));
    lab.sack(0, &[(2, 3)]);
    lab.conn.handle_path_mtu(lab.now, 540);
    let mut again = lab.pump();
    again.retain(|o| o.len > 0);
    assert!(again.iter().all(|o| o.segment() != 2), "{again:?}");
    assert_eq!(again.iter().map(|o| o.len).sum::<u64>(), 3 * MSS);
}

/// RFC 6298 section 5.7: after lost SYNs data begins with three seconds, however far the SYN's
/// timeout had been backed off.
#[test]
fn rfc6298_5_7_the_backoff_of_the_syn_ends_with_it() {
    let mut lab = Lab::new(textbook("sack"));
    lab.pump();
    for _ in 0..4 {
        assert!(lab.timer()[0].has(Flags::SYN));
    }
    lab.wait(ms(100));
    lab.syn_ack(Flags::NONE);
    lab.write(1);
    let rto = lab.conn.sender().rto_deadline().unwrap().since(lab.now);
    assert_eq!(rto, Duration::from_secs(3));
}

// ---- The receiver.

/// RFC 5681 section 4.2: a sender that recovers is not kept waiting, where quick ACKs are on.
#[test]
fn disorder_brings_the_quick_acks_back() {
    let ack = AckPolicy {
        delay: ms(40),
        every: 2,
        quick_acks: 3,
    };
    let mut lab = Lab::connected(
        TcpConfig {
            ack,
            ..textbook("sack")
        },
        ms(100),
    );
    let feed = |lab: &mut Lab, n: u64| lab.data(n * MSS, 1_000, Ecn::NotEct, Flags::NONE).len();
    let first: Vec<_> = (0..6).map(|n| feed(&mut lab, n)).collect();
    assert_eq!(first, [1, 1, 1, 0, 1, 0]);
    assert_eq!(feed(&mut lab, 7), 1, "a gap");
    assert_eq!(feed(&mut lab, 6), 1, "is filled");
    let then: Vec<_> = (8..12).map(|n| feed(&mut lab, n)).collect();
    assert_eq!(then[..3], [1, 1, 1]);
}

/// RFC 8257 section 3.2: where nothing is left to acknowledge, a change of the mark is told by one
/// ACK.
#[test]
fn rfc8257_3_2_no_ack_of_the_past_for_nothing() {
    let config = TcpConfig {
        ecn: EcnMode::Dctcp,
        ..textbook("sack")
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    assert_eq!(lab.data(0, 1_000, Ecn::Ect0, Flags::NONE).len(), 1);
    // Two in one go: one twice, which asks for an ACK and brings nothing, then a marked one.
    let mut tcp = lab.log.last().unwrap().tcp.clone();
    std::mem::swap(&mut tcp.src_port, &mut tcp.dst_port);
    let (seq, ack) = (tcp.ack, tcp.seq);
    (tcp.seq, tcp.ack) = (seq - 1_000, ack);
    lab.conn
        .handle_segment(lab.now, Ecn::Ect0, &tcp, &[3; 1_000]);
    tcp.seq = seq;
    lab.conn.handle_segment(lab.now, Ecn::Ce, &tcp, &[3; 1_000]);
    let out: Vec<_> = lab
        .pump()
        .iter()
        .map(|o| (Lab::acked(o), o.has(Flags::ECE)))
        .collect();
    assert_eq!(out, [(2_000, true)]);
}

// ---- What is remembered.

/// RFC 9438 section 4.9: what an unfounded reduction took is given back, and its time is not counted
/// to the epoch.
#[test]
fn rfc9438_4_9_time_in_an_unfounded_reduction_stands_still() {
    let mss = ByteCount::new(1_000);
    let window_after = |pause: Duration| {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(ms(100), Instant::ZERO);
        let mut cc = Cubic::new(&FlowStart::new(mss, mss * 100));
        let mut now = Instant::ZERO;
        let mut ack = AckSample::default();
        (ack.acked, ack.delivered) = (mss, mss);
        let lost = |cc: &mut Cubic, now| {
            let mut flow = FlowView::new(now, mss, &rtt);
            flow.flight_size = cc.cwnd();
            cc.on_congestion_event(CongestionEvent::Loss, &flow);
        };
        let grow = |cc: &mut Cubic, now: &mut Instant| {
            for _ in 0..1_000 {
                *now = *now + ms(1);
                let mut flow = FlowView::new(*now, mss, &rtt);
                (flow.in_flight, flow.cwnd_limited) = (cc.cwnd(), true);
                cc.on_ack(&ack, &flow);
            }
        };
        lost(&mut cc, now);
        grow(&mut cc, &mut now);
        let before = cc.cwnd();
        lost(&mut cc, now);
        now = now + pause;
        cc.on_spurious(Spurious::FastRetransmit, &FlowView::new(now, mss, &rtt));
        assert_eq!(cc.cwnd(), before);
        grow(&mut cc, &mut now);
        cc.cwnd()
    };
    assert_eq!(window_after(ms(1)), window_after(Duration::from_secs(30)));
}

/// The smallest round-trip time is as old as the last sample that was as small.
#[test]
fn an_equal_sample_renews_the_smallest_rtt() {
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    let mut rtt = RttEstimator::new();
    for (sample, now, min_at) in [(10, 1, 1), (10, 2, 2), (11, 3, 2), (9, 4, 4)] {
        rtt.on_sample(ms(sample), at(now));
        assert_eq!(rtt.min_at(), at(min_at));
    }
}

/// The allowance for the peer's delayed ACK goes with a measured round trip.
#[test]
fn there_is_no_slop_before_the_first_sample() {
    let policy = StandardRto {
        floor: Floor::Slop {
            min: ms(30),
            slop: ms(200),
        },
        ..presets::rfc6298()
    };
    let mut rtt = RttEstimator::new();
    let first = policy.rto(&rtt, &RtoContext::new(0, 0));
    assert_eq!(first, policy.initial);
    rtt.on_sample(ms(10), Instant::ZERO);
    let then = policy.rto(&rtt, &RtoContext::new(0, 0));
    assert!(then >= ms(230) && then < ms(300), "{then:?}");
}

/// RFC 5681 section 3.1: its bounds are segments of 1,095 and 2,190 bytes, and these belong to the
/// smaller ones.
#[test]
fn rfc5681_3_1_the_initial_window_changes_at_the_byte() {
    for (mss, segments) in [(1_095, 4), (1_096, 3), (2_190, 3), (2_191, 2)] {
        let mss = ByteCount::new(mss);
        assert_eq!(InitialWindow::Rfc5681.bytes(mss), mss * segments);
    }
}

fn congested(cc: &mut impl CongestionControl, event: CongestionEvent, mss: ByteCount) {
    let rtt = RttEstimator::new();
    let mut flow = FlowView::new(Instant::ZERO, mss, &rtt);
    flow.flight_size = cc.cwnd();
    cc.on_congestion_event(event, &flow);
}

/// RFC 9438 section 4.7: who is as large as before gives nothing up for newcomers.
#[test]
fn rfc9438_4_7_the_same_window_again_is_no_smaller_one() {
    let mss = ByteCount::new(1_000);
    let mut cc = Cubic::new(&FlowStart::new(mss, mss * 2));
    for _ in 0..3 {
        congested(&mut cc, CongestionEvent::Loss, mss);
        assert_eq!((cc.cwnd(), cc.w_max()), (mss * 2, Some(mss * 2)));
    }
}

/// RFC 9438 section 4.2: however far ahead the curve is, the target is half a window more: an ACK
/// adds half of what it acknowledges.
#[test]
fn rfc9438_4_2_the_target_is_half_a_window_ahead_at_most() {
    let mss = ByteCount::new(1_000);
    let mut cc = Cubic::new(&FlowStart::new(mss, mss * 100));
    congested(&mut cc, CongestionEvent::Loss, mss);
    let mut rtt = RttEstimator::new();
    rtt.on_sample(Duration::from_secs(60), Instant::ZERO);
    let mut ack = AckSample::default();
    (ack.acked, ack.delivered) = (mss, mss);
    // The first begins the epoch.
    for (at, grown) in [(0, 7), (1, 500), (2, 500), (20, 500)] {
        let now = Instant::ZERO + Duration::from_secs(at);
        let mut flow = FlowView::new(now, mss, &rtt);
        (flow.in_flight, flow.cwnd_limited) = (cc.cwnd(), true);
        let before = cc.cwnd();
        cc.on_ack(&ack, &flow);
        assert_eq!((cc.cwnd() - before).get(), grown, "{at} s");
    }
}

/// A mark is never unfounded: what DCTCP takes for one is not given back.
#[test]
fn a_cut_of_dctcp_stays() {
    let mss = ByteCount::new(1_000);
    let mut cc = Dctcp::new(&FlowStart::new(mss, mss * 100));
    congested(&mut cc, CongestionEvent::EcnEcho, mss);
    let rtt = RttEstimator::new();
    let flow = FlowView::new(Instant::ZERO, mss, &rtt);
    cc.on_spurious(Spurious::FastRetransmit, &flow);
    assert_eq!(cc.cwnd(), mss * 50);
}
