//! Along which curve CUBIC's window grows between two losses.

use super::cycles::{Cycles, Lossy, cuts, segments};
use crate::flows::FlowSample;
use crate::{Bench, Expected, Figure, Measured, Row, Tolerance};
use narrows::Duration;
use narrows_experiment::scenario::ScenarioError;
use narrows_report::chart::{Axis, Chart, Draw, Role, Series};

/// C of RFC 9438 section 5, in segments per second cubed.
const C: f64 = 0.4;
/// beta_cubic.
const BETA: f64 = 0.7;
const RTT: Duration = Duration::from_millis(100);
/// How many cycles are looked at.
const SHOWN: usize = 3;

/// The checks of `laws/cubic-curve`.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let lossy = Lossy {
        congestion: "cubic",
        rtt: RTT,
        each: 100_000,
        window: 1_054.0,
        cycles: 20,
    };
    let found = lossy.run(bench)?;
    let epochs = epochs(&found);
    let begin = epochs.first().map_or(0.0, |e| e.begin);
    let apart = epochs.iter().map(Epoch::apart).fold(0.0, f64::max);
    bench.row(
        Row::new(
            "CUBIC's window against W_cubic(t), RTT 100 ms, p = 1e-5: farthest apart",
            "RFC 9438, equations 1 and 2",
            Expected::AtMost(2.0),
            Measured::Value(apart * 100.0),
            "% of W_max",
            Tolerance::Exact,
        )
        .note("the curve grows by 1 % in a round trip where it is steepest: two round trips"),
    );
    let line = |role, name: &str, points| Series {
        name: name.to_owned(),
        draw: Draw::Line,
        role,
        group: 0,
        points,
        spread: Vec::new(),
        ..Series::default()
    };
    let ours = epochs.iter().flat_map(|e| e.ours.iter().copied());
    let ours = ours.map(|(t, w)| (t - begin, w)).collect();
    let mut series = vec![line(Role::Ours, "cwnd", ours)];
    for epoch in &epochs {
        let curve = epoch.ours.iter().map(|&(t, _)| (t - begin, epoch.curve(t)));
        let curve = curve.filter(|(t, _)| *t + begin >= epoch.begin).collect();
        series.push(line(Role::Reference, "W_cubic(t)", curve));
    }
    bench.figure(Figure {
        name: "cubic-window",
        caption: "CUBIC's window at an RTT of 100 ms when each 100,000th packet is lost, and RFC \
                  9438's curve from each W_max."
            .to_owned(),
        chart: Chart {
            title: "CUBIC's window over time".to_owned(),
            x: Axis {
                label: "Time (s)".to_owned(),
                ..Axis::default()
            },
            y: Axis {
                label: "Window (segments)".to_owned(),
                ..Axis::default()
            },
            series,
            ..Chart::default()
        },
    });
    Ok(())
}

/// What lies between two losses.
struct Epoch {
    /// When congestion avoidance began, in seconds.
    begin: f64,
    w_max: f64,
    /// Seconds and segments, from the cut.
    ours: Vec<(f64, f64)>,
}

impl Epoch {
    /// `W_cubic`.
    fn curve(&self, t: f64) -> f64 {
        let k = (self.w_max * (1.0 - BETA) / C).cbrt();
        C * (t - self.begin - k).powi(3) + self.w_max
    }

    /// The greatest distance from the curve, as a share of W_max.
    fn apart(&self) -> f64 {
        let avoiding = self.ours.iter().filter(|(t, _)| *t >= self.begin);
        let apart = avoiding.map(|&(t, w)| (w - self.curve(t)).abs() / self.w_max);
        apart.fold(0.0, f64::max)
    }
}

/// The last whole ones.
fn epochs(found: &Cycles) -> Vec<Epoch> {
    let point = |s: &FlowSample| (s.at.as_nanos() as f64 / 1e9, segments(s.cwnd));
    let cuts = cuts(&found.samples);
    let pairs: Vec<_> = cuts.windows(2).rev().take(SHOWN).collect();
    let epoch = |cut: &&[usize]| {
        let (from, to) = (cut[0], cut[1]);
        let ours: Vec<_> = found.samples[from..to].iter().map(point).collect();
        // Recovery keeps the window where the cut left it.
        let begin = ours.iter().take_while(|(_, w)| *w <= ours[0].1).last();
        Epoch {
            begin: begin.map_or(0.0, |b| b.0),
            w_max: segments(found.samples[from - 1].cwnd),
            ours,
        }
    };
    pairs.iter().rev().map(epoch).collect()
}
