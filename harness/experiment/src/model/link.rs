//! `link`: the wire between two nodes.

use crate::knob;
use crate::knob::{Kind, Knob, Knobs, Quantity};
use crate::net::impair::{ImpairSpec, When};
use crate::net::link::{Framing, LinkSpec};
use crate::scenario::spec::Share;
use crate::sim::rng::Probability;
use crate::sim::time::SimTime;
use crate::values;
use narrows::{Duration, Rate};

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its rate.
    pub rate: Rate,
    /// Its propagation delay, one way.
    pub delay: Duration,
    /// What a packet costs beyond its IP bytes.
    pub framing: Framing,
    /// Packets lost at random.
    pub loss: Share,
    /// Every n-th packet is lost; not together with `loss`.
    pub lose_each: Option<u64>,
    /// Packets damaged on the way, so that the receiver's checksum fails.
    pub corrupt: Share,
    /// Packets delivered twice.
    pub duplicate: Share,
    /// ECN-capable packets marked, whatever waits.
    pub mark: Share,
    /// Every n-th ECN-capable packet is marked; not together with `mark`.
    pub mark_each: Option<u64>,
    /// Packets held back.
    pub reorder: Share,
    /// For how long those are.
    pub hold: Hold,
    /// The longest IP packet that it carries.
    pub mtu: Option<u32>,
}

/// A time between two bounds, each picosecond equally likely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The least.
    pub least: Duration,
    /// The most.
    pub most: Duration,
}

impl Quantity for Hold {
    fn read(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        let (least, most) = (values::duration(least)?, values::duration(most)?);
        if least > most || most.is_zero() {
            return Err("expected a time above zero, or the shorter and the longer of two".into());
        }
        Ok(Self { least, most })
    }
    fn show(&self) -> Option<String> {
        let least = self.least.show()?;
        if self.least == self.most {
            return Some(least);
        }
        Some(format!("{least}-{}", self.most.show()?))
    }
    fn measure(&self) -> Option<u64> {
        Some(self.most.as_nanos())
    }
}

impl Default for Link {
    /// 1 Gb/s, 25 us, Ethernet, clean.
    fn default() -> Self {
        let hold = Duration::from_micros(100);
        Self {
            rate: Rate::from_gbps(1),
            delay: Duration::from_micros(25),
            framing: Framing::Ethernet,
            loss: Share(0),
            lose_each: None,
            corrupt: Share(0),
            duplicate: Share(0),
            mark: Share(0),
            mark_each: None,
            reorder: Share(0),
            hold: Hold {
                least: hold,
                most: hold,
            },
            mtu: None,
        }
    }
}

impl Knobs for Link {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { rate: "rate", "link rate", Kind::Rate, "Rate of the link." },
        knob! { delay: "delay", "link delay", Kind::Time { least: 0, most: 10_000_000_000 },
        "Propagation delay, one way." },
        knob! { framing: "framing", "framing", Kind::Choice(&["ethernet", "none"]),
        "What a packet takes on the wire besides its IP bytes: Ethernet's header, check sequence, preamble and gap, or nothing.", "IEEE 802.3" },
        knob! { loss: "loss", "loss", Kind::Share, "Packets that the link loses, each independently." },
        knob! { lose_each: "lose_each", "regular loss", Kind::Or("off", &Kind::Whole { least: 3, most: u64::MAX }),
        "Every n-th packet is lost, retransmissions counted like others; not together with loss." },
        knob! { corrupt: "corrupt", "corruption", Kind::Share,
        "Packets that the link damages, so that the receiver's checksum fails." },
        knob! { duplicate: "duplicate", "duplication", Kind::Share, "Packets that the link delivers twice." },
        knob! { mark: "mark", "marks on links", Kind::Share,
        "Packets that the link marks with Congestion Experienced whatever waits, each independently, of those that are ECN-capable; ports do not count them.", "RFC 3168" },
        knob! { mark_each: "mark_each", "regular marks", Kind::Or("off", &Kind::Whole { least: 1, most: u64::MAX }),
        "Every n-th packet is marked so; not together with mark." },
        knob! { reorder: "reorder", "reordering", Kind::Share,
        "Packets that the link holds back, so that later ones may overtake them." },
        knob! { hold: "hold", "hold", Kind::Time { least: 0, most: 10_000_000_000 },
        "For how long those are held back: a time, or the shortest and the longest as 20us-80us." },
        knob! { mtu: "mtu", "MTU of the link", Kind::Or("off", &Kind::Whole { least: 104, most: 65_535 }),
        "Longest IP packet that the link carries: longer ones vanish and nobody is told, which makes the path a black hole; off is what the network's mtu lets hosts send.", "RFC 2923 section 2.1" },
    ];
}

/// The keys of what goes wrong on a link.
pub(crate) const IMPAIRMENTS: [&str; 9] = [
    "loss",
    "lose_each",
    "corrupt",
    "duplicate",
    "mark",
    "mark_each",
    "reorder",
    "hold",
    "mtu",
];

impl Link {
    /// Whether the values go together.
    ///
    /// # Errors
    /// The key that does not, and why.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        if self.lose_each.is_some() && self.loss != Share(0) {
            let why = "packets are lost at random already (loss): give one or the other";
            return Err(("lose_each", why.to_owned()));
        }
        if self.mark_each.is_some() && self.mark != Share(0) {
            let why = "packets are marked at random already (mark): give one or the other";
            return Err(("mark_each", why.to_owned()));
        }
        Ok(())
    }

    /// As the network takes it.
    pub fn spec(&self) -> LinkSpec {
        LinkSpec {
            impair: self.impairments(),
            ..LinkSpec::new(self.rate, SimTime::from_duration(self.delay))
                .with_framing(self.framing)
        }
    }

    /// What goes wrong on it.
    pub fn impairments(&self) -> ImpairSpec {
        let when = |share: Share| match share.0 {
            0 => When::Never,
            n => When::Chance(Probability::ratio(u64::from(n), u64::from(Share::ALL.0))),
        };
        ImpairSpec {
            loss: self.lose_each.map_or(when(self.loss), When::EachNth),
            corrupt: when(self.corrupt),
            duplicate: when(self.duplicate),
            mark: self.mark_each.map_or(when(self.mark), When::EachNth),
            reorder: when(self.reorder),
            reorder_min: SimTime::from_duration(self.hold.least),
            reorder_max: SimTime::from_duration(self.hold.most),
            mtu: self.mtu,
        }
    }
}
