//! A path on which some packets are late, between two namespaces: 100 Mb/s, a round trip of 20 ms,
//! and one packet of data in twenty 5 or 10 ms later than its neighbours. Counted is what a sender
//! sends again although it was on its way already, and held against what the kernel's CUBIC sends
//! again on the same path, and against how many packets were late (RFC 8985 section 6.2); and goodput
//! is held against the kernel's. What is held is the median of a few transfers.
//!
//! The path and our senders run in real time, as far as the machine lets them. A transfer during which
//! it stood still all the same says nothing about who sends again too early, and does not count.

use crate::long_path::{
    ONE_WAY, Relay, Way, add_sender, data, has, ip, kernel_sends, plain, prepare, sink, we_send,
};
use crate::netns::{await_running, in_namespace, in_own_namespace};
use crate::verdict::{Verdict, judged};
use narrows::config::{TcpConfig, TimestampMode};
use narrows::rng::Rng;
use narrows::{Duration, Instant, Rate};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

const RATE: Rate = Rate::from_mbps(100);
/// Of the bottleneck's queue, in bytes.
const BUFFER: u64 = 256 << 10;
/// One in so many packets of data is late, by one of these.
const ONE_IN: u32 = 20;
const LATE: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(10)];
const SEED: u64 = 1;
/// Of a transfer, in bytes.
const TOTAL: usize = 12_000_000;
/// Of each sender.
const ROUNDS: u8 = 5;
/// So many of these must count.
const COUNTED: usize = 3;
/// A quarter of the round trip, for which RACK waits at first: where nothing was carried for so long,
/// what was sent again was sent in good faith.
const STANDSTILL: Duration = Duration::from_millis(5);
/// Preamble, check sequence and gap of a frame.
const AROUND: u64 = 24;

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
    /// When the first packet of data came, and when the last one left.
    from_to: Option<(Instant, Instant)>,
}

/// Which bytes of a transfer passed: the first one's number, and by byte.
type Passed = Option<(u32, Vec<bool>)>;

impl Seen {
    /// Mb/s of the transfer, without its handshake.
    fn goodput(&self) -> u64 {
        let time = self
            .from_to
            .map_or(Duration::ZERO, |(from, to)| to.since(from));
        TOTAL as u64 * 8_000 / time.as_nanos().max(1)
    }

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

/// A bottleneck, behind which some are late.
struct LatePackets {
    /// The longest time between two looks since the last packet of data.
    stood_still: Duration,
    /// When the bottleneck has sent all that waits.
    idle_at: Instant,
    rng: Rng,
    /// By the sender's address and port.
    seen: BTreeMap<SocketAddr, (Seen, Passed)>,
}

impl LatePackets {
    fn new() -> Self {
        Self {
            stood_still: Duration::ZERO,
            idle_at: Instant::ZERO,
            rng: Rng::new(SEED),
            seen: BTreeMap::new(),
        }
    }
}

impl Way for LatePackets {
    fn on_look(&mut self, after: Duration) {
        self.stood_still = self.stood_still.max(after);
    }

    fn forth(&mut self, now: Instant, frame: &[u8]) -> Option<Instant> {
        let data = data(frame);
        let waits = RATE
            .bytes_in(self.idle_at.since(now.min(self.idle_at)))
            .get();
        let takes = frame.len() as u64 + AROUND;
        if waits + takes > BUFFER {
            if let Some((from, ..)) = data {
                self.seen.entry(from).or_default().0.dropped += 1;
            }
            return None;
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
            let from = seen.from_to.map_or(now, |(from, _)| from);
            seen.from_to = Some((from, self.idle_at));
            if self.rng.below(ONE_IN.into()) == 0 {
                due = due + LATE[self.rng.below(2) as usize];
                seen.late += 1;
            }
        }
        Some(due)
    }
}

/// Transfers over a path, in turn: the kernel's, and ours with and without offload.
fn transfers(timestamps: bool) -> [Vec<Seen>; 3] {
    prepare(timestamps);
    let (path, far) = mpsc::channel();
    let sink = std::thread::spawn(move || {
        in_namespace("the sink", move || {
            sink(timestamps, 3 * usize::from(ROUNDS), TOTAL, &path)
        })
        .unwrap();
    });
    let far = far.recv().expect("a namespace of the sink's own");
    ip("link add nwb0 type bridge");
    let near = plain("nwa0");
    ip("link set nwa0 master nwb0");
    ip("link set nwb0 up");
    add_sender("nwb0", "10.77.0.253");
    await_running(&["nwa0", "nwb0"]);
    let tcp = TcpConfig {
        timestamps: match timestamps {
            true => TcpConfig::default().timestamps,
            false => TimestampMode::Off,
        },
        ..TcpConfig::default()
    };
    let stop = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let path = scope.spawn(|| Relay::new([near, far], LatePackets::new()).run(&stop));
        for round in 0..ROUNDS {
            kernel_sends(TOTAL);
            // Each host sends once: it remembers the path.
            we_send(2 * round + 1, tcp.clone(), true, TOTAL);
            we_send(2 * round + 2, tcp.clone(), false, TOTAL);
        }
        sink.join().unwrap();
        stop.store(true, Ordering::Release);
        path.join().unwrap().seen
    });
    let mut by_sender: [Vec<Seen>; 3] = Default::default();
    for (from, (seen, _)) in seen {
        let IpAddr::V4(from) = from.ip() else {
            unreachable!("the path has IPv4 only");
        };
        let sender = match from.octets()[3] {
            253 => 0,
            host => 2 - usize::from(host % 2),
        };
        by_sender[sender].push(seen);
    }
    by_sender
}

/// The one in the middle.
fn median(of: &[Seen], what: impl Fn(&Seen) -> u64) -> u64 {
    let mut all: Vec<u64> = of.iter().map(what).collect();
    all.sort_unstable();
    all[all.len() / 2]
}

/// Late packets make ours send again no more than they make the kernel's, and a part of those that
/// were late: while it learns how late they can be. Its goodput is within a tenth of the kernel's.
fn late_packets(timestamps: bool) {
    if !has(&["ip"]) {
        return;
    }
    judged(|| {
        let (tell, told) = mpsc::channel();
        in_own_namespace(move || tell.send(transfers(timestamps)).unwrap());
        let Ok(mut seen) = told.recv() else {
            return Verdict::Holds; // It was skipped.
        };
        for (sender, seen) in ["the kernel", "ours, offload", "ours, plain"]
            .iter()
            .zip(&seen)
        {
            for one in seen {
                eprintln!("{sender}: {} Mb/s, {one:?}", one.goodput());
            }
        }
        for seen in &mut seen {
            seen.retain(|one| one.stood_still <= STANDSTILL);
        }
        if seen.iter().any(|seen| seen.len() < COUNTED) {
            return Verdict::Disturbed("the machine stood still too often".to_owned());
        }
        let [kernels, ours @ ..] = &seen;
        let again = |of: &[Seen]| median(of, |one| one.again);
        let goodput = |of: &[Seen]| median(of, Seen::goodput);
        let found = ours.each_ref().map(|ours| {
            let late = median(ours, |one| one.late);
            assert!(late > 50, "seed {SEED}: {late} were late");
            let needless = again(ours) > again(kernels) + late / 2;
            let slow = goodput(ours) * 10 < goodput(kernels) * 9;
            needless || slow
        });
        let said = format!(
            "seed {SEED}, timestamps {timestamps}; the kernel's, ours with offload, plain: sent again {:?}, Mb/s {:?}",
            seen.each_ref().map(|of| again(of)),
            seen.each_ref().map(|of| goodput(of)),
        );
        eprintln!("{said}");
        match found {
            [false, false] => Verdict::Holds,
            _ => Verdict::Fails(said),
        }
    });
}

#[test]
fn rfc8985_6_2_late_packets_are_waited_for_with_timestamps() {
    late_packets(true);
}

#[test]
fn rfc8985_6_2_late_packets_are_waited_for_without_timestamps() {
    late_packets(false);
}
