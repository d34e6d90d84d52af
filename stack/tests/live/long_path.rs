//! A path of 20 ms between two TAPs, carried in real time, and transfers over it: the kernel's, and
//! ours. What happens to a packet on its way there each test says itself.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part of it.

use super::live::host;
use super::netns::{add_address, await_running, sysctl};
use narrows::buffer::synthetic::{check_pattern, fill_pattern};
use narrows::config::{Buffers, TcpConfig};
use narrows::conn::Event;
use narrows::device::Device;
use narrows::device::tap::{Tap, TapConfig};
use narrows::driver::poll::{Application, PollConfig, spawn};
use narrows::driver::{Clock, LiveTcp, RealTime};
use narrows::endpoint::{ConnId, EndpointEvent};
use narrows::interface::{Interface, Offload, TxFrame};
use narrows::recovery::SenderStats;
use narrows::wire::{ChecksumPolicy, Packet};
use narrows::{Duration, Instant};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// Of the path, without what waits in queues.
pub const ONE_WAY: Duration = Duration::from_millis(10);
/// The kernel at the far end.
pub const SINK: &str = "10.77.0.254:9";
/// Before all that other tests do at the same time.
const PRIORITY: u8 = 20;
const ETHERNET: usize = 14;

/// The way there.
pub trait Way {
    /// Nothing was carried for so long before this look.
    fn on_look(&mut self, after: Duration);
    /// A frame for the far end: when it is there, if ever.
    fn forth(&mut self, now: Instant, frame: &[u8]) -> Option<Instant>;
}

/// Carries frames between two TAPs: there by a [`Way`], and back in [`ONE_WAY`].
pub struct Relay<W> {
    /// The senders' end, and the far one.
    ends: [Tap; 2],
    way: W,
    /// What is on its way: when it is due, which came first; to which end.
    on_its_way: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    count: u64,
}

impl<W: Way> Relay<W> {
    pub fn new(ends: [Tap; 2], way: W) -> Self {
        Self {
            ends,
            way,
            on_its_way: BTreeMap::new(),
            count: 0,
        }
    }

    /// Carry until `stop` is set.
    #[allow(clippy::disallowed_methods)] // It waits for the kernel.
    pub fn run(mut self, stop: &AtomicBool) -> W {
        if let Some(priority) = real_time() {
            priority.apply().unwrap();
        }
        let mut looked_at = Clock.now();
        while !stop.load(Ordering::Acquire) {
            let before = std::mem::replace(&mut looked_at, Clock.now());
            self.way.on_look(looked_at.since(before));
            self.deliver();
            let mut arrived = false;
            for from in 0..2 {
                let mut frames = Vec::new();
                let now = Clock.now();
                self.ends[from]
                    .receive(now, 64, &mut |frame| frames.push(frame.bytes.to_vec()))
                    .unwrap();
                arrived |= !frames.is_empty();
                for frame in frames {
                    let due = match from {
                        0 => self.way.forth(now, &frame),
                        _ => Some(now + ONE_WAY),
                    };
                    if let Some(due) = due {
                        self.count += 1;
                        self.on_its_way.insert((due, self.count), (1 - from, frame));
                    }
                }
            }
            if !arrived {
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
        self.way
    }

    fn deliver(&mut self) {
        while let Some(next) = self.on_its_way.first_entry() {
            let now = Clock.now();
            if next.key().0 > now {
                return;
            }
            let (to, frame) = next.remove();
            let frame = TxFrame {
                head: &frame,
                body: narrows::buffer::BytesView::default(),
                offload: Offload::NONE,
            };
            self.ends[to]
                .transmit(now, &frame)
                .expect("a TAP takes all");
        }
    }
}

/// Whose data it is, from which number on, and how much.
pub fn data(frame: &[u8]) -> Option<(SocketAddr, u32, usize)> {
    // IPv4, and no question for a neighbour.
    if frame.get(12..14) != Some(&[8, 0]) {
        return None;
    }
    let packet = Packet::parse(&frame[ETHERNET..], ChecksumPolicy::Trust).ok()?;
    let from = SocketAddr::new(packet.ip.src, packet.tcp.src_port);
    let len = packet.payload.len();
    (len > 0).then_some((from, packet.tcp.seq.0, len))
}

/// Sends all, then closes.
struct Bulk {
    total: usize,
    sent: usize,
    conn: Option<ConnId>,
    done: bool,
    stats: SenderStats,
}

impl Bulk {
    fn pump(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant) {
        let id = self.conn.unwrap();
        let Some(conn) = tcp.endpoint_mut().connection_mut(id) else {
            return;
        };
        let mut buf = [0; 1 << 16];
        while self.sent < self.total {
            let n = (self.total - self.sent).min(buf.len());
            fill_pattern(self.sent as u64, &mut buf[..n]);
            let taken = conn.send(&buf[..n], n).unwrap();
            self.sent += taken;
            if taken < n {
                return;
            }
        }
        conn.close(now);
    }
}

impl Application<LiveTcp> for Bulk {
    fn start(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant) -> io::Result<()> {
        let to = SINK.parse().unwrap();
        let conn = tcp.connect(now, None, to, None);
        self.conn = Some(conn.map_err(io::Error::other)?);
        Ok(())
    }
    fn event(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant, event: EndpointEvent) {
        match event {
            EndpointEvent::Conn { event, conn } => match event {
                Event::Connected | Event::Writable => self.pump(tcp, now),
                Event::PeerClosed => {
                    let conn = tcp.endpoint().connection(conn);
                    self.stats = conn.map(|c| c.sender_stats()).unwrap_or_default();
                    self.done = true;
                }
                Event::Closed(why) => panic!("closed after {} bytes: {why}", self.sent),
                _ => {}
            },
            EndpointEvent::Accepted { .. } => unreachable!("nobody listens"),
        }
    }
    fn is_done(&self) -> bool {
        self.done
    }
}

/// The far end: takes `transfers` transfers of `total` bytes, one after the other, and gives its TAP
/// to `path`.
pub fn sink(timestamps: bool, transfers: usize, total: usize, path: &mpsc::Sender<Tap>) {
    let listener = listen(timestamps, path);
    let mut buf = vec![0; 1 << 16];
    for _ in 0..transfers {
        let (mut stream, _) = listener.accept().unwrap();
        let mut got = 0;
        loop {
            let n = stream.read(&mut buf).unwrap();
            if n == 0 {
                break;
            }
            assert_eq!(check_pattern(got, &buf[..n]), None);
            got += n as u64;
        }
        assert_eq!(got, total as u64);
    }
}

/// The same; it closes as soon as it has all.
pub fn sink_that_closes(transfers: usize, total: usize, path: &mpsc::Sender<Tap>) {
    let listener = listen(true, path);
    let mut all = vec![0; total];
    for _ in 0..transfers {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut all).unwrap();
        assert_eq!(check_pattern(0, &all), None);
    }
}

fn listen(timestamps: bool, path: &mpsc::Sender<Tap>) -> TcpListener {
    prepare(timestamps);
    let tap = plain("nws0");
    add_address("nws0", "10.77.0.254".parse().unwrap(), 24);
    await_running(&["nws0"]);
    let listener = TcpListener::bind(SINK).unwrap();
    path.send(tap).unwrap();
    listener
}

/// A TAP that cuts super-frames, with a queue that a heap does not overflow.
pub fn plain(name: &str) -> Tap {
    let config = TapConfig {
        offload: false,
        ..TapConfig::default()
    };
    let tap = Tap::open(name, &config).unwrap();
    ip(&format!("link set {name} txqueuelen 10000"));
    tap
}

/// What `ip` is told to do.
pub fn ip(args: &str) {
    command("ip", args);
}

/// What a program said.
pub fn command(program: &str, args: &str) -> String {
    let output = Command::new(program)
        .args(args.split(' '))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether a test can be made here, for which `programs` are needed; with `CI=true` they must be there.
pub fn has(programs: &[&str]) -> bool {
    programs.iter().all(|program| {
        let there = Command::new(program).arg("-V").output().is_ok();
        assert!(
            there || std::env::var("CI").is_err(),
            "there is no `{program}`"
        );
        if !there {
            eprintln!("SKIPPED: there is no `{program}` command");
        }
        there
    })
}

/// This namespace's kernel.
pub fn prepare(timestamps: bool) {
    sysctl("net/ipv6/conf/all/disable_ipv6", "1");
    sysctl(
        "net/ipv4/tcp_timestamps",
        if timestamps { "1" } else { "0" },
    );
    // Each transfer begins anew.
    sysctl("net/ipv4/tcp_no_metrics_save", "1");
}

/// Gives the kernel's sender its `address`. It uses CUBIC as ours does, whatever the machine is set to:
/// BBR would fill the queue whatever was lost.
pub fn add_sender(interface: &str, address: &str) {
    add_address(interface, address.parse().unwrap(), 24);
    ip(&format!(
        "route replace 10.77.0.0/24 dev {interface} src {address} congctl cubic"
    ));
}

/// A transfer by the kernel's TCP.
pub fn kernel_sends(total: usize) {
    let mut stream = TcpStream::connect(SINK).unwrap();
    let mut data = vec![0; total];
    fill_pattern(0, &mut data);
    stream.write_all(&data).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

/// ... and by ours, as host `number` at the bridge `nwb0`.
pub fn we_send(number: u8, tcp: TcpConfig, offload: bool, total: usize) -> SenderStats {
    let config = TapConfig {
        offload,
        ..TapConfig::default()
    };
    let tap = Tap::open("nwo%d", &config).unwrap();
    ip(&format!("link set {} master nwb0", tap.name()));
    await_running(&[tap.name()]);
    let tcp = TcpConfig {
        buffers: Buffers {
            send: 4 << 20,
            ..tcp.buffers
        },
        ..tcp
    };
    let bulk = Bulk {
        total,
        sent: 0,
        conn: None,
        done: false,
        stats: SenderStats::default(),
    };
    let host = host(number, tcp, tap.capabilities());
    let config = PollConfig {
        real_time: real_time(),
        ..PollConfig::default()
    };
    let ended = spawn(config, host, tap, bulk).unwrap().join();
    ended.outcome.unwrap();
    ended.app.stats
}

/// Going first, if we may have that.
pub fn real_time() -> Option<RealTime> {
    let priority = RealTime::new(PRIORITY)?;
    let tried = std::thread::spawn(move || priority.apply());
    tried.join().unwrap().is_ok().then_some(priority)
}
