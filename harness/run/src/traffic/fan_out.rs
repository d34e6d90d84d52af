//! Fan-out: hosts that put queries to several others each, whatever becomes of them.

use super::arrivals::Arrivals;
use super::choose::{Chooser, Skew};
use super::error::TrafficError;
use super::kind::Traffic;
use super::messages::{Channels, Counts, Draws, Messenger};
use super::opening::{Begins, Opening, SETUP, SETUP_KIND};
use super::placement::Placement;
use super::role::{Io, Role, RoleEvent};
use super::size::SizeDistribution;
use crate::knob;
use crate::knob::{About, Choice, Kind, Knob, Knobs, Quantity};
use crate::net::packet::HostId;
use crate::sim::rng::Stream;
use crate::sim::time::SimTime;
use narrows::endpoint::ConnId;
use narrows::{ByteCount, Duration, Instant, Rate};
use std::collections::VecDeque;

/// Queries that arrive at each host by themselves, in a Poisson process of its own (an open loop).
/// The host puts each to `servers_per_query` others at once; it is complete when all have replied.
/// Every host is both, if `servers` does not say otherwise: partition and aggregate, or a cluster
/// that gathers the parts of a page.
///
/// Each host opens [`Self::connections`] to each server when the traffic starts, and queries arrive from
/// [`Self::setup`] on. A transfer is a query, from its arrival, though it had to wait for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FanOut {
    /// Who asks.
    pub hosts: String,
    /// Who replies; the hosts themselves if `None`.
    pub servers: Option<String>,
    /// How much is asked for.
    pub offered: Offered,
    /// How many servers a query is put to.
    pub servers_per_query: u32,
    /// How much oftener the first servers are asked than the last.
    pub skew: Skew,
    /// Connections of a host to each server, which its queries take in turn.
    pub connections: u32,
    /// How long requests are.
    pub request: ByteCount,
    /// How long each reply is.
    pub size: SizeDistribution,
    /// The most queries of a host under way; others wait.
    pub limit: Option<u32>,
    /// Queries of each host; without end if `None`.
    pub queries: Option<u32>,
    /// Whether the first query of each host is at the same instant.
    pub aligned: bool,
    /// Time for the handshakes.
    pub setup: Duration,
    /// What is a transfer.
    pub record: Recorded,
}

/// How much hosts ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// Replies of this rate come to each host that asks, on average.
    Load(Rate),
    /// So many queries a second of each host.
    Queries(u64),
}

/// What is a transfer of a fan-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recorded {
    /// A query, with all its replies.
    #[default]
    Query,
    /// Each reply.
    Reply,
}

impl Choice for Recorded {
    const ALL: &'static [(Self, &'static str)] = &[(Self::Query, "query"), (Self::Reply, "reply")];
}

impl Default for FanOut {
    /// Three replies of 30 kB for each query, 250 Mb/s to each of all hosts, without end.
    fn default() -> Self {
        Self {
            hosts: "*".to_owned(),
            servers: None,
            offered: Offered::Load(Rate::from_mbps(250)),
            servers_per_query: 3,
            skew: Skew::NONE,
            connections: 1,
            request: ByteCount::new(64),
            size: SizeDistribution::fixed(ByteCount::new(30_000)),
            limit: None,
            queries: None,
            aligned: false,
            setup: SETUP,
            record: Recorded::Query,
        }
    }
}

const QUERIES: Kind = Kind::Whole {
    least: 1,
    most: 1_000_000_000,
};

impl Knobs for FanOut {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { hosts: "hosts", "hosts", Kind::Hosts, "Who asks, and who replies if servers does not say otherwise." },
        knob! { servers: "servers", "servers", Kind::Or("off", &Kind::Hosts), "Who replies; off is the hosts themselves." },
        Knob {
            about: About {
                key: "load",
                title: "offered load",
                meaning: "The rate at which replies come to each host that asks, on average: payload, without what is repeated. Takes the place of rate.",
                kind: Kind::Rate,
                source: "",
            },
            get: |fan| match fan.offered {
                Offered::Load(rate) => rate.show(),
                Offered::Queries(_) => None,
            },
            set: |fan, text| {
                fan.offered = Offered::Load(Kind::Rate.read(text)?);
                Ok(())
            },
        },
        Knob {
            about: About {
                key: "rate",
                title: "query rate",
                meaning: "Queries a second of each host that asks, on average. Takes the place of load.",
                kind: QUERIES,
                source: "",
            },
            get: |fan| match fan.offered {
                Offered::Queries(rate) => rate.show(),
                Offered::Load(_) => None,
            },
            set: |fan, text| {
                fan.offered = Offered::Queries(QUERIES.read(text)?);
                Ok(())
            },
        },
        knob! { servers_per_query: "k", "servers of a query", Kind::Whole { least: 1, most: 100_000 },
        "How many different servers a query is put to." },
        knob! { skew: "skew", "skew", Kind::Text("0, 0.5, 1, ... 3"),
        "How much oftener the first servers are asked than the last: the r-th has a weight of 1/r^skew." },
        knob! { connections: "connections", "connections to a server", Kind::Whole { least: 1, most: 1_000 },
        "Connections of a host to each server, which its queries take in turn." },
        knob! { request: "request", "request size", Kind::Size { least: 1, most: 1 << 20 }, "How long a request is." },
        knob! { size: "size", "reply size", SizeDistribution::KIND, "How long each reply is." },
        knob! { limit: "limit", "query limit", Kind::Or("off", &Kind::Whole { least: 1, most: 1_000_000 }),
        "The most queries of a host that are under way; others wait, which counts as their time." },
        knob! { queries: "queries", "queries", Kind::Or("off", &QUERIES), "Queries of each host; off is without end." },
        knob! { aligned: "aligned", "aligned start", Kind::Switch,
        "Whether the first query of each host is at the same instant; otherwise it is as later ones are." },
        knob! { setup: "setup", "setup time", SETUP_KIND,
        "Time for the handshakes, after which queries arrive; on a host whose handshakes take longer, after them." },
        knob! { record: "record", "what is a transfer", Kind::Choice(&["query", "reply"]),
        "Whether a transfer is a query with all its replies, or each reply." },
    ];
}

impl FanOut {
    /// From one query of a host to the next, on average.
    fn interval(&self) -> SimTime {
        const SECOND: u128 = 1_000_000_000_000;
        let ps = match self.offered {
            Offered::Queries(rate) => SECOND / u128::from(rate.max(1)),
            Offered::Load(load) => {
                let mean = self.size.mean();
                let bits = mean.bytes * 8 * u128::from(self.servers_per_query);
                let per_second = mean.of * u128::from(load.bits_per_sec().max(1));
                // In two steps, which fit.
                let whole = (bits / per_second).saturating_mul(SECOND);
                whole.saturating_add(bits % per_second * SECOND / per_second)
            }
        };
        SimTime::from_picos(u64::try_from(ps).unwrap_or(u64::MAX).max(1))
    }
}

impl Traffic for FanOut {
    #[inline]
    fn clone_box(&self) -> Box<dyn Traffic> {
        Box::new(self.clone())
    }

    #[inline] // It runs once.
    fn install(&self, on: &mut Placement<'_>) -> Result<(), TrafficError> {
        let hosts = on.hosts("hosts", &self.hosts)?;
        let servers = match &self.servers {
            Some(servers) => on.hosts("servers", servers)?,
            None => hosts.clone(),
        };
        let channels = Channels::<Message>::default();
        let mut all: Vec<HostId> = hosts.iter().chain(&servers).copied().collect();
        all.sort_unstable();
        all.dedup();
        for host in all {
            let asks = hosts.binary_search(&host).is_ok();
            let others = servers.iter().copied().filter(|server| *server != host);
            let others: Vec<HostId> = if asks { others.collect() } else { Vec::new() };
            let k = self.servers_per_query as usize;
            if asks && others.len() < k {
                let why = format!("{k} servers a query, and there are {} others", others.len());
                return Err(TrafficError::new("k", why));
            }
            let connections = self.connections as usize;
            let each = |server: &HostId| std::iter::repeat_n(*server, connections);
            let node = Node {
                fan: self.clone(),
                messages: channels.messenger(),
                opening: Opening::new(),
                chooser: Chooser::new(others.len(), self.skew),
                peers: others.iter().flat_map(each).collect(),
                turns: vec![0; others.len()],
                arrivals: None,
                arrived: 0,
                waiting: VecDeque::new(),
                queries: Vec::new(),
                free: Vec::new(),
                interval: self.interval(),
                draws: Draws::Arrivals.stream(on, host),
                choices: Draws::Peers.stream(on, host),
                sizes: Draws::Sizes.stream(on, host),
            };
            on.role(host, node);
        }
        let each = match self.record {
            Recorded::Query => hosts.len(),
            Recorded::Reply => hosts.len().saturating_mul(self.servers_per_query as usize),
        };
        match self.queries {
            Some(queries) => on.ends_after(each.saturating_mul(queries as usize)),
            None => on.never_ends(),
        }
        Ok(())
    }
}

/// What travels.
#[derive(Clone, Copy, Debug)]
enum Message {
    Request { query: u32, reply: u64 },
    Reply { query: u32 },
}

/// A query under way.
#[derive(Clone, Copy, Debug)]
struct Query {
    arrived: Instant,
    missing: u32,
    size: u64,
}

/// A host: it asks, and it replies.
#[derive(Debug)]
struct Node {
    fan: FanOut,
    messages: Messenger<Message>,
    opening: Opening,
    /// Of each connection, those to one server after each other.
    peers: Vec<HostId>,
    chooser: Chooser,
    /// Of each server, which of its connections is next.
    turns: Vec<u32>,
    arrivals: Option<Arrivals>,
    /// Queries that have arrived.
    arrived: u32,
    /// When those did that wait.
    waiting: VecDeque<Instant>,
    /// Those under way, in places that are used again.
    queries: Vec<Query>,
    free: Vec<u32>,
    interval: SimTime,
    draws: Stream,
    choices: Stream,
    sizes: Stream,
}

impl Node {
    fn connected(&mut self, io: &mut Io<'_>) {
        if self.opening.connected() == Begins::Now {
            self.begin(io);
        }
    }

    fn begin(&mut self, io: &mut Io<'_>) {
        let (now, draws) = (io.now(), self.draws.clone());
        self.arrivals = Some(if self.fan.aligned {
            Arrivals::from(now, self.interval, draws)
        } else {
            Arrivals::after(now, self.interval, draws)
        });
        self.take_arrivals(io);
    }

    fn take_arrivals(&mut self, io: &mut Io<'_>) {
        while let Some(arrivals) = &mut self.arrivals {
            let at = arrivals.next();
            if at > io.now() {
                return;
            }
            self.arrived = self.arrived.saturating_add(1);
            arrivals.advance();
            if self.fan.queries.is_some_and(|all| self.arrived >= all) {
                self.arrivals = None;
            }
            self.waiting.push_back(at);
            self.ask(io);
        }
    }

    /// Puts the queries that may be put now.
    fn ask(&mut self, io: &mut Io<'_>) {
        let limit = self.fan.limit.map_or(usize::MAX, |limit| limit as usize);
        while self.queries.len() - self.free.len() < limit
            && let Some(arrived) = self.waiting.pop_front()
        {
            let number = self.free.pop().unwrap_or(self.queries.len() as u32);
            let query = Query {
                arrived,
                missing: self.fan.servers_per_query,
                size: 0,
            };
            match self.queries.get_mut(number as usize) {
                Some(place) => *place = query,
                None => self.queries.push(query),
            }
            let k = self.fan.servers_per_query as usize;
            for server in self.chooser.choose(k, &mut self.choices) {
                let reply = self.fan.size.draw(&mut self.sizes).get();
                let request = Message::Request {
                    query: number,
                    reply,
                };
                let turn = &mut self.turns[server];
                let conn = server * self.fan.connections as usize + *turn as usize;
                *turn = (*turn + 1) % self.fan.connections;
                let (conn, size) = (self.opening.conns[conn], self.fan.request.get());
                self.messages.send(io, conn, size, request);
            }
        }
    }

    fn replied(&mut self, io: &mut Io<'_>, from: u32, query: u32, size: u64) {
        let place = &mut self.queries[query as usize];
        place.missing -= 1;
        place.size += size;
        let query_is = *place;
        let from = Some(self.peers[from as usize]);
        let complete = query_is.missing == 0;
        match self.fan.record {
            Recorded::Reply => {
                io.complete(from, query_is.arrived, ByteCount::new(size));
                io.finish();
            }
            Recorded::Query if complete => {
                let from = from.filter(|_| self.fan.servers_per_query == 1);
                io.complete(from, query_is.arrived, ByteCount::new(query_is.size));
                io.finish();
            }
            Recorded::Query => {}
        }
        if complete {
            self.free.push(query);
            self.ask(io);
        }
    }
}

impl Role for Node {
    fn open(&mut self, io: &mut Io<'_>) {
        io.listen();
    }

    fn start(&mut self, io: &mut Io<'_>) {
        if !self.peers.is_empty() {
            let setup = self.fan.setup;
            self.opening
                .start(io, &mut self.messages, &self.peers, setup);
        }
    }

    fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
        match event {
            RoleEvent::Accepted => self.messages.accept(io, conn, 0),
            RoleEvent::Connected => self.connected(io),
            RoleEvent::Readable if self.messages.opened(conn) => {
                self.messages.read(io, conn, Counts::Delivered);
                while let Some((size, message)) = self.messages.next(conn) {
                    if let (Message::Reply { query }, Some(from)) =
                        (message, self.messages.tag(conn))
                    {
                        self.replied(io, from, query, size);
                    }
                }
            }
            RoleEvent::Readable => {
                self.messages.read(io, conn, Counts::Control);
                while let Some((_, message)) = self.messages.next(conn) {
                    if let Message::Request { query, reply } = message {
                        self.messages
                            .send(io, conn, reply, Message::Reply { query });
                    }
                }
            }
            RoleEvent::Writable => self.messages.writable(io, conn),
            _ => {}
        }
    }

    fn timeout(&mut self, io: &mut Io<'_>) {
        if self.opening.timeout(io.now()) == Begins::Now {
            self.begin(io);
        }
        self.take_arrivals(io);
    }

    #[inline(never)] // As `Role` says.
    fn poll_timeout(&self) -> Option<Instant> {
        let arrival = self.arrivals.as_ref().map(Arrivals::next);
        arrival.or(self.opening.poll_timeout())
    }
}

#[cfg(test)]
mod tests {
    use super::super::arrivals::tests::distance_from_exponential;
    use super::super::rig::{DELAY, HEADERS, RATE, Ran, Rig, through_star};
    use super::*;
    use crate::knob::Section;
    use crate::net::buffer::Capacity;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn fan(knobs: &[(&str, &str)]) -> FanOut {
        let mut fan = FanOut::default();
        for (key, value) in knobs {
            fan.set(key, value).unwrap();
        }
        fan
    }

    const LONG: Duration = Duration::from_secs(1_000);

    /// Intervals between the arrivals of each host's queries, in seconds.
    fn intervals(ran: &Ran) -> Vec<f64> {
        let mut by_host: BTreeMap<HostId, Vec<Instant>> = BTreeMap::new();
        for t in ran.transfers() {
            by_host.entry(t.to).or_default().push(t.began);
        }
        let mut intervals = Vec::new();
        for began in by_host.values_mut() {
            began.sort_unstable();
            let pairs = began.windows(2);
            intervals.extend(pairs.map(|p| p[1].since(p[0]).as_nanos() as f64 / 1e9));
        }
        intervals
    }

    /// 10^4 queries: what is offered is within 2 % of what was asked for, and arrivals are a
    /// Poisson process. Of replies of all sizes each host gets 100 Mb/s.
    #[test]
    fn the_offered_load_is_the_one_asked_for() {
        let knobs = [
            ("load", "100Mb/s"),
            ("size", "1kB|2kB|9kB"),
            ("queries", "1000"),
        ];
        let ran = Rig::star(10).seed(3).with(fan(&knobs)).run(LONG).done();
        assert_eq!(ran.transfers().len(), 10_000);
        let intervals = intervals(&ran);
        let mean = intervals.iter().sum::<f64>() / intervals.len() as f64;
        let load = ran.sum() as f64 * 8.0 / (10.0 * 1_000.0 * mean);
        assert!((load / 1e8 - 1.0).abs() < 0.02, "{load}");
        // 3 x 4 kB x 8 / 100 Mb/s.
        let distance = distance_from_exponential(intervals, 960e-6);
        assert!(distance < 1.63, "{distance}");
    }

    #[test]
    fn a_rate_takes_the_place_of_a_load() {
        let mut fan = fan(&[
            ("load", "10Mb/s"),
            ("rate", "2000"),
            ("queries", "500"),
            ("size", "100"),
        ]);
        assert_eq!(
            (fan.get("load"), fan.get("rate").as_deref()),
            (None, Some("2000"))
        );
        let ran = Rig::star(8).with(fan.clone()).run(LONG).done();
        let distance = distance_from_exponential(intervals(&ran), 500e-6);
        assert!(distance < 1.63, "{distance}");
        fan.set("load", "10Mb/s").unwrap();
        assert_eq!(fan.get("rate"), None);
        // At 1,000 queries a second of three replies each 240 Mb/s are 10 kB.
        fan.set("size", "10kB").unwrap();
        fan.set("load", "240Mb/s").unwrap();
        assert_eq!(fan.interval(), SimTime::from_millis(1));
    }

    /// Three replies of a segment to one host: the second link sends them one after the other.
    #[test]
    fn a_query_on_an_idle_star_takes_what_its_packets_take() {
        let knobs = [
            ("hosts", "h0"),
            ("servers", "h1..h3"),
            ("rate", "100"),
            ("size", "1000"),
            ("queries", "20"),
            ("aligned", "on"),
        ];
        let ran = Rig::star(4).with(fan(&knobs)).run(LONG).done();
        // Requests are as long as the least frame takes: 154 bytes each, on the host's link one
        // after the other; so that replies, which are longer, meet at the switch.
        let request = RATE.time_for(ByteCount::new(64 + HEADERS));
        let reply = RATE.time_for(ByteCount::new(1_000 + HEADERS));
        let query = request * 2 + reply * 4 + DELAY * 4;
        assert_eq!(ran.took(), vec![query; 20]);
        assert!(query < through_star(64) + through_star(1_000) * 3);
        let first = ran.transfers()[0].began;
        assert_eq!(first, Instant::ZERO + SETUP);
    }

    /// Beyond the limit queries wait, and their time counts from their arrival.
    #[test]
    fn no_more_queries_are_under_way_than_the_limit() {
        let with = |limit| {
            let knobs = [
                ("rate", "20000"),
                ("queries", "300"),
                ("size", "10kB"),
                ("limit", limit),
            ];
            Rig::star(6).with(fan(&knobs)).run(LONG).done()
        };
        let (one, all) = (with("1"), with("off"));
        let mut last: BTreeMap<HostId, Instant> = BTreeMap::new();
        for t in one.transfers() {
            // One after the other: complete in the order of arrival.
            let before = last.insert(t.to, t.began);
            assert!(before.is_none_or(|before| before <= t.began));
        }
        let longest = one.took().into_iter().max();
        assert!(longest > Some(Duration::from_millis(20)), "{longest:?}");
        let began = |ran: &Ran| {
            let mut began: Vec<_> = ran.transfers().iter().map(|t| (t.to, t.began)).collect();
            began.sort_unstable();
            began
        };
        assert_eq!(began(&one), began(&all), "an open loop");
    }

    #[test]
    fn skew_favours_the_first_servers() {
        let knobs = [
            ("skew", "1"),
            ("k", "1"),
            ("queries", "400"),
            ("rate", "1000"),
            ("size", "1kB"),
        ];
        let ran = Rig::star(9).with(fan(&knobs)).run(LONG).done();
        let of = |h| {
            ran.transfers()
                .iter()
                .filter(|t| t.from == Some(HostId(h)))
                .count()
        };
        assert!(
            of(0) > 2 * of(3) && of(0) > 4 * of(8),
            "{} {} {}",
            of(0),
            of(3),
            of(8)
        );
    }

    /// On one connection the second reply follows the first, on two of their own they share the way;
    /// a third query waits for the first one's connection.
    #[test]
    fn queries_take_the_connections_to_a_server_in_turn() {
        let took = |connections| {
            let knobs = [
                ("hosts", "h0"),
                ("servers", "h1"),
                ("k", "1"),
                ("rate", "1000000"),
                ("queries", "3"),
                ("size", "1MB"),
                ("aligned", "on"),
                ("connections", connections),
            ];
            let ran = Rig::star(2).with(fan(&knobs)).run(LONG).done();
            ran.took()
        };
        let [one, two, three] = ["1", "2", "3"].map(took);
        let (first, last) = (one[0], one[2]);
        assert!(last > first * 2, "{one:?}");
        assert!(two[0] > first * 3 / 2 && two[1] < two[2], "{two:?}");
        assert!(three[0] > first * 5 / 2, "{three:?}");
    }

    #[test]
    fn replies_can_be_the_transfers() {
        let knobs = [("record", "reply"), ("queries", "50"), ("k", "4")];
        let ran = Rig::leaf_spine(2, 3)
            .ipv6()
            .with(fan(&knobs))
            .run(LONG)
            .done();
        assert_eq!(ran.transfers().len(), 6 * 50 * 4);
        assert!(
            ran.transfers()
                .iter()
                .all(|t| t.from.is_some_and(|from| from != t.to))
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let rig = |seed| {
            let web = fan(&[
                ("size", "web-search"),
                ("load", "400Mb/s"),
                ("queries", "20"),
            ]);
            let late = fan(&[("rate", "500"), ("servers", "h0..h3")]);
            let rig = Rig::leaf_spine(2, 4).seed(seed).with(web);
            rig.at(Duration::from_millis(30), late)
        };
        let bits = |rig: &Rig| rig.run(Duration::from_millis(200)).bits();
        let first = bits(&rig(1));
        assert_eq!(bits(&rig(1)), first);
        assert_ne!(bits(&rig(2)), first);
        let mut on_the_wire = rig(1);
        on_the_wire.wire = true;
        assert_eq!(bits(&on_the_wire), first);
        let began = first
            .0
            .iter()
            .filter(|t| t.traffic == 1)
            .map(|t| t.began)
            .min();
        assert!(began > Some(Instant::ZERO + Duration::from_millis(31)));
    }

    /// The adversary: handshakes and requests to a host are lost, and ports have room for little.
    /// All queries are answered, and those of other hosts did not wait for it to begin.
    #[test]
    fn it_survives_an_outage() {
        let rig = Rig::lossy_star(8, 3, 1..30, Capacity::Packets(10));
        let ran = rig
            .with(fan(&[("queries", "40"), ("rate", "1000")]))
            .run(LONG)
            .done();
        let first = |h| {
            ran.transfers()
                .iter()
                .filter(|t| t.to == HostId(h))
                .map(|t| t.began)
                .min()
        };
        assert!(
            first(3) > Some(Instant::ZERO + Duration::from_millis(900)),
            "{:?}",
            first(3)
        );
        assert_eq!(ran.transfers().len(), 320);
    }

    /// Two connections of a host may have one port, if they lead to different hosts.
    #[test]
    fn a_port_that_leads_to_two_hosts_is_two_connections() {
        let fan = fan(&[("k", "1"), ("queries", "3"), ("rate", "1000")]);
        let ran = Rig::star(7).seed(556).with(fan).run(LONG).done();
        let twice = ran.hosts.iter().any(|host| {
            let opened = host.app.opened().iter();
            let conns = opened.filter_map(|o| host.tcp().connection(o.conn));
            let mut ports: Vec<u16> = conns.map(|c| c.local().port()).collect();
            ports.retain(|port| *port != 5_001);
            ports.sort_unstable();
            ports.windows(2).any(|pair| pair[0] == pair[1])
        });
        assert!(twice, "choose a seed with which it happens");
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (knobs, key) in [
            (&[("k", "4")][..], "k"),
            (&[("servers", "h0..h2")], "k"),
            (&[("servers", "h7")], "servers"),
            (&[("hosts", "nobody")], "hosts"),
        ] {
            assert_eq!(Rig::star(4).with(fan(knobs)).refused().key, key);
        }
        // Any other load can be, also one that no line carries; none cannot.
        let mut fan = fan(&[("load", "100Gb/s")]);
        assert!(fan.set("load", "0").is_err() && fan.set("rate", "0").is_err());
        assert!(fan.set("k", "0").is_err() && fan.set("limit", "0").is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn it_always_ends(
            hosts in 3_usize..9, k in 1_u32..8, queries in 1_u32..20, limit in 0_u32..4,
            size in 1_u64..60_000, rate in 1_u64..100_000, aligned: bool, reply: bool,
            packets in 4_u32..40, seed in 0_u64..1_000,
        ) {
            let k = k.min(hosts as u32 - 1);
            let fan = FanOut {
                servers_per_query: k,
                queries: Some(queries),
                limit: (limit > 0).then_some(limit),
                size: SizeDistribution::fixed(ByteCount::new(size)),
                offered: Offered::Queries(rate),
                aligned,
                record: if reply { Recorded::Reply } else { Recorded::Query },
                ..FanOut::default()
            };
            let rig = Rig::lossy_star(hosts, 0, 3..9, Capacity::Packets(packets)).seed(seed);
            let ran = rig.with(fan).run(LONG).done();
            prop_assert_eq!(ran.sum(), hosts as u64 * u64::from(queries) * u64::from(k) * size);
        }
    }
}
