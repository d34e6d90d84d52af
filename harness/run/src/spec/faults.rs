//! What a spec says of shared memory and of links on which things go wrong.

use super::size::Size;
use narrows::{ByteCount, Duration};
use std::fmt;

/// A switch's memory, shared with dynamic thresholds (Choudhury and Hahne 1998).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedBuffer {
    /// All of it.
    pub size: ByteCount,
    /// A port takes a packet while it holds less than this fraction, numerator and denominator,
    /// of what is free.
    pub alpha: (u32, u32),
}

impl fmt::Display for SharedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, alpha {}", Size(self.size), self.alpha.0)?;
        match self.alpha.1 {
            1 => Ok(()),
            den => write!(f, "/{den}"),
        }
    }
}

/// A share of all packets, in parts per billion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(pub u32);

impl Share {
    /// Every packet.
    pub const ALL: Self = Self(1_000_000_000);
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 1e7)
    }
}

/// Packets that a link loses, damages, repeats or holds back, each independently at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impair {
    /// Lost.
    pub loss: Share,
    /// Damaged on the way, so that the receiver's checksum fails.
    pub corrupt: Share,
    /// Delivered twice.
    pub duplicate: Share,
    /// Held back, so that later ones may overtake them.
    pub reorder: Share,
    /// How long those are held back, at least and at most.
    pub hold: (Duration, Duration),
    /// In which direction.
    pub on: ImpairedWay,
}

impl Default for Impair {
    /// Nothing goes wrong.
    fn default() -> Self {
        let hold = Duration::from_micros(100);
        Self {
            loss: Share(0),
            corrupt: Share(0),
            duplicate: Share(0),
            reorder: Share(0),
            hold: (hold, hold),
            on: ImpairedWay::Both,
        }
    }
}

impl Impair {
    /// The kinds with their names on the command line.
    pub const fn shares(&self) -> [(&'static str, Share); 4] {
        [
            ("loss", self.loss),
            ("corrupt", self.corrupt),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
        ]
    }

    /// Whether nothing goes wrong.
    pub fn is_clean(&self) -> bool {
        self.shares().iter().all(|(_, share)| share.0 == 0)
    }
}

impl fmt::Display for Impair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_clean() {
            return f.write_str("none");
        }
        let shares = self.shares();
        let struck = shares.iter().filter(|(_, share)| share.0 > 0);
        let mut parts: Vec<String> = struck
            .map(|(name, share)| format!("{name}={share}"))
            .collect();
        if self.reorder.0 > 0 {
            parts.push(match self.hold {
                (a, b) if a == b => format!("hold={a}"),
                (a, b) => format!("hold={a}-{b}"),
            });
        }
        parts.push(format!("on={}", self.on.name()));
        f.write_str(&parts.join(","))
    }
}

/// Which packets on the client's link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImpairedWay {
    /// All.
    #[default]
    Both,
    /// Those to the client: data.
    Data,
    /// Those from the client: requests and ACKs.
    Acks,
}

impl ImpairedWay {
    /// All of them.
    pub const EACH: [Self; 3] = [Self::Both, Self::Data, Self::Acks];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Data => "data",
            Self::Acks => "acks",
        }
    }
}
