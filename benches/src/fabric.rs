//! Experiments on a leaf-spine, from the files in `benches/experiments`.

use narrows_experiment::file::Loaded;
use narrows_experiment::model::Experiment;
use narrows_experiment::registry::Registry;
use narrows_experiment::run::RunOutcome;
use narrows_experiment::scenario::RunContext;

/// The files that the benches run, by the name of their traffic.
pub const FILES: [(&str, &str); 2] = [
    ("shuffle", include_str!("../experiments/shuffle-256.toml")),
    ("fan-out", include_str!("../experiments/fan-out-256.toml")),
];

/// The experiment of a file's text, which has no `file:PATH` and no sweep.
///
/// # Panics
/// If it is none.
pub fn load(text: &str) -> Experiment {
    Loaded::parse("benches/experiments", text, &Registry::default())
        .expect("an experiment")
        .experiment
}

/// Sets a key to another value.
///
/// # Panics
/// If there is no such key, or it cannot have this value.
pub fn set(experiment: &mut Experiment, key: &str, value: &str) {
    experiment
        .set(&Registry::default(), key, value)
        .expect("a key and its value");
}

/// Run it to the end.
///
/// # Panics
/// If it cannot be run.
pub fn run(experiment: &Experiment) -> RunOutcome {
    experiment
        .run(&Registry::default(), RunContext::default())
        .expect("the experiment is valid")
}

/// Segments with data that were sent, retransmissions included.
pub fn data_packets(run: &RunOutcome) -> u64 {
    run.flows.iter().map(|flow| flow.sender.segments).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_can_be_run() {
        let large = ("2,000", include_str!("../experiments/fabric-2000.toml"));
        for (name, text) in FILES.into_iter().chain([large]) {
            let checked = load(text).check(&Registry::default());
            checked.unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}
