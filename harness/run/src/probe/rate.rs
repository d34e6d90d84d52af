//! `rate`: a counter of ports as somebody sees it who polls.

use super::instrument::{Instrument, View};
use super::kind::Probe;
use super::reading::{Reading, Series};
use super::site::Site;
use crate::invalid::Invalid;
use crate::knob;
use crate::knob::{Choice, Kind, Knob, Knobs, Quantity};
use crate::metric::Measured;
use crate::net::graph::{Graph, NodeId};
use crate::net::packet::PortId;
use crate::polling::Readings;
use crate::sim::rng::{Component, Stream};
use crate::sim::time::SimTime;
use crate::spec::Share;
use narrows::{Duration, Rate};

/// The rate of a counter of ports, polled at several periods.
///
/// A poller divides what a counter moved by the period that it was told, whenever it really looked:
/// with `late`, each look comes up to that much after its time, and a reading can be above what the
/// line carries, as the readings of real pollers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateProbe {
    /// Which ports.
    pub on: String,
    /// Which counter.
    pub counter: Counter,
    /// The periods.
    pub every: Vec<Duration>,
    /// Each look comes up to this late, at random.
    pub late: Duration,
    /// What a megabit is.
    pub mega: Mega,
    /// A reading above this share of the line's rate is hot, and readings that are hot in a row are
    /// a burst; `None`: bursts are not told.
    pub hot: Option<Share>,
    /// Whether each reading is kept.
    pub series: bool,
}

/// A counter of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counter {
    /// Bits that have left, of frames with header and check sequence.
    #[default]
    Bits,
    /// Packets that have left.
    Packets,
    /// Packets dropped, for whatever reason.
    Drops,
    /// Packets marked.
    Marks,
}

impl Choice for Counter {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Bits, "bits"),
        (Self::Packets, "packets"),
        (Self::Drops, "drops"),
        (Self::Marks, "marks"),
    ];
}

/// What a mega is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mega {
    /// 10^6.
    #[default]
    Decimal,
    /// 2^20, as some shell scripts have it.
    Binary,
}

impl Choice for Mega {
    const ALL: &'static [(Self, &'static str)] = &[(Self::Decimal, "10^6"), (Self::Binary, "2^20")];
}

impl Default for RateProbe {
    fn default() -> Self {
        Self {
            on: "*->h0".to_owned(),
            counter: Counter::Bits,
            every: vec![Duration::from_secs(1)],
            late: Duration::ZERO,
            mega: Mega::Decimal,
            hot: None,
            series: true,
        }
    }
}

impl Knobs for RateProbe {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { on: "on", "ports", Kind::Ports, "Which ports." },
        knob! { counter: "counter", "counter", Kind::Choice(&["bits", "packets", "drops", "marks"]),
        "Which counter: bits or packets that have left, packets dropped or marked." },
        knob! { every: "every", "periods", Kind::List(&Kind::Time { least: 1_000, most: 1_000_000_000_000_000 }),
        "The periods at which it is polled, at once." },
        knob! { late: "late", "lateness", Kind::TIME,
        "Each look comes up to this late, at random, and the reading is divided by the period all the same." },
        knob! { mega: "mega", "mega", Kind::Choice(&["10^6", "2^20"]),
        "What a mega is in the readings: 10^6, or 2^20 as some scripts have it." },
        knob! { hot: "hot", "hot", Kind::Or("off", &Kind::Share),
        "A reading above this share of the line's rate is hot; hot readings in a row are a burst, whose lengths and gaps are told. 50% is what Zhang et al. take (IMC 2017, section 5)." },
        knob! { series: "series", "series", Kind::Switch, "Whether each reading is kept." },
    ];
}

impl Probe for RateProbe {
    #[inline]
    fn clone_box(&self) -> Box<dyn Probe> {
        Box::new(self.clone())
    }

    #[inline] // It runs once.
    fn install(&self, on: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        let late = self.late;
        if let Some(short) = self.every.iter().find(|every| **every <= late) {
            let (late, short) = (
                late.show().unwrap_or_default(),
                short.show().unwrap_or_default(),
            );
            let why =
                format!("{late} is not below the period of {short}: looks would pass each other");
            return Err(Invalid::new("late", why));
        }
        let ports = on.ports("on", &self.on)?;
        let mut all: Vec<Box<dyn Instrument>> = Vec::new();
        for port in ports {
            for (n, &every) in self.every.iter().enumerate() {
                let id = on.number << 48 | (n as u64) << 32 | u64::from(port.0);
                all.push(Box::new(Poller {
                    port,
                    of: on.graph.port_name(port),
                    counter: self.counter,
                    label: every.show().unwrap_or_default(),
                    every: SimTime::from_duration(every),
                    late: SimTime::from_duration(late),
                    random: Stream::new(on.seed, Component::Scenario, u64::MAX ^ id),
                    mega: self.mega,
                    hot: self.hot.zip(line(on.graph, port)),
                    keep: self.series,
                    due: SimTime::ZERO,
                    next: None,
                    last: 0,
                    readings: Vec::new(),
                }));
            }
        }
        Ok(all)
    }
}

/// The rate of the line behind a port.
fn line(graph: &Graph, port: PortId) -> Option<Rate> {
    match graph.ends(port)?.0 {
        NodeId::Host(host) => Some(graph.host_egress(host)?.link.rate),
        NodeId::Switch(_) => Some(graph.switch_egress(port)?.link.rate),
    }
}

#[derive(Debug)]
struct Poller {
    port: PortId,
    of: String,
    counter: Counter,
    label: String,
    every: SimTime,
    late: SimTime,
    random: Stream,
    mega: Mega,
    /// What makes a reading hot: a share of the line's rate.
    hot: Option<(Share, Rate)>,
    keep: bool,
    /// When the next look should be, and when it will be.
    due: SimTime,
    next: Option<SimTime>,
    last: u64,
    /// When each look was, and by how much the counter had moved.
    readings: Vec<(SimTime, u64)>,
}

impl Poller {
    fn count(&self, view: &mut View<'_>) -> u64 {
        let queued = view.network.queued(view.now, self.port);
        let stats = view.network.stats(self.port);
        match self.counter {
            Counter::Bits => (stats.bytes - queued.bytes) * 8,
            Counter::Packets => stats.packets - u64::from(queued.packets),
            Counter::Drops => stats.dropped_total(),
            Counter::Marks => stats.marks,
        }
    }

    fn wait(&mut self) {
        self.due += self.every;
        self.next = Some(self.due + self.random.jitter(self.late));
    }

    /// What a poller makes of so much in a period.
    fn rate(&self, moved: u64) -> f64 {
        let mega = match (self.counter, self.mega) {
            (Counter::Bits, Mega::Binary) => 1e6 / f64::from(1 << 20),
            _ => 1.0,
        };
        moved as f64 * mega * 1e12 / self.every.as_picos() as f64
    }
}

impl Instrument for Poller {
    fn begin(&mut self, view: &mut View<'_>) {
        self.last = self.count(view);
        self.due = view.now;
        self.wait();
    }

    fn next(&self) -> Option<SimTime> {
        self.next
    }

    fn look(&mut self, view: &mut View<'_>) {
        let now = self.count(view);
        self.readings
            .push((view.now, now.saturating_sub(self.last)));
        self.last = now;
        self.wait();
    }

    fn finish(&mut self, _: &mut View<'_>) -> Reading {
        let unit = match self.counter {
            Counter::Bits => "bit/s",
            _ => "1/s",
        };
        let readings = Readings {
            every: self.every.as_picos() / 1_000,
            rates: self
                .readings
                .iter()
                .map(|(_, moved)| self.rate(*moved))
                .collect(),
        };
        let mut values = Vec::new();
        let mut tell = |what: &str, unit: &'static str, value: Option<f64>| {
            let name = format!("{what}.{}", self.label);
            values.extend(value.map(|value| (name, unit, Measured::Ratio(value))));
        };
        if let Some(whole) = readings.whole() {
            let n = readings.rates.len() as f64;
            tell("mean", unit, Some(whole.mean));
            tell("max", unit, Some(whole.max));
            tell("max_over_mean", "", whole.ratio());
            tell("second.max_over_mean", "", readings.median_ratio());
            tell("idle", "", Some(readings.idle() as f64 / n));
            if let (Some((share, line)), Counter::Bits) = (self.hot, self.counter) {
                let above = line.bits_per_sec() as f64 * f64::from(share.0) / 1e9;
                let bursts = readings.bursts(above);
                tell("hot", "", Some(bursts.hot as f64 / n));
                tell("bursts", "", Some(bursts.lengths.len() as f64));
                for (permille, name) in [(500, "p50"), (900, "p90")] {
                    let ns = |ns: u64| ns as f64;
                    tell(
                        &format!("burst.{name}"),
                        "ns",
                        bursts.length(permille).map(ns),
                    );
                    tell(&format!("gap.{name}"), "ns", bursts.gap(permille).map(ns));
                }
            }
        }
        let rows = self
            .readings
            .iter()
            .map(|(at, moved)| vec![Some(at.as_picos() as f64 / 1e3), Some(self.rate(*moved))]);
        Reading {
            of: self.of.clone(),
            table: None,
            series: self.keep.then(|| Series {
                columns: vec![
                    "time_ns".to_owned(),
                    match self.counter {
                        Counter::Bits => format!("rate.{}_bit_per_s", self.label),
                        _ => format!("rate.{}_per_s", self.label),
                    },
                ],
                rows: rows.collect(),
            }),
            values,
        }
    }
}
