//! Sizes of transfers: one, several, or a distribution.

use crate::knob::{Kind, Quantity};
use crate::sim::rng::Stream;
use crate::spec::Size;
use crate::values;
use narrows::ByteCount;
use narrows_net::near_match::nearest;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// How large the transfers of a traffic are.
///
/// Written as `100kB`; as `1kB|10kB|1MB`, each equally likely; as the name of a distribution that
/// narrows brings along, `web-search` or `data-mining`; or as `file:PATH`, a [`SizeCdf`], which is
/// read at once and shown as `cdf:1kB 0.5|10kB 1`, so that neither a run nor its results need the
/// file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizeDistribution {
    /// All of one size.
    Fixed(ByteCount),
    /// Each of these equally likely.
    List(Vec<ByteCount>),
    /// As a cumulative distribution has it.
    Cdf(Arc<SizeCdf>),
}

/// The least and the greatest size.
const SIZES: std::ops::RangeInclusive<u64> = 1..=1 << 40;

/// What a distribution that is read from a file begins with.
const FILE: &str = "file:";

/// What a distribution that is written out begins with.
const WRITTEN_OUT: &str = "cdf:";

/// Distributions that narrows brings along.
const SHIPPED: [(&str, &str); 2] = [
    ("web-search", include_str!("size/web-search.cdf")),
    ("data-mining", include_str!("size/data-mining.cdf")),
];

impl SizeDistribution {
    /// The kind of a knob that is one.
    pub const KIND: Kind =
        Kind::Text("100kB, 1kB|10kB|1MB, web-search, data-mining, file:PATH or cdf:1kB 0.5|10kB 1");

    /// One of `size`.
    pub const fn fixed(size: ByteCount) -> Self {
        Self::Fixed(size)
    }

    /// The next size; at least a byte.
    pub fn draw(&self, random: &mut Stream) -> ByteCount {
        let size = match self {
            Self::Fixed(size) => *size,
            Self::List(sizes) => sizes[random.below(sizes.len() as u64) as usize],
            Self::Cdf(cdf) => cdf.at(random.below(CERTAIN)),
        };
        size.max(ByteCount::new(1))
    }

    /// Whether a knob is one, or none.
    #[doc(hidden)]
    pub fn is_kind(kind: &Kind) -> bool {
        match kind {
            Kind::Or(_, kind) => Self::is_kind(kind),
            kind => *kind == Self::KIND,
        }
    }

    /// The path of a value that is read from a file.
    #[doc(hidden)]
    pub fn file(value: &str) -> Option<&Path> {
        value.strip_prefix(FILE).map(Path::new)
    }

    /// The value that is read from the file at `path`.
    #[doc(hidden)]
    pub fn file_value(path: &str) -> String {
        format!("{FILE}{path}")
    }

    /// The value that says what is in a file, which `value` names, without it.
    #[doc(hidden)]
    pub fn written_out(value: &str, path: &Path, text: &str) -> Result<String, String> {
        let cdf = SizeCdf::read(value, text).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(cdf.written_out().name)
    }

    /// What sizes are on average, exactly but for the rounding of each to whole bytes.
    pub fn mean(&self) -> Mean {
        match self {
            Self::Fixed(size) => Mean {
                bytes: size.get().into(),
                of: 1,
            },
            Self::List(sizes) => Mean {
                bytes: sizes.iter().map(|size| u128::from(size.get())).sum(),
                of: sizes.len() as u128,
            },
            Self::Cdf(cdf) => cdf.mean(),
        }
    }

    /// The greatest size that may come.
    pub fn most(&self) -> ByteCount {
        let most = match self {
            Self::Fixed(size) => Some(*size),
            Self::List(sizes) => sizes.iter().max().copied(),
            Self::Cdf(cdf) => cdf.points.last().map(|point| point.size),
        };
        most.unwrap_or_default()
    }
}

/// An average, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mean {
    /// The bytes of so many.
    pub bytes: u128,
    /// How many; not 0.
    pub of: u128,
}

impl Mean {
    /// To the nearest byte.
    pub fn rounded(self) -> ByteCount {
        ByteCount::new(((2 * self.bytes + self.of) / (2 * self.of)) as u64)
    }
}

/// A cumulative distribution of sizes, linear between its points.
///
/// In a file each line is a point, a size and the share of transfers that are no larger, as
/// `10kB 0.15`; `#` begins a comment. Sizes without a unit are bytes, so that those of ns-2's
/// scripts, in packets, have to be multiplied. Both columns ascend, and the last share is 1. If
/// the first share is more than 0, so many have the first size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeCdf {
    name: String,
    points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    size: ByteCount,
    /// In parts of [`CERTAIN`].
    share: u64,
}

/// What a probability of 1 is.
const CERTAIN: u64 = 1_000_000_000;

/// Why a text is no distribution of sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CdfError {
    /// The line, from 1; `None` if all of it is meant.
    pub line: Option<usize>,
    /// Why.
    pub why: String,
}

impl fmt::Display for CdfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl std::error::Error for CdfError {}

impl SizeCdf {
    /// The distribution that `text` describes; `name` is how a knob has it.
    ///
    /// # Errors
    /// What is wrong in which line.
    pub fn read(name: &str, text: &str) -> Result<Self, CdfError> {
        let mut points: Vec<Point> = Vec::new();
        for (n, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            if line.trim().is_empty() {
                continue;
            }
            let point = point(line, points.last());
            points.push(point.map_err(|why| CdfError {
                line: Some(n + 1),
                why,
            })?);
        }
        let whole = |why: &str| CdfError {
            line: None,
            why: why.to_owned(),
        };
        match points.last() {
            None => return Err(whole("it has no points")),
            Some(last) if last.share != CERTAIN => {
                return Err(whole("the last share has to be 1: all are no larger"));
            }
            Some(last) if !SIZES.contains(&last.size.get()) => {
                return Err(whole("the greatest size has to be from 1B to 1TiB"));
            }
            Some(_) => {}
        }
        Ok(Self {
            name: name.to_owned(),
            points,
        })
    }

    /// The same, with its points as its name.
    fn written_out(self) -> Self {
        let point = |p: &Point| {
            let fraction = format!("{:09}", p.share % CERTAIN);
            let fraction = match fraction.trim_end_matches('0') {
                "" => String::new(),
                digits => format!(".{digits}"),
            };
            format!("{} {}{fraction}", Size(p.size), p.share / CERTAIN)
        };
        let points: Vec<String> = self.points.iter().map(point).collect();
        Self {
            name: format!("{WRITTEN_OUT}{}", points.join("|")),
            ..self
        }
    }

    /// The distribution with a name that narrows brings along.
    fn shipped(name: &str) -> Option<Result<Self, CdfError>> {
        let (name, text) = SHIPPED.iter().find(|(known, _)| *known == name)?;
        Some(Self::read(name, text))
    }

    /// The size that `share` parts of [`CERTAIN`] and no more are smaller than: the middle of
    /// those of the part that begins there, so that the mean of all is that of the lines.
    fn at(&self, share: u64) -> ByteCount {
        let above = self.points.partition_point(|point| point.share <= share);
        let Some(to) = self.points.get(above).or(self.points.last()) else {
            return ByteCount::ZERO;
        };
        let Some(from) = above.checked_sub(1).map(|below| self.points[below]) else {
            return to.size;
        };
        let within = u128::from(2 * (share - from.share) + 1);
        let of = u128::from(2 * to.share.saturating_sub(from.share)).max(1);
        let range = u128::from((to.size.saturating_sub(from.size)).get());
        from.size + ByteCount::new(((range * within + of / 2) / of) as u64)
    }

    fn mean(&self) -> Mean {
        let mut bytes = 0;
        let mut from = Point {
            size: self.points.first().map_or(ByteCount::ZERO, |p| p.size),
            share: 0,
        };
        for &to in &self.points {
            let share = u128::from(to.share - from.share);
            bytes += share * u128::from(from.size.get() + to.size.get());
            from = to;
        }
        Mean {
            bytes,
            of: 2 * u128::from(CERTAIN),
        }
    }
}

/// The point that a line has, after `last`.
fn point(line: &str, last: Option<&Point>) -> Result<Point, String> {
    let mut columns = line.split_whitespace();
    let (Some(size), Some(share), None) = (columns.next(), columns.next(), columns.next()) else {
        return Err("expected a size and a share, such as '10kB 0.15'".to_owned());
    };
    let point = Point {
        size: values::size(size)?,
        share: self::share(share)
            .ok_or_else(|| format!("'{share}' is no share: it is from 0 to 1, nine digits"))?,
    };
    if last.is_some_and(|last| last.size > point.size || last.share > point.share) {
        return Err("sizes and shares have to ascend".to_owned());
    }
    Ok(point)
}

/// A decimal from 0 to 1 in parts of [`CERTAIN`].
fn share(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let whole = match whole {
        "" => 0,
        _ => whole.parse::<u64>().ok()?,
    };
    let missing = 9_usize.checked_sub(fraction.len())?;
    let fraction = match fraction {
        "" => 0,
        _ => fraction.parse::<u64>().ok()? * 10_u64.pow(missing as u32),
    };
    let share = whole.checked_mul(CERTAIN)?.checked_add(fraction)?;
    (share <= CERTAIN).then_some(share)
}

impl Quantity for SizeDistribution {
    fn read(text: &str) -> Result<Self, String> {
        if let Some(path) = Self::file(text) {
            let read = std::fs::read_to_string(path);
            let read = read.map_err(|e| format!("cannot read {}: {e}", path.display()))?;
            return Self::read(&Self::written_out(text, path, &read)?);
        }
        if let Some(points) = text.strip_prefix(WRITTEN_OUT) {
            let cdf = SizeCdf::read(text, &points.replace('|', "\n"));
            let cdf = cdf.map_err(|e| match e.line {
                Some(n) => format!("point {n}: {}", e.why),
                None => e.why,
            })?;
            return Ok(Self::Cdf(Arc::new(cdf.written_out())));
        }
        if let Some(cdf) = SizeCdf::shipped(text) {
            return Ok(Self::Cdf(Arc::new(cdf.map_err(|e| e.to_string())?)));
        }
        if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let names = SHIPPED.iter().map(|(name, _)| *name);
            return Err(match nearest(text, names) {
                Some(near) => format!("there are no sizes '{text}'; did you mean '{near}'?"),
                None => format!(
                    "there are no sizes '{text}'; expected {}",
                    Self::KIND.noun()
                ),
            });
        }
        let mut sizes = Vec::new();
        for item in text.split('|').map(str::trim) {
            let size = values::size(item)?;
            if !SIZES.contains(&size.get()) {
                return Err(format!("{item} is out of range; allowed is 1B to 1TiB"));
            }
            sizes.push(size);
        }
        Ok(match sizes[..] {
            [size] => Self::Fixed(size),
            _ => Self::List(sizes),
        })
    }

    fn show(&self) -> Option<String> {
        Some(match self {
            Self::Fixed(size) => Size(*size).to_string(),
            Self::List(sizes) => {
                let sizes: Vec<String> = sizes.iter().map(|s| Size(*s).to_string()).collect();
                sizes.join("|")
            }
            Self::Cdf(cdf) => cdf.name.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::rng::Component;
    use proptest::prelude::*;

    fn read(text: &str) -> SizeDistribution {
        SizeDistribution::read(text).unwrap()
    }

    fn stream(seed: u64) -> Stream {
        Stream::new(seed, Component::Scenario, 7)
    }

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, shown) in [
            ("100kB", "100kB"),
            ("64KiB", "64KiB"),
            ("1kB|10kB | 1MB", "1kB|10kB|1MB"),
            ("web-search", "web-search"),
            ("data-mining", "data-mining"),
        ] {
            let size = read(text);
            assert_eq!(size.show().as_deref(), Some(shown));
            assert_eq!(read(shown), size);
        }
        for (text, why) in [
            ("0", "out of range"),
            ("1kB|", "size"),
            ("2TiB", "1B to 1TiB"),
            ("websearch", "did you mean 'web-search'"),
            ("pareto", "such as 100kB"),
            ("file:/nowhere/at.all", "cannot read /nowhere/at.all"),
            ("cdf:1kB 0.5|2kB", "point 2: expected a size and a share"),
        ] {
            let e = SizeDistribution::read(text).unwrap_err();
            assert!(e.contains(why), "{text}: {e}");
        }
    }

    #[test]
    fn a_file_is_read_when_it_is_named() {
        let path = std::env::temp_dir().join(format!("narrows-cdf-{}", std::process::id()));
        std::fs::write(&path, "# three\n1kB 0.5\n\n2kB .75 # most\n10000 1.0\n").unwrap();
        let text = format!("file:{}", path.display());
        let size = read(&text);
        std::fs::remove_file(&path).unwrap();
        // It is written out, so that the file may go.
        let out = "cdf:1kB 0.5|2kB 0.75|10kB 1";
        assert_eq!(size.show().as_deref(), Some(out));
        assert_eq!(read(out), size);
        // 1/2 of 1000, 1/4 of 1500, 1/4 of 6000.
        assert_eq!(size.mean().rounded(), ByteCount::new(500 + 375 + 1_500));
        assert_eq!(size.most(), ByteCount::new(10_000));
        assert!(SizeDistribution::read(&text).is_err(), "it is gone");
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, line, why) in [
            ("", None, "no points"),
            ("1 0\n2 0.9", None, "the last share has to be 1"),
            ("0 1", None, "1B to 1TiB"),
            ("1 0\n\n1x 1", Some(3), "unit"),
            ("1 0\n2 1.1", Some(2), "no share"),
            ("1 0\n2 -1", Some(2), "no share"),
            ("1 0\n2 0.1234567891", Some(2), "no share"),
            ("1 0\n2 99999999999999999999", Some(2), "no share"),
            ("1 1 0\n2 1 1", Some(1), "expected a size and a share"),
            ("5 0\n4 1", Some(2), "ascend"),
            ("5 0.5\n6 0.4\n7 1", Some(2), "ascend"),
            ("1", Some(1), "expected a size and a share"),
            ("1 .", Some(1), "no share"),
        ] {
            let e = SizeCdf::read("x", text).unwrap_err();
            assert_eq!(e.line, line, "{text:?}: {e}");
            assert!(e.to_string().contains(why), "{text:?}: {e}");
        }
    }

    /// What others state for the same points: 1,711,250 bytes for web search; for data mining the
    /// middle of the bounds that a discrete draw of either end of each step gives.
    #[test]
    fn the_shipped_distributions_have_the_published_means() {
        assert_eq!(
            read("web-search").mean().rounded(),
            ByteCount::new(1_711_250)
        );
        let (lower, upper) = (21_165_986_u128, 231_997_986);
        let mean = read("data-mining").mean();
        assert_eq!(mean.bytes * 10 * 2 / mean.of, lower + upper);
    }

    /// As the papers have it: of web search some 95 % of all bytes are of the 30 % of flows
    /// beyond 1 MB; of data mining 80 % of flows have less than 10 KB, and 95 % of all bytes are of
    /// the 4 % beyond 35 MB.
    #[test]
    fn the_shipped_distributions_are_those_of_the_papers() {
        let share = |name: &str, beyond: u64| {
            let (size, mut random) = (read(name), stream(1));
            let (mut flows, mut bytes, mut all) = (0, 0, 0);
            for _ in 0..200_000 {
                let n = size.draw(&mut random).get();
                all += n;
                if n > beyond {
                    flows += 1;
                    bytes += n;
                }
            }
            (f64::from(flows) / 200_000.0, bytes as f64 / all as f64)
        };
        let (flows, bytes) = share("web-search", 1_000_000);
        assert!(
            (flows - 0.3).abs() < 0.01 && (bytes - 0.95).abs() < 0.01,
            "{flows} {bytes}"
        );
        let (flows, bytes) = share("data-mining", 35_000_000);
        assert!(flows < 0.045 && bytes > 0.95, "{flows} {bytes}");
        let (flows, _) = share("data-mining", 10_000);
        assert!((flows - 0.2).abs() < 0.01, "{flows}");
    }

    #[test]
    fn all_sizes_of_a_list_come_as_often() {
        let (size, mut random) = (read("1|2|4"), stream(2));
        let mut counts = [0u32; 5];
        for _ in 0..30_000 {
            counts[size.draw(&mut random).as_usize()] += 1;
        }
        for n in [1, 2, 4] {
            assert!(counts[n].abs_diff(10_000) < 245, "{counts:?}");
        }
        assert_eq!(size.mean().rounded(), ByteCount::new(2));
    }

    /// The mean of every part of a distribution is its mean but for half a byte of rounding; and
    /// no draw leaves it.
    #[test]
    fn drawn_sizes_have_the_mean_of_the_distribution() {
        let cdf = SizeCdf::read("x", "100 0.25\n100 0.5\n1000 0.5\n2001 0.9\n9999 1").unwrap();
        let step = 1_000;
        let parts = CERTAIN / step;
        let sum: u128 = (0..parts)
            .map(|i| u128::from(cdf.at(i * step + step / 2).get()))
            .sum();
        let mean = cdf.mean();
        let drawn = sum as f64 / parts as f64;
        let exact = mean.bytes as f64 / mean.of as f64;
        assert!((drawn - exact).abs() < 0.51, "{drawn} {exact}");
        assert_eq!(cdf.at(0), ByteCount::new(100));
        assert_eq!(cdf.at(CERTAIN / 2 - 1), ByteCount::new(100));
        assert_eq!(cdf.at(CERTAIN / 2), ByteCount::new(1_000));
        assert_eq!(cdf.at(CERTAIN - 1), ByteCount::new(9_999));
    }

    proptest! {
        /// Whatever a file says: it is a distribution or an error, never a panic, and draws
        /// ascend with the share.
        #[test]
        fn any_file_is_a_distribution_or_an_error(text in "([0-9]{1,6}(kB)? (0|1|0?\\.[0-9]{1,4})\n){0,6}") {
            if let Ok(cdf) = SizeCdf::read("x", &text) {
                let shares = [0, 1, 999, CERTAIN / 3, CERTAIN / 2, CERTAIN - 2, CERTAIN - 1];
                let sizes: Vec<_> = shares.iter().map(|s| cdf.at(*s)).collect();
                prop_assert!(sizes.is_sorted(), "{sizes:?} of {text:?}");
                let most = cdf.points.last().unwrap().size;
                prop_assert!(sizes.iter().all(|s| *s <= most));
                let mean = cdf.mean();
                prop_assert!(mean.bytes <= mean.of * u128::from(most.get()));
            }
        }
    }
}
