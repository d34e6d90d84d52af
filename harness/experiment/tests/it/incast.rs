//! Incasts, for the tests beside this.

use narrows_experiment::model::Experiment;
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::{IncastRun, RunContext};

/// The port to the client.
pub(crate) const PORT: &str = r#"network.port."s0->h0".queue"#;

/// What ships as `name`, with these values of keys or short names.
pub(crate) fn shipped(name: &str, values: &[(&str, &str)]) -> Experiment {
    let registry = Registry::default();
    let built = Experiment::shipped(&registry, name).build();
    with(&built.unwrap_or_else(|e| panic!("{e}")), values)
}

/// The same with other values.
pub(crate) fn with(experiment: &Experiment, values: &[(&str, &str)]) -> Experiment {
    let mut experiment = experiment.clone();
    for (key, value) in values {
        let set = experiment.set(&Registry::default(), key, value);
        set.unwrap_or_else(|e| panic!("{key}: {e}"));
    }
    experiment
}

/// Things that go wrong on the client's link: to it, from it.
pub(crate) fn impaired(
    experiment: &Experiment,
    to: bool,
    from: bool,
    what: &[(&str, &str)],
) -> Experiment {
    let mut experiment = experiment.clone();
    for (port, wanted) in [("s0->h0", to), ("h0->s0", from)] {
        for (key, value) in what.iter().filter(|_| wanted) {
            let key = format!(r#"network.port."{port}".link.{key}"#);
            experiment = with(&experiment, &[(&key, value)]);
        }
    }
    experiment
}

/// Its run.
pub(crate) fn run(experiment: &Experiment, ctx: RunContext<'_>) -> IncastRun {
    let run = experiment.run(&Registry::default(), ctx);
    IncastRun::from(&run.unwrap_or_else(|e| panic!("{e}")))
}

/// Its run, and the capture of the client's link.
pub(crate) fn captured(experiment: &Experiment) -> (IncastRun, Vec<u8>) {
    let mut file = Vec::new();
    let ctx = RunContext {
        capture: Some(&mut file),
        ..RunContext::default()
    };
    (run(experiment, ctx), file)
}
