//! How flows share a link: CUBIC with Reno, and a newcomer with who was there.

use super::pair;
use crate::flows::{FlowSample, Flows, FlowsRun, Record};
use crate::set_up::{fast_edges, long_lived, put, seeded};
use crate::{Bench, Expected, Figure, Measured, Row, Tolerance};
use narrows::{ByteCount, Duration, Rate};
use narrows_experiment::model::Experiment;
use narrows_experiment::scenario::ScenarioError;
use narrows_net::sim::rng::{Component, Stream};
use narrows_report::chart::{Axis, Chart, Draw, Role, Series};

const SEEDS: u64 = 5;
/// One packet in so many, where losses come by chance.
const LOSS: u64 = 1_000;

/// CUBIC beside Reno where CUBIC is to be Reno's equal.
///
/// Section 4.3 of RFC 9438 chooses alpha so that one rate of loss gives both the same window.
/// Flows that always lose together have windows as alpha / (1 - beta) instead, 1.76 to 2. With a
/// queue of their own making they do something between the two.
pub(super) fn friendly(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    for (rtt_us, mbps, seconds) in [(100, 1_000, 4), (10_000, 50, 80)] {
        let (rtt, rate) = (Duration::from_micros(rtt_us), Rate::from_mbps(mbps));
        let mut queue = long_lived(2, rate, rtt);
        put(&mut queue, "traffic.flow-1.tcp.congestion", "cubic");
        put(&mut queue, "traffic.flow-2.tcp.congestion", "reno");
        put(&mut queue, "host.tcp.loss_detection", "rack");
        let room = (rate.bytes_in(rtt) * 2).max(ByteCount::new(64 << 10));
        put(&mut queue, "network.queue.limit", room);
        // A link so fast that only the losses hold the flows back.
        let mut chance = queue.clone();
        put(&mut chance, "network.link.rate", "100Gb/s");
        let loss = format!("{}%", 100.0 / LOSS as f64);
        put(&mut chance, r#"network.port."s0->h0".link.loss"#, loss);
        chance.run.duration = rtt * 10_000;
        chance.run.warm_up = chance.run.duration / 8;
        // On equal links a flow that has the port to itself fills it without a loss, for ever, and
        // each packet of the other finds it full.
        fast_edges(&mut queue, rate);
        queue.run.duration = Duration::from_secs(seconds);
        queue.run.warm_up = queue.run.duration / 8;
        let name = |what| format!("CUBIC beside Reno, RTT {rtt}, {what}: CUBIC's share of Reno's");
        let within = Tolerance::Relative(0.1);

        let ours = share(bench, &chance)?;
        let what = name("one packet in 1000 lost at random");
        for (source, reference) in [
            ("RFC 9438, section 4.3", 1.0),
            (
                "the rules of RFC 9438 section 4.3 and RFC 5681 under random loss, drawn",
                drawn(ALPHA, BETA) / drawn(1.0, 0.5),
            ),
        ] {
            let (theirs, ours) = (Expected::Value(reference), ours.measured());
            bench.row(
                Row::new(&what, source, theirs, ours, "", within)
                    .explained("cubic-beside-reno-in-a-drop-tail-queue"),
            );
        }

        let ours = share(bench, &queue)?;
        let what = name("drop-tail queue");
        let together = (ALPHA / (1.0 - BETA)) / (1.0 / (1.0 - 0.5));
        let as_they_grow = (1.0 - 0.5) / (1.0 - BETA);
        let row = |source, theirs, within| {
            Row::new(&what, source, theirs, ours.measured(), "", within)
                .note(format!("CUBIC cut {:.2} times as often as Reno", ours.cuts))
        };
        let to_one = Expected::Range(together, 1.0);
        let to_growth = Expected::Range(together, as_they_grow);
        bench.row(
            row("RFC 9438, section 4.3", to_one, within)
                .explained("cubic-beside-reno-in-a-drop-tail-queue"),
        );
        let bounds = "from losing together to losing as one grows: balance of growth and cuts";
        bench.row(row(bounds, to_growth, Tolerance::Exact));
    }
    Ok(())
}

/// alpha_cubic.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// beta_cubic.
const BETA: f64 = 0.7;

/// The mean window of AIMD(alpha, beta) under random loss, in a model of windows alone: each
/// round trip either loses and cuts, or adds alpha; one from where the last cut was made on, as
/// section 4.3 has it. No recovery, no whole segments, no clock.
fn drawn(alpha: f64, beta: f64) -> f64 {
    let mut random = Stream::new(1, Component::Scenario, 0);
    let (mut window, mut prior): (f64, f64) = (30.0, 30.0);
    let (mut packets, mut rounds) = (0.0, 0.0);
    while rounds < 200_000.0 {
        packets += window;
        rounds += 1.0;
        let spared = (1.0 - 1.0 / LOSS as f64).powf(window);
        let draw = random.next_u64() as f64 / 2.0_f64.powi(64);
        if draw > spared {
            prior = window;
            window *= beta;
        } else {
            window += if window < prior { alpha } else { 1.0 };
        }
    }
    packets / rounds
}

/// What CUBIC has of a link beside Reno.
struct Share {
    /// Its goodput over Reno's, for each seed.
    goodput: Vec<f64>,
    /// Its reductions over Reno's, of all seeds.
    cuts: f64,
}

impl Share {
    fn measured(&self) -> Measured {
        Measured::spread(&self.goodput)
    }
}

/// Runs `spec`, whose first flow is CUBIC and whose second is Reno.
fn share(bench: &Bench<'_>, spec: &Experiment) -> Result<Share, ScenarioError> {
    let mut goodput = Vec::new();
    let mut cuts = [0, 0];
    for seed in 1..=SEEDS {
        let run = bench.flows(&Flows::new(seeded(spec, seed)))?;
        let [a, b] = [0, 1].map(|i| run.flows[i].goodput.bits_per_sec() as f64);
        goodput.push(a / b);
        for (sum, flow) in cuts.iter_mut().zip(&run.flows) {
            *sum += flow.at_end.fast_recoveries + flow.at_end.timeouts;
        }
    }
    let cuts = cuts[0] as f64 / cuts[1] as f64;
    Ok(Share { goodput, cuts })
}

/// Two flows of one kind, the second 10 s late: they end up equal.
pub(super) fn convergence(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let (rate, rtt) = (Rate::from_mbps(100), Duration::from_millis(20));
    let mut series = Vec::new();
    for (group, (congestion, name, source)) in [
        ("cubic", "CUBIC", "RFC 9438, section 5.6"),
        (
            "reno",
            "Reno",
            "Chiu and Jain, 1989: additive increase, multiplicative decrease",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let mut flows = long_lived(2, rate, rtt);
        put(&mut flows, "host.tcp.congestion", congestion);
        put(&mut flows, "network.queue.limit", rate.bytes_in(rtt));
        fast_edges(&mut flows, rate);
        flows.run.duration = Duration::from_secs(100);
        flows.run.warm_up = Duration::from_secs(60);
        let (mut indices, mut shares) = (Vec::new(), Vec::new());
        for seed in 1..=SEEDS {
            // Another phase of the first flow for each seed.
            flows.traffic[1].start = Duration::from_millis(10_000 + 137 * (seed - 1));
            let run = bench.flows(&Flows {
                record: Record {
                    samples: Some(Duration::from_secs(1)),
                    queue: false,
                },
                ..Flows::new(seeded(&flows, seed))
            })?;
            let goodput = |i: usize| run.flows[i].goodput.bits_per_sec() as f64;
            indices.push(fairness(&[goodput(0), goodput(1)]));
            shares.push(100.0 * goodput(1) / (goodput(0) + goodput(1)));
            if seed == 1 {
                series.extend((0..2).map(|flow| rates(&run, flow, group, name)));
            }
        }
        bench.row(Row::new(
            format!("{name}, two flows, 100 Mb/s, RTT 20 ms: Jain's index after 50 s together"),
            source,
            Expected::AtLeast(0.95),
            Measured::spread(&indices),
            "",
            Tolerance::Exact,
        ));
        if congestion == "cubic" {
            let drawn: Vec<f64> = (1..=20).map(|i| pair::share(pair::Loser::One(i))).collect();
            let low = drawn.iter().copied().fold(f64::INFINITY, f64::min);
            let high = drawn.iter().copied().fold(0.0, f64::max);
            bench.row(
                Row::new(
                    "CUBIC, two flows, 100 Mb/s, RTT 20 ms: share of the second in the last 40 s",
                    "the rules of RFC 9438 drawn, with one loser at each overflow",
                    Expected::Range(low, high),
                    Measured::spread(&shares),
                    "%",
                    Tolerance::Exact,
                )
                .note(format!(
                    "{:.1} % where both always lose together",
                    pair::share(pair::Loser::Both)
                ))
                .explained("two-cubic-flows"),
            );
        }
    }
    bench.figure(Figure {
        name: "convergence",
        caption: "Goodput of two flows over one drop-tail port of 100 Mb/s with a buffer of one \
                  bandwidth-delay product; the second starts 10 s late."
            .to_owned(),
        chart: Chart {
            title: "Two flows converge".to_owned(),
            x: Axis {
                label: "Time (s)".to_owned(),
                ..Axis::default()
            },
            y: Axis {
                label: "Goodput (Mb/s)".to_owned(),
                ..Axis::default()
            },
            series,
            ..Chart::default()
        },
    });
    Ok(())
}

/// Jain's index: 1 if all are equal, 1/n if one has everything.
fn fairness(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// Goodput over time, in spans of two seconds.
fn rates(run: &FlowsRun, flow: usize, group: usize, name: &str) -> Series {
    let samples: Vec<_> = run.flows[flow].samples.iter().step_by(2).collect();
    let rate = |pair: &[&FlowSample]| {
        let bytes = pair[1].delivered - pair[0].delivered;
        let span = pair[1].at.since(pair[0].at).as_nanos() as f64;
        let middle = pair[0].at.as_nanos() as f64 + span / 2.0;
        (middle / 1e9, bytes.get() as f64 * 8e3 / span)
    };
    Series {
        name: format!("{name}, {} flow", ["first", "second"][flow]),
        draw: Draw::Line,
        role: Role::Ours,
        group,
        points: samples.windows(2).map(rate).collect(),
        spread: Vec::new(),
        ..Series::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index() {
        assert_eq!(fairness(&[3.0, 3.0]), 1.0);
        assert_eq!(fairness(&[1.0, 0.0, 0.0, 0.0]), 0.25);
    }
}
