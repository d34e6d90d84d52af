//! RFC 6298: samples in, timeouts out.

use super::peer::{MSS, Peer, textbook};
use super::{Run, micros, millis};
use crate::{Bench, Expected, Measured, Row, Tolerance};
use narrows::Duration;

const SOURCE: &str = "RFC 6298";

/// The checks of `vectors/rfc6298`.
pub(super) fn run(bench: &mut Bench<'_>) -> Run {
    samples(bench);
    backoff(bench);
    handshake(bench);
    Ok(())
}

/// Rules 2.2 and 2.3 without a floor: samples of 100, 200 and 100 us. SRTT is 100, 112.5, 110.9
/// and RTTVAR 50, 62.5, 50 us, so the RTO is their sum with four of the latter.
fn samples(bench: &mut Bench<'_>) {
    let us = Duration::from_micros;
    let mut peer = Peer::connected(textbook("sack", "fine"), 1, us(100));
    let mut rto = |what: &str, reference: f64, peer: &Peer| {
        let ours = micros(peer.conn.sender().current_rto());
        bench.row(row(what, "rules 2.2, 2.3", reference, ours, "µs", 0.05));
    };
    rto("RTO after 100 µs, no floor, G = 1 µs", 300.0, &peer);
    for (i, (rtt, what, reference)) in [
        (200, "RTO after 100, 200 µs", 362.5),
        (100, "RTO after 100, 200, 100 µs", 310.9),
    ]
    .into_iter()
    .enumerate()
    {
        peer.write(1);
        peer.wait(us(rtt));
        peer.ack(i as u64 + 1, &[]);
        rto(what, reference, &peer);
    }
}

/// Rules 5.4 to 5.6: each timeout doubles the next, up to the cap of rule 2.5.
fn backoff(bench: &mut Bench<'_>) {
    let mut peer = Peer::connected(textbook("sack", "rfc6298"), 1, Duration::from_micros(100));
    peer.write(1);
    let mut last = peer.now;
    let mut gaps = Vec::new();
    while gaps.len() < 8 {
        let sent = peer.timer();
        for (at, segment) in sent {
            debug_assert_eq!(segment, Some(0));
            gaps.push(at.since(last).as_millis() / 1_000);
            last = at;
        }
    }
    bench.row(exact(
        "seconds between retransmissions of one segment, floor 1 s, cap 60 s",
        "rules 2.4, 2.5, 5.5",
        &[1, 2, 4, 8, 16, 32, 60, 60],
        &gaps,
    ));
}

/// Rules 2.1 and 5.7: a SYN goes again after 1, 3 and 7 s; then the timeout for data is 3 s.
fn handshake(bench: &mut Bench<'_>) {
    let mut peer = Peer::opening(textbook("sack", "rfc6298"), 1);
    let opened = peer.now;
    let mut at = Vec::new();
    while at.len() < 3 {
        let sent = peer.timer();
        at.extend(sent.iter().map(|s| s.0.since(opened).as_millis() / 1_000));
    }
    bench.row(exact(
        "seconds at which an unanswered SYN goes again",
        "rules 2.1, 5.5",
        &[1, 3, 7],
        &at,
    ));
    peer.syn_ack();
    let sent = peer.write(1);
    debug_assert_eq!(sent.len(), 1, "{MSS} bytes are one segment");
    let ours = peer.deadline().map_or(f64::NAN, millis);
    let what = "RTO for data after the SYN had to go again";
    bench.row(row(what, "rule 5.7", 3_000.0, ours, "ms", 0.0));
}

fn row(what: &str, rule: &str, reference: f64, ours: f64, unit: &'static str, by: f64) -> Row {
    // The reference is printed with one decimal: half of that.
    let tolerance = match by {
        0.0 => Tolerance::Exact,
        by => Tolerance::Absolute(by),
    };
    let (reference, ours) = (Expected::Value(reference), Measured::Value(ours));
    Row::new(
        what,
        format!("{SOURCE}, {rule}"),
        reference,
        ours,
        unit,
        tolerance,
    )
}

fn exact(what: &str, rule: &str, reference: &[u64], ours: &[u64]) -> Row {
    Row::new(
        what,
        format!("{SOURCE}, {rule}"),
        Expected::Exactly(super::list(reference)),
        Measured::Text(super::list(ours)),
        "s",
        Tolerance::Exact,
    )
}
