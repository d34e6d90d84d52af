//! Captures of the Linux kernel's TCP (6.18): what is known of it from elsewhere holds in what is told.

use narrows_explain::{Analyzer, Config, Explanation, capture};

fn explained(file: &[u8]) -> Explanation {
    let mut analyzer = Analyzer::new(Config::default());
    let mut explanation = Explanation::new(10_000, 1_000);
    capture::read(file, |frame, _| analyzer.handle_packet(frame)).unwrap();
    analyzer.finish();
    explanation.take(&mut analyzer);
    explanation.finish();
    explanation
}

/// Two connections of iperf3 and the one that rules them, whose host lets 50 Mb/s out and drops what is more than
/// 60 kB (`tbf`), captured where that goes out. They last for 178 ms, and Linux has no timeout of less than 200 ms
/// (`TCP_RTO_MIN`): all that is sent again was asked for.
#[test]
fn what_a_sender_s_own_queue_dropped_and_held_is_no_timeout() {
    let told = explained(include_bytes!("captures/behind-own-queue.pcap.zst"));
    let filled: u64 = told.connections.iter().map(|c| c.counts[0].filled).sum();
    assert!(filled > 50, "{filled} were sent again");
    assert_eq!(told.connections.len(), 3);
    let last = told.connections.iter().map(|c| c.last.at).max();
    let first = told.connections.iter().map(|c| c.first.at).min();
    let lasted = last.zip(first).map(|(last, first)| last.since(first));
    assert!(lasted < Some(narrows::Duration::from_millis(200)));
    for gap in told.ledger.gaps() {
        assert!(!gap.cause.is_timeout(), "{gap:?}");
    }
}
