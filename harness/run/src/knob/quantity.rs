//! Values that a knob reads and shows.

use crate::net::link::Framing;
use crate::net::multipath::Salt;
use crate::net::nic::ReceiveHash;
use crate::spec::{
    AckCount, DctcpReceiver, DelayedAck, EcnUse, Impair, PrrUse, QueueCounting, QueueLimit,
    SackUse, Share, SharedBuffer, Size, Ties,
};
use crate::traffic::Family;
use crate::values;
use narrows::config::{IdleRestart, WindowCount};
use narrows::{ByteCount, Duration, Rate};
use narrows_net::near_match::nearest;

/// A value as a file has it. What is shown reads back as the same value.
pub trait Quantity: Sized {
    /// The value that `text` says.
    ///
    /// # Errors
    /// What is expected instead.
    fn read(text: &str) -> Result<Self, String>;
    /// As a file has it; `None` if it is not set.
    fn show(&self) -> Option<String>;
    /// How many of its base unit, for a range; `None` if there is none.
    fn measure(&self) -> Option<u64> {
        None
    }
    /// The same of each part, where it has several.
    fn measures(&self) -> Vec<u64> {
        self.measure().map_or_else(Vec::new, |n| vec![n])
    }
}

impl Quantity for ByteCount {
    fn read(text: &str) -> Result<Self, String> {
        values::size(text)
    }
    fn show(&self) -> Option<String> {
        Some(Size(*self).to_string())
    }
    fn measure(&self) -> Option<u64> {
        Some(self.get())
    }
}

impl Quantity for Duration {
    fn read(text: &str) -> Result<Self, String> {
        values::duration(text)
    }
    fn show(&self) -> Option<String> {
        let ns = self.as_nanos();
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        let whole = units.iter().find(|(unit, _)| ns.is_multiple_of(*unit));
        Some(match whole {
            Some((unit, name)) => format!("{}{name}", ns / unit),
            None => format!("{ns}ns"),
        })
    }
    fn measure(&self) -> Option<u64> {
        Some(self.as_nanos())
    }
}

impl Quantity for Rate {
    fn read(text: &str) -> Result<Self, String> {
        values::rate(text)
    }
    fn show(&self) -> Option<String> {
        let bps = self.bits_per_sec();
        let units = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
        let whole = units.iter().find(|(unit, _)| bps.is_multiple_of(*unit));
        Some(match whole {
            Some((unit, name)) => format!("{}{name}b/s", bps / unit),
            None => format!("{bps}b/s"),
        })
    }
}

impl Quantity for QueueLimit {
    fn read(text: &str) -> Result<Self, String> {
        values::queue(text)
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
    fn measure(&self) -> Option<u64> {
        Some(queue_length(*self))
    }
}

impl Quantity for bool {
    fn read(text: &str) -> Result<Self, String> {
        values::switch(text)
    }
    fn show(&self) -> Option<String> {
        Some(if *self { "on" } else { "off" }.to_owned())
    }
}

impl Quantity for SackUse {
    fn read(text: &str) -> Result<Self, String> {
        Ok(match text {
            "auto" => Self::Auto,
            _ if bool::read(text)? => Self::On,
            _ => Self::Off,
        })
    }
    fn show(&self) -> Option<String> {
        match self {
            Self::Auto => Some("auto".to_owned()),
            Self::On => true.show(),
            Self::Off => false.show(),
        }
    }
}

impl Quantity for u64 {
    fn read(text: &str) -> Result<Self, String> {
        values::seed(text)
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
    fn measure(&self) -> Option<u64> {
        Some(*self)
    }
}

impl Quantity for u32 {
    fn read(text: &str) -> Result<Self, String> {
        values::whole(0, u32::MAX)(text)
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
    fn measure(&self) -> Option<u64> {
        Some((*self).into())
    }
}

impl Quantity for String {
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
    fn show(&self) -> Option<String> {
        Some(self.clone())
    }
}

impl Quantity for Share {
    fn read(text: &str) -> Result<Self, String> {
        values::share(text)
    }
    fn show(&self) -> Option<String> {
        let whole = self.0 / 10_000_000;
        let rest = format!("{:07}", self.0 % 10_000_000);
        let rest = rest.trim_end_matches('0');
        let point = if rest.is_empty() { "" } else { "." };
        Some(format!("{whole}{point}{rest}%"))
    }
}

impl Quantity for Impair {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "none" | "off" => Ok(Self::default()),
            _ => values::impair(text),
        }
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Quantity for DelayedAck {
    fn read(text: &str) -> Result<Self, String> {
        values::delayed_ack(text)
    }
    fn show(&self) -> Option<String> {
        Some(match self {
            Self::Off => "off".to_owned(),
            Self::On { segments, timeout } => {
                format!("{segments}/{}", timeout.show().unwrap_or_default())
            }
        })
    }
}

impl Quantity for SharedBuffer {
    fn read(text: &str) -> Result<Self, String> {
        values::shared_buffer(text)
    }
    fn show(&self) -> Option<String> {
        let (num, den) = self.alpha;
        let size = Size(self.size);
        Some(match den {
            1 => format!("{size}:{num}"),
            _ => format!("{size}:{num}/{den}"),
        })
    }
}

/// A value that may be left out: `off` and `none` say so.
impl<Q: Quantity> Quantity for Option<Q> {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "off" | "none" => Ok(None),
            _ => Q::read(text).map(Some),
        }
    }
    fn show(&self) -> Option<String> {
        self.as_ref().and_then(Q::show)
    }
    fn measure(&self) -> Option<u64> {
        self.as_ref().and_then(Q::measure)
    }
    fn measures(&self) -> Vec<u64> {
        self.as_ref().map_or_else(Vec::new, Q::measures)
    }
}

/// Several values, with commas between them; at least one, none twice.
impl<Q: Quantity + PartialEq> Quantity for Vec<Q> {
    fn read(text: &str) -> Result<Self, String> {
        let mut values = Self::new();
        for item in text.split(',').map(str::trim) {
            let value = Q::read(item)?;
            if values.contains(&value) {
                return Err(format!("'{item}' is there twice"));
            }
            values.push(value);
        }
        Ok(values)
    }
    fn show(&self) -> Option<String> {
        let items: Vec<String> = self.iter().filter_map(Q::show).collect();
        (!items.is_empty()).then(|| items.join(","))
    }
    fn measures(&self) -> Vec<u64> {
        self.iter().flat_map(Q::measures).collect()
    }
}

/// A value from a fixed set.
pub trait Choice: Copy + PartialEq + 'static {
    /// The values with their names.
    const ALL: &'static [(Self, &'static str)];
}

impl<C: Choice> Quantity for C {
    fn read(text: &str) -> Result<Self, String> {
        if let Some((value, _)) = C::ALL.iter().find(|(_, name)| *name == text) {
            return Ok(*value);
        }
        Err(no_choice(text, &mut C::ALL.iter().map(|(_, name)| *name)))
    }
    fn show(&self) -> Option<String> {
        let of = C::ALL.iter().find(|(value, _)| value == self);
        of.map(|(_, name)| (*name).to_owned())
    }
}

/// What is said of a word that is none of `names`. Compiled once, not for each choice.
fn no_choice(text: &str, names: &mut dyn Iterator<Item = &'static str>) -> String {
    let names: Vec<&str> = names.collect();
    match nearest(text, names.iter().copied()) {
        Some(near) => format!("there is no '{text}'; did you mean '{near}'?"),
        None => {
            // As the reader of files has the words of a switch.
            let word = match text {
                "on" => "'on' (true)".to_owned(),
                "off" => "'off' (false)".to_owned(),
                _ => format!("'{text}'"),
            };
            format!("there is no {word}; it is one of {}", names.join(", "))
        }
    }
}

impl Choice for Framing {
    const ALL: &'static [(Self, &'static str)] =
        &[(Self::Ethernet, "ethernet"), (Self::None, "none")];
}

impl Choice for Salt {
    const ALL: &'static [(Self, &'static str)] =
        &[(Self::PerSwitch, "per-switch"), (Self::Common, "common")];
}

impl Choice for Family {
    const ALL: &'static [(Self, &'static str)] = &[(Self::Ipv4, "v4"), (Self::Ipv6, "v6")];
}

impl Choice for QueueCounting {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Waiting, "waiting"),
        (Self::WithInService, "with-in-service"),
        (Self::Ns2, "ns-2"),
    ];
}

impl Choice for Ties {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Shuffled, "shuffled"),
        (Self::WaitedLast, "waited-last"),
    ];
}

impl Choice for EcnUse {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Auto, "auto"),
        (Self::Classic, "classic"),
        (Self::Off, "off"),
    ];
}

impl Choice for AckCount {
    const ALL: &'static [(Self, &'static str)] =
        &[(Self::Segments, "segments"), (Self::Bytes, "bytes")];
}

impl Choice for ReceiveHash {
    const ALL: &'static [(Self, &'static str)] =
        &[(Self::Even, "even"), (Self::Toeplitz, "toeplitz")];
}

impl Choice for WindowCount {
    const ALL: &'static [(Self, &'static str)] =
        &[(Self::Bytes, "bytes"), (Self::Packets, "packets")];
}

impl Choice for PrrUse {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::On, "on"),
        (Self::Linux43, "linux-4.3"),
        (Self::Off, "off"),
    ];
}

impl Choice for DctcpReceiver {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Rfc8257, "rfc8257"),
        (Self::Linux, "linux"),
        (Self::Linux2015, "linux-2015"),
    ];
}

impl Choice for IdleRestart {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Keep, "keep"),
        (Self::Rfc5681, "rfc5681"),
        (Self::Rfc2861, "rfc2861"),
        (Self::Rfc7661, "rfc7661"),
    ];
}

/// Most packets of a queue.
pub(super) const MAX_PACKETS: u64 = 1 << 30;

/// A queue's length in its own unit.
pub(super) fn queue_length(limit: QueueLimit) -> u64 {
    match limit {
        QueueLimit::Bytes(bytes) => bytes.get(),
        // So that a number of packets beyond the range is beyond that of bytes.
        QueueLimit::Packets(packets) if u64::from(packets) > MAX_PACKETS => u64::MAX,
        QueueLimit::Packets(packets) => packets.into(),
    }
}
