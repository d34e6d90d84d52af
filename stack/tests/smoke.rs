//! Transfers between two connections over a path that loses, delays and marks.

use crate::pair::{Fate, Pair, bytes};
use narrows::config::TcpConfig;
use narrows::conn::Event;
use narrows::conn::state::{CloseReason, State};
use narrows::{Duration, Instant};

#[test]
fn clean_transfer_and_close() {
    let mut p = Pair::connected(TcpConfig::default(), TcpConfig::default());
    let data = bytes(2_000_000);
    let took = p.transfer(&data, Duration::from_secs(5));
    assert!(
        p.server_got == data,
        "got {} of {}",
        p.server_got.len(),
        data.len()
    );
    assert!(took < Duration::from_millis(50), "took {took}");
    assert_eq!(p.client.sender_stats().retransmits, 0);
    p.client.close(p.now);
    p.run_for(Duration::from_millis(1));
    assert!(p.server_events.contains(&Event::PeerClosed));
    assert_eq!(p.client.state(), State::FinWait2);
    let now = p.now;
    p.server().close(now);
    p.run_for(Duration::from_millis(1));
    assert_eq!(p.client.state(), State::TimeWait);
    assert_eq!(p.server().state(), State::Closed(CloseReason::Finished));
    p.run_for(Duration::from_secs(61));
    assert_eq!(p.client.state(), State::Closed(CloseReason::Finished));
    assert_eq!(p.client.poll_timeout(), None);
}

#[test]
fn one_loss_is_repaired_without_a_timeout() {
    for (name, detector) in [
        (
            "newreno",
            narrows::recovery::detector::standard()
                .get("newreno")
                .unwrap(),
        ),
        (
            "reno",
            narrows::recovery::detector::standard().get("reno").unwrap(),
        ),
        (
            "sack",
            narrows::recovery::detector::standard().get("sack").unwrap(),
        ),
        (
            "rack",
            narrows::recovery::detector::standard().get("rack").unwrap(),
        ),
    ] {
        let config = TcpConfig {
            detector,
            ..TcpConfig::default()
        };
        let mut p = Pair::connected(config.clone(), config);
        p.path = Box::new(|s, n| {
            if s.from_client && n == 30 {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        let data = bytes(200 * 1448);
        let took = p.transfer(&data, Duration::from_secs(5));
        assert!(p.server_got == data, "{name}");
        assert!(took < Duration::from_millis(20), "{name} took {took}");
        let stats = p.client.sender_stats();
        assert_eq!(
            (stats.timeouts, stats.retransmits, stats.fast_recoveries),
            (0, 1, 1),
            "{name} {stats:?}"
        );
    }
}

#[test]
fn a_lost_tail_needs_the_timer_or_a_probe() {
    for (name, timeouts) in [("sack", 1), ("rack", 0)] {
        let detector = narrows::recovery::detector::standard().get(name).unwrap();
        let config = TcpConfig {
            detector,
            ..TcpConfig::default()
        };
        let mut p = Pair::connected(config.clone(), config);
        p.path = Box::new(|s, n| {
            if s.from_client && n == 20 {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        let data = bytes(20 * 1448);
        let took = p.transfer(&data, Duration::from_secs(5));
        assert!(p.server_got == data, "{name}");
        assert_eq!(
            p.client.sender_stats().timeouts,
            timeouts,
            "{name} took {took}"
        );
    }
}

#[test]
fn every_third_packet_lost_both_ways() {
    let mut p = Pair::new(TcpConfig::default(), TcpConfig::default());
    p.path = Box::new(|_, n| if n % 3 == 0 { Fate::Drop } else { Fate::Pass });
    p.run_for(Duration::from_secs(30));
    let data = bytes(100_000);
    p.transfer(&data, Duration::from_secs(1_000));
    assert!(p.server_got == data, "got {}", p.server_got.len());
    let _ = Instant::ZERO;
}
