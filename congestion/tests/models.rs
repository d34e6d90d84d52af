//! The algorithms against the models that the RFCs and papers publish for them: average windows
//! under periodic loss (RFC 9438 section 5), and the DCTCP sawtooth (SIGCOMM 2010 section 3.3).

use narrows_congestion::{
    AckSample, ByteCount, CaState, CongestionControl, CongestionEvent, Cubic, CubicConfig, Dctcp,
    Duration, FlowStart, FlowView, Instant, Reno, RttEstimator, SlowStart,
};

const MSS: u64 = 1_448;

/// The average window in segments under one loss every `packets` packets, from `start` segments:
/// losses are noticed at once and recovery takes no time, as the models have it.
fn average_window(
    mut cc: Box<dyn CongestionControl>,
    rtt: Duration,
    packets: u64,
    cycles: u64,
) -> f64 {
    let mss = ByteCount::new(MSS);
    let mut est = RttEstimator::new();
    est.on_sample(rtt, Instant::ZERO);
    let (mut now, mut since_loss, mut done) = (Instant::ZERO, 0, 0);
    let (mut window_ns, mut ns) = (0.0, 0.0);
    while done < cycles {
        let cwnd = cc.cwnd();
        let segments = (cwnd.get() / MSS).max(1);
        let per_ack = segments.div_ceil(256);
        let mut left = segments;
        let mut first = true;
        while left > 0 {
            let n = left.min(per_ack);
            left -= n;
            let dt = rtt.mul_ratio(n, segments);
            now = now + dt;
            if done >= cycles / 2 {
                window_ns += cc.cwnd().get() as f64 / MSS as f64 * dt.as_nanos() as f64;
                ns += dt.as_nanos() as f64;
            }
            let mut flow = FlowView::new(now, mss, &est);
            flow.flight_size = cc.cwnd();
            flow.in_flight = cc.cwnd();
            let bytes = ByteCount::new(n * MSS);
            let mut ack = AckSample::default();
            (ack.acked, ack.delivered, ack.rtt) = (bytes, bytes, Some(rtt));
            ack.round_start = std::mem::take(&mut first);
            cc.on_ack(&ack, &flow);
            since_loss += n;
            if since_loss >= packets {
                since_loss = 0;
                done += 1;
                cc.on_congestion_event(CongestionEvent::Loss, &flow);
                break;
            }
        }
    }
    window_ns / ns
}

fn start(segments: u64) -> FlowStart {
    let window = ByteCount::new(segments * MSS);
    let mut start = FlowStart::new(ByteCount::new(MSS), window);
    start.initial_ssthresh = window;
    start
}

fn assert_near(got: f64, want: f64, tolerance: f64, what: &str) {
    let off = (got / want - 1.0).abs();
    assert!(
        off <= tolerance,
        "{what}: {got:.1}, expected {want} (off by {:.1} %)",
        off * 100.0
    );
}

/// RFC 9438 tables 1 and 2, the Reno column: 1.2247 / sqrt(p).
#[test]
fn reno_average_window() {
    for (packets, want) in [
        (100, 12.0),
        (1_000, 38.0),
        (10_000, 120.0),
        (100_000, 379.0),
    ] {
        let cc = Reno::with_slow_start(&start(want as u64), SlowStart::STANDARD);
        let got = average_window(Box::new(cc), Duration::from_millis(100), packets, 20);
        // The RFC rounds 1.2247 to 1.2; small windows are whole segments.
        assert_near(got, want * 1.2247 / 1.2, 0.06, &format!("p = 1/{packets}"));
    }
}

/// RFC 9438 tables 1 and 2, the CUBIC column for C = 0.4.
#[test]
fn cubic_average_window() {
    for (rtt_ms, packets, want, tolerance) in [
        // The friendly region: whole segments, and both regions in one cycle.
        (100, 100, 12.0, 0.06),
        (100, 1_000, 38.0, 0.06),
        (10, 100, 12.0, 0.06),
        (10, 10_000, 120.0, 0.06),
        (10, 1_000_000, 1_200.0, 0.06),
        // The cubic region.
        (100, 10_000, 187.0, 0.005),
        (100, 100_000, 1_054.0, 0.005),
        (100, 1_000_000, 5_926.0, 0.005),
        (100, 10_000_000, 33_325.0, 0.005),
        (100, 100_000_000, 187_400.0, 0.005),
        (10, 10_000_000, 5_926.0, 0.005),
    ] {
        let config = CubicConfig {
            fast_convergence: false,
            ..CubicConfig::default()
        };
        // The plateau attracts slowly, so begin there: the average is 1 - (1 - beta) / 4 of it.
        let mut cc = Cubic::with_config(&start((want / 0.925) as u64), config);
        let est = RttEstimator::new();
        let mut flow = FlowView::new(Instant::ZERO, ByteCount::new(MSS), &est);
        flow.flight_size = cc.cwnd();
        cc.on_congestion_event(CongestionEvent::Loss, &flow);
        let rtt = Duration::from_millis(rtt_ms);
        let got = average_window(Box::new(cc), rtt, packets, 20);
        assert_near(got, want, tolerance, &format!("RTT {rtt}, p = 1/{packets}"));
    }
}

/// At data-centre RTTs CUBIC is Reno (RFC 9438 section 4.3): at 100 us the friendly region
/// reaches far beyond any loss rate in use.
#[test]
fn cubic_is_reno_friendly_at_100_microseconds() {
    let rtt = Duration::from_micros(100);
    for packets in [100, 10_000, 1_000_000] {
        let want = (1.5 * packets as f64).sqrt();
        let cubic = average_window(Box::new(Cubic::new(&start(want as u64))), rtt, packets, 20);
        assert_near(cubic, want, 0.10, &format!("p = 1/{packets}"));
    }
}

struct Sawtooth {
    q_max: f64,
    q_min: f64,
    alpha: f64,
    period: f64,
}

/// `n` synchronised DCTCP flows over a link of `bdp` packets with marking above `k` packets,
/// round by round: the windows are equal, the queue is what exceeds the BDP, and a round that
/// ends with the queue above `k` is marked throughout.
fn sawtooth(n: u64, bdp: f64, k: f64) -> Sawtooth {
    let mss = ByteCount::new(MSS);
    let w_star = (bdp + k) / n as f64;
    let mut cc = Dctcp::new(&start(w_star as u64));
    let mut est = RttEstimator::new();
    est.on_sample(Duration::from_micros(100), Instant::ZERO);
    let mut out = Sawtooth {
        q_max: 0.0,
        q_min: f64::MAX,
        alpha: 0.0,
        period: 0.0,
    };
    let (mut cuts, mut measured) = (0_u32, 0_u32);
    // Marks come back one round trip after the queue exceeded the threshold, and for that round
    // the window goes on growing.
    let mut marked = false;
    for round in 0..20_000 {
        let segments = (cc.cwnd().get() / MSS).max(1);
        let queue = n as f64 * (cc.cwnd().get() as f64 / MSS as f64) - bdp;
        let crossed = queue > k;
        for i in 0..segments {
            let mut flow = FlowView::new(Instant::ZERO, mss, &est);
            flow.flight_size = cc.cwnd();
            let mut ack = AckSample::default();
            (ack.acked, ack.delivered) = (mss, mss);
            ack.delivered_ce = if marked { mss } else { ByteCount::ZERO };
            ack.round_start = i == 0;
            flow.ca_state = if marked && i > 0 {
                CaState::Cwr
            } else {
                CaState::Open
            };
            cc.on_ack(&ack, &flow);
            if marked && i == 0 {
                cc.on_congestion_event(CongestionEvent::EcnEcho, &flow);
                cuts += u32::from(round >= 10_000);
            }
        }
        if round >= 10_000 {
            measured += 1;
            out.q_max = out.q_max.max(queue);
            out.q_min = out
                .q_min
                .min(n as f64 * (cc.cwnd().get() as f64 / MSS as f64) - bdp);
            out.alpha += cc.alpha_q32() as f64 / (1_u64 << 32) as f64;
        }
        marked = crossed && !marked;
    }
    out.alpha /= f64::from(measured);
    out.period = f64::from(measured) / f64::from(cuts.max(1));
    out
}

/// SIGCOMM 2010 section 3.3: 10 Gb/s, 100 us, K = 40, g = 1/16.
#[test]
fn dctcp_sawtooth() {
    let bdp = 10e9 * 100e-6 / 8.0 / 1_500.0;
    let two = sawtooth(2, bdp, 40.0);
    let w_star: f64 = (bdp + 40.0) / 2.0;
    // alpha^2 (1 - alpha / 4) = (2 W* + 1) / (W* + 1)^2, solved by iteration.
    let right = (2.0 * w_star + 1.0) / (w_star + 1.0).powi(2);
    let alpha = (0..50).fold(0.2_f64, |a, _| (right / (1.0 - a / 4.0)).sqrt());
    let d = (w_star + 1.0) * alpha / 2.0;
    assert_near(two.alpha, alpha, 0.15, "alpha");
    assert!((two.q_max - 42.0).abs() <= 2.0, "Qmax {}", two.q_max);
    assert!(
        (two.q_min - (42.0 - 2.0 * d)).abs() <= 3.0,
        "Qmin {} {}",
        two.q_min,
        42.0 - 2.0 * d
    );
    assert_near(two.period, d, 0.35, "period in RTTs");
}
