//! The twin of the story `rack tails`: calls through a port of the kernel's that marks, of hosts of ours and of
//! the kernel's.
//!
//! Held is what a loud machine cannot turn round. Where the machine cannot, the test is skipped with
//! a message; with `CI=true` it fails.
#![cfg(target_os = "linux")]

mod skip;

use narrows::config::{AckPolicy, Factory, TcpConfig};
use narrows::conn::ecn::{EcnFeedback, LinuxDctcp, LinuxDctcp2015};
use narrows::{ByteCount, Duration, Rate};
use narrows_experiment::registry::Registry;
use narrows_lab::LiveError;
use narrows_lab::tails::{TailsRun, TailsSpec, run, run_ours};
use skip::skip;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

static GO_ON: AtomicBool = AtomicBool::new(false);

fn spec() -> TailsSpec {
    TailsSpec {
        rate: Rate::from_mbps(200),
        mark_above: 65,
        clients: 3,
        calls: vec![(ByteCount::new(1_000_000), 3), (ByteCount::new(10_000), 6)],
        warm_up: std::time::Duration::from_millis(500),
        span: std::time::Duration::from_secs(2),
    }
}

/// So long at most, where two seconds say nothing.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(32);

/// Calls until some of each size have ended and it is `so`, or for the last time: each time for twice as long,
/// because of a busy machine.
fn calls_until(
    so: impl Fn(&TailsRun) -> bool,
    calls: impl Fn(&TailsSpec) -> Result<TailsRun, LiveError>,
) -> Result<TailsRun, LiveError> {
    let mut spec = spec();
    loop {
        let made = calls(&spec)?;
        let of_each_size = made.took.iter().all(|took| !took.is_empty());
        if of_each_size && so(&made) {
            return Ok(made);
        }
        println!("once more: {made:?}");
        spec.span *= 2;
        if spec.span > LONGEST {
            assert!(of_each_size);
            return Ok(made);
        }
    }
}

fn calls(receiver: Factory<dyn EcnFeedback>) -> Result<TailsRun, LiveError> {
    let registry = Registry::default();
    let tcp = TcpConfig {
        congestion: registry.congestion.get("dctcp:floor=1").unwrap(),
        rto: registry.rto.get("linux").unwrap(),
        detector: registry.detectors.get("rack-notlp").unwrap(),
        ecn_feedback: Some(receiver),
        ack: AckPolicy {
            delay: Duration::from_millis(40),
            every: 2,
            quick_acks: 0,
        },
        ..TcpConfig::default()
    };
    calls_until(|_| true, |spec| run_ours(spec, &tcp, &GO_ON))
}

/// In two seconds a hundred timeouts and more against none: a machine that is busy elsewhere for as
/// long as a timeout makes one on each of 27 connections.
#[test]
fn the_receiver_of_2015_makes_timeouts_without_a_drop_and_todays_does_not() {
    let old = match calls(Arc::new(|| Box::new(LinuxDctcp2015::default()))) {
        Ok(old) => old,
        Err(why) => return skip(&why.to_string()),
    };
    let today = calls(Arc::new(|| Box::new(LinuxDctcp::default()))).unwrap();
    let (old, today) = (old.counts, today.counts);
    assert!(old.marks > 0 && today.marks > 0);
    assert_eq!((old.drops, today.drops), (0, 0));
    assert!(old.timeouts > 0);
    assert!(
        today.timeouts * 2 < old.timeouts,
        "{} timeouts today, {} in 2015",
        today.timeouts,
        old.timeouts
    );
}

/// With CUBIC the kernel's senders fill the buffer of the port, which is ten times DCTCP's queue; DCTCP, where
/// the kernel has it, keeps the queue at the threshold.
#[test]
fn hosts_of_the_kernels_call_with_what_their_kernel_has() {
    let of_the_kernels = |congestion, so: fn(f64) -> bool| {
        calls_until(
            |made| so(made.mean_queue),
            |spec| run(spec, congestion, &GO_ON),
        )
    };
    let cubic = match of_the_kernels("cubic", |queue| queue > 200.0) {
        Ok(cubic) => cubic,
        Err(why) => return skip(&why.to_string()),
    };
    assert_eq!(cubic.counts.marks, 0);
    assert!(cubic.mean_queue > 200.0, "{cubic:?}");
    match of_the_kernels("dctcp", |queue| queue < 130.0) {
        Ok(dctcp) => {
            assert!(dctcp.counts.marks > 0, "{:?}", dctcp.counts);
            assert!(dctcp.mean_queue < 130.0, "{}", dctcp.mean_queue);
        }
        Err(LiveError::NoCongestion { name, .. }) => assert_eq!(name, "dctcp"),
        Err(other) => panic!("{other}"),
    }
    let none = run(&spec(), "no-such", &GO_ON).unwrap_err();
    assert!(none.to_string().contains("cubic"), "{none}");
}
