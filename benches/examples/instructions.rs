//! `instructions WORKLOAD COUNT`: does a fixed workload COUNT times and prints how many
//! operations that were. `instructions.sh` counts what the difference between two counts costs.

use narrows_benches::acks::{AckPath, WINDOW};
use narrows_benches::exchanges::Exchanges;
use narrows_benches::fabric::data_packets;
use narrows_benches::incast::{run, spec, with_ledger};
use narrows_benches::ledger::Ledger;
use narrows_benches::racks;
use narrows_benches::segments::{Bare, Wired, segments};

const BYTES: usize = 256 << 10;
/// As many connections.
const EXCHANGES: u32 = 1_000;

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(workload), Some(Ok(count))) = (args.next(), args.next().map(|n| n.parse::<u32>()))
    else {
        eprintln!("usage: instructions WORKLOAD COUNT");
        std::process::exit(2);
    };
    let acks = u64::from(WINDOW);
    let operations = match workload.as_str() {
        "segment" | "segment-without-copies" | "segment-by-reference" => {
            let mut pair = match workload.as_str() {
                "segment" => Wired::connected(),
                "segment-by-reference" => Wired::connected_by_reference(),
                _ => Wired::connected_without_copies(),
            };
            (0..count).for_each(|_| pair.transfer(BYTES));
            segments(BYTES) * u64::from(count)
        }
        "segment-without-wire" => {
            let mut pair = Bare::connected();
            (0..count).for_each(|_| pair.transfer(BYTES));
            segments(BYTES) * u64::from(count)
        }
        "ack-reno" | "ack-cubic" | "ack-dctcp" => {
            let mut path = AckPath::new(&workload["ack-".len()..]);
            for _ in 0..count {
                path.fill();
                path.acknowledge();
            }
            acks * u64::from(count)
        }
        "ack-sack" => {
            let mut path = AckPath::new("fixed");
            for _ in 0..count {
                path.fill();
                path.selectively();
                path.repair();
            }
            acks * u64::from(count)
        }
        "exchange" => {
            let mut pair = Exchanges::connected(EXCHANGES as usize);
            (0..count).for_each(|_| pair.round());
            u64::from(EXCHANGES * count)
        }
        "incast-packet" => run(&spec(32, 64 << 10, count)).data_packets,
        "incast-packet-ledger" => run(&with_ledger(32, 64 << 10, count)).data_packets,
        "racks-packet" => data_packets(&racks::run(&racks::spec(count, Ledger::Left))),
        "racks-packet-ledger" => data_packets(&racks::run(&racks::spec(count, Ledger::Kept))),
        other => {
            eprintln!("no workload {other}");
            std::process::exit(2);
        }
    };
    println!("{operations}");
}
