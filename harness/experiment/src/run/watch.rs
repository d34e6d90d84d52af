//! Looks at a run at the instants that its warm-up, its probes and its end name.

use super::changes::Changes;
use super::outcome::{FlowOutcome, HostOutcome, Opening, PortOutcome, RunOutcome};
use super::{RunError, RunWorld};
use crate::host::SimPacket;
use crate::model::{Clock, Experiment};
use crate::net::buffer::Depth;
use crate::net::graph::{Graph, NodeId};
use crate::net::link::Framing;
use crate::net::nic::{HostStats, WithoutBuffer};
use crate::net::packet::{HostId, PortId};
use crate::net::pause::PauseStats;
use crate::net::stats::{DropReason, PortStats};
use crate::probe::{Instrument, View};
use crate::scenario::Outcome;
use crate::sim::tap::Tap;
use crate::sim::time::SimTime;
use crate::traffic::{Log, Opener};
use narrows::conn::state::State;
use narrows::recovery::SenderStats;
use narrows::{ByteCount, Rate};
use std::collections::BTreeMap;

/// Whether the run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Goes,
    End,
}

/// Looks at a run.
pub(super) struct Watch<'a> {
    experiment: &'a Experiment,
    graph: &'a Graph,
    instruments: Vec<(String, Box<dyn Instrument>)>,
    changes: Changes,
    /// When time begins to count, once it is known.
    clock: Option<SimTime>,
    warm: Option<Snapshot>,
}

/// The counters at one instant.
struct Snapshot {
    at: SimTime,
    /// By host, by connection in its order of opening.
    ends: Vec<Vec<End>>,
    /// By port.
    ports: Vec<(PortStats, PauseStats, Depth)>,
    /// By traffic.
    failed: Vec<u64>,
    /// By host.
    hosts: Vec<OfHost>,
    delivered: Vec<ByteCount>,
}

/// What is counted of a host.
#[derive(Clone, Copy, Default)]
struct OfHost {
    handshake_timeouts: u64,
    damaged: u64,
    without_buffer: Option<WithoutBuffer>,
    work: Option<HostStats>,
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
    /// The traffic that opened it here, while its handshake is not complete.
    opening: Option<u16>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        experiment: &'a Experiment,
        graph: &'a Graph,
        instruments: Vec<(String, Box<dyn Instrument>)>,
        changes: Changes,
    ) -> Self {
        Self {
            experiment,
            graph,
            instruments,
            changes,
            clock: match experiment.run.clock {
                Clock::Start => Some(SimTime::ZERO),
                Clock::FirstSend => None,
            },
            warm: None,
        }
    }

    /// Whether time does not count yet.
    pub(super) fn waits(&self) -> bool {
        self.clock.is_none()
    }

    /// Time counts from `now` on.
    pub(super) fn start(&mut self, now: SimTime) {
        self.clock = Some(now);
    }

    /// Before the first event; without a warm-up it is measured from here on.
    pub(super) fn prepare<T: Tap<SimPacket>>(&mut self, world: &mut RunWorld<T>, log: &Log) {
        self.each(world, |instrument, view| instrument.prepare(view));
        if self.warm_up() == SimTime::ZERO {
            self.begin(world, log);
        }
    }

    /// The warm-up is over.
    fn begin<T: Tap<SimPacket>>(&mut self, world: &mut RunWorld<T>, log: &Log) {
        let now = world.now();
        self.warm = Some(Snapshot::take(world, log));
        for port in (0..world.network().ports()).map(PortId) {
            world.network_mut().restart_peak(now, port);
        }
        self.each(world, |instrument, view| instrument.begin(view));
    }

    fn each<T: Tap<SimPacket>>(
        &mut self,
        world: &mut RunWorld<T>,
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
    pub(super) fn end(&self) -> SimTime {
        let duration = SimTime::from_duration(self.experiment.run.duration);
        self.clock.map_or(SimTime::MAX, |clock| clock + duration)
    }

    /// Without a warm-up all counts, handshakes included, whenever time begins to.
    fn warm_up(&self) -> SimTime {
        let warm_up = SimTime::from_duration(self.experiment.run.warm_up);
        match self.clock {
            _ if warm_up == SimTime::ZERO => warm_up,
            Some(clock) => clock + warm_up,
            None => SimTime::MAX,
        }
    }

    /// When to look next.
    pub(super) fn next(&self) -> SimTime {
        let change = self.changes.next();
        let warm_up = self.warm.is_none().then(|| self.warm_up());
        let looks = self.instruments.iter().filter_map(|(_, i)| i.next());
        let next = looks.chain(warm_up).chain(change).min();
        next.map_or(self.end(), |at| at.min(self.end()))
    }

    /// Looks, and changes what is to be changed.
    pub(super) fn look<T: Tap<SimPacket>>(
        &mut self,
        world: &mut RunWorld<T>,
        log: &Log,
    ) -> Result<Next, RunError> {
        let now = world.now();
        for change in self.changes.take_due(now) {
            // Each was tried before.
            let changed = world.apply(&change);
            changed.map_err(|e| RunError::Internal(e.to_string()))?;
        }
        if self.warm.is_none() && now >= self.warm_up() {
            self.begin(world, log);
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

    pub(super) fn finish<T: Tap<SimPacket>>(
        mut self,
        world: &mut RunWorld<T>,
        outcome: Outcome,
        log: &Log,
    ) -> RunOutcome {
        if self.warm.is_none() {
            // It was over before the warm-up was: there is nothing to measure.
            self.begin(world, log);
        }
        let end = Snapshot::take(world, log);
        let warmed_up = !self.experiment.run.warm_up.is_zero();
        let warm = self.warm.take();
        let warm = warm.unwrap_or_else(|| Snapshot::take(world, log));
        let changes = std::mem::take(&mut self.changes).made();
        let mut readings = Vec::new();
        let names: Vec<String> = self
            .instruments
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        self.each(world, |instrument, view| {
            readings.push(instrument.finish(view))
        });
        let readings = names.into_iter().zip(readings);
        let hosts = self.graph.nodes().filter_map(|node| match node {
            NodeId::Host(host) => {
                let (is, was) = (&end.hosts[host.index()], &warm.hosts[host.index()]);
                let work = is.work.zip(was.work);
                let refused = is.without_buffer.zip(was.without_buffer);
                Some(HostOutcome {
                    name: self.graph.node_name(node).to_owned(),
                    handshake_timeouts: is.handshake_timeouts - was.handshake_timeouts,
                    damaged: is.damaged - was.damaged,
                    without_buffer: refused.map(|(is, was)| is.since(&was)),
                    work: work.map(|(is, was)| is.since(&was)),
                })
            }
            NodeId::Switch(_) => None,
        });
        let measured_from = self.clock.map_or(end.at, |clock| warm.at.max(clock));
        let measured_from = measured_from.to_instant();
        RunOutcome {
            outcome,
            simulated: end.at.to_duration(),
            measured: end.at.to_instant().since(measured_from),
            measured_from,
            events: world.events(),
            traffic: self
                .experiment
                .traffic
                .iter()
                .map(|t| t.name.clone())
                .collect(),
            hosts: hosts.collect(),
            delivered: end
                .delivered
                .iter()
                .zip(&warm.delivered)
                .map(|(is, was)| is.saturating_sub(*was))
                .collect(),
            opening: (0..self.experiment.traffic.len() as u16)
                .map(|traffic| Opening {
                    at_begin: warmed_up.then(|| warm.opening(traffic)),
                    at_end: end.opening(traffic),
                })
                .collect(),
            flows: flows(world, &warm, &end),
            ports: self.ports(&warm, &end),
            transfers: log.take_transfers(),
            spans: log.take_spans(),
            gauges: log.take_gauges(),
            failed: end
                .failed
                .iter()
                .zip(&warm.failed)
                .map(|(is, was)| is - was)
                .collect(),
            readings: readings.filter(|(_, r)| !r.of.is_empty()).collect(),
            changes: changes
                .into_iter()
                .map(|(at, what)| (at.to_instant(), what))
                .collect(),
            unrecorded: Vec::new(),
        }
    }

    fn ports(&self, warm: &Snapshot, end: &Snapshot) -> Vec<PortOutcome> {
        let from = self.clock.map_or(end.at, |clock| warm.at.max(clock));
        let span = (end.at - from).as_nanos().max(1);
        let mut all = Vec::with_capacity(end.ports.len());
        for (port, (before, after)) in self.graph.ports().zip(warm.ports.iter().zip(&end.ports)) {
            let ((was, paused_then, queued_then), (is, paused_now, queued_now)) = (before, after);
            let Some((from, to)) = self.graph.ends(port) else {
                continue;
            };
            // What was taken and is not there any more has left: a packet that is dropped while it
            // waits is taken back.
            let left = |stats: &PortStats, queued: &Depth| {
                let packets = stats.packets.saturating_sub(queued.packets.into());
                (packets, stats.bytes.saturating_sub(queued.bytes))
            };
            let (then, now) = (left(was, queued_then), left(is, queued_now));
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
                pause: paused_now.since(paused_then),
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
    fn take<T: Tap<SimPacket>>(world: &mut RunWorld<T>, log: &Log) -> Self {
        let at = world.now();
        let ends = world.hosts().iter().map(|host| {
            let end = |opened: &crate::traffic::Opened| {
                let conn = host.tcp().connection(opened.conn);
                conn.map_or(End::default(), |conn| End {
                    sender: conn.sender_stats(),
                    // Also what waits for others before it: counted when a gap closes, what came
                    // before the warm-up could count after it.
                    bytes_in: conn.stats().bytes_in + conn.out_of_order(),
                    read: conn.stats().bytes_in - conn.readable(),
                    out_of_order_dropped: conn.stats().out_of_order_dropped,
                    handshake_timeouts: conn.handshake_timeouts().into(),
                    opening: (opened.opener == Opener::Here && conn.state() == State::SynSent)
                        .then_some(opened.traffic),
                })
            };
            host.app.opened().iter().map(end).collect()
        });
        let ends = ends.collect();
        let ports = (0..world.network().ports()).map(PortId).map(|port| {
            let queued = world.network_mut().queued(at, port);
            let pause = world.network().pause_stats(at, port);
            (world.network().stats(port).clone(), pause, queued)
        });
        let ports = ports.collect();
        let hosts = world.hosts().iter().zip((0..).map(HostId));
        let hosts = hosts.map(|(host, id)| OfHost {
            handshake_timeouts: host.tcp().stats().handshake_timeouts,
            damaged: host.corrupt_in,
            without_buffer: world.network().without_buffer(id),
            work: world.network().host_stats(at, id),
        });
        Self {
            at,
            hosts: hosts.collect(),
            delivered: log.all_delivered(),
            ports,
            ends,
            failed: log.all_failed(),
        }
    }

    /// How many connections of a traffic were opening.
    fn opening(&self, traffic: u16) -> u64 {
        let ends = self.ends.iter().flatten();
        ends.filter(|end| end.opening == Some(traffic)).count() as u64
    }
}

/// A connection, as both its ends know it: traffic, opener, its port, listener.
type Key = (u16, HostId, u16, HostId);

/// What came to one end of a connection.
struct Arrived {
    received: ByteCount,
    read: ByteCount,
    out_of_order_dropped: u64,
    control: bool,
}

/// Each direction of each connection in which data was sent.
fn flows<T: Tap<SimPacket>>(
    world: &RunWorld<T>,
    warm: &Snapshot,
    end: &Snapshot,
) -> Vec<FlowOutcome> {
    let mut all: Vec<FlowOutcome> = Vec::new();
    // By connection and sending host.
    let mut places: BTreeMap<(Key, HostId), usize> = BTreeMap::new();
    let mut arrived: Vec<((Key, HostId), Arrived)> = Vec::new();
    for (h, host) in world.hosts().iter().enumerate() {
        let id = HostId(h as u32);
        for (n, opened) in host.app.opened().iter().enumerate() {
            let Some(conn) = host.tcp().connection(opened.conn) else {
                continue;
            };
            let key = match opened.opener {
                Opener::Here => (opened.traffic, id, conn.local().port(), opened.peer),
                Opener::There => (opened.traffic, opened.peer, conn.remote().port(), id),
            };
            let now = end.ends[h][n];
            let then = warm.ends[h].get(n).copied().unwrap_or_default();
            let here = Arrived {
                received: ByteCount::new(now.bytes_in.saturating_sub(then.bytes_in)),
                read: ByteCount::new(now.read),
                out_of_order_dropped: now.out_of_order_dropped - then.out_of_order_dropped,
                control: opened.control,
            };
            arrived.push(((key, opened.peer), here));
            if now.sender.segments == 0 && now.handshake_timeouts == 0 {
                continue;
            }
            places.insert((key, id), all.len());
            all.push(FlowOutcome {
                traffic: opened.traffic,
                from: id.0,
                to: opened.peer.0,
                port: key.2,
                opened: opened.at,
                received: ByteCount::ZERO,
                read: ByteCount::ZERO,
                out_of_order_dropped: 0,
                control: false,
                sender: now.sender.since(&then.sender),
                handshake_timeouts: now.handshake_timeouts - then.handshake_timeouts,
            });
        }
    }
    for (key, here) in arrived {
        if let Some(flow) = places.get(&key).and_then(|at| all.get_mut(*at)) {
            flow.received = here.received;
            flow.read = here.read;
            flow.out_of_order_dropped = here.out_of_order_dropped;
            flow.control = here.control;
        }
    }
    all
}
