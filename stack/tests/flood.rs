//! What is done for strangers while packets come in batches.

use crate::hosts::*;
use narrows::config::{TcpConfig, TimestampMode};
use narrows::endpoint::{EndpointConfig, StrangerLimit};

fn flooded(strangers: Option<StrangerLimit>) -> Host {
    let tcp = TcpConfig {
        timestamps: TimestampMode::Off,
        ..TcpConfig::default()
    };
    let mut host = Host::new(EndpointConfig {
        strangers,
        ..config(tcp, 7)
    })
    .unwrap();
    host.listen(addr(S), 1 << 16, None).unwrap();
    host
}

/// `count` SYNs from as many ports, from `first` on; how many were answered.
fn syns(host: &mut Host, first: u16, count: u16) -> usize {
    let mut answered = 0;
    for port in first..first + count {
        let syn = packet(&format!("10.0.0.1:{port}"), S, SYN, 1_000, 0);
        answered += give(host, start(), &syn).len();
    }
    answered
}

/// A crowd is served, and then so many a batch; established connections always are.
#[test]
fn strangers_are_served_so_many_a_batch() {
    let limit = StrangerLimit::default();
    let mut host = flooded(Some(limit));
    let nxt = shake(&mut host, start(), C, 500);
    host.begin_batch();
    assert_eq!(syns(&mut host, 10_000, 2_000), limit.burst as usize);
    assert_eq!(
        host.stats().strangers_dropped,
        2_000 - u64::from(limit.burst)
    );
    let mut seq = 501;
    for batch in 0..20 {
        host.begin_batch();
        let (first, count) = (15_000 + batch * 100, 60);
        assert_eq!(syns(&mut host, first, count), limit.per_batch as usize);
        // Text of the connection in the midst of it, and a RST of the flood, which asks nothing.
        for _ in 0..4 {
            let mut text = packet(C, S, ACK, seq, nxt);
            text.2 = vec![b'x'; 100];
            give(&mut host, start(), &text);
            seq += 100;
        }
        let reset = packet(&format!("10.0.0.1:{first}"), S, RST, 1_001, 0);
        assert!(give(&mut host, start(), &reset).is_empty());
    }
    // What was not served in quiet batches is made up for.
    for _ in 0..limit.burst {
        host.begin_batch();
    }
    assert_eq!(syns(&mut host, 20_000, 2_000), limit.burst as usize);
    let id = events(&mut host)
        .iter()
        .find_map(|e| match e {
            narrows::endpoint::EndpointEvent::Accepted { conn, .. } => Some(*conn),
            narrows::endpoint::EndpointEvent::Conn { .. } => None,
        })
        .unwrap();
    assert_eq!(read(&mut host, id, start()).len(), 20 * 4 * 100);
}

/// Segments for nothing at all are strangers, too: their resets are bounded.
#[test]
fn resets_to_strangers_are_bounded() {
    let limit = StrangerLimit {
        per_batch: 4,
        burst: 16,
    };
    let mut host = flooded(Some(limit));
    let mut answered = Vec::new();
    for _ in 0..5 {
        host.begin_batch();
        let mut count = 0;
        for port in 1..=64 {
            let stranger = packet(&format!("10.0.0.9:{port}"), "10.0.0.2:81", ACK, 1, 1);
            count += give(&mut host, start(), &stranger).len();
        }
        answered.push(count);
    }
    assert_eq!(answered, [16, 4, 4, 4, 4]);
}

/// Who takes packets one by one, or sets no limit, serves all.
#[test]
fn without_batches_or_a_limit_all_strangers_are_served() {
    let mut host = flooded(Some(StrangerLimit::default()));
    assert_eq!(syns(&mut host, 10_000, 3_000), 3_000);
    let mut host = flooded(None);
    host.begin_batch();
    assert_eq!(syns(&mut host, 10_000, 3_000), 3_000);
}
