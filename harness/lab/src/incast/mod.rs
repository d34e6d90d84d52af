//! A live incast: the scenario of [`narrows_experiment::scenario::incast`] on wires of the kernel.
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
mod cable;
mod content;
mod kernel;
mod ours;
mod rack;
mod waiter;

pub(crate) use waiter::Waiter;

use super::LiveError;
use super::capture;
use super::lab::{self, KernelHost, Owned, Plug, Port};
use super::shaper::{QueueStats, RouteRules, Shape};
use blocks::{Answers, Blocks};
use content::Content;
use kernel::Counters;
pub use kernel::echoes_each_mark;
use narrows::config::{EcnMode, TcpConfig};
use narrows::device::marking::QueueDepth;
use narrows::{ByteCount, Duration, Rate};
use narrows_congestion::{EcnNeed, FlowStart};
use narrows_experiment::scenario::spec::{Aqm, DelayedAck, IncastSpec, QueueLimit};
use narrows_experiment::scenario::{DropCounts, IncastRun, Outcome, QueuePeak};
use ours::{Client, Role, Server};
use rack::{Rack, Wire};
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
/// Header of a frame; the kernel counts it, and no check sequence.
const ETHERNET: u64 = 14;
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
    /// What the simulated run gives, too.
    pub run: IncastRun,
    /// For how long a host of ours stood still though it had something to send: the machine had
    /// no time for it. Much of it, and the wire was not what was asked for.
    pub still: Duration,
}

impl LiveRun {
    /// The share of the run for which a host stood still, in percent.
    pub fn still_percent(&self) -> u64 {
        let all = self.run.simulated.as_nanos().max(1);
        (self.still.as_nanos().saturating_mul(100) / all).min(100)
    }
}

/// Whether the kernel can be on the other side.
///
/// # Errors
/// See [`LiveError`].
pub fn check(spec: &IncastSpec, senders: Senders) -> Result<(), LiveError> {
    if let Senders::Kernel { .. } = senders {
        kernel::has(&spec.tcp.congestion)?;
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
    /// The run ends early once this is set.
    pub cancel: &'a AtomicBool,
    /// Hears now and then how many blocks are complete, of how many.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

/// Run `spec` in `lab`, with `tcp` on our side and our hosts connected by
/// `plug`; `None`: it was cancelled.
///
/// # Errors
/// See [`LiveError`]. That a connection was lost, or that the time was up, is an [`Outcome`].
pub fn run(
    lab: &Owned,
    spec: &IncastSpec,
    tcp: &TcpConfig,
    senders: Senders,
    plug: Plug,
    ctx: LiveContext<'_>,
) -> Result<Option<LiveRun>, LiveError> {
    let tcp = Arc::new(TcpConfig {
        send_buffer: OUR_SEND_BUFFER,
        recv_buffer: tcp.recv_buffer.min(OUR_RECEIVE_BUFFER),
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
        spec,
        tcp,
        content: Arc::new(Content::new()),
        complete: Arc::default(),
        ctx,
        wire: Wire {
            rate: spec.net.link_rate,
            // The links at both ends.
            delay: spec.net.link_delay * 2,
            mtu: spec.net.mtu,
            overhead: spec.net.nic_overhead,
            seed: spec.seed,
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
    spec: &'a IncastSpec,
    tcp: Arc<TcpConfig>,
    content: Arc<Content>,
    /// Blocks that are complete.
    complete: Arc<AtomicU64>,
    ctx: LiveContext<'a>,
    wire: Wire,
}

/// The port to the client; it marks where `ecn` is in use.
fn port(spec: &IncastSpec, ecn: bool) -> Shape {
    let mark_above = match spec.net.aqm {
        Aqm::EcnStep(QueueLimit::Packets(n)) => Some(QueueDepth::Packets(n)),
        Aqm::EcnStep(bytes) => {
            let bytes = port_bytes(bytes, spec.net.mtu).get();
            Some(QueueDepth::Bytes(u32::try_from(bytes).unwrap_or(u32::MAX)))
        }
        _ => None,
    };
    Shape {
        limit: port_bytes(spec.net.port_buffer, spec.net.mtu),
        mark_above: mark_above.filter(|_| ecn),
        ..link(spec)
    }
}

/// The queue that holds as many full frames as `limit`, in the bytes that the kernel counts: it
/// knows no check sequence, and no limit in packets where there is one in bytes.
pub fn port_bytes(limit: QueueLimit, mtu: u32) -> ByteCount {
    let counted = u64::from(mtu) + ETHERNET;
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
fn link(spec: &IncastSpec) -> Shape {
    let rate = spec.net.link_rate;
    let late = rate.bytes_in(LATENESS).get();
    Shape {
        rate,
        limit: ByteCount::new(1_000 * frame(spec)),
        burst: ByteCount::new(late.max(2 * frame(spec))),
        mark_above: None,
    }
}

/// A full frame, as the kernel counts it.
fn frame(spec: &IncastSpec) -> u64 {
    u64::from(spec.net.mtu) + ETHERNET
}

fn address(host: u8) -> SocketAddr {
    let [v4, _] = lab::addresses(host);
    SocketAddr::new(v4, PORT)
}

/// What the threads of a run gave.
type Joined<T> = Result<T, LiveError>;

fn join<T>(thread: thread::ScopedJoinHandle<'_, Joined<T>>) -> Joined<T> {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn going_on(e: io::Error) -> LiveError {
    LiveError::io("go on", e)
}

impl Stage<'_> {
    fn servers(&self) -> impl Iterator<Item = u8> + use<> {
        1..=u8::try_from(self.spec.servers.min(MAX_SERVERS)).unwrap_or(u8::MAX)
    }

    fn answers(&self) -> impl Iterator<Item = Answers> + '_ {
        (0..self.spec.servers).map(|server| Answers::new(self.spec, server))
    }

    fn blocks(&self) -> Blocks {
        Blocks::new(self.spec).counted_by(self.complete.clone())
    }

    fn quick_ack(&self) -> bool {
        self.spec.tcp.delayed_ack == DelayedAck::Off
    }

    fn rack(&self, n: usize, file: Option<capture::CaptureFile>) -> Result<Rack<Role>, LiveError> {
        let snap_length = self.ctx.capture.and_then(|capture| capture.snap_length);
        Rack::new(n, file, snap_length)
    }

    fn ours_send(&self, file: Option<capture::CaptureFile>) -> Result<Option<LiveRun>, LiveError> {
        let kernel = self.lab.kernel();
        self.lab.set_rules(RouteRules {
            quick_ack: self.quick_ack(),
            rto_min: None,
        })?;
        let ecn = ecn(&self.tcp);
        let port = port(self.spec, ecn.is_some());
        let mut watch = self.lab.shape(Port::Kernel, &port)?;
        let mut rack = self.rack(self.spec.servers as usize, file)?;
        for (number, answers) in self.servers().zip(self.answers()) {
            let plugged = self.lab.lab().plug(number..=number, self.plug)?;
            let server = Server::new(address(number), answers, self.content.clone());
            rack.add(plugged, self.wire, &self.tcp, Role::Server(server))?;
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
            (join(rack), join(client), peak)
        });
        if self.ctx.cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        ended?;
        let mut blocks = blocks?;
        let (peak, seen) = peak?;
        let mut run = IncastRun::default();
        run.timeouts.other = Counters::of(kernel)?.since(before).timeouts;
        for host in &rack.hosts {
            let Role::Server(server) = &host.app else {
                continue;
            };
            run.timeouts.handshake += host.interface.endpoint().stats().handshake_timeouts;
            // At the end the client leaves.
            if server.lost && blocks.outcome != Some(Outcome::Completed) {
                blocks.outcome = Some(Outcome::ConnectionLost);
            }
            let conn = server.conn;
            let conn = conn.and_then(|id| host.interface.endpoint().connection(id));
            if let Some(conn) = conn {
                let s = conn.sender_stats();
                run.timeouts.full_window += s.timeouts_full_window;
                run.timeouts.tail += s.timeouts_tail;
                run.timeouts.retransmission_lost += s.timeouts_retransmission;
                run.fast_retransmits += s.fast_recoveries;
                run.data_packets += s.segments;
                run.retransmitted_packets += s.retransmits;
            }
        }
        run.drops = DropCounts {
            port_full: seen.drops,
            device: rack.hosts.iter().map(|h| h.refused).sum(),
            ..DropCounts::default()
        };
        run.marks = seen.marks;
        Ok(Some(complete(run, &rack, &blocks, peak)))
    }

    fn kernel_sends(
        &self,
        file: Option<capture::CaptureFile>,
        rto_min: Option<u32>,
    ) -> Result<Option<LiveRun>, LiveError> {
        let mut rack = self.rack(1, file)?;
        let plugged = self.lab.lab().plug(OUR_CLIENT..=OUR_CLIENT, self.plug)?;
        let port = port(self.spec, ecn(&self.tcp).is_some());
        let mut watch = self.lab.shape(Port::Host(OUR_CLIENT), &port)?;
        let rules = RouteRules {
            quick_ack: false,
            rto_min,
        };
        let (mut hosts, mut listeners): (Vec<KernelHost>, Vec<_>) = (Vec::new(), Vec::new());
        for number in self.servers() {
            let host = self.lab.add_kernel_host(number, &link(self.spec), rules)?;
            let cc = &self.spec.tcp.congestion;
            listeners.push(kernel::listen(&host.namespace, PORT, cc)?);
            hosts.push(host);
        }
        let servers = self.servers().map(address).collect();
        let client = Client::new(servers, self.blocks(), self.content.clone());
        rack.add(plugged, self.wire, &self.tcp, Role::Client(client))?;
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
            (join(rack), join(serving), peak)
        });
        if self.ctx.cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        ended?;
        served?;
        let (peak, seen) = peak?;
        let mut run = IncastRun::default();
        for host in &hosts {
            let counted = Counters::of(&host.namespace)?;
            // What was lost the kernel does not tell.
            run.timeouts.other += counted.timeouts;
            run.fast_retransmits += counted.recoveries;
            run.data_packets += counted.data_segments;
            run.retransmitted_packets += counted.retransmits;
        }
        let host = &rack.hosts[0];
        let Role::Client(client) = &host.app else {
            return Ok(None);
        };
        let conns = client.conns.iter();
        let conns = conns.filter_map(|id| host.interface.endpoint().connection(*id));
        run.timeouts.other += conns.map(|c| c.sender_stats().timeouts).sum::<u64>();
        run.timeouts.handshake = host.interface.endpoint().stats().handshake_timeouts;
        run.drops = DropCounts {
            port_full: seen.drops,
            device: host.refused,
            ..DropCounts::default()
        };
        run.marks = seen.marks;
        Ok(Some(complete(run, &rack, &client.blocks, peak)))
    }

    /// Look at the port until the run is `over` or interrupted, and tell how far it is: the port's
    /// longest queue, and what it has seen in the end.
    fn look_until(
        &self,
        over: &AtomicBool,
        watch: &mut lab::Watch,
    ) -> Result<(QueuePeak, QueueStats), LiveError> {
        let mut peak = QueuePeak::default();
        let (mut told, all) = (0, Blocks::wanted(self.spec));
        loop {
            let complete = self.complete.load(Ordering::Relaxed);
            if complete > told {
                told = complete;
                (self.ctx.progress)(complete, all);
            }
            let last = over.load(Ordering::Acquire) || self.ctx.cancel.load(Ordering::Relaxed);
            let seen = watch
                .look()
                .map_err(|e| LiveError::io("look at the port", e))?;
            peak.packets = peak.packets.max(seen.packets);
            peak.bytes = peak.bytes.max(ByteCount::new(seen.bytes));
            if last {
                return Ok((peak, seen));
            }
            pause(LOOK);
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "live, time passes by itself")]
fn pause(time: Duration) {
    thread::sleep(time.into());
}

/// What the client saw, and how much was to do.
fn complete(run: IncastRun, rack: &Rack<Role>, blocks: &Blocks, max_queue: QueuePeak) -> LiveRun {
    let time = blocks.took_in_all();
    let stats = rack.hosts.iter().map(|host| host.interface.stats());
    let run = IncastRun {
        outcome: blocks.outcome.unwrap_or(Outcome::Stalled),
        payload: blocks.payload,
        simulated: time,
        goodput: Rate::of(blocks.payload, time).unwrap_or_default(),
        block_times: blocks.times.clone(),
        max_queue,
        events: stats.map(|s| s.frames_in + s.frames_out).sum(),
        ..run
    };
    LiveRun {
        run,
        still: rack.still(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_holds_as_many_full_frames_as_the_simulated_one() {
        let mut spec = IncastSpec::default();
        for kib in [4, 32, 64, 256] {
            let buffer = ByteCount::new(kib << 10);
            spec.net.port_buffer = QueueLimit::Bytes(buffer);
            let shape = port(&spec, false);
            assert_eq!(shape.limit.get() / 1_514, buffer.get() / 1_518);
            assert!(shape.burst.get() >= 2 * 1_514);
            assert_eq!(shape.mark_above, None);
        }
        for packets in [1, 22, 64, 1_000] {
            spec.net.port_buffer = QueueLimit::Packets(packets);
            assert_eq!(port(&spec, false).limit.get(), u64::from(packets) * 1_514);
        }
    }

    #[test]
    fn a_threshold_in_bytes_is_passed_by_as_many_frames_as_in_the_simulator() {
        let mut spec = IncastSpec::default();
        let mut above = |threshold| {
            spec.net.aqm = Aqm::EcnStep(threshold);
            port(&spec, true).mark_above
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
