//! A hostile peer with random schedules: it echoes congestion on every segment, closes and opens its
//! window, SACKs and reneges, lies about timestamps, sends data of its own among all that, and the
//! clock of the host jumps. Then it behaves, and what must hold is held by an oracle that shares no
//! code with the TCP: both streams are whole, byte by byte, within a stated time, and neither the
//! scoreboard nor the buffers have grown beyond what the configuration allows.
//!
//! `NARROWS_ADVERSARY_RUNS` says how many schedules are tried, `NARROWS_ADVERSARY_SEED` which is the
//! first. A failure names its seed.

use crate::pair::weather::{CONTROLS, Choice, TIMERS};
use crate::pair::{Conn, opening};
use narrows::config::{Lifetimes, TcpConfig};
use narrows::conn::Event;
use narrows::conn::state::State;
use narrows::rng::Rng;
use narrows::wire::{Ecn, Flags, SackBlock, Seq, TcpHeader, Timestamps};
use narrows::{Duration, Instant};
use std::collections::VecDeque;
use std::sync::Arc;

const ISS: u32 = u32::MAX - 9_000;
const IRS: u32 = u32::MAX - 700;
const SHIFT: u8 = 7;
const RTT: Duration = Duration::from_millis(20);
/// No timeout of any policy here is longer.
const LONGEST_RTO: Duration = Duration::from_secs(120);
/// From when the peer behaves until all has arrived: what waits for a timer may wait for the longest
/// there is, what is sent then may meet the marks and the closed window of before, and a round trip
/// of hours in the estimator makes the next timeout as long again.
const PATIENCE: Duration = Duration::from_secs(4 * 120);

/// No stream is longer.
const LONGEST: u64 = 61_000;

/// Both streams, ours first: the bytes of one differ from its shifted self, and from the other.
struct Streams([Vec<u8>; 2]);

impl Streams {
    fn new() -> Self {
        let byte = |at: u64, up: u64| (at.wrapping_mul(2_654_435_761).wrapping_add(up) >> 13) as u8;
        Self([1, 0].map(|up| (0..LONGEST).map(|at| byte(at, up)).collect()))
    }

    fn ours(&self, from: u64, to: u64) -> &[u8] {
        &self.0[0][from as usize..to as usize]
    }

    fn theirs(&self, from: u64, to: u64) -> &[u8] {
        &self.0[1][from as usize..to as usize]
    }
}

/// Whether `parts` are the bytes of a stream that begin with `want`, and how many they are.
fn same(parts: &[&[u8]], want: &[u8]) -> Option<u64> {
    let mut at = 0;
    for part in parts {
        let end = at + part.len();
        if want.get(at..end)? != *part {
            return None;
        }
        at = end;
    }
    Some(at as u64)
}

/// What the TCP has sent, held by its offset.
struct Sent {
    offset: u64,
    len: u64,
    cwr: bool,
    tsval: Option<u32>,
    edge: u64,
}

struct Rig<'a> {
    streams: &'a Streams,
    seed: u64,
    rng: Rng,
    now: Instant,
    conn: Conn,
    choice: Choice,
    stamps: bool,
    /// Bytes of ours, given to the TCP and to arrive.
    size: u64,
    given: u64,
    /// The peer holds all before `next`, and these runs after it, in order and apart.
    held: Vec<(u64, u64)>,
    next: u64,
    window: u64,
    echo: u32,
    echoing: bool,
    /// The peer's own stream: how much it has sent, and the TCP acknowledged; how much the user read.
    theirs: u64,
    sent: u64,
    acked: u64,
    read: u64,
    packets: u64,
}

impl<'a> Rig<'a> {
    fn new(seed: u64, streams: &'a Streams) -> Self {
        let mut rng = Rng::new(seed);
        let mut below = |n: u64| rng.next_u64() % n;
        let detectors = narrows::recovery::detector::standard().entries().len() as u64;
        let choice = Choice {
            control: below(CONTROLS.len() as u64) as usize,
            timer: below(TIMERS.len() as u64) as usize,
            detector: below(detectors) as usize,
            sack: below(4) > 0,
            stamps: below(3) as u8,
            prr: below(2) > 0,
            limited_transmit: below(2) > 0,
            spurious: below(2) > 0,
            ecn: below(4) as u8,
            ack: below(3) as u8,
            nagle: below(2) > 0,
            mss: 200 + below(1_260) as u16,
            send_buffer: 2_000 + below(100_000) as usize,
            recv_buffer: 2_000 + below(100_000) as usize,
            window: 1 + below(12) as u32,
            tick: below(4) as u8,
            paced: below(2) > 0,
            ranges: 1 + below(20) as usize,
            old_prr: below(4) == 0,
        };
        let config = TcpConfig {
            lifetimes: Lifetimes {
                data_retry_time: Duration::MAX,
                orphan_stall: None,
                keepalive: None,
                user_timeout: None,
                ..choice.config().lifetimes
            },
            ..choice.config()
        };
        let now = Instant::ZERO + Duration::from_secs(1_000);
        let mut syn = header(Flags::SYN | Flags::ECE | Flags::CWR, IRS, 0);
        syn.options.mss = Some(1_460);
        syn.options.window_scale = Some(SHIFT);
        syn.options.sack_permitted = true;
        syn.options.timestamps = Some(Timestamps { val: 7, ecr: 0 });
        let conn = Conn::accept(Arc::new(config), opening(true, ISS), &syn, now);
        let size = 1_000 + below(60_000);
        let theirs = below(30_000);
        let mut rig = Self {
            streams,
            seed,
            rng,
            now,
            conn,
            choice,
            stamps: false,
            size,
            given: 0,
            held: Vec::new(),
            next: 0,
            window: 1 << 20,
            echo: 0,
            echoing: false,
            theirs,
            sent: 0,
            acked: 0,
            read: 0,
            packets: 0,
        };
        let (_, syn_ack, _) = rig.conn.poll_transmit(now).expect("a SYN-ACK");
        rig.stamps = syn_ack.options.timestamps.is_some();
        rig.echo = syn_ack.options.timestamps.map_or(0, |t| t.val);
        rig.now = rig.now + RTT;
        rig.segment(0, &[], Flags::NONE, rig.echo, 0);
        assert!(matches!(rig.conn.state(), State::Established), "{seed}");
        rig
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.next_u64() % n.max(1)
    }

    fn often(&mut self, per_cent: u64) -> bool {
        self.below(100) < per_cent
    }

    /// A segment from the peer: `len` bytes of its own stream.
    fn segment(&mut self, len: u64, sack: &[(u64, u64)], flags: Flags, echo: u32, at: u64) {
        let mut tcp = header(
            Flags::ACK | flags,
            IRS.wrapping_add(1 + at as u32),
            self.next,
        );
        tcp.window = (self.window >> SHIFT) as u16;
        if self.stamps {
            let val = 8 + (self.now.as_nanos() / 1_000_000) as u32;
            tcp.options.timestamps = Some(Timestamps { val, ecr: echo });
        }
        for (start, end) in sack.iter().take(3) {
            tcp.options.sack.push(SackBlock {
                start: Seq(ISS) + 1 + *start as u32,
                end: Seq(ISS) + 1 + *end as u32,
            });
        }
        let data = self.streams.theirs(at, at + len);
        self.sent = self.sent.max(at + len);
        self.conn.handle_segment(self.now, Ecn::NotEct, &tcp, data);
    }

    /// The user writes and reads, and the TCP sends what it will.
    fn settle(&mut self) -> Vec<Sent> {
        let (seed, mut out) = (self.seed, Vec::new());
        while let Some(event) = self.conn.poll_event() {
            assert!(!matches!(event, Event::Closed(_)), "seed {seed}: {event:?}");
        }
        let more = self.size.min(self.given + 5_000);
        let more = self.streams.ours(self.given, more);
        self.given += self.conn.send(more, more.len()).unwrap_or(0) as u64;
        let unread = self.conn.recv_buffer().peek(self.conn.readable_end());
        let got = same(
            &unread.slices(),
            self.streams.theirs(self.read, self.theirs),
        );
        let got = got.unwrap_or_else(|| panic!("seed {seed}: read wrong at {}", self.read));
        self.read += got;
        self.conn.consume(got, self.now);
        while let Some((_, tcp, view)) = self.conn.poll_transmit(self.now) {
            let offset = u64::from(tcp.seq.since(Seq(ISS) + 1));
            assert!(offset <= self.given, "seed {seed}: sent from {offset}");
            let len = same(&view.slices(), self.streams.ours(offset, self.given));
            let len = len.unwrap_or_else(|| panic!("seed {seed}: sent wrong at {offset}"));
            self.acked = self.acked.max(u64::from(tcp.ack.since(Seq(IRS) + 1)));
            assert!(
                self.acked <= self.sent,
                "seed {seed}: acknowledges what was not sent"
            );
            out.push(Sent {
                offset,
                len,
                cwr: tcp.flags.contains(Flags::CWR),
                tsval: tcp.options.timestamps.map(|t| t.val),
                edge: self.next + self.window,
            });
            assert!(out.len() < 2_000, "seed {seed}: no end of sending");
        }
        self.packets += out.len() as u64;
        let board = self.conn.sender().scoreboard();
        board.check_invariants();
        let most = self.conn.config().buffers.max_outstanding_segments;
        // Where the segment size falls one becomes several; it does not here.
        assert!(board.len() <= most, "seed {seed}: {} records", board.len());
        let held = self.conn.readable();
        assert!(
            held <= self.conn.config().buffers.recv as u64 + 128,
            "seed {seed}"
        );
        out
    }

    /// A segment of ours arrives; `beyond`: the peer takes what lies outside its window, too.
    fn arrives(&mut self, sent: &Sent, beyond: bool) {
        if let Some(val) = sent.tsval {
            self.echo = val;
        }
        self.echoing &= !sent.cwr;
        let end = sent.offset + sent.len;
        if end > sent.edge && !beyond {
            return;
        }
        let (mut start, mut end) = (sent.offset, end);
        self.held.retain(|run| {
            let apart = run.1 < start || end < run.0;
            if !apart {
                (start, end) = (start.min(run.0), end.max(run.1));
            }
            apart
        });
        if start <= self.next {
            self.next = self.next.max(end);
        } else if start < end {
            let place = self.held.partition_point(|run| run.0 < start);
            self.held.insert(place, (start, end));
        }
    }

    /// Up to three runs that the peer holds beyond `next`.
    fn blocks(&self) -> Vec<(u64, u64)> {
        self.held.iter().copied().take(3).collect()
    }

    /// What the peer SACKed is thrown away.
    fn renege(&mut self) {
        self.held.clear();
    }

    fn hostile_step(&mut self) {
        // Time goes on with its timers, or jumps over them.
        match self.below(40) {
            0 => {
                let jump = Duration::from_secs(1 << self.below(16));
                self.now = self.now + jump;
                self.conn.handle_timeout(self.now);
            }
            1..=4 => {
                if let Some(at) = self.conn.poll_timeout() {
                    self.now = self.now.max(at.min(self.now + LONGEST_RTO));
                    self.conn.handle_timeout(self.now);
                }
            }
            _ => {
                let wait = Duration::from_micros(self.below(30_000));
                self.now = self.now + wait;
                self.conn.handle_timeout(self.now);
            }
        }
        for sent in self.settle() {
            let beyond = self.often(50);
            if self.often(80) {
                self.arrives(&sent, beyond);
            }
        }
        match self.below(12) {
            0..=2 => self.window = 0,
            3 => self.window = self.below(3_000),
            4..=6 => self.window = 1 << 20,
            7 => self.renege(),
            _ => {}
        }
        let mut sack = self.blocks();
        if self.often(10) {
            // Of anything, also of what was never sent.
            let start = self.below(self.size);
            sack.insert(0, (start, start + self.below(4_000)));
        }
        if self.often(20) {
            sack.clear();
        }
        let flags = if self.often(80) {
            Flags::ECE
        } else {
            Flags::NONE
        };
        let echo = match self.below(4) {
            0 => self.echo.wrapping_sub(self.below(1 << 30) as u32),
            _ => self.echo,
        };
        let ahead = self.acked + 2_000;
        let (at, len) = if self.often(60) {
            let at = self.acked + self.below(ahead.min(self.theirs).saturating_sub(self.acked));
            (at, self.below(700).min(self.theirs.saturating_sub(at)))
        } else {
            (self.acked, 0)
        };
        for _ in 0..1 + self.below(4) {
            self.segment(len, &sack, flags, echo, at);
        }
        let late = self.settle();
        for sent in late {
            if self.often(80) {
                self.arrives(&sent, true);
            }
        }
    }

    /// From here on the peer does as the RFCs say, over a path that loses nothing. How long until all
    /// has arrived.
    fn behave(&mut self) -> Duration {
        let begin = self.now;
        self.window = 1 << 20;
        self.echoing = true;
        if self.often(50) {
            self.renege();
        }
        // Perhaps what opens the window is lost, and only a probe draws it out again.
        let mut silent = self.next < self.size && self.often(50);
        if silent {
            self.window = 0;
            let (sack, flags) = (self.blocks(), self.ece());
            self.segment(0, &sack, flags, self.echo, self.acked);
            self.window = 1 << 20;
        }
        let mut path: VecDeque<(Instant, Sent)> = VecDeque::new();
        let mut due = self.now;
        loop {
            for sent in self.settle() {
                path.push_back((self.now + RTT, sent));
            }
            if self.next == self.size && self.read == self.theirs {
                return self.now.since(begin);
            }
            let took = self.now.since(begin);
            assert!(
                took <= PATIENCE,
                "seed {}: after {took} {} of {} and {} of {}; {:?} {:?} {:?}",
                self.seed,
                self.next,
                self.size,
                self.read,
                self.theirs,
                self.choice,
                self.conn,
                self.conn.sender_stats(),
            );
            let timer = self.conn.poll_timeout();
            let packet = path.front().map(|p| p.0);
            // The peer sends of its own, and again what is not acknowledged, once a round trip.
            let speaks = self.acked < self.theirs || self.echoing;
            let own = (speaks && !silent).then_some(due);
            let next = [timer, packet, own].into_iter().flatten().min();
            self.now = self.now.max(next.unwrap_or(begin + PATIENCE * 2));
            self.conn.handle_timeout(self.now);
            while path.front().is_some_and(|p| p.0 <= self.now) {
                let (_, sent) = path.pop_front().expect("there is one");
                self.arrives(&sent, true);
                if sent.len > 0 {
                    silent = false;
                    let sack = self.blocks();
                    let flags = self.ece();
                    self.segment(0, &sack, flags, self.echo, self.acked);
                }
            }
            if own.is_some_and(|at| at <= self.now) {
                let len = (self.theirs - self.acked).min(500);
                let flags = self.ece();
                self.segment(len, &[], flags, self.echo, self.acked);
                due = self.now + RTT;
            }
        }
    }

    /// RFC 3168 section 6.1.3: until CWR comes.
    fn ece(&self) -> Flags {
        if self.echoing {
            Flags::ECE
        } else {
            Flags::NONE
        }
    }
}

fn header(flags: Flags, seq: u32, ack: u64) -> TcpHeader {
    TcpHeader {
        src_port: 80,
        dst_port: 40_000,
        seq: Seq(seq),
        ack: if flags.contains(Flags::ACK) {
            Seq(ISS) + 1 + ack as u32
        } else {
            Seq(0)
        },
        flags,
        window: u16::MAX,
        ..TcpHeader::default()
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(default)
}

#[test]
fn a_peer_that_was_hostile_gets_all_once_it_behaves() {
    let first = number("NARROWS_ADVERSARY_SEED", 1);
    let runs = number("NARROWS_ADVERSARY_RUNS", 2_000);
    let (mut longest, mut packets) = ((Duration::ZERO, 0), 0);
    let streams = Streams::new();
    for seed in first..first + runs {
        let mut rig = Rig::new(seed, &streams);
        for _ in 0..rig.below(120) {
            rig.hostile_step();
        }
        longest = longest.max((rig.behave(), seed));
        packets += rig.packets;
    }
    println!("{runs} schedules, {packets} packets, longest {longest:?}");
}
