//! RPC: clients that call servers and wait for the reply.

use super::alarms::Alarms;
use super::arrivals::Pause;
use super::bulk::Pairs;
use super::error::TrafficError;
use super::kind::Traffic;
use super::messages::{Channels, Counts, Draws, Messenger};
use super::placement::Placement;
use super::role::{Io, Role, RoleEvent};
use super::size::SizeDistribution;
use super::writes::{WritePattern, Writer};
use crate::knob;
use crate::knob::{Choice, Kind, Knob, Knobs};
use crate::net::packet::HostId;
use crate::sim::rng::Stream;
use narrows::congestion::order::OrderedMap;
use narrows::endpoint::ConnId;
use narrows::{ByteCount, Duration, Instant};

/// Calls over connections that stay open, one at a time on each (a closed loop). A transfer is a
/// reply, from the first write of its request.
///
/// A call whose reply takes longer than the timeout has failed, and the next one follows on the
/// same connection; what comes of the late reply is thrown away. The server has as many threads
/// as there are calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rpc {
    /// Who calls.
    pub clients: String,
    /// Who is called.
    pub servers: String,
    /// Who calls whom.
    pub pairs: Pairs,
    /// Connections of each pair.
    pub connections: u32,
    /// How long requests are.
    pub request: SizeDistribution,
    /// How long replies are.
    pub reply: SizeDistribution,
    /// How a request is written.
    pub request_writes: WritePattern,
    /// How a reply is written.
    pub reply_writes: WritePattern,
    /// From one write to the next.
    pub write_gap: Duration,
    /// From a reply to the next call.
    pub pause: Pause,
    /// From a request to its reply, at the server.
    pub service: Pause,
    /// Whether the clients' connections are without Nagle's algorithm.
    pub client_nodelay: NoDelay,
    /// The same for the servers' ends.
    pub server_nodelay: NoDelay,
    /// When a call has failed.
    pub timeout: Option<Duration>,
    /// Calls of each connection; without end if `None`.
    pub calls: Option<u32>,
}

/// Whether a connection is without Nagle's algorithm (`TCP_NODELAY`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoDelay {
    /// As the TCP is configured.
    #[default]
    Tcp,
    /// Without.
    On,
    /// With it.
    Off,
}

impl Choice for NoDelay {
    const ALL: &'static [(Self, &'static str)] =
        &[(Self::Tcp, "tcp"), (Self::On, "on"), (Self::Off, "off")];
}

impl NoDelay {
    fn set(self, io: &mut Io<'_>, conn: ConnId) {
        match self {
            Self::Tcp => {}
            Self::On => io.set_nodelay(conn, true),
            Self::Off => io.set_nodelay(conn, false),
        }
    }
}

impl Default for Rpc {
    /// 1,000 calls of 100 bytes for a kilobyte from all other hosts to h0.
    fn default() -> Self {
        Self {
            clients: "*".to_owned(),
            servers: "h0".to_owned(),
            pairs: Pairs::Each,
            connections: 1,
            request: SizeDistribution::fixed(ByteCount::new(100)),
            reply: SizeDistribution::fixed(ByteCount::new(1_000)),
            request_writes: WritePattern::WHOLE,
            reply_writes: WritePattern::WHOLE,
            write_gap: Duration::from_micros(1),
            pause: Pause::NONE,
            service: Pause::NONE,
            client_nodelay: NoDelay::Tcp,
            server_nodelay: NoDelay::Tcp,
            timeout: None,
            calls: Some(1_000),
        }
    }
}

impl Knobs for Rpc {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { clients: "clients", "clients", Kind::Hosts, "Who calls." },
        knob! { servers: "servers", "servers", Kind::Hosts, "Who is called." },
        knob! { pairs: "pairs", "pairs", Kind::Choice(&["each", "in-turn"]),
        "Who calls whom: each client each server but itself, or the first the first, the second the second." },
        knob! { connections: "connections", "connections of a pair", Kind::Whole { least: 1, most: 10_000 },
        "Connections of each pair, each with a call at a time." },
        knob! { request: "request", "request size", SizeDistribution::KIND, "How long requests are." },
        knob! { reply: "reply", "reply size", SizeDistribution::KIND, "How long replies are." },
        knob! { request_writes: "request_writes", "writes of a request", WritePattern::KIND,
        "How a request is written: sizes with + between them, n is the rest." },
        knob! { reply_writes: "reply_writes", "writes of a reply", WritePattern::KIND,
        "How a reply is written: sizes with + between them, n is the rest." },
        knob! { write_gap: "write_gap", "write gap", Kind::Time { least: 1, most: 1_000_000_000_000 },
        "From one write of a message to the next: what a system call takes." },
        knob! { pause: "pause", "pause", Pause::KIND, "From a reply to the next call." },
        knob! { service: "service", "service time", Pause::KIND,
        "From a request to its reply, at the server." },
        knob! { client_nodelay: "client_nodelay", "no delay at clients", Kind::Choice(&["tcp", "on", "off"]),
        "Whether Nagle's algorithm is off at the clients' ends of the connections; tcp is as the host's TCP has it.", "RFC 9293 section 3.7.4" },
        knob! { server_nodelay: "server_nodelay", "no delay at servers", Kind::Choice(&["tcp", "on", "off"]),
        "Whether Nagle's algorithm is off at the servers' ends of the connections; tcp is as the host's TCP has it.", "RFC 9293 section 3.7.4" },
        knob! { timeout: "timeout", "call timeout", Kind::Or("off", &Kind::SPAN),
        "A call whose reply takes longer has failed; the next one follows on the same connection." },
        knob! { calls: "calls", "calls", Kind::Or("off", &Kind::Whole { least: 1, most: 1_000_000_000 }),
        "Calls of each connection; off is without end." },
    ];
}

impl Traffic for Rpc {
    #[inline]
    fn clone_box(&self) -> Box<dyn Traffic> {
        Box::new(self.clone())
    }

    #[inline] // It runs once.
    fn install(&self, on: &mut Placement<'_>) -> Result<(), TrafficError> {
        let clients = on.hosts("clients", &self.clients)?;
        let servers = on.hosts("servers", &self.servers)?;
        let pairs = self.pairs.of(&clients, &servers).map_err(|e| match e.key {
            "to" => TrafficError::new("servers", "no client has a server other than itself"),
            _ => e,
        })?;
        let channels = Channels::<Message>::default();
        let mut by_client: OrderedMap<HostId, Vec<HostId>> = OrderedMap::new();
        for &(client, server) in &pairs {
            let to_call = by_client.get_or_default(client);
            to_call.extend((0..self.connections).map(|_| server));
        }
        for (host, servers) in by_client {
            let (sizes, pauses) = (
                Draws::Sizes.stream(on, host),
                Draws::Pauses.stream(on, host),
            );
            on.role(
                host,
                Client {
                    messages: channels.messenger(),
                    writer: Writer::new(self.request_writes.clone(), self.write_gap),
                    lines: servers.into_iter().map(Line::new).collect(),
                    alarms: Alarms::default(),
                    sizes,
                    pauses,
                    rpc: self.clone(),
                },
            );
        }
        let mut servers: Vec<HostId> = pairs.iter().map(|(_, server)| *server).collect();
        servers.sort_unstable();
        servers.dedup();
        for host in servers {
            let service = Draws::Service.stream(on, host);
            on.role(
                host,
                Server {
                    messages: channels.messenger(),
                    writer: Writer::new(self.reply_writes.clone(), self.write_gap),
                    conns: Vec::new(),
                    alarms: Alarms::default(),
                    random: service,
                    service: self.service,
                    nodelay: self.server_nodelay,
                },
            );
        }
        match self.calls {
            Some(calls) => {
                let each = pairs.len().saturating_mul(self.connections as usize);
                on.ends_after(each.saturating_mul(calls as usize));
            }
            None => on.never_ends(),
        }
        Ok(())
    }
}

/// What travels: calls by their number on their connection.
#[derive(Clone, Copy, Debug)]
enum Message {
    Call { number: u32, reply: u64 },
    Reply { number: u32 },
}

/// What a client does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Write,
    Call,
    Timeout,
}

/// A connection of a client.
#[derive(Debug)]
struct Line {
    server: HostId,
    conn: Option<ConnId>,
    /// Calls so far.
    calls: u32,
    /// Since when the last one is under way.
    asked: Option<Instant>,
    /// Whether there is an alarm for its timeout.
    armed: bool,
}

impl Line {
    fn new(server: HostId) -> Self {
        Self {
            server,
            conn: None,
            calls: 0,
            asked: None,
            armed: false,
        }
    }
}

#[derive(Debug)]
struct Client {
    rpc: Rpc,
    messages: Messenger<Message>,
    writer: Writer,
    lines: Vec<Line>,
    alarms: Alarms<(u32, Due)>,
    sizes: Stream,
    pauses: Stream,
}

impl Client {
    fn call(&mut self, io: &mut Io<'_>, tag: u32) {
        let line = &mut self.lines[tag as usize];
        let Some(conn) = line.conn else {
            return;
        };
        line.calls = line.calls.wrapping_add(1);
        line.asked = Some(io.now());
        if let Some(timeout) = self.rpc.timeout
            && !line.armed
        {
            line.armed = true;
            self.alarms.set(io.now() + timeout, (tag, Due::Timeout));
        }
        let size = self.rpc.request.draw(&mut self.sizes);
        let call = Message::Call {
            number: line.calls,
            reply: self.rpc.reply.draw(&mut self.sizes).get(),
        };
        let next = self
            .writer
            .begin(io, &mut self.messages, conn, size.get(), call);
        if let Some(at) = next {
            self.alarms.set(at, (tag, Due::Write));
        }
    }

    /// A call is over; on to the next one.
    fn over(&mut self, io: &mut Io<'_>, tag: u32) {
        let line = &mut self.lines[tag as usize];
        line.asked = None;
        io.finish();
        if self.rpc.calls.is_some_and(|calls| line.calls >= calls) {
            return;
        }
        let pause = self.rpc.pause.draw(&mut self.pauses);
        if pause.is_zero() {
            self.call(io, tag);
        } else {
            self.alarms.set(io.now() + pause, (tag, Due::Call));
        }
    }

    fn time_out(&mut self, io: &mut Io<'_>, tag: u32) {
        let line = &mut self.lines[tag as usize];
        let Some((asked, timeout)) = line.asked.zip(self.rpc.timeout) else {
            line.armed = false;
            return;
        };
        if asked + timeout > io.now() {
            // Of a later call than the one that it was set for.
            self.alarms.set(asked + timeout, (tag, Due::Timeout));
            return;
        }
        line.armed = false;
        io.fail();
        self.over(io, tag);
    }
}

impl Role for Client {
    fn start(&mut self, io: &mut Io<'_>) {
        for (line, tag) in self.lines.iter_mut().zip(0..) {
            line.conn = self.messages.connect(io, line.server, tag);
            if let Some(conn) = line.conn {
                self.rpc.client_nodelay.set(io, conn);
            }
        }
    }

    fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
        let Some(tag) = self.messages.tag(conn) else {
            return;
        };
        match event {
            RoleEvent::Connected => self.call(io, tag),
            RoleEvent::Readable => {
                self.messages.read(io, conn, Counts::Delivered);
                while let Some((size, message)) = self.messages.next(conn) {
                    let line = &self.lines[tag as usize];
                    if let Message::Reply { number } = message
                        && number == line.calls
                        && let Some(asked) = line.asked
                    {
                        io.complete(Some(line.server), asked, ByteCount::new(size));
                        self.over(io, tag);
                    }
                }
            }
            RoleEvent::Writable => self.messages.writable(io, conn),
            _ => {}
        }
    }

    fn timeout(&mut self, io: &mut Io<'_>) {
        while let Some((tag, due)) = self.alarms.due(io.now()) {
            match due {
                Due::Call => self.call(io, tag),
                Due::Timeout => self.time_out(io, tag),
                Due::Write => {
                    let conn = self.lines[tag as usize].conn;
                    let next =
                        conn.and_then(|conn| self.writer.write(io, &mut self.messages, conn));
                    if let Some(at) = next {
                        self.alarms.set(at, (tag, Due::Write));
                    }
                }
            }
        }
    }

    #[inline(never)] // As `Role` says.
    fn poll_timeout(&self) -> Option<Instant> {
        self.alarms.next()
    }
}

#[derive(Debug)]
struct Server {
    messages: Messenger<Message>,
    writer: Writer,
    /// By tag.
    conns: Vec<ConnId>,
    /// Replies to begin and writes that are due, by tag; a reply with its call and its size.
    alarms: Alarms<(u32, Option<(u32, u64)>)>,
    random: Stream,
    service: Pause,
    nodelay: NoDelay,
}

impl Server {
    fn reply(&mut self, io: &mut Io<'_>, tag: u32, number: u32, size: u64) {
        let (conn, reply) = (self.conns[tag as usize], Message::Reply { number });
        let next = self.writer.begin(io, &mut self.messages, conn, size, reply);
        if let Some(at) = next {
            self.alarms.set(at, (tag, None));
        }
    }
}

impl Role for Server {
    fn open(&mut self, io: &mut Io<'_>) {
        io.listen();
    }

    fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
        match event {
            RoleEvent::Accepted => {
                self.messages.accept(io, conn, self.conns.len() as u32);
                self.conns.push(conn);
                self.nodelay.set(io, conn);
            }
            RoleEvent::Readable => {
                self.messages.read(io, conn, Counts::Control);
                while let Some((_, message)) = self.messages.next(conn) {
                    let (Message::Call { number, reply }, Some(tag)) =
                        (message, self.messages.tag(conn))
                    else {
                        continue;
                    };
                    let service = self.service.draw(&mut self.random);
                    if service.is_zero() {
                        self.reply(io, tag, number, reply);
                    } else {
                        let reply = Some((number, reply));
                        self.alarms.set(io.now() + service, (tag, reply));
                    }
                }
            }
            RoleEvent::Writable => self.messages.writable(io, conn),
            _ => {}
        }
    }

    fn timeout(&mut self, io: &mut Io<'_>) {
        while let Some((tag, reply)) = self.alarms.due(io.now()) {
            match reply {
                Some((number, size)) => self.reply(io, tag, number, size),
                None => {
                    let conn = self.conns[tag as usize];
                    if let Some(at) = self.writer.write(io, &mut self.messages, conn) {
                        self.alarms.set(at, (tag, None));
                    }
                }
            }
        }
    }

    #[inline(never)] // As `Role` says.
    fn poll_timeout(&self) -> Option<Instant> {
        self.alarms.next()
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{DELAY, HEADERS, MSS, RATE, Rig, through_star};
    use super::*;
    use crate::knob::Section;
    use crate::net::buffer::Capacity;
    use proptest::prelude::*;

    fn rpc(knobs: &[(&str, &str)]) -> Rpc {
        let mut rpc = Rpc::default();
        for (key, value) in knobs {
            rpc.set(key, value).unwrap();
        }
        rpc
    }

    const LONG: Duration = Duration::from_secs(1_000);
    const MS: Duration = Duration::from_millis(1);

    /// Serialisation and delays of both links, and the service between.
    #[test]
    fn a_call_on_an_idle_star_takes_what_its_packets_take() {
        let knobs = [("servers", "h1"), ("clients", "h0"), ("calls", "50")];
        let ran = Rig::star(2).with(rpc(&knobs)).run(LONG).done();
        let call = through_star(100) + through_star(1_000);
        assert_eq!(ran.took(), vec![call; 50]);
        // A reply of three segments: the second link begins when it has the first of them, and is
        // busy until it has sent the last, which is shorter and waits there.
        let mut three = rpc(&knobs);
        three.set("reply", "4000").unwrap();
        three.set("service", "3ms").unwrap();
        let ran = Rig::star(2).with(three).run(LONG).done();
        let full = RATE.time_for(ByteCount::new(MSS + HEADERS));
        let last = RATE.time_for(ByteCount::new(4_000 - 2 * MSS + HEADERS));
        let call = through_star(100) + MS * 3 + DELAY * 2 + full * 3 + last;
        assert_eq!(ran.took()[0], call);
    }

    /// What a database's client saw (Nagle's algorithm and delayed ACKs, RFC 1122 section
    /// 4.2.3.2): of five writes the first leaves at once, the others wait for its ACK, which waits
    /// 40 ms; written at once, or without Nagle's algorithm, they take none of it.
    #[test]
    fn small_writes_with_nagle_wait_for_a_delayed_ack() {
        let call = |knobs: &[(&str, &str)]| {
            let mut all = vec![("servers", "h1"), ("clients", "h0"), ("calls", "20")];
            all.extend_from_slice(knobs);
            let ran = Rig::star(2).delayed_ack().with(rpc(&all)).run(LONG).done();
            (ran.took(), ran.segments().0)
        };
        let five = [("reply", "104"), ("reply_writes", "1+1+1+1+n")];
        let nagle = [five[0], five[1], ("server_nodelay", "off")];
        let (took, segments) = call(&nagle);
        let ack = Duration::from_millis(40);
        assert!(took.iter().all(|t| *t > ack && *t < ack + MS), "{took:?}");
        assert_eq!(segments, 20 * 3, "a request, a byte, and the rest");
        let nodelay = [five[0], five[1], ("server_nodelay", "on")];
        let (took, segments) = call(&nodelay);
        assert!(took.iter().all(|t| *t < MS), "{took:?}");
        assert_eq!(segments, 20 * 6, "a request and five packets");
        let buffered = [("reply", "104"), ("server_nodelay", "off")];
        let (took, segments) = call(&buffered);
        assert!(took.iter().all(|t| *t < MS), "{took:?}");
        assert_eq!(segments, 20 * 2);
        // Off at the wrong end: as before.
        let client = [
            five[0],
            five[1],
            ("client_nodelay", "on"),
            ("server_nodelay", "off"),
        ];
        assert!(call(&client).0.iter().all(|t| *t > ack));
    }

    #[test]
    fn requests_are_written_in_pieces_as_well() {
        let knobs = [
            ("servers", "h1"),
            ("clients", "h0"),
            ("calls", "3"),
            ("request_writes", "10+n"),
            ("write_gap", "5ms"),
        ];
        let ran = Rig::star(2).with(rpc(&knobs)).run(LONG).done();
        let call = MS * 5 + through_star(90) + through_star(1_000);
        assert_eq!(ran.took(), vec![call; 3]);
    }

    #[test]
    fn calls_pause_and_latency_does_not_count_that() {
        let knobs = [
            ("servers", "h1"),
            ("clients", "h0"),
            ("calls", "2000"),
            ("pause", "exponential:1ms"),
        ];
        let ran = Rig::star(2).with(rpc(&knobs)).run(LONG).done();
        let calls = ran.transfers();
        assert!(calls.iter().all(|call| call.took < MS));
        let pauses: Vec<f64> = calls
            .windows(2)
            .map(|pair| pair[1].began.since(pair[0].began + pair[0].took).as_nanos() as f64)
            .collect();
        let distance = super::super::arrivals::tests::distance_from_exponential(pauses, 1e6);
        assert!(distance < 1.63, "{distance}");
    }

    /// The adversary: a server that takes longer than its client waits. Each call fails, and the
    /// late reply is not taken for that of the next one.
    #[test]
    fn a_call_fails_at_its_timeout() {
        let knobs = [
            ("clients", "h1..h3"),
            ("calls", "10"),
            ("service", "25ms"),
            ("timeout", "10ms"),
        ];
        let ran = Rig::star(4).with(rpc(&knobs)).run(LONG);
        assert!(!ran.log.goes_on());
        assert_eq!(ran.log.failed(0), 30);
        assert_eq!(ran.transfers(), []);
        assert!(ran.log.delivered() > ByteCount::ZERO);
        // 10 ms is the median of an exponential time with a mean of 10 ms / ln 2.
        let mut some = rpc(&knobs);
        some.set("service", "exponential:14.427ms").unwrap();
        some.set("calls", "1000").unwrap();
        let ran = Rig::star(4).with(some).run(LONG);
        let (failed, replied) = (ran.log.failed(0), ran.transfers().len() as u64);
        assert_eq!(failed + replied, 3_000);
        assert!(failed.abs_diff(1_500) < 150, "{failed}");
        assert!(ran.took().iter().all(|t| *t <= MS * 10));
    }

    #[test]
    fn a_timeout_that_never_comes_changes_nothing() {
        let knobs = [("clients", "h1..h4"), ("calls", "100"), ("reply", "20kB")];
        let run = |timeout: &str| {
            let mut rpc = rpc(&knobs);
            rpc.set("timeout", timeout).unwrap();
            Rig::star(5).with(rpc).run(LONG).done().transfers()
        };
        assert_eq!(run("off"), run("900s"));
    }

    #[test]
    fn it_runs_beside_itself_late_and_on_ipv6() {
        let first = rpc(&[
            ("connections", "3"),
            ("calls", "40"),
            ("reply", "web-search"),
        ]);
        let second = rpc(&[
            ("clients", "h0..h3"),
            ("servers", "h4..h7"),
            ("pairs", "in-turn"),
            ("calls", "off"),
        ]);
        let rig = Rig::leaf_spine(2, 4).ipv6().with(first).at(MS * 7, second);
        let ran = rig.run(Duration::from_millis(300));
        let of = |n| ran.transfers().iter().filter(|t| t.traffic == n).count();
        assert!(of(0) > 0 && of(1) > 1_000, "{} {}", of(0), of(1));
        let began = ran
            .transfers()
            .iter()
            .filter(|t| t.traffic == 1)
            .map(|t| t.began)
            .min();
        assert!(began > Some(Instant::ZERO + MS * 7));
        assert_eq!(rig.run(Duration::from_millis(300)).bits(), ran.bits());
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (knobs, key) in [
            (&[("clients", "h0"), ("servers", "h0")][..], "servers"),
            (&[("clients", "h5")], "clients"),
            (
                &[
                    ("clients", "h0..h1"),
                    ("servers", "h2"),
                    ("pairs", "in-turn"),
                ],
                "pairs",
            ),
        ] {
            assert_eq!(Rig::star(3).with(rpc(knobs)).refused().key, key);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Whatever its knobs and whatever is lost: it ends.
        #[test]
        fn it_always_ends(
            hosts in 2_usize..6, connections in 1_u32..4, calls in 1_u32..12,
            request in 1_u64..4_000, reply in 1_u64..40_000, pieces in prop::collection::vec(1_u64..3_000, 0..4),
            timeout in 0_u64..40, pause in 0_u64..3, nagle: bool, seed in 0_u64..1_000,
        ) {
            let pieces: Vec<String> = pieces.iter().map(u64::to_string).chain(["n".to_owned()]).collect();
            let pattern = <WritePattern as crate::knob::Quantity>::read(&pieces.join("+")).unwrap();
            let rpc = Rpc {
                connections,
                calls: Some(calls),
                request: SizeDistribution::fixed(ByteCount::new(request)),
                reply: SizeDistribution::fixed(ByteCount::new(reply)),
                request_writes: pattern.clone(),
                reply_writes: pattern,
                pause: Pause::Exponential(MS * pause),
                timeout: (timeout > 0).then_some(MS * timeout),
                server_nodelay: if nagle { NoDelay::Off } else { NoDelay::On },
                ..Rpc::default()
            };
            let rig = Rig::lossy_star(hosts, 0, 3..9, Capacity::Packets(20)).seed(seed);
            let ran = rig.delayed_ack().with(rpc).run(LONG);
            prop_assert!(!ran.log.goes_on());
            let all = (hosts as u64 - 1) * u64::from(connections) * u64::from(calls);
            prop_assert_eq!(ran.transfers().len() as u64 + ran.log.failed(0), all);
            if timeout == 0 {
                ran.done();
            }
        }
    }
}
