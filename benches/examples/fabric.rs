//! `fabric FILE [KEY=VALUE...]`: one run of an experiment, in this thread and without tables or
//! reports, as lines of NAME VALUE. What it takes is for `/usr/bin/time -v` or `benches/beside_ns3.py` to say.

use narrows_benches::fabric::{data_packets, load, run, set};

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("an experiment's file");
    let text = std::fs::read_to_string(&path).expect("a file");
    let mut experiment = load(&text);
    for pair in args {
        let (key, value) = pair.split_once('=').expect("KEY=VALUE");
        set(&mut experiment, key, value);
    }
    let run = run(&experiment);
    let timeouts: u64 = run.flows.iter().map(|flow| flow.timeouts()).sum();
    println!("packets {}", data_packets(&run));
    println!("transfers {}", run.transfers.len());
    println!("received {}", run.delivered().get());
    println!("timeouts {timeouts}");
    println!("simulated {:.9}", run.simulated.as_nanos() as f64 / 1e9);
    println!("events {}", run.events);
}
