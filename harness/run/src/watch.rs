//! Looks at a run at the instants that its warm-up, its probes and its end name.

use crate::changes::Changes;
use crate::ended::Outcome;
use crate::error::RunError;
use crate::host::{SimPacket, SimTypes, TcpHost};
use crate::net::buffer::Depth;
use crate::net::graph::{Graph, NodeId};
use crate::net::link::Framing;
use crate::net::network::Network;
use crate::net::nic::{HostStats, WithoutBuffer};
use crate::net::packet::{HostId, PortId};
use crate::net::pause::PauseStats;
use crate::net::stats::{DropReason, PortStats};
use crate::outcome::{FlowOutcome, HostOutcome, Opening, PortOutcome, RunOutcome};
use crate::parts::{Clock, Time};
use crate::probe::{Instrument, View};
use crate::sim::time::SimTime;
use crate::sim::world::World;
use crate::simulate::Ears;
use crate::traffic::{HostApp, Log, Opened, Opener};
use narrows::congestion::order::OrderedMap;
use narrows::conn::Connection;
use narrows::conn::state::State;
use narrows::recovery::SenderStats;
use narrows::{ByteCount, Rate};

/// The world of a run.
pub(crate) type RunWorld<'t> = World<TcpHost<HostApp>, Ears<'t>>;

/// Whether the run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Goes,
    End,
}

/// Looks at a run.
pub(crate) struct Watch<'a> {
    time: Time,
    /// The names of the traffics.
    traffic: Vec<String>,
    graph: &'a Graph,
    instruments: Vec<(String, Box<dyn Instrument>)>,
    changes: Changes,
    /// When time begins to count, once it is known.
    clock: Option<SimTime>,
    warm: Option<Snapshot>,
}

/// The counters at one instant. What is not in it was not yet: of the first instant hardly anything is.
#[derive(Default)]
struct Snapshot {
    at: SimTime,
    /// By host, by connection in its order of opening.
    ends: Vec<Vec<End>>,
    ports: Vec<OfPort>,
    /// By traffic: connections that were opening.
    opening: Vec<u64>,
    /// By traffic.
    failed: Vec<u64>,
    /// By host.
    hosts: Vec<OfHost>,
    delivered: Vec<ByteCount>,
}

/// What is counted of a port.
#[derive(Clone, Default)]
struct OfPort {
    stats: PortStats,
    pause: PauseStats,
    queued: Depth,
}

impl OfPort {
    fn of(network: &mut Network<SimPacket>, at: SimTime, port: PortId) -> Self {
        Self {
            queued: network.queued(at, port),
            pause: network.pause_stats(at, port),
            stats: network.stats(port),
        }
    }
}

/// What is counted of a host.
#[derive(Clone, Copy, Default)]
struct OfHost {
    handshake_timeouts: u64,
    damaged: u64,
    without_buffer: Option<WithoutBuffer>,
    work: Option<HostStats>,
}

impl OfHost {
    /// Of what its TCP and the host itself count, and the network.
    fn of(
        (handshake_timeouts, damaged): (u64, u64),
        network: &Network<SimPacket>,
        at: SimTime,
        id: HostId,
    ) -> Self {
        Self {
            handshake_timeouts,
            damaged,
            without_buffer: network.without_buffer(id),
            work: network.host_stats(at, id),
        }
    }

    /// What came since it `was`, of the host with this name.
    fn since(&self, was: &Self, name: String) -> HostOutcome {
        let refused = |is: WithoutBuffer| is.since(&was.without_buffer.unwrap_or_default());
        let work = |is: HostStats| is.since(&was.work.unwrap_or_default());
        HostOutcome {
            name,
            handshake_timeouts: self.handshake_timeouts - was.handshake_timeouts,
            damaged: self.damaged - was.damaged,
            without_buffer: self.without_buffer.map(refused),
            work: self.work.map(work),
        }
    }
}

/// One end of a connection.
#[derive(Clone, Copy, Default)]
struct End {
    sender: SenderStats,
    bytes_in: u64,
    /// What the application has of it.
    read: u64,
    out_of_order_dropped: u64,
    handshake_timeouts: u64,
}

impl End {
    fn of(conn: &Connection<SimTypes>) -> Self {
        Self {
            sender: conn.sender_stats(),
            // Also what waits for others before it: counted when a gap closes, what came
            // before the warm-up could count after it.
            bytes_in: conn.stats().bytes_in + conn.out_of_order(),
            read: conn.stats().bytes_in - conn.readable(),
            out_of_order_dropped: conn.stats().out_of_order_dropped,
            handshake_timeouts: conn.handshake_timeouts().into(),
        }
    }
}

impl<'a> Watch<'a> {
    pub(crate) fn new(
        time: Time,
        traffic: Vec<String>,
        graph: &'a Graph,
        instruments: Vec<(String, Box<dyn Instrument>)>,
        changes: Changes,
    ) -> Self {
        Self {
            time,
            traffic,
            graph,
            instruments,
            changes,
            clock: match time.clock {
                Clock::Start => Some(SimTime::ZERO),
                Clock::FirstSend => None,
            },
            warm: None,
        }
    }

    /// Whether time does not count yet.
    pub(crate) fn waits(&self) -> bool {
        self.clock.is_none()
    }

    /// Time counts from `now` on.
    pub(crate) fn start(&mut self, now: SimTime) {
        self.clock = Some(now);
    }

    /// Before the first event; without a warm-up it is measured from here on.
    pub(crate) fn prepare(&mut self, world: &mut RunWorld<'_>) {
        self.each(world, |instrument, view| instrument.prepare(view));
        if self.warm_up() == SimTime::ZERO {
            self.begin(world, Snapshot::default());
        }
    }

    /// The warm-up is over.
    fn begin(&mut self, world: &mut RunWorld<'_>, counters: Snapshot) {
        let now = world.now();
        self.warm = Some(counters);
        for port in (0..world.network().ports()).map(PortId) {
            world.network_mut().restart_peak(now, port);
        }
        self.each(world, |instrument, view| instrument.begin(view));
    }

    fn each(
        &mut self,
        world: &mut RunWorld<'_>,
        mut call: impl FnMut(&mut dyn Instrument, &mut View<'_>),
    ) {
        let now = world.now();
        let (hosts, network) = world.parts_mut();
        let mut view = View {
            now,
            hosts,
            network,
        };
        for (_, instrument) in &mut self.instruments {
            call(&mut **instrument, &mut view);
        }
    }

    /// When the run ends.
    pub(crate) fn end(&self) -> SimTime {
        let duration = SimTime::from_duration(self.time.duration);
        self.clock.map_or(SimTime::MAX, |clock| clock + duration)
    }

    /// Without a warm-up all counts, handshakes included, whenever time begins to.
    fn warm_up(&self) -> SimTime {
        let warm_up = SimTime::from_duration(self.time.warm_up);
        match self.clock {
            _ if warm_up == SimTime::ZERO => warm_up,
            Some(clock) => clock + warm_up,
            None => SimTime::MAX,
        }
    }

    /// When to look next.
    pub(crate) fn next(&self) -> SimTime {
        let change = self.changes.next();
        let warm_up = self.warm.is_none().then(|| self.warm_up());
        let looks = self.instruments.iter().filter_map(|(_, i)| i.next());
        let next = looks.chain(warm_up).chain(change).min();
        next.map_or(self.end(), |at| at.min(self.end()))
    }

    /// Looks, and changes what is to be changed.
    pub(crate) fn look(&mut self, world: &mut RunWorld<'_>, log: &Log) -> Result<Next, RunError> {
        let now = world.now();
        for change in self.changes.take_due(now) {
            // Each was tried before.
            let changed = world.apply(&change);
            changed.map_err(|e| RunError::Internal(e.to_string()))?;
        }
        if self.warm.is_none() && now >= self.warm_up() {
            let counters = Snapshot::take(world, log);
            self.begin(world, counters);
        }
        self.each(world, |instrument, view| {
            if instrument.next().is_some_and(|at| at <= now) {
                instrument.look(view);
            }
        });
        Ok(if now >= self.end() {
            Next::End
        } else {
            Next::Goes
        })
    }

    /// What the run gave. Each part of the world goes when all is told of it: a large one
    /// and its outcome need not be there side by side.
    pub(crate) fn finish(
        mut self,
        mut world: RunWorld<'_>,
        outcome: Outcome,
        log: &Log,
    ) -> RunOutcome {
        if self.warm.is_none() {
            // It was over before the warm-up was: there is nothing to measure.
            let counters = Snapshot::take(&mut world, log);
            self.begin(&mut world, counters);
        }
        let end = world.now();
        // Before anybody looks, all have left that were to leave until now.
        for port in (0..world.network().ports()).map(PortId) {
            world.network_mut().queued(end, port);
        }
        let warmed_up = !self.time.warm_up.is_zero();
        let warm = self.warm.take().unwrap_or_default();
        let changes = std::mem::take(&mut self.changes).made();
        let mut readings = Vec::new();
        let names: Vec<String> = self
            .instruments
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        self.each(&mut world, |instrument, view| {
            readings.push(instrument.finish(view))
        });
        let readings = names.into_iter().zip(readings);
        let measured_from = self.clock.map_or(end, |clock| warm.at.max(clock));
        let measured_from = measured_from.to_instant();
        let opening = (0..self.traffic.len()).map(|traffic| Opening {
            at_begin: warmed_up.then(|| warm.opening.get(traffic).copied().unwrap_or_default()),
            at_end: 0,
        });
        let mut opening: Vec<Opening> = opening.collect();
        for (opening, now) in opening.iter_mut().zip(Snapshot::openings(&world)) {
            opening.at_end = now;
        }
        let events = world.events();
        let (apps, network, _) = world.into_parts();
        let mut told = Vec::with_capacity(apps.len());
        let mut counted = Vec::with_capacity(apps.len());
        let ids = (0..apps.len() as u32).map(HostId);
        // From the end, since the first one is mostly a client and large: others have gone then.
        for (host, id) in apps.into_iter().zip(ids).rev() {
            let was = warm.ends.get(id.index()).map_or(&[][..], Vec::as_slice);
            told.push(ConnectionEnd::of(&host, id, was));
            counted.push((host.tcp().stats().handshake_timeouts, host.corrupt_in));
        }
        told.reverse();
        counted.reverse();
        let flows = flows(&told);
        drop(told);
        let hosts = counted.into_iter().zip((0..).map(HostId));
        let hosts = hosts.map(|(counted, id)| {
            let was = warm.hosts.get(id.index()).copied().unwrap_or_default();
            let name = self.graph.node_name(NodeId::Host(id)).to_owned();
            OfHost::of(counted, &network, end, id).since(&was, name)
        });
        let hosts = hosts.collect();
        RunOutcome {
            outcome,
            simulated: end.to_duration(),
            measured: end.to_instant().since(measured_from),
            measured_from,
            events,
            traffic: std::mem::take(&mut self.traffic),
            hosts,
            delivered: log
                .all_delivered()
                .into_iter()
                .enumerate()
                .map(|(n, is)| {
                    is.saturating_sub(warm.delivered.get(n).copied().unwrap_or_default())
                })
                .collect(),
            opening,
            flows,
            ports: self.ports(network, end, &warm),
            transfers: log.take_transfers(),
            spans: log.take_spans(),
            gauges: log.take_gauges(),
            failed: log
                .all_failed()
                .into_iter()
                .enumerate()
                .map(|(n, is)| is - warm.failed.get(n).copied().unwrap_or_default())
                .collect(),
            readings: readings.filter(|(_, r)| !r.of.is_empty()).collect(),
            changes: changes
                .into_iter()
                .map(|(at, what)| (at.to_instant(), what))
                .collect(),
            unrecorded: Vec::new(),
        }
    }

    fn ports(
        &self,
        mut network: Network<SimPacket>,
        end: SimTime,
        warm: &Snapshot,
    ) -> Vec<PortOutcome> {
        let from = self.clock.map_or(end, |clock| warm.at.max(clock));
        let span = (end - from).as_nanos().max(1);
        let mut all = Vec::with_capacity(network.ports() as usize);
        for port in self.graph.ports() {
            let was = warm.ports.get(port.index()).cloned().unwrap_or_default();
            let is = OfPort::of(&mut network, end, port);
            let (queued_then, queued_now) = (was.queued, is.queued);
            let (paused_then, paused_now) = (was.pause, is.pause);
            let (was, is) = (was.stats, is.stats);
            let Some((from, to)) = self.graph.ends(port) else {
                continue;
            };
            // What was taken and is not there any more has left: a packet that is dropped while it
            // waits is taken back.
            let left = |stats: &PortStats, queued: &Depth| {
                let packets = stats.packets.saturating_sub(queued.packets.into());
                (packets, stats.bytes.saturating_sub(queued.bytes))
            };
            let (then, now) = (left(&was, &queued_then), left(&is, &queued_now));
            let sent = now.0.saturating_sub(then.0);
            let sent_bytes = now.1.saturating_sub(then.1);
            let (rate, gap) = self.wire(from, port);
            let busy = rate.time_for(ByteCount::new(sent_bytes + sent * gap));
            let ppm = u128::from(busy.as_nanos()) * 1_000_000 / u128::from(span);
            let mut drops = [0; DropReason::ALL.len()];
            for (sum, reason) in drops.iter_mut().zip(DropReason::ALL) {
                *sum = is.dropped(reason) - was.dropped(reason);
            }
            all.push(PortOutcome {
                name: self.graph.port_name(port),
                tiers: (
                    self.graph.tier(from).to_owned(),
                    self.graph.tier(to).to_owned(),
                ),
                nic: matches!(from, NodeId::Host(_)),
                utilisation_ppm: u64::try_from(ppm).unwrap_or(u64::MAX),
                packets: sent,
                bytes: sent_bytes,
                marks: is.marks - was.marks,
                trimmed: is.trimmed - was.trimmed,
                max_packets: is.max_packets,
                max_bytes: is.max_bytes,
                dropped_bytes: is.dropped_bytes - was.dropped_bytes,
                pause: paused_now.since(&paused_then),
                drops,
            });
        }
        all
    }

    /// The rate of a port's wire, and what a frame takes on it beyond what the buffer counts.
    fn wire(&self, from: NodeId, port: PortId) -> (Rate, u64) {
        let link = match from {
            NodeId::Host(host) => self.graph.host_egress(host).map(|e| &e.link),
            NodeId::Switch(_) => self.graph.switch_egress(port).map(|e| &e.link),
        };
        let gap = |framing| match framing {
            Framing::None => 0,
            Framing::Ethernet => 20,
        };
        link.map_or((Rate::from_gbps(1), 0), |l| (l.rate, gap(l.framing)))
    }
}

impl Snapshot {
    fn take(world: &mut RunWorld<'_>, log: &Log) -> Self {
        let at = world.now();
        let ends = world.hosts().iter().map(|host| {
            let end = |opened: &Opened| host.tcp().connection(opened.conn).map(End::of);
            let ends = host.app.opened().iter().map(end);
            ends.map(Option::unwrap_or_default).collect()
        });
        let ends = ends.collect();
        let ports = (0..world.network().ports()).map(PortId);
        let ports = ports.map(|port| OfPort::of(world.network_mut(), at, port));
        let ports = ports.collect();
        let hosts = world.hosts().iter().zip((0..).map(HostId));
        let hosts = hosts.map(|(host, id)| {
            let counted = (host.tcp().stats().handshake_timeouts, host.corrupt_in);
            OfHost::of(counted, world.network(), at, id)
        });
        Self {
            at,
            hosts: hosts.collect(),
            opening: Self::openings(world),
            delivered: log.all_delivered(),
            ports,
            ends,
            failed: log.all_failed(),
        }
    }

    /// By traffic: how many connections are opening.
    fn openings(world: &RunWorld<'_>) -> Vec<u64> {
        let mut all = Vec::new();
        for host in world.hosts() {
            for opened in host.app.opened() {
                let conn = host.tcp().connection(opened.conn);
                let opens = conn.is_some_and(|conn| conn.state() == State::SynSent);
                if opens && opened.opener == Opener::Here {
                    let traffic = usize::from(opened.traffic);
                    if all.len() <= traffic {
                        all.resize(traffic + 1, 0);
                    }
                    all[traffic] += 1;
                }
            }
        }
        all
    }
}

/// A connection, as both its ends know it: traffic, opener, its port, listener.
type Key = (u16, HostId, u16, HostId);

/// One end of a connection, after the run.
struct ConnectionEnd {
    key: Key,
    at: HostId,
    peer: HostId,
    /// What it sent, of which the other end says what arrived; none if it never tried to send.
    sent: Option<FlowOutcome>,
    arrived: Arrived,
}

/// What came to one end of a connection.
#[derive(Clone, Copy)]
struct Arrived {
    received: ByteCount,
    read: ByteCount,
    out_of_order_dropped: u64,
    control: bool,
}

impl ConnectionEnd {
    /// Of each connection that host `id` still has, after a warm-up with these.
    fn of(host: &TcpHost<HostApp>, id: HostId, warm: &[End]) -> Vec<Self> {
        let of = |(n, opened): (usize, &Opened)| {
            let conn = host.tcp().connection(opened.conn)?;
            let (opener, port, listener) = match opened.opener {
                Opener::Here => (id, conn.local().port(), opened.peer),
                Opener::There => (opened.peer, conn.remote().port(), id),
            };
            let now = End::of(conn);
            let then = warm.get(n).copied().unwrap_or_default();
            // In the warm-up at least.
            let sends = now.sender.segments > 0 || now.handshake_timeouts > 0;
            Some(Self {
                key: (opened.traffic, opener, port, listener),
                at: id,
                peer: opened.peer,
                sent: sends.then(|| FlowOutcome {
                    traffic: opened.traffic,
                    from: id.0,
                    to: opened.peer.0,
                    port,
                    opened: opened.at,
                    received: ByteCount::ZERO,
                    read: ByteCount::ZERO,
                    out_of_order_dropped: 0,
                    control: false,
                    sender: now.sender.since(&then.sender),
                    handshake_timeouts: now.handshake_timeouts - then.handshake_timeouts,
                }),
                arrived: Arrived {
                    received: ByteCount::new(now.bytes_in.saturating_sub(then.bytes_in)),
                    read: ByteCount::new(now.read),
                    out_of_order_dropped: now.out_of_order_dropped - then.out_of_order_dropped,
                    control: opened.control,
                },
            })
        };
        let ends = host.app.opened();
        let mut all = Vec::with_capacity(ends.len());
        all.extend(ends.iter().enumerate().filter_map(of));
        all
    }
}

/// Each direction of each connection in which data was sent, of what each host has told.
fn flows(told: &[Vec<ConnectionEnd>]) -> Vec<FlowOutcome> {
    let ends = || told.iter().flatten();
    let mut all: Vec<FlowOutcome> = ends().filter_map(|end| end.sent).collect();
    // By connection and sending host.
    let senders = ends().filter(|end| end.sent.is_some());
    let places: OrderedMap<(Key, HostId), usize> = senders
        .zip(0..)
        .map(|(end, place)| ((end.key, end.at), place))
        .collect();
    for end in ends() {
        let place = places.get(&(end.key, end.peer));
        if let Some(flow) = place.and_then(|at| all.get_mut(*at)) {
            let Arrived {
                received,
                read,
                out_of_order_dropped,
                control,
            } = end.arrived;
            *flow = FlowOutcome {
                received,
                read,
                out_of_order_dropped,
                control,
                ..*flow
            };
        }
    }
    all
}
