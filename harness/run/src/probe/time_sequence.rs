//! `time-sequence`: each segment of chosen flows and each acknowledgement, as its sender sees them.

use super::at_host::{AtHost, Flows, flow_name, opener_port};
use super::instrument::{Instrument, Listener, View};
use super::kind::Probe;
use super::reading::{Reading, Series};
use super::site::{Site, check_watched};
use crate::host::SimPacket;
use crate::invalid::Invalid;
use crate::knob;
use crate::knob::{Kind, Knob, Knobs};
use crate::metric::Measured;
use crate::sim::time::SimTime;
use narrows::Duration;
use narrows::endpoint::demux::FourTuple;
use narrows::wire::{Flags, Seq};
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

/// The time-sequence graph of the first flows that hosts send: what left when (where it ends in the
/// stream), what left again, what was acknowledged, selectively too, and the end of the receiver's
/// window (tcptrace's graph, as numbers).
///
/// Taken between the sender's TCP and its NIC: what the NIC refused is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSequenceProbe {
    /// Which hosts, as senders.
    pub on: String,
    /// To which hosts.
    pub to: String,
    /// At most so many connections of each host, the first ones.
    pub most: u32,
    /// From when on.
    pub from: Duration,
    /// Until when.
    pub until: Option<Duration>,
}

impl Default for TimeSequenceProbe {
    fn default() -> Self {
        Self {
            on: "*".to_owned(),
            to: "*".to_owned(),
            most: 1,
            from: Duration::ZERO,
            until: None,
        }
    }
}

impl Knobs for TimeSequenceProbe {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { on: "on", "senders", Kind::Hosts, "Which hosts, as senders." },
        knob! { to: "to", "receivers", Kind::Hosts, "To which hosts." },
        knob! { most: "most", "flows", Kind::Whole { least: 1, most: 1_000 },
        "At most so many connections of each host, the first that send data." },
        knob! { from: "from", "begin", Kind::TIME, "What leaves and comes before is not recorded." },
        knob! { until: "until", "end", Kind::Or("off", &Kind::TIME),
        "What leaves and comes after is not recorded; off is until the end of the run." },
    ];
}

impl Probe for TimeSequenceProbe {
    #[inline]
    fn clone_box(&self) -> Box<dyn Probe> {
        Box::new(self.clone())
    }

    fn install(&self, on: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        let peers = Rc::new(on.names_by_address(on.hosts("to", &self.to)?));
        let mut all: Vec<Box<dyn Instrument>> = Vec::new();
        for host in on.hosts("on", &self.on)? {
            let flows = Seen {
                name: on.host_name(host),
                peers: Rc::clone(&peers),
                most: self.most as usize,
                from: SimTime::from_duration(self.from),
                until: self.until.map_or(SimTime::MAX, SimTime::from_duration),
                scales: HashMap::new(),
                flows: Vec::new(),
            };
            let seen = Rc::new(RefCell::new(AtHost { host, flows }));
            for nth in 0..self.most as usize {
                let seen = Rc::clone(&seen);
                all.push(Box::new(Watch { seen, nth }));
            }
            check_watched(all.len())?;
        }
        Ok(all)
    }
}

/// One of the flows of a host.
#[derive(Debug)]
struct Watch {
    seen: Rc<RefCell<AtHost<Seen>>>,
    nth: usize,
}

/// What was seen of a host's flows.
#[derive(Debug)]
struct Seen {
    name: String,
    /// By address of a receiver, its name.
    peers: Rc<HashMap<IpAddr, String>>,
    most: usize,
    from: SimTime,
    until: SimTime,
    /// The receiver's window scale by connection, as this host names it: its SYN said it.
    scales: HashMap<FourTuple, u8>,
    flows: Vec<Flow>,
}

#[derive(Debug)]
struct Flow {
    /// As this host names it.
    ends: FourTuple,
    of: String,
    scale: u8,
    /// The sequence number of the first byte.
    first: Seq,
    /// The end of what has been sent.
    sent: u64,
    acked: u64,
    segments: u64,
    again: u64,
    rows: Vec<Row>,
}

/// When, and what: a column and its value.
type Row = (SimTime, Vec<(Column, u64)>);

/// The columns but time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Sent = 1,
    Retransmitted,
    Acked,
    Sacked,
    Window,
}

const COLUMNS: [&str; 6] = [
    "time_ns",
    "sent_bytes",
    "again_bytes",
    "acked_bytes",
    "sacked_bytes",
    "window_bytes",
];

impl Flow {
    /// The offset of a sequence number in the stream: the one nearest to what was sent.
    fn offset(&self, seq: Seq) -> u64 {
        let low = seq.since(self.first);
        let ahead = low.wrapping_sub(self.sent as u32) as i32;
        self.sent.saturating_add_signed(ahead.into())
    }
}

impl Flows for Seen {
    fn left(&mut self, at: SimTime, ends: FourTuple, packet: &SimPacket) {
        let (_, tcp, payload) = packet.parts();
        if payload.len == 0 {
            return;
        }
        let known = self.flows.iter().position(|flow| flow.ends == ends);
        let nth = match (known, self.peers.get(&ends.remote.ip())) {
            (Some(nth), _) => nth,
            (None, Some(peer)) if self.flows.len() < self.most => {
                self.flows.push(Flow {
                    ends,
                    of: flow_name(&self.name, peer, opener_port(&ends)),
                    scale: self.scales.get(&ends).copied().unwrap_or(0),
                    first: tcp.seq + (payload.offset as u32).wrapping_neg(),
                    sent: payload.offset,
                    acked: 0,
                    segments: 0,
                    again: 0,
                    rows: Vec::new(),
                });
                self.flows.len() - 1
            }
            _ => return,
        };
        let within = self.from <= at && at <= self.until;
        let flow = &mut self.flows[nth];
        let end = payload.offset + u64::from(payload.len);
        flow.segments += 1;
        let column = if end > flow.sent {
            flow.sent = end;
            Column::Sent
        } else {
            flow.again += 1;
            Column::Retransmitted
        };
        if within {
            flow.rows.push((at, vec![(column, end)]));
        }
    }

    fn came(&mut self, at: SimTime, ends: FourTuple, packet: &SimPacket) {
        let (_, tcp, _) = packet.parts();
        if tcp.flags.contains(Flags::SYN) {
            if self.flows.len() < self.most {
                let scale = tcp.options.window_scale.unwrap_or(0);
                self.scales.insert(ends, scale);
            }
            return;
        }
        let within = self.from <= at && at <= self.until;
        let Some(flow) = self.flows.iter_mut().find(|flow| flow.ends == ends) else {
            return;
        };
        if !within || !tcp.flags.contains(Flags::ACK) || !packet.is_intact() {
            return;
        }
        let acked = flow.offset(tcp.ack).max(flow.acked);
        flow.acked = acked;
        let window = acked + (u64::from(tcp.window) << flow.scale);
        let mut row = vec![(Column::Acked, acked), (Column::Window, window)];
        let blocks = tcp.options.sack.as_slice().iter();
        row.extend(blocks.map(|block| (Column::Sacked, flow.offset(block.end))));
        flow.rows.push((at, row));
    }
}

impl Instrument for Watch {
    fn listener(&self) -> Option<Listener> {
        (self.nth == 0).then(|| Rc::clone(&self.seen) as Listener)
    }

    fn begin(&mut self, _: &mut View<'_>) {}

    fn next(&self) -> Option<SimTime> {
        None
    }

    fn look(&mut self, _: &mut View<'_>) {}

    fn finish(&mut self, _: &mut View<'_>) -> Reading {
        let seen = &mut self.seen.borrow_mut().flows;
        let Some(flow) = seen.flows.get_mut(self.nth) else {
            return Reading::default();
        };
        let mut rows = Vec::new();
        for (at, values) in std::mem::take(&mut flow.rows) {
            let mut row = vec![None; COLUMNS.len()];
            row[0] = Some(at.as_picos() as f64 / 1e3);
            for (column, value) in values {
                // A second SACK block needs a row of its own.
                let cell = column as usize;
                if row[cell].is_some() {
                    let time = row[0];
                    rows.push(std::mem::replace(&mut row, vec![None; COLUMNS.len()]));
                    row[0] = time;
                }
                row[cell] = Some(value as f64);
            }
            rows.push(row);
        }
        let count = |name: &str, n| (name.to_owned(), "segments", Measured::Count(n));
        Reading {
            of: flow.of.clone(),
            values: vec![count("segments", flow.segments), count("again", flow.again)],
            table: None,
            series: Some(Series {
                columns: COLUMNS.map(str::to_owned).to_vec(),
                rows,
            }),
        }
    }
}
