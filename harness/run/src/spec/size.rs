//! Numbers of bytes, for people.

use narrows::ByteCount;
use std::fmt;

/// A number of bytes for people: whole, in the unit that makes it shortest (`256KiB`, `256kB`,
/// `1500B`). Always reads back as the same number.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub ByteCount);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0.get();
        let units = [
            (1 << 40, "TiB"),
            (1_000_000_000_000, "TB"),
            (1 << 30, "GiB"),
            (1 << 20, "MiB"),
            (1_000_000_000, "GB"),
            (1_000_000, "MB"),
            (1 << 10, "KiB"),
            (1_000, "kB"),
        ];
        let whole = units
            .iter()
            .filter(|(unit, _)| n >= *unit && n.is_multiple_of(*unit));
        let shortest = whole
            .map(|(unit, name)| format!("{}{name}", n / unit))
            .min_by_key(String::len);
        f.write_str(&shortest.unwrap_or_else(|| format!("{n}B")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        for (n, text) in [
            (256 << 10, "256KiB"),
            (256_000, "256kB"),
            (1 << 20, "1MiB"),
            (1_000_000, "1MB"),
            (65_535, "65535B"),
            (0, "0B"),
            (1 << 40, "1TiB"),
        ] {
            assert_eq!(Size(ByteCount::new(n)).to_string(), text);
        }
    }
}
