//! One factor changed: variants of TCP, the size of a share, the minimum timeout.

use super::*;
use crate::Figure;
use crate::reference::Table;
use crate::tahoe;
use narrows_experiment::scenario::spec::{DelayedAck, SackUse};
use narrows_report::chart::{Axis, Chart, Draw, Role, Scale, Series};

const VARIANTS: &str = include_str!("../../reference/fast08_variants.csv");
const SRU: &str = include_str!("../../reference/fast08_sru.csv");
const RTO_MIN: &str = include_str!("../../reference/fast08_rtomin.csv");

/// Reno, SACK and so on.
pub(super) fn variants(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(VARIANTS);
    for line in table.lines() {
        let variant = line.text("variant");
        let mut spec = fast08(16, 64, 20);
        let tcp = &mut spec.host.tcp;
        let known = match variant {
            "NewReno" => true,
            "Reno" => {
                tcp.loss_detector = "reno".to_owned();
                true
            }
            "SACK" => {
                tcp.loss_detector = "sack".to_owned();
                tcp.sack = SackUse::On;
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
        let row = Row::new(
            format!("B = 64, N = 16, {variant}: goodput"),
            table.source.clone(),
            Expected::Value(line.number("goodput").unwrap_or(f64::NAN)),
            ours,
            "Mb/s",
            COLLAPSED,
        );
        bench.row(match variant {
            "NewReno" => row.of_result(stock(16, 64)),
            _ => row,
        });
    }
    Ok(())
}

/// What each server sends for a block.
pub(super) fn sru(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(SRU);
    for line in table.lines() {
        let packets = line.whole("sru");
        let mut spec = fast08(16, 64, 20);
        put(&mut spec, "sru", format!("{packets}kB"));
        let found = runs(bench, &spec, SEEDS)?;
        let row = Row::new(
            format!("B = 64, N = 16, SRU {packets} packets: goodput"),
            table.source.clone(),
            Expected::Value(line.number("goodput").unwrap_or(f64::NAN)),
            Measured::spread(&goodput(&found)),
            "Mb/s",
            COLLAPSED,
        );
        bench.row(match packets {
            256 => row.of_result(stock(16, 64)),
            _ => row,
        });
    }
    Ok(())
}

/// The timeout: RFC 6298 with a minimum, and fixed.
pub(super) fn rto_min(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(RTO_MIN);
    let mut series: Vec<Series> = Vec::new();
    for line in table.lines() {
        let (n, rto) = (line.whole("n"), line.whole("rto_us"));
        let rto = Duration::from_micros(u64::from(rto));
        let fixed = line.text("how") == "fixed";
        let mut spec = fast08(n, 64, 4);
        if rto >= Duration::from_millis(50) {
            spec.run.duration = Duration::from_secs(20);
        }
        let (how, policy) = match fixed {
            true => ("fixed RTO", format!("fixed:{rto}")),
            false => ("RTOmin", floor(rto)),
        };
        spec.host.tcp.rto = policy;
        let found = runs(bench, &spec, SEEDS)?;
        let theirs = line.number("goodput").unwrap_or(f64::NAN);
        let row = Row::new(
            format!("B = 64, N = {n}, {how} {rto}: goodput"),
            table.source.clone(),
            Expected::Value(theirs),
            Measured::spread(&goodput(&found)),
            "Mb/s",
            COLLAPSED,
        );
        bench.row(match (how, rto.as_millis()) {
            ("RTOmin", 200) => row.of_result(stock(n, 64)),
            _ => row,
        });
        let (mean, spread) = band(&goodput(&found));
        let x = rto.as_micros() as f64 / 1_000.0;
        for (role, y, spread) in [
            (Role::Reference, theirs, None),
            (Role::Ours, mean, Some(spread)),
        ] {
            let theirs = if role == Role::Reference {
                ", ns-2"
            } else {
                ""
            };
            let name = format!("{n} servers, {how}{theirs}");
            let at = series.iter().position(|s| s.name == name);
            let at = at.unwrap_or_else(|| {
                series.push(Series {
                    name,
                    draw: Draw::LineMarkers,
                    role,
                    group: series.len() / 2,
                    ..Series::default()
                });
                series.len() - 1
            });
            series[at].points.push((x, y));
            series[at].spread.extend(spread);
        }
    }
    bench.figure(Figure {
        name: "fast08-rtomin",
        caption: "Goodput against the retransmission timeout with the FAST 2008 set-up and 64 \
                  packets of buffer: ours, with the spread over three seeds, over ns-2.35. A \
                  timeout of the order of the round trip ends the collapse; a fixed one below \
                  the queueing delay, which nothing backs off, storms."
            .to_owned(),
        chart: Chart {
            title: "Goodput against the timeout".to_owned(),
            x: Axis {
                label: "Timeout: fixed, or the minimum (ms)".to_owned(),
                scale: Scale::Log10,
                ..Axis::default()
            },
            y: Axis {
                label: "Goodput (Mb/s)".to_owned(),
                scale: Scale::Linear,
                range: Some((0.0, 1_000.0)),
                ..Axis::default()
            },
            series,
            ..Chart::default()
        },
    });
    Ok(())
}
