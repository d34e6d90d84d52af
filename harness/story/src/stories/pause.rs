//! `pause`: pause frames cure one switch, and stop the innocent across several.

use crate::grid::Column;
use crate::judge::Finding;
use crate::played::{Answer, NoAnswer, Played};
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
        Scene::new("queries", "microbursts-trunk"),
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
        Table::points(
            "... and of queries: calls of a pair that they do not use, across their trunk and on one switch",
            "queries",
            &[
                Column::new("drops/s", "drops_per_s"),
                Column::new("queries' p99.9", "get.latency.p999"),
                Column::new("trunk paused", "trunk.s0->s1.paused"),
                Column::new("victim's mean", "victim.latency.mean"),
                Column::new("p99", VICTIM_P99),
                Column::new("p99 on one switch", NEAR_P99),
            ],
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
            "narrows run microbursts-trunk --set load=500Mb/s",
            "queries that keep the trunk paused for half of the time",
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

/// The load of queries at which M29 is judged, as `burst` has its remedies.
const LOAD: &str = "300Mb/s";
const VICTIM_P99: &str = "victim.latency.p99";
const NEAR_P99: &str = "near.latency.p99";

fn no_drops_and_a_victim(played: &Played) -> Answer<Finding> {
    let scene = played.scene("queries")?;
    let of = |pause, metric| scene.value(&[("pause", pause), ("load", LOAD)], metric);
    let slower = |metric| Ok::<_, NoAnswer>(of(ON, metric)? / of(OFF, metric)?);
    let finding = Finding::all([
        Finding::at_most(
            "drops of queries at 300 Mb/s a host, on two switches, with pause frames",
            of(ON, "drops")?,
            0.0,
            "",
        ),
        Finding::at_least(
            "the slowest call of a hundred of a pair that crosses the trunk, and whose ports they do not use, with \
             pause frames over that without",
            slower(VICTIM_P99)?,
            2.0,
            "",
        ),
    ]);
    Ok(finding.and_words(format_args!(
        ". The 2 are ours. Without, ports drop {} packets a second; the trunk is paused for {} % of the time. The \
         victim's call takes {} on the mean in place of {}, and one of a hundred {} in place of {}; of a pair on one \
         switch one of a hundred takes {} times as long. Copies without an end across trunks of 40 Gb/s \
         (`pause-victim`) leave their victim {} of its rate",
        number(of(OFF, "drops_per_s")?.round(), ""),
        number(of(ON, "trunk.s0->s1.paused")? * 100.0, ""),
        number(of(ON, "victim.latency.mean")?, "ns"),
        number(of(OFF, "victim.latency.mean")?, "ns"),
        number(of(ON, VICTIM_P99)?, "ns"),
        number(of(OFF, VICTIM_P99)?, "ns"),
        number(slower(NEAR_P99)?, ""),
        number(victim(played, ON, "cubic")? / victim(played, OFF, "cubic")?, ""),
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
