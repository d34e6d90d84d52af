//! `pause`: for how long pause frames hold ports.

use super::instrument::{Instrument, View};
use super::kind::Probe;
use super::reading::{Reading, Series};
use super::site::Site;
use crate::invalid::Invalid;
use crate::knob;
use crate::knob::{Kind, Knob, Knobs};
use crate::metric::Measured;
use crate::net::packet::PortId;
use crate::net::pause::PauseStats;
use crate::sim::time::SimTime;
use narrows::Duration;

/// The pauses of ports: the share of the time after the warm-up in which each could not begin a frame,
/// and the pause frames that reached it and that it sent; with a period, the paused share of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseProbe {
    /// Which ports.
    pub on: String,
    /// The period of the course, if it is kept.
    pub every: Option<Duration>,
}

impl Default for PauseProbe {
    fn default() -> Self {
        Self {
            on: "*->*".to_owned(),
            every: None,
        }
    }
}

impl Knobs for PauseProbe {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { on: "on", "ports", Kind::Ports, "Which ports." },
        knob! { every: "every", "period", Kind::Or("off", &Kind::Time { least: 1_000, most: 1_000_000_000_000_000 }),
        "Of each period the paused share is kept." },
    ];
}

impl Probe for PauseProbe {
    #[inline]
    fn clone_box(&self) -> Box<dyn Probe> {
        Box::new(self.clone())
    }

    #[inline] // It runs once.
    fn install(&self, on: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        on.each_port("on", &self.on, |port, name| Watch {
            port,
            name,
            every: self.every.map(SimTime::from_duration),
            next: None,
            began: SimTime::ZERO,
            first: PauseStats::default(),
            last: SimTime::ZERO,
            rows: Vec::new(),
        })
    }
}

#[derive(Debug)]
struct Watch {
    port: PortId,
    name: String,
    every: Option<SimTime>,
    next: Option<SimTime>,
    began: SimTime,
    first: PauseStats,
    /// How long it had been paused at the last look.
    last: SimTime,
    rows: Vec<Vec<Option<f64>>>,
}

impl Instrument for Watch {
    fn begin(&mut self, view: &mut View<'_>) {
        self.began = view.now;
        self.first = view.network.pause_stats(view.now, self.port);
        self.last = self.first.paused;
        self.next = self.every.map(|every| view.now + every);
    }

    fn next(&self) -> Option<SimTime> {
        self.next
    }

    fn look(&mut self, view: &mut View<'_>) {
        let Some(every) = self.every else { return };
        let paused = view.network.pause_stats(view.now, self.port).paused;
        let share = (paused - self.last).as_picos() as f64 / every.as_picos() as f64;
        self.rows
            .push(vec![Some(view.now.as_picos() as f64 / 1e3), Some(share)]);
        self.last = paused;
        self.next = Some(view.now + every);
    }

    fn finish(&mut self, view: &mut View<'_>) -> Reading {
        let stats = view.network.pause_stats(view.now, self.port);
        let stats = stats.since(&self.first);
        let mut values = Vec::new();
        let span = view.now - self.began;
        if span > SimTime::ZERO {
            let share = stats.paused.as_picos() as f64 / span.as_picos() as f64;
            values.push(("paused".to_owned(), "", Measured::Ratio(share)));
        }
        for (name, count) in [
            ("received", stats.received),
            ("xoff_sent", stats.xoff_sent),
            ("xon_sent", stats.xon_sent),
        ] {
            values.push((name.to_owned(), "", Measured::Count(count)));
        }
        let most = Measured::Count(stats.max_held);
        values.push(("max_memory".to_owned(), "bytes", most));
        Reading {
            of: self.name.clone(),
            values,
            table: None,
            series: self.every.map(|_| Series {
                columns: ["time_ns", "paused"].map(str::to_owned).to_vec(),
                rows: std::mem::take(&mut self.rows),
            }),
        }
    }
}
