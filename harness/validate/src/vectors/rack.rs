//! RFC 8985: when a probe leaves, and how long a segment may be overtaken.

use super::peer::{Peer, textbook};
use super::{Run, millis};
use crate::{Bench, Expected, Measured, Row, Tolerance};
use narrows::Duration;
use narrows::config::{AckPolicy, InitialWindow, TcpConfig};

const RTT: Duration = Duration::from_millis(100);

/// The checks of `vectors/rfc8985`.
pub(super) fn run(bench: &mut Bench<'_>) -> Run {
    let max_ack_delay = Duration::from_millis(200);
    for (segments, delay, what, reference) in [
        (5, max_ack_delay, "several in flight: 2 SRTT", 200.0),
        (
            1,
            Duration::ZERO,
            "one in flight, no ACK delay: 2 SRTT",
            200.0,
        ),
        (
            1,
            max_ack_delay,
            "one in flight: 2 SRTT + maximum ACK delay of 200 ms",
            400.0,
        ),
    ] {
        let ours = probe_after(segments, delay);
        let what = format!("PTO, SRTT 100 ms, {what}");
        bench.row(row(what, "section 7.2", reference, ours));
    }
    bench.row(row(
        "PTO before the first RTT sample".to_owned(),
        "section 7.2",
        1_000.0,
        millis(narrows::recovery::tlp::pto(
            &narrows::congestion::RttEstimator::new(),
            false,
            max_ack_delay,
        )),
    ));
    for (sacked, reference, what) in [
        (1, 25.0, "min_RTT / 4"),
        (2, 25.0, "min_RTT / 4, two segments SACKed"),
        (3, 0.0, "none, three segments SACKed and no reordering seen"),
    ] {
        let what = format!("reordering window, min_RTT 100 ms: {what}");
        let ours = patience(sacked, false);
        bench.row(row(what, "section 6.2 step 4", reference, ours));
    }
    bench.row(row(
        "reordering window, min_RTT 100 ms: min_RTT / 4 for three SACKed once reordering was seen"
            .to_owned(),
        "section 6.2 step 4",
        25.0,
        patience(3, true),
    ));
    Ok(())
}

/// How long after the last of `segments` the probe leaves, in ms.
fn probe_after(segments: u64, max_ack_delay: Duration) -> f64 {
    let config = TcpConfig {
        ack: AckPolicy {
            delay: max_ack_delay,
            ..AckPolicy::IMMEDIATE
        },
        ..textbook("rack", "rfc6298")
    };
    let mut peer = Peer::connected(config, 1, RTT);
    peer.write(segments);
    let sent = peer.now;
    let probe = peer.timer();
    match probe.as_slice() {
        [(at, Some(segment))] if *segment == segments - 1 => millis(at.since(sent)),
        _ => f64::NAN,
    }
}

/// By how much the first of ten segments may be late, beyond the round trip, until it is sent
/// again when `sacked` of its successors have been delivered; in ms.
fn patience(sacked: u64, reordering_seen: bool) -> f64 {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(12),
        ..textbook("rack", "rfc6298")
    };
    let mut peer = Peer::connected(config, 1, RTT);
    let mut first = 0;
    if reordering_seen {
        peer.write(2);
        peer.wait(RTT);
        peer.ack(0, &[(1, 2)]);
        peer.ack(2, &[]);
        first = 2;
    }
    peer.write(10);
    let sent = peer.now;
    peer.wait(RTT);
    // All ten left at one instant, so that the one delivered last took just an RTT.
    let at = match peer.ack(first, &[(first + 1, first + 1 + sacked)]).first() {
        Some((at, Some(segment))) if *segment == first => *at,
        _ => loop {
            let sent = peer.timer();
            match sent.iter().find(|s| s.1 == Some(first)) {
                Some((at, _)) => break *at,
                None if peer.deadline().is_none() => return f64::NAN,
                None => {}
            }
        },
    };
    millis(at.since(sent)) - millis(RTT)
}

fn row(what: String, section: &str, reference: f64, ours: f64) -> Row {
    Row::new(
        what,
        format!("RFC 8985, {section}"),
        Expected::Value(reference),
        Measured::Value(ours),
        "ms",
        Tolerance::Exact,
    )
}
