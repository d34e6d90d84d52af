//! The response function: the mean window under a given rate of loss (RFC 9438 section 5.1).

use super::cycles::{Cycles, Lossy};
use crate::reference::Table;
use crate::{Bench, Expected, Figure, Measured, Row, Tolerance};
use narrows::Duration;
use narrows_experiment::scenario::ScenarioError;
use narrows_report::chart::{Axis, Chart, Draw, Role, Scale, Series};

const TABLE: &str = include_str!("../../reference/rfc9438.csv");
/// What a run of `laws/rare` gave: too long for each day.
const RECORDED: &str = include_str!("../../reference/rfc9438_recorded.csv");
/// How far a run of today may be from the recorded one.
const AS_RECORDED: Tolerance = Tolerance::Relative(0.01);
/// Of the law: the model has no time of recovery and no whole segments.
const TOLERANCE: Tolerance = Tolerance::Relative(0.1);

/// Which losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    /// The rarest.
    pub(super) from: f64,
    /// The most frequent.
    pub(super) to: f64,
}

impl Rates {
    fn includes(self, p: f64) -> bool {
        p >= self.from * 0.999 && p <= self.to * 1.001
    }
}

/// An algorithm at an RTT: a line of the figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Law {
    /// Congestion control, as the registry and the table's columns have it.
    pub(super) congestion: &'static str,
    /// RTT in milliseconds.
    pub(super) rtt_ms: u32,
}

/// How many cycles to run where one has so many packets: two thirds of them pass before the
/// window counts as one that has forgotten slow start.
fn cycles(each: u64) -> u64 {
    (2_000_000 / each).clamp(12, 200)
}

/// Rows of `laws` at `rates`, and what was measured as points for a figure.
pub(super) fn rows(
    bench: &mut Bench<'_>,
    laws: &[Law],
    rates: Rates,
) -> Result<Vec<Series>, ScenarioError> {
    let table = Table::parse(TABLE);
    let mut series = Vec::new();
    for (group, law) in laws.iter().enumerate() {
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for line in table.lines().filter(|l| l.whole("rtt_ms") == law.rtt_ms) {
            let (Some(p), Some(window)) = (line.number("p"), line.number(law.congestion)) else {
                continue;
            };
            theirs.push((p, window));
            if !rates.includes(p) {
                continue;
            }
            let each = (1.0 / p).round() as u64;
            let lossy = Lossy {
                congestion: law.congestion,
                rtt: Duration::from_millis(u64::from(law.rtt_ms)),
                each,
                window,
                cycles: cycles(each),
            };
            let found = lossy.run(bench)?;
            ours.push((p, found.mean_window));
            let what = format!("RTT {} ms, p = {p:.0e}", law.rtt_ms);
            bench.row(row(law.congestion, &what, &table.source, window, &found));
            if let Some(then) = recorded(*law, p) {
                bench.row(Row::new(
                    format!("{}, {what}: mean window as recorded", name(law.congestion)),
                    Table::parse(RECORDED).source,
                    Expected::Value(then),
                    Measured::Value(found.mean_window),
                    "segments",
                    AS_RECORDED,
                ));
            }
        }
        for (role, draw, points) in [
            (Role::Reference, Draw::Line, theirs),
            (Role::Ours, Draw::Markers, ours),
        ] {
            series.push(Series {
                name: format!("{}, {} ms", name(law.congestion), law.rtt_ms),
                draw,
                role,
                group,
                points,
                spread: Vec::new(),
                ..Series::default()
            });
        }
    }
    Ok(series)
}

/// The mean window of `law` under losses of probability `p` when it was last run in full.
fn recorded(law: Law, p: f64) -> Option<f64> {
    let table = Table::parse(RECORDED);
    let found = table.lines().find(|l| {
        let at = l.number("p").is_some_and(|q| (q / p - 1.0).abs() < 1e-3);
        at && l.text("congestion") == law.congestion && l.whole("rtt_ms") == law.rtt_ms
    });
    found.and_then(|l| l.number("window"))
}

/// Rows of `laws` at rates rarer than `than` with the windows that were recorded, and these as
/// more points of `series`, which [`rows`] has made.
pub(super) fn recorded_rows(bench: &mut Bench<'_>, laws: &[Law], than: f64, series: &mut [Series]) {
    let table = Table::parse(TABLE);
    for (group, law) in laws.iter().enumerate() {
        for line in table.lines().filter(|l| l.whole("rtt_ms") == law.rtt_ms) {
            let (Some(p), Some(window)) = (line.number("p"), line.number(law.congestion)) else {
                continue;
            };
            if p >= than * 0.999 {
                continue;
            }
            let ours = recorded(*law, p);
            let what = format!("RTT {} ms, p = {p:.0e}", law.rtt_ms);
            bench.row(
                Row::new(
                    format!("{}, {what}: mean window", name(law.congestion)),
                    &table.source,
                    Expected::Value(window),
                    ours.map_or_else(
                        || Measured::Missing("only with --full".to_owned()),
                        Measured::Value,
                    ),
                    "segments",
                    TOLERANCE,
                )
                .note("recorded, not run each time: narrows validate --full --only laws/rare")
                .explained("what-a-recovery-costs-a-small-window"),
            );
            let line = series
                .iter_mut()
                .find(|s| s.group == group && s.role == Role::Ours);
            if let (Some(window), Some(line)) = (ours, line) {
                line.points.push((p, window));
            }
        }
    }
}

/// Reno's law, at an RTT of 100 us.
pub(super) fn law(
    bench: &mut Bench<'_>,
    congestion: &'static str,
    each: u64,
) -> Result<(), ScenarioError> {
    let window = (1.5 * each as f64).sqrt();
    let lossy = Lossy {
        congestion,
        rtt: Duration::from_micros(100),
        each,
        window,
        cycles: cycles(each),
    };
    let found = lossy.run(bench)?;
    let what = format!("RTT 100 µs, p = {:.0e}", 1.0 / each as f64);
    let source = "sqrt(3 / 2p), Mathis et al., CCR 1997; RFC 9438 section 4.3";
    bench.row(row(congestion, &what, source, window, &found));
    Ok(())
}

fn name(congestion: &str) -> &'static str {
    match congestion {
        "reno" => "Reno",
        _ => "CUBIC",
    }
}

fn row(congestion: &str, what: &str, source: &str, window: f64, found: &Cycles) -> Row {
    Row::new(
        format!("{}, {what}: mean window", name(congestion)),
        source,
        Expected::Value(window),
        Measured::Value(found.mean_window),
        "segments",
        TOLERANCE,
    )
    .explained("what-a-recovery-costs-a-small-window")
    .note(format!(
        "{} whole cycles; {} recoveries and {} timeouts in the whole run",
        found.cycles, found.recoveries, found.timeouts
    ))
}

/// The law plot.
pub(super) fn figure(series: Vec<Series>) -> Figure {
    Figure {
        name: "response-functions",
        caption: "Mean window against the rate of loss when each 1/p-th packet is lost: RFC \
                  9438's tables as lines, our sender's as points. At 10 ms CUBIC is Reno from \
                  1e-6 on, and all are from 1e-3 on."
            .to_owned(),
        chart: Chart {
            title: "Mean window against rate of loss".to_owned(),
            x: Axis {
                label: "Loss rate p".to_owned(),
                scale: Scale::Log10,
                ..Axis::default()
            },
            y: Axis {
                label: "Mean window (segments)".to_owned(),
                scale: Scale::Log10,
                ..Axis::default()
            },
            series,
            ..Chart::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_of_rates_in_the_table() {
        for line in Table::parse(RECORDED).lines() {
            let law = Law {
                congestion: line.text("congestion"),
                rtt_ms: line.whole("rtt_ms"),
            };
            let p = line.number("p").unwrap();
            let window = recorded(law, p).unwrap();
            let table = Table::parse(TABLE);
            let theirs = table.lines().find(|l| {
                l.whole("rtt_ms") == law.rtt_ms && (l.number("p").unwrap() / p - 1.0).abs() < 1e-3
            });
            let theirs = theirs.unwrap().number(law.congestion).unwrap();
            assert!((window / theirs - 1.0).abs() < 0.1, "{window} {theirs}");
        }
    }

    #[test]
    fn the_table_has_seven_rates_for_each_law() {
        let table = Table::parse(TABLE);
        for rtt_ms in [10, 100] {
            let lines: Vec<_> = table
                .lines()
                .filter(|l| l.whole("rtt_ms") == rtt_ms)
                .collect();
            assert_eq!(lines.len(), 7);
            for line in lines {
                let reno = line.number("reno").unwrap();
                let law = 1.2 / line.number("p").unwrap().sqrt();
                assert!((reno - law).abs() < 0.5, "{reno} {law}");
                assert!(line.number("cubic").unwrap() >= reno);
            }
        }
    }
}
