//! `incast`: servers that answer at once overfill one port.

use crate::judge::Finding;
use crate::stage::{Played, Told};
use crate::story::{Column, Live, Row, Scene, Story, Table};
use narrows_report::chart::{Axis, Chart, Rule, RuleAt, Scale, Series};

/// The story.
pub const STORY: Story = Story {
    name: "incast",
    about: "Servers that answer at once overfill one port, and the block waits for a timeout.",
    scenes: &[Scene::new("collapse", "incast")
        .with(&[("cc", "reno"), ("sweep.rto", "linux,1ms,fine")])
        .usually(&[("sweep.servers", "1,4,8,16,32,48"), ("blocks", "10")])],
    tables: &[Table::points(
        "Goodput by RTO policy and servers",
        "collapse",
        &[
            Column::new("goodput", "goodput"),
            Column::new("p99 block", "latency.p99"),
            Column::new("timeouts", "timeouts"),
        ],
    )],
    phenomenon,
    rows: &[Row::new("I5", goodput_falls_to_percents)],
    figure: Some(figure),
    next: &["narrows incast"],
    live: Live::Open("`narrows live incast` has kernels and ours beside the simulation"),
};

const RATE: f64 = 1e9;

fn phenomenon(played: &Played) -> Told<String> {
    let goodput = played
        .scene("collapse")?
        .along("servers", &[("rto", "linux")], "goodput")?;
    let least = goodput
        .iter()
        .fold(goodput[0], |a, b| if b.1 < a.1 { *b } else { a });
    let best = goodput
        .iter()
        .fold(goodput[0], |a, b| if b.1 > a.1 { *b } else { a });
    Ok(format!(
        "{:.0} servers fill the link with {:.0} Mb/s, {:.0} servers get {:.0} Mb/s through the \
         same port.",
        best.0,
        best.1 / 1e6,
        least.0,
        least.1 / 1e6
    ))
}

fn goodput_falls_to_percents(played: &Played) -> Told<Finding> {
    let goodput = played
        .scene("collapse")?
        .along("servers", &[("rto", "linux")], "goodput")?;
    let least = goodput.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    Ok(Finding::between(
        "least goodput, percent of the link",
        least / RATE * 100.0,
        (1.0, 10.0),
        "",
    ))
}

fn figure(played: &Played) -> Told<Chart> {
    let scene = played.scene("collapse")?;
    let mut series = Vec::new();
    for (group, rto) in ["linux", "1ms", "fine"].into_iter().enumerate() {
        let points = scene.along("servers", &[("rto", rto)], "goodput")?;
        series.push(Series {
            name: format!("RTO {rto}"),
            group,
            points: points.into_iter().map(|(x, y)| (x, y / 1e6)).collect(),
            ..Series::default()
        });
    }
    Ok(Chart {
        title: "Goodput against servers, by RTO policy".to_owned(),
        x: Axis {
            label: "Servers".to_owned(),
            scale: Scale::Log2,
            ..Axis::default()
        },
        y: Axis {
            label: "Goodput (Mb/s)".to_owned(),
            range: Some((0.0, 1_000.0)),
            ..Axis::default()
        },
        series,
        rules: vec![Rule {
            at: RuleAt::Y(RATE / 1e6),
            label: "link".to_owned(),
        }],
        ..Chart::default()
    })
}
