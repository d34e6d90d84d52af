//! A sender of ours at a TAP that refuses though it is writable, with the answers of its TCP.
#![cfg(target_os = "linux")]

mod skip;

use narrows::Rate;
use narrows::config::TcpConfig;
use narrows_experiment::registry::Registry;
use narrows_lab::LiveError;
use narrows_lab::refusing::{RefusingRun, RefusingSpec, run};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn flow(answer: &str) -> Result<RefusingRun, LiveError> {
    let registry = Registry::default();
    let spec = RefusingSpec {
        tcp: TcpConfig {
            congestion: registry.congestion.get("reno").unwrap(),
            local_drop: registry.local_drop.get(answer).unwrap(),
            ..TcpConfig::default()
        },
        rate: Rate::from_mbps(20),
        buffers: 12,
        delay: Duration::from_millis(25),
        losses: None,
        before: None,
        warm_up: Duration::from_secs(1),
        span: Duration::from_secs(2),
    };
    run(&spec, &AtomicBool::new(false))
}

/// What is refused is sent again soon, so that it is what the TCP concludes from it that makes it
/// slow or not: a window of one segment takes six round trips to be what it was.
#[test]
fn a_refusal_that_resets_the_window_is_slow_and_one_that_takes_a_segment_is_not() {
    let [reset, minus] = match ["reset", "minus-segment"].map(flow) {
        [Ok(reset), Ok(minus)] => [reset, minus],
        [Err(why), _] | [_, Err(why)] => return skip::skip(&why.to_string()),
    };
    for run in [&reset, &minus] {
        assert!(run.refused > 5 && run.goodput > 1e6, "{run:?}");
    }
    let goodputs = [minus.goodput, reset.goodput];
    assert!(goodputs[0] > 1.5 * goodputs[1], "{goodputs:?}");
    // A busy machine may have a timeout, too.
    let falls = reset.falls;
    assert!(
        falls.all > 5 && falls.at_refusal * 2 > falls.all,
        "{falls:?}"
    );
    let last = minus.course.0.last().unwrap();
    assert!(last.at > narrows::Duration::from_secs(2), "{last:?}");
}
