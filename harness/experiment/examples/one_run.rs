//! One incast run without the command line: `cargo run --release --example one_run 32 dctcp 1ms`.

use narrows_experiment::model::Experiment;
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::{IncastRun, RunContext};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let registry = Registry::default();
    let mut incast = Experiment::shipped(&registry, "incast");
    for (key, value) in ["servers", "cc", "rto"]
        .iter()
        .zip(std::env::args().skip(1))
    {
        incast = incast.set(key, value);
    }
    let incast = incast.build()?;
    let run = IncastRun::from(&incast.run(&registry, RunContext::default())?);
    println!(
        "{} servers, {} with RTO {}: goodput {}, {} timeouts, {} drops, {} marks, {} data packets, {} events, simulated {}, {:?}",
        incast.get("group.servers.size").unwrap_or_default(),
        incast.host.tcp.congestion,
        incast.host.tcp.rto,
        run.goodput,
        run.timeouts.total(),
        run.drops.total(),
        run.marks,
        run.data_packets,
        run.events,
        run.simulated,
        run.outcome,
    );
    Ok(())
}
