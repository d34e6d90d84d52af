//! Two connections on a virtual clock, with a path between them that loses what it is told to.
#![allow(dead_code, missing_docs, unreachable_pub)] // Each test file uses a part of it.

pub mod lone;
pub mod steps;
pub mod weather;

use narrows::buffer::{RecvRing, SendRing};
use narrows::config::TcpConfig;
use narrows::conn::{Boxed, Connection, Event, Opening};
use narrows::wire::packet::emit;
use narrows::wire::{ChecksumPolicy, Ecn, Flags, IpHeader, Packet, Seq, TcpHeader};
use narrows::{Duration, Instant};
use std::collections::VecDeque;
use std::sync::Arc;

pub type Conn = Connection<Boxed<SendRing, RecvRing>>;

/// What crossed the wire, for assertions.
#[derive(Clone, Debug)]
pub struct Seen {
    pub at: Instant,
    pub from_client: bool,
    pub ip: IpHeader,
    pub tcp: TcpHeader,
    pub len: usize,
    pub dropped: bool,
}

#[derive(Clone, Debug)]
struct InFlight {
    at: Instant,
    ip: IpHeader,
    tcp: TcpHeader,
    data: Vec<u8>,
}

/// What the path does to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    Drop,
    Mark,
    Delay(Duration),
    Duplicate,
    /// This bit of the packet, counted round and round, is flipped on the way.
    Corrupt(u64),
}

/// What is more is a loop.
const MAX_PACKETS: usize = 2_000_000;

pub type Path = Box<dyn FnMut(&Seen, u64) -> Fate>;

pub struct Pair {
    pub now: Instant,
    pub client: Conn,
    pub server: Option<Conn>,
    server_config: Arc<TcpConfig>,
    pub delay: Duration,
    to_server: VecDeque<InFlight>,
    to_client: VecDeque<InFlight>,
    pub path: Path,
    sent: [u64; 2],
    pub log: Vec<Seen>,
    pub client_events: Vec<Event>,
    pub server_events: Vec<Event>,
    pub server_got: Vec<u8>,
    pub client_got: Vec<u8>,
    /// Read as soon as data comes.
    pub reads: bool,
}

pub fn opening(client: bool, iss: u32) -> Opening {
    let (c, s) = (
        "10.0.0.1:40000".parse().unwrap(),
        "10.0.0.2:80".parse().unwrap(),
    );
    let (local, remote) = if client { (c, s) } else { (s, c) };
    Opening {
        local,
        remote,
        iss: Seq(iss),
        timestamp_offset: 0,
        seed: u64::from(client),
        metrics: Default::default(),
    }
}

impl Pair {
    pub fn new(client: TcpConfig, server: TcpConfig) -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        Self {
            now,
            client: Conn::connect(Arc::new(client), opening(true, u32::MAX - 5_000), now),
            server: None,
            server_config: Arc::new(server),
            delay: Duration::from_micros(50),
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            path: Box::new(|_, _| Fate::Pass),
            sent: [0; 2],
            log: Vec::new(),
            client_events: Vec::new(),
            server_events: Vec::new(),
            server_got: Vec::new(),
            client_got: Vec::new(),
            reads: true,
        }
    }

    /// A connected pair.
    pub fn connected(client: TcpConfig, server: TcpConfig) -> Self {
        let mut p = Self::new(client, server);
        p.run_for(Duration::from_millis(10));
        assert!(p.client_events.contains(&Event::Connected), "{:?}", p.log);
        p.log.clear();
        p.sent = [0; 2];
        p
    }

    pub fn server(&mut self) -> &mut Conn {
        self.server.as_mut().expect("no SYN has reached the server")
    }

    /// Everything that is due now.
    pub fn settle(&mut self) {
        loop {
            let mut quiet = true;
            self.client.handle_timeout(self.now);
            while let Some((ip, tcp, view)) = self.client.poll_transmit(self.now) {
                let mut data = vec![0; view.slices().iter().map(|s| s.len()).sum()];
                view.copy_to_slice(&mut data);
                self.carry(true, ip, tcp, data);
                quiet = false;
            }
            if let Some(server) = &mut self.server {
                server.handle_timeout(self.now);
                let mut out = Vec::new();
                while let Some((ip, tcp, view)) = server.poll_transmit(self.now) {
                    let mut data = vec![0; view.slices().iter().map(|s| s.len()).sum()];
                    view.copy_to_slice(&mut data);
                    out.push((ip, tcp, data));
                }
                for (ip, tcp, data) in out {
                    self.carry(false, ip, tcp, data);
                    quiet = false;
                }
            }
            self.user();
            if quiet {
                return;
            }
        }
    }

    fn user(&mut self) {
        while let Some(e) = self.client.poll_event() {
            self.client_events.push(e);
        }
        if self.reads {
            let view = self.client.recv_buffer().peek(self.client.readable_end());
            for s in view.slices() {
                self.client_got.extend_from_slice(s);
            }
            let n = self.client.readable();
            self.client.consume(n, self.now);
        }
        if let Some(server) = &mut self.server {
            while let Some(e) = server.poll_event() {
                self.server_events.push(e);
            }
            if self.reads {
                let view = server.recv_buffer().peek(server.readable_end());
                for s in view.slices() {
                    self.server_got.extend_from_slice(s);
                }
                let n = server.readable();
                server.consume(n, self.now);
            }
        }
    }

    fn carry(
        &mut self,
        from_client: bool,
        mut ip: IpHeader,
        mut tcp: TcpHeader,
        mut data: Vec<u8>,
    ) {
        let n = &mut self.sent[usize::from(!from_client)];
        *n += 1;
        let mut seen = Seen {
            at: self.now,
            from_client,
            ip,
            tcp: tcp.clone(),
            len: data.len(),
            dropped: false,
        };
        let fate = (self.path)(&seen, *n);
        let damaged = match fate {
            Fate::Corrupt(bit) => flipped(&ip, &tcp, &data, bit),
            _ => None,
        };
        seen.dropped =
            fate == Fate::Drop || (matches!(fate, Fate::Corrupt(_)) && damaged.is_none());
        self.log.push(seen);
        assert!(
            self.log.len() < MAX_PACKETS,
            "never stops: {:#?}",
            &self.log[self.log.len() - 4..]
        );
        let mut at = self.now + self.delay;
        let mut copies = 1;
        match fate {
            Fate::Pass => {}
            Fate::Drop => return,
            Fate::Mark => ip.ecn = Ecn::Ce,
            Fate::Delay(d) => at = at + d,
            Fate::Duplicate => copies = 2,
            // What the checksums do not see arrives as it has become.
            Fate::Corrupt(_) => match damaged {
                Some(packet) => (ip, tcp, data) = packet,
                None => return,
            },
        }
        let queue = if from_client {
            &mut self.to_server
        } else {
            &mut self.to_client
        };
        for _ in 0..copies {
            let place = queue.partition_point(|p| p.at <= at);
            queue.insert(
                place,
                InFlight {
                    at,
                    ip,
                    tcp: tcp.clone(),
                    data: data.clone(),
                },
            );
        }
    }

    /// Let the clock run to `end`.
    pub fn run_until(&mut self, end: Instant) {
        loop {
            self.settle();
            let next = [
                self.to_server.front().map(|p| p.at),
                self.to_client.front().map(|p| p.at),
                self.client.poll_timeout(),
                self.server.as_ref().and_then(|s| s.poll_timeout()),
            ]
            .into_iter()
            .flatten()
            .min();
            let Some(next) = next.filter(|n| *n <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            while self.to_server.front().is_some_and(|p| p.at <= self.now) {
                let p = self.to_server.pop_front().unwrap();
                if self.server.is_none() && p.tcp.flags.contains(Flags::SYN) {
                    let server = Conn::accept(
                        self.server_config.clone(),
                        opening(false, 77),
                        &p.tcp,
                        self.now,
                    );
                    self.server = Some(server);
                } else if let Some(server) = &mut self.server {
                    server.handle_segment(self.now, p.ip.ecn, &p.tcp, &p.data);
                }
                self.settle();
            }
            while self.to_client.front().is_some_and(|p| p.at <= self.now) {
                let p = self.to_client.pop_front().unwrap();
                self.client
                    .handle_segment(self.now, p.ip.ecn, &p.tcp, &p.data);
                self.settle();
            }
        }
    }

    pub fn run_for(&mut self, d: Duration) {
        self.run_until(self.now + d);
    }

    /// Hand `data` to the client as fast as it takes it, and run until the server has it or
    /// `limit` has passed.
    pub fn transfer(&mut self, data: &[u8], limit: Duration) -> Duration {
        let begin = self.now;
        let end = begin + limit;
        let mut offered = 0;
        let want = self.server_got.len() + data.len();
        while self.now < end && self.server_got.len() < want {
            if offered < data.len() {
                offered += self
                    .client
                    .send(&data[offered..], data.len() - offered)
                    .unwrap_or(0);
            }
            self.settle();
            let step = [
                self.to_server.front().map(|p| p.at),
                self.to_client.front().map(|p| p.at),
                self.client.poll_timeout(),
                self.server.as_ref().and_then(|s| s.poll_timeout()),
            ]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(end);
            self.run_until(step.max(self.now).min(end));
        }
        self.now.since(begin)
    }
}

/// The packet with one bit flipped, if the receiver's checksums let it pass.
fn flipped(
    ip: &IpHeader,
    tcp: &TcpHeader,
    data: &[u8],
    bit: u64,
) -> Option<(IpHeader, TcpHeader, Vec<u8>)> {
    let mut wire = vec![0; ip.wire_len() + tcp.wire_len() + data.len()];
    emit(ip, tcp, &data, &mut wire).expect("what is sent can be written");
    let bit = bit as usize % (wire.len() * 8);
    wire[bit / 8] ^= 1 << (bit % 8);
    let p = Packet::parse(&wire, ChecksumPolicy::Verify).ok()?;
    Some((p.ip, p.tcp, p.payload.to_vec()))
}

/// Bytes that differ from their shifted selves.
pub fn bytes(n: usize) -> Vec<u8> {
    (0..n as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

impl Pair {
    /// Both open actively: their SYNs cross.
    pub fn crossing(client: TcpConfig, server: TcpConfig) -> Self {
        let mut p = Self::new(client, server);
        let now = p.now;
        p.server = Some(Conn::connect(
            p.server_config.clone(),
            opening(false, 77),
            now,
        ));
        p
    }

    /// The same with the given initial sequence numbers.
    pub fn crossing_at(client: u32, server: u32) -> Self {
        let mut p = Self::crossing(TcpConfig::default(), TcpConfig::default());
        let config = p.server_config.clone();
        p.client = Conn::connect(config.clone(), opening(true, client), p.now);
        p.server = Some(Conn::connect(config, opening(false, server), p.now));
        p
    }
}
