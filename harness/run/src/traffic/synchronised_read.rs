//! Synchronised read: a client reads blocks that are striped over servers.

use super::error::TrafficError;
use super::kind::Traffic;
use super::messages::{Channels, Counts, Messenger};
use super::placement::Placement;
use super::role::{Io, Role, RoleEvent};
use crate::knob;
use crate::knob::{About, Choice, Kind, Knob, Knobs, Quantity};
use crate::net::packet::HostId;
use crate::sim::rng::{Component, Stream};
use crate::sim::time::SimTime;
use crate::spec::{BlockSize, RequestOrder};
use narrows::endpoint::ConnId;
use narrows::{ByteCount, Duration, Instant};
use narrows_congestion::hint::cold_path;
use narrows_congestion::short::ShortQueue;
use std::collections::VecDeque;

/// A client asks all servers for their shares of a block, waits for the last one, and asks for the
/// next block (Phanishayee et al., FAST 2008, section 2). All connections open before the first
/// block. A transfer is a block, from its first request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SynchronisedRead {
    /// Who reads.
    pub client: String,
    /// Who has the blocks.
    pub servers: String,
    /// How large a block is.
    pub block: BlockSize,
    /// How many blocks; without end if `None`.
    pub blocks: Option<u32>,
    /// How long a request is.
    pub request: ByteCount,
    /// In which order the servers are asked.
    pub order: RequestOrder,
    /// Each server waits a time drawn evenly from none to this before it answers.
    pub jitter: Duration,
    /// At most so many servers are asked at once; all if `None`.
    pub batch: Option<u32>,
    /// A server is asked this much later than the one before it.
    pub stagger: Duration,
    /// Whether a block begins only when the one before is complete. Otherwise each server is
    /// asked for its next share when it has sent the one before.
    pub barrier: bool,
}

impl Default for SynchronisedRead {
    /// 20 blocks of 256 KiB a server from all other hosts to h0.
    fn default() -> Self {
        Self {
            client: "h0".to_owned(),
            servers: "*".to_owned(),
            block: BlockSize::Sru(ByteCount::new(256 << 10)),
            blocks: Some(20),
            request: ByteCount::new(64),
            order: RequestOrder::Shuffled,
            jitter: Duration::from_micros(10),
            batch: None,
            stagger: Duration::ZERO,
            barrier: true,
        }
    }
}

impl Choice for RequestOrder {
    const ALL: &'static [(Self, &'static str)] =
        &[(Self::Shuffled, "shuffled"), (Self::Fixed, "fixed")];
}

const SIZE: Kind = Kind::Size {
    least: 1,
    most: 1 << 40,
};

impl Knobs for SynchronisedRead {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { client: "client", "client", Kind::Hosts, "Who reads: one host." },
        knob! { servers: "servers", "servers", Kind::Hosts,
        "Who has the blocks; * is all hosts but the client." },
        Knob {
            about: About {
                key: "sru",
                title: "server request unit",
                meaning: "What each server sends for a block, so that blocks grow with the servers. Takes the place of block.",
                kind: SIZE,
                source: "Phanishayee et al., FAST 2008, section 2",
            },
            get: |read| match read.block {
                BlockSize::Sru(size) => size.show(),
                BlockSize::Fixed(_) => None,
            },
            set: |read, text| {
                read.block = BlockSize::Sru(SIZE.read(text)?);
                Ok(())
            },
        },
        Knob {
            about: About {
                key: "block",
                title: "block size",
                meaning: "The size of a block, of which each server sends an equal share. Takes the place of sru.",
                kind: SIZE,
                source: "Phanishayee et al., FAST 2008, section 2",
            },
            get: |read| match read.block {
                BlockSize::Fixed(size) => size.show(),
                BlockSize::Sru(_) => None,
            },
            set: |read, text| {
                read.block = BlockSize::Fixed(SIZE.read(text)?);
                Ok(())
            },
        },
        knob! { blocks: "blocks", "blocks", Kind::Or("off", &Kind::Whole { least: 1, most: 1_000_000_000 }),
        "How many blocks are read; off is without end." },
        knob! { request: "request", "request size", Kind::Size { least: 1, most: 1 << 20 },
        "How long a request is." },
        knob! { order: "order", "request order", Kind::Choice(&["shuffled", "fixed"]),
        "In which order the servers are asked: drawn afresh for each block, or by number." },
        knob! { jitter: "jitter", "server jitter", Kind::TIME,
        "Each server waits a time drawn evenly from none to this before it answers." },
        knob! { batch: "batch", "batch", Kind::Or("off", &Kind::Whole { least: 1, most: 1_000_000 }),
        "At most so many servers are asked at once, the next one when one of them is done; off is all. What applications do against incast." },
        knob! { stagger: "stagger", "stagger", Kind::TIME,
        "A server is asked at least this much later than the one before it." },
        knob! { barrier: "barrier", "barrier", Kind::Switch,
        "Whether a block begins only when the one before is complete; otherwise each server is asked for its next share as soon as it has sent one." },
    ];
}

impl Traffic for SynchronisedRead {
    #[inline]
    fn clone_box(&self) -> Box<dyn Traffic> {
        Box::new(self.clone())
    }

    #[inline] // It runs once.
    fn install(&self, on: &mut Placement<'_>) -> Result<(), TrafficError> {
        let client = on.host("client", &self.client)?;
        let servers = on.others("servers", &self.servers, client)?;
        let n = servers.len() as u32;
        let share = |server| self.block.share(server, n).get();
        if share(n - 1) == 0 {
            let why = format!("there is not a byte for each of {n} servers");
            return Err(TrafficError::new("block", why));
        }
        let channels = Channels::<u32>::default();
        for (&host, number) in servers.iter().zip(0..) {
            let random = on.stream(Component::Start, u64::from(number) + 1);
            on.role(
                host,
                Server {
                    messages: channels.messenger(),
                    share: share(number),
                    begins: AnswerTimes::new(self.jitter, random),
                    due: ShortQueue::new(),
                    conn: None,
                },
            );
        }
        let order = AskOrder::new(self.order, on.stream(Component::Scenario, 0));
        on.role(
            client,
            Client {
                read: self.clone(),
                messages: channels.messenger(),
                order,
                conns: Vec::new(),
                connected: 0,
                asked: vec![0; servers.len()],
                servers,
                to_ask: VecDeque::new(),
                asked_at_once: 0,
                next_ask: None,
                open: VecDeque::new(),
                complete: 0,
            },
        );
        match self.blocks {
            Some(blocks) => on.ends_after(blocks as usize),
            None => on.never_ends(),
        }
        Ok(())
    }
}

/// In which order servers are asked for a block, wherever they are.
#[derive(Debug)]
pub struct AskOrder {
    order: RequestOrder,
    random: Stream,
}

impl AskOrder {
    /// By number, or drawn from `random`.
    pub fn new(order: RequestOrder, random: Stream) -> Self {
        Self { order, random }
    }

    /// The order of the next block of `servers` servers.
    pub fn next(&mut self, servers: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..servers).collect();
        if self.order == RequestOrder::Shuffled {
            self.random.shuffle(&mut all);
        }
        all
    }
}

/// When the answers of a server begin, wherever it is: each up to a jitter after its request, and
/// none before the one before it.
#[derive(Debug)]
pub struct AnswerTimes {
    jitter: SimTime,
    random: Stream,
    last: Instant,
}

impl AnswerTimes {
    /// Up to `jitter` late, drawn from `random`.
    pub fn new(jitter: Duration, random: Stream) -> Self {
        Self {
            jitter: SimTime::from_duration(jitter),
            random,
            last: Instant::ZERO,
        }
    }

    /// When the answer to a request that came `now` begins.
    pub fn of_request(&mut self, now: Instant) -> Instant {
        let at = now + self.random.jitter(self.jitter).to_duration();
        self.last = self.last.max(at);
        self.last
    }
}

/// Asks for blocks and waits for them.
#[derive(Debug)]
struct Client {
    read: SynchronisedRead,
    /// A request and its answer are known by the number of the block.
    messages: Messenger<u32>,
    order: AskOrder,
    servers: Vec<HostId>,
    /// By server.
    conns: Vec<ConnId>,
    connected: usize,
    /// By server: of how many blocks it was asked for its share.
    asked: Vec<u32>,
    /// Servers that are to be asked for their next share.
    to_ask: VecDeque<usize>,
    /// Servers that have been asked and have not answered.
    asked_at_once: usize,
    /// When the next server may be asked, if a stagger says so.
    next_ask: Option<Instant>,
    /// Blocks that are not complete, in order.
    open: VecDeque<Block>,
    /// Blocks that are.
    complete: u32,
}

#[derive(Debug)]
struct Block {
    began: Instant,
    missing: usize,
}

impl Client {
    /// The next block begins.
    fn begin(&mut self, io: &mut Io<'_>) {
        let servers = self.order.next(self.servers.len());
        self.to_ask.extend(servers);
        self.ask(io);
    }

    /// Asks those who may be asked now.
    fn ask(&mut self, io: &mut Io<'_>) {
        let batch = self.read.batch.map_or(usize::MAX, |batch| batch as usize);
        while self.asked_at_once < batch
            && self.next_ask.is_none_or(|at| at <= io.now())
            && let Some(server) = self.to_ask.pop_front()
        {
            let block = self.asked[server];
            self.asked[server] += 1;
            if (block - self.complete) as usize == self.open.len() {
                self.open.push_back(Block {
                    began: io.now(),
                    missing: self.servers.len(),
                });
            }
            self.asked_at_once += 1;
            let request = self.read.request.get();
            self.messages.send(io, self.conns[server], request, block);
            if !self.read.stagger.is_zero() {
                self.next_ask = Some(io.now() + self.read.stagger);
            }
        }
    }

    fn took(&mut self, io: &mut Io<'_>, server: usize, block: u32) {
        self.asked_at_once -= 1;
        if let Some(open) = self.open.get_mut((block - self.complete) as usize) {
            open.missing -= 1;
        }
        let over = |n: u32| self.read.blocks.is_some_and(|blocks| n >= blocks);
        if !self.read.barrier && !over(self.asked[server]) {
            self.to_ask.push_back(server);
        }
        if let Some(&Block { began, missing: 0 }) = self.open.front() {
            let size = self.read.block.total(self.servers.len() as u32);
            let from = match self.servers[..] {
                [server] => Some(server),
                _ => None,
            };
            self.open.pop_front();
            self.complete += 1;
            io.complete(from, began, size);
            io.finish();
            if self.read.barrier && !over(block + 1) {
                return self.begin(io);
            }
        }
        self.ask(io);
    }
}

impl Role for Client {
    fn start(&mut self, io: &mut Io<'_>) {
        for (&server, number) in self.servers.iter().zip(0..) {
            let Some(conn) = self.messages.connect(io, server, number) else {
                return;
            };
            self.conns.push(conn);
        }
    }

    fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
        match event {
            RoleEvent::Connected => {
                cold_path();
                self.connected += 1;
                if self.connected == self.servers.len() {
                    self.begin(io);
                }
            }
            RoleEvent::Readable => {
                if !self.messages.read(io, conn, Counts::Delivered) {
                    return;
                }
                while let Some((_, block)) = self.messages.next(conn) {
                    if let Some(server) = self.messages.tag(conn) {
                        self.took(io, server as usize, block);
                    }
                }
            }
            RoleEvent::Writable => self.messages.writable(io, conn),
            _ => {}
        }
    }

    fn timeout(&mut self, io: &mut Io<'_>) {
        self.ask(io);
    }

    #[inline(never)] // As `Role` says.
    fn poll_timeout(&self) -> Option<Instant> {
        let batch = self.read.batch.map_or(usize::MAX, |batch| batch as usize);
        let waits = !self.to_ask.is_empty() && self.asked_at_once < batch;
        self.next_ask.filter(|_| waits)
    }
}

/// Answers requests with its share of a block.
#[derive(Debug)]
struct Server {
    messages: Messenger<u32>,
    share: u64,
    begins: AnswerTimes,
    /// When which answers begin.
    due: ShortQueue<(Instant, u32)>,
    conn: Option<ConnId>,
}

impl Server {
    fn answer(&mut self, io: &mut Io<'_>) {
        while let Some(&(at, block)) = self.due.front()
            && at <= io.now()
            && let Some(conn) = self.conn
        {
            self.due.pop();
            self.messages.send(io, conn, self.share, block);
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
                self.messages.accept(io, conn, 0);
                self.conn = Some(conn);
            }
            RoleEvent::Readable => {
                if !self.messages.read(io, conn, Counts::Control) {
                    return self.answer(io);
                }
                while let Some((_, block)) = self.messages.next(conn) {
                    let begins = self.begins.of_request(io.now());
                    self.due.push((begins, block));
                }
                self.answer(io);
            }
            RoleEvent::Writable => self.messages.writable(io, conn),
            _ => {}
        }
    }

    fn timeout(&mut self, io: &mut Io<'_>) {
        self.answer(io);
    }

    #[inline(never)] // As `Role` says.
    fn poll_timeout(&self) -> Option<Instant> {
        self.due.front().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{HEADERS, RATE, Rig, through_star};
    use super::*;
    use crate::knob::Section;
    use crate::net::buffer::Capacity;
    use proptest::prelude::*;

    fn read(knobs: &[(&str, &str)]) -> SynchronisedRead {
        let mut read = SynchronisedRead::default();
        for (key, value) in knobs {
            read.set(key, value).unwrap();
        }
        read
    }

    /// A server with a segment a block: request, answer, next request.
    #[test]
    fn a_block_on_an_idle_star_takes_what_its_packets_take() {
        let knobs = [
            ("servers", "h1"),
            ("sru", "1000"),
            ("request", "64"),
            ("jitter", "0"),
        ];
        let ran = Rig::star(3)
            .with(read(&knobs))
            .run(Duration::from_secs(1))
            .done();
        let block = through_star(64) + through_star(1_000);
        assert_eq!(ran.took(), vec![block; 20]);
        assert_eq!(ran.transfers()[0].from, Some(HostId(1)));
    }

    /// With a batch of one servers answer one after the other; with a stagger requests are that
    /// far apart.
    #[test]
    fn batches_and_staggers_spread_the_requests() {
        let with = |more: &[(&str, &str)]| {
            let mut knobs = vec![("sru", "1000"), ("jitter", "0"), ("order", "fixed")];
            knobs.extend_from_slice(more);
            let ran = Rig::star(9)
                .with(read(&knobs))
                .run(Duration::from_secs(1))
                .done();
            ran.took()
        };
        let one = through_star(64) + through_star(1_000);
        // A request leaves behind the ACK of the answer before it, or of the handshake.
        let ack = RATE.time_for(ByteCount::new(HEADERS));
        assert_eq!(with(&[("batch", "1")]), vec![(ack + one) * 8; 20]);
        assert_eq!(
            with(&[("stagger", "1ms")]),
            vec![Duration::from_millis(7) + one; 20]
        );
        let both = [("stagger", "1ms"), ("batch", "1")];
        assert_eq!(with(&both), vec![Duration::from_millis(7) + one; 20]);
        assert!(with(&[("batch", "4")]) < with(&[("batch", "1")]));
    }

    /// Without a barrier a slow server does not hold up the others, and blocks are complete in
    /// order all the same.
    #[test]
    fn without_a_barrier_servers_run_ahead() {
        let knobs = [("sru", "20kB"), ("blocks", "40"), ("jitter", "1ms")];
        let rig = |barrier| {
            let mut read = read(&knobs);
            read.set("barrier", barrier).unwrap();
            Rig::star(9).with(read).run(Duration::from_secs(10)).done()
        };
        let (with, without) = (rig("on"), rig("off"));
        assert_eq!(with.transfers().len(), 40);
        assert_eq!(without.transfers().len(), 40);
        assert!(without.now < with.now);
        assert!(without.transfers().is_sorted_by_key(|t| t.began));
    }

    #[test]
    fn it_goes_on_without_end_beside_other_traffic() {
        let first = read(&[("blocks", "off"), ("servers", "h1..h4")]);
        let second = read(&[("client", "h7"), ("blocks", "3"), ("servers", "h1..h4")]);
        let rig = Rig::leaf_spine(2, 4)
            .ipv6()
            .with(first)
            .at(Duration::from_millis(20), second);
        let ran = rig.run(Duration::from_millis(100));
        assert!(ran.log.is_endless() && ran.log.goes_on());
        let of = |n| {
            ran.transfers()
                .into_iter()
                .filter(|t| t.traffic == n)
                .collect::<Vec<_>>()
        };
        assert!(of(0).len() > 5 && of(1).len() == 3);
        assert!(of(1)[0].began > Instant::ZERO + Duration::from_millis(20));
        assert_eq!(rig.run(Duration::from_millis(100)).bits(), ran.bits());
    }

    /// The adversary: the link to the client loses everything for a while.
    #[test]
    fn it_survives_an_outage() {
        let rig = Rig::lossy_star(5, 0, 100..125, Capacity::Packets(64));
        let ran = rig
            .with(read(&[("sru", "50kB")]))
            .run(Duration::from_secs(60))
            .done();
        assert_eq!(ran.transfers().len(), 20);
        assert!(ran.segments().1 > 0);
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (knobs, key) in [
            (&[("servers", "h0..h3")][..], "servers"),
            (&[("client", "h0..h1")], "client"),
            (&[("client", "h9")], "client"),
            (&[("block", "2")], "block"),
        ] {
            assert_eq!(Rig::star(4).with(read(knobs)).refused().key, key);
        }
        assert_eq!(Rig::star(1).with(read(&[])).refused().key, "servers");
        let both = read(&[("sru", "1kB"), ("block", "2kB")]);
        assert_eq!(
            (both.get("sru"), both.get("block").as_deref()),
            (None, Some("2kB"))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Whatever its knobs: it ends, every byte of it.
        #[test]
        fn it_always_ends(
            hosts in 2_usize..9, sru in 1_u64..60_000, blocks in 1_u32..6, batch in 0_u32..5,
            stagger in 0_u64..200, barrier: bool, seed in 0_u64..1_000, packets in 4_u32..40,
        ) {
            let read = SynchronisedRead {
                block: BlockSize::Sru(ByteCount::new(sru)),
                blocks: Some(blocks),
                batch: (batch > 0).then_some(batch),
                stagger: Duration::from_micros(stagger),
                barrier,
                ..SynchronisedRead::default()
            };
            let rig = Rig::lossy_star(hosts, 0, 5..9, Capacity::Packets(packets)).seed(seed);
            let ran = rig.with(read).run(Duration::from_secs(600)).done();
            prop_assert_eq!(ran.transfers().len(), blocks as usize);
            let all = sru * (hosts as u64 - 1) * u64::from(blocks);
            prop_assert_eq!(ran.sum(), all);
        }
    }
}
