//! `run`: how long, how often, with which seed.

use crate::knob;
use crate::knob::{Kind, Knob, Knobs};
use narrows::Duration;

/// How long, how often, with which seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Simulated time at most; a run whose traffic is all done is over sooner.
    pub duration: Duration,
    /// What comes before is not measured.
    pub warm_up: Duration,
    /// Seed of everything random.
    pub seed: u64,
    /// Runs of each point, each with a seed of its own.
    pub repetitions: u32,
    /// Serialise and parse every packet on its way.
    pub wire: bool,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(600),
            warm_up: Duration::ZERO,
            seed: 1,
            repetitions: 1,
            wire: false,
        }
    }
}

impl Knobs for Run {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { duration: "duration", "duration", Kind::SPAN,
        "Simulated time at most; a run whose traffic is all done is over sooner." },
        knob! { warm_up: "warm_up", "warm-up", Kind::TIME,
        "What comes before is not measured." },
        knob! { seed: "seed", "seed", Kind::Whole { least: 0, most: u64::MAX }, "Seed of everything random." },
        knob! { repetitions: "repetitions", "repetitions", Kind::Whole { least: 1, most: 10_000 },
        "Runs of each point, each with a seed of its own; with more than one: mean and 95 % interval." },
        knob! { wire: "wire", "wire", Kind::Switch,
        "Serialise and parse every packet on its way; changes no result." },
    ];
}
