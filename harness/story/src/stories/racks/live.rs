//! The twin of `racks` on this machine's kernel: what marks do to a receiver that merges.

use super::merging::{expected, poll};
use crate::grid::Grid;
use crate::judge::Finding;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::twin::{Found, Seen, Twin};
use narrows::device::marking::Draw;
use narrows_lab::marked::{MarkedRun, run};
use narrows_report::points::number;

/// The twin.
pub(super) const TWIN: Twin = Twin {
    about: "A host of the kernel's writes 32 segments at a time to another that polls and merges (veth \
            with GRO), and a program in the receiver's driver marks some before they are merged: by a \
            draw, or every second one. Counted are the packets that the receiver handles of a write; \
            the time of a write is the work of both hosts, since one thread does it. Of the story it is \
            the receiver alone: there are no racks here, and no NIC whose interrupts wait.",
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

fn twin(stage: &Stage<'_>) -> Result<Seen, String> {
    let simulated = stage.scenery(&DRAWN).map_err(|e| e.to_string())?;
    let live = |draw| run(draw, stage.cancel).map_err(|e| e.to_string());
    let mut grid = Grid::new(
        [
            "marked",
            "frames an aggregate, simulated",
            "live",
            "packets of a write, 1 + 2m(1-m)31",
            "live",
            "ACKs a write",
            "time of a write",
        ],
        1,
    );
    let cells = |what: &str, simulated: String, packets: f64, run: &MarkedRun| {
        vec![
            what.to_owned(),
            simulated,
            number(SEGMENTS / run.packets, ""),
            number(packets, ""),
            number(run.packets, ""),
            number(run.acks, ""),
            number(run.took.as_nanos() as f64, "ns"),
        ]
    };
    let mut drawn = Vec::new();
    for (share, draw) in SHARES {
        let told = poll(&simulated, &[("marked", share)]).map_err(|e| e.to_string())?;
        let run = live(draw)?;
        let ours = number(told.frames / told.aggregates, "");
        grid.rows
            .push(cells(share, ours, expected(SEGMENTS, run.marked), &run));
        drawn.push(run);
    }
    let alternating = live(Draw::EverySecond)?;
    let row = cells("every second", "1".to_owned(), SEGMENTS, &alternating);
    grid.rows.push(row);
    Ok(Seen {
        grid,
        found: found(&drawn, &alternating),
    })
}

fn found(drawn: &[MarkedRun], alternating: &MarkedRun) -> Vec<Found> {
    let off = drawn.iter().map(|run| {
        let wanted = expected(SEGMENTS, run.marked);
        (run.packets / wanted - 1.0).abs() * 100.0
    });
    let took = |run: &MarkedRun| run.took.as_nanos() as f64;
    let (none, half, all) = (took(&drawn[0]), took(&drawn[3]), took(&drawn[6]));
    vec![
        Found {
            claim: "D24",
            finding: Finding::all([
                Finding::at_most(
                    "percent that packets a write are off 1 + 2m(1-m)31, at the most",
                    off.fold(0.0, f64::max),
                    5.0,
                    "",
                ),
                Finding::near(
                    "frames a packet with alternating marks",
                    SEGMENTS / alternating.packets,
                    1.0,
                    0.02,
                    "",
                ),
            ]),
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
