//! Runs of the experiment `racks`: 96 hosts in six racks, switches whose ports mark and share a pool.

use narrows_experiment::model::Experiment;
use narrows_experiment::run::RunOutcome;
use narrows_experiment::scenario::RunContext;
use narrows_explain::simulated::registry;

use crate::ledger::Ledger;

/// Three racks of stores and as many of workers with DCTCP, for so many times 50 us after the millisecond that
/// handshakes have.
///
/// # Panics
/// If the experiment that ships is another one.
pub fn spec(spans: u32, ledger: Ledger) -> Experiment {
    let registry = registry();
    let racks = Experiment::shipped(&registry, "racks")
        .set("workers", "h48..h95")
        .set("cc", "dctcp")
        .set("run.warm_up", "0s")
        .set("run.duration", format!("{}us", 1_000 + 50 * spans));
    ledger
        .of(racks)
        .build()
        .expect("the experiment is possible")
}

/// Run it to the end.
///
/// # Panics
/// If it cannot be run.
pub fn run(experiment: &Experiment) -> RunOutcome {
    experiment
        .run(&registry(), RunContext::default())
        .expect("the experiment is possible")
}
