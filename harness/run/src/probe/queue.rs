//! `queue`: how long the queues of ports are.

use super::instrument::{Instrument, View};
use super::kind::Probe;
use super::reading::{Reading, Series};
use super::site::Site;
use crate::invalid::Invalid;
use crate::knob;
use crate::knob::{Choice, Kind, Knob, Knobs};
use crate::metric::Measured;
use crate::net::buffer::Depth;
use crate::net::packet::PortId;
use crate::net::stats::QueueArea;
use crate::sim::time::SimTime;
use narrows::Duration;

/// The queue of ports: its time-weighted mean and its high water after the warm-up, and its course.
///
/// Counted as the port counts, for the mean and the high water; the course has the packet in
/// service, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueProbe {
    /// Which ports.
    pub on: String,
    /// How its course is recorded.
    pub series: Course,
    /// The period, where it is polled.
    pub every: Duration,
}

/// How a queue's course is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Course {
    /// Not at all.
    #[default]
    None,
    /// Each period.
    Polled,
    /// Each change of it.
    Changes,
}

impl Choice for Course {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::None, "none"),
        (Self::Polled, "polled"),
        (Self::Changes, "changes"),
    ];
}

impl Default for QueueProbe {
    fn default() -> Self {
        Self {
            on: "*->h0".to_owned(),
            series: Course::None,
            every: Duration::from_micros(100),
        }
    }
}

impl Knobs for QueueProbe {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { on: "on", "ports", Kind::Ports, "Which ports." },
        knob! { series: "series", "series", Kind::Choice(&["none", "polled", "changes"]),
        "Whether the queue's course is recorded, and how: each period, or each change." },
        knob! { every: "every", "period", Kind::Time { least: 100, most: 1_000_000_000_000_000 },
        "The period, where it is polled." },
    ];
}

impl Probe for QueueProbe {
    #[inline]
    fn clone_box(&self) -> Box<dyn Probe> {
        Box::new(self.clone())
    }

    #[inline] // It runs once.
    fn install(&self, on: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        on.each_port("on", &self.on, |port, name| Watch {
            port,
            name,
            course: self.series,
            every: SimTime::from_duration(self.every),
            next: None,
            rows: Vec::new(),
            at_begin: None,
            began: SimTime::ZERO,
        })
    }
}

#[derive(Debug)]
struct Watch {
    port: PortId,
    name: String,
    course: Course,
    every: SimTime,
    next: Option<SimTime>,
    rows: Vec<Vec<Option<f64>>>,
    at_begin: Option<QueueArea>,
    began: SimTime,
}

impl Watch {
    fn record(&mut self, at: SimTime, depth: Depth) {
        self.rows.push(vec![
            Some(at.as_picos() as f64 / 1e3),
            Some(f64::from(depth.packets)),
            Some(depth.bytes as f64),
        ]);
    }
}

impl Instrument for Watch {
    fn prepare(&mut self, view: &mut View<'_>) {
        view.network.measure_queue(self.port);
    }

    fn begin(&mut self, view: &mut View<'_>) {
        self.at_begin = view.network.queue_area(view.now, self.port);
        self.began = view.now;
        view.network.restart_peak(view.now, self.port);
        match self.course {
            Course::None => {}
            Course::Polled => self.next = Some(view.now),
            Course::Changes => view.network.trace_queue(self.port),
        }
    }

    fn next(&self) -> Option<SimTime> {
        self.next
    }

    fn look(&mut self, view: &mut View<'_>) {
        let depth = view.network.queued(view.now, self.port);
        self.record(view.now, depth);
        self.next = Some(view.now + self.every);
    }

    fn finish(&mut self, view: &mut View<'_>) -> Reading {
        let trace = view.network.take_queue_trace(view.now, self.port);
        if let Some(trace) = trace {
            for (at, depth) in trace.samples() {
                self.record(*at, *depth);
            }
        }
        let stats = view.network.stats(self.port);
        let (max_packets, max_bytes) = (stats.max_packets, stats.max_bytes);
        let end = view.network.queue_area(view.now, self.port);
        let mut values = Vec::new();
        if let (Some(begin), Some(end)) = (&self.at_begin, &end)
            && view.now > self.began
        {
            let milli = end.mean_millipackets_since(begin);
            let bytes = end.mean_bytes_since(begin);
            values.push((
                "mean_packets".to_owned(),
                "packets",
                Measured::Ratio(milli as f64 / 1e3),
            ));
            values.push(("mean_bytes".to_owned(), "bytes", Measured::Count(bytes)));
        }
        values.push((
            "max_packets".to_owned(),
            "packets",
            Measured::Count(max_packets.into()),
        ));
        values.push(("max_bytes".to_owned(), "bytes", Measured::Count(max_bytes)));
        Reading {
            of: self.name.clone(),
            values,
            table: None,
            series: (self.course != Course::None).then(|| Series {
                columns: ["time_ns", "queue_packets", "queue_bytes"]
                    .map(str::to_owned)
                    .to_vec(),
                rows: std::mem::take(&mut self.rows),
            }),
        }
    }
}
