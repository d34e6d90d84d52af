//! One connection against a scripted peer: the test says what is acknowledged, and when.
//!
//! Positions are counted in segments of [`MSS`] bytes from the first byte of the stream.
#![allow(dead_code, missing_docs, unreachable_pub)] // Each test file uses a part of it.

use narrows::buffer::{RecvRing, SendRing};
use narrows::config::{AckPolicy, SpuriousDetection, TcpConfig, TimestampMode};
use narrows::congestion::registry::{CongestionRegistry, RtoRegistry};
use narrows::conn::{Boxed, Connection, Opening};
use narrows::trace::{TimeoutCause, TraceEvent};
use narrows::wire::options::{SackBlock, SackBlocks, Timestamps};
use narrows::wire::{Ecn, Flags, Seq, TcpHeader};
use narrows::{Duration, Instant};
use std::sync::{Arc, Mutex};

pub type Conn = Connection<Boxed<SendRing, RecvRing>>;

/// Payload of a full segment.
pub const MSS: u64 = 1000;
const ISS: u32 = u32::MAX - 30_000;
const PEER_ISS: u32 = 5_000;
const SHIFT: u8 = 10;

pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
pub const fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// A segment that the connection sent.
#[derive(Clone, Debug)]
pub struct Out {
    pub at: Instant,
    /// Offset of its first byte.
    pub offset: u64,
    pub len: u64,
    pub ecn: Ecn,
    pub tcp: TcpHeader,
}

impl Out {
    /// Which segment it is, if the stream was cut into full ones.
    pub fn segment(&self) -> u64 {
        self.offset / MSS
    }
    pub fn has(&self, flags: Flags) -> bool {
        self.tcp.flags.contains(flags)
    }
}

/// The segment numbers of those with data.
pub fn segments(out: &[Out]) -> Vec<u64> {
    out.iter().filter(|o| o.len > 0).map(Out::segment).collect()
}

/// Reno, SACK, no timestamps, no means against spurious timeouts, immediate ACKs: the RFCs'
/// textbook sender. RFC 6298's timer.
pub fn textbook(detector: &str) -> TcpConfig {
    TcpConfig {
        congestion: CongestionRegistry::standard().get("reno").unwrap(),
        rto: RtoRegistry::standard().get("rfc6298").unwrap(),
        detector: narrows::recovery::detector::standard()
            .get(detector)
            .unwrap(),
        spurious: SpuriousDetection::OFF,
        timestamps: TimestampMode::Off,
        mss: MSS as u16,
        nagle: false,
        ack: AckPolicy::IMMEDIATE,
        ..TcpConfig::default()
    }
}

pub fn congestion(config: TcpConfig, name: &str) -> TcpConfig {
    TcpConfig {
        congestion: CongestionRegistry::standard().get(name).unwrap(),
        ..config
    }
}

pub fn rto(config: TcpConfig, name: &str) -> TcpConfig {
    TcpConfig {
        rto: RtoRegistry::standard().get(name).unwrap(),
        ..config
    }
}

/// With timestamps, segments of the same payload.
pub fn stamped(config: TcpConfig) -> TcpConfig {
    TcpConfig {
        timestamps: TimestampMode::Micros,
        mss: MSS as u16 + 12,
        ..config
    }
}

pub struct Lab {
    pub now: Instant,
    pub conn: Conn,
    pub log: Vec<Out>,
    events: Arc<Mutex<Vec<(Instant, TraceEvent)>>>,
    /// The peer's window in bytes.
    pub window: u64,
    /// The user reads as soon as data comes.
    pub reads: bool,
    peer_sent: u32,
    stamps: bool,
    /// TSecr of the next segment from the peer; the newest TSval seen unless set.
    pub echo: Option<u32>,
    newest_tsval: u32,
}

pub fn opening() -> Opening {
    Opening {
        local: "10.0.0.1:40000".parse().unwrap(),
        remote: "10.0.0.2:80".parse().unwrap(),
        iss: Seq(ISS),
        timestamp_offset: 0,
        seed: 1,
        metrics: Default::default(),
    }
}

impl Lab {
    /// Before the SYN-ACK.
    pub fn new(config: TcpConfig) -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        let stamps = config.timestamps != TimestampMode::Off;
        let events: Arc<Mutex<Vec<_>>> = Arc::default();
        let mut conn = Conn::connect(Arc::new(config), opening(), now);
        let sink = events.clone();
        conn.set_trace(Some(Box::new(move |at: Instant, event: &TraceEvent| {
            sink.lock().unwrap().push((at, event.clone()));
        })));
        Self {
            now,
            conn,
            log: Vec::new(),
            events,
            window: 10_000_000,
            reads: true,
            peer_sent: 0,
            stamps,
            echo: None,
            newest_tsval: 0,
        }
    }

    /// Connected, with one RTT sample of `rtt`.
    pub fn connected(config: TcpConfig, rtt: Duration) -> Self {
        Self::connected_with(config, rtt, Flags::NONE)
    }

    /// The same, `flags` added to the peer's SYN-ACK.
    pub fn connected_with(config: TcpConfig, rtt: Duration, flags: Flags) -> Self {
        let mut lab = Self::new(config);
        lab.pump();
        lab.wait(rtt);
        lab.syn_ack(flags);
        lab.log.clear();
        lab
    }

    pub fn syn_ack(&mut self, flags: Flags) -> Vec<Out> {
        let mut tcp = TcpHeader {
            src_port: 80,
            dst_port: 40000,
            seq: Seq(PEER_ISS),
            ack: Seq(ISS) + 1,
            flags: Flags::SYN | Flags::ACK | flags,
            window: 65_535,
            ..TcpHeader::default()
        };
        tcp.options.mss = Some(1_460);
        tcp.options.sack_permitted = true;
        tcp.options.window_scale = Some(SHIFT);
        self.stamp(&mut tcp);
        self.conn.handle_segment(self.now, Ecn::NotEct, &tcp, &[]);
        self.pump();
        // The SYN-ACK's window cannot be scaled: say at once what it really is.
        self.ack_now(0, &[], Flags::NONE)
    }

    fn stamp(&mut self, tcp: &mut TcpHeader) {
        if self.stamps {
            let val = (self.now.as_nanos() / 1_000) as u32;
            tcp.options.timestamps = Some(Timestamps {
                val,
                ecr: self.echo.take().unwrap_or(self.newest_tsval),
            });
        }
    }

    /// Take everything that leaves now.
    pub fn pump(&mut self) -> Vec<Out> {
        let mut out = Vec::new();
        while let Some((ip, tcp, view)) = self.conn.poll_transmit(self.now) {
            let len = view.len() as u64;
            let offset = u64::from(tcp.seq.since(Seq(ISS) + 1));
            if let Some(ts) = tcp.options.timestamps {
                self.newest_tsval = ts.val;
            }
            out.push(Out {
                at: self.now,
                offset,
                len,
                ecn: ip.ecn,
                tcp,
            });
        }
        self.conn.sender().scoreboard().check_invariants();
        self.log.extend(out.iter().cloned());
        out
    }

    /// Queue `n` full segments.
    pub fn write(&mut self, n: u64) -> Vec<Out> {
        let data = vec![7; (n * MSS) as usize];
        assert_eq!(self.conn.send(&data, data.len()), Ok(data.len()));
        self.pump()
    }

    /// Let `d` pass; timers fire when they are due.
    pub fn wait(&mut self, d: Duration) -> Vec<Out> {
        let end = self.now + d;
        let mut out = Vec::new();
        while let Some(at) = self.conn.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.conn.handle_timeout(self.now);
            out.extend(self.pump());
        }
        self.now = end;
        out
    }

    /// Wait until the next timer fires; what leaves then.
    pub fn timer(&mut self) -> Vec<Out> {
        let at = self.conn.poll_timeout().expect("a timer is armed");
        self.now = self.now.max(at);
        self.conn.handle_timeout(self.now);
        self.pump()
    }

    /// A pure ACK of everything before segment `to`.
    pub fn ack(&mut self, to: u64) -> Vec<Out> {
        self.ack_now(to * MSS, &[], Flags::NONE)
    }

    /// The same with SACK blocks of segments `[from, to)`.
    pub fn sack(&mut self, to: u64, blocks: &[(u64, u64)]) -> Vec<Out> {
        let bytes: Vec<_> = blocks.iter().map(|(s, e)| (s * MSS, e * MSS)).collect();
        self.ack_now(to * MSS, &bytes, Flags::NONE)
    }

    /// A pure ACK, in bytes, with SACK blocks and flags.
    pub fn ack_now(&mut self, to: u64, blocks: &[(u64, u64)], flags: Flags) -> Vec<Out> {
        let raw: Vec<_> = blocks
            .iter()
            .map(|(s, e)| (Seq(ISS) + 1 + *s as u32, Seq(ISS) + 1 + *e as u32))
            .collect();
        self.raw_ack(Seq(ISS) + 1 + to as u32, &raw, flags)
    }

    /// A pure ACK with whatever numbers.
    pub fn raw_ack(&mut self, ack: Seq, blocks: &[(Seq, Seq)], flags: Flags) -> Vec<Out> {
        let mut tcp = TcpHeader {
            src_port: 80,
            dst_port: 40000,
            seq: Seq(PEER_ISS) + 1 + self.peer_sent,
            ack,
            flags: Flags::ACK | flags,
            window: (self.window >> SHIFT) as u16,
            ..TcpHeader::default()
        };
        tcp.options.sack = SackBlocks::EMPTY;
        for (start, end) in blocks {
            tcp.options.sack.push(SackBlock {
                start: *start,
                end: *end,
            });
        }
        self.stamp(&mut tcp);
        self.conn.handle_segment(self.now, Ecn::NotEct, &tcp, &[]);
        self.pump()
    }

    /// Data from the peer: `len` bytes at `offset` of its stream, in a packet marked `ecn`.
    pub fn data(&mut self, offset: u64, len: usize, ecn: Ecn, flags: Flags) -> Vec<Out> {
        let end = offset as u32 + len as u32;
        let una = (self.conn.sender().una() - 1) as u32;
        let mut tcp = TcpHeader {
            src_port: 80,
            dst_port: 40000,
            seq: Seq(PEER_ISS) + 1 + offset as u32,
            ack: Seq(ISS) + 1 + una,
            flags: Flags::ACK | flags,
            window: (self.window >> SHIFT) as u16,
            ..TcpHeader::default()
        };
        self.stamp(&mut tcp);
        self.peer_sent = self.peer_sent.max(end);
        self.conn.handle_segment(self.now, ecn, &tcp, &vec![3; len]);
        if self.reads {
            let readable = self.conn.readable();
            self.conn.consume(readable, self.now);
        }
        self.pump()
    }

    /// ACK `ack` as an offset in the peer's stream.
    pub fn acked(out: &Out) -> u64 {
        u64::from(out.tcp.ack.since(Seq(PEER_ISS) + 1))
    }

    /// The SACK blocks as offsets in the peer's stream.
    pub fn sacked(out: &Out) -> Vec<(u64, u64)> {
        let first = Seq(PEER_ISS) + 1;
        let blocks = out.tcp.options.sack.as_slice().iter();
        blocks
            .map(|b| {
                (
                    u64::from(b.start.since(first)),
                    u64::from(b.end.since(first)),
                )
            })
            .collect()
    }

    /// cwnd in whole segments, rounded down.
    pub fn cwnd(&self) -> u64 {
        self.conn.sender().congestion().cwnd().get() / MSS
    }
    pub fn ssthresh(&self) -> u64 {
        self.conn.sender().congestion().ssthresh().get() / MSS
    }
    pub fn pipe(&self) -> u64 {
        self.conn.sender().scoreboard().pipe().get() / MSS
    }

    pub fn events(&self) -> Vec<TraceEvent> {
        self.events
            .lock()
            .unwrap()
            .iter()
            .map(|(_, e)| e.clone())
            .collect()
    }

    /// Causes of the timeouts so far.
    pub fn timeouts(&self) -> Vec<TimeoutCause> {
        let cause = |e: &TraceEvent| match e {
            TraceEvent::Timeout { cause, .. } => Some(*cause),
            _ => None,
        };
        self.events().iter().filter_map(cause).collect()
    }

    /// How often congestion control was told of congestion.
    pub fn reductions(&self) -> usize {
        self.events()
            .iter()
            .filter(|e| matches!(e, TraceEvent::Congestion(_)))
            .count()
    }

    /// How often a reduction was taken back.
    pub fn undone(&self) -> usize {
        self.events()
            .iter()
            .filter(|e| matches!(e, TraceEvent::Undo(_)))
            .count()
    }
}
