//! The twin of `racks` on this machine's kernel: what marks do to a receiver that merges.

use super::merging::{expected, poll};
use crate::grid::Grid;
use crate::judge::Finding;
use crate::played::Played;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::twin::{Found, Seen, Twin};
use narrows::config::TcpConfig;
use narrows::device::marking::Draw;
use narrows_lab::marked::{MarkedRun, run, run_ours};
use narrows_report::points::number;

/// The twin.
pub(super) const TWIN: Twin = Twin {
    about: "A host of the kernel's, or of ours at a TAP, writes 32 segments at a time to one of the kernel's \
            that polls and merges (veth with GRO), and a program in the receiver's driver marks some before \
            they are merged: by a draw, or every second one. Counted are the packets that the receiver \
            handles of a write, and what it acknowledges. The time of a write is the work of both hosts where \
            the kernel is both, since one thread does it; with ours two threads wait for each other, so it is \
            not compared. Of the story it is the receiver alone: there are no racks here, and no NIC whose \
            interrupts wait.",
    scenes: &[DRAWN],
    run: twin,
};

/// The same simulated, by shares.
const DRAWN: Scene = Scene::new("simulated", "gro-marks")
    .with(&[
        ("sweep.marked", "0%,10%,25%,50%,75%,90%,100%"),
        ("run.duration", "20ms"),
    ])
    .keeping_outcomes();

const SHARES: [(&str, Draw); 7] = [
    ("0%", Draw::Share(0)),
    ("10%", Draw::Share(u32::MAX / 10)),
    ("25%", Draw::Share(u32::MAX / 4)),
    ("50%", Draw::Share(u32::MAX / 2)),
    ("75%", Draw::Share(u32::MAX / 4 * 3)),
    ("90%", Draw::Share(u32::MAX / 10 * 9)),
    ("100%", Draw::All),
];

/// Segments of a write.
const SEGMENTS: f64 = 32.0;

fn twin(stage: &Stage<'_>, played: &Played) -> Result<Seen, String> {
    let simulated = played.scene(DRAWN.name)?;
    let live = |draw| -> Result<[MarkedRun; 2], String> {
        let ours = run_ours(draw, TcpConfig::default(), stage.cancel);
        let runs = [run(draw, stage.cancel), ours];
        let [kernels, ours] = runs.map(|run| run.map_err(|e| e.to_string()));
        Ok([kernels?, ours?])
    };
    let mut rows = Vec::new();
    let mut drawn = Vec::new();
    for (share, draw) in SHARES {
        let told = poll(simulated, &[("marked", share)])?;
        let runs = live(draw)?;
        let frames = number(told.frames / told.aggregates, "");
        let wanted = expected(SEGMENTS, runs[0].marked);
        rows.push((share, frames, wanted, runs));
        drawn.push(runs);
    }
    let alternating = live(Draw::EverySecond)?;
    let every_second = ("every second", "1".to_owned(), SEGMENTS, alternating);
    rows.push(every_second);
    Ok(Seen {
        tables: tables(&rows),
        notes: Vec::new(),
        found: found(&drawn, &alternating),
    })
}

/// Which were marked, frames of an aggregate simulated, packets of a write by the formula, and what was seen
/// of the kernel's and of ours.
type Told = (&'static str, String, f64, [MarkedRun; 2]);

/// What was merged, and what it costs.
fn tables(rows: &[Told]) -> Vec<Grid> {
    let merged = [
        "marked",
        "frames an aggregate, simulated",
        "live, kernel",
        "live, ours",
        "packets of a write, 1 + 2m(1-m)31",
    ];
    let costs = [
        "marked",
        "packets of a write, kernel",
        "ours",
        "ACKs a write, kernel",
        "ours",
        "time of a write, kernel",
    ];
    let (mut merged, mut costs) = (Grid::new(merged, 1), Grid::new(costs, 1));
    for (marked, frames, packets, runs) in rows {
        let mut row = vec![(*marked).to_owned(), frames.clone()];
        row.extend(
            runs.each_ref()
                .map(|run| number(SEGMENTS / run.packets, "")),
        );
        row.push(number(*packets, ""));
        merged.rows.push(row);
        let mut row = vec![(*marked).to_owned()];
        row.extend(runs.each_ref().map(|run| number(run.packets, "")));
        row.extend(runs.each_ref().map(|run| number(run.acks, "")));
        row.push(number(runs[0].took.as_nanos() as f64, "ns"));
        costs.rows.push(row);
    }
    vec![merged, costs]
}

fn found(drawn: &[[MarkedRun; 2]], alternating: &[MarkedRun; 2]) -> Vec<Found> {
    let took = |runs: &[MarkedRun; 2]| runs[0].took.as_nanos() as f64;
    let (none, half, all) = (took(&drawn[0]), took(&drawn[3]), took(&drawn[6]));
    let merged = |whose: &str, nth: usize| {
        let off = drawn.iter().map(|runs| {
            let wanted = expected(SEGMENTS, runs[nth].marked);
            (runs[nth].packets / wanted - 1.0).abs() * 100.0
        });
        [
            Finding::at_most(
                &format!(
                    "percent that packets of a write of {whose} are off 1 + 2m(1-m)31, at the most"
                ),
                off.fold(0.0, f64::max),
                5.0,
                "",
            ),
            Finding::near(
                "frames a packet with alternating marks",
                SEGMENTS / alternating[nth].packets,
                1.0,
                0.02,
                "",
            ),
        ]
    };
    let merged = [merged("the kernel's", 0), merged("ours", 1)];
    vec![
        Found {
            claim: "D24",
            finding: Finding::all(merged.into_iter().flatten()),
            because: "a write whose segments do not arrive in one poll, since something else ran \
                      between, is merged to more packets",
        },
        Found {
            claim: "D23",
            finding: Finding::all([
                Finding::at_least(
                    "time of a write with half marked over none",
                    half / none,
                    1.05,
                    "",
                ),
                Finding::at_least("over all marked", half / all, 1.05, ""),
            ]),
            because: "the time of a write is that of the thread that does it, and what else ran on its \
                      processor is in it",
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{PAGE, table};
    use narrows_report::table::Colour;
    use std::time::Duration;

    #[test]
    fn tables_fit_a_page_and_have_a_row_of_each() {
        let run = MarkedRun {
            packets: 17.55,
            acks: 1.025,
            marked: 0.5,
            took: Duration::from_nanos(125_900),
        };
        let row = || ("every second", "1.234".to_owned(), 17.55, [run; 2]);
        for grid in tables(&[row(), row()]) {
            assert_eq!(grid.rows.len(), 2);
            assert!(grid.rows.iter().all(|row| row.len() == grid.head.len()));
            let text = table(&grid, Colour::Plain);
            assert!(text.lines().all(|line| line.len() <= PAGE), "{text}");
        }
    }
}
