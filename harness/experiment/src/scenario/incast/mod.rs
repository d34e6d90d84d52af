//! The incast run: a client, servers, a star, and barrier-synchronised blocks.
//!
//! Everything is packets of the TCP under study: handshakes, requests and data travel on the
//! same connections. Models hosts without CPU time and an application that reads at once.

mod apps;
pub mod blocks;
mod network;

use super::spec::{IncastSpec, Length};
use super::{
    DropCounts, IncastRun, IncastRunner, NicRefusals, Outcome, QueuePeak, Recording, RunContext,
    ScenarioError, TimeoutCounts, Unrecorded, tcp,
};
use crate::host::capture::Capture;
use crate::host::trace::TraceLog;
use crate::host::{SimPacket, TcpHost};
use crate::net::network::Network;
use crate::net::packet::{HostId, PortId};
use crate::net::stats::DropReason;
use crate::sim::tap::{NoTap, Tap};
use crate::sim::time::SimTime;
use crate::sim::world::{Outcome as WorldOutcome, World};
use crate::version::{COMMIT, VERSION};
use apps::{Client, Role, Server};
use narrows::config::TcpConfig;
use narrows::congestion::{CongestionRegistry, RtoRegistry};
use narrows::endpoint::ConnId;
use narrows::recovery::detector::{self, DetectorRegistry};
use narrows::{ByteCount, Instant, Rate};
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
    /// Loss detectors by name.
    pub detectors: Arc<DetectorRegistry>,
}

impl Default for Incast {
    /// With what narrows brings along.
    fn default() -> Self {
        Self {
            congestion: Arc::new(CongestionRegistry::standard()),
            rto: Arc::new(RtoRegistry::standard()),
            detectors: Arc::new(detector::standard()),
        }
    }
}

impl IncastRunner for Incast {
    fn run(&self, spec: &IncastSpec, ctx: RunContext<'_>) -> Result<IncastRun, ScenarioError> {
        let mut ctx = ctx;
        let capture = ctx.capture.take();
        let capture = capture.map(|out| Capture::new(out, CLIENT, ctx.snap_length));
        let (mut result, written) = match capture {
            None => (self.watch(spec, ctx, NoTap)?.0, Ok(())),
            Some(Err(e)) => (self.watch(spec, ctx, NoTap)?.0, Err(e)),
            Some(Ok(tap)) => {
                let (result, tap) = self.watch(spec, ctx, tap)?;
                (result, tap.finish())
            }
        };
        let failed = written.err();
        let failed = failed.map(|e| Unrecorded::new(Recording::Capture, &e));
        result.unrecorded.extend(failed);
        Ok(result)
    }
}

impl Incast {
    /// Runs `spec` with a tap of the caller's, which sees each packet at the hosts and at the
    /// switch. A capture in `ctx` is left alone.
    ///
    /// # Errors
    /// Those of [`IncastRunner::run`].
    pub fn watch<T: Tap<SimPacket>>(
        &self,
        spec: &IncastSpec,
        ctx: RunContext<'_>,
        tap: T,
    ) -> Result<(IncastRun, T), ScenarioError> {
        spec.validate()?;
        let tcp = tcp::config(
            &spec.tcp,
            spec.net.mtu,
            &self.congestion,
            &self.rto,
            &self.detectors,
        )?;
        let tcp = Arc::new(tcp);
        run(spec, &tcp, ctx, tap)
    }
}

/// One run, watched by `tap`.
fn run<T: Tap<SimPacket>>(
    spec: &IncastSpec,
    tcp: &Arc<TcpConfig>,
    mut ctx: RunContext<'_>,
    tap: T,
) -> Result<(IncastRun, T), ScenarioError> {
    let mut trace = ctx
        .trace
        .take()
        .map(|out| TraceLog::new(out, VERSION, COMMIT));
    let network: Network<SimPacket> =
        network::network(spec).map_err(|e| ScenarioError::Internal(e.to_string()))?;
    let mut hosts = Vec::with_capacity(spec.servers as usize + 1);
    for h in 0..=spec.servers {
        let app = if h == 0 {
            Role::Client(Box::new(Client::new(spec)))
        } else {
            Role::Server(Server::new(spec, h - 1))
        };
        let mut host = TcpHost::new(HostId(h), tcp.clone(), app, spec.seed, spec.wire)
            .map_err(|e| ScenarioError::Internal(e.to_string()))?;
        if let Some(trace) = &trace {
            trace.listen(HostId(h), &mut host);
        }
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
                if let Some(trace) = &mut trace {
                    trace.drain();
                }
                let (done, all) = progress(spec, client(w), w.now().to_instant());
                ctx.report(done, all);
            }
            let client = client(w);
            !cancelled
                && client.blocks.outcome.is_none()
                && (deadline.is_some() || client.blocks.began.is_none())
        });
        match (outcome, deadline, client(&world).blocks.began) {
            (WorldOutcome::Stopped, None, Some(began))
                if !cancelled && client(&world).blocks.outcome.is_none() =>
            {
                let limit = match spec.length {
                    Length::Blocks { time_limit, .. } => time_limit,
                    Length::Time(t) => t,
                };
                deadline = Some(SimTime::from_instant(began + limit));
            }
            (outcome, ..) => break outcome,
        }
    };
    let traced = trace.map_or(Ok(()), TraceLog::finish);
    if cancelled {
        return Err(ScenarioError::Cancelled);
    }
    let now = world.now().to_instant();
    let events = world.events();
    let (hosts, network, tap) = world.into_parts();
    let outcome = match (ended, client_of(&hosts).blocks.outcome) {
        (_, Some(outcome)) => outcome,
        // A server whose connection gave up can tell nobody: the client waits for ever.
        _ if hosts
            .iter()
            .any(|h| matches!(&h.app, Role::Server(s) if s.lost)) =>
        {
            Outcome::ConnectionLost
        }
        (WorldOutcome::Reached | WorldOutcome::TimeLimit, None) => match spec.length {
            Length::Time(_) => Outcome::Completed,
            Length::Blocks { .. } => Outcome::TimeLimit,
        },
        (WorldOutcome::Idle, None) => Outcome::Stalled,
        (other, None) => {
            return Err(ScenarioError::Internal(format!(
                "the world ended with {other:?}"
            )));
        }
    };
    let mut result = collect(spec, &hosts, &network, outcome, now, events);
    let failed = traced.err();
    let failed = failed.map(|e| Unrecorded::new(Recording::Trace, &e));
    result.unrecorded.extend(failed);
    Ok((result, tap))
}

/// How much of the run is done, of how much.
fn progress(spec: &IncastSpec, client: &Client, now: Instant) -> (u64, u64) {
    match spec.length {
        Length::Blocks { blocks, .. } => {
            let all = spec.block.total(spec.servers).get();
            let all = all.saturating_mul(u64::from(blocks));
            (client.blocks.payload.get(), all)
        }
        Length::Time(t) => {
            let since = client.blocks.began.map(|began| now.since(began));
            (since.map_or(0, |d| d.as_nanos()), t.as_nanos())
        }
    }
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
    let began = client.blocks.began.unwrap_or(now);
    let end = match spec.length {
        Length::Blocks { .. } if outcome == Outcome::Completed => client.blocks.last_byte,
        _ => now,
    };
    let simulated = end.since(began);
    let mut result = IncastRun {
        outcome,
        payload: client.blocks.payload,
        simulated,
        goodput: Rate::of(client.blocks.payload, simulated).unwrap_or_default(),
        block_times: client.blocks.times.clone(),
        events,
        ..IncastRun::default()
    };
    let mut timeouts = TimeoutCounts::default();
    for (i, host) in hosts.iter().enumerate() {
        // Of connections that nobody has heard of, too.
        timeouts.handshake += host.tcp().stats().handshake_timeouts;
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
    let (mut drops, mut refused) = (DropCounts::default(), NicRefusals::default());
    let nics = hosts.len() as u32;
    for port in (0..network.ports()).map(PortId) {
        let s = network.stats(port);
        let full = s.dropped_for_room();
        drops.impaired += s.dropped(DropReason::Lost);
        drops.port_early += s.dropped(DropReason::Early);
        result.marks += s.marks;
        if port.0 == CLIENT.0 {
            refused.client += full;
        } else if port.0 < nics {
            refused.server += full;
        } else if port.0 > nics {
            drops.port_server += full;
        } else {
            drops.port_full += full;
            result.max_queue = QueuePeak {
                packets: u64::from(s.max_packets),
                bytes: ByteCount::new(s.max_bytes),
            };
        }
    }
    // The receiver's checksum drops what a link damaged.
    drops.impaired += hosts.iter().map(|h| h.corrupt_in).sum::<u64>();
    result.drops = drops;
    result.refused = refused;
    result
}
