//! Ring: collective operations of hosts that send to the next one each.

use super::error::TrafficError;
use super::kind::Traffic;
use super::messages::{Channels, Counts, Messenger};
use super::opening::{Begins, Opening, SETUP, SETUP_KIND};
use super::placement::Placement;
use super::role::{Io, Role, RoleEvent};
use crate::knob;
use crate::knob::{Choice, Kind, Knob, Knobs};
use crate::net::packet::HostId;
use narrows::endpoint::ConnId;
use narrows::{ByteCount, Duration, Instant};

/// Collective operations over a ring, in the order of the hosts: each has `size` bytes in as many
/// chunks as there are hosts, and passes chunks on to the next host, step by step. A step begins
/// when the chunk of the one before has come, which it passes on (what the sum of it takes is not
/// modelled). A transfer is a chunk, from the begin of its step.
///
/// An all-reduce of n hosts has 2(n - 1) steps: in the first half each chunk gathers its sum, in
/// the second half the sums go round. With it each host sends 2(n - 1)/n of the size, whatever the
/// number of hosts (Patarasuk and Yuan, 2009).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Who is in the ring.
    pub hosts: String,
    /// What they do.
    pub operation: Operation,
    /// How much each host has.
    pub size: ByteCount,
    /// Whether a step begins only when all hosts have the chunks of the one before.
    pub barrier: bool,
    /// How often it is done, one after the other; without end if `None`.
    pub rounds: Option<u32>,
    /// Time for the handshakes.
    pub setup: Duration,
    /// What is a transfer.
    pub record: RingRecord,
}

/// A collective operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    /// Each host has the sum of all: a reduce-scatter, then an all-gather.
    #[default]
    AllReduce,
    /// Each host has its chunk of the sum of all.
    ReduceScatter,
    /// Each host has the chunks of all.
    AllGather,
}

impl Choice for Operation {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::AllReduce, "all-reduce"),
        (Self::ReduceScatter, "reduce-scatter"),
        (Self::AllGather, "all-gather"),
    ];
}

/// What is a transfer of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RingRecord {
    /// A chunk.
    #[default]
    Chunk,
    /// All chunks that come to a host in a round, from its first step.
    Round,
}

impl Choice for RingRecord {
    const ALL: &'static [(Self, &'static str)] = &[(Self::Chunk, "chunk"), (Self::Round, "round")];
}

impl Default for Ring {
    /// An all-reduce of 8 MiB over all hosts, ten times.
    fn default() -> Self {
        Self {
            hosts: "*".to_owned(),
            operation: Operation::AllReduce,
            size: ByteCount::new(8 << 20),
            barrier: false,
            rounds: Some(10),
            setup: SETUP,
            record: RingRecord::Chunk,
        }
    }
}

impl Knobs for Ring {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { hosts: "hosts", "hosts", Kind::Hosts, "Who is in the ring, by number." },
        knob! { operation: "operation", "operation", Kind::Choice(&["all-reduce", "reduce-scatter", "all-gather"]),
        "What the hosts do: sum what each has, so that all have the sum, or each a part of it; or gather the parts that each has.",
        "Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009" },
        knob! { size: "size", "size", Kind::Size { least: 2, most: 1 << 40 },
        "How much each host has, or for all-gather what all have together; a chunk is an equal part for each host." },
        knob! { barrier: "barrier", "step barrier", Kind::Switch,
        "Whether a step begins only when all hosts have the chunks of the one before: they tell the first host, which tells all, with a byte each." },
        knob! { rounds: "rounds", "rounds", Kind::Or("off", &Kind::Whole { least: 1, most: 1_000_000_000 }),
        "How often it is done, one after the other; off is without end." },
        knob! { setup: "setup", "setup time", SETUP_KIND,
        "Time for the handshakes, after which the first step begins; on a host whose handshakes take longer, after them." },
        knob! { record: "record", "what is a transfer", Kind::Choice(&["chunk", "round"]),
        "Whether a transfer is a chunk, or all that a host gets in a round." },
    ];
}

/// What a host of the ring sends in a round.
#[derive(Clone, Copy, Debug)]
struct Chunks {
    hosts: u64,
    size: u64,
    operation: Operation,
}

impl Chunks {
    /// Steps of a round.
    fn steps(self) -> u64 {
        match self.operation {
            Operation::AllReduce => 2 * (self.hosts - 1),
            Operation::ReduceScatter | Operation::AllGather => self.hosts - 1,
        }
    }

    /// The length of the chunk that host `rank` sends in `step`.
    fn length(self, rank: u64, step: u64) -> u64 {
        let n = self.hosts;
        let chunk = match self.operation {
            // The sum of the chunk after its own is complete at a host.
            Operation::AllReduce if step >= n - 1 => rank + 1 + n - (step - (n - 1)),
            _ => rank + n - step % n,
        } % n;
        self.size / n + u64::from(chunk < self.size % n)
    }
}

impl Ring {
    fn chunks(&self, hosts: usize) -> Chunks {
        Chunks {
            hosts: hosts as u64,
            size: self.size.get(),
            operation: self.operation,
        }
    }
}

impl Traffic for Ring {
    #[inline]
    fn clone_box(&self) -> Box<dyn Traffic> {
        Box::new(self.clone())
    }

    #[inline] // It runs once.
    fn install(&self, on: &mut Placement<'_>) -> Result<(), TrafficError> {
        let hosts = on.hosts("hosts", &self.hosts)?;
        let n = hosts.len();
        if n < 2 {
            return Err(TrafficError::new("hosts", "a ring has two hosts at least"));
        }
        if self.size.get() < n as u64 {
            let why = format!("there is not a byte for each of {n} chunks");
            return Err(TrafficError::new("size", why));
        }
        let channels = Channels::<Message>::default();
        for (rank, &host) in hosts.iter().enumerate() {
            let mut peers = vec![hosts[(rank + 1) % n]];
            if self.barrier && rank > 0 {
                peers.push(hosts[0]);
            }
            let node = Node {
                chunks: self.chunks(n),
                rank: rank as u64,
                ring: self.clone(),
                messages: channels.messenger(),
                opening: Opening::new(),
                peers,
                sent: 0,
                received: 0,
                released: 0,
                ready: 0,
                controls: Vec::new(),
                round: None,
                round_size: 0,
                begun: false,
            };
            on.role(host, node);
        }
        match (self.rounds, self.record) {
            (Some(rounds), RingRecord::Round) => on.ends_after((rounds as usize).saturating_mul(n)),
            (Some(rounds), RingRecord::Chunk) => {
                let each = n.saturating_mul(self.chunks(n).steps() as usize);
                on.ends_after(each.saturating_mul(rounds as usize));
            }
            (None, _) => on.never_ends(),
        }
        Ok(())
    }
}

/// What travels.
#[derive(Clone, Copy, Debug)]
enum Message {
    /// A chunk, by when its step began.
    Chunk(Instant),
    /// To the first host: the chunk of a step has come.
    Ready,
    /// From the first host: all have theirs.
    Go,
}

/// Tags of the connections that a host opens.
const NEXT: u32 = 0;
const FIRST_HOST: u32 = 1;

#[derive(Debug)]
struct Node {
    ring: Ring,
    chunks: Chunks,
    rank: u64,
    messages: Messenger<Message>,
    opening: Opening,
    /// The next host, and the first one if there is a barrier and this is another.
    peers: Vec<HostId>,
    begun: bool,
    /// Chunks sent, of all rounds.
    sent: u64,
    /// Chunks received.
    received: u64,
    /// Barriers passed.
    released: u64,
    /// At the first host: how many have told that they are ready for the next barrier.
    ready: u64,
    /// At the first host: connections over which others wait for it.
    controls: Vec<ConnId>,
    /// When the round began here that has not come to its end.
    round: Option<Instant>,
    /// What has come in it.
    round_size: u64,
}

impl Node {
    /// Sends what may be sent: the chunk of a step follows that which came in the step before, or
    /// the barrier after it.
    fn send_due(&mut self, io: &mut Io<'_>) {
        let steps = self.chunks.steps();
        let rounds = self.ring.rounds.map_or(u64::MAX, u64::from);
        while self.begun && self.sent < steps.saturating_mul(rounds) {
            let passed = if self.ring.barrier {
                self.released
            } else {
                self.received
            };
            if self.sent > passed {
                return;
            }
            let step = self.sent % steps;
            if step == 0 && self.received / steps == self.sent / steps {
                self.round.get_or_insert(io.now());
            }
            self.sent += 1;
            let size = self.chunks.length(self.rank, step);
            let conn = self.opening.conns[NEXT as usize];
            self.messages.send(io, conn, size, Message::Chunk(io.now()));
        }
    }

    fn received(&mut self, io: &mut Io<'_>, conn: ConnId, size: u64, began: Instant) {
        self.received += 1;
        self.round_size += size;
        let round = *self.round.get_or_insert(io.now());
        let ends = self.received.is_multiple_of(self.chunks.steps());
        match self.ring.record {
            RingRecord::Chunk => {
                io.complete(io.peer(conn), began, ByteCount::new(size));
                io.finish();
            }
            RingRecord::Round if ends => {
                io.complete(io.peer(conn), round, ByteCount::new(self.round_size));
                io.finish();
            }
            RingRecord::Round => {}
        }
        if ends {
            self.round = None;
            self.round_size = 0;
        }
        if self.ring.barrier {
            match self.rank {
                0 => self.one_is_ready(io),
                _ => {
                    let first = self.opening.conns[FIRST_HOST as usize];
                    self.messages.send(io, first, 1, Message::Ready);
                }
            }
        }
        self.send_due(io);
    }

    /// At the first host: one more, of all, has the chunk of its step.
    fn one_is_ready(&mut self, io: &mut Io<'_>) {
        self.ready += 1;
        if self.ready < self.chunks.hosts {
            return;
        }
        self.ready = 0;
        self.released += 1;
        for &conn in &self.controls {
            self.messages.send(io, conn, 1, Message::Go);
        }
        self.send_due(io);
    }

    fn begin(&mut self, io: &mut Io<'_>) {
        self.begun = true;
        self.send_due(io);
    }
}

impl Role for Node {
    fn open(&mut self, io: &mut Io<'_>) {
        io.listen();
    }

    fn start(&mut self, io: &mut Io<'_>) {
        let setup = self.ring.setup;
        self.opening
            .start(io, &mut self.messages, &self.peers, setup);
    }

    fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
        match event {
            RoleEvent::Accepted => {
                let tag = self.messages.accept_as_opened(io, conn);
                let waits = tag == Some(FIRST_HOST);
                self.controls.extend(waits.then_some(conn));
            }
            RoleEvent::Connected => {
                let begins = self.opening.connected();
                if begins == Begins::Now {
                    self.begin(io);
                }
            }
            RoleEvent::Readable => {
                let counts = match self.messages.tag(conn) {
                    Some(NEXT) => Counts::Delivered,
                    _ => Counts::Control,
                };
                self.messages.read(io, conn, counts);
                while let Some((size, message)) = self.messages.next(conn) {
                    match message {
                        Message::Chunk(began) => self.received(io, conn, size, began),
                        Message::Ready => self.one_is_ready(io),
                        Message::Go => {
                            self.released += 1;
                            self.send_due(io);
                        }
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
    }

    #[inline(never)] // As `Role` says.
    fn poll_timeout(&self) -> Option<Instant> {
        self.opening.poll_timeout()
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{HEADERS, RATE, Ran, Rig, through_star};
    use super::*;
    use crate::knob::Section;
    use crate::net::buffer::Capacity;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn ring(knobs: &[(&str, &str)]) -> Ring {
        let mut ring = Ring::default();
        for (key, value) in knobs {
            ring.set(key, value).unwrap();
        }
        ring
    }

    const LONG: Duration = Duration::from_secs(1_000);

    /// Patarasuk and Yuan 2009: 2(n - 1)/n of the size from each host, n - 1 of n parts of it for
    /// either half alone.
    #[test]
    fn each_host_sends_what_the_paper_says() {
        for (operation, halves) in [("all-reduce", 2), ("reduce-scatter", 1), ("all-gather", 1)] {
            for barrier in ["off", "on"] {
                let knobs = [
                    ("operation", operation),
                    ("size", "240kB"),
                    ("barrier", barrier),
                    ("rounds", "3"),
                ];
                let rig = Rig::leaf_spine(2, 3).ipv6().with(ring(&knobs));
                let ran = rig.run(LONG).done();
                let mut to: BTreeMap<HostId, u64> = BTreeMap::new();
                for t in ran.transfers() {
                    assert_eq!(t.from, Some(HostId((t.to.0 + 5) % 6)));
                    *to.entry(t.to).or_default() += t.size.get();
                }
                assert_eq!(to.len(), 6);
                assert!(
                    to.values().all(|n| *n == 3 * halves * 5 * 240_000 / 6),
                    "{to:?}"
                );
                assert_eq!(rig.run(LONG).bits(), ran.bits());
            }
        }
    }

    /// What makes it an all-reduce: each host holds the sum of all of each chunk in the end, also
    /// where chunks are not equally long.
    #[test]
    fn the_chunks_that_are_passed_on_make_the_sum() {
        for n in 2..9_u64 {
            let chunks = Chunks {
                hosts: n,
                size: 1_000 + n / 2,
                operation: Operation::AllReduce,
            };
            // By host and chunk: whose parts it has, and by length which chunk that is.
            let length = |chunk: u64| chunks.size / n + u64::from(chunk < chunks.size % n);
            let mut has: Vec<Vec<BTreeSet<u64>>> = (0..n)
                .map(|host| (0..n).map(|_| BTreeSet::from([host])).collect())
                .collect();
            for step in 0..chunks.steps() {
                let before = has.clone();
                for host in 0..n {
                    let t = step.saturating_sub(n - 1);
                    let chunk = if step < n - 1 {
                        host + n - step
                    } else {
                        host + 1 + n - t
                    } % n;
                    assert_eq!(chunks.length(host, step), length(chunk));
                    let parts = before[host as usize][chunk as usize].clone();
                    has[((host + 1) % n) as usize][chunk as usize].extend(parts);
                }
            }
            assert!(has.iter().flatten().all(|parts| parts.len() == n as usize));
        }
    }

    /// Each step is a chunk through the star; hosts do not get in each other's way.
    #[test]
    fn a_step_on_an_idle_star_takes_what_its_packets_take() {
        let knobs = [("size", "4000"), ("rounds", "2")];
        let ran = Rig::star(4).with(ring(&knobs)).run(LONG).done();
        // From the second step on the ACK of the chunk before leaves first.
        let (first, ack) = (through_star(1_000), RATE.time_for(ByteCount::new(HEADERS)));
        let took = ran.took();
        assert_eq!(took[..4], [first; 4]);
        assert_eq!(took[4..], [first + ack; 44]);
        let all = first * 12 + ack * 11;
        assert_eq!(ran.now, Instant::ZERO + SETUP + all);
        let mut round = ring(&knobs);
        round.set("record", "round").unwrap();
        let ran = Rig::star(4).with(round).run(LONG).done();
        let round = first * 6 + ack * 5;
        assert_eq!(ran.took()[..4], [round; 4]);
        assert_eq!(ran.took()[4..], [round + ack; 4]);
        assert_eq!(ran.sum(), 2 * 4 * 6_000);
    }

    /// At the barrier the bytes of three hosts meet at the port of the first one, and its bytes
    /// leave one after the other.
    #[test]
    fn a_barrier_holds_all_until_the_last_is_ready() {
        let free = [("size", "800kB"), ("rounds", "2")];
        let mut barrier = ring(&free);
        barrier.set("barrier", "on").unwrap();
        let slow = |ring: Ring| {
            // Something else on the way to h2 makes one of the steps slow.
            let bulk = super::super::Bulk {
                from: "h3".to_owned(),
                to: "h2".to_owned(),
                size: Some(ByteCount::new(3_000_000)),
                ..super::super::Bulk::default()
            };
            Rig::star(4).with(ring).with(bulk).run(LONG).done()
        };
        let (with, without) = (slow(barrier), slow(ring(&free)));
        let steps = |ran: &Ran| {
            let mut by_host: BTreeMap<HostId, Vec<(Instant, Instant)>> = BTreeMap::new();
            for t in ran.transfers().iter().filter(|t| t.traffic == 0) {
                by_host
                    .entry(t.to)
                    .or_default()
                    .push((t.began, t.began + t.took));
            }
            by_host
        };
        let with = steps(&with);
        let all = |n: usize| with.values().map(move |steps| steps[n]);
        for step in 1..12 {
            let last = all(step - 1).map(|(_, end)| end).max();
            let first = all(step).map(|(began, _)| began).min();
            assert!(first > last, "step {step}");
        }
        let without = steps(&without);
        let ahead = (1..12).any(|step| {
            let last = without.values().map(|steps| steps[step - 1].1).max();
            without.values().map(|steps| steps[step].0).min() < last
        });
        assert!(ahead, "nobody ran ahead");
    }

    #[test]
    fn it_goes_on_without_end_and_begins_late() {
        let ring = ring(&[("rounds", "off"), ("size", "100kB"), ("hosts", "h1..h4")]);
        let start = Duration::from_millis(20);
        let ran = Rig::leaf_spine(2, 4).at(start, ring).run(start * 5);
        assert!(ran.log.goes_on());
        assert_eq!(ran.transfers()[0].began, Instant::ZERO + start + SETUP);
        assert!(ran.transfers().len() > 100);
    }

    /// The adversary: a host that hears nothing for a while holds up all the others.
    #[test]
    fn it_survives_an_outage() {
        for barrier in ["off", "on"] {
            let rig = Rig::lossy_star(5, 2, 10..25, Capacity::Packets(8));
            let knobs = [("size", "100kB"), ("rounds", "3"), ("barrier", barrier)];
            let ran = rig.with(ring(&knobs)).run(LONG).done();
            assert_eq!(ran.transfers().len(), 3 * 5 * 8);
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(Rig::star(1).with(ring(&[])).refused().key, "hosts");
        assert_eq!(
            Rig::star(3).with(ring(&[("hosts", "h1")])).refused().key,
            "hosts"
        );
        assert_eq!(
            Rig::star(4).with(ring(&[("size", "3")])).refused().key,
            "size"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn it_always_ends(
            hosts in 2_usize..8, size in 8_u64..100_000, rounds in 1_u32..4, barrier: bool,
            operation in 0_usize..3, round: bool, packets in 4_u32..40, seed in 0_u64..1_000,
            setup in 0_u64..300,
        ) {
            let ring = Ring {
                operation: Operation::ALL[operation].0,
                size: ByteCount::new(size),
                rounds: Some(rounds),
                barrier,
                record: if round { RingRecord::Round } else { RingRecord::Chunk },
                setup: Duration::from_micros(setup),
                ..Ring::default()
            };
            let rig = Rig::lossy_star(hosts, 0, 2..9, Capacity::Packets(packets)).seed(seed);
            let ran = rig.with(ring).run(LONG).done();
            let halves = if operation == 0 { 2 } else { 1 };
            let all = u64::from(rounds) * halves * (hosts as u64 - 1) * size;
            prop_assert_eq!(ran.sum(), all);
        }
    }
}
