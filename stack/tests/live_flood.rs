//! A SYN flood on the wire, from a host that answers each SYN-ACK with a RST, while the kernel's
//! TCP talks to ours. Established connections go on, new ones get in, and what is done for
//! strangers is bounded. No times are asserted.

use crate::kernel::kernel_echoes;
use crate::live::{Echo, host};
use crate::netns::{PATIENCE, add_address, counter, in_own_namespace};
use narrows::config::TcpConfig;
use narrows::device::Device;
use narrows::device::tap::{Tap, TapConfig};
use narrows::driver::RealTime;
use narrows::driver::poll::{PollConfig, spawn};
use narrows::endpoint::StrangerLimit;
use narrows::rng::Rng;
use narrows::wire::{Ecn, Flags, IpHeader, Packet, Seq, TcpHeader};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const MB: u64 = 1 << 20;
/// SYNs that the test waits for at least.
const SYNS: u64 = 50_000;
/// ... and how many leave a millisecond, as far as the machine lets them.
const RATE: u64 = 50;

/// SYNs from the kernel's own address, whose TCP knows nothing of them.
struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Flood {
    #[allow(clippy::disallowed_methods)] // A flood has a rate.
    fn start(from: SocketAddr, to: SocketAddr) -> Self {
        // SAFETY: the call takes numbers and gives a descriptor that is nobody else's.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        let (stop, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (stopped, count) = (stop.clone(), sent.clone());
        let thread = thread::spawn(move || {
            let mut rng = Rng::new(1);
            while !stopped.load(Ordering::Relaxed) {
                for _ in 0..RATE {
                    syn(&socket, from, to, &mut rng);
                    count.fetch_add(1, Ordering::Relaxed);
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        Self {
            stop,
            sent,
            thread: Some(thread),
        }
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

fn syn(socket: &OwnedFd, from: SocketAddr, to: SocketAddr, rng: &mut Rng) {
    let drawn = rng.next_u64();
    let packet = Packet {
        ip: IpHeader {
            src: from.ip(),
            dst: to.ip(),
            ecn: Ecn::NotEct,
            dscp: 0,
            hop_limit: 64,
        },
        tcp: TcpHeader {
            // Below the ports that the kernel gives its own connections.
            src_port: 1_024 + (drawn % 30_000) as u16,
            dst_port: to.port(),
            seq: Seq((drawn >> 32) as u32),
            flags: Flags::SYN,
            window: u16::MAX,
            ..TcpHeader::default()
        },
        payload: &[][..],
    };
    let mut bytes = [0; 128];
    let len = packet.emit(&mut bytes).unwrap();
    let SocketAddr::V4(to) = to else {
        panic!("IPv4")
    };
    // SAFETY: zeros are an address, whose fields are set then; it and the bytes live through the
    // call, which only reads them.
    unsafe {
        let mut addr: libc::sockaddr_in = std::mem::zeroed();
        addr.sin_family = libc::AF_INET as _;
        addr.sin_addr.s_addr = u32::from_ne_bytes(to.ip().octets());
        // One that finds no room is one less.
        libc::sendto(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            len,
            0,
            (&raw const addr).cast(),
            size_of_val(&addr) as _,
        );
    }
}

fn stands_a_flood(offload: bool, real_time: Option<RealTime>) {
    let config = TapConfig {
        offload,
        ..TapConfig::default()
    };
    let tap = Tap::open("nw%d", &config).unwrap();
    add_address(tap.name(), "10.77.0.9".parse().unwrap(), 24);
    let at: SocketAddr = "10.77.0.1:7".parse().unwrap();
    let server = host(1, TcpConfig::default(), tap.capabilities());
    let config = PollConfig {
        real_time,
        ..PollConfig::default()
    };
    let server = spawn(config, server, tap, Echo::new("10.77.0.1:7")).unwrap();
    let connect = || TcpStream::connect_timeout(&at, PATIENCE).unwrap();

    // One that was there before, and one after the other that comes.
    let before = connect();
    let flood = Flood::start("10.77.0.9:0".parse().unwrap(), at);
    let before = thread::spawn(move || kernel_echoes(before, 32 * MB));
    let mut came = 0;
    while flood.sent() < SYNS || came < 3 {
        kernel_echoes(connect(), MB / 4);
        came += 1;
    }
    before.join().unwrap();
    let sent = flood.sent();
    drop(flood);

    let ended = server.stop();
    ended.outcome.unwrap();
    let stats = ended.interface.endpoint().stats();
    eprintln!("{sent} SYNs, {came} new connections: {stats:?}");
    assert_eq!(ended.app.accepted, came + 1);
    // It was a flood, and of the kind that is answered with RSTs.
    let served = stats.passive_opens + stats.cookies_sent;
    let arrived = served + stats.backlog_drops + stats.strangers_dropped;
    assert!(arrived >= SYNS / 10, "{arrived} of {sent} arrived");
    assert!(counter("Tcp", "OutRsts") >= served / 10);
    let limit = StrangerLimit::default();
    let most = u64::from(limit.burst) + u64::from(limit.per_batch) * stats.batches;
    assert!(served <= most, "{served} served, {most} at most");
}

#[test]
fn established_connections_go_on_under_a_syn_flood() {
    in_own_namespace(|| stands_a_flood(true, None));
}

#[test]
fn established_connections_go_on_without_offload() {
    in_own_namespace(|| stands_a_flood(false, None));
}

/// The same with the driver's thread scheduled in real time.
#[test]
fn a_flood_in_real_time() {
    in_own_namespace(|| stands_a_flood(true, Some(RealTime::LOWEST)));
}
