//! What `narrows flows` counts, in runs as people make them.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

/// The first flow of a run with these words and what its port dropped: goodput over the time that
/// was measured, retransmissions, what the receiver did not keep, packets dropped.
struct Flow {
    goodput: f64,
    retransmits: u64,
    out_of_order_dropped: u64,
    dropped: u64,
}

fn flow(line: &str) -> Flow {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = env::temp_dir().join(format!("narrows-flows-{}-{number}", std::process::id()));
    let run = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .arg("flows")
        .args(line.split_whitespace())
        .args(["--quiet", "--out", folder.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(run.status.success(), "{line}: {run:?}");
    let of = |table: &str, column: &str| -> String {
        let text = fs::read_to_string(folder.join(table)).unwrap();
        let mut lines = text.lines();
        let at = lines.next().unwrap().split(',').position(|c| c == column);
        let row: Vec<&str> = lines.next().unwrap().split(',').collect();
        row[at.unwrap_or_else(|| panic!("{column}"))].to_owned()
    };
    let whole = |table, column| of(table, column).parse::<u64>().unwrap();
    let flow = Flow {
        goodput: of("flows.csv", "goodput_bps").parse().unwrap(),
        retransmits: whole("flows.csv", "retransmits"),
        out_of_order_dropped: whole("flows.csv", "out_of_order_dropped"),
        dropped: whole("runs.csv", "drops"),
    };
    fs::remove_dir_all(&folder).unwrap();
    flow
}

/// The end of slow start, with hundreds of gaps in one window: what came behind them is kept, and
/// what was lost is sent again, nothing else.
#[test]
fn a_window_with_hundreds_of_gaps_is_kept() {
    for line in [
        "-n 1 --rate 10Gb/s --rtt 20ms --buffer 1MiB --rto 10ms --duration 2s --warm-up 0s",
        "-n 1 --rate 10Gb/s --rtt 20ms --buffer 8MiB --ecn-threshold off --duration 2s --warm-up 0s",
    ] {
        let flow = flow(line);
        let (dropped, again) = (flow.dropped, flow.retransmits);
        assert!(dropped > 1_000, "{line}: {dropped}");
        assert_eq!(flow.out_of_order_dropped, 0, "{line}");
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
            let flow = flow(&format!(
                "{line} --cc {cc} --timestamps {timestamps} --seed {seed}"
            ));
            (flow.goodput / 1e6, flow.retransmits)
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
