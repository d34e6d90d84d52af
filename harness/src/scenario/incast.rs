//! The incast run: a client, servers, a star, and barrier-synchronised blocks.
//!
//! Everything is packets of the TCP under study: handshakes, requests and data travel on the
//! same connections. Models hosts without CPU time and an application that reads at once.

use super::spec::{
    Aqm, DelayedAck, EcnUse, Framing, IncastSpec, Length, QueueCounting, QueueLimit, RequestOrder,
};
use super::{
    DropCounts, IncastRun, IncastRunner, Outcome, QueuePeak, RunContext, ScenarioError,
    TimeoutCounts,
};
use crate::host::capture::Capture;
use crate::host::{App, SimEndpoint, SimPacket, TcpHost, address_of};
use crate::net::aqm::{AboveMax, AqmSpec, NotCapable, RedSpec, Threshold};
use crate::net::buffer::{Capacity, InService};
use crate::net::link::{self, LinkSpec};
use crate::net::network::Network;
use crate::net::nic::NicSpec;
use crate::net::packet::{HostId, PortId};
use crate::net::port::PortSpec;
use crate::net::stats::DropReason;
use crate::net::topology::{Attachment, StarSpec, TieOrder};
use crate::sim::rng::{Component, Probability, Stream};
use crate::sim::tap::{NoTap, Tap};
use crate::sim::time::SimTime;
use crate::sim::world::{Outcome as WorldOutcome, World};
use narrows::config::{
    AckPolicy, EcnMode, IdleRestart, InitialWindow, RecoverySending, SpuriousDetection, TcpConfig,
    TimestampMode,
};
use narrows::congestion::{CongestionRegistry, RtoRegistry};
use narrows::conn::Event;
use narrows::endpoint::{ConnId, EndpointEvent};
use narrows::recovery::detector;
use narrows::{ByteCount, Duration, Instant, Rate};
use std::net::SocketAddr;
use std::sync::Arc;

const PORT: u16 = 5_001;
const CLIENT: HostId = HostId(0);
/// How often the cancellation flag is looked at, in host events.
const CANCEL_INTERVAL: u32 = 4_096;

/// Runs incasts with the algorithms of its registries.
#[derive(Clone, Debug)]
pub struct Incast {
    /// Congestion controls by name.
    pub congestion: Arc<CongestionRegistry>,
    /// RTO policies by name.
    pub rto: Arc<RtoRegistry>,
}

impl Default for Incast {
    /// With what narrows brings along.
    fn default() -> Self {
        Self {
            congestion: Arc::new(CongestionRegistry::standard()),
            rto: Arc::new(RtoRegistry::standard()),
        }
    }
}

impl IncastRunner for Incast {
    fn run(&self, spec: &IncastSpec, ctx: RunContext<'_>) -> Result<IncastRun, ScenarioError> {
        spec.validate()?;
        let tcp = Arc::new(self.tcp_config(spec)?);
        match ctx.capture {
            None => run(spec, &tcp, ctx, NoTap).map(|(result, NoTap)| result),
            Some(_) => {
                let RunContext { cancel, capture } = ctx;
                let out = capture.expect("matched above");
                let tap = Capture::new(out).map_err(ScenarioError::Capture)?;
                let ctx = RunContext { cancel, capture: None };
                let (result, tap) = run(spec, &tcp, ctx, tap)?;
                tap.finish().map_err(ScenarioError::Capture)?;
                Ok(result)
            }
        }
    }
}

impl Incast {
    /// The TCP of every host.
    fn tcp_config(&self, spec: &IncastSpec) -> Result<TcpConfig, ScenarioError> {
        let t = &spec.tcp;
        let unknown = |option, given: &str| ScenarioError::UnknownName {
            option,
            given: given.to_owned(),
        };
        let congestion =
            self.congestion.get(&t.congestion).map_err(|_| unknown("cc", &t.congestion))?;
        let rto = self.rto.get(&t.rto).map_err(|_| unknown("rto", &t.rto))?;
        let detector = *detector::by_name(&t.loss_detector)
            .ok_or_else(|| unknown("loss", &t.loss_detector))?;
        let config = TcpConfig {
            congestion,
            rto,
            detector: Arc::new(detector),
            recovery: if t.prr { RecoverySending::Prr } else { RecoverySending::Pipe },
            limited_transmit: t.limited_transmit,
            spurious: SpuriousDetection::default(),
            mss: t.effective_mss(spec.net.mtu).min(u32::from(u16::MAX)) as u16,
            sack: t.sack,
            timestamps: if t.timestamps { TimestampMode::Micros } else { TimestampMode::Off },
            ecn: match t.ecn {
                EcnUse::Auto | EcnUse::Off => EcnMode::Off,
                EcnUse::Classic => EcnMode::Classic,
            },
            initial_window: InitialWindow::Segments(t.initial_window),
            // The servers are idle between blocks for no longer than it takes the slowest of
            // them: what the papers' persistent connections do is kept.
            idle_restart: IdleRestart::Keep,
            nagle: false,
            ack: match t.delayed_ack {
                DelayedAck::Off => AckPolicy::IMMEDIATE,
                DelayedAck::On { segments, timeout } => {
                    AckPolicy { delay: timeout, every: segments, quick_acks: 0 }
                }
            },
            send_buffer: 1 << 30,
            recv_buffer: t.receive_window.map_or(16 << 20, ByteCount::as_usize),
            window_scaling: t.receive_window.is_none_or(|w| w.get() > u64::from(u16::MAX)),
            timer_tick: t.timer_tick,
            ..TcpConfig::default()
        };
        config.validate().map_err(|e| ScenarioError::Internal(e.to_string()))?;
        Ok(config)
    }
}

/// One run, watched by `tap`.
fn run<T: Tap<SimPacket>>(
    spec: &IncastSpec,
    tcp: &Arc<TcpConfig>,
    ctx: RunContext<'_>,
    tap: T,
) -> Result<(IncastRun, T), ScenarioError> {
    let network: Network<SimPacket> =
        star(spec).build().map_err(|e| ScenarioError::Internal(e.to_string()))?;
    let mut hosts = Vec::with_capacity(spec.servers as usize + 1);
    for h in 0..=spec.servers {
        let app = if h == 0 {
            Role::Client(Client::new(spec))
        } else {
            Role::Server(Server::new(spec, h - 1))
        };
        let host = TcpHost::new(HostId(h), tcp.clone(), app, spec.seed, spec.wire)
            .map_err(|e| ScenarioError::Internal(e.to_string()))?;
        hosts.push(host);
    }
    let mut world = World::with_tap(network, hosts, tap);
    // Servers listen before the client connects, which opens the run.
    for h in (0..=spec.servers).rev() {
        world.start_at(HostId(h), SimTime::ZERO);
    }

    let mut countdown = CANCEL_INTERVAL;
    let mut cancelled = false;
    let mut deadline = None;
    let ended = loop {
        // The clock of a run starts with the first request, which comes after the handshakes.
        let until = deadline.unwrap_or(SimTime::MAX);
        let outcome = world.run(until, |w| {
            countdown -= 1;
            if countdown == 0 {
                countdown = CANCEL_INTERVAL;
                cancelled = ctx.cancelled();
            }
            let client = client(w);
            !cancelled && client.outcome.is_none() && (deadline.is_some() || client.began.is_none())
        });
        match (outcome, deadline, client(&world).began) {
            (WorldOutcome::Stopped, None, Some(began)) if !cancelled && client(&world).outcome.is_none() => {
                let limit = match spec.length {
                    Length::Blocks { time_limit, .. } => time_limit,
                    Length::Time(t) => t,
                };
                deadline = Some(SimTime::from_instant(began + limit));
            }
            (outcome, ..) => break outcome,
        }
    };
    if cancelled {
        return Err(ScenarioError::Cancelled);
    }
    let now = world.now().to_instant();
    let events = world.events();
    let (hosts, network, tap) = world.into_parts();
    let outcome = match (ended, client_of(&hosts).outcome) {
        (_, Some(outcome)) => outcome,
        (WorldOutcome::Reached | WorldOutcome::TimeLimit, None) => match spec.length {
            Length::Time(_) => Outcome::Completed,
            Length::Blocks { .. } => Outcome::TimeLimit,
        },
        (WorldOutcome::Idle, None) => Outcome::Stalled,
        (other, None) => return Err(ScenarioError::Internal(format!("the world ended with {other:?}"))),
    };
    Ok((collect(spec, &hosts, &network, outcome, now, events), tap))
}

type IncastWorld<T> = World<TcpHost<Role>, T>;

fn client<T: Tap<SimPacket>>(world: &IncastWorld<T>) -> &Client {
    client_of(world.hosts())
}

fn client_of(hosts: &[TcpHost<Role>]) -> &Client {
    match &hosts[CLIENT.index()].app {
        Role::Client(client) => client,
        Role::Server(_) => unreachable!("host 0 is the client"),
    }
}

/// What the run gave.
fn collect(
    spec: &IncastSpec,
    hosts: &[TcpHost<Role>],
    network: &Network<SimPacket>,
    outcome: Outcome,
    now: Instant,
    events: u64,
) -> IncastRun {
    let client = client_of(hosts);
    let began = client.began.unwrap_or(now);
    let end = match spec.length {
        Length::Blocks { .. } if outcome == Outcome::Completed => client.last_byte,
        _ => now,
    };
    let simulated = end.since(began);
    let mut result = IncastRun {
        outcome,
        payload: client.payload,
        simulated,
        goodput: Rate::of(client.payload, simulated).unwrap_or_default(),
        block_times: client.block_times.clone(),
        events,
        ..IncastRun::default()
    };
    let mut timeouts = TimeoutCounts::default();
    for (i, host) in hosts.iter().enumerate() {
        let conns: &[ConnId] = match &host.app {
            Role::Client(client) => &client.conn_ids,
            Role::Server(server) => server.conn.as_slice(),
        };
        for conn in conns.iter().filter_map(|id| host.tcp().connection(*id)) {
            let s = conn.sender_stats();
            if i == CLIENT.index() {
                timeouts.other += s.timeouts;
                continue;
            }
            timeouts.full_window += s.timeouts_full_window;
            timeouts.tail += s.timeouts_tail;
            timeouts.retransmission_lost += s.timeouts_retransmission;
            result.fast_retransmits += s.fast_recoveries;
            result.data_packets += s.segments;
            result.retransmitted_packets += s.retransmits;
        }
    }
    result.timeouts = timeouts;
    let mut drops = DropCounts::default();
    let nics = hosts.len() as u32;
    for port in (0..network.ports()).map(PortId) {
        let s = network.stats(port);
        let full = s.dropped(DropReason::Full)
            + s.dropped(DropReason::OverThreshold)
            + s.dropped(DropReason::PoolExhausted);
        drops.impaired += s.dropped(DropReason::Lost);
        drops.port_early += s.dropped(DropReason::Early);
        result.marks += s.marks;
        if port.0 == CLIENT.0 || port.0 > nics {
            drops.client_nic += full;
        } else if port.0 < nics {
            drops.server_nic += full;
        } else {
            drops.port_full += full;
            result.max_queue =
                QueuePeak { packets: u64::from(s.max_packets), bytes: ByteCount::new(s.max_bytes) };
        }
    }
    result.drops = drops;
    result
}

/// The star that the spec describes.
fn star(spec: &IncastSpec) -> StarSpec {
    let net = &spec.net;
    let mut link = LinkSpec::new(net.link_rate, SimTime::from_duration(net.link_delay));
    link.framing = match net.framing {
        Framing::None => link::Framing::None,
        Framing::Ethernet => link::Framing::Ethernet,
    };
    let in_service = match net.queue_counting {
        QueueCounting::Waiting => InService::NotCounted,
        QueueCounting::WithInService => InService::Counted,
    };
    let capacity = |limit| match limit {
        QueueLimit::Bytes(b) => Capacity::Bytes(b),
        QueueLimit::Packets(p) => Capacity::Packets(p),
    };
    // The port to a server carries requests and ACKs only; it is never what is studied.
    let wide = PortSpec { in_service, ..PortSpec::new(Capacity::Packets(1_000)) };
    let server = Attachment {
        nic: NicSpec {
            overhead: SimTime::from_duration(net.nic_overhead),
            ..NicSpec::new(capacity(net.server_nic))
        },
        up: link.clone(),
        port: wide,
        down: link.clone(),
    };
    let client = Attachment {
        nic: NicSpec::new(capacity(net.client_nic)),
        up: link.clone(),
        port: PortSpec {
            aqm: aqm(spec),
            in_service,
            ..PortSpec::new(capacity(net.port_buffer))
        },
        down: link,
    };
    let mut hosts = vec![server; spec.servers as usize + 1];
    hosts[CLIENT.index()] = client;
    StarSpec { hosts, pools: Vec::new(), seed: spec.seed, ties: TieOrder::Shuffled }
}

fn aqm(spec: &IncastSpec) -> AqmSpec {
    let threshold = |limit| match limit {
        QueueLimit::Bytes(b) => Threshold::Bytes(b.get()),
        QueueLimit::Packets(p) => Threshold::Packets(p),
    };
    match spec.net.aqm {
        Aqm::None => AqmSpec::None,
        Aqm::EcnStep(k) => AqmSpec::Step { threshold: threshold(k), not_capable: NotCapable::Pass },
        Aqm::Red(red) => AqmSpec::Red(RedSpec {
            min: threshold(red.min),
            max: threshold(red.max),
            max_p: Probability::ratio(u64::from(red.max_permille), 1_000),
            weight_log2: red.weight_shift,
            gentle: false,
            idle_step: SimTime::from_duration(
                spec.net.link_rate.time_for(ByteCount::from(spec.net.mtu)),
            ),
            above_max: AboveMax::Drop,
            not_capable: NotCapable::Drop,
        }),
    }
}

/// What a host of the run is.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // One client among many servers, which are the small ones.
enum Role {
    Client(Client),
    Server(Server),
}

impl App for Role {
    fn start(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        match self {
            Self::Client(c) => c.start(tcp, now),
            Self::Server(s) => s.start(tcp),
        }
    }
    fn event(&mut self, tcp: &mut SimEndpoint, now: Instant, event: EndpointEvent) {
        match self {
            Self::Client(c) => c.event(tcp, now, event),
            Self::Server(s) => s.event(tcp, now, event),
        }
    }
    fn timeout(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        match self {
            Self::Client(_) => {}
            Self::Server(s) => s.answer(tcp, now),
        }
    }
    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Client(_) => None,
            Self::Server(s) => s.answers.front().map(|(at, _)| *at),
        }
    }
}

/// Asks for blocks and waits for them.
#[derive(Debug)]
struct Client {
    spec: IncastSpec,
    order: Stream,
    /// By server.
    conn_ids: Vec<ConnId>,
    /// By server: the server of a connection index.
    server_of: Vec<u32>,
    connected: u32,
    /// By server: bytes of the block still to come.
    missing: Vec<u64>,
    unfinished: u32,
    asked_at: Instant,
    began: Option<Instant>,
    last_byte: Instant,
    payload: ByteCount,
    block_times: Vec<Duration>,
    outcome: Option<Outcome>,
}

impl Client {
    fn new(spec: &IncastSpec) -> Self {
        Self {
            order: Stream::new(spec.seed, Component::Scenario, 0),
            conn_ids: Vec::with_capacity(spec.servers as usize),
            server_of: Vec::new(),
            connected: 0,
            missing: vec![0; spec.servers as usize],
            unfinished: 0,
            asked_at: Instant::ZERO,
            began: None,
            last_byte: Instant::ZERO,
            payload: ByteCount::ZERO,
            block_times: Vec::new(),
            outcome: None,
            spec: spec.clone(),
        }
    }

    fn start(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        for server in 0..self.spec.servers {
            let local = SocketAddr::new(address_of(CLIENT), 0);
            let remote = SocketAddr::new(address_of(HostId(server + 1)), PORT);
            match tcp.connect(now, local, remote, None) {
                Ok(id) => {
                    self.conn_ids.push(id);
                    if self.server_of.len() <= id.index() {
                        self.server_of.resize(id.index() + 1, u32::MAX);
                    }
                    self.server_of[id.index()] = server;
                }
                Err(_) => self.outcome = Some(Outcome::ConnectionLost),
            }
        }
    }

    fn event(&mut self, tcp: &mut SimEndpoint, now: Instant, event: EndpointEvent) {
        let EndpointEvent::Conn { conn, event } = event else { return };
        match event {
            Event::Connected => {
                self.connected += 1;
                if self.connected == self.spec.servers {
                    self.began = Some(now);
                    self.ask(tcp, now);
                }
            }
            Event::Readable => self.read(tcp, conn, now),
            Event::Closed(_) | Event::PeerClosed => self.outcome = Some(Outcome::ConnectionLost),
            Event::Writable | Event::Urgent => {}
        }
    }

    /// Ask every server for its part of the next block.
    fn ask(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        let n = self.spec.servers;
        self.asked_at = now;
        self.unfinished = n;
        for server in 0..n {
            self.missing[server as usize] = self.spec.block.share(server, n).get();
        }
        let mut servers: Vec<u32> = (0..n).collect();
        if self.spec.request.order == RequestOrder::Shuffled {
            self.order.shuffle(&mut servers);
        }
        let size = self.spec.request.size.as_usize();
        for server in servers {
            if let Some(conn) = tcp.connection_mut(self.conn_ids[server as usize])
                && conn.send(size, size) != Ok(size)
            {
                self.outcome = Some(Outcome::ConnectionLost);
            }
        }
    }

    fn read(&mut self, tcp: &mut SimEndpoint, id: ConnId, now: Instant) {
        let Some(conn) = tcp.connection_mut(id) else { return };
        let n = conn.readable();
        conn.consume(n, now);
        if conn.recv_buffer().mismatched > 0 {
            // The TCP delivered a wrong byte: nothing it says can be trusted.
            self.outcome = Some(Outcome::ConnectionLost);
            debug_assert!(false, "corrupt stream");
        }
        self.payload += ByteCount::new(n);
        self.last_byte = now;
        let missing = &mut self.missing[self.server_of[id.index()] as usize];
        debug_assert!(*missing >= n, "a server sent more than it was asked for");
        *missing = missing.saturating_sub(n);
        if *missing > 0 || n == 0 {
            return;
        }
        self.unfinished -= 1;
        if self.unfinished > 0 {
            return;
        }
        self.block_times.push(now.since(self.asked_at));
        match self.spec.length {
            Length::Blocks { blocks, .. } if self.block_times.len() >= blocks as usize => {
                self.outcome = Some(Outcome::Completed);
            }
            _ => self.ask(tcp, now),
        }
    }
}

/// Answers requests.
#[derive(Debug)]
struct Server {
    share: u64,
    request: u64,
    jitter: SimTime,
    random: Stream,
    conn: Option<ConnId>,
    /// Bytes of a request that have come.
    heard: u64,
    /// Answers to begin: when, and how much.
    answers: std::collections::VecDeque<(Instant, u64)>,
    /// Bytes that the send buffer has not taken.
    waiting: u64,
}

impl Server {
    fn new(spec: &IncastSpec, index: u32) -> Self {
        Self {
            share: spec.block.share(index, spec.servers).get(),
            request: spec.request.size.get(),
            jitter: SimTime::from_duration(spec.start_jitter),
            random: Stream::new(spec.seed, Component::Start, u64::from(index) + 1),
            conn: None,
            heard: 0,
            answers: std::collections::VecDeque::new(),
            waiting: 0,
        }
    }

    fn start(&mut self, tcp: &mut SimEndpoint) {
        let any = SocketAddr::from(([0, 0, 0, 0], PORT));
        let listening = tcp.listen(any, 16, None);
        debug_assert!(listening.is_ok(), "{listening:?}");
    }

    fn event(&mut self, tcp: &mut SimEndpoint, now: Instant, event: EndpointEvent) {
        match event {
            EndpointEvent::Accepted { conn, .. } => self.conn = Some(conn),
            EndpointEvent::Conn { conn, event: Event::Readable } => {
                let Some(c) = tcp.connection_mut(conn) else { return };
                let n = c.readable();
                c.consume(n, now);
                self.heard += n;
                while self.heard >= self.request {
                    self.heard -= self.request;
                    let late = self.random.jitter(self.jitter).to_duration();
                    let at = self.answers.back().map_or(now + late, |(last, _)| (now + late).max(*last));
                    self.answers.push_back((at, self.share));
                }
                self.answer(tcp, now);
            }
            EndpointEvent::Conn { event: Event::Writable, .. } => self.write(tcp),
            EndpointEvent::Conn { .. } => {}
        }
    }

    /// Begin the answers that are due.
    fn answer(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        while let Some((at, share)) = self.answers.front().copied() {
            if at > now {
                break;
            }
            self.answers.pop_front();
            self.waiting += share;
        }
        self.write(tcp);
    }

    fn write(&mut self, tcp: &mut SimEndpoint) {
        if self.waiting == 0 {
            return;
        }
        let Some(conn) = self.conn.and_then(|id| tcp.connection_mut(id)) else { return };
        let offer = usize::try_from(self.waiting).unwrap_or(usize::MAX);
        self.waiting -= conn.send(offer, offer).unwrap_or(0) as u64;
    }
}
