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

/// How far from the text's percentiles ours may be.
const FACTOR: f64 = 3.0;

/// The quanta of the broken receiver: a delayed acknowledgement and a timeout, in ms, and how far off a
/// percentile may be that is one.
const QUANTA: [f64; 2] = [40.0, 200.0];
const OFF: f64 = 15.0;

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

    /// Its percentiles that ours are not near to, in words.
    fn far(&self, ours: [f64; 2]) -> Vec<String> {
        let pairs = ["p99", "p99.9"]
            .into_iter()
            .zip(ours.into_iter().zip(self.ms));
        let far = pairs.filter(|(_, (ours, text))| !(text / FACTOR..=text * FACTOR).contains(ours));
        let words = far.map(|(which, (ours, text))| {
            let (of_text, of_ours) = (quantum(text), quantum(ours));
            format!(
                "{} {} {which}, {text}{of_text} in the text and {}{of_ours} here",
                self.size,
                self.name,
                ms(ours)
            )
        });
        words.collect()
    }
}

/// What a time in ms is, if it is one of the quanta.
fn quantum(ms: f64) -> &'static str {
    let is = |quantum: f64| (ms - quantum).abs() <= OFF;
    match QUANTA.map(is) {
        [true, _] => " (a delayed acknowledgement)",
        [_, true] => " (a timeout)",
        _ => "",
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
    let mut findings = Vec::new();
    for broken in TEXT
        .iter()
        .filter(|published| published.receiver == BROKEN.2)
    {
        let ours = broken.ours(played)?;
        let is_one = |ms: &f64| QUANTA.iter().any(|quantum| (ms - quantum).abs() <= OFF);
        findings.push(Finding::is(
            format!(
                "{} with the receiver of 2015: p99 {} ms, p99.9 {} (wanted 40 or 200, each ± {OFF})",
                broken.size,
                ms(ours[0]),
                ms(ours[1]),
            ),
            ours.iter().all(is_one),
        ));
    }
    let [_, _, _, cubic, _, fixed] = &TEXT;
    let (fixed, cubic) = (fixed.ours(played)?[0], cubic.ours(played)?[0]);
    findings.push(Finding::is(
        format!(
            "10 kB p99: fixed {} ms, CUBIC {} (wanted fixed below)",
            ms(fixed),
            ms(cubic)
        ),
        fixed < cubic,
    ));
    let mut words = Vec::new();
    // Which of the twelve are not near, and whether all are of which each percentile is judged.
    let (mut far, mut so) = (Vec::new(), true);
    for published in &TEXT {
        let ours = published.ours(played)?;
        let not = published.far(ours);
        so &= published.receiver != FIXED.2 || not.is_empty();
        far.extend(not);
        let ([p99, p999], [a, b]) = (published.ms, ours.map(ms));
        let (size, name) = (published.size, published.name);
        words.push(format!("{size} {name} {p99}/{p999}: {a}/{b}"));
    }
    findings.push(Finding::is(
        format!(
            "p99/p99.9 in ms, the text and ours: {} (wanted within a factor {FACTOR} of CUBIC and fixed; of all \
             {} of {} are{}{})",
            words.join("; "),
            2 * TEXT.len() - far.len(),
            2 * TEXT.len(),
            if far.is_empty() { "" } else { ", not " },
            far.join(", "),
        ),
        so,
    ));
    Ok(Finding::all(findings))
}
