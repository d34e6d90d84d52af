//! Tables and figures of `incast`.

use super::{BUFFERS, DEAREST, LINE, RTOS, carried, goodput, kilobytes};
use crate::grid::Grid;
use crate::played::{Answer, Played, column};
use narrows_report::chart::{Axis, Band, Chart, Draw, Rule, RuleAt, Scale, Series};

pub(super) fn goodput_table(played: &Played) -> Answer<Grid> {
    let curves = RTOS.split(',').map(|rto| goodput(played, rto));
    let curves: Vec<Vec<(f64, f64)>> = curves.collect::<Answer<_>>()?;
    let mut grid = Grid {
        head: vec!["servers".to_owned()],
        words: 0,
        rows: Vec::new(),
    };
    grid.head
        .extend(RTOS.split(',').map(|rto| format!("RTO {rto}")));
    for (n, (servers, _)) in curves[0].iter().enumerate() {
        let cells = curves
            .iter()
            .map(|curve| format!("{:.0}", curve[n].1 / 1e6));
        grid.rows
            .push(std::iter::once(servers.to_string()).chain(cells).collect());
    }
    Ok(grid)
}

pub(super) fn price_table(played: &Played) -> Answer<Grid> {
    let row = |buffer: &str| -> Answer<Vec<String>> {
        let servers = carried(played, buffer)?;
        let price = match buffer {
            DEAREST => "up to $500,000",
            _ => "",
        };
        Ok(vec![
            buffer.to_owned(),
            servers.to_string(),
            price.to_owned(),
        ])
    };
    Ok(Grid {
        rows: BUFFERS.split(',').map(row).collect::<Answer<_>>()?,
        ..Grid::new(
            [
                "buffer of the port",
                "servers",
                "price of a switch, by the text",
            ],
            1,
        )
    })
}

pub(super) fn figure(played: &Played) -> Answer<Chart> {
    let mut series = Vec::new();
    for (group, rto) in RTOS.split(',').enumerate() {
        series.push(Series {
            name: format!("RTO {rto}"),
            group,
            points: goodput(played, rto)?
                .into_iter()
                .map(|(x, y)| (x, y / 1e6))
                .collect(),
            ..Series::default()
        });
    }
    Ok(Chart {
        title: "Goodput against servers, by timeout policy".to_owned(),
        x: Axis {
            label: "Servers".to_owned(),
            scale: Scale::Log2,
            ..Axis::default()
        },
        y: Axis {
            label: "Goodput (Mb/s)".to_owned(),
            range: Some((0.0, 1_050.0)),
            ..Axis::default()
        },
        series,
        rules: vec![Rule {
            at: RuleAt::Y(LINE / 1e6),
            label: "the line".to_owned(),
        }],
        ..Chart::default()
    })
}

/// How much of a run the timeline shows, in ms.
const SHOWN: f64 = 1_200.0;

/// What the client's port carries, a millisecond each, and which blocks that was.
pub(super) fn timeline(played: &Played) -> Answer<Chart> {
    let scene = played.scene("blocks")?;
    let (run, series) = (scene.run(&[])?, scene.series(&[], "link")?);
    let (time, rate) = (
        column(series, "time_ns")?,
        column(series, "rate.1ms_bit_per_s")?,
    );
    let began = run.measured_from.as_nanos() as f64;
    let points = series.rows.iter().filter_map(|row| {
        let at = (row[time]? - began) / 1e6;
        (0.0..SHOWN).contains(&at).then_some((at, row[rate]? / 1e6))
    });
    let blocks = run.transfers.iter().step_by(2).map(|block| {
        let from = (block.began.as_nanos() as f64 - began) / 1e6;
        Band {
            from,
            to: (from + block.took.as_nanos() as f64 / 1e6).min(SHOWN),
            label: String::new(),
            group: 1,
        }
    });
    Ok(Chart {
        title: "What the client's port carries in each millisecond, 16 servers".to_owned(),
        x: Axis {
            label: "Time (ms)".to_owned(),
            range: Some((0.0, SHOWN)),
            ..Axis::default()
        },
        y: Axis {
            label: "Rate (Mb/s)".to_owned(),
            range: Some((0.0, 1_050.0)),
            ..Axis::default()
        },
        series: vec![Series {
            name: "the client's port".to_owned(),
            draw: Draw::Steps,
            points: points.collect(),
            ..Series::default()
        }],
        bands: blocks.filter(|band| band.from < SHOWN).collect(),
        notes: vec!["Every second block is shaded.".to_owned()],
        ..Chart::default()
    })
}

/// Servers that a buffer carries, with what the text says that the largest costs.
pub(super) fn price(played: &Played) -> Answer<Chart> {
    let points = BUFFERS
        .split(',')
        .map(|b| Ok((kilobytes(b), carried(played, b)?)));
    Ok(Chart {
        title: "Servers that a port carries, against its buffer and the price of that".to_owned(),
        x: Axis {
            label: "Buffer of the port (kB)".to_owned(),
            scale: Scale::Log2,
            ..Axis::default()
        },
        y: Axis {
            label: "Servers with nine tenths of the line".to_owned(),
            scale: Scale::Log2,
            ..Axis::default()
        },
        series: vec![Series {
            name: "RTO floor 200 ms, 256 kB from each server".to_owned(),
            points: points.collect::<Answer<_>>()?,
            ..Series::default()
        }],
        rules: vec![Rule {
            at: RuleAt::X(kilobytes(DEAREST)),
            label: "a switch up to $500,000".to_owned(),
        }],
        ..Chart::default()
    })
}
