//! The twelve percentiles of the text beside ours: claim D14.

use super::{calls_in, share};
use crate::grid::Grid;
use crate::judge::{Finding, median};
use crate::played::{Answer, Played, missing};
use crate::scene::Scene;

/// Each sender a stream without an end, and one call of each size after the other, by a sender as Linux had
/// it then: a mark that comes with the reply, when nothing is in flight, leaves a window of one segment.
pub(super) const SENDERS: Scene = Scene::new("three senders", "rack-tails")
    .with(&[
        ("traffic.large.connections", "1"),
        ("traffic.small.connections", "1"),
        ("traffic.small.request", "10KiB"),
        ("traffic.stream.kind", "bulk"),
        ("traffic.stream.from", "h1..h3"),
        ("traffic.stream.to", "h0"),
        ("host.tcp.prr", "linux-4.3"),
        ("sweep.congestion", "cubic,dctcp"),
        ("sweep.receiver", "linux-2015,linux"),
        ("run.duration", "4s"),
    ])
    .keeping_outcomes();

/// Size, traffic, what is compared, congestion control, receiver, and the text's p99 and p99.9 in ms.
struct Published {
    size: &'static str,
    traffic: &'static str,
    name: &'static str,
    congestion: &'static str,
    receiver: &'static str,
    ms: [f64; 2],
}

const fn published(
    (size, traffic): (&'static str, &'static str),
    (name, congestion, receiver): (&'static str, &'static str, &'static str),
    ms: [f64; 2],
) -> Published {
    Published {
        size,
        traffic,
        name,
        congestion,
        receiver,
        ms,
    }
}

const LARGE: (&str, &str) = ("1 MB", "large");
const SMALL: (&str, &str) = ("10 kB", "small");
const CUBIC: (&str, &str, &str) = ("CUBIC", "cubic", "linux");
const BROKEN: (&str, &str, &str) = ("DCTCP, broken", "dctcp", "linux-2015");
const FIXED: (&str, &str, &str) = ("DCTCP, fixed", "dctcp", "linux");

const TEXT: [Published; 6] = [
    published(LARGE, CUBIC, [2.6, 5.5]),
    published(LARGE, BROKEN, [43.0, 208.0]),
    published(LARGE, FIXED, [5.8, 6.9]),
    published(SMALL, CUBIC, [1.1, 1.3]),
    published(SMALL, BROKEN, [53.0, 212.0]),
    published(SMALL, FIXED, [0.146, 0.203]),
];

/// How far from the text's percentiles ours may be.
const FACTOR: f64 = 3.0;

/// The quanta of the broken receiver: a delayed acknowledgement and a timeout, in ms, and how far off calls
/// that wait for one may be.
const QUANTA: [f64; 2] = [40.0, 200.0];
const OFF: f64 = 15.0;

impl Published {
    /// Where it is swept.
    fn at(&self) -> [(&'static str, &'static str); 2] {
        [("congestion", self.congestion), ("receiver", self.receiver)]
    }

    /// Ours, in ms.
    fn ours(&self, played: &Played) -> Answer<[f64; 2]> {
        let scene = played.scene(SENDERS.name)?;
        let of =
            |which: &str| scene.value(&self.at(), &format!("{}.latency.{which}", self.traffic));
        Ok([of("p99")? / 1e6, of("p999")? / 1e6])
    }

    /// The times of our calls, in ms.
    fn calls(&self, played: &Played) -> Answer<Vec<f64>> {
        let traffic = u16::from(self.traffic == SMALL.1);
        calls_in(played.scene(SENDERS.name)?, &self.at(), traffic)
    }

    /// How many of its two percentiles ours are near to.
    fn near(&self, ours: [f64; 2]) -> usize {
        let pairs = ours.into_iter().zip(self.ms);
        pairs
            .filter(|(ours, text)| (text / FACTOR..=text * FACTOR).contains(ours))
            .count()
    }

    /// Of the broken receiver: a p99 of 43 ms says that a hundredth of the calls wait for a delayed
    /// acknowledgement or longer, a p99.9 of 208 that a thousandth waits for a timeout, and a p99 of 43
    /// that a hundredth does not.
    fn quanta(&self, played: &Played) -> Answer<Finding> {
        let calls = self.calls(played)?;
        let [delayed, timeout] = QUANTA.map(|quantum| quantum - OFF);
        let late = share(&calls, (delayed, f64::INFINITY));
        let later = share(&calls, (timeout, f64::INFINITY));
        let within = |(from, to): (f64, f64)| -> Answer<f64> {
            let those: Vec<f64> = calls
                .iter()
                .copied()
                .filter(|t| (from..to).contains(t))
                .collect();
            median(&those).ok_or_else(|| missing("call that waits"))
        };
        let modes = [
            within((delayed, timeout))?,
            within((timeout, f64::INFINITY))?,
        ];
        let so = modes
            .iter()
            .zip(QUANTA)
            .all(|(mode, quantum)| (mode - quantum).abs() <= OFF)
            && (1.0 / FACTOR..=FACTOR).contains(&late)
            && (0.1 / FACTOR..=1.0).contains(&later);
        Ok(Finding::is(
            format!(
                "calls of {} with the receiver of 2015: {late:.2} % take {delayed} ms or more (wanted {:.2} to \
                 {FACTOR}), {later:.2} % {timeout} (wanted {:.3} to 1); medians of the two {} and {} ms",
                self.size,
                1.0 / FACTOR,
                0.1 / FACTOR,
                ms(modes[0]),
                ms(modes[1]),
            ),
            so,
        ))
    }
}

/// A time in ms, to three digits.
fn ms(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

/// All twelve.
pub(super) fn table(played: &Played) -> Answer<Grid> {
    let row = |published: &Published| -> Answer<Vec<String>> {
        let mut row = vec![published.size.to_owned(), published.name.to_owned()];
        row.extend(published.ms.map(|n| n.to_string()));
        row.extend(published.ours(played)?.map(ms));
        Ok(row)
    };
    Ok(Grid {
        rows: TEXT.iter().map(row).collect::<Answer<_>>()?,
        ..Grid::new(["", "", "text p99", "p99.9", "ours p99", "p99.9"], 2)
    })
}

pub(super) fn tails_have_quanta(played: &Played) -> Answer<Finding> {
    let [_, large, _, cubic, small, fixed] = &TEXT;
    let (fixed, cubic) = (fixed.ours(played)?[0], cubic.ours(played)?[0]);
    let mut findings = vec![
        small.quanta(played)?,
        large.quanta(played)?,
        Finding::is(
            format!(
                "10 kB p99: fixed {} ms, CUBIC {} (wanted fixed below)",
                ms(fixed),
                ms(cubic)
            ),
            fixed < cubic,
        ),
    ];
    let mut words = Vec::new();
    // How many of the twelve are near, and whether all are of which each percentile is judged.
    let (mut near, mut so) = (0, true);
    for published in &TEXT {
        let ours = published.ours(played)?;
        near += published.near(ours);
        if published.receiver == FIXED.2 {
            so &= published.near(ours) == ours.len();
        }
        let ([p99, p999], [a, b]) = (published.ms, ours.map(ms));
        let (size, name) = (published.size, published.name);
        words.push(format!("{size} {name} {p99}/{p999}: {a}/{b}"));
    }
    findings.push(Finding::is(
        format!(
            "p99/p99.9 in ms, the text and ours: {} (wanted within a factor {FACTOR} of CUBIC and fixed; all in \
             all {near} of 12 are)",
            words.join("; "),
        ),
        so,
    ));
    Ok(Finding::all(findings))
}
