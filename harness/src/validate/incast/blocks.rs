//! Blocks of fixed size: how long they take.

use super::*;
use crate::report::chart::{Axis, Chart, Draw, Role, Rule, RuleAt, Scale, Series};
use crate::scenario::spec::BlockSize;
use crate::validate::Figure;
use crate::validate::reference::Table;
use narrows::ByteCount;

const TABLE: &str = include_str!("../../../reference/fast08_fixed_block.csv");
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
        spec.block = BlockSize::Fixed(ByteCount::new(1_000_000));
        spec.tcp.rto = floor(rto);
        let found = runs(bench, &spec, SEEDS)?;
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
        medians(bench, &table, &what, theirs, &found);
        series.push(distribution(n, series.len(), &found));
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
            },
            y: Axis {
                label: "Share of blocks".to_owned(),
                scale: Scale::Linear,
                range: Some((0.0, 1.0)),
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
        },
    });
    Ok(())
}

/// All block times in ms, in order.
fn times(found: &[IncastRun]) -> Vec<f64> {
    let all = found.iter().flat_map(|r| &r.block_times);
    let mut all: Vec<f64> = all.map(|t| t.as_nanos() as f64 / 1e6).collect();
    all.sort_by(f64::total_cmp);
    all
}

fn medians(bench: &mut Bench<'_>, table: &Table, what: &str, theirs: f64, found: &[IncastRun]) {
    let medians: Vec<f64> = found
        .iter()
        .filter_map(|run| {
            let times = times(std::slice::from_ref(run));
            times.get(times.len() / 2).copied()
        })
        .collect();
    bench.row(Row::new(
        format!("{what}: median block time"),
        table.source.clone(),
        Expected::Value(theirs),
        Measured::spread(&medians),
        "ms",
        Tolerance::Relative(0.05),
    ));
    let steps = (theirs / RTO_MIN_MS).round();
    bench.row(Row::new(
        format!("{what}: median block time"),
        format!("{steps} x RTOmin"),
        Expected::Value(steps * RTO_MIN_MS),
        Measured::spread(&medians),
        "ms",
        Tolerance::Relative(0.05),
    ));
    // A block in which somebody sat out timeouts of k RTO in all takes that, and at most the
    // transfer besides. (Losses without timeouts cost a block some milliseconds more than T.)
    let times = times(found);
    let stalled = times.iter().filter(|t| **t >= RTO_MIN_MS);
    let against = |t: &f64| *t / ((t / RTO_MIN_MS).floor() * RTO_MIN_MS + TRANSFER_MS);
    let ratios: Vec<f64> = stalled.map(against).collect();
    let inside = ratios.iter().filter(|r| **r <= 1.0).count();
    bench.row(
        Row::new(
            format!("{what}: longest block with timeouts, against its bound"),
            "block time is in [max(T, k RTO), T + k RTO], T = block / (payload's share of C) + RTT",
            Expected::AtMost(1.0),
            Measured::Value(ratios.iter().copied().fold(0.0, f64::max)),
            "of T + k RTO",
            Tolerance::Exact,
        )
        .note(format!(
            "{inside} of {} such blocks are within the bound itself",
            ratios.len()
        )),
    );
}

/// The share of blocks that take at most so long.
fn distribution(n: u32, group: usize, found: &[IncastRun]) -> Series {
    let times = times(found);
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
    }
}
