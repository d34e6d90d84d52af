//! The application of a host: the ends of its flows.

use super::outcome::Transfer;
use super::spec::{FlowsSpec, Load};
use crate::host::{App, SimEndpoint, address_of};
use crate::net::packet::HostId;
use crate::sim::rng::{Component, Stream};
use crate::sim::time::SimTime;
use narrows::config::TcpConfig;
use narrows::conn::Event;
use narrows::endpoint::{ConnId, EndpointEvent, ListenerId};
use narrows::{ByteCount, Instant};
use std::cell::Cell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Flow i listens on this plus i.
const FIRST_PORT: u16 = 5_001;

/// A host.
#[derive(Debug)]
pub(super) struct Host {
    id: HostId,
    pub(super) senders: Vec<Sending>,
    pub(super) receivers: Vec<Receiving>,
    /// By connection index.
    ends: Vec<Option<End>>,
    /// Which flow's end each listener waits for.
    listeners: Vec<(ListenerId, End)>,
    /// Connections still to open, the next one last.
    to_open: Vec<(Instant, End)>,
    jitter: SimTime,
    random: Stream,
    unfinished: Unfinished,
    /// What went wrong, if something did.
    pub(super) broken: Option<Broken>,
}

/// How many flows of the run have something to do: those without end for ever.
#[derive(Clone, Debug)]
pub(super) struct Unfinished(Rc<Cell<usize>>);

impl Unfinished {
    pub(super) fn new(flows: usize) -> Self {
        Self(Rc::new(Cell::new(flows)))
    }

    pub(super) fn any(&self) -> bool {
        self.0.get() > 0
    }

    /// One is done.
    fn finish(&self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Why a run's numbers are not what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// A connection could not be opened, gave up, or was reset.
    Lost,
    /// The TCP delivered a wrong byte.
    Corrupt,
}

/// An end of a flow on this host: an index into `senders` or `receivers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Sender(usize),
    Receiver(usize),
}

/// What is common to both ends of a flow.
#[derive(Debug)]
pub(super) struct Line {
    /// The flow's number.
    pub(super) flow: usize,
    peer: HostId,
    tcp: Arc<TcpConfig>,
    load: Load,
    pub(super) conn: Option<ConnId>,
}

/// The end that sends data.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) line: Line,
    /// Bytes of a request that have come.
    heard: u64,
    /// When to begin the answers that have been asked for.
    answers: VecDeque<Instant>,
    /// Bytes that the send buffer has not taken.
    waiting: u64,
    /// The sender's timeouts at the beginning of each transfer.
    pub(super) timeouts_before: Vec<u64>,
}

/// The end that data is for.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) line: Line,
    connected: bool,
    began: Instant,
    /// Bytes of the present transfer still to come.
    missing: u64,
    pub(super) delivered: ByteCount,
    pub(super) transfers: Vec<Transfer>,
}

impl Host {
    /// Host `id`; `tcp` has the configuration of each flow.
    pub(super) fn new(
        spec: &FlowsSpec,
        id: u32,
        tcp: &[Arc<TcpConfig>],
        unfinished: &Unfinished,
    ) -> Self {
        let mut host = Self {
            id: HostId(id),
            senders: Vec::new(),
            receivers: Vec::new(),
            ends: Vec::new(),
            listeners: Vec::new(),
            to_open: Vec::new(),
            jitter: SimTime::from_duration(spec.jitter),
            random: Stream::new(spec.seed, Component::Start, u64::from(id)),
            unfinished: unfinished.clone(),
            broken: None,
        };
        for ((flow, f), tcp) in spec.flows.iter().enumerate().zip(tcp) {
            let line = |peer| Line {
                flow,
                peer: HostId(peer),
                tcp: tcp.clone(),
                load: f.load,
                conn: None,
            };
            let start = Instant::ZERO + f.start;
            let (end, opens) = if f.from == id {
                host.senders.push(Sending {
                    line: line(f.to),
                    heard: 0,
                    answers: VecDeque::new(),
                    waiting: 0,
                    timeouts_before: Vec::new(),
                });
                let opens = !matches!(f.load, Load::Asked(_));
                (End::Sender(host.senders.len() - 1), opens)
            } else if f.to == id {
                host.receivers.push(Receiving {
                    line: line(f.from),
                    connected: false,
                    began: start,
                    missing: match f.load {
                        Load::Bytes(size) => size.get(),
                        Load::Unlimited | Load::Asked(_) => 0,
                    },
                    delivered: ByteCount::ZERO,
                    transfers: Vec::new(),
                });
                let opens = matches!(f.load, Load::Asked(_));
                (End::Receiver(host.receivers.len() - 1), opens)
            } else {
                continue;
            };
            if opens {
                host.to_open.push((start, end));
            }
        }
        // Stable, so that flows of one start open in their order.
        host.to_open.sort_by_key(|(at, _)| *at);
        host.to_open.reverse();
        host
    }

    fn line(&mut self, end: End) -> &mut Line {
        match end {
            End::Sender(i) => &mut self.senders[i].line,
            End::Receiver(i) => &mut self.receivers[i].line,
        }
    }

    fn end_of(&self, conn: ConnId) -> Option<End> {
        self.ends.get(conn.index()).copied().flatten()
    }

    fn attach(&mut self, end: End, conn: ConnId) {
        self.line(end).conn = Some(conn);
        if self.ends.len() <= conn.index() {
            self.ends.resize(conn.index() + 1, None);
        }
        self.ends[conn.index()] = Some(end);
    }

    /// Open the connections that are due.
    fn open(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        while let Some(&(at, end)) = self.to_open.last() {
            if at > now {
                break;
            }
            self.to_open.pop();
            let local = SocketAddr::new(address_of(self.id), 0);
            let line = self.line(end);
            let remote = SocketAddr::new(address_of(line.peer), port_of(line.flow));
            let config = line.tcp.clone();
            match tcp.connect(now, local, remote, Some(config)) {
                Ok(conn) => self.attach(end, conn),
                Err(_) => self.broken = Some(Broken::Lost),
            }
        }
    }

    fn handle(&mut self, tcp: &mut SimEndpoint, now: Instant, conn: ConnId, event: Event) {
        let Some(end) = self.end_of(conn) else {
            return;
        };
        match (event, end) {
            (Event::Closed(_) | Event::PeerClosed, _) => self.broken = Some(Broken::Lost),
            (Event::Connected, End::Sender(i)) => self.senders[i].push(tcp),
            (Event::Connected, End::Receiver(i)) => {
                self.receivers[i].connected = true;
                self.ask(tcp, now, i);
            }
            (Event::Readable, End::Sender(i)) => {
                let s = &mut self.senders[i];
                let (Load::Asked(asked), Some(conn)) = (s.line.load, tcp.connection_mut(conn))
                else {
                    return;
                };
                let n = conn.readable();
                conn.consume(n, now);
                s.heard += n;
                while s.heard >= asked.request.get() {
                    s.heard -= asked.request.get();
                    let at = now + self.random.jitter(self.jitter).to_duration();
                    let at = s.answers.back().map_or(at, |last| at.max(*last));
                    s.answers.push_back(at);
                }
                s.answer(tcp, now);
            }
            (Event::Readable, End::Receiver(i)) => self.read(tcp, now, i),
            (Event::Writable, End::Sender(i)) => self.senders[i].write(tcp),
            (Event::Writable, End::Receiver(_)) | (Event::Urgent | Event::SoftError(_), _) => {}
        }
    }

    /// Ask for the next answers of the group that receiver `i` belongs to, if none is missing.
    fn ask(&mut self, tcp: &mut SimEndpoint, now: Instant, i: usize) {
        let Load::Asked(asked) = self.receivers[i].line.load else {
            return;
        };
        let group = asked.group;
        if self.receivers[i].transfers.len() >= asked.times as usize
            || self
                .receivers
                .iter()
                .any(|r| r.group() == Some(group) && !r.is_ready())
        {
            return;
        }
        let size = asked.request.as_usize();
        for r in self
            .receivers
            .iter_mut()
            .filter(|r| r.group() == Some(group))
        {
            r.began = now;
            r.missing = asked.size.get();
            let sent = r
                .line
                .conn
                .and_then(|id| tcp.connection_mut(id))
                .and_then(|conn| conn.send(size, size).ok());
            if sent != Some(size) {
                self.broken = Some(Broken::Lost);
            }
        }
    }

    fn read(&mut self, tcp: &mut SimEndpoint, now: Instant, i: usize) {
        let r = &mut self.receivers[i];
        let Some(conn) = r.line.conn.and_then(|id| tcp.connection_mut(id)) else {
            return;
        };
        let n = conn.readable();
        conn.consume(n, now);
        if conn.recv_buffer().mismatched > 0 {
            self.broken = Some(Broken::Corrupt);
            debug_assert!(false, "corrupt stream");
        }
        r.delivered += ByteCount::new(n);
        if r.missing == 0 || n == 0 {
            return;
        }
        r.missing = r.missing.saturating_sub(n);
        if r.missing > 0 {
            return;
        }
        r.transfers.push(Transfer {
            began: r.began,
            took: now.since(r.began),
            timeouts: 0,
        });
        let all = match r.line.load {
            Load::Asked(asked) => asked.times as usize,
            Load::Unlimited | Load::Bytes(_) => 1,
        };
        if r.transfers.len() == all {
            self.unfinished.finish();
        }
        self.ask(tcp, now, i);
    }
}

impl Line {
    pub(super) fn load(&self) -> Load {
        self.load
    }

    /// SYNs or SYN-ACKs of this end that went unanswered.
    pub(super) fn handshake_timeouts(&self, tcp: &SimEndpoint) -> u64 {
        let conn = self.conn.and_then(|id| tcp.connection(id));
        conn.map_or(0, |c| u64::from(c.handshake_timeouts()))
    }
}

impl Receiving {
    /// Bytes that have arrived, also those that wait for others before them.
    pub(super) fn received(&self, tcp: &SimEndpoint) -> ByteCount {
        let conn = self.line.conn.and_then(|id| tcp.connection(id));
        let held = conn.map_or(0, |c| c.readable() + c.out_of_order());
        self.delivered + ByteCount::new(held)
    }

    fn group(&self) -> Option<u32> {
        match self.line.load {
            Load::Asked(asked) => Some(asked.group),
            Load::Unlimited | Load::Bytes(_) => None,
        }
    }

    /// Connected and with nothing on the way.
    fn is_ready(&self) -> bool {
        self.connected && self.missing == 0
    }
}

impl Sending {
    /// Begin what nobody asks for.
    fn push(&mut self, tcp: &mut SimEndpoint) {
        self.waiting = match self.line.load {
            Load::Unlimited => u64::MAX,
            Load::Bytes(size) => size.get(),
            Load::Asked(_) => return,
        };
        // The handshake's timeouts belong to the transfer.
        self.timeouts_before.push(0);
        self.write(tcp);
    }

    /// Begin the answers that are due.
    fn answer(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        let Load::Asked(asked) = self.line.load else {
            return;
        };
        let timeouts = self
            .line
            .conn
            .and_then(|id| tcp.connection(id))
            .map_or(0, |conn| conn.sender_stats().timeouts);
        while self.answers.front().is_some_and(|at| *at <= now) {
            self.answers.pop_front();
            self.timeouts_before.push(timeouts);
            self.waiting += asked.size.get();
        }
        self.write(tcp);
    }

    fn write(&mut self, tcp: &mut SimEndpoint) {
        if self.waiting == 0 {
            return;
        }
        let Some(conn) = self.line.conn.and_then(|id| tcp.connection_mut(id)) else {
            return;
        };
        let offer = usize::try_from(self.waiting).unwrap_or(usize::MAX);
        let taken = conn.send(offer, offer).unwrap_or(0) as u64;
        if self.line.load != Load::Unlimited {
            self.waiting -= taken;
        }
    }
}

impl App for Host {
    fn start(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        let any = |flow| SocketAddr::from(([0, 0, 0, 0], port_of(flow)));
        let ends = (0..self.senders.len())
            .map(End::Sender)
            .chain((0..self.receivers.len()).map(End::Receiver));
        for end in ends.collect::<Vec<_>>() {
            let line = self.line(end);
            let asked = matches!(line.load, Load::Asked(_));
            if asked != matches!(end, End::Sender(_)) {
                continue;
            }
            match tcp.listen(any(line.flow), 4, Some(line.tcp.clone())) {
                Ok(listener) => self.listeners.push((listener, end)),
                Err(_) => self.broken = Some(Broken::Lost),
            }
        }
        self.open(tcp, now);
    }

    fn event(&mut self, tcp: &mut SimEndpoint, now: Instant, event: EndpointEvent) {
        match event {
            EndpointEvent::Accepted { listener, conn } => {
                let end = self.listeners.iter().find(|(l, _)| *l == listener);
                if let Some(&(_, end)) = end {
                    self.attach(end, conn);
                }
            }
            EndpointEvent::Conn { conn, event } => self.handle(tcp, now, conn, event),
        }
    }

    fn timeout(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        self.open(tcp, now);
        for s in &mut self.senders {
            if s.answers.front().is_some_and(|at| *at <= now) {
                s.answer(tcp, now);
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let answer = self.senders.iter().filter_map(|s| s.answers.front()).min();
        let open = self.to_open.last().map(|(at, _)| at);
        answer.into_iter().chain(open).min().copied()
    }
}

fn port_of(flow: usize) -> u16 {
    FIRST_PORT + flow as u16
}
