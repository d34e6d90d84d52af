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

/// One packet of data in twenty is late by a quarter of the round trip, which RACK waits for
/// (RFC 8985 section 6.2): the flow has the link to itself as if none were, and what was dropped is
/// what is sent again, about. With timestamps each loss makes more: what left before a
/// retransmission and comes after it is refused (RFC 7323 section 5.3, R1) and lost.
#[test]
fn rfc8985_6_2_late_packets_cost_nothing_without_timestamps() {
    let line = "-n 1 --loss rack --rate 100Mb/s --rtt 20ms --buffer 256KiB --ecn-threshold off \
                --impair reorder=5%,hold=5ms-5ms,on=data --duration 10s";
    for cc in ["reno", "cubic"] {
        let run = |timestamps: &str, seed: u32| {
            let run = record(&format!(
                "{line} --cc {cc} --timestamps {timestamps} --seed {seed}"
            ));
            let flow = &run["flows"][0];
            let goodput = flow["goodput_bps"].as_f64().unwrap() / 1e6;
            (goodput, flow["retransmits"].as_u64().unwrap())
        };
        let mut again = [0, 0];
        for seed in 1..=3 {
            let (goodput, resent) = run("off", seed);
            // Of 94.9 that a link of 100 carries.
            assert!(goodput > 0.9 * 94.9, "{cc}, seed {seed}: {goodput} Mb/s");
            again[0] += resent;
            again[1] += run("on", seed).1;
        }
        assert!(again[0] * 2 < again[1], "{cc}: {again:?}");
    }
}
