//! Captures and the analysis of them: a file as it is, or segments of a few connections made from
//! the bytes, which fit each other more or less. Whatever comes, the books must balance.

use super::input::Input;
use narrows::wire::{Ecn, Flags, SackBlock, Seq, TcpOptions, Timestamps};
use narrows::{Duration, Instant};
use narrows_explain::capture::{self, End};
use narrows_explain::segment::Segment;
use narrows_explain::{Analyzer, Config, Connection, Explanation, Finding, Sighting};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

pub(super) const MAX_STEPS: u64 = 400;
/// Connections under observation at once.
const AT_ONCE: usize = 3;
/// Connections that there are.
const ALL: u8 = 5;

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    match input.below(4) {
        0 => file(input.0),
        bits => segments(bits & 1 == 1, &mut input),
    }
}

/// What the capture has, and what came of it, for whoever compares two runs.
fn file(bytes: &[u8]) {
    let mut books = Books::new(true);
    let read = capture::read(bytes, |frame, _| {
        books.analyzer.handle_packet(frame);
        books.take();
    });
    let seen = *books.analyzer.seen();
    books.close();
    match read {
        Ok(contents) => {
            // Packets without a time are counted by the reader only.
            assert!(seen.packets <= contents.packets);
            assert!(!contents.to_string().is_empty());
            if matches!(contents.end, End::Complete) {
                assert!(contents.bytes > 0, "an empty file is none");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub(super) struct Host {
    /// What leaves next, and what has been acknowledged of it.
    next: u32,
    una: u32,
    stamp: u32,
}

/// Both ends of each connection that there is.
pub(super) fn hosts() -> Vec<[Host; 2]> {
    let pair = |_| {
        [u32::MAX - 3_000, 7].map(|first| Host {
            next: first,
            una: first,
            stamp: 0,
        })
    };
    (0..ALL).map(pair).collect()
}

fn segments(detail: bool, input: &mut Input<'_>) {
    let mut books = Books::new(detail);
    let mut hosts = hosts();
    let mut at = Instant::ZERO + Duration::from_secs(10);
    let mut packet = 0;
    while !input.is_empty() && packet < MAX_STEPS {
        packet += 1;
        let kind = input.u8();
        let wait = u64::from(input.u8());
        let wait = match kind & 3 {
            0 => Duration::from_nanos(wait * 100),
            1 => Duration::from_micros(wait * 10),
            2 => Duration::from_millis(wait * 4),
            _ => Duration::from_micros(wait),
        };
        let back = kind & 0x80 != 0 && wait < Duration::from_millis(1);
        at = if back { at - wait } else { at + wait };
        let segment = segment(kind >> 2, &mut hosts, input);
        let interface = u32::from(kind == 0xff);
        let now = Sighting { at, packet };
        books.analyzer.handle_segment(now, interface, &segment);
        books.take();
    }
    books.close();
}

/// What one of them sends next.
pub(super) fn segment(kind: u8, hosts: &mut [[Host; 2]], input: &mut Input<'_>) -> Segment {
    let who = input.u8();
    let (conn, side) = (who % ALL, usize::from(who >> 7));
    let pair = &mut hosts[usize::from(conn)];
    let other = &pair[1 - side];
    let (peer_next, peer_una, peer_stamp) = (other.next, other.una, other.stamp);
    let flags = match kind % 16 {
        0 => Flags::SYN,
        1 => Flags::SYN | Flags::ACK,
        2 => Flags::ACK | Flags::FIN,
        3 => Flags::from_bits(input.u16()),
        _ => Flags::ACK,
    };
    let me = &mut pair[side];
    let odd = input.u8();
    let len = match odd & 3 {
        0 => 0,
        1 => 1_448,
        2 => u32::from(input.u16()),
        _ => u32::from(input.u8()),
    };
    // Most go on where the last one ended, some from the first that is not acknowledged.
    let seq = match odd >> 2 & 7 {
        0 => me.una,
        1 => me.next.wrapping_add(input.offset() as u32),
        2 => me.next.wrapping_sub(1),
        3 => me.una.wrapping_add(1_448),
        _ => me.next,
    };
    let ack = match odd >> 5 {
        0 => peer_una.wrapping_add(input.offset() as u32),
        1 => peer_una,
        2 => peer_una.wrapping_add(1_448),
        _ => peer_next,
    };
    let ahead = |to: u32, from: u32| (to.wrapping_sub(from) as i32) > 0;
    let end = seq.wrapping_add(len);
    if ahead(end, me.next) {
        me.next = end;
    }
    me.stamp = me.stamp.wrapping_add(1);
    let mut options = TcpOptions::default();
    if kind & 16 != 0 {
        options.timestamps = Some(Timestamps {
            val: me.stamp,
            ecr: peer_stamp,
        });
    }
    if kind & 32 != 0 {
        for _ in 0..input.below(4) {
            options.sack.push(SackBlock {
                start: Seq(peer_una.wrapping_add(input.offset() as u32)),
                end: Seq(peer_una.wrapping_add(input.offset() as u32)),
            });
        }
    }
    if flags.contains(Flags::SYN) {
        options.mss = Some(input.u16());
        options.window_scale = input.flag().then(|| input.u8());
    }
    let window = if kind & 48 == 48 { 0 } else { 64_000 };
    if flags.contains(Flags::ACK) && ahead(ack, peer_una) {
        pair[1 - side].una = ack;
    }
    let end = |n: u8| SocketAddr::from((Ipv4Addr::new(10, 0, 0, n), 5_000 + u16::from(conn)));
    let (src, dst) = (end(side as u8), end(1 - side as u8));
    Segment {
        src,
        dst,
        ecn: Ecn::from_bits(who >> 3 & 3),
        identification: u16::from(who >> 6 & 1),
        hop_limit: 64,
        seq: Seq(seq),
        ack: Seq(ack),
        flags,
        window,
        options,
        len,
    }
}

/// What was found, and what must hold of it.
struct Books {
    analyzer: Analyzer,
    explanation: Explanation,
    /// By connection: gaps and the time in them, until the connection itself comes.
    open: BTreeMap<u64, (u64, Duration)>,
    connections: u64,
    at_once: usize,
}

impl Books {
    fn new(detail: bool) -> Self {
        let config = Config {
            connections: AT_ONCE,
            segments: 8,
            rounds: detail,
            points: if detail { 16 } else { 0 },
            draw: if detail { vec![0, 2] } else { Vec::new() },
            ..Config::default()
        };
        Self {
            analyzer: Analyzer::new(config),
            explanation: Explanation::new(4, 4),
            open: BTreeMap::new(),
            connections: 0,
            at_once: 0,
        }
    }

    fn take(&mut self) {
        while let Some(finding) = self.analyzer.poll_finding() {
            match &finding {
                Finding::Gap(gap) => {
                    assert!(gap.end.at > gap.start.at, "a gap without length: {gap:?}");
                    assert!(gap.end.packet >= gap.start.packet, "{gap:?}");
                    assert!(gap.connection < self.analyzer.seen().connections);
                    let sum = self.open.entry(gap.connection).or_default();
                    *sum = (sum.0 + 1, sum.1 + gap.length());
                    let _ = gap.because();
                }
                Finding::Connection(connection) => self.over(connection),
            }
            self.explanation.add(finding);
        }
        let seen = self.analyzer.seen();
        self.at_once = (seen.connections - self.connections) as usize;
        assert!(
            self.at_once <= AT_ONCE,
            "{} connections at once",
            self.at_once
        );
    }

    /// Its gaps came before it, and are what it says of them.
    fn over(&mut self, connection: &Connection) {
        self.connections += 1;
        let told = self.open.remove(&connection.id).unwrap_or_default();
        let all = connection.lost.iter();
        let all = all.fold((0, Duration::ZERO), |(n, time), l| (n + l.1, time + l.2));
        assert_eq!(all, told, "connection {}", connection.id);
        assert!(connection.points.len() <= 16);
        for counts in connection.counts {
            let odd = counts.retransmitted + counts.filled + counts.needless;
            assert!(odd <= counts.packets, "{counts:?}");
        }
    }

    fn close(mut self) {
        self.analyzer.finish();
        self.take();
        assert!(
            self.open.is_empty(),
            "gaps of no connection: {:?}",
            self.open
        );
        assert_eq!(self.connections, self.analyzer.seen().connections);
        self.explanation.finish();
        assert!(self.explanation.connections.len() <= 4);
        let kept = self.explanation.connections.len() as u64 + self.explanation.forgotten;
        assert_eq!(kept, self.connections);
        let _ = self.explanation.slowest(3);
    }
}
