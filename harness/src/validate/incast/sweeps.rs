//! One factor changed: variants of TCP, the size of a share, the minimum timeout.

use super::*;
use crate::report::chart::{Axis, Chart, Draw, Role, Scale, Series};
use crate::scenario::spec::{BlockSize, DelayedAck};
use crate::validate::Figure;
use crate::validate::reference::Table;
use crate::validate::tahoe;
use narrows::ByteCount;

const VARIANTS: &str = include_str!("../../../reference/fast08_variants.csv");
const SRU: &str = include_str!("../../../reference/fast08_sru.csv");
const RTO_MIN: &str = include_str!("../../../reference/fast08_rtomin.csv");

/// Reno, SACK and so on.
pub(super) fn variants(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(VARIANTS);
    for line in table.lines() {
        let variant = line.text("variant");
        let mut spec = fast08(16, 64, 20);
        let tcp = &mut spec.tcp;
        let known = match variant {
            "NewReno" => true,
            "Reno" => {
                tcp.loss_detector = "reno".to_owned();
                true
            }
            "SACK" => {
                tcp.loss_detector = "sack".to_owned();
                tcp.sack = true;
                true
            }
            "no limited transmit" => {
                tcp.limited_transmit = false;
                true
            }
            // The window that the receiver offers, from the first packet and after each pause.
            "no slow start" => {
                tcp.initial_window = 20;
                true
            }
            "delayed ACK" => {
                tcp.delayed_ack = DelayedAck::On {
                    segments: 2,
                    timeout: Duration::from_millis(100),
                };
                true
            }
            _ => false,
        };
        let ours = if known {
            Measured::spread(&goodput(&runs(bench, &spec, SEEDS)?))
        } else if variant == "Tahoe" {
            Measured::spread(&tahoe::goodput(bench, &spec, SEEDS)?)
        } else {
            Measured::Missing("no such variant".to_owned())
        };
        bench.row(Row::new(
            format!("B = 64, N = 16, {variant}: goodput"),
            table.source.clone(),
            Expected::Value(line.number("goodput").unwrap_or(f64::NAN)),
            ours,
            "Mb/s",
            COLLAPSED,
        ));
    }
    Ok(())
}

/// What each server sends for a block.
pub(super) fn sru(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(SRU);
    for line in table.lines() {
        let packets = line.whole("sru");
        let mut spec = fast08(16, 64, 20);
        spec.block = BlockSize::Sru(ByteCount::new(1_000 * u64::from(packets)));
        let found = runs(bench, &spec, SEEDS)?;
        bench.row(Row::new(
            format!("B = 64, N = 16, SRU {packets} packets: goodput"),
            table.source.clone(),
            Expected::Value(line.number("goodput").unwrap_or(f64::NAN)),
            Measured::spread(&goodput(&found)),
            "Mb/s",
            COLLAPSED,
        ));
    }
    Ok(())
}

/// The minimum timeout, adaptive and fixed.
pub(super) fn rto_min(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(RTO_MIN);
    let mut series: Vec<Series> = Vec::new();
    for n in [16_u32, 64] {
        for role in [Role::Reference, Role::Ours] {
            series.push(Series {
                name: match role {
                    Role::Ours => format!("{n} servers"),
                    Role::Reference => format!("{n} servers, ns-2"),
                },
                draw: Draw::LineMarkers,
                role,
                group: usize::from(n == 64),
                ..Series::default()
            });
        }
    }
    for line in table.lines() {
        let (n, rto) = (line.whole("n"), line.whole("rto_us"));
        let rto = Duration::from_micros(u64::from(rto));
        let fixed = line.text("how") == "fixed";
        let mut spec = fast08(n, 64, 4);
        if rto >= Duration::from_millis(50) {
            spec.length = Length::Time(Duration::from_secs(20));
        }
        spec.tcp.rto = if fixed {
            format!("fixed:{rto}")
        } else {
            floor(rto)
        };
        let found = runs(bench, &spec, SEEDS)?;
        let theirs = line.number("goodput").unwrap_or(f64::NAN);
        let how = if fixed { "fixed RTO" } else { "RTOmin" };
        bench.row(Row::new(
            format!("B = 64, N = {n}, {how} {rto}: goodput"),
            table.source.clone(),
            Expected::Value(theirs),
            Measured::spread(&goodput(&found)),
            "Mb/s",
            COLLAPSED,
        ));
        if fixed {
            continue;
        }
        let (mean, spread) = band(&goodput(&found));
        let at = 2 * usize::from(n == 64);
        let x = rto.as_micros() as f64 / 1_000.0;
        series[at].points.push((x, theirs));
        series[at + 1].points.push((x, mean));
        series[at + 1].spread.push(spread);
    }
    bench.figure(Figure {
        name: "fast08-rtomin",
        caption: "Goodput against the minimum retransmission timeout with the FAST 2008 set-up \
                  and 64 packets of buffer: ours, with the spread over three seeds, over \
                  ns-2.35. A timeout of the order of the round trip ends the collapse."
            .to_owned(),
        chart: Chart {
            title: "Goodput against the minimum timeout".to_owned(),
            x: Axis {
                label: "Minimum timeout (ms)".to_owned(),
                scale: Scale::Log10,
                range: None,
            },
            y: Axis {
                label: "Goodput (Mb/s)".to_owned(),
                scale: Scale::Linear,
                range: Some((0.0, 1_000.0)),
            },
            series,
            rules: Vec::new(),
        },
    });
    Ok(())
}
