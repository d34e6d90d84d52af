//! `[[change]]`: what changes while an experiment runs.

use super::settings::Settings;
use crate::knob;
use crate::knob::{Choice, Kind, Knob, Knobs};
use narrows::Duration;

/// A change while an experiment runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When, and for how long.
    pub when: When,
    /// What is set then: keys of `link` and `queue` at ports, `nic.gro` at hosts.
    pub set: Settings,
}

/// When a change comes, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    /// When it comes.
    pub at: Duration,
    /// After this it is as it was.
    pub during: Option<Duration>,
    /// It comes again and again.
    pub every: Option<Duration>,
    /// Ports, or hosts.
    pub on: String,
    /// What happens.
    pub what: What,
}

/// What happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum What {
    /// Keys of `link` and `queue`, or receive offload, are set.
    #[default]
    Set,
    /// Links are down.
    LinkDown,
    /// Routes leave links between switches out, which go on working.
    Withdraw,
    /// Hosts do nothing: packets wait.
    Pause,
    /// NICs lose what is queued, and what comes meanwhile.
    RingLoss,
    /// NICs turn their receive offload off, or on, and lose their ring meanwhile; then back.
    Toggle,
}

impl Choice for What {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Set, "set"),
        (Self::LinkDown, "link-down"),
        (Self::Withdraw, "withdraw"),
        (Self::Pause, "pause"),
        (Self::RingLoss, "ring-loss"),
        (Self::Toggle, "toggle"),
    ];
}

impl Default for Change {
    fn default() -> Self {
        Self {
            when: When {
                at: Duration::ZERO,
                during: None,
                every: None,
                on: String::new(),
                what: What::Set,
            },
            set: Settings::default(),
        }
    }
}

impl Knobs for When {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { at: "at", "time of change", Kind::TIME, "When it comes." },
        knob! { during: "for", "duration of change", Kind::Or("off", &Kind::SPAN),
        "After this it is as it was; off is for good." },
        knob! { every: "every", "period of change", Kind::Or("off", &Kind::SPAN),
        "It comes again and again; off is once." },
        knob! { on: "on", "place of change", Kind::Ports,
        "Ports (set, link-down, withdraw) as s0->h0, or hosts (pause, ring-loss, toggle, set of nic.gro) as h3." },
        knob! { what: "what", "change", Kind::Choice(&["set", "link-down", "withdraw", "pause", "ring-loss", "toggle"]),
        "Set the keys of link and queue, or nic.gro, that stand beside it; take links down; have routes leave out links between switches, which go on working; let hosts do nothing while packets wait; let NICs lose their ring; have them toggle their receive offload, which loses the ring for so long: it becomes the nic.gro that stands beside it (off where it is on, else 64KiB), and with 'every' each second time what it was." },
    ];
}
