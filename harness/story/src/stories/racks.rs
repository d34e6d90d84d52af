//! `racks`: six racks over four fabric switches; what is dropped and marked at each tier.

mod discards;
#[cfg(target_os = "linux")]
mod live;
mod merging;
mod order;
mod published;
mod reasons;

use crate::grid::{Column, Grid};
use crate::judge::{Finding, Judged};
use crate::played::{Answer, Played, missing};
use crate::scene::Scene;
use crate::story::{Figure, Live, Next, Row, Story, Table};
use discards::fabric_drops;
use narrows_experiment::summary::Holds;
use narrows_report::points::number;
use published::{Measure, PUBLISHED, less_dropped, over};
use reasons::{ONE_RACK, THREE_RACKS, TWO_RACKS};

/// The story.
pub const STORY: Story = Story {
    name: "racks",
    about: "Six racks: DCTCP drops less, and its marks cost the receiver its merging.",
    scenes: &[
        Scene::new("racks", "racks")
            .with(&[("run.repetitions", "3")])
            .keeping_outcomes(),
        discards::RUNS[0][0],
        discards::RUNS[0][1],
        discards::RUNS[1][0],
        discards::RUNS[1][1],
        discards::RUNS[2][0],
        discards::RUNS[2][1],
        // Another run, with receive sides that merge, and what that costs; usually 10 ms of it.
        Scene::new("processors", "racks")
            .with(&[
                ("host.nic.gro", "64KB"),
                ("host.nic.rx_queues", "8"),
                ("host.nic.rx_frames", "64"),
                ("host.nic.rx_usecs", "8us"),
                ("host.cpu.counts", "on"),
                ("host.cpu.cores", "8"),
                ("run.warm_up", "6ms"),
            ])
            .usually(&[("run.duration", "16ms")])
            .keeping_outcomes(),
        merging::DRAWN,
        merging::ALTERNATING,
    ],
    tables: &[
        Table::own(
            "Stores write to one, two and three racks of workers, by tier: means of three runs of 28 ms",
            by_tier,
        ),
        Table::own(
            "What the text has, and ours; ! is what is not as wanted. The ratio of drops is of D22's runs, which are \
             more with --full, all else of the three above",
            beside,
        ),
        Table::own(
            "Load of processors, of a worker with the cores that do something else, and packets that a \
             receiver merges to one: another run, usually a shorter one (10 ms)",
            processors,
        ),
        Table::own(
            "A receiver at 10 Gb/s with GRO, by the share of packets that are marked on the way",
            merging::table,
        ),
    ],
    phenomenon,
    rows: &[
        Row::new("D18", stores_write_to_workers),
        Row::new("D19", |played| as_published(played, 3)).because(THREE_RACKS),
        Row::new("D20", |played| as_published(played, 2)).because(TWO_RACKS),
        Row::new("D21", |played| as_published(played, 1)).because(ONE_RACK),
        Row::new("D22", discards::dctcp_drops_less).in_full(discards::TAKES),
        Row::new("D23", merging::processors_work_most_at_half),
        Row::new("D24", merging::aggregates_are_as_expected),
        Row::new("D26", what_was_found_is_pinned),
    ],
    figures: &[Figure::first(merging::figure)],
    next: &[
        Next::new(
            "narrows run racks --set buffer=4MB:1/8",
            "with the memory of a slice of Tomahawk",
        ),
        Next::new("narrows show racks", "its file"),
        Next::new("narrows run gro-marks", "marks against merging, alone"),
    ],
    #[cfg(target_os = "linux")]
    live: Live::Twin(live::TWIN),
    #[cfg(not(target_os = "linux"))]
    live: Live::Cannot("it takes Linux's network namespaces"),
};

/// One, two and three racks of workers.
const WORKERS: [&str; 3] = ["h48..h63", "h48..h79", "h48..h95"];
/// Hosts from the first on that are stores.
const STORES: u32 = 48;
/// Of the links from the fabric to a rack of workers.
const UTILISATION: &str = "tier.spine->leaf3.utilisation";
/// Bits dropped by fabric switches on the way to racks.
const FABRIC: &str = "tier.spine->leaf.dropped_bits";
/// Bits dropped by the switches of racks, to their hosts.
const RACK: &str = "tier.leaf->host.dropped_bits";

fn value(played: &Played, racks: usize, cc: &str, metric: &str) -> Answer<f64> {
    let at = [("workers", WORKERS[racks - 1]), ("cc", cc)];
    played.scene("racks")?.value(&at, metric)
}

/// Of CUBIC and of DCTCP.
fn both(played: &Played, racks: usize, metric: &str) -> Answer<[f64; 2]> {
    let of = |cc| value(played, racks, cc, metric);
    Ok([of("cubic")?, of("dctcp")?])
}

/// What stores did, or workers.
#[derive(Clone, Copy, Default)]
struct Side {
    segments: f64,
    again: f64,
    /// Bytes that arrived at the other side, and those that were marked on the way.
    arrived: f64,
    marked: f64,
    /// Share of the time in which processors worked; packets with data that came, and what they were
    /// merged to.
    load: f64,
    /// Cores of a host.
    cores: f64,
    frames: f64,
    aggregates: f64,
}

/// Stores and workers in a scene.
fn sides(played: &Played, scene: &str, racks: usize, cc: &str) -> Answer<[Side; 2]> {
    let at = [("workers", WORKERS[racks - 1]), ("cc", cc)];
    let mut sides = [Side::default(); 2];
    let side = |host: u32| usize::from(host >= STORES);
    for run in played.scene(scene)?.outcomes(&at)? {
        for flow in &run.flows {
            let side = &mut sides[side(flow.from)];
            side.segments += flow.sender.segments as f64;
            side.again += flow.sender.retransmits as f64;
            side.arrived += flow.received.get() as f64;
            side.marked += flow.sender.ce_bytes as f64;
        }
        let hosts = [STORES, 16 * racks as u32];
        for (host, n) in run.hosts.iter().zip(0..STORES + hosts[1]) {
            let Some(work) = &host.work else { continue };
            let side = &mut sides[side(n)];
            let all = run.measured.as_nanos() as f64 * f64::from(work.cores);
            let mean = f64::from(hosts[usize::from(n >= STORES)]);
            side.load += work.busy.as_nanos() as f64 / all / mean;
            side.cores = f64::from(work.cores);
            side.frames += work.data_frames as f64;
            side.aggregates += work.aggregates as f64;
        }
    }
    Ok(sides)
}

/// What stores and workers did.
struct BySide {
    /// Sent again, in percent: stores with CUBIC and DCTCP, workers with both.
    again: [[f64; 2]; 2],
    /// How much more processors work with DCTCP, in percent.
    processor: [f64; 2],
    /// Marked with DCTCP on the way to them, in percent.
    marked: [f64; 2],
}

fn by_side(played: &Played, racks: usize) -> Answer<BySide> {
    let of = |scene, cc| sides(played, scene, racks, cc);
    let (cubic, dctcp) = (of("racks", "cubic")?, of("racks", "dctcp")?);
    let (before, after) = (of("processors", "cubic")?, of("processors", "dctcp")?);
    let again = |side: &Side| side.again / side.segments.max(1.0) * 100.0;
    let marked = |side: &Side| side.marked / side.arrived.max(1.0) * 100.0;
    let more = |side: usize| (after[side].load / before[side].load - 1.0) * 100.0;
    Ok(BySide {
        again: [0, 1].map(|side| [again(&cubic[side]), again(&dctcp[side])]),
        processor: [more(0), more(1)],
        // What workers sent is marked on the way to stores.
        marked: [marked(&dctcp[1]), marked(&dctcp[0])],
    })
}

/// All that the text has of some racks of workers.
fn measures(played: &Played, racks: usize) -> Answer<Vec<Measure>> {
    let text = &PUBLISHED[racks - 1];
    let busy = both(played, racks, UTILISATION)?.map(|share| share * 100.0);
    let fabric = fabric_drops(played, racks)?;
    let rack = both(played, racks, RACK)?;
    let BySide {
        again,
        processor,
        marked,
    } = by_side(played, racks)?;
    let (three, points) = (Measure::within_three, Measure::within_points);
    Ok(vec![
        points("links to a rack busy with CUBIC, %", text.busy[0], busy[0]),
        points("with DCTCP, %", text.busy[1], busy[1]),
        less_dropped(
            "dropped in the fabric, CUBIC over DCTCP in D22's runs",
            racks,
            &fabric,
        ),
        three(
            "CUBIC's, fabric over racks",
            text.fabric[0] / text.rack,
            over(both(played, racks, FABRIC)?[0], rack[0]),
        ),
        Measure {
            wanted: (0.0, 0.0),
            ..three("DCTCP's in racks, bits", 0.0, rack[1])
        },
        three(
            "sent again by stores with CUBIC, %",
            text.by_stores[0],
            again[0][0],
        ),
        Measure {
            // The text's 0 are less than .0005.
            wanted: (text.by_stores[1] / 3.0, text.by_stores[1].max(0.0005) * 3.0),
            ..three("with DCTCP, %", text.by_stores[1], again[0][1])
        },
        three("by workers with CUBIC, %", text.by_workers[0], again[1][0]),
        three("by workers with DCTCP, %", text.by_workers[1], again[1][1]),
        points(
            "processors of stores, DCTCP more, %",
            text.processor[0],
            processor[0],
        ),
        points("of workers, %", text.processor[1], processor[1]),
        three("marked to stores with DCTCP, %", text.marked[0], marked[0]),
        three("to workers, %", text.marked[1], marked[1]),
    ])
}

/// All numbers as near as they are to be, and in the text's order.
fn as_published(played: &Played, racks: usize) -> Answer<Finding> {
    let measures = measures(played, racks)?;
    let near = Finding::all(measures.iter().map(Measure::finding));
    let finding = Finding::all([near, order::of(played, racks)?]);
    Ok(finding.and_words(busier(played, racks)?))
}

/// What processors of stores would make of DCTCP if some of their cores did something else, and what it takes
/// of both sides, in words.
fn busier(played: &Played, racks: usize) -> Answer<String> {
    let of = |cc| sides(played, "processors", racks, cc);
    let (before, after) = (of("cubic")?, of("dctcp")?);
    let cores =
        |side: usize| -> f64 { (after[side].load - before[side].load) * before[side].cores };
    let stores = before[0].cores;
    let with = |busy: f64| {
        let other = busy / stores;
        ((after[0].load + other) / (before[0].load + other) - 1.0) * 100.0
    };
    Ok(format!(
        ". DCTCP takes {:.2} cores more of a store and {:.2} of a worker; with a core of each store that is busy \
         with something else its {:.0} % more would be {:.1}, with two {:.1}",
        cores(0),
        cores(1),
        with(0.0),
        with(1.0),
        with(2.0)
    ))
}

/// What each tier carries, drops and marks.
fn by_tier(played: &Played) -> Answer<Grid> {
    let columns = [
        Column::new("fabric to rack busy", UTILISATION),
        Column::new("fabric dropped, bits", FABRIC),
        Column::new("racks dropped, bits", RACK),
        Column::new("fabric marked", "tier.spine->leaf3.mark_share"),
        Column::new("rack marked", "tier.leaf->workers.mark_share"),
        Column::new("sent again", "retransmit_share"),
    ];
    let mut grid = played.scene("racks")?.grid(&[], &columns)?;
    // The first column has the hosts that are workers.
    let cells = grid.rows.iter_mut().filter_map(|row| row.first_mut());
    for cell in cells {
        let racks = WORKERS.iter().position(|hosts| hosts == cell);
        *cell = (racks.ok_or_else(|| missing("such workers"))? + 1).to_string();
    }
    grid.head[0] = "racks of workers".to_owned();
    Ok(grid)
}

fn beside(played: &Played) -> Answer<Grid> {
    let head = [
        "",
        "3 racks: text",
        "ours",
        "2 racks: text",
        "ours",
        "1 rack: text",
        "ours",
    ];
    let mut grid = Grid::new(head, 1);
    let columns = [3, 2, 1].map(|racks| measures(played, racks));
    let [three, two, one] = columns;
    for ((a, b), c) in three?.iter().zip(&two?).zip(&one?) {
        let mut cells = vec![a.what.to_owned()];
        for measure in [a, b, c] {
            let so = measure.finding().judged == Judged::Holds;
            let mark = if so { "" } else { " !" };
            cells.push(number(measure.text, ""));
            let ours = match measure.ours.is_finite() {
                true => number(measure.ours, ""),
                false => "none of DCTCP's".to_owned(),
            };
            cells.push(format!("{ours}{mark}"));
        }
        grid.rows.push(cells);
    }
    Ok(grid)
}

fn processors(played: &Played) -> Answer<Grid> {
    let head = [
        "racks",
        "congestion control",
        "load of a store",
        "of a worker",
        "packets merged to one, stores",
        "workers",
    ];
    let mut grid = Grid::new(head, 2);
    for racks in [3, 2, 1] {
        for cc in ["cubic", "dctcp"] {
            let sides = sides(played, "processors", racks, cc)?;
            let loads = sides.map(|side| format!("{:.1} %", side.load * 100.0));
            let merged = sides.map(|side| number(side.frames / side.aggregates.max(1.0), ""));
            let words = [racks.to_string(), cc.to_owned()];
            grid.rows.push([words, loads, merged].concat());
        }
    }
    Ok(grid)
}

fn phenomenon(played: &Played) -> Answer<String> {
    let [cubic, dctcp] = both(played, 1, FABRIC)?;
    let [busy, _] = both(played, 1, UTILISATION)?;
    let share = |cc| -> Answer<f64> {
        let [stores, _] = sides(played, "racks", 1, cc)?;
        Ok(stores.again / stores.segments * 100.0)
    };
    Ok(format!(
        "With one rack of workers its links are {:.0} % busy, and fabric switches drop {:.0} Mbit of \
         CUBIC's and {:.1} of DCTCP's: stores send {:.2} % again, and {:.2} %.",
        busy * 100.0,
        cubic / 1e6,
        dctcp / 1e6,
        share("cubic")?,
        share("dctcp")?,
    ))
}

fn stores_write_to_workers(played: &Played) -> Answer<Finding> {
    let mut all = Vec::new();
    for racks in [3, 2, 1] {
        all.push(both(played, racks, UTILISATION)?[0] * 100.0);
    }
    let words: Vec<String> = [3, 2, 1]
        .iter()
        .zip(&all)
        .map(|(racks, busy)| format!("{racks}: {busy:.0} %"))
        .collect();
    // Full links are as busy as each other.
    let no_busier = all.windows(2).all(|w| w[1] + WITHIN >= w[0]);
    let mut reads = Vec::new();
    let offered = READS * f64::from(STORES) * played.scene("racks")?.measured() / 1e9;
    for racks in [3, 2, 1] {
        reads.push(cross_traffic(played, racks)?);
    }
    let read: Vec<String> = [3, 2, 1]
        .iter()
        .zip(&reads)
        .map(|(racks, bits)| format!("{racks}: {:.0} Mbit", bits / 1e6))
        .collect();
    Ok(Finding::all([
        Finding::is(
            format!(
                "links to a rack of workers busy with CUBIC, by racks {} (wanted no busier with a rack \
                 more, within {WITHIN} points)",
                words.join(", ")
            ),
            no_busier,
        ),
        Finding::is(
            format!(
                "cross traffic (`read`) to stores, of {:.0} Mbit that are offered (2 Gb/s to each), by racks {} \
                 (wanted all within 5 %)",
                offered / 1e6,
                read.join(", ")
            ),
            reads
                .iter()
                .all(|bits| (bits / offered - 1.0).abs() <= 0.05),
        ),
    ]))
}

/// What each store reads, in bit/s: `traffic.read.load` of the experiment.
const READS: f64 = 2e9;

/// By how many points links to a rack may be busier with a rack more: full ones are not equally so.
const WITHIN: f64 = 3.0;

/// Bits that stores read from workers in a run, after the warm-up, with CUBIC.
fn cross_traffic(played: &Played, racks: usize) -> Answer<f64> {
    let at = [("workers", WORKERS[racks - 1]), ("cc", "cubic")];
    let runs = played.scene("racks")?.outcomes(&at)?;
    let count = runs.len() as f64;
    let mut bits = 0.0;
    for run in runs {
        let traffics = run.traffic.iter().zip(&run.delivered);
        let read = traffics.filter(|(name, _)| *name == "read");
        bits += read.map(|(_, bytes)| bytes.get() as f64 * 8.0).sum::<f64>();
    }
    Ok(bits / count)
}

fn what_was_found_is_pinned(played: &Played) -> Answer<Finding> {
    let (mut hold, mut all) = (0, 0);
    for scene in ["racks", "drawn"] {
        let study = played.scene(scene)?.study();
        let verdicts = study.summary().verdicts(study.metrics())?;
        all += verdicts.len();
        hold += verdicts.iter().filter(|v| v.holds == Holds::Yes).count();
    }
    Ok(Finding::is(
        format!(
            "by construction, a check of ourselves: {hold} of {all} expectations of the experiments (`[[expect]]`) \
             hold, and tests run them; each row of the stories is compared with this page before a change lands. \
             It says nothing of a kernel. The effect in production is the text's own open question"
        ),
        hold == all && all > 0,
    ))
}
