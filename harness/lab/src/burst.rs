//! Bursts on wires of the kernel: hosts of the kernel's around a switch with small ports, each of
//! which asks several others at once, while their counters are polled.
//!
//! It is the live twin of traffic `fan-out`. One thread does what the applications of all hosts do:
//! queries arrive at each host in a Poisson process of its own, a byte asks for a reply. What the
//! twin leaves out: the kernel's TCP is what it is (RACK and TLP among it), a super-frame of two
//! segments crosses a port as one, and a busy machine adds its scheduler's waits to bursts and looks
//! alike. The hosts may be ours ([`run_ours`]), which send no super-frames.

mod ours;

use crate::lab::{self, FRAME, KernelHost, Owned, Plug, Port, Watch};
use crate::meter::{self, Counts, Interface, Polled, Track};
use crate::rack::{Rack, Waiter, Wire};
use crate::shaper::{RouteRules, Shape};
use crate::sockets;
use crate::{LiveError, joined};
use narrows::config::TcpConfig;
use narrows::driver::{Clock, RealTime};
use narrows::{ByteCount, Rate};
use narrows_experiment::sim::rng::{Component, Stream};
use ours::OursHost;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const PORT: u16 = 5_001;
const CHUNK: usize = 64 << 10;
/// How late a frame of ours may enter an idle link: as in the simulator, without which equal hosts march in
/// step.
const OVERHEAD: narrows::Duration = narrows::Duration::from_micros(5);
/// Before it is measured, connections find their windows.
const WARM_UP: Duration = Duration::from_millis(500);

/// What runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstSpec {
    /// Hosts, each of which asks and replies.
    pub hosts: u8,
    /// What each port carries.
    pub rate: Rate,
    /// What may wait in a port.
    pub buffer: ByteCount,
    /// Replies come to each host at this rate, on average.
    pub load: Rate,
    /// How many others a query is put to.
    pub servers: u8,
    /// How long each reply is.
    pub size: ByteCount,
    /// For how long it is measured.
    pub span: Duration,
    /// The seed of arrivals and choices.
    pub seed: u64,
}

/// Picks a counter.
pub type Arrived = fn(Counts) -> u64;

/// What was seen.
#[derive(Clone, Debug)]
pub struct BurstRun {
    /// At each period, the counters of each host.
    pub tracks: Vec<Track>,
    /// Which of them is of what comes to the host: what its interface takes in, or what the switch's port
    /// to a host of ours sends out.
    pub arrived: Arrived,
    /// Packets that ports dropped meanwhile.
    pub drops: u64,
}

/// Runs it in a lab of its own, and polls what comes in to each host at `periods`.
///
/// # Errors
/// See [`LiveError`].
pub fn run(
    spec: &BurstSpec,
    periods: &[Duration],
    cancel: &AtomicBool,
) -> Result<BurstRun, LiveError> {
    check(spec)?;
    let lab = Owned::for_run()?;
    let numbers = 1..=spec.hosts;
    let link = Shape::port(spec.rate, FRAME * 1_000);
    let port = Shape::port(spec.rate, spec.buffer);
    let hosts = numbers.map(|n| lab.add_kernel_host(n, &link, RouteRules::default()));
    let hosts: Vec<KernelHost> = hosts.collect::<Result<_, _>>()?;
    let watches = (1..=spec.hosts).map(|n| lab.shape(Port::Further(n), &port));
    let watches = watches.collect::<Result<Vec<_>, _>>()?;
    let failed = |e| LiveError::io("ask and reply on hosts of the kernel's", e);
    let mut mesh = Mesh::new(spec, &hosts).map_err(failed)?;
    let interfaces = hosts
        .iter()
        .map(|h| Interface::within(&h.namespace, lab::KERNEL_INTERFACE));
    let interfaces = interfaces.collect::<io::Result<_>>().map_err(failed)?;
    let work = |stop: &AtomicBool| mesh.run(stop).map_err(failed);
    let interfaces = (interfaces, (|counts| counts.rx_bytes) as Arrived);
    measure(work, interfaces, watches, (periods, spec.span), cancel)
}

/// The same with hosts of ours, each at a TAP and with this TCP, on one thread that keeps the rate of their
/// links.
///
/// # Errors
/// See [`LiveError`].
pub fn run_ours(
    spec: &BurstSpec,
    tcp: TcpConfig,
    periods: &[Duration],
    cancel: &AtomicBool,
) -> Result<BurstRun, LiveError> {
    check(spec)?;
    let lab = Owned::for_run()?;
    let wire = Wire {
        rate: spec.rate,
        delay: narrows::Duration::ZERO,
        mtu: lab::MTU,
        overhead: OVERHEAD,
        seed: spec.seed,
    };
    let mut rack = Rack::new(spec.hosts.into(), None, None)?;
    let tcp = Arc::new(tcp);
    let (mut watches, mut interfaces) = (Vec::new(), Vec::new());
    let failed = |e| LiveError::io("ask and reply on hosts of ours", e);
    for number in 1..=spec.hosts {
        let plug = Plug::Tap { offload: false };
        let plugged = lab.lab().plug(number..=number, plug)?;
        rack.add(plugged, wire, &tcp, OursHost::new(spec, number))?;
        let port = Port::Host(number);
        watches.push(lab.shape(port, &Shape::port(spec.rate, spec.buffer))?);
        interfaces.push(lab.interface(port).map_err(failed)?);
    }
    let work = |stop: &AtomicBool| rack.run(stop).map_err(failed);
    let interfaces = (interfaces, (|counts| counts.tx_bytes) as Arrived);
    measure(work, interfaces, watches, (periods, spec.span), cancel)
}

fn check(spec: &BurstSpec) -> Result<(), LiveError> {
    if spec.servers == 0 || spec.servers >= spec.hosts || spec.hosts > 20 {
        let why = "from 1 to 19 servers a query, fewer than there are hosts, of which 20 at most";
        return Err(LiveError::Invalid(why.to_owned()));
    }
    Ok(())
}

/// Polls `interfaces` at periods for a span while `work` runs, after a warm-up.
fn measure(
    work: impl FnOnce(&AtomicBool) -> Result<(), LiveError> + Send,
    (mut interfaces, arrived): (Vec<Interface>, Arrived),
    mut watches: Vec<Watch>,
    (periods, span): (&[Duration], Duration),
    cancel: &AtomicBool,
) -> Result<BurstRun, LiveError> {
    let mut drops = || -> io::Result<u64> {
        let all = watches.iter_mut().map(|w| Ok(w.look()?.drops));
        all.sum()
    };
    let stop = AtomicBool::new(false);
    let (polled, worked, before, after) = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            promptly();
            work(&stop)
        });
        meter::poll(&mut [], &[WARM_UP], WARM_UP, cancel);
        let before = drops();
        let poller = scope.spawn(|| {
            promptly();
            meter::poll(&mut interfaces, periods, span, cancel)
        });
        let polled = poller.join().map(Polled::whole);
        let after = drops();
        stop.store(true, Ordering::Relaxed);
        (polled, worker.join(), before, after)
    });
    joined(worked)?;
    if cancel.load(Ordering::Relaxed) {
        let interrupted = io::ErrorKind::Interrupted.into();
        return Err(LiveError::io("ask and reply to the end", interrupted));
    }
    let count = |e| LiveError::io("read the counters", e);
    Ok(BurstRun {
        tracks: joined(polled).map_err(count)?,
        arrived,
        drops: after.map_err(count)?.saturating_sub(before.map_err(count)?),
    })
}

/// Before threads that are not scheduled in real time, where that is allowed: what a busy machine
/// adds is not the network's.
fn promptly() {
    let _ = RealTime::LOWEST.apply();
}

/// Queries: when, and to whom.
struct Queries {
    spec: BurstSpec,
    random: Stream,
}

impl Queries {
    fn new(spec: &BurstSpec, stream: u64) -> Self {
        Self {
            spec: *spec,
            random: Stream::new(spec.seed, Component::Scenario, stream),
        }
    }

    /// From one query of a host to the next, in nanoseconds: exponential.
    fn interval(&mut self) -> u64 {
        let bits = self.spec.size.get() * 8 * u64::from(self.spec.servers);
        let mean = bits as f64 / self.spec.load.bits_per_sec() as f64 * 1e9;
        let even = (self.random.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
        (-even.ln() * mean) as u64
    }

    /// Those that a host asks at once: each other one with the same chance.
    fn servers(&mut self, host: usize) -> impl Iterator<Item = usize> + '_ {
        let n = usize::from(self.spec.hosts);
        let mut left = usize::from(self.spec.servers);
        let mut others = n - 1;
        (0..n).filter(move |to| *to != host).filter(move |_| {
            let asked = self.random.below(others as u64) < left as u64;
            left -= usize::from(asked);
            others -= 1;
            asked
        })
    }
}

/// The applications of all hosts.
struct Mesh {
    queries: Queries,
    /// The asking side of each connection: of host `n / hosts`, to host `n % hosts`.
    asking: Vec<Option<TcpStream>>,
    /// The replying side, at the same place.
    replying: Vec<Option<Replier>>,
}

/// A replying side.
struct Replier {
    stream: TcpStream,
    owed: u64,
    /// It waits for room.
    blocked: bool,
}

impl Mesh {
    /// With all connections open.
    fn new(spec: &BurstSpec, hosts: &[KernelHost]) -> io::Result<Self> {
        let n = usize::from(spec.hosts);
        let mut mesh = Self {
            queries: Queries::new(spec, 0),
            asking: (0..n * n).map(|_| None).collect(),
            replying: (0..n * n).map(|_| None).collect(),
        };
        for (to, host) in hosts.iter().enumerate() {
            let listener = sockets::listen(&host.namespace, PORT, spec.hosts, sockets::socket)?;
            let [address, _] = lab::addresses(to as u8 + 1);
            let address = SocketAddr::new(address, PORT);
            for (from, other) in hosts.iter().enumerate().filter(|(from, _)| *from != to) {
                let stream = sockets::connect(&other.namespace, address, sockets::socket)?;
                let accepted = sockets::accept(&listener)?;
                accepted.set_nodelay(true)?;
                for stream in [&stream, &accepted] {
                    stream.set_nonblocking(true)?;
                }
                let at = from * n + to;
                mesh.asking[at] = Some(stream);
                mesh.replying[at] = Some(Replier {
                    stream: accepted,
                    owed: 0,
                    blocked: false,
                });
            }
        }
        Ok(mesh)
    }

    /// Until `stop` is set.
    fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let pairs = self.asking.len();
        let mut waiter = Waiter::new(2 * pairs)?;
        for (at, token) in (0..pairs).zip(0_u64..) {
            if let (Some(asking), Some(replier)) = (&self.asking[at], &self.replying[at]) {
                waiter.add(asking, token)?;
                waiter.add(&replier.stream, token + pairs as u64)?;
            }
        }
        let mut buf = vec![0; CHUNK];
        let begin = Clock.now();
        let now = || Clock.now().since(begin).as_nanos();
        let mut next: Vec<u64> = (0..self.queries.spec.hosts)
            .map(|_| self.queries.interval())
            .collect();
        while !stop.load(Ordering::Relaxed) {
            let until = next.iter().copied().min();
            let until = until.map(|ns| begin + narrows::Duration::from_nanos(ns));
            waiter.wait(until)?;
            let ready: Vec<usize> = waiter.ready().map(|token| token as usize).collect();
            for token in ready {
                self.ready(token, &mut buf, &waiter)?;
            }
            for (host, at) in next.iter_mut().enumerate() {
                while *at <= now() {
                    *at += self.queries.interval();
                    self.ask(host)?;
                }
            }
        }
        Ok(())
    }

    fn ask(&mut self, host: usize) -> io::Result<()> {
        let n = usize::from(self.queries.spec.hosts);
        for to in self.queries.servers(host) {
            if let Some(mut stream) = self.asking[host * n + to].as_ref() {
                match stream.write(b"?") {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    other => drop(other?),
                }
            }
        }
        Ok(())
    }

    fn ready(&mut self, token: usize, buf: &mut [u8], waiter: &Waiter) -> io::Result<()> {
        let pairs = self.asking.len();
        if let Some(Some(stream)) = self.asking.get(token) {
            sockets::heard(stream, buf)?;
        } else if let Some(Some(replier)) = self.replying.get_mut(token.wrapping_sub(pairs)) {
            let asked = sockets::heard(&replier.stream, buf)?;
            replier.owed += asked * self.queries.spec.size.get();
            replier.write(buf, waiter, token as u64)?;
        }
        Ok(())
    }
}

impl Replier {
    fn write(&mut self, buf: &[u8], waiter: &Waiter, token: u64) -> io::Result<()> {
        let mut full = false;
        while self.owed > 0 && !full {
            let most = buf
                .len()
                .min(usize::try_from(self.owed).unwrap_or(usize::MAX));
            match self.stream.write(&buf[..most]) {
                Ok(n) => self.owed -= n as u64,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => full = true,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if full != self.blocked {
            self.blocked = full;
            waiter.set_writable(&self.stream, token, full)?;
        }
        Ok(())
    }
}
