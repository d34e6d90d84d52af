//! Two endpoints on a virtual clock, and a peer made by hand.

#![allow(dead_code, unreachable_pub, reason = "not every test uses all of it")]

use narrows::buffer::{RecvRing, SendRing};
use narrows::config::{TcpConfig, TimestampMode};
use narrows::conn::Boxed;
use narrows::endpoint::{ConnId, Endpoint, EndpointConfig, EndpointEvent, ListenerId};
use narrows::wire::{Ecn, Flags, IpHeader, Seq, TcpHeader};
use narrows::{Duration, Instant};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

pub type Host = Endpoint<Boxed<SendRing, RecvRing>>;
pub type Packet = (IpHeader, TcpHeader, Vec<u8>);

pub const ACK: Flags = Flags::ACK;
pub const FIN: Flags = Flags::FIN;
pub const RST: Flags = Flags::RST;
pub const SYN: Flags = Flags::SYN;
pub const MS: Duration = Duration::from_millis(1);
pub const SEC: Duration = Duration::from_secs(1);

pub fn addr(s: &str) -> SocketAddr {
    s.parse().unwrap()
}
pub fn config(tcp: TcpConfig, secret: u8) -> EndpointConfig {
    EndpointConfig::new(Arc::new(tcp), [secret; 16])
}
pub fn start() -> Instant {
    Instant::ZERO + SEC * 100
}

/// All that a host wants to send, and no timer in the past afterwards.
pub fn drain(host: &mut Host, now: Instant) -> Vec<Packet> {
    let mut out = Vec::new();
    while let Some((ip, tcp, view)) = host.poll_transmit(now) {
        out.push((ip, tcp, view.iter().collect()));
        assert!(out.len() < 100_000, "never stops");
    }
    if let Some(at) = host.poll_timeout() {
        assert!(at > now, "a timer in the past");
    }
    out
}

pub fn events(host: &mut Host) -> Vec<EndpointEvent> {
    std::iter::from_fn(|| host.poll_event()).collect()
}

/// Two hosts and 50 us between them.
pub struct Net {
    pub now: Instant,
    pub a: Host,
    pub b: Host,
    pub flying: VecDeque<(Instant, bool, Packet)>,
    pub a_events: Vec<EndpointEvent>,
    pub b_events: Vec<EndpointEvent>,
}

impl Net {
    pub fn new(a: EndpointConfig, b: EndpointConfig) -> Self {
        Self {
            now: start(),
            a: Host::new(a).unwrap(),
            b: Host::new(b).unwrap(),
            flying: VecDeque::new(),
            a_events: Vec::new(),
            b_events: Vec::new(),
        }
    }
    pub fn plain() -> Self {
        Self::new(
            config(TcpConfig::default(), 1),
            config(TcpConfig::default(), 2),
        )
    }
    pub fn settle(&mut self) {
        for (host, from_a) in [(&mut self.a, true), (&mut self.b, false)] {
            host.handle_timeout(self.now);
            for p in drain(host, self.now) {
                self.flying
                    .push_back((self.now + Duration::from_micros(50), from_a, p));
            }
        }
        self.a_events.extend(events(&mut self.a));
        self.b_events.extend(events(&mut self.b));
    }
    pub fn run(&mut self, d: Duration) {
        let end = self.now + d;
        loop {
            self.settle();
            let next = [
                self.flying.front().map(|f| f.0),
                self.a.poll_timeout(),
                self.b.poll_timeout(),
            ];
            let Some(next) = next.into_iter().flatten().min().filter(|n| *n <= end) else {
                break;
            };
            self.now = next;
            while self.flying.front().is_some_and(|f| f.0 <= self.now) {
                let (_, from_a, (ip, tcp, data)) = self.flying.pop_front().unwrap();
                let to = if from_a { &mut self.b } else { &mut self.a };
                to.handle_packet(self.now, &ip, &tcp, &data);
            }
        }
        self.now = end;
        self.settle();
    }
    pub fn connect(&mut self) -> ConnId {
        let id = self
            .a
            .connect(self.now, addr("10.0.0.1:0"), addr("10.0.0.2:80"), None);
        id.unwrap()
    }
    pub fn accepted(&self) -> Vec<ConnId> {
        self.b_events
            .iter()
            .filter_map(|e| match e {
                EndpointEvent::Accepted { conn, .. } => Some(*conn),
                EndpointEvent::Conn { .. } => None,
            })
            .collect()
    }
}

// ---- A peer made by hand.

pub fn packet(from: &str, to: &str, flags: Flags, seq: u32, ack: u32) -> Packet {
    let (from, to) = (addr(from), addr(to));
    let ip = IpHeader {
        src: from.ip(),
        dst: to.ip(),
        ecn: Ecn::NotEct,
        dscp: 0,
        hop_limit: 64,
    };
    let tcp = TcpHeader {
        src_port: from.port(),
        dst_port: to.port(),
        seq: Seq(seq),
        ack: Seq(ack),
        flags,
        window: u16::MAX,
        ..TcpHeader::default()
    };
    (ip, tcp, Vec::new())
}

pub fn give(host: &mut Host, now: Instant, p: &Packet) -> Vec<Packet> {
    host.handle_packet(now, &p.0, &p.1, &p.2);
    drain(host, now)
}

pub fn server() -> (Host, ListenerId) {
    server_with(
        TcpConfig {
            timestamps: TimestampMode::Off,
            ..TcpConfig::default()
        },
        16,
    )
}
pub fn server_with(tcp: TcpConfig, backlog: usize) -> (Host, ListenerId) {
    let mut host = Host::new(config(tcp, 7)).unwrap();
    let l = host.listen(addr("10.0.0.2:80"), backlog, None).unwrap();
    (host, l)
}

pub const C: &str = "10.0.0.1:5000";
pub const S: &str = "10.0.0.2:80";

/// A handshake by hand; the server's next sequence number.
pub fn shake(host: &mut Host, now: Instant, from: &str, isn: u32) -> u32 {
    let out = give(host, now, &packet(from, S, SYN, isn, 0));
    assert!(out.len() == 1 && out[0].1.flags == SYN | ACK, "{out:?}");
    let nxt = out[0].1.seq.0.wrapping_add(1);
    assert!(give(host, now, &packet(from, S, ACK, isn.wrapping_add(1), nxt)).is_empty());
    nxt
}

/// The user queues what the connection takes of `data`; how much.
pub fn write(host: &mut Host, id: ConnId, data: &[u8]) -> usize {
    let conn = host.connection_mut(id).unwrap();
    conn.send(data, data.len()).unwrap()
}

/// The user reads everything there is.
pub fn read(host: &mut Host, id: ConnId, now: Instant) -> Vec<u8> {
    let conn = host.connection_mut(id).unwrap();
    let (n, end) = (conn.readable(), conn.readable_end());
    let bytes = conn.recv_buffer().peek(end).iter().collect();
    conn.consume(n, now);
    bytes
}
