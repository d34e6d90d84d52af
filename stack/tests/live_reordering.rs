//! A path on which some packets are late, between two namespaces: 100 Mb/s, a round trip of 20 ms,
//! and one packet of data in twenty 5 or 10 ms later than its neighbours. Counted is what a sender
//! sends again although it was on its way already, and held against what the kernel's TCP sends
//! again on the same path, and against how many packets were late (RFC 8985 section 6.2).
//!
//! The path and our senders run in real time, as far as the machine lets them. Where it stood still
//! all the same, a transfer says nothing about who sends again too early, and all is done again.
#![cfg(feature = "device")]

mod live;
#[path = "live/netns.rs"]
mod netns;

use live::host;
use narrows::buffer::synthetic::{check_pattern, fill_pattern};
use narrows::config::{TcpConfig, TimestampMode};
use narrows::conn::Event;
use narrows::device::Device;
use narrows::device::tap::{Tap, TapConfig};
use narrows::driver::poll::{Application, PollConfig, spawn};
use narrows::driver::{Clock, LiveTcp, RealTime};
use narrows::endpoint::{ConnId, EndpointEvent};
use narrows::interface::{Interface, Offload, TxFrame};
use narrows::rng::Rng;
use narrows::wire::{ChecksumPolicy, Packet};
use narrows::{Duration, Instant, Rate};
use netns::{add_address, await_running, in_namespace, in_own_namespace, sysctl};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

const RATE: Rate = Rate::from_mbps(100);
/// Of the bottleneck's queue, in bytes.
const BUFFER: u64 = 256 << 10;
const ONE_WAY: Duration = Duration::from_millis(10);
/// One in so many packets of data is late, by one of these.
const ONE_IN: u32 = 20;
const LATE: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(10)];
const SEED: u64 = 1;
/// Of a transfer, in bytes.
const TOTAL: usize = 4_000_000;
/// A quarter of the round trip, for which RACK waits at first: where nothing was carried for so long,
/// what was sent again was sent in good faith.
const STANDSTILL: Duration = Duration::from_millis(5);
/// How often it is tried to have the machine go on for as long as three transfers take.
const TRIES: u32 = 5;
/// Before all that other tests do at the same time.
const PRIORITY: u8 = 20;
/// Preamble, check sequence and gap of a frame.
const AROUND: u64 = 24;
const ETHERNET: usize = 14;
/// The kernel at the far end.
const SINK: &str = "10.77.0.254:9";

/// What the path saw of one transfer.
#[derive(Clone, Debug, Default)]
#[allow(dead_code, reason = "some are for who reads of a failure")]
struct Seen {
    /// Packets of data that passed.
    passed: u64,
    /// Of these, late.
    late: u64,
    /// Of these, all of whose bytes had passed already.
    again: u64,
    /// Packets that found the queue full.
    dropped: u64,
    /// The longest time for which nothing was carried, though something was due perhaps.
    stood_still: Duration,
}

/// Which bytes of a transfer passed: the first one's number, and by byte.
type Passed = Option<(u32, Vec<bool>)>;

impl Seen {
    /// `len` bytes from `seq` on pass.
    fn pass(&mut self, passed: &mut Passed, seq: u32, len: usize) {
        let (first, bytes) = passed.get_or_insert_with(|| (seq, vec![false; TOTAL]));
        let from = seq.wrapping_sub(*first) as usize;
        let bytes = &mut bytes[from..from + len];
        self.again += u64::from(bytes.iter().all(|passed| *passed));
        bytes.fill(true);
        self.passed += 1;
    }
}

/// The path between two TAPs.
struct Path {
    /// The senders' end, and the far one.
    ends: [Tap; 2],
    /// What is on its way: when it is due, which came first; to which end.
    on_its_way: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    count: u64,
    /// When it was last looked what is due.
    looked_at: Instant,
    /// The longest time between two looks since the last packet of data.
    stood_still: Duration,
    /// When the bottleneck has sent all that waits.
    idle_at: Instant,
    rng: Rng,
    /// By the sender's address and port.
    seen: BTreeMap<SocketAddr, (Seen, Passed)>,
}

impl Path {
    fn new(ends: [Tap; 2]) -> Self {
        Self {
            ends,
            on_its_way: BTreeMap::new(),
            count: 0,
            looked_at: Clock.now(),
            stood_still: Duration::ZERO,
            idle_at: Instant::ZERO,
            rng: Rng::new(SEED),
            seen: BTreeMap::new(),
        }
    }

    /// Carry until `stop` is set.
    #[allow(clippy::disallowed_methods)] // It waits for the kernel.
    fn run(mut self, stop: &AtomicBool) -> Vec<(IpAddr, Seen)> {
        if let Some(priority) = real_time() {
            priority.apply().unwrap();
        }
        while !stop.load(Ordering::Acquire) {
            let looked_at = std::mem::replace(&mut self.looked_at, Clock.now());
            self.stood_still = self.stood_still.max(self.looked_at.since(looked_at));
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
                    match from {
                        0 => self.forth(now, frame),
                        _ => self.carry(now + ONE_WAY, 0, frame),
                    }
                }
            }
            if !arrived {
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
        let seen = self.seen.into_iter();
        seen.map(|(who, (seen, _))| (who.ip(), seen)).collect()
    }

    fn carry(&mut self, due: Instant, to: usize, frame: Vec<u8>) {
        self.count += 1;
        self.on_its_way.insert((due, self.count), (to, frame));
    }

    /// To the far end: through the bottleneck.
    fn forth(&mut self, now: Instant, frame: Vec<u8>) {
        let data = data(&frame);
        let waits = RATE
            .bytes_in(self.idle_at.since(now.min(self.idle_at)))
            .get();
        let takes = frame.len() as u64 + AROUND;
        if waits + takes > BUFFER {
            if let Some((from, ..)) = data {
                self.seen.entry(from).or_default().0.dropped += 1;
            }
            return;
        }
        self.idle_at = self.idle_at.max(now) + RATE.time_for(narrows::ByteCount::new(takes));
        let mut due = self.idle_at + ONE_WAY;
        if let Some((from, seq, len)) = data {
            let (seen, passed) = self.seen.entry(from).or_default();
            let stood_still = std::mem::take(&mut self.stood_still);
            if seen.passed > 0 {
                seen.stood_still = seen.stood_still.max(stood_still);
            }
            seen.pass(passed, seq, len);
            if self.rng.below(ONE_IN.into()) == 0 {
                due = due + LATE[self.rng.below(2) as usize];
                seen.late += 1;
            }
        }
        self.carry(due, 1, frame);
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
fn data(frame: &[u8]) -> Option<(SocketAddr, u32, usize)> {
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
    sent: usize,
    conn: Option<ConnId>,
    done: bool,
}

impl Bulk {
    fn pump(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant) {
        let id = self.conn.unwrap();
        let Some(conn) = tcp.endpoint_mut().connection_mut(id) else {
            return;
        };
        let mut buf = [0; 1 << 16];
        while self.sent < TOTAL {
            let n = (TOTAL - self.sent).min(buf.len());
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
            EndpointEvent::Conn { event, .. } => match event {
                Event::Connected | Event::Writable => self.pump(tcp, now),
                Event::PeerClosed => self.done = true,
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

/// The far end: takes `transfers` transfers, one after the other, and gives its TAP to `path`.
fn sink(timestamps: bool, transfers: usize, path: &mpsc::Sender<Tap>) {
    prepare(timestamps);
    let tap = plain("nws0");
    add_address("nws0", "10.77.0.254".parse().unwrap(), 24);
    await_running(&["nws0"]);
    let listener = TcpListener::bind(SINK).unwrap();
    path.send(tap).unwrap();
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
        assert_eq!(got, TOTAL as u64);
    }
}

/// A TAP that cuts super-frames, with a queue that a heap does not overflow.
fn plain(name: &str) -> Tap {
    let config = TapConfig {
        offload: false,
        ..TapConfig::default()
    };
    let tap = Tap::open(name, &config).unwrap();
    ip(&format!("link set {name} txqueuelen 10000"));
    tap
}

fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {args}: {said}");
}

/// This namespace's kernel.
fn prepare(timestamps: bool) {
    sysctl("net/ipv6/conf/all/disable_ipv6", "1");
    sysctl(
        "net/ipv4/tcp_timestamps",
        if timestamps { "1" } else { "0" },
    );
    // Each transfer begins anew.
    sysctl("net/ipv4/tcp_no_metrics_save", "1");
}

/// A transfer by the kernel's TCP.
fn kernel_sends() {
    let mut stream = TcpStream::connect(SINK).unwrap();
    let mut data = vec![0; TOTAL];
    fill_pattern(0, &mut data);
    stream.write_all(&data).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

/// ... and by ours, as host `number`.
fn we_send(number: u8, timestamps: bool, offload: bool) {
    let config = TapConfig {
        offload,
        ..TapConfig::default()
    };
    let tap = Tap::open("nwo%d", &config).unwrap();
    ip(&format!("link set {} master nwb0", tap.name()));
    await_running(&[tap.name()]);
    let mut tcp = TcpConfig {
        send_buffer: 4 << 20,
        ..TcpConfig::default()
    };
    if !timestamps {
        tcp.timestamps = TimestampMode::Off;
    }
    let bulk = Bulk {
        sent: 0,
        conn: None,
        done: false,
    };
    let host = host(number, tcp, tap.capabilities());
    let config = PollConfig {
        real_time: real_time(),
        ..PollConfig::default()
    };
    let ended = spawn(config, host, tap, bulk).unwrap().join();
    ended.outcome.unwrap();
}

/// Three transfers over a path: the kernel's, and ours with and without offload.
fn transfers(timestamps: bool) -> [Seen; 3] {
    prepare(timestamps);
    let (path, far) = mpsc::channel();
    let sink = std::thread::spawn(move || {
        in_namespace("the sink", move || sink(timestamps, 3, &path)).unwrap();
    });
    let far = far.recv().expect("a namespace of the sink's own");
    ip("link add nwb0 type bridge");
    let near = plain("nwa0");
    ip("link set nwa0 master nwb0");
    ip("link set nwb0 up");
    add_address("nwb0", "10.77.0.9".parse().unwrap(), 24);
    await_running(&["nwa0", "nwb0"]);
    let stop = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let path = scope.spawn(|| Path::new([near, far]).run(&stop));
        kernel_sends();
        we_send(1, timestamps, true);
        we_send(2, timestamps, false);
        sink.join().unwrap();
        stop.store(true, Ordering::Release);
        path.join().unwrap()
    });
    ["10.77.0.9", "10.77.0.1", "10.77.0.2"].map(|address| {
        let address: IpAddr = address.parse().unwrap();
        let found = seen.iter().find(|(who, _)| *who == address);
        found.unwrap().1.clone()
    })
}

/// Late packets make ours send again no more than they make the kernel's, and a part of those that
/// were late: while it learns how late they can be.
fn late_packets(timestamps: bool) {
    if Command::new("ip").arg("-V").output().is_err() {
        assert!(std::env::var("CI").is_err(), "there is no `ip` command");
        eprintln!("SKIPPED: there is no `ip` command");
        return;
    }
    for _ in 0..TRIES {
        let (tell, told) = mpsc::channel();
        in_own_namespace(move || tell.send(transfers(timestamps)).unwrap());
        let seen = told.recv().unwrap();
        if let Some(one) = seen.iter().find(|one| one.stood_still > STANDSTILL) {
            eprintln!("once more: {one:?}");
            continue;
        }
        let [kernels, offloaded, plain] = seen;
        eprintln!("the kernel's: {kernels:?}");
        for (offload, ours) in [(true, offloaded), (false, plain)] {
            eprintln!("ours, offload {offload}: {ours:?}");
            assert!(ours.late > 50, "seed {SEED}: {ours:?}");
            let most = kernels.again + ours.late / 2;
            assert!(
                ours.again <= most,
                "seed {SEED}, timestamps {timestamps}, offload {offload}: {ours:?}; kernel {kernels:?}"
            );
        }
        return;
    }
    eprintln!("NOT JUDGED: in each of {TRIES} tries the machine stood still for {STANDSTILL}");
}

/// Going first, if we may have that.
fn real_time() -> Option<RealTime> {
    let priority = RealTime::new(PRIORITY)?;
    let tried = std::thread::spawn(move || priority.apply());
    tried.join().unwrap().is_ok().then_some(priority)
}

#[test]
fn rfc8985_6_2_late_packets_are_waited_for_with_timestamps() {
    late_packets(true);
}

#[test]
fn rfc8985_6_2_late_packets_are_waited_for_without_timestamps() {
    late_packets(false);
}
