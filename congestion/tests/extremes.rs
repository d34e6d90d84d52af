//! Whatever an engine may report, an algorithm neither panics nor overflows, and keeps a window
//! of at least one segment.

use narrows_congestion::{
    AckSample, ByteCount, CaState, CongestionEvent, CongestionRegistry, Duration, FlowStart,
    FlowView, Instant, Lower, RttEstimator, Spurious,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Ack(u64, u64, u64, Option<u64>, bool),
    Congestion(u8),
    Timeout(u32),
    Exit,
    Spurious(bool),
    Lower(u8, u64),
    Idle(u64, u64),
    Sent(u64),
    Mss(u64),
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 0_u64..20_000,
        1 => any::<u64>(),
        1 => Just(u64::MAX),
        1 => Just(0),
    ]
}

/// Segment sizes that IP can carry, and a few that it cannot.
fn segment_size() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 1_u64..70_000, 1 => Just(1 << 30)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (bytes(), bytes(), bytes(), prop::option::of(bytes()), any::<bool>())
            .prop_map(|(a, d, ce, rtt, round)| Step::Ack(a, d, ce, rtt, round)),
        1 => (0_u8..3).prop_map(Step::Congestion),
        1 => (0_u32..5).prop_map(Step::Timeout),
        1 => Just(Step::Exit),
        1 => any::<bool>().prop_map(Step::Spurious),
        1 => (0..4_u8, bytes()).prop_map(|(why, to)| Step::Lower(why, to)),
        1 => (bytes(), bytes()).prop_map(|(idle, window)| Step::Idle(idle, window)),
        1 => bytes().prop_map(Step::Sent),
        1 => segment_size().prop_map(Step::Mss),
    ]
}

/// A step with the flow around it: time passed, in flight, outstanding, state, limited.
type Call = (Step, u64, u64, u64, u8, bool);

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = (step(), bytes(), bytes(), bytes(), 0_u8..5, any::<bool>());
    prop::collection::vec(call, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nothing_breaks_an_algorithm(
        mss in segment_size(),
        initial in bytes(),
        ssthresh in bytes(),
        start_ns: u64,
        calls in calls(),
    ) {
        let mut start = FlowStart::new(ByteCount::new(mss), ByteCount::new(initial));
        start.initial_ssthresh = ByteCount::new(ssthresh);
        for name in [
            "reno", "reno:slow-start=hystart", "cubic", "cubic:slow-start=hystart-paced",
            "cubic:slow-start=standard", "cubic:slow-start=hybrid", "dctcp", "dctcp:floor=1,g=1/1", "fixed", "fixed:7",
        ] {
            let mut cc = CongestionRegistry::standard().get(name).unwrap().build(&start);
            let mut est = RttEstimator::new();
            let mut now = Instant::from_nanos(start_ns);
            let mut mss = mss;
            prop_assert!(cc.cwnd().get() >= mss, "{name}");
            for (step, passed, in_flight, outstanding, state, limited) in &calls {
                now = now + Duration::from_nanos(*passed);
                if let Step::Ack(_, _, _, Some(rtt), _) = step {
                    est.on_sample(Duration::from_nanos(*rtt), now);
                }
                let was = ByteCount::new(mss);
                if let Step::Mss(new) = step {
                    mss = *new;
                }
                let mut flow = FlowView::new(now, ByteCount::new(mss), &est);
                flow.in_flight = ByteCount::new(*in_flight);
                flow.flight_size = ByteCount::new(*outstanding);
                flow.cwnd_limited = *limited;
                flow.ca_state = [
                    CaState::Open,
                    CaState::Disorder,
                    CaState::Cwr,
                    CaState::Recovery,
                    CaState::Loss,
                ][usize::from(*state)];
                let before = cc.cwnd();
                match *step {
                    Step::Ack(acked, delivered, ce, rtt, round_start) => {
                        let mut ack = AckSample::default();
                        ack.acked = ByteCount::new(acked);
                        ack.delivered = ByteCount::new(delivered);
                        ack.delivered_ce = ByteCount::new(ce);
                        ack.rtt = rtt.map(Duration::from_nanos);
                        ack.round_start = round_start;
                        cc.on_ack(&ack, &flow);
                        let grew = cc.cwnd() > before;
                        prop_assert!(!grew || flow.may_grow(), "{name} {step:?} {flow:?}");
                    }
                    Step::Congestion(n) => {
                        let event = [
                            CongestionEvent::Loss,
                            CongestionEvent::EcnEcho,
                            CongestionEvent::LocalDrop,
                        ][usize::from(n)];
                        cc.on_congestion_event(event, &flow);
                        prop_assert!(cc.cwnd() <= before, "{name} {step:?}");
                    }
                    Step::Timeout(n) => cc.on_rto(n, &flow),
                    Step::Exit => cc.on_recovery_exit(&flow),
                    Step::Spurious(true) => cc.on_spurious(Spurious::Timeout, &flow),
                    Step::Spurious(false) => cc.on_spurious(Spurious::FastRetransmit, &flow),
                    Step::Idle(idle, window) => {
                        let idle = Duration::from_nanos(idle);
                        cc.on_lower(ByteCount::new(window), Lower::Idle(idle), &flow);
                    }
                    Step::Lower(why, window) => {
                        let ssthresh = cc.ssthresh();
                        let why = [
                            Lower::Unused,
                            Lower::Exceeded,
                            Lower::Refused,
                            Lower::Deflate,
                        ][usize::from(why)];
                        cc.on_lower(ByteCount::new(window), why, &flow);
                        prop_assert!(cc.cwnd() <= before, "{name} {step:?}");
                        let kept = match why {
                            Lower::Unused => cc.ssthresh() >= ssthresh,
                            Lower::Refused | Lower::Deflate => cc.ssthresh() == ssthresh,
                            _ => true,
                        };
                        prop_assert!(kept, "{name} {step:?}");
                    }
                    Step::Sent(n) if cc.needs().hears_of_sent => cc.on_sent(ByteCount::new(n), &flow),
                    Step::Sent(_) => {}
                    Step::Mss(_) => cc.on_mss_change(was, &flow),
                }
                prop_assert!(cc.cwnd().get() >= mss, "{name} {step:?}: {} < {mss}", cc.cwnd());
            }
        }
    }
}
