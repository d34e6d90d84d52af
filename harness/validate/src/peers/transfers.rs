//! What a transfer and an incast take when either end, or both, are smoltcp's.

use super::smoltcp::{Tcp, Transfer};
use crate::reference::Table;
use crate::{Bench, Expected, Measured, Row, Tolerance, Verdict};
use narrows::{ByteCount, Duration, Rate};
use narrows_experiment::scenario::ScenarioError;
use narrows_net::net::buffer::Capacity;

const TABLE: &str = include_str!("../../reference/smoltcp.csv");
const PAIRS: [(Tcp, Tcp); 4] = [
    (Tcp::Smoltcp, Tcp::Smoltcp),
    (Tcp::Smoltcp, Tcp::Ours),
    (Tcp::Ours, Tcp::Smoltcp),
    (Tcp::Ours, Tcp::Ours),
];
const SEEDS: u64 = 3;
/// Where the differences are explained.
const ANCHOR: &str = "smoltcp-waits-for-its-own-delayed-acks";
/// Payload of the segments: smoltcp's at an MTU of 1500.
const MSS: u64 = 1_460;
const BYTES: u64 = 2_000_000;

fn reference(table: &Table, case: &str) -> Option<f64> {
    let mut lines = table.lines();
    lines.find(|l| l.text("case") == case)?.number("value")
}

/// One of the TCPs sends 2 MB to another; packets are lost by number, and the first two of the
/// link are the handshake's.
pub(super) fn transfers(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(TABLE);
    let ends = BYTES.div_ceil(MSS);
    let cases: [(&str, &str, Vec<Vec<u64>>); 4] = [
        ("clean", "no loss", vec![vec![]]),
        ("one", "packet 500 lost", vec![vec![500]]),
        (
            "four",
            "packets 500, 502, 504, 506 lost",
            vec![vec![500, 502, 504, 506]],
        ),
        // Which is the last but one depends on how the sender cuts the stream.
        (
            "tail",
            "one of the last lost, the worst",
            (ends - 3..ends + 6).map(|n| vec![n]).collect(),
        ),
    ];
    for (case, what, losses) in cases {
        for (sender, receiver) in PAIRS {
            let took = |delays_acks| -> Result<f64, ScenarioError> {
                let mut worst: f64 = 0.0;
                for lost in &losses {
                    let transfer = Transfer {
                        sender,
                        receiver,
                        senders: 1,
                        bytes: BYTES,
                        rate: Rate::from_gbps(10),
                        delay: Duration::from_micros(10),
                        buffer: Capacity::Packets(1_000),
                        lost: lost.clone(),
                        delays_acks,
                    };
                    worst = worst.max(transfer.run(1)?.as_nanos() as f64 / 1e6);
                }
                Ok(worst)
            };
            let name = |with| {
                format!(
                    "2 MB from {} to {}{with}, 10 Gb/s, RTT 40 µs, {what}",
                    sender.name(),
                    receiver.name()
                )
            };
            let both = sender == Tcp::Smoltcp && receiver == Tcp::Smoltcp;
            let theirs = reference(&table, case).filter(|_| both);
            let theirs = theirs.map_or(Expected::Nothing, Expected::Value);
            let ours = Measured::Value(took(true)?);
            bench.row(row(name(""), &table.source, theirs, ours, "ms"));
            if both {
                let ours = Measured::Value(took(false)?);
                let name = name(" without delayed ACKs");
                bench.row(row(name, &table.source, Expected::Nothing, ours, "ms"));
            }
        }
    }
    Ok(())
}

/// One block of 256 KiB from each server at once.
pub(super) fn incast(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(TABLE);
    for (sender, receiver) in PAIRS {
        for senders in [1, 2, 4, 8] {
            let transfer = Transfer {
                sender,
                receiver,
                senders,
                bytes: 256 << 10,
                rate: Rate::from_gbps(1),
                delay: Duration::from_micros(25),
                buffer: Capacity::Bytes(ByteCount::new(64 << 10)),
                lost: Vec::new(),
                delays_acks: true,
            };
            let goodput = |seed| {
                let took = transfer.run(seed)?.as_nanos() as f64;
                Ok((u64::from(senders) * (256 << 10) * 8) as f64 * 1e3 / took)
            };
            let goodput: Result<Vec<_>, ScenarioError> = (1..=SEEDS).map(goodput).collect();
            let both = sender == Tcp::Smoltcp && receiver == Tcp::Smoltcp;
            let reference = match senders {
                1 => reference(&table, "incast 1").map(Expected::Value),
                _ => reference(&table, "incast 2").map(Expected::AtMost),
            };
            bench.row(row(
                format!(
                    "incast, {} servers, {} client, N = {senders}",
                    sender.name(),
                    receiver.name()
                ),
                &table.source,
                reference.filter(|_| both).unwrap_or(Expected::Nothing),
                Measured::spread(&goodput?),
                "Mb/s",
            ));
        }
    }
    Ok(())
}

fn row(what: String, source: &str, reference: Expected, ours: Measured, unit: &'static str) -> Row {
    let tolerance = match reference {
        Expected::Nothing => Tolerance::Shown,
        Expected::AtMost(_) => Tolerance::Exact,
        _ => Tolerance::Relative(0.1),
    };
    let row = Row::new(what, source, reference, ours, unit, tolerance);
    match row.verdict() {
        Verdict::Differs => row.explained(ANCHOR),
        _ => row,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn an_incast_of_smoltcp_collapses_at_two_servers() {
        let never = AtomicBool::new(false);
        let mut bench = Bench::new(&never, &|_| {});
        incast(&mut bench).unwrap();
        let (rows, _) = bench.into_findings();
        assert_eq!(rows.len(), PAIRS.len() * 4);
        for row in rows {
            assert_ne!(row.verdict(), Verdict::Differs, "{row:#?}");
            assert_ne!(row.verdict(), Verdict::Missing, "{row:#?}");
        }
    }
}
