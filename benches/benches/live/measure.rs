//! One measurement: a path, who is at our end of it, and which way the bytes go.

use super::cpu::Cpu;
use super::kernel::{self, Counter, Way};
use super::lab::{self, Net, OTHER, OUR_THREAD, Path};
use super::{ours, smol, toy};
use narrows::config::{Buffers, TcpConfig};
use narrows::driver::poll::{PollConfig, Waiting, spawn};
use narrows::driver::{LiveTcp, secret};
use narrows::endpoint::EndpointConfig;
use narrows::interface::Interface;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// The port of every server.
const PORT: u16 = 5001;
/// Payload of a full segment with timestamps.
const SEGMENT: f64 = 1448.0;
/// Before the counting begins: slow start, buffers that grow.
const WARM_UP: Duration = Duration::from_millis(400);

/// Who is at our end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// A second kernel.
    Kernel,
    /// This TCP; how its driver waits.
    Narrows(Waiting),
    /// The toy.
    Toy,
    /// smoltcp.
    Smoltcp,
}

impl Who {
    /// In tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kernel => "Linux",
            Self::Narrows(Waiting::Sleep { .. }) => "narrows",
            Self::Narrows(Waiting::Spin) => "narrows, spinning",
            Self::Toy => "toy",
            Self::Smoltcp => "smoltcp",
        }
    }
}

/// Values of all measurements.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// How long to count.
    pub(crate) time: Duration,
    /// Our send and receive buffer.
    pub(crate) buffer: usize,
    /// The cores of our thread and of the kernel's user; `None`: as the scheduler likes it.
    pub(crate) cores: Option<[usize; 2]>,
    /// The kernels' congestion control.
    pub(crate) congestion: String,
}

impl Setting {
    /// The cores of our thread and of the kernel's user. One that spins shares none.
    fn places(&self, who: Who) -> [Option<usize>; 2] {
        match (self.cores, who) {
            (Some(cores), _) => cores.map(Some),
            (None, Who::Narrows(Waiting::Spin)) if cores() > 1 => [Some(0), Some(1)],
            _ => [None; 2],
        }
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// What a stream came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// Gb/s received by the user at the receiving end.
    pub(crate) rate: f64,
    /// Nanoseconds of our end's thread a segment of 1448 bytes, kernel included.
    pub(crate) per_segment: f64,
    /// The part of them outside the kernel.
    pub(crate) outside: f64,
}

impl Flow {
    /// Gb for each second of our end's thread.
    pub(crate) fn per_cpu_second(&self) -> f64 {
        SEGMENT * 8.0 / self.per_segment
    }
}

#[allow(clippy::disallowed_methods)] // To measure is to read a clock.
fn count(counter: &Counter, time: Duration) -> io::Result<Flow> {
    // Connected, and moving.
    let begin = Instant::now();
    while counter.load(Ordering::Relaxed) == 0 {
        if begin.elapsed() > Duration::from_secs(10) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no byte arrived"));
        }
        sleep(Duration::from_millis(1));
    }
    sleep(WARM_UP.min(time));
    let (start, cpu, bytes) = (
        Instant::now(),
        Cpu::of(OUR_THREAD),
        counter.load(Ordering::Relaxed),
    );
    sleep(time);
    let bytes = (counter.load(Ordering::Relaxed) - bytes) as f64;
    let cpu = Cpu::of(OUR_THREAD).since(cpu);
    Ok(Flow {
        rate: bytes * 8.0 / start.elapsed().as_nanos() as f64,
        per_segment: cpu.nanos as f64 * SEGMENT / bytes.max(1.0),
        outside: cpu.user_part(),
    })
}

fn tcp(setting: &Setting) -> TcpConfig {
    TcpConfig {
        buffers: Buffers {
            send: setting.buffer,
            recv: setting.buffer,
            ..Buffers::default()
        },
        ..TcpConfig::default()
    }
}

fn host(setting: &Setting, device: &dyn narrows::device::Device) -> io::Result<Interface<LiveTcp>> {
    let endpoint = EndpointConfig::new(Arc::new(tcp(setting)), secret()?);
    Interface::new(lab::interface(), endpoint, device.capabilities()).map_err(io::Error::other)
}

fn poll_config(waiting: Waiting, core: Option<usize>) -> PollConfig {
    PollConfig {
        waiting,
        name: Some(OUR_THREAD.to_owned()),
        core,
        ..PollConfig::default()
    }
}

/// One stream; `way` is what the kernel does.
///
/// # Errors
/// What the machine cannot do.
pub(crate) fn stream(path: Path, who: Who, way: Way, setting: &Setting) -> io::Result<Flow> {
    let at = SocketAddr::new(OTHER, PORT);
    let [ours_at, kernel_at] = setting.places(who);
    let counter = Counter::default();
    let stop = Arc::new(AtomicBool::new(false));
    // What our side counts when it receives.
    let ours = counter.clone();
    match who {
        Who::Kernel => {
            let [one, two] = lab::veth(path == Path::VethPlain, &setting.congestion)?;
            let listener = kernel::listen(&two, at)?;
            let peer = kernel::connect(&one, kernel_at, at, way, counter.clone())?;
            let (other, _) = listener.accept()?;
            let opposite = match way {
                Way::Sends => Way::Receives,
                Way::Receives => Way::Sends,
            };
            let other = kernel::run_as(OUR_THREAD, &two, ours_at, other, opposite, ours)?;
            let flow = count(&counter, setting.time);
            peer.stop();
            other.stop();
            flow
        }
        Who::Narrows(waiting) => {
            let (net, device) = lab::device(path, &setting.congestion)?;
            let role = match way {
                Way::Sends => ours::Role::Sink(ours),
                Way::Receives => ours::Role::Source,
            };
            let interface = host(setting, &*device)?;
            let app = ours::Server::new(at, role);
            let driver = spawn(poll_config(waiting, ours_at), interface, device, app)?;
            let flow =
                kernel::connect(&net, kernel_at, at, way, counter.clone()).and_then(|peer| {
                    let flow = count(&counter, setting.time);
                    peer.stop();
                    flow
                });
            let ended = driver.stop();
            ended.outcome?;
            if std::env::var_os("VERBOSE").is_some() {
                eprintln!("{:?}\n{:?}", ended.interface.stats(), ended.device.stats());
            }
            flow
        }
        Who::Toy => {
            let (net, device) = lab::device(path, &setting.congestion)?;
            let role = match way {
                Way::Sends => toy::Role::Sink(ours),
                Way::Receives => toy::Role::Source,
            };
            let stop_it = stop.clone();
            let thread = net.spawn_at(OUR_THREAD, ours_at, move || {
                toy::run(device, role, &stop_it)
            });
            let flow =
                kernel::connect(&net, kernel_at, at, way, counter.clone()).and_then(|peer| {
                    let flow = count(&counter, setting.time);
                    peer.stop();
                    flow
                });
            stop.store(true, Ordering::Relaxed);
            join(thread)?;
            flow
        }
        Who::Smoltcp => {
            let net = Net::new(&setting.congestion)?;
            let role = match way {
                Way::Sends => smol::Role::Sink(ours),
                Way::Receives => smol::Role::Source,
            };
            let stop_it = stop.clone();
            let (ready, wait) = std::sync::mpsc::channel();
            let thread = net.spawn_at(OUR_THREAD, ours_at, move || {
                smol::run("nw0", PORT, &role, &stop_it, || {
                    lab::adopt("nw0")?;
                    let _ = ready.send(());
                    Ok(())
                })
            });
            if wait.recv().is_err() {
                join(thread)?;
                return Err(io::Error::other("smoltcp ended"));
            }
            let flow =
                kernel::connect(&net, kernel_at, at, way, counter.clone()).and_then(|peer| {
                    let flow = count(&counter, setting.time);
                    peer.stop();
                    flow
                });
            stop.store(true, Ordering::Relaxed);
            join(thread)?;
            flow
        }
    }
}

fn join(thread: thread::JoinHandle<io::Result<()>>) -> io::Result<()> {
    thread.join().expect("it does not panic")
}

/// Round trips of a kernel's client to a server at our end: nanoseconds, in order of size.
///
/// # Errors
/// What the machine cannot do.
pub(crate) fn trips(path: Path, who: Who, setting: &Setting) -> io::Result<Vec<u64>> {
    let at = SocketAddr::new(OTHER, PORT);
    let [ours_at, kernel_at] = setting.places(who);
    match who {
        Who::Kernel => {
            let [one, two] = lab::veth(path == Path::VethPlain, &setting.congestion)?;
            kernel::echo(&two, ours_at, kernel::listen(&two, at)?);
            kernel::ping(&one, kernel_at, at, setting.time)
        }
        Who::Narrows(waiting) => {
            let (net, device) = lab::device(path, &setting.congestion)?;
            let interface = host(setting, &*device)?;
            let app = ours::Server::new(at, ours::Role::Echo);
            let driver = spawn(poll_config(waiting, ours_at), interface, device, app)?;
            let trips = kernel::ping(&net, kernel_at, at, setting.time);
            driver.stop().outcome?;
            trips
        }
        Who::Toy | Who::Smoltcp => Err(io::ErrorKind::Unsupported.into()),
    }
}
