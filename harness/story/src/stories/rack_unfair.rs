//! `rack unfair`: an output buffer split by input shares its link among inputs, not flows.

use crate::grid::Column;
use crate::judge::Finding;
use crate::played::{Answer, Played};
use crate::scene::Scene;
use crate::story::{Figure, Live, Next, Row, Story, Table};
use narrows_report::chart::{Axis, Chart, Draw, Rule, RuleAt, Series};

/// The story.
pub const STORY: Story = Story {
    name: "rack unfair",
    about: "Three senders to one receiver get 25, 25 and 50 % whatever their congestion control.",
    scenes: &[
        Scene::new("share", "split-output").usually(&[("run.duration", "400ms")]),
        // Five senders: three inputs of one queue and two of the other, or two, one and two of three.
        Scene::new("five", "split-output")
            .with(&[
                ("cc", "dctcp"),
                ("network.hosts", "6"),
                ("traffic.fourth.kind", "bulk"),
                ("traffic.fourth.from", "h4"),
                ("traffic.fourth.to", "h0"),
                ("traffic.fifth.kind", "bulk"),
                ("traffic.fifth.from", "h5"),
                ("traffic.fifth.to", "h0"),
                ("sweep.split", "off,2,3"),
            ])
            .usually(&[("run.duration", "400ms")]),
    ],
    tables: &[Table::points(
        "Goodput of the three senders; the first and the third share a queue where it is split",
        "share",
        &[
            Column::new("first", "first.goodput"),
            Column::new("second", "alone.goodput"),
            Column::new("third", "third.goodput"),
            Column::new("fairness", "fairness"),
        ],
    )],
    phenomenon,
    rows: &[
        Row::new("D7", quarters_and_a_half),
        Row::new("D8", whatever_the_control),
        Row::new("D9", queues_served_in_turn),
    ],
    figures: &[Figure::first(figure)],
    next: &[
        Next::new(
            "narrows run split-output --sweep split=off,2,3,4",
            "more queues",
        ),
        Next::new(
            "narrows run split-output --set split=2 --sweep turns=packet,byte",
            "turns by packet or by byte",
        ),
    ],
    live: Live::Cannot("the kernel's ports have no output that is split by input"),
};

const CONTROLS: [&str; 3] = ["reno", "cubic", "dctcp"];
const SENDERS: [&str; 3] = ["first", "alone", "third"];

/// The shares of the three senders, in percent.
fn shares(played: &Played, split: &str, cc: &str) -> Answer<[f64; 3]> {
    let scene = played.scene("share")?;
    let mut shares = [0.0; 3];
    for (share, sender) in shares.iter_mut().zip(SENDERS) {
        let at = [("split", split), ("cc", cc)];
        *share = scene.value(&at, &format!("{sender}.goodput"))?;
    }
    let all: f64 = shares.iter().sum();
    Ok(shares.map(|share| share / all * 100.0))
}

fn words([a, b, c]: [f64; 3]) -> String {
    format!("{a:.1}, {b:.1} and {c:.1} %")
}

/// The most points that a share is off what it is to be.
fn off(shares: [f64; 3], wanted: [f64; 3]) -> f64 {
    let off = shares.iter().zip(wanted).map(|(is, was)| (is - was).abs());
    off.fold(0.0, f64::max)
}

const SPLIT: [f64; 3] = [25.0, 50.0, 25.0];

fn phenomenon(played: &Played) -> Answer<String> {
    let split = shares(played, "2", "dctcp")?;
    let whole = shares(played, "off", "dctcp")?;
    Ok(format!(
        "Three DCTCP senders get {} through a port of two queues, and {} through one of one.",
        words(split),
        words(whole)
    ))
}

fn quarters_and_a_half(played: &Played) -> Answer<Finding> {
    let shares = shares(played, "2", "dctcp")?;
    let so = off(shares, SPLIT) <= 2.0;
    Ok(Finding::is(
        format!(
            "DCTCP: {} against 25, 50 and 25, within 2 points",
            words(shares)
        ),
        so,
    ))
}

fn whatever_the_control(played: &Played) -> Answer<Finding> {
    let of = |cc: &&'static str| -> Answer<Finding> {
        let shares = shares(played, "2", cc)?;
        let so = off(shares, SPLIT) <= 2.0;
        Ok(Finding::is(format!("{cc}: {}", words(shares)), so))
    };
    let all: Vec<Finding> = CONTROLS.iter().map(of).collect::<Answer<_>>()?;
    Ok(Finding::all(all).and_words(
        " (each within 2 points of 25, 50 and 25). Of the controls that ship `fixed` is left out, since it adapts \
                 to nothing: what a sender gets of a queue is then as its window was set, and one too small to fill the \
                 line (`narrows run split-output --set split=2 --set cc=fixed`) meets no queue at all",
    ))
}

/// The five senders by their inputs, and how many of them share the queue of each.
const FIVE: [&str; 5] = ["first", "alone", "third", "fourth", "fifth"];
const OF_TWO: [f64; 5] = [3.0, 2.0, 3.0, 2.0, 3.0];
const OF_THREE: [f64; 5] = [2.0, 2.0, 1.0, 2.0, 2.0];

/// Shares of five senders where an output has so many queues: 1/(q n) each, n at a sender's queue.
fn queues_served_in_turn(played: &Played) -> Answer<Finding> {
    let scene = played.scene("five")?;
    let judged = |what: &str, split: &str, wanted: [f64; 5]| -> Answer<Finding> {
        let rates =
            FIVE.map(|sender| scene.value(&[("split", split)], &format!("{sender}.goodput")));
        let rates: Vec<f64> = rates.into_iter().collect::<Answer<_>>()?;
        let all: f64 = rates.iter().sum();
        let shares: Vec<f64> = rates.iter().map(|rate| rate / all * 100.0).collect();
        let list = |all: &[f64]| {
            let all: Vec<String> = all.iter().map(|share| format!("{share:.1}")).collect();
            all.join(", ")
        };
        let off = shares.iter().zip(wanted).map(|(is, was)| (is - was).abs());
        Ok(Finding::is(
            format!("{what} {} against {} %", list(&shares), list(&wanted)),
            off.fold(0.0, f64::max) <= 2.0,
        ))
    };
    let of = |queues: f64, sharing: [f64; 5]| sharing.map(|n| 100.0 / (queues * n));
    let finding = Finding::all([
        judged(
            "five senders through two queues, three at one and two at the other,",
            "2",
            of(2.0, OF_TWO),
        )?,
        judged(
            "through three, of which one has one,",
            "3",
            of(3.0, OF_THREE),
        )?,
        judged("through one", "off", [20.0; 5])?,
    ]);
    Ok(
        finding
            .and_words(" (each within 2 points of 1/(q n), q queues and n senders at one's own)"),
    )
}

fn figure(played: &Played) -> Answer<Chart> {
    let mut series = Vec::new();
    for (group, cc) in CONTROLS.into_iter().enumerate() {
        let shares = shares(played, "2", cc)?;
        series.push(Series {
            name: cc.to_owned(),
            group,
            draw: Draw::Markers,
            points: (0..).map(f64::from).zip(shares).collect(),
            ..Series::default()
        });
    }
    Ok(Chart {
        title: "Share of each sender through an output of two queues".to_owned(),
        x: Axis {
            label: "Sender, by the queue of its port".to_owned(),
            words: ["first, a", "second, b", "third, a"]
                .map(str::to_owned)
                .to_vec(),
            ..Axis::default()
        },
        y: Axis {
            label: "Share of the goodput (%)".to_owned(),
            range: Some((0.0, 60.0)),
            ..Axis::default()
        },
        series,
        rules: vec![Rule {
            at: RuleAt::Y(100.0 / 3.0),
            label: "a third".to_owned(),
        }],
        ..Chart::default()
    })
}
