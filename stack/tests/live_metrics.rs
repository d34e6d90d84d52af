//! What is remembered of a peer (RFC 9040), beside what the kernel remembers (`ip tcp_metrics`): the same
//! transfers, one after the other, over the same path, which loses the same segment of each. Reno, whose
//! slow start ends with a loss and not before.
//!
//! The kernel's rules are those of `net/ipv4/tcp_metrics.c`. Where they are others than ours, both are held
//! to their own.
//!
//! A try during which the path stood still for long enough to come near a timeout says nothing of rules,
//! and does not count. In any other, what is sent again is what was lost.

use crate::live::data;
use crate::long_path::{
    ONE_WAY, Relay, SINK, Way, command, data as data_of, has, ip, plain, prepare,
};
use crate::long_path::{real_time, sink_that_closes};
use crate::netns::{add_address, await_running, in_namespace, in_own_namespace, sysctl};
use crate::verdict::{Verdict, judged};
use narrows::config::TcpConfig;
use narrows::congestion::registry::CongestionRegistry;
use narrows::conn::Event;
use narrows::conn::info::TcpInfo;
use narrows::device::Device;
use narrows::device::tap::{Tap, TapConfig};
use narrows::driver::poll::{Application, PollConfig, spawn};
use narrows::driver::{LiveTcp, secret};
use narrows::endpoint::metrics::MetricsConfig;
use narrows::endpoint::{ConnId, EndpointConfig, EndpointEvent};
use narrows::interface::{Interface, InterfaceConfig};
use narrows::recovery::detector;
use narrows::wire::ethernet::MacAddr;
use narrows::{Duration, Instant};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

/// Some 277 segments: five rounds of slow start.
const TOTAL: usize = 400_000;
const SEGMENTS: usize = TOTAL.div_ceil(1_448);
/// In a round of 40, so that the rest is congestion avoidance.
const LOST: usize = 60;
/// The kernel's `TCP_INFINITE_SSTHRESH`; of ours it is more.
const NONE: u32 = 0x7fff_ffff;
/// A quarter of the least timeout, of the kernel's and of ours: 200 ms and the round trip.
const STANDSTILL: Duration = Duration::from_millis(50);
/// For the kernel to close a connection whose far end has closed, on however busy a machine.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// A transfer: the segment that is lost of it, the first being 0, and how long the way there takes.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    lost: Option<usize>,
    there: Duration,
}

const CLEAN: Transfer = Transfer {
    lost: None,
    there: ONE_WAY,
};

const fn losing(segment: usize) -> Transfer {
    Transfer {
        lost: Some(segment),
        there: ONE_WAY,
    }
}

/// One after the other from a host that remembers nothing before.
const NOTHING_LOST: [Transfer; 2] = [CLEAN, CLEAN];
const ONE_LOST: [Transfer; 3] = [losing(LOST), losing(15), CLEAN];
/// There is nothing after it: it takes a timeout, and the end comes in slow start.
const LAST_LOST: [Transfer; 2] = [losing(SEGMENTS - 1), CLEAN];
const NEARER: [Transfer; 2] = [
    Transfer {
        lost: None,
        there: Duration::from_millis(50),
    },
    CLEAN,
];
const ALL: [&[Transfer]; 4] = [&NOTHING_LOST, &ONE_LOST, &LAST_LOST, &NEARER];

/// What `TCP_INFO` says, of the kernel's or ours; thresholds and windows in segments, times in
/// microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Info {
    ssthresh: u32,
    cwnd: u32,
    rtt: u32,
    rto: u32,
    retransmitted: u32,
}

/// A connection when it was open, and when all was acknowledged.
type Course = (Info, Info);

/// Loses the segments of the transfers that are to come, in their order.
struct Losing {
    transfers: mpsc::Receiver<Transfer>,
    /// Of each sender, what its transfer is and how many of its segments came.
    known: BTreeMap<SocketAddr, (Transfer, usize)>,
    there: Duration,
    /// The longest time between two looks since the first connection was opened.
    stood_still: Duration,
}

impl Way for Losing {
    fn on_look(&mut self, after: Duration) {
        if !self.known.is_empty() {
            self.stood_still = self.stood_still.max(after);
        }
    }
    fn forth(&mut self, now: Instant, frame: &[u8]) -> Option<Instant> {
        if let Some(syn) = syn_of(frame) {
            let transfer = self.known.get(&syn).map(|(transfer, _)| *transfer);
            let transfer =
                transfer.unwrap_or_else(|| self.transfers.try_recv().expect("one for each"));
            self.there = transfer.there;
            self.known.entry(syn).or_insert((transfer, 0));
        }
        if let Some((from, ..)) = data_of(frame)
            && let Some((transfer, came)) = self.known.get_mut(&from)
        {
            let nth = *came;
            *came += 1;
            if transfer.lost == Some(nth) {
                return None;
            }
        }
        Some(now + self.there)
    }
}

/// Whose connection a frame opens.
fn syn_of(frame: &[u8]) -> Option<SocketAddr> {
    use narrows::wire::{ChecksumPolicy, Flags, Packet};
    if frame.get(12..14) != Some(&[8, 0]) {
        return None;
    }
    let packet = Packet::parse(&frame[14..], ChecksumPolicy::Trust).ok()?;
    let syn = packet.tcp.flags.contains(Flags::SYN);
    syn.then(|| SocketAddr::new(packet.ip.src, packet.tcp.src_port))
}

/// A transfer by the kernel's TCP.
fn kernel_sends() -> Course {
    let info = |stream: &TcpStream| {
        let info = crate::judge::KernelInfo::of(stream);
        Info {
            ssthresh: info.snd_ssthresh,
            cwnd: info.snd_cwnd,
            rtt: info.rtt,
            rto: info.rto,
            retransmitted: info.total_retrans,
        }
    };
    let mut stream = TcpStream::connect(SINK).unwrap();
    let start = info(&stream);
    stream.write_all(&data(0, TOTAL)).unwrap();
    // The far end closes when it has all.
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    let end = info(&stream);
    let local = stream.local_addr().unwrap();
    drop(stream);
    await_closed(local);
    (start, end)
}

/// Until the kernel has no connection at this address of the namespace's: what it stores it has stored by
/// then.
#[allow(clippy::disallowed_methods)] // It waits for the kernel.
fn await_closed(local: SocketAddr) {
    // The local address is the second word of a line, its port in hexadecimal digits.
    let port = format!(":{:04X}", local.port());
    let is_there = || {
        let all = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
        let mut locals = all.lines().filter_map(|of| of.split_whitespace().nth(1));
        locals.any(|address| address.ends_with(&port))
    };
    let since = std::time::Instant::now();
    while is_there() {
        assert!(since.elapsed() < PATIENCE, "{local} is still there");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// The threshold that the kernel has stored for the far end, if any.
fn stored() -> Option<u32> {
    let said = command("ip", "tcp_metrics show 10.77.0.254");
    let mut words = said.split_whitespace().skip_while(|w| *w != "ssthresh");
    words.nth(1)?.parse().ok()
}

/// Transfers of ours, by one host that remembers.
#[derive(Default)]
struct Sequence {
    left: usize,
    sent: usize,
    start: Info,
    courses: Vec<Course>,
}

impl Sequence {
    fn connect(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant) -> io::Result<()> {
        self.sent = 0;
        let conn = tcp.connect(now, None, SINK.parse().unwrap(), None);
        conn.map(drop).map_err(io::Error::other)
    }

    fn info(tcp: &Interface<LiveTcp>, conn: ConnId, now: Instant) -> Info {
        let info = TcpInfo::of(tcp.endpoint().connection(conn).unwrap(), now);
        Info {
            ssthresh: info.tcpi_snd_ssthresh,
            cwnd: info.tcpi_snd_cwnd,
            rtt: info.tcpi_rtt,
            rto: info.tcpi_rto,
            retransmitted: info.tcpi_total_retrans,
        }
    }
}

impl Application<LiveTcp> for Sequence {
    fn start(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant) -> io::Result<()> {
        self.connect(tcp, now)
    }
    fn event(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant, event: EndpointEvent) {
        let EndpointEvent::Conn { event, conn } = event else {
            unreachable!("nobody listens")
        };
        match event {
            Event::Connected | Event::Writable => {
                if event == Event::Connected {
                    self.start = Self::info(tcp, conn, now);
                }
                let Some(conn) = tcp.endpoint_mut().connection_mut(conn) else {
                    return;
                };
                let rest = data(self.sent as u64, TOTAL - self.sent);
                self.sent += conn.send(&rest, rest.len()).unwrap();
            }
            Event::PeerClosed => {
                self.courses.push((self.start, Self::info(tcp, conn, now)));
                tcp.endpoint_mut().connection_mut(conn).unwrap().close(now);
            }
            Event::Closed(_) => {
                assert_eq!(self.sent, TOTAL);
                tcp.endpoint_mut().release(conn, now);
                self.left -= 1;
                if self.left > 0 {
                    self.connect(tcp, now).unwrap();
                }
            }
            _ => {}
        }
    }
    fn is_done(&self) -> bool {
        self.left == 0
    }
}

fn we_send(number: u8, transfers: usize) -> Vec<Course> {
    let config = TapConfig {
        offload: false,
        ..TapConfig::default()
    };
    let tap = Tap::open("nwo%d", &config).unwrap();
    ip(&format!("link set {} master nwb0", tap.name()));
    await_running(&[tap.name()]);
    let tcp = TcpConfig {
        congestion: CongestionRegistry::standard().get("reno").unwrap(),
        detector: detector::standard().get("rack-notlp").unwrap(),
        ..TcpConfig::default()
    };
    let address = format!("10.77.0.{number}/24").parse().unwrap();
    let config = InterfaceConfig::new(MacAddr([2, 0x77, 0, 0, 0, number]), vec![address]);
    let endpoint = EndpointConfig {
        metrics: Some(MetricsConfig::default()),
        ..EndpointConfig::new(Arc::new(tcp), secret().unwrap())
    };
    let host = Interface::new(config, endpoint, tap.capabilities()).unwrap();
    let config = PollConfig {
        real_time: real_time(),
        ..PollConfig::default()
    };
    let sequence = Sequence {
        left: transfers,
        ..Sequence::default()
    };
    let ended = spawn(config, host, tap, sequence).unwrap().join();
    ended.outcome.unwrap();
    ended.app.courses
}

/// All transfers of one sender, the kernel's with what it had stored after each.
#[derive(Default)]
struct Seen {
    /// Where nothing is said of it, the kernel stores no threshold.
    by_default: Vec<Course>,
    kernel: Vec<Vec<(Course, Option<u32>)>>,
    ours: Vec<Vec<Course>>,
    /// The longest time for which nothing was carried.
    stood_still: Duration,
}

/// Sets what it has when it goes, be it by a panic: who waits for that ends too.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn transfers() -> Seen {
    prepare(true);
    sysctl("net/ipv4/tcp_no_metrics_save", "0");
    // No probe at the tail, so that it takes a timeout.
    sysctl("net/ipv4/tcp_early_retrans", "0");
    let whole: usize = ALL.iter().map(|transfers| transfers.len()).sum();
    let (path, far) = mpsc::channel();
    let sink = std::thread::spawn(move || {
        let all = ONE_LOST.len() + 2 * whole;
        in_namespace("the sink", move || sink_that_closes(all, TOTAL, &path)).unwrap();
    });
    let far = far.recv().expect("a namespace of the sink's own");
    ip("link add nwb0 type bridge");
    let near = plain("nwa0");
    ip("link set nwa0 master nwb0");
    ip("link set nwb0 up");
    await_running(&["nwa0", "nwb0"]);
    add_address("nwb0", "10.77.0.8".parse().unwrap(), 24);
    ip("route replace 10.77.0.0/24 dev nwb0 src 10.77.0.8 congctl reno");
    let (next, transfers) = mpsc::channel();
    let way = Losing {
        transfers,
        known: BTreeMap::new(),
        there: ONE_WAY,
        stood_still: Duration::ZERO,
    };
    let stop = AtomicBool::new(false);
    let mut seen = Seen::default();
    std::thread::scope(|scope| {
        let path = scope.spawn(|| Relay::new([near, far], way).run(&stop));
        let at_the_end = SetOnDrop(&stop);
        for transfer in ONE_LOST {
            next.send(transfer).unwrap();
            seen.by_default.push(kernel_sends());
        }
        sysctl("net/ipv4/tcp_no_ssthresh_metrics_save", "0");
        for (nth, transfers) in ALL.iter().enumerate() {
            ip("tcp_metrics flush");
            let by_kernel = transfers.iter().map(|transfer| {
                next.send(*transfer).unwrap();
                (kernel_sends(), stored())
            });
            seen.kernel.push(by_kernel.collect());
            for transfer in *transfers {
                next.send(*transfer).unwrap();
            }
            // Each time another host, which remembers nothing.
            seen.ours.push(we_send(1 + nth as u8, transfers.len()));
        }
        sink.join().unwrap();
        drop(at_the_end);
        seen.stood_still = path.join().unwrap().stood_still;
    });
    seen
}

/// What the kernel makes of a connection that ends in congestion avoidance.
fn in_avoidance(end: &Info) -> u32 {
    end.ssthresh.max(end.cwnd / 2)
}

/// What was lost was sent again, once, and nothing else.
fn judge_retransmissions(seen: &Seen) {
    let kernel = seen.kernel.iter().map(|of| {
        let courses = of.iter().map(|(course, _)| *course);
        courses.collect::<Vec<_>>()
    });
    for (of, transfers) in kernel
        .chain(seen.ours.iter().cloned())
        .zip(ALL.iter().cycle())
    {
        for ((_, end), transfer) in of.iter().zip(*transfers) {
            let lost = u32::from(transfer.lost.is_some());
            assert_eq!(end.retransmitted, lost, "{transfer:?}: {end:?}");
        }
    }
}

fn judge(seen: &Seen) {
    judge_retransmissions(seen);
    // Not stored, if it is left as it is.
    assert!(seen.by_default[0].1.ssthresh < NONE, "it has lost one");
    for (start, _) in &seen.by_default {
        assert!(start.ssthresh >= NONE, "{start:?}");
    }
    let [clean, one, last, nearer] = &seen.kernel[..] else {
        panic!("four");
    };
    for ((start, _), stored) in clean {
        assert!(start.ssthresh >= NONE, "{start:?}");
        assert_eq!(*stored, None);
    }
    // What the first left, then what the second left: not their mean.
    for (before, after) in one.iter().zip(&one[1..]) {
        let ((_, end), stored) = before;
        let ((start, _), _) = after;
        assert_eq!(start.ssthresh, in_avoidance(end), "{end:?}");
        assert_eq!(*stored, Some(start.ssthresh));
    }
    // Slow start had not ended: nothing.
    let ((_, end), stored) = &last[0];
    assert!(end.ssthresh < NONE && end.cwnd < end.ssthresh, "{end:?}");
    assert_eq!(*stored, None);
    assert!(last[1].0.0.ssthresh >= NONE, "{last:?}");
    // The RTT is for the first timeout alone: its own handshake gives the estimate.
    let ((_, end), _) = &nearer[0];
    let ((start, _), _) = &nearer[1];
    assert!(
        end.rtt >= 60_000 && start.rtt < end.rtt,
        "{end:?} {start:?}"
    );
    assert!(start.rto >= end.rtt + 200_000 - 8_000, "{end:?} {start:?}");

    let [clean, one, last, nearer] = &seen.ours[..] else {
        panic!("four");
    };
    for (start, _) in clean {
        assert!(start.ssthresh >= NONE, "{start:?}");
    }
    let [first, second, third] = [0, 1, 2].map(|n| one[n]);
    assert_eq!(second.0.ssthresh, first.1.ssthresh, "{one:?}");
    // Of two the mean, in bytes.
    let mean = u32::midpoint(first.1.ssthresh, second.1.ssthresh);
    assert!(third.0.ssthresh.abs_diff(mean) <= 1, "{one:?}");
    // Wherever it ends.
    assert!(last[0].1.ssthresh < NONE, "{last:?}");
    assert_eq!(last[1].0.ssthresh, last[0].1.ssthresh, "{last:?}");
    // The estimate goes on from the last: its own handshake is an eighth of it.
    let ((_, end), (start, _)) = (nearer[0], nearer[1]);
    assert!(
        start.rtt > end.rtt * 3 / 4 && start.rtt < end.rtt,
        "{nearer:?}"
    );
}

#[test]
fn what_is_remembered_of_a_peer_is_what_the_kernel_remembers_but_for_its_rules() {
    if !has(&["ip"]) {
        return;
    }
    judged(|| {
        let (tell, told) = mpsc::channel();
        in_own_namespace(move || tell.send(transfers()).unwrap());
        let Ok(seen) = told.recv() else {
            return Verdict::Holds; // It was skipped.
        };
        for ((transfers, kernel), ours) in ALL.iter().zip(&seen.kernel).zip(&seen.ours) {
            eprintln!("{transfers:?}");
            for (course, stored) in kernel {
                eprintln!("  kernel {course:?}, stored {stored:?}");
            }
            for course in ours {
                eprintln!("  ours {course:?}");
            }
        }
        if seen.stood_still > STANDSTILL {
            return Verdict::Disturbed(format!("the path stood still for {}", seen.stood_still));
        }
        Verdict::of(|| judge(&seen))
    });
}
