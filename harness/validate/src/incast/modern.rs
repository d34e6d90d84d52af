//! What fifteen years of TCP changed, and what not.

use super::*;
use crate::Figure;
use crate::reference::Table;
use narrows_report::chart::{Axis, Chart, Draw, Role, Scale, Series};

const FAST08: &str = include_str!("../../reference/fast08_buffers.csv");
const SIMULATORS: &str = include_str!("../../reference/incast-simulators.csv");
const SERVERS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const FRAMING: &str = "1448 bytes of payload in 1538 on the wire";

/// A TCP of today: Ethernet, 1448-byte segments with timestamps, initial window 10, no cap on
/// the window, SACK.
#[derive(Clone, Copy, Debug)]
struct Today {
    name: &'static str,
    congestion: &'static str,
    detector: &'static str,
    rto: &'static str,
}

const TODAY: [Today; 4] = [
    Today {
        name: "Reno with SACK",
        congestion: "reno",
        detector: "sack",
        rto: "linux",
    },
    Today {
        name: "Reno with RACK-TLP",
        congestion: "reno",
        detector: "rack",
        rto: "linux",
    },
    Today {
        name: "CUBIC with RACK-TLP",
        congestion: "cubic",
        detector: "rack",
        rto: "linux",
    },
    Today {
        name: "CUBIC with RACK-TLP, RTOmin 1 ms",
        congestion: "cubic",
        detector: "rack",
        rto: "floor:1ms",
    },
];

impl Today {
    fn spec(self, servers: u32) -> Experiment {
        let secs = match self.rto {
            "linux" if servers > 2 => 5,
            _ => 1,
        };
        let mut spec = rack(servers, Duration::from_secs(secs));
        put(&mut spec, "cc", self.congestion);
        put(&mut spec, "loss", self.detector);
        put(&mut spec, "rto", self.rto);
        spec
    }
}

/// Goodput against servers, and the finding.
pub(super) fn curves(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let mut series = vec![
        theirs(
            "ns-2, FAST 2008 set-up",
            0,
            Table::parse(FAST08).lines().filter_map(|l| {
                (l.whole("buffer") == 64).then_some((l.number("n")?, l.number("goodput")?))
            }),
        ),
        theirs(
            "ns-3.37, NewReno and SACK",
            1,
            Table::parse(SIMULATORS).lines().filter_map(|l| {
                (l.whole("rto_min_ms") == 200).then_some((l.number("n")?, l.number("ns337")?))
            }),
        ),
    ];
    let mut collapsed: Vec<f64> = Vec::new();
    let mut mended: Vec<f64> = Vec::new();
    for (i, today) in TODAY.into_iter().enumerate() {
        let mut ours = Series {
            name: today.name.to_owned(),
            draw: Draw::LineMarkers,
            role: Role::Ours,
            group: i + 1,
            ..Series::default()
        };
        for n in SERVERS {
            let found = goodput(&runs(bench, &today.spec(n), 1..=2)?);
            let (mean, spread) = band(&found);
            ours.points.push((f64::from(n), mean));
            ours.spread.push(spread);
            if n >= 16 && today.rto == "linux" {
                collapsed.push(mean);
            } else if (16..=32).contains(&n) {
                mended.push(mean);
            }
            if n >= 8 {
                bench.row(Row::new(
                    format!("{}, 64 KiB, N = {n}: goodput", today.name),
                    "none: shown beside the FAST 2008 rows",
                    Expected::Nothing,
                    Measured::spread(&found),
                    "Mb/s",
                    Tolerance::Shown,
                ));
            }
        }
        series.push(ours);
    }
    let worst = |v: &[f64], f: fn(f64, f64) -> f64, from| v.iter().copied().fold(from, f);
    bench.row(
        Row::new(
            "a TCP of today with RTOmin 200 ms, N >= 16: best goodput",
            "FAST 2008 and PDL: no change to loss recovery ends the collapse",
            Expected::AtMost(500.0),
            Measured::Value(worst(&collapsed, f64::max, 0.0)),
            "Mb/s",
            Tolerance::Exact,
        )
        .note("SACK, RACK-TLP, CUBIC and timestamps repair what has an ACK to tell of it"),
    );
    bench.row(Row::new(
        "the same with RTOmin 1 ms, N = 16 and 32: least goodput",
        "SIGCOMM 2009: a millisecond of RTO is enough for some tens of servers",
        Expected::AtLeast(800.0),
        Measured::Value(worst(&mended, f64::min, f64::INFINITY)),
        "Mb/s",
        Tolerance::Exact,
    ));
    bench.figure(Figure {
        name: "modern-incast",
        caption: "Goodput against servers with TCPs of today (Ethernet, timestamps, initial \
                  window 10, 64 KiB of port buffer), over ns-2's FAST 2008 curve and ns-3's. \
                  Fifteen years of loss recovery have not moved the collapse; a minimum timeout \
                  of a millisecond does."
            .to_owned(),
        chart: Chart {
            title: "Goodput against servers with a TCP of today".to_owned(),
            x: Axis {
                label: "Servers".to_owned(),
                scale: Scale::Log2,
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

fn theirs(name: &str, group: usize, points: impl Iterator<Item = (f64, f64)>) -> Series {
    Series {
        name: name.to_owned(),
        draw: Draw::LineMarkers,
        role: Role::Reference,
        group,
        points: points.collect(),
        spread: Vec::new(),
        ..Series::default()
    }
}

/// One server without competition: what a packet's headers leave.
pub(super) fn ceiling(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let mut spec = TODAY[0].spec(1);
    put(&mut spec, "sru", "64MiB");
    put(&mut spec, "rwnd", "60kB");
    for (framing, ceiling, spec) in [
        (FRAMING, 1_000.0 * 1_448.0 / 1_538.0, spec),
        (
            "1000 bytes of payload in 1040 on the wire",
            1_000.0 * 1_000.0 / 1_040.0,
            {
                let mut spec = fast08(1, 64, 1);
                put(&mut spec, "sru", "64MiB");
                spec
            },
        ),
    ] {
        let found = runs(bench, &spec, [1])?;
        bench.row(Row::new(
            format!("one server, 64 MiB a block, {framing}: goodput"),
            "payload's share of the link",
            Expected::Range(0.999 * ceiling, ceiling),
            Measured::spread(&goodput(&found)),
            "Mb/s",
            Tolerance::Exact,
        ));
    }
    Ok(())
}
