//! What `narrows flows` counts, in runs as people make them.

use serde_json::Value;
use std::process::Command;

/// The record of a run with these words.
fn record(line: &str) -> Value {
    let run = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .arg("flows")
        .args(line.split_whitespace())
        .args(["--quiet", "--json", "-"])
        .output()
        .unwrap();
    assert!(run.status.success(), "{line}: {run:?}");
    serde_json::from_slice(&run.stdout).unwrap()
}

/// The end of slow start, with hundreds of gaps in one window: what came behind them is kept, and
/// what was lost is sent again, nothing else.
#[test]
fn a_window_with_hundreds_of_gaps_is_kept() {
    for line in [
        "-n 1 --rate 10Gb/s --rtt 20ms --buffer 1MiB --rto 10ms --duration 2s --warm-up 0s",
        "-n 1 --rate 10Gb/s --rtt 20ms --buffer 8MiB --ecn-threshold off --duration 2s --warm-up 0s",
    ] {
        let run = record(line);
        let flow = &run["flows"][0];
        let dropped = run["dropped"].as_u64().unwrap();
        let again = flow["retransmits"].as_u64().unwrap();
        assert!(dropped > 1_000, "{line}: {dropped}");
        assert_eq!(flow["out_of_order_dropped"].as_u64(), Some(0), "{line}");
        assert!(again <= dropped, "{line}: {again} for {dropped}");
    }
}
