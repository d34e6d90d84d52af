//! What users plug in, and the values seldom set, by a whole connection: pacing, windows below a
//! segment, acknowledgement, ECN feedback and receive-window policies, idle restart, tracing.

use crate::lab::{Lab, MSS, ms, segments, textbook};
use crate::pair::lone::{Lone, ack, plain, text};
use crate::pair::{Pair, bytes};
use narrows::config::{
    Buffers, EcnMode, IdleRestart, InitialWindow, Keepalive, Lifetimes, PacingMode,
    RecoverySending, SpuriousDetection, TcpConfig, TimestampMode,
};
use narrows::congestion::{
    AckSample, CaState, CongestionControl, CongestionEvent, FlowStart, FlowView, Needs, RateSample,
    Reno,
};
use narrows::conn::acknowledge::{AckWhen, Acknowledge, DataFacts};
use narrows::conn::ecn::{EcnFeedback, MarkEffect};
use narrows::conn::flow_window::ReceiveWindow;
use narrows::trace::TraceEvent;
use narrows::wire::{Ecn, Flags};
use narrows::{ByteCount, Duration, Instant, Rate};
use std::sync::{Arc, Mutex};

// ---- Pacing.

const LINUX: PacingMode = PacingMode::On {
    slow_start_gain: 200,
    avoidance_gain: 120,
};

/// A host sleeps with data in flight, and the round trip that it measures then is as long as its
/// sleep: it goes on at the pace of the path.
#[test]
fn a_clock_that_jumps_does_not_set_the_pace() {
    for stamps in [TimestampMode::Off, TimestampMode::Millis] {
        for hours in [0, 8] {
            let config = TcpConfig {
                pacing: LINUX,
                timestamps: stamps,
                buffers: Buffers {
                    send: 1 << 21,
                    ..Buffers::default()
                },
                ..TcpConfig::default()
            };
            let mut p = Pair::connected(config.clone(), config);
            let data = bytes(1_000_000);
            assert_eq!(p.client.send(&data, data.len()), Ok(data.len()));
            p.run_for(Duration::from_micros(330));
            assert!(!p.client.sender().is_idle() && p.server_got.len() < 200_000);
            p.now = p.now + Duration::from_secs(10 + 3_600 * hours);
            let woken = p.now;
            while p.server_got.len() < data.len() {
                p.run_for(ms(1));
                let took = p.now.since(woken);
                assert!(
                    took < ms(200),
                    "{stamps:?}, {hours} h: {}",
                    p.server_got.len()
                );
            }
            assert!(p.server_got == data);
        }
    }
}

/// A peer that echoes timestamps of long ago has its round trip taken for long (RFC 7323 section
/// 4.3), and yet a pace of a window a second at least; once it tells the truth, that of the path.
#[test]
fn rfc7323_4_3_an_echo_of_long_ago_does_not_set_the_pace() {
    let config = TcpConfig {
        pacing: LINUX,
        ..crate::lab::stamped(textbook("sack"))
    };
    let mut lab = Lab::connected(config, ms(10));
    lab.write(400);
    lab.wait(ms(10));
    // A timeout, so that only the echo tells; it says a quarter of an hour.
    let sent = lab.timer();
    assert_eq!(lab.conn.sender_stats().timeouts, 1);
    let now = sent[0].tcp.options.timestamps.unwrap().val;
    lab.echo = Some(now.wrapping_sub(900_000_000));
    lab.ack(1);
    assert!(lab.conn.sender().rtt().latest() > Duration::from_secs(800));
    let begin = lab.now;
    let mut acked = 1;
    while acked < 400 {
        lab.wait(ms(10));
        let sent = segments(&lab.log).into_iter().max().unwrap() + 1;
        while acked < sent {
            acked += 1;
            lab.ack(acked);
        }
        let took = lab.now.since(begin);
        assert!(took < Duration::from_secs(3), "{acked} segments in {took}");
    }
}

/// Ten segments in an RTT of 100 ms at twice the window each RTT: one every 5 ms.
#[test]
fn paced_segments_leave_spaced() {
    let mut lab = Lab::connected(
        TcpConfig {
            pacing: LINUX,
            ..textbook("sack")
        },
        ms(100),
    );
    let begin = lab.now;
    assert_eq!(segments(&lab.write(10)), [0]);
    assert_eq!(lab.conn.poll_timeout(), Some(begin + ms(5)));
    let out = lab.wait(ms(99));
    let at: Vec<_> = out.iter().map(|o| o.at.since(begin)).collect();
    assert_eq!(at, (1..10).map(|k| ms(5 * k)).collect::<Vec<_>>());
    assert_eq!(segments(&out), (1..10).collect::<Vec<_>>());
    // In congestion avoidance by the other gain.
    lab.sack(0, &[(1, 5)]);
    lab.wait(ms(400));
    lab.ack(10);
    let interval = {
        let cwnd = lab.conn.sender().congestion().cwnd();
        let srtt = lab.conn.sender().rtt().srtt().unwrap();
        Duration::from_nanos(srtt.as_nanos() * MSS * 100 / (cwnd.get() * 120))
    };
    let begin = lab.now;
    lab.write(2);
    let next = lab.conn.poll_timeout().unwrap().since(begin);
    assert!(
        next.as_nanos().abs_diff(interval.as_nanos()) < 10_000,
        "{next:?} {interval:?}"
    );
}

/// A window and a rate that never change.
#[derive(Clone, Copy, Debug)]
struct Fixed {
    cwnd: u64,
    rate: Option<Rate>,
    needs: Needs,
}
impl CongestionControl for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }
    fn cwnd(&self) -> ByteCount {
        ByteCount::new(self.cwnd)
    }
    fn ssthresh(&self) -> ByteCount {
        ByteCount::new(self.cwnd)
    }
    fn pacing_rate(&self) -> Option<Rate> {
        self.rate
    }
    fn needs(&self) -> Needs {
        self.needs
    }
    fn on_ack(&mut self, _: &AckSample, _: &FlowView<'_>) {}
    fn on_congestion_event(&mut self, _: CongestionEvent, _: &FlowView<'_>) {}
    fn on_rto(&mut self, _: u32, _: &FlowView<'_>) {}
}
fn fixed(cwnd: u64, rate: Option<Rate>, needs: Needs) -> TcpConfig {
    TcpConfig {
        congestion: Arc::new(move |_: &FlowStart| Fixed { cwnd, rate, needs }),
        ..textbook("newreno")
    }
}

/// As many segments as there are, and what it was told of rates.
#[derive(Clone, Debug, Default)]
struct Rates(Arc<Mutex<Vec<Option<RateSample>>>>);
impl CongestionControl for Rates {
    fn name(&self) -> &'static str {
        "rates"
    }
    fn cwnd(&self) -> ByteCount {
        ByteCount::new(10 * MSS)
    }
    fn ssthresh(&self) -> ByteCount {
        ByteCount::ZERO
    }
    fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        needs.delivery_rate = true;
        needs
    }
    fn on_ack(&mut self, ack: &AckSample, _: &FlowView<'_>) {
        self.0.lock().unwrap().push(ack.rate);
    }
    fn on_congestion_event(&mut self, _: CongestionEvent, _: &FlowView<'_>) {}
    fn on_rto(&mut self, _: u32, _: &FlowView<'_>) {}
}

/// What an application that pauses lets through is no rate of the network.
#[test]
fn rates_that_the_application_limited_say_so() {
    let rates = Rates::default();
    let told = rates.clone();
    let config = TcpConfig {
        congestion: Arc::new(move |_: &FlowStart| rates.clone()),
        ..textbook("sack")
    };
    let mut lab = Lab::connected(config, ms(100));
    // Two of ten, twice: the second two leave when it is known that there was no more.
    for n in [2, 4] {
        lab.write(2);
        lab.wait(ms(100));
        told.0.lock().unwrap().clear();
        lab.ack(n);
    }
    let limited = |rates: &Rates| -> Vec<bool> {
        let told = rates.0.lock().unwrap();
        told.iter().map(|s| s.unwrap().app_limited).collect()
    };
    assert_eq!(limited(&told), [true]);
    // More than the window takes: what leaves after the first ten is limited by nothing else.
    lab.write(100);
    for n in [14, 24, 34] {
        lab.wait(ms(100));
        told.0.lock().unwrap().clear();
        lab.ack(n);
    }
    // 10 segments in 100 ms.
    let rate = Rate::from_bits_per_sec(10 * MSS * 8 * 10);
    assert_eq!(limited(&told), [false]);
    let sample = told.0.lock().unwrap()[0].unwrap();
    assert_eq!(sample.rate(), Some(rate));
    assert_eq!(sample.in_flight, ByteCount::new(10 * MSS));
}

/// Half a segment each RTT of 100 ms, times 1.2: one segment every 166 2/3 ms.
#[test]
fn a_window_below_one_segment_spreads_them_over_round_trips() {
    let mut needs = Needs::default();
    needs.pacing = true;
    needs.sub_mss_cwnd = true;
    let mut lab = Lab::connected(fixed(MSS / 2, None, needs), ms(100));
    let mut left = lab.write(4);
    for n in 1..=4 {
        lab.wait(ms(100));
        lab.ack(n);
        lab.wait(ms(80));
    }
    left.clear();
    left.extend(lab.log.iter().filter(|o| o.len > 0).cloned());
    assert_eq!(segments(&left), [0, 1, 2, 3]);
    for pair in left.windows(2) {
        let gap = pair[1].at.since(pair[0].at);
        assert!(gap >= ms(166) && gap <= ms(180), "{gap:?}");
    }
}

#[test]
fn a_rate_of_zero_is_no_rate() {
    let rate = Some(Rate::from_bits_per_sec(0));
    let mut lab = Lab::connected(fixed(4 * MSS, rate, Needs::default()), ms(10));
    assert_eq!(segments(&lab.write(6)), [0, 1, 2, 3]);
    assert_eq!(segments(&lab.ack(4)), [4, 5]);
}

/// At 1 kb/s a segment is paid for in 8 s, the timeout comes after one.
#[test]
fn the_pacer_does_not_hold_back_what_a_timeout_sends() {
    let rate = Some(Rate::from_bits_per_sec(1_000));
    let mut lab = Lab::connected(fixed(4 * MSS, rate, Needs::default()), ms(10));
    let begin = lab.now;
    assert_eq!(segments(&lab.write(1)), [0]);
    let again = lab.wait(ms(1_100));
    assert_eq!(segments(&again), [0]);
    assert_eq!(again[0].at.since(begin), ms(1_000));
}

// ---- The receiver's side.

#[derive(Debug, Default)]
struct EveryFourth;
impl Acknowledge for EveryFourth {
    fn on_data(&mut self, data: &DataFacts) -> AckWhen {
        match data.unacknowledged {
            4.. => AckWhen::Now,
            _ => AckWhen::Within(ms(7)),
        }
    }
}

#[test]
fn an_acknowledgement_policy_of_ones_own() {
    let mut l = Lone::established(TcpConfig {
        acknowledge: Some(Arc::new(|| Box::new(EveryFourth))),
        ..plain()
    });
    for i in 0..3 {
        assert!(l.recv(text(i, 0, b"x")).is_empty());
    }
    assert_eq!(Lone::one(l.recv(text(3, 0, b"x"))).ack, 4);
    assert!(l.recv(text(4, 0, b"x")).is_empty());
    let begin = l.now;
    let late = Lone::one(l.wait(ms(8)));
    assert_eq!((late.ack, late.at.since(begin)), (5, ms(7)));
    // The engine itself acknowledges disorder at once.
    assert_eq!(Lone::one(l.recv(text(9, 0, b"x"))).ack, 5);
}

/// Echoes one mark in two.
#[derive(Debug, Default)]
struct Half {
    marks: u32,
    echo: bool,
}
impl EcnFeedback for Half {
    fn on_data(&mut self, ip: Ecn, _: Flags) -> MarkEffect {
        self.marks += u32::from(ip == Ecn::Ce);
        self.echo = ip == Ecn::Ce && self.marks.is_multiple_of(2);
        MarkEffect::None
    }
    fn ece(&self) -> bool {
        self.echo
    }
    fn is_exact(&self) -> bool {
        true
    }
}

#[test]
fn an_ecn_feedback_of_ones_own() {
    let config = TcpConfig {
        ecn: EcnMode::Classic,
        ecn_feedback: Some(Arc::new(|| Box::new(Half::default()))),
        ..textbook("sack")
    };
    let mut lab = Lab::connected_with(config.clone(), ms(1), Flags::ECE);
    assert!(lab.conn.ecn_in_use());
    let mut echoes = Vec::new();
    for (i, ecn) in [Ecn::Ce, Ecn::Ce, Ecn::Ect0, Ecn::Ce, Ecn::Ce]
        .into_iter()
        .enumerate()
    {
        let out = lab.data(i as u64 * 10, 10, ecn, Flags::NONE);
        echoes.push(out.iter().any(|o| o.has(Flags::ECE)));
    }
    assert_eq!(echoes, [false, true, false, false, true]);
    // Exact: the bytes of the ACK count as marked.
    lab.write(3);
    lab.ack_now(2 * MSS, &[], Flags::ECE);
    lab.ack_now(3 * MSS, &[], Flags::NONE);
    assert_eq!(lab.conn.sender_stats().ce_bytes, 2 * MSS);
    // Not negotiated, it is not asked.
    let mut lab = Lab::connected(config, ms(1));
    for i in 0..4 {
        let out = lab.data(i * 10, 10, Ecn::Ce, Flags::NONE);
        assert!(out.iter().all(|o| !o.has(Flags::ECE)));
    }
}

#[derive(Debug)]
struct AtMost(u64);
impl ReceiveWindow for AtMost {
    fn limit(&mut self, free: ByteCount, _: Instant) -> ByteCount {
        free.min(ByteCount::new(self.0))
    }
}
fn at_most(limit: u64) -> TcpConfig {
    TcpConfig {
        receive_window: Some(Arc::new(move || Box::new(AtMost(limit)))),
        ..plain()
    }
}

#[test]
fn a_receive_window_of_ones_own_steers_the_sender() {
    let mut p = Pair::connected(plain(), at_most(3_000));
    let data = bytes(50_000);
    p.transfer(&data, Duration::from_secs(60));
    assert_eq!(p.server_got, data);
    let mut acked = 0;
    for seen in &p.log {
        if seen.from_client {
            let edge = u64::from(seen.tcp.seq.since(p.log[0].tcp.seq)) + seen.len as u64;
            assert!(edge <= acked + 3_000, "{seen:?}");
        } else {
            assert!(seen.tcp.window <= 3_000, "{seen:?}");
            acked = u64::from(seen.tcp.ack.since(p.log[0].tcp.seq));
        }
    }
}

/// Below a segment the window opens again as soon as the user reads: half of it is enough.
#[test]
fn a_window_kept_below_a_segment_does_not_wait_for_a_probe() {
    #[derive(Debug)]
    struct Small;
    impl ReceiveWindow for Small {
        fn limit(&mut self, free: ByteCount, _: Instant) -> ByteCount {
            // Saturating: a buffer of 20,000 of which 600 are in use.
            free - ByteCount::new(19_400)
        }
    }
    let mut l = Lone::established(TcpConfig {
        receive_window: Some(Arc::new(|| Box::new(Small))),
        ..plain()
    });
    let closed = Lone::one(l.recv(text(0, 0, &[1; 600])));
    assert_eq!((closed.ack, closed.tcp.window), (600, 0));
    let (got, update) = l.read();
    assert_eq!(got.len(), 600);
    assert_eq!(Lone::one(update).tcp.window, 600);
}

// ---- Idling.

/// Idle for 2.6 timeouts or five minutes, and what is left of a window of more than 20 segments.
#[test]
fn what_is_left_of_the_window_after_idling() {
    type Left = fn(u64) -> u64;
    let table: [(_, _, Left); 6] = [
        (IdleRestart::Keep, ms(2_500), |w| w),
        (IdleRestart::Rfc5681, ms(2_500), |_| 2 * MSS),
        (IdleRestart::Rfc2861, ms(2_500), |w| w / 4),
        (IdleRestart::Rfc7661, ms(2_500), |w| w),
        // The last samples of a full window count for a second, then the five minutes begin.
        (IdleRestart::Rfc7661, Duration::from_secs(300), |w| w),
        (IdleRestart::Rfc7661, Duration::from_secs(302), |w| w / 2),
    ];
    for (idle_restart, idle, left) in table {
        let config = TcpConfig {
            idle_restart,
            initial_window: InitialWindow::Segments(2),
            ..textbook("sack")
        };
        let mut lab = Lab::connected(config, ms(100));
        let mut sent = 0;
        for n in [2, 4, 8, 16] {
            lab.write(n);
            lab.wait(ms(100));
            // One ACK for each segment: slow start doubles.
            for k in 1..=n {
                lab.ack(sent + k);
            }
            sent += n;
        }
        let cwnd = |lab: &Lab| lab.conn.sender().congestion().cwnd().get();
        let before = cwnd(&lab);
        assert!(before > 20 * MSS);
        lab.wait(idle);
        lab.write(1);
        assert_eq!(cwnd(&lab), left(before), "{idle_restart:?} {idle:?}");
    }
}

// ---- Tracing.

#[test]
fn the_trace_of_a_small_lossy_transfer() {
    let config = TcpConfig {
        recovery: RecoverySending::Pipe,
        ..textbook("sack")
    };
    let mut lab = Lab::connected(config, ms(100));
    let before = lab.events().len();
    lab.write(10);
    lab.wait(ms(100));
    for k in 2..=4 {
        lab.sack(0, &[(1, k)]);
    }
    lab.wait(ms(100));
    lab.ack(10);
    let ca = |from, to| TraceEvent::CaState { from, to };
    let bytes = ByteCount::new(MSS);
    let told: Vec<_> = lab.events()[before..]
        .iter()
        .filter(|e| !matches!(e, TraceEvent::Window { .. }))
        .cloned()
        .collect();
    assert_eq!(
        told,
        [
            ca(CaState::Open, CaState::Disorder),
            TraceEvent::Lost { bytes },
            TraceEvent::Congestion(CongestionEvent::Loss),
            ca(CaState::Disorder, CaState::Recovery),
            TraceEvent::Retransmit { offset: 0, bytes },
            ca(CaState::Recovery, CaState::Open),
        ]
    );
    let last = lab.events().pop();
    assert!(matches!(last, Some(TraceEvent::Window { in_flight, .. }) if in_flight.is_zero()));
}

// ---- Slow timers with a coarse clock.

#[test]
fn keepalive_and_user_timeout_keep_to_the_tick() {
    let tick = ms(300);
    let config = TcpConfig {
        timer_tick: tick,
        lifetimes: Lifetimes {
            user_timeout: Some(ms(5_000)),
            keepalive: Some(Keepalive {
                idle: ms(10_000),
                interval: ms(1_000),
                probes: 3,
            }),
            ..plain().lifetimes
        },
        ..plain()
    };
    let on_tick = |at: Instant| at.as_nanos().is_multiple_of(tick.as_nanos());
    let mut l = Lone::established(config);
    let begin = l.now;
    let out = l.wait(ms(12_500));
    assert_eq!(out.len(), 3, "{out:#?}");
    for (k, o) in out.iter().enumerate() {
        assert!(on_tick(o.at), "{:?}", o.at);
        let due = ms(10_000 + 1_000 * k as u64);
        let late = o.at.since(begin + due);
        assert!(
            o.at >= begin + due && late < tick * (k as u64 + 1),
            "{late:?}"
        );
    }
    l.recv(ack(0, 0));
    l.send(b"x");
    let begin = l.now;
    let out = l.wait(ms(5_400));
    let last = out.last().unwrap();
    assert!(last.has(Flags::RST) && on_tick(last.at), "{last:?}");
    let after = last.at.since(begin);
    assert!(after >= ms(5_000) && after < ms(5_300), "{after:?}");
}

/// Reno that counts how often it was told that a recovery is over.
#[derive(Debug)]
struct Exits(Reno, Arc<Mutex<u32>>);
impl CongestionControl for Exits {
    fn name(&self) -> &'static str {
        "exits"
    }
    fn cwnd(&self) -> ByteCount {
        self.0.cwnd()
    }
    fn ssthresh(&self) -> ByteCount {
        self.0.ssthresh()
    }
    fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
        self.0.on_ack(ack, flow);
    }
    fn on_congestion_event(&mut self, event: CongestionEvent, flow: &FlowView<'_>) {
        self.0.on_congestion_event(event, flow);
    }
    fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>) {
        self.0.on_rto(consecutive, flow);
    }
    fn on_recovery_exit(&mut self, _: &FlowView<'_>) {
        *self.1.lock().unwrap() += 1;
    }
}

/// Each recovery ends once, also where its cause proves spurious and a mark upholds the reduction.
#[test]
fn a_recovery_that_a_mark_upholds_ends_like_any_other() {
    for flags in [Flags::ECE, Flags::NONE] {
        let exits = Arc::new(Mutex::new(0));
        let count = exits.clone();
        let config = TcpConfig {
            congestion: Arc::new(move |s: &FlowStart| Exits(Reno::new(s), count.clone())),
            ecn: EcnMode::Classic,
            spurious: SpuriousDetection {
                frto: true,
                ..SpuriousDetection::OFF
            },
            initial_window: InitialWindow::Segments(20),
            ..textbook("sack")
        };
        let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
        lab.write(60);
        lab.timer();
        lab.ack(1);
        lab.ack_now(2 * MSS, &[], flags);
        // A spurious one is not over: it never was.
        let expected = u32::from(flags == Flags::ECE);
        assert_eq!(*exits.lock().unwrap(), expected);
    }
}
