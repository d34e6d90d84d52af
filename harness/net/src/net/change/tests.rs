//! Changes against departures by hand, a plain model of a port, and the laws that always hold.

mod hosts;
mod routes;

use std::collections::{BTreeMap, VecDeque};

use narrows_congestion::{ByteCount, Rate};
use proptest::prelude::*;

use super::{Change, ChangeError};
use crate::net::discipline::codel::CodelSpec;
use crate::net::discipline::fq_codel::FqCodelSpec;
use crate::net::discipline::red::RedSpec;
use crate::net::discipline::tail::{NotCapable, Threshold};
use crate::net::port::PoolId;
use crate::net::{
    Attachment, Capacity, DisciplineSpec, DropReason, HostId, ImpairSpec, InService, LinkSpec,
    Network, NicSpec, PoolSpec, PortId, PortSpec, Star, TieOrder, When,
};
use crate::sim::blaster::BlastPacket;
use crate::sim::rng::Probability;
use crate::sim::{SimTime, Tap, TapEvent};

const US: u64 = 1_000_000;
/// 1000 bytes at 1 Gb/s.
const S: u64 = 8 * US;

fn ps(ps: u64) -> SimTime {
    SimTime::from_picos(ps)
}

/// What became of packets, by number: when they were delivered, or why not, and when that was.
#[derive(Default)]
struct Fates {
    delivered: Vec<(u64, SimTime)>,
    dropped: Vec<(u64, SimTime, DropReason)>,
    refused: u64,
}

impl Tap<BlastPacket> for Fates {
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &BlastPacket) {
        match event {
            TapEvent::Received { .. } => self.delivered.push((packet.number, at)),
            TapEvent::Dropped { reason, .. } => self.dropped.push((packet.number, at, reason)),
            TapEvent::NicRefused { .. } => self.refused += 1,
            _ => {}
        }
    }
}

fn packet(number: u64, from: u32, to: u32, len: u32) -> BlastPacket {
    BlastPacket {
        ecn_capable: true,
        ..BlastPacket::new(HostId(from), HostId(to), len, number)
    }
}

/// A network without hosts, with packets given to NICs and changes at given times.
struct Bench {
    network: Network<BlastPacket>,
    fates: Fates,
    now: SimTime,
    sent: u64,
}

impl Bench {
    fn new(network: Network<BlastPacket>) -> Self {
        Self {
            network,
            fates: Fates::default(),
            now: SimTime::ZERO,
            sent: 0,
        }
    }

    /// Until `time`, with the law of conservation after each event.
    fn run(&mut self, time: SimTime) {
        while let Some(event) = self.network.events.pop_until(time) {
            assert!(event.time >= self.now, "time goes back");
            self.now = event.time;
            if let Some((_, slot)) = self.network.handle(event, &mut self.fates) {
                self.network.release(slot);
            }
            self.conserved();
        }
        if time != SimTime::MAX {
            self.now = time;
        }
    }

    fn conserved(&self) {
        let t = self.network.totals();
        assert_eq!(
            t.sent + t.duplicated,
            t.delivered + t.dropped + t.in_network
        );
    }

    fn send(&mut self, from: u32, to: u32, len: u32) {
        self.sent += 1;
        let packet = packet(self.sent, from, to, len);
        // The tap counts what is refused.
        let _ = self
            .network
            .send(self.now, HostId(from), packet, &mut self.fates);
        self.conserved();
    }

    fn apply(&mut self, change: &Change) -> Result<(), ChangeError> {
        let done = self.network.apply(self.now, change, &mut self.fates);
        self.conserved();
        done.map(|_| ())
    }

    fn deliveries(&self) -> Vec<(u64, u64)> {
        let delivered = self.fates.delivered.iter();
        delivered.map(|&(n, at)| (n, at.as_picos())).collect()
    }
}

/// Host 1 sends to host 0 through a switch port with a queue like this at 1 Gb/s and 25 us, which
/// is port 2. Its own link takes a picosecond a byte.
fn through(port: PortSpec) -> Network<BlastPacket> {
    let link = |rate, delay| LinkSpec::new(rate, SimTime::from_micros(delay));
    let fast = Rate::from_gbps(8_000);
    let star = Star {
        hosts: vec![
            Attachment {
                nic: NicSpec::new(Capacity::Unlimited),
                up: link(fast, 0),
                port,
                down: link(Rate::from_gbps(1), 25),
            };
            2
        ],
        pools: vec![PoolSpec {
            size: ByteCount::new(1 << 40),
            reserve: ByteCount::ZERO,
            alpha_num: 1_000,
            alpha_den: 1,
        }],
    };
    let network = star.graph().unwrap().build(1, TieOrder::default()).unwrap();
    assert_eq!(network.port_to(HostId(0)), Some(QUEUE));
    network
}

const QUEUE: PortId = PortId(2);

/// First in, first out by a discipline that decides in turn: CoDel with a target that nothing
/// reaches.
fn fifo_in_turn() -> DisciplineSpec {
    DisciplineSpec::Codel(CodelSpec {
        target: SimTime::from_secs(1_000_000),
        interval: SimTime::from_secs(1),
        max_packet: 1_500,
        ce_threshold: None,
    })
}

fn both_kinds() -> [DisciplineSpec; 2] {
    [DisciplineSpec::DropTail, fifo_in_turn()]
}

fn unlimited(discipline: DisciplineSpec) -> Bench {
    Bench::new(through(PortSpec {
        discipline,
        ..PortSpec::new(Capacity::Unlimited)
    }))
}

/// Four packets of 8 us; after 12 us, in the middle of the second, the rate is halved: the second
/// still ends at 16 us, the others take 16 us each. At 40 us, in the middle of the fourth, it is
/// ten times as high, which is of no use to anyone but those that come then.
#[test]
fn a_rate_holds_from_the_next_packet_on() {
    for discipline in both_kinds() {
        let mut b = unlimited(discipline);
        for _ in 0..4 {
            b.send(1, 0, 1_000);
        }
        let arrived = 1_000;
        b.run(ps(arrived + 12 * US));
        let rate = Rate::from_mbps(500);
        let port = QUEUE;
        b.apply(&Change::Rate { port, rate }).unwrap();
        b.run(ps(arrived + 40 * US));
        let rate = Rate::from_gbps(10);
        b.apply(&Change::Rate { port, rate }).unwrap();
        b.send(1, 0, 1_000);
        b.run(SimTime::MAX);
        let end = |us: u64| arrived + (us + 25) * US;
        let by_hand = [(1, end(8)), (2, end(16)), (3, end(32)), (4, end(48))];
        let last = (5, end(48) + S / 10);
        assert_eq!(b.deliveries(), [&by_hand[..], &[last]].concat());
    }
}

/// Two packets at 8 us each and 25 us on the way. At 10 us the first is on the wire and arrives at
/// 33 us whatever the delay becomes; the second has the new one: 16 + 1 = 17 us overtakes, 16 + 100
/// does not.
#[test]
fn a_packet_has_the_delay_with_which_it_left() {
    for discipline in both_kinds() {
        for (delay, order) in [(1, [(2, 17), (1, 33)]), (100, [(1, 33), (2, 116)])] {
            let mut b = unlimited(discipline.clone());
            b.send(1, 0, 1_000);
            b.send(1, 0, 1_000);
            b.run(ps(2_000 + 10 * US));
            let delay = SimTime::from_micros(delay);
            b.apply(&Change::Delay { port: QUEUE, delay }).unwrap();
            b.run(SimTime::MAX);
            let expected = order.map(|(n, us)| (n, 1_000 + us * US));
            assert_eq!(b.deliveries(), expected);
        }
    }
}

/// A delay longer than the run is old, changed again before the first packet has arrived.
#[test]
fn delays_may_change_as_often_as_one_likes() {
    let mut b = unlimited(DisciplineSpec::DropTail);
    let delays = [1_000_000, 3, 500, 1];
    for us in delays {
        b.apply(&Change::Delay {
            port: QUEUE,
            delay: SimTime::from_micros(us),
        })
        .unwrap();
        b.send(1, 0, 1_000);
        b.run(b.now + ps(9 * US));
    }
    b.run(SimTime::MAX);
    let sent = |n: u64| (n - 1) * 9 * US + 1_000 + S;
    let expected = [4, 2, 3, 1].map(|n| (n, sent(n) + delays[n as usize - 1] * US));
    let mut delivered = b.deliveries();
    delivered.sort_unstable_by_key(|d| d.1);
    let mut by_time = expected;
    by_time.sort_unstable_by_key(|d| d.1);
    assert_eq!(delivered, by_time);
}

/// Six packets; at 20 us the first has 5 us left on the wire of 25, the second left at 16 us, the
/// third is half sent: all three are lost. The others wait, and so does one that comes meanwhile;
/// from 100 us on they leave every 8 us.
#[test]
fn a_link_that_goes_down_loses_what_is_on_the_wire_and_keeps_the_queue() {
    for discipline in both_kinds() {
        let mut b = unlimited(discipline);
        for _ in 0..6 {
            b.send(1, 0, 1_000);
        }
        b.run(ps(1_000 + 20 * US));
        b.apply(&Change::LinkDown { port: QUEUE }).unwrap();
        b.apply(&Change::LinkDown { port: QUEUE }).unwrap();
        assert!(!b.network.link_is_up(QUEUE));
        b.run(ps(50 * US));
        assert_eq!(b.network.queued(b.now, QUEUE).packets, 3);
        b.send(1, 0, 1_000);
        b.run(ps(100 * US));
        assert!(
            b.network.events.is_empty(),
            "nothing happens while it is down"
        );
        b.apply(&Change::LinkUp { port: QUEUE }).unwrap();
        b.apply(&Change::LinkUp { port: QUEUE }).unwrap();
        b.run(SimTime::MAX);
        let lost: Vec<_> = b
            .fates
            .dropped
            .iter()
            .map(|&(n, at, why)| (n, at.as_picos(), why))
            .collect();
        let when = 1_000 + 20 * US;
        assert_eq!(lost, [1, 2, 3].map(|n| (n, when, DropReason::LinkDown)));
        assert_eq!(b.network.stats(QUEUE).dropped(DropReason::LinkDown), 3);
        let left = [4, 5, 6, 7].map(|n| (n, 100 * US + (n - 3) * S + 25 * US));
        assert_eq!(b.deliveries(), left);
    }
}

/// A queue of three fills while the link is down, and no packet is served: the fourth finds it
/// full.
#[test]
fn a_queue_fills_while_its_link_is_down() {
    for discipline in both_kinds() {
        for (in_service, fit) in [(InService::Counted, 3), (InService::NotCounted, 4)] {
            let mut b = Bench::new(through(PortSpec {
                discipline: discipline.clone(),
                in_service,
                ..PortSpec::new(Capacity::Packets(3))
            }));
            b.apply(&Change::LinkDown { port: QUEUE }).unwrap();
            for _ in 0..10 {
                b.send(1, 0, 1_000);
            }
            b.run(ps(S));
            assert!(b.network.events.is_empty(), "what waits has no event");
            assert_eq!(b.fates.dropped.len(), 10 - fit);
            assert!(b.fates.dropped.iter().all(|d| d.2 == DropReason::Full));
            b.apply(&Change::LinkUp { port: QUEUE }).unwrap();
            b.run(SimTime::MAX);
            assert_eq!(b.fates.delivered.len(), fit);
        }
    }
}

/// A clean link gets a fault, another one, and none; packets are counted from each on.
#[test]
fn faults_come_and_go() {
    let mut b = unlimited(DisciplineSpec::DropTail);
    let second = ImpairSpec {
        loss: When::EachNth(2),
        ..ImpairSpec::default()
    };
    let first = ImpairSpec {
        duplicate: When::Packets(vec![1]),
        ..ImpairSpec::default()
    };
    for impair in [ImpairSpec::default(), second, first, ImpairSpec::default()] {
        b.apply(&Change::Faults {
            port: QUEUE,
            impair,
        })
        .unwrap();
        for _ in 0..5 {
            b.send(1, 0, 1_000);
        }
        b.run(b.now + ps(100 * US));
    }
    let lost: Vec<u64> = b.fates.dropped.iter().map(|d| d.0).collect();
    assert_eq!(lost, [7, 9]);
    let stats = b.network.stats(QUEUE);
    assert_eq!((stats.dropped(DropReason::Lost), stats.duplicated), (2, 1));
    let eleven = b.fates.delivered.iter().filter(|d| d.0 == 11).count();
    assert_eq!((eleven, b.fates.delivered.len()), (2, 19));
}

/// Whether a loss is drawn does not depend on whether there was none for a while.
#[test]
fn a_fault_that_comes_back_draws_on() {
    let half = ImpairSpec {
        loss: When::Chance(Probability::ratio(1, 2)),
        ..ImpairSpec::default()
    };
    let lost = |pauses: bool| {
        let mut b = unlimited(DisciplineSpec::DropTail);
        for n in 0..40 {
            let clean = pauses && n % 2 == 1;
            let impair = if clean {
                ImpairSpec::default()
            } else {
                half.clone()
            };
            b.apply(&Change::Faults {
                port: QUEUE,
                impair,
            })
            .unwrap();
            b.send(1, 0, 1_000);
            b.run(b.now + ps(100 * US));
        }
        b.fates.dropped.iter().map(|d| d.0).collect::<Vec<_>>()
    };
    let (always, with_pauses) = (lost(false), lost(true));
    assert!(always.len() > 10 && with_pauses.len() > 5);
    let drawn: Vec<u64> = with_pauses.iter().map(|n| n.div_ceil(2)).collect();
    let first: Vec<u64> = always.into_iter().filter(|&n| n <= 20).collect();
    assert_eq!(drawn, first);
}

/// Ten at one instant, and ten more behind them: the mark at K, then at another K, then never.
#[test]
fn a_marking_threshold_holds_for_those_that_arrive() {
    let step = |k| DisciplineSpec::EcnStep {
        threshold: Threshold::Packets(k),
        not_capable: NotCapable::Drop,
    };
    let mut b = unlimited(step(3));
    let marks = [
        (None, 6),
        (Some(step(14)), 5),
        (Some(DisciplineSpec::DropTail), 0),
    ];
    let mut before = 0;
    for (discipline, marked) in marks {
        if let Some(discipline) = discipline {
            b.apply(&Change::Discipline {
                port: QUEUE,
                discipline,
            })
            .unwrap();
        }
        for _ in 0..10 {
            b.send(1, 0, 1_000);
        }
        b.run(b.now + ps(20_000));
        let marks = b.network.stats(QUEUE).marks;
        assert_eq!(marks - before, marked);
        before = marks;
    }
}

fn red(max_p: u64) -> DisciplineSpec {
    DisciplineSpec::Red(RedSpec {
        min: Threshold::Packets(1),
        max: Threshold::Packets(50),
        max_p: Probability::ratio(max_p, 100),
        weight_log2: 9,
        gentle: false,
        idle_step: ps(S),
        above_max: Default::default(),
        not_capable: Default::default(),
    })
}

/// RED with a weight of 1/512 needs hundreds of packets to learn of a queue: the average that it
/// has learnt stays when its other values become others, and so what it marks next.
#[test]
fn red_keeps_its_average_when_its_values_change() {
    let marks = |fresh: bool| {
        let mut b = unlimited(red(0));
        for _ in 0..600 {
            b.send(1, 0, 1_000);
            b.run(b.now + ps(1_000));
        }
        if fresh {
            let discipline = DisciplineSpec::DropTail;
            let port = QUEUE;
            b.apply(&Change::Discipline { port, discipline }).unwrap();
        }
        let before = b.network.stats(QUEUE).marks + b.fates.dropped.len() as u64;
        b.apply(&Change::Discipline {
            port: QUEUE,
            discipline: red(100),
        })
        .unwrap();
        b.send(1, 0, 1_000);
        b.run(b.now + ps(2_000));
        b.network.stats(QUEUE).marks + b.fates.dropped.len() as u64 - before
    };
    assert_eq!((marks(false), marks(true)), (1, 0));
}

/// CoDel with a target that nothing reaches gets one of zero: from an interval later it drops.
#[test]
fn codel_takes_other_values_while_packets_wait() {
    let codel = |target| CodelSpec {
        target,
        interval: SimTime::from_micros(100),
        max_packet: 0,
        ce_threshold: None,
    };
    let of = |fq: bool, target| match (fq, codel(target)) {
        (false, spec) => DisciplineSpec::Codel(spec),
        (true, spec) => DisciplineSpec::FqCodel(FqCodelSpec::new(spec)),
    };
    for fq in [false, true] {
        let mut b = unlimited(of(fq, SimTime::from_secs(1)));
        for _ in 0..100 {
            b.send(1, 0, 1_000);
        }
        b.run(ps(300 * US));
        assert_eq!(b.network.stats(QUEUE).marks, 0);
        b.apply(&Change::Discipline {
            port: QUEUE,
            discipline: of(fq, SimTime::ZERO),
        })
        .unwrap();
        b.run(SimTime::MAX);
        assert!(b.network.stats(QUEUE).marks > 3);
        assert_eq!(b.fates.delivered.len(), 100);
    }
}

/// The next packet is chosen when the link goes down, whoever looks later: it has waited for 4 us
/// then, and not for 100.
#[test]
fn a_packet_has_its_turn_when_the_link_goes_down() {
    let mut b = unlimited(DisciplineSpec::Codel(CodelSpec {
        target: SimTime::from_secs(1),
        interval: SimTime::from_secs(1),
        max_packet: 0,
        ce_threshold: Some(ps(50 * US)),
    }));
    for _ in 0..3 {
        b.send(1, 0, 1_000);
    }
    b.run(ps(1_000 + 4 * US));
    b.apply(&Change::LinkDown { port: QUEUE }).unwrap();
    b.run(ps(100 * US));
    b.apply(&Change::LinkUp { port: QUEUE }).unwrap();
    b.run(SimTime::MAX);
    assert_eq!(
        (b.fates.delivered.len(), b.network.stats(QUEUE).marks),
        (2, 1)
    );
}

/// Three packets at once in an idle NIC with an overhead of up to 100 us, at 8 us each: where it
/// was idle before a packet it still is, until the same instant, and where it was not the next one
/// follows at once. A packet whose overhead has not ended is not on the wire.
#[test]
fn an_overhead_that_leaves_the_wire_idle_is_not_shortened() {
    let network = |seed| {
        let mut a = crate::net::rig::attachment();
        a.nic.overhead = SimTime::from_micros(100);
        let graph = Star::uniform(2, &a).graph().unwrap();
        Bench::new(graph.build(seed, TieOrder::default()).unwrap())
    };
    let port = PortId(1);
    let mut idle = 0;
    for seed in 0..50 {
        let run = |rate: Option<Rate>| {
            let mut b = network(seed);
            for _ in 0..3 {
                b.send(1, 0, 1_000);
            }
            if let Some(rate) = rate {
                b.apply(&Change::Rate { port, rate }).unwrap();
            }
            let mut left = Vec::new();
            while let Some(at) = b.network.nic_next_departure(b.now, HostId(1)) {
                left.push(at.as_picos());
                b.run(at);
            }
            left
        };
        let (slow, fast) = (run(None), run(Some(Rate::from_gbps(2))));
        assert_eq!(slow.len(), 3);
        let mut free = 0;
        let mut was_free = 0;
        for (slow, fast) in slow.into_iter().zip(fast) {
            let start = if slow - S > was_free {
                idle += 1;
                slow - S
            } else {
                free
            };
            assert_eq!(fast, start + S / 2, "seed {seed}");
            (was_free, free) = (slow, fast);
        }
    }
    assert!(idle > 60 && idle < 140, "{idle} of 150 found the wire idle");
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut b = unlimited(DisciplineSpec::DropTail);
    let port = QUEUE;
    let rate = Rate::from_bits_per_sec(0);
    let queue = |port, discipline| Change::Discipline { port, discipline };
    let flow_queues = DisciplineSpec::FqCodel(FqCodelSpec::new(CodelSpec {
        target: ps(1),
        interval: ps(1),
        max_packet: 0,
        ce_threshold: None,
    }));
    let backwards = ImpairSpec {
        reorder: When::EachNth(2),
        reorder_min: ps(2),
        reorder_max: ps(1),
        ..ImpairSpec::default()
    };
    let (span, ring) = (ps(1), 1);
    let host = HostId(2);
    let cases = [
        (
            Change::Rate { port, rate },
            "a link's rate is from 1 b/s to 8 Tb/s, not 0 b/s",
        ),
        (
            Change::LinkDown { port: PortId(4) },
            "there is no port 4: they are 0 to 3",
        ),
        (
            Change::Faults {
                port,
                impair: backwards,
            },
            "the least delay of reordering is above the greatest",
        ),
        (
            queue(PortId(1), DisciplineSpec::DropTail),
            "port 1 is a host's NIC, which has no queue discipline",
        ),
        (
            queue(port, flow_queues),
            "the queue discipline of port 2 cannot become fq-codel while packets wait: \
             first-in, first-out rules replace each other, codel and fq-codel (with as many \
             queues) take other values",
        ),
        (
            Change::Pause { host, span, ring },
            "there is no host 2: they are 0 to 1",
        ),
        (
            Change::NicReset { host, span },
            "there is no host 2: they are 0 to 1",
        ),
    ];
    for (change, message) in cases {
        assert_eq!(b.apply(&change).unwrap_err().to_string(), message);
    }
    let fast = Rate::from_bits_per_sec(8_000_000_000_001);
    assert_eq!(
        b.apply(&Change::Rate { port, rate: fast }),
        Err(ChangeError::Rate { rate: fast })
    );
    assert!(b.network.link_is_up(port) && b.network.events.is_empty());
    b.send(1, 0, 1_000);
    b.run(SimTime::MAX);
    assert_eq!(b.deliveries(), [(1, 1_000 + S + 25 * US)]);
}

/// What happens to a port in the property below.
#[derive(Clone, Debug)]
enum Step {
    Send(u32),
    Rate(usize),
    Delay(u64),
    Down,
    Up,
    Limit(u32),
}

/// Rates with a byte time of whole picoseconds, in Gb/s.
const RATES: [u64; 5] = [1, 2, 5, 8, 10];

/// A port from the words of its documentation: a transmitter that holds one packet, a queue, and
/// a wire of packets with the time at which each arrives.
struct Model {
    limit: u32,
    in_service: InService,
    byte_ps: u64,
    delay: u64,
    up: bool,
    /// Number, length, and when it ends if it is being sent.
    transmitter: Option<(u64, u32, Option<u64>)>,
    queue: VecDeque<(u64, u32)>,
    wire: Vec<(u64, u64)>,
    delivered: Vec<(u64, u64)>,
    dropped: BTreeMap<u64, DropReason>,
    area: u128,
    bytes: u128,
    since: u64,
}

impl Model {
    fn held(&self) -> (u64, u64) {
        let waiting: u64 = self.queue.iter().map(|p| u64::from(p.1)).sum();
        let sending = self.transmitter.map_or(0, |t| u64::from(t.1));
        let packets = self.queue.len() as u64 + u64::from(self.transmitter.is_some());
        (packets, waiting + sending)
    }

    fn integrate(&mut self, now: u64) {
        let (mut packets, mut bytes) = self.held();
        if self.in_service == InService::NotCounted
            && let Some((_, len, _)) = self.transmitter
        {
            packets -= 1;
            bytes -= u64::from(len);
        }
        let span = u128::from(now - self.since);
        self.area += span * u128::from(packets);
        self.bytes += span * u128::from(bytes);
        self.since = now;
    }

    fn load(&mut self, now: u64) {
        if self.transmitter.is_none()
            && let Some((n, len)) = self.queue.pop_front()
        {
            let end = now + u64::from(len) * self.byte_ps;
            self.transmitter = Some((n, len, self.up.then_some(end)));
        }
    }

    /// All departures until `now`, one after the other.
    fn advance(&mut self, now: u64) {
        while let Some((n, _, Some(end))) = self.transmitter
            && end <= now
        {
            self.integrate(end);
            self.wire.push((n, end + self.delay));
            self.transmitter = None;
            self.load(end);
        }
        self.integrate(now);
        let (gone, left) = self.wire.iter().partition(|p| p.1 <= now);
        self.wire = left;
        let gone: Vec<(u64, u64)> = gone;
        self.delivered.extend(gone);
    }

    fn arrive(&mut self, now: u64, n: u64, len: u32) {
        self.advance(now);
        let fits = match self.in_service {
            InService::Counted => self.held().0 < u64::from(self.limit),
            InService::NotCounted => {
                self.transmitter.is_none() || (self.queue.len() as u32) < self.limit
            }
        };
        if fits {
            self.queue.push_back((n, len));
            self.load(now);
        } else {
            self.dropped.insert(n, DropReason::Full);
        }
    }

    fn down(&mut self) {
        let sending = self.transmitter.filter(|t| t.2.is_some());
        let lost = self.wire.drain(..).map(|p| p.0);
        for n in lost.chain(sending.map(|t| t.0)) {
            self.dropped.insert(n, DropReason::LinkDown);
        }
        if sending.is_some() {
            self.transmitter = None;
        }
    }

    fn step(&mut self, now: u64, step: &Step) {
        self.advance(now);
        match *step {
            Step::Send(_) => {}
            Step::Rate(n) => self.byte_ps = 8_000 / RATES[n],
            Step::Delay(delay) => self.delay = delay,
            Step::Limit(limit) => self.limit = limit,
            Step::Down if self.up => {
                self.up = false;
                self.down();
                self.load(now);
            }
            Step::Up if !self.up => {
                self.up = true;
                if let Some((_, len, end)) = &mut self.transmitter {
                    *end = Some(now + u64::from(*len) * self.byte_ps);
                }
            }
            Step::Down | Step::Up => {}
        }
    }
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let step = prop_oneof![
        8 => (1u32..1_500).prop_map(Step::Send),
        2 => (0..RATES.len()).prop_map(Step::Rate),
        2 => (0u64..40 * US).prop_map(Step::Delay),
        1 => Just(Step::Down),
        2 => Just(Step::Up),
        1 => (0u32..12).prop_map(Step::Limit),
    ];
    // Together, close, and far apart.
    let gap = prop_oneof![3 => Just(0u64), 3 => 0u64..3 * US, 1 => 0u64..100 * US];
    (gap, step)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Against the model, of either kind of queue and of either way to count: what is delivered and
    /// when, what is dropped and why, the queue, its integral and the pool at every step. As the
    /// model is always sending when it can, so is the port.
    #[test]
    fn a_port_that_changes_is_the_model(
        steps in proptest::collection::vec(step(), 1..80),
        in_turn: bool,
        counted: bool,
        limit in 1u32..12,
    ) {
        let in_service = if counted { InService::Counted } else { InService::NotCounted };
        let discipline = both_kinds()[usize::from(in_turn)].clone();
        let mut b = Bench::new(through(PortSpec {
            capacity: Capacity::Packets(limit),
            in_service,
            discipline,
            pool: Some(PoolId(0)),
        }));
        b.network.measure_queue(QUEUE);
        let mut model = Model {
            limit,
            in_service,
            byte_ps: 8_000,
            delay: 25 * US,
            up: true,
            transmitter: None,
            queue: VecDeque::new(),
            wire: Vec::new(),
            delivered: Vec::new(),
            dropped: BTreeMap::new(),
            area: 0,
            bytes: 0,
            since: 0,
        };
        let mut now = 0;
        for (gap, step) in &steps {
            now += gap;
            b.run(ps(now));
            let port = QUEUE;
            match *step {
                Step::Send(len) => {
                    // On its own link alone, and a picosecond later it is there.
                    b.send(1, 0, len);
                    now += u64::from(len);
                    b.run(ps(now));
                    model.arrive(now, b.sent, len);
                }
                Step::Rate(n) => b.apply(&Change::Rate { port, rate: Rate::from_gbps(RATES[n]) }).unwrap(),
                Step::Delay(delay) => b.apply(&Change::Delay { port, delay: ps(delay) }).unwrap(),
                Step::Down => b.apply(&Change::LinkDown { port }).unwrap(),
                Step::Up => b.apply(&Change::LinkUp { port }).unwrap(),
                Step::Limit(n) => {
                    b.apply(&Change::Capacity { port, capacity: Capacity::Packets(n) }).unwrap();
                }
            }
            model.step(now, step);
            let (packets, bytes) = model.held();
            let held = b.network.queued(b.now, QUEUE);
            prop_assert_eq!((u64::from(held.packets), held.bytes), (packets, bytes), "{:?}", step);
            let area = b.network.queue_area(b.now, QUEUE).unwrap();
            prop_assert_eq!((area.packets, area.bytes), (model.area, model.bytes), "{:?}", step);
            prop_assert_eq!(b.network.pool_used(b.now, PoolId(0)).0, bytes);
        }
        b.run(ps(now));
        b.apply(&Change::LinkUp { port: QUEUE }).unwrap();
        model.step(now, &Step::Up);
        b.run(SimTime::MAX);
        model.advance(1 << 60);
        let by_number = |mut all: Vec<(u64, u64)>| { all.sort_unstable(); all };
        prop_assert_eq!(by_number(b.deliveries()), by_number(model.delivered));
        let dropped: BTreeMap<_, _> = b.fates.dropped.iter().map(|d| (d.0, d.2)).collect();
        prop_assert_eq!(dropped.len(), b.fates.dropped.len(), "one is dropped twice");
        prop_assert_eq!(dropped, model.dropped);
        prop_assert_eq!(b.network.totals().in_network, 0);
        prop_assert_eq!(b.network.pool_used(ps(1 << 60), PoolId(0)).0, 0);
    }
}
