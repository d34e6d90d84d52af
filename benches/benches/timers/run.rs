//! The drivers and the device that measure.

use narrows::config::{Lifetimes, TcpConfig};
use narrows::congestion::rto::presets;
use narrows::conn::Event;
use narrows::device::loopback::Loopback;
use narrows::device::{Device, DeviceStats, Refused};
use narrows::driver::poll::{Application, PollConfig, Waiting, spawn};
use narrows::driver::tokio::{Stack, TcpStream};
use narrows::driver::{Clock, LiveTcp, secret};
use narrows::endpoint::{EndpointConfig, EndpointEvent};
use narrows::interface::{Capabilities, Interface, InterfaceConfig, Medium, RxFrame, TxFrame};
use narrows::recovery::dup_thresh::Sack6675;
use narrows::wire::ethernet::MacAddr;
use narrows::{Duration, Instant};
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::io::AsyncWriteExt;

/// Longer than any wait for a sample.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// The first retransmissions, which other timers may have a part in.
const SKIPPED: usize = 3;

/// Throws away what carries data, and says when it was to leave.
struct Stopwatch {
    device: Loopback,
    left: Sender<Instant>,
}

impl Device for Stopwatch {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }
    fn receive(
        &mut self,
        now: Instant,
        budget: usize,
        sink: &mut dyn FnMut(&RxFrame<'_>),
    ) -> io::Result<usize> {
        self.device.receive(now, budget, sink)
    }
    fn transmit(&mut self, now: Instant, frame: &TxFrame<'_>) -> Result<(), Refused> {
        if frame.body.is_empty() {
            return self.device.transmit(now, frame);
        }
        // Nobody counts any more.
        let _ = self.left.send(Clock.now());
        Ok(())
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.device.fd()
    }
    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }
}

/// Listens, or connects and writes once.
enum App {
    Server,
    Client,
}

fn address(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 77, 0, n], 7))
}

impl Application<LiveTcp> for App {
    fn start(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant) -> io::Result<()> {
        match self {
            Self::Server => tcp
                .listen(address(2), 8, None)
                .map(drop)
                .map_err(io::Error::other),
            Self::Client => tcp
                .connect(now, None, address(2), None)
                .map(drop)
                .map_err(io::Error::other),
        }
    }
    fn event(&mut self, tcp: &mut Interface<LiveTcp>, _: Instant, event: EndpointEvent) {
        if let EndpointEvent::Conn { conn, event } = event
            && event == Event::Connected
            && let Some(conn) = tcp.endpoint_mut().connection_mut(conn)
        {
            let _ = conn.send(&[7; 100], 100);
        }
    }
}

fn interface(n: u8) -> InterfaceConfig {
    let cidr = format!("10.77.0.{n}/24").parse().expect("an address");
    InterfaceConfig::new(MacAddr([2, 0x77, 0, 0, 0, n]), vec![cidr])
}

fn tcp(rto: Duration) -> TcpConfig {
    TcpConfig {
        rto: Arc::new(move || presets::fixed(rto)),
        // No tail-loss probes, and never given up.
        detector: Arc::new(Sack6675::new),
        lifetimes: Lifetimes {
            data_retries: u32::MAX,
            ..Lifetimes::default()
        },
        // The SYN may well be late by the RTO; that is to say nothing of what follows.
        rto_after_syn_timeout: Duration::ZERO,
        ..TcpConfig::default()
    }
}

fn host(n: u8, rto: Duration, capabilities: Capabilities) -> io::Result<Interface<LiveTcp>> {
    let endpoint = EndpointConfig::new(Arc::new(tcp(rto)), secret()?);
    Interface::new(interface(n), endpoint, capabilities).map_err(io::Error::other)
}

/// Which driver.
#[derive(Clone, Copy)]
enum Driver {
    Poll(Waiting),
    Tokio,
}

/// How late `samples` timeouts are, in nanoseconds, in order of size.
fn lateness(driver: Driver, rto: Duration, samples: usize) -> io::Result<Vec<u64>> {
    let (ours, theirs) = Loopback::pair(Capabilities::plain(Medium::Ethernet, 1500), 1 << 20)?;
    let peer = host(2, rto, theirs.capabilities())?;
    let peer = spawn(PollConfig::default(), peer, theirs, App::Server)?;
    let (left, times) = channel();
    let device = Stopwatch { device: ours, left };
    let gaps = match driver {
        Driver::Poll(waiting) => {
            let config = PollConfig {
                waiting,
                ..PollConfig::default()
            };
            let interface = host(1, rto, device.capabilities())?;
            let client = spawn(config, interface, device, App::Client)?;
            let gaps = gaps(&times, samples);
            client.stop().outcome?;
            gaps
        }
        Driver::Tokio => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let (done, over) = tokio::sync::oneshot::channel();
            let counting = std::thread::spawn(move || {
                let gaps = gaps(&times, samples);
                let _ = done.send(());
                gaps
            });
            runtime.block_on(async {
                let stack = Stack::spawn(device, interface(1), tcp(rto))?;
                let mut stream = TcpStream::connect(&stack, address(2)).await?;
                stream.write_all(&[7; 100]).await?;
                let _ = over.await;
                stream.set_zero_linger()?;
                io::Result::Ok(())
            })?;
            counting.join().expect("it does not panic")
        }
    };
    // The other end of its cable is gone: that is no failure.
    drop(peer);
    let rto = rto.as_nanos();
    let mut late: Vec<u64> = gaps?.iter().map(|g| g.saturating_sub(rto)).collect();
    late.sort_unstable();
    Ok(late)
}

/// The times between `samples` and one more.
fn gaps(times: &Receiver<Instant>, samples: usize) -> io::Result<Vec<u64>> {
    let mut gaps = Vec::new();
    let mut last = None;
    for _ in 0..samples + SKIPPED + 1 {
        let at = times.recv_timeout(PATIENCE).map_err(io::Error::other)?;
        let before = last.replace(at);
        gaps.extend(before.map(|b: Instant| at.since(b).as_nanos()));
    }
    Ok(gaps.split_off(SKIPPED))
}

struct Options {
    words: Vec<String>,
    samples: usize,
    rto: Duration,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        words: Vec::new(),
        samples: 1_000,
        rto: Duration::from_millis(2),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || -> Result<u64, String> {
            let value = args.next().ok_or(format!("{arg} takes a value"))?;
            let value = value.parse();
            value.map_err(|e| format!("the value of {arg}: {e}"))
        };
        match arg.as_str() {
            // Cargo says that it benches.
            "--bench" => {}
            "--test" => options.samples = 5,
            "--samples" => options.samples = number()?.max(1) as usize,
            "--rto" => options.rto = Duration::from_micros(number()?.max(1)),
            flag if flag.starts_with('-') => return Err(format!("there is no option {flag}")),
            _ => options.words.push(arg),
        }
    }
    Ok(options)
}

/// A line for each driver.
pub(crate) fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
    let sleep = |micros| {
        Driver::Poll(Waiting::Sleep {
            spin: Duration::from_micros(micros),
        })
    };
    println!("| Driver | RTO late by p50 | p90 | p99, in us |\n|---|---|---|---|");
    for (name, driver) in [
        ("poll, asleep until it is due", sleep(0)),
        ("poll, sleeps, then spins 60 us", sleep(60)),
        ("poll, spinning", Driver::Poll(Waiting::Spin)),
        ("tokio, one thread", Driver::Tokio),
    ] {
        if !options.words.iter().all(|w| name.contains(w.as_str())) {
            continue;
        }
        match lateness(driver, options.rto, options.samples) {
            Ok(late) => {
                let at = |percent: usize| late[(late.len() - 1) * percent / 100] as f64 / 1e3;
                println!("| {name} | {:.1} | {:.1} | {:.1} |", at(50), at(90), at(99));
            }
            Err(e) => {
                eprintln!("{name}: {e}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
