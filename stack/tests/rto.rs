//! Managing the retransmission timer (RFC 6298 section 5), and why it fired.

use crate::lab::{Lab, MSS, ms, rto, segments, stamped, textbook, us};
use narrows::config::{AckPolicy, IdleRestart, InitialWindow, Lifetimes, TcpConfig};
use narrows::recovery::AbsSeq;
use narrows::recovery::detector::{AckFacts, LossDetector};
use narrows::recovery::dup_thresh::Sack6675;
use narrows::recovery::scoreboard::Scoreboard;
use narrows::trace::{TimeoutCause, TraceEvent};
use narrows::wire::Flags;
use narrows::{Duration, Instant};
use proptest::prelude::*;
use std::sync::Arc;

fn lab() -> Lab {
    Lab::connected(textbook("sack"), ms(100))
}

fn deadline(lab: &Lab) -> Option<Duration> {
    lab.conn.sender().rto_deadline().map(|at| at.since(lab.now))
}

#[test]
fn rfc6298_2_first_sample_and_floor() {
    // RTO = SRTT + 4 RTTVAR = 100 + 4 * 50 ms, below the floor of 1 s.
    assert_eq!(lab().conn.sender().current_rto(), Duration::from_secs(1));
    let fine = Lab::connected(rto(textbook("sack"), "fine"), ms(100));
    assert_eq!(fine.conn.sender().current_rto(), ms(300));
}

#[test]
fn rfc6298_5_1_sending_starts_the_timer_only_if_it_is_not_running() {
    let mut lab = lab();
    assert_eq!(deadline(&lab), None);
    lab.write(1);
    assert_eq!(deadline(&lab), Some(ms(1_000)));
    lab.wait(ms(300));
    lab.write(1);
    assert_eq!(deadline(&lab), Some(ms(700)));
}

#[test]
fn rfc6298_5_2_acknowledging_everything_stops_the_timer() {
    let mut lab = lab();
    lab.write(2);
    lab.wait(ms(100));
    lab.ack(2);
    assert_eq!(deadline(&lab), None);
}

#[test]
fn rfc6298_5_3_new_acknowledgement_restarts_the_timer() {
    let mut lab = lab();
    lab.write(3);
    lab.wait(ms(400));
    lab.ack(1);
    let rto = lab.conn.sender().current_rto();
    assert_eq!(deadline(&lab), Some(rto));
    // A duplicate does not.
    lab.wait(ms(50));
    lab.ack(1);
    assert_eq!(deadline(&lab), Some(rto.saturating_sub(ms(50))));
}

/// Section 5: no segment leaves again less than an RTO after it last left. The timer of a fast
/// retransmission that is lost counts from there, and not from the last ACK that advanced.
#[test]
fn rfc6298_5_no_timeout_sooner_than_an_rto_after_a_fast_retransmission() {
    for detector in ["reno", "newreno", "sack", "rack-notlp"] {
        let config = TcpConfig {
            initial_window: InitialWindow::Segments(10),
            ..textbook(detector)
        };
        let mut lab = Lab::connected(config, ms(100));
        lab.write(10);
        lab.wait(ms(700));
        for n in 2..=4 {
            lab.sack(0, &[(1, n)]);
        }
        let again = lab.log.last().unwrap();
        assert_eq!((again.segment(), again.at), (0, lab.now), "{detector}");
        let rto = lab.conn.sender().current_rto();
        assert_eq!(deadline(&lab), Some(rto), "{detector}");
        // What else leaves again does not move it.
        lab.wait(ms(50));
        lab.sack(0, &[(1, 7)]);
        assert_eq!(deadline(&lab), Some(rto - ms(50)), "{detector}");
    }
}

/// What the device refuses never left: however often it is tried, it postpones no timeout.
#[test]
fn rfc6298_5_refused_retransmissions_do_not_restart_the_timer() {
    let mut lab = Lab::connected(textbook("sack"), ms(100));
    lab.write(2);
    let mut refused = lab.timer();
    for _ in 0..20_000 {
        for o in &refused {
            let len = o.len as usize;
            lab.conn.handle_local_drop(lab.now, &o.tcp, len);
        }
        refused = lab.wait(ms(10));
        refused.extend(lab.pump());
    }
    // 1, 2, 4 ... 64 seconds, and 60 from then on.
    assert_eq!(lab.timeouts().len(), 8);
}

/// ... unless the loss detector says that it runs on.
#[test]
fn a_detector_may_leave_the_timer_alone() {
    #[derive(Debug)]
    struct RunsOn(Sack6675);
    impl LossDetector for RunsOn {
        fn name(&self) -> &'static str {
            "runs-on"
        }
        fn on_ack(&mut self, facts: &AckFacts<'_>, board: &mut Scoreboard) {
            self.0.on_ack(facts, board);
        }
        fn timer_runs_on(&self) -> bool {
            true
        }
    }
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(10),
        detector: Arc::new(|| RunsOn(Sack6675::new())),
        ..textbook("sack")
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(10);
    lab.wait(ms(700));
    let before = deadline(&lab);
    for n in 2..=4 {
        lab.sack(0, &[(1, n)]);
    }
    assert_eq!(segments(&lab.log)[10..], [0]);
    assert_eq!(deadline(&lab), before);
    assert_eq!(segments(&lab.timer()), [0]);
}

#[test]
fn rfc6298_5_4_5_5_5_6_timeout_resends_the_first_doubles_and_restarts() {
    let mut lab = lab();
    lab.write(4);
    let first = lab.now;
    for n in 1..=6u64 {
        let out = lab.timer();
        assert_eq!(segments(&out), [0], "timeout {n}");
        assert_eq!(lab.now.since(first), Duration::from_secs((1 << n) - 1));
        assert_eq!(
            deadline(&lab),
            Some(Duration::from_secs((1u64 << n).min(60)))
        );
        assert_eq!(lab.cwnd(), 1);
    }
    lab.timer();
    assert_eq!(
        deadline(&lab),
        Some(Duration::from_secs(60)),
        "rule 2.5: the cap"
    );
}

#[test]
fn rfc6298_3_karn_no_sample_and_no_reset_from_a_retransmitted_segment() {
    let mut lab = lab();
    lab.write(1);
    lab.timer();
    lab.wait(ms(10));
    lab.ack(1);
    let rtt = lab.conn.sender().rtt();
    assert_eq!((rtt.samples(), rtt.srtt()), (1, Some(ms(100))));
    assert_eq!(
        lab.conn.sender().current_rto(),
        Duration::from_secs(2),
        "the backoff stays"
    );
    // Rule 5.7's companion: a fresh sample ends it.
    lab.write(1);
    lab.wait(ms(100));
    lab.ack(2);
    assert_eq!(lab.conn.sender().rtt().samples(), 2);
    assert_eq!(lab.conn.sender().current_rto(), Duration::from_secs(1));
}

#[test]
fn rfc6298_3_data_behind_a_repaired_hole_gives_no_sample() {
    for detector in ["newreno", "sack"] {
        let mut lab = Lab::connected(textbook(detector), ms(100));
        lab.write(5);
        lab.wait(ms(100));
        // Segment 0 is lost; the duplicates carry no SACK, as if the peer had none.
        for _ in 0..4 {
            lab.ack(0);
        }
        lab.wait(ms(400));
        if detector == "sack" {
            lab.wait(ms(1_000));
        }
        lab.ack(5);
        assert_eq!(
            lab.conn.sender().rtt().samples(),
            1,
            "{detector}: 1 to 4 waited for 0"
        );
    }
}

#[test]
fn rfc7323_4_timestamps_give_samples_of_retransmitted_segments() {
    let mut lab = Lab::connected(stamped(textbook("sack")), ms(100));
    lab.write(1);
    lab.timer();
    lab.wait(ms(100));
    lab.ack(1);
    assert_eq!(lab.conn.sender().rtt().samples(), 2);
    assert_eq!(lab.conn.sender().current_rto(), Duration::from_secs(1));
}

#[test]
fn rfc6298_5_7_three_seconds_after_a_lost_syn_until_the_first_sample() {
    let mut lab = Lab::new(textbook("sack"));
    lab.pump();
    let syn = lab.timer();
    assert!(syn[0].has(Flags::SYN));
    assert_eq!(lab.timeouts(), [TimeoutCause::Handshake]);
    lab.wait(ms(100));
    lab.syn_ack(Flags::NONE);
    lab.write(1);
    assert_eq!(deadline(&lab), Some(Duration::from_secs(3)));
    assert_eq!(
        lab.cwnd(),
        1,
        "RFC 5681 section 3.1: the initial window after a lost SYN"
    );
    lab.wait(ms(100));
    lab.ack(1);
    lab.write(1);
    assert_eq!(deadline(&lab), Some(Duration::from_secs(1)));
}

#[test]
fn handshake_timeouts_double() {
    let mut lab = Lab::new(textbook("sack"));
    lab.pump();
    let begin = lab.now;
    for n in 1..=4 {
        lab.timer();
        assert_eq!(lab.now.since(begin), Duration::from_secs((1 << n) - 1));
    }
}

#[test]
fn timer_tick_rounds_deadlines_up() {
    let config = TcpConfig {
        timer_tick: ms(10),
        ..rto(textbook("sack"), "fine")
    };
    let mut lab = Lab::connected(config, us(200));
    lab.write(1);
    let exact = lab.conn.sender().rto_deadline().unwrap();
    assert!(exact.since(lab.now) < ms(1), "SRTT + 4 RTTVAR = 600 us");
    assert_eq!(lab.conn.poll_timeout(), Some(exact.round_up(ms(10))));
    assert_ne!(exact, exact.round_up(ms(10)));
    assert!(
        lab.wait(exact.since(lab.now)).is_empty(),
        "not before the tick"
    );
    assert_eq!(segments(&lab.timer()), [0]);
}

#[test]
fn cause_full_window() {
    let mut lab = lab();
    lab.write(10);
    lab.timer();
    assert_eq!(lab.timeouts(), [TimeoutCause::FullWindow]);
    assert_eq!(lab.conn.sender_stats().timeouts_full_window, 1);
}

#[test]
fn cause_full_window_when_the_window_is_small_and_full() {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(2),
        ..textbook("sack")
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(10);
    lab.timer();
    assert_eq!(lab.timeouts(), [TimeoutCause::FullWindow]);
}

#[test]
fn cause_tail() {
    let mut lab = lab();
    lab.write(10);
    lab.wait(ms(100));
    lab.ack(8);
    lab.timer();
    assert_eq!(lab.timeouts(), [TimeoutCause::Tail]);
    assert_eq!(lab.conn.sender_stats().timeouts_tail, 1);
}

#[test]
fn cause_retransmission_lost() {
    let mut lab = lab();
    lab.write(10);
    lab.wait(ms(100));
    for n in 2..=9 {
        lab.sack(0, &[(1, n)]);
    }
    assert_eq!(segments(&lab.log).iter().filter(|s| **s == 0).count(), 2);
    let out = lab.timer();
    assert_eq!(segments(&out), [0]);
    assert_eq!(lab.timeouts(), [TimeoutCause::RetransmissionLost]);
    lab.timer();
    assert_eq!(lab.conn.sender_stats().timeouts_retransmission, 2);
}

#[test]
fn cause_zero_window_is_traced_and_no_congestion() {
    let config = TcpConfig {
        idle_restart: IdleRestart::Keep,
        ..textbook("sack")
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(10);
    lab.wait(ms(100));
    lab.window = 0;
    lab.ack(10);
    let cwnd = lab.cwnd();
    lab.write(5);
    let probe = lab.timer();
    assert_eq!(
        (probe.len(), probe[0].len),
        (1, 1),
        "RFC 9293 section 3.8.6.1: one octet"
    );
    let gap = [lab.timer(), lab.timer(), lab.timer()].map(|out| out[0].at);
    assert_eq!(
        gap[2].since(gap[1]),
        gap[1].since(gap[0]) * 2,
        "probes back off"
    );
    assert_eq!(lab.timeouts(), [TimeoutCause::ZeroWindow; 3]);
    assert_eq!((lab.cwnd(), lab.conn.sender_stats().timeouts), (cwnd, 0));
    lab.window = 100_000;
    lab.ack(10);
    assert!(lab.log.iter().map(|o| o.offset + o.len).max() >= Some(14 * MSS));
}

#[test]
fn rfc5681_3_1_timeouts_lower_ssthresh_once_and_restart_from_one_segment() {
    let mut lab = lab();
    lab.write(40);
    lab.timer();
    assert_eq!(
        (lab.cwnd(), lab.ssthresh()),
        (1, 5),
        "half of the flight of 10"
    );
    lab.timer();
    assert_eq!((lab.cwnd(), lab.ssthresh()), (1, 5));
    // Slow start from the loss window, the lost segments first.
    lab.wait(ms(100));
    assert_eq!(segments(&lab.ack(1)), [1, 2]);
    lab.wait(ms(100));
    lab.ack(2);
    assert_eq!(segments(&lab.ack(3)), [5, 6]);
}

#[test]
fn no_timeout_while_acknowledgements_flow() {
    let mut lab = lab();
    lab.write(900);
    for n in 1..=900 {
        // Each comes when the timer has almost run out.
        lab.wait(ms(900));
        lab.ack(n);
    }
    assert_eq!(lab.timeouts(), []);
    assert_eq!(lab.conn.sender_stats().retransmits, 0);
}

#[test]
fn a_timeout_is_traced_with_its_facts() {
    let mut lab = lab();
    lab.write(3);
    lab.timer();
    lab.timer();
    let timeouts: Vec<_> = lab
        .events()
        .into_iter()
        .filter_map(|e| match e {
            TraceEvent::Timeout {
                rto,
                consecutive,
                flight_size,
                ..
            } => Some((rto, consecutive, flight_size.get())),
            _ => None,
        })
        .collect();
    assert_eq!(timeouts, [(ms(1_000), 1, 3 * MSS), (ms(2_000), 2, 3 * MSS)]);
}

#[test]
fn r2_gives_up_after_the_configured_retries() {
    let config = TcpConfig {
        lifetimes: Lifetimes {
            data_retries: 3,
            data_retry_time: Duration::ZERO,
            ..textbook("sack").lifetimes
        },
        ..textbook("sack")
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(1);
    lab.wait(Duration::from_secs(3_600));
    assert_eq!(lab.log.iter().filter(|o| o.len > 0).count(), 1 + 3);
    assert_eq!(lab.conn.poll_timeout(), None);
}

/// One thing that happens to a sender.
#[derive(Clone, Debug)]
enum Step {
    Write(u64),
    Wait(u64),
    /// Acknowledge this share of what is outstanding, in percent.
    Ack(u64),
    /// SACK from one share of what is outstanding to another.
    Sack(u64, u64),
    Duplicate,
    Window(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1u64..20).prop_map(Step::Write),
        (0u64..3_000).prop_map(Step::Wait),
        (1u64..101).prop_map(Step::Ack),
        (0u64..101, 0u64..101).prop_map(|(a, b)| Step::Sack(a, b)),
        Just(Step::Duplicate),
        (0u64..60).prop_map(Step::Window),
    ];
    proptest::collection::vec(step, 1..60)
}

fn armed(lab: &Lab) -> Result<(), TestCaseError> {
    let snd = lab.conn.sender();
    let outstanding: AbsSeq = snd.nxt() - snd.una();
    prop_assert_eq!(outstanding > 0, snd.rto_deadline().is_some());
    prop_assert!(snd.rto_deadline().is_none_or(|at: Instant| at >= lab.now));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(128), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_timer_runs_exactly_while_data_is_outstanding(
        steps in steps(),
        detector in 0usize..5,
        stamps in any::<bool>(),
    ) {
        let detectors = narrows::recovery::detector::standard();
        let name = detectors.entries().nth(detector).unwrap().name();
        let plain = TcpConfig { ack: AckPolicy::default(), ..textbook(name) };
        let mut lab = Lab::connected(if stamps { stamped(plain) } else { plain }, ms(10));
        for step in steps {
            let una = lab.conn.sender().una() - 1;
            let out = lab.conn.sender().nxt() - 1 - una;
            match step {
                Step::Write(n) => { lab.write(n); }
                Step::Wait(n) => { lab.wait(ms(n)); }
                Step::Ack(share) => { lab.ack_now(una + out * share / 100, &[], Flags::NONE); }
                Step::Sack(a, b) => {
                    let (a, b) = (a.min(b), a.max(b));
                    lab.ack_now(una, &[(una + out * a / 100, una + out * b / 100)], Flags::NONE);
                }
                Step::Duplicate => { lab.ack_now(una, &[], Flags::NONE); }
                Step::Window(n) => lab.window = n << 10,
            }
            if matches!(lab.conn.state(), narrows::conn::state::State::Closed(_)) {
                return Ok(());
            }
            armed(&lab)?;
        }
    }
}
