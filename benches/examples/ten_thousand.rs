//! `ten_thousand [SERVERS] [BYTES]`: one block of an incast, 10,000 servers of 256 KB unless told
//! otherwise. For a look at its memory: `/usr/bin/time -v` names the peak.

use narrows_benches::incast::{run, spec};

fn main() {
    let mut args = std::env::args()
        .skip(1)
        .map(|n| n.parse::<u64>().expect("a number"));
    let servers = args.next().unwrap_or(10_000) as u32;
    let run = run(&spec(servers, args.next().unwrap_or(256_000), 1));
    println!(
        "{servers} servers: {} data packets, {} events, {} timeouts, simulated {}",
        run.data_packets,
        run.events,
        run.timeouts.total(),
        run.simulated,
    );
}
