//! Node mesh: nodes of the Erlang kind, which talk over one connection for each pair.

use super::alarms::Alarms;
use super::arrivals::{Arrivals, Pause};
use super::error::TrafficError;
use super::kind::Traffic;
use super::log::Process;
use super::messages::{Channels, Counts, Draws, Messenger};
use super::opening::{Begins, Opening, SETUP, SETUP_KIND};
use super::placement::Placement;
use super::port::{Held, NodePort, Passed, Writers};
use super::role::{Io, Role, RoleEvent};
use super::size::SizeDistribution;
use crate::knob;
use crate::knob::{Kind, Knob, Knobs};
use crate::net::packet::HostId;
use crate::sim::rng::Stream;
use crate::sim::time::SimTime;
use narrows::config::{Buffers, TcpConfig};
use narrows::endpoint::ConnId;
use narrows::{ByteCount, Duration, Instant};
use std::collections::VecDeque;

/// Nodes as Erlang/OTP has them: each pair shares one connection, behind a port with a queue of its
/// own. Each node puts requests to the others, which arrive by themselves (an open loop), and has
/// one server process that answers requests one at a time, in their order.
///
/// What a process sends goes into the queue of the port, and from there to the TCP, as it has room.
/// A port whose queue comes to [`Self::busy_limit`] (`erl +zdbbl`, 1 MiB since R14B01, 128 KB before)
/// is busy until nearly all of that is written ([`BusyLimit`](super::BusyLimit)). The process whose message makes it
/// busy is suspended as long, and so is who sends to it meanwhile, whose message waits with it. Then
/// all go on at once, and the messages of the first make the port busy for the others. So a server
/// that is suspended by one busy port keeps all nodes waiting that have asked it, though their links
/// are idle. Erlang/OTP does so in namespaces: `narrows story busyport --live`.
///
/// A transfer is a reply, from when its request arrived at the node that puts it. Two counts and
/// their events in the trace are named as the emulator's system monitor names its messages:
/// `busy_port`, a port has become busy (which the emulator tells of other ports than those between
/// nodes), and `busy_dist_port`, a process was suspended by one. What a node's queues, suspended
/// processes and mailboxes hold is its memory, beside [`Self::memory`].
///
/// Left out: the cost of the processes, that the driver's own queue (8 KB, and the message that
/// exceeds them) does not count for the limit, what a message takes beside its bytes, heartbeats, and
/// the fragments in which newer releases send what is longer than 64 KB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMesh {
    /// The nodes.
    pub hosts: String,
    /// Requests a second of each node.
    pub rate: u64,
    /// How long requests are.
    pub request: SizeDistribution,
    /// How long replies are.
    pub reply: SizeDistribution,
    /// From when a request's turn has come to its reply.
    pub service: Pause,
    /// What a process does that sends to a busy port.
    pub writers: Writers,
    /// From how much in its queue a port is busy.
    pub busy_limit: ByteCount,
    /// What the TCP takes of a port at most, unsent and unacknowledged.
    pub socket_buffer: ByteCount,
    /// What a node holds beside its queues.
    pub memory: ByteCount,
    /// The most requests of a node that have no reply yet: whoever puts them waits for one. Others
    /// wait, which counts as their time.
    pub limit: Option<u32>,
    /// Time for the handshakes.
    pub setup: Duration,
}

impl Default for NodeMesh {
    /// 100 requests a second of each of all hosts, for 30 kB each; 200 us at the server; 1 MiB.
    fn default() -> Self {
        Self {
            hosts: "*".to_owned(),
            rate: 100,
            request: SizeDistribution::fixed(ByteCount::new(100)),
            reply: SizeDistribution::fixed(ByteCount::new(30_000)),
            service: Pause::Fixed(Duration::from_micros(200)),
            writers: Writers::Suspend,
            busy_limit: ByteCount::new(1 << 20),
            socket_buffer: ByteCount::new(64 << 10),
            memory: ByteCount::ZERO,
            limit: None,
            setup: SETUP,
        }
    }
}

const BYTES: Kind = Kind::Size {
    least: 1,
    most: 1 << 30,
};

impl Knobs for NodeMesh {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { hosts: "hosts", "nodes", Kind::Hosts, "The nodes." },
        knob! { rate: "rate", "request rate", Kind::Whole { least: 1, most: 1_000_000_000 },
        "Requests a second of each node, to the others in equal shares." },
        knob! { request: "request", "request size", SizeDistribution::KIND, "How long requests are." },
        knob! { reply: "reply", "reply size", SizeDistribution::KIND, "How long replies are." },
        knob! { service: "service", "service time", Pause::KIND,
        "How long the server process of a node works on a request; others wait." },
        knob! { writers: "writers", "writers", Kind::Choice(&["suspend", "async", "relay"]),
        "What a process does that sends to a busy port: it is suspended; it goes on and the queue grows; or a process of its own for each peer is suspended in its place.", "Erlang/OTP erlang:send/3, process_flag async_dist" },
        knob! { busy_limit: "busy_limit", "busy limit", BYTES,
        "From how much in its queue a port is busy, until nearly all of that is written: 1MiB since R14B01, 128KiB before. Left out: what processes cost, that the driver's own queue (8 KB) does not count for the limit, what a message takes beside its bytes, heartbeats, and fragments of what is longer than 64 KB.", "Erlang/OTP erl +zdbbl" },
        knob! { socket_buffer: "socket_buffer", "socket buffer", BYTES,
        "What the TCP takes of a port at most, unsent and unacknowledged; no more than tcp.send_buffer." },
        knob! { memory: "memory", "memory beside", Kind::Size { least: 0, most: 1 << 50 },
        "What a node holds beside its queues; part of the memory that is measured." },
        knob! { limit: "limit", "request limit", Kind::Or("off", &Kind::Whole { least: 1, most: 1_000_000 }),
        "The most requests of a node that have no reply yet; others wait, which counts as their time." },
        knob! { setup: "setup", "setup time", SETUP_KIND,
        "Time for the handshakes, after which requests arrive." },
    ];
}

impl NodeMesh {
    fn port(&self, conn: ConnId, peer: HostId) -> NodePort<Message> {
        NodePort::new(conn, peer, self.busy_limit, self.writers)
    }

    fn interval(&self) -> SimTime {
        SimTime::from_picos(1_000_000_000_000 / self.rate.max(1))
    }
}

impl Traffic for NodeMesh {
    #[inline]
    fn clone_box(&self) -> Box<dyn Traffic> {
        Box::new(self.clone())
    }

    #[inline] // It runs once.
    fn install(&self, on: &mut Placement<'_>) -> Result<(), TrafficError> {
        let hosts = on.hosts("hosts", &self.hosts)?;
        if hosts.len() < 2 {
            return Err(TrafficError::new("hosts", "it takes two nodes at least"));
        }
        let channels = Channels::<Message>::default();
        for &host in &hosts {
            let node = Node {
                mesh: self.clone(),
                messages: channels.messenger(),
                opening: Opening::new(),
                // One connection a pair: the first of the two opens it.
                to_open: hosts.iter().copied().filter(|p| *p > host).collect(),
                ports: Vec::new(),
                mailbox: VecDeque::new(),
                server: Server::Idle,
                arrivals: None,
                waiting: VecDeque::new(),
                unanswered: 0,
                alarms: Alarms::default(),
                draws: Draws::Arrivals.stream(on, host),
                choices: Draws::Peers.stream(on, host),
                sizes: Draws::Sizes.stream(on, host),
                services: Draws::Service.stream(on, host),
            };
            on.role(host, node);
        }
        on.never_ends();
        Ok(())
    }
}

/// What travels.
#[derive(Clone, Copy, Debug)]
enum Message {
    /// Asked for at that time, so many bytes.
    Request { asked: Instant, reply: u64 },
    /// To what was asked for at that time.
    Reply { asked: Instant },
}

/// A request that waits for the server, or is being served.
#[derive(Clone, Copy, Debug)]
struct Asked {
    tag: u32,
    at: Instant,
    size: u64,
    reply: u64,
}

/// The server process of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Idle,
    /// It works on the first request of its mailbox.
    Works,
    /// The reply to it waits for a busy port.
    Suspended,
}

#[derive(Debug)]
struct Node {
    mesh: NodeMesh,
    messages: Messenger<Message>,
    opening: Opening,
    to_open: Vec<HostId>,
    /// By tag: those to nodes that this one has opened a connection to, then the others.
    ports: Vec<NodePort<Message>>,
    mailbox: VecDeque<Asked>,
    server: Server,
    arrivals: Option<Arrivals>,
    /// When requests arrived that are not put yet, and how many have no reply yet.
    waiting: VecDeque<Instant>,
    unanswered: u32,
    /// The server has done its work.
    alarms: Alarms<()>,
    draws: Stream,
    choices: Stream,
    sizes: Stream,
    services: Stream,
}

impl Node {
    fn connected(&mut self, io: &mut Io<'_>) {
        if self.opening.connected() == Begins::Now {
            self.begin(io);
        }
    }

    fn begin(&mut self, io: &mut Io<'_>) {
        let draws = self.draws.clone();
        self.arrivals = Some(Arrivals::after(io.now(), self.mesh.interval(), draws));
        self.tell_memory(io);
    }

    fn take_arrivals(&mut self, io: &mut Io<'_>) {
        while let Some(arrivals) = &mut self.arrivals {
            let at = arrivals.next();
            if at > io.now() {
                return;
            }
            arrivals.advance();
            if !self.ports.is_empty() {
                self.waiting.push_back(at);
                self.ask(io);
            }
        }
    }

    /// Puts the requests that may be put now.
    fn ask(&mut self, io: &mut Io<'_>) {
        let limit = self.mesh.limit.unwrap_or(u32::MAX);
        while self.unanswered < limit
            && let Some(asked) = self.waiting.pop_front()
        {
            self.unanswered += 1;
            let tag = self.choices.below(self.ports.len() as u64) as u32;
            let size = self.mesh.request.draw(&mut self.sizes).get();
            let reply = self.mesh.reply.draw(&mut self.sizes).get();
            // Each request is a process of its own, which waits alone.
            self.post(
                io,
                Process::Client,
                tag,
                size,
                Message::Request { asked, reply },
            );
        }
    }

    /// A process sends a message.
    fn post(
        &mut self,
        io: &mut Io<'_>,
        process: Process,
        tag: u32,
        size: u64,
        message: Message,
    ) -> Passed {
        let process = match self.mesh.writers {
            Writers::Relay => Process::Relay,
            Writers::Suspend | Writers::Async => process,
        };
        let held = Held {
            process,
            size,
            message,
        };
        let passed = self.ports[tag as usize].post(io, &mut self.messages, held);
        self.tell_memory(io);
        passed
    }

    /// The next request has its turn, if the server is free.
    fn serve(&mut self, io: &mut Io<'_>) {
        if self.server == Server::Idle && !self.mailbox.is_empty() {
            self.server = Server::Works;
            let service = self.mesh.service.draw(&mut self.services);
            self.alarms.set(io.now() + service, ());
        }
    }

    /// The server has done its work on the first request.
    fn answer(&mut self, io: &mut Io<'_>) {
        let Some(asked) = self.mailbox.pop_front() else {
            return;
        };
        let reply = Message::Reply { asked: asked.at };
        self.server = match self.post(io, Process::Server, asked.tag, asked.reply, reply) {
            Passed::On => Server::Idle,
            Passed::Suspended => Server::Suspended,
        };
        self.serve(io);
    }

    /// A port may have room again.
    fn drain(&mut self, io: &mut Io<'_>, tag: u32) {
        let port = &mut self.ports[tag as usize];
        if port
            .drain(io, &mut self.messages)
            .contains(&Process::Server)
        {
            self.server = Server::Idle;
            self.serve(io);
        }
        self.tell_memory(io);
    }

    fn tell_memory(&self, io: &mut Io<'_>) {
        let ports = self.ports.iter().map(|port| port.holds(&self.messages));
        let mailbox = self.mailbox.iter().map(|asked| asked.size);
        let held: u64 = ports.chain(mailbox).sum();
        io.gauge(self.mesh.memory.get() + held);
    }

    fn received(&mut self, io: &mut Io<'_>, conn: ConnId, size: u64, message: Message) {
        match message {
            Message::Request { asked, reply } => {
                let Some(tag) = self.messages.tag(conn) else {
                    return;
                };
                self.mailbox.push_back(Asked {
                    tag,
                    at: asked,
                    size,
                    reply,
                });
                self.serve(io);
            }
            Message::Reply { asked } => {
                io.complete(io.peer(conn), asked, ByteCount::new(size));
                self.unanswered = self.unanswered.saturating_sub(1);
                self.ask(io);
            }
        }
    }
}

impl Role for Node {
    fn tcp(&self, tcp: &TcpConfig) -> Option<TcpConfig> {
        Some(TcpConfig {
            buffers: Buffers {
                send: tcp.buffers.send.min(self.mesh.socket_buffer.as_usize()),
                ..tcp.buffers
            },
            ..tcp.clone()
        })
    }

    fn open(&mut self, io: &mut Io<'_>) {
        io.listen();
    }

    fn start(&mut self, io: &mut Io<'_>) {
        let (setup, to_open) = (self.mesh.setup, std::mem::take(&mut self.to_open));
        self.opening.start(io, &mut self.messages, &to_open, setup);
        let opened = self.opening.conns.iter().zip(to_open);
        self.ports = opened
            .map(|(conn, peer)| self.mesh.port(*conn, peer))
            .collect();
    }

    fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
        match event {
            RoleEvent::Accepted => {
                self.messages.accept(io, conn, self.ports.len() as u32);
                if let Some(peer) = io.peer(conn) {
                    self.ports.push(self.mesh.port(conn, peer));
                }
            }
            RoleEvent::Connected => self.connected(io),
            RoleEvent::Readable => {
                self.messages.read(io, conn, Counts::Delivered);
                while let Some((size, message)) = self.messages.next(conn) {
                    self.received(io, conn, size, message);
                }
            }
            RoleEvent::Writable => {
                self.messages.writable(io, conn);
                if let Some(tag) = self.messages.tag(conn) {
                    self.drain(io, tag);
                }
            }
            _ => {}
        }
    }

    fn timeout(&mut self, io: &mut Io<'_>) {
        if self.opening.timeout(io.now()) == Begins::Now {
            self.begin(io);
        }
        while self.alarms.due(io.now()).is_some() {
            self.answer(io);
        }
        self.take_arrivals(io);
    }

    #[inline(never)] // As `Role` says.
    fn poll_timeout(&self) -> Option<Instant> {
        let arrival = self.arrivals.as_ref().map(Arrivals::next);
        let times = [arrival, self.alarms.next(), self.opening.poll_timeout()];
        times.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Ran, Rig, attachment, through_star};
    use super::super::{AppSpan, Gauge, SpanKind};
    use super::*;
    use crate::knob::Section;
    use crate::net::topology::Star;
    use narrows::Rate;

    fn mesh(knobs: &[(&str, &str)]) -> NodeMesh {
        let mut mesh = NodeMesh::default();
        for (key, value) in knobs {
            mesh.set(key, value).unwrap();
        }
        mesh
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// A star whose link to h1 is slow.
    fn slow(hosts: usize, mesh: NodeMesh) -> Ran {
        let mut each = vec![attachment(); hosts];
        each[1].down.rate = Rate::from_mbps(2);
        let star = Star {
            hosts: each,
            pools: Vec::new(),
        };
        Rig::on(star.graph().unwrap()).with(mesh).run(SECOND * 2)
    }

    fn spans(ran: &Ran) -> Vec<AppSpan> {
        ran.log.take_spans()
    }

    fn most(ran: &Ran) -> u64 {
        let most = |gauge: &Gauge| gauge.course.iter().map(|(_, bytes)| bytes.get()).max();
        let gauges = ran.log.take_gauges();
        gauges.iter().filter_map(most).max().unwrap()
    }

    #[test]
    fn a_request_on_an_idle_mesh_takes_its_packets_and_the_service() {
        let quiet = [("rate", "2"), ("reply", "1000B"), ("hosts", "h0..h1")];
        let ran = Rig::star(3).with(mesh(&quiet)).run(SECOND * 5);
        let took = ran.took();
        assert!(took.len() > 5, "{}", took.len());
        let idle = through_star(100) + Duration::from_micros(200) + through_star(1_000);
        assert_eq!(took.iter().min(), Some(&idle));
        assert!(spans(&ran).is_empty());
    }

    #[test]
    fn each_pair_has_one_connection_which_both_use() {
        let ran = Rig::star(4).with(mesh(&[])).run(SECOND);
        let opened: usize = ran.hosts.iter().map(|host| host.app.opened().len()).sum();
        assert_eq!(opened, 2 * 6, "both ends of six");
        let mut pairs: Vec<_> = ran.transfers().iter().map(|t| (t.from, t.to)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), 12, "each asks each");
    }

    /// A serial server that a busy port suspends answers nobody, though all other links are idle.
    #[test]
    fn a_busy_port_suspends_the_server_and_all_others_wait() {
        let knobs = [
            ("rate", "200"),
            ("reply", "10kB"),
            ("busy_limit", "64KiB"),
            ("socket_buffer", "32KiB"),
        ];
        let ran = slow(6, mesh(&knobs));
        // A backlog fills other ports for a moment; only the slow link does so for long. What h1 sends
        // itself waits for acknowledgements that come over it.
        let long = |s: &AppSpan| s.until(ran.now).since(s.began) > Duration::from_millis(20);
        let all = spans(&ran).into_iter().filter(long);
        let spans: Vec<AppSpan> = all.filter(|s| s.host != HostId(1)).collect();
        let server = SpanKind::BusyDistPort(Process::Server);
        let stalls: Vec<&AppSpan> = spans.iter().filter(|s| s.kind == server).collect();
        assert!(!stalls.is_empty());
        for stall in &stalls {
            assert_eq!(stall.peer, Some(HostId(1)), "the slow one alone");
            let (from, until) = (stall.began, stall.until(ran.now));
            // The last reply may be on its way; after that the node is silent to all.
            let silent = |t: &&super::super::Transfer| {
                let at = t.began + t.took;
                t.from == Some(stall.host)
                    && t.to != HostId(1)
                    && at > from + Duration::from_millis(2)
                    && at < until
            };
            assert_eq!(ran.transfers().iter().find(silent), None);
        }
        let mut ports = spans.iter().filter(|s| s.kind == SpanKind::BusyPort);
        assert!(ports.all(|s| s.peer == Some(HostId(1))));
    }

    /// Of an open loop, what nobody has taken waits in queues and mailboxes; of two requests, no more
    /// than their replies.
    #[test]
    fn no_more_requests_are_without_a_reply_than_the_limit() {
        let run = |limit| {
            let knobs = [("rate", "200"), ("reply", "10kB"), ("limit", limit)];
            slow(2, mesh(&knobs))
        };
        let (few, all) = (run("2"), run("off"));
        assert!(most(&few) <= 2 * 10_000 + 1_000, "{}", most(&few));
        assert!(most(&all) > 500_000, "{}", most(&all));
        // Others wait, and their time counts from when they arrived.
        let longest = few.took().into_iter().max();
        assert!(longest > Some(Duration::from_millis(500)), "{longest:?}");
    }

    /// The repairs: nobody waits but for the slow one, and memory pays.
    #[test]
    fn writers_that_are_not_suspended_cost_memory_instead() {
        let knobs = [
            ("rate", "200"),
            ("reply", "10kB"),
            ("busy_limit", "64KiB"),
            ("socket_buffer", "32KiB"),
        ];
        let run = |writers: &str| {
            let mut mesh = mesh(&knobs);
            mesh.set("writers", writers).unwrap();
            let ran = slow(6, mesh);
            // Of nodes that have nothing to do with the slow one.
            let slow = HostId(1);
            let all = ran.transfers().into_iter();
            let others = all.filter(|t| t.to != slow && t.from != Some(slow));
            let longest = others.map(|t| t.took).max().unwrap();
            (longest, spans(&ran), most(&ran))
        };
        let (suspended, _, held) = run("suspend");
        assert!(suspended > Duration::from_millis(100), "{suspended}");
        for writers in ["async", "relay"] {
            let (longest, spans, memory) = run(writers);
            assert!(longest < Duration::from_millis(20), "{writers} {longest}");
            assert!(memory > held, "{writers} {memory} {held}");
            let of = |process| {
                spans
                    .iter()
                    .any(|s| s.kind == SpanKind::BusyDistPort(process))
            };
            assert!(!of(Process::Server) && !of(Process::Client), "{writers}");
            assert_eq!(of(Process::Relay), writers == "relay");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bits() {
        let bits = |seed| {
            let knobs = [("rate", "200"), ("busy_limit", "64KiB")];
            let ran = Rig::star(5).seed(seed).with(mesh(&knobs)).run(SECOND);
            (ran.bits(), spans(&ran), ran.log.take_gauges())
        };
        assert!(bits(3) == bits(3));
        assert!(bits(3) != bits(4));
    }
}
