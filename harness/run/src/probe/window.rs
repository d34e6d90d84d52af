//! `window`: what lowers the congestion windows of senders, and what becomes of them in a round trip.

use super::at_host::{AtHost, Flows, flow_name, opener_port};
use super::instrument::{Instrument, Listener, View};
use super::kind::Probe;
use super::reading::{Reading, Series};
use super::site::{Site, check_watched};
use crate::host::{SimPacket, address_of, ipv6_address_of};
use crate::invalid::Invalid;
use crate::knob;
use crate::knob::{Kind, Knob, Knobs};
use crate::metric::Measured;
use crate::net::packet::HostId;
use crate::sim::time::SimTime;
use crate::stats::quantile;
use narrows::congestion::CongestionEvent;
use narrows::endpoint::Tracer;
use narrows::endpoint::demux::FourTuple;
use narrows::trace::{TraceEvent, TraceSink};
use narrows::wire::{Flags, Seq};
use narrows::{ByteCount, Instant};
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The congestion windows of the first flows that hosts send: how often each became smaller, and for
/// what; how often the host's own NIC refused a packet; and by how much a window grew in a round trip in
/// which it did not become smaller (median).
///
/// A round trip begins with a segment and ends with its acknowledgement. A window that becomes smaller at
/// the instant at which the network refuses a segment of the flow does so for the refusal; what the
/// connection says of refusals does not count. The other causes are what it says last before.
///
/// As series the window at the end of each round trip, and each time that it became smaller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowProbe {
    /// Which hosts, as senders.
    pub on: String,
    /// At most so many connections of each host, the first ones.
    pub most: u32,
}

impl Default for WindowProbe {
    fn default() -> Self {
        Self {
            on: "*".to_owned(),
            most: 1,
        }
    }
}

impl Knobs for WindowProbe {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { on: "on", "senders", Kind::Hosts, "Which hosts, as senders." },
        knob! { most: "most", "flows", Kind::Whole { least: 1, most: 1_000 },
        "At most so many connections of each host, the first that send data." },
    ];
}

impl Probe for WindowProbe {
    #[inline]
    fn clone_box(&self) -> Box<dyn Probe> {
        Box::new(self.clone())
    }

    fn install(&self, on: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        let peers = Arc::new(on.names_by_address(on.hosts("on", "*")?));
        let mut all: Vec<Box<dyn Instrument>> = Vec::new();
        for host in on.hosts("on", &self.on)? {
            let seen = Arc::new(Mutex::new(Seen {
                peers: Arc::clone(&peers),
                most: self.most as usize,
                measures: false,
                flows: Vec::new(),
            }));
            for nth in 0..self.most as usize {
                let seen = Shared(Arc::clone(&seen));
                all.push(Box::new(Watch { host, seen, nth }));
            }
            check_watched(all.len())?;
        }
        Ok(all)
    }
}

/// Why a window becomes smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The host's own NIC refused a segment.
    Refusal,
    Loss,
    Timeout,
    Mark,
    /// Sending resumes after an idle time.
    Idle,
    /// Nothing that the connection tells: the end of a recovery, say.
    Other,
}

impl Cause {
    /// How readings name how often it was so, in order.
    const NAMES: [&str; 6] = [
        "falls.refusal",
        "falls.loss",
        "falls.timeout",
        "falls.mark",
        "falls.idle",
        "falls.other",
    ];
}

/// What was seen of a host's flows.
#[derive(Debug)]
struct Seen {
    /// By address of a host, its name.
    peers: Arc<HashMap<IpAddr, String>>,
    most: usize,
    /// The warm-up is over.
    measures: bool,
    flows: Vec<Flow>,
}

#[derive(Debug)]
struct Flow {
    /// As this host names it.
    ends: FourTuple,
    /// Window and threshold, once the connection has told them.
    window: Option<(ByteCount, ByteCount)>,
    /// When its NIC refused a packet of it last.
    refused: Option<Instant>,
    /// What the connection told last, since it told its window.
    told: Option<Cause>,
    round: Round,
    /// Where what was sent ends, and where it did when the window became smaller last.
    sent: Option<Seq>,
    fell_at: Option<Seq>,
    refusals: u64,
    /// By [`Cause`].
    falls: [u64; Cause::NAMES.len()],
    rows: Vec<Row>,
}

/// A round trip.
#[derive(Debug, Default)]
struct Round {
    /// The end of the segment that it began with; `None` until that leaves.
    ends_with: Option<Seq>,
    /// What is acknowledged, if that ended it and the window after that has not been told.
    over: Option<Seq>,
    /// The window when it began; `None` if it became smaller since, or more was under way.
    began: Option<ByteCount>,
}

/// A window, and from where it got there.
#[derive(Clone, Copy, Debug)]
struct Row {
    at: Instant,
    cwnd: ByteCount,
    ssthresh: ByteCount,
    from: Origin,
}

#[derive(Clone, Copy, Debug)]
enum Origin {
    /// It became smaller: from this.
    Fall(ByteCount),
    /// A round trip has ended, which it began with this, if that can be compared.
    Round(Option<ByteCount>),
}

impl Row {
    /// Its window over that of a round trip before.
    fn growth(&self) -> Option<f64> {
        match self.from {
            Origin::Round(Some(before)) if !before.is_zero() => {
                Some(self.cwnd.get() as f64 / before.get() as f64)
            }
            _ => None,
        }
    }
}

impl Flow {
    fn new(ends: FourTuple) -> Self {
        Self {
            ends,
            window: None,
            refused: None,
            told: None,
            round: Round::default(),
            sent: None,
            fell_at: None,
            refusals: 0,
            falls: [0; Cause::NAMES.len()],
            rows: Vec::new(),
        }
    }

    /// The connection tells window and threshold.
    fn tells(&mut self, at: Instant, cwnd: ByteCount, ssthresh: ByteCount, measures: bool) {
        let told = self.told.take();
        let before = self.window.replace((cwnd, ssthresh)).map(|(cwnd, _)| cwnd);
        let mut row = |from| {
            if measures {
                self.rows.push(Row {
                    at,
                    cwnd,
                    ssthresh,
                    from,
                });
            }
        };
        if let Some(before) = before.filter(|before| cwnd < *before) {
            row(Origin::Fall(before));
            (self.round.began, self.fell_at) = (None, self.sent);
            let cause = match told {
                _ if self.refused == Some(at) => Cause::Refusal,
                told => told.unwrap_or(Cause::Other),
            };
            self.falls[cause as usize] += u64::from(measures);
        }
        if let Some(una) = self.round.over.take() {
            row(Origin::Round(self.round.began));
            self.fell_at = self.fell_at.filter(|end| una.before(*end));
            self.round.began = self.fell_at.is_none().then_some(cwnd);
        }
    }
}

impl Seen {
    fn flow(&mut self, ends: &FourTuple) -> Option<&mut Flow> {
        self.flows.iter_mut().find(|flow| flow.ends == *ends)
    }

    /// The flow of a packet that the TCP has given to the NIC; with data it is the first of one, if not
    /// enough are known.
    fn entry(&mut self, ends: FourTuple, packet: &SimPacket) -> Option<&mut Flow> {
        let known = self.flows.iter().position(|flow| flow.ends == ends);
        let nth = match known {
            Some(nth) => nth,
            None if packet.payload_len() > 0 && self.flows.len() < self.most => {
                self.flows.push(Flow::new(ends));
                self.flows.len() - 1
            }
            None => return None,
        };
        self.flows.get_mut(nth)
    }
}

/// What the listeners of a host and its instruments have together.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Seen>>);

impl Shared {
    fn with<R>(&self, look: impl FnOnce(&mut Seen) -> R) -> R {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Flows for Shared {
    fn left(&mut self, _: SimTime, ends: FourTuple, packet: &SimPacket) {
        let (_, tcp, payload) = packet.parts();
        if payload.len == 0 {
            return;
        }
        self.with(|seen| {
            if let Some(flow) = seen.entry(ends, packet) {
                let end = tcp.seq + payload.len;
                flow.round.ends_with.get_or_insert(end);
                if flow.sent.is_none_or(|sent| end.after(sent)) {
                    flow.sent = Some(end);
                }
            }
        });
    }

    fn came(&mut self, _: SimTime, ends: FourTuple, packet: &SimPacket) {
        let (_, tcp, _) = packet.parts();
        if !tcp.flags.contains(Flags::ACK) || !packet.is_intact() {
            return;
        }
        self.with(|seen| {
            if let Some(flow) = seen.flow(&ends)
                && flow
                    .round
                    .ends_with
                    .is_some_and(|end| end.before_eq(tcp.ack))
            {
                flow.round.ends_with = None;
                flow.round.over = Some(tcp.ack);
            }
        });
    }

    fn refused(&mut self, at: SimTime, ends: FourTuple, packet: &SimPacket) {
        self.with(|seen| {
            let measures = seen.measures;
            if let Some(flow) = seen.entry(ends, packet) {
                flow.refused = Some(at.to_instant());
                flow.refusals += u64::from(measures);
            }
        });
    }
}

/// Hears what a connection decides.
struct Heard {
    seen: Shared,
    ends: FourTuple,
}

impl TraceSink for Heard {
    fn event(&mut self, now: Instant, event: &TraceEvent) {
        let told = match event {
            TraceEvent::Window { cwnd, ssthresh, .. } => {
                self.seen.with(|seen| {
                    let measures = seen.measures;
                    if let Some(flow) = seen.flow(&self.ends) {
                        flow.tells(now, *cwnd, *ssthresh, measures);
                    }
                });
                return;
            }
            TraceEvent::Congestion(CongestionEvent::Loss) => Cause::Loss,
            TraceEvent::Congestion(CongestionEvent::EcnEcho) => Cause::Mark,
            TraceEvent::Timeout { .. } => Cause::Timeout,
            TraceEvent::IdleRestart { .. } => Cause::Idle,
            _ => return,
        };
        self.seen.with(|seen| {
            if let Some(flow) = seen.flow(&self.ends) {
                flow.told = Some(told);
            }
        });
    }
}

/// One of the flows of a host.
#[derive(Debug)]
struct Watch {
    host: HostId,
    seen: Shared,
    nth: usize,
}

impl Instrument for Watch {
    fn tracer(&self) -> Option<Tracer> {
        if self.nth > 0 {
            return None;
        }
        let seen = self.seen.clone();
        let own = [address_of(self.host), ipv6_address_of(self.host)];
        Some(Box::new(move |_, _, ends| {
            own.contains(&ends.local.ip()).then(|| {
                let (seen, ends) = (seen.clone(), *ends);
                Box::new(Heard { seen, ends }) as Box<dyn TraceSink>
            })
        }))
    }

    fn listener(&self) -> Option<Listener> {
        (self.nth == 0).then(|| {
            let (host, flows) = (self.host, self.seen.clone());
            Rc::new(RefCell::new(AtHost { host, flows })) as Listener
        })
    }

    fn begin(&mut self, _: &mut View<'_>) {
        self.seen.with(|seen| seen.measures = true);
    }

    fn next(&self) -> Option<SimTime> {
        None
    }

    fn look(&mut self, _: &mut View<'_>) {}

    fn finish(&mut self, _: &mut View<'_>) -> Reading {
        self.seen.with(|seen| {
            let name = |ip: IpAddr| seen.peers.get(&ip).cloned().unwrap_or_default();
            let Some(flow) = seen.flows.get(self.nth) else {
                return Reading::default();
            };
            let (from, to) = (name(flow.ends.local.ip()), name(flow.ends.remote.ip()));
            Reading {
                of: flow_name(&from, &to, opener_port(&flow.ends)),
                values: values(flow),
                table: None,
                series: Some(series(&flow.rows)),
            }
        })
    }
}

fn values(flow: &Flow) -> Vec<(String, &'static str, Measured)> {
    let count = |name: &str, n| (name.to_owned(), "", Measured::Count(n));
    let falls = Cause::NAMES.into_iter().zip(flow.falls);
    let mut values = vec![
        count("refusals", flow.refusals),
        count("falls", flow.falls.iter().sum()),
    ];
    values.extend(falls.map(|(name, n)| count(name, n)));
    let mut growth: Vec<f64> = flow.rows.iter().filter_map(Row::growth).collect();
    growth.sort_by(f64::total_cmp);
    let median = quantile(&growth, 500).map(Measured::Ratio);
    values.extend(median.map(|growth| ("growth".to_owned(), "", growth)));
    values
}

fn series(rows: &[Row]) -> Series {
    let row = |row: &Row| {
        let bytes = |b: ByteCount| (b != ByteCount::MAX).then_some(b.get() as f64);
        let fell = match row.from {
            Origin::Fall(from) => bytes(from),
            Origin::Round(_) => None,
        };
        vec![
            Some(row.at.as_nanos() as f64),
            bytes(row.cwnd),
            bytes(row.ssthresh),
            fell,
            row.growth(),
        ]
    };
    let columns = [
        "time_ns",
        "cwnd_bytes",
        "ssthresh_bytes",
        "fell_from_bytes",
        "growth",
    ];
    Series {
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::at_host::testing::segment;

    const MS: u64 = 1_000_000;

    /// Of a host of which one flow is watched.
    fn seen() -> Shared {
        Shared(Arc::new(Mutex::new(Seen {
            peers: Arc::default(),
            most: 1,
            measures: true,
            flows: Vec::new(),
        })))
    }

    /// A host with one flow, what its connection says (in ms, the window after it) and the instants of
    /// refusals: the falls by cause.
    fn falls(refused: &[u64], said: &[(u64, Option<TraceEvent>, u64)]) -> Vec<(&'static str, u64)> {
        let packet = segment(Flags::ACK, 0, 100);
        let ends = packet.for_sender();
        let mut seen = seen();
        seen.left(SimTime::ZERO, ends, &packet);
        let mut heard = Heard {
            seen: seen.clone(),
            ends,
        };
        for (ms, event, cwnd) in said {
            let at = Instant::from_nanos(ms * MS);
            if refused.contains(ms) {
                seen.refused(SimTime::from_nanos(ms * MS), ends, &packet);
            }
            if let Some(event) = event {
                heard.event(at, event);
            }
            seen.with(|seen| {
                let flow = seen.flow(&ends).unwrap();
                flow.tells(at, ByteCount::new(*cwnd), ByteCount::MAX, true);
            });
        }
        let falls = seen.with(|seen| seen.flows[0].falls);
        let all = Cause::NAMES.into_iter().zip(falls);
        all.filter(|(_, n)| *n > 0).collect()
    }

    /// A fall is a refusal's at the instant at which the network refuses, whatever the connection says of
    /// refusals; else it is what the connection said, once, and without that nothing's.
    #[test]
    fn a_refusal_is_what_the_network_refuses() {
        let refusal = || Some(TraceEvent::Congestion(CongestionEvent::LocalDrop));
        let loss = || Some(TraceEvent::Congestion(CongestionEvent::Loss));
        let falls_after = |refused: &[u64], event| {
            falls(refused, &[(0, None, 90), (1, event, 40), (2, None, 20)])
        };
        let other = ("falls.other", 1);
        assert_eq!(falls_after(&[1], loss()), [("falls.refusal", 1), other]);
        assert_eq!(falls_after(&[0], refusal()), [("falls.other", 2)]);
        assert_eq!(falls_after(&[], loss()), [("falls.loss", 1), other]);
        let idle = Some(TraceEvent::IdleRestart {
            idle: narrows::Duration::from_millis(1),
        });
        assert_eq!(falls_after(&[], idle), [("falls.idle", 1), other]);
        // What grows does not fall.
        assert_eq!(
            falls(&[1], &[(0, None, 10), (1, loss(), 10), (2, None, 20)]),
            []
        );
    }

    /// A flow begins with data, whether the NIC takes it or not, and as many are watched as were asked for.
    #[test]
    fn a_refusal_of_the_first_segment_counts() {
        let mut seen = seen();
        let mut refused = |packet: &SimPacket| {
            seen.refused(SimTime::ZERO, packet.for_sender(), packet);
            seen.with(|seen| seen.flows.first().map(|flow| flow.refusals))
        };
        let first = segment(Flags::ACK, 0, 100);
        assert_eq!(refused(&segment(Flags::SYN, 0, 0)), None);
        assert_eq!(refused(&first), Some(1));
        assert_eq!(refused(&first), Some(2));
        let other = FourTuple {
            local: first.for_sender().remote,
            remote: first.for_sender().local,
        };
        seen.refused(SimTime::ZERO, other, &first);
        seen.with(|seen| assert_eq!((seen.flows.len(), seen.flows[0].refusals), (1, 2)));
    }
}
