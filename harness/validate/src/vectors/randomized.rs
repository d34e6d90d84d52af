//! SIGCOMM 2009: `(RTO + rand(0.5) x RTO) x 2^backoff`.

use super::Run;
use super::peer::{Peer, textbook};
use crate::{Bench, Expected, Figure, Measured, Row, Tolerance};
use narrows::Duration;
use narrows_report::chart::{Axis, Chart, Draw, Role, Series};

const SOURCE: &str = "Vasudevan et al., SIGCOMM 2009, section 6";
/// How many connections draw.
const CONNECTIONS: u64 = 2_000;
/// Of how many timeouts in a row each.
const BACKOFFS: usize = 3;

/// The checks of `vectors/randomised-timeout`.
pub(super) fn run(bench: &mut Bench<'_>) -> Run {
    let draws = draws();
    // Kolmogorov and Smirnov: at the level of 1 %, D of n draws stays below 1.628 / sqrt(n).
    let critical = 1.628 / (CONNECTIONS as f64).sqrt();
    for (backoff, draws) in draws.iter().enumerate() {
        let what = |s: &str| format!("timeout {} in a row: {s}", backoff + 1);
        let (least, most) = (draws[0], draws[draws.len() - 1]);
        let mut row = |what, reference, ours, unit| {
            let ours = Measured::Value(ours);
            bench.row(Row::new(
                what,
                SOURCE,
                reference,
                ours,
                unit,
                Tolerance::Exact,
            ));
        };
        let from_half = Expected::Range(1.0, 1.5);
        let per = "RTO 2^backoff";
        row(what("least of 2000"), from_half.clone(), least, per);
        row(what("greatest of 2000"), from_half, most, per);
        row(
            what("distance from the even distribution (Kolmogorov-Smirnov, 1 % level)"),
            Expected::AtMost(critical),
            distance(draws),
            "",
        );
    }
    bench.figure(figure(&draws));
    Ok(())
}

/// For each backoff, what connections with different seeds waited, in units of the timeout that
/// is not randomised; in ascending order.
fn draws() -> [Vec<f64>; BACKOFFS] {
    let mut draws: [Vec<f64>; BACKOFFS] = Default::default();
    for seed in 0..CONNECTIONS {
        let config = textbook("sack", "fine-randomized");
        let mut peer = Peer::connected(config, seed, Duration::from_micros(100));
        peer.write(1);
        for (backoff, draws) in draws.iter_mut().enumerate() {
            // SRTT 100 us, RTTVAR 50 us.
            let plain = 300_000_u64 << backoff;
            let sent = peer.now;
            let again = peer.timer();
            let waited = again.first().map_or(0, |s| s.0.since(sent).as_nanos());
            draws.push(waited as f64 / plain as f64);
        }
    }
    for draws in &mut draws {
        draws.sort_by(f64::total_cmp);
    }
    draws
}

/// The greatest distance between the distribution of `sorted` and the even one over [1, 1.5).
fn distance(sorted: &[f64]) -> f64 {
    let n = sorted.len() as f64;
    let even = |x: f64| ((x - 1.0) / 0.5).clamp(0.0, 1.0);
    let steps = sorted.iter().enumerate().map(|(i, &x)| {
        let (below, above) = (i as f64 / n, (i + 1) as f64 / n);
        (even(x) - below).abs().max((even(x) - above).abs())
    });
    steps.fold(0.0, f64::max)
}

fn figure(draws: &[Vec<f64>]) -> Figure {
    let ours = draws.iter().enumerate().map(|(backoff, sorted)| {
        let points = sorted.iter().enumerate().step_by(20);
        let share = |(i, x): (usize, &f64)| (*x, (i + 1) as f64 / sorted.len() as f64);
        Series {
            name: format!("timeout {}", backoff + 1),
            draw: Draw::Steps,
            role: Role::Ours,
            group: backoff,
            points: points.map(share).collect(),
            spread: Vec::new(),
            ..Series::default()
        }
    });
    let mut series: Vec<_> = ours.collect();
    series.push(Series {
        name: "even over [1, 1.5)".to_owned(),
        draw: Draw::Line,
        role: Role::Reference,
        group: BACKOFFS,
        points: vec![(1.0, 0.0), (1.5, 1.0)],
        spread: Vec::new(),
        ..Series::default()
    });
    Figure {
        name: "randomised-timeout",
        caption: "The randomised timeout of SIGCOMM 2009 as 2000 connections draw it, for the \
                  first, second and third timeout in a row, beside the even distribution."
            .to_owned(),
        chart: Chart {
            title: "Distribution of the randomised timeout".to_owned(),
            x: Axis {
                label: "Timeout / (RTO × 2^backoff)".to_owned(),
                range: Some((0.95, 1.55)),
                ..Axis::default()
            },
            y: Axis {
                label: "Share of timeouts".to_owned(),
                range: Some((0.0, 1.0)),
                ..Axis::default()
            },
            series,
            ..Chart::default()
        },
    }
}
