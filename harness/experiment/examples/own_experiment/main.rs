//! An experiment of which everything is one's own: topology, queue discipline, traffic, probe, metric
//! and congestion control, each in a file and registered in a line. The same words stand in TOML
//! files then.
//!
//! ```text
//! cargo run --release -p narrows-experiment --example own_experiment
//! ```

mod congestion;
mod metric;
mod probe;
mod queue;
mod topology;
mod traffic;

use narrows_experiment::builder::BuildErrors;
use narrows_experiment::model::{Experiment, Invalid};
use narrows_experiment::registry::Registry;
use narrows_experiment::study::Study;
use std::error::Error;
use std::fmt::Write as _;

/// What narrows brings along, and what is here.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.topologies.register(topology::rack_ring());
    queue::register(registry.disciplines_mut());
    registry.traffic.register(traffic::kind());
    registry.probes.register(probe::kind());
    registry.metrics.register(metric::stretch());
    let about = "Reno that gives up a quarter";
    let congestion = registry.congestion_mut();
    congestion.register("gentle", about, congestion::Gentle::new);
    registry
}

/// Copies between racks in a ring, by congestion control and load.
pub(crate) fn experiment(registry: &Registry) -> Result<Experiment, BuildErrors> {
    Experiment::builder(registry)
        .title("Copies between racks in a ring")
        .topology("rack-ring")
        .set("network.racks", 4)
        .set("network.hosts", 3)
        .set("network.queue.limit", "64KiB")
        .traffic("copies", "mirror", |t| {
            t.set("size", "200kB").set("count", 20)
        })
        .probe("busy", "occupancy", |p| p.set("on", "rack0->rack1"))
        .vary("host.tcp.congestion", ["reno", "gentle"])
        .vary("traffic.copies.every", ["8ms", "4ms"])
        .repetitions(3)
        .build()
}

/// A line for each point.
pub(crate) fn table(study: &Study) -> Result<String, Invalid> {
    let mut text = String::from("congestion  every  goodput         stretch  busy\n");
    for point in study.points() {
        let value = |key| point.value(key).unwrap_or_default();
        let goodput = point.metric("goodput")?;
        let _ = writeln!(
            text,
            "{:<11} {:<6} {:>4.0} ± {:<2.0} Mb/s  {:>7.2}  {:>3.0} %",
            value("host.tcp.congestion"),
            value("traffic.copies.every"),
            goodput.mean / 1e6,
            goodput.ci95.unwrap_or_default() / 1e6,
            point.metric("latency.stretch")?.mean,
            point.metric("busy.rack0->rack1.share")?.mean * 100.0,
        );
    }
    Ok(text)
}

fn main() -> Result<(), Box<dyn Error>> {
    let registry = registry();
    let threads = std::thread::available_parallelism()?.get();
    let study = Study::run(&experiment(&registry)?, &registry, threads)?;
    print!("{}", table(&study)?);
    Ok(())
}
