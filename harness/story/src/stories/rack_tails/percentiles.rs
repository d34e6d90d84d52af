//! The twelve percentiles of the text beside ours: claim D14.

use super::{DCTCP, DELAYED, TIMEOUT, calls, share};
use crate::grid::Grid;
use crate::judge::Finding;
use crate::played::{Answer, Played};
use crate::scene::Scene;
use narrows_report::points::number;

/// Two hosts that send to a third: each a stream without an end, and one call of each size after the
/// other.
pub(super) const TWO_HOSTS: Scene = Scene::new("two hosts", "rack-tails").with(&[
    ("network.hosts", "3"),
    ("traffic.large.clients", "h1..h2"),
    ("traffic.large.connections", "1"),
    ("traffic.small.clients", "h1..h2"),
    ("traffic.small.connections", "1"),
    ("traffic.stream.kind", "bulk"),
    ("traffic.stream.from", "h1..h2"),
    ("traffic.stream.to", "h0"),
    ("host.tcp.loss_detection", "rack"),
    ("sweep.receiver", "linux-2015,linux"),
    ("run.duration", "2s"),
]);

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
const BROKEN: (&str, &str, &str) = ("DCTCP, broken", DCTCP, "linux-2015");
const FIXED: (&str, &str, &str) = ("DCTCP, fixed", DCTCP, "linux");

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

const SCENES: [&str; 2] = ["tails", "two hosts"];

impl Published {
    /// Ours in a scene, in ms.
    fn ours(&self, played: &Played, scene: &str) -> Answer<[f64; 2]> {
        let at = [("congestion", self.congestion), ("receiver", self.receiver)];
        let scene = played.scene(scene)?;
        let of = |which: &str| scene.value(&at, &format!("{}.latency.{which}", self.traffic));
        Ok([of("p99")? / 1e6, of("p999")? / 1e6])
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
        for scene in SCENES {
            row.extend(published.ours(played, scene)?.map(ms));
        }
        Ok(row)
    };
    let head = [
        "",
        "",
        "text p99",
        "p99.9",
        "54 connections p99",
        "p99.9",
        "two hosts p99",
        "p99.9",
    ];
    Ok(Grid {
        rows: TEXT.iter().map(row).collect::<Answer<_>>()?,
        ..Grid::new(head, 2)
    })
}

pub(super) fn tails_have_quanta(played: &Played) -> Answer<Finding> {
    let old = calls(played, DCTCP, "linux-2015")?;
    let mut findings = vec![Finding::is(
        format!(
            "54 connections, receiver of 2015: {:.3} % of calls of 10 kB take {} to {} ms, {:.3} % {} to {} ms \
             (wanted some of each)",
            share(&old, DELAYED),
            DELAYED.0,
            DELAYED.1,
            share(&old, TIMEOUT),
            TIMEOUT.0,
            TIMEOUT.1
        ),
        share(&old, DELAYED) > 0.0 && share(&old, TIMEOUT) > 0.0,
    )];
    let [_, _, _, cubic, broken, fixed] = &TEXT;
    for (scene, name) in SCENES.into_iter().zip(["54 connections", "two hosts"]) {
        let (fixed, cubic) = (fixed.ours(played, scene)?, cubic.ours(played, scene)?);
        findings.push(Finding::is(
            format!(
                "10 kB p99, {name}: fixed {} ms, CUBIC {} (wanted fixed below)",
                ms(fixed[0]),
                ms(cubic[0])
            ),
            fixed[0] < cubic[0],
        ));
    }
    let mut words = Vec::new();
    // How many of the twelve are near, by scene, and whether all that are judged are.
    let (mut all_near, mut so) = ([0, 0], true);
    for published in &TEXT {
        let [many, two] = SCENES.map(|scene| published.ours(played, scene));
        let ours = [many?, two?];
        let near = |ours: &[f64; 2]| {
            let pairs = ours.iter().zip(&published.ms);
            pairs
                .filter(|(ours, text)| (**text / FACTOR..=**text * FACTOR).contains(ours))
                .count()
        };
        for (sum, ours) in all_near.iter_mut().zip(&ours) {
            *sum += near(ours);
        }
        if published.receiver == "linux" {
            so &= near(&ours[1]) == ours[1].len();
        }
        let [many, two] = ours.map(|[a, b]| format!("{}/{}", ms(a), ms(b)));
        let [p99, p999] = published.ms;
        let (size, name) = (published.size, published.name);
        words.push(format!("{size} {name} {p99}/{p999}: {many}, {two}"));
    }
    let of_cubic = |scene: &str, metric: &str| {
        let at = [("congestion", "cubic"), ("receiver", "linux")];
        played.scene(scene)?.value(&at, metric)
    };
    let [many, two] = SCENES;
    let of_2015 = broken.ours(played, two)?[1] / fixed.ours(played, two)?[1];
    findings.push(Finding::is(
        format!(
            "p99/p99.9 in ms, the text: 54 connections, two hosts: {}. Judged are CUBIC and fixed of two hosts \
             (wanted within a factor {FACTOR}), and neither those of 54 connections nor the broken DCTCP, whose \
             quanta are above: of the twelve {} are within that factor with 54 connections, {} with two hosts. \
             Quanta take windows of one segment, so many connections; with CUBIC they have {:.0} drops and {:.0} \
             timeouts in {}. Two hosts, each with a stream without an end and a call of each size at a time, have \
             {:.0} timeouts in {} with CUBIC; the receiver of 2015 makes the p99.9 of 10 kB {of_2015:.2} times \
             that of today there",
            words.join("; "),
            all_near[0],
            all_near[1],
            of_cubic(many, "drops")?,
            of_cubic(many, "timeouts")?,
            measured(played, many)?,
            of_cubic(two, "timeouts")?,
            measured(played, two)?,
        ),
        so,
    ));
    Ok(Finding::all(findings))
}

/// How long a scene measures.
fn measured(played: &Played, scene: &str) -> Answer<String> {
    let time = played.scene(scene)?.measured();
    Ok(number(time.as_nanos() as f64, "ns"))
}
