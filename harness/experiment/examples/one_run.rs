//! One incast run without the command line: `cargo run --release --example one_run 32 dctcp 1ms`.

use narrows_experiment::scenario::incast::Incast;
use narrows_experiment::scenario::{IncastRunner, IncastSpec, RunContext};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut spec = IncastSpec::default();
    if let Some(n) = args.first() {
        spec.servers = n.parse().expect("number of servers");
    }
    if let Some(cc) = args.get(1) {
        spec.tcp.congestion = cc.clone();
    }
    if let Some(rto) = args.get(2) {
        spec.tcp.rto = rto.clone();
    }
    match Incast::default().run(&spec, RunContext::default()) {
        Ok(run) => println!(
            "{} servers, {} with RTO {}: goodput {}, {} timeouts, {} drops, {} marks, {} data packets, {} events, simulated {}, {:?}",
            spec.servers,
            spec.tcp.congestion,
            spec.tcp.rto,
            run.goodput,
            run.timeouts.total(),
            run.drops.total(),
            run.marks,
            run.data_packets,
            run.events,
            run.simulated,
            run.outcome,
        ),
        Err(e) => eprintln!("{e}"),
    }
}
