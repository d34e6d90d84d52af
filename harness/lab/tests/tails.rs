//! The twin of the story `rack tails`: calls through a port of the kernel's that marks.
//!
//! Held is what a loud machine cannot turn round. Where the machine cannot, the test is skipped with
//! a message; with `CI=true` it fails.
#![cfg(target_os = "linux")]

use narrows::config::{AckPolicy, TcpConfig};
use narrows::conn::ecn::{EcnFeedbackFactory, LinuxDctcp, LinuxDctcp2015};
use narrows::{ByteCount, Duration, Rate};
use narrows_experiment::registry::Registry;
use narrows_lab::LiveError;
use narrows_lab::tails::{TailsRun, TailsSpec, run};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn calls(receiver: Arc<dyn EcnFeedbackFactory>) -> Result<TailsRun, LiveError> {
    let registry = Registry::default();
    let spec = TailsSpec {
        tcp: TcpConfig {
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
        },
        rate: Rate::from_mbps(200),
        mark_above: 65,
        clients: 3,
        calls: vec![(ByteCount::new(1_000_000), 3), (ByteCount::new(10_000), 6)],
        warm_up: std::time::Duration::from_millis(500),
        span: std::time::Duration::from_secs(2),
    };
    run(&spec, &AtomicBool::new(false))
}

/// In two seconds a hundred timeouts and more against none: a machine that is busy elsewhere for as
/// long as a timeout makes one on each of 27 connections.
#[test]
fn the_receiver_of_2015_makes_timeouts_without_a_drop_and_todays_does_not() {
    let old = match calls(Arc::new(LinuxDctcp2015::default)) {
        Ok(old) => old,
        Err(why) => {
            let ci = std::env::var("CI").is_ok_and(|v| v == "true");
            assert!(!ci, "{why}");
            eprintln!("SKIPPED: {why}");
            return;
        }
    };
    let today = calls(Arc::new(LinuxDctcp::default)).unwrap();
    assert!(old.marks > 0 && today.marks > 0);
    assert_eq!((old.drops, today.drops), (0, 0));
    assert!(old.timeouts > 0);
    assert!(
        today.timeouts * 2 < old.timeouts,
        "{} timeouts today, {} in 2015",
        today.timeouts,
        old.timeouts
    );
    assert!(today.took.iter().all(|took| !took.is_empty()));
}
