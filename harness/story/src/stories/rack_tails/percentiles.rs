//! The twelve percentiles of the text beside ours: claim D14.

use super::{DCTCP, DELAYED, TIMEOUT, calls, share};
use crate::grid::Grid;
use crate::judge::Finding;
use crate::played::{Answer, Played};
use crate::scene::Scene;

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
            "54 connections, receiver of 2015: {:.3} % of calls of 10 kB take {} to {} ms, {:.3} % {} to {} ms",
            share(&old, DELAYED),
            DELAYED.0,
            DELAYED.1,
            share(&old, TIMEOUT),
            TIMEOUT.0,
            TIMEOUT.1
        ),
        share(&old, DELAYED) > 0.0 && share(&old, TIMEOUT) > 0.0,
    )];
    let [_, _, _, cubic, _, fixed] = &TEXT;
    for (scene, name) in SCENES.into_iter().zip(["54 connections", "two hosts"]) {
        let (fixed, cubic) = (fixed.ours(played, scene)?, cubic.ours(played, scene)?);
        findings.push(Finding::is(
            format!(
                "10 kB p99, {name}: fixed {} ms, CUBIC {}",
                ms(fixed[0]),
                ms(cubic[0])
            ),
            fixed[0] < cubic[0],
        ));
    }
    let mut words = Vec::new();
    let mut within = true;
    for published in &TEXT {
        let [many, two] = SCENES.map(|scene| published.ours(played, scene));
        let (many, two) = (many?, two?);
        let pair = |[a, b]: [f64; 2]| format!("{}/{}", ms(a), ms(b));
        words.push(format!(
            "{} {} {}/{}: {}, {}",
            published.size,
            published.name,
            published.ms[0],
            published.ms[1],
            pair(many),
            pair(two)
        ));
        if published.receiver == "linux" {
            let near = |(ours, text): (&f64, &f64)| (text / 3.0..=text * 3.0).contains(ours);
            within &= two.iter().zip(&published.ms).all(near);
        }
    }
    let timeouts = |scene: &str| {
        let at = [("congestion", "cubic"), ("receiver", "linux")];
        played.scene(scene)?.value(&at, "timeouts")
    };
    let [many, two] = SCENES.map(timeouts);
    let (many, two) = (many?, two?);
    findings.push(Finding::is(
        format!(
            "p99/p99.9 in ms, the text: 54 connections, two hosts: {} (wanted CUBIC and fixed of two hosts \
             within a factor 3). No one set-up gives all twelve. Quanta take windows of one segment, so the 54 \
             connections; but their calls overflow the port with CUBIC, and what is lost at the end of one \
             waits for the timer, 200 ms ({many:.0} timeouts). Two hosts, each with a stream without an end and \
             a call of each size at a time, have {two:.0} in 2 s with CUBIC; and with DCTCP the receiver of \
             2015 changes nothing there",
            words.join("; ")
        ),
        within,
    ));
    Ok(Finding::all(findings))
}
