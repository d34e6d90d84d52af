//! `run`: how long, how often, with which seed.

use crate::knob;
use crate::knob::{Choice, Kind, Knob, Knobs};
use narrows::Duration;
pub use narrows_run::parts::Clock;

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
    /// Where it runs.
    pub place: Place,
    /// Of a live place: whose TCP sends.
    pub senders: Senders,
    /// Of a live place: what hosts of ours are connected with.
    pub device: Device,
}

/// Where a run takes place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In the simulator.
    #[default]
    Simulated,
    /// In a lab of network namespaces, in real time, beside the kernel's TCP.
    Live,
}

impl Choice for Place {
    const ALL: &'static [(Self, &'static str)] =
        &[(Self::Simulated, "simulated"), (Self::Live, "live")];
}

/// Whose TCP sends in a live place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Senders {
    /// Ours, to the kernel's.
    #[default]
    Ours,
    /// The kernel's, to ours.
    Kernel,
}

impl Choice for Senders {
    const ALL: &'static [(Self, &'static str)] = &[(Self::Ours, "ours"), (Self::Kernel, "kernel")];
}

/// What hosts of ours are connected with in a live place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// A TAP interface.
    #[default]
    Tap,
    /// AF_XDP, at one end of a veth.
    Xdp,
}

impl Choice for Device {
    const ALL: &'static [(Self, &'static str)] = &[(Self::Tap, "tap"), (Self::Xdp, "xdp")];
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
            place: Place::Simulated,
            senders: Senders::Ours,
            device: Device::Tap,
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
        knob! { place: "place", "place", Kind::Choice(&["simulated", "live"]),
        "Where it runs: in the simulator, or live in a lab of network namespaces, which `narrows live incast` makes." },
        knob! { senders: "senders", "senders, live", Kind::Choice(&["ours", "kernel"]),
        "Of a live place: whose TCP sends, to the other's." },
        knob! { device: "device", "device, live", Kind::Choice(&["tap", "xdp"]),
        "Of a live place: what hosts of ours are connected with." },
    ];
}
