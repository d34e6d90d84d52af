//! `tier`: what the ports from one kind of node to another carried, dropped and marked together.

use super::instrument::{Instrument, View};
use super::kind::Probe;
use super::reading::{Reading, Series};
use super::site::Site;
use crate::invalid::Invalid;
use crate::knob;
use crate::knob::{Kind, Knob, Knobs};
use crate::metric::Measured;
use crate::net::graph::Graph;
use crate::net::link::LinkSpec;
use crate::net::packet::PortId;
use crate::sim::time::SimTime;
use narrows::{ByteCount, Duration};

/// The counters of tiers, which is how fleets are watched: the bits that were offered to all ports
/// from one tier to another, those that were dropped there, the packets that were marked, and how
/// busy the links were, on the mean and in the busiest period.
///
/// A tier is a kind of node (`host`, `leaf`, `spine`). Patterns of ports tell more: `workers->leaf`
/// are the NICs of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierProbe {
    /// Which ports, and how they are put together.
    pub on: Vec<String>,
    /// The period of which the busiest one is told.
    pub every: Duration,
    /// Whether each period is kept.
    pub series: bool,
}

impl Default for TierProbe {
    fn default() -> Self {
        Self {
            on: Vec::new(),
            every: Duration::from_millis(1),
            series: false,
        }
    }
}

impl Knobs for TierProbe {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { on: "on", "ports", Kind::List(&Kind::Ports),
        "Ports that are counted together, a pattern each; none for those from each tier to each other. Left out: which port of them it was, but for the peak." },
        knob! { every: "every", "period", Kind::Time { least: 1_000, most: 1_000_000_000_000_000 },
        "The period whose utilisation is taken: the peak is that of the busiest one." },
        knob! { series: "series", "series", Kind::Switch, "Whether the utilisation of each period is kept." },
    ];
}

impl Probe for TierProbe {
    #[inline]
    fn clone_box(&self) -> Box<dyn Probe> {
        Box::new(self.clone())
    }

    #[inline] // It runs once.
    fn install(&self, on: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        let mut all: Vec<(String, Vec<PortId>)> = Vec::new();
        for pattern in &self.on {
            all.push((pattern.clone(), on.ports("on", pattern)?));
        }
        if self.on.is_empty() {
            for port in on.graph.ports() {
                let Some((from, to)) = on.graph.ends(port) else {
                    continue;
                };
                let name = format!("{}->{}", on.graph.tier(from), on.graph.tier(to));
                match all.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, ports)) => ports.push(port),
                    None => all.push((name, vec![port])),
                }
            }
        }
        let watch = |(name, ports): (String, Vec<PortId>)| -> Box<dyn Instrument> {
            let wires = ports.iter().filter_map(|port| wire(on.graph, *port));
            Box::new(Watch {
                name,
                wires: wires.collect(),
                every: SimTime::from_duration(self.every),
                keep: self.series,
                ports,
                next: None,
                began: SimTime::ZERO,
                first: Sum::default(),
                last: Sum::default(),
                most: 0.0,
                rows: Vec::new(),
            })
        };
        Ok(all.into_iter().map(watch).collect())
    }
}

/// A port's wire.
fn wire(graph: &Graph, port: PortId) -> Option<LinkSpec> {
    let host = graph.host_egress(crate::net::packet::HostId(port.0));
    let link = host.map(|e| &e.link);
    link.or_else(|| graph.switch_egress(port).map(|e| &e.link))
        .cloned()
}

#[derive(Debug)]
struct Watch {
    name: String,
    ports: Vec<PortId>,
    wires: Vec<LinkSpec>,
    every: SimTime,
    keep: bool,
    next: Option<SimTime>,
    began: SimTime,
    first: Sum,
    last: Sum,
    /// The utilisation of the busiest period.
    most: f64,
    rows: Vec<Vec<Option<f64>>>,
}

/// The counters of all ports together.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    packets: u64,
    bytes: u64,
    dropped: u64,
    dropped_bytes: u64,
    marks: u64,
    /// Time in which links carried what has left, in nanoseconds.
    busy: u64,
}

impl Watch {
    fn sum(&self, view: &mut View<'_>) -> Sum {
        let mut sum = Sum::default();
        for (&port, wire) in self.ports.iter().zip(&self.wires) {
            let queued = view.network.queued(view.now, port);
            let stats = view.network.stats(port);
            sum.packets += stats.packets;
            sum.bytes += stats.bytes;
            // What a NIC refuses is not lost.
            if port.0 >= view.network.hosts() {
                sum.dropped += stats.dropped_total();
                sum.dropped_bytes += stats.dropped_bytes;
            }
            sum.marks += stats.marks;
            let packets = stats.packets.saturating_sub(queued.packets.into());
            let bytes = stats.bytes.saturating_sub(queued.bytes);
            let gap = u64::from(wire.framing.wire_len(0));
            let on_wire = ByteCount::new(bytes + packets * gap);
            sum.busy += wire.rate.time_for(on_wire).as_nanos();
        }
        sum
    }

    /// Share of a time in which links were busy.
    fn utilisation(&self, busy: u64, span: SimTime) -> f64 {
        let all = span.as_picos() as f64 / 1e3 * self.ports.len() as f64;
        if all > 0.0 { busy as f64 / all } else { 0.0 }
    }
}

impl Instrument for Watch {
    fn begin(&mut self, view: &mut View<'_>) {
        self.first = self.sum(view);
        self.last = self.first;
        self.began = view.now;
        self.next = Some(view.now + self.every);
    }

    fn next(&self) -> Option<SimTime> {
        self.next
    }

    fn look(&mut self, view: &mut View<'_>) {
        let now = self.sum(view);
        let share = self.utilisation(now.busy.saturating_sub(self.last.busy), self.every);
        self.most = self.most.max(share);
        if self.keep {
            let time = view.now.as_picos() as f64 / 1e3;
            let dropped = now.dropped_bytes.saturating_sub(self.last.dropped_bytes) * 8;
            let row = [time, share, dropped as f64];
            self.rows.push(row.map(Some).to_vec());
        }
        self.last = now;
        self.next = Some(view.now + self.every);
    }

    fn finish(&mut self, view: &mut View<'_>) -> Reading {
        let (end, first) = (self.sum(view), self.first);
        let packets = end.packets.saturating_sub(first.packets);
        let bytes = end.bytes.saturating_sub(first.bytes);
        let dropped = end.dropped - first.dropped;
        let dropped_bytes = end.dropped_bytes - first.dropped_bytes;
        let marks = end.marks - first.marks;
        let span = view.now - self.began;
        let share = |part: u64, of: u64| {
            let share = if of > 0 { part as f64 / of as f64 } else { 0.0 };
            Measured::Ratio(share)
        };
        let busy = self.utilisation(end.busy.saturating_sub(first.busy), span);
        let values: [(&str, &'static str, Measured); 8] = [
            ("utilisation", "", Measured::Ratio(busy)),
            ("peak", "", Measured::Ratio(self.most.max(busy))),
            (
                "offered",
                "bits",
                Measured::Count((bytes + dropped_bytes) * 8),
            ),
            ("dropped_bits", "bits", Measured::Count(dropped_bytes * 8)),
            ("drops", "", Measured::Count(dropped)),
            ("drop_share", "", share(dropped, packets + dropped)),
            ("marks", "", Measured::Count(marks)),
            ("mark_share", "", share(marks, packets)),
        ];
        Reading {
            of: self.name.clone(),
            values: values
                .map(|(name, unit, v)| (name.to_owned(), unit, v))
                .to_vec(),
            table: None,
            series: self.keep.then(|| Series {
                columns: ["time_ns", "utilisation", "dropped_bits"]
                    .map(str::to_owned)
                    .to_vec(),
                rows: std::mem::take(&mut self.rows),
            }),
        }
    }
}
