//! Blocks of fixed size: how long they take.

use super::waits::{self, Block};
use super::*;
use crate::reference::Table;
use crate::{Figure, Verdict};
use narrows_report::chart::{Axis, Chart, Draw, Role, Rule, RuleAt, Scale, Series};

const TABLE: &str = include_str!("../../reference/fast08_fixed_block.csv");
/// Time of a block of 1 MB at the link's rate, and a round trip, in ms.
const TRANSFER_MS: f64 = 1_000.0 * 1.04 * 8.0 / 1_000.0 + 0.1;
const RTO_MIN_MS: f64 = 200.0;

/// Goodput, medians, their quantisation, and what a fine timeout gains.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(TABLE);
    let mut series = Vec::new();
    let mut at_16 = Vec::new();
    for line in table.lines() {
        let (n, rto) = (line.whole("n"), line.whole("rto_us"));
        let rto = Duration::from_micros(u64::from(rto));
        let coarse = rto >= Duration::from_millis(1);
        let mut spec = fast08(n, 64, if coarse && n >= 16 { 20 } else { 2 });
        put(&mut spec, "block", "1MB");
        spec.host.tcp.rto = floor(rto);
        let mut found = Vec::new();
        let mut blocks = Vec::new();
        for seed in SEEDS {
            let (run, of_run) = waits::run(bench, &seeded(&spec, seed))?;
            found.push(run);
            blocks.push(of_run);
        }
        let what = format!("1 MB from {n} servers, RTOmin {rto}");
        bench.row(Row::new(
            format!("{what}: goodput"),
            table.source.clone(),
            Expected::Value(line.number("goodput").unwrap_or(f64::NAN)),
            Measured::spread(&goodput(&found)),
            "Mb/s",
            // Up to 8 servers a block is over before a window is lost whole.
            if n < 16 { Tolerance::Shown } else { COLLAPSED },
        ));
        if n == 16 {
            at_16.push(band(&goodput(&found)).0);
        }
        let Some(theirs) = line.number("median_ms") else {
            continue;
        };
        medians(bench, &table, &what, theirs, &blocks);
        series.push(distribution(n, series.len(), &blocks));
    }
    if let [coarse, fine] = at_16[..] {
        bench.row(Row::new(
            "1 MB from 16 servers: RTOmin 200 µs over 200 ms",
            "PDL incast page and SIGCOMM 2009: a microsecond RTO restores the throughput",
            Expected::AtLeast(15.0),
            Measured::Value(fine / coarse),
            "times",
            Tolerance::Exact,
        ));
    }
    bench.figure(Figure {
        name: "fast08-block-times",
        caption: "The times of blocks of 1 MB with the FAST 2008 set-up, 64 packets of buffer \
                  and RTOmin 200 ms, over three seeds. The steps are at multiples of RTOmin: a \
                  block ends when the unluckiest of its servers has sat out its timeouts."
            .to_owned(),
        chart: Chart {
            title: "Distribution of block times".to_owned(),
            x: Axis {
                label: "Block time (ms)".to_owned(),
                scale: Scale::Linear,
                range: Some((0.0, 700.0)),
                ..Axis::default()
            },
            y: Axis {
                label: "Share of blocks".to_owned(),
                scale: Scale::Linear,
                range: Some((0.0, 1.0)),
                ..Axis::default()
            },
            series,
            rules: [1.0, 2.0, 3.0]
                .map(|k| Rule {
                    at: RuleAt::X(k * RTO_MIN_MS),
                    label: match k as u32 {
                        1 => "RTOmin".to_owned(),
                        k => format!("{k} RTOmin"),
                    },
                })
                .to_vec(),
            ..Chart::default()
        },
    });
    Ok(())
}

/// The block in the middle, by time.
fn median(blocks: &[Block]) -> Option<Block> {
    let mut blocks = blocks.to_vec();
    blocks.sort_by(|a, b| a.millis.total_cmp(&b.millis));
    blocks.get(blocks.len() / 2).copied()
}

fn medians(bench: &mut Bench<'_>, table: &Table, what: &str, theirs: f64, blocks: &[Vec<Block>]) {
    let medians: Vec<Block> = blocks.iter().filter_map(|b| median(b)).collect();
    let each = |of: fn(&Block) -> f64| medians.iter().map(of).collect::<Vec<_>>();
    let row = Row::new(
        format!("{what}: median block time"),
        table.source.clone(),
        Expected::Value(theirs),
        Measured::spread(&each(|b| b.millis)),
        "ms",
        Tolerance::Relative(0.05),
    );
    bench.row(match row.verdict() {
        Verdict::Differs => row.explained("the-time-of-a-block"),
        _ => row,
    });
    // Counted, not read off the time.
    let k: Vec<_> = each(|b| b.sat_out / RTO_MIN_MS)
        .iter()
        .map(|k| format!("{k:.0}"))
        .collect();
    bench.row(
        Row::new(
            format!("{what}: median block over the timeouts that its slowest server sat out"),
            "quantisation: k x RTOmin, k counted",
            Expected::Value(1.0),
            Measured::spread(&each(|b| b.millis / b.sat_out)),
            "k RTOmin",
            Tolerance::Relative(0.05),
        )
        .note(format!("k by counting: {}", k.join(", "))),
    );
    let all: Vec<Block> = blocks.iter().flatten().copied().collect();
    let stalled: Vec<&Block> = all.iter().filter(|b| b.sat_out > 0.0).collect();
    let shortest = all.iter().map(|b| b.millis / b.sat_out.max(TRANSFER_MS));
    let longest = stalled.iter().map(|b| b.millis / (b.sat_out + TRANSFER_MS));
    let inside = longest.clone().filter(|r| *r <= 1.0).count();
    let bracket =
        "block time is in [max(T, k RTO), T + k RTO], T = block / (payload's share of C) + RTT";
    bench.row(
        Row::new(
            format!("{what}: shortest block, against its bound"),
            bracket,
            Expected::AtLeast(1.0),
            Measured::Value(shortest.fold(f64::INFINITY, f64::min)),
            "of max(T, k RTO)",
            Tolerance::Exact,
        )
        .note(format!("{} blocks", all.len())),
    );
    // Losses without timeouts cost a block some milliseconds more than T.
    bench.row(
        Row::new(
            format!("{what}: longest block with timeouts, against its bound"),
            bracket,
            Expected::AtMost(1.0),
            Measured::Value(longest.fold(0.0, f64::max)),
            "of T + k RTO",
            Tolerance::Exact,
        )
        .note(format!(
            "{inside} of {} such blocks are within the bound itself",
            stalled.len()
        )),
    );
}

/// The share of blocks that take at most so long.
fn distribution(n: u32, group: usize, blocks: &[Vec<Block>]) -> Series {
    let mut times: Vec<f64> = blocks.iter().flatten().map(|b| b.millis).collect();
    times.sort_by(f64::total_cmp);
    let share = |i: usize| i as f64 / times.len().max(1) as f64;
    let mut points = vec![(0.0, 0.0)];
    points.extend(times.iter().enumerate().map(|(i, t)| (*t, share(i + 1))));
    Series {
        name: format!("{n} servers"),
        draw: Draw::Steps,
        role: Role::Ours,
        group,
        points,
        spread: Vec::new(),
        ..Series::default()
    }
}
