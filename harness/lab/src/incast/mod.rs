//! A live incast: the traffic [`narrows_experiment::traffic::SynchronisedRead`] on wires of the kernel.
//!
//! ```text
//!   server 1 -- link --\                    rate and buffer
//!   server 2 -- link ---- switch (bridge) -- port (tbf) -- client
//!   ...                /
//! ```
//!
//! Either the servers are hosts of ours, a TAP each, and the client is the kernel's; or the
//! servers are the kernel's, a network namespace each, and the client is ours. The port to the
//! client is the kernel's in both cases. What the kernel cannot do without further modules, delay,
//! the hosts of ours do: all of the round trip's is on their side.

mod blocks;
mod content;
mod kernel;
mod ours;
mod place;

use super::capture;
use super::counters::Counters;
use super::lab::{self, KernelHost, Owned, Plug, Port};
use super::rack::{Rack, Wire};
use super::shaper::{QueueStats, RouteRules, Shape};
use super::sockets;
use super::{LiveError, joined};
use blocks::{Answers, Blocks, Read};
use content::Content;
pub use kernel::echoes_each_mark;
use narrows::config::{Buffers, EcnMode, TcpConfig};
use narrows::device::marking::QueueDepth;
use narrows::endpoint::Tracer;
use narrows::recovery::SenderStats;
use narrows::{ByteCount, Duration, Instant};
use narrows_congestion::{EcnNeed, FlowStart};
use narrows_experiment::model::Experiment;
use narrows_experiment::model::queue::Discipline;
use narrows_experiment::run::{FlowOutcome, HostOutcome, PortOutcome, RunOutcome};
use narrows_experiment::scenario::spec::{DelayedAck, QueueLimit};
use narrows_experiment::scenario::{Outcome, QueuePeak};
use narrows_experiment::traffic::Transfer;
use narrows_net::net::packet::HostId;
use ours::{Client, Role, Server};
pub use place::{LivePlace, Seen, possible};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// The most servers.
pub const MAX_SERVERS: u32 = 200;

const PORT: u16 = 5_001;
/// The number of our host where it is the client.
const OUR_CLIENT: u8 = 250;
const CHECK_SEQUENCE: u64 = 4;
/// How often the queue is looked at.
const LOOK: Duration = Duration::from_millis(1);
/// A timer of the kernel's is late by so much; the port makes up for it.
const LATENESS: Duration = Duration::from_micros(50);
/// Receive buffer of a connection of ours.
const OUR_RECEIVE_BUFFER: usize = 4 << 20;
/// Send buffer of a connection of ours.
const OUR_SEND_BUFFER: usize = 4 << 20;

/// Whose TCP sends the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Senders {
    /// Ours, to the kernel.
    Ours,
    /// The kernel's, to us, with this least RTO in milliseconds; `None`: its own.
    Kernel {
        /// The least RTO.
        rto_min: Option<u32>,
    },
}

/// What a live run gave.
#[derive(Clone, Debug)]
pub struct LiveRun {
    /// What the simulated run gives, too, as far as it is known.
    pub outcome: RunOutcome,
    /// For how long a host of ours stood still though it had something to send: the machine had
    /// no time for it. Much of it, and the wire was not what was asked for.
    pub still: Duration,
}

impl LiveRun {
    /// The share of the run for which a host stood still, in percent.
    pub fn still_percent(&self) -> u64 {
        let all = self.outcome.simulated.as_nanos().max(1);
        (self.still.as_nanos().saturating_mul(100) / all).min(100)
    }
}

/// Whether the kernel can be on the other side.
///
/// # Errors
/// See [`LiveError`].
pub fn check(congestion: &str, senders: Senders) -> Result<(), LiveError> {
    if let Senders::Kernel { .. } = senders {
        sockets::has(congestion)?;
    }
    Ok(())
}

/// What is written of the frames that pass our hosts.
#[derive(Clone, Copy, Debug)]
pub struct Capture<'a> {
    /// To which file.
    pub path: &'a Path,
    /// Of each frame the first so many bytes; `None`: all.
    pub snap_length: Option<ByteCount>,
}

/// What accompanies a run.
#[derive(Clone, Copy)]
pub struct LiveContext<'a> {
    /// What passes our hosts is written there.
    pub capture: Option<Capture<'a>>,
    /// Gives each host of ours, by its number, what hears of its connections' decisions.
    pub tracer: &'a (dyn Fn(HostId) -> Option<Tracer> + Sync),
    /// The run ends early once this is set.
    pub cancel: &'a AtomicBool,
    /// Hears every millisecond or so how many blocks are complete, of how many.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

/// Run `experiment` in `lab`, of which `read` is the traffic, with `tcp` on our side and our hosts connected by
/// `plug`; `None`: it was cancelled.
///
/// # Errors
/// See [`LiveError`]. That a connection was lost, or that the time was up, is an [`Outcome`].
pub fn run(
    lab: &Owned,
    (experiment, read): (&Experiment, &Read),
    tcp: &TcpConfig,
    senders: Senders,
    plug: Plug,
    ctx: LiveContext<'_>,
) -> Result<Option<LiveRun>, LiveError> {
    let tcp = Arc::new(TcpConfig {
        buffers: Buffers {
            send: OUR_SEND_BUFFER,
            recv: tcp.buffers.recv.min(OUR_RECEIVE_BUFFER),
            ..tcp.buffers
        },
        ..tcp.clone()
    });
    let (file, written) = match ctx.capture {
        None => (None, None),
        Some(Capture { path, .. }) => {
            let doing = || format!("write the capture to {}", path.display());
            let (file, outcome) = capture::create(path).map_err(|e| LiveError::io(doing(), e))?;
            (Some(file), Some(outcome))
        }
    };
    let stage = Stage {
        lab,
        plug,
        experiment,
        read,
        tcp,
        content: Arc::new(Content::new()),
        complete: Arc::default(),
        ctx,
        wire: Wire {
            rate: experiment.network.link.rate,
            // The links at both ends.
            delay: experiment.network.link.delay * 2,
            mtu: experiment.network.common.mtu,
            overhead: experiment.host.nic.overhead,
            seed: read.seed,
        },
    };
    let run = match senders {
        Senders::Ours => stage.ours_send(file),
        Senders::Kernel { rto_min } => stage.kernel_sends(file, rto_min),
    }?;
    if let Some(written) = written {
        let doing = || format!("write the capture to {}", written.path().display());
        written.get().map_err(|e| LiveError::io(doing(), e))?;
    }
    Ok(run)
}

/// A run's parts.
struct Stage<'a> {
    lab: &'a Owned,
    plug: Plug,
    experiment: &'a Experiment,
    read: &'a Read,
    tcp: Arc<TcpConfig>,
    content: Arc<Content>,
    /// Blocks that are complete.
    complete: Arc<AtomicU64>,
    ctx: LiveContext<'a>,
    wire: Wire,
}

/// The port to the client; it marks where `ecn` is in use.
fn port(experiment: &Experiment, ecn: bool) -> Shape {
    let (queue, mtu) = (
        experiment.network.port("s0->h0").queue,
        experiment.network.common.mtu,
    );
    let mark_above = match (queue.discipline, queue.threshold) {
        (Discipline::EcnStep, Some(QueueLimit::Packets(n))) => Some(QueueDepth::Packets(n)),
        (Discipline::EcnStep, Some(bytes)) => {
            let bytes = port_bytes(bytes, mtu).get();
            Some(QueueDepth::Bytes(u32::try_from(bytes).unwrap_or(u32::MAX)))
        }
        _ => None,
    };
    Shape {
        limit: port_bytes(queue.limit, mtu),
        mark_above: mark_above.filter(|_| ecn),
        ..link(experiment)
    }
}

/// The queue that holds as many full frames as `limit`, in the bytes that the kernel counts: it
/// knows no check sequence, and no limit in packets where there is one in bytes.
pub fn port_bytes(limit: QueueLimit, mtu: u32) -> ByteCount {
    let counted = lab::frame(mtu).get();
    let full = counted + CHECK_SEQUENCE;
    ByteCount::new(match limit {
        QueueLimit::Packets(n) => u64::from(n) * counted,
        QueueLimit::Bytes(bytes) => {
            let bytes = bytes.get();
            bytes / full * counted + (bytes % full).min(counted - 1)
        }
    })
}

/// The feedback on marks that connections with `tcp` ask for; `None`: there is no ECN.
pub fn ecn(tcp: &TcpConfig) -> Option<EcnNeed> {
    let mss = ByteCount::from(u32::from(tcp.mss));
    let needs = tcp.congestion.build(&FlowStart::new(mss, mss)).needs();
    match (needs.ecn, tcp.ecn) {
        (EcnNeed::Dctcp, _) | (_, EcnMode::Dctcp) => Some(EcnNeed::Dctcp),
        (EcnNeed::Classic, _) | (_, EcnMode::Classic) => Some(EcnNeed::Classic),
        _ => None,
    }
}

/// The link of a host of the kernel's.
fn link(experiment: &Experiment) -> Shape {
    let rate = experiment.network.link.rate;
    let frame = lab::frame(experiment.network.common.mtu);
    Shape {
        burst: rate.bytes_in(LATENESS).max(frame * 2),
        ..Shape::port(rate, frame * 1_000)
    }
}

fn address(host: u8) -> SocketAddr {
    let [v4, _] = lab::addresses(host);
    SocketAddr::new(v4, PORT)
}

fn going_on(e: io::Error) -> LiveError {
    LiveError::io("go on", e)
}

impl Stage<'_> {
    fn servers(&self) -> impl Iterator<Item = u8> + use<> {
        1..=u8::try_from(self.read.servers.min(MAX_SERVERS)).unwrap_or(u8::MAX)
    }

    fn answers(&self) -> impl Iterator<Item = Answers> + '_ {
        (0..self.read.servers).map(|server| Answers::new(self.read, server))
    }

    fn blocks(&self) -> Blocks {
        Blocks::new(self.read).counted_by(self.complete.clone())
    }

    fn quick_ack(&self) -> bool {
        self.experiment.host.tcp.delayed_ack == DelayedAck::Off
    }

    fn rack(&self, n: usize, file: Option<capture::CaptureFile>) -> Result<Rack<Role>, LiveError> {
        let snap_length = self.ctx.capture.and_then(|capture| capture.snap_length);
        Rack::new(n, file, snap_length)
    }

    /// Has the host that was added last, which is `number`, tell what its connections decide.
    fn trace(&self, rack: &mut Rack<Role>, number: u8) {
        if let Some(host) = rack.hosts.last_mut() {
            let tracer = (self.ctx.tracer)(HostId(number.into()));
            host.interface.endpoint_mut().set_tracer(tracer);
        }
    }

    fn ours_send(&self, file: Option<capture::CaptureFile>) -> Result<Option<LiveRun>, LiveError> {
        let kernel = self.lab.kernel();
        self.lab.set_rules(RouteRules {
            quick_ack: self.quick_ack(),
            ..RouteRules::default()
        })?;
        let ecn = ecn(&self.tcp);
        let port = port(self.experiment, ecn.is_some());
        let mut watch = self.lab.shape(Port::Kernel, &port)?;
        let mut rack = self.rack(self.read.servers as usize, file)?;
        for (number, answers) in self.servers().zip(self.answers()) {
            let plugged = self.lab.lab().plug(number..=number, self.plug)?;
            let server = Server::new(address(number), answers, self.content.clone());
            rack.add(plugged, self.wire, &self.tcp, Role::Server(server))?;
            self.trace(&mut rack, number);
        }
        let servers: Vec<SocketAddr> = self.servers().map(address).collect();
        let before = Counters::of(kernel)?;
        let (over, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let (ended, blocks, peak) = thread::scope(|scope| {
            let rack = scope.spawn(|| {
                let ended = rack.run(&stop);
                over.store(true, Ordering::Release);
                ended.and(rack.finish()).map_err(going_on)
            });
            let client = scope.spawn(|| {
                let blocks = self.blocks();
                let run = || {
                    // What a free window is in the simulator.
                    let _ = fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 4194304 16777216");
                    kernel::client(&servers, ecn, blocks, &self.content, &stop)
                };
                let blocks = kernel.run(run).and_then(|b| b);
                over.store(true, Ordering::Release);
                blocks.map_err(|e| LiveError::io("be the kernel's client", e))
            });
            let peak = self.look_until(&over, &mut watch);
            stop.store(true, Ordering::Relaxed);
            (joined(rack.join()), joined(client.join()), peak)
        });
        if self.ctx.cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        ended?;
        let mut blocks = blocks?;
        let (peak, seen) = peak?;
        let client = Counters::of(kernel)?.since(before).timeouts;
        let mut found = Found::default();
        found.hosts.push(0);
        found.flows.push(flow(0, 1, kernels(0, 0, client, 0)));
        for (host, number) in rack.hosts.iter().zip(1..) {
            let Role::Server(server) = &host.app else {
                continue;
            };
            found
                .hosts
                .push(host.interface.endpoint().stats().handshake_timeouts);
            found.refused.push((number, host.refused));
            // At the end the client leaves.
            if server.lost && blocks.outcome != Some(Outcome::Completed) {
                blocks.outcome = Some(Outcome::ConnectionLost);
            }
            let conn = server.conn;
            let conn = conn.and_then(|id| host.interface.endpoint().connection(id));
            if let Some(conn) = conn {
                let mut flow = flow(number, 0, conn.sender_stats());
                // As much of it as was acknowledged has arrived.
                let on_its_way = conn.unacknowledged();
                flow.received = ByteCount::new(server.sent().saturating_sub(on_its_way));
                found.flows.push(flow);
            }
        }
        found.drops = seen.drops;
        found.marks = seen.marks;
        Ok(Some(complete(found, &rack, &blocks, peak)))
    }

    fn kernel_sends(
        &self,
        file: Option<capture::CaptureFile>,
        rto_min: Option<u32>,
    ) -> Result<Option<LiveRun>, LiveError> {
        let mut rack = self.rack(1, file)?;
        let plugged = self.lab.lab().plug(OUR_CLIENT..=OUR_CLIENT, self.plug)?;
        let port = port(self.experiment, ecn(&self.tcp).is_some());
        let mut watch = self.lab.shape(Port::Host(OUR_CLIENT), &port)?;
        let rules = RouteRules {
            rto_min,
            ..RouteRules::default()
        };
        let (mut hosts, mut listeners): (Vec<KernelHost>, Vec<_>) = (Vec::new(), Vec::new());
        for number in self.servers() {
            let host = self
                .lab
                .add_kernel_host(number, &link(self.experiment), rules)?;
            let cc = &self.experiment.host.tcp.congestion;
            listeners.push(kernel::listen(&host.namespace, PORT, cc)?);
            hosts.push(host);
        }
        let servers = self.servers().map(address).collect();
        let client = Client::new(servers, self.blocks(), self.content.clone());
        rack.add(plugged, self.wire, &self.tcp, Role::Client(client))?;
        self.trace(&mut rack, 0);
        let answers = self.answers().collect();
        let (over, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let (ended, served, peak) = thread::scope(|scope| {
            let rack = scope.spawn(|| {
                let ended = rack.run(&stop);
                over.store(true, Ordering::Release);
                ended.and(rack.finish()).map_err(going_on)
            });
            let serving = scope.spawn(|| {
                let served = kernel::serve(&listeners, answers, &self.content, &stop);
                over.store(true, Ordering::Release);
                served.map_err(|e| LiveError::io("be the kernel's servers", e))
            });
            let peak = self.look_until(&over, &mut watch);
            stop.store(true, Ordering::Relaxed);
            (joined(rack.join()), joined(serving.join()), peak)
        });
        if self.ctx.cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        ended?;
        served?;
        let (peak, seen) = peak?;
        let mut found = Found::default();
        for (host, number) in hosts.iter().zip(1..) {
            let c = Counters::of(&host.namespace)?;
            // What was lost the kernel does not tell.
            let sender = kernels(c.data_segments, c.retransmits, c.timeouts, c.recoveries);
            found.flows.push(flow(number, 0, sender));
        }
        let host = &rack.hosts[0];
        let Role::Client(client) = &host.app else {
            return Ok(None);
        };
        let conns = client.conns.iter();
        let conns = conns.filter_map(|id| host.interface.endpoint().connection(*id));
        let of_client = conns.zip(1..).map(|(c, n)| flow(0, n, c.sender_stats()));
        found.flows.extend(of_client);
        found.hosts = vec![0; hosts.len() + 1];
        found.hosts[0] = host.interface.endpoint().stats().handshake_timeouts;
        found.refused.push((0, host.refused));
        found.drops = seen.drops;
        found.marks = seen.marks;
        Ok(Some(complete(found, &rack, &client.blocks, peak)))
    }

    /// Look at the port until the run is `over` or interrupted, and tell how far it is: the port's
    /// longest queue, and what it has seen in the end.
    fn look_until(
        &self,
        over: &AtomicBool,
        watch: &mut lab::Watch,
    ) -> Result<(QueuePeak, QueueStats), LiveError> {
        let mut peak = QueuePeak::default();
        let all = Blocks::wanted(self.read);
        loop {
            let complete = self.complete.load(Ordering::Relaxed);
            (self.ctx.progress)(complete, all);
            let last = over.load(Ordering::Acquire) || self.ctx.cancel.load(Ordering::Relaxed);
            let seen = watch
                .look()
                .map_err(|e| LiveError::io("look at the port", e))?;
            peak.packets = peak.packets.max(seen.packets);
            peak.bytes = peak.bytes.max(ByteCount::new(seen.bytes));
            if last {
                return Ok((peak, seen));
            }
            crate::sleep(LOOK.into());
        }
    }
}

/// What was counted in a run.
#[derive(Debug, Default)]
struct Found {
    flows: Vec<FlowOutcome>,
    /// By host: SYNs and SYN-ACKs that were not answered in time.
    hosts: Vec<u64>,
    /// By host: packets that its device refused.
    refused: Vec<(u32, u64)>,
    /// Packets that the port to the client dropped, and marked.
    drops: u64,
    marks: u64,
}

/// What went from one host to another; the client is 0, and sends requests alone.
fn flow(from: u32, to: u32, sender: SenderStats) -> FlowOutcome {
    FlowOutcome {
        traffic: 0,
        from,
        to,
        port: PORT,
        opened: Instant::ZERO,
        received: ByteCount::ZERO,
        read: ByteCount::ZERO,
        out_of_order_dropped: 0,
        control: from == 0,
        sender,
        handshake_timeouts: 0,
    }
}

/// What the kernel tells of its senders.
fn kernels(segments: u64, retransmits: u64, timeouts: u64, recoveries: u64) -> SenderStats {
    let mut sender = SenderStats::default();
    sender.segments = segments;
    sender.retransmits = retransmits;
    sender.timeouts = timeouts;
    sender.fast_recoveries = recoveries;
    sender
}

/// What the client saw, and what was counted.
fn complete(found: Found, rack: &Rack<Role>, blocks: &Blocks, max_queue: QueuePeak) -> LiveRun {
    let time = blocks.took_in_all();
    let stats = rack.hosts.iter().map(|host| host.interface.stats());
    let mut port = PortOutcome::of_drops("s0->h0".to_owned(), false, found.drops);
    port.marks = found.marks;
    port.max_packets = u32::try_from(max_queue.packets).unwrap_or(u32::MAX);
    port.max_bytes = max_queue.bytes.get();
    let nics = found
        .refused
        .iter()
        .map(|(host, refused)| PortOutcome::of_drops(format!("h{host}->s0"), true, *refused));
    let hosts = found.hosts.iter().zip(0..);
    let hosts = hosts.map(|(handshakes, n)| HostOutcome {
        name: format!("h{n}"),
        handshake_timeouts: *handshakes,
        damaged: 0,
        without_buffer: None,
        work: None,
    });
    let mut began = Instant::ZERO;
    let transfers = blocks.times.iter().map(|took| {
        let transfer = Transfer {
            traffic: 0,
            to: HostId(0),
            from: None,
            began,
            took: *took,
            size: blocks.size(),
        };
        began = began + *took;
        transfer
    });
    let outcome = RunOutcome {
        outcome: blocks.outcome.unwrap_or(Outcome::Stalled),
        simulated: time,
        measured: time,
        measured_from: Instant::ZERO,
        events: stats.map(|s| s.frames_in + s.frames_out).sum(),
        traffic: vec!["read".to_owned()],
        delivered: vec![blocks.payload],
        transfers: transfers.collect(),
        hosts: hosts.collect(),
        ports: std::iter::once(port).chain(nics).collect(),
        flows: found.flows,
        failed: vec![0],
        opening: Vec::new(),
        spans: Vec::new(),
        gauges: Vec::new(),
        readings: Vec::new(),
        changes: Vec::new(),
        unrecorded: Vec::new(),
    };
    LiveRun {
        outcome,
        still: rack.still(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_holds_as_many_full_frames_as_the_simulated_one() {
        let mut star = Experiment::default();
        for kib in [4, 32, 64, 256] {
            let buffer = ByteCount::new(kib << 10);
            star.network.queue.limit = QueueLimit::Bytes(buffer);
            let shape = port(&star, false);
            assert_eq!(shape.limit.get() / 1_514, buffer.get() / 1_518);
            assert!(shape.burst.get() >= 2 * 1_514);
            assert_eq!(shape.mark_above, None);
        }
        for packets in [1, 22, 64, 1_000] {
            star.network.queue.limit = QueueLimit::Packets(packets);
            assert_eq!(port(&star, false).limit.get(), u64::from(packets) * 1_514);
        }
    }

    #[test]
    fn a_threshold_in_bytes_is_passed_by_as_many_frames_as_in_the_simulator() {
        let mut star = Experiment::default();
        let mut above = |threshold| {
            star.network.queue.discipline = Discipline::EcnStep;
            star.network.queue.threshold = Some(threshold);
            port(&star, true).mark_above
        };
        for bytes in [0, 1_517, 1_518, 30_000, 30_359, 30_360, 65_536] {
            let limit = QueueLimit::Bytes(ByteCount::new(bytes));
            let Some(QueueDepth::Bytes(above)) = above(limit) else {
                panic!("{bytes}");
            };
            for frames in 0..50 {
                let (live, simulated) = (frames * 1_514 > u64::from(above), frames * 1_518 > bytes);
                assert_eq!(live, simulated, "{frames} frames, {bytes}");
            }
        }
        let packets = QueueLimit::Packets(7);
        assert_eq!(above(packets), Some(QueueDepth::Packets(7)));
    }
}
