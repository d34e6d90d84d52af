//! What checks run: experiments that ship or are built here, with other values.

use narrows::{Duration, Rate};
use narrows_experiment::builder::ToValue;
use narrows_experiment::model::Experiment;
use narrows_experiment::registry::Registry;

/// What ships as `name`, as one run.
///
/// # Panics
/// If there is none; each check is run by a test or by `narrows validate`.
pub(crate) fn shipped(name: &str) -> Experiment {
    let built = Experiment::shipped(&Registry::default(), name).build();
    built.unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Sets a key, or what a short name stands for.
///
/// # Panics
/// If there is no such key, or it cannot be that.
pub(crate) fn put(experiment: &mut Experiment, key: &str, value: impl ToValue) {
    let set = experiment.set(&Registry::default(), key, &value.to_value());
    set.unwrap_or_else(|e| panic!("{key}: {e}"));
}

/// The same with another seed.
pub(crate) fn seeded(experiment: &Experiment, seed: u64) -> Experiment {
    let mut experiment = experiment.clone();
    experiment.run.seed = seed;
    experiment
}

/// `senders` flows without end to one receiver, host 0 of a star. All links have `rate` and a
/// quarter of `rtt` each way. Ports of 4 MB with drop-tail, CUBIC, a receive window of 512 MiB, no
/// warm-up, one second.
pub(crate) fn long_lived(senders: u32, rate: Rate, rtt: Duration) -> Experiment {
    let registry = Registry::default();
    let mut flows = Experiment::builder(&registry)
        .topology("star")
        .set("network.hosts", senders + 1)
        .set("network.link.rate", rate)
        .set("network.link.delay", rtt / 4)
        .set("network.queue.limit", "4MiB")
        .set("network.queue.counting", "with-in-service")
        .set("host.nic.tx_queue", "1000p")
        .set("host.nic.overhead", "5us")
        .set("host.tcp.congestion", "cubic")
        .set("host.tcp.receive_window", "512MiB")
        .duration(Duration::from_secs(1));
    for sender in 1..=senders {
        flows = flows.traffic(&format!("flow-{sender}"), "bulk", |t| {
            t.set("from", format!("h{sender}")).set("to", "h0")
        });
    }
    flows.build().unwrap_or_else(|e| panic!("{e}"))
}

/// The receiver's link has `rate`, its senders' are ten times as fast.
pub(crate) fn fast_edges(flows: &mut Experiment, rate: Rate) {
    put(flows, "network.link.rate", rate.mul_ratio(10, 1));
    receiver_rate(flows, rate);
}

/// Both ways of the receiver's link.
pub(crate) fn receiver_rate(flows: &mut Experiment, rate: Rate) {
    put(flows, r#"network.port."h0->s0".link.rate"#, rate);
    put(flows, r#"network.port."s0->h0".link.rate"#, rate);
}
