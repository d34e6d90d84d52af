//! Congestion window validation of RFC 2861 and RFC 7661, with a whole connection.
#![allow(missing_docs)]

use crate::lab;
use crate::lab::{Lab, MSS, ms, segments, textbook};
use narrows::config::{IdleRestart, InitialWindow, TcpConfig};
use narrows::congestion::CaState;
use narrows::wire::Flags;
use narrows::{Duration, Instant};
use proptest::prelude::*;

const RTT: Duration = ms(100);

fn config(idle_restart: IdleRestart, detector: &str) -> TcpConfig {
    TcpConfig {
        idle_restart,
        initial_window: InitialWindow::Segments(2),
        ..textbook(detector)
    }
}

/// A sender, and how many segments of its stream are acknowledged.
struct Rig {
    lab: Lab,
    acked: u64,
}

impl Rig {
    /// Has lost once and grown since; its window, of which ssthresh is less than three quarters.
    fn beyond_ssthresh(rule: IdleRestart) -> (Self, u64) {
        let mut rig = Self::new(config(rule, "sack"));
        rig.loss(16);
        rig.full_windows(200);
        let (cwnd, ssthresh) = (rig.bytes(), rig.ssthresh());
        assert!(cwnd * 3 / 4 > ssthresh, "{cwnd} {ssthresh}");
        (rig, cwnd)
    }

    /// Has a window of 16 segments, all that it has sent acknowledged.
    fn new(config: TcpConfig) -> Self {
        let lab = Lab::connected(config, RTT);
        let mut rig = Self { lab, acked: 0 };
        for n in [2, 4, 8, 12] {
            rig.round(n);
        }
        assert_eq!(rig.lab.cwnd(), 16);
        rig
    }

    /// Writes `n` segments and has them acknowledged one by one, a round trip after.
    fn round(&mut self, n: u64) {
        self.lab.write(n);
        self.lab.wait(RTT);
        self.acknowledge(n);
    }

    fn acknowledge(&mut self, n: u64) {
        for _ in 0..n {
            self.acked += 1;
            self.lab.ack(self.acked);
        }
    }

    /// `n` segments, as many at a time as the window admits.
    fn full_windows(&mut self, n: u64) {
        self.lab.write(n);
        while !self.lab.conn.sender().is_idle() {
            self.lab.wait(RTT);
            let outstanding = self.lab.pipe();
            self.acknowledge(outstanding);
        }
    }

    /// Keeps on with `n` segments for each `every`, for `time`.
    fn trickle(&mut self, n: u64, every: Duration, time: Duration) {
        let end = self.lab.now + time;
        while self.lab.now < end {
            self.round(n);
            self.lab.wait(every - RTT);
        }
    }

    fn bytes(&self) -> u64 {
        self.lab.conn.sender().congestion().cwnd().get()
    }

    fn ssthresh(&self) -> u64 {
        self.lab.conn.sender().congestion().ssthresh().get()
    }

    fn is_non_validated(&self) -> bool {
        self.lab.conn.sender().is_non_validated()
    }

    /// A loss of the first of `n` segments, repaired: cwnd during recovery and after it.
    fn loss(&mut self, n: u64) -> (u64, u64) {
        self.lab.write(n);
        self.lab.wait(RTT);
        let first = self.acked;
        for k in 2..=n {
            self.lab.sack(first, &[(first + 1, first + k)]);
        }
        assert_eq!(self.lab.conn.sender().ca_state(), CaState::Recovery);
        let during = self.bytes();
        self.lab.wait(RTT / 2);
        self.acked += n;
        self.lab.ack(self.acked);
        assert_eq!(self.lab.conn.sender().ca_state(), CaState::Open);
        (during, self.bytes())
    }
}

// ---- RFC 2861.

/// Section 3.2: while the application is the limit cwnd goes half-way down to what it uses once
/// for each RTO (a second here), and ssthresh remembers three quarters.
#[test]
fn rfc2861_3_2_the_window_decays_while_the_application_is_the_limit() {
    let mut rig = Rig::new(config(IdleRestart::Rfc2861, "sack"));
    // A loss, so that ssthresh is something.
    rig.loss(16);
    let before = (rig.bytes(), rig.ssthresh());
    assert_eq!(before, (8 * MSS, 8 * MSS));
    let mut seen = vec![before.0];
    for _ in 0..40 {
        rig.trickle(1, ms(150), ms(150));
        if seen.last() != Some(&rig.bytes()) {
            seen.push(rig.bytes());
        }
        assert_eq!(rig.ssthresh(), before.1, "3/4 of less is less");
    }
    // (8 + 1) / 2, (4.5 + 1) / 2; of less than two segments one is more than half, and grows.
    assert_eq!(seen[..3], [8_000, 4_500, 2_750]);
    assert!(seen.iter().all(|w| *w >= MSS), "{seen:?}");
}

#[test]
fn rfc2861_3_2_ssthresh_remembers_three_quarters() {
    let (mut rig, cwnd) = Rig::beyond_ssthresh(IdleRestart::Rfc2861);
    // Idle: section 3.2, first part.
    let used = rig.lab.conn.sender().current_rto();
    rig.lab.wait(used);
    rig.round(1);
    assert_eq!((rig.bytes(), rig.ssthresh()), (cwnd / 2, cwnd * 3 / 4));
}

/// Section 3.2: a full window is in use, however small the writes.
#[test]
fn rfc2861_3_2_a_window_that_is_filled_stays() {
    let mut rig = Rig::new(config(IdleRestart::Rfc2861, "sack"));
    rig.loss(16);
    for _ in 0..40 {
        let cwnd = rig.lab.cwnd();
        rig.round(cwnd);
        assert!(rig.lab.cwnd() >= cwnd);
    }
}

/// Section 3.2: `win` is no more than the largest window that the peer has offered.
#[test]
fn rfc2861_3_2_what_the_peer_never_admitted_is_not_worth_halving() {
    let left = |offered| {
        let config = TcpConfig {
            initial_window: InitialWindow::Segments(200),
            ..textbook("sack")
        };
        let config = TcpConfig {
            idle_restart: IdleRestart::Rfc2861,
            ..config
        };
        let mut lab = Lab::new(config);
        lab.window = offered;
        lab.pump();
        lab.wait(RTT);
        lab.syn_ack(Flags::NONE);
        let mut rig = Rig { lab, acked: 0 };
        // Until an RTO has passed once.
        rig.trickle(1, ms(150), ms(1_150));
        rig.bytes()
    };
    // (200 + 1) / 2, and half of 65,535 (the SYN-ACK's) and 1,000 bytes.
    assert_eq!((left(1 << 20), left(8 << 10)), (100_500, 33_267));
}

// ---- RFC 7661.

/// Sections 4.3 and 4.4: the window is kept while less than half of it is used, and does not grow.
#[test]
fn rfc7661_4_4_the_window_is_kept_for_five_minutes() {
    let mut rig = Rig::new(config(IdleRestart::Rfc7661, "sack"));
    let cwnd = rig.bytes();
    assert!(!rig.is_non_validated());
    rig.trickle(4, ms(200), Duration::from_secs(300));
    assert!(rig.is_non_validated());
    assert_eq!(rig.bytes(), cwnd);
    assert_eq!(rig.ssthresh(), u64::MAX);
    rig.trickle(4, ms(200), Duration::from_secs(3));
    assert_eq!(rig.bytes(), cwnd / 2);
    // Half of that is used: validated.
    rig.trickle(4, ms(200), Duration::from_secs(2));
    assert!(!rig.is_non_validated());
}

/// Section 4.4.3: ssthresh = max(ssthresh, 3/4 cwnd), cwnd = max(cwnd / 2, IW).
#[test]
fn rfc7661_4_4_3_the_end_of_the_period() {
    let (mut rig, cwnd) = Rig::beyond_ssthresh(IdleRestart::Rfc7661);
    for (periods, left) in [(1, cwnd / 2), (9, 2 * MSS)] {
        rig.lab.wait(Duration::from_secs(300 * periods + 2));
        rig.lab.write(1);
        assert_eq!((rig.bytes(), rig.ssthresh()), (left, cwnd * 3 / 4));
        rig.lab.wait(RTT);
        rig.acknowledge(1);
    }
}

/// Section 4.4.2: the window that was kept leaves paced, and not where it is validated.
#[test]
fn rfc7661_4_4_2_no_burst_of_a_window_that_was_kept() {
    let mut rig = Rig::new(config(IdleRestart::Rfc7661, "sack"));
    assert_eq!(rig.lab.write(16).len(), 16);
    rig.lab.wait(RTT);
    rig.acknowledge(16);
    let kept = rig.lab.cwnd();
    rig.lab.wait(Duration::from_secs(60));
    let start = rig.lab.now;
    let at_once = rig.lab.write(kept);
    assert_eq!(segments(&at_once).len(), 1);
    let later = rig.lab.wait(RTT - ms(1));
    let times: Vec<Instant> = later.iter().filter(|o| o.len > 0).map(|o| o.at).collect();
    assert_eq!(
        times.len() as u64,
        kept - 1,
        "all of it within a round trip"
    );
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    // Slow start paces at twice the rate of the window.
    assert!(times.last().unwrap().since(start) >= RTT / 3);
}

/// Section 4.4: a sender that fills the window may widen it, and validates it by that.
#[test]
fn rfc7661_4_4_a_full_window_grows() {
    let mut rig = Rig::new(config(IdleRestart::Rfc7661, "sack"));
    rig.lab.wait(Duration::from_secs(60));
    let cwnd = rig.lab.cwnd();
    rig.full_windows(3 * cwnd);
    assert!(rig.lab.cwnd() > cwnd);
    assert!(!rig.is_non_validated());
}

/// Section 4.4: more than half of the window, but not all: in slow start the engine's rule would
/// let it grow.
#[test]
fn rfc7661_4_4_no_growth_unless_it_is_full() {
    let grown = |rule| {
        let mut rig = Rig::new(config(rule, "sack"));
        rig.lab.wait(Duration::from_secs(60));
        let cwnd = rig.lab.cwnd();
        rig.round(cwnd / 2 + 2);
        rig.lab.cwnd() > cwnd
    };
    assert!(grown(IdleRestart::Keep));
    assert!(!grown(IdleRestart::Rfc7661));
}

/// Section 4.4.1: cwnd = max(pipeACK, LossFlightSize) / 2, at the end less R before it is halved;
/// ssthresh is cwnd, and pipeACK undefined.
#[test]
fn rfc7661_4_4_1_congestion_in_the_non_validated_phase() {
    for (cc, detector) in [
        ("reno", "sack"),
        ("reno", "rack"),
        ("cubic", "sack"),
        ("dctcp", "rack"),
    ] {
        // LossFlightSize 6 > pipeACK 4, R 1; then pipeACK 6 > LossFlightSize 4.
        for (used, lost_of, during, after) in [(4, 6, 3_000, 2_500), (6, 4, 3_000, 2_500)] {
            let config = config(IdleRestart::Rfc7661, detector);
            let mut rig = Rig::new(lab::congestion(config, cc));
            rig.trickle(used, ms(200), Duration::from_secs(20));
            assert!(rig.is_non_validated());
            assert_eq!(rig.lab.cwnd(), 16);
            let seen = rig.loss(lost_of);
            assert_eq!(seen, (during, after), "{cc}, {detector}: {used} {lost_of}");
            assert_eq!(rig.ssthresh(), after);
            assert!(!rig.is_non_validated());
        }
    }
}

/// Section 4.2: ACKs of a recovery, though they come round trips apart, give no sample: without
/// one no phase is entered.
#[test]
fn rfc7661_4_2_nothing_is_measured_in_recovery() {
    let mut rig = Rig::new(config(IdleRestart::Rfc7661, "sack"));
    rig.lab.write(16);
    rig.lab.wait(RTT);
    let first = rig.acked;
    for k in 2..=8 {
        rig.lab.sack(first, &[(first + 1, first + k)]);
    }
    // Partial ACKs of a segment each.
    for k in 1..=6 {
        rig.lab.wait(RTT * 3);
        rig.lab.sack(first + k, &[(first + k + 1, first + 8)]);
        assert_eq!(rig.lab.conn.sender().ca_state(), CaState::Recovery);
        assert!(!rig.is_non_validated());
    }
    rig.acked += 16;
    rig.lab.ack(rig.acked);
    assert_eq!(rig.lab.conn.sender().ca_state(), CaState::Open);
    // Nor has what was measured before outlasted it: sending after a pause judges nothing.
    rig.lab.wait(Duration::from_secs(30));
    rig.lab.write(1);
    assert!(!rig.is_non_validated());
}

/// Duplicate ACKs say nothing of loss here, however many: a sample may end while they come.
fn tolerant() -> TcpConfig {
    TcpConfig {
        dup_thresh: 100,
        limited_transmit: false,
        ..config(IdleRestart::Rfc7661, "sack")
    }
}

/// Section 4.2: what was SACKed within the round trip was delivered in it. A hole that outlasts the
/// sample does not make it less, and the window is validated.
#[test]
fn rfc7661_4_2_a_sample_that_ends_in_a_hole_counts_what_was_sacked() {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(8),
        ..tolerant()
    };
    let mut lab = Lab::connected(config, RTT);
    lab.write(8);
    lab.wait(RTT);
    lab.ack(1);
    for n in 3..=8 {
        lab.sack(1, &[(2, n)]);
    }
    lab.wait(RTT * 3 / 2);
    lab.ack(8);
    assert_eq!(lab.conn.sender().ca_state(), CaState::Open);
    assert!(!lab.conn.sender().is_non_validated(), "7 of 9 in flight");
}

/// Nor does what the hole held back count in the sample of the round trip that it is filled in:
/// pipeACK is no more than was ever delivered in one.
#[test]
fn rfc7661_4_2_a_hole_that_is_filled_is_not_delivered_anew() {
    let mut rig = Rig::new(tolerant());
    rig.trickle(3, ms(150), Duration::from_secs(3));
    assert_eq!((rig.is_non_validated(), rig.lab.cwnd()), (true, 16));
    let first = rig.acked;
    rig.lab.write(5);
    rig.lab.wait(RTT);
    rig.acknowledge(1);
    for n in 3..=5 {
        rig.lab.sack(first + 1, &[(first + 2, first + n)]);
    }
    rig.lab.wait(ms(50));
    rig.lab.write(5);
    rig.lab.wait(RTT);
    rig.acked = first + 5;
    rig.lab.ack(rig.acked);
    rig.acknowledge(5);
    for _ in 0..3 {
        rig.lab.wait(ms(50));
        rig.round(5);
        assert!(
            rig.is_non_validated(),
            "five a round trip, of {}",
            rig.lab.cwnd()
        );
    }
}

/// A loss in the validated phase: RFC 5681's halving.
#[test]
fn rfc7661_4_4_1_congestion_in_the_validated_phase() {
    let mut rig = Rig::new(config(IdleRestart::Rfc7661, "sack"));
    assert_eq!(rig.loss(16), (8 * MSS, 8 * MSS));
    assert!(!rig.is_non_validated());
    // Until there is a new sample, nothing is judged.
    rig.lab.write(1);
    assert!(!rig.is_non_validated());
}

/// A reduction that proves unfounded leaves the phase, and the window, as they were.
#[test]
fn an_undo_restores_the_window_that_was_kept() {
    let mut dsack = config(IdleRestart::Rfc7661, "sack");
    dsack.spurious.dsack = true;
    let mut rig = Rig::new(dsack);
    rig.trickle(4, ms(200), Duration::from_secs(20));
    rig.lab.write(8);
    rig.lab.wait(RTT);
    let first = rig.acked;
    for k in 2..=5 {
        rig.lab.sack(first, &[(first + 1, first + k)]);
    }
    assert_eq!((rig.bytes(), rig.is_non_validated()), (4 * MSS, false));
    // The first segment was only late: its copy is reported as one.
    rig.lab.sack(first + 5, &[(first, first + 1)]);
    assert_eq!(rig.lab.undone(), 1);
    assert_eq!((rig.lab.cwnd(), rig.is_non_validated()), (16, true));
}

/// Section 4.4: a timeout is answered for as RFC 5681 says.
#[test]
fn rfc7661_4_4_a_timeout_ends_the_phase() {
    let mut rig = Rig::new(config(IdleRestart::Rfc7661, "sack"));
    rig.trickle(4, ms(200), Duration::from_secs(20));
    assert!(rig.is_non_validated());
    rig.lab.write(6);
    rig.lab.wait(ms(1_200));
    assert_eq!(rig.lab.timeouts().len(), 1);
    assert!(!rig.is_non_validated());
    assert_eq!((rig.bytes(), rig.ssthresh()), (MSS, 3 * MSS));
}

/// Section 4.4: an ECN echo is an indication of congestion, too; nothing was retransmitted.
#[test]
fn rfc7661_4_4_1_a_mark_is_answered_with_what_was_used() {
    let config = TcpConfig {
        ecn: narrows::config::EcnMode::Classic,
        ..config(IdleRestart::Rfc7661, "sack")
    };
    let lab = Lab::connected_with(config, RTT, Flags::ECE);
    let mut rig = Rig { lab, acked: 0 };
    for n in [2, 4, 8, 12] {
        rig.round(n);
    }
    rig.trickle(4, ms(200), Duration::from_secs(20));
    assert!(rig.is_non_validated());
    rig.lab.write(6);
    rig.lab.wait(RTT);
    rig.acked += 1;
    rig.lab.ack_now(rig.acked * MSS, &[], Flags::ECE);
    assert_eq!(rig.lab.conn.sender().ca_state(), CaState::Cwr);
    assert_eq!((rig.bytes(), rig.ssthresh()), (3 * MSS, 3 * MSS));
    rig.acknowledge(5);
    assert_eq!(rig.bytes(), 3 * MSS);
}

// ---- In general.

#[derive(Clone, Debug)]
enum Step {
    Write(u64),
    Wait(u64),
    /// Acknowledge so many of the segments outstanding.
    Ack(u64),
    /// All but the first have come.
    Lose,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (1_u64..30).prop_map(Step::Write),
        5 => prop_oneof![Just(100_u64), 1..400_u64, Just(30_000), Just(310_000)]
            .prop_map(Step::Wait),
        6 => (1_u64..40).prop_map(Step::Ack),
        1 => Just(Step::Lose),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever the application and the network do: an ACK in the non-validated phase widens only
    /// a window that was full, nothing but an ACK widens it, and a segment is always left.
    #[test]
    fn a_window_that_is_not_validated_does_not_grow(
        rule in prop_oneof![Just(IdleRestart::Rfc2861), Just(IdleRestart::Rfc7661)],
        cc in prop_oneof![Just("reno"), Just("cubic"), Just("dctcp")],
        detector in prop_oneof![Just("sack"), Just("rack"), Just("newreno")],
        steps in steps(),
    ) {
        let config = lab::congestion(config(rule, detector), cc);
        let mut lab = Lab::connected(config, RTT);
        let (mut written, mut full_to) = (0, 0);
        for step in steps {
            let sender = lab.conn.sender();
            let (una, nxt) = ((sender.una() - 1) / MSS, (sender.nxt() - 1) / MSS);
            let (before, ssthresh) = (sender.congestion().cwnd(), sender.congestion().ssthresh());
            let kept = sender.is_non_validated();
            // Full now, or when some of what is outstanding was sent. A probe is in flight twice.
            let in_flight = (nxt - una).max(lab.pipe());
            if (in_flight + 1) * MSS > before.get() {
                full_to = nxt;
            }
            let full = una < full_to;
            match step {
                Step::Write(n) if written < 4_000 => {
                    lab.write(n);
                    written += n;
                    prop_assert!(lab.conn.sender().congestion().cwnd() <= before);
                }
                Step::Write(_) => {}
                Step::Wait(time) => {
                    // Retransmissions that nobody answers end the connection.
                    if nxt == una || time < 400 {
                        lab.wait(ms(time));
                    }
                }
                Step::Ack(n) if nxt > una => {
                    lab.ack((una + n).min(nxt));
                    let sender = lab.conn.sender();
                    let grew = sender.congestion().cwnd() > before;
                    if grew && kept && sender.is_non_validated() {
                        prop_assert!(full, "{before:?} with {} outstanding", nxt - una);
                    }
                }
                Step::Lose if nxt > una + 4 => {
                    for k in una + 2..=nxt {
                        lab.sack(una, &[(una + 1, k)]);
                    }
                }
                Step::Ack(_) | Step::Lose => {}
            }
            let sender = lab.conn.sender();
            prop_assert!(sender.congestion().cwnd().get() >= MSS);
            prop_assert!(sender.congestion().ssthresh().get() >= MSS);
            // Not used for long: nothing is forgotten.
            let lowered = sender.congestion().cwnd() < before;
            if lowered && sender.ca_state() == CaState::Open && matches!(step, Step::Write(_)) {
                prop_assert!(sender.congestion().ssthresh() >= ssthresh);
            }
        }
    }
}
