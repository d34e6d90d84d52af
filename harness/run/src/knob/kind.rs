//! What a knob may be.

use super::quantity::{MAX_PACKETS, Quantity, queue_length};
use crate::spec::{QueueLimit, Share, Size};
use crate::values;
use narrows::{ByteCount, Duration, Rate};
use std::fmt;

/// What a knob may be: its unit and its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A number of bytes.
    Size {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A time, in nanoseconds.
    Time {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A rate, from 1 kb/s to 1 Tb/s.
    Rate,
    /// The length of a queue in bytes or packets.
    Queue {
        /// The least, in either unit.
        least: u64,
    },
    /// A whole number.
    Whole {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A share from nothing to all.
    Share,
    /// On or off.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A name that a registry knows, which may carry parameters: the kind of registry.
    Name(&'static str),
    /// Nodes of the network, as `h0..h7`, a group or a tier.
    Hosts,
    /// Ports of the network, as `leaf1->h3` or `leaf->spine`.
    Ports,
    /// Text with a syntax of its own, which is given for an example.
    Text(&'static str),
    /// Several of these.
    List(&'static Kind),
    /// One of these, or a word for none.
    Or(&'static str, &'static Kind),
}

/// Most bytes of a queue.
const MAX_QUEUE: u64 = 1 << 40;

/// What a text means as a value of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meaning<'t> {
    /// A whole number, or the bits of what it is in its base unit.
    Number(u64),
    /// A length of a queue in packets, which is none in bytes.
    Packets(u32),
    /// No number.
    Text(&'t str),
}

impl Kind {
    /// Any time up to 10^6 seconds.
    pub const TIME: Self = Self::Time {
        least: 0,
        most: 1_000_000_000_000_000,
    };
    /// A time of a microsecond to 10^6 seconds.
    pub const SPAN: Self = Self::Time {
        least: 1_000,
        most: 1_000_000_000_000_000,
    };

    /// The value that `text` says.
    ///
    /// # Errors
    /// What is expected, with the range, if it is none or out of range.
    pub fn read<Q: Quantity>(&self, text: &str) -> Result<Q, String> {
        match Q::read(text) {
            Ok(value) => self.check(text, &value.measures()).map(|()| value),
            Err(why) => Err(self.with_range(why)),
        }
    }

    /// Whether all that `text` measures may be.
    fn check(&self, text: &str, measures: &[u64]) -> Result<(), String> {
        if measures.iter().all(|n| self.allows(*n)) {
            return Ok(());
        }
        Err(self.with_range(format!("{text} is out of range")))
    }

    fn with_range(&self, why: String) -> String {
        match self.range() {
            Some(range) if !why.contains(&range) => format!("{why}; allowed is {range}"),
            _ => why,
        }
    }

    /// Whether it may be so many of its base unit.
    fn allows(&self, n: u64) -> bool {
        match *self {
            Self::Size { least, most }
            | Self::Time { least, most }
            | Self::Whole { least, most } => (least..=most).contains(&n),
            Self::Queue { least } => (least..=MAX_QUEUE).contains(&n),
            Self::Or(_, kind) | Self::List(kind) => kind.allows(n),
            _ => true,
        }
    }

    /// The range for people, if there is one: `1us to 10s`, `on or off`.
    pub fn range(&self) -> Option<String> {
        let size = |n| Size(ByteCount::new(n));
        Some(match *self {
            Self::Size { least, most } => format!("{} to {}", size(least), size(most)),
            Self::Time { least, most } => {
                let time = Duration::from_nanos;
                format!("{} to {}", time(least), time(most))
            }
            Self::Rate => values::RATES_IN_WORDS.to_owned(),
            Self::Queue { least } => {
                format!("{least}p to {MAX_PACKETS}p, or up to {}", size(MAX_QUEUE))
            }
            Self::Whole {
                least,
                most: u64::MAX,
            } => format!("{least} and more"),
            Self::Whole { least, most } => format!("{least} to {most}"),
            Self::Share => "0% to 100%".to_owned(),
            Self::Switch => "on or off".to_owned(),
            Self::Choice(words) => words.join(", "),
            Self::Or(word, kind) => match kind.range() {
                Some(range) => format!("{word}, or {range}"),
                None => word.to_owned(),
            },
            Self::List(kind) => return kind.range(),
            Self::Name(_) | Self::Hosts | Self::Ports | Self::Text(_) => return None,
        })
    }

    /// A value in its base unit: bytes, nanoseconds, bits per second, packets, a share of one.
    /// `None` for what is no number.
    pub fn base(&self, text: &str) -> Option<f64> {
        Some(match self {
            Self::Size { .. } => ByteCount::read(text).ok()?.get() as f64,
            Self::Time { .. } => Duration::read(text).ok()?.as_nanos() as f64,
            Self::Rate => Rate::read(text).ok()?.bits_per_sec() as f64,
            Self::Queue { .. } => queue_length(QueueLimit::read(text).ok()?) as f64,
            Self::Whole { .. } => u64::read(text).ok()? as f64,
            Self::Share => {
                let share = Share::read(text).ok()?;
                f64::from(share.0) / f64::from(Share::ALL.0)
            }
            Self::Or(_, kind) => return kind.base(text),
            _ => return None,
        })
    }

    /// Whether two texts are one value: `1ms` and `1000us`.
    pub fn same(&self, a: &str, b: &str) -> bool {
        self.meaning(a) == self.meaning(b)
    }

    /// What is the same of two texts that are one value.
    #[doc(hidden)]
    pub fn meaning<'t>(&self, text: &'t str) -> Meaning<'t> {
        match self {
            Self::Or(_, kind) => kind.meaning(text),
            Self::Queue { .. } => match QueueLimit::read(text) {
                Ok(QueueLimit::Bytes(bytes)) => Meaning::Number(bytes.get()),
                Ok(QueueLimit::Packets(n)) => Meaning::Packets(n),
                Err(_) => Meaning::Text(text),
            },
            // All bits of a seed count.
            Self::Whole { .. } => u64::read(text).map_or(Meaning::Text(text), Meaning::Number),
            _ => match self.base(text) {
                Some(number) => Meaning::Number(number.to_bits()),
                None => Meaning::Text(text),
            },
        }
    }

    /// The unit in which a column has it, as a suffix of its name would say it; empty for a word
    /// or a bare number.
    pub const fn unit(&self) -> &'static str {
        match self {
            Self::Size { .. } => "bytes",
            Self::Time { .. } => "ns",
            Self::Rate => "bit/s",
            Self::Or(_, kind) | Self::List(kind) => kind.unit(),
            _ => "",
        }
    }

    /// A line that says what it is and how to write it.
    pub fn noun(&self) -> String {
        match self {
            Self::Size { .. } => "size, such as 64KiB or 100kB".to_owned(),
            Self::Time { .. } => "time, such as 25us or 1.5ms".to_owned(),
            Self::Rate => "rate, such as 1Gb/s".to_owned(),
            Self::Queue { .. } => "queue length, such as 64KiB or 100p".to_owned(),
            Self::Whole { .. } => "whole number".to_owned(),
            Self::Share => "share, such as 1%, 1/1000 or 0.01".to_owned(),
            Self::Switch => "switch".to_owned(),
            Self::Choice(_) => "word".to_owned(),
            Self::Name(registry) => format!("name of a {registry} (see narrows list)"),
            Self::Hosts => "hosts, such as h0..h7, a group or *".to_owned(),
            Self::Ports => "ports, such as s0->h0 or leaf->spine".to_owned(),
            Self::Text(example) => format!("text, such as {example}"),
            Self::List(kind) => format!("list: {}", kind.noun()),
            Self::Or(word, kind) => format!("{word}, or {}", kind.noun()),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.noun())
    }
}
