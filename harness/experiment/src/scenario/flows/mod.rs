//! Flows over one switch: long-lived ones, single transfers, and transfers that are asked for
//! again and again, with a bottleneck that is looked at closely.
//!
//! Where [`incast`](super::incast) is one experiment with many knobs, this is the ground for
//! experiments with few flows: a congestion control's sawtooth, two algorithms on one link,
//! short transfers behind long ones, all hosts asking all others.

mod apps;
pub mod outcome;
pub mod spec;
mod validate;

pub use outcome::{FlowOutcome, FlowSample, FlowsRun, PortOutcome, QueueSample, Transfer};
pub use spec::{Asked, FlowNet, FlowSpec, FlowsSpec, HostSpec, Load, Loss, PortBuffer, Record};
pub use validate::MAX_FLOWS;

use super::spec::ImpairedWay;
use super::{Outcome, Recording, RunContext, ScenarioError, Unrecorded, network, tcp};
use crate::host::capture::Capture;
use crate::host::trace::TraceLog;
use crate::host::{SimPacket, TcpHost};
use crate::net::buffer::{Capacity, Depth};
use crate::net::graph::{Attachment, TieOrder};
use crate::net::impair::When;
use crate::net::network::Network;
use crate::net::nic::NicSpec;
use crate::net::packet::{HostId, PortId};
use crate::net::port::{PoolId, PortSpec};
use crate::net::stats::{DropReason, PortStats, QueueArea};
use crate::net::topology::Star;
use crate::sim::rng::Probability;
use crate::sim::tap::{NoTap, Tap};
use crate::sim::time::SimTime;
use crate::sim::world::{Outcome as WorldOutcome, World};
use crate::version::{COMMIT, VERSION};
use apps::{Broken, Host, Unfinished};
use narrows::config::TcpConfig;
use narrows::congestion::{CongestionControl, CongestionRegistry, RtoRegistry};
use narrows::recovery::SenderStats;
use narrows::recovery::detector::{self, DetectorRegistry};
use narrows::{ByteCount, Duration, Instant, Rate};
use std::sync::Arc;

/// How often the cancellation flag is looked at, in host events.
const CANCEL_INTERVAL: u32 = 4_096;

/// Runs flows with the algorithms of its registries.
#[derive(Clone, Debug)]
pub struct Flows {
    /// Congestion controls by name.
    pub congestion: Arc<CongestionRegistry>,
    /// RTO policies by name.
    pub rto: Arc<RtoRegistry>,
    /// Loss detectors by name.
    pub detectors: Arc<DetectorRegistry>,
}

impl Default for Flows {
    /// With what narrows brings along.
    fn default() -> Self {
        Self {
            congestion: Arc::new(CongestionRegistry::standard()),
            rto: Arc::new(RtoRegistry::standard()),
            detectors: Arc::new(detector::standard()),
        }
    }
}

impl Flows {
    /// Simulate `spec` to its end.
    ///
    /// # Errors
    /// When the spec cannot be run, or the run was cancelled.
    pub fn run(&self, spec: &FlowsSpec, ctx: RunContext<'_>) -> Result<FlowsRun, ScenarioError> {
        spec.validate()?;
        let tcp = spec
            .flows
            .iter()
            .map(|flow| self.tcp_config(spec, flow))
            .collect::<Result<Vec<_>, _>>()?;
        let mut ctx = ctx;
        let capture = ctx.capture.take();
        let at = HostId(spec.bottleneck);
        let capture = capture.map(|out| Capture::new(out, at, ctx.snap_length));
        let (mut result, written) = match capture {
            None => (run(spec, &tcp, ctx, NoTap)?.0, Ok(())),
            Some(Err(e)) => (run(spec, &tcp, ctx, NoTap)?.0, Err(e)),
            Some(Ok(tap)) => {
                let (result, tap) = run(spec, &tcp, ctx, tap)?;
                (result, tap.finish())
            }
        };
        let failed = written.err();
        let failed = failed.map(|e| Unrecorded::new(Recording::Capture, &e));
        result.unrecorded.extend(failed);
        Ok(result)
    }

    /// The TCP at both ends of `flow`.
    fn tcp_config(
        &self,
        spec: &FlowsSpec,
        flow: &FlowSpec,
    ) -> Result<Arc<TcpConfig>, ScenarioError> {
        let mut words = spec.tcp.clone();
        if let Some(own) = &flow.congestion {
            words.congestion.clone_from(own);
        }
        let mut config = tcp::config(
            &words,
            spec.net.mtu,
            &self.congestion,
            &self.rto,
            &self.detectors,
        )?;
        // What fits the receive window must fit the scoreboard too.
        let segments = config.recv_buffer / usize::from(config.mss).max(1);
        config.max_outstanding_segments = config.max_outstanding_segments.max(segments);
        Ok(Arc::new(config))
    }
}

/// The star that the spec describes.
fn star(spec: &FlowsSpec) -> Star {
    let net = &spec.net;
    let (capacity, pool, pools) = match net.buffer {
        PortBuffer::Own(limit) => {
            let own = network::port_capacity(limit, net.queue_counting);
            (own, None, Vec::new())
        }
        PortBuffer::Shared(shared) => {
            let pool = network::pool(shared);
            (Capacity::Unlimited, Some(PoolId(0)), vec![pool])
        }
    };
    let attach = |(h, host): (usize, &HostSpec)| {
        let mut up = network::link(host.rate, host.delay, net.framing);
        let mut down = up.clone();
        if h == spec.bottleneck as usize {
            let impair = network::impairments(net.impair);
            if net.impair.on != ImpairedWay::Data {
                up.impair = impair.clone();
            }
            if net.impair.on != ImpairedWay::Acks {
                down.impair = impair;
            }
            match net.loss {
                Loss::None => {}
                Loss::EachNth(n) => down.impair.loss = When::EachNth(n),
                Loss::Random(ppb) => {
                    let share = Probability::ratio(u64::from(ppb), 1_000_000_000);
                    down.impair.loss = When::Chance(share);
                }
            }
        }
        Attachment {
            nic: NicSpec {
                overhead: SimTime::from_duration(net.nic_overhead),
                ..NicSpec::new(network::capacity(net.nic))
            },
            up,
            port: PortSpec {
                capacity,
                in_service: network::in_service(net.queue_counting),
                discipline: network::discipline(net.aqm, host.rate, net.mtu),
                pool,
            },
            down,
        }
    };
    Star {
        hosts: spec.hosts.iter().enumerate().map(attach).collect(),
        pools,
    }
}

type FlowsWorld<T> = World<TcpHost<Host>, T>;

/// One run, watched by `tap`.
fn run<T: Tap<SimPacket>>(
    spec: &FlowsSpec,
    tcp: &[Arc<TcpConfig>],
    mut ctx: RunContext<'_>,
    tap: T,
) -> Result<(FlowsRun, T), ScenarioError> {
    let mut trace = ctx
        .trace
        .take()
        .map(|out| TraceLog::new(out, VERSION, COMMIT));
    let internal = |e: &dyn std::fmt::Display| ScenarioError::Internal(e.to_string());
    let network: Network<SimPacket> = star(spec)
        .graph()
        .and_then(|graph| graph.build(spec.seed, TieOrder::Shuffled))
        .map_err(|e| internal(&e))?;
    let port = network
        .port_to(HostId(spec.bottleneck))
        .ok_or_else(|| internal(&"the bottleneck has no port"))?;
    let mut hosts = Vec::with_capacity(spec.hosts.len());
    let unfinished = Unfinished::new(spec.flows.len());
    for id in 0..spec.hosts.len() as u32 {
        let app = Host::new(spec, id, tcp, &unfinished);
        let mut host = TcpHost::new(HostId(id), tcp[0].clone(), app, spec.seed, spec.wire)
            .map_err(|e| internal(&e))?;
        if let Some(trace) = &trace {
            trace.listen(HostId(id), &mut host);
        }
        hosts.push(host);
    }
    let mut world = World::with_tap(network, hosts, tap);
    world.network_mut().measure_queue(port);
    // All listen before the first SYN can arrive, which is at the earliest at the same instant
    // but after all starts.
    for h in 0..spec.hosts.len() as u32 {
        world.start_at(HostId(h), SimTime::ZERO);
    }
    let mut watch = Watch::new(spec, port);
    let mut countdown = CANCEL_INTERVAL;
    let mut cancelled = false;
    let ended = loop {
        let until = watch.next();
        let outcome = world.run(until, |world| {
            countdown -= 1;
            if countdown == 0 {
                countdown = CANCEL_INTERVAL;
                cancelled = ctx.cancelled();
                if let Some(trace) = &mut trace {
                    trace.drain();
                }
                let now = world.now().to_duration();
                ctx.report(now.as_nanos(), spec.duration.as_nanos());
            }
            !cancelled && unfinished.any()
        });
        // A run with short spans may never count down.
        cancelled |= ctx.cancelled();
        if cancelled || outcome != WorldOutcome::Reached || watch.look(&mut world) == Next::End {
            break outcome;
        }
    };
    let traced = trace.map_or(Ok(()), TraceLog::finish);
    if cancelled {
        return Err(ScenarioError::Cancelled);
    }
    let outcome = match ended {
        WorldOutcome::Reached => Outcome::Completed,
        WorldOutcome::Stopped | WorldOutcome::Idle if !unfinished.any() => {
            watch.last_look(&world);
            Outcome::Completed
        }
        WorldOutcome::Idle => Outcome::Stalled,
        other => {
            return Err(internal(&format_args!("the world ended with {other:?}")));
        }
    };
    let mut result = watch.finish(&mut world, outcome);
    let failed = traced.err();
    let failed = failed.map(|e| Unrecorded::new(Recording::Trace, &e));
    result.unrecorded.extend(failed);
    let (_, _, tap) = world.into_parts();
    Ok((result, tap))
}

/// Whether the run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Goes,
    End,
}

/// Looks at a run at the instants that the spec names.
struct Watch<'a> {
    spec: &'a FlowsSpec,
    port: PortId,
    next_sample: SimTime,
    sampled: Vec<Vec<FlowSample>>,
    warm: Option<Snapshot>,
}

/// The counters at the end of the warm-up.
struct Snapshot {
    at: SimTime,
    /// Bytes that the applications have.
    delivered: Vec<ByteCount>,
    /// Bytes that have arrived.
    received: Vec<ByteCount>,
    senders: Vec<SenderStats>,
    /// Handshake timeouts of both ends.
    handshakes: Vec<u64>,
    /// Segments that the receivers did not keep.
    discarded: Vec<u64>,
    stats: PortStats,
    area: QueueArea,
    queued: Depth,
}

impl<'a> Watch<'a> {
    fn new(spec: &'a FlowsSpec, port: PortId) -> Self {
        Self {
            spec,
            port,
            next_sample: SimTime::ZERO,
            sampled: vec![Vec::new(); spec.flows.len()],
            warm: None,
        }
    }

    /// When to look next.
    fn next(&self) -> SimTime {
        let mut at = SimTime::from_duration(self.spec.duration);
        if self.warm.is_none() {
            at = at.min(SimTime::from_duration(self.spec.warm_up));
        }
        if self.spec.record.samples.is_some() {
            at = at.min(self.next_sample);
        }
        at
    }

    fn look<T: Tap<SimPacket>>(&mut self, world: &mut FlowsWorld<T>) -> Next {
        let now = world.now();
        if self.warm.is_none() && now >= SimTime::from_duration(self.spec.warm_up) {
            self.warm = Some(snapshot(self.spec, self.port, world));
            world.network_mut().restart_peak(now, self.port);
            if self.spec.record.queue {
                world.network_mut().trace_queue(self.port);
            }
        }
        if let Some(interval) = self.spec.record.samples
            && now >= self.next_sample
        {
            self.sample(world);
            self.next_sample = now + SimTime::from_duration(interval);
        }
        if now >= SimTime::from_duration(self.spec.duration) {
            Next::End
        } else {
            Next::Goes
        }
    }

    /// The run is over before its time.
    fn last_look<T: Tap<SimPacket>>(&mut self, world: &FlowsWorld<T>) {
        if self.spec.record.samples.is_some() {
            self.sample(world);
        }
    }

    fn sample<T: Tap<SimPacket>>(&mut self, world: &FlowsWorld<T>) {
        let at = world.now().to_instant();
        for host in world.hosts() {
            for s in &host.app.senders {
                let Some(conn) = s.line.conn.and_then(|id| host.tcp().connection(id)) else {
                    continue;
                };
                let sender = conn.sender();
                let mut variables = Vec::new();
                sender
                    .congestion()
                    .variables(&mut |name, value| variables.push((name, value)));
                self.sampled[s.line.flow].push(FlowSample {
                    at,
                    cwnd: sender.congestion().cwnd(),
                    ssthresh: sender.congestion().ssthresh(),
                    in_flight: sender.scoreboard().pipe(),
                    srtt: sender.rtt().srtt(),
                    delivered: ByteCount::ZERO,
                    received: ByteCount::ZERO,
                    timeouts: sender.stats().timeouts,
                    variables,
                });
            }
        }
        for host in world.hosts() {
            for r in &host.app.receivers {
                if let Some(sample) = self.sampled[r.line.flow].last_mut()
                    && sample.at == at
                {
                    sample.delivered = r.delivered;
                    sample.received = r.received(host.tcp());
                }
            }
        }
    }

    fn finish<T: Tap<SimPacket>>(
        self,
        world: &mut FlowsWorld<T>,
        mut outcome: Outcome,
    ) -> FlowsRun {
        let end = snapshot(self.spec, self.port, world);
        // A run that was over before the warm-up has nothing to measure.
        let warm = self
            .warm
            .unwrap_or_else(|| snapshot(self.spec, self.port, world));
        let simulated = end.at.to_duration();
        let measured = (end.at - warm.at).to_duration();
        for broken in world.hosts().iter().filter_map(|h| h.app.broken) {
            outcome = match broken {
                Broken::Corrupt => Outcome::CorruptData,
                Broken::Lost if outcome == Outcome::CorruptData => outcome,
                Broken::Lost => Outcome::ConnectionLost,
            };
        }
        let bottleneck = port_outcome(self.spec, self.port, world, &warm, &end);
        let mut flows: Vec<FlowOutcome> = self
            .sampled
            .into_iter()
            .enumerate()
            .map(|(i, samples)| FlowOutcome {
                delivered: end.delivered[i],
                received: end.received[i].saturating_sub(warm.received[i]),
                active: Duration::ZERO,
                goodput: Rate::default(),
                transfers: Vec::new(),
                at_warm_up: warm.senders[i],
                at_end: end.senders[i],
                handshake_timeouts: end.handshakes[i].saturating_sub(warm.handshakes[i]),
                out_of_order_dropped: end.discarded[i].saturating_sub(warm.discarded[i]),
                samples,
            })
            .collect();
        transfers(world.hosts(), &mut flows);
        let span = (warm.at.to_instant(), end.at.to_instant());
        for (flow, spec) in flows.iter_mut().zip(&self.spec.flows) {
            flow.active = active(spec, flow, span);
            flow.goodput = Rate::of(flow.received, flow.active).unwrap_or_default();
        }
        let network = world.network();
        let switch = (self.spec.hosts.len() as u32..network.ports()).map(PortId);
        let (mut switch_drops, mut marks) = (0, 0);
        for stats in switch.map(|p| network.stats(p)) {
            switch_drops += stats.dropped_total() - stats.dropped(DropReason::Lost);
            marks += stats.marks;
        }
        FlowsRun {
            outcome,
            simulated,
            measured,
            flows,
            bottleneck,
            switch_drops,
            marks,
            events: world.events(),
            unrecorded: Vec::new(),
        }
    }
}

/// For how much of the time from `from` to `to` a flow had something to do: from its start on, and
/// until its last transfer was complete.
fn active(spec: &FlowSpec, flow: &FlowOutcome, (from, to): (Instant, Instant)) -> Duration {
    let all = match spec.load {
        Load::Unlimited => usize::MAX,
        Load::Bytes(_) => 1,
        Load::Asked(asked) => asked.times as usize,
    };
    let last = flow
        .transfers
        .last()
        .filter(|_| flow.transfers.len() >= all);
    let done = last.map_or(to, |t| to.min(t.began + t.took));
    let start = from.max(Instant::ZERO + spec.start);
    if start < done {
        done.since(start)
    } else {
        Duration::ZERO
    }
}

/// The transfers that the receivers saw, with the timeouts that the senders had.
fn transfers(hosts: &[TcpHost<Host>], flows: &mut [FlowOutcome]) {
    for r in hosts.iter().flat_map(|h| &h.app.receivers) {
        flows[r.line.flow].transfers.clone_from(&r.transfers);
    }
    for (host, s) in hosts
        .iter()
        .flat_map(|h| h.app.senders.iter().map(move |s| (h, s)))
    {
        let flow = &mut flows[s.line.flow];
        let before = &s.timeouts_before;
        for (k, transfer) in flow.transfers.iter_mut().enumerate() {
            let after = before.get(k + 1).copied().unwrap_or(flow.at_end.timeouts);
            transfer.timeouts = after.saturating_sub(before.get(k).copied().unwrap_or(0));
        }
        // A transfer that nobody asks for begins with its SYN.
        if let (Load::Bytes(_), Some(first)) = (s.line.load(), flow.transfers.first_mut()) {
            first.timeouts += s.line.handshake_timeouts(host.tcp());
        }
    }
}

/// The counters now.
fn snapshot<T: Tap<SimPacket>>(
    spec: &FlowsSpec,
    port: PortId,
    world: &mut FlowsWorld<T>,
) -> Snapshot {
    let at = world.now();
    let area = world
        .network_mut()
        .queue_area(at, port)
        .expect("measured from the start");
    let queued = world.network_mut().queued(at, port);
    let mut delivered = vec![ByteCount::ZERO; spec.flows.len()];
    let mut received = delivered.clone();
    let mut senders = vec![SenderStats::default(); spec.flows.len()];
    let mut handshakes = vec![0; spec.flows.len()];
    let mut discarded = handshakes.clone();
    for host in world.hosts() {
        for r in &host.app.receivers {
            delivered[r.line.flow] = r.delivered;
            received[r.line.flow] = r.received(host.tcp());
            handshakes[r.line.flow] += r.line.handshake_timeouts(host.tcp());
            if let Some(conn) = r.line.conn.and_then(|id| host.tcp().connection(id)) {
                discarded[r.line.flow] = conn.stats().out_of_order_dropped;
            }
        }
        for s in &host.app.senders {
            handshakes[s.line.flow] += s.line.handshake_timeouts(host.tcp());
            if let Some(conn) = s.line.conn.and_then(|id| host.tcp().connection(id)) {
                senders[s.line.flow] = conn.sender_stats();
            }
        }
    }
    Snapshot {
        at,
        delivered,
        received,
        senders,
        handshakes,
        discarded,
        stats: world.network().stats(port).clone(),
        area,
        queued,
    }
}

fn port_outcome<T: Tap<SimPacket>>(
    spec: &FlowsSpec,
    port: PortId,
    world: &mut FlowsWorld<T>,
    warm: &Snapshot,
    end: &Snapshot,
) -> PortOutcome {
    let network = world.network_mut();
    let trace = network.take_queue_trace(end.at, port).unwrap_or_default();
    let dropped = |reason| end.stats.dropped(reason) - warm.stats.dropped(reason);
    let packets = end.stats.packets - warm.stats.packets;
    let bytes = end.stats.bytes - warm.stats.bytes;
    // Sent is what was taken, and was there before, and is not there now.
    let sent = packets + u64::from(warm.queued.packets) - u64::from(end.queued.packets);
    let sent_bytes = bytes + warm.queued.bytes - end.queued.bytes;
    let gap = match spec.net.framing {
        super::spec::Framing::None => 0,
        super::spec::Framing::Ethernet => 20,
    };
    let rate = spec.hosts[spec.bottleneck as usize].rate;
    let busy = rate.time_for(ByteCount::new(sent_bytes + sent * gap));
    let span = (end.at - warm.at).as_nanos().max(1);
    let ppm = u128::from(busy.as_nanos()) * 1_000_000 / u128::from(span);
    PortOutcome {
        utilisation_ppm: u64::try_from(ppm).unwrap_or(u64::MAX),
        mean_queue_millipackets: end.area.mean_millipackets_since(&warm.area),
        mean_queue_bytes: end.area.mean_bytes_since(&warm.area),
        max_queue_packets: end.stats.max_packets,
        packets,
        marks: end.stats.marks - warm.stats.marks,
        full: end.stats.dropped_for_room() - warm.stats.dropped_for_room(),
        early: dropped(DropReason::Early),
        lost: dropped(DropReason::Lost),
        queue: trace
            .samples()
            .iter()
            .map(|(at, depth)| QueueSample {
                at_picos: at.as_picos(),
                packets: depth.packets,
                bytes: depth.bytes,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests;
