//! Bursts on wires of the kernel: hosts of the kernel's around a switch with small ports, each of
//! which asks several others at once, while their counters are polled.
//!
//! It is the live twin of traffic `fan-out`. One thread does what the applications of all hosts do:
//! queries arrive at each host in a Poisson process of its own, a byte asks for a reply. What the
//! twin leaves out: the kernel's TCP is what it is (RACK and TLP among it), a super-frame of two
//! segments crosses a port as one, and a busy machine adds its scheduler's waits to bursts and looks
//! alike.

use crate::LiveError;
use crate::incast::Waiter;
use crate::lab::{self, KernelHost, Owned, Port};
use crate::meter::{self, Interface, Polled, Track};
use crate::shaper::{RouteRules, Shape};
use crate::sockets;
use narrows::driver::{Clock, RealTime};
use narrows::{ByteCount, Rate};
use narrows_experiment::sim::rng::{Component, Stream};
use nix::libc;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const PORT: u16 = 5_001;
const CHUNK: usize = 64 << 10;
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

/// What was seen.
#[derive(Clone, Debug)]
pub struct BurstRun {
    /// At each period, the counters of each host.
    pub tracks: Vec<Track>,
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
    if spec.servers == 0 || spec.servers >= spec.hosts || spec.hosts > 20 {
        let why = "from 1 to 19 servers a query, fewer than there are hosts, of which 20 at most";
        return Err(LiveError::Invalid(why.to_owned()));
    }
    let lab = Owned::new(
        &format!("{}b{}", lab::OWNED_PREFIX, std::process::id()),
        None,
    )?;
    let frame = u64::from(lab::MTU) + 14;
    let link = Shape {
        rate: spec.rate,
        limit: ByteCount::new(1_000 * frame),
        burst: ByteCount::new(2 * frame),
        mark_above: None,
    };
    let port = Shape {
        limit: spec.buffer,
        ..link
    };
    let numbers = 1..=spec.hosts;
    let hosts = numbers.map(|n| lab.add_kernel_host(n, &link, RouteRules::default()));
    let hosts: Vec<KernelHost> = hosts.collect::<Result<_, _>>()?;
    let watches = (1..=spec.hosts).map(|n| lab.shape(Port::Further(n), &port));
    let mut watches = watches.collect::<Result<Vec<_>, _>>()?;
    let failed = |e| LiveError::io("ask and reply on hosts of the kernel's", e);
    let mut mesh = Mesh::new(spec, &hosts).map_err(failed)?;
    let interfaces = hosts
        .iter()
        .map(|h| Interface::within(&h.namespace, lab::KERNEL_INTERFACE));
    let mut interfaces: Vec<Interface> = interfaces.collect::<io::Result<_>>().map_err(failed)?;
    let mut drops = || -> io::Result<u64> {
        let all = watches.iter_mut().map(|w| Ok(w.look()?.drops));
        all.sum()
    };
    let stop = AtomicBool::new(false);
    let (polled, worked, before, after) = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            promptly();
            mesh.run(&stop)
        });
        meter::poll(&mut [], &[WARM_UP], WARM_UP, cancel);
        let before = drops();
        let poller = scope.spawn(|| {
            promptly();
            meter::poll(&mut interfaces, periods, spec.span, cancel)
        });
        let polled = poller.join().map(Polled::whole);
        let after = drops();
        stop.store(true, Ordering::Relaxed);
        (polled, worker.join(), before, after)
    });
    joined(worked).map_err(failed)?;
    let count = |e| LiveError::io("read the counters", e);
    Ok(BurstRun {
        tracks: joined(polled).map_err(count)?,
        drops: after.map_err(count)?.saturating_sub(before.map_err(count)?),
    })
}

/// What a thread gave, or its panic.
fn joined<T>(thread: thread::Result<T>) -> T {
    thread.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Before threads that are not scheduled in real time, where that is allowed: what a busy machine
/// adds is not the network's.
fn promptly() {
    let _ = RealTime::LOWEST.apply();
}

/// The applications of all hosts.
struct Mesh {
    spec: BurstSpec,
    /// The asking side of each connection: of host `n / hosts`, to host `n % hosts`.
    asking: Vec<Option<TcpStream>>,
    /// The replying side, at the same place.
    replying: Vec<Option<Replier>>,
    random: Stream,
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
            spec: *spec,
            asking: (0..n * n).map(|_| None).collect(),
            replying: (0..n * n).map(|_| None).collect(),
            random: Stream::new(spec.seed, Component::Scenario, 0),
        };
        for (to, host) in hosts.iter().enumerate() {
            let listener = sockets::listen(&host.namespace, PORT, spec.hosts, sockets::socket)?;
            let [address, _] = lab::addresses(to as u8 + 1);
            let address = SocketAddr::new(address, PORT);
            for (from, other) in hosts.iter().enumerate().filter(|(from, _)| *from != to) {
                let stream = sockets::connect(&other.namespace, address, sockets::socket)?;
                let (accepted, _) = listener.accept()?;
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
        let mut next: Vec<u64> = (0..self.spec.hosts).map(|_| self.interval()).collect();
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
                    *at += self.interval();
                    self.ask(host)?;
                }
            }
        }
        Ok(())
    }

    /// From one query of a host to the next, in nanoseconds: exponential.
    fn interval(&mut self) -> u64 {
        let bits = self.spec.size.get() * 8 * u64::from(self.spec.servers);
        let mean = bits as f64 / self.spec.load.bits_per_sec() as f64 * 1e9;
        let even = (self.random.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
        (-even.ln() * mean) as u64
    }

    fn ask(&mut self, host: usize) -> io::Result<()> {
        let n = usize::from(self.spec.hosts);
        let mut left = usize::from(self.spec.servers);
        // Each other host with the same chance.
        let mut others = n - 1;
        for to in (0..n).filter(|to| *to != host) {
            if self.random.below(others as u64) < left as u64 {
                left -= 1;
                if let Some(mut stream) = self.asking[host * n + to].as_ref() {
                    match stream.write(b"?") {
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                        other => drop(other?),
                    }
                }
            }
            others -= 1;
        }
        Ok(())
    }

    fn ready(&mut self, token: usize, buf: &mut [u8], waiter: &Waiter) -> io::Result<()> {
        let pairs = self.asking.len();
        if let Some(Some(stream)) = self.asking.get(token) {
            heard(stream, buf)?;
        } else if let Some(Some(replier)) = self.replying.get_mut(token.wrapping_sub(pairs)) {
            replier.owed += heard(&replier.stream, buf)? * self.spec.size.get();
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

/// What there is to read of a stream, in bytes.
fn heard(mut stream: &TcpStream, buf: &mut [u8]) -> io::Result<u64> {
    match stream.read(buf) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(n) => Ok(n as u64),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => Ok(0),
        Err(e) => Err(e),
    }
}
