//! `rtt`: round-trip times of hosts' segments, as a capture at the sender shows them.

use super::at_host::{AtHost, Flows};
use super::instrument::{Instrument, Listener, View};
use super::kind::Probe;
use super::reading::{Reading, Series};
use super::site::Site;
use crate::host::SimPacket;
use crate::invalid::Invalid;
use crate::knob;
use crate::knob::{Kind, Knob, Knobs};
use crate::metric::Measured;
use crate::net::packet::HostId;
use crate::sim::time::SimTime;
use crate::stats::quantile;
use crate::traffic::listens_on;
use crate::unknown::unknown;
use narrows::Duration;
use narrows::endpoint::demux::FourTuple;
use narrows::wire::{Flags, Seq};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// The round-trip times of the segments that hosts send: from when the TCP gave a segment to the NIC
/// until it got the acknowledgement that covers it, the newest one where several are covered. What was
/// sent twice, and what was sent before it, is not measured (Karn's rule).
///
/// Quantiles of all, and as series one in each period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RttProbe {
    /// Which hosts, as senders.
    pub on: String,
    /// Of which traffic; of all if `None`.
    pub traffic: Option<String>,
    /// One of each of these periods goes into the series.
    pub every: Duration,
}

impl Default for RttProbe {
    fn default() -> Self {
        Self {
            on: "*".to_owned(),
            traffic: None,
            every: Duration::from_micros(100),
        }
    }
}

impl Knobs for RttProbe {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { on: "on", "senders", Kind::Hosts, "Which hosts, as senders." },
        knob! { traffic: "traffic", "traffic", Kind::Or("off", &Kind::Text("get")),
        "Of which traffic, by its name; off is of all." },
        knob! { every: "every", "period", Kind::Time { least: 0, most: 1_000_000_000_000_000 },
        "One time of each of these periods goes into the series; all count for the quantiles." },
    ];
}

impl Probe for RttProbe {
    #[inline]
    fn clone_box(&self) -> Box<dyn Probe> {
        Box::new(self.clone())
    }

    fn install(&self, on: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        let port = match &self.traffic {
            None => None,
            Some(name) => match on.traffic.iter().position(|t| t == name) {
                Some(number) => Some(listens_on(number as u16)),
                None => {
                    let names = on.traffic.iter().map(String::as_str);
                    return Err(Invalid::new("traffic", unknown("traffic", name, names)));
                }
            },
        };
        let instrument = |host: HostId| {
            let of = on.host_name(host);
            let flows = Seen {
                port,
                measures: false,
                flows: HashMap::new(),
                every: SimTime::from_duration(self.every),
                samples: Vec::new(),
            };
            let seen = Rc::new(RefCell::new(AtHost { host, flows }));
            Box::new(Watch { of, seen }) as Box<dyn Instrument>
        };
        let hosts = on.hosts("on", &self.on)?;
        Ok(hosts.into_iter().map(instrument).collect())
    }
}

#[derive(Debug)]
struct Watch {
    of: String,
    seen: Rc<RefCell<AtHost<Seen>>>,
}

/// What was seen of a host's flows.
#[derive(Debug)]
struct Seen {
    /// Of connections with this port at one end.
    port: Option<u16>,
    /// The warm-up is over.
    measures: bool,
    /// By connection, as this host names it. Looked up, never gone through.
    flows: HashMap<FourTuple, Flow>,
    every: SimTime,
    /// When, and how many nanoseconds.
    samples: Vec<(SimTime, u64)>,
}

#[derive(Debug)]
struct Flow {
    /// Where what was sent ends, and what is to be measured: ends and times.
    sent: Seq,
    waiting: VecDeque<(Seq, SimTime)>,
}

impl Seen {
    fn is_of(&self, ends: &FourTuple) -> bool {
        let ports = [ends.local.port(), ends.remote.port()];
        self.port.is_none_or(|port| ports.contains(&port))
    }
}

impl Flows for Seen {
    fn left(&mut self, at: SimTime, ends: FourTuple, packet: &SimPacket) {
        let (_, tcp, payload) = packet.parts();
        if payload.len == 0 || !self.is_of(&ends) {
            return;
        }
        let end = tcp.seq + payload.len;
        let flow = self.flows.entry(ends).or_insert_with(|| Flow {
            sent: tcp.seq,
            waiting: VecDeque::new(),
        });
        if end.after(flow.sent) {
            flow.sent = end;
            flow.waiting.push_back((end, at));
        } else {
            flow.waiting.clear();
        }
    }

    fn came(&mut self, at: SimTime, ends: FourTuple, packet: &SimPacket) {
        let (_, tcp, _) = packet.parts();
        let Some(flow) = self.flows.get_mut(&ends) else {
            return;
        };
        if !tcp.flags.contains(Flags::ACK) || !packet.is_intact() {
            return;
        }
        let mut newest = None;
        while let Some(&(end, sent)) = flow.waiting.front()
            && end.before_eq(tcp.ack)
        {
            newest = Some(sent);
            flow.waiting.pop_front();
        }
        if let Some(sent) = newest.filter(|_| self.measures) {
            self.samples.push((at, (at - sent).as_nanos()));
        }
    }
}

impl Instrument for Watch {
    fn listener(&self) -> Option<Listener> {
        Some(Rc::clone(&self.seen) as Listener)
    }

    fn begin(&mut self, _: &mut View<'_>) {
        self.seen.borrow_mut().flows.measures = true;
    }

    fn next(&self) -> Option<SimTime> {
        None
    }

    fn look(&mut self, _: &mut View<'_>) {}

    fn finish(&mut self, _: &mut View<'_>) -> Reading {
        let seen = &mut self.seen.borrow_mut().flows;
        let mut rows: Vec<Vec<Option<f64>>> = Vec::new();
        let mut next = SimTime::ZERO;
        for &(at, ns) in &seen.samples {
            if at >= next {
                next = at + seen.every;
                rows.push(vec![Some(at.as_picos() as f64 / 1e3), Some(ns as f64)]);
            }
        }
        let samples = std::mem::take(&mut seen.samples).into_iter();
        let mut samples: Vec<u64> = samples.map(|(_, ns)| ns).collect();
        if samples.is_empty() {
            return Reading::default();
        }
        samples.sort_unstable();
        let count = Measured::Count(samples.len() as u64);
        let mut values = vec![("samples".to_owned(), "", count)];
        let quantiles = [
            ("p10", 100),
            ("p25", 250),
            ("p50", 500),
            ("p75", 750),
            ("p90", 900),
            ("p99", 990),
        ];
        for (name, permille) in quantiles {
            let time = quantile(&samples, permille).map(Measured::Count);
            values.extend(time.map(|time| (name.to_owned(), "ns", time)));
        }
        Reading {
            of: self.of.clone(),
            values,
            table: None,
            series: Some(Series {
                columns: ["time_ns", "rtt_ns"].map(str::to_owned).to_vec(),
                rows,
            }),
        }
    }
}
