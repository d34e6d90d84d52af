//! The twelve percentiles of the text beside ours: claim D14.

use super::calls_in;
use crate::grid::Grid;
use crate::judge::Finding;
use crate::played::{Answer, Played, missing};
use crate::scene::Scene;
use narrows_experiment::stats::quantile;

/// Each sender a stream without an end, and one call of each size after the other, by a sender as Linux had
/// it then: after a mark the window of which all is acknowledged leaves one segment for the next call.
pub(super) const SENDERS: Scene = Scene::new("two senders", "rack-tails")
    .with(&[
        ("network.hosts", "3"),
        ("traffic.large.clients", "h1..h2"),
        ("traffic.small.clients", "h1..h2"),
        ("traffic.large.connections", "1"),
        ("traffic.small.connections", "1"),
        ("traffic.small.request", "10KiB"),
        ("traffic.stream.kind", "bulk"),
        ("traffic.stream.from", "h1..h2"),
        ("traffic.stream.to", "h0"),
        ("host.tcp.prr", "linux-4.3"),
        ("sweep.congestion", "cubic,dctcp"),
        ("sweep.receiver", "linux-2015,linux"),
        ("run.duration", "3s"),
        ("run.repetitions", "3"),
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

/// The quanta of the broken receiver: a delayed acknowledgement and a timeout, in ms, and how far off a
/// percentile may be that is one.
const QUANTA: [f64; 2] = [40.0, 200.0];
const OFF: f64 = 15.0;

/// What the twelve figures are counted by: how many times ours are the text's, or the text's ours.
const FACTORS: [f64; 3] = [1.5, 2.0, 3.0];

impl Published {
    /// Where it is swept.
    fn at(&self) -> [(&'static str, &'static str); 2] {
        [("congestion", self.congestion), ("receiver", self.receiver)]
    }

    /// Ours, in ms, of the calls of all runs.
    fn ours(&self, played: &Played) -> Answer<[f64; 2]> {
        let traffic = u16::from(self.traffic == SMALL.1);
        let mut calls = calls_in(played.scene(SENDERS.name)?, &self.at(), traffic)?;
        calls.sort_by(f64::total_cmp);
        let of = |permille| quantile(&calls, permille).ok_or_else(|| missing("call"));
        Ok([of(990)?, of(999)?])
    }

    /// Its percentiles beside ours, with names.
    fn pairs(&self, ours: [f64; 2]) -> impl Iterator<Item = (&'static str, f64, f64)> {
        let names = ["p99", "p99.9"].into_iter();
        let pairs = names.zip(self.ms).zip(ours);
        pairs.map(|((which, text), ours)| (which, text, ours))
    }
}

/// How many times the larger of two is the smaller.
fn times(a: f64, b: f64) -> f64 {
    (a / b).max(b / a)
}

/// The quantum that a percentile of the text's is.
fn quantum_of(text: f64) -> f64 {
    let near = |quantum: &&f64| (text - **quantum).abs() <= OFF;
    QUANTA.iter().find(near).copied().unwrap_or(text)
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
    let mut findings = Vec::new();
    for broken in TEXT
        .iter()
        .filter(|published| published.receiver == BROKEN.2)
    {
        for (which, text, ours) in broken.pairs(broken.ours(played)?) {
            let quantum = quantum_of(text);
            findings.push(Finding::is(
                format!(
                    "{} with the receiver of 2015, {which} {} ms (the text {text}; wanted {quantum} ± {OFF})",
                    broken.size,
                    ms(ours),
                ),
                (ours - quantum).abs() <= OFF,
            ));
        }
    }
    let [_, _, _, cubic, _, fixed] = &TEXT;
    for ((which, _, fixed), (_, _, cubic)) in fixed
        .pairs(fixed.ours(played)?)
        .zip(cubic.pairs(cubic.ours(played)?))
    {
        findings.push(Finding::is(
            format!(
                "10 kB {which}: fixed {} ms, CUBIC {} (wanted fixed below)",
                ms(fixed),
                ms(cubic)
            ),
            fixed < cubic,
        ));
    }
    let (mut words, mut all) = (Vec::new(), Vec::new());
    for published in &TEXT {
        for (which, text, ours) in published.pairs(published.ours(played)?) {
            let times = times(ours, text);
            let (size, name) = (published.size, published.name);
            words.push(format!(
                "{size} {name} {which} {text}: {} ({times:.2})",
                ms(ours)
            ));
            all.push(times);
        }
    }
    let within = FACTORS.map(|factor| {
        let count = all.iter().filter(|times| **times <= factor).count();
        format!("{count} within {factor}")
    });
    let finding = Finding::all(findings);
    Ok(finding.and_words(format_args!(
        ". Of calls of 1 MB {:.2} % take 40 ms or more with the receiver of 2015, {:.2} % 200. Of the text's {} figures ours are, by how many times the larger is the smaller, {}: {}, of which the \
         claim asks no more than the above",
        large_ones_late(played, QUANTA[0])?,
        large_ones_late(played, QUANTA[1])?,
        all.len(),
        within.join(", "),
        words.join("; "),
    )))
}

/// Percent of the calls of 1 MB with the broken receiver that take as long as a quantum, and no shorter.
fn large_ones_late(played: &Played, quantum: f64) -> Answer<f64> {
    let [_, broken, ..] = &TEXT;
    let calls = calls_in(played.scene(SENDERS.name)?, &broken.at(), 0)?;
    let late = calls.iter().filter(|ms| **ms >= quantum).count();
    Ok(late as f64 / calls.len() as f64 * 100.0)
}

/// Why p99 of calls of 1 MB is not the text's quantum.
pub(super) const TIMEOUTS: &str = "with the receiver of 2015 more than one in a hundred calls of 1 MB \
    waits for a timeout here, and in the text fewer, but more than one in a thousand: which quantum p99 is. How often \
    an acknowledgement is cancelled hangs on how often marks come and go within a call, and so on what else is at the \
    port, of which the text does not tell enough. With nine connections of each client and none without an end, as \
    in the first table, p99.9 of calls of 1 MB waits for neither timer";
