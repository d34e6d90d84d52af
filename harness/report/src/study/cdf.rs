//! The distribution of the transfers' times.

use super::figure::{Figure, MOST_LINES, file_name, label, left_out, point_name, shown_unit};
use crate::chart::{Axis, Chart, Draw, Scale, Series};
use narrows_experiment::model::Clock;
use narrows_experiment::registry::Registry;
use narrows_experiment::results::{Folder, FolderError, cells};
use narrows_experiment::summary::Summary;

/// Most points of a line.
const MOST_POINTS: usize = 2_000;

/// A figure for each traffic that has transfers: a line for each point.
pub(super) fn figures(
    summary: &Summary<'_>,
    registry: &Registry,
    folder: &Folder,
) -> Result<Vec<Figure>, FolderError> {
    let traffics = &summary.plan().base().traffic;
    // By traffic, then by point.
    let mut all: Vec<Vec<(String, Vec<f64>)>> = vec![Vec::new(); traffics.len()];
    for point in 0..summary.plan().points().min(MOST_LINES) {
        let mut took = vec![Vec::new(); traffics.len()];
        let from = measured_from(summary, point, registry);
        for record in summary.runs(point) {
            for row in folder.rows(record, "transfers")?.lines() {
                // point,repetition,traffic,to,from,began_ns,took_ns,size_bytes
                let row = cells(row);
                let number = |n: usize| row.get(n)?.parse::<f64>().ok();
                let (Some(began), Some(time)) = (number(5), number(6)) else {
                    continue;
                };
                let traffic = traffics.iter().position(|t| t.name == *row[2]);
                if let Some(traffic) = traffic.filter(|_| began >= from) {
                    took[traffic].push(time);
                }
            }
        }
        for (traffic, mut took) in took.into_iter().enumerate() {
            if !took.is_empty() {
                took.sort_by(f64::total_cmp);
                all[traffic].push((point_name(summary, point), took));
            }
        }
    }
    let several = all.iter().filter(|lines| !lines.is_empty()).count() > 1;
    let with_lines = traffics.iter().zip(all).filter(|(_, l)| !l.is_empty());
    let figures = with_lines.map(|(traffic, lines)| {
        let of = several.then_some(traffic.name.as_str());
        figure(summary, of, lines)
    });
    Ok(figures.collect())
}

/// From when transfers are measured, in ns; from the beginning where that is not known.
fn measured_from(summary: &Summary<'_>, point: usize, registry: &Registry) -> f64 {
    let run = summary.plan().at(point, registry).map(|e| e.run);
    let run = run.unwrap_or(summary.plan().base().run);
    match run.clock {
        Clock::Start => run.warm_up.as_nanos() as f64,
        Clock::FirstSend => 0.0,
    }
}

fn figure(summary: &Summary<'_>, of: Option<&str>, lines: Vec<(String, Vec<f64>)>) -> Figure {
    let base = summary.plan().base();
    let all = || lines.iter().flat_map(|(_, took)| took);
    let most = all().copied().fold(0.0, f64::max);
    let least = all().copied().fold(most, f64::min);
    let (by, unit) = shown_unit("ns", most);
    let wide = most / least.max(1.0) >= 30.0;
    let series = lines.into_iter().enumerate().map(|(group, (name, took))| {
        let n = took.len();
        let step = n.div_ceil(MOST_POINTS).max(1);
        let points = (0..n).step_by(step).chain([n - 1]);
        Series {
            name,
            draw: Draw::Steps,
            group,
            points: points
                .map(|i| (took[i] / by, (i + 1) as f64 / n as f64))
                .collect(),
            ..Series::default()
        }
    });
    let mut caption = "Share of the transfers of all repetitions that took no longer.".to_owned();
    if base.run.clock == Clock::FirstSend && !base.run.warm_up.is_zero() {
        caption += " Those of the warm-up are among them.";
    }
    let notes = left_out(summary, "transfers.csv has all");
    let whose = of.map_or_else(String::new, |name| format!(": {name}"));
    Figure {
        name: file_name(&match of {
            None => "figure-cdf".to_owned(),
            Some(name) => format!("figure-cdf-{name}"),
        }),
        heading: format!("Distribution of transfer times{whose}"),
        caption,
        chart: Chart {
            title: format!("Cumulative distribution of transfer times{whose}"),
            x: Axis {
                label: label("time of a transfer", unit),
                scale: if wide { Scale::Log10 } else { Scale::Linear },
                ..Axis::default()
            },
            y: Axis {
                label: "Share of transfers".to_owned(),
                range: Some((0.0, 1.0)),
                ..Axis::default()
            },
            series: series.collect(),
            notes: notes.into_iter().collect(),
            ..Chart::default()
        },
    }
}
