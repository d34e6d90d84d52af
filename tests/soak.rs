//! A soak in virtual time: many connections of two hosts that open, talk and close for hours,
//! on a path with some loss. Nothing may be left behind, nothing may wear out.
//!
//! Beside the crowd there are two connections for the whole time: a bulk transfer, whose sequence
//! numbers and timestamps wrap again and again, and a metronome, which asks and is answered every
//! ten seconds and must at the end be as punctual as at the beginning.

use narrows::buffer::{Synthetic, SyntheticRecv, SyntheticSend};
use narrows::config::{Buffers, TcpConfig, TimestampMode};
use narrows::conn::state::State;
use narrows::conn::{Boxed, Event};
use narrows::endpoint::{ConnId, Endpoint, EndpointConfig, EndpointEvent};
use narrows::rng::Rng;
use narrows::wire::{IpHeader, TcpHeader};
use narrows::{Duration, Instant};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

type Host = Endpoint<Boxed<SyntheticSend, SyntheticRecv>>;

const DELAY: Duration = Duration::from_millis(1);
const TICK: Duration = Duration::from_secs(10);
/// What the metronome says each time.
const BEAT: usize = 100;
/// Send buffers, which hold no bytes.
const CHUNK: usize = 1 << 30;
const SERVER: &str = "10.0.0.2:80";

/// How long, how many, how lossy.
#[derive(Clone, Copy, Debug)]
pub struct Soak {
    /// Virtual time until the users stop.
    pub time: Duration,
    /// Users, each with at most one connection at a time.
    pub users: usize,
    /// Mean time between the end of a user's connection and the next one.
    pub pause: Duration,
    /// Largest transfer of a user in bytes.
    pub most: u64,
    /// What the bulk connection sends in all.
    pub bulk: u64,
    /// Largest payload of a packet.
    pub mss: u16,
    /// Lost packets in 100,000.
    pub loss: u64,
    /// Of everything random.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Connections that were opened.
    pub opened: u64,
    /// ... and closed after all was delivered.
    pub finished: u64,
    /// ... or were aborted by their user.
    pub aborted: u64,
    /// Packets of both hosts.
    pub packets: u64,
    /// Bytes that the crowd and the bulk connection delivered.
    pub delivered: u64,
    /// Most connections of one host at the same time.
    pub peak: usize,
    /// Highest slot that a connection had.
    pub highest_slot: usize,
    /// How often the bulk connection's sequence numbers went round.
    pub sequence_wraps: u64,
    /// How often the timestamp clock went round.
    pub timestamp_wraps: u64,
    /// Answers to the metronome, and those that came later than a round trip and a delayed ACK.
    pub beats: u64,
    /// Its late ones: a packet of theirs was lost.
    pub late_beats: u64,
}

/// One that was opened by the crowd.
#[derive(Clone, Copy, Debug)]
enum Plan {
    /// Both deliver this many bytes and close.
    Exchange { up: u64, down: u64 },
    /// The client goes away in the middle.
    Abort { up: u64 },
}

#[derive(Debug)]
struct Session {
    user: usize,
    plan: Plan,
    server: Option<ConnId>,
    up: u64,
    down: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Open(usize),
    Beat,
    Abort(ConnId),
}

/// A connection for the whole time.
#[derive(Debug)]
struct Standing {
    client: ConnId,
    server: Option<ConnId>,
}

struct Lab {
    soak: Soak,
    now: Instant,
    hosts: [Host; 2],
    /// To each host, in order of arrival.
    flying: [VecDeque<(Instant, IpHeader, TcpHeader, Synthetic)>; 2],
    due: BinaryHeap<Reverse<(Instant, Due)>>,
    rng: Rng,
    sessions: BTreeMap<ConnId, Session>,
    by_server: BTreeMap<ConnId, ConnId>,
    by_address: BTreeMap<SocketAddr, ConnId>,
    bulk: Standing,
    bulk_sent: u64,
    bulk_got: u64,
    metronome: Standing,
    beat_at: Option<Instant>,
    begin: Instant,
    out: Outcome,
}

/// Run it.
///
/// # Panics
/// When something is left behind, comes late, or is not delivered.
pub fn run(soak: Soak) -> Outcome {
    run_with(soak, |_, _| {})
}

/// Run it; `progress` is called each virtual hour.
///
/// # Panics
/// As [`run`].
pub fn run_with(soak: Soak, mut progress: impl FnMut(u64, &Outcome)) -> Outcome {
    let mut lab = Lab::new(soak);
    let end = lab.now + soak.time;
    let mut hour = 0;
    let hour_of = |now: Instant| now.as_nanos() / 3_600_000_000_000;
    while lab.now < end {
        lab.turn(end);
        if hour_of(lab.now) > hour {
            hour = hour_of(lab.now);
            progress(hour, &lab.out);
        }
    }
    lab.leave()
}

impl Lab {
    fn new(soak: Soak) -> Self {
        let tcp = TcpConfig {
            timestamps: TimestampMode::Micros,
            buffers: Buffers {
                send: CHUNK,
                recv: 4 << 20,
                ..Buffers::default()
            },
            mss: soak.mss,
            ..TcpConfig::default()
        };
        let host = |secret| {
            let config = EndpointConfig::new(Arc::new(tcp.clone()), [secret; 16]);
            Host::new(config).expect("valid")
        };
        let mut hosts = [host(1), host(2)];
        let now = Instant::ZERO + Duration::from_secs(1);
        hosts[1]
            .listen(address(SERVER), 2 * soak.users, None)
            .expect("free");
        let mut open = || Standing {
            client: connect(&mut hosts[0], now),
            server: None,
        };
        let (bulk, metronome) = (open(), open());
        let mut lab = Self {
            soak,
            now,
            hosts,
            flying: [VecDeque::new(), VecDeque::new()],
            due: BinaryHeap::new(),
            rng: Rng::new(soak.seed),
            sessions: BTreeMap::new(),
            by_server: BTreeMap::new(),
            by_address: BTreeMap::new(),
            bulk,
            bulk_sent: 0,
            bulk_got: 0,
            metronome,
            beat_at: None,
            begin: now,
            out: Outcome::default(),
        };
        lab.due.push(Reverse((now + TICK, Due::Beat)));
        for user in 0..soak.users {
            lab.pause(user);
        }
        lab
    }

    fn pause(&mut self, user: usize) {
        let mean = self.soak.pause.as_nanos().max(1);
        let pause = Duration::from_nanos(self.rng.next_u64() % (2 * mean));
        self.due.push(Reverse((self.now + pause, Due::Open(user))));
    }

    /// What is due next, but not after `end`.
    fn turn(&mut self, end: Instant) {
        let next = [
            self.flying[0].front().map(|p| p.0),
            self.flying[1].front().map(|p| p.0),
            self.hosts[0].poll_timeout(),
            self.hosts[1].poll_timeout(),
            self.due.peek().map(|Reverse((at, _))| *at),
        ];
        let next = next.into_iter().flatten().min().unwrap_or(end).min(end);
        self.now = self.now.max(next);
        while self
            .due
            .peek()
            .is_some_and(|Reverse((at, _))| *at <= self.now)
        {
            let Reverse((_, due)) = self.due.pop().expect("seen");
            self.happens(due);
        }
        for to in 0..2 {
            while self.flying[to].front().is_some_and(|p| p.0 <= self.now) {
                let (_, ip, tcp, data) = self.flying[to].pop_front().expect("seen");
                self.hosts[to].handle_packet(self.now, &ip, &tcp, data);
            }
            self.hosts[to].handle_timeout(self.now);
        }
        self.events();
        for from in 0..2 {
            while let Some((ip, tcp, data)) = self.hosts[from].poll_transmit(self.now) {
                self.out.packets += 1;
                if self.rng.next_u64() % 100_000 >= self.soak.loss {
                    self.flying[1 - from].push_back((self.now + DELAY, ip, tcp, data));
                }
            }
            let late = self.hosts[from]
                .poll_timeout()
                .is_some_and(|at| at <= self.now);
            assert!(!late, "a timer in the past");
            self.out.peak = self.out.peak.max(self.hosts[from].connections());
        }
    }

    fn happens(&mut self, due: Due) {
        match due {
            Due::Open(user) => {
                let up = 1 + self.rng.next_u64() % self.soak.most;
                let plan = match self.rng.next_u64() % 10 {
                    0 => Plan::Abort { up },
                    _ => Plan::Exchange {
                        up,
                        down: 1 + self.rng.next_u64() % self.soak.most,
                    },
                };
                let id = connect(&mut self.hosts[0], self.now);
                let conn = self.hosts[0].connection(id).expect("just opened");
                self.by_address.insert(conn.local(), id);
                self.out.opened += 1;
                self.out.highest_slot = self.out.highest_slot.max(id.index());
                let session = Session {
                    user,
                    plan,
                    server: None,
                    up: 0,
                    down: 0,
                };
                self.sessions.insert(id, session);
                if let Plan::Abort { .. } = plan {
                    let when = Duration::from_nanos(self.rng.next_u64() % 200_000_000);
                    self.due.push(Reverse((self.now + when, Due::Abort(id))));
                }
            }
            Due::Abort(id) => {
                if let Some(conn) = self.hosts[0].connection_mut(id) {
                    conn.abort(self.now);
                }
            }
            Due::Beat => {
                self.due.push(Reverse((self.now + TICK, Due::Beat)));
                self.feed();
                if self.beat_at.is_none() {
                    let conn = self.hosts[0].connection_mut(self.metronome.client);
                    let conn = conn.expect("it stays");
                    assert_eq!(conn.send(BEAT, BEAT), Ok(BEAT));
                    self.beat_at = Some(self.now);
                }
            }
        }
    }

    fn events(&mut self) {
        while let Some(event) = self.hosts[0].poll_event() {
            if let EndpointEvent::Conn { conn, event } = event {
                self.at_client(conn, event);
            }
        }
        while let Some(event) = self.hosts[1].poll_event() {
            match event {
                EndpointEvent::Accepted { conn, .. } => self.accept(conn),
                EndpointEvent::Conn { conn, event } => self.at_server(conn, event),
            }
        }
    }

    fn accept(&mut self, server: ConnId) {
        self.out.highest_slot = self.out.highest_slot.max(server.index());
        let conn = self.hosts[1].connection(server).expect("just accepted");
        let remote = conn.remote();
        for standing in [&mut self.bulk, &mut self.metronome] {
            let client = self.hosts[0].connection(standing.client);
            if client.is_some_and(|c| c.local() == remote) {
                standing.server = Some(server);
            }
        }
        if [&self.bulk, &self.metronome]
            .map(|s| s.server)
            .contains(&Some(server))
        {
            return self.at_server(server, Event::Readable);
        }
        let Some(&client) = self.by_address.get(&remote) else {
            // Its client is gone already.
            return self.hosts[1].release(server, self.now);
        };
        if let Some(session) = self.sessions.get_mut(&client) {
            session.server = Some(server);
        }
        self.by_server.insert(server, client);
        let plan = self.sessions.get(&client).map(|s| s.plan);
        let conn = self.hosts[1].connection_mut(server).expect("there");
        if let Some(Plan::Exchange { down, .. }) = plan {
            assert_eq!(conn.send(down as usize, down as usize), Ok(down as usize));
        }
        // Data may have come with the handshake.
        self.at_server(server, Event::Readable);
    }

    fn at_client(&mut self, id: ConnId, event: Event) {
        let now = self.now;
        let Some(conn) = self.hosts[0].connection_mut(id) else {
            return;
        };
        let got = conn.readable();
        conn.consume(got, now);
        assert_eq!(conn.recv_buffer().mismatched, 0, "a stream was corrupted");
        if id == self.metronome.client {
            if got > 0 {
                self.answered(got);
            }
            return;
        }
        let state = conn.state();
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.down += got;
        if event == Event::Connected {
            let (Plan::Exchange { up, .. } | Plan::Abort { up }) = session.plan;
            assert_eq!(conn.send(up as usize, up as usize), Ok(up as usize));
            if let Plan::Exchange { .. } = session.plan {
                conn.close(now);
            }
        }
        let over = matches!(state, State::TimeWait | State::Closed(_));
        if over {
            let session = self.sessions.remove(&id).expect("seen");
            let address = conn.local();
            self.by_address.remove(&address);
            self.hosts[0].release(id, now);
            if let Some(server) = session.server {
                self.by_server.remove(&server);
                // What the server got is looked at once more there.
                if let Plan::Abort { .. } = session.plan {
                    self.hosts[1].release(server, now);
                }
            }
            match session.plan {
                Plan::Exchange { up, down } => {
                    assert_eq!((session.up, session.down), (up, down), "{state:?}");
                    self.out.finished += 1;
                    self.out.delivered += up + down;
                    if let Some(server) = session.server {
                        self.hosts[1].release(server, now);
                    }
                }
                Plan::Abort { .. } => self.out.aborted += 1,
            }
            self.pause(session.user);
        }
    }

    fn at_server(&mut self, id: ConnId, event: Event) {
        let now = self.now;
        let metronome = self.metronome.server == Some(id);
        let client = self.by_server.get(&id).copied();
        let Some(conn) = self.hosts[1].connection_mut(id) else {
            return;
        };
        let got = conn.readable();
        conn.consume(got, now);
        assert_eq!(conn.recv_buffer().mismatched, 0, "a stream was corrupted");
        if metronome {
            assert_eq!(conn.send(got as usize, got as usize), Ok(got as usize));
            return;
        }
        if event == Event::PeerClosed {
            conn.close(now);
        }
        if self.bulk.server == Some(id) {
            self.bulk_got += got;
        } else if let Some(session) = client.and_then(|c| self.sessions.get_mut(&c)) {
            session.up += got;
        }
    }

    /// The bulk connection sends its bytes evenly over the time.
    fn feed(&mut self) {
        let passed = self.now.since(self.begin).min(self.soak.time);
        let due = u128::from(self.soak.bulk) * u128::from(passed.as_nanos())
            / u128::from(self.soak.time.as_nanos());
        let more = (due as u64 - self.bulk_sent) as usize;
        let conn = self.hosts[0].connection_mut(self.bulk.client);
        let taken = conn.expect("it stays").send(more, more);
        self.bulk_sent += taken.expect("it is open") as u64;
    }

    fn answered(&mut self, got: u64) {
        assert_eq!(got, BEAT as u64, "one answer to one question");
        let asked = self.beat_at.take().expect("it asked");
        self.out.beats += 1;
        if self.now.since(asked) > DELAY * 2 {
            self.out.late_beats += 1;
        }
    }

    /// The users stop; some time later nothing is left.
    fn leave(mut self) -> Outcome {
        self.due
            .retain(|Reverse((_, due))| matches!(due, Due::Abort(_)));
        self.feed();
        let end = self.now + Duration::from_secs(3_600);
        while self.now < end && (!self.sessions.is_empty() || self.bulk_got < self.soak.bulk) {
            self.turn(end);
            self.due
                .retain(|Reverse((_, due))| matches!(due, Due::Abort(_)));
        }
        assert!(self.sessions.is_empty(), "{} sessions", self.sessions.len());
        assert_eq!(
            self.bulk_got, self.soak.bulk,
            "the bulk connection is through"
        );
        self.out.delivered += self.bulk_got;
        self.out.sequence_wraps = self.bulk_got >> 32;
        self.out.timestamp_wraps = (self.soak.time.as_nanos() / 1_000) >> 32;
        let lost = self.out.beats * self.soak.loss * 8 / 100_000 + 5;
        assert!(self.out.late_beats <= lost, "{:?}", self.out);
        for id in [self.bulk.client, self.metronome.client] {
            let conn = self.hosts[0].connection(id).expect("it stayed");
            assert_eq!(conn.state(), State::Established);
            let srtt = conn.sender().rtt().srtt().expect("it was measured");
            assert!(srtt >= DELAY * 2 && srtt < DELAY * 50, "srtt {srtt:?}");
            self.hosts[0].release(id, self.now);
        }
        for server in [self.bulk.server, self.metronome.server] {
            self.hosts[1].release(server.expect("it was accepted"), self.now);
        }
        let end = self.now + Duration::from_secs(600);
        while self.now < end {
            self.turn(end);
        }
        for host in &self.hosts {
            let left: Vec<_> = host.connection_states().collect();
            assert!(left.is_empty(), "{left:?} is left");
            assert_eq!(host.poll_timeout(), None, "a timer is left");
        }
        assert_eq!(self.out.finished + self.out.aborted, self.out.opened);
        assert!(
            self.out.highest_slot <= self.out.peak,
            "slots are used again"
        );
        self.out
    }
}

fn address(s: &str) -> SocketAddr {
    s.parse().expect("valid")
}

fn connect(host: &mut Host, now: Instant) -> ConnId {
    host.connect(now, address("10.0.0.1:0"), address(SERVER), None)
        .expect("a port is free")
}
