//! `racks`: six racks over four fabric switches; what is dropped and marked at each tier.

mod merging;

use crate::judge::Finding;
use crate::stage::{Played, Told};
use crate::story::{Column, Grid, Live, Row, Scene, Story, Table};
use narrows_experiment::summary::Holds;
use narrows_report::chart::{Axis, Chart, Series};
use narrows_report::points::number;

/// The story.
pub const STORY: Story = Story {
    name: "racks",
    about: "Six racks: DCTCP drops less, and its marks cost the receiver its merging.",
    scenes: &[
        Scene::new("racks", "racks").usually(&[("run.duration", "30ms")]),
        // Tomahawk, which such links came with: a quarter of its ports shares 4 MB.
        Scene::new("slices", "racks")
            .with(&[
                ("buffer", "4MB:1/8"),
                ("sweep.workers", "h48..h63,h48..h79"),
            ])
            .usually(&[("run.duration", "25ms")]),
        merging::DRAWN,
        merging::ALTERNATING,
    ],
    tables: &[
        Table::points(
            "Stores write to one, two and three racks of workers, by tier",
            "racks",
            &[
                Column::new("fabric to rack busy", UTILISATION),
                Column::new("fabric dropped", FABRIC),
                Column::new("rack dropped", RACK),
                Column::new("fabric marked", "tier.spine->leaf3.mark_share"),
                Column::new("rack marked", "tier.leaf->workers.mark_share"),
                Column::new("sent again", "retransmit_share"),
            ],
        ),
        Table::own("The text's table beside it", beside),
        Table::points(
            "The same where ports share 4 MB",
            "slices",
            &[
                Column::new("fabric to rack busy", UTILISATION),
                Column::new("fabric dropped", FABRIC),
                Column::new("rack dropped", RACK),
                Column::new("rack marked", "tier.leaf->workers.mark_share"),
                Column::new("sent again", "retransmit_share"),
            ],
        ),
        Table::own(
            "A receiver at 10 Gb/s with GRO, by the share of packets that are marked on the way",
            merging::table,
        ),
    ],
    phenomenon,
    rows: &[
        Row::new("D18", stores_write_to_workers),
        Row::new("D19", three_racks_are_not_full),
        Row::new("D20", two_racks_are_full),
        Row::new("D21", one_rack_is_overrun),
        Row::new("D22", dctcp_drops_less),
        Row::new("D23", merging::processors_work_most_at_half),
        Row::new("D24", merging::aggregates_are_as_expected),
        Row::new("D26", what_was_found_is_pinned),
    ],
    figure: Some(figure),
    next: &[
        "narrows run racks --set buffer=4MB:1/8",
        "narrows show racks",
    ],
    live: Live::Open("on kernels: packets and CPU against how often marks change, by GRO"),
};

/// Of the text, with one, two and three racks of workers.
struct Published {
    /// Of the links to a rack, in percent: CUBIC, DCTCP.
    busy: [f64; 2],
    /// Of packets to workers, with DCTCP, in percent.
    marked: f64,
    /// By stores, in percent: CUBIC, DCTCP.
    again: [f64; 2],
    /// Bits that fabric switches drop of CUBIC's, over those that racks' do.
    fabric_over_rack: f64,
    /// Bits dropped of CUBIC's over those of DCTCP's.
    cubic_over_dctcp: f64,
}

const PUBLISHED: [Published; 3] = [
    Published {
        busy: [99.9, 98.1],
        marked: 73.0,
        again: [1.020, 0.125],
        fabric_over_rack: 235.0 / 1.1,
        cubic_over_dctcp: 12.0,
    },
    Published {
        busy: [99.1, 98.7],
        marked: 63.7,
        again: [0.590, 0.001],
        fabric_over_rack: 160.0 / 2.2,
        cubic_over_dctcp: 1_019.0,
    },
    Published {
        busy: [69.9, 69.8],
        marked: 12.8,
        again: [0.020, 0.0],
        fabric_over_rack: 89.0 / 417.0,
        cubic_over_dctcp: 377.0,
    },
];

/// One, two and three racks of workers.
const WORKERS: [&str; 3] = ["h48..h63", "h48..h79", "h48..h95"];
/// Of the links from the fabric to a rack of workers.
const UTILISATION: &str = "tier.spine->leaf3.utilisation";
/// Bits dropped by fabric switches.
const FABRIC: &str = "tier.spine->leaf.dropped_bits";
/// Bits dropped by the switches of racks, to their hosts.
const RACK: &str = "tier.leaf->workers.dropped_bits";

fn value(played: &Played, racks: usize, cc: &str, metric: &str) -> Told<f64> {
    let at = [("workers", WORKERS[racks - 1]), ("cc", cc)];
    played.scene("racks")?.value(&at, metric)
}

/// Bits dropped on the way to workers.
fn dropped(played: &Played, racks: usize, cc: &str) -> Told<f64> {
    Ok(value(played, racks, cc, FABRIC)? + value(played, racks, cc, RACK)?)
}

/// Utilisation in percent with CUBIC and with DCTCP.
fn busy(played: &Played, racks: usize) -> Told<(f64, f64)> {
    let of = |cc| -> Told<f64> { Ok(value(played, racks, cc, UTILISATION)? * 100.0) };
    Ok((of("cubic")?, of("dctcp")?))
}

/// Of packets to workers, with DCTCP, in percent.
fn marked(played: &Played, racks: usize) -> Told<f64> {
    Ok(value(played, racks, "dctcp", "tier.leaf->workers.mark_share")? * 100.0)
}

/// In percent.
fn again(played: &Played, racks: usize, cc: &str) -> Told<f64> {
    Ok(value(played, racks, cc, "retransmit_share")? * 100.0)
}

fn within_three(what: &str, ours: f64, text: f64) -> Finding {
    Finding::between(what, ours, (text / 3.0, text * 3.0), "")
}

fn beside(played: &Played) -> Told<Grid> {
    let head = [
        "racks",
        "busy, CUBIC / DCTCP: text",
        "ours",
        "marked in the rack, DCTCP: text",
        "ours",
        "sent again, CUBIC / DCTCP: text",
        "ours",
        "dropped in the fabric over the rack, CUBIC: text",
        "ours",
    ];
    let mut grid = Grid::new(head, 0);
    for racks in [3, 2, 1] {
        let text = &PUBLISHED[racks - 1];
        let (cubic, dctcp) = busy(played, racks)?;
        let of = |metric| value(played, racks, "cubic", metric);
        let (fabric, rack) = (of(FABRIC)?, of(RACK)?);
        let over = match rack > 0.0 {
            true => number(fabric / rack, ""),
            false => format!("{} Mbit over 0", number(fabric / 1e6, "")),
        };
        grid.rows.push(vec![
            racks.to_string(),
            format!("{} / {} %", text.busy[0], text.busy[1]),
            format!("{cubic:.1} / {dctcp:.1} %"),
            format!("{} %", text.marked),
            format!("{:.1} %", marked(played, racks)?),
            format!("{:.3} / {:.3} %", text.again[0], text.again[1]),
            format!(
                "{:.3} / {:.3} %",
                again(played, racks, "cubic")?,
                again(played, racks, "dctcp")?
            ),
            number(text.fabric_over_rack, ""),
            over,
        ]);
    }
    Ok(grid)
}

fn phenomenon(played: &Played) -> Told<String> {
    let (cubic, dctcp) = (dropped(played, 2, "cubic")?, dropped(played, 2, "dctcp")?);
    let (busy, _) = busy(played, 2)?;
    Ok(format!(
        "With two racks of workers their links are {busy:.0} % busy, and switches drop {:.0} Mbit \
         of CUBIC's and {:.1} Mbit of DCTCP's.",
        cubic / 1e6,
        dctcp / 1e6
    ))
}

fn stores_write_to_workers(played: &Played) -> Told<Finding> {
    let mut all = Vec::new();
    for racks in [3, 2, 1] {
        all.push(format!("{racks}: {:.0} %", busy(played, racks)?.0));
    }
    let so = (1..=2).all(|racks| {
        let of = |racks| busy(played, racks).map_or(0.0, |(cubic, _)| cubic);
        of(racks) + 3.0 >= of(racks + 1)
    });
    let text = format!(
        "links to a rack of workers busy, by racks {}",
        all.join(", ")
    );
    Ok(Finding::is(text, so))
}

fn three_racks_are_not_full(played: &Played) -> Told<Finding> {
    let (cubic, dctcp) = busy(played, 3)?;
    Ok(Finding::all([
        Finding::between("busy with CUBIC", cubic, (60.0, 85.0), ""),
        Finding::near("busy with DCTCP", dctcp, cubic, 0.03, ""),
        within_three("percent marked", marked(played, 3)?, PUBLISHED[2].marked),
    ]))
}

fn full(played: &Played, racks: usize) -> Told<Finding> {
    let (cubic, dctcp) = busy(played, racks)?;
    let (before, after) = (
        dropped(played, racks, "cubic")?,
        dropped(played, racks, "dctcp")?,
    );
    let text = &PUBLISHED[racks - 1];
    let of = |metric| value(played, racks, "cubic", metric);
    let (fabric, rack) = (of(FABRIC)?, of(RACK)?);
    let (here, less) = (marked(played, racks)?, marked(played, racks + 1)?);
    Ok(Finding::all([
        Finding::at_least("busy with CUBIC", cubic, 95.0, ""),
        Finding::at_least("busy with DCTCP", dctcp, 95.0, ""),
        Finding::is(
            format!("dropped {:.1} and {:.1} Mbit", before / 1e6, after / 1e6),
            before > 10.0 * after,
        ),
        Finding::is(
            format!(
                "of CUBIC's {:.1} Mbit in the fabric and {:.1} in racks (the text: {:.0} times as much)",
                fabric / 1e6,
                rack / 1e6,
                text.fabric_over_rack
            ),
            fabric * 3.0 >= text.fabric_over_rack * rack,
        ),
        within_three("percent marked", marked(played, racks)?, text.marked),
        within_three(
            "percent sent again with CUBIC",
            again(played, racks, "cubic")?,
            text.again[0],
        ),
        Finding::is(
            format!("marked {here:.1} %, {less:.1} % with a rack more"),
            here > less,
        ),
    ]))
}

fn two_racks_are_full(played: &Played) -> Told<Finding> {
    full(played, 2)
}

fn one_rack_is_overrun(played: &Played) -> Told<Finding> {
    full(played, 1)
}

fn dctcp_drops_less(played: &Played) -> Told<Finding> {
    let mut findings = Vec::new();
    for racks in [2, 1] {
        let (cubic, dctcp) = (
            dropped(played, racks, "cubic")?,
            dropped(played, racks, "dctcp")?,
        );
        let words = format!(
            "{racks} racks: {:.1} Mbit against {:.2} Mbit",
            cubic / 1e6,
            dctcp / 1e6
        );
        findings.push(Finding::is(words, cubic > 0.0 && dctcp * 10.0 <= cubic));
    }
    // With less memory DCTCP drops, too.
    for racks in [2, 1] {
        let of = |cc| -> Told<f64> {
            let at = [("workers", WORKERS[racks - 1]), ("cc", cc)];
            let scene = played.scene("slices")?;
            Ok(scene.value(&at, FABRIC)? + scene.value(&at, RACK)?)
        };
        let times = of("cubic")? / of("dctcp")?.max(1.0);
        let what = format!(
            "where a quarter of the ports has 4 MB, {racks} racks, times less (the text: {})",
            PUBLISHED[racks - 1].cubic_over_dctcp
        );
        findings.push(Finding::between(&what, times, (10.0, 1_000.0), ""));
    }
    let three = dropped(played, 3, "cubic")?;
    let words = format!(
        "3 racks have room: {:.1} Mbit in the {} ms that are simulated (the text: {} times less)",
        three / 1e6,
        value(played, 3, "cubic", "simulated")? / 1e6,
        PUBLISHED[2].cubic_over_dctcp
    );
    findings.push(Finding::is(words, true));
    Ok(Finding::all(findings))
}

fn what_was_found_is_pinned(played: &Played) -> Told<Finding> {
    let (mut hold, mut all) = (0, 0);
    for scene in ["racks", "drawn"] {
        let study = played.scene(scene)?.study();
        let verdicts = study.summary().verdicts(study.metrics())?;
        all += verdicts.len();
        hold += verdicts.iter().filter(|v| v.holds == Holds::Yes).count();
    }
    Ok(Finding::is(
        format!(
            "{hold} of {all} expectations of the experiments (`[[expect]]`) hold, and tests run them; \
             each row of the stories is compared with this page before a change lands. The effect in \
             production is the text's own open question"
        ),
        hold == all && all > 0,
    ))
}

fn figure(played: &Played) -> Told<Chart> {
    let scene = played.scene("racks")?;
    let mut series = Vec::new();
    for (group, (cc, metric, name)) in [
        (
            "dctcp",
            "tier.spine->leaf3.mark_share",
            "DCTCP, marked in the fabric",
        ),
        (
            "dctcp",
            "tier.leaf->workers.mark_share",
            "DCTCP, marked in the rack",
        ),
        ("cubic", "retransmit_share", "CUBIC, sent again"),
    ]
    .into_iter()
    .enumerate()
    {
        let points = scene.along("workers", &[("cc", cc)], metric)?;
        series.push(Series {
            name: name.to_owned(),
            group,
            points: points.into_iter().map(|(x, y)| (x, y * 100.0)).collect(),
            ..Series::default()
        });
    }
    Ok(Chart {
        title: "Marks and segments sent again, by racks of workers".to_owned(),
        x: Axis {
            label: "Racks of workers".to_owned(),
            words: ["1", "2", "3"].map(str::to_owned).to_vec(),
            ..Axis::default()
        },
        y: Axis {
            label: "Share of packets (%)".to_owned(),
            ..Axis::default()
        },
        series,
        ..Chart::default()
    })
}
