//! ns-3's validation of its CUBIC: one flow over 50 Mb/s, behind a CoDel queue.

use crate::flows::{FlowSample, Flows, FlowsRun, Record};
use crate::reference::Table;
use crate::set_up::{long_lived, put, receiver_rate};
use crate::{Bench, Expected, Figure, Measured, Row, Tolerance};
use narrows::congestion::{
    AckSample, CongestionControl, CongestionEvent, CongestionRegistry, Cubic, CubicConfig,
    FlowStart, FlowView, Needs, SlowStart, Spurious, Variable,
};
use narrows::{ByteCount, Duration, Instant, Rate};
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::ScenarioError;
use narrows_report::chart::{Axis, Chart, Draw, Role, Series};
use std::sync::Arc;

/// Payload of a segment.
const MSS: f64 = 1_448.0;

/// Hosts at 1 Gb/s, a receiver that acknowledges each second segment, a port of 1000 packets.
fn set_up(congestion: &str) -> Flows {
    let (rate, rtt) = (Rate::from_mbps(50), Duration::from_millis(50));
    let mut flow = long_lived(1, Rate::from_gbps(1), rtt);
    receiver_rate(&mut flow, rate);
    flow.host.tcp.congestion = congestion.to_owned();
    for (key, value) in [
        ("host.tcp.rto", "floor:1s"),
        ("host.tcp.delayed_ack", "2/200ms"),
        ("network.link.framing", "none"),
        ("host.nic.overhead", "0ns"),
        ("network.queue.limit", "1000p"),
        ("network.queue.discipline", "codel"),
        ("network.queue.target", "5ms"),
        ("network.queue.interval", "100ms"),
    ] {
        put(&mut flow, key, value);
    }
    flow.run.duration = Duration::from_secs(15);
    Flows {
        record: Record {
            samples: Some(Duration::from_millis(5)),
            queue: false,
        },
        ..Flows::new(flow)
    }
}

fn point(s: &FlowSample) -> (f64, f64) {
    (s.at.as_nanos() as f64 / 1e9, s.cwnd.get() as f64 / MSS)
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(include_str!("../../reference/cubic_ns3.csv"));
    let mut series = Vec::new();
    for (group, (congestion, how)) in [
        (ORIGINAL, "HyStart of 2008"),
        ("cubic", "hybrid slow start"),
        ("cubic:slow-start=hystart", "HyStart++"),
        ("cubic:slow-start=standard", "standard slow start"),
    ]
    .into_iter()
    .enumerate()
    {
        let run = go(bench, &set_up(congestion))?;
        let window: Vec<_> = run.flows[0].samples.iter().map(point).collect();
        for line in table.lines() {
            let number = |column| line.number(column).expect("a number in each cell");
            let (from, to) = (number("from_s"), number("to_s"));
            let span = window.iter().filter(|(t, _)| (from..=to).contains(t));
            let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
            let found = match line.text("quantity") {
                "least" => span.min_by(by),
                _ => span.max_by(by),
            };
            let (at, ours) = found.copied().unwrap_or((f64::NAN, f64::NAN));
            bench.row(
                Row::new(
                    format!(
                        "CUBIC, 50 Mb/s, 50 ms, CoDel, {how}: {} window from {from} to {to} s",
                        line.text("quantity")
                    ),
                    table.source.clone(),
                    Expected::Value(number("window")),
                    Measured::Value(ours),
                    "segments",
                    if group == 0 {
                        Tolerance::Relative(0.1)
                    } else {
                        Tolerance::Shown
                    },
                )
                .note(format!("at {at:.2} s; ns-3's at {} s", number("at_s")))
                .explained("ns-3-and-its-cubic"),
            );
        }
        if group == 0 {
            one_drop_less(bench, &table)?;
        }
        series.push(Series {
            name: format!("narrows, {how}"),
            draw: Draw::Line,
            role: Role::Ours,
            group,
            points: window,
            spread: Vec::new(),
            ..Series::default()
        });
    }
    let theirs = table
        .lines()
        .filter_map(|l| Some((l.number("at_s")?, l.number("window")?)));
    series.push(Series {
        name: "ns-3, extremes".to_owned(),
        draw: Draw::Markers,
        role: Role::Reference,
        group: 4,
        points: theirs.collect(),
        spread: Vec::new(),
        ..Series::default()
    });
    bench.figure(Figure {
        name: "cubic-codel",
        caption: "CUBIC's window at 50 Mb/s and 50 ms behind a CoDel queue, as in ns-3's \
                  validation."
            .to_owned(),
        chart: Chart {
            title: "CUBIC's window behind CoDel".to_owned(),
            x: Axis {
                label: "Time since the flow began (s)".to_owned(),
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

/// The last of CoDel's first drops falls where the wait is a hair above the target: the fall of
/// the window without it.
fn one_drop_less(bench: &mut Bench<'_>, table: &Table) -> Result<(), ScenarioError> {
    let mut spec = set_up(ORIGINAL);
    put(&mut spec.experiment, "network.queue.target", "6ms");
    let run = go(bench, &spec)?;
    for line in table.lines().filter(|l| l.text("quantity") == "least") {
        let number = |column| line.number(column).expect("a number in each cell");
        let span = number("from_s")..=number("to_s");
        let window = run.flows[0].samples.iter().map(point);
        let found = window
            .filter(|(t, _)| span.contains(t))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let (at, ours) = found.unwrap_or((f64::NAN, f64::NAN));
        bench.row(
            Row::new(
                "CUBIC, 50 Mb/s, 50 ms, CoDel with a target of 6 ms, HyStart of 2008: least \
                 window in the same time",
                table.source.clone(),
                Expected::Value(number("window")),
                Measured::Value(ours),
                "segments",
                Tolerance::Relative(0.1),
            )
            .note(format!("at {at:.2} s"))
            .explained("ns-3-and-its-cubic"),
        );
    }
    Ok(())
}

/// The name of [`Original`].
const ORIGINAL: &str = "cubic-hystart-2008";

/// Runs `spec`, where [`ORIGINAL`] is known.
fn go(bench: &Bench<'_>, spec: &Flows) -> Result<FlowsRun, ScenarioError> {
    bench.checkpoint()?;
    let mut registry = CongestionRegistry::standard();
    registry.register(
        ORIGINAL,
        "CUBIC that ends slow start at once",
        |s: &FlowStart| {
            let config = CubicConfig {
                slow_start: SlowStart::STANDARD,
                ..CubicConfig::default()
            };
            Original {
                inner: Cubic::with_config(s, config),
                watch: Some(Train::default()),
            }
        },
    );
    let registry = Registry {
        congestion: Arc::new(registry),
        ..Registry::default()
    };
    spec.run(&registry, bench.context())
}

/// CUBIC with the slow start of ns-3 and of Linux: HyStart (Ha and Rhee, PFLDnet 2008), which
/// ends slow start for good when a round's train of ACKs is longer than the least RTT, or its
/// first ACKs are late by an eighth of it. Our own hybrid slow start follows the authors' later text
/// and today's Linux, where half of the least RTT is enough. HyStart++ grows on at a quarter of the
/// rate for five rounds to see whether that was right.
#[derive(Debug)]
struct Original {
    inner: Cubic,
    /// Until the first loss.
    watch: Option<Train>,
}

/// The ACKs of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Train {
    least: Option<Duration>,
    began: Option<Instant>,
    last: Option<Instant>,
    of_round: Option<Duration>,
    samples: u32,
    ended: bool,
}

impl Train {
    /// Whether slow start is over.
    fn on_ack(&mut self, ack: &AckSample, now: Instant) -> bool {
        if ack.round_start || self.began.is_none() {
            (self.began, self.last) = (Some(now), Some(now));
            (self.of_round, self.samples) = (None, 0);
        }
        if let Some(rtt) = ack.rtt {
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
            if self.samples < 8 {
                self.of_round = Some(self.of_round.map_or(rtt, |least| least.min(rtt)));
                self.samples += 1;
            }
        }
        let (Some(least), Some(began), Some(last)) = (self.least, self.began, self.last) else {
            return self.ended;
        };
        if now.since(last) <= Duration::from_millis(2) {
            self.last = Some(now);
            self.ended |= now.since(began) > least;
        }
        let late = least + (least / 8).max(Duration::from_millis(4));
        self.ended |= self.samples >= 8 && self.of_round.is_some_and(|rtt| rtt > late);
        self.ended
    }
}

impl CongestionControl for Original {
    fn name(&self) -> &'static str {
        ORIGINAL
    }
    fn cwnd(&self) -> ByteCount {
        self.inner.cwnd()
    }
    fn ssthresh(&self) -> ByteCount {
        self.inner.ssthresh()
    }
    fn needs(&self) -> Needs {
        self.inner.needs()
    }
    fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
        let mut flow = *flow;
        let over = self.watch.as_mut().map(|train| train.on_ack(ack, flow.now));
        // The cubic curve around a W_max just reached is flat.
        flow.cwnd_limited &= over != Some(true);
        self.inner.on_ack(ack, &flow);
    }
    fn on_congestion_event(&mut self, event: CongestionEvent, flow: &FlowView<'_>) {
        self.watch = None;
        self.inner.on_congestion_event(event, flow);
    }
    fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>) {
        self.watch = None;
        self.inner.on_rto(consecutive, flow);
    }
    fn on_spurious(&mut self, what: Spurious, flow: &FlowView<'_>) {
        self.inner.on_spurious(what, flow);
    }
    fn variables(&self, show: &mut dyn FnMut(&'static str, Variable)) {
        self.inner.variables(show);
    }
}
