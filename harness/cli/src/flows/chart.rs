//! What `narrows flows --svg` draws.

use super::{Plot, name_of};
use narrows_experiment::scenario::flows::{FlowOutcome, FlowSample, FlowsRun, FlowsSpec};
use narrows_report::chart::{Axis, Chart, Draw, Key, Series, Variants};

/// What was asked for, over time.
pub(super) fn chart(spec: &FlowsSpec, run: &FlowsRun, plot: Plot) -> Chart {
    let label = match plot {
        Plot::Queue => "Queue (packets)",
        Plot::Cwnd => "Congestion window (kB)",
        Plot::Goodput => "Goodput (Mb/s)",
        Plot::Rtt => "Smoothed RTT (µs)",
        Plot::Alpha => "alpha",
    };
    let names = run.flows.iter().enumerate();
    let names: Vec<String> = names
        .map(|(flow, _)| format!("{} {}", flow + 1, name_of(spec, flow)))
        .collect();
    let looks = Variants::unmarked(&names);
    let series = if plot == Plot::Queue {
        let queue = run.bottleneck.queue.iter();
        vec![Series {
            name: "queue".to_owned(),
            draw: Draw::Steps,
            points: queue
                .map(|q| (q.at_picos as f64 / 1e9, f64::from(q.packets)))
                .collect(),
            ..Series::default()
        }]
    } else {
        let flow = |(number, f): (usize, &FlowOutcome)| Series {
            name: names[number].clone(),
            draw: Draw::Line,
            style: looks.style(number),
            points: points(&f.samples, plot),
            ..Series::default()
        };
        run.flows.iter().enumerate().map(flow).collect()
    };
    Chart {
        title: format!("{label} over time"),
        x: Axis {
            label: "Time (ms)".to_owned(),
            ..Axis::default()
        },
        y: Axis {
            label: label.to_owned(),
            ..Axis::default()
        },
        key: match plot {
            Plot::Queue => Key::Names,
            _ => looks.key(),
        },
        series,
        bands: Vec::new(),
        rules: Vec::new(),
    }
}

/// A flow's samples as points.
fn points(samples: &[FlowSample], plot: Plot) -> Vec<(f64, f64)> {
    let time = |s: &FlowSample| s.at.as_nanos() as f64 / 1e6;
    if plot == Plot::Goodput {
        let rate = |w: &[FlowSample]| {
            let bits = w[1].received.saturating_sub(w[0].received).get() as f64 * 8.0;
            let micros = w[1].at.since(w[0].at).as_nanos() as f64 / 1e3;
            (time(&w[1]), bits / micros)
        };
        return samples.windows(2).map(rate).collect();
    }
    let value = |s: &FlowSample| match plot {
        Plot::Cwnd => Some(s.cwnd.get() as f64 / 1e3),
        Plot::Rtt => s.srtt.map(|t| t.as_nanos() as f64 / 1e3),
        Plot::Alpha => s.fraction("alpha"),
        Plot::Queue | Plot::Goodput => None,
    };
    samples
        .iter()
        .filter_map(|s| Some((time(s), value(s)?)))
        .collect()
}
