//! All-to-all: each host sends to each other, as in a shuffle.

use super::error::TrafficError;
use super::kind::Traffic;
use super::messages::{Channels, Counts, Draws, Messenger};
use super::opening::{Begins, Opening, SETUP, SETUP_KIND};
use super::placement::Placement;
use super::role::{Io, Role, RoleEvent};
use super::size::SizeDistribution;
use crate::knob;
use crate::knob::{Kind, Knob, Knobs};
use crate::net::packet::HostId;
use crate::sim::rng::Stream;
use narrows::endpoint::ConnId;
use narrows::{ByteCount, Duration, Instant};

/// Each host sends to each other, in an order of its own, to some of them at once: the shuffle
/// between the steps of a parallel job. A transfer is what one host has for another, from when its
/// turn came.
///
/// Each host opens a connection to each other when the traffic starts. Where not all are served at
/// once, a host that has all of a transfer tells its sender so, with a byte, and the next one's
/// turn comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllToAll {
    /// Who sends to each other.
    pub hosts: String,
    /// How much each has for each other.
    pub size: SizeDistribution,
    /// To how many others a host sends at once; all if `None`.
    pub parallel: Option<u32>,
    /// Time for the handshakes.
    pub setup: Duration,
}

impl Default for AllToAll {
    /// 1 MB from each host to each other, all at once.
    fn default() -> Self {
        Self {
            hosts: "*".to_owned(),
            size: SizeDistribution::fixed(ByteCount::new(1_000_000)),
            parallel: None,
            setup: SETUP,
        }
    }
}

impl Knobs for AllToAll {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { hosts: "hosts", "hosts", Kind::Hosts, "Who sends to each other." },
        knob! { size: "size", "transfer size", SizeDistribution::KIND, "How much each has for each other." },
        knob! { parallel: "parallel", "parallel transfers", Kind::Or("off", &Kind::Whole { least: 1, most: 100_000 }),
        "To how many others a host sends at once; off is all." },
        knob! { setup: "setup", "setup time", SETUP_KIND,
        "Time for the handshakes, after which hosts send; those whose handshakes take longer, after them." },
    ];
}

impl Traffic for AllToAll {
    #[inline]
    fn clone_box(&self) -> Box<dyn Traffic> {
        Box::new(self.clone())
    }

    #[inline] // It runs once.
    fn install(&self, on: &mut Placement<'_>) -> Result<(), TrafficError> {
        let hosts = on.hosts("hosts", &self.hosts)?;
        if hosts.len() < 2 {
            return Err(TrafficError::new("hosts", "it takes two hosts at least"));
        }
        let channels = Channels::<Message>::default();
        for &host in &hosts {
            let peers: Vec<HostId> = hosts.iter().copied().filter(|p| *p != host).collect();
            let mut turns: Vec<u32> = (0..peers.len() as u32).collect();
            Draws::Peers.stream(on, host).shuffle(&mut turns);
            let parallel = self.parallel.map_or(peers.len(), |n| n as usize);
            let node = Node {
                size: self.size.clone(),
                setup: self.setup,
                parallel,
                all_at_once: parallel >= peers.len(),
                sizes: Draws::Sizes.stream(on, host),
                messages: channels.messenger(),
                opening: Opening::new(),
                peers,
                turns,
            };
            on.role(host, node);
        }
        on.ends_after(hosts.len() * (hosts.len() - 1));
        Ok(())
    }
}

/// What travels.
#[derive(Clone, Copy, Debug)]
enum Message {
    /// A transfer, by when it began.
    Transfer(Instant),
    /// It is complete.
    Received,
}

#[derive(Debug)]
struct Node {
    size: SizeDistribution,
    setup: Duration,
    parallel: usize,
    all_at_once: bool,
    sizes: Stream,
    messages: Messenger<Message>,
    opening: Opening,
    peers: Vec<HostId>,
    /// Those whose turn has not come, the next one last.
    turns: Vec<u32>,
}

impl Node {
    fn send_next(&mut self, io: &mut Io<'_>) {
        if let Some(peer) = self.turns.pop() {
            let size = self.size.draw(&mut self.sizes).get();
            let transfer = Message::Transfer(io.now());
            let conn = self.opening.conns[peer as usize];
            self.messages.send(io, conn, size, transfer);
        }
    }

    fn connected(&mut self, io: &mut Io<'_>) {
        if self.opening.connected() == Begins::Now {
            self.begin(io);
        }
    }

    fn begin(&mut self, io: &mut Io<'_>) {
        for _ in 0..self.parallel.min(self.turns.len()) {
            self.send_next(io);
        }
    }
}

impl Role for Node {
    fn open(&mut self, io: &mut Io<'_>) {
        io.listen();
    }

    fn start(&mut self, io: &mut Io<'_>) {
        self.opening
            .start(io, &mut self.messages, &self.peers, self.setup);
    }

    fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
        match event {
            RoleEvent::Accepted => self.messages.accept(io, conn, 0),
            RoleEvent::Connected => self.connected(io),
            RoleEvent::Readable => {
                let counts = if self.messages.opened(conn) {
                    Counts::Control
                } else {
                    Counts::Delivered
                };
                self.messages.read(io, conn, counts);
                while let Some((size, message)) = self.messages.next(conn) {
                    match message {
                        Message::Received => self.send_next(io),
                        Message::Transfer(began) => {
                            io.complete(io.peer(conn), began, ByteCount::new(size));
                            io.finish();
                            if !self.all_at_once {
                                self.messages.send(io, conn, 1, Message::Received);
                            }
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
    use super::super::rig::{HEADERS, MSS, RATE, Rig, through_star};
    use super::*;
    use crate::knob::Section;
    use crate::net::buffer::Capacity;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn shuffle(knobs: &[(&str, &str)]) -> AllToAll {
        let mut shuffle = AllToAll::default();
        for (key, value) in knobs {
            shuffle.set(key, value).unwrap();
        }
        shuffle
    }

    const LONG: Duration = Duration::from_secs(1_000);

    #[test]
    fn each_host_sends_to_each_other_once() {
        for parallel in ["off", "1", "3"] {
            let knobs = [("size", "50kB"), ("parallel", parallel)];
            let rig = Rig::leaf_spine(3, 3).ipv6().with(shuffle(&knobs));
            let ran = rig.run(LONG).done();
            let mut pairs: BTreeMap<_, u32> = BTreeMap::new();
            for t in ran.transfers() {
                *pairs.entry((t.from.unwrap(), t.to)).or_default() += 1;
            }
            assert_eq!(pairs.len(), 9 * 8);
            assert!(pairs.iter().all(|((from, to), n)| from != to && *n == 1));
            assert_eq!(ran.sum(), 9 * 8 * 50_000);
            assert_eq!(rig.run(LONG).bits(), ran.bits());
        }
    }

    /// One at a time: the next transfer begins when the byte that says so has come.
    #[test]
    fn one_after_the_other_each_takes_what_its_packets_take() {
        let knobs = [("size", "1000"), ("parallel", "1"), ("hosts", "h0..h1")];
        let ran = Rig::star(3).with(shuffle(&knobs)).run(LONG).done();
        assert_eq!(ran.took(), vec![through_star(1_000); 2]);
        assert_eq!(ran.transfers()[0].began, Instant::ZERO + SETUP);
        let rig = Rig::star(4).with(shuffle(&[("size", "10kB"), ("parallel", "1")]));
        let ran = rig.run(LONG).done();
        let mut by_sender: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for t in ran.transfers() {
            by_sender
                .entry(t.from)
                .or_default()
                .push((t.began, t.began + t.took));
        }
        for turns in by_sender.values_mut() {
            turns.sort_unstable();
            assert_eq!(turns.len(), 3);
            assert!(
                turns.windows(2).all(|pair| pair[1].0 > pair[0].1),
                "{turns:?}"
            );
        }
    }

    /// All at once: n - 1 transfers come to each host, on one line, which is idle only while
    /// windows open and close.
    #[test]
    fn a_shuffle_takes_no_less_than_the_lines_need() {
        let rig = Rig::star(5).with(shuffle(&[("size", "200kB")]));
        let ran = rig.run(LONG).done();
        let segments = 200_000_u64.div_ceil(MSS);
        let line = RATE.time_for(ByteCount::new(4 * (200_000 + segments * HEADERS)));
        let took = ran.now.since(Instant::ZERO + SETUP);
        assert!(took > line && took < line + line / 2, "{took:?} {line:?}");
    }

    /// The adversary: a host that hears nothing for a while, and short queues.
    #[test]
    fn it_survives_an_outage() {
        let rig = Rig::lossy_star(6, 2, 1..40, Capacity::Packets(8));
        let ran = rig
            .with(shuffle(&[("size", "100kB"), ("parallel", "2")]))
            .run(LONG)
            .done();
        assert_eq!(ran.transfers().len(), 30);
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(Rig::star(1).with(shuffle(&[])).refused().key, "hosts");
        let alone = shuffle(&[("hosts", "h1")]);
        assert_eq!(Rig::star(3).with(alone).refused().key, "hosts");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn it_always_ends(
            hosts in 2_usize..8, size in 1_u64..60_000, parallel in 0_u32..8,
            packets in 4_u32..40, seed in 0_u64..1_000,
        ) {
            let shuffle = AllToAll {
                size: SizeDistribution::List(vec![ByteCount::new(size), ByteCount::new(1)]),
                parallel: (parallel > 0).then_some(parallel),
                ..AllToAll::default()
            };
            let rig = Rig::lossy_star(hosts, 0, 3..9, Capacity::Packets(packets)).seed(seed);
            let ran = rig.with(shuffle).run(LONG).done();
            prop_assert_eq!(ran.transfers().len(), hosts * (hosts - 1));
        }
    }
}
