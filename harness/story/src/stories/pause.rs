//! `pause`: pause frames cure one switch, and stop the innocent across several.

use crate::grid::Column;
use crate::judge::Finding;
use crate::played::{Answer, Played};
use crate::scene::Scene;
use crate::story::{Figure, Live, Next, Row, Story, Table};
use narrows_report::chart::{Axis, Chart, Series};
use narrows_report::points::number;

/// The story.
pub const STORY: Story = Story {
    name: "pause",
    about: "Pause frames cure one switch, and stop the innocent across several.",
    scenes: &[
        Scene::new("one switch", "pause").usually(&[("blocks", "5")]),
        Scene::new("across", "pause-victim"),
    ],
    tables: &[
        Table::points(
            "One switch: an incast with and without pause frames",
            "one switch",
            &[
                Column::new("goodput", "goodput"),
                Column::new("drops", "drops"),
                Column::new("timeouts", "timeouts"),
                Column::new("pause frames", "pauses"),
                Column::new("longest paused", "paused"),
            ],
        ),
        Table::points(
            "Across trunks: the victim of an incast elsewhere",
            "across",
            ACROSS,
        ),
    ],
    phenomenon,
    rows: &[
        Row::new("I9", one_switch_is_cured),
        Row::new("I10", the_victim_waits_behind_others),
        Row::new("M29", no_drops_and_a_victim),
    ],
    figures: &[Figure::first(figure)],
    next: &[
        Next::new(
            "narrows run pause-victim --set pause=802.3x --set cc=cubic --set racks=three --trace trace.jsonl",
            "each pause frame of one run",
        ),
        Next::new(
            "narrows run pause --set buffer=256KiB",
            "a larger buffer, with which there is less to pause",
        ),
        Next::new("narrows keys rx_pause", "hosts that pause their switch"),
        Next::new("docs/EXPERIMENTS.md", "its section on pause frames"),
    ],
    live: Live::Cannot("the kernel's virtual Ethernet has no pause frames"),
};

const RATE: f64 = 1e9;
/// What the victim of an incast elsewhere has, and those who share its trunk.
pub(super) const ACROSS: &[Column] = &[
    Column::new("victim", "victim.goodput"),
    Column::new("crowd", "crowd.goodput"),
    Column::new("drops", "drops"),
    Column::new("trunk paused", TRUNK),
];
/// Share of the time in which the victim's trunk was paused.
const TRUNK: &str = "trunk.leaf0->spine0.paused";

/// Three racks that join in.
const MOST: &str = "three";

const OFF: &str = "off";
const ON: &str = "802.3x";

fn victim(played: &Played, pause: &str, cc: &str) -> Answer<f64> {
    let at = [("pause", pause), ("cc", cc), ("racks", MOST)];
    played.scene("across")?.value(&at, "victim.goodput")
}

fn phenomenon(played: &Played) -> Answer<String> {
    let one = played.scene("one switch")?;
    let at = |pause| [("pause", pause), ("servers", "16")];
    let (before, after) = (
        one.value(&at(OFF), "goodput")?,
        one.value(&at(ON), "goodput")?,
    );
    let (free, held) = (victim(played, OFF, "cubic")?, victim(played, ON, "cubic")?);
    Ok(format!(
        "On one switch pause frames take an incast of 16 servers from {:.0} to {:.0} Mb/s without a \
         drop; across trunks a flow that crosses no crowded port falls from {:.1} to {:.1} Gb/s.",
        before / 1e6,
        after / 1e6,
        free / 1e9,
        held / 1e9
    ))
}

fn one_switch_is_cured(played: &Played) -> Answer<Finding> {
    let scene = played.scene("one switch")?;
    let at = [("pause", ON)];
    let drops = scene.along("servers", &at, "drops")?;
    let goodput = scene.along("servers", &at, "goodput")?;
    let most = drops.iter().map(|p| p.1).fold(0.0, f64::max);
    let least = goodput.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    Ok(Finding::all([
        Finding::at_most("drops with pause frames", most, 0.0, ""),
        Finding::at_least(
            "least goodput, percent of the link",
            least / RATE * 100.0,
            90.0,
            "",
        ),
    ]))
}

fn the_victim_waits_behind_others(played: &Played) -> Answer<Finding> {
    let (free, held) = (victim(played, OFF, "cubic")?, victim(played, ON, "cubic")?);
    let lost = (1.0 - held / free) * 100.0;
    Ok(Finding::at_least(
        "the victim loses, percent of its rate",
        lost,
        30.0,
        "",
    ))
}

fn no_drops_and_a_victim(played: &Played) -> Answer<Finding> {
    let scene = played.scene("across")?;
    let at = [("pause", ON), ("cc", "cubic"), ("racks", MOST)];
    let drops = scene.value(&at, "drops")?;
    let (free, held) = (victim(played, OFF, "cubic")?, victim(played, ON, "cubic")?);
    let finding = Finding::all([
        Finding::at_most("drops across trunks with pause frames", drops, 0.0, ""),
        Finding::at_most(
            "the victim's rate with them over that without",
            held / free,
            0.7,
            "",
        ),
    ]);
    Ok(finding.and_words(format_args!(
        ". The text's set-up is hosts of 1 Gb/s that query each other; judged is `pause-victim`, copies without an end \
         across trunks of 40 Gb/s. Where DCTCP keeps ports from filling, the victim has {} times as much under pause \
         frames",
        number(victim(played, ON, "dctcp")? / held, "")
    )))
}

fn figure(played: &Played) -> Answer<Chart> {
    let scene = played.scene("across")?;
    let mut series = Vec::new();
    let variants = [(OFF, "cubic"), (ON, "cubic"), (OFF, "dctcp"), (ON, "dctcp")];
    for (group, (pause, cc)) in variants.into_iter().enumerate() {
        let at = [("pause", pause), ("cc", cc)];
        let points = scene.along("racks", &at, "victim.goodput")?;
        let how = if pause == ON { "pause frames" } else { "drops" };
        series.push(Series {
            name: format!("{cc}, {how}"),
            group,
            points: points.into_iter().map(|(x, y)| (x, y / 1e9)).collect(),
            ..Series::default()
        });
    }
    Ok(Chart {
        title: "The victim's goodput against racks that join a crowd elsewhere".to_owned(),
        x: Axis {
            label: "Racks that join in".to_owned(),
            words: ["1", "2", "3"].map(str::to_owned).to_vec(),
            ..Axis::default()
        },
        y: Axis {
            label: "Victim's goodput (Gb/s)".to_owned(),
            range: Some((0.0, 40.0)),
            ..Axis::default()
        },
        series,
        ..Chart::default()
    })
}
