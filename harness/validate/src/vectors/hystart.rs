//! RFC 9406: which rise of the RTT ends slow start.

use super::{Run, millis};
use crate::{Bench, Expected, Measured, Row, Tolerance};
use narrows::congestion::hystart::{HyStart, N_RTT_SAMPLE, Phase};
use narrows::congestion::window::Window;
use narrows::congestion::{AckSample, FlowStart, FlowView, RttEstimator};
use narrows::{ByteCount, Duration, Instant};

const MSS: ByteCount = ByteCount::new(1_000);

/// The checks of `vectors/rfc9406`.
pub(super) fn run(bench: &mut Bench<'_>) -> Run {
    for (rtt_us, reference, why) in [
        (100, 4.0, "MIN_RTT_THRESH: never at microsecond RTTs"),
        (10_000, 4.0, "MIN_RTT_THRESH"),
        (40_000, 5.0, "an eighth"),
        (100_000, 12.5, "an eighth"),
        (200_000, 16.0, "MAX_RTT_THRESH"),
    ] {
        let rtt = Duration::from_micros(rtt_us);
        bench.row(Row::new(
            format!("rise that ends slow start, RTT {rtt}: {why}"),
            "RFC 9406, section 4.2",
            Expected::Value(reference),
            Measured::Value(millis(least_rise(rtt))),
            "ms",
            Tolerance::Exact,
        ));
    }
    Ok(())
}

/// The least rise of the RTT that the algorithm takes for congestion, by bisection to the
/// microsecond.
fn least_rise(rtt: Duration) -> Duration {
    let (mut stays, mut leaves) = (0_u64, 1_000_000);
    while leaves - stays > 1 {
        let rise = stays.midpoint(leaves);
        if leaves_slow_start(rtt, rtt + Duration::from_micros(rise)) {
            leaves = rise;
        } else {
            stays = rise;
        }
    }
    Duration::from_micros(leaves)
}

/// Whether a round of `now` after one of `before` ends slow start.
fn leaves_slow_start(before: Duration, now: Duration) -> bool {
    let mut hystart = HyStart::new(false);
    let mut window = Window::new(&FlowStart::new(MSS, MSS * 10));
    let estimator = RttEstimator::new();
    for rtt in [before, now] {
        for i in 0..N_RTT_SAMPLE {
            let mut ack = AckSample::default();
            ack.acked = MSS;
            ack.delivered = MSS;
            ack.rtt = Some(rtt);
            ack.round_start = i == 0;
            let flow = FlowView::new(Instant::ZERO, MSS, &estimator);
            hystart.on_ack(&mut window, &ack, &flow);
        }
    }
    matches!(hystart.phase(), Phase::Conservative { .. })
}
