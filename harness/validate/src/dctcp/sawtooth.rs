//! Long flows: the sawtooth of the queue, and the threshold below which the link runs dry.

use super::measure::{Teeth, utilisation};
use super::model::Sawtooth;
use super::senders::{AfterCut, Growth, own_sender};
use super::{go, long_lived};
use crate::flows::{Flows, FlowsRun, Record};
use crate::reference::Table;
use crate::set_up::put;
use crate::{Bench, Expected, Figure, Measured, Row, Tolerance};
use narrows::{Duration, Rate};
use narrows_experiment::scenario::ScenarioError;
use narrows_report::chart::{Axis, Chart, Draw, Role, Rule, RuleAt, Series};

const RTT: Duration = Duration::from_micros(100);
const MODEL: &str = "model of the DCTCP paper, SIGCOMM 2010, section 3.3";
const GROWS_BY_WINDOWS: &str = "dctcp-alpha";

/// Packets as the model has them: 1500 bytes, nothing between.
fn set_up(senders: u32, gbps: u64, k: u32) -> Flows {
    let mut spec = long_lived(senders, Rate::from_gbps(gbps), RTT, k, "dctcp");
    let flows = &mut spec.experiment;
    put(flows, "network.link.framing", "none");
    put(flows, "host.nic.overhead", "0ns");
    // The paper's sender cuts at once; PRR spreads a cut over a round trip.
    put(flows, "host.tcp.prr", "off");
    flows.run.duration = Duration::from_millis(300);
    flows.run.warm_up = Duration::from_millis(200);
    // Far enough apart that no two begin in step.
    for (i, flow) in flows.traffic.iter_mut().enumerate() {
        flow.start = Duration::from_micros(37) * i as u64;
    }
    spec.record = Record {
        samples: Some(Duration::from_micros(50)),
        queue: true,
    };
    spec
}

fn model(senders: u32, gbps: u64, k: u32) -> Sawtooth {
    Sawtooth {
        bdp: gbps as f64 * 1e9 * 100e-6 / (1_500.0 * 8.0),
        k: f64::from(k),
        n: f64::from(senders),
    }
}

/// N = 1 to 40 at 1 and 10 Gb/s.
pub(super) fn against_the_model(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    for (gbps, k) in [(10, 40), (1, 20)] {
        for n in [1, 2, 5, 20, 40] {
            let spec = set_up(n, gbps, k);
            let run = go(bench, &spec)?;
            rows(
                bench,
                &format!("{gbps} Gb/s, N = {n}"),
                n,
                gbps,
                k,
                &Teeth::of(&spec, &run),
            );
            if gbps == 10 && matches!(n, 2 | 40) {
                bench.figure(queue_figure(&run, model(n, gbps, k)));
            }
        }
    }
    reference_rows(bench)?;
    with_prr(bench)
}

/// What PRR (RFC 9937), which spreads a cut over a round trip, makes of the sawtooth.
fn with_prr(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    for n in [1, 2] {
        let mut spec = set_up(n, 10, 40);
        put(&mut spec.experiment, "host.tcp.prr", "on");
        let ours = Teeth::of(&spec, &go(bench, &spec)?);
        for (what, value, unit) in [
            ("Qmax", ours.max, "packets"),
            ("Qmin", ours.min, "packets"),
            ("alpha", ours.alpha, ""),
        ] {
            bench.row(Row::new(
                format!("10 Gb/s, N = {n}, cuts spread by PRR: {what}"),
                "no reference: narrows and Linux spread cuts, the paper's sender does not",
                Expected::Nothing,
                Measured::Value(value),
                unit,
                Tolerance::Shown,
            ));
        }
    }
    Ok(())
}

fn rows(bench: &mut Bench<'_>, at: &str, n: u32, gbps: u64, k: u32, ours: &Teeth) {
    let model = model(n, gbps, k);
    let row = |what: &str, expected, ours, unit, tolerance| {
        Row::new(
            format!("{at}: {what}"),
            MODEL,
            expected,
            Measured::Value(ours),
            unit,
            tolerance,
        )
        .of_result(result(at, what))
    };
    let value = Expected::Value;
    let two = Tolerance::Absolute(2.0);
    bench.row(row("Qmax", value(model.q_max()), ours.max, "packets", two));
    bench.row(
        row("Qmin", value(model.q_min()), ours.min, "packets", two)
            .note(format!("the middle one of all teeth: {}", ours.middle_min))
            .explained("dctcp-many-flows"),
    );
    bench.row(
        row(
            "alpha",
            value(model.alpha()),
            ours.alpha,
            "",
            Tolerance::Relative(0.1),
        )
        .note(format!(
            "{:.4} in the model without growth in the round of a cut",
            model.alpha_without_growth_in_the_cut()
        ))
        .explained(GROWS_BY_WINDOWS),
    );
    bench.row(
        row(
            "period",
            value(model.period()),
            ours.period_rtts,
            "RTT",
            Tolerance::Relative(0.2),
        )
        .explained(GROWS_BY_WINDOWS),
    );
    bench.row(row(
        "utilisation",
        Expected::AtLeast(100.0),
        ours.utilisation,
        "%",
        Tolerance::Relative(0.01),
    ));
}

/// The values of the reference, and senders that differ from ours in when they grow.
fn reference_rows(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(include_str!("../../reference/dctcp_sawtooth.csv"));
    for line in table.lines() {
        let n = line.whole("n");
        let spec = set_up(n, 10, 40);
        let ours = go(bench, &spec)?;
        let pausing = own_sender(bench, &spec, Growth::EachAck, AfterCut::Pauses)?;
        let stepping = own_sender(bench, &spec, Growth::EachWindow, AfterCut::GrowsOn)?;
        let model = own_sender(bench, &spec, Growth::EachAck, AfterCut::GrowsOn)?;
        let bound = |column| line.number(column).expect("a bound of alpha");
        let alpha = Expected::Range(bound("alpha_low"), bound("alpha_high"));
        // Between ours and the model's sender, each with one of the two differences.
        let senders = [
            ("", ours),
            (", growing on each ACK", pausing),
            (", growing in the round of a cut", stepping),
            (", growing on each ACK and in the round of a cut", model),
        ];
        for (i, (who, run)) in senders.into_iter().enumerate() {
            let teeth = Teeth::of(&spec, &run);
            let row = |what: &str, expected, ours, unit| {
                let row = Row::new(
                    format!("10 Gb/s, N = {n}{who}: {what}"),
                    table.source.clone(),
                    expected,
                    Measured::Value(ours),
                    unit,
                    match (i, unit) {
                        (1 | 2, _) => Tolerance::Shown,
                        (_, "") => Tolerance::Relative(0.1),
                        _ => Tolerance::Absolute(2.0),
                    },
                );
                match who {
                    "" => row.of_result(result(&format!("10 Gb/s, N = {n}"), what)),
                    _ => row,
                }
            };
            bench.row(row("alpha", alpha.clone(), teeth.alpha, "").explained(GROWS_BY_WINDOWS));
            if let Some(q) = line.number("q_max") {
                bench.row(row("Qmax", Expected::Value(q), teeth.max, "packets"));
            }
            if let Some(q) = line.number("q_min") {
                bench.row(row("Qmin", Expected::Value(q), teeth.min, "packets"));
            }
        }
    }
    Ok(())
}

/// What of our sender is held against both the model and the reference.
fn result(at: &str, what: &str) -> String {
    format!("DCTCP sawtooth, {at}: {what}")
}

/// The queue over a few periods.
fn queue_figure(run: &FlowsRun, model: Sawtooth) -> Figure {
    let (name, flows, span, range) = if model.n > 2.0 {
        ("dctcp-queue-many", "40 DCTCP flows", 4.0, (0.0, 90.0))
    } else {
        ("dctcp-queue", "two DCTCP flows", 6.0, (20.0, 50.0))
    };
    let queue = &run.bottleneck.queue;
    // With the shortest queue of the run in the middle.
    let lowest = queue.iter().min_by_key(|q| q.packets);
    let first = queue.first().map_or(0, |q| q.at_picos);
    let half = (span * 1e9 / 2.0) as u64;
    let from = lowest.map_or(first, |q| q.at_picos.saturating_sub(half).max(first));
    let points = queue
        .iter()
        .filter(|q| q.at_picos >= from)
        .map(|q| ((q.at_picos - from) as f64 / 1e9, f64::from(q.packets)))
        .take_while(|(ms, _)| *ms <= span)
        .collect();
    let rule = |at, label: &str| Rule {
        at: RuleAt::Y(at),
        label: label.to_owned(),
    };
    Figure {
        name,
        caption: format!(
            "Queue of {flows} at 10 Gb/s, RTT 100 µs, K = 40 packets, around the shortest of the \
             run; the lines are the longest and the shortest queue of the paper's model."
        ),
        chart: Chart {
            title: format!("Queue length over time of {flows}"),
            x: Axis {
                label: "Time (ms)".to_owned(),
                range: Some((0.0, span)),
                ..Axis::default()
            },
            y: Axis {
                label: "Queue (packets)".to_owned(),
                range: Some(range),
                ..Axis::default()
            },
            series: vec![Series {
                name: "narrows".to_owned(),
                draw: Draw::Steps,
                points,
                ..Series::default()
            }],
            rules: vec![
                rule(model.q_max(), "model: Qmax = K + N"),
                rule(model.q_min(), "model: Qmin"),
            ],
            ..Chart::default()
        },
    }
}

/// Utilisation against K at 10 Gb/s.
pub(super) fn thresholds(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let enough = 10e9 * 100e-6 / 12_000.0 / 7.0;
    let mut series = Vec::new();
    for (group, n) in [1, 2, 3].into_iter().enumerate() {
        let mut points = Vec::new();
        for k in [1, 2, 3, 5, 8, 12, 16, 20, 30, 40, 65] {
            let mut spec = set_up(n, 10, k);
            spec.record = Record::default();
            let ours = utilisation(&go(bench, &spec)?);
            points.push((f64::from(k), ours));
            let row = |expected, tolerance| {
                Row::new(
                    format!("10 Gb/s, N = {n}, K = {k}: utilisation"),
                    "DCTCP paper, SIGCOMM 2010, equation 13: K > C RTT / 7 suffices (11.9 packets)",
                    expected,
                    Measured::Value(ours),
                    "%",
                    tolerance,
                )
            };
            bench.row(if f64::from(k) > enough {
                row(Expected::AtLeast(100.0), Tolerance::Relative(0.01))
            } else {
                row(Expected::Nothing, Tolerance::Shown)
            });
        }
        series.push(Series {
            name: format!("N = {n}"),
            draw: Draw::LineMarkers,
            role: Role::Ours,
            group,
            points,
            spread: Vec::new(),
            ..Series::default()
        });
    }
    bench.figure(Figure {
        name: "dctcp-threshold",
        caption: "Utilisation of a 10 Gb/s link with an RTT of 100 µs against the marking \
                  threshold; the paper's bound is C RTT / 7."
            .to_owned(),
        chart: Chart {
            title: "Utilisation against the marking threshold".to_owned(),
            x: Axis {
                label: "Marking threshold K (packets)".to_owned(),
                ..Axis::default()
            },
            y: Axis {
                label: "Utilisation (%)".to_owned(),
                ..Axis::default()
            },
            series,
            rules: vec![Rule {
                at: RuleAt::X(enough),
                label: "C RTT / 7".to_owned(),
            }],
            ..Chart::default()
        },
    });
    Ok(())
}
