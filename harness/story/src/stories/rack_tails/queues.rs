//! What the port of a rack holds under loss, under classic marks and under DCTCP: claims D1, D3, D4
//! and D5.

use crate::grid::Grid;
use crate::judge::Finding;
use crate::played::{Answer, Played, column, missing, series_of};
use crate::scene::{Keys, Scene};
use narrows_report::chart::{Axis, Chart, Draw, Rule, RuleAt, Scale, Series};
use narrows_report::points::number;

/// A rack at 25 Gb/s whose switch has a megabyte for a port.
const RACK: Keys = &[
    ("network.link.rate", "25Gb/s"),
    ("network.link.delay", "13us"),
    ("buffer", "1MB"),
];
/// Receivers that hold back nobody.
const WIDE: Keys = &[("host.tcp.receive_window", "4MiB")];

/// Three flows to one host of a rack at 25 Gb/s, by congestion control.
pub(super) const STANDING: Scene = Scene::new("standing", "dctcp-queue")
    .sharing(&[RACK, WIDE])
    .with(&[
        ("network.hosts", "4"),
        ("k", "65p"),
        ("traffic.copy.from", "h1..h3"),
        ("host.tcp.loss_detection", "sack"),
        ("host.tcp.sack", "on"),
        ("host.tcp.rto", "linux"),
        ("sweep.cc", "cubic,dctcp"),
        ("run.warm_up", "400ms"),
        ("run.duration", "700ms"),
    ]);

/// Thresholds from far too small to what DCTCP wants.
const THRESHOLDS: &str = "5p,10p,20p,65p";

/// Two flows whose marks halve the window, by threshold.
pub(super) const HALVING: Scene = Scene::new("halving", "dctcp-queue")
    .sharing(&[RACK, WIDE])
    .with(&[
        ("cc", "reno"),
        ("host.tcp.ecn", "classic"),
        ("sweep.k", THRESHOLDS),
        ("run.warm_up", "50ms"),
        ("run.duration", "150ms"),
    ]);

/// Two flows of DCTCP's, by threshold, and what their senders believe.
pub(super) const FRACTION: Scene = Scene::new("fraction", "dctcp-queue")
    .sharing(&[RACK, WIDE])
    .with(&[
        ("cc", "dctcp"),
        ("sweep.k", THRESHOLDS),
        ("probe.sender.kind", "flow"),
        ("probe.sender.on", "h1..h2"),
        ("probe.sender.every", "50us"),
        ("run.warm_up", "50ms"),
        ("run.duration", "150ms"),
    ])
    .keeping_outcomes();

/// The first milliseconds of that.
pub(super) const BEGINNING: Scene = Scene::new("beginning", "dctcp-queue")
    .sharing(&[RACK, WIDE])
    .with(&[
        ("cc", "dctcp"),
        ("sweep.k", "5p,65p"),
        ("probe.sender.kind", "flow"),
        ("probe.sender.on", "h1"),
        ("probe.sender.every", "20us"),
        ("run.warm_up", "0s"),
        ("run.duration", "10ms"),
    ])
    .keeping_outcomes();

/// One flow of which each packet is marked.
pub(super) const ALL_MARKED: Scene = Scene::new("all-marked", "dctcp-queue")
    .sharing(&[RACK])
    .with(&[
        ("cc", "dctcp"),
        ("traffic.copy.from", "h1"),
        ("host.tcp.initial_window", "200"),
        ("network.port.s0->h0.link.mark", "100%"),
        ("probe.sender.kind", "flow"),
        ("probe.sender.on", "h1"),
        ("probe.sender.every", "5us"),
        ("run.warm_up", "0s"),
        ("run.duration", "2ms"),
    ])
    .keeping_outcomes();

/// Bytes of a full packet as the port counts them.
const PACKET: f64 = 1_500.0;

/// Queue of a port in packets, on the mean, by congestion control.
fn queue(played: &Played, cc: &str) -> Answer<f64> {
    let scene = played.scene("standing")?;
    scene.value(&[("cc", cc)], "port.s0->h0.mean_packets")
}

pub(super) fn loss_keeps_a_standing_queue(played: &Played) -> Answer<Finding> {
    let fits = 1e6 / PACKET;
    Ok(Finding::at_least(
        &format!("CUBIC's mean queue, of {fits:.0} packets that fit,"),
        queue(played, "cubic")?,
        fits / 2.0,
        "packets",
    ))
}

pub(super) fn marks_keep_the_queue_at_the_threshold(played: &Played) -> Answer<Finding> {
    Ok(Finding::near(
        "DCTCP's mean queue in packets",
        queue(played, "dctcp")?,
        65.0,
        0.25,
        "",
    ))
}

/// What two flows carry at a threshold, as a share of the line's payload.
fn carried(played: &Played, scene: &str, k: &str) -> Answer<f64> {
    // 1448 of the 1538 bytes that a segment takes on the wire.
    let line = 25e9 * 1_448.0 / 1_538.0;
    Ok(played.scene(scene)?.value(&[("k", k)], "goodput")? / line)
}

pub(super) fn halving_leaves_the_line_idle(played: &Played) -> Answer<Finding> {
    let percent = |scene| Ok::<_, crate::played::NoAnswer>(carried(played, scene, "10p")? * 100.0);
    Ok(Finding::all([
        Finding::at_most(
            "percent of the line at a threshold of 10 packets, halving at a mark",
            percent("halving")?,
            90.0,
            "",
        ),
        Finding::at_least("DCTCP", percent("fraction")?, 95.0, ""),
    ]))
}

/// The window in bytes and alpha of each sender, over time, at a point of a scene.
fn courses(played: &Played, scene: &str, at: &[(&str, &str)]) -> Answer<Vec<Vec<(f64, f64, f64)>>> {
    let run = played.scene(scene)?.run(at)?;
    let mut all = Vec::new();
    for series in series_of(run, "sender") {
        let alpha = column(series, "alpha")?;
        let rows = series.rows.iter().filter_map(|row| {
            let value = |at: usize| row.get(at).copied().flatten();
            Some((value(0)?, value(1)?, value(alpha)?))
        });
        all.push(rows.collect());
    }
    match all.is_empty() {
        true => Err(missing("course of alpha")),
        false => Ok(all),
    }
}

/// Alpha on the mean after 50 ms, and the share of packets that were marked.
fn alpha_and_marks(played: &Played, k: &str) -> Answer<(f64, f64)> {
    let at = [("k", k)];
    let courses = courses(played, "fraction", &at)?;
    let late = courses.iter().flatten().filter(|row| row.0 >= 50e6);
    let late: Vec<f64> = late.map(|row| row.2).collect();
    let alpha = late.iter().sum::<f64>() / late.len().max(1) as f64;
    let scene = played.scene("fraction")?;
    let share = scene.value(&at, "marks")? / scene.value(&at, "segments")?;
    Ok((alpha, share))
}

pub(super) fn the_cut_is_as_deep_as_the_marks_are_many(played: &Played) -> Answer<Finding> {
    let (alpha, marks) = alpha_and_marks(played, "65p")?;
    let all = courses(played, "all-marked", &[])?;
    let course = all.first().ok_or_else(|| missing("course"))?;
    // Cuts of a window far above the floor of two segments.
    let cuts = course.windows(2).filter(|w| w[0].1 > 20_000.0);
    let cuts: Vec<f64> = cuts
        .filter(|w| w[1].1 < 0.8 * w[0].1)
        .map(|w| w[1].1 / w[0].1)
        .collect();
    let cut = crate::judge::median(&cuts).ok_or_else(|| missing("cut of the window"))?;
    let last = course.last().map_or(0.0, |row| row.2);
    Ok(Finding::all([
        Finding::near(
            "mean alpha against the share of marks",
            alpha,
            marks,
            0.25,
            "",
        ),
        Finding::near("with all packets marked alpha", last, 1.0, 0.05, ""),
        Finding::near("and a cut leaves of the window", cut, 0.5, 0.05, ""),
    ]))
}

/// How much of a run the figure of alpha shows, in ms.
const SHOWN: f64 = 10.0;

/// What a sender believes of marks, over time, beside how many there are.
pub(super) fn alpha(played: &Played) -> Answer<Chart> {
    let mut series = Vec::new();
    let variants = [
        ("each packet is marked", "all-marked", None),
        ("marked from 5 packets on", "beginning", Some("5p")),
        ("marked from 65 packets on", "beginning", Some("65p")),
    ];
    for (group, (name, scene, k)) in variants.into_iter().enumerate() {
        let at: Vec<(&str, &str)> = k.map(|k| ("k", k)).into_iter().collect();
        let courses = courses(played, scene, &at)?;
        let course = courses.first().ok_or_else(|| missing("course"))?;
        let points = course.iter().map(|row| (row.0 / 1e6, row.2));
        series.push(Series {
            name: name.to_owned(),
            group,
            draw: Draw::Line,
            points: points.filter(|(ms, _)| *ms <= SHOWN).collect(),
            ..Series::default()
        });
    }
    let (_, marks) = alpha_and_marks(played, "65p")?;
    Ok(Chart {
        title: "DCTCP's moving average of marks, alpha, over time".to_owned(),
        x: Axis {
            label: "Time (ms)".to_owned(),
            range: Some((0.0, SHOWN)),
            ..Axis::default()
        },
        y: Axis {
            label: "alpha of the first sender".to_owned(),
            scale: Scale::Log10,
            ..Axis::default()
        },
        series,
        rules: vec![Rule {
            at: RuleAt::Y(marks),
            label: "share that is marked from 65 packets on".to_owned(),
        }],
        ..Chart::default()
    })
}

/// Goodput with halving and with DCTCP, and what DCTCP believes, by threshold.
pub(super) fn table(played: &Played) -> Answer<Grid> {
    let head = [
        "threshold",
        "halving, of the line",
        "DCTCP, of the line",
        "packets marked",
        "mean alpha",
    ];
    let row = |k: &str| -> Answer<Vec<String>> {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let (alpha, marks) = alpha_and_marks(played, k)?;
        Ok(vec![
            k.to_owned(),
            percent(carried(played, "halving", k)?),
            percent(carried(played, "fraction", k)?),
            percent(marks),
            number(alpha, ""),
        ])
    };
    Ok(Grid {
        head: head.map(str::to_owned).to_vec(),
        words: 1,
        rows: THRESHOLDS.split(',').map(row).collect::<Answer<_>>()?,
    })
}
