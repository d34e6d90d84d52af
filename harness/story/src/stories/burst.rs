//! `burst`: a port that looks a quarter full when it is read each second overflows within
//! milliseconds.

mod collapse;
mod copies;
mod knee;
#[cfg(target_os = "linux")]
mod live;
mod measures;
mod remedies;
mod rows;
mod scenes;
mod see_saw;
mod timeouts;

use crate::grid::{Column, Grid};
use crate::judge::median;
use crate::played::{Answer, Played, missing};
use crate::story::{Figure, Live, Next, Story, Table};
use measures::{TEXT, drops, ratio};
use narrows_report::chart::{Axis, Chart, Draw, Role, Rule, RuleAt, Scale, Series};
use narrows_report::points::number;
use rows::ROWS;
use scenes::{HOSTS, LINE, LOADS, SCENES};

/// The story.
pub const STORY: Story = Story {
    name: "burst",
    about: "A port that looks a quarter full when it is read each second overflows within \
            milliseconds.",
    scenes: SCENES,
    tables: &[
        Table::own(remedies::TITLE, remedies::table),
        Table::points(
            "... the floor of the RTO there, where its timers tick",
            "rto-at-ticks",
            &[
                Column::new("timeouts", "timeouts"),
                Column::new("p99", "latency.p99"),
                Column::new("p99.9", "latency.p999"),
            ],
        ),
        Table::points(
            "... DCTCP at 250 Mb/s, by the packets from which on a port of 64 KiB marks",
            "early-marks",
            &[
                Column::new("drops/s", "drops_per_s"),
                Column::new("timeouts", "timeouts"),
                Column::new("median query", "latency.p50"),
                Column::new("p99", "latency.p99"),
            ],
        ),
        Table::points(
            "... buffers, where five copies without an end run beside queries at 100 Mb/s",
            "deep",
            &[
                Column::new("copies' goodput", "copy.goodput"),
                Column::new("drops/s", "drops_per_s"),
                Column::new("queries' p99", "get.latency.p99"),
            ],
        ),
        Table::points(
            "... a limit of 80 % at each sender, where a host copies to h0 without an end beside queries at 100 Mb/s",
            "limited-copy",
            &[
                Column::new("copy's goodput", "copy.goodput"),
                Column::new("drops/s", "drops_per_s"),
                Column::new("queries' p99", "get.latency.p99"),
            ],
        ),
        Table::own(
            "Greatest reading over the mean of a second, by polling period, at 190 Mb/s",
            polling_table,
        ),
        Table::own(
            "Load, with replies of 10 kB through ports of 64 KiB",
            load_table,
        ),
        Table::own(
            "Seventeen seconds of a node that is asked for 500 Mb/s, in a mesh of twelve",
            see_saw::table,
        ),
    ],
    phenomenon,
    rows: ROWS,
    figures: &[Figure::first(figure)],
    next: &[
        Next::new(
            "narrows run microbursts",
            "the experiment, by load and congestion control",
        ),
        Next::new("narrows show microbursts", "its file"),
        Next::new("narrows story incast", "what a barrier makes of it"),
        Next::new(
            "narrows meter IFACE",
            "the same readings of an interface of your own",
        ),
    ],
    #[cfg(target_os = "linux")]
    live: Live::Twin(live::TWIN),
    #[cfg(not(target_os = "linux"))]
    live: Live::Cannot("it takes Linux's network namespaces"),
};

fn phenomenon(played: &Played) -> Answer<String> {
    let scene = played.scene("polling")?;
    let means = scene.matching(&[], "port.", ".mean.500ms_bps")?;
    let mean = median(&means).ok_or_else(|| missing("reading"))?;
    let most = |period: &str| -> Answer<f64> { Ok(ratio(played, "polling", period)? * mean) };
    Ok(format!(
        "A port that carries {} Mb/s of 1000 when it is read twice a second carries {} Mb/s in the \
         fullest 2 ms of each; it drops {} packets a second at 250 Mb/s, {} at 500, and from {} \
         Mb/s on the median query waits for a timeout. {}",
        number((mean / 1e6).round(), ""),
        number((most("2ms")? / 1e6).round(), ""),
        number(drops(played, "load", "250Mb/s")?.round(), ""),
        number(drops(played, "load", "500Mb/s")?.round(), ""),
        number((measures::knee(played)? / 1e6).round(), ""),
        remedies::verdict(played)?,
    ))
}

fn polling_table(played: &Played) -> Answer<Grid> {
    let mut grid = Grid::new(["", "the text", "ours", "a poller up to 0.85 ms late"], 1);
    for (period, text) in TEXT {
        let late = match period {
            "2ms" | "1ms" => number(ratio(played, "late", period)?, ""),
            _ => String::new(),
        };
        let ours = number(ratio(played, "polling", period)?, "");
        grid.rows
            .push(vec![period.to_owned(), number(text, ""), ours, late]);
    }
    Ok(grid)
}

fn load_table(played: &Played) -> Answer<Grid> {
    let scene = played.scene("load")?;
    let head = [
        "load",
        "served a host",
        "drops/s a host",
        "sent again",
        "median query",
        "p99",
    ];
    let row = |load: &str| -> Answer<Vec<String>> {
        let value = |metric: &str| scene.value(&[("load", load)], metric);
        let percent = format!("{} %", number(value("retransmit_share")? * 100.0, ""));
        Ok(vec![
            load.to_owned(),
            number(value("goodput")? / HOSTS, "bit/s"),
            number(value("drops_per_s")? / HOSTS, ""),
            percent,
            number(value("latency.p50")?, "ns"),
            number(value("latency.p99")?, "ns"),
        ])
    };
    Ok(Grid {
        head: head.map(str::to_owned).to_vec(),
        words: 1,
        rows: LOADS.split(',').map(row).collect::<Answer<_>>()?,
    })
}

/// Greatest over mean against the period, ours and the text's, up to the line.
fn figure(played: &Played) -> Answer<Chart> {
    let period_ms = |text: &str| {
        text.trim_end_matches("ms")
            .parse::<f64>()
            .unwrap_or(f64::NAN)
    };
    let mut ours = Vec::new();
    for (period, _) in TEXT {
        ours.push((period_ms(period), ratio(played, "polling", period)?));
    }
    let means = played
        .scene("polling")?
        .matching(&[], "port.", ".mean.500ms_bps")?;
    let mean = median(&means).ok_or_else(|| missing("reading"))?;
    let late = [
        (2.0, ratio(played, "late", "2ms")?),
        (1.0, ratio(played, "late", "1ms")?),
    ];
    Ok(Chart {
        title: "Greatest reading over the mean of a second, against the polling period".to_owned(),
        x: Axis {
            label: "Polling period (ms)".to_owned(),
            scale: Scale::Log10,
            ..Axis::default()
        },
        y: Axis {
            label: "Greatest reading over mean".to_owned(),
            range: Some((0.0, 9.0)),
            ..Axis::default()
        },
        series: vec![
            Series {
                name: "the text".to_owned(),
                role: Role::Reference,
                points: TEXT
                    .iter()
                    .map(|(p, ratio)| (period_ms(p), *ratio))
                    .collect(),
                ..Series::default()
            },
            Series {
                name: "ours".to_owned(),
                points: ours,
                ..Series::default()
            },
            Series {
                name: "ours, a poller up to 0.85 ms late".to_owned(),
                draw: Draw::LineMarkers,
                group: 1,
                points: late.to_vec(),
                ..Series::default()
            },
        ],
        rules: vec![Rule {
            at: RuleAt::Y(LINE / mean),
            label: "the line".to_owned(),
        }],
        ..Chart::default()
    })
}
