//! Incast runs of a given size.

use narrows_experiment::builder::Builder;
use narrows_experiment::model::Experiment;
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::{IncastRun, Outcome, RunContext};
use narrows_explain::simulated::registry;

use crate::ledger::Ledger;

/// `blocks` synchronised reads of `sru` bytes from each of `servers` servers: 10 Gb/s, 25 us a
/// link, 64 KiB of port buffer, NewReno with SACK, RTOmin 1 ms, an ACK per segment.
pub fn spec(servers: u32, sru: u64, blocks: u32) -> Experiment {
    built(reads(&Registry::default(), servers, sru, blocks))
}

/// The same with the ledger of idle gaps.
pub fn with_ledger(servers: u32, sru: u64, blocks: u32) -> Experiment {
    let registry = registry();
    built(Ledger::Kept.of(reads(&registry, servers, sru, blocks)))
}

fn reads(registry: &Registry, servers: u32, sru: u64, blocks: u32) -> Builder<'_> {
    Experiment::shipped(registry, "incast")
        .set("servers", servers)
        .set("sru", format!("{sru}B"))
        .set("blocks", blocks)
        .set("rate", "10Gb/s")
        .set("buffer", "64KiB")
        .set("rto", "1ms")
}

fn built(reads: Builder<'_>) -> Experiment {
    reads.build().expect("the experiment is possible")
}

/// The same without losses, whatever the number of servers: each is held to two segments by the
/// client's window, and the port has room for those of all. So a packet is the same work for any
/// number of servers.
pub fn paced(servers: u32, sru: u64, blocks: u32) -> Experiment {
    let registry = Registry::default();
    let reads = reads(&registry, servers, sru, blocks)
        .set("rwnd", "2920B")
        .set("buffer", "1000000p")
        // The queue of so many takes longer than a millisecond.
        .set("rto", "linux");
    built(reads)
}

/// Run it to the end.
///
/// # Panics
/// If the run does not complete: what was to be measured did not happen.
pub fn run(experiment: &Experiment) -> IncastRun {
    let run = experiment
        .run(&registry(), RunContext::default())
        .expect("the experiment is possible");
    assert_eq!(run.outcome, Outcome::Completed);
    IncastRun::from(&run)
}
