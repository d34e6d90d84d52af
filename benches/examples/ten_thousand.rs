//! `ten_thousand [SERVERS] [BYTES] [paced]`: one block of an incast, 10,000 servers of 256 KB
//! unless told otherwise. For a look at its memory (`/usr/bin/time -v` names the peak) and at its
//! cache misses (`valgrind --tool=cachegrind`). `paced` is the traffic of that name in `flatness`.

use narrows_benches::incast::{paced, run, spec};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| args.get(i).map(|n| n.parse::<u64>().expect("a number"));
    let servers = number(0).unwrap_or(10_000) as u32;
    let bytes = number(1).unwrap_or(256_000);
    let spec = match args.get(2).map(String::as_str) {
        None => spec(servers, bytes, 1),
        Some("paced") => paced(servers, bytes, 1),
        Some(other) => panic!("{other}: the only other traffic is \"paced\""),
    };
    let run = run(&spec);
    println!(
        "{servers} servers: {} data packets, {} events, {} timeouts, simulated {}",
        run.data_packets,
        run.events,
        run.timeouts.established(),
        run.simulated,
    );
}
