//! `occupancy`: how often the queue of a port is not empty.

use narrows_experiment::knob;
use narrows_experiment::knob::{Kind, Knob, Knobs};
use narrows_experiment::metric::Measured;
use narrows_experiment::model::Invalid;
use narrows_experiment::narrows::Duration;
use narrows_experiment::net::packet::PortId;
use narrows_experiment::probe::{Instrument, Probe, ProbeKind, Reading, Site, View};
use narrows_experiment::sim::time::SimTime;

pub(crate) fn kind() -> ProbeKind {
    ProbeKind::new::<Occupancy>(
        "occupancy",
        "share of polls that find packets in a port's queue",
    )
}

/// Polls the queues of ports.
#[derive(Clone, Debug)]
pub(crate) struct Occupancy {
    on: String,
    every: Duration,
}

impl Default for Occupancy {
    fn default() -> Self {
        Self {
            on: "*->h0".to_owned(),
            every: Duration::from_micros(50),
        }
    }
}

impl Knobs for Occupancy {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { on: "on", "ports", Kind::Ports, "Which ports." },
        knob! { every: "every", "period", Kind::SPAN, "Time from a poll to the next." },
    ];
}

impl Probe for Occupancy {
    fn clone_box(&self) -> Box<dyn Probe> {
        Box::new(self.clone())
    }

    fn install(&self, on: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        on.each_port("on", &self.on, |port, name| Poll {
            port,
            name,
            every: SimTime::from_duration(self.every),
            next: None,
            polls: 0,
            full: 0,
        })
    }
}

#[derive(Debug)]
struct Poll {
    port: PortId,
    name: String,
    every: SimTime,
    next: Option<SimTime>,
    polls: u64,
    full: u64,
}

impl Instrument for Poll {
    fn begin(&mut self, view: &mut View<'_>) {
        self.next = Some(view.now + self.every);
    }

    fn next(&self) -> Option<SimTime> {
        self.next
    }

    fn look(&mut self, view: &mut View<'_>) {
        self.polls += 1;
        self.full += u64::from(view.network.queued(view.now, self.port).packets > 0);
        self.next = Some(view.now + self.every);
    }

    fn finish(&mut self, _: &mut View<'_>) -> Reading {
        let share = self.full as f64 / self.polls.max(1) as f64;
        Reading {
            of: self.name.clone(),
            values: vec![("share".to_owned(), "", Measured::Ratio(share))],
            series: None,
            table: None,
        }
    }
}
