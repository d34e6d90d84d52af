//! `window`: what lowers the congestion windows of senders, and what becomes of them in a round trip.

use super::at_host::flow_name;
use super::instrument::{Instrument, Listener, PacketListener, View};
use super::kind::Probe;
use super::reading::{Reading, Series};
use super::site::{Site, check_watched};
use crate::host::{SimPacket, address_of, ipv6_address_of};
use crate::invalid::Invalid;
use crate::knob;
use crate::knob::{Kind, Knob, Knobs};
use crate::metric::measured::Measured;
use crate::net::packet::HostId;
use crate::sim::tap::TapEvent;
use crate::sim::time::SimTime;
use crate::stats::nearest_rank;
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
    fn clone_box(&self) -> Box<dyn Probe> {
        Box::new(self.clone())
    }

    fn install(&self, on: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        let peers = Arc::new(on.names_by_address(on.hosts("on", "*")?));
        let mut all: Vec<Box<dyn Instrument>> = Vec::new();
        for host in on.hosts("on", &self.on)? {
            let seen = Arc::new(Mutex::new(Seen {
                host,
                peers: Arc::clone(&peers),
                most: self.most as usize,
                measures: false,
                flows: Vec::new(),
            }));
            for nth in 0..self.most as usize {
                let seen = Shared(Arc::clone(&seen));
                all.push(Box::new(Watch { seen, nth }));
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
    const ALL: [(Self, &'static str); 6] = [
        (Self::Refusal, "falls.refusal"),
        (Self::Loss, "falls.loss"),
        (Self::Timeout, "falls.timeout"),
        (Self::Mark, "falls.mark"),
        (Self::Idle, "falls.idle"),
        (Self::Other, "falls.other"),
    ];
}

/// What was seen of a host's flows.
#[derive(Debug)]
struct Seen {
    host: HostId,
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
    answers: Option<Cause>,
    round: Round,
    /// Where what was sent ends, and where it did when the window became smaller last.
    sent: Option<Seq>,
    fell_at: Option<Seq>,
    refusals: u64,
    /// In the order of [`Cause::ALL`].
    falls: [u64; Cause::ALL.len()],
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
            answers: None,
            round: Round::default(),
            sent: None,
            fell_at: None,
            refusals: 0,
            falls: [0; Cause::ALL.len()],
            rows: Vec::new(),
        }
    }

    /// The connection tells window and threshold.
    fn tells(&mut self, at: Instant, cwnd: ByteCount, ssthresh: ByteCount, measures: bool) {
        let answers = self.answers.take();
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
            let cause = match answers {
                _ if self.refused == Some(at) => Cause::Refusal,
                told => told.unwrap_or(Cause::Other),
            };
            let place = Cause::ALL.iter().position(|(known, _)| *known == cause);
            if let Some(count) = place.and_then(|n| self.falls.get_mut(n))
                && measures
            {
                *count += 1;
            }
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

    /// The TCP has given it to the NIC.
    fn left(&mut self, ends: FourTuple, packet: &SimPacket) {
        let (_, tcp, payload) = packet.parts();
        if payload.len == 0 {
            return;
        }
        if self.flow(&ends).is_none() && self.flows.len() < self.most {
            self.flows.push(Flow::new(ends));
        }
        if let Some(flow) = self.flow(&ends) {
            let end = tcp.seq + payload.len;
            flow.round.ends_with.get_or_insert(end);
            if flow.sent.is_none_or(|sent| end.after(sent)) {
                flow.sent = Some(end);
            }
        }
    }

    /// The TCP gets it.
    fn comes(&mut self, ends: &FourTuple, packet: &SimPacket) {
        let (_, tcp, _) = packet.parts();
        if !tcp.flags.contains(Flags::ACK) || !packet.is_intact() {
            return;
        }
        if let Some(flow) = self.flow(ends)
            && flow
                .round
                .ends_with
                .is_some_and(|end| end.before_eq(tcp.ack))
        {
            flow.round.ends_with = None;
            flow.round.over = Some(tcp.ack);
        }
    }

    fn refused(&mut self, at: Instant, ends: &FourTuple) {
        let measures = self.measures;
        if let Some(flow) = self.flow(ends) {
            flow.refused = Some(at);
            flow.refusals += u64::from(measures);
        }
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

impl PacketListener for Shared {
    fn packet(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket) {
        self.with(|seen| {
            let (TapEvent::NicSent { host, .. }
            | TapEvent::NicRefused { host }
            | TapEvent::Received { host }) = event
            else {
                return;
            };
            if host != seen.host {
                return;
            }
            let there = packet.for_receiver();
            let here = FourTuple {
                local: there.remote,
                remote: there.local,
            };
            match event {
                TapEvent::NicSent { .. } => seen.left(here, packet),
                TapEvent::NicRefused { .. } => seen.refused(at.to_instant(), &here),
                _ => seen.comes(&there, packet),
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
        let answers = match event {
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
                flow.answers = Some(answers);
            }
        });
    }
}

/// One of the flows of a host.
#[derive(Debug)]
struct Watch {
    seen: Shared,
    nth: usize,
}

impl Instrument for Watch {
    fn tracer(&self) -> Option<Tracer> {
        if self.nth > 0 {
            return None;
        }
        let seen = self.seen.clone();
        let host = seen.with(|seen| seen.host);
        let own = [address_of(host), ipv6_address_of(host)];
        Some(Box::new(move |_, _, ends| {
            own.contains(&ends.local.ip()).then(|| {
                let (seen, ends) = (seen.clone(), *ends);
                Box::new(Heard { seen, ends }) as Box<dyn TraceSink>
            })
        }))
    }

    fn listener(&self) -> Option<Listener> {
        (self.nth == 0).then(|| Rc::new(RefCell::new(self.seen.clone())) as Listener)
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
                of: flow_name(&from, &to, &flow.ends),
                values: values(flow),
                table: None,
                series: Some(series(&flow.rows)),
            }
        })
    }
}

fn values(flow: &Flow) -> Vec<(String, &'static str, Measured)> {
    let count = |name: &str, n| (name.to_owned(), "", Measured::Count(n));
    let falls = Cause::ALL.iter().zip(flow.falls);
    let mut values = vec![
        count("refusals", flow.refusals),
        count("falls", flow.falls.iter().sum()),
    ];
    values.extend(falls.map(|((_, name), n)| count(name, n)));
    let mut growth: Vec<f64> = flow.rows.iter().filter_map(Row::growth).collect();
    growth.sort_by(f64::total_cmp);
    if let Some(at) = nearest_rank(growth.len(), 500) {
        values.push(("growth".to_owned(), "", Measured::Ratio(growth[at])));
    }
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
    use std::net::{Ipv4Addr, SocketAddr};

    const MS: u64 = 1_000_000;

    /// A host with one flow, what its connection says (in ms, the window after it) and the instants of
    /// refusals: the falls by cause.
    fn falls(refused: &[u64], said: &[(u64, Option<TraceEvent>, u64)]) -> Vec<(&'static str, u64)> {
        let end = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let ends = FourTuple {
            local: end(1),
            remote: end(2),
        };
        let seen = Shared(Arc::new(Mutex::new(Seen {
            host: HostId(0),
            peers: Arc::default(),
            most: 1,
            measures: true,
            flows: vec![Flow::new(ends)],
        })));
        let mut heard = Heard {
            seen: seen.clone(),
            ends,
        };
        for (ms, event, cwnd) in said {
            let at = Instant::from_nanos(ms * MS);
            if refused.contains(ms) {
                seen.with(|seen| seen.refused(at, &ends));
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
        let all = Cause::ALL
            .iter()
            .zip(falls)
            .map(|((_, name), n)| (*name, n));
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
}
