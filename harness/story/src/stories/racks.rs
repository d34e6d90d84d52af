//! `racks`: six racks over four fabric switches; what is dropped and marked at each tier.

mod merging;

use crate::judge::Finding;
use crate::stage::{Played, Told};
use crate::story::{Column, Live, Row, Scene, Story, Table};
use narrows_experiment::summary::Holds;
use narrows_report::chart::{Axis, Chart, Series};

/// The story.
pub const STORY: Story = Story {
    name: "racks",
    about: "Six racks: DCTCP drops less, and its marks cost the receiver its merging.",
    scenes: &[
        Scene::new("racks", "racks").usually(&[("run.duration", "30ms")]),
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
    next: &["narrows run racks --set buffer=4MB", "narrows show racks"],
    live: Live::Open("on kernels: packets and CPU against how often marks change, by GRO"),
};

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
        of(racks) + 1.0 >= of(racks + 1)
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
    ]))
}

fn full(played: &Played, racks: usize) -> Told<Finding> {
    let (cubic, dctcp) = busy(played, racks)?;
    let (before, after) = (
        dropped(played, racks, "cubic")?,
        dropped(played, racks, "dctcp")?,
    );
    let marks = |racks| value(played, racks, "dctcp", "tier.leaf->workers.mark_share");
    let (here, less) = (marks(racks)?, marks(racks + 1)?);
    Ok(Finding::all([
        Finding::at_least("busy with CUBIC", cubic, 95.0, ""),
        Finding::at_least("busy with DCTCP", dctcp, 95.0, ""),
        Finding::is(
            format!("dropped {:.1} and {:.1} Mbit", before / 1e6, after / 1e6),
            before > 10.0 * after,
        ),
        Finding::is(
            format!(
                "marked {:.1} %, {:.1} % with a rack more",
                here * 100.0,
                less * 100.0
            ),
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
    for racks in [3, 2, 1] {
        let (cubic, dctcp) = (
            dropped(played, racks, "cubic")?,
            dropped(played, racks, "dctcp")?,
        );
        let words = format!(
            "{racks} racks: {:.1} Mbit against {:.2} Mbit",
            cubic / 1e6,
            dctcp / 1e6
        );
        findings.push(Finding::is(words, dctcp * 10.0 <= cubic));
    }
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
