//! `run`: how long, how often, with which seed.

use crate::knob;
use crate::knob::{Choice, Kind, Knob, Knobs};
use narrows::Duration;

/// How long, how often, with which seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Simulated time at most; a run whose traffic is all done is over sooner.
    pub duration: Duration,
    /// What comes before is not measured.
    pub warm_up: Duration,
    /// From when both count.
    pub clock: Clock,
    /// Seed of everything random.
    pub seed: u64,
    /// Runs of each point, each with a seed of its own.
    pub repetitions: u32,
    /// Serialise and parse every packet on its way.
    pub wire: bool,
}

/// From when the time of a run counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// From the start of the run.
    #[default]
    Start,
    /// From when an application sends for the first time, so that the handshakes before take none
    /// of it.
    FirstSend,
}

impl Choice for Clock {
    const ALL: &'static [(Self, &'static str)] =
        &[(Self::Start, "start"), (Self::FirstSend, "first-send")];
}

impl Default for Run {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(600),
            warm_up: Duration::ZERO,
            clock: Clock::Start,
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
        knob! { clock: "clock", "clock", Kind::Choice(&["start", "first-send"]),
        "From when duration and warm-up count, and what is measured over time: from the start of the run, or from when an application sends for the first time, which is after its handshakes. Changes count from the start." },
        knob! { seed: "seed", "seed", Kind::Whole { least: 0, most: u64::MAX }, "Seed of everything random." },
        knob! { repetitions: "repetitions", "repetitions", Kind::Whole { least: 1, most: 10_000 },
        "Runs of each point, each with a seed of its own; with more than one: mean and 95 % interval." },
        knob! { wire: "wire", "wire", Kind::Switch,
        "Serialise and parse every packet on its way; changes no result." },
    ];
}
