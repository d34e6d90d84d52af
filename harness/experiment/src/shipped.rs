//! Experiments that ship: files, by name.

use narrows_net::near_match::nearest;

/// An experiment that ships.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// Its name.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../shipped/", $name, ".toml")),
        }),*]
    };
}

/// All of them.
pub const ALL: &[Shipped] = shipped![
    "busy-port",
    "dctcp-queue",
    "dumbbell",
    "enobufs",
    "fast08",
    "flows",
    "gro-marks",
    "incast",
    "leaf-spine",
    "link-failure",
    "live-incast",
    "microbursts",
    "microbursts-trunk",
    "modern",
    "packet-window",
    "pause",
    "pause-victim",
    "rack-coalesce",
    "rack-tails",
    "racks",
    "ring-all-reduce",
    "shuffle",
    "small-writes",
    "split-output",
    "two-senders",
    "web-search",
];

impl Shipped {
    /// The one with a name.
    ///
    /// # Errors
    /// The near match, if there is none.
    pub fn get(name: &str) -> Result<&'static Self, Option<&'static str>> {
        let found = ALL.iter().find(|s| s.name == name);
        found.ok_or_else(|| nearest(name, ALL.iter().map(|s| s.name)))
    }

    /// Its title.
    pub fn title(&self) -> &'static str {
        let line = self.text.lines().find(|l| l.starts_with("title = "));
        line.map_or("", |l| l["title = ".len()..].trim_matches('"'))
    }
}

#[cfg(test)]
mod tests;
