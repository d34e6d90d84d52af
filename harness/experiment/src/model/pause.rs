//! `network.pause`: switches that pause those who send to them.

use crate::knob;
use crate::knob::{Choice, Kind, Knob, Knobs};
use crate::net::pause::{PauseKind, PauseSpec};
use narrows::ByteCount;

/// Whether and how switches pause those who send to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// What is paused.
    pub mode: Flow,
    /// The traffic classes that pause, where each does by itself.
    pub classes: Vec<u32>,
    /// The time that a pause frame names, in quanta of 512 bit times.
    pub quanta: u32,
    /// The memory of a port from which on it pauses, if not the greatest that is safe.
    pub xoff: Option<ByteCount>,
    /// The memory at which the pause ends, if not two frames below.
    pub xon: Option<ByteCount>,
}

/// Flow control by pause frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// None.
    #[default]
    Off,
    /// Of whole links.
    Link,
    /// Of traffic classes.
    Priority,
}

impl Choice for Flow {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Off, "off"),
        (Self::Link, "802.3x"),
        (Self::Priority, "pfc"),
    ];
}

impl Default for Pause {
    fn default() -> Self {
        Self {
            mode: Flow::Off,
            classes: (0..8).collect(),
            quanta: u16::MAX.into(),
            xoff: None,
            xon: None,
        }
    }
}

impl Knobs for Pause {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { mode: "mode", "pause", Kind::Choice(&["off", "802.3x", "pfc"]),
        "Whether switches send pause frames where what came in by a port fills the port's memory, which is then what its queue's limit says: of the whole link, or of each traffic class (DSCP) by itself. Left out: the time that a station takes to obey, pause frames that are lost, NICs with a queue for each class, memory that ports share, and watchdogs against storms.", "IEEE 802.3 Annex 31B, IEEE 802.1Qbb" },
        knob! { classes: "classes", "lossless classes", Kind::List(&Kind::Whole { least: 0, most: 7 }),
        "Of pfc: the traffic classes that pause; what is of another is dropped where there is no room." },
        knob! { quanta: "quanta", "pause time", Kind::Whole { least: 1, most: 65_535 },
        "The time that a pause frame names, in quanta of 512 bit times; it is sent again at half of it, which must leave time for a frame in service.", "IEEE 802.3 Annex 31B.2" },
        knob! { xoff: "xoff", "XOFF", Kind::Or("off", &Kind::Size { least: 1, most: 1 << 40 }),
        "The memory of a port from which on it pauses [its memory less the headroom: 2 rate delay + 3 frames and a pause frame, of n classes 2 n - 1 of them]." },
        knob! { xon: "xon", "XON", Kind::Or("off", &Kind::Size { least: 0, most: 1 << 40 }),
        "The memory at which the pause ends [two frames below XOFF]." },
    ];
}

impl Pause {
    /// As switches take it, with packets of up to `mtu` bytes; `None` without pause.
    pub fn spec(&self, mtu: u32) -> Option<PauseSpec> {
        let kind = match self.mode {
            Flow::Off => return None,
            Flow::Link => PauseKind::Link,
            Flow::Priority => PauseKind::Priority {
                classes: self.classes.iter().fold(0, |bits, class| bits | 1 << class),
            },
        };
        Some(PauseSpec {
            kind,
            quanta: u16::try_from(self.quanta).unwrap_or(u16::MAX),
            xoff: self.xoff,
            xon: self.xon,
            ..PauseSpec::new(mtu)
        })
    }
}
