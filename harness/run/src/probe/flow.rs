//! `flow`: what senders know and do, over time.

use super::at_host::flow_name;
use super::instrument::{Instrument, View};
use super::kind::Probe;
use super::reading::{Reading, Series};
use super::site::{Site, check_watched};
use crate::invalid::Invalid;
use crate::knob;
use crate::knob::{Kind, Knob, Knobs};
use crate::metric::Measured;
use crate::net::graph::NodeId;
use crate::net::packet::HostId;
use crate::sim::time::SimTime;
use crate::traffic::{Opened, Opener};
use crate::unknown::unknown;
use narrows::congestion::{CongestionControl, Variable};
use narrows::endpoint::ConnId;
use narrows::{ByteCount, Duration};
use std::cell::RefCell;
use std::rc::Rc;

/// What the senders of some hosts know and do: congestion window, threshold, bytes in flight, RTT,
/// what was acknowledged and at what rate, and the variables of the congestion control, looked at each period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowProbe {
    /// Which hosts, as senders.
    pub on: String,
    /// Of which traffic; of all if `None`.
    pub traffic: Option<String>,
    /// The period.
    pub every: Duration,
    /// At most so many connections of each host, the first ones.
    pub most: u32,
}

impl Default for FlowProbe {
    fn default() -> Self {
        Self {
            on: "*".to_owned(),
            traffic: None,
            every: Duration::from_millis(1),
            most: 4,
        }
    }
}

impl Knobs for FlowProbe {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { on: "on", "senders", Kind::Hosts, "Which hosts, as senders." },
        knob! { traffic: "traffic", "traffic", Kind::Or("off", &Kind::Text("get")),
        "Of which traffic, by its name; off is of all." },
        knob! { every: "every", "period", Kind::Time { least: 1_000, most: 1_000_000_000_000_000 },
        "The period at which they are looked at." },
        knob! { most: "most", "flows", Kind::Whole { least: 1, most: 100_000 },
        "At most so many connections of each host, the first ones." },
    ];
}

impl Probe for FlowProbe {
    #[inline]
    fn clone_box(&self) -> Box<dyn Probe> {
        Box::new(self.clone())
    }

    #[inline] // It runs once.
    fn install(&self, on: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        let traffic = match &self.traffic {
            None => None,
            Some(name) => match on.traffic.iter().position(|t| t == name) {
                Some(number) => Some(number as u16),
                None => {
                    let names = on.traffic.iter().map(String::as_str);
                    return Err(Invalid::new("traffic", unknown("traffic", name, names)));
                }
            },
        };
        let hosts = on.hosts("on", &self.on)?;
        let names: Rc<[String]> = on
            .graph
            .nodes()
            .filter_map(|node| match node {
                NodeId::Host(host) => Some(on.host_name(host)),
                NodeId::Switch(_) => None,
            })
            .collect();
        let mut all: Vec<Box<dyn Instrument>> = Vec::new();
        for host in hosts {
            let taken = Rc::new(RefCell::new(Vec::new()));
            for _ in 0..self.most {
                all.push(Box::new(Watch {
                    host,
                    names: Rc::clone(&names),
                    traffic,
                    taken: Rc::clone(&taken),
                    watched: None,
                    every: SimTime::from_duration(self.every),
                    next: None,
                    variables: Vec::new(),
                    rows: Vec::new(),
                    last: None,
                    of: String::new(),
                }));
            }
            check_watched(all.len())?;
        }
        Ok(all)
    }
}

#[derive(Debug)]
struct Watch {
    host: HostId,
    /// Of all hosts.
    names: Rc<[String]>,
    traffic: Option<u16>,
    /// The host's connections that this one and its like watch.
    taken: Rc<RefCell<Vec<ConnId>>>,
    /// The connection, once one has sent that none of the others watches.
    watched: Option<Opened>,
    every: SimTime,
    next: Option<SimTime>,
    /// What the congestion control shows of its own.
    variables: Vec<&'static str>,
    rows: Vec<Vec<Option<f64>>>,
    /// When it was looked at last, and what was acknowledged by then.
    last: Option<(SimTime, u64)>,
    of: String,
}

impl Watch {
    /// What was acknowledged since the last look, over that time, in bit/s.
    fn rate(&mut self, now: SimTime, acked: u64) -> Option<f64> {
        let (then, before) = self.last.replace((now, acked))?;
        let picos = now.as_picos().saturating_sub(then.as_picos());
        (picos > 0).then(|| (acked.saturating_sub(before) * 8) as f64 / (picos as f64 / 1e12))
    }
}

const COLUMNS: [&str; 10] = [
    "time_ns",
    "cwnd_bytes",
    "ssthresh_bytes",
    "in_flight_bytes",
    "srtt_ns",
    "rto_ns",
    "acked_bytes",
    "sent_bytes",
    "timeouts",
    "goodput_bit_per_s",
];

impl Instrument for Watch {
    fn begin(&mut self, view: &mut View<'_>) {
        self.next = Some(view.now);
    }

    fn next(&self) -> Option<SimTime> {
        self.next
    }

    fn look(&mut self, view: &mut View<'_>) {
        self.next = Some(view.now + self.every);
        let host = &view.hosts[self.host.index()];
        let opened = match self.watched {
            Some(opened) => opened,
            None => {
                let sends = |o: &Opened| {
                    let conn = host.tcp().connection(o.conn);
                    conn.is_some_and(|c| c.sender_stats().segments > 0)
                };
                let mut taken = self.taken.borrow_mut();
                let mut all = host.app.opened().iter();
                let found = all.find(|o| {
                    self.traffic.is_none_or(|t| t == o.traffic)
                        && sends(o)
                        && !taken.contains(&o.conn)
                });
                let Some(found) = found else {
                    return;
                };
                taken.push(found.conn);
                *self.watched.insert(*found)
            }
        };
        let Some(conn) = host.tcp().connection(opened.conn) else {
            return;
        };
        if self.of.is_empty() {
            let port = match opened.opener {
                Opener::Here => conn.local().port(),
                Opener::There => conn.remote().port(),
            };
            let (from, to) = (
                &self.names[self.host.index()],
                &self.names[opened.peer.index()],
            );
            self.of = flow_name(from, to, port);
        }
        let sender = conn.sender();
        let ssthresh = sender.congestion().ssthresh();
        let bytes = |b: ByteCount| Some(b.get() as f64);
        let time = |d: Duration| d.as_nanos() as f64;
        let mut row = vec![
            Some(view.now.as_picos() as f64 / 1e3),
            bytes(sender.congestion().cwnd()),
            bytes(ssthresh).filter(|_| ssthresh != ByteCount::MAX),
            bytes(sender.scoreboard().pipe()),
            sender.rtt().srtt().map(time),
            Some(time(sender.current_rto())),
            Some(sender.una() as f64),
            Some(sender.nxt() as f64),
            Some(sender.stats().timeouts as f64),
            self.rate(view.now, sender.una()),
        ];
        let mut variables = Vec::new();
        sender
            .congestion()
            .variables(&mut |name, value| variables.push((name, value)));
        for (name, value) in variables {
            let value = match value {
                Variable::Bytes(b) => b.get() as f64,
                Variable::Time(d) => time(d),
                Variable::Rate(r) => r.bits_per_sec() as f64,
                Variable::Fraction(bits) => bits as f64 / (1_u64 << 32) as f64,
                _ => continue,
            };
            let at = self.variables.iter().position(|known| *known == name);
            let at = at.unwrap_or_else(|| {
                self.variables.push(name);
                self.variables.len() - 1
            });
            row.resize(row.len().max(COLUMNS.len() + at + 1), None);
            row[COLUMNS.len() + at] = Some(value);
        }
        self.rows.push(row);
    }

    fn finish(&mut self, _: &mut View<'_>) -> Reading {
        if self.rows.is_empty() {
            return Reading::default();
        }
        let mut columns: Vec<String> = COLUMNS.map(str::to_owned).to_vec();
        columns.extend(self.variables.iter().map(|name| (*name).to_owned()));
        for row in &mut self.rows {
            row.resize(columns.len(), None);
        }
        let mean = |column: usize| {
            let seen: Vec<f64> = self.rows.iter().filter_map(|row| row[column]).collect();
            (!seen.is_empty()).then(|| seen.iter().sum::<f64>() / seen.len() as f64)
        };
        let means = [
            (1, "mean_cwnd", "bytes"),
            (3, "mean_in_flight", "bytes"),
            (4, "mean_srtt", "ns"),
        ];
        let values = means.into_iter().filter_map(|(column, name, unit)| {
            Some((name.to_owned(), unit, Measured::Ratio(mean(column)?)))
        });
        Reading {
            of: self.of.clone(),
            values: values.collect(),
            table: None,
            series: Some(Series {
                columns,
                rows: std::mem::take(&mut self.rows),
            }),
        }
    }
}
